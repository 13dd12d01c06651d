"""Krippendorff's alpha: against the krippendorff library at every level, his example, draws, undefined cases."""

from __future__ import annotations

import krippendorff
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aliquot.errors import NameUnknownError, OptionError
from aliquot.stats import alpha as module
from aliquot.stats.alpha import (
    MEASUREMENT_LEVELS,
    MeasurementLevel,
    OrdinalAlpha,
    PairableJudgments,
    alpha_measure,
    krippendorff_alpha,
    pairable_judgments,
    to_long_form,
)
from aliquot.stats.arrays import FloatArray
from aliquot.stats.resampling import bootstrap_intervals, measure_value

every_level = pytest.mark.parametrize("level", MEASUREMENT_LEVELS)
_ = np.nan
PUBLISHED = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, _, _, _],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, _, 3],
        [_, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, _],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, _],
    ]
).T
"""Krippendorff (2011), section D: four observers, twelve units, missing data."""


def of_table(table: FloatArray, level: MeasurementLevel) -> float:
    unit, _annotator, value = to_long_form(table)
    return krippendorff_alpha(unit, value, level)


def oracle(table: FloatArray, level: MeasurementLevel) -> float:
    """The library raises where nothing can be compared or all answers are equal; to us that is NaN."""
    compared = table[np.isfinite(table).sum(axis=1) >= 2]
    if len(np.unique(compared[np.isfinite(compared)])) < 2:
        return float("nan")
    return float(krippendorff.alpha(reliability_data=table.T, level_of_measurement=level))


@pytest.mark.parametrize(
    ("level", "value"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849), ("ratio", 0.797)]
)
def test_the_published_example(level: MeasurementLevel, value: float) -> None:
    assert of_table(PUBLISHED, level) == pytest.approx(value, abs=5e-4)


@st.composite
def gappy(draw: st.DrawFn, values: st.SearchStrategy[float]) -> FloatArray:
    units, annotators = draw(st.integers(2, 9)), draw(st.integers(2, 5))
    cells = draw(st.lists(st.one_of(values, st.just(np.nan)), min_size=units * annotators, max_size=units * annotators))
    return np.array(cells).reshape(units, annotators)


@every_level
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_like_the_library_with_missing_answers(level: MeasurementLevel, data: st.DataObject) -> None:
    table = data.draw(gappy(st.integers(0, 5).map(float)))
    assert of_table(table, level) == pytest.approx(oracle(table, level), abs=1e-9, nan_ok=True)


@every_level
def test_like_the_library_with_many_values(level: MeasurementLevel) -> None:
    rng = np.random.default_rng(0)
    table = np.round(rng.gamma(2, 1, (40, 1)) + rng.gamma(1, 0.5, (40, 4)), 2)
    table[rng.random(table.shape) < 0.3] = np.nan
    assert of_table(table, level) == pytest.approx(oracle(table, level), abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_orders_do_not_matter(data: st.DataObject) -> None:
    table = data.draw(gappy(st.integers(1, 4).map(float)))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    mixed = table[rng.permutation(len(table))][:, rng.permutation(table.shape[1])]
    for level in MEASUREMENT_LEVELS:
        assert of_table(mixed, level) == pytest.approx(of_table(table, level), abs=1e-9, nan_ok=True)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_units_of_measurement_do_not_matter(data: st.DataObject) -> None:
    table = data.draw(gappy(st.integers(1, 6).map(float)))
    assert of_table(1e-6 * table + 7, "interval") == pytest.approx(of_table(table, "interval"), abs=1e-6, nan_ok=True)
    assert of_table(table**3, "ordinal") == pytest.approx(of_table(table, "ordinal"), abs=1e-9, nan_ok=True)
    assert of_table(1e5 * table, "ratio") == pytest.approx(of_table(table, "ratio"), abs=1e-9, nan_ok=True)


@every_level
@pytest.mark.parametrize(
    "table",
    [
        np.full((4, 3), 2.0),  # all answers equal
        np.array([[1, _], [_, 2], [3, _]]),  # nobody shares a unit
        np.array([[1], [2], [3]], dtype=float),  # one annotator
        np.full((2, 2), np.nan),
        np.empty((0, 3)),
    ],
    ids=["equal", "no overlap", "one annotator", "empty", "no units"],
)
def test_undefined(table: FloatArray, level: MeasurementLevel) -> None:
    assert np.isnan(of_table(table, level))


@every_level
def test_perfect_agreement(level: MeasurementLevel) -> None:
    assert of_table(np.repeat(np.array([[1.0], [2], [5]]), 3, axis=1), level) == pytest.approx(1.0)


# -- weights and draws ---------------------------------------------------------------------------------------------


def some_answers(seed: int = 0, values: int = 4, units: int = 30) -> PairableJudgments:
    rng = np.random.default_rng(seed)
    table = np.clip(rng.integers(0, values, (units, 1)) + rng.integers(-1, 2, (units, 4)), 0, values - 1).astype(float)
    table[rng.random(table.shape) < 0.25] = np.nan
    unit, _annotator, value = to_long_form(table)
    return pairable_judgments(unit, value, item=unit // 3)


def repeated(answers: PairableJudgments, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The answers of a draw written out: each item as often as it was drawn, as units of its own."""
    unit, value = [], []
    for item, times in enumerate(weight.astype(int)):
        rows = np.flatnonzero(answers.judgment_item == item)
        for copy in range(times):
            unit.append(answers.unit[rows] + (copy + 1) * 10_000)
            value.append(answers.values[answers.code[rows]])
    return np.concatenate(unit), np.concatenate(value)


@every_level
def test_a_draw_is_alpha_of_the_items_drawn(level: MeasurementLevel) -> None:
    answers = some_answers()
    weights = np.random.default_rng(1).integers(0, 3, (5, answers.items)).astype(float)
    expected = [krippendorff_alpha(*repeated(answers, weight), level) for weight in weights]  # type: ignore[arg-type]
    assert alpha_measure(answers, level)(weights) == pytest.approx(expected, abs=1e-10)


def test_ordinal_alpha_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = some_answers(values=9)
    weights = np.random.default_rng(2).integers(0, 3, (6, answers.items)).astype(float)
    first = alpha_measure(answers, "ordinal")
    assert not isinstance(first, OrdinalAlpha)
    by_table = first(weights)
    monkeypatch.setattr(module, "_MAX_TABLE_SIZE", 0)
    other = alpha_measure(answers, "ordinal")
    assert isinstance(other, OrdinalAlpha)
    assert other(weights) == pytest.approx(by_table, abs=1e-12)
    assert (other.items, other.width) == (answers.items, len(answers.code))


@every_level
def test_intervals_hold_the_value(level: MeasurementLevel) -> None:
    found = bootstrap_intervals([alpha_measure(some_answers(3), level)], 300, seed=1)[0]
    assert found.low < found.value < found.high


@pytest.mark.slow
def test_intervals_cover_the_value_of_the_population() -> None:
    rng = np.random.default_rng(5)
    noise, people, units = 1.0, 3, 60
    truth = 1 / (1 + noise**2)  # interval alpha of exchangeable annotators is the intraclass correlation
    inside = 0
    for _draw in range(300):
        table = rng.normal(size=(units, 1)) + noise * rng.normal(size=(units, people))
        unit, _annotator, value = to_long_form(table)
        found = bootstrap_intervals([alpha_measure(pairable_judgments(unit, value), "interval")], 400, seed=rng)[0]
        inside += found.low <= truth <= found.high
    assert 0.91 <= inside / 300 <= 0.985


def test_many_judgments_in_one_go() -> None:
    """A hundred annotators on two thousand units with as many values as answers: no table of values is made."""
    rng = np.random.default_rng(6)
    unit = np.repeat(np.arange(2000), 100)
    value = rng.normal(size=2000)[unit] + rng.normal(size=len(unit))
    assert krippendorff_alpha(unit, value, "interval") == pytest.approx(0.5, abs=0.03)
    assert krippendorff_alpha(unit, value, "ordinal") == pytest.approx(0.48, abs=0.03)
    assert measure_value(alpha_measure(pairable_judgments(unit, value), "nominal")) == pytest.approx(0, abs=1e-6)


def test_pairable_keeps_places_and_items() -> None:
    found = pairable_judgments(
        np.array([5, 3, 5, 3, 9]), np.array([1.0, 2, 4, np.nan, 1]), item=np.array([8, 7, 8, 7, 7])
    )
    assert found.kept.tolist() == [0, 2]
    assert (found.items, found.item.tolist(), found.size.tolist()) == (1, [0], [2])


def test_bad_input() -> None:
    unit = np.array([0, 0, 1, 1])
    with pytest.raises(NameUnknownError, match="`level` is 'ordnal'; did you mean 'ordinal'"):
        krippendorff_alpha(unit, np.arange(4.0), "ordnal")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="the judgment -1 is negative; a ratio scale begins at 0"):
        krippendorff_alpha(unit, np.array([-1.0, 0, 1, 2]), "ratio")
    with pytest.raises(OptionError, match="at most 3000: round"):
        krippendorff_alpha(np.arange(4000) // 2, np.arange(4000.0), "ratio")
