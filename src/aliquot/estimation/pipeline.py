"""The one way from judged cells to numbers: fit, errors, degrees of freedom, half widths, p-values, clusters.

`estimate`, `simulate`, `plan` and the sequential mode all call `infer_means`: what is replayed or planned is what
`estimate` prints. Everything beyond the fit is computed on first use: a replay that needs no p-values pays for none.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from scipy.special import stdtrit

from aliquot.core.registry import Spec
from aliquot.estimation.estimators import run_estimator
from aliquot.estimation.sample import Errors, Fitted, Sample
from aliquot.estimation.scales import Scale, find_scale
from aliquot.stats.arrays import BoolArray, FloatArray, is_constant, is_negligible, max_abs, snap_to_zero
from aliquot.stats.design_variance import degrees_of_freedom, pair_degrees_of_freedom
from aliquot.stats.mixed_model import POOLED_CELLS, cell_covariance
from aliquot.stats.ranks import student_p

ALPHA = 0.05


@dataclass(frozen=True, eq=False)
class Inference:
    """An estimator's fit on a sample, with errors, degrees of freedom and tests.

    Attributes:
        sample: the judged cells.
        fitted: the estimator's values and contributions.
        error_parts: the errors of independent units, and what the finite population takes off.
        added: what the target adds to the covariance (estimation/targets.py); None for the mean of these judgments.
        scale: ends that no score can pass; None where they are not known.
        exact: systems whose mean is the target itself: all items are judged, and judging noise is not part of it.
        unseen: variance of a mean whose scores showed no spread, from the scale's ends; 0 for the others.
    """

    sample: Sample
    fitted: Fitted
    error_parts: Errors
    added: FloatArray | None = None
    scale: Scale | None = None
    exact: BoolArray = field(default_factory=lambda: np.zeros(0, dtype=bool))
    unseen: FloatArray = field(default_factory=lambda: np.zeros(0))

    @property
    def errors(self) -> FloatArray:
        """Errors of independent units (units x M); NaN for systems whose spread was not seen."""
        return self.error_parts.units

    @property
    def values(self) -> FloatArray:
        """Each system's estimated mean over the whole test set."""
        return self.fitted.values

    @property
    def judged(self) -> BoolArray:
        """Which systems have an estimate."""
        return ~np.isnan(self.fitted.values)

    @cached_property
    def se(self) -> FloatArray:
        """Standard errors of the means."""
        return np.sqrt(np.clip(np.diag(self.whole_covariance), 0.0, None))

    @property
    def covariance(self) -> FloatArray:
        """Joint covariance of the means, without the variance assumed for systems without spread."""
        sampling_covariance = self.error_parts.covariance
        return sampling_covariance if self.added is None else sampling_covariance + self.added

    @property
    def whole_covariance(self) -> FloatArray:
        """Joint covariance of the means, with the variance assumed for systems without spread."""
        return self.covariance + np.diag(self.unseen)

    @cached_property
    def residual_covariance(self) -> FloatArray:
        """Covariance over items of what the estimator leaves unexplained, M x M."""
        return cell_covariance(self.sample.residual_of(self.fitted), self.sample.cells)

    @cached_property
    def score_covariance(self) -> FloatArray:
        """Covariance over items of the scores themselves, M x M."""
        return cell_covariance(self.sample.scores, self.sample.cells)

    @cached_property
    def pair_se(self) -> FloatArray:
        """Standard errors of all differences a - b, with assumed variances unless shared items show them."""
        se, counts = pair_errors(self.covariance), self.sample.counts
        present = np.isfinite(self.sample.scores).astype(np.float64)
        paired = (2 * (present.T @ present) >= np.maximum.outer(counts, counts)) & (se > 0)
        unseen = np.where(paired, 0.0, self.unseen[:, None] + self.unseen[None, :])
        np.fill_diagonal(unseen, 0.0)
        return np.sqrt(se**2 + unseen)

    @property
    def most_freedom(self) -> float:
        """Degrees of freedom of equally weighted units: their number less one."""
        return max(1.0, self.sample.units - 1.0)

    @cached_property
    def freedom(self) -> FloatArray:
        """Degrees of freedom of each mean's variance, pooled over systems judged on the same items."""
        if not self.sample.ragged:
            return np.full(len(self.values), degrees_of_freedom(self.errors, self.most_freedom))
        is_judged = np.isfinite(self.sample.scores)
        if len(self.errors) != len(is_judged):  # documents are the units: no system has units of its own
            is_judged = np.ones(self.errors.shape, dtype=bool)
        return np.array(
            [
                degrees_of_freedom(self.errors[is_judged[:, s], s][:, None], max(1.0, n - 1.0)) + POOLED_CELLS
                for s, n in enumerate(self.sample.counts)
            ]
        )

    @cached_property
    def pair_freedom(self) -> FloatArray:
        """Degrees of freedom of the variances of all differences."""
        if not self.sample.ragged or len(self.errors) != self.sample.n:
            return pair_degrees_of_freedom(self.errors, self.most_freedom)
        present = np.isfinite(self.sample.scores).astype(np.float64)
        either = self.sample.counts[:, None] + self.sample.counts[None, :] - present.T @ present
        return pair_degrees_of_freedom(self.errors, np.maximum(1.0, either - 1.0), either) + POOLED_CELLS

    def half_widths(self, level: float) -> FloatArray:
        """Half widths of the t intervals of the means."""
        half: FloatArray = stdtrit(self.freedom, 0.5 + level / 2) * self.se
        return half

    def pair_half_widths(self, level: float) -> FloatArray:
        """Half widths of the t intervals of all differences."""
        half: FloatArray = stdtrit(self.pair_freedom, 0.5 + level / 2) * self.pair_se
        return half

    @cached_property
    def p_sample(self) -> FloatArray:
        """One-sided p-values of all pairs from the estimates' joint covariance; small where the row is better."""
        difference = snap_to_zero(self.values[:, None] - self.values[None, :], max_abs(self.values))
        p = student_p(difference, self.pair_se, self.pair_freedom)
        np.fill_diagonal(p, 0.5)
        p[~self.judged] = p[:, ~self.judged] = np.nan
        return p


def infer_means(sample: Sample, spec: Spec, *, question: tuple[Scale | None, BoolArray] | None = None) -> Inference:
    """Fit an estimator and compute its errors.

    Systems without spread are blanked here, before degrees of freedom and covariances are taken: an error that was
    not seen is unknown, not 0, and must not count in what is pooled over systems. On a scale with two ends it is known
    how large it can be: with m the rescaled mean and n judged items, (m n + 2) / (n + 4) takes the place of m (Agresti
    and Coull 1998), but no more than the other systems show; that also serves where all scores are at the one end of
    penalties. The mean of all items is exact only where the target is the mean of these very judgments.

    Args:
        sample: the judged cells.
        spec: the estimator.
        question: the scale, and for which systems the mean of all items is exact; by default told from the scores, and
            all.
    """
    fitted = run_estimator(sample, spec)
    errors = sample.compute_errors(fitted)
    scale, census_is_exact = (find_scale(sample.scores), np.asarray(True)) if question is None else question
    exact = (sample.counts == sample.population) & census_is_exact
    blank = without_spread(sample) & ~exact
    unseen = np.zeros(len(blank))
    if scale is not None:
        fitted = replace(fitted, values=np.clip(fitted.values, scale.low, scale.high))
        at_end = is_negligible(fitted.values - scale.high, scale.high - np.nanmin(sample.scores))
        is_equal = blank & (sample.counts > 1) & (at_end | np.isfinite(scale.width))
        unseen = np.where(is_equal, _unseen_variance(sample, fitted.values, scale, is_equal), 0.0)
        blank = blank & ~(is_equal & np.isfinite(unseen))
        unseen = np.nan_to_num(unseen)
    errors.units[:, blank] = np.nan
    return Inference(sample, fitted, errors, scale=scale, exact=exact, unseen=unseen)


def _unseen_variance(sample: Sample, values: FloatArray, scale: Scale, equal: BoolArray) -> FloatArray:
    """Return the variance assumed for means of equal scores: the scale's maximum, or the other systems' if less."""
    n = np.maximum(sample.counts.astype(np.float64), 1.0)
    allowed = np.full(len(n), np.inf)
    if np.isfinite(scale.width):
        share = ((values - scale.low) / scale.width * n + 2.0) / (n + 4.0)
        allowed = scale.width**2 * share * (1.0 - share) / (n + 4.0)
    other_scores = sample.scores[:, ~equal & (sample.counts > 1)]
    usual = float(np.nanvar(other_scores, axis=0, ddof=1).mean()) if other_scores.size else np.inf
    variance = np.minimum(allowed, usual / n)
    return np.where(np.isfinite(variance), variance, np.nan)


def without_spread(sample: Sample) -> BoolArray:
    """Return a mask of systems with fewer than two judgments, or equal ones."""
    return (sample.counts < 2) | is_constant(sample.scores, axis=0)


def one_sided_better(p: FloatArray, alpha: float) -> BoolArray:
    """Return pairs whose one-sided p is below alpha in one direction only."""
    better = np.nan_to_num(p, nan=1.0) < alpha
    return better & ~better.T


def pair_errors(covariance: FloatArray) -> FloatArray:
    """Return the standard deviation of every difference a - b."""
    squares = np.diag(covariance)
    total = squares[:, None] + squares[None, :]
    return np.sqrt(np.clip(snap_to_zero(total - 2 * covariance, total), 0.0, None))
