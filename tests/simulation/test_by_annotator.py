"""Replays of each annotator and system alone, and bounds in simulate: by hand, sample by sample."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

import aliquot
from aliquot.errors import DataError, NameUnknownError, OptionError
from aliquot.simulation.by_annotator import replay_annotators, split_by_annotator

DATA = aliquot.synthetic(items=80, systems=2, seed=5, annotators=2)
STRATIFIED = "stratified:bins=document,rounding=nearest+stratified"


def tables() -> dict[str, np.ndarray]:
    """Each simulation's scores, straight from the judgments."""
    assert DATA.judgments is not None
    found: dict[str, list[float]] = {}
    rows = DATA.judgments.answers().group_by("annotator", "system", "item").agg(pl.col("value").mean()).to_dicts()
    for row in rows:
        found.setdefault(f"{row['annotator']} {row['system']}", []).append(row["value"])
    return {name: np.array(values) for name, values in found.items()}


def test_there_is_a_simulation_for_each_annotator_and_system():
    parts = list(split_by_annotator(DATA, None, []))
    expected = {name: sorted(values) for name, values in tables().items() if len(values) >= 20}
    assert {part.name.removeprefix(f"{DATA.name} "): sorted(part.human_score()[:, 0]) for part in parts} == expected
    for part in parts:
        assert part.n_systems == 1
        system = part.systems[0]
        at = [DATA.ids.index(item) for item in part.ids]
        np.testing.assert_array_equal(
            part.scores["metricA"][:, 0], DATA.scores["metricA"][at, DATA.systems.index(system)]
        )


def test_the_error_of_random_samples_is_the_textbooks():
    """Mean absolute error of a normal mean: sqrt(2 / pi) times its standard error, over all simulations."""
    study = replay_annotators(DATA, "random", "30%", repeats=400)
    (row,) = study.summary()
    expected = []
    for part in split_by_annotator(DATA, None, []):
        scores = part.human_score()[:, 0]
        n = round(0.3 * len(scores))
        expected.append(scores.std(ddof=1) * math.sqrt((1 / n - 1 / len(scores)) * 2 / math.pi))
    assert row.error == pytest.approx(np.mean(expected), rel=0.08)
    assert row.spread == pytest.approx(row.error * math.sqrt(math.pi / 2 - 1), rel=0.12)
    assert math.isnan(row.win)
    assert row.simulations == study.simulations == len(expected)


def test_wins_are_counted_by_simulation_and_budget():
    study = replay_annotators(DATA, ["segments+cv", "segments+mean"], ["20%", "40%"], repeats=40)
    rows = {(row.method, row.budget): row for row in study.rows if not math.isnan(row.budget)}
    better, same = (np.mean([rows[m, b].win for b in (0.2, 0.4)]) for m in ("segments+cv", "segments+mean"))
    over = {row.method: row for row in study.summary()}
    assert over["segments+cv"].win == pytest.approx(better)
    assert over["segments+cv"].error < over["random"].error
    assert better > same
    assert {row.win * study.simulations % 1 for row in rows.values() if not math.isnan(row.win)} == {0.0}
    again = replay_annotators(DATA, ["segments+cv", "segments+mean"], ["20%", "40%"], repeats=40, jobs=2)
    assert again.to_dict() == study.to_dict()
    document = json.loads(json.dumps(study.to_dict(), allow_nan=False))
    assert document["rows"][0]["win"] is None
    assert len(study.to_frame()) == 9


def test_bounds_of_the_paper_are_far_wider_than_needed():
    wide, narrow, t = (
        replay_annotators(DATA, "random", "30%", repeats=30, **given).summary()[0]
        for given in ({"interval": "hoeffding"}, {"interval": "hoeffding", "value_range": (0, 5)}, {})
    )
    assert wide.coverage == 1.0
    assert wide.slack > 2 * t.slack > 0
    assert wide.slack == pytest.approx(wide.half - wide.error)
    assert narrow.half < 0.5 * wide.half


def test_data_without_judgments_replay_the_scores():
    study = replay_annotators(replace(DATA, judgments=None), STRATIFIED, "30%", repeats=3)
    assert study.simulations == 2
    assert "no single judgments" in study.notes[0]


def test_simulate_takes_the_interval():
    given: dict[str, Any] = {"budgets": "25%", "repeats": 4, "measures": "coverage,width,slack,mae", "parity": False}
    past = aliquot.synthetic(items=60, systems=3, seed=2)
    t, hoeffding, fixed = (
        aliquot.simulate(past, "random", **given, **more)
        for more in ({}, {"interval": "hoeffding"}, {"interval": "hoeffding", "value_range": (0, 10)})
    )
    scores = past.human_score()
    half = np.ptp(scores) * math.sqrt((1 - 14 / 60) * math.log(2 / 0.05) / 30)
    assert hoeffding.row("random", "width").value == pytest.approx(2 * half)
    assert fixed.row("random", "width").value == pytest.approx(20 * half / np.ptp(scores))
    assert hoeffding.row("random", "coverage").value == 1.0
    slack = hoeffding.row("random", "slack").value
    assert slack == pytest.approx(half - hoeffding.row("random", "mae").value)
    assert t.row("random", "mae").value == hoeffding.row("random", "mae").value
    assert "interval:hoeffding|range:0,10" in fixed.signature


def test_slips():
    with pytest.raises(NameUnknownError, match="`interval` is 'bootstrap'"):
        replay_annotators(DATA, interval="bootstrap")
    with pytest.raises(OptionError, match="`value_range` is for `interval=hoeffding`"):
        aliquot.simulate(DATA, "random", "30%", value_range=(0, 1))
    with pytest.raises(DataError, match="no annotator judged 20 items"):
        replay_annotators(aliquot.synthetic(items=12, systems=2, seed=1))


@pytest.mark.parametrize("study", [aliquot.simulate, replay_annotators])
def test_scores_outside_the_range_are_noted_once(study):
    data = aliquot.synthetic(items=60, systems=2, seed=1)
    least = float(data.human_score().min())
    given = {"interval": "hoeffding", "value_range": (least + 1, least + 5)}
    notes = study(data, ["segments+mean"], "30%", repeats=2, **given).notes
    assert len([note for note in notes if "lies outside `value_range`" in note and "width 4 is used" in note]) == 1
    whole = study(data, ["segments+mean"], "30%", repeats=2, interval="hoeffding", value_range=(-1e6, 1e6)).notes
    assert not [note for note in whole if "outside" in note]
