"""Choices between two systems, as arrays: who stood against whom, on which cluster, and who won.

Invariant: choices are sorted by pair, every pair has its lower system first and occurs once, and nothing is kept per
choice but its cluster and its outcome, so that millions of them are a matter of megabytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aliquot.errors import OptionError
from aliquot.stats.arrays import FloatArray, IntArray

_EQUAL = 1e-9
"""Difference of two scores, relative to their size, that is rounding."""


@dataclass(frozen=True, eq=False)
class Choices:
    """Pairwise choices.

    Attributes:
        systems: Number of systems, M.
        clusters: Number of clusters (items), G; codes are 0 .. G-1.
        pairs: K x 2 systems, the lower first; every pair that was ever compared.
        starts: K + 1 places; the choices of pair k are rows starts[k] .. starts[k+1].
        cluster: The cluster of each choice.
        outcome: 1 where the first system of the pair was chosen, -1 where the second was, 0 for a tie.
    """

    systems: int
    clusters: int
    pairs: IntArray
    starts: IntArray
    cluster: NDArray[np.int32]
    outcome: NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.outcome)

    def __iter__(self) -> Iterator[tuple[int, int, NDArray[np.int32], NDArray[np.int8]]]:
        """Give each pair: first and second system, clusters and outcomes of its choices."""
        for k, (first, second) in enumerate(self.pairs.tolist()):
            rows = slice(int(self.starts[k]), int(self.starts[k + 1]))
            yield first, second, self.cluster[rows], self.outcome[rows]

    def decided(self) -> Choices:
        """Return the choices that are not ties."""
        kept = self.outcome != 0
        before = np.concatenate([[0], np.cumsum(kept)])
        starts = before[self.starts]
        there = np.diff(starts) > 0
        ends = np.concatenate([starts[:-1][there], starts[-1:]])
        return Choices(
            self.systems, self.clusters, self.pairs[there], ends, self.cluster[kept], self.outcome[kept]
        )  # fmt: skip


def choices_of_rows(first: IntArray, second: IntArray, outcome: IntArray, cluster: IntArray, systems: int) -> Choices:
    """Sort single choices by pair.

    Args:
        first: The system shown as the first, as codes.
        second: The other one.
        outcome: 1 where `first` was chosen, -1 where `second` was, 0 for a tie.
        cluster: The cluster of each choice, as codes.
        systems: Number of systems.

    Raises:
        OptionError: A system compared with itself.

    Example:
        >>> choices = choices_of_rows(np.array([1, 0]), np.array([0, 1]), np.array([1, 1]), np.array([0, 0]), 2)
        >>> choices.outcome.tolist()
        [-1, 1]
    """
    if (first == second).any():
        raise OptionError(f"system {int(first[first == second][0])} is compared with itself; leave such choices out")
    low, high = np.minimum(first, second), np.maximum(first, second)
    signed = np.where(first < second, outcome, -outcome).astype(np.int8)
    code = low.astype(np.int64) * systems + high
    order = np.argsort(code, kind="stable")
    found, starts = np.unique(code[order], return_index=True)
    pairs = np.column_stack([found // systems, found % systems]).astype(np.int64)
    ends = np.concatenate([starts, [len(code)]]).astype(np.int64)
    clusters = int(cluster.max()) + 1 if len(cluster) else 0
    return Choices(systems, clusters, pairs, ends, cluster[order].astype(np.int32), signed[order])


def choices_of_scores(scores: FloatArray, cluster: IntArray, margin: float = 0.0, *, ties: bool = True) -> Choices:
    """Compare the systems of each row in pairs: the higher score is chosen, within `margin` it is a tie.

    Rows are one annotator's answers on one item, or ballots (minus the ranks; 1 best, 0, -1 worst).

    Args:
        scores: Rows x systems, NaN = not shown.
        cluster: The cluster of each row, as codes.
        margin: Differences up to it are ties.
        ties: Whether equal scores are ties; otherwise they say nothing, as the middle ones of a best-worst ballot.

    Raises:
        OptionError: A negative margin.

    Example:
        >>> choices = choices_of_scores(np.array([[3.0, 1.0, np.nan], [2.0, 2.0, 5.0]]), np.array([0, 1]))
        >>> [(a, b, outcome.tolist()) for a, b, _, outcome in choices]
        [(0, 1, [1, 0]), (0, 2, [-1]), (1, 2, [-1])]
    """
    if not margin >= 0:
        raise OptionError(f"margin is {margin}; choose 0 or more, in points of the score")
    systems = scores.shape[1]
    pairs, parts, outcomes, sizes = [], [], [], [0]
    for first in range(systems):
        for second in range(first + 1, systems):
            gap = scores[:, first] - scores[:, second]
            limit = margin + _EQUAL * np.maximum(np.abs(scores[:, first]), np.abs(scores[:, second]))
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
    """Counts of choices: `wins[a, b]` times a was chosen over b, `ties[a, b]` times neither (symmetric)."""

    wins: IntArray
    ties: IntArray

    @property
    def compared(self) -> IntArray:
        """How often every two systems were compared."""
        return self.wins + self.wins.T + self.ties


def tally(choices: Choices) -> Tally:
    """Count wins and ties of every pair.

    Example:
        >>> tally(choices_of_scores(np.array([[3.0, 1.0], [2.0, 2.0]]), np.array([0, 1]))).wins
        array([[0, 1],
               [0, 0]])
    """
    wins = np.zeros((choices.systems, choices.systems), dtype=np.int64)
    ties = np.zeros_like(wins)
    for first, second, _, outcome in choices:
        wins[first, second] = np.count_nonzero(outcome == 1)
        wins[second, first] = np.count_nonzero(outcome == -1)
        ties[first, second] = ties[second, first] = np.count_nonzero(outcome == 0)
    return Tally(wins, ties)


def choices_of_system(choices: Choices, system: int) -> tuple[FloatArray, IntArray]:
    """Values (1 won, 1/2 tie, 0 lost) and clusters of all choices that a system took part in.

    Example:
        >>> choices = choices_of_scores(np.array([[3.0, 1.0, 2.0]]), np.array([0]))
        >>> choices_of_system(choices, 2)[0].tolist()
        [0.0, 1.0]
    """
    values, parts = [np.zeros(0)], [np.zeros(0, dtype=np.int64)]
    for first, second, cluster, outcome in choices:
        if system in (first, second):
            sign = 1.0 if system == first else -1.0
            values.append((1.0 + sign * outcome) / 2)
            parts.append(cluster.astype(np.int64))
    return np.concatenate(values), np.concatenate(parts)
