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
from aliquot.estimation.proxies import standardise_length, standardise_metric, text_features
from aliquot.estimation.sample import Sample
from aliquot.stats.arrays import BoolArray, FloatArray, is_constant, is_negligible, max_abs, nan_std

RIDGE = 30.0
"""Items that stand for slopes of 0."""
_MAX_COUNTED_ITEMS = 300.0  # items from which on a campaign counts no more
_MIN_ITEMS = 5
_FEATURE_SCALE = 0.5


def add_past_prediction(sample: Sample, past: Sequence[EvalSet]) -> Sample:
    """Add the prediction of earlier campaigns to a sample."""
    return replace(sample, prior=past_prediction(sample.evalset, past)) if past else sample


def past_prediction(evalset: EvalSet, past: Sequence[EvalSet]) -> FloatArray | None:
    """Predict human scores of all outputs, standardised and centred by system; None without features.

    Metrics that an earlier campaign has under the same name have slopes of their own; the mean of all metrics, length
    and texts carry over whatever the metrics are.
    """
    metrics_by_campaign = [usable_metrics(campaign) for campaign in past]
    names = [
        name
        for name in usable_metrics(evalset)
        if any(name in metrics_of_campaign for metrics_of_campaign in metrics_by_campaign)
    ]
    features = _shared_features(evalset, names)
    keys = list(features)
    if not keys:
        return None
    gram, product = RIDGE * np.eye(len(keys)), np.zeros(len(keys))
    for campaign in past:
        x, y, weight = _standardise_campaign(campaign, names, keys)
        gram += weight * x.T @ x
        product += weight * (x.T @ y)
    slopes = np.linalg.solve(gram, product)
    predicted: FloatArray = np.stack([features[key] for key in keys], axis=2) @ slopes
    return None if is_constant(predicted) else predicted


def _standardise_campaign(
    campaign: EvalSet, names: Sequence[str], keys: Sequence[str]
) -> tuple[FloatArray, FloatArray, float]:
    """Return features and scores of a campaign's judged cells, centred by system, and the weight of a cell."""
    scores = campaign.human_score(None)
    present = np.isfinite(scores)
    items = int(present.any(axis=1).sum())
    if items < _MIN_ITEMS:
        raise DataError(
            f"`past` {campaign.name}: {items} items have a human score; give a campaign with at least {_MIN_ITEMS}"
        )
    features = _shared_features(campaign, names)
    y = _centre_by_system(scores, present)
    spread = float(np.sqrt((y[present] ** 2).mean()))
    if is_negligible(spread, max_abs(scores)):
        raise DataError(f"`past` {campaign.name}: the human scores do not vary; leave this campaign out")
    zero = np.zeros(scores.shape)
    x = np.stack(
        [_centre_by_system(features[key], present)[present] if key in features else zero[present] for key in keys],
        axis=1,
    )
    return x, y[present] / spread, min(1.0, _MAX_COUNTED_ITEMS / items) / campaign.n_systems


def _centre_by_system(values: FloatArray, present: BoolArray) -> FloatArray:
    """Subtract each system's mean over the judged cells."""
    mean = np.where(present, values, 0.0).sum(axis=0) / np.maximum(present.sum(axis=0), 1)
    less: FloatArray = values - mean
    return less


def _shared_features(evalset: EvalSet, names: Sequence[str]) -> dict[str, FloatArray]:
    """Return features that are comparable between campaigns, by name."""
    features: dict[str, FloatArray] = {}
    shape = (evalset.n_items, evalset.n_systems)
    usable = usable_metrics(evalset)
    length = standardise_length(evalset)
    if usable:
        total = np.sum([standardise_metric(evalset, name) for name in usable], axis=0)
        mean = (total - total.mean()) / (float(nan_std(total)) or 1.0)
        features["mean"], features["deviation"] = mean, mean - mean.mean(axis=1, keepdims=True)
        features["squared"] = _FEATURE_SCALE * (mean**2 - 1.0)
        if length is not None:
            features["mean x length"] = _FEATURE_SCALE * mean * length[:, None]
    if length is not None:
        features["length"] = np.broadcast_to(_FEATURE_SCALE * length[:, None], shape)
    share = 1.0 / np.sqrt(max(1, len(names)))
    for name in names:
        if name in usable:
            values = share * standardise_metric(evalset, name)
            features[f"metric {name}"] = values
            features[f"deviation {name}"] = values - values.mean(axis=1, keepdims=True)
    for key, feature in text_features(evalset).items():
        features[f"text {key}"] = feature
    return features
