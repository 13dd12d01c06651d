"""What `MetricReport` shows: an overview of all parts, and a view of each part in full."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from aliquot.core.view import Column, View
from aliquot.metric_eval.correlations import LEVELS
from aliquot.metric_eval.metric_format import (
    FINDINGS,
    OVERVIEW_CAPTION,
    OVERVIEW_MEASURES,
    UNDECIDED_HEADERS,
    WITHIN_ITEM_CAPTION,
    format_count,
    format_interval,
    format_ratio,
    format_worth,
    make_ascending_key,
    make_curve_columns,
    make_curve_table,
    make_descending_key,
    name_measure,
    sort_by_error,
    spread_evenly,
)

if TYPE_CHECKING:
    from aliquot.metric_eval.metric_report import MetricReport

_PARTS_OF_TABLES = {"curves": "breakeven", "suggested": "value", "clusters": "tests"}
_UNITS = {"judgment": "single judgments", "item": "judged items"}
_MORE = "in full, or more: `parts=breakeven,convergence,cooccurrence,extremes,leave_one_out,tests,...`"
_NAME = Column("metric", kind="name")


def metric_views(report: MetricReport) -> tuple[View, ...]:
    """Return the views of a report, for one human score after the other.

    A report with all parts has an overview, and a detail for each part; another one shows its parts in full.
    """
    is_overview = report.has_all_parts
    humans = report.human_labels
    views: list[View] = []
    for human in humans:
        heading = [View("human", intro=(f"against '{human}'",))] if len(humans) > 1 else []
        maker = _ViewMaker(report, human, is_detail=is_overview)
        views += [*heading, *(maker.view_overview() if is_overview else ()), *maker.view_parts()]
    if report.computed:
        views.append(_list_computed(report))
    return (*views, View("more", intro=(_MORE,))) if is_overview else tuple(views)


class _ViewMaker:
    """Views of one human score; metrics are in the order of their observed disagreement, smallest first."""

    def __init__(self, report: MetricReport, human: str, *, is_detail: bool) -> None:
        self.report, self.human, self.is_detail = report, human, is_detail
        observed = {row.metric: row.observed for row in self.select_rows("decomposition") if row.kind == "metric"}
        self._order = sorted(report.metrics, key=lambda name: make_ascending_key(observed.get(name)))

    def view_overview(self) -> Iterator[View]:
        """Yield what matters of all parts: error with its worth, correlations, what metrics save, annotators."""
        yield from self.view_decomposition(overview=True)
        yield from self.view_correlation_overview()
        yield from self.view_suggested(detail=False)
        yield from self.view_annotators(detail=False)

    def view_parts(self) -> Iterator[View]:
        """Yield every part in full; parts without a row have no view."""
        for part in self.report.parts:
            yield from getattr(self, f"view_{part}")()

    # -- Rows ------------------------------------------------------------------------------------------------------

    def select_rows(self, table: str, data: str | None = None) -> list[Any]:
        """Return the rows of a table about this human score, of one set or all."""
        return [
            row for row in self.report.rows(table) if row.human == self.human and (data is None or row.data == data)
        ]

    def group_by_metric(self, table: str, data: str | None = None, **values: str) -> dict[str, list[Any]]:
        """Return rows by metric, in the order shown; only those whose fields have these values."""
        rows = [
            row for row in self.select_rows(table, data) if all(getattr(row, name) == values[name] for name in values)
        ]
        names = dict.fromkeys([*self._order, *(row.metric for row in rows)])
        groups = {name: [row for row in rows if row.metric == name] for name in names}
        return {name: group for name, group in groups.items() if group}

    def list_sets(self, table: str) -> list[str]:
        """Return the names of the sets that a table has rows of."""
        return list(dict.fromkeys(row.data for row in self.select_rows(table)))

    def make_view(
        self,
        table: str,
        rows: Sequence[Any],
        columns: Sequence[Column],
        title: str,
        caption: str = "",
        *,
        data: str | None = None,
        detail: bool | None = None,
    ) -> View:
        """Make a view named after its part; the title names the set where a table has several."""
        if data is not None and len(self.list_sets(table)) > 1:
            title = f"{data}: {title}"
        name = _PARTS_OF_TABLES.get(table, table)
        is_detail = self.is_detail if detail is None else detail
        return View(name, rows, columns, title, caption=caption, detail=is_detail)

    # -- Who is better -----------------------------------------------------------------------------------------------

    def view_decomposition(self, *, overview: bool = False) -> Iterator[View]:
        rows = sort_by_error(self.select_rows("decomposition"))
        if not rows:
            return
        worth = {row.metric: row for row in self.select_rows("breakeven")} if overview else {}
        paired = any(row.covariance for row in rows)
        parts = ["observed", "noise", "bias", "variance", *(["covariance"] if paired else [])]
        ranks = {"observed": 0, "noise": 3, "bias": 0, "variance": 2, "covariance": 4}
        columns = [_NAME, *(Column(name, places=3, rank=ranks[name]) for name in parts)]
        columns.append(Column("±", "error", places=4, rank=5))
        caption = f"observed = {' + '.join(parts[1:])}; ±: Monte Carlo error of observed"
        if worth:
            counted = _UNITS[next(iter(worth.values())).unit]
            columns.append(Column("worth", lambda row: format_worth(worth.get(row.metric)), "count"))
            columns.append(Column("interval", lambda row: format_interval(worth.get(row.metric)), "count", rank=1))
            caption += f"; worth: {counted} per system at which people err as often"
        columns.append(Column("pairs", kind="count", rank=6))
        if not overview:
            columns += [Column(name, kind="count", rank=7) for name in ("items", "systems", "cells")]
        title = "who is better: how often a metric and people disagree on a pair of systems"
        yield self.make_view("decomposition", rows, columns, title, caption, detail=self.is_detail and not overview)

    def view_breakeven(self) -> Iterator[View]:
        rows = sorted(self.select_rows("breakeven"), key=lambda row: make_ascending_key(row.bias))
        if not rows:
            return
        counted, unit = f"{rows[0].unit}s", _UNITS[rows[0].unit]
        perfect = any(not math.isnan(row.perfect) for row in rows)
        ideal = (
            Column("perfect", lambda row: format_count(row.perfect, row.limit), "count", rank=2),
            Column("interval", partial(format_interval, perfect=True), "count", rank=3),
        )
        columns = (
            _NAME,
            Column("bias", places=3),
            Column(counted, format_worth, "count"),
            Column("interval", format_interval, "count", rank=1),
            *(ideal if perfect else ()),
            Column("pairs", kind="count", rank=4),
        )
        caption = "intervals over systems" + ("; perfect: of an annotator without noise" if perfect else "")
        yield self.make_view(
            "breakeven", rows, columns, f"{unit} per system at which people err as often as the metric", caption
        )
        points = spread_evenly(self.select_rows("curves"))
        curves = [("people", {str(point.judgments): point.people for point in points})]
        if perfect:
            curves.append(("the perfect annotator", {str(point.judgments): point.perfect for point in points}))
        sizes = [str(point.judgments) for point in points]
        columns = (Column("error of", lambda row: row[0], "name"), *make_curve_columns(sizes))
        yield self.make_view("curves", curves, columns, f"error against {unit} per system")

    def view_squared_error(self) -> Iterator[View]:
        names = {"observed": 0, "noise": 3, "bias": 0, "variance": 2, "factor": 1}
        columns = [_NAME, *(Column(name, rank=rank) for name, rank in names.items())]
        columns.append(Column("pairs", kind="count", rank=4))
        caption = (
            "observed = noise + squared bias + variance, in squared points of the human score; factor: points "
            "that one of the metric is worth"
        )
        for data in self.list_sets("squared_error"):
            rows = sort_by_error(self.select_rows("squared_error", data))
            title = "squared error of a metric's difference of two systems"
            yield self.make_view("squared_error", rows, columns, title, caption, data=data)

    def view_annotators(self, *, detail: bool | None = None) -> Iterator[View]:
        def ratio_interval(row: Any) -> str:
            return "" if math.isnan(row.low) else f"{format_ratio(row.low)} to {format_ratio(row.high)}"

        rows = self.select_rows("annotators")
        columns = (
            Column("data", lambda row: f"{row.data} ({row.source})", "name"),
            Column("people", "annotators", "count", rank=4),
            Column("judgments", kind="count", rank=5),
            Column("twice", "repeated", "count", rank=6),
            Column("Var(H)", "total", rank=3),
            Column("noise", "within", rank=2),
            Column("Var(P)", "between", rank=3),
            Column("ratio", lambda row: format_ratio(row.ratio)),
            Column("interval", ratio_interval, "count", rank=1),
            Column("matched", lambda row: format_ratio(row.matched), rank=2),
        )
        caption = (
            "twice: outputs judged more than once; ratio: Var(H) / Var(P); matched: of differences on the same items"
        )
        title = "the perfect annotator: how many judgments one without noise would be worth"
        if rows:
            yield self.make_view("annotators", rows, columns, title, caption, detail=detail)

    def view_convergence(self) -> Iterator[View]:
        for data in self.list_sets("convergence"):
            groups = self.group_by_metric("convergence", data)
            title = "agreement of a metric on so many items with itself on all"
            yield self.make_view("convergence", *make_curve_table(groups, "items", "agreement"), title, data=data)

    def view_cooccurrence(self) -> Iterator[View]:
        rows = [
            {"metric": metric} | {f"{row.verdict} {name}": getattr(row, name) for row in group for name in FINDINGS}
            for metric, group in self.group_by_metric("cooccurrence").items()
        ]
        columns = [_NAME]
        for verdict, labels in (("better", ("same", "undecided", "opposite")), ("undecided", UNDECIDED_HEADERS)):
            columns += [
                Column(label, f"{verdict} {name}", "count") for label, name in zip(labels, FINDINGS, strict=True)
            ]
        caption = (
            "left: people find one system significantly better; right: they do not, and the metric does or does not"
        )
        title = "pairs of systems by people's and the metric's significant differences"
        if rows:
            yield self.make_view("cooccurrence", rows, columns, title, caption)

    # -- What metrics save -------------------------------------------------------------------------------------------

    def view_value(self) -> Iterator[View]:
        columns = (
            _NAME,
            Column("correlation", places=3, rank=1),
            Column("noise-free", "noise_free", places=3, rank=2),
            Column("efficiency", places=2),
            Column("ceiling", lambda row: format_ratio(row.ceiling), rank=3),
            Column("systems", kind="count", rank=4),
            Column("cells", kind="count", rank=4),
        )
        for data in self.list_sets("value"):
            rows = sorted(self.select_rows("value", data), key=lambda row: make_descending_key(row.efficiency))
            title = "as control variate: n judgments with the metric are worth efficiency x n without"
            yield self.make_view("value", rows, columns, title, data=data)
        yield from self.view_suggested()

    def view_suggested(self, *, detail: bool | None = None) -> Iterator[View]:
        columns = (
            Column("metric", lambda row: row.metric if row.taken else f"({row.metric}: not worth it)", "name"),
            Column("alone", places=3, rank=2),
            Column("together", "correlation", places=3),
            Column("explained", lambda row: max(0.0, row.explained), "share", rank=3),
            Column("gain", places=3, rank=1),
            Column("±", "error", places=3, rank=4),
            Column("efficiency", places=2),
        )
        caption = "chosen one by one, on items that the slopes have not seen"
        for data in self.list_sets("suggested"):
            rows = self.select_rows("suggested", data)
            title = "metrics to combine as control variates"
            yield self.make_view("suggested", rows, columns, title, caption, data=data, detail=detail)

    def view_gap(self) -> Iterator[View]:
        columns = (_NAME, Column("mean", places=3), Column("mode", places=3), Column("outputs", kind="count", rank=1))
        caption = (
            "metric - people on scales from 0 to 1, over outputs; above 0: the metric is too kind; mode: of "
            "the most frequent judgments"
        )
        for data in self.list_sets("gap"):
            rows = [row for group in self.group_by_metric("gap", data).values() for row in group if row.system is None]
            yield self.make_view("gap", rows, columns, "gap between metric and people", caption, data=data)

    # -- Correlations ------------------------------------------------------------------------------------------------

    def view_correlation_overview(self) -> Iterator[View]:
        tests = list(dict.fromkeys(row.test for row in self.select_rows("clusters")))[:2]
        for data in self.list_sets("correlations"):
            clusters = {(row.test, row.metric): row.cluster for row in self.select_rows("clusters", data)}
            saved = {row.metric: row.efficiency for row in self.select_rows("value", data)}
            rows = []
            for metric, group in self.group_by_metric("correlations", data).items():
                first = {(row.level, row.measure): row.value for row in reversed(group)}  # of several tie policies
                row = {"metric": metric, "saves": saved.get(metric)} | {
                    name: first[OVERVIEW_MEASURES[name]] for name in OVERVIEW_MEASURES
                }
                rows.append(row | {test: str(clusters.get((test, metric), "-")) for test in tests})
            columns = [_NAME, *(Column(name, places=3, rank=rank) for rank, name in enumerate(OVERVIEW_MEASURES))]
            if saved:
                columns.append(Column("saves", places=2))
            columns += [
                Column(f"#{test.removesuffix('uracy').replace('_', '-')}", test, "count", rank=1) for test in tests
            ]
            caption = OVERVIEW_CAPTION + ("; saves: n judgments with the metric are worth so many n" if saved else "")
            caption += "; #: cluster of metrics not told apart" if tests else ""
            title = "does the metric move with people"
            yield self.make_view("correlations", rows, columns, title, caption, data=data, detail=False)

    def view_correlations(self) -> Iterator[View]:
        for data in self.list_sets("correlations"):
            for level in LEVELS:
                groups = self.group_by_metric("correlations", data, level=level)
                rows = [
                    {"metric": name} | {name_measure(row): row.value for row in group} for name, group in groups.items()
                ]
                names = [name_measure(row) for row in next(iter(groups.values()))]
                columns = [_NAME, *(Column(name, places=3, rank=rank) for rank, name in enumerate(names))]
                caption = WITHIN_ITEM_CAPTION if level == "within_item" else ""
                yield self.make_view("correlations", rows, columns, f"correlations: {level}", caption, data=data)

    def view_by_system(self) -> Iterator[View]:
        columns = (
            _NAME,
            Column("system", kind="name"),
            Column("Pearson", "pearson", places=3),
            Column("interval", ("low", "high"), "interval", places=3, rank=1),
            Column("Spearman", "spearman", places=3, rank=2),
            Column("tau-b", "kendall_b", places=3, rank=3),
        )
        for data in self.list_sets("by_system"):
            rows: dict[tuple[str, str], dict[str, Any]] = {}
            for row in (row for group in self.group_by_metric("by_system", data).values() for row in group):
                values = rows.setdefault((row.metric, row.system), {"metric": row.metric, "system": row.system})
                values |= {row.measure: row.value} | ({"low": row.low, "high": row.high} if "low" not in values else {})
            title = "correlations over the outputs of each system, with intervals of Pearson's"
            yield replace(self.make_view("by_system", list(rows.values()), columns, title, data=data), section="metric")

    def view_extremes(self) -> Iterator[View]:
        for data in self.list_sets("extremes"):
            for measure in dict.fromkeys(row.measure for row in self.select_rows("extremes", data)):
                groups = self.group_by_metric("extremes", data, measure=measure)
                for side, word in (("top", "best"), ("last", "worst")):
                    title = f"{measure} on the N {word} systems"
                    yield self.make_view("extremes", *make_curve_table(groups, "systems", side), title, data=data)

    def view_leave_one_out(self) -> Iterator[View]:
        columns = (
            _NAME,
            Column("all", "value", places=3),
            Column("lowest", "low", places=3),
            Column("without", lambda row: row.low_without or "-", "name"),
            Column("highest", "high", places=3, rank=1),
            Column("without", lambda row: row.high_without or "-", "text", rank=1),
        )
        for data in self.list_sets("leave_one_out"):
            for measure in dict.fromkeys(row.measure for row in self.select_rows("leave_one_out", data)):
                groups = self.group_by_metric("leave_one_out", data, measure=measure)
                rows = [row for group in groups.values() for row in group]
                yield self.make_view("leave_one_out", rows, columns, f"{measure} without one system", data=data)

    def view_tests(self) -> Iterator[View]:
        columns = (
            _NAME,
            Column("value", places=3),
            Column("cluster", kind="count"),
            Column("better than", "better_than", "count", rank=1),
        )
        for data in self.list_sets("clusters"):
            for test in dict.fromkeys(row.test for row in self.select_rows("clusters", data)):
                rows = [row for row in self.select_rows("clusters", data) if row.test == test]
                rows.sort(key=lambda row: (row.cluster, make_descending_key(row.value)))
                first = rows[0]
                caption = (
                    f"on the cells that all metrics have: {first.items} items, {first.systems} systems, {first.cells} "
                    f"cells; {first.permutations} permutations; the table tests has the p-values of all pairs"
                )
                yield self.make_view("clusters", rows, columns, f"metrics not told apart by {test}", caption, data=data)


def _list_computed(report: MetricReport) -> View:
    columns = (
        Column("metric", lambda row: f"{row.metric} (flipped)" if row.flipped else row.metric, "name"),
        Column("sacrebleu's signature", "signature", "text"),
        Column("cells", kind="count", rank=1),
    )
    return View("computed", report.computed, columns, "computed from outputs and references")
