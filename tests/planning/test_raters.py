"""Judges' noise from repeated judgments: known truths, severity that cancels, several criteria, none at all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from aliquot import EvalSet
from aliquot.core.judgments import Judgments
from aliquot.planning.repeats import annotator_noise, judgments_per_output


def judged(
    noise: float,
    severity: float,
    *,
    matched: bool = True,
    people: int = 3,
    criterion: str | None = None,
    scale: float = 1.0,
    items: int = 400,
    seed: int = 0,
) -> EvalSet:
    """Four systems; annotators with severities; single judgments have the standard deviation `noise`."""
    rng = np.random.default_rng(seed)
    quality = rng.normal(0, 2.0, (items, 4))
    harsh = rng.normal(0, severity, 50)
    rows = []
    for item in range(items):
        crew = rng.choice(50, people, replace=False)
        for system in range(4):
            team = crew if matched else rng.choice(50, people, replace=False)
            for person in team:
                value = quality[item, system] + harsh[person] + rng.normal(0, noise)
                rows.append((item, f"s{system}", f"p{person}", value * scale))
    table = pl.DataFrame(rows, schema=["item", "system", "annotator", "value"], orient="row")
    table = table.with_columns(criterion=pl.lit(criterion, dtype=pl.String))
    bare = EvalSet(pl.DataFrame({"id": np.arange(items)}), ("s0", "s1", "s2", "s3"), judgments=Judgments(table))
    return bare.aggregate()


@pytest.mark.parametrize(("noise", "severity"), [(1.0, 0.0), (1.0, 3.0), (2.0, 1.0)])
def test_severity_cancels_where_people_judge_all_systems(noise, severity):
    found = annotator_noise(judged(noise, severity))
    assert found is not None
    assert found.matched
    assert found.difference == pytest.approx(2 * noise**2, rel=0.08)
    assert found.judgments == 3.0
    assert found.outputs == 1600


def test_severity_counts_where_people_judge_single_systems():
    found = annotator_noise(judged(1.0, 2.0, matched=False))
    assert found is not None
    assert not found.matched
    rng = np.random.default_rng(0)
    rng.normal(0, 2.0, (400, 4))
    harsh = rng.normal(0, 2.0, 50)  # as `judged` draws them
    assert found.difference == pytest.approx(2 * (1.0 + harsh.var(ddof=1)), rel=0.08)


def test_the_scale_of_the_human_score_counts():
    data = judged(1.0, 0.0)
    tenfold = data.with_score("human", 10 * data.human_score())
    one, ten = annotator_noise(data), annotator_noise(tenfold)
    assert one is not None
    assert ten is not None
    assert ten.difference == pytest.approx(100 * one.difference)


def test_the_criterion_behind_the_human_score_is_found():
    fluency, adequacy = judged(1.0, 0.0, criterion="fluency"), judged(3.0, 0.0, criterion="adequacy")
    assert fluency.judgments is not None
    assert adequacy.judgments is not None
    both = Judgments(pl.concat([fluency.judgments.table, adequacy.judgments.table]))
    found = annotator_noise(replace(fluency, judgments=both))
    assert found is not None
    assert found.difference == pytest.approx(2.0, rel=0.1)
    of_both = EvalSet(fluency.items, fluency.systems, judgments=both).aggregate()
    mixed = annotator_noise(of_both)
    assert mixed is not None
    assert mixed.difference == pytest.approx(2 * 2.0**2, rel=0.1)  # once and threefold: on average twofold


def test_judgments_of_something_else_are_not_used():
    data = judged(1.0, 0.0)
    other = data.with_score("human", np.random.default_rng(1).normal(size=(400, 4)))
    assert annotator_noise(other) is None
    assert judgments_per_output(other) == 1.0


def test_single_judgments_tell_nothing():
    data = judged(1.0, 0.0, people=1)
    assert annotator_noise(data) is None
    assert judgments_per_output(data) == 1.0
    assert annotator_noise(replace(data, judgments=None)) is None


def test_nameless_judgments():
    data = judged(1.0, 0.0, people=2)
    assert data.judgments is not None
    nameless = Judgments(data.judgments.table.with_columns(annotator=pl.lit(None, dtype=pl.String)))
    found = annotator_noise(replace(data, judgments=nameless))
    assert found is not None
    assert not found.matched
    assert found.difference == pytest.approx(2.0, rel=0.1)
