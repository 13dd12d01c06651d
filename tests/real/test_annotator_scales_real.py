"""No annotator of a real campaign is accused; one whose answers are changed is found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from tests.real.conftest import load_real

from aliquot import Judgments
from aliquot.core.annotator_scales import annotator_notes

DATA = Path(__file__).parents[3] / "shared" / "data"
CAMPAIGNS = sorted(path.name for path in DATA.glob("*.jsonl.gz"))
pytestmark = pytest.mark.skipif(not CAMPAIGNS, reason=f"no campaigns in {DATA}")


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_nobody_is_accused(name):
    assert annotator_notes(load_real(name)) == []


@pytest.mark.parametrize("name", ["wmt24-esa-en-cs-waves23.jsonl.gz", "dialsummeval.jsonl.gz"])
@pytest.mark.parametrize("change", [pl.col("value") / 10, -pl.col("value")], ids=["0 to 10", "signs"])
def test_a_changed_annotator_is_found(name, change):
    if name not in CAMPAIGNS:
        pytest.skip(f"no {name} in {DATA}")
    data = load_real(name)
    assert data.judgments is not None
    who = data.judgments.table["annotator"].value_counts(sort=True)["annotator"][0]
    mine = pl.when(pl.col("annotator") == who).then(change).otherwise("value").alias("value")
    notes = annotator_notes(replace(data, judgments=Judgments(data.judgments.table.with_columns(mine))))
    assert notes
    assert all(f"annotator '{who}'" in note for note in notes)
