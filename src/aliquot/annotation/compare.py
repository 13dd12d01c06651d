"""`compare`: which of two or more systems do people prefer?

A table of choices stays a table; everything else that is read from a file becomes data with judgments or scores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal, cast, get_args, overload

import polars as pl

from aliquot.annotation.ballots import table_preferences
from aliquot.annotation.choice_tables import choice_table, detect_table_kind
from aliquot.annotation.choices import score_preferences
from aliquot.annotation.comparison_inputs import (
    Data,
    Source,
    Sources,
    evalset_of_table,
    keyword_names,
    read_sources,
    select_options,
)
from aliquot.annotation.postediting import PostEditing, compare_postedits
from aliquot.annotation.preference_result import Comparison
from aliquot.annotation.preferences import compare_preferences
from aliquot.annotation.survey import SURVEY_KINDS, SurveyKind, SurveyResult, survey
from aliquot.annotation.verification import Verification, compare_verified
from aliquot.core import memory
from aliquot.errors import OptionError, warn_caller
from aliquot.io.inputs import as_evalset
from aliquot.validation import one_of

PreferenceKind = Literal["pairwise", "best-worst", "ranking", "scores"]
CompareKind = Literal["pairwise", "best-worst", "ranking", "scores", "verify", "postedit"]
COMPARE_KINDS: tuple[CompareKind, ...] = get_args(CompareKind)
CompareResult = Comparison | Verification | PostEditing

_SIDE_BY_SIDE: Mapping[str, Callable[..., CompareResult]] = MappingProxyType(
    {"verify": compare_verified, "postedit": compare_postedits}
)
_MOVED = "kind '{kind}' is now in survey: aliquot.survey(data, '{kind}')"
MOVED_KIND = r"kind '\w+' is now in survey"
"""Start of the warning about a kind of `survey`, as a regular expression."""


@overload
def compare(data: Sources, kind: PreferenceKind, **options: Any) -> Comparison: ...
@overload
def compare(data: Sources, kind: Literal["verify"], **options: Any) -> Verification: ...
@overload
def compare(data: Sources, kind: Literal["postedit"], **options: Any) -> PostEditing: ...
@overload
def compare(data: Sources, kind: SurveyKind, **options: Any) -> SurveyResult: ...
@overload
def compare(data: Sources, kind: str | None = None, **options: Any) -> CompareResult | SurveyResult: ...
def compare(data: Sources, kind: str | None = None, **options: Any) -> CompareResult | SurveyResult:
    """Compare systems by what people chose.

    Args:
        data: A table (a Polars or pandas DataFrame, or the path of a CSV, TSV or Parquet file), or judgments or data
            with scores; or a list of tables of choices.
        kind: What the table holds; detected from its columns by default.

            - pairwise: item, annotator, system_a, system_b, choice (a, b, tie)
            - best-worst: item, annotator, shown (["A", "B", "C"], or by hand A;B;C), best, worst
            - ranking: item, annotator, system, rank; or item, annotator, ranking ([["A"], ["B", "C"]], or by hand
              A > B = C)
            - scores: judgments or scores, of which the higher one of two on the same item is chosen
            - verify: as pairwise, with the choices only a, only b, both, none
            - postedit: item, annotator, final, output_a, output_b, system_a, system_b, choice

            The kinds of `aliquot.survey` work here, too, with a warning.
        **options: Of most kinds: systems (keep only these), columns (our column role -> the table's column), level
            (coverage of the intervals), cluster (item, annotator or none: choices that depend on each other), seed,
            where (file name, for messages). Preferences also take ties, interval, prior, alpha, adjust, rule, draws,
            ignore, strict, and from scores criterion, human, within, margin; verify adjust; postedit outputs, by,
            adjust.

    Returns:
        Comparison for preferences, Verification or PostEditing: frozen results with to_frame(), to_dict(), views(),
        notes and signature.

    >>> import polars as pl
    >>> table = pl.DataFrame({"item": [1, 2, 3, 4], "annotator": ["p", "q", "p", "q"], "system_a": ["X", "X", "Y", "Y"],
    ...                       "system_b": ["Y", "Y", "X", "X"], "choice": ["a", "a", "b", "a"]})
    >>> result = compare(table)
    >>> result.systems[0].system, result.systems[0].win_rate
    ('X', 0.75)
    """
    if kind is not None and kind not in SURVEY_KINDS:
        one_of("kind", kind, COMPARE_KINDS)
    if kind not in SURVEY_KINDS:
        source, where = read_sources(data, needs_table=kind not in (None, "scores"), has_choices=kind != "scores")
        options.setdefault("where", where)
        if kind is None:
            kind = _detect_kind(source, options)
            data = source
    if kind in SURVEY_KINDS:
        warn_caller(_MOVED.format(kind=kind))
        if isinstance(data, (list, tuple)):
            data, _ = read_sources(data, needs_table=True, has_choices=False)
        return survey(cast("Source", data), kind, **options)
    if options.get("outputs") is not None:
        options["outputs"] = as_evalset(options["outputs"])
    options = select_options(kind, options, list_options(kind))
    memory.limit_draws(draws=options.get("draws") or 0)
    if kind in _SIDE_BY_SIDE:
        return _SIDE_BY_SIDE[kind](_require_table(source, kind), **options)
    scoring = {name: options.pop(name) for name in _SCORING if name in options}
    if kind != "scores":
        return compare_preferences(table_preferences(_require_table(source, kind), kind, **options), **scoring)
    columns, where = options.pop("columns", None), options.pop("where", "table")
    scores = evalset_of_table(source, columns, where) if isinstance(source, pl.DataFrame) else source
    return compare_preferences(score_preferences(scores, **options), **scoring)


def _require_table(data: Data, kind: str) -> pl.DataFrame:
    if isinstance(data, pl.DataFrame):
        return data
    raise OptionError(f"kind '{kind}' reads a table; judgments and scores are compared by `kind=scores`", "kind")


def _detect_kind(data: Data, options: Mapping[str, Any]) -> str:
    """Detect the kind by the columns; choices such as both and none are `verify`, other tables hold scores."""
    columns = options.get("columns")
    kind = detect_table_kind(data.columns, columns) if isinstance(data, pl.DataFrame) else None
    if kind != "pairwise" or not isinstance(data, pl.DataFrame):
        return kind or "scores"
    table = choice_table(data, "verify", columns, options["where"])
    labels = set(table.read_texts("choice").drop_nulls().str.to_lowercase().unique())
    is_verified = bool(labels & {"both", "none", "neither"}) and not labels & {"tie", "ties", "equal", "same", "="}
    return "verify" if is_verified else "pairwise"


_SCORING = keyword_names(compare_preferences)


def list_options(kind: str) -> list[str]:
    """Return the names of a kind's options.

    >>> "margin" in list_options("scores"), "margin" in list_options("pairwise")
    (True, False)
    """
    if kind in _SIDE_BY_SIDE:
        return keyword_names(_SIDE_BY_SIDE[kind])
    names = (
        [*keyword_names(score_preferences), "where", "columns"]
        if kind == "scores"
        else keyword_names(table_preferences)
    )
    return list(dict.fromkeys([*names, *_SCORING]))
