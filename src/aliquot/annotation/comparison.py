"""What `compare` gives for preferences: systems with win rates and scores, pairs with tests, one signature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import polars as pl

from aliquot.errors import unknown_name


class Result(Protocol):
    """What every kind of comparison gives."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out, merged or assumed."""

    @property
    def signature(self) -> str:
        """The line that reproduces it."""

    def to_frame(self) -> pl.DataFrame:
        """The main table."""

    def to_dict(self) -> dict[str, Any]:
        """The JSON document."""


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
    of those choices, ties left out; `p` the sign test over clusters; `p_holm` the latter, corrected for the number of
    pairs.
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
class Comparison:
    """The result of `compare` for choices, ballots and scores."""

    systems: tuple[SystemPreference, ...]
    pairs: tuple[PairPreference, ...]
    kind: str
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
        for row in self.systems:
            if row.system == system:
                return row
        raise unknown_name("system", system, [row.system for row in self.systems])

    def pair(self, a: str, b: str) -> PairPreference:
        """Return what is known of two systems, in whichever order they are named."""
        for row in self.pairs:
            if {row.a, row.b} == {a, b}:
                return row
        raise unknown_name("pair", f"{a} and {b}", [f"{row.a} and {row.b}" for row in self.pairs])

    def __repr__(self) -> str:
        first = self.systems[0].system if self.systems else "nobody"
        return f"Comparison({len(self.systems)} systems, {self.choices} choices on {self.items} items, first: {first})"

    def to_frame(self) -> pl.DataFrame:
        """One row per system, best first."""
        return frame_of_rows(self.systems, SystemPreference)

    def pairs_frame(self) -> pl.DataFrame:
        """One row per pair that was compared."""
        return frame_of_rows(self.pairs, PairPreference)

    def to_dict(self) -> dict[str, Any]:
        """The JSON document of `compare --json`; undefined numbers are null."""
        return {
            "kind": self.kind,
            "systems": [plain(row) for row in self.systems],
            "pairs": [plain(row) for row in self.pairs],
            "choices": self.choices,
            "items": self.items,
            "annotators": self.annotators,
            "clusters": self.clusters,
            "ties": self.ties,
            "tie_parameter": none_if_nan(self.tie_parameter),
            "interval": self.interval,
            "level": self.level,
            "prior": self.prior,
            "position": None if self.position is None else plain(self.position),
            "notes": list(self.notes),
            "signature": self.signature,
        }


_TYPES: Mapping[str, pl.DataType] = {"int": pl.Int64(), "float": pl.Float64(), "str": pl.String()}


def frame_of_rows(rows: Sequence[Any], kind: type) -> pl.DataFrame:
    """Make a table of dataclass instances, with its columns even where there is none."""
    schema = {name: _TYPES[str(field.type)] for name, field in kind.__dataclass_fields__.items()}  # type: ignore[attr-defined]
    return pl.DataFrame([vars(row) for row in rows], schema=schema)


def none_if_nan(value: float) -> float | None:
    """Return null for a number that is not defined.

    >>> none_if_nan(float("nan")), none_if_nan(1.0)
    (None, 1.0)
    """
    return value if np.isfinite(value) else None


def plain(row: Any) -> dict[str, Any]:
    """Return a row as a JSON object; undefined numbers are null."""
    return {k: none_if_nan(v) if isinstance(v, float) else v for k, v in vars(row).items()}
