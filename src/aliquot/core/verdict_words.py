"""Verdicts in words from p-values, for all verbs: who leads, who cannot be told apart, who is worse.

Invariant: "is worse" is written only of a pair whose adjusted p is below alpha, and "is
best" only of a system all of whose pairs are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from aliquot.core.statements import Decision
from aliquot.stats.multiple_testing import PairAdjustment, adjust_p_values

MAX_NAMES = 3  # names that are written out


@dataclass(frozen=True)
class PairTest:
    """Two systems, the one with the higher value first, with two-sided p-values; NaN where nothing can be tested."""

    a: str
    b: str
    p: float
    p_adjusted: float


def join_names(names: Sequence[str], limit: int = MAX_NAMES) -> str:
    """Join names as in a sentence.

    >>> join_names(["A", "B", "C"]), join_names(list("ABCDE"))
    ('A, B and C', 'A, B, C and 2 more')
    """
    if len(names) > limit + 1:
        return f"{', '.join(names[:limit])} and {len(names) - limit} more"
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)


def format_p(p: float, p_adjusted: float | None = None) -> str:
    """Format a p-value, with the adjusted one if it differs.

    >>> format_p(0.0034), format_p(1e-9), format_p(0.21), format_p(0.0034, 0.012)
    ('p = 0.003', 'p < 0.001', 'p = 0.21', 'p = 0.003, adjusted 0.012')
    """
    if math.isnan(p):
        return "p unknown"
    text = f"p {_compare_p(p)}"
    if p_adjusted is None or math.isnan(p_adjusted) or _compare_p(p_adjusted) == _compare_p(p):
        return text
    return f"{text}, adjusted {_compare_p(p_adjusted).removeprefix('= ')}"


def format_probability(p: float) -> str:
    """Format a probability; never as 0% or 100%.

    >>> format_probability(0.58), format_probability(0.9999)
    ('58%', 'more than 99%')
    """
    return "more than 99%" if p > 0.99 else "less than 1%" if p < 0.01 else f"{p:.0%}"


def _compare_p(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"= {p:.3f}" if p < 0.1 else f"= {p:.2f}"


def decide_pairs(tests: Iterable[PairTest], alpha: float) -> tuple[Decision, ...]:
    """Decide of each pair of systems, the higher one first, whether they differ: passed, or undecided.

    >>> for decision in decide_pairs([PairTest("A", "B", 0.001, 0.002), PairTest("B", "C", 0.6, 0.6)], 0.05):
    ...     print(f"{decision.outcome}: {decision.message}")
    passed: A is better than B (p = 0.001, adjusted 0.002)
    undecided: B and C cannot be told apart (p = 0.60)
    """
    return tuple(_decide_pair(test, format_p(test.p, test.p_adjusted), alpha) for test in tests)


def _decide_pair(test: PairTest, p: str, alpha: float) -> Decision:
    name = f"{test.a} vs {test.b}"
    if test.p_adjusted < alpha:
        return Decision(name, "passed", f"{test.a} is better than {test.b} ({p})")
    return Decision(name, "undecided", f"{test.a} and {test.b} cannot be told apart ({p})")


@dataclass(frozen=True)
class Lead:
    """The leading systems: the first cluster, the first system below it, and the test between them."""

    leaders: tuple[str, ...]
    following: str | None
    pair: PairTest | None
    rivals: tuple[str, ...]  # below the first cluster, but not told apart from its only member
    testable: bool

    @property
    def best(self) -> str | None:
        """The system that is better than all others, or None."""
        return self.leaders[0] if len(self.leaders) == 1 and self.following and not self.rivals else None

    @property
    def sentence(self) -> str:
        """The lead as a clause without a full stop."""
        first = self.leaders[0]
        if not self.testable:
            return "No difference between systems can be tested (the notes say why)"
        if self.following is None:
            subject = "The two systems" if len(self.leaders) == 2 else f"The {len(self.leaders)} systems"
            return f"{subject} cannot be told apart"
        p = "" if self.pair is None else f" ({format_p(self.pair.p, self.pair.p_adjusted)})"
        if self.best is not None:
            return f"{first} is best: the next system, {self.following}, is worse{p}"
        if self.rivals:
            worse = "" if self.following in self.rivals else f" and {self.following} is worse{p}"
            return f"{first} leads{worse}, but {join_names(self.rivals)} cannot be told apart from it"
        than = "" if self.pair is None else f" than {self.pair.a}"
        lead = f"{join_names(self.leaders)} lead and cannot be told apart"
        return f"{lead}; the next system, {self.following}, is worse{than}{p}"


def find_lead(
    systems: Sequence[str],
    clusters: Sequence[int],
    tests: Sequence[PairTest],
    *,
    alpha: float,
    method: PairAdjustment = "bh",
) -> Lead:
    """Find the leading systems from systems (best first), their clusters and the tests of all pairs.

    A single leader is the best only if all its pairs are significant, adjusted over the M - 1 of them by `method`
    or, as the tables show them, over all pairs (max-t values are taken as they are): by Benjamini-Hochberg either can
    be the smaller one.

    >>> tests = [PairTest("A", "B", 0.001, 0.002), PairTest("A", "C", 0.3, 0.3), PairTest("B", "C", 0.6, 0.6)]
    >>> find_lead(["A", "B", "C"], [1, 2, 2], tests, alpha=0.05).sentence
    'A leads and B is worse (p = 0.001, adjusted 0.002), but C cannot be told apart from it'
    """
    leaders = tuple(name for name, cluster in zip(systems, clusters, strict=True) if cluster == clusters[0])
    below = [name for name in systems if name not in leaders]
    testable = [test for test in tests if not math.isnan(test.p)]
    separating = [test for test in testable if test.a in leaders and below and test.b == below[0]]
    pair = min(separating, key=lambda test: test.p, default=None)
    rivals: tuple[str, ...] = ()
    if len(leaders) == 1 and below:
        by_rival = {test.b: test for test in testable if test.a == leaders[0]}
        p = np.array(
            [by_rival[name].p_adjusted if method == "maxt" else by_rival[name].p for name in below if name in by_rival]
        )
        adjusted = p if method == "maxt" else adjust_p_values(p, method)
        tested = [name for name in below if name in by_rival]
        sure = {n for n, value in zip(tested, adjusted, strict=True) if min(value, by_rival[n].p_adjusted) < alpha}
        rivals = tuple(name for name in below if name not in sure)
    return Lead(leaders, below[0] if below else None, pair, rivals, bool(testable))
