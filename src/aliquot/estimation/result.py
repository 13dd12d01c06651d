"""What `estimate` gives: every system with its uncertainty, every pair with its difference, one signature."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from aliquot.errors import unknown_name
from aliquot.stats.arrays import FloatArray


@dataclass(frozen=True)
class SystemEstimate:
    """One system: its estimated mean over the whole test set and how sure we are of it and of its rank.

    A system that was never judged has no rank, no cluster and no probability of being best.
    """

    system: str
    estimate: float
    se: float
    low: float
    high: float
    n: int
    effective_n: float
    proxy_correlation: float
    rank_low: int | None
    rank_high: int | None
    p_best: float
    cluster: int | None


@dataclass(frozen=True)
class PairEstimate:
    """Two systems, the better one first: their difference, and one-sided p-values that `a` is not better.

    `p_sample` says how sure the judged items are; `p_full` predicts what judging all items would say.
    """

    a: str
    b: str
    difference: float
    low: float
    high: float
    p_sample: float
    p_full: float


@dataclass(frozen=True, eq=False)
class Estimates:
    """The result of `estimate`: systems best first, pairs, joint covariance, and how it was made."""

    systems: tuple[SystemEstimate, ...]
    pairs: tuple[PairEstimate, ...]
    covariance: FloatArray
    method: str
    interval: str
    level: float
    population: int
    judged: int
    unbiased: bool
    target: str = "testset"
    variance: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    signature: str = ""

    def __getitem__(self, system: str) -> SystemEstimate:
        for row in self.systems:
            if row.system == system:
                return row
        raise unknown_name("system", system, [row.system for row in self.systems])

    def __repr__(self) -> str:
        best = self.systems[0].system if self.systems else "nobody"
        return f"Estimates({len(self.systems)} systems by {self.method}, {self.judged} items judged, best: {best})"

    def to_frame(self) -> pl.DataFrame:
        """One row per system, best first."""
        return pl.DataFrame([vars(row) for row in self.systems])

    def pairs_frame(self) -> pl.DataFrame:
        """One row per pair of systems, the better one first."""
        schema = None if self.pairs else dict.fromkeys(PairEstimate.__dataclass_fields__, pl.Float64)
        return pl.DataFrame([vars(row) for row in self.pairs], schema=schema)

    def to_dict(self) -> dict[str, Any]:
        """The JSON document of `estimate --json`; undefined numbers are null."""
        return {
            "systems": [_plain(row) for row in self.systems],
            "pairs": [_plain(row) for row in self.pairs],
            "method": self.method,
            "interval": self.interval,
            "level": self.level,
            "population": self.population,
            "judged": self.judged,
            "unbiased": self.unbiased,
            "target": self.target,
            "variance": {name: None if np.isnan(share) else share for name, share in self.variance.items()},
            "notes": list(self.notes),
            "mismatches": [vars(row) for row in self.details.get("mismatches", ())],
            "signature": self.signature,
        }


def _plain(row: SystemEstimate | PairEstimate) -> dict[str, Any]:
    return {k: None if isinstance(v, float) and np.isnan(v) else v for k, v in vars(row).items()}
