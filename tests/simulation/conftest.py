"""Small campaigns that are judged all over, for all tests of simulate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

import aliquot
from aliquot import EvalSet
from aliquot.stats.arrays import FloatArray

Build = Callable[..., EvalSet]


def build(
    items: int = 60,
    systems: int = 4,
    *,
    seed: int = 1,
    name: str = "past",
    documents: bool = True,
    human: Callable[[FloatArray], FloatArray] | None = None,
    columns: dict[str, Any] | None = None,
    **options: Any,
) -> EvalSet:
    """A synthetic campaign without single judgments; `human` changes its scores, `columns` are added to the items."""
    data = aliquot.synthetic(
        items=items, systems=systems, seed=seed, annotators=0, document_length=5 if documents else 0, **options
    )
    if human is not None:
        data = data.with_score("human", human(np.array(data.scores["human"])))
    if columns:
        data = replace(data, items=data.items.with_columns(**{k: pl.Series(v) for k, v in columns.items()}))
    return replace(data, name=name)


@pytest.fixture(scope="session")
def campaign() -> Build:
    return build


@pytest.fixture(scope="session")
def past() -> EvalSet:
    return build()
