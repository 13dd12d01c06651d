"""Forecasts of a budget: truths and estimates, replayed or drawn, and the widths and probabilities they imply."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri, stdtr
from threadpoolctl import threadpool_limits

from aliquot.core.evalset import EvalSet
from aliquot.core.parallel import run_in_order
from aliquot.errors import AliquotWarning
from aliquot.estimation.pipeline import infer_means
from aliquot.estimation.sample import Sample
from aliquot.simulation.replay import ReplaySet, derive_replay_seeds, draw_items, judge_items
from aliquot.simulation.setup import BudgetPoint, ReplayMethod
from aliquot.stats.arrays import BoolArray, FloatArray, IntArray
from aliquot.stats.multiple_testing import rejected_by_bh

Progress = Callable[[int, int], None]
_BLOCK = 2_000_000  # numbers of draws x pairs that are held at once


@dataclass(frozen=True, eq=False)
class BudgetForecast:
    """Draws of true means and of their estimates at one budget; arrays with a first axis of 1 hold for all R draws.

    Attributes:
        truth: R x M or 1 x M, true means.
        estimates: R x M.
        half: R x M or 1 x M, half widths of the means' intervals; NaN where no spread was seen.
        pair_half: R x M x M or 1 x M x M, half widths of the intervals of differences.
        pair_freedom: likewise, degrees of freedom of their variances.
        pair_se: likewise, their standard errors.
        expected: N, how often each item is expected to be judged.
        not_best: probability that the present leader is not a best system, as `estimate` says it with more draws,
            over what these draws say: it scales theirs, so that a curve starts at what `estimate` says.
    """

    truth: FloatArray
    estimates: FloatArray
    half: FloatArray
    pair_half: FloatArray
    pair_freedom: FloatArray
    pair_se: FloatArray
    expected: FloatArray
    not_best: float = 1.0


@dataclass(frozen=True)
class Point:
    """Expected precision of a method at one budget.

    Attributes:
        method: as typed.
        items: to judge, of the whole test set.
        share: of the test set; NaN for an infinite one.
        judgments: of all systems together.
        hours: of annotators; NaN if times are unknown.
        money: likewise.
        width: mean expected width of the interval of a system's mean.
        width_difference: of the difference of two systems.
        detects: the difference that a typical pair must have to be told apart with the power asked for.
        accuracy: expected share of the pairs in the right order.
        accuracy_error: Monte Carlo standard error of it.
        best: probability that the best system comes first.
        ranking: probability that the whole order is right.
        apart: expected number of pairs told apart, the right way.
        asked: whether the budget was asked for, or only serves to find others.
    """

    method: str
    items: int
    share: float
    judgments: float
    hours: float
    money: float
    width: float
    width_difference: float
    detects: float
    accuracy: float
    accuracy_error: float
    best: float
    ranking: float
    apart: float
    asked: bool = True


@dataclass(frozen=True, eq=False)
class Probabilities:
    """Probabilities that follow from a forecast; `pairs` are those of each pair a < b to be told apart."""

    accuracy: float
    accuracy_error: float
    best: float
    ranking: float
    pairs: FloatArray


def estimate_probabilities(forecast: BudgetForecast, alpha: float = 0.05) -> Probabilities:
    """Return how often, over the draws, pairs, the best system and the order are right, and differences significant.

    A difference is significant as in `estimate`: two-sided p-values, adjusted over all pairs (Benjamini-Hochberg).

    A pair that is tied in truth is right in any order, counts half for accuracy unless the estimates tie too, and is
    never told apart.

    >>> ones = np.full((1, 2, 2), 1.0)
    >>> seen = np.array([[3.0, 0.0], [0.5, 0.0], [0.0, 0.5]])
    >>> told = BudgetForecast(np.array([[1.0, 0.0]]), seen, ones[0], 2 * ones, 60 * ones, ones, np.ones(1))
    >>> found = estimate_probabilities(told)
    >>> round(found.accuracy, 3), found.pairs.round(3)
    (0.667, array([0.333]))
    """
    draws, m = forecast.estimates.shape
    first, second = np.triu_indices(m, 1)
    block = max(1, _BLOCK // max(1, len(first)))
    accuracy, right, apart = np.zeros(draws), np.zeros(draws, dtype=bool), np.zeros(len(first))
    for start in range(0, draws, block):
        rows = slice(start, start + block)
        true, estimated = (
            _pair_differences(_slice_rows(forecast.truth, rows), first, second),
            _pair_differences(forecast.estimates[rows], first, second),
        )
        errors = (forecast.pair_half, forecast.pair_se, forecast.pair_freedom)
        p = _two_sided_p(estimated, *(_slice_rows(part, rows)[:, first, second] for part in errors))
        significant = rejected_by_bh(p, alpha)
        true_sign, estimated_sign = np.sign(true), np.sign(estimated)
        accuracy[rows] = 1.0 - np.abs(true_sign - estimated_sign).mean(axis=1) / 2
        right[rows] = (true_sign * estimated_sign >= 0).all(axis=1) & ((estimated_sign != 0) | (true_sign == 0)).all(
            axis=1
        )
        apart += (significant & (true_sign * estimated_sign > 0)).sum(axis=0)
    error = float(accuracy.std(ddof=1) / np.sqrt(draws)) if draws > 1 else 0.0
    best = 1.0 - min(1.0, forecast.not_best * (1.0 - float(leader_is_best(forecast.estimates, forecast.truth).mean())))
    return Probabilities(float(accuracy.mean()), error, best, float(right.mean()), apart / draws)


def _two_sided_p(difference: FloatArray, half: FloatArray, se: FloatArray, freedom: FloatArray) -> FloatArray:
    """Two-sided p-values; 1 inside the interval, NaN without a standard error."""
    half, se, freedom = (np.broadcast_to(part, difference.shape) for part in (half, se, freedom))
    outside = np.abs(difference) > half
    p = np.where(np.isfinite(half), 1.0, np.nan)
    with np.errstate(divide="ignore"):
        p[outside] = 2.0 * stdtr(freedom[outside], -np.abs(difference[outside]) / se[outside])
    return p


def _slice_rows(values: FloatArray, rows: slice) -> FloatArray:
    return values if len(values) == 1 else values[rows]


def _pair_differences(values: FloatArray, first: IntArray, second: IntArray) -> FloatArray:
    """Differences of all pairs; rounding errors become 0."""
    gaps: FloatArray = values[:, first] - values[:, second]
    noise = 1e-10 * np.abs(values).max(axis=1, keepdims=True, initial=0.0)
    return np.where(np.abs(gaps) > noise, gaps, 0.0)


def leader_is_best(estimates: FloatArray, truth: FloatArray) -> BoolArray:
    """Return, for each draw, whether all leading systems are truly best (`top1` of `simulate`)."""
    return np.asarray((_are_first(truth) | ~_are_first(estimates)).all(axis=1), dtype=np.bool_)


def _are_first(values: FloatArray) -> BoolArray:
    top = values.max(axis=1, keepdims=True)
    first: BoolArray = values >= top - 1e-10 * np.abs(values).max(axis=1, keepdims=True)
    return first


def expected_widths(forecast: BudgetForecast, power: float) -> tuple[float, float, float]:
    """Return mean interval widths of means and of differences, and the difference detected with this power."""
    first, second = np.triu_indices(forecast.estimates.shape[1], 1)
    half, se = (part[:, first, second] for part in (forecast.pair_half, forecast.pair_se))
    return 2 * _finite_mean(forecast.half), 2 * _finite_mean(half), _finite_mean(half + ndtri(power) * se)


def _finite_mean(values: FloatArray) -> float:
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else float("nan")


# -- Past campaigns: the truth is known, so budgets are replayed ------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PastCampaign:
    """A finished campaign to replay.

    Attributes:
        stage: the set and how it is replayed.
        replays: of each budget.
        seed: of the draws.
        jobs: processes.
    """

    stage: ReplaySet
    replays: int = 100
    seed: int = 0
    jobs: int | None = 1

    @property
    def evalset(self) -> EvalSet:
        """The whole set."""
        return self.stage.evalset

    @property
    def means(self) -> FloatArray:
        """Each system's true mean."""
        return self.stage.truth.means

    @property
    def level(self) -> float:
        """Coverage of the intervals."""
        return self.stage.level

    def forecast_budgets(
        self, tasks: Sequence[tuple[ReplayMethod, int]], progress: Progress | None = None
    ) -> list[BudgetForecast]:
        """Replay several methods and numbers of items, in parallel."""
        return run_in_order(_replay_task, [(method, n, self) for method, n in tasks], jobs=self.jobs, progress=progress)

    def forecast_budget(self, method: ReplayMethod, n: int) -> BudgetForecast:
        """Replay one number of items."""
        total = self.evalset.n_items
        share = BudgetPoint(n / total, n / total)
        key = derive_replay_seeds(self.seed, self.evalset, method, n / total)
        drawn, counts = [], np.zeros(total)
        with threadpool_limits(limits=1):
            for replay in range(self.replays if n < total else 1):
                rng = np.random.default_rng([*key, replay])
                sample = judge_items(self.stage, draw_items(self.stage, method, share, rng))
                counts += np.bincount(sample.rows, minlength=total)
                drawn.append(_interval_for_draw(sample, method, self.stage.level))
        estimates, half, pair_half, freedom, pair_se = (np.array(part) for part in zip(*drawn, strict=True))
        return BudgetForecast(self.means[None], estimates, half, pair_half, freedom, pair_se, counts / len(drawn))


def _replay_task(task: tuple[ReplayMethod, int, PastCampaign]) -> BudgetForecast:
    method, n, past = task
    return past.forecast_budget(method, n)


def _interval_for_draw(sample: Sample, method: ReplayMethod, level: float) -> tuple[FloatArray, ...]:
    """Estimates, half widths, degrees of freedom and errors of differences, in the order of `BudgetForecast`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AliquotWarning)
        inference = infer_means(sample, method.estimator)
    return (
        inference.values,
        inference.half_widths(level),
        inference.pair_half_widths(level),
        inference.pair_freedom,
        inference.pair_se,
    )
