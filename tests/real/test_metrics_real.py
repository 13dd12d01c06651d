"""Metrics against people on real campaigns: WMT23's 42 metrics, SummEval's criteria, repeated judgments."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.real.conftest import load_real

import aliquot
from aliquot import AliquotWarning, EvalSet
from aliquot.cli.main import run
from aliquot.metric_eval.metric_report import MetricReport

SHARED = Path(__file__).parents[3] / "shared" / "data"
if not (SHARED / "wmt23-en-de.jsonl.gz").exists():
    pytest.skip(f"no real data in {SHARED}", allow_module_level=True)

pytestmark = pytest.mark.filterwarnings(f"ignore::{AliquotWarning.__module__}.AliquotWarning")
REFERENCES = {"wmt23-en-de": ["refA", "synthetic_ref"], "wmt23-he-en": ["refA", "refB"]}


def load(name: str) -> EvalSet:
    return load_real(name).drop(systems=REFERENCES.get(name, []))


@pytest.fixture(scope="module", params=list(REFERENCES))
def wmt23(request: pytest.FixtureRequest) -> MetricReport:
    parts = ["decomposition", "breakeven", "correlations", "value", "tests"]
    return aliquot.metrics(load(request.param), parts=parts, trials=2000, permutations=200)


def test_all_metrics_of_wmt23(wmt23):
    assert len(wmt23.metrics) == 42
    for row in wmt23.decomposition:
        assert row.observed == pytest.approx(row.noise + row.bias + row.variance, abs=1e-12)
        assert row.error < 0.005
        assert (row.pairs, row.systems) == (66, 12)
    optimal, people, *metrics = wmt23.decomposition
    assert optimal.observed < min(people.observed, *(row.observed for row in metrics))
    assert sum(row.observed < people.observed for row in metrics) <= 1  # GEMBA-MQM on en-de, by a hair


def test_good_metrics_are_good_and_bad_ones_bad(wmt23):
    """By outputs XCOMET and MetricX-23 lead, by systems GEMBA-MQM; prismSrc is last by systems, eBLEU by outputs."""
    found = {(row.metric, row.level, row.measure): row.value for row in reversed(wmt23.correlations)}

    def places(level: str, measure: str) -> dict[str, int]:
        values = {name: found[name, level, measure] for name in wmt23.metrics}
        return {name: at for at, name in enumerate(sorted(values, key=lambda name: -values[name]), 1)}

    by_item, by_system, pooled = places("within_item", "acc_eq"), places("system", "spa"), places("pooled", "pearson")
    assert max(by_item[name] for name in ("XCOMET-Ensemble", "XCOMET-XXL", "MetricX-23")) <= 6
    assert by_system["GEMBA-MQM"] == 1
    assert by_item["eBLEU"] >= 36
    assert pooled["eBLEU"] == 42
    assert by_system["prismSrc"] == 42
    errors = {row.metric: row.observed for row in wmt23.decomposition if row.kind == "metric"}
    assert max(errors, key=lambda name: errors[name]) == "prismSrc"


def test_worth_falls_with_bias(wmt23):
    rows = sorted(wmt23.breakeven, key=lambda row: row.bias)
    worth = [row.judgments for row in rows]
    assert worth == sorted(worth, reverse=True)
    assert all(row.low <= row.judgments <= row.high for row in rows)


def test_metrics_to_combine(wmt23):
    taken = [row.metric for row in wmt23.suggested if row.taken]
    assert set(taken[:2]) & {"XCOMET-Ensemble", "MetricX-23", "XCOMET-XXL"}
    best = max(row.efficiency for row in wmt23.value)
    assert wmt23.suggested[len(taken) - 1].efficiency > best


def test_three_raters_make_a_perfect_annotator():
    report = aliquot.metrics(load("wmt23-mqm3raters-en-de"), parts=["annotators", "breakeven"], trials=500)
    (row,) = report.annotators
    assert (row.annotators, row.repeated) == (10, 936)
    assert 1.5 < row.ratio < 2.1
    assert 1 < row.matched < row.ratio
    assert all(one.perfect <= 1.2 * one.judgments for one in report.breakeven)


def test_criteria_of_summeval(capsys):
    criteria = ["human_coherence", "human_consistency", "human_fluency", "human_relevance"]
    code = run(
        [
            "metrics",
            str(SHARED / "summeval.jsonl.gz"),
            "--human",
            ",".join(criteria),
            "--common",
            "--json",
            "--parts",
            "decomposition,annotators,correlations",
            "--trials",
            "200",
        ]
    )
    document = json.loads(capsys.readouterr().out)
    assert code == 0
    assert document["humans"] == criteria
    assert [row["source"] for row in document["annotators"]] == [
        f"criterion {name.removeprefix('human_')}, 3 of 8 annotators" for name in criteria
    ]
    assert {row["systems"] for row in document["decomposition"]} == {12}
    cells = {row["cells"] for row in document["decomposition"]}
    assert len(cells) == 1
    best = {
        human: min(
            (row for row in document["decomposition"] if (row["human"], row["kind"]) == (human, "metric")),
            key=lambda row: row["observed"],
        )["metric"]
        for human in criteria
    }
    assert all(name.startswith(("gpt-", "llama-")) for name in best.values())


@pytest.mark.parametrize("name", ["wmt24-esa-en-cs-waves23", "newstest2021-mqm-en-de", "realsumm", "biomqm-en-de"])
def test_every_campaign_gives_a_report(name):
    report = aliquot.metrics(load(name), trials=200, permutations=49)
    assert report.decomposition
    assert report.correlations
    assert report.clusters
    assert np.isfinite([row.value for row in report.correlations if row.measure == "spa"]).all()


def test_campaigns_pooled(capsys):
    files = [str(SHARED / f"biomqm-{pair}.jsonl.gz") for pair in ("en-de", "de-en")]
    assert run(["metrics", *files, "--trials", "300", "--permutations", "20"]) == 0
    out = capsys.readouterr().out
    assert "biomqm-en-de: does the metric move with people" in out
    assert "biomqm-de-en: does the metric move with people" in out
    assert all(len(line) <= 100 for line in out.splitlines() if not line.startswith("aliquot:"))


def test_surface_metrics_equal_those_of_the_data():
    """chrF and BLEU of the shared files were computed with sacrebleu's defaults."""
    data = load_real("wmt24-esa-en-cs-waves23")
    data = data.keep(items=data.ids[:25], systems=list(data.systems[:4]))
    found = aliquot.surface(data, "chrf,bleu", cache=False).data
    for ours, theirs in (("chrf", "chrF_here"), ("bleu", "BLEU_here")):
        both = np.isfinite(found.scores[ours]) & np.isfinite(found.scores[theirs])
        assert both.sum() > 50
        np.testing.assert_allclose(found.scores[ours][both], found.scores[theirs][both], atol=0.006)
