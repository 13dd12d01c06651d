"""Logs that Inspect wrote: every mean is the one that it reports."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import aliquot
from aliquot.io.files import decode_json
from aliquot.io.formats.inspect_logs import HEADER
from aliquot.io.zip_archive import list_members, read_member

LOGS = Path(__file__).parents[2].parent / "shared" / "data" / "harness" / "inspect"
pytestmark = pytest.mark.skipif(not LOGS.exists(), reason=f"the logs are not at {LOGS}")


def test_the_means_are_those_in_the_logs() -> None:
    data = aliquot.load(LOGS)
    compared = 0
    for path in LOGS.glob("*.eval"):
        raw = path.read_bytes()
        header = decode_json(read_member(raw, list_members(raw, path)[HEADER], path), str(path), "")
        column = data.systems.index(header["eval"]["model"])
        for score in header["results"]["scores"]:
            for metric in ("accuracy", "mean"):
                if metric in score["metrics"]:
                    mean = np.nanmean(data.scores[score["name"]][:, column])  # every sample has as many epochs
                    assert mean == pytest.approx(score["metrics"][metric]["value"])
                    compared += 1
    assert compared == 2 * len(data.systems)


def test_draws_have_one_prompt_and_texts() -> None:
    data = aliquot.load(LOGS)
    assert data.items["document"].n_unique() * 2 == len(data.items)
    assert data.outputs is not None
    assert data.outputs.null_count().sum_horizontal().item() == 0
    assert {"seconds", "tokens"} <= data.usage.keys()
