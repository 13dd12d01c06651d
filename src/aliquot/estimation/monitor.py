"""Watching a campaign while people judge: what is decided already, and when one may stop.

Every pair's difference and every system's mean has a confidence sequence (docs/methods.md, section 4), valid at every
look. Asked for the ranking, all pairs share the error rate alpha, so that the probability of any false decision over a
whole run is at most alpha. Asked for the best, a system is out when any other has beaten it, and one that is left alone
is the best. A wrong answer needs that the best system lost one of its M - 1 pairs: each pair has alpha / (M - 1). Then
the order among systems that are out is not guaranteed, only that the best is none of them. (Two-sided: if two systems
tie at the top, naming one of them is wrong in both directions.)

Items come in random order, each drawn once from the test set. A sequence holds at all its lengths at once, so it does
not matter why a system was judged on more items than another: any policy may decide who is judged next.

Two kinds. `betting` is exact for scores on a known scale and items drawn with equal probabilities. `asymptotic` also
takes weights w = 1/z (items of size z are drawn one after another, by size among those left) and metrics. With d the
difference of two scores, g of their metrics on the item and G over the test set, e = d - g'b - c and L the size of the
items left, the value of the next item is G'b + c + (sum of e before + e L / z) / N. Given what came before, its mean is
the mean of d over the test set (Des Raj 1956), whatever b and c, which come from earlier items only; its variance
shrinks as (L / N)^2, so the sequence of the target `given` (these very judgments) closes when all items are judged.

The target of `estimate` is `testset`: what other annotators would say on average. Judging all items leaves the noise of
judging, of variance v = s2 / N for a mean, s2 the noise of an output's score, and twice that for a difference, plus
what the choice of annotators adds. So each half width h becomes sqrt(h^2 + q^2 v). Where the noise is not known (no
output was judged by several annotators), all of the residual variance may be noise: v is that of the series over N.
q is Student's quantile of a quarter of the series' error rate: a sequence that wanders about a fixed error crosses
plain quantiles too often. With N from 40 to 1,200 and noise of 30 and 100% of the variance, looked at after every item,
5 to 11% of runs missed with the plain quantile (nominal 5%), 1 to 5% with this one.

A few outputs may be far worse than all others (penalties of -25 and more), and the sequence does not know of those that
are still to come. So its half width h becomes sqrt(h^2 + (2 X / N)^2), X the largest |e| that any series has seen: two
more such outputs may be among the items left. With equal systems made from six MQM campaigns, this, Student's t and
capped weights took the runs with a false decision from 3 to 19% to 1 or 2% (alpha = 0.05). This term alone makes
intervals up to 11% wider at three quarters of the items, and hardly at a quarter.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import polars as pl
from scipy import special

from aliquot.core.evalset import ItemId
from aliquot.core.result import frame_of
from aliquot.core.shown import Shown
from aliquot.core.verdict_words import join_names
from aliquot.errors import DataError, OptionError, unknown_name
from aliquot.estimation.intervals import NOISE_SHARE
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

Question = Literal["best", "ranking", "means"]
QUESTIONS = ("best", "ranking", "means")
Kind = Literal["betting", "asymptotic"]
KINDS = ("betting", "asymptotic")
_ROUNDING = 1e-9
_RIDGE = 10.0  # cells that stand for slopes of 0 before any is judged
_UNSEEN = 2.0  # outputs as extreme as the most extreme seen that the items left may hold
_POOLED = 8.0  # values that the other series' variance counts as


@dataclass(frozen=True)
class PairState:
    """What is known of two systems, the better one first.

    `decided`: asked for the best, that b is not the best. `more_items` is at most the number of items left; 0 of a pair
    that is not decided means that only more judgments of an output can tell more.
    """

    a: str
    b: str
    difference: float
    low: float
    high: float
    items: int
    decided: bool
    more_items: int


@dataclass(frozen=True)
class Picture(Shown):
    """The anytime-valid picture after some judgments."""

    question: str
    items: int
    judgments: int
    pairs: tuple[PairState, ...]
    half_widths: dict[str, float]
    best: str | None
    stop: bool
    noise_known: bool = True  # whether outputs were judged by several annotators, so that the noise is known
    leaders: tuple[str, ...] = ()  # first cluster of the estimates, where they speak against stopping

    def confirm(self, leaders: Sequence[str]) -> Picture:
        """Return the picture beside estimates with these leaders: it stops only where they name the same system."""
        every = len(self.pairs) == math.comb(len(self.half_widths), 2)  # otherwise only listed pairs were asked for
        about_leader = self.question == "best" or (self.question == "ranking" and every)
        if not self.stop or not about_leader or not leaders or tuple(leaders) == (self.best,):
            return self
        return replace(self, stop=False, best=None, leaders=tuple(leaders))

    def to_frame(self) -> pl.DataFrame:
        """One row per pair of systems."""
        return frame_of(self.pairs, PairState)

    @property
    def decided(self) -> list[PairState]:
        """The pairs that are decided."""
        return [pair for pair in self.pairs if pair.decided]

    @property
    def ambiguous(self) -> list[PairState]:
        """The pairs that are not decided yet, the closest to a decision first."""
        left = (pair for pair in self.pairs if not pair.decided)
        return sorted(left, key=lambda pair: (not pair.more_items, pair.more_items))

    @property
    def reason(self) -> str:
        """Why one may stop, or what is missing, in words."""
        if self.stop:
            answers = {
                "best": f"{self.best} is the best system",
                "ranking": "all pairs are decided",
                "means": "all means are known closely enough",
            }
            return f"stop: {answers[self.question]}"
        left = self.ambiguous
        if self.leaders:
            who = (
                f"{join_names(self.leaders)} cannot be told apart"
                if len(self.leaders) > 1
                else f"{self.leaders[0]} leads"
            )
            return f"go on: by the estimates {who}; judge more outputs, or some once more"
        if self.question == "means" or not left:
            return f"go on: the widest interval is +-{max(self.half_widths.values(), default=math.nan):.3g}"
        if self.question == "best":
            return self._best_open()
        needs = ", ".join(dict.fromkeys(self.needs(pair) for pair in (left[0], left[-1])))
        return f"go on: {len(left)} pair{'s are' if len(left) > 1 else ' is'} open; {needs}"

    def _best_open(self) -> str:
        """Which systems may still be the best, and what the question waits for: the leader and its last rival."""
        beaten = {pair.b for pair in self.decided}
        open_ = [pair for pair in self.pairs if not pair.decided and {pair.a, pair.b}.isdisjoint(beaten)]
        if not open_:
            return "go on: no system has beaten all others yet"
        rivals = {name for pair in open_ for name in (pair.a, pair.b)}
        ahead = {name: sum(pair.a == name for pair in open_) for name in rivals}
        leader = max(sorted(rivals), key=lambda name: ahead[name])
        needed = {pair: pair.more_items or math.inf for pair in open_ if leader in (pair.a, pair.b)}
        last = max(needed, key=lambda pair: needed[pair])
        leads = f", {leader} leads" if last.items else ""
        return f"go on: {len(rivals)} systems may be the best{leads}; {self.needs(last)}"

    def needs(self, pair: PairState) -> str:
        """What an open pair waits for: items that are left, or else more judgments of an output."""
        if pair.more_items:
            return f"{pair.a} and {pair.b} need about {pair.more_items} more item{'s' * (pair.more_items != 1)}"
        if self.noise_known:
            return f"all items are judged: {pair.a} and {pair.b} need more judgments per output, by other annotators"
        return "all items are judged: judge some outputs twice, by another annotator"


@dataclass(frozen=True, eq=False)
class Features:
    """What metrics say of every output: standardised values (N x M x K, nothing missing), and the items' ids."""

    ids: tuple[ItemId, ...]
    values: FloatArray

    def __post_init__(self) -> None:
        if self.values.ndim != 3 or len(self.ids) != len(self.values) or not np.isfinite(self.values).all():
            raise OptionError(
                f"features have the shape {self.values.shape}; give items x systems x metrics, all finite"
            )


class _Slopes:
    """Ridge slopes of scores on metrics, from differences between the systems of an item; grows item by item."""

    def __init__(self, features: Features) -> None:
        self.row_of = {item: row for row, item in enumerate(features.ids)}
        self.values, self.mean = features.values, features.values.mean(axis=0)
        k = features.values.shape[2]
        self._square, self._product = np.eye(k) * _RIDGE, np.zeros(k)
        self._of_item: dict[ItemId, FloatArray] = {}

    def at(self, item: ItemId) -> tuple[FloatArray, FloatArray]:
        """An item's metrics (M x K), and the slopes when the item was first seen."""
        if item not in self.row_of:
            raise DataError(f"item {item!r} has no features; give those of the whole test set")
        if item not in self._of_item:
            self._of_item[item] = np.linalg.solve(self._square, self._product).astype(np.float64)
        return self.values[self.row_of[item]], self._of_item[item]

    def learn(self, item: ItemId, before: FloatArray, after: FloatArray) -> None:
        """Take the item's scores into account in the place of those that were known of it before."""
        for scores, sign in ((before, -1.0), (after, 1.0)):
            there = np.isfinite(scores)
            if there.sum() > 1:
                x = self.values[self.row_of[item]][there]
                x, y = x - x.mean(axis=0), scores[there] - scores[there].mean()
                self._square += sign * (x.T @ x)
                self._product += sign * (x.T @ y)


class _Running:
    """Sequences of several series over the same items, asymptotic or betting."""

    def __init__(self, state: BettingState | AsymptoticState, population: int, overall: FloatArray) -> None:
        self.state, self._population, self._overall = state, population, overall
        self._ends = (state.low, state.high) if isinstance(state, BettingState) else None
        series, k = overall.shape
        self.count, self._sum, self._features = np.zeros(series), np.zeros(series), np.zeros((series, k))
        self._left = np.full(series, float(population))  # size of the items that a series has not seen
        self._largest = 0.0  # largest deviation of a value from what was expected, over all series
        self._squares, self._weights = np.zeros(series), np.zeros(series)  # of such deviations, by the items' weights

    @property
    def mean(self) -> FloatArray:
        """The present estimate of each series; NaN before the first value."""
        if isinstance(self.state, AsymptoticState):
            return np.where(self.count > 0, self._exact(self.state.mean), np.nan)
        return np.asarray(np.divide(self._sum, self.count, out=np.full(len(self.count), np.nan), where=self.count > 0))

    def noise_half_width(self, cells: float, annotators: FloatArray) -> FloatArray:
        """What judging adds to half widths; `cells`: variance of the noise of a value, NaN where it is not known."""
        if cells == 0 and not annotators.any():
            return np.zeros(len(self.count))
        usual = self._squares.sum() / max(self._weights.sum(), 1.0)
        residual = (self._squares + _POOLED * usual) / (self._weights + _POOLED)
        variance = (residual if math.isnan(cells) else cells) / self._population + annotators
        quantile = -special.stdtrit(np.maximum(self.count - 1.0, 1.0), self.state.alpha / (2.0 * NOISE_SHARE))
        half: FloatArray = quantile * np.sqrt(variance)
        return half

    def bounds(self, noise: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Lower and upper bound of each series' mean, with what judging adds to the half widths."""
        low, high = self._bounds_of_given()
        mean = np.clip(self.mean, low, high)
        wide = mean - np.hypot(mean - low, noise), mean + np.hypot(high - mean, noise)
        low, high = np.where(self.count > 0, wide, (low, high))
        return (low, high) if self._ends is None else (np.maximum(low, self._ends[0]), np.minimum(high, self._ends[1]))

    def _bounds_of_given(self) -> tuple[FloatArray, FloatArray]:
        """Bounds of the mean of these very judgments over the test set."""
        if isinstance(self.state, BettingState):
            return self._exact(self.state.lower), self._exact(self.state.upper)
        half = np.hypot(self.state.half_width, _UNSEEN * self._largest / self._population)
        return self._exact(self.state.mean - half), self._exact(self.state.mean + half)

    def _exact(self, values: FloatArray) -> FloatArray:
        """What is known of series that have all items, and the given values of the others."""
        return np.where(self.count >= self._population, self._sum / self._population, values)

    @property
    def scale(self) -> FloatArray:
        """What rounding is measured by: the scale, or the deviation of a value."""
        if isinstance(self.state, AsymptoticState):
            return self.state.sd
        return np.full(len(self.count), self.state.high - self.state.low)

    def add(self, values: FloatArray, features: FloatArray, slopes: FloatArray, weight: float) -> None:
        """Take each series' value of an item (NaN: none), with its metrics and the slopes learned before it."""
        known = np.isfinite(values)
        before = self._sum - self._features @ slopes
        centre = np.divide(before, self.count, out=np.zeros(len(before)), where=self.count > 0)
        error = values - features @ slopes - centre
        again = known & (self.count > 0)  # a first value has nothing that it could deviate from
        self._squares += np.where(again, weight * error**2 * self.count / (self.count + 1.0), 0.0)
        self._weights += weight * again
        if isinstance(self.state, BettingState):
            self.state = self.state.update(values)
        else:
            size = 1.0 / weight
            left = np.maximum(self._left, size)  # answers out of order must not make it negative
            value = self._overall @ slopes + centre + error * left / (size * self._population)
            self.state = self.state.update(value, (self._population / left) ** 2)
            self._largest = max(self._largest, float(np.abs(error[again]).max(initial=0.0)))
            self._left = self._left - np.where(known, size, 0.0)
            self._features += np.where(known[:, None], features, 0.0)
        self._sum += np.where(known, np.nan_to_num(values), 0.0)
        self.count += known


class Monitor:
    """Is fed judgments and says what is decided; see the module's documentation for what it promises.

    Args:
        systems: the systems compared.
        population: items of the whole test set.
        value_range: ends of the scale; needed for betting.
        question: "best" system, full "ranking", or all "means" within +- `margin`.
        margin: for means, the half width asked for.
        alpha: the error rate over the whole run.
        kind: "betting" or "asymptotic"; by default betting where the scale is known and no features are given.
        features: metrics of all outputs, which narrow asymptotic sequences.
        noise: variance of the judging noise of an output's score, or what `judging_noise` returned. None: it is not
            known, and all that varies may be noise. 0: the target is `given`, the mean of these very judgments. It may
            be set later: `monitor.noise = ...`.

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
        self._systems, self._place = tuple(systems), {name: at for at, name in enumerate(systems)}
        _check(self._systems, population, question, margin, alpha)
        self.kind: Kind = kind or ("betting" if value_range is not None and features is None else "asymptotic")
        _check_kind(self.kind, value_range, features, len(self._systems))
        self._range, self._question, self._margin, self._population = value_range, question, margin, population
        self._a, self._b = np.triu_indices(len(self._systems), 1)
        # Asked for means, half of alpha is theirs and half the pairs'; otherwise only pairs are decided.
        share = 2 if question == "means" else 1
        pairs, means = max(1, len(self._a)), len(self._systems)
        if question == "best":
            pairs = max(1, means - 1)
        self._slopes = None if features is None else _Slopes(features)
        overall = np.zeros((means, 0)) if self._slopes is None else self._slopes.mean
        between = overall[self._a] - overall[self._b] if len(self._a) else np.zeros((1, overall.shape[1]))
        level = 1.0 - alpha / (share * pairs)
        self._pairs = _Running(self._start(len(between), level, difference=True), population, between)
        self._means = _Running(self._start(means, 1.0 - alpha / (share * means), difference=False), population, overall)
        self._scores: dict[ItemId, FloatArray] = {}
        self._weights: dict[ItemId, float] = {}
        self._judgments = 0
        self.noise = noise

    @property
    def noise(self) -> JudgingNoise | float | None:
        """The noise of judging that intervals count."""
        return self._noise

    @noise.setter
    def noise(self, noise: JudgingNoise | float | None) -> None:
        self._noise = noise if isinstance(noise, JudgingNoise) else JudgingNoise(math.nan if noise is None else noise)
        shares, systems = self._noise.shares, len(self._systems)
        if self._noise.cell < 0 or (len(shares) and shares.shape[1] != systems):
            raise OptionError(f"noise is {noise!r}; give a variance, or what is known of these {systems} systems")
        covariance = self._noise.covariance(adjusted=False) if len(shares) else np.zeros((systems, systems))
        own = np.diag(covariance)
        gap = own[self._a] + own[self._b] - 2.0 * covariance[self._a, self._b] if len(self._a) else np.zeros(1)
        self._annotators = own, np.maximum(gap, 0.0)

    def _noise_half_widths(self) -> tuple[FloatArray, FloatArray]:
        """What judging adds to the half widths of means and pairs."""
        means, pairs = self._annotators
        cell = self._noise.cell
        return self._means.noise_half_width(cell, means), self._pairs.noise_half_width(2.0 * cell, pairs)

    def _start(self, series: int, level: float, *, difference: bool) -> BettingState | AsymptoticState:
        if self.kind == "asymptotic" or self._range is None:
            return start_asymptotic(series, level=level, target=max(FIRST_LOOK, self._population // 4))
        low, high = self._range
        ends = (low - high, high - low) if difference else (low, high)
        return start_betting(self._population, *ends, series=series, level=level)

    def add(self, item: ItemId, scores: Mapping[str, float], weight: float = 1.0) -> None:
        """Add an item's scores: system -> value; systems judged later are added in a later call.

        `weight` is that of the item, 1 on average over the items of the test set as they are drawn.
        """
        weight = self._weight(item, weight)
        row = self._scores.get(item, np.full(len(self._systems), np.nan))
        if item not in self._scores and len(self._scores) >= self._population:
            raise OptionError(f"item {item!r} is one too many: the population is {self._population}, all seen")
        fresh = np.full(len(self._systems), np.nan)
        for system, value in scores.items():
            self._check_score(item, system, value, row)
            fresh[self._place[system]] = value
        merged = np.where(np.isfinite(fresh), fresh, row)
        metrics, slopes = (np.zeros((len(fresh), 0)), np.zeros(0)) if self._slopes is None else self._slopes.at(item)
        self._means.add(fresh, metrics, slopes, weight)
        if len(self._a):
            new = np.isfinite(fresh[self._a]) | np.isfinite(fresh[self._b])
            gap = np.where(new, merged[self._a] - merged[self._b], np.nan)
            self._pairs.add(gap, metrics[self._a] - metrics[self._b], slopes, weight)
        if self._slopes is not None:
            self._slopes.learn(item, row, merged)
        self._scores[item] = merged
        self._judgments += len(scores)

    def _weight(self, item: ItemId, weight: float) -> float:
        if not 0.0 < weight < math.inf or (self.kind == "betting" and weight != 1.0):
            need = "betting needs weights of 1; use kind='asymptotic'" if weight > 0 else "it must be above 0"
            raise OptionError(f"item {item!r} has the weight {weight:g}; {need}")
        return self._weights.setdefault(item, weight)

    def _check_score(self, item: ItemId, system: str, value: float, row: FloatArray) -> None:
        if system not in self._place:
            raise unknown_name("system", system, self._systems)
        if np.isfinite(row[self._place[system]]):
            raise DataError(f"item {item!r}, system '{system}' has been judged before; average repeats first")
        low, high = self._range or (-math.inf, math.inf)
        if not low <= value <= high or math.isinf(value):
            raise DataError(f"item {item!r}, system '{system}': {value} lies outside the scale {low} to {high}")

    def add_judgments(self, judgments: JudgmentsLike) -> None:
        """Add a table of judgments, item after item in the order of the table, averaged per output."""
        for (item,), rows in as_judgments(judgments).cell_means().group_by("item", maintain_order=True):
            self.add(item, dict(zip(rows["system"].to_list(), rows["value"].to_list(), strict=True)))

    def picture(self) -> Picture:
        """Return what is known now."""
        of_means, of_pairs = self._noise_half_widths()
        pairs = self._pair_states(of_pairs)
        low, high = self._means.bounds(of_means)
        half = (high - low) / 2
        best = self._best(pairs)
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
        """Each system's mean by now with an interval that holds at every look: (mean, low, high)."""
        columns = np.column_stack([self._means.mean, *self._means.bounds(self._noise_half_widths()[0])]).tolist()
        return {system: (mean, low, high) for system, (mean, low, high) in zip(self._systems, columns, strict=True)}

    def _pair_states(self, noise: FloatArray) -> tuple[PairState, ...]:
        if not len(self._a):
            return ()
        columns = (*self._pairs.bounds(noise), self._pairs.mean, _ROUNDING * self._pairs.scale, noise)
        return tuple(self._pair(at, *row) for at, row in enumerate(np.column_stack(columns).tolist()))

    def _pair(self, at: int, low: float, high: float, difference: float, tiny: float, noise: float) -> PairState:
        count = int(self._pairs.count[at])
        a, b = self._systems[self._a[at]], self._systems[self._b[at]]
        if difference < 0:
            a, b, difference, low, high = b, a, -difference, -high, -low
        decided = low > tiny
        more = 0 if decided else self._more_items(count, difference, (high - low) / 2, noise)
        return PairState(a, b, difference, low, high, count, decided, more)

    def _more_items(self, count: int, difference: float, half: float, noise: float) -> int:
        """How many until the half width reaches the difference? All that are left where the noise alone is larger.

        Bets grow bolder as variances become known: half widths shrink faster than sqrt(1/t - 1/N), about by power 2/3.
        """
        left, sought, sampling = self._population - count, difference**2 - noise**2, half**2 - noise**2
        if not count or not left or not sought > 0 or not 0 < sampling < math.inf:
            return left
        rest, power = 1.0 / self._population, 1.5 if self.kind == "betting" else 2.0
        needed = 1.0 / ((sought / sampling) ** (power / 2) * (1.0 / count - rest) + rest)
        return int(min(left, max(1.0, math.ceil(needed) - count)))

    def _best(self, pairs: Sequence[PairState]) -> str | None:
        """The system that is left alone; asked for something else, the one that has beaten all others."""
        if self._question == "best":
            left = set(self._systems) - {pair.b for pair in pairs if pair.decided}
            return left.pop() if len(left) == 1 else None
        wins = dict.fromkeys(self._systems, 0)
        for pair in pairs:
            wins[pair.a] += pair.decided
        return next((system for system, count in wins.items() if count == len(self._systems) - 1), None)


def _check_kind(kind: str, value_range: tuple[float, float] | None, features: Features | None, systems: int) -> None:
    if kind not in KINDS:
        raise unknown_name("kind", kind, KINDS)
    if kind == "betting" and (value_range is None or features is not None):
        raise OptionError("betting needs the scale's ends, value_range=(low, high), and takes no features")
    if value_range is not None and not value_range[0] < value_range[1]:
        raise OptionError(f"value_range is {value_range}; the lower end must be below the upper one")
    if features is not None and features.values.shape[1] != systems:
        raise OptionError(f"features are of {features.values.shape[1]} systems, not of {systems}")


def _check(systems: tuple[str, ...], population: int, question: str, margin: float | None, alpha: float) -> None:
    if question not in QUESTIONS:
        raise unknown_name("question", question, QUESTIONS)
    if len(set(systems)) < len(systems) or not systems:
        raise OptionError("systems must be named, each once")
    if question != "means" and len(systems) < 2:
        raise OptionError("one system has nobody to be compared with; ask for means, with a margin")
    if population < 1:
        raise OptionError(f"population is {population}; give the number of items of the whole test set")
    if question == "means" and not (margin is not None and margin > 0):
        raise OptionError("the question 'means' needs margin=, the half width you want, above 0")
    if not 0.0 < alpha < 1.0:
        raise OptionError(f"alpha is {alpha}; choose between 0 and 1, for instance 0.05")
