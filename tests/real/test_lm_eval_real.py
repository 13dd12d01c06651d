"""Samples of lm-evaluation-harness: the means of every model, task, metric and filter are the tool's own results."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest

import aliquot
from aliquot import AliquotWarning

LOGS = Path(__file__).parents[3] / "shared" / "data" / "harness" / "lm-eval"


@pytest.mark.skipif(not LOGS.exists(), reason=f"the real logs are not at {LOGS}")
def test_the_means_are_the_tools_results() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AliquotWarning)
        data = aliquot.load(LOGS)
        prompts = aliquot.combine_draws(data)
    compared = 0
    for path in LOGS.rglob("results_*.json"):
        results = json.loads(path.read_text())
        column = data.systems.index(results["model_name"])
        for name, expected in results["results"]["addition_gen"].items():
            if name in data.scores:
                compared += 1
                for each in (data, prompts):
                    assert np.nanmean(each.scores[name][:, column]) == pytest.approx(expected)
    assert compared == 6
    assert data.systems == ("acme/alpha", "acme/beta", "acme/gamma")
