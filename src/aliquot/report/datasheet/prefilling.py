"""Start a datasheet, filled in from data, selection, judgments and results of other verbs.

Nothing is guessed: what is filled in says where it comes from, what could not be filled in although one might expect it
says why (`notes`), and everything can be changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from aliquot.core.evalset import EvalSet
from aliquot.core.judgments import MARKED, Judgments
from aliquot.core.registry import parse_spec
from aliquot.core.result import make_signature
from aliquot.core.selection import Selection
from aliquot.errors import DataError, OptionError, unknown_name
from aliquot.estimation.inputs import attach_judgments
from aliquot.io.inputs import DataLike, JudgmentsLike, SelectionLike, as_evalset, as_selection
from aliquot.report.datasheet import facts
from aliquot.report.datasheet.facts import Evidence, as_sentence, list_judgment_protocols
from aliquot.report.datasheet.forms import find_language_pair
from aliquot.report.datasheet.protocol_facts import Filled, fill_collection, fill_instrument, find_preset
from aliquot.report.datasheet.questions import load_questions
from aliquot.report.datasheet.sheet import Datasheet, make_blank_sheet
from aliquot.sampling.methods import find_method
from aliquot.sampling.summary import describe_effect
from aliquot.stats.arrays import FloatArray

DATA, JUDGMENTS, SELECTION, RESULTS = "the data", "the judgments", "the selection", "results of other verbs"
_NAMELESS = "criterion 1"


def new(
    data: DataLike | None = None,
    *,
    selection: SelectionLike | None = None,
    judgments: JudgmentsLike | None = None,
    results: Sequence[object] = (),
    criteria: Sequence[str] | None = None,
    protocol: str | None = None,
    human: str | None = None,
    value_range: tuple[float, float] | None = None,
) -> Datasheet:
    """Start a datasheet for an experiment, filled in from the arguments.

    Args:
        data: the evaluation set; without it the sheet is blank.
        selection: the items that were (or will be) judged; says how they were chosen, with which probabilities.
        judgments: people's answers, where they are not in the data.
        results: results of other verbs (`estimate`, `agreement`, ...): objects, documents, or files with their JSON.
        criteria: the names of the criteria; by default those of the judgments.
        protocol: keep only the judgments of this protocol; a sheet describes one experiment.
        human: the human score; by default the one the data name.
        value_range: the ends of the scale, where the values do not tell it.

    >>> import aliquot
    >>> data = aliquot.synthetic(items=40, systems=3, seed=1)
    >>> sheet = aliquot.datasheet.new(data, selection=aliquot.select(data, "segments", budget=10))
    >>> sheet.answer("3.1.1").text, sheet.answer("3.1.2").chosen
    ('10', ('by an automatic random process from a larger set',))
    """
    notes: list[str] = []
    data = None if data is None else as_evalset(data)
    selection = None if selection is None else as_selection(selection)
    if data is None and (selection is not None or judgments is not None or protocol is not None):
        raise OptionError("a selection, judgments or a protocol need the data they belong to; give DATA / data=")
    if value_range is not None and not value_range[0] < value_range[1]:
        raise OptionError(f"value_range {value_range}: the lower end comes first, e.g. 1,5")
    described, score = data, human  # the data, with the judgments of this experiment only
    if described is not None:
        notes += () if selection is None else selection.check(described)
        if judgments is not None:
            described, mismatches = attach_judgments(described, judgments, selection, human)
            notes += [mismatch.sentence for mismatch in mismatches]
        elif selection is not None:
            described = _keep_selected(described, selection)
        if protocol is not None:
            described = _keep_protocol(described, protocol)
        score = human or described.human
        if score is not None:
            described.score(score)
    names = tuple(criteria) if criteria is not None else _criterion_names(described, score)
    read = tuple(facts.read_result(result) for result in results)
    evidence = Evidence(described, score, selection, read, value_range, names, protocol)
    sheet = make_blank_sheet(names or (_NAMELESS,))
    for number, value, details, source in fill_experiment(evidence):
        sheet = sheet.with_answer(number, value, details=details, source=source)
    for name in names:
        for number, value, details, source in fill_criterion(evidence, name):
            sheet = sheet.with_answer(number, value, details=details, source=source, criterion=name)
    ends = None if value_range is None else f"{value_range[0]:g},{value_range[1]:g}"
    made_by = [selection.signature] if selection is not None and selection.signature else []
    return replace(
        sheet,
        signature=make_signature(
            "datasheet:new", data, criteria=len(sheet.criteria), protocol=protocol, human=human, range=ends
        ),
        results=(*made_by, *(result.signature for result in read)),
        name="datasheet" if data is None else data.name,
        notes=(*notes, *_list_gaps(evidence, sheet)),
    )


def _keep_selected(data: EvalSet, selection: Selection) -> EvalSet:
    """Return the chosen items, with the judgments of the chosen outputs only."""
    chosen = data.keep(items=list(selection.ids))
    if chosen.judgments is None or selection.systems is None:
        return chosen
    pairs = [(str(i), s) for i, names in zip(selection.ids, selection.systems, strict=True) for s in names]
    selected = pl.DataFrame(pairs, schema={"_item": pl.String, "system": pl.String}, orient="row")
    table = chosen.judgments.table.with_columns(pl.col("item").cast(pl.String).alias("_item"))
    table = table.join(selected, on=["_item", "system"], how="semi", maintain_order="left").drop("_item")
    return replace(chosen, judgments=Judgments(table))


def _keep_protocol(data: EvalSet, protocol: str) -> EvalSet:
    table = None if data.judgments is None else data.judgments.table
    if table is None or "protocol" not in table.columns:
        raise DataError(f"{data.name}: the judgments name no protocol; leave out `protocol`")
    protocols = table["protocol"].drop_nulls().unique(maintain_order=True).to_list()
    if protocol not in protocols:
        raise unknown_name("protocol", protocol, protocols)
    return replace(data, judgments=Judgments(table.filter(pl.col("protocol") == protocol)))


def _criterion_names(data: EvalSet | None, human: str | None) -> tuple[str, ...]:
    """Return the criteria of the judgments, or the protocol or human score where they name none."""
    if data is None:
        return ()
    criteria = [] if data.judgments is None else data.judgments.criteria
    named = list_judgment_protocols(data.judgments)
    return tuple(criteria) or (tuple(named) if len(named) == 1 else (human,) if human else ())


def _list_gaps(evidence: Evidence, sheet: Datasheet) -> Iterator[str]:
    judgments = evidence.judgments
    if evidence.data is None:
        return
    if judgments is None:
        yield "there are no judgments: annotators, scales and agreement are left open"
    named = list_judgment_protocols(judgments)
    if len(named) > 1:
        yield (
            f"the judgments are of {len(named)} protocols ({', '.join(named)}); a sheet describes one "
            "experiment: keep one with `protocol`"
        )
    if judgments is not None and not sheet.answer("3.2.1").given:
        yield "the judgments name no annotators: 3.2.1 is left open"
    if not evidence.criteria:
        yield f"no criterion is named: [[criterion]] is called '{_NAMELESS}'; rename it"
    for name in evidence.criteria:
        if evidence.judgments_of(name) is None and judgments is not None:
            yield f"no judgment is of the criterion '{name}': it is left open"
        elif judgments is not None and not sheet.answer("4.3.3", name).given:
            yield f"the values do not tell the scale of '{name}' (4.3.3, 4.3.4); give `value_range` LOW,HIGH"
        if judgments is not None and evidence.human is not None and not sheet.answer("4.3.9", name).given:
            yield f"no human score is the mean of the judgments of '{name}': 4.3.9 is left open"
    for result in evidence.results:
        if result.verb not in ("estimate", "combine", "compare", "plan", "agreement", "clean"):
            yield f"a result of '{result.verb}' answers no question; its signature is kept"


# -- The experiment as a whole (sections 1 to 3 and 5) ----------------------------------------------------------------


def fill_experiment(evidence: Evidence) -> Iterator[Filled]:
    """Fill in languages, sample, power, annotators and quality assurance."""
    languages = None if evidence.data is None else find_language_pair(evidence.data.name)
    if evidence.data is not None and languages is not None:
        for number, language in zip(("2.4", "2.5"), languages, strict=True):
            yield number, language, "", f"the name '{evidence.data.name}'"
    if evidence.data is not None:
        yield from _fill_sample(evidence, evidence.data)
    yield from _fill_power(evidence)
    if evidence.judgments is not None:
        if evidence.judgments.annotators:
            yield "3.2.1", str(len(evidence.judgments.annotators)), "", JUDGMENTS
        yield from _fill_quality(evidence, evidence.judgments)
        preset = find_preset(evidence.judgments)
        yield from fill_collection(preset) if preset is not None else ()


def _fill_sample(evidence: Evidence, data: EvalSet) -> Iterator[Filled]:
    counts, source = facts.count_outputs(data, evidence.human), JUDGMENTS if data.judgments else DATA
    if not counts and evidence.selection is not None:
        counts, source = facts.count_planned_outputs(evidence.selection, data.systems), SELECTION
    if counts:
        yield "3.1.1", facts.write_counts(counts), "", source
    if evidence.selection is not None:
        details = _describe_sampling(evidence.selection, data)
        yield "3.1.2", [_match_sampling_option(evidence.selection)], details, SELECTION
    elif counts:
        judged = max(counts.values())
        text = f"{len(counts)} systems; up to {judged} of the {data.n_items} items in the data were judged for each."
        yield "3.1.2", [], text, source


def _match_sampling_option(selection: Selection) -> str:
    """Return the option of 3.1.2 that a method of `select` is."""
    at_random, stratified, *_, other_way = load_questions()["3.1.2"].labels
    method, _ = find_method(parse_spec(selection.method).name)
    if selection.probability is None and method.name != "random":
        return other_way
    spread = selection.stratum is not None or method.name in ("stratified", "balanced", "incremental")
    return stratified if spread or selection.design.variance == "stratified" else at_random


def _describe_sampling(selection: Selection, data: EvalSet) -> str:
    method, _ = find_method(parse_spec(selection.method).name)
    share = f"{len(selection)} of {selection.population} items, by aliquot select, method {selection.method}"
    parts = [f"{share} ({method.summary.rstrip('.')})"]
    probability = selection.probability
    if probability is not None and len(probability):
        low, high = float(probability.min()), float(probability.max())
        probabilities = f"{low:.3g}" if np.isclose(low, high) else f"{low:.3g} to {high:.3g}"
        parts.append(f"each item's inclusion probability is known: {probabilities}")
    same = "the same items for all" if selection.systems is None else "a draw of its own for each of the"
    parts.append(f"{same} {data.n_systems} systems")
    parts.append(describe_effect(selection))
    return "; ".join(parts) + "." + (f" {selection.signature}" if selection.signature else "")


def _fill_power(evidence: Evidence) -> Iterator[Filled]:
    planned = [text for result in evidence.results if (text := facts.describe_power(result)) is not None]
    if planned:
        yield "3.1.3", " ".join(planned), "", "a result of aliquot plan"
        return
    if evidence.data is None:
        return
    name, scores = _judged_scores(evidence, evidence.data)
    difference = None if scores is None else facts.describe_detectable_difference(scores)
    if difference is not None:
        yield "3.1.3", f"{difference} Computed after the fact from {name} by aliquot datasheet.", "", name


def _judged_scores(evidence: Evidence, data: EvalSet) -> tuple[str, FloatArray | None]:
    """Return the human score, or the means of the judgments where those of one protocol are kept."""
    if data.judgments is not None and (evidence.human is None or evidence.protocol is not None):
        return "the means of the judgments", data.aggregate(name="_means").scores["_means"]
    return f"the score '{evidence.human}'", data.scores[evidence.human] if evidence.human is not None else None


def _fill_quality(evidence: Evidence, judgments: Judgments) -> Iterator[Filled]:
    """Fill in 3.3.3 from control items, repeated items, marks and cleaning."""
    _, automatic, _, people_out, some_out, *_ = load_questions()["3.3.3"].labels
    chosen: set[str] = set()
    details = []
    checked = list(_count_checks(judgments))
    for count, what, is_check in checked:
        chosen |= {automatic} if is_check else set()
        details.append(f"{count} judgments {what}")
    marked, partly, lost = _describe_marks(judgments)
    cleanings = [result for result in evidence.results if result.verb == "clean"]
    details += [text for result in cleanings if (text := facts.describe_cleaning(result)) is not None] or marked
    left_out = [facts.leaves_out(result) for result in cleanings]
    if partly or any(some for some, _ in left_out):
        chosen |= {automatic, some_out}
    if lost or any(people for _, people in left_out):
        chosen |= {automatic, people_out}
    if chosen or details:
        sources = [JUDGMENTS] if checked or marked else []
        order = [label for label in load_questions()["3.3.3"].labels if label in chosen]
        yield "3.3.3", order, as_sentence("; ".join(details)), " and ".join(sources + [RESULTS] * bool(cleanings))


def _count_checks(judgments: Judgments) -> Iterator[tuple[int, str, bool]]:
    """Yield counts of control items and repeats, and whether they are checks: repeats need not be."""
    answers = judgments.answers()
    controls = answers.filter(facts.is_control(answers)).height
    if controls:
        yield controls, "of control items", True
    if "repeat" in answers.columns and answers["repeat"].dtype == pl.Boolean:
        repeats = int(answers["repeat"].fill_null(value=False).sum())
        if repeats:
            yield repeats, "repeated by the same annotator", False


def _describe_marks(judgments: Judgments) -> tuple[list[str], bool, bool]:
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


# -- One criterion (section 4) ---------------------------------------------------------------------------------------


def fill_criterion(evidence: Evidence, name: str) -> Iterator[Filled]:
    """Fill in a criterion's name, scale, how scores come from judgments, tests and agreement."""
    judgments = evidence.judgments
    if judgments is not None and name in judgments.criteria:
        yield "4.3.1", name, "", JUDGMENTS
    yield from _fill_scale(evidence, name)
    yield from _fill_scores(evidence, name)
    relevant = [result for result in evidence.results if facts.is_about(result, name, evidence.criteria)]
    tests = [text for result in relevant if (text := facts.describe_significance(result)) is not None]
    if tests:
        yield "4.3.10", as_sentence("; ".join(tests)), "", RESULTS
    agreements = [
        text for r in evidence.results if (text := facts.describe_agreement(r, name, evidence.criteria)) is not None
    ]
    if agreements:
        yield "4.3.11", "Yes: " + " ".join(agreements), "", "a result of aliquot agreement"


def _fill_scale(evidence: Evidence, name: str) -> Iterator[Filled]:
    judgments = evidence.judgments_of(name)
    if judgments is None:
        return
    preset = find_preset(judgments)
    if preset is not None:
        yield from fill_instrument(preset)
        return
    labels = load_questions()["4.3.8"].labels
    named = list_judgment_protocols(judgments)
    errors = "error" in judgments.table.columns
    if errors or (named and all("mqm" in protocol.casefold() for protocol in named)):
        source = "the errors in the judgments" if errors else f"the protocol '{named[0]}'"
        yield "4.3.3", "N/A", "", source
        yield "4.3.4", "N/A", "", source
        yield "4.3.5", [load_questions()["4.3.5"].labels[3]], "", source
        task = "Annotators mark errors in the output; for each its kind and severity are recorded."
        yield "4.3.6", task, "", source
        yield "4.3.8", [labels[5]], "", source
        return
    if "scale" in judgments.table.columns and judgments.table["scale"].drop_nulls().len():
        return  # values on another scale than the annotators', e.g. z-scores
    values = facts.list_answers(judgments)["value"].to_numpy()
    scale = facts.infer_scale(values, evidence.value_range)
    if scale is not None:
        source = JUDGMENTS if evidence.value_range is None else "the range given"
        yield "4.3.3", scale.size, "", source
        yield "4.3.4", scale.values, "", source
        yield "4.3.6", "N/A", "", source


def _fill_scores(evidence: Evidence, name: str) -> Iterator[Filled]:
    """Fill in 4.3.9 from results, or with the mean of the judgments where the human score is that."""
    sentences = [
        text
        for result in evidence.results
        if facts.is_about(result, name, evidence.criteria) and (text := facts.describe_aggregation(result)) is not None
    ]
    judgments = evidence.judgments_of(name)
    how_many = "" if judgments is None else facts.describe_judgments_per_output(judgments)
    sources = [RESULTS] if sentences else []
    if judgments is not None and evidence.data is not None:
        score = _find_mean_score(evidence.data, judgments, name, evidence.human)
        if score is not None:
            sentences = [f"the score '{score}' of an output is the mean of its judgments ({how_many})", *sentences]
            sources = [JUDGMENTS, *sources]
        elif sentences:
            sentences = [how_many, *sentences]
    if sentences:
        yield "4.3.9", as_sentence("; ".join(sentences)), "", " and ".join(sources)


def _find_mean_score(data: EvalSet, judgments: Judgments, name: str, human: str | None) -> str | None:
    """Return the human score that is the plain mean of a criterion's judgments, checked cell by cell."""
    cells = judgments.cell_means()
    if not cells.height:
        return None
    rows, columns = data.cell_index(cells["item"], cells["system"])
    names = {f"human_{name}".casefold(), name.casefold()}
    candidates = [score for score in data.scores if score.casefold() in names] + ([human] if human else [])
    for score in candidates:
        values = data.scores[score][rows, columns]
        if np.allclose(values, cells["value"].to_numpy(), atol=1e-6):
            return score
    return None
