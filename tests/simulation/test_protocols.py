"""The study of WMT's sampling protocols: counts of sets, matching and separate draws, lengths of documents."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from aliquot import EvalSet
from aliquot.errors import DataError, NameUnknownError, OptionError
from aliquot.simulation.protocols import JUDGED, PROTOCOLS, RUNS, SEED, replay_protocols


@pytest.fixture(scope="module")
def sets(campaign):
    return [campaign(items=150, seed=seed, name=f"set{seed}") for seed in (1, 2, 3)]


@pytest.fixture(scope="module")
def study(sets):
    return replay_protocols(sets)


def test_the_design_of_the_paper(study):
    assert (RUNS, SEED, study.runs) == (13, 13, 13)
    scores = ["human", "metricA", "metricB", "metricC"]
    assert [(row.score, row.protocol, row.matching) for row in study.rows] == [
        (score, protocol, matching) for score in scores for protocol in PROTOCOLS for matching in (True, False)
    ]
    for row in study.rows:
        assert 0 <= row.best <= row.median <= row.worst <= row.sets == 3
        assert row.budget == 0.3


def test_counts_are_of_sets_whose_ranking_changes(sets):
    """One set, one run: the count is whether the sample's means order the systems as all items do."""
    from aliquot.simulation.replay import ReplaySet, draw_items
    from aliquot.simulation.setup import BudgetPoint, resolve_method

    for seed in range(4):
        study = replay_protocols(sets[0], "20%", scores=["human"], runs=1, seed=seed)
        truth = np.argsort(sets[0].human_score().mean(axis=0))
        for row in study.rows:
            if row.matching:
                chosen = draw_items(
                    ReplaySet(sets[0]),
                    resolve_method(row.protocol, sets[0]),
                    BudgetPoint(0.2, 0.2),
                    np.random.default_rng([seed, 0, 0]),
                )
                same = np.array_equal(np.argsort(sets[0].human_score()[chosen.rows].mean(axis=0)), truth)
                assert row.best == row.worst == int(not same)


def test_matching_draws_keep_the_ranking_better(campaign):
    """What all systems share cancels in differences when they are judged on the same items."""
    hard = np.random.default_rng(0).normal(scale=40.0, size=(60, 1))
    data = campaign(human=lambda human: 0.2 * human + hard - np.arange(4.0))
    study = replay_protocols(data, "30%", scores=["human"], runs=60)
    for protocol in PROTOCOLS:
        matching, separate = (row for row in study.rows if row.protocol == protocol)
        assert (matching.matching, separate.matching) == (True, False)
        assert separate.median == 1
    assert [row.median for row in study.rows if row.protocol == "segments"] == [0, 1]


def test_everything_judged_changes_nothing(sets):
    study = replay_protocols(sets, "100%", runs=2)
    assert {row.worst for row in study.rows} == {0}


def test_the_same_seed_gives_the_same_study(sets, study):
    assert replay_protocols(sets, seed=1).rows != study.rows
    one, two = (replay_protocols(sets, scores=["human", "metricA"], runs=3, jobs=jobs) for jobs in (1, 2))
    assert one.rows == two.rows


def test_data_without_documents_show_segments_only(campaign):
    study = replay_protocols([campaign(documents=False, name="bare"), campaign(name="with")], runs=3)
    sets = {row.protocol: row.sets for row in study.rows}
    assert sets == {"segments": 2, "documents": 1, "snippets_fixed": 1, "snippets_budgeted": 1}
    assert study.notes == ("bare: no documents, so segments only",)
    assert {row.data for row in study.lengths} == {"with"}
    alone = replay_protocols(campaign(documents=False), runs=3)
    assert {row.protocol for row in alone.rows} == {"segments"}
    assert alone.lengths == ()


def test_budgeted_snippets_keep_the_lengths_of_documents(sets):
    """Their Table 4: budgeted snippets and segments are close to the whole set, within chance."""
    study = replay_protocols(sets[0], runs=60, scores=["human"])
    shares = {row.protocol: row.shares for row in study.lengths}
    assert list(shares) == ["all items", *PROTOCOLS]
    whole = shares["all items"]
    assert sum(whole.values()) == pytest.approx(1.0)
    codes = sets[0].documents
    lengths = np.bincount(codes)[codes]
    assert whole["0-9"] == pytest.approx((lengths < 10).mean())
    for protocol, row in shares.items():
        assert sum(row.values()) == pytest.approx(1.0)
        off = max(abs(row[name] - whole[name]) for name in whole)
        assert off < {"snippets_budgeted": 0.03, "segments": 0.03}.get(protocol, 0.25)


def partly_judged(data: EvalSet, judged: np.ndarray) -> EvalSet:
    """The campaign with human scores of the marked cells only."""
    return data.with_score("human", np.where(judged, data.scores["human"], np.nan)).with_human("human")


def test_what_people_judged_is_a_sample_too(campaign):
    """Their "Sampled at WMT": by hand, whether the judged cells rank systems by a metric as all cells do."""
    rng = np.random.default_rng(0)
    data = campaign(items=100)
    seen = set()
    for share in (0.05, 0.1, 0.9):
        judged = rng.random((100, 4)) < share
        part = partly_judged(data, judged)
        metric = part.scores["metricA"]
        means = [metric[judged[:, at], at].mean() for at in range(4)]
        changed = int(np.argsort(means).tolist() != np.argsort(metric.mean(axis=0)).tolist())
        study = replay_protocols(part, "30%", scores=["metricA"], runs=2)
        (row,) = (row for row in study.rows if row.protocol == JUDGED)
        assert (row.best, row.median, row.worst, row.sets, row.matching) == (changed, changed, changed, 1, False)
        seen.add(changed)
        (covered,) = study.coverage
        assert covered.systems == pytest.approx(dict(zip(data.systems, judged.mean(axis=0), strict=True)))
        assert covered.mean == pytest.approx(judged.mean())
        assert {row.protocol for row in study.lengths} == {"all items", *PROTOCOLS, JUDGED}
    assert seen == {0, 1}
    document = json.loads(json.dumps(study.to_dict(), allow_nan=False))
    assert document["coverage"][0]["systems"].keys() == set(data.systems)


def test_the_own_coverage_of_each_set_as_budget(campaign):
    """With one set the budget `judged` is its coverage written out; items judged for all systems are matching."""
    data = campaign(items=100)
    judged = np.repeat(np.arange(100)[:, None] % 4 == 0, 4, axis=1)
    part = partly_judged(data, judged)
    own, written = (replay_protocols(part, budget, scores=["metricA"], runs=5) for budget in ("judged", "25%"))
    assert [(row.protocol, row.best, row.median, row.worst) for row in own.rows] == [
        (row.protocol, row.best, row.median, row.worst) for row in written.rows
    ]
    assert own.rows[-1].matching
    with pytest.raises(DataError, match="it has no human scores"):
        replay_protocols(data.with_human(None), "judged")


def test_scores_that_are_there_only_in_part(campaign):
    data = campaign()
    part = data.with_score("part", np.where(np.arange(60)[:, None] % 2, data.scores["metricA"], np.nan))
    few = part.with_score("few", np.where(np.arange(60)[:, None] < 5, data.scores["metricB"], np.nan))
    study = replay_protocols([few, campaign(name="other", seed=3)], scores=["part", "human"], runs=2)
    assert {row.score: row.sets for row in study.rows} == {"part": 1, "human": 2}
    assert {r.score for r in replay_protocols(few, scores=["few", "part"], runs=2).rows} == {"part"}
    with pytest.raises(DataError, match="no set has enough complete items"):
        replay_protocols(few, scores=["few"], runs=2)


def test_data_without_human_scores_study_metrics(campaign):
    data = campaign().with_human(None)
    study = replay_protocols(data, runs=2)
    assert "human" not in {row.score for row in study.rows}
    assert len(study.rows) == 3 * 8


def test_results_as_table_and_json(study):
    frame = study.to_frame()
    assert frame.columns == ["score", "protocol", "matching", "budget", "sets", "best", "median", "worst"]
    document = json.loads(json.dumps(study.to_dict(), allow_nan=False))
    assert document["protocols"][0].keys() == {
        "score",
        "protocol",
        "matching",
        "budget",
        "sets",
        "best",
        "median",
        "worst",
    }
    assert document["document_lengths"][0]["shares"]
    assert document["runs"] == 13
    assert "simulate:protocols|budget:30%" in document["signature"]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"runs": 0}, OptionError, "`runs` is 0"),
        ({"budget": "10%,20%"}, OptionError, "takes one budget"),
        ({"budget": "5%:50%:3"}, OptionError, "takes one budget"),
        ({"budget": "400%"}, OptionError, "at most 100%"),
        ({"budget": 1000}, OptionError, "all 150 items of set1"),
        ({"scores": ["metricZ"]}, NameUnknownError, "unknown score 'metricZ'; did you mean 'metric"),
        ({"human": "DA"}, NameUnknownError, "unknown score 'DA'"),
    ],
    ids=str,
)
def test_slips(sets, options, error, message):
    with pytest.raises(error, match=message):
        replay_protocols(sets, **options)
    with pytest.raises(DataError, match="no score to rank systems by"):
        replay_protocols([])


def test_a_draw_without_any_document_is_a_change_of_the_ranking(campaign):
    data = campaign(items=40)
    halves = pl.Series("document", ["first"] * 20 + ["second"] * 20)
    study = replay_protocols(replace(data, items=data.items.with_columns(halves)), "10%", scores=["human"], runs=2)
    assert {row.worst for row in study.rows if row.protocol == "documents"} == {1}
