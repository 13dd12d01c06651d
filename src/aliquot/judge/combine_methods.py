"""Ways to make one number of several answers on an output; keyword-only arguments are the user's parameters.

Measurements (mean, median, trimmed) average an annotator's repeated answers first. Labels (majority, dawid_skene) leave
an output undecided, NaN, rather than guess.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from aliquot.data.parameters import Registered
from aliquot.data.spec import Spec, parse_spec
from aliquot.errors import DataError, OptionError, unknown_name
from aliquot.judge.votes import Votes
from aliquot.stats.arrays import FloatArray
from aliquot.stats.cell_scores import cell_majority, cell_mean, cell_median, cell_trimmed_mean
from aliquot.stats.dawid_skene import dawid_skene as fit_dawid_skene

MOST_LABELS = 30
"""More different answers than this are measurements, not labels."""


@dataclass(frozen=True, eq=False)
class CellScores:
    """One number for each output.

    Attributes:
        value: NaN where undecided.
        confidence: how sure a label is (vote share, posterior); NaN for measurements.
        best: the likeliest label, also where undecided.
        annotators: what was learned about each annotator, or None.
        notes: what a reader should know.
    """

    value: FloatArray
    confidence: FloatArray
    best: FloatArray
    annotators: pl.DataFrame | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class CombineMethod(Registered):
    """A way to combine answers."""

    function: Callable[..., CellScores]
    labels: bool

    def run(self, votes: Votes, given: Mapping[str, Any]) -> CellScores:
        """Combine the answers."""
        return self.function(votes, **self.bound(given))


METHODS: dict[str, CombineMethod] = {}
"""Name -> method."""


def _method(name: str, *, labels: bool = False) -> Callable[[Callable[..., CellScores]], Callable[..., CellScores]]:
    def decorator(function: Callable[..., CellScores]) -> Callable[..., CellScores]:
        METHODS[name] = CombineMethod(name, function, labels)
        return function

    return decorator


def method_of(text: str, **apart: Any) -> tuple[CombineMethod, Spec]:
    """Parse a method and what was given beside it.

    >>> method, spec = method_of("dawid_skene", threshold=0.95)
    >>> str(spec), method.labels
    ('dawid_skene:threshold=0.95', True)
    """
    spec = parse_spec(text)
    if spec.name not in METHODS:
        raise unknown_name("way to combine", spec.name, METHODS)
    given = dict(spec.parameters) | {name: repr(value) for name, value in apart.items() if value is not None}
    method = METHODS[spec.name]
    method.bound(given)
    return method, Spec(spec.name, given)


# -- measurements --------------------------------------------------------------------------------------------------


@_method("mean")
def mean(votes: Votes) -> CellScores:
    """Mean of the answers."""
    return _measured(votes, cell_mean)


@_method("median")
def median(votes: Votes) -> CellScores:
    """Median of the answers; one odd answer among three changes little."""
    return _measured(votes, cell_median)


@_method("trimmed")
def trimmed(votes: Votes, *, share: float = 0.2) -> CellScores:
    """Mean without the lowest and the highest answers.

    Args:
        share: what is cut at each end, below 0.5.
    """
    if not 0 <= share < 0.5:
        raise OptionError(f"trimmed: share={share:g} should be at least 0 and below 0.5")
    return _measured(votes, lambda cell, value, size: cell_trimmed_mean(cell, value, size, share))


def _measured(votes: Votes, how: Callable[..., FloatArray]) -> CellScores:
    once, merged = votes.once_each()
    value = how(once.cell, once.value, once.size)
    notes = (f"{merged} repeated answers were averaged with the same annotator's first",) if merged else ()
    return CellScores(value, np.full(votes.size, np.nan), value, None, notes)


# -- labels --------------------------------------------------------------------------------------------------------


@_method("majority", labels=True)
def majority(votes: Votes, *, threshold: float | None = None) -> CellScores:
    """The most frequent answer; undecided where two tie.

    Args:
        threshold: the share of votes a label must exceed; none by default.
    """
    kinds, codes = _labels(votes)
    label, share = cell_majority(votes.cell, codes, votes.size, len(kinds), votes.shares())
    best = np.where(label >= 0, kinds[label], np.nan)
    sure = share > _share(threshold, "majority") if threshold is not None else np.ones(votes.size, dtype=np.bool_)
    return CellScores(np.where(sure, best, np.nan), share, best)


@_method("dawid_skene", labels=True)
def dawid_skene(votes: Votes, *, threshold: float = 0.9, smoothing: float = 0.01, iterations: int = 1000) -> CellScores:
    """The likeliest label given how each annotator errs (Dawid and Skene 1979); undecided below the threshold.

    Args:
        threshold: the posterior a label must exceed.
        smoothing: answers added to every annotator's confusion matrix.
        iterations: rounds at most.
    """
    _share(threshold, "dawid_skene")
    if smoothing < 0 or iterations < 1:
        raise OptionError(f"dawid_skene: smoothing={smoothing:g}, iterations={iterations} should be >= 0 and >= 1")
    named = np.flatnonzero(votes.person >= 0)
    if not len(named):
        raise DataError("dawid_skene learns how each annotator errs; these judgments name no annotators; use majority")
    kinds, codes = _labels(votes)
    seen, place = np.unique(votes.cell[named], return_inverse=True)
    people, person = np.unique(votes.person[named], return_inverse=True)
    fit = fit_dawid_skene(
        place, person, codes[named], kinds=len(kinds), smoothing=smoothing, iterations=iterations
    )  # fmt: skip
    confidence, best = np.full(votes.size, np.nan), np.full(votes.size, np.nan)
    confidence[seen], best[seen] = fit.posterior.max(axis=1), kinds[fit.posterior.argmax(axis=1)]
    report = pl.DataFrame(
        {
            "annotator": [votes.people[at] for at in people],
            "answers": np.bincount(person),
            "accuracy": fit.accuracy,
        }
    )
    notes = [] if fit.converged else [f"dawid_skene did not settle in {iterations} rounds; give iterations="]
    if len(named) < len(votes.cell):
        notes.append(f"dawid_skene: {len(votes.cell) - len(named)} answers name no annotator; they are left out")
    if len(people) == 1:
        notes.append("dawid_skene: one annotator; nothing can be learned about their errors")
    return CellScores(np.where(confidence > threshold, best, np.nan), confidence, best, report, tuple(notes))


def _labels(votes: Votes) -> tuple[FloatArray, np.ndarray]:
    """The labels in order, and which one each answer is."""
    kinds, codes = np.unique(votes.value, return_inverse=True)
    if len(kinds) > MOST_LABELS:
        raise OptionError(
            f"there are {len(kinds)} different answers ({kinds[0]:g} to {kinds[-1]:g}), too many for labels; use mean "
            "or median, or make fewer of them with --recode"
        )
    return kinds, codes


def _share(value: float, method: str) -> float:
    if not 0 <= value < 1:
        raise OptionError(f"{method}: threshold={value:g} should be at least 0 and below 1")
    return value
