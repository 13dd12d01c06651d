"""Estimating: after loading, with ten metrics; with a bootstrap; and at a hundred thousand items."""

from __future__ import annotations

import warnings

import campaigns
import harness
import numpy as np
import polars as pl

import aliquot
from aliquot.core.evalset import EvalSet

METRICS = (
    "MetricX-23",
    "XCOMET-Ensemble",
    "COMET",
    "BLEURT-20",
    "GEMBA-MQM",
    "CometKiwi",
    "MetricX-23-QE",
    "XCOMET-QE-Ensemble",
    "docWMT22CometDA",
    "mbr-metricx-qe",
)


def measure() -> list[harness.Row]:
    warnings.simplefilter("ignore", aliquot.AliquotWarning)
    return [
        _on_wmt23(),
        harness.within("estimate, 10,000 bootstrap draws, 1,000 x 15", _bootstrap(), 2),
        harness.within("estimate, 100,000 items x 20 systems, 3 metrics, 20% judged", _large(), 5),
    ]


def _on_wmt23() -> harness.Row:
    if harness.SHARED.exists():
        data, metrics = campaigns.population(campaigns.CAMPAIGNS[0]), list(METRICS)
    else:
        metrics = [f"m{k}" for k in range(10)]
        data = aliquot.synthetic(460, 12, metrics=dict.fromkeys(metrics, 0.5))
    selection = aliquot.select(data, budget="20%")
    # A fresh set each time: what is derived from a set is kept with it.
    times = [
        harness.seconds(lambda: aliquot.estimate(data.keep(), selection=selection, metrics=metrics)) for _ in range(3)
    ]
    return harness.within(f"estimate {data.name} with 10 metrics, 20% judged", float(np.median(times)), 0.3)


def _bootstrap() -> float:
    data = aliquot.synthetic(1000, 15, texts=False, annotators=0)
    return harness.seconds(lambda: aliquot.estimate(data, interval="bootstrap"))


def _large() -> float:
    rng = np.random.default_rng(0)
    human = rng.normal(size=(100_000, 20))
    metrics = {f"m{k}": 0.5 * human + rng.normal(size=human.shape) for k in range(3)}
    items = pl.DataFrame({"id": np.arange(100_000), "document": (np.arange(100_000) // 8).astype(str)})
    whole = EvalSet(
        items=items, systems=tuple(f"s{k}" for k in range(20)), scores={"human": human, **metrics}, human="human"
    )
    selection = aliquot.select(whole, budget="20%")
    return harness.seconds(lambda: aliquot.estimate(whole, selection=selection))
