"""Small pools in files, and the same items loaded into memory."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import aliquot

Item = dict[str, Any]
TEXTS = [
    "",
    "  ",
    "שלום עולם, מה שלומך היום",
    "混ざった scripts и слова 一二三",
    "tab\there \x00\x07 bell",
    "word " * 400,
]


def records(count: int = 600, seed: int = 1) -> list[Item]:
    rng = np.random.default_rng(seed)
    items: list[Item] = []
    for k in range(count):
        words = " ".join(f"w{w}" for w in rng.integers(0, 400, rng.integers(1, 30)))
        item: Item = {"i": f"item{k}", "src": words, "domain": ["news", "talks", None][k % 3], "position": int(k % 5)}
        item |= {"cost": round(float(rng.uniform(1, 3)), 3), "clicks": round(float(rng.normal()), 4)}
        if k % 31:
            item["doc"] = f"d{k // 7}"
        items.append(item)
    for at, text in enumerate(TEXTS):
        items[10 * at + 3]["src"] = text
    items[7]["src"] = None
    items[8]["clicks"] = None
    return items


def write_lines(path: Path, items: list[Item]) -> Path:
    raw = "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in items).encode()
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
    return path


def write_rows(path: Path, items: list[Item], **options: Any) -> Path:
    pl.DataFrame(items, infer_schema_length=None).write_parquet(path, **options)
    return path


@pytest.fixture(scope="session")
def items() -> list[Item]:
    return records()


@pytest.fixture(scope="session")
def lines(items: list[Item], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_lines(tmp_path_factory.mktemp("pool") / "pool.jsonl", items)


@pytest.fixture(scope="session")
def loaded(lines: Path) -> aliquot.EvalSet:
    return aliquot.load(lines, sources_only=True)


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "utility.model"
    aliquot.learn(aliquot.synthetic(items=120, systems=4, seed=3), "metric_avg").model.save(path)
    return path


def same(a: aliquot.Selection, b: aliquot.Selection) -> None:
    """Assert that two selections are the same in all but the signature."""
    assert a.ids == b.ids
    assert a.to_frame().equals(b.to_frame())
    assert dict(a.details) == dict(b.details)
    assert a.design == b.design
    assert (a.method, a.population) == (b.method, b.population)
