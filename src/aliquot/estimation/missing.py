"""Selected outputs without a judgment: how many of each system, and whether they differ from those with one.

Judgments that are missing at random only cost precision. Where they are missing because an output is bad (or good), the
mean of the system is wrong, and no standard error shows it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aliquot.core.evalset import EvalSet
from aliquot.core.selection import Selection
from aliquot.errors import DataError
from aliquot.estimation.proxies import select_proxies, standardise_metric
from aliquot.stats.arrays import BoolArray, FloatArray, IntArray
from aliquot.stats.missingness import cochran_q_test, missingness_test

LEVEL = 0.01
"""p-value below which missing judgments are said to depend on something; gaps at random stay silent."""

_MAX_SYSTEMS = 4


@dataclass(frozen=True, eq=False)
class Missing:
    """Which cells should be judged (`requested`) and are (`present`): items x systems."""

    systems: tuple[str, ...]
    requested: BoolArray
    present: BoolArray
    rows: IntArray

    @property
    def counts(self) -> IntArray:
        """The number of selected outputs without a judgment, by system."""
        counts: IntArray = (self.requested & ~self.present).sum(axis=0)
        return counts

    def describe_gaps(self) -> str:
        """List systems by number of missing judgments."""
        counts, n_requested = self.counts, self.requested.sum(axis=0)
        order = [index for index in np.argsort(-counts, kind="stable") if counts[index]]
        named = [f"{self.systems[index]} {counts[index]} of {n_requested[index]}" for index in order[:_MAX_SYSTEMS]]
        return ", ".join(named) + (f", {len(order) - _MAX_SYSTEMS} more systems" if len(order) > _MAX_SYSTEMS else "")


def missing_cells(data: EvalSet, human: str | None, selection: Selection | None) -> Missing:
    """Find selected cells without judgment; without a selection, all cells of judged items count as selected."""
    scores = np.isfinite(data.human_score(human))
    if selection is None:
        rows = np.flatnonzero(scores.any(axis=1))
        return Missing(data.systems, np.ones((len(rows), data.n_systems), dtype=bool), scores[rows], rows)
    row_of = {item: row for row, item in enumerate(data.ids)}
    rows = np.array([row_of[item] for item in selection.ids], dtype=np.int64)
    requested = np.ones((len(rows), data.n_systems), dtype=bool)
    if selection.systems is not None:
        requested = np.array([[system in names for system in data.systems] for names in selection.systems])
    return Missing(data.systems, requested, scores[rows], rows)


def refuse_missing(missing: Missing) -> None:
    """Raise DataError if a selected output has no judgment."""
    total = int(missing.counts.sum())
    if total:
        raise DataError(
            f"{total} of {int(missing.requested.sum())} selected outputs have no judgment ({missing.describe_gaps()}); "
            "judge them, leave out systems (`exclude`), or leave `strict` out"
        )


def missing_notes(data: EvalSet, human: str | None, missing: Missing, *, selected: bool) -> list[str]:
    """Return notes where missing judgments depend on the quality of the output, or on the system."""
    judged: BoolArray = missing.present.sum(axis=0) > 0  # systems that nobody judged are told apart
    if not missing.counts[judged].any():
        return []
    notes = _quality_notes(data, human, missing, judged)
    p = cochran_q_test(missing.present[:, judged], missing.requested[:, judged]) if selected else np.nan
    if p < LEVEL:  # without a selection systems may be judged on different items on purpose
        notes.append(
            f"missing judgments are not spread evenly over the systems ({missing.describe_gaps()}; {_format_p(p)}): "
            "find out why before comparing those systems"
        )
    return notes


def _quality_notes(data: EvalSet, human: str | None, missing: Missing, judged: BoolArray) -> list[str]:
    quality, what = _output_quality(data, human, missing)
    if quality is None:
        return []
    codes = data.documents
    units = np.arange(len(missing.rows)) if codes is None else np.unique(codes[missing.rows], return_inverse=True)[1]
    test = missingness_test(quality[:, judged], missing.present[:, judged], missing.requested[:, judged], units)
    names = np.array(missing.systems)[judged]
    tests = max(1, int(np.isfinite(test.p).sum()))
    notes = []
    for index in np.flatnonzero(test.p * tests < LEVEL):
        worse = test.difference[index] < 0
        counts = f"{missing.counts[judged][index]} of {missing.requested[:, judged].sum(axis=0)[index]}"
        notes.append(
            f"{names[index]}: {counts} selected outputs have no judgment, and by {what} they are "
            f"{abs(test.difference[index]):.2f} standard deviations {'worse' if worse else 'better'} than those judged "
            f"({_format_p(test.p[index] * tests)}): its mean is probably too {'high' if worse else 'low'}; judge "
            "them, too"
        )
    return notes


def _output_quality(data: EvalSet, human: str | None, missing: Missing) -> tuple[FloatArray | None, str]:
    """Return a quality score of each selected output: mean metric, else the mean of the item's other systems."""
    names = [name for name in select_proxies(data, None) if name != human]
    if names:
        together: FloatArray = np.mean([standardise_metric(data, name)[missing.rows] for name in names], axis=0)
        return together, "the metrics"
    scores = data.human_score(human)[missing.rows]
    is_judged = np.isfinite(scores)
    centred = np.where(is_judged, scores - np.nansum(scores, axis=0) / np.maximum(is_judged.sum(axis=0), 1), 0.0)
    n_others = is_judged.sum(axis=1, keepdims=True) - is_judged
    mean = (centred.sum(axis=1, keepdims=True) - centred) / np.maximum(n_others, 1)
    return (np.where(n_others > 0, mean, np.nan), "the scores of other systems") if (n_others > 0).any() else (None, "")


def _format_p(value: float) -> str:
    return f"p = {value:.2g}" if value >= 1e-6 else "p < 0.000001"
