"""A plan as a picture: what every budget promises, for a random sample and for the recommended method."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from aliquot.plan.outlook import Point
from aliquot.plan.result import CampaignPlan
from aliquot.report.figures import COLOURS, new_figure, require_figures, save_figure

_RANDOM = "#555555"
_PANELS = (
    ("width_difference", "width of the interval of a difference"),
    ("accuracy", "pairs of systems in the right order"),
    ("best", "chance that the best system comes first"),
    ("apart", "pairs told apart (expected)"),
)


def draw_plan(result: CampaignPlan, path: str | Path) -> None:
    """Draw four panels against the number of items, hours above where they are known; the recommendation is marked.

    Args:
        result: what `plan` gave from data.
        path: where to write, as .svg, .png or .pdf.
    """
    path = Path(path)
    require_figures(path)
    figure, axes = new_figure(2, 2, width=5.2, height=3.6)
    for axis, (name, words) in zip(axes.ravel(), _PANELS, strict=True):
        _panel(axis, result, name)
        axis.set_title(words, fontsize=10, loc="left")
        axis.set_xlabel("items judged")
    axes[0, 0].legend(frameon=False, fontsize=9)
    _above(axes[0, 0], result)
    _above(axes[0, 1], result)
    save_figure(figure, path)


def _panel(axis: Any, result: CampaignPlan, name: str) -> None:
    for place, method in enumerate(result.methods):
        points = result.curve(method)
        x, y = np.array([p.items for p in points]), np.array([getattr(p, name) for p in points])
        colour, dash = (_RANDOM, "--") if place == 0 else (COLOURS[0], "-")
        axis.plot(x, y, color=colour, linestyle=dash, linewidth=1.8, marker="o", markersize=3, label=method)
        if name == "accuracy":
            half = 1.96 * np.array([p.accuracy_error for p in points])
            axis.fill_between(x, y - half, y + half, color=colour, alpha=0.2, linewidth=0)
    advised = result.recommendation.point
    value = getattr(advised, name)
    axis.axvline(advised.items, color=COLOURS[1], linewidth=0.9, linestyle=":")
    axis.plot([advised.items], [value], marker="D", markersize=6, color=COLOURS[1], linestyle="none",
              clip_on=False,  # a chance of 100% lies on the edge
              label=f"recommended: {advised.items} items")  # fmt: skip
    _limits(axis, result, name)


def _limits(axis: Any, result: CampaignPlan, name: str) -> None:
    """Chances and shares may not pass 1, counts not the number of pairs; widths start at 0."""
    if name == "width_difference":
        axis.set_ylim(bottom=0)
    elif name == "apart":
        axis.set_ylim(0, len(result.pairs) * 1.03)
        axis.axhline(len(result.pairs), color="#aaaaaa", linewidth=0.8)
        axis.text(axis.get_xlim()[0], 0.99 * len(result.pairs), f" all {len(result.pairs)} pairs", fontsize=8,
                  color="#777777", ha="left", va="top")  # fmt: skip
    else:
        low = min(axis.get_ylim()[0], 0.98)
        axis.set_ylim(max(0.0, low), 1.005)
        axis.yaxis.set_major_formatter(_percent)


def _percent(value: float, _: int) -> str:
    return f"{100 * value:.0f}%"


def _above(axis: Any, result: CampaignPlan) -> None:
    """A second axis of hours and money, where they are known; by the recommended method's expected times."""
    points: list[Point] = result.curve(result.methods[-1])
    items, hours = np.array([p.items for p in points], dtype=float), np.array([p.hours for p in points])
    if not np.isfinite(hours).all() or len(points) < 2:
        return
    rate = float((hours / items).mean())
    top = axis.secondary_xaxis("top", functions=(lambda x: x * rate, lambda h: h / rate))
    top.spines["top"].set_visible(False)
    top.tick_params(labelsize=8)
    paid = points[-1].money / points[-1].hours if np.isfinite(points[-1].money) else None
    label = "hours" if paid is None else f"hours (at {paid:g} {result.currency} each)"
    top.set_xlabel(label, fontsize=8)
