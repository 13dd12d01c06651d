"""Judging costs fitted to recorded times: seconds = intercept + slope x length of the source.

Zouhar et al. 2025, section 5.2, fit such a line to the times of ESA (33.7 s + 0.15 s a word: `esa_time`); other
protocols and annotators have lines of their own.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from aliquot.core.conventions import source_lengths
from aliquot.core.evalset import EvalSet
from aliquot.errors import AliquotWarning, DataError
from aliquot.stats.arrays import FloatArray

FITTED = "fitted"
BREAK_MEDIANS = 5.0  # recorded times are cut at this many medians: breaks are inside
_MIN_TIMES = 10


@dataclass(frozen=True)
class CostLine:
    """Seconds to judge an output, as a linear function of its source length."""

    intercept: float
    slope: float  # a word; a character for Chinese, Japanese, Korean and Thai
    judgments: int  # that it was fitted to

    def __str__(self) -> str:
        return f"{self.slope:.3g} s a source word + {self.intercept:.3g} s, fitted to {self.judgments} recorded times"

    def predict_seconds(self, lengths: FloatArray) -> FloatArray:
        """Return seconds for source lengths; an unknown length counts as 0."""
        return self.intercept + self.slope * np.nan_to_num(lengths)


def fit_cost_line(evalset: EvalSet) -> CostLine:
    """Fit the line by least squares to the times of all judgments, each cut at five medians.

    A line that falls with the length, or begins below 0, is no cost: the mean time takes its place, with a warning.

    >>> import aliquot
    >>> line = fit_cost_line(aliquot.synthetic(items=60, systems=3, seed=1))
    >>> line.judgments >= 60 and line.slope >= 0
    True
    """
    seconds, lengths = _collect_times(evalset)
    if len(seconds) < _MIN_TIMES or len(np.unique(lengths)) < 2:
        raise DataError(
            f"{evalset.name}: {len(seconds)} judgments have a time and a source; a cost line needs at least "
            f"{_MIN_TIMES}, with sources of several lengths; use esa_time or an item column, or judgments with times"
        )
    slope, intercept = np.polyfit(lengths, np.minimum(seconds, BREAK_MEDIANS * np.median(seconds)), 1)
    if slope < 0 or intercept <= 0:
        warnings.warn(
            f"{evalset.name}: recorded times do not grow with the length of sources as a cost can ({intercept:.3g} s + "
            f"{slope:.3g} s a word); every item costs the mean time",
            AliquotWarning,
            2,
        )
        slope, intercept = 0.0, float(np.minimum(seconds, BREAK_MEDIANS * np.median(seconds)).mean())
    return CostLine(float(intercept), float(slope), len(seconds))


def _collect_times(evalset: EvalSet) -> tuple[FloatArray, FloatArray]:
    """Return the recorded seconds of judgments, and the lengths of their sources."""
    length_of = dict(zip(evalset.ids, source_lengths(evalset).tolist(), strict=True))
    if evalset.judgments is None:
        return np.empty(0), np.empty(0)
    answers = evalset.judgments.answers().select("item", "seconds").drop_nulls()
    seconds = answers["seconds"].cast(float).to_numpy()
    lengths = np.array([length_of.get(item, np.nan) for item in answers["item"].to_list()], dtype=np.float64)
    is_usable = (seconds > 0) & np.isfinite(seconds) & np.isfinite(lengths)
    return seconds[is_usable], lengths[is_usable]


def fit_item_costs(evalset: EvalSet) -> FloatArray:
    """Return the fitted seconds for one output of every item."""
    return fit_cost_line(evalset).predict_seconds(source_lengths(evalset))
