"""Compare on real campaigns: derived preferences agree with mean scores, criteria show their structure."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr
from tests.real.conftest import load_real

import aliquot
from aliquot import AliquotWarning
from aliquot.annotation.compare import compare
from aliquot.annotation.survey import survey

SHARED = Path(__file__).parents[3] / "shared" / "data"
if not (SHARED / "summeval.jsonl.gz").exists():
    pytest.skip(f"no real data in {SHARED}", allow_module_level=True)

pytestmark = pytest.mark.filterwarnings(f"ignore::{AliquotWarning.__module__}.AliquotWarning")


def real(name: str) -> aliquot.EvalSet:
    return load_real(name)


@pytest.mark.parametrize("name", ["summeval", "dialsummeval", "wmt23-mqm3raters-en-de", "biomqm-en-de"])
def test_preferences_follow_mean_scores(name):
    data = real(name)
    result = compare(data, "scores")
    assert data.judgments is not None
    means = data.judgments.cell_means().group_by("system").mean()
    mean = dict(zip(means["system"], means["value"], strict=True))
    rho = spearmanr([row.score for row in result.systems], [mean[row.system] for row in result.systems])[0]
    assert rho > 0.85
    assert all(row.low <= row.win_rate <= row.high for row in result.systems)
    clustered = np.array([pair.p for pair in result.pairs])
    naive = np.array([pair.p_sign for pair in result.pairs])
    assert (
        np.median(clustered / np.maximum(naive, 1e-300)) > 1
    )  # people agree on items: choices are fewer than they look


def test_clusters_are_wider_than_independence():
    data = real("summeval")
    robust, naive = (compare(data, "scores", criterion="coherence", interval=way) for way in ("robust", "information"))
    ratio = [row.se / naive[row.system].se for row in robust.systems]
    assert min(ratio) > 1.5


def test_webnlg_criteria_are_two():
    result = survey(real("webnlg2020-en"), "criteria", draws=100)
    assert result.factors is not None
    assert result.factors.loadings.shape == (5, 2)
    strongest = dict(zip(result.kept, np.abs(result.factors.loadings).argmax(axis=1), strict=True))
    assert strongest["fluency"] == strongest["textstructure"]
    assert strongest["correctness"] == strongest["datacoverage"] == strongest["relevance"] != strongest["fluency"]


def test_summeval_experts_share_one_factor():
    result = survey(real("summeval"), "criteria", rows="output", draws=100)
    assert result.factors is not None
    assert result.factors.df == 2
    assert (result.factors.loadings[:, 0] > 0.5).all()
