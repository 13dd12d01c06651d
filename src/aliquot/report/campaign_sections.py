"""The sections of a report about the campaign: what was judged, by whom, can it be trusted, and what metrics say."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from aliquot.annotation.agreement_result import Agreement
from aliquot.annotation.clean import Cleaned
from aliquot.annotation.coefficients import MEASURES as AGREEMENT_WORDS
from aliquot.core.evalset import EvalSet
from aliquot.core.judgments import MARKED, Judgments
from aliquot.core.written import fixed, number, percent
from aliquot.metric_eval.metrics import MetricReport
from aliquot.report import drawings
from aliquot.report.findings import Findings
from aliquot.report.sections import Section
from aliquot.report.verdicts import verdict
from aliquot.sampling.summary import effect, length_shares
from aliquot.stats.arrays import IntArray

_CARDS = 12  # annotators with a card; the others are rows of a table
_LISTED = 400  # annotators in that table
_DOTS = 1500  # items in the map of probabilities
_METRICS = 12  # metrics shown before the others are folded away
_BINS = 5

# -- What was judged, by whom, how chosen? ---------------------------------------------------------------------------


def judged(found: Findings) -> Section | None:
    """What was judged, by whom, how chosen?"""
    if found.comparison is not None:
        return _judged_choices(found)
    data, result = found.data, found.estimates
    if data is None or result is None or found.human is None:
        return None
    rows = np.flatnonzero(np.isfinite(data.human_score(found.human)).any(axis=1))
    facts = [
        ("test set", data.name),
        ("items", f"{result.judged:,} of {result.population:,} judged"),
        ("systems", str(sum(row.n > 0 for row in result.systems))),
    ]
    facts += _people(found.judgments)
    if found.selection is not None:
        facts += [("chosen by", found.selection.method), ("what that allows", effect(found.selection))]
    shown = {
        "facts": facts,
        "coverage": _coverage(data, rows),
        "map": _probability_map(found),
        "long": [name for name in data.systems if len(name) > 48],
    }
    return Section("judged", "What was judged, by whom, how chosen?", _judged_verdict(found), "judged.html", shown)


def _judged_verdict(found: Findings) -> str:
    result, made = found.estimates, found.judgments
    if result is None:
        return ""
    says = (
        f"People judged {result.judged:,} of {result.population:,} items ({percent(result.judged / result.population)})"
    )
    if made is not None:
        table = made.answers()
        people = table["annotator"].drop_nulls().n_unique()
        by = f" by {people} annotator{'s' * (people != 1)}" if people else ""
        says += f": {table.height:,} judgments{by}"
    if found.selection is None:
        whole = result.judged == result.population
        return says + (
            "." if whole else ". How the items were chosen is not known: they are taken for a random sample."
        )
    return f"{says}. They were chosen by {found.selection.method}: {effect(found.selection)}."


def _judged_choices(found: Findings) -> Section:
    result = found.comparison
    if result is None:
        raise TypeError("no comparison")
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
    least = min(result.pairs, key=lambda pair: pair.n, default=None)
    if least is not None and len(result.pairs) > 1:
        facts.append(("choices for a pair of systems", f"{least.n:,} to {max(pair.n for pair in result.pairs):,}"))
    shown = {
        "facts": facts,
        "coverage": [],
        "map": None,
        "long": [row.system for row in result.systems if len(row.system) > 48],
    }
    return Section("judged", "What was judged, by whom?", says, "judged.html", shown)


def _people(made: Judgments | None) -> list[tuple[str, str]]:
    if made is None:
        return []
    table = made.answers()
    cells = table.select("item", "system").n_unique()
    found = [("judgments", f"{table.height:,} on {cells:,} outputs ({table.height / max(1, cells):.2g} for each)")]
    people = table["annotator"].drop_nulls().n_unique()
    if people:
        found.append(("annotators", f"{people:,}"))
    if len(made.criteria) > 1:
        found.append(("criteria", ", ".join(made.criteria)))
    if "protocol" in made.table.columns:
        found.append(("protocol", ", ".join(made.table["protocol"].drop_nulls().unique().sort().to_list())))
    return found


def _coverage(data: EvalSet, rows: IntArray) -> list[dict[str, Any]]:
    """How the judged items are spread over domains, documents and lengths, beside the whole test set."""
    found = []
    if "domain" in data.items.columns:
        found.append(_shares("domain", data.items["domain"].fill_null("(none)").cast(pl.String), rows))
    if "source" in data.items.columns and data.items["source"].null_count() < data.n_items:
        found.append(
            _shares("length of the source (characters)", _length_bins(data.items["source"]), rows, ordered=True)
        )
    codes = data.documents
    if codes is not None and int(np.bincount(codes).max()) > 1:
        table = [(share.name, share.selected, share.full) for share in length_shares(codes, rows)]
        reached = f"{len(np.unique(codes[rows])):,} of {len(np.unique(codes)):,} documents"
        found.append(_coverage_table(f"items in the document ({reached})", table))
    return [part for part in found if len(part["rows"]) > 1]


def _length_bins(source: pl.Series) -> pl.Series:
    """Fifths of the items by the length of their source, named by their ends."""
    length = source.fill_null("").str.len_chars().to_numpy()
    ends = np.unique(np.quantile(length, np.linspace(0, 1, _BINS + 1)).astype(int))
    place = np.clip(np.searchsorted(ends, length, side="right") - 1, 0, max(0, len(ends) - 2))
    names = [f"{low:,}–{high:,}" for low, high in pairwise(ends)] or [f"{ends[0]:,}"]
    return pl.Series([names[at] for at in place])


def _shares(title: str, groups: pl.Series, rows: IntArray, *, ordered: bool = False) -> dict[str, Any]:
    full = dict(groups.value_counts().iter_rows())
    chosen = dict(groups.gather(pl.Series(rows, dtype=pl.UInt32)).value_counts().iter_rows())
    names = sorted(
        full, key=(lambda name: int(name.split("–")[0].replace(",", ""))) if ordered else (lambda n: -full[n])
    )
    table = [(name, chosen.get(name, 0) / max(1, len(rows)), full[name] / len(groups)) for name in names[:12]]
    return _coverage_table(title, table)


def _lower_end(name: str) -> int:
    return int(name.split("–", maxsplit=1)[0].replace(",", ""))


def _coverage_table(title: str, rows: Sequence[tuple[str, float, float]]) -> dict[str, Any]:
    most = max((max(row[1:]) for row in rows), default=1.0) or 1.0
    return {
        "title": title,
        "rows": [
            {
                "name": name,
                "judged": percent(part),
                "full": percent(full),
                "bar": drawings.draw_shares(part / most, full / most),
            }
            for name, part, full in rows
        ],
    }


def _probability_map(found: Findings) -> Any:
    """Inclusion probabilities of the chosen items against the length of their source, if they differ."""
    selection, data = found.selection, found.data
    if selection is None or selection.probability is None or data is None or "source" not in data.items.columns:
        return None
    if np.ptp(selection.probability) < 1e-9:
        return None
    length = dict(zip(data.ids, data.items["source"].fill_null("").str.len_chars().to_list(), strict=True))
    points = [
        (float(length[item]), float(p))
        for item, p in zip(selection.ids, selection.probability, strict=True)
        if item in length
    ]
    step = max(1, -(-len(points) // _DOTS))
    return drawings.draw_points(points[::step], "length of the source (characters)", "inclusion probability")


# -- Can the judgments be trusted? -----------------------------------------------------------------------------------


def trust(found: Findings) -> Section | None:
    """Can the judgments be trusted?"""
    title = "Can the judgments be trusted?"
    if found.comparison is not None:
        return _trust_choices(found, title)
    if found.judgments is None:
        return None
    result = found.agreement
    says = verdict(result) if result is not None else None
    people = _annotators(found.judgments, result)
    shown = {
        "coefficients": [] if result is None else _coefficients(result),
        "confidence": _confidence(result),
        "cards": people[:_CARDS],
        "others": people[_CARDS : _CARDS + _LISTED],
        "count": len(people),
        "severity": any(person["severity"] for person in people),
        "steps": _steps(found.cleaned),
        "marks": _marks(found.judgments) if found.cleaned is None else [],
        "times": _times(found.judgments),
        "notes": () if result is None else result.notes,
        "position": None,
    }
    if not says:
        says = "Agreement cannot be measured: the judgments do not say who gave them, or no output was judged twice."
    if found.cleaned is not None:
        says = f"{says} {verdict(found.cleaned) or ''}".strip()
    says = f"{says} {found.scope.get('agreement', '')}".strip()
    return Section("trust", title, says, "trust.html", shown)


def _trust_choices(found: Findings, title: str) -> Section | None:
    position = None if found.comparison is None else found.comparison.position
    if position is None or not math.isfinite(position.first_won):
        return None
    even = position.low <= 0.5 <= position.high
    rate = f"{percent(position.first_won)} of choices ({percent(position.low)} to {percent(position.high)})"
    says = f"The output shown first won {rate}: " + (
        "no sign that the place on the screen decides."
        if even
        else "the place on the screen matters; show both orders."
    )
    shown: dict[str, Any] = {
        "coefficients": [],
        "cards": [],
        "others": [],
        "steps": [],
        "marks": [],
        "times": None,
        "notes": (),
        "count": 0,
        "severity": False,
        "confidence": "",
    }
    axis = drawings.make_axis([position.low, position.high], include=(0.3, 0.7))
    shown["position"] = {
        "axis": drawings.draw_axis(axis),
        "rate": rate,
        "bar": drawings.draw_interval(axis, position.low, position.first_won, position.high),
    }
    return Section("trust", title, says, "trust.html", shown)


def _confidence(result: Agreement | None) -> str:
    return "" if result is None else f"{result.confidence:.0%}"


def _coefficients(result: Agreement) -> list[dict[str, Any]]:
    rows = result.coefficients.filter((pl.col("kind") == "all") & pl.col("value").is_not_null())
    axis = drawings.make_axis([0.0, 1.0, *rows["low"].drop_nulls().to_list()])
    found = []
    for row in rows.iter_rows(named=True):
        low, high = (math.nan if row[name] is None else row[name] for name in ("low", "high"))
        interval = "" if math.isnan(low) else f"{low:.2f} to {high:.2f}"
        words = AGREEMENT_WORDS.get(row["measure"], "")
        found.append(
            {
                "measure": row["measure"],
                "words": words,
                "value": fixed(row["value"], 2),
                "interval": interval,
                "bar": drawings.draw_interval(axis, low, row["value"], high),
            }
        )
    return found


def _annotators(made: Judgments, result: Agreement | None) -> list[dict[str, Any]]:
    """One entry per annotator, those to look at first: who agrees least with the others."""
    table = made.answers().filter(pl.col("annotator").is_not_null())
    if not table.height:
        return []
    own = table.group_by("annotator", maintain_order=True).agg(
        pl.len().alias("n"), pl.col("value").mean().alias("mean"), pl.col("seconds").median().alias("seconds")
    )
    others: Mapping[str, Any] = {}
    if result is not None:
        others = {row["annotator"]: row for row in result.annotators.iter_rows(named=True)}
    severities = [row["severity"] for row in others.values() if row["severity"] is not None]
    axis = drawings.make_axis([*severities, 0.0]) if severities else None
    people = [_person(row, others.get(row["annotator"]), axis) for row in own.iter_rows(named=True)]
    return sorted(people, key=lambda person: (person["order"], -person["count"]))


def _person(own: Mapping[str, Any], other: Mapping[str, Any] | None, axis: drawings.Axis | None) -> dict[str, Any]:
    severity = None if other is None else other["severity"]
    r = None if other is None else other["pearson"] if other["pearson"] is not None else other["same"]
    seconds = own["seconds"]
    return {
        "name": own["annotator"],
        "count": own["n"],
        "n": f"{own['n']:,}",
        "mean": number(own["mean"]),
        "seconds": "" if seconds is None else f"{seconds:.0f} s",
        "severity": "" if severity is None else f"{severity:+.3g}",
        "noise": "" if other is None or other["noise"] is None else number(other["noise"]),
        "agreement": "" if r is None else fixed(r, 2),
        "outlier": bool(other is not None and other["outlier"]),
        "order": math.inf if r is None else r,
        "bar": None
        if axis is None or severity is None
        else drawings.draw_interval(axis, min(0.0, severity), severity, max(0.0, severity), "lean"),
    }


def _steps(cleaned: Cleaned | None) -> list[dict[str, str]]:
    if cleaned is None:
        return []
    return [
        {
            "step": step.step,
            "marked": f"{step.marked:,}" if step.applied else "not applied",
            "share": percent(step.share) if step.applied else "",
            "annotators": str(step.annotators) if step.applied else "",
            "change": f"{number(step.change)} ({step.system})" if step.applied and step.system else "",
            "swaps": str(step.swaps) if step.applied else "",
            "note": step.note,
        }
        for step in cleaned.steps
    ]


def _marks(made: Judgments) -> list[tuple[str, str]]:
    """Judgments that came with marks: how many for each reason."""
    if MARKED not in made.table.columns:
        return []
    counts = made.table[MARKED].drop_nulls().value_counts(sort=True)
    return [(reason, f"{count:,}") for reason, count in counts.head(10).iter_rows()]


def _times(made: Judgments) -> dict[str, str] | None:
    seconds = made.answers()["seconds"].drop_nulls()
    if seconds.len() < 10:
        return None
    low, middle, high = (float(seconds.quantile(q) or 0.0) for q in (0.25, 0.5, 0.75))
    return {
        "low": f"{low:.0f}",
        "median": f"{middle:.0f}",
        "high": f"{high:.0f}",
        "n": f"{seconds.len():,}",
        "hours": f"{float(seconds.sum()) / 3600:,.0f}",
    }


# -- What do the metrics say? ----------------------------------------------------------------------------------------


def metrics(found: Findings) -> Section | None:
    """What do the metrics say, and may they replace people?"""
    report, data = found.metrics, found.data
    if report is None or data is None or found.human is None or not report.metrics:
        return None
    rows = _metric_rows(report, data, found.human)
    tables = [table for table in (rows[:_METRICS], rows[_METRICS:]) if table]
    shown = {
        "tables": [_with_bars(table) for table in tables],
        "notes": report.notes,
        "unit": {"item": "judged items", "judgment": "judgments"}.get(_unit(report), "judgments"),
    }
    says = f"{report.verdict} {found.scope.get('metrics', '')}".strip()
    return Section("metrics", "What do the metrics say, and may they replace people?", says, "metrics.html", shown)


def _with_bars(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """A table of metrics; parts can be negative (variance that helps), which are not drawn."""
    sums = [sum(max(0.0, part) for part in row["parts"]) for row in rows if math.isfinite(row["observed"])]
    worst = max(sums, default=1.0) or 1.0
    bars = [drawings.draw_parts(row["parts"], worst) if math.isfinite(row["observed"]) else "" for row in rows]
    return {"worst": percent(worst), "rows": [row | {"bar": bar} for row, bar in zip(rows, bars, strict=True)]}


def _unit(report: MetricReport) -> str:
    return report.breakeven[0].unit if report.breakeven else "judgment"


def _metric_rows(report: MetricReport, data: EvalSet, human: str) -> list[dict[str, Any]]:
    """One row per metric, the one that is worth most first."""
    parts = {row.metric: row for row in report.decomposition if row.kind == "metric"}
    worth = {row.metric: row for row in report.breakeven}
    value = {row.metric: row for row in report.value}
    described = {score.name: score for score in data.describe(human).scores}
    rows = []
    for name in report.metrics:
        part, break_even, control, score = parts.get(name), worth.get(name), value.get(name), described.get(name)
        judgments = math.nan if break_even is None else break_even.judgments
        rows.append(
            {
                "metric": name,
                "observed": math.nan if part is None else part.observed,
                "parts": () if part is None else (part.noise, part.bias, part.variance),
                "error": "–" if part is None else percent(part.observed),
                "judgments": judgments,
                "worth": _worth(judgments, break_even.limit if break_even else 0),
                "interval": ""
                if break_even is None or math.isnan(break_even.low)
                else f"{_worth(break_even.low, break_even.limit)} to {_worth(break_even.high, break_even.limit)}",
                "efficiency": "–" if control is None else f"{number(control.efficiency)}×",
                "r_outputs": "–" if score is None else fixed(score.item_pearson, 2),
                "r_systems": "–" if score is None else fixed(score.system_pearson, 2),
            }
        )
    return sorted(
        rows,
        key=lambda row: (
            -row["judgments"]
            if math.isfinite(row["judgments"])
            else (-math.inf if row["judgments"] == math.inf else math.inf)
        ),
    )


def _worth(judgments: float, limit: int) -> str:
    return "–" if math.isnan(judgments) else f"> {limit:,}" if math.isinf(judgments) else f"{judgments:,.0f}"
