"""Selections as files: item JSON lines with a `selection` object on each, so that any tool can read them.

Invariant: what is saved is loaded as it was; lines that are lost and probabilities that are edited are noticed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np

from aliquot.core.columns import unify_ids
from aliquot.core.evalset import EvalSet, ItemId, take_rows
from aliquot.core.origin import Origin, digest_text
from aliquot.core.selection import MAX_INTEGER, Selection
from aliquot.errors import DataError, FormatError, OptionError, warn_caller
from aliquot.io.files import decode_json, read_bytes
from aliquot.io.formats import inspect_dataset
from aliquot.io.formats import items as item_lines
from aliquot.io.writing import write_bytes
from aliquot.stats.arrays import FloatArray

SELECTION_FIELD = "selection"
_REMEDY = "a selection is item JSON lines, as `aliquot select -o` writes them"
_NUMBER = ((int, float, type(None)), "a number")
_FIELD_TYPES: Mapping[str, tuple[tuple[type, ...], str]] = MappingProxyType(
    {
        "rank": ((int,), "a whole number"),
        "population": ((int,), "a whole number"),
        "method": ((str,), "a method"),
        "signature": ((str,), "a text"),
        "stratum": ((str,), "a name"),
        "systems": ((list,), "a list of systems"),
        **dict.fromkeys(("source", "outputs"), ((str,), "a digest")),
        **dict.fromkeys(("details", "file", "data"), ((dict,), "an object")),
        **dict.fromkeys(("utility", "probability", "weight", "cost"), _NUMBER),
    }
)
_OLD_SEAL_FIELDS = ("probability", "weight", "stratum", "systems")  # by earlier versions
_SEAL_FIELDS = (*_OLD_SEAL_FIELDS, "utility", "population", "method", "details", "outputs")


def save_selection(selection: Selection, path: str | Path, evalset: EvalSet | None = None) -> None:
    """Write a selection as item JSON lines in its order; with `evalset`, the items' texts and scores too."""
    encode = msgspec.json.Encoder().encode
    bare: Iterable[dict[str, Any]] = ({"i": item} for item in selection.ids)
    records = bare if evalset is None else item_lines.iterate_records(_order_items(selection, evalset))
    with_texts = evalset is not None and "source" in evalset.items.columns
    entries = _list_entries(selection, with_sources=not with_texts)
    lines = [encode({**record, SELECTION_FIELD: e}) + b"\n" for record, e in zip(records, entries, strict=True)]
    write_bytes(path, b"".join(lines))


def write_ids(selection: Selection, path: str | Path, _: EvalSet | None = None) -> None:
    """Write the ids of the chosen items, one a line."""
    write_bytes(path, format_ids(selection).encode())


def format_ids(selection: Selection) -> str:
    """Return the ids of the chosen items, one a line."""
    return "".join(f"{item}\n" for item in selection.ids)


def write_inspect_dataset(selection: Selection, path: str | Path, evalset: EvalSet | None = None) -> None:
    """Write the chosen items as a dataset of Inspect, in their order."""
    if evalset is None:
        raise OptionError("a dataset of Inspect holds the texts of the chosen items; give the data, too", "evalset")
    inspect_dataset.write(_order_items(selection, evalset), path)


def _order_items(selection: Selection, evalset: EvalSet) -> EvalSet:
    chosen = selection.of(evalset)
    row_of = {str(item): row for row, item in enumerate(chosen.ids)}
    return take_rows(chosen, np.array([row_of[str(item)] for item in selection.ids], dtype=np.int64))


def _list_entries(selection: Selection, *, with_sources: bool) -> list[dict[str, Any]]:
    shared = {"method": selection.method, "population": selection.population, "signature": selection.signature}
    rows = selection.to_frame().drop("id").iter_rows(named=True)
    entries = [{name: value for name, value in row.items() if value is not None} | shared for row in rows]
    if selection.systems is not None:
        for entry, names in zip(entries, selection.systems, strict=True):
            entry["systems"] = list(names)
    if selection.origin is not None and with_sources:
        for entry, digest in zip(entries, selection.origin.sources, strict=bool(selection.origin.sources)):
            entry["source"] = digest
    for entry, digests in zip(entries, () if selection.origin is None else selection.origin.outputs, strict=False):
        entry["outputs"] = digests
    if entries and (details := selection.saved_details):
        entries[0]["details"] = details
    if entries and selection.origin is not None:
        entries[0]["data"] = selection.origin.to_dict()
    if entries:  # whole lines that are lost later are noticed
        entries[0]["file"] = {"items": len(selection), "seal": _compute_seal(selection.ids, entries, _SEAL_FIELDS)}
    return entries


def load_selection(path: str | Path) -> Selection:
    """Read a selection that `save_selection` wrote; the order is that of the ranks."""
    ids: list[ItemId] = []
    entries: list[dict[str, Any]] = []
    for number, line in enumerate(read_bytes(path).split(b"\n"), start=1):
        if line.strip():
            item, entry = _parse_line(line, f"{path} line {number}")
            ids.append(item)
            entries.append(entry)
    if not entries:
        raise FormatError(f"{path}: the file is empty; a selection has one line per chosen item")
    ids = unify_ids(ids)
    order = sorted(range(len(ids)), key=lambda row: entries[row].get("rank", row))
    ids, entries = [ids[row] for row in order], [entries[row] for row in order]
    _require_whole(path, ids, entries)
    try:
        selection = _build_selection(ids, entries)
    except (DataError, OptionError) as error:
        raise FormatError(f"{path}: {error}") from None
    _require_unedited(path, ids, entries)
    return selection


def _parse_line(line: bytes, where: str) -> tuple[ItemId, dict[str, Any]]:
    record = decode_json(line, where, _REMEDY)
    if not isinstance(record, dict):
        raise FormatError(f"{where}: not a JSON object; {_REMEDY}")
    if not isinstance(record.get(SELECTION_FIELD), dict) or not isinstance(record.get("i"), int | str):
        raise FormatError(f"{where}: no 'selection' object with an item id; is this a file `aliquot select` wrote?")
    entry = record[SELECTION_FIELD]
    if isinstance(record.get("src"), str):
        entry = {**entry, "source": digest_text(record["src"])}
    for name, (kinds, expected) in _FIELD_TYPES.items():
        value = entry.get(name)
        if name in entry and (isinstance(value, bool) or not isinstance(value, kinds)):
            raise FormatError(f"{where}: selection.{name} should be {expected}, found {value!r}; correct the line")
        if isinstance(value, int) and abs(value) > MAX_INTEGER:
            raise FormatError(f"{where}: selection.{name} is a number of {len(str(value))} digits; correct the line")
    return record["i"], entry


def _build_selection(ids: list[ItemId], entries: list[dict[str, Any]]) -> Selection:
    def read_numbers(name: str) -> FloatArray | None:
        present = [name in entry for entry in entries]
        if not any(present):
            return None
        if not all(present) and name != "utility":
            raise DataError(f"item {ids[present.index(False)]!r} has no {name} although others have; give all or none")
        return np.array([entry.get(name) for entry in entries], dtype=np.float64)

    def read_labels(name: str) -> tuple[Any, ...] | None:
        return tuple(entry[name] for entry in entries) if all(name in entry for entry in entries) else None

    systems = read_labels("systems")
    return Selection(
        ids=tuple(ids),
        population=entries[0].get("population", len(ids)),
        method=entries[0].get("method", "unknown"),
        utility=read_numbers("utility"),
        probability=read_numbers("probability"),
        weight=read_numbers("weight"),
        cost=read_numbers("cost"),
        stratum=read_labels("stratum"),
        systems=None if systems is None else tuple(tuple(names) for names in systems),
        details=next((entry["details"] for entry in entries if "details" in entry), {}),
        signature=entries[0].get("signature", ""),
        origin=Origin.read(
            next((entry["data"] for entry in entries if "data" in entry), {}),
            [entry.get("source", "") for entry in entries],
            [entry.get("outputs", "") for entry in entries],
        ),
    )


def _compute_seal(ids: Iterable[ItemId], entries: Iterable[Mapping[str, Any]], names: Sequence[str]) -> str:
    """Return a digest of the ids and the entries that estimates depend on, 8 hexadecimal digits."""
    sealed = [
        [str(item), entry.get("rank"), *(_normalise_numbers(entry.get(name)) for name in names)]
        for item, entry in zip(ids, entries, strict=True)
    ]
    return hashlib.blake2b(msgspec.json.encode(sealed, order="sorted"), digest_size=4).hexdigest()


def _normalise_numbers(value: Any) -> Any:
    """Return numbers as floats: other programs write 1 for 1.0."""
    if isinstance(value, Mapping):
        return {str(key): _normalise_numbers(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_normalise_numbers(entry) for entry in value]
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _find_edit(ids: list[ItemId], entries: list[dict[str, Any]], written: Mapping[str, Any]) -> str | None:
    """Return what was edited after the selection was written; None if nothing was."""
    sealed = "seal" in written
    if written.get("seal" if sealed else "digest") == _compute_seal(
        ids, entries, _SEAL_FIELDS if sealed else _OLD_SEAL_FIELDS
    ):
        return None
    for item, entry in zip(ids, entries, strict=True):
        p, weight = entry.get("probability"), entry.get("weight")
        if p and weight is not None and abs(p * weight - 1) > 1e-6:
            return f"item {item!r} has the probability {p:g} and the weight {weight:g}, which is not 1/probability"
    return "ids, probabilities, weights, strata, systems or the design are not those written"


def _require_whole(path: str | Path, ids: list[ItemId], entries: list[dict[str, Any]]) -> None:
    """Raise FormatError if lines of a design are missing; warn for other selections."""
    written: dict[str, Any] = next((entry["file"] for entry in entries if "file" in entry), {})
    ranks = [entry["rank"] for entry in entries if "rank" in entry]
    lacking = int(written["items"]) - len(ids) if isinstance(written.get("items"), int) else 0
    if lacking <= 0 and ranks and ranks != list(range(1, len(ids) + 1)):
        lacking = max(ranks) - len(ids)
    if lacking > 0:
        text = f"{path}: {lacking} of the selection's {len(ids) + lacking} lines are missing"
        if any("probability" in entry for entry in entries):
            raise FormatError(f"{text}, so its probabilities do not hold; give the file as `aliquot select` wrote it")
        warn_caller(f"{text}; the others are taken for the selection")
    elif not written and any(entry.get("signature") for entry in entries):
        warn_caller(
            f"{path}: written by an earlier version, which kept no count of lines; missing lines cannot be detected"
        )


def _require_unedited(path: str | Path, ids: list[ItemId], entries: list[dict[str, Any]]) -> None:
    """Raise FormatError if a design was edited after it was written; warn for other selections."""
    written: dict[str, Any] = next((entry["file"] for entry in entries if "file" in entry), {})
    lines = written.get("items")
    lost = isinstance(lines, int) and lines > len(ids)  # is told already
    edited = _find_edit(ids, entries, written) if written and not lost else None
    if edited is None:
        return
    text = f"{path}: was edited after `aliquot select` wrote it ({edited})"
    if any("probability" in entry for entry in entries):
        raise FormatError(
            f"{text}, so its probabilities do not hold; give the file as it was written, or draw another; for a design "
            "of your own, remove `file` from the first line's `selection`"
        )
    warn_caller(text)
