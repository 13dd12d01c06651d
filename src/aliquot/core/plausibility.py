"""Plausibility of data: mistakes that leave a trace in the scores, with rows and remedy.

`inspect`, `clean` and `estimate`, and with `estimate` reports and the status of campaigns, show the same notes.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from aliquot.core.annotator_scales import annotator_notes
from aliquot.core.conventions import usable_metrics
from aliquot.core.draws import DRAW
from aliquot.core.evalset import EvalSet
from aliquot.core.misalignment import misalignment_notes
from aliquot.stats.arrays import encode_labels
from aliquot.stats.plausibility import (
    find_copied_columns,
    find_outside_values,
    find_reversed_scores,
    is_rescaled_copy,
)

_MAX_ROWS = 3  # rows that a note names
_MIN_CHARACTERS = 40  # of a source: short ones are repeated in any text
_MIN_EQUAL_ITEMS, _MIN_EQUAL_SHARE = 4, 0.02  # natural texts repeat themselves, too: up to 0.8% on 15 campaigns
_MAX_ANNOTATORS = 300  # above that, pairs of annotators are not compared


def plausibility_notes(evalset: EvalSet, human: str | None = None) -> list[str]:
    """Return notes on likely mistakes in the data: what, where, and the remedy.

    >>> import aliquot
    >>> plausibility_notes(aliquot.synthetic(items=60, systems=3, seed=2))
    []
    """
    name = human or evalset.human
    notes = evalset.derived(f"plausibility of {name}", lambda data: _collect_notes(data, name))
    return [*notes, *annotator_notes(evalset)]


def _collect_notes(evalset: EvalSet, human: str | None) -> list[str]:
    notes = _find_outside_judgments(evalset)
    if not notes:
        names = [human, *evalset.metrics] if human is not None else evalset.metrics
        notes += [note for name in names for note in _find_outside_scores(evalset, name)]
    notes += [
        *_find_copied_metrics(evalset, human),
        *_find_copied_annotators(evalset),
        *_find_reversed_metrics(evalset, human),
    ]
    notes += _find_equal_items(evalset)
    return [*notes, *([] if human is None else misalignment_notes(evalset, human))]


def _find_outside_judgments(evalset: EvalSet) -> list[str]:
    """Return notes on values of single judgments far outside the scale."""
    if evalset.judgments is None:
        return []
    table = evalset.judgments.answers().filter(pl.col("value").is_not_null())
    groups = [name for name in ("criterion", "protocol") if name in table.columns]
    notes = []
    for _, part in table.group_by(groups, maintain_order=True):
        for value in find_outside_values(part["value"].to_numpy()):
            rows = part.filter(pl.col("value") == value)
            places = [
                f"item {row['item']}, {row['system']}, {row['annotator'] or 'no annotator'}"
                for row in rows.head(_MAX_ROWS).iter_rows(named=True)
            ]
            notes.append(_describe_outside_value("judgments", value, rows.height, places))
    return notes


def _find_outside_scores(evalset: EvalSet, name: str) -> list[str]:
    scores, notes = evalset.scores[name], []
    for value in find_outside_values(scores):
        rows, columns = np.nonzero(scores == value)
        cells = list(zip(rows, columns, strict=True))
        places = [f"item {evalset.ids[row]}, {evalset.systems[column]}" for row, column in cells[:_MAX_ROWS]]
        notes.append(_describe_outside_value(f"'{name}'", value, len(cells), places))
    return notes


def _describe_outside_value(what: str, value: float, count: int, places: list[str]) -> str:
    more = f"; and {count - len(places)} more" if count > len(places) else ""
    times = "once" if count == 1 else f"{count} times"
    return (
        f"{what} contain {value:g} {times}, far outside the other values ({'; '.join(places)}{more}): a code for a "
        "missing value or a slip? Correct such values or leave them empty; `clean` with a scale marks them"
    )


def _find_copied_metrics(evalset: EvalSet, human: str | None) -> list[str]:
    if human is None:
        return []
    people = evalset.scores[human]
    return [
        f"metric '{name}' equals '{human}': it is a copy of people's scores, not a metric; leave it out"
        for name in evalset.metrics
        if is_rescaled_copy(evalset.scores[name], people)
    ]


def _find_reversed_metrics(evalset: EvalSet, human: str | None) -> list[str]:
    names = usable_metrics(evalset)
    people = None if human is None else evalset.scores[human]
    against = find_reversed_scores([evalset.scores[name] for name in names], people)
    remedy = "is lower better? Name it in `lower_is_better`"
    if human is None and len(names) == len(against) == 2:
        pair = f"metrics '{names[0]}' and '{names[1]}' run against each other"
        return [f"{pair} (correlation {against[0].correlation:.2f}): of one of them, {remedy}"]
    with_people = [names[score.index] for score in against if score.with_people]
    if len(with_people) > max(1, len(names) / 2):
        return [f"'{human}' runs against {len(with_people)} of {len(names)} metrics: {remedy}"]
    reference = {True: f"'{human}'", False: "the other metrics"}
    return [
        f"metric '{names[score.index]}' runs against {reference[score.with_people]} "
        f"(correlation {score.correlation:.2f}): {remedy}"
        for score in against
    ]


def _find_equal_items(evalset: EvalSet) -> list[str]:
    """Return a note on items with equal source and outputs; draws of one prompt may be equal."""
    if evalset.outputs is None or "source" not in evalset.items.columns:
        return []
    texts = [evalset.items["source"], *evalset.outputs.get_columns()]
    long = texts[0].str.len_chars().fill_null(0) >= _MIN_CHARACTERS
    texts += [evalset.items[DRAW]] if DRAW in evalset.items.columns else []
    frame = pl.DataFrame([text.alias(str(number)) for number, text in enumerate(texts)])
    key = frame.hash_rows()
    repeated = (key.is_duplicated() & long).to_numpy()
    if repeated.sum() < max(_MIN_EQUAL_ITEMS, _MIN_EQUAL_SHARE * evalset.n_items):
        return []
    first = int(np.flatnonzero(repeated)[0])
    same = [evalset.ids[row] for row in np.flatnonzero((key == key[first]).to_numpy())]
    example = ", ".join(map(str, same[:_MAX_ROWS]))
    count = f"{int(repeated.sum())} items have the same source and outputs as another one (for example {example})"
    return [f"{count}: one item under several ids counts more than once; leave the copies out"]


def _find_copied_annotators(evalset: EvalSet) -> list[str]:
    if evalset.judgments is None or not 1 < len(evalset.judgments.annotators) <= _MAX_ANNOTATORS:
        return []
    keys = ["item", "system", "criterion", *(["protocol"] if "protocol" in evalset.judgments.answers().columns else [])]
    table = evalset.judgments.answers().filter(pl.col("value").is_not_null() & pl.col("annotator").is_not_null())
    cells = table.group_by([*keys, "annotator"], maintain_order=True).agg(pl.col("value").mean())
    names = cells["annotator"].unique(maintain_order=True).to_list()
    row = encode_labels(cells.select(keys).rows())
    values = np.full((int(row.max()) + 1 if len(row) else 0, len(names)), np.nan)
    values[row, encode_labels(cells["annotator"].to_list())] = cells["value"].to_numpy()
    return [
        f"annotators '{names[first]}' and '{names[second]}' gave equal judgments on {count} outputs that both judged: "
        "one is a copy of the other, and errors are underestimated; leave one of them out"
        for first, second, count in find_copied_columns(values)
    ]
