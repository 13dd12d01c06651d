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
from aliquot.estimation.proxies import standard_metric, usable
from aliquot.stats.arrays import BoolArray, FloatArray, IntArray
from aliquot.stats.missingness import cochran_q_test, missingness_test

LEVEL = 0.01
"""p-value below which missing judgments are said to depend on something; gaps at random stay silent."""

_SHOWN = 4


@dataclass(frozen=True, eq=False)
class Missing:
    """The cells that should be judged: `asked` and `present`, items x systems."""

    systems: tuple[str, ...]
    asked: BoolArray
    present: BoolArray
    rows: IntArray

    @property
    def counts(self) -> IntArray:
        """How many selected outputs of each system lack a judgment."""
        found: IntArray = (self.asked & ~self.present).sum(axis=0)
        return found

    def listed(self) -> str:
        """The systems with most gaps first."""
        counts, asked = self.counts, self.asked.sum(axis=0)
        order = [at for at in np.argsort(-counts, kind="stable") if counts[at]]
        named = [f"{self.systems[at]} {counts[at]} of {asked[at]}" for at in order[:_SHOWN]]
        return ", ".join(named) + (f", {len(order) - _SHOWN} more systems" if len(order) > _SHOWN else "")


def missing_cells(data: EvalSet, human: str | None, selection: Selection | None) -> Missing:
    """Compare what was selected with what was judged; without a selection, the items of which an output was judged."""
    scores = np.isfinite(data.human_score(human))
    if selection is None:
        rows = np.flatnonzero(scores.any(axis=1))
        return Missing(data.systems, np.ones((len(rows), data.n_systems), dtype=bool), scores[rows], rows)
    row_of = {item: row for row, item in enumerate(data.ids)}
    rows = np.array([row_of[item] for item in selection.ids], dtype=np.int64)
    asked = np.ones((len(rows), data.n_systems), dtype=bool)
    if selection.systems is not None:
        asked = np.array([[system in names for system in data.systems] for names in selection.systems])
    return Missing(data.systems, asked, scores[rows], rows)


def refuse_missing(missing: Missing) -> None:
    """Raise where a selected output has no judgment."""
    total = int(missing.counts.sum())
    if total:
        raise DataError(
            f"{total} of {int(missing.asked.sum())} selected outputs have no judgment ({missing.listed()}); "
            "judge them, leave out systems (`exclude`), or leave `strict` out"
        )


def missing_notes(data: EvalSet, human: str | None, missing: Missing, *, selected: bool) -> list[str]:
    """Say where missing judgments depend on the quality of the output, or on the system."""
    judged: BoolArray = missing.present.sum(axis=0) > 0  # systems that nobody judged are told apart
    if not missing.counts[judged].any():
        return []
    notes = _quality_notes(data, human, missing, judged)
    p = cochran_q_test(missing.present[:, judged], missing.asked[:, judged]) if selected else np.nan
    if p < LEVEL:  # without a selection systems may be judged on different items on purpose
        notes.append(
            f"missing judgments are not spread evenly over the systems ({missing.listed()}; {_p(p)}): find "
            "out why before comparing those systems"
        )
    return notes


def _quality_notes(data: EvalSet, human: str | None, missing: Missing, judged: BoolArray) -> list[str]:
    quality, what = _quality(data, human, missing)
    if quality is None:
        return []
    codes = data.documents
    units = np.arange(len(missing.rows)) if codes is None else np.unique(codes[missing.rows], return_inverse=True)[1]
    found = missingness_test(quality[:, judged], missing.present[:, judged], missing.asked[:, judged], units)
    names = np.array(missing.systems)[judged]
    tests = max(1, int(np.isfinite(found.p).sum()))
    notes = []
    for at in np.flatnonzero(found.p * tests < LEVEL):
        worse = found.difference[at] < 0
        counts = f"{missing.counts[judged][at]} of {missing.asked[:, judged].sum(axis=0)[at]}"
        notes.append(
            f"{names[at]}: {counts} selected outputs have no judgment, and by {what} they are "
            f"{abs(found.difference[at]):.2f} standard deviations {'worse' if worse else 'better'} than those judged "
            f"({_p(found.p[at] * tests)}): its mean is probably too {'high' if worse else 'low'}; judge them, too"
        )
    return notes


def _quality(data: EvalSet, human: str | None, missing: Missing) -> tuple[FloatArray | None, str]:
    """How good each selected output is by the metrics together; without metrics, by the item's other systems."""
    names = [name for name in usable(data, None) if name != human]
    if names:
        together: FloatArray = np.mean([standard_metric(data, name)[missing.rows] for name in names], axis=0)
        return together, "the metrics"
    scores = data.human_score(human)[missing.rows]
    there = np.isfinite(scores)
    centred = np.where(there, scores - np.nansum(scores, axis=0) / np.maximum(there.sum(axis=0), 1), 0.0)
    others = there.sum(axis=1, keepdims=True) - there
    mean = (centred.sum(axis=1, keepdims=True) - centred) / np.maximum(others, 1)
    return (np.where(others > 0, mean, np.nan), "the scores of other systems") if (others > 0).any() else (None, "")


def _p(value: float) -> str:
    return f"p = {value:.2g}" if value >= 1e-6 else "p < 0.000001"
