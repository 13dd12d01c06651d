"""Two verbs that are asked the same question give the same answer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.cli.same_answers import differing, gather_answers

import aliquot as package

pytest.importorskip("jinja2")


@pytest.fixture
def campaign():
    return package.synthetic(
        items=60, systems=4, protocol="da", annotators=4, judgments_per_output=2, metrics={"A": 0.5}, seed=5
    )


def test_a_whole_campaign(aliquot, tmp_path, campaign):
    package.save(campaign, tmp_path / "data.jsonl")
    answers = gather_answers(aliquot, tmp_path / "data.jsonl")
    assert differing(answers) == []
    assert {"result of plan", "coefficients", "metrics: breakeven", "annotators", "items for 15%"} <= answers.keys()


def test_a_pilot_with_a_selection_and_judgments_apart(aliquot, tmp_path, campaign):
    chosen = package.select(campaign, budget=31, seed=1)
    chosen.save(tmp_path / "chosen.jsonl", campaign)
    assert campaign.judgments is not None
    made = campaign.judgments.keep(items=list(chosen.ids))
    made.table.write_csv(tmp_path / "made.csv")
    bare = {name: values for name, values in campaign.scores.items() if name != "human"}
    package.save(replace(campaign, judgments=None, human=None, scores=bare), tmp_path / "data.jsonl")
    answers = gather_answers(aliquot, tmp_path / "data.jsonl", tmp_path / "chosen.jsonl", tmp_path / "made.csv")
    assert differing(answers) == []
    assert {"result of plan", "coefficients", "P(best)", "width", "annotators"} <= answers.keys()


def test_scores_without_judgments_on_some_items(aliquot, tmp_path):
    data = package.synthetic(items=97, systems=5, annotators=0, seed=2)
    scores = data.human_score().copy()
    scores[np.random.default_rng(1).permutation(97)[41:]] = np.nan
    package.save(data.with_score("human", scores), tmp_path / "data.jsonl")
    answers = gather_answers(aliquot, tmp_path / "data.jsonl")
    assert differing(answers) == []
    assert {"result of plan", "P(best)", "what metrics replace", "items for 63%"} <= answers.keys()


def test_choices(aliquot, tmp_path):
    rng = np.random.default_rng(3)
    rows = [f"{i},p{i % 3},{a},{b},{'ab'[int(rng.random() < 0.6)]}" for i in range(40) for a, b in ("xy", "yz", "xz")]
    (tmp_path / "choices.csv").write_text("\n".join(["item,annotator,system_a,system_b,choice", *rows]))
    alone = aliquot("compare", tmp_path / "choices.csv", "--json").json
    report = aliquot("report", tmp_path / "choices.csv", "--json").json["sets"][0]
    assert differing({"result": {"compare": alone, "report": report["results"]["compare"]}}) == []
    judged = next(section["verdict"] for section in report["sections"] if section["id"] == "judged")
    assert judged.startswith(
        f"People made {alone['choices']} choices by {alone['annotators']} annotators on {alone['items']} items"
    )
