"""Judgments of several files as one table: which file each row is from, copies, and answers that contradict."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import polars as pl

from aliquot.core.judgments import ANSWER_KEYS, Judgments
from aliquot.errors import AliquotWarning, quoted
from aliquot.io.formats.campaign_database import without_password
from aliquot.io.formats.table_files import stack_tables

SOURCE = "source"
"""The column with the name of the file, where judgments are of several."""
_PART, _ROW = "_part", "_row"
_MAX_NAMES = 4  # that a note lists
_OTHER_SCALE = 10.0  # how many times larger the values of one file are, if they are on another scale


def name_sources(sources: Sequence[object]) -> list[str]:
    """Name files by the shortest ends of their paths that differ, other sources by their place.

    >>> name_sources(["old/a.csv", "new/a.csv", "b.db", None])
    ['old/a.csv', 'new/a.csv', 'b.db', 'table 4']
    """
    paths = [Path(without_password(source)) if isinstance(source, (str, Path)) else None for source in sources]
    names = []
    for place, path in enumerate(paths, start=1):
        if path is None:
            names.append(f"table {place}")
            continue
        others = [other.parts for other in paths if other is not None and other != path]
        parts = path.parts
        count = next((n for n in range(1, len(parts)) if all(o[-n:] != parts[-n:] for o in others)), len(parts))
        names.append("/".join(parts[-count:]))
    return names


def stack_sources(tables: Sequence[pl.DataFrame], names: Sequence[str]) -> pl.DataFrame:
    """Stack tables with the name of each in a column `source`, unless one of them has such a column."""
    if any(SOURCE in table.columns for table in tables):
        return stack_tables(tables)
    pairs = zip(tables, names, strict=True)
    return stack_tables([table.with_columns(pl.lit(name).alias(SOURCE)) for table, name in pairs])


def join_judgments(parts: Sequence[Judgments], names: Sequence[str], answer: str | None = None) -> Judgments:
    """Stack judgments of several sources; copies of a row in another source count once.

    One note counts copies, answers of an annotator that differ between sources, and sources on another scale.
    Single errors of an output add up to one answer: of two sources that have the answer, the last one counts.
    """
    notes = _describe_scales(parts, names)
    stacked = stack_sources([part.table.with_columns(pl.lit(i).alias(_PART)) for i, part in enumerate(parts)], names)
    stacked = stacked.with_row_index(_ROW)
    keys = [name for name in ANSWER_KEYS if name in stacked.columns]
    in_several = pl.col("annotator").is_not_null() & (pl.col(_PART).n_unique().over(keys) > 1)
    several = stacked.filter(in_several)
    if several.height and "error" in stacked.columns:
        stacked = stacked.filter(~in_several | (pl.col(_PART) == pl.col(_PART).max().over(keys)))
        answers = several.group_by(*keys, _PART, maintain_order=True).agg(pl.col("value").sum())
        notes += _describe_conflicts(answers, keys, ["value"], names, "the last file counts")
    elif several.height:
        shared = [name for name in stacked.columns if _is_shared(name, parts)]
        is_copy = pl.col(_PART) != pl.col(_PART).first().over([*keys, "value", *shared])
        kept, copies = several.filter(~is_copy), several.filter(is_copy)
        if copies.height:
            what = "1 row is a copy of a row" if copies.height == 1 else f"{copies.height} rows are copies of rows"
            notes.append(f"{what} in another file and count{'s' * (copies.height == 1)} once, e.g. {_name_row(copies)}")
        answer_columns = [name for name in dict.fromkeys(("value", "label", answer)) if name in stacked.columns]
        notes += _describe_conflicts(kept, keys, [name for name in answer_columns if name], names, "their mean counts")
        stacked = stacked.join(copies.select(_ROW), on=_ROW, how="anti", maintain_order="left")
    if notes:
        warnings.warn(f"judgments of {quoted(list(names), _MAX_NAMES)}: {'; '.join(notes)}", AliquotWarning, 4)
    return Judgments(stacked.drop(_PART, _ROW))


def _is_shared(name: str, parts: Sequence[Judgments]) -> bool:
    """Return whether all sources have a column that is neither nested nor empty."""
    return all(
        name in part.table.columns
        and not part.table.schema[name].is_nested()
        and part.table[name].null_count() < len(part)
        for part in parts
    )


def _name_row(rows: pl.DataFrame) -> str:
    row = rows.row(0, named=True)
    criterion = "" if row["criterion"] is None else f", {row['criterion']}"
    return f"item {row['item']}, {row['system']}, {row['annotator']}{criterion}"


def _describe_conflicts(
    rows: pl.DataFrame, keys: Sequence[str], columns: Sequence[str], names: Sequence[str], rule: str
) -> list[str]:
    """Describe answers of an annotator that differ between sources."""
    differ = (pl.struct(columns).n_unique().over(keys) > 1) & (pl.col(_PART).n_unique().over(keys) > 1)
    conflicts = rows.filter(differ)
    if not conflicts.height:
        return []
    first = conflicts.join(conflicts.head(1).select(keys), on=list(keys), how="semi", nulls_equal=True)
    values = {
        names[row[_PART]]: next((row[name] for name in columns if row[name] is not None), None)
        for row in first.iter_rows(named=True)
    }
    listed = ", ".join(
        f"{value:g} in {name}" if isinstance(value, float) else f"{value} in {name}" for name, value in values.items()
    )
    count = conflicts.select(keys).unique().height
    what = "answer of one annotator differs" if count == 1 else "answers of one annotator differ"
    return [f"{count} {what} between files, e.g. {_name_row(first)}: {listed}; {rule}"]


def _describe_scales(parts: Sequence[Judgments], names: Sequence[str]) -> list[str]:
    """Describe two sources whose values seem to be on different scales."""
    for (small, name), (large, other) in combinations(zip(parts, names, strict=True), 2):
        for criterion in [*small.criteria, None]:
            values = [_select_values(part, criterion) for part in (small, large)]
            if min(map(len, values)) == 0:
                continue
            ends = [(float(v.min()), float(v.max()), float(v.median())) for v in values]  # type: ignore[arg-type]
            pairs = sorted(zip(ends, (name, other), strict=True), key=lambda pair: max(map(abs, pair[0])))
            (low, high, _), (wide_low, wide_high, middle) = pairs[0][0], pairs[1][0]
            limit = max(abs(low), abs(high))
            if limit > 0 and max(abs(wide_low), abs(wide_high)) >= _OTHER_SCALE * limit and not low <= middle <= high:
                of = "" if criterion is None else f" of '{criterion}'"
                text = (
                    f"the values{of} are on different scales ({low:g} to {high:g} in {pairs[0][1]}, {wide_low:g} to "
                    f"{wide_high:g} in {pairs[1][1]}): bring them to one scale first"
                )
                return [text]
    return []


def _select_values(judgments: Judgments, criterion: str | None) -> pl.Series:
    table = judgments.answers()
    return table.filter(pl.col("criterion").eq_missing(pl.lit(criterion)))["value"].drop_nulls()
