"""Side-by-side tasks of Label Studio: a choice between two outputs."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

import aliquot
from aliquot.annotation.preference_result import Comparison
from aliquot.cli.main import run
from aliquot.errors import AliquotError, FormatError

CHOICES = {("p1", "ann"): "left", ("p1", "bob"): "right", ("p2", "ann"): "left", ("p2", "bob"): "left"}
NAMES = {"p1": ("base", "tuned"), "p2": ("tuned", "base")}


def pairwise(chosen: str) -> dict[str, Any]:
    return {"from_name": "pw", "to_name": "text1,text2", "type": "pairwise", "value": {"selected": chosen}}


def choices(chosen: str) -> dict[str, Any]:
    label = {"left": "answer1", "right": "answer2"}.get(chosen, chosen)
    return {"from_name": "best", "to_name": "prompt", "type": "choices", "value": {"choices": [label]}}


def task(prompt: str, result: Any, systems: tuple[str, str] | None = ("model_a", "model_b")) -> dict[str, Any]:
    data = {"prompt_id": prompt, "prompt": f"Do {prompt}", "answer1": f"{prompt} first", "answer2": f"{prompt} second"}
    data |= dict(zip(systems or (), NAMES[prompt], strict=False))
    annotations = [
        {"completed_by": {"email": who}, "was_cancelled": False, "result": [result(chosen)]}
        for (item, who), chosen in CHOICES.items()
        if item == prompt
    ]
    skipped = {"completed_by": 9, "was_cancelled": True, "result": [result("right")]}
    return {"id": len(prompt), "data": data, "annotations": [*annotations, skipped]}


@pytest.mark.parametrize("result", [pairwise, choices])
@pytest.mark.parametrize("fields", [("model_a", "model_b"), ("system1", "system2"), ("left_model", "right_model")])
def test_choices_become_preferences(
    result: Any, fields: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "export.json"
    path.write_text(json.dumps([task(prompt, result, fields) for prompt in NAMES]))
    data = aliquot.load(path)
    assert data.ids == ["p1", "p2"]
    assert data.scores["human"][:, data.systems.index("base")].tolist() == [0.5, 0.0]
    assert data.outputs is not None
    assert data.outputs["tuned"].to_list() == ["p1 second", "p2 first"]
    assert data.items["source"].to_list() == ["Do p1", "Do p2"]
    assert data.judgments is not None
    assert data.judgments.annotators == ["ann", "bob"]
    result_of = aliquot.compare(path)
    assert isinstance(result_of, Comparison)
    assert {row.system: row.win_rate for row in result_of.systems} == {"tuned": 0.75, "base": 0.25}
    assert run(["inspect", str(path)]) == 0
    command = capsys.readouterr().out.splitlines()[-1].removeprefix("next: ")
    assert shlex.split(command) == ["aliquot", "compare", str(path)]
    assert run(shlex.split(command)[1:]) == 0


@pytest.mark.parametrize("chosen", ["left", {"selected": "left"}, [{"selected": "left"}]])
def test_flat_records(chosen: Any, tmp_path: Path) -> None:
    own = {"annotation_id": 3, "annotator": 7, "lead_time": 3.5, "id": 11}
    data = {"prompt": "Do", "answer1": "x", "answer2": "y", "model_a": "A", "model_b": "B", "pw": chosen}
    path = tmp_path / "min.json"
    path.write_text(json.dumps([own | data]))
    assert aliquot.load(path).scores["human"].tolist() == [[1.0, 0.0]]


@pytest.mark.parametrize("read", [aliquot.load, aliquot.compare])
def test_the_fields_to_add_are_named(read: Any, tmp_path: Path) -> None:
    path = tmp_path / "export.json"
    path.write_text(json.dumps([task("p1", pairwise, None)]))
    with pytest.raises(FormatError, match="'answer2'; add the fields model_a and model_b") as caught:
        read(path)
    assert "key" not in str(caught.value)


@pytest.mark.parametrize("broken", [None, 3, "x", [], [3], {"value": 3}, [{"value": {"selected": 3}}], [{"value": []}]])
def test_broken_results_are_survived(broken: Any, tmp_path: Path) -> None:
    record = task("p1", pairwise)
    record["annotations"][0]["result"] = broken
    for change in ({}, {"annotations": broken}, {"data": broken}):
        (tmp_path / "export.json").write_text(json.dumps([record | change, task("p2", pairwise)]))
        try:
            systems = aliquot.load(tmp_path / "export.json").systems
        except AliquotError:
            continue
        assert sorted(systems) == ["base", "tuned"]
