"""A result in our own formats: its JSON document, its table of numbers, its views for a paper, a summary for GitHub."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from aliquot.core import escape
from aliquot.core.result import Result, to_plain
from aliquot.core.statements import SystemMean
from aliquot.core.view import View
from aliquot.errors import OptionError, OutputError
from aliquot.io.formats import every_eval_ever, junit, mlflow_runs, tables
from aliquot.io.writing import is_stream, new_folder, write_bytes

GITHUB_VARIABLE = "GITHUB_STEP_SUMMARY"
MAX_SUMMARY = 2**20  # bytes of a step's summary; GitHub shows nothing of a longer one


@dataclass(frozen=True)
class ResultContent:
    """What a result is written from: its JSON document, its table, its views, and the result where it is one."""

    document: Mapping[str, Any]
    frame: Callable[[], pl.DataFrame]
    views: Callable[[], Sequence[View]] | None = None
    result: Result | None = None


def encode_json(document: Mapping[str, Any]) -> bytes:
    r"""Encode a JSON document, indented; undefined numbers are null.

    >>> encode_json({"mean": float("nan"), "n": 3}).decode()
    '{\n  "mean": null,\n  "n": 3\n}'
    """
    return msgspec.json.format(msgspec.json.encode(document, enc_hook=to_plain), indent=2)


def write_document(content: ResultContent, path: str | Path) -> None:
    """Write the JSON document."""
    write_bytes(path, encode_json(content.document) + b"\n")


def write_markdown(content: ResultContent, path: str | Path) -> None:
    """Write the views as Markdown tables."""
    write_bytes(path, "\n".join(view.to_markdown() for view in _list_tables(content)).encode())


def write_latex(content: ResultContent, path: str | Path) -> None:
    """Write the views as LaTeX tabulars."""
    write_bytes(path, "\n".join(view.to_latex() for view in _list_tables(content)).encode())


def _list_tables(content: ResultContent) -> list[View]:
    return [view for view in (content.views() if content.views else ()) if view.columns]


def write_junit(content: ResultContent, path: str | Path) -> None:
    """Write the decisions as JUnit XML."""
    signature = str(content.document.get("signature", ""))
    parts = signature.split("|")  # aliquot:0.3.0|estimate:mean|...
    suite = f"aliquot.{parts[1].partition(':')[0]}" if len(parts) > 1 else "aliquot"
    decisions = content.result.decisions() if content.result else ()
    write_bytes(
        path, junit.format_junit(suite, decisions, signature=signature, summary=content.document.get("verdict"))
    )


def write_every_eval_ever(content: ResultContent, path: str | Path, **options: str) -> None:
    """Write the means of systems as a folder of Every Eval Ever records."""
    means, signature = _list_means(content), str(content.document.get("signature", ""))
    records = every_eval_ever.build_records(means, signature=signature, retrieved=int(time.time()), **options)
    with new_folder(path) as folder:
        for place, record in records.items():
            (folder / place).parent.mkdir(parents=True, exist_ok=True)
            (folder / place).write_bytes(encode_json(record) + b"\n")


def log_mlflow(content: ResultContent, path: str | Path | None, **options: str) -> None:
    """Log the means of systems as runs of MLflow, with the JSON document and the step summary as artifacts."""
    mlflow_runs.log_means(
        _list_means(content),
        path,
        signature=str(content.document.get("signature", "")),
        verdict=str(content.document.get("verdict") or ""),
        files={"result.json": encode_json(content.document).decode(), "result.md": format_step_summary(content)},
        **options,
    )


def _list_means(content: ResultContent) -> Sequence[SystemMean]:
    means = content.result.means() if content.result else ()
    if not means:
        raise OptionError("no system has judgments, so there is nothing to write")
    return means


def write_step_summary(content: ResultContent, path: str | Path | None) -> None:
    """Append verdict, tables and notes as Markdown to a file, by default the step summary of a GitHub workflow."""
    path = path or os.environ.get(GITHUB_VARIABLE)
    if not path:
        raise OptionError(f"{GITHUB_VARIABLE} is not set, so this is no GitHub workflow; name a file to append to")
    earlier = b"" if is_stream(path) or not Path(path).exists() else Path(path).read_bytes()
    summary = earlier + format_step_summary(content).encode()
    if len(summary) > MAX_SUMMARY:
        note = f"Tables are left out: GitHub takes {MAX_SUMMARY // 2**20} MiB.\n"
        summary = earlier + f"{format_step_summary(replace(content, views=None))}{note}".encode()
    if len(summary) > MAX_SUMMARY:
        raise OutputError(f"{path}: GitHub takes {MAX_SUMMARY // 2**20} MiB of a step; write to it in another step")
    write_bytes(path, summary)


def format_step_summary(content: ResultContent) -> str:
    """Return a result as Markdown: the verdict in bold, each view under its title, notes, the signature."""
    verdict, signature = content.document.get("verdict"), content.document.get("signature")
    parts = [f"**{escape.markdown(verdict)}**\n"] if verdict else []
    for view in _list_tables(content):
        parts += [escape.markdown(view.title) + "\n"] if view.title else []
        parts.append(view.to_markdown())
    notes = [str(note) for note in content.document.get("notes") or ()]
    parts += ["".join(f"- {escape.markdown(note)}\n" for note in notes)] if notes else []
    parts += [f"<sub>{escape.markdown(signature)}</sub>\n"] if signature else []
    return "\n".join(parts) + "\n"


def write_table(content: ResultContent, path: str | Path, ending: str | None = None) -> None:
    """Write the table in the format of `ending`, or of the path's ending."""
    tables.write(content.frame(), path, ending)
