"""Traces of a Langfuse export, and which outputs of them scores are about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from aliquot.io.formats.records import convert_rows, read_id

_OWN_ENVIRONMENT = "langfuse-"
"""How environments of Langfuse itself begin; traces of its judges are no outputs, those of its experiments are."""
TRUE = ("true", "True")
"""What is true in tables, beside the JSON value."""


class LangfuseRecord(msgspec.Struct, gc=False):
    """A score, an observation or a trace, with the fields that count of all three."""

    id: Any = None
    trace_id: Any = None
    observation_id: Any = None
    dataset_run_id: Any = None
    subject: Any = None
    name: Any = None
    environment: Any = None
    value: Any = None
    string_value: Any = None
    data_type: Any = None
    source: Any = None
    comment: Any = None
    author_user_id: Any = None
    timestamp: Any = None
    updated_at: Any = None
    type: Any = None
    parent_observation_id: Any = None
    is_root_observation: Any = None
    start_time: Any = None
    end_time: Any = None
    level: Any = None
    status_message: Any = None
    input: Any = None
    output: Any = None
    metadata: Any = None
    provided_model_name: Any = None
    model: Any = None
    prompt_name: Any = None
    prompt_version: Any = None
    usage_details: Any = None
    total_cost: Any = None
    calculated_total_cost: Any = None
    trace_name: Any = None
    experiment_id: Any = None
    experiment_name: Any = None
    experiment_item_id: Any = None
    dataset_run_name: Any = None
    dataset_item_id: Any = None
    expected_output: Any = None
    experiment_item_expected_output: Any = None
    observations: Any = None
    scores: Any = None


class Trace(msgspec.Struct, gc=False):
    """What an export holds of one trace; `main` is the record whose output is the trace's."""

    id: str
    header: LangfuseRecord | None = None
    observations: list[LangfuseRecord] = []
    scores: list[LangfuseRecord] = []
    main: LangfuseRecord | None = None


class TraceOutput(msgspec.Struct, gc=False):
    """An output that may be scored: a trace's, or that of one of its observations."""

    trace: Trace
    observation: LangfuseRecord | None
    scores: list[LangfuseRecord]


def gather_traces(entries: Iterable[LangfuseRecord]) -> tuple[dict[str, Trace], list[LangfuseRecord]]:
    """Return traces by id, and the scores without one; of records that were exported twice the later one counts."""
    traces: dict[str, Trace] = {}
    scores: dict[str, LangfuseRecord] = {}
    observations: dict[str, LangfuseRecord] = {}
    for number, entry in enumerate(_list_all(entries)):
        own = (entry.id if isinstance(entry.id, str) else read_id(entry.id)) or f"record {number}"
        if entry.data_type is not None or (entry.source is not None and entry.type is None):
            scores[own] = entry
        elif _is_judge(entry):
            continue
        elif read_id(entry.trace_id) is not None:
            observations[own] = entry
        elif entry.type is None:
            traces[own] = Trace(own, entry)
    for entry in observations.values():
        _find_trace(traces, str(entry.trace_id)).observations.append(entry)
    for trace in traces.values():
        trace.main = _choose_main(trace)
    lost = []
    for score in scores.values():
        if isinstance(score.subject, dict):
            _read_subject(score, score.subject)
        trace_id = read_id(score.trace_id)
        if trace_id is None:
            lost.append(score)
        else:
            _find_trace(traces, trace_id).scores.append(score)
    return traces, lost


def _list_all(entries: Iterable[LangfuseRecord]) -> Iterator[LangfuseRecord]:
    """Yield records, and those that the details of a trace hold; lists of traces hold only their ids."""
    for entry in entries:
        yield entry
        for nested in (entry.observations, entry.scores):
            if isinstance(nested, list):
                yield from convert_rows([row for row in nested if isinstance(row, dict)], LangfuseRecord)


def _is_judge(entry: LangfuseRecord) -> bool:
    name = entry.environment
    return isinstance(name, str) and name.startswith(_OWN_ENVIRONMENT) and "experiment" not in name


def _find_trace(traces: dict[str, Trace], trace_id: str) -> Trace:
    trace = traces.get(trace_id)
    if trace is None:
        trace = traces[trace_id] = Trace(trace_id)
    return trace


def _read_subject(score: LangfuseRecord, subject: Mapping[str, Any]) -> None:
    """Set the ids of the trace and observation of a score from version 3 of the API."""
    if subject.get("kind") == "trace":
        score.trace_id = subject.get("id")
    elif subject.get("kind") == "observation":
        score.trace_id, score.observation_id = subject.get("traceId"), subject.get("id")


def _choose_main(trace: Trace) -> LangfuseRecord | None:
    """Return the record of a trace's output: the trace's own, its root's, or its last generation's."""
    if trace.header is None and len(trace.observations) == 1:
        return trace.observations[0]
    generations = sorted((entry for entry in trace.observations if entry.type == "GENERATION"), key=start_key)
    candidates = [*([trace.header] if trace.header else []), *list_roots(trace), *reversed(generations)]
    whole = next((entry for entry in candidates if entry.output not in (None, "")), None)
    return whole or next(iter(candidates or trace.observations), None)


def list_roots(trace: Trace) -> list[LangfuseRecord]:
    """Return the observations of a trace that are not part of another one."""
    return [entry for entry in trace.observations if _is_root(entry)]


def _is_root(entry: LangfuseRecord) -> bool:
    if entry.is_root_observation is not None:
        return entry.is_root_observation is True or entry.is_root_observation in TRUE
    return entry.parent_observation_id in (None, "")


def start_key(entry: LangfuseRecord) -> str:
    """Return what sorts observations by their start."""
    return str(entry.start_time or "")


def place_scores(trace: Trace, has_texts: bool, lost: list[LangfuseRecord]) -> Iterator[TraceOutput]:
    """Yield the trace's output and those of its other observations, each with its scores.

    A score of an observation that gave what the trace gave is the trace's.
    """
    main = trace.main
    if has_texts and main is None:
        lost += trace.scores
        return
    own = trace.observations
    if all(score.observation_id is None for score in trace.scores) and len(own) < 2:
        yield TraceOutput(trace, None, trace.scores)
        return
    names = {name for score in trace.scores if (name := read_id(score.observation_id)) is not None}
    if not has_texts and len(names) > 1:
        own = [LangfuseRecord(id=name, trace_id=trace.id) for name in sorted(names)]
    inner = {str(entry.id): entry for entry in own if main is None or entry.output != main.output}
    absent = names.difference(str(entry.id) for entry in own) if has_texts else set()
    by_name: dict[str, list[LangfuseRecord]] = {}
    for score in trace.scores:
        name = read_id(score.observation_id) or ""
        if name in absent:
            lost.append(score)
        else:
            by_name.setdefault(name if name in inner else "", []).append(score)
    yield TraceOutput(trace, None, by_name.get("", []))
    for name, entry in inner.items():
        yield TraceOutput(trace, entry, by_name.get(name, []))


def name_level(unit: TraceOutput) -> str | None:
    """Return the name of the observation that a unit is; None for a trace."""
    return None if unit.observation is None else str(unit.observation.name or unit.observation.type or "observation")


def list_entries(unit: TraceOutput) -> list[LangfuseRecord]:
    """Return the records that describe an output, the nearest first."""
    trace = unit.trace
    if len(trace.observations) == 1 and trace.header is None:
        return trace.observations
    entries = [unit.observation, trace.main, trace.header, *list_roots(trace)]
    return [entry for entry in entries if entry is not None]
