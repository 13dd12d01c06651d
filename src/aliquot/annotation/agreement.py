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
    choose_level,
    choose_measures,
    compute_coefficients,
    pair_columns,
)
from aliquot.annotation.judgment_arrays import JudgmentArrays, judgment_arrays, recode_arrays, split_groups
from aliquot.annotation.judgment_rows import (
    Data,
    RecodeLike,
    Recoding,
    judgment_table,
    parse_recoding,
)
from aliquot.annotation.spans import compare_spans
from aliquot.core import memory
from aliquot.core.conventions import require_squarable
from aliquot.core.evalset import EvalSet
from aliquot.core.judgments import Judgments
from aliquot.core.result import frame_of, make_signature
from aliquot.errors import DataError, OptionError
from aliquot.io.inputs import DataLike, as_judged
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
from aliquot.validation import at_least

_MAX_DOMAINS = 20
"""Domains up to which each gets coefficients by default."""
_MAX_MISFIT = 0.2
"""Misfit of one common view beyond which a note says that annotators may form camps."""
_MAX_TRUST_NUMBERS = 400_000_000
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

    The unit of agreement is an output under one criterion. Of an annotator's repeated judgments the first counts; the
    others measure self-consistency. Undefined coefficients (one annotator, no output judged by two, equal judgments)
    are NaN, with a note.

    Args:
        data: an EvalSet with judgments, Judgments, or a table with item, system, annotator, value (texts are labels).
        criterion: use only this one; by default all together, and each.
        annotators: use only these.
        groups: groups whose mean judgments to compare: {"experts": ["a1", "a2"], "crowd": ["a3"]}, written
            "experts=a1|a2,crowd=a3", or a judgment column such as "protocol".
        by: item or judgment columns; each of their values gets coefficients. "auto": the domain, if there are several;
            "none": no columns.
        level: nominal, ordinal, interval or ratio; "auto" chooses by the values.
        recode: a map such as "1|2=low,3|4|5=high" or "NAME:...", applied to all tables. With several maps, each scale
            gets coefficients beside the original one.
        scale: lowest and highest value; judgments outside raise DataError.
        answer: the column that holds the judgments, by default `value`.
        measures: names of coefficients; "auto": those usual for the level.
        max_distinct: also compute coefficients on outputs with at most this many distinct judgments, which raises them.
        trust: whether to compute trust coefficients; None: with up to 15 annotators, if it is fast.
        trust_variant: "paper" as printed, "released" as in the authors' notebook.
        bootstrap: number of bootstrap draws over items; 0 for no intervals.
        confidence: coverage of the intervals.
        seed: seed of the bootstrap and of trust.

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
    columns = _group_columns(data, by)
    recodings = _parse_recodings(recode)

    def read_arrays(columns: Sequence[str]) -> JudgmentArrays:
        result = judgment_arrays(
            data, criterion=criterion, annotators=annotators, answer=answer, scale=scale, columns=columns
        )
        return recode_arrays(result, recodings[0]) if len(recodings) == 1 else result

    arrays = read_arrays(columns)
    require_squarable(arrays.value, "judgments")
    column = [groups] if isinstance(groups, str) and "=" not in groups else []
    grouped = arrays
    if column:  # judgments under different values of the column are of different units
        grouped = read_arrays(columns=[*columns, *column])
    group_arrays = split_groups(grouped, groups)
    measured, draws = choose_level(arrays, level), Draws(bootstrap, seed, confidence)
    rows: list[Coefficient] = []
    compared = Compared(arrays)
    for kind, group, part in _iterate_groups(compared, columns, group_arrays, max_distinct):
        rows += compute_coefficients(part, measured, choose_measures(measures, measured), draws, kind=kind, group=group)
    rows += _recoded_coefficients(arrays, recodings, level, measures, draws)
    spans, span_rows, span_notes = compare_spans(data, arrays.annotators, draws)
    columns_of_pairs = pair_columns(compared)
    model, camps = _fit_annotator_model(compared, measured)
    trust_values, trust_notes = _trust_by_annotator(compared, measured, trust_variant, enabled=trust, seed=seed)
    members = [
        f"{name}={'|'.join(part.annotators[code] for code in np.unique(part.annotator))}"
        for name, part in group_arrays.items()
    ]
    return Agreement(
        coefficients=frame_of([*rows, *span_rows], Coefficient).with_columns(pl.col(pl.Float64).fill_nan(None)),
        pairs=tables.pair_frame(arrays, columns_of_pairs, measured),
        annotators=tables.annotator_frame(compared, measured, model, trust_values),
        repeats=tables.repeat_frame(arrays, measured),
        answers=tables.value_frame(arrays),
        spans=spans,
        groups=tables.group_frame(arrays, group_arrays, measured),
        level=measured,
        labels=arrays.labels,
        confidence=confidence,
        notes=(*arrays.notes, *_agreement_notes(data, compared, columns), *camps, *trust_notes, *span_notes),
        signature=_agreement_signature(
            data,
            level=measured,
            criterion=criterion,
            answer=answer,
            annotators=_join_names(annotators),
            groups=_join_names(column) or _join_names(members, ","),
            by=_join_names(columns),
            recode=_join_names([str(recoding) for recoding in recodings], ";"),
            max_distinct=max_distinct,
            trust=trust_variant if trust_values is not None else None,
            bootstrap=bootstrap,
            confidence=None if confidence == 0.95 else confidence,
            seed=seed,
        ),
        tables=tables.square_tables(arrays, columns_of_pairs),
    )


# -- groups and scales ---------------------------------------------------------------------------------------------


def _group_columns(data: Data, by: str | Sequence[str]) -> list[str]:
    if by == "auto":
        table = data.items if isinstance(data, EvalSet) else judgment_table(data)
        domains = table["domain"].n_unique() if "domain" in table.columns else 0
        return ["domain"] if 1 < domains <= _MAX_DOMAINS else []
    return [] if by == "none" else [by] if isinstance(by, str) else list(by)


def _parse_recodings(recode: RecodeLike | Sequence[RecodeLike] | None) -> list[Recoding]:
    if recode is None:
        return []
    texts = [recode] if isinstance(recode, str | Mapping) else list(recode)
    parsed = [parse_recoding(recoding, f"scale {number}") for number, recoding in enumerate(texts, start=1)]
    if len({recoding.name for recoding in parsed}) < len(parsed):
        raise OptionError("two re-coded scales have the same name; write NAME:old|old=new,...")
    return parsed


def _iterate_groups(
    compared: Compared, columns: Sequence[str], sets: Mapping[str, JudgmentArrays], max_distinct: int | None
) -> Iterator[tuple[str, str, Compared]]:
    """Yield kind, name and judgments of each group that gets coefficients."""
    yield "all", "all", compared
    arrays = compared.arrays
    criteria = arrays.criteria
    for criterion in criteria if len(criteria) > 1 else []:
        yield "criterion", criterion, Compared(arrays.take(arrays.is_criterion(criterion)))
    for column in columns:
        values = arrays.table[column].cast(pl.String).fill_null("(none)")
        for name in values.unique(maintain_order=True):
            yield column, name, Compared(arrays.take((values == name).to_numpy()))
    for name, part in sets.items():
        yield "group", name, Compared(part)
    if max_distinct is not None:
        at_least("max_distinct", max_distinct, 1)
        matches = arrays.take(_count_distinct_judgments(arrays) <= max_distinct)
        yield "outputs", f"at most {max_distinct} different answers", Compared(matches)


def _count_distinct_judgments(arrays: JudgmentArrays) -> IntArray:
    """Return the number of different judgments on each row's unit."""
    code = np.unique(arrays.value, return_inverse=True)[1]
    kinds = np.unique(arrays.unit * (int(code.max()) + 1) + code) // (int(code.max()) + 1)
    return np.bincount(kinds, minlength=int(arrays.unit.max()) + 1)[arrays.unit]


def _recoded_coefficients(
    arrays: JudgmentArrays, recodings: Sequence[Recoding], level: str, measures: str | Sequence[str], draws: Draws
) -> list[Coefficient]:
    """Compute coefficients on each re-coded scale if there are several; a single one is the scale already."""
    rows: list[Coefficient] = []
    for recoding in recodings if len(recodings) > 1 else []:
        part = recode_arrays(arrays, recoding)
        new = choose_level(part, "auto" if level in ("interval", "ratio") else level)
        rows += compute_coefficients(
            Compared(part), new, choose_measures(measures, new), draws, kind="scale", group=recoding.name
        )
    return rows


# -- trust, annotators' reliability ---------------------------------------------------------------------------------


def _trust_by_annotator(
    compared: Compared, level: MeasurementLevel, variant: TrustVariant, *, enabled: bool | None, seed: int
) -> tuple[FloatArray | None, list[str]]:
    """Return trust coefficients by annotator, or None, with notes."""
    arrays, n = compared.arrays, compared.n_annotators
    if enabled is False or not compared.judgments.items or (enabled is None and n == 2):  # of two, both would be 1
        return None, []
    units = np.unique(arrays.unit, return_inverse=True)[1]
    table = np.full((int(units.max()) + 1, n), np.nan)
    combinations = min(2**n, 10_000) if n > MAX_EXACT_ANNOTATORS else 2**n
    distinct = 1 if level == "interval" else len(np.unique(arrays.value))
    if enabled is None and (n > MAX_EXACT_ANNOTATORS or combinations * len(table) * distinct > _MAX_TRUST_NUMBERS):
        return None, [f"trust coefficients of {n} annotators take long: set `trust=True` to compute them"]
    table[units, arrays.annotator] = arrays.value
    try:
        trust = trust_coefficients(table, level=level, variant=variant, seed=seed)
    except DataError as error:
        return None, [str(error)]
    sampled = [] if trust.exact else [f"trust: {trust.combinations} random combinations of {n} annotators"]
    return trust.coefficients, sampled


def _fit_annotator_model(compared: Compared, level: MeasurementLevel) -> tuple[AnnotatorModel | None, list[str]]:
    """Fit severity, noise and reliability; a note says where annotators fall into camps."""
    if not compared.arrays.has_distances(level):
        return None, []
    model = annotator_model(
        compared.judgments, compared.arrays.annotator, compared.n_annotators, compared.pairs, compared.moments
    )
    if not model.misfit > _MAX_MISFIT:
        return model, []
    note = f"annotators do not share one view (correlations of pairs are {model.misfit:.2f} off): there may be camps"
    return model, [f"{note}, and the largest seems reliable; look at the pairs, and compare groups with `groups`"]


# -- notes and signature -------------------------------------------------------------------------------------------


def _agreement_notes(data: Data, compared: Compared, columns: Sequence[str]) -> list[str]:
    """Return notes on the judgments as a whole."""
    arrays, judgments, n, notes = compared.arrays, compared.judgments, compared.n_annotators, []
    if n == 1:
        notes.append(f"one annotator ({arrays.annotators[0]}): agreement is undefined, it needs at least two")
    elif not judgments.items:
        notes.append("no output was judged by two annotators: agreement is undefined; have some outputs judged twice")
    elif len(judgments.values) == 1:
        notes.append("all compared judgments are equal: chance-corrected agreement is undefined")
    n_alone = n - len(compared.present)
    if n_alone and judgments.items:
        notes.append(f"{n_alone} of {n} annotators share no output with any other annotator")
    counts = np.bincount(arrays.annotator, minlength=n)
    n_short = int(((counts > 0) & (counts < MIN_JUDGMENTS)).sum())
    if n_short:
        notes.append(
            f"{n_short} of {n} annotators were compared on fewer than {MIN_JUDGMENTS} judgments: too few to "
            "measure their reliability"
        )
    criteria = arrays.criteria
    if len(criteria) > 1:
        notes.append(f"{len(criteria)} criteria are pooled in 'all', pairs and annotators; choose one with `criterion`")
        notes += _absence_notes(arrays, criteria)
    unnamed = arrays.table["criterion"].null_count() if criteria else 0
    if unnamed:
        notes.append(f"{unnamed} judgments name no criterion: they are compared among themselves")
    table = judgment_table(data)
    protocols = table["protocol"].drop_nulls().n_unique() if "protocol" in table.columns else 0
    if protocols > 1:
        remedy = "" if "protocol" in columns else "; see `by=protocol`"
        notes.append(
            f"judgments of {protocols} protocols are pooled in 'all', although their scales may differ{remedy}"
        )
    if compared.pairs is None:
        notes.append(f"more than {MAX_ANNOTATORS} annotators: pairs of annotators are left out")
    elif compared.pairs.rows > MAX_HELD_ROWS:
        left_out = "" if compared.pairs.tabulated else ", and Spearman's correlations are left out"
        notes.append(f"very many pairs of judgments: coefficients over pairs of annotators have no intervals{left_out}")
    return notes


def _absence_notes(arrays: JudgmentArrays, criteria: Sequence[str]) -> list[str]:
    """Return notes on annotators who did not judge a criterion that others judged."""
    notes = []
    for criterion in criteria:
        present = np.unique(arrays.annotator[arrays.is_criterion(criterion)])
        missing = len(arrays.annotators) - len(present)
        if missing:
            notes.append(f"{missing} of {len(arrays.annotators)} annotators did not judge '{criterion}'")
    return notes


def _join_names(names: Sequence[str] | None, by: str = "|") -> str | None:
    return by.join(names) if names else None


def _agreement_signature(data: Data, **parts: object) -> str:
    """Identify the data by their fingerprint, or by a digest of the judgments."""
    if isinstance(data, EvalSet):
        return make_signature("agreement", data, **parts)
    table = judgment_table(data)
    names = ("item", "system", "annotator", "criterion", parts.get("answer") or "value")
    rows = table.select(name for name in names if name in table.columns).hash_rows(seed=0).to_numpy().tobytes()
    return make_signature("agreement", None, **parts, judgments=hashlib.blake2b(rows).hexdigest()[:6])
