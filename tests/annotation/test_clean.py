"""clean: marks instead of deletions, books that add up, and everybody heeds the marks."""

from __future__ import annotations

import statistics

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aliquot
from aliquot.annotation.audit import ScoreKeeper
from aliquot.errors import DataError, OptionError

CHAIN = "burn_in:first=3+speeders:share=0.7+straight_liners+outliers"


@pytest.fixture
def data():
    """Six annotators; the second half of them in a hurry."""
    made = aliquot.synthetic(items=60, systems=4, protocol="da", annotators=6, judgments_per_output=3, seed=4)
    assert made.judgments is not None
    hasty = pl.col("annotator").is_in(["a01", "a02"])
    table = made.judgments.table.with_columns(pl.when(hasty).then(pl.col("seconds") / 4).otherwise("seconds"))
    scores = {name: made.scores[name] for name in ("human", "metricA")}
    return aliquot.EvalSet(
        items=made.items, systems=made.systems, scores=scores, judgments=aliquot.Judgments(table), human="human"
    )


def brute_scores(table: pl.DataFrame) -> dict[str, float]:
    """Each system's mean of cell means, the long way."""
    cells = table.filter(pl.col("value").is_not_null()).group_by("system", "item").agg(pl.col("value").mean())
    return dict(cells.group_by("system").agg(pl.col("value").mean()).iter_rows())


# -- marks ---------------------------------------------------------------------------------------------------------


def test_nothing_is_deleted_and_the_order_stays(data):
    cleaned = aliquot.clean(data, steps=CHAIN)
    assert cleaned.judgments.table.drop("marked").equals(data.judgments.table)
    assert len(cleaned.judgments.usable()) + cleaned.counts["marked"] == len(data.judgments)
    assert "marked" not in data.judgments.table.columns


def test_reasons_are_the_steps_that_gave_them(data):
    cleaned = aliquot.clean(data, steps=CHAIN)
    by_reason = dict(cleaned.judgments.table["marked"].drop_nulls().value_counts().iter_rows())
    by_step = {audit.step.split(":")[0]: audit.marked for audit in cleaned.steps if audit.marked}
    assert by_reason == by_step
    assert by_step["speeders"] > 100


def test_the_first_reason_stays_and_later_steps_see_what_is_left(data):
    both = aliquot.clean(data, steps="burn_in:first=3+speeders:share=0.7")
    other = aliquot.clean(data, steps="speeders:share=0.7+burn_in:first=3")
    assert both.steps[0].marked == 18
    assert other.steps[1].marked == 12  # the two speeders' first judgments are marked already
    assert both.counts["marked"] == other.counts["marked"]


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 4),
            st.sampled_from("AB"),
            st.sampled_from([None, "x", "y", "z"]),
            st.one_of(st.none(), st.integers(-5, 120)),
            st.one_of(st.none(), st.floats(-5, 60)),
        ),
        min_size=1,
        max_size=60,
    ),
    st.sampled_from(["da_wmt", "crowd", "semantic_differential"]),
)
def test_any_table_can_be_cleaned(rows, preset):
    table = pl.DataFrame(
        rows,
        orient="row",
        schema={
            "item": pl.Int64,
            "system": pl.String,
            "annotator": pl.String,
            "value": pl.Float64,
            "seconds": pl.Float64,
        },
    ).with_row_index("order")
    cleaned = aliquot.clean(table, preset, steps="duplicates", scale=(0, 100))
    marked = cleaned.judgments.table["marked"]
    assert len(marked) == len(rows)
    assert marked.count() == cleaned.counts["marked"] == sum(audit.marked for audit in cleaned.steps)
    outside = cleaned.judgments.table.filter(~pl.col("value").is_between(0, 100))
    assert outside["marked"].null_count() == 0
    states = [cleaned.counts[state] for state in ("answered", "skipped", "pending")]
    assert sum(states) == cleaned.counts["answers"] == len(rows)
    assert cleaned.annotators["marked"].sum() <= cleaned.counts["marked"]
    cleaned.to_dict()
    cleaned.to_frame()


def test_a_second_cleaning_adds_and_fresh_forgets(data):
    first = aliquot.clean(data, steps="burn_in:first=3")
    second = aliquot.clean(first.evalset, steps="speeders:share=0.7")
    assert second.counts["marked_before"] == 18
    assert set(second.judgments.table["marked"].drop_nulls()) == {"burn_in", "speeders"}
    anew = aliquot.clean(first.evalset, steps="speeders:share=0.7", fresh=True)
    assert anew.counts["marked_before"] == 0
    assert anew.judgments == aliquot.clean(data, steps="speeders:share=0.7").judgments
    assert anew.evalset == aliquot.clean(data, steps="speeders:share=0.7").evalset


def test_an_answer_of_several_errors_is_marked_whole():
    errors = pl.DataFrame(
        {
            "item": [0, 0, 0, 1],
            "system": ["A"] * 4,
            "annotator": ["x", "x", "y", "x"],
            "value": [-5.0, -30.0, -1.0, 0.0],
            "error": [0, 1, 0, 0],
        }
    )
    cleaned = aliquot.clean(errors, scale=(-25, 0))
    assert cleaned.judgments.table["marked"].to_list() == ["scale", "scale", None, None]
    assert cleaned.steps[0].marked == 1
    assert cleaned.counts["answers"] == 3


# -- the books -----------------------------------------------------------------------------------------------------


def test_scores_before_after_and_after_each_step(data):
    cleaned = aliquot.clean(data, steps=CHAIN)
    final = brute_scores(cleaned.judgments.usable().table)
    for row in cleaned.systems.iter_rows(named=True):
        assert row["before"] == pytest.approx(brute_scores(data.judgments.table)[row["system"]])
        assert row["after"] == pytest.approx(final[row["system"]])
        assert row["change"] == pytest.approx(row["after"] - row["before"])
    table = cleaned.judgments.table
    until: list[str] = []
    for audit in cleaned.steps:
        until.append(audit.step.split(":")[0])
        expected = brute_scores(table.filter(pl.col("marked").is_null() | ~pl.col("marked").is_in(until)))
        found = dict(cleaned.by_step.filter(pl.col("step") == audit.step).select("system", "score").iter_rows())
        assert found == pytest.approx(expected)


def test_what_each_annotators_marks_change(data):
    cleaned = aliquot.clean(data, steps=CHAIN)
    table = cleaned.judgments.table
    before = brute_scores(table)
    for row in cleaned.annotators.iter_rows(named=True):
        mine = (pl.col("annotator") == row["annotator"]) & pl.col("marked").is_not_null()
        after = brute_scores(table.filter(~mine))
        changes = {system: after[system] - before[system] for system in before}
        worst = max(changes, key=lambda system: abs(changes[system]))
        assert row["change"] == pytest.approx(changes[worst])
        assert row["changed_system"] == worst
        assert row["marked"] == table.filter(mine).height
        by_step = sum(row[name] for name in ("burn_in", "speeders", "straight_liners", "outliers"))
        assert by_step == row["marked"]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6))
def test_changes_of_all_groups_at_once(seed):
    rng = np.random.default_rng(seed)
    n = 40
    table = pl.DataFrame(
        {"item": rng.integers(0, 4, n), "system": rng.choice(["A", "B", "C"], n), "value": rng.normal(0, 1, n)}
    )
    group, dropped = rng.integers(0, 3, n), rng.random(n) < 0.5
    keeper = ScoreKeeper.from_table(table)
    counted = np.ones(n, dtype=np.bool_)
    changes = keeper.changes_by(group, 3, counted, dropped)
    for one in range(3):
        expected = keeper.mean_scores(~(dropped & (group == one))) - keeper.mean_scores(counted)
        assert changes[one] == pytest.approx(expected, nan_ok=True)


def test_measures_stand_beside_the_annotators(data):
    people = aliquot.clean(data, steps="speeders:share=0.7").annotators
    assert people.filter(pl.col("share_of_time") <= 0.7)["annotator"].sort().to_list() == ["a01", "a02"]


# -- the marks are heeded ------------------------------------------------------------------------------------------


def test_human_scores_are_made_anew(data):
    cleaned = aliquot.clean(data, steps=CHAIN)
    expected = cleaned.evalset.aggregate(name="again").scores["again"]
    assert np.array_equal(cleaned.evalset.scores["human"], expected, equal_nan=True)
    assert not np.array_equal(cleaned.evalset.scores["human"], data.scores["human"], equal_nan=True)
    assert np.array_equal(cleaned.evalset.scores["metricA"], data.scores["metricA"])
    assert any("made again" in note for note in cleaned.notes)


def test_a_human_score_from_elsewhere_stays(data):
    other = data.with_score("human", data.scores["human"] * 2)
    cleaned = aliquot.clean(other, steps=CHAIN)
    assert np.array_equal(cleaned.evalset.scores["human"], other.scores["human"])
    assert any("left as they were" in note for note in cleaned.notes)


def test_bare_judgments_get_the_mean_of_what_counts():
    table = pl.DataFrame({"item": [0, 0], "system": ["A"] * 2, "annotator": ["x", "y"], "value": [3.0, 300.0]})
    cleaned = aliquot.clean(table, scale=(0, 100))
    assert cleaned.evalset.human == "human"
    assert cleaned.evalset.scores["human"].tolist() == [[3.0]]


def test_criteria_are_made_anew_each():
    table = pl.DataFrame(
        {
            "item": [0, 0, 0, 0],
            "system": ["A"] * 4,
            "annotator": ["x", "x", "y", "y"],
            "criterion": ["f", "g"] * 2,
            "value": [1.0, 2.0, 30.0, 40.0],
        }
    )
    data = aliquot.EvalSet(items=pl.DataFrame({"id": [0]}), systems=("A",), judgments=aliquot.Judgments(table))
    data = data.aggregate().aggregate(criterion="f").aggregate(criterion="g")
    cleaned = aliquot.clean(data, scale=(0, 35)).evalset
    assert {name: values.item() for name, values in cleaned.scores.items()} == {
        "human": 11.0,
        "human_f": 15.5,
        "human_g": 2.0,
    }


@pytest.mark.parametrize("name", ["c.jsonl", "c.jsonl.gz", "c.parquet"])
def test_marks_survive_files_and_change_what_estimate_says(data, tmp_path, name):
    cleaned = aliquot.clean(data, steps=CHAIN)
    aliquot.save(cleaned.evalset, tmp_path / name)
    back = aliquot.load(tmp_path / name)
    assert back.judgments == cleaned.judgments
    assert back == cleaned.evalset
    by_file = aliquot.estimate(back, "mean")
    by_judgments = aliquot.estimate(data, "mean", judgments=cleaned.judgments)
    raw = aliquot.estimate(data, "mean")
    for row in by_judgments.systems:
        other = next(one for one in by_file.systems if one.system == row.system)
        assert row.estimate == pytest.approx(other.estimate)
    assert by_file.systems[0].estimate != pytest.approx(raw.systems[0].estimate)


def test_a_table_of_judgments_keeps_its_marks(data, tmp_path):
    cleaned = aliquot.clean(data, steps=CHAIN)
    aliquot.save(cleaned.evalset, tmp_path / "c.csv", what="judgments")
    back = aliquot.load(tmp_path / "c.csv")
    assert back.judgments is not None
    assert back.judgments.table["marked"].count() == cleaned.counts["marked"]
    expected = cleaned.evalset.aggregate(name="m").scores["m"]
    assert np.allclose(back.scores["human"], expected[np.isfinite(expected).any(axis=1)], equal_nan=True)


def test_estimate_counts_marks_and_strict_does_not_mind_them(data):
    cleaned = aliquot.clean(data, steps="burn_in:first=3")
    result = aliquot.estimate(data, "mean", judgments=cleaned.judgments, strict=True)
    (mismatch,) = result.details["mismatches"]
    assert (mismatch.what, mismatch.count) == ("judgments marked by clean", 18)


def test_marks_change_the_fingerprint(data):
    other = data.with_score("human", data.scores["human"] * 2)  # its scores stay, only marks differ
    assert aliquot.clean(other, steps="burn_in").evalset.fingerprint != other.fingerprint


def test_flags_and_empty_texts_as_marks():
    table = pl.DataFrame({"item": [0, 1, 2], "system": ["A"] * 3, "value": [1.0, 2.0, 3.0]})
    flagged = aliquot.Judgments(table.with_columns(pl.Series("marked", [True, False, None])))
    assert len(flagged.usable()) == 2
    assert len(aliquot.Judgments(table.with_columns(pl.Series("marked", ["", " ", "why"]))).usable()) == 2
    assert len(aliquot.Judgments(table).usable()) == 3


# -- odd data ------------------------------------------------------------------------------------------------------


def test_pending_and_skipped_answers_are_known():
    table = pl.DataFrame(
        {
            "item": [0, 1, 2, 3],
            "system": ["A"] * 4,
            "annotator": ["x"] * 4,
            "value": [1.0, None, None, None],
            "seconds": [5.0, 3.0, None, None],
            "state": [None, None, "skipped", None],
        }
    )
    cleaned = aliquot.clean(table, steps="skips")
    assert cleaned.counts == {
        "answers": 4,
        "answered": 1,
        "skipped": 2,
        "pending": 1,
        "marked_before": 0,
        "marked": 0,
    }
    assert cleaned.annotators.select("skipped", "pending").row(0) == (2, 1)


def test_one_annotator_and_odd_times_are_noted():
    table = pl.DataFrame(
        {
            "item": [0, 1, 2],
            "system": ["A"] * 3,
            "annotator": ["x"] * 3,
            "value": [1.0, 2.0, 3.0],
            "seconds": [-1.0, None, 4.0],
        }
    )
    notes = aliquot.clean(table, steps="skips").notes
    assert any("one annotator" in note for note in notes)
    assert any("1 negative times" in note for note in notes)
    assert any("1 judgments have no time" in note for note in notes)


def test_contradictions_are_noted_unless_dealt_with():
    table = pl.DataFrame(
        {"item": [0, 0, 1, 1], "system": ["A"] * 4, "annotator": ["x"] * 4, "value": [1.0, 2.0, 3.0, 3.0]}
    )
    assert any(
        "2 outputs were judged more than once" in note and "1 of them differently" in note
        for note in aliquot.clean(table, steps="skips").notes
    )
    assert not any("more than once" in note for note in aliquot.clean(table, steps="duplicates").notes)


def test_values_outside_the_scale_are_marked_or_refused():
    table = pl.DataFrame({"item": [0, 1, 2], "system": ["A"] * 3, "annotator": ["x"] * 3, "value": [5.0, 107.0, -2.0]})
    assert aliquot.clean(table, scale=(0, 100)).judgments.table["marked"].to_list() == [None, "scale", "scale"]
    with pytest.raises(DataError, match=r"x on item 1, system A: the value 107 is outside the scale 0 to 100.*1 more"):
        aliquot.clean(table, scale=(0, 100), strict=True)
    with pytest.raises(DataError, match="outside the labels"):
        aliquot.clean(table, labels=[5], strict=True)
    assert aliquot.clean(table, labels=[5, 107]).counts["marked"] == 1


def test_a_step_without_its_columns_is_told_not_guessed(data):
    bare = aliquot.Judgments(data.judgments.table.select("item", "system", "annotator", "value"))
    cleaned = aliquot.clean(bare, "da_wmt")
    first = cleaned.steps[1]
    assert not first.applied
    assert first.marked == 0
    assert "came first" in first.note


def test_if_nothing_is_left_it_says_so(data):
    cleaned = aliquot.clean(data, steps="fast_pages:seconds=1e6")
    assert any("no judgment is left" in note for note in cleaned.notes)
    assert cleaned.systems["after"].null_count() == 4
    assert not np.isfinite(cleaned.evalset.scores["human"]).any()


def test_what_cannot_be_asked(data):
    with pytest.raises(OptionError, match="nothing to do"):
        aliquot.clean(data)
    with pytest.raises(OptionError, match="given twice"):
        aliquot.clean(data, steps="scale:low=0,high=1", scale=(0, 1))
    with pytest.raises(DataError, match="there are no judgments"):
        aliquot.clean(aliquot.synthetic(items=5, systems=2, annotators=0), "crowd")


def test_long_numbers_of_a_scale_stay_exact():
    table = pl.DataFrame({"item": [0], "system": ["A"], "annotator": ["x"], "value": [1234567.8]})
    assert aliquot.clean(table, scale=(0, 1234567.9)).counts["marked"] == 0
    assert aliquot.clean(table, scale=(0, 1234567.7)).counts["marked"] == 1


def test_the_signature_reproduces(data):
    line = aliquot.clean(data, "da_wmt", steps="outliers:k=3", scale=(0, 100)).signature
    assert line == (
        f"aliquot:{aliquot.__version__}|clean|preset:da_wmt|steps:scale:low=0,high=100+standardise+"
        f"burn_in:first=10+outliers:k=3|data:{data.fingerprint}"
    )


# -- direct assessment as at WMT: z-scores over all judgments first ----------------------------------------------------

DA = pl.DataFrame(
    [
        *zip(
            [0, 0, 0, 1, 1, 1, 2, 2, 2, 3],
            "ABCABCABCA",
            ["r0"] * 10,
            [86, 62, 74, 75, 68, 97, 39, 76, 71, 83],
            range(10),
            strict=True,
        ),
        *zip(
            [0, 0, 0, 1, 1, 1, 2, 2, 2, 4],
            "BCABCABCAB",
            ["r1"] * 10,
            [74, 78, 42, 42, 65, 43, 18, 36, 58, 33],
            range(10),
            strict=True,
        ),
        *zip(
            [0, 0, 0, 1, 1, 1, 2, 2, 2, 5],
            "CABCABCABC",
            ["r2"] * 10,
            [48, 43, 18, 46, 67, 68, 62, 52, 39, 54],
            range(10),
            strict=True,
        ),
    ],
    schema={"item": pl.Int64, "system": pl.String, "annotator": pl.String, "value": pl.Float64, "order": pl.Int64},
    orient="row",
)


def by_hand(*, first: str) -> tuple[dict[str, float], set[int]]:
    """Mean z of every system, step by step in plain Python: two practice judgments, quartiles ± 1.5 ranges.

    `first`: z-scores of all judgments ("before"), or of those that are not practice ("after").
    """
    rows = list(enumerate(DA.iter_rows(named=True)))

    def z_of(kept: list[int]) -> dict[int, float]:
        found: dict[int, float] = {}
        for annotator in ("r0", "r1", "r2"):
            mine = {at: row["value"] for at, row in rows if row["annotator"] == annotator and at in kept}
            mean, sd = statistics.fmean(mine.values()), statistics.pstdev(mine.values())
            found |= {at: (value - mean) / sd for at, value in mine.items()}
        return found

    everything = [at for at, _ in rows]
    kept = [at for at, row in rows if row["order"] >= 2]
    z = z_of(everything if first == "before" else kept)
    values = sorted(z[at] for at in kept)
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    kept = [at for at in kept if low - 1.5 * (high - low) <= z[at] <= high + 1.5 * (high - low)]
    segments: dict[str, dict[int, list[float]]] = {system: {} for system in "ABC"}
    for at, row in rows:
        if at in kept:
            segments[row["system"]].setdefault(row["item"], []).append(z[at])
    means = {s: statistics.fmean(statistics.fmean(one) for one in of.values()) for s, of in segments.items()}
    return means, set(kept)


@pytest.mark.parametrize(("preset", "first"), [("da_wmt", "before"), ("da_humeval", "after")])
def test_direct_assessment_by_hand(preset, first):
    expected, kept = by_hand(first=first)
    cleaned = aliquot.clean(DA, preset, steps="burn_in:first=2")
    found = dict(cleaned.systems.select("system", "z_after").iter_rows())
    assert found == pytest.approx(expected)
    marked = cleaned.judgments.table["marked"]
    assert {at for at in range(30) if marked[at] is None} == kept
    segments, of = cleaned.evalset.scores["human_z"], list(cleaned.evalset.systems)
    assert {s: np.nanmean(segments[:, of.index(s)]) for s in of} == pytest.approx(expected)


def test_the_order_of_standardising_swaps_two_systems():
    """The practice judgments are severe or mild: without them an annotator's mean and spread are others."""
    chains = {"before": "standardise+burn_in:first=2+outliers", "after": "burn_in:first=2+outliers"}
    ranks = {
        when: dict(aliquot.clean(DA, steps=chain).systems.select("system", "z_rank_after").iter_rows())
        for when, chain in chains.items()
    }
    assert ranks == {"before": {"C": 1, "A": 2, "B": 3}, "after": {"A": 1, "C": 2, "B": 3}}
