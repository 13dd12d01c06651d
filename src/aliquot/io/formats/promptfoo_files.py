"""The layouts of promptfoo's files: JSON, JSON lines, CSV, and the tables of its viewer and of older versions."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from aliquot.errors import FormatError
from aliquot.io.files import decode_text, first_character, number_lines
from aliquot.io.formats.records import decode_typed
from aliquot.io.formats.samples import LogFile, read_score

ERROR = 2
"""promptfoo's reason of a failure where the provider failed; 0 is none, 1 an assertion."""
MANUAL = "Manual result"
"""How the reason begins that the viewer writes when a person sets a score."""
_REMEDY = "export the evaluation from promptfoo again"
_NULL = msgspec.Raw(b"null")
_NUMBER = re.compile(r"-?(0|[1-9]\d{0,14}|(0|[1-9]\d{0,8})\.\d{0,5}[1-9])", re.ASCII)


class PromptfooTest(msgspec.Struct, rename="camel"):
    """The test of a result, as far as it is used."""

    description: Any = None
    threshold: Any = None
    assert_scoring_function: Any = None


class _Outcome(msgspec.Struct, rename="camel"):
    """The fields that an output has in a list of results and in a table; they are checked when they are used."""

    prompt: Any = None
    error: Any = None
    score: Any = None
    named_scores: Any = None
    failure_reason: Any = None
    cost: Any = None
    latency_ms: Any = None
    token_usage: Any = None
    grading_result: msgspec.Raw = _NULL


class PromptfooResult(_Outcome, rename="camel"):
    """One output as promptfoo writes it."""

    id: Any = None
    test_idx: Any = None
    prompt_idx: Any = None
    provider: Any = None
    vars: Any = None
    response: Any = None
    success: Any = None
    test_case: PromptfooTest | None = None


class _TableOutput(_Outcome, rename="camel"):
    """One output in a table."""

    text: Any = None
    passed: Any = msgspec.field(default=None, name="pass")


class _TableRow(msgspec.Struct):
    outputs: list[_TableOutput | None] = []
    vars: list[Any] = []
    test: PromptfooTest | None = None


class _TableHead(msgspec.Struct):
    prompts: list[dict[str, Any]] = []
    vars: list[Any] = []


class _ResultTable(msgspec.Struct):
    head: _TableHead
    body: list[_TableRow] = []


class _ResultSummary(msgspec.Struct):
    results: list[PromptfooResult] | None = None
    table: _ResultTable | None = None


class _PromptfooDocument(msgspec.Struct, rename="camel"):
    results: _ResultSummary | list[PromptfooResult] | None = None
    eval_id: Any = None
    table: _ResultTable | None = None
    head: _TableHead | None = None
    body: list[_TableRow] | None = None


@dataclass(frozen=True)
class ResultFile:
    """The results of one file, in the order of tests and prompts."""

    path: Path | str
    name: str
    results: Sequence[PromptfooResult]


_DOCUMENT = msgspec.json.Decoder(_PromptfooDocument)
_LIST = msgspec.json.Decoder(list[PromptfooResult])
_LINE = msgspec.json.Decoder(PromptfooResult)


def read_result_file(file: LogFile) -> ResultFile:
    """Read a file of any layout; raise FormatError where it is damaged."""
    raw = file.read()
    start = first_character(raw)
    name = Path(file.path).name
    if start not in (b"{", b"["):
        results = _read_csv(decode_text(raw, file.path), file.path)
    elif start == b"[":
        results = decode_typed(_LIST, raw, str(file.path), _REMEDY)
    else:
        name, results = _read_objects(raw, file.path, name)
    results.sort(key=lambda result: (_read_order(result.test_idx), _read_order(result.prompt_idx)))
    return ResultFile(file.path, name, results)


def _read_objects(raw: bytes, path: Path | str, name: str) -> tuple[str, list[PromptfooResult]]:
    """Read a document, or JSON lines of results; also return the name of the evaluation."""
    text = raw.strip()
    first = text.split(b"\n", 1)[0].rstrip()
    if first.endswith(b"}") and len(first) < len(text):
        return name, [decode_typed(_LINE, line, where, _REMEDY) for where, line in number_lines(raw, path)]
    document = decode_typed(_DOCUMENT, text, str(path), _REMEDY)
    has_content = any(part is not None for part in (document.results, document.table, document.head))
    if not has_content and b'"gradingResult"' in first:
        return name, [decode_typed(_LINE, text, str(path), _REMEDY)]
    return document.eval_id if isinstance(document.eval_id, str) else name, _list_results(document, path)


def _list_results(document: _PromptfooDocument, path: Path | str) -> list[PromptfooResult]:
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


def _read_table(table: _ResultTable) -> list[PromptfooResult]:
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


def _read_cell(cell: _TableOutput | None, prompt: Mapping[str, Any]) -> PromptfooResult:
    cell = cell or _TableOutput(error="no result", failure_reason=ERROR)
    reason = decode_object(cell.grading_result).get("reason")
    text = cell.text
    if isinstance(text, str) and isinstance(reason, str):
        text = text.removeprefix(f"{reason}\n---\n")  # older tables put the reason of a failure before the output
    is_error = cell.failure_reason == ERROR
    fields = {name: getattr(cell, name) for name in _Outcome.__struct_fields__}
    fields["prompt"] = {"raw": cell.prompt, "label": prompt.get("label", prompt.get("raw"))}
    fields["error"] = text if is_error and cell.error is None else cell.error
    response = None if is_error else {"output": text}
    return PromptfooResult(provider=prompt.get("provider"), response=response, success=cell.passed, **fields)


# -- CSV -----------------------------------------------------------------------------------------------------------


def list_blocks(header: Sequence[str]) -> list[int]:
    """Return where the columns of each provider and prompt begin: their names repeat, only the first differs."""
    return [i for i in range(len(header) - 2) if header[i + 1] == "Status" and header[i + 2] == "Score"]


def _read_csv(text: str, path: Path | str) -> list[PromptfooResult]:
    try:
        rows = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
    except csv.Error as error:
        raise FormatError(f"{path}: not a CSV table ({error}); {_REMEDY}") from None
    starts = list_blocks(rows[0]) if rows else []
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


def _read_csv_tests(names: Sequence[str], rows: list[list[str]]) -> list[tuple[dict[str, Any], PromptfooTest]]:
    """Return the variables and the description of each row, numbers where a column holds only numbers."""
    columns = [[row[place] for row in rows] for place in range(len(names))]
    values = [_read_csv_column(column) for column in columns]
    described = names[:1] == ["Description"]
    start = int(described)
    return [
        (
            {name: column[i] for name, column in zip(names[start:], values[start:], strict=True)},
            PromptfooTest(description=(columns[0][i] or None) if described else None),
        )
        for i in range(len(rows))
    ]


def _read_csv_cells(title: str, cells: Mapping[str, str]) -> PromptfooResult:
    """Return the result of one block.

    The status ERROR stands for a person's failing grade too; without one, the viewer writes the error as the output.
    """
    provider, _, label = title[1:].partition("] ") if title.startswith("[") else ("", "", title)
    reason, status, output = cells.get("Grader Reason", ""), cells["Status"], cells["Output"]
    is_error = status == "ERROR" and not (reason.startswith(MANUAL) and output)
    grading = {"reason": reason, "score": read_score(cells["Score"]), "comment": cells.get("Comment") or None}
    return PromptfooResult(
        provider=provider,
        prompt={"label": label},
        response=None if is_error else {"output": output},
        error=(output or "promptfoo's CSV does not say why") if is_error else None,
        success=status == "PASS",
        score=grading["score"],
        named_scores=decode_object(cells.get("Named Scores", "")),
        failure_reason=ERROR if is_error else 0,
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


def decode_object(raw: bytes | str | msgspec.Raw) -> dict[str, Any]:
    """Decode JSON that should be an object; empty if it is not."""
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _read_order(index: object) -> float:
    return index if type(index) is int else float("inf")
