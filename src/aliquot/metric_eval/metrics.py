"""`metrics`: can I trust the metric instead? Everything that human scores say about automatic metrics.

See docs/methods.md, section 7 (Wei and Jia 2021).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, get_args

from aliquot.core.conventions import require_squarable
from aliquot.core.evalset import EvalSet
from aliquot.core.memory import limit_draws, require_pair_memory
from aliquot.core.progress import ProgressLike
from aliquot.core.registry import split_known_names, split_names
from aliquot.core.result import make_signature
from aliquot.errors import DataError, OptionError, unknown_name
from aliquot.io.inputs import DataLike, as_evalsets
from aliquot.metric_eval.corpus import add_corpus_metrics
from aliquot.metric_eval.correlations import (
    correlate_by_system,
    correlate_extremes,
    correlate_metrics,
    leave_systems_out,
)
from aliquot.metric_eval.metric_break_even import choose_unit, collect_finite_ratios, compute_break_even
from aliquot.metric_eval.metric_errors import (
    compute_convergence,
    count_cooccurrences,
    decompose_errors,
    decompose_squared_errors,
    draw_signs,
)
from aliquot.metric_eval.metric_inputs import MetricInputs, build_inputs
from aliquot.metric_eval.metric_report import PARTS, TABLES, MetricReport, Part
from aliquot.metric_eval.metric_value import (
    PerfectAnnotator,
    compute_control_values,
    compute_gaps,
    estimate_perfect_annotator,
    suggest_metrics,
)
from aliquot.metric_eval.sacrebleu_scorers import parse_compute
from aliquot.metric_eval.significance import DEFAULT_TESTS, TESTS, compare_metric_pairs
from aliquot.metric_eval.surface import surface
from aliquot.stats.arrays import Seed
from aliquot.stats.bias_variance import PairSigns
from aliquot.stats.break_even import BreakEvenUnit
from aliquot.stats.confidence_sequences import error_rate
from aliquot.stats.metric_tests import SwapUnit
from aliquot.stats.resampling import spawn_seeds
from aliquot.validation import at_least, between, one_of

MAX_CURVE_TRIALS = 1000  # of convergence and co-occurrence, as in the paper


@dataclass(frozen=True)
class MetricOptions:
    """How a report is made: the arguments of `metrics`, checked."""

    parts: tuple[Part, ...]
    trials: int
    paired: bool
    tests: tuple[str, ...]
    permutations: int
    swap: SwapUnit
    alpha: float
    level: float
    unit: BreakEvenUnit | None
    corpus: str | Sequence[str] | None
    scale: tuple[float, float] | None
    metric_scale: tuple[float, float] | None

    def __post_init__(self) -> None:
        for name in self.tests:
            if name not in TESTS:
                raise unknown_name("test", name, TESTS)
        one_of("swap", self.swap, get_args(SwapUnit))
        if self.unit is not None:
            one_of("unit", self.unit, get_args(BreakEvenUnit))
        at_least("trials", self.trials, 1)
        at_least("permutations", self.permutations, 1)
        limit_draws(trials=self.trials, permutations=self.permutations)
        between("alpha", self.alpha, 0, 0.5, inclusive=False)
        error_rate(self.level)
        if self.corpus is not None:
            parse_compute(self.corpus)
            if not {"decomposition", "breakeven"} & set(self.parts):
                raise OptionError("`corpus` is for the parts decomposition and breakeven; add one of them to `parts`")
        if "tests" in self.parts and not self.tests:
            raise OptionError("no test is named; name some in `tests`, or leave the part 'tests' out")


def parse_parts(parts: str | Sequence[str] | None) -> tuple[Part, ...]:
    """Return the parts of a list or a text, in the order of `PARTS`; all of them for None.

    >>> parse_parts("gap, value")
    ('value', 'gap')
    """
    if parts is None:
        return PARTS
    names = split_names(parts)
    for name in names:
        if name not in PARTS:
            raise unknown_name("part", name, PARTS)
    if not names:
        raise OptionError("no part is named; name some in `parts`, or leave it out for all")
    return tuple(part for part in PARTS if part in names)


def metrics(
    data: DataLike | Sequence[DataLike],
    human: str | Sequence[str] | None = None,
    *,
    metrics: str | Sequence[str] | None = None,
    parts: str | Sequence[str] | None = None,
    trials: int = 10_000,
    paired: bool = False,
    unit: BreakEvenUnit | None = None,
    corpus: str | Sequence[str] | None = None,
    compute: str | Sequence[str] | None = None,
    common: bool = False,
    tests: str | Sequence[str] = DEFAULT_TESTS,
    permutations: int = 1000,
    swap: SwapUnit = "both",
    scale: tuple[float, float] | None = None,
    metric_scale: tuple[float, float] | None = None,
    alpha: float = 0.05,
    level: float = 0.95,
    seed: Seed = 0,
    cache: bool = True,
    progress: ProgressLike = None,
) -> MetricReport:
    """Compare automatic metrics with human scores: how many judgments is a metric worth, and which one is best?

    Args:
        data: a campaign with human scores, or several, whose pairs of systems are pooled.
        human: the human score; several are looked at one after the other.
        metrics: names; by default all that vary and cover at least half of the judged outputs. Those of `compute` are
            always among them.
        parts: of `PARTS`, a list or "value,gap"; by default all. A note says why a part cannot be computed from these
            data; it is an error if none can.
        trials: bootstrap trials of the decomposition and the break-even.
        paired: draw the same items for people and metrics; by default they are drawn independently, as in the paper.
        unit: what the break-even counts. "judgment": single judgments, each system with its own, as Wei and Jia count;
            "item": items that all systems are judged on, one human score each (the mean of its annotators). By default
            judgments where the data have those that the human score is made of.
        corpus: corpus-level metrics for decomposition and break-even, in the syntax of `compute`: BLEU, chrF or TER of
            a whole draw of items, not the mean of sentence scores.
        compute: surface metrics to compute first: "bleu,chrf:word_order=2,ter" (see `surface`).
        common: compare on the cells that people and all metrics have; by default each metric on those that it and
            people have.
        tests: what metrics are compared by: accuracy, spa, acc_eq, kendall_like, or
            {system,pooled,within_system,within_item}_{pearson,spearman}. At 40 metrics spa and within_item_pearson take
            up to a minute.
        permutations: of each test.
        swap: what changes places in a test: both (PERM-BOTH), cells, items or systems.
        scale: ends of the human scale, for the part gap; by default the lowest and the highest score.
        metric_scale: those of the metrics; by default 0 to 1 or 0 to 100, whichever a metric lies in.
        alpha: significance level of co-occurrence and clusters.
        level: coverage of intervals.
        seed: same seed, same report, whichever parts are asked for.
        cache: keep computed surface metrics.
        progress: called with finished and all columns while surface metrics are computed.

    Raises:
        DataError: no human scores, no metric, or no part that can be computed from these data.
        OptionError: numbers that cannot be used.
        NameUnknownError: a score, part or test that does not exist.

    >>> import aliquot
    >>> data = aliquot.synthetic(items=100, systems=5, seed=3)
    >>> report = aliquot.metrics(data, parts=["decomposition"], trials=500)
    >>> [(row.metric, row.bias) for row in report.decomposition[:2]]
    [('Optimal predictor', 0.0), ('Human', 0.0)]
    """
    options = MetricOptions(
        parts=parse_parts(parts),
        trials=trials,
        paired=paired,
        tests=tuple(dict.fromkeys(split_names(tests))),
        permutations=permutations,
        swap=swap,
        alpha=alpha,
        level=level,
        unit=unit,
        corpus=corpus,
        scale=scale,
        metric_scale=metric_scale,
    )
    sets = as_evalsets(data)
    require_pair_memory(max((evalset.n_systems for evalset in sets), default=0))
    humans: list[str | None] = [human] if human is None or isinstance(human, str) else list(dict.fromkeys(human))
    if not humans:
        raise OptionError("no human score is named; name one in `human`, or leave it out")
    names = metrics if metrics is None else _list_scores(metrics, sets)
    tables: dict[str, list[Any]] = {name: [] for name in TABLES}
    notes: list[str] = []
    if compute is not None:
        computed = [surface(evalset, compute, cache=cache, progress=progress) for evalset in sets]
        sets = [result.data for result in computed]
        notes += [note for result in computed for note in result.notes]
        for scores in zip(*(result.scores for result in computed), strict=True):
            tables["computed"].append(replace(scores[0], cells=sum(score.cells for score in scores)))
    compared, joined = names, list(dict.fromkeys(name for evalset in sets for name in evalset.joined))
    if names is not None:  # what is computed or joined is meant to be compared, also beside metrics that are named
        added = dict.fromkeys([*(row.metric for row in tables["computed"]), *joined])
        compared = [*names, *(name for name in added if name not in names)]
    line = make_signature(
        "metrics",
        None,
        human=",".join(str(name) for name in humans if name is not None) or None,
        metrics=None if names is None else ",".join(names),
        parts=None if parts is None else ",".join(options.parts),
        trials=trials,
        paired="yes" if paired else None,
        unit=unit,
        corpus=_join_texts(corpus),
        compute=_join_texts(compute),
        common="yes" if common else None,
        tests=",".join(options.tests) if "tests" in options.parts else None,
        permutations=permutations if "tests" in options.parts else None,
        swap=None if swap == "both" else swap,
        scale=None if scale is None else f"{scale[0]:g}:{scale[1]:g}",
        metric_scale=None if metric_scale is None else f"{metric_scale[0]:g}:{metric_scale[1]:g}",
        alpha=None if alpha == 0.05 else alpha,
        level=None if level == 0.95 else level,
        seed=seed if isinstance(seed, int) else None,
        data=",".join(evalset.fingerprint for evalset in sets),
    )
    # The same seeds for every human score: rows are compared between them.
    seeds: dict[str, int] = dict(zip(PARTS, spawn_seeds(seed, len(PARTS)), strict=True))
    compared_metrics: dict[str, None] = {}
    failures: list[str] = []
    for human_name in humans:
        inputs = build_inputs(
            sets, human_name, compared, humans=[name for name in humans if name is not None], common=common
        )
        for campaign in inputs.campaigns:
            require_squarable(campaign.human, f"the human score '{inputs.human}'")
        compared_metrics |= dict.fromkeys(inputs.metrics)
        builder = _ReportBuilder(inputs, options, seeds, tables)
        failures += builder.add_parts()
        prefix = f"{inputs.human}: " if len(humans) > 1 else ""
        notes += [prefix + note for note in builder.notes]
    if len(failures) == len(options.parts) * len(humans):
        raise DataError("; ".join(dict.fromkeys(failures)))
    return MetricReport(
        **{name: tuple(rows) for name, rows in tables.items()},
        parts=options.parts,
        humans=tuple(dict.fromkeys(str(name or sets[0].human) for name in humans)),
        metrics=tuple(compared_metrics),
        joined=tuple(name for name in joined if name in compared_metrics),
        alpha=alpha,
        notes=tuple(dict.fromkeys(notes)),
        signature=line,
    )


def _list_scores(names: str | Sequence[str], sets: Sequence[EvalSet]) -> list[str]:
    """Return the names of scores, which may hold commas."""
    return split_known_names(names, {name for evalset in sets for name in evalset.scores})


def _join_texts(texts: str | Sequence[str] | None) -> str | None:
    return texts if texts is None or isinstance(texts, str) else ",".join(texts)


class _ReportBuilder:
    """The parts of one human score, which share the bootstrap of signs and the perfect annotator.

    Every part has a method `add_<part>` that adds rows to `tables`.
    """

    def __init__(
        self, inputs: MetricInputs, options: MetricOptions, seeds: dict[str, int], tables: dict[str, list[Any]]
    ) -> None:
        self.inputs, self.options, self.seeds, self.tables = inputs, options, seeds, tables
        self.notes = list(inputs.notes)

    def add_parts(self) -> list[str]:
        """Add the rows of all parts asked for; return why some cannot be computed, which the notes say, too."""
        failures = []
        for part in self.options.parts:
            try:
                getattr(self, f"add_{part}")()
            except DataError as error:
                failures.append(str(error))
                if part != "annotators":  # a note says already that there is no perfect annotator
                    self.notes.append(f"no {part}: {error}")
        return failures

    @cached_property
    def _signs(self) -> list[PairSigns]:
        """Signs of all predictors; those of corpus-level metrics come last, and are named in `inputs` from here on."""
        options, seed = self.options, self.seeds["decomposition"]
        signs = draw_signs(self.inputs, options.trials, paired=options.paired, seed=seed)
        if options.corpus is not None:
            self.inputs, signs, notes = add_corpus_metrics(
                self.inputs, signs, options.corpus, options.trials, paired=options.paired, seed=seed
            )
            self.notes += notes
        return signs

    @cached_property
    def _perfect(self) -> list[PerfectAnnotator | DataError]:
        """The perfect annotator of each campaign, or why there is none."""
        results: list[PerfectAnnotator | DataError] = []
        for campaign in self.inputs.campaigns:
            try:
                row, notes = estimate_perfect_annotator(
                    campaign, level=self.options.level, seed=self.seeds["annotators"]
                )
                self.notes += notes
                results.append(row)
            except DataError as error:
                results.append(error)
                self.notes.append(
                    f"{error}: there is no efficiency ratio, no break-even of the perfect annotator, and no ceiling of "
                    "what metrics save (noise is taken as 0)"
                )
        return results

    @property
    def _known_annotators(self) -> list[PerfectAnnotator]:
        return [result for result in self._perfect if isinstance(result, PerfectAnnotator)]

    def add_decomposition(self) -> None:
        signs = self._signs
        rows = decompose_errors(self.inputs, signs, self.seeds["decomposition"])
        self.tables["decomposition"] += rows

    def add_breakeven(self) -> None:
        signs, options = self._signs, self.options
        annotators = self._known_annotators
        perfect = annotators if len(annotators) == len(self.inputs.campaigns) else None
        unit, words = choose_unit(self.inputs, options.unit)
        rows, points = compute_break_even(
            self.inputs,
            signs,
            perfect,
            unit=unit,
            trials=options.trials,
            level=options.level,
            seed=self.seeds["breakeven"],
        )
        self.tables["breakeven"] += rows
        self.tables["curves"] += points
        if perfect is not None and collect_finite_ratios(perfect, unit) is None:
            self.notes.append(
                "the perfect annotator's break-even is unknown: annotator noise is as large as the "
                "differences of systems"
            )
        self.notes.append(words)
        if unit == "item":
            self.notes += [
                f"{row.data}: a human score is the mean of {row.per_output:.1f} judgments; break-even counts items"
                for row in annotators
                if row.per_output > 1.05
            ]

    def add_squared_error(self) -> None:
        self.tables["squared_error"] += decompose_squared_errors(self.inputs)

    def add_annotators(self) -> None:
        self.tables["annotators"] += self._known_annotators
        if not self._known_annotators:
            raise DataError("; ".join(str(error) for error in self._perfect))

    def add_convergence(self) -> None:
        trials = min(self.options.trials, MAX_CURVE_TRIALS)
        self.tables["convergence"] += compute_convergence(self.inputs, trials, self.seeds["convergence"])

    def add_cooccurrence(self) -> None:
        trials, alpha = min(self.options.trials, MAX_CURVE_TRIALS), self.options.alpha
        rows = count_cooccurrences(self.inputs, trials, alpha=alpha, seed=self.seeds["cooccurrence"])
        self.tables["cooccurrence"] += rows

    def add_value(self) -> None:
        perfect = [row if isinstance(row, PerfectAnnotator) else None for row in self._perfect]
        self.tables["value"] += compute_control_values(self.inputs, perfect)
        rows, notes = suggest_metrics(self.inputs, self.seeds["value"])
        self.tables["suggested"] += rows
        self.notes += notes

    def add_correlations(self) -> None:
        rows = correlate_metrics(self.inputs, self.options.level)
        self.tables["correlations"] += rows
        max_undefined = max((row.undefined for row in rows if row.level == "within_item"), default=0)
        if max_undefined:
            self.notes.append(
                f"within items: up to {max_undefined} items have constant scores and no correlation; they are "
                "left out (see 'undefined')"
            )

    def add_by_system(self) -> None:
        self.tables["by_system"] += correlate_by_system(self.inputs, self.options.level)

    def add_gap(self) -> None:
        rows, notes = compute_gaps(self.inputs, self.options.scale, self.options.metric_scale)
        self.tables["gap"] += rows
        self.notes += notes if self.options.parts != PARTS else ()

    def add_extremes(self) -> None:
        self.tables["extremes"] += correlate_extremes(self.inputs)

    def add_leave_one_out(self) -> None:
        self.tables["leave_one_out"] += leave_systems_out(self.inputs)

    def add_tests(self) -> None:
        options = self.options
        pairs, clusters = compare_metric_pairs(
            self.inputs,
            options.tests,
            permutations=options.permutations,
            swap=options.swap,
            alpha=options.alpha,
            seed=self.seeds["tests"],
        )
        self.tables["tests"] += pairs
        self.tables["clusters"] += clusters
