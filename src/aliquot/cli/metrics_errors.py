"""Tables of who is better: error parts, break-even, the perfect annotator, convergence, co-occurrence."""

from __future__ import annotations

import math
from collections.abc import Iterable

from rich.console import Group

from aliquot.cli import render
from aliquot.cli.metrics_view import View, ascending, ratio, size, size_interval, some
from aliquot.metaeval.break_even import Worth


def decomposition(view: View) -> Iterable[Group]:
    """Observed disagreement and its parts; in the overview with what metrics are worth."""
    rows = view.rows("decomposition")
    if not rows:
        return
    worth = {row.metric: row for row in view.rows("breakeven")} if view.overview else {}
    paired = any(row.covariance for row in rows)
    heads = ["observed", "noise", "bias", "variance", *(["covariance"] if paired else []), "±"]
    heads += ["worth", "interval"] if worth else []
    heads += ["pairs"] if view.overview else ["pairs", "items", "systems", "cells"]
    table = render.columns(render.table(), left=["metric"], right=heads)
    first = [row for row in rows if row.kind != "metric"]
    for row in [*first, *sorted((r for r in rows if r.kind == "metric"), key=lambda r: ascending(r.observed))]:
        values = [row.observed, row.noise, row.bias, row.variance, *([row.covariance] if paired else [])]
        cells = [*(render.fixed(value) for value in values), render.fixed(row.error, 4)]
        if worth:
            cells += _judgments(worth[row.metric]) if row.kind == "metric" else ["", ""]
        held = [row.pairs] if view.overview else [row.pairs, row.items, row.systems, row.cells]
        table.add_row(row.metric, *cells, *(str(number) for number in held))
    caption = f"observed = noise + bias + variance{' + covariance' if paired else ''}; ±: Monte Carlo error of observed"
    caption += "; worth: judgments per system at which people err as often" if worth else ""
    yield view.titled("who is better: how often a metric and people disagree on a pair of systems", table, caption)


def _judgments(row: Worth) -> list[str]:
    return [size(row.judgments, row.limit), size_interval(row.low, row.high, row.limit)]


def breakeven(view: View) -> Iterable[Group]:
    """Judgments that metrics are worth, and the curves they come from."""
    rows = sorted(view.rows("breakeven"), key=lambda row: ascending(row.bias))
    if not rows:
        return
    perfect = any(not math.isnan(row.perfect) for row in rows)
    heads = ["bias", "judgments", "interval", *(["perfect", "interval"] if perfect else []), "pairs"]
    table = render.columns(render.table(), left=["metric"], right=heads)
    for row in rows:
        ideal = [size(row.perfect, row.limit), size_interval(row.perfect_low, row.perfect_high, row.limit)]
        table.add_row(row.metric, render.fixed(row.bias), *_judgments(row), *(ideal if perfect else []), str(row.pairs))
    caption = "intervals over systems" + ("; perfect: of an annotator without noise" if perfect else "")
    yield view.titled("judgments per system at which people err as often as the metric", table, caption)
    points = some(view.rows("curves"))
    curve = render.columns(render.table(), left=["error of"], right=[str(point.judgments) for point in points])
    curve.add_row("people", *(render.fixed(point.people) for point in points))
    if perfect:
        curve.add_row("the perfect annotator", *(render.fixed(point.perfect) for point in points))
    yield view.titled("error against judgments per system", curve)


def annotators(view: View) -> Iterable[Group]:
    """Variance components of judgments."""
    rows = view.rows("annotators")
    if not rows:
        return
    heads = ["people", "judgments", "twice", "Var(H)", "noise", "Var(P)", "ratio", "interval", "matched"]
    table = render.columns(render.table(), left=["data"], right=heads)
    for row in rows:
        ends = "" if math.isnan(row.low) else f"{ratio(row.low)} to {ratio(row.high)}"
        cells = [str(row.annotators), str(row.judgments), str(row.repeated)]
        cells += [render.number(value) for value in (row.total, row.within, row.between)]
        table.add_row(f"{row.data} ({row.source})", *cells, ratio(row.ratio), ends, ratio(row.matched))
    caption = "twice: outputs judged more than once; ratio: Var(H) / Var(P); matched: of differences on the same items"
    yield view.titled("the perfect annotator: how many judgments one without noise would be worth", table, caption)


def convergence(view: View) -> Iterable[Group]:
    """How fast metrics make up their minds."""
    for data in view.campaigns("convergence"):
        by_metric = view.by_metric("convergence", data)
        sizes = [str(row.items) for row in some(next(iter(by_metric.values())))]
        table = render.columns(render.table(), left=["metric"], right=sizes)
        for metric, rows in by_metric.items():
            table.add_row(metric, *(render.fixed(row.agreement) for row in some(rows)))
        title = "agreement of a metric on so many items with itself on all"
        yield view.titled(title, table, data=data, of="convergence")


def cooccurrence(view: View) -> Iterable[Group]:
    """Where people and metrics are sure."""
    by_metric = view.by_metric("cooccurrence")
    if not by_metric:
        return
    heads = ["same", "undecided", "opposite", "| same side", "undecided", "other side"]
    table = render.columns(render.table(), left=["metric"], right=heads)
    for metric, rows in by_metric.items():
        counts = [str(n) for row in rows[:2] for n in (row.better, row.undecided, row.worse)]
        table.add_row(metric, *counts)
    caption = "left: people find one system significantly better; right: they do not, and the metric does or does not"
    yield view.titled("pairs of systems by people's and the metric's significant differences", table, caption)
