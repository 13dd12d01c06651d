"""`agreement`: do my annotators agree, and which of them can I trust?"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import polars as pl

from aliquot.annotation import agreement_tables as tables
from aliquot.annotation.agreement_result import Agreement
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
from aliquot.annotation.judgment_rows import (
    Data,
    RecodeLike,
    Recoding,
    group_codes,
    judgments_of,
    parse_recoding,
    table_in,
)
from aliquot.core import memory
from aliquot.core.conventions import require_squarable
from aliquot.core.evalset import EvalSet
from aliquot.core.judgments import Judgments
from aliquot.core.result import frame_of, signature
from aliquot.errors import DataError, OptionError
from aliquot.io.inputs import DataLike, as_judged
from aliquot.stats.agreement import NO_SPAN, SpanAgreement, span_agreement
from aliquot.stats.alpha import MeasurementLevel
from aliquot.stats.annotator_model import (
    MAX_EXACT_ANNOTATORS,
    MIN_JUDGMENTS,
    AnnotatorModel,
    TrustVariant,
    annotator_model,
    trust_coefficients,
)
from aliquot.stats.annotator_pairs import MAX_ANNOTATORS, MAX_HELD_ROWS
from aliquot.stats.arrays import FloatArray, IntArray
from aliquot.stats.resampling import bootstrap_intervals

_FEW = 20
"""Domains up to which each gets coefficients by default."""
_CAMPS = 0.2
"""Misfit of one common view beyond which a note says that annotators may form camps."""
_AT_ONCE = 400_000_000
"""Numbers that trust may go through by default; a few seconds."""


def agreement(
    data: DataLike | Judgments,
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
    trust_variant: TrustVariant = "paper",
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
        level: nominal, ordinal, interval or ratio; "auto" chooses by the values.
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
    memory.limit_draws(bootstrap=bootstrap)
    data = as_judged(data, answer)
    columns = _columns(data, by)
    recodings = _recodings(recode)

    def read(columns: Sequence[str]) -> JudgmentArrays:
        found = judgment_arrays(
            data, criterion=criterion, annotators=annotators, answer=answer, scale=scale, columns=columns
        )
        return recoded(found, recodings[0]) if len(recodings) == 1 else found

    arrays = read(columns)
    require_squarable(arrays.value, "judgments")
    column = [groups] if isinstance(groups, str) and "=" not in groups else []
    grouped = arrays
    if column:  # judgments under different values of the column are of different units
        grouped = read(columns=[*columns, *column])
    sets = groups_of(grouped, groups)
    measured, draws = level_of(arrays, level), Draws(bootstrap, seed, confidence)
    rows: list[Coefficient] = []
    compared = Compared(arrays)
    for kind, group, part in _parts(compared, columns, sets, max_distinct):
        rows += coefficients(part, measured, measures_of(measures, measured), draws, kind=kind, group=group)
    rows += _on_other_scales(arrays, recodings, level, measures, draws)
    spans, span_rows, span_notes = _spans(data, arrays.annotators, draws)
    found = pair_columns(compared)
    model, camps = _model(compared, measured)
    trusted, trust_notes = _trust(compared, measured, trust_variant, wanted=trust, seed=seed)
    members = [
        f"{name}={'|'.join(part.annotators[at] for at in np.unique(part.annotator))}" for name, part in sets.items()
    ]
    return Agreement(
        coefficients=frame_of([*rows, *span_rows], Coefficient).with_columns(pl.col(pl.Float64).fill_nan(None)),
        pairs=tables.pair_frame(arrays, found, measured),
        annotators=tables.annotator_frame(compared, measured, model, trusted),
        repeats=tables.repeat_frame(arrays, measured),
        answers=tables.value_frame(arrays),
        spans=spans,
        groups=tables.group_frame(arrays, sets, measured),
        level=measured,
        labels=arrays.labels,
        confidence=confidence,
        notes=(*arrays.notes, *_notes(data, compared, columns), *camps, *trust_notes, *span_notes),
        signature=_signature(
            data,
            level=measured,
            criterion=criterion,
            answer=answer,
            annotators=_joined(annotators),
            groups=_joined(column) or _joined(members, ","),
            by=_joined(columns),
            recode=_joined([str(one) for one in recodings], ";"),
            max_distinct=max_distinct,
            trust=trust_variant if trusted is not None else None,
            bootstrap=bootstrap,
            confidence=None if confidence == 0.95 else confidence,
            seed=seed,
        ),
        tables=tables.square_tables(arrays, found),
    )


# -- groups and scales ---------------------------------------------------------------------------------------------


def _columns(data: Data, by: str | Sequence[str]) -> list[str]:
    if by == "auto":
        table = data.items if isinstance(data, EvalSet) else table_in(data)
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


# -- trust, annotators' reliability ---------------------------------------------------------------------------------


def _trust(
    compared: Compared, level: MeasurementLevel, variant: TrustVariant, *, wanted: bool | None, seed: int
) -> tuple[FloatArray | None, list[str]]:
    """Trust coefficients by annotator, or why there are none."""
    arrays, n = compared.arrays, compared.n_annotators
    if wanted is False or not compared.judgments.items or (wanted is None and n == 2):  # of two, both would be 1
        return None, []
    units = np.unique(arrays.unit, return_inverse=True)[1]
    table = np.full((int(units.max()) + 1, n), np.nan)
    combinations = min(2**n, 10_000) if n > MAX_EXACT_ANNOTATORS else 2**n
    distinct = 1 if level == "interval" else len(np.unique(arrays.value))
    if wanted is None and (n > MAX_EXACT_ANNOTATORS or combinations * len(table) * distinct > _AT_ONCE):
        return None, [f"trust coefficients of {n} annotators take long: ask for them with --trust / trust=True"]
    table[units, arrays.annotator] = arrays.value
    try:
        found = trust_coefficients(table, level=level, variant=variant, seed=seed)
    except DataError as error:
        return None, [str(error)]
    sampled = [] if found.exact else [f"trust: {found.combinations} random combinations of {n} annotators"]
    return found.coefficients, sampled


def _model(compared: Compared, level: MeasurementLevel) -> tuple[AnnotatorModel | None, list[str]]:
    """Severity, noise and reliability, and a warning where annotators rather fall into camps."""
    if not compared.arrays.has_distances(level):
        return None, []
    model = annotator_model(
        compared.judgments, compared.arrays.annotator, compared.n_annotators, compared.pairs, compared.moments
    )
    if not model.misfit > _CAMPS:
        return model, []
    note = f"annotators do not share one view (correlations of pairs are {model.misfit:.2f} off): there may be camps"
    return model, [f"{note}, and the largest seems reliable; look at the pairs, and compare groups with --groups"]


# -- error spans: do annotators mark the same characters? ----------------------------------------------------------

_SPAN = ("start", "end")
_SEVERITIES = ("neutral", "minor", "major", "critical")
"""Known severities; others come after them, in alphabetical order."""


def _spans(data: Data, annotators: Sequence[str], draws: Draws) -> tuple[pl.DataFrame, list[Coefficient], list[str]]:
    """The pairs of annotators with a shared text (all together first), the coefficients over all pairs, and notes.

    Spans in the source and in the output are in different texts. Repeats of a judgment are left out.
    """
    table = table_in(data)
    if not all(name in table.columns and not table[name].dtype.is_nested() and table[name].count() for name in _SPAN):
        return tables.table_of("spans"), [], []
    if len(annotators) > MAX_ANNOTATORS:
        return tables.table_of("spans"), [], ["too many annotators to compare their spans"]
    table = judgments_of(data).usable().table.filter(pl.col("annotator").is_in(list(annotators)))
    if "repeat" in table.columns:
        again = pl.col("repeat").cast(pl.String).str.to_lowercase().is_in(["true", "1", "yes"])
        table = table.filter(~again.fill_null(value=False))
    names = sorted(annotators)
    found = _span_agreement(_with_both_sides(table), names)
    ends = bootstrap_intervals(list(found.measures().values()), *draws)
    present = np.unique(np.concatenate([found.first, found.second]))
    counts = (table.select("item", "system", "annotator").n_unique(), int(found.texts.sum()), len(found.sums))
    coefficients = [
        Coefficient("all", "all", name, *end, *counts, len(present))
        for name, end in zip(found.measures(), ends, strict=True)
    ]
    each = zip(found.texts, found.f1, found.f1_severity, found.severity_match, strict=True)
    pairs = [(names[a], names[b], *row) for a, b, row in zip(found.first, found.second, each, strict=True)]
    rows = [("all", "all", counts[1], *(end.value for end in ends)), *pairs]
    return tables.table_of("spans", rows), coefficients, []


def _with_both_sides(table: pl.DataFrame) -> pl.DataFrame:
    """Give every row its text, output or source (`span_in`); an annotator of an output has judged its source, too."""
    if "span_in" not in table.columns:
        return table.with_columns(span_in=pl.lit("output"))
    table = table.with_columns(pl.col("span_in").fill_null("output"))
    sides = table["span_in"].unique().to_list()
    if len(sides) < 2:
        return table
    judged = table.unique(["item", "system", "annotator"], maintain_order=True)
    empty = judged.with_columns(start=pl.lit(None, dtype=table["start"].dtype))
    return pl.concat([table, *(empty.with_columns(span_in=pl.lit(side)) for side in sides)])


def _span_agreement(table: pl.DataFrame, names: list[str]) -> SpanAgreement:
    start, end = (table[name].cast(pl.Int64, strict=False) for name in _SPAN)
    bad = table["start"].is_not_null() & (start.is_null() | end.is_null() | (start < 0) | (end < start))
    if bad.any():
        row = table.filter(bad).row(0, named=True)
        raise DataError(
            f"judgment of {row['annotator']} on item {row['item']}, system {row['system']}: the span from "
            f"{row['start']} to {row['end']} is not one; correct it, or leave both empty"
        )
    no_span = start.is_null()  # a judgment without a span
    first, last = (part.set(no_span, NO_SPAN).to_numpy().astype(np.int64) for part in (start, end))
    severity = np.zeros(table.height, dtype=np.int64)
    if "severity" in table.columns:
        texts = table["severity"].cast(pl.String).str.to_lowercase().fill_null("")
        known = [*_SEVERITIES, *sorted(set(texts.unique()) - set(_SEVERITIES))]
        severity = texts.replace_strict(known, list(range(len(known))), return_dtype=pl.Int64).to_numpy()
    return span_agreement(
        text=group_codes(table, ("item", "system", "span_in")),
        annotator=table["annotator"].replace_strict(names, list(range(len(names))), return_dtype=pl.Int64).to_numpy(),
        item=group_codes(table, ("item",)),
        start=first,
        end=last,
        severity=severity,
    )


# -- notes and signature -------------------------------------------------------------------------------------------


def _notes(data: Data, compared: Compared, columns: Sequence[str]) -> list[str]:
    """What a reader should know of the judgments as a whole."""
    arrays, judgments, n, notes = compared.arrays, compared.judgments, compared.n_annotators, []
    if n == 1:
        notes.append(f"one annotator ({arrays.annotators[0]}): agreement is undefined, it needs at least two")
    elif not judgments.items:
        notes.append("no output was judged by two annotators: agreement is undefined; have some outputs judged twice")
    elif len(judgments.values) == 1:
        notes.append("all compared judgments are equal: chance-corrected agreement is undefined")
    alone = n - len(compared.present)
    if alone and judgments.items:
        notes.append(f"{alone} of {n} annotators share no output with any other annotator")
    counts = np.bincount(arrays.annotator, minlength=n)
    few = int(((counts > 0) & (counts < MIN_JUDGMENTS)).sum())
    if few:
        notes.append(
            f"{few} of {n} annotators were compared on fewer than {MIN_JUDGMENTS} judgments: too few to "
            "measure their reliability"
        )
    criteria = arrays.criteria
    if len(criteria) > 1:
        notes.append(f"{len(criteria)} criteria are pooled in 'all', pairs and annotators; choose one with --criterion")
        notes += _absent(arrays, criteria)
    unnamed = arrays.table["criterion"].null_count() if criteria else 0
    if unnamed:
        notes.append(f"{unnamed} judgments name no criterion: they are compared among themselves")
    table = table_in(data)
    protocols = table["protocol"].drop_nulls().n_unique() if "protocol" in table.columns else 0
    if protocols > 1:
        remedy = "" if "protocol" in columns else "; see --by protocol"
        notes.append(
            f"judgments of {protocols} protocols are pooled in 'all', although their scales may differ{remedy}"
        )
    if compared.pairs is None:
        notes.append(f"more than {MAX_ANNOTATORS} annotators: pairs of annotators are left out")
    elif compared.pairs.rows > MAX_HELD_ROWS:
        left_out = "" if compared.pairs.tabulated else ", and Spearman's correlations are left out"
        notes.append(f"very many pairs of judgments: coefficients over pairs of annotators have no intervals{left_out}")
    return notes


def _absent(arrays: JudgmentArrays, criteria: Sequence[str]) -> list[str]:
    """Annotators who did not judge a criterion that others did."""
    notes = []
    for criterion in criteria:
        there = np.unique(arrays.annotator[arrays.under(criterion)])
        missing = len(arrays.annotators) - len(there)
        if missing:
            notes.append(f"{missing} of {len(arrays.annotators)} annotators did not judge '{criterion}'")
    return notes


def _joined(names: Sequence[str] | None, by: str = "|") -> str | None:
    return by.join(names) if names else None


def _signature(data: Data, **parts: object) -> str:
    """Identify the data by their fingerprint, or by a digest of the judgments."""
    if isinstance(data, EvalSet):
        return signature("agreement", data, **parts)
    table = table_in(data)
    names = ("item", "system", "annotator", "criterion", parts.get("answer") or "value")
    rows = table.select(name for name in names if name in table.columns).hash_rows(seed=0).to_numpy().tobytes()
    return signature("agreement", None, **parts, judgments=hashlib.blake2b(rows).hexdigest()[:6])
