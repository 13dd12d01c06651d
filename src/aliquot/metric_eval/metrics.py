"""`metrics`: can I trust the metric instead? Everything that people's scores say about automatic ones (METHODS 7)."""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

import polars as pl

from aliquot.core.evalset import EvalSet, require_sets
from aliquot.core.result import signature
from aliquot.errors import DataError, OptionError, unknown_name
from aliquot.metric_eval.correlations import (
    Correlation,
    Extreme,
    LeftOut,
    correlation_rows,
    extreme_rows,
    left_out_rows,
)
from aliquot.metric_eval.metric_errors import (
    Agreement,
    CurvePoint,
    ErrorParts,
    Verdicts,
    Worth,
    break_even_rows,
    convergence_rows,
    cooccurrence_rows,
    decomposition_rows,
    signs_of,
    usable_ratios,
)
from aliquot.metric_eval.metric_inputs import Inputs, metric_inputs
from aliquot.metric_eval.metric_value import (
    ControlValue,
    PerfectAnnotator,
    Suggestion,
    perfect_annotator,
    suggestion_rows,
    value_rows,
)
from aliquot.metric_eval.significance import DEFAULT_TESTS, MetricCluster, MetricPair, checked_tests, compared_rows
from aliquot.metric_eval.surface import Progress, SurfaceScore, surface
from aliquot.stats.arrays import Seed
from aliquot.stats.decomposition import PairSigns
from aliquot.stats.metric_tests import Swap
from aliquot.stats.sequences import error_rate
from aliquot.stats.sign_bootstrap import child_seeds

# -- What `metrics` gives: one table for each part, notes, and the line that reproduces it ---------------------------


TABLES: dict[str, type] = {
    "decomposition": ErrorParts,
    "breakeven": Worth,
    "curves": CurvePoint,
    "annotators": PerfectAnnotator,
    "convergence": Agreement,
    "cooccurrence": Verdicts,
    "value": ControlValue,
    "suggested": Suggestion,
    "correlations": Correlation,
    "extremes": Extreme,
    "leave_one_out": LeftOut,
    "tests": MetricPair,
    "clusters": MetricCluster,
    "computed": SurfaceScore,
}
"""The tables of a report and what their rows are."""

_DTYPES = {str: pl.String(), float: pl.Float64(), int: pl.Int64(), bool: pl.Boolean()}


@dataclass(frozen=True, eq=False, repr=False)
class MetricReport:
    """The result of `metrics`; a table is empty where its part was not asked for or is not possible (see `notes`)."""

    decomposition: tuple[ErrorParts, ...] = ()  # each metric's pairwise error: observed = noise + bias + variance
    breakeven: tuple[Worth, ...] = ()  # how many judgments each metric is worth
    curves: tuple[CurvePoint, ...] = ()  # error of people and of the perfect annotator against judgments per system
    # variance components and efficiency ratio of each campaign's judgments
    annotators: tuple[PerfectAnnotator, ...] = ()
    convergence: tuple[Agreement, ...] = ()  # agreement of a metric on some items with the same metric on all
    cooccurrence: tuple[Verdicts, ...] = ()  # where people and a metric find significant differences
    value: tuple[ControlValue, ...] = ()  # what each metric saves as a control variate
    suggested: tuple[Suggestion, ...] = ()  # which metrics to combine
    correlations: tuple[Correlation, ...] = ()  # at every level, with tie policies
    extremes: tuple[Extreme, ...] = ()  # the same on the best and the worst systems only
    leave_one_out: tuple[LeftOut, ...] = ()  # the same without each system in turn
    tests: tuple[MetricPair, ...] = ()  # pairs of metrics, and whether one is better
    clusters: tuple[MetricCluster, ...] = ()  # metrics that are not told apart
    computed: tuple[SurfaceScore, ...] = ()  # surface metrics that were computed, with sacrebleu's signatures
    parts: tuple[str, ...] = ()  # the parts that were asked for
    humans: tuple[str, ...] = ()  # the human scores
    metrics: tuple[str, ...] = ()  # the metrics
    notes: tuple[str, ...] = ()  # what a reader should know
    signature: str = ""  # the line that reproduces it

    def __repr__(self) -> str:
        return f"MetricReport({len(self.metrics)} metrics against {', '.join(self.humans)}; {', '.join(self.parts)})"

    def rows(self, table: str) -> tuple[Any, ...]:
        """The rows of a table, by name."""
        if table not in TABLES:
            raise unknown_name("table", table, TABLES)
        found: tuple[Any, ...] = getattr(self, table)
        return found

    def to_frame(self, table: str = "decomposition") -> pl.DataFrame:
        """One of the tables; undefined numbers are null, and a break-even that is never reached is infinite."""
        rows, schema = self.rows(table), _schema(TABLES.get(table, ErrorParts))
        frame = pl.DataFrame([vars(row) for row in rows], schema=schema)
        return frame.with_columns(pl.col(pl.Float64).fill_nan(None))

    def to_dict(self) -> dict[str, Any]:
        """The JSON document of `metrics --json`; undefined and infinite numbers are null."""
        document: dict[str, Any] = {name: [_plain(row) for row in self.rows(name)] for name in TABLES}
        return document | {
            "parts": list(self.parts),
            "humans": list(self.humans),
            "metrics": list(self.metrics),
            "notes": list(self.notes),
            "signature": self.signature,
        }


def _schema(row: type) -> dict[str, pl.DataType]:
    return {name: _dtype(hint) for name, hint in typing.get_type_hints(row).items()}


def _dtype(hint: Any) -> pl.DataType:
    if isinstance(hint, types.UnionType):
        hint = next(part for part in typing.get_args(hint) if part is not type(None))
    return _DTYPES.get(hint, pl.String())  # a Literal is a text


def _plain(row: Any) -> dict[str, Any]:
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in vars(row).items()}


# -- `metrics`: can I trust the metric instead? Everything that people's scores say about automatic ones (METHODS 7) -


PARTS = ("decomposition", "breakeven", "annotators", "convergence", "cooccurrence", "value", "correlations",
         "extremes", "leave_one_out", "tests")  # fmt: skip
"""The parts of a report."""

_FEW_TRIALS = 1000
"""Trials of convergence and co-occurrence, as in the paper."""


@dataclass(frozen=True)
class _Options:
    parts: tuple[str, ...]
    explicit: bool
    trials: int
    paired: bool
    tests: tuple[str, ...]
    permutations: int
    swap: Swap
    alpha: float
    level: float


@dataclass
class _Found:
    """Rows of all tables as they come in, and notes."""

    rows: dict[str, list[Any]] = field(default_factory=lambda: {name: [] for name in TABLES})
    notes: list[str] = field(default_factory=list)

    def add(self, table: str, rows: Sequence[Any]) -> None:
        self.rows[table] += rows


def metrics(
    data: EvalSet | Sequence[EvalSet],
    human: str | Sequence[str] | None = None,
    *,
    metrics: str | Sequence[str] | None = None,
    parts: str | Sequence[str] | None = None,
    trials: int = 10_000,
    paired: bool = False,
    compute: str | Sequence[str] | None = None,
    common: bool = False,
    tests: str | Sequence[str] = DEFAULT_TESTS,
    permutations: int = 1000,
    swap: Swap = "both",
    alpha: float = 0.05,
    level: float = 0.95,
    seed: Seed = 0,
    cache: bool = True,
    progress: Progress | None = None,
) -> MetricReport:
    """Hold automatic metrics against people: what is a metric worth, and which one?

    Args:
        data: a campaign with human scores, or several, whose pairs of systems are pooled.
        human: the human score; several are looked at one after the other.
        metrics: names; by default all that vary and cover at least half of the judged outputs. Those of `compute` are
            always among them.
        parts: of `PARTS`; by default all. A part that is named and not possible is an error, otherwise a note.
        trials: bootstrap trials of the decomposition and the break-even.
        paired: draw the same items for people and metrics; by default they are drawn independently, as in the paper.
        compute: surface metrics to compute first: "bleu,chrf:word_order=2,ter" (see `surface`).
        common: compare on the cells that people and all metrics have; by default each metric on those that it and
            people have.
        tests: what metrics are compared by: accuracy, spa, acc_eq, kendall_like, or
            {system,pooled,within_system,within_item}_{pearson,spearman}. At 40 metrics spa and within_item_pearson take
            up to a minute.
        permutations: of each test.
        swap: what changes places in a test: both (PERM-BOTH), cells, items or systems.
        alpha: significance level of co-occurrence and clusters.
        level: coverage of intervals.
        seed: same seed, same report, whichever parts are asked for.
        cache: keep computed surface metrics.
        progress: called with finished and all columns while surface metrics are computed.

    Raises:
        DataError: no human scores, no metric, or a part that is named and cannot be had from these data.
        OptionError: numbers that cannot be used.
        NameUnknownError: a score, part or test that does not exist.

    >>> import aliquot
    >>> data = aliquot.synthetic(items=100, systems=5, seed=3)
    >>> report = aliquot.metrics(data, parts=["decomposition"], trials=500)
    >>> [(row.metric, row.bias) for row in report.decomposition[:2]]
    [('Optimal predictor', 0.0), ('Human', 0.0)]
    """
    parts, tests, metrics = _several(parts), _several(tests) or (), _several(metrics)
    options = _checked(parts, trials, paired, tests, permutations, swap, alpha, level)
    sets: list[Any] = [data] if isinstance(data, EvalSet) else list(data)
    require_sets(*sets)
    humans: list[str | None] = [human] if human is None or isinstance(human, str) else list(dict.fromkeys(human))
    if not humans:
        raise OptionError("no human score is named; name one, or leave human= out")
    found = _Found()
    if compute is not None:
        sets, computed = _computed(sets, compute, found, cache=cache, progress=progress)
        found.add("computed", computed)
    chosen = metrics
    if metrics is not None:  # what is computed is meant to be compared, also beside metrics that are named
        chosen = [*metrics, *(row.metric for row in found.rows["computed"] if row.metric not in metrics)]
    line = signature(
        "metrics", None, human=",".join(str(name) for name in humans if name is not None) or None,
        metrics=None if metrics is None else ",".join(metrics),
        parts=None if parts is None else ",".join(options.parts), trials=trials, paired="yes" if paired else None,
        compute=compute if compute is None or isinstance(compute, str) else ",".join(compute),
        common="yes" if common else None, tests=",".join(options.tests) if "tests" in options.parts else None,
        permutations=permutations if "tests" in options.parts else None, swap=None if swap == "both" else swap,
        alpha=None if alpha == 0.05 else alpha, level=None if level == 0.95 else level,
        seed=seed if isinstance(seed, int) else None, data=",".join(one.fingerprint for one in sets),
    )  # fmt: skip
    seeds = child_seeds(seed, len(PARTS))  # the same for every human score: rows are compared between them
    names: dict[str, None] = {}
    for each in humans:
        inputs = metric_inputs(sets, each, chosen, humans=[h for h in humans if h is not None], common=common)
        names |= dict.fromkeys(inputs.metrics)
        prefix = f"{inputs.human}: " if len(humans) > 1 else ""
        own = _Found(found.rows)
        own.notes += inputs.notes
        _Run(inputs, options, dict(zip(PARTS, seeds, strict=True)), own).all_parts()
        found.notes += [prefix + note for note in own.notes]
    tables = {name: tuple(rows) for name, rows in found.rows.items()}
    labels = tuple(dict.fromkeys(str(each or sets[0].human) for each in humans))
    return MetricReport(
        **tables, parts=options.parts, humans=labels, metrics=tuple(names), notes=tuple(dict.fromkeys(found.notes)),
        signature=line,
    )  # fmt: skip


def _several(names: str | Sequence[str] | None) -> Sequence[str] | None:
    """A single name is a list of one: taken letter by letter it would give a strange error."""
    return [names] if isinstance(names, str) else names


def _checked(
    parts: Sequence[str] | None, trials: int, paired: bool, tests: Sequence[str], permutations: int, swap: Swap,
    alpha: float, level: float,
) -> _Options:  # fmt: skip
    for part in parts or ():
        if part not in PARTS:
            raise unknown_name("part", part, PARTS)
    if parts is not None and not parts:
        raise OptionError("no part is named; name some, or leave parts= / --parts out for all")
    if swap not in get_args(Swap):
        raise unknown_name("swap", swap, get_args(Swap))
    for name, value in (("trials", trials), ("permutations", permutations)):
        if value < 1:
            raise OptionError(f"{name} is {value}; give at least 1, for instance 1000")
    if not 0 < alpha < 0.5:
        raise OptionError(f"alpha is {alpha}; choose between 0 and 0.5, for instance 0.05")
    error_rate(level)
    chosen = PARTS if parts is None else tuple(part for part in PARTS if part in parts)
    wanted = checked_tests(tuple(dict.fromkeys(tests)))
    if "tests" in chosen and not wanted:
        raise OptionError("no test is named; name some, or leave the part 'tests' out")
    return _Options(chosen, parts is not None, trials, paired, wanted, permutations, swap, alpha, level)


def _computed(
    sets: list[EvalSet], compute: str | Sequence[str], found: _Found, *, cache: bool, progress: Progress | None
) -> tuple[list[EvalSet], list[SurfaceScore]]:
    """The sets with surface metrics added; one row for each metric, cells added up over the sets."""
    results = [surface(one, compute, cache=cache, progress=progress) for one in sets]
    rows = []
    for same in zip(*(result.scores for result in results), strict=True):
        first = same[0]
        rows.append(SurfaceScore(first.metric, first.signature, first.flipped, sum(score.cells for score in same)))
    for result in results:
        found.notes += result.notes
    return [result.data for result in results], rows


class _Run:
    """The parts of one human score, which share the bootstrap of signs and the perfect annotator."""

    def __init__(self, inputs: Inputs, options: _Options, seeds: dict[str, int], found: _Found) -> None:
        self.inputs, self.options, self.seeds, self.found = inputs, options, seeds, found
        self._signs: list[PairSigns] | None = None
        self._people: list[PerfectAnnotator | None] | None = None
        self._reasons: list[str] = []

    def all_parts(self) -> None:
        """Run what was asked for; what cannot be had is an error where it was named, a note otherwise."""
        for part in self.options.parts:
            work: Callable[[], None] = getattr(self, f"_{part}")
            try:
                work()
            except DataError as error:
                if self.options.explicit:
                    raise
                self.found.notes.append(f"no {part}: {error}")

    def _bootstrap(self) -> list[PairSigns]:
        if self._signs is None:
            options = self.options
            self._signs = signs_of(self.inputs, options.trials, paired=options.paired, seed=self.seeds["decomposition"])
        return self._signs

    def _perfect(self) -> list[PerfectAnnotator | None]:
        if self._people is None:
            self._people = []
            for campaign in self.inputs.campaigns:
                try:
                    row, notes = perfect_annotator(campaign, level=self.options.level, seed=self.seeds["annotators"])
                    self.found.notes += notes
                except DataError as error:
                    self._reasons.append(str(error))
                    self.found.notes.append(
                        f"{error}: there is no efficiency ratio, no break-even of the perfect annotator, and no "
                        "ceiling of what metrics save (noise is taken as 0)"
                    )
                    row = None
                self._people.append(row)
        return self._people

    def _decomposition(self) -> None:
        rows = decomposition_rows(self.inputs, self._bootstrap(), self.seeds["decomposition"])
        self.found.add("decomposition", rows)

    def _breakeven(self) -> None:
        signs = self._bootstrap()
        known = [one for one in self._perfect() if one is not None]
        perfect = known if len(known) == len(self.inputs.campaigns) else None
        rows, points = break_even_rows(
            self.inputs, signs, perfect, trials=self.options.trials, level=self.options.level,
            seed=self.seeds["breakeven"],
        )  # fmt: skip
        self.found.add("breakeven", rows)
        self.found.add("curves", points)
        if perfect is not None and usable_ratios(perfect) is None:
            self.found.notes.append("the perfect annotator's break-even is not known: judges' noise is as large as the "
                                    "differences of systems")  # fmt: skip
        for one in known:
            if one.per_output > 1.05:
                self.found.notes.append(f"{one.data}: a judgment is one human score, the mean of "
                                        f"{one.per_output:.1f} answers")  # fmt: skip

    def _annotators(self) -> None:
        known = [one for one in self._perfect() if one is not None]
        if not known and self.options.explicit:
            raise DataError("; ".join(self._reasons))
        self.found.add("annotators", known)

    def _convergence(self) -> None:
        trials = min(self.options.trials, _FEW_TRIALS)
        self.found.add("convergence", convergence_rows(self.inputs, trials, self.seeds["convergence"]))

    def _cooccurrence(self) -> None:
        trials = min(self.options.trials, _FEW_TRIALS)
        rows = cooccurrence_rows(self.inputs, trials, alpha=self.options.alpha, seed=self.seeds["cooccurrence"])
        self.found.add("cooccurrence", rows)

    def _value(self) -> None:
        self.found.add("value", value_rows(self.inputs, self._perfect()))
        rows, notes = suggestion_rows(self.inputs, self.seeds["value"])
        self.found.add("suggested", rows)
        self.found.notes += notes

    def _correlations(self) -> None:
        rows = correlation_rows(self.inputs)
        self.found.add("correlations", rows)
        most = max((row.undefined for row in rows if row.level == "within_item"), default=0)
        if most:
            self.found.notes.append(f"within items: up to {most} items have constant scores and no correlation; they "
                                    "are left out (see 'undefined')")  # fmt: skip

    def _extremes(self) -> None:
        self.found.add("extremes", extreme_rows(self.inputs))

    def _leave_one_out(self) -> None:
        self.found.add("leave_one_out", left_out_rows(self.inputs))

    def _tests(self) -> None:
        options = self.options
        pairs, clusters = compared_rows(
            self.inputs, options.tests, permutations=options.permutations, swap=options.swap, alpha=options.alpha,
            seed=self.seeds["tests"],
        )  # fmt: skip
        self.found.add("tests", pairs)
        self.found.add("clusters", clusters)
