"""Small campaigns with known scores, for all tests of estimate."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import polars as pl
import pytest

from aliquot import EvalSet

Campaign = Callable[..., EvalSet]


def build(
    items: int = 60,
    systems: int = 3,
    metrics: int = 2,
    *,
    judged: Sequence[int] | None = None,
    documents: int = 5,
    noise: float = 6.0,
    seed: int = 0,
) -> EvalSet:
    """Scores around 60 - 4 x system, hard and easy items, documents of this length (0: none), two domains, metrics.

    With `judged` only these items keep their human score.
    """
    rng = np.random.default_rng(seed)
    length = documents or 1
    difficulty = 6.0 * rng.normal(size=-(-items // length)).repeat(length)[:items] + 6.0 * rng.normal(size=items)
    human = 60.0 - difficulty[:, None] - 4.0 * np.arange(systems) + noise * rng.normal(size=(items, systems))
    scores = {"human": human}
    scores |= {f"m{k}": human + (4.0 + 4.0 * k) * rng.normal(size=human.shape) for k in range(metrics)}
    if judged is not None:
        scores["human"] = np.where(np.isin(np.arange(items), judged)[:, None], human, np.nan)
    columns = {"id": np.arange(items), "domain": ["news" if at % 5 < 3 else "speech" for at in range(items)]}
    if documents:
        columns["document"] = [f"d{at // documents}" for at in range(items)]
    names = tuple("ABCDEFGHIJ"[:systems])
    return EvalSet(items=pl.DataFrame(columns), systems=names, scores=scores, human="human", name="campaign")


@pytest.fixture
def campaign() -> Campaign:
    return build
