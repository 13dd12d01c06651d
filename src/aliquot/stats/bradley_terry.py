"""Bradley-Terry scores: one number per system, so that P(a over b) = 1 / (1 + exp(s_b - s_a)), with intervals.

Estimates are evalica's (Newman's iteration for Bradley-Terry and for Davidson's model of ties), improved by one Newton
step. Intervals are cluster-robust, because choices on one item are dependent. Scores are centred within every connected
part of the graph of comparisons and cannot be compared between parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from scipy.sparse import csr_matrix

from aliquot.errors import OptionError, judge_extra
from aliquot.stats.arrays import FloatArray, IntArray, Seed, centre_by_group
from aliquot.stats.choices import (
    Choices,
    PairCounts,
    connected_parts,
    count_outcomes,
    has_finite_maximum,
    resample_has_maximum,
    systems_without_spread,
)
from aliquot.stats.cluster_robust import student_quantile
from aliquot.validation import at_least, one_of


@dataclass(frozen=True, eq=False)
class BradleyTerryModel:
    """Data of the model: choices, counts without and with the prior, connected parts, and the treatment of ties."""

    choices: Choices
    counts: PairCounts
    filled: PairCounts
    component: IntArray
    prior: float
    davidson: bool

    @property
    def systems(self) -> int:
        """Number of systems."""
        return self.choices.systems


def expected_outcome(gap: FloatArray, tie: float, *, davidson: bool) -> tuple[FloatArray, FloatArray]:
    """Return the expected outcome of the first (a tie is 1/2) and the probability of a tie, from score differences.

    With r = exp(gap / 2): win r, loss 1/r, tie 2 v, divided by their sum.
    """
    win, loss = np.exp(gap / 2), np.exp(-gap / 2)
    draw = 2 * tie if davidson else 0.0
    total = win + loss + draw
    return (win + draw / 2) / total, np.full_like(gap, draw) / total


def score_and_information(
    counts: PairCounts, scores: FloatArray, tie: float, *, davidson: bool
) -> tuple[FloatArray, FloatArray]:
    """Return gradient and observed information of the log-likelihood in the scores and, last, the log tie parameter."""
    size = len(scores) + int(davidson)
    a, b = counts.first, counts.second
    value, draw = expected_outcome(scores[a] - scores[b], tie, davidson=davidson)
    number = counts.won + counts.lost + counts.tied
    surplus = counts.won + counts.tied / 2 - number * value
    gradient, information = np.zeros(size), np.zeros((size, size))
    np.add.at(gradient, a, surplus)
    np.add.at(gradient, b, -surplus)
    # Var of a choice's value: win 1, tie 1/4 of it; without ties p (1 - p).
    spread = number * (value - draw / 4 - value**2)
    information[: len(scores), : len(scores)] = _laplacian(counts, spread, len(scores))
    if davidson:
        gradient[-1] = (counts.tied - number * draw).sum()
        information[-1, -1] = (number * draw * (1 - draw)).sum()
        shared = number * draw * (0.5 - value)
        for rows, sign in ((a, 1), (b, -1)):
            np.add.at(information[:, -1], rows, sign * shared)
            np.add.at(information[-1], rows, sign * shared)
    return gradient, information


def _laplacian(counts: PairCounts, weights: FloatArray, systems: int) -> FloatArray:
    """Return the weighted Laplacian, sum over pairs of w (e_a - e_b)(e_a - e_b)'."""
    a, b = counts.first, counts.second
    matrix = np.zeros((systems, systems))
    for rows, columns, sign in ((a, a, 1), (b, b, 1), (a, b, -1), (b, a, -1)):
        np.add.at(matrix, (rows, columns), sign * weights)
    return matrix


def pseudo_inverse(information: FloatArray) -> FloatArray:
    """Return the pseudo-inverse: a constant added to all scores of a component is not identified."""
    return np.asarray(np.linalg.pinv(information, rcond=1e-10, hermitian=True), dtype=np.float64)


def score_covariance(data: BradleyTerryModel, scores: FloatArray, tie: float, *, robust: bool) -> FloatArray:
    """Return the covariance of the centred scores for independent choices, or cluster-robust but never below that."""
    filled, number = np.nan_to_num(scores), len(scores)
    _, information = score_and_information(data.filled, filled, tie, davidson=data.davidson)
    inverse = pseudo_inverse(information)
    independent = inverse
    if not data.davidson:  # ties have less variance than wins and losses, which the model without ties ignores
        independent = inverse @ _gradient_variance(data, filled) @ inverse
    if not robust:
        return np.asarray(independent[:number, :number], dtype=np.float64)
    gradients = _cluster_gradients(data, filled, tie)
    used = len(np.unique(data.choices.cluster))
    middle = gradients.T @ gradients * (used / max(1, used - 1))
    clustered = inverse @ middle @ inverse
    return _raise_covariance(clustered[:number, :number], independent[:number, :number])


def _gradient_variance(data: BradleyTerryModel, scores: FloatArray) -> FloatArray:
    """Return the variance of the gradient for independent choices: E - t/4 - E^2 each, t the share of ties."""
    counts = data.filled
    value, _ = expected_outcome(scores[counts.first] - scores[counts.second], 0.0, davidson=False)
    number = counts.won + counts.lost + counts.tied
    tied = np.minimum(counts.tied.sum() / max(1.0, number.sum()), 2 * np.minimum(value, 1 - value))
    return _laplacian(counts, number * (value - tied / 4 - value**2), len(scores))


def _cluster_gradients(data: BradleyTerryModel, scores: FloatArray, tie: float) -> FloatArray:
    """Return the gradient by cluster: clusters x (scores and, last, the log tie parameter)."""
    choices, number = data.choices, len(scores)
    pull = np.zeros((choices.clusters, number + int(data.davidson)))
    for first, second, cluster, outcome in choices:
        value, draw = expected_outcome(np.array([scores[first] - scores[second]]), tie, davidson=data.davidson)
        summed = np.bincount(cluster, (1.0 + outcome) / 2 - value[0], minlength=choices.clusters)
        pull[:, first] += summed
        pull[:, second] -= summed
        if data.davidson:
            pull[:, -1] += np.bincount(cluster, (outcome == 0) - draw[0], minlength=choices.clusters)
    return pull


def _raise_covariance(covariance: FloatArray, least: FloatArray) -> FloatArray:
    """Raise a covariance so that no linear combination has less variance than under `least`.

    With few clusters the robust variance may be too small by chance.
    """
    sizes, axes = np.linalg.eigh(least)
    nonzero = sizes > 1e-10 * max(float(sizes.max(initial=0.0)), 1e-300)
    root = axes[:, nonzero] * np.sqrt(sizes[nonzero])
    back = axes[:, nonzero] / np.sqrt(sizes[nonzero])
    ratios, rotation = np.linalg.eigh(back.T @ covariance @ back)
    axes_scaled = root @ rotation
    return np.asarray((axes_scaled * np.maximum(ratios, 1.0)) @ axes_scaled.T, dtype=np.float64)


# -- Fit and intervals -------------------------------------------------------------------------------------------------


TieModel = Literal["half", "davidson", "drop"]
TIE_MODELS: tuple[TieModel, ...] = get_args(TieModel)
ScoreInterval = Literal["robust", "bootstrap", "information"]
INTERVAL_KINDS: tuple[ScoreInterval, ...] = get_args(ScoreInterval)
DEFAULT_PRIOR = 1.0
"""Choices added to every compared pair where no maximum exists: half a win for each side (Firth's penalty for a single
"""

_MAX_ITERATIONS, _TOLERANCE = 10_000, 1e-9
_BLOCK = 4_000_000  # numbers of resampled counts held at a time


@dataclass(frozen=True, eq=False)
class BradleyTerry:
    """Bradley-Terry scores with intervals and covariance."""

    scores: FloatArray  # log-odds, mean 0 in every component; NaN for a system that was never compared
    low: FloatArray  # ends of the intervals; NaN where the spread is unknown
    high: FloatArray
    covariance: FloatArray  # of the scores, systems x systems; NaN between components
    component: IntArray  # connected part of each system, from 0
    tie: float  # Davidson's tie parameter, NaN for the other models
    prior: float  # choices added to every compared pair, half won by either side
    repaired: int  # bootstrap draws without a maximum, fitted with the prior
    df: float  # degrees of freedom of the intervals


def bradley_terry(
    choices: Choices,
    *,
    ties: TieModel = "half",
    interval: ScoreInterval = "robust",
    level: float = 0.95,
    prior: float | None = None,
    draws: int = 1000,
    seed: Seed = 0,
) -> BradleyTerry:
    """Fit Bradley-Terry scores to pairwise choices.

    Args:
        ties: half (a tie is half a win for each), davidson (ties have a probability of their own,
            2 v sqrt(p_a p_b); Davidson 1970), or drop.
        interval: robust (sandwich of the observed information and the clusters' scores, Student with G - 1 degrees of
            freedom), bootstrap (percentiles over resampled clusters), or information (inverse observed information,
            as if every choice were independent).
        prior: Choices to add to every compared pair, half won by either side; None adds none unless the likelihood
            has no maximum (a group of systems never loses to the rest), where it adds one.

    >>> from aliquot.stats.choices import choices_from_rows
    >>> a, b = np.zeros(8, dtype=int), np.ones(8, dtype=int)
    >>> won = np.array([1, 1, 1, -1, 1, 1, 1, -1])  # 6 of 8: log-odds log(3)
    >>> fit = bradley_terry(choices_from_rows(a, b, won, np.arange(8), 2))
    >>> bool(np.isclose(fit.scores[0] - fit.scores[1], np.log(3)))
    True
    """
    _validate_options(ties, interval, prior, draws)
    choices = choices.drop_ties() if ties == "drop" else choices
    counts = count_outcomes(choices)
    decided = bool((counts.won + counts.lost).sum() > 0)
    davidson = ties == "davidson" and bool(counts.tied.sum() > 0) and decided
    finite = has_finite_maximum(counts, choices.systems, davidson=davidson)
    if prior == 0 and not finite:
        raise OptionError(
            "prior is 0, and the choices are too one-sided for finite scores (some systems never lose); leave prior "
            "out, or give 1"
        )
    used = (0.0 if finite else DEFAULT_PRIOR) if prior is None else float(prior)
    data = BradleyTerryModel(
        choices, counts, counts.with_prior(used), connected_parts(counts, choices.systems), used, davidson
    )
    scores, tie = _fit_scores(data)
    df = float(max(0, len(np.unique(choices.cluster)) - 1))
    if interval == "bootstrap":
        samples, repaired = _bootstrap_scores(data, draws, seed)
        low, high = np.quantile(samples, [(1 - level) / 2, (1 + level) / 2], axis=0)
        covariance = np.atleast_2d(np.cov(samples, rowvar=False))
    else:
        repaired = 0
        covariance = score_covariance(data, scores, tie, robust=interval == "robust")
        half = student_quantile(level, df if interval == "robust" else np.inf) * np.sqrt(np.diag(covariance))
        low, high = scores - half, scores + half
    unseen = systems_without_spread(counts, choices.systems, df)
    low[unseen] = high[unseen] = np.nan
    apart = data.component[:, None] != data.component[None, :]
    covariance[apart | unseen[:, None] | unseen[None, :]] = np.nan
    tie = tie if davidson else float("nan")
    return BradleyTerry(scores, low, high, covariance, data.component, tie, used, repaired, df)


def _validate_options(ties: str, interval: str, prior: float | None, draws: int) -> None:
    one_of("ties", ties, TIE_MODELS)
    one_of("interval", interval, INTERVAL_KINDS)
    if prior is not None and not prior >= 0:
        raise OptionError(f"`prior` is {prior}; choose 0 or more choices to add to every compared pair")
    at_least("draws", draws, 2, "give at least 2, for instance 1000")


def _fit_scores(data: BradleyTerryModel) -> tuple[FloatArray, float]:
    """Return scores centred within components, and the tie parameter."""
    systems, davidson = data.systems, data.davidson
    scores, tie = _fit_evalica(data.filled, systems, davidson=davidson)
    scores = centre_by_group(data.component, scores)
    gradient, information = score_and_information(data.filled, scores, tie, davidson=davidson)
    step = pseudo_inverse(information) @ gradient
    scores = centre_by_group(data.component, scores + step[:systems])
    compared = np.zeros(systems, dtype=bool)
    compared[data.filled.first] = compared[data.filled.second] = True
    return np.where(compared, scores, np.nan), tie * float(np.exp(step[systems])) if davidson else tie


def _fit_evalica(counts: PairCounts, systems: int, *, davidson: bool) -> tuple[FloatArray, float]:
    """Fit by evalica; scores of different components have no common scale yet."""
    evalica = judge_extra("evalica", "fitting Bradley-Terry scores")
    pandas = judge_extra("pandas", "fitting Bradley-Terry scores")  # a dependency of evalica
    first, second = counts.first.tolist(), counts.second.tolist()
    first_wins, second_wins, draw = (evalica.Winner.X, evalica.Winner.Y, evalica.Winner.Draw)
    winners = [first_wins] * len(first) + [second_wins] * len(first)
    weights = [counts.won, counts.lost]
    if davidson:
        winners += [draw] * len(first)
        weights.append(counts.tied)
    else:
        weights = [counts.won + counts.tied / 2, counts.lost + counts.tied / 2]
    fit = (evalica.newman if davidson else evalica.bradley_terry)(
        first * len(weights),
        second * len(weights),
        winners,
        index=pandas.RangeIndex(systems),
        weights=np.concatenate(weights).tolist(),
        tolerance=_TOLERANCE,
        limit=_MAX_ITERATIONS,
    )
    strengths = fit.scores.reindex(pandas.RangeIndex(systems)).to_numpy(dtype=np.float64)
    return np.log(np.maximum(strengths, 1e-300)), float(fit.v) if davidson else float("nan")


def _bootstrap_scores(data: BradleyTerryModel, draws: int, seed: Seed) -> tuple[FloatArray, int]:
    """Return scores of `draws` bootstrap samples of clusters, and how many of them needed the prior."""
    rng = np.random.default_rng(seed)
    choices, davidson = data.choices, data.davidson
    sums, present = _cluster_counts(choices), np.unique(choices.cluster)
    number, g = len(choices.pairs), choices.clusters
    result, repaired = np.empty((draws, choices.systems)), 0
    block = max(1, _BLOCK // max(1, g))
    for start in range(0, draws, block):
        size = min(block, draws - start)
        weights = np.zeros((size, g))
        weights[:, present] = rng.multinomial(len(present), np.full(len(present), 1 / len(present)), size=size)
        counts_by_draw = np.asarray(weights @ sums)
        for row in range(size):
            counts = PairCounts(data.counts.first, data.counts.second, *counts_by_draw[row].reshape(3, number))
            ties = davidson and bool(counts.tied.sum() > 0)
            prior = data.prior
            if not prior and not resample_has_maximum(counts, choices.systems, data.component, davidson=ties):
                prior, repaired = DEFAULT_PRIOR, repaired + 1
            scores, _ = _fit_evalica(counts.with_prior(prior), choices.systems, davidson=ties)
            result[start + row] = centre_by_group(data.component, scores)
    return result, repaired


def _cluster_counts(choices: Choices) -> csr_matrix:
    """Return sparse counts, clusters x (3 pairs): wins of the first, wins of the second, ties."""
    number = len(choices.pairs)
    pair = np.repeat(np.arange(number), np.diff(choices.starts))
    kind = np.where(choices.outcome == 1, 0, np.where(choices.outcome == -1, 1, 2))
    shape = (choices.clusters, 3 * number)
    return csr_matrix((np.ones(len(pair)), (choices.cluster, kind * number + pair)), shape=shape)


# -- Strengths from few choices, with a normal prior -------------------------------------------------------------------


PRIOR_SD = 0.5
"""Prior standard deviation of a strength in log-odds: of two typical systems the better one wins 5 of 8 choices. A
wider prior overrates a first win.
"""
_MAX_NEWTON_STEPS, _MAX_STEP = 50, 2.0


@dataclass(frozen=True, eq=False)
class StrengthPosterior:
    """Normal approximation of the posterior of the strengths."""

    mean: FloatArray
    covariance: FloatArray
    information: FloatArray  # M x M, information of one more choice between two systems about their difference


def strength_posterior(
    value: FloatArray,
    number: FloatArray,
    planned: FloatArray | None = None,
    *,
    spread: float = PRIOR_SD,
    dispersion: float = 1.0,
) -> StrengthPosterior:
    """Estimate Bradley-Terry strengths with independent N(0, spread^2) priors: posterior mode and Laplace covariance.

    Args:
        value: M x M, wins of the row's system over the column's, a tie half.
        number: M x M, symmetric, choices.
        planned: M x M, choices for which to compute the covariance; `number` by default.
        spread: Standard deviation of the prior.
        dispersion: Variance of a choice relative to p (1 - p); ties make it less than 1.

    >>> posterior = strength_posterior(np.array([[0.0, 3.0], [1.0, 0.0]]), np.array([[0.0, 4.0], [4.0, 0.0]]))
    >>> posterior.mean.round(3).tolist()
    [0.167, -0.167]
    """
    mean = np.zeros(len(value))
    for _ in range(_MAX_NEWTON_STEPS):
        chance = 1.0 / (1.0 + np.exp(mean[None, :] - mean[:, None]))
        gradient = (value - number * chance).sum(axis=1) / dispersion - mean / spread**2
        step = np.linalg.solve(_precision(number * chance * (1.0 - chance) / dispersion, spread), gradient)
        mean = mean + step * min(1.0, _MAX_STEP / max(float(np.abs(step).max()), 1e-300))
        if np.abs(step).max() < 1e-9:
            break
    chance = 1.0 / (1.0 + np.exp(mean[None, :] - mean[:, None]))
    information = chance * (1.0 - chance) / dispersion
    precision = _precision((number if planned is None else planned) * information, spread)
    return StrengthPosterior(mean, np.asarray(np.linalg.inv(precision), dtype=np.float64), information)


def _precision(weights: FloatArray, spread: float) -> FloatArray:
    """Return the posterior precision: the Laplacian of symmetric pair weights plus the prior."""
    return np.asarray(np.diag(weights.sum(axis=1) + spread**-2) - weights, dtype=np.float64)
