"""Replays of each annotator and system alone: the study of Saldias et al. 2022.

A simulation is one annotator's scores of one system: what is known is the metrics, what is wanted the mean over the
items that the annotator judged. Samples of 5% to 50% are drawn, and techniques compared by the error of that mean; a
technique wins a simulation at a sample size where its average error is below that of a random sample's mean.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from aliquot.core.evalset import EvalSet
from aliquot.core.parallel import run_in_order
from aliquot.core.result import Result, frame_of, make_signature
from aliquot.core.view import Column, View
from aliquot.errors import DataError
from aliquot.estimation.intervals import IntervalKind
from aliquot.io.inputs import DataLike, as_evalsets
from aliquot.metric_eval.measures import MEASURES
from aliquot.simulation.replay import INTERVALS, ReplaySet, describe_range, draw_items, estimate_outcome, stack_outcomes
from aliquot.simulation.setup import (
    BASELINE,
    DEFAULT_BUDGETS,
    number_duplicates,
    parse_budgets,
    parse_methods,
    resolve_method,
    validate_repeats,
)
from aliquot.simulation.units import name_errors
from aliquot.validation import one_of

DEFAULT_METHODS = (
    "stratified:bins=document,rounding=nearest+stratified",
    "segments+cv_published:covariance=centred",
    "stratified:bins=document,rounding=nearest+paper_best",
    "auto",
)
MIN_JUDGED = 20
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class AnnotatorRow:
    """One method at one budget, averaged over the simulations; budget NaN: the mean over the budgets."""

    method: str
    budget: float
    error: float  # mean absolute error
    spread: float  # its standard deviation over samples
    win: float  # share of the simulations in which the mean error is below random sampling's; NaN for that itself
    coverage: float  # share of the samples whose error is within the interval
    slack: float  # half width less the error
    half: float  # half width of the interval
    simulations: int


@dataclass(frozen=True, eq=False)
class AnnotatorStudy(Result):
    """The result of `replay_annotators`."""

    rows: tuple[AnnotatorRow, ...]
    simulations: int
    notes: tuple[str, ...]
    signature: str

    def summary(self) -> list[AnnotatorRow]:
        """The rows over all budgets: their Tables 1 to 4 and 6."""
        return [row for row in self.rows if np.isnan(row.budget)]

    def to_frame(self) -> pl.DataFrame:
        """One row for each method and budget, and one for all budgets."""
        return frame_of(self.rows, AnnotatorRow)

    def views(self) -> list[View]:
        """One row for each method, averaged over budgets."""
        columns = [
            Column("method", kind="name"),
            Column("error"),
            Column("sdev", "spread"),
            Column("win", kind="share"),
            Column("coverage", kind="share"),
            Column("slack"),
            Column("half width", "half"),
        ]
        caption = (
            f"means over {self.simulations} annotators' systems and the budgets; win: how often the error is below "
            "that of a random sample's mean; slack: half width of the interval less the error. By budget: --json, -o."
        )
        return [View("methods", self.summary(), columns, title="Each annotator and system alone", caption=caption)]


def replay_annotators(
    data: DataLike | Sequence[DataLike],
    methods: str | Sequence[str] = DEFAULT_METHODS,
    budgets: float | str | Sequence[float | str] = DEFAULT_BUDGETS,
    *,
    repeats: int = 100,
    human: str | None = None,
    metric: str | None = None,
    interval: IntervalKind = "t",
    value_range: tuple[float, float] | None = None,
    level: float = 0.95,
    seed: int = 0,
    jobs: int | None = 1,
    progress: Progress | None = None,
) -> AnnotatorStudy:
    """Replay every annotator and system alone.

    Args:
        data: past campaigns; where single judgments with annotators are there, each annotator is replayed alone,
            otherwise each system's human scores are.
        methods: designs joined by + to estimators; a random sample's mean is always there to compare with.
        budgets: shares of the items that an annotator judged.
        repeats: samples of each size.
        human: the human score, which also names the criterion of the judgments.
        metric: the metric for methods that need one and name none.
        interval: t, hoeffding or bernstein.
        value_range: ends of the scale for the last two; by default those of the simulation's scores.
        level: coverage that intervals promise.
        seed: same seed, same study.
        jobs: processes; None for all cores.
        progress: called with the number of finished and of all simulations.

    >>> import aliquot
    >>> data = aliquot.synthetic(items=120, systems=2, seed=1, annotators=2)
    >>> study = replay_annotators(data, "segments+cv", "20%", repeats=5)
    >>> study.simulations, [row.method for row in study.summary()]
    (4, ['random', 'segments+cv'])
    """
    one_of("interval", interval, INTERVALS)
    validate_repeats(repeats)
    specs = parse_methods(methods)
    specs = specs if BASELINE in specs else [BASELINE, *specs]
    sets = number_duplicates(as_evalsets(data))
    notes: list[str] = []
    parts = [part for evalset in sets for part in split_by_annotator(evalset, human, notes)]
    if not parts:
        raise DataError(f"no annotator judged {MIN_JUDGED} items of a system; give past campaigns with judgments")
    if value_range is not None:
        replay_sets = (ReplaySet(part, interval=interval, value_range=value_range) for part in parts)
        notes += [note for replay_set in replay_sets for note in describe_range(replay_set)][:1]
    work = _AnnotatorReplays(tuple(specs), budgets, repeats, metric, interval, value_range, level, seed)
    outcomes = run_in_order(work, parts, jobs=jobs, progress=progress)
    line = make_signature(
        "simulate:by_annotator",
        None,
        methods=",".join(specs),
        repeats=repeats,
        metric=metric,
        interval=None if interval == "t" else interval,
        range=None if value_range is None else f"{value_range[0]:g},{value_range[1]:g}",
        seed=seed,
        data=",".join(evalset.fingerprint for evalset in sets),
    )
    return AnnotatorStudy(
        tuple(_average_simulations(specs, np.array(outcomes), work.shares(parts[0]))), len(parts), tuple(notes), line
    )


def split_by_annotator(evalset: EvalSet, human: str | None, notes: list[str]) -> Iterator[EvalSet]:
    """Yield a set for each annotator and system: the judged items with that annotator's scores."""
    name = human or evalset.human
    if name is None:
        raise DataError(f"{evalset.name}: no score is marked as human; name it in `human`")
    cells = _collect_annotator_tables(evalset, name)
    if cells is None:
        notes.append(f"{evalset.name}: no single judgments with annotators; each system's human scores are replayed")
        cells = [("", evalset.human_score(human))]
    skipped = 0
    for annotator, table in cells:
        for column, system in enumerate(evalset.systems):
            rows = np.flatnonzero(np.isfinite(table[:, column]))
            if len(rows) < MIN_JUDGED:
                skipped += len(rows) > 0
                continue
            label = " ".join(filter(None, [evalset.name, annotator, system]))
            alone = replace(evalset, judgments=None).keep([evalset.ids[row] for row in rows], [system])
            yield replace(alone.with_score(name, table[rows][:, [column]]).with_human(name), name=label)
    if skipped:
        notes.append(
            f"{evalset.name}: left out {skipped} pairs of annotator and system with fewer than {MIN_JUDGED} items"
        )


def _collect_annotator_tables(evalset: EvalSet, name: str) -> list[tuple[str, np.ndarray]] | None:
    """Return items x systems tables of mean scores by annotator; None without annotator ids."""
    if evalset.judgments is None:
        return None
    answers = evalset.judgments.answers().filter(pl.col("annotator").is_not_null() & pl.col("value").is_not_null())
    if "criterion" in answers.columns and name in answers["criterion"].unique().to_list():
        answers = answers.filter(pl.col("criterion") == name)
    if not len(answers):
        return None
    row_of = {item: row for row, item in enumerate(evalset.ids)}
    column_of = {system: column for column, system in enumerate(evalset.systems)}
    means = answers.group_by("annotator", "item", "system").agg(pl.col("value").mean()).sort("annotator")
    tables: dict[str, np.ndarray] = {}
    for annotator, item, system, value in means.iter_rows():
        if item in row_of and system in column_of:
            table = tables.setdefault(str(annotator), np.full((evalset.n_items, evalset.n_systems), np.nan))
            table[row_of[item], column_of[system]] = value
    return list(tables.items()) or None


@dataclass(frozen=True)
class _AnnotatorReplays:
    """The work on one simulation; an object, so that it can travel to other processes."""

    methods: tuple[str, ...]
    budgets: Any
    repeats: int
    metric: str | None
    interval: IntervalKind
    value_range: tuple[float, float] | None
    level: float
    seed: int

    def shares(self, part: EvalSet) -> list[float]:
        """Return the budgets as written."""
        return [point.written for point in parse_budgets(self.budgets, part.n_items, of=part.name)]

    def __call__(self, part: EvalSet) -> np.ndarray:
        """Methods x budgets x (mean error, its deviation over samples, coverage, slack, half width)."""
        replay_set = ReplaySet(part, level=self.level, interval=self.interval, value_range=self.value_range)
        points = parse_budgets(self.budgets, part.n_items, of=part.name)
        results = np.full((len(self.methods), len(points), 5), np.nan)
        for row, spec in enumerate(self.methods):
            with name_errors(part.name, spec):
                method = resolve_method(spec, part, self.metric)
                for column, point in enumerate(points):
                    outcomes = []
                    for repeat in range(self.repeats):
                        label = zlib.crc32(f"{part.name}|{spec}".encode())
                        rng = np.random.default_rng([self.seed, label, column, repeat])
                        outcomes.append(
                            estimate_outcome(replay_set, method, draw_items(replay_set, method, point, rng), rng)
                        )
                    results[row, column] = _summarise_samples([o for o in outcomes if o is not None], replay_set)
        return results


def _summarise_samples(outcomes: list[Any], replay_set: ReplaySet) -> list[float]:
    if not outcomes:
        return [float("nan")] * 5
    stacked = stack_outcomes(outcomes)
    errors = MEASURES["mae"].function(stacked, replay_set.truth)  # one system: the error itself
    other_measures = [MEASURES[name].function(stacked, replay_set.truth) for name in ("coverage", "slack", "width")]
    spread = float(errors.std(ddof=1)) if len(errors) > 1 else float("nan")
    coverage, slack, width = (float(np.nanmean(v)) if np.isfinite(v).any() else float("nan") for v in other_measures)
    return [float(errors.mean()), spread, coverage, slack, width / 2]


def _average_simulations(specs: Sequence[str], outcomes: np.ndarray, shares: Sequence[float]) -> Iterator[AnnotatorRow]:
    """Average over simulations; `found` is simulations x methods x budgets x numbers."""
    baseline_errors = outcomes[:, specs.index(BASELINE), :, 0]
    for at, method in enumerate(specs):
        wins = (
            (outcomes[:, at, :, 0] < baseline_errors).mean(axis=0)
            if method != BASELINE
            else np.full(len(shares), np.nan)
        )
        means = np.nanmean(outcomes[:, at], axis=0)
        for places, share in [
            *(([at], share) for at, share in enumerate(shares)),
            ([*range(len(shares))], float("nan")),
        ]:
            error, spread, coverage, slack, half = means[places].mean(axis=0).tolist()
            win = float(np.mean(wins[places]))
            yield AnnotatorRow(method, share, error, spread, win, coverage, slack, half, len(outcomes))
