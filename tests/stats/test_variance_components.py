"""Judges' noise and spread of outputs: the paper's tables, analysis of variance, simulation, control variates."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aliquot.errors import DataError, OptionError
from aliquot.stats.arrays import FloatArray, IntArray
from aliquot.stats.variance_components import (
    data_efficiency,
    efficiency_ceiling,
    efficiency_ratio,
    matched_ratio,
    noise_free_correlation,
    variance_components,
)

# Wei and Jia 2021, Tables 3 and 4: sd of judgments, of judgments of one output, of the perfect annotator; ratio.
PAPER = {
    "WMT16": (30.01, 17.53, 24.36, 1.52),
    "WMT17": (29.65, 22.96, 18.76, 2.50),
    "WMT18": (28.21, 19.57, 20.33, 1.93),
    "WMT19": (28.81, 21.42, 19.27, 2.24),
    "SummEval experts": (0.717, 0.293, 0.655, 1.201),
}


def judgments(seed: int, outputs: int, repeats, noise: float, spread: float = 1.0) -> tuple[IntArray, FloatArray]:
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(outputs), repeats)
    quality = spread * rng.normal(size=outputs)
    return codes, 5 + quality[codes] + noise * rng.normal(size=len(codes))


@pytest.mark.parametrize("name", PAPER)
def test_the_ratios_of_the_paper(name):
    total, within, between, ratio = PAPER[name]
    digits = 3 if name.startswith("Summ") else 2
    # The printed standard deviations are rounded, those of SummEval to three digits of a number below 1.
    assert efficiency_ratio(total**2, between**2) == pytest.approx(ratio, abs=0.006 if digits == 2 else 0.003)
    assert np.sqrt(total**2 - within**2) == pytest.approx(between, abs=0.02 if digits == 2 else 0.002)


def test_the_ratios_of_the_authors_unrounded():
    totals = np.array([900.3456733, 879.1690393, 795.9652837, 829.7852689])
    within = np.array([307.1762673, 527.2973972, 382.8504227, 458.6292986])
    found = [efficiency_ratio(total, total - noise) for total, noise in zip(totals, within, strict=True)]
    assert np.round(found, 2).tolist() == [1.52, 2.50, 1.93, 2.24]


def test_by_hand():
    codes, values = np.array([7, 7, 7, 3, 3, 9]), np.array([1.0, 2.0, 6.0, 4.0, 8.0, 3.0])
    found = variance_components(codes, values, replicates=20)
    assert found.total == pytest.approx(values.var(ddof=1))
    assert found.within == pytest.approx((14 + 8) / (2 + 1))
    assert found.between == found.total - found.within
    assert (found.judgments, found.outputs, found.repeated) == (6, 3, 2)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.1, 50), st.floats(-100, 100))
def test_scale_shift_and_order(seed, scale, shift):
    codes, values = judgments(seed, 20, 3, 0.5)
    order = np.random.default_rng(seed).permutation(len(values))
    found = variance_components(codes, values, replicates=5)
    other = variance_components(10 * codes[order] + 3, scale * values[order] + shift, replicates=5)
    assert other.total == pytest.approx(scale**2 * found.total)
    assert other.within == pytest.approx(scale**2 * found.within)
    assert other.ratio == pytest.approx(found.ratio)


def test_mean_squares_are_those_of_the_analysis_of_variance():
    """For equal repeats F = MSB / MSW; both sums of squares make up the total one."""
    stats = pytest.importorskip("scipy.stats")
    codes, values = judgments(1, 15, 4, 0.8)
    found = variance_components(codes, values, replicates=5)
    squares = found.total * (len(values) - 1)
    between = (squares - found.within * (60 - 15)) / 14
    assert between / found.within == pytest.approx(stats.f_oneway(*values.reshape(15, 4)).statistic)


def test_simulated_noise_is_found():
    repeats = np.random.default_rng(0).integers(1, 4, size=3000)
    codes, values = judgments(2, 3000, repeats, noise=1.2, spread=1.5)
    found = variance_components(codes, values, replicates=200)
    assert found.within == pytest.approx(1.44, rel=0.06)
    assert found.between == pytest.approx(2.25, rel=0.08)
    assert found.low < 1 + 1.44 / 2.25 < found.high
    assert found.rater_to_item == pytest.approx(1.44 / 2.25, rel=0.15)


def test_intervals_cover():
    covered = []
    for seed in range(150):
        codes, values = judgments(seed, 120, 2, noise=1.0)
        found = variance_components(codes, values, replicates=300, seed=seed)
        covered.append(found.low <= 2.0 <= found.high)
    assert 0.88 <= np.mean(covered) <= 0.99


def test_systems_means_can_be_left_out():
    rng = np.random.default_rng(3)
    codes, values = judgments(4, 4000, 2, noise=0.7)
    system = codes % 4
    apart = values + 3.0 * np.arange(4)[system]
    plain, about = (variance_components(codes, apart, system=by, replicates=50) for by in (None, system))
    assert plain.between > 10
    assert about.between == pytest.approx(1.0, rel=0.08)
    assert about.within == pytest.approx(plain.within)
    assert about.low < 1.49 < about.high
    shuffled = rng.permutation(4)[system]
    assert variance_components(codes, apart, system=shuffled, replicates=5).total == pytest.approx(about.total)


def test_missing_judgments_are_left_out():
    codes, values = judgments(5, 30, 3, 0.5)
    gaps = values.copy()
    gaps[::4] = np.nan
    kept = np.isfinite(gaps)
    assert variance_components(codes, gaps).to_dict() == variance_components(codes[kept], values[kept]).to_dict()


def test_noise_alone_has_no_ratio():
    found = variance_components(np.array([0, 0, 1, 1]), np.array([1.0, 5.0, 5.0, 1.0]), replicates=50)
    assert found.between < 0
    assert found.ratio == np.inf
    constant = variance_components(np.array([0, 0, 1, 1]), np.ones(4), replicates=50)
    assert constant.total == 0
    assert constant.ratio == np.inf


def test_no_noise_is_a_ratio_of_one():
    found = variance_components(np.array([0, 0, 1, 1]), np.array([1.0, 1.0, 5.0, 5.0]), replicates=50)
    assert found.within == 0
    assert found.ratio == 1


def test_no_repeats_are_refused_with_the_reason():
    with pytest.raises(DataError, match="none of the 5 outputs has two judgments"):
        variance_components(np.arange(5), np.arange(5.0))
    with pytest.raises(DataError, match="none of the 2 outputs"):
        variance_components(np.array([0, 0, 1]), np.array([1.0, np.nan, 2.0]))
    with pytest.raises(DataError, match="no judgments"):
        variance_components(np.empty(0, dtype=np.int64), np.empty(0))


def test_matched_ratio_by_simulation():
    rng = np.random.default_rng(6)
    item = 3 * rng.normal(size=(4000, 1))  # difficulty, which cancels in differences
    perfect = item + rng.normal(size=(4000, 4))
    noisy = perfect + 0.5 * rng.normal(size=perfect.shape)
    assert matched_ratio(noisy, 0.25) == pytest.approx(1.25, rel=0.02)
    assert matched_ratio(noisy, 0.0) == 1
    assert matched_ratio(noisy, 100.0) == np.inf
    noisy[::3, 0] = np.nan
    assert matched_ratio(noisy, 0.25) == pytest.approx(1.25, rel=0.02)


def test_a_control_variate_saves_what_the_formula_says():
    """Variance of judged means with and without the metric's residual regression, by simulation."""
    rng = np.random.default_rng(7)
    true = rng.normal(size=200_000)
    metric = 0.8 * true + 0.6 * rng.normal(size=len(true))
    judged = true + np.sqrt(0.5) * rng.normal(size=len(true))
    slope = np.cov(judged, metric)[0, 1] / metric.var()
    ratio = judged.var() / (judged - slope * metric).var()
    assert ratio == pytest.approx(float(data_efficiency(0.8, 0.5)), rel=0.02)
    single = np.corrcoef(judged, metric)[0, 1]
    assert float(noise_free_correlation(single, 0.5)) == pytest.approx(0.8, abs=0.01)
    assert float(data_efficiency(single)) == pytest.approx(ratio, rel=0.01)


@given(st.floats(-1, 1), st.floats(0, 100))
def test_efficiency_is_between_one_and_its_ceiling(rho, g):
    found = float(data_efficiency(rho, g))
    assert 1 <= found <= float(efficiency_ceiling(g)) * (1 + 1e-12)
    # More judgments of each output mean less noise, and a metric that saves more.
    assert float(data_efficiency(rho, g / 3)) >= found * (1 - 1e-12)


def test_efficiency_edges():
    assert float(efficiency_ceiling(0.0)) == np.inf
    assert float(data_efficiency(0.9, np.inf)) == 1
    assert np.isnan(data_efficiency(np.array([np.nan, 0.5]), 0.2)).tolist() == [True, False]
    assert float(noise_free_correlation(0.9, 3.0)) == 1


def test_bad_input():
    codes, values = judgments(8, 5, 2, 1.0)
    with pytest.raises(OptionError, match="equal lengths"):
        variance_components(codes[1:], values)
    with pytest.raises(OptionError, match="infinite"):
        variance_components(codes, values * np.inf)
    with pytest.raises(OptionError, match="`level` is 0"):
        variance_components(codes, values, level=0)
    with pytest.raises(OptionError, match="`within` is -1"):
        matched_ratio(values.reshape(5, 2), -1)
    with pytest.raises(DataError, match="two common items"):
        matched_ratio(np.array([[1.0, np.nan], [2.0, 3.0]]), 0.1)
    with pytest.raises(OptionError, match="`correlation` is"):
        data_efficiency(1.2, 0.1)
    with pytest.raises(OptionError, match="`rater_to_item` is"):
        data_efficiency(0.2, -0.1)
