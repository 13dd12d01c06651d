"""Waves: earlier items stay, final probabilities are exact, and intervals keep their coverage."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import aliquot
from aliquot.core.selection import Selection
from aliquot.errors import AliquotWarning, DataError, OptionError
from aliquot.sampling.methods import all_methods
from aliquot.sampling.select import select
from aliquot.sampling.summary import summarise_selection
from aliquot.sampling.waves import DESIGNS, conditional_probability, remaining_group_variance
from aliquot.stats.arrays import FloatArray

POOL = aliquot.synthetic(items=30, systems=3, seed=4)
UNEQUAL = "pps:size=difficulty,tau=0.1"
"""Probabilities that differ tenfold."""


def known(selection: Selection) -> FloatArray:
    assert selection.probability is not None
    return selection.probability


def in_waves(data: aliquot.EvalSet, method: str, sizes: list[int], seed: int, **options: Any) -> Selection:
    chosen = select(data, method, sizes[0], seed=seed, **options)
    for size in sizes[1:]:
        chosen = select(data, add_to=chosen, budget=size, seed=seed, **options)
    return chosen


@pytest.mark.parametrize(
    ("method", "sizes", "options"),
    [
        ("segments", [6, 10], {}),
        (UNEQUAL, [6, 12], {}),
        (UNEQUAL, [4, 7, 12], {}),
        ("pps:size=length,spread=none", [5, 9, 14], {}),
        ("stratified", [6, 10], {}),
        ("stratified:bins=metric,bin_size=8,allocation=optimal", [5, 9, 13], {}),
        ("balanced:size=variance", [6, 10], {}),
        ("casf:redundancy=none", [6, 10], {}),
        (UNEQUAL, [6, 11], {"balance": "domain"}),
    ],
)
def test_inclusion_frequencies_are_the_recorded_probabilities(method, sizes, options):
    """Two and three waves; the recorded probability of an item is the same in every draw."""
    runs = 250
    rows = {item: row for row, item in enumerate(POOL.ids)}
    count, total, pi = np.zeros(30), np.zeros(runs), np.full(30, np.nan)
    for run in range(runs):
        chosen = in_waves(POOL, method, sizes, run, **options)
        at = [rows[item] for item in chosen.ids]
        assert np.isnan(pi[at]).all() or np.nanmax(np.abs(pi[at] - known(chosen))) < 1e-12
        count[at] += 1
        total[run] = len(at)
        pi[at] = known(chosen)
    error = np.sqrt(pi * (1 - pi) / runs)
    assert (np.abs(count / runs - pi) < 4.2 * error + 1e-9).all()
    assert total.mean() == pytest.approx(pi.sum(), abs=4.2 * total.std() / np.sqrt(runs) + 1e-9)


@pytest.mark.parametrize("method", ["auto", "segments", "stratified:bins=domain", "balanced"])
def test_earlier_items_come_first_and_stay(method, tmp_path):
    data = aliquot.synthetic(items=120, systems=4, seed=1)
    first = select(data, method, 20, seed=3)
    path = tmp_path / "first.jsonl"
    first.save(path, data)
    second = select(data, budget="+10", add_to=path, seed=3)
    assert second.ids == select(data, add_to=first, budget=30, seed=3).ids
    assert second.ids[:20] == first.ids
    assert len(second) == pytest.approx(30, abs=2)
    assert second.details["waves"] == [{"size": 20, "drawn": 20}, {"size": 30, "drawn": len(second) - 20}]
    assert second.weight == pytest.approx(1 / known(second))
    assert (known(second)[:20] >= known(first) - 1e-12).all()
    assert second.ids != select(data, add_to=first, budget=30, seed=4).ids
    assert f"wave 2 adds {len(second) - 20} items" in " ".join(summarise_selection(second, data).notes)
    second.save(path, data)
    assert Selection.load(path) == second
    third = select(data, add_to=path, budget="40%", seed=3)
    assert third.ids[: len(second)] == second.ids
    assert third.details["waves"][2]["size"] == 48
    assert "add_to:" in third.signature


def test_equal_probabilities_keep_the_size_exactly():
    data = aliquot.synthetic(items=120, systems=4, seed=1)
    for seed in range(20):
        assert len(in_waves(data, "segments", [11, 24, 50], seed)) == 50
        assert len(in_waves(data, "stratified:bins=document", [11, 24, 50], seed)) == 50


def test_everything_may_be_added():
    with pytest.warns(AliquotWarning, match="exceeds the 30 items"):
        chosen = select(POOL, add_to=select(POOL, UNEQUAL, 6), budget=31)
    assert sorted(chosen.ids) == sorted(POOL.ids)
    assert known(chosen) == pytest.approx(1)
    with pytest.raises(OptionError, match="has all 30 items already"):
        select(POOL, add_to=chosen, budget="+1")


def test_bins_and_coverage_are_those_of_the_whole_selection():
    """Rounding to the nearest leaves bins without items, fewer of them after the second wave."""
    method = "stratified:bins=document,rounding=nearest"
    first = select(POOL, method, 3)
    second = select(POOL, add_to=first, budget=12)
    assert second.details["empty_bins"] < first.details["empty_bins"]
    assert second.design.coverage > first.design.coverage
    assert second.stratum is not None
    assert first.stratum == second.stratum[:3]


def test_conditional_probabilities_of_certain_items():
    q = conditional_probability(np.array([0.0, 0.25, 1.0]), np.array([0.3, 1.0, 1.0]))
    assert q.tolist() == [0.3, 1.0, 0.0]


def test_remainder_is_the_variance_of_the_numbers_of_items_by_document():
    """The share of a free draw's variance of document counts, compared with the counts of many draws."""
    data = aliquot.synthetic(items=60, systems=3, seed=8)
    codes = data.documents
    assert codes is not None
    rows = {item: row for row, item in enumerate(data.ids)}
    draws = [in_waves(data, "pps", [12, 20], seed) for seed in range(60)]
    counts = np.array([np.bincount(codes[[rows[i] for i in d.ids]], minlength=codes.max() + 1) for d in draws])
    pi = np.zeros(60)
    for drawn in draws:
        pi[[rows[item] for item in drawn.ids]] = known(drawn)
    measured = counts.var(axis=0).sum() / (pi * (1 - pi)).sum()
    stated = np.mean([drawn.design.remainder for drawn in draws])
    assert stated == pytest.approx(measured, rel=0.12)
    fresh = select(data, "pps", 12)
    p = np.full(60, 0.2)
    one = remaining_group_variance([p], [12], np.array([rows[item] for item in fresh.ids]), codes)
    assert one == pytest.approx(float(select(data, "pps:size=equal", 12).design.remainder))


@pytest.mark.parametrize("method", ["pps", "stratified", "segments"])
def test_intervals_after_waves_cover_the_means(method):
    data = aliquot.synthetic(items=150, systems=4, seed=12)
    truth = data.scores["human"].mean(axis=0)
    covered, errors = [], []
    for seed in range(60):
        chosen = in_waves(data, method, [25, 45], seed)
        human = np.where(np.isin(data.ids, chosen.ids)[:, None], data.scores["human"], np.nan)
        judged = replace(data, scores={**data.scores, "human": human}, judgments=None)
        result = aliquot.estimate(judged, selection=chosen, method="mean")
        covered += [row.low <= mean <= row.high for row, mean in zip(result.systems, truth, strict=True)]
        errors.append([row.estimate - mean for row, mean in zip(result.systems, truth, strict=True)])
    assert 0.89 < np.mean(covered) < 0.995
    assert (np.abs(np.mean(errors, axis=0)) < 4 * np.std(errors, axis=0) / np.sqrt(60)).all()


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        ("metric_var:metric=metricA", {}, "select again with the full budget and the same seed"),
        ("documents", {}, "half judged"),
        ("snippets_budgeted", {}, "half judged"),
        ("segments", {"unit": "document"}, "half judged"),
        ("kmeans:model=ngrams", {}, "no inclusion probabilities"),
        ("guided:metric=metricA", {}, "draw a fresh sample"),
        ("segments", {"matching": False}, "each system separately"),
        ("segments", {"include": [3]}, "`include`"),
        ("pps", {"cost": "esa_time"}, "`cost`"),
        ("segments", {"within": select(POOL, "segments", 20)}, "`within`"),
    ],
)
def test_selections_that_cannot_be_added_to(method, options, message):
    first = select(POOL, method, "300cost" if "cost" in options else 8, **options)
    with pytest.raises(OptionError, match="nothing can be added") as error:
        select(POOL, add_to=first, budget=16)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("budget", "message"),
    [
        (None, "needs `budget`"),
        (8, "the new total"),
        ("10%", "is of 8 items already"),
        ("+0", "above 0"),
        ("+x", "write a number"),
    ],
)
def test_budgets_that_add_nothing(budget, message):
    with pytest.raises(OptionError) as error:
        select(POOL, add_to=select(POOL, "pps", 8), budget=budget)
    assert message in str(error.value)


@pytest.mark.parametrize(
    "options",
    [
        {"unit": "document"},
        {"include": [1]},
        {"cost": "esa_time"},
        {"within": select(POOL, "segments", 20)},
        {"matching": False},
        {"method": "segments"},
        {"metric": "metricA"},
        {"balance": "domain"},
    ],
)
def test_options_of_another_selection(options):
    with pytest.raises(OptionError, match="leave out"):
        select(POOL, add_to=select(POOL, "pps", 8), budget=12, **options)


def test_what_to_add_needs_an_earlier_selection():
    with pytest.raises(OptionError, match="name it with `add_to`"):
        select(POOL, "pps", "+8")


def test_the_same_method_may_be_named_again():
    first = select(POOL, "pps:tau=0.3", 8)
    assert select(POOL, "pps:tau=0.3", 12, add_to=first).ids == select(POOL, add_to=first, budget=12).ids


def test_data_must_be_those_of_the_first_selection():
    first = select(POOL, UNEQUAL, 8)
    with pytest.raises(DataError, match="it is from 30 items, they have 29"):
        select(POOL.drop(items=[next(i for i in POOL.ids if i not in first.ids)]), add_to=first, budget=12)
    with pytest.raises(DataError, match="which they lack"):
        select(aliquot.synthetic(items=5, systems=3), add_to=first, budget=12)
    with pytest.raises(DataError, match="another source in the data"):
        select(aliquot.synthetic(items=30, systems=3, seed=5), add_to=first, budget=12)
    with pytest.raises(DataError, match="on these data"):
        select(POOL, add_to=replace(first, ids=first.ids[:7], probability=known(first)[:7], weight=None), budget=12)
    second = select(POOL, add_to=first, budget=12)
    fewer = replace(second, ids=second.ids[:-1], probability=known(second)[:-1], weight=None)
    with pytest.raises(DataError, match="its waves drew 8"):
        select(POOL, add_to=fewer, budget=16)
    broken = replace(second, details={**second.details, "waves": [3]})
    with pytest.raises(DataError, match="each should have a size"):
        select(POOL, add_to=broken, budget=16)


def test_excluded_items_and_crowd_are_named_again():
    options: dict[str, Any] = {"exclude_items": [2, 5], "crowd": [POOL.systems[0]]}
    first = select(POOL, UNEQUAL, 8, **options)
    second = select(POOL, add_to=first, budget=12, **options)
    assert second.population == 28
    assert not {2, 5} & set(second.ids)
    with pytest.raises(DataError, match="on these data"):
        select(POOL, add_to=first, budget=12, exclude_items=[2, 5])


def test_designs_named_in_the_error_are_designs():
    assert {all_methods()[name].kind for name in DESIGNS} == {"design"}
