"""Corpus-level BLEU, chrF and TER: one score for a whole sample of a system's outputs (Wei and Jia 2021).

A sample's score is not the mean of sentence scores, so it is computed anew for every draw of items, from statistics
that sacrebleu takes once for each output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from aliquot.core.registry import Spec
from aliquot.errors import OptionError
from aliquot.metric_eval.metric_inputs import MetricInputs, ScoredCampaign
from aliquot.metric_eval.sacrebleu_scorers import Scorer, make_scorer, parse_compute, silence_sacrebleu
from aliquot.metric_eval.surface import collect_references, list_outputs
from aliquot.stats.arrays import FloatArray, Seed
from aliquot.stats.bias_variance import PairSigns
from aliquot.stats.corpus_scores import CorpusScore, corpus_bleu, corpus_chrf, corpus_sign_counts, corpus_ter
from aliquot.stats.resampling import spawn_seeds


@dataclass(frozen=True, eq=False)
class CorpusMetric:
    """One metric of one campaign."""

    name: str  # as typed, with `corpus` before it
    statistics: FloatArray  # judged items x judged systems x sacrebleu's statistics; NaN without text or judgment
    score: CorpusScore  # higher is better
    signature: str

    def on_all(self) -> FloatArray:
        """Return the score of each system on all its judged outputs; NaN without any."""
        is_present = np.asarray(np.isfinite(self.statistics).all(axis=2))
        sums = np.where(is_present[:, :, None], self.statistics, 0.0).sum(axis=0)
        return np.where(is_present.any(axis=0), self.score(sums), np.nan)


def compute_corpus_metrics(campaign: ScoredCampaign, compute: str | Sequence[str]) -> list[CorpusMetric]:
    """Take the statistics of a campaign's judged outputs.

    >>> import aliquot
    >>> from aliquot.metric_eval.metric_inputs import build_inputs
    >>> inputs = build_inputs([aliquot.synthetic(items=20, systems=2, seed=1)])
    >>> [one.name for one in compute_corpus_metrics(inputs.campaigns[0], "bleu,ter:cap=100")]
    ['corpus bleu', 'corpus ter:cap=100']
    """
    return [_build_metric(campaign, spec) for spec in parse_compute(compute)]


def _build_metric(campaign: ScoredCampaign, spec: Spec) -> CorpusMetric:
    # Effective order is meant for single sentences: a corpus has n-grams of every order.
    corpus_spec = (
        replace(spec, parameters={"effective_order": "no", **spec.parameters}) if spec.name == "bleu" else spec
    )
    scorer = make_scorer(corpus_spec)
    references = collect_references(campaign.data)
    if scorer.references == "first":
        references = [texts_of_item[:1] for texts_of_item in references]
    judged_references = [
        texts_of_item for texts_of_item, is_judged in zip(references, campaign.rows, strict=True) if is_judged
    ]
    columns = []
    for index, system in enumerate(campaign.systems):
        texts = [
            text
            for text, is_judged in zip(list_outputs(campaign.data, system), campaign.rows, strict=True)
            if is_judged
        ]
        judged = np.isfinite(campaign.human[:, index])
        columns.append(
            _collect_statistics(
                scorer, [t if j else None for t, j in zip(texts, judged, strict=True)], judged_references
            )
        )
    width = max(len(row) for column in columns for row in column)
    table = np.full((len(judged_references), len(columns), width), np.nan)
    for index, column in enumerate(columns):
        for row, numbers in enumerate(column):
            table[row, index, : len(numbers)] = numbers or np.nan
    return CorpusMetric(f"corpus {spec}", table, _score_function(scorer, spec), scorer.signature)


def _collect_statistics(scorer: Scorer, texts: list[str | None], references: list[list[str]]) -> list[list[float]]:
    """Return sacrebleu's statistics of each text; empty without text or reference."""
    with silence_sacrebleu():
        return [
            []
            if text is None or not item_references
            else scorer.metric._extract_corpus_statistics(  # noqa: SLF001  (sacrebleu's own tests resample these)
                [scorer.tokenize(text)], [[scorer.tokenize(reference)] for reference in item_references]
            )[0]
            for text, item_references in zip(texts, references, strict=True)
        ]


def _score_function(scorer: Scorer, spec: Spec) -> CorpusScore:
    metric = scorer.metric
    if spec.name == "bleu":
        return partial(
            corpus_bleu,
            order=metric.max_ngram_order,
            smooth=metric.smooth_method,
            smooth_value=metric.smooth_value,
            effective=metric.effective_order,
        )
    if spec.name == "chrf":
        return partial(corpus_chrf, beta=metric.beta, eps_smoothing=metric.eps_smoothing)
    return partial(_negate_ter, cap=scorer.cap)


def _negate_ter(sums: FloatArray, *, cap: float) -> FloatArray:
    return -corpus_ter(sums, cap=cap)


def add_corpus_metrics(
    inputs: MetricInputs, signs: list[PairSigns], compute: str | Sequence[str], trials: int, *, paired: bool, seed: Seed
) -> tuple[MetricInputs, list[PairSigns], tuple[str, ...]]:
    """Add corpus-level metrics to the bootstrap of signs, after the others; and their signatures, as notes."""
    if paired:
        raise OptionError("corpus-level metrics are drawn independently of people, as in the paper; leave `paired` out")
    joined, notes, names = [], [], []
    for campaign, campaign_signs, child in zip(inputs.campaigns, signs, spawn_seeds(seed, len(signs)), strict=True):
        metrics = compute_corpus_metrics(campaign, compute)
        counts = corpus_sign_counts([m.statistics for m in metrics], [m.score for m in metrics], trials, seed=child)
        plus = np.concatenate([campaign_signs.metrics.plus, counts.plus], axis=1)
        joined.append(PairSigns(campaign_signs.human, replace(campaign_signs.metrics, plus=plus)))
        names = [metric.name for metric in metrics]
        notes += [f"'{metric.name}': {metric.signature}" for metric in metrics]
    return replace(inputs, corpus=tuple(names)), joined, tuple(dict.fromkeys(notes))
