"""What a report knows of one test set: the results of the other verbs, each where the data allow it.

Only the question of the campaign itself (estimates, or choices) must have an answer. Any other part that the data do
not allow is left out, and `left_out` says why.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import polars as pl

from aliquot.annotation.agreement import agreement
from aliquot.annotation.agreement_result import Agreement
from aliquot.annotation.choice_tables import kind_of
from aliquot.annotation.clean import Cleaned, clean
from aliquot.annotation.compare import compare
from aliquot.annotation.judgment_noise import judgments_of_score
from aliquot.annotation.preferences import Comparison
from aliquot.core.evalset import EvalSet
from aliquot.core.judgments import Judgments
from aliquot.core.selection import Selection
from aliquot.errors import AliquotError, AliquotWarning, DataError, OptionError
from aliquot.estimation.estimate import Estimates, estimate
from aliquot.estimation.inputs import Mismatch, of_criterion, score_of_criterion, warn_left_out, with_judgments
from aliquot.io.files import read_bytes
from aliquot.io.formats.table_files import read_frame, stack_tables, to_polars
from aliquot.io.inputs import as_evalset, as_judgments, as_selection
from aliquot.io.load import detect_format
from aliquot.metric_eval.metrics import MetricReport, metrics
from aliquot.planning.plan import plan
from aliquot.planning.plan_inputs import judged_within
from aliquot.planning.result import CampaignPlan
from aliquot.report import datasheet
from aliquot.report.datasheet import Datasheet

_CELLS_TO_REPLAY = 20_000  # outputs up to which a past campaign is replayed: replays take longer than all the rest
_CHOICES = ("pairwise", "best-worst", "ranking")

Part = TypeVar("Part")


@dataclass(frozen=True)
class Options:
    """How the parts of a report are made; the defaults are those of the verbs."""

    method: str = "auto"
    human: str | None = None
    criterion: str | None = None
    level: float = 0.95
    alpha: float = 0.05
    target: str = "testset"
    preset: str | None = None  # of `clean`
    parts: frozenset[str] = frozenset({"agreement", "metrics", "plan", "datasheet"})
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Findings:
    """The results for one test set; None where the data have nothing to say."""

    name: str
    data: EvalSet | None  # with the human score of the judgments, where there are outputs, scores or sources
    human: str | None  # the name of that score
    selection: Selection | None
    estimates: Estimates | None
    comparison: Comparison | None
    choices: pl.DataFrame | None  # the table that the comparison was made of
    judgments: Judgments | None  # those that the human score is made of, as far as that can be told
    cleaned: Cleaned | None
    agreement: Agreement | None
    metrics: MetricReport | None
    plan: CampaignPlan | None
    datasheet: Datasheet | None
    options: Options
    left_out: tuple[str, ...] = ()
    # sentences for parts that rest on fewer judgments or items than the verb takes; empty where they are the same
    scope: Mapping[str, str] = field(default_factory=dict)

    @property
    def systems(self) -> tuple[str, ...]:
        """The systems, best first."""
        rows: tuple[Any, ...] = self.estimates.systems if self.estimates is not None else ()
        if self.comparison is not None:
            rows = self.comparison.systems
        return tuple(row.system for row in rows)

    @property
    def results(self) -> dict[str, Any]:
        """The results that are there, by the verb that gives them."""
        found = {
            "estimate": self.estimates,
            "compare": self.comparison,
            "clean": self.cleaned,
            "agreement": self.agreement,
            "metrics": self.metrics,
            "plan": self.plan,
        }
        return {verb: result for verb, result in found.items() if result is not None}

    @property
    def signatures(self) -> dict[str, str]:
        """The lines that reproduce the numbers, by verb."""
        made = {} if self.selection is None or not self.selection.signature else {"select": self.selection.signature}
        return made | {verb: result.signature for verb, result in self.results.items()}


def findings(data: Any, selection: Any = None, judgments: Any = None, options: Options | None = None) -> Findings:
    """Gather what can be said about one test set.

    `data` and `judgments` may each be a table of choices (pairwise, best-worst, ranking), which is compared instead of
    estimated; everything else is read as `estimate` reads it.
    """
    options = options or Options()
    chosen = None if selection is None else as_selection(selection)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AliquotWarning)  # they stand among the notes of the results
        table = choice_table_of(data)
        if table is not None:
            if judgments is not None:
                raise OptionError("the data are a table of choices; give the texts as DATA and the choices with -j")
            return _of_choices(_name(data), None, table, chosen, options)
        answers = choice_table_of(judgments) if judgments is not None else None
        evalset = as_evalset(data)
        if answers is not None:
            return _of_choices(evalset.name, evalset, answers, chosen, options)
        made = None if judgments is None else as_judgments(judgments)
        found, mismatches = _of_scores(evalset, chosen, made, options)
    warn_left_out(found.name, mismatches)
    return found


def _name(data: Any) -> str:
    return Path(data).name.split(".")[0] if isinstance(data, (str, Path)) else "choices"


def choice_table_of(data: Any) -> pl.DataFrame | None:
    """Return the table, if the data (one source or several) are choices between systems."""
    if isinstance(data, (EvalSet, Judgments)):
        return None
    if isinstance(data, (list, tuple)):
        parts = [table for part in data if (table := choice_table_of(part)) is not None]
        if 0 < len(parts) < len(data):
            raise DataError("some of the judgment files are choices between systems and some are not; give one kind")
        return stack_tables(parts) if parts else None
    if isinstance(data, (str, Path)):
        tables = (".csv", ".tsv", ".parquet", ".xlsx", ".csv.gz", ".tsv.gz")
        if not (str(data).endswith(tables) and Path(data).is_file()):
            return None
        try:
            raw = read_bytes(data)
            read = read_frame(raw, data) if detect_format(raw, data) == "table" else None
        except AliquotError:
            return None  # whoever loads it says what is wrong
    else:
        read = to_polars(data)
    return read if read is not None and kind_of(read.columns) in _CHOICES else None


# -- Choices ---------------------------------------------------------------------------------------------------------


def _of_choices(
    name: str, data: EvalSet | None, table: pl.DataFrame, selection: Selection | None, options: Options
) -> Findings:
    result = compare(table, None, level=options.level, alpha=options.alpha, seed=options.seed)
    if not isinstance(result, Comparison):
        raise DataError(
            f"{name}: a report is made of choices between systems, not of {type(result).__name__}; use aliquot compare"
        )
    return Findings(
        name=name,
        data=data,
        human=None,
        selection=selection,
        estimates=None,
        comparison=result,
        choices=table,
        judgments=None,
        cleaned=None,
        agreement=None,
        metrics=None,
        plan=None,
        datasheet=None,
        options=options,
    )


# -- Scores ----------------------------------------------------------------------------------------------------------


def _of_scores(
    data: EvalSet, selection: Selection | None, judgments: Judgments | None, options: Options
) -> tuple[Findings, Sequence[Mismatch]]:
    left_out: list[str] = []

    def attempt(part: str, make: Callable[[], Part]) -> Part | None:
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
    judged, human = _judged(data, selection, judgments, options)
    made = _behind(judged, human)
    findings = Findings(
        name=data.name,
        data=judged,
        human=human,
        selection=selection,
        estimates=result,
        comparison=None,
        choices=None,
        judgments=made,
        cleaned=cleaned,
        agreement=None if made is None else attempt("agreement", lambda: _agreement(judged, made, options)),
        metrics=attempt("metrics", lambda: _metrics(judged, human, options)) if judged.metrics else None,
        plan=attempt("plan", lambda: _plan(data, selection, judgments, judged, options)),
        datasheet=None,
        options=options,
        scope=_scope(data, judgments, judged, made, human),
    )
    sheet = attempt("datasheet", lambda: _datasheet(findings))
    return replace(findings, datasheet=sheet, left_out=tuple(left_out)), mismatches


def _judged(
    data: EvalSet, selection: Selection | None, judgments: Judgments | None, options: Options
) -> tuple[EvalSet, str]:
    """The data whose human score is the one that is estimated, and its name."""
    if judgments is not None:
        made = of_criterion(judgments, options.criterion, options.human)
        data, _ = with_judgments(data, made, selection, options.human)
    elif options.criterion is not None:
        data = score_of_criterion(data, options.criterion, options.human)
    human = options.human or data.human
    if human is None:
        raise DataError(f"{data.name}: there is no human score; name it with --human NAME / human=")
    return judged_within(data, selection, human), human


def _behind(data: EvalSet, human: str) -> Judgments | None:
    """The judgments that the score is made of; all of them where that cannot be told."""
    if data.judgments is None:
        return None
    try:
        behind = judgments_of_score(data, human)
    except AliquotError:
        return data.judgments
    keys = ["item", "system", "annotator"]
    table = data.judgments.table.join(behind.table.select(keys).unique(), on=keys, how="semi", nulls_equal=True)
    column, _, value = behind.source.partition(" ")
    if column in table.columns and column in ("protocol", "criterion"):
        table = table.filter(pl.col(column) == value.split(",")[0])
    return Judgments(table)


def _scope(
    data: EvalSet, judgments: Judgments | None, judged: EvalSet, made: Judgments | None, human: str
) -> dict[str, str]:
    """Say where the verb by itself, which knows neither selection nor score, would take more of the data."""
    given, found = judgments if judgments is not None else data.judgments, {}
    if given is not None and made is not None and made.answers().height < given.answers().height:
        found["agreement"] = (
            f"This is about the {made.answers().height:,} of {given.answers().height:,} judgments "
            f"that the estimates of '{human}' use; aliquot agreement takes all."
        )
    if human in data.scores:
        items, all_items = (int(np.isfinite(one.score(human)).any(axis=1).sum()) for one in (judged, data))
        if judgments is None and items < all_items:
            found["metrics"] = (
                f"This is about the {items:,} of {all_items:,} judged items that the estimates use; "
                "aliquot metrics takes all."
            )
    return found


def _agreement(data: EvalSet, judgments: Judgments, options: Options) -> Agreement:
    return agreement(replace(data, judgments=judgments), confidence=options.level, seed=options.seed)


def _metrics(data: EvalSet, human: str, options: Options) -> MetricReport:
    return metrics(
        data,
        human,
        parts=["decomposition", "breakeven", "value"],
        level=options.level,
        alpha=options.alpha,
        seed=options.seed,
    )


def _plan(
    data: EvalSet, selection: Selection | None, judgments: Judgments | None, judged: EvalSet, options: Options
) -> CampaignPlan:
    """What other budgets promise, as `plan` says it; a past campaign that is large is not replayed."""
    present = np.isfinite(judged.human_score())
    cells = present.size
    if present.all() and cells > _CELLS_TO_REPLAY:
        raise OptionError(f"replaying {cells:,} outputs takes long; run aliquot plan {data.name}")
    found = plan(
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
    if not isinstance(found, CampaignPlan):
        raise DataError(f"{data.name}: these data allow no plan")
    items = int(present.any(axis=1).sum())
    if found.basis == "pilot" and found.judged < items:  # it would contradict the numbers of the other sections
        raise DataError(
            f"{found.judged} of {items} items are judged for all systems, and a plan rests on those only; "
            "run aliquot plan"
        )
    return found


def _datasheet(found: Findings) -> Datasheet:
    data = found.data
    if data is not None and found.judgments is not None:
        data = replace(data, judgments=found.judgments)
    results = [found.results[verb] for verb in ("estimate", "agreement", "clean") if verb in found.results]
    return datasheet.new(data, selection=found.selection, results=results, human=found.human)
