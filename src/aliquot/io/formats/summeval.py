"""SummEval's published JSON lines: one line per summary with expert and crowd annotations."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl

from aliquot.core.columns import encode_column, frame_from_records, scatter_texts
from aliquot.core.evalset import EvalSet
from aliquot.core.judgments import Judgments
from aliquot.errors import FormatError
from aliquot.io.files import count_keys, decode_text, number_lines, require_unique_keys
from aliquot.io.formats.item_fields import build_line_error

_GROUPS = {"expert_annotations": "expert", "turker_annotations": "turker"}
_LISTS: tuple[tuple[str, type, str], ...] = (
    ("references", str, "texts"),
    *((group, dict, '{"criterion": number}') for group in _GROUPS),
)


def looks_like(fields: dict[str, Any]) -> bool:
    """Return whether a line is SummEval's."""
    return bool(_GROUPS.keys() & fields.keys())


def read(raw: bytes, path: Path | str) -> EvalSet:
    """Read SummEval; `human` is the experts' mean over criteria, `human_<criterion>` each one, `turker` the crowd's."""
    decode_text(raw, path)
    lines = _read_lines(raw, path)
    judgments = [judgment for line in lines for judgment in _build_judgments(line)]
    if not judgments:
        raise FormatError(f"{path}: no line has annotations; give some in {' or '.join(_GROUPS)}")
    ids = list(dict.fromkeys(line["id"] for line in lines))
    systems = list(dict.fromkeys(line["model_id"] for line in lines))
    first = {line["id"]: line for line in reversed(lines)}
    row_of, column_at = {k: r for r, k in enumerate(ids)}, {k: c for c, k in enumerate(systems)}
    rows = np.array([row_of[line["id"]] for line in lines])
    columns = np.array([column_at[line["model_id"]] for line in lines])
    evalset = EvalSet(
        items=_build_items(ids, first),
        systems=tuple(systems),
        outputs=scatter_texts(rows, columns, [line.get("decoded") for line in lines], len(ids), systems),
        judgments=Judgments(frame_from_records(judgments)),
        name=Path(path).name.split(".")[0],
    )
    return _add_scores(evalset, Judgments(frame_from_records(judgments)))


def _read_lines(raw: bytes, path: Path | str) -> list[dict[str, Any]]:
    lines: dict[tuple[str, str], dict[str, Any]] = {}
    keys = 0
    for where, text in number_lines(raw, path):
        line = _parse_line(text, where)
        key = line["id"], line["model_id"]
        if key in lines:
            raise FormatError(f"{where}: id '{key[0]}' with model_id '{key[1]}' occurs twice; keep one")
        lines[key] = line
        keys += count_keys(line)
    require_unique_keys(raw, keys, number_lines(raw, path))
    return list(lines.values())


def _parse_line(line: bytes, where: str) -> dict[str, Any]:
    try:
        fields = msgspec.json.decode(line, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise build_line_error(line, where, str(error)) from None
    for name in ("id", "model_id"):
        if type(fields.get(name)) not in (str, int):
            raise FormatError(f"{where}: the field '{name}' is missing; SummEval lines have id, model_id, decoded")
    for name in ("text", "decoded"):
        _require_type(fields.get(name), str, f"{where}, field {name}", "a text")
    for name, kind, inside in _LISTS:
        _require_type(fields.get(name), list, f"{where}, field {name}", f"a list of {inside}")
        for entry in fields.get(name) or []:
            _require_type(entry, kind, f"{where}, field {name}", f"a list of {inside}")
    for group in _GROUPS:
        for answer in fields.get(group) or []:
            for criterion, value in (answer or {}).items():
                if value is not None and not (type(value) in (int, float) and abs(value) <= sys.float_info.max):
                    raise FormatError(f"{where}, field {group}.{criterion}: expected a number, found {value!r}")
    fields["id"], fields["model_id"] = str(fields["id"]), str(fields["model_id"])
    return fields


def _require_type(value: Any, kind: type, where: str, expected: str) -> None:
    if not isinstance(value, kind | None):
        raise FormatError(f"{where}: expected {expected}, found {value!r}; correct it or leave it out")


def _build_items(ids: list[str], first: dict[str, dict[str, Any]]) -> pl.DataFrame:
    references = [first[item].get("references") or [] for item in ids]
    columns = [
        pl.Series("id", ids),
        pl.Series("source", [first[item].get("text") for item in ids], dtype=pl.String),
        pl.Series("reference", [refs[0] if refs else None for refs in references], dtype=pl.String),
        encode_column("refs", references),
    ]
    return pl.DataFrame([column for column in columns if column.null_count() < len(column)])


def _build_judgments(line: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "item": line["id"],
            "system": line["model_id"],
            "annotator": f"{group}{number}",
            "criterion": criterion,
            "value": None if value is None else float(value),
            "group": group,
        }
        for field, group in _GROUPS.items()
        for number, answer in enumerate(line.get(field) or [], start=1)
        for criterion, value in (answer or {}).items()
    ]


def _add_scores(evalset: EvalSet, everyone: Judgments) -> EvalSet:
    scored = evalset
    for group, prefix in (("expert", "human"), ("turker", "turker")):
        table = everyone.table.filter(pl.col("group") == group)
        if not table.height:
            continue
        part = EvalSet(items=evalset.items, systems=evalset.systems, judgments=Judgments(table))
        scored = scored.with_score(prefix, part.aggregate(name=prefix).scores[prefix])
        for criterion in Judgments(table).criteria if prefix == "human" else []:
            name = f"human_{criterion}"
            scored = scored.with_score(name, part.aggregate(criterion=criterion).scores[name])
    return scored.with_human("human" if "human" in scored.scores else None)
