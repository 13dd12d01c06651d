"""Kendall-like agreement against counting pairs in a loop, for every policy of ties."""

from __future__ import annotations

from itertools import combinations
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from aliquot.errors import NameUnknownError, OptionError
from aliquot.stats.arrays import FloatArray
from aliquot.stats.tied_correlation import Averaging, MetricTies, _AccuracySteps, item_kendall_like, kendall_like

integers = arrays(
    np.float64,
    st.tuples(st.just(2), st.integers(1, 5), st.integers(1, 6)),
    elements=st.one_of(st.integers(0, 4).map(float), st.just(np.nan)),
)


def counted(metric: FloatArray, human: FloatArray, least: float) -> list[tuple[int, int, int, int]]:
    """Concordant, discordant, tied by the metric only, tied by people, for every item."""
    result = []
    for x, y in zip(metric, human, strict=True):
        cells = [(a, b) for a, b in zip(x, y, strict=True) if not np.isnan(a) and not np.isnan(b)]
        counts = [0, 0, 0, 0]
        for a, b in combinations(cells, 2):
            change, wanted = a[0] - b[0], a[1] - b[1]
            kind = 3 if wanted == 0 or abs(wanted) < least else 2 if change == 0 else 0 if change * wanted > 0 else 1
            counts[kind] += 1
        result.append((counts[0], counts[1], counts[2], counts[3]))
    return result


def by_hand(counts: tuple[float, float, float, float], ties: MetricTies) -> tuple[float, float]:
    """(C - D) / (C + D) and C + D."""
    concordant, discordant, tied, _ = counts
    if ties == "discordant":
        discordant += tied
    elif ties == "half":
        concordant, discordant = concordant + tied / 2, discordant + tied / 2
    total = concordant + discordant
    return ((concordant - discordant) / total if total else float("nan")), total


@pytest.mark.parametrize("ties", get_args(MetricTies))
@pytest.mark.parametrize("least", [0.0, 2.0])
@given(tables=integers)
@settings(max_examples=40, deadline=None)
def test_every_policy_is_its_definition(ties: MetricTies, least: float, tables: FloatArray) -> None:
    metric, human = tables
    counts = counted(metric, human, least)
    values = np.array([by_hand(item, ties)[0] for item in counts])
    # A unit in which 0.3 - 0.1 is not 0.2: the least difference must be reached all the same.
    np.testing.assert_allclose(item_kendall_like(metric * 0.1, human * 0.1, ties, least * 0.1), values)
    macro = kendall_like(metric, human, ties, least_difference=least)
    micro = kendall_like(metric, human, ties, least_difference=least, average="micro")
    totals = tuple(sum(column) for column in zip(*counts, strict=True))
    assert (macro.concordant, macro.discordant, macro.metric_ties, macro.human_ties) == totals
    assert micro.value == pytest.approx(by_hand(totals, ties)[0], nan_ok=True)
    defined = ~np.isnan(values)
    assert macro.value == pytest.approx(values[defined].mean() if defined.any() else float("nan"), nan_ok=True)
    assert macro.items == defined.sum()
    assert macro.undefined == sum(sum(item) > 0 for item in counts) - macro.items


def test_without_ties_it_is_kendalls_tau() -> None:
    rng = np.random.default_rng(0)
    metric, human = rng.normal(size=(2, 20, 6))
    expected = [stats.kendalltau(x, y).statistic for x, y in zip(metric, human, strict=True)]
    for ties in get_args(MetricTies):
        np.testing.assert_allclose(item_kendall_like(metric, human, ties), expected)
        for average in get_args(Averaging):
            assert kendall_like(metric, human, ties, average=average).value == pytest.approx(np.mean(expected))


def test_wmts_darr_needs_25_points() -> None:
    metric, human = np.array([[1.0, 2.0, 3.0]]), np.array([[50.0, 40.0, 75.0]])
    result = kendall_like(metric, human, least_difference=25)
    assert (result.concordant, result.discordant, result.human_ties) == (2, 0, 1)
    assert kendall_like(metric, human).value == pytest.approx(1 / 3)


def test_a_constant_metric() -> None:
    human = np.arange(12.0).reshape(3, 4)
    metric = np.full((3, 4), 1 / 3)
    assert kendall_like(metric, human, "discordant").value == -1
    assert kendall_like(metric, human, "half").value == 0
    skipped = kendall_like(metric, human, "skip")
    assert np.isnan(skipped.value)
    assert (skipped.items, skipped.undefined) == (0, 3)


def test_bad_arguments() -> None:
    table = np.ones((2, 3))
    with pytest.raises(NameUnknownError, match=r"`metric_ties` is 'drop'\. Available: 'discordant', 'skip', 'half'"):
        kendall_like(table, table, "drop")  # type: ignore[arg-type]
    with pytest.raises(NameUnknownError, match="`metric_ties` is 'drop'"):
        item_kendall_like(table, table, "drop")  # type: ignore[arg-type]
    with pytest.raises(NameUnknownError, match=r"`human_ties` is 'half'\. Available: 'skip'"):
        kendall_like(table, table, human_ties="half")  # type: ignore[arg-type]
    with pytest.raises(NameUnknownError, match="`average` is 'mean'"):
        kendall_like(table, table, average="mean")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="`least_difference` is -1"):
        kendall_like(table, table, least_difference=-1)
    with pytest.raises(OptionError, match="shapes"):
        kendall_like(table, table.T)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.3]), st.booleans())
def test_thresholds_from_bins_are_those_from_all_pairs_sorted(seed: int, gaps: float, weighted: bool) -> None:
    rng = np.random.default_rng(seed)
    human = rng.integers(0, 4, (12, 6)).astype(float)
    metric = human + rng.normal(0, 1.5, human.shape)
    metric[rng.random(metric.shape) < 0.2] = 1.0  # some equal scores
    metric[rng.random(metric.shape) < gaps] = np.nan
    human[np.isnan(metric)] = np.nan
    weight = rng.uniform(0.5, 2.0, 12) if weighted else np.ones(1)
    step = _AccuracySteps(metric, human, weight)
    assert step.calibrate_in_bins() == pytest.approx(step.calibrate_sorted())


def test_constant_metrics_have_one_bin() -> None:
    step = _AccuracySteps(np.full((3, 4), 2.0), np.tile([1.0, 1.0, 2.0, 3.0], (3, 1)), np.ones(1))
    assert step.calibrate_in_bins() == step.calibrate_sorted() == (3.0, 0.0, 3.0)
