"""What a new sheet knows: facts of the data, how items were chosen, what results of other verbs say."""

from __future__ import annotations

import contextlib
import json
import random
from typing import Any

import numpy as np
import polars as pl
import pytest

import aliquot
from aliquot.errors import AliquotError, DataError, FormatError, OptionError
from aliquot.report.datasheet import check, load, new
from aliquot.report.datasheet.facts import (
    count_outputs,
    describe_detectable_difference,
    infer_scale,
    read_result,
    write_counts,
)
from aliquot.report.datasheet.questions import load_questions

_SCHEMA = {"item": pl.Int64, "system": pl.String, "annotator": pl.String, "criterion": pl.String, "value": pl.Float64}
RANDOM, STRATIFIED, _, _, OTHER = load_questions()["3.1.2"].labels


@pytest.fixture(scope="module")
def data():
    return aliquot.synthetic(items=60, systems=4, annotators=5, judgments_per_output=2, seed=4)


def likert(criteria: tuple[str, ...] = ("fluency", "coherence"), **columns: str) -> Any:
    """Two systems, five items, three annotators, all five points used by everybody."""
    rows = [
        (item, system, f"a{person}", criterion, 1.0 + (item + person) % 5)
        for criterion in criteria or (None,)
        for person in range(3)
        for item in range(5)
        for system in ("A", "B")
    ]
    table = pl.DataFrame(rows, schema=_SCHEMA, orient="row").with_columns(
        **{name: pl.lit(value) for name, value in columns.items()}
    )
    return aliquot.EvalSet(
        items=pl.DataFrame({"id": range(5)}), systems=("A", "B"), judgments=aliquot.Judgments(table), name="likert"
    )


def test_a_blank_sheet():
    sheet = new()
    assert sheet.criterion_names == ("criterion 1",)
    assert not any(sheet.answer(question.number, name).given for question, name in sheet.places())
    assert new(criteria=["a", "b"]).criterion_names == ("a", "b")


def test_counts(data):
    sheet = new(data)
    assert sheet.answer("3.1.1").text == "60"
    assert sheet.answer("3.2.1").text == "5"
    assert sheet.answer("3.1.2").chosen == ()  # how these items came to be chosen, the data do not say
    assert "4 systems" in sheet.answer("3.1.2").text
    assert sheet.answer("3.1.1").source == "the judgments"
    assert data.fingerprint in sheet.signature


def test_what_is_filled_in_breaks_no_rule(data):
    selection = aliquot.select(data, "stratified:bins=metric", budget=20, seed=1)
    estimates = aliquot.estimate(data, selection=selection)
    for sheet in (new(data), new(data, selection=selection, results=[estimates]), new(likert()), new()):
        assert [finding for finding in check(sheet).findings if finding.kind == "rule"] == []


def test_systems_with_different_numbers_of_outputs():
    sheet = likert()
    table = sheet.judgments.table.filter((pl.col("system") == "A") | (pl.col("item") < 3))
    assert count_outputs(aliquot.EvalSet(sheet.items, sheet.systems, judgments=aliquot.Judgments(table)), None) == {
        "A": 5,
        "B": 3,
    }
    assert write_counts({"A": 5, "B": 5, "C": 3}) == "5 (C: 3)"
    many = write_counts({f"s{n}": n for n in range(1, 9)} | {"x": 1})
    assert many.startswith("1 (s2: 2; ")
    assert "from 1 to 8" in many


def test_scales_of_criteria():
    sheet = new(likert())
    assert sheet.criterion_names == ("fluency", "coherence")
    for name in sheet.criterion_names:
        assert sheet.answer("4.3.1", name).text == name
        assert sheet.answer("4.3.3", name).text == "5"
        assert sheet.answer("4.3.4", name).text == "1, 2, 3, 4, 5"
        assert sheet.answer("4.3.6", name).text == "N/A"


@pytest.mark.parametrize(
    ("values", "given", "size", "written"),
    [
        ([1, 2, 3], None, "3", "1, 2, 3"),
        ([1, 3], None, None, None),  # 2 may be an answer nobody gave
        ([0, 100], None, "101", "0-100"),
        ([1, 50, 100], None, "100", "1-100"),
        ([0, 50], (0, 100), "101", "0-100"),
        ([1, 3], (1, 5), "5", "1, 2, 3, 4, 5"),
        ([-3, 0], (-25, 0), "26", "-25-0"),
        ([0.5, 0.25], None, None, None),
        ([0.5, 0.25], (0, 1), "continuous", "0 to 1"),
        ([2, 2], None, None, None),
        ([], None, None, None),
        ([np.nan], None, None, None),
    ],
)
def test_observed_scales(values, given, size, written):
    scale = infer_scale(np.array(values, dtype=float), given)
    assert (scale and scale.size, scale and scale.values) == (size, written)


def test_a_scale_that_is_filled_in_has_its_size():
    for low, high in ((1, 5), (0, 100), (-25, 0), (-5, -1), (0, 10)):
        sheet = new(likert(), value_range=(low, high))
        assert ("4.3.4", "rule") not in [(f.question, f.kind) for f in check(sheet).findings]


def test_z_scores_tell_no_scale():
    sheet = new(likert(scale="z"))
    assert not sheet.answer("4.3.3", "fluency").given
    assert any("4.3.3" in note for note in sheet.notes)


def test_power_is_what_the_normal_distribution_says():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(400, 2))
    difference = scores[:, 0] - scores[:, 1]
    least = (1.959964 + 0.841621) * difference.std(ddof=1) / 20
    said = describe_detectable_difference(scores)
    assert said is not None
    assert f"difference of {least:.3g} points" in said
    assert "paired over 400 items" in said


def test_power_holds_what_it_promises():
    """A true difference of that size is found in about 80% of samples (two-sided z test, alpha 0.05)."""
    rng = np.random.default_rng(1)
    n, repeats = 100, 2000
    least = (1.959964 + 0.841621) / np.sqrt(n)
    z = rng.normal(least, 1, size=(repeats, n)).mean(axis=1) * np.sqrt(n)
    share = float((np.abs(z) > 1.959964).mean())
    assert abs(share - 0.8) < 4 * np.sqrt(0.16 / repeats)


def test_power_where_there_is_none():
    assert describe_detectable_difference(np.ones((5, 1))) is None
    assert describe_detectable_difference(np.ones((5, 2))) is None  # all alike: nothing to tell power from
    assert describe_detectable_difference(np.array([[1.0, np.nan], [np.nan, 2.0]])) is None


@pytest.mark.parametrize(
    ("method", "option"),
    [
        ("segments", RANDOM),
        ("pps", RANDOM),
        ("documents", RANDOM),
        ("random", RANDOM),
        ("stratified:bins=metric", STRATIFIED),
        ("balanced", STRATIFIED),
        ("metric_var:metric=metricA", OTHER),
        ("guided:metric=metricA", OTHER),
    ],
)
def test_how_items_were_chosen(data, method, option):
    selection = aliquot.select(data, method, budget=20, seed=3)
    answer = new(data, selection=selection).answer("3.1.2")
    assert answer.chosen == (option,)
    assert selection.signature in answer.text
    assert ("inclusion probability is known" in answer.text) == (selection.probability is not None)
    assert f"{len(selection)} of 60 items" in answer.text


def test_balanced_draws_are_stratified(data):
    if "domain" not in data.items.columns:
        data = aliquot.EvalSet(
            data.items.with_columns(domain=pl.Series(["x", "y"] * 30)), data.systems, data.scores, human=data.human
        )
    selection = aliquot.select(data, "segments", budget=20, balance="domain")
    assert new(data, selection=selection).answer("3.1.2").chosen == (STRATIFIED,)


def test_a_selection_that_is_not_judged_yet(data):
    planned = aliquot.EvalSet(data.items, data.systems, {name: data.scores[name] for name in data.metrics})
    selection = aliquot.select(planned, "segments", budget=15)
    sheet = new(planned, selection=selection)
    assert sheet.answer("3.1.1").text == "15"
    assert sheet.answer("3.1.1").source == "the selection"
    assert any("no judgments" in note for note in sheet.notes)


def test_each_system_with_its_own_draw(data):
    selection = aliquot.select(data, "segments", budget=15, matching=False)
    assert new(data, selection=selection).answer("3.1.1").text == "15"


def test_judgments_apart_from_the_data(data):
    bare = aliquot.EvalSet(data.items, data.systems, {name: data.scores[name] for name in data.metrics})
    table = data.judgments.table
    stray = table.head(1).with_columns(pl.lit("nobody").alias("system"))
    sheet = new(bare, judgments=aliquot.Judgments(pl.concat([table, stray])))
    assert sheet.answer("3.2.1").text == "5"
    assert any("1 judgment of unknown systems left out" in note for note in sheet.notes)
    assert "2 judgments per output" in sheet.answer("4.3.9", "mqm").text


def test_means_of_judgments_are_recognised(data):
    (name,) = new(data).criterion_names
    answer = new(data).answer("4.3.9", name)
    assert answer.text == "The score 'human' of an output is the mean of its judgments (2 judgments per output)."
    other = data.with_score("human", data.scores["human"] + 1)
    assert not new(other).answer("4.3.9", name).given
    assert any("4.3.9" in note for note in new(other).notes)


def test_errors_in_judgments_are_a_task_without_a_scale():
    rows = {
        "item": [0, 0, 1],
        "system": ["A"] * 3,
        "annotator": ["x"] * 3,
        "value": [-1.0, -5, 0],
        "error": ["a", "b", None],
    }
    mqm = aliquot.EvalSet(
        pl.DataFrame({"id": [0, 1]}), ("A",), judgments=aliquot.Judgments(pl.DataFrame(rows)), name="mqm"
    ).aggregate()
    sheet = new(mqm)
    assert sheet.answer("4.3.3", "human").text == "N/A"
    assert "annotation" in sheet.answer("4.3.8", "human").chosen[0]
    assert [f for f in check(sheet).findings if f.kind == "rule"] == []
    assert sheet.answer("3.1.1").text == "2"


def test_protocols():
    sheet = new(likert(criteria=(), protocol="ESA"))
    assert sheet.criterion_names == ("ESA",)
    assert not sheet.answer("4.3.1", "ESA").given  # what annotators see is not known
    both = pl.concat(
        [likert((), protocol=name).judgments.table.with_columns(annotator=pl.lit(name)) for name in ("ESA", "MQM")]
    )
    data = aliquot.EvalSet(pl.DataFrame({"id": range(5)}), ("A", "B"), judgments=aliquot.Judgments(both))
    assert any("2 protocols (ESA, MQM)" in note for note in new(data).notes)
    mqm = new(data, protocol="MQM")
    assert mqm.answer("3.2.1").text == "1"
    assert mqm.answer("4.3.3", "MQM").text == "N/A"
    with pytest.raises(AliquotError, match="did you mean 'MQM'"):
        new(data, protocol="MQN")
    with pytest.raises(DataError, match="no protocol"):
        new(likert(), protocol="MQM")


def test_quality_checks_that_the_judgments_show():
    table = (
        likert()
        .judgments.table.with_row_index("n")
        .with_columns(
            control=pl.col("n") < 4,
            repeat=pl.col("n") >= 58,
            marked=pl.when(pl.col("annotator") == "a2").then(pl.lit("speeders")),
        )
    )
    data = aliquot.EvalSet(pl.DataFrame({"id": range(5)}), ("A", "B"), judgments=aliquot.Judgments(table.drop("n")))
    answer = new(data).answer("3.3.3")
    _, automatic, _, people_out, some_out, *_ = load_questions()["3.3.3"].labels
    assert answer.chosen == (automatic, people_out)  # all of one annotator, and nobody's in part
    some = aliquot.Judgments(table.with_columns(marked=pl.when(pl.col("n") < 3).then(pl.lit("burn_in"))).drop("n"))
    partly = new(aliquot.EvalSet(pl.DataFrame({"id": range(5)}), ("A", "B"), judgments=some)).answer("3.3.3")
    assert partly.chosen == (automatic, some_out)
    assert "4 judgments of control items" in answer.text
    assert "20 of 60 judgments are marked and do not count (speeders: 20)" in answer.text
    assert new(data).answer("3.2.1").text == "3"  # those left out took part, too


@pytest.mark.parametrize(("marked", "gone", "places"), [(9, 1, (1, 3)), (4, 0, (1, 4))])
def test_a_cleaning_tells_whether_people_or_judgments_were_left_out(data, marked, gone, places):
    cleaning = {
        "steps": [{"step": "speeders", "applied": True, "marked": marked, "annotators": gone}],
        "annotators": [
            {"annotator": "x", "answers": 9, "marked": marked},
            {"annotator": "y", "answers": 9, "marked": 0},
        ],
        "signature": "aliquot:0.1.0|clean|steps:speeders|data:abc",
    }
    labels = load_questions()["3.3.3"].labels
    assert new(data, results=[cleaning]).answer("3.3.3").chosen == tuple(labels[at] for at in places)


def test_results_of_other_verbs(data, tmp_path):
    selection = aliquot.select(data, "segments", budget=30)
    estimates = aliquot.estimate(data, selection=selection, level=0.9, test="wilcoxon", adjust="holm")
    agreement = {
        "coefficients": [
            {"kind": "all", "group": "all", "measure": "alpha", "value": 0.5, "low": 0.4, "high": 0.6},
            {"kind": "all", "group": "all", "measure": "kappa", "value": None, "low": None, "high": None},
        ],
        "level": "ordinal",
        "confidence": 0.9,
        "repeats": [{"annotator": "all", "repeats": 8, "same": 0.75, "mean_difference": 0.1, "pearson": None}],
        "signature": "aliquot:0.1.0|agreement|level:ordinal|data:abc",
    }
    cleaning = {
        "steps": [{"step": "burn_in:n=3", "applied": True, "marked": 7, "annotators": 0}],
        "signature": "aliquot:0.1.0|clean|preset:crowd|data:abc",
    }
    combined = {"signature": "aliquot:0.1.0|combine|method:median|normalise:z"}
    plan = {"signature": "aliquot:0.1.0|plan|delta:1.0|power:0.9|alpha:0.05"}
    path = tmp_path / "agreement.json"
    path.write_text(json.dumps(agreement))
    sheet = new(
        data,
        selection=selection,
        results=[estimates, path, cleaning, plan, combined, {"signature": "aliquot:0.1.0|inspect"}],
    )
    scores = sheet.answer("4.3.9", "mqm").text
    assert "mean of its judgments" in scores
    assert f"estimated from 30 judged items by {estimates.method}" in scores
    assert "method median, normalised by z (aliquot" in scores
    tests = sheet.answer("4.3.10", "mqm").text
    assert "90% intervals" in tests
    assert "wilcoxon test, Holm over pairs" in tests
    assert sheet.answer("4.3.11", "mqm").text == (
        "Yes: Krippendorff's alpha, ordinal: 0.500 [0.400, 0.600] (90% intervals); with themselves, on 8 repeated "
        f"outputs: 75% the same answer ({agreement['signature']})"
    )
    assert "burn_in:n=3 marked 7" in sheet.answer("3.3.3").text
    assert sheet.answer("3.3.3").source == "results of other verbs"
    assert "power 0.9" in sheet.answer("3.1.3").text
    assert sheet.results[:2] == (selection.signature, estimates.signature)
    assert any("'inspect'" in note for note in sheet.notes)


def test_a_result_that_names_a_criterion_speaks_of_it_alone():
    rows = [
        {"kind": kind, "group": group, "measure": "alpha", "value": value, "low": None, "high": None}
        for kind, group, value in (("all", "all", 0.1), ("criterion", "fluency", 0.2), ("criterion", "coherence", 0.3))
    ]
    agreement = {"coefficients": rows, "signature": "aliquot:0.1.0|agreement"}
    compare = {"signature": "aliquot:0.1.0|compare:choices|criterion:coherence"}
    sheet = new(likert(), results=[agreement, compare])
    assert "alpha: 0.200 (" in sheet.answer("4.3.11", "fluency").text
    assert "alpha: 0.300 (" in sheet.answer("4.3.11", "coherence").text
    assert not sheet.answer("4.3.10", "fluency").given
    assert compare["signature"] in sheet.answer("4.3.10", "coherence").text


def test_broken_results(tmp_path):
    (tmp_path / "a.json").write_text('{"i": 1}\n{"i": 2}')
    for bad, said in (
        (tmp_path / "a.json", "not valid JSON"),
        (tmp_path / "gone.json", "no such file"),
        ({"systems": []}, "no signature"),
        ({"signature": "sacrebleu:2"}, "not aliquot's"),
        (7, "not a result"),
        ([1], "not a result"),
    ):
        with pytest.raises(AliquotError, match=said):
            read_result(bad)


def test_what_does_not_belong_together(data):
    with pytest.raises(OptionError, match="need the data"):
        new(selection=aliquot.select(data, "segments", budget=5))
    with pytest.raises(OptionError, match="lower end"):
        new(data, value_range=(5, 1))
    with pytest.raises(AliquotError, match="unknown score 'humn'"):
        new(data, human="humn")
    other = aliquot.synthetic(items=80, systems=4, seed=1)
    with pytest.raises(AliquotError, match="which is not in the data"):
        new(data, selection=aliquot.select(other, "segments", budget=70))
    assert any("no judgment is of the criterion 'x'" in note for note in new(likert(), criteria=["x"]).notes)


def test_a_filled_in_sheet_survives_its_file(data, tmp_path):
    selection = aliquot.select(data, budget=20, seed=1)
    sheet = new(data, selection=selection, results=[aliquot.estimate(data, selection=selection)])
    sheet.save(tmp_path / "sheet.toml")
    assert load(tmp_path / "sheet.toml") == sheet


def test_errors_are_of_the_right_kind(tmp_path):
    with pytest.raises(FormatError):
        read_result(str(tmp_path / "gone.json"))


ODD = ("high", [0.9], None, {"a": {"b": 1}}, True, -1, 2.5, 10**400, "", [None, [1]], 1e308)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path] * bool(path) + [place for key, entry in inside for place in places(entry, (*path, key))]


@pytest.mark.parametrize("verb", ["estimate", "agreement", "clean", "plan"])
def test_odd_values_in_a_result_are_an_error_or_make_no_difference(tmp_path, data, verb):
    judged = likert()
    made: dict[str, Any] = {
        "estimate": lambda: aliquot.estimate(data),
        "agreement": lambda: aliquot.agreement(judged, bootstrap=20),
        "clean": lambda: aliquot.clean(judged, "crowd"),
        "plan": lambda: aliquot.plan(difference=1, sd=20),
    }
    whole = json.dumps(made[verb]().to_dict(), default=str)
    rng, path = random.Random(9), tmp_path / "r.json"
    everywhere = places(json.loads(whole))
    top = [place for place in everywhere if len(place) == 1]
    for number in range(200):
        document = json.loads(whole)
        *above, last = rng.choice(top if number % 2 else everywhere)
        entry = document
        for key in above:
            entry = entry[key]
        entry[last] = rng.choice(ODD)
        path.write_text(json.dumps(document))
        with contextlib.suppress(AliquotError):
            new(judged, results=[path])


@pytest.mark.parametrize("level", ["high", [0.9], None, {"a": 1}, 95, True])
def test_an_odd_level_is_named(tmp_path, data, level):
    path = tmp_path / "r.json"
    path.write_text(json.dumps(aliquot.estimate(data).to_dict() | {"level": level}, default=str))
    with pytest.raises(FormatError, match=r"r.json: is no result of `aliquot estimate` \(.*level"):
        new(data, results=[path])
