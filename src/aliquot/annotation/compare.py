"""`compare`: which of two or more systems do people prefer, and do the questions they answered make sense?

A table of choices stays a table; everything else that is read from a file becomes data with judgments or scores.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, overload

import polars as pl

from aliquot.annotation.ballots import table_preferences
from aliquot.annotation.choice_tables import choice_table, kind_of
from aliquot.annotation.choices import score_preferences
from aliquot.annotation.criteria import Criteria, criteria
from aliquot.annotation.error_importance import ErrorImportance, importance
from aliquot.annotation.group_changes import GroupChanges, group_changes
from aliquot.annotation.preferences import Comparison, compare_preferences
from aliquot.annotation.side_by_side import PostEditing, Verification, postedit, verify
from aliquot.annotation.surveys import AffectScores, PoolReduction, panas, reduce_pool
from aliquot.core import memory
from aliquot.core.evalset import EvalSet
from aliquot.core.judgments import Judgments
from aliquot.errors import FormatError, OptionError, unknown_name
from aliquot.io.files import read_bytes
from aliquot.io.formats import campaign, items, tables
from aliquot.io.formats.table_columns import map_columns
from aliquot.io.formats.table_files import Table, read_frame, to_polars
from aliquot.io.inputs import as_evalset
from aliquot.io.load import detect_format, load

Data = EvalSet | Judgments | pl.DataFrame
Source = Data | str | Path | Table
CompareResult = (
    Comparison | Verification | PostEditing | Criteria | ErrorImportance | GroupChanges | PoolReduction | AffectScores
)

_OTHER_KINDS: Mapping[str, Callable[..., CompareResult]] = MappingProxyType(
    {
        "verify": verify,
        "postedit": postedit,
        "criteria": criteria,
        "importance": importance,
        "groups": group_changes,
        "pool": reduce_pool,
        "panas": panas,
    }
)
KINDS = ("pairwise", "best-worst", "ranking", "scores", *_OTHER_KINDS)

TABLE_KINDS = ("pairwise", "best-worst", "ranking", "verify", "postedit", "groups", "pool", "panas")
"""Kinds that are read from tables of their own."""


@overload
def compare(
    data: Source, kind: Literal["pairwise", "best-worst", "ranking", "scores"], **options: Any
) -> Comparison: ...
@overload
def compare(data: Source, kind: Literal["verify"], **options: Any) -> Verification: ...
@overload
def compare(data: Source, kind: Literal["postedit"], **options: Any) -> PostEditing: ...
@overload
def compare(data: Source, kind: Literal["criteria"], **options: Any) -> Criteria: ...
@overload
def compare(data: Source, kind: Literal["importance"], **options: Any) -> ErrorImportance: ...
@overload
def compare(data: Source, kind: Literal["groups"], **options: Any) -> GroupChanges: ...
@overload
def compare(data: Source, kind: Literal["pool"], **options: Any) -> PoolReduction: ...
@overload
def compare(data: Source, kind: Literal["panas"], **options: Any) -> AffectScores: ...
@overload
def compare(data: Source, kind: str | None = None, **options: Any) -> CompareResult: ...
def compare(data: Source, kind: str | None = None, **options: Any) -> CompareResult:
    """Compare systems by what people chose, or the criteria they judged by.

    Args:
        data: A table (a Polars or pandas DataFrame, or the path of a CSV, TSV or Parquet file), or judgments or data
            with scores.
        kind: What the table holds; found from its columns when not given.

            - pairwise: item, annotator, system_a, system_b, choice (a, b, tie)
            - best-worst: item, annotator, shown (["A", "B", "C"], or by hand A;B;C), best, worst
            - ranking: item, annotator, system, rank; or item, annotator, ranking ([["A"], ["B", "C"]], or by hand
              A > B = C)
            - scores: judgments or scores, of which the higher one of two on the same item is chosen
            - verify: as pairwise, with the choices only a, only b, both, none
            - postedit: item, annotator, final, output_a, output_b, system_a, system_b, choice
            - criteria: judgments by several criteria, or a column of numbers for each
            - importance: lists of errors (MQM), or a column of counts for each type of error, and a score
            - groups: participant, group, before, after, measure
            - pool: question, value (a pilot's ratings of how suitable each question is)
            - panas: a column for each of the 20 adjectives of PANAS, participant, time
        **options: Of most kinds: systems (keep only these), columns (our column role -> the table's column), level
            (coverage of the intervals), cluster (item, annotator or none: choices that depend on each other), seed,
            where (file name, for messages). Preferences also take ties, interval, prior, alpha, adjust, rule, draws,
            ignore, strict, and from scores criterion, human, within, margin; verify adjust; postedit outputs, by,
            adjust; criteria only, rows, correlation, factors, gap, communality, promax, drop, flip, scale; importance
            target, errors, types, per_annotator; groups groups, lower_is_better, adjust, equal_variances; pool minimum,
            spread, rule.

    Returns:
        A frozen result with to_frame(), to_dict(), notes and signature: Comparison for preferences, Verification,
        PostEditing, Criteria, ErrorImportance, GroupChanges, PoolReduction or AffectScores for the other kinds.

    >>> import polars as pl
    >>> table = pl.DataFrame({"item": [1, 2, 3, 4], "annotator": ["p", "q", "p", "q"], "system_a": ["X", "X", "Y", "Y"],
    ...                       "system_b": ["Y", "Y", "X", "X"], "choice": ["a", "a", "b", "a"]})
    >>> result = compare(table)
    >>> result.systems[0].system, result.systems[0].win_rate
    ('X', 0.75)
    """
    if kind is not None and kind not in KINDS:
        raise unknown_name("kind", kind, KINDS, "check --kind")
    if isinstance(data, (str, Path)):
        options.setdefault("where", str(data))
        data = read_data(data, kind, options.get("columns"))
    elif not isinstance(data, (EvalSet, Judgments)):
        data = to_polars(data)
    if options.get("outputs") is not None:
        options["outputs"] = as_evalset(options["outputs"])
    if kind is None:
        kind = _kind_of(data, options)
    options = _checked(kind, options)
    memory.limit_draws(draws=options.get("draws") or 0)
    if isinstance(data, pl.DataFrame):
        if kind == "scores":
            data = scores_of(data, options.pop("columns", None), options.pop("where", "table"))
    elif kind in TABLE_KINDS:
        raise OptionError(f"the kind '{kind}' reads a table; judgments and scores are compared by --kind scores")
    elif kind == "importance" and isinstance(data, Judgments):
        raise OptionError(
            "the kind 'importance' reads data with lists of errors, or a table; judgments alone have no scores"
        )
    if kind in _OTHER_KINDS:
        return _OTHER_KINDS[kind](data, **options)
    how = {name: options.pop(name) for name in _SCORING if name in options}
    if isinstance(data, pl.DataFrame):
        return compare_preferences(table_preferences(data, kind, **options), **how)
    options = {name: value for name, value in options.items() if name not in ("where", "columns")}
    return compare_preferences(score_preferences(data, **options), **how)


def _kind_of(data: Data, options: Mapping[str, Any]) -> str:
    """Recognise the kind by the columns (choices such as both, none are verify); all else holds scores."""
    columns = options.get("columns")
    kind = kind_of(data.columns, columns) if isinstance(data, pl.DataFrame) else None
    if kind != "pairwise" or not isinstance(data, pl.DataFrame):
        return kind or "scores"
    table = choice_table(data, "verify", columns, options.get("where", "table"))
    labels = set(table.texts("choice").drop_nulls().str.to_lowercase().unique())
    right = bool(labels & {"both", "none", "neither"}) and not labels & {"tie", "ties", "equal", "same", "="}
    return "verify" if right else "pairwise"


_FOR_ALL = ("seed", "where", "level")
"""Options that every kind takes; kinds that draw nothing ignore the seed, those without intervals the level."""

_SCORING = ("ties", "interval", "level", "alpha", "adjust", "rule", "prior", "draws", "seed")
"""Options of `compare_preferences`."""


def _checked(kind: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that are given, or raise for one that this kind does not have."""
    allowed = options_of(kind)
    for name in options:
        if name not in (*allowed, *_FOR_ALL) and options[name] is not None:
            flag, known = f"--{name.replace('_', '-')}", ", ".join(one for one in allowed if one != "where")
            raise OptionError(f"the kind '{kind}' has no option '{name}' ({flag}); it has {known}")
    return {name: value for name, value in options.items() if value is not None and name in allowed}


def options_of(kind: str) -> list[str]:
    """Name the options of a kind.

    >>> "margin" in options_of("scores"), "margin" in options_of("pairwise")
    (True, False)
    """
    reader = _OTHER_KINDS.get(kind) or (score_preferences if kind == "scores" else table_preferences)
    own = [name for name, p in inspect.signature(reader).parameters.items() if p.kind is p.KEYWORD_ONLY]
    more = [] if kind in _OTHER_KINDS else [*(["where", "columns"] if kind == "scores" else []), *_SCORING]
    return list(dict.fromkeys([*own, *more]))


# -- reading -------------------------------------------------------------------------------------------------------


def read_data(
    path: str | Path, kind: str | None = None, columns: Mapping[str, str] | None = None
) -> EvalSet | pl.DataFrame:
    """Read a file as a table or as data, as the kind of comparison needs it.

    `path` may be a folder, "-" for standard input, or a name of data such as wmt23/en-de. Without a kind the columns
    tell whether it is a table of choices; `columns` is as in `kind_of`.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "choices.csv"
    >>> _ = path.write_text("item,system_a,system_b,choice")
    >>> read_data(path).columns
    ['item', 'system_a', 'system_b', 'choice']
    """
    if str(path) != "-" and not Path(path).is_file() and kind not in TABLE_KINDS:
        return load(path)
    if str(path) != "-" and campaign.is_campaign(path):
        frame = campaign.read_choices(path)
        frame = (
            campaign.read_judgments(path) if frame is None or kind in ("scores", "criteria", "importance") else frame
        )
    else:
        raw = read_bytes(path)
        frame = read_frame(raw, path) if detect_format(raw, path) == "table" else None
    if frame is None:
        if kind in TABLE_KINDS:
            raise FormatError(f"{path}: is no table; choices are read from CSV, TSV or Parquet")
        return items.read(raw, path) if str(path) == "-" else load(path)
    if kind in (*TABLE_KINDS, "importance") or (kind is None and kind_of(frame.columns, columns) is not None):
        return frame
    if kind == "criteria" and not {"criterion", "value"} <= map_columns(frame.columns, columns, str(path)).keys():
        return frame  # a column for each criterion
    return scores_of(frame, columns, str(path))


def scores_of(frame: pl.DataFrame, columns: Mapping[str, str] | None, where: str) -> EvalSet:
    """Make data of a table of judgments or scores."""
    return tables.from_table(frame, where, tables.TableOptions(columns=columns))
