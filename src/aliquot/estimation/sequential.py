"""Watching a campaign while people judge: what is decided already, and when one may stop.

Every pair's difference and every system's mean has a betting confidence sequence (docs/methods.md, section 4), valid
at every look. All of them share the error rate alpha, so that the probability of any false decision over a whole run
is at most alpha. It holds for items judged in random order, each drawn once from the test set.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl

from aliquot.core.evalset import EvalSet, ItemId
from aliquot.core.selection import Selection
from aliquot.errors import DataError, OptionError, unknown_name
from aliquot.estimation.inputs import with_judgments
from aliquot.io.inputs import JudgmentsLike, as_judgments
from aliquot.stats.arrays import BoolArray, FloatArray
from aliquot.stats.sequences import start_betting

Question = Literal["best", "ranking", "means"]
QUESTIONS = ("best", "ranking", "means")
_ROUNDING = 1e-9


@dataclass(frozen=True)
class PairState:
    """What is known of two systems: the better one first where it is decided."""

    a: str
    b: str
    difference: float
    low: float
    high: float
    items: int
    decided: bool
    more_items: int


@dataclass(frozen=True)
class Picture:
    """The anytime-valid picture after some judgments."""

    question: str
    items: int
    judgments: int
    pairs: tuple[PairState, ...]
    half_widths: dict[str, float]
    best: str | None
    stop: bool

    @property
    def decided(self) -> list[PairState]:
        """The pairs that are decided."""
        return [pair for pair in self.pairs if pair.decided]

    @property
    def ambiguous(self) -> list[PairState]:
        """The pairs that are not decided yet, the closest to a decision first."""
        return sorted((pair for pair in self.pairs if not pair.decided), key=lambda pair: pair.more_items)

    @property
    def reason(self) -> str:
        """Why one may stop, or what is missing, in words."""
        if self.stop:
            answers = {"best": f"{self.best} is the best system", "ranking": "all pairs are decided",
                       "means": "all means are known closely enough"}  # fmt: skip
            return f"stop: {answers[self.question]}"
        left = self.ambiguous
        if self.question == "means" or not left:
            return f"go on: the widest interval is +-{max(self.half_widths.values(), default=math.nan):.3g}"
        close = left[0]
        return f"go on: {len(left)} pairs are open; {close.a} and {close.b} need about {close.more_items} more items"


class Monitor:
    """Is fed judgments and says what is decided; see the module's documentation for what it promises.

    Args:
        systems: the systems compared.
        population: items of the whole test set.
        value_range: ends of the scale.
        question: "best" system, full "ranking", or all "means" within +- `margin`.
        margin: for means, the half width asked for.
        alpha: the error rate over the whole run.

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
        value_range: tuple[float, float],
        question: Question = "best",
        margin: float | None = None,
        alpha: float = 0.05,
    ) -> None:
        self._systems = tuple(systems)
        _check(self._systems, population, question, margin, alpha)
        low, high = value_range
        if not low < high:
            raise OptionError(f"value_range is {value_range}; the lower end must be below the upper one")
        self._range, self._question, self._margin, self._population = (low, high), question, margin, population
        self._a, self._b = np.triu_indices(len(self._systems), 1)
        # Asked for means, half of alpha is theirs and half the pairs'; otherwise only pairs are decided.
        share = 2 if question == "means" else 1
        pairs, means = max(1, len(self._a)), len(self._systems)
        self._pairs = start_betting(
            population, low - high, high - low, series=pairs, level=1.0 - alpha / (share * pairs)
        )
        self._means = start_betting(population, low, high, series=means, level=1.0 - alpha / (share * means))
        self._scores: dict[ItemId, FloatArray] = {}
        self._sums = np.zeros((3, max(1, len(self._a))))  # count, sum and squares of each pair's differences
        self._judgments = 0

    def add(self, item: ItemId, scores: Mapping[str, float]) -> None:
        """Add an item's scores: system -> value; systems judged later are added in a later call."""
        row = self._scores.get(item, np.full(len(self._systems), np.nan))
        if item not in self._scores and len(self._scores) >= self._population:
            raise OptionError(f"item {item!r} is one too many: the population is {self._population}, all seen")
        fresh = np.full(len(self._systems), np.nan)
        for system, value in scores.items():
            self._check_score(item, system, value, row)
            fresh[self._systems.index(system)] = value
        merged = np.where(np.isfinite(fresh), fresh, row)
        self._means = self._means.update(fresh)
        self._add_pairs(merged, np.isfinite(fresh))
        self._scores[item] = merged
        self._judgments += len(scores)

    def _check_score(self, item: ItemId, system: str, value: float, row: FloatArray) -> None:
        if system not in self._systems:
            raise unknown_name("system", system, self._systems)
        if np.isfinite(row[self._systems.index(system)]):
            raise DataError(f"item {item!r}, system '{system}' has been judged before; average repeats first")
        low, high = self._range
        if not low <= value <= high:
            raise DataError(f"item {item!r}, system '{system}': {value} lies outside the scale {low} to {high}")

    def _add_pairs(self, row: FloatArray, fresh: BoolArray) -> None:
        if not len(self._a):
            return
        new = fresh[self._a] | fresh[self._b]
        difference = np.where(new, row[self._a] - row[self._b], np.nan)
        self._pairs = self._pairs.update(difference)
        known = np.isfinite(difference)
        self._sums += np.where(known, [known, np.nan_to_num(difference), np.nan_to_num(difference) ** 2], 0.0)

    def add_judgments(self, judgments: JudgmentsLike) -> None:
        """Add a table of judgments, item after item in the order of the table, averaged per output."""
        for (item,), rows in as_judgments(judgments).cell_means().group_by("item", maintain_order=True):
            self.add(item, dict(zip(rows["system"].to_list(), rows["value"].to_list(), strict=True)))

    def picture(self) -> Picture:
        """Return what is known now."""
        pairs = tuple(self._pair(at) for at in range(len(self._a)))
        half = (self._means.upper - self._means.lower) / 2
        best = self._best(pairs)
        if self._question == "best":
            stop = best is not None
        elif self._question == "ranking":
            stop = all(pair.decided for pair in pairs)
        else:
            stop = bool((half <= (self._margin or 0.0)).all())
        widths = dict(zip(self._systems, half.tolist(), strict=True))
        return Picture(self._question, len(self._scores), self._judgments, pairs, widths, best, stop)

    def _pair(self, at: int) -> PairState:
        low, high = float(self._pairs.lower[at]), float(self._pairs.upper[at])
        count, total, _ = self._sums[:, at]
        difference = float(total / count) if count else float("nan")
        a, b = self._systems[self._a[at]], self._systems[self._b[at]]
        if difference < 0:
            a, b, difference, low, high = b, a, -difference, -high, -low
        decided = low > _ROUNDING * (self._range[1] - self._range[0])
        more = 0 if decided else self._more_items(int(count), difference, (high - low) / 2)
        return PairState(a, b, difference, low, high, int(count), decided, more)

    def _more_items(self, count: int, difference: float, half: float) -> int:
        """How many until the half width reaches the difference? At most all items.

        Bets grow bolder as variances become known: half widths shrink faster than sqrt(1/t - 1/N), about by power 2/3.
        """
        left = self._population - count
        if not count or not left or not difference > 0:
            return left
        rest = 1.0 / self._population
        needed = 1.0 / ((difference / half) ** 1.5 * (1.0 / count - rest) + rest)
        return int(min(left, max(1.0, math.ceil(needed) - count)))

    def _best(self, pairs: Sequence[PairState]) -> str | None:
        wins = dict.fromkeys(self._systems, 0)
        for pair in pairs:
            wins[pair.a] += pair.decided
        return next((system for system, count in wins.items() if count == len(self._systems) - 1), None)


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


@dataclass(frozen=True, eq=False)
class Replay:
    """A campaign judged in time order: the picture at the end, and after how many items one could have stopped."""

    final: Picture
    stopped_after: int | None
    path: tuple[tuple[int, int], ...]

    def to_dict(self) -> dict[str, Any]:
        """The JSON document of `estimate --sequential --json`."""
        final = self.final
        return {
            "stopped_after": self.stopped_after,
            "items": final.items,
            "judgments": final.judgments,
            "reason": final.reason,
            "best": final.best,
            "decided": len(final.decided),
            "pairs": [vars(pair) for pair in final.pairs],
            "half_widths": final.half_widths,
            "path": [{"items": items, "decided": decided} for items, decided in self.path],
        }


def replay(monitor: Monitor, items: Sequence[ItemId], scores: Mapping[ItemId, Mapping[str, float]]) -> Replay:
    """Feed a monitor items in the order given; `path` has, after each item, how many pairs are decided."""
    stopped, path = None, []
    for number, item in enumerate(items, start=1):
        monitor.add(item, scores[item])
        picture = monitor.picture()
        path.append((number, len(picture.decided)))
        if picture.stop and stopped is None:
            stopped = number
    return Replay(monitor.picture(), stopped, tuple(path))


def sequential(
    data: EvalSet,
    *,
    value_range: tuple[float, float],
    selection: Selection | None = None,
    judgments: JudgmentsLike | None = None,
    human: str | None = None,
    question: Question = "best",
    margin: float | None = None,
    alpha: float = 0.05,
) -> Replay:
    """Replay judgments in the order in which they were made: when could one have stopped?

    Args:
        data: the whole test set, with judgments, or with `judgments` given apart.
        value_range: ends of the scale.
        selection: how the judged items were chosen: single items with equal probabilities, in random order.
        judgments: judgments in time order, or with a column `time` or `order`.
        human: the name of the human score.
        question: "best" system, full "ranking", or all "means" within +- `margin`.
        margin: for means, the half width asked for.
        alpha: the error rate over the whole run.

    >>> import aliquot
    >>> data = aliquot.synthetic(items=60, systems=2, seed=5)
    >>> aliquot.sequential(data, value_range=(-200, 200)).final.items
    60
    """
    if selection is not None and not _random_order(selection):
        raise OptionError("--sequential needs items drawn with equal probabilities in random order (e.g. segments)")
    made = judgments if judgments is not None else data.judgments
    if made is None:
        raise OptionError("--sequential replays single judgments in time order: give --judgments FILE")
    evalset, _ = with_judgments(data, made, selection, human)
    order, scores = _time_order(evalset), evalset.human_score()
    row_of = {item: row for row, item in enumerate(evalset.ids)}
    values: dict[ItemId, dict[str, float]] = {
        item: {s: float(v) for s, v in zip(evalset.systems, scores[row_of[item]], strict=True) if np.isfinite(v)}
        for item in order
    }
    monitor = Monitor(
        evalset.systems, evalset.n_items, value_range=value_range, question=question, margin=margin, alpha=alpha
    )
    return replay(monitor, order, values)


def _random_order(selection: Selection) -> bool:
    """Betting holds for single items with equal probabilities: not for sizes, whole documents or top utilities."""
    probability = selection.probability
    single = selection.design.variance == "unordered"
    return probability is not None and bool(np.ptp(probability) <= 1e-9) and single


def _time_order(evalset: EvalSet) -> list[ItemId]:
    """Items by the time (or order) of their last judgment; as they stand in the table where neither is known."""
    if evalset.judgments is None:
        return []
    table = evalset.judgments.table
    key = next((name for name in ("time", "order") if name in table.columns), None)
    if key is None:
        return table["item"].unique(maintain_order=True).to_list()
    last = table.group_by("item", maintain_order=True).agg(pl.col(key).max())
    return last.sort(key, maintain_order=True)["item"].to_list()
