"""Methods that combine several judgments on an output into one number.

Keyword-only arguments are the user's parameters.

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
from aliquot.core.registry import RegistryEntry, Spec, parse_spec
from aliquot.core.result import Result
from aliquot.errors import DataError, OptionError, unknown_name
from aliquot.stats.aggregation import cell_majority, cell_mean, cell_median, cell_trimmed_mean, labels_curve
from aliquot.stats.aggregation import dawid_skene as fit_dawid_skene
from aliquot.stats.arrays import FloatArray, IntArray, Seed


@dataclass(frozen=True, eq=False)
class CellJudgments:
    """Judgments on one criterion as arrays."""

    cells: pl.DataFrame  # item and system of every output that has a judgment, in order of first appearance
    cell: IntArray  # the output each judgment is on
    value: FloatArray  # all finite
    annotator: IntArray  # code of each judgment's annotator; -1 for judgments without an annotator id
    annotators: tuple[str, ...]

    @classmethod
    def from_table(cls, table: pl.DataFrame) -> CellJudgments:
        """Build the arrays from a table of judgments with values."""
        cell = group_codes(table, ["item", "system"])
        names = table["annotator"].drop_nulls().unique(maintain_order=True).to_list()
        codes = table["annotator"].cast(pl.Enum(names)).to_physical().cast(pl.Int64).fill_null(-1).to_numpy()
        cells = table[first_rows(cell)].select("item", "system")
        return cls(cells, cell, table["value"].to_numpy(), codes, tuple(names))

    @property
    def size(self) -> int:
        """The number of outputs."""
        return self.cells.height

    @property
    def count(self) -> IntArray:
        """The number of judgments of each output."""
        return np.bincount(self.cell, minlength=self.size).astype(np.int64)

    def take(self, rows: IntArray) -> CellJudgments:
        """Return only these judgments, with all outputs."""
        return replace(self, cell=self.cell[rows], value=self.value[rows], annotator=self.annotator[rows])

    def average_repeats(self) -> tuple[CellJudgments, int]:
        """Average an annotator's judgments on the same output; also return how many were merged."""
        key = self._by_annotator()
        distinct, first, index = np.unique(key, return_index=True, return_inverse=True)
        if len(distinct) == len(key):
            return self, 0
        mean, order = np.bincount(index, self.value) / np.bincount(index), np.argsort(first)
        return replace(self.take(first[order]), value=mean[order]), len(key) - len(distinct)

    def annotator_weights(self) -> FloatArray:
        """Return weights of judgments such that each annotator counts once on an output."""
        _, index, count = np.unique(self._by_annotator(), return_inverse=True, return_counts=True)
        return np.asarray(1.0 / count[index])

    def _by_annotator(self) -> IntArray:
        """Return a key per output and annotator; judgments without an annotator have one each."""
        key = self.cell * (len(self.annotators) + 1) + self.annotator
        return np.where(self.annotator >= 0, key, -1 - np.arange(len(self.cell)))


MAX_LABELS = 30
"""More different judgments than this are measurements, not labels."""


@dataclass(frozen=True, eq=False)
class CellScores:
    """One number for each output."""

    value: FloatArray  # NaN where undecided
    confidence: FloatArray  # of a label: its share of the judgments, or its posterior; NaN for measurements
    best: FloatArray  # the likeliest label, also where undecided
    annotators: pl.DataFrame | None = None  # what was learned about each annotator
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class CombineMethod(RegistryEntry):
    """A way to combine judgments."""

    function: Callable[..., CellScores]
    labels: bool

    def run(self, judgments: CellJudgments, parameters: Mapping[str, Any]) -> CellScores:
        """Combine the judgments."""
        return self.function(judgments, **self.bind(parameters))


METHODS: dict[str, CombineMethod] = {}
"""Name -> method."""


def _combine_method(
    name: str, *, labels: bool = False
) -> Callable[[Callable[..., CellScores]], Callable[..., CellScores]]:
    def decorator(function: Callable[..., CellScores]) -> Callable[..., CellScores]:
        METHODS[name] = CombineMethod(name, function, labels)
        return function

    return decorator


def parse_method(text: str, **apart: Any) -> tuple[CombineMethod, Spec]:
    """Parse a method spec; `apart` are further parameters.

    >>> method, spec = parse_method("dawid_skene", threshold=0.95)
    >>> str(spec), method.labels
    ('dawid_skene:threshold=0.95', True)
    """
    spec = parse_spec(text)
    if spec.name not in METHODS:
        raise unknown_name("way to combine", spec.name, METHODS)
    spec, method = spec.with_parameters(apart), METHODS[spec.name]
    method.bind(spec.parameters)
    return method, spec


@_combine_method("mean")
def combine_by_mean(judgments: CellJudgments) -> CellScores:
    """Mean of the judgments."""
    return _combine_measurements(judgments, cell_mean)


@_combine_method("median")
def combine_by_median(judgments: CellJudgments) -> CellScores:
    """Median of the judgments; robust to single outliers."""
    return _combine_measurements(judgments, cell_median)


@_combine_method("trimmed")
def combine_by_trimmed_mean(judgments: CellJudgments, *, share: float = 0.2) -> CellScores:
    """Mean without the lowest and the highest judgments.

    Args:
        share: what is cut at each end, below 0.5.
    """
    if not 0 <= share < 0.5:
        raise OptionError(f"trimmed: share={share:g} should be at least 0 and below 0.5")
    return _combine_measurements(judgments, lambda cell, value, size: cell_trimmed_mean(cell, value, size, share))


def _combine_measurements(judgments: CellJudgments, average: Callable[..., FloatArray]) -> CellScores:
    once, merged = judgments.average_repeats()
    value = average(once.cell, once.value, once.size)
    notes = (f"{merged} repeated judgments were averaged with the same annotator's first",) if merged else ()
    return CellScores(value, np.full(judgments.size, np.nan), value, None, notes)


@_combine_method("majority", labels=True)
def combine_by_majority(judgments: CellJudgments, *, threshold: float | None = None) -> CellScores:
    """The most frequent judgment; undecided where two tie.

    Args:
        threshold: the share of votes a label must exceed; none by default.
    """
    kinds, codes = _encode_judgments(judgments)
    label, share = cell_majority(judgments.cell, codes, judgments.size, len(kinds), judgments.annotator_weights())
    best = np.where(label >= 0, kinds[label], np.nan)
    sure = (
        share > _require_share(threshold, "majority")
        if threshold is not None
        else np.ones(judgments.size, dtype=np.bool_)
    )
    return CellScores(np.where(sure, best, np.nan), share, best)


@_combine_method("dawid_skene", labels=True)
def combine_by_dawid_skene(
    judgments: CellJudgments, *, threshold: float = 0.9, smoothing: float = 0.01, iterations: int = 1000
) -> CellScores:
    """The most probable label under Dawid and Skene's (1979) model; undecided below the threshold.

    Args:
        threshold: the posterior a label must exceed.
        smoothing: judgments added to every annotator's confusion matrix.
        iterations: rounds at most.
    """
    _require_share(threshold, "dawid_skene")
    if smoothing < 0 or iterations < 1:
        raise OptionError(f"dawid_skene: smoothing={smoothing:g}, iterations={iterations} should be >= 0 and >= 1")
    named = np.flatnonzero(judgments.annotator >= 0)
    if not len(named):
        raise DataError("dawid_skene learns how each annotator errs; no judgment has an annotator id; use majority")
    kinds, codes = _encode_judgments(judgments)
    cells, place = np.unique(judgments.cell[named], return_inverse=True)
    present, annotator = np.unique(judgments.annotator[named], return_inverse=True)
    fit = fit_dawid_skene(place, annotator, codes[named], kinds=len(kinds), smoothing=smoothing, iterations=iterations)
    confidence, best = np.full(judgments.size, np.nan), np.full(judgments.size, np.nan)
    confidence[cells], best[cells] = fit.posterior.max(axis=1), kinds[fit.posterior.argmax(axis=1)]
    names = [judgments.annotators[code] for code in present]
    report = pl.DataFrame({"annotator": names, "answers": np.bincount(annotator), "accuracy": fit.accuracy})
    notes = [] if fit.converged else [f"dawid_skene did not settle in {iterations} rounds; give iterations="]
    if len(named) < len(judgments.cell):
        notes.append(f"dawid_skene: {len(judgments.cell) - len(named)} judgments name no annotator; they are left out")
    if len(present) == 1:
        notes.append("dawid_skene: one annotator; nothing can be learned about their errors")
    return CellScores(np.where(confidence > threshold, best, np.nan), confidence, best, report, tuple(notes))


def _encode_judgments(judgments: CellJudgments) -> tuple[FloatArray, np.ndarray]:
    """Return the sorted labels and the index of each judgment's label."""
    kinds, codes = np.unique(judgments.value, return_inverse=True)
    if len(kinds) > MAX_LABELS:
        raise OptionError(
            f"there are {len(kinds)} different judgments ({kinds[0]:g} to {kinds[-1]:g}), too many for labels; use "
            "mean or median, or make fewer of them with `recode`"
        )
    return kinds, codes


def _require_share(value: float, method: str) -> float:
    if not 0 <= value < 1:
        raise OptionError(f"{method}: threshold={value:g} should be at least 0 and below 1")
    return value


# -- the labels-per-item curve: how wrong would fewer judgments have been? -----------------------------------------


@dataclass(frozen=True, eq=False)
class LabelsCurve(Result):
    """Error by number of judgments per output."""

    # criterion, k, mean and root mean squared error; of labels also wrong (share of decided outputs with another
    # label), its standard deviation over draws, and undecided
    table: pl.DataFrame
    outputs: Mapping[str, int]  # criterion -> number of outputs of the curve
    against: str  # what counts as right: `all answers`, or `experts`
    notes: tuple[str, ...]

    def to_frame(self) -> pl.DataFrame:
        """Return the table."""
        return self.table

    def document(self) -> Mapping[str, Any]:
        """The fields; the table is called points."""
        return {"points": self.table, **self.fields_without("table")}


def labels_curve_of(
    judgments: CellJudgments,
    method: CombineMethod,
    parameters: Mapping[str, Any],
    truth: FloatArray | None = None,
    *,
    repeats: int = 20,
    seed: Seed = 0,
) -> tuple[pl.DataFrame, int]:
    """Estimate the error of combining k = 1, 2, ... judgments per output, drawn without replacement.

    Outputs with at least the median number of judgments take part; the truth is the combination of all, unless given.
    Returns the points and the number of outputs; no points where fewer than ten outputs have two judgments.
    """
    n_judgments = judgments.count
    has_truth = np.ones(judgments.size, dtype=np.bool_) if truth is None else np.isfinite(truth)
    n_repeated = n_judgments[(n_judgments > 1) & has_truth]
    if len(n_repeated) < 10:
        return pl.DataFrame(), 0
    max_labels = int(np.median(n_repeated))
    chosen = (n_judgments >= max_labels) & has_truth
    mine = judgments.take(np.flatnonzero(chosen[judgments.cell]))
    reference = method.run(mine, parameters).value if truth is None else np.where(chosen, truth, np.nan)

    def combine_rows(rows: np.ndarray) -> FloatArray:
        return method.run(mine.take(rows), parameters).value

    points = labels_curve(mine.cell, combine_rows, reference, _curve_sizes(max_labels), repeats=repeats, seed=seed)
    table = pl.DataFrame([vars(point) for point in points])
    return table if method.labels else table.drop("wrong", "wrong_sd", "undecided"), int(chosen.sum())


def _curve_sizes(max_labels: int) -> list[int]:
    """1, 2, 3, ... up to ten, then steps that grow, and the last."""
    sizes = [*range(1, min(max_labels, 10) + 1), *range(12, max_labels, max(2, max_labels // 10))]
    return sorted({k for k in sizes if k <= max_labels} | {max_labels})
