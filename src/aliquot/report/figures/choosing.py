"""Selections: what was chosen on the plane of difficulty and length, with which probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from aliquot.core.evalset import EvalSet
from aliquot.core.selection import Selection
from aliquot.errors import OptionError
from aliquot.estimation.proxies import select_proxies, standardise_metric
from aliquot.io.inputs import DataLike, as_evalset
from aliquot.report.figures.style import COLOURS, GREY, new_figure, wrap_title
from aliquot.sampling.pool import PoolSelection
from aliquot.stats.arrays import FloatArray

_MAX_DOTS = 20_000  # items drawn; of more, evenly spread ones


def selection_figure(selection: Selection, data: DataLike | None = None, title: str | None = None) -> Any:
    """Draw all items faintly and the chosen ones over them; beside it the probabilities, where there are any."""
    if data is None:
        raise OptionError("a selection is drawn among all items: give the data, selection.plot(data=...)", "data")
    data = as_evalset(data)
    is_random = selection.probability is not None
    figure, axes = new_figure(1, 2 if is_random else 1, width=5.2, height=4.2)
    axis, row_of = axes[0, 0], {item: row for row, item in enumerate(data.ids)}
    rows = np.array([row_of[item] for item in selection.ids if item in row_of], dtype=np.int64)
    x, y, words = _measure_lengths(data), *_estimate_difficulty(data)
    spaced = slice(None, None, max(1, -(-len(x) // _MAX_DOTS)))
    axis.plot(x[spaced], y[spaced], "o", color="#bbbbbb", markersize=3, linestyle="none", label=f"all {data.n_items:,}")
    axis.plot(x[rows], y[rows], "D", color=COLOURS[0], markersize=4, linestyle="none", label=f"chosen {len(rows):,}")
    axis.set_xlabel("length of the source (characters)" if "source" in data.items.columns else "item")
    axis.set_ylabel(words)
    if np.nanmax(x, initial=0.0) > 20 * max(1.0, float(np.nanmedian(x))) or np.nanmax(x, initial=0) > 500:
        axis.set_xscale("log")
    axis.legend(frameon=True, edgecolor="none", fontsize=8)
    axis.set_title(
        wrap_title(title or f"{len(selection):,} of {selection.population:,} by {selection.method}", 60),
        fontsize=10,
        loc="left",
    )
    if selection.probability is not None:
        _draw_probabilities(axes[0, 1], selection.probability, len(selection) / max(1, selection.population))
    return figure


def pool_figure(chosen: PoolSelection, title: str | None = None) -> Any:
    """Draw the chosen sources: their lengths, and their probabilities (or utilities) against them."""
    selection, items = chosen.selection, chosen.items
    lengths = np.array(_source_lengths(items) or range(len(selection)), dtype=np.float64)
    figure, axes = new_figure(1, 2, width=5.2, height=4.2)
    axes[0, 0].hist(lengths, bins=30, color=COLOURS[0], edgecolor="white", linewidth=0.5)
    axes[0, 0].set_xlabel("length of the source (characters)" if "source" in items.columns else "item")
    axes[0, 0].set_ylabel("chosen sources")
    head = title or f"{len(chosen):,} of {selection.population:,} sources by {selection.method}"
    axes[0, 0].set_title(wrap_title(head, 60), fontsize=10, loc="left")
    values, words = (selection.probability, "inclusion probability")
    if values is None:
        values, words = selection.utility, "utility"
    if values is None:
        axes[0, 1].set_visible(False)
        return figure
    axes[0, 1].plot(lengths, values, "o", color=COLOURS[0], markersize=3, alpha=0.6, linestyle="none")
    axes[0, 1].set_xlabel(axes[0, 0].get_xlabel())
    axes[0, 1].set_ylabel(words)
    return figure


def _draw_probabilities(axis: Any, probability: FloatArray, mean: float) -> None:
    ordered = np.sort(probability)[::-1]
    axis.plot(np.arange(1, len(ordered) + 1), ordered, color=COLOURS[0], linewidth=1.8, drawstyle="steps-mid")
    axis.axhline(mean, color=GREY, linestyle=":", linewidth=1.0, label="the same for all")
    axis.set_ylim(0, 1.03 * float(ordered.max(initial=mean)))
    axis.set_xlabel("chosen items, most probable first")
    axis.set_ylabel("inclusion probability")
    axis.legend(frameon=False, fontsize=8)


def _source_lengths(items: pl.DataFrame) -> list[int]:
    if "source" not in items.columns:
        return []
    return items["source"].cast(pl.String).fill_null("").str.len_chars().to_list()


def _measure_lengths(data: EvalSet) -> FloatArray:
    return np.maximum(1.0, np.array(_source_lengths(data.items) or range(1, data.n_items + 1), dtype=np.float64))


def _estimate_difficulty(data: EvalSet) -> tuple[FloatArray, str]:
    """Return the difficulty of each item by its mean metric, or else the spread of outputs' lengths, and its label."""
    names = select_proxies(data, None)
    if names:
        return -np.mean([standardise_metric(data, name).mean(axis=1) for name in names], axis=0), "difficulty (metrics)"
    if data.outputs is not None and data.n_systems:
        lengths = np.array([data.outputs[name].fill_null("").str.len_chars().to_numpy() for name in data.systems])
        return lengths.std(axis=0) / np.maximum(1.0, lengths.mean(axis=0)), "spread of the outputs' lengths"
    return np.zeros(data.n_items), "(no metrics)"
