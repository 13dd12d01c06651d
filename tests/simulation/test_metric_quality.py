"""Parity against a metric's quality: the numbers of `aliquot.meta` and of subset2evaluate, metric by metric."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

import aliquot
from aliquot import meta
from aliquot.compat import evaluate
from aliquot.errors import DataError, OptionError
from aliquot.io.formats import items as item_lines
from aliquot.simulation.metric_quality import DEFAULT_METHODS, replay_metrics

DATA = aliquot.synthetic(items=80, systems=5, seed=1)


@pytest.fixture(scope="module")
def found():
    return replay_metrics(DATA)


def test_correlations_are_subset2evaluates(found):
    theirs = evaluate.eval_metrics_correlations(list(item_lines.iterate_records(DATA)))
    assert {row.metric: row.correlation for row in found.rows} == pytest.approx(theirs)
    assert {row.method for row in found.rows} == set(DEFAULT_METHODS)


def test_parities_are_those_of_meta(found):
    human = DATA.human_score()
    row_of = {item: row for row, item in enumerate(DATA.ids)}
    targets = meta.random_spa(DATA)
    for row in found.rows:
        order = aliquot.select(DATA, row.method, metric=row.metric).ids
        assert row.parity == pytest.approx(meta.parity(human[[row_of[item] for item in order]], human, targets))


def test_a_better_metric_needs_less():
    """A metric that is people's score, and one that is noise."""
    noise = np.random.default_rng(0).normal(size=DATA.human_score().shape)
    data = DATA.with_score("perfect", DATA.human_score()).with_score("noise", noise)
    found = replay_metrics(data, ["metric_var"], metrics=["perfect", "noise"])
    perfect, other = found.rows
    assert perfect.correlation == pytest.approx(1.0)
    assert abs(other.correlation) < 0.2
    assert perfect.parity < 0.9 * min(1.0, other.parity)


def test_bins_average_what_is_reached(found):
    bins = found.bins()
    assert bins["metrics"].sum() == len(found.rows)
    for row in bins.to_dicts():
        of = [
            r.parity
            for r in found.rows
            if r.method == row["method"] and round(r.correlation, 1) == pytest.approx(row["bin"])
        ]
        reached = [value for value in of if np.isfinite(value)]
        assert len(of) == row["metrics"]
        assert row["parity"] == (pytest.approx(np.mean(reached)) if reached else None)
    document = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert document["bins"]
    assert isinstance(found.to_frame(), pl.DataFrame)


def test_slips():
    with pytest.raises(OptionError, match="does not order items by one metric"):
        replay_metrics(DATA, ["diversity"])
    with pytest.raises(DataError, match="usable metric"):
        replay_metrics(DATA, metrics=["COMET"])
