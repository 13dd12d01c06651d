"""Estimate on real campaigns: from the command line, every design with every estimator, and judgments as they come."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.real.conftest import load_real

import aliquot
from aliquot import AliquotWarning, EvalSet
from aliquot.cli.main import run

estimate_given = partial(aliquot.estimate, target="given")  # the mean of these very scores, whose truth is known

SHARED = Path(__file__).parents[3] / "shared" / "data"
if not (SHARED / "wmt23-en-de.jsonl.gz").exists():
    pytest.skip(f"no real data in {SHARED}", allow_module_level=True)

pytestmark = pytest.mark.filterwarnings(f"ignore::{AliquotWarning.__module__}.AliquotWarning")

EXCLUDED = {"wmt23-en-de": ("refA", "synthetic_ref"), "realsumm": ()}
DESIGNS = ("segments", "pps", "stratified", "balanced", "documents", "snippets_fixed", "snippets_budgeted")
SPECS = ("auto", "mean", "stratified", "cv", "cv:proxy=several", "cv:proxy=knn", "paper_best")
RANGES = {"wmt23-en-de": (-100.0, 0.0), "realsumm": (0.0, 1.0)}


@pytest.fixture(scope="module", params=list(EXCLUDED))
def campaign(request: pytest.FixtureRequest) -> EvalSet:
    """Items that all machine systems were judged on: the truth is known."""
    data = load_real(request.param)
    return data.drop(systems=list(EXCLUDED[request.param])).complete()


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("design", DESIGNS)
def test_every_estimator_under_every_design(campaign, design, spec):
    """Most of the truth lies within three standard errors, which are neither nothing nor as large as the scores."""
    truth = dict(zip(campaign.systems, campaign.human_score().mean(axis=0), strict=True))
    result = estimate_given(campaign, spec, selection=aliquot.select(campaign, design, 45, seed=5))
    assert result.unbiased
    spread = float(campaign.human_score().std())
    assert all(0.0 < row.se < 0.6 * spread for row in result.systems)
    off = [abs(row.estimate - truth[row.system]) / row.se for row in result.systems]
    assert np.mean(np.array(off) < 3.0) > 0.7
    assert sum(row.p_best for row in result.systems) == pytest.approx(1.0)


@pytest.mark.parametrize("interval", ["t", "bootstrap", "hoeffding", "bernstein", "sequence"])
def test_every_interval(campaign, interval):
    chosen = aliquot.select(campaign, "segments", 45, seed=5)
    result = estimate_given(campaign, "mean", selection=chosen, interval=interval, value_range=RANGES[campaign.name])
    truth = dict(zip(campaign.systems, campaign.human_score().mean(axis=0), strict=True))
    inside = [row.low <= truth[row.system] <= row.high for row in result.systems]
    assert np.mean(inside) > (0.7 if interval in {"t", "bootstrap"} else 0.99)


@pytest.mark.parametrize("name", EXCLUDED)
@pytest.mark.parametrize("arguments", [("--json",), ("--pairs",)])
def test_the_command_works_on_the_file_itself(name, arguments, capsys, tmp_path):
    data, selection = str(SHARED / f"{name}.jsonl.gz"), str(tmp_path / "selection.jsonl")
    excluded = ["--exclude", ",".join(EXCLUDED[name])] if EXCLUDED[name] else []
    assert run(["select", data, "--budget", "40", "-o", selection, *excluded]) == 0
    capsys.readouterr()
    code = run(["estimate", data, "--selection", selection, *arguments, *excluded])
    printed = capsys.readouterr()
    assert code == 0, printed.err
    if "--json" in arguments:
        document = json.loads(printed.out)
        assert document["judged"] <= 40
        assert len(document["systems"]) == {"wmt23-en-de": 12, "realsumm": 25}[name]
        estimates = [row["estimate"] for row in document["systems"] if row["estimate"] is not None]
        assert estimates == sorted(estimates, reverse=True)
    else:
        assert all(len(line) <= 100 for line in printed.out.splitlines() if not line.startswith("aliquot:"))


def test_judgments_of_a_real_campaign(tmp_path, capsys):
    """ESA on wmt24 en-ja: one item in five is asked for, all judgments are handed in, the others are left out."""
    data = load_real("wmt24-esa-en-ja-waves23")
    assert data.judgments is not None
    chosen = aliquot.select(data, "segments", "20%", seed=1)
    result = estimate_given(data, selection=chosen, judgments=data.judgments)
    found = {mismatch.what: mismatch.count for mismatch in result.details["mismatches"]}
    wanted = data.judgments.table["item"].is_in(list(chosen.ids)).sum()
    assert found["judgments outside the selection"] == data.judgments.table.height - wanted
    told = estimate_given(data, selection=chosen)
    assert [row.estimate for row in result.systems if row.n] == pytest.approx(
        [row.estimate for row in told.systems if row.n]
    )
    path = tmp_path / "judgments.parquet"
    data.judgments.table.with_columns(time=pl.int_range(pl.len())).write_parquet(path)
    judged = [row.system for row in result.systems if row.n]
    arguments = ["--judgments", str(path), "--sequential", "--range", "0,100", "--systems", ",".join(judged), "--json"]
    code = run(["estimate", str(SHARED / "wmt24-esa-en-ja-waves23.jsonl.gz"), *arguments])
    printed = capsys.readouterr()
    assert code == 0, printed.err
    document = json.loads(printed.out)
    assert document["items"] == 634
    assert document["decided"] > 10
