"""Simulate: the curve of soft pairwise accuracy and the search for parity, side by side with subset2evaluate.

Ours is analytic: matrix products for a few budgets, one pass over the order for every prefix. subset2evaluate permutes
1,000 times for every prefix it looks at, and tests all items again each time. `aliquot.compat.evaluate` gives its very
numbers, permutations included; those rows promise nothing and show what the same test costs here.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import harness
import numpy as np

import aliquot
from aliquot import EvalSet
from aliquot.compat import evaluate as compat
from aliquot.io.formats import items as item_lines
from aliquot.stats.arrays import FloatArray, IntArray
from aliquot.stats.pairwise import analytic_p, prefix_spa, spa

SIZE = "1,000 x 14"
PART = (4, 5)
"""The targets of the middle budgets, whose searches are about as long as the mean of all ten."""

Items = list[dict[str, Any]]


METHODS = (
    "random",
    "metric_avg",
    "metric_var",
    "metric_cons",
    "irt_diffdisc",
    "pps+greg",
    "segments+greg",
    "auto",
    "auto:goal=ranking",
    "stratified+stratified",
)


def measure() -> list[harness.Row]:
    return [*_against_subset2evaluate(), *_whole_call()]


def _whole_call() -> list[harness.Row]:
    """Ten methods, ten budgets, 100 repeats, all measures, on two processes."""
    path = harness.SHARED / "wmt23-en-de.jsonl.gz"
    if not path.exists():
        return []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = aliquot.load(path).drop(systems=["refA", "synthetic_ref"])
        call = partial(aliquot.simulate, data, METHODS, repeats=100, metric="MetricX-23", jobs=2)
        return [
            harness.within("simulate, 10 methods x 10 budgets x 100 repeats, wmt23-en-de", harness.seconds(call), 60)
        ]


def _against_subset2evaluate() -> list[harness.Row]:
    peer = harness.peer_module("subset2evaluate.evaluate")
    if peer is None:
        return []
    data = aliquot.synthetic(items=1000, systems=14, annotators=0, texts=False)
    old: Items = [dict(record) for record in item_lines.iterate_records(data)]
    order = np.random.default_rng(3).permutation(len(old))
    new = [old[row] for row in order]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [*_curve(peer, data, order, new, old), *_parity(peer, data, order, new, old)]


def _curve(peer: Any, data: EvalSet, order: IntArray, new: Items, old: Items) -> list[harness.Row]:
    """Both orders are given; ours starts from the EvalSet's table, theirs from the list of items."""
    theirs, name = partial(peer.eval_spa, new, old), f"SPA curve over ten budgets, {SIZE}"
    ten, seconds = harness.side_by_side(partial(_ten_budgets, data, order), theirs, repeats=9)
    every, meanwhile = harness.side_by_side(partial(_every_prefix, data, order), theirs, repeats=9)
    same, again = harness.side_by_side(partial(compat.eval_spa, new, old), theirs, repeats=5)
    return [
        harness.faster(f"{name} (analytic; peer: permutations)", ten, seconds, 20),
        harness.Row(f"{name}, ours at all 1,000 prefixes", every, meanwhile, "none: 100 times the work", None),
        harness.Row(f"{name}, compat: the same numbers", same, again, "none", None),
    ]


def _ten_budgets(data: EvalSet, order: IntArray) -> list[float]:
    scores = data.scores["human"][order]
    p_full = analytic_p(scores)
    return [spa(analytic_p(scores[: int(len(scores) * share)]), p_full) for share in compat.PROPS]


def _every_prefix(data: EvalSet, order: IntArray) -> FloatArray:
    return prefix_spa(data.scores["human"][order])


def _parity(peer: Any, data: EvalSet, order: IntArray, new: Items, old: Items) -> list[harness.Row]:
    """Theirs searches for two of the ten targets, in its own threads; its time is scaled by the prefixes it tests."""
    wanted = _targets(old)
    part = {"spas_tgt": wanted[list(PART)], "props": [compat.PROPS[place] for place in PART]}
    looked_at = np.array([_prefixes(new, old, target) for target in wanted])
    scale = looked_at.sum() / looked_at[list(PART)].sum()
    ours, seconds = harness.side_by_side(
        partial(_ours_parity, data, order, wanted), partial(peer.eval_spa_par, new, old, **part), repeats=1
    )
    same = harness.seconds(partial(compat.eval_spa_par, new, old, wanted))
    name = f"parity search, ten targets, {SIZE}"
    scaled = f"peer: 2 targets, scaled by {scale:.1f}"
    return [
        harness.faster(f"{name} (analytic; {scaled})", ours, seconds * scale, 1000),
        harness.Row(f"{name}, compat: the same numbers", same, seconds * scale, "none", None),
    ]


def _targets(old: Items) -> FloatArray:
    """Mean accuracy of three random orders, as `precompute_spa_randnorm` averages ten."""
    rng = np.random.default_rng(0)
    curves = [compat.eval_spa([old[row] for row in rng.permutation(len(old))], old) for _ in range(3)]
    return np.asarray(np.mean(curves, axis=0))


def _prefixes(new: Items, old: Items, target: float) -> int:
    """Number of prefixes that subset2evaluate tests for a target: from 5 items to those that reach it."""
    reached = compat.eval_spa_par(new, old, [target], props=[1.0]) * len(old)
    return round(reached) - 4


def _ours_parity(data: EvalSet, order: IntArray, wanted: FloatArray) -> FloatArray:
    """Items that reach each target first, NaN where it is never reached."""
    best = np.maximum.accumulate(_every_prefix(data, order))
    reached = np.searchsorted(best, wanted) + 1.0
    return np.where(reached > len(best), np.nan, reached)
