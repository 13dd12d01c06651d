"""The printed formulas of Saldias et al. 2022: eq. 1, 3 and 4 by hand, bounds with a range of one's own."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import aliquot
from aliquot import AliquotWarning
from aliquot.core.registry import parse_spec
from aliquot.estimation.estimators import run_estimator
from aliquot.estimation.sample import Sample
from aliquot.stats.confidence_sequences import bernstein_half_width, hoeffding_half_width

DATA = aliquot.synthetic(items=90, systems=3, seed=2)
ROWS = np.random.default_rng(1).choice(90, 25, replace=False)
METRICS = ("metricA", "metricB", "metricC")


def estimated(spec: str) -> np.ndarray:
    sample = Sample(DATA, ROWS, DATA.human_score()[ROWS], None, np.ones(len(ROWS)), kind="unordered")
    values: np.ndarray = run_estimator(sample, parse_spec(spec)).values
    return values


def standard(values: np.ndarray) -> np.ndarray:
    shifted: np.ndarray = (values - values.mean(axis=0)) / values.std(axis=0)
    return shifted


def proxies(kind: str, system: int) -> np.ndarray:
    """Z of one system: N x 1, or N x 3 for several."""
    each = np.column_stack([standard(DATA.scores[name][:, system]) for name in METRICS])
    if kind == "one":
        return each[:, :1]
    return standard(each.mean(axis=1, keepdims=True)) if kind == "mean" else each


@pytest.mark.parametrize("covariance", ["printed", "centred"])
@pytest.mark.parametrize("kind", ["one", "mean", "several"])
def test_control_variates_by_hand(kind, covariance):
    given = {"one": "metrics=metricA", "mean": "proxy=mean", "several": "proxy=several"}[kind]
    found = estimated(f"cv_published:{given},covariance={covariance}")
    for system in range(3):
        z, x = proxies(kind, system), DATA.human_score()[ROWS, system]
        if covariance == "printed":
            moment = np.array([np.mean([x[i] * z[row, p] for i, row in enumerate(ROWS)]) for p in range(z.shape[1])])
        else:
            moment = np.array([np.cov(x, z[ROWS, p], ddof=0)[0, 1] for p in range(z.shape[1])])
        second = np.mean([np.outer(row, row) for row in z], axis=0)
        beta = np.linalg.inv(second) @ moment
        assert found[system] == pytest.approx(x.mean() - beta @ z[ROWS].mean(axis=0))


def test_the_best_published_one_is_the_stratified_one_with_neighbours():
    both = [
        estimated(spec) for spec in ("paper_best:k=5", "cv_published:proxy=knn,k=5,covariance=centred,stratified=yes")
    ]
    np.testing.assert_allclose(both[0], both[1])
    printed = estimated("cv_published:proxy=knn,k=5,stratified=yes")
    assert not np.allclose(printed, both[0])
    np.testing.assert_allclose(printed, estimated("paper_best:k=5,covariance=printed"))


def test_neighbours_that_are_all_judged_items_explain_nothing():
    """Their mean is the same for every output but for rounding, which is no proxy."""
    plain = estimated("cv_published:metrics=metricA,stratified=yes,proxy=knn,k=25")
    np.testing.assert_allclose(plain, estimated("cv_published:metrics=metricB,stratified=yes,proxy=knn,k=90"))


def test_documents_means_are_weighed_by_their_sizes():
    """Equation 1, with a control variate that explains nothing."""
    noise = DATA.with_score("flat", np.ones((90, 3)))
    sample = Sample(noise, ROWS, DATA.human_score()[ROWS], None, np.ones(len(ROWS)), kind="unordered")
    found = run_estimator(sample, parse_spec("cv_published:metrics=flat,stratified=yes")).values
    codes = DATA.documents
    assert codes is not None
    judged = [code for code in np.unique(codes) if code in codes[ROWS]]
    sizes = np.array([(codes == code).sum() for code in judged])
    means = np.array([DATA.human_score()[ROWS][codes[ROWS] == code].mean(axis=0) for code in judged])
    np.testing.assert_allclose(found, sizes @ means / sizes.sum())


@pytest.mark.parametrize("kind", ["hoeffding", "bernstein"])
def test_a_range_narrower_than_the_scores_is_used_with_a_warning(kind):
    """Their Table 5: R = 4 for scores from 0 to 25. Only the width counts."""
    chosen = aliquot.select(DATA, "segments", 40, seed=3)
    scores = DATA.human_score()[[DATA.ids.index(item) for item in chosen.ids]]
    low = float(scores.min()) + 1
    with pytest.warns(AliquotWarning, match="lies outside `value_range` .* its width 4 is used"):
        found = aliquot.estimate(
            DATA, "mean", selection=chosen, interval=kind, value_range=(low, low + 4), target="given"
        )
    half = (
        hoeffding_half_width(np.full(3, 40), 90, 4.0)
        if kind == "hoeffding"
        else bernstein_half_width(scores.std(axis=0, ddof=1), np.full(3, 40), 4.0)
    )
    table = found.to_frame().sort("system")
    width = (table["high"] - table["low"]).to_numpy() / 2
    np.testing.assert_allclose(width, half[np.argsort(DATA.systems)])
    assert isinstance(table, pl.DataFrame)


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize(
    "spec",
    [
        *(f"cv_published:{given}" for given in ("metrics=metricA", "proxy=mean", "proxy=several", "proxy=knn,k=5")),
        "cv_published:proxy=knn,stratified=yes",
        "paper_best",
        "paper_best:k=5,covariance=printed",
    ],
)
def test_a_systems_estimate_does_not_depend_on_the_other_systems(spec, gaps):
    """Section 3: "No knowledge of other segments, system outputs, or rater decisions is permitted"."""
    rng, data, scores = np.random.default_rng(7), DATA, DATA.human_score()[ROWS].copy()
    if gaps:
        scores[rng.random(scores.shape) < 0.2] = np.nan
        for name in METRICS:
            values = DATA.scores[name].copy()
            values[rng.random(values.shape) < (0.1, 0.4, 0.9)] = np.nan
            data = data.with_score(name, values)
    together = run_estimator(Sample(data, ROWS, scores, None, np.ones(len(ROWS)), kind="unordered"), parse_spec(spec))
    for at, system in enumerate(data.systems):
        judged = np.isfinite(scores[:, at])
        own, weight = data.keep(data.ids, [system]), np.ones(int(judged.sum()))
        sample = Sample(own, ROWS[judged], scores[judged][:, [at]], None, weight, kind="unordered")
        alone = run_estimator(sample, parse_spec(spec))
        np.testing.assert_allclose(together.values[at], alone.values[0], rtol=1e-12)
        np.testing.assert_allclose(together.z[judged, at], alone.z[:, 0], rtol=1e-9, atol=1e-12)


def test_a_score_beyond_the_range_by_rounding_in_single_precision_lies_within_it(recwarn):
    unit = DATA.with_score("unit", np.where(np.arange(90)[:, None] % 7 == 0, 1.000000119, 0.4 + 0 * DATA.human_score()))
    aliquot.estimate(unit, "mean", human="unit", interval="hoeffding", value_range=(0, 1), target="given")
    assert not [warning for warning in recwarn if "lies outside" in str(warning.message)]
