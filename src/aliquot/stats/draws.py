"""Several draws (outputs of one system for one prompt): a prompt's score and its noise.

pass@k is the probability that at least one of k draws passes, pass^k that all of them do. Both are estimated without
bias from n draws of which c pass, for n >= k (Chen et al. 2021).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from aliquot.errors import OptionError
from aliquot.stats.arrays import FloatArray, IntArray
from aliquot.validation import at_least

DrawScore = Literal["pass@", "pass^", "majority"]
MAX_BERNOULLI_VARIANCE = 0.25
"""Largest variance of a score from 0 to 1."""


def pass_at_k(passes: FloatArray, draws: FloatArray, k: int) -> FloatArray:
    """Return 1 - C(n - c, k) / C(n, k), the estimated probability that one of k draws passes; NaN for n < k.

    >>> pass_at_k(np.array([0.0, 1.0, 3.0]), np.array([4.0, 4.0, 4.0]), 2).round(3).tolist()
    [0.0, 0.5, 1.0]
    """
    return 1.0 - pass_all_k(np.asarray(draws - passes), draws, k)


def pass_all_k(passes: FloatArray, draws: FloatArray, k: int) -> FloatArray:
    """Return C(c, k) / C(n, k), the estimated probability that all of k draws pass; NaN for n < k.

    >>> pass_all_k(np.array([1.0, 3.0, 4.0]), np.array([4.0, 4.0, 4.0]), 2).round(3).tolist()
    [0.0, 0.5, 1.0]
    """
    at_least("k", k, 1)
    share = np.where(draws >= k, 1.0, np.nan)
    for i in range(k):  # a product of ratios: binomial coefficients overflow
        share = share * np.maximum(passes - i, 0.0) / np.maximum(draws - i, 1.0)
    return share


def majority_passes(passes: FloatArray, draws: FloatArray) -> FloatArray:
    """Return 1 where most draws pass, 0.5 for a tie, 0 otherwise; NaN without draws.

    >>> majority_passes(np.array([1.0, 2.0, 3.0, 0.0]), np.array([4.0, 4.0, 4.0, 0.0])).tolist()
    [0.0, 0.5, 1.0, nan]
    """
    return np.where(draws > 0, 0.5 + 0.5 * np.sign(2.0 * passes - draws), np.nan)


def score_passes(kind: DrawScore, passes: FloatArray, draws: FloatArray, k: int = 1) -> FloatArray:
    """Return a prompt's score from the number of draws that pass; see the functions above."""
    if kind == "majority":
        return majority_passes(passes, draws)
    return (pass_at_k if kind == "pass@" else pass_all_k)(passes, draws, k)


def score_variance(kind: DrawScore, passes: FloatArray, draws: FloatArray, k: int = 1) -> FloatArray:
    """Return the variance that other draws of the same prompts would give the score, on average not too small.

    The jackknife over draws, which overestimates on average (Efron and Stein 1981); for `majority`, which it does not
    fit, their bound: the sum of squared changes on leaving out a draw. Where no draw can be left out, the largest
    variance there can be.

    >>> score_variance("pass@", np.array([1.0, 4.0, 1.0]), np.array([4.0, 4.0, 1.0])).round(4).tolist()
    [0.0625, 0.0, 0.25]
    """
    whole, rest = score_passes(kind, passes, draws, k), np.maximum(draws - 1.0, 0.0)
    without_pass = score_passes(kind, np.maximum(passes - 1.0, 0.0), rest, k)
    without_failure = score_passes(kind, np.minimum(passes, rest), rest, k)
    squares = passes * (without_pass - whole) ** 2 + (draws - passes) * (without_failure - whole) ** 2
    variance = squares if kind == "majority" else squares * rest / np.maximum(draws, 1.0)
    return np.where(np.isnan(whole), np.nan, np.where(np.isnan(variance), MAX_BERNOULLI_VARIANCE, variance))


@dataclass(frozen=True, eq=False)
class DrawSums:
    """Draws with a score of each prompt and system (P x M).

    Attributes:
        count: how many there are.
        mean: their mean; NaN without any.
        square: the sum of squared deviations from it.
        listed: how many draws of the prompt there are, with or without a score (P).
    """

    count: FloatArray
    mean: FloatArray
    square: FloatArray
    listed: IntArray

    @property
    def freedom(self) -> FloatArray:
        """Degrees of freedom of the variance within prompts, by system."""
        return np.asarray(np.maximum(self.count - 1.0, 0.0).sum(axis=0))

    @property
    def within(self) -> FloatArray:
        """Variance of a draw within its prompt, pooled over prompts, by system; NaN where no prompt has two draws."""
        freedom = self.freedom
        return np.where(freedom > 0, self.square.sum(axis=0) / np.maximum(freedom, 1.0), np.nan)

    @property
    def inverse_count(self) -> FloatArray:
        """Mean of 1 / draws over the scored prompts, by system."""
        has_score = self.count > 0
        total = np.where(has_score, 1.0 / np.maximum(self.count, 1.0), 0.0).sum(axis=0)
        return np.asarray(total / np.maximum(has_score.sum(axis=0), 1))

    def mean_variance(self, within: FloatArray, *, finite: bool = False) -> FloatArray:
        """Return the variance of a prompt's mean over draws, averaged over prompts, by system.

        Each prompt's own variance serves where it has two draws, `within` where it has one. If `finite`, about the mean
        of all its listed draws: 0 where all have a score.
        """
        has_score, several = self.count > 0, self.count > 1
        own = self.square / np.maximum(self.count - 1.0, 1.0)
        left = 1.0 - self.count / self.listed[:, None] if finite else np.ones(self.count.shape)
        each = np.where(several, own, within) * left / np.maximum(self.count, 1.0)
        return np.asarray(np.where(has_score, each, 0.0).sum(axis=0) / np.maximum(has_score.sum(axis=0), 1))


def sum_draws(values: FloatArray, prompt: IntArray) -> DrawSums:
    """Return counts, means and squares of each prompt's draws.

    >>> sums = sum_draws(np.array([[1.0], [3.0], [5.0]]), np.array([0, 0, 1]))
    >>> sums.mean.tolist(), sums.within.tolist(), sums.count.tolist()
    ([[2.0], [5.0]], [2.0], [[2.0], [1.0]])
    """
    if len(values) != len(prompt):
        raise OptionError(f"`values` has {len(values)} rows and `prompt` {len(prompt)}; give equal lengths")
    listed = np.bincount(prompt)
    present = np.isfinite(values)
    count, total, square = (np.zeros((len(listed), values.shape[1])) for _ in range(3))
    np.add.at(count, prompt, present)
    np.add.at(total, prompt, np.where(present, values, 0.0))
    mean = np.where(count > 0, total / np.maximum(count, 1.0), np.nan)
    np.add.at(square, prompt, np.where(present, values - mean[prompt], 0.0) ** 2)
    return DrawSums(count, mean, square, listed)
