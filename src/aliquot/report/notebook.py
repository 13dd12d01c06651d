"""Results in notebooks: the verdict, a table with intervals drawn, notes, signature; and the figure behind `.plot()`.

The HTML needs nothing from outside, takes its colours from the notebook (`currentColor`), so that it is readable on
light and dark pages, and holds every name and text escaped.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

from aliquot.core.escape import html as escape_html
from aliquot.core.shown import Shown
from aliquot.errors import OptionError, unknown_name
from aliquot.report.html_tables import TableStyle, render_notes, render_view

MAX_ROWS, MAX_COLUMNS = 20, 12
"""Rows and columns of a table that are shown; `to_frame()` has all."""
_MAX_REPR = 300  # letters of a repr that is shown

_STYLE = """
.aliquot-result { max-width: 66em; line-height: 1.4; }
.aliquot-result p { margin: .3em 0; overflow-wrap: anywhere; } .aliquot-result .verdict { font-weight: 600; }
.aliquot-result .intro, .aliquot-result .caption, .aliquot-result .signature { opacity: .7; font-size: 90%; }
.aliquot-result .scroll { overflow-x: auto; }
.aliquot-result table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: .3em 0; }
.aliquot-result caption { text-align: left; caption-side: top; padding: 0 0 .3em; }
.aliquot-result :is(th, td) { text-align: left; padding: .15em .7em .15em 0; vertical-align: middle;
  max-width: 24em; background: none; border: 0; }
.aliquot-result thead th { font-weight: 400; opacity: .7; border-bottom: 1px solid; vertical-align: bottom; }
.aliquot-result tbody th { font-weight: 500; min-width: 6em; overflow-wrap: anywhere; }
.aliquot-result .long { min-width: 16em; }
.aliquot-result .strong { font-weight: 600; } .aliquot-result .num { text-align: right; white-space: nowrap; }
.aliquot-result .draw { min-width: 11em; } .aliquot-result tr.first > * { border-top: 1px solid; }
.aliquot-result svg { display: block; overflow: visible; }
.aliquot-result svg text { fill: currentColor; font-size: 11px; }
.aliquot-result svg text:not(:first-child):not(:last-child) { display: none; }
.aliquot-result svg line { stroke: currentColor; } .aliquot-result svg .whisker { stroke-width: 1.5; }
.aliquot-result svg .grid { opacity: .15; } .aliquot-result svg .zero { opacity: .5; stroke-dasharray: 2; }
.aliquot-result svg circle { fill: currentColor; } .aliquot-result svg.even circle { fill-opacity: .45; }
.aliquot-result .hidden { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
"""


def render_html(result: Shown) -> str:
    """Return a result as HTML for a notebook: its verdict, its views but details, notes, signature.

    >>> import aliquot
    >>> page = render_html(aliquot.estimate(aliquot.synthetic(items=50, systems=2, seed=5).rename({"sys1": "<b>"})))
    >>> "&lt;b&gt;" in page, "<b>" in page, page.count("<circle")
    (True, False, 2)
    """
    style = TableStyle(max_rows=MAX_ROWS, max_columns=MAX_COLUMNS)
    verdict = result.verdict
    parts = [f'<p class="verdict">{escape_html(_write_headline(result) if verdict is None else verdict)}</p>']
    parts += [render_view(view, style) for view in result.views() if not view.detail]
    parts.append(render_notes(getattr(result, "notes", ()), style))
    signature = getattr(result, "signature", "")
    if signature:
        parts.append(f'<p class="signature"><code>{escape_html(signature)}</code></p>')
    return f'<div class="aliquot-result"><style>{_STYLE}</style>{"".join(parts)}</div>'


def _write_headline(result: Shown) -> str:
    """Return what a result without a verdict is: its repr, unless that is the whole content."""
    text = repr(result)
    return text if len(text) <= _MAX_REPR else f"{type(result).__name__} {getattr(result, 'name', '')}".strip()


# -- Figures ---------------------------------------------------------------------------------------------------------

FIGURES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "Estimates": {"systems": "systems.forest_figure", "pairs": "systems.pairs_figure"},
        "Comparison": {"systems": "systems.preference_figure"},
        "Selection": {"items": "choosing.selection_figure"},
        "PoolSelection": {"items": "choosing.pool_figure"},
        "Simulation": {"curves": "curves.curves_figure"},
        "CampaignPlan": {"curves": "curves.plan_figure"},
        "Agreement": {"pairs": "annotators.heat_figure", "annotators": "annotators.severity_figure"},
        "Cleaned": {"steps": "annotators.cleaning_figure"},
        "MetricReport": {
            "breakeven": "curves.break_even_figure",
            "decomposition": "metric_bars.errors_figure",
            "correlations": "metric_bars.correlations_figure",
        },
    }
)
"""The pictures of each kind of result, the default one first: functions of `report.figures`, imported on first use."""


def draw_result(result: Any, kind: str | None = None, **options: Any) -> Any:
    """Draw a result and return the figure, which notebooks show; `kind` is one of its pictures.

    >>> import aliquot
    >>> draw_result(aliquot.synthetic(items=5, systems=2))
    Traceback (most recent call last):
    aliquot.errors.OptionError: there is no picture of an EvalSet
    """
    name = next((kind.__name__ for kind in type(result).__mro__ if kind.__name__ in FIGURES), None)
    if name is None:
        raise OptionError(f"there is no picture of {_with_article(type(result).__name__)}")
    kinds = FIGURES[name]
    if kind is not None and kind not in kinds:
        raise unknown_name("picture", kind, kinds)
    from aliquot.report.figures import style  # noqa: PLC0415  (slow to import)

    style.require_matplotlib()
    module, _, function = kinds[kind or next(iter(kinds))].partition(".")
    figure = getattr(import_module(f"aliquot.report.figures.{module}"), function)(result, **options)
    # IPython shows a Figure only after pyplot is imported, which aliquot never does: it would open windows.
    figure._repr_svg_ = lambda: style.encode_figure(figure).decode()
    return figure


def _with_article(name: str) -> str:
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"
