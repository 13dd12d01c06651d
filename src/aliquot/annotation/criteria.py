"""Do the criteria measure different things? Correlations, sampling adequacy, factors, and what does not fit them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import polars as pl

from aliquot.annotation.choice_tables import digest_table, number_columns
from aliquot.annotation.judgment_rows import OPEN, group_codes, judgment_rows, judgments_of
from aliquot.core.evalset import EvalSet
from aliquot.core.judgments import Judgments
from aliquot.core.result import Result, frame_of, signature
from aliquot.core.view import Column, View
from aliquot.core.written import fixed
from aliquot.errors import DataError, OptionError, quoted, unknown_name
from aliquot.io.formats.table_columns import map_columns
from aliquot.stats.arrays import FloatArray, IntArray, Seed, overflow_scale
from aliquot.stats.factor_analysis import (
    PROMAX_TARGETS,
    CorrelationMatrix,
    DroppedVariable,
    Factors,
    ParallelAnalysis,
    correlation_matrix,
    find_worst_variable,
    kmo,
    max_factors,
    ml_factors,
    parallel_analysis,
    simple_structure,
)
from aliquot.validation import one_of


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
        intro = f"{len(self.names)} criteria on {self.n} rows (one per {self.rows}); KMO {fixed(self.kmo, 2)}"
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
    """Loadings by criterion; below them the factors' shares of variance and correlations."""
    number = fit.loadings.shape[1]
    names = [f"factor{place}" for place in range(1, number + 1)]
    p = Column("", kind="p").cell(fit.p_value)
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


ROWS = ("judgment", "output")
CORRELATIONS = ("pearson", "spearman")
_SINGULAR = 1e-10
_FEW = 10
"""Rows per criterion below which factors are not to be trusted."""


@dataclass(frozen=True, eq=False)
class _Table:
    """Rows x criteria with the item of each row, as codes."""

    names: tuple[str, ...]
    values: FloatArray
    item: IntArray
    digest: str


def criteria(
    data: EvalSet | Judgments | pl.DataFrame,
    *,
    only: Sequence[str] | None = None,
    rows: str = "judgment",
    correlation: str = "pearson",
    factors: int | None = None,
    gap: float = 0.2,
    communality: float = 0.2,
    promax: str = "r",
    drop: bool = True,
    level: float = 0.95,
    draws: int = 1000,
    flip: Sequence[str] = (),
    scale: tuple[float, float] | None = None,
    seed: Seed = 0,
    where: str = "table",
) -> Criteria:
    """Ask whether criteria (fluency, coherence, antonym pairs) measure different things.

    Args:
        data: Judgments with criteria, or a table with one column of numbers per criterion (and item, annotator,
            system).
        only: These criteria; at least two.
        rows: judgment (one annotator on one output) or output (means over annotators).
        correlation: pearson or spearman.
        factors: Their number; None finds it by parallel analysis, 0 fits none.
        gap: Drop a criterion whose two highest loadings differ by less.
        communality: Drop a criterion of which the factors explain less.
        promax: Rotate several factors as R's promax does (r), or as SPSS does (spss).
        drop: Whether to drop criteria at all.
        level: Coverage of the intervals of correlations.
        draws: Bootstrap draws over items.
        flip: Criteria whose poles are the other way round (unclear - clear); their values are turned.
        scale: Ends of the scale, for judgments with a column `polarity`: those marked reversed (-1, reversed, true)
            were shown with exchanged poles and are turned; by default the lowest and the highest value.
        seed: Of bootstrap and parallel analysis.

    >>> import aliquot
    >>> rng = np.random.default_rng(1)
    >>> shared = rng.normal(size=(300, 1))
    >>> table = pl.DataFrame(shared + rng.normal(size=(300, 4)), schema=["a", "b", "c", "d"])
    >>> result = criteria(table.with_row_index("item"), seed=1)
    >>> result.factors.df, round(result.kmo, 1)
    (2, 0.8)
    """
    one_of("rows", rows, ROWS)
    one_of("correlation", correlation, CORRELATIONS)
    one_of("promax", promax, PROMAX_TARGETS)
    data, turned = _upright(data, scale, where)
    table = _flipped(_chosen(_read(data, rows, where), only), flip)
    # What follows are correlations: the unit of the values does not matter.
    found = correlation_matrix(
        table.values / overflow_scale(table.values),
        table.item,
        spearman=correlation == "spearman",
        level=level,
        draws=draws,
        seed=seed,
    )
    usable, notes = _fit_for_factors(found, table.names)
    square = found.complete[np.ix_(usable, usable)]
    overall, single = kmo(square)
    number, parallel, chosen = _number(square, found.n_complete, factors, seed)
    fit, left, gone = _fitted(square, found.n_complete, number, gap, communality, promax, drop=drop)
    names = [table.names[at] for at in usable]
    each = np.full(len(table.names), np.nan)
    each[usable] = single
    return Criteria(
        names=table.names,
        rows=rows,
        n=len(table.values),
        complete=found.n_complete,
        pairs=_pair_rows(table.names, found),
        kmo=overall,
        kmo_each=each,
        eigenvalues=parallel.eigenvalues,
        noise=parallel.noise,
        factors=fit,
        kept=tuple(names[at] for at in left),
        dropped=tuple(DroppedCriterion(names[row.variable], row.reason) for row in gone),
        chosen=chosen,
        level=level,
        notes=(
            *turned,
            *notes,
            *_reversed(fit, names, left),
            *_notes(found, fit, names, left, chosen, factors),
            *_misfit(fit, names, left, gap, communality),
        ),
        signature=signature(
            "compare:criteria",
            only=",".join(only) if only else None,
            rows=rows,
            correlation=correlation,
            factors=number,
            gap=gap,
            communality=communality,
            promax=None if promax == "r" else promax,
            drop=None if drop else "no",
            level=level,
            draws=draws,
            flip=",".join(flip) or None,
            scale=None if scale is None else f"{scale[0]:g}:{scale[1]:g}",
            seed=seed if isinstance(seed, int) else None,
            data=table.digest,
        ),
    )


# -- the table -----------------------------------------------------------------------------------------------------


def _read(data: EvalSet | Judgments | pl.DataFrame, rows: str, where: str) -> _Table:
    if isinstance(data, pl.DataFrame) and not {"criterion", "value"} <= set(map(str.casefold, data.columns)):
        return _wide(data, rows, where)
    if isinstance(data, pl.DataFrame):
        data = data.rename({name: name.casefold() for name in data.columns})
    judgments = judgments_of(data)
    if len(judgments.criteria) < 2:
        raise DataError(f"{where}: the judgments name fewer than two criteria; there is nothing to compare")
    answers = judgment_rows(judgments).table.filter(
        OPEN & pl.col("control").is_null() & pl.col("criterion").is_not_null()
    )
    by = ["item", "system", "annotator"] if rows == "judgment" else ["item", "system"]
    wide = answers.pivot("criterion", index=by, values="value", aggregate_function="mean", maintain_order=True)
    digest = data.fingerprint if isinstance(data, EvalSet) else digest_table(judgments.table)
    return _Table(
        names=tuple(judgments.criteria),
        values=wide.select(judgments.criteria).cast(pl.Float64).fill_null(np.nan).to_numpy(),
        item=group_codes(wide, ["item"]),
        digest=digest,
    )


def _wide(frame: pl.DataFrame, rows: str, where: str) -> _Table:
    """One column per criterion: every column of numbers that plays no other role."""
    roles = map_columns(frame.columns, None, where)
    keys = [roles[role] for role in ("item", "system", "annotator") if role in roles]
    apart = [name for role, name in roles.items() if role not in ("value", "cost")]
    columns = number_columns(frame, apart, where)
    if len(columns) < 2:
        raise DataError(
            f"{where}: fewer than two columns hold numbers; give judgments with criteria, or one column for each"
        )
    values, table = np.column_stack(list(columns.values())), frame
    if rows == "output" and keys:
        by = [name for name in keys if name != roles.get("annotator")]
        grouped = frame.select(by).with_columns(pl.Series(name, v, nan_to_null=True) for name, v in columns.items())
        table = grouped.group_by(by, maintain_order=True).agg(pl.col(*columns).mean())
        values = table.select(*columns).fill_null(np.nan).to_numpy()
    item = group_codes(table, [roles["item"]]) if "item" in roles else np.arange(len(values))
    return _Table(tuple(columns), values, item, digest_table(frame))


def _chosen(table: _Table, only: Sequence[str] | None) -> _Table:
    if only is None:
        return table
    for name in only:
        if name not in table.names:
            raise unknown_name("criterion", name, table.names, "check `only`")
    if len(only) < 2:
        raise OptionError("criteria are compared with each other: name at least two")
    columns = [table.names.index(name) for name in only]
    return _Table(tuple(only), table.values[:, columns], table.item, table.digest)


_REVERSED = ("-1", "-1.0", "reversed", "flipped", "true", "yes", "-")


def _upright(
    data: EvalSet | Judgments | pl.DataFrame, scale: tuple[float, float] | None, where: str
) -> tuple[EvalSet | Judgments | pl.DataFrame, list[str]]:
    """Turn the judgments that were given with exchanged poles, as their column `polarity` says."""
    table = data if isinstance(data, pl.DataFrame) else judgments_of(data).table
    if not {"polarity", "value"} <= set(table.columns):
        return data, []
    value = pl.col("value").cast(pl.Float64)
    turned = pl.col("polarity").cast(pl.String).str.strip_chars().str.to_lowercase().is_in(_REVERSED).fill_null(False)
    known = table["value"].cast(pl.Float64).drop_nulls()
    if not len(known) or not table.select(turned.any()).item():
        return data, []
    seen = known.to_numpy()
    least, most = float(seen.min()), float(seen.max())
    low, high = scale or (least, most)
    if least < low or most > high:
        raise DataError(f"{where}: values go from {least:g} to {most:g}, outside the scale {low:g}:{high:g}")
    note = (
        f"{table.select(turned.sum()).item()} judgments with reversed poles are turned on the scale {low:g} to {high:g}"
    )
    upright = table.with_columns(pl.when(turned).then(low + high - value).otherwise(value).alias("value"))
    if isinstance(data, pl.DataFrame):
        return upright, [note]
    judgments = Judgments(upright)
    return replace(data, judgments=judgments) if isinstance(data, EvalSet) else judgments, [note]


def _flipped(table: _Table, flip: Sequence[str]) -> _Table:
    for name in flip:
        if name not in table.names:
            raise unknown_name("criterion", name, table.names, "check `flip`")
    sign = np.array([-1.0 if name in flip else 1.0 for name in table.names])
    return replace(table, values=table.values * sign)


def _reversed(fit: Factors | None, names: Sequence[str], left: IntArray) -> list[str]:
    """Name criteria that load negatively on their factor: their poles seem to be the other way round."""
    if fit is None:
        return []
    strongest = np.abs(fit.loadings).argmax(axis=1)
    against = fit.loadings[np.arange(len(strongest)), strongest] < 0
    found = [names[left[at]] for at in np.flatnonzero(against)]
    return [f"the poles of {quoted(found)} are against the others of their factor; `flip` turns them"] if found else []


# -- factors -------------------------------------------------------------------------------------------------------


def _fit_for_factors(found: CorrelationMatrix, names: Sequence[str]) -> tuple[IntArray, list[str]]:
    """Criteria whose correlations are all known: a constant one has none."""
    known = np.isfinite(found.complete)
    constant = ~np.diag(known)
    notes = [
        f"'{names[at]}' is constant where all criteria are given: left out of the factors"
        for at in np.flatnonzero(constant).tolist()
    ]
    return np.flatnonzero(~constant), notes if found.n_complete > 1 else []


def _number(square: FloatArray, n: int, factors: int | None, seed: Seed) -> tuple[int, ParallelAnalysis, str]:
    """How many factors to fit, what noise would show, and how that was found."""
    most = max_factors(len(square))
    if factors is not None and not 0 <= factors <= most:
        raise OptionError(f"factors is {factors}; {len(square)} criteria allow 0 to {most}")
    if len(square) < 3 or n <= len(square) + 1 or np.linalg.eigvalsh(square)[0] < _SINGULAR:
        return (
            0,
            ParallelAnalysis(0, np.zeros(0), np.zeros(0)),
            "too few criteria or rows, or one is determined by the others",
        )
    parallel = parallel_analysis(square, n, seed=seed)
    if factors is not None:
        return factors, parallel, f"as asked (parallel analysis: {parallel.number})"
    if parallel.number > most:
        return most, parallel, f"parallel analysis finds {parallel.number}, and {len(square)} criteria allow {most}"
    return parallel.number, parallel, "by parallel analysis"


def _fitted(
    square: FloatArray, n: int, number: int, gap: float, communality: float, promax: str, *, drop: bool
) -> tuple[Factors | None, IntArray, tuple[DroppedVariable, ...]]:
    everything = np.arange(len(square))
    if not number:
        return None, everything, ()
    if not drop:
        return ml_factors(square, n, number, rotation=promax), everything, ()
    return simple_structure(square, n, number, gap=gap, communality=communality, rotation=promax)


def _notes(
    found: CorrelationMatrix, fit: Factors | None, names: Sequence[str], left: IntArray, chosen: str, asked: int | None
) -> list[str]:
    lacking, n = found.n - found.n_complete, found.n_complete
    notes = [f"{lacking} of {found.n} rows lack a criterion: factors are fitted on the others"] if lacking else []
    if fit is None:
        noise = "the criteria have no more in common than noise has"
        return notes + [f"no factors: {noise if chosen == 'by parallel analysis' else chosen}"] * (asked != 0)
    if n < _FEW * len(names):
        notes.append(f"{n} complete rows are few for {len(names)} criteria; interpret the factors with caution")
    if fit.df == 0:
        notes.append("the factors have no degree of freedom left: they fit any data, and cannot be tested")
    if fit.heywood:
        full = ", ".join(f"'{names[left[at]]}'" for at in fit.heywood)
        notes.append(
            f"{full} seems to be explained completely (a Heywood case): fewer factors, or more rows, are needed"
        )
    if not fit.converged:
        notes.append("the likelihood's maximum was not found; interpret the loadings with caution")
    return notes


def _misfit(fit: Factors | None, names: Sequence[str], left: IntArray, gap: float, communality: float) -> list[str]:
    """Name what fits badly and was kept, because it was asked for or too little would have been left."""
    worst = None if fit is None else find_worst_variable(fit, gap, communality)
    return [] if worst is None else [f"'{names[left[worst.variable]]}' fits badly ({worst.reason}) and was kept"]


def _pair_rows(names: Sequence[str], found: CorrelationMatrix) -> tuple[CriterionPair, ...]:
    return tuple(
        CriterionPair(
            names[a],
            names[b],
            int(found.count[a, b]),
            float(found.value[a, b]),
            float(found.low[a, b]),
            float(found.high[a, b]),
        )
        for a in range(len(names))
        for b in range(a + 1, len(names))
    )
