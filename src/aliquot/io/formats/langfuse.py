"""Exports of Langfuse: `scores/`, `observations_v2/`, the older `observations/` and `traces/`, or answers of its API.

A trace is one output of one system: its root observation's, or its last generation's. Observations inside of traces
that are scored themselves are outputs, too, with all others of their name. The system is the experiment or the model,
the item is that of the dataset or the input.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from aliquot.io.formats.langfuse_traces import (
    TRUE,
    LangfuseRecord,
    TraceOutput,
    gather_traces,
    list_entries,
    name_level,
    place_scores,
    start_key,
)
from aliquot.io.formats.records import (
    API_REMEDY,
    name_input,
    read_id,
    read_object,
    read_payload,
    read_records,
    read_seconds,
    to_snake_case,
    warn_names,
)
from aliquot.io.formats.samples import LogFile, LogSample, Rating, read_score

_OBSERVATION = {"parent_observation_id", "is_root_observation", "provided_model_name", "type"}
_TRACE = {"bookmarked", "public", "user_id", "release"}
_FALSE = ("false", "False")


def looks_like_table(columns: Collection[str]) -> bool:
    """Return whether records with these fields are scores, observations or traces of Langfuse."""
    names = {to_snake_case(name) for name in columns}
    if {"id", "name", "data_type"} <= names:
        return bool({"trace_id", "subject"} & names)
    if {"id", "trace_id", "type"} <= names:
        return "run_type" not in names and len(_OBSERVATION & names) > 1
    return {"id", "timestamp"} <= names and len(_TRACE & names) > 1


def looks_like(fields: Mapping[str, Any]) -> bool:
    """Return whether an object is a record of Langfuse, or a page of its API."""
    data = fields.get("data")
    first = data[0] if isinstance(data, list) and data else None
    return looks_like_table(first if isinstance(first, dict) else fields)


def read_samples(files: Sequence[LogFile]) -> Iterator[LogSample]:
    """Yield the outputs of an export with their scores."""
    traces, lost = gather_traces(entry for file in files for entry in read_records(file, LangfuseRecord))
    has_texts = any(trace.main is not None for trace in traces.values())
    units: list[TraceOutput] = []
    levels: dict[str | None, None] = {}
    for trace in traces.values():
        for unit in place_scores(trace, has_texts, lost):
            units.append(unit)
            if unit.scores:
                levels[name_level(unit)] = None
    levels = levels or {None: None}
    outputs = [unit for unit in units if name_level(unit) in levels and (unit.trace.main is not None or not has_texts)]
    _warn_scores(outputs, lost)
    systems = _name_systems(outputs)
    for unit, system in zip(outputs, systems, strict=True):
        task = (name_level(unit) or "trace") if len(levels) > 1 else None
        yield _build_sample(unit, system, task)


# -- one sample ----------------------------------------------------------------------------------------------------


def _name_systems(units: Sequence[TraceOutput]) -> list[str]:
    """Return the system of each unit: the experiment, or the model, with its prompt where it had several."""
    models = [_find_model(unit) for unit in units]
    levels = [name_level(unit) for unit in units]
    prompts: dict[tuple[str | None, str | None], set[str]] = {}
    for level, (model, prompt) in zip(levels, models, strict=True):
        prompts.setdefault((level, model), set()).add(prompt)
    names = []
    for unit, level, (model, prompt) in zip(units, levels, models, strict=True):
        label = f"{model or ''} {prompt}".strip() if len(prompts[level, model]) > 1 else model
        names.append(
            _find_experiment(unit) or label or _find_name(list_entries(unit), "trace_name", "name") or "system"
        )
    return names


def _find_name(entries: Iterable[LangfuseRecord], *fields: str) -> str | None:
    """Return the first name that records have in one of their fields."""
    for entry in entries:
        for name in fields:
            value = getattr(entry, name)
            if value is not None and (text := read_id(value)) is not None:
                return text
    return None


def _find_experiment(unit: TraceOutput) -> str | None:
    """Return the run of a dataset that an output belongs to."""
    entries = list_entries(unit)
    name = _find_name(entries, "dataset_run_name", "experiment_name", "experiment_id")
    for metadata in map(_read_metadata, entries) if name is None else ():
        name = name or read_id(metadata.get("experiment_run_name")) or read_id(metadata.get("experiment_name"))
    return name or _find_name(unit.scores, "dataset_run_id")


def _find_item(unit: TraceOutput) -> str | None:
    """Return the item of a dataset that an output is for."""
    entries = list_entries(unit)
    name = _find_name(entries, "experiment_item_id", "dataset_item_id")
    for metadata in map(_read_metadata, entries) if name is None else ():
        name = name or read_id(metadata.get("dataset_item_id"))
    return name


def _read_metadata(entry: LangfuseRecord) -> Mapping[str, Any]:
    return read_object(entry.metadata) if entry.metadata else {}


def _find_model(unit: TraceOutput) -> tuple[str | None, str]:
    """Return the model and the prompt of an output: its own, or those of the trace's last observation with a model."""
    entries = list_entries(unit)
    if unit.observation is None and len(unit.trace.observations) > 1:
        entries = [*entries, *sorted(unit.trace.observations, key=start_key, reverse=True)]
    for entry in entries:
        if (model := _find_name([entry], "provided_model_name", "model")) is not None:
            version = read_id(entry.prompt_version)
            return model, f"{read_id(entry.prompt_name) or ''} {f'v{version}' if version else ''}".strip()
    return None, ""


def _build_sample(unit: TraceOutput, system: str, task: str | None) -> LogSample:
    trace, entry = unit.trace, unit.observation or unit.trace.main or LangfuseRecord()
    observation = read_id(entry.id) if entry is not trace.header else None
    unnamed = observation if unit.observation is not None and observation else trace.id
    scores = unit.scores if len(unit.scores) < 2 else sorted(unit.scores, key=_time)
    programs = [score for score in scores if not _is_human(score)]
    expected = entry.expected_output if entry.expected_output is not None else entry.experiment_item_expected_output
    return LogSample(
        system,
        _find_item(unit) or (unnamed if entry.input in (None, "") else name_input(entry.input)),
        task=task,
        source=read_payload(entry.input),
        output=read_payload(entry.output, is_reply=True),
        reference=read_payload(expected, is_reply=True),
        scores={str(s.name): value for s in programs if (value := _read_value(s)) is not None},
        usage=_read_usage(unit, entry),
        ratings=[_build_rating(score) for score in unit.scores if _is_human(score)],
        failure=_find_failure(unit, entry),
        trace=trace.id,
        observation=observation,
    )


def _read_usage(unit: TraceOutput, entry: LangfuseRecord) -> dict[str, float]:
    """Return what an output cost: for a trace, all of its observations."""
    parts = unit.trace.observations if unit.observation is None else [entry]
    costs = [cost for part in parts if (cost := _read_cost(part)) is not None]
    tokens = [
        count for part in parts if (count := read_score(read_object(part.usage_details).get("total"))) is not None
    ]
    usage = {"cost": sum(costs)} if costs else {}
    if tokens:
        usage["tokens"] = sum(tokens)
    seconds = read_seconds(entry.start_time, entry.end_time)  # `latency` is in milliseconds in older exports
    return usage if seconds is None else {**usage, "seconds": seconds}


def _read_cost(entry: LangfuseRecord) -> float | None:
    return read_score(entry.total_cost if entry.total_cost is not None else entry.calculated_total_cost)


def _find_failure(unit: TraceOutput, entry: LangfuseRecord) -> str | None:
    """Return why an output failed: its own error, or without an output one of its trace."""
    entries = [entry]
    if unit.observation is None and entry.output in (None, ""):
        entries += unit.trace.observations
    failed = next((e for e in entries if e.level == "ERROR"), None)
    return None if failed is None else str(failed.status_message or "error")


# -- scores --------------------------------------------------------------------------------------------------------


def _is_human(score: LangfuseRecord) -> bool:
    return bool(score.source == "ANNOTATION")


def _time(entry: LangfuseRecord) -> str:
    return str(entry.updated_at or entry.timestamp or "")


def _read_value(score: LangfuseRecord) -> float | None:
    """Return a score's number; a category's is only its place in a list."""
    if score.data_type in ("CATEGORICAL", "TEXT", "CORRECTION"):
        return None
    if score.value in TRUE or score.value in _FALSE:
        return float(score.value in TRUE)
    return read_score(score.value)


def _build_rating(score: LangfuseRecord) -> Rating:
    text = score.string_value if isinstance(score.string_value, str) else score.value
    comment = score.comment if isinstance(score.comment, str) else None
    label = text if score.data_type == "CATEGORICAL" and isinstance(text, str) else None
    if score.data_type in ("TEXT", "CORRECTION") and isinstance(text, str):
        comment = text
    return Rating(
        criterion=read_id(score.name),
        value=_read_value(score),
        label=label,
        annotator=read_id(score.author_user_id),
        comment=comment or None,
        time=read_id(score.timestamp),
        rating_id=read_id(score.id),
    )


def _warn_scores(units: Sequence[TraceOutput], lost: Sequence[LangfuseRecord]) -> None:
    """Warn of scores that are not read, or not as people's."""
    read = [score for unit in units for score in unit.scores if not _is_human(score)]
    labels = [score.name for score in read if _read_value(score) is None]
    by_api = [score.name for score in read if score.source == "API" and _read_value(score) is not None]
    what = f"Langfuse: {len(lost)} of {len(lost) + sum(len(unit.scores) for unit in units)} scores are left out"
    warn_names(what, [score.name for score in lost], "their trace or observation is not in the export")
    warn_names(f"Langfuse: {len(labels)} scores of programs are left out", labels, "they are labels, not numbers")
    warn_names(f"Langfuse: {len(by_api)} scores with the source API", by_api, API_REMEDY)
