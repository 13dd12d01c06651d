"""`compare`: which of two or more systems do people prefer, and do the questions they answered make sense?"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, overload

import polars as pl

from aliquot.annotation.choice_tables import choice_table, kind_of
from aliquot.annotation.comparison import Comparison, Result
from aliquot.annotation.criteria import Criteria, criteria
from aliquot.annotation.error_importance import ErrorImportance, importance
from aliquot.annotation.group_changes import GroupChanges, group_changes
from aliquot.annotation.postedit import PostEditing, postedit
from aliquot.annotation.preferences import compare_preferences, score_preferences, table_preferences
from aliquot.annotation.verify import Verification, verify
from aliquot.core.evalset import EvalSet
from aliquot.core.judgments import Judgments
from aliquot.errors import FormatError, OptionError, unknown_name
from aliquot.io.files import decode_text, read_bytes
from aliquot.io.formats import items, parquet, tables
from aliquot.io.formats import table_columns as delimited
from aliquot.io.formats.table_columns import map_columns
from aliquot.io.load import load, recognise

# -- `compare`: which of two or more systems do people prefer, and do the questions they answered make sense? --------


Data = EvalSet | Judgments | pl.DataFrame

KINDS = ("pairwise", "best-worst", "ranking", "scores", "verify", "postedit", "criteria", "importance", "groups")


@overload
def compare(
    data: Data | str | Path, kind: Literal["pairwise", "best-worst", "ranking", "scores"], **options: Any
) -> Comparison: ...
@overload
def compare(data: Data | str | Path, kind: Literal["verify"], **options: Any) -> Verification: ...
@overload
def compare(data: Data | str | Path, kind: Literal["postedit"], **options: Any) -> PostEditing: ...
@overload
def compare(data: Data | str | Path, kind: Literal["criteria"], **options: Any) -> Criteria: ...
@overload
def compare(data: Data | str | Path, kind: Literal["importance"], **options: Any) -> ErrorImportance: ...
@overload
def compare(data: Data | str | Path, kind: Literal["groups"], **options: Any) -> GroupChanges: ...
@overload
def compare(data: Data | str | Path, kind: str | None = None, **options: Any) -> Result: ...
def compare(data: Data | str | Path, kind: str | None = None, **options: Any) -> Result:
    """Compare systems by what people chose, or the criteria they judged by.

    Args:
        data: A table (a Polars DataFrame or the path of a CSV, TSV or Parquet file), or judgments or data with scores.
        kind: What the table holds; told by its columns when not given.

            - pairwise: item, annotator, system_a, system_b, choice (a, b, tie)
            - best-worst: item, annotator, shown (A;B;C;D), best, worst
            - ranking: item, annotator, system, rank; or item, annotator, ranking (A > B = C)
            - scores: judgments or scores, of which the higher one of two on the same item is chosen
            - verify: as pairwise, with the choices only a, only b, both, none
            - postedit: item, annotator, final, output_a, output_b, system_a, system_b, choice
            - criteria: judgments by several criteria, or a column of numbers for each
            - importance: lists of errors (MQM), or a column of counts for each type of error, and a score
            - groups: participant, group, before, after, measure
        **options: Of the kind: systems, columns, level, cluster, seed; preferences also take ties, interval, prior,
            alpha, adjust, draws, ignore, strict, and from scores criterion, human, within, margin; postedit outputs,
            by; criteria only, rows, correlation, factors, gap, communality, drop; importance target, errors, types;
            groups groups, lower_is_better, adjust, equal_variances.

    Returns:
        A frozen result with to_frame(), to_dict(), notes and signature: Comparison for preferences, Verification,
        PostEditing, Criteria, ErrorImportance or GroupChanges for the other kinds.

    >>> import polars as pl
    >>> table = pl.DataFrame({"item": [1, 2, 3, 4], "annotator": ["p", "q", "p", "q"], "system_a": ["X", "X", "Y", "Y"],
    ...                       "system_b": ["Y", "Y", "X", "X"], "choice": ["a", "a", "b", "a"]})
    >>> result = compare(table)
    >>> result.systems[0].system, result.systems[0].win_rate
    ('X', 0.75)
    """
    if kind is not None and kind not in KINDS:
        raise unknown_name("kind", kind, KINDS, "check --kind")
    columns = options.get("columns")
    if isinstance(data, (str, Path)):
        found: Data = read_data(data, kind, columns)
        options.setdefault("where", str(data))
    else:
        found = data
    named = kind or _told(found, columns)
    if kind is None and named == "pairwise":
        named = _verified(found, options)
    return _KINDS[named](found, _checked(named, options))


def _told(data: Data, columns: Mapping[str, str] | None) -> str:
    """Tell the kind by the columns; whatever holds no choices holds scores."""
    return (kind_of(data.columns, columns) or "scores") if isinstance(data, pl.DataFrame) else "scores"


def _verified(data: Data, options: Mapping[str, Any]) -> str:
    """Tell whether the choices say which of the two is right (only a, both, none) instead of which is better."""
    if not isinstance(data, pl.DataFrame):
        return "pairwise"
    table = choice_table(data, "verify", options.get("columns"), options.get("where", "table"))
    said = set(table.texts("choice").drop_nulls().str.to_lowercase().unique().to_list())
    of_verify = bool(said & {"both", "none", "neither"}) and not said & {"tie", "ties", "equal", "same", "="}
    return "verify" if of_verify else "pairwise"


# -- the kinds -----------------------------------------------------------------------------------------------------


def _table_of(data: Data, kind: str) -> pl.DataFrame:
    if isinstance(data, pl.DataFrame):
        return data
    raise OptionError(f"the kind '{kind}' reads a table; judgments and scores are compared by --kind scores")


def _preferences(kind: str) -> Callable[[Data, dict[str, Any]], Comparison]:
    def run(data: Data, options: dict[str, Any]) -> Comparison:
        how = {name: options.pop(name) for name in _SCORING if name in options}
        if "cluster" in options:
            how["cluster"] = options["cluster"]
        return compare_preferences(table_preferences(_table_of(data, kind), kind, **options), **how)

    return run


def _scores(data: Data, options: dict[str, Any]) -> Comparison:
    how = {name: options.pop(name) for name in _SCORING if name in options}
    if "cluster" in options:
        how["cluster"] = options["cluster"]
    where, columns = options.pop("where", "table"), options.pop("columns", None)
    data = scores_of(data, columns, where) if isinstance(data, pl.DataFrame) else data
    return compare_preferences(score_preferences(data, **options), **how)


def _of_table(kind: str, function: Callable[..., Result]) -> Callable[[Data, dict[str, Any]], Result]:
    return lambda data, options: function(_table_of(data, kind), **options)


_ANYWHERE = ("seed", "where")
"""Options that every kind takes; those that draw nothing have no use for a seed."""

_SCORING = ("ties", "interval", "level", "alpha", "adjust", "prior", "draws", "seed")
_KINDS: Mapping[str, Callable[[Data, dict[str, Any]], Result]] = MappingProxyType(
    {
        "pairwise": _preferences("pairwise"),
        "best-worst": _preferences("best-worst"),
        "ranking": _preferences("ranking"),
        "scores": _scores,
        "verify": _of_table("verify", verify),
        "postedit": _of_table("postedit", postedit),
        "criteria": lambda data, options: criteria(data, **options),
        "importance": lambda data, options: importance(_errors_of(data), **options),
        "groups": _of_table("groups", group_changes),
    }
)


def _errors_of(data: Data) -> EvalSet | pl.DataFrame:
    if isinstance(data, Judgments):
        raise OptionError(
            "the kind 'importance' reads data with lists of errors, or a table; judgments alone have no scores"
        )
    return data


def _checked(kind: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that are given, or say which one this kind does not have."""
    allowed = options_of(kind)
    for name in options:
        if name not in (*allowed, *_ANYWHERE) and options[name] is not None:
            flag = f"--{name.replace('_', '-')}"
            raise OptionError(f"the kind '{kind}' has no option '{name}' ({flag}); it has {_listed(allowed)}")
    return {name: value for name, value in options.items() if value is not None and name in allowed}


def _listed(names: Sequence[str]) -> str:
    return ", ".join(name for name in dict.fromkeys(names) if name != "where")


def options_of(kind: str) -> Sequence[str]:
    """Name the options of a kind.

    >>> "margin" in options_of("scores"), "margin" in options_of("pairwise")
    (True, False)
    """
    functions: dict[str, Callable[..., Any]] = {
        "verify": verify, "postedit": postedit, "criteria": criteria, "importance": importance, "groups": group_changes,
    }  # fmt: skip
    if kind in functions:
        return [name for name, p in inspect.signature(functions[kind]).parameters.items() if p.kind is p.KEYWORD_ONLY]
    reader = score_preferences if kind == "scores" else table_preferences
    own = [name for name, p in inspect.signature(reader).parameters.items() if p.kind is p.KEYWORD_ONLY]
    extra = ["where", "columns"] if kind == "scores" else []
    return [*own, *extra, *_SCORING]


# -- Reading what `compare` is given: a table of choices stays a table, everything else is loaded as data ------------


TABLE_KINDS = ("pairwise", "best-worst", "ranking", "verify", "postedit", "groups")
"""Kinds that are read from tables of their own."""

_PARQUET = b"PAR1"


def read_data(
    path: str | Path, kind: str | None = None, columns: Mapping[str, str] | None = None
) -> EvalSet | pl.DataFrame:
    """Read a file as a table or as data, as the kind of comparison needs it.

    Args:
        path: A file, a folder, "-" for standard input, or a name of data such as wmt23/en-de.
        kind: What is to be compared; None tells by the columns whether it is a table of choices.
        columns: Our column role -> the table's column, as `kind_of` takes it.

    Raises:
        FormatError: It is no table, and a table is needed.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "choices.csv"
        >>> _ = path.write_text("item,system_a,system_b,choice")
        >>> read_data(path).columns
        ['item', 'system_a', 'system_b', 'choice']
    """
    if str(path) != "-" and not Path(path).is_file() and kind not in TABLE_KINDS:
        return load(path)
    raw = read_bytes(path)
    frame = _frame(raw, path)
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


def _frame(raw: bytes, path: str | Path) -> pl.DataFrame | None:
    """Return the table that a file holds, or None where it holds something else."""
    if raw.startswith(_PARQUET):
        try:
            return None if parquet.is_item_table(raw) else pl.read_parquet(raw)
        except pl.exceptions.PolarsError as error:
            raise FormatError(f"{path}: unreadable Parquet ({str(error).splitlines()[0]}); copy it again") from None
    return delimited.parse(decode_text(raw, path), path) if recognise(raw, path) == "table" else None
