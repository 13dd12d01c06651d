"""The study of WMT's sampling protocols (Knowles and Lo 2023): does a sample rank systems as the whole set does?

For every score (metrics as well as people's), protocol, and matching or separate draws: the number of sets whose
ranking changed, in the best, the median and the worst of 13 runs; and how well samples keep document lengths.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from aliquot.core.conventions import usable_metrics
from aliquot.core.evalset import EvalSet
from aliquot.core.parallel import run_tasks
from aliquot.core.result import signature
from aliquot.errors import DataError, OptionError, quoted, unknown_name
from aliquot.io.inputs import DataLike, as_evalsets
from aliquot.sampling.summary import length_shares
from aliquot.simulation.replay import Stage, draw
from aliquot.simulation.setup import BudgetPoint, distinct, parse_budgets, population, replay_method
from aliquot.stats.system_correlation import swapped_pairs

PROTOCOLS = ("segments", "documents", "snippets_fixed", "snippets_budgeted")
RUNS = SEED = 13  # as theirs
Progress = Callable[[int, int], None]
_SCORES = 8


@dataclass(frozen=True)
class ProtocolRow:
    """Sets with a ranking change, of those that have the score: the fewest, the median and the most over the runs."""

    score: str
    protocol: str
    matching: bool
    budget: float
    sets: int
    best: int
    median: float
    worst: int


@dataclass(frozen=True)
class LengthRow:
    """Share of the items that come from documents of 0-9, 10-19, ... items, on one set."""

    data: str
    protocol: str
    shares: dict[str, float]


@dataclass(frozen=True, eq=False)
class ProtocolStudy:
    """The result of `simulate --protocols`."""

    rows: tuple[ProtocolRow, ...]
    lengths: tuple[LengthRow, ...]
    runs: int
    sets: int
    notes: tuple[str, ...]
    signature: str

    def to_frame(self) -> pl.DataFrame:
        """One row for each score, protocol and kind of draw."""
        return pl.DataFrame([vars(row) for row in self.rows])

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {
            "protocols": [vars(row) for row in self.rows],
            "document_lengths": [vars(row) for row in self.lengths],
            "runs": self.runs,
            "sets": self.sets,
            "notes": list(self.notes),
            "signature": self.signature,
        }


def protocols(
    data: DataLike | Sequence[DataLike],
    budget: float | str = "30%",
    *,
    human: str | None = None,
    scores: Sequence[str] | None = None,
    runs: int = RUNS,
    seed: int = SEED,
    jobs: int | None = 1,
    engine: str | None = None,
    progress: Progress | None = None,
) -> ProtocolStudy:
    """Compare the WMT protocols on past data.

    Args:
        data: one set or several; those without documents show segments only.
        budget: items to sample from each set, a share or a number.
        human: the human score; it is studied beside the metrics.
        scores: scores to rank by; the human score and the metrics that most sets have, at most eight, by default. Sets
            that lack a score, or have too few complete items of it, do not count for it.
        runs: draws of every protocol.
        seed: same seed, same study.
        jobs: processes; None for all cores.
        engine: "dask://host:port" for a cluster.
        progress: called with the number of finished and of all parts.

    >>> import aliquot
    >>> study = protocols(aliquot.synthetic(items=60, systems=4, seed=1), runs=3)
    >>> study.rows[0].protocol, study.rows[0].sets
    ('segments', 1)
    """
    sets = distinct(as_evalsets(data))
    if runs < 1:
        raise OptionError(f"runs is {runs}; choose at least 1")
    names = _scores(sets, human, scores)
    for evalset in sets:
        _one(budget, evalset)
    tasks = [(number, evalset, name) for number, evalset in enumerate(sets) for name in names if name in evalset.scores]
    found: list[tuple[int, str, dict[tuple[str, bool], list[int]]]] = []
    for done, result in enumerate(run_tasks(_Study(budget, runs, seed), tasks, jobs=jobs, engine=engine), start=1):
        found.append(result)
        if progress is not None:
            progress(done, len(tasks))
    rows = [row for name in names for row in _rows(name, [part for _, score, part in found if score == name], budget)]
    if not rows:
        raise DataError(f"no set has enough complete items of a score to rank systems by; looked at {quoted(names)}")
    notes = [f"{evalset.name}: no documents, so segments only" for evalset in sets if evalset.documents is None]
    line = signature("simulate:protocols", None, budget=budget, scores=",".join(names), runs=runs, seed=seed,
                     data=",".join(evalset.fingerprint for evalset in sets))  # fmt: skip
    lengths = [row for evalset in sets for row in _lengths(evalset, budget, runs, seed)]
    return ProtocolStudy(tuple(rows), tuple(lengths), runs, len(sets), tuple(notes), line)


def _scores(sets: Sequence[EvalSet], human: str | None, scores: Sequence[str] | None) -> list[str]:
    """Names of the scores to study, each there in some set."""
    known = dict.fromkeys(name for evalset in sets for name in evalset.scores)
    for name in [*(scores or []), *([human] if human else [])]:
        if name not in known:
            raise unknown_name("score", name, known)
    names = list(dict.fromkeys(scores)) if scores is not None else _common_scores(sets, human)
    if not names:
        raise DataError("no score to rank systems by: neither human scores nor metrics")
    return names


def _one(budget: float | str, evalset: EvalSet) -> BudgetPoint:
    """The one budget of a study."""
    points = parse_budgets(budget, evalset.n_items, of=evalset.name)
    if len(points) != 1:
        raise OptionError(f"--budgets {budget}: the study of protocols takes one budget, for instance 30%")
    return points[0]


def _common_scores(sets: Sequence[EvalSet], human: str | None) -> list[str]:
    """The human score and those metrics that most sets have, in the order of the first set that has them."""
    count: dict[str, int] = {}
    for evalset in sets:
        people = human or evalset.human
        for name in [*([people] if people else []), *usable_metrics(evalset)]:
            count[name] = count.get(name, 0) + 1
    judged = [name for name in count if any(name in (human, evalset.human) for evalset in sets)]
    metrics = sorted((name for name in count if name not in judged), key=lambda name: -count[name])
    return [*judged, *metrics][:_SCORES]


@dataclass(frozen=True)
class _Study:
    """The work on one set and score; an object, so that it can travel to other processes."""

    budget: float | str
    runs: int
    seed: int

    def __call__(self, task: tuple[int, EvalSet, str]) -> tuple[int, str, dict[tuple[str, bool], list[int]]]:
        number, evalset, name = task
        try:
            kept, _ = population(evalset, name)
        except DataError:  # too few complete items for this score: it does not count
            return number, name, {}
        point = _one(self.budget, kept)
        changed = {}
        for protocol in _possible(kept):
            for matching in (True, False):
                stage = Stage(kept, matching=matching)
                changed[protocol, matching] = [
                    int(_changed(stage, protocol, point, [self.seed, number, run])) for run in range(self.runs)
                ]
        return number, name, changed


def _possible(evalset: EvalSet) -> tuple[str, ...]:
    return PROTOCOLS if evalset.documents is not None else PROTOCOLS[:1]


def _changed(stage: Stage, protocol: str, point: BudgetPoint, seed: list[int]) -> bool:
    """Whether any two systems change places; a sample without a system's score cannot rank it, which is a change."""
    chosen = draw(stage, replay_method(protocol, stage.evalset), point, np.random.default_rng(seed))
    scores = stage.scores[chosen.rows]
    if chosen.systems is not None:
        asked = np.array([[name in names for name in stage.evalset.systems] for names in chosen.systems])
        scores = np.where(asked, scores, np.nan)
    judged = np.isfinite(scores).sum(axis=0)
    if not len(scores) or (judged == 0).any():
        return True
    means = np.nansum(scores, axis=0) / judged
    return bool(swapped_pairs(means[None], stage.truth.means)[0] > 0)


def _rows(name: str, parts: list[dict[tuple[str, bool], list[int]]], budget: float | str) -> list[ProtocolRow]:
    rows = []
    for protocol in PROTOCOLS:
        for matching in (True, False):
            runs = [part[protocol, matching] for part in parts if (protocol, matching) in part]
            if runs:
                count = np.sum(runs, axis=0)
                spread = int(count.min()), float(np.median(count)), int(count.max())
                rows.append(ProtocolRow(name, protocol, matching, _number(budget), len(runs), *spread))
    return rows


def _number(budget: float | str) -> float:
    text = str(budget).strip()
    return float(text.removesuffix("%")) / 100 if text.endswith("%") else float(text)


def _lengths(evalset: EvalSet, budget: float | str, runs: int, seed: int) -> list[LengthRow]:
    """Mean shares of document lengths over the runs, beside those of the whole set (their Table 4)."""
    codes = evalset.documents
    if codes is None:
        return []
    point, stage = _one(budget, evalset), Stage(evalset)
    full = {share.name: share.full for share in length_shares(codes, np.arange(len(codes)))}
    rows = [LengthRow(evalset.name, "all items", full)]
    for protocol in PROTOCOLS:
        plan = replay_method(protocol, evalset)
        samples = [draw(stage, plan, point, np.random.default_rng([seed, run])).rows for run in range(runs)]
        together = length_shares(codes, np.concatenate(samples))
        rows.append(LengthRow(evalset.name, protocol, {share.name: share.selected for share in together}))
    return rows
