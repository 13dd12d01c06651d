"""Allocation of a sample over strata or groups (bins), and inclusion probabilities.

Invariant: allocations sum to n exactly and never exceed the sizes of bins. `proportional_allocation`,
`neyman_allocation` and `equal_allocation` give real-valued targets; `round_allocation` (deterministic) and
`round_randomly` (unbiased) make them whole.
"""

from __future__ import annotations

import numpy as np

from aliquot.errors import OptionError
from aliquot.stats.arrays import FloatArray, IntArray, Seed
from aliquot.stats.sampling_designs import ROUNDING, systematic_sample, validate_probabilities
from aliquot.validation import between


def validate_nonnegative(name: str, values: FloatArray | IntArray) -> FloatArray:
    """Return a vector of finite numbers >= 0; raise OptionError for other values.

    >>> validate_nonnegative("sizes", np.array([2, 0])).tolist()
    [2.0, 0.0]
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise OptionError(f"{name} has {array.ndim} dimensions; give one number per bin or item")
    bad = np.flatnonzero(~(np.isfinite(array) & (array >= 0.0)))
    if bad.size:
        raise OptionError(f"{name}[{bad[0]}] is {array[bad[0]]}; it must be a finite number >= 0")
    return array


def water_fill(weights: FloatArray, caps: FloatArray, n: float) -> FloatArray:
    """Allocate n as min(cap_l, c * weight_l), with the level c at which the shares sum to n (water-filling).

    Bins of weight 0 share, in proportion to their caps, what the others cannot hold.

    >>> water_fill(np.array([8.0, 1.0, 1.0]), np.array([3.0, 5.0, 5.0]), 5).tolist()
    [3.0, 1.0, 1.0]
    """
    scaled = weights / max(float(weights.max(initial=0.0)), np.finfo(np.float64).tiny)  # so that no sum overflows
    heavy = scaled > 0.0
    heavy_total = float(caps[heavy].sum())
    shares = np.where(heavy, caps, 0.0)
    if n < heavy_total:
        shares[heavy] = _fill_to_level(scaled[heavy], caps[heavy], n)
    elif n > heavy_total:
        shares[~heavy] = np.minimum((n - heavy_total) * (caps[~heavy] / caps[~heavy].sum()), caps[~heavy])
    return shares


def _fill_to_level(weights: FloatArray, caps: FloatArray, n: float) -> FloatArray:
    """Water-fill bins of positive weight whose caps sum to more than n."""
    shares: FloatArray = n * (weights / weights.sum())
    if np.all(shares <= caps):
        return shares
    with np.errstate(over="ignore"):
        order = np.argsort(caps / weights)
    sorted_weights, sorted_caps = weights[order], caps[order]
    before = np.cumsum(sorted_caps) - sorted_caps
    after = np.cumsum(sorted_weights[::-1])[::-1]
    below = (n - before) * sorted_weights <= sorted_caps * after
    full = int(np.argmax(below)) if below.any() else len(order)
    unfilled = order[full:]
    shares = caps.copy()
    shares[unfilled] = (n - float(caps[order[:full]].sum())) * (weights[unfilled] / weights[unfilled].sum())
    return np.minimum(shares, caps)


def proportional_allocation(sizes: IntArray, n: int) -> FloatArray:
    """Allocate in proportion to bin sizes, n_l = n N_l / N (Saldías et al. 2022, 2.1); for unknown bin variances.

    >>> proportional_allocation(np.array([10, 30]), 8).tolist()
    [2.0, 6.0]
    """
    caps = _validate_sizes(sizes, n)
    return water_fill(caps, caps, n)


def neyman_allocation(sizes: IntArray, sds: FloatArray, n: int) -> FloatArray:
    """Allocate for the least variance: n_l = n s_l N_l / sum(s N), capped at the bin sizes (Neyman).

    Saldías et al. (2022), equation 2. When all (remaining) sds are zero the allocation is proportional.

    >>> neyman_allocation(np.array([10, 10]), np.array([3.0, 1.0]), 8).tolist()
    [6.0, 2.0]
    """
    caps = _validate_sizes(sizes, n)
    spread = validate_nonnegative("sds", sds)
    if spread.shape != caps.shape:
        raise OptionError(f"`sds` has {len(spread)} values for {len(caps)} bins; give one per bin")
    return water_fill(spread / max(float(spread.max(initial=0.0)), np.finfo(np.float64).tiny) * caps, caps, n)


def equal_allocation(sizes: IntArray, n: int) -> FloatArray:
    """Allocate equal shares to all groups; groups that are too small release the rest to the others.

    >>> equal_allocation(np.array([2, 50, 50]), 20).tolist()
    [2.0, 9.0, 9.0]
    """
    caps = _validate_sizes(sizes, n)
    return water_fill((caps > 0.0).astype(np.float64), caps, n)


def round_allocation(target: FloatArray, sizes: IntArray, n: int) -> IntArray:
    """Round targets to whole numbers that sum to n and minimise sum |n_l - n'_l| (largest remainders first).

    Saldías et al. (2022), section 2.1. Ties go to the earlier bin. Many tiny bins all round to 0, which biases a
    stratified mean; use `round_randomly` then.

    >>> round_allocation(np.array([1.2, 2.7, 0.1]), np.array([5, 5, 5]), 4).tolist()
    [1, 3, 0]
    """
    counts, fraction = _split_whole_and_fraction(target, sizes, n)
    extra = n - int(counts.sum())
    counts[np.argsort(-fraction, kind="stable")[:extra]] += 1
    return counts


def round_randomly(target: FloatArray, sizes: IntArray, n: int, seed: Seed) -> IntArray:
    """Round targets at random to whole numbers that sum to n, with E[n_l] = target_l (no empty-bin bias).

    >>> int(round_randomly(np.array([0.5, 0.5, 0.5, 0.5]), np.array([2, 2, 2, 2]), 2, seed=0).sum())
    2
    """
    counts, fraction = _split_whole_and_fraction(target, sizes, n)
    extra = n - int(counts.sum())
    if extra == 0:
        return counts
    fraction = np.minimum(fraction * (extra / fraction.sum()), 1.0)  # the sum is whole up to rounding
    rng = np.random.default_rng(seed)
    counts[systematic_sample(fraction, rng, order=rng.permutation(len(counts)))] += 1
    return counts


def _validate_sizes(sizes: IntArray, n: int) -> FloatArray:
    """Return bin sizes as floats; raise OptionError unless 0 <= n <= their sum."""
    caps = validate_nonnegative("sizes", sizes)
    if np.any(caps != np.floor(caps)):
        raise OptionError("sizes has fractions; give the whole number of items in each bin")
    if n != int(n) or not 0 <= n <= caps.sum():
        raise OptionError(f"`n` is {n}; choose a whole number from 0 to the {int(caps.sum())} items in the bins")
    return caps


def _split_whole_and_fraction(target: FloatArray, sizes: IntArray, n: int) -> tuple[IntArray, FloatArray]:
    """Return whole and fractional parts of targets; those within rounding of a whole number are whole."""
    caps = _validate_sizes(sizes, n)
    values = validate_nonnegative("target", target)
    if values.shape != caps.shape:
        raise OptionError(f"`target` has {len(values)} values for {len(caps)} bins; give one per bin")
    slack = ROUNDING * max(1.0, float(n))
    if np.any(values > caps + slack):
        worst = int(np.argmax(values - caps))
        raise OptionError(
            f"target[{worst}] is {values[worst]}, above the size {caps[worst]:.0f}; use `neyman_allocation`"
        )
    if abs(float(values.sum()) - n) > slack:
        raise OptionError(f"target sums to {values.sum()}, not to n = {n}; allocate the same n first")
    nearest = np.round(values)
    values = np.minimum(np.where(np.abs(values - nearest) <= ROUNDING, nearest, values), caps)
    integers = np.floor(values)
    return integers.astype(np.int64), values - integers


# -- Inclusion probabilities of the items ------------------------------------------------------------------------------


def inclusion_probabilities(sizes: FloatArray, n: float) -> FloatArray:
    """Return pi = min(1, c * size), with the level c at which they sum to n.

    Särndal, Swensson and Wretman (1992), section 3.6. Items of size 0 get pi = 0, which makes design-based estimates
    biased, unless n exceeds the number of the others. See `pps_probabilities`.

    >>> inclusion_probabilities(np.array([8.0, 1.0, 1.0]), 2).tolist()
    [1.0, 0.5, 0.5]
    """
    values = validate_nonnegative("sizes", sizes)
    between("n", n, 0.0, len(values), remedy=f"choose between 0 and the {len(values)} items there are")
    return water_fill(values, np.ones(len(values)), n)


def mix_with_uniform(pi: FloatArray, tau: float) -> FloatArray:
    """Mix with the uniform design of the same size: (1 - tau) pi + tau n / N (docs/methods.md, section 2).

    >>> mix_with_uniform(np.array([1.0, 0.5, 0.5, 0.0]), 0.5).tolist()
    [0.75, 0.5, 0.5, 0.25]
    """
    values = validate_probabilities(pi)
    between("tau", tau, 0.0, 1.0, remedy="choose between 0 (sizes only) and 1 (uniform)")
    if not len(values):
        return values
    mixed: FloatArray = (1.0 - tau) * values + tau * (float(values.sum()) / len(values))
    return np.minimum(mixed, 1.0)


def pps_probabilities(sizes: FloatArray, n: float, tau: float, cost: FloatArray | None = None) -> FloatArray:
    """Return probabilities proportional to size / sqrt(cost), capped at 1, mixed with uniform by tau.

    See docs/methods.md, section 2; the square root of the cost as in Cochran (1977), section 5.5. Sizes that are all
    zero give a uniform design. With tau > 0 (and n > 0) every item has pi > 0.

    >>> pps_probabilities(np.array([3.0, 1.0, 0.0, 0.0]), 1, tau=0.5).tolist()
    [0.5, 0.25, 0.125, 0.125]
    """
    values = validate_nonnegative("sizes", sizes)
    if cost is not None:
        prices = validate_nonnegative("cost", cost)
        if prices.shape != values.shape:
            raise OptionError(f"`cost` has {len(prices)} values for {len(values)} sizes; give one per item")
        if np.any(prices == 0.0):
            free = int(np.argmin(prices))
            raise OptionError(f"cost[{free}] is 0; every item must cost more than nothing")
        values = values / max(float(values.max(initial=0.0)), np.finfo(np.float64).tiny) / np.sqrt(prices)
    return mix_with_uniform(inclusion_probabilities(values, n), tau)
