"""From choices between systems to win rates, tests, Bradley-Terry scores, ranks and clusters."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from aliquot.annotation.choices import Preferences
from aliquot.core.result import Result, frame_of, signature
from aliquot.errors import OptionError, unknown_name
from aliquot.stats.arrays import IntArray, Seed
from aliquot.stats.bradley_terry import BradleyTerry, bradley_terry
from aliquot.stats.choices import choices_of_system, clustered_sign_test, sign_test, tally
from aliquot.stats.clustered import clustered_share, wilson_interval
from aliquot.stats.multiple_testing import adjust_pairs, adjusted, significantly_better, two_sided
from aliquot.stats.ranks import cluster as cluster_numbers
from aliquot.stats.ranks import rank_intervals, student_p


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
    """Two systems, the more often chosen one first.

    `win_rate` counts ties half, `low` and `high` its interval over clusters. `share` is the first's share of the
    choices that were not ties, with Wilson's interval as if choices were independent. `p_sign` is the exact sign test
    of those choices, `p` the sign test over clusters, `p_holm` the latter corrected for the number of pairs.
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
    p: float
    p_holm: float


@dataclass(frozen=True)
class Position:
    """How often the side shown first was chosen (ties half), on pairs that were shown both ways round."""

    n: int
    first_won: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Comparison(Result):
    """The result of `compare` for choices, ballots and scores."""

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

    def to_frame(self) -> pl.DataFrame:
        """One row per system, best first."""
        return frame_of(self.systems, SystemPreference)

    def pairs_frame(self) -> pl.DataFrame:
        """One row per pair that was compared."""
        return frame_of(self.pairs, PairPreference)


def compare_preferences(
    preferences: Preferences,
    *,
    ties: str = "half",
    interval: str = "robust",
    level: float = 0.95,
    alpha: float = 0.05,
    adjust: bool = False,
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
        alpha: Significance of ranks and clusters, one-sided.
        adjust: Holm's correction over pairs, for ranks and clusters.
        prior: Choices to add to every compared pair for the scores, half won by either side; None adds one only where
            they would be infinite.
        draws: Bootstrap draws.
        seed: Of the bootstrap.

    >>> import aliquot
    >>> from aliquot.annotation.choices import score_preferences
    >>> data = aliquot.synthetic(items=60, systems=3, seed=1)
    >>> compare_preferences(score_preferences(data, within="item")).systems[0].system
    'sys1'
    """
    if not 0.0 < alpha < 0.5:
        raise OptionError(f"alpha is {alpha}; choose between 0 and 0.5, for instance 0.05")
    fit = bradley_terry(
        preferences.choices, ties=ties, interval=interval, level=level, prior=prior, draws=draws, seed=seed
    )
    rows = _system_rows(preferences, fit, _ranks(fit, alpha, adjust=adjust), level)
    seeded = seed if isinstance(seed, int) and interval == "bootstrap" else None
    return Comparison(
        kind=preferences.kind,
        systems=tuple(sorted(rows, key=lambda row: (row.component, -np.nan_to_num(row.score, nan=-np.inf)))),
        pairs=_pair_rows(preferences, level),
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
        notes=(*preferences.notes, *_fit_notes(preferences, fit, ties, prior)),
        signature=signature(
            f"compare:{preferences.kind}", None, **dict(preferences.options), ties=ties, interval=interval, level=level,
            cluster=None if preferences.cluster == "item" else preferences.cluster, prior=prior,
            alpha=None if alpha == 0.05 else alpha, holm="yes" if adjust else None,
            draws=draws if seeded is not None else None, seed=seeded, data=preferences.fingerprint,
        ),
    )  # fmt: skip


def _ranks(fit: BradleyTerry, alpha: float, *, adjust: bool) -> tuple[IntArray, IntArray, IntArray]:
    """Lowest and highest rank and the cluster of each system, among the systems of its component."""
    number = len(fit.scores)
    low, high, clusters = (np.ones(number, dtype=np.int64) for _ in range(3))
    variances = np.diag(fit.covariance)
    for part in np.unique(fit.component):
        here = np.flatnonzero(fit.component == part)
        scores = fit.scores[here]
        variance = variances[here][:, None] + variances[here][None, :] - 2 * fit.covariance[np.ix_(here, here)]
        se = np.sqrt(np.maximum(variance, 0.0))
        se[se <= 1e-9] = np.nan  # a difference that was never seen to vary is not known for sure
        p = student_p(scores[:, None] - scores[None, :], se, fit.df)
        np.fill_diagonal(p, 0.5)
        better = significantly_better(scores, adjust_pairs(two_sided(p), "holm" if adjust else "bh"), alpha)
        low[here], high[here] = rank_intervals(better)
        clusters[here] = cluster_numbers(scores, better)
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
        share = clustered_share(*choices_of_system(preferences.choices, at), level)
        rank_low, rank_high, cluster = (int(values[at]) for values in ranks)
        best, worst = shares_best_worst[at].tolist()
        row = SystemPreference(
            system=name, n=share.n, wins=int(counts.wins[at].sum()), ties=int(counts.ties[at].sum()),
            losses=int(counts.wins[:, at].sum()), win_rate=share.share, low=share.low, high=share.high,
            score=float(fit.scores[at]), se=float(se[at]), score_low=float(fit.low[at]),
            score_high=float(fit.high[at]), rank_low=rank_low, rank_high=rank_high, cluster=cluster,
            component=int(fit.component[at]) + 1, best=best, worst=worst,
        )  # fmt: skip
        rows.append(row)
    return rows


def _pair_rows(preferences: Preferences, level: float) -> tuple[PairPreference, ...]:
    rows = []
    for first, second, cluster, outcome in preferences.choices:
        names, turned = (preferences.systems[first], preferences.systems[second]), outcome.astype(np.int64)
        if turned.sum() < 0:  # the more often chosen one stands first
            names, turned = names[::-1], -turned
        rows.append(_pair_row(*names, cluster.astype(np.int64), turned, level))
    p = adjusted(np.array([row.p for row in rows], dtype=np.float64), "holm")
    full = [replace(row, p_holm=float(value)) for row, value in zip(rows, p, strict=True)]
    return tuple(sorted(full, key=lambda row: (-row.win_rate, row.a, row.b)))


def _pair_row(a: str, b: str, cluster: IntArray, outcome: IntArray, level: float) -> PairPreference:
    wins, losses = int((outcome == 1).sum()), int((outcome == -1).sum())
    rate = clustered_share((1.0 + outcome) / 2, cluster, level)
    share = wins / (wins + losses) if wins + losses else float("nan")
    share_low, share_high = wilson_interval(share, wins + losses, level)
    return PairPreference(
        a=a, b=b, n=len(outcome), clusters=rate.clusters, wins=wins, ties=len(outcome) - wins - losses, losses=losses,
        win_rate=rate.share, low=rate.low, high=rate.high, share=share, share_low=share_low, share_high=share_high,
        p_sign=float(sign_test(wins, losses)), p=clustered_sign_test(np.bincount(cluster, outcome).astype(np.int64)),
        p_holm=float("nan"),
    )  # fmt: skip


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
        "added to every compared pair (--prior)": fit.prior and prior is None,
        f"{fit.repaired} bootstrap draws had infinite scores: half a win for each side was added to every pair":
            fit.repaired,
        f"the comparisons fall into {parts} groups of systems that were never compared with each other: scores, "
        "ranks and clusters count within a group only (column component)": parts > 1,
    }  # fmt: skip
    return [note for note, applies in notes.items() if applies]
