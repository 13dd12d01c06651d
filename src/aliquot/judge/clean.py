"""`clean`: mark the judgments that should not count, say why, and what that changes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from aliquot.data.evalset import EvalSet
from aliquot.data.judgments import MARKED, Judgments
from aliquot.data.signature import signature
from aliquot.data.spec import Spec, written
from aliquot.errors import DataError, OptionError
from aliquot.judge.answers import Answers, Data, answers_of, evalset_of, judgments_of
from aliquot.judge.audit import (
    ScoreKeeper,
    annotator_table,
    counted_in,
    counts_of,
    first_notes,
    largest,
    step_table,
    swaps,
    system_table,
)
from aliquot.judge.prepare import Recodes, valued, written_recoding
from aliquot.judge.presets import PRESETS, StepsLike, all_steps, chain_of
from aliquot.judge.remark import with_marked
from aliquot.judge.step_registry import NotApplicableError, lookup
from aliquot.stats.arrays import FloatArray


@dataclass(frozen=True)
class StepAudit:
    """What one step did.

    Attributes:
        step: the step as it was run.
        applied: whether the data have what it looks at; if not, `note` says what is missing.
        marked: how many answers it marked.
        share: of the answers that counted before it.
        annotators: how many annotators have nothing left because of it.
        change: the largest change of a system's score, with its sign.
        system: whose it is.
        swaps: how many pairs of systems changed order.
        note: what a reader should know.
    """

    step: str
    applied: bool
    marked: int
    share: float
    annotators: int
    change: float
    system: str | None
    swaps: int
    note: str = ""


@dataclass(frozen=True, eq=False)
class Cleaned:
    """Judgments with marks, and the audit of how they came to them.

    Attributes:
        judgments: all judgments; the column `marked` says why one should not count.
        evalset: the data with these judgments, and the human scores made of what counts.
        steps: what each step did, in order.
        annotators: one row per annotator: answers, pending, skipped, median seconds, how many of their answers each
            step marked, the largest change of a system's score that leaving those out makes, and what steps measured.
        systems: one row per system: score and rank before and after, raw and of annotators' z-scores.
        by_step: the score of every system after every step.
        counts: answers, answered, skipped, pending, marked before, marked now.
        notes: what a reader should know.
        signature: the line that reproduces this.
    """

    judgments: Judgments
    evalset: EvalSet
    steps: tuple[StepAudit, ...]
    annotators: pl.DataFrame
    systems: pl.DataFrame
    by_step: pl.DataFrame
    counts: dict[str, int]
    notes: tuple[str, ...]
    signature: str

    def to_frame(self) -> pl.DataFrame:
        """One row per step."""
        return pl.DataFrame([vars(audit) for audit in self.steps], schema_overrides={"system": pl.String})

    def to_dict(self) -> dict[str, Any]:
        """The JSON document of `clean --json`."""
        return {
            "counts": self.counts,
            "steps": [_without_nan(vars(audit)) for audit in self.steps],
            "annotators": [_without_nan(row) for row in self.annotators.to_dicts()],
            "systems": [_without_nan(row) for row in self.systems.to_dicts()],
            "by_step": [_without_nan(row) for row in self.by_step.to_dicts()],
            "notes": list(self.notes),
            "signature": self.signature,
        }


def _without_nan(row: dict[str, Any]) -> dict[str, Any]:
    return {k: None if isinstance(v, float) and math.isnan(v) else v for k, v in row.items()}


def clean(
    data: Data,
    preset: str | None = None,
    *,
    steps: StepsLike | None = None,
    without: Sequence[str] = (),
    scale: tuple[float, float] | None = None,
    labels: Sequence[float] | None = None,
    strict: bool = False,
    fresh: bool = False,
    answer: str = "value",
    recode: Recodes | None = None,
) -> Cleaned:
    """Mark judgments that should not count, step by step, and keep the books.

    Nothing is deleted: a marked judgment keeps its row, and everything that makes scores leaves it out. Each step sees
    what earlier ones left. A step whose columns the data lack marks nothing, and the audit says so.

    Args:
        data: an EvalSet with judgments, or judgments.
        preset: `da_wmt`, `crowd` or `semantic_differential`.
        steps: steps to run (`"burn_in:first=10+outliers:k=1.5"`, or a list, or name -> thresholds); with a preset,
            thresholds to change in it and steps to add after it.
        without: steps of the preset to leave out.
        scale: the lowest and the highest value there is; others are marked first of all.
        labels: the values there are; others are marked.
        strict: refuse values outside the scale or the labels instead of marking them.
        fresh: forget marks that the judgments came with.
        answer: the column that holds the answers, e.g. `label`.
        recode: what answers (and `expected` ones) are worth, e.g. `no=0,yes=1`; they become the values.

    >>> import aliquot
    >>> data = aliquot.synthetic(items=60, systems=3, protocol="da", seed=2)
    >>> cleaned = aliquot.clean(data, "da_wmt")
    >>> [(audit.step, audit.marked) for audit in cleaned.steps]
    [('burn_in:first=10', 46), ('outliers:k=1.5', 8)]
    >>> len(cleaned.judgments), len(cleaned.judgments.usable())
    (180, 126)
    """
    limits, others = _limits(scale, labels), chain_of(preset, steps, without)
    chain = [*limits, *others]
    twice = {spec.name for spec in limits} & {spec.name for spec in others}
    if twice:
        raise OptionError(f"the cleaning step '{min(twice)}' is given twice; leave out {min(twice)}= or the step")
    if not chain:
        raise OptionError(
            f"there is nothing to do; name a preset ({', '.join(PRESETS)}) or steps ({', '.join(all_steps())})"
        )
    whole = evalset_of(data)
    judgments = judgments_of(data) if recode is None and answer == "value" else valued(data, answer, recode)
    if not len(judgments):
        raise DataError(f"{whole.name}: there are no judgments to clean; check --systems and --exclude")
    came = answers_of(judgments)
    answers = answers_of(_unmarked(judgments)) if fresh else came
    if strict:
        _refuse(answers, scale, labels)
    before = answers
    keeper = ScoreKeeper.of(answers.table)
    audits, measured, scores, notes = [], [], [keeper.scores(counted_in(answers))], first_notes(answers, chain)
    for spec in chain:
        answers, audit, measures, after = _run(answers, spec, keeper, scores[-1])
        audits.append(audit)
        scores.append(after)
        measured += [measures] if measures is not None else []
    if not counted_in(answers).any():
        notes.append("no answer is left: are the thresholds meant for data like these?")
    marked = Judgments(judgments.table.with_columns(answers.table[MARKED].gather(answers.of_row)))
    evalset, said = with_marked(whole, marked, came, answers)
    return Cleaned(
        judgments=marked,
        evalset=evalset,
        steps=tuple(audits),
        annotators=annotator_table(before, answers, keeper, [spec.name for spec in chain], measured),
        systems=system_table(before, answers, keeper),
        by_step=step_table(keeper.systems, chain, scores),
        counts=counts_of(before, answers),
        notes=(*notes, *said),
        signature=signature(
            "clean", whole, preset=preset,
            steps="+".join(str(spec) for spec in chain), fresh="yes" if fresh else None,
            answer=None if answer == "value" else answer, recode=written_recoding(recode),
        ),
    )  # fmt: skip


def _limits(scale: tuple[float, float] | None, labels: Sequence[float] | None) -> list[Spec]:
    found = [] if scale is None else [Spec("scale", {"low": _plain(scale[0]), "high": _plain(scale[1])})]
    if labels is not None:
        found.append(Spec("labels", {"allowed": written([_plain(label) for label in labels])}))
    return found


def _plain(number: float) -> str:
    return str(int(number)) if float(number).is_integer() else repr(float(number))


def _unmarked(judgments: Judgments) -> Judgments:
    return Judgments(judgments.table.drop(MARKED, strict=False))


def _refuse(answers: Answers, scale: tuple[float, float] | None, labels: Sequence[float] | None) -> None:
    for spec in _limits(scale, labels):
        reasons = lookup(spec.name).run(answers, spec.parameters).reasons
        if reasons.count():
            row = answers.table.filter(reasons.is_not_null()).row(0, named=True)
            known = f"the scale {scale[0]:g} to {scale[1]:g}" if spec.name == "scale" and scale else "the labels"
            raise DataError(
                f"judgment of {row['annotator']} on item {row['item']}, system {row['system']}: the value "
                f"{row['value']:g} is outside {known}, and {reasons.count() - 1} more are; correct them, or mark them "
                "by leaving out --strict"
            )


def _run(
    answers: Answers, spec: Spec, keeper: ScoreKeeper, before: FloatArray
) -> tuple[Answers, StepAudit, pl.DataFrame | None, FloatArray]:
    """Run one step and write down what it did."""
    try:
        marks = lookup(spec.name).run(answers, spec.parameters)
    except NotApplicableError as missing:
        return answers, StepAudit(str(spec), False, 0, 0.0, 0, 0.0, None, 0, f"not applied: {missing}"), None, before
    done = answers.with_marks(marks.reasons)
    open_before, open_after = counted_in(answers), counted_in(done)
    after = keeper.scores(open_after)
    change, system = largest(after - before, keeper.systems)
    count = int(open_before.sum() - open_after.sum())
    gone = set(answers.table["annotator"].filter(pl.Series(open_before)).drop_nulls().unique()) - set(
        answers.table["annotator"].filter(pl.Series(open_after)).drop_nulls().unique()
    )
    audit = StepAudit(
        str(spec), True, count, count / max(1, int(open_before.sum())), len(gone), change, system,
        swaps(before, after), "; ".join(marks.notes),
    )  # fmt: skip
    return done, audit, marks.measures, after
