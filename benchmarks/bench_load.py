"""Loading: against the bare parsing of the same bytes, and at a million items."""

from __future__ import annotations

import gzip
import json
import multiprocessing
import tempfile
from pathlib import Path

import harness
import numpy as np
import polars as pl

import aliquot


def measure() -> list[harness.Row]:
    with tempfile.TemporaryDirectory() as folder:
        rows = [_against_bare_json(Path(folder))]
        small, _ = _in_fresh_process(Path(folder), 100_000)
        large, memory = _in_fresh_process(Path(folder), 1_000_000)
    rows.append(harness.within("load Parquet long table, 1,000,000 x 10 x 2", large, 30))
    rows.append(harness.Row(f"  peak memory {memory:.1f} GB", large, None, "under 6 GB", memory < 6))
    growth = large / small / 10
    rows.append(
        harness.Row(f"  time per item, 1,000,000 against 100,000: x{growth:.2f}", small, None, "linear", growth < 1.5)
    )
    return rows


def _against_bare_json(folder: Path) -> harness.Row:
    path = harness.SHARED / "wmt23-he-en.jsonl.gz"
    if not path.exists():
        path = folder / "synthetic.jsonl.gz"
        metrics = {f"m{k}": 0.5 for k in range(42)}
        aliquot.save(aliquot.synthetic(1900, 14, metrics=metrics, annotators=0), path)

    def bare() -> None:
        with gzip.open(path) as file:
            [json.loads(line) for line in file]

    ours, peer = harness.side_by_side(lambda: aliquot.load(path), bare, repeats=5)
    return harness.slower_at_most(f"load {path.name} (bare gzip + json.loads)", ours, peer, 1.3)


def _in_fresh_process(folder: Path, items: int) -> tuple[float, float]:
    """Time and peak memory of one load, in a process of its own so that memory is its own."""
    path = folder / f"long{items}.parquet"
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        pool.apply(_make_long_table, (path, items))
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_load, (path,))


def _make_long_table(path: Path, items: int) -> None:
    rng = np.random.default_rng(0)
    item = np.repeat(np.arange(items), 20)
    system = np.tile(np.repeat(np.arange(10), 2), items)
    table = pl.DataFrame(
        {
            "item": item,
            "system": pl.Series([f"system{k}" for k in range(10)]).gather(system),
            "metric": pl.Series(["human", "COMET"] * (10 * items)),
            "value": rng.normal(size=20 * items),
        }
    )
    table.with_columns(pl.format("segment-{}", "item").alias("item")).write_parquet(path)


def _load(path: Path) -> tuple[float, float]:
    elapsed = harness.seconds(lambda: aliquot.load(path))
    return elapsed, harness.peak_gigabytes()
