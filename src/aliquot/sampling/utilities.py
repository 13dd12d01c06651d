"""Utilities and subsets from scores: how useful judging an item is (docs/methods.md, section 1)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from aliquot.core.evalset import EvalSet
from aliquot.core.registry import parse_spec, strip_parentheses
from aliquot.errors import AliquotWarning, DataError, OptionError, unknown_name
from aliquot.sampling.item_scores import metric_scores, row_mean, row_variance, system_means
from aliquot.sampling.methods import Subset, find_method, subset, translate_similarity, utility
from aliquot.stats.arrays import FloatArray, IntArray, average_ranks
from aliquot.stats.correlation import accuracy_with_target, kendall_with_target, spearman_with_target
from aliquot.stats.irt import fisher_information, fit_irt
from aliquot.stats.subset_search import best_random_subset, greedy_subset

_ZOUHAR = "Zouhar et al. 2025"


@utility("random", paper="baseline", advice="The baseline; every claim of a gain is against it.")
def random(evalset: EvalSet, *, rng: np.random.Generator) -> FloatArray:
    """A random order."""
    return rng.random(evalset.n_items)


@utility(
    "metric_avg",
    needs=("metric",),
    paper=f"{_ZOUHAR}, eq. 3",
    advice="Hard items first; ranks well with a good metric, means are far off.",
)
def metric_avg(evalset: EvalSet, *, metric: str | None = None) -> FloatArray:
    """Items that systems find hard: minus the mean of the metric over systems.

    Args:
        metric: the score to look at; the only one there is, by default.
    """
    return -row_mean(metric_scores(evalset, metric))


@utility(
    "metric_var",
    needs=("metric",),
    paper=f"{_ZOUHAR}, eq. 4",
    advice="Items on which systems differ; a safe first choice for rankings with a good metric.",
)
def metric_var(evalset: EvalSet, *, metric: str | None = None) -> FloatArray:
    """Items on which systems differ most: population variance of the metric over systems.

    Args:
        metric: the score to look at; the only one there is, by default.
    """
    return row_variance(metric_scores(evalset, metric))


@utility(
    "metric_cons",
    needs=("metric", "systems"),
    paper=f"{_ZOUHAR}, eq. 5",
    differs="the paper uses Spearman's correlation (rank=spearman), its program and we tau-c",
    advice="Items that rank systems as the whole set does; mild, and rarely harmful.",
)
def metric_cons(
    evalset: EvalSet, *, metric: str | None = None, rank: Literal["tau-c", "tau-b", "spearman", "accuracy"] = "tau-c"
) -> FloatArray:
    """Items that order systems like the whole set: rank correlation of the item's scores with the system means.

    Args:
        metric: the score to look at; the only one there is, by default.
        rank: the correlation, or pairwise accuracy; undefined counts as 0.
    """
    values = metric_scores(evalset, metric)
    means = system_means(values)
    if rank == "spearman":
        correlation = spearman_with_target(values, means)
    elif rank == "accuracy":
        correlation = accuracy_with_target(values, means)
    else:
        correlation = kendall_with_target(values, means, "c" if rank == "tau-c" else "b")
    # A row that cannot be ranked counts as 0; a row without any score is unknown.
    return np.where(np.isfinite(values).any(axis=1), correlation, np.nan)


@utility(
    "uncertainty",
    paper=f"{_ZOUHAR}, appendix A.1",
    advice="For a metric that knows when it is unsure; give its uncertainty as a score.",
)
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


@utility(
    "mixture", paper=f"{_ZOUHAR}, appendix A.1", advice="When two signals are both plausible: averages their ranks."
)
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
        spec = parse_spec(strip_parentheses(text))
        part, implied = find_method(spec.name)
        if part.kind != "utility":
            raise OptionError(f"mixture: '{part.name}' gives no utility; join utilities such as metric_var")
        parameters: dict[str, Any] = translate_similarity(part.name, implied | dict(spec.parameters))
        if metric is not None and "metric" in part.parameters:
            parameters.setdefault("metric", metric)
        values = part.run(evalset, parameters, rng=rng)
        ranks += share * average_ranks(np.where(np.isfinite(values), values, -np.inf))
    return ranks / float(shares.sum())


def _irt_utility(name: str, advice: str, paper: str = "appendix A.1") -> Callable[..., Any]:
    return utility(name, needs=("metric", "systems"), paper=f"{_ZOUHAR}, {paper}", advice=advice)


@_irt_utility(
    "irt_diffdisc", "Hard and discriminating items by item response theory; close to metric_var.", "section 3.4, eq. 9"
)
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


@_irt_utility("irt_disc", "Discriminating items by item response theory; worse than random in the paper and here.")
def irt_disc(evalset: EvalSet, *, metric: str | None = None) -> FloatArray:
    """Discrimination of the item-response fit.

    Args:
        metric: the score to fit; the only one there is, by default.
    """
    return fit_irt(metric_scores(evalset, metric)).discrimination


@_irt_utility("irt_feas", "Items on which the best systems reach the top of the scale; worse than random.")
def irt_feas(evalset: EvalSet, *, metric: str | None = None) -> FloatArray:
    """Feasibility (the ceiling) of the item-response fit.

    Args:
        metric: the score to fit; the only one there is, by default.
    """
    return fit_irt(metric_scores(evalset, metric)).feasibility


@_irt_utility("irt_info", "Items with most information about these systems' abilities.", "appendix A.1, eq. 14 to 16")
def irt_info(evalset: EvalSet, *, metric: str | None = None) -> FloatArray:
    """Fisher information of an item about the systems' abilities.

    Args:
        metric: the score to fit; the only one there is, by default.
    """
    return fisher_information(fit_irt(metric_scores(evalset, metric)))


# -- subsets: the best of many random ones by agreement with the full ranking -----------------------------------------


_SEARCH: dict[str, Any] = {"needs": ("metric", "systems"), "paper": f"{_ZOUHAR}, appendix A.1"}


@subset("bruteforce", **_SEARCH, advice="An upper bound to study; fits the metric, not people.")
def bruteforce(
    evalset: EvalSet, *, n: int, rng: np.random.Generator, metric: str | None = None, simulations: int = 1000
) -> Subset:
    """The best of many random subsets by soft pairwise accuracy of a metric.

    Args:
        metric: the score whose full-set ranking is to be kept.
        simulations: how many subsets to try.
    """
    rows, values = _complete_rows(evalset, metric, n)
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
    rows, values = _complete_rows(evalset, metric, n)
    chosen, accuracy = greedy_subset(values, n, simulations, step, rng)
    return Subset(rows[chosen], details={"metric_spa": float(accuracy)})


def _complete_rows(evalset: EvalSet, metric: str | None, n: int) -> tuple[IntArray, FloatArray]:
    """Return the rows that have the metric for every system that has it at all, and their scores."""
    values = metric_scores(evalset, metric)
    values = values[:, np.isfinite(values).mean(axis=0) > 0.5]
    if values.shape[1] < 2:
        raise DataError(f"{evalset.name}: the metric covers fewer than two systems; choose another")
    rows = np.flatnonzero(np.isfinite(values).all(axis=1))
    if len(rows) < n:
        raise DataError(f"{evalset.name}: only {len(rows)} items have the metric for all systems, {n} are wanted")
    if len(rows) < evalset.n_items:
        n_incomplete = evalset.n_items - len(rows)
        warnings.warn(f"{n_incomplete} items lack the metric for some system and are not considered", AliquotWarning, 2)
    return rows, values[rows]
