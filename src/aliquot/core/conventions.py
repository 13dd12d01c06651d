"""Conventions of names and texts: human score or metric, lower is better, lengths, language pairs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from aliquot.errors import DataError
from aliquot.stats.arrays import FloatArray, is_constant, overflow_scale

if TYPE_CHECKING:  # which imports this file
    from aliquot.core.evalset import EvalSet

_HUMAN_NAME = re.compile(
    r"""^(
        (human|expert|turker|crowd|annotator|rater)s?([-_. ].*)?   # human, human_fluency, turker
      | (wmt[-_.])?(mqm|da|esa|esaai|sqm|likert|appraise|raw|z)    # a protocol, alone ...
        ([-_.](mqm|da|esa|sqm|likert|appraise|raw|z|merged|iaa|\d+|round\d+|col\d*|src|psqm|csqm))*  # ... or qualified
      | n[-_]?judg(e?)ments?
    )$""",
    re.IGNORECASE | re.VERBOSE,
)

_SQUARABLE = (1e-152, 1e152)  # sums of a thousand squares are still normal numbers

_ERROR_RATE_NAME = re.compile(r"^(char[-_]?)?(ter|wer|per|cer|cder|eed|exteed|character)([-_.].*)?$", re.IGNORECASE)


def require_squarable(values: FloatArray, what: str) -> None:
    """Raise DataError for values whose squares overflow or underflow.

    >>> require_squarable(np.array([1e160, np.nan]), "the score 'm'")
    Traceback (most recent call last):
        ...
    aliquot.errors.DataError: the score 'm': the largest value is 1e+160, whose square is no number; divide by 1e+160
    """
    magnitudes = np.abs(values[np.isfinite(values) & (values != 0)])
    largest = float(magnitudes.max()) if magnitudes.size else 1.0
    if not _SQUARABLE[0] <= largest <= _SQUARABLE[1]:
        raise DataError(
            f"{what}: the largest value is {largest:g}, whose square is no number; divide by {overflow_scale(values):g}"
        )


def is_human_name(name: str) -> bool:
    """Return whether a score has the name of a human score, which must not serve as a metric.

    >>> [name for name in ("human_z", "da-sqm", "ESA-1", "GEMBA-MQM", "COMET") if is_human_name(name)]
    ['human_z', 'da-sqm', 'ESA-1']
    """
    return _HUMAN_NAME.match(name) is not None


def guess_human_score(names: Iterable[str]) -> str | None:
    """Return the human score: `human`, or the only score with the name of one; else None.

    >>> guess_human_score(["mqm", "COMET"]), guess_human_score(["mqm", "da"]), guess_human_score(["mqm", "human"])
    ('mqm', None, 'human')
    """
    candidates = [name for name in names if is_human_name(name)]
    if "human" in candidates:
        return "human"
    return candidates[0] if len(candidates) == 1 else None


def is_error_rate(name: str) -> bool:
    """Return whether a metric counts errors by its name (lower is better).

    >>> [name for name in ("TER", "CharacTER", "EED", "COMET", "TERp-A") if is_error_rate(name)]
    ['TER', 'CharacTER', 'EED']
    """
    return _ERROR_RATE_NAME.match(name) is not None


# -- Which automatic metrics of a set can be used: those that vary and are there for at least half of the outputs ----


_MIN_COVERAGE = 0.5


def usable_metrics(evalset: EvalSet) -> list[str]:
    """Return the metrics that vary and cover at least half of the cells.

    >>> import aliquot
    >>> usable_metrics(aliquot.synthetic(items=20, systems=2))
    ['metricA', 'metricB', 'metricC']
    """
    names = evalset.derived(
        "usable metrics", lambda data: [name for name in data.metrics if is_usable(data.scores[name])]
    )
    return list(names)


def is_usable(values: FloatArray) -> bool:
    """Return whether a score varies and covers at least half of the cells."""
    present = np.isfinite(values)
    return bool(present.any() and present.mean() >= _MIN_COVERAGE and not is_constant(values))


# -- Lengths of sources: a free proxy of difficulty, and the base of cost models -------------------------------------


def source_lengths(evalset: EvalSet) -> FloatArray:
    """Return the words of each source; characters in languages without spaces (Chinese, Japanese, Korean, Thai)."""
    if "source" not in evalset.items.columns:
        raise DataError(f"{evalset.name}: there are no sources; a length needs them (field 'src')")
    source = evalset.items["source"]
    words = source.str.count_matches(r"\S+")
    dense = source.str.count_matches(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}]")
    characters = source.str.strip_chars().str.len_chars()
    unspaced = (dense > characters / 3).fill_null(value=False)
    return (
        pl.select(pl.when(unspaced).then(characters).otherwise(words))
        .to_series()
        .cast(pl.Float64)
        .fill_null(np.nan)
        .to_numpy()
    )


def log_lengths(evalset: EvalSet) -> FloatArray:
    """Return the logarithm of 1 + length; NaN for an item without a source."""
    return evalset.derived("log lengths", lambda this: np.log1p(source_lengths(this)))


# -- Language pairs: from a column, or else from the name of the set -------------------------------------------------


PAIR_COLUMNS = ("pair", "langs", "language_pair", "lp")
# Looked for ahead, so that pairs may overlap: in wmt22-da-de-en the last is de-en, and da the protocol.
_PAIR_IN_NAME = re.compile(r"(?<![a-z])(?=([a-z]{2})[-_]([a-z]{2})(?![a-z]))")


def list_language_pairs(evalset: EvalSet) -> list[str | None]:
    """Return each item's language pair ("en-de") from a column or else the set's name; None if neither has one.

    >>> import aliquot
    >>> set(list_language_pairs(aliquot.synthetic(items=3, systems=2)))
    {None}
    """
    for column in PAIR_COLUMNS:
        if column in evalset.items.columns:
            return [None if value is None else str(value) for value in evalset.items[column].to_list()]
    return [find_language_pair(evalset.name)] * evalset.n_items


def find_language_pair(name: str) -> str | None:
    """Return the last language pair in a name.

    >>> [find_language_pair(name) for name in ("wmt24-esa-en-cs-waves23", "wmt22-da-de-en", "summeval")]
    ['en-cs', 'de-en', None]
    """
    pairs = _PAIR_IN_NAME.findall(name.casefold())
    return "-".join(pairs[-1]) if pairs else None


def list_domains(evalset: EvalSet) -> list[str | None]:
    """Return every item's domain, or None."""
    if "domain" not in evalset.items.columns:
        return [None] * evalset.n_items
    return evalset.items["domain"].to_list()
