"""Each cleaning step on small tables whose marks can be told by hand, with its edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import aliquot
from aliquot.annotation.clean import PRESETS, build_chain
from aliquot.annotation.cleaning_steps import STEPS, NotApplicableError, find_step
from aliquot.annotation.judgment_rows import judgment_rows, list_pages
from aliquot.core.judgments import CONTROL_ITEM
from aliquot.errors import AliquotError, NameUnknownError, OptionError


def table(**columns: Any) -> aliquot.Judgments:
    """Judgments of as many rows as the longest column; single values are repeated."""
    height = max(len(value) for value in columns.values() if isinstance(value, list))
    filled = {name: value if isinstance(value, list) else [value] * height for name, value in columns.items()}
    filled.setdefault("item", list(range(height)))
    filled.setdefault("system", ["A"] * height)
    filled.setdefault("value", [1.0] * height)
    return aliquot.Judgments(pl.DataFrame(filled, strict=False))


def marks(judgments: aliquot.Judgments, step: str) -> list[str | None]:
    """The reasons a step gives, row by row."""
    spec = build_chain(None, step)[0]
    return find_step(spec.name).run(judgment_rows(judgments), spec.parameters).reasons.to_list()


def rows(judgments: aliquot.Judgments, step: str) -> list[int]:
    return [row for row, reason in enumerate(marks(judgments, step)) if reason is not None]


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("burn_in:first=-3", "first=-3 should be at least 0"),
        ("outliers:k=-1", "k=-1 should be at least 0"),
        ("speeders:share=40", "share=40 should be between 0 and 1"),
        ("fast_pages:pages=0", "pages=0 should be at least 1"),
        ("skips:pages=0", "pages=0 should be at least 1"),
        ("straight_liners:share=90", "share=90 should be between 0 and 1"),
        ("repeats:maximum=-1", "maximum=-1 should be at least 0"),
        ("exam:minimum=80", "minimum=80 should be between 0 and 1"),
        ("controls:tolerance=-1", "tolerance=-1 should be at least 0"),
    ],
)
def test_thresholds_that_make_no_sense_are_refused_even_where_the_step_does_not_apply(step, said):
    with pytest.raises(OptionError, match=f"{step.partition(':')[0]}: {said}"):
        marks(table(annotator=["x", "y"]), step)


# -- single judgments ------------------------------------------------------------------------------------------------


def test_scale_and_labels():
    judgments = table(value=[-1.0, 0.0, 50.0, 100.0, 101.0, None])
    assert rows(judgments, "scale:low=0,high=100") == [0, 4]
    assert rows(table(value=[0.0, 0.5, 1.0, 0.7]), "labels:allowed=0|0.5|1") == [3]
    with pytest.raises(OptionError, match="low end must be below"):
        marks(judgments, "scale:low=5,high=5")
    with pytest.raises(OptionError, match="needs the parameter"):
        build_chain(None, "scale:low=5")


@pytest.mark.parametrize(("keep", "expected"), [("last", [0, 1]), ("first", [1, 2]), ("none", [0, 1, 2])])
def test_contradictory_duplicates(keep, expected):
    judgments = table(item=[7, 7, 7, 8], annotator="x", value=[1.0, 2.0, 3.0, 4.0], order=[1, 2, 3, 4])
    assert rows(judgments, f"duplicates:keep={keep}") == expected


def test_duplicates_that_agree_keep_one_and_repeats_are_none():
    same = table(item=[7, 7], annotator="x", value=[2.0, 2.0])
    assert rows(same, "duplicates:keep=none") == [1]
    assert rows(table(item=[7, 7], annotator="x", value=[2.0, 3.0], repeat=[False, True]), "duplicates") == []
    assert rows(table(item=[7, 7], annotator=["x", "y"], value=[2.0, 3.0]), "duplicates") == []


def test_the_last_is_the_last_in_time_not_in_the_table():
    judgments = table(item=[7, 7], annotator="x", value=[1.0, 2.0], time=["2024-01-02", "2024-01-01"])
    assert rows(judgments, "duplicates") == [1]


def test_outliers_are_those_of_the_formula():
    """P1.2: z of each annotator, then Q1 - 1.5 IQR and Q3 + 1.5 IQR of all z."""
    rng = np.random.default_rng(0)
    value = np.concatenate([rng.normal(50, 5, 40), rng.normal(80, 10, 40)])
    value[[3, 45]] = [0.0, 170.0]
    people = ["a"] * 40 + ["b"] * 40
    z = np.concatenate([(part - part.mean()) / part.std() for part in (value[:40], value[40:])])
    low, high = np.quantile(z, [0.25, 0.75])
    expected = np.flatnonzero((z < low - 1.5 * (high - low)) | (z > high + 1.5 * (high - low))).tolist()
    assert {3, 45} <= set(expected)
    assert rows(table(value=value.tolist(), annotator=people), "outliers") == expected


def test_outliers_leave_annotators_with_few_or_equal_answers_alone():
    judgments = table(value=[1.0] * 10 + [99.0, 0.0], annotator=["a"] * 10 + ["b", "c"])
    assert rows(judgments, "outliers") == []
    spec = build_chain(None, "outliers")[0]
    notes = find_step("outliers").run(judgment_rows(judgments), spec.parameters).notes
    assert any("only equal" in note for note in notes)
    assert any("fewer than 5" in note for note in notes)


def test_outliers_within_each_annotator():
    value = [0.0, 10.0, 10.0, 11.0, 9.0, 10.0, 10.5, 9.5, *np.linspace(0, 100, 8)]
    judgments = table(value=list(value), annotator=["a"] * 8 + ["b"] * 8)
    assert rows(judgments, "outliers:within=annotator") == [0]


# -- time ----------------------------------------------------------------------------------------------------------


def test_burn_in_takes_the_first_of_each_annotator_and_criterion():
    people, order = ["a"] * 5 + ["b"] * 3, [5, 4, 3, 2, 1, 1, 2, 3]
    assert rows(table(annotator=people, order=order), "burn_in:first=2") == [3, 4, 5, 6]
    twice = table(item=[0, 0, 1, 1], annotator="a", criterion=["f", "g"] * 2, order=[1, 2, 3, 4])
    assert rows(twice, "burn_in:first=1") == [0, 1]


def test_burn_in_of_the_korean_study():
    """25 raters x 10 first judgments: 250 of 8,058 (P1.2)."""
    people = [f"r{row % 25}" for row in range(8058)]
    assert len(rows(table(annotator=people, order=list(range(8058))), "burn_in:first=10")) == 250


def test_burn_in_without_an_order_is_not_guessed():
    with pytest.raises(NotApplicableError, match="came first"):
        marks(table(annotator=["a", "a"]), "burn_in")


def test_speeders_at_forty_percent_of_ten_minutes():
    """P3.3: 240 s or less of 600 s; 240 itself is too fast."""
    people, seconds = ["slow"] * 3 + ["edge"] * 3 + ["fast"] * 3, [100.0, 100.0, 41.0] + [80.0] * 3 + [10.0] * 3
    judgments = table(annotator=people, seconds=seconds)
    assert rows(judgments, "speeders:share=0.4,expected=600") == [3, 4, 5, 6, 7, 8]
    assert rows(judgments, "speeders:share=0.4,expected=60,per=page") == [6, 7, 8]


def test_a_missing_or_negative_time_is_not_haste():
    judgments = table(annotator=["a"] * 4 + ["b"] * 4, seconds=[100.0, None, None, -5.0, 20.0, 20.0, 20.0, 20.0])
    answers = judgment_rows(judgments)
    assert answers.negative_times == 1
    assert judgment_rows(table(annotator=["a"] * 4, seconds=[0.0, -0.5, 0.5, 1.0])).negative_times == 1
    assert rows(judgments, "speeders:share=0.4,expected=400") == [4, 5, 6, 7]
    assert rows(table(annotator=["a", "b"], seconds=[-1.0, 5.0]), "fast_pages:seconds=3") == []


def test_speeders_against_the_median_annotator():
    people = [name for name in "abcde" for _ in range(6)]
    seconds = [value for value in (30.0, 32.0, 29.0, 31.0, 8.0) for _ in range(6)]
    assert rows(table(annotator=people, seconds=seconds), "speeders") == [24, 25, 26, 27, 28, 29]
    with pytest.raises(NotApplicableError, match="timed pages"):
        marks(table(annotator=["a", "b"], seconds=[1.0, 2.0]), "speeders")
    with pytest.raises(OptionError, match="should be seconds"):
        marks(table(annotator=["a"], seconds=[1.0]), "speeders:expected=long")


def test_pages_add_up_unless_their_time_is_written_on_each_answer():
    own = table(item=[0, 0, 1, 1], annotator="a", criterion=["f", "g"] * 2, seconds=[4.0, 6.0, 9.0, 9.0])
    assert list_pages(judgment_rows(own))["seconds"].to_list() == [10.0, 9.0]
    paged = table(annotator="a", page=["p1", "p1", "p2"], seconds=[4.0, 6.0, 9.0])
    assert list_pages(judgment_rows(paged))["seconds"].to_list() == [10.0, 9.0]
    twice = table(item=[0, 0], annotator="a", seconds=[4.0, 6.0])
    assert list_pages(judgment_rows(twice))["seconds"].to_list() == [4.0, 6.0]


def test_fast_pages_ban_or_mark_the_page():
    """P8.4: a page in less than 15 s; 15 s itself will do."""
    judgments = table(annotator=["a"] * 3 + ["b"] * 3, seconds=[20.0, 14.9, 20.0, 15.0, 15.0, 15.0])
    assert rows(judgments, "fast_pages") == [0, 1, 2]
    assert rows(judgments, "fast_pages:mark=page") == [1]
    assert rows(judgments, "fast_pages:pages=2") == []


def test_skipped_pages():
    """P8.4: five skipped pages are too many; pending ones are not skipped."""
    value = [None] * 5 + [1.0] + [None] * 4 + [1.0]
    people, seconds = ["a"] * 6 + ["b"] * 5, [3.0] * 11
    assert rows(table(value=value, annotator=people, seconds=seconds), "skips") == [5]
    pending = table(value=value, annotator=people, state=["pending"] * 11)
    assert rows(pending, "skips") == []
    said = table(value=value, annotator=people, state=["skipped"] * 11)
    assert rows(said, "skips:pages=4") == [5, 10]


# -- people --------------------------------------------------------------------------------------------------------


def test_straight_liners():
    people = ["line"] * 12 + ["varied"] * 12 + ["few"] * 3
    value = [4.0] * 12 + [4.0] * 11 + [3.0] + [4.0] * 3
    judgments = table(annotator=people, value=value)
    assert rows(judgments, "straight_liners") == list(range(12))
    assert rows(judgments, "straight_liners:share=0.9") == list(range(24))
    assert rows(judgments, "straight_liners:minimum=3") == [*range(12), 24, 25, 26]


def test_straight_lining_is_of_what_was_shown():
    judgments = table(annotator="x", value=[3.0, -3.0] * 6, shown=[3.0] * 12)
    assert rows(judgments, "straight_liners") == []
    assert len(rows(judgments, "straight_liners:column=shown")) == 12
    with pytest.raises(NotApplicableError, match="unknown column 'nothing'"):
        marks(judgments, "straight_liners:column=nothing")


def test_repeats_mark_whoever_contradicts_themselves():
    people, value, again, item = [], [], [], []
    for number, name in enumerate("abcdefgh"):
        for question in range(3):
            apart = 40.0 if name == "h" else 2.0 + number
            people += [name, name]
            value += [50.0, 50.0 + apart]
            again += [False, True]
            item += [question, question]
    judgments = table(item=item, annotator=people, value=value, repeat=again)
    assert rows(judgments, "repeats") == list(range(42, 48))
    assert rows(judgments, "repeats:maximum=8.5") == list(range(42, 48))
    assert len(rows(judgments, "repeats:maximum=6.5")) == 18
    unflagged = table(item=item, annotator=people, value=value)
    assert rows(unflagged, "repeats") == list(range(42, 48))


def test_repeats_need_repeats_and_company():
    with pytest.raises(NotApplicableError, match="twice"):
        marks(table(annotator=["a", "b"]), "repeats")
    with pytest.raises(NotApplicableError, match="too few for quartiles"):
        marks(table(item=[0, 0], annotator="a", value=[1.0, 2.0]), "repeats")


def test_controls_with_known_answers():
    """P8.4: banned below 70 %; the judgments to controls are about no system."""
    people = ["good"] * 5 + ["bad"] * 5
    control = [True, True, True, False, False] * 2
    expected = [1.0, 0.0, 1.0, None, None] * 2
    value = [1.0, 0.0, 1.0, 0.3, 0.4, 1.0, 1.0, 0.0, 0.3, 0.4]
    judgments = table(annotator=people, control=control, expected=expected, value=value)
    assert marks(judgments, "controls") == ["control item"] * 3 + [None] * 2 + ["controls"] * 5
    assert rows(judgments, "controls:keep=yes") == [5, 6, 7, 8, 9]
    assert rows(judgments, "controls:keep=yes,minimum=0.3") == []
    assert rows(judgments, "controls:keep=yes,tolerance=1") == []


def test_seventy_percent_is_enough():
    judgments = table(annotator="x", control=True, expected=1.0, value=[1.0] * 7 + [0.0] * 3)
    assert rows(judgments, "controls:keep=yes") == []
    assert len(rows(judgments, "controls:keep=yes,minimum=0.71")) == 10


@pytest.mark.parametrize(("right", "admitted"), [(7, False), (8, True), (9, True)])
def test_eighty_percent_of_the_exam_are_enough(right, admitted):
    """P8.4: admitted from 80 % on."""
    judgments = table(annotator="x", control="exam", expected=1.0, value=[1.0] * right + [0.0] * (10 - right))
    assert rows(judgments, "exam") == ([] if admitted else list(range(10)))


@pytest.mark.parametrize(("value", "passed"), [(78.0, True), (82.0, True), (77.9, False), (82.1, False)])
@pytest.mark.parametrize("kind", ["exam", "control"])
def test_an_answer_at_the_end_of_the_tolerance_is_right(kind, value, passed):
    judgments = table(annotator="x", control="exam" if kind == "exam" else True, expected=80.0, value=[value])
    spec = "exam:tolerance=2" if kind == "exam" else "controls:keep=yes,tolerance=2"
    assert rows(judgments, spec) == ([] if passed else [0])


@pytest.mark.parametrize(("copy", "passed"), [(59.9, True), (60.0, False), (60.1, False)])
def test_a_damaged_copy_must_score_below_its_original(copy, passed):
    """The original was scored 50 and 70: 60 in the mean."""
    judgments = table(item=[0, 0, 0], annotator="x", control=[False, False, True], value=[50.0, 70.0, copy])
    assert rows(judgments, "controls:keep=yes") == ([] if passed else [0, 1, 2])


def test_marked_originals_are_no_measure_of_a_damaged_copy():
    """The original counts with 50; with the marked 10 it would be 30 in the mean, below the copy."""
    judgments = table(
        item=[0, 0, 0],
        annotator="x",
        control=[False, False, True],
        value=[10.0, 50.0, 40.0],
        marked=["outliers", None, None],
    )
    assert rows(judgments, "controls:keep=yes") == []


@pytest.mark.parametrize(("reason", "failed"), [("outliers", []), (CONTROL_ITEM, [1])])
def test_controls_marked_as_such_count_and_those_marked_otherwise_do_not(reason, failed):
    """A wrong answer and a right one: half of two, or one of one."""
    judgments = table(annotator="x", control=True, expected=80.0, value=[10.0, 80.0], marked=[reason, None])
    assert rows(judgments, "controls:keep=yes") == failed


def test_controls_without_known_answers_are_damaged_copies():
    judgments = table(
        item=[0, 0, 1, 1, 0, 0, 1, 1],
        annotator=["careful"] * 4 + ["careless"] * 4,
        control=[False, True] * 4,
        value=[90.0, 20.0, 80.0, 10.0, 90.0, 90.0, 80.0, 85.0],
    )
    assert rows(judgments, "controls:keep=yes") == [4, 5, 6, 7]


def test_controls_that_cannot_be_checked_are_counted():
    judgments = table(annotator="x", control=[True, False], value=[1.0, 2.0])
    spec = build_chain(None, "controls")[0]
    found = find_step("controls").run(judgment_rows(judgments), spec.parameters)
    assert "neither 'expected' nor an undamaged output" in found.notes[0]


def test_the_exam_is_apart_from_controls():
    people = ["in"] * 5 + ["out"] * 5
    value = [1.0] * 5 + [1.0, 1.0, 1.0, 0.0, 0.0]
    judgments = table(annotator=people, control="exam", expected=1.0, value=value)
    assert rows(judgments, "exam") == [5, 6, 7, 8, 9]
    assert rows(judgments, "exam:minimum=0.6") == []
    with pytest.raises(NotApplicableError, match="kind 'control'"):
        marks(judgments, "controls")


@pytest.mark.parametrize(
    "step", ["burn_in", "outliers", "speeders", "fast_pages", "skips", "straight_liners", "repeats", "exam", "controls"]
)
def test_without_annotators_nobody_is_blamed(step):
    judgments = table(value=[1.0, 2.0], seconds=[1.0, 2.0], order=[1, 2], control=[True, False])
    with pytest.raises(NotApplicableError, match="no annotator ids"):
        marks(judgments, step)


def test_answers_of_nobody_survive_steps_about_people():
    judgments = table(annotator=["a"] * 3 + [None] * 3, seconds=[1.0] * 6, value=[1.0] * 6)
    assert rows(judgments, "fast_pages") == [0, 1, 2]


# -- chains --------------------------------------------------------------------------------------------------------


def test_every_step_has_a_summary_and_described_thresholds():
    for step in STEPS.values():
        assert step.summary.endswith(".")
        assert all(parameter.about for parameter in step.parameters.values()), step.name


def test_presets_are_the_papers():
    chains = {name: preset.chain for name, preset in PRESETS.items()}
    assert chains == {
        "da_wmt": "standardise+burn_in:first=10+outliers:k=1.5",
        "da_humeval": "burn_in:first=10+standardise+outliers:k=1.5",
        "crowd": "exam:minimum=0.8+controls:minimum=0.7+fast_pages:seconds=15+skips:pages=5",
        "semantic_differential": "speeders:share=0.4,expected=600+straight_liners+repeats:k=1.5",
    }
    for name in chains:
        assert build_chain(name, None)


def test_a_preset_with_changes():
    def names(*arguments: Any, **options: Any) -> list[str]:
        return [str(spec) for spec in build_chain(*arguments, **options)]

    assert names("crowd", "fast_pages:pages=3", ["skips"]) == [
        "exam:minimum=0.8",
        "controls:minimum=0.7",
        "fast_pages:seconds=15,pages=3",
    ]
    assert names("da_wmt", ["duplicates"]) == ["standardise", "burn_in:first=10", "outliers:k=1.5", "duplicates"]
    assert names(None, {"burn_in": {"first": 5}, "skips": None}) == ["burn_in:first=5", "skips"]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("da_wm", None), NameUnknownError, "did you mean 'da_wmt'"),
        ((None, "burnin"), NameUnknownError, "did you mean 'burn_in'"),
        ((None, "burn_in:frist=3"), NameUnknownError, "did you mean 'first'"),
        ((None, "burn_in:first=few"), OptionError, "should be a whole number"),
        ((None, "burn_in+burn_in"), OptionError, "given twice"),
        (("crowd", None, ["speed"]), NameUnknownError, "did you mean 'speeders'"),
    ],
)
def test_wrong_chains(arguments, error, message):
    with pytest.raises(error, match=message) as caught:
        build_chain(*arguments)
    assert isinstance(caught.value, AliquotError)
