"""Waves: later additions to a selection, drawn so that the final inclusion probabilities are known exactly.

Let p_i(n) be the design's probability of item i at size n. After waves of total sizes n_1, n_2, ... the probability of
item i is p_i = max(p_i(n_1), p_i(n_2), ...). A wave draws each item that is not chosen yet with the probability
(p_i - before_i) / (1 - before_i). It depends on the sizes alone, not on what the earlier waves drew, so p_i is exact
(docs/methods.md, section 2).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from aliquot.core.columns import group_codes
from aliquot.core.evalset import EvalSet, take_rows
from aliquot.core.origin import extend_origin, record_origin
from aliquot.core.registry import parse_spec
from aliquot.core.selection import Selection
from aliquot.errors import AliquotWarning, DataError, OptionError
from aliquot.sampling.active import quality_order
from aliquot.sampling.budgets import resolve_budget
from aliquot.sampling.item_scores import fill_missing, item_quality
from aliquot.sampling.methods import DesignDraw, Method, all_methods, find_method
from aliquot.stats.allocation import equal_allocation, round_allocation
from aliquot.stats.arrays import BoolArray, FloatArray, IntArray, group_sums, is_negligible
from aliquot.stats.sampling_designs import random_document_order, systematic_sample

WAVES = "waves"
DESIGNS = ("segments", "pps", "stratified", "balanced", "casf")
_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class _GroupedDesign:
    """A design drawn separately in each group; without `balance`, one group has all items."""

    visible: EvalSet
    method: Method
    parameters: Mapping[str, Any]
    groups: Sequence[IntArray]

    def draw_size(self, n: int) -> list[DesignDraw]:
        """Return a draw of n items in all, one for each group; only probabilities and bins are used."""
        sizes = np.array([len(rows) for rows in self.groups])
        counts = round_allocation(equal_allocation(sizes, n), sizes, n).tolist()
        return [self._draw_group(rows, count) for rows, count in zip(self.groups, counts, strict=True)]

    def _draw_group(self, rows: IntArray, n: int) -> DesignDraw:
        if n == 0:
            return DesignDraw(np.zeros(0, dtype=np.int64), np.zeros(len(rows)))
        evalset = self.visible if len(self.groups) == 1 else take_rows(self.visible, rows)
        drawn: DesignDraw = self.method.run(evalset, self.parameters, n=n, rng=np.random.default_rng(0))
        return drawn

    def item_probability(self, draws: Sequence[DesignDraw]) -> FloatArray:
        """Inclusion probabilities of all items (N)."""
        together = np.zeros(self.visible.n_items)
        for rows, drawn in zip(self.groups, draws, strict=True):
            together[rows] = drawn.probability
        return together


def add_wave(
    pool: EvalSet,
    earlier: Selection,
    budget: float | str | None,
    *,
    balance: str | None = None,
    crowd: Sequence[str] | None = None,
    seed: int = 0,
    signature: str = "",
) -> Selection:
    """Add items to a selection, up to a new total size; those chosen earlier stay first.

    `earlier` is by one of DESIGNS, with or without waves; `pool`, `balance` and `crowd` are those it was drawn with.
    `budget` is the new total (300, "30%") or what to add ("+100", "+10%"). It is kept in expectation: with unequal
    probabilities the number drawn depends a little on the items drawn before.
    """
    require_design(earlier)
    chosen = _chosen_rows(pool, earlier)
    for note in earlier.check(pool):
        warnings.warn(note, AliquotWarning, 3)
    waves = read_waves(earlier)
    size = _new_size(budget, waves[-1]["size"], pool)
    design = _build_design(pool, earlier, balance, crowd)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AliquotWarning)  # the draw of the new size repeats them
        steps = [design.item_probability(design.draw_size(wave["size"])) for wave in waves]
    before = np.max(steps, axis=0)
    _require_same(earlier, before[chosen])
    draws = design.draw_size(size)
    after = np.maximum(before, design.item_probability(draws))
    rng = np.random.default_rng([seed, len(waves)])  # the first wave is drawn with [seed]
    is_left = np.ones(pool.n_items, dtype=np.bool_)
    is_left[chosen] = False
    parts = [
        _draw_wave(design, drawn, rows[is_left[rows]], is_left[rows], conditional_probability(before, after), rng)
        for rows, drawn in zip(design.groups, draws, strict=True)
    ]
    rows = np.concatenate([chosen, *parts]).astype(np.int64)
    waves = [*waves, {"size": size, "drawn": len(rows) - len(chosen)}]
    strata = _item_strata(design, draws, pool.n_items)
    details = dict(earlier.details) | {WAVES: waves}
    remainder = earlier.design.remainder
    if earlier.design.variance == "spread":
        codes = pool.documents if strata is None else strata
        assert codes is not None  # noqa: S101  (a sample spread over documents has documents)
        remainder = remaining_group_variance([*steps, after], [wave["drawn"] for wave in waves], rows, codes)
    if "empty_bins" in details and strata is not None:
        details["empty_bins"] = int(strata.max()) + 1 - len(np.unique(strata[rows]))
    ids = pool.items["id"].to_list()
    chosen_ids = tuple(ids[row] for row in rows)
    return replace(
        earlier,
        ids=chosen_ids,
        origin=extend_origin(earlier.origin, record_origin(pool, chosen_ids)),
        probability=after[rows],
        weight=None,
        signature=signature,
        design=replace(earlier.design, remainder=remainder, coverage=float((after > 0).mean())),
        details=details,
        stratum=None if strata is None else tuple(map(str, strata[rows].tolist())),
    )


def conditional_probability(before: FloatArray, after: FloatArray) -> FloatArray:
    """Probability of each item in a wave, given that no earlier wave drew it.

    >>> conditional_probability(np.array([0.2, 0.5, 1.0]), np.array([0.6, 0.5, 1.0])).round(12).tolist()
    [0.5, 0.0, 0.0]
    """
    open_ = before < 1.0
    return np.where(open_, (after - before) / np.where(open_, 1.0 - before, 1.0), 0.0)


def remaining_group_variance(
    probability: Sequence[FloatArray], drawn: Sequence[int], rows: IntArray, codes: IntArray
) -> float:
    """Return the variance between documents of spread waves, as a share of a free draw's.

    sum_d V_d / sum_i p_i (1 - p_i), V_d the variance of the number of items of document d. A wave with conditional
    probabilities q turns V_d into (1 - q_d)^2 V_d + f_d (1 - f_d): of the earlier items of d the part q_d is made good,
    because chosen items cannot be drawn again, and f_d is the fractional part of the sum of q over those left in d.
    `probability` are the design's at each size; `drawn` counts the items of each wave, `rows` are the items in order.

    >>> p, codes = np.full(8, 0.25), np.repeat([0, 1], 4)
    >>> remaining_group_variance([p, p + 0.25], [2, 2], np.array([0, 5, 1, 6]), codes)  # an item a document and wave
    0.0
    """
    variance = np.zeros(int(codes.max()) + 1)
    before = np.zeros(len(codes))
    is_left = np.ones(len(codes))
    for p, part in zip(probability, np.split(rows, np.cumsum(drawn)[:-1]), strict=True):
        after = np.maximum(before, p)
        q = conditional_probability(before, after)
        expected_before = group_sums(codes, before)
        remaining = group_sums(codes, before * (1.0 - q)) / np.where(expected_before > 0, expected_before, 1.0)
        expected = group_sums(codes, q * is_left)
        fraction = np.clip(expected - np.floor(expected + _TOLERANCE), 0.0, 1.0)
        variance = remaining**2 * variance + fraction * (1.0 - fraction)
        before = after
        is_left[part] = 0.0
    free = float((before * (1.0 - before)).sum())
    return 0.0 if is_negligible(free, float(len(codes))) else min(1.0, float(variance.sum()) / free)


# -- What can be added to, and by how much -----------------------------------------------------------------------------


def require_design(earlier: Selection) -> None:
    """Raise OptionError if a wave would leave the selection without exact probabilities."""
    details, name = earlier.details, parse_spec(earlier.method).name
    method = all_methods().get(name)
    reasons = (
        (earlier.systems is not None, "draws for each system separately (non-matching)"),
        (earlier.design.within is not None, "is a second stage (`within`)"),
        ("included" in details, "has items that were included in any case (`include`)"),
        (earlier.cost is not None, "keeps a cost budget (`cost`)"),
        (
            earlier.design.variance == "clustered" or "documents" in (method.needs if method else ()),
            "takes whole documents or snippets, which further items would leave half judged",
        ),
        (earlier.probability is None or name not in DESIGNS, "has no inclusion probabilities"),
    )
    for refused, reason in reasons:
        if refused:
            advice = f"draw a fresh sample of the full size, or begin with {', '.join(DESIGNS[:-2])} or balanced"
            if method is not None and method.kind == "utility":
                advice = "select again with the full budget and the same seed: the best items come first"
            raise OptionError(
                f"`add_to`: the selection by {earlier.method} {reason}, so nothing can be added; {advice}"
            )


def read_waves(selection: Selection) -> list[dict[str, int]]:
    """Return the requested total size and the number of items drawn, for each wave."""
    waves = selection.details.get(WAVES)
    if waves is None:
        return [{"size": len(selection), "drawn": len(selection)}]
    try:
        recorded = [{"size": int(wave["size"]), "drawn": int(wave["drawn"])} for wave in waves]
    except (TypeError, KeyError, ValueError):
        raise DataError(f"`add_to`: the selection's waves are {waves!r}; each should have a size and drawn") from None
    if sum(wave["drawn"] for wave in recorded) != len(selection):
        drawn = " + ".join(str(wave["drawn"]) for wave in recorded)
        raise DataError(
            f"`add_to`: the selection has {len(selection)} items, but its waves drew {drawn}; "
            "give the file as `aliquot select` wrote it"
        )
    return recorded


def _new_size(budget: float | str | None, before: int, pool: EvalSet) -> int:
    """Return the new total size; `before` is the last wave's."""
    population = pool.n_items
    text = "" if budget is None else str(budget).strip()
    if not text:
        raise OptionError(f"`add_to` needs `budget`: a new total above {before}, or what to add (+100)")
    if before >= population:
        raise OptionError(f"`add_to`: the selection has all {population} items already; nothing is left to add")
    if text.startswith("+"):
        added = resolve_budget(text[1:], population, systems=pool.n_systems).n
        return resolve_budget(before + added, population).n
    size = resolve_budget(text, population, systems=pool.n_systems).n
    if size <= before:
        raise OptionError(
            f"`budget={budget}`: the selection is of {before} items already; with `add_to` it is the new total: "
            "give more, or write what to add (+100)"
        )
    return size


def _chosen_rows(pool: EvalSet, earlier: Selection) -> IntArray:
    row_of = {item: row for row, item in enumerate(pool.ids)}
    missing = [item for item in earlier.ids if item not in row_of]
    if missing or earlier.population != pool.n_items:
        mismatch = (
            f"it has the item {missing[0]!r}, which they lack"
            if missing
            else (f"it is from {earlier.population} items, they have {pool.n_items}")
        )
        raise DataError(
            f"{pool.name}: the selection was not drawn from these data: {mismatch}; give the data it was "
            "drawn from, with the same `exclude_items`"
        )
    return np.array([row_of[item] for item in earlier.ids], dtype=np.int64)


def _build_design(
    pool: EvalSet, earlier: Selection, balance: str | None, crowd: Sequence[str] | None
) -> _GroupedDesign:
    spec = parse_spec(earlier.method)
    method, implied = find_method(spec.name)
    if ("balance" in earlier.details) != (balance is not None):
        was = "was balanced: name the same column with" if balance is None else "was not balanced: leave out"
        raise OptionError(f"`add_to`: the selection {was} `balance`")
    codes = np.zeros(pool.n_items, dtype=np.int64) if balance is None else group_codes(pool, balance)
    groups = [np.flatnonzero(codes == code) for code in range(int(codes.max()) + 1)]
    visible = pool if crowd is None else pool.keep(systems=list(crowd))
    return _GroupedDesign(visible, method, implied | dict(spec.parameters), groups)


def _require_same(earlier: Selection, probability: FloatArray) -> None:
    """Raise DataError unless the recorded probabilities are those of the design on these data."""
    assert earlier.probability is not None  # noqa: S101  (require_design)
    off = np.abs(probability - earlier.probability)
    if off.max(initial=0.0) > _TOLERANCE:
        row = int(off.argmax())
        raise DataError(
            f"`add_to`: item {earlier.ids[row]!r} was chosen with probability {earlier.probability[row]:.6g}, but "
            f"{earlier.method} gives it {probability[row]:.6g} on these data; give the data as they were at the first "
            "selection (the same items, metrics, `crowd` and systems, no new human scores) and the whole selection"
        )


# -- The draw ----------------------------------------------------------------------------------------------------------


def _draw_wave(
    design: _GroupedDesign,
    drawn: DesignDraw,
    rows: IntArray,
    is_left: BoolArray,
    q: FloatArray,
    rng: np.random.Generator,
) -> IntArray:
    """Draw systematically from the remaining rows of a group, in the order along which the design spreads."""
    kind, bins, documents = drawn.design.variance, drawn.stratum, design.visible.documents
    along_documents = bins is None and kind == "spread" and documents is not None
    if not len(rows):
        return rows
    if along_documents and documents is not None:
        order = random_document_order(documents[rows], rng)
    elif bins is not None:
        mixed = rng.permutation(len(rows))  # the items of a bin have no order
        order = mixed[random_document_order(bins[is_left][mixed], rng)]
    elif kind == "balanced":
        metrics = design.method.bind(design.parameters).get("metrics")
        quality = fill_missing(item_quality(design.visible, metrics), "metric", design.visible)[rows]
        order = quality_order(quality, rng.random(len(rows)), max(1, round(float(q[rows].sum()))), rng)
    else:
        order = rng.permutation(len(rows))
    is_drawn = np.zeros(len(rows), dtype=np.bool_)
    is_drawn[systematic_sample(q[rows], rng, order)] = True
    new = rows[order[is_drawn[order]]]
    return new if along_documents else rng.permutation(new)


def _item_strata(design: _GroupedDesign, draws: Sequence[DesignDraw], n: int) -> IntArray | None:
    """Return the bin of every item: its group with `balance`, else the design's bin."""
    if len(design.groups) == 1:
        return draws[0].stratum
    codes = np.empty(n, dtype=np.int64)
    for code, rows in enumerate(design.groups):
        codes[rows] = code
    return codes
