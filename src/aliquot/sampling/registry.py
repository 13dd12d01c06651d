"""The registry of selection methods: every method is a function with a name, needs, a paper and a line of advice.

A utility takes the data and gives a number per item; a subset method takes also `n` and gives the chosen rows; a
design takes `n` and `rng` and gives a `Drawn` with exact inclusion probabilities. Keyword-only arguments are the
user's parameters, except those that the machinery fills in (`INJECTED`).
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np

from aliquot.core.conventions import looks_human, usable_metrics
from aliquot.core.evalset import EvalSet
from aliquot.core.registry import Registered
from aliquot.errors import AliquotWarning, DataError, OptionError, quoted, unknown_name
from aliquot.stats.arrays import FloatArray, IntArray

# -- The registry of selection methods: every method is a function with a name, needs, a paper and a line of advice --


Kind = Literal["utility", "subset", "design"]
INJECTED = ("n", "rng", "cost", "amount", "mass")


@dataclass(frozen=True, eq=False)
class Drawn:
    """What a design gives.

    Attributes:
        rows: the drawn rows in the order of drawing.
        probability: every item's inclusion probability (N), or None when it has none.
        stratum: every item's bin (N) as an integer code, or None.
        details: what an estimator or a reader should know.
    """

    rows: IntArray
    probability: FloatArray | None
    stratum: IntArray | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Subset:
    """What a subset method gives: rows, best first, and optionally what each stands for."""

    rows: IntArray
    weight: FloatArray | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Method(Registered):
    """A selection method."""

    kind: Kind
    needs: tuple[str, ...]
    paper: str
    advice: str

    INJECTED: ClassVar[tuple[str, ...]] = INJECTED

    @property
    def gives(self) -> str:
        """What comes out, in words."""
        words = {"utility": "order", "subset": "subset", "design": "probabilities"}
        return words[self.kind] if self.name != "guided" else "random subset"

    def run(self, evalset: EvalSet, given: Mapping[str, Any], **injected: Any) -> Any:
        """Call the function with the user's parameters and whatever of the machinery's it asks for."""
        check_needs(evalset, self)
        wanted = inspect.signature(self.function).parameters
        filled = {name: value for name, value in injected.items() if name in wanted}
        return self.function(evalset, **self.bound(given), **filled)


_METHODS: dict[str, Method] = {}

ALIASES: dict[str, tuple[str, dict[str, str]]] = {
    "pyirt_diffdisc": ("irt_diffdisc", {}),
    "pyirt_diff": ("irt_diff", {}),
    "pyirt_disc": ("irt_disc", {}),
    "pyirt_feas": ("irt_feas", {}),
    "pyirt_fic": ("irt_info", {}),
    "combinator": ("mixture", {}),
    "bruteforce_greedy": ("greedy", {}),
    "metric_consistency": ("metric_cons", {}),
    "diversity_bleu": ("diversity", {"similarity": "bleu"}),
    "diversity_chrf": ("diversity", {"similarity": "chrf"}),
    "diversity_unigram": ("diversity", {"similarity": "unigram"}),
    "diversity_lm": ("diversity", {"similarity": "embedding"}),
}
"""Names of subset2evaluate (1.0.27) -> ours and the parameters they stand for."""


def _register(kind: Kind, name: str, needs: tuple[str, ...], paper: str, advice: str) -> Callable[..., Any]:
    def decorator(function: Callable[..., Any]) -> Callable[..., Any]:
        _METHODS[name] = Method(name, function, kind, needs, paper, advice)
        return function

    return decorator


def utility(name: str, *, needs: tuple[str, ...] = (), paper: str = "", advice: str = "") -> Callable[..., Any]:
    """Register a function that gives every item a number: higher is chosen first, NaN cannot be told."""
    return _register("utility", name, needs, paper, advice)


def subset(name: str, *, needs: tuple[str, ...] = (), paper: str = "", advice: str = "") -> Callable[..., Any]:
    """Register a function that chooses exactly `n` rows."""
    return _register("subset", name, needs, paper, advice)


def design(name: str, *, needs: tuple[str, ...] = (), paper: str = "", advice: str = "") -> Callable[..., Any]:
    """Register a random selection with known probabilities."""
    return _register("design", name, needs, paper, advice)


def registered() -> dict[str, Method]:
    """Return all methods registered so far by name."""
    return dict(_METHODS)


def lookup(name: str) -> tuple[Method, dict[str, str]]:
    """Return a method by its name or an old name, with the parameters an old name stands for."""
    name, implied = ALIASES.get(name, (name, {}))
    if name not in _METHODS:
        raise unknown_name("method", name, _METHODS, "see `aliquot methods`")
    return _METHODS[name], dict(implied)


_SIMILARITY = {"bleu": "bleu", "chrf": "chrf", "unigram": "unigram", "lm": "embedding"}


def with_old_similarity(method: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Understand subset2evaluate's way of naming diversity's similarity as its metric."""
    given = dict(given)
    if method == "diversity" and "metric" in given:
        old = str(given.pop("metric"))
        given.setdefault("similarity", _SIMILARITY.get(old.casefold(), old))
    return given


def check_needs(evalset: EvalSet, method: Method) -> None:
    """Raise when the data lack what the method cannot do without."""
    lacking = {
        "metric": not evalset.scores,
        "outputs": evalset.outputs is None,
        "documents": evalset.documents is None,
        "source": "source" not in evalset.items.columns,
        "systems": evalset.n_systems < 2,
    }
    remedy = {
        "metric": "add automatic scores, or use a method without them (random, segments, source_length)",
        "outputs": "load data with outputs (field 'tgt')",
        "documents": "load data with documents (field 'doc'), or use a design over items",
        "source": "load data with sources (field 'src')",
        "systems": "it compares systems, and there is only one; use random or a design",
    }
    for need in method.needs:
        if lacking[need]:
            what = "two systems" if need == "systems" else need
            raise DataError(f"{evalset.name}: the method '{method.name}' needs {what}; {remedy[need]}")


def row_mean(values: FloatArray) -> FloatArray:
    """Mean of each row over what is present; NaN for an empty row."""
    present = np.isfinite(values)
    count = present.sum(axis=1)
    total = np.where(present, values, 0.0).sum(axis=1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


# -- Which scores a method looks at, and what is made of several of them ---------------------------------------------


def metric_scores(evalset: EvalSet, metric: str | None) -> FloatArray:
    """Return the named metric's scores, or those of the only metric; say so when it is people's."""
    if metric is None:
        if len(evalset.metrics) != 1:
            raise OptionError(
                f"{evalset.name}: choose a metric with --metric / metric=; there are "
                f"{quoted(evalset.metrics) or 'none'}"
            )
        metric = evalset.metrics[0]
    values = evalset.score(metric)
    if metric == evalset.human or looks_human(metric):
        warnings.warn(f"'{metric}' is a human score: this is an oracle, for study only", AliquotWarning, 2)
    if not np.isfinite(values).any():
        raise DataError(f"{evalset.name}: the metric '{metric}' has no value at all; choose another")
    return values


def chosen_metrics(evalset: EvalSet, names: Sequence[str] | None = None) -> list[str]:
    """Return the named metrics, or all that vary and are there for at least half of the cells."""
    if names:
        for name in names:
            metric_scores(evalset, name)
        return list(names)
    return usable_metrics(evalset)


def item_quality(evalset: EvalSet, names: Sequence[str] | None = None) -> FloatArray:
    """Mean over metrics of the standardised item means: how well systems do on an item, by all metrics together.

    An item without any metric gets NaN.
    """
    chosen = chosen_metrics(evalset, names)
    if not chosen:
        raise DataError(f"{evalset.name}: no metric covers at least half of the outputs; name one with metrics=")
    return row_mean(np.column_stack([standardised(row_mean(evalset.scores[name])) for name in chosen]))


def item_spread(evalset: EvalSet, names: Sequence[str] | None = None) -> FloatArray:
    """Root mean over metrics of the standardised variance between systems on an item."""
    chosen = chosen_metrics(evalset, names)
    if not chosen:
        raise DataError(f"{evalset.name}: no metric covers at least half of the outputs; name one with metrics=")
    variances = [row_variance(evalset.scores[name]) / np.nanvar(evalset.scores[name]) for name in chosen]
    return np.sqrt(row_mean(np.column_stack(variances)))


def standardised(values: FloatArray) -> FloatArray:
    """Shift and scale to mean 0 and variance 1 over what is present; a constant becomes 0."""
    spread = float(np.nanstd(values)) if np.isfinite(values).any() else 0.0
    centred: FloatArray = values - (np.nanmean(values) if np.isfinite(values).any() else 0.0)
    return centred / spread if spread > 0 else centred


def row_variance(values: FloatArray) -> FloatArray:
    """Population variance of each row over what is present; NaN for an empty row."""
    mean = row_mean(values)[:, None]
    return row_mean((values - mean) ** 2)


def filled(values: FloatArray, what: str, evalset: EvalSet) -> FloatArray:
    """Replace missing item values by the mean of the others, and say so: a design must give every item a chance."""
    missing = ~np.isfinite(values)
    if missing.any():
        count = int(missing.sum())
        warnings.warn(f"{count} of {evalset.n_items} items have no {what}; they get the average", AliquotWarning, 2)
        values = np.where(missing, np.nanmean(values) if not missing.all() else 1.0, values)
    return values
