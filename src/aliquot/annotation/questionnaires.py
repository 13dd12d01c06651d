"""Questionnaires (HumEval 2022): cutting down a pool of questions by a pilot (paper 3), scoring PANAS (paper 5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import polars as pl

from aliquot.annotation.choice_tables import digest_table
from aliquot.core.result import Result, frame_of, make_signature
from aliquot.core.view import Column, View
from aliquot.errors import DataError, quoted
from aliquot.io.formats.table_columns import map_columns, parse_numbers
from aliquot.validation import one_of

# -- A pool of questions, cut down by a pilot ------------------------------------------------------------------------


@dataclass(frozen=True)
class PoolItem:
    """One question of a pool and its ratings in the pilot."""

    question: str
    n: int  # ratings of its suitability
    mean: float
    sd: float  # divisor n - 1
    kept: bool
    reason: str  # why it goes, or ""


@dataclass(frozen=True, eq=False)
class PoolReduction(Result):
    """The result of `survey` of kind `pool`."""

    rows: tuple[PoolItem, ...]
    minimum: float
    spread: float
    rule: str
    notes: tuple[str, ...] = ()
    signature: str = ""

    @property
    def kept(self) -> tuple[str, ...]:
        """The questions that stay."""
        return tuple(row.question for row in self.rows if row.kept)

    def to_frame(self) -> pl.DataFrame:
        """One row per question, in the order of the table."""
        return frame_of(self.rows, PoolItem)

    def views(self) -> Sequence[View]:
        """Return the view `questions`."""
        columns = (
            Column("question", kind="name"),
            Column("ratings", "n", "count", rank=1),
            Column("mean", places=2),
            Column("sd", places=2),
            Column("", lambda row: "" if row.kept else "goes", "text"),
            Column("why", "reason", "text", rank=2),
        )
        return (View("questions", self.rows, columns, f"{len(self.kept)} of {len(self.rows)} questions stay"),)

    def document(self) -> Mapping[str, Any]:
        """The fields with the kind of comparison."""
        return {"kind": "pool", **self.fields_without(), "kept": list(self.kept)}


def reduce_pool(
    table: pl.DataFrame,
    *,
    minimum: float = 3.2,
    spread: float = 1.2,
    rule: Literal["and", "or"] = "and",
    columns: Mapping[str, str] | None = None,
    where: str = "table",
) -> PoolReduction:
    """Keep the questions (antonym pairs) that a pilot finds suitable: mean at least `minimum`, sd at most `spread`.

    Args:
        table: question and value (a rating of its suitability), one row per rating.
        minimum: of the mean; 3.2 on a scale from 1 to 5 in HumEval 2022, paper 3.
        spread: of the standard deviation; 1.2 there.
        rule: a question goes where its mean is too low "and" its spread too large (as printed there), "or" either.

    >>> table = pl.DataFrame({"question": ["clear - vague"] * 3 + ["blue - red"] * 3, "value": [5, 4, 5, 1, 5, 2]})
    >>> reduce_pool(table).kept
    ('clear - vague',)
    """
    one_of("rule", rule, ("and", "or"))
    roles = map_columns(
        table.columns, {"criterion": "question", **(columns or {})} if "question" in table.columns else columns, where
    )
    for role in ("criterion", "value"):
        if role not in roles:
            name = "question" if role == "criterion" else role
            raise DataError(f"{where}: no column holds the {name}; there are {quoted(table.columns)}")
    values = pl.Series("value", parse_numbers(table[roles["value"]], where), nan_to_null=True)
    rated = pl.DataFrame([table[roles["criterion"]].cast(pl.String).alias("question"), values]).drop_nulls()
    if not rated.height:
        raise DataError(f"{where}: no question has a rating")
    grouped = rated.group_by("question", maintain_order=True).agg(
        pl.len().alias("n"), pl.col("value").mean().alias("mean"), pl.col("value").std().alias("sd")
    )
    rows = []
    for question, n, mean, sd in grouped.iter_rows():
        low, wide = mean < minimum, sd is not None and sd > spread
        goes = (low and wide) if rule == "and" else (low or wide)
        why = [f"mean {mean:.2f} below {minimum:g}"] * low + [f"sd {sd or 0:.2f} above {spread:g}"] * wide
        rows.append(PoolItem(question, n, mean, float("nan") if sd is None else sd, not goes, "; ".join(why) * goes))
    single_ratings = [row.question for row in rows if row.n < 2]
    notes = [f"one rating only, so no spread: {quoted(single_ratings)}"] if single_ratings else []
    return PoolReduction(
        tuple(rows),
        minimum,
        spread,
        rule,
        tuple(notes),
        make_signature("survey:pool", minimum=minimum, spread=spread, rule=rule, data=digest_table(table)),
    )


# -- Questionnaires with a published key -----------------------------------------------------------------------------

PANAS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "positive": (
            "interested",
            "excited",
            "strong",
            "enthusiastic",
            "proud",
            "alert",
            "inspired",
            "determined",
            "attentive",
            "active",
        ),
        "negative": (
            "distressed",
            "upset",
            "guilty",
            "scared",
            "hostile",
            "irritable",
            "ashamed",
            "nervous",
            "jittery",
            "afraid",
        ),
    }
)
"""The adjectives of positive and negative affect (Watson, Clark and Tellegen 1988)."""

_MIN_RATING, _MAX_RATING = 1.0, 5.0


@dataclass(frozen=True)
class Affect:
    """One person's (or one person's and one time's) sums; NaN where an adjective is missing."""

    participant: str
    time: str | None  # where the table has such a column
    positive: float  # 10 to 50
    negative: float  # 10 to 50


@dataclass(frozen=True, eq=False)
class AffectScores(Result):
    """The result of `survey` of kind `panas`."""

    KIND = "panas"

    rows: tuple[Affect, ...]
    notes: tuple[str, ...] = ()
    signature: str = ""

    def to_frame(self) -> pl.DataFrame:
        """One row per participant and time."""
        return frame_of(self.rows, Affect)

    def views(self) -> Sequence[View]:
        """Return the view `participants`."""
        columns = (
            Column("participant", kind="name"),
            Column("time", kind="name"),
            Column("positive"),
            Column("negative"),
        )
        return (View("participants", self.rows, columns, "PANAS: sums of ten adjectives, 10 to 50"),)


def score_panas(table: pl.DataFrame, *, where: str = "table") -> AffectScores:
    """Score PANAS: the sums of ten adjectives of positive and of ten of negative affect, each rated 1 to 5.

    Args:
        table: a column for each of the 20 adjectives, and where known participant and time.

    Raises:
        DataError: an adjective is missing, or a rating is outside 1 to 5.

    >>> row = {name: [1 + at % 5] for at, name in enumerate((*PANAS["positive"], *PANAS["negative"]))}
    >>> score_panas(pl.DataFrame(row)).rows[0].positive
    30.0
    """
    names = {name.strip().casefold(): name for name in table.columns}
    lacking = [word for words in PANAS.values() for word in words if word not in names]
    if lacking:
        raise DataError(f"{where}: PANAS has 20 adjectives, and there is no column {quoted(lacking[:5])}")
    sums = {}
    for kind, words in PANAS.items():
        ratings = np.column_stack([parse_numbers(table[names[word]], where) for word in words])
        out_of_range = np.argwhere(np.isfinite(ratings) & ((ratings < _MIN_RATING) | (ratings > _MAX_RATING)))
        if len(out_of_range):
            row, place = out_of_range[0].tolist()
            raise DataError(
                f"{where}: row {row + 1}, '{words[place]}' is {ratings[row, place]:g}; PANAS is rated 1 to 5"
            )
        sums[kind] = ratings.sum(axis=1)  # NaN where an adjective is missing: a sum of nine is not comparable
    people = [str(value) for value in table[names["participant"]]] if "participant" in names else None
    times = [str(value) for value in table[names["time"]]] if "time" in names else None
    rows = tuple(
        Affect(
            people[place] if people else str(place + 1),
            times[place] if times else None,
            float(positive),
            float(negative),
        )
        for place, (positive, negative) in enumerate(zip(sums["positive"], sums["negative"], strict=True))
    )
    missing = sum(not np.isfinite(row.positive + row.negative) for row in rows)
    notes = [f"{missing} of {len(rows)} rows lack an adjective: the sum it belongs to is missing"] if missing else []
    return AffectScores(rows, tuple(notes), make_signature("survey:panas", data=digest_table(table)))
