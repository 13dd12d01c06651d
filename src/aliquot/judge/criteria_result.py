"""What `compare --kind criteria` gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from aliquot.judge.comparison import frame_of_rows, none_if_nan, plain
from aliquot.stats.arrays import FloatArray
from aliquot.stats.factors import Factors


@dataclass(frozen=True)
class CriterionPair:
    """Two criteria and their correlation over rows that have both, with a bootstrap interval over items."""

    a: str
    b: str
    n: int
    correlation: float
    low: float
    high: float


@dataclass(frozen=True)
class DroppedCriterion:
    """A criterion that left the factor analysis, and why."""

    criterion: str
    reason: str


@dataclass(frozen=True, eq=False)
class Criteria:
    """The result of `compare --kind criteria`.

    Attributes:
        names: The criteria.
        rows: What a row is: a judgment (one annotator on one output) or an output (mean over annotators).
        n: Rows; complete: those with every criterion, which the factors are fitted on.
        pairs: Every two criteria.
        kmo, kmo_each: Kaiser-Meyer-Olkin: below 0.5 factors make no sense, above 0.8 the criteria share much.
        eigenvalues, noise: Of the correlations that factors can explain, and those of random data (95th percentile).
        factors: The solution, or None; `kept` are its criteria in order; `dropped` those that went.
        chosen: How the number of factors was found.
    """

    names: tuple[str, ...]
    rows: str
    n: int
    complete: int
    pairs: tuple[CriterionPair, ...]
    kmo: float
    kmo_each: FloatArray
    eigenvalues: FloatArray
    noise: FloatArray
    factors: Factors | None
    kept: tuple[str, ...]
    dropped: tuple[DroppedCriterion, ...]
    chosen: str
    level: float
    notes: tuple[str, ...] = ()
    signature: str = ""

    def __repr__(self) -> str:
        number = 0 if self.factors is None else self.factors.loadings.shape[1]
        return f"Criteria({len(self.names)} criteria, {self.n} rows, {number} factors)"

    def to_frame(self) -> pl.DataFrame:
        """One row per criterion: its adequacy, communality, and loading on each factor (null where it was dropped)."""
        place = {name: at for at, name in enumerate(self.kept)}
        number = 0 if self.factors is None else self.factors.loadings.shape[1]
        rows = []
        for at, name in enumerate(self.names):
            row: dict[str, Any] = {"criterion": name, "kmo": none_if_nan(float(self.kmo_each[at])), "communality": None}
            row |= {f"factor{k + 1}": None for k in range(number)}
            if self.factors is not None and name in place:
                row["communality"] = float(self.factors.communality[place[name]])
                row |= {f"factor{k + 1}": float(self.factors.loadings[place[name], k]) for k in range(number)}
            rows.append(row)
        numbers = ["kmo", "communality", *(f"factor{k + 1}" for k in range(number))]
        return pl.DataFrame(rows, schema={"criterion": pl.String, **dict.fromkeys(numbers, pl.Float64)})

    def pairs_frame(self) -> pl.DataFrame:
        """One row per pair of criteria."""
        return frame_of_rows(self.pairs, CriterionPair)

    def to_dict(self) -> dict[str, Any]:
        """The JSON document; undefined numbers are null."""
        return {
            "kind": "criteria",
            "criteria": self.to_frame().to_dicts(),
            "pairs": [plain(row) for row in self.pairs],
            "rows": self.rows,
            "n": self.n,
            "complete": self.complete,
            "kmo": none_if_nan(self.kmo),
            "eigenvalues": self.eigenvalues.tolist(),
            "noise": self.noise.tolist(),
            "factors": None if self.factors is None else _fit_document(self.factors),
            "chosen": self.chosen,
            "dropped": [vars(row) for row in self.dropped],
            "level": self.level,
            "notes": list(self.notes),
            "signature": self.signature,
        }


def _fit_document(fit: Factors) -> dict[str, Any]:
    return {
        "number": fit.loadings.shape[1], "chi2": none_if_nan(fit.chi2), "df": fit.df, "p": none_if_nan(fit.p_value),
        "variance": fit.variance.tolist(), "correlation": fit.correlation.tolist(), "converged": fit.converged,
    }  # fmt: skip
