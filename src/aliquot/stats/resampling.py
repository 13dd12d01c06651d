"""Bootstrap by matrix products: counts of drawn units times values, no indexing per draw.

`WeightedMeasure` is a function of item weights; `bootstrap_intervals` gives percentile intervals of measures.
`bootstrap_sign_counts` counts which system of a pair has the higher mean. A draw is a vector of counts, shared by all
pairs and all tables of scores; a pair uses only items on which both systems have a score. Results depend on the seed
only, not on the size of blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy import sparse
from scipy.special import ndtr, stdtrit

from aliquot.errors import DataError, OptionError
from aliquot.stats.arrays import BoolArray, FloatArray, IntArray, Seed, row_blocks, validate_scores
from aliquot.stats.confidence_sequences import error_rate
from aliquot.validation import at_least

BATCHES = 50
"""Number of batches of trials; the variance between them gives Monte Carlo errors."""

_CHUNK = 1 << 21
"""Numbers in a temporary array."""

_BLOCK = 1 << 24
"""Numbers in a matrix of scores or of differences of pairs; further tables are processed in turn."""

_TIE = 1e-11
"""Relative difference of sums of equal terms in different orders."""

_DIGITS = 1e-15
"""The same for the precision of the scores themselves."""

_COUNTS_BLOCK = 2_000_000  # counts in memory at once
_ITEM_BLOCK = 250_000  # numbers in memory at once; fits into a processor's cache
_MIN_DEFINED = 0.9
"""Minimum share of defined draws; an interval over the rest would be about other data."""
_MIN_EACH_SIDE = 0.1
"""Minimum share of draws on either side of the value: percentiles of a strongly biased bootstrap (as of means over
pairs of annotators with few shared units) are not an interval of the value.
"""


def bootstrap_counts(rng: np.random.Generator, trials: int, items: int, size: int) -> FloatArray:
    """Return how often each item occurs in samples of `size` items with replacement: trials x items.

    >>> bootstrap_counts(np.random.default_rng(0), 2, 3, 6).sum(axis=1)
    array([6., 6.])
    """
    if size > 5 * items:
        return rng.multinomial(size, np.full(items, 1 / items), size=trials).astype(np.float64)
    # For small samples, drawing items and counting them is several times faster than a multinomial.
    item_codes = rng.integers(0, items, size=(trials, size)) + items * np.arange(trials)[:, None]
    return np.bincount(item_codes.ravel(), minlength=trials * items).reshape(trials, items).astype(np.float64)


def spawn_seeds(seed: Seed, n: int) -> list[int]:
    """Return seeds of n independent streams.

    >>> spawn_seeds(1, 2) == spawn_seeds(np.random.default_rng(1), 2)
    True
    """
    return [int(child) for child in np.random.default_rng(seed).integers(1 << 62, size=n)]


def bootstrap_sums(units: FloatArray, draws: int, seed: Seed = 0) -> FloatArray:
    """Return bootstrap sums of n centred units: draws x columns.

    >>> bootstrap_sums(np.array([[1.0], [-1.0]]), 1000, seed=1).shape
    (1000, 1)
    """
    rng, n = np.random.default_rng(seed), len(units)
    centred = units - units.mean(axis=0)
    result = np.empty((draws, units.shape[1]))
    for rows in row_blocks(draws, n, _COUNTS_BLOCK):
        result[rows] = bootstrap_counts(rng, rows.stop - rows.start, n, n) @ centred
    return result


def percentile_interval(draws: FloatArray, level: float = 0.95) -> tuple[float, float]:
    """Return the central interval of draws by order statistics (infinities are allowed); NaN is ignored.

    >>> percentile_interval(np.append(np.arange(40.0), [np.inf, np.nan]))
    (1.0, 39.0)
    """
    tail = error_rate(level) / 2
    ordered = np.sort(draws[~np.isnan(draws)])
    if not len(ordered):
        return float("nan"), float("nan")
    last = len(ordered) - 1
    outward = int(np.floor(tail * last + 1e-9))  # 0.05 x 1000 may come out as 49.99...
    return float(ordered[outward]), float(ordered[last - outward])


class WeightedMeasure(Protocol):
    """Maps item weights (draws x items) to one value per draw."""

    @property
    def items(self) -> int:
        """Number of items."""

    @property
    def width(self) -> int:
        """Numbers held per draw."""

    def __call__(self, weights: FloatArray) -> FloatArray:
        """Return one value for each row of weights."""


@dataclass(frozen=True, eq=False)
class AdditiveMeasure:
    """A measure that is a function of sums over items."""

    sums: Any  # items x columns, dense or sparse
    finish: Callable[[FloatArray], FloatArray]  # maps draws x columns to one value per draw

    @property
    def items(self) -> int:
        """Number of items."""
        return int(self.sums.shape[0])

    @property
    def width(self) -> int:
        """Number of sums."""
        return int(self.sums.shape[1])

    def __call__(self, weights: FloatArray) -> FloatArray:
        """Return one value for each row of weights."""
        return self.finish(np.asarray(weights @ self.sums, dtype=np.float64))


class Interval(NamedTuple):
    """A value with the ends of its interval; NaN where undefined."""

    value: float
    low: float
    high: float


def sum_by_item(item: IntArray, columns: Sequence[FloatArray], items: int) -> FloatArray:
    """Sum columns of judgments (or units) over their items: items x columns.

    >>> sum_by_item(np.array([0, 0, 1]), [np.array([1.0, 2.0, 5.0])], 2).tolist()
    [[3.0], [5.0]]
    """
    return np.column_stack([np.bincount(item, column, minlength=items) for column in columns])


def sparse_sum_by_item(item: IntArray, column: IntArray, values: FloatArray, shape: tuple[int, int]) -> Any:
    """Sum values into a sparse items x columns table; duplicates are added."""
    return sparse.csr_array((values, (item, column)), shape=shape)


def measure_value(measure: WeightedMeasure) -> float:
    """Return the measure with unit weights; NaN without items.

    >>> measure_value(AdditiveMeasure(np.array([[1.0], [2.0]]), lambda sums: sums[:, 0]))
    3.0
    """
    if measure.items == 0:
        return float("nan")
    return float(measure(np.ones((1, measure.items)))[0])


def bootstrap_intervals(
    measures: Sequence[WeightedMeasure], draws: int, seed: Seed = 0, confidence: float = 0.95
) -> list[Interval]:
    """Return values and percentile intervals of measures from shared bootstrap samples of items.

    Percentiles are expanded to t quantiles (Hesterberg 2015, "What teachers should know about the bootstrap", 3.3),
    because plain percentile intervals are too narrow for few items. Intervals are NaN for fewer than two items, no
    draws, too many undefined draws, or draws nearly all on one side of the value.

    >>> mean = AdditiveMeasure(np.array([[1.0, 1.0], [3.0, 1.0], [2.0, 1.0]]), lambda sums: sums[:, 0] / sums[:, 1])
    >>> bootstrap_intervals([mean], 200, seed=1)[0].value
    2.0
    """
    if draws < 0:
        raise OptionError(f"`bootstrap` is {draws}; give a number of draws, or 0 for no intervals")
    if not 0 < confidence < 1:
        raise OptionError(f"`confidence` is {confidence}; choose between 0 and 1, e.g. 0.95")
    values = [measure_value(measure) for measure in measures]
    items = measures[0].items if measures else 0
    if draws == 0 or items < 2:
        return [Interval(value, np.nan, np.nan) for value in values]
    rng, width = np.random.default_rng(seed), max(items, *(measure.width for measure in measures))
    samples = []  # blocks x measures x draws
    for rows in row_blocks(draws, width, _ITEM_BLOCK):
        counts = bootstrap_counts(rng, rows.stop - rows.start, items, items)
        samples.append([measure(counts) for measure in measures])
    return [
        Interval(value, *_expanded_percentiles(value, np.concatenate(parts), items, confidence))
        for value, parts in zip(values, zip(*samples, strict=True), strict=True)
    ]


def _expanded_percentiles(value: float, drawn: FloatArray, items: int, confidence: float) -> tuple[float, float]:
    defined = drawn[np.isfinite(drawn)]
    if len(defined) < _MIN_DEFINED * len(drawn):
        return float("nan"), float("nan")
    near = 1e-9 * max(1.0, abs(value))
    below, above = (defined < value + near).mean(), (defined > value - near).mean()
    if min(below, above) < _MIN_EACH_SIDE:
        return float("nan"), float("nan")
    wide = np.sqrt(items / (items - 1)) * stdtrit(items - 1, 0.5 + confidence / 2)
    low, high = np.quantile(defined, ndtr([-wide, wide]))
    return float(low), float(high)


# -- Signs of bootstrapped mean differences of pairs of systems --------------------------------------------------------


@dataclass(frozen=True)
class SignCounts:
    """Trials won by the first system of each pair, ties half, in batches of trials."""

    plus: FloatArray  # batches x tables x pairs; exact multiples of 1/2. NaN for a pair without a common item
    # the same for wins in both this table and the partner's (product of the two, ties half); or None
    joint: FloatArray | None
    trials: IntArray  # trials of each batch

    def share_ahead(self) -> FloatArray:
        """Return P(first system ahead) over all trials: tables x pairs."""
        return np.asarray(self.plus.sum(axis=0) / self.trials.sum(), dtype=np.float64)


@dataclass(frozen=True)
class PairContrasts:
    """Tables of scores prepared for products with counts."""

    tables: IntArray  # indices of these tables in the stack
    # (tables * columns) x items; a column is a system, or a pair where scores are missing irregularly
    matrix: FloatArray
    by_system: bool  # whether columns are systems, to be subtracted in pairs
    tie: FloatArray  # tables x pairs; difference per drawn item that is rounding
    known: BoolArray  # tables x pairs; whether the two systems have a common item
    first: IntArray  # first system of each pair, as in `np.triu_indices(M, 1)`
    second: IntArray  # second system

    def add(self, counts: FloatArray) -> FloatArray:
        """Return sums over draws given as counts (trials x items), the input of `signs`."""
        return np.asarray(self.matrix @ counts.T, dtype=np.float64)

    def compare_systems(self, sums: FloatArray, size: int) -> IntArray:
        """Return 2 where the first system is ahead, 1 for a tie, 0 behind: tables x pairs x trials."""
        table = sums.reshape(len(self.tables), -1, sums.shape[1])
        difference = table[:, self.first] - table[:, self.second] if self.by_system else table
        tie = (size * self.tie)[:, :, None]
        return np.add(difference > tie, difference >= -tie, dtype=np.int8)


def bootstrap_sign_counts(
    scores: FloatArray, trials: int, *, size: int | None = None, seed: Seed = 0, partner: FloatArray | None = None
) -> SignCounts:
    """Count bootstrap samples in which the first system of a pair has the higher mean, by table and pair.

    All tables (tables x items x systems) share the samples of `size` items; `partner` is resampled with them, and its
    wins are counted jointly with theirs.

    >>> scores = np.array([[[2.0, 1.0], [1.0, 3.0], [4.0, 1.0]]])
    >>> bootstrap_sign_counts(scores, 1000, seed=1).share_ahead().round(2)  # of the 27 draws 17 are won, 3 are ties
    array([[0.68]])
    """
    validate_scores(scores, "tables x items x systems")
    _, items, systems = scores.shape
    if partner is not None and partner.shape != scores.shape[1:]:
        raise OptionError(f"`partner` is {partner.shape}, `scores` {scores.shape}; give items x systems as in scores")
    if items < 1:
        raise DataError("there is no item with a score, so there is nothing to resample")
    size = items if size is None else size
    at_least("size", size, 1, "draw at least 1 item")
    per_batch = batch_sizes(trials)
    pairs = systems * (systems - 1) // 2
    plus = np.full((len(per_batch), len(scores), pairs), np.nan)
    joint = None if partner is None else plus.copy()
    beside = None if partner is None else next(iter(pair_contrasts(partner[None])))
    (draw_seed,) = spawn_seeds(seed, 1)
    for block in pair_contrasts(scores):
        rng = np.random.default_rng(draw_seed)  # every block of tables uses the same draws
        for batch, batch_trials in enumerate(per_batch):
            won, joint_wins = _count_batch(block, beside, rng, int(batch_trials), items, size)
            plus[batch, block.tables] = won
            if joint is not None:
                joint[batch, block.tables] = joint_wins
    return SignCounts(plus, joint, per_batch)


def _count_batch(
    block: PairContrasts, beside: PairContrasts | None, rng: np.random.Generator, trials: int, items: int, size: int
) -> tuple[FloatArray, FloatArray]:
    """Count the wins of one batch: alone, and jointly with the partner."""
    won, joint_wins = np.zeros(block.known.shape), np.zeros(block.known.shape)
    for rows in row_blocks(trials, max(items, size, len(block.matrix), block.known.size), _CHUNK):
        counts = bootstrap_counts(rng, rows.stop - rows.start, items, size)
        signs = block.compare_systems(block.add(counts), size)
        won += signs.sum(axis=2, dtype=np.int64) / 2
        if beside is not None:
            joint_wins += (signs * beside.compare_systems(beside.add(counts), size)[0]).sum(axis=2, dtype=np.int64) / 4
    won[~block.known] = np.nan
    if beside is not None:
        joint_wins[~(block.known & beside.known)] = np.nan
    return won, joint_wins


def pair_contrasts(scores: FloatArray) -> Iterator[PairContrasts]:
    """Yield tables of scores (tables x items x systems) prepared for products, as many at a time as fit in memory.

    If each item has all scores or none (of the systems that have any), sums by system suffice, which are a few times
    cheaper than sums by pair.
    """
    present = ~np.isnan(scores)
    rows, columns = np.asarray(present.any(axis=2)), np.asarray(present.any(axis=1))
    regular = (present == (rows[:, :, None] & columns[:, None, :])).all(axis=(1, 2))
    systems, items = scores.shape[2], max(1, scores.shape[1])
    pairs = systems * (systems - 1) // 2
    for by_system, width in ((True, systems), (False, pairs)):
        tables = np.flatnonzero(regular == by_system)
        for chosen in row_blocks(len(tables), items * max(1, width), _BLOCK):
            yield _build_contrasts(scores, present, tables[chosen], by_system)


def _build_contrasts(scores: FloatArray, present: BoolArray, tables: IntArray, by_system: bool) -> PairContrasts:
    first, second = np.triu_indices(scores.shape[2], 1)
    values, is_present = scores[tables], np.asarray(present[tables])
    filled = np.where(is_present, values, 0.0)
    items = max(1, scores.shape[1])
    digits = _DIGITS * np.abs(filled).sum(axis=1) / items
    if by_system:
        any_score = np.asarray(is_present.any(axis=1))
        comparable = any_score[:, first] & any_score[:, second]
        # Centred by item: the same differences with smaller numbers to round.
        mean = filled.sum(axis=2, keepdims=True) / np.maximum(is_present.sum(axis=2, keepdims=True), 1)
        columns = np.where(is_present, filled - mean, 0.0)
        terms = np.abs(columns).sum(axis=1)[:, first] + np.abs(columns).sum(axis=1)[:, second]
    else:
        shared = np.asarray(is_present[:, :, first] & is_present[:, :, second])
        comparable = np.asarray(shared.any(axis=1))
        columns = np.where(shared, filled[:, :, first] - filled[:, :, second], 0.0)
        terms = np.abs(columns).sum(axis=1)
    tie = _TIE * terms / items + digits[:, first] + digits[:, second]
    matrix = np.ascontiguousarray(columns.transpose(0, 2, 1)).reshape(-1, scores.shape[1])
    return PairContrasts(tables, matrix, by_system, tie, comparable, first, second)


def full_sample_signs(scores: FloatArray) -> IntArray:
    """Return the sign of the mean difference on all items: tables x pairs, in -1, 0, 1."""
    items, systems = scores.shape[1:]
    signs = np.zeros((len(scores), systems * (systems - 1) // 2), dtype=np.int64)
    for block in pair_contrasts(scores):
        signs[block.tables] = block.compare_systems(block.add(np.ones((1, items))), items)[:, :, 0] - 1
    return signs


def batch_sizes(trials: int) -> IntArray:
    """Split trials into at most `BATCHES` batches of nearly equal size.

    >>> batch_sizes(3)
    array([1, 1, 1])
    """
    at_least("trials", trials, 1, "give at least 1, for instance 10000")
    batches = min(BATCHES, trials)
    return np.asarray(trials // batches + (np.arange(batches) < trials % batches), dtype=np.int64)
