"""The sections of a report that rank systems: who is best, who is better than whom, and whether it is enough.

A section is a question, one sentence that answers it, and what supports it. Every function here returns None where the
data have nothing to say: what is absent is left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from aliquot.core.escape import Html
from aliquot.core.shown import Shown
from aliquot.core.view import Column, View
from aliquot.core.written import format_fixed, format_percent, format_scientific
from aliquot.report import drawings
from aliquot.report.blocks import Block, Diagram, Folded, Notes, Remark, Section, Template
from aliquot.report.findings import Findings
from aliquot.report.verdicts import pairs_verdict, write_verdict

MAX_IN_MATRIX = 40
"""Systems up to which all pairs are shown as a square."""
_MAX_OPEN = 12  # pairs that are named as not told apart


def find_view(result: Shown, name: str) -> View:
    """Return a view of a result by name."""
    return next(view for view in result.views() if view.name == name)


# -- Who is best? ----------------------------------------------------------------------------------------------------


def rank_systems(findings: Findings) -> Section | None:
    """Return the section on who is best and how sure that is."""
    result = findings.ranking
    if result is None:
        return None
    alpha = f"{findings.options.alpha:g}"
    clusters = f"A line separates clusters: every system above it is better than some system below (p < {alpha})."
    estimates = findings.estimates
    worth = (
        " worth: the number of judged items of a plain random sample that would be as precise."
        if estimates is not None and estimates.judged < estimates.population
        else ""
    )
    view = replace(find_view(result, "systems"), caption="", section="cluster")
    if findings.comparison is not None:
        bar = Column("", ("low", "win_rate", "high"), "bar")
        view = replace(view, columns=(*view.columns[:4], bar, *view.columns[4:]))
    blocks = (view, Remark(clusters + worth), Notes(result.notes))
    return Section("best", "Who is best, and how sure are we?", write_verdict(result) or "", blocks)


# -- Who is really better than whom? ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Pair:
    """One pair, the better system first, with the formatted difference from either side."""

    a: str
    b: str
    difference: str
    reverse: str
    p: float
    adjusted: float


def compare_pairs(findings: Findings) -> Section | None:
    """Return the section on which systems differ significantly."""
    result, alpha = findings.ranking, findings.options.alpha
    pairs = _list_pairs(findings)
    systems = [name for name in findings.systems if any(name in (pair.a, pair.b) for pair in pairs)]
    if result is None or not pairs:
        return None
    blocks: list[Block] = []
    if 2 < len(systems) <= MAX_IN_MATRIX:
        difference = "difference" if findings.comparison is None else "win rate"
        rows = _build_matrix(systems, pairs, alpha)
        blocks.append(Template("matrix.html", {"rows": rows, "difference": difference, "alpha": f"{alpha:g}"}))
    blocks.append(Folded("All pairs as a list", [find_view(result, "pairs")], is_open=not blocks))
    return Section("pairs", "Who is really better than whom?", pairs_verdict(result), blocks)


def _list_pairs(findings: Findings) -> list[_Pair]:
    """Return the pairs that were tested, in the order of the result."""
    if findings.estimates is not None:
        tested = [pair for pair in findings.estimates.pairs if math.isfinite(pair.p)]
        write = _number_writer([abs(pair.difference) for pair in tested] + [0.0])
        return [
            _Pair(pair.a, pair.b, write(pair.difference), write(-pair.difference), pair.p, pair.p_adjusted)
            for pair in tested
        ]
    rows = []
    for pair in () if findings.comparison is None else findings.comparison.pairs:
        names = (pair.a, pair.b) if pair.win_rate >= 0.5 else (pair.b, pair.a)
        rate = max(pair.win_rate, 1 - pair.win_rate)
        if math.isfinite(pair.p):
            rows.append(_Pair(*names, format_percent(rate), format_percent(1 - rate), pair.p, pair.p_adjusted))
    return rows


def _number_writer(values: Sequence[float]) -> Callable[[float | None], str]:
    """Return a function that writes enough decimals to tell apart a hundredth of the range shown."""
    finite = [value for value in values if math.isfinite(value)] or [0.0]
    width = max(finite) - min(finite)
    if max(map(abs, finite)) >= 1e9 or 0 < width < 1e-3:
        return format_scientific
    return partial(format_fixed, places=1 if width >= 20 else 2 if width >= 2 else 3 if width >= 0.2 else 4)


@dataclass(frozen=True)
class _Cell:
    """A cell of the matrix: `sure` after the adjustment, `likely` without it, `open`, or `none` on the diagonal."""

    text: str
    kind: Literal["sure", "likely", "open", "none"]


def _build_matrix(systems: Sequence[str], pairs: Sequence[_Pair], alpha: float) -> list[tuple[str, list[_Cell]]]:
    """Return a row of cells for each system: differences above the diagonal, adjusted p-values below it."""
    by_names = {(pair.a, pair.b): pair for pair in pairs} | {(pair.b, pair.a): pair for pair in pairs}

    def make_cell(row: int, column: int) -> _Cell:
        pair = by_names.get((systems[row], systems[column]))
        if pair is None:
            return _Cell("" if row == column else "–", "none")
        difference = pair.difference if pair.a == systems[row] else pair.reverse
        kind: Any = "sure" if pair.adjusted < alpha else "likely" if pair.p < alpha else "open"
        return _Cell(difference if column > row else write_short_p(pair.adjusted), kind)

    places = range(len(systems))
    return [(systems[row], [make_cell(row, column) for column in places]) for row in places]


def write_short_p(p: float) -> str:
    """Write a p-value for a cell of the matrix.

    >>> write_short_p(0.0004), write_short_p(0.0312), write_short_p(0.5), write_short_p(float("nan"))
    ('<.001', '.031', '.50', '–')
    """
    if math.isnan(p):
        return "–"
    return "<.001" if p < 0.001 else (f"{p:.3f}" if p < 0.1 else f"{p:.2f}").removeprefix("0")


# -- Is it enough? ---------------------------------------------------------------------------------------------------

_CURVES = {"accuracy": "pairs of systems in the right order", "best": "the best system comes first"}


def judge_budget(findings: Findings) -> Section | None:
    """Return the section on whether the budget was enough and what more would buy."""
    plan, result = findings.plan, findings.estimates
    if plan is None or result is None:
        return None
    points, is_past = plan.curve(plan.methods[-1]), plan.basis == "replay"
    curves = [[(float(point.items), float(getattr(point, name))) for point in points] for name in _CURVES]
    drawing = drawings.draw_curves(curves, "items judged", "probability", mark=None if is_past else result.judged)
    swatches = (f'<span class="swatch c{place}"></span>{words}' for place, words in enumerate(_CURVES.values(), 1))
    what = "What fewer items would have bought" if is_past else "What other budgets promise"
    mark = "" if is_past else f"; the dashed line marks what was judged ({result.judged:,} items)"
    caption = Html(f'{what}: <span class="key">{", ".join(swatches)}</span>{mark}.')
    open_pairs = [pair for pair in result.pairs if not pair.p_adjusted < result.alpha]
    blocks: list[Block] = [
        Diagram(caption, drawing),
        find_view(plan, plan.methods[-1]),
        Remark(_list_open_pairs([(pair.a, pair.b) for pair in open_pairs])),
        Notes(plan.notes),
    ]
    says = write_verdict(plan) or ""
    if is_past:
        says = f"Every item was judged: no more can be bought here. A campaign like it can do with less. {says}"
    return Section("enough", "Is it enough, what would more buy?", says, blocks)


def _list_open_pairs(pairs: Sequence[tuple[str, str]]) -> str:
    names = "; ".join(f"{a} and {b}" for a, b in pairs[:_MAX_OPEN])
    more = f"; and {len(pairs) - _MAX_OPEN} more pairs" if len(pairs) > _MAX_OPEN else ""
    return f"Still open: {names}{more}." if pairs else ""
