"""Preferences: choices between systems, whether people made them in pairs, on ballots, or by scoring outputs apart.

Everything becomes pairwise choices on items. A ranking says who beats whom, a best-worst ballot that the best beats
and the worst loses to everything shown; scores say it where one annotator (or all of them on average) scored two
outputs of the same item.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from aliquot.data.evalset import EvalSet
from aliquot.data.judgments import Judgments
from aliquot.errors import DataError, OptionError, unknown_name
from aliquot.judge import ballots
from aliquot.judge.answers import OPEN, answers_of, group_codes
from aliquot.judge.choice_sets import Preferences, annotator_notes, cluster_codes
from aliquot.judge.choice_tables import choice_table, fingerprint
from aliquot.judge.labels import known_systems
from aliquot.judge.pair_rows import pair_preferences
from aliquot.stats.arrays import FloatArray, IntArray
from aliquot.stats.choices import choices_of_scores

WITHIN = ("annotator", "item")


def table_preferences(
    table: pl.DataFrame,
    kind: str = "pairwise",
    *,
    systems: Sequence[str] | None = None,
    columns: Mapping[str, str] | None = None,
    ignore: Collection[str] = (),
    cluster: str = "item",
    strict: bool = False,
    where: str = "table",
) -> Preferences:
    """Read choices from a table of pairs, best-worst ballots or rankings (columns: see `aliquot.judge.choice_tables`).

    Args:
        table: As it came.
        kind: pairwise, best-worst or ranking.
        systems: Keep only these; for pairs and ballots that do not name the systems shown, who they were.
        columns: Our column role -> the table's column.
        ignore: Choices to leave out.
        cluster: item, annotator, or none to take all choices for independent.
        strict: Refuse duplicates that contradict each other instead of merging them.
        where: File name, for messages.

    Example:
        >>> table = pl.DataFrame({"item": [1, 2], "annotator": ["p", "p"], "system_a": ["X", "Y"],
        ...                       "system_b": ["Y", "X"], "choice": ["a", "b"]})
        >>> table_preferences(table).choices.outcome.tolist()
        [1, 1]
    """
    sorted_out = choice_table(table, kind, columns, where)
    asked = (("systems", _joined(systems)), ("ignore", _joined(ignore)))
    if kind == "pairwise":
        return replace(pair_preferences(sorted_out, systems, ignore, cluster, strict=strict), asked=asked)
    read = ballots.best_worst if kind == "best-worst" else ballots.rankings
    found = read(sorted_out, systems, strict=strict)
    codes = cluster_codes(found.keys, cluster)
    choices = choices_of_scores(found.values, codes, ties=kind == "ranking")
    if not len(choices):
        raise DataError(f"{where}: no choice between two systems is left; check the choices and --systems")
    return Preferences(
        systems=found.systems,
        choices=choices,
        kind=kind,
        items=found.keys["item"].n_unique(),
        annotators=found.keys["annotator"].drop_nulls().n_unique(),
        shown=found.shown,
        notes=(*found.notes, *annotator_notes(found.keys)),
        fingerprint=sorted_out.fingerprint,
        asked=asked,
    )


def _joined(names: Collection[str] | None) -> str | None:
    return ",".join(names) if names else None


# -- scores --------------------------------------------------------------------------------------------------------


def score_preferences(
    data: EvalSet | Judgments,
    *,
    systems: Sequence[str] | None = None,
    criterion: str | None = None,
    human: str | None = None,
    within: str = "annotator",
    margin: float = 0.0,
    cluster: str = "item",
) -> Preferences:
    """Derive choices from scores: of two outputs of an item, the one that the same annotator scored higher is chosen.

    Args:
        data: Judgments, or data with them; data without judgments are compared by their human score.
        systems: Keep only these.
        criterion: One criterion; by default the mean over all that the annotator answered.
        human: Compare by this score instead of by judgments.
        within: annotator (an annotator's own scores are compared) or item (the item's means over annotators are).
        margin: Differences up to it are ties.
        cluster: item, annotator, or none.

    Raises:
        DataError: Nobody scored two systems on the same item.

    Example:
        >>> import aliquot
        >>> data = aliquot.synthetic(items=30, systems=3, seed=1)
        >>> score_preferences(data, within="item").items
        30
    """
    if within not in WITHIN:
        raise unknown_name("within", within, WITHIN)
    judgments = data if isinstance(data, Judgments) else data.judgments
    asked = (("systems", _joined(systems)), ("criterion", criterion), ("human", human),
             ("within", None if within == "annotator" else within), ("margin", margin or None))  # fmt: skip
    if human is not None or judgments is None:
        if isinstance(data, Judgments):
            raise OptionError("human= names a score, and judgments alone have none; give data with scores")
        return replace(_from_score(data, systems, human, margin), asked=asked)
    found = _from_answers(judgments, systems, criterion, within, margin, cluster)
    digest = data.fingerprint if isinstance(data, EvalSet) else fingerprint(judgments.table)
    return replace(found, fingerprint=digest, asked=asked)


def _from_score(data: EvalSet, systems: Sequence[str] | None, human: str | None, margin: float) -> Preferences:
    kept = data if systems is None else data.keep(systems=known_systems(systems, data.systems, data.name))
    scores = kept.human_score(human)
    rows = np.flatnonzero(np.isfinite(scores).sum(axis=1) > 1)
    if not len(rows):
        raise DataError(f"{data.name}: no item has the score '{human or data.human}' for two systems; check --human")
    codes = np.arange(len(rows), dtype=np.int64)  # one row per item: items, annotators and rows are the same
    choices = choices_of_scores(scores[rows], codes, margin)
    note = f"compared by the score '{human or data.human}', item by item"
    return Preferences(kept.systems, choices, "scores", len(rows), 0, notes=(note,), fingerprint=data.fingerprint)


def _from_answers(
    judgments: Judgments, systems: Sequence[str] | None, criterion: str | None, within: str, margin: float, cluster: str
) -> Preferences:
    table = answers_of(judgments).table.filter(OPEN & pl.col("control").is_null())
    notes = []
    if criterion is not None:
        if criterion not in judgments.criteria:
            raise unknown_name("criterion", criterion, judgments.criteria)
        table = table.filter(pl.col("criterion") == criterion)
    elif len(judgments.criteria) > 1:
        notes.append(f"the mean over {len(judgments.criteria)} criteria is compared; --criterion NAME compares one")
    names = table["system"].unique(maintain_order=True).to_list()
    if systems is not None:
        names = known_systems(systems, names, "judgments")
        table = table.filter(pl.col("system").is_in(names))
    notes += _torn(table)
    table, keys = _units(table, within)
    matrix, kept = _matrix(table, keys, names)
    if not len(kept):
        raise DataError(
            "nobody scored two of the systems on the same item" + (
                "; compare the items' means over annotators with --within item" if within == "annotator" else ""
            )
        )  # fmt: skip
    units = keys[kept]
    return Preferences(
        systems=tuple(names),
        choices=choices_of_scores(matrix, cluster_codes(units, cluster), margin),
        kind="scores",
        items=units["item"].n_unique(),
        annotators=units["annotator"].drop_nulls().n_unique(),
        notes=(*notes, *(annotator_notes(units) if within == "annotator" else [])),
    )


def _torn(table: pl.DataFrame) -> list[str]:
    """Say how often an annotator scored an output twice and differently; such scores are averaged."""
    cell = ["item", "annotator", "system", "criterion"]
    several = table.filter(pl.col("annotator").is_not_null()).group_by(cell).agg(pl.col("value").n_unique())
    torn = several.filter(pl.col("value") > 1).height
    return [f"outputs that an annotator scored more than once and differently, averaged: {torn}"] if torn else []


def _units(table: pl.DataFrame, within: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Cell means with the number of the unit (an annotator on an item, or an item) they belong to, and the units."""
    by = ["item", "annotator"] if within == "annotator" else ["item"]
    cells = table.group_by(*by, "system", maintain_order=True).agg(pl.col("value").mean())
    cells = cells.with_columns(pl.Series("unit", group_codes(cells, by)))
    keys = cells.group_by("unit").agg(pl.col(*by).first()).sort("unit").drop("unit")
    return cells, keys if within == "annotator" else keys.with_columns(pl.lit(None, dtype=pl.String).alias("annotator"))


def _matrix(cells: pl.DataFrame, keys: pl.DataFrame, names: Sequence[str]) -> tuple[FloatArray, IntArray]:
    """Units x systems of those units that scored at least two, and which units they are."""
    unit = cells["unit"].to_numpy().astype(np.int64)
    kept = np.flatnonzero(np.bincount(unit, minlength=keys.height) > 1)
    place = np.full(keys.height, -1, dtype=np.int64)
    place[kept] = np.arange(len(kept))
    place_of = {name: at for at, name in enumerate(names)}
    column = cells["system"].replace_strict(place_of, return_dtype=pl.Int64).to_numpy().astype(np.int64)
    rows = place[unit]
    matrix = np.full((len(kept), len(names)), np.nan)
    matrix[rows[rows >= 0], column[rows >= 0]] = cells["value"].to_numpy()[rows >= 0]
    return matrix, kept
