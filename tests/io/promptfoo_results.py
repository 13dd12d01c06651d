"""Results as promptfoo writes them, made here from its documentation; the reader's tests and the fuzzer use them."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

PROMPTS = {"What is {{a}} plus {{b}}?": "What is {a} plus {b}?", "careful": 'Be careful.\n{a}, plus "{b}"?'}
SUMS = [(1, 2), (30, 4), (5, 60)]


def result(
    test: int,
    column: int,
    provider: str = "alpha",
    prompt: int = 0,
    inputs: dict[str, Any] | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """One result: passes with score 1 and brevity 0.5 unless `fields` say otherwise."""
    a, b = SUMS[test % len(SUMS)]
    inputs = {"a": a, "b": b} if inputs is None else inputs
    label, template = list(PROMPTS.items())[prompt]
    components = [component("contains", 1), component("javascript", 0.5, metric="brevity")]
    return {
        "cost": 0.25,
        "gradingResult": {
            "pass": True,
            "score": 0.75,
            "reason": "All assertions passed",
            "componentResults": components,
        },
        "id": f"{provider}-{test}-{column}",
        "latencyMs": 1500,
        "namedScores": {"brevity": 0.5},
        "prompt": {"raw": template.format(a=a, b=b), "label": label, "config": {}},
        "promptId": f"hash{prompt}",
        "promptIdx": column,
        "provider": {"id": "file://provider.js", "label": provider},
        "response": {"output": f'- The sum is\n"{a + b}", {provider}.', "tokenUsage": {"total": 20}},
        "score": 0.75,
        "success": True,
        "testCase": {"vars": inputs, "assert": [], "options": {}},
        "testIdx": test,
        "tokenUsage": {"total": 20, "prompt": 12, "completion": 8},
        "vars": inputs,
        "failureReason": 0,
        **fields,
    }


def component(kind: str, score: float, *, passed: bool | None = None, **assertion: Any) -> dict[str, Any]:
    passed = score > 0 if passed is None else passed
    return {"pass": passed, "score": score, "reason": "", "assertion": {"type": kind, **assertion}}


FAILED: dict[str, Any] = {  # an assertion that did not hold: promptfoo puts its reason into `error` too
    "success": False,
    "score": 0.25,
    "failureReason": 1,
    "error": "Expected output to contain 9",
    "gradingResult": {
        "pass": False,
        "score": 0.25,
        "reason": "Expected output to contain 9",
        "componentResults": [component("contains", 0), component("javascript", 0.5, metric="brevity")],
    },
}
ERROR: dict[str, Any] = {  # a provider that did not answer
    "success": False,
    "score": 0,
    "failureReason": 2,
    "error": "content filter\n    at line 3",
    "response": {"error": "content filter\n    at line 3"},
    "gradingResult": None,
    "namedScores": {},
    "cost": 0,
}
OBJECT: dict[str, Any] = {"response": {"output": {"answer": "drei, é", "parts": [1, 2]}}}
UNGRADED: dict[str, Any] = {
    "gradingResult": {"pass": True, "score": 1, "reason": "No assertions"},
    "score": 1,
    "namedScores": {},
}


def human(good: bool, comment: str = "") -> dict[str, Any]:
    """What the viewer writes when a person rates the output of `result`: the grades of its assertions are replaced."""
    rating = {**component("human", float(good)), "comment": comment, "reason": "Manual result (overrides all other)"}
    graded = [component("contains", 1), component("javascript", 0.5, metric="brevity")]
    total = {"pass": good, "score": float(good), "reason": rating["reason"], "comment": comment}
    return {"success": good, "score": float(good), "gradingResult": {**total, "componentResults": [*graded, rating]}}


def results() -> list[dict[str, Any]]:
    """Three tests, two providers, two prompts, in no order, with all that may happen to a sample."""
    special = {(0, 0): FAILED, (1, 2): ERROR, (2, 1): OBJECT, (2, 3): UNGRADED}
    cells = [(test, column) for column in (3, 1, 0, 2) for test in (2, 0, 1)]
    return [result(t, c, ("alpha", "beta")[c // 2], c % 2, **special.get((t, c), {})) for t, c in cells]


def document(results: list[dict[str, Any]], eval_id: str = "eval-1", **summary: Any) -> str:
    whole = {"version": 3, "timestamp": "2026-01-01", "prompts": [], "results": results, "stats": {}, **summary}
    return json.dumps({"evalId": eval_id, "results": whole, "config": {}, "shareableUrl": None}, indent=2)


def lines(results: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in results)


def table(results: list[dict[str, Any]], description: str | None = None) -> str:
    """The CSV file of results: a row for each test, a block of columns for each provider and prompt."""
    cells = {(one["testIdx"], one["promptIdx"]): one for one in results}
    tests, columns = (sorted({place[at] for place in cells}) for at in (0, 1))
    names = list(results[0]["vars"])
    header = [*(["Description"] if description else []), *names]
    for column in columns:
        first = next(one for (_, place), one in cells.items() if place == column)
        header += [f"[{first['provider']['label']}] {first['prompt']['label']}", "Status", "Score", "Named Scores"]
        header += ["Metric: brevity", "Grader Reason", "Comment"]
    rows = []
    for test in tests:
        row = [*([description] if description else []), *(str(cells[test, 0]["vars"][name]) for name in names)]
        for column in columns:
            row += _block(cells[test, column]) if (test, column) in cells else [""] * 7
        rows.append(row)
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([header, *rows])
    return out.getvalue()


def _block(one: dict[str, Any]) -> list[str]:
    output, grading = one["response"].get("output", ""), one["gradingResult"] or {}
    text = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False, separators=(",", ":"))
    text = f"'{text}" if text.startswith("-") else text  # spreadsheets would take it for a formula
    status = "PASS" if one["success"] else "FAIL" if one["failureReason"] == 1 else "ERROR"
    named = one["namedScores"]
    brevity = f"{named['brevity']:.2f}" if named else ""
    score = [f"{one['score']:.2f}", json.dumps(named) if named else "", brevity]
    return [text, status, *score, grading.get("reason", ""), grading.get("comment", "")]


def old_table(results: list[dict[str, Any]]) -> str:
    """The table of versions 2 and 3: the reason of a failure stands before the output."""
    body = [
        {
            "outputs": [
                {
                    "text": (f"{one['error']}\n---\n" if one.get("error") else "")
                    + str(one["response"].get("output", "")),
                    "pass": one["success"],
                    "prompt": one["prompt"]["raw"],
                    **{name: one[name] for name in ("score", "namedScores", "cost", "latencyMs", "gradingResult")},
                }
            ],
            "vars": [str(value) for value in one["vars"].values()],
        }
        for one in results
    ]
    head = {"prompts": [{"provider": "alpha", "label": "p", "raw": "p"}], "vars": ["a", "b"]}
    return json.dumps({"head": head, "body": body})
