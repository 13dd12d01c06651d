"""No real campaign raises an alarm, and plausible mistakes in it are named (benchmarks/study_mistakes.py: 200 each)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.real.conftest import load_real

from aliquot import EvalSet, Judgments
from aliquot.core.plausibility import plausibility_notes
from aliquot.stats.alignment import shift_cells

DATA = Path(__file__).parents[3] / "shared" / "data"
CAMPAIGNS = sorted(path.name.removesuffix(".jsonl.gz") for path in DATA.glob("*.jsonl.gz"))
pytestmark = pytest.mark.skipif(not CAMPAIGNS, reason=f"no campaigns in {DATA}")


def people(name: str) -> EvalSet:
    """The campaign with its human score, and no other score of people."""
    if name not in CAMPAIGNS:
        pytest.skip(f"no {name} in {DATA}")
    data = load_real(name)
    names = [*data.metrics, str(data.human)]
    return replace(data, scores={score: data.scores[score] for score in names}, judgments=None)


def with_people(data: EvalSet, scores: np.ndarray) -> EvalSet:
    return data.with_score(str(data.human), scores)


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_no_alarm(name):
    data = load_real(name)
    assert plausibility_notes(data) == []
    if data.judgments is not None:
        bare = replace(data, scores={metric: data.scores[metric] for metric in data.metrics}, human=None)
        assert plausibility_notes(bare.aggregate()) == []


@pytest.mark.parametrize("name", ["wmt23-he-en", "summeval", "biomqm-en-de", "wmt24-esa-en-cs-waves23", "realsumm"])
def test_moved_scores_are_named(name):
    data = people(name)
    scores = data.human_score()
    for step in (-1, 1):
        for moved in (shift_cells(scores, step), shift_cells(scores.T, step).T, np.roll(scores, step, axis=0)):
            assert any("rows shifted" in note for note in plausibility_notes(with_people(data, moved)))
    rows = np.flatnonzero(np.isfinite(scores).any(axis=1))
    mixed = scores.copy()
    mixed[rows] = scores[np.random.default_rng(1).permutation(rows)]
    assert any("no relation to the outputs" in note for note in plausibility_notes(with_people(data, mixed)))


@pytest.mark.parametrize("name", ["wmt23-he-en", "summeval", "biomqm-en-de", "realsumm", "wmt23-mqm3raters-en-de"])
def test_exchanged_systems_are_named(name):
    """Four of five random pairs, at least."""
    data, rng, hits = people(name), np.random.default_rng(2), 0
    judged = np.flatnonzero(np.isfinite(data.human_score()).sum(axis=0) >= 50)
    for _ in range(5):
        first, second = sorted(rng.choice(judged, 2, replace=False))
        scores = data.human_score().copy()
        scores[:, [first, second]] = scores[:, [second, first]]
        names = f"'{data.systems[first]}' fit the outputs of '{data.systems[second]}'"
        hits += any(names in note for note in plausibility_notes(with_people(data, scores)))
    assert hits >= 4


@pytest.mark.parametrize("name", ["dialsummeval", "summeval"])
def test_systems_exchanged_by_one_annotator_are_named(name):
    if name not in CAMPAIGNS:
        pytest.skip(f"no {name} in {DATA}")
    data = load_real(name)
    assert data.judgments is not None
    first, second = data.systems[1], data.systems[-2]
    for who in data.judgments.annotators[:3]:
        other = pl.col("system").replace({first: second, second: first})
        system = pl.when(pl.col("annotator") == who).then(other).otherwise(pl.col("system"))
        wrong = replace(data, judgments=Judgments(data.judgments.table.with_columns(system)))
        assert any(note.startswith(f"judgments of annotator '{who}'") for note in plausibility_notes(wrong))


@pytest.mark.parametrize("name", ["wmt23-he-en", "biomqm-de-en", "wmt24-esa-en-ja-waves23", "dialsummeval"])
def test_metrics_of_the_wrong_sign_are_named(name):
    data = people(name)
    for metric in data.metrics[:3]:
        notes = plausibility_notes(data.with_score(metric, -data.scores[metric]))
        assert any(note.startswith(f"metric '{metric}' runs against") for note in notes)
