"""Who was compared with whom: counts of pairs, connected parts, and whether finite scores fit best."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

from aliquot.stats.arrays import BoolArray, FloatArray, IntArray
from aliquot.stats.choices import Choices


@dataclass(frozen=True, eq=False)
class PairCounts:
    """Wins of first and second and ties of each pair, as numbers that need not be whole."""

    first: IntArray
    second: IntArray
    won: FloatArray
    lost: FloatArray
    tied: FloatArray

    def with_prior(self, prior: float) -> PairCounts:
        """Add so many choices to every pair, half of them won by either side."""
        return PairCounts(self.first, self.second, self.won + prior / 2, self.lost + prior / 2, self.tied)


def counted(choices: Choices) -> PairCounts:
    """Count the outcomes of every pair that was compared."""
    number = len(choices.pairs)
    won, lost, tied = np.zeros(number), np.zeros(number), np.zeros(number)
    for k, (_, _, _, outcome) in enumerate(choices):
        won[k], lost[k] = np.count_nonzero(outcome == 1), np.count_nonzero(outcome == -1)
        tied[k] = len(outcome) - won[k] - lost[k]
    return PairCounts(choices.pairs[:, 0], choices.pairs[:, 1], won, lost, tied)


def components(counts: PairCounts, systems: int) -> IntArray:
    """Number the connected parts by their first system."""
    edges = csr_matrix((np.ones(len(counts.first)), (counts.first, counts.second)), shape=(systems, systems))
    return np.asarray(connected_components(edges, directed=False)[1], dtype=np.int64)


def has_maximum(counts: PairCounts, systems: int, *, davidson: bool = False) -> bool:
    """Tell whether finite scores maximise the likelihood (Ford 1957).

    They do where, within each connected part, every system reaches every other by a chain of wins. A tie counts as half
    a win of each, so it links both ways. Davidson's model could still let ties and scores grow together, unless some
    pair was decided both ways.
    """
    if davidson and not ((counts.won > 0) & (counts.lost > 0)).any():
        return False
    up, down = counts.won + counts.tied > 0, counts.lost + counts.tied > 0
    rows = np.concatenate([counts.first[up], counts.second[down]])
    columns = np.concatenate([counts.second[up], counts.first[down]])
    wins = csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(systems, systems))
    strong = connected_components(wins, directed=True, connection="strong")[0]
    weak = connected_components(wins, directed=False)[0]
    return bool(strong == weak)


def unseen_systems(counts: PairCounts, systems: int, df: float) -> BoolArray:
    """Systems whose uncertainty cannot be seen: never decided for or against, or all in one cluster."""
    decided = counts.won + counts.lost
    seen = np.zeros(systems)
    np.add.at(seen, counts.first, decided)
    np.add.at(seen, counts.second, decided)
    return np.asarray((seen == 0) | (df < 1), dtype=np.bool_)


def has_maximum_of_all(counts: PairCounts, systems: int, component: IntArray, *, davidson: bool = False) -> bool:
    """Tell whether a resample has a maximum and keeps every component of the data in one part."""
    there = counts.won + counts.lost + counts.tied > 0
    kept = PairCounts(
        counts.first[there], counts.second[there], counts.won[there], counts.lost[there], counts.tied[there]
    )
    whole = len(np.unique(components(kept, systems))) == len(np.unique(component))
    return whole and has_maximum(kept, systems, davidson=davidson)
