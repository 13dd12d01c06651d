"""Adaptive campaigns in simulate: one run through all budgets, beside methods that choose items once."""

from __future__ import annotations

import numpy as np
import pytest

import aliquot
from aliquot import synthetic
from aliquot.errors import AliquotError
from aliquot.simulation.adaptive import count_wrong_decisions, run_allocator, run_until_decided
from aliquot.simulation.setup import resolve_method

PUBLISHED = "allocate:policy=(rank:power=1),model=means,equal=yes+mean"


@pytest.fixture(scope="module")
def campaign():
    return synthetic(items=60, systems=5, annotators=0, seed=9)


def test_adaptive_and_static_methods_stand_in_one_table(campaign):
    measures = [
        "weighted_tau",
        "top1",
        "top3",
        "spa",
        "mae",
        "coverage",
        "cost",
        "decided",
        "wrongly_decided",
        "stopped_at",
    ]
    result = aliquot.simulate(
        campaign, ["auto", "allocate", PUBLISHED], ["20%", "60%"], repeats=4, measures=measures, parity=False
    )
    frame = result.to_frame()
    assert set(frame["method"]) == {"random", "auto", "allocate", PUBLISHED}
    value = {(row["method"], row["measure"], row["share"]): row["value"] for row in frame.to_dicts()}
    for method in ("allocate", PUBLISHED):
        for share in (0.2, 0.6):
            assert value[method, "cost", share] == pytest.approx(share, abs=0.02)  # budgets are cells
            assert 0 <= value[method, "top3", share] <= 1
            assert value[method, "decided", share] >= 0
        assert value[method, "mae", 0.6] < value[method, "mae", 0.2]
    assert value["allocate", "wrongly_decided", 0.6] == 0.0
    assert np.isnan(value["auto", "decided", 0.6])


def test_the_same_seed_gives_the_same_table_on_any_number_of_processes(campaign):
    one, two = (
        aliquot.simulate(campaign, "allocate", "40%", repeats=2, measures="mae", parity=False, jobs=jobs).to_dict()
        for jobs in (1, 2)
    )
    assert one == two


def test_budgets_may_be_cost(campaign):
    costs = np.linspace(1.0, 5.0, 60)
    (allocator,) = run_allocator(campaign, campaign.human_score(), [0.3], 1, {}, costs)
    asked = [allocator.rows[str(item)] for item in allocator.selection().ids]
    counts = np.array([len(names) for names in allocator.selection().systems or ()])
    spent = float((costs[asked] * counts).sum()) / (costs.sum() * 5)
    assert spent == pytest.approx(0.3, abs=0.02)


def test_a_run_ends_when_it_is_decided(campaign):
    run = run_until_decided(campaign, campaign.human_score(), 3, {"question": "best"}, step=0.05)
    assert run.decided
    assert run.right
    assert run.best == campaign.systems[int(campaign.human_score().mean(axis=0).argmax())]
    assert run.cells <= campaign.human_score().size


def test_ties_should_not_be_decided(campaign):
    (allocator,) = run_allocator(campaign, campaign.human_score(), [1.0], 1, {"question": "ranking"})
    picture = allocator.advice().picture
    assert count_wrong_decisions(picture, campaign, campaign.human_score()) == 0
    assert count_wrong_decisions(picture, campaign, np.zeros((60, 5))) == len(picture.decided) > 0


def test_what_allocate_means_without_an_estimator(campaign):
    assert resolve_method("allocate", campaign).estimator.name == "greg"
    assert resolve_method(PUBLISHED, campaign).estimator.name == "mean"


@pytest.mark.parametrize(
    ("method", "options", "said"),
    [
        ("allocate:policy=atuo", {}, "unknown policy 'atuo'; did you mean 'auto'"),
        ("allocate:modle=means", {}, "did you mean 'model'"),
        ("allocate", {"unit": "document"}, "decides cell by cell"),
        ("allocate", {"balance": "domain"}, "decides cell by cell"),
    ],
)
def test_what_does_not_fit(campaign, method, options, said):
    with pytest.raises(AliquotError, match=said):
        aliquot.simulate(campaign, method, "40%", repeats=2, parity=False, **options)


@pytest.mark.parametrize("question", ["ranking", "best"])
def test_equal_systems_are_rarely_told_apart(question):
    """Each item's scores, shuffled over systems and centred: any decided pair, any named best is wrong.

    40 runs at alpha 0.1 (benchmarks/study_adaptive.py makes 1,000 at 0.05): at most 0.1 and three standard errors.
    """
    data = aliquot.synthetic(items=60, systems=3, seed=0)
    wrong = 0
    for seed in range(40):
        scores = np.random.default_rng([seed, 7]).permuted(data.human_score(), axis=1)
        scores = scores - scores.mean(axis=0)
        run = run_until_decided(data, scores, seed, {"question": question, "alpha": 0.1}, step=0.25)
        wrong += run.decided if question == "best" else not run.right
    assert wrong <= 40 * 0.1 + 3 * np.sqrt(40 * 0.09)


def test_deciding_the_best_takes_fewer_cells_than_uniform_allocation(campaign):
    """Same guarantee, same order of items: rivals go on side by side, systems that are out get nothing more."""
    scores = campaign.human_score() - 3.0 * np.arange(campaign.n_systems)
    cells = {
        policy: np.mean(
            [
                run_until_decided(campaign, scores, seed, {"question": "best", "policy": policy}, step=0.05).cells
                for seed in range(3)
            ]
        )
        for policy in ("uniform", "auto")
    }
    assert cells["auto"] <= cells["uniform"]
