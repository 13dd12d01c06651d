"""Replays with an artificial crowd: chosen by a few systems, true of the others."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import aliquot
from aliquot.cli.main import run
from aliquot.errors import OptionError
from aliquot.metric_eval.measures import select_measures
from aliquot.simulation.replay import ReplaySet
from aliquot.simulation.setup import BudgetPoint, resolve_method
from aliquot.simulation.units import _choose_by_crowd, compute_measures, draw_crowd, exclude_crowd, run_crowd_replays

DATA = aliquot.synthetic(items=60, systems=8, seed=4)
STAGE = ReplaySet(DATA, crowd=4)


def replay(method: str, repeats: int = 3, share: float = 0.3, data: aliquot.EvalSet = DATA):
    plan = resolve_method(method, data, "metricA")
    return list(run_crowd_replays(ReplaySet(data, crowd=4), plan, [BudgetPoint(share, share)], repeats, 0, [[1, 2]]))


def test_crowds_differ_between_replays_and_not_between_methods():
    crowds = [draw_crowd(DATA, 4, 0, repeat) for repeat in range(30)]
    assert all(len(set(crowd)) == 4 for crowd in crowds)
    assert len({tuple(crowd) for crowd in crowds}) > 15
    assert {name for crowd in crowds for name in crowd} == set(DATA.systems)
    assert crowds == [draw_crowd(DATA, 4, 0, repeat) for repeat in range(30)]


def test_the_truth_is_about_the_others():
    for repeat, rest, outcomes in replay("metric_var"):
        crowd = draw_crowd(DATA, 4, 0, repeat)
        assert rest.evalset.systems == tuple(name for name in DATA.systems if name not in crowd)
        assert outcomes[0] is not None
        assert outcomes[0].means.shape == (4,)


@pytest.mark.parametrize("method", ["metric_var", "metric_avg", "diversity", "pps:size=difficulty"])
def test_the_others_are_not_looked_at_when_choosing(method):
    """Scores and outputs of the systems evaluated may be anything; the same items are judged."""
    crowd = draw_crowd(DATA, 4, 0, 0)
    rng = np.random.default_rng(1)
    keep = np.isin(DATA.systems, crowd)
    changed = {
        name: np.where(keep, v, rng.normal(size=v.shape)) if name != "human" else v for name, v in DATA.scores.items()
    }
    spoiled = replace(DATA, scores=changed)
    plan = resolve_method(method, DATA, "metricA")
    rows = [
        _choose_by_crowd(ReplaySet(d, crowd=4), plan, 0.3, crowd, np.random.default_rng(2)).rows
        for d in (DATA, spoiled)
    ]
    assert np.array_equal(rows[0], rows[1])


def test_judging_everything_gives_the_truth():
    measures = select_measures(["spa", "mae"])
    for _, rest, outcomes in replay("metric_var", share=1.0):
        values = compute_measures(outcomes[0], rest, measures)
        assert values["spa"] == pytest.approx([1.0])
        assert values["mae"] == pytest.approx([0.0], abs=1e-9)


def test_simulate_with_a_crowd_is_the_same_on_any_number_of_processes():
    given = (DATA, ["random", "metric_var", "pps+mean"], ["20%"])
    options = {"metric": "metricA", "crowd": 4, "repeats": 6, "measures": ["spa", "mae"]}
    one = aliquot.simulate(*given, **options)  # type: ignore[arg-type]
    assert one.to_frame().equals(aliquot.simulate(*given, jobs=2, **options).to_frame())  # type: ignore[arg-type]
    assert "crowd:4" in one.signature
    fixed = [cell for cell in one.cells if cell.method == "metric_var" and cell.asked]
    assert all(cell.repeats == 6 for cell in fixed)
    assert any(cell.error > 0 for cell in fixed)


def test_without_a_crowd_nothing_changes():
    rest = exclude_crowd(ReplaySet(DATA), [])
    assert rest.evalset == DATA


@pytest.mark.parametrize("crowd", [0, 7, 8])
def test_a_crowd_must_leave_two(crowd):
    with pytest.raises(OptionError, match="leave at least two"):
        aliquot.simulate(DATA, crowd=crowd)


def test_systems_without_metrics_are_no_crowd():
    scores = {name: values.copy() for name, values in DATA.scores.items()}
    for name in DATA.metrics:
        scores[name][:, [0, 3]] = np.nan
    partly = replace(DATA, scores=scores)
    crowds = {name for repeat in range(30) for name in draw_crowd(partly, 4, 0, repeat)}
    assert crowds == set(DATA.systems) - {DATA.systems[0], DATA.systems[3]}
    for name in DATA.metrics:
        scores[name][:, :5] = np.nan
    with pytest.raises(OptionError, match="only 3 systems have"):
        aliquot.simulate(replace(DATA, scores=scores), crowd=4)


def test_from_the_command_line(tmp_path, capsys):
    aliquot.save(DATA, tmp_path / "d.jsonl")
    arguments = ["simulate", str(tmp_path / "d.jsonl"), "--methods", "random,metric_var", "--metric", "metricA"]
    assert run([*arguments, "--budgets", "30%", "--repeats", "4", "--crowd", "4", "--json"]) == 0
    assert "crowd:4" in json.loads(capsys.readouterr().out)["signature"]
