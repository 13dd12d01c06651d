"""Bounds that hold in Python as on the command line, and scores of any size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

import aliquot
from aliquot import EvalSet
from aliquot.errors import DataError, OptionError

DATA = aliquot.synthetic(items=20, systems=3, annotators=3, judgments_per_output=2, seed=2)
CRITERIA = pl.DataFrame(
    [
        {"item": item, "system": system, "criterion": name, "value": float(value)}
        for item in range(12)
        for system in "AB"
        for name, value in zip("xyz", np.random.default_rng([item, ord(system)]).integers(1, 6, 3), strict=True)
    ]
)

TOO_MANY: dict[str, Callable[[int], object]] = {
    "bootstrap": lambda n: aliquot.agreement(DATA, bootstrap=n),
    "trials": lambda n: aliquot.metrics(DATA, trials=n),
    "permutations": lambda n: aliquot.metrics(DATA, permutations=n),
    "draws": lambda n: aliquot.survey(CRITERIA, "criteria", draws=n),
    "repeats": lambda n: aliquot.combine(DATA, repeats=n),
}


@pytest.mark.parametrize("name", TOO_MANY)
def test_draws_are_bounded_in_python_too(name):
    with pytest.raises(OptionError, match=f"^`{name}` is 1000001; give at most 1000000$"):
        TOO_MANY[name](10**6 + 1)


def test_metrics_of_very_many_systems_are_refused_before_the_work(monkeypatch):
    many = 50_000
    scores = np.zeros((2, many))
    data = EvalSet(
        items=pl.DataFrame({"id": [0, 1]}),
        systems=tuple(f"s{at}" for at in range(many)),
        scores={"human": scores, "metric": scores},
        human="human",
    )
    monkeypatch.setenv("ALIQUOT_MEMORY", "64G")
    with pytest.raises(OptionError, match=r"all pairs of 50000 systems need about .* of memory, and 64\.0 GB are free"):
        aliquot.metrics(data)


def scaled(size: float) -> EvalSet:
    """What people said, in another unit."""
    assert DATA.judgments is not None
    judgments = aliquot.Judgments(DATA.judgments.table.with_columns(pl.col("value") * size))
    scores = {name: values * size if name == DATA.human else values for name, values in DATA.scores.items()}
    return replace(DATA, scores=scores, judgments=judgments)


NUMBERS: dict[str, Callable[[float], Any]] = {
    "agreement": lambda size: (
        aliquot.agreement(scaled(size), bootstrap=0, level="interval").coefficients["value"].to_list()
    ),
    "metrics": lambda size: [
        row.value for row in aliquot.metrics(scaled(size), parts=["correlations"], trials=10).correlations
    ],
    "criteria": lambda size: [
        row.correlation
        for row in aliquot.survey(CRITERIA.with_columns(pl.col("value") * size), "criteria", draws=0).pairs
    ],
    "scores": lambda size: [row.score for row in aliquot.compare(scaled(size), "scores").systems],
}


@pytest.mark.parametrize("size", [1e150, 1e-150, 1e300, 1e-300])
@pytest.mark.parametrize("verb", NUMBERS)
def test_the_unit_of_scores_does_not_matter_or_is_refused(verb, size):
    if verb in ("agreement", "metrics") and not 1e-200 < size < 1e200:
        with pytest.raises(
            DataError, match=r"the largest value is .*, whose square is no number; divide by 1e(\+30|-29)\d$"
        ):
            NUMBERS[verb](size)
        return
    assert NUMBERS[verb](size) == pytest.approx(NUMBERS[verb](1.0), rel=1e-9, nan_ok=True)
