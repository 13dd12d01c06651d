"""Samples of lm-evaluation-harness: files as version 0.4.13 writes them, with invented content."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aliquot
from aliquot.errors import AliquotWarning, FormatError

TIME = "2026-05-04T10-20-30.123456"
LATER = "2026-05-05T10-20-30"
SUMS = ("3 plus 4", "5 plus 6", "7 plus 8")
Row = dict[str, Any]


def generation(number: int, draws: Sequence[str], scores: Mapping[str, object], filter_name: str = "none") -> Row:
    question = SUMS[number]
    doc = {"question": f"What is {question}?", "answer": "7", "level": number, "cost": 5, "choices": ["7", "8"]}
    return {
        "doc_id": number,
        "doc": doc,
        "target": "7",
        "arguments": {"gen_args_0": {"arg_0": f"Q: {question}?\nA:", "arg_1": {"until": ["\n"]}}},
        "resps": [list(draws)],
        "filtered_resps": [draws[0]],
        "filter": filter_name,
        "metrics": list(scores),
        "doc_hash": hashlib.sha256(question.encode()).hexdigest(),
        **scores,
    }


def choice(number: int, likelihoods: Sequence[float], scores: Mapping[str, object]) -> Row:
    """A row of multiple choice; the later half of the likelihoods is without the question."""
    texts = [" one", " two", " three"]
    pairs = [("Q?" if i < len(texts) else "", texts[i % len(texts)]) for i in range(len(likelihoods))]
    answers = [[str(value), "False"] for value in likelihoods]
    return generation(number, [""], scores) | {
        "target": "1",
        "arguments": {f"gen_args_{i}": {"arg_0": a, "arg_1": b} for i, (a, b) in enumerate(pairs)},
        "resps": [[answer] for answer in answers],
        "filtered_resps": answers,
    }


def write_run(
    folder: Path,
    model: str,
    tasks: Mapping[str, Sequence[Row]],
    time: str = TIME,
    results: Mapping[str, Any] | None = None,
    **directions: Mapping[str, bool],
) -> Path:
    """Write what one run of one model leaves; `directions` are higher_is_better of each task."""
    place = folder / model.replace("/", "__")
    place.mkdir(parents=True, exist_ok=True)
    for task, rows in tasks.items():
        (place / f"samples_{task}_{time}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    summary = {"results": results or {}, "group_subtasks": {}, "configs": {}, "higher_is_better": directions}
    (place / f"results_{time}.json").write_text(json.dumps(summary | {"model_name": model}, indent=2))
    return place


def two_filters(correct: Sequence[float]) -> list[Row]:
    return [
        generation(i, [" 7", " 9"], {"match": value * (name == "digits"), "miss": 1 - value}, name)
        for name in ("strict", "digits")
        for i, value in enumerate(correct)
    ]


def write_two(folder: Path) -> Path:
    """Write two models with two draws and two filters, and one metric that counts errors."""
    for model, correct in (("acme/a", (1.0, 1.0, 0.0)), ("acme/b", (1.0, 0.0, 0.0))):
        write_run(folder, model, {"sums": two_filters(correct)}, sums={"match": True, "miss": False})
    return folder


def load(path: Path) -> aliquot.EvalSet:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AliquotWarning)
        return aliquot.load(path)


def test_draws_filters_and_directions(tmp_path: Path) -> None:
    with pytest.warns(AliquotWarning, match="up to 2 draws of a prompt; the tool scores a prompt once") as told:
        data = aliquot.load(write_two(tmp_path / "out"))
    assert len(told) == 1
    assert data.name == "out"
    assert data.systems == ("acme/a", "acme/b")
    assert data.ids[:3] == ["0#1", "0#2", "1#1"]
    assert data.outputs is not None
    assert data.outputs["acme/a"].to_list()[:2] == [" 7", " 9"]
    assert list(data.scores) == ["match,strict", "miss,strict", "match,digits", "miss,digits"]
    np.testing.assert_array_equal(data.scores["match,digits"][:3], [[1, 1], [np.nan, np.nan], [1, 0]])
    assert data.flipped == {"miss,strict", "miss,digits"}
    np.testing.assert_allclose(np.nanmean(data.scores["miss,digits"], axis=0), [-1 / 3, -2 / 3])
    assert data.items["source"][0] == "Q: 3 plus 4?\nA:"
    assert data.items["reference"][0] == "7"
    assert data.items["level"].to_list() == [0, 0, 1, 1, 2, 2]
    assert "choices" not in data.items.columns
    assert "cost" not in data.items.columns  # of judging an item; the document's is another
    assert data.items["doc_cost"][0] == 5


def test_one_file_of_samples_has_the_name_of_its_model_folder_or_file(tmp_path: Path) -> None:
    place = write_run(tmp_path, "acme/a", {"sums": [generation(0, [" 7"], {"match": 1.0})]})
    samples = place / f"samples_sums_{TIME}.jsonl"
    assert load(samples).systems == ("acme/a",)
    assert list(load(samples).scores) == ["match"]
    (place / f"results_{TIME}.json").unlink()
    assert load(samples).systems == ("acme__a",)
    assert load(samples.rename(tmp_path / "mine.jsonl")).systems == ("mine",)


def test_a_summary_alone_and_a_folder_without_samples_say_what_to_name(tmp_path: Path) -> None:
    place = write_run(tmp_path, "acme/a", {})
    for path in (place, place / f"results_{TIME}.json"):
        with pytest.raises(FormatError, match=r"name their folder"):
            aliquot.load(path)


def test_multiple_choice_is_the_text_of_the_likeliest_choice(tmp_path: Path) -> None:
    # Without the question "three" is likelier still: those requests are for acc_mutual_info.
    rows = [
        choice(0, [-3.5, -1.5, -2, -9, -9, -0.5], {"acc": 1.0, "acc_bytes": 0.0}),
        choice(1, [-1, -1, -2], {"acc": 0.0, "acc_bytes": 0.0}),
    ]
    data = load(write_run(tmp_path, "m", {"mc": rows}))
    assert data.outputs is not None
    assert data.outputs["m"].to_list() == ["two", "one"]
    assert data.items["reference"].to_list() == ["two", "two"]
    assert data.items["source"].to_list() == ["Q?", "Q?"]
    assert list(data.scores) == ["acc", "acc_bytes"]


def test_choices_that_are_inputs(tmp_path: Path) -> None:
    row = choice(0, [-2, -1], {"acc": 1.0})
    row["arguments"] = {
        f"gen_args_{i}": {"arg_0": f"The cup fell since {it}", "arg_1": " was wet."}
        for i, it in enumerate(["Ann", "Bob"])
    }
    data = load(write_run(tmp_path, "m", {"mc": [row]}))
    assert data.items["source"].to_list() == ["The cup fell since "]
    assert data.outputs is not None
    assert data.outputs["m"].to_list() == ["The cup fell since Bob was wet."]


def test_likelihoods_of_texts_are_no_outputs(tmp_path: Path) -> None:
    one = choice(0, [-3.5], {"perplexity": -3.5, "acc": 0})
    rolling = generation(0, ["-20.5"], {"word_perplexity": [-20.5, 5]})
    rolling["arguments"] = {"gen_args_0": {"arg_0": "a text"}}
    place = write_run(
        tmp_path,
        "m",
        {"one": [one], "roll": [rolling]},
        one={"perplexity": False, "acc": True},
        roll={"word_perplexity": False},
    )
    with pytest.warns(AliquotWarning) as told:
        data = aliquot.load(place)
    notes = " ".join(str(warning.message) for warning in told)
    assert "'perplexity' of a sample is a log-likelihood: higher is better" in notes
    assert "'word_perplexity' has no number for a sample" in notes
    assert data.ids == ["one/0", "roll/0"]
    assert data.outputs is None or data.outputs["m"].to_list() == [None, None]
    assert list(data.scores) == ["perplexity", "acc"]
    assert not data.flipped
    assert data.items["source"].to_list() == ["Q?", "a text"]


def test_models_that_number_documents_differently_are_joined_by_hash(tmp_path: Path) -> None:
    rows = [generation(i, [" 7"], {"match": float(i == 0)}) for i in range(3)]
    copy = rows[2] | {"doc_id": 3}
    write_run(tmp_path, "a", {"sums": [*rows, copy]})
    write_run(tmp_path, "b", {"sums": [row | {"doc_id": 2 - i} for i, row in enumerate(rows)]})
    with pytest.warns(AliquotWarning, match="number the documents of 'sums' differently: they are joined by doc_hash"):
        data = aliquot.load(tmp_path)
    hashes = [row["doc_hash"] for row in rows]
    assert data.ids == [*hashes, f"{hashes[2]}~2"]
    np.testing.assert_array_equal(data.scores["match"], [[1, 1], [0, 0], [0, 0], [0, np.nan]])


def test_equal_documents_and_parts_of_the_data_keep_their_numbers(tmp_path: Path) -> None:
    rows = [generation(0, [" 7"], {"match": 1.0}) | {"doc_id": i} for i in range(3)]
    write_run(tmp_path, "a", {"sums": rows})
    write_run(tmp_path, "b", {"sums": rows[1:2]})
    assert load(tmp_path).ids == [0, 1, 2]


def test_a_rerun_is_a_system_and_further_tasks_are_not(tmp_path: Path) -> None:
    row = generation(0, [" 7"], {"match": 1.0})
    write_run(tmp_path, "m", {"x": [row]})
    write_run(tmp_path, "m", {"y": [row]}, LATER)
    data = load(tmp_path)
    assert data.systems == ("m",)
    assert data.items["domain"].to_list() == ["x", "y"]
    write_run(tmp_path, "m", {"x": [row]}, LATER)
    with pytest.warns(AliquotWarning, match="'m' ran more than once"):
        assert aliquot.load(tmp_path).systems == (f"m ({TIME})", f"m ({LATER})")


def test_a_metric_of_both_directions_is_two_scores(tmp_path: Path) -> None:
    row = generation(0, [" 7"], {"score": 2.0})
    write_run(tmp_path, "m", {"x": [row], "y": [row]}, x={"score": False}, y={"score": True})
    data = load(tmp_path)
    assert list(data.scores) == ["score (x)", "score (y)"]
    assert data.flipped == {"score (x)"}


def test_values_of_all_kinds(tmp_path: Path) -> None:
    scores = {"a": True, "b": "True", "c": "0.5", "bypass": None, "chrf": ["7", " 7"], "d": float("nan"), "e": "?"}
    place = write_run(tmp_path, "m", {"x": [generation(0, [" 7"], scores)]})
    data = load(place)
    assert {name: values.item() for name, values in data.scores.items()} == {"a": 1.0, "b": 1.0, "c": 0.5}


def test_chat_prompts_are_read_as_turns(tmp_path: Path) -> None:
    turns = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    row = generation(0, [" 7"], {"match": 1.0})
    row["arguments"]["gen_args_0"]["arg_0"] = json.dumps(turns)
    assert load(write_run(tmp_path, "m", {"x": [row]})).items["source"][0] == "system: Be brief.\n\nuser: Hi"


def test_a_long_document_is_recognised(tmp_path: Path) -> None:
    row = generation(0, [" 7"], {"match": 1.0})
    row["doc"]["passage"] = "word " * 40_000
    assert load(write_run(tmp_path, "m", {"x": [row]}) / f"samples_x_{TIME}.jsonl").n_items == 1


def test_older_versions(tmp_path: Path) -> None:
    """One array, requests as lists, and neither filters nor metrics named."""
    row = generation(0, [" 7"], {"match": 1.0})
    for name in ("filter", "metrics"):
        del row[name]
    row["arguments"] = [["Q?", {"until": []}]]
    (tmp_path / "samples.jsonl").write_text(json.dumps([row, row], indent=2))
    data = load(tmp_path / "samples.jsonl")
    assert list(data.scores) == ["match,none", "match,filter 2"]
    assert data.items["source"].to_list() == ["Q?"]


def test_means_that_differ_from_the_results_are_told(tmp_path: Path) -> None:
    rows = [generation(i, [" 7"], {"match": 1.0}) for i in range(3)]
    place = write_run(tmp_path, "m", {"x": rows}, results={"x": {"match,none": 0.75, "match_stderr,none": "N/A"}})
    with pytest.warns(AliquotWarning, match=r"1 means differ .*'match' \(none\) of m, x: 1, not 0.75"):
        aliquot.load(place)


def test_faults_are_named_with_line_and_value(tmp_path: Path) -> None:
    row = generation(0, [" 7"], {"match": 1.0})
    samples = write_run(tmp_path, "m", {"x": [row, row]}) / f"samples_x_{TIME}.jsonl"
    with pytest.raises(FormatError, match=r"line 2: doc_id 0 occurs twice with the filter 'none'; keep one"):
        aliquot.load(samples)
    samples.write_text(json.dumps(row) + '\n{"doc_id": 1, "doc"')
    with pytest.raises(FormatError, match="line 2: not valid JSON"):
        aliquot.load(samples)
    samples.write_text(json.dumps(row) + '\n{"doc_id": null}')
    with pytest.raises(FormatError, match="line 2: a sample has a doc_id, a number or a text, not None"):
        aliquot.load(samples)
