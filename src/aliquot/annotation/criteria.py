"""Do the criteria measure different things? Correlations, sampling adequacy, factors, and what does not fit them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
import polars as pl

from aliquot.annotation.criteria_result import Criteria, CriterionPair, DroppedCriterion
from aliquot.annotation.criterion_ratings import (
    ROWS,
    RatingRow,
    choose_criteria,
    flip_criteria,
    read_ratings,
    turn_by_polarity,
)
from aliquot.core.evalset import EvalSet
from aliquot.core.judgments import Judgments
from aliquot.core.result import make_signature
from aliquot.errors import OptionError, quoted
from aliquot.stats.arrays import FloatArray, IntArray, Seed, overflow_scale
from aliquot.stats.factor_analysis import (
    PROMAX_TARGETS,
    CorrelationMatrix,
    DroppedVariable,
    Factors,
    ParallelAnalysis,
    PromaxTarget,
    correlation_matrix,
    find_worst_variable,
    kmo,
    max_factors,
    ml_factors,
    parallel_analysis,
    simple_structure,
)
from aliquot.validation import one_of

Correlation = Literal["pearson", "spearman"]
CORRELATIONS: tuple[Correlation, ...] = get_args(Correlation)
_MIN_EIGENVALUE = 1e-10
_MIN_ROWS_PER_CRITERION = 10
"""Rows per criterion below which factors are not to be trusted."""


def analyse_criteria(
    data: EvalSet | Judgments | pl.DataFrame,
    *,
    only: Sequence[str] | None = None,
    rows: RatingRow = "judgment",
    correlation: Correlation = "pearson",
    factors: int | None = None,
    gap: float = 0.2,
    communality: float = 0.2,
    promax: PromaxTarget = "r",
    drop: bool = True,
    level: float = 0.95,
    draws: int = 1000,
    flip: Sequence[str] = (),
    scale: tuple[float, float] | None = None,
    seed: Seed = 0,
    where: str = "table",
) -> Criteria:
    """Analyse whether criteria (fluency, coherence, antonym pairs) measure different things.

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
    >>> result = analyse_criteria(table.with_row_index("item"), seed=1)
    >>> result.factors.df, round(result.kmo, 1)
    (2, 0.8)
    """
    one_of("rows", rows, ROWS)
    one_of("correlation", correlation, CORRELATIONS)
    one_of("promax", promax, PROMAX_TARGETS)
    data, turned = turn_by_polarity(data, scale, where)
    table = flip_criteria(choose_criteria(read_ratings(data, rows, where), only), flip)
    # What follows are correlations: the unit of the values does not matter.
    correlations = correlation_matrix(
        table.values / overflow_scale(table.values),
        table.item,
        spearman=correlation == "spearman",
        level=level,
        draws=draws,
        seed=seed,
    )
    usable, notes = _select_varying(correlations, table.names)
    square = correlations.complete[np.ix_(usable, usable)]
    overall, single = kmo(square)
    number, parallel, chosen = _choose_factor_count(square, correlations.n_complete, factors, seed)
    fit, retained, dropped = _fit_factors(square, correlations.n_complete, number, gap, communality, promax, drop=drop)
    names = [table.names[index] for index in usable]
    each = np.full(len(table.names), np.nan)
    each[usable] = single
    return Criteria(
        names=table.names,
        rows=rows,
        n=len(table.values),
        complete=correlations.n_complete,
        pairs=_correlation_rows(table.names, correlations),
        kmo=overall,
        kmo_each=each,
        eigenvalues=parallel.eigenvalues,
        noise=parallel.noise,
        factors=fit,
        kept=tuple(names[index] for index in retained),
        dropped=tuple(DroppedCriterion(names[row.variable], row.reason) for row in dropped),
        chosen=chosen,
        level=level,
        notes=(
            *turned,
            *notes,
            *_reversed_pole_notes(fit, names, retained),
            *_factor_notes(correlations, fit, names, retained, chosen, factors),
            *_misfit_notes(fit, names, retained, gap, communality),
        ),
        signature=make_signature(
            "survey:criteria",
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


def _reversed_pole_notes(fit: Factors | None, names: Sequence[str], retained: IntArray) -> list[str]:
    """Return a note on criteria that load negatively on their factor: their poles may be reversed."""
    if fit is None:
        return []
    strongest = np.abs(fit.loadings).argmax(axis=1)
    is_negative = fit.loadings[np.arange(len(strongest)), strongest] < 0
    against_others = [names[retained[index]] for index in np.flatnonzero(is_negative)]
    return (
        [f"the poles of {quoted(against_others)} are against the others of their factor; `flip` turns them"]
        if against_others
        else []
    )


def _select_varying(correlations: CorrelationMatrix, names: Sequence[str]) -> tuple[IntArray, list[str]]:
    """Return the criteria that vary, and notes on constant ones."""
    is_known = np.isfinite(correlations.complete)
    constant = ~np.diag(is_known)
    notes = [
        f"'{names[index]}' is constant where all criteria are given: left out of the factors"
        for index in np.flatnonzero(constant).tolist()
    ]
    return np.flatnonzero(~constant), notes if correlations.n_complete > 1 else []


def _choose_factor_count(
    square: FloatArray, n: int, factors: int | None, seed: Seed
) -> tuple[int, ParallelAnalysis, str]:
    """Return the number of factors, the parallel analysis, and how the number was chosen."""
    max_count = max_factors(len(square))
    if factors is not None and not 0 <= factors <= max_count:
        raise OptionError(f"`factors` is {factors}; {len(square)} criteria allow 0 to {max_count}")
    if len(square) < 3 or n <= len(square) + 1 or np.linalg.eigvalsh(square)[0] < _MIN_EIGENVALUE:
        return (
            0,
            ParallelAnalysis(0, np.zeros(0), np.zeros(0)),
            "too few criteria or rows, or one is determined by the others",
        )
    parallel = parallel_analysis(square, n, seed=seed)
    if factors is not None:
        return factors, parallel, f"as asked (parallel analysis: {parallel.number})"
    if parallel.number > max_count:
        return (
            max_count,
            parallel,
            f"parallel analysis finds {parallel.number}, and {len(square)} criteria allow {max_count}",
        )
    return parallel.number, parallel, "by parallel analysis"


def _fit_factors(
    square: FloatArray, n: int, number: int, gap: float, communality: float, promax: PromaxTarget, *, drop: bool
) -> tuple[Factors | None, IntArray, tuple[DroppedVariable, ...]]:
    everything = np.arange(len(square))
    if not number:
        return None, everything, ()
    if not drop:
        return ml_factors(square, n, number, rotation=promax), everything, ()
    return simple_structure(square, n, number, gap=gap, communality=communality, rotation=promax)


def _factor_notes(
    correlations: CorrelationMatrix,
    fit: Factors | None,
    names: Sequence[str],
    retained: IntArray,
    chosen: str,
    requested: int | None,
) -> list[str]:
    lacking, n = correlations.n - correlations.n_complete, correlations.n_complete
    notes = (
        [f"{lacking} of {correlations.n} rows lack a criterion: factors are fitted on the others"] if lacking else []
    )
    if fit is None:
        noise = "the criteria have no more in common than noise has"
        return notes + [f"no factors: {noise if chosen == 'by parallel analysis' else chosen}"] * (requested != 0)
    if n < _MIN_ROWS_PER_CRITERION * len(names):
        notes.append(f"{n} complete rows are few for {len(names)} criteria; interpret the factors with caution")
    if fit.df == 0:
        notes.append("the factors have no degree of freedom left: they fit any data, and cannot be tested")
    if fit.heywood:
        full = ", ".join(f"'{names[retained[index]]}'" for index in fit.heywood)
        notes.append(
            f"{full} seems to be explained completely (a Heywood case): fewer factors, or more rows, are needed"
        )
    if not fit.converged:
        notes.append("the likelihood's maximum was not found; interpret the loadings with caution")
    return notes


def _misfit_notes(
    fit: Factors | None, names: Sequence[str], retained: IntArray, gap: float, communality: float
) -> list[str]:
    """Return a note on a criterion that fits badly but was kept."""
    worst = None if fit is None else find_worst_variable(fit, gap, communality)
    return [] if worst is None else [f"'{names[retained[worst.variable]]}' fits badly ({worst.reason}) and was kept"]


def _correlation_rows(names: Sequence[str], correlations: CorrelationMatrix) -> tuple[CriterionPair, ...]:
    return tuple(
        CriterionPair(
            names[a],
            names[b],
            int(correlations.count[a, b]),
            float(correlations.value[a, b]),
            float(correlations.low[a, b]),
            float(correlations.high[a, b]),
        )
        for a in range(len(names))
        for b in range(a + 1, len(names))
    )
