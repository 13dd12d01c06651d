"""Times, prices and amounts: as typed, from columns, by ESA's model, from recorded times."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from tests.planning.conftest import judged_only

from aliquot import EvalSet, synthetic
from aliquot.core.judgments import Judgments
from aliquot.errors import NameUnknownError, OptionError
from aliquot.sampling.budgets import Prices, Times, data_prices, mean_judgment_seconds, parse_amount, plain_prices


@pytest.fixture(scope="module")
def campaign() -> EvalSet:
    """240 items in documents, 6 systems, two judgments of every output."""
    return synthetic(items=240, systems=6, annotators=5, judgments_per_output=2, seed=21)


def test_seconds_of_an_item_and_of_a_judgment(campaign):
    item = data_prices(Times(seconds_per_item=60, hourly=20), campaign)
    judgment = data_prices(Times(seconds_per_judgment=10, hourly=20), campaign)
    everything = np.ones(campaign.n_items)
    assert item.hours(everything) == pytest.approx(240 * 60 / 3600)
    assert judgment.hours(everything) == pytest.approx(item.hours(everything))
    assert item.hours(everything, judgments=3) == pytest.approx(12.0)
    assert item.money(item.hours(everything)) == pytest.approx(80.0)


def test_esa_counts_every_output(campaign):
    prices = data_prices(Times(cost="esa_time"), campaign)
    words = campaign.items["source"].str.split(" ").list.len().to_numpy()
    assert prices.seconds == pytest.approx(6 * (0.15 * words + 33.7), rel=0.02)


def test_a_column_holds_the_seconds_of_an_item(campaign):
    import dataclasses

    column = pl.Series("minutes", np.arange(1.0, 241.0))
    data = dataclasses.replace(campaign, items=campaign.items.with_columns(column))
    assert data_prices(Times(cost="minutes"), data).hours(np.ones(240)) == pytest.approx(240 * 241 / 2 / 3600)
    with pytest.raises(NameUnknownError, match="minutes"):
        data_prices(Times(cost="minuts"), data)


def test_new_items_cost_once():
    prices = Prices(np.array([100.0]), new_item=50.0)
    assert prices.hours(np.array([36.0]), judgments=2) == pytest.approx(36 * 250 / 3600)


def test_recorded_times_are_used_and_breaks_are_not(campaign):
    prices = data_prices(Times(hourly=20), campaign)
    assert "recorded" in prices.about
    assert campaign.judgments is not None
    seconds = campaign.judgments.table["seconds"].to_numpy()
    cut = np.minimum(seconds, 5 * np.median(seconds)).mean()
    assert prices.seconds == pytest.approx(6 * cut)
    assert mean_judgment_seconds(None) is None
    nameless = pl.DataFrame({"item": [1], "system": ["a"], "value": [1.0]})
    assert mean_judgment_seconds(Judgments(nameless)) is None


def test_unknown_times_are_unknown_not_nothing(campaign):
    pilot = judged_only(campaign, np.arange(30))
    prices = data_prices(Times(), pilot)
    assert np.isnan(prices.hours(np.ones(240)))
    assert np.isnan(prices.money(3.0))
    with pytest.raises(OptionError, match="how long judging takes"):
        data_prices(Times(hourly=20), pilot)
    with pytest.raises(OptionError, match="seconds_per_new_item"):
        data_prices(Times(seconds_per_new_item=5), pilot)
    assert plain_prices(Times(), 2).seconds is None


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("2000", "items", 2000),
        (2000, "items", 2000),
        ("1e3", "items", 1000),
        ("7cost", "cost", 7),
        ("300items", "items", 300),
        ("300 items", "items", 300),
        ("12.5%", "share", 0.125),
        ("20h", "hours", 20),
        ("1 hour", "hours", 1),
        ("500USD", "money", 500),
        ("usd 500", "money", 500),
        ("5 judgments", "judgments", 5),
    ],
)
def test_amounts(text, unit, value):
    amount = parse_amount(text, "USD")
    assert (amount.unit, amount.value) == (unit, value)


@pytest.mark.parametrize("text", ["", "x", "500 yen", "EUR 5 EUR", "5 5", "1.2.3", "-5", "0", "inf", "nan", "5kg"])
def test_bad_amounts(text):
    with pytest.raises(OptionError, match="`budget`"):
        parse_amount(text)


@pytest.mark.parametrize(
    "given",
    [
        {"seconds_per_item": 0},
        {"seconds_per_judgment": -1},
        {"hourly": 0},
        {"seconds_per_new_item": -1},
        {"currency": " "},
        {"currency": "h"},
        {"seconds_per_item": np.nan},
        {"cost": "x", "seconds_per_item": 1},
    ],
)
def test_bad_times(given):
    with pytest.raises(OptionError):
        Times(**given)
