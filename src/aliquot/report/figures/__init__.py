"""Pictures of results with matplotlib: one style, a file for each kind of result.

Every picture is a function from a result to a figure (`forest_figure`, `heat_figure`, ...); `save_figure` writes it.
"""

from __future__ import annotations

from aliquot.report.figures.annotators import cleaning_figure, figure_of, heat_figure, heatmap, severity_figure
from aliquot.report.figures.choosing import pool_figure, selection_figure
from aliquot.report.figures.curves import (
    break_even_figure,
    curves_figure,
    draw_break_even,
    draw_curves,
    draw_plan,
    make_lines,
    plan_figure,
)
from aliquot.report.figures.metric_bars import correlations_figure, errors_figure
from aliquot.report.figures.style import COLOURS, ENDINGS, require_figures, save_figure, separate_labels
from aliquot.report.figures.systems import forest_figure, pairs_figure, preference_figure

__all__ = [
    "COLOURS",
    "ENDINGS",
    "break_even_figure",
    "cleaning_figure",
    "correlations_figure",
    "curves_figure",
    "draw_break_even",
    "draw_curves",
    "draw_plan",
    "errors_figure",
    "figure_of",
    "forest_figure",
    "heat_figure",
    "heatmap",
    "make_lines",
    "pairs_figure",
    "plan_figure",
    "pool_figure",
    "preference_figure",
    "require_figures",
    "save_figure",
    "selection_figure",
    "separate_labels",
    "severity_figure",
]
