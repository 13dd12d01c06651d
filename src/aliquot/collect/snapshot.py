"""Live results while people judge: estimates, always-valid intervals, open questions, cost.

A snapshot is computed from data, selection and judgments alone, so that the organiser's page, `collect status --json`
and a notebook show the same numbers. The server takes one in the background when there is something new; showing it
costs the same after 100 as after 1,000,000 answers.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from aliquot.annotation.agreement import agreement
from aliquot.collect.checks import AnnotatorCard, annotator_cards
from aliquot.collect.records import PREFERENCE
from aliquot.core.evalset import EvalSet
from aliquot.core.judgments import Judgments
from aliquot.core.result import Result
from aliquot.core.selection import Selection
from aliquot.errors import AliquotError, AliquotWarning
from aliquot.estimation.estimate import estimate
from aliquot.estimation.estimate_result import Estimates
from aliquot.estimation.inputs import attach_judgments
from aliquot.estimation.monitor import Monitor
from aliquot.estimation.picture import PairState, Picture, Question
from aliquot.estimation.proxies import select_proxies, standardise_metric
from aliquot.estimation.running_sequences import Features
from aliquot.estimation.sequential import noise_of_systems, order_by_time, weigh_items
from aliquot.estimation.targets import JudgingNoise

MIN_JUDGMENTS = 2  # judged items of a system from which there is a standard error


@dataclass(frozen=True)
class LiveSystem:
    """Current numbers of one system; NaN where too little is judged."""

    system: str
    judged: int  # outputs
    mean: float  # plain mean of the judged outputs
    estimate: float  # for the whole test set, by `aliquot.estimate`
    low: float
    high: float
    always_low: float  # an interval that may be looked at as often as one likes
    always_high: float
    rank_low: int | None
    rank_high: int | None
    p_best: float
    cluster: int | None


@dataclass(frozen=True)
class Snapshot(Result):
    """The state of a campaign's question."""

    systems: tuple[LiveSystem, ...]  # best first
    pairs: tuple[PairState, ...]  # every pair, with an interval valid at every look
    decided: int
    open: int
    stop: bool
    advice: str  # in words: stop, or what is still open and how much it needs
    gain: float  # by how many judgments the estimates are better than plain means of the same number
    judgments: int
    cells: int
    seconds: float
    agreement: float  # Krippendorff's alpha over outputs judged more than once; NaN where there are none
    annotators: tuple[AnnotatorCard, ...]
    notes: tuple[str, ...] = ()
    choices: int | None = None  # between two systems, as `compare` counts them; None where nothing is compared

    def to_frame(self) -> pl.DataFrame:
        """One row for each system."""
        return pl.DataFrame([vars(row) for row in self.systems])


def take_snapshot(
    data: EvalSet,
    selection: Selection | None,
    judgments: Judgments,
    *,
    question: Question = "best",
    alpha: float = 0.05,
    criterion: str | None = None,
    picture: Picture | None = None,
) -> Snapshot:
    """Compute everything that the organiser sees from the judgments so far.

    Args:
        data: the whole test set.
        selection: what is being judged, with probabilities.
        judgments: all so far; those marked do not count, those of planted cells only in the annotators' cards.
        question: what the campaign should decide: "best" or "ranking".
        alpha: error rate of all decisions of the whole campaign.
        criterion: which of several criteria; the first by default, with a note.
        picture: what an allocator says is decided, where one leads the campaign.

    >>> import aliquot
    >>> data = aliquot.synthetic(items=60, systems=3, seed=3, annotators=2)
    >>> now = take_snapshot(data, None, data.judgments)
    >>> [row.system for row in now.systems], now.decided + now.open
    (['sys1', 'sys2', 'sys3'], 3)
    """
    notes: list[str] = []
    if criterion is None and len(judgments.criteria) > 1:
        criterion, *other_criteria = judgments.criteria
        notes.append(
            f"systems are compared by {criterion}; {join_names(other_criteria)} by `aliquot estimate --criterion`"
        )
    counted = about_systems(judgments, criterion)
    cards = annotator_cards(judgments)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AliquotWarning)
        estimates = _estimate_systems(data, selection, counted, notes)
        monitor, selected = None, selection if picture is None else None  # an allocator selects more by itself
        if picture is None:
            monitor, picture = _monitor_judgments(data, selection, counted, question, alpha, notes)
    if picture is not None and estimates is not None:
        picture = picture.confirm_leaders(estimates.contenders)
    systems = _list_systems(data, counted, estimates, _always_valid_intervals(estimates, monitor, picture))
    gain = (
        0.0
        if estimates is None
        else sum(s.effective_n - s.n for s in estimates.systems if math.isfinite(s.effective_n))
    )
    pairs = picture.pairs if picture is not None else ()
    waiting = [row.system for row in systems if not row.judged]  # nothing is decided while one of them may be the best
    decided = sum(pair.decided for pair in pairs)
    cells = counted.cell_means().height if len(counted) else 0
    return Snapshot(
        systems,
        pairs,
        decided,
        len(pairs) - decided,
        picture is not None and picture.stop and not waiting,
        _write_advice(picture, systems, waiting, selected),
        max(0.0, gain),
        len(counted),
        cells,
        float(judgments.table["seconds"].sum() or 0.0),
        _compute_alpha(counted),
        cards,
        tuple(notes),
    )


def _write_advice(
    picture: Picture | None, systems: Sequence[LiveSystem], waiting: Sequence[str], selection: Selection | None
) -> str:
    """Write the advice; the leader is that of the estimates, as on the page."""
    if picture is None:
        return "go on: too little is judged to say anything"
    if waiting:
        return f"go on: no output of {join_names(waiting)} is judged yet"
    if picture.stop or picture.leaders or picture.question != "best":
        return picture.reason
    beaten = {pair.b for pair in picture.decided}
    rivals = [row.system for row in systems if row.system not in beaten or row.cluster == 1]
    text = f"go on: {join_names(rivals)} may still be the best"
    pair = next((pair for pair in picture.pairs if {pair.a, pair.b} == set(rivals[:2])), None)
    if pair is None:
        return text
    lacking = selection is not None and pair.more_items and pair.items + pair.more_items > len(selection)
    return (
        f"{text}; {picture.describe_need(pair)}{f' ({len(selection or ())} are selected: top up)' if lacking else ''}"
    )


def join_names(names: Sequence[str], limit: int = 4) -> str:
    """Names in a sentence.

    >>> join_names(["A", "B", "C"])
    'A, B and C'
    """
    if len(names) > limit:
        return f"{', '.join(names[: limit - 1])} and {len(names) - limit + 1} others"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def about_systems(judgments: Judgments, criterion: str | None = None) -> Judgments:
    """The judgments that count in scores: usable, on no planted cell, of one criterion; as `estimate` counts them."""
    table = judgments.usable().table
    if criterion is not None:
        table = table.filter(pl.col("criterion") == criterion)
    if "control" in table.columns:
        control = pl.col("control").cast(pl.String)
        table = table.filter(control.is_null() | (control == "false"))
    return Judgments(table)


def _estimate_systems(
    data: EvalSet, selection: Selection | None, counted: Judgments, notes: list[str]
) -> Estimates | None:
    if not len(counted):
        return None
    try:
        estimates = estimate(data, selection=selection, judgments=counted, human=data.human)
    except AliquotError as error:  # too few judgments, most often; the page says so instead of failing
        notes.append(str(error))
        return None
    notes += estimates.notes
    return estimates


def _monitor_judgments(
    data: EvalSet, selection: Selection | None, counted: Judgments, question: Question, alpha: float, notes: list[str]
) -> tuple[Monitor | None, Picture | None]:
    """Feed a monitor the cells in the order in which they were judged."""
    judged = set(counted.table["system"].unique())
    systems = [name for name in data.systems if name in judged]
    if len(systems) < 2:
        return None, None
    try:
        weight, about = ({}, []) if selection is None else weigh_items(selection)
        evalset, _ = attach_judgments(data, counted, selection, data.human)
    except AliquotError as error:
        notes.append(f"no intervals for every look: {error}")
        return None, None
    notes += about
    scores = evalset.human_score()
    order, _ = order_by_time(evalset)
    row_of = {item: row for row, item in enumerate(evalset.ids)}
    monitor = Monitor(
        systems, data.n_items, question=question, alpha=alpha, kind="asymptotic", features=_stack_metrics(data, systems)
    )
    monitor.noise = _measure_noise(evalset, systems)
    for item in order:
        cells = {s: float(v) for s, v in zip(data.systems, scores[row_of[item]], strict=True) if np.isfinite(v)}
        if cells:
            monitor.add(item, cells, weight.get(item, 1.0))
    return monitor, monitor.picture()


def _measure_noise(evalset: EvalSet, systems: Sequence[str]) -> JudgingNoise:
    """Measure judging noise as `estimate` does; doubled for comparisons, whose outcomes are opposite."""
    noise = noise_of_systems(evalset, systems)
    compared = evalset.judgments is not None and evalset.judgments.criteria == [PREFERENCE]
    return replace(noise, cell=2.0 * noise.cell) if compared else noise


def _stack_metrics(data: EvalSet, systems: Sequence[str]) -> Features | None:
    columns = [data.systems.index(name) for name in systems]
    stack = [standardise_metric(data, name)[:, columns] for name in select_proxies(data, None)]
    return Features(tuple(data.ids), np.stack(stack, 2)) if stack else None


Interval = tuple[float, float, float]


def _always_valid_intervals(
    estimates: Estimates | None, monitor: Monitor | None, picture: Picture | None
) -> dict[str, Interval]:
    """Mean, low and high of each system, valid at every look; an allocator's widths stand around the estimates."""
    if monitor is not None:
        return monitor.intervals()
    if picture is None or estimates is None:
        return {}
    widths = picture.half_widths
    return {
        row.system: (row.estimate, row.estimate - widths[row.system], row.estimate + widths[row.system])
        for row in estimates.systems
        if row.system in widths
    }


def _list_systems(
    data: EvalSet, counted: Judgments, estimates: Estimates | None, always: Mapping[str, Interval]
) -> tuple[LiveSystem, ...]:
    cells = counted.cell_means().group_by("system").agg(pl.col("value").mean(), pl.len()) if len(counted) else None
    plain = {} if cells is None else {name: (mean, n) for name, mean, n in cells.iter_rows()}
    by_name = {} if estimates is None else {row.system: row for row in estimates.systems}
    nan = float("nan")
    rows = []
    for name in data.systems:
        mean, n = plain.get(name, (nan, 0))
        row = by_name.get(name)
        _, low, high = always.get(name, (nan, nan, nan))
        if row is None:
            rows.append(LiveSystem(name, n, mean, nan, nan, nan, low, high, None, None, nan, None))
        else:
            rows.append(
                LiveSystem(
                    name,
                    n,
                    mean,
                    row.estimate,
                    row.low,
                    row.high,
                    low,
                    high,
                    row.rank_low,
                    row.rank_high,
                    row.p_best,
                    row.cluster,
                )
            )
    return tuple(sorted(rows, key=_best_first))


def _best_first(row: LiveSystem) -> tuple[bool, float]:
    value = row.estimate if math.isfinite(row.estimate) else row.mean
    return (not math.isfinite(value), -value if math.isfinite(value) else 0.0)


def _compute_alpha(counted: Judgments) -> float:
    if len(counted) < MIN_JUDGMENTS or len(counted.annotators) < MIN_JUDGMENTS:
        return float("nan")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AliquotWarning)
        try:
            return agreement(counted, measures="alpha", bootstrap=0)["alpha"]
        except AliquotError:  # no output has two judgments
            return float("nan")


def describe_snapshot(now: Snapshot) -> Sequence[str]:
    """Describe the snapshot in sentences: leaders, advice, gain from metrics."""
    judged = [row for row in now.systems if row.judged]
    if not judged:
        return ("Nothing is judged yet.",)
    leaders = [row.system for row in judged if row.cluster == 1] or [judged[0].system]
    lead = f"{leaders[0]} leads" if len(leaders) == 1 else f"{join_names(leaders)} lead and cannot be told apart"
    compared = now.choices is not None
    after = f"{now.choices} choices ({now.judgments} outputs seen)" if compared else f"{now.judgments} judgments"
    words = [f"{lead}, after {after}.", now.advice[:1].upper() + now.advice[1:] + "."]
    if now.gain >= 1:
        words.append(f"Metrics and design make this as good as {now.gain:.0f} more judgments.")
    return tuple(words)
