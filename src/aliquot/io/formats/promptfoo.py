"""promptfoo's results: `-o results.json`, `.jsonl` and `.csv`, and the tables of older versions."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from aliquot.core.conventions import is_human_name
from aliquot.errors import AliquotWarning
from aliquot.io.formats.promptfoo_files import (
    ERROR,
    MANUAL,
    PromptfooResult,
    PromptfooTest,
    ResultFile,
    decode_object,
    list_blocks,
    read_result_file,
)
from aliquot.io.formats.samples import LogFile, LogSample, Rating, get_field, read_score

_MAX_LABEL = 40  # characters of a prompt's label in a system's name
_OWN_COLUMNS = ("source", "document", "draw", "domain")
_OWN_SCORES = ("pass", "score")


def looks_like(fields: Mapping[str, Any]) -> bool:
    """Return whether an object is promptfoo's document, its table, or one result."""
    results, head = fields.get("results"), fields.get("head")
    if isinstance(results, Mapping) and "version" in results and ("table" in results or "stats" in results):
        return True
    if "results" in fields and "evalId" in fields:
        return True
    if isinstance(head, Mapping) and "body" in fields:
        return "prompts" in head and "vars" in head
    return {"testIdx", "promptIdx"} <= fields.keys() or {"gradingResult", "namedScores", "latencyMs"} <= fields.keys()


def looks_like_table(columns: Collection[str]) -> bool:
    """Return whether a table has promptfoo's columns: an output, its status and its score."""
    return "Grader Reason" in columns and bool(list_blocks(list(columns)))


def read_samples(files: Iterable[LogFile]) -> Iterator[LogSample]:
    """Yield a sample for each result; results that several files hold are read once."""
    runs = _drop_copies([read_result_file(file) for file in _drop_tables(list(files))])
    labels: dict[str, str] = {}
    for run in runs:
        for result in run.results:
            labels.setdefault(_read_label(result), "")
    several = len(labels) > 1
    for number, label in enumerate(labels, start=1):
        labels[label] = _name_prompt(label, number)
    prompts: dict[str, int] = {}
    ungraded = 0
    for run in runs:
        systems = _name_systems(run, labels)
        tests: dict[str, dict[int, int]] = {}
        for result in run.results:
            columns = _read_vars(result)
            test = result.test_idx if type(result.test_idx) is int else None
            inputs = _write_vars(columns) or None
            raw = inputs if several else _read_raw_prompt(result, inputs)
            key = inputs or raw or str(test)
            draws = tests.setdefault(key, {})
            sample = _build_sample(result, systems[_read_column(result)], _number_prompt(prompts, key, test))
            if test is not None:
                sample.draw = draws.setdefault(test, len(draws) + 1)
            sample.run = run.name
            sample.source = raw
            sample.columns = {name + "_" * (name in _OWN_COLUMNS): value for name, value in columns.items()}
            if result.test_case is not None and isinstance(result.test_case.description, str):
                sample.columns.setdefault("description", result.test_case.description)
            ungraded += not sample.failure and bool(result.success) and _is_ungraded(result)
            yield sample
    if ungraded:
        warnings.warn(
            f"{runs[0].path}: {ungraded} outputs had no assertions; promptfoo counts them as passed with score 1",
            AliquotWarning,
            4,
        )


# -- files ---------------------------------------------------------------------------------------------------------


def _drop_tables(files: list[LogFile]) -> list[LogFile]:
    """Leave out the CSV of an evaluation whose JSON is among the files: it has less."""
    names = {str(file.path).removesuffix(".gz") for file in files}
    whole = {name.rpartition(".")[0] for name in names if not name.endswith(".csv")}
    kept = [f for f in files if not (n := str(f.path).removesuffix(".gz")).endswith(".csv") or n[:-4] not in whole]
    if len(kept) < len(files):
        example = next(file.path for file in files if file not in kept)
        warnings.warn(f"{example}: not read, as the JSON file of the same name has more", AliquotWarning, 5)
    return kept


def _drop_copies(runs: list[ResultFile]) -> list[ResultFile]:
    """Leave out results that another file has too, by their ids."""
    ids: set[str] = set()
    kept = []
    for run in runs:
        results = [r for r in run.results if not isinstance(r.id, str) or r.id not in ids]
        ids.update(r.id for r in results if isinstance(r.id, str))
        if len(results) < len(run.results):
            copies = len(run.results) - len(results)
            warnings.warn(f"{run.path}: {copies} results occur in another file too; read once", AliquotWarning, 5)
        kept.append(ResultFile(run.path, run.name, results))
    return kept


# -- names of systems and prompts ----------------------------------------------------------------------------------


def _read_provider(result: PromptfooResult) -> str:
    name = get_field(result.provider, "label") or get_field(result.provider, "id") or result.provider
    return name if isinstance(name, str) else ""


def _read_label(result: PromptfooResult) -> str:
    prompt = result.prompt
    label = (prompt.get("label") or prompt.get("raw")) if isinstance(prompt, Mapping) else prompt
    return label if isinstance(label, str) else ""


def _name_prompt(label: str, number: int) -> str:
    """Return a prompt's label, or its number where the label is the text of the prompt itself."""
    is_name = label and len(label) <= _MAX_LABEL and "\n" not in label and "{{" not in label
    return label if is_name else f"prompt {number}"


_Column = tuple[str, str, int]


def _read_column(result: PromptfooResult) -> _Column:
    index = result.prompt_idx
    return _read_provider(result), _read_label(result), index if type(index) is int else -1


def _name_systems(run: ResultFile, labels: Mapping[str, str]) -> dict[_Column, str]:
    """Return the system of each column: the provider, with the prompt if there are several, numbered if equal."""
    names: dict[_Column, str] = {}
    counts: Counter[str] = Counter()
    for column in dict.fromkeys(map(_read_column, run.results)):
        provider, label, _ = column
        name = f"{provider} ({labels[label]})" if provider and len(labels) > 1 else provider or labels[label]
        counts[name] += 1
        names[column] = name if counts[name] == 1 else f"{name} {counts[name]}"
    return names


def _read_vars(result: PromptfooResult) -> dict[str, Any]:
    inputs = result.vars if isinstance(result.vars, Mapping) else {}
    return {str(name): value for name, value in inputs.items()}


def _write_vars(inputs: Mapping[str, Any]) -> str:
    r"""Return variables as text, equal for a number and its digits.

    >>> _write_vars({"a": 1, "b": "x", "c": None})
    'a: 1\nb: x'
    """
    return "\n".join(f"{name}: {_write_text(value)}" for name, value in inputs.items() if value is not None)


def _write_text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _number_prompt(prompts: dict[str, int], key: str, test: int | None) -> int:
    """Return the number of a prompt: its first test's, or the next one where another file has used it."""
    if key not in prompts:
        used = prompts.values()
        prompts[key] = test if test is not None and test not in used else max(used, default=-1) + 1
    return prompts[key]


def _read_raw_prompt(result: PromptfooResult, inputs: str | None) -> str | None:
    """Return the text that the provider got; for a CSV file, which has none, the label with its variables."""
    raw = get_field(result.prompt, "raw")
    if isinstance(raw, str):
        return raw if raw != "[prompt stripped]" else inputs
    values = _read_vars(result)
    text = re.sub(r"\{\{\s*(\w+)\s*\}\}", lambda m: _write_text(values.get(m[1], m[0])), _read_label(result))
    return inputs if inputs and text == _read_label(result) else text


# -- one result ----------------------------------------------------------------------------------------------------


def _build_sample(result: PromptfooResult, system: str, prompt: int) -> LogSample:
    output, error = get_field(result.response, "output"), result.error or get_field(result.response, "error")
    is_failure = result.failure_reason == ERROR or (output is None and error)
    tokens = result.token_usage if isinstance(result.token_usage, dict) else get_field(result.response, "tokenUsage")
    seconds = read_score(result.latency_ms)
    usage = {
        "cost": read_score(result.cost),
        "seconds": None if seconds is None else seconds / 1000,
        "tokens": read_score(get_field(tokens, "total")),
    }
    passed, score = read_score(result.success), read_score(result.score)
    ratings: list[Rating] = []
    grading = bytes(result.grading_result)
    if b'"human"' in grading or b"Manual result" in grading:
        passed, score, ratings = _read_person(result, passed, score)
    own = result.named_scores if isinstance(result.named_scores, dict) else {}
    scores = {_name_score(str(name)): read_score(value) for name, value in own.items()}
    return LogSample(
        system,
        prompt,
        output=output if output is None or isinstance(output, str) else _write_text(output),
        scores={"pass": passed, "score": score, **scores},
        usage={name: value for name, value in usage.items() if value is not None},
        ratings=ratings,
        failure=str(error or "no reason") if is_failure else None,
    )


@lru_cache(maxsize=1024)
def _name_score(name: str) -> str:
    """Return the name of a metric; a grader's score must not pass for a person's.

    >>> _name_score("brevity"), _name_score("human-like")
    ('brevity', 'metric_human-like')
    """
    return f"metric_{name}" if name in _OWN_SCORES or is_human_name(name) else name


def _is_ungraded(result: PromptfooResult) -> bool:
    grading = bytes(result.grading_result)
    return grading == b"null" or b'"No assertions"' in grading


# -- ratings from the viewer ---------------------------------------------------------------------------------------


def _read_person(
    result: PromptfooResult, passed: float | None, score: float | None
) -> tuple[float | None, float | None, list[Rating]]:
    """Return the graders' `pass` and `score`, and a person's ratings, which replace them in the file."""
    grading = decode_object(result.grading_result)
    listed = grading.get("componentResults")
    components = [part for part in listed if isinstance(part, Mapping)] if isinstance(listed, list) else []
    manual = [part for part in components if get_field(part, "assertion", "type") == "human"]
    is_manual = str(grading.get("reason")).startswith(MANUAL)
    if not manual and is_manual:
        manual = [grading]  # a score set without a thumb is no component
    if not manual:
        return passed, score, []
    graded = [part for part in components if get_field(part, "assertion", "type") != "human"]
    return *_regrade(graded, result.test_case or PromptfooTest()), [_read_rating(part) for part in manual]


def _read_rating(part: Mapping[str, Any]) -> Rating:
    score, comment = read_score(part.get("score")), part.get("comment")
    value = read_score(part.get("pass")) if score is None else score
    return Rating(value=value, comment=comment if isinstance(comment, str) and comment else None)


def _regrade(components: Sequence[Mapping[str, Any]], test: PromptfooTest) -> tuple[float | None, float | None]:
    """Return `pass` and `score` as promptfoo computes them from its assertions; None where they cannot be computed."""
    parts, skipped = [], 0
    for part in components:
        inside = part.get("componentResults")
        if skipped == 0:
            parts.append(part)
            skipped = len(inside) if isinstance(inside, list) else 0  # those of a set follow it once more
        else:
            skipped -= 1
    if not parts or test.assert_scoring_function is not None:
        return None, None
    scores = [read_score(part.get("score")) or 0.0 for part in parts]
    weights = [1.0 if (w := read_score(get_field(part, "assertion", "weight"))) is None else w for part in parts]
    total = sum(weights)
    score = sum(s * w for s, w in zip(scores, weights, strict=True)) / total if total > 0 else 0.0
    if isinstance(test.threshold, (int, float)):
        return float(score >= test.threshold), score
    return float(all(part.get("pass") is True for part in parts)), score
