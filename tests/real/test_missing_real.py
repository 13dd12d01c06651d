"""Judgments of real campaigns, removed at random or because they are low: only the latter is told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.real.conftest import load_real

from aliquot import EvalSet
from aliquot.estimation.missing import missing_cells, missing_notes

DATA = Path(__file__).parents[3] / "shared" / "data"
CAMPAIGNS = sorted(path.name for path in DATA.glob("*.jsonl.gz"))
pytestmark = pytest.mark.skipif(not CAMPAIGNS, reason=f"no campaigns in {DATA}")


def without(data: EvalSet, gaps: np.ndarray) -> EvalSet:
    assert data.human is not None
    return data.with_score(data.human, np.where(gaps, np.nan, data.human_score())).with_human(data.human)


def notes(data: EvalSet) -> list[str]:
    return missing_notes(data, None, missing_cells(data, None, None), selected=False)


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_random_gaps_are_silent(name):
    data = load_real(name)
    assert notes(data) == []
    rng = np.random.default_rng(1)
    told = [notes(without(data, rng.random((data.n_items, data.n_systems)) < 0.15)) for _ in range(5)]
    assert sum(map(len, told)) <= 1


@pytest.mark.parametrize("name", ["wmt23-en-de.jsonl.gz", "dialsummeval.jsonl.gz", "wmt23-mqm3raters-en-de.jsonl.gz"])
def test_low_scores_removed_are_told(name):
    if name not in CAMPAIGNS:
        pytest.skip(f"no {name} in {DATA}")
    data = load_real(name)
    scores = data.human_score()
    column = int(np.isfinite(scores).sum(axis=0).argmax())
    gaps = np.zeros(scores.shape, dtype=bool)
    known = np.flatnonzero(np.isfinite(scores[:, column]))
    gaps[known[np.argsort(scores[known, column], kind="stable")[: len(known) // 2]], column] = True
    (note,) = notes(without(data, gaps))
    assert note.startswith(f"{data.systems[column]}: ")
    assert "worse than those judged" in note
