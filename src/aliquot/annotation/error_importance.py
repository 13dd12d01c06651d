"""What do errors cost? A score explained by the numbers of errors of each type ; docs/methods.md, section 11."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import polars as pl

from aliquot.annotation.choice_tables import digest_table, number_columns
from aliquot.annotation.judgment_rows import group_codes
from aliquot.core.evalset import EvalSet
from aliquot.core.result import Result, frame_of, make_signature
from aliquot.core.view import Column, View
from aliquot.core.written import format_percent
from aliquot.errors import DataError, OptionError, unknown_name
from aliquot.io.formats.table_columns import map_columns, parse_numbers
from aliquot.stats.arrays import BoolArray, FloatArray, IntArray
from aliquot.stats.regression import ErrorSlopes, error_importance
from aliquot.validation import one_of

ErrorTypes = Literal["category", "severity"]
ERROR_TYPES: tuple[ErrorTypes, ...] = get_args(ErrorTypes)
VALUE_ROLE = "value"
_NO_ERROR = ("no-error", "no error", "no_error", "none", "")


@dataclass(frozen=True)
class ErrorCost:
    """One type of error and one score: points per error, and standardised with interval; `n` judgments with it."""

    target: str
    annotator: str | None  # None: all annotators together, each with a level of its own
    error: str
    n: int
    slope: float
    standardised: float
    se: float
    low: float
    high: float
    p: float


@dataclass(frozen=True, eq=False)
class ErrorImportance(Result):
    """The result of `survey` of kind `importance`: a row per score and type of error."""

    KIND = "importance"

    rows: tuple[ErrorCost, ...]
    r2: Mapping[str, float]
    answers: int
    level: float
    notes: tuple[str, ...] = ()
    signature: str = ""

    def __repr__(self) -> str:
        return f"ErrorImportance({len(self.r2)} scores, {len({row.error for row in self.rows})} types of error)"

    def to_frame(self) -> pl.DataFrame:
        """One row per score and type of error."""
        return frame_of(self.rows, ErrorCost)

    def views(self) -> Sequence[View]:
        """Return a view of each score's errors, then those of single annotators."""
        numbers = (
            Column("judgments with it", "n", "count", rank=2),
            Column("points each", "slope"),
            Column("standardised", places=2, rank=1),
            Column("interval", ("low", "high"), "interval", 2, rank=3),
        )
        views = []
        for target, r2 in self.r2.items():
            rows = [row for row in self.rows if row.target == target and row.annotator is None]
            title = f"{target}: errors explain {format_percent(max(0.0, r2))} of its variance"
            views.append(View("errors", rows, (Column("error", kind="name"), *numbers, Column("p", kind="p")), title))
        for target in self.r2:
            rows = [row for row in self.rows if row.target == target and row.annotator is not None]
            columns = (Column("annotator", kind="name"), Column("error", kind="name"), *numbers)
            views.append(View("annotators", rows, columns, f"{target}: points per error by annotator"))
        return tuple(view for view in views if view.rows)


@dataclass(frozen=True, eq=False)
class _ErrorCounts:
    """Judgments x types of error, the scores to explain, and whose judgment on which item it is."""

    errors: tuple[str, ...]
    counts: FloatArray
    targets: Mapping[str, FloatArray]
    item: IntArray
    annotator: IntArray | None
    names: tuple[str, ...]  # of the annotators, in the order of their codes
    digest: str


def measure_error_importance(
    data: EvalSet | pl.DataFrame,
    *,
    target: Sequence[str] | None = None,
    errors: Sequence[str] | None = None,
    types: ErrorTypes = "category",
    columns: Mapping[str, str] | None = None,
    per_annotator: bool = False,
    level: float = 0.95,
    where: str = "table",
) -> ErrorImportance:
    """Regress scores on counts of errors by type.

    Slopes are within annotators (each has a level of its own) and their intervals over items.

    Args:
        data: Data whose judgments list errors (MQM), or a table with a column of counts for each type of error,
            `item`, and where known annotator and the scores.
        target: Scores to explain: columns of the table, or scores of the data (metrics, too); by default the value of
            the judgment.
        errors: Columns that count errors, or types to keep; by default all.
        types: For error lists: category or severity.
        per_annotator: Also fit each annotator alone (HumEval 2022, paper 2): do they price errors alike?

    >>> rng = np.random.default_rng(2)
    >>> counts = rng.poisson(1.0, (100, 2))
    >>> table = pl.DataFrame({"item": range(100), "noise": counts[:, 0], "silence": counts[:, 1],
    ...                       "value": 7.0 - counts @ np.array([1.0, 3.0]) + rng.normal(size=100)})
    >>> rows = measure_error_importance(table).rows
    >>> [row.error for row in rows if row.standardised < -0.8]
    ['silence']
    """
    one_of("types", types, ERROR_TYPES)
    if isinstance(data, EvalSet):
        table = _count_in_lists(data, target, errors, types)
    else:
        table = _count_in_columns(data, target, errors, columns, where)
    fits = {
        name: error_importance(table.counts, score, table.item, groups=table.annotator, level=level)
        for name, score in table.targets.items()
    }
    rows_by_annotator, own_notes = _per_annotator(table, level) if per_annotator else ([], [])
    return ErrorImportance(
        rows=(*(row for name, fit in fits.items() for row in _cost_rows(name, fit, table)), *rows_by_annotator),
        r2={name: fit.r2 for name, fit in fits.items()},
        answers=len(table.counts),
        level=level,
        notes=(*_importance_notes(fits, table), *own_notes),
        signature=make_signature(
            "survey:importance",
            target=",".join(table.targets),
            errors=len(table.errors),
            level=level,
            per_annotator="yes" if per_annotator else None,
            data=table.digest,
        ),
    )


def _per_annotator(table: _ErrorCounts, level: float) -> tuple[list[ErrorCost], list[str]]:
    """Fit each annotator and score alone; notes name annotators with too few judgments."""
    if table.annotator is None:
        raise DataError("no column says who judged, so slopes per annotator cannot be had; name it in `columns`")
    rows, notes = [], []
    for code, annotator in enumerate(table.names):
        mine = table.annotator == code
        for name, score in table.targets.items():
            try:
                fit = error_importance(table.counts[mine], score[mine], table.item[mine], level=level)
            except OptionError as error:
                notes.append(f"{name}: annotator '{annotator}' has no slopes: {error}")
                continue
            rows += _cost_rows(name, fit, table, annotator, mine)
    return rows, notes


def _cost_rows(
    name: str, fit: ErrorSlopes, table: _ErrorCounts, annotator: str | None = None, mine: BoolArray | None = None
) -> list[ErrorCost]:
    used = np.isfinite(table.targets[name]) & (True if mine is None else mine)
    return [
        ErrorCost(
            target=name,
            annotator=annotator,
            error=error,
            n=int((table.counts[used, column] > 0).sum()),
            slope=float(fit.slopes[column]),
            standardised=float(fit.standardised[column]),
            se=float(fit.se[column]),
            low=float(fit.low[column]),
            high=float(fit.high[column]),
            p=float(fit.p[column]),
        )
        for column, error in enumerate(table.errors)
    ]


def _importance_notes(fits: Mapping[str, ErrorSlopes], table: _ErrorCounts) -> list[str]:
    notes = []
    for name, fit in fits.items():
        notes += [
            f"{name}: '{error}' {why}: no slope" for error, why in zip(table.errors, fit.reasons, strict=True) if why
        ]
        if fit.n < len(table.counts):
            notes.append(
                f"{name}: {len(table.counts) - fit.n} of {len(table.counts)} judgments lack the score: left out"
            )
    return notes


def _first_names(column: pl.Series) -> tuple[str, ...]:
    """Return annotators' names in the order of their codes."""
    codes = group_codes(column.alias("annotator").to_frame(), ["annotator"])
    return tuple(str(column[int(row)]) for row in np.unique(codes, return_index=True)[1])


# -- where the counts come from ------------------------------------------------------------------------------------


def _count_in_columns(
    frame: pl.DataFrame,
    target: Sequence[str] | None,
    errors: Sequence[str] | None,
    columns: Mapping[str, str] | None,
    where: str,
) -> _ErrorCounts:
    roles = map_columns(frame.columns, columns, where)
    if "item" not in roles:
        raise DataError(f"{where}: no column says which item a judgment is on; name it in `columns`")
    if target is None and VALUE_ROLE not in roles:
        raise OptionError(f"{where}: which score do the errors explain? Name its column in `target`")
    names = [roles[VALUE_ROLE]] if target is None else list(target)
    for name in (*names, *(errors or ())):
        if name not in frame.columns:
            raise unknown_name("column", name, frame.columns, "check `target` and `errors`")
    other_columns = [*names, *(name for role, name in roles.items() if role != VALUE_ROLE)]
    error_columns = (
        number_columns(frame, other_columns, where)
        if errors is None
        else {n: parse_numbers(frame[n], where) for n in errors}
    )
    if not error_columns:
        raise DataError(f"{where}: no column counts errors; name the columns in `errors`")
    negative = [name for name, values in error_columns.items() if (values < 0).any()]
    if negative:
        raise DataError(f"{where}: the column '{negative[0]}' holds negative numbers; errors are counted from 0")
    annotator = group_codes(frame, [roles["annotator"]]) if "annotator" in roles else None
    return _ErrorCounts(
        errors=tuple(error_columns),
        counts=np.nan_to_num(np.column_stack(list(error_columns.values()))),  # an empty cell is no error
        targets={name: parse_numbers(frame[name], where) for name in names},
        item=group_codes(frame, [roles["item"]]),
        annotator=annotator,
        names=_first_names(frame[roles["annotator"]]) if "annotator" in roles else (),
        digest=digest_table(frame),
    )


def _count_in_lists(
    data: EvalSet, target: Sequence[str] | None, errors: Sequence[str] | None, types: ErrorTypes
) -> _ErrorCounts:
    if data.judgments is None or types not in data.judgments.table.columns:
        raise DataError(
            f"{data.name}: the judgments do not list errors with their {types}; load an MQM file, or give a table "
            "with a column of counts for each type of error"
        )
    table = data.judgments.usable().table.with_columns(pl.col(types).cast(pl.String).fill_null("").alias("_type"))
    keys = ["item", "system", "annotator"]
    is_error = ~pl.col("_type").str.strip_chars().str.to_lowercase().is_in(_NO_ERROR)
    names = table.filter(is_error)["_type"].unique(maintain_order=True).to_list()
    for name in errors or ():
        if name not in names:
            raise unknown_name("type of error", name, names, "check `errors`")
    names = names if errors is None else list(errors)
    counted = table.group_by(keys, maintain_order=True).agg(
        pl.col("value").sum(), *((pl.col("_type") == name).sum().cast(pl.Float64).alias(f"#{name}") for name in names)
    )
    rows, place = data.cell_index(counted["item"], counted["system"])
    values = (
        {VALUE_ROLE: counted["value"].to_numpy()} if target is None else {n: data.score(n)[rows, place] for n in target}
    )
    return _ErrorCounts(
        errors=tuple(names),
        counts=counted.select(f"#{name}" for name in names).to_numpy(),
        targets=values,
        item=group_codes(counted, ["item"]),
        annotator=group_codes(counted, ["annotator"]),
        names=_first_names(counted["annotator"]),
        digest=data.fingerprint,
    )
