"""Which automatic metrics of a set can be used: those that vary and are there for at least half of the outputs."""

from __future__ import annotations

import numpy as np

from aliquot.data.evalset import EvalSet
from aliquot.stats.arrays import FloatArray

_COVERED = 0.5


def usable_metrics(evalset: EvalSet) -> list[str]:
    """Return the metrics that vary and cover at least half of the cells.

    >>> import aliquot
    >>> usable_metrics(aliquot.synthetic(items=20, systems=2))
    ['metricA', 'metricB', 'metricC']
    """
    flags = evalset.derived("usable metrics", _flags)
    return [name for name, usable in zip(evalset.metrics, flags, strict=True) if usable]


def _flags(evalset: EvalSet) -> FloatArray:
    found = [is_usable(evalset.scores[name]) for name in evalset.metrics]
    return np.array(found, dtype=np.float64)


def is_usable(values: FloatArray) -> bool:
    """Tell whether a score varies and covers at least half of the cells."""
    present = np.isfinite(values)
    return bool(present.mean() >= _COVERED and values[present].std() > 0)
