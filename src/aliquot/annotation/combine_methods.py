"""Ways to make one number of several judgments on an output; keyword-only arguments are the user's parameters.

Measurements (mean, median, trimmed) average an annotator's repeated judgments first. Labels (majority, dawid_skene)
leave an output undecided, NaN, rather than guess.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from aliquot.annotation.judgment_rows import first_rows, group_codes
from aliquot.core.registry import Registered, Spec, parse_spec
from aliquot.errors import DataError, OptionError, unknown_name
from aliquot.stats.arrays import FloatArray, IntArray, Seed
from aliquot.stats.combining import cell_majority, cell_mean, cell_median, cell_trimmed_mean, labels_curve
from aliquot.stats.combining import dawid_skene as fit_dawid_skene

# -- The judgments on one criterion as arrays: who said what on which output -------------------------------------------


@dataclass(frozen=True, eq=False)
class CellJudgments:
    """Judgments on one criterion.

    Attributes:
        cells: item and system of every output that has a judgment, in order of first appearance.
        cell: the output each judgment is on.
        value: the judgments, all finite.
        person: who gave each; -1 where nobody is named.
        people: the annotators' names.
    """

    cells: pl.DataFrame
    cell: IntArray
    value: FloatArray
    person: IntArray
    people: tuple[str, ...]

    @classmethod
    def of(cls, table: pl.DataFrame) -> CellJudgments:
        """Take them from a table of judgments with values."""
        cell = group_codes(table, ["item", "system"])
        named = table["annotator"]
        people = named.drop_nulls().unique(maintain_order=True).to_list()
        codes = named.replace_strict(people, list(range(len(people))), default=-1, return_dtype=pl.Int64)
        person = codes.fill_null(-1).to_numpy() if people else np.full(table.height, -1, dtype=np.int64)
        return cls(
            table[first_rows(cell)].select("item", "system"), cell, table["value"].to_numpy(), person, tuple(people)
        )

    @property
    def size(self) -> int:
        """How many outputs there are."""
        return self.cells.height

    @property
    def count(self) -> IntArray:
        """How many judgments each output has."""
        return np.bincount(self.cell, minlength=self.size).astype(np.int64)

    def at(self, rows: IntArray) -> CellJudgments:
        """Return only these judgments; the outputs stay, some perhaps without any."""
        return replace(self, cell=self.cell[rows], value=self.value[rows], person=self.person[rows])

    def once_each(self) -> tuple[CellJudgments, int]:
        """Return one judgment for each annotator and output, the mean of theirs, and how many were merged."""
        key = np.where(
            self.person >= 0, self.cell * (len(self.people) + 1) + self.person, -1 - np.arange(len(self.cell))
        )
        distinct, first, at = np.unique(key, return_index=True, return_inverse=True)
        if len(distinct) == len(key):
            return self, 0
        mean = np.bincount(at, self.value) / np.bincount(at)
        order = np.argsort(first)
        return replace(
            self, cell=self.cell[first][order], value=mean[order], person=self.person[first][order]
        ), len(key) - len(distinct)  # fmt: skip

    def shares(self) -> FloatArray:
        """The weight of each judgment so that an annotator has one vote on an output, however often they answered."""
        key = np.where(
            self.person >= 0, self.cell * (len(self.people) + 1) + self.person, -1 - np.arange(len(self.cell))
        )
        _, at, count = np.unique(key, return_inverse=True, return_counts=True)
        return np.asarray(1.0 / count[at])


# -- Ways to make one number of several judgments on an output; keyword-only arguments are the user's parameters -------


MOST_LABELS = 30
"""More different judgments than this are measurements, not labels."""


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
    """A way to combine judgments."""

    function: Callable[..., CellScores]
    labels: bool

    def run(self, judgments: CellJudgments, given: Mapping[str, Any]) -> CellScores:
        """Combine the judgments."""
        return self.function(judgments, **self.bound(given))


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
def mean(judgments: CellJudgments) -> CellScores:
    """Mean of the judgments."""
    return _measured(judgments, cell_mean)


@_method("median")
def median(judgments: CellJudgments) -> CellScores:
    """Median of the judgments; one odd judgment among three changes little."""
    return _measured(judgments, cell_median)


@_method("trimmed")
def trimmed(judgments: CellJudgments, *, share: float = 0.2) -> CellScores:
    """Mean without the lowest and the highest judgments.

    Args:
        share: what is cut at each end, below 0.5.
    """
    if not 0 <= share < 0.5:
        raise OptionError(f"trimmed: share={share:g} should be at least 0 and below 0.5")
    return _measured(judgments, lambda cell, value, size: cell_trimmed_mean(cell, value, size, share))


def _measured(judgments: CellJudgments, how: Callable[..., FloatArray]) -> CellScores:
    once, merged = judgments.once_each()
    value = how(once.cell, once.value, once.size)
    notes = (f"{merged} repeated judgments were averaged with the same annotator's first",) if merged else ()
    return CellScores(value, np.full(judgments.size, np.nan), value, None, notes)


# -- labels --------------------------------------------------------------------------------------------------------


@_method("majority", labels=True)
def majority(judgments: CellJudgments, *, threshold: float | None = None) -> CellScores:
    """The most frequent judgment; undecided where two tie.

    Args:
        threshold: the share of votes a label must exceed; none by default.
    """
    kinds, codes = _labels(judgments)
    label, share = cell_majority(judgments.cell, codes, judgments.size, len(kinds), judgments.shares())
    best = np.where(label >= 0, kinds[label], np.nan)
    sure = share > _share(threshold, "majority") if threshold is not None else np.ones(judgments.size, dtype=np.bool_)
    return CellScores(np.where(sure, best, np.nan), share, best)


@_method("dawid_skene", labels=True)
def dawid_skene(
    judgments: CellJudgments, *, threshold: float = 0.9, smoothing: float = 0.01, iterations: int = 1000
) -> CellScores:
    """The likeliest label given how each annotator errs (Dawid and Skene 1979); undecided below the threshold.

    Args:
        threshold: the posterior a label must exceed.
        smoothing: judgments added to every annotator's confusion matrix.
        iterations: rounds at most.
    """
    _share(threshold, "dawid_skene")
    if smoothing < 0 or iterations < 1:
        raise OptionError(f"dawid_skene: smoothing={smoothing:g}, iterations={iterations} should be >= 0 and >= 1")
    named = np.flatnonzero(judgments.person >= 0)
    if not len(named):
        raise DataError("dawid_skene learns how each annotator errs; these judgments name no annotators; use majority")
    kinds, codes = _labels(judgments)
    seen, place = np.unique(judgments.cell[named], return_inverse=True)
    people, person = np.unique(judgments.person[named], return_inverse=True)
    fit = fit_dawid_skene(
        place, person, codes[named], kinds=len(kinds), smoothing=smoothing, iterations=iterations
    )  # fmt: skip
    confidence, best = np.full(judgments.size, np.nan), np.full(judgments.size, np.nan)
    confidence[seen], best[seen] = fit.posterior.max(axis=1), kinds[fit.posterior.argmax(axis=1)]
    report = pl.DataFrame(
        {
            "annotator": [judgments.people[at] for at in people],
            "answers": np.bincount(person),
            "accuracy": fit.accuracy,
        }
    )
    notes = [] if fit.converged else [f"dawid_skene did not settle in {iterations} rounds; give iterations="]
    if len(named) < len(judgments.cell):
        notes.append(f"dawid_skene: {len(judgments.cell) - len(named)} judgments name no annotator; they are left out")
    if len(people) == 1:
        notes.append("dawid_skene: one annotator; nothing can be learned about their errors")
    return CellScores(np.where(confidence > threshold, best, np.nan), confidence, best, report, tuple(notes))


def _labels(judgments: CellJudgments) -> tuple[FloatArray, np.ndarray]:
    """The labels in order, and which one each judgment is."""
    kinds, codes = np.unique(judgments.value, return_inverse=True)
    if len(kinds) > MOST_LABELS:
        raise OptionError(
            f"there are {len(kinds)} different judgments ({kinds[0]:g} to {kinds[-1]:g}), too many for labels; use "
            "mean or median, or make fewer of them with --recode"
        )
    return kinds, codes


def _share(value: float, method: str) -> float:
    if not 0 <= value < 1:
        raise OptionError(f"{method}: threshold={value:g} should be at least 0 and below 1")
    return value


# -- The labels-per-item curve: how wrong would fewer judgments have been? ---------------------------------------------


@dataclass(frozen=True, eq=False)
class LabelsCurve:
    """Error against the number of judgments for each output.

    Attributes:
        table: criterion, k, mean and root mean squared error; of labels also wrong (share of decided outputs with
            another label), its standard deviation over draws, and undecided.
        outputs: criterion -> how many outputs the curve rests on.
        against: what counts as right: `all answers`, or `experts`.
        notes: what a reader should know.
    """

    table: pl.DataFrame
    outputs: Mapping[str, int]
    against: str
    notes: tuple[str, ...]

    def to_frame(self) -> pl.DataFrame:
        """Return the table."""
        return self.table

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"points": self.table.fill_nan(None).to_dicts(), "outputs": dict(self.outputs),
                "against": self.against, "notes": list(self.notes)}  # fmt: skip


def curve_of(
    judgments: CellJudgments,
    method: CombineMethod,
    given: Mapping[str, Any],
    truth: FloatArray | None = None,
    *,
    repeats: int = 20,
    seed: Seed = 0,
) -> tuple[pl.DataFrame, int]:
    """Draw 1, 2, ... judgments of every output that has many, and compare what they say with the truth.

    Outputs with at least the median number of judgments take part, with all they have; the truth is what those say
    together, unless it is given. Returns the points and how many outputs there are; no points where fewer than ten
    outputs have two judgments.
    """
    many = judgments.count
    known = np.ones(judgments.size, dtype=np.bool_) if truth is None else np.isfinite(truth)
    several = many[(many > 1) & known]
    if len(several) < 10:
        return pl.DataFrame(), 0
    most = int(np.median(several))
    chosen = (many >= most) & known
    mine = judgments.at(np.flatnonzero(chosen[judgments.cell]))
    right = method.run(mine, given).value if truth is None else np.where(chosen, truth, np.nan)

    def combined(rows: np.ndarray) -> FloatArray:
        return method.run(mine.at(rows), given).value

    points = labels_curve(mine.cell, combined, right, _counts(most), repeats=repeats, seed=seed)
    table = pl.DataFrame([vars(point) for point in points])
    return table if method.labels else table.drop("wrong", "wrong_sd", "undecided"), int(chosen.sum())


def _counts(most: int) -> list[int]:
    """1, 2, 3, ... up to ten, then steps that grow, and the last."""
    wanted = [*range(1, min(most, 10) + 1), *range(12, most, max(2, most // 10))]
    return sorted({k for k in wanted if k <= most} | {most})
