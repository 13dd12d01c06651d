"""From choices between systems to win rates, tests, Bradley-Terry scores, ranks and clusters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from aliquot.annotation.choices import Preferences
from aliquot.annotation.preference_result import (
    PUBLISHED,
    RULES,
    Comparison,
    PairPreference,
    Position,
    PreferenceRule,
    SystemPreference,
)
from aliquot.core.result import make_signature
from aliquot.core.verdict_words import PairTest
from aliquot.stats.arrays import FloatArray, IntArray, Seed
from aliquot.stats.bradley_terry import BradleyTerry, ScoreInterval, TieModel, bradley_terry
from aliquot.stats.choices import (
    Choices,
    informative_clusters,
    pair_sign_tests,
    sign_test,
    system_outcomes,
    tally_pairs,
)
from aliquot.stats.cluster_robust import clustered_share
from aliquot.stats.multiple_testing import (
    PairAdjustment,
    adjust_by_max_t,
    adjust_pairs,
    choose_adjustment,
    significantly_better,
    two_sided_p,
)
from aliquot.stats.ranks import assign_clusters as cluster_numbers
from aliquot.stats.ranks import rank_intervals, student_p
from aliquot.validation import between, one_of

MIN_CLUSTERS = 10
"""Informative clusters below which a difference of scores is too far from normal, and exact tests take its place."""


def compare_preferences(
    preferences: Preferences,
    *,
    ties: TieModel = "half",
    interval: ScoreInterval = "robust",
    level: float = 0.95,
    alpha: float = 0.05,
    adjust: PairAdjustment | None = None,
    rule: PreferenceRule = "any",
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
    _validate_options(alpha, rule)
    adjust = choose_adjustment(adjust, rule)
    fit = bradley_terry(
        preferences.choices, ties=ties, interval=interval, level=level, prior=prior, draws=draws, seed=seed
    )
    tests = _pair_tests(preferences.choices, fit, adjust, rule, seed)
    rows = _system_rows(preferences, fit, _rank_by_component(fit, tests, alpha), level)
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
        position=_position_of_first(preferences, level),
        tie_share=float((preferences.choices.outcome == 0).mean()),
        both_bad_share=preferences.both_bad / len(preferences.choices),
        alpha=alpha,
        adjust=adjust,
        rule=rule,
        tests=tests.list_tests(preferences.systems, fit.component),
        notes=(*preferences.notes, *_fit_notes(preferences, fit, ties, prior), *([PUBLISHED] if rule != "any" else [])),
        signature=make_signature(
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


def _validate_options(alpha: float, rule: PreferenceRule) -> None:
    between("alpha", alpha, 0, 0.5, inclusive=False)
    one_of("rule", rule, RULES)


@dataclass(frozen=True, eq=False)
class _PairTests:
    """Tests of all pairs (systems x systems): clustered sign test, p, and p adjusted within a component."""

    scores: FloatArray
    direct: FloatArray
    net: IntArray  # wins minus losses of the row
    p: FloatArray
    p_adjusted: FloatArray

    def order_pair(self, a: int, b: int) -> tuple[int, int]:
        """Return the pair with the higher score first; the more often chosen system if scores are equal."""
        gap = float(self.scores[a] - self.scores[b])
        return (b, a) if (gap if abs(gap) > 1e-9 else self.net[a, b]) < 0 else (a, b)

    def list_tests(self, systems: Sequence[str], component: IntArray) -> tuple[PairTest, ...]:
        """Return the tests of all pairs within components."""
        return tuple(
            PairTest(systems[a], systems[b], float(self.p[a, b]), float(self.p_adjusted[a, b]))
            for first, second in np.argwhere(np.triu(component[:, None] == component[None, :], 1)).tolist()
            for a, b in [self.order_pair(first, second)]
        )


def _pair_tests(
    choices: Choices, fit: BradleyTerry, adjust: PairAdjustment, rule: PreferenceRule, seed: Seed
) -> _PairTests:
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
    exact = alone[:, None] | (informative_clusters(choices) < MIN_CLUSTERS)
    p = np.where(exact, np.where(gap * net < -1e-9, 1.0, direct), two_sided_p(one_sided))
    p_adjusted = np.full(p.shape, np.nan)
    for part in np.unique(fit.component):
        members = np.ix_(fit.component == part, fit.component == part)
        p_adjusted[members] = (
            adjust_by_max_t(p[members], fit.covariance[members], np.array(fit.df), seed=seed)
            if adjust == "maxt"
            else adjust_pairs(p[members], adjust)
        )
    return _PairTests(fit.scores, direct, net, p, p_adjusted)


def _rank_by_component(fit: BradleyTerry, tests: _PairTests, alpha: float) -> tuple[IntArray, IntArray, IntArray]:
    """Return lowest rank, highest rank and cluster of each system within its component."""
    low, high, clusters = (np.ones(len(fit.scores), dtype=np.int64) for _ in range(3))
    for part in np.unique(fit.component):
        members = np.flatnonzero(fit.component == part)
        better = significantly_better(fit.scores[members], tests.p_adjusted[np.ix_(members, members)], alpha)
        low[members], high[members] = rank_intervals(better)
        clusters[members] = cluster_numbers(fit.scores[members], better)
    return low, high, clusters


def _system_rows(
    preferences: Preferences, fit: BradleyTerry, ranks: tuple[IntArray, IntArray, IntArray], level: float
) -> list[SystemPreference]:
    counts, se = tally_pairs(preferences.choices), np.sqrt(np.diag(fit.covariance))
    shares_best_worst = np.full((len(se), 2), np.nan)
    if preferences.ballot_counts is not None:
        n_shown = preferences.ballot_counts[:, [0]]
        np.divide(preferences.ballot_counts[:, 1:], n_shown, out=shares_best_worst, where=n_shown > 0)
    rows = []
    for index, name in enumerate(preferences.systems):
        share = clustered_share(*system_outcomes(preferences.choices, index), level)
        rank_low, rank_high, cluster = (int(values[index]) for values in ranks)
        best, worst = shares_best_worst[index].tolist()
        row = SystemPreference(
            system=name,
            n=share.n,
            wins=int(counts.wins[index].sum()),
            ties=int(counts.ties[index].sum()),
            losses=int(counts.wins[:, index].sum()),
            win_rate=share.share,
            low=share.low,
            high=share.high,
            score=float(fit.scores[index]),
            se=float(se[index]),
            score_low=float(fit.low[index]),
            score_high=float(fit.high[index]),
            rank_low=rank_low,
            rank_high=rank_high,
            cluster=cluster,
            component=int(fit.component[index]) + 1,
            best=best,
            worst=worst,
        )
        rows.append(row)
    return rows


def _pair_rows(preferences: Preferences, tests: _PairTests, level: float) -> tuple[PairPreference, ...]:
    rows = []
    for first, second, cluster, outcome in preferences.choices:
        pair = tests.order_pair(first, second)
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


def _position_of_first(preferences: Preferences, level: float) -> Position | None:
    if preferences.position is None:
        return None
    share = clustered_share(*preferences.position, level)
    return Position(share.n, share.share, share.low, share.high)


def _fit_notes(preferences: Preferences, fit: BradleyTerry, ties: TieModel, prior: float | None) -> list[str]:
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
