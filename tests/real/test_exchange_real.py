"""A real campaign goes through other tools and comes back: the estimates are those of its own judgments."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import aliquot
from aliquot.collect.exchange import KEY, write_for
from aliquot.collect.new_campaign import CampaignSettings, gather_inputs

DATA = Path(__file__).parents[2].parent / "shared" / "data"
pytestmark = [
    pytest.mark.skipif(not DATA.exists(), reason=f"the real data are not at {DATA}"),
    pytest.mark.filterwarnings("ignore::aliquot.errors.AliquotWarning"),
]


@pytest.mark.parametrize("name", ["wmt24-esa-en-cs-waves23", "summeval"])
def test_scores_that_come_back_from_potato_give_the_same_estimates(name, tmp_path):
    data = aliquot.load(DATA / f"{name}.jsonl.gz").keep(systems=aliquot.load(DATA / f"{name}.jsonl.gz").systems[:4])
    assert data.human is not None
    chosen = aliquot.select(data, "random", 25, seed=3)
    inputs = gather_inputs(data, chosen, "da", ["ann"], CampaignSettings(seed=1, skip_missing=True))
    files = write_for("potato", inputs)
    shown = files["potato/data/items.jsonl"].decode() + files["potato/config.yaml"].decode()
    assert not any(f'"{item}"' in shown for item in data.ids if isinstance(item, str))
    scores = {
        (str(i), s): data.scores[data.human][row, at]
        for row, i in enumerate(data.ids)
        for at, s in enumerate(data.systems)
    }
    key = pl.read_csv(files[KEY], infer_schema=False).iter_rows(named=True)
    answers = [
        {
            "instance_id": row["cell"],
            "user_id": "ann",
            "spans": {},
            "labels": {"score": {"score": str(scores[row["item"], row["system"]])}},
        }
        for row in key
        if scores[row["item"], row["system"]] == scores[row["item"], row["system"]]
    ]
    (tmp_path / "key.csv").write_bytes(files[KEY])
    (tmp_path / "potato.jsonl").write_text("".join(json.dumps(answer) + "\n" for answer in answers))
    back = aliquot.load_judgments(tmp_path / "potato.jsonl", key=tmp_path / "key.csv")
    bare = aliquot.EvalSet(data.items, data.systems, {}, data.outputs, name=data.name)
    ours = aliquot.estimate(data, "mean", selection=chosen)
    theirs = aliquot.estimate(bare, "mean", selection=chosen, judgments=back)
    assert {r.system: r.estimate for r in theirs.systems} == pytest.approx({r.system: r.estimate for r in ours.systems})
