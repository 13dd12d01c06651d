"""From choices between systems to win rates, tests, Bradley-Terry scores, ranks and clusters."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl

from aliquot.annotation.choices import Preferences
from aliquot.core.result import Result, frame_of, signature
from aliquot.core.verdict_words import PairTest
from aliquot.core.view import Column, View
from aliquot.core.written import fixed, percent
from aliquot.errors import OptionError, unknown_name
from aliquot.stats.arrays import FloatArray, IntArray, Seed
from aliquot.stats.bradley_terry import BradleyTerry, bradley_terry
from aliquot.stats.choices import (
    Choices,
    informative_clusters,
    pair_sign_tests,
    sign_test,
    system_outcomes,
    tally,
)
from aliquot.stats.cluster_robust import clustered_share
from aliquot.stats.multiple_testing import (
    adjust_by_max_t,
    adjust_pairs,
    choose_adjustment,
    significantly_better,
    two_sided_p,
)
from aliquot.stats.ranks import assign_clusters as cluster_numbers
from aliquot.stats.ranks import rank_intervals, student_p

RULES = ("any", "published")
"""How ranks and clusters are decided: adjusted two-sided p-values, or one-sided ones of each pair alone."""

PUBLISHED = "p-values, ranks and clusters are by the published convention (`rule`): one-sided, each pair alone"

FEW = 10
"""Informative clusters below which a difference of scores is too far from normal, and exact tests take its place."""


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

    `tests` has every two systems of a component, the higher score first; `pairs` those that were compared.
    """

    kind: str
    systems: tuple[SystemPreference, ...]
    pairs: tuple[PairPreference, ...]
    choices: int
    items: int
    annotators: int
    clusters: str
    ties: str
    tie_parameter: float
    interval: str
    level: float
    prior: float
    position: Position | None = None
    alpha: float = 0.05
    adjust: str = "bh"
    rule: str = "any"
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
            f"the system shown first won {percent(side.first_won)} of {side.n} choices, "
            f"{fixed(side.low, 2)} to {fixed(side.high, 2)}"
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


def compare_preferences(
    preferences: Preferences,
    *,
    ties: str = "half",
    interval: str = "robust",
    level: float = 0.95,
    alpha: float = 0.05,
    adjust: str | None = None,
    rule: str = "any",
    prior: float | None = None,
    draws: int = 1000,
    seed: Seed = 0,
) -> Comparison:
    """Compare systems by the choices between them.

    Args:
        preferences: From `table_preferences` or `score_preferences`.
        ties: How Bradley-Terry scores treat ties: half, davidson or drop. Win rates count them half, sign tests leave
            them out.
        interval: Of the scores: robust, bootstrap or information.
        level: Coverage of all intervals.
        alpha: Significance of ranks, clusters and verdict.
        adjust: For the pairs of a component: bh (Benjamini-Hochberg, the default: of the differences named, at most a
            share alpha is expected to be wrong), holm, maxt (step-down max-t) or none.
        rule: any, or published (the usual convention: one-sided p-values of the scores, each pair alone).
        prior: Choices to add to every compared pair for the scores, half won by either side; None adds one only where
            they would be infinite.
        draws: Bootstrap draws.
        seed: Of the bootstrap and of max-t.

    >>> import aliquot
    >>> from aliquot.annotation.choices import score_preferences
    >>> data = aliquot.synthetic(items=60, systems=3, seed=1)
    >>> compare_preferences(score_preferences(data, within="item")).systems[0].system
    'sys1'
    """
    _check_options(alpha, rule)
    adjust = choose_adjustment(adjust, rule)
    fit = bradley_terry(
        preferences.choices, ties=ties, interval=interval, level=level, prior=prior, draws=draws, seed=seed
    )
    tests = _pair_tests(preferences.choices, fit, adjust, rule, seed)
    rows = _system_rows(preferences, fit, _ranks(fit, tests, alpha), level)
    seeded = seed if isinstance(seed, int) and (interval == "bootstrap" or adjust == "maxt") else None
    return Comparison(
        kind=preferences.kind,
        systems=tuple(sorted(rows, key=lambda row: (row.component, -np.nan_to_num(row.score, nan=-np.inf)))),
        pairs=_pair_rows(preferences, tests, level),
        choices=len(preferences.choices),
        items=preferences.items,
        annotators=preferences.annotators,
        clusters=preferences.cluster,
        ties=ties,
        tie_parameter=fit.tie,
        interval=interval,
        level=level,
        prior=fit.prior,
        position=_position(preferences, level),
        alpha=alpha,
        adjust=adjust,
        rule=rule,
        tests=tests.named(preferences.systems, fit.component),
        notes=(*preferences.notes, *_fit_notes(preferences, fit, ties, prior), *([PUBLISHED] if rule != "any" else [])),
        signature=signature(
            f"compare:{preferences.kind}",
            None,
            **dict(preferences.options),
            ties=ties,
            interval=interval,
            level=level,
            cluster=None if preferences.cluster == "item" else preferences.cluster,
            prior=prior,
            alpha=None if alpha == 0.05 else alpha,
            adjust=None if adjust == "bh" or rule == "published" else adjust,
            rule=None if rule == "any" else rule,
            draws=draws if interval == "bootstrap" else None,
            seed=seeded,
            data=preferences.fingerprint,
        ),
    )


def _check_options(alpha: float, rule: str) -> None:
    if not 0.0 < alpha < 0.5:
        raise OptionError(f"alpha is {alpha}; choose between 0 and 0.5, for instance 0.05")
    if rule not in RULES:
        raise unknown_name("rule", rule, RULES)


@dataclass(frozen=True, eq=False)
class _PairTests:
    """Tests of all pairs, systems x systems: the clustered sign test, p, and p for all pairs of a component at once."""

    scores: FloatArray
    direct: FloatArray
    net: IntArray  # wins minus losses of the row
    p: FloatArray
    p_adjusted: FloatArray

    def ordered(self, a: int, b: int) -> tuple[int, int]:
        """The system with the higher score first; where scores are equal, the more often chosen one."""
        gap = float(self.scores[a] - self.scores[b])
        return (b, a) if (gap if abs(gap) > 1e-9 else self.net[a, b]) < 0 else (a, b)

    def named(self, systems: Sequence[str], component: IntArray) -> tuple[PairTest, ...]:
        """The test of every two systems of a component."""
        return tuple(
            PairTest(systems[a], systems[b], float(self.p[a, b]), float(self.p_adjusted[a, b]))
            for first, second in np.argwhere(np.triu(component[:, None] == component[None, :], 1)).tolist()
            for a, b in [self.ordered(first, second)]
        )


def _pair_tests(choices: Choices, fit: BradleyTerry, adjust: str, rule: str, seed: Seed) -> _PairTests:
    direct, net = pair_sign_tests(choices)
    gap, variances = fit.scores[:, None] - fit.scores[None, :], np.diag(fit.covariance)
    se = np.sqrt(np.maximum(variances[:, None] + variances[None, :] - 2 * fit.covariance, 0.0))
    se[se <= 1e-9] = np.nan  # a difference that was never seen to vary is not known for sure
    one_sided = student_p(gap, se, fit.df)
    np.fill_diagonal(one_sided, 0.5)
    if rule == "published":
        p = np.minimum(one_sided, one_sided.T)
        return _PairTests(fit.scores, direct, net, p, p)
    alone = np.bincount(fit.component)[fit.component] == 2  # nothing but the two systems' own choices
    exact = alone[:, None] | (informative_clusters(choices) < FEW)
    p = np.where(exact, np.where(gap * net < -1e-9, 1.0, direct), two_sided_p(one_sided))
    p_adjusted = np.full(p.shape, np.nan)
    for part in np.unique(fit.component):
        here = np.ix_(fit.component == part, fit.component == part)
        p_adjusted[here] = (
            adjust_by_max_t(p[here], fit.covariance[here], np.array(fit.df), seed=seed)
            if adjust == "maxt"
            else adjust_pairs(p[here], adjust)
        )
    return _PairTests(fit.scores, direct, net, p, p_adjusted)


def _ranks(fit: BradleyTerry, tests: _PairTests, alpha: float) -> tuple[IntArray, IntArray, IntArray]:
    """Lowest and highest rank and the cluster of each system, among the systems of its component."""
    low, high, clusters = (np.ones(len(fit.scores), dtype=np.int64) for _ in range(3))
    for part in np.unique(fit.component):
        here = np.flatnonzero(fit.component == part)
        better = significantly_better(fit.scores[here], tests.p_adjusted[np.ix_(here, here)], alpha)
        low[here], high[here] = rank_intervals(better)
        clusters[here] = cluster_numbers(fit.scores[here], better)
    return low, high, clusters


def _system_rows(
    preferences: Preferences, fit: BradleyTerry, ranks: tuple[IntArray, IntArray, IntArray], level: float
) -> list[SystemPreference]:
    counts, se = tally(preferences.choices), np.sqrt(np.diag(fit.covariance))
    shares_best_worst = np.full((len(se), 2), np.nan)
    if preferences.shown is not None:
        shown = preferences.shown[:, [0]]
        np.divide(preferences.shown[:, 1:], shown, out=shares_best_worst, where=shown > 0)
    rows = []
    for at, name in enumerate(preferences.systems):
        share = clustered_share(*system_outcomes(preferences.choices, at), level)
        rank_low, rank_high, cluster = (int(values[at]) for values in ranks)
        best, worst = shares_best_worst[at].tolist()
        row = SystemPreference(
            system=name,
            n=share.n,
            wins=int(counts.wins[at].sum()),
            ties=int(counts.ties[at].sum()),
            losses=int(counts.wins[:, at].sum()),
            win_rate=share.share,
            low=share.low,
            high=share.high,
            score=float(fit.scores[at]),
            se=float(se[at]),
            score_low=float(fit.low[at]),
            score_high=float(fit.high[at]),
            rank_low=rank_low,
            rank_high=rank_high,
            cluster=cluster,
            component=int(fit.component[at]) + 1,
            best=best,
            worst=worst,
        )
        rows.append(row)
    return rows


def _pair_rows(preferences: Preferences, tests: _PairTests, level: float) -> tuple[PairPreference, ...]:
    rows = []
    for first, second, cluster, outcome in preferences.choices:
        pair = tests.ordered(first, second)
        turned = outcome.astype(np.int64) * (1 if pair == (first, second) else -1)
        a, b = (preferences.systems[system] for system in pair)
        direct, p, p_adjusted = (float(table[pair]) for table in (tests.direct, tests.p, tests.p_adjusted))
        wins, losses = int((turned == 1).sum()), int((turned == -1).sum())
        rate = clustered_share((1.0 + turned) / 2, cluster.astype(np.int64), level)
        decided = turned != 0
        share = clustered_share((turned[decided] + 1.0) / 2, cluster[decided].astype(np.int64), level)
        row = PairPreference(
            a=a,
            b=b,
            n=len(turned),
            clusters=rate.clusters,
            wins=wins,
            ties=len(turned) - wins - losses,
            losses=losses,
            win_rate=rate.share,
            low=rate.low,
            high=rate.high,
            share=share.share,
            share_low=share.low,
            share_high=share.high,
            p_sign=float(sign_test(wins, losses)),
            p_direct=direct,
            p=p,
            p_adjusted=p_adjusted,
        )
        rows.append(row)
    return tuple(sorted(rows, key=lambda row: (-row.win_rate, row.a, row.b)))


def _position(preferences: Preferences, level: float) -> Position | None:
    if preferences.position is None:
        return None
    share = clustered_share(*preferences.position, level)
    return Position(share.n, share.share, share.low, share.high)


def _fit_notes(preferences: Preferences, fit: BradleyTerry, ties: str, prior: float | None) -> list[str]:
    outcome = preferences.choices.outcome
    tied, parts = int((outcome == 0).sum()), len(np.unique(fit.component))
    how = {"half": "half a win for each", "davidson": "by Davidson's model", "drop": "left out"}[ties]
    notes = {
        f"all {tied} choices are ties: nothing can be tested, and no system is better": tied == len(outcome),
        f"{tied} of {len(outcome)} choices are ties: half a win in win rates, left out of sign tests, {how} in "
        "scores": 0 < tied < len(outcome),
        "the choices are too one-sided for finite scores (some systems never lose): half a win for each side was "
        "added to every compared pair (`prior`)": fit.prior and prior is None,
        f"{fit.repaired} bootstrap draws had infinite scores: half a win for each side was added to every pair": (
            fit.repaired
        ),
        f"the comparisons fall into {parts} groups of systems that were never compared with each other: scores, "
        "ranks and clusters count within a group only (column component)": parts > 1,
    }
    return [note for note, applies in notes.items() if applies]
