"""Watch a campaign while people judge: which differences are decided, and when judging may stop.

Every pair's difference and every system's mean has a confidence sequence (docs/methods.md, section 4), valid at every
look. For the question "ranking", all pairs share the error rate alpha: the probability of any false decision in a run
is at most alpha. For "best", a system is out when any other has beaten it, and the last one is the best. A wrong answer
needs the best system to lose one of its M - 1 pairs, so each pair has alpha / (M - 1). The order among systems that are
out is then not guaranteed. (Two-sided: if two systems tie at the top, naming one of them is an error in both
directions.)

Items come in random order, each drawn once from the test set. A sequence holds at all its lengths at once, so systems
may be judged on different numbers of items, and any policy may decide which system is judged next.

Two kinds. `betting` is exact for scores on a known scale and items drawn with equal probabilities. `asymptotic` also
takes weights w = 1/z (items of size z are drawn one after another, by size among those left) and metrics. With d the
difference of two scores, g of their metrics on the item and G over the test set, e = d - g'b - c and L the size of the
items left, the value of the next item is G'b + c + (sum of e before + e L / z) / N. Given the items before, its mean is
the mean of d over the test set (Des Raj 1956), whatever b and c, which come from earlier items only; its variance
shrinks as (L / N)^2, so the sequence of the target `given` (these very judgments) closes when all items are judged.

The target of `estimate` is `testset`: what other annotators would say on average. Judging all items leaves the noise of
judging, of variance v = s2 / N for a mean, s2 the noise of an output's score, and twice that for a difference, plus
the variance from the choice of annotators. So each half width h becomes sqrt(h^2 + q^2 v). If the noise is unknown (no
output was judged by several annotators), all of the residual variance may be noise: v is that of the series over N.
q is Student's quantile of a quarter of the series' error rate: a sequence that wanders about a fixed error crosses
plain quantiles too often. With N from 40 to 1,200 and noise of 30 and 100% of the variance, looked at after every item,
5 to 11% of runs missed with the plain quantile (nominal 5%), 1 to 5% with this one.

A few outputs may be far worse than all others (penalties of -25 and more), and the sequence cannot foresee those still
to come. So its half width h becomes sqrt(h^2 + (2 X / N)^2), X the largest |e| that any series has seen: two more such
outputs may be among the items left. With equal systems made from six MQM campaigns, this, Student's t and capped
weights reduced the runs with a false decision from 3 to 19% to 1 or 2% (alpha = 0.05). This term alone makes intervals
up to 11% wider at three quarters of the items, and hardly at a quarter.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal, get_args

import numpy as np

from aliquot.core.evalset import ItemId
from aliquot.errors import DataError, OptionError, unknown_name
from aliquot.estimation.picture import PairState, Picture, Question
from aliquot.estimation.running_sequences import Features, MetricSlopes, RunningSequences
from aliquot.estimation.targets import JudgingNoise
from aliquot.io.inputs import JudgmentsLike, as_judgments
from aliquot.stats.arrays import FloatArray
from aliquot.stats.confidence_sequences import (
    FIRST_LOOK,
    AsymptoticState,
    BettingState,
    start_asymptotic,
    start_betting,
)
from aliquot.validation import above, at_least, between, invalid, one_of

Kind = Literal["betting", "asymptotic"]
_ROUNDING = 1e-9


class Monitor:
    """Collects judgments and returns what is decided; its module's docstring states the guarantees.

    Args:
        systems: The systems compared.
        population: Number of items of the whole test set.
        value_range: Ends of the scale; required for betting.
        question: "best" system, full "ranking", or all "means" within +- `margin`.
        margin: For means, the half width asked for.
        alpha: Error rate over the whole run.
        kind: "betting" or "asymptotic"; by default betting if the scale is known and there are no features.
        features: Metrics of all outputs, which narrow asymptotic sequences.
        noise: Variance of the judging noise of an output's score, or the result of `judging_noise`. None: unknown, so
            that all variance may be noise. 0: the target is `given`, the mean of these very judgments. It may be set
            later: `monitor.noise = ...`.

    >>> monitor = Monitor(["A", "B"], population=100, value_range=(0, 1), question="best")
    >>> for item in range(60):
    ...     monitor.add(item, {"A": 0.9, "B": 0.1 + 0.1 * (item % 2)})
    >>> monitor.picture().reason
    'stop: A is the best system'
    """

    def __init__(
        self,
        systems: Sequence[str],
        population: int,
        *,
        value_range: tuple[float, float] | None = None,
        question: Question = "best",
        margin: float | None = None,
        alpha: float = 0.05,
        kind: Kind | None = None,
        features: Features | None = None,
        noise: JudgingNoise | float | None = None,
    ) -> None:
        self._systems, self._column = tuple(systems), {name: column for column, name in enumerate(systems)}
        _validate_question(self._systems, population, question, margin, alpha)
        self.kind: Kind = kind or ("betting" if value_range is not None and features is None else "asymptotic")
        _validate_kind(self.kind, value_range, features, len(self._systems))
        self._range, self._question, self._margin, self._population = value_range, question, margin, population
        self._a, self._b = np.triu_indices(len(self._systems), 1)
        # Asked for means, half of alpha is theirs and half the pairs'; otherwise only pairs are decided.
        share = 2 if question == "means" else 1
        pairs, means = max(1, len(self._a)), len(self._systems)
        if question == "best":
            pairs = max(1, means - 1)
        self._slopes = None if features is None else MetricSlopes(features)
        overall = np.zeros((means, 0)) if self._slopes is None else self._slopes.mean
        between = overall[self._a] - overall[self._b] if len(self._a) else np.zeros((1, overall.shape[1]))
        level = 1.0 - alpha / (share * pairs)
        self._pairs = RunningSequences(self._start_state(len(between), level, difference=True), population, between)
        self._means = RunningSequences(
            self._start_state(means, 1.0 - alpha / (share * means), difference=False), population, overall
        )
        self._scores: dict[ItemId, FloatArray] = {}
        self._weights: dict[ItemId, float] = {}
        self._judgments = 0
        self.noise = noise

    @property
    def noise(self) -> JudgingNoise | float | None:
        """Noise of judging that the intervals include."""
        return self._noise

    @noise.setter
    def noise(self, noise: JudgingNoise | float | None) -> None:
        self._noise = noise if isinstance(noise, JudgingNoise) else JudgingNoise(math.nan if noise is None else noise)
        shares, systems = self._noise.shares, len(self._systems)
        if self._noise.cell < 0 or (len(shares) and shares.shape[1] != systems):
            raise invalid(
                "noise", noise, f"give a variance, or what `judging_noise` returns for these {systems} systems"
            )
        covariance = self._noise.covariance(adjusted=False) if len(shares) else np.zeros((systems, systems))
        variances = np.diag(covariance)
        gap = (
            variances[self._a] + variances[self._b] - 2.0 * covariance[self._a, self._b]
            if len(self._a)
            else np.zeros(1)
        )
        self._annotators = variances, np.maximum(gap, 0.0)

    def _noise_half_widths(self) -> tuple[FloatArray, FloatArray]:
        """Return what judging noise adds to the half widths of means and pairs."""
        means, pairs = self._annotators
        cell = self._noise.cell
        return self._means.noise_half_width(cell, means), self._pairs.noise_half_width(2.0 * cell, pairs)

    def _start_state(self, series: int, level: float, *, difference: bool) -> BettingState | AsymptoticState:
        if self.kind == "asymptotic" or self._range is None:
            return start_asymptotic(series, level=level, target=max(FIRST_LOOK, self._population // 4))
        low, high = self._range
        ends = (low - high, high - low) if difference else (low, high)
        return start_betting(self._population, *ends, series=series, level=level)

    def add(self, item: ItemId, scores: Mapping[str, float], weight: float = 1.0) -> None:
        """Add an item's scores.

        Args:
            item: Its id.
            scores: System -> value; further systems may be added in a later call.
            weight: Sampling weight, 1 on average over the items as they are drawn.
        """
        weight = self._validate_weight(item, weight)
        row = self._scores.get(item, np.full(len(self._systems), np.nan))
        if item not in self._scores and len(self._scores) >= self._population:
            raise OptionError(f"item {item!r} exceeds the population: the population is {self._population}, all judged")
        fresh = np.full(len(self._systems), np.nan)
        for system, value in scores.items():
            self._validate_score(item, system, value, row)
            fresh[self._column[system]] = value
        merged = np.where(np.isfinite(fresh), fresh, row)
        metrics, slopes = (
            (np.zeros((len(fresh), 0)), np.zeros(0)) if self._slopes is None else self._slopes.of_item(item)
        )
        self._means.add(fresh, metrics, slopes, weight)
        if len(self._a):
            new = np.isfinite(fresh[self._a]) | np.isfinite(fresh[self._b])
            gap = np.where(new, merged[self._a] - merged[self._b], np.nan)
            self._pairs.add(gap, metrics[self._a] - metrics[self._b], slopes, weight)
        if self._slopes is not None:
            self._slopes.learn(item, row, merged)
        self._scores[item] = merged
        self._judgments += len(scores)

    def _validate_weight(self, item: ItemId, weight: float) -> float:
        if not 0.0 < weight < math.inf or (self.kind == "betting" and weight != 1.0):
            need = "betting needs weights of 1; use kind='asymptotic'" if weight > 0 else "it must be above 0"
            raise OptionError(f"item {item!r} has the weight {weight:g}; {need}")
        return self._weights.setdefault(item, weight)

    def _validate_score(self, item: ItemId, system: str, value: float, row: FloatArray) -> None:
        if system not in self._column:
            raise unknown_name("system", system, self._systems)
        if np.isfinite(row[self._column[system]]):
            raise DataError(f"item {item!r}, system '{system}' has been judged before; average repeats first")
        low, high = self._range or (-math.inf, math.inf)
        if not low <= value <= high or math.isinf(value):
            raise DataError(f"item {item!r}, system '{system}': {value} lies outside the scale {low} to {high}")

    def add_judgments(self, judgments: JudgmentsLike) -> None:
        """Add a table of judgments item by item in table order; several judgments of an output are averaged."""
        for (item,), rows in as_judgments(judgments).cell_means().group_by("item", maintain_order=True):
            self.add(item, dict(zip(rows["system"].to_list(), rows["value"].to_list(), strict=True)))

    def picture(self) -> Picture:
        """Return the current decisions."""
        of_means, of_pairs = self._noise_half_widths()
        pairs = self._pair_states(of_pairs)
        low, high = self._means.compute_bounds(of_means)
        half = (high - low) / 2
        best = self._find_best(pairs)
        if self._question == "best":
            stop = best is not None
        elif self._question == "ranking":
            stop = all(pair.decided for pair in pairs)
        else:
            stop = bool((half <= (self._margin or 0.0)).all())
        widths = dict(zip(self._systems, half.tolist(), strict=True))
        noise_known = not math.isnan(self._noise.cell)
        return Picture(self._question, len(self._scores), self._judgments, pairs, widths, best, stop, noise_known)

    def intervals(self) -> dict[str, tuple[float, float, float]]:
        """Return each system's current mean with an interval valid at every look: (mean, low, high)."""
        columns = np.column_stack(
            [self._means.mean, *self._means.compute_bounds(self._noise_half_widths()[0])]
        ).tolist()
        return {system: (mean, low, high) for system, (mean, low, high) in zip(self._systems, columns, strict=True)}

    def _pair_states(self, noise: FloatArray) -> tuple[PairState, ...]:
        if not len(self._a):
            return ()
        columns = (*self._pairs.compute_bounds(noise), self._pairs.mean, _ROUNDING * self._pairs.scale, noise)
        return tuple(self._pair_state(pair, *row) for pair, row in enumerate(np.column_stack(columns).tolist()))

    def _pair_state(
        self, pair: int, low: float, high: float, difference: float, tiny: float, noise: float
    ) -> PairState:
        count = int(self._pairs.count[pair])
        a, b = self._systems[self._a[pair]], self._systems[self._b[pair]]
        if difference < 0:
            a, b, difference, low, high = b, a, -difference, -high, -low
        decided = low > tiny
        more = 0 if decided else self._more_items(count, difference, (high - low) / 2, noise)
        return PairState(a, b, difference, low, high, count, decided, more)

    def _more_items(self, count: int, difference: float, half: float, noise: float) -> int:
        """Return the number of items until the half width is the difference; all left if the noise alone is larger.

        Bets grow as variances become known: half widths shrink faster than sqrt(1/t - 1/N), about with power 2/3.
        """
        n_left, sought, sampling = self._population - count, difference**2 - noise**2, half**2 - noise**2
        if not count or not n_left or not sought > 0 or not 0 < sampling < math.inf:
            return n_left
        inverse_population, power = 1.0 / self._population, 1.5 if self.kind == "betting" else 2.0
        needed = 1.0 / ((sought / sampling) ** (power / 2) * (1.0 / count - inverse_population) + inverse_population)
        return int(min(n_left, max(1.0, math.ceil(needed) - count)))

    def _find_best(self, pairs: Sequence[PairState]) -> str | None:
        """Return the only system not beaten; for other questions than "best", the one that has beaten all others."""
        if self._question == "best":
            unbeaten = set(self._systems) - {pair.b for pair in pairs if pair.decided}
            return unbeaten.pop() if len(unbeaten) == 1 else None
        wins = dict.fromkeys(self._systems, 0)
        for pair in pairs:
            wins[pair.a] += pair.decided
        return next((system for system, count in wins.items() if count == len(self._systems) - 1), None)


def _validate_kind(kind: str, value_range: tuple[float, float] | None, features: Features | None, systems: int) -> None:
    one_of("kind", kind, get_args(Kind))
    if kind == "betting" and (value_range is None or features is not None):
        raise OptionError("betting needs the scale's ends, value_range=(low, high), and takes no features")
    if value_range is not None and not value_range[0] < value_range[1]:
        raise invalid("value_range", value_range, "the lower end must be below the upper one")
    if features is not None and features.values.shape[1] != systems:
        raise OptionError(f"features are of {features.values.shape[1]} systems, not of {systems}")


def _validate_question(
    systems: tuple[str, ...], population: int, question: str, margin: float | None, alpha: float
) -> None:
    one_of("question", question, get_args(Question))
    if len(set(systems)) < len(systems) or not systems:
        raise OptionError("systems must be named, each once")
    if question != "means" and len(systems) < 2:
        raise OptionError("one system cannot be compared; ask for means, with a margin")
    at_least("population", population, 1, "give the number of items of the whole test set")
    if question == "means":
        above("margin", margin or 0.0, 0, "the question 'means' needs the half width you want, above 0")
    between("alpha", alpha, 0, 1, inclusive=False)
