"""Plausible mistakes, made in random variants of the shared campaigns: which does `plausibility_notes` name?

`python benchmarks/study_mistakes.py [MISTAKE,...] [VARIANTS]` prints for each mistake the share of variants in which a
note names it, and the share with any note, by campaign; `none` makes no mistake: any note is a false alarm. A variant
has 50 judged items or more (all in two fifths of the variants), as scores or as a table of judgments.
"""

from __future__ import annotations

import sys
import warnings
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import aliquot
from aliquot import EvalSet, Judgments
from aliquot.core.plausibility import plausibility_notes
from aliquot.stats.alignment import shift_cells
from aliquot.stats.arrays import FloatArray

DATA = Path(__file__).parents[2] / "shared" / "data"
FEWEST = 50
CODES = (999.0, -1.0, -999.0, 99.0, 9999.0)


@cache
def campaigns() -> dict[str, EvalSet]:
    """The shared campaigns judged by people (arena-judge has labels of one system)."""
    names = sorted(path.name.removesuffix(".jsonl.gz") for path in DATA.glob("*.jsonl.gz") if "arena" not in path.name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {name: aliquot.load(DATA / f"{name}.jsonl.gz") for name in names}


@dataclass(frozen=True)
class Variant:
    """A campaign without human scores, and what people said: scores or judgments."""

    data: EvalSet
    scores: FloatArray | None = None
    table: pl.DataFrame | None = None

    def build(self) -> EvalSet:
        if self.table is not None:
            return replace(self.data, judgments=Judgments(self.table)).aggregate()
        assert self.scores is not None
        return self.data.with_score("human", self.scores).with_human("human")

    def with_values(self, values: FloatArray) -> Variant:
        """Other values in the order of `values`."""
        if self.table is not None:
            return replace(self, table=self.table.with_columns(value=pl.Series(values)))
        assert self.scores is not None
        scores = self.scores.copy()
        scores[np.isfinite(scores)] = values
        return replace(self, scores=scores)

    @property
    def values(self) -> FloatArray:
        if self.table is not None:
            return self.table["value"].to_numpy().astype(np.float64)
        assert self.scores is not None
        return np.asarray(self.scores[np.isfinite(self.scores)])


def single_rows(data: EvalSet) -> pl.DataFrame:
    """The judgments of one protocol and criterion, one row for each output and annotator."""
    assert data.judgments is not None
    table = data.judgments.answers().filter(pl.col("value").is_not_null() & pl.col("annotator").is_not_null())
    for name in ("protocol", "criterion"):
        if name in table.columns and table[name].drop_nulls().n_unique() > 1:
            table = table.filter(pl.col(name) == table[name].drop_nulls().value_counts(sort=True)[name][0])
    return table.group_by("item", "system", "annotator", maintain_order=True).agg(pl.col("value").mean())


def draw_variant(rng: np.random.Generator, judgments: bool) -> tuple[str, Variant]:
    """A random campaign with all or some of its judged items."""
    every = campaigns()
    names = [name for name, data in every.items() if data.judgments is not None or not judgments]
    name = names[rng.integers(len(names))]
    data, scores = every[name], every[name].human_score()
    rows = np.flatnonzero(np.isfinite(scores).any(axis=1))
    count = int(np.exp(rng.uniform(np.log(FEWEST), np.log(len(rows))))) if rng.random() < 0.6 else len(rows)
    start = rng.integers(0, len(rows) - count + 1)
    keep = rows[start : start + count] if rng.random() < 0.5 else np.sort(rng.choice(rows, count, replace=False))
    bare = replace(data, scores={metric: data.scores[metric] for metric in data.metrics}, human=None, judgments=None)
    if judgments or (data.judgments is not None and rng.random() < 0.5):
        table = single_rows(data)
        return name, Variant(bare, table=table.filter(pl.col("item").is_in([data.ids[row] for row in keep])))
    some = np.full(scores.shape, np.nan)
    some[keep] = scores[keep]
    return name, Variant(bare, scores=some)


# -- mistakes: a changed variant, or None where it cannot be made ------------------------------------------------------

Mistake = Callable[[np.random.Generator, Variant], "Variant | None"]


def make_none(_rng: np.random.Generator, variant: Variant) -> Variant:
    return variant


def shift_rows(rng: np.random.Generator, variant: Variant) -> Variant:
    step = int(rng.choice([-1, 1]))
    if variant.table is None:
        assert variant.scores is not None
        by_item = rng.random() < 0.5
        scores = variant.scores if by_item else variant.scores.T
        moved = shift_cells(scores, step)
        return replace(variant, scores=moved if by_item else moved.T)
    order = [[], ["item", "system"], ["system", "item"]][rng.integers(3)]
    table = variant.table.sort(order) if order else variant.table
    return replace(variant, table=table.with_columns(value=pl.Series(np.roll(table["value"].to_numpy(), step))))


def move_ids(rng: np.random.Generator, variant: Variant) -> Variant:
    step = int(rng.choice([-1, 1]))
    if variant.table is None:
        assert variant.scores is not None
        scores = np.roll(variant.scores, step, axis=0)
        scores[0 if step == 1 else -1] = np.nan
        return replace(variant, scores=scores)
    ids = variant.data.ids
    other: dict[Any, Any] = dict(pairwise(ids))
    other = other if step == 1 else {second: first for first, second in other.items()}
    item = variant.table["item"].replace_strict(other, default=None, return_dtype=variant.table["item"].dtype)
    return replace(variant, table=variant.table.with_columns(item).drop_nulls("item"))


def exchange_systems(rng: np.random.Generator, variant: Variant) -> Variant:
    systems = variant.data.systems
    if variant.table is None:
        assert variant.scores is not None
        first, second = two_systems(rng, np.isfinite(variant.scores).sum(axis=0), 30)
        scores = variant.scores.copy()
        scores[:, [first, second]] = scores[:, [second, first]]
        return replace(variant, scores=scores)
    first, second = two_systems(rng, counts_of(variant.table, systems), 30)
    names = {systems[first]: systems[second], systems[second]: systems[first]}
    return replace(variant, table=variant.table.with_columns(pl.col("system").replace(names)))


def exchange_systems_of_one(rng: np.random.Generator, variant: Variant) -> Variant | None:
    assert variant.table is not None
    mine, systems = pl.col("annotator") == draw_annotator(rng, variant.table), variant.data.systems
    counts = counts_of(variant.table.filter(mine), systems)
    if (counts >= FEWEST).sum() < 2:
        return None
    first, second = two_systems(rng, counts, FEWEST)
    names = {systems[first]: systems[second], systems[second]: systems[first]}
    other = pl.when(mine).then(pl.col("system").replace(names)).otherwise(pl.col("system"))
    return replace(variant, table=variant.table.with_columns(other))


def take_other_campaign(rng: np.random.Generator, variant: Variant) -> Variant:
    """Scores of a random campaign's items and systems under these ids; the mean where it has none."""
    names = [name for name in campaigns() if "calibration" not in name]
    scores = campaigns()[names[rng.integers(len(names))]].human_score()
    scores = scores[np.isfinite(scores).sum(axis=1) > 1]
    scores = np.where(np.isfinite(scores), scores, np.nanmean(scores))
    n_items, n_systems = variant.data.n_items, variant.data.n_systems
    item = rng.permutation(max(n_items, len(scores)))[:n_items] % len(scores)
    other = scores[item][:, np.arange(n_systems) % scores.shape[1]]
    if variant.table is not None:
        return variant.with_values(other[variant.data.cell_index(variant.table["item"], variant.table["system"])])
    assert variant.scores is not None
    return replace(variant, scores=np.where(np.isfinite(variant.scores), other, np.nan))


def turn_annotator(rng: np.random.Generator, variant: Variant) -> Variant:
    assert variant.table is not None
    mine = pl.col("annotator") == draw_annotator(rng, variant.table)
    low, high = float(variant.values.min()), float(variant.values.max())
    turned = (low if low < 0 else low + high) - pl.col("value")
    return replace(
        variant, table=variant.table.with_columns(pl.when(mine).then(turned).otherwise("value").alias("value"))
    )


def copy_annotator(rng: np.random.Generator, variant: Variant) -> Variant:
    assert variant.table is not None
    copy = variant.table.filter(pl.col("annotator") == draw_annotator(rng, variant.table))
    return replace(variant, table=pl.concat([variant.table, copy.with_columns(annotator=pl.lit("copy"))]))


def copy_people(rng: np.random.Generator, variant: Variant) -> Variant:
    people = variant.build().human_score()
    return replace(variant, data=variant.data.with_score("copy", people / 100 if rng.random() < 0.5 else people))


def turn_metric(rng: np.random.Generator, variant: Variant) -> Variant | None:
    if not (names := variant.data.metrics):
        return None
    name = names[rng.integers(len(names))]
    return replace(variant, data=variant.data.with_score(name, -variant.data.scores[name]))


def write_codes(rng: np.random.Generator, variant: Variant) -> Variant:
    values = variant.values.copy()
    count = max(1, int(len(values) * rng.uniform(0.002, 0.1)))
    values[rng.choice(len(values), count, replace=False)] = rng.choice(CODES)
    return variant.with_values(values)


def slip(rng: np.random.Generator, variant: Variant) -> Variant | None:
    """A digit too many, where people typed values: not in penalties, z-scores and shares."""
    values = variant.values.copy()
    if values.min() < 0 or values.max() <= 1:
        return None
    values[rng.integers(len(values))] = 10 * np.quantile(values, 0.9)
    return variant.with_values(values)


def two_systems(rng: np.random.Generator, counts: Any, least: int) -> tuple[int, int]:
    some = np.flatnonzero(counts >= min(least, np.sort(counts)[-2]))
    first, second = rng.choice(some, 2, replace=False)
    return int(first), int(second)


def counts_of(table: pl.DataFrame, systems: tuple[str, ...]) -> Any:
    counts = dict(table["system"].value_counts().rows())
    return np.array([counts.get(system, 0) for system in systems])


def draw_annotator(rng: np.random.Generator, table: pl.DataFrame) -> str:
    counts = table["annotator"].value_counts().sort("annotator")
    most = int(counts["count"].to_numpy().max())
    names = counts.filter(pl.col("count") >= min(100, most))["annotator"]
    return str(names[int(rng.integers(len(names)))])


MISTAKES: dict[str, tuple[Mistake, bool, tuple[str, ...]]] = {
    "none": (make_none, False, ("",)),
    "rows shifted": (shift_rows, False, ("rows shifted",)),
    "ids off by one": (move_ids, False, ("rows shifted",)),
    "systems exchanged": (exchange_systems, False, ("exchanged",)),
    "exchanged by one annotator": (exchange_systems_of_one, True, ("exchanged",)),
    "another campaign": (take_other_campaign, False, ("no relation",)),
    "one scale turned": (turn_annotator, True, ("wrong way round", "flipped", "'human' runs against")),
    "copied judgments": (copy_annotator, True, ("copy of the other",)),
    "people as a metric": (copy_people, False, ("copy of people",)),
    "metric turned": (turn_metric, False, ("runs against", "run against")),
    "codes": (write_codes, False, ("contain",)),
    "slip": (slip, False, ("contain",)),
}
"""Function, whether it needs judgments with annotators, and words of which one is in the note."""


def try_mistake(name: str, variants: int, seed: int = 11) -> dict[str, list[tuple[bool, bool]]]:
    """For each campaign and variant: is the mistake named, is there any note?"""
    make, judgments, words = MISTAKES[name]
    rng = np.random.default_rng(seed)
    results: dict[str, list[tuple[bool, bool]]] = defaultdict(list)
    while sum(len(pairs) for pairs in results.values()) < variants:
        campaign, variant = draw_variant(rng, judgments)
        wrong = make(rng, variant)
        if wrong is None:
            continue
        notes = plausibility_notes(wrong.build())
        results[campaign].append((any(word in note for word in words for note in notes), bool(notes)))
    return results


def main() -> None:
    names = sys.argv[1].split(",") if len(sys.argv) > 1 else list(MISTAKES)
    variants = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    for name in names:
        results = try_mistake(name, variants)
        named, noted = np.mean([pair for pairs in results.values() for pair in pairs], axis=0)
        print(f"{name}: named in {named:.0%}, any note in {noted:.0%} of {variants}")
        for campaign, pairs in sorted(results.items()):
            print(f"    {campaign:26s} {np.mean([first for first, _ in pairs]):4.0%} of {len(pairs)}")


if __name__ == "__main__":
    main()
