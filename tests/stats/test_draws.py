"""pass@k and its relatives by brute force over subsets; noise and components of draws by analysis of variance."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aliquot.errors import OptionError
from aliquot.stats.draws import majority_passes, pass_all_k, pass_at_k, score_passes, score_variance, sum_draws


@given(st.lists(st.booleans(), min_size=1, max_size=7), st.integers(1, 7))
def test_passes_are_the_share_of_subsets(outcomes: list[bool], k: int) -> None:
    n, c = np.array([float(len(outcomes))]), np.array([float(sum(outcomes))])
    if k > len(outcomes):
        assert np.isnan(pass_at_k(c, n, k)).all()
        assert np.isnan(pass_all_k(c, n, k)).all()
        return
    subsets = list(combinations(outcomes, k))
    assert pass_at_k(c, n, k)[0] == pytest.approx(np.mean([any(part) for part in subsets]))
    assert pass_all_k(c, n, k)[0] == pytest.approx(np.mean([all(part) for part in subsets]))


def test_many_draws_do_not_overflow() -> None:
    share = pass_at_k(np.array([1.0, 0.0, 5000.0]), np.full(3, 10_000.0), 1000)
    assert share == pytest.approx([0.1, 0.0, 1.0])
    with pytest.raises(OptionError, match="`k` is 0"):
        pass_all_k(np.ones(1), np.ones(1), 0)


def test_majority_counts_a_tie_as_half() -> None:
    assert majority_passes(np.array([0.0, 1.0, 2.0, 2.0]), np.array([1.0, 2.0, 3.0, 5.0])).tolist() == [0, 0.5, 1, 0]


@given(st.lists(st.booleans(), min_size=2, max_size=9))
def test_variance_of_a_mean_is_exact(outcomes: list[bool]) -> None:
    n, values = len(outcomes), np.array(outcomes, dtype=np.float64)
    variance = score_variance("pass@", np.array([values.sum()]), np.array([float(n)]), 1)[0]
    assert variance == pytest.approx(values.var(ddof=1) / n)


@pytest.mark.parametrize("kind", ["pass@", "pass^", "majority"])
@pytest.mark.parametrize("p", [0.1, 0.5, 0.8])
@pytest.mark.parametrize(("n", "k"), [(4, 2), (5, 4), (3, 3), (8, 3)])
def test_variance_is_not_too_small_on_average(kind: str, p: float, n: int, k: int) -> None:
    """Exact expectations over the binomial distribution of passes."""
    passes = np.arange(n + 1.0)
    chance = np.array([len(list(combinations(range(n), c))) * p**c * (1 - p) ** (n - c) for c in range(n + 1)])
    draws = np.full(n + 1, float(n))
    score = score_passes(kind, passes, draws, k)  # type: ignore[arg-type]
    truth = chance @ score**2 - (chance @ score) ** 2
    assert chance @ score_variance(kind, passes, draws, k) >= truth - 1e-12  # type: ignore[arg-type]


def test_components_are_those_of_the_analysis_of_variance() -> None:
    rng = np.random.default_rng(3)
    p, k = 30, 4
    prompt = np.repeat(np.arange(p), k)
    values = rng.normal(0, 2, p)[prompt] + rng.normal(0, 1, p * k)
    sums = sum_draws(values[:, None], prompt)
    grouped = values.reshape(p, k)
    within = grouped.var(axis=1, ddof=1).mean()
    assert sums.within[0] == pytest.approx(within)
    assert sums.mean_variance(sums.within)[0] == pytest.approx(within / k)
    assert sums.mean_variance(sums.within, finite=True)[0] == 0


def test_components_are_unbiased_with_unequal_numbers_of_draws() -> None:
    rng = np.random.default_rng(8)
    found = []
    for _ in range(400):
        count = rng.integers(1, 6, 40)
        prompt = np.repeat(np.arange(40), count)
        values = rng.normal(0, 1.5, 40)[prompt] + rng.normal(0, 1, len(prompt))
        values[rng.random(len(values)) < 0.1] = np.nan
        sums = sum_draws(values[:, None], prompt)
        found.append((sums.within[0], sums.mean_variance(sums.within)[0] / sums.inverse_count[0]))
    mean, error = np.mean(found, axis=0), np.std(found, axis=0) / 20
    assert np.abs(mean - [1.0, 1.0]) == pytest.approx(0, abs=4 * error.max())
