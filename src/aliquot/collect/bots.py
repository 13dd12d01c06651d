"""Bots: annotators that answer any unit at random; for tests, benchmarks, rehearsals. They see what a page sees."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

Unit = Mapping[str, Any]
Answers = dict[str, dict[str, Any]]


def answer_unit(unit: Unit, protocol: Mapping[str, Any], rng: random.Random) -> Answers:
    """Return an answer to every question of a unit, as {cell: {widget: value}}."""
    answers: Answers = {}
    for cell, scope, slots, output in _list_cells(unit):
        widgets = [widget for widget in protocol["widgets"] if widget["scope"] == scope]
        if widgets:
            answers[cell] = {widget["name"]: _draw_value(widget, slots, output, rng) for widget in widgets}
    return answers


def changes(answers: Answers, rng: random.Random) -> list[dict[str, Any]]:
    """Return answers as a page sends them: each with an id of its own and the time it took."""
    return [
        {
            "id": str(UUID(int=rng.getrandbits(128), version=4)),
            "cell": cell,
            "answer": answer,
            "active_ms": rng.randrange(2_000, 30_000),
            "idle_ms": rng.randrange(0, 2_000),
        }
        for cell, answer in answers.items()
    ]


def _list_cells(unit: Unit) -> Iterator[tuple[str, str, list[str], str]]:
    slots: list[str] = []
    for row in unit["rows"]:
        slots = [output["slot"] for output in row["outputs"]]
        if row["context"]:
            continue
        if row.get("cell"):
            yield row["cell"], "item", slots, ""
        for output in row["outputs"]:
            if output.get("cell"):
                yield output["cell"], "output", slots, output["text"]
    if unit.get("document_cell"):
        yield unit["document_cell"], "document", slots, ""
    if unit.get("annotator_cell"):
        yield unit["annotator_cell"], "annotator", slots, ""


def _draw_value(widget: Mapping[str, Any], slots: Sequence[str], output: str, rng: random.Random) -> Any:
    kind = widget["kind"]
    if kind == "score":
        steps = round((widget["high"] - widget["low"]) / widget["step"])
        drawn = [widget["low"] + rng.randint(0, steps) * widget["step"] for _ in widget["criteria"] or [None]]
        return dict(zip(widget["criteria"], drawn, strict=True)) if widget["criteria"] else drawn[0]
    if kind == "spans":
        return _draw_spans(widget, output, rng)
    if kind == "choice":
        return _draw_choice(widget, slots, rng)
    if kind == "text":
        return f"{output} ok".strip()
    return {field["name"]: _draw_field(field, rng) for field in widget["fields"]}


def _draw_spans(widget: Mapping[str, Any], output: str, rng: random.Random) -> list[dict[str, Any]]:
    if not output or rng.random() < 0.4:
        return []
    start = rng.randrange(len(output))
    end = rng.randint(start + 1, len(output))
    leaves = [f"{top}/{leaf}" if leaf else top for top, below in widget["categories"].items() for leaf in below or [""]]
    return [
        {
            "start": start,
            "end": end,
            "quote": output[start:end],
            "side": "output",
            "severity": rng.choice(widget["severities"])["name"],
            "category": rng.choice(leaves) if leaves else None,
        }
    ]


def _draw_choice(widget: Mapping[str, Any], slots: Sequence[str], rng: random.Random) -> Any:
    order = rng.sample(list(slots), len(slots))
    if widget["style"] == "best-worst":
        return {"best": order[0], "worst": order[-1]}
    if widget["style"] == "ranking":
        return [[slot] for slot in order]
    chosen = rng.choice([*slots, "tie"] if widget["ties"] else list(slots))
    if not widget["strength"]:
        return chosen
    return {"choice": chosen} | ({} if chosen == "tie" else {"strength": rng.randint(1, widget["strength"])})


def _draw_field(field: Mapping[str, Any], rng: random.Random) -> Any:
    if field["kind"] in ("checkbox", "consent"):
        return True
    if field["kind"] == "number":
        return rng.randint(18, 80)
    return rng.choice(field["options"]) if field["options"] else "text"
