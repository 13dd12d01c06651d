"""From cells to verdicts: ratios, errors, parity by budget and by cost, and gains only beyond the error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from aliquot.simulation.summary import ALL_SETS, MethodSummary, summarise_methods
from aliquot.simulation.units import ReplayCell

SHARES = (0.1, 0.2, 0.4)


def cells(
    method: str,
    values: Sequence[float],
    *,
    measure: str = "mae",
    error: float = 0.0,
    repeats: int = 50,
    shares: Sequence[float] = SHARES,
    asked: Sequence[bool] | None = None,
    data: str = "past",
) -> list[ReplayCell]:
    flags = asked or [True] * len(shares)
    return [
        ReplayCell(data, method, share, share, flag, measure, value, error, 100 * share, repeats)
        for share, value, flag in zip(shares, values, flags, strict=True)
    ]


def row(found: list[MethodSummary], method: str, measure: str = "mae", data: str = "past") -> MethodSummary:
    return next(r for r in found if (r.data, r.method, r.measure) == (data, method, measure))


def test_value_error_and_ratio():
    found = summarise_methods([*cells("random", [4, 2, 1], error=0.3), *cells("a", [2, 1, 0.8], error=0.1)], "random")
    mine = row(found, "a")
    assert mine.value == pytest.approx(3.8 / 3)
    assert mine.error == pytest.approx(np.sqrt(3 * 0.01) / 3)
    assert mine.ratio_to_random == pytest.approx((0.5 + 0.5 + 0.8) / 3)
    random = row(found, "random")
    assert (random.ratio_to_random, random.parity, random.cost_parity, random.gain) == (1.0, 1.0, 1.0, "unclear")


def test_rounding_is_no_gain():
    """The same items cost the same, whatever the order in which their costs were added up."""
    found = summarise_methods(
        [
            *cells("random", [0.15] * 3, measure="cost"),
            *cells("a", [0.15 * (1 - 4e-16)] * 3, measure="cost"),
            *cells("b", [0.15 * (1 - 1e-9)] * 3, measure="cost"),
        ],
        "random",
    )
    assert row(found, "a", "cost").value != row(found, "random", "cost").value
    assert row(found, "a", "cost").gain == "unclear"
    assert row(found, "b", "cost").gain == "better"


def test_a_gain_only_beyond_the_error():
    def gain(gap: float, error: float, repeats: int = 50, measure: str = "mae") -> str:
        base = cells("random", [1.0] * 3, error=error, repeats=repeats, measure=measure)
        return row(
            summarise_methods(
                [*base, *cells("a", [1.0 + gap] * 3, error=error, repeats=repeats, measure=measure)], "random"
            ),
            "a",
            measure,
        ).gain

    se = np.sqrt(2 * 3 * 0.1**2 / 9)
    bound = stats.t.ppf(0.975, 6 * 49) * se
    assert gain(-1.01 * bound, 0.1) == "better"
    assert gain(-0.99 * bound, 0.1) == "unclear"
    assert gain(1.01 * bound, 0.1) == "worse"
    assert gain(1.01 * bound, 0.1, measure="accuracy") == "better"
    assert gain(1.01 * bound, 0.1, measure="coverage") == "unclear"
    # Two replays know little of their own error: six times one degree of freedom.
    few = stats.t.ppf(0.975, 6) * se
    assert gain(-0.99 * few, 0.1, repeats=2) == "unclear"
    assert gain(-1.01 * few, 0.1, repeats=2) == "better"
    assert gain(0.0, 0.0) == "unclear"
    assert gain(-1e-9, 0.0) == "better"
    assert gain(float("nan"), 0.1) == "unclear"
    assert gain(-5.0, float("nan")) == "unclear"


def test_false_gains_are_rare():
    """Monte Carlo: a method that is random itself is called better or worse once in twenty times, not more."""
    rng = np.random.default_rng(2)
    false = 0
    for _ in range(400):
        table = []
        for method in ("random", "a"):
            draws = rng.normal(size=(3, 5))
            for share, values in zip(SHARES, draws, strict=True):
                error = values.std(ddof=1) / np.sqrt(5)
                table.append(ReplayCell("past", method, share, share, True, "mae", values.mean(), error, 1, 5))
        false += row(summarise_methods(table, "random"), "a").gain != "unclear"
    assert false / 400 < 0.09


def test_parity_counts_what_is_never_reached():
    found = summarise_methods([*cells("random", [4, 2, 1]), *cells("a", [3, 2.5, 2.2])], "random")
    mine = row(found, "a")
    assert mine.parity == np.inf
    assert mine.missed == 2
    assert mine.parity_reached == pytest.approx(1.0)
    never = row(summarise_methods([*cells("random", [4, 2, 1]), *cells("a", [9, 9, 9])], "random"), "a")
    assert never.missed == 3
    assert np.isnan(never.parity_reached)
    assert np.isnan(never.parity_error)


def test_budgets_that_were_not_asked_for_serve_parity_only():
    shares, asked = (0.05, *SHARES, 1.0), [False, True, True, True, False]
    base = cells("random", [4, 2, 1])
    mine = row(summarise_methods([*base, *cells("a", [4, 2, 1, 0.5, 0], shares=shares, asked=asked)], "random"), "a")
    assert mine.value == pytest.approx(3.5 / 3)
    assert mine.ratio_to_random == pytest.approx(0.5)
    assert mine.parity == pytest.approx(0.5)
    assert mine.missed == 0


def test_parity_by_what_was_spent():
    """Random spends what it is given; the other method half of it."""
    base = [*cells("random", [4, 2, 1]), *cells("random", SHARES, measure="cost")]
    mine = [*cells("a", [4, 2, 1]), *cells("a", [0.05, 0.1, 0.2], measure="cost")]
    found = row(summarise_methods([*base, *mine], "random"), "a")
    assert found.parity == pytest.approx(1.0)
    assert found.cost_parity == pytest.approx(0.5)
    unsorted = [*cells("a", [4, 2, 1]), *cells("a", [0.1, 0.05, 0.2], measure="cost")]
    assert row(summarise_methods([*base, *unsorted], "random"), "a").cost_parity == pytest.approx(
        (0.5 + 0.25 + 0.5) / 3
    )
    cost = row(summarise_methods([*base, *mine], "random"), "a", "cost")
    assert np.isnan(cost.parity)
    assert cost.ratio_to_random == pytest.approx(0.5)


def test_full_set_significance_is_compared_with_a_random_samples_own():
    base = [*cells("random", [0.8, 0.9, 0.95], measure="spa"), *cells("random", [0.85, 0.92, 0.97], measure="spa_full")]
    found = summarise_methods([*base, *cells("a", [0.9, 0.95, 0.99], measure="spa_full")], "random")
    own, mine = row(found, "random", "spa_full"), row(found, "a", "spa_full")
    assert own.ratio_to_random == pytest.approx(np.mean([0.85 / 0.8, 0.92 / 0.9, 0.97 / 0.95]))
    assert own.gain == "better"
    assert own.parity < 1
    assert mine.parity < own.parity


def test_what_is_undefined_stays_so():
    """Constant scores have no correlation: no value, no ratio, no parity, and no target that was missed."""
    nothing = [float("nan")] * 3
    found = row(
        summarise_methods(
            [*cells("random", nothing, measure="kendall"), *cells("a", nothing, measure="kendall")], "random"
        ),
        "a",
        "kendall",
    )
    assert np.isnan([found.value, found.ratio_to_random, found.parity, found.parity_reached]).all()
    assert (found.missed, found.gain) == (0, "unclear")
    zero = row(summarise_methods([*cells("random", [0, 0, 0]), *cells("a", [1, 1, 1])], "random"), "a")
    assert np.isnan(zero.ratio_to_random)


def test_the_error_of_parity_is_that_of_the_curves():
    sharp = summarise_methods([*cells("random", [4, 2, 1]), *cells("a", [3, 1.5, 0.9])], "random")
    noisy = summarise_methods([*cells("random", [4, 2, 1], error=0.1), *cells("a", [3, 1.5, 0.9], error=0.1)], "random")
    assert row(sharp, "a").parity_error == pytest.approx(0.0, abs=1e-12)
    assert 0.0 < row(noisy, "a").parity_error < 0.5
    assert row(noisy, "a") == row(
        summarise_methods([*cells("random", [4, 2, 1], error=0.1), *cells("a", [3, 1.5, 0.9], error=0.1)], "random"),
        "a",
    )


def test_means_over_sets():
    table = []
    for data, factor in (("one", 1.0), ("two", 0.5)):
        table += cells("random", [4, 2, 1], data=data, error=0.1)
        table += cells("a", [4 * factor, 2 * factor, factor], data=data, error=0.1)
    found = summarise_methods(table, "random")
    both, mine, other = (row(found, "a", data=name) for name in (ALL_SETS, "one", "two"))
    for field in ("value", "ratio_to_random", "parity", "cost_parity"):
        assert getattr(both, field) == pytest.approx((getattr(mine, field) + getattr(other, field)) / 2)
    assert both.error == pytest.approx(np.hypot(mine.error, other.error) / 2)
    assert (mine.gain, other.gain, both.gain) == ("unclear", "better", "unclear")
    assert not [r for r in summarise_methods(cells("random", [4, 2, 1]), "random") if r.data == ALL_SETS]


def test_a_complete_curve_is_not_interpolated():
    """Every number of items of a fixed order: the first that is enough counts, as in eq. 12."""
    base = cells("random", [0.6, 0.7, 0.8], measure="spa", error=0.001)
    sizes = [k / 10 for k in range(1, 11)]
    values = [0.1, 0.65, 0.65, 0.75, 0.75, 0.79, 0.9, 0.9, 1.0, 1.0]
    fixed = [
        ReplayCell("past", "a", size, size, False, "spa", value, 0.0, 10 * size, 1)
        for size, value in zip(sizes, values, strict=True)
    ]
    asked = [replace(cell, asked=cell.share in SHARES) for cell in fixed]
    assert row(summarise_methods([*base, *asked], "random"), "a", "spa").parity == pytest.approx((2 + 2 + 7 / 4) / 3)
    coarse = [cell for cell in asked if cell.asked or cell.share > 0.6]
    assert row(summarise_methods([*base, *coarse], "random"), "a", "spa").parity != pytest.approx((2 + 2 + 7 / 4) / 3)
