"""aliquot.compat.evaluate against subset2evaluate 1.0.27 on real campaigns, and against the paper's random baselines.

Machine systems only, and items with every score, as in the published results. What takes subset2evaluate long (parity,
clusters of fewer than 14 items with ties) is done on few budgets.
"""

from __future__ import annotations

import copy
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from scipy.stats import t as student
from tests.real.conftest import load_real

from aliquot.compat import evaluate as ours
from aliquot.compat import select_subset
from aliquot.compat.evaluate import random_orders
from aliquot.io.formats import items as item_lines

FOLDER = Path(__file__).parents[3] / "shared" / "data"
SMALL = (0.03, 0.06, 0.1)

if not FOLDER.exists():
    pytest.skip(f"{FOLDER} is not there", allow_module_level=True)


@pytest.fixture
def peer() -> ModuleType:
    pytest.importorskip("subset2evaluate", reason="pip install --no-deps subset2evaluate==1.0.27")
    return import_module("subset2evaluate.evaluate")


@cache
def campaign(name: str, *scores: str) -> list[dict[str, Any]]:
    """Items of a campaign that have these scores for all machine systems."""
    data = load_real(name)
    data = data.drop(systems=[system for system in data.systems if "ref" in system])
    complete = np.all([np.isfinite(data.scores[score]).all(axis=1) for score in scores], axis=0)
    return [dict(item) for item in item_lines.iterate_records(data.keep(items=np.array(data.ids)[complete].tolist()))]


def ordered(items: list[dict[str, Any]], metric: str = "MetricX-23") -> list[dict[str, Any]]:
    return select_subset.basic(items, method="metric_var", metric=metric)


@pytest.mark.parametrize("score", ["human", "da-sqm", "COMET", ("COMET", "human")], ids=str)
def test_curves_are_equal(peer, score):
    old = campaign("wmt23-en-de", "human", "da-sqm", "COMET", "MetricX-23")
    new = ordered(old)
    assert ours.eval_spa(new, old, metric=score) == peer.eval_spa(new, old, metric=score)
    mine, theirs = (side.eval_clucor(new, old, metric=score, props=SMALL[1:]) for side in (ours, peer))
    assert mine == theirs


@pytest.mark.parametrize("score", ["human", "da-sqm"])
@pytest.mark.parametrize("size", [5, 40, 300])
def test_measures_are_equal(peer, score, size):
    old = campaign("wmt23-en-de", "human", "da-sqm", "COMET", "MetricX-23")
    new = ordered(old)[:size]
    for name in ("spa", "pairwise_accuracy", "top", "correlation", "error"):
        mine, theirs = (getattr(side, f"eval_subset_{name}")(new, old, metric=score) for side in (ours, peer))
        assert mine == pytest.approx(theirs, abs=1e-9, rel=0), name
    if size >= 14:
        assert ours.compute_clusters(new, score) == peer.compute_clusters(new, score)
        theirs = peer.compute_clusters_pvalues(new, score)
        assert ours.compute_clusters_pvalues(new, score) == pytest.approx(theirs, abs=1e-9, rel=0)


@pytest.mark.parametrize("score", ["human", "da-sqm"])
def test_parity_is_equal(peer, score):
    old = campaign("wmt23-en-de", "human", "da-sqm", "COMET", "MetricX-23")
    new = ordered(old)
    targets = [ours.eval_spa([old[row] for row in order], old, score, SMALL) for order in random_orders(len(old), 0, 3)]
    target = np.mean(targets, axis=0)
    assert ours.eval_spa_par(new, old, target, score, SMALL) == peer.eval_spa_par(new, old, target, score, SMALL)


def test_parity_of_clusters_is_equal(peer):
    """On a metric, whose scores hardly tie."""
    old = campaign("wmt23-en-de", "human", "da-sqm", "COMET", "MetricX-23")
    new = ordered(old)
    counts, correlations = ours.eval_clucor(old, old, "COMET", SMALL)
    mine, theirs = (
        side.eval_clucor_par(new, old, counts, correlations, metric="COMET", props=SMALL) for side in (ours, peer)
    )
    assert mine == theirs


def test_random_parity_is_equal(peer):
    old = campaign("wmt23-en-de", "human", "da-sqm", "COMET", "MetricX-23")[::3]
    given: dict[str, Any] = {"random_seeds": 2, "metric": "da-sqm", "props": SMALL[1:]}
    theirs = peer.precompute_spa_randnorm(copy.deepcopy(old), **given)
    mine = ours.precompute_spa_randnorm(old, **given)
    assert mine[0].tolist() == theirs[0].tolist()
    assert mine[1] == theirs[1]


@pytest.mark.parametrize(
    ("name", "score", "items", "published"),
    [("wmt23-en-de", "da-sqm", 549, 0.921), ("wmt23-he-en", "human", 820, 0.929)],
)
def test_random_baselines_are_the_papers(name, score, items, published):
    """Zouhar et al. print the mean over 5% to 50%; ours, of 20 seeds, has it within the 99% interval of the mean."""
    data = campaign(name, score)
    assert len(data) == items
    assert len(data[0]["scores"]) == 12
    means = [
        np.mean(ours.eval_spa([data[row] for row in order], data, score)) for order in random_orders(len(data), 0, 20)
    ]
    half = student.ppf(0.995, 19) * np.std(means, ddof=1) / np.sqrt(20)
    assert half < 0.01
    assert np.mean(means) == pytest.approx(published, abs=half)
