"""The sections of a report that rank systems: who is best, who is better than whom, and whether it is enough.

A section is a question, one sentence that answers it, and what its template shows. Every function here returns None
where the data have nothing to say: what is absent is left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from aliquot.annotation.preferences import Comparison
from aliquot.core.verdict_words import format_p
from aliquot.core.written import fixed, number, percent, scientific
from aliquot.estimation.estimate import Estimates
from aliquot.report import drawings
from aliquot.report.findings import Findings
from aliquot.report.verdicts import pairs_verdict, verdict

MOST_IN_MATRIX = 40
"""Systems up to which all pairs are shown as a square."""
_MOST_PAIRS = 300


@dataclass(frozen=True)
class Section:
    """One section of the page."""

    id: str
    title: str
    verdict: str  # one or two sentences, before any table
    template: str
    shown: Mapping[str, Any] = field(default_factory=dict)  # what the template shows


# -- Who is best? ----------------------------------------------------------------------------------------------------


def best(found: Findings) -> Section | None:
    """Who is best, and how sure are we?"""
    shown = _ranked_scores(found) if found.estimates is not None else _ranked_choices(found)
    if shown is None:
        return None
    result = found.estimates or found.comparison
    return Section("best", "Who is best, and how sure are we?", verdict(result) or "", "best.html", shown)


def _ranked_scores(found: Findings) -> dict[str, Any] | None:
    result = found.estimates
    if result is None:
        return None
    rows = [row for row in result.systems if row.cluster is not None]
    axis = drawings.make_axis([end for row in rows for end in (row.low, row.high, row.estimate)], tight=True)
    written = _writer([end for row in rows for end in (row.low, row.high)])
    shown = [
        {
            "system": row.system,
            "ranks": _span(row.rank_low, row.rank_high),
            "cluster": row.cluster,
            "first": at > 0 and rows[at - 1].cluster != row.cluster,
            "bar": drawings.draw_interval(axis, row.low, row.estimate, row.high, _shade(row.cluster)),
            "score": written(row.estimate),
            "interval": f"{written(row.low)} to {written(row.high)}",
            "p_best": percent(row.p_best) if row.p_best == row.p_best else "–",
            "n": f"{row.n:,}",
            "worth": "–" if math.isnan(row.effective_n) else f"{row.effective_n:,.0f}",
        }
        for at, row in enumerate(rows)
    ]
    share = percent(result.judged / result.population) if result.population else "–"
    return {
        "rows": shown,
        "axis": drawings.draw_axis(axis),
        "level": f"{result.level:.0%}",
        "score": "mean",
        "clusters": len({row.cluster for row in rows}),
        "notes": result.notes,
        "never": [row.system for row in result.systems if row.cluster is None],
        "caption": f"{result.judged:,} of {result.population:,} items judged ({share}); estimator {result.method}",
        "worth": result.judged < result.population,
        "alpha": f"{found.options.alpha:g}",
    }


def _ranked_choices(found: Findings) -> dict[str, Any] | None:
    result = found.comparison
    if result is None:
        return None
    axis = drawings.make_axis([end for row in result.systems for end in (row.low, row.high, row.win_rate)], tight=True)
    shown = [
        {
            "system": row.system,
            "ranks": _span(row.rank_low, row.rank_high),
            "cluster": row.cluster,
            "first": at > 0 and result.systems[at - 1].cluster != row.cluster,
            "bar": drawings.draw_interval(axis, row.low, row.win_rate, row.high, _shade(row.cluster)),
            "score": percent(row.win_rate),
            "interval": f"{percent(row.low)} to {percent(row.high)}",
            "strength": f"{number(row.score)} ({number(row.score_low)} to {number(row.score_high)})",
            "n": f"{row.n:,}",
            "wins": f"{row.wins:,} / {row.ties:,} / {row.losses:,}",
        }
        for at, row in enumerate(result.systems)
    ]
    return {
        "rows": shown,
        "axis": drawings.draw_axis(axis),
        "level": f"{result.level:.0%}",
        "score": "win rate",
        "clusters": len({row.cluster for row in result.systems}),
        "notes": result.notes,
        "never": [],
        "caption": f"{result.choices:,} choices on {result.items:,} items",
        "choices": True,
        "worth": False,
        "alpha": f"{found.options.alpha:g}",
    }


def _span(low: int | None, high: int | None) -> str:
    return "–" if low is None else str(low) if low == high else f"{low}–{high}"


def _shade(cluster: int | None) -> str:
    """Clusters take turns in two looks, so that their borders are seen in the picture, too."""
    return "even" if cluster is not None and cluster % 2 == 0 else "odd"


def _writer(values: Sequence[float]) -> Callable[[float | None], str]:
    """Enough decimals to tell apart a hundredth of the range shown."""
    known = [value for value in values if math.isfinite(value)] or [0.0]
    width = max(known) - min(known)
    if max(map(abs, known)) >= 1e9 or 0 < width < 1e-3:
        return scientific
    return partial(fixed, places=1 if width >= 20 else 2 if width >= 2 else 3 if width >= 0.2 else 4)


# -- Who is really better than whom? ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Pair:
    """One pair, the better one first, in the words of the page."""

    a: str
    b: str
    difference: str
    interval: str
    p: float
    adjusted: float
    turned: str  # the difference seen from the other side
    p_full: float = math.nan


def pairs(found: Findings) -> Section | None:
    """Who is really better than whom?"""
    rows = _score_pairs(found.estimates) if found.estimates is not None else _choice_pairs(found.comparison)
    systems = [name for name in found.systems if any(name in (row.a, row.b) for row in rows)]
    if not rows:
        return None
    alpha = found.options.alpha
    if found.estimates is not None:
        says, difference = pairs_verdict(found.estimates), "difference"
    else:
        says, difference = _choices_verdict(rows, alpha), "win rate"
    shown = {
        "systems": systems,
        "difference": difference,
        "alpha": f"{alpha:g}",
        "matrix": _matrix(systems, rows, alpha) if 2 < len(systems) <= MOST_IN_MATRIX else None,
        "rows": [_pair_row(row, alpha) for row in rows[:_MOST_PAIRS]],
        "more": max(0, len(rows) - _MOST_PAIRS),
        "full": any(math.isfinite(row.p_full) for row in rows),
    }
    return Section("pairs", "Who is really better than whom?", says, "pairs.html", shown)


def _score_pairs(result: Estimates | None) -> list[_Pair]:
    if result is None:
        return []
    known = [pair for pair in result.pairs if math.isfinite(pair.p)]
    written = _writer([abs(pair.difference) for pair in known] + [0.0])
    return [
        _Pair(
            pair.a,
            pair.b,
            written(pair.difference),
            f"{written(pair.low)} to {written(pair.high)}",
            pair.p,
            pair.p_adjusted,
            written(-pair.difference),
            pair.p_full,
        )
        for pair in known
    ]


def _choice_pairs(result: Comparison | None) -> list[_Pair]:
    if result is None:
        return []
    found = []
    for pair in result.pairs:
        if not math.isfinite(pair.p):
            continue
        a, b, rate, low, high = pair.a, pair.b, pair.win_rate, pair.low, pair.high
        if rate < 0.5:
            a, b, rate, low, high = b, a, 1 - rate, 1 - high, 1 - low
        found.append(
            _Pair(a, b, percent(rate), f"{percent(low)} to {percent(high)}", pair.p, pair.p_adjusted, percent(1 - rate))
        )
    return found


def _choices_verdict(rows: Sequence[_Pair], alpha: float) -> str:
    apart = sum(row.adjusted < alpha for row in rows)
    closest = max(rows, key=lambda row: (row.adjusted, row.p))
    return (
        f"{apart} of {len(rows)} pairs of systems are told apart (adjusted p < {alpha:g}); the closest is "
        f"{closest.a} and {closest.b} ({format_p(closest.p, closest.adjusted)})."
    )


def _pair_row(row: _Pair, alpha: float) -> dict[str, str]:
    return {
        "a": row.a,
        "b": row.b,
        "difference": row.difference,
        "interval": row.interval,
        "p": short_p(row.p),
        "adjusted": short_p(row.adjusted),
        "full": short_p(row.p_full),
        "kind": _surely(row, alpha),
    }


def _surely(row: _Pair, alpha: float) -> str:
    return "sure" if row.adjusted < alpha else "likely" if row.p < alpha else "open"


def _matrix(systems: Sequence[str], rows: Sequence[_Pair], alpha: float) -> list[dict[str, Any]]:
    """A square: differences above the diagonal, adjusted p-values below it."""
    of = {(row.a, row.b): row for row in rows} | {(row.b, row.a): row for row in rows}
    square = []
    for at, name in enumerate(systems):
        cells: list[dict[str, str]] = []
        for other, against in enumerate(systems):
            row = of.get((name, against))
            if row is None:
                cells.append({"text": "" if at == other else "–", "kind": "none"})
                continue
            seen = row.difference if row.a == name else row.turned  # the order of scores and of pairs may differ
            text = seen if other > at else short_p(row.adjusted)
            cells.append({"text": text, "kind": _surely(row, alpha)})
        square.append({"system": name, "cells": cells})
    return square


def short_p(p: float) -> str:
    """Write a p-value for a table.

    >>> short_p(0.0004), short_p(0.0312), short_p(0.5), short_p(float("nan"))
    ('<.001', '.031', '.50', '–')
    """
    if math.isnan(p):
        return "–"
    return "<.001" if p < 0.001 else (f"{p:.3f}" if p < 0.1 else f"{p:.2f}").removeprefix("0")


# -- Is it enough? ---------------------------------------------------------------------------------------------------


def enough(found: Findings) -> Section | None:
    """Is it enough, what would more buy?"""
    plan = found.plan
    if plan is None or found.estimates is None:
        return None
    methods = plan.methods
    curves = [
        (words, [(float(p.items), float(getattr(p, name))) for p in plan.curve(methods[-1])])
        for name, words in (
            ("accuracy", "pairs of systems in the right order"),
            ("best", "the best system comes first"),
        )
    ]
    rows = [
        {
            "size": f"{p.items:,}",
            "judgments": f"{p.judgments:,.0f}",
            "accuracy": percent(p.accuracy),
            "best": percent(p.best),
            "apart": f"{p.apart:.0f}",
            "width": number(p.width_difference),
            "hours": "" if math.isnan(p.hours) else f"{p.hours:,.0f}",
        }
        for p in plan.curve(methods[-1])
    ]
    judged = None if plan.basis == "replay" else float(found.estimates.judged)
    open_pairs = [pair for pair in found.estimates.pairs if not pair.p_adjusted < found.estimates.alpha]
    shown = {
        "picture": drawings.draw_curves([curve for _, curve in curves], "items judged", "probability", mark=judged),
        "legend": [words for words, _ in curves],
        "rows": rows,
        "pairs": len(plan.pairs),
        "timed": any(row["hours"] for row in rows),
        "open": [(pair.a, pair.b) for pair in open_pairs[:12]],
        "more_open": max(0, len(open_pairs) - 12),
        "judged": f"{found.estimates.judged:,}",
        "notes": plan.notes,
        "past": plan.basis == "replay",
    }
    says = verdict(plan) or ""
    if plan.basis == "replay":
        says = f"Every item was judged: no more can be bought here. A campaign like it can do with less. {says}"
    return Section("enough", "Is it enough, what would more buy?", says, "enough.html", shown)
