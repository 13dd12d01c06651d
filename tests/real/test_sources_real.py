"""Sources of real campaigns: length against published numbers, models against length, strange scripts, two stages."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from tests.real.conftest import load_real

import aliquot
from aliquot.core.conventions import source_lengths
from aliquot.sampling.learn import learn
from aliquot.sampling.select import select
from aliquot.sampling.training import BASELINE, item_target, spearman

estimate_given = partial(aliquot.estimate, target="given")  # the mean of these very scores, whose truth is known

SHARED = Path(__file__).parents[3] / "shared" / "data"
if not (SHARED / "wmt23-he-en.jsonl.gz").exists():
    pytest.skip(f"no real data in {SHARED}", allow_module_level=True)

REFERENCES = {"refA", "refB", "ref-A", "ref-B", "ref-C", "ref-D", "synthetic_ref"}
FILES = {
    "wmt23-en-de": "human",
    "wmt23-he-en": "human",
    "biomqm-en-de": "human",
    "biomqm-de-en": "human",
    "newstest2021-mqm-en-de": "human",
    "wmt24-esa-en-cs-waves23": "human",
    "wmt24-esa-en-ja-waves23": "human",
    "wmt22-da-de-en": "human",
}


def machine_systems(name: str, human: str = "human") -> aliquot.EvalSet:
    data = load_real(name, human)
    data = data.drop(systems=[system for system in data.systems if system in REFERENCES])
    judged = np.isfinite(data.human_score()).sum(axis=1) > 0
    return data.keep(items=judged)


@pytest.mark.parametrize(
    ("name", "human", "published"),
    [("wmt23-en-de", "human", 0.74), ("wmt23-en-de", "da-sqm", 0.50), ("wmt23-he-en", "human", 0.31)],
)
def test_length_correlates_with_penalties_as_published(name, human, published):
    data = machine_systems(name, human)
    target = item_target(data, "metric_avg")
    found = {float(np.corrcoef(source_lengths(data), target)[0, 1]), spearman(source_lengths(data), target)}
    assert min(abs(value - published) for value in found) < 0.04


@pytest.fixture(scope="module")
def learned():
    return learn([machine_systems(name, human) for name, human in FILES.items()])


def test_the_default_model_beats_length_on_average_over_campaigns(learned):
    assert learned.mean() > learned.mean(BASELINE) + 0.005
    assert len(learned.scores[BASELINE]) == len(FILES)


def test_models_are_small(learned):
    assert len(learned.model.to_bytes()) < 3_000_000


def test_scripts_of_all_campaigns_are_predicted_and_like_themselves(learned):
    model = learned.model
    for name in FILES:
        texts = machine_systems(name).items["source"].to_list()
        utility, unlike = model.assess(texts)
        assert np.isfinite(utility).all()
        assert (unlike > 1).mean() < 0.25
    chinese = load_real("wmt22-calibration-zh-en").items["source"].to_list()
    assert (model.unlikeness(chinese) > 1).mean() > 0.5


@pytest.mark.filterwarnings("ignore::aliquot.errors.AliquotWarning")
def test_two_stages_on_a_real_campaign_are_unbiased(learned, tmp_path):
    """Sources by the model, then items by metrics that only the first stage has: the mean of the pool is met."""
    model = tmp_path / "model.alm"
    learned.model.save(model)
    pool = machine_systems("wmt23-he-en")
    metrics = ["MetricX-23", "COMET", "BLEURT-20"]
    pool = replace(pool, scores={name: pool.scores[name] for name in [*metrics, "human"]}, judgments=None)
    truth = pool.scores["human"].mean(axis=0)
    spec = f"pps:size=(source:model={model}),tau=0.3"
    off = []
    for seed in range(30):
        first = select(pool, spec, "50%", seed=seed)
        second = select(pool, "pps:size=difficulty,tau=0.3", 100, within=first, seed=seed + 100)
        inside, judged = np.isin(pool.ids, first.ids)[:, None], np.isin(pool.ids, second.ids)[:, None]
        scores = {name: np.where(inside, pool.scores[name], np.nan) for name in metrics}
        data = replace(pool, scores={**scores, "human": np.where(judged, pool.scores["human"], np.nan)})
        result = estimate_given(data, "mean", selection=second)
        by_name = {row.system: row.estimate for row in result.systems}
        off.append(np.mean([by_name[name] - t for name, t in zip(pool.systems, truth, strict=True)]))
    assert abs(np.mean(off)) < 4 * np.std(off) / np.sqrt(len(off))
