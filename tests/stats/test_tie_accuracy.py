"""Pairwise accuracy with ties against counting every pair and trying every threshold."""

from __future__ import annotations

from itertools import combinations
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from aliquot.errors import NameUnknownError, OptionError
from aliquot.stats import tied_correlation as score_pairs
from aliquot.stats import tied_correlation as tie_accuracy
from aliquot.stats.arrays import FloatArray
from aliquot.stats.tied_correlation import (
    CONCORDANT,
    DISCORDANT,
    HUMAN_TIE,
    METRIC_TIE,
    PairLevel,
    item_tie_accuracies,
    pair_blocks,
    pairs_per_row,
)
from aliquot.stats.tied_correlation import tie_accuracy as accuracy_of

LEVELS = get_args(PairLevel)
integers = arrays(
    np.float64,
    st.tuples(st.just(2), st.integers(1, 5), st.integers(1, 6)),
    elements=st.one_of(st.integers(0, 5).map(float), st.just(np.nan)),
)


def groups(metric: FloatArray, human: FloatArray, level: PairLevel) -> list[list[tuple[float, float]]]:
    """Differences of metric and human for all pairs in every group that has any."""
    if level == "within_system":
        metric, human = metric.T, human.T
    if level == "pooled":
        metric, human = metric.reshape(1, -1), human.reshape(1, -1)
    found = []
    for x, y in zip(metric, human, strict=True):
        cells = [(a, b) for a, b in zip(x, y, strict=True) if not np.isnan(a) and not np.isnan(b)]
        pairs = [(a[0] - b[0], a[1] - b[1]) for a, b in combinations(cells, 2)]
        found += [pairs] if pairs else []
    return found


def counted(metric: FloatArray, human: FloatArray, level: PairLevel, epsilon: float) -> float:
    """(C + T_hm) / (C + D + T_h + T_m + T_hm) in each group, averaged: the definition."""
    shares = []
    for pairs in groups(metric, human, level):
        right = 0
        for change, wanted in pairs:
            tied = abs(change) <= epsilon
            right += (wanted == 0) if tied else (change * wanted > 0)
        shares.append(right / len(pairs))
    return float(np.mean(shares)) if shares else float("nan")


def calibrated(metric: FloatArray, human: FloatArray, level: PairLevel) -> tuple[float, float]:
    """The best of all thresholds, and the smallest of these."""
    gaps = {abs(change) for pairs in groups(metric, human, level) for change, _ in pairs}
    tried = [(counted(metric, human, level, epsilon), epsilon) for epsilon in sorted({0.0, *gaps})]
    best = max(value for value, _ in tried)
    return next((value, epsilon) for value, epsilon in tried if value > best - 1e-12)


def table(seed: int = 0, items: int = 30, systems: int = 5, holes: float = 0.0) -> FloatArray:
    """Metric and human; people give whole numbers up to 0, as MQM does."""
    rng = np.random.default_rng(seed)
    quality = rng.normal(size=(items, systems))
    both = np.stack([quality + rng.normal(size=quality.shape), np.minimum(0, np.round(2 * quality))])
    both[rng.random(both.shape) < holes] = np.nan
    return both


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("unit", [1.0, 0.1, 1 / 3])
@given(tables=integers)
@settings(max_examples=40, deadline=None)
def test_calibration_tries_every_threshold(level: PairLevel, unit: float, tables: FloatArray) -> None:
    """In units that binary numbers do not hold, equal differences are no longer equal, and must count as such."""
    metric, human = tables
    result = accuracy_of(metric * unit, human * unit, level)
    if result.groups == 0:
        assert np.isnan([result.accuracy, result.epsilon, result.accuracy_at_zero]).all()
        return
    value, epsilon = calibrated(metric, human, level)
    assert result.accuracy == pytest.approx(value)
    assert result.epsilon == pytest.approx(epsilon * unit)
    assert result.calibrated
    assert result.accuracy_at_zero == pytest.approx(counted(metric, human, level, 0.0))
    found = groups(metric, human, level)
    assert (result.groups, result.pairs) == (len(found), sum(map(len, found)))


@pytest.mark.parametrize("level", LEVELS)
@given(tables=integers, epsilon=st.sampled_from([0.0, 0.5, 1.0, 2.0, 7.0]))
@settings(max_examples=40, deadline=None)
def test_given_thresholds(level: PairLevel, tables: FloatArray, epsilon: float) -> None:
    metric, human = tables
    result = accuracy_of(metric * 0.1, human, level, epsilon * 0.1)
    assert result.accuracy == pytest.approx(counted(metric, human, level, epsilon), nan_ok=True)
    assert not result.calibrated


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("holes", [0.0, 0.2])
@pytest.mark.parametrize("decimals", [1, 9])
def test_bins_find_what_sorting_finds(
    level: PairLevel, holes: float, decimals: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both roads, on grids full of equal differences and on none, with many bins and with few."""
    metric, human = table(1, 40, 8, holes)
    metric = metric.round(decimals)
    expected = accuracy_of(metric, human, level)
    monkeypatch.setattr(score_pairs, "_BLOCK", 50)
    assert accuracy_of(metric, human, level).epsilon == expected.epsilon
    monkeypatch.setattr(tie_accuracy, "_MAX_SORTED", 0)
    for bins in (1 << 17, 64, 3):
        monkeypatch.setattr(tie_accuracy, "_BINS", bins)
        found = accuracy_of(metric, human, level)
        assert found.accuracy == pytest.approx(expected.accuracy)
        assert found.epsilon == expected.epsilon
        assert found.accuracy_at_zero == pytest.approx(expected.accuracy_at_zero)


@pytest.mark.parametrize("level", LEVELS)
def test_sorting_finds_what_trying_finds_on_real_numbers(level: PairLevel) -> None:
    metric, human = table(6, 8, 4, 0.1)
    result = accuracy_of(metric, human, level)
    assert (result.accuracy, result.epsilon) == pytest.approx(calibrated(metric, human, level))


def test_an_outlier_crowds_the_bins(monkeypatch: pytest.MonkeyPatch) -> None:
    metric, human = table(2, 50, 6)
    metric[0, 0] = -1e6
    expected = accuracy_of(metric, human, "pooled")
    monkeypatch.setattr(tie_accuracy, "_MAX_SORTED", 0)
    found = accuracy_of(metric, human, "pooled")
    assert (found.accuracy, found.epsilon) == pytest.approx((expected.accuracy, expected.epsilon))


@pytest.mark.parametrize("holes", [0.0, 0.3])
def test_items_average_to_the_whole(holes: float) -> None:
    metric, human = table(3, holes=holes)
    chosen = accuracy_of(metric, human)
    items = item_tie_accuracies(metric, human, chosen.epsilon)
    assert np.nanmean(items) == pytest.approx(chosen.accuracy)
    expected = [counted(metric[[i]], human[[i]], "within_item", chosen.epsilon) for i in range(len(metric))]
    np.testing.assert_allclose(items, expected)


def test_the_metric_is_the_human_score() -> None:
    _, human = table(4)
    for level in LEVELS:
        result = accuracy_of(10 * human, human, level)
        assert result.accuracy == pytest.approx(1)
        assert result.epsilon == 0
        assert accuracy_of(-human, human, level, 0.0).accuracy < 1


def test_a_constant_metric_is_right_about_ties_only() -> None:
    _, human = table(5)
    ties = np.mean([wanted == 0 for pairs in groups(human, human, "within_item") for _, wanted in pairs])
    assert accuracy_of(np.ones_like(human), human).accuracy == pytest.approx(ties)


def test_calibration_never_loses_and_scale_never_matters() -> None:
    for seed in range(5):
        metric, human = table(seed, holes=0.1)
        result, scaled = accuracy_of(metric, human), accuracy_of(1000 * metric - 7, human)
        assert result.accuracy >= result.accuracy_at_zero
        assert scaled.accuracy == pytest.approx(result.accuracy)
        assert scaled.epsilon == pytest.approx(1000 * result.epsilon, abs=1e-6)


@given(tables=integers)
@settings(max_examples=40, deadline=None)
def test_every_pair_is_seen_once(tables: FloatArray) -> None:
    metric, human = np.where(np.isnan(tables).any(axis=0), np.nan, tables)
    blocks = list(pair_blocks(metric, human))
    kinds = np.concatenate([np.zeros(0, dtype=int), *(block.kind for block in blocks)])
    gaps = np.concatenate([np.zeros(0), *(block.gap for block in blocks)])
    rows = np.concatenate([np.zeros(0, dtype=int), *(block.row for block in blocks)])
    pairs = [pair for group in groups(metric, human, "within_item") for pair in group]
    assert sorted(gaps.tolist()) == sorted(abs(change) for change, _ in pairs)
    assert np.bincount(rows, minlength=len(metric)).tolist() == pairs_per_row(metric).tolist()
    expected = [
        HUMAN_TIE if wanted == 0 else METRIC_TIE if change == 0 else CONCORDANT if change * wanted > 0 else DISCORDANT
        for change, wanted in pairs
    ]
    assert sorted(kinds.tolist()) == sorted(expected)


def test_bad_arguments() -> None:
    metric, human = table()
    with pytest.raises(OptionError, match="`epsilon` is -1"):
        accuracy_of(metric, human, epsilon=-1)
    with pytest.raises(OptionError, match="`epsilon` is nan"):
        item_tie_accuracies(metric, human, float("nan"))
    with pytest.raises(NameUnknownError, match="unknown level 'system_means'"):
        accuracy_of(metric, human, "system_means")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="shapes"):
        accuracy_of(metric, human[:-1])
    with pytest.raises(OptionError, match="infinite"):
        accuracy_of(metric * np.inf, human)
