"""What metrics and sources say about every output: the features of the regression estimators.

An estimate needs the features of the judged items and, of all others, only their means per system; so nothing larger
than one N x M array is ever made, whatever the number of metrics.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from aliquot.core.conventions import log_lengths, usable_metrics
from aliquot.core.evalset import EvalSet
from aliquot.errors import AliquotWarning, DataError, OptionError, unknown_name
from aliquot.stats.arrays import FloatArray, IntArray, is_constant, is_negligible, nan_std
from aliquot.stats.text_similarity import similarity_to_others

# -- What metrics and sources say about every output: the features of the regression estimators ----------------------


_MAX_CACHED_NUMBERS = 4_000_000  # numbers of features that are worth keeping for the next estimate on the same set
_EXTRA_SCALE = 0.5  # scale of length, curvature and texts beside the metrics, which share a unit variance
_MIN_OUTPUTS = 3  # two outputs resemble each other equally
_MIN_COVERAGE = 0.5
_MAX_LENGTH_DEVIATION = 1.5


@dataclass(frozen=True, eq=False)
class Proxies:
    """Features of the judged outputs (n x M x K) and their means over all items (M x K)."""

    judged: FloatArray
    means: FloatArray

    @property
    def width(self) -> int:
        """The number of features, K."""
        return int(self.means.shape[1])

    def append(self, feature: FloatArray, rows: IntArray) -> Proxies:
        """Return these features and one more (N x M)."""
        return Proxies(
            np.concatenate([self.judged, feature[rows][:, :, None]], axis=2),
            np.concatenate([self.means, feature.mean(axis=0)[:, None]], axis=1),
        )


def select_proxies(evalset: EvalSet, names: Sequence[str] | None) -> list[str]:
    """Return the named metrics that vary; by default all that also cover half of the outputs."""
    if names is not None:
        for name in names:
            if name not in evalset.scores:
                raise unknown_name("metric", name, evalset.scores)
            if name == evalset.human:
                raise OptionError(f"'{name}' is the score to be estimated, not a proxy of it; name metrics only")
        return [name for name in names if _warn_if_constant(evalset.scores[name], name)]
    return usable_metrics(evalset)


def _warn_if_constant(values: FloatArray, name: str) -> bool:
    if np.isfinite(values).any() and not is_constant(values):
        return True
    warnings.warn(f"the metric '{name}' is constant or empty and tells nothing: left out", AliquotWarning, 2)
    return False


def fill_additively(values: FloatArray) -> FloatArray:
    """Fill missing cells with item effect + system effect; an unknown effect is 0.

    >>> fill_additively(np.array([[1.0, 2.0], [3.0, np.nan]])).tolist()
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


def standardise_metric(evalset: EvalSet, name: str) -> FloatArray:
    """Return a metric without gaps, standardised to mean 0 and variance 1 over all cells."""

    def standardise(evalset: EvalSet) -> FloatArray:
        values = fill_additively(evalset.scores[name])
        standard: FloatArray = (values - values.mean()) / (float(nan_std(values)) or 1.0)
        return standard

    return evalset.derived(f"standard metric {name}", standardise)


def plain_proxies(evalset: EvalSet, names: Sequence[str], rows: IntArray) -> Proxies:
    """One feature per metric, standardised over all outputs."""
    judged, means = [], []
    for name in names:
        values = standardise_metric(evalset, name)
        judged.append(values[rows])
        means.append(values.mean(axis=0))
    return _stack_proxies(judged, means, len(rows), evalset.n_systems)


def rich_proxies(evalset: EvalSet, names: Sequence[str], rows: IntArray, *, texts: bool = True) -> Proxies:
    """Features for the ridge regression: metrics, their deviations from the item's mean, length, curvature, texts.

    The K metrics are divided by sqrt(K), so that ridge means the same for one metric and for forty. Deviations get
    slopes of their own, because metrics often know differences between systems better than the difficulty of items.
    Errors grow with length, and more so on hard items: hence log length, its product with the metrics' consensus, and
    the consensus squared. `texts` adds what the outputs say of each other (`text_features`).
    """
    if evalset.n_items * evalset.n_systems * (2 * len(names) + 6) <= _MAX_CACHED_NUMBERS:
        key = f"{names!r} {texts}"
        every = evalset.derived(
            f"rich proxies {key}", lambda data: _rich_features(data, names, np.arange(len(data)), texts=texts).judged
        )
        means = evalset.derived(f"rich proxy means {key}", lambda _: every.mean(axis=0))
        return Proxies(every[rows], means)
    return _rich_features(evalset, names, rows, texts=texts)


def _rich_features(evalset: EvalSet, names: Sequence[str], rows: IntArray, *, texts: bool) -> Proxies:
    judged, means = [], []
    scale = 1.0 / np.sqrt(max(1, len(names)))
    consensus = np.zeros((evalset.n_items, evalset.n_systems))
    for name in names:
        values = standardise_metric(evalset, name) * scale
        deviation = values - values.mean(axis=1, keepdims=True)
        for part in (values, deviation):
            judged.append(part[rows])
            means.append(part.mean(axis=0))
        consensus += values
    shared = _length_and_consensus(evalset, consensus, metrics=bool(names))
    for part in [*shared, *(text_features(evalset).values() if texts else [])]:
        judged.append(part[rows])
        means.append(part.mean(axis=0))
    return _stack_proxies(judged, means, len(rows), evalset.n_systems)


def _length_and_consensus(evalset: EvalSet, consensus: FloatArray, *, metrics: bool) -> list[FloatArray]:
    """Return the features length, consensus x length and consensus squared, where available."""
    features = []
    varies = metrics and not is_negligible(consensus.std(), 1.0)  # a sum of metrics of unit size
    standard = (consensus - consensus.mean()) / consensus.std() if varies else None
    lengths = standardise_length(evalset)
    if lengths is not None:
        features.append(_EXTRA_SCALE * np.broadcast_to(lengths[:, None], consensus.shape))
        if standard is not None:
            features.append(_EXTRA_SCALE * standard * lengths[:, None])
    if standard is not None:
        features.append(_EXTRA_SCALE * (standard**2 - 1.0))
    return features


def text_features(evalset: EvalSet) -> dict[str, FloatArray]:
    """Return features of outputs relative to the item's other outputs: similarity and difference in length.

    An output unlike all others, or much shorter or longer than they are, is more often wrong. Needs no metric and knows
    no language. Empty where outputs are absent, or all alike, or where more than half of them are missing.
    """
    if evalset.outputs is None or evalset.n_systems < _MIN_OUTPUTS:
        return {}
    agreement = evalset.derived("agreement of outputs", _output_agreement)
    lengths = evalset.derived("lengths of outputs", _length_deviation)
    features: dict[str, FloatArray] = {}
    for name, values in (("agreement", agreement), ("length", lengths)):
        if np.isfinite(values).mean() < _MIN_COVERAGE or is_constant(values):
            continue
        filled = fill_additively(values)
        standard = (filled - filled.mean()) / filled.std()
        features[name] = _EXTRA_SCALE * standard
        if name == "agreement":
            features[f"{name} within the item"] = _EXTRA_SCALE * (standard - standard.mean(axis=1, keepdims=True))
    return features


def _output_agreement(evalset: EvalSet) -> FloatArray:
    assert evalset.outputs is not None  # noqa: S101  (`text_features` looked)
    texts = list(zip(*(evalset.outputs[system].to_list() for system in evalset.systems), strict=True))
    return similarity_to_others(texts)


def _length_deviation(evalset: EvalSet) -> FloatArray:
    """Return the absolute deviation of log length from the item's median, capped at a factor of 4.5."""
    assert evalset.outputs is not None  # noqa: S101  (`text_features` looked)
    counts = [evalset.outputs[system].str.len_chars().cast(pl.Float64).to_numpy() for system in evalset.systems]
    lengths = np.log1p(np.column_stack(counts))
    has_length = np.isfinite(lengths).any(axis=1)
    deviation = np.full(lengths.shape, np.nan)
    deviation[has_length] = np.abs(lengths[has_length] - np.nanmedian(lengths[has_length], axis=1, keepdims=True))
    capped: FloatArray = np.minimum(deviation, _MAX_LENGTH_DEVIATION)
    return capped


def standardise_length(evalset: EvalSet) -> FloatArray | None:
    """Return standardised log lengths of the sources; None if they are absent or equal."""
    if "source" not in evalset.items.columns:
        return None
    lengths = log_lengths(evalset)
    has_length = np.isfinite(lengths)
    if not has_length.any() or is_constant(lengths[has_length]):
        return None
    centred = np.where(has_length, lengths - lengths[has_length].mean(), 0.0)
    return centred / float(lengths[has_length].std())


def _stack_proxies(judged: list[FloatArray], means: list[FloatArray], n: int, m: int) -> Proxies:
    if not judged:
        return Proxies(np.zeros((n, m, 0)), np.zeros((m, 0)))
    return Proxies(np.stack(judged, axis=2), np.stack(means, axis=1))
