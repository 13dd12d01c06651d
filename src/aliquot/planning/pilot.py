"""Pilots: the judged part of a set, and forecasts of estimates from more items of it or from another set."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import stdtrit

from aliquot.core.describe import MIN_PLAN_ITEMS
from aliquot.core.evalset import EvalSet
from aliquot.core.selection import Selection
from aliquot.errors import AliquotWarning, DataError, OptionError
from aliquot.estimation.estimators import run_estimator
from aliquot.estimation.pipeline import Inference, infer_means, pair_errors
from aliquot.estimation.ranking import p_best
from aliquot.estimation.sample import Fitted, Sample, judged_sample
from aliquot.planning.forecast import BudgetForecast, Progress, leader_is_best
from aliquot.sampling.methods import DesignDraw, find_method
from aliquot.simulation.setup import BASELINE, ReplayMethod, resolve_method
from aliquot.stats.arrays import BoolArray, FloatArray, IntArray, is_constant
from aliquot.stats.design_variance import intracluster_correlation
from aliquot.stats.shrinkage import (
    Forecast,
    cap_covariance,
    combine_covariances,
    covariance_root,
    draw_true_means,
    expected_cluster_pairs,
    extend_estimates,
    forecast_sample,
)

_MIN_COVERAGE = 0.5  # share of the best covered system's items, up to which a system is left out
_PREDICTABLE = ("unordered", "spread")
_MIN_PAIRS = 12  # ordered pairs of items, as the shrinkage of intracluster_correlation counts them
_SMALL_PILOT = 20  # items below which a pilot is called small


@dataclass(frozen=True, eq=False)
class Pilot:
    """The judged part of a set, and the test set to plan for."""

    sample: Sample  # items judged for all systems
    added: FloatArray | None = None  # what the target adds to the covariance of the means (estimation/targets.py)
    # items of the planned test set for one of the present: 1 for the same set, infinite beyond any set
    copies: float = 1.0
    level: float = 0.95  # of the intervals
    draws: int = 2000  # of truth and estimates
    seed: int = 0  # of the draws; every budget uses the same, so that curves are smooth

    @property
    def evalset(self) -> EvalSet:
        """The whole set."""
        return self.sample.evalset

    @property
    def weight(self) -> FloatArray:
        """Sampling weights of the judged items, which sum to the population size."""
        scaled: FloatArray = self.sample.weight * (self.sample.population / self.sample.weight.sum())
        return scaled

    @cached_property
    def fitted(self) -> Fitted:
        """The pilot's estimates by the recommended estimator."""
        return self._run_estimator(resolve_method("auto", self.evalset))

    @cached_property
    def _fits(self) -> dict[str, Fitted]:
        return {}

    def _run_estimator(self, method: ReplayMethod) -> Fitted:
        """Return the pilot's estimates by a method's estimator (cached)."""
        key = str(method.estimator)
        if key not in self._fits:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", AliquotWarning)
                self._fits[key] = run_estimator(self.sample, method.estimator)
        return self._fits[key]

    @cached_property
    def known_covariance(self) -> FloatArray:
        """Covariance of the true means over the planned test set, given the pilot (M x M)."""
        if self.copies == 1:
            return self._with_target(self.sample.compute_errors(self.fitted).covariance)
        # Other items than the judged ones: no gain from having judged some, and the new set's own spread on top.
        present = forecast_sample(self._residuals(self.fitted), self.weight, 1 / self.weight, self.sample.n, np.inf)
        share = self.sample.n / (self.copies * self.sample.population) if np.isfinite(self.copies) else 0.0
        covariance: FloatArray = present.covariance * (1.0 + share)
        return covariance

    def _with_target(self, covariance: FloatArray) -> FloatArray:
        """Add the noise of judging, which more items do not reduce."""
        return covariance if self.added is None else covariance + self.added

    @property
    def continues(self) -> bool:
        """Whether more items of the same test set are added to those judged."""
        return self.copies == 1

    @cached_property
    def truth(self) -> FloatArray:
        """Draws of the true means, draws x M."""
        draws = draw_true_means(
            self.fitted.values, self.known_covariance, self.draws, np.random.default_rng([self.seed, 1])
        )
        return draws[:, self.same_as]

    @cached_property
    def same_as(self) -> IntArray:
        """Index of the first system with the same judged scores, for each system.

        They are tied in all draws; otherwise rounding, divided by a standard error of 0, would tell them apart.
        """
        _, first, group = np.unique(self.sample.scores, axis=1, return_index=True, return_inverse=True)
        return np.asarray(first[group.ravel()], dtype=np.int64)

    @property
    def means(self) -> FloatArray:
        """Estimated means of the systems."""
        return self.fitted.values

    def _residuals(self, fitted: Fitted) -> FloatArray:
        """Residuals e of the estimator, from its contributions w (e - mean) / sum w."""
        residual: FloatArray = fitted.z * (self.sample.weight.sum() / self.sample.weight)[:, None]
        return residual

    def forecast_units(self, method: ReplayMethod, n: int) -> tuple[Forecast, FloatArray]:
        """Return the forecast of a sample of n items, and the expected number of draws of each item (N)."""
        drawn = _draw_design(self.evalset, method, _same_share_size(n, self.copies, self.sample.population), self.seed)
        chance = drawn.probability
        design = drawn.design
        if chance is None or design.variance not in _PREDICTABLE:
            raise OptionError(
                f"'{method.typed}' cannot be predicted from a pilot; plan with segments, pps or auto, or "
                "replay a past campaign (`past=True`)"
            )
        expected = chance * (n / chance.sum())
        residual, rows = self._residuals(self._run_estimator(method)), self.sample.rows
        future = forecast_sample(residual, self.weight, expected[rows], n, self.copies)
        codes = self.evalset.documents
        if design.variance == "spread" and codes is not None:
            rho = intracluster_correlation(future.units, self.sample.clusters, expected_cluster_pairs(chance, codes))
            future = future.scale_variance(1.0 - rho * (1.0 - min(1.0, design.remainder)))
        return future, expected

    def forecast_budgets(
        self, tasks: Sequence[tuple[ReplayMethod, int]], progress: Progress | None = None
    ) -> list[BudgetForecast]:
        """Return the forecasts of several methods and numbers of items."""
        del progress  # takes no time
        return [self.forecast_budget(method, n) for method, n in tasks]

    def forecast_budget(self, method: ReplayMethod, n: int) -> BudgetForecast:
        """Return the forecast for n items in all, or for n items of another set."""
        if self.continues and n < self.sample.n + 2:
            return self._forecast_present()
        future, expected = self.forecast_units(method, n)
        draws = np.random.default_rng([self.seed, 2]).standard_normal(self.truth.shape)
        if self.continues:
            covariance = cap_covariance(
                self._with_target(self._extended_covariance(method, n, future.covariance)), self.known_covariance
            )
            estimates = extend_estimates(self.truth, self.means, self.known_covariance, covariance, draws)
        else:
            covariance = future.covariance
            estimates = self.truth + draws @ covariance_root(covariance).T
        freedom = (future.freedom(), future.pair_freedom())
        if self.continues:  # no fewer than the pilot's own
            freedom = (max(freedom[0], self.now.freedom[0]), np.maximum(freedom[1], self.now.pair_freedom))
        return self._budget_forecast(estimates[:, self.same_as], covariance, freedom, expected)

    @cached_property
    def now(self) -> Inference:
        """The inference that `estimate` makes from the judged items."""
        return infer_means(self.sample, resolve_method("auto", self.evalset).estimator)

    def _extended_covariance(self, method: ReplayMethod, n: int, covariance: FloatArray) -> FloatArray:
        """Covariance after n items in all; plain random items are combined with the pilot.

        Going from m to n random items of N adds what a sample with 1/g = 1/(1/n - 1/N) - 1/(1/m - 1/N) items would.
        """
        total = self.sample.population
        if method.typed != BASELINE or n >= total:
            return covariance
        information = 1 / (1 / n - 1 / total) - 1 / (1 / self.sample.n - 1 / total)
        covariance_now = self.known_covariance if self.added is None else self.known_covariance - self.added
        return combine_covariances(covariance_now, covariance / (1 / n - 1 / total) / information)

    def _forecast_present(self) -> BudgetForecast:
        """Return the forecast without further items: the estimates are fixed, the truth is drawn."""
        expected = np.bincount(self.sample.rows, minlength=self.evalset.n_items).astype(np.float64)
        estimates = np.tile(self.means, (len(self.truth), 1))
        return self._budget_forecast(
            estimates, self.known_covariance, (self.now.freedom[0], self.now.pair_freedom), expected
        )

    @cached_property
    def _leader_ratio(self) -> float:
        """P(leader is not a best system) by `estimate`, divided by the same from these draws."""
        if not self.continues:
            return 1.0
        leaders = self.same_as == self.same_as[int(self.means.argmax())]
        probability = float(p_best(replace(self.now, added=self.added), self.seed)[leaders].sum())
        share = float(leader_is_best(np.tile(self.means, (len(self.truth), 1)), self.truth).mean())
        return (1.0 - probability) / (1.0 - share) if share < 1 and np.isfinite(probability) else 1.0

    def _budget_forecast(
        self, estimates: FloatArray, covariance: FloatArray, freedom: tuple[float, FloatArray], expected: FloatArray
    ) -> BudgetForecast:
        """Return a forecast with interval widths and standard errors as `estimate` computes them."""
        pair_se = pair_errors(covariance)
        half = stdtrit(freedom[0], 0.5 + self.level / 2) * np.sqrt(np.diag(covariance))
        pair_half = stdtrit(freedom[1], 0.5 + self.level / 2) * pair_se
        return BudgetForecast(
            self.truth,
            estimates,
            half[None],
            pair_half[None],
            freedom[1][None],
            pair_se[None],
            expected,
            self._leader_ratio,
        )

    @property
    def uncertainty(self) -> float:
        """Relative standard error of interval widths, 1 / sqrt(2 df): a small pilot estimates the spread roughly."""
        weight = self.weight
        present = forecast_sample(self._residuals(self.fitted), weight, 1 / weight, self.sample.n, np.inf)
        return float(1.0 / np.sqrt(2.0 * present.freedom()))


def _draw_design(evalset: EvalSet, method: ReplayMethod, n: int, seed: int) -> DesignDraw:
    selector = find_method(method.selector.name)[0]
    if selector.kind != "design":
        return DesignDraw(np.zeros(0, dtype=np.int64), None)
    draw: DesignDraw = selector.run(evalset, method.selector.parameters, n=n, rng=np.random.default_rng(seed))
    return draw


def _same_share_size(n: int, copies: float, population: int) -> int:
    """Return the sample size in the present set with the same share as n items of the planned set."""
    if not np.isfinite(copies):
        return max(2, min(population // 10, n))  # small inclusion probabilities, as in an infinite set
    return int(np.clip(round(n / copies), 2, population))


def take_pilot(
    data: EvalSet, human: str | None = None, selection: Selection | None = None
) -> tuple[Sample, tuple[str, ...]]:
    """Return the items judged for all systems, and notes on what is left out; rarely judged systems are dropped.

    >>> import aliquot
    >>> sample, notes = take_pilot(aliquot.synthetic(items=40, systems=3, seed=1))
    >>> sample.n, notes
    (40, ())
    """
    data = data.with_human(human or data.human)
    scores = data.human_score()
    judged = np.isfinite(scores)
    if not judged.any():
        raise DataError(
            f"{data.name}: no item has a human score to plan from; judge a pilot, name the score with "
            "`human`, or plan without data, with `difference` and `sd`"
        )
    covered = judged.mean(axis=0)
    thin = [name for name, share in zip(data.systems, covered, strict=True) if share <= _MIN_COVERAGE * covered.max()]
    covered_data = data.drop(systems=thin) if thin else data
    if covered_data.n_systems < 2:
        raise DataError(
            f"{data.name}: only {covered_data.n_systems} system has human scores; a plan compares at least two"
        )
    notes = [f"judged on too few items and left out: {', '.join(thin)}"] if thin else []
    is_judged = np.isfinite(covered_data.human_score())
    is_complete: BoolArray = is_judged.sum(axis=1) == covered_data.n_systems
    part = is_judged.any(axis=1) & ~is_complete
    if part.any():
        notes.append(f"{int(part.sum())} items judged for some systems only are not used")
    _require_items(data, int(is_complete.sum()))
    complete_data = covered_data.with_score(
        str(covered_data.human), np.where(is_complete[:, None], covered_data.human_score(), np.nan)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AliquotWarning)
        sample = judged_sample(complete_data, None, selection)
    _require_items(data, sample.n)
    if sample.pi is None:
        notes.append("the pilot's items were not drawn with known probabilities: it is taken for a random sample")
        sample = replace(sample, pi=np.full(sample.n, sample.n / sample.population), weight=np.ones(sample.n))
    _require_spread(sample)
    return sample, tuple(notes)


def _require_items(data: EvalSet, count: int) -> None:
    if count < MIN_PLAN_ITEMS:
        raise DataError(
            f"{data.name}: {count} {'item is' if count == 1 else 'items are'} judged for all systems; a "
            f"plan needs a pilot of at least {MIN_PLAN_ITEMS}, better 20 or more: judge more, leave "
            "systems out (`exclude`), or plan without data, with `difference` and `sd`"
        )


def _require_spread(sample: Sample) -> None:
    equal = is_constant(sample.scores, axis=0)
    if equal.any():
        name = sample.evalset.systems[int(np.flatnonzero(equal)[0])]
        raise DataError(
            f"{sample.evalset.name}: all {sample.n} judged scores of '{name}' are equal, so its spread is "
            "unknown; judge more items, or leave it out (`exclude`)"
        )


def describe_pilot(pilot: Pilot, *, has_selection: bool) -> list[str]:
    """Return notes on the pilot's assumptions and precision."""
    sample = pilot.sample
    notes = []
    if not has_selection and sample.n < sample.population:
        notes.append("no selection given: the judged items are taken for a simple random sample")
    if not pilot.continues:
        notes.append("the planned items are taken to be like those of the data")
    if sample.n < _SMALL_PILOT:
        notes.append(f"a pilot of {sample.n} items is small; {_SMALL_PILOT} or more are better")
    systems = sample.evalset.systems
    alike = [
        f"'{systems[first]}' and '{systems[system]}'" for system, first in enumerate(pilot.same_as) if first != system
    ]
    if alike:
        notes.append(
            f"no difference is seen, and none can be planned for: {', '.join(alike)} have the same scores on "
            "all judged items"
        )
    if _documents_unknown(pilot):
        notes.append(
            "hardly two judged items share a document, so what spreading over documents saves is not counted: "
            "the plan is careful"
        )
    notes.append(
        f"predicted from {sample.n} judged items: widths are good to about ±{pilot.uncertainty:.0%}, and what "
        "is unknown of the true differences is averaged over"
    )
    return notes


def _documents_unknown(pilot: Pilot) -> bool:
    """Return whether too few pairs of judged items share a document to estimate their correlation."""
    codes, rows = pilot.evalset.documents, pilot.sample.rows
    if codes is None or codes.max() + 1 == len(codes):
        return False
    return expected_cluster_pairs(np.ones(len(rows)), codes[rows]) < _MIN_PAIRS
