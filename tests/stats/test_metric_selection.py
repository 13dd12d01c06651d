"""Forward selection against fitting every fold with `pooled_ridge`, known answers, and metrics of noise."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest

from aliquot.errors import OptionError
from aliquot.stats import metric_selection
from aliquot.stats.arrays import FloatArray
from aliquot.stats.metric_selection import forward_selection
from aliquot.stats.regression import pooled_ridge


def problem(seed: int = 0, items: int = 120, systems: int = 4, holes: float = 0.0) -> tuple[FloatArray, FloatArray]:
    """Two independent halves of quality, each seen by one metric; a weak copy of the first; noise."""
    rng = np.random.default_rng(seed)
    first, second = rng.normal(size=(2, items, systems))
    human = first + 0.7 * second + 0.7 * rng.normal(size=first.shape) + 3.0 * np.arange(systems)
    noise = rng.normal(size=(4, items, systems))
    metrics = np.stack([first + 2 * noise[0], second + 0.3 * noise[1], noise[2], 5 * (first + 0.3 * noise[3])])
    human[rng.random(human.shape) < holes] = np.nan
    return metrics + np.arange(systems)[::-1], human


def within(values: FloatArray) -> FloatArray:
    """Less the system's mean, missing cells 0."""
    return np.asarray(np.nan_to_num(values - np.nanmean(values, axis=0)))


def by_refitting(
    metrics: FloatArray, human: FloatArray, chosen: list[int], folds: int, ridge: float, seed: int
) -> FloatArray:
    """Cross-fitted residuals (items x systems), every fold's slopes from `pooled_ridge` on the other items."""
    judged = ~np.isnan(human)
    features = np.stack([np.where(judged, metrics[k], np.nan) for k in chosen], axis=2)
    features = np.stack([within(features[:, :, k]) for k in range(len(chosen))], axis=2)
    features /= np.sqrt((features**2).sum(axis=(0, 1)) / judged.sum())
    split = np.random.default_rng(seed).permutation(len(human)) % folds
    residual = within(human)
    for fold in range(folds):
        train = split != fold
        slopes = pooled_ridge(features[train], human[train], np.ones(train.sum()), ridge).slopes
        residual[~train] -= features[~train] @ slopes
    return within(np.where(judged, residual, np.nan))


@pytest.mark.parametrize("holes", [0.0, 0.2])
@pytest.mark.parametrize(("folds", "ridge"), [(10, 1.0), (3, 0.0), (5, 20.0)])
def test_each_step_is_a_cross_fitted_regression(holes: float, folds: int, ridge: float) -> None:
    metrics, human = problem(1, holes=holes)
    result = forward_selection(metrics, human, folds=folds, ridge=ridge, least=0, seed=4)
    centred = within(human)
    total, before, chosen, last = (centred**2).sum(), centred, list[int](), 0.0
    for step in result.steps:
        rest = [k for k in range(4) if k not in chosen]
        tried = {k: by_refitting(metrics, human, [*chosen, k], folds, ridge, 4) for k in rest}
        assert step.metric == min(tried, key=lambda k: (tried[k] ** 2).sum())
        chosen.append(step.metric)
        after = tried[step.metric]
        assert step.r2 == pytest.approx(1 - (after**2).sum() / total, abs=1e-9)
        assert step.gain == pytest.approx(step.r2 - last, abs=1e-9)
        saved = (before**2 - after**2).sum(axis=1)
        assert step.se == pytest.approx(np.sqrt(len(saved) * saved.var(ddof=1)) / total)
        assert step.rho == pytest.approx(np.corrcoef((centred - after).ravel(), centred.ravel())[0, 1], abs=0.01)
        metric = within(np.where(np.isnan(human), np.nan, metrics[step.metric]))
        assert step.alone == pytest.approx((metric * centred).sum() / np.sqrt((metric**2).sum() * total))
        before, last = after, step.r2
    assert (result.cells, result.items, result.folds) == ((~np.isnan(human)).sum(), len(human), folds)


def test_the_right_metrics_are_chosen() -> None:
    """The best, then what it does not see; its weak copy and the noise bring nothing."""
    metrics, human = problem(2, items=400)
    result = forward_selection(metrics, human)
    assert result.chosen == (3, 1)
    assert result.refused is not None
    assert result.refused.gain < result.refused.se
    # Variance 1 + 0.49 + 0.49, of which 1 / 1.09 and 0.49 / 1.09 can be known.
    assert result.steps[0].r2 == pytest.approx(1 / 1.09 / 1.98, abs=0.04)
    assert result.steps[1].r2 == pytest.approx(1.49 / 1.09 / 1.98, abs=0.04)
    assert result.steps[1].rho ** 2 == pytest.approx(result.steps[1].r2, abs=0.02)


def test_scale_and_order_do_not_matter() -> None:
    metrics, human = problem(3)
    plain = forward_selection(metrics, human, least=0)
    turned = forward_selection((1000 * metrics - 3)[::-1], 2 * human + np.arange(4), least=0)
    assert [3 - metric for metric in turned.chosen] == list(plain.chosen)
    for one, other in zip(plain.steps, turned.steps, strict=True):
        assert {**asdict(one), "metric": 0} == pytest.approx({**asdict(other), "metric": 0})


def test_noise_seldom_gets_in() -> None:
    rng = np.random.default_rng(4)
    chosen = 0
    for seed in range(100):
        scores = rng.normal(size=(6, 60, 4))
        chosen += bool(forward_selection(scores[:5], scores[5], seed=seed).steps)
    assert chosen < 25


def test_r2_is_honest_about_items_not_seen() -> None:
    """One metric, no choice: cross-fitted r2 is what slopes learned here save on new items of the same kind."""
    found, promised = [], []
    for seed in range(30):
        metrics, human = problem(seed, 400)
        promised.append(forward_selection(metrics[3:, :40], human[:40], least=0, ridge=0).steps[0].r2)
        slope = pooled_ridge(metrics[3, :40, :, None], human[:40], np.ones(40), 0.0).slopes[0]
        fresh = within(human[40:])
        found.append(1 - ((fresh - slope * within(metrics[3, 40:])) ** 2).sum() / (fresh**2).sum())
    assert np.mean(promised) == pytest.approx(np.mean(found), abs=0.03)


def test_copies_are_taken_once() -> None:
    metrics, human = problem(5)
    copies = np.stack([metrics[3], metrics[3], 2 * metrics[3] + 1])
    for ridge in (0.0, 1.0):
        assert len(forward_selection(copies, human, ridge=ridge).chosen) == 1


def test_limit_and_constant_metrics() -> None:
    metrics, human = problem(6)
    limited = forward_selection(metrics, human, limit=1)
    assert len(limited.steps) == 1
    assert limited.refused is None
    metrics[3] = 0.1
    result = forward_selection(metrics, human, least=0)
    assert 3 not in result.chosen
    only = forward_selection(metrics[3:], human)
    assert only.steps == ()
    assert only.refused is not None
    assert np.isnan(only.refused.alone)


def test_a_harmful_metric_is_refused() -> None:
    """Whatever `least` says, a gain must be one."""
    rng = np.random.default_rng(7)
    for seed in range(20):
        result = forward_selection(rng.normal(size=(1, 20, 3)), rng.normal(size=(20, 3)), least=0, seed=seed)
        assert all(step.gain > 0 for step in result.steps)


def test_same_seed_same_result() -> None:
    metrics, human = problem(8)
    assert forward_selection(metrics, human, seed=1) == forward_selection(metrics, human, seed=np.random.default_rng(1))
    assert forward_selection(metrics, human, seed=1) != forward_selection(metrics, human, seed=2)


def test_missing_metrics_and_few_items() -> None:
    metrics, human = problem(9)
    metrics[0, 10:] = np.nan
    human[5:8] = np.nan
    result = forward_selection(metrics, human)
    assert (result.items, result.folds, result.cells) == (7, 7, 28)


def test_bad_arguments() -> None:
    metrics, human = problem()
    with pytest.raises(OptionError, match="`folds` is 1"):
        forward_selection(metrics, human, folds=1)
    with pytest.raises(OptionError, match="`ridge` is -1"):
        forward_selection(metrics, human, ridge=-1)
    with pytest.raises(OptionError, match="`limit` is 0"):
        forward_selection(metrics, human, limit=0)
    with pytest.raises(OptionError, match="give metrics x items x systems"):
        forward_selection(metrics[0], human)
    with pytest.raises(OptionError, match="infinite"):
        forward_selection(metrics, human * np.inf)
    with pytest.raises(OptionError, match="fewer than 2 items"):
        forward_selection(metrics[:, :1], human[:1])
    with pytest.raises(OptionError, match="fewer than 2 items"):
        forward_selection(metrics, np.full_like(human, np.nan))
    with pytest.raises(OptionError, match="constant within every system"):
        forward_selection(metrics, np.zeros_like(human) + np.arange(4) / 3)


def test_the_sum_of_squares_comes_from_sums_alone():
    rng = np.random.default_rng(3)
    human = rng.normal(size=(40, 4))
    human[rng.random(human.shape) < 0.2] = np.nan
    stack = rng.normal(size=(5, 40, 4)) + np.nan_to_num(human)
    cells = metric_selection._collect_cells(stack, human)
    split = rng.permutation(int(cells.item.max()) + 1) % 5
    sums = metric_selection._fold_sums(cells, split, 1.0)
    for chosen in ([0], [1, 3], [0, 1, 2, 3, 4]):
        kept = metric_selection._cross_fitted_residual(cells, split, sums, chosen)
        assert metric_selection._residual_squares(sums, chosen) == pytest.approx(float(kept @ kept), rel=1e-10)
