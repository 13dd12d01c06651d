"""Decomposition of a metric's pairwise error into noise, bias and variance (Wei and Jia 2021, eq. 14).

Invariant: observed = c0 Noise + Bias + c1 Var + covariance, exactly, for every pair and so for means over pairs; the
covariance is 0 unless human and metric use the same samples. Swapping the systems of a pair changes nothing. For a pair
(a, b) let h = P(human mean of a > that of b) and m the same of the metric, over bootstrap samples of items; ties are
half. Then

- y* = the more frequent human sign, m* = the more frequent metric sign;
- Noise = P(human sign != y*) = min(h, 1 - h), Var = P(metric sign != m*) = min(m, 1 - m);
- Bias = 1 where m* != y*, c0 = 2 P(metric sign = y*) - 1, c1 = 1 - 2 Bias.

Where h or m is exactly 1/2 there is no more frequent sign. Bias is then the mean over both choices, 1/2, and c1 (or c0)
is 0; where h and m both are 1/2, Bias is 0. All of this preserves the identity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from aliquot.errors import DataError, OptionError
from aliquot.stats.arrays import FloatArray, IntArray, Seed, snap_to_zero, validate_metric_stack, validate_scores
from aliquot.stats.pairwise import pairwise_sums
from aliquot.stats.resampling import SignCounts, bootstrap_sign_counts, full_sample_signs, spawn_seeds
from aliquot.validation import between, one_of

PARTS = ("observed", "noise", "bias", "variance", "covariance")
"""The columns of the decomposition, in order."""

OPTIMAL_ROW, HUMAN_ROW, FIRST_METRIC_ROW = 0, 1, 2
"""Rows of a `Decomposition`: optimal predictor, human estimator, and the metrics from there on."""

_REPLICATES = 200


@dataclass(frozen=True)
class PairParts:
    """Parts of the expected disagreement, metrics x pairs; NaN without a common item of human and metric."""

    observed: FloatArray  # p(human sign != metric sign)
    noise: FloatArray  # c0 Noise
    bias: FloatArray  # bias
    variance: FloatArray  # c1 Var
    covariance: FloatArray  # -2 Cov(human sign, metric sign); 0 for independent samples

    def stack_parts(self) -> FloatArray:
        """Stack the parts in the order of `PARTS` on the first axis."""
        return np.stack([self.observed, self.noise, self.bias, self.variance, self.covariance])


@dataclass(frozen=True)
class PairSigns:
    """Bootstrap sign counts of one campaign, by human and by metric."""

    human: SignCounts  # one table
    metrics: SignCounts  # one table per metric; with `joint` counts if human and metrics share the samples


@dataclass(frozen=True)
class Decomposition:
    """Means over pairs: rows for the optimal predictor, the human estimator and each metric.

    The optimal predictor always predicts y*. The human estimator is a second, independent human evaluation of the same
    size with the P(sign) of the first, so its bias is 0 by construction.
    """

    value: FloatArray  # rows x parts, in the order of `PARTS`
    error: FloatArray  # rows x parts, Monte Carlo standard errors
    pairs: IntArray  # rows; number of pairs in the mean
    trials: int  # bootstrap trials

    def to_dict(self) -> dict[str, list[float]]:
        """Return columns by name: the parts, their Monte Carlo errors as `<part>_error`, and pairs."""
        columns = {part: self.value[:, column].tolist() for column, part in enumerate(PARTS)}
        columns |= {f"{part}_error": self.error[:, column].tolist() for column, part in enumerate(PARTS)}
        return columns | {"pairs": self.pairs.tolist()}


def bootstrap_pair_signs(
    human: FloatArray,
    metrics: FloatArray,
    trials: int = 10_000,
    *,
    paired: bool = False,
    seed: Seed = 0,
    human_size: int | None = None,
    metric_size: int | None = None,
) -> PairSigns:
    """Bootstrap the items and count the signs of mean differences, by human and by each metric.

    By default samples of human and metrics are independent, as in the paper, with as many items as have any score;
    `paired` uses the same samples for both, from items with a human score.
    """
    validate_metric_stack(metrics, human)
    if human.shape[1] < 2:
        raise DataError(f"there are {human.shape[1]} systems; two are needed to compare")
    if paired and human_size != metric_size:
        raise OptionError(f"`human_size` is {human_size} and `metric_size` {metric_size}; paired draws have one size")
    judged = ~np.isnan(human).all(axis=1)
    if not judged.any():
        raise DataError("no item has a human score; judge some, or name another human score")
    human_seed, metric_seed = spawn_seeds(seed, 2)
    by_human = bootstrap_sign_counts(human[judged][None], trials, size=human_size, seed=human_seed)
    if paired:
        by_metric = bootstrap_sign_counts(
            metrics[:, judged], trials, size=metric_size, seed=human_seed, partner=human[judged]
        )
    else:
        scored = ~np.isnan(metrics).all(axis=(0, 2)) if len(metrics) else judged
        rows = scored if scored.any() else judged  # without any score everything is NaN
        by_metric = bootstrap_sign_counts(metrics[:, rows], trials, size=metric_size, seed=metric_seed)
    return PairSigns(by_human, by_metric)


def pair_parts(human: FloatArray, metric: FloatArray, joint: FloatArray | None = None) -> PairParts:
    """Compute the parts from the probabilities that the first system of a pair is ahead (eq. 14).

    `joint` is E[human wins x metric wins] for shared samples; None for independent ones.

    >>> parts = pair_parts(np.array([0.9]), np.array([0.2]))
    >>> [part.round(3).item() for part in parts.stack_parts()]  # 0.74 = -0.6 x 0.1 + 1 - 0.2
    [0.74, -0.06, 1.0, -0.2, 0.0]
    """
    truth, main = np.broadcast_arrays(np.sign(human - 0.5), np.sign(metric - 0.5))  # y* and m*, 0 for none
    bias = np.abs(truth - main) / 2  # 1/2 where exactly one of them has no more frequent sign
    noise, variance = np.minimum(human, 1 - human), np.minimum(metric, 1 - metric)
    independent = human + metric - 2 * human * metric
    covariance = 0.0 * independent if joint is None else 2 * (human * metric - joint)
    c0, c1 = truth * (2 * metric - 1), 1 - 2 * bias
    return PairParts(independent + covariance, c0 * noise, bias, c1 * variance, covariance)


def optimal_parts(human: FloatArray) -> PairParts:
    """Return the parts of the predictor y*, whose error is the noise, the lower bound (section 4.2).

    >>> optimal_parts(np.array([0.9, 0.5])).observed.round(3)
    array([0.1, 0.5])
    """
    noise = np.minimum(human, 1 - human)
    return PairParts(noise, noise, 0.0 * noise, 0.0 * noise, 0.0 * noise)


def campaign_parts(signs: PairSigns) -> PairParts:
    """Return the parts of every metric and pair of one campaign: metrics x pairs."""
    joint = signs.metrics.joint
    together = None if joint is None else joint.sum(axis=0) / signs.metrics.trials.sum()
    return pair_parts(signs.human.share_ahead(), signs.metrics.share_ahead(), together)


def decompose(campaigns: PairSigns | Sequence[PairSigns], seed: Seed = 0) -> Decomposition:
    """Average the parts over the pairs of one or several campaigns, with Monte Carlo errors.

    Pairs have equal weights and are formed within campaigns, which have the same metrics in the same order (all NaN
    where absent). Monte Carlo errors, from bootstrapping the batches of trials, reflect the finite number of trials,
    not of items or systems; NaN for one trial.

    >>> rng = np.random.default_rng(0)
    >>> human = rng.normal(size=(50, 4)) + np.arange(4)
    >>> table = decompose(bootstrap_pair_signs(human, np.stack([human, -human]), trials=500))
    >>> table.value[:, PARTS.index("bias")]  # optimal predictor, human estimator, the human score, its opposite
    array([0., 0., 0., 1.])
    """
    all_signs = [campaigns] if isinstance(campaigns, PairSigns) else list(campaigns)
    if not all_signs:
        raise OptionError("no campaign is given; give at least one")
    tables = {signs.metrics.plus.shape[1] for signs in all_signs}
    if len(tables) > 1:
        raise OptionError(f"campaigns have {sorted(tables)} metrics; give the same ones to all, NaN where missing")
    sums = [_sum_parts(signs) for signs in all_signs]
    total = np.sum([part for part, _ in sums], axis=0)
    pairs = np.sum([count for _, count in sums], axis=0)
    seeds = spawn_seeds(seed, len(all_signs))
    spread = sum(_monte_carlo_variance(signs, child) for signs, child in zip(all_signs, seeds, strict=True))
    with np.errstate(invalid="ignore", divide="ignore"):
        value, error = total / pairs[:, None], np.sqrt(spread) / pairs[:, None]
    return Decomposition(
        value, error, pairs.astype(np.int64), int(min(signs.human.trials.sum() for signs in all_signs))
    )


def _sum_parts(signs: PairSigns) -> tuple[FloatArray, FloatArray]:
    """Return sums over pairs (rows x parts) and numbers of pairs (rows)."""
    human = signs.human.share_ahead()
    rows = [
        optimal_parts(human).stack_parts(),
        pair_parts(human, human).stack_parts(),
        campaign_parts(signs).stack_parts(),
    ]
    table = np.concatenate(rows, axis=1)
    return np.nansum(table, axis=2).T, np.isfinite(table[0]).sum(axis=1).astype(np.float64)


def _monte_carlo_variance(signs: PairSigns, seed: int) -> FloatArray:
    """Return the Monte Carlo variance of the sums over pairs (rows x parts), by a bootstrap of batches."""
    batches = len(signs.human.trials)
    rows = FIRST_METRIC_ROW + signs.metrics.plus.shape[1]
    if batches < 2:
        return np.full((rows, len(PARTS)), np.nan)
    rng = np.random.default_rng(seed)
    human_draws, metric_draws = (rng.multinomial(batches, np.full(batches, 1 / batches), _REPLICATES) for _ in "hm")
    joint = signs.metrics.joint
    if joint is not None:
        metric_draws = human_draws
    human = _resampled_share(signs.human.plus[:, 0], signs.human.trials, human_draws)
    result = np.empty((rows, len(PARTS)))
    result[OPTIMAL_ROW] = _variance_of_sums(optimal_parts(human))
    result[HUMAN_ROW] = _variance_of_sums(pair_parts(human, human))
    for metric in range(rows - FIRST_METRIC_ROW):
        share = _resampled_share(signs.metrics.plus[:, metric], signs.metrics.trials, metric_draws)
        together = None if joint is None else _resampled_share(joint[:, metric], signs.metrics.trials, metric_draws)
        result[FIRST_METRIC_ROW + metric] = _variance_of_sums(pair_parts(human, share, together))
    return result * batches / (batches - 1)


def _resampled_share(plus: FloatArray, trials: IntArray, draws: IntArray) -> FloatArray:
    """Return P(first ahead) in each bootstrap sample of batches: replicates x pairs."""
    return np.asarray((draws @ plus) / (draws @ trials)[:, None], dtype=np.float64)


def _variance_of_sums(parts: PairParts) -> FloatArray:
    return np.asarray(np.nansum(parts.stack_parts(), axis=2).var(axis=1, ddof=1), dtype=np.float64)


@dataclass(frozen=True)
class SquaredErrors:
    """Parts of the mean squared error of differences; rows as in `Decomposition`."""

    value: FloatArray  # rows x (observed, noise, bias, variance, factor)
    pairs: IntArray  # rows; number of pairs in the mean


def squared_error(human: FloatArray, metrics: FloatArray) -> SquaredErrors:
    """Split E (D_h - b D_m)^2 into noise, squared bias and variance over bootstrap samples of items.

    D are mean differences of a pair, with independent samples for human and metric, so that the split is Var(D_h) +
    (d_h - b d_m)^2 + b^2 Var(D_m), with d the differences on all items and Var(D) = s^2 / n exactly (s with divisor n).
    The factor b is the least squares slope of d_h on d_m over pairs, which puts the metric on the human scale. Each
    metric is compared with human on the pairs that both have.

    >>> human = np.array([[3.0, 1.0], [2.0, 2.0]])
    >>> squared_error(human, np.stack([human / 2])).value[2]  # noise 1 / 2, and as much variance
    array([1. , 0.5, 0. , 0.5, 2. ])
    """
    validate_metric_stack(metrics, human)
    means, variances = _difference_moments(human)
    defined = np.isfinite(means)
    noise = variances[defined].mean() if defined.any() else np.nan
    rows = [[noise, noise, 0.0, 0.0, 1.0], [2 * noise, noise, 0.0, noise, 1.0]]
    pairs = [int(defined.sum())] * 2
    for metric in metrics:
        of_metric, its_variance = _difference_moments(metric)
        shared = defined & np.isfinite(of_metric)
        total = float((of_metric[shared] ** 2).sum())
        factor = float(of_metric[shared] @ means[shared]) / total if total > 0 else 0.0
        parts = [variances[shared], (means[shared] - factor * of_metric[shared]) ** 2, factor**2 * its_variance[shared]]
        mean = [float(part.mean()) if shared.any() else np.nan for part in parts]
        rows.append([sum(mean), *mean, factor])
        pairs.append(int(shared.sum()))
    return SquaredErrors(np.array(rows, dtype=np.float64), np.array(pairs, dtype=np.int64))


def _difference_moments(scores: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the mean difference of every pair and its bootstrap variance."""
    sums = pairwise_sums(scores)
    count = np.where(sums.count > 0, sums.count, np.nan)
    mean = sums.total / count
    square = sums.squares / count
    return mean, np.maximum(snap_to_zero(square - mean**2, square), 0.0) / count


# -- Co-occurrence of significance, and convergence of metrics ---------------------------------------------------------


Orientation = Literal["human", "given"]


@dataclass(frozen=True)
class CoOccurrenceCounts:
    """Counts of pairs by significance, human against metric."""

    # metrics x 3 x 3: pairs by human (rows) and metric verdict (columns): better, not significant, worse
    counts: IntArray
    human: FloatArray  # verdict per pair: 1 better, 0 not significant, -1 worse; NaN without a common item
    metrics: FloatArray  # the same, metrics x pairs
    pairs: IntArray  # pairs counted, one number per metric


@dataclass(frozen=True)
class ConvergenceCurve:
    """Agreement of metrics on n items with their sign on all items."""

    sizes: IntArray  # items, n
    agreement: FloatArray  # metrics x sizes; mean over pairs of P(sign on n items = sign on all), ties half
    error: FloatArray  # metrics x sizes; Monte Carlo standard errors


def co_occurrence(
    human: FloatArray,
    metrics: FloatArray,
    trials: int = 1000,
    *,
    alpha: float = 0.05,
    orient: Orientation = "human",
    seed: Seed = 0,
) -> CoOccurrenceCounts:
    """Count pairs by whether human and metric find a significant difference, and which (Wei and Jia 2021, appendix E).

    A system is significantly better if it is behind in fewer than `alpha` of the bootstrap samples, ties half: a
    one-sided paired bootstrap test. With `orient` "human" the first system of a pair is the one ahead by human, so that
    the row "worse" is 0, as in the paper; "given" keeps the order of the systems.

    >>> human = np.random.default_rng(0).normal(size=(100, 3)) + np.array([2.0, 1.0, 1.0])
    >>> co_occurrence(human, np.stack([-human])).counts.tolist()
    [[[0, 0, 2], [0, 1, 0], [0, 0, 0]]]
    """
    between("alpha", alpha, 0, 0.5, inclusive=False, remedy="give a number between 0 and 0.5, for instance 0.05")
    one_of("orient", orient, get_args(Orientation))
    signs = bootstrap_pair_signs(human, metrics, trials, seed=seed)
    ahead = signs.human.share_ahead()[0]
    orientation = np.where((ahead < 0.5) & (orient == "human"), -1.0, 1.0)
    by_human, by_metric = (
        orientation * _significance_verdicts(ahead, alpha),
        orientation * _significance_verdicts(signs.metrics.share_ahead(), alpha),
    )
    counts = (
        np.stack([_verdict_table(by_human, verdicts) for verdicts in by_metric])
        if len(by_metric)
        else np.empty((0, 3, 3))
    )
    table = counts.astype(np.int64)
    return CoOccurrenceCounts(table, by_human, by_metric, table.sum(axis=(1, 2)))


def _significance_verdicts(ahead: FloatArray, alpha: float) -> FloatArray:
    below = alpha - 1e-12  # 1 - 0.95 is not 0.05 in binary
    verdict = (1 - ahead < below).astype(np.float64) - (ahead < below)
    return np.where(np.isnan(ahead), np.nan, verdict)


def _verdict_table(human: FloatArray, metric: FloatArray) -> IntArray:
    defined = ~(np.isnan(human) | np.isnan(metric))
    cells = 3 * (1 - human[defined]) + (1 - metric[defined])
    return np.bincount(cells.astype(np.int64), minlength=9).reshape(3, 3)


def convergence(metrics: FloatArray, sizes: IntArray, trials: int = 1000, *, seed: Seed = 0) -> ConvergenceCurve:
    """Return the agreement of each metric's sign on n sampled items with its sign on all (appendix B).

    A pair tied on all items counts as half.

    >>> scores = np.array([[[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]])
    >>> convergence(scores, np.array([1, 3, 99]), seed=1).agreement.round(2)  # exactly 2 / 3 and 20 / 27 at first
    array([[0.64, 0.73, 1.  ]])
    """
    validate_scores(metrics, "metrics x items x systems", "metrics")
    if metrics.shape[2] < 2:
        raise DataError(f"there are {metrics.shape[2]} systems; two are needed to compare")
    scored = metrics[:, ~np.isnan(metrics).all(axis=(0, 2))]
    if not scored.size:
        raise DataError("no item has a metric score; give a metric that is there")
    main = full_sample_signs(scored)
    grid = np.asarray(sizes, dtype=np.int64)
    seeds = spawn_seeds(seed, len(grid))
    agreements = [
        _mean_agreement(bootstrap_sign_counts(scored, trials, size=int(size), seed=child), main)
        for size, child in zip(grid, seeds, strict=True)
    ]
    agreement, error = np.stack(agreements, axis=2) if agreements else np.empty((2, len(metrics), 0))
    return ConvergenceCurve(grid, agreement, error)


def _mean_agreement(counts: SignCounts, main: IntArray) -> FloatArray:
    """Return mean agreement over pairs and its Monte Carlo error, from the variance over batches: 2 x metrics."""
    trials = counts.trials[:, None, None]
    agree = np.where(main == 0, trials / 2, np.where(main > 0, counts.plus, trials - counts.plus))
    defined = np.isfinite(counts.plus[0])
    pairs = np.where(defined.any(axis=1), defined.sum(axis=1), np.nan)
    wins, weight = np.where(defined, agree, 0.0).sum(axis=2), counts.trials / counts.trials.sum()
    mean = wins.sum(axis=0) / (pairs * counts.trials.sum())
    if len(weight) < 2:
        return np.stack([mean, np.full_like(mean, np.nan)])
    # A batch of n trials has the variance s^2 / n, so n (x - mean)^2 estimates s^2.
    by_batch = wins / (pairs * counts.trials[:, None])
    return np.stack([mean, np.sqrt(weight @ (by_batch - mean) ** 2 / (len(weight) - 1))])
