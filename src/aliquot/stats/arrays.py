"""Array types, group sums, ranks, tolerance tests, validation and blocking."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import wraps
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from aliquot.errors import OptionError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

ROUNDING = 1e-12  # relative rounding of a sum, which depends on the order of its terms and on the processor
SINGLE_ROUNDING = 1e-5  # the same in single precision, which most metrics have: XLsim reaches 1.0000013
_SQUARE_SAFE = (1e-75, 1e75)  # range of values whose squares and sums of squares neither overflow nor vanish

Seed = int | np.random.Generator
"""Seed or generator of a random function; the same seed gives the same result."""


def encode_labels(labels: Sequence[Hashable]) -> IntArray:
    """Encode labels as integers in order of first appearance.

    >>> encode_labels(["b", "a", "b"]).tolist()
    [0, 1, 0]
    """
    code_of = {label: code for code, label in enumerate(dict.fromkeys(labels))}
    return np.array([code_of[label] for label in labels], dtype=np.int64)


def overflow_scale(values: FloatArray) -> float:
    """Return the power of 10 to divide values by so that squares neither overflow nor vanish; mostly 1.

    >>> overflow_scale(np.array([3.0, np.nan, 99.0])), overflow_scale(np.array([0.0, 2e-160]))
    (1.0, 1e-160)
    """
    sizes = np.abs(values[np.isfinite(values) & (values != 0)])
    largest = float(sizes.max()) if sizes.size else 1.0
    return 1.0 if _SQUARE_SAFE[0] < largest < _SQUARE_SAFE[1] else float(10.0 ** np.floor(np.log10(largest)))


def is_negligible(values: FloatArray | float, scale: FloatArray | float, rounding: float = ROUNDING) -> BoolArray:
    """Return where computed values are 0 up to rounding; `scale` is the size of the terms they come from.

    Use it in place of `== 0`: whether a sum is exactly 0 depends on the processor. NaN is not negligible.

    >>> is_negligible(0.1 + 0.2 - 0.3, 0.3), is_negligible(np.array([0.0, 1e-9, np.nan]), 50.0)
    (array(True), array([ True, False, False]))
    """
    return np.asarray(np.abs(values) <= rounding * np.abs(scale), dtype=np.bool_)


def snap_to_zero(values: FloatArray, scale: FloatArray | float) -> FloatArray:
    """Set negligible values to 0.

    >>> snap_to_zero(np.array([1.0, 7.8e-15]), 50.0)
    array([1., 0.])
    """
    return np.where(is_negligible(values, scale), 0.0, values)


def max_abs(values: FloatArray, axis: int | None = None) -> FloatArray:
    """Return the largest absolute finite value; 0 of an empty slice.

    >>> max_abs(np.array([[3.0, np.nan], [-4.0, np.nan]]), axis=0)
    array([4., 0.])
    """
    return np.asarray(np.abs(np.where(np.isfinite(values), values, 0.0)).max(axis=axis, initial=0.0), dtype=np.float64)


def is_constant(values: FloatArray, axis: int | None = None, scale: FloatArray | float | None = None) -> BoolArray:
    """Return where values are constant up to rounding; NaN is ignored, an empty slice is not constant.

    `scale` is the size of what the values were computed from, by default their own.

    >>> is_constant(np.array([[0.3, 1.0], [0.1 + 0.2, 2.0]]), axis=0)
    array([ True, False])
    """
    present = np.isfinite(values)
    highest = np.where(present, values, -np.inf).max(axis=axis, initial=-np.inf)
    lowest = np.where(present, values, np.inf).min(axis=axis, initial=np.inf)
    size = max_abs(values, axis) if scale is None else scale
    return np.asarray(is_negligible(highest - lowest, size) & present.any(axis=axis), dtype=np.bool_)


def nan_std(values: FloatArray, axis: int | None = None) -> FloatArray:
    """Return the standard deviation ignoring NaN; exactly 0 for values that are constant up to rounding.

    >>> float(np.full(3, 0.1).std()) > 0, float(nan_std(np.full(3, 0.1)))
    (True, 0.0)
    """
    return snap_to_zero(np.asarray(np.nanstd(values, axis=axis)), max_abs(values, axis))


def round_significant(values: FloatArray, scale: float | None = None) -> FloatArray:
    """Round to 12 significant digits of the largest value, so that sums in different orders compare equal.

    `scale` is the size of what the values were computed from, by default their own.

    >>> round_significant(np.array([0.1 + 0.2, 0.3, 100.0])).tolist()
    [0.3, 0.3, 100.0]
    """
    largest = float(max_abs(values)) if scale is None else scale
    if not _SQUARE_SAFE[0] < largest < _SQUARE_SAFE[1]:
        return values
    return np.round(values, 12 - int(np.ceil(np.log10(largest))))


def is_within(values: FloatArray, low: float, high: float) -> bool:
    """Return whether all finite values lie in [low, high], up to rounding in single precision.

    >>> is_within(np.array([0.0, 1.000000119, np.nan]), 0.0, 1.0), is_within(np.array([1.01]), 0.0, 1.0)
    (True, False)
    """
    present, slack = values[np.isfinite(values)], SINGLE_ROUNDING * max(abs(low), abs(high))
    return bool((present >= low - slack).all() and (present <= high + slack).all())


def average_ranks(values: FloatArray) -> FloatArray:
    """Return ranks from 1 along the last axis; ties share their mean rank, NaN stays NaN.

    >>> average_ranks(np.array([[3.0, np.nan, 1.0, 3.0]]))
    array([[2.5, nan, 1. , 2.5]])
    """
    # scipy.stats.rankdata gives the same, but importing scipy.stats takes half a second.
    order = np.argsort(values, axis=-1, kind="stable")
    ordered = np.take_along_axis(values, order, axis=-1)
    place = np.broadcast_to(np.arange(values.shape[-1]), values.shape)
    starts = np.ones(values.shape, dtype=np.bool_)
    starts[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    ends = np.ones(values.shape, dtype=np.bool_)
    ends[..., :-1] = starts[..., 1:]
    first = np.maximum.accumulate(np.where(starts, place, 0), axis=-1)
    last = np.minimum.accumulate(np.where(ends, place, values.shape[-1])[..., ::-1], axis=-1)[..., ::-1]
    ranks = np.empty(values.shape)
    np.put_along_axis(ranks, order, np.where(np.isnan(ordered), np.nan, (first + last) / 2 + 1), axis=-1)
    return ranks


def scaled_ranks(values: FloatArray) -> FloatArray:
    """Return ranks of all present values from -0.5 to 0.5; ties share their mean rank, NaN stays NaN.

    >>> scaled_ranks(np.array([10.0, 30.0, np.nan, 20.0, 30.0])).tolist()
    [-0.375, 0.25, nan, -0.125, 0.25]
    """
    count = max(int(np.isfinite(values).sum()), 1)
    ranks = average_ranks(np.where(np.isfinite(values), values, np.nan).ravel()).reshape(values.shape)
    return (ranks - 0.5) / count - 0.5


def group_sums(codes: IntArray, values: FloatArray, groups: int = 0) -> FloatArray:
    """Sum the values of each group.

    >>> group_sums(np.array([0, 1, 0]), np.array([1.0, 2.0, 3.0]))
    array([4., 2.])
    """
    return np.asarray(np.bincount(codes, values, minlength=groups), dtype=np.float64)


def group_means(codes: IntArray, values: FloatArray, groups: int = 0) -> FloatArray:
    """Average the values of each group, ignoring NaN; NaN for an empty group.

    >>> group_means(np.array([0, 1, 0]), np.array([1.0, np.nan, 3.0]))
    array([ 2., nan])
    """
    present = np.isfinite(values)
    count = group_sums(codes, present.astype(np.float64), groups)
    total = group_sums(codes, np.where(present, values, 0.0), groups)
    return np.where(count > 0, total / np.maximum(count, 1.0), np.nan)


def centre_by_group(codes: IntArray, values: FloatArray) -> FloatArray:
    """Subtract the group means from values (n or n x K, none missing).

    >>> centre_by_group(np.array([0, 1, 0]), np.array([1.0, 2.0, 3.0]))
    array([-1.,  0.,  1.])
    """
    columns = values.reshape(len(values), -1).T
    sums = np.stack([np.bincount(codes, column) for column in columns], axis=1)
    means = sums / np.maximum(np.bincount(codes), 1)[:, None]
    return np.asarray(values - means[codes].reshape(values.shape), dtype=np.float64)


def row_blocks(rows: int, width: int, numbers: int) -> Iterator[slice]:
    """Yield slices of rows such that `width` numbers per row are at most `numbers` per slice (or one row).

    >>> [(block.start, block.stop) for block in row_blocks(5, width=10, numbers=25)]
    [(0, 2), (2, 4), (4, 5)]
    """
    step = max(1, numbers // max(1, width))
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


def validate_scores(scores: FloatArray, layout: str = "items x systems", name: str = "scores") -> None:
    """Raise OptionError for scores of another number of dimensions than the layout, or with infinite values."""
    if scores.ndim != layout.count(" x ") + 1:
        what = f"{name} has {scores.ndim} dimension(s); give "
        raise OptionError(what + (f"an {layout} table" if layout == "items x systems" else layout))
    if np.isinf(scores).any():
        raise OptionError(f"{name} holds infinite values; replace them by numbers, or by NaN for missing")


def validate_metric_stack(metrics: FloatArray, human: FloatArray) -> None:
    """Raise OptionError unless metrics and human scores have matching shapes and finite values."""
    if metrics.ndim != 3 or metrics.shape[1:] != human.shape:
        raise OptionError(
            f"`metrics` is {metrics.shape}, `human` {human.shape}; give metrics x items x systems and items x systems"
        )
    if np.isinf(metrics).any() or np.isinf(human).any():
        raise OptionError("the scores hold infinite values; replace them by numbers, or by NaN for missing")


_Result = TypeVar("_Result")


def cache_by_content(size: int) -> Callable[[Callable[..., _Result]], Callable[..., _Result]]:
    """Cache the last `size` results of a function of arrays, keyed by a digest of their content.

    No array is held, and a changed array is recomputed. Results must not be modified.

    >>> calls = []
    >>> double = cache_by_content(2)(lambda x: calls.append(1) or 2 * x)
    >>> double(np.ones(2)), double(np.ones(2)), len(calls)
    (array([2., 2.]), array([2., 2.]), 1)
    """

    def decorate(function: Callable[..., _Result]) -> Callable[..., _Result]:
        cache: OrderedDict[tuple[Any, ...], _Result] = OrderedDict()

        @wraps(function)
        def call_cached(*arguments: Any) -> _Result:
            key = tuple(_content_key(value) if isinstance(value, np.ndarray) else value for value in arguments)
            if key in cache:
                cache.move_to_end(key)
                return cache[key]
            result = cache[key] = function(*arguments)
            while len(cache) > size:
                cache.popitem(last=False)
            return result

        return call_cached

    return decorate


def _content_key(array: NDArray[Any]) -> tuple[tuple[int, ...], str, bytes]:
    return array.shape, array.dtype.str, hashlib.blake2b(np.ascontiguousarray(array).data, digest_size=16).digest()
