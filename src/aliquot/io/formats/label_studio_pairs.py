"""Label Studio's side-by-side tasks: which of two outputs is better, as `Pairwise` or `Choices` controls ask it.

Each answer becomes a battle, as `arena` reads them. The task's data name the systems: model_a and model_b, system1 and
system2, left_model and right_model, and so on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from aliquot.errors import FormatError, quoted
from aliquot.io.formats.answers import Fields, read_user
from aliquot.io.formats.choice_labels import SIDE_OF_LABEL
from aliquot.io.formats.label_studio import OWN_FIELDS
from aliquot.io.formats.table_columns import fold_name, map_columns

_SIDES = (("_a", "_b"), ("a", "b"), ("_1", "_2"), ("1", "2"), ("_left", "_right"))
_SYSTEMS = ("model", "system", "model_name", "system_name", "llm", "source_model")
_OUTPUTS = ("answer", "response", "output", "text", "completion", "summary", "translation", "candidate", "option")
_WINNERS = {"a": "model_a", "b": "model_b", "tie": "tie", "both": "tie", "none": "both_bad"}


def is_side_by_side(record: Mapping[str, Any]) -> bool:
    """Return whether a task or flat record asks for a choice between two outputs.

    >>> is_side_by_side({"data": {"answer1": "x", "answer2": "y"}, "annotations": []}), is_side_by_side({"text": "x"})
    (True, False)
    """
    data = record.get("data", record)
    if not isinstance(data, dict):
        return False
    return _find_pair(data, _OUTPUTS) is not None or any(_is_pairwise(result) for result in _list_results(record))


def read_battles(record: Mapping[str, Any], where: str) -> Iterator[Fields]:
    """Yield a battle for each annotator who chose one of two outputs."""
    is_task = "annotations" in record
    data = record["data"] if is_task and isinstance(record.get("data"), dict) else record
    systems, outputs = _find_pair(data, _SYSTEMS), _find_pair(data, _OUTPUTS)
    if systems is None:
        raise FormatError(
            f"{where}: a choice between two outputs, and the task's data do not say of which systems; there are "
            f"{quoted(data)}; add the fields model_a and model_b (left and right) to the tasks and export again"
        )
    roles = map_columns([name for name, value in data.items() if isinstance(value, (str, int))], None, where)
    base: Fields = {
        "id": data[roles["item"]] if is_task and "item" in roles else record.get("id"),
        "model_a": str(data[systems[0]]),
        "model_b": str(data[systems[1]]),
    }
    if outputs is not None:
        texts = (data[roles["source"]] if "source" in roles else None, *(data[name] for name in outputs))
        base |= dict(zip(("prompt", "response_a", "response_b"), map(_as_text, texts), strict=True))
    for annotator, values in _list_answers(record):
        sides = [side for value in values if (side := _read_side(value, base)) is not None]
        if len(sides) > 1 and len(set(sides)) > 1:
            raise FormatError(f"{where}: several different choices of '{annotator}'; export one question at a time")
        if sides:
            yield base | {"annotator": annotator, "winner": _WINNERS[sides[0]]}


def _as_text(value: object) -> str | None:
    return None if value is None else str(value)


def _find_pair(data: Mapping[str, Any], stems: Sequence[str]) -> tuple[str, str] | None:
    """Return the names of the two fields that hold the same thing for the two sides."""
    names = {fold_name(name): name for name in data}
    candidates = [(f"{stem}{a}", f"{stem}{b}") for stem in stems for a, b in _SIDES]
    candidates += [(f"left_{stem}", f"right_{stem}") for stem in stems]
    pair = next(((a, b) for a, b in candidates if a in names and b in names), None)
    return None if pair is None else (names[pair[0]], names[pair[1]])


def _list_results(record: Mapping[str, Any]) -> list[Any]:
    return [result for _, values in _list_annotations(record) for result in values]


def _list_annotations(record: Mapping[str, Any]) -> Iterator[tuple[str | None, list[Any]]]:
    """Yield annotator and results of each annotation that counts; a flat record is one."""
    annotations = record.get("annotations")
    if not isinstance(annotations, list):
        if str(record.get("was_cancelled")).casefold() != "true":
            roles = map_columns(list(record), None, "record").values()
            data = {*(_find_pair(record, _SYSTEMS) or ()), *(_find_pair(record, _OUTPUTS) or ()), *roles}
            answers = [value for name, value in record.items() if name not in {*data, *OWN_FIELDS, "id"}]
            yield read_user(record.get("annotator")), answers
        return
    for annotation in annotations:
        if isinstance(annotation, dict) and not (annotation.get("was_cancelled") or annotation.get("ground_truth")):
            results = annotation.get("result")
            yield read_user(annotation.get("completed_by")), results if isinstance(results, list) else []


def _is_pairwise(result: object) -> bool:
    if not isinstance(result, dict):
        return False
    value = result.get("value", result)
    return result.get("type") == "pairwise" or (isinstance(value, dict) and "selected" in value)


def _list_answers(record: Mapping[str, Any]) -> Iterator[tuple[str | None, list[Any]]]:
    """Yield annotator and the values that may name a side."""
    for annotator, results in _list_annotations(record):
        values = []
        for entry in results:
            result = entry[0] if isinstance(entry, list) and len(entry) == 1 else entry
            value = result.get("value", result) if isinstance(result, dict) else result
            if isinstance(value, dict):
                value = value.get("selected", value.get("choices"))
            values.append(value[0] if isinstance(value, list) and len(value) == 1 else value)
        is_flat = not isinstance(record.get("annotations"), list)
        yield annotator, [v for v in values if isinstance(v, str)] if not is_flat else _only_sides(values)


def _only_sides(values: Sequence[Any]) -> list[Any]:
    """Return the values of a flat record that name a side; its other fields are data."""
    return [v for v in values if isinstance(v, str) and SIDE_OF_LABEL.get(v.strip().casefold()) is not None]


def _read_side(value: str, base: Mapping[str, Any]) -> str | None:
    """Return a, b, tie, both or none: by label, by name of the system, or by the name of the field, such as answer2."""
    if value in (base["model_a"], base["model_b"]) and base["model_a"] != base["model_b"]:
        return "a" if value == base["model_a"] else "b"
    folded = value.strip().casefold()
    if folded in SIDE_OF_LABEL:
        return SIDE_OF_LABEL[folded]
    sides = [(f"{stem}{a}", f"{stem}{b}") for stem in _OUTPUTS for a, b in _SIDES]
    name = fold_name(folded)
    return next(("a" if name == a else "b" for a, b in sides if name in (a, b)), None)
