"""Bringing data, selection and judgments together, and telling in one table what does not fit."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from aliquot.core.evalset import EvalSet, at_rows
from aliquot.core.judgments import MARKED, Judgments
from aliquot.core.registry import Spec
from aliquot.core.selection import Selection
from aliquot.errors import AliquotWarning, DataError, OptionError
from aliquot.io.inputs import JudgmentsLike, as_judgments
from aliquot.stats.arrays import FloatArray

# -- Bringing data, selection and judgments together, and telling in one table what does not fit ---------------------


HUMAN = "human"
_LEFT_OUT_BY_CLEAN = "judgments marked by clean"


@dataclass(frozen=True)
class Mismatch:
    """One kind of thing that does not fit: what, how often, an example, and what was done about it."""

    what: str
    count: int
    example: str
    action: str


def with_judgments(
    data: EvalSet, judgments: JudgmentsLike, selection: Selection | None = None, human: str | None = None
) -> tuple[EvalSet, tuple[Mismatch, ...]]:
    """Return the data with the judgments' cell means as human score, and what did not fit.

    Judgments of unknown items or systems are left out, those outside the selection too (their items had no chance) and
    those that are marked; several judgments of an output are averaged; the same annotator's repeated judgments are
    averaged first.
    """
    table = as_judgments(judgments).table
    id_type = data.items["id"].dtype
    table = table.with_columns(pl.col("item").cast(pl.String).alias("_key"))
    known_items = pl.DataFrame({"_key": data.items["id"].cast(pl.String), "item": data.items["id"]})
    found: list[Mismatch] = []

    if MARKED in table.columns:
        table, marked = _split(table, pl.col(MARKED).is_null())
        _note(found, _LEFT_OUT_BY_CLEAN, marked, MARKED, "left out")
    table, unknown = _split(table, pl.col("_key").is_in(known_items["_key"].implode()))
    _note(found, "unknown items", unknown, "_key", "left out")
    table, unknown = _split(table, pl.col("system").is_in(list(data.systems)))
    _note(found, "unknown systems", unknown, "system", "left out")
    if selection is not None:
        chosen = [str(item) for item in selection.ids]
        table, outside = _split(table, pl.col("_key").is_in(chosen))
        if selection.systems is not None:
            asked = [f"{i}\x1f{s}" for i, names in zip(selection.ids, selection.systems, strict=True) for s in names]
            table, unasked = _split(table, pl.concat_str("_key", "system", separator="\x1f").is_in(asked))
            outside = pl.concat([outside, unasked])
        _note(found, "judgments outside the selection", outside, "_key", "left out")
    table, empty = _split(table, pl.col("value").is_not_null())
    _note(found, "judgments without a value", empty, "_key", "left out")
    if not table.height:
        raise DataError(f"{data.name}: no judgment fits the data" + _listed(found))
    table = table.drop("item").join(known_items, on="_key", how="left").drop("_key")
    table, repeated = _averaged_repeats(table)
    if repeated is not None:
        found.append(repeated)
    name = human or HUMAN
    bare = EvalSet(
        items=data.items, systems=data.systems, scores={k: v for k, v in data.scores.items() if k != name},
        outputs=data.outputs, judgments=Judgments(table.with_columns(pl.col("item").cast(id_type))), name=data.name,
    )  # fmt: skip
    return bare.aggregate(name=name).with_human(name), tuple(found)


def _split(table: pl.DataFrame, fits: pl.Expr) -> tuple[pl.DataFrame, pl.DataFrame]:
    return table.filter(fits), table.filter(~fits)


def _note(found: list[Mismatch], what: str, rows: pl.DataFrame, column: str, action: str) -> None:
    if rows.height:
        distinct = rows[column].n_unique()
        example = f"{rows[column][0]}" + (f" and {distinct - 1} more" if distinct > 1 else "")
        found.append(Mismatch(what, rows.height, example, action))


def _averaged_repeats(table: pl.DataFrame) -> tuple[pl.DataFrame, Mismatch | None]:
    """Average what one annotator said of one output more than once; errors of one answer are not repeats."""
    if "error" in table.columns:
        return table, None
    keys = ["item", "system", "annotator", "criterion"]
    groups = table.group_by(keys, maintain_order=True).agg(
        pl.col("value").mean(),
        pl.col("seconds").sum(),
        pl.len().alias("_times"),
        pl.col("value").n_unique().alias("_kinds"),
        pl.exclude(*keys, "value", "seconds").first(),
    )
    named = groups.filter((pl.col("_times") > 1) & pl.col("annotator").is_not_null())
    if not named.height:
        return table, None
    differing = named.filter(pl.col("_kinds") > 1).height
    row = named.row(0, named=True)
    example = f"item {row['item']}, {row['system']}, {row['annotator']}; {differing} disagree"
    count = int((named["_times"] - 1).sum())
    unnamed = table.filter(pl.col("annotator").is_null())
    merged = groups.filter(pl.col("annotator").is_not_null()).drop("_times", "_kinds").select(table.columns)
    return pl.concat([merged, unnamed]), Mismatch("repeats by the same annotator", count, example, "averaged")


def refuse(mismatches: tuple[Mismatch, ...]) -> None:
    """Raise when anything does not fit (`--strict`); judgments that were marked on purpose are no mistake."""
    faults = [mismatch for mismatch in mismatches if mismatch.what != _LEFT_OUT_BY_CLEAN]
    if faults:
        raise DataError("--strict: judgments do not fit the data" + _listed(faults))


def _listed(found: list[Mismatch]) -> str:
    return "".join(f"; {m.count} {m.what} ({m.example})" for m in found)


# -- Selections from a pool, in one stage or two: the population is all of it, the data may hold only what was chosen


def whole_pool(evalset: EvalSet, scores: FloatArray, selection: Selection) -> tuple[EvalSet, FloatArray]:
    """Return the full pool and its human scores, without what is known of a part only; other data: as they are.

    One stage is like two where the data lack items of the pool: outputs were made for the chosen ones only. Items that
    the data lack become items of which nothing is known. Data may hold more than the pool, where items were excluded or
    the first stage has no probabilities and is the pool itself; then only the judged items are sure.
    """
    one_stage = selection.design.within is None
    if selection.probability is None or (one_stage and evalset.n_items >= selection.population):
        return evalset, scores
    if evalset.n_items > selection.population:
        warnings.warn(
            f"{evalset.name}: {evalset.n_items} items, but the selection is about {selection.population} of them: "
            "metrics are not used; give the data of those items only, and they are", AliquotWarning, 4,
        )  # fmt: skip
        chosen = np.isin(evalset.items["id"].to_numpy(), np.array(selection.ids))
        evalset, scores = at_rows(evalset, np.flatnonzero(chosen)), scores[chosen]
    lacking = selection.population - evalset.n_items
    if lacking:
        return _padded(evalset, lacking), np.vstack([scores, np.full((lacking, evalset.n_systems), np.nan)])
    partial = [name for name in evalset.metrics if not np.isfinite(evalset.scores[name]).any(axis=1).all()]
    kept = {name: values for name, values in evalset.scores.items() if name not in partial}
    return (replace(evalset, scores=kept) if partial else evalset), scores


def require_known_of_pool(data: EvalSet, pool: EvalSet, spec: Spec) -> None:
    """Refuse metrics named for an estimate that are there for the first stage's items only."""
    asked = str(spec.parameters.get("metrics", "")).split("|")
    partial = [name for name in asked if name in data.scores and name not in pool.scores]
    if partial:
        raise OptionError(
            f"metrics={'|'.join(partial)}: known of the first stage's items only, and their mean over the pool is not; "
            "leave them out, or give data that have them for the whole pool"
        )


def _padded(evalset: EvalSet, lacking: int) -> EvalSet:
    """The set with unknown items at its end, and without anything that would be known of a part only."""
    ids = evalset.items["id"]
    if ids.dtype == pl.Int64:
        start = max(0, int(ids.to_numpy().max(initial=0))) + 1
        new = pl.Series("id", np.arange(start, start + lacking))
    else:
        new = pl.Series("id", [f"\x00pool {number}" for number in range(lacking)])
    columns = [name for name in ("id", "document") if name in evalset.items.columns]
    items = pl.concat([evalset.items.select(columns), new.to_frame()], how="diagonal")
    return EvalSet(items, evalset.systems, human=None, name=evalset.name)
