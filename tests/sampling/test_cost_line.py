"""Costs fitted to recorded times: the line is found again, breaks do not bend it, and every verb uses it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import aliquot
from aliquot import AliquotWarning, Judgments
from aliquot.core.conventions import source_lengths
from aliquot.errors import DataError
from aliquot.sampling.budgets import Times, data_prices, item_costs
from aliquot.sampling.cost_line import fit_cost_line

DATA = aliquot.synthetic(items=80, systems=3, seed=6)


def timed(slope: float, intercept: float, noise: float = 0.0, breaks: int = 0) -> aliquot.EvalSet:
    assert DATA.judgments is not None
    table = DATA.judgments.table
    lengths = dict(zip(DATA.ids, source_lengths(DATA), strict=True))
    rng = np.random.default_rng(2)
    seconds = np.array([intercept + slope * lengths[item] for item in table["item"].to_list()])
    seconds = seconds + noise * rng.normal(size=len(seconds))
    seconds[rng.choice(len(seconds), breaks, replace=False)] = 50_000.0
    return replace(DATA, judgments=Judgments(table.with_columns(pl.Series("seconds", seconds))))


def test_a_line_is_found_again():
    data = timed(0.4, 20.0)
    line = fit_cost_line(data)
    assert (line.slope, line.intercept, line.judgments) == pytest.approx((0.4, 20.0, 240))
    assert item_costs(data, "fitted") == pytest.approx(20.0 + 0.4 * source_lengths(data))
    assert "0.4 s a source word + 20 s, fitted to 240 recorded times" in str(line)


def test_noise_is_averaged_and_breaks_are_cut():
    """numpy's least squares on the times cut at five medians; uncut, three breaks would cost ten minutes an item."""
    data = timed(0.4, 20.0, noise=3.0, breaks=3)
    assert data.judgments is not None
    table = data.judgments.answers()
    lengths = dict(zip(data.ids, source_lengths(data), strict=True))
    x = np.array([lengths[item] for item in table["item"].to_list()])
    y = np.minimum(table["seconds"].to_numpy(), 5 * np.median(table["seconds"].to_numpy()))
    (intercept, slope), *_ = np.linalg.lstsq(np.column_stack([np.ones(len(x)), x]), y, rcond=None)
    line = fit_cost_line(data)
    assert (line.slope, line.intercept) == pytest.approx((slope, intercept))
    assert line.intercept + line.slope * x.mean() < 60


def test_times_that_fall_with_length_are_no_costs():
    with pytest.warns(AliquotWarning, match="do not grow with the length"):
        line = fit_cost_line(timed(-0.1, 60.0))
    assert line.slope == 0
    assert line.intercept > 0


def test_without_times_there_is_no_line():
    with pytest.raises(DataError, match=r"0 judgments have a time and a source.*use esa_time"):
        item_costs(replace(DATA, judgments=None), "fitted")


def test_every_verb_takes_it():
    data = timed(0.4, 20.0)
    whole = (20.0 + 0.4 * source_lengths(data)).sum()
    chosen = aliquot.select(data, "metric_var", "30%", metric="metricA", cost="fitted")
    assert chosen.cost is not None
    assert 0.25 * whole < chosen.cost.sum() <= 0.3 * whole + 1e-6
    prices = data_prices(Times(cost="fitted"), data)
    assert prices.seconds == pytest.approx(3 * (20.0 + 0.4 * source_lengths(data)))
    assert "fitted to 240 recorded times" in prices.about
    result = aliquot.simulate(data, "random", "30%", repeats=3, measures="cost", cost="fitted", parity=False)
    assert result.row("random", "cost").value == pytest.approx(0.3, abs=0.1)
