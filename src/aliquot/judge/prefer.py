"""From preferences to win rates, tests, Bradley-Terry scores, ranks and clusters."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from aliquot.data.signature import signature
from aliquot.errors import OptionError
from aliquot.judge.choice_sets import Preferences
from aliquot.judge.comparison import Comparison, PairPreference, Position, SystemPreference
from aliquot.stats.arrays import IntArray, Seed
from aliquot.stats.bradley_terry import BradleyTerry, bradley_terry
from aliquot.stats.choices import choices_of_system, tally
from aliquot.stats.clustered import clustered_share, wilson_interval
from aliquot.stats.clusters import cluster as cluster_numbers
from aliquot.stats.multiplicity import adjusted
from aliquot.stats.preferences import clustered_sign_test, sign_test
from aliquot.stats.ranks import holm, rank_intervals, student_p


@dataclass(frozen=True, eq=False)
class _Ranks:
    low: IntArray
    high: IntArray
    cluster: IntArray


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
    cluster: str = "item",
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
        cluster: What choices were clustered by, for the record.
        seed: Of the bootstrap.

    Example:
        >>> import aliquot
        >>> from aliquot.judge.preferences import score_preferences
        >>> data = aliquot.synthetic(items=60, systems=3, seed=1)
        >>> compare_preferences(score_preferences(data, within="item")).systems[0].system
        'sys1'
    """
    if not 0.0 < alpha < 0.5:
        raise OptionError(f"alpha is {alpha}; choose between 0 and 0.5, for instance 0.05")
    fit = bradley_terry(
        preferences.choices, ties=ties, interval=interval, level=level, prior=prior, draws=draws, seed=seed
    )
    ranks = _ranks(fit, alpha, adjust=adjust)
    systems = _system_rows(preferences, fit, ranks, level)
    order = sorted(
        range(len(systems)), key=lambda at: (systems[at].component, -np.nan_to_num(fit.scores[at], nan=-np.inf))
    )
    seeded = seed if isinstance(seed, int) and interval == "bootstrap" else None
    return Comparison(
        systems=tuple(systems[at] for at in order),
        pairs=_pair_rows(preferences, level),
        kind=preferences.kind,
        choices=len(preferences.choices),
        items=preferences.items,
        annotators=preferences.annotators,
        clusters=cluster,
        ties=ties,
        tie_parameter=fit.tie,
        interval=interval,
        level=level,
        prior=fit.prior,
        position=_position(preferences, level),
        notes=(*preferences.notes, *_fit_notes(preferences, fit, ties, prior)),
        signature=signature(
            f"compare:{preferences.kind}", None, **dict(preferences.asked), ties=ties, interval=interval, level=level,
            cluster=None if cluster == "item" else cluster, prior=prior, alpha=None if alpha == 0.05 else alpha,
            holm="yes" if adjust else None, draws=draws if seeded is not None else None, seed=seeded,
            data=preferences.fingerprint,
        ),
    )  # fmt: skip


def _ranks(fit: BradleyTerry, alpha: float, *, adjust: bool) -> _Ranks:
    """Rank the systems of each component among themselves."""
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
        p = holm(p) if adjust and len(here) > 1 else p
        better = np.nan_to_num(p, nan=1.0) < alpha
        low[here], high[here] = rank_intervals(better)
        clusters[here] = cluster_numbers(scores, better)
    return _Ranks(low, high, clusters)


def _system_rows(preferences: Preferences, fit: BradleyTerry, ranks: _Ranks, level: float) -> list[SystemPreference]:
    counts = tally(preferences.choices)
    se = np.sqrt(np.diag(fit.covariance))
    rows = []
    for at, name in enumerate(preferences.systems):
        share = clustered_share(*choices_of_system(preferences.choices, at), level)
        best, worst = _named(preferences.shown, at)
        row = SystemPreference(
            system=name, n=share.n, wins=int(counts.wins[at].sum()), ties=int(counts.ties[at].sum()),
            losses=int(counts.wins[:, at].sum()), win_rate=share.share, low=share.low, high=share.high,
            score=float(fit.scores[at]), se=float(se[at]), score_low=float(fit.low[at]),
            score_high=float(fit.high[at]), rank_low=int(ranks.low[at]), rank_high=int(ranks.high[at]),
            cluster=int(ranks.cluster[at]), component=int(fit.component[at]) + 1, best=best, worst=worst,
        )  # fmt: skip
        rows.append(row)
    return rows


def _named(shown: IntArray | None, at: int) -> tuple[float, float]:
    """Shares of the ballots with a system on which it was the best and the worst."""
    if shown is None or not shown[at, 0]:
        return float("nan"), float("nan")
    return float(shown[at, 1] / shown[at, 0]), float(shown[at, 2] / shown[at, 0])


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
    if preferences.first_won is None or preferences.first_cluster is None:
        return None
    share = clustered_share(preferences.first_won, preferences.first_cluster, level)
    return Position(share.n, share.share, share.low, share.high)


def _fit_notes(preferences: Preferences, fit: BradleyTerry, ties: str, prior: float | None) -> list[str]:
    notes = []
    outcome = preferences.choices.outcome
    tied = int((outcome == 0).sum())
    if tied == len(outcome):
        notes.append(f"all {tied} choices are ties: nothing can be tested, and no system is better")
    elif tied:
        how = {"half": "half a win for each", "davidson": "by Davidson's model", "drop": "left out"}[ties]
        notes.append(
            f"{tied} of {len(outcome)} choices are ties: half a win in win rates, left out of sign tests, {how} in "
            "scores"
        )
    if fit.prior and prior is None:
        notes.append(
            "the choices are too one-sided for finite scores (some systems never lose): half a win for each side was "
            "added to every compared pair (--prior)"
        )
    if fit.repaired:
        notes.append(
            f"{fit.repaired} bootstrap draws had infinite scores: half a win for each side was added to every pair"
        )
    parts = len(np.unique(fit.component))
    if parts > 1:
        notes.append(
            f"the comparisons fall into {parts} groups of systems that were never compared with each other: scores, "
            "ranks and clusters count within a group only (column component)"
        )
    return notes
