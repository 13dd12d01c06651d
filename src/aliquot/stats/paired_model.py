"""The likelihood of pairwise choices under Bradley-Terry and Davidson models, and the spread of their scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aliquot.stats.arrays import FloatArray, IntArray
from aliquot.stats.choices import Choices
from aliquot.stats.comparison_graph import PairCounts


@dataclass(frozen=True, eq=False)
class PairedModel:
    """What is fitted: the choices, their counts without and with the prior, connected parts, and the model."""

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


def expected(gap: FloatArray, tie: float, *, davidson: bool) -> tuple[FloatArray, FloatArray]:
    """Expected value of the first (a tie counts 1/2) and probability of a tie, from the difference of scores.

    With r = exp(gap / 2): win r, loss 1/r, tie 2 v, over their sum.
    """
    win, loss = np.exp(gap / 2), np.exp(-gap / 2)
    draw = 2 * tie if davidson else 0.0
    total = win + loss + draw
    return (win + draw / 2) / total, np.full_like(gap, draw) / total


def likelihood(counts: PairCounts, scores: FloatArray, tie: float, *, davidson: bool) -> tuple[FloatArray, FloatArray]:
    """Gradient and observed information of the log-likelihood in the scores and, last, the log of the tie parameter."""
    size = len(scores) + int(davidson)
    a, b = counts.first, counts.second
    value, draw = expected(scores[a] - scores[b], tie, davidson=davidson)
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
    """Sum over pairs of w (e_a - e_b)(e_a - e_b)'."""
    a, b = counts.first, counts.second
    matrix = np.zeros((systems, systems))
    for rows, columns, sign in ((a, a, 1), (b, b, 1), (a, b, -1), (b, a, -1)):
        np.add.at(matrix, (rows, columns), sign * weights)
    return matrix


def pseudo_inverse(information: FloatArray) -> FloatArray:
    """Inverse where the data say something; adding a constant to all scores of a component changes nothing."""
    return np.asarray(np.linalg.pinv(information, rcond=1e-10, hermitian=True), dtype=np.float64)


def covariance_of_scores(data: PairedModel, scores: FloatArray, tie: float, *, robust: bool) -> FloatArray:
    """Covariance of the centred scores, as if choices were independent, or over clusters but never below that."""
    known, number = np.nan_to_num(scores), len(scores)
    _, information = likelihood(data.filled, known, tie, davidson=data.davidson)
    inverse = pseudo_inverse(information)
    alone = inverse
    if not data.davidson:  # ties vary less than wins and losses do, and half a win is no outcome of the model
        alone = inverse @ _spread_with_ties(data, known) @ inverse
    if not robust:
        return np.asarray(alone[:number, :number], dtype=np.float64)
    pull = _pull(data, known, tie)
    used = len(np.unique(data.choices.cluster))
    middle = pull.T @ pull * (used / max(1, used - 1))
    together = inverse @ middle @ inverse
    return _at_least(together[:number, :number], alone[:number, :number])


def _spread_with_ties(data: PairedModel, scores: FloatArray) -> FloatArray:
    """Variance of the gradient if choices were independent: E - t/4 - E^2 each, t the share of ties."""
    counts = data.filled
    value, _ = expected(scores[counts.first] - scores[counts.second], 0.0, davidson=False)
    number = counts.won + counts.lost + counts.tied
    tied = np.minimum(counts.tied.sum() / max(1.0, number.sum()), 2 * np.minimum(value, 1 - value))
    return _laplacian(counts, number * (value - tied / 4 - value**2), len(scores))


def _pull(data: PairedModel, scores: FloatArray, tie: float) -> FloatArray:
    """Each cluster's part of the gradient: clusters x (scores and, last, the log of the tie parameter)."""
    choices, number = data.choices, len(scores)
    pull = np.zeros((choices.clusters, number + int(data.davidson)))
    for first, second, cluster, outcome in choices:
        value, draw = expected(np.array([scores[first] - scores[second]]), tie, davidson=data.davidson)
        summed = np.bincount(cluster, (1.0 + outcome) / 2 - value[0], minlength=choices.clusters)
        pull[:, first] += summed
        pull[:, second] -= summed
        if data.davidson:
            pull[:, -1] += np.bincount(cluster, (outcome == 0) - draw[0], minlength=choices.clusters)
    return pull


def _at_least(covariance: FloatArray, least: FloatArray) -> FloatArray:
    """Raise a covariance so that no combination of scores varies less than under `least`.

    Few clusters may agree by chance; their answers do not become more precise than independent ones by that.
    """
    sizes, axes = np.linalg.eigh(least)
    kept = sizes > 1e-10 * max(float(sizes.max(initial=0.0)), 1e-300)
    root = axes[:, kept] * np.sqrt(sizes[kept])
    back = axes[:, kept] / np.sqrt(sizes[kept])
    ratios, turn = np.linalg.eigh(back.T @ covariance @ back)
    whole = root @ turn
    return np.asarray((whole * np.maximum(ratios, 1.0)) @ whole.T, dtype=np.float64)
