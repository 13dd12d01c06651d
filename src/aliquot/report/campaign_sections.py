"""The sections of a report about the campaign: what was judged, by whom, can it be trusted, and what metrics say."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from aliquot.annotation.agreement_result import Agreement
from aliquot.annotation.preference_result import Comparison, Position
from aliquot.core.escape import Html
from aliquot.core.evalset import EvalSet
from aliquot.core.judgments import MARKED, Judgments
from aliquot.core.view import Column, View
from aliquot.core.written import format_number, format_percent
from aliquot.metric_eval.metric_report import MetricReport
from aliquot.report import drawings
from aliquot.report.blocks import Block, Columns, Diagram, FactGrid, Folded, Notes, Remark, Section, Template
from aliquot.report.findings import Findings
from aliquot.report.html_tables import MAX_NAME
from aliquot.report.sections import find_view
from aliquot.report.verdicts import write_verdict
from aliquot.sampling.summary import describe_effect, length_shares
from aliquot.stats.arrays import IntArray

_MAX_DOTS = 1500  # items in the map of probabilities
_MAX_GROUPS = 12  # domains in a table of coverage
_BINS = 5
_MAX_SCALED = 20  # best metrics, to whose errors the bars are scaled

# -- What was judged, by whom, how chosen? ---------------------------------------------------------------------------


def describe_campaign(findings: Findings) -> Section | None:
    """Return the section on what was judged, by whom, and how it was chosen."""
    if findings.comparison is not None:
        return _describe_choices(findings.comparison)
    data, result = findings.data, findings.estimates
    if data is None or result is None or findings.human is None:
        return None
    rows = np.flatnonzero(np.isfinite(data.human_score(findings.human)).any(axis=1))
    facts = [
        ("test set", data.name),
        ("items", f"{result.judged:,} of {result.population:,} judged"),
        ("systems", str(sum(row.n > 0 for row in result.systems))),
        *_count_judgments(findings.judgments),
    ]
    if findings.selection is not None:
        facts += [("chosen by", findings.selection.method), ("what that allows", describe_effect(findings.selection))]
    blocks = [FactGrid(facts), *_list_long_names(data.systems), Columns(_coverage_views(data, rows))]
    blocks += _draw_probabilities(findings)
    return Section("judged", "What was judged, by whom, how chosen?", _describe_judged(findings), blocks)


def _describe_judged(findings: Findings) -> str:
    result, judgments = findings.estimates, findings.judgments
    if result is None:
        return ""
    share = format_percent(result.judged / result.population)
    says = f"People judged {result.judged:,} of {result.population:,} items ({share})"
    if judgments is not None:
        table = judgments.answers()
        people = table["annotator"].drop_nulls().n_unique()
        by = f" by {people} annotator{'s' * (people != 1)}" if people else ""
        says += f": {table.height:,} judgments{by}"
    if findings.selection is not None:
        return f"{says}. They were chosen by {findings.selection.method}: {describe_effect(findings.selection)}."
    if result.judged == result.population:
        return f"{says}."
    return f"{says}. How the items were chosen is not known: they are assumed to be a random sample."


def _describe_choices(result: Comparison) -> Section:
    people = f" by {result.annotators} annotators" if result.annotators else ""
    between = f"between {len(result.systems)} systems"
    says = f"People made {result.choices:,} choices{people} on {result.items:,} items {between}."
    facts = [
        ("choices", f"{result.choices:,}"),
        ("items", f"{result.items:,}"),
        ("systems", str(len(result.systems))),
        ("annotators", str(result.annotators or "not named")),
        ("kind", result.kind),
    ]
    counts = [pair.n for pair in result.pairs]
    if len(counts) > 1:
        facts.append(("choices for a pair of systems", f"{min(counts):,} to {max(counts):,}"))
    blocks = [FactGrid(facts), *_list_long_names([row.system for row in result.systems])]
    return Section("judged", "What was judged, by whom?", says, blocks)


def _count_judgments(judgments: Judgments | None) -> list[tuple[str, str]]:
    if judgments is None:
        return []
    table = judgments.answers()
    cells = table.select("item", "system").n_unique()
    facts = [("judgments", f"{table.height:,} on {cells:,} outputs ({table.height / max(1, cells):.2g} for each)")]
    people = table["annotator"].drop_nulls().n_unique()
    if people:
        facts.append(("annotators", f"{people:,}"))
    if len(judgments.criteria) > 1:
        facts.append(("criteria", ", ".join(judgments.criteria)))
    if "protocol" in judgments.table.columns:
        facts.append(("protocol", ", ".join(judgments.table["protocol"].drop_nulls().unique().sort().to_list())))
    return facts


def _list_long_names(systems: Sequence[str]) -> list[Block]:
    """Return the full names of systems whose names are cut in the tables."""
    names = [name for name in systems if len(name) > MAX_NAME]
    return [Template("names.html", {"names": names})] if names else []


@dataclass(frozen=True)
class _Share:
    """A group of items: its share of the judged items and of all."""

    name: str
    judged: float
    full: float


def _coverage_views(data: EvalSet, rows: IntArray) -> list[View]:
    """Return how the judged items are spread over domains, documents and lengths, beside the whole test set."""
    tables: list[tuple[str, list[_Share]]] = []
    if "domain" in data.items.columns:
        tables.append(("By domain", _group_shares(data.items["domain"].fill_null("(none)").cast(pl.String), rows)))
    if "source" in data.items.columns and data.items["source"].null_count() < data.n_items:
        groups, order = _length_groups(data.items["source"])
        tables.append(("By length of the source (characters)", _group_shares(groups, rows, order)))
    codes = data.documents
    if codes is not None and int(np.bincount(codes).max()) > 1:
        shares = [_Share(share.name, share.selected, share.full) for share in length_shares(codes, rows)]
        reached = f"{len(np.unique(codes[rows])):,} of {len(np.unique(codes)):,} documents"
        tables.append((f"By items in the document ({reached})", shares))
    return [_coverage_view(title, shares) for title, shares in tables if len(shares) > 1]


def _coverage_view(title: str, shares: Sequence[_Share]) -> View:
    top = max((max(share.judged, share.full) for share in shares), default=1.0) or 1.0
    columns = (
        Column("", "name", "name"),
        Column("", lambda share: drawings.draw_shares(share.judged / top, share.full / top), "bar"),
        Column(Html('<span class="swatch s1"></span>judged'), "judged", "share"),
        Column(Html('<span class="swatch s2"></span>all'), "full", "share"),
    )
    return View("coverage", shares, columns, title)


def _length_groups(source: pl.Series) -> tuple[pl.Series, list[str]]:
    """Return the fifth of the items by the length of their source that each item is in, and the fifths in order."""
    length = source.fill_null("").str.len_chars().to_numpy()
    ends = np.unique(np.quantile(length, np.linspace(0, 1, _BINS + 1)).astype(int))
    place = np.clip(np.searchsorted(ends, length, side="right") - 1, 0, max(0, len(ends) - 2))
    names = [f"{low:,}–{high:,}" for low, high in pairwise(ends)] or [f"{ends[0]:,}"]
    return pl.Series([names[index] for index in place]), names


def _group_shares(groups: pl.Series, rows: IntArray, order: Sequence[str] | None = None) -> list[_Share]:
    full = dict(groups.value_counts(sort=True).iter_rows())
    judged = dict(groups.gather(pl.Series(rows, dtype=pl.UInt32)).value_counts().iter_rows())
    names = [name for name in order or full if name in full][:_MAX_GROUPS]
    return [_Share(name, judged.get(name, 0) / max(1, len(rows)), full[name] / len(groups)) for name in names]


def _draw_probabilities(findings: Findings) -> list[Block]:
    """Draw inclusion probabilities of the chosen items against the length of their source, if they differ."""
    selection, data = findings.selection, findings.data
    if selection is None or selection.probability is None or data is None or "source" not in data.items.columns:
        return []
    if np.ptp(selection.probability) < 1e-9:
        return []
    length = dict(zip(data.ids, data.items["source"].fill_null("").str.len_chars().to_list(), strict=True))
    points = [
        (float(length[item]), float(p))
        for item, p in zip(selection.ids, selection.probability, strict=True)
        if item in length
    ]
    step = max(1, -(-len(points) // _MAX_DOTS))
    caption = Html(
        "Inclusion probability of each chosen item against the length of its source. An item with a low probability "
        "stands for many others."
    )
    drawing = drawings.draw_points(points[::step], "length of the source (characters)", "inclusion probability")
    return [Diagram(caption, drawing)]


# -- Can the judgments be trusted? -----------------------------------------------------------------------------------

_TRUST_TITLE = "Can the judgments be trusted?"


def check_trust(findings: Findings) -> Section | None:
    """Return the section on whether the judgments can be trusted."""
    if findings.comparison is not None:
        return _check_position(findings.comparison.position)
    judgments, result, cleaned = findings.judgments, findings.agreement, findings.cleaned
    if judgments is None:
        return None
    sentences = [
        (None if result is None else write_verdict(result))
        or "Agreement cannot be measured: the judgments name no annotators, or no output was judged twice.",
        "" if cleaned is None else write_verdict(cleaned) or "",
        findings.scope.get("agreement", ""),
    ]
    blocks: list[Block] = []
    if result is not None:
        blocks.append(find_view(result, "coefficients"))
        blocks += [
            Folded("By criterion, domain and group", [view]) for view in result.views() if view.name == "by_group"
        ]
    blocks.append(_marks_view(judgments) if cleaned is None else find_view(cleaned, "steps"))
    blocks += [Remark(_describe_times(judgments)), _annotators_view(judgments, result)]
    blocks.append(Notes(() if result is None else result.notes))
    return Section("trust", _TRUST_TITLE, " ".join(sentence for sentence in sentences if sentence), blocks)


def _check_position(position: Position | None) -> Section | None:
    if position is None or not math.isfinite(position.first_won):
        return None
    rate, low, high = map(format_percent, (position.first_won, position.low, position.high))
    rate = f"{rate} of choices ({low} to {high})"
    says = f"The output shown first won {rate}: " + (
        "the position has no significant effect."
        if position.low <= 0.5 <= position.high
        else "the position has an effect; show both orders."
    )
    axis = drawings.make_axis([position.low, position.high], include=(0.3, 0.7))
    columns = (
        Column("", lambda _: "shown first", "name"),
        Column(drawings.draw_axis(axis), lambda row: _draw_share(axis, row), "bar"),
        Column("chosen", "first_won", "share"),
        Column("interval", ("low", "high"), "interval", places=2),
    )
    title = "How often the output shown first was chosen; 0.5 means no effect"
    return Section("trust", _TRUST_TITLE, says, [View("position", [position], columns, title)])


def _draw_share(axis: drawings.Axis, row: Position) -> Html:
    return drawings.draw_interval(axis, row.low, row.first_won, row.high)


def _marks_view(judgments: Judgments) -> View:
    """Return the judgments that came with marks: how many for each reason."""
    columns = (Column("reason", MARKED, "name"), Column("judgments", "count", "count"))
    title = "Judgments that were marked before and do not count"
    if MARKED not in judgments.table.columns:
        return View("marks", (), columns, title)
    counts = judgments.table[MARKED].drop_nulls().value_counts(sort=True)
    return View.of_frame("marks", counts, columns, title=title)


@dataclass(frozen=True)
class _Annotator:
    """What a report says of an annotator; None where it is not known."""

    name: str
    judgments: int
    mean: float
    seconds: float | None
    agreement: float | None  # with the others: Pearson's r, or the share of equal answers
    severity: float | None
    noise: float | None
    is_outlier: bool


def _annotators_view(judgments: Judgments, result: Agreement | None) -> View:
    """Return the annotators, those who agree least with the others first."""
    agreement_of: Mapping[str, Mapping[str, Any]] = {}
    if result is not None:
        agreement_of = {row["annotator"]: row for row in result.annotators.iter_rows(named=True)}
    people = sorted(
        (_read_annotator(row, agreement_of.get(row["annotator"], {})) for row in _annotator_means(judgments)),
        key=lambda person: (math.inf if person.agreement is None else person.agreement, -person.judgments),
    )
    severities = [person.severity for person in people if person.severity is not None]
    axis = drawings.make_axis([*severities, 0.0])

    def draw_severity(person: _Annotator) -> Html:
        lean = person.severity
        return Html() if lean is None else drawings.draw_interval(axis, min(0.0, lean), lean, max(0.0, lean), "lean")

    columns = [
        Column("annotator", "name", "name"),
        Column("", lambda person: "look at this one" if person.is_outlier else "", "text"),
        Column("judgments", kind="count", rank=2),
        Column("mean", rank=2),
        Column("r with others", "agreement", places=2),
        Column("severity", lambda person: "-" if person.severity is None else f"{person.severity:+.3g}"),
        *([Column(drawings.draw_axis(axis), draw_severity, "bar")] if severities else []),
        Column("noise", rank=2),
        Column("seconds", lambda person: "-" if person.seconds is None else f"{person.seconds:.0f}", rank=2),
    ]
    caption = "severity: how much lower (+) or higher (-) than the others an annotator scores the same outputs."
    title = "Annotators, those who agree least with the others first"
    return View("annotators", people, columns, title, caption=caption if severities else "")


def _annotator_means(judgments: Judgments) -> list[dict[str, Any]]:
    table = judgments.answers().filter(pl.col("annotator").is_not_null())
    return (
        table.group_by("annotator", maintain_order=True)
        .agg(pl.len().alias("n"), pl.col("value").mean().alias("mean"), pl.col("seconds").median().alias("seconds"))
        .to_dicts()
    )


def _read_annotator(means: Mapping[str, Any], agreed: Mapping[str, Any]) -> _Annotator:
    agreement = agreed.get("pearson")
    return _Annotator(
        means["annotator"],
        means["n"],
        means["mean"],
        means["seconds"],
        agreed.get("same") if agreement is None else agreement,
        agreed.get("severity"),
        agreed.get("noise"),
        bool(agreed.get("outlier")),
    )


def _describe_times(judgments: Judgments) -> str:
    seconds = judgments.answers()["seconds"].drop_nulls()
    if seconds.len() < 10:
        return ""
    low, middle, high = (float(seconds.quantile(q) or 0.0) for q in (0.25, 0.5, 0.75))
    return (
        f"Half of the {seconds.len():,} timed judgments took {low:.0f} to {high:.0f} seconds (median {middle:.0f}); "
        f"{float(seconds.sum()) / 3600:,.0f} hours in all, breaks included."
    )


# -- What do the metrics say? ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Metric:
    """What a report says of a metric; NaN where it is not known."""

    name: str
    error: float  # share of pairs of systems on which it and people disagree
    parts: tuple[float, float, float]  # of the error: noise of people, bias and variance of the metric
    worth: float  # judgments per system that it replaces
    low: float
    high: float
    limit: int  # judgments up to which `worth` was sought
    efficiency: float
    item_r: float
    system_r: float


def assess_metrics(findings: Findings) -> Section | None:
    """Return the section on what the metrics say and whether they may replace people."""
    report, data = findings.metrics, findings.data
    if report is None or data is None or findings.human is None or not report.metrics:
        return None
    unit = "judged items" if report.breakeven and report.breakeven[0].unit == "item" else "judgments"
    says = f"{report.verdict or ''} {findings.scope.get('metrics', '')}".strip()
    blocks: list[Block] = [
        _metrics_view(_list_metrics(report, data, findings.human), unit),
        Remark(
            f"worth: the number of {unit} per system that order the systems as well as the metric does. saves: n "
            "judgments together with the metric are worth as much as so many times n without."
        ),
        Notes(report.notes),
    ]
    return Section("metrics", "What do the metrics say, and may they replace people?", says, blocks)


def _list_metrics(report: MetricReport, data: EvalSet, human: str) -> list[_Metric]:
    """Return the metrics, the one that is worth most first, those of unknown worth last."""
    parts = {row.metric: row for row in report.decomposition if row.kind == "metric"}
    worths = {row.metric: row for row in report.breakeven}
    values = {row.metric: row for row in report.value}
    scores = {score.name: score for score in data.describe(human).scores}
    nan = math.nan
    rows = []
    for name in report.metrics:
        part, worth, value, score = parts.get(name), worths.get(name), values.get(name), scores.get(name)
        rows.append(
            _Metric(
                name,
                error=nan if part is None else part.observed,
                parts=(nan, nan, nan) if part is None else (part.noise, part.bias, part.variance),
                worth=nan if worth is None else worth.judgments,
                low=nan if worth is None else worth.low,
                high=nan if worth is None else worth.high,
                limit=0 if worth is None else worth.limit,
                efficiency=nan if value is None else value.efficiency,
                item_r=nan if score is None else score.item_pearson,
                system_r=nan if score is None else score.system_pearson,
            )
        )
    return sorted(rows, key=lambda row: math.inf if math.isnan(row.worth) else -row.worth)


def _metrics_view(rows: Sequence[_Metric], unit: str) -> View:
    sums = [sum(max(0.0, part) for part in row.parts) for row in rows[:_MAX_SCALED] if math.isfinite(row.error)]
    full = max(sums, default=1.0) or 1.0
    columns = (
        Column("metric", "name", "name"),
        Column("", lambda row: drawings.draw_parts(row.parts, full), "bar"),
        Column("error", kind="share", rank=2),
        Column(f"worth, {unit}", lambda row: _write_worth(row.worth, row.limit)),
        Column("interval", _write_worth_interval, rank=2),
        Column("saves", lambda row: "-" if math.isnan(row.efficiency) else f"{format_number(row.efficiency)}×", rank=2),
        Column("r outputs", "item_r", places=2, rank=2),
        Column("r systems", "system_r", places=2, rank=2),
    )
    title = Html(
        "Metrics, the one that replaces most judgments first. Bars: how often a metric is wrong about which of two "
        'systems is better, and why: <span class="key"><span class="swatch p1"></span>noise of people, <span '
        'class="swatch p2"></span>bias of the metric, <span class="swatch p3"></span>variance of the metric</span>; '
        f"the full width is {format_percent(full)} and longer bars are cut. Parts that lower the error are not drawn."
    )
    return View("metrics", rows, columns, title)


def _write_worth(judgments: float, limit: int) -> str:
    return "-" if math.isnan(judgments) else f"> {limit:,}" if math.isinf(judgments) else f"{judgments:,.0f}"


def _write_worth_interval(row: _Metric) -> str:
    return "" if math.isnan(row.low) else f"{_write_worth(row.low, row.limit)} to {_write_worth(row.high, row.limit)}"
