"""Estimators: textbook formulas and PPI++, cross-fitting, no bias, and indifference to what must not matter."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats
from sklearn.neighbors import KNeighborsRegressor

import aliquot
from aliquot import EvalSet, Selection
from aliquot.core.evalset import take_rows, take_systems
from aliquot.core.registry import parse_spec
from aliquot.estimation.estimate_result import Estimates
from aliquot.estimation.estimators import cross_fitted_neighbours, list_estimators, run_estimator
from aliquot.estimation.proxies import standardise_metric
from aliquot.estimation.sample import Fitted, judged_sample
from aliquot.stats.arrays import FloatArray, IntArray

estimate_given = partial(aliquot.estimate, target="given")  # the mean of these very scores, whose truth is known

PLAIN = "greg:features=plain,ridge=0,tune=no,metrics=m0"
SPECS = (
    "mean",
    "stratified",
    "stratified:bins=domain",
    "greg",
    "greg:features=plain",
    "cv",
    "cv:proxy=several",
    "cv:proxy=knn,k=5",
    "paper_best:k=5",
)
RANDOM = tuple(range(0, 60, 3))


def fitted(data: EvalSet, spec: str, selection: Selection | None = None) -> Fitted:
    return run_estimator(judged_sample(data, selection=selection), parse_spec(spec))


def column(result: Estimates, name: str) -> dict[str, float]:
    return {row.system: getattr(row, name) for row in result.systems}


def by_control_variate(y: FloatArray, z: FloatArray, rows: IntArray) -> float:
    """METHODS.md section 4: mean - beta (z-bar of the sample - z-bar of all), beta = Cov(y, z) / Var(z)."""
    beta = np.cov(y[rows], z[rows])[0, 1] / np.var(z[rows], ddof=1)
    return float(y[rows].mean() - beta * (z[rows].mean() - z.mean()))


# -- the control variate and PPI++ ---------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", [PLAIN, "cv:metrics=m0", "cv:metrics=m0,proxy=several"])
@pytest.mark.parametrize("seed", range(4))
def test_one_proxy_and_one_system_are_the_control_variate(campaign, spec, seed):
    data = campaign(systems=1, seed=seed)
    rows = np.random.default_rng(seed).choice(60, 15, replace=False)
    judged = campaign(systems=1, seed=seed, judged=rows)
    expected = by_control_variate(data.scores["human"][:, 0], data.scores["m0"][:, 0], rows)
    assert fitted(judged, spec).values[0] == pytest.approx(expected, abs=1e-10)


def test_the_control_variate_has_its_textbook_standard_error(campaign):
    """(1 - n/N) S_e^2 / n with divisor n - 2: residuals of items left out make it a little larger, not smaller."""
    rows = np.arange(0, 300, 5)
    data = campaign(300, systems=1, judged=rows, documents=0)
    y, z = data.scores["human"][rows, 0], data.scores["m0"][rows, 0]
    left = stats.linregress(z, y)
    residual = y - left.intercept - left.slope * z
    textbook = np.sqrt((1 - 60 / 300) / 60 * (residual**2).sum() / 58)
    for spec in (PLAIN, "cv:metrics=m0"):
        assert estimate_given(data, spec)["A"].se == pytest.approx(textbook, rel=0.03)


PPI_JUDGED = np.array([1, 3, 4, 8, 11, 12, 17, 20, 22])
PPI_POINT = 46.217982449451824
"""ppi-python 0.2.3: ppi_mean_pointestimate(y[judged], f[judged], f[rest]) on `ppi_problem`, lambda by itself."""


def ppi_problem() -> tuple[FloatArray, FloatArray]:
    """Human scores and predictions of 24 items, nine of them judged, without a random generator.

    The predictions of the other items are stretched until the variance of all (divisor N - 1) is that of the judged
    ones (divisor n): ppi-python divides the covariance of the judged by the variance of all, a control variate by that
    of the judged; here both are one.
    """
    at = np.arange(24)
    rest = np.setdiff1d(at, PPI_JUDGED)
    f = 50 + 10 * np.sin(1.7 * at) + 0.5 * at
    y = 0.6 * f + 3 * np.cos(2.3 * at) + 12
    part, centre = f[rest] - f[rest].mean(), f[rest].mean()
    seen = ((f[PPI_JUDGED] - f[PPI_JUDGED].mean()) ** 2).sum()
    between = 9 * 15 / 24 * (centre - f[PPI_JUDGED].mean()) ** 2
    f[rest] = centre + part * np.sqrt((23 * seen / 9 - seen - between) / (part**2).sum())
    return y, f


def ppi_campaign() -> EvalSet:
    y, f = ppi_problem()
    judged = np.where(np.isin(np.arange(24), PPI_JUDGED), y, np.nan)
    return EvalSet(
        items=pl.DataFrame({"id": np.arange(24)}),
        systems=("A",),
        human="human",
        scores={"human": judged[:, None], "m0": f[:, None]},
    )


def test_greg_is_the_point_estimate_of_ppi_python():
    assert fitted(ppi_campaign(), PLAIN).values[0] == pytest.approx(PPI_POINT, abs=1e-10)


def test_greg_is_the_formula_of_ppi():
    """theta = lambda mean(f of the others) + mean(y - lambda f of the judged), lambda = beta / (1 + n / (N - n))."""
    y, f = ppi_problem()
    rest = np.setdiff1d(np.arange(24), PPI_JUDGED)
    beta = np.cov(y[PPI_JUDGED], f[PPI_JUDGED])[0, 1] / np.var(f[PPI_JUDGED], ddof=1)
    lam = beta / (1 + 9 / 15)
    theta = lam * f[rest].mean() + (y[PPI_JUDGED] - lam * f[PPI_JUDGED]).mean()
    assert theta == pytest.approx(PPI_POINT, abs=1e-10)
    assert fitted(ppi_campaign(), PLAIN).values[0] == pytest.approx(theta, abs=1e-10)


@pytest.mark.parametrize("tuned", [True, False])
def test_greg_against_ppi_python_itself(tuned):
    ppi_py = pytest.importorskip("ppi_py", reason="pip install ppi-python==0.2.3 for the live comparison")
    y, f = ppi_problem()
    rest = np.setdiff1d(np.arange(24), PPI_JUDGED)
    beta = np.cov(y[PPI_JUDGED], f[PPI_JUDGED])[0, 1] / np.var(f[PPI_JUDGED], ddof=1)
    lam = None if tuned else beta / (1 + 9 / 15)
    theta = ppi_py.ppi_mean_pointestimate(y[PPI_JUDGED], f[PPI_JUDGED], f[rest], lam=lam)
    assert fitted(ppi_campaign(), PLAIN).values[0] == pytest.approx(float(np.ravel(theta)[0]), abs=1e-10)


def test_slopes_are_shared_by_systems(campaign):
    """greg pools what cv learns system by system: one slope from all outputs, each system centred by itself."""
    data = campaign(judged=RANDOM)
    y, z = data.scores["human"][list(RANDOM)], standardise_metric(data, "m0")
    x = z[list(RANDOM)]
    centred = x - x.mean(axis=0)
    slope = float((centred * (y - y.mean(axis=0))).sum() / (centred**2).sum())
    expected = y.mean(axis=0) - slope * (x.mean(axis=0) - z.mean(axis=0))
    assert fitted(data, PLAIN).values == pytest.approx(expected, abs=1e-10)


# -- means and bins ------------------------------------------------------------------------------------------------


def uneven(data: EvalSet) -> Selection:
    """Twenty items, every third one, with probabilities that differ."""
    return Selection(ids=RANDOM, population=data.n_items, method="pps", probability=np.linspace(0.1, 0.9, 20))


def test_mean_is_the_hajek_mean_with_devilles_variance(campaign):
    data = campaign()
    chosen = uneven(data)
    y, pi = data.scores["human"][list(RANDOM)], np.linspace(0.1, 0.9, 20)
    expected = np.array([np.average(values, weights=1 / pi) for values in y.T])
    result = estimate_given(data, "mean", selection=chosen)
    assert [result[system].estimate for system in data.systems] == pytest.approx(expected, abs=1e-12)
    z = (y - expected) / pi[:, None] / (1 / pi).sum()
    centre = ((1 - pi)[:, None] * z).sum(axis=0) / (1 - pi).sum()
    variance = 20 / 19 * ((1 - pi)[:, None] * (z - centre) ** 2).sum(axis=0)
    assert [result[system].se for system in data.systems] == pytest.approx(np.sqrt(variance), abs=1e-12)


def test_mean_of_a_random_sample_is_the_plain_mean(campaign):
    data = campaign(judged=RANDOM, documents=0)
    y = data.scores["human"][list(RANDOM)]
    result = estimate_given(data, "mean")
    assert [result[s].estimate for s in data.systems] == pytest.approx(y.mean(axis=0))
    assert [result[s].se for s in data.systems] == pytest.approx(np.sqrt(40 / 60 * y.var(axis=0, ddof=1) / 20))
    assert [result[s].effective_n for s in data.systems] == pytest.approx([20, 20, 20])


def in_two_bins() -> tuple[EvalSet, Selection]:
    """Thirty items in bin a, ten of them judged: 1 to 10; ten in bin b, eight of them judged: 20 to 34 in twos."""
    human = np.full((40, 1), np.nan)
    human[:10, 0], human[30:38, 0] = np.arange(1, 11), np.arange(20, 36, 2)
    items = pl.DataFrame({"id": np.arange(40), "bin": ["a"] * 30 + ["b"] * 10})
    data = EvalSet(items=items, systems=("A",), scores={"human": human}, human="human")
    chosen = Selection(
        ids=(*range(10), *range(30, 38)),
        population=40,
        method="stratified:bins=bin",
        details={"variance": "stratified"},
        stratum=tuple("a" * 10 + "b" * 8),
        probability=np.repeat([1 / 3, 0.8], [10, 8]),
    )
    return data, chosen


@pytest.mark.parametrize("spec", ["stratified", "stratified:bins=bin", "mean"])
def test_stratified_by_hand(spec):
    """Means 5.5 and 27 with 3/4 and 1/4: 10.875. Variances 55/6 and 24, so se^2 = 9/16 (2/3) 55/60 + 1/16 (1/5) 3."""
    data, chosen = in_two_bins()
    result = estimate_given(data, spec, selection=chosen)["A"]
    assert result.estimate == pytest.approx(10.875, abs=1e-12)
    assert result.se == pytest.approx(np.sqrt(9 / 16 * 2 / 3 * 55 / 60 + 1 / 16 * 1 / 5 * 3), rel=1e-9)


def test_bins_after_the_fact(campaign):
    """A random sample that has too few of a domain is put right by the domains' sizes: 36 news, 24 speech."""
    rows = [at for at in range(60) if at % 5 < 3][:15] + [at for at in range(60) if at % 5 >= 3][:9]
    data = campaign(judged=rows)
    y = data.scores["human"][sorted(rows)]
    news = np.array([row % 5 < 3 for row in sorted(rows)])
    expected = 0.6 * y[news].mean(axis=0) + 0.4 * y[~news].mean(axis=0)
    assert fitted(data, "stratified:bins=domain").values == pytest.approx(expected, abs=1e-10)


def test_bins_without_a_sample_are_joined_and_said(campaign):
    data = campaign(judged=list(range(25)))
    result = estimate_given(data, "stratified:bins=document")
    assert all(np.isfinite(row.estimate) and row.se > 0 for row in result.systems)
    assert any("joined" in note for note in result.notes)


def test_stratified_needs_something_to_stratify_by(campaign):
    with pytest.raises(aliquot.AliquotError, match="no documents to stratify by"):
        estimate_given(campaign(judged=RANDOM, documents=0, metrics=0), "stratified")


# -- neighbours ----------------------------------------------------------------------------------------------------


def test_neighbours_of_an_item_do_not_know_its_own_score(campaign):
    data = campaign(judged=RANDOM)
    stack = np.stack([standardise_metric(data, name) for name in ("m0", "m1")], axis=2)
    before = cross_fitted_neighbours(stack, judged_sample(data), k=4)
    human = data.scores["human"].copy()
    human[6, 1] += 1000.0
    after = cross_fitted_neighbours(stack, judged_sample(data.with_score("human", human)), k=4)
    moved = np.abs(after - before) > 1e-9
    assert not moved[6, 1]
    assert moved[:, 1].any()
    assert not moved[:, [0, 2]].any()


def test_predictions_for_items_not_judged_are_those_of_scikit_learn(campaign):
    """One fold less than items: each judged item is predicted by all others; the rest by the mean of the folds."""
    rows = np.array([2, 9, 23, 40, 51])
    data = campaign(judged=rows, systems=1)
    x, y = standardise_metric(data, "m0"), data.scores["human"][rows, 0]
    found = cross_fitted_neighbours(x[:, :, None], judged_sample(data), k=2, folds=5)[:, 0]
    guesses = np.array(
        [KNeighborsRegressor(2).fit(x[np.delete(rows, held)], np.delete(y, held)).predict(x) for held in range(5)]
    )
    assert found[rows] == pytest.approx([guesses[held, row] for held, row in enumerate(rows)])
    rest = np.setdiff1d(np.arange(60), rows)
    assert found[rest] == pytest.approx(guesses[:, rest].mean(axis=0))


def test_left_out_predictions_of_greg_do_not_know_the_item(campaign):
    """Doubling what is odd about one item moves its own prediction by less than a tenth of a standard deviation."""
    data = campaign(systems=1, judged=RANDOM)
    human = data.scores["human"].copy()
    human[6] += 12.0
    before, after = (fitted(d, "greg:tune=no").proxy for d in (data, data.with_score("human", human)))
    assert before is not None
    assert after is not None
    at = RANDOM.index(6)
    assert abs(float(after[at, 0] - before[at, 0])) < 1.2
    assert not np.allclose(before, after)


def test_paper_best_is_what_the_paper_prints(campaign):
    """Documents proportionally (equation 1), standardised predictions of neighbours, equation 3 with footnote 1."""
    rows = np.array([0, 1, 5, 7, 8, 20, 21, 22, 23, 24, 33, 41, 42, 58])
    data = campaign(systems=1, judged=rows, items=58 + 2)
    x = np.column_stack([standardise_metric(data, name)[:, 0] for name in ("m0", "m1")])
    y = data.scores["human"][rows, 0]
    guess = KNeighborsRegressor(5).fit(x[rows], y).predict(x)
    z = ((guess - guess.mean()) / guess.std())[rows]
    document = rows // 5
    per_document = {d: (y[document == d].mean(), z[document == d].mean()) for d in np.unique(document)}
    stratified, proxy = np.mean(list(per_document.values()), axis=0)  # all documents have five items
    slope = np.cov(y, z, ddof=0)[0, 1]
    assert fitted(data, "paper_best:k=5").values[0] == pytest.approx(stratified - slope * proxy, abs=1e-10)


def test_paper_best_weighs_documents_by_their_length(campaign):
    data = campaign(systems=1, judged=[0, 1, 10], documents=0, metrics=0)
    items = data.items.with_columns(document=pl.Series(["long"] * 10 + ["short"] * 5 + ["unseen"] * 45))
    y = data.scores["human"][:, 0]
    expected = (10 * (y[0] + y[1]) / 2 + 5 * y[10]) / 15
    assert fitted(replace(data, items=items), "paper_best").values[0] == pytest.approx(expected)


# -- what must not matter ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", SPECS)
def test_scores_on_another_scale(campaign, spec):
    """Twice the points, ten more: estimates and errors follow. The paper's slope, a mean of X Z, knows no shift."""
    data = campaign()
    shift = 0.0 if spec.startswith("paper") else 10.0
    before = estimate_given(data, spec, selection=uneven(data))
    after = estimate_given(data.with_score("human", 2.0 * data.scores["human"] + shift), spec, selection=uneven(data))
    for name, moved in (("estimate", shift), ("se", 0.0), ("low", shift), ("high", shift)):
        expected = {system: 2.0 * value + moved for system, value in column(before, name).items()}
        assert column(after, name) == pytest.approx(expected, rel=1e-8)
    assert column(after, "effective_n") == pytest.approx(column(before, "effective_n"), rel=1e-6)
    assert [pair.p_sample for pair in after.pairs] == pytest.approx([pair.p_sample for pair in before.pairs], rel=1e-6)


@pytest.mark.parametrize("spec", SPECS)
def test_the_order_of_systems_and_items(campaign, spec):
    data = campaign()
    shuffled = take_rows(take_systems(data, ["C", "A", "B"]), np.random.default_rng(1).permutation(60))
    before, after = (estimate_given(d, spec, selection=uneven(data)) for d in (data, shuffled))
    for name in ("estimate", "se", "low", "high", "rank_low", "rank_high", "cluster"):
        assert column(after, name) == pytest.approx(column(before, name), rel=1e-8)
    assert [(pair.a, pair.b) for pair in after.pairs] == [(pair.a, pair.b) for pair in before.pairs]


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize(("shift", "scale"), [(1000.0, 1.0), (0.0, 0.001), (-3.0, 50.0)])
def test_metrics_on_another_scale(campaign, spec, shift, scale):
    data = campaign()
    moved = data.with_score("m0", scale * data.scores["m0"] + shift)
    before, after = (estimate_given(d, spec, selection=uneven(data)) for d in (data, moved))
    for name in ("estimate", "se"):
        assert column(after, name) == pytest.approx(column(before, name), rel=1e-7)


@pytest.mark.parametrize("spec", ["greg", "cv", "cv:proxy=several", "stratified:bins=domain", "mean"])
def test_all_items_judged_leave_nothing_to_estimate(campaign, spec):
    data = campaign()
    result = estimate_given(data, spec)
    truth = dict(zip(data.systems, data.scores["human"].mean(axis=0), strict=True))
    assert column(result, "estimate") == pytest.approx(truth)
    assert column(result, "se") == pytest.approx(dict.fromkeys(truth, 0.0), abs=1e-12)


def test_a_good_metric_is_worth_judgments_and_noise_costs_none(campaign):
    judged = list(range(0, 200, 5))
    data = campaign(200, judged=judged, documents=0)
    good = estimate_given(data, metrics=["m0"])
    assert all(row.effective_n > 1.8 * row.n for row in good.systems)
    assert all(row.proxy_correlation > 0.7 for row in good.systems)
    noise = data.with_score("m0", np.random.default_rng(5).normal(size=(200, 3)))
    assert all(0.8 * row.n < row.effective_n < 1.3 * row.n for row in estimate_given(noise, metrics=["m0"]).systems)


# -- promises ------------------------------------------------------------------------------------------------------


def repeated(data: EvalSet, design: str, spec: str, n: int, times: int) -> FloatArray:
    """Estimates from many samples of one population: times x systems."""
    names = data.systems
    values = []
    for seed in range(times):
        result = estimate_given(data, spec, selection=aliquot.select(data, design, n, seed=seed))
        values.append([result[name].estimate for name in names])
    return np.array(values)


@pytest.mark.parametrize("design", ["segments", "pps:size=difficulty,tau=0.3", "stratified", "stratified:bins=domain"])
@pytest.mark.parametrize("spec", ["mean", "greg"])
def test_estimates_have_no_bias_to_speak_of(campaign, design, spec):
    """Means: within four standard errors of the Monte Carlo; regression, biased of order 1/n: a fraction of its sd."""
    data = campaign(120, systems=2, seed=4)
    truth = data.scores["human"].mean(axis=0)
    found = repeated(data, design, spec, n=30, times=150)
    bias, sd = found.mean(axis=0) - truth, found.std(axis=0, ddof=1)
    allowed = 4 / np.sqrt(150) if spec == "mean" else 0.25
    assert (np.abs(bias) < allowed * sd).all()


def test_weights_matter(campaign):
    """A guard for the test above: with the weights thrown away the same samples are far off."""
    data = campaign(120, systems=2, seed=4)
    truth = data.scores["human"].mean(axis=0)
    far = []
    for seed in range(40):
        chosen = aliquot.select(data, "pps:size=difficulty,tau=0.3", 30, seed=seed)
        far.append(data.scores["human"][list(chosen.ids)].mean(axis=0) - truth)
    assert (np.abs(np.mean(far, axis=0)) > 4 / np.sqrt(40) * np.std(far, axis=0, ddof=1)).all()


@pytest.mark.parametrize("metrics", [1, 8])
def test_useless_metrics_hardly_hurt(campaign, metrics):
    """`auto` is never worse than the mean by more than 2% on average, here with metrics that are nothing but noise."""
    rng = np.random.default_rng(0)
    names = [f"m{k}" for k in range(metrics)]
    worse = []
    for seed in range(120):
        data = campaign(200, metrics=metrics, documents=0, seed=seed)
        truth = data.scores["human"].mean(axis=0)
        for name in names:
            data = data.with_score(name, rng.normal(size=(200, 3)))
        rows = rng.choice(200, 25, replace=False)
        chosen = Selection(ids=tuple(rows.tolist()), population=200, method="segments", probability=np.full(25, 0.125))
        plain, auto = (fitted(data, spec, chosen).values - truth for spec in ("mean", "greg"))
        worse.append([np.abs(plain).mean(), np.abs(auto).mean()])
    mean, auto = np.mean(worse, axis=0)
    assert auto / mean < 1.02


def test_every_estimator_says_what_it_takes():
    assert set(list_estimators()) == {
        "mean",
        "stratified",
        "greg",
        "multilevel",
        "informed",
        "cv",
        "paper_best",
        "cv_published",
    }
    for estimator in list_estimators().values():
        assert all(parameter.about for parameter in estimator.parameters.values()), estimator.name


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("grge", "unknown estimator 'grge'; did you mean 'greg'?"),
        ("greg:metric=m0", "greg: no parameter 'metric'; did you mean 'metrics'?"),
        ("greg:metrics=m9", "unknown metric 'm9'"),
        ("greg:ridge=-1", "is -1.0"),
        ("greg:features=poor", "features='poor' is not known; choose rich or plain"),
        ("cv:proxy=nn", "proxy='nn' is not known"),
        ("cv:proxy=knn,k=0", "k"),
        ("cv:proxy=knn,k=-3", "k"),
        ("paper_best:k=0", "k"),
        ("stratified:bins=topic", "unknown item column 'topic'"),
        ("greg:metrics=human", "human"),
        ("cv:metrics=human|m0", "human"),
    ],
)
def test_mistakes_in_a_spec(campaign, spec, message):
    """Among them: neighbours that are none, and people's scores as their own proxy, which would leave no error."""
    with pytest.raises(aliquot.AliquotError) as error:
        estimate_given(campaign(judged=RANDOM), spec)
    assert message in str(error.value)


def test_parameters_may_be_given_apart(campaign):
    data = campaign(judged=RANDOM)
    options: dict[str, Any] = {"metrics": ["m0"], "features": "plain", "ridge": 0.0, "tune": False}
    apart, written = estimate_given(data, "greg", **options), estimate_given(data, PLAIN)
    assert column(apart, "estimate") == pytest.approx(column(written, "estimate"), abs=1e-12)
    assert "metrics=m0" in apart.method


def test_a_parameter_given_twice_is_written_as_a_spec(campaign):
    """The argument wins over the spec, and what is printed can be typed again."""
    data = campaign(judged=RANDOM)
    result = estimate_given(data, "greg:metrics=m0", metrics=["m1"])
    assert result.method == "greg:metrics=m1"
    assert column(estimate_given(data, result.method), "estimate") == column(result, "estimate")


def test_the_unit_of_an_earlier_expectation_does_not_matter(campaign):
    """An expectation of earlier campaigns is trusted as a proxy of variance 1, whatever scale it is on."""
    sample, truth = judged_sample(campaign(judged=RANDOM)), campaign().scores["human"]
    prior = truth / truth.std() + np.random.default_rng(0).normal(size=truth.shape)
    one, other = (run_estimator(replace(sample, prior=size * prior), parse_spec("greg")) for size in (1.0, 1000.0))
    assert one.values == pytest.approx(other.values)
    assert one.values != pytest.approx(run_estimator(sample, parse_spec("greg")).values, rel=1e-9)
