"""Notes on annotators who answer on another scale than the others, or the wrong way round.

Means over annotators hide both: `inspect`, `clean` and `estimate` name the annotator and the evidence.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from aliquot.core.conventions import usable_metrics
from aliquot.core.evalset import EvalSet
from aliquot.stats.annotator_scales import (
    ReversedAnnotator,
    ScaleMismatch,
    find_reversed_annotators,
    find_scale_mismatches,
)
from aliquot.stats.arrays import FloatArray, encode_labels, nan_std

_REMEDY = "correct or leave out these judgments"
_MAX_NOTES = 5


def annotator_notes(evalset: EvalSet) -> list[str]:
    """Return notes on annotators with another scale or flipped signs, per criterion and protocol.

    >>> import aliquot
    >>> annotator_notes(aliquot.synthetic(items=60, systems=3, seed=2))
    []
    """
    return list(evalset.derived("annotator notes", _collect_notes))


def _collect_notes(evalset: EvalSet) -> list[str]:
    if evalset.judgments is None:
        return []
    table = evalset.judgments.answers().filter(pl.col("value").is_not_null() & pl.col("annotator").is_not_null())
    if "control" in table.columns:
        table = table.filter(pl.col("control").is_null() | pl.col("control").cast(pl.String).is_in(["", "false", "0"]))
    if table["annotator"].n_unique() < 2:
        return []
    groups = [name for name in ("criterion", "protocol") if name in table.columns]
    notes: list[str] = []
    parts = list(table.group_by(groups, maintain_order=True))
    for key, part in parts:
        about = ", ".join(str(name) for name in key if name is not None and len(parts) > 1)
        notes += _describe_group(evalset, part, f" ({about})" if about else "")
    return [
        *notes[:_MAX_NOTES],
        *([f"{len(notes) - _MAX_NOTES} more annotators like these"] if len(notes) > _MAX_NOTES else []),
    ]


def _describe_group(evalset: EvalSet, table: pl.DataFrame, about: str) -> list[str]:
    names = table["annotator"].unique(maintain_order=True).to_list()
    values, annotator = table["value"].to_numpy().astype(np.float64), encode_labels(table["annotator"].to_list())
    scales = find_scale_mismatches(values, annotator)
    notes = [_describe_other_scale(mismatch, names[mismatch.annotator], about) for mismatch in scales]
    mismatched = {mismatch.annotator for mismatch in scales}
    parts = [
        _average_others(table, values, ["item", "system"]),
        _gather_mean_metric(evalset, table),
        _average_others(table, values, ["system"]),
    ]
    reference = _average_standardised([part for part in parts if part is not None and np.isfinite(part).any()])
    reversed_ones = [] if reference is None else find_reversed_annotators(values, annotator, reference)
    notes += [
        _describe_reversed(turned, names[turned.annotator], about)
        for turned in reversed_ones
        if turned.annotator not in mismatched
    ]
    return notes


def _describe_other_scale(mismatch: ScaleMismatch, name: str, about: str) -> str:
    ends = f"80% of {mismatch.judgments} judgments are between {mismatch.own[0]:g} and {mismatch.own[1]:g}"
    usual = f"those of the others typically between {mismatch.others[0]:g} and {mismatch.others[1]:g}"
    kind = "has flipped signs" if mismatch.factor < 0 else "uses another scale"
    return f"annotator '{name}'{about} {kind}: {ends}, {usual}; {_REMEDY}"


def _describe_reversed(turned: ReversedAnnotator, name: str, about: str) -> str:
    return (
        f"annotator '{name}'{about} judges the wrong way round: correlation {turned.correlation:.2f} with the other "
        f"annotators and metrics over {turned.judgments} judgments, where that of the others is typically "
        f"{turned.typical:.2f}; {_REMEDY}"
    )


def _average_standardised(parts: list[FloatArray]) -> FloatArray | None:
    """Average standardised references; NaN where all are missing."""
    if not parts:
        return None
    stacked = np.array([(part - np.nanmean(part)) / (float(nan_std(part)) or 1.0) for part in parts])
    present = np.isfinite(stacked)
    return np.where(
        present.any(axis=0), np.where(present, stacked, 0.0).sum(axis=0) / np.maximum(present.sum(axis=0), 1), np.nan
    )


def _average_others(table: pl.DataFrame, values: FloatArray, keys: list[str]) -> FloatArray | None:
    """Return the other annotators' mean on the same output (or system); NaN without any."""
    cell = encode_labels(table.select(keys).rows())
    own_answers = encode_labels(list(zip(cell.tolist(), table["annotator"].to_list(), strict=True)))
    sums, counts = np.bincount(cell, values), np.bincount(cell)
    other_counts = counts[cell] - np.bincount(own_answers)[own_answers]
    if not (other_counts > 0).any():
        return None
    other_sums = sums[cell] - np.bincount(own_answers, values)[own_answers]
    means: FloatArray = np.where(other_counts > 0, other_sums / np.maximum(other_counts, 1), np.nan)
    return means


def _gather_mean_metric(evalset: EvalSet, table: pl.DataFrame) -> FloatArray | None:
    """Return the mean standardised metric of each judged output."""
    mean = mean_metric(evalset)
    return None if mean is None else mean[evalset.cell_index(table["item"], table["system"])]


def mean_metric(evalset: EvalSet) -> FloatArray | None:
    """Return the mean of all standardised metrics, items x systems; None without metrics."""
    mean: FloatArray | None = evalset.derived("mean of standardised metrics", _average_metrics)
    return mean


def _average_metrics(evalset: EvalSet) -> FloatArray | None:
    names = usable_metrics(evalset)
    if not names:
        return None
    total, counts = np.zeros((evalset.n_items, evalset.n_systems)), np.zeros((evalset.n_items, evalset.n_systems))
    for name in names:
        scores = evalset.scores[name]
        standardised = (scores - np.nanmean(scores)) / (float(nan_std(scores)) or 1.0)
        counts += np.isfinite(standardised)
        total += np.where(np.isfinite(standardised), standardised, 0.0)
    return np.where(counts > 0, total / np.maximum(counts, 1), np.nan)
