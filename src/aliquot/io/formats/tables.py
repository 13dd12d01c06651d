"""Tables of scores, judgments and texts as data: long, or wide with a column for each system, metric or criterion.

A table becomes an EvalSet in two steps: each column gets its role (`_assign_roles`), and a wide table is made long.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Literal, cast, get_args

import numpy as np
import polars as pl

from aliquot.core import escape
from aliquot.core.columns import encode_series, scatter_texts
from aliquot.core.evalset import EvalSet
from aliquot.core.judgments import LABEL, Judgments
from aliquot.errors import (
    AliquotError,
    AliquotWarning,
    FormatError,
    MissingColumnError,
    NotNumericError,
    OptionError,
    quoted,
    unknown_name,
)
from aliquot.io.formats.table_columns import (
    AMBIGUOUS_ROLES,
    ITEM_FIELDS,
    SYNONYMS,
    Absent,
    describe_text_columns,
    holds_file_names,
    holds_numbers,
    infer_type,
    is_numeric,
    map_columns,
    parse_columns,
    parse_flags,
    parse_ids,
    parse_names,
    parse_numbers,
    parse_whole_numbers,
    require_roles,
)
from aliquot.io.formats.table_roles import build_item_ids, looks_like_score, propose_readings, settle_roles
from aliquot.io.writing import resolve_ending, write_bytes, write_parquet
from aliquot.stats.arrays import FloatArray, IntArray
from aliquot.validation import one_of

Wide = Literal["systems", "metrics"]
"""What each of the remaining columns of a wide table is."""
_SCORE_ROLES = ("item", "system", "metric", "value", "output", *ITEM_FIELDS)
_NON_ANSWER_ROLES = ("item", "system", "annotator", "criterion", "seconds")
_MAX_PROPOSALS = 8
_OUTPUT_WORD, _VALUE_WORD = ("|".join(name for name in SYNONYMS[role]) for role in ("output", "value"))
_OUTPUT_OF = re.compile(rf"^(?:{_OUTPUT_WORD})s?[ _.:-]+(.+)$", re.IGNORECASE)
_OWN_OUTPUT = re.compile(rf"^(.+?)(?:'s)?[ _.:-]+(?:{_OUTPUT_WORD})s?$", re.IGNORECASE)
_OWN_SCORE = re.compile(rf"^(.+?)[ _.:-]+({_VALUE_WORD})s?$", re.IGNORECASE)
_SCORE_OF = re.compile(rf"^({_VALUE_WORD})s?[ _.:-]+(.+)$", re.IGNORECASE)


@dataclass(frozen=True)
class TableOptions:
    """How to read a table whose columns leave it open.

    Attributes:
        columns: our column role -> the table's column name.
        wide: "systems" or "metrics" when columns are systems or metrics (criteria, where there are annotators).
        score_name: the name of the score where the table gives none.
        answer: the column that holds what annotators answered, numbers or labels.
        judgments: whether values without an annotator are judgments, not scores.
        absent: where given, collects columns that are asked for and not there, instead of raising.
        joins: whether the table holds scores to be joined: without a column of systems, each column is one.
    """

    columns: Mapping[str, str] | None = None
    wide: Wide | None = None
    score_name: str | None = None
    answer: str | None = None
    absent: Absent | None = None
    judgments: bool = False
    joins: bool = False


@dataclass(frozen=True)
class _TableRoles:
    """A table whose columns have roles: those with one under its name, the others under their own."""

    fields: pl.DataFrame
    extras: pl.DataFrame
    roles: Mapping[str, str]
    where: str

    @property
    def name(self) -> str:
        return Path(self.where).name.split(".")[0]

    def require_roles(self, roles: Sequence[str], kind: str) -> None:
        present = [*self.roles.values(), *self.extras.columns]
        require_roles(roles, self.roles, present, kind, self.where)

    def require_judgments(self, *roles: str) -> None:
        try:
            self.require_roles(roles, "judgments")
        except MissingColumnError as error:
            if error.role == "system":
                error.args = (f"{error}; labels of items without systems are read with `answer=COLUMN`",)
            raise

    def parse_ids(self) -> pl.Series:
        return parse_ids(self.fields["item"], self.where)

    def parse_names(self, role: str) -> pl.Series:
        return parse_names(self.fields[role], self.where)

    def parse_numbers(self, column: pl.Series) -> FloatArray:
        return parse_numbers(column, self.where)

    def parse_values(self) -> FloatArray:
        return self.parse_numbers(self.fields["value"].alias(self.roles["value"]))

    def with_field(self, role: str, values: pl.Series) -> _TableRoles:
        fields = pl.DataFrame([*self.fields.drop(role, strict=False), values.alias(role)])
        return replace(self, fields=fields, roles={**self.roles, role: role})


def from_table(table: pl.DataFrame, where: str, options: TableOptions | None = None) -> EvalSet:
    """Build an EvalSet from a table of scores, judgments or texts, long or wide."""
    options = options or TableOptions()
    if options.wide is not None:
        one_of("wide", options.wide, get_args(Wide))
    if not table.height:
        raise FormatError(f"{where}: the table has a header but no rows; there is nothing to read")
    try:
        return _read(table, where, options)
    except FormatError as error:
        error.proposal = _propose(table, where, options)
        raise


def _propose(table: pl.DataFrame, where: str, options: TableOptions) -> tuple[str, ...]:
    """Return command line options with which a table can be read; none if there are none to believe in."""
    columns = dict(options.columns or {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            roles = dict(_assign_roles(table, where, options).roles)
        except FormatError:
            return ()
        for reading in islice(propose_readings(table, roles), _MAX_PROPOSALS):
            wide = reading.get("wide", options.wide)
            if columns.keys() & reading.keys() or (options.wide and wide != options.wide):
                continue
            text = ",".join(f"{key}={value}" for key, value in reading.items())
            added = {role: name for role, name in reading.items() if role != "wide"}
            proposal = replace(options, columns=columns | added or None, wide=cast("Wide | None", wide))
            try:
                if parse_columns(text) == reading and _read(table, where, proposal).scores:
                    return ("--read", text)
            except AliquotError:
                continue
    return ()


def _read(table: pl.DataFrame, where: str, options: TableOptions) -> EvalSet:
    if options.joins:
        options = replace(options, wide=_guess_wide(table, where, options))
    sorted_out = _assign_roles(table, where, options)
    if options.answer is not None:
        return _read_judgments(_add_answer(sorted_out, table[options.answer]))
    sorted_out = _unpivot_systems(sorted_out, options)
    sorted_out.require_roles(["item"], "tables")
    roles = sorted_out.roles
    if "annotator" in roles and ("value" not in roles or options.wide == "metrics"):
        sorted_out = _unpivot_criteria(sorted_out)
    elif options.wide == "metrics" or "value" not in roles:
        return _read_metric_columns(sorted_out, options)
    if "annotator" in roles or "criterion" in roles or (options.judgments and "metric" not in roles):
        return _read_judgments(sorted_out)
    return _read_long(sorted_out, options)


def _guess_wide(table: pl.DataFrame, where: str, options: TableOptions) -> Wide | None:
    """Return what the columns of scores to be joined are: systems, unless a column names the system."""
    if "system" in map_columns(table.columns, options.columns, where, {}):
        return None if options.wide == "systems" else options.wide
    return options.wide if "system" in (options.columns or {}) else options.wide or "systems"


def _assign_roles(table: pl.DataFrame, where: str, options: TableOptions) -> _TableRoles:
    """Assign a role to each column; with `wide`, columns of numbers are scores whatever their names."""
    for name in table.columns:
        if name.startswith("^") and name.endswith("$"):  # Polars takes it for a pattern wherever it is named
            raise FormatError(f"{where}: the column '{name}' cannot be read by that name; rename it, without '^'")
    table = table.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String))
    columns = dict(options.columns or {})
    if options.answer is not None:
        if options.answer not in table.columns:
            raise FormatError(f"{where}: {unknown_name('column', options.answer, table.columns, 'check `answer`')}")
        if options.answer in (map_columns(table.columns, columns, where, {}).get(role) for role in _NON_ANSWER_ROLES):
            what = "holds what was judged, by whom or how fast, not answers"
            raise FormatError(f"{where}: the column '{options.answer}' {what}")
        columns.pop("value", None)
    present = [name for name in table.columns if name != options.answer]
    roles = map_columns(present, columns, where, options.absent)
    if options.answer is not None:
        roles.pop("value", None)  # a free column like any other
    if options.wide is not None:
        scores = [r for r in AMBIGUOUS_ROLES if r in roles and r not in columns and is_numeric(table[roles[r]], where)]
        roles = {role: column for role, column in roles.items() if role not in scores}
    else:
        roles = settle_roles(table[present], roles, columns, where)
    if {"annotator", "source"} <= roles.keys() - columns.keys() and holds_file_names(table[roles["source"]]):
        del roles["source"]  # of the judgment, not of the item
    fields = table.select(pl.col(theirs).alias(ours) for ours, theirs in roles.items())
    if "item" in roles and roles["item"] == roles.get("source"):
        fields = fields.with_columns(build_item_ids(fields["source"]).alias("item"))
    return _TableRoles(fields, table[present].drop(roles.values()), roles, where)


# -- wide tables as long ones --------------------------------------------------------------------------------------


def _unpivot_systems(table: _TableRoles, options: TableOptions) -> _TableRoles:
    """Unpivot a table with a column per system to a row per item and system."""
    if "system" in table.roles:
        return table
    if options.wide == "systems":
        if any(is_numeric(column, table.where) for column in table.extras):
            return _stack_score_columns(table, options)
        outputs = {name: name for name in table.extras.columns}
    else:
        outputs = {} if "value" in table.roles else _find_outputs(table.extras)
    scores = {
        (name, system): column
        for system in outputs
        for column in table.extras.columns
        if (name := _parse_score_column(column, system)) is not None and column not in outputs.values()
    }
    if not outputs and not {"value", "output"} & table.roles.keys() and options.wide is None:
        scores = _find_system_scores(table.extras)
    systems = dict.fromkeys([*outputs, *(system for _, system in scores)])
    if not systems:
        return table
    if options.wide is None and not any(map(_OUTPUT_OF.match, outputs.values())):
        text = (
            f"{quoted(systems)} are read as systems, with their columns {quoted((*outputs.values(), *scores.values()))}"
        )
        warnings.warn(f"{table.where}: {text}", AliquotWarning, 2)
    left_out = [name for name in table.extras.columns if name not in (*outputs.values(), *scores.values())]
    _warn_left_out(quoted(left_out), table)
    table = table if "item" in table.roles else table.with_field("item", pl.int_range(table.extras.height, eager=True))
    metrics = list(dict.fromkeys(name for name, _ in scores))
    empty = pl.Series(np.full(table.fields.height, np.nan))
    values = {key: pl.Series(table.parse_numbers(table.extras[column])) for key, column in scores.items()}
    parts = [
        table.fields.with_columns(
            pl.lit(system).alias("system"),
            *([table.extras[outputs[system]].alias("output")] if outputs else []),
            *(values.get((metric, system), empty).alias(f"score:{metric}") for metric in metrics),
        )
        for system in systems
    ]
    new = ("system", "output") if outputs else ("system",)
    return _stack_parts(table, parts, {f"score:{metric}": metric for metric in metrics}, new)


def _find_outputs(columns: pl.DataFrame) -> dict[str, str]:
    """Return system -> column of its outputs: output_A, A output, or texts A beside numbers called A score."""
    for pattern in (_OUTPUT_OF, _OWN_OUTPUT):
        outputs = {match[1]: name for name in columns.columns if (match := pattern.match(name))}
        if len(outputs) > (pattern is _OWN_OUTPUT):
            return outputs
    scores = [column.name for column in columns if holds_numbers(column) or parse_flags(column) is not None]
    texts = [name for name in columns.columns if name not in scores]
    own = {name: name for name in texts if any(_parse_score_column(score, name) for score in scores)}
    return own if len(own) > 1 else {}


def _find_system_scores(columns: pl.DataFrame) -> dict[tuple[str, str], str]:
    """Return (score, system) -> column where columns of numbers are called A score, B score, or score A, score B."""
    for pattern, score, system in ((_OWN_SCORE, 2, 1), (_SCORE_OF, 1, 2)):
        matches = {column.name: pattern.match(column.name) for column in columns if holds_numbers(column)}
        scores = {(match[score], match[system]): name for name, match in matches.items() if match}
        systems = {system for _, system in scores}
        if len(systems) > 1 and not any(looks_like_score(name) or name.isdigit() for name in systems):
            return scores
    return {}


def _parse_score_column(column: str, system: str) -> str | None:
    """Return the score that a column such as COMET_A or A_COMET holds for the system A.

    >>> _parse_score_column("human_A", "A"), _parse_score_column("A COMET", "A"), _parse_score_column("human_B", "A")
    ('human', 'COMET', None)
    """
    match = re.match(rf"^(?:(.+)[ _.:-]+{re.escape(system)}|{re.escape(system)}[ _.:-]+(.+))$", column)
    return None if match is None else match[1] or match[2]


def _stack_score_columns(table: _TableRoles, options: TableOptions) -> _TableRoles:
    """Unpivot the score columns, one per system."""
    table.require_roles(["item"], "tables")
    ids = table.parse_ids()
    again = ~ids.is_first_distinct()
    if again.any() and "annotator" not in table.roles:
        row = int(again.arg_max() or 0)
        raise FormatError(
            f"{table.where} row {row + 1}: item {ids[row]} has two rows; with `wide=systems` each item has one"
        )
    if not table.extras.columns:
        raise FormatError(f"{table.where}: no column holds scores; there are {quoted(table.roles.values())}")
    systems = parse_names(pl.Series("header", table.extras.columns), table.where)
    parts = [
        table.fields.with_columns(pl.lit(system).alias("system"), pl.Series("value", table.parse_numbers(column)))
        for system, column in zip(systems, table.extras, strict=True)
    ]
    stacked = _stack_parts(table, parts, {}, ("system", "value"))
    return replace(stacked, roles={**stacked.roles, "value": options.score_name or "score"})


def _stack_parts(
    table: _TableRoles, parts: Sequence[pl.DataFrame], score_columns: Mapping[str, str], new: Sequence[str]
) -> _TableRoles:
    stacked = pl.concat(parts)
    roles = {**table.roles, **{role: role for role in new}}
    scores = pl.DataFrame([stacked[column].alias(name) for column, name in score_columns.items()])
    return _TableRoles(stacked.drop(score_columns), scores, roles, table.where)


def _unpivot_criteria(table: _TableRoles) -> _TableRoles:
    """Unpivot a table with a column per criterion to a row per judgment."""
    table.require_judgments("item", "system")
    criteria = [name for name in table.extras.columns if is_numeric(table.extras[name], table.where)]
    if not criteria or "criterion" in table.roles:
        table.require_judgments("value")
    free = table.extras.drop(criteria)
    remark = f"; {describe_text_columns(free)} are not" if free.columns else ""
    note = f"no column 'value'; {quoted(criteria)} are read as criteria{remark}"
    warnings.warn(f"{table.where}: {note}", AliquotWarning, 2)
    parts = [
        table.fields.with_columns(
            pl.lit(name).alias("criterion"), pl.Series("value", table.parse_numbers(table.extras[name]))
        )
        for name in criteria
    ]
    if "seconds" in table.roles:  # the time of a row is that of all its criteria: counted once
        parts[1:] = [
            part.with_columns(pl.lit(None, dtype=part["seconds"].dtype).alias("seconds")) for part in parts[1:]
        ]
    stacked = pl.concat(part.hstack(free) for part in parts).filter(pl.col("value").is_not_nan())
    roles = {**table.roles, "criterion": "criterion", "value": "value"}
    return _TableRoles(stacked.drop(free.columns), stacked.select(free.columns), roles, table.where)


# -- the kinds -----------------------------------------------------------------------------------------------------


def _read_long(table: _TableRoles, options: TableOptions) -> EvalSet:
    table.require_roles(["system", "value"], "long scores")
    value = table.parse_values()
    items, rows = factorize_labels(table.parse_ids())
    systems, columns = factorize_labels(table.parse_names("system"))
    if "metric" in table.roles:
        metrics, which = factorize_labels(table.parse_names("metric"))
        names = metrics.to_list()
    else:
        names, which = [options.score_name or table.roles["value"]], np.zeros(len(rows), dtype=np.int64)
    shape = (len(names), len(items), len(systems))
    cell = (which * shape[1] + rows) * shape[2] + columns
    scores = _scatter_values(value, cell, shape, table, None if "metric" in table.roles else names[0])
    left_out = [r for name, r in table.roles.items() if name not in _SCORE_ROLES] + table.extras.columns
    _warn_left_out(quoted(left_out), table)
    return _build_evalset(table, items, rows, systems, columns, dict(zip(names, scores, strict=True)))


def _scatter_values(
    value: FloatArray, cell: IntArray, shape: tuple[int, ...], table: _TableRoles, metric: str | None
) -> FloatArray:
    """Return values by cell; raise FormatError if two rows of one cell differ."""
    scores = np.full(int(np.prod(shape)), np.nan)
    present = np.isfinite(value)
    if present.all():
        scores[cell] = value
    else:
        scores[cell[present]] = value[present]
    differs = (scores[cell] != value) & present
    if differs.any():
        second = int(np.flatnonzero(differs)[0])
        first = int(np.flatnonzero((cell == cell[second]) & present)[-1])
        low, high = sorted((first, second))
        row = table.fields.row(high, named=True)
        raise FormatError(
            f"{table.where} row {high + 1}: item {row['item']}, system {row['system']}, metric "
            f"{metric or row['metric']} has the value {value[high]:g} here and {value[low]:g} in row {low + 1}; "
            "keep one, or add an 'annotator' column if both are judgments"
        )
    return scores.reshape(shape)


def _warn_left_out(names: str, table: _TableRoles) -> None:
    if names:
        warnings.warn(f"{table.where}: the columns {names} are not read as scores: left out", AliquotWarning, 2)


def _read_metric_columns(table: _TableRoles, options: TableOptions) -> EvalSet:
    names = table.extras.columns
    if options.wide is None and "system" not in table.roles:
        raise FormatError(
            f"{table.where}: no columns 'system' and 'value', so {quoted(names, 5)} could be systems or metrics; "
            "say which with `wide=systems` or `wide=metrics`, or name columns with `columns`"
        )
    if not names and "output" not in table.roles:
        raise FormatError(f"{table.where}: no column holds scores; there are {quoted(table.roles.values())}")
    table.require_roles(["system"], "tables with one column a metric")
    numeric = [name for name in names if is_numeric(table.extras[name], table.where)]
    if not numeric and "output" not in table.roles:
        raise FormatError(
            f"{table.where}: none of the columns {quoted(names)} holds numbers only; name them with `columns`"
        )
    _warn_left_out(describe_text_columns(table.extras.drop(numeric)), table)
    items, rows = factorize_labels(table.parse_ids())
    systems, columns = factorize_labels(table.parse_names("system"))
    shape = (len(items), len(systems))
    cell = rows * shape[1] + columns
    values = {name: table.parse_numbers(table.extras[name]) for name in numeric}
    scores = {name: _scatter_values(values[name], cell, shape, table, name) for name in numeric}
    return _build_evalset(table, items, rows, systems, columns, scores)


def _build_evalset(
    table: _TableRoles,
    items: pl.Series,
    rows: IntArray,
    systems: pl.Series,
    columns: IntArray,
    scores: Mapping[str, FloatArray],
    judgments: Judgments | None = None,
) -> EvalSet:
    outputs = None
    if "output" in table.roles:
        texts = table.fields["output"].cast(pl.String).to_list()
        outputs = scatter_texts(rows, columns, texts, len(items), systems.to_list())
    names = tuple(systems.to_list())
    return EvalSet(_build_items(items, table, rows), names, scores, outputs, judgments, name=table.name)


def _add_answer(table: _TableRoles, answer: pl.Series) -> _TableRoles:
    """Add the answers as values if they are numbers, else as a column of labels."""
    table.require_roles(["item", "annotator"], "judgments")
    if "system" not in table.roles:  # labels of the items themselves
        table = table.with_field("system", pl.repeat("-", table.fields.height, eager=True))
    typed = infer_type(answer)
    numeric = typed.dtype.is_numeric()
    none = pl.repeat(None, len(typed), dtype=pl.Float64, eager=True)
    table = table.with_field("value", pl.Series(parse_numbers(typed, table.where)) if numeric else none)
    if numeric and answer.name == "value":
        return table
    return replace(
        table, extras=table.extras.with_columns(typed.alias(LABEL if answer.name == "value" else answer.name))
    )


def _read_judgments(table: _TableRoles) -> EvalSet:
    judgments = _build_judgments(table)
    items, rows = factorize_labels(judgments["item"])
    systems, columns = factorize_labels(judgments["system"])
    evalset = _build_evalset(table, items, rows, systems, columns, {}, Judgments(judgments))
    return add_criterion_scores(evalset) if judgments["value"].count() else evalset


def _build_judgments(table: _TableRoles) -> pl.DataFrame:
    """Return the judgments with their types and free columns, without texts and item columns."""
    table.require_judgments("item", "system", "value")
    numbers = [name for name in ("value", "seconds") if name in table.roles]
    apart = ("item", "system", *numbers, *ITEM_FIELDS, "output")
    try:
        value = table.parse_values()
    except NotNumericError as error:
        error.args = (f"{error}; labels are read with `answer=COLUMN` and `recode=yes=1,no=0`",)
        raise
    columns = [
        table.parse_ids().alias("item"),
        table.parse_names("system"),
        pl.Series("value", value, nan_to_null=True),
        *(pl.Series(name, table.parse_numbers(table.fields[name]), nan_to_null=True) for name in numbers[1:]),
        *(infer_type(column) for column in table.fields if column.name not in apart),
    ]
    column_names = {column.name for column in columns}
    free = {
        f"{name}_" if name in column_names else name: infer_type(table.extras[name]) for name in table.extras.columns
    }
    return pl.DataFrame([*columns, *(column.alias(name) for name, column in free.items())])


def add_criterion_scores(evalset: EvalSet) -> EvalSet:
    """Add `human`, the mean over all judgments of a cell, and `human_<criterion>` for each of several criteria.

    A criterion without any value, whose answers are labels, has no score.
    """
    evalset = evalset.aggregate()
    table = evalset.judgments.table if evalset.judgments is not None else pl.DataFrame({"criterion": [], "value": []})
    criteria = table.filter(pl.col("value").is_not_null())["criterion"].drop_nulls().unique(maintain_order=True)
    for criterion in criteria if table["criterion"].n_unique() > 1 else []:
        evalset = evalset.aggregate(criterion=criterion)
    return evalset


# -- items and outputs ---------------------------------------------------------------------------------------------


def factorize_labels(labels: pl.Series) -> tuple[pl.Series, IntArray]:
    """Return the distinct labels in order of first appearance and each row's index among them."""
    return labels.alias("key").unique(maintain_order=True), encode_series(labels)


def _build_items(items: pl.Series, table: _TableRoles, rows: IntArray) -> pl.DataFrame:
    """Return each item's fields from the first row that has them."""
    fields = [_parse_item_field(table.fields[name], table.where) for name in ITEM_FIELDS if name in table.roles]
    if not fields:
        return pl.DataFrame([items.alias("id")])
    by_item = pl.DataFrame([pl.Series("row", rows), *fields]).group_by("row", maintain_order=True)
    first = by_item.agg(pl.exclude("row").drop_nulls().first())  # codes count up in order of first appearance
    return pl.DataFrame([items.alias("id"), *first.drop("row")])


def _parse_item_field(column: pl.Series, where: str) -> pl.Series:
    if column.name == "cost":
        return pl.Series("cost", parse_numbers(column, where), nan_to_null=True)
    return parse_whole_numbers(column, where) if column.name == "position" else column.cast(pl.String)


# -- writing -------------------------------------------------------------------------------------------------------


def write(table: pl.DataFrame, path: Path | str, ending: str | None = None) -> None:
    """Write a table by `ending` or the path's: .csv, .tsv (and .gz of them) or .parquet; CSV to standard output."""
    name = ending or resolve_ending(path, ".csv").removesuffix(".gz")
    if name.endswith(".parquet"):
        write_parquet(table, path)
        return
    if not name.endswith((".csv", ".tsv")):
        raise OptionError(f"{path}: unknown ending for a table; use .csv, .tsv or .parquet")
    write_bytes(path, format_csv(table, "\t" if name.endswith(".tsv") else ",").encode())


def format_csv(table: pl.DataFrame, separator: str = ",") -> str:
    """Format a table as CSV or TSV; nested values as JSON, and formulas escaped."""
    nested = [column.name for column in table if column.dtype.is_nested()]
    flat = table.with_columns(table[name].struct.field("json").alias(name) for name in nested)
    safe = escape.csv_cells(flat)
    safe.columns = escape.csv_names(safe.columns)
    return safe.write_csv(separator=separator)


def build_long_scores(evalset: EvalSet) -> pl.DataFrame:
    """Return one row per item, system and score that is present: item, system, metric, value."""
    n, m = evalset.n_items, evalset.n_systems
    item = evalset.items["id"].gather(np.repeat(np.arange(n), m)).alias("item")
    cells = pl.DataFrame([item, pl.Series("system", list(evalset.systems) * n, dtype=pl.String)])
    by_score = [
        cells.with_columns(pl.lit(name).alias("metric"), pl.Series("value", values.ravel(), nan_to_null=True))
        for name, values in evalset.scores.items()
    ]
    return pl.concat(by_score).drop_nulls("value")
