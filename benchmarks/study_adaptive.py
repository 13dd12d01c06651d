"""`make study-adaptive`: adaptive campaigns against the published samplers; writes docs/evidence-adaptive.md.

Resumable run by run: what is finished is kept in build/study. A larger --repeats adds to the runs that are there;
another version of aliquot begins anew. Delete the folder after a change of the code. --minutes ends the work after so
long, and the page says how many runs each campaign has.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import campaigns
import harness
import numpy as np
import published_samplers as published
from adaptive_page import page
from campaigns import CAMPAIGNS

import aliquot
from aliquot.core.evalset import EvalSet
from aliquot.core.registry import Spec
from aliquot.estimation.monitor import Monitor
from aliquot.estimation.pipeline import infer_means
from aliquot.sampling.item_scores import infer_scale
from aliquot.sampling.tasks import ChosenRows
from aliquot.simulation.adaptive import run_allocator, run_until_decided
from aliquot.simulation.replay import ReplaySet, judge_items
from aliquot.stats.arrays import FloatArray, IntArray
from aliquot.stats.confidence_sequences import FIRST_LOOK
from aliquot.stats.system_correlation import weighted_tau

ROOT = Path(__file__).parent.parent
KEPT = ROOT / "build" / "study"
SHARES = tuple(0.05 * step for step in range(1, 11))
OURS = {"uniform, ours": "uniform", "auto": "auto"}
PUBLISHED_RUNS = 50
ENOUGH = 20  # items of a system from which its coverage is promised more closely
NULL_ITEMS, NULL_SYSTEMS, NULL_RUNS = 80, 4, 1000
REAL_NULL_RUNS = 67  # of each of 15 campaigns: 1,005

Measured = dict[str, list[float]]


def measured(values: FloatArray, half: FloatArray, counts: FloatArray | IntArray, truth: FloatArray) -> Measured:
    """One run, look by look (L x M): weighted tau, best named, error of means; covered and known intervals."""
    with np.errstate(invalid="ignore"):
        # A system judged on all items has an interval of width 0: rounding is no error.
        rounding = 1e-9 * float(np.abs(truth).max())
        inside, known, many = np.abs(values - truth) <= half + rounding, np.isfinite(half), counts >= ENOUGH
    return {
        "weighted_tau": weighted_tau(values, truth).tolist(),
        "top1": (values.argmax(axis=1) == truth.argmax()).astype(float).tolist(),
        "mae": np.abs(values - truth).mean(axis=1).tolist(),
        "covered": [float((inside & known).sum()), float(known.sum())],
        "covered_many": [float((inside & known & many).sum()), float((known & many).sum())],
    }


def our_run(data: EvalSet, policy: str, seed: int) -> Measured:
    """One adaptive campaign with our order of items and our estimator."""
    stage = ReplaySet(data)
    options = {"policy": policy, "protocol_scale": infer_scale(data), "budget": round(SHARES[-1] * stage.scores.size)}
    looks = []
    for allocator in run_allocator(data, stage.scores, SHARES, seed, options):
        chosen = allocator.selection()
        rows = np.array([allocator.rows[str(item)] for item in chosen.ids], dtype=np.int64)
        sample = judge_items(
            stage,
            ChosenRows(
                rows,
                utility=chosen.utility,
                probability=chosen.probability,
                systems=chosen.systems,
                design=chosen.design,
            ),
        )
        found = infer_means(sample, Spec("greg", {}))
        looks.append((found.values, found.half_widths(0.95), np.array(list(allocator.counts.values()))))
    values, half, counts = (np.array(part) for part in zip(*looks, strict=True))
    return measured(values, half, counts, stage.truth.means)


def published_runs(data: EvalSet, repeats: int) -> dict[str, list[Measured]]:
    """All published samplers, all runs at once."""
    scores = data.human_score()
    cells = [round(share * scores.size) for share in SHARES]
    found = {
        "uniform, means": published.replay(scores, published.uniform, cells, repeats, 0),
        "1/rank, means": published.replay(scores, published.by_rank(1.0), cells, repeats, 0),
        "1/rank², means": published.replay(scores, published.by_rank(2.0), cells, repeats, 0),
        "successive rejects, means": published.successive_rejects(scores, cells, repeats, 0),
    }
    truth = scores.mean(axis=0)
    return {
        name: [
            measured(looks.means[:, run], looks.half[:, run], looks.counts[:, run].astype(np.float64), truth)
            for run in range(repeats)
        ]
        for name, looks in found.items()
    }


def stopping_run(data: EvalSet, policy: str, seed: int) -> dict[str, float]:
    """Cells until the best system is decided, as a share of all; whether it is, and whether that is wrong."""
    run = run_until_decided(data, data.human_score(), seed, {"question": "best", "policy": policy}, step=0.02)
    return {"decided": float(run.decided), "cells": run.cells / data.human_score().size, "wrong": float(not run.right)}


def null_run(data: EvalSet, question: str, seed: int, *, most: float) -> dict[str, float]:
    """Equal systems: each item's scores, shuffled over systems, centred. Any decided pair, any named best is wrong."""
    scores = np.random.default_rng([seed, 7]).permuted(data.human_score(), axis=1)
    scores = scores - scores.mean(axis=0)
    run = run_until_decided(data, scores, seed, {"question": question}, max_share=most, step=0.05)
    return {"wrong": float(run.decided if question == "best" else not run.right)}


def null_at_every_length(data: EvalSet, seed: int, every: int = 1) -> dict[str, float]:
    """Equal systems as in `null_run`, looked at after every item: is any pair ever decided, is any best ever named?

    Whatever a policy does, its looks are at some of these lengths: a bound for all of them, at a hundredth of the time.
    """
    rng = np.random.default_rng([seed, 8])
    scores = rng.permuted(data.human_score(), axis=1)
    scores = (scores - scores.mean(axis=0))[rng.permutation(data.n_items)]
    found = {}
    for question in ("ranking", "best"):
        monitor = Monitor(data.systems, data.n_items, question=question, kind="asymptotic", noise=0.0)
        wrong = False
        for item, row in enumerate(scores.tolist()):
            monitor.add(item, dict(zip(data.systems, row, strict=True)))
            look = FIRST_LOOK <= item + 1 < data.n_items and item % every == 0
            picture = monitor.picture() if look else None
            wrong |= picture is not None and bool(picture.decided if question == "ranking" else picture.best)
        found[question] = float(wrong)
    return found


class Kept:
    """Runs of earlier calls, one JSON line each; `more` makes those that are missing until the time is over."""

    def __init__(self, minutes: float | None) -> None:
        KEPT.mkdir(parents=True, exist_ok=True)
        self._until = float("inf") if minutes is None else time.monotonic() + 60 * minutes

    def more(self, name: str, wanted: int, make: Callable[[int], Any] | None) -> list[Any]:
        """At most `wanted` runs: those known, and new ones where they can be made."""
        file = KEPT / f"adaptive-{aliquot.__version__}-{name.replace(' ', '-').replace('/', '-')}.jsonl"
        found = list(_lines(file))
        while make is not None and len(found) < wanted and time.monotonic() < self._until:
            found.append(make(len(found)))
            with file.open("a") as out:
                out.write(json.dumps(found[-1]) + "\n")
        return found[:wanted]


def _lines(file: Path) -> Iterator[Any]:
    if file.exists():
        for line in file.read_text().splitlines():
            yield json.loads(line)


def of_campaign(data: EvalSet, kept: Kept, repeats: int, stops: int) -> dict[str, Any]:
    """All runs of one campaign, each kind as far as the time allows."""
    label = data.name
    theirs = kept.more(f"{label}-published", 1, lambda _: published_runs(data, PUBLISHED_RUNS))
    runs: dict[str, list[Measured]] = {
        name: kept.more(f"{label}-{policy}", repeats, partial(our_run, data, policy)) for name, policy in OURS.items()
    }
    stopped = {
        policy: kept.more(f"{label}-stop-{policy}", stops, partial(stopping_run, data, policy))
        for policy in ("uniform", "auto")
    }
    null = kept.more(f"{label}-null", stops, lambda seed: null_run(data, "ranking", seed, most=0.5))
    lengths = kept.more(f"{label}-null-length", REAL_NULL_RUNS, partial(null_at_every_length, data, every=3))
    runs = (theirs[0] if theirs else {}) | runs
    return {"label": label, "runs": runs, "stops": stopped, "null": null, "lengths": lengths}


def main(arguments: Sequence[str] | None = None) -> None:
    options = harness.study_options(__doc__, arguments, minutes=True)
    warnings.simplefilter("ignore")
    start, kept = time.perf_counter(), Kept(options.minutes)
    even = aliquot.synthetic(items=NULL_ITEMS, systems=NULL_SYSTEMS, seed=0)
    chosen = [campaign for campaign in CAMPAIGNS if options.only is None or options.only in campaign.label]
    sets = [campaigns.population(campaign) for campaign in chosen]
    found: list[dict[str, Any]] = []
    null: dict[str, list[Any]] = {}
    # Few runs of everything first: a study that is ended early has them all.
    for repeats in sorted({min(few, options.repeats) for few in (1, 4, 10, 20, options.repeats)}):
        found, stops = [], repeats // 2
        for data in sets:
            found.append(of_campaign(data, kept, repeats, stops))
            print(f"{data.name}, {repeats} runs: {time.perf_counter() - start:.0f} s", flush=True)
        for question in ("ranking", "best"):
            runs = max(20, NULL_RUNS * repeats // options.repeats)
            null[question] = kept.more(f"null-{question}", runs, partial(null_run, even, question, most=1.0))
    null["length"] = kept.more("null-length", NULL_RUNS, lambda seed: null_at_every_length(even, seed))
    for one in found:  # what an earlier call has beyond what this one asked for
        for name, policy in OURS.items():
            one["runs"][name] = kept.more(f"{one['label']}-{policy}", 10**6, None)
    text = page(found, null, len(CAMPAIGNS), (NULL_ITEMS, NULL_SYSTEMS))
    print(text)
    if options.only is None:
        (ROOT / "docs" / "evidence-adaptive.md").write_text(text)


if __name__ == "__main__":
    main()
