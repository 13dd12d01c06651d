"""What `compare` returns for choices, ballots and scores, and how it is shown."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import polars as pl

from aliquot.core.result import Result, frame_of
from aliquot.core.statements import Decision
from aliquot.core.verdict_words import PairTest, decide_pairs
from aliquot.core.view import Column, View
from aliquot.core.written import format_fixed, format_percent
from aliquot.errors import unknown_name
from aliquot.stats.bradley_terry import ScoreInterval, TieModel
from aliquot.stats.multiple_testing import PairAdjustment

PreferenceRule = Literal["any", "published"]
RULES: tuple[PreferenceRule, ...] = get_args(PreferenceRule)
"""How ranks and clusters are decided: adjusted two-sided p-values, or one-sided ones of each pair alone."""

PUBLISHED = "p-values, ranks and clusters are by the published convention (`rule`): one-sided, each pair alone"


@dataclass(frozen=True)
class SystemPreference:
    """One system: how often it was chosen, and its Bradley-Terry score (log-odds, mean 0).

    `win_rate` counts ties half; `low` and `high` are its interval. `component` numbers the groups of systems that
    comparisons connect, from 1: scores, ranks and clusters are only comparable within one. `best` and `worst` are the
    shares of best-worst ballots with the system on which it was named so (NaN for other kinds).
    """

    system: str
    n: int
    wins: int
    ties: int
    losses: int
    win_rate: float
    low: float
    high: float
    score: float
    se: float
    score_low: float
    score_high: float
    rank_low: int
    rank_high: int
    cluster: int
    component: int
    best: float
    worst: float


@dataclass(frozen=True)
class PairPreference:
    """Two systems that were compared, the one with the higher score first.

    `win_rate` counts ties half; `share` is the first's share of the choices that were not ties. Both have intervals
    over clusters. `p_sign` is the exact sign test of those choices as if they were independent, `p_direct` that over
    clusters. `p` is the two-sided test that ranks, clusters and verdict rest on, `p_adjusted` the same for all pairs at
    once. Of two systems, or where fewer than 10 clusters inform the difference, `p` is `p_direct` (1 where these
    choices go against the scores); otherwise it is the test of the difference of the scores, which use all choices.
    """

    a: str
    b: str
    n: int
    clusters: int
    wins: int
    ties: int
    losses: int
    win_rate: float
    low: float
    high: float
    share: float
    share_low: float
    share_high: float
    p_sign: float
    p_direct: float
    p: float
    p_adjusted: float


@dataclass(frozen=True)
class Position:
    """How often the side shown first was chosen (ties half), on pairs that were shown both ways round."""

    n: int
    first_won: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Comparison(Result):
    """The result of `compare` for choices, ballots and scores.

    `tests` has every two systems of a component, the higher score first; `pairs` those that were compared. `tie_share`
    is the share of choices that are ties, `both_bad_share` the share (of all choices, too) that are ties because both
    outputs are bad.
    """

    kind: str
    systems: tuple[SystemPreference, ...]
    pairs: tuple[PairPreference, ...]
    choices: int
    items: int
    annotators: int
    clusters: str
    ties: TieModel
    tie_parameter: float
    interval: ScoreInterval
    level: float
    prior: float
    position: Position | None = None
    tie_share: float = 0.0
    both_bad_share: float = 0.0
    alpha: float = 0.05
    adjust: PairAdjustment = "bh"
    rule: PreferenceRule = "any"
    tests: tuple[PairTest, ...] = ()
    notes: tuple[str, ...] = ()
    signature: str = ""

    def __getitem__(self, system: str) -> SystemPreference:
        rows = {row.system: row for row in self.systems}
        if system not in rows:
            raise unknown_name("system", system, rows)
        return rows[system]

    def pair(self, a: str, b: str) -> PairPreference:
        """Return the row of two systems, in whichever order they are named."""
        for row in self.pairs:
            if {row.a, row.b} == {a, b}:
                return row
        raise unknown_name("pair", f"{a} and {b}", [f"{row.a} and {row.b}" for row in self.pairs])

    def __repr__(self) -> str:
        first = self.systems[0].system if self.systems else "none"
        return f"Comparison({len(self.systems)} systems, {self.choices} choices on {self.items} items, first: {first})"

    def to_frame(self, table: Literal["systems", "pairs"] = "systems") -> pl.DataFrame:
        """Return one row per system, best first, or one per pair that was compared."""
        return self.pairs_frame() if table == "pairs" else frame_of(self.systems, SystemPreference)

    def views(self) -> Sequence[View]:
        """Return the views `systems` and `pairs`; many pairs are a detail."""
        return (_system_view(self), _pair_view(self))

    def decisions(self) -> tuple[Decision, ...]:
        """Return for each pair of systems that can be compared whether they are told apart."""
        return decide_pairs(self.tests, self.alpha)

    def document(self) -> Mapping[str, Any]:
        """The fields, without the tests of pairs that were never compared."""
        return self.fields_without("tests")

    def pairs_frame(self) -> pl.DataFrame:
        """One row per pair that was compared."""
        return frame_of(self.pairs, PairPreference)


MAX_PAIRS = 6
"""Pairs that are shown without being asked for."""


def _system_view(result: Comparison) -> View:
    annotators = f" by {result.annotators} annotators" if result.annotators else ""
    intro = (
        f"{result.choices} choices{annotators} on {result.items} items ({result.kind}); {result.level:.0%} intervals"
    )
    remarks = []
    if result.position is not None:
        side = result.position
        remarks.append(
            f"the system shown first won {format_percent(side.first_won)} of {side.n} choices, "
            f"{format_fixed(side.low, 2)} to {format_fixed(side.high, 2)}"
        )
    if result.both_bad_share:
        remarks.append(
            f"ties: {format_percent(result.tie_share)} of choices; both outputs bad: "
            f"{format_percent(result.both_bad_share)} of choices, which count as ties"
        )
    if len(result.pairs) > MAX_PAIRS:
        remarks.append(f"{len(result.pairs)} pairs: see them with `pairs=True`")
    ballots = any(not math.isnan(row.best) for row in result.systems)
    parts = len({row.component for row in result.systems}) > 1
    columns = (
        Column("system", kind="name"),
        Column("won/tied/lost", lambda row: f"{row.wins}/{row.ties}/{row.losses}", "count", rank=4),
        Column("win rate", "win_rate", places=2),
        Column("interval", ("low", "high"), "interval", 2, rank=1),
        Column("score", places=2, rank=2),
        Column("interval", ("score_low", "score_high"), "interval", 2, rank=3),
        Column("rank", _rank_range, "count", rank=1),
        Column("cluster", kind="count"),
        *((Column("best", places=2, rank=5), Column("worst", places=2, rank=5)) if ballots else ()),
        *((Column("component", kind="count"),) if parts else ()),
    )
    title = "systems (win rate: ties half; score: Bradley-Terry, log-odds)"
    return View("systems", result.systems, columns, title, (intro,), "\n".join(remarks))


def _rank_range(row: SystemPreference) -> str:
    return str(row.rank_low) if row.rank_low == row.rank_high else f"{row.rank_low}-{row.rank_high}"


def _pair_view(result: Comparison) -> View:
    sides = "one-sided, each pair alone: the published convention" if result.rule == "published" else "two-sided"
    columns = (
        Column("system", "a", "name"),
        Column("against", "b", "name"),
        Column("won/tied/lost", lambda row: f"{row.wins}/{row.ties}/{row.losses}", "count", rank=3),
        Column("win rate", "win_rate", places=2),
        Column("interval", ("low", "high"), "interval", 2, rank=1),
        Column(f"p by {result.clusters}", "p", "p", rank=2),
        Column("adjusted", "p_adjusted", "p"),
    )
    return View(
        "pairs",
        result.pairs,
        columns,
        f"pairs, the higher score first (p: {sides}{describe_adjustment(result.adjust)})",
        importance="p",  # the close pairs are the ones to look at
        detail=len(result.pairs) > MAX_PAIRS,
    )


def describe_adjustment(adjust: str) -> str:
    """Say in a title how p-values are adjusted for the number of tests.

    >>> describe_adjustment("holm"), describe_adjustment("none")
    ('; adjusted by Holm', '')
    """
    names = {"bh": "Benjamini-Hochberg", "holm": "Holm", "maxt": "step-down max-t", "sidak": "Sidak"}
    return f"; adjusted by {names[adjust]}" if adjust in names else ""
