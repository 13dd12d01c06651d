"""The pairs of annotators as a square: what heat maps, drawn or written, show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from aliquot.errors import unknown_name
from aliquot.judge.agreement_result import Agreement
from aliquot.stats.arrays import FloatArray

PAIR_MEASURES: Mapping[str, str] = MappingProxyType(
    {
        "raw": "share of equal answers",
        "kappa": "Cohen's kappa",
        "kappa_linear": "kappa, linear weights",
        "kappa_quadratic": "kappa, quadratic weights",
        "pearson": "Pearson's correlation",
        "spearman": "Spearman's correlation",
    }
)
"""What a heat map can show, in words."""


@dataclass(frozen=True, eq=False)
class Heat:
    """A coefficient of every pair of annotators.

    Attributes:
        annotators: those who agree best with the others first.
        values: annotators x annotators; NaN on the diagonal and where undefined.
        measure: the coefficient.
        words: the same in words.
    """

    annotators: tuple[str, ...]
    values: FloatArray
    measure: str
    words: str


def heat_of(result: Agreement, measure: str | None = None) -> Heat:
    """Arrange a coefficient of pairs as a square.

    >>> import aliquot
    >>> data = aliquot.synthetic(items=30, systems=2, protocol="da", annotators=3, judgments_per_output=2)
    >>> heat_of(aliquot.agreement(data, bootstrap=0)).measure
    'pearson'
    """
    measure = measure or {"nominal": "kappa", "ordinal": "kappa_quadratic"}.get(result.level, "pearson")
    if measure not in PAIR_MEASURES:
        raise unknown_name("measure of pairs", measure, PAIR_MEASURES)
    names = result.annotators["annotator"].to_list()
    place = {name: at for at, name in enumerate(names)}
    values = np.full((len(names), len(names)), np.nan)
    for a, b, value in result.pairs.select("a", "b", measure).iter_rows():
        values[place[a], place[b]] = values[place[b], place[a]] = np.nan if value is None else value
    order = _best_first(values)
    return Heat(tuple(names[at] for at in order), values[np.ix_(order, order)], measure, PAIR_MEASURES[measure])


def _best_first(values: FloatArray) -> list[int]:
    """Annotators by falling mean agreement with the others; those without any last."""
    defined = np.isfinite(values)
    mean = np.where(defined, values, 0.0).sum(axis=1) / np.maximum(defined.sum(axis=1), 1)
    mean[~defined.any(axis=1)] = -np.inf
    return [int(at) for at in np.argsort(-mean, kind="stable")]
