"""What earlier campaigns say of this one: how people's scores follow metrics, length and texts (docs/methods.md).

Slopes are learned on the earlier campaigns in standard deviations of their human scores, each campaign centred by
system, so that scales do not matter. What they predict of every output here becomes one more feature of the
regression, with a slope that this campaign's own judgments decide: an earlier campaign that misleads gets none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from aliquot.core.conventions import usable_metrics
from aliquot.core.evalset import EvalSet
from aliquot.errors import DataError
from aliquot.estimation.proxies import standard_length, standard_metric, text_features
from aliquot.estimation.sample import Sample
from aliquot.stats.arrays import BoolArray, FloatArray, is_constant, is_negligible, max_abs, nan_std

RIDGE = 30.0
"""Items that stand for slopes of 0."""
_LARGE = 300.0  # items from which on a campaign counts no more
_FEWEST = 5
_HALF = 0.5


def with_past(sample: Sample, past: Sequence[EvalSet]) -> Sample:
    """The sample, with what earlier campaigns expect of every output."""
    return replace(sample, prior=past_prediction(sample.evalset, past)) if past else sample


def past_prediction(evalset: EvalSet, past: Sequence[EvalSet]) -> FloatArray | None:
    """Predict every output's human score, in standard deviations and up to the systems' means; None without features.

    Metrics that an earlier campaign has under the same name have slopes of their own; the mean of all metrics, length
    and texts carry over whatever the metrics are.
    """
    theirs = [usable_metrics(one) for one in past]
    names = [name for name in usable_metrics(evalset) if any(name in known for known in theirs)]
    here = _features(evalset, names)
    keys = list(here)
    if not keys:
        return None
    gram, product = RIDGE * np.eye(len(keys)), np.zeros(len(keys))
    for one in past:
        x, y, weight = _standard(one, names, keys)
        gram += weight * x.T @ x
        product += weight * (x.T @ y)
    slopes = np.linalg.solve(gram, product)
    predicted: FloatArray = np.stack([here[key] for key in keys], axis=2) @ slopes
    return None if is_constant(predicted) else predicted


def _standard(one: EvalSet, names: Sequence[str], keys: Sequence[str]) -> tuple[FloatArray, FloatArray, float]:
    """An earlier campaign's judged cells: features and scores less their system's means, and what a cell counts."""
    scores = one.human_score(None)
    present = np.isfinite(scores)
    items = int(present.any(axis=1).sum())
    if items < _FEWEST:
        raise DataError(f"`past` {one.name}: {items} items have a human score; give a campaign with at least {_FEWEST}")
    there = _features(one, names)
    y = _centred(scores, present)
    spread = float(np.sqrt((y[present] ** 2).mean()))
    if is_negligible(spread, max_abs(scores)):
        raise DataError(f"`past` {one.name}: the human scores do not vary; leave this campaign out")
    zero = np.zeros(scores.shape)
    x = np.stack([_centred(there[key], present)[present] if key in there else zero[present] for key in keys], axis=1)
    return x, y[present] / spread, min(1.0, _LARGE / items) / one.n_systems


def _centred(values: FloatArray, present: BoolArray) -> FloatArray:
    """Less the mean of each system over the judged cells."""
    mean = np.where(present, values, 0.0).sum(axis=0) / np.maximum(present.sum(axis=0), 1)
    less: FloatArray = values - mean
    return less


def _features(evalset: EvalSet, names: Sequence[str]) -> dict[str, FloatArray]:
    """Features that mean the same in every campaign, by name."""
    found: dict[str, FloatArray] = {}
    shape = (evalset.n_items, evalset.n_systems)
    usable = usable_metrics(evalset)
    length = standard_length(evalset)
    if usable:
        total = np.sum([standard_metric(evalset, name) for name in usable], axis=0)
        mean = (total - total.mean()) / (float(nan_std(total)) or 1.0)
        found["mean"], found["deviation"] = mean, mean - mean.mean(axis=1, keepdims=True)
        found["squared"] = _HALF * (mean**2 - 1.0)
        if length is not None:
            found["mean x length"] = _HALF * mean * length[:, None]
    if length is not None:
        found["length"] = np.broadcast_to(_HALF * length[:, None], shape)
    share = 1.0 / np.sqrt(max(1, len(names)))
    for name in names:
        if name in usable:
            values = share * standard_metric(evalset, name)
            found[f"metric {name}"] = values
            found[f"deviation {name}"] = values - values.mean(axis=1, keepdims=True)
    for key, feature in text_features(evalset).items():
        found[f"text {key}"] = feature
    return found
