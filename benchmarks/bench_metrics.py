"""Metrics against people: 10,000 bootstrap trials of 42 metrics on wmt23-he-en, the whole report, growth in trials.

Times are CPU seconds of this process: machines are shared, and nothing here waits or runs in parallel.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Sequence
from functools import partial

import harness
import numpy as np

import aliquot
from aliquot.core.evalset import EvalSet

METRICS = 42
TRIALS = 10_000


def measure() -> list[harness.Row]:
    warnings.simplefilter("ignore", aliquot.AliquotWarning)
    data = _campaign()
    name = f"{METRICS} metrics, {data.name}"
    seconds = partial(_cpu, data)
    fewer, more = [], []
    for _ in range(3):  # in turns, so that a slow moment hits both
        fewer.append(seconds(["decomposition"], trials=TRIALS))
        more.append(seconds(["decomposition"], trials=4 * TRIALS))
    once, four = statistics.median(fewer), statistics.median(more)
    rows = [
        harness.within(
            f"error parts and break-even, 10,000 trials, {name}", seconds(["decomposition", "breakeven"]), 20
        ),
        harness.slower_at_most(f"error parts, 4 times the trials, {name}", four, once, 6),
        harness.within(f"the whole report, {name}", seconds(None), 40),
        harness.within(f"SPA tests of all pairs of {name}", seconds(["tests"], tests=("spa",)), 60),
    ]
    peak = harness.peak_gigabytes()
    return [*rows, harness.Row("peak memory of all that, in GB", peak, None, "under 2 GB", peak < 2)]


def _campaign() -> EvalSet:
    if harness.SHARED.exists():
        return aliquot.load(harness.SHARED / "wmt23-he-en.jsonl.gz")
    rng = np.random.default_rng(0)
    metrics = {f"m{k}": float(rng.uniform(0, 0.7)) for k in range(METRICS)}
    return aliquot.synthetic(820, 13, metrics=metrics, texts=False)


def _cpu(
    data: EvalSet, parts: Sequence[str] | None, *, trials: int = TRIALS, tests: Sequence[str] = ("accuracy", "acc_eq")
) -> float:
    start = time.process_time()
    aliquot.metrics(data, parts=parts, trials=trials, tests=tests)
    return time.process_time() - start
