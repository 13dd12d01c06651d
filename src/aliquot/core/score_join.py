"""Scores of another set joined by item id and system, whatever the order; what does not fit is counted and named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from aliquot.core.conventions import is_human_name
from aliquot.errors import AliquotWarning, DataError, OptionError, closest, quoted, warn_caller
from aliquot.stats.arrays import FloatArray, IntArray

if TYPE_CHECKING:  # which imports this file
    from aliquot.core.evalset import EvalSet

_MAX_EXAMPLES = 3
_TOLERANCE = 1e-9  # relative difference of two values that are the same number, written with fewer digits


def gather_scores(evalset: EvalSet, other: EvalSet, names: Sequence[str], where: str) -> dict[str, FloatArray]:
    """Return scores of `other` in the shape of `evalset`, NaN where it has none.

    Ids are compared as they are written: 1 and "1" are one item. Scores on unknown items or systems are left out, and
    a note counts and names them.

    >>> import aliquot
    >>> data = aliquot.synthetic(items=3, systems=2, seed=1)
    >>> some = gather_scores(data, data.keep(items=[2]), ["metricA"], "some.csv")["metricA"]
    >>> np.isfinite(some).tolist()
    [[False, False], [False, False], [True, True]]
    """
    rows = _find_positions(other.items["id"].cast(pl.String), evalset.items["id"].cast(pl.String))
    columns = _find_positions(pl.Series(other.systems, dtype=pl.String), pl.Series(evalset.systems, dtype=pl.String))
    counts: IntArray = np.isfinite([other.scores[name] for name in names]).sum(axis=0)
    shared = np.ix_(rows >= 0, columns >= 0)
    if not counts[shared].any():
        raise DataError(_describe_no_match(evalset, other, int(counts.sum()), where))
    unknown_items = [item for item, row in zip(other.ids, rows, strict=True) if row < 0]
    unknown_systems = [name for name, column in zip(other.systems, columns, strict=True) if column < 0]
    parts = []
    if lost := int(counts[rows < 0].sum()):
        listed = quoted(unknown_items, _MAX_EXAMPLES)
        parts.append(f"{lost} of {counts.sum()} scores are on items that are not in the data ({listed})")
    if lost := int(counts[rows >= 0][:, columns < 0].sum()):
        guesses = [(name, closest(name, set(evalset.systems) - set(other.systems))) for name in unknown_systems]
        meant = "; ".join(f"is '{name}' '{guess}'?" for name, guess in guesses[:_MAX_EXAMPLES] if guess is not None)
        listed = quoted(unknown_systems, _MAX_EXAMPLES) + (f"; {meant}" if meant else "")
        parts.append(f"{lost} of {counts.sum()} scores are on systems that are not in the data ({listed})")
    if parts:
        warn_caller(f"{where}: {'; '.join(parts)}: left out", AliquotWarning)
    place = np.ix_(rows[rows >= 0], columns[columns >= 0])
    scores = {}
    for name in names:
        scores[name] = np.full((evalset.n_items, evalset.n_systems), np.nan)
        scores[name][place] = other.scores[name][shared]
    return scores


def join_scores(evalset: EvalSet, other: EvalSet, where: str) -> EvalSet:
    """Add all scores of another set; raise OptionError for a name that the data have with other values.

    Where the values agree, those that the data lack are filled in. Scores that the other set computed from its
    judgments are left out; so is a human score that disagrees, with a note, if there are other scores to join.
    """
    names = [name for name in other.scores if name not in other.averaged]
    if not names:
        what = "holds judgments; give it as `judgments`" if other.judgments is not None else "holds no scores"
        raise OptionError(f"{where}: {what}", "scores")
    scores = gather_scores(evalset, other, names, where)
    for name in list(scores):
        conflict = _find_conflict(evalset, name, scores[name])
        if conflict is not None and is_human_name(name) and any(not is_human_name(each) for each in scores):
            warn_caller(f"{where}: {conflict}; what people gave stays as it is in the data")
            del scores[name]
        elif conflict is not None:
            raise OptionError(
                f"{where}: {conflict}; give it another name, in the file or by `score_name` if it names no score",
                "scores",
            )
    held = evalset.scores
    new = {
        name: np.where(np.isfinite(held[name]), held[name], values) if name in held else values
        for name, values in scores.items()
        if name not in held or (np.isfinite(values) & np.isnan(held[name])).any()
    }
    return replace(
        evalset,
        scores={**held, **new},
        flipped=evalset.flipped | (other.flipped & new.keys()),
        averaged={name: criterion for name, criterion in evalset.averaged.items() if name not in new},
        joined=tuple(dict.fromkeys([*evalset.joined, *scores])),
    )


def _find_conflict(evalset: EvalSet, name: str, values: FloatArray) -> str | None:
    """Return the first cell in which a score differs from one of this name in the data, in words."""
    if name not in evalset.scores:
        return None
    held = evalset.scores[name]
    both = np.isfinite(held) & np.isfinite(values)
    differs = both & ~np.isclose(held, values, rtol=_TOLERANCE, atol=_TOLERANCE)
    if not differs.any():
        return None
    row, column = np.argwhere(differs)[0]
    place = f"item {evalset.ids[row]}, {evalset.systems[column]}: {held[row, column]:.6g} there"
    share = f"{differs.sum()} of {both.sum()} values"
    return f"the data have a score '{name}', too, and {share} differ ({place}, {values[row, column]:.6g} here)"


def _describe_no_match(evalset: EvalSet, other: EvalSet, count: int, where: str) -> str:
    sides = []
    for kind, theirs, ours in (("items", other.ids, evalset.ids), ("systems", other.systems, evalset.systems)):
        has_common = bool({str(each) for each in theirs} & {str(each) for each in ours})
        here, there = quoted(theirs, _MAX_EXAMPLES), quoted(ours, _MAX_EXAMPLES) or "none"
        sides.append(f"{kind} here are {here}, in the data {there}" if not has_common else f"{kind} fit")
    return (
        f"{where}: none of {count} scores is on an item and a system of the data: {'; '.join(sides)}; write the "
        "ids and names of the data, or say which columns hold them: `columns=item=NAME,system=NAME`"
    )


def _find_positions(keys: pl.Series, names: pl.Series) -> IntArray:
    """Return the position of each key among the names, -1 where it is none of them."""
    index = pl.DataFrame({"key": names, "position": np.arange(len(names), dtype=np.int64)})
    matches = keys.alias("key").to_frame().join(index, on="key", how="left", maintain_order="left")
    positions: IntArray = matches["position"].fill_null(-1).to_numpy()
    return positions
