"""promptfoo's results: `-o results.json`, `.jsonl` and `.csv`, and the tables of older versions."""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from aliquot.core.conventions import is_human_name
from aliquot.errors import AliquotWarning, FormatError
from aliquot.io.files import decode_text, number_lines
from aliquot.io.formats.samples import LogFile, LogSample, Rating, read_score

_REMEDY = "export the evaluation from promptfoo again"
_ERROR = 2  # promptfoo's ResultFailureReason: 0 none, 1 assertion, 2 error
_MANUAL = "Manual result"  # the reason that the viewer writes when a person sets a score
_MAX_LABEL = 40  # characters of a prompt's label in a system's name
_OWN_COLUMNS = ("source", "document", "draw", "domain")
_OWN_SCORES = ("pass", "score")
_NULL = msgspec.Raw(b"null")
_NUMBER = re.compile(r"-?(0|[1-9]\d{0,14}|(0|[1-9]\d{0,8})\.\d{0,5}[1-9])", re.ASCII)


class _TestCase(msgspec.Struct, rename="camel"):
    description: Any = None
    threshold: Any = None
    assert_scoring_function: Any = None


class _PromptfooResult(msgspec.Struct, rename="camel"):
    """One output as promptfoo writes it; its fields are checked when they are used."""

    id: Any = None
    test_idx: Any = None
    prompt_idx: Any = None
    provider: Any = None
    prompt: Any = None
    vars: Any = None
    response: Any = None
    error: Any = None
    success: Any = None
    score: Any = None
    named_scores: Any = None
    failure_reason: Any = None
    cost: Any = None
    latency_ms: Any = None
    token_usage: Any = None
    grading_result: msgspec.Raw = _NULL
    test_case: _TestCase | None = None


class _TableOutput(msgspec.Struct, rename="camel"):
    """One output in a table."""

    text: Any = None
    prompt: Any = None
    passed: Any = msgspec.field(default=None, name="pass")
    score: Any = None
    named_scores: Any = None
    failure_reason: Any = None
    cost: Any = None
    latency_ms: Any = None
    token_usage: Any = None
    error: Any = None
    grading_result: msgspec.Raw = _NULL


class _TableRow(msgspec.Struct):
    outputs: list[_TableOutput | None] = []
    vars: list[Any] = []
    test: _TestCase | None = None


class _TableHead(msgspec.Struct):
    prompts: list[dict[str, Any]] = []
    vars: list[Any] = []


class _ResultTable(msgspec.Struct):
    head: _TableHead
    body: list[_TableRow] = []


class _ResultSummary(msgspec.Struct):
    results: list[_PromptfooResult] | None = None
    table: _ResultTable | None = None


class _PromptfooDocument(msgspec.Struct, rename="camel"):
    results: _ResultSummary | list[_PromptfooResult] | None = None
    eval_id: Any = None
    table: _ResultTable | None = None
    head: _TableHead | None = None
    body: list[_TableRow] | None = None


@dataclass(frozen=True)
class _ResultFile:
    """The results of one file, in the order of tests and prompts."""

    path: Path | str
    name: str
    results: Sequence[_PromptfooResult]


_DOCUMENT = msgspec.json.Decoder(_PromptfooDocument)
_LIST = msgspec.json.Decoder(list[_PromptfooResult])
_LINE = msgspec.json.Decoder(_PromptfooResult)


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
    return "Grader Reason" in columns and bool(_list_blocks(list(columns)))


def read_samples(files: Iterable[LogFile]) -> Iterator[LogSample]:
    """Yield a sample for each result; results that stand in several files are read once."""
    runs = _drop_copies([_read_run(file) for file in _drop_tables(list(files))])
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
            key = _write_vars(columns)
            draws = tests.setdefault(key, {})
            test = result.test_idx if type(result.test_idx) is int else None
            sample = _build_sample(result, systems[_read_column(result)], _number_prompt(prompts, key, test))
            if test is not None:
                sample.draw = draws.setdefault(test, len(draws) + 1)
            sample.run = run.name
            sample.source = key if several else _read_raw_prompt(result, key)
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


def _drop_copies(runs: list[_ResultFile]) -> list[_ResultFile]:
    """Leave out results that another file has too, by their ids."""
    ids: set[str] = set()
    kept = []
    for run in runs:
        results = [r for r in run.results if not isinstance(r.id, str) or r.id not in ids]
        ids.update(r.id for r in results if isinstance(r.id, str))
        if len(results) < len(run.results):
            copies = len(run.results) - len(results)
            warnings.warn(f"{run.path}: {copies} results occur in another file too; read once", AliquotWarning, 5)
        kept.append(_ResultFile(run.path, run.name, results))
    return kept


def _read_run(file: LogFile) -> _ResultFile:
    raw = file.read()
    start = raw[:64].lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    name = Path(file.path).name
    if start not in (b"{", b"["):
        results = _read_csv(decode_text(raw, file.path), file.path)
    elif start == b"[":
        results = _decode(_LIST, raw, str(file.path))
    else:
        name, results = _read_objects(raw, file.path, name)
    results.sort(key=lambda result: (_read_order(result.test_idx), _read_order(result.prompt_idx)))
    return _ResultFile(file.path, name, results)


def _read_objects(raw: bytes, path: Path | str, name: str) -> tuple[str, list[_PromptfooResult]]:
    """Read a document, or JSON lines of results; also return the name of the evaluation."""
    text = raw.strip()
    first = text.split(b"\n", 1)[0].rstrip()
    if first.endswith(b"}") and len(first) < len(text):
        return name, [_decode(_LINE, line, where) for where, line in number_lines(raw, path)]
    document = _decode(_DOCUMENT, text, str(path))
    if document.results is document.table is document.head is None and b'"gradingResult"' in first:
        return name, [_decode(_LINE, text, str(path))]
    return document.eval_id if isinstance(document.eval_id, str) else name, _list_results(document, path)


def _decode(decoder: msgspec.json.Decoder[Any], raw: bytes, where: str) -> Any:
    try:
        return decoder.decode(raw)
    except RecursionError:
        raise FormatError(f"{where}: nested too deeply for promptfoo's results; {_REMEDY}") from None
    except msgspec.ValidationError as error:
        raise FormatError(f"{where}: not as promptfoo writes it ({error}); {_REMEDY}") from None
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise FormatError(f"{where}: not valid JSON ({error}); {_REMEDY}") from None


def _list_results(document: _PromptfooDocument, path: Path | str) -> list[_PromptfooResult]:
    """Return the results of a document, from its table if it has no list of them."""
    inside = document.results
    if isinstance(inside, list):
        return inside
    if inside is not None and inside.results:
        return inside.results
    table = document.table or (inside.table if inside else None)
    if document.head is not None:
        table = _ResultTable(document.head, document.body or [])
    if table is not None:
        return _read_table(table)
    raise FormatError(f"{path}: it holds no results (field 'results.results'); {_REMEDY}")


def _read_table(table: _ResultTable) -> list[_PromptfooResult]:
    names, prompts, results = [str(name) for name in table.head.vars], table.head.prompts, []
    texts = [[v if isinstance(v, str) else "" for v in row.vars] + [""] * len(names) for row in table.body]
    columns = [_read_csv_column([row[place] for row in texts]) for place in range(len(names))]
    for index, row in enumerate(table.body):
        inputs = {name: column[index] for name, column in zip(names, columns, strict=True)}
        for place, cell in enumerate(row.outputs):
            result = _read_cell(cell, prompts[place] if place < len(prompts) else {})
            result.test_idx, result.prompt_idx, result.vars, result.test_case = index, place, inputs, row.test
            results.append(result)
    return results


def _read_cell(cell: _TableOutput | None, prompt: Mapping[str, Any]) -> _PromptfooResult:
    cell = cell or _TableOutput(error="no result", failure_reason=_ERROR)
    reason = _decode_object(cell.grading_result).get("reason")
    text = cell.text
    if isinstance(text, str) and isinstance(reason, str):
        text = text.removeprefix(f"{reason}\n---\n")  # older tables put the reason of a failure before the output
    return _PromptfooResult(
        provider=prompt.get("provider"),
        prompt={"raw": cell.prompt, "label": prompt.get("label", prompt.get("raw"))},
        response=None if cell.failure_reason == _ERROR else {"output": text},
        error=text if cell.failure_reason == _ERROR and cell.error is None else cell.error,
        success=cell.passed,
        score=cell.score,
        named_scores=cell.named_scores,
        failure_reason=cell.failure_reason,
        cost=cell.cost,
        latency_ms=cell.latency_ms,
        token_usage=cell.token_usage,
        grading_result=cell.grading_result,
    )


# -- CSV -----------------------------------------------------------------------------------------------------------


def _list_blocks(header: Sequence[str]) -> list[int]:
    """Return where the columns of each provider and prompt begin: their names repeat, only the first differs."""
    return [i for i in range(len(header) - 2) if header[i + 1] == "Status" and header[i + 2] == "Score"]


def _read_csv(text: str, path: Path | str) -> list[_PromptfooResult]:
    try:
        rows = [row for row in csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline="")) if row]
    except csv.Error as error:
        raise FormatError(f"{path}: not a CSV table ({error}); {_REMEDY}") from None
    starts = _list_blocks(rows[0]) if rows else []
    if not starts:
        raise FormatError(f"{path} line 1: no column is followed by 'Status' and 'Score'; {_REMEDY}")
    header, body, results = rows[0], [[_unescape(cell) for cell in row] for row in rows[1:]], []
    for number, row in enumerate(body, start=1):
        if len(row) != len(header):
            raise FormatError(f"{path} row {number}: {len(row)} cells, but the header has {len(header)}; {_REMEDY}")
    tests = _read_csv_tests(header[: starts[0]], body)
    for column, (start, end) in enumerate(zip(starts, [*starts[1:], len(header)], strict=True)):
        names = ["Output", *header[start + 1 : end]]
        for index, row in enumerate(body):
            if row[start + 1]:
                result = _read_csv_cells(header[start], dict(zip(names, row[start:end], strict=True)))
                result.test_idx, result.prompt_idx = index, column
                result.vars, result.test_case = tests[index]
                results.append(result)
    return results


def _read_csv_tests(names: Sequence[str], rows: list[list[str]]) -> list[tuple[dict[str, Any], _TestCase]]:
    """Return the variables and the description of each row, numbers where a column holds only numbers."""
    columns = [[row[place] for row in rows] for place in range(len(names))]
    values = [_read_csv_column(column) for column in columns]
    described = names[:1] == ["Description"]
    start = int(described)
    return [
        (
            {name: column[i] for name, column in zip(names[start:], values[start:], strict=True)},
            _TestCase(description=(columns[0][i] or None) if described else None),
        )
        for i in range(len(rows))
    ]


def _read_csv_cells(title: str, cells: Mapping[str, str]) -> _PromptfooResult:
    """Return the result of one block.

    The status ERROR stands for a person's failing grade too; without one, the viewer writes the error as the output.
    """
    provider, _, label = title[1:].partition("] ") if title.startswith("[") else ("", "", title)
    reason, status, output = cells.get("Grader Reason", ""), cells["Status"], cells["Output"]
    is_error = status == "ERROR" and not (reason.startswith(_MANUAL) and output)
    grading = {"reason": reason, "score": read_score(cells["Score"]), "comment": cells.get("Comment") or None}
    return _PromptfooResult(
        provider=provider,
        prompt={"label": label},
        response=None if is_error else {"output": output},
        error=(output or "promptfoo's CSV does not say why") if is_error else None,
        success=status == "PASS",
        score=grading["score"],
        named_scores=_decode_object(cells.get("Named Scores", "")),
        failure_reason=_ERROR if is_error else 0,
        grading_result=msgspec.Raw(msgspec.json.encode(grading)),
    )


def _unescape(cell: str) -> str:
    """Remove the quote that promptfoo puts before what a spreadsheet would take for a formula, such as `- item`."""
    return cell[1:] if cell[:1] == "'" and cell[1:].lstrip()[:1] in ("=", "@", "+", "-") else cell


def _read_csv_column(cells: Sequence[str]) -> list[Any]:
    """Return a variable's values as JSON has them: numbers if all are written as numbers, None if empty.

    >>> _read_csv_column(["61", "0.5", ""]), _read_csv_column(["007", "1"])
    ([61, 0.5, None], ['007', '1'])
    """
    if all(_NUMBER.fullmatch(cell) for cell in cells if cell):
        return [None if not cell else float(cell) if "." in cell else int(cell) for cell in cells]
    return [cell or None for cell in cells]


# -- names of systems and prompts ----------------------------------------------------------------------------------


def _read_order(index: object) -> float:
    return index if type(index) is int else float("inf")


def _read_provider(result: _PromptfooResult) -> str:
    provider = result.provider
    if isinstance(provider, Mapping):
        provider = provider.get("label") or provider.get("id")
    return provider if isinstance(provider, str) else ""


def _read_label(result: _PromptfooResult) -> str:
    prompt = result.prompt
    label = (prompt.get("label") or prompt.get("raw")) if isinstance(prompt, Mapping) else prompt
    return label if isinstance(label, str) else ""


def _name_prompt(label: str, number: int) -> str:
    """Return a prompt's label, or its number where the label is the text of the prompt itself."""
    is_name = label and len(label) <= _MAX_LABEL and "\n" not in label and "{{" not in label
    return label if is_name else f"prompt {number}"


_Column = tuple[str, str, int]


def _read_column(result: _PromptfooResult) -> _Column:
    index = result.prompt_idx
    return _read_provider(result), _read_label(result), index if type(index) is int else -1


def _name_systems(run: _ResultFile, labels: Mapping[str, str]) -> dict[_Column, str]:
    """Return the system of each column: the provider, with the prompt if there are several, numbered if equal."""
    names: dict[_Column, str] = {}
    counts: Counter[str] = Counter()
    for column in dict.fromkeys(map(_read_column, run.results)):
        provider, label, _ = column
        name = f"{provider} ({labels[label]})" if provider and len(labels) > 1 else provider or labels[label]
        counts[name] += 1
        names[column] = name if counts[name] == 1 else f"{name} {counts[name]}"
    return names


def _read_vars(result: _PromptfooResult) -> dict[str, Any]:
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


def _read_raw_prompt(result: _PromptfooResult, inputs: str) -> str:
    """Return the text that the provider got; for a CSV file, which has none, the label with its variables."""
    raw = result.prompt.get("raw") if isinstance(result.prompt, Mapping) else None
    if isinstance(raw, str):
        return raw
    values = _read_vars(result)
    text = re.sub(r"\{\{\s*(\w+)\s*\}\}", lambda m: _write_text(values.get(m[1], m[0])), _read_label(result))
    return inputs if text == _read_label(result) else text


# -- one result ----------------------------------------------------------------------------------------------------


def _build_sample(result: _PromptfooResult, system: str, prompt: int) -> LogSample:
    response = result.response if isinstance(result.response, Mapping) else {}
    output = response.get("output")
    failure = None
    if result.failure_reason == _ERROR or (output is None and (result.error or response.get("error"))):
        failure = str(result.error or response.get("error") or "no reason")
    tokens = result.token_usage if isinstance(result.token_usage, Mapping) else response.get("tokenUsage")
    seconds = read_score(result.latency_ms)
    usage = {
        "cost": read_score(result.cost),
        "seconds": None if seconds is None else seconds / 1000,
        "tokens": read_score(tokens.get("total")) if isinstance(tokens, Mapping) else None,
    }
    passed, score = read_score(result.success), read_score(result.score)
    ratings: list[Rating] = []
    grading = bytes(result.grading_result)
    if b'"human"' in grading or b"Manual result" in grading:
        passed, score, ratings = _read_person(result, passed, score)
    named = result.named_scores if isinstance(result.named_scores, Mapping) else {}
    scores = {_name_score(str(name)): read_score(value) for name, value in named.items()}
    return LogSample(
        system,
        prompt,
        output=output if output is None or isinstance(output, str) else _write_text(output),
        scores={"pass": passed, "score": score, **scores},
        usage={name: value for name, value in usage.items() if value is not None},
        ratings=ratings,
        failure=failure,
    )


@lru_cache(maxsize=1024)
def _name_score(name: str) -> str:
    """Return the name of a metric; a grader's score must not pass for a person's.

    >>> _name_score("brevity"), _name_score("human-like")
    ('brevity', 'metric_human-like')
    """
    return f"metric_{name}" if name in _OWN_SCORES or is_human_name(name) else name


def _decode_object(raw: bytes | str | msgspec.Raw) -> dict[str, Any]:
    """Decode JSON that should be an object; empty if it is not."""
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _is_ungraded(result: _PromptfooResult) -> bool:
    grading = bytes(result.grading_result)
    return grading == b"null" or b'"No assertions"' in grading


# -- what a person said in the viewer ------------------------------------------------------------------------------


def _read_person(
    result: _PromptfooResult, passed: float | None, score: float | None
) -> tuple[float | None, float | None, list[Rating]]:
    """Return what graders gave, `pass` and `score`, and what a person gave: it replaces the graders' in the file."""
    grading = _decode_object(result.grading_result)
    listed = grading.get("componentResults")
    components = [part for part in listed if isinstance(part, Mapping)] if isinstance(listed, list) else []
    manual = [part for part in components if _read_assertion(part).get("type") == "human"]
    is_manual = str(grading.get("reason")).startswith(_MANUAL)
    if not manual and is_manual:
        manual = [grading]  # a score set without a thumb is no component
    if not manual:
        return passed, score, []
    graded = [part for part in components if _read_assertion(part).get("type") != "human"]
    return *_regrade(graded, result.test_case or _TestCase()), [_read_rating(part) for part in manual]


def _read_rating(part: Mapping[str, Any]) -> Rating:
    score, comment = read_score(part.get("score")), part.get("comment")
    value = read_score(part.get("pass")) if score is None else score
    return Rating(value=value, comment=comment if isinstance(comment, str) and comment else None)


def _regrade(components: Sequence[Mapping[str, Any]], test: _TestCase) -> tuple[float | None, float | None]:
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
    weights = [1.0 if (w := read_score(_read_assertion(part).get("weight"))) is None else w for part in parts]
    total = sum(weights)
    score = sum(s * w for s, w in zip(scores, weights, strict=True)) / total if total > 0 else 0.0
    if isinstance(test.threshold, (int, float)):
        return float(score >= test.threshold), score
    return float(all(part.get("pass") is True for part in parts)), score


def _read_assertion(part: Mapping[str, Any]) -> Mapping[str, Any]:
    assertion = part.get("assertion")
    return assertion if isinstance(assertion, Mapping) else {}
