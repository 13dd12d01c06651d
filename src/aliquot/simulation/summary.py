"""From cells to a verdict: each method against random, over the budgets, with its error."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from aliquot.metric_eval.measures import MEASURES, Parity, SampleMeasure, compute_parity, find_first_crossings
from aliquot.simulation.setup import MIN_ITEMS
from aliquot.simulation.units import ReplayCell
from aliquot.stats.arrays import FloatArray

PARITY_DRAWS = 100
_QUANTILE = 0.975
_ROUNDING = 1e-12  # of a value: smaller differences are rounding
ALL_SETS = "(all sets)"


@dataclass(frozen=True)
class MethodSummary:
    """One method and measure on one set, over the budgets asked for."""

    data: str
    method: str
    measure: str
    value: float  # mean over the budgets
    error: float  # its Monte Carlo standard error
    ratio_to_random: float  # mean over the budgets of value / random's value
    # mean of C/B, C the smallest budget at which the method is as good as random at B; infinite where some target is
    # never reached
    parity: float
    parity_error: float  # Monte Carlo standard error of the parity
    parity_reached: float  # mean of C/B over the targets that are reached
    missed: int  # number of targets that are never reached
    cost_parity: float  # the same with what was spent in the place of the budget
    # "better" or "worse" than random beyond the Monte Carlo error (95%, Welch), "unclear" within it; over several sets,
    # what all of them agree on
    gain: str


@dataclass(frozen=True, eq=False)
class Curve:
    """A measure over ascending budgets: means, errors, what was spent, the replays behind it, and the items judged."""

    share: FloatArray
    value: FloatArray
    error: FloatArray
    asked: FloatArray
    spent: FloatArray
    repeats: FloatArray
    items: FloatArray

    @property
    def complete(self) -> bool:
        """Whether it has every number of items of a fixed order: then nothing lies between two points."""
        steps = np.diff(self.items)
        return bool(len(steps) and (steps <= 1.0).all() and (self.repeats == 1).all() and self.items[0] <= MIN_ITEMS)


def build_curve(cells: Iterable[ReplayCell], spent: dict[float, float]) -> Curve:
    """Arrange cells of one set, method and measure by budget."""
    rows = sorted(cells, key=lambda cell: cell.share)
    columns = [
        (c.share, c.value, c.error, float(c.asked), spent.get(c.share, c.share), c.repeats, c.items) for c in rows
    ]
    table = np.array(columns, dtype=np.float64).reshape(-1, 7)
    return Curve(*table.T)


def summarise_methods(cells: Sequence[ReplayCell], baseline: str) -> list[MethodSummary]:
    """One row for each set, method and measure; then, with several sets, the mean over them."""
    groups: dict[tuple[str, str, str], list[ReplayCell]] = {}
    for cell in cells:
        groups.setdefault((cell.data, cell.method, cell.measure), []).append(cell)
    curves = {}
    for (data, method, measure), group in groups.items():
        costs = {c.share: c.value for c in groups.get((data, method, "cost"), [])}
        curves[data, method, measure] = build_curve(group, costs)
    rows = []
    for (data, method, measure), curve in curves.items():
        random = curves.get((data, baseline, MEASURES[measure].against))
        rows.append(_summarise_curve(data, method, MEASURES[measure], curve, random, is_random=method == baseline))
    return rows + _average_sets(rows)


def _summarise_curve(
    data: str, method: str, measure: SampleMeasure, curve: Curve, random: Curve | None, *, is_random: bool
) -> MethodSummary:
    is_asked = curve.asked > 0
    value = float(np.mean(curve.value[is_asked]))
    error = _combine_errors(curve.error[is_asked])
    if random is None:
        undefined = float("nan")
        return MethodSummary(
            data,
            method,
            measure.name,
            value,
            error,
            undefined,
            undefined,
            undefined,
            undefined,
            0,
            undefined,
            "unclear",
        )
    baseline = random.value[random.asked > 0]
    ratio = np.divide(curve.value[is_asked], baseline, out=np.full(len(baseline), np.nan), where=np.abs(baseline) > 0)
    parity, spread, by_cost = _compute_parities(
        measure, curve, random, is_random=is_random and measure.baseline is None
    )
    difference = value - float(baseline.mean())
    # Sums of costs in another order differ in their last digits; where nothing varies that is no difference.
    half_width = max(_compute_half_width(curve, random), _ROUNDING * abs(value))
    gain = _judge_gain(
        difference if measure.better == "higher" else -difference, half_width, measure, is_random=is_random
    )
    return MethodSummary(
        data,
        method,
        measure.name,
        value,
        error,
        float(ratio.mean()),
        parity.value,
        spread,
        parity.reached,
        parity.missed,
        by_cost,
        gain,
    )


def _combine_errors(errors: FloatArray) -> float:
    return float(np.sqrt((errors**2).sum()) / max(1, len(errors)))


def _compute_half_width(curve: Curve, random: Curve) -> float:
    """Half width of the interval of the difference of two means over budgets: t by Welch's degrees of freedom."""
    variances, freedom = [], []
    for line in (curve, random):
        is_asked = line.asked > 0
        variances.append(line.error[is_asked] ** 2 / is_asked.sum() ** 2)
        freedom.append(np.maximum(line.repeats[is_asked] - 1.0, 1.0))
    each, degrees = np.concatenate(variances), np.concatenate(freedom)
    total = float(each.sum())
    if not total > 0:
        return total
    return float(stdtrit(total**2 / float((each**2 / degrees).sum()), _QUANTILE) * np.sqrt(total))


def _judge_gain(difference: float, half_width: float, measure: SampleMeasure, *, is_random: bool) -> str:
    if (
        measure.better == "neither"
        or (is_random and measure.baseline is None)
        or not np.isfinite(difference + half_width)
    ):
        return "unclear"
    return "unclear" if abs(difference) <= half_width else "better" if difference > 0 else "worse"


def _compute_parities(
    measure: SampleMeasure, curve: Curve, random: Curve, *, is_random: bool
) -> tuple[Parity, float, float]:
    """Parity by budget, its Monte Carlo error, and parity by what was spent."""
    undefined = float("nan")
    if measure.better == "neither" or measure.name == "cost":
        return Parity(undefined, undefined, 0), undefined, undefined
    if is_random:
        return Parity(1.0, 1.0, 0), 0.0, 1.0
    sign = 1.0 if measure.better == "higher" else -1.0
    is_asked = random.asked > 0
    targets, budgets = sign * random.value[is_asked], random.share[is_asked]
    between = not curve.complete
    parity = compute_parity(find_first_crossings(curve.share, sign * curve.value, targets, between=between), budgets)
    order = np.argsort(curve.spent, kind="stable")[: np.isfinite(curve.spent).sum()]
    spent = compute_parity(
        find_first_crossings(curve.spent[order], sign * curve.value[order], targets), random.spent[is_asked]
    )
    rng = np.random.default_rng(0)
    draws = [
        compute_parity(
            find_first_crossings(
                curve.share,
                sign * curve.value + curve.error * rng.normal(size=len(curve.value)),
                targets + random.error[is_asked] * rng.normal(size=len(targets)),
                between=between,
            ),
            budgets,
        ).reached
        for _ in range(PARITY_DRAWS)
    ]
    finite = np.array(draws)[np.isfinite(draws)]
    return parity, float(finite.std()) if len(finite) > 1 else undefined, spent.value


def _average_sets(rows: list[MethodSummary]) -> list[MethodSummary]:
    """Means over the sets, where there are several."""
    sets = list(dict.fromkeys(row.data for row in rows))
    if len(sets) < 2:
        return []
    groups: dict[tuple[str, str], list[MethodSummary]] = {}
    for row in rows:
        groups.setdefault((row.method, row.measure), []).append(row)
    return [_average_rows(method, measure, group) for (method, measure), group in groups.items()]


def _average_rows(method: str, measure: str, group: list[MethodSummary]) -> MethodSummary:
    def mean(name: str) -> float:
        return float(np.mean([getattr(row, name) for row in group]))

    errors = np.array([row.error for row in group])
    verdicts = {row.gain for row in group}
    gain = verdicts.pop() if len(verdicts) == 1 else "unclear"
    return MethodSummary(
        ALL_SETS,
        method,
        measure,
        mean("value"),
        _combine_errors(errors),
        mean("ratio_to_random"),
        mean("parity"),
        _combine_errors(np.array([row.parity_error for row in group])),
        float(np.mean([r.parity_reached for r in group])),
        sum(row.missed for row in group),
        mean("cost_parity"),
        gain,
    )
