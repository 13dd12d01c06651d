"""Scores of Inspect's logs: what graders gave, and what people gave who edited scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from aliquot.io.formats.samples import Rating, get_field, read_score

Words = dict[str, list[str]]
"""The values of each score that stand for no number."""
_NUMBERS: Mapping[str, float] = MappingProxyType(
    {"c": 1.0, "i": 0.0, "p": 0.5, "n": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
)
_UNCHANGED = "UNCHANGED"


def read_scores(entries: object, words: Words) -> tuple[dict[str, float | None], list[Rating]]:
    """Return what graders gave, and what people gave who edited scores; words without a number are added to `words`."""
    scores: dict[str, float | None] = {}
    ratings: list[Rating] = []
    for name, entry in entries.items() if isinstance(entries, dict) else ():
        if not isinstance(entry, dict):
            continue
        history = entry.get("history")
        value = entry.get("value")
        if history and isinstance(history, list):
            edits = [edit for edit in history if isinstance(edit, dict) and edit.get("value") not in (None, _UNCHANGED)]
            ratings += _read_edits(name, edits, words)
            own = [edit["value"] for edit in edits if not isinstance(edit.get("provenance"), dict)]
            if edits and not own:
                continue  # a person added it
            if len(own) < len(edits):
                value = own[-1]
        scores.update(_read_value(name, value, words))
    return scores, ratings


def _read_edits(name: str, edits: Sequence[Mapping[str, Any]], words: Words) -> Iterator[Rating]:
    """Yield the last value that each author gave a score."""
    by_author = {str(get_field(edit, "provenance", "author")): edit for edit in edits if get_field(edit, "provenance")}
    for author, edit in by_author.items():
        comment = get_field(edit, "provenance", "reason")
        time = get_field(edit, "provenance", "timestamp")
        for criterion, value in _read_value(name, edit["value"], words).items():
            if value is not None:
                yield Rating(
                    criterion,
                    value,
                    annotator=author,
                    comment=comment if isinstance(comment, str) else None,
                    time=time if isinstance(time, str) else None,
                )


def _read_value(name: str, value: object, words: Words) -> dict[str, float | None]:
    """Return a value as numbers: C, I, P, N are 1, 0, 0.5, 0; an object or a list has a score for each part."""
    if isinstance(value, dict):
        return {f"{name}.{key}": _read_number(f"{name}.{key}", part, words) for key, part in value.items()}
    if isinstance(value, list):
        return {f"{name}.{place}": _read_number(f"{name}.{place}", part, words) for place, part in enumerate(value)}
    return {name: _read_number(name, value, words)}


def _read_number(name: str, value: object, words: Words) -> float | None:
    if isinstance(value, str) and (word := _NUMBERS.get(value.lower())) is not None:
        return word
    number = read_score(value)
    if number is None and isinstance(value, str):
        words.setdefault(name, []).append(value)
    return number
