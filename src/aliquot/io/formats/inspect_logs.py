"""Logs of Inspect (UK AISI): `.eval` archives with a member for each sample, and `.json` documents."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from aliquot.errors import AliquotWarning, FormatError, quoted
from aliquot.io.formats.records import decode_typed
from aliquot.io.formats.samples import LogFile, LogSample, Rating, get_field, read_messages, read_score, read_text
from aliquot.io.formats.table_files import ZIP_MAGIC
from aliquot.io.zip_archive import list_members, read_member

HEADER, START = "header.json", "_journal/start.json"
MAX_EPOCHS = 1 << 31
_SAMPLE_NAME = re.compile(r"samples/.+_epoch_\d+(/sample)?\.json")  # with "/sample": its events have their own members
_HUMAN_SOLVERS = {"human_agent", "human_cli"}
_SCALARS = (str, int, float)
_REMEDY = "an Inspect log is what `inspect eval` writes; `inspect log convert` repairs older ones"

_Words = dict[str, list[str]]
"""The values of each score that are not numbers."""
_NUMBERS: Mapping[str, float] = MappingProxyType(
    {"c": 1.0, "i": 0.0, "p": 0.5, "n": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
)
_UNCHANGED = "UNCHANGED"


class _Sample(msgspec.Struct):
    """The fields of a sample that are read; its events and messages are not decoded."""

    id: Any = None
    epoch: Any = 1
    input: Any = None
    choices: Any = None
    target: Any = None
    output: Any = None
    scores: Any = None
    metadata: Any = None
    error: Any = None
    invalidation: Any = None
    limit: Any = None
    model_usage: Any = None
    total_time: Any = None


class _LogDocument(msgspec.Struct):
    """A log in one document; the header of an archive is one without samples."""

    status: Any = None
    eval: Any = None
    plan: Any = None
    samples: list[msgspec.Raw] | None = None


_DOCUMENTS, _SAMPLES = msgspec.json.Decoder(_LogDocument), msgspec.json.Decoder(_Sample)
_OBJECTS = msgspec.json.Decoder(dict[str, Any])


@dataclass(frozen=True)
class _LogRun:
    """One log: its run and its samples.

    Attributes:
        path: its file.
        status: "success", or how it ended otherwise.
        spec: its field `eval`.
        system: the model, or "human" where a person solved the task.
        samples: in the order of the data.
        limits: how many samples hit a limit, by its type.
        words: the values of each score that are not numbers.
    """

    path: Path | str
    status: str
    spec: Mapping[str, Any]
    system: str
    samples: list[LogSample] = field(default_factory=list)
    limits: Counter[str] = field(default_factory=Counter)
    words: _Words = field(default_factory=dict)

    @property
    def task(self) -> str | None:
        task = self.spec.get("task")
        return task if isinstance(task, str) else None

    @property
    def planned(self) -> int:
        """How many samples the whole run has; 0 if it does not say."""
        ids, epochs = get_field(self.spec, "dataset", "sample_ids"), get_field(self.spec, "config", "epochs")
        count = len(ids) if isinstance(ids, list) else get_field(self.spec, "dataset", "samples")
        return count * (epochs if isinstance(epochs, int) else 1) if isinstance(count, int) else 0


def looks_like(fields: Mapping[str, Any]) -> bool:
    """Return whether the first JSON object is a log of Inspect."""
    return {"version", "status", "eval"} <= fields.keys() and isinstance(fields["eval"], dict | None)


def looks_like_archive(names: Collection[str]) -> bool:
    """Return whether the members are those of a log."""
    return START in names or (HEADER in names and any(map(_SAMPLE_NAME.fullmatch, names)))


def read_samples(files: Sequence[LogFile]) -> Iterator[LogSample]:
    """Yield the samples of logs: a system for each model, or for each of its runs on one task."""
    runs = _drop_earlier_attempts([_read_run(file) for file in files])
    for run, name in zip(runs, _name_runs(runs), strict=True):
        _warn(run)
        yield from (replace(sample, run=name) for sample in run.samples) if name else run.samples


# -- files ---------------------------------------------------------------------------------------------------------


def _read_run(file: LogFile) -> _LogRun:
    raw = file.read()
    if not raw.startswith(ZIP_MAGIC):
        document = decode_typed(_DOCUMENTS, raw, str(file.path), _REMEDY)
        places = ((sample, f"{file.path} sample {number}") for number, sample in enumerate(document.samples or [], 1))
        samples = ((decode_typed(_SAMPLES, sample, where, _REMEDY), where) for sample, where in places)
        return _build_run(file.path, document, samples)
    members = list_members(raw, file.path)
    header = members.get(HEADER) or members.get(START)
    if header is None:
        raise FormatError(f"{file.path}: has neither {HEADER} nor {START}; {_REMEDY}")
    document = decode_typed(_DOCUMENTS, read_member(raw, header, file.path), f"{file.path} {header.filename}", _REMEDY)
    names = [name for name in members if _SAMPLE_NAME.fullmatch(name)]

    def read_sample(name: str) -> tuple[_Sample, str]:
        where = f"{file.path} {name}"
        sample = decode_typed(_SAMPLES, read_member(raw, members[name], file.path), where, _REMEDY)
        metadata = members.get(name.replace("/sample.json", "/metadata.json"))
        if metadata is not None and metadata.filename != name:
            sample.metadata = decode_typed(_OBJECTS, read_member(raw, metadata, file.path), where, _REMEDY)
        return sample, where

    return _build_run(file.path, document, map(read_sample, names), finished=header.filename == HEADER)


def _build_run(
    path: Path | str, document: _LogDocument, samples: Iterable[tuple[_Sample, str]], *, finished: bool = True
) -> _LogRun:
    spec = document.eval
    if not isinstance(spec, dict) or not isinstance(spec.get("model"), str):
        raise FormatError(f"{path}: its field 'eval' does not name a model; {_REMEDY}")
    steps = get_field(document.plan, "steps")
    solvers = {str(get_field(step, "solver")).split("/")[-1] for step in steps} if isinstance(steps, list) else set()
    status = str(document.status) if finished and document.status else "started"
    run = _LogRun(path, status, spec, "human" if solvers & _HUMAN_SOLVERS else spec["model"])
    run.samples.extend(_build_sample(sample, run, where) for sample, where in samples)
    ids = get_field(spec, "dataset", "sample_ids")
    places = {str(name): place for place, name in enumerate(ids)} if isinstance(ids, list) else {}
    run.samples.sort(key=lambda sample: (places.get(str(sample.prompt), len(places)), sample.draw))
    return run


# -- samples -------------------------------------------------------------------------------------------------------


def _build_sample(sample: _Sample, run: _LogRun, where: str) -> LogSample:
    if not isinstance(sample.id, int | str) or isinstance(sample.id, bool):
        raise FormatError(f"{where}: the id of a sample is {sample.id!r}, not a number or text; {_REMEDY}")
    if type(sample.epoch) is not int or not 0 <= sample.epoch < MAX_EPOCHS:
        raise FormatError(f"{where}: 'epoch' is {sample.epoch!r}, not a whole number; {_REMEDY}")
    if sample.limit is not None:
        run.limits[str(get_field(sample.limit, "type"))] += 1
    scores, ratings = _read_scores(sample.scores, run.words)
    metadata = sample.metadata if isinstance(sample.metadata, dict) else {}
    columns: dict[str, Any] = {name: value for name, value in metadata.items() if isinstance(value, _SCALARS)}
    if isinstance(sample.choices, list):
        columns["choices"] = sample.choices
    return LogSample(
        run.system,
        sample.id,
        sample.epoch,
        task=run.task,
        source=read_messages(sample.input),
        output=_read_output(sample.output),
        reference=read_text(sample.target) or None,
        scores=scores,
        usage=_read_usage(sample, run.spec),
        ratings=ratings,
        failure=_read_failure(sample),
        columns=columns,
    )


def _read_output(output: object) -> str | None:
    """Return the text of the first choice, or the completion; None where the model was not asked."""
    choices = get_field(output, "choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    text = read_text(get_field(first, "message", "content"))
    if text is None and isinstance(completion := get_field(output, "completion"), str):
        text = completion
    return text if text or first is not None else None


def _read_failure(sample: _Sample) -> str | None:
    """Return why a sample failed, or who declared it invalid."""
    if sample.error is not None:
        return str(get_field(sample.error, "message") or sample.error)
    if sample.invalidation is not None:
        reason = get_field(sample.invalidation, "reason")
        return f"declared invalid by {get_field(sample.invalidation, 'author')}" + (f": {reason}" if reason else "")
    return None


def _read_usage(sample: _Sample, spec: Mapping[str, Any]) -> dict[str, float | None]:
    """Return seconds, tokens and cost: of the evaluated model, or of all models if it is not listed."""
    usage = {"seconds": read_score(sample.total_time)}
    models = sample.model_usage if isinstance(sample.model_usage, dict) else {}
    own = [models[spec["model"]]] if spec["model"] in models else list(models.values())
    for name, key in (("tokens", "total_tokens"), ("cost", "total_cost")):
        amounts = [number for model in own if (number := read_score(get_field(model, key))) is not None]
        if amounts:
            usage[name] = sum(amounts)
    return usage


# -- scores --------------------------------------------------------------------------------------------------------


def _read_scores(entries: object, words: _Words) -> tuple[dict[str, float | None], list[Rating]]:
    """Return the graders' scores, and the ratings of people who edited scores; other words are added to `words`."""
    scores: dict[str, float | None] = {}
    ratings: list[Rating] = []
    for name, entry in entries.items() if isinstance(entries, dict) else ():
        if not isinstance(entry, dict):
            continue
        history = entry.get("history")
        value = entry.get("value")
        if history and isinstance(history, list):
            edits = [edit for edit in history if isinstance(edit, dict) and edit.get("value") not in (None, _UNCHANGED)]
            ratings += _read_edits(name, edits, words)
            own = [edit["value"] for edit in edits if not isinstance(edit.get("provenance"), dict)]
            if edits and not own:
                continue  # a person added it
            if len(own) < len(edits):
                value = own[-1]
        scores.update(_read_value(name, value, words))
    return scores, ratings


def _read_edits(name: str, edits: Sequence[Mapping[str, Any]], words: _Words) -> Iterator[Rating]:
    """Yield the last value that each author gave a score."""
    by_author = {str(get_field(edit, "provenance", "author")): edit for edit in edits if get_field(edit, "provenance")}
    for author, edit in by_author.items():
        comment = get_field(edit, "provenance", "reason")
        time = get_field(edit, "provenance", "timestamp")
        for criterion, value in _read_value(name, edit["value"], words).items():
            if value is not None:
                yield Rating(
                    criterion,
                    value,
                    annotator=author,
                    comment=comment if isinstance(comment, str) else None,
                    time=time if isinstance(time, str) else None,
                )


def _read_value(name: str, value: object, words: _Words) -> dict[str, float | None]:
    """Return a value as numbers: C, I, P, N are 1, 0, 0.5, 0; an object or a list has a score for each part."""
    if isinstance(value, dict):
        return {f"{name}.{key}": _read_number(f"{name}.{key}", part, words) for key, part in value.items()}
    if isinstance(value, list):
        return {f"{name}.{place}": _read_number(f"{name}.{place}", part, words) for place, part in enumerate(value)}
    return {name: _read_number(name, value, words)}


def _read_number(name: str, value: object, words: _Words) -> float | None:
    if isinstance(value, str) and (word := _NUMBERS.get(value.lower())) is not None:
        return word
    number = read_score(value)
    if number is None and isinstance(value, str):
        words.setdefault(name, []).append(value)
    return number


# -- several logs --------------------------------------------------------------------------------------------------


def _drop_earlier_attempts(runs: list[_LogRun]) -> list[_LogRun]:
    """Keep one log of each task run: retries and converted copies have the same task_id and samples."""
    latest: dict[object, _LogRun] = {}
    for number, run in enumerate(runs):
        key = run.spec.get("task_id") or number
        key = (key, run.system) if isinstance(key, str) else number
        latest[key] = max(latest.get(key, run), run, key=_rank_attempt)
    if len(latest) < len(runs):
        kept = {id(run) for run in latest.values()}
        left = [Path(run.path).name for run in runs if id(run) not in kept]
        warnings.warn(
            f"{len(left)} logs are earlier attempts or copies of another log (they have its task_id) and are not "
            f"counted: {quoted(left, 3)}",
            AliquotWarning,
            4,
        )
    return list(latest.values())


def _rank_attempt(run: _LogRun) -> tuple[bool, int, str]:
    return run.status == "success", len(run.samples), str(run.spec.get("created"))


def _name_runs(runs: list[_LogRun]) -> list[str | None]:
    """Return what distinguishes the runs of one system and task: solver, arguments, settings or time."""
    names: dict[int, str] = {}
    order = sorted(range(len(runs)), key=lambda number: (runs[number].system, str(runs[number].task), number))
    for _, group in groupby(order, key=lambda number: (runs[number].system, str(runs[number].task))):
        numbers = list(group)
        for labels in zip(*(_describe_run(runs[number].spec) for number in numbers), strict=True):
            if 1 < len(numbers) == len({label for label in labels if label}):
                names.update(zip(numbers, labels, strict=True))
                break
        else:
            names.update((number, f"log {place}") for place, number in enumerate(numbers, 1) if len(numbers) > 1)
    return [names.get(number) for number in range(len(runs))]


def _describe_run(spec: Mapping[str, Any]) -> list[str]:
    settings = [spec.get(name) for name in ("solver_args", "task_args", "model_generate_config")]
    texts = [", ".join(f"{k}={v}" for k, v in s.items()) if isinstance(s, dict) else "" for s in settings]
    return [str(spec.get("solver") or ""), *texts, str(spec.get("created") or "")]


def _warn(run: _LogRun) -> None:
    """Note what a log lacks: samples of a run that did not finish, cut outputs, words instead of numbers."""
    notes = []
    if run.status != "success" or not run.samples:
        of = f" of {run.planned}" if run.planned else ""
        notes.append(f"the run did not finish (status '{run.status}'): it holds {len(run.samples)}{of} samples")
    if run.limits:
        kinds = ", ".join(f"{kind} {count}" for kind, count in run.limits.most_common())
        notes.append(f"{run.limits.total()} of {len(run.samples)} samples hit a limit ({kinds}); their scores count")
    if run.words:
        count = sum(map(len, run.words.values()))
        name, (first, *_) = next(iter(run.words.items()))
        notes.append(f"{count} scores are words without a number and are missing, e.g. {name}: '{first[:40]}'")
    people = sorted({str(rating.annotator) for sample in run.samples for rating in sample.ratings})
    if people:
        count = sum(len(sample.ratings) for sample in run.samples)
        notes.append(f"{count} scores were edited by {quoted(people, 3)}: these are judgments, scores are as graded")
    for note in notes:
        warnings.warn(f"{run.path}: {note}", AliquotWarning, 4)
