"""Save evaluation sets: items with everything, tables, folders of mt-metrics-eval."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

import polars as pl

from aliquot.core.evalset import EvalSet
from aliquot.errors import OptionError
from aliquot.io.formats import items, mtme, parquet, tables
from aliquot.io.formats.table_files import Table
from aliquot.io.load import load
from aliquot.io.writing import resolve_ending
from aliquot.validation import one_of

LongTable = Literal["scores", "judgments"]
"""What a long table holds, one row for each."""


def save(evalset: EvalSet | Table, path: str | Path, *, what: LongTable = "scores", pair: str | None = None) -> None:
    """Save by the path's ending: .jsonl(.gz) and .parquet keep everything; .csv and .tsv a long table.

    A path without ending becomes an mt-metrics-eval folder; standard output ("-") gets item JSON lines, or the table of
    judgments. `what` chooses the long table: scores or judgments. A Polars or pandas table is read as `load` reads it.
    """
    evalset = evalset if isinstance(evalset, EvalSet) else load(evalset)
    name = resolve_ending(path, ".csv" if what == "judgments" else ".jsonl").removesuffix(".gz")
    if name.endswith((".jsonl", ".json", ".ndjson")):
        items.write(evalset, path)
    elif name.endswith(".parquet"):
        parquet.write(evalset, path)
    elif name.endswith((".csv", ".tsv")):
        tables.write(_build_long_table(evalset, what), path)
    elif not Path(path).suffix:
        named = pair is not None or "/" in evalset.name  # as in "wmt23/en-de"
        mtme.write(evalset, Path(path), pair or Path(evalset.name).name or "xx-yy", alone=not named)
    else:
        raise OptionError(
            f"{path}: unknown ending; use .jsonl, .jsonl.gz or .parquet (everything), .csv or .tsv (a long table)"
        )


def _build_long_table(evalset: EvalSet, what: LongTable) -> pl.DataFrame:
    if one_of("what", what, get_args(LongTable)) == "scores":
        if not evalset.scores:
            raise OptionError(f"{evalset.name}: there are no scores to write; .jsonl and .parquet keep everything else")
        return tables.build_long_scores(evalset)
    if evalset.judgments is None:
        raise OptionError(f"{evalset.name}: there are no judgments to write; leave `what` out for scores")
    return evalset.judgments.table
