"""Values of the organiser's page, formatted for its template."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aliquot.collect.actions import ACTIONS
from aliquot.collect.checks import AnnotatorCard
from aliquot.collect.organiser import Overview, in_utc
from aliquot.collect.people import FORGOTTEN, VALID
from aliquot.collect.snapshot import LiveSystem, Snapshot

_DRAWN = 240.0  # width of the drawn intervals
_WORDS = {
    "campaign_state": "campaign",
    "wanted": "judgments an output:",
    "topped_up": "more items:",
    "rejudge": "judged again",
    "links_renewed": "new link",
    "reassigned": "open units freed",
    "message": "message:",
    "guidelines_changed": "new guidelines",
    "systems_added": "more systems",
    "workers": "workers at most:",
}
_FACT_WORDS: Mapping[tuple[str, Any], str] = {
    ("counts", 0): "excluded",
    ("counts", 1): "included again",
    ("work", "paused"): "paused",
    ("work", "active"): "resumed",
    ("link", "withdrawn"): "link withdrawn",
    ("state", "excluded"): "excluded",
    ("state", "paused"): "paused",
    ("state", "active"): "active again",
    ("state", "revoked"): "link withdrawn",
}
"""Field and value of an event `annotator_state` -> what was done; `state` is of version 2 or earlier."""


def page_values(now: Overview) -> dict[str, Any]:
    """Return the overview as formatted values for the template."""
    snap = now.snapshot
    names = [row.system for row in snap.systems if row.judged]
    return {
        "title": now.title,
        "state": now.state,
        "protocol": now.protocol,
        "updated": f"as of {in_utc(now.time)}",
        "words": now.words,
        "agreement": _format_number(snap.agreement),
        "progress": {
            "done": now.done,
            "wanted": now.wanted,
            "spent": _format_hours(now.seconds),
            "left": _format_hours(now.seconds_left),
            "end": in_utc(now.end) if now.end else "unknown, nobody works now" if now.done < now.wanted else "finished",
            "money": _format_money(now),
        },
        "systems": _system_rows(snap.systems) if names else [],
        "names": names,
        "matrix": _build_matrix(snap, names),
        "decided": snap.decided,
        "open": snap.open,
        "annotators": _build_cards(now),
        "notes": snap.notes,
        "actions": [(name, ACTIONS[name].label) for name in _campaign_actions(now.state)],
        "audit": [_audit_row(entry) for entry in now.audit],
    }


def _campaign_actions(state: str) -> tuple[str, ...]:
    return {"open": ("stop", "close"), "paused": ("open", "close")}.get(state, ("open",))


def _system_rows(rows: Sequence[LiveSystem]) -> list[dict[str, Any]]:
    judged = [v for r in rows for v in (r.low, r.high, r.estimate) if math.isfinite(v)]
    low, high = (min(judged), max(judged)) if judged else (0.0, 1.0)
    place = _compute_scale(low - 0.1 * (high - low), high + 0.1 * (high - low))
    entries, cluster = [], 1
    for row in rows:
        known_row = math.isfinite(row.low) and math.isfinite(row.high)
        always = math.isfinite(row.always_low) and math.isfinite(row.always_high)
        drawn = None
        if known_row:
            wide = (place(row.always_low), place(row.always_high)) if always else None
            drawn = {"now": (place(row.low), place(row.high)), "at": place(row.estimate), "always": wide}
        entries.append(
            {
                "system": row.system,
                "judged": row.judged,
                "mean": _format_number(row.mean),
                "estimate": _format_number(row.estimate),
                "interval": f"{_format_number(row.low)} to {_format_number(row.high)}",
                "p_best": _format_number(row.p_best),
                "always": f"{_format_number(row.always_low)} to {_format_number(row.always_high)}",
                "cluster": row.cluster or "",
                "new_cluster": bool(row.cluster and row.cluster != cluster),
                "drawn": drawn,
            }
        )
        cluster = row.cluster or cluster
    return entries


def _compute_scale(low: float, high: float) -> Callable[[float], float]:
    width = (high - low) or 1.0
    return lambda value: round(min(max((value - low) / width, 0.0), 1.0) * (_DRAWN - 12) + 6, 1)


def _build_matrix(snap: Snapshot, names: Sequence[str]) -> list[dict[str, Any]]:
    pairs = {(pair.a, pair.b): pair for pair in snap.pairs}
    rows = []
    for a in names:
        cells = []
        for b in names:
            pair = pairs.get((a, b))
            if a == b or pair is None:
                cells.append({"kind": "self" if a == b else "open", "text": "" if a == b else "·"})
            else:
                cells.append({"kind": "decided" if pair.decided else "open", "text": _format_number(pair.difference)})
        rows.append({"system": a, "cells": cells})
    return rows if snap.pairs else []


def _build_cards(now: Overview) -> list[dict[str, Any]]:
    by_name = {card.annotator: card for card in now.snapshot.annotators}
    return [_build_card(person, by_name.get(person["name"])) for person in now.people]


def _build_card(person: Mapping[str, Any], card: AnnotatorCard | None) -> dict[str, Any]:
    n_done, seconds = person["n_done"], person["active_ms"] / 1000
    numbers = [("Units", str(n_done)), ("Seconds a unit", f"{seconds / n_done:.0f}" if n_done and seconds else "–")]
    if card is not None:
        named = (
            ("Severity", card.severity, f"{card.severity:+.2f}"),
            (f"Damaged copies seen ({card.damaged})", card.damaged_passed, f"{card.damaged_passed:.0%}"),
            (f"Known answers ({card.gold})", card.gold_passed, f"{card.gold_passed:.0%}"),
            (f"Repeats differ by ({card.repeats})", card.repeat_difference, f"{card.repeat_difference:.1f}"),
            ("Spans an output", card.spans, f"{card.spans:.2f}"),
            ("Most frequent value", card.straight, f"{card.straight:.0%}"),
        )
        numbers += [(name, text) for name, value, text in named if math.isfinite(value)]
    return {
        "annotator": person["name"],
        "states": person["state"].split(", "),
        "numbers": numbers,
        "suggestion": _describe_suggestion(person, card),
        "evidence": card.evidence if card is not None else (),
        "facts": [
            (fact, value, [(name, ACTIONS[name].label) for name in actions])
            for fact, value, actions in _list_facts(person)
        ],
        "forgotten": person["link"] == FORGOTTEN,
    }


def _describe_suggestion(person: Mapping[str, Any], card: AnnotatorCard | None) -> str:
    if person["link"] == FORGOTTEN:
        return "name and answers are deleted"
    if not person["counts"]:
        return "judgments do not count"
    text = card.suggestion if card is not None else "nothing judged yet"
    return text if person["work"] == "active" else text.removeprefix("pause, and ")


def _list_facts(person: Mapping[str, Any]) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return link, work and judgments in words, each with the actions that change it."""
    if person["link"] == FORGOTTEN:
        return [("Judgments", "deleted", ("rejudge",))]
    again = () if person["kind"] == "model" else ("rejudge",)
    return [
        ("Link", "valid", ("renew", "revoke")) if person["link"] == VALID else ("Link", "withdrawn", ("renew",)),
        ("Work", "active", ("pause", "reassign")[: 1 + (person["state"] == "active")])
        if person["work"] == "active"
        else ("Work", "paused", ("resume",)),
        ("Judgments", "count", ("exclude",))
        if person["counts"]
        else ("Judgments", "do not count", ("include", *again)),
    ]


def _audit_row(entry: Mapping[str, Any]) -> dict[str, str]:
    payload = entry["payload"]
    fact = next((words for (name, value), words in _FACT_WORDS.items() if payload.get(name) == value), "")
    fact = fact if entry["kind"] == "annotator_state" else ""
    detail = next(filter(None, (payload.get(name) for name in ("state", "wanted", "items", "most", "text"))), "")
    what = (
        fact if entry["kind"] == "annotator_state" else f"{_WORDS.get(entry['kind'], entry['kind'])} {detail}".strip()
    )
    return {
        "time": in_utc(entry["time"]),
        "what": what,
        "target": entry["target"],
        "reason": payload.get("reason") or "",
    }


def _format_number(value: float) -> str:
    return "–" if not math.isfinite(value) else f"{value:.2f}"


def _format_hours(seconds: float) -> str:
    if not math.isfinite(seconds):
        return "unknown"
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.0f} min"


def _format_money(now: Overview) -> str:
    return f"{now.money:.2f} of {now.money + now.money_left:.2f} {now.currency}" if now.money + now.money_left else ""
