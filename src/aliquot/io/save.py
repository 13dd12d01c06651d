"""Save evaluation sets: items with everything, tables, folders of mt-metrics-eval, files for other tools."""

from __future__ import annotations

from pathlib import Path

from aliquot.core.evalset import EvalSet
from aliquot.io.formats.table_files import Table
from aliquot.io.load import load
from aliquot.io.writers import LongTable, choose_writer


def save(
    evalset: EvalSet | Table,
    path: str | Path | None,
    *,
    what: LongTable | None = None,
    pair: str | None = None,
    to: str | None = None,
) -> None:
    """Save by the path's ending: .jsonl(.gz) and .parquet keep everything; .csv and .tsv a long table.

    A path without ending becomes an mt-metrics-eval folder; standard output ("-") gets item JSON lines, or the table of
    judgments. `what` chooses the long table: scores (the default) or judgments. `to` names the format whatever the
    ending: jsonl, parquet, csv, tsv, wmt, huggingface (a folder with a dataset card), inspect (a dataset of Inspect),
    langfuse (judgments as scores of traces), or mlflow (judgments as feedback on traces; it needs no path). A Polars or
    pandas table is read as `load` reads it.
    """
    evalset = evalset if isinstance(evalset, EvalSet) else load(evalset)
    writer = choose_writer("data", path, to, default=".csv" if what == "judgments" else ".jsonl")
    writer.write(evalset, path, what, pair)
