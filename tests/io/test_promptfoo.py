"""promptfoo's results: the same data set from JSON, JSON lines and CSV, whatever happened to the samples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.io.promptfoo_results import (
    ERROR,
    FAILED,
    UNGRADED,
    component,
    document,
    human,
    lines,
    old_table,
    result,
    results,
    table,
)

import aliquot
from aliquot.errors import AliquotWarning, FormatError
from aliquot.io.formats import logs

nan = np.nan
QUIET = pytest.mark.filterwarnings("ignore::aliquot.errors.AliquotWarning")


def load(folder: Path, content: str, name: str = "out.json") -> aliquot.EvalSet:
    (folder / name).write_text(content)
    return aliquot.load(folder / name)


@QUIET
def test_json_lines_and_csv_of_one_run_are_the_same_data(tmp_path: Path) -> None:
    whole = load(tmp_path, document(results()))
    assert load(tmp_path, lines(results()), "out.jsonl") == whole
    assert load(tmp_path, json.dumps(results())) == whole
    short = load(tmp_path, table(results()), "out.csv")
    assert short.items.equals(whole.items)
    assert short.systems == whole.systems
    assert short.outputs is not None
    assert whole.outputs is not None
    assert short.outputs.equals(whole.outputs)
    for name, scores in whole.scores.items():
        np.testing.assert_allclose(short.scores[name], scores, atol=0.005)


def test_providers_and_prompts_are_systems_and_tests_are_items(tmp_path: Path) -> None:
    with pytest.warns(AliquotWarning) as notes:
        data = load(tmp_path, document(results()))
    assert data.systems == ("alpha (prompt 1)", "alpha (careful)", "beta (prompt 1)", "beta (careful)")
    assert data.ids == [0, 1, 2]
    assert data.items.rows() == [(0, "a: 1\nb: 2", 1, 2), (1, "a: 30\nb: 4", 30, 4), (2, "a: 5\nb: 60", 5, 60)]
    np.testing.assert_array_equal(data.scores["pass"], [[0, 1, 1, 1], [1, 1, nan, 1], [1, 1, 1, 1]])
    np.testing.assert_array_equal(data.scores["score"][:2], [[0.25, 0.75, 0.75, 0.75], [0.75, 0.75, nan, 0.75]])
    np.testing.assert_array_equal(data.scores["brevity"][:, 3], [0.5, 0.5, nan])
    np.testing.assert_array_equal(data.usage["cost"][1], [0.25, 0.25, 0, 0.25])
    np.testing.assert_array_equal(data.usage["seconds"], np.full((3, 4), 1.5))
    np.testing.assert_array_equal(data.usage["tokens"], np.full((3, 4), 20))
    assert data.outputs is not None
    assert data.outputs["alpha (careful)"].to_list()[2] == '{"answer":"drei, é","parts":[1,2]}'
    assert data.outputs["alpha (prompt 1)"].to_list()[0] == '- The sum is\n"3", alpha.'
    assert data.outputs["beta (prompt 1)"].to_list()[1] is None
    said = [str(note.message) for note in notes]
    assert any("1 of 12 samples failed" in text and "first: content filter" in text for text in said)
    assert any("1 outputs had no assertions" in text for text in said)


def test_one_prompt_is_the_source_and_leaves_the_providers_names(tmp_path: Path) -> None:
    cells = [result(test, column, "ab"[column]) for test in range(2) for column in range(2)]
    for name, content in (("out.json", document(cells)), ("out.csv", table(cells))):
        data = load(tmp_path, content, name)
        assert data.systems == ("a", "b")
        assert data.items["source"].to_list() == ["What is 1 plus 2?", "What is 30 plus 4?"]


@pytest.mark.parametrize("name", ["out.json", "out.csv"])
def test_repeats_are_draws_of_one_prompt_in_the_order_of_tests(tmp_path: Path, name: str) -> None:
    sums = [{"a": 1, "b": 2}] * 3 + [{"a": 30, "b": 4}] * 3
    cells = [result(t, c, "ab"[c], inputs=sums[t], score=t / 8 + c / 2) for c in range(2) for t in (5, 3, 0, 1, 4, 2)]
    for one in cells:
        one["prompt"]["raw"] = "What is {a} plus {b}?".format(**one["vars"])
    cells = [one for one in cells if (one["testIdx"], one["promptIdx"]) != (0, 1)]
    data = load(tmp_path, document(cells) if name == "out.json" else table(cells), name)
    assert data.ids == ["0#1", "0#2", "0#3", "3#1", "3#2", "3#3"]
    assert data.items["document"].to_list() == ["0", "0", "0", "3", "3", "3"]
    scores = [[0, nan], [0.125, 0.625], [0.25, 0.75], [0.375, 0.875], [0.5, 1], [0.625, 1.125]]
    np.testing.assert_allclose(data.scores["score"], scores, atol=0.006)  # the CSV file has two decimals


def test_a_reason_in_error_is_no_failure_if_there_is_an_output(tmp_path: Path) -> None:
    old = {key: value for key, value in result(0, 0, **FAILED).items() if key != "failureReason"}
    data = load(tmp_path, document([old, result(1, 0)]))
    np.testing.assert_array_equal(data.scores["pass"], [[0], [1]])
    empty = {**old, "response": {"error": "timeout"}, "error": "timeout"}
    with pytest.warns(AliquotWarning, match="1 of 2 samples failed.*timeout"):
        data = load(tmp_path, document([empty, result(1, 0)]))
    np.testing.assert_array_equal(data.scores["pass"], [[nan], [1]])


def test_no_assertions_are_told(tmp_path: Path) -> None:
    cells = [result(0, 0, **UNGRADED), result(1, 0, **{**UNGRADED, "gradingResult": None})]
    with pytest.warns(AliquotWarning, match="2 outputs had no assertions"):
        data = load(tmp_path, document(cells))
    np.testing.assert_array_equal(data.scores["pass"], [[1], [1]])


# -- what people said ----------------------------------------------------------------------------------------------


def test_a_persons_rating_is_a_judgment_and_the_graders_scores_stay_theirs(tmp_path: Path) -> None:
    data = load(tmp_path, document([result(0, 0, **human(False, "rude")), result(1, 0)]))
    np.testing.assert_array_equal(data.scores["pass"], [[1], [1]])
    np.testing.assert_array_equal(data.scores["score"], [[0.75], [0.75]])
    assert data.human == "human"
    np.testing.assert_array_equal(data.scores["human"], [[0], [nan]])
    assert data.judgments is not None
    assert data.judgments.table.select("item", "value", "comment").rows() == [(0, 0.0, "rude")]


def test_in_csv_a_persons_rating_hides_the_graders(tmp_path: Path) -> None:
    cells = [result(0, 0, **human(False, "rude")), result(1, 0)]
    data = load(tmp_path, table(cells), "out.csv")  # its status is ERROR there, as no assertion failed
    np.testing.assert_array_equal(data.scores["pass"], [[nan], [1]])
    np.testing.assert_array_equal(data.scores["brevity"], [[0.5], [0.5]])
    np.testing.assert_array_equal(data.scores["human"], [[0], [nan]])
    assert data.outputs is not None
    assert data.outputs.row(0) == ('- The sum is\n"3", alpha.',)


def test_the_viewers_csv_has_the_error_in_place_of_the_output(tmp_path: Path) -> None:
    cells = [result(0, 0, **{**ERROR, "response": {"output": "content filter"}}), result(1, 0)]
    with pytest.warns(AliquotWarning, match="1 of 2 samples failed.*content filter"):
        data = load(tmp_path, table(cells), "out.csv")
    assert data.outputs is not None
    assert data.outputs["alpha"].to_list()[0] is None


def test_a_score_that_a_person_typed_is_a_rating(tmp_path: Path) -> None:
    typed = {"pass": True, "score": 0.3, "reason": "Manual result (overrides all other grading results)"}
    typed |= {"componentResults": [component("contains", 1)]}
    data = load(tmp_path, document([result(0, 0, gradingResult=typed, score=0.3), result(1, 0)]))
    np.testing.assert_array_equal(data.scores["human"], [[0.3], [nan]])
    np.testing.assert_array_equal(data.scores["score"], [[1], [0.75]])


def rated(components: list[dict[str, Any]], **test: Any) -> dict[str, Any]:
    """A result that passed by hand, with these assertions."""
    grading = {"pass": True, "score": 1, "componentResults": [*components, component("human", 1)]}
    return result(0, 0, gradingResult=grading, score=1, testCase={"vars": {}, **test})


@pytest.mark.parametrize(
    ("one", "passed", "score"),
    [
        (rated([component("contains", 0), component("x", 1, weight=3)]), 0, 0.75),
        (rated([component("contains", 0), component("x", 1, weight=3)], threshold=0.7), 1, 0.75),
        (rated([{**component("set", 0.5), "componentResults": [1, 2]}, *map(component, "ab", (1, 0))]), 1, 0.5),
        (rated([component("contains", 1)], assertScoringFunction="file://x.js"), nan, nan),
        (rated([]), nan, nan),
    ],
)  # fmt: skip
def test_grades_under_a_rating_are_computed_again(
    tmp_path: Path, one: dict[str, Any], passed: float, score: float
) -> None:
    data = load(tmp_path, document([one, result(1, 0)]))
    np.testing.assert_array_equal(data.scores["pass"], [[passed], [1]])
    np.testing.assert_allclose(data.scores["score"], [[score], [0.75]])


# -- layouts and several files -------------------------------------------------------------------------------------


def test_tables_of_older_versions(tmp_path: Path) -> None:
    cells = [result(0, 0, **FAILED), result(1, 0)]
    data = load(tmp_path, document([], version=2, table=json.loads(old_table(cells))))
    assert data.systems == ("alpha",)
    assert data.outputs is not None
    assert data.outputs["alpha"].to_list()[0] == '- The sum is\n"3", alpha.'
    np.testing.assert_array_equal(data.scores["pass"], [[0], [1]])
    alone = load(tmp_path, old_table(cells))
    assert alone.scores["score"].tolist() == [[0.25], [0.75]]
    assert alone.items["a"].to_list() == [1, 30]
    version2 = [
        {k: v for k, v in one.items() if k not in ("testIdx", "promptIdx", "id", "failureReason")} for one in cells
    ]
    both = load(tmp_path, document(version2, version=2, table=json.loads(old_table(cells))))
    np.testing.assert_array_equal(both.scores["pass"], [[0], [1]])


@QUIET
def test_a_folder_reads_each_result_once(tmp_path: Path) -> None:
    whole = load(tmp_path, document(results()))
    load(tmp_path, lines(results()), "other.jsonl")
    load(tmp_path, table(results()), "out.csv")
    folder = aliquot.load(tmp_path)
    assert folder.systems == whole.systems
    assert folder.ids == whole.ids
    np.testing.assert_array_equal(folder.scores["pass"], whole.scores["pass"])


def test_files_join_on_the_variables(tmp_path: Path) -> None:
    load(tmp_path, document([result(t, 0, "a") for t in (0, 1)]), "1.json")
    load(tmp_path, document([result(t, 0, "b") for t in (0, 1)], "eval-2"), "2.json")
    third = [result(0, 0, "b", inputs={"a": 7, "b": 8}, id="new")]
    load(tmp_path, document(third, "eval-3"), "3.json")
    data = aliquot.load(tmp_path)
    assert data.systems == ("a", "b")
    assert data.items["a"].to_list() == [1, 30, 7]
    np.testing.assert_array_equal(data.scores["pass"], [[1, 1], [1, 1], [nan, 1]])


def test_two_runs_of_one_system_are_two_systems(tmp_path: Path) -> None:
    load(tmp_path, document([result(0, 0)]), "1.json")
    load(tmp_path, document([result(0, 0, id="again")], "eval-2"), "2.json")
    with pytest.warns(AliquotWarning, match="ran more than once"):
        assert aliquot.load(tmp_path).systems == ("alpha (eval-1)", "alpha (eval-2)")


@pytest.mark.parametrize("columns", [1, 2])
def test_tests_without_variables_stay_apart(tmp_path: Path, columns: int) -> None:
    cells = [result(test, column, prompt=column, inputs={}) for test in range(3) for column in range(columns)]
    assert load(tmp_path, document(cells)).ids == [0, 1, 2]
    one_text = [{**result(test, 0, inputs={}), "prompt": {"raw": "Write a poem", "label": "p"}} for test in range(3)]
    assert load(tmp_path, document(one_text)).ids == ["0#1", "0#2", "0#3"]


def test_equal_providers_are_numbered(tmp_path: Path) -> None:
    assert load(tmp_path, document([result(0, 0), result(0, 1)])).systems == ("alpha", "alpha 2")


def test_names_that_are_ours_are_kept_apart(tmp_path: Path) -> None:
    one = result(0, 0, inputs={"id": "x", "source": "Hallo", "reference": "Hello"}, namedScores={"human": 1, "pass": 0})
    data = load(tmp_path, document([one]))
    assert data.items.columns == ["id", "source", "id_", "source_", "reference"]
    assert set(data.scores) == {"pass", "score", "metric_human", "metric_pass"}
    assert data.human is None


def test_detection() -> None:
    assert logs.detect_tool({"evalId": "x", "results": None}) == "promptfoo"
    assert logs.detect_tool({"results": {"version": 3, "stats": {}}, "config": {}}) == "promptfoo"
    assert logs.detect_tool(result(0, 0)) == "promptfoo"
    assert logs.detect_tool({"results": {"task": {"acc": 1}}, "config": {}}) != "promptfoo"
    assert logs.detect_table(["a", "[p] x", "Status", "Score", "Grader Reason", "Comment"]) == "promptfoo"
    assert logs.detect_table(["a", "Status", "Score"]) != "promptfoo"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("out.json", document(results())[:-400], "not valid JSON"),
        ("out.jsonl", lines(results())[:-400], "out.jsonl line 12: not valid JSON"),
        ("out.json", document([]), "no results|no samples"),
        ("out.json", document(["x"]), r"not as the tool writes it.*results\[0\]"),  # type: ignore[list-item]
        ("out.csv", table(results())[:-4], "row 3: 29 cells, but the header has 30"),
    ],
)
def test_damage_is_said_with_its_place(tmp_path: Path, name: str, content: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        load(tmp_path, content, name)
