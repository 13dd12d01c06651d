"""Samples of lm-evaluation-harness (`--log_samples`): a folder for each model, a file of samples for each task.

A row of samples is one document under one filter; `results_{time}.json` beside it has the model's name and says which
metrics count errors.
"""

from __future__ import annotations

import math
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os.path import commonpath, commonprefix
from pathlib import Path
from typing import Any

import msgspec

from aliquot.errors import AliquotWarning, FormatError, quoted
from aliquot.io.files import number_lines, read_bytes
from aliquot.io.formats.records import decode_typed
from aliquot.io.formats.samples import Id, LogFile, LogSample, read_messages, read_score

_NAME = re.compile(r"samples_(?P<task>.+)_(?P<time>\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(\.\d+)?)\.jsonl?(\.gz)?")
_SUMMARY = re.compile(rb'\s*\{\s*"results"')
_FIELDS = frozenset(
    {
        *("doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter"),
        *("metrics", "doc_hash", "prompt_hash", "target_hash"),
    }
)
_LOG_LIKELIHOODS = frozenset({"perplexity"})  # a sample has the logarithm: higher is better there
_AGGREGATED = _LOG_LIKELIHOODS | {"bypass"}
_OWN_MEANING = frozenset({"cost", "draw", "position"})  # of an item's columns
_JSON: msgspec.json.Decoder[Any] = msgspec.json.Decoder()
_REMEDY = "run the evaluation again, or remove the damaged line"


@dataclass(frozen=True, eq=False)
class _TaskRun:
    """One model on one task."""

    path: Path | str
    system: str
    task: str | None
    time: str | None
    errors: frozenset[str] = frozenset()  # metrics that count errors
    means: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class _LoggedDocument:
    """The rows of one document, which differ in the filter."""

    run: _TaskRun
    id: Id
    hash: str | None
    row: Mapping[str, Any]
    metrics: dict[tuple[str, str], float] = field(default_factory=dict)  # by metric and filter
    aggregated: list[str] = field(default_factory=list)  # metrics that are no number for a sample


def looks_like(fields: Mapping[str, Any]) -> bool:
    """Return whether an object is a sample, or the summary of a run.

    >>> looks_like({"doc_id": 0, "doc": {}, "resps": []}), looks_like({"doc_id": 0, "doc": None})
    (True, True)
    """
    names = list(fields)
    is_cut = names[:2] == ["doc_id", "doc"] and fields[names[-1]] is None
    is_summary = names[:1] == ["results"] and not fields.keys().isdisjoint(("group_subtasks", "configs"))
    return ("doc_id" in fields and "resps" in fields) or is_cut or is_summary


def read_samples(files: Sequence[LogFile]) -> Iterator[LogSample]:
    """Yield every draw of every document; its first draw has the metrics of the document."""
    logs = [(file, raw) for file in files if _SUMMARY.match(raw := file.read()) is None]
    if not logs:
        raise FormatError(
            f"{files[0].path}: the summary of lm-evaluation-harness; the samples stand beside it "
            "(samples_*.jsonl, if the run logged its samples): name their folder"
        )
    where = commonpath([str(file.path) for file, _ in logs])
    documents = [document for file, raw in logs for document in _read_documents(_describe_run(file.path), raw)]
    runs = list(dict.fromkeys(document.run for document in documents))
    names = _name_scores(documents, runs)
    errors = {
        run: frozenset(name for (task, metric, _), name in names.items() if task == run.task and metric in run.errors)
        for run in runs
    }
    n_draws = 1
    for document, prompt in zip(documents, _name_prompts(documents, where), strict=True):
        run, row = document.run, document.row
        source, outputs, reference = _read_texts(row)
        n_draws = max(n_draws, len(outputs))
        scores = {names[run.task, *key]: value for key, value in document.metrics.items()}
        columns = _list_columns(row.get("doc"))
        for draw, output in enumerate(outputs, start=1):
            yield LogSample(
                run.system,
                prompt,
                draw,
                task=run.task,
                run=run.time,
                source=source,
                output=output,
                reference=reference,
                scores=scores if draw == 1 else {},
                columns=columns,
                lower_is_better=errors[run],
            )
    _warn_metrics(documents, n_draws, where)


# -- files and rows ------------------------------------------------------------------------------------------------


def _describe_run(path: Path | str) -> _TaskRun:
    """Return which model and task a file of samples is of, as its name and the summary of the same time say."""
    folder, name = Path(path).parent, Path(path).name
    match = _NAME.fullmatch(name)
    if match is None:
        return _TaskRun(path, name.split(".jsonl")[0].removesuffix(".json"), None, None)
    task, time = match["task"], match["time"]
    system, summary = folder.resolve().name or name, {}
    for place in sorted(folder.glob(f"*_{time}.json"))[:1]:
        summary = decode_typed(_JSON, read_bytes(place), str(place), "copy it again, or remove it")
        system = next((text for key in ("model_name", "model_source") if (text := _get(summary, key, str))), system)
    directions = _get(_get(summary, "higher_is_better"), task)
    lower = frozenset(metric for metric, higher in directions.items() if higher is False) - _LOG_LIKELIHOODS
    return _TaskRun(path, system, task, time, lower, _get(_get(summary, "results"), task))


def _get(fields: object, name: str, kind: type = dict) -> Any:
    """Return a field if it is of a kind, otherwise an empty value of that kind."""
    value = fields.get(name) if isinstance(fields, dict) else None
    return value if isinstance(value, kind) else kind()


def _read_documents(run: _TaskRun, raw: bytes) -> Iterable[_LoggedDocument]:
    """Return the documents of a file of samples, with the metrics of all filters."""
    documents: dict[Id, _LoggedDocument] = {}
    filters: dict[Id, list[str]] = {}
    for where, row in _decode_rows(run.path, raw):
        number = row.get("doc_id") if isinstance(row, dict) else None
        if isinstance(number, bool) or not isinstance(number, (int, str)):
            raise FormatError(f"{where}: a sample has a doc_id, a number or a text, not {number!r}; {_REMEDY}")
        document = documents.setdefault(number, _LoggedDocument(run, number, _get(row, "doc_hash", str) or None, row))
        used = filters.setdefault(number, [])
        name = _get(row, "filter", str) or ("none" if not used else f"filter {len(used) + 1}")
        if name in used:
            raise FormatError(f"{where}: doc_id {number!r} occurs twice with the filter '{name}'; keep one")
        used.append(name)
        for metric, value in _list_metrics(row):
            if (score := _read_metric(value)) is not None:
                document.metrics[metric, name] = score
            elif isinstance(value, (list, dict)):
                document.aggregated.append(metric)
    return documents.values()


def _decode_rows(path: Path | str, raw: bytes) -> Iterator[tuple[str, Any]]:
    if raw.lstrip()[:1] == b"[":  # before version 0.4.3
        rows = decode_typed(_JSON, raw, str(path), _REMEDY)
        yield from ((f"{path} sample {i}", row) for i, row in enumerate(rows if isinstance(rows, list) else [], 1))
    else:
        yield from ((where, decode_typed(_JSON, line, where, _REMEDY)) for where, line in number_lines(raw, path))


def _list_metrics(row: Mapping[str, Any]) -> list[tuple[str, object]]:
    """Return a row's metrics: the fields that `metrics` names, or without it those that are no other field."""
    listed = row.get("metrics")
    names: Iterable[object] = listed if isinstance(listed, list) else row.keys() - _FIELDS
    return [(name, row.get(name)) for name in names if isinstance(name, str)]


# -- names ---------------------------------------------------------------------------------------------------------


def _name_prompts(documents: Sequence[_LoggedDocument], where: str) -> list[Id]:
    """Return the id of each document's prompt: its number, or its hash in tasks that runs number differently."""
    hashes: dict[tuple[str | None, Id], str | None] = {}
    other: dict[str | None, None] = {}
    for document in documents:
        key = (document.run.task, document.id)
        if hashes.setdefault(key, document.hash) != document.hash:
            other[document.run.task] = None
    if other:
        tasks = quoted([str(task) for task in other], 3)
        warnings.warn(
            f"{where}: models number the documents of {tasks} differently: they are joined by doc_hash",
            AliquotWarning,
            4,
        )
    copies: Counter[tuple[_TaskRun, str]] = Counter()
    prompts: list[Id] = []
    for document in documents:
        if document.run.task not in other or document.hash is None:
            prompts.append(document.id)
            continue
        copies[document.run, document.hash] += 1
        count = copies[document.run, document.hash]
        prompts.append(document.hash if count == 1 else f"{document.hash}~{count}")
    return prompts


def _name_scores(
    documents: Sequence[_LoggedDocument], runs: Iterable[_TaskRun]
) -> dict[tuple[str | None, str, str], str]:
    """Return the score's name of each task, metric and filter: the metric, and the filter where a task has several.

    A metric that counts errors in one task only has the name of the task, too: one score has one direction.
    """
    keys = dict.fromkeys((document.run.task, *key) for document in documents for key in document.metrics)
    filters: dict[str | None, set[str]] = {}
    for task, _, name in keys:
        filters.setdefault(task, set()).add(name)
    errors = {(run.task, metric) for run in runs for metric in run.errors}
    names_of_errors = {metric for _, metric in errors}
    both = {metric for task, metric, _ in keys if metric in names_of_errors and (task, metric) not in errors}
    return {
        (task, metric, name): metric
        + (f",{name}" if len(filters[task]) > 1 else "")
        + (f" ({task})" if metric in both else "")
        for task, metric, name in keys
    }


# -- texts and numbers ---------------------------------------------------------------------------------------------


def _read_texts(row: Mapping[str, Any]) -> tuple[str | None, list[str | None], str | None]:
    """Return a document's input, its output for each draw, and the expected answer."""
    requests = [_read_request(request) for request in _list_values(row.get("arguments"))]
    resps, target = _get(row, "resps", list), row.get("target")
    reference = None if target is None else str(target)
    if not requests:
        return None, [None], reference
    source, kind = requests[0]
    if isinstance(kind, str):
        return _read_choices(requests, resps, reference)
    if not isinstance(kind, dict):  # the log-likelihood of a whole text
        return source, [None], reference
    draws = [[text for text in draw if isinstance(text, str)] for draw in resps if isinstance(draw, list)]
    return source, ["\n\n".join(texts) for texts in zip(*draws, strict=False)] or [None], reference


def _list_values(value: object) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []


def _read_request(request: object) -> tuple[str | None, object]:
    """Return the input of a request as text, and its second argument: a choice's text, or options."""
    context, kind, *_ = [*_list_values(request), None, None]
    if isinstance(context, list) and len(context) == 1 and isinstance(context[0], str):
        context = context[0]
    if isinstance(context, str) and context.startswith('[{"'):
        try:
            context = msgspec.json.decode(context)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return context, kind
    return context if isinstance(context, str) else read_messages(context), kind


def _read_choices(
    requests: Sequence[tuple[str | None, object]], resps: Sequence[object], reference: str | None
) -> tuple[str | None, list[str | None], str | None]:
    """Return the input, the choice with the largest likelihood, and the expected choice."""
    if requests[0][0]:
        requests = [request for request in requests if request[0]]  # without input: for acc_mutual_info
    contexts = [context or "" for context, _ in requests]
    several = len(set(contexts)) > 1  # the choices are inputs
    choices = [
        f"{context if several else ''}{text}".strip() for context, (_, text) in zip(contexts, requests, strict=True)
    ]
    source = commonprefix(contexts) if several else contexts[0]  # noqa: RUF071  (texts, no paths)
    if len(choices) < 2:
        return source, [None], reference
    likelihoods = [_read_likelihood(draws) for draws in resps[: len(choices)]]
    present = [value for value in likelihoods if value is not None]
    output = choices[likelihoods.index(max(present))] if len(present) == len(choices) else None
    if reference is not None and reference.isdecimal() and len(reference) < 5 and int(reference) < len(choices):
        reference = choices[int(reference)]
    return source, [output], reference


def _read_likelihood(draws: object) -> float | None:
    """Return the log-likelihood of a choice's first draw, as in [["-1.5", "False"]]."""
    while isinstance(draws, list) and draws:
        draws = draws[0]
    return read_score(draws)


def _read_metric(value: object) -> float | None:
    return float(value == "True") if value in ("True", "False") else read_score(value)


def _list_columns(doc: object) -> dict[str, Any]:
    """Return the fields of a document that are no lists or objects."""
    fields = doc.items() if isinstance(doc, dict) else ()
    return {
        f"doc_{name}" if name in _OWN_MEANING else name: value
        for name, value in fields
        if isinstance(value, (str, int, float))
    }


# -- notes ---------------------------------------------------------------------------------------------------------


def _warn_metrics(documents: Sequence[_LoggedDocument], n_draws: int, where: str) -> None:
    """Warn of metrics that samples do not have as numbers, and of means that differ from the tool's results."""
    if n_draws > 1:
        warnings.warn(
            f"{where}: up to {n_draws} draws of a prompt; the tool scores a prompt once (the first draw, or what its "
            "filter makes of all), so that the score stands on draw 1 and the other draws have none",
            AliquotWarning,
            4,
        )
    if lists := list(dict.fromkeys(metric for document in documents for metric in document.aggregated)):
        warnings.warn(
            f"{where}: {quoted(lists, 3)} {'has' if len(lists) == 1 else 'have'} no number for a sample (the tool "
            "computes it from all samples at once): left out",
            AliquotWarning,
            4,
        )
    values: dict[tuple[_TaskRun, str, str], list[float]] = {}
    for document in documents:
        for key, value in document.metrics.items():
            values.setdefault((document.run, *key), []).append(value)
    if any(metric in _LOG_LIKELIHOODS for _, metric, _ in values):
        warnings.warn(f"{where}: 'perplexity' of a sample is a log-likelihood: higher is better", AliquotWarning, 4)
    other = []
    for (run, metric, name), numbers in values.items():
        expected, mean = read_score(run.means.get(f"{metric},{name}")), math.fsum(numbers) / len(numbers)
        if (
            expected is not None
            and metric not in _AGGREGATED
            and not math.isclose(mean, expected, rel_tol=1e-6, abs_tol=1e-9)
        ):
            other.append(f"'{metric}' ({name}) of {run.system}, {run.task}: {mean:g}, not {expected:g}")
    if other:
        warnings.warn(
            f"{where}: {len(other)} means differ from the tool's results ({other[0]}): samples are missing, or the "
            "tool does not take the mean of this metric",
            AliquotWarning,
            4,
        )
