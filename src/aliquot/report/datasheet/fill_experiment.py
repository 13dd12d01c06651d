"""What can be said of the experiment as a whole: languages, sample, power, annotators, quality assurance."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from aliquot.data.evalset import EvalSet
from aliquot.data.judgments import MARKED, Judgments
from aliquot.data.selection import Selection
from aliquot.data.spec import parse_spec
from aliquot.report.datasheet import facts
from aliquot.report.datasheet import results as verbs
from aliquot.report.datasheet.known import DATA, JUDGMENTS, RESULTS, SELECTION, Filled, Known, sentence
from aliquot.report.datasheet.languages import pair_in
from aliquot.report.datasheet.questions import questions
from aliquot.select.methods import lookup
from aliquot.select.summary import effect
from aliquot.stats.arrays import FloatArray


def fill_experiment(known: Known) -> Iterator[Filled]:
    """Fill in sections 1 to 3 and 5."""
    if known.data is None:
        yield from _power(known)
        return
    languages = pair_in(known.data.name)
    if languages is not None:
        source = f"the name '{known.data.name}'"
        yield "2.4", languages[0], "", source
        yield "2.5", languages[1], "", source
    yield from _sample(known, known.data)
    yield from _power(known)
    yield from _annotators(known)


def _sample(known: Known, data: EvalSet) -> Iterator[Filled]:
    counts, source = facts.outputs_per_system(data, known.human), JUDGMENTS if data.judgments else DATA
    if not counts and known.selection is not None:
        counts, source = facts.planned_outputs(known.selection, data.systems), SELECTION
    if counts:
        yield "3.1.1", facts.written_count(counts), "", source
    if known.selection is not None:
        yield "3.1.2", [_way_of_choosing(known.selection)], _how_chosen(known.selection, data), SELECTION
    elif counts:
        judged = max(counts.values())
        text = f"{len(counts)} systems; up to {judged} of the {data.n_items} items in the data were judged for each."
        yield "3.1.2", [], text, source


def _way_of_choosing(selection: Selection) -> str:
    """Return the option of 3.1.2 that a method of `select` is."""
    at_random, stratified, *_, other = questions()["3.1.2"].labels
    method, _ = lookup(parse_spec(selection.method).name)
    if selection.probability is None and method.name != "random":
        return other
    spread = selection.stratum is not None or method.name in ("stratified", "balanced", "incremental")
    return stratified if spread or selection.details.get("variance") == "stratified" else at_random


def _how_chosen(selection: Selection, data: EvalSet) -> str:
    method, _ = lookup(parse_spec(selection.method).name)
    share = f"{len(selection)} of {selection.population} items, by aliquot select, method {selection.method}"
    parts = [f"{share} ({method.summary.rstrip('.')})"]
    chances = selection.probability
    if chances is not None and len(chances):
        low, high = float(chances.min()), float(chances.max())
        known = f"{low:.3g}" if np.isclose(low, high) else f"{low:.3g} to {high:.3g}"
        parts.append(f"each item's inclusion probability is known: {known}")
    same = "the same items for all" if selection.systems is None else "a draw of its own for each of the"
    parts.append(f"{same} {data.n_systems} systems")
    parts.append(effect(selection))
    return "; ".join(parts) + "." + (f" {selection.signature}" if selection.signature else "")


def _power(known: Known) -> Iterator[Filled]:
    planned = [text for result in known.results if (text := verbs.power(result)) is not None]
    if planned:
        yield "3.1.3", " ".join(planned), "", "a result of aliquot plan"
        return
    if known.data is None:
        return
    name, scores = _judged_scores(known, known.data)
    found = None if scores is None else facts.detectable_difference(scores)
    if found is not None:
        yield "3.1.3", f"{found} Computed after the fact from {name} by aliquot datasheet.", "", name


def _judged_scores(known: Known, data: EvalSet) -> tuple[str, FloatArray | None]:
    """The human score; where judgments of one protocol are kept, their means, since the score may be another's."""
    if data.judgments is not None and (known.human is None or known.protocol is not None):
        return "the means of the judgments", data.aggregate(name="_means").scores["_means"]
    return f"the score '{known.human}'", data.scores[known.human] if known.human is not None else None


def _annotators(known: Known) -> Iterator[Filled]:
    judgments = known.judgments
    if judgments is None:
        return
    if judgments.annotators:
        yield "3.2.1", str(len(judgments.annotators)), "", JUDGMENTS
    yield from _quality(known, judgments)


def _quality(known: Known, judgments: Judgments) -> Iterator[Filled]:
    """3.3.3 as far as control items, repeated items, marks and a cleaning tell."""
    _, automatic, _, people_out, some_out, *_ = questions()["3.3.3"].labels
    chosen: set[str] = set()
    details = []
    seen = list(_checks(judgments))
    for count, what, checks in seen:
        chosen |= {automatic} if checks else set()
        details.append(f"{count} judgments {what}")
    marked, partly, lost = _marks(judgments)
    cleanings = [result for result in known.results if result.verb == "clean"]
    details += [text for result in cleanings if (text := verbs.cleaning(result)) is not None] or marked
    left_out = [verbs.leaves_out(result) for result in cleanings]
    if partly or any(some for some, _ in left_out):
        chosen |= {automatic, some_out}
    if lost or any(people for _, people in left_out):
        chosen |= {automatic, people_out}
    if chosen or details:
        sources = [JUDGMENTS] if seen or marked else []
        order = [label for label in questions()["3.3.3"].labels if label in chosen]
        yield "3.3.3", order, sentence("; ".join(details)), " and ".join(sources + [RESULTS] * bool(cleanings))


def _checks(judgments: Judgments) -> Iterator[tuple[int, str, bool]]:
    """Count judgments that tell about annotators; whether repeats were used to check them is for people to say."""
    answers = judgments.answers()
    controls = answers.filter(facts.is_control(answers)).height
    if controls:
        yield controls, "of control items", True
    if "repeat" in answers.columns and answers["repeat"].dtype == pl.Boolean:
        repeats = int(answers["repeat"].fill_null(value=False).sum())
        if repeats:
            yield repeats, "repeated by the same annotator", False


def _marks(judgments: Judgments) -> tuple[list[str], bool, bool]:
    """Say how many judgments are marked and why, if of some annotators some are left, and if of some nothing is."""
    table = judgments.table
    if MARKED not in table.columns or not table[MARKED].count():
        return [], False, False
    reasons = table[MARKED].drop_nulls().value_counts(sort=True)
    listed = ", ".join(f"{reason}: {count}" for reason, count in reasons.iter_rows())
    lost = set(judgments.annotators) - set(judgments.usable().annotators)
    partly = not set(table.filter(pl.col(MARKED).is_not_null())["annotator"]) <= lost
    text = f"{table[MARKED].count()} of {table.height} judgments are marked and do not count ({listed})"
    return [text], partly, bool(lost)
