"""Texts as proxies: what the outputs of an item say of each other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aliquot
from aliquot.core.evalset import EvalSet
from aliquot.estimation.proxies import rich_proxies, text_features
from aliquot.stats.text_similarity import similarity_to_others


def dice(a: str, b: str) -> float:
    """Of word multisets, by counting."""
    left, right = a.split(), b.split()
    if not left or not right:
        return 1.0
    common = sum(min(left.count(word), right.count(word)) for word in set(left))
    return 2 * common / (len(left) + len(right))


@given(st.lists(st.lists(st.one_of(st.none(), st.text("ab ", max_size=6)), min_size=1, max_size=4), max_size=4))
@settings(max_examples=100, deadline=None)
def test_agreement_is_the_mean_over_the_other_outputs(rows: list[list[str | None]]) -> None:
    width = max(map(len, rows), default=0)
    rows = [[*row, *[None] * (width - len(row))] for row in rows]
    found = similarity_to_others(rows)
    for at, row in enumerate(rows):
        for a, text in enumerate(row):
            others = (
                [dice(text, other) for b, other in enumerate(row) if b != a and other is not None]
                if text is not None
                else []
            )
            assert found[at, a] == pytest.approx(np.mean(others) if others else np.nan, nan_ok=True)


def campaign(n: int = 400, m: int = 6, seed: int = 0) -> EvalSet:
    """Bad outputs differ from the others: each word is replaced with a probability that is the output's error."""
    rng = np.random.default_rng(seed)
    error = rng.uniform(0.0, 0.6, (n, m))
    outputs = {
        f"s{a}": [
            " ".join(f"w{i % 7}{k}" if rng.random() > error[i, a] else f"x{rng.integers(10_000)}" for k in range(20))
            for i in range(n)
        ]
        for a in range(m)
    }
    human = -100 * error + rng.normal(0, 5, error.shape)
    items = pl.DataFrame({"id": np.arange(n)})
    return EvalSet(items, tuple(outputs), {"human": human}, outputs=pl.DataFrame(outputs), human="human")


def test_texts_alone_take_the_error_down_and_can_be_left_out() -> None:
    data = campaign()
    truth = data.scores["human"].mean(axis=0)
    errors: dict[str, list[float]] = {"greg:texts=yes": [], "greg": []}
    for seed in range(12):
        chosen = aliquot.select(data, "segments", 40, seed=seed)
        for method, found in errors.items():
            made = aliquot.estimate(data, method, selection=chosen, target="given")
            found.append(np.mean([abs(made[s].estimate - truth[a]) for a, s in enumerate(data.systems)]))
    assert np.mean(errors["greg:texts=yes"]) < 0.75 * np.mean(errors["greg"])


def test_features_without_outputs_or_with_too_few_are_none() -> None:
    data = campaign(20)
    assert text_features(replace(data, outputs=None)) == {}
    assert text_features(data.keep(systems=["s0", "s1"])) == {}
    nobody = pl.DataFrame({name: ["same text"] * 20 for name in data.systems})
    assert text_features(replace(data, outputs=nobody)) == {}
    assert rich_proxies(data, [], np.arange(20), texts=False).width == 0
    assert rich_proxies(data, [], np.arange(20)).width == len(text_features(data)) == 3


def test_a_missing_output_is_filled_and_half_missing_is_left_out() -> None:
    data = campaign(30)
    assert data.outputs is not None
    one = data.outputs.with_columns(s0=pl.Series([None, *data.outputs["s0"].to_list()[1:]]))
    assert all(np.isfinite(part).all() for part in text_features(replace(data, outputs=one)).values())
    most = pl.DataFrame({name: [None] * 20 + data.outputs[name].to_list()[20:] for name in data.systems})
    assert text_features(replace(data, outputs=most)) == {}
