"""Answers from the preset of `aliquot collect` with which people judged: the instrument, the question, the interface.

Only judgments of a campaign, which have a column `guidelines`, are taken to be of its preset.
"""

from __future__ import annotations

from collections.abc import Iterator

from aliquot.collect.protocols import Choice, Protocol, Score, Spans, Text, list_protocols, load_protocol
from aliquot.core.judgments import Judgments
from aliquot.report.datasheet.facts import MAX_LISTED, list_judgment_protocols
from aliquot.report.datasheet.questions import load_questions

Filled = tuple[str, str | list[str], str, str]
"""Question number, answer, details, where it comes from."""


def find_preset(judgments: Judgments | None) -> Protocol | None:
    """Return the preset that judgments of a campaign were collected with, or None."""
    if judgments is None or "guidelines" not in judgments.table.columns:
        return None
    named = list_judgment_protocols(judgments)
    return load_protocol(named[0]) if len(named) == 1 and named[0] in list_protocols() else None


def fill_collection(protocol: Protocol) -> Iterator[Filled]:
    """Fill in with what the judgments were collected, and what annotators saw (3.3.2, 3.3.4)."""
    source = f"the protocol '{protocol.name}'"
    yield (
        "3.3.2",
        f"In a web browser, with the annotation page of aliquot collect (preset {protocol.name}).",
        "",
        source,
    )
    unit = {
        "output": "the outputs of one system",
        "side-by-side": "the outputs of several systems side by side",
        "document": "whole documents of several systems side by side",
    }[protocol.unit]
    beside = [name for name, on in (("source", protocol.source), ("reference", protocol.reference)) if on]
    with_texts = f" with the {' and the '.join(beside)}" if beside else ""
    context = f"; up to {protocol.context} neighbours on each side are shown in grey" if protocol.context else ""
    answer = protocol.facts.get("scale", protocol.title)
    text = f"A page shows {unit}{with_texts}, in reading order{context}. Systems have no names; their order is random."
    yield "3.3.4", f"{text} Annotators answer by: {answer}.", "", source


def fill_instrument(protocol: Protocol) -> Iterator[Filled]:
    """Fill in the scale, how it looks, the task, the question and the form of the answer (4.3.3 to 4.3.8)."""
    source = f"the protocol '{protocol.name}'"
    size, values, look, task, form = _describe_instrument(protocol)
    yield "4.3.3", size, "", source
    yield "4.3.4", values, "", source
    yield "4.3.5", [load_questions()["4.3.5"].labels[look]], "", source
    yield "4.3.6", task, "", source
    yield "4.3.7", protocol.instructions, "", source
    yield "4.3.8", [load_questions()["4.3.8"].labels[form]], "", source


_CHOICES, _SLIDER, _NO_SCALE = 0, 2, 3  # labels of 4.3.5
_DIRECT, _RELATIVE, _ANNOTATION = 1, 2, 5  # labels of 4.3.8


def _describe_instrument(protocol: Protocol) -> tuple[str, str, int, str, int]:
    """Return size, values, look, task and form of the widget that gives the value."""
    widgets = protocol.widgets
    score = next((widget for widget in widgets if isinstance(widget, Score)), None)
    if score is not None:
        size = round((score.high - score.low) / score.step) + 1
        points = [f"{score.low + index * score.step:g}" for index in range(size)] if size <= MAX_LISTED else []
        values = ", ".join(points) or f"{score.low:g}-{score.high:g}"
        return str(size), values, _SLIDER if score.style == "slider" else _CHOICES, "N/A", _DIRECT
    choice = next((widget for widget in widgets if isinstance(widget, Choice)), None)
    if choice is not None and choice.style == "pairwise":
        levels = [f"A better ({index})" for index in range(choice.strength, 1, -1)] + ["A better"]
        tie = ["tie"] if choice.ties else []
        answers = [*levels, *tie, *(level.replace("A", "B") for level in reversed(levels))]
        return str(len(answers)), ", ".join(answers), _CHOICES, "N/A", _RELATIVE
    if choice is not None:
        what = "choose the best and the worst" if choice.style == "best-worst" else "rank all"
        return "N/A", "N/A", _NO_SCALE, f"Annotators {what} of the outputs shown; the choice is recorded.", _RELATIVE
    if any(isinstance(widget, Text) and widget.style == "postedit" for widget in widgets):
        return "N/A", "N/A", _NO_SCALE, "Annotators correct the output; the corrected text is recorded.", _ANNOTATION
    assert any(isinstance(widget, Spans) for widget in widgets)  # noqa: S101  (a protocol without any value is refused)
    task = "Annotators mark errors in the output; for each its kind and severity are recorded."
    return "N/A", "N/A", _NO_SCALE, task, _ANNOTATION
