"""Sampling designs: random selections whose inclusion probabilities are known exactly (docs/methods.md, section 2)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Literal

import numpy as np

from aliquot.core.columns import group_codes
from aliquot.core.evalset import EvalSet
from aliquot.core.registry import parse_spec, strip_parentheses
from aliquot.core.selection import Design, Variance
from aliquot.errors import AliquotWarning, DataError, OptionError
from aliquot.sampling.item_scores import (
    Scale,
    Size,
    fill_missing,
    item_quality,
    item_sizes,
    metric_scores,
    rank_bins,
    row_mean,
    select_metrics,
    standardise,
)
from aliquot.sampling.methods import DesignDraw, design, find_method
from aliquot.stats.allocation import (
    neyman_allocation,
    pps_probabilities,
    proportional_allocation,
    round_allocation,
    round_randomly,
)
from aliquot.stats.arrays import FloatArray, IntArray, group_sums, is_negligible
from aliquot.stats.document_sampling import (
    ItemDraw,
    draw_budgeted_snippets,
    draw_fixed_snippets,
    draw_whole_documents,
    required_runs,
)
from aliquot.stats.pairwise import analytic_p, spa
from aliquot.stats.sampling_designs import (
    cube_sample,
    local_pivotal_sample,
    random_document_order,
    simple_random_sample,
    systematic_sample,
)

_KNOWLES = "Knowles and Lo 2023"
_SALDIAS = "Saldias et al. 2022"
_MIN_BIN_ITEMS = 20
_MASS_EXPONENT = 0.75


@design("segments", paper=f"{_KNOWLES}, 2.2.1", advice="The simple random sample; always valid.")
def segments(evalset: EvalSet, *, n: int, rng: np.random.Generator) -> DesignDraw:
    """A simple random sample of items."""
    rows = rng.permutation(simple_random_sample(evalset.n_items, n, rng))
    return DesignDraw(rows, np.full(evalset.n_items, n / evalset.n_items))


def remaining_document_variance(probability: FloatArray, codes: IntArray) -> float:
    """Return the variance between documents of a spread draw, as a share of a free draw's.

    sum_d f_d (1 - f_d) / sum_i pi_i (1 - pi_i), f_d the fractional part of the document's expected number of items.

    >>> remaining_document_variance(np.nextafter(np.ones(6), 0), np.repeat([0, 1], 3))  # all items, but for rounding
    0.0
    """
    free = float((probability * (1.0 - probability)).sum())
    parts = group_sums(codes, probability)
    fraction = np.clip(parts - np.floor(parts + 1e-9), 0.0, 1.0)
    return 0.0 if is_negligible(free, float(len(codes))) else float((fraction * (1.0 - fraction)).sum()) / free


def _reading_order(evalset: EvalSet) -> IntArray:
    """Return rows in reading order: by document, then by position if known, else by row."""
    codes = _document_codes(evalset)
    if "position" not in evalset.items.columns:
        return np.arange(evalset.n_items)
    position = evalset.items["position"].fill_null(0).to_numpy()
    return np.lexsort((np.arange(evalset.n_items), position, codes))


def _draw_in_reading_order(evalset: EvalSet, draw: Callable[[IntArray], ItemDraw]) -> ItemDraw:
    """Draw runs of items in reading order."""
    order = _reading_order(evalset)
    drawn = draw(_document_codes(evalset)[order])
    probability = np.empty(evalset.n_items)
    probability[order] = drawn.probability
    return ItemDraw(order[drawn.indices], probability)


def _order_by_document(evalset: EvalSet, draw: ItemDraw, rng: np.random.Generator, variance: Variance) -> DesignDraw:
    """Order drawn items for judging: documents at random, items of a document in reading order."""
    codes, reading = _document_codes(evalset), _reading_order(evalset)
    order = reading[random_document_order(codes[reading], rng)]
    chosen = np.zeros(evalset.n_items, dtype=bool)
    chosen[draw.indices] = True
    remainder = remaining_document_variance(draw.probability, codes) if variance == "spread" else 1.0
    return DesignDraw(order[chosen[order]], draw.probability, design=Design(variance, remainder))


def _document_codes(evalset: EvalSet) -> IntArray:
    codes = evalset.documents
    if codes is None:
        raise DataError(f"{evalset.name}: there are no documents")
    return codes


@design(
    "documents",
    needs=("documents",),
    paper=f"{_KNOWLES}, 2.2.2",
    advice="Whole documents keep context, and cost precision.",
)
def documents(evalset: EvalSet, *, n: int, rng: np.random.Generator, max_length: int | None = None) -> DesignDraw:
    """Whole documents at random; the number of items is the budget in expectation.

    Args:
        max_length: leave out longer documents (they then have probability 0, and estimates are about the others).
    """
    draw = _draw_in_reading_order(evalset, lambda codes: draw_whole_documents(codes, n, rng, max_length))
    return _order_by_document(evalset, draw, rng, "clustered")


@design(
    "snippets_fixed",
    needs=("documents",),
    paper=f"{_KNOWLES}, 2.2.3",
    advice="WMT 2022's way: one run a document; over-represents short documents.",
)
def snippets_fixed(
    evalset: EvalSet, *, n: int, rng: np.random.Generator, length: int = 10, per_document: int = 1
) -> DesignDraw:
    """Contiguous runs of up to `length` items, shorter only where the document is; one run a document.

    Args:
        length: items in a run.
        per_document: the most runs of a document; more are drawn where the budget needs them, with a note. 0 tiles the
            documents and draws any number of runs, all equally likely, so that long documents give more of them.
    """
    if per_document < 0:
        raise OptionError(f"snippets_fixed: per_document={per_document}; choose 1 or more, or 0 for any number")
    max_runs = per_document
    if per_document > 0 and length > 0:
        lengths = np.bincount(_document_codes(evalset))
        max_runs = required_runs(lengths[lengths > 0], n, length, per_document)
        if max_runs > per_document:
            warnings.warn(
                f"{evalset.name}: {per_document} run(s) of {length} a document are fewer than {n} items; up to "
                f"{max_runs} runs of a document are drawn",
                AliquotWarning,
                2,
            )
    draw = _draw_in_reading_order(evalset, lambda codes: draw_fixed_snippets(codes, n, rng, length, max_runs or None))
    return _order_by_document(evalset, draw, rng, "clustered")


@design(
    "snippets_budgeted",
    needs=("documents",),
    paper=f"{_KNOWLES}, 2.2.4",
    advice="Context and coverage: a run from every document, as long as the budget's share.",
)
def snippets_budgeted(evalset: EvalSet, *, n: int, rng: np.random.Generator) -> DesignDraw:
    """From every document a contiguous run of the budget's share of its length."""
    draw = _draw_in_reading_order(evalset, lambda codes: draw_budgeted_snippets(codes, n / evalset.n_items, rng))
    return _order_by_document(evalset, draw, rng, "spread")


@design("stratified", paper=f"{_SALDIAS}, 2.1", advice="A sample from every bin: documents, domains or metric bins.")
def stratified(
    evalset: EvalSet,
    *,
    n: int,
    rng: np.random.Generator,
    bins: str = "document",
    allocation: Literal["proportional", "optimal"] = "proportional",
    rounding: Literal["random", "nearest"] = "random",
    metrics: tuple[str, ...] | None = None,
    bin_size: int = 80,
) -> DesignDraw:
    """A random sample from every bin.

    Args:
        bins: document, domain, metric (bins of similar mean metric score), or any item column.
        allocation: by size, or by size times spread of the metrics in the bin.
        rounding: random keeps every probability exact; nearest is the paper's, and empties small bins.
        metrics: the metrics for metric bins and optimal allocation, joined by |; all usable ones by default.
        bin_size: items in a metric bin.
    """
    codes = bin_codes(evalset, bins, metrics, bin_size)
    sizes = np.bincount(codes)
    if allocation == "optimal":
        target = neyman_allocation(sizes, _bin_spreads(evalset, codes, metrics), n)
    else:
        target = proportional_allocation(sizes, n)
    counts = round_randomly(target, sizes, n, rng) if rounding == "random" else round_allocation(target, sizes, n)
    rows = _draw_counts(codes, counts, rng)
    expected = target if rounding == "random" else counts
    probability = (expected / sizes)[codes]
    small = sizes.mean() < _MIN_BIN_ITEMS
    details = {"bins": len(sizes), "empty_bins": int((counts == 0).sum()), "rounding": rounding}
    # Bins too small for a variance of their own are a sample spread over them.
    variance: Variance = "spread" if small and bins == "document" else "stratified"
    return DesignDraw(
        rng.permutation(rows),
        probability,
        codes,
        Design(variance, remaining_document_variance(probability, codes)),
        details,
    )


def _draw_counts(codes: IntArray, counts: IntArray, rng: np.random.Generator) -> IntArray:
    """Draw counts[l] items of each bin l: those that come first in a random order inside the bin."""
    order = np.lexsort((rng.random(len(codes)), codes))
    sizes = np.bincount(codes, minlength=len(counts))
    place_in_bin = np.arange(len(codes)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return order[place_in_bin < counts[codes[order]]]


def bin_codes(evalset: EvalSet, bins: str, metrics: tuple[str, ...] | None, bin_size: int) -> IntArray:
    """Return every item's bin: its document, a bin of similar metric scores, or its value in a column."""
    if bins == "document":
        if evalset.documents is None:
            raise DataError(f"{evalset.name}: there are no documents to stratify by; use bins=metric or bins=domain")
        return evalset.documents
    if bins == "metric":
        if bin_size < 1:
            raise OptionError(f"stratified: bin_size={bin_size}; choose at least 1")
        quality = fill_missing(item_quality(evalset, metrics), "metric", evalset)
        return rank_bins(quality, max(1, round(evalset.n_items / bin_size)))
    return group_codes(evalset, bins)


def _bin_spreads(evalset: EvalSet, codes: IntArray, metrics: tuple[str, ...] | None) -> FloatArray:
    """Standard deviation of the mean metric in each bin.

    A bin of one item, or one in which the metric happens not to vary, would get no sample at all and its items
    probability 0; it gets a tenth of the pooled spread, or the pooled spread itself where there is a single item.
    """
    quality = fill_missing(item_quality(evalset, metrics), "metric", evalset)
    count = np.bincount(codes)
    mean = np.bincount(codes, quality) / count
    squares = np.bincount(codes, (quality - mean[codes]) ** 2)
    pooled = float(np.sqrt(squares.sum() / max(1, len(codes) - len(count))))
    spread = np.sqrt(squares / np.maximum(count - 1, 1))
    return np.where(count > 1, np.maximum(spread, 0.1 * pooled), pooled)


@design(
    "pps",
    paper="docs/methods.md, section 2",
    advice="Our default: hard items more often, spread over documents, means stay unbiased.",
)
def pps(
    evalset: EvalSet,
    *,
    n: int,
    rng: np.random.Generator,
    cost: FloatArray | None = None,
    amount: float | None = None,
    mass: FloatArray | None = None,
    size: str = "error",
    tau: float = 0.1,
    scale: Scale = "auto",
    slopes: tuple[float, ...] | None = None,
    metrics: tuple[str, ...] | None = None,
    spread: Literal["document", "none"] = "document",
) -> DesignDraw:
    """Probability proportional to size, mixed with uniform, drawn systematically along the documents.

    Args:
        size: error (what metrics are expected to leave unexplained), difficulty, variance, length, equal, a score or
            item column (larger = more often), or a utility such as (source:model=FILE).
        tau: the uniform share; 1 is an equal-probability sample.
        scale: for size=error and utilities, whether people will give penalties (MQM) or ratings (DA, ESA, Likert);
            auto infers it from human scores in the data, and assumes ratings otherwise.
        slopes: for size=error and utilities, how fast the expected error grows with difficulty (or the utility) and
            with log length, joined by |; by the scale when not given.
        metrics: the metrics for error, difficulty and variance, joined by |; all usable ones by default.
        spread: draw along documents, so that every document is represented, or in random order.
    """
    sizes = unit_sizes(item_sizes(evalset, size, metrics, scale, slopes), mass)
    probability = _inclusion_probabilities(sizes, n, tau, cost, amount)
    codes = evalset.documents
    by_document = spread == "document" and codes is not None
    order = random_document_order(codes, rng) if by_document and codes is not None else rng.permutation(evalset.n_items)
    drawn_by = (
        Design("spread", remaining_document_variance(probability, codes))
        if by_document and codes is not None
        else Design()
    )
    rows = systematic_sample(probability, rng, order)
    place = np.empty(evalset.n_items, dtype=np.int64)
    place[order] = np.arange(evalset.n_items)
    return DesignDraw(rows[np.argsort(place[rows])], probability, design=drawn_by)


def unit_sizes(sizes: FloatArray, mass: FloatArray | None) -> FloatArray:
    """Return sizes of units of several items each, in proportion to the error of their sum.

    Errors of L items that correlate by rho add up to sqrt(L + L (L - 1) rho) times one item's: a power from 1/2 to 1.
    """
    return sizes if mass is None else sizes * mass**_MASS_EXPONENT


def _inclusion_probabilities(
    sizes: FloatArray, n: int, tau: float, cost: FloatArray | None, amount: float | None
) -> FloatArray:
    """Return inclusion probabilities for n items, or for an expected cost of `amount`."""
    if cost is None or amount is None:
        return pps_probabilities(sizes, n, tau)
    return pps_probabilities(sizes, _count_within_cost(sizes.tobytes(), tau, cost.tobytes(), amount), tau, cost)


@lru_cache(maxsize=256)
def _count_within_cost(sizes: bytes, tau: float, cost: bytes, amount: float) -> float:
    """Return the number of items whose expected cost is `amount`, by bisection.

    Arrays are bytes so that results can be cached: replays repeat the same call.
    """
    size, price = np.frombuffer(sizes), np.frombuffer(cost)
    low, high = 0.0, float(len(size))
    for _ in range(60):
        middle = (low + high) / 2
        spent = float(pps_probabilities(size, middle, tau, price) @ price)
        low, high = (middle, high) if spent <= amount else (low, middle)
    return low


@design(
    "balanced",
    needs=("metric",),
    paper="Grafström et al. 2012; Deville and Tillé 2004",
    advice="A sample whose metrics resemble those of the whole set.",
)
def balanced(
    evalset: EvalSet,
    *,
    n: int,
    rng: np.random.Generator,
    cost: FloatArray | None = None,
    amount: float | None = None,
    mass: FloatArray | None = None,
    by: Literal["pivotal", "cube"] = "pivotal",
    size: Size = "equal",
    tau: float = 0.5,
    metrics: tuple[str, ...] | None = None,
) -> DesignDraw:
    """A sample spread over (local pivotal) or balanced on (cube) the items' mean metric scores.

    Args:
        by: the local pivotal method or the cube method.
        size: as in pps; equal probabilities by default.
        tau: the uniform share when size is not equal.
        metrics: the covariates, joined by |; all usable ones by default.
    """
    chosen = select_metrics(evalset, metrics)
    if not chosen:
        raise DataError(f"{evalset.name}: no usable metric to balance on; name one with metrics=")
    means = [fill_missing(row_mean(evalset.scores[name]), name, evalset) for name in chosen]
    covariates = np.column_stack([standardise(values) for values in means])
    probability = _inclusion_probabilities(unit_sizes(item_sizes(evalset, size, metrics), mass), n, tau, cost, amount)
    draw = local_pivotal_sample if by == "pivotal" else cube_sample
    rows = draw(probability, covariates, rng)
    return DesignDraw(rng.permutation(rows), probability, design=Design("balanced"))


# -- metric-guided choice among random draws: no known probabilities --------------------------------------------------


@design(
    "guided",
    needs=("metric", "systems"),
    paper="Knowles and Lo 2023, section 3.3",
    advice="The best of several draws by a metric; labelled as without probabilities.",
)
def guided(
    evalset: EvalSet,
    *,
    n: int,
    rng: np.random.Generator,
    by: str = "segments",
    draws: int = 100,
    metric: str | None = None,
) -> DesignDraw:
    """The best of several draws of a design, by agreement of a metric's ranking with the full set's.

    Args:
        by: the design to draw from, in parentheses if it has parameters.
        draws: how many draws to compare.
        metric: the score whose ranking is compared, by soft pairwise accuracy.
    """
    if draws < 1:
        raise OptionError(f"guided: draws={draws}; choose at least 1")
    spec = parse_spec(strip_parentheses(by))
    base, implied = find_method(spec.name)
    if base.kind != "design" or base.name == "guided":
        raise OptionError(f"guided: by='{by}' is not a design; choose e.g. segments or snippets_budgeted")
    values = metric_scores(evalset, metric)
    values = values[:, np.isfinite(values).any(axis=0)]
    full = analytic_p(values)
    best, best_accuracy = None, -1.0
    for _ in range(draws):
        drawn: DesignDraw = base.run(evalset, implied | dict(spec.parameters), n=n, rng=rng)
        accuracy = spa(analytic_p(values[drawn.rows]), full)
        if accuracy > best_accuracy:
            best, best_accuracy = drawn, accuracy
    assert best is not None  # noqa: S101  (draws >= 1)
    return DesignDraw(best.rows, None, best.stratum, details={"draws": draws, "metric_spa": float(best_accuracy)})
