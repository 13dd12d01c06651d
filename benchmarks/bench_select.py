"""Select: side by side with subset2evaluate on wmt23-en-de, and at sizes that it does not reach.

Both sides are called as a user calls them: `select` here, `select_subset.basic` there, on data that are loaded. Where
subset2evaluate would take minutes it is given a part of the work, and its time is scaled linearly; the row says so.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import harness
import numpy as np
import polars as pl

import aliquot
from aliquot import EvalSet, Selection
from aliquot.io.formats import items as item_lines
from aliquot.sampling.select import select

Peer = Callable[..., object]


def measure() -> list[harness.Row]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [*_against_subset2evaluate(), *_irt(), *_million_items(), *_knapsack(), *_local_pivotal()]


# -- side by side --------------------------------------------------------------------------------------------------


def _against_subset2evaluate() -> list[harness.Row]:
    module = harness.peer_module("subset2evaluate.select_subset")
    if module is None:
        return []
    peer: Peer = module.basic
    real, made = _campaign(), _thousand_items()
    machines = real.drop(systems=[name for name in real.systems if "ref" in name])  # references lack some metrics
    metric = "MetricX-23" if "MetricX-23" in real.scores else real.metrics[0]
    small = _compare(peer, machines, "metric_cons", {"metric": metric}, at_least=100, repeats=15)
    return [
        _compare(peer, made, "metric_cons", {"metric": "metricA"}, at_least=100, repeats=15),
        replace(small, promise="none: fixed costs count at 2 ms", kept=None),
        _compare(peer, real, "diversity", {"metric": "unigram"}, at_least=20, repeats=5),
        _compare(peer, real, "diversity", {"metric": "bleu"}, at_least=20, every=4),
        _compare(peer, real, "diversity", {"metric": "chrf"}, at_least=30, every=12),
        _bruteforce(peer, made),
    ]


def _campaign() -> EvalSet:
    path = harness.SHARED / "wmt23-en-de.jsonl.gz"
    return aliquot.load(path) if path.exists() else aliquot.synthetic(items=557, systems=14, annotators=0)


def _thousand_items() -> EvalSet:
    return aliquot.synthetic(items=1000, systems=15, annotators=0, texts=False)


def _compare(
    peer: Peer, data: EvalSet, method: str, given: dict[str, Any], at_least: float, every: int = 1, repeats: int = 3
) -> harness.Row:
    """Our time on all items, and the peer's on every `every`-th, times `every`: its work is item by item."""
    part = list(item_lines.iterate_records(data.keep(items=data.ids[::every])))
    ours, theirs = harness.side_by_side(
        partial(select, data, method, **given), partial(peer, part, method=method, **given), repeats
    )
    scaled = f" (peer: one item in {every}, scaled)" if every > 1 else ""
    name = f"{method} {given['metric']}, {len(data)} x {data.n_systems}{scaled}"
    return harness.faster(name, ours, theirs * len(data) / len(part), at_least)


def _bruteforce(peer: Peer, data: EvalSet, simulations: int = 1000, tried: int = 20) -> harness.Row:
    """Ours judges subsets by analytic p-values, theirs by 1,000 permutations each: the methods as they are offered."""
    records = list(item_lines.iterate_records(data))
    given: dict[str, Any] = {"metric": "metricA", "budget": 100}
    ours, theirs = harness.side_by_side(
        partial(select, data, "bruteforce", simulations=simulations, **given),
        partial(peer, records, method="bruteforce", simulations=tried, **given),
    )
    name = f"bruteforce, {simulations} simulations, 1,000 x 15 (analytic; peer: permutations, {tried}, scaled)"
    return harness.faster(name, ours, theirs * simulations / tried, at_least=20)


# -- alone ---------------------------------------------------------------------------------------------------------


def _irt() -> list[harness.Row]:
    seconds = _seconds(_thousand_items(), "irt_diffdisc", metric="metricA")
    return [harness.within("irt_diffdisc, 1,000 x 15", seconds, 2)]


def _million_items() -> list[harness.Row]:
    data = _made_up(1_000_000, 10)
    methods = [
        ("metric_avg", {"metric": "m0"}),
        ("metric_var", {"metric": "m0"}),
        ("metric_cons", {"metric": "m0"}),
        ("pps", {}),
        ("pps:size=difficulty,tau=0.5", {}),
    ]
    return [
        harness.within(f"{method}, 1,000,000 x 10", _seconds(data, method, 10_000, **given), 5)
        for method, given in methods
    ]


def _knapsack() -> list[harness.Row]:
    """Costs that have nothing to do with utilities, and costs that go with them, which is harder."""
    data = _made_up(100_000, 4)
    difficulty = -data.scores["m0"].mean(axis=1)
    rng = np.random.default_rng(1)
    costs = {
        "free costs": rng.uniform(10, 100, len(data)),
        "costs like utilities": 50 + 10 * difficulty + rng.uniform(0, 5, len(data)),
    }
    return [
        _spent(kind, replace(data, items=data.items.with_columns(pl.Series("cost", c)))) for kind, c in costs.items()
    ]


def _spent(kind: str, data: EvalSet) -> harness.Row:
    chosen: list[Selection] = []
    seconds = harness.seconds(lambda: chosen.append(select(data, "metric_avg", "20%", metric="m0", cost="cost")))
    gap = float(chosen[0].details.get("gap", 0.0))
    name = f"knapsack, 100,000 items, {kind}: gap {gap:.1e}"
    return harness.Row(name, seconds, None, "gap <= 1e-4 in 10 s", gap <= 1e-4 and seconds <= 10)


def _local_pivotal() -> list[harness.Row]:
    data = _made_up(10_000, 10)
    return [harness.within("balanced (local pivotal), 10,000 items", _seconds(data, "balanced", 1000), 10)]


def _seconds(data: EvalSet, method: str, budget: int | None = None, **given: Any) -> float:
    return harness.seconds(partial(select, data, method, budget, **given))


def _made_up(items: int, systems: int) -> EvalSet:
    """Three metrics and documents of ten items, no texts and no judgments."""
    rng = np.random.default_rng(0)
    ids = np.arange(items)
    shared = rng.normal(size=(items, 1))
    scores = {f"m{k}": shared + rng.normal(size=(items, systems)) for k in range(3)}
    table = pl.DataFrame({"id": ids, "document": pl.Series(ids // 10).cast(pl.String)})
    return EvalSet(items=table, systems=tuple(f"s{k}" for k in range(systems)), scores=scores)
