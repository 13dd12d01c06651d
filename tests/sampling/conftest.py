"""Small sets that the tests of this room share, and ways to select from them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

import aliquot
from aliquot import AliquotWarning, EvalSet, Selection
from aliquot.core.registry import parse_spec
from aliquot.sampling import designs
from aliquot.sampling.methods import DesignDraw, all_methods, find_method
from aliquot.sampling.select import select

LENGTHS = (1, 2, 3, 5, 6, 7, 4, 2)
DATA = aliquot.synthetic(items=60, systems=5, seed=2)
UNRATED = replace(DATA, scores={name: DATA.scores[name] for name in DATA.metrics}, judgments=None, human=None)


def small(scores: Any = None, **columns: Any) -> EvalSet:
    """Thirty items of eight documents with one metric, `m`."""
    rng = np.random.default_rng(4)
    n = sum(LENGTHS)
    items = {
        "id": np.arange(100, 100 + n),
        "document": np.repeat([f"d{at}" for at in range(len(LENGTHS))], LENGTHS),
        "domain": ["tiny"] * 3 + ["middle"] * 8 + ["large"] * (n - 11),
        "source": [f"word{at} " * int(rng.integers(1, 40)) for at in range(n)],
        "cost": rng.uniform(0.5, 3.0, n).round(2),
    }
    values = rng.normal(size=(n, 4)) if scores is None else scores
    return EvalSet(items=pl.DataFrame({**items, **columns}), systems=("A", "B", "C", "D"), scores={"m": values})


def runnable(name: str) -> dict[str, Any]:
    """What a method needs to be told on DATA beside a budget."""
    known = all_methods()[name].parameters
    if name == "source":  # its model is a file; tests/select/test_sources.py has one
        return {"predictor": "numpy.char:str_len"}
    given: dict[str, Any] = {"metric": "metricA", "model": "ngrams", "score": "metricB", "simulations": 20, "draws": 5}
    return {key: value for key, value in given.items() if key in known}


def chosen_by(name: str, data: EvalSet = UNRATED, budget: Any = 9, **options: Any) -> Selection:
    return select(data, name, budget, **runnable(name), **options)


def quietly(*arguments: Any, **options: Any) -> Selection:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AliquotWarning)
        return select(*arguments, **options)


def every_method(*, kinds: tuple[str, ...] = ("utility", "subset", "design")) -> list[str]:
    """All methods but pretrained, whose models are packages of their own (test_pretrained.py has small ones)."""
    return [name for name, method in all_methods().items() if method.kind in kinds and name != "pretrained"]


EVERY = pytest.mark.parametrize("name", every_method())


def total(data: EvalSet, selection: Selection, worth: np.ndarray) -> float:
    at = {item: row for row, item in enumerate(data.ids)}
    return float(sum(worth[at[item]] for item in selection.ids))


DOCUMENT_LENGTHS = (1, 2, 3, 5, 6, 7)
DOMAINS = ("news", "talk", "news", "talk", "talk", "news")
N = sum(DOCUMENT_LENGTHS)
BUDGET = 7
EXACT = ("segments", "stratified", "pps", "balanced", "snippets_budgeted", "casf")
MANY, FEWER = 8_000, 2_000


def interleaved(seed: int = 1, **changes: Any) -> EvalSet:
    """24 items of six documents, documents interleaved in the file, two metrics, a few missing cells."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(N)
    document = np.repeat(np.arange(len(DOCUMENT_LENGTHS)), DOCUMENT_LENGTHS)[order]
    difficulty = rng.normal(size=(N, 1))
    good, bad = (1.0 - difficulty + noise * rng.normal(size=(N, 3)) for noise in (0.3, 1.0))
    good[0, 1] = bad[5, 2] = np.nan
    items = pl.DataFrame(
        {
            "id": [f"i{at}" for at in range(N)],
            "document": [f"d{code}" for code in document],
            "domain": [DOMAINS[code] for code in document],
            "source": ["word " * int(length) for length in rng.integers(1, 20, N)],
            "cost": rng.uniform(1.0, 4.0, N),
            "points": rng.exponential(size=N),
        }
    )
    fields: dict[str, Any] = {"items": items, "systems": ("A", "B", "C"), "scores": {"good": good, "bad": bad}}
    return EvalSet(**{**fields, **changes})


def documents_of(evalset: EvalSet) -> np.ndarray:
    codes = evalset.documents
    assert codes is not None
    return codes


@pytest.fixture
def remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute sizes and bins once and not at every draw: they do not depend on the draw and take most of the time."""
    for name in ("item_sizes", "item_quality", "bin_codes"):
        monkeypatch.setattr(designs, name, _once(getattr(designs, name)))


def _once(function: Callable[..., Any]) -> Callable[..., Any]:
    known: dict[Any, Any] = {}

    def remembering(*given: Any) -> Any:
        key = (tuple(given[0].ids), *given[1:])
        if key not in known:
            known[key] = function(*given)
        return known[key]

    return remembering


def drawn(evalset: EvalSet, spec: str, rng: np.random.Generator, n: int = BUDGET) -> DesignDraw:
    parsed = parse_spec(spec)
    result: DesignDraw = find_method(parsed.name)[0].run(evalset, parsed.parameters, n=n, rng=rng)
    return result


def assert_within_four_errors(counts: np.ndarray, pi: np.ndarray, draws: int) -> None:
    error = np.sqrt(pi * (1 - pi) / draws)
    off = counts / draws - pi
    assert np.all(np.abs(off) <= 4 * error + 1e-12), (off / np.maximum(error, 1e-12)).round(1)
