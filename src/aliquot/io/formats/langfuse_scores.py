"""Scores for Langfuse: human judgments as bodies of `POST /api/public/scores`, or of its ingestion batches."""

from __future__ import annotations

import hashlib
import math
import uuid
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from aliquot.core.columns import decode_column
from aliquot.core.evalset import EvalSet
from aliquot.errors import AliquotWarning, OptionError
from aliquot.io.formats.samples import OBSERVATIONS, RATING_ID, TRACES
from aliquot.io.writing import write_bytes
from aliquot.validation import one_of

Cell = tuple[int | str, str]
_LINES = (".jsonl", ".ndjson")


def write(evalset: EvalSet, path: str | Path, trace: str = "column") -> None:
    """Write the judgments, or without any the human score, as a JSON array or, by the ending, JSON lines.

    Args:
        evalset: the data.
        path: where to.
        trace: where traces are named: "column" (the item column `trace_ids`), or "item" (the items' own ids).
    """
    is_item = one_of("trace", trace, ("column", "item")) == "item"
    traces = _read_item_ids(evalset) if is_item else _read_cells(evalset, TRACES)
    if not traces:
        raise OptionError(
            f"{evalset.name}: no item has '{TRACES}', the traces that scores are about: read an export of Langfuse, "
            f'add the field to each item, e.g. "{TRACES}": {{"{evalset.systems[0]}": "trace-1"}}, or say '
            "`langfuse:trace=item` where the items' ids are those of traces",
            "to",
        )
    scores = _build_scores(evalset, traces, {} if is_item else _read_cells(evalset, OBSERVATIONS))
    if not scores:
        raise OptionError(f"{evalset.name}: there are no judgments or human scores to write", "to")
    if str(path).removesuffix(".gz").endswith(_LINES):
        write_bytes(path, b"".join(msgspec.json.encode(score) + b"\n" for score in scores))
    else:
        write_bytes(path, msgspec.json.format(msgspec.json.encode(scores), indent=1) + b"\n")


def _read_cells(evalset: EvalSet, column: str) -> dict[Cell, str]:
    """Return the ids that an item column has for the systems."""
    if column not in evalset.items.columns:
        return {}
    cells: dict[Cell, str] = {}
    for item, by_system in zip(evalset.ids, decode_column(evalset.items[column]), strict=True):
        if by_system is not None and not isinstance(by_system, dict):
            raise OptionError(f"{evalset.name}: item {item}: '{column}' is {by_system!r}; write {{system: id}}", "to")
        cells |= {(item, system): name for system, name in (by_system or {}).items() if isinstance(name, str) and name}
    return cells


def _read_item_ids(evalset: EvalSet) -> dict[Cell, str]:
    return {(item, system): str(item) for item in evalset.ids for system in evalset.systems}


def _build_scores(
    evalset: EvalSet, traces: Mapping[Cell, str], observations: Mapping[Cell, str]
) -> list[dict[str, Any]]:
    """Return a score for each answer that has a trace; a note counts the others."""
    scores: list[dict[str, Any]] = []
    copies: Counter[str] = Counter()
    absent, returned = 0, 0
    for row in _list_answers(evalset):
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


def _list_answers(evalset: EvalSet) -> Iterator[dict[str, Any]]:
    """Yield the usable judgments, or the cells of the human score, on the scale where they came from."""
    default = evalset.human or "human"
    if evalset.judgments is not None:
        for row in evalset.judgments.answers().iter_rows(named=True):
            name = row["criterion"] or default
            is_flipped = {default, f"human_{name}"} & evalset.flipped
            value = row["value"] if row["value"] is None else -row["value"] if is_flipped else row["value"]
            if value is not None or row.get("label") is not None:
                yield row | {"name": name, "value": value}
    elif evalset.human is not None:
        sign = -1 if evalset.human in evalset.flipped else 1
        for item, values in zip(evalset.ids, evalset.human_score().tolist(), strict=True):
            for system, value in zip(evalset.systems, values, strict=True):
                if math.isfinite(value):
                    yield {"item": item, "system": system, "name": default, "value": sign * value}


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
