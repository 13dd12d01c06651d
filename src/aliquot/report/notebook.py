"""Results in notebooks: a compact table under the verdict, with intervals drawn, and the figure behind `.plot()`.

The HTML needs nothing from outside, takes its colours from the notebook (`currentColor`), so that it is readable on
light and dark pages, and holds every name and text escaped. Results are found by the name of their class, as importing
all of them would import all rooms (see core/shown.py).
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import Any

import numpy as np
import polars as pl

from aliquot.core.escape import html as escaped
from aliquot.core.written import number, percent
from aliquot.errors import MissingExtraError, OptionError, unknown_name

ROWS, COLUMNS = 20, 12
"""Rows and columns of a table that are shown; `to_frame()` has all."""
_LETTERS = 80  # of a cell
_LONGEST = 300  # letters of a repr that is shown
_WIDTH, _HEIGHT = 140, 14  # of an interval's drawing, in pixels


@dataclass(frozen=True)
class View:
    """A table to show: its columns, and which of them make an interval that is drawn."""

    frame: pl.DataFrame
    interval: tuple[str, str, str] | None = None  # the columns with low, middle and high
    title: str = ""
    shares: tuple[str, ...] = ()  # columns written as percentages


# -- HTML ------------------------------------------------------------------------------------------------------------


def html(result: Any) -> str:
    """Return a result as HTML for a notebook.

    >>> import aliquot
    >>> page = html(aliquot.estimate(aliquot.synthetic(items=50, systems=2, seed=5).rename({"sys1": "<b>"})))
    >>> "&lt;b&gt;" in page, "<b>" in page, page.count("<svg")
    (True, False, 2)
    """
    verdict = result.verdict
    parts = [_paragraph(verdict if verdict is not None else _headline(result), weight=600)]
    view = view_of(result)
    if view is not None and view.frame.width:
        parts.append(table_html(view))
    notes = [str(note) for note in getattr(result, "notes", ())]
    if notes:
        listed = "".join(f"<li>{escaped(note)}</li>" for note in notes)
        parts.append(
            f"<details><summary>{len(notes)} note{'s'[: len(notes) != 1]}</summary><ul>{listed}</ul></details>"
        )
    signature = getattr(result, "signature", "")
    if signature:
        parts.append(
            f'<div style="opacity:.65;font-size:85%;overflow-wrap:anywhere"><code>{escaped(signature)}</code></div>'
        )
    return f'<div class="aliquot-result" style="max-width:60em;overflow-x:auto;line-height:1.4">{"".join(parts)}</div>'


def _headline(result: Any) -> str:
    """What a result without a verdict is: its repr, unless that is the whole content."""
    text = repr(result)
    return text if len(text) <= _LONGEST else f"{type(result).__name__} {getattr(result, 'name', '')}".strip()


def _paragraph(text: str, weight: int = 400) -> str:
    return f'<p style="font-weight:{weight};margin:.3em 0;overflow-wrap:anywhere">{escaped(text)}</p>'


def table_html(view: View) -> str:
    """A table with at most ROWS rows and COLUMNS columns, numbers to the right, the interval drawn."""
    shown = _columns(view)
    rows = view.frame.head(ROWS)
    ends = _ends(view)
    heads = "".join(_cell("th", escaped(name), right=_is_number(view, name)) for name in shown)
    body = "".join(
        f"<tr>{''.join(_value_cell(view, name, row, ends) for name in shown)}</tr>"
        for row in rows.iter_rows(named=True)
    )
    title = f'<caption style="text-align:left;caption-side:top">{escaped(view.title)}</caption>' if view.title else ""
    left_out = []
    if view.frame.height > ROWS:
        left_out.append(f"{ROWS} of {view.frame.height} rows")
    hidden = view.frame.width - len([name for name in shown if name in view.frame.columns])
    hidden -= 0 if view.interval is None else len({view.interval[0], view.interval[2]})
    if hidden > 0:
        left_out.append(f"{hidden} more columns")
    more = _paragraph(f"{' and '.join(left_out)}: to_frame()") if left_out else ""
    style = "border-collapse:collapse;font-variant-numeric:tabular-nums;margin:.3em 0"
    return f'<table style="{style}">{title}<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>{more}'


def _columns(view: View) -> list[str]:
    """The columns shown, in order: the ends of the interval are drawn, not written, after its middle."""
    frame = view.frame
    kept = [name for name in frame.columns if not frame[name].dtype.is_nested() and not _empty(frame[name])]
    if view.interval is None:
        return kept[:COLUMNS]
    low, middle, high = view.interval
    kept = [name for name in kept if name not in (low, high)][: COLUMNS - 1]
    kept.insert(kept.index(middle) + 1 if middle in kept else 1, "interval")
    return kept


def _empty(column: pl.Series) -> bool:
    return bool(len(column)) and column.null_count() == len(column)


def _is_number(view: View, name: str) -> bool:
    return name in view.frame.columns and view.frame[name].dtype.is_numeric()


def _ends(view: View) -> tuple[float, float]:
    if view.interval is None:
        return 0.0, 1.0
    values = [value for name in view.interval for value in view.frame[name].to_list()]
    known = [value for value in values if value is not None and math.isfinite(value)]
    return (min(known), max(known)) if known else (0.0, 1.0)


def _value_cell(view: View, name: str, row: Mapping[str, Any], ends: tuple[float, float]) -> str:
    if name == "interval" and view.interval is not None and name not in row:
        low, middle, high = (math.nan if row[key] is None else float(row[key]) for key in view.interval)
        return _cell("td", interval_svg(low, middle, high, ends))
    value = row[name]
    if name in view.shares and value is not None and not math.isnan(value):
        return _cell("td", escaped(percent(value)), right=True)
    if value is None or isinstance(value, float):
        return _cell("td", number(value), right=True)
    text = str(value)
    short = text if len(text) <= _LETTERS else f"{text[:_LETTERS]}…"
    return _cell("td", escaped(short), right=isinstance(value, int) and not isinstance(value, bool))


def _cell(tag: str, inner: str, *, right: bool = False) -> str:
    side = "right" if right else "left"
    return f'<{tag} style="text-align:{side};padding:.15em .7em .15em 0;vertical-align:top">{inner}</{tag}>'


def interval_svg(low: float, middle: float, high: float, ends: tuple[float, float]) -> str:
    """Draw an interval with a dot at the estimate; nothing where it is undefined.

    >>> interval_svg(0.0, 0.5, 1.0, (0.0, 1.0)).count("<line")
    1
    >>> interval_svg(float("nan"), 0.5, 1.0, (0.0, 1.0))
    ''
    """
    if not all(math.isfinite(value) for value in (low, middle, high)):
        return ""
    span = (ends[1] - ends[0]) or 1.0

    def place(value: float) -> float:
        return 4 + (_WIDTH - 8) * min(1.0, max(0.0, (value - ends[0]) / span))

    y, zero = _HEIGHT / 2, ""
    if ends[0] < 0 < ends[1]:
        at = f"{place(0.0):.1f}"
        zero = (
            f'<line x1="{at}" x2="{at}" y1="0" y2="{_HEIGHT}" stroke="currentColor" stroke-dasharray="2" opacity=".4"/>'
        )
    label = f"{number(low)} to {number(high)}"
    return (
        f'<svg role="img" aria-label="{label}" width="{_WIDTH}" height="{_HEIGHT}" style="vertical-align:middle">'
        f"<title>{label}</title>{zero}"
        f'<line x1="{place(low):.1f}" x2="{place(high):.1f}" y1="{y}" y2="{y}" stroke="currentColor"/>'
        f'<circle cx="{place(middle):.1f}" cy="{y}" r="3.5" fill="currentColor"/></svg>'
    )


# -- What is shown of each kind of result ----------------------------------------------------------------------------


def view_of(result: Any) -> View | None:
    """The table that a notebook shows of a result; None where it has none."""
    maker = _VIEWS.get(_name_of(result, _VIEWS) or "")
    if maker is not None:
        return maker(result)
    if not hasattr(result, "to_frame"):
        return None
    frame = result.to_frame()
    return View(frame, _interval_of(frame))


def _name_of(result: Any, known: Mapping[str, Any]) -> str | None:
    """The name of the result's class, or of the one it is derived from, that is among those known."""
    return next((kind.__name__ for kind in type(result).__mro__ if kind.__name__ in known), None)


_MIDDLES = ("estimate", "value", "difference", "correlation", "win_rate", "standardised", "mean")


def _interval_of(frame: pl.DataFrame) -> tuple[str, str, str] | None:
    middle = next((name for name in _MIDDLES if name in frame.columns), None)
    return ("low", middle, "high") if middle and {"low", "high"} <= set(frame.columns) else None


def _estimates(result: Any) -> View:
    ranks = [None if r.rank_low is None else _range(r.rank_low, r.rank_high) for r in result.systems]
    frame = result.to_frame().select("system", "estimate", "se", "low", "high", "n", "p_best", "cluster")
    frame = frame.insert_column(6, pl.Series("rank", ranks, dtype=pl.String)).rename({"p_best": "P(best)"})
    title = f"{result.judged} of {result.population} items judged; {result.method}; {result.level:.0%} intervals"
    return View(frame, ("low", "estimate", "high"), title)


def _range(low: int, high: int) -> str:
    return str(low) if low == high else f"{low}-{high}"


def _agreement(result: Any) -> View:
    frame = result.coefficients.filter(pl.col("kind") == "all").select("measure", "value", "low", "high")
    title = f"{result.annotators.height} annotators; {result.level}; {result.confidence:.0%} intervals"
    return View(frame, ("low", "value", "high"), title)


def _metrics(result: Any) -> View | None:
    for name in ("breakeven", "value", "correlations", "decomposition", *_tables_of_metrics()):
        if result.rows(name):
            return View(result.to_frame(name), title=f"{name}; other tables: to_frame(NAME)")
    return None


def _tables_of_metrics() -> Sequence[str]:
    names: Sequence[str] = list(import_module("aliquot.metric_eval.metrics").TABLES)
    return names


def _simulation(result: Any) -> View:
    usual = ("spa_full", "mae", "accuracy", "coverage")
    rows = result.summary_frame()
    wanted = rows.filter(pl.col("measure").is_in(usual))
    frame = (wanted if wanted.height else rows).select("data", "method", "measure", "value", "parity", "gain")
    return View(
        frame.with_columns(pl.col("parity").replace(math.inf, None)), title="parity: share of a random sample's budget"
    )


def _comparison(result: Any) -> View:
    frame = result.to_frame().select(
        "system",
        "wins",
        "ties",
        "losses",
        "win_rate",
        "low",
        "high",
        "score",
        "cluster",
        pl.format("{}-{}", "rank_low", "rank_high").alias("rank"),
    )
    return View(frame, ("low", "win_rate", "high"), f"{result.choices} choices on {result.items} items", ("win_rate",))


def _plan(result: Any) -> View:
    names = ["method", "items", "share", "judgments", "hours", "money", "width", "detects", "accuracy", "best", "apart"]
    frame = result.to_frame().select(names)
    unknown = [name for name in ("hours", "money") if frame[name].is_nan().all()]
    return View(frame.drop(unknown), shares=("share", "accuracy", "best"))


def _cleaned(result: Any) -> View:
    return View(
        result.to_frame().select("step", "marked", "share", "annotators", "change", "system", "swaps"),
        shares=("share",),
    )


def _evalset(result: Any) -> View:
    heads = [name for name in ("id", "source", "document", "domain") if name in result.items.columns]
    scores = [
        {
            "score": name,
            "kind": "human" if name == result.human else "score",
            "mean": _mean(values),
            "coverage": float(np.isfinite(values).mean()),
        }
        for name, values in result.scores.items()
    ]
    if scores:
        return View(pl.DataFrame(scores), shares=("coverage",))
    return View(result.items.select(heads))


def _mean(values: Any) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else math.nan


def _description(result: Any) -> View:
    frame = pl.DataFrame([vars(row) for row in result.scores]) if result.scores else pl.DataFrame()
    return View(frame, shares=("coverage",))


_VIEWS: Mapping[str, Callable[[Any], View | None]] = MappingProxyType(
    {
        "Estimates": _estimates,
        "Agreement": _agreement,
        "MetricReport": _metrics,
        "Simulation": _simulation,
        "Comparison": _comparison,
        "CampaignPlan": _plan,
        "Cleaned": _cleaned,
        "EvalSet": _evalset,
        "Description": _description,
    }
)


# -- Figures ---------------------------------------------------------------------------------------------------------

Drawing = Callable[..., Any]


def _drawn_by(module: str, function: str) -> Drawing:
    """A function of `report.figures`, which is imported when it draws."""

    def draw(*results: Any, **options: Any) -> Any:
        return getattr(import_module(f"aliquot.report.figures.{module}"), function)(*results, **options)

    return draw


def _curves(result: Any, measure: str | None = None) -> Any:
    measured = list(dict.fromkeys(cell.measure for cell in result.cells))
    measure = measure or ("spa_full" if "spa_full" in measured else measured[0])
    return _drawn_by("curves", "curves_figure")(result, measure=measure)


def _selection(result: Any, data: Any = None, **options: Any) -> Any:
    if data is None:
        raise OptionError("a selection is drawn among all items: give the data, selection.plot(data=...)")
    from aliquot.io.inputs import as_evalset  # noqa: PLC0415

    return _drawn_by("choosing", "selection_figure")(result, as_evalset(data), **options)


FIGURES: Mapping[str, Mapping[str, Drawing]] = MappingProxyType(
    {
        "Estimates": {"systems": _drawn_by("systems", "forest_figure"), "pairs": _drawn_by("systems", "pairs_figure")},
        "Comparison": {"systems": _drawn_by("systems", "preference_figure")},
        "Selection": {"items": _selection},
        "PoolSelection": {"items": _drawn_by("choosing", "pool_figure")},
        "Simulation": {"curves": _curves},
        "CampaignPlan": {"curves": _drawn_by("curves", "plan_figure")},
        "Agreement": {
            "pairs": _drawn_by("annotators", "heat_figure"),
            "annotators": _drawn_by("annotators", "severity_figure"),
        },
        "Cleaned": {"steps": _drawn_by("annotators", "cleaning_figure")},
        "MetricReport": {
            "breakeven": _drawn_by("curves", "break_even_figure"),
            "decomposition": _drawn_by("metric_bars", "errors_figure"),
            "correlations": _drawn_by("metric_bars", "correlations_figure"),
        },
    }
)
"""The pictures of each kind of result, the default one first."""


def plot(result: Any, kind: str | None = None, **options: Any) -> Any:
    """Draw a result and return the figure, which notebooks show; `kind` is one of its pictures.

    >>> import aliquot
    >>> plot(aliquot.synthetic(items=5, systems=2))
    Traceback (most recent call last):
    aliquot.errors.OptionError: there is no picture of an EvalSet
    """
    name = _name_of(result, FIGURES)
    if name is None:
        raise OptionError(f"there is no picture of {_with_article(type(result).__name__)}")
    kinds = FIGURES[name]
    if kind is not None and kind not in kinds:
        raise unknown_name("picture", kind, kinds)
    try:
        import matplotlib as mpl  # noqa: F401, PLC0415
    except ImportError:
        raise MissingExtraError("pictures need matplotlib; install it with: pip install 'aliquot[report]'") from None
    figure = kinds[kind or next(iter(kinds))](result, **options)
    # IPython shows a Figure only after pyplot is imported, which aliquot never does: it would open windows.
    figure._repr_svg_ = lambda: _svg(figure)
    return figure


def _svg(figure: Any) -> str:
    import matplotlib as mpl  # noqa: PLC0415

    buffer = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "aliquot", "svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def _with_article(name: str) -> str:
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"
