"""Prompts made of their draws."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import aliquot
from aliquot.core.draws import combine_draws, has_draws, parse_draw_rule, prompt_ids
from aliquot.errors import DataError, OptionError


def make_draws(values: list[list[float]], prompts: list[str | None]) -> aliquot.EvalSet:
    items = pl.DataFrame(
        {
            "id": [f"i{row}" for row in range(len(prompts))],
            "document": prompts,
            "draw": [prompts[: row + 1].count(name) for row, name in enumerate(prompts)],
            "source": [f"say {name}" for name in prompts],
        }
    )
    scores = np.array(values)
    return aliquot.EvalSet(items, ("A", "B"), {"human": scores, "x": scores * 2}, human="human", usage={"s": scores})


PASSES = [[1.0, 0.0], [0.0, 0.0], [1.0, 1.0], [np.nan, 1.0], [0.0, 0.0]]
PROMPTS = ["p", "p", "q", "q", None]


def test_prompts_are_means_of_the_draws_that_have_a_score() -> None:
    data = make_draws(PASSES, PROMPTS)
    combined = combine_draws(data)
    assert has_draws(data)
    assert not has_draws(combined)
    assert combined.ids == ["p", "q", "i4"]
    assert combined.score("human").tolist() == [[0.5, 0.0], [1.0, 1.0], [0.0, 0.0]]
    assert combined.score("x").tolist() == [[1.0, 0.0], [2.0, 2.0], [0.0, 0.0]]
    assert combined.usage["s"].tolist() == combined.score("human").tolist()
    assert combined.items.columns == ["id", "source"]
    assert combined.human == "human"
    assert prompt_ids(data).to_list() == ["p", "p", "q", "q", "i4"]


def test_scores_of_passes_change_the_human_score_only() -> None:
    data = make_draws([[1.0, 0.0], [0.0, 0.0], [1.0, 1.0], [0.0, 1.0]], ["p", "p", "q", "q"])
    assert combine_draws(data, "pass@2").score("human").tolist() == [[1.0, 0.0], [1.0, 1.0]]
    assert combine_draws(data, "pass^2").score("human").tolist() == [[0.0, 0.0], [0.0, 1.0]]
    assert combine_draws(data, "majority").score("human").tolist() == [[0.5, 0.0], [0.5, 1.0]]
    assert combine_draws(data, "majority").score("x").tolist() == combine_draws(data).score("x").tolist()
    other = combine_draws(replace(data, human=None), "pass@1", human="human")
    assert other.human == "human"
    assert other.score("human").tolist() == [[0.5, 0.0], [0.5, 1.0]]


def test_what_cannot_be_combined_is_named() -> None:
    with pytest.raises(DataError, match=r"needs 2 draws with a score, and prompt q has 1 of A \(2 prompts in all"):
        combine_draws(make_draws(PASSES, PROMPTS), "pass@2")
    with pytest.raises(DataError, match=r"'human' has 0\.5"):
        combine_draws(make_draws([[1.0, 0.5], [0.0, 0.0]], ["p", "p"]), "majority")
    for wrong in ("pass@0", "pass", "median", "pass@-1"):
        with pytest.raises(OptionError, match="`draws` is"):
            parse_draw_rule(wrong)


def test_judgments_keep_their_rows() -> None:
    data = aliquot.synthetic(items=40, systems=2, document_length=0, annotators=3, seed=1)
    draws = data.items.with_columns(
        pl.Series("document", [f"p{row // 4}" for row in range(40)]),
        pl.Series("draw", [row % 4 + 1 for row in range(40)]),
    )
    combined = combine_draws(replace(data, items=draws))
    assert data.judgments is not None
    assert combined.judgments is not None
    assert len(combined.judgments) == len(data.judgments) == 80
    assert combined.judgments.cell_means().height == 20
    assert sorted(combined.judgments.table["draw"].unique().to_list()) == [1, 2, 3, 4]
    means = combined.judgments.cell_means()
    assert combined.score("human")[combined.cell_index(means["item"], means["system"])] == pytest.approx(
        means["value"].to_numpy()
    )


def test_without_draws_items_are_prompts() -> None:
    data = aliquot.synthetic(items=30, systems=2, seed=1)  # it has documents, but no draws
    assert not has_draws(data)
    assert combine_draws(data).ids == data.ids
    single = data.items.with_columns(pl.lit(1).alias("draw"), pl.col("id").cast(pl.String).alias("document"))
    assert not has_draws(replace(data, items=single))
