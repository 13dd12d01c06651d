"""Scores for Langfuse: human judgments as bodies of `POST /api/public/scores`, or of its ingestion batches."""

from __future__ import annotations

import hashlib
import uuid
import warnings
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from aliquot.core.evalset import EvalSet
from aliquot.errors import AliquotWarning, OptionError
from aliquot.io.formats.trace_ids import OBSERVATIONS, RATING_ID, TRACES, Cell, list_answers, read_cell_ids
from aliquot.io.writing import write_bytes
from aliquot.validation import one_of

_LINES = (".jsonl", ".ndjson")


def write(evalset: EvalSet, path: str | Path, trace: str = "column") -> None:
    """Write the judgments, or without any the human score, as a JSON array or, by the ending, JSON lines.

    Args:
        evalset: the data.
        path: where to.
        trace: where traces are named: "column" (the item column `trace_ids`), or "item" (the items' own ids).
    """
    is_item = one_of("trace", trace, ("column", "item")) == "item"
    traces = (
        {(i, s): str(i) for i in evalset.ids for s in evalset.systems} if is_item else read_cell_ids(evalset, TRACES)
    )
    if not traces:
        raise OptionError(
            f"{evalset.name}: no item has '{TRACES}', the traces that scores are about: read an export of Langfuse, "
            f'add the field to each item, e.g. "{TRACES}": {{"{evalset.systems[0]}": "trace-1"}}, or say '
            "`langfuse:trace=item` where the items' ids are those of traces",
            "to",
        )
    scores = _build_scores(evalset, traces, {} if is_item else read_cell_ids(evalset, OBSERVATIONS))
    if not scores:
        raise OptionError(f"{evalset.name}: there are no judgments or human scores to write", "to")
    if str(path).removesuffix(".gz").endswith(_LINES):
        write_bytes(path, b"".join(msgspec.json.encode(score) + b"\n" for score in scores))
    else:
        write_bytes(path, msgspec.json.format(msgspec.json.encode(scores), indent=1) + b"\n")


def _build_scores(
    evalset: EvalSet, traces: Mapping[Cell, str], observations: Mapping[Cell, str]
) -> list[dict[str, Any]]:
    """Return a score for each answer that has a trace; a note counts the others."""
    scores: list[dict[str, Any]] = []
    copies: Counter[str] = Counter()
    absent, returned = 0, 0
    for row in list_answers(evalset):
        if row["value"] is None and row.get("label") is None:
            continue
        cell = (row["item"], row["system"])
        if row.get(RATING_ID) is not None:
            returned += 1
        elif cell in traces:
            scores.append(_build_score(row, traces[cell], observations.get(cell), copies))
        else:
            absent += 1
    for count, reason in (
        (absent, "their outputs have no trace"),
        (returned, "they came from the tool that logged the outputs"),
    ):
        if count:
            note = f"{evalset.name}: {count} judgments are not written: {reason}"
            warnings.warn(note, AliquotWarning, stacklevel=3)
    return _set_types(scores)


def _build_score(row: Mapping[str, Any], trace: str, observation: str | None, copies: Counter[str]) -> dict[str, Any]:
    """Return the body of a score, whose id is that of the same answer in another file."""
    annotator, label = row.get("annotator"), row.get("label")
    key = "\n".join(str(part) for part in (trace, observation, row["system"], row["name"], annotator))
    copies[key] += 1
    digest = hashlib.blake2b(f"{key}\n{copies[key]}".encode(errors="replace"), digest_size=16).digest()
    score = {"id": str(uuid.UUID(bytes=digest, version=4)), "traceId": trace}
    fields = {
        "observationId": observation,
        "name": row["name"],
        "value": label if row["value"] is None else row["value"],
        "comment": row.get("comment"),
    }
    about = {"source": "aliquot", "annotator": annotator, "item": str(row["item"]), "system": row["system"]}
    present = {name: value for name, value in about.items() if value is not None}
    return score | {name: value for name, value in fields.items() if value is not None} | {"metadata": present}


def _set_types(scores: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add `dataType`, which all scores of a name share: labels, pass or fail, or numbers."""
    is_boolean: dict[str, bool] = {}
    for score in scores:
        if not isinstance(score["value"], str):
            is_boolean[score["name"]] = is_boolean.get(score["name"], True) and score["value"] in (0, 1)
    for score in scores:
        number = "BOOLEAN" if is_boolean.get(score["name"]) else "NUMERIC"
        score["dataType"] = "CATEGORICAL" if isinstance(score["value"], str) else number
    return scores
