"""The real data beside the project: every file loads, survives round trips, and is described as its README says."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.real.conftest import load_real

from aliquot import EvalSet, load, save
from aliquot.cli.main import run

DATA = Path(__file__).parents[2].parent / "shared" / "data"
# items, of them with human scores, systems (judged ones, or all), documents, as the folder's README gives them
README: dict[str, tuple[int, int, int | None, int | None]] = {
    "wmt23-en-de": (557, 460, 14, 192),
    "wmt23-he-en": (1910, 820, 14, 94),
    "wmt23-mqm3raters-en-de": (104, 104, 9, 30),
    "newstest2021-mqm-en-de": (1002, 527, 17, None),
    "wmt24-esa-en-cs-waves23": (297, 297, 16, 85),
    "wmt24-esa-en-ja-waves23": (634, 634, 13, 170),
    "wmt22-da-de-en": (1984, 1984, 10, 271),
    "wmt22-calibration-en-cs": (83, 83, None, 8),
    "wmt22-calibration-zh-en": (95, 95, None, 15),
    "biomqm-en-de": (516, 516, 10, 50),
    "biomqm-de-en": (480, 480, 13, 50),
    "summeval": (100, 100, 16, None),
    "dialsummeval": (100, 100, 14, None),
    "realsumm": (100, 100, 25, None),
    "webnlg2020-en": (178, 178, 17, None),
    "arena-judge": (1000, 513, 4, None),
}
# Files that are added to the folder later are not this test's: an unchanged commit stays green.
FILES = [path for name in README if (path := DATA / f"{name}.jsonl.gz").is_file()]

pytestmark = pytest.mark.skipif(not FILES, reason=f"the real data are not at {DATA}")


def name_of(path: Path) -> str:
    return path.name.removesuffix(".jsonl.gz")


every_file = pytest.mark.parametrize("path", FILES, ids=name_of)


def loaded(path: Path) -> EvalSet:
    return load_real(path.name)


@cache
def raw(path: Path) -> list[dict[str, Any]]:
    """The file read as plainly as can be."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def documents(path: Path) -> int:
    return len({line["doc"] for line in raw(path) if line.get("doc") is not None})


@every_file
def test_sizes_are_those_of_the_readme(path):
    data = loaded(path)
    items, judged_items, systems, texts = README[name_of(path)]
    judged = np.isfinite(data.scores["human"])
    assert (data.n_items, int(judged.any(axis=1).sum())) == (items, judged_items)
    assert systems in (None, data.n_systems, int(judged.any(axis=0).sum()))
    assert texts in (None, documents(path))
    assert (0 if data.documents is None else int(data.documents.max()) + 1) == documents(path)
    assert data.human == "human"


@every_file
def test_every_number_and_text_is_where_a_plain_reading_has_it(path):
    data, lines = loaded(path), raw(path)
    column = {system: at for at, system in enumerate(data.systems)}
    assert data.ids == [line["i"] for line in lines]
    assert set(data.systems) == {
        system for line in lines for field in ("tgt", "scores") for system in line.get(field) or ()
    }
    for name, values in data.scores.items():
        expected = np.full(values.shape, np.nan)
        for row, line in enumerate(lines):
            for system, cell in line["scores"].items():
                if cell.get(name) is not None:
                    expected[row, column[system]] = cell[name]
        assert np.array_equal(values, expected, equal_nan=True), name
    if data.outputs is not None:
        for system in data.systems:
            assert data.outputs[system].to_list() == [(line.get("tgt") or {}).get(system) for line in lines]
    judgments = sum(len(line.get("judgments") or ()) for line in lines)
    assert (0 if data.judgments is None else len(data.judgments)) == judgments


@every_file
@pytest.mark.parametrize("ending", ["jsonl.gz", "parquet"])
def test_round_trip(path, ending, tmp_path):
    data = loaded(path)
    save(data, tmp_path / f"copy.{ending}")
    copy = load(tmp_path / f"copy.{ending}")
    assert copy == data
    assert copy.human == data.human
    assert copy.fingerprint == data.fingerprint


@every_file
def test_inspect_json(path, capsys):
    data = loaded(path)
    assert run(["inspect", str(path), "--json"]) == 0
    said = capsys.readouterr()
    document = json.loads(said.out)
    assert said.err == ""
    assert (document["items"], document["systems"]) == (data.n_items, list(data.systems))
    assert document["documents"] == documents(path)
    assert document["scores"]["human"]["items"] == README[name_of(path)][1]
    assert document["human"] == "human"
    assert set(document["scores"]) == set(data.scores)
    for score in document["scores"].values():
        assert 0 < score["coverage"] <= 1
        assert score["min"] <= score["mean"] <= score["max"]
        assert all(r is None or -1 <= r <= 1 for r in (score["item_pearson"], score["system_pearson"]))
    if data.judgments is not None:
        assert document["judgments"]["annotators"] == len(data.judgments.annotators)
    assert document["signature"].endswith(f"data:{data.fingerprint}")


@every_file
def test_inspect_prints_tables_that_fit(path, capsys):
    from rich.cells import cell_len

    assert run(["inspect", str(path)]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert f"{README[name_of(path)][0]} items x " in said.out
    assert max(cell_len(line) for line in said.out.splitlines()) <= 100
    assert "nan" not in said.out.replace("-", " ").split()


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_a_part_of_the_data_survives_too(ending, tmp_path):
    """Filtering leaves columns without any value behind; that must not count as a loss."""
    part = loaded(DATA / "wmt23-en-de.jsonl.gz").drop(systems=["refA", "synthetic_ref"])
    part = part.keep(items=part.ids[:20])
    save(part, tmp_path / f"part.{ending}")
    assert load(tmp_path / f"part.{ending}") == part


def test_good_metrics_are_told_from_bad_ones(capsys):
    """The README: `eBLEU` on WMT23 is close to noise."""
    assert run(["inspect", str(DATA / "wmt23-en-de.jsonl.gz"), "--json", "--exclude", "refA,synthetic_ref"]) == 0
    scores = json.loads(capsys.readouterr().out)["scores"]
    assert scores["XCOMET-Ensemble"]["item_pearson"] > 0.5
    assert scores["XCOMET-Ensemble"]["system_pearson"] > 0.8
    assert abs(scores["eBLEU"]["item_pearson"]) < 0.3


def test_people_counted_on_known_files():
    counts = {name: loaded(DATA / f"{name}.jsonl.gz") for name in ("wmt23-en-de", "wmt22-da-de-en", "summeval")}
    assert len(counts["wmt23-en-de"].judgments or ()) == 22398
    assert counts["wmt22-da-de-en"].judgments is not None
    assert len(counts["wmt22-da-de-en"].judgments.annotators) == 151
    summeval = counts["summeval"].judgments
    assert summeval is not None
    assert len(summeval.criteria) == 4
