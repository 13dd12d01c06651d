"""Pairwise choices as arrays: which two systems were compared, on which cluster, and which won.

Invariant: choices are sorted by pair, every pair has its lower system first and occurs once. Only cluster and outcome
are stored per choice, so that millions of them take megabytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.special import betainc, chdtrc, erfc

from aliquot.errors import OptionError
from aliquot.stats.arrays import BoolArray, FloatArray, IntArray

_DENSE = 10
"""With one entry in this many that is not 0, plain arrays are faster than sparse ones."""
_ROUNDING = 1e-9
"""Relative difference of two scores that is rounding."""


@dataclass(frozen=True, eq=False)
class Choices:
    """Pairwise choices."""

    systems: int  # number of systems, M
    clusters: int  # number of clusters (items), G; codes are 0 .. G-1
    pairs: IntArray  # k x 2 systems, the lower first; pairs that were compared
    starts: IntArray  # k + 1 offsets; the choices of pair k are rows starts[k] .. starts[k+1]
    cluster: NDArray[np.int32]  # the cluster of each choice
    outcome: NDArray[np.int8]  # 1 where the first system of the pair was chosen, -1 where the second was, 0 for a tie

    def __len__(self) -> int:
        return len(self.outcome)

    def __iter__(self) -> Iterator[tuple[int, int, NDArray[np.int32], NDArray[np.int8]]]:
        """Yield first and second system, clusters and outcomes of each pair."""
        for k, (first, second) in enumerate(self.pairs.tolist()):
            rows = slice(int(self.starts[k]), int(self.starts[k + 1]))
            yield first, second, self.cluster[rows], self.outcome[rows]

    def drop_ties(self) -> Choices:
        """Return the choices without ties."""
        is_decided = self.outcome != 0
        before = np.concatenate([[0], np.cumsum(is_decided)])
        starts = before[self.starts]
        nonempty = np.diff(starts) > 0
        ends = np.concatenate([starts[:-1][nonempty], starts[-1:]])
        return Choices(
            self.systems, self.clusters, self.pairs[nonempty], ends, self.cluster[is_decided], self.outcome[is_decided]
        )


def choices_from_rows(first: IntArray, second: IntArray, outcome: IntArray, cluster: IntArray, systems: int) -> Choices:
    """Build from single choices; `outcome` is 1 where `first` was chosen, -1 where `second` was, 0 for a tie.

    >>> choices = choices_from_rows(np.array([1, 0]), np.array([0, 1]), np.array([1, 1]), np.array([0, 0]), 2)
    >>> choices.outcome.tolist()
    [-1, 1]
    """
    if (first == second).any():
        raise OptionError(f"system {int(first[first == second][0])} is compared with itself; leave such choices out")
    low, high = np.minimum(first, second), np.maximum(first, second)
    signed = np.where(first < second, outcome, -outcome).astype(np.int8)
    code = low.astype(np.int64) * systems + high
    order = np.argsort(code, kind="stable")
    codes, starts = np.unique(code[order], return_index=True)
    pairs = np.column_stack([codes // systems, codes % systems]).astype(np.int64)
    ends = np.concatenate([starts, [len(code)]]).astype(np.int64)
    clusters = int(cluster.max()) + 1 if len(cluster) else 0
    return Choices(systems, clusters, pairs, ends, cluster[order].astype(np.int32), signed[order])


def choices_from_scores(scores: FloatArray, cluster: IntArray, margin: float = 0.0, *, ties: bool = True) -> Choices:
    """Build from rows of scores: the higher score is chosen; differences of at most `margin` are ties.

    Rows are one annotator's judgments on one item, or ballots (minus the ranks; 1 best, 0, -1 worst). With `ties=False`
    equal scores are skipped, like the unnamed systems of a best-worst ballot.

    >>> choices = choices_from_scores(np.array([[3.0, 1.0, np.nan], [2.0, 2.0, 5.0]]), np.array([0, 1]))
    >>> [(a, b, outcome.tolist()) for a, b, _, outcome in choices]
    [(0, 1, [1, 0]), (0, 2, [-1]), (1, 2, [-1])]
    """
    if not margin >= 0:
        raise OptionError(f"`margin` is {margin}; choose 0 or more, in points of the score")
    systems = scores.shape[1]
    pairs, parts, outcomes, sizes = [], [], [], [0]
    for first in range(systems):
        for second in range(first + 1, systems):
            gap = scores[:, first] - scores[:, second]
            limit = margin + _ROUNDING * np.maximum(np.abs(scores[:, first]), np.abs(scores[:, second]))
            outcome = np.where(np.abs(gap) <= limit, 0.0, np.sign(gap))
            rows = np.flatnonzero(np.isfinite(gap) & (ties | (outcome != 0)))
            if len(rows):
                pairs.append((first, second))
                parts.append(cluster[rows].astype(np.int32))
                outcomes.append(outcome[rows].astype(np.int8))
                sizes.append(len(rows))
    clusters = int(cluster.max()) + 1 if len(cluster) else 0
    none = not pairs
    return Choices(
        systems,
        clusters,
        np.array(pairs, dtype=np.int64).reshape(-1, 2),
        np.cumsum(sizes, dtype=np.int64),
        np.zeros(0, dtype=np.int32) if none else np.concatenate(parts),
        np.zeros(0, dtype=np.int8) if none else np.concatenate(outcomes),
    )


@dataclass(frozen=True, eq=False)
class Tally:
    """Counts of choices: `wins[a, b]` of a over b, `ties[a, b]` of neither (symmetric)."""

    wins: IntArray
    ties: IntArray

    @property
    def compared(self) -> IntArray:
        """Number of choices of every pair."""
        return self.wins + self.wins.T + self.ties


def tally_pairs(choices: Choices) -> Tally:
    """Count wins and ties of every pair.

    >>> tally_pairs(choices_from_scores(np.array([[3.0, 1.0], [2.0, 2.0]]), np.array([0, 1]))).wins
    array([[0, 1],
           [0, 0]])
    """
    counts, (wins, ties) = count_outcomes(choices), np.zeros((2, choices.systems, choices.systems), dtype=np.int64)
    a, b = counts.first, counts.second
    wins[a, b], wins[b, a] = counts.won, counts.lost
    ties[a, b] = ties[b, a] = counts.tied
    return Tally(wins, ties)


def system_outcomes(choices: Choices, system: int) -> tuple[FloatArray, IntArray]:
    """Return values (1 won, 1/2 tie, 0 lost) and clusters of all choices with a system.

    >>> choices = choices_from_scores(np.array([[3.0, 1.0, 2.0]]), np.array([0]))
    >>> system_outcomes(choices, 2)[0].tolist()
    [0.0, 1.0]
    """
    values, parts = [np.zeros(0)], [np.zeros(0, dtype=np.int64)]
    for first, second, cluster, outcome in choices:
        if system in (first, second):
            sign = 1.0 if system == first else -1.0
            values.append((1.0 + sign * outcome) / 2)
            parts.append(cluster.astype(np.int64))
    return np.concatenate(values), np.concatenate(parts)


# -- The graph of comparisons: counts of pairs, connected components, existence of the maximum -------------------------


@dataclass(frozen=True, eq=False)
class PairCounts:
    """Wins of first and second and ties of each pair; not necessarily whole."""

    first: IntArray
    second: IntArray
    won: FloatArray
    lost: FloatArray
    tied: FloatArray

    def with_prior(self, prior: float) -> PairCounts:
        """Add `prior` choices to every pair, half of them won by either side."""
        return PairCounts(self.first, self.second, self.won + prior / 2, self.lost + prior / 2, self.tied)


def count_outcomes(choices: Choices) -> PairCounts:
    """Count the outcomes of every pair that was compared."""
    number = len(choices.pairs)
    won, lost, tied = np.zeros(number), np.zeros(number), np.zeros(number)
    for k, (_, _, _, outcome) in enumerate(choices):
        won[k], lost[k] = np.count_nonzero(outcome == 1), np.count_nonzero(outcome == -1)
        tied[k] = len(outcome) - won[k] - lost[k]
    return PairCounts(choices.pairs[:, 0], choices.pairs[:, 1], won, lost, tied)


def connected_parts(counts: PairCounts, systems: int) -> IntArray:
    """Label the connected components, in order of their first system."""
    return _label_parts(counts.first, counts.second, systems)


def _label_parts(rows: IntArray, columns: IntArray, systems: int, *, strong: bool = False) -> IntArray:
    """Label the (strongly) connected components of a directed graph of systems."""
    from scipy.sparse.csgraph import connected_components  # noqa: PLC0415  (slow to import)

    edges = csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(systems, systems))
    labels = connected_components(edges, directed=strong, connection="strong")[1]
    return np.asarray(labels, dtype=np.int64)


def has_finite_maximum(counts: PairCounts, systems: int, *, davidson: bool = False) -> bool:
    """Return whether finite scores maximise the likelihood (Ford 1957).

    They do if, within each component, every system reaches every other by a chain of wins. A tie links both ways, as
    half a win each. In Davidson's model ties and scores could still diverge together unless some pair was decided both
    ways.
    """
    if davidson and not ((counts.won > 0) & (counts.lost > 0)).any():
        return False
    up, down = counts.won + counts.tied > 0, counts.lost + counts.tied > 0
    rows = np.concatenate([counts.first[up], counts.second[down]])
    columns = np.concatenate([counts.second[up], counts.first[down]])
    strong, weak = (_label_parts(rows, columns, systems, strong=strong) for strong in (True, False))
    return bool(strong.max(initial=-1) == weak.max(initial=-1))


def systems_without_spread(counts: PairCounts, systems: int, df: float) -> BoolArray:
    """Return which systems have no measurable uncertainty: without decided choices, or with a single cluster."""
    decided = counts.won + counts.lost
    appearances = np.zeros(systems)
    np.add.at(appearances, counts.first, decided)
    np.add.at(appearances, counts.second, decided)
    return np.asarray((appearances == 0) | (df < 1), dtype=np.bool_)


def resample_has_maximum(counts: PairCounts, systems: int, component: IntArray, *, davidson: bool = False) -> bool:
    """Return whether a resample has a maximum and connects the same systems as the data."""
    nonempty = counts.won + counts.lost + counts.tied > 0
    drawn = PairCounts(
        counts.first[nonempty],
        counts.second[nonempty],
        counts.won[nonempty],
        counts.lost[nonempty],
        counts.tied[nonempty],
    )
    is_connected = len(np.unique(connected_parts(drawn, systems))) == len(np.unique(component))
    return is_connected and has_finite_maximum(drawn, systems, davidson=davidson)


# -- Sign tests of preferences -----------------------------------------------------------------------------------------


_MAX_ADDITIONS = 20_000_000
"""Maximum number of additions for the exact distribution of the clustered test."""


@dataclass(frozen=True)
class McNemar:
    """McNemar's test of two systems verified on the same outputs: exact, and chi-square with continuity correction."""

    only_a: int
    only_b: int
    p_exact: float
    chi2: float
    p_chi2: float


def sign_test(wins: IntArray | int, losses: IntArray | int) -> FloatArray:
    """Return exact two-sided sign tests without ties: min(1, 2 P(X <= min(w, l))), X ~ Bin(w+l, 1/2).

    >>> sign_test(np.array([98, 86]), np.array([38, 62])).round(8)  # Czech, German
    array([2.700000e-07, 5.831193e-02])
    """
    won, lost = np.broadcast_arrays(np.asarray(wins, dtype=np.int64), np.asarray(losses, dtype=np.int64))
    if (won < 0).any() or (lost < 0).any():
        raise OptionError("wins and losses are counts; none may be negative")
    return np.where(won + lost > 0, np.minimum(1.0, 2 * _binomial_cdf(np.minimum(won, lost), won + lost)), np.nan)


def _binomial_cdf(k: IntArray | int, n: IntArray | int) -> FloatArray:
    """Return P(X <= k), X ~ Bin(n, 1/2): more digits than `scipy.special.bdtr`, without importing scipy.stats."""
    return np.asarray(betainc(np.subtract(n, k), np.add(k, 1), 0.5))


def clustered_sign_test(net: IntArray) -> float:
    """Return the two-sided sign test over clusters, whose wins and losses are exchanged as a whole.

    `net` is wins minus losses of each cluster. The distribution of the total under all sign flips is exact: clusters of
    equal |net| make a binomial, and the binomials are convolved. With many thousands of clusters the normal limit z =
    sum net / sqrt(sum net^2) is used instead, the clustered McNemar test of Obuchowski (1998) with the variance under
    the null hypothesis. NaN where every net is 0.

    >>> clustered_sign_test(np.array([3, 3])), round(float(sign_test(6, 0)), 3)  # two items are not six
    (0.5, 0.031)
    """
    sizes = np.abs(net[net != 0]).astype(np.int64)
    if not len(sizes):
        return float("nan")
    total, observed = int(sizes.sum()), int(np.abs(net.sum()))
    if observed == 0:
        return 1.0
    values, counts = np.unique(sizes, return_counts=True)
    end = (total - observed) // 2  # lower tail: at most this much of the total is on the other side
    if len(values) == 1:
        return min(1.0, 2 * float(_binomial_cdf(end // int(values[0]), int(counts[0]))))
    if float(counts.sum() - counts.max()) * (end + 1) > _MAX_ADDITIONS:
        z = observed / np.sqrt(float((sizes.astype(np.float64) ** 2).sum()))
        return float(erfc(z / np.sqrt(2)))
    return min(1.0, 2 * float(_lower_tail(values, counts, end).sum()))


def pair_sign_tests(choices: Choices) -> tuple[FloatArray, IntArray]:
    """Return clustered sign tests of every pair (NaN without decided choices), and wins minus losses of the row.

    >>> p, net = pair_sign_tests(choices_from_scores(np.array([[3.0, 1.0], [2.0, 1.0]]), np.array([0, 1])))
    >>> float(p[0, 1]), int(net[1, 0])
    (0.5, -2)
    """
    p = np.full((choices.systems, choices.systems), np.nan)
    net = np.zeros(p.shape, dtype=np.int64)
    for a, b, cluster, outcome in choices:
        by_cluster = np.bincount(cluster, outcome).astype(np.int64)
        p[a, b] = p[b, a] = clustered_sign_test(by_cluster)
        net[a, b], net[b, a] = by_cluster.sum(), -by_cluster.sum()
    return p, net


def informative_clusters(choices: Choices) -> IntArray:
    """Return the number of clusters that inform each difference of systems, systems x systems.

    It is the smallest of three numbers: clusters in which the systems' wins minus losses differ, and those in which
    each system won or lost.

    >>> scores = np.array([[2.0, 1.0, 1.0], [2.0, 2.0, 1.0], [1.0, 1.0, 1.0]])
    >>> informative_clusters(choices_from_scores(scores, np.arange(3)))
    array([[0, 1, 2],
           [1, 0, 1],
           [2, 1, 0]])
    """
    is_dense = _DENSE * 2 * len(choices) > choices.clusters * choices.systems
    differing, decisions = (_count_dense if is_dense else _count_sparse)(choices)
    return np.asarray(np.minimum(differing, np.minimum(decisions[:, None], decisions[None, :])), dtype=np.int64)


def _count_dense(choices: Choices) -> tuple[IntArray, IntArray]:
    """Return in how many clusters two systems' wins minus losses differ, and in how many a system won or lost."""
    net = np.zeros((choices.clusters, choices.systems), dtype=np.int64)
    decided = np.zeros(net.shape, dtype=np.bool_)
    for a, b, cluster, outcome in choices:
        by_cluster = np.bincount(cluster, outcome, minlength=choices.clusters).astype(np.int64)
        net[:, a] += by_cluster
        net[:, b] -= by_cluster
        rows = np.unique(cluster[outcome != 0])
        decided[rows, a] = decided[rows, b] = True
    differing = np.array([(net != net[:, [system]]).sum(axis=0) for system in range(choices.systems)])
    return differing, decided.sum(axis=0)


def _count_sparse(choices: Choices) -> tuple[IntArray, IntArray]:
    """Return the same as `_count_dense`, where few systems meet in a cluster."""
    is_decided = choices.outcome != 0
    first, second = np.repeat(choices.pairs, np.diff(choices.starts), axis=0)[is_decided].T
    rows, outcome = choices.cluster[is_decided], choices.outcome[is_decided].astype(np.int64)
    place = (np.concatenate([rows, rows]), np.concatenate([first, second]))
    shape = (choices.clusters, choices.systems)
    decisions = csr_matrix((np.ones(2 * len(rows), dtype=np.int64), place), shape).getnnz(axis=0)
    net = csr_matrix((np.concatenate([outcome, -outcome]), place), shape)
    net.eliminate_zeros()
    nonzero = net.getnnz(axis=0)
    differing = nonzero[:, None] + nonzero[None, :] - _count_common(net, net.data != 0)
    for value in np.unique(net.data):
        differing -= _count_common(net, net.data == value)
    return np.asarray(differing, dtype=np.int64), np.asarray(decisions, dtype=np.int64)


def _count_common(matrix: csr_matrix, chosen: BoolArray) -> IntArray:
    """Return for each two columns the number of rows in which both have a chosen entry."""
    indicator = csr_matrix((chosen.astype(np.int64), matrix.indices, matrix.indptr), matrix.shape)
    return np.asarray((indicator.T @ indicator).toarray(), dtype=np.int64)


def _lower_tail(values: IntArray, counts: IntArray, end: int) -> FloatArray:
    """Return the probabilities of 0, ..., end for the sum of v Bin(k_v, 1/2) over the distinct sizes v."""
    from scipy.stats import binom  # noqa: PLC0415  (slow to import)

    order = np.argsort(-counts, kind="stable")  # the most frequent size needs no convolution
    density = np.zeros(end + 1)
    density[0] = 1.0
    for row in order:
        size, count = int(values[row]), int(counts[row])
        chances = binom.pmf(np.arange(min(count, end // size) + 1), count, 0.5)
        if density[0] == 1.0:
            density[: len(chances) * size : size] = chances
            continue
        summed = np.zeros_like(density)
        for heads, chance in enumerate(chances):
            summed[heads * size :] += chance * density[: end + 1 - heads * size]
        density = summed
    return density


def mcnemar(only_a: int, only_b: int) -> McNemar:
    """Run McNemar's test on the outputs that only one of two systems got right.

    chi2 = max(0, |b - c| - 1)^2 / (b + c), one degree of freedom; the exact p is the sign test's.

    >>> round(mcnemar(2425, 480).chi2, 1)  # word senses
    1300.9
    """
    decided = only_a + only_b
    p_exact = float(sign_test(only_a, only_b))
    if not decided:
        return McNemar(only_a, only_b, p_exact, float("nan"), float("nan"))
    statistic = max(0, abs(only_a - only_b) - 1) ** 2 / decided
    return McNemar(only_a, only_b, p_exact, statistic, float(chdtrc(1, statistic)))
