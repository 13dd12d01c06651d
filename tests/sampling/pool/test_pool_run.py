"""A pool and a loaded file give the same selection, however the pool is cut and wherever it is read."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.sampling.pool.conftest import Item, records, same, write_lines, write_rows

import aliquot
from aliquot import EvalSet
from aliquot.core.evalset import take_rows
from aliquot.sampling.pool import select_pool
from aliquot.sampling.pool_methods import pool_kmeans

estimate_given = partial(aliquot.estimate, target="given")  # the mean of these very scores, whose truth is known

pytestmark = pytest.mark.filterwarnings("ignore::aliquot.AliquotWarning")

METHODS = [
    ("auto", {}),
    ("pps:size=length", {}),
    ("pps:size=clicks,tau=0.3", {}),
    ("pps:size=equal,spread=none", {}),
    ("pps:size=error,slopes=0.1|0.5", {"balance": "domain"}),
    ("pps:size=source_length", {}),
    ("pps:size=(source:column=clicks),tau=0.3", {}),
    ("pps:size=cost", {}),
    ("pps:size=length", {"cost": "cost"}),
    ("pps:size=length", {"cost": "esa_time"}),
    ("segments", {}),
    ("stratified:bins=domain", {}),
    ("stratified", {}),
    ("stratified:bins=domain", {"balance": "domain"}),
    ("documents", {}),
    ("snippets_fixed:length=3", {}),
    ("snippets_budgeted", {}),
    ("random", {}),
    ("source_length", {}),
    ("source_length", {"balance": "domain"}),
    ("source:column=clicks", {}),
    ("uncertainty:score=clicks,first=low", {}),
]


@pytest.mark.parametrize(("method", "options"), METHODS)
def test_streamed_is_what_select_gives_in_memory(
    method: str, options: dict[str, Any], lines: Path, loaded: EvalSet
) -> None:
    whole = aliquot.select(loaded, method, "15%", seed=5, **options)
    for size in (1 << 25, 5000, 301):
        same(select_pool(lines, method, "15%", seed=5, partition_bytes=size, **options).selection, whole)


def test_a_learned_model_gives_what_select_gives_in_memory(lines: Path, loaded: EvalSet, model: Path) -> None:
    spec = f"source:model={model},pair=en-de"
    whole = aliquot.select(loaded, spec, 40, seed=2)
    same(select_pool(lines, spec, 40, seed=2, partition_bytes=5000).selection, whole)


def test_pps_by_a_learned_model_gives_what_select_gives_in_memory(lines: Path, loaded: EvalSet, model: Path) -> None:
    spec = f"pps:size=(source:model={model},pair=en-de),tau=0.2"
    whole = aliquot.select(loaded, spec, 50, seed=4)
    same(select_pool(lines, spec, 50, seed=4, partition_bytes=4000).selection, whole)


def test_a_predictor_of_the_users_own(
    lines: Path, loaded: EvalSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_pool_models.py").write_text("def longest(texts):\n    return [len(text) for text in texts]\n")
    monkeypatch.chdir(tmp_path)
    spec = "source:predictor=my_pool_models:longest"
    same(select_pool(lines, spec, 20, partition_bytes=3000).selection, aliquot.select(loaded, spec, 20))


@pytest.mark.parametrize("name", ["pool.jsonl.gz", "pool.parquet"])
@pytest.mark.parametrize("method", ["pps:size=length", "stratified:bins=domain", "source_length"])
def test_every_kind_of_file_gives_the_same(
    name: str, method: str, items: list[Item], loaded: EvalSet, tmp_path: Path
) -> None:
    write = write_rows if name.endswith("parquet") else write_lines
    path = write(tmp_path / name, items)
    same(select_pool(path, method, 60, seed=1, partition_rows=70).selection, aliquot.select(loaded, method, 60, seed=1))


def test_several_files_of_several_kinds_are_one_pool(items: list[Item], lines: Path, tmp_path: Path) -> None:
    write_lines(tmp_path / "a.jsonl", items[:100])
    write_lines(tmp_path / "b.jsonl.gz", items[100:250])
    write_rows(tmp_path / "c.parquet", items[250:], row_group_size=50)
    one = select_pool(lines, "pps:size=length", 60, seed=1)
    several = select_pool(str(tmp_path / "*"), "pps:size=length", 60, seed=1, partition_rows=64, partition_bytes=2000)
    same(several.selection, one.selection)
    assert several.items["source"].to_list() == one.items["source"].to_list()
    assert several.selection.signature == one.selection.signature


def test_processes_follow_into_another_folder(items, tmp_path, monkeypatch):
    """joblib keeps its processes: those of the first call started elsewhere."""
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        monkeypatch.chdir(folder)
        write_lines(folder / "pool.jsonl", items)
        Path("here_models.py").write_text(f"def {name}(texts):\n    return [len(text) for text in texts]\n")
        method = f"source:predictor=here_models:{name}"
        apart = select_pool("pool.jsonl", method, 20, jobs=2, partition_bytes=6000)
        same(apart.selection, select_pool("pool.jsonl", method, 20, jobs=1).selection)


def test_processes_change_nothing(lines: Path) -> None:
    one = select_pool(lines, "pps:size=length", 60, seed=1, partition_bytes=4000)
    two = select_pool(lines, "pps:size=length", 60, seed=1, partition_bytes=4000, jobs=2)
    same(one.selection, two.selection)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_lines(tmp_path_factory.mktemp("cut") / "small.jsonl", records(150, seed=2))


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(400, 6000), st.integers(0, 5), st.integers(1, 120))
def test_any_cutting_gives_the_same(small: Path, size: int, seed: int, budget: int) -> None:
    whole = select_pool(small, "pps:size=length", budget, seed=seed).selection
    same(select_pool(small, "pps:size=length", budget, seed=seed, partition_bytes=size).selection, whole)


def test_inclusion_probabilities_are_exact(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "small.jsonl", records(60, seed=3))
    draws, drawn, told = 800, np.zeros(60), np.zeros(60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(draws):
            chosen = select_pool(path, "pps:size=length,tau=0.2", 8, seed=seed).selection
            rows = [int(str(item).removeprefix("item")) for item in chosen.ids]
            drawn[rows] += 1
            told[rows] = chosen.probability
    assert told.sum() == pytest.approx(8)
    error = np.sqrt(told * (1 - told) / draws) + 1e-9
    assert (np.abs(drawn / draws - told) < 4.5 * error).all()


def test_the_saved_selection_holds_the_sources_and_is_read_back(lines: Path, items: list[Item], tmp_path: Path) -> None:
    chosen = select_pool(lines, "pps:size=length", 30, seed=1)
    chosen.save(tmp_path / "chosen.jsonl")
    assert aliquot.Selection.load(tmp_path / "chosen.jsonl") == chosen.selection
    again = aliquot.load(tmp_path / "chosen.jsonl", sources_only=True)
    by_id = {item["i"]: item for item in items}
    assert again.items["source"].to_list() == [by_id[i]["src"] for i in chosen.selection.ids]
    assert again.items["clicks"].to_list() == [by_id[i]["clicks"] for i in chosen.selection.ids]
    assert chosen.to_frame().height == 30
    assert len(chosen.to_dict()["sources"]) == 30


def test_items_without_ids_are_numbered_through_the_pool(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_lines(tmp_path / f"{name}.jsonl", [{"src": f"text {name} {k}"} for k in range(5)])
    chosen = select_pool([tmp_path / "b.jsonl", tmp_path / "a.jsonl"], "segments", None)
    assert dict(zip(chosen.selection.ids, chosen.items["source"], strict=True))[7] == "text a 2"


def test_ids_of_two_kinds_become_texts(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", [{"i": 1, "src": "a"}, {"i": "x", "src": "b"}, {"i": 2, "src": "c"}])
    chosen = select_pool(path, "segments", 3, partition_bytes=1)
    assert set(chosen.selection.ids) == {"1", "x", "2"}


def test_columns_may_bear_other_names(tmp_path: Path) -> None:
    write_rows(tmp_path / "a.parquet", [{"key": f"k{n}", "text": "word " * n, "id": "no"} for n in range(1, 30)])
    chosen = select_pool(tmp_path / "a.parquet", "source_length", 3, columns={"id": "key", "source": "text"})
    assert chosen.selection.ids == ("k29", "k28", "k27")
    write_rows(tmp_path / "b.parquet", [{"id": n, "source": "word " * n} for n in range(1, 30)])
    assert select_pool(tmp_path / "b.parquet", "source_length", 2).selection.ids == (29, 28)


def test_a_field_may_be_a_group_and_something_else(lines: Path, loaded: EvalSet, model: Path) -> None:
    spec = f"source:model={model},pair=en-de"  # a model looks at the domain, too
    whole = aliquot.select(loaded, spec, 40, balance="domain")
    same(select_pool(lines, spec, 40, balance="domain", partition_bytes=5000).selection, whole)
    whole = aliquot.select(loaded, "segments", "40cost", balance="cost", cost="cost")
    same(select_pool(lines, "segments", "40cost", balance="cost", cost="cost").selection, whole)


def test_of_two_names_for_a_role_the_item_formats_counts(tmp_path: Path) -> None:
    rows = [{"i": f"k{n}", "id": "other", "src": b"word " * n, "source": "other"} for n in range(1, 9)]
    chosen = select_pool(write_rows(tmp_path / "a.parquet", rows), "source_length", 2)
    assert chosen.selection.ids == ("k8", "k7")
    assert chosen.items["source"].to_list() == ["word " * 8, "word " * 7]  # bytes of the file are text here, too
    assert chosen.items["field:id"].to_list() == ["other", "other"]


def test_estimates_from_the_chosen_items_alone_are_about_the_pool(tmp_path: Path) -> None:
    """Outputs are made for the chosen items only: their metrics' mean is not the pool's, and the rest is unjudged."""
    full = aliquot.synthetic(items=400, systems=3, seed=5)
    aliquot.save(full, tmp_path / "pool.jsonl")
    chosen = select_pool(tmp_path / "pool.jsonl", "pps:size=length", 40, seed=1).selection
    part = take_rows(full, np.flatnonzero(full.items["id"].is_in(chosen.ids)))
    known, alone = (estimate_given(data, "mean", selection=chosen) for data in (full, part))
    assert part.n_items == 40
    assert alone.population == known.population == 400
    assert alone.to_frame().equals(known.to_frame())
    assert estimate_given(part, selection=chosen).to_frame()["estimate"].equals(known.to_frame()["estimate"])


# -- duplicates ------------------------------------------------------------------------------------------------------


def test_repeated_sources_are_left_out(tmp_path: Path) -> None:
    items = records(200)
    for k in range(54, 60):
        items[k + 40]["src"] = items[k]["src"].upper() + "  "
    items[70]["src"] = items[20]["src"] + " ."
    path = write_lines(tmp_path / "a.jsonl", items)
    exact = select_pool(path, "segments", 20, dedup="exact", seed=1, partition_bytes=2000)
    # Item 3 is empty; item 7 has no source and item 13 only spaces, which read the same.
    repeats = ["item7", "item13", *(f"item{k}" for k in range(94, 100))]
    assert exact.duplicates == len(repeats)
    whole = aliquot.select(aliquot.load(path, sources_only=True), "segments", 20, seed=1, exclude_items=repeats)
    assert exact.selection.ids == whole.ids
    near = select_pool(path, "segments", 20, dedup="near", seed=1, partition_bytes=2000)
    assert near.duplicates == exact.duplicates + 1
    assert near.selection.population == 200 - near.duplicates
    assert near.selection.details["duplicates"] == near.duplicates


# -- clusters --------------------------------------------------------------------------------------------------------


def test_kmeans_covers_the_topics_whatever_the_cutting(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    topics = [["cat", "dog", "horse"], ["bank", "money", "loan"], ["piano", "violin", "flute"]]
    items = [{"i": k, "src": " ".join(rng.choice(topics[k % 3], 8))} for k in range(300)]
    path = write_lines(tmp_path / "a.jsonl", items)
    chosen = select_pool(path, "kmeans", 3, seed=1)
    assert {int(i) % 3 for i in chosen.selection.ids} == {0, 1, 2}
    same(select_pool(path, "kmeans", 3, seed=1, partition_bytes=999, jobs=2).selection, chosen.selection)
    weighted = select_pool(path, "kmeans:weighted=yes", 3, seed=1).selection
    assert weighted.to_frame()["weight"].sum() == pytest.approx(300)


def test_kmeans_learns_from_batches_of_a_large_pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aliquot.sampling.pool_methods._BATCH", 50)
    path = write_lines(tmp_path / "a.jsonl", records(400))
    chosen = select_pool(path, "kmeans", 10, seed=1).selection
    assert len(chosen) == len(set(chosen.ids)) == 10
    same(select_pool(path, "kmeans", 10, seed=1, partition_bytes=3000).selection, chosen)


def test_equal_vectors_still_give_n_items_and_weights_share_a_cluster():
    vectors = np.ones((6, 2))
    chosen = pool_kmeans(vectors, np.arange(6), 3, np.random.default_rng(0), weighted=True)
    assert len(set(chosen.rows.tolist())) == 3
    assert chosen.weight is not None
    assert chosen.weight.sum() == pytest.approx(6.0)
    assert pool_kmeans(vectors, np.arange(6), 9, np.random.default_rng(0)).rows.tolist() == list(range(6))
