"""Crossed effects: statsmodels and the balanced analysis of variance as oracles, shrinkage, and what cannot be told."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aliquot.stats import annotator_effects as module
from aliquot.stats.annotator_effects import crossed_effects


def campaign(seed: int, people: int = 8, items: int = 40, groups: int = 3, n: int = 300) -> Any:
    rng = np.random.default_rng(seed)
    sds = (2.0, 1.5, 1.0)
    person = np.concatenate([np.arange(people), rng.integers(0, people, n - people)])
    item = np.concatenate([np.arange(items), rng.integers(0, items, n - items)])
    group = rng.integers(0, groups, n)
    severity = rng.normal(0, sds[0], people)
    y = severity[person] + rng.normal(0, sds[1], items)[item] + 1.0 * group + rng.normal(0, sds[2], n) + 50
    return y, person, item, group, severity


@pytest.mark.parametrize("seed", [0, 1])
def test_against_statsmodels(seed):
    formula = pytest.importorskip("statsmodels.formula.api")
    pandas = pytest.importorskip("pandas")
    y, person, item, group, _ = campaign(seed, n=200, people=5, items=20)
    ours = crossed_effects(y, person, item, group)
    frame = pandas.DataFrame({"y": y, "a": person, "i": item, "g": group, "one": 1})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = formula.mixedlm("y ~ 0 + C(g)", frame, groups="one", vc_formula={"a": "0 + C(a)", "i": "0 + C(i)"}).fit(
            reml=True
        )
    assert [ours.annotator_sd, ours.item_sd] == pytest.approx(np.sqrt(model.vcomp), rel=1e-3)
    assert ours.noise_sd == pytest.approx(np.sqrt(model.scale), rel=1e-3)
    assert ours.group == pytest.approx(model.fe_params.to_numpy(), rel=1e-4)
    effects = model.random_effects[1].to_numpy()
    assert ours.annotator == pytest.approx(effects[:5], abs=1e-3)
    assert ours.item == pytest.approx(effects[5:], abs=1e-3)


def test_the_balanced_design_is_the_analysis_of_variance():
    """With every annotator on every item, REML is the method of moments where all mean squares are in order."""
    rng = np.random.default_rng(4)
    people, items = 6, 30
    table = rng.normal(0, 2, people)[:, None] + rng.normal(0, 3, items)[None, :] + rng.normal(0, 1, (people, items))
    person, item = np.repeat(np.arange(people), items), np.tile(np.arange(items), people)
    fit = crossed_effects(table.ravel(), person, item)
    grand, rows, columns = table.mean(), table.mean(axis=1), table.mean(axis=0)
    noise = ((table - rows[:, None] - columns[None, :] + grand) ** 2).sum() / ((people - 1) * (items - 1))
    var_person = (items * ((rows - grand) ** 2).sum() / (people - 1) - noise) / items
    var_item = (people * ((columns - grand) ** 2).sum() / (items - 1) - noise) / people
    assert fit.noise_sd**2 == pytest.approx(noise, rel=1e-4)
    assert fit.annotator_sd**2 == pytest.approx(var_person, rel=1e-4)
    assert fit.item_sd**2 == pytest.approx(var_item, rel=1e-4)
    shrink = var_person / (var_person + noise / items)
    assert fit.annotator == pytest.approx(shrink * (rows - grand), abs=1e-4)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.floats(-5, 5), st.floats(0.1, 20))
def test_shift_and_scale_of_the_values(seed, shift, scale):
    y, person, item, group, _ = campaign(seed, n=120, people=5, items=20)
    first = crossed_effects(y, person, item, group)
    second = crossed_effects(shift + scale * y, person, item, group)
    assert second.annotator == pytest.approx(scale * first.annotator, abs=1e-3 * scale)
    assert second.noise_sd == pytest.approx(scale * first.noise_sd, rel=1e-3)


def test_it_recovers_severity_that_means_would_miss():
    """The strict annotator saw only the easy items: their mean looks generous, their effect does not."""
    rng = np.random.default_rng(5)
    quality = np.repeat([10.0, 0.0], 50)  # easy items, hard items
    shared = rng.permutation(100)[:40]
    person = np.concatenate([np.zeros(50, int), np.ones(50, int), np.zeros(40, int), np.ones(40, int)])
    item = np.concatenate([np.arange(50), np.arange(50, 100), shared, shared])
    y = quality[item] + np.array([-2.0, 2.0])[person] + rng.normal(0, 0.5, len(item))
    assert y[person == 0].mean() > y[person == 1].mean()
    fit = crossed_effects(y, person, item)
    assert fit.annotator[1] - fit.annotator[0] == pytest.approx(4.0, abs=0.5)


def test_standard_errors_cover():
    """True effects lie within two standard errors about as often as they should (few annotators: a wide band)."""
    inside = total = 0
    for seed in range(40):
        y, person, item, group, severity = campaign(seed, people=12, n=200)
        fit = crossed_effects(y, person, item, group)
        off = severity - fit.annotator
        inside += int((np.abs(off) < 1.96 * fit.annotator_se).sum())
        total += 12
    assert 0.90 < inside / total < 0.98


def test_noise_tells_who_is_erratic():
    rng = np.random.default_rng(6)
    person, item = np.tile(np.arange(5), 60), np.repeat(np.arange(60), 5)
    sd = np.array([1.0, 1.0, 1.0, 1.0, 4.0])
    fit = crossed_effects(rng.normal(0, 3, 60)[item] + rng.normal(0, 1, 300) * sd[person], person, item)
    assert fit.noise.argmax() == 4
    assert fit.noise[4] > 2 * np.median(fit.noise)


def test_what_cannot_be_told_is_nothing():
    one = crossed_effects(np.array([1.0, 2.0, 4.0, 5.0]), np.zeros(4, int), np.array([0, 0, 1, 1]))
    assert one.annotator.tolist() == [0.0]
    alone = crossed_effects(np.array([1.0, 2.0, 4.0, 6.0]), np.array([0, 0, 1, 1]), np.arange(4))
    assert alone.item.tolist() == [0.0] * 4
    with pytest.raises(ValueError, match="too few"):
        crossed_effects(np.array([1.0, 2.0]), np.array([0, 1]), np.array([0, 1]), np.array([0, 1]))


def test_equal_values_and_perfect_additivity():
    flat = crossed_effects(np.full(8, 3.0), np.tile([0, 1], 4), np.repeat(np.arange(4), 2))
    assert flat.annotator == pytest.approx([0.0, 0.0])
    assert flat.group == pytest.approx([3.0])
    exact = crossed_effects(np.array([0.0, 1, 2, 3, 5, 6]), np.tile([0, 1], 3), np.repeat(np.arange(3), 2))
    assert exact.annotator[1] - exact.annotator[0] == pytest.approx(1.0, abs=0.01)


def test_many_kinds_of_counts_take_the_other_road(monkeypatch):
    y, person, item, group, _ = campaign(7)
    first = crossed_effects(y, person, item, group)
    monkeypatch.setattr(module, "_MAX_HELD", 0)
    second = crossed_effects(y, person, item, group)
    assert second.annotator == pytest.approx(first.annotator, abs=1e-6)
