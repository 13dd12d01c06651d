"""Codes, slips and copies: what is found, and what a careful campaign may contain."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aliquot.stats.plausibility import find_copied_columns, find_outside_values, is_rescaled_copy


def direct_assessment(seed: int, n: int = 200) -> np.ndarray:
    return np.clip(np.random.default_rng(seed).normal(78, 15, n), 0, 100).round()


def penalties(seed: int, n: int = 200) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return -np.where(rng.random(n) < 0.4, 0.0, np.exp(rng.normal(1, 1.3, n)).round())


@pytest.mark.parametrize("code", [999.0, -1.0, -999.0, 850.0, 9999.0])
@pytest.mark.parametrize("share", [0.005, 0.1])
def test_codes_and_slips_are_found(code, share):
    if code == 850 and share > 0.02:
        pytest.skip("a tenth of all values is no slip")
    hits = 0
    for seed in range(20):
        values = direct_assessment(seed)
        values[: max(1, int(share * len(values)))] = code
        hits += find_outside_values(values) == [code]
    assert hits == 20


@pytest.mark.parametrize("code", [9.0, 99.0, -1.0, -9.0])
def test_codes_on_a_likert_scale_are_found(code):
    values = np.random.default_rng(0).integers(1, 6, 100).astype(float)
    values[7] = code
    assert find_outside_values(values) == [code]


@pytest.mark.parametrize(
    "values",
    [
        [-1.0, 0.0, 1.0] * 20,  # worse, same, better
        [-2.0, -1.0, 0.0, 1.0, 2.0] * 10,
        [0.0, 1.0] * 30,
        [*np.linspace(60, 100, 40), 0.0],  # one output that is worth nothing
        [*[0.0] * 30, *[-1.0] * 10, *[-5.0] * 5, -25.0],  # one catastrophe
        [5.0] * 30,
        [0.0, *[0.04] * 6, 0.05, 0.33, *[0.7] * 4, *[0.82] * 2],  # frequent values above a rare one
    ],
)
def test_scales_and_tails_are_left_alone(values):
    assert find_outside_values(np.array(values)) == []


def test_ordinary_campaigns_raise_no_alarm():
    alarms = sum(
        bool(find_outside_values(make(seed))) for seed in range(200) for make in (direct_assessment, penalties)
    )
    assert alarms <= 4


@given(st.lists(st.floats(allow_nan=True, allow_infinity=False, width=32), max_size=60))
def test_any_values_can_be_searched(values):
    array = np.array(values, dtype=float)
    assert set(find_outside_values(array)) <= set(array[np.isfinite(array)].tolist())


def test_a_copy_in_other_units_with_a_few_corrections_is_a_copy():
    people = direct_assessment(1)
    metric = people / 100
    metric[:3] = 0.5
    metric[10:40] = np.nan
    assert is_rescaled_copy(metric, people)
    assert is_rescaled_copy(-metric, people)
    assert not is_rescaled_copy(people + np.random.default_rng(0).normal(size=len(people)), people)


def test_annotators_who_agree_by_chance_are_no_copies():
    rng = np.random.default_rng(3)
    easy = (rng.random((40, 4)) < 0.95).astype(float)  # pass or fail, mostly pass
    assert find_copied_columns(np.column_stack([easy, np.ones(40)])) == []


def test_a_copy_is_found_where_it_overlaps():
    rng = np.random.default_rng(4)
    values = rng.integers(0, 101, (60, 3)).astype(float)
    values[:30, 0] = np.nan
    copy = np.where(np.arange(60) < 45, values[:, 0], np.nan)
    assert find_copied_columns(np.column_stack([values, copy])) == [(0, 3, 15)]
