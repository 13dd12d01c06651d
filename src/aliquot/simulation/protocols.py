"""The study of WMT's sampling protocols (Knowles and Lo 2023): does a sample rank systems as the whole set does?

For every score (metrics as well as people's), protocol, and matching or separate draws: the number of sets whose
ranking changed, in the best, the median and the worst of 13 runs; and how well samples keep document lengths. Where
people judged a part of a set only, that part is a sample too ("as judged", their "Sampled at WMT"): metrics, which have
scores of everything, tell whether it ranks systems as the whole set does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from aliquot.core.conventions import usable_metrics
from aliquot.core.evalset import EvalSet
from aliquot.core.parallel import run_in_order
from aliquot.core.result import Result, frame_of, make_signature
from aliquot.core.view import Column, View
from aliquot.errors import DataError, OptionError, quoted, unknown_name
from aliquot.io.inputs import DataLike, as_evalsets
from aliquot.sampling.summary import length_shares
from aliquot.simulation.replay import ReplaySet, draw_items
from aliquot.simulation.setup import BudgetPoint, keep_complete, number_duplicates, parse_budgets, resolve_method
from aliquot.stats.arrays import BoolArray
from aliquot.stats.system_correlation import count_swapped_pairs
from aliquot.validation import at_least

PROTOCOLS = ("segments", "documents", "snippets_fixed", "snippets_budgeted")
JUDGED = "as judged"
"""The row for what people judged in the past; as a budget, `judged`: each set's own coverage."""
DEFAULT_BUDGET = "30%"
RUNS = SEED = 13  # as theirs
Progress = Callable[[int, int], None]
MAX_SCORES = 8


@dataclass(frozen=True)
class ProtocolRow:
    """Sets with a ranking change, of those that have the score: the fewest, the median and the most over the runs.

    `budget` is NaN where each set has its own (what people judged).
    """

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


@dataclass(frozen=True)
class CoverageRow:
    """Share of the items that people judged, by system, and the mean over the systems that they judged at all."""

    data: str
    mean: float
    systems: dict[str, float]


@dataclass(frozen=True, eq=False)
class ProtocolStudy(Result):
    """The result of `replay_protocols`."""

    rows: tuple[ProtocolRow, ...]
    lengths: tuple[LengthRow, ...]
    coverage: tuple[CoverageRow, ...]
    runs: int
    sets: int
    notes: tuple[str, ...]
    signature: str

    def to_frame(self) -> pl.DataFrame:
        """One row for each score, protocol and kind of draw."""
        return frame_of(self.rows, ProtocolRow)

    def document(self) -> dict[str, Any]:
        """Return the fields; the budget of a row is null where each set has its own."""
        return {
            "protocols": self.rows,
            "document_lengths": self.lengths,
            **self.fields_without("rows", "lengths"),
        }

    def views(self) -> list[View]:
        """Changes of rankings, what people judged, and document lengths by set."""
        caption = f"best, median and worst of {self.runs} runs; fewer changes are better"
        if any(row.protocol == JUDGED for row in self.rows):
            caption += f". {JUDGED}: the part of each set that people judged, once; it counts where they left out some"
        views = [View("protocols", self.rows, _CHANGE_COLUMNS, title="Sets whose ranking changes", caption=caption)]
        if self.coverage:
            note = "share of the items judged for a system; by system in --json"
            views.append(View("coverage", self.coverage, _COVERAGE_COLUMNS, title="Judged by people", caption=note))
        for data in dict.fromkeys(row.data for row in self.lengths):
            rows = [{"protocol": row.protocol, **row.shares} for row in self.lengths if row.data == data]
            columns = [Column(name, kind="name" if name == "protocol" else "share") for name in rows[0]]
            title = f"{data}: share of items from documents of this length"
            views.append(View(f"document lengths of {data}", rows, columns, title=title))
        return views


_CHANGE_COLUMNS = (
    Column("score", kind="name"),
    Column("protocol", kind="name"),
    Column("draws", lambda row: "matching" if row.matching else "separate", "text"),
    Column("best", kind="count"),
    Column("median", lambda row: f"{row.median:g}"),
    Column("worst", kind="count"),
    Column("of sets", "sets", "count"),
)
_COVERAGE_COLUMNS = (
    Column("data", kind="name"),
    Column("mean", kind="share"),
    Column("least", lambda row: min(row.systems.values()), "share"),
    Column("most", lambda row: max(row.systems.values()), "share"),
    Column("systems", lambda row: len(row.systems), "count"),
)


def replay_protocols(
    data: DataLike | Sequence[DataLike],
    budget: float | str = DEFAULT_BUDGET,
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
        budget: items to sample from each set, a share or a number; or "judged", the share of each set that people
            judged, averaged over its systems (their setting).
        human: the human score; it is studied beside the metrics.
        scores: scores to rank by; the human score and the metrics that most sets have, at most eight, by default. Sets
            that lack a score, or have too few complete items of it, do not count for it.
        runs: draws of every protocol.
        seed: same seed, same study.
        jobs: processes; None for all cores.
        engine: "dask://host:port" for a cluster.
        progress: called with the number of finished and of all parts.

    >>> import aliquot
    >>> study = replay_protocols(aliquot.synthetic(items=60, systems=4, seed=1), runs=3)
    >>> study.rows[0].protocol, study.rows[0].sets
    ('segments', 1)
    """
    sets = number_duplicates(as_evalsets(data))
    at_least("runs", runs, 1)
    names = _choose_scores(sets, human, scores)
    coverage = [_compute_coverage(evalset, human) for evalset in sets]
    budgets = [_resolve_budget(budget, *pair) for pair in zip(sets, coverage, strict=True)]
    tasks = [(number, evalset, name) for number, evalset in enumerate(sets) for name in names if name in evalset.scores]
    work = _ProtocolReplays(tuple(budgets), human, runs, seed)
    changes = run_in_order(work, tasks, jobs=jobs, engine=engine, progress=progress)
    rows = [
        row
        for name in names
        for row in _summarise_runs(name, [part for score, part in changes if score == name], budget)
    ]
    if not rows:
        raise DataError(f"no set has enough complete items of a score to rank systems by; looked at {quoted(names)}")
    notes = [f"{evalset.name}: no documents, so segments only" for evalset in sets if evalset.documents is None]
    line = make_signature(
        "simulate:protocols",
        None,
        budget=budget,
        scores=",".join(names),
        runs=runs,
        seed=seed,
        data=",".join(evalset.fingerprint for evalset in sets),
    )
    lengths = [
        row
        for number, evalset in enumerate(sets)
        for row in _compare_lengths(evalset, budgets[number], human, runs, seed)
    ]
    known_coverage = tuple(row for row in coverage if row is not None)
    return ProtocolStudy(tuple(rows), tuple(lengths), known_coverage, runs, len(sets), tuple(notes), line)


def _find_judged_cells(evalset: EvalSet, human: str | None) -> BoolArray | None:
    """Return which cells people judged; None if they judged none."""
    name = human or evalset.human
    if name is None or name not in evalset.scores:
        return None
    judged: BoolArray = np.isfinite(evalset.scores[name])
    return judged if judged.any() else None


def _compute_coverage(evalset: EvalSet, human: str | None) -> CoverageRow | None:
    """Share of each system's items that people judged (their Tables 6 to 8); systems nobody judged are left out."""
    judged = _find_judged_cells(evalset, human)
    if judged is None:
        return None
    shares = {name: float(x) for name, x in zip(evalset.systems, judged.mean(axis=0), strict=True) if x > 0}
    return CoverageRow(evalset.name, float(np.mean(list(shares.values()))), shares)


def _resolve_budget(budget: float | str, evalset: EvalSet, coverage: CoverageRow | None) -> float | str:
    """Return the budget of a set: `budget`, or the share that people judged."""
    if str(budget).strip() != "judged":
        _parse_budget(budget, evalset)
        return budget
    if coverage is None:
        raise DataError(f"{evalset.name}: it has no human scores, so no coverage to use as a budget; name a budget")
    return f"{100 * coverage.mean:.9g}%"


def _choose_scores(sets: Sequence[EvalSet], human: str | None, scores: Sequence[str] | None) -> list[str]:
    """Return the names of the scores to study; each is in some set."""
    available = dict.fromkeys(name for evalset in sets for name in evalset.scores)
    for name in [*(scores or []), *([human] if human else [])]:
        if name not in available:
            raise unknown_name("score", name, available)
    names = list(dict.fromkeys(scores)) if scores is not None else _list_common_scores(sets, human)
    if not names:
        raise DataError("no score to rank systems by: neither human scores nor metrics")
    return names


def _parse_budget(budget: float | str, evalset: EvalSet) -> BudgetPoint:
    """Parse the one budget of a study."""
    points = parse_budgets(budget, evalset.n_items, of=evalset.name)
    if len(points) != 1:
        raise OptionError(f"`budget` is {budget}; the study of protocols takes one budget, for instance 30%")
    return points[0]


def _list_common_scores(sets: Sequence[EvalSet], human: str | None) -> list[str]:
    """The human score and those metrics that most sets have, in the order of the first set that has them."""
    count: dict[str, int] = {}
    for evalset in sets:
        people = human or evalset.human
        for name in [*([people] if people else []), *usable_metrics(evalset)]:
            count[name] = count.get(name, 0) + 1
    judged = [name for name in count if any(name in (human, evalset.human) for evalset in sets)]
    metrics = sorted((name for name in count if name not in judged), key=lambda name: -count[name])
    return [*judged, *metrics][:MAX_SCORES]


Changes = dict[tuple[str, bool], list[int]]


@dataclass(frozen=True)
class _ProtocolReplays:
    """The work on one set and score; an object, so that it can travel to other processes."""

    budgets: tuple[float | str, ...]  # by set
    human: str | None
    runs: int
    seed: int

    def __call__(self, task: tuple[int, EvalSet, str]) -> tuple[str, Changes]:
        number, evalset, name = task
        try:
            complete, _ = keep_complete(evalset, name)
        except DataError:  # too few complete items for this score: it does not count
            return name, {}
        point = _parse_budget(self.budgets[number], complete)
        changed: Changes = {}
        for protocol in _list_protocols(complete):
            for matching in (True, False):
                replay_set = ReplaySet(complete, matching=matching)
                changed[protocol, matching] = [
                    int(_ranking_changes(replay_set, protocol, point, [self.seed, number, run]))
                    for run in range(self.runs)
                ]
        return name, changed | _compare_judged(complete, name, self.human or evalset.human)


def _compare_judged(complete: EvalSet, score: str, human: str | None) -> Changes:
    """Return whether the judged part ranks systems by this score otherwise than all items; empty if all are judged."""
    judged = None if score == human else _find_judged_cells(complete, human)
    if judged is None:
        return {}
    systems = judged.any(axis=0)
    cells, values = judged[:, systems], complete.scores[score][:, systems]
    if cells.all() or systems.sum() < 2:
        return {}
    means = np.where(cells, values, 0.0).sum(axis=0) / cells.sum(axis=0)
    matching = bool((cells == cells[:, :1]).all())
    return {(JUDGED, matching): [int(count_swapped_pairs(means[None], values.mean(axis=0))[0] > 0)]}


def _list_protocols(evalset: EvalSet) -> tuple[str, ...]:
    return PROTOCOLS if evalset.documents is not None else PROTOCOLS[:1]


def _ranking_changes(replay_set: ReplaySet, protocol: str, point: BudgetPoint, seed: list[int]) -> bool:
    """Return whether any two systems change places; a sample without scores of a system counts as a change."""
    chosen = draw_items(replay_set, resolve_method(protocol, replay_set.evalset), point, np.random.default_rng(seed))
    if not len(chosen.rows):  # no whole document is within the budget
        return True
    scores = replay_set.scores[chosen.rows]
    if chosen.systems is not None:
        is_asked = np.array([[name in names for name in replay_set.evalset.systems] for names in chosen.systems])
        scores = np.where(is_asked, scores, np.nan)
    judged = np.isfinite(scores).sum(axis=0)
    if (judged == 0).any():
        return True
    means = np.nansum(scores, axis=0) / judged
    return bool(count_swapped_pairs(means[None], replay_set.truth.means)[0] > 0)


def _summarise_runs(name: str, parts: list[Changes], budget: float | str) -> list[ProtocolRow]:
    rows = []
    for protocol in (*PROTOCOLS, JUDGED):
        for matching in (True, False):
            runs = [part[protocol, matching] for part in parts if (protocol, matching) in part]
            if runs:
                count = np.sum(runs, axis=0)
                spread = int(count.min()), float(np.median(count)), int(count.max())
                share = float("nan") if protocol == JUDGED else _parse_share(budget)
                rows.append(ProtocolRow(name, protocol, matching, share, len(runs), *spread))
    return rows


def _parse_share(budget: float | str) -> float:
    text = str(budget).strip()
    if text == "judged":
        return float("nan")
    return float(text.removesuffix("%")) / 100 if text.endswith("%") else float(text)


def _compare_lengths(evalset: EvalSet, budget: float | str, human: str | None, runs: int, seed: int) -> list[LengthRow]:
    """Mean shares of document lengths over the runs, of the whole set (their Table 4), and of what was judged."""
    codes = evalset.documents
    if codes is None:
        return []
    point, replay_set = _parse_budget(budget, evalset), ReplaySet(evalset)
    full = {share.name: share.full for share in length_shares(codes, np.arange(len(codes)))}
    rows = [LengthRow(evalset.name, "all items", full)]
    for protocol in PROTOCOLS:
        method = resolve_method(protocol, evalset)
        samples = [
            draw_items(replay_set, method, point, np.random.default_rng([seed, run])).rows for run in range(runs)
        ]
        together_shares = length_shares(codes, np.concatenate(samples))
        rows.append(LengthRow(evalset.name, protocol, {share.name: share.selected for share in together_shares}))
    judged = _find_judged_cells(evalset, human)
    if judged is not None and not judged[:, judged.any(axis=0)].all():
        cells = np.repeat(np.arange(len(codes)), judged.sum(axis=1))
        rows.append(LengthRow(evalset.name, JUDGED, {x.name: x.selected for x in length_shares(codes, cells)}))
    return rows
