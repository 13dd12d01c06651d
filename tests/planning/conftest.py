"""A simulated campaign, judged all over or in part."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from aliquot import EvalSet, synthetic


@pytest.fixture(scope="session")
def campaign() -> EvalSet:
    """240 items in documents, 6 systems, two judgments of every output."""
    return synthetic(items=240, systems=6, annotators=5, judgments_per_output=2, seed=21)


def judged_only(data: EvalSet, rows: np.ndarray) -> EvalSet:
    """The same set with human scores on these rows only, and without judgments."""
    scores = np.full(data.human_score().shape, np.nan)
    scores[rows] = data.human_score()[rows]
    return replace(data, judgments=None).with_score(str(data.human), scores)


@pytest.fixture(scope="session")
def pilot(campaign: EvalSet) -> EvalSet:
    """30 items of the campaign, drawn at random."""
    return judged_only(campaign, np.random.default_rng(4).choice(240, 30, replace=False))
