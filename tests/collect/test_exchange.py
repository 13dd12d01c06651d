"""Campaigns for other tools: blind, complete, and what comes back is what was answered."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cli.conftest import caller

import aliquot
from aliquot.collect.exchange import KEY, TOOLS, write_for
from aliquot.collect.new_campaign import CampaignSettings, gather_inputs
from aliquot.core.columns import encode_column
from aliquot.errors import NameUnknownError, OptionError
from aliquot.io.formats.table_files import read_frame

NAMES = ("secret-alpha", "secret-beta", "secret-gamma")
PEOPLE = ("ann", "robert")
SPAN = {"start": 0, "end": 6, "severity": "minor"}


def some_data(items=8):
    rows = [(i, s) for i in range(items) for s in range(len(NAMES))]
    frame = pl.DataFrame(
        {
            "item": [f"hidden-item-{i}" for i, _ in rows],
            "document": [f"hidden-doc-{i // 4}" for i, _ in rows],
            "source": [f"source text {i}" for i, _ in rows],
            "system": [NAMES[s] for _, s in rows],
            "output": [f"output text {i} version {s}" for i, s in rows],
            "hidden_metric": [float(i + s) for i, s in rows],
        }
    )
    return aliquot.load(frame)


DATA = some_data()


def truth(item, system, annotator):
    """What an annotator answers, from what only the organiser knows."""
    number = int(item.rsplit("-", 1)[1])
    return float(20 + 5 * number + 10 * NAMES.index(system) + len(annotator))


def made(tool, protocol="esa", *, selection=None, data=DATA, per_output=2, annotators=PEOPLE, seed=3):
    settings = CampaignSettings(per_output=per_output, seed=seed)
    inputs = gather_inputs(data, selection, protocol, annotators, settings)
    return write_for(tool, inputs)


def of_key(files) -> dict[str, tuple[str, str]]:
    key = read_frame(files[KEY], KEY)
    return {row["cell"]: (row["item"], row["system"]) for row in key.iter_rows(named=True)}


# -- what each tool exports, made of the campaign that was written for it ------------------------------------------


def answered_pearmut(files):
    campaign = json.loads(files["pearmut/campaign.json"])
    key, records = of_key(files), []
    for user, documents in zip(campaign["info"]["users"], campaign["data"], strict=True):
        for at, document in enumerate(documents):
            annotation = [
                {
                    alias: {
                        "score": truth(*key[f"{item['item_id']}:{alias}"], user),
                        "textfield": None,
                        "error_spans": [{"start_i": 0, "end_i": 5, "severity": "minor", "category": None}],
                    }
                    for alias in item["tgt"]
                }
                for item in document
            ]
            records.append({"user_id": user, "item_i": at, "item": document, "annotation": annotation, "actions": []})
    return json.dumps({campaign["campaign_id"]: records})


def answered_appraise(files):
    key, rows = of_key(files), []
    for user, batch in zip(PEOPLE, json.loads(files["appraise/batches.json"]), strict=True):
        for item in batch["items"]:
            score = truth(*key[f"{item['itemID']}:{item['targetID']}"], user)
            spans = str([{"start_i": 0, "end_i": 6, "severity": "minor"}])
            rows.append(
                f"{user},{item['targetID']},{item['itemID']},{item['itemType']},eng,deu,{score:.0f},"
                f'{item["documentID"]},False,"{spans}",10.0,15.0\n'
            )
    return "".join(rows)


def answered_label_studio(files):
    key, tasks = of_key(files), json.loads(files["label-studio/tasks.json"])
    for task in tasks:
        task["annotations"] = [
            {
                "completed_by": user,
                "was_cancelled": False,
                "lead_time": 5.0,
                "result": [
                    {
                        "id": "s",
                        "from_name": "score",
                        "to_name": "output",
                        "type": "number",
                        "value": {"number": truth(*key[task["data"]["cell"]], user)},
                    },
                    {
                        "id": "e",
                        "from_name": "errors",
                        "to_name": "output",
                        "type": "labels",
                        "value": {"start": 0, "end": 6, "text": "output", "labels": ["minor"]},
                    },
                ],
            }
            for user in PEOPLE
        ]
    return json.dumps(tasks)


def answered_potato(files):
    key, lines = of_key(files), []
    for line in files["potato/data/items.jsonl"].decode().splitlines():
        item = json.loads(line)
        for user in PEOPLE:
            score = truth(*key[item["id"]], user)
            lines.append(
                json.dumps(
                    {
                        "instance_id": item["id"],
                        "user_id": user,
                        "labels": {"score": {"score": f"{score:.0f}"}},
                        "spans": {"errors": [{"start": 0, "end": 6, "label": "minor", "text": "output"}]},
                        "links": {},
                    }
                )
            )
    return "\n".join(lines) + "\n"


ANSWERED = {
    "pearmut": answered_pearmut,
    "appraise": answered_appraise,
    "label-studio": answered_label_studio,
    "potato": answered_potato,
}


@pytest.mark.parametrize("tool", TOOLS)
def test_what_comes_back_is_what_was_answered(tool, tmp_path):
    files = made(tool)
    (tmp_path / "key.csv").write_bytes(files[KEY])
    (tmp_path / "export").write_text(ANSWERED[tool](files))
    judged = aliquot.load_judgments(tmp_path / "export", key=tmp_path / "key.csv")
    got = {(r["item"], r["system"], r["annotator"]): r["value"] for r in judged.table.iter_rows(named=True)}
    assert got == {(i, s, a): truth(i, s, a) for i in DATA.ids for s in NAMES for a in PEOPLE}
    result = aliquot.estimate(DATA, "mean", judgments=judged)
    expected = {s: np.mean([truth(i, s, a) for i in DATA.ids for a in PEOPLE]) for s in NAMES}
    assert {row.system: row.estimate for row in result.systems} == pytest.approx(expected)


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("protocol", ["da", "esa", "mqm"])
def test_nothing_in_the_tools_folder_names_a_system_an_item_or_a_metric(tool, protocol):
    files = made(tool, protocol)
    for name, content in files.items():
        assert (b"secret" in content) == (name == KEY)
        assert (b"hidden" in content) == (name == KEY)
        assert name == KEY or name.startswith(f"{tool}/")  # the key stands beside, not inside, the tool's folder


@pytest.mark.parametrize("tool", TOOLS)
def test_the_same_seed_gives_the_same_files(tool):
    assert made(tool, seed=5) == made(tool, seed=5)
    assert made(tool, seed=5) != made(tool, seed=6)


@settings(max_examples=15, deadline=None)
@given(st.sampled_from(list(TOOLS)), st.integers(0, 50), st.integers(1, 3), st.integers(1, 7))
def test_every_output_is_in_the_key_as_often_as_it_is_judged(tool, seed, per_output, items):
    files = made(tool, data=some_data(items), per_output=per_output, annotators=("a", "b", "c"), seed=seed)
    key = of_key(files)
    lists = per_output if tool in ("pearmut", "appraise") else 1  # the others have one pool for all
    assert len(key) == items * len(NAMES) * lists
    assert all(list(key.values()).count(pair) == lists for pair in set(key.values()))


def test_pearmut_shows_outputs_side_by_side():
    campaign = json.loads(made("pearmut", "contrastive", per_output=1)["pearmut/campaign.json"])
    assert campaign["info"]["protocol"] == "cESA"
    items = [item for task in campaign["data"] for document in task for item in document]
    assert all(set(item["tgt"]) == {"outputA", "outputB", "outputC"} for item in items)


def test_pearmut_scales_and_categories():
    info = json.loads(made("pearmut", "likert")["pearmut/campaign.json"])["info"]
    assert [s["name"] for s in info["sliders"]] == ["adequacy", "fluency"]
    assert (info["sliders"][0]["min"], info["sliders"][0]["max"]) == (1, 5)
    info = json.loads(made("pearmut", "mqm")["pearmut/campaign.json"])["info"]
    assert info["protocol"] == "MQM"
    assert "minor" in info["mqm_severities"]
    assert "Accuracy" in info["mqm_categories"]


def test_appraise_batches_have_context_and_one_target_id_a_document():
    chosen = aliquot.select(DATA, "random", 3, seed=2)
    batches = json.loads(made("appraise", selection=chosen)["appraise/batches.json"])
    assert len(batches) == len(PEOPLE)
    for batch in batches:
        ids = [item["itemID"] for item in batch["items"]]
        assert len(set(ids)) == len(ids)
        for document in {item["documentID"] for item in batch["items"]}:
            assert len({item["targetID"] for item in batch["items"] if item["documentID"] == document}) == 1
    context = [i["sourceContextLeft"] + i["sourceContextRight"] for batch in batches for i in batch["items"]]
    assert any("source text" in text for text in context)
    manifest = json.loads(made("appraise", "mqm")["appraise/manifest.json"])
    assert (manifest["TASK_TYPE"], manifest["TASK_OPTIONS"]) == ("Document", "MQM")


def test_label_studio_config_is_xml_whose_names_are_in_the_tasks():
    files = made("label-studio", "mqm")
    config = ET.fromstring(files["label-studio/config.xml"])  # noqa: S314  (made here)
    fields = {tag.attrib["value"].removeprefix("$") for tag in config.iter("Text")}
    assert fields <= set(json.loads(files["label-studio/tasks.json"])[0]["data"])
    names = {tag.attrib["name"] for tag in config.iter("Text")}
    assert all(tag.attrib["toName"] in names for tag in config.iter() if "toName" in tag.attrib)
    labels = config.find("Labels")
    assert labels is not None
    assert {"minor", "major"} <= {tag.attrib["value"] for tag in labels}


def test_potato_config_names_its_files_and_fields():
    files = made("potato", "mqm")
    config = json.loads(files["potato/config.yaml"])
    assert all(f"potato/{name}" in files for name in config["data_files"])
    item = json.loads(files["potato/data/items.jsonl"].splitlines()[0])
    assert {field["key"] for field in config["instance_display"]["fields"]} <= set(item)
    assert config["annotation_schemes"][0]["annotation_type"] == "error_span"
    scheme = json.loads(made("potato", "likert")["potato/config.yaml"])["annotation_schemes"][0]
    assert (scheme["annotation_type"], scheme["size"], scheme["max_label"]) == ("likert", 5, "very good")


def test_suggested_spans_go_along():
    spans = [{s: [SPAN] for s in NAMES} for _ in DATA.ids]
    data = aliquot.EvalSet(
        DATA.items.with_columns(encode_column("spans", spans)), DATA.systems, DATA.scores, DATA.outputs
    )
    campaign = json.loads(made("pearmut", "esa-ai", data=data)["pearmut/campaign.json"])
    (span,) = campaign["data"][0][0][0]["error_spans"]["outputA"]
    assert (span["start_i"], span["end_i"]) == (0, 5)  # Pearmut's end is the last character
    tasks = json.loads(made("label-studio", "esa-ai", data=data)["label-studio/tasks.json"])
    (region,) = tasks[0]["predictions"][0]["result"]
    assert (region["value"]["start"], region["value"]["end"], region["value"]["text"]) == (0, 6, "output")


@pytest.mark.parametrize(
    ("tool", "protocol", "message"),
    [
        ("pearmut", "pairwise", "asks for more than scores and error spans"),
        ("potato", "postedit", "asks for more than scores and error spans"),
        ("label-studio", "contrastive", "shows outputs side by side"),
        ("appraise", "likert", "one score from 0 to 100"),
    ],
)
def test_protocols_that_a_tool_cannot_show(tool, protocol, message):
    with pytest.raises(OptionError, match=message):
        made(tool, protocol)


def test_an_unknown_tool():
    with pytest.raises(NameUnknownError, match="unknown annotation tool 'pearmot'; did you mean 'pearmut'"):
        made("pearmot")


# -- the command ---------------------------------------------------------------------------------------------------


def test_write_judge_estimate_on_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    call = caller(capsys)
    aliquot.save(DATA, "data.jsonl")
    aliquot.select(DATA, "random", 5, seed=1).save("selection.jsonl")
    said = call(
        "collect",
        "write",
        "data.jsonl",
        "-s",
        "selection.jsonl",
        "--for",
        "potato",
        "--annotators",
        "ann,robert",
        "--per-output",
        "2",
        "-o",
        "campaign",
    )
    assert said.code == 0, said.err
    assert "keep campaign/key.csv to yourself" in said.words
    found = {p.relative_to("campaign").as_posix(): p.read_bytes() for p in Path("campaign").rglob("*") if p.is_file()}
    Path("answers.jsonl").write_text(answered_potato(found))
    said = call(
        "estimate", "data.jsonl", "-s", "selection.jsonl", "-j", "answers.jsonl", "--key", "campaign/key.csv", "--json"
    )
    assert said.code == 0, said.err
    assert {row["system"] for row in said.json["systems"]} == set(NAMES)
    said = call("collect", "write", "data.jsonl", "--for", "potato", "-o", "campaign")
    assert said.code == 2
    assert "exists already; choose another folder" in said.err
