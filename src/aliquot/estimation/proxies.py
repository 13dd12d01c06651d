"""What metrics and sources say about every output: the features of the regression estimators.

An estimate needs the features of the judged items and, of all others, only their means per system; so nothing larger
than one N x M array is ever made, whatever the number of metrics.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from aliquot.core.conventions import log_lengths, usable_metrics
from aliquot.core.evalset import EvalSet
from aliquot.errors import AliquotWarning, DataError, OptionError, unknown_name
from aliquot.stats.arrays import FloatArray, IntArray

# -- What metrics and sources say about every output: the features of the regression estimators ----------------------


_KEPT = 4_000_000  # numbers of features that are worth keeping for the next estimate on the same set
_EXTRA = 0.5  # scale of length and curvature beside the metrics, which share a unit variance


@dataclass(frozen=True, eq=False)
class Proxies:
    """Features of the judged outputs (n x M x K) and their means over all items (M x K)."""

    judged: FloatArray
    means: FloatArray

    @property
    def width(self) -> int:
        """The number of features, K."""
        return int(self.means.shape[1])


def usable(evalset: EvalSet, names: Sequence[str] | None) -> list[str]:
    """Return the named metrics, or all that vary and cover at least half of the outputs; constant ones never help."""
    if names is not None:
        for name in names:
            if name not in evalset.scores:
                raise unknown_name("metric", name, evalset.scores)
            if name == evalset.human:
                raise OptionError(f"'{name}' is the score to be estimated, not a proxy of it; name metrics only")
        return [name for name in names if _varies(evalset.scores[name], name)]
    return usable_metrics(evalset)


def _varies(values: FloatArray, name: str) -> bool:
    if np.isfinite(values).any() and np.nanstd(values) > 0:
        return True
    warnings.warn(f"the metric '{name}' is constant or empty and tells nothing: left out", AliquotWarning, 2)
    return False


def filled_additively(values: FloatArray) -> FloatArray:
    """Fill missing cells with item effect + system effect; an unknown effect is 0.

    >>> filled_additively(np.array([[1.0, 2.0], [3.0, np.nan]])).tolist()
    [[1.0, 2.0], [3.0, 3.0]]
    """
    present = np.isfinite(values)
    if present.all():
        return values
    if not present.any():
        raise DataError("a metric without any value cannot be a proxy")
    grand = float(values[present].mean())
    centred = np.where(present, values - grand, 0.0)
    item = centred.sum(axis=1) / np.maximum(present.sum(axis=1), 1)
    system = centred.sum(axis=0) / np.maximum(present.sum(axis=0), 1)
    return np.where(present, values, grand + item[:, None] + system[None, :])


def standard_metric(evalset: EvalSet, name: str) -> FloatArray:
    """A metric without gaps, shifted and scaled to mean 0 and variance 1 over all cells."""

    def make(evalset: EvalSet) -> FloatArray:
        values = filled_additively(evalset.scores[name])
        standard: FloatArray = (values - values.mean()) / (float(values.std()) or 1.0)
        return standard

    return evalset.derived(f"standard metric {name}", make)


def plain_proxies(evalset: EvalSet, names: Sequence[str], rows: IntArray) -> Proxies:
    """One feature per metric, standardised over all outputs."""
    judged, means = [], []
    for name in names:
        values = standard_metric(evalset, name)
        judged.append(values[rows])
        means.append(values.mean(axis=0))
    return _proxies(judged, means, len(rows), evalset.n_systems)


def rich_proxies(evalset: EvalSet, names: Sequence[str], rows: IntArray) -> Proxies:
    """Features for the ridge regression: metrics, their deviations from the item's mean, length, curvature.

    The K metrics are divided by sqrt(K), so that ridge means the same for one metric and for forty. Deviations get
    slopes of their own, because metrics often know differences between systems better than the difficulty of items.
    Errors grow with length, and more so on hard items: hence log length, its product with the metrics' consensus, and
    the consensus squared.
    """
    if evalset.n_items * evalset.n_systems * (2 * len(names) + 3) <= _KEPT:
        every = evalset.derived(f"rich proxies {names!r}", lambda data: _rich(data, names, np.arange(len(data))).judged)
        means = evalset.derived(f"rich proxy means {names!r}", lambda _: every.mean(axis=0))
        return Proxies(every[rows], means)
    return _rich(evalset, names, rows)


def _rich(evalset: EvalSet, names: Sequence[str], rows: IntArray) -> Proxies:
    judged, means = [], []
    scale = 1.0 / np.sqrt(max(1, len(names)))
    consensus = np.zeros((evalset.n_items, evalset.n_systems))
    for name in names:
        values = standard_metric(evalset, name) * scale
        deviation = values - values.mean(axis=1, keepdims=True)
        for part in (values, deviation):
            judged.append(part[rows])
            means.append(part.mean(axis=0))
        consensus += values
    for part in _shared(evalset, consensus, metrics=bool(names)):
        judged.append(part[rows])
        means.append(part.mean(axis=0))
    return _proxies(judged, means, len(rows), evalset.n_systems)


def _shared(evalset: EvalSet, consensus: FloatArray, *, metrics: bool) -> list[FloatArray]:
    """Length, consensus x length, consensus squared; what cannot be known is left out."""
    features = []
    spread = consensus.std()
    standard = (consensus - consensus.mean()) / spread if metrics and spread > 0 else None
    lengths = _standard_lengths(evalset)
    if lengths is not None:
        features.append(_EXTRA * np.broadcast_to(lengths[:, None], consensus.shape))
        if standard is not None:
            features.append(_EXTRA * standard * lengths[:, None])
    if standard is not None:
        features.append(_EXTRA * (standard**2 - 1.0))
    return features


def _standard_lengths(evalset: EvalSet) -> FloatArray | None:
    if "source" not in evalset.items.columns:
        return None
    lengths = log_lengths(evalset)
    known = np.isfinite(lengths)
    if not known.any() or lengths[known].std() == 0:
        return None
    centred = np.where(known, lengths - lengths[known].mean(), 0.0)
    return centred / float(lengths[known].std())


def _proxies(judged: list[FloatArray], means: list[FloatArray], n: int, m: int) -> Proxies:
    if not judged:
        return Proxies(np.zeros((n, m, 0)), np.zeros((m, 0)))
    return Proxies(np.stack(judged, axis=2), np.stack(means, axis=1))
