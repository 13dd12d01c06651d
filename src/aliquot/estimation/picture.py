"""What is decided after some judgments, valid at every look: what `Monitor.picture()` returns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import polars as pl

from aliquot.core.result import frame_of
from aliquot.core.shown import Shown
from aliquot.core.verdict_words import join_names
from aliquot.core.view import Column, View

Question = Literal["best", "ranking", "means"]


@dataclass(frozen=True)
class PairState:
    """Two systems in a sequential comparison, the better one first.

    Attributes:
        decided: Whether `a` is significantly better; with the question "best", whether `b` is not the best system.
        more_items: Items until a decision, at most the number left; 0 for an open pair means that only more judgments
            per output help.
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
    """Decisions after some judgments, valid at every look."""

    question: str
    items: int
    judgments: int
    pairs: tuple[PairState, ...]
    half_widths: dict[str, float]
    best: str | None
    stop: bool
    noise_known: bool = True  # whether enough outputs have several annotators to measure judging noise
    leaders: tuple[str, ...] = ()  # first cluster of the estimates, where they contradict stopping

    def confirm_leaders(self, leaders: Sequence[str]) -> Picture:
        """Return the picture, without a stop if the estimates name other leaders."""
        has_all_pairs = len(self.pairs) == math.comb(len(self.half_widths), 2)  # not for a question about some pairs
        about_leader = self.question == "best" or (self.question == "ranking" and has_all_pairs)
        if not self.stop or not about_leader or not leaders or tuple(leaders) == (self.best,):
            return self
        return replace(self, stop=False, best=None, leaders=tuple(leaders))

    def views(self) -> tuple[View, ...]:
        """Return the view `pairs`."""
        columns = (
            Column("better", "a", "name"),
            Column("worse", "b", "name"),
            Column("difference", rank=2),
            Column("interval", _finite_interval, "interval", rank=1),
            Column("state", _describe_state, "text"),
        )
        caption = "decided: the worse one is not the best; `question=ranking` guarantees every order"
        only_best = self.question == "best" and bool(self.decided)
        return (View("pairs", self.pairs, columns, "pairs", caption=caption if only_best else ""),)

    def to_frame(self) -> pl.DataFrame:
        """One row per pair of systems."""
        return frame_of(self.pairs, PairState)

    @property
    def decided(self) -> list[PairState]:
        """The decided pairs."""
        return [pair for pair in self.pairs if pair.decided]

    @property
    def ambiguous(self) -> list[PairState]:
        """The open pairs, those closest to a decision first."""
        open_pairs = (pair for pair in self.pairs if not pair.decided)
        return sorted(open_pairs, key=lambda pair: (not pair.more_items, pair.more_items))

    @property
    def reason(self) -> str:
        """Why judging may stop, or what is missing."""
        if self.stop:
            answers = {
                "best": f"{self.best} is the best system",
                "ranking": "all pairs are decided",
                "means": "all means are known closely enough",
            }
            return f"stop: {answers[self.question]}"
        if self.leaders:
            several = len(self.leaders) > 1
            leads = f"{join_names(self.leaders)} cannot be told apart" if several else f"{self.leaders[0]} leads"
            return f"go on: by the estimates {leads}; judge more outputs, or some once more"
        open_pairs = self.ambiguous
        if self.question == "means" or not open_pairs:
            return f"go on: the widest interval is +-{max(self.half_widths.values(), default=math.nan):.3g}"
        if self.question == "best":
            return self._describe_open_best()
        needs = ", ".join(dict.fromkeys(self.describe_need(pair) for pair in (open_pairs[0], open_pairs[-1])))
        return f"go on: {len(open_pairs)} pair{'s are' if len(open_pairs) > 1 else ' is'} open; {needs}"

    def _describe_open_best(self) -> str:
        """Name how many systems may be the best, and what the leader's last rival needs."""
        beaten = {pair.b for pair in self.decided}
        open_pairs = [pair for pair in self.pairs if not pair.decided and {pair.a, pair.b}.isdisjoint(beaten)]
        if not open_pairs:
            return "go on: no system has beaten all others yet"
        rivals = {name for pair in open_pairs for name in (pair.a, pair.b)}
        ahead = {name: sum(pair.a == name for pair in open_pairs) for name in rivals}
        leader = max(sorted(rivals), key=lambda name: ahead[name])
        needed = {pair: pair.more_items or math.inf for pair in open_pairs if leader in (pair.a, pair.b)}
        last = max(needed, key=lambda pair: needed[pair])
        leads = f", {leader} leads" if last.items else ""
        return f"go on: {len(rivals)} systems may be the best{leads}; {self.describe_need(last)}"

    def describe_need(self, pair: PairState) -> str:
        """Describe what an open pair needs: more items, or more judgments per output."""
        if pair.more_items:
            return f"{pair.a} and {pair.b} need about {pair.more_items} more item{'s' * (pair.more_items != 1)}"
        if self.noise_known:
            return f"all items are judged: {pair.a} and {pair.b} need more judgments per output, by other annotators"
        return "all items are judged: judge some outputs twice, by another annotator"


def _finite_interval(pair: PairState) -> tuple[float, float]:
    return (pair.low, pair.high) if math.isfinite(pair.low) else (math.nan, math.nan)


def _describe_state(pair: PairState) -> str:
    return "decided" if pair.decided else f"about {pair.more_items} more" if pair.more_items else "open"
