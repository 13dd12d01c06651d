"""Samples of evaluation logs: one output each, gathered into an EvalSet.

Readers of logs (Inspect, promptfoo, ...) yield a `LogSample` for each output. What their formats share is decided here:
which system a run is, several draws of one prompt, failures, and people's ratings apart from graders' scores.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl

from aliquot.core.columns import ScoreCells, TextCells, encode_column, frame_from_records, ordered_union, unify_ids
from aliquot.core.evalset import EvalSet
from aliquot.core.judgments import Judgments
from aliquot.errors import AliquotWarning, FormatError, quoted
from aliquot.io.files import read_bytes
from aliquot.io.formats.answers import parse_number
from aliquot.io.formats.tables import add_criterion_scores
from aliquot.io.formats.trace_ids import OBSERVATIONS, TRACES

Id = int | str
_COLUMN_TYPES: Mapping[str, Set[type]] = {
    "source": {str},
    "reference": {str},
    "document": {str, int},
    "domain": {str, int},
    "position": {int},
    "cost": {int, float},
    "draw": set(),
}
"""What item columns of these names hold; other contents stand under another name."""
_SEVERAL = 3  # names that a note lists


@dataclass(frozen=True)
class LogFile:
    """A file of a log, which is read when it is needed."""

    path: Path | str
    raw: bytes | None = None

    def read(self) -> bytes:
        """Return the content, unpacked if it is gzip."""
        return self.raw if self.raw is not None else read_bytes(self.path)


@dataclass(slots=True)
class Rating:
    """A person's rating of an output: a number, or another answer as `label`; `rating_id` is the id in the tool."""

    criterion: str | None = None
    value: float | None = None
    label: str | None = None
    annotator: str | None = None
    comment: str | None = None
    time: str | None = None
    rating_id: str | None = None


@dataclass(slots=True)
class LogSample:
    """One output of one system.

    Attributes:
        system: the model, with its prompt where several were tried.
        prompt: the id of the input, equal for all systems.
        draw: which of several outputs for the prompt, from 1; None: the next one of this system.
        task: the benchmark, where a log may hold several.
        run: what distinguishes two logs of one system, such as the time of the run.
        source: the input as text.
        output: the text; None if there is none.
        reference: the expected answer.
        scores: graders' scores; None is missing.
        usage: cost, seconds, tokens.
        ratings: people's ratings.
        failure: why there is no output or score, where the sample failed: its scores do not count.
        columns: further columns of the item.
        trace: the id of the output in the tool that logged it.
        observation: the id of the part of the trace that is the output, where there is one.
        lower_is_better: scores to be flipped.
    """

    system: str
    prompt: Id
    draw: int | None = None
    task: str | None = None
    run: str | None = None
    source: str | None = None
    output: str | None = None
    reference: str | None = None
    scores: Mapping[str, float | None] = field(default_factory=dict)
    usage: Mapping[str, float | None] = field(default_factory=dict)
    ratings: Sequence[Rating] = ()
    failure: str | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)
    trace: str | None = None
    observation: str | None = None
    lower_is_better: Set[str] = frozenset()


_ItemKey = tuple[str | None, Id, int]


def build_evalset(samples: Iterable[LogSample], path: Path | str) -> EvalSet:
    """Gather samples into an EvalSet: a row for each draw of each prompt, a column for each system.

    Several draws of a prompt become items `prompt#draw` whose document is the prompt. Items of several tasks are named
    `task/prompt`, with the task as their domain. Two runs of one system on the same items are two systems.
    """
    rows: dict[_ItemKey, int] = {}
    first: list[LogSample] = []
    scores, usage, texts = ScoreCells(), ScoreCells(), TextCells()
    by_item: list[dict[str, LogSample]] = []
    for sample, system, key in _place_samples(_unify_prompts(list(samples)), path):
        row = rows.setdefault(key, len(rows))
        if row == len(first):
            first.append(sample)
            by_item.append({})
        by_item[row][system] = sample
    if not by_item:
        raise FormatError(f"{path}: it holds no samples; run the evaluation again with its log of samples")
    ratings: list[dict[str, Any]] = []
    ids, items = _build_items(list(rows), first, by_item, path)
    for row, cells in enumerate(by_item):
        scores.add(row, {system: {} if s.failure else s.scores for system, s in cells.items()})
        usage.add(row, {system: s.usage for system, s in cells.items()})
        texts.add(row, {system: s.output for system, s in cells.items()})
        ratings += [_rating_row(rating, ids[row], system) for system, s in cells.items() for rating in s.ratings]
    _warn_failures(by_item, path)
    n, systems = len(by_item), ordered_union([scores.systems])
    evalset = EvalSet(
        items=items,
        systems=tuple(systems),
        scores=scores.to_arrays(n, systems),
        outputs=texts.to_frame(n, systems),
        judgments=Judgments(frame_from_records(ratings)) if ratings else None,
        name=Path(path).name.split(".")[0] or str(path),
        usage=usage.to_arrays(n, systems),
    )
    for name in sorted({name for cells in by_item for s in cells.values() for name in s.lower_is_better}):
        if name in evalset.scores:
            evalset = evalset.with_score(name, evalset.scores[name], lower_is_better=True)
    return add_criterion_scores(evalset) if any(row["value"] is not None for row in ratings) else evalset


def _rating_row(rating: Rating, item: Id, system: str) -> dict[str, Any]:
    answers = {name: getattr(rating, name) for name in Rating.__slots__}
    present = {name: value for name, value in answers.items() if value is not None or name == "value"}
    return {"item": item, "system": system, **present}


# -- which cell a sample is of -------------------------------------------------------------------------------------


def _unify_prompts(samples: list[LogSample]) -> list[LogSample]:
    """Return samples whose prompts are all numbers or all texts: 1 in one log is "1" in another."""
    if len({type(sample.prompt) for sample in samples}) < 2:
        return samples
    return [replace(sample, prompt=str(sample.prompt)) for sample in samples]


def _place_samples(samples: list[LogSample], path: Path | str) -> Iterable[tuple[LogSample, str, _ItemKey]]:
    """Yield each sample with the name of its system and the key of its item."""
    names = _name_systems(samples, path)
    draws: Counter[tuple[str, str | None, Id]] = Counter()
    placed: set[tuple[str, _ItemKey]] = set()
    for sample in samples:
        system = names[sample.system, sample.run]
        draw = sample.draw
        if draw is None:
            draws[system, sample.task, sample.prompt] += 1
            draw = draws[system, sample.task, sample.prompt]
        key = (sample.task, sample.prompt, draw)
        if (system, key) in placed:
            raise FormatError(
                f"{path}: the sample {sample.prompt!r} (draw {draw}) of '{system}' occurs twice; keep one"
            )
        placed.add((system, key))
        yield sample, system, key


def _name_systems(samples: list[LogSample], path: Path | str) -> dict[tuple[str, str | None], str]:
    """Return the name of each system and run: the runs of one system on the same items are systems of their own."""
    names = {(sample.system, sample.run): sample.system for sample in samples}
    if len(names) == len(set(names.values())):
        return names
    runs: dict[tuple[str, str | None, Id, int | None], str | None] = {}
    several: dict[str, None] = {}
    for sample in samples:
        cell = (sample.system, sample.task, sample.prompt, sample.draw)
        if runs.setdefault(cell, sample.run) != sample.run:
            several[sample.system] = None
    if several:
        warnings.warn(
            f"{path}: {quoted(list(several), _SEVERAL)} ran more than once on the same items: each run is a system",
            AliquotWarning,
            4,
        )
    return {(system, run): f"{system} ({run})" if system in several else system for system, run in names}


# -- items ---------------------------------------------------------------------------------------------------------


def _build_items(
    keys: list[_ItemKey], first: list[LogSample], by_item: list[dict[str, LogSample]], path: Path | str
) -> tuple[list[Id], pl.DataFrame]:
    """Return the items' ids and their table; each field comes from the first system that has it."""
    tasks = ordered_union([[task for task, _, _ in keys if task is not None]])
    prompts = unify_ids([prompt if len(tasks) < 2 else f"{task}/{prompt}" for task, prompt, _ in keys])
    draws = [draw for _, _, draw in keys]
    ids: list[Id] = prompts
    columns: dict[str, Sequence[Any]] = {}
    for name in ("source", "reference"):
        values = [next((v for s in cells.values() if (v := getattr(s, name)) is not None), None) for cells in by_item]
        if any(value is not None for value in values):
            columns[name] = values
    if max(draws) > 1:
        ids = [f"{prompt}#{draw}" for prompt, draw in zip(prompts, draws, strict=True)]
        columns |= {"document": [str(prompt) for prompt in prompts], "draw": draws}
    if len(tasks) > 1:
        columns["domain"] = [task for task, _, _ in keys]
    for name in ordered_union([sample.columns for sample in first]):
        values = [sample.columns.get(name) for sample in first]
        columns[name + "_" * (name == "id" or name in columns or not _fits(name, values))] = values
    for name, field_name in ((TRACES, "trace"), (OBSERVATIONS, "observation")):
        by_system = [{system: v for system, s in cells.items() if (v := getattr(s, field_name))} for cells in by_item]
        if any(by_system):
            columns[name] = [cells or None for cells in by_system]
    _warn_other_inputs(by_item, path)
    table = [pl.Series("id", ids), *(encode_column(name, values) for name, values in columns.items())]
    return ids, pl.DataFrame(table)


def _fits(name: str, values: Sequence[Any]) -> bool:
    """Return whether values are what a column of this name holds in an EvalSet."""
    types = _COLUMN_TYPES.get(name)
    return types is None or all(value is None or type(value) in types for value in values)


def _warn_other_inputs(by_item: list[dict[str, LogSample]], path: Path | str) -> None:
    """Warn where systems had different inputs under one id: the logs may be about different data."""
    other = [
        (sample.prompt, system)
        for cells in by_item
        if len({sample.source for sample in cells.values() if sample.source is not None}) > 1
        for system, sample in list(cells.items())[1:2]
    ]
    if other:
        prompt, system = other[0]
        warnings.warn(
            f"{path}: {len(other)} of {len(by_item)} items have different inputs in different systems, e.g. item "
            f"{prompt!r} in '{system}'; check that all logs are about the same data",
            AliquotWarning,
            4,
        )


def _warn_failures(by_item: list[dict[str, LogSample]], path: Path | str) -> None:
    """Warn of the samples that failed: their cells are missing, not 0."""
    failures = [(system, sample) for cells in by_item for system, sample in cells.items() if sample.failure]
    if not failures:
        return
    counts = Counter(system for system, _ in failures)
    total = sum(map(len, by_item))
    listed = ", ".join(f"{system} {count}" for system, count in counts.most_common(_SEVERAL))
    more = f" and {len(counts) - _SEVERAL} more systems" if len(counts) > _SEVERAL else ""
    reason = str(failures[0][1].failure).strip().splitlines()[0][:80]
    warnings.warn(
        f"{path}: {len(failures)} of {total} samples failed and are missing, not 0 ({listed}{more}); first: {reason}",
        AliquotWarning,
        4,
    )


# -- values --------------------------------------------------------------------------------------------------------


def get_field(value: object, *keys: str) -> Any:
    """Return a field of nested objects; None where there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def read_score(value: object) -> float | None:
    """Return a grader's value as a number: true and false are 1 and 0; None for anything else.

    >>> read_score(True), read_score("0.5"), read_score("good"), read_score(float("nan"))
    (1.0, 0.5, None, None)
    """
    return float(value) if isinstance(value, bool) else parse_number(value)


def read_text(content: object) -> str | None:
    r"""Return the text of a message's content: a string, or the text parts of a list; None if there is none.

    >>> read_text([{"type": "text", "text": "a"}, {"type": "image", "image": "x.png"}, {"type": "text", "text": "b"}])
    'a\n[image]\nb'
    """
    if content is None or isinstance(content, str):
        return content
    if not isinstance(content, list):
        return None
    parts = [part if isinstance(part, str) else _read_part(part) for part in content]
    return "\n".join(part for part in parts if part) or None


def _read_part(part: object) -> str | None:
    if not isinstance(part, dict):
        return None
    text = part.get("text", part.get("content"))
    kind = part.get("type")
    if isinstance(text, str) and kind != "reasoning":
        return text
    return f"[{kind}]" if isinstance(kind, str) and kind not in ("text", "reasoning") else None


def read_messages(messages: object) -> str | None:
    r"""Return a conversation as one text: the only message alone, or each turn under its role.

    >>> read_messages([{"role": "user", "content": "Hi"}])
    'Hi'
    >>> read_messages([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}])
    'system: Be brief.\n\nuser: Hi'
    """
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        return read_text(messages)
    turns = [(message.get("role"), read_text(message.get("content"))) for message in messages]
    present = [(role, text) for role, text in turns if text]
    if len(present) == 1:
        return present[0][1]
    return "\n\n".join(f"{role}: {text}" for role, text in present) or None
