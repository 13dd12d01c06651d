"""Snapshots: the numbers of `estimate`, intervals for every look, and no decision over systems nobody has judged."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
import pytest

import aliquot
from aliquot.collect.snapshot import about_systems, describe_snapshot, take_snapshot
from aliquot.core.judgments import Judgments

DATA = aliquot.synthetic(items=120, systems=4, seed=3, annotators=3, judgments_per_output=2)
SELECTION = aliquot.select(DATA, budget="40%", seed=1)


def judged() -> Judgments:
    assert DATA.judgments is not None
    return DATA.judgments.keep(items=list(SELECTION.ids))


def test_the_estimates_are_those_of_estimate():
    now = take_snapshot(DATA, SELECTION, judged())
    same = aliquot.estimate(DATA, selection=SELECTION, judgments=judged(), human=DATA.human)
    assert [row.system for row in now.systems] == [row.system for row in same.systems]
    for mine, theirs in zip(now.systems, same.systems, strict=True):
        assert (mine.estimate, mine.low, mine.high, mine.p_best) == (
            theirs.estimate,
            theirs.low,
            theirs.high,
            theirs.p_best,
        )
        assert mine.judged == theirs.n
        assert mine.always_low < mine.always_high
    assert now.gain == pytest.approx(max(0.0, sum(row.effective_n - row.n for row in same.systems)))
    assert now.decided + now.open == 6
    assert now.judgments == len(judged())
    assert 0 < now.agreement < 1
    assert "lead" in " ".join(describe_snapshot(now))


def test_planted_cells_and_marks_are_not_about_systems():
    table = judged().table.with_columns(
        pl.when(pl.int_range(pl.len()) % 7 == 0).then(pl.lit("control")).alias("control"),
        (pl.int_range(pl.len()) % 11 == 1).alias("repeat"),
        pl.when(pl.int_range(pl.len()) % 13 == 2).then(pl.lit("excluded")).alias("marked"),
    )
    kept = about_systems(Judgments(table)).table
    assert kept.height == sum(at % 7 != 0 and at % 13 != 2 for at in range(len(table)))
    assert 0 < kept.height < len(table)


def test_nothing_and_little_is_no_fault():
    empty = take_snapshot(DATA, SELECTION, Judgments(judged().table.head(0)))
    assert describe_snapshot(empty) == ("Nothing is judged yet.",)
    assert all(math.isnan(row.estimate) for row in empty.systems)
    one = take_snapshot(DATA, SELECTION, Judgments(judged().table.head(1)))
    assert not one.stop
    assert one.judgments == 1


def test_it_never_stops_before_every_system_is_judged():
    clear = DATA.with_score("human", np.where(np.arange(4) == 0, 50.0, -50.0) + DATA.human_score() * 0.01)
    table = pl.DataFrame(
        [
            {"item": item, "system": s, "value": float(clear.scores["human"][row, at])}
            for row, item in enumerate(DATA.ids)
            for at, s in enumerate(DATA.systems[:3])
        ]
    )
    now = take_snapshot(DATA, None, Judgments(table))
    assert not now.stop
    assert DATA.systems[3] in now.advice
    without = take_snapshot(DATA.keep(systems=list(DATA.systems[:3])), None, Judgments(table))
    assert without.stop


def test_criteria_are_not_averaged():
    table = judged().table
    second = table.with_columns(criterion=pl.lit("fluency"), value=-pl.col("value"))
    first = table.with_columns(criterion=pl.lit("adequacy"))
    both = take_snapshot(DATA, SELECTION, Judgments(pl.concat([first, second])))
    alone = take_snapshot(DATA, SELECTION, Judgments(first))
    assert [(row.system, row.estimate) for row in both.systems] == [(row.system, row.estimate) for row in alone.systems]
    assert any("adequacy" in note and "fluency" in note for note in both.notes)


# -- random judges -------------------------------------------------------------------------------------------------

SMALL = aliquot.EvalSet(items=pl.DataFrame({"id": np.arange(14)}), systems=tuple("ABCD"), scores={})


def random_scores(rng: np.random.Generator, items: int, judgments: int) -> list[tuple[Any, ...]]:
    drawn = rng.permutation(14)[:items]
    return [
        (int(item), system, f"p{who}", float(rng.integers(0, 101)), None)
        for item in drawn
        for system in "ABCD"
        for who in rng.permutation(4)[:judgments]
    ]


def random_choices(rng: np.random.Generator, items: int, judgments: int) -> list[tuple[Any, ...]]:
    """Two pairs of systems an item and annotator, as a pairwise protocol stores them."""
    rows: list[tuple[Any, ...]] = []
    for item in rng.permutation(14)[:items]:
        for who in rng.permutation(4)[:judgments]:
            names, first = rng.permutation(list("ABCD")), rng.integers(0, 2, 2)
            for name, value in zip(names, (first[0], 1 - first[0], first[1], 1 - first[1]), strict=True):
                rows.append((int(item), str(name), f"p{who}", float(value), "preference"))
    return rows


def made(rows: list[tuple[Any, ...]]) -> Judgments:
    names = ["item", "system", "annotator", "value", "criterion"]
    table = pl.DataFrame(rows, schema=names, orient="row", infer_schema_length=None)
    return Judgments(table.with_columns(time=pl.int_range(pl.len()).cast(pl.Float64)))


@pytest.mark.parametrize("judgments", [1, 2])
@pytest.mark.parametrize("items", [14, 9])
@pytest.mark.parametrize(("draw", "runs"), [(random_scores, 75), (random_choices, 15)])
def test_random_judges_name_no_best_system(monkeypatch, draw, runs, items, judgments):
    """Finished and unfinished campaigns of pure noise: at most 5% stop, and none while systems cannot be told apart."""
    monkeypatch.setattr("aliquot.collect.snapshot.annotator_cards", lambda _: ())
    monkeypatch.setattr("aliquot.collect.snapshot._compute_alpha", lambda _: math.nan)
    stopped = 0
    for seed in range(runs):
        now = take_snapshot(SMALL, None, made(draw(np.random.default_rng(seed), items, judgments)))
        words = " ".join(describe_snapshot(now))
        assert not ("Stop" in words and "cannot be told apart" in words)
        stopped += now.stop
        if items == 14 and not now.stop:
            assert "more items" not in words
            assert "judgments per output" in words if judgments > 1 else "judge some outputs twice" in words
    assert stopped <= 0.05 * runs


@pytest.mark.parametrize("judgments", [1, 2])
def test_a_clear_best_system_is_named(judgments):
    rng = np.random.default_rng(1)
    level = dict(zip("ABCD", (90.0, 55.0, 50.0, 45.0), strict=True))
    rows = [
        (item, system, f"p{who}", level[system] + rng.normal(0, 6), None)
        for item in range(14)
        for system in "ABCD"
        for who in rng.permutation(4)[:judgments]
    ]
    now = take_snapshot(SMALL, None, made(rows))
    assert now.stop
    assert now.advice == "stop: A is the best system"
    assert "A leads" in describe_snapshot(now)[0]


def test_more_items_than_are_selected_are_asked_for_as_such():
    rng = np.random.default_rng(2)
    data = aliquot.EvalSet(items=pl.DataFrame({"id": np.arange(400)}), systems=("A", "B"), scores={})
    selection = aliquot.select(data, "segments", 50, seed=1)
    rows = [
        (item, system, "p", 50.0 + 1.5 * (system == "A") + rng.normal(0, 10), None)
        for item in selection.ids
        for system in "AB"
    ]
    now = take_snapshot(data, selection, made(rows))
    assert not now.stop
    assert now.advice.endswith("more items (50 are selected: top up)")
