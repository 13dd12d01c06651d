"""Intraclass correlations: Shrout and Fleiss' table, analysis of variance, and what gaps must not change."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm

from aliquot.errors import NameUnknownError
from aliquot.stats.alpha import (
    ICC_KINDS,
    icc_components,
    icc_item_sums,
    icc_measure,
    intraclass_correlation,
    pairable_judgments,
    to_long_form,
)
from aliquot.stats.arrays import FloatArray
from aliquot.stats.resampling import bootstrap_intervals

SHROUT_FLEISS = np.array([[9.0, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]])


def of_table(table: FloatArray) -> SimpleNamespace:
    """All intraclass correlations, and the variances of units, annotators and the rest in the units of the table."""
    unit, annotator, value = to_long_form(table)
    total = icc_item_sums(pairable_judgments(unit, value), annotator, table.shape[1]).sum(axis=0)[None]
    kinds = {kind: float(intraclass_correlation(total, kind)[0]) for kind in ICC_KINDS}
    scale = np.ptp(pairable_judgments(unit, value).values) if len(pairable_judgments(unit, value).values) else 1.0
    parts = [float(part[0]) * scale**2 for part in icc_components(total)[:3]]
    return SimpleNamespace(**dict(zip(("unit", "annotator", "rest"), parts, strict=True)), **kinds)


@pytest.mark.parametrize(
    ("kind", "value"),
    [("icc1", 0.17), ("icc2", 0.29), ("icc3", 0.71), ("icc1k", 0.44), ("icc2k", 0.62), ("icc3k", 0.91)],
)
def test_shrout_and_fleiss(kind: str, value: float) -> None:
    assert round(getattr(of_table(SHROUT_FLEISS), kind), 2) == value


def by_anova(table: FloatArray) -> dict[str, float]:
    """Shrout and Fleiss' formulas on statsmodels' mean squares."""
    unit, annotator, value = to_long_form(table)
    frame = pd.DataFrame({"unit": unit, "annotator": annotator, "value": value})
    mean = anova_lm(ols("value ~ C(unit) + C(annotator)", frame).fit())["mean_sq"]
    bms, jms, ems = mean["C(unit)"], mean["C(annotator)"], mean["Residual"]
    n, k = table.shape
    wms = ((n * k - n - k + 1) * ems + (k - 1) * jms) / (n * (k - 1))
    return {
        "icc1": (bms - wms) / (bms + (k - 1) * wms),
        "icc2": (bms - ems) / (bms + (k - 1) * ems + k * (jms - ems) / n),
        "icc3": (bms - ems) / (bms + (k - 1) * ems),
        "icc1k": (bms - wms) / bms,
        "icc2k": (bms - ems) / (bms + (jms - ems) / n),
        "icc3k": (bms - ems) / bms,
    }


@pytest.mark.parametrize("seed", range(4))
def test_without_gaps_it_is_the_analysis_of_variance(seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = 50 + 8 * (rng.normal(size=(12, 1)) + rng.normal(size=(1, 4)) + rng.normal(size=(12, 4)))
    found = of_table(table)
    for kind, expected in by_anova(table).items():
        assert getattr(found, kind) == pytest.approx(expected, abs=1e-10), kind


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000), st.floats(0.1, 50), st.floats(-100, 100))
def test_units_of_measurement_scale_the_variances(seed: int, scale: float, shift: float) -> None:
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(10, 4))
    table[rng.random(table.shape) < 0.2] = np.nan
    one, other = of_table(table), of_table(scale * table + shift)
    assert other.unit == pytest.approx(scale**2 * one.unit, rel=1e-6, abs=1e-9)
    assert other.icc2 == pytest.approx(one.icc2, rel=1e-5, abs=1e-7)


@pytest.mark.slow
def test_components_are_unbiased_with_gaps() -> None:
    rng = np.random.default_rng(1)
    found = []
    for _draw in range(400):
        table = 1.0 * rng.normal(size=(40, 1)) + 0.5 * rng.normal(size=(1, 8)) + 0.8 * rng.normal(size=(40, 8))
        table[rng.random(table.shape) < 0.6] = np.nan
        part = of_table(table)
        found.append([part.unit, part.annotator, part.rest])
    error = np.std(found, axis=0) / np.sqrt(len(found))
    assert np.abs(np.mean(found, axis=0) - [1.0, 0.25, 0.64]) == pytest.approx(np.zeros(3), abs=4 * error.max())


def test_annotators_on_different_units_only() -> None:
    """Nested: every unit has its own two annotators. Severity and unit cannot be told apart, one way can."""
    rng = np.random.default_rng(2)
    table = np.full((30, 60), np.nan)
    for unit in range(30):
        table[unit, 2 * unit : 2 * unit + 2] = rng.normal() + rng.normal(size=2)
    found = of_table(table)
    assert np.isfinite(found.icc1)
    assert np.isnan(found.icc2)


@pytest.mark.parametrize(
    "table",
    [np.full((3, 3), 2.0), np.array([[1.0], [2.0]]), np.array([[1.0, np.nan], [np.nan, 2.0]]), np.array([[1.0, 2.0]])],
    ids=["equal", "one annotator", "no overlap", "one unit"],
)
def test_undefined(table: FloatArray) -> None:
    found = of_table(table)
    assert all(np.isnan(getattr(found, kind)) for kind in ICC_KINDS)


def test_a_measure_of_item_weights() -> None:
    rng = np.random.default_rng(3)
    table = rng.normal(size=(30, 1)) + rng.normal(size=(30, 4))
    unit, annotator, value = to_long_form(table)
    answers = pairable_judgments(unit, value)
    weight = rng.integers(0, 3, 30).astype(float)
    rows = np.repeat(np.arange(30), weight.astype(int))
    for kind in ICC_KINDS:
        measure = icc_measure(answers, annotator, 4, kind)
        assert measure(weight[None])[0] == pytest.approx(getattr(of_table(table[rows]), kind), abs=1e-10)
        found = bootstrap_intervals([measure], 200)[0]
        assert found.low < found.value < found.high
    with pytest.raises(NameUnknownError, match="icc4"):
        icc_measure(answers, annotator, 4, "icc4")  # type: ignore[arg-type]
