"""What `Estimates` shows: what does not fit, the systems with their intervals, and all pairs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from aliquot.core.view import Column, View
from aliquot.core.written import format_percent

if TYPE_CHECKING:
    from aliquot.estimation.estimate_result import Estimates

_TARGETS = {
    "testset": "this test set, judged by {people}",
    "given": "the mean of these judgments over this test set",
    "beyond": "items of this kind, judged by {people}",
}
_FEW_ANNOTATORS = {1: "this annotator", 2: "these two annotators"}
_MANY_ANNOTATORS = {"testset": "other annotators of the same kind", "beyond": "annotators of this kind"}
_ADJUSTMENT_NOTES = {
    "bh": "adjusted: at most 5% of the differences named are expected to be wrong",
    "holm": "adjusted by Holm: no wrong difference in 95% of cases",
    "maxt": "adjusted by max-t: no wrong difference in 95% of cases",
    "none": "not adjusted for the number of pairs",
}


def estimate_views(result: Estimates) -> tuple[View, ...]:
    """Return the views of estimates: `mismatches` (where there are any), `systems` and, as a detail, `pairs`."""
    mismatches = result.details.get("mismatches", ())
    columns = (
        Column("what", kind="text"),
        Column("example", kind="name"),
        Column("done", "action", "text"),
        Column("count", kind="count"),
    )
    misfit = (View("mismatches", mismatches, columns, "what does not fit"),) if mismatches else ()
    return (*misfit, _system_view(result), _pair_view(result))


def _system_view(result: Estimates) -> View:
    share = format_percent(result.judged / result.population)
    judged = f"{result.judged} of {result.population} {result.details.get('unit', 'items')} judged ({share})"
    method = f"{judged}; {result.method}; {result.level:.0%} intervals by {result.interval}"
    ends = [end for row in result.systems if not math.isnan(row.low) for end in (row.low, row.high)]
    low, high = (min(ends), max(ends)) if ends else (0.0, 1.0)
    is_plain = max(abs(low), abs(high)) < 1e9 and (high - low >= 1e-3 or not high > low)
    style: dict[str, Any] = {"places": _choose_decimals(high - low)} if is_plain else {"kind": "scientific"}
    interval = Column("interval", ("low", "high"), "interval", style.get("places"))
    if not is_plain:
        scientific = Column("", kind="scientific")
        interval = Column(
            "interval", lambda row: f"{scientific.format_cell(row.low)} to {scientific.format_cell(row.high)}"
        )
    changed = [Column("plain", "plain_mean", rank=4, **style)] if result.changes else []
    missing = [Column("missing", kind="count", rank=2)] if any(row.missing for row in result.systems) else []
    columns = (
        Column("system", kind="name"),
        Column("estimate", **style),
        Column("se", rank=5, **style),
        interval,
        Column("", ("low", "estimate", "high"), "bar", rank=8),
        *changed,
        Column("n", kind="count", rank=3),
        *missing,
        Column("worth", lambda row: math.nan if math.isnan(row.effective_n) else round(row.effective_n), rank=7),
        Column("rank", _rank_range, "count", rank=1),
        Column("P(best)", "p_best", places=2, rank=6),
        Column("cluster", lambda row: "-" if row.cluster is None else row.cluster, "count"),
    )
    return View("systems", result.systems, columns, intro=(f"{method}\n{_describe_target(result)}",), section="cluster")


def _describe_target(result: Estimates) -> str:
    """Describe the target and the shares of a mean's variance."""
    parts = [f"{format_percent(share)} {name}" for name, share in result.variance.items() if share > 0]
    sources = f"; variance of a mean: {', '.join(parts)}" if len(parts) > 1 else ""
    people = _FEW_ANNOTATORS.get(result.annotators) or _MANY_ANNOTATORS.get(result.target, "")
    return f"about {_TARGETS.get(result.target, result.target).format(people=people)}{sources}"


def _rank_range(row: Any) -> str:
    if not row.n:
        return "not judged"
    if row.rank_low is None:
        return "-"
    return str(row.rank_low) if row.rank_low == row.rank_high else f"{row.rank_low}-{row.rank_high}"


def _choose_decimals(width: float) -> int:
    """Return the decimals needed to resolve a hundredth of the range."""
    return 2 if width >= 2 else 3 if width >= 0.2 else 4


def _pair_view(result: Estimates) -> View:
    tests: tuple[Column, ...] = (Column("p", kind="p"), Column("adjusted", "p_adjusted", "p"))
    title = f"pairs (p two-sided; {_ADJUSTMENT_NOTES[result.adjust]}; p full: one-sided, predicted for the full set)"
    if result.rule == "published":
        tests = (Column("p sample", "p_sample", "p"),)
        title = "pairs (published convention: one-sided p of each pair alone, and predicted for the full set)"
    columns = (
        Column("better", "a", "name"),
        Column("worse", "b", "name"),
        Column("difference"),
        Column("interval", ("low", "high"), "interval", rank=1),
        *tests,
        Column("p full", "p_full", "p", rank=2),
    )
    return View("pairs", result.pairs, columns, title, importance="p", detail=True)
