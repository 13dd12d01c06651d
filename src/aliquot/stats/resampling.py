"""Bootstrap of sums by matrix products: counts of drawn units times values, no indexing per draw.

`Measure` is anything that is a function of item weights; `intervals` gives percentile intervals of measures by drawing
items again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy import sparse, stats

from aliquot.errors import OptionError
from aliquot.stats.arrays import FloatArray, IntArray, Seed, blocks
from aliquot.stats.sequences import error_rate

_BLOCK = 2_000_000  # counts held at a time
_ITEM_BLOCK = 250_000  # numbers held at a time: what fits into a processor's cache is quicker
_DEFINED = 0.9
"""Share of draws that must be defined; an interval over the rest would be about other data."""
_SHIFTED = 0.1
"""Share of draws that must lie on either side of the value: where drawing shifts a coefficient, its percentiles say
nothing of the value. Means over pairs of annotators with few shared units are such."""


def resampled_counts(rng: np.random.Generator, trials: int, items: int, size: int) -> FloatArray:
    """How often each item comes in a draw of `size` items with replacement: trials x items.

    >>> resampled_counts(np.random.default_rng(0), 2, 3, 6).sum(axis=1)
    array([6., 6.])
    """
    if size > 5 * items:
        return rng.multinomial(size, np.full(items, 1 / items), size=trials).astype(np.float64)
    # For few draws an item, drawing items and counting them is several times faster than binomials by item.
    drawn = rng.integers(0, items, size=(trials, size)) + items * np.arange(trials)[:, None]
    return np.bincount(drawn.ravel(), minlength=trials * items).reshape(trials, items).astype(np.float64)


def child_seeds(seed: Seed, n: int) -> list[int]:
    """Seeds of n streams that do not depend on each other.

    >>> child_seeds(1, 2) == child_seeds(np.random.default_rng(1), 2)
    True
    """
    return [int(child) for child in np.random.default_rng(seed).integers(1 << 62, size=n)]


def resampled_sums(units: FloatArray, draws: int, seed: Seed = 0) -> FloatArray:
    """Sum of n units drawn with replacement from n centred units, `draws` times: draws x columns.

    >>> resampled_sums(np.array([[1.0], [-1.0]]), 1000, seed=1).shape
    (1000, 1)
    """
    rng, n = np.random.default_rng(seed), len(units)
    centred = units - units.mean(axis=0)
    result = np.empty((draws, units.shape[1]))
    for rows in blocks(draws, n, _BLOCK):
        result[rows] = resampled_counts(rng, rows.stop - rows.start, n, n) @ centred
    return result


def central_interval(draws: FloatArray, level: float = 0.95) -> tuple[float, float]:
    """Draws between which `level` of them lie; NaN are left out. By position, as infinities cannot be interpolated.

    >>> central_interval(np.append(np.arange(40.0), [np.inf, np.nan]))
    (1.0, 39.0)
    """
    tail = error_rate(level) / 2
    known = np.sort(draws[~np.isnan(draws)])
    if not len(known):
        return float("nan"), float("nan")
    last = len(known) - 1
    outward = int(np.floor(tail * last + 1e-9))  # 0.05 x 1000 may come out as 49.99...
    return float(known[outward]), float(known[last - outward])


class Measure(Protocol):
    """Item weights (draws x items) in, one value per draw out."""

    @property
    def items(self) -> int:
        """The number of items it weighs."""

    @property
    def width(self) -> int:
        """How many numbers it holds for each draw."""

    def __call__(self, weights: FloatArray) -> FloatArray:
        """One value for each row of weights."""


@dataclass(frozen=True, eq=False)
class Additive:
    """A measure that needs only sums over items."""

    sums: Any  # items x columns, dense or sparse
    finish: Callable[[FloatArray], FloatArray]  # turns draws x columns into one value per draw

    @property
    def items(self) -> int:
        """The number of items."""
        return int(self.sums.shape[0])

    @property
    def width(self) -> int:
        """The number of sums."""
        return int(self.sums.shape[1])

    def __call__(self, weights: FloatArray) -> FloatArray:
        """One value for each row of weights."""
        return self.finish(np.asarray(weights @ self.sums, dtype=np.float64))


class Interval(NamedTuple):
    """A value with the ends of its interval; NaN where undefined."""

    value: float
    low: float
    high: float


def item_sums(item: IntArray, columns: Sequence[FloatArray], items: int) -> FloatArray:
    """Sum columns of judgments (or units) over their items: items x columns.

    >>> item_sums(np.array([0, 0, 1]), [np.array([1.0, 2.0, 5.0])], 2).tolist()
    [[3.0], [5.0]]
    """
    return np.column_stack([np.bincount(item, column, minlength=items) for column in columns])


def sparse_item_sums(item: IntArray, column: IntArray, values: FloatArray, shape: tuple[int, int]) -> Any:
    """Sum values into a sparse items x columns table; places that occur twice add up."""
    return sparse.csr_array((values, (item, column)), shape=shape)


def value_of(measure: Measure) -> float:
    """The measure on the items as they are.

    >>> value_of(Additive(np.array([[1.0], [2.0]]), lambda sums: sums[:, 0]))
    3.0
    """
    if measure.items == 0:
        return float("nan")
    return float(measure(np.ones((1, measure.items)))[0])


def intervals(measures: Sequence[Measure], draws: int, seed: Seed = 0, confidence: float = 0.95) -> list[Interval]:
    """The measures' values with percentile intervals from the same draws of items.

    Percentiles are expanded to t quantiles (Hesterberg 2015, "What teachers should know about the bootstrap", 3.3):
    a plain percentile interval is too narrow for few items. Fewer than two items, no draws, too many undefined draws,
    or draws that nearly all lie on one side of the value give no interval.

    >>> mean = Additive(np.array([[1.0, 1.0], [3.0, 1.0], [2.0, 1.0]]), lambda sums: sums[:, 0] / sums[:, 1])
    >>> intervals([mean], 200, seed=1)[0].value
    2.0
    """
    if draws < 0:
        raise OptionError(f"bootstrap={draws}: give a number of draws, or 0 for no intervals")
    if not 0 < confidence < 1:
        raise OptionError(f"confidence={confidence}: choose between 0 and 1, e.g. 0.95")
    values = [value_of(measure) for measure in measures]
    items = measures[0].items if measures else 0
    if draws == 0 or items < 2:
        return [Interval(value, np.nan, np.nan) for value in values]
    rng, width = np.random.default_rng(seed), max(items, *(measure.width for measure in measures))
    drawn = []  # blocks x measures x draws
    for rows in blocks(draws, width, _ITEM_BLOCK):
        counts = resampled_counts(rng, rows.stop - rows.start, items, items)
        drawn.append([measure(counts) for measure in measures])
    return [
        Interval(value, *_percentiles(value, np.concatenate(parts), items, confidence))
        for value, parts in zip(values, zip(*drawn, strict=True), strict=True)
    ]


def _percentiles(value: float, drawn: FloatArray, items: int, confidence: float) -> tuple[float, float]:
    defined = drawn[np.isfinite(drawn)]
    if len(defined) < _DEFINED * len(drawn):
        return float("nan"), float("nan")
    near = 1e-9 * max(1.0, abs(value))
    below, above = (defined < value + near).mean(), (defined > value - near).mean()
    if min(below, above) < _SHIFTED:
        return float("nan"), float("nan")
    wide = np.sqrt(items / (items - 1)) * stats.t.ppf(0.5 + confidence / 2, items - 1)
    low, high = np.quantile(defined, stats.norm.cdf([-wide, wide]))
    return float(low), float(high)
