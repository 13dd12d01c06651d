"""Signs of resampled differences: every draw of three items listed, ties, gaps, draws that do not depend on blocks."""

from __future__ import annotations

import tracemalloc
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from aliquot.errors import DataError, OptionError
from aliquot.stats import resampling
from aliquot.stats.arrays import FloatArray
from aliquot.stats.resampling import batch_sizes, bootstrap_counts, bootstrap_sign_counts, pair_contrasts

TRIALS = 20_000


def wins_in_every_draw(scores: FloatArray, size: int) -> FloatArray:
    """Draws x pairs: 1, 1/2 or 0 for the first system, over all draws of `size` items; by loops."""
    pairs = list(combinations(range(scores.shape[1]), 2))
    rows = []
    for draw in product(range(len(scores)), repeat=size):
        row = []
        for a, b in pairs:
            d = scores[list(draw), a] - scores[list(draw), b]
            total = round(float(np.nansum(d)), 9)
            row.append(0.5 + 0.5 * np.sign(total))
        rows.append(row)
    return np.array(rows)


CELLS = st.sampled_from([-2.0, -1.0, -0.1, 0.0, 0.1, 0.2, 0.3, 5.0, np.nan])


@settings(max_examples=25, deadline=None)
@given(scores=arrays(np.float64, (3, 3), elements=CELLS), size=st.integers(1, 5))
def test_shares_are_those_of_all_draws(scores: FloatArray, size: int) -> None:
    exact = wins_in_every_draw(scores, size).mean(axis=0)
    share = bootstrap_sign_counts(scores[None], TRIALS, size=size, seed=3).share_ahead()[0]
    for pair, (a, b) in enumerate(combinations(range(3), 2)):
        if np.isnan(scores[:, a] - scores[:, b]).all():
            assert np.isnan(share[pair])
        else:
            assert share[pair] == pytest.approx(exact[pair], abs=4.5 * 0.5 / np.sqrt(TRIALS))


def test_joint_wins_are_those_of_all_draws():
    human = np.array([[1.0, 0.0, 2.0], [0.0, 1.0, 0.0], [3.0, 1.0, np.nan]])
    metric = np.array([[1.0, 2.0, 2.0], [0.5, 0.0, 0.0], [1.0, 0.0, 3.0]])
    exact = (wins_in_every_draw(human, 3) * wins_in_every_draw(metric, 3)).mean(axis=0)
    counts = bootstrap_sign_counts(metric[None], TRIALS, seed=1, partner=human)
    assert counts.joint is not None
    assert (counts.joint.sum(axis=0)[0] / TRIALS) == pytest.approx(exact, abs=0.015)


def test_a_gap_takes_the_way_by_pairs_and_finds_the_same():
    rng = np.random.default_rng(0)
    full = rng.normal(size=(2, 30, 4))
    gap = full.copy()
    gap[1, 4, 2] = np.nan
    together = list(pair_contrasts(gap))
    assert [block.by_system for block in together] == [True, False]
    assert [block.tables.tolist() for block in together] == [[0], [1]]
    without, with_gap = bootstrap_sign_counts(full, 500, seed=5), bootstrap_sign_counts(gap, 500, seed=5)
    assert (without.plus[:, 0] == with_gap.plus[:, 0]).all()
    untouched = [pair for pair, ab in enumerate(combinations(range(4), 2)) if 2 not in ab]
    assert (without.plus[:, 1][:, untouched] == with_gap.plus[:, 1][:, untouched]).all()
    assert (without.plus[:, 1] != with_gap.plus[:, 1]).any()


def test_missing_items_and_systems_keep_the_quick_way():
    scores = np.random.default_rng(1).normal(size=(1, 12, 4))
    scores[0, 3] = np.nan
    scores[0, :, 1] = np.nan
    (block,) = pair_contrasts(scores)
    assert block.by_system
    assert block.known.tolist() == [[False, True, True, False, False, True]]
    kept = np.delete(np.delete(scores, 3, axis=1), 1, axis=2)
    share = bootstrap_sign_counts(scores, TRIALS, seed=2).share_ahead()[0]
    assert share[[1, 2, 5]] == pytest.approx(bootstrap_sign_counts(kept, TRIALS, seed=3).share_ahead()[0], abs=0.02)


@pytest.mark.parametrize("offset", [0.0, 1.0, 1e6])
def test_equal_means_are_ties_whatever_the_rounding(offset):
    """0.1 + 0.2 and 0.3 + 0.0 have the same mean; so have identical systems and constant scores."""
    scores = offset + np.array([[0.1, 0.3, 0.1, 7.0], [0.2, 0.0, 0.2, 7.0], [0.3, 0.3, 0.3, 7.0]] * 11)
    block = next(iter(pair_contrasts(scores[None])))
    everything = block.compare_systems(block.add(np.ones((1, len(scores)))), len(scores))
    assert everything[0, :, 0].tolist() == [1, 1, 0, 1, 0, 0]
    assert bootstrap_sign_counts(scores[None], 400, seed=1).share_ahead()[0, 1] == 0.5
    constant = np.full((1, 37, 5), offset + 0.1)
    assert (bootstrap_sign_counts(constant, 400, seed=1).share_ahead() == 0.5).all()


def test_small_differences_on_a_large_level_are_seen():
    scores = 1e6 + np.random.default_rng(3).normal(size=(1, 50, 1)) + np.array([0.0, 1e-6])
    assert bootstrap_sign_counts(scores, 100, seed=1).share_ahead() == 0


def test_draws_depend_on_the_seed_alone(monkeypatch):
    scores = np.random.default_rng(4).normal(size=(5, 40, 3))
    scores[3, 1, 1] = np.nan
    whole = bootstrap_sign_counts(scores, 301, seed=6, partner=scores[0])
    assert (bootstrap_sign_counts(scores, 301, seed=np.random.default_rng(6)).plus == whole.plus).all()
    assert (bootstrap_sign_counts(scores, 301, seed=7).plus != whole.plus).any()
    assert (bootstrap_sign_counts(scores[1:2], 301, seed=6).plus == whole.plus[:, 1:2]).all()
    monkeypatch.setattr(resampling, "_CHUNK", 130)
    monkeypatch.setattr(resampling, "_BLOCK", 250)
    cut = bootstrap_sign_counts(scores, 301, seed=6, partner=scores[0])
    assert (cut.plus == whole.plus).all()
    assert cut.joint is not None
    assert whole.joint is not None
    assert (cut.joint == whole.joint).all()


@pytest.mark.parametrize("size", [3, 100])
def test_counts_are_multinomial(size):
    counts = bootstrap_counts(np.random.default_rng(0), TRIALS, 4, size)
    assert (counts.sum(axis=1) == size).all()
    assert counts.mean(axis=0) == pytest.approx(np.full(4, size / 4), rel=0.02)
    assert counts.var(axis=0) == pytest.approx(np.full(4, size * 3 / 16), rel=0.05)


def test_batches_share_the_trials():
    assert batch_sizes(10_000).tolist() == [200] * 50
    assert batch_sizes(103).sum() == 103
    assert len(batch_sizes(7)) == 7


def test_memory_does_not_grow_with_trials(monkeypatch):
    monkeypatch.setattr(resampling, "_CHUNK", 1 << 16)
    scores = np.random.default_rng(5).normal(size=(6, 200, 10))
    peaks = []
    for trials in (20_000, 80_000):
        tracemalloc.start()
        bootstrap_sign_counts(scores, trials, seed=1)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]
    assert peaks[1] < 20e6  # counts of 80,000 trials alone would take 128 MB


def test_one_system_has_no_pairs():
    assert bootstrap_sign_counts(np.ones((2, 3, 1)), 10).share_ahead().shape == (2, 0)


def test_bad_input():
    good = np.ones((1, 3, 2))
    with pytest.raises(OptionError, match="2 dimension"):
        bootstrap_sign_counts(good[0], 10)
    with pytest.raises(OptionError, match="infinite"):
        bootstrap_sign_counts(good * np.inf, 10)
    with pytest.raises(OptionError, match="`trials` is 0"):
        bootstrap_sign_counts(good, 0)
    with pytest.raises(OptionError, match="`size` is 0"):
        bootstrap_sign_counts(good, 10, size=0)
    with pytest.raises(OptionError, match=r"`partner` is \(2, 2\)"):
        bootstrap_sign_counts(good, 10, partner=np.ones((2, 2)))
    with pytest.raises(DataError, match="no item"):
        bootstrap_sign_counts(np.ones((1, 0, 2)), 10)
