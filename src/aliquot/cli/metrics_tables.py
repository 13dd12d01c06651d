"""How a report on metrics looks in a terminal: an overview, or every part that was asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from aliquot.cli import metrics_errors, render
from aliquot.cli.metrics_view import View, descending, ratio, some
from aliquot.metaeval.correlate import LEVELS, Correlation
from aliquot.metaeval.metric_report import MetricReport

_OVERVIEW = ("decomposition", "correlations", "value", "annotators")
_MORE = "breakeven, convergence, cooccurrence, extremes, leave_one_out, tests, ..."
_SHORT = {"pearson": "Pearson", "spearman": "Spearman", "kendall_b": "tau-b", "kendall_c": "tau-c",
          "acc_eq": "acc-eq", "accuracy": "accuracy", "spa": "SPA"}  # fmt: skip
_WANTED = (("system", "accuracy"), ("system", "spa"), ("system", "pearson"), ("within_item", "acc_eq"),
           ("within_item", "pearson"), ("within_system", "pearson"), ("pooled", "pearson"))  # fmt: skip
_KENDALL_LIKE = (
    "acc-eq 0: only equal metric scores are ties. KL: (C - D) / (C + D), human ties skipped, metric ties discordant "
    "(d), skipped (s) or half (h); mean of items (M) or all pairs together (m)"
)


def show(report: MetricReport, console: Console, *, overview: bool) -> None:
    """Print the tables that have rows, one human score after the other."""
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
    tables = ("decomposition", "correlations", "annotators", "value", "clusters", "convergence", "cooccurrence",
              "extremes", "leave_one_out", "breakeven")  # fmt: skip
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
    "decomposition": metrics_errors.decomposition, "breakeven": metrics_errors.breakeven,
    "annotators": metrics_errors.annotators, "convergence": metrics_errors.convergence,
    "cooccurrence": metrics_errors.cooccurrence, "value": _value, "correlations": _correlations,
    "extremes": _extremes, "leave_one_out": _leave_one_out, "tests": _tests,
}  # fmt: skip
