"""What the data themselves say that a datasheet asks for: outputs, annotators, judgments per output, scale, power."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import polars as pl
from scipy import stats as distributions

from aliquot.data.evalset import EvalSet
from aliquot.data.judgments import Judgments
from aliquot.data.selection import Selection
from aliquot.stats.arrays import FloatArray
from aliquot.stats.pairwise import pairwise_sums

_MOST_LISTED = 11
_PERCENT_SCALES = ((0, 100), (1, 100))
_ALPHA, _POWER = 0.05, 0.80


def is_control(table: pl.DataFrame) -> pl.Expr:
    """True for judgments of control items: `control` holds true, or a kind such as training."""
    if "control" not in table.columns:
        return pl.lit(value=False)
    if table["control"].dtype == pl.Boolean:
        return pl.col("control").fill_null(value=False)
    said = pl.col("control").cast(pl.String).str.strip_chars().str.to_lowercase()
    return said.is_not_null() & ~said.is_in(["", "false", "0", "no"])


def answered(judgments: Judgments) -> pl.DataFrame:
    """Return the answers that count and have a value, one row each, without control items."""
    table = judgments.answers()
    return table.filter(pl.col("value").is_not_null() & ~is_control(table))


def outputs_per_system(data: EvalSet, human: str | None) -> dict[str, int]:
    """Count the outputs of each system that somebody judged; systems without any are left out."""
    if data.judgments is not None:
        table = answered(data.judgments)
        counts = table.group_by("system").agg(pl.col("item").n_unique().alias("n"))
        found = dict(zip(counts["system"].to_list(), counts["n"].to_list(), strict=True))
    elif human is not None:
        found = dict(zip(data.systems, np.isfinite(data.scores[human]).sum(axis=0).tolist(), strict=True))
    else:
        found = {}
    return {system: found[system] for system in data.systems if found.get(system)}


def planned_outputs(selection: Selection, systems: tuple[str, ...]) -> dict[str, int]:
    """Count the outputs of each system that a selection asks to judge."""
    if selection.systems is None:
        return dict.fromkeys(systems, len(selection))
    counts = Counter(system for names in selection.systems for system in names)
    return {system: counts[system] for system in systems if counts[system]}


def written_count(per_system: dict[str, int], limit: int = 4) -> str:
    """Write the number of outputs per system; where systems differ, the most frequent with the others in brackets.

    >>> written_count({"A": 10, "B": 10}), written_count({"A": 10, "B": 10, "ref": 4})
    ('10', '10 (ref: 4)')
    """
    usual = Counter(per_system.values()).most_common(1)[0][0]
    others = [f"{system}: {n}" for system, n in per_system.items() if n != usual]
    if not others:
        return str(usual)
    more = f"; {len(others) - limit} more, from {min(per_system.values())} to {max(per_system.values())}"
    return f"{usual} ({'; '.join(others[:limit]).replace('(', '[').replace(')', ']')}{more * (len(others) > limit)})"


def judgments_per_output(judgments: Judgments, criterion: str | None = None) -> str:
    """Write how many judgments an output got.

    >>> table = pl.DataFrame({"item": [0, 0, 1], "system": ["A"] * 3, "annotator": ["x", "y", "x"], "value": [1, 2, 3]})
    >>> judgments_per_output(Judgments(table))
    '1 to 2 judgments per output, 1.5 on average'
    """
    table = answered(judgments)
    if criterion is not None:
        table = table.filter(pl.col("criterion") == criterion)
    counts = table.group_by("item", "system").len()["len"].to_numpy()
    if not len(counts):
        return "no judgments"
    low, high = int(counts.min()), int(counts.max())
    if low == high:
        return f"{low} judgment{'s' * (low != 1)} per output"
    return f"{low} to {high} judgments per output, {counts.mean():.1f} on average"


@dataclass(frozen=True)
class ObservedScale:
    """The size (4.3.3) and values (4.3.4) of a scale, as far as the values given tell."""

    size: str
    values: str


def observed_scale(values: FloatArray, value_range: tuple[float, float] | None = None) -> ObservedScale | None:
    """Tell the scale from the values people gave, or None where they leave it open.

    A short scale is told when all of its points were used; 0 to 100 and 1 to 100 when both ends were; a known range
    (`value_range`) is believed.

    >>> observed_scale(np.array([1.0, 2, 3, 4, 5, 5]))
    ObservedScale(size='5', values='1, 2, 3, 4, 5')
    >>> observed_scale(np.array([0.0, 66, 100])), observed_scale(np.array([3.0, 66, 98]))
    (ObservedScale(size='101', values='0-100'), None)
    """
    values = values[np.isfinite(values)]
    if not len(values):
        return None
    whole = bool((values == np.round(values)).all())
    low, high = value_range if value_range is not None else (float(values.min()), float(values.max()))
    if not whole:
        return ObservedScale("continuous", f"{low:g} to {high:g}") if value_range is not None else None
    points = np.unique(values)
    every = high - low + 1
    if value_range is None and (low, high) not in _PERCENT_SCALES and not (1 < len(points) == every <= _MOST_LISTED):
        return None
    written = ", ".join(f"{low + at:g}" for at in range(int(every))) if every <= _MOST_LISTED else f"{low:g}-{high:g}"
    return ObservedScale(f"{int(every)}", written.replace("--", " to -"))


def detectable_difference(scores: FloatArray) -> str | None:
    """Write which difference of two systems the judged items detect (METHODS section 7), or None where none can be.

    For a pair with n items in common and s_d the sd of its differences, (z_{1-alpha/2} + z_power) s_d / sqrt(n); the
    median over pairs is reported.
    """
    if scores.shape[1] < 2:
        return None
    sums = pairwise_sums(scores)
    use = sums.count >= 2
    if not use.any():
        return None
    n = sums.count[use].astype(np.float64)
    variance = np.maximum(sums.squares[use] - sums.total[use] ** 2 / n, 0.0) / (n - 1)
    z = float(distributions.norm.ppf(1 - _ALPHA / 2) + distributions.norm.ppf(_POWER))
    least = z * np.sqrt(variance / n)
    if not least.max() > 0:
        return None
    pairs = len(least)
    spread = f"; from {least.min():.3g} to {least.max():.3g} over the {pairs} pairs" if pairs > 1 else ""
    items = f"{int(n.min())}" if n.min() == n.max() else f"{int(n.min())} to {int(n.max())}"
    middle = "median " if pairs > 1 else ""
    return (
        f"A difference of {np.median(least):.3g} points between two systems is detected with power {_POWER:.2f} at "
        f"alpha {_ALPHA:.2f} (two-sided, paired over {items} items, {middle}sd of the differences "
        f"{np.median(np.sqrt(variance)):.3g}{spread})."
    )
