"""What can be said of one criterion: its name, its scale, how scores come from answers, tests and agreement."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from aliquot.data.evalset import EvalSet
from aliquot.data.judgments import Judgments
from aliquot.report.datasheet import facts
from aliquot.report.datasheet import results as verbs
from aliquot.report.datasheet.known import JUDGMENTS, RESULTS, Filled, Known, protocols, sentence
from aliquot.report.datasheet.questions import questions


def fill_criterion(known: Known, name: str) -> Iterator[Filled]:
    """Fill in section 4 for one criterion."""
    judgments = known.judgments
    if judgments is not None and name in judgments.criteria:
        yield "4.3.1", name, "", JUDGMENTS
    yield from _instrument(known, name)
    yield from _scores(known, name)
    relevant = [result for result in known.results if verbs.about(result, name, known.criteria)]
    tests = [text for result in relevant if (text := verbs.significance(result)) is not None]
    if tests:
        yield "4.3.10", sentence("; ".join(tests)), "", RESULTS
    agreements = [text for r in known.results if (text := verbs.agreement(r, name, known.criteria)) is not None]
    if agreements:
        yield "4.3.11", "Yes: " + " ".join(agreements), "", "a result of aliquot agreement"


def _instrument(known: Known, name: str) -> Iterator[Filled]:
    judgments = known.judgments_of(name)
    if judgments is None:
        return
    labels = questions()["4.3.8"].labels
    named = protocols(judgments)
    errors = "error" in judgments.table.columns
    if errors or (named and all("mqm" in protocol.casefold() for protocol in named)):
        source = "the errors in the judgments" if errors else f"the protocol '{named[0]}'"
        yield "4.3.3", "N/A", "", source
        yield "4.3.4", "N/A", "", source
        yield "4.3.5", [questions()["4.3.5"].labels[3]], "", source
        task = "Annotators mark errors in the output; for each its kind and severity are recorded."
        yield "4.3.6", task, "", source
        yield "4.3.8", [labels[5]], "", source
        return
    if "scale" in judgments.table.columns and judgments.table["scale"].drop_nulls().len():
        return  # values on another scale than the annotators', e.g. z-scores
    values = facts.answered(judgments)["value"].to_numpy()
    scale = facts.observed_scale(values, known.value_range)
    if scale is not None:
        source = JUDGMENTS if known.value_range is None else "the range given"
        yield "4.3.3", scale.size, "", source
        yield "4.3.4", scale.values, "", source
        yield "4.3.6", "N/A", "", source


def _scores(known: Known, name: str) -> Iterator[Filled]:
    """4.3.9: what a result says, or that the human score is the mean of the judgments, where it is."""
    said = [
        text
        for result in known.results
        if verbs.about(result, name, known.criteria) and (text := verbs.aggregation(result)) is not None
    ]
    judgments = known.judgments_of(name)
    how_many = "" if judgments is None else facts.judgments_per_output(judgments)
    sources = [RESULTS] if said else []
    if judgments is not None and known.data is not None:
        score = _mean_score(known.data, judgments, name, known.human)
        if score is not None:
            said = [f"the score '{score}' of an output is the mean of its judgments ({how_many})", *said]
            sources = [JUDGMENTS, *sources]
        elif said:
            said = [how_many, *said]
    if said:
        yield "4.3.9", sentence("; ".join(said)), "", " and ".join(sources)


def _mean_score(data: EvalSet, judgments: Judgments, name: str, human: str | None) -> str | None:
    """Return the human score that is the plain mean of a criterion's judgments, checked cell by cell."""
    cells = judgments.cell_means()
    if not cells.height:
        return None
    rows, columns = data.cell_index(cells["item"], cells["system"])
    wanted = {f"human_{name}".casefold(), name.casefold()}
    candidates = [score for score in data.scores if score.casefold() in wanted] + ([human] if human else [])
    for score in candidates:
        given = data.scores[score][rows, columns]
        if np.allclose(given, cells["value"].to_numpy(), atol=1e-6):
            return score
    return None
