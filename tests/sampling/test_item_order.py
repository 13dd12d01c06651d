"""Every beginning of the order is a sample with the probabilities that are promised."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aliquot.core.evalset import EvalSet, take_rows
from aliquot.errors import AliquotError
from aliquot.sampling.item_order import ItemOrder, draw_item_order, solve_rate, spread_numbers
from aliquot.stats.arrays import FloatArray

ITEMS, DRAWS = 48, 6000


def campaign(*, documents: bool = True, items: int = ITEMS) -> EvalSet:
    """Items whose expected errors differ by a factor of several."""
    rng = np.random.default_rng(1)
    table = {"id": np.arange(items), "source": ["word " * int(n) for n in rng.integers(2, 60, items)]}
    if documents:
        table["document"] = [f"d{at // 6}" for at in range(items)]
    metric = 2.0 * rng.normal(size=(items, 1)) + rng.normal(size=(items, 3))
    return EvalSet(items=pl.DataFrame(table), systems=("A", "B", "C"), scores={"m": metric})


def standard_errors(data: EvalSet, n: int, unit: str = "item") -> FloatArray:
    """Frequencies of items among the first n of 6,000 orders less what is promised, in standard errors."""
    seen = np.zeros(data.n_items)
    for seed in range(DRAWS):
        order = draw_item_order(data, seed=seed, scale="penalties", tau=0.0, unit=unit)
        seen[order.rows[:n]] += 1
    assert order.size.max() > 1.3 * order.size.min()
    promised = order.probability(n)
    assert promised.sum() == pytest.approx(n)
    return (seen / DRAWS - promised) / np.sqrt(promised * (1 - promised) / DRAWS)


@pytest.mark.parametrize("n", [6, 16, 36])
@pytest.mark.parametrize("documents", [True, False])
def test_beginnings_include_items_as_often_as_promised(documents, n):
    assert np.abs(standard_errors(campaign(documents=documents), n)).max() < 4


def test_whole_documents_come_together_with_the_probabilities_of_documents():
    data = campaign(items=60)
    for seed in range(20):
        order = draw_item_order(data, seed=seed, unit="document")
        assert (np.diff(np.asarray(data.documents)[order.rows]) != 0).sum() == 9
    assert np.abs(standard_errors(data, 18, "document")).max() < 4


def test_orders_spread_over_documents():
    """Counts per document vary less than those of items drawn one by one."""
    data = campaign()
    alone = campaign(documents=False)
    documents = np.arange(ITEMS) // 6

    def variance(sample: EvalSet) -> float:
        counts = [
            np.bincount(documents[draw_item_order(sample, seed=s, equal=True).rows[:16]], minlength=8)
            for s in range(300)
        ]
        return float(np.var(counts, axis=0).mean())

    assert variance(data) < 0.5 * variance(alone)


def test_the_order_depends_on_the_ids_and_the_seed_and_not_on_the_lines():
    data = campaign()
    shuffled = take_rows(data, np.random.default_rng(0).permutation(ITEMS))
    first, second = draw_item_order(data, seed=5), draw_item_order(shuffled, seed=5)
    assert [data.ids[row] for row in first.rows] == [shuffled.ids[row] for row in second.rows]
    by_id = [dict(zip(d.ids, o.size.tolist(), strict=True)) for d, o in ((data, first), (shuffled, second))]
    assert by_id[0] == pytest.approx(by_id[1])
    assert draw_item_order(data, seed=6).rows.tolist() != first.rows.tolist()
    assert sorted(first.rows.tolist()) == list(range(ITEMS))


@given(st.lists(st.floats(0.05, 20.0), min_size=2, max_size=40), st.integers(1, 40))
@settings(max_examples=60, deadline=None)
def test_probabilities_sum_to_the_number_and_grow_with_it(sizes, n):
    size = np.array(sizes)
    order, n = ItemOrder(np.arange(len(size)), size), min(n, len(size))
    probability = order.probability(n)
    assert probability.sum() == pytest.approx(n, rel=1e-6)
    assert ((probability > 0) & (probability <= 1)).all()
    assert (order.probability(n - 1) <= probability + 1e-9).all()  # beginnings are nested
    assert (np.diff(probability[np.argsort(size)]) >= -1e-9).all()
    assert order.weight * size == pytest.approx(np.ones(len(size)))


def test_the_rate_of_equal_sizes_is_known():
    assert solve_rate(np.ones(10), 4) == pytest.approx(-np.log(0.6))
    assert solve_rate(np.ones(10), 10) == np.inf
    assert solve_rate(np.ones(10), 0) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("n", [1, 2, 7, 64, 100])
def test_spread_numbers_are_uniform_and_neighbours_lie_far_apart(n):
    rng = np.random.default_rng(n)
    numbers = np.array([spread_numbers(n, rng) for _ in range(400)])
    assert ((numbers >= 0) & (numbers < 1)).all()
    assert np.abs(numbers.mean(axis=0) - 0.5).max() < 4.5 * np.sqrt(1 / 12 / 400)
    if n >= 64:
        assert (np.abs(np.diff(numbers, axis=1)) > 0.15).mean() > 0.9


def test_orders_that_make_no_sense():
    with pytest.raises(AliquotError, match="tau is 2"):
        draw_item_order(campaign(), tau=2.0)
    with pytest.raises(AliquotError, match="no documents"):
        draw_item_order(campaign(documents=False), unit="document")


def test_equal_sizes_on_request_and_without_metrics():
    data = campaign()
    for order in (draw_item_order(data, equal=True), draw_item_order(replace(data, scores={}))):
        assert np.ptp(order.size) == 0
