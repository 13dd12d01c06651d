"""`clean`: mark the judgments that should not count, say why, and what that changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import polars as pl

from aliquot.annotation.audit import (
    ScoreKeeper,
    add_z_score,
    annotator_table,
    count_states,
    count_swaps,
    find_largest_change,
    judgment_notes,
    replace_judgments,
    select_counted,
    step_table,
    system_table,
)
from aliquot.annotation.cleaning_steps import STEPS, NotApplicableError, Z, find_step
from aliquot.annotation.judgment_rows import JudgmentRows, judgment_rows, make_evalset, require_judgments
from aliquot.annotation.prepare import Recodes, format_recoding, recode_values
from aliquot.core.evalset import EvalSet
from aliquot.core.judgments import MARKED, Judgments
from aliquot.core.plausibility import plausibility_notes
from aliquot.core.registry import Spec, parse_chain, parse_spec
from aliquot.core.result import Result, frame_of, make_signature
from aliquot.core.view import Column, Kind, View
from aliquot.core.written import format_number, format_percent
from aliquot.errors import DataError, OptionError, unknown_name
from aliquot.io.inputs import DataLike, as_judged
from aliquot.stats.arrays import FloatArray


@dataclass(frozen=True)
class Preset:
    """A named chain of cleaning steps."""

    name: str
    chain: str
    about: str

    @cached_property
    def steps(self) -> list[Spec]:
        """Return the parsed steps."""
        return parse_chain(self.chain)


PRESETS = {
    preset.name: preset
    for preset in (
        Preset(
            "da_wmt",
            "standardise+burn_in:first=10+outliers:k=1.5",
            "direct assessment as at WMT: z-scores over all judgments of an annotator, then filters, then means of "
            "outputs, then of systems; the filters are practice and outliers",
        ),
        Preset(
            "da_humeval",
            "burn_in:first=10+standardise+outliers:k=1.5",
            "direct assessment: each annotator's first judgments are practice; z-scores over the others, and outliers "
            "of these (HumEval 2022, paper 1, section 4.1.3)",
        ),
        Preset(
            "crowd",
            "exam:minimum=0.8+controls:minimum=0.7+fast_pages:seconds=15+skips:pages=5",
            "crowd work: exam, control items, seconds a page, skipped pages (the detoxification pipeline; HumEval "
            "2022, paper 8)",
        ),
        Preset(
            "semantic_differential",
            "speeders:share=0.4,expected=600+straight_liners+repeats:k=1.5",
            "surveys: total time, one value throughout, inconsistent on repeated questions (HumEval 2022, paper 3)",
        ),
    )
}
"""Preset name -> steps."""

StepsLike = str | Sequence[str] | Mapping[str, Mapping[str, Any] | None]


def build_chain(preset: str | None, steps: StepsLike | None, without: Sequence[str] = ()) -> list[Spec]:
    """Return the steps to run: the preset's, with thresholds changed by `steps`, then other steps.

    >>> [str(spec) for spec in build_chain("da_wmt", "outliers:k=3+straight_liners", without=["burn_in"])]
    ['standardise', 'outliers:k=3', 'straight_liners']
    """
    if preset is not None and preset not in PRESETS:
        raise unknown_name("preset", preset, PRESETS)
    chain = {spec.name: spec for spec in (PRESETS[preset].steps if preset else [])}
    for spec in _parse_steps(steps):
        before = chain[spec.name].parameters if spec.name in chain else {}
        chain[spec.name] = Spec(spec.name, {**before, **spec.parameters})
    for name in without:
        find_step(name)
        chain.pop(name, None)
    for spec in chain.values():
        find_step(spec.name).bind(spec.parameters)  # an unknown threshold raises at once
    return list(chain.values())


def _parse_steps(steps: StepsLike | None) -> list[Spec]:
    if steps is None:
        return []
    if isinstance(steps, str):
        specs = parse_chain(steps)
    elif isinstance(steps, Mapping):
        specs = [Spec(name, parameters or {}) for name, parameters in steps.items()]
    else:
        specs = [parse_spec(text) for text in steps]
    twice = [spec.name for spec in specs if [later.name for later in specs].count(spec.name) > 1]
    if twice:
        raise OptionError(f"the cleaning step '{twice[0]}' is given twice; each runs once")
    return specs


@dataclass(frozen=True)
class StepAudit:
    """What one step did."""

    step: str  # as it was run
    applied: bool = False  # whether the data have what it needs; if not, `note` says what is missing
    marked: int = 0  # judgments marked
    share: float = 0.0  # of the judgments that counted before
    annotators: int = 0  # annotators without any judgment left because of it
    change: float = 0.0  # the largest change of a system's score, with its sign
    system: str | None = None  # the system of that change
    swaps: int = 0  # pairs of systems that changed order
    note: str = ""


@dataclass(frozen=True, eq=False)
class Cleaned(Result):
    """Judgments with marks, and the audit log: which step removed which judgments."""

    judgments: Judgments  # all of them; the column `marked` says why one should not count
    evalset: EvalSet  # the data with these judgments, and the human scores made of what counts
    counts: dict[str, int]  # answers, answered, skipped, pending, marked before, marked now
    steps: tuple[StepAudit, ...]
    # One row per annotator: answers, pending, skipped, median seconds, how many of their judgments each step marked,
    # the largest change of a system's score without those, and what steps measured.
    annotators: pl.DataFrame
    systems: pl.DataFrame  # score and rank before and after, raw and of annotators' z-scores
    by_step: pl.DataFrame  # the score of every system after every step
    notes: tuple[str, ...]
    signature: str

    def to_frame(self) -> pl.DataFrame:
        """One row per step."""
        return frame_of(self.steps, StepAudit)

    def views(self) -> Sequence[View]:
        """Return the views `steps`, `annotators` and `systems`."""
        return tuple(view for view in (_step_view(self), _annotator_view(self), _system_view(self)) if view.rows)

    def document(self) -> Mapping[str, Any]:
        """All fields but the data themselves."""
        return self.fields_without("judgments", "evalset")


def _step_view(cleaned: Cleaned) -> View:
    counts, n = cleaned.counts, cleaned.annotators.height
    parts = [f"{counts['answers']} judgments by {n} annotator{'s' * (n != 1)}"]
    parts += [f"{counts[state]} {state}" for state in ("skipped", "pending") if counts[state]]
    parts += [f"{counts['marked_before']} marked before"] if counts["marked_before"] else []
    share = counts["marked"] / max(1, counts["answered"] - counts["marked_before"])
    parts.append(f"{counts['marked']} marked now ({format_percent(share)})")
    columns = (
        Column("step", kind="name"),
        _column_if_applied("marked", "count"),
        _column_if_applied("share", "share", rank=2),
        _column_if_applied("annotators", "count", header="annotators gone", rank=3),
        _column_if_applied("change", "number", header="largest change", rank=1),
        _column_if_applied("swaps", "count", rank=4),
        Column("of", lambda row: row.system if row.applied else "not applied", "name"),
    )
    remarks = "\n".join(f"{step.step}: {step.note}" for step in cleaned.steps if step.note)
    return View("steps", cleaned.steps, columns, "steps, in order", (", ".join(parts),), remarks)


def _column_if_applied(name: str, kind: Kind, *, header: str = "", rank: int = 0) -> Column:
    """Return a column that is empty for steps that did not apply."""
    return Column(header or name, lambda row: getattr(row, name) if row.applied else None, kind, rank=rank)


def _annotator_view(cleaned: Cleaned) -> View:
    """Annotators by number of marks, with a column for each step that marked anything."""
    fixed = ("annotator", "answers", "skipped", "pending", "median_seconds", "marked", "change", "changed_system")
    table = cleaned.annotators
    names = [name for name in table.columns if name not in fixed and table.schema[name].is_integer()]
    names = [name for name in names if (table[name].fill_null(0) > 0).any()][:4]
    columns = (
        Column("annotator", kind="name"),
        Column("answers", kind="count", rank=1),
        Column("marked", kind="count"),
        *(Column(name, kind="count", rank=4 + place) for place, name in enumerate(names)),
        Column("median s", "median_seconds", rank=3),
        Column("change", rank=2),
        Column("of", "changed_system", "name"),
    )
    return View.of_frame(
        "annotators", table, columns, title="annotators, most marks first", importance=lambda row: row["marked"]
    )


def _system_view(cleaned: Cleaned) -> View:
    columns = (
        Column("system", kind="name"),
        Column("answers", lambda row: f"{row['answers_before']} to {row['answers_after']}", "count", rank=2),
        Column("before", lambda row: format_number(row["before"], 4)),
        Column("after", lambda row: format_number(row["after"], 4)),
        Column("change"),
        Column("rank", _rank_change, "count", rank=1),
        Column("z before", "z_before", places=3, rank=3),
        Column("z after", "z_after", places=3, rank=3),
    )
    return View.of_frame("systems", cleaned.systems, columns, title="systems, by the mean of their outputs")


def _rank_change(row: Mapping[str, Any]) -> str:
    before, after = ("-" if row[name] is None else str(row[name]) for name in ("rank_before", "rank_after"))
    return after if before == after else f"{before} to {after}"


def clean(
    data: DataLike | Judgments,
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
    """Mark judgments that should not count, step by step, and log what each step did.

    Marked judgments stay in the table and are left out of scores. Each step sees what earlier steps left. A step whose
    columns are missing marks nothing, which the audit notes.

    Args:
        data: an EvalSet with judgments, or judgments.
        preset: `da_wmt`, `da_humeval`, `crowd` or `semantic_differential`.
        steps: steps to run (`"burn_in:first=10+outliers:k=1.5"`, or a list, or name -> thresholds); with a preset,
            changed thresholds and further steps.
        without: steps of the preset to leave out.
        scale: lowest and highest valid value; other values are marked first.
        labels: the valid values; others are marked.
        strict: raise DataError for values outside `scale` or `labels` instead of marking them.
        fresh: ignore marks that the judgments came with.
        answer: the column that holds the judgments, e.g. `label`.
        recode: values of judgments (and of `expected`), e.g. `no=0,yes=1`.

    >>> import aliquot
    >>> data = aliquot.synthetic(items=60, systems=3, protocol="da", seed=2)
    >>> cleaned = aliquot.clean(data, "da_wmt")
    >>> [(audit.step, audit.marked) for audit in cleaned.steps]
    [('standardise', 0), ('burn_in:first=10', 46), ('outliers:k=1.5', 9)]
    >>> len(cleaned.judgments), len(cleaned.judgments.usable())
    (180, 125)
    """
    data = as_judged(data, None if answer == "value" else answer)
    limits, other_steps = _limit_steps(scale, labels), build_chain(preset, steps, without)
    chain = [*limits, *other_steps]
    twice = {spec.name for spec in limits} & {spec.name for spec in other_steps}
    if twice:
        raise OptionError(f"the cleaning step '{min(twice)}' is given twice; leave out {min(twice)}= or the step")
    if not chain:
        raise OptionError(f"there is nothing to do; name a preset ({', '.join(PRESETS)}) or steps ({', '.join(STEPS)})")
    evalset_before = make_evalset(data)
    judgments = require_judgments(data) if recode is None and answer == "value" else recode_values(data, answer, recode)
    if not len(judgments):
        raise DataError(f"{evalset_before.name}: no judgments to clean; check `systems` and `exclude`")
    original = judgment_rows(judgments)
    judged = judgment_rows(Judgments(judgments.table.drop(MARKED, strict=False))) if fresh else original
    if strict:
        _refuse_values(judged, scale, labels)
    before = judged
    keeper = ScoreKeeper.from_table(judged.table)
    audits, measured, scores, notes = (
        [],
        [],
        [keeper.mean_scores(select_counted(judged))],
        judgment_notes(judged, chain),
    )
    for spec in chain:
        judged, audit, measures, after = _run_step(judged, spec, keeper, scores[-1])
        audits.append(audit)
        scores.append(after)
        measured += [measures] if measures is not None else []
    if not select_counted(judged).any():
        notes.append("no judgment is left: are the thresholds meant for data like these?")
    marked = Judgments(judgments.table.with_columns(judged.table[MARKED].gather(judged.of_row)))
    evalset, score_notes = replace_judgments(evalset_before, marked, original, judged)
    if Z in judged.table.columns:
        evalset, z_notes = add_z_score(evalset, judged)
        score_notes += z_notes
    return Cleaned(
        judgments=marked,
        evalset=evalset,
        steps=tuple(audits),
        annotators=annotator_table(before, judged, keeper, [spec.name for spec in chain], measured),
        systems=system_table(before, judged, keeper),
        by_step=step_table(keeper.systems, chain, scores),
        counts=count_states(before, judged),
        notes=(*notes, *score_notes, *_judgment_plausibility_notes(evalset_before, marked)),
        signature=make_signature(
            "clean",
            evalset_before,
            preset=preset,
            steps="+".join(str(spec) for spec in chain),
            fresh="yes" if fresh else None,
            answer=None if answer == "value" else answer,
            recode=format_recoding(recode),
        ),
    )


def _judgment_plausibility_notes(evalset: EvalSet, judgments: Judgments) -> list[str]:
    """Return plausibility notes on the judgments, not on a human score that came with the data."""
    data = replace(evalset, judgments=judgments)
    if "value" in judgments.table.columns and judgments.table["value"].null_count() < len(judgments):
        data = data.aggregate(name=evalset.human or "human")
    return plausibility_notes(data)


def _limit_steps(scale: tuple[float, float] | None, labels: Sequence[float] | None) -> list[Spec]:
    specs = (
        [] if scale is None else [Spec("scale", {"low": _format_number(scale[0]), "high": _format_number(scale[1])})]
    )
    if labels is not None:
        specs.append(Spec("labels", {"allowed": [_format_number(label) for label in labels]}))
    return specs


def _format_number(number: float) -> str:
    return str(int(number)) if float(number).is_integer() else repr(float(number))


def _refuse_values(judged: JudgmentRows, scale: tuple[float, float] | None, labels: Sequence[float] | None) -> None:
    for spec in _limit_steps(scale, labels):
        reasons = find_step(spec.name).run(judged, spec.parameters).reasons
        if reasons.count():
            row = judged.table.filter(reasons.is_not_null()).row(0, named=True)
            allowed = f"the scale {scale[0]:g} to {scale[1]:g}" if spec.name == "scale" and scale else "the labels"
            raise DataError(
                f"judgment of {row['annotator']} on item {row['item']}, system {row['system']}: the value "
                f"{row['value']:g} is outside {allowed}, and {reasons.count() - 1} more are; correct "
                "them, or leave `strict` out to mark them"
            )


def _run_step(
    judged: JudgmentRows, spec: Spec, keeper: ScoreKeeper, before: FloatArray
) -> tuple[JudgmentRows, StepAudit, pl.DataFrame | None, FloatArray]:
    """Run one step; return the judgments, its audit, what it measured, and the scores after it."""
    try:
        marks = find_step(spec.name).run(judged, spec.parameters)
    except NotApplicableError as missing:
        return judged, StepAudit(str(spec), note=f"not applied: {missing}"), None, before
    marked = judged.with_marks(marks.reasons)
    if marks.z is not None:
        marked = replace(marked, table=marked.table.with_columns(marks.z))
    open_before, open_after = select_counted(judged), select_counted(marked)
    after = keeper.mean_scores(open_after)
    change, system = find_largest_change(after - before, keeper.systems)
    count = int(open_before.sum() - open_after.sum())
    n_annotators = [
        judged.table["annotator"].filter(pl.Series(rows)).drop_nulls().n_unique() for rows in (open_before, open_after)
    ]
    audit = StepAudit(
        str(spec),
        applied=True,
        marked=count,
        share=count / max(1, int(open_before.sum())),
        annotators=n_annotators[0] - n_annotators[1],
        change=change,
        system=system,
        swaps=count_swaps(before, after),
        note="; ".join(marks.notes),
    )
    return marked, audit, marks.measures, after
