"""What `compare` and `survey` read: tables of choices or numbers as they are, everything else as data."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import polars as pl

from aliquot.core.evalset import EvalSet
from aliquot.core.judgments import Judgments
from aliquot.errors import FormatError, OptionError
from aliquot.io.files import is_file, read_bytes
from aliquot.io.format_detection import read_table
from aliquot.io.formats import campaign, campaign_database, items, tables
from aliquot.io.formats.table_files import Table, stack_tables, to_polars
from aliquot.io.judgment_sources import name_sources
from aliquot.io.load import load

Data = EvalSet | Judgments | pl.DataFrame
Source = Data | str | Path | Table
Sources = Source | Sequence[Source]

COMMON_OPTIONS = ("seed", "where", "level")
"""Options that every kind accepts; kinds that draw nothing ignore `seed`, those without intervals `level`."""


def read_sources(data: Sources, *, needs_table: bool, has_choices: bool) -> tuple[Data, str]:
    """Return what is read of one source or several tables, and their names for messages."""
    if not isinstance(data, (list, tuple)):
        where = str(data) if isinstance(data, (str, Path)) else "table"
        return read_source(cast("Source", data), needs_table=needs_table, has_choices=has_choices), where
    names = name_sources(data)
    read = [read_source(each, needs_table=needs_table, has_choices=has_choices) for each in data]
    frames = [each for each in read if isinstance(each, pl.DataFrame)]
    if len(frames) < len(read) or not frames:
        raise OptionError("several sources are compared if each is a table; read judgments by `load_judgments`", "data")
    return stack_tables(frames), ", ".join(names)


def read_source(data: Source, *, needs_table: bool, has_choices: bool) -> Data:
    """Return data as they are, or read them from a path, a folder, "-" or a name such as wmt23/en-de.

    Args:
        data: What the caller passed.
        needs_table: Whether anything but a table is an error.
        has_choices: Whether choices are wanted from a campaign that has choices and judgments.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "choices.csv"
    >>> _ = path.write_text("item,system_a,system_b,choice")
    >>> read_source(path, needs_table=True, has_choices=True).columns
    ['item', 'system_a', 'system_b', 'choice']
    """
    if not isinstance(data, (str, Path)):
        return data if isinstance(data, (EvalSet, Judgments)) else to_polars(data)
    is_stdin = str(data) == "-"
    if not is_stdin and not is_file(data) and not needs_table:
        return load(data)
    if not is_stdin and campaign_database.is_campaign(data):
        choices = campaign.read_choices(data) if has_choices else None
        return campaign.read_judgments(data) if choices is None else choices
    raw = read_bytes(data)
    table = read_table(raw, data)
    if table is not None:
        return table
    if needs_table:
        raise FormatError(f"{data}: is no table; choices are read from CSV, TSV or Parquet")
    return items.read(raw, data) if is_stdin else load(data)


def evalset_of_table(frame: pl.DataFrame, columns: Mapping[str, str] | None, where: str) -> EvalSet:
    """Return the data that a table of judgments or scores holds."""
    return tables.from_table(frame, where, tables.TableOptions(columns=columns))


def keyword_names(function: Callable[..., Any]) -> list[str]:
    """Return the keyword-only parameters of a function."""
    parameters = inspect.signature(function).parameters
    return [name for name, parameter in parameters.items() if parameter.kind is parameter.KEYWORD_ONLY]


def select_options(kind: str, options: Mapping[str, Any], allowed: Collection[str]) -> dict[str, Any]:
    """Return the options that are set, or raise for one that does not apply to this kind."""
    for name, value in options.items():
        if value is not None and name not in (*allowed, *COMMON_OPTIONS):
            names = ", ".join(f"`{option}`" for option in allowed if option != "where")
            raise OptionError(f"`{name}` does not apply to kind '{kind}', which has {names}", name)
    return {name: value for name, value in options.items() if value is not None and name in allowed}
