"""How a report on metrics looks in a terminal: an overview, or every part that was asked for."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from aliquot.cli import render
from aliquot.metric_eval.correlations import LEVELS, Correlation
from aliquot.metric_eval.metric_errors import Worth
from aliquot.metric_eval.metrics import MetricReport

# -- What the tables of `aliquot metrics` share: whose rows are shown, in which order, and how numbers are written ---


_COLUMNS = 9
"""Sizes of a curve that fit beside a metric's name."""


class View:
    """The rows of one human score, and the order in which metrics are shown: least disagreement first."""

    def __init__(self, report: MetricReport, human: str, *, overview: bool) -> None:
        self.report, self.human, self.overview = report, human, overview
        observed = {row.metric: row.observed for row in self.rows("decomposition") if row.kind == "metric"}
        self._order = sorted(report.metrics, key=lambda name: ascending(observed.get(name)))

    def rows(self, table: str) -> list[Any]:
        """Rows of a table."""
        return [row for row in self.report.rows(table) if row.human == self.human]

    def campaigns(self, table: str) -> list[str]:
        """The sets that a table has rows of."""
        return list(dict.fromkeys(row.data for row in self.rows(table)))

    def by_metric(self, table: str, data: str | None = None) -> dict[str, list[Any]]:
        """Rows by metric, in the order shown."""
        found: dict[str, list[Any]] = {name: [] for name in self._order}
        for row in self.rows(table):
            if data is None or row.data == data:
                found.setdefault(row.metric, []).append(row)
        return {name: rows for name, rows in found.items() if rows}

    def titled(self, title: str, table: Table, caption: str = "", *, data: str | None = None, of: str = "") -> Group:
        """A table under its title, which names the set where a table has several."""
        named = title if data is None or len(self.campaigns(of)) == 1 else f"{data}: {title}"
        return Group(Text(named, style="bold"), table, *([Text(caption, style="dim")] if caption else []))


def ascending(value: float | None) -> float:
    """For sorting: undefined values come last."""
    return math.inf if value is None or math.isnan(value) else value


def descending(value: float) -> float:
    """For sorting from large to small: undefined values come last."""
    return math.inf if math.isnan(value) else -value


def some(rows: Sequence[Any], most: int = _COLUMNS) -> list[Any]:
    """At most so many, the first and the last among them, about evenly spread.

    >>> some(range(20), 4)
    [0, 6, 13, 19]
    """
    if len(rows) <= most:
        return list(rows)
    return [rows[round(at * (len(rows) - 1) / (most - 1))] for at in range(most)]


def ratio(value: float) -> str:
    """Write a ratio that may be infinite.

    >>> ratio(2.238), ratio(float("inf")), ratio(float("nan"))
    ('2.24', 'infinite', '-')
    """
    return "-" if math.isnan(value) else "infinite" if math.isinf(value) else f"{value:.2f}"


def size(value: float, limit: int) -> str:
    """Write a number of judgments.

    >>> size(298.3, 10000), size(float("inf"), 10000), size(1.0, 10000)
    ('298', '>10000', '<=1')
    """
    if math.isnan(value):
        return "-"
    return f">{limit}" if math.isinf(value) else "<=1" if value <= 1 else f"{value:.0f}"


def size_interval(low: float, high: float, limit: int) -> str:
    """Write an interval of numbers of judgments; nothing where there is none."""
    return "" if math.isnan(low) else f"{size(low, limit)} to {size(high, limit)}"


# -- Tables of who is better: error parts, break-even, the perfect annotator, convergence, co-occurrence -------------


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
    counted = next((_UNITS[row.unit] for row in worth.values()), "")
    caption += f"; worth: {counted} per system at which people err as often" if worth else ""
    yield view.titled("who is better: how often a metric and people disagree on a pair of systems", table, caption)


_UNITS = {"judgment": "single judgments", "item": "judged items"}


def _judgments(row: Worth) -> list[str]:
    return [size(row.judgments, row.limit), size_interval(row.low, row.high, row.limit)]


def breakeven(view: View) -> Iterable[Group]:
    """Judgments that metrics are worth, and the curves they come from."""
    rows = sorted(view.rows("breakeven"), key=lambda row: ascending(row.bias))
    if not rows:
        return
    perfect = any(not math.isnan(row.perfect) for row in rows)
    counted = rows[0].unit + "s"
    heads = ["bias", counted, "interval", *(["perfect", "interval"] if perfect else []), "pairs"]
    table = render.columns(render.table(), left=["metric"], right=heads)
    for row in rows:
        ideal = [size(row.perfect, row.limit), size_interval(row.perfect_low, row.perfect_high, row.limit)]
        table.add_row(row.metric, render.fixed(row.bias), *_judgments(row), *(ideal if perfect else []), str(row.pairs))
    caption = "intervals over systems" + ("; perfect: of an annotator without noise" if perfect else "")
    yield view.titled(f"{_UNITS[rows[0].unit]} per system at which people err as often as the metric", table, caption)
    points = some(view.rows("curves"))
    curve = render.columns(render.table(), left=["error of"], right=[str(point.judgments) for point in points])
    curve.add_row("people", *(render.fixed(point.people) for point in points))
    if perfect:
        curve.add_row("the perfect annotator", *(render.fixed(point.perfect) for point in points))
    yield view.titled(f"error against {_UNITS[rows[0].unit]} per system", curve)


def squared_error(view: View) -> Iterable[Group]:
    """Mean squared error of differences and its parts."""
    for data in view.campaigns("squared_error"):
        rows = [row for row in view.rows("squared_error") if row.data == data]
        heads = ["observed", "noise", "bias", "variance", "factor", "pairs"]
        table = render.columns(render.table(), left=["metric"], right=heads)
        first = [row for row in rows if row.kind != "metric"]
        for row in [*first, *sorted((r for r in rows if r.kind == "metric"), key=lambda r: ascending(r.observed))]:
            values = (row.observed, row.noise, row.bias, row.variance, row.factor)
            table.add_row(row.metric, *(render.number(value) for value in values), str(row.pairs))
        caption = (
            "observed = noise + squared bias + variance, in squared points of the human score; factor: points "
            "that one of the metric is worth"
        )
        yield view.titled(
            "squared error of a metric's difference of two systems", table, caption, data=data, of="squared_error"
        )


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


# -- How a report on metrics looks in a terminal: an overview, or every part that was asked for ----------------------


_OVERVIEW = ("decomposition", "correlations", "value", "annotators")
_MORE = "breakeven, convergence, cooccurrence, extremes, leave_one_out, tests, ..."
_SHORT = {
    "pearson": "Pearson",
    "spearman": "Spearman",
    "kendall_b": "tau-b",
    "kendall_c": "tau-c",
    "acc_eq": "acc-eq",
    "accuracy": "accuracy",
    "spa": "SPA",
}
_WANTED = (
    ("system", "accuracy"),
    ("system", "spa"),
    ("system", "pearson"),
    ("within_item", "acc_eq"),
    ("within_item", "pearson"),
    ("within_system", "pearson"),
    ("pooled", "pearson"),
)
_KENDALL_LIKE = (
    "acc-eq 0: only equal metric scores are ties. KL: (C - D) / (C + D), human ties skipped, metric ties discordant "
    "(d), skipped (s) or half (h); mean of items (M) or all pairs together (m)"
)


def show(report: MetricReport, console: Console, *, overview: bool) -> None:
    """Print the verdict, then the tables that have rows, one human score after the other."""
    render.verdict(report.verdict, console)
    humans = _humans(report)
    for human in humans:
        if len(humans) > 1:
            console.print(Text(f"against '{human}'", style="bold underline"))
            console.print()
        view = View(report, human, overview=overview)
        for part in _OVERVIEW if overview else report.parts:
            for table in _SHOWN[part](view):
                console.print(table)
                console.print()
    if report.computed:
        console.print(_computed(report))
        console.print()
    if overview:
        console.print(f"in full, or more: --parts {_MORE}; all numbers: --json", style="dim", markup=False)
    for note in report.notes:
        console.print(f"note: {note}", markup=False)
    render.signature(report.signature, console)


def _humans(report: MetricReport) -> list[str]:
    """As rows call the human scores: all names where several sets are pooled under different ones."""
    tables = (
        "decomposition",
        "correlations",
        "annotators",
        "value",
        "clusters",
        "convergence",
        "cooccurrence",
        "extremes",
        "leave_one_out",
        "breakeven",
    )
    return list(dict.fromkeys(row.human for name in tables for row in report.rows(name)))


def _value(view: View) -> Iterable[Group]:
    for data in view.campaigns("value"):
        if not view.overview:
            heads = ["correlation", "noise-free", "efficiency", "ceiling", "systems", "cells"]
            table = render.columns(render.table(), left=["metric"], right=heads)
            rows = [row for row in view.rows("value") if row.data == data]
            for row in sorted(rows, key=lambda row: descending(row.efficiency)):
                cells = [render.fixed(row.correlation), render.fixed(row.noise_free), render.fixed(row.efficiency, 2)]
                table.add_row(row.metric, *cells, ratio(row.ceiling), str(row.systems), str(row.cells))
            title = "as control variate: n judgments with the metric are worth efficiency x n without"
            yield view.titled(title, table, data=data, of="value")
        steps = [row for row in view.rows("suggested") if row.data == data]
        if steps:
            caption = "chosen one by one, on items that the slopes have not seen"
            yield view.titled("metrics to combine as control variates", _steps(steps), caption, data=data, of="value")


def _steps(rows: Sequence[Any]) -> Table:
    heads = ["alone", "together", "explained", "gain", "±", "efficiency"]
    table = render.columns(render.table(), left=["metric"], right=heads)
    for row in rows:
        name = row.metric if row.taken else f"({row.metric}: not worth it)"
        values = [render.fixed(row.alone), render.fixed(row.correlation), render.percent(max(0.0, row.explained))]
        table.add_row(name, *values, render.fixed(row.gain), render.fixed(row.error), render.fixed(row.efficiency, 2))
    return table


def _correlations(view: View) -> Iterable[Group]:
    for data in view.campaigns("correlations"):
        by_metric = view.by_metric("correlations", data)
        if view.overview:
            yield _correlation_overview(view, data, by_metric)
            continue
        for level in LEVELS:
            first = [row for row in next(iter(by_metric.values())) if row.level == level]
            table = render.columns(render.table(), left=["metric"], right=[_head(row) for row in first])
            for metric, rows in by_metric.items():
                table.add_row(metric, *(render.fixed(row.value) for row in rows if row.level == level))
            caption = _KENDALL_LIKE if level == "within_item" else ""
            yield view.titled(f"correlations: {level}", table, caption, data=data, of="correlations")


def _by_system(view: View) -> Iterable[Group]:
    for data in view.campaigns("by_system"):
        rows = [row for row in view.rows("by_system") if row.data == data and row.measure == "pearson"]
        systems = list(dict.fromkeys(row.system for row in rows))
        table = render.columns(render.table(), left=["metric"], right=some(systems))
        for metric, found in view.by_metric("by_system", data).items():
            values = {row.system: row.value for row in found if row.measure == "pearson"}
            table.add_row(metric, *(render.fixed(values[system]) for system in some(systems)))
        more = "; some systems are not shown" if len(systems) > _COLUMNS else ""
        caption = (
            f"Pearson over the outputs of each system; Spearman, tau-b and intervals with -o --table by_system{more}"
        )
        yield view.titled("correlations of each system by itself", table, caption, data=data, of="by_system")


def _gap(view: View) -> Iterable[Group]:
    for data in view.campaigns("gap"):
        table = render.columns(render.table(), left=["metric"], right=["mean", "mode", "outputs"])
        for metric, rows in view.by_metric("gap", data).items():
            whole = next(row for row in rows if row.system is None)
            table.add_row(metric, render.fixed(whole.mean), render.fixed(whole.mode), str(whole.outputs))
        caption = (
            "metric - people on scales from 0 to 1, over outputs; above 0: the metric is too kind; mode: of "
            "the most frequent judgments"
        )
        yield view.titled("gap between metric and people", table, caption, data=data, of="gap")


def _head(row: Correlation) -> str:
    if row.measure == "kendall_like":
        return f"KL {row.ties.removeprefix('human skip, metric ')[0]}{'M' if row.average == 'macro' else 'm'}"
    if row.measure == "acc_eq" and row.ties == "equal scores only":
        return "acc-eq 0"
    return _SHORT[row.measure]


def _correlation_overview(view: View, data: str, by_metric: dict[str, list[Any]]) -> Group:
    tests = list(dict.fromkeys(row.test for row in view.rows("clusters")))[:2]
    clusters = {(row.test, row.metric): row.cluster for row in view.rows("clusters") if row.data == data}
    saved = {row.metric: row.efficiency for row in view.rows("value") if row.data == data}
    heads = ["acc", "SPA", "r", "acc-eq", "r item", "r syst", "r all", *(["saves"] if saved else [])]
    heads += [f"#{test.removesuffix('uracy').replace('_', '-')}" for test in tests]
    table = render.columns(render.table(), left=["metric"], right=heads)
    for metric, rows in by_metric.items():
        found = {(row.level, row.measure): row.value for row in reversed(rows)}  # the first of a measure counts
        cells = [render.fixed(found[key]) for key in _WANTED]
        cells += [render.fixed(saved.get(metric), 2)] if saved else []
        table.add_row(metric, *cells, *(str(clusters.get((test, metric), "-")) for test in tests))
    caption = (
        "systems: accuracy, SPA, Pearson's r of means; outputs: acc-eq (within items, ties calibrated), r within "
        "items, within systems, over all"
    )
    caption += "; saves: n judgments with the metric are worth so many n" if saved else ""
    caption += "; #: cluster of metrics not told apart" if tests else ""
    return view.titled("does the metric move with people", table, caption, data=data, of="correlations")


def _extremes(view: View) -> Iterable[Group]:
    for data in view.campaigns("extremes"):
        by_metric = view.by_metric("extremes", data)
        for measure in dict.fromkeys(row.measure for row in next(iter(by_metric.values()))):
            chosen = {name: [row for row in rows if row.measure == measure] for name, rows in by_metric.items()}
            sizes = [str(row.systems) for row in some(next(iter(chosen.values())))]
            for side, word in (("top", "best"), ("last", "worst")):
                table = render.columns(render.table(), left=["metric"], right=sizes)
                for metric, rows in chosen.items():
                    table.add_row(metric, *(render.fixed(getattr(row, side)) for row in some(rows)))
                yield view.titled(f"{measure} on the N {word} systems", table, data=data, of="extremes")


def _leave_one_out(view: View) -> Iterable[Group]:
    for data in view.campaigns("leave_one_out"):
        rows = [row for rows in view.by_metric("leave_one_out", data).values() for row in rows]
        for measure in dict.fromkeys(row.measure for row in rows):
            table = render.columns(render.table(), left=["metric"], right=["all", "lowest"])
            table.add_column("without", overflow="fold")
            render.columns(table, right=["highest"])
            table.add_column("without", overflow="fold")
            for row in (row for row in rows if row.measure == measure):
                low, high = (row.low_without or "-", row.high_without or "-")
                table.add_row(
                    row.metric, render.fixed(row.value), render.fixed(row.low), low, render.fixed(row.high), high
                )
            yield view.titled(f"{measure} without one system", table, data=data, of="leave_one_out")


def _tests(view: View) -> Iterable[Group]:
    for data in view.campaigns("clusters"):
        rows = [row for row in view.rows("clusters") if row.data == data]
        for test in dict.fromkeys(row.test for row in rows):
            mine = [row for row in rows if row.test == test]
            table = render.columns(render.table(), left=["metric"], right=["value", "cluster", "better than"])
            for row in sorted(mine, key=lambda row: (row.cluster, descending(row.value))):
                table.add_row(row.metric, render.fixed(row.value), str(row.cluster), str(row.better_than))
            held = mine[0]
            caption = (
                f"on the cells that all metrics have: {held.items} items, {held.systems} systems, {held.cells} cells; "
                f"{held.permutations} permutations; p-values of all pairs: -o FILE --table tests"
            )
            yield view.titled(f"metrics not told apart by {test}", table, caption, data=data, of="clusters")


def _computed(report: MetricReport) -> Group:
    table = render.columns(render.table(), left=["metric", "sacrebleu's signature"], right=["cells"])
    for row in report.computed:
        table.add_row(f"{row.metric} (flipped)" if row.flipped else row.metric, row.signature, str(row.cells))
    return Group(Text("computed from outputs and references", style="bold"), table)


_SHOWN: dict[str, Callable[[View], Iterable[Group]]] = {
    "decomposition": decomposition,
    "breakeven": breakeven,
    "squared_error": squared_error,
    "annotators": annotators,
    "convergence": convergence,
    "cooccurrence": cooccurrence,
    "value": _value,
    "correlations": _correlations,
    "extremes": _extremes,
    "leave_one_out": _leave_one_out,
    "tests": _tests,
    "by_system": _by_system,
    "gap": _gap,
}
