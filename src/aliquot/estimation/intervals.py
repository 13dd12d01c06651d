"""Intervals around estimates: t, bootstrap, Hoeffding, Bernstein, and anytime-valid sequences."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from scipy.special import ndtri, stdtrit

from aliquot.errors import AliquotWarning, DataError, OptionError
from aliquot.estimation.pipeline import Inference, pair_errors
from aliquot.estimation.sample import Sample
from aliquot.estimation.scales import Scale
from aliquot.stats.arrays import (
    BoolArray,
    FloatArray,
    IntArray,
    Seed,
    is_negligible,
    is_within,
    max_abs,
    snap_to_zero,
)
from aliquot.stats.confidence_sequences import (
    asymptotic_sequence,
    bernstein_half_width,
    betting_sequence,
    hoeffding_half_width,
    tune_rho,
)
from aliquot.stats.proportions import korn_graubard, tango_interval
from aliquot.stats.resampling import bootstrap_sums
from aliquot.validation import one_of

IntervalKind = Literal["t", "bootstrap", "hoeffding", "bernstein", "sequence"]
INTERVAL_KINDS: tuple[IntervalKind, ...] = get_args(IntervalKind)
DRAWS = 10_000
_WIDTH_ONLY = ("hoeffding", "bernstein")
MAX_LEVEL = 1 - 1e-9
NOISE_SHARE = 4.0  # the noise of judging is held against this part of the error rate of an interval for every look


@dataclass(frozen=True, eq=False)
class Bounds:
    """Lower and upper bounds of the systems' means and of all differences a - b (M x M)."""

    low: FloatArray
    high: FloatArray
    pair_low: FloatArray
    pair_high: FloatArray


def check_level(level: float) -> None:
    """Raise OptionError for levels outside (0, 1 - 1e-9]; beyond, quantiles are rounding errors."""
    if not 0.0 < level <= MAX_LEVEL:
        raise OptionError(f"`level` is {level}; choose between 0 and {MAX_LEVEL}, for instance 0.95")


def compute_bounds(
    kind: IntervalKind,
    inference: Inference,
    *,
    level: float,
    value_range: tuple[float, float] | None,
    seed: Seed,
) -> Bounds:
    """Compute intervals of a kind for systems and pairs."""
    one_of("interval", kind, INTERVAL_KINDS)
    check_level(level)
    if kind == "t":
        limits = _symmetric_bounds(inference.values, inference.half_widths(level), inference.pair_half_widths(level))
        return limits if inference.scale is None else _bounds_on_scale(limits, inference, inference.scale, level)
    if kind == "bootstrap":
        regular = compute_bounds("t", inference, level=level, value_range=value_range, seed=seed)
        nothing_varied = is_negligible(np.sqrt((inference.errors**2).sum(axis=0)), inference.se)
        return _replace_unseen(_bootstrap_bounds(inference, level, seed), regular, nothing_varied)
    if kind == "sequence":
        limits = _sequence_bounds(inference, level, value_range)
    else:
        limits = _distribution_free_bounds(kind, inference, level, value_range)
    return limits if inference.added is None else _add_target(limits, inference, inference.added, level)


def _replace_unseen(limits: Bounds, replacement: Bounds, unseen: BoolArray) -> Bounds:
    """Replace intervals of systems whose scores do not vary, for which resampling shows no spread."""
    either = unseen[:, None] | unseen[None, :]
    return Bounds(
        np.where(unseen, replacement.low, limits.low),
        np.where(unseen, replacement.high, limits.high),
        np.where(either, replacement.pair_low, limits.pair_low),
        np.where(either, replacement.pair_high, limits.pair_high),
    )


def _add_target(limits: Bounds, inference: Inference, added: FloatArray, level: float) -> Bounds:
    """Widen intervals for the target `given` by the variance that the target adds, as `Monitor` does."""
    upper = 1 - (1 - level) / (2 * NOISE_SHARE)
    half = stdtrit(inference.freedom, upper) * np.sqrt(np.clip(np.diag(added), 0.0, None))
    pair_half = stdtrit(inference.pair_freedom, upper) * pair_errors(added)
    values, gaps = inference.values, inference.values[:, None] - inference.values[None, :]
    return Bounds(
        values - np.hypot(values - limits.low, half),
        values + np.hypot(limits.high - values, half),
        gaps - np.hypot(gaps - limits.pair_low, pair_half),
        gaps + np.hypot(limits.pair_high - gaps, pair_half),
    )


def cut_to_scale(limits: Bounds, scale: Scale | None) -> Bounds:
    """Clip intervals to the scale."""
    if scale is None:
        return limits
    return Bounds(
        np.clip(limits.low, scale.low, scale.high),
        np.clip(limits.high, scale.low, scale.high),
        np.clip(limits.pair_low, -scale.width, scale.width),
        np.clip(limits.pair_high, -scale.width, scale.width),
    )


def _bounds_on_scale(limits: Bounds, inference: Inference, scale: Scale, level: float) -> Bounds:
    """Compute intervals that stay on the scale (docs/methods.md, section 4).

    Pass/fail: Korn and Graubard's interval for means, Tango's for differences, both with the effective size that the
    variance implies. Other scales with two ends: the former where t would pass an end, or nothing varied: a mean cannot
    vary more than that of scores at the ends. Penalties: t, cut at 0.
    """
    if np.isfinite(scale.width):
        regular = scale.binary | (limits.low < scale.low) | (limits.high > scale.high) | (inference.unseen > 0)
        use = regular & ~inference.exact
        mean, variance = (inference.values - scale.low) / scale.width, (inference.se / scale.width) ** 2
        wider = _t_widening(inference.sample.counts, inference.freedom, level)
        low, high = korn_graubard(mean, variance * wider**2, _effective_sizes(inference), level)
        limits = replace(
            limits,
            low=np.where(use, scale.low + scale.width * low, limits.low),
            high=np.where(use, scale.low + scale.width * high, limits.high),
        )
        if scale.binary:
            limits = _binary_pairs(limits, inference, scale, level)
    return cut_to_scale(limits, scale)


def _t_widening(counts: IntArray, freedom: FloatArray, level: float) -> FloatArray:
    """Return the ratio of t quantiles with the design's degrees of freedom to those of independent items."""
    upper = 0.5 + level / 2
    wider: FloatArray = stdtrit(freedom, upper) / stdtrit(np.maximum(counts - 1.0, 1.0), upper)
    return np.maximum(wider, 1.0)


def _effective_sizes(inference: Inference) -> FloatArray:
    """Return effective sample sizes by Kish's design effect, for means whose variance is not informative."""
    sample = inference.sample
    weight = np.where(np.isfinite(sample.scores), sample.weight[:, None], 0.0)
    size = weight.sum(axis=0) ** 2 / np.maximum((weight**2).sum(axis=0), 1e-300)
    size = np.minimum(size, float(sample.units))
    if inference.added is None:  # the finite population counts
        unsampled = np.maximum(1.0 - sample.counts / sample.population, 1.0 / sample.population)
        size = np.minimum(size / unsampled, sample.population)
    return np.asarray(size, dtype=np.float64)


def _binary_pairs(limits: Bounds, inference: Inference, scale: Scale, level: float) -> Bounds:
    """Tango's intervals of differences of pass rates, with effective sizes from the variance of the difference."""
    sample, m = inference.sample, len(inference.values)
    passed = (sample.scores - scale.low) / scale.width
    mean = (inference.values - scale.low) / scale.width
    present = np.isfinite(passed)
    common = present.T.astype(np.float64) @ (present * sample.weight[:, None])
    passes = np.where(present, passed, 0.0)
    both_passed = passes.T @ (passes * sample.weight[:, None])
    passed_once = passes.T @ (present * sample.weight[:, None])
    with np.errstate(invalid="ignore", divide="ignore"):
        discordant = np.where(common > 0, (passed_once + passed_once.T - 2 * both_passed) / common, np.nan)
    apart = mean[:, None] * (1 - mean[None, :])
    gap = mean[:, None] - mean[None, :]
    discordant = np.clip(np.where(np.isnan(discordant), apart + apart.T, discordant), np.abs(gap), 1.0)
    counts = np.minimum.outer(sample.counts, sample.counts)
    variance = (inference.pair_se / scale.width * _t_widening(counts, inference.pair_freedom, level)) ** 2
    sizes = _effective_sizes(inference)
    max_size = np.minimum.outer(sizes, sizes)
    spread = discordant - gap**2
    is_informative = (spread > 1e-12) & (variance > 1e-12 * spread)
    size = np.where(
        is_informative, np.minimum(spread / np.where(is_informative, variance, 1.0), 4.0 * max_size), max_size
    )
    size[np.isnan(inference.pair_se)] = np.nan
    low, high = tango_interval(size * (discordant + gap) / 2, size * (discordant - gap) / 2, size, level)
    use = ~(inference.exact[:, None] & inference.exact[None, :]) & ~np.eye(m, dtype=bool)
    return replace(
        limits,
        pair_low=np.where(use, low * scale.width, limits.pair_low),
        pair_high=np.where(use, high * scale.width, limits.pair_high),
    )


def _symmetric_bounds(values: FloatArray, half: FloatArray, pair_half: FloatArray) -> Bounds:
    difference = values[:, None] - values[None, :]
    return Bounds(values - half, values + half, difference - pair_half, difference + pair_half)


def _bootstrap_bounds(inference: Inference, level: float, seed: Seed) -> Bounds:
    """Bootstrap the errors of the design's units (documents where documents were drawn).

    The errors already carry the finite population and the order of drawing, so that the spread of a draw is that of
    the estimate; the percentile interval is reflected (basic bootstrap), which keeps the direction of the skew. A
    bootstrap knows nothing of its own uncertainty: with few units it is widened as t intervals are against normal ones.
    """
    errors, values = inference.errors, inference.values
    wider, pair_wider = _t_over_normal(inference, level)
    se_of_draws = np.sqrt((errors**2).sum(axis=0))
    pair_own = pair_errors(errors.T @ errors)
    # What the target or the finite population changes in the variance changes the width alike.
    wider = wider * np.divide(inference.se, se_of_draws, out=np.ones_like(se_of_draws), where=se_of_draws > 0)
    pair_wider = pair_wider * np.divide(inference.pair_se, pair_own, out=np.ones_like(pair_own), where=pair_own > 0)
    deviations = bootstrap_sums(errors, DRAWS, seed)
    tail = (1 - level) / 2
    low, high = np.quantile(deviations, [tail, 1 - tail], axis=0)
    m = errors.shape[1]
    pair_low, pair_high = np.zeros((m, m)), np.zeros((m, m))
    for a in range(m):
        difference = deviations[:, [a]] - deviations
        pair_low[a], pair_high[a] = np.quantile(difference, [tail, 1 - tail], axis=0)
    gaps = values[:, None] - values[None, :]
    return Bounds(
        values - wider * high, values - wider * low, gaps - pair_wider * pair_high, gaps - pair_wider * pair_low
    )


def _t_over_normal(inference: Inference, level: float) -> tuple[FloatArray, FloatArray]:
    """Return the ratios of t to normal quantiles, for systems and for pairs."""
    upper = 0.5 + level / 2
    normal = float(ndtri(upper))
    return stdtrit(inference.freedom, upper) / normal, stdtrit(inference.pair_freedom, upper) / normal


def _require_range(sample: Sample, value_range: tuple[float, float] | None, kind: str) -> tuple[float, float]:
    if value_range is None:
        raise OptionError(f"the interval '{kind}' needs the scale's ends: set `value_range`, e.g. (0, 100)")
    low, high = value_range
    if not low < high:
        raise OptionError(f"`value_range` is {low},{high}; the lower end must be below the upper one")
    note = range_note(sample.scores, value_range, kind)
    if note is not None:
        warnings.warn(note, AliquotWarning, 2)
    return low, high


def range_note(scores: FloatArray, value_range: tuple[float, float], kind: str) -> str | None:
    """Return a note on scores outside the range, or None; raise DataError if the interval needs the ends.

    Of Hoeffding's and Bernstein's intervals only the width counts, and a narrower one is an experiment (Saldias et al.
    2022, Table 5).
    """
    low, high = value_range
    if is_within(scores, low, high):
        return None
    bad = np.nanmin(scores) if np.nanmin(scores) < low else np.nanmax(scores)
    outside = f"the score {bad:g} lies outside `value_range` {low:g},{high:g}"
    if kind not in _WIDTH_ONLY:
        raise DataError(f"{outside}; correct the range or the score")
    return (
        f"{outside}: its width {high - low:g} is used as it is, and the {kind} interval may cover less than it promises"
    )


def refuse_outside(sample: Sample, value_range: tuple[float, float], interval: IntervalKind) -> None:
    """Raise DataError for human scores outside the range if the interval needs its ends."""
    low, high = value_range
    if interval in _WIDTH_ONLY or is_within(sample.scores, low, high):
        return
    cells = np.argwhere((sample.scores < low) | (sample.scores > high))
    places = [
        f"item {sample.evalset.ids[sample.rows[row]]}, {sample.evalset.systems[column]}: {sample.scores[row, column]:g}"
        for row, column in cells[:3]
    ]
    more = f"; and {len(cells) - 3} more" if len(cells) > 3 else ""
    raise DataError(
        f"scores outside `value_range` {low:g},{high:g} ({'; '.join(places)}{more}); leave out codes for "
        "missing values and slips, or correct the range"
    )


def _distribution_free_bounds(
    kind: str, inference: Inference, level: float, value_range: tuple[float, float] | None
) -> Bounds:
    """Hoeffding and Bernstein bounds; unequal probabilities widen the scale."""
    sample = inference.sample
    low, high = _require_range(sample, value_range, kind)
    counts = np.isfinite(sample.scores).sum(axis=0)
    stretch = float((sample.weight / sample.weight.mean()).max())
    width = (high - low) * stretch
    if kind == "hoeffding":
        half = hoeffding_half_width(counts, sample.population, width, level)
        pair_half = hoeffding_half_width(counts, sample.population, 2 * width, level)
    else:
        with warnings.catch_warnings():  # a system with fewer than two scores has no deviation: NaN
            warnings.simplefilter("ignore", RuntimeWarning)
            sd = np.nanstd(sample.scores, axis=0, ddof=1) * stretch
        half = bernstein_half_width(sd, counts, width, level)
        pair_half = bernstein_half_width(2 * sd, counts, 2 * width, level)
    return _symmetric_bounds(inference.values, half, np.maximum(pair_half[:, None], pair_half[None, :]))


def _sequence_bounds(inference: Inference, level: float, value_range: tuple[float, float] | None) -> Bounds:
    """Confidence sequences: bounds valid after every judgment.

    Plain means of an equal-chance random order on a known scale: betting without replacement. Otherwise (regression,
    unequal chances, gaps) the asymptotic sequence on the errors of the design's units.
    """
    sample = inference.sample
    equal = bool(np.allclose(sample.weight, sample.weight[0])) and sample.kind == "unordered"
    present = np.isfinite(sample.scores)
    is_complete: BoolArray = present.sum(axis=0) == sample.n
    if (
        value_range is None
        or inference.fitted.proxy is not None
        or not equal
        or ((present.sum(axis=0) > 0) != is_complete).any()
    ):
        return _asymptotic_bounds(inference, level)
    low, high = _require_range(sample, value_range, "sequence")
    means = betting_sequence(sample.scores[:, is_complete], sample.population, low, high, level)
    first, second = np.triu_indices(int(is_complete.sum()), 1)
    place = np.flatnonzero(is_complete)
    limits = _nan_bounds(len(is_complete))
    limits.low[is_complete], limits.high[is_complete] = means.lower[-1], means.upper[-1]
    if len(first):
        a, b, width = place[first], place[second], high - low
        gaps = betting_sequence(sample.scores[:, a] - sample.scores[:, b], sample.population, -width, width, level)
        limits.pair_low[a, b], limits.pair_high[a, b] = gaps.lower[-1], gaps.upper[-1]
        limits.pair_low[b, a], limits.pair_high[b, a] = -gaps.upper[-1], -gaps.lower[-1]
    return limits


def _nan_bounds(systems: int) -> Bounds:
    pairs = (systems, systems)
    return Bounds(*(np.full(shape, np.nan) for shape in (systems, systems, pairs, pairs)))


def _asymptotic_bounds(inference: Inference, level: float) -> Bounds:
    """The asymptotic sequence, tuned for the present number of units, without the finite population's gain.

    It is normal in its limit; with few or unequal units it is widened as t intervals are against normal ones.
    """
    sample, errors = inference.sample, inference.errors
    free = 1.0 - float(sample.probabilities.mean())
    scaled = errors / np.sqrt(free) if free > 0 else errors
    half = _asymptotic_half_widths(np.sqrt((scaled**2).sum(axis=0)), len(errors), level)
    pair = _asymptotic_half_widths(pair_errors(scaled.T @ scaled), len(errors), level)
    wider, pair_wider = _t_over_normal(inference, level)
    unseen = inference.unseen > 0  # an error that was not seen is unknown, not 0
    half, pair = np.where(unseen, np.nan, half), np.where(unseen[:, None] | unseen[None, :], np.nan, pair)
    return _symmetric_bounds(inference.values, wider * half, pair_wider * pair)


def _asymptotic_half_widths(se: FloatArray, units: int, level: float) -> FloatArray:
    se = snap_to_zero(se, max_abs(se))
    sd = np.where(se > 0, se, np.nan) * np.sqrt(units)
    path = asymptotic_sequence(0.0, sd, units, tune_rho(sd, units, level), level)
    return np.where(se == 0, 0.0, path.upper)
