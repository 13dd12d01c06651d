"""What pairwise choices decide, at every look with the same guarantee, and how far it is to the end.

A pair is decided when the betting confidence sequence of its share of wins (ties half a win) leaves out 1/2. The share
is what other annotators would choose on such items, so the sequence is that of an unlimited population: a choice on
every item leaves the noise of choosing, and nothing closes at the end. (Where choices have no noise that is safe: with
a fixed bet, capital grows at most as with replacement, by Maclaurin's inequality.)

Invariant: in at most alpha of whole runs, whatever the policy did and whenever it stopped, an answer is wrong.
"ranking": all pairs share alpha. "top" and "best": the winner is the only system that no other has beaten. To name a
wrong one, the best system or, of two that are equally good, at least one must be called beaten by one of its M - 1
rivals; so pairs have the error alpha / (M - 1) each, half of it on either side.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from aliquot.stats.arrays import BoolArray, FloatArray, IntArray
from aliquot.stats.confidence_sequences import start_betting

_UNLIMITED = 10**12


@dataclass(frozen=True)
class PairAdvice:
    """Decisions so far, with one error rate over all looks, and whether to stop."""

    winner: str | None  # the only system that is not beaten
    beaten: Mapping[str, tuple[str, ...]]  # system -> systems decided to be better
    decided: int  # pairs
    comparisons: int  # answered
    asked: int
    further: int | None  # rough number of choices until the question is decided; None where no end is in sight
    stop: bool
    text: str  # in words


class PairDecisions:
    """Confidence sequences of all pairs (in the order of `np.triu_indices`); a value is 1 if the first system won.

    >>> decisions = PairDecisions(("A", "B"), np.array([100]), "best", 0.05)
    >>> for _ in range(30):
    ...     place = decisions.add_value(0, 1.0)
    >>> decisions.better.tolist()
    [[False, True], [False, False]]
    """

    def __init__(self, systems: tuple[str, ...], population: IntArray, question: str, alpha: float) -> None:
        self.systems, self.question, self.population = systems, question, population
        self._first, self._second = np.triu_indices(len(systems), 1)
        shared = len(population) if question == "ranking" else len(systems) - 1
        self._start = partial(start_betting, _UNLIMITED, 0.0, 1.0, level=1.0 - alpha / shared)
        self._values: list[list[float]] = [[] for _ in population]
        self._restart_sequences()

    def _restart_sequences(self) -> None:
        self._sequences = self._start(series=len(self.population))
        self._fed = np.zeros(len(self.population), dtype=np.int64)  # values that the sequences have seen

    def add_value(self, pair: int, value: float) -> int:
        """Add a value to a pair's sequence; return its place, for `revise_value`."""
        self._values[pair].append(value)
        return len(self._values[pair]) - 1

    def revise_value(self, pair: int, place: int, value: float) -> None:
        """Replace a value after another choice on the same item; the sequences restart."""
        if self._values[pair][place] != value:
            self._values[pair][place] = value
            self._restart_sequences()

    @property
    def better(self) -> BoolArray:
        """M x M, whether the row's system is decided to be better than the column's."""
        while waiting := [pair for pair, values in enumerate(self._values) if self._fed[pair] < len(values)]:
            values = np.full(len(self._first), np.nan)
            values[waiting] = [self._values[pair][self._fed[pair]] for pair in waiting]
            self._sequences = self._sequences.update(values)
            self._fed[waiting] += 1
        better = np.zeros((len(self.systems),) * 2, dtype=np.bool_)
        has_values = self._sequences.t > 0
        better[self._first, self._second] = has_values & (self._sequences.lower > 0.5)
        better[self._second, self._first] = has_values & (self._sequences.upper < 0.5)
        return better

    def advice(
        self, strength: FloatArray, spread: float, number: FloatArray, asked: int, ended: str | None
    ) -> PairAdvice:
        """Return what is decided and whether to stop.

        Args:
            strength: of the systems, for the forecast.
            spread: variance of a choice.
            number: M x M, choices answered.
            asked: choices asked.
            ended: why no more can be asked, or None.
        """
        better = self.better
        beaten = {
            name: tuple(self.systems[s] for s in np.flatnonzero(better[:, column]))
            for column, name in enumerate(self.systems)
        }
        unbeaten = [name for name, by in beaten.items() if not by]
        is_decided = int(better.sum()) == len(self.population) if self.question == "ranking" else len(unbeaten) <= 1
        further = 0 if is_decided else self._forecast_choices(better, strength, spread, number)
        summary = self._describe_decisions(better, unbeaten)
        if is_decided or ended is not None:
            text = f"stop: {summary}" if is_decided else f"stop: {ended}; {summary}"
        elif further is None:
            text = f"go on: {summary}; no end is in sight"
        else:
            text = f"go on: {summary}; about {further} more choices would decide the question"
        return PairAdvice(
            unbeaten[0] if len(unbeaten) == 1 else None,
            beaten,
            int(better.sum()),
            round(number.sum() / 2),
            asked,
            further,
            is_decided or ended is not None,
            text,
        )

    def _describe_decisions(self, better: BoolArray, unbeaten: list[str]) -> str:
        if self.question == "ranking":
            return f"{int(better.sum())} of {len(self.population)} pairs are decided"
        if not unbeaten:
            return "every system is beaten by another; none is preferred to all others"
        if len(unbeaten) > 1:
            return f"{len(unbeaten)} of {len(better)} systems may be the best"
        if better[self.systems.index(unbeaten[0])].sum() == len(better) - 1:
            return f"{unbeaten[0]} is preferred to every other system"
        return f"{unbeaten[0]} is the best: every other system is beaten by some system"

    def _forecast_choices(
        self, better: BoolArray, strength: FloatArray, spread: float, number: FloatArray
    ) -> int | None:
        """About 2 v log(2 / alpha') / (share - 1/2)^2 choices decide a pair: log capital grows by (share - 1/2)^2 / 2v.

        None where that is more than the items left, as for two systems that are equally good.
        """
        share = 1.0 / (1.0 + np.exp(strength[:, None] - strength[None, :]))  # of the column's system over the row's
        lead = np.maximum(share - 0.5, 1e-6)
        need = np.maximum(2.0 * spread * np.log(2.0 / self._sequences.alpha) / lead**2 - number, 1.0)
        np.fill_diagonal(need, np.inf)
        if self.question == "ranking":
            total = np.minimum(need, need.T)[self._first, self._second][~(better | better.T)[self._first, self._second]]
        else:
            total = np.where(better.any(axis=0), 0.0, need.min(axis=1))
            total[int(np.argmax(strength))] = 0.0
        remaining = self.population.sum() - number.sum() / 2
        return int(np.ceil(total.sum())) if total.sum() <= remaining else None
