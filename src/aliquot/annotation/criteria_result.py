"""What `survey` returns for criteria: correlations and factors, and how they are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl

from aliquot.core.result import Result, frame_of
from aliquot.core.view import Column, View
from aliquot.core.written import format_fixed
from aliquot.stats.arrays import FloatArray
from aliquot.stats.factor_analysis import (
    Factors,
)


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
    """A criterion that was dropped from the factor analysis, and the reason."""

    criterion: str
    reason: str


@dataclass(frozen=True, eq=False)
class Criteria(Result):
    """The result of `survey` of kind `criteria`."""

    names: tuple[str, ...]  # the criteria
    rows: str  # a row is a judgment (one annotator on one output) or an output (mean over annotators)
    n: int  # rows
    complete: int  # rows with every criterion, which the factors are fitted on
    pairs: tuple[CriterionPair, ...]
    kmo: float  # Kaiser-Meyer-Olkin: below 0.5 factors make no sense, above 0.8 the criteria share much
    kmo_each: FloatArray
    eigenvalues: FloatArray  # of the correlations that factors can explain
    noise: FloatArray  # the same of random data (95th percentile)
    factors: Factors | None
    kept: tuple[str, ...]  # the criteria of the factors, in order
    dropped: tuple[DroppedCriterion, ...]
    chosen: str  # how the number of factors was found
    level: float
    notes: tuple[str, ...] = ()
    signature: str = ""

    def __repr__(self) -> str:
        number = 0 if self.factors is None else self.factors.loadings.shape[1]
        return f"Criteria({len(self.names)} criteria, {self.n} rows, {number} factors)"

    def to_frame(self, table: Literal["criteria", "pairs"] = "criteria") -> pl.DataFrame:
        """Return one row per criterion (adequacy, communality, loadings; null where it was dropped), or per pair."""
        if table == "pairs":
            return self.pairs_frame()
        fit = self.factors
        fitted = np.zeros((len(self.kept), 0)) if fit is None else np.column_stack([fit.communality, fit.loadings])
        numbers = np.full((len(self.names), max(1, fitted.shape[1])), np.nan)
        numbers[[self.names.index(name) for name in self.kept], : fitted.shape[1]] = fitted
        columns = ["communality", *(f"factor{k}" for k in range(1, numbers.shape[1]))]
        frame = pl.DataFrame({"criterion": self.names, "kmo": self.kmo_each}).hstack(pl.DataFrame(numbers, columns))
        return frame.with_columns(pl.selectors.float().fill_nan(None))

    def pairs_frame(self) -> pl.DataFrame:
        """One row per pair of criteria."""
        return frame_of(self.pairs, CriterionPair)

    def views(self) -> Sequence[View]:
        """Return the views `factors` and `pairs`; many pairs are a detail."""
        intro = f"{len(self.names)} criteria on {self.n} rows (one per {self.rows}); KMO {format_fixed(self.kmo, 2)}"
        is_detail = len(self.pairs) > MAX_PAIRS
        if is_detail:
            intro += f"\n{len(self.pairs)} pairs of criteria: see them with `pairs=True`"
        factors = View("factors", intro=(intro,)) if self.factors is None else _factor_view(self, self.factors, intro)
        columns = (
            Column("criterion", "a", "name"),
            Column("criterion", "b", "name"),
            Column("rows", "n", "count", rank=1),
            Column("r", "correlation", places=2),
            Column("interval", ("low", "high"), "interval", 2, rank=2),
        )
        title = f"correlations ({self.level:.0%} intervals over items)"
        return (factors, View("pairs", self.pairs, columns, title, detail=is_detail))

    def document(self) -> Mapping[str, Any]:
        """The fields, criteria and factors as tables of numbers."""
        fit = self.factors
        factors = fit and {
            "number": fit.loadings.shape[1],
            "chi2": fit.chi2,
            "df": fit.df,
            "p": fit.p_value,
            "variance": fit.variance,
            "correlation": fit.correlation,
            "converged": fit.converged,
            "promax": fit.promax,
        }
        shared = self.fields_without("names", "kmo_each", "kept", "factors")
        return {"kind": "criteria", "criteria": self.to_frame(), **shared, "factors": factors}


MAX_PAIRS = 12
"""Pairs of criteria that are shown without being asked for."""


def _factor_view(result: Criteria, fit: Factors, intro: str) -> View:
    """Loadings by criterion, then the factors' shares of variance and correlations."""
    number = fit.loadings.shape[1]
    names = [f"factor{place}" for place in range(1, number + 1)]
    p = Column("", kind="p").format_cell(fit.p_value)
    test = f"chi2 {fit.chi2:.2f} on {fit.df} df, p {p}" if fit.df else "no degree of freedom to test them"
    title = f"{number} factors ({result.chosen}; promax of {fit.promax.upper()}); {test}"
    dropped = {row.criterion: row.reason for row in result.dropped}
    rows = [
        row | {"criterion": row["criterion"] + " (dropped)" * (row["criterion"] in dropped)}
        for row in result.to_frame().iter_rows(named=True)
    ]
    empty = {"kmo": "", "communality": ""}
    rows.append({"criterion": "share of variance", **empty, **dict(zip(names, fit.variance.tolist(), strict=True))})
    for place in range(number if number > 1 else 0):
        correlations = dict(zip(names, fit.correlation[place].tolist(), strict=True))
        rows.append({"criterion": f"correlation with factor {place + 1}", **empty, **correlations})
    columns = (
        Column("criterion", kind="name"),
        Column("KMO", "kmo", places=2, rank=2),
        Column("communality", places=2, rank=1),
        *(Column(f"factor {place}", name, places=2) for place, name in enumerate(names, start=1)),
    )
    return View(
        "factors",
        rows,
        columns,
        title if number > 1 else f"1 factor ({result.chosen}); {test}",
        (intro,),
        "; ".join(f"dropped '{name}': {why}" for name, why in dropped.items()),
    )
