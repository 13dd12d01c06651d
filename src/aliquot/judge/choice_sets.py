"""Choices between named systems, and what hangs together among them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from aliquot.errors import unknown_name
from aliquot.judge.answers import group_codes
from aliquot.stats.arrays import FloatArray, IntArray
from aliquot.stats.choices import Choices

CLUSTERS = ("item", "annotator", "none")
"""What choices may be clustered by."""


@dataclass(frozen=True, eq=False)
class Preferences:
    """Choices between named systems.

    Attributes:
        systems: Names, the order of the codes in `choices`.
        choices: Who was chosen over whom, on which cluster.
        kind: pairwise, best-worst, ranking or scores.
        items: Number of items.
        annotators: Number of annotators; 0 where they are not named.
        first_won: For pairs shown side by side, 1 where the first was chosen, 0 the second, 1/2 for ties, ...
        first_cluster: ... and the cluster of each.
        shown: For best-worst ballots, how often each system was shown, best and worst: M x 3.
        notes: What was left out, merged or assumed.
        fingerprint: Of the data, for signatures.
        asked: How the choices were taken from it, for signatures.
    """

    systems: tuple[str, ...]
    choices: Choices
    kind: str
    items: int
    annotators: int
    first_won: FloatArray | None = None
    first_cluster: IntArray | None = None
    shown: IntArray | None = None
    notes: tuple[str, ...] = ()
    fingerprint: str = ""
    asked: tuple[tuple[str, object], ...] = ()


def cluster_codes(keys: pl.DataFrame, cluster: str) -> IntArray:
    """Codes of what hangs together: items, annotators (rows without one stand alone), or nothing.

    >>> cluster_codes(pl.DataFrame({"item": ["x", "y", "x"], "annotator": ["p", "p", "q"]}), "item").tolist()
    [0, 1, 0]
    """
    if cluster not in CLUSTERS:
        raise unknown_name("cluster", cluster, CLUSTERS, "check --cluster")
    rows = np.arange(keys.height)
    if cluster == "none":
        return rows
    codes = group_codes(keys, [cluster])
    if cluster == "annotator" and keys["annotator"].null_count():
        alone = keys["annotator"].is_null().to_numpy()
        codes = np.unique(np.where(alone, keys.height + rows, codes), return_inverse=True)[1].astype(np.int64)
    return codes


def annotator_notes(keys: pl.DataFrame) -> list[str]:
    """Say what the number of annotators means for the result."""
    named = keys["annotator"].drop_nulls().n_unique()
    if not named:
        return ["no annotators are named: every row counts as an answer of its own"]
    return ["one annotator: the intervals say nothing about how others would choose"] if named == 1 else []
