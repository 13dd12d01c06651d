"""Checks hidden among the work: damaged copies, and what all checks say about one annotator.

Annotators see nothing of this: planted cells look like any other, and grading happens on the server. Nothing is
deleted; a planted cell's judgment carries `control`, a second showing `repeat`, and the presets of `clean` use them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from aliquot.core.judgments import Judgments
from aliquot.stats.pairwise import wilcoxon_p
from aliquot.stats.text_similarity import word_spans

_RUN = ((1, 1), (5, 2), (8, 3), (15, 4), (20, 5))
"""Words of an output up to which so many are replaced; a quarter of longer ones, as in WMT's bad references."""
MIN_PAIRS = 5  # the smallest number at which a one-sided signed-rank test can reach 0.05
MIN_VALUES = 10
_CELL = ("item", "system", "criterion")


def damage_text(text: str, donor: str, rng: np.random.Generator) -> str | None:
    """Replace a run of words by as many words of another item's output; None where that changes nothing.

    The first and the last word stay where the text is long enough, so that the damage is not seen at a glance.

    >>> rng = np.random.default_rng(1)
    >>> damage_text("The cat sat on the mat today.", "Prices rose again in the third quarter.", rng)
    'The cat again in the mat today.'
    """
    words, donor_words = word_spans(text), word_spans(donor)
    n = min(_run_length(len(words)), len(donor_words))
    if n == 0:
        return None
    margin = 1 if len(words) >= n + 2 else 0
    start = int(rng.integers(margin, len(words) - n - margin + 1))
    donor_start = int(rng.integers(0, len(donor_words) - n + 1))
    piece = donor[donor_words[donor_start][0] : donor_words[donor_start + n - 1][1]]
    result = text[: words[start][0]] + piece + text[words[start + n - 1][1] :]
    return result if result != text else None


def _run_length(words: int) -> int:
    return next((n for limit, n in _RUN if words <= limit), words // 4) if words else 0


@dataclass(frozen=True)
class AnnotatorCard:
    """Quality indicators of one annotator, with a suggestion; shares without data are NaN."""

    annotator: str
    judgments: int  # that are about systems: planted cells do not count
    pages: int
    seconds: float  # median of a page
    severity: float  # mean deviation from the others' mean of the same system; below 0 is stricter
    damaged: int  # damaged copies judged beside their originals
    damaged_passed: float  # share of them scored below the original
    damaged_p: float  # one-sided p of "originals score higher"; large means that damage was not seen
    gold: int
    gold_passed: float
    repeats: int
    repeat_difference: float  # mean |difference| of second showings
    straight: float  # share of the most frequent value
    too_fast: float  # share of the pages below the floor of time
    spans: float  # marked spans an output
    marked: int  # judgments that do not count
    suggestion: str
    evidence: tuple[str, ...]


def annotator_cards(judgments: Judgments, *, floor: Mapping[str, float] | None = None) -> tuple[AnnotatorCard, ...]:
    """One card per annotator, in order of their names.

    Args:
        judgments: all of them, with the columns `control` and `repeat` of planted cells, `page`, `spans`, `marked`.
        floor: the fewest seconds that reading a page takes, by page.
    """
    table = _add_columns(judgments.table)
    usual = table.filter(pl.col("control").is_null() & ~pl.col("repeat"))
    severity = _compute_severity(usual)
    names = sorted(table["annotator"].drop_nulls().unique().to_list())
    return tuple(_make_card(table.filter(pl.col("annotator") == name), name, severity, floor or {}) for name in names)


def _add_columns(table: pl.DataFrame) -> pl.DataFrame:
    absent = {
        "control": pl.String(),
        "page": pl.String(),
        "spans": pl.String(),
        "marked": pl.String(),
        "expected": pl.Float64(),
        "error": pl.String(),
    }
    table = table.with_columns(pl.lit(None, dtype).alias(name) for name, dtype in absent.items() if name not in table)
    again = (
        pl.col("repeat").cast(pl.Boolean).fill_null(value=False) if "repeat" in table.columns else pl.lit(value=False)
    )
    control = pl.col("control").cast(pl.String)
    return table.with_columns(again.alias("repeat"), pl.when(control != "false").then(control).alias("control"))


def _compute_severity(usual: pl.DataFrame) -> dict[str, float]:
    """Each annotator's mean deviation from the mean of the others on the same system and criterion."""
    totals = usual.group_by("system", "criterion").agg(
        pl.col("value").sum().alias("sum"), pl.col("value").count().alias("n")
    )
    mine = usual.group_by("annotator", "system", "criterion").agg(
        pl.col("value").sum().alias("mine"), pl.col("value").count().alias("k")
    )
    joined = mine.join(totals, on=["system", "criterion"], nulls_equal=True).filter(pl.col("n") > pl.col("k"))
    mean_of_others = (pl.col("sum") - pl.col("mine")) / (pl.col("n") - pl.col("k"))
    gaps = joined.with_columns((pl.col("mine") - pl.col("k") * mean_of_others).alias("gap"))
    rows = gaps.group_by("annotator").agg(pl.col("gap").sum() / pl.col("k").sum()).iter_rows()
    return {name: float(gap) for name, gap in rows if gap is not None}


def _make_card(
    rows: pl.DataFrame, name: str, severity: Mapping[str, float], floor: Mapping[str, float]
) -> AnnotatorCard:
    usual = rows.filter(pl.col("control").is_null() & ~pl.col("repeat"))
    pages = rows.drop_nulls("page").group_by("page").agg(pl.col("seconds").sum())
    original, copies = _damaged_pairs(rows)
    p = float(wilcoxon_p(np.column_stack([original, copies]))[0, 1]) if len(original) >= MIN_PAIRS else np.nan
    gold = rows.filter(
        pl.col("control").is_not_null() & pl.col("expected").is_not_null() & pl.col("value").is_not_null()
    )
    passed = gold.select(((pl.col("value") - pl.col("expected")).abs() <= 1e-9).mean()).item() if gold.height else None
    again = _repeat_differences(rows)
    values = usual["value"].drop_nulls()
    fast = [seconds < floor[page] for page, seconds in pages.iter_rows() if page in floor and seconds is not None]
    mode_count = float(values.value_counts()["count"].to_numpy().max()) if len(values) >= MIN_VALUES else np.nan
    card = AnnotatorCard(
        name,
        usual.height,
        pages.height,
        _number_or_nan(pages["seconds"].median()),
        severity.get(name, np.nan),
        len(original),
        _mean_or_nan(original > copies),
        p,
        gold.height,
        _number_or_nan(passed),
        len(again),
        _mean_or_nan(again),
        mode_count / max(1, len(values)),
        _mean_or_nan(np.array(fast)),
        _spans_per_output(usual),
        rows.filter(pl.col("marked").is_not_null() & pl.col("control").is_null()).height,
        "",
        (),
    )
    return _with_suggestion(card)


def _damaged_pairs(rows: pl.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Scores of originals and of their damaged copies, where the annotator judged both."""
    planted = rows.filter(pl.col("control").is_not_null() & pl.col("expected").is_null())
    plain = rows.filter(pl.col("control").is_null()).group_by(_CELL).agg(pl.col("value").mean().alias("_plain"))
    joined = planted.join(plain, on=list(_CELL), nulls_equal=True).drop_nulls(["value", "_plain"])
    return joined["_plain"].to_numpy(), joined["value"].to_numpy()


def _repeat_differences(rows: pl.DataFrame) -> np.ndarray:
    first = rows.filter(~pl.col("repeat") & pl.col("control").is_null())
    first = first.group_by(_CELL).agg(pl.col("value").first().alias("_first"))
    joined = rows.filter("repeat").join(first, on=list(_CELL), nulls_equal=True).drop_nulls(["value", "_first"])
    differences: np.ndarray = np.abs(joined["value"].to_numpy() - joined["_first"].to_numpy())
    return differences


def _spans_per_output(usual: pl.DataFrame) -> float:
    outputs = usual.select("item", "system").unique().height
    if not outputs:
        return float("nan")
    if usual["error"].is_not_null().any():
        return usual.filter(pl.col("error").is_not_null() & (pl.col("value") != 0)).height / outputs
    if usual["spans"].is_not_null().any():
        return (
            float(usual.select(pl.col("spans").str.json_decode(pl.List(pl.Struct({}))).list.len().sum()).item())
            / outputs
        )
    return float("nan")


def _with_suggestion(card: AnnotatorCard) -> AnnotatorCard:
    """Suggest to pause after clear failures, or to look after unusual values; each reason has its numbers."""
    grave, slight = [], []
    if card.damaged >= MIN_PAIRS and card.damaged_p > 0.05:
        grave.append(
            f"damaged copies do not score lower ({card.damaged_passed:.0%} of {card.damaged}, p = {card.damaged_p:.2f})"
        )
    if card.gold >= 3 and card.gold_passed < 0.7:
        grave.append(f"{card.gold_passed:.0%} of {card.gold} known answers are within their range")
    if card.straight >= 0.9:
        grave.append(f"{card.straight:.0%} of all answers have one value")
    if card.too_fast > 0.2:
        slight.append(f"{card.too_fast:.0%} of the pages were answered faster than they can be read")
    if not grave and not slight:
        is_known = card.damaged + card.gold + card.repeats > 0 or card.judgments >= MIN_VALUES
        text = "nothing to do" if is_known else "too little is known yet"
        return _replace_suggestion(card, text, ())
    action = "pause, and look at the answers" if grave else "look at some answers"
    return _replace_suggestion(card, action, tuple(grave + slight))


def _replace_suggestion(card: AnnotatorCard, suggestion: str, evidence: tuple[str, ...]) -> AnnotatorCard:
    return AnnotatorCard(**{**vars(card), "suggestion": suggestion, "evidence": evidence})


def _mean_or_nan(values: np.ndarray) -> float:
    return float(np.mean(values)) if len(values) else float("nan")


def _number_or_nan(value: Any) -> float:
    return float("nan") if value is None else float(value)
