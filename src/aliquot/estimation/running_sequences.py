"""Confidence sequences of several series over the same items, which grow item by item (`Monitor` watches them)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from aliquot.core.evalset import ItemId
from aliquot.errors import DataError, OptionError
from aliquot.estimation.intervals import NOISE_SHARE
from aliquot.stats.arrays import FloatArray
from aliquot.stats.confidence_sequences import AsymptoticState, BettingState

_RIDGE = 10.0  # cells that stand for slopes of 0 before any is judged
_N_EXTREME_UNSEEN = 2.0  # outputs as extreme as the most extreme seen that the items left may hold
_POOLED_WEIGHT = 8.0  # values that the other series' variance counts as


@dataclass(frozen=True, eq=False)
class Features:
    """Metrics of every output: item ids and standardised values (N x M x K, nothing missing)."""

    ids: tuple[ItemId, ...]
    values: FloatArray

    def __post_init__(self) -> None:
        if self.values.ndim != 3 or len(self.ids) != len(self.values) or not np.isfinite(self.values).all():
            raise OptionError(
                f"features have the shape {self.values.shape}; give items x systems x metrics, all finite"
            )


class MetricSlopes:
    """Ridge slopes of scores on metrics, from differences between the systems of an item; updated item by item."""

    def __init__(self, features: Features) -> None:
        self.row_of = {item: row for row, item in enumerate(features.ids)}
        self.values, self.mean = features.values, features.values.mean(axis=0)
        k = features.values.shape[2]
        self._square, self._product = np.eye(k) * _RIDGE, np.zeros(k)
        self._of_item: dict[ItemId, FloatArray] = {}

    def of_item(self, item: ItemId) -> tuple[FloatArray, FloatArray]:
        """Return an item's metrics (M x K) and the slopes (K) from before it was first judged."""
        if item not in self.row_of:
            raise DataError(f"item {item!r} has no features; give those of the whole test set")
        if item not in self._of_item:
            self._of_item[item] = np.linalg.solve(self._square, self._product).astype(np.float64)
        return self.values[self.row_of[item]], self._of_item[item]

    def learn(self, item: ItemId, before: FloatArray, after: FloatArray) -> None:
        """Update the sums with an item's scores (M), which replace its scores before."""
        for scores, sign in ((before, -1.0), (after, 1.0)):
            is_judged = np.isfinite(scores)
            if is_judged.sum() > 1:
                x = self.values[self.row_of[item]][is_judged]
                x, y = x - x.mean(axis=0), scores[is_judged] - scores[is_judged].mean()
                self._square += sign * (x.T @ x)
                self._product += sign * (x.T @ y)


class RunningSequences:
    """Confidence sequences of the means of several series (systems, or pairs), asymptotic or betting."""

    def __init__(self, state: BettingState | AsymptoticState, population: int, overall: FloatArray) -> None:
        self.state, self._population, self._overall = state, population, overall
        self._ends = (state.low, state.high) if isinstance(state, BettingState) else None
        series, k = overall.shape
        self.count, self._sum, self._features = np.zeros(series), np.zeros(series), np.zeros((series, k))
        self._left = np.full(series, float(population))  # size of the items that a series has not seen
        self._largest = 0.0  # largest deviation of a value from what was expected, over all series
        self._squares, self._weights = np.zeros(series), np.zeros(series)  # of such deviations, by the items' weights

    @property
    def mean(self) -> FloatArray:
        """Current estimate of each series; NaN before its first value."""
        if isinstance(self.state, AsymptoticState):
            return np.where(self.count > 0, self._exact_if_complete(self.state.mean), np.nan)
        return np.asarray(np.divide(self._sum, self.count, out=np.full(len(self.count), np.nan), where=self.count > 0))

    def noise_half_width(self, cells: float, annotators: FloatArray) -> FloatArray:
        """Return what judging noise adds to the half widths.

        Args:
            cells: Noise variance of a value; NaN if unknown.
            annotators: Variance from the choice of annotators, of each series.
        """
        if cells == 0 and not annotators.any():
            return np.zeros(len(self.count))
        usual = self._squares.sum() / max(self._weights.sum(), 1.0)
        residual = (self._squares + _POOLED_WEIGHT * usual) / (self._weights + _POOLED_WEIGHT)
        variance = (residual if math.isnan(cells) else cells) / self._population + annotators
        quantile = -special.stdtrit(np.maximum(self.count - 1.0, 1.0), self.state.alpha / (2.0 * NOISE_SHARE))
        half: FloatArray = quantile * np.sqrt(variance)
        return half

    def compute_bounds(self, noise: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper bounds of each series' mean, widened by the half widths of judging noise."""
        low, high = self._bounds_of_given()
        mean = np.clip(self.mean, low, high)
        wide = mean - np.hypot(mean - low, noise), mean + np.hypot(high - mean, noise)
        low, high = np.where(self.count > 0, wide, (low, high))
        return (low, high) if self._ends is None else (np.maximum(low, self._ends[0]), np.minimum(high, self._ends[1]))

    def _bounds_of_given(self) -> tuple[FloatArray, FloatArray]:
        """Return bounds for the target `given`."""
        if isinstance(self.state, BettingState):
            return self._exact_if_complete(self.state.lower), self._exact_if_complete(self.state.upper)
        half = np.hypot(self.state.half_width, _N_EXTREME_UNSEEN * self._largest / self._population)
        return self._exact_if_complete(self.state.mean - half), self._exact_if_complete(self.state.mean + half)

    def _exact_if_complete(self, values: FloatArray) -> FloatArray:
        """Return the exact mean of series that have all items, and `values` for the others."""
        return np.where(self.count >= self._population, self._sum / self._population, values)

    @property
    def scale(self) -> FloatArray:
        """Size against which differences count as rounding: the scale's width, or a value's standard deviation."""
        if isinstance(self.state, AsymptoticState):
            return self.state.sd
        return np.full(len(self.count), self.state.high - self.state.low)

    def add(self, values: FloatArray, features: FloatArray, slopes: FloatArray, weight: float) -> None:
        """Add each series' value of an item (NaN: none), with its metrics and the slopes from before it."""
        has_value = np.isfinite(values)
        before = self._sum - self._features @ slopes
        centre = np.divide(before, self.count, out=np.zeros(len(before)), where=self.count > 0)
        error = values - features @ slopes - centre
        is_further = has_value & (self.count > 0)  # a first value deviates from nothing
        self._squares += np.where(is_further, weight * error**2 * self.count / (self.count + 1.0), 0.0)
        self._weights += weight * is_further
        if isinstance(self.state, BettingState):
            self.state = self.state.update(values)
        else:
            size = 1.0 / weight
            remaining = np.maximum(self._left, size)  # answers out of order must not make it negative
            value = self._overall @ slopes + centre + error * remaining / (size * self._population)
            self.state = self.state.update(value, (self._population / remaining) ** 2)
            self._largest = max(self._largest, float(np.abs(error[is_further]).max(initial=0.0)))
            self._left = self._left - np.where(has_value, size, 0.0)
            self._features += np.where(has_value[:, None], features, 0.0)
        self._sum += np.where(has_value, np.nan_to_num(values), 0.0)
        self.count += has_value
