"""Two stages: chances multiply exactly, and estimates are unbiased for the full pool."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import aliquot
from aliquot.core.evalset import take_rows
from aliquot.core.selection import Selection
from aliquot.errors import AliquotWarning, DataError, OptionError
from aliquot.sampling.select import select
from aliquot.sampling.summary import summarise_selection
from aliquot.stats.arrays import FloatArray

estimate_given = partial(aliquot.estimate, target="given")  # the mean of these very scores, whose truth is known

POOL = aliquot.synthetic(items=40, systems=3, seed=4)
SOURCES = replace(POOL, systems=(), scores={}, outputs=None, judgments=None, human=None)
UNJUDGED = replace(POOL, scores={name: POOL.scores[name] for name in POOL.metrics}, human=None, judgments=None)


def with_outputs(first: Selection) -> aliquot.EvalSet:
    """What there is after the first stage: metrics of the chosen items only, and no human score yet."""
    return first.of(UNJUDGED)


def chances(selection: Selection) -> FloatArray:
    assert selection.probability is not None
    return selection.probability


def two_stages(seed: int) -> Selection:
    first = select(SOURCES, "pps:size=length,tau=0.3", 20, seed=seed)
    return select(with_outputs(first), "pps:size=difficulty,tau=0.3", 8, within=first, seed=seed + 10_000)


def test_probabilities_are_products():
    first = select(SOURCES, "pps:size=length,tau=0.3", 20, seed=1)
    alone = select(with_outputs(first), "pps:size=difficulty,tau=0.3", 8, seed=2)
    both = select(with_outputs(first), "pps:size=difficulty,tau=0.3", 8, within=first, seed=2)
    assert both.ids == alone.ids
    assert (both.population, alone.population) == (40, 20)
    before = dict(zip(first.ids, chances(first), strict=True))
    assert both.probability == pytest.approx([before[i] * p for i, p in zip(alone.ids, chances(alone), strict=True)])
    assert both.weight == pytest.approx(1 / chances(both))
    assert "within:pps:size=length,tau=0.3#" in both.signature


def test_the_pool_itself_may_be_given_for_the_second_stage():
    first = select(SOURCES, "segments", 20, seed=1)
    chosen = select(POOL, "metric_var", "50%", metric="metricA", within=first)
    assert len(chosen) == 10
    assert set(chosen.ids) <= set(first.ids)
    assert chosen.probability is None


def test_totals_are_unbiased_over_both_stages():
    """E[sum over the sample of x / pi] = sum over the pool of x, whatever x: chances are what they claim to be.

    pi is the chance given the first stage's draw; so the weights, not the frequencies, are what is exact.
    """
    runs = 800
    total = np.zeros((runs, 2))
    rows = {item: at for at, item in enumerate(POOL.ids)}
    human = POOL.scores["human"].mean(axis=1)
    for run in range(runs):
        chosen = two_stages(run)
        at = [rows[item] for item in chosen.ids]
        total[run] = [(1 / chances(chosen)).sum(), (human[at] / chances(chosen)).sum()]
    truth = np.array([40.0, human.sum()])
    error = total.std(axis=0) / np.sqrt(runs)
    assert (np.abs(total.mean(axis=0) - truth) < 4 * error).all()


def test_inclusion_frequencies_match_where_the_second_stage_is_plain():
    """With equal chances in the second stage pi is the same in every draw: frequencies must equal it."""
    runs = 800
    count = np.zeros(40)
    pi = np.full(40, np.nan)
    rows = {item: at for at, item in enumerate(POOL.ids)}
    for run in range(runs):
        first = select(SOURCES, "pps:size=length,tau=0.3", 20, seed=run)
        chosen = select(with_outputs(first), "segments", 8, within=first, seed=run + 1)
        at = [rows[item] for item in chosen.ids]
        count[at] += 1
        pi[at] = chances(chosen)
    z = (count / runs - pi) / np.sqrt(pi * (1 - pi) / runs)
    assert np.abs(z).max() < 4.5
    assert (z**2).mean() < 1.5


@pytest.mark.parametrize("method", ["mean", "greg"])
@pytest.mark.parametrize("whole", [True, False])
def test_estimates_are_about_the_pool(method, whole):
    """Whether the data hold the pool or only the first stage, and with a first stage that prefers long sources."""
    pool = aliquot.synthetic(items=200, systems=3, seed=9)
    sources = replace(pool, systems=(), scores={}, outputs=None, judgments=None, human=None)
    truth = pool.scores["human"].mean(axis=0)
    errors, covered = [], []
    for run in range(80):
        first = select(sources, "pps:size=length,tau=0.2", 120, seed=run)
        chosen = select(pool, "pps:size=difficulty,tau=0.3", 50, within=first, seed=run + 999)
        human = np.where(np.isin(pool.ids, chosen.ids)[:, None], pool.scores["human"], np.nan)
        outside = ~np.isin(pool.ids, first.ids)
        scores = {name: np.where(outside[:, None], np.nan, pool.scores[name]) for name in pool.metrics}
        data = replace(pool, scores={**scores, "human": human}, judgments=None)
        data = data if whole else take_rows(data, np.flatnonzero(~outside))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AliquotWarning)
            result = estimate_given(data, method, selection=chosen)
        assert result.population == 200
        by_name = {row.system: row for row in result.systems}
        rows = [by_name[name] for name in pool.systems]
        errors.append([row.estimate - t for row, t in zip(rows, truth, strict=True)])
        covered.append([row.low <= t <= row.high for row, t in zip(rows, truth, strict=True)])
    off = np.array(errors)
    assert (np.abs(off.mean(axis=0)) < 4 * off.std(axis=0) / np.sqrt(len(off)) + 0.03 * off.std(axis=0)).all()
    assert 0.88 <= np.mean(covered) <= 1.0


def test_a_first_stage_without_probabilities_is_told():
    first = select(SOURCES, "source_length", 20)
    with pytest.warns(AliquotWarning, match="about the items it chose"):
        chosen = select(POOL, "segments", 8, within=first)
    assert chosen.population == 20


def test_whole_documents_in_the_first_stage_make_wider_intervals():
    """Items of a document are alike: the standard error must know it, whichever stage chose whole documents."""
    rng = np.random.default_rng(0)
    pool = aliquot.synthetic(items=90, systems=2, seed=4)
    assert pool.documents is not None
    shared = rng.normal(0, 0.6 * pool.scores["human"].std(), pool.documents.max() + 1)[pool.documents]
    pool = pool.with_score("human", pool.scores["human"] + shared[:, None])
    sources = replace(pool, systems=(), scores={}, outputs=None, judgments=None, human=None)
    found, errors = [], []
    for run in range(150):
        first = select(sources, "documents", 45, seed=run)
        chosen = select(pool, "segments", 18, within=first, seed=run + 999)
        assert chosen.design.variance == "clustered"
        row = estimate_given(pool, "mean", selection=chosen).systems[0]
        found.append(row.estimate)
        errors.append(row.se)
    assert np.mean(errors) > 0.9 * np.std(found)


def test_data_may_hold_more_than_a_first_stage_without_probabilities():
    first = select(SOURCES, "source_length", 20)
    with pytest.warns(AliquotWarning, match="no probabilities"):
        chosen = select(POOL, "segments", 8, within=first)
    with pytest.warns(AliquotWarning, match="about 20 of them"):
        result = estimate_given(POOL, "mean", selection=chosen)
    assert (result.population, result.judged) == (20, 8)
    rows = [POOL.ids.index(item) for item in chosen.ids]
    means = dict(zip(POOL.systems, POOL.scores["human"][rows].mean(axis=0), strict=True))
    assert {row.system: row.estimate for row in result.systems} == pytest.approx(means)
    said = summarise_selection(chosen, POOL)
    assert "about those items" in said.effect
    assert any("no probabilities" in note for note in said.notes)


def test_items_excluded_in_the_first_stage_may_be_in_the_data():
    first = select(SOURCES, "segments", 20, exclude_items=list(POOL.ids[:5]), seed=1)
    chosen = select(POOL, "segments", 8, within=first, seed=2)
    with pytest.warns(AliquotWarning, match="about 35 of them"):
        assert estimate_given(POOL, selection=chosen).population == 35


def test_metrics_of_the_first_stage_alone_are_refused_by_name():
    first = select(SOURCES, "segments", 20, seed=1)
    chosen = select(POOL, "segments", 8, within=first, seed=2)
    with pytest.raises(OptionError, match="metrics=metricA: known of the first stage's items only"):
        estimate_given(first.of(POOL), "greg:metrics=metricA", selection=chosen)
    assert estimate_given(POOL, "greg:metrics=metricA", selection=chosen).population == 40


def test_mistakes_are_told():
    first = select(SOURCES, "segments", 20, seed=1)
    outside = [item for item in POOL.ids if item not in first.ids]
    with pytest.raises(DataError, match="not in the data"):
        select(POOL.keep(items=outside), "segments", 8, within=first)
    with pytest.raises(OptionError, match="exclude them in the first"):
        select(POOL, "segments", 8, within=first, exclude_items=[first.ids[0]])


def test_a_two_stage_selection_survives_its_file(tmp_path):
    chosen = two_stages(3)
    chosen.save(tmp_path / "second.jsonl", POOL)
    assert Selection.load(tmp_path / "second.jsonl") == chosen
