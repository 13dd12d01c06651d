"""Corpus-level metrics against people: sacrebleu's corpus scores, and rows beside those of sentence-level metrics."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

import aliquot
from aliquot import EvalSet
from aliquot.errors import OptionError
from aliquot.metric_eval.corpus import compute_corpus_metrics
from aliquot.metric_eval.metric_inputs import build_inputs


@pytest.fixture(scope="module")
def data() -> EvalSet:
    """Three systems that drop words: the more they drop, the worse people find them."""
    rng = np.random.default_rng(1)
    words = np.array(
        [
            "the",
            "a",
            "cat",
            "dog",
            "sat",
            "ran",
            "on",
            "under",
            "mat",
            "house",
            "and",
            "then",
            "it",
            "was",
            "very",
            "old",
        ]
    )
    references = [" ".join(rng.choice(words, size=12)) for _ in range(60)]

    def damaged(text: str, share: float) -> str:
        return " ".join(word for word in text.split() if rng.random() > share)

    shares = {"A": 0.05, "B": 0.2, "C": 0.5}
    outputs = {name: [damaged(text, share) for text in references] for name, share in shares.items()}
    human = np.array(list(shares.values())) * -40 + rng.normal(size=(60, 3))
    return EvalSet(
        items=pl.DataFrame({"id": range(60), "reference": references}),
        systems=("A", "B", "C"),
        outputs=pl.DataFrame(outputs),
        scores={"human": human, "m": human + rng.normal(size=human.shape)},
        human="human",
        name="made",
    )


def test_scores_on_all_items_are_sacrebleus(data):
    campaign = build_inputs([data]).campaigns[0]
    found = compute_corpus_metrics(campaign, "bleu,chrf:word_order=2,ter")
    references = data.items["reference"].to_list()
    for metric, peer, sign in zip(found, (BLEU(), CHRF(word_order=2), TER()), (1, 1, -1), strict=True):
        expected = [sign * peer.corpus_score(data.outputs[name].to_list(), [references]).score for name in "ABC"]
        assert metric.on_all() == pytest.approx(expected, abs=1e-9)
    assert "|eff:no|" in found[0].signature


def test_corpus_metrics_stand_beside_the_others(data):
    report = aliquot.metrics(data, parts=["decomposition", "breakeven"], corpus="bleu,ter:cap=100", trials=300)
    rows = {row.metric: row for row in report.decomposition}
    assert list(rows) == ["Optimal predictor", "Human", "m", "corpus bleu", "corpus ter:cap=100"]
    for row in rows.values():
        assert row.observed == pytest.approx(row.noise + row.bias + row.variance)
    assert rows["corpus bleu"].bias == 0
    assert {row.metric for row in report.breakeven} == {"m", "corpus bleu", "corpus ter:cap=100"}
    assert "|corpus:bleu,ter:cap=100|" in report.signature
    assert any(note.startswith("'corpus bleu': nrefs:1") for note in report.notes)
    same = aliquot.metrics(data, parts=["decomposition"], trials=300)
    assert same.decomposition[2] == report.decomposition[2]  # the others' numbers stay


def test_what_corpus_refuses(data):
    with pytest.raises(OptionError, match="leave `paired` out"):
        aliquot.metrics(data, corpus="bleu", paired=True, trials=10)
    with pytest.raises(OptionError, match="add one of them"):
        aliquot.metrics(data, corpus="bleu", parts=["tests"])


def test_squared_error_by_hand(data):
    """Var(D_h) + (d_h - b d_m)^2 + b^2 Var(D_m) of three pairs, and as draws of items have it."""
    report = aliquot.metrics(data, parts=["squared_error"])
    optimal, human, metric = report.squared_error
    y, f = data.scores["human"], data.scores["m"]
    first, second = np.triu_indices(3, 1)
    d_h, d_m = y[:, first] - y[:, second], f[:, first] - f[:, second]
    b = (d_h.mean(axis=0) @ d_m.mean(axis=0)) / (d_m.mean(axis=0) @ d_m.mean(axis=0))
    noise = float((d_h.var(axis=0) / 60).mean())
    assert (optimal.observed, human.observed) == pytest.approx((noise, 2 * noise))
    assert metric.factor == pytest.approx(b)
    assert metric.variance == pytest.approx(float((b**2 * d_m.var(axis=0) / 60).mean()))
    assert metric.bias == pytest.approx(float(((d_h.mean(axis=0) - b * d_m.mean(axis=0)) ** 2).mean()))
    assert metric.observed == pytest.approx(metric.noise + metric.bias + metric.variance)
    rng = np.random.default_rng(2)
    draws = rng.integers(60, size=(2, 4000, 60))
    simulated = ((d_h[draws[0]].mean(axis=1) - b * d_m[draws[1]].mean(axis=1)) ** 2).mean()
    assert metric.observed == pytest.approx(float(simulated), rel=0.05)
