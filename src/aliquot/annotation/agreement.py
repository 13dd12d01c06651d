"""`agreement`: do my judges agree, and whom can I trust?"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import polars as pl

from aliquot.annotation import agreement_tables as tables
from aliquot.annotation.agreement_result import Agreement, coefficient_frame
from aliquot.annotation.agreement_tables import has_spans, span_tables
from aliquot.annotation.coefficients import (
    Coefficient,
    Compared,
    Draws,
    coefficients,
    level_of,
    measures_of,
    pair_columns,
)
from aliquot.annotation.judgment_arrays import JudgmentArrays, groups_of, judgment_arrays, recoded
from aliquot.annotation.judgment_rows import Data, judgments_of
from aliquot.annotation.prepare import RecodeLike, Recoding, parse_recoding
from aliquot.core.evalset import EvalSet
from aliquot.core.judgments import Judgments
from aliquot.core.result import signature
from aliquot.errors import DataError, OptionError
from aliquot.stats.alpha import Level
from aliquot.stats.annotator_model import EXACT, MIN_ANSWERS, AnnotatorModel, Variant, annotator_model
from aliquot.stats.annotator_model import trust as trust_coefficients
from aliquot.stats.annotator_pairs import HELD_ROWS, MAX_ANNOTATORS
from aliquot.stats.arrays import FloatArray, IntArray

_FEW = 20
"""Domains up to which each has its row by default."""
_CAMPS = 0.2
"""Misfit of one common view beyond which annotators are said to fall into camps."""
_AT_ONCE = 400_000_000
"""Numbers that trust may go through unasked; a few seconds."""


def agreement(
    data: Data,
    *,
    criterion: str | None = None,
    annotators: Sequence[str] | None = None,
    groups: str | Mapping[str, Sequence[str]] | None = None,
    by: str | Sequence[str] = "auto",
    level: str = "auto",
    recode: RecodeLike | Sequence[RecodeLike] | None = None,
    scale: tuple[float, float] | None = None,
    answer: str | None = None,
    measures: str | Sequence[str] = "auto",
    max_distinct: int | None = None,
    trust: bool | None = None,
    trust_variant: Variant = "paper",
    bootstrap: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Agreement:
    """Measure how well annotators agree: over all, per criterion, per domain, per pair, and each against the rest.

    What two annotators can agree on is an output under one criterion. Repeated judgments of an annotator on the same
    output are kept apart: the first counts, the others show how consistent the annotator is. What is undefined (one
    annotator, no output judged by two, judgments that are all equal) is NaN, with a note.

    Args:
        data: an EvalSet with judgments, Judgments, or a table with item, system, annotator, value (texts are labels).
        criterion: only this one; otherwise all together and each.
        annotators: only these.
        groups: groups whose mean judgments to compare: {"experts": ["a1", "a2"], "crowd": ["a3"]}, written
            "experts=a1|a2,crowd=a3", or a judgment column such as "protocol".
        by: item or judgment columns whose values get coefficients of their own; "auto" is the domain where there are
            several, "none" nothing.
        level: nominal, ordinal, interval or ratio; "auto" tells by the judgments.
        recode: a map such as "1|2=low,3|4|5=high" or "NAME:..."; all tables are then on that scale. Several maps give
            each its coefficients beside those of the original scale.
        scale: ends of the scale; judgments outside are an error.
        answer: the column that holds the judgments, by default `value`.
        measures: names of coefficients; "auto" are the level's.
        max_distinct: also the outputs with at most that many different judgments; such a choice raises agreement.
        trust: trust coefficients: yes, no, or (None) with up to 15 annotators where it is quick.
        trust_variant: "paper" as printed, "released" as in the authors' notebook.
        bootstrap: draws of items for intervals; 0 for none.
        confidence: coverage of the intervals.
        seed: of bootstrap and trust.

    >>> import aliquot
    >>> data = aliquot.synthetic(items=60, systems=3, protocol="likert", annotators=4, judgments_per_output=3, seed=2)
    >>> result = aliquot.agreement(data, bootstrap=200)
    >>> result.level, 0.4 < result["alpha"] < 0.8
    ('ordinal', True)
    >>> result.pairs.columns[:4]
    ['a', 'b', 'shared', 'raw']
    """
    columns = _columns(data, by)
    arrays = judgment_arrays(
        data, criterion=criterion, annotators=annotators, answer=answer, scale=scale, columns=columns
    )
    recodings = _recodings(recode)
    if len(recodings) == 1:
        arrays = recoded(arrays, recodings[0])
    column = [groups] if isinstance(groups, str) and "=" not in groups else []
    if column:
        apart = judgment_arrays(
            data, criterion=criterion, annotators=annotators, answer=answer, columns=[*columns, *column]
        )
        apart = recoded(apart, recodings[0]) if len(recodings) == 1 else apart
    sets = groups_of(apart if column else arrays, groups)
    measured, draws = level_of(arrays, level), Draws(bootstrap, seed, confidence)
    rows: list[Coefficient] = []
    compared = Compared(arrays)
    for kind, group, part in _parts(compared, columns, sets, max_distinct):
        rows += coefficients(part, measured, measures_of(measures, measured), draws, kind=kind, group=group)
    rows += _on_other_scales(arrays, recodings, level, measures, draws)
    spans, span_rows, span_notes = _spans(data, arrays, draws)
    found = pair_columns(compared)
    model, camps = _model(compared, measured)
    trusted, trust_notes = _trust(compared, measured, trust_variant, wanted=trust, seed=seed)
    return Agreement(
        coefficients=coefficient_frame([*rows, *span_rows]),
        pairs=tables.pair_frame(arrays, found, measured),
        annotators=tables.annotator_frame(compared, measured, model, trusted),
        repeats=tables.repeat_frame(arrays, measured),
        answers=tables.answer_frame(arrays),
        spans=spans,
        groups=tables.group_frame(arrays, sets, measured),
        level=measured,
        labels=arrays.labels,
        confidence=confidence,
        notes=(*arrays.notes, *_notes(data, compared, columns), *camps, *trust_notes, *span_notes),
        signature=_signature(
            data, level=measured, criterion=criterion, answer=answer, annotators=_joined(annotators),
            groups=_joined(column) or _joined(_members(sets), ","), by=_joined(columns),
            recode=_joined([str(one) for one in recodings], ";"),
            max_distinct=max_distinct, trust=trust_variant if trusted is not None else None, bootstrap=bootstrap,
            confidence=None if confidence == 0.95 else confidence, seed=seed,
        ),
        tables=tables.square_tables(arrays, found),
    )  # fmt: skip


# -- what was asked for --------------------------------------------------------------------------------------------


def _columns(data: Data, by: str | Sequence[str]) -> list[str]:
    if by == "auto":
        table = data.items if isinstance(data, EvalSet) else data.table if isinstance(data, Judgments) else data
        domains = table["domain"].n_unique() if "domain" in table.columns else 0
        return ["domain"] if 1 < domains <= _FEW else []
    return [] if by == "none" else [by] if isinstance(by, str) else list(by)


def _recodings(recode: RecodeLike | Sequence[RecodeLike] | None) -> list[Recoding]:
    if recode is None:
        return []
    given = [recode] if isinstance(recode, str | Mapping) else list(recode)
    found = [parse_recoding(one, f"scale {number}") for number, one in enumerate(given, start=1)]
    if len({one.name for one in found}) < len(found):
        raise OptionError("two re-coded scales have the same name; write NAME:old|old=new,...")
    return found


def _parts(
    compared: Compared, columns: Sequence[str], sets: Mapping[str, JudgmentArrays], max_distinct: int | None
) -> Iterator[tuple[str, str, Compared]]:
    """Groups of judgments that get coefficients: all, criteria, values of columns, groups of annotators, outputs."""
    yield "all", "all", compared
    arrays = compared.arrays
    criteria = arrays.criteria
    for criterion in criteria if len(criteria) > 1 else []:
        yield "criterion", criterion, Compared(arrays.at(arrays.under(criterion)))
    for column in columns:
        named = arrays.table[column].cast(pl.String).fill_null("(none)")
        for name in named.unique(maintain_order=True):
            yield column, name, Compared(arrays.at((named == name).to_numpy()))
    for name, part in sets.items():
        yield "group", name, Compared(part)
    if max_distinct is not None:
        if max_distinct < 1:
            raise OptionError(f"max_distinct={max_distinct}: an output has at least one judgment; choose 1 or more")
        few = arrays.at(_distinct(arrays) <= max_distinct)
        yield "outputs", f"at most {max_distinct} different answers", Compared(few)


def _distinct(arrays: JudgmentArrays) -> IntArray:
    """How many different judgments there are on each row's unit."""
    code = np.unique(arrays.value, return_inverse=True)[1]
    kinds = np.unique(arrays.unit * (int(code.max()) + 1) + code) // (int(code.max()) + 1)
    return np.bincount(kinds, minlength=int(arrays.unit.max()) + 1)[arrays.unit]


def _on_other_scales(
    arrays: JudgmentArrays, recodings: Sequence[Recoding], level: str, measures: str | Sequence[str], draws: Draws
) -> list[Coefficient]:
    """Coefficients on each of several re-coded scales; a single one has become the scale already."""
    rows: list[Coefficient] = []
    for recoding in recodings if len(recodings) > 1 else []:
        part = recoded(arrays, recoding)
        new = level_of(part, "auto" if level in ("interval", "ratio") else level)
        rows += coefficients(Compared(part), new, measures_of(measures, new), draws, kind="scale", group=recoding.name)
    return rows


# -- trust and spans -----------------------------------------------------------------------------------------------


def _trust(
    compared: Compared, level: Level, variant: Variant, *, wanted: bool | None, seed: int
) -> tuple[FloatArray | None, list[str]]:
    """Trust coefficients by annotator, or why there are none."""
    arrays, people = compared.arrays, compared.people
    if wanted is False or not compared.answers.items:
        return None, []
    units = np.unique(arrays.unit, return_inverse=True)[1]
    shape = (int(units.max()) + 1, people)
    combinations = min(2**people, 10_000) if people > EXACT else 2**people
    answers = 1 if level == "interval" else len(np.unique(arrays.value))
    if wanted is None and people == 2:
        return None, []  # both would be 1
    if wanted is None and (people > EXACT or combinations * shape[0] * answers > _AT_ONCE):
        return None, [f"trust coefficients of {people} annotators take long: ask for them with --trust / trust=True"]
    table = np.full(shape, np.nan)
    table[units, arrays.annotator] = arrays.value
    try:
        found = trust_coefficients(table, level=level, variant=variant, seed=seed)
    except DataError as error:
        return None, [str(error)]
    sampled = [] if found.exact else [f"trust: {found.combinations} random combinations of {people} annotators"]
    return found.coefficients, sampled


def _model(compared: Compared, level: Level) -> tuple[AnnotatorModel | None, list[str]]:
    """Severity, noise and reliability, and a warning where annotators rather fall into camps."""
    if not compared.arrays.has_distances(level):
        return None, []
    model = annotator_model(compared.answers, compared.annotator, compared.people, compared.pairs, compared.moments)
    if not model.misfit > _CAMPS:
        return model, []
    text = (
        f"annotators do not share one view (correlations of pairs are {model.misfit:.2f} off): there may be camps, of "
        "which the largest passes for reliable; look at the pairs, and compare groups with --groups"
    )
    return model, [text]


def _spans(data: Data, arrays: JudgmentArrays, draws: Draws) -> tuple[pl.DataFrame, list[Coefficient], list[str]]:
    if not has_spans(data if isinstance(data, pl.DataFrame) else judgments_of(data).table):
        return tables.table_of("spans"), [], []
    judgments = judgments_of(data)
    if len(arrays.annotators) > MAX_ANNOTATORS:
        return tables.table_of("spans"), [], ["too many annotators to compare their spans"]
    frame, rows = span_tables(judgments, arrays.annotators, draws)
    return frame, rows, []


# -- notes and signature -------------------------------------------------------------------------------------------


def _notes(data: Data, compared: Compared, columns: Sequence[str]) -> list[str]:
    """What a reader should know of the judgments as a whole."""
    arrays, notes = compared.arrays, []
    if len(arrays.annotators) == 1:
        notes.append(f"one annotator ({arrays.annotators[0]}): agreement is undefined, it needs at least two")
    elif not compared.answers.items:
        notes.append("no output was judged by two annotators: agreement is undefined; have some outputs judged twice")
    elif len(compared.answers.values) == 1:
        notes.append("all compared judgments are equal: chance-corrected agreement is undefined")
    alone = len(arrays.annotators) - len(compared.present)
    if alone and compared.answers.items:
        notes.append(f"{alone} of {len(arrays.annotators)} annotators share no output with anybody")
    notes += _few(compared)
    criteria = arrays.criteria
    if len(criteria) > 1:
        notes.append(f"{len(criteria)} criteria are pooled in 'all', pairs and annotators; choose one with --criterion")
        notes += _absent(arrays, criteria)
    unnamed = arrays.table["criterion"].null_count() if criteria else 0
    if unnamed:
        notes.append(f"{unnamed} judgments name no criterion: they are compared among themselves")
    protocols = _protocols(data)
    if protocols > 1:
        remedy = "" if "protocol" in columns else "; see --by protocol"
        notes.append(
            f"judgments of {protocols} protocols are pooled in 'all', although their scales may differ{remedy}"
        )
    if compared.pairs is None:
        notes.append(f"more than {MAX_ANNOTATORS} annotators: pairs of annotators are left out")
    elif compared.pairs.rows > HELD_ROWS:
        left_out = "" if compared.pairs.tabulated else ", and Spearman's correlations are left out"
        notes.append(f"very many pairs of judgments: coefficients over pairs of annotators have no intervals{left_out}")
    return notes


def _few(compared: Compared) -> list[str]:
    """Annotators who were compared, but on too few judgments to say how reliable they are."""
    answers = np.bincount(compared.annotator, minlength=compared.people)
    few = int(((answers > 0) & (answers < MIN_ANSWERS)).sum())
    text = f"{few} of {compared.people} annotators were compared on fewer than {MIN_ANSWERS} judgments"
    return [f"{text}: too few to judge them by"] if few else []


def _absent(arrays: JudgmentArrays, criteria: Sequence[str]) -> list[str]:
    """Annotators who did not judge a criterion that others did."""
    notes = []
    for criterion in criteria:
        there = np.unique(arrays.annotator[arrays.under(criterion)])
        missing = len(arrays.annotators) - len(there)
        if missing:
            notes.append(f"{missing} of {len(arrays.annotators)} annotators did not judge '{criterion}'")
    return notes


def _protocols(data: Data) -> int:
    table = data if isinstance(data, pl.DataFrame) else judgments_of(data).table
    return table["protocol"].drop_nulls().n_unique() if "protocol" in table.columns else 0


def _members(sets: Mapping[str, JudgmentArrays]) -> list[str]:
    """Groups of annotators as --groups takes them."""
    return [
        f"{name}={'|'.join(part.annotators[at] for at in np.unique(part.annotator))}" for name, part in sets.items()
    ]


def _joined(names: Sequence[str] | None, by: str = "|") -> str | None:
    return by.join(names) if names else None


def _signature(data: Data, **parts: object) -> str:
    """Name the data by their fingerprint, or by a digest of who said what."""
    if isinstance(data, EvalSet):
        return signature("agreement", data, **parts)
    table = data if isinstance(data, pl.DataFrame) else data.table
    telling = ("item", "system", "annotator", "criterion", parts.get("answer") or "value")
    known = [name for name in telling if name in table.columns]
    said = table.select(known).hash_rows(seed=0).to_numpy().tobytes()
    return signature("agreement", None, **parts, judgments=hashlib.blake2b(said).hexdigest()[:6])
