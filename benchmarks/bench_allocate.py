"""Adaptive campaigns: one judgment taken and one cell asked, beside fitting the same model anew; and a large set."""

from __future__ import annotations

import statistics

import harness
import numpy as np
import polars as pl

from aliquot import Allocator
from aliquot.core.evalset import EvalSet

_STEPS = 200


def measure() -> list[harness.Row]:
    return [*_one_by_one(), *_large()]


def _campaign(items: int, systems: int, metrics: int) -> EvalSet:
    rng = np.random.default_rng(0)
    human = rng.normal(size=(items, systems)) + 0.1 * np.arange(systems)
    scores = {f"m{k}": 0.5 * human + rng.normal(size=human.shape) for k in range(metrics)}
    table = pl.DataFrame({"id": np.arange(items), "document": (np.arange(items) // 8).astype(str)})
    names = tuple(f"s{k}" for k in range(systems))
    return EvalSet(items=table, systems=names, scores={"human": human, **scores}, human="human")


def _answer(allocator: Allocator, cells: int) -> None:
    data = allocator.data
    human, place = data.human_score(), {name: at for at, name in enumerate(data.systems)}
    allocator.add(
        [
            (cell.item, cell.system, float(human[cell.item, place[cell.system]]))  # type: ignore[index]
            for cell in allocator.next(cells)
        ]
    )


def _one_by_one() -> list[harness.Row]:
    """1,000 items x 20 systems x 10 metrics, a fifth judged: add and next for one judgment, and a full refit."""
    allocator = Allocator(_campaign(1000, 20, 10))
    for _ in range(20):
        _answer(allocator, 200)
    steps = [harness.seconds(lambda: _answer(allocator, 1)) for _ in range(_STEPS)]
    model = allocator._model  # noqa: SLF001  (the peer is what an update would cost without increments)

    def refit() -> None:
        model._rebuild_equations()  # noqa: SLF001
        model._refresh_variances()  # noqa: SLF001
        model.fit()

    peer = statistics.median(harness.seconds(refit) for _ in range(10))
    ours = statistics.median(steps)
    looks = statistics.median(harness.seconds(allocator.advice) for _ in range(10))
    return [
        harness.Row(
            "allocator: add + next for one judgment, 1,000 x 20 x 10 metrics (peer: full refit)",
            ours,
            peer,
            "under 0.02 s",
            ours <= 0.02,
        ),
        harness.within("allocator: the same, 95% of steps", float(np.quantile(steps, 0.95)), 0.02),
        harness.within("allocator: advice after one judgment", looks, 0.02),
    ]


def _large() -> list[harness.Row]:
    data = _campaign(100_000, 50, 3)
    made: list[Allocator] = []
    start = harness.seconds(lambda: made.append(Allocator(data)))
    batch = harness.seconds(lambda: _answer(made[0], 2000))
    step = statistics.median(harness.seconds(lambda: _answer(made[0], 1)) for _ in range(20))
    memory = harness.peak_gigabytes()
    return [
        harness.within("allocator: start, 100,000 items x 50 systems x 3 metrics", start, 10),
        harness.within("allocator: 2,000 cells asked and answered there", batch, 10),
        harness.within("allocator: one judgment there", step, 0.1),
        harness.Row("allocator: peak memory there (GB, not s)", memory, None, "under 4", memory < 4),
    ]
