"""Few judged items on real campaigns: texts, earlier campaigns, and intervals of heavy-tailed penalties, reduced size.

The full size is docs/evidence-few.md; limits here leave room for the Monte Carlo error of few replays.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import aliquot
from aliquot import AliquotWarning, EvalSet
from aliquot.core.registry import parse_spec
from aliquot.estimation.past import add_past_prediction
from aliquot.estimation.pipeline import infer_means
from aliquot.estimation.sample import Sample
from aliquot.sampling.designs import pps
from aliquot.simulation.setup import keep_complete as complete_population
from aliquot.stats.arrays import FloatArray

SHARED = Path(__file__).parents[3] / "shared" / "data"
if not (SHARED / "wmt23-he-en.jsonl.gz").exists():
    pytest.skip(f"no real data in {SHARED}", allow_module_level=True)


@cache
def population(file: str) -> EvalSet:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AliquotWarning)
        return complete_population(aliquot.load(SHARED / f"{file}.jsonl.gz"))[0]


def drawn(data: EvalSet, n: int, seed: int) -> Sample:
    """The default design's sample."""
    draw = pps(data, n=n, rng=np.random.default_rng(seed))
    assert draw.probability is not None
    pi = draw.probability[draw.rows]
    scores = data.human_score()[draw.rows]
    return Sample(data, draw.rows, scores, pi, 1.0 / pi, kind=draw.design.variance, remainder=draw.design.remainder)


def errors(data: EvalSet, method: str, n: int, past: Sequence[EvalSet] = (), repeats: int = 40) -> float:
    """Mean absolute error of the systems' means."""
    prior: FloatArray | None = add_past_prediction(drawn(data, n, 0), past).prior
    truth, spec = data.human_score().mean(axis=0), parse_spec(method)
    samples = (replace(drawn(data, n, 100 + seed), prior=prior) for seed in range(repeats))
    return float(np.mean([np.abs(infer_means(sample, spec).values - truth).mean() for sample in samples]))


def test_texts_help_where_there_are_no_good_metrics() -> None:
    for file in ("webnlg2020-en", "wmt24-esa-en-cs-waves23"):
        data = population(file)
        assert errors(data, "greg:texts=yes", 40) < 0.99 * errors(data, "greg", 40)


def test_earlier_campaigns_help_few_judgments() -> None:
    data = population("wmt24-esa-en-cs-waves23")
    past = [population("biomqm-en-de"), population("newstest2021-mqm-en-de")]
    assert errors(data, "informed", 20, past) < 0.93 * errors(data, "greg", 20)


@pytest.mark.parametrize("method", ["greg", "multilevel"])
def test_intervals_of_heavy_tailed_penalties_hold(method: str) -> None:
    data = population("biomqm-de-en")
    truth, spec, inside = data.human_score().mean(axis=0), parse_spec(method), []
    for seed in range(60):
        made = infer_means(drawn(data, 48, seed), spec)
        inside.append((np.abs(made.values - truth) <= made.half_widths(0.95)).mean())
    assert 0.925 < np.mean(inside) <= 1.0
