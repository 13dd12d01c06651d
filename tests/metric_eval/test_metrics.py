"""Metrics against people: the parts hold what they promise, whatever is missing, and say no where they must."""

from __future__ import annotations

import dataclasses
import itertools
import json

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import aliquot
from aliquot.core.evalset import EvalSet
from aliquot.errors import DataError, NameUnknownError, OptionError
from aliquot.metric_eval.metric_break_even import Worth, write_verdict
from aliquot.metric_eval.metric_report import PARTS, TABLES
from aliquot.stats.arrays import FloatArray

TRIALS = 400


def made(human: FloatArray, name: str = "made", **metrics: FloatArray) -> EvalSet:
    items, systems = human.shape
    return EvalSet(
        items=pl.DataFrame({"id": np.arange(items)}),
        systems=tuple(f"s{k}" for k in range(systems)),
        scores={"human": human, **metrics},
        human="human",
        name=name,
    )


@pytest.fixture(scope="module")
def data() -> EvalSet:
    return aliquot.synthetic(items=120, systems=6, protocol="da", judgments_per_output=2, seed=4)


@pytest.fixture(scope="module")
def report(data: EvalSet) -> aliquot.metric_eval.metric_report.MetricReport:
    return aliquot.metrics(data, trials=TRIALS, permutations=99)


# -- the decomposition -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("common", [False, True])
def test_the_identity_holds_in_every_row(data, paired, common):
    holes = np.where(np.random.default_rng(1).random((120, 6)) < 0.2, np.nan, data.scores["metricB"])
    holes[:, 2] = np.nan
    sets = [data.with_score("metricB", holes), aliquot.synthetic(items=50, systems=4, seed=8)]
    rows = aliquot.metrics(sets, parts=["decomposition"], trials=TRIALS, paired=paired, common=common).decomposition
    assert [row.kind for row in rows] == ["optimal", "human", "metric", "metric", "metric"]
    for row in rows:
        assert row.observed == pytest.approx(row.noise + row.bias + row.variance + row.covariance, abs=1e-12)
        assert row.error > 0
    metric_rows = rows[2:]
    assert all((row.covariance != 0) == paired for row in metric_rows)
    pairs = {row.metric: row.pairs for row in metric_rows}
    assert pairs == dict.fromkeys(pairs, 16) if common else pairs == {"metricA": 21, "metricB": 16, "metricC": 21}


def test_the_optimal_predictor_people_themselves_and_their_opposite():
    rng = np.random.default_rng(2)
    human = rng.normal(size=(60, 5)) + 0.4 * np.arange(5)
    rows = aliquot.metrics(
        made(human, same=human, opposite=-human),
        metrics=["human", "same", "opposite"],
        parts=["decomposition"],
        trials=TRIALS,
    ).decomposition
    optimal, people, again, same, opposite = rows
    assert (optimal.bias, optimal.variance) == (0, 0)
    assert optimal.observed == optimal.noise > 0
    assert people.bias == again.bias == same.bias == 0
    assert people.variance == optimal.noise
    assert opposite.bias == 1
    assert optimal.observed < people.observed < opposite.observed


def test_random_metrics_are_wrong_half_of_the_time():
    rng = np.random.default_rng(3)
    human = rng.normal(size=(80, 10)) + 0.5 * np.arange(10)
    data = made(human)
    for k in range(40):
        data = data.with_score(f"m{k:02}", rng.normal(size=(80, 10)))
    rows = aliquot.metrics(data, parts=["decomposition"], trials=100).decomposition
    assert np.mean([row.bias for row in rows if row.kind == "metric"]) == pytest.approx(0.5, abs=0.06)


def test_against_all_draws_of_three_items():
    """27 draws of 3 items: P(first ahead), ties half, by people and by the metric."""
    human = np.array([[2.0, 1.0], [1.0, 3.0], [4.0, 1.0]])
    metric = np.array([[1.0, 2.0], [0.0, 2.0], [9.0, 1.0]])

    def ahead(scores: FloatArray) -> float:
        gaps = [sum(scores[i, 0] - scores[i, 1] for i in draw) for draw in itertools.product(range(3), repeat=3)]
        return float(np.mean([(gap > 0) + 0.5 * (gap == 0) for gap in gaps]))

    h, m = ahead(human), ahead(metric)
    row = aliquot.metrics(made(human, metric=metric), parts=["decomposition"], trials=40_000).decomposition[2]
    assert row.observed == pytest.approx(h + m - 2 * h * m, abs=5 * row.error + 1e-3)
    assert row.bias == float((h > 0.5) != (m > 0.5))
    assert row.noise == pytest.approx((2 * (m if h > 0.5 else 1 - m) - 1) * min(h, 1 - h), abs=0.01)


def test_pairs_of_several_campaigns_are_pooled():
    rng = np.random.default_rng(5)
    sets = []
    for systems in (3, 5):
        human = rng.normal(size=(60, systems)) + 2.0 * np.arange(systems)
        sets.append(made(human, f"c{systems}", metric=-human if systems == 3 else human))
    row = aliquot.metrics(sets, parts=["decomposition"], trials=TRIALS).decomposition[2]
    assert (row.pairs, row.items, row.systems, row.cells) == (13, 120, 8, 480)
    assert row.bias == pytest.approx(3 / 13)


def test_more_trials_more_digits(data):
    errors = [
        aliquot.metrics(data, parts=["decomposition"], trials=trials).decomposition[2].error for trials in (200, 5000)
    ]
    assert errors[1] < errors[0] / 3


# -- what a metric is worth --------------------------------------------------------------------------------------------


def test_break_even(report):
    curve = [point.people for point in report.curves]
    assert curve == sorted(curve, reverse=True)
    assert all(point.perfect <= point.people + 0.03 for point in report.curves)
    assert np.mean([point.perfect for point in report.curves]) < np.mean(curve)
    for row in report.breakeven:
        assert row.perfect <= 1.3 * row.judgments
        assert not row.low > row.judgments  # either may be infinite
        assert row.reached == np.isfinite(row.judgments)
    bias = {row.metric: row.bias for row in report.decomposition}
    assert all(row.bias == pytest.approx(bias[row.metric]) for row in report.breakeven)


def test_a_metric_that_is_always_right_is_never_caught_up_with():
    human = np.random.default_rng(0).normal(size=(50, 4)) + 0.01 * np.arange(4)
    row = aliquot.metrics(made(human, same=human), parts=["breakeven"], trials=TRIALS).breakeven[0]
    assert (row.bias, row.judgments, row.reached) == (0, np.inf, False)
    document = aliquot.metrics(made(human, same=human), parts=["breakeven"], trials=TRIALS).to_dict()
    assert document["breakeven"][0]["judgments"] is None


def test_the_verdict_answers_the_question(data, report):
    best = max(report.breakeven, key=lambda row: row.judgments)
    assert report.to_dict()["verdict"] == report.verdict
    assert best.metric in report.verdict
    assert f"{best.judgments:.0f} single judgments per system" in report.verdict or np.isinf(best.judgments)
    without = aliquot.metrics(data, parts=["correlations"])
    assert without.verdict is None
    one = aliquot.metrics(data.keep(systems=data.systems[:1]), trials=10)
    assert str(one.verdict).startswith("The break-even could not be computed")


@pytest.mark.parametrize(
    ("judgments", "low", "bias", "pairs", "words"),
    [
        (37.4, 5.0, 0.2, 15, "no metric replaces more than 37 single judgments per system; the best is B (int"),
        (37.4, np.nan, 0.2, 1, "no metric replaces more than 37 single judgments per system; the best is B."),
        (1.0, 1.0, 0.7, 15, "no metric replaces people: a single judgment per system"),
        (np.inf, 12.0, 0.0, 15, "B is worth more than 10000 single judgments per system: it is right about all 15"),
        (np.inf, np.nan, 0.0, 1, "B is worth more than 10000 single judgments per system: it is right about the only"),
        (np.inf, np.inf, 1e-4, 990, "B is worth more than 10000 single judgments per system."),
    ],
)
def test_the_verdict_in_words(judgments, low, bias, pairs, words):
    def row(metric: str, judgments: float, human: str = "h") -> Worth:
        return Worth(
            human,
            metric,
            "judgment",
            bias,
            judgments,
            low,
            np.inf,
            np.nan,
            np.nan,
            np.nan,
            reached=True,
            limit=10_000,
            pairs=pairs,
        )

    rows = [row("A", 1.0), row("B", judgments)] if judgments > 1 else [row("B", judgments)]
    assert write_verdict(rows).startswith(f"On these data {words}")
    both = write_verdict([*rows, row("C", 3.0, human="other")])
    assert both.startswith("Against 'h': On these data")
    assert "Against 'other': On these data no metric replaces more than 3 single judgments" in both


def test_convergence_and_co_occurrence(report):
    by_size = {row.items: row.agreement for row in report.convergence if row.metric == "metricA"}
    assert list(by_size) == [1, 3, 10, 30, 100, 120]
    assert 0.5 < by_size[1] < by_size[120] <= 1
    for metric in ("metricA", "metricB", "metricC"):
        rows = [row for row in report.cooccurrence if row.metric == metric]
        assert [row.verdict for row in rows] == ["better", "undecided", "worse"]
        assert sum(row.better + row.undecided + row.worse for row in rows) == 15
        assert rows[2].better == rows[2].undecided == rows[2].worse == 0


def test_value_as_control_variate(report):
    (people,) = report.annotators
    g = people.rater_to_item / people.per_output
    for row in report.value:
        assert row.noise_free == pytest.approx(row.correlation * np.sqrt(1 + g))
        assert row.efficiency == pytest.approx(1 / (1 - row.correlation**2))
        assert row.efficiency <= row.ceiling == pytest.approx((1 + g) / g)
    assert report.suggested[0].metric == max(report.value, key=lambda row: row.efficiency).metric
    assert [row.step for row in report.suggested] == list(range(1, len(report.suggested) + 1))
    assert all(row.taken for row in report.suggested[:-1])


# -- correlations ------------------------------------------------------------------------------------------------------


def test_correlations_are_those_of_scipy(data, report):
    human, metric = data.scores["human"], data.scores["metricA"]
    means = metric.mean(axis=0), human.mean(axis=0)
    wanted = {
        ("pooled", "pearson"): stats.pearsonr(metric.ravel(), human.ravel()).statistic,
        ("pooled", "kendall_c"): stats.kendalltau(metric.ravel(), human.ravel(), variant="c").statistic,
        ("within_system", "spearman"): np.mean([stats.spearmanr(metric[:, k], human[:, k])[0] for k in range(6)]),
        ("within_item", "kendall_b"): np.nanmean([stats.kendalltau(metric[k], human[k])[0] for k in range(120)]),
        ("system", "pearson"): stats.pearsonr(*means).statistic,
        ("system", "kendall_b"): stats.kendalltau(*means).statistic,
    }
    found = {(row.level, row.measure): row.value for row in report.correlations if row.metric == "metricA"}
    for key, value in wanted.items():
        assert found[key] == pytest.approx(value, abs=1e-12), key


def test_every_correlation_states_its_ties_and_what_it_rests_on(report):
    for row in report.correlations:
        assert row.ties
        assert (row.items, row.systems, row.cells) == (120, 6, 720)
    options = {(row.ties, row.average) for row in report.correlations if row.measure == "kendall_like"}
    assert len(options) == 6
    assert {row.ties for row in report.correlations if row.measure == "acc_eq"} == {
        "calibrated on these scores",
        "equal scores only",
    }


def test_top_and_last_curves_and_leaving_systems_out(report):
    sizes = [row.systems for row in report.extremes if (row.metric, row.measure) == ("metricA", "kendall_like")]
    assert sizes == [6, 5, 4, 3]
    for row in report.extremes:
        if row.systems == 6:
            assert row.top == row.last
    for row in report.leave_one_out:
        assert row.low <= row.high
        assert row.low_without is not None


def test_metrics_against_each_other():
    data = aliquot.synthetic(items=150, systems=6, metrics={"good": 0.9, "copy": 0.9, "noise": 0.0}, seed=2)
    data = data.with_score("copy", data.scores["good"])
    report = aliquot.metrics(data, parts=["tests"], tests=["acc_eq", "spa", "pooled_pearson"], permutations=199)
    p = {(row.test, frozenset([row.metric, row.other])): row.p for row in report.tests}
    assert len(p) == len(report.tests) == 9
    assert all(row.difference >= 0 for row in report.tests)
    for test in ("acc_eq", "pooled_pearson"):
        assert p[test, frozenset(["good", "noise"])] < 0.05
        assert p[test, frozenset(["good", "copy"])] > 0.3
        clusters = {row.metric: row.cluster for row in report.clusters if row.test == test}
        assert clusters == {"good": 1, "copy": 1, "noise": 2}
    assert all(row.cells == 900 for row in report.clusters)


# -- cells -------------------------------------------------------------------------------------------------------------


def test_missing_cells_are_as_if_they_were_not_there(data):
    """What a metric gets on holes is what it gets on the set without those items, whatever other metrics have."""
    gone = np.zeros(120, dtype=bool)
    gone[::3] = True
    holes = np.where(gone[:, None], np.nan, data.scores["metricA"])
    with_holes = aliquot.metrics(data.with_score("metricA", holes), parts=["correlations"]).correlations
    without = aliquot.metrics(data.keep(items=~gone), parts=["correlations"]).correlations
    for one, other in zip(with_holes, without, strict=True):
        if one.metric == "metricA":
            assert one.value == pytest.approx(other.value, abs=1e-12, nan_ok=True)
            assert (one.cells, one.items) == (480, 80)
        else:
            assert one.cells == 720


def test_common_cells_are_those_of_all(data):
    human = data.scores["human"].copy()
    human[:20] = np.nan
    lacking = data.scores["metricB"].copy()
    lacking[:, 1] = np.nan
    lacking[30] = np.nan
    holes = data.with_score("metricB", lacking).with_score("human", human)
    report = aliquot.metrics(holes, parts=["decomposition", "correlations"], trials=TRIALS, common=True)
    small = data.keep(items=[i for i in range(20, 120) if i != 30]).drop(systems=["sys2"])
    same = aliquot.metrics(small, parts=["decomposition", "correlations"], trials=TRIALS)
    assert {row.cells for row in report.decomposition} == {99 * 5}
    assert report.decomposition == same.decomposition
    assert [row.value for row in report.correlations] == pytest.approx([row.value for row in same.correlations])
    assert any("on common cells: 99 items, 5 systems, 495 cells" in note for note in report.notes)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000), items=st.integers(2, 9), systems=st.integers(2, 5), missing=st.sampled_from([0, 0.3])
)
def test_rows_are_never_misaligned(seed, items, systems, missing):
    """The order of items and systems changes nothing; parts add up wherever there is a pair."""
    rng = np.random.default_rng(seed)
    human, metric = rng.integers(0, 4, size=(2, items, systems)).astype(float)
    human[rng.random(human.shape) < missing] = np.nan
    metric[rng.random(metric.shape) < missing] = np.nan
    human[0], metric[0] = np.arange(systems), np.arange(systems)[::-1]
    parts = ["decomposition", "correlations"]
    report = aliquot.metrics(made(human, m=metric), metrics=["m"], parts=parts, trials=20)
    for row in report.decomposition:
        assert row.observed == pytest.approx(row.noise + row.bias + row.variance, abs=1e-12)
    rows, columns = rng.permutation(items), rng.permutation(systems)
    turned = aliquot.metrics(
        made(human[rows][:, columns], m=metric[rows][:, columns]), metrics=["m"], parts=parts, trials=20
    )
    for one, other in zip(report.correlations, turned.correlations, strict=True):
        assert one.value == pytest.approx(other.value, abs=1e-9, nan_ok=True), (one.level, one.measure)
        assert (one.cells, one.groups, one.undefined) == (other.cells, other.groups, other.undefined)


def test_metrics_with_different_cells_are_pointed_out(data):
    lacking = data.scores["metricB"].copy()
    lacking[:, 1] = np.nan
    notes = aliquot.metrics(data.with_score("metricB", lacking), parts=["value"]).notes
    assert any("'metricB': 600" in note and "`common=True`" in note for note in notes)
    alone = aliquot.metrics(data.with_score("metricB", lacking), metrics=["metricB"], parts=["value"]).notes
    assert any("600 of the 720 judged cells" in note and "`common=True`" in note for note in alone)
    whole = aliquot.metrics(data, metrics=["metricB"], parts=["value"]).notes
    assert not any("cells" in note for note in whole)


def test_a_metric_that_a_campaign_lacks():
    one, other = (aliquot.synthetic(items=40, systems=3, seed=seed) for seed in (1, 2))
    other = other.with_score("extra", other.scores["metricA"])
    rows = aliquot.metrics([one, other], parts=["decomposition"], trials=TRIALS).decomposition
    assert {row.metric: row.pairs for row in rows[2:]} == {"metricA": 6, "metricB": 6, "metricC": 6, "extra": 3}
    common = aliquot.metrics([one, other], parts=["decomposition", "tests"], trials=TRIALS, common=True)
    assert "extra" not in common.metrics
    assert {row.data for row in common.clusters} == {"synthetic (simulated) (1)", "synthetic (simulated) (2)"}


# -- several criteria, seeds, tables -----------------------------------------------------------------------------------


def test_several_criteria(data):
    rng = np.random.default_rng(0)
    two = data.with_score("human_style", rng.normal(size=(120, 6)))
    report = aliquot.metrics(two, ["human", "human_style"], trials=TRIALS, permutations=50)
    assert report.humans == ("human", "human_style")
    assert report.metrics == ("metricA", "metricB", "metricC")
    alone = aliquot.metrics(two, "human_style", trials=TRIALS, permutations=50)
    for name in TABLES:
        rows = [row for row in report.rows(name) if name == "computed" or row.human == "human_style"]
        assert repr(rows) == repr(list(alone.rows(name))), name


def test_a_score_of_another_name_that_is_peoples_is_no_metric(data):
    renamed = data.rename(scores={"human": "quality"})
    assert aliquot.metrics(renamed, "quality", parts=["value"]).metrics == ("metricA", "metricB", "metricC")


def test_parts_do_not_depend_on_each_other(data, report):
    for part in PARTS:
        alone = aliquot.metrics(data, parts=[part], trials=TRIALS, permutations=99)
        table = alone.parts[0]
        assert repr(alone.rows(table)) == repr(report.rows(table)), part
    again = aliquot.metrics(data, trials=TRIALS, permutations=99, seed=np.random.default_rng(0))
    assert repr(again.decomposition) == repr(report.decomposition)


def test_another_seed_is_another_draw(data, report):
    other = aliquot.metrics(data, trials=TRIALS, permutations=99, seed=1)
    assert other.decomposition != report.decomposition
    assert [row.observed for row in other.decomposition] == pytest.approx(
        [row.observed for row in report.decomposition], abs=0.05
    )


def test_the_document_has_the_shape_of_the_issue(report):
    document = json.loads(json.dumps(report.to_dict()))
    assert {"metric", "observed", "noise", "bias", "variance", "error"} <= document["decomposition"][0].keys()
    assert document["signature"].startswith("aliquot:")
    for name in TABLES:
        assert len(document[name]) == report.to_frame(name).height
        assert report.to_frame(name).columns == [field.name for field in dataclasses.fields(TABLES[name])]
    with pytest.raises(NameUnknownError, match="unknown table 'corelations'; did you mean 'correlations'"):
        report.to_frame("corelations")


# -- what cannot be ----------------------------------------------------------------------------------------------------


def test_no_human_scores(data):
    nothing = data.with_score("human", np.full((120, 6), np.nan))
    with pytest.raises(DataError, match="'human' has no value on any output; judge some"):
        aliquot.metrics(nothing)
    unnamed = EvalSet(items=data.items, systems=data.systems, scores={"x": data.scores["metricA"]})
    with pytest.raises(DataError, match="no score is marked as human; name it in `human`"):
        aliquot.metrics(unnamed)
    with pytest.raises(NameUnknownError, match="unknown score 'humna'; did you mean 'human'"):
        aliquot.metrics(data, "humna")


def test_no_metric():
    data = aliquot.synthetic(items=10, systems=3, metrics={}, seed=1)
    with pytest.raises(DataError, match="no metric to compare with people; add a score, or compute some"):
        aliquot.metrics(data)
    with pytest.raises(NameUnknownError, match="unknown metric 'metrica'; did you mean 'metricA'"):
        aliquot.metrics(aliquot.synthetic(items=10, systems=3), metrics=["metrica"])


def test_a_constant_metric_is_left_out_unless_it_is_named(data):
    flat = data.with_score("flat", np.full((120, 6), 3.0))
    found = aliquot.metrics(flat, parts=["value"])
    assert "flat" not in found.metrics
    assert any("'flat' is constant and is left out" in note for note in found.notes)
    report = aliquot.metrics(flat, metrics=["flat", "metricA"], trials=TRIALS, permutations=20)
    row = report.decomposition[2]
    assert (row.metric, row.bias, row.observed) == ("flat", 0.5, 0.5)
    assert all(np.isnan(row.value) for row in report.correlations if row.metric == "flat" and row.measure == "pearson")
    assert np.isnan(report.value[0].efficiency)
    assert any("constant, so it says nothing: 'flat'" in note for note in report.notes)


def test_a_metric_constant_on_some_items(data):
    some = data.scores["metricA"].copy()
    some[:30] = 1.0
    report = aliquot.metrics(data.with_score("metricA", some), parts=["correlations"])
    row = next(r for r in report.correlations if (r.level, r.measure) == ("within_item", "pearson"))
    assert row.undefined >= 30
    assert row.groups + row.undefined == 120
    assert any("items have constant scores and no correlation" in note for note in report.notes)


def test_two_systems(data):
    report = aliquot.metrics(data.keep(systems=["sys1", "sys4"]), trials=TRIALS, permutations=20)
    assert {row.pairs for row in report.decomposition} == {1}
    assert all(np.isnan(row.low) for row in report.breakeven)
    assert report.extremes == ()
    assert all(np.isnan(row.low) for row in report.leave_one_out)
    assert any("two systems is a single pair" in note for note in report.notes)


def test_one_system(data):
    one = data.keep(systems=["sys1"])
    report = aliquot.metrics(one, trials=TRIALS, permutations=20)
    assert not report.decomposition + report.breakeven + report.convergence
    assert all(0 < row.correlation < 1 for row in report.value)
    pooled = [row.value for row in report.correlations if (row.level, row.measure) == ("pooled", "pearson")]
    assert all(value > 0 for value in pooled)
    assert any("no decomposition" in note and "one system only ('sys1')" in note for note in report.notes)
    with pytest.raises(DataError, match="one system only"):
        aliquot.metrics(one, parts=["decomposition"])


def test_identical_systems():
    rng = np.random.default_rng(1)
    human = np.repeat(rng.normal(size=(40, 1)), 3, axis=1)
    report = aliquot.metrics(made(human, same=human, other=rng.normal(size=(40, 3))), trials=TRIALS, permutations=20)
    optimal, people, same, other = report.decomposition
    assert optimal.observed == people.observed == 0.5
    assert same.bias == 0
    assert other.bias == 0.5
    for row in report.decomposition:
        assert row.observed == pytest.approx(row.noise + row.bias + row.variance, abs=1e-12)


def test_constant_human_scores():
    human = np.ones((20, 3))
    report = aliquot.metrics(made(human, m=np.random.default_rng(0).normal(size=(20, 3))), trials=50, permutations=20)
    assert all(np.isnan(row.value) for row in report.correlations if row.measure == "pearson")
    assert report.suggested == ()
    assert any("no set of metrics is suggested" in note for note in report.notes)


def test_items_without_a_pair():
    """Everybody judged one output of an item: nothing can be compared within items."""
    human = np.full((6, 2), np.nan)
    human[:3, 0], human[3:, 1] = [1.0, 2.0, 4.0], [2.0, 3.0, 5.0]
    rng = np.random.default_rng(0)
    data = made(human, a=rng.normal(size=(6, 2)), b=rng.normal(size=(6, 2)))
    report = aliquot.metrics(data, trials=50, permutations=10)
    assert all(np.isnan(row.value) for row in report.clusters if row.test == "acc_eq")
    assert all(row.pairs == 0 and np.isnan(row.observed) for row in report.decomposition)
    assert np.isfinite([row.value for row in report.correlations if row.measure == "accuracy"]).all()


def test_one_metric_cannot_be_compared_with_others(data):
    with pytest.raises(DataError, match="there is one metric"):
        aliquot.metrics(data, metrics=["metricA"], parts=["tests"])
    assert any(
        "no tests: there is one metric" in note
        for note in aliquot.metrics(data, metrics=["metricA"], trials=50, permutations=5).notes
    )


def test_metrics_without_a_common_cell(data):
    first, second = data.scores["metricA"].copy(), data.scores["metricB"].copy()
    first[:60], second[60:] = np.nan, np.nan
    apart = data.with_score("metricA", first).with_score("metricB", second)
    for options in ({"common": True}, {"parts": ["tests"]}):
        with pytest.raises(DataError, match="no output has a score of every metric; name fewer"):
            aliquot.metrics(apart, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"trials": 0}, "`trials` is 0"),
        ({"permutations": 0}, "`permutations` is 0"),
        ({"alpha": 0.7}, "`alpha` is 0.7"),
        ({"level": 1.5}, "level"),
        ({"metrics": []}, "no metric is named"),
        ({"metrics": ["metricA", "metricA"]}, "named twice"),
        ({"parts": []}, "no part is named"),
        ({"tests": []}, "no test is named"),
        ({"human": []}, "no human score is named"),
    ],
)
def test_options_that_cannot_be(data, options, message):
    with pytest.raises(OptionError, match=message):
        aliquot.metrics(data, **options)


def test_names_may_be_a_text(data):
    report = aliquot.metrics(data, parts="value, gap", tests="accuracy,spa", metrics="metricA,metricB")
    assert report.parts == ("value", "gap")
    assert report.metrics == ("metricA", "metricB")
    assert "metrics:metricA,metricB|parts:value,gap|" in report.signature
    assert [view.name for view in report.views()] == ["value", "value", "gap"]


def test_a_report_with_all_parts_has_an_overview_and_details(report):
    shown = [view for view in report.views() if not view.detail]
    assert [view.name for view in shown] == ["decomposition", "correlations", "value", "annotators", "more"]
    assert {view.name for view in report.views() if view.detail} == set(PARTS)


def test_a_single_name_is_a_list_of_one(data):
    report = aliquot.metrics(data, parts="tests", tests="accuracy", permutations=20)
    assert report.parts == ("tests",)
    assert {row.test for row in report.clusters} == {"accuracy"}
    assert aliquot.metrics(data, metrics="metricA", parts="value").metrics == ("metricA",)


def test_a_human_score_named_twice_is_looked_at_once(data):
    report = aliquot.metrics(data, ["human", "human"], parts=["decomposition"], trials=20)
    assert report.humans == ("human",)
    assert len(report.decomposition) == 2 + len(report.metrics)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"parts": ["decompositon"]}, "did you mean 'decomposition'"),
        ({"tests": ["acceq"]}, "did you mean 'acc_eq'"),
        ({"swap": "item"}, "did you mean 'items'"),
    ],
)
def test_names_that_do_not_exist(data, options, message):
    with pytest.raises(NameUnknownError, match=message):
        aliquot.metrics(data, **options)


def test_no_data_at_all():
    with pytest.raises(OptionError, match="no data are given"):
        aliquot.metrics([])


# -- intervals of correlations, correlations of each system, the gap ---------------------------------------------------


def test_correlations_have_intervals(data):
    report = aliquot.metrics(data, parts=["correlations"], level=0.9)
    rows = {(row.metric, row.level, row.measure): row for row in reversed(report.correlations)}
    metric = report.metrics[0]
    for level in ("pooled", "within_system", "within_item"):
        row = rows[metric, level, "pearson"]
        assert row.low < row.value < row.high
    wider = aliquot.metrics(data, parts=["correlations"], level=0.99)
    same = next(r for r in wider.correlations if (r.metric, r.level, r.measure) == (metric, "pooled", "pearson"))
    narrow = rows[metric, "pooled", "pearson"]
    assert same.low < narrow.low < narrow.high < same.high
    assert np.isnan(rows[metric, "pooled", "kendall_b"].low)


def test_correlations_of_each_system_are_scipys(data):
    report = aliquot.metrics(data, parts=["by_system"])
    functions = {"pearson": stats.pearsonr, "spearman": stats.spearmanr, "kendall_b": stats.kendalltau}
    human = data.score("human")
    for row in report.by_system:
        at = data.systems.index(row.system)
        x, y = data.scores[row.metric][:, at], human[:, at]
        both = np.isfinite(x) & np.isfinite(y)
        assert row.value == pytest.approx(float(functions[row.measure](x[both], y[both])[0]), nan_ok=True)
        assert row.items == both.sum()
    by_level = aliquot.metrics(data, parts=["correlations"]).correlations
    mean = next(
        r for r in by_level if (r.metric, r.level, r.measure) == (report.metrics[0], "within_system", "pearson")
    )
    mine = [r.value for r in report.by_system if r.metric == report.metrics[0] and r.measure == "pearson"]
    assert np.nanmean(mine) == pytest.approx(mean.value)


def test_the_verdict_compares_own_scores_with_the_others():
    data = aliquot.synthetic(items=150, systems=6, seed=3, metrics={"good": 0.6, "bad": 0.0})
    own = data.human_score() + np.random.default_rng(1).normal(0, 0.3, data.human_score().shape)
    table = pl.DataFrame({"item": data.ids} | {name: own[:, column] for column, name in enumerate(data.systems)})
    joined = data.with_score("mine", table)
    report = aliquot.metrics(joined, metrics="good", parts="tests,breakeven", trials=200, permutations=200)
    assert report.metrics == ("good", "mine")
    assert report.joined == ("mine",)
    assert report.verdict is not None
    assert "(acc-eq) mine is better than good (by 0." in report.verdict
    both = aliquot.metrics(joined, parts="tests", permutations=200).verdict
    assert both is not None
    assert "mine is better than good" in both
    assert "the best of 2 other metrics; it is better than 2 of them and worse than 0" in both
    assert aliquot.metrics(data, parts="tests", permutations=200).verdict is None
