"""Exports of LangSmith: runs and feedback, with examples and sessions (experiments, projects) where they are there.

A root run is one output: the system is its experiment, the item its example, or its inputs where it has none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec

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

_FEEDBACK = {"score", "value", "comment", "correction"}
_SESSION = {"reference_dataset_id", "default_dataset_id", "run_count", "last_run_start_time", "trace_tier"}


class LangSmithRecord(msgspec.Struct, gc=False):
    """A run, a feedback, an example or a session, with the fields that count of all four."""

    id: Any = None
    run_id: Any = None
    key: Any = None
    score: Any = None
    value: Any = None
    comment: Any = None
    correction: Any = None
    created_at: Any = None
    modified_at: Any = None
    feedback_source: Any = None
    feedback_source_type: Any = None
    feedback_source_user_id: Any = None
    name: Any = None
    run_type: Any = None
    inputs: Any = None
    outputs: Any = None
    error: Any = None
    status: Any = None
    start_time: Any = None
    end_time: Any = None
    latency: Any = None
    total_cost: Any = None
    total_tokens: Any = None
    session_id: Any = None
    session_name: Any = None
    reference_example_id: Any = None
    parent_run_id: Any = None
    parent_run_ids: Any = None
    dataset_id: Any = None
    feedback_stats: Any = None


def looks_like_table(columns: Collection[str]) -> bool:
    """Return whether records with these fields are runs, feedback, examples or sessions of LangSmith."""
    names = {to_snake_case(name) for name in columns}
    if {"id", "run_type"} <= names or {"id", "inputs", "reference_example_id"} <= names:
        return True
    if {"run_id", "key"} <= names:
        return len(_FEEDBACK & names) > 1
    return {"id", "dataset_id", "inputs", "outputs"} <= names or ({"id", "name"} <= names and bool(_SESSION & names))


def looks_like(fields: Mapping[str, Any]) -> bool:
    """Return whether an object is a record of LangSmith, or a page of its API."""
    runs = fields.get("runs")
    first = runs[0] if isinstance(runs, list) and runs else None
    return looks_like_table(first if isinstance(first, dict) else fields)


def read_samples(files: Sequence[LogFile]) -> Iterator[LogSample]:
    """Yield the root runs of an export with their feedback."""
    runs: dict[str, LangSmithRecord] = {}
    feedback: dict[str, LangSmithRecord] = {}
    others: dict[str, LangSmithRecord] = {}
    for number, entry in enumerate(entry for file in files for entry in read_records(file, LangSmithRecord)):
        is_run = entry.run_type is not None or (entry.key is None and entry.reference_example_id is not None)
        kind = feedback if entry.key is not None else runs if is_run else others
        kind[read_id(entry.id) or f"record {number}"] = entry  # of records that occur twice the later one counts
    by_run: dict[str, list[LangSmithRecord]] = {}
    for entry in feedback.values():
        by_run.setdefault(read_id(entry.run_id) or "", []).append(entry)
    if not runs:
        runs = {
            name: LangSmithRecord(id=name, session_id=entries[0].session_id) for name, entries in by_run.items() if name
        }
    roots = {name: run for name, run in runs.items() if _is_root(run)}
    _warn_feedback(by_run, roots)
    for name, run in roots.items():
        yield _build_sample(name, run, by_run.get(name, []), others)


def _is_root(run: LangSmithRecord) -> bool:
    return read_id(run.parent_run_id) is None and run.parent_run_ids in (None, "", [], "[]")


def _build_sample(
    name: str, run: LangSmithRecord, feedback: list[LangSmithRecord], others: Mapping[str, LangSmithRecord]
) -> LogSample:
    session, example = read_id(run.session_id), read_id(run.reference_example_id)
    project, reference = others.get(session or ""), others.get(example or "")
    names = (read_id(run.session_name), read_id(project.name) if project else None, session)
    scores = _read_stats(run.feedback_stats, {str(entry.key) for entry in feedback})
    for entry in sorted(feedback, key=_time):
        value = read_score(entry.score)
        if not _is_human(entry) and value is not None:
            scores[str(entry.key)] = value
    inputs = run.inputs if run.inputs not in (None, "") or reference is None else reference.inputs
    return LogSample(
        next((text for text in names if text is not None), "system"),
        example or (name if inputs in (None, "") else name_input(inputs)),
        source=read_payload(inputs),
        output=read_payload(run.outputs, is_reply=True),
        reference=None if reference is None else read_payload(reference.outputs, is_reply=True),
        scores=scores,
        usage=_read_usage(run),
        ratings=[_build_rating(entry) for entry in feedback if _is_human(entry)],
        failure=str(run.error) if run.error else "error" if run.status == "error" else None,
        trace=name,
    )


def _read_usage(run: LangSmithRecord) -> dict[str, float]:
    seconds = read_seconds(run.start_time, run.end_time)
    usage = {
        "cost": read_score(run.total_cost),
        "tokens": read_score(run.total_tokens),
        "seconds": read_score(run.latency) if seconds is None else seconds,
    }
    return {name: value for name, value in usage.items() if value is not None}


# -- feedback ------------------------------------------------------------------------------------------------------


def _read_stats(stats: object, keys: Collection[str]) -> dict[str, float | None]:
    """Return the means that a run names, of feedback that is not in the export."""
    means = {
        key: read_score(entry.get("avg"))
        for key, entry in read_object(stats).items()
        if isinstance(entry, dict) and key not in keys
    }
    return {key: mean for key, mean in means.items() if mean is not None}


def _find_source(entry: LangSmithRecord) -> object:
    return entry.feedback_source_type or read_object(entry.feedback_source).get("type")


def _is_human(entry: LangSmithRecord) -> bool:
    return _find_source(entry) == "app"


def _time(entry: LangSmithRecord) -> str:
    return str(entry.modified_at or entry.created_at or "")


def _build_rating(entry: LangSmithRecord) -> Rating:
    source = read_object(entry.feedback_source)
    people = (entry.feedback_source_user_id, source.get("user_id"), source.get("ls_user_id"), source.get("user_name"))
    number = read_score(entry.score)
    comments = [entry.comment, read_payload(entry.correction)]
    return Rating(
        criterion=read_id(entry.key),
        value=number,
        label=entry.value if isinstance(entry.value, str) and entry.value and number is None else None,
        annotator=next((name for person in people if (name := read_id(person)) is not None), None),
        comment="\n".join(comment for comment in comments if isinstance(comment, str) and comment) or None,
        time=read_id(entry.created_at),
        rating_id=read_id(entry.id),
    )


def _warn_feedback(by_run: Mapping[str, list[LangSmithRecord]], roots: Mapping[str, LangSmithRecord]) -> None:
    """Warn of feedback that is not read, or not as people's."""
    lost = [entry.key for run, entries in by_run.items() if run not in roots for entry in entries]
    read = [entry for run, entries in by_run.items() if run in roots for entry in entries if not _is_human(entry)]
    labels = [entry.key for entry in read if read_score(entry.score) is None]
    by_api = [entry.key for entry in read if _find_source(entry) == "api" and read_score(entry.score) is not None]
    what = f"LangSmith: {len(lost)} of {sum(map(len, by_run.values()))} feedback are left out"
    warn_names(what, lost, "their run is a part of another run, or not in the export")
    warn_names(f"LangSmith: {len(labels)} feedback of programs are left out", labels, "they have no score")
    warn_names(f"LangSmith: {len(by_api)} feedback with the source api", by_api, API_REMEDY)
