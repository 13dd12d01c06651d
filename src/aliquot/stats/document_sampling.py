"""Sampling of whole documents and of snippets: contiguous runs of items within documents.

Invariant: the probability returned for an item is its exact inclusion probability. Sampling "at random until the budget
is met" has no known probabilities; in the designs here every run or document has one, the number of items is the budget
in expectation, and the order of the draw keeps the actual number close to it. Knowles and Lo, section 2.2, describe the
three kinds of sample. Items of a document need not be adjacent in the array; their position is their order of
appearance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from aliquot.errors import OptionError
from aliquot.stats.arrays import BoolArray, FloatArray, IntArray, Seed, group_sums
from aliquot.stats.sampling_designs import ROUNDING, systematic_sample
from aliquot.validation import at_least, between, one_of

Placement = Literal["even", "uniform"]


@dataclass(frozen=True, eq=False)
class ItemDraw:
    """The drawn items, and the inclusion probability of every item of the population."""

    indices: IntArray
    probability: FloatArray


@dataclass(frozen=True, eq=False)
class _DocumentLayout:
    """Items grouped by document: `order` sorts them so; the other fields follow that order."""

    order: IntArray
    lengths: IntArray  # of each document
    offsets: IntArray  # of each document's first item
    document: IntArray  # of each item
    position: IntArray  # of each item in its document

    def order_sample(self, is_drawn: BoolArray, probability: FloatArray) -> ItemDraw:
        """Return the sample in the order of the population."""
        everywhere = np.empty(len(self.order))
        everywhere[self.order] = probability
        return ItemDraw(np.sort(self.order[is_drawn]), everywhere)

    def cover_items(self, documents: IntArray, starts: IntArray, lengths: IntArray) -> BoolArray:
        """Return which items lie in at least one of the runs."""
        first = self.offsets[documents] + starts
        size = len(self.order) + 1
        opened = np.bincount(first, minlength=size)
        closed = np.bincount(first + lengths, minlength=size)
        return np.cumsum(opened - closed)[:-1] > 0


def _group_by_document(documents: IntArray) -> _DocumentLayout:
    codes = np.asarray(documents)
    if codes.ndim != 1 or (codes.size and not np.issubdtype(codes.dtype, np.integer)):
        raise OptionError(f"`documents` has type {codes.dtype} and shape {codes.shape}; give one integer code per item")
    _, document, lengths = np.unique(codes, return_inverse=True, return_counts=True)
    order = np.argsort(document, kind="stable")
    offsets = np.cumsum(lengths) - lengths
    position = np.arange(len(codes)) - np.repeat(offsets, lengths)
    return _DocumentLayout(order, lengths, offsets, document[order], position)


def _validate_budget(n_items: float, available: int, what: str) -> None:
    between("n_items", n_items, 0, available, remedy=f"choose between 0 and the {available} items {what}")


def _count_tiling_cover(position: IntArray, length: IntArray, run: IntArray) -> IntArray:
    """Count how often a tiling covers a position: runs at 0, run, 2 run, ..., the last one shifted back to fit.

    Only the last two runs overlap, so the count is 1 or 2.
    """
    tiles = -(-length // run)
    return (position // run < tiles - 1).astype(np.int64) + (position >= length - run)


def _both_tilings(position: IntArray, length: IntArray, run: IntArray) -> tuple[IntArray, IntArray]:
    """Count how often a position is covered by the tiling from the front and by the one from the back."""
    return _count_tiling_cover(position, length, run), _count_tiling_cover(length - 1 - position, length, run)


def draw_whole_documents(documents: IntArray, n_items: float, seed: Seed, max_length: int | None = None) -> ItemDraw:
    """Draw whole documents with equal probabilities, `n_items` items in expectation.

    "Whole document" of Knowles and Lo, section 2.2.2. Stopping a random order of documents at the budget would favour
    short documents by an unknown amount; here every document has probability n_items / N (see `_decide_documents`). The
    number of items is off by a part of one document, a short one unless the budget is very small. Documents longer than
    `max_length` are never drawn and not represented by any estimate.

    >>> draw = draw_whole_documents(np.array([0, 0, 1, 1, 2, 2]), 2, seed=0)
    >>> len(draw.indices), draw.probability.round(3).tolist()
    (2, [0.333, 0.333, 0.333, 0.333, 0.333, 0.333])
    """
    layout = _group_by_document(documents)
    allowed = layout.lengths <= (np.inf if max_length is None else max_length)
    available = int(layout.lengths[allowed].sum())
    _validate_budget(n_items, available, "there are" if max_length is None else f"in documents of up to {max_length}")
    rng = np.random.default_rng(seed)
    shuffled = rng.permutation(np.flatnonzero(allowed))
    longest_first = shuffled[np.argsort(-layout.lengths[shuffled], kind="stable")]
    is_drawn = np.zeros(len(allowed), dtype=np.bool_)
    is_drawn[longest_first] = _decide_documents(layout.lengths[longest_first].tolist(), n_items, rng)
    pi = np.where(allowed, n_items / max(available, 1), 0.0)
    return layout.order_sample(is_drawn[layout.document], pi[layout.document])


def _decide_documents(lengths: list[int], budget: float, rng: np.random.Generator) -> list[bool]:
    """Decide documents one by one so that each is taken with probability budget / sum(lengths).

    All remaining documents have the same probability: remaining budget / remaining items. To decide a document, its own
    probability moves up to `high` or down to `low` and the others' the opposite way, at constant expected items; the
    two outcomes are weighted so that expectations do not change, as in the pivotal method. high < 1 if the document is
    longer than the remaining budget, low > 0 if the others cannot hold that budget.
    """
    items = sum(lengths)
    is_taken = []
    for length, (luck, toss) in zip(lengths, rng.random((len(lengths), 2)).tolist(), strict=True):
        low = max(0.0, (budget - (items - length)) / length)
        high = min(1.0, budget / length)
        chance = high if luck * (high - low) < budget / items - low else low
        is_taken.append(toss < chance)
        budget -= chance * length
        items -= length
    return is_taken


def draw_fixed_snippets(
    documents: IntArray, n_items: float, seed: Seed, length: int = 10, per_document: int | None = 1
) -> ItemDraw:
    """Draw runs of `length` adjacent items (whole documents where shorter), `n_items` in expectation.

    "Document fixed snippet" of Knowles and Lo, section 2.2.3. Each document is tiled by runs of `length`, from its
    front or back at random, the last one shifted back to fit. Documents are drawn systematically with equal
    probabilities p, those with fewer items first; a drawn document gives `per_document` random runs of its tiling (all
    of them where it has no more). Items of short documents are therefore drawn more often. An item's probability is p
    times that of being in one of its document's runs. If all documents together give fewer than `n_items`,
    `per_document` is raised to the least sufficient number (`required_runs`).

    With `per_document=None` runs are drawn systematically with equal probabilities p, any number per document, shorter
    ones first. An item in two runs has probability min(1, 2p), all others p. Runs are not cut to fit the budget: the
    number of items is off by at most one run while p <= 1/2, or while a document gives one.

    >>> draw = draw_fixed_snippets(np.zeros(12, dtype=int), 4, seed=0, length=4)
    >>> draw.indices.tolist(), draw.probability[0].round(3).item()
    ([8, 9, 10, 11], 0.333)
    """
    layout = _group_by_document(documents)
    _validate_budget(n_items, len(layout.order), "there are")
    at_least("length", length, 1, "a run has at least 1 item")
    rng = np.random.default_rng(seed)
    run = np.minimum(layout.lengths, length)
    tiles = -(-layout.lengths // run)
    covers = _both_tilings(layout.position, layout.lengths[layout.document], run[layout.document])
    if per_document is None:
        p = _run_probability(n_items, len(layout.order), int((tiles * run).sum()))
        owner, starts = _list_runs(layout.lengths, run, tiles, rng)
        documents_drawn = systematic_sample(np.full(len(owner), p), rng)
        is_drawn = layout.cover_items(owner[documents_drawn], starts[documents_drawn], run[owner[documents_drawn]])
        return layout.order_sample(is_drawn, 0.5 * (np.minimum(1.0, p * covers[0]) + np.minimum(1.0, p * covers[1])))
    n_runs = np.minimum(tiles, required_runs(layout.lengths, n_items, length, per_document))
    front, back = (_in_a_run(cover, tiles[layout.document], n_runs[layout.document]) for cover in covers)
    inside = 0.5 * (front + back)
    p = min(1.0, n_items / inside.sum()) if len(inside) else 0.0
    documents_drawn = systematic_sample(
        np.full(len(run), p), rng, _fewest_first(group_sums(layout.document, inside), rng)
    )
    owner, starts = _draw_runs(documents_drawn, layout.lengths, run, tiles, n_runs, rng)
    return layout.order_sample(layout.cover_items(owner, starts, run[owner]), p * inside)


def required_runs(lengths: IntArray, n_items: float, length: int = 10, per_document: int = 1) -> int:
    """Return how many runs per document are needed for documents of these lengths to hold `n_items`.

    >>> required_runs(np.array([4, 30]), 14), required_runs(np.array([4, 30]), 15)
    (1, 2)
    """
    at_least("per_document", per_document, 1, "a document gives at least 1 run")
    run = np.minimum(lengths, length)
    tiles = -(-lengths // run)
    twice = tiles * run - lengths  # items in two runs of a tiling
    for runs in range(per_document, int(tiles.max(initial=1))):
        n_runs = np.minimum(tiles, runs)
        covered = n_runs * run - twice * _both_taken(tiles, n_runs)
        if n_items <= covered.sum() * (1 + ROUNDING):
            return runs
    return max(per_document, int(tiles.max(initial=1)))


def _both_taken(tiles: IntArray, n_runs: IntArray) -> FloatArray:
    """Return the probability that two given runs of a tiling are both drawn."""
    probability: FloatArray = n_runs * (n_runs - 1) / np.maximum(tiles * (tiles - 1), 1)
    return probability


def _in_a_run(cover: IntArray, tiles: IntArray, n_runs: IntArray) -> FloatArray:
    """Return the probability that an item in one or two runs of its document's tiling is in a drawn one."""
    return cover * n_runs / tiles - (cover > 1) * _both_taken(tiles, n_runs)


def _fewest_first(items: FloatArray, rng: np.random.Generator) -> IntArray:
    """Order documents by their number of items, random among equals: keeps the total near its expectation."""
    shuffled = rng.permutation(len(items))
    return shuffled[np.argsort(items[shuffled].round(6), kind="stable")]


def _draw_runs(
    documents: IntArray, lengths: IntArray, run: IntArray, tiles: IntArray, n_runs: IntArray, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Return document and start of the runs of the drawn documents, random ones of each tiling."""
    owner = np.repeat(documents, tiles[documents])
    first = np.repeat(np.cumsum(tiles[documents]) - tiles[documents], tiles[documents])
    # Runs in random order within their document: the first ones of each are taken.
    order = np.lexsort((rng.random(len(owner)), owner))
    picked = order[np.arange(len(owner)) - first < n_runs[owner]]
    slack = lengths - run
    starts = np.minimum((picked - first[picked]) * run[owner[picked]], slack[owner[picked]])
    mirrored = rng.random(len(run)) < 0.5
    return owner[picked], np.where(mirrored[owner[picked]], slack[owner[picked]] - starts, starts)


def _list_runs(
    lengths: IntArray, run: IntArray, tiles: IntArray, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Return document and start of all runs: by run length, then documents at random, each tiled either way."""
    shuffled = rng.permutation(len(run))
    in_order = shuffled[np.argsort(run[shuffled], kind="stable")]
    owner = np.repeat(in_order, tiles[in_order])
    first_tile = np.repeat(np.cumsum(tiles[in_order]) - tiles[in_order], tiles[in_order])
    slack = lengths[owner] - run[owner]
    starts = np.minimum((np.arange(len(owner)) - first_tile) * run[owner], slack)
    mirrored = rng.random(len(run)) < 0.5
    return owner, np.where(mirrored[owner], slack - starts, starts)


def _run_probability(n_items: float, items: int, in_runs: int) -> float:
    """Solve for the probability p of a run: p (items - twice) + min(1, 2p) twice = n_items.

    `in_runs` counts the items run by run; `twice` = in_runs - items of them lie in two runs.
    """
    if 2 * n_items <= in_runs:
        return n_items / max(in_runs, 1)
    twice = in_runs - items
    return (n_items - twice) / (items - twice)


def draw_budgeted_snippets(documents: IntArray, share: float, seed: Seed, placement: Placement = "even") -> ItemDraw:
    """Draw from every document one run of adjacent items that is `share` of its length.

    "Document budgeted snippet" of Knowles and Lo, section 2.2.4. Fractional lengths are rounded at random (down to 0:
    the document is dropped), systematically over the documents in random order, so that every length is right in
    expectation and the total is share * N rounded up or down.

    Args:
        share: The share of each document to draw, in (0, 1].
        placement: Where a run of L items starts in a document of m. "even": a random run of a tiling of the document
            from its front or back (see `draw_fixed_snippets`); all its items then have probability 1/k to 2/k, with k
            the number of runs in the tiling. "uniform": all m - L + 1 starts are equally likely; the first item then
            has probability 1 / (m - L + 1) only, and its weight in an estimate is large.

    >>> draw = draw_budgeted_snippets(np.array([5, 5, 5, 5, 8, 8]), 0.5, seed=0)
    >>> draw.indices.tolist(), draw.probability.tolist()
    ([0, 1, 4], [0.5, 0.5, 0.5, 0.5, 0.5, 0.5])
    """
    if not 0.0 < share <= 1.0:
        raise OptionError(f"`share` is {share}; choose a share of each document above 0 and up to 1")
    one_of("placement", placement, ("even", "uniform"))
    layout = _group_by_document(documents)
    rng = np.random.default_rng(seed)
    shorter = np.floor(share * layout.lengths + ROUNDING).astype(np.int64)
    longer = np.maximum(share * layout.lengths - shorter, 0.0)
    longer[longer < ROUNDING] = 0.0
    run = shorter.copy()
    run[systematic_sample(longer, rng, order=rng.permutation(len(run)))] += 1
    starts = _draw_starts(layout.lengths, run, placement, rng)
    is_drawn = layout.cover_items(np.arange(len(run)), starts, run)
    chance = longer[layout.document]
    cover = [_cover_probability(layout, shorter + extra, placement) for extra in (0, 1)]
    return layout.order_sample(is_drawn, (1.0 - chance) * cover[0] + chance * cover[1])


def _draw_starts(lengths: IntArray, run: IntArray, placement: Placement, rng: np.random.Generator) -> IntArray:
    """Draw the start of each document's run."""
    slack = lengths - run
    if placement == "uniform":
        return np.asarray(rng.integers(0, slack + 1), dtype=np.int64)
    step = np.maximum(run, 1)
    tile: IntArray = rng.integers(0, -(-lengths // step))
    starts: IntArray = np.minimum(tile * step, slack)
    return np.where(rng.random(len(run)) < 0.5, slack - starts, starts)


def _cover_probability(layout: _DocumentLayout, run: IntArray, placement: Placement) -> FloatArray:
    """Return the probability that each item is covered by its document's run of the given length."""
    length = layout.lengths[layout.document]
    runs = np.minimum(run[layout.document], length)
    if placement == "uniform":
        starts = length - runs + 1
        first = np.maximum(0, layout.position - runs + 1)
        covering = np.minimum(layout.position, length - runs) - first + 1
        return np.where(runs > 0, covering / starts, 0.0)
    step = np.maximum(runs, 1)
    front, back = _both_tilings(layout.position, length, step)
    return np.where(runs > 0, (front + back) / (2.0 * -(-length // step)), 0.0)
