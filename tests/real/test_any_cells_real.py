"""Systems judged on different items of real campaigns: intervals hold, and P(best) does not overclaim much."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.real.conftest import load_real

import aliquot
from aliquot.simulation.setup import keep_complete

DATA = Path(__file__).parents[2].parent / "shared" / "data"
pytestmark = pytest.mark.skipif(not DATA.exists(), reason="the shared campaigns are not here")
REPEATS = 25


def campaign(name: str, human: str | None, references: list[str]) -> aliquot.EvalSet:
    data = load_real(name)
    data = data.with_human(human) if human else data
    data = data.drop(systems=references) if references else data
    return keep_complete(data)[0]


def thinned(data: aliquot.EvalSet, share: float, each: int, rng: np.random.Generator, *, rare: bool) -> aliquot.EvalSet:
    """Judge `each` random systems on some random items; the first system ten times less, if it is to be rare."""
    scores = data.human_score()
    keys = rng.random(scores.shape)
    if rare:
        keys[:, 0] += 2.0 * (rng.random(len(keys)) > 0.1)
    asked = (np.argsort(np.argsort(keys, axis=1), axis=1) < each) & (keys < 1.5)
    asked &= np.isin(np.arange(len(keys)), rng.choice(len(keys), round(share * len(keys)), replace=False))[:, None]
    return data.with_score(str(data.human), np.where(asked, scores, np.nan))


@pytest.mark.parametrize(
    ("name", "human", "references"),
    [
        ("wmt23-mqm3raters-en-de", None, ["refA"]),
        ("wmt24-esa-en-cs-waves23", None, []),
        ("summeval", None, []),
    ],
)
@pytest.mark.parametrize(("share", "each", "rare"), [(1.0, 2, False), (0.3, 6, True)])
def test_intervals_hold(
    name: str, human: str | None, references: list[str], share: float, each: int, rare: bool
) -> None:
    data = campaign(name, human, references)
    truth = dict(zip(data.systems, data.human_score().mean(axis=0), strict=True))
    rng = np.random.default_rng(7)
    means, pairs = [], []
    for _ in range(REPEATS):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = aliquot.estimate(thinned(data, share, each, rng, rare=rare), target="given")
        means += [row.low <= truth[row.system] <= row.high for row in result.systems if row.low == row.low]
        pairs += [p.low <= truth[p.a] - truth[p.b] <= p.high for p in result.pairs if p.low == p.low]
    assert 0.91 <= np.mean(means) <= 0.99
    assert 0.91 <= np.mean(pairs) <= 0.99


@pytest.mark.parametrize("name", ["wmt22-da-de-en", "wmt22-calibration-en-cs"])
def test_no_false_certainty(name: str) -> None:
    """Every item is judged for some system, no system is judged on every item: nothing is certain."""
    result = aliquot.estimate(load_real(name), target="given")
    judged = [row for row in result.systems if row.n > 1]
    assert all(row.se > 0 for row in judged)
    assert len({row.cluster for row in judged}) < len(judged)
    for row in result.systems:
        if row.n == 0:
            assert (row.rank_low, row.cluster) == (None, None)
            assert np.isnan(row.p_best)


# -- what the number is about: one annotator drawn for each output ----------------------------------------------------


def one_rater(data: aliquot.EvalSet, share: float, rng: np.random.Generator) -> tuple[aliquot.Judgments, pl.DataFrame]:
    """One judgment of every output of some items, by an annotator drawn at random, and the mean over all of them."""
    assert data.judgments is not None
    table = data.judgments.table.filter(pl.col("value").is_not_null()).with_columns(pl.col("item").cast(pl.Int64))
    single = table.group_by("item", "system", "annotator").agg(pl.col("value").mean())
    cells = single.group_by("item", "system").agg(pl.len().alias("raters"), pl.col("value").mean().alias("mean"))
    several = cells.filter(pl.col("raters") == cells["raters"].max())
    chosen = rng.choice(sorted(several["item"].unique()), round(share * several["item"].n_unique()), replace=False)
    order = single.with_columns(pl.Series("key", rng.random(single.height))).sort("key")
    drawn = order.join(several, on=["item", "system"]).filter(pl.col("item").is_in(chosen.tolist()))
    drawn = drawn.group_by("item", "system", maintain_order=True).first()
    return aliquot.Judgments(drawn.select("item", "system", "annotator", "value")), several


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_testset_intervals_hold_for_what_the_other_raters_say(share: float) -> None:
    """Three raters, one drawn for each output: intervals about other annotators hold their mean, which has less noise.

    They are wider than needed for it: the truth is by the same three raters, of whom the interval allows for others.
    """
    data = load_real("wmt23-mqm3raters-en-de").drop(systems=["refA"])
    rng = np.random.default_rng(3)
    means, pairs = [], []
    for _ in range(12):
        judgments, everything = one_rater(data, share, rng)
        known = data.keep(items=sorted(everything["item"].unique().to_list()))
        truth = dict(everything.group_by("system").agg(pl.col("mean").mean()).iter_rows())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = aliquot.estimate(known, judgments=judgments)
        means += [row.low <= truth[row.system] <= row.high for row in result.systems if row.low == row.low]
        pairs += [p.low <= truth[p.a] - truth[p.b] <= p.high for p in result.pairs if p.low == p.low]
        assert all(row.se > 0 for row in result.systems if row.se == row.se)
    assert np.mean(means) >= 0.92
    assert np.mean(pairs) >= 0.93
