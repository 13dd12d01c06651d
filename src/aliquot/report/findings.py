"""The contents of a report on one test set: results of the other verbs, each where the data allow it.

Only the question of the campaign itself (estimates, or choices) must have an answer. Any other part that the data do
not allow is left out, and `left_out` says why.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import numpy as np
import polars as pl

from aliquot.annotation.agreement import agreement
from aliquot.annotation.agreement_result import Agreement
from aliquot.annotation.choice_tables import detect_table_kind
from aliquot.annotation.clean import Cleaned, clean
from aliquot.annotation.compare import compare
from aliquot.annotation.judgment_noise import find_score_judgments
from aliquot.annotation.preference_result import Comparison
from aliquot.core.evalset import EvalSet
from aliquot.core.judgments import Judgments
from aliquot.core.selection import Selection
from aliquot.errors import AliquotError, AliquotWarning, DataError, OptionError
from aliquot.estimation.estimate import estimate
from aliquot.estimation.estimate_result import Estimates
from aliquot.estimation.inputs import Mismatch, attach_judgments, select_criterion, use_criterion_score, warn_left_out
from aliquot.estimation.targets import Target
from aliquot.io.files import is_file, read_bytes
from aliquot.io.format_detection import read_table
from aliquot.io.formats.table_files import stack_tables, to_polars
from aliquot.io.inputs import as_evalset, as_judgments, as_selection
from aliquot.metric_eval.metric_report import MetricReport
from aliquot.metric_eval.metrics import metrics
from aliquot.planning.plan import plan
from aliquot.planning.plan_inputs import mask_unselected
from aliquot.planning.result import CampaignPlan
from aliquot.report import datasheet
from aliquot.report.datasheet import Datasheet

Part = Literal["agreement", "metrics", "plan", "datasheet"]
PARTS: tuple[Part, ...] = get_args(Part)
"""Parts of a report that can be left out."""
_MAX_REPLAYED = 20_000  # outputs up to which a past campaign is replayed: replays take longer than all the rest
_CHOICES = ("pairwise", "best-worst", "ranking")
_TABLES = (".csv", ".tsv", ".parquet", ".xlsx", ".csv.gz", ".tsv.gz", ".jsonl", ".json")

T = TypeVar("T")


@dataclass(frozen=True)
class ReportOptions:
    """How the parts of a report are made; the defaults are those of the verbs."""

    method: str = "auto"
    human: str | None = None
    criterion: str | None = None
    level: float = 0.95
    alpha: float = 0.05
    target: Target = "testset"
    preset: str | None = None  # of `clean`
    parts: frozenset[str] = frozenset(PARTS)
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Findings:
    """The results for one test set; None where the data have nothing to say."""

    name: str
    options: ReportOptions
    data: EvalSet | None = None  # with the human score of the judgments, where there are outputs, scores or sources
    human: str | None = None  # the name of that score
    selection: Selection | None = None
    estimates: Estimates | None = None
    comparison: Comparison | None = None
    choices: pl.DataFrame | None = None  # the table that the comparison was made of
    judgments: Judgments | None = None  # those that the human score is made of, or all where that is unknown
    cleaned: Cleaned | None = None
    agreement: Agreement | None = None
    metrics: MetricReport | None = None
    plan: CampaignPlan | None = None
    datasheet: Datasheet | None = None
    left_out: tuple[str, ...] = ()
    # sentences for parts that rest on fewer judgments or items than the verb takes; empty where they are the same
    scope: Mapping[str, str] = field(default_factory=dict)

    @property
    def systems(self) -> tuple[str, ...]:
        """The systems, best first."""
        return () if self.ranking is None else tuple(row.system for row in self.ranking.systems)

    @property
    def ranking(self) -> Estimates | Comparison | None:
        """The result that ranks the systems."""
        return self.estimates if self.estimates is not None else self.comparison

    @property
    def results(self) -> dict[str, Any]:
        """The results that are there, by the verb that gives them."""
        results = {
            "estimate": self.estimates,
            "compare": self.comparison,
            "clean": self.cleaned,
            "agreement": self.agreement,
            "metrics": self.metrics,
            "plan": self.plan,
        }
        return {verb: result for verb, result in results.items() if result is not None}

    @property
    def signatures(self) -> dict[str, str]:
        """The lines that reproduce the numbers, by verb."""
        drawn = {} if self.selection is None or not self.selection.signature else {"select": self.selection.signature}
        return drawn | {verb: result.signature for verb, result in self.results.items()}


def gather_findings(
    data: Any, selection: Any = None, judgments: Any = None, options: ReportOptions | None = None
) -> Findings:
    """Gather what can be said about one test set.

    `data` and `judgments` may each be a table of choices (pairwise, best-worst, ranking), which is compared instead of
    estimated; everything else is read as `estimate` reads it.
    """
    options = options or ReportOptions()
    drawn = None if selection is None else as_selection(selection)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AliquotWarning)  # they stand among the notes of the results
        choices = read_choices(data)
        if choices is not None:
            if judgments is not None:
                raise OptionError(
                    "the data are a table of choices; give the texts as `data` and the choices as `judgments`",
                    "judgments",
                )
            name = Path(data).name.split(".")[0] if isinstance(data, (str, Path)) else "choices"
            return _compare_choices(name, None, choices, drawn, options)
        choices = read_choices(judgments) if judgments is not None else None
        evalset = as_evalset(data)
        if choices is not None:
            return _compare_choices(evalset.name, evalset, choices, drawn, options)
        answers = None if judgments is None else as_judgments(judgments)
        findings, mismatches = _analyse_scores(evalset, drawn, answers, options)
    warn_left_out(findings.name, mismatches)
    return findings


def read_choices(data: Any) -> pl.DataFrame | None:
    """Return the table, if the data (one source or several) are choices between systems."""
    if isinstance(data, (EvalSet, Judgments)):
        return None
    if isinstance(data, (list, tuple)):
        parts = [table for part in data if (table := read_choices(part)) is not None]
        if 0 < len(parts) < len(data):
            raise DataError("some of the judgment files are choices between systems and some are not; give one kind")
        return stack_tables(parts) if parts else None
    if not isinstance(data, (str, Path)):
        table = to_polars(data)
    elif not (str(data).endswith(_TABLES) and is_file(data)):
        return None
    else:
        try:
            table = read_table(read_bytes(data), data)
        except AliquotError:
            return None  # loading it raises the error
    return table if table is not None and detect_table_kind(table.columns) in _CHOICES else None


def _compare_choices(
    name: str, data: EvalSet | None, choices: pl.DataFrame, selection: Selection | None, options: ReportOptions
) -> Findings:
    result = compare(choices, None, level=options.level, alpha=options.alpha, seed=options.seed)
    if not isinstance(result, Comparison):
        raise DataError(f"{name}: a report needs choices between systems, not {type(result).__name__}; use `compare`")
    return Findings(name, options, data, selection=selection, comparison=result, choices=choices)


# -- Scores ----------------------------------------------------------------------------------------------------------


def _analyse_scores(
    data: EvalSet, selection: Selection | None, judgments: Judgments | None, options: ReportOptions
) -> tuple[Findings, Sequence[Mismatch]]:
    left_out: list[str] = []

    def try_part(part: Part, make: Callable[[], T]) -> T | None:
        if part not in options.parts:
            return None
        try:
            return make()
        except AliquotError as error:
            left_out.append(f"{part}: {error}")
            return None

    cleaned = None
    if options.preset is not None:
        cleaned = clean(data if judgments is None else replace(data, judgments=judgments), options.preset)
        data, judgments = (cleaned.evalset, None) if judgments is None else (data, cleaned.judgments)
    result = estimate(
        data,
        options.method,
        selection=selection,
        judgments=judgments,
        human=options.human,
        criterion=options.criterion,
        level=options.level,
        alpha=options.alpha,
        target=options.target,
        seed=options.seed,
    )
    mismatches: Sequence[Mismatch] = result.details["mismatches"]
    left_out += [row.sentence for row in mismatches if row.action == "left out"]
    judged, human = _keep_judged(data, selection, judgments, options)
    behind = _find_judgments(judged, human)
    findings = Findings(
        data.name,
        options,
        judged,
        human,
        selection,
        estimates=result,
        judgments=behind,
        cleaned=cleaned,
        agreement=None
        if behind is None
        else try_part("agreement", lambda: _measure_agreement(judged, behind, options)),
        metrics=try_part("metrics", lambda: _measure_metrics(judged, human, options)) if judged.metrics else None,
        plan=try_part("plan", lambda: _make_plan(data, selection, judgments, judged, options)),
        scope=_describe_scope(data, judgments, judged, behind, human),
    )
    sheet = try_part("datasheet", lambda: _start_datasheet(findings))
    return replace(findings, datasheet=sheet, left_out=tuple(left_out)), mismatches


def _keep_judged(
    data: EvalSet, selection: Selection | None, judgments: Judgments | None, options: ReportOptions
) -> tuple[EvalSet, str]:
    """Return the data whose human score is the one that is estimated, and its name."""
    if judgments is not None:
        made = select_criterion(judgments, options.criterion, options.human)
        data, _ = attach_judgments(data, made, selection, options.human)
    elif options.criterion is not None:
        data = use_criterion_score(data, options.criterion, options.human)
    human = options.human or data.human
    if human is None:
        raise DataError(f"{data.name}: there is no human score; name it with `human`")
    return mask_unselected(data, selection, human), human


def _find_judgments(data: EvalSet, human: str) -> Judgments | None:
    """Return the judgments that the score is made of, or all of them where that is unknown."""
    if data.judgments is None:
        return None
    try:
        source = find_score_judgments(data, human)
    except AliquotError:
        return data.judgments
    keys = ["item", "system", "annotator"]
    table = data.judgments.table.join(source.table.select(keys).unique(), on=keys, how="semi", nulls_equal=True)
    column, _, value = source.source.partition(" ")
    if column in table.columns and column in ("protocol", "criterion"):
        table = table.filter(pl.col(column) == value.split(",")[0])
    return Judgments(table)


def _describe_scope(
    data: EvalSet, judgments: Judgments | None, judged: EvalSet, behind: Judgments | None, human: str
) -> dict[str, str]:
    """Describe where the verb alone, without selection and score, would use more of the data."""
    everything, scope = judgments if judgments is not None else data.judgments, {}
    if everything is not None and behind is not None and behind.answers().height < everything.answers().height:
        scope["agreement"] = (
            f"This is about the {behind.answers().height:,} of {everything.answers().height:,} judgments "
            f"that the estimates of '{human}' use; aliquot agreement takes all."
        )
    if human in data.scores:
        items, all_items = (int(np.isfinite(evalset.score(human)).any(axis=1).sum()) for evalset in (judged, data))
        if judgments is None and items < all_items:
            scope["metrics"] = (
                f"This is about the {items:,} of {all_items:,} judged items that the estimates use; "
                "aliquot metrics takes all."
            )
    return scope


def _measure_agreement(data: EvalSet, judgments: Judgments, options: ReportOptions) -> Agreement:
    return agreement(replace(data, judgments=judgments), confidence=options.level, seed=options.seed)


def _measure_metrics(data: EvalSet, human: str, options: ReportOptions) -> MetricReport:
    return metrics(
        data,
        human,
        parts=["decomposition", "breakeven", "value"],
        level=options.level,
        alpha=options.alpha,
        seed=options.seed,
    )


def _make_plan(
    data: EvalSet, selection: Selection | None, judgments: Judgments | None, judged: EvalSet, options: ReportOptions
) -> CampaignPlan:
    """Plan other budgets as `plan` does; a large past campaign is not replayed."""
    present = np.isfinite(judged.human_score())
    cells = present.size
    if present.all() and cells > _MAX_REPLAYED:
        raise OptionError(f"replaying {cells:,} outputs takes long; run aliquot plan {data.name}")
    result = plan(
        data,
        selection=selection,
        judgments=judgments,
        human=options.human,
        criterion=options.criterion,
        alpha=options.alpha,
        beyond=options.target == "beyond",
        target="given" if options.target == "given" else "testset",
        seed=options.seed,
    )
    if not isinstance(result, CampaignPlan):
        raise DataError(f"{data.name}: these data allow no plan")
    items = int(present.any(axis=1).sum())
    if result.basis == "pilot" and result.judged < items:  # it would contradict the numbers of the other sections
        raise DataError(
            f"{result.judged} of {items} items are judged for all systems, and a plan rests on those only; "
            "run aliquot plan"
        )
    return result


def _start_datasheet(findings: Findings) -> Datasheet:
    data, results = findings.data, findings.results
    if data is not None and findings.judgments is not None:
        data = replace(data, judgments=findings.judgments)
    used = [results[verb] for verb in ("estimate", "agreement", "clean") if verb in results]
    return datasheet.new(data, selection=findings.selection, results=used, human=findings.human)
