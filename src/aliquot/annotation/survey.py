"""`survey`: do the questions that people answered make sense, and which items does each participant get?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, get_args, overload

import numpy as np
import polars as pl

from aliquot.annotation.choice_tables import detect_table_kind
from aliquot.annotation.comparison_inputs import (
    Data,
    Source,
    evalset_of_table,
    keyword_names,
    read_source,
    select_options,
)
from aliquot.annotation.criteria import analyse_criteria
from aliquot.annotation.criteria_result import Criteria
from aliquot.annotation.error_importance import ErrorImportance, measure_error_importance
from aliquot.annotation.group_changes import GroupChanges, group_changes
from aliquot.annotation.questionnaires import PANAS, AffectScores, PoolReduction, reduce_pool, score_panas
from aliquot.core import memory
from aliquot.core.columns import group_codes
from aliquot.core.evalset import EvalSet
from aliquot.core.judgments import Judgments
from aliquot.errors import OptionError
from aliquot.io.formats.table_columns import map_columns
from aliquot.io.inputs import DataLike, as_evalset
from aliquot.stats.arrays import IntArray, Seed
from aliquot.validation import between, one_of

SurveyKind = Literal["criteria", "importance", "groups", "pool", "panas"]
SURVEY_KINDS: tuple[SurveyKind, ...] = get_args(SurveyKind)
SurveyResult = Criteria | ErrorImportance | GroupChanges | PoolReduction | AffectScores

_ANALYSES_BY_KIND: Mapping[str, Callable[..., SurveyResult]] = MappingProxyType(
    {
        "criteria": analyse_criteria,
        "importance": measure_error_importance,
        "groups": group_changes,
        "pool": reduce_pool,
        "panas": score_panas,
    }
)


@overload
def survey(data: Source, kind: Literal["criteria"], **options: Any) -> Criteria: ...
@overload
def survey(data: Source, kind: Literal["importance"], **options: Any) -> ErrorImportance: ...
@overload
def survey(data: Source, kind: Literal["groups"], **options: Any) -> GroupChanges: ...
@overload
def survey(data: Source, kind: Literal["pool"], **options: Any) -> PoolReduction: ...
@overload
def survey(data: Source, kind: Literal["panas"], **options: Any) -> AffectScores: ...
@overload
def survey(data: Source, kind: str | None = None, **options: Any) -> SurveyResult: ...
def survey(data: Source, kind: str | None = None, **options: Any) -> SurveyResult:
    """Analyse questionnaires: criteria, error costs, pools of questions, PANAS, changes of two groups.

    Args:
        data: A table (a Polars or pandas DataFrame, or the path of a CSV, TSV or Parquet file), or judgments or data.
        kind: What to ask; by default detected from the columns, else criteria.

            - criteria: judgments by several criteria, or a column of numbers for each: do they measure different
              things?
            - importance: lists of errors (MQM), or a column of counts for each type of error, and a score: what does
              each error cost?
            - groups: participant, group, before, after, measure: which group changed more?
            - pool: question, value (a pilot's ratings of how suitable each question is): which questions stay?
            - panas: a column for each of the 20 adjectives of PANAS, participant, time: affect scores
        **options: Of criteria: only, rows, correlation, factors, gap, communality, promax, drop, flip, scale, level,
            draws, seed. Of importance: target, errors, types, columns, per_annotator, level. Of groups: groups,
            columns, lower_is_better, adjust, equal_variances, level. Of pool: minimum, spread, rule, columns.

    Returns:
        Criteria, ErrorImportance, GroupChanges, PoolReduction or AffectScores: frozen results with to_frame(),
        to_dict(), views(), notes and signature.

    >>> pilot = pl.DataFrame({"question": ["clear"] * 3 + ["blue"] * 3, "value": [5, 4, 5, 1, 5, 2]})
    >>> survey(pilot).kept
    ('clear',)
    """
    if kind is not None:
        one_of("kind", kind, SURVEY_KINDS)
    options.setdefault("where", str(data) if isinstance(data, (str, Path)) else "table")
    source = read_source(data, needs_table=kind in ("groups", "pool", "panas"), has_choices=False)
    kind = kind or _detect_kind(source, options)
    if kind == "criteria" and isinstance(data, (str, Path)):
        source = _evalset_of_judgments(source, options)
    options = select_options(kind, options, keyword_names(_ANALYSES_BY_KIND[kind]))
    memory.limit_draws(draws=options.get("draws") or 0)
    if not isinstance(source, pl.DataFrame):
        if kind not in ("criteria", "importance"):
            raise OptionError(f"kind '{kind}' reads a table, not judgments or scores", "kind")
        if kind == "importance" and isinstance(source, Judgments):
            raise OptionError(
                "kind 'importance' needs data with lists of errors or a table, not judgments alone", "kind"
            )
    return _ANALYSES_BY_KIND[kind](source, **options)


def _detect_kind(data: Data, options: Mapping[str, Any]) -> str:
    """Detect the kind by the columns; other tables, and data, are compared by criteria."""
    if not isinstance(data, pl.DataFrame):
        return "criteria"
    names = {name.strip().casefold() for name in data.columns}
    if names >= {word for words in PANAS.values() for word in words}:
        return "panas"
    if names >= {"question", "value"}:
        return "pool"
    return "groups" if detect_table_kind(data.columns, options.get("columns")) == "groups" else "criteria"


def _evalset_of_judgments(source: Data, options: Mapping[str, Any]) -> Data:
    """Convert a table of judgments with criteria to data; other tables stay tables."""
    columns, where = options.get("columns"), options["where"]
    if not isinstance(source, pl.DataFrame) or not {"criterion", "value"} <= set(
        map_columns(source.columns, columns, where)
    ):
        return source
    return evalset_of_table(source, columns, where)


# -- Blocks of items for participants ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Blocks:
    """Items spread over survey blocks; all outputs of an item are in the same block."""

    block: IntArray  # of every item, 0, 1, ...
    order: tuple[tuple[Any, ...], ...]  # the items' ids of each block, in the order to show them
    polarity: tuple[tuple[bool, ...], ...]  # for each block and question, whether its poles are exchanged; or ()

    def to_frame(self) -> pl.DataFrame:
        """One row per item and block, in the order to show."""
        rows = [(block, place + 1, item) for block, ids in enumerate(self.order) for place, item in enumerate(ids)]
        return pl.DataFrame(rows, schema=["block", "place", "item"], orient="row")


def survey_blocks(
    data: DataLike, blocks: int, *, by: str | Sequence[str] = (), questions: int = 0, seed: Seed = 0
) -> Blocks:
    """Assign items to blocks of nearly equal size, balanced over strata.

    Block sizes, and each stratum's counts in them, differ by at most 1. The order within a block is random. With
    `questions`, half of the questions (antonym pairs) of each block, chosen at random, have exchanged poles.

    Args:
        data: the items; a system's outputs go with their item.
        blocks: number of blocks; a participant answers one.
        by: item columns (domain, document, ...) whose combinations are the strata.
        questions: number of questions with two poles.
        seed: seed of blocks, order and polarity.

    >>> import aliquot
    >>> found = survey_blocks(aliquot.synthetic(items=21, systems=2, seed=1), 4, by="domain", seed=1)
    >>> sorted(map(len, found.order))
    [5, 5, 5, 6]
    """
    evalset = as_evalset(data)
    remedy = f"choose between 1 and the number of items, {evalset.n_items}"
    between("blocks", blocks, 1, evalset.n_items, remedy=remedy)
    rng = np.random.default_rng(seed)
    strata = _stratum_codes(evalset, [by] if isinstance(by, str) else list(by))
    # Strata one after the other, shuffled inside, dealt like cards: neither a stratum nor the whole is ever more than
    # one ahead in a block.
    shuffled = rng.permutation(evalset.n_items)
    dealt = shuffled[np.argsort(strata[shuffled], kind="stable")]
    block = np.empty(evalset.n_items, dtype=np.int64)
    block[dealt] = rng.permutation(blocks)[np.arange(evalset.n_items) % blocks]
    ids = evalset.ids
    order = tuple(
        tuple(ids[item] for item in rng.permutation(np.flatnonzero(block == number))) for number in range(blocks)
    )
    half = np.arange(questions) < questions // 2
    polarity = (
        tuple(tuple(bool(number) for number in rng.permutation(half)) for _ in range(blocks)) if questions else ()
    )
    return Blocks(block, order, polarity)


def _stratum_codes(evalset: EvalSet, columns: Sequence[str]) -> IntArray:
    codes = np.zeros(evalset.n_items, dtype=np.int64)
    for column in columns:
        column_codes = group_codes(evalset, column)
        codes = np.unique(codes * (int(column_codes.max()) + 1) + column_codes, return_inverse=True)[1]
    return codes
