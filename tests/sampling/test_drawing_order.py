"""Seeded choices depend on the items' ids, not on the order of the lines."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aliquot
from aliquot.core.evalset import EvalSet, take_rows
from aliquot.core.selection import Selection
from aliquot.sampling.drawing_order import drawing_order, natural_order, reading_order, sort_for_drawing
from aliquot.sampling.methods import all_methods
from aliquot.simulation.replay import ReplaySet, draw_items
from aliquot.simulation.setup import BudgetPoint, resolve_method

DATA = aliquot.synthetic(items=60, systems=4, seed=3)
NAMED = EvalSet(
    DATA.items.with_columns(("seg" + pl.col("id").cast(pl.String)).alias("id")),
    DATA.systems,
    DATA.scores,
    DATA.outputs,
    human=DATA.human,
    name="named",
)
POSITIONED = EvalSet(
    NAMED.items.with_columns(pl.int_range(pl.len()).over("document").alias("position")),
    DATA.systems,
    DATA.scores,
    human=DATA.human,
    name="positioned",
)
RUNS = ("documents", "snippets_fixed", "snippets_budgeted")
DESIGNS = [name for name, method in all_methods().items() if method.kind == "design" and name not in RUNS]
SPECS = [
    *(name for name in DESIGNS if name != "guided"),
    "guided:metric=metricA",
    "stratified:bins=metric,bin_size=10",
    "pps:spread=none",
    "balanced:by=cube",
    "random",
    "metric_var:metric=metricA",
]


def shuffled(data: EvalSet, seed: int) -> EvalSet:
    return take_rows(data, np.random.default_rng(seed).permutation(data.n_items))


def as_chosen(selection: Selection) -> tuple[Any, Any]:
    return selection.ids, None if selection.probability is None else selection.probability.round(12).tolist()


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("data", [DATA, NAMED], ids=["numbers", "names"])
def test_shuffled_lines_give_the_same_items_and_probabilities(data, spec):
    before = aliquot.select(data, spec, 15, seed=5)
    for seed in (1, 2):
        assert as_chosen(aliquot.select(shuffled(data, seed), spec, 15, seed=5)) == as_chosen(before)


@pytest.mark.parametrize(
    "options",
    [
        {"balance": "domain"},
        {"cost": "esa_time", "budget": "500cost"},
        {"matching": False},
        {"include": ["seg3"]},
        {"exclude_items": ["seg7", "seg9"]},
        {"crowd": ["sys1", "sys2"]},
    ],
)
def test_shuffled_lines_change_nothing_under_constraints(options):
    options = {"budget": 15} | options
    before = aliquot.select(NAMED, "pps", seed=5, **options)
    assert as_chosen(aliquot.select(shuffled(NAMED, 1), "pps", seed=5, **options)) == as_chosen(before)


@pytest.mark.parametrize("design", RUNS)
def test_runs_follow_positions_where_they_are_known(design):
    before = aliquot.select(POSITIONED, design, 15, seed=5)
    assert as_chosen(aliquot.select(shuffled(POSITIONED, 1), design, 15, seed=5)) == as_chosen(before)


@pytest.mark.parametrize("spec", [*RUNS, "guided:by=documents,metric=metricA"])
def test_runs_follow_the_lines_of_a_document_and_documents_may_stand_in_any_order(spec):
    codes = NAMED.documents
    assert codes is not None
    blocks = take_rows(NAMED, np.concatenate([np.flatnonzero(codes == code) for code in np.unique(codes)[::-1]]))
    assert as_chosen(aliquot.select(blocks, spec, 15, seed=5)) == as_chosen(aliquot.select(NAMED, spec, 15, seed=5))
    backwards = take_rows(NAMED, np.arange(NAMED.n_items)[::-1])
    rows = [NAMED.ids.index(item) for item in aliquot.select(backwards, design_of(spec), 15, seed=5).ids]
    of = codes[rows]
    assert all(a > b for a, b, same in zip(rows, rows[1:], of[:-1] == of[1:], strict=False) if same)


def design_of(spec: str) -> str:
    return "documents" if spec.startswith("guided") else spec


def test_whole_documents_as_units_do_not_depend_on_the_lines():
    before = aliquot.select(NAMED, "pps", 20, unit="document", seed=2)
    again = aliquot.select(shuffled(NAMED, 4), "pps", 20, unit="document", seed=2)
    assert dict(zip(*as_chosen(again), strict=True)) == dict(zip(*as_chosen(before), strict=True))


@pytest.mark.parametrize("spec", ["segments", "pps", "stratified", "balanced"])
def test_a_wave_does_not_depend_on_the_lines(spec):
    first = aliquot.select(NAMED, spec, 10, seed=5)
    before = aliquot.select(NAMED, add_to=first, budget=20, seed=6)
    assert as_chosen(aliquot.select(shuffled(NAMED, 1), add_to=first, budget=20, seed=6)) == as_chosen(before)


def test_a_replay_does_not_depend_on_the_lines():
    other = shuffled(NAMED, 3)
    for spec in ("segments", "pps", "incremental"):
        drawn = [
            [
                data.ids[row]
                for row in draw_items(
                    ReplaySet(data), resolve_method(spec, data), BudgetPoint(0.3, 0.3), np.random.default_rng(1)
                ).rows
            ]
            for data in (NAMED, other)
        ]
        assert drawn[0] == drawn[1]


def test_data_in_the_order_of_their_ids_are_seen_as_they_are():
    assert drawing_order(NAMED) is None
    assert sort_for_drawing(NAMED) is NAMED
    assert sort_for_drawing(NAMED, reading=True) is NAMED


@given(st.lists(st.integers(0, 500), unique=True, min_size=1), st.integers(0, 1000))
@settings(max_examples=50, deadline=None)
def test_natural_order_of_names_is_the_order_of_their_numbers(numbers, seed):
    names = [f"doc-{number}.txt" for number in numbers]
    order = natural_order(pl.Series(names))
    assert [numbers[at] for at in order] == sorted(numbers)
    permuted = np.random.default_rng(seed).permutation(len(names))
    again = natural_order(pl.Series([names[at] for at in permuted]))
    assert [names[permuted[at]] for at in again] == [names[at] for at in order]


def test_reading_order_puts_documents_by_their_first_id():
    items = pl.DataFrame({"id": ["b2", "a9", "b1", "a10"], "document": ["y", "x", "y", "x"]})
    data = EvalSet(items, ("s",), {"m": np.arange(4.0)[:, None]})
    assert [data.ids[row] for row in reading_order(data)] == ["a9", "a10", "b2", "b1"]
