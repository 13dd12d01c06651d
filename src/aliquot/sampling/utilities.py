"""Utilities and subsets from scores and texts: how useful judging an item is (docs/methods.md, section 1)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from scipy.stats import rankdata

from aliquot.core.evalset import EvalSet
from aliquot.core.registry import parse_spec, unwrapped
from aliquot.errors import AliquotWarning, DataError, OptionError, unknown_name
from aliquot.sampling.item_scores import metric_scores, row_mean, row_variance
from aliquot.sampling.methods import Subset, lookup, subset, utility, with_old_similarity
from aliquot.sampling.text_vectors import DEFAULT_MODEL, embed
from aliquot.stats.arrays import FloatArray, IntArray
from aliquot.stats.correlation import kendall_rows, spearman_rows
from aliquot.stats.irt import fisher_information, fit_irt
from aliquot.stats.subset_search import best_random_subset, greedy_subset
from aliquot.stats.text_similarity import mean_pairwise_similarity

_ZOUHAR = "Zouhar et al. 2025"


@utility("random", paper="baseline", advice="The baseline; every claim of a gain is against it.")
def random(evalset: EvalSet, *, rng: np.random.Generator) -> FloatArray:
    """A random order."""
    return rng.random(evalset.n_items)


@utility("metric_avg", needs=("metric",), paper=f"{_ZOUHAR}, eq. 3",
         advice="Hard items first; ranks well with a good metric, means are far off.")  # fmt: skip
def metric_avg(evalset: EvalSet, *, metric: str | None = None) -> FloatArray:
    """Items that systems find hard: minus the mean of the metric over systems.

    Args:
        metric: the score to look at; the only one there is, by default.
    """
    return -row_mean(metric_scores(evalset, metric))


@utility("metric_var", needs=("metric",), paper=f"{_ZOUHAR}, eq. 4",
         advice="Items on which systems differ; a safe first choice for rankings with a good metric.")  # fmt: skip
def metric_var(evalset: EvalSet, *, metric: str | None = None) -> FloatArray:
    """Items on which systems differ most: population variance of the metric over systems.

    Args:
        metric: the score to look at; the only one there is, by default.
    """
    return row_variance(metric_scores(evalset, metric))


@utility("metric_cons", needs=("metric", "systems"), paper=f"{_ZOUHAR}, eq. 5",
         advice="Items that rank systems as the whole set does; mild, and rarely harmful.")  # fmt: skip
def metric_cons(
    evalset: EvalSet, *, metric: str | None = None, rank: Literal["tau-c", "tau-b", "spearman"] = "tau-c"
) -> FloatArray:
    """Items that order systems like the whole set: rank correlation of the item's scores with the system means.

    Args:
        metric: the score to look at; the only one there is, by default.
        rank: the correlation; undefined counts as 0.
    """
    values = metric_scores(evalset, metric)
    means = row_mean(values.T)
    if rank == "spearman":
        correlation = spearman_rows(values, means)
    else:
        correlation = kendall_rows(values, means, "c" if rank == "tau-c" else "b")
    # A row that cannot be ranked counts as 0; a row without any score is unknown.
    return np.where(np.isfinite(values).any(axis=1), correlation, np.nan)


@utility("uncertainty", paper=f"{_ZOUHAR}, section 3",
         advice="For a metric that knows when it is unsure; give its uncertainty as a score.")  # fmt: skip
def uncertainty(evalset: EvalSet, *, score: str, first: Literal["high", "low"] = "high") -> FloatArray:
    """Items on which a metric is least (or most) sure: a per-output uncertainty averaged over systems.

    Args:
        score: the score or item column that holds the uncertainty.
        first: whether high or low values are chosen first.
    """
    if score in evalset.scores:
        values = row_mean(evalset.scores[score])
    elif score in evalset.items.columns and evalset.items[score].dtype.is_numeric():
        values = evalset.items[score].cast(float).fill_null(np.nan).to_numpy()
    else:
        raise unknown_name("uncertainty score", score, [*evalset.scores, *evalset.items.columns])
    return values if first == "high" else -values


@utility("mixture", paper=f"{_ZOUHAR}, section 5",
         advice="When two signals are both plausible: averages their ranks.")  # fmt: skip
def mixture(
    evalset: EvalSet,
    *,
    rng: np.random.Generator,
    methods: tuple[str, ...] = ("metric_var", "diversity"),
    weights: tuple[float, ...] | None = None,
    metric: str | None = None,
) -> FloatArray:
    """Several utilities at once: the weighted mean of their ranks.

    Args:
        methods: utilities joined by |, each in parentheses if it has parameters of its own.
        weights: numbers joined by |, one for each method; equal by default.
        metric: the metric for those of the methods that take one and name none.
    """
    shares = np.ones(len(methods)) if weights is None else np.array(weights, dtype=np.float64)
    if len(shares) != len(methods) or (shares < 0).any() or shares.sum() <= 0:
        raise OptionError(f"mixture: {len(shares)} weights for {len(methods)} methods; give one positive weight each")
    ranks: FloatArray = np.zeros(evalset.n_items)
    for text, share in zip(methods, shares, strict=True):
        spec = parse_spec(unwrapped(text))
        part, implied = lookup(spec.name)
        if part.kind != "utility":
            raise OptionError(f"mixture: '{part.name}' gives no utility; join utilities such as metric_var")
        given: dict[str, Any] = with_old_similarity(part.name, implied | dict(spec.parameters))
        if metric is not None and "metric" in part.parameters:
            given.setdefault("metric", metric)
        values = part.run(evalset, given, rng=rng)
        ranks += share * rankdata(np.where(np.isfinite(values), values, -np.inf))
    return ranks / float(shares.sum())


def _irt_utility(name: str, advice: str) -> Callable[..., Any]:
    return utility(name, needs=("metric", "systems"), paper=f"{_ZOUHAR}, section 3.4", advice=advice)


@_irt_utility("irt_diffdisc", "Hard and discriminating items by item response theory; close to metric_var.")
def irt_diffdisc(evalset: EvalSet, *, metric: str | None = None) -> FloatArray:
    """Difficulty times discrimination of the item-response fit.

    Args:
        metric: the score to fit; the only one there is, by default.
    """
    fit = fit_irt(metric_scores(evalset, metric))
    return fit.discrimination * fit.difficulty


@_irt_utility("irt_diff", "Hard items by item response theory.")
def irt_diff(evalset: EvalSet, *, metric: str | None = None) -> FloatArray:
    """Difficulty of the item-response fit.

    Args:
        metric: the score to fit; the only one there is, by default.
    """
    return fit_irt(metric_scores(evalset, metric)).difficulty


@_irt_utility("irt_disc", "Discriminating items by item response theory.")
def irt_disc(evalset: EvalSet, *, metric: str | None = None) -> FloatArray:
    """Discrimination of the item-response fit.

    Args:
        metric: the score to fit; the only one there is, by default.
    """
    return fit_irt(metric_scores(evalset, metric)).discrimination


@_irt_utility("irt_feas", "Items on which the best systems reach the top of the scale.")
def irt_feas(evalset: EvalSet, *, metric: str | None = None) -> FloatArray:
    """Feasibility (the ceiling) of the item-response fit.

    Args:
        metric: the score to fit; the only one there is, by default.
    """
    return fit_irt(metric_scores(evalset, metric)).feasibility


@_irt_utility("irt_info", "Items with most information about these systems' abilities.")
def irt_info(evalset: EvalSet, *, metric: str | None = None) -> FloatArray:
    """Fisher information of an item about the systems' abilities.

    Args:
        metric: the score to fit; the only one there is, by default.
    """
    return fisher_information(fit_irt(metric_scores(evalset, metric)))


# -- subsets: the best of many random ones by agreement with the full ranking -----------------------------------------


_SEARCH: dict[str, Any] = {"needs": ("metric", "systems"), "paper": f"{_ZOUHAR}, section 3"}


@subset("bruteforce", **_SEARCH, advice="An upper bound to study; fits the metric, not people.")
def bruteforce(
    evalset: EvalSet, *, n: int, rng: np.random.Generator, metric: str | None = None, simulations: int = 1000
) -> Subset:
    """The best of many random subsets by soft pairwise accuracy of a metric.

    Args:
        metric: the score whose full-set ranking is to be kept.
        simulations: how many subsets to try.
    """
    rows, values = _complete(evalset, metric, n)
    chosen, accuracy = best_random_subset(values, n, simulations, rng)
    return Subset(rows[chosen], details={"metric_spa": float(accuracy)})


@subset("greedy", **_SEARCH, advice="Bruteforce in steps: better on the metric, slower.")
def greedy(
    evalset: EvalSet,
    *,
    n: int,
    rng: np.random.Generator,
    metric: str | None = None,
    simulations: int = 1000,
    step: int = 10,
) -> Subset:
    """Grow a subset, each step the best of many random extensions by soft pairwise accuracy of a metric.

    Args:
        metric: the score whose full-set ranking is to be kept.
        simulations: how many extensions to try in each step.
        step: how many items to add at a time.
    """
    rows, values = _complete(evalset, metric, n)
    chosen, accuracy = greedy_subset(values, n, simulations, step, rng)
    return Subset(rows[chosen], details={"metric_spa": float(accuracy)})


def _complete(evalset: EvalSet, metric: str | None, n: int) -> tuple[IntArray, FloatArray]:
    """Return the rows that have the metric for every system that has it at all, and their scores."""
    values = metric_scores(evalset, metric)
    values = values[:, np.isfinite(values).mean(axis=0) > 0.5]
    if values.shape[1] < 2:
        raise DataError(f"{evalset.name}: the metric covers fewer than two systems; choose another")
    rows = np.flatnonzero(np.isfinite(values).all(axis=1))
    if len(rows) < n:
        raise DataError(f"{evalset.name}: only {len(rows)} items have the metric for all systems, {n} are wanted")
    if len(rows) < evalset.n_items:
        left = evalset.n_items - len(rows)
        warnings.warn(f"{left} items lack the metric for some system and are not considered", AliquotWarning, 2)
    return rows, values[rows]


# -- texts: diversity of outputs, clusters of items -------------------------------------------------------------------


@utility("diversity", needs=("outputs", "systems"), paper="Zouhar et al. 2025, eq. 6",
         advice="Items on which outputs differ; needs no metric, only outputs.")  # fmt: skip
def diversity(
    evalset: EvalSet,
    *,
    similarity: Literal["unigram", "bleu", "chrf", "embedding"] = "unigram",
    model: str = DEFAULT_MODEL,
) -> FloatArray:
    """Items whose outputs differ most: minus the mean pairwise similarity of the item's outputs.

    Args:
        similarity: Dice of words, sentence BLEU, chrF (both sacrebleu's), or inner product of embeddings.
        model: for embeddings, a sentence-transformers model (name or path), or ngrams for light vectors.
    """
    texts = output_texts(evalset)
    if similarity == "embedding":
        return -_mean_inner_products(texts, model)
    return -mean_pairwise_similarity(texts, similarity)


def output_texts(evalset: EvalSet) -> list[tuple[str | None, ...]]:
    """Return each item's outputs in the order of the systems."""
    if evalset.outputs is None:
        raise DataError(f"{evalset.name}: there are no outputs")
    return list(zip(*(evalset.outputs[system].to_list() for system in evalset.systems), strict=True))


def _filled_texts(evalset: EvalSet) -> list[str]:
    """All outputs, item after item; missing ones are empty texts, with a warning."""
    texts = output_texts(evalset)
    lacking = sum(any(text is None for text in row) for row in texts)
    if lacking:
        warnings.warn(f"{lacking} items lack some output: they count as empty texts", AliquotWarning, 2)
    return [text or "" for row in texts for text in row]


def _mean_inner_products(texts: list[tuple[str | None, ...]], model: str) -> FloatArray:
    """Mean of e_a . e_b over pairs: (|sum e|^2 - sum |e|^2) / (m (m - 1)) without visiting the pairs."""
    vectors = embed([text for row in texts for text in row if text is not None], model)
    item = np.array([at for at, row in enumerate(texts) for text in row if text is not None], dtype=np.int64)
    total = np.zeros((len(texts), vectors.shape[1]))
    np.add.at(total, item, vectors)
    own = np.bincount(item, weights=(vectors**2).sum(axis=1), minlength=len(texts))
    count = np.bincount(item, minlength=len(texts))
    pairs = count * (count - 1)
    return np.where(pairs > 0, ((total**2).sum(axis=1) - own) / np.maximum(pairs, 1), np.nan)


@subset("kmeans", paper="Zouhar et al. 2025, section 3.5",
        advice="Items that cover the topics of the test set; weighted=yes for means.")  # fmt: skip
def kmeans(
    evalset: EvalSet,
    *,
    n: int,
    rng: np.random.Generator,
    features: Literal["source", "outputs"] = "source",
    weighted: bool = False,
    model: str = DEFAULT_MODEL,
) -> Subset:
    """Items nearest to the centres of n clusters of embeddings.

    Args:
        features: embed the source, or the mean of the item's outputs.
        weighted: give each chosen item the size of its cluster as weight.
        model: a sentence-transformers model (name or path), or ngrams for light vectors.
    """
    vectors = _item_vectors(evalset, features, model)
    distinct = len(np.unique(vectors, axis=0))
    from sklearn.cluster import KMeans  # noqa: PLC0415  (slow to import)

    fit = KMeans(min(n, distinct), n_init=3, random_state=int(rng.integers(2**31))).fit(vectors)
    rows = _nearest(vectors, fit.cluster_centers_, fit.labels_)
    rows = _topped_up(rows, vectors, n)
    weight = np.bincount(fit.labels_)[fit.labels_[rows]].astype(np.float64)
    shared = np.bincount(fit.labels_[rows], minlength=len(fit.cluster_centers_))[fit.labels_[rows]]
    return Subset(rows, weight / shared if weighted else None)


def _item_vectors(evalset: EvalSet, features: str, model: str) -> FloatArray:
    if features == "source":
        if not evalset.has_sources:
            raise DataError(f"{evalset.name}: there are no sources; use kmeans:features=outputs")
        return embed(evalset.items["source"].fill_null("").to_list(), model)
    vectors = embed(_filled_texts(evalset), model)
    means: FloatArray = vectors.reshape(evalset.n_items, evalset.n_systems, -1).mean(axis=1)
    return means


def _nearest(vectors: FloatArray, centres: FloatArray, labels: IntArray) -> IntArray:
    """For each cluster the member nearest to its centre."""
    distance = ((vectors - centres[labels]) ** 2).sum(axis=1)
    order = np.lexsort((distance, labels))
    first = np.unique(labels[order], return_index=True)[1]
    return np.sort(order[first])


def _topped_up(rows: IntArray, vectors: FloatArray, n: int) -> IntArray:
    """Add the items farthest from all chosen ones until there are n: duplicate texts leave fewer clusters than n."""
    if len(rows) >= n:
        return rows
    chosen = rows.tolist()
    gap = np.min([((vectors - vectors[row]) ** 2).sum(axis=1) for row in chosen], axis=0)
    gap[rows] = -1.0  # a chosen item is never the farthest
    while len(chosen) < n:
        farthest = int(np.argmax(gap))
        chosen.append(farthest)
        gap = np.minimum(gap, ((vectors - vectors[farthest]) ** 2).sum(axis=1))
        gap[farthest] = -1.0
    return np.array(chosen, dtype=np.int64)


@subset("diffuse", needs=("outputs", "systems"), paper="Ashury-Tahan et al. 2024",
        advice="Items that cover the ways in which outputs differ.")  # fmt: skip
def diffuse(evalset: EvalSet, *, n: int, model: str = DEFAULT_MODEL) -> Subset:
    """Medoids of n Ward clusters of the differences between outputs.

    An item's vector is the mean over pairs of systems a < b of e_a - e_b, which is sum_a (M + 1 - 2a) e_a / pairs.

    Args:
        model: a sentence-transformers model (name or path), or ngrams for light vectors.
    """
    m = evalset.n_systems
    vectors = embed(_filled_texts(evalset), model).reshape(evalset.n_items, m, -1)
    sign = (m + 1 - 2 * np.arange(1, m + 1)) / (m * (m - 1) / 2)
    differences = np.tensordot(vectors, sign, axes=([1], [0]))
    if n >= evalset.n_items:
        return Subset(np.arange(evalset.n_items))
    from scipy.cluster.hierarchy import fcluster, linkage  # noqa: PLC0415  (slow to import)

    labels = fcluster(linkage(differences, method="ward"), n, criterion="maxclust") - 1
    centres = np.stack([differences[labels == label].mean(axis=0) for label in range(labels.max() + 1)])
    return Subset(_topped_up(_nearest(differences, centres, labels), differences, n))
