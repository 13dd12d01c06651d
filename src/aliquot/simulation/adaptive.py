"""Replaying adaptive campaigns: an allocator asks, the past campaign answers.

A run goes through growing budgets of cells and is looked at after each; so one run serves all budgets of a table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aliquot.core.evalset import EvalSet
from aliquot.estimation.picture import Picture
from aliquot.estimation.targets import JudgingNoise, judging_noise
from aliquot.sampling.allocator import Allocator
from aliquot.stats.arrays import FloatArray

BATCH_SHARE = 0.01
"""Share of all cells that is asked before the policy looks again; a campaign with several annotators does the same."""


def run_allocator(
    evalset: EvalSet,
    scores: FloatArray,
    shares: Sequence[float],
    seed: int,
    options: Mapping[str, Any],
    costs: FloatArray | None = None,
) -> Iterator[Allocator]:
    """Run an allocator on known scores; yield it after each share (ascending) of all cells, or of their cost.

    The truth of a replay are the scores themselves, the target `given`. With the option target="testset" decisions
    count the noise of judging that the campaign's own judgments show.
    """
    price = np.ones(len(scores)) if costs is None else costs
    total = float(price.sum()) * scores.shape[1]
    allocator = Allocator(evalset, seed=seed, **({"target": "given"} | dict(options)))
    if options.get("target") == "testset":
        allocator.noise = JudgingNoise(judging_noise(evalset, str(evalset.human)).cell)
    step, spent = max(1, round(BATCH_SHARE * scores.size)), 0.0
    for share in shares:
        while spent < share * total - 1e-9:
            remaining = int(np.ceil((share * total - spent) / price.max() - 1e-9))
            rows = _answer_cells(allocator, scores, min(step, max(1, remaining)))
            spent += float(price[rows].sum())
            if not rows:  # nothing is left to judge
                spent = np.inf
        yield allocator


def _answer_cells(allocator: Allocator, scores: FloatArray, count: int) -> list[int]:
    """Ask for cells and answer them; return the rows of their items."""
    asks = allocator.next(count)
    rows = [allocator.rows[str(ask.item)] for ask in asks]
    columns = [allocator.columns[ask.system] for ask in asks]
    values = scores[rows, columns].tolist()
    allocator.add([(ask.item, ask.system, value) for ask, value in zip(asks, values, strict=True)])
    return rows


@dataclass(frozen=True)
class AdaptiveRun:
    """One adaptive campaign until its question was decided, or its cells ended."""

    cells: int  # judged when it stopped
    decided: bool  # whether the question was decided
    right: bool  # whether everything that was decided is true
    best: str | None  # the system found best, if one was


def run_until_decided(
    evalset: EvalSet,
    scores: FloatArray,
    seed: int,
    options: Mapping[str, Any],
    *,
    max_share: float = 1.0,
    step: float = BATCH_SHARE,
) -> AdaptiveRun:
    """Run an adaptive campaign until the monitor says stop, at most for a share of all cells."""
    shares = np.append(np.arange(step, max_share - 1e-9, step), max_share).tolist()
    states = (
        (allocator.asked, allocator.advice().picture)
        for allocator in run_allocator(evalset, scores, shares, seed, options)
    )
    cells, picture = _find_first_stop(states)
    return AdaptiveRun(cells, picture.stop, count_wrong_decisions(picture, evalset, scores) == 0, picture.best)


def count_wrong_decisions(picture: Picture, evalset: EvalSet, scores: FloatArray) -> int:
    """Count decided pairs whose order differs over the whole set; a pair that ties there should not be decided.

    Asked for the best system, only what is decided against it can be wrong: the order of the others is not promised.
    """
    truth = dict(zip(evalset.systems, scores.mean(axis=0).tolist(), strict=True))
    best = max(truth.values())
    relevant = [pair for pair in picture.decided if picture.question != "best" or truth[pair.b] == best]
    return sum(truth[pair.a] <= truth[pair.b] for pair in relevant)


def _find_first_stop(states: Iterator[tuple[int, Picture]]) -> tuple[int, Picture]:
    """Return the first state that says stop, or the last."""
    for cells, picture in states:
        last = cells, picture
        if picture.stop:
            break
    return last
