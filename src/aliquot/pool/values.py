"""The number that a source gets: its length, a column, what a learned model or a predictor of the user's gives."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl

from aliquot.data.files import read_bytes
from aliquot.data.language_pairs import COLUMNS, pair_in
from aliquot.data.parameters import bind
from aliquot.data.source_model import SourceModel
from aliquot.data.spec import Spec
from aliquot.errors import DataError, OptionError
from aliquot.select.embedding import embed
from aliquot.select.registry import lookup
from aliquot.select.sources import imported
from aliquot.stats.arrays import FloatArray

HINTS = ("domain", *COLUMNS)
"""Columns that a model looks at where they are there."""

_ENDINGS = (".gz", ".jsonl", ".json", ".ndjson", ".parquet")


@dataclass(frozen=True)
class Value:
    """How every source gets its number.

    Attributes:
        kind: length, column, model (a file that `aliquot learn` wrote) or predictor (module:function).
        name: the column, file or function.
        pair: the language pair that a model is told.
        check: a digest of the model's or function's file, so that a run does not go on with another one.
    """

    kind: Literal["length", "column", "model", "predictor"]
    name: str = ""
    pair: str | None = None
    check: str = ""


def value_of_method(spec: Spec, pair: str | None) -> Value:
    """Read `source_length` or `source:model=FILE` (predictor=module:function, column=NAME)."""
    method, _ = lookup(spec.name)
    given = bind(spec.name, method.parameters, spec.parameters)
    if spec.name == "source_length":
        return Value("length")
    chosen = [name for name in ("model", "predictor", "column") if given.get(name)]
    if len(chosen) != 1:
        what = f"{' and '.join(chosen)} are given" if chosen else "nothing is given"
        raise OptionError(
            f"source: {what}; give one of model=FILE (from `aliquot learn`), predictor=module:function or column=NAME"
        )
    name = str(given[chosen[0]])
    if chosen == ["column"]:
        return Value("column", name)
    if chosen == ["predictor"]:
        imported(name)  # a mistake is told before any work
        code = getattr(sys.modules[name.partition(":")[0]], "__file__", None)
        return Value("predictor", name, check=_digest(code) if code else "")
    _model(name, _state(name))
    return Value("model", str(Path(name).resolve()), given.get("pair") or pair, _digest(name))


def _digest(name: str) -> str:
    return hashlib.sha256(read_bytes(name)).hexdigest()[:16]


def predicted(value: Value, table: pl.DataFrame, path: str) -> tuple[FloatArray, FloatArray | None]:
    """Return what a model or predictor gives for the sources, and for a model how unlike its own they are."""
    texts = table["source"].to_list()
    if value.kind == "predictor":
        return _by_function(value.name, texts), None
    model = _model(value.name, _state(value.name))
    vectors = embed([text or "" for text in texts], model.embedding) if model.embedding else None
    pairs = value.pair if value.pair is not None else _pairs(table, path)
    domains = table["hint:domain"].to_list()
    return model.assess(texts, pair=pairs, domain=domains, vectors=vectors)


def _pairs(table: pl.DataFrame, path: str) -> list[str | None] | str | None:
    """Every source's language pair: what its columns say, or else the file's name."""
    told = table.select(pl.coalesce([f"hint:{name}" for name in COLUMNS])).to_series()
    if told.null_count() < len(told):
        return told.to_list()
    name = Path(path).name
    for ending in _ENDINGS:
        name = name.removesuffix(ending)
    return pair_in(name)


def _by_function(name: str, texts: list[str | None]) -> FloatArray:
    try:
        values = np.asarray(imported(name)([text or "" for text in texts]), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"source: the predictor {name} did not give numbers ({error})") from None
    if values.shape != (len(texts),):
        raise DataError(f"source: the predictor {name} gave an array of shape {values.shape} for {len(texts)} sources")
    return np.where(np.isfinite(values), values, np.nan)


def _state(name: str) -> tuple[int, int]:
    path = Path(name)
    return (path.stat().st_size, path.stat().st_mtime_ns) if path.exists() else (0, 0)


@lru_cache(maxsize=2)
def _model(name: str, state: tuple[int, int]) -> SourceModel:
    """Load a model once for each process."""
    del state  # a file that changed is loaded anew
    return SourceModel.load(name)
