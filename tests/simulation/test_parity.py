"""Parity (eq. 12 of Zouhar et al. 2025): `simulate`, `aliquot.meta` and subset2evaluate's names tell the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

import aliquot
from aliquot import EvalSet, meta
from aliquot.compat import evaluate
from aliquot.io.formats import items as item_lines
from aliquot.simulation.summary import summarise_methods
from aliquot.simulation.units import ReplayCell
from aliquot.stats.pairwise import analytic_p, prefix_spa, random_spa, spa

METHODS = ("metric_var:metric=metricA", "metric_avg:metric=metricB")


@pytest.fixture(scope="module")
def past():
    return aliquot.synthetic(items=160, systems=9, seed=4)


@pytest.fixture(scope="module")
def simulated(past):
    return aliquot.simulate(past, METHODS, repeats=2, measures="spa,accuracy,mae", seed=1)


def in_order(past: EvalSet, method: str) -> np.ndarray:
    row_of = {item: row for row, item in enumerate(past.ids)}
    scores: np.ndarray = past.human_score()
    return scores[[row_of[item] for item in aliquot.select(past, method).ids]]


def by_hand(scores: np.ndarray, ordered: np.ndarray, shares: Sequence[float], samples: int = 2000) -> float:
    """Eq. 12, sample by sample and prefix by prefix."""
    rng, full = np.random.default_rng(7), analytic_p(scores)
    curve = [spa(analytic_p(ordered[:k]), full) for k in range(1, len(ordered) + 1)]
    ratios = []
    for share in shares:
        n = round(share * len(scores))
        drawn = [spa(analytic_p(scores[rng.choice(len(scores), n, replace=False)]), full) for _ in range(samples)]
        reached = next(k for k, value in enumerate(curve, start=1) if value >= np.mean(drawn))
        ratios.append(reached / len(scores) / share)
    return float(np.mean(ratios))


@pytest.mark.parametrize("method", METHODS)
def test_simulate_and_meta_agree_within_the_printed_error(past, simulated, method):
    ordered = in_order(past, method)
    row = simulated.row(method, "spa")
    assert 0 <= row.parity_error < 0.02
    exact = meta.parity(ordered, past)
    assert row.parity == pytest.approx(exact, abs=4 * row.parity_error + 0.005)
    if method == METHODS[0]:
        hand = by_hand(past.human_score(), ordered, meta.SHARES)
        assert row.parity == pytest.approx(hand, abs=4 * row.parity_error + 0.01)


def test_subset2evaluates_parity_agrees(past):
    """Its p-values come from 1,000 permutations, and it starts at 5 items: budgets where that is no limit.

    An order's curve is a staircase: the noise of the permutations moves a crossing by a step now and then.
    """
    shares = meta.SHARES[3:]
    items = list(item_lines.iterate_records(past))
    row_of = {item["i"]: item for item in items}
    targets, _ = evaluate.precompute_spa_randnorm(items, random_seeds=60, props=shares)
    off = []
    for method in (f"{name}:metric=metric{which}" for name in ("metric_var", "metric_avg") for which in "ABC"):
        chosen = [row_of[item] for item in aliquot.select(past, method).ids]
        theirs = evaluate.eval_spa_par(chosen, items, targets, props=shares)
        off.append(abs(theirs - meta.parity(in_order(past, method), past, shares=shares)))
    assert np.median(off) < 0.03
    assert max(off) < 0.1


def test_the_printed_error_is_true(past):
    """Monte Carlo: with other random samples the parity spreads as the error says."""
    scores, shares = past.human_score(), meta.SHARES[1:]
    curve = [
        ReplayCell("past", "fixed", k / 160, k / 160, False, "spa", float(value), 0.0, float(k), 1)
        for k, value in enumerate(prefix_spa(in_order(past, METHODS[0])), start=1)
    ]
    curve = [replace(cell, asked=any(cell.items == round(160 * share) for share in shares)) for cell in curve]
    found = []
    for seed in range(40):
        drawn = [random_spa(scores, round(160 * share), 100 * seed + at, error=2e-3) for at, share in enumerate(shares)]
        base = [
            ReplayCell("past", "random", share, share, True, "spa", d.value, d.error, 160 * share, d.draws)
            for d, share in zip(drawn, shares, strict=True)
        ]
        found += [row for row in summarise_methods([*base, *curve], "random") if row.method == "fixed"]
    spread = np.std([row.parity for row in found], ddof=1)
    printed = np.mean([row.parity_error for row in found])
    assert spread > 0
    assert 0.6 < printed / spread < 1.7


def test_every_prefix_of_a_fixed_order_is_there(past, simulated):
    for measure, curve in (
        ("spa", prefix_spa(in_order(past, METHODS[0]))),
        ("mae", [meta.mae(in_order(past, METHODS[0])[:k], past) for k in range(1, 161)]),
        ("accuracy", [meta.accuracy(in_order(past, METHODS[0])[:k], past) for k in range(1, 161)]),
    ):
        cells = sorted(
            (cell for cell in simulated.cells if (cell.method, cell.measure) == (METHODS[0], measure)),
            key=lambda cell: cell.share,
        )
        assert [cell.items for cell in cells] == list(range(1, 161))
        np.testing.assert_allclose([cell.value for cell in cells], curve, atol=1e-9)


def test_the_accuracy_of_random_samples_against_samples(past):
    scores = past.human_score()
    rng, full = np.random.default_rng(1), analytic_p(scores)
    for n in (8, 80):
        found = random_spa(scores, n, seed=2)
        drawn = [spa(analytic_p(scores[rng.choice(160, n, replace=False)]), full) for _ in range(2000)]
        error = np.hypot(found.error, np.std(drawn) / np.sqrt(2000))
        assert found.error <= 3e-4 or found.draws == 20_000
        assert abs(found.value - np.mean(drawn)) < 4 * error
    assert random_spa(scores, 160).value == 1.0
    np.testing.assert_allclose(
        meta.random_spa(past, [0.05, 0.5]), [random_spa(scores, n).value for n in (8, 80)], atol=2e-3
    )
