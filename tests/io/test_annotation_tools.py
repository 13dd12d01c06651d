"""Readers of what annotation tools export: the same judgments come out of every tool's file."""

from __future__ import annotations

import json

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.io import exports

import aliquot
from aliquot.core.columns import decode_column
from aliquot.errors import AliquotError, FormatError, OptionError
from aliquot.io.format_detection import detect_format
from aliquot.io.formats import appraise
from aliquot.io.formats.answers import parse_number, read_key, read_span
from aliquot.io.formats.appraise import parse_literal

FILES = exports.files()
CONTROLS = 1  # of Appraise


def written(tmp_path, name, content):
    path = tmp_path / name
    path.write_text(content)
    return path


@pytest.fixture
def key(tmp_path):
    return written(tmp_path, "key.csv", exports.key())


@pytest.mark.parametrize("name", FILES)
def test_the_same_judgments_come_out_of_every_file(name, tmp_path, key):
    file, content, needs_key = FILES[name]
    judged = aliquot.load_judgments(written(tmp_path, file, content), key=key if needs_key else None)
    table = judged.usable().table
    got = {(r["item"], r["system"], r["annotator"]): r["value"] for r in table.iter_rows(named=True)}
    assert got == {cell: exports.value(*cell) for cell in exports.CELLS}
    assert judged.criteria == []
    spans = dict(zip(table["system"], decode_column(table["spans"]), strict=True))
    assert spans["A"] == []
    (one,) = spans["B"]
    assert (one["start"], one["end"], one["severity"].lower()) == (0, 6, "minor")
    assert one["text"] == (None if name.startswith("appraise") else "output")  # its CSV holds no texts


@pytest.mark.parametrize("name", FILES)
def test_the_format_is_recognised(name):
    kinds = {"pearmut": "pearmut", "appraise": "appraise", "label": "label-studio"}
    first = name.split()[0]
    assert detect_format(FILES[name][1].encode()) == kinds.get(first, first)


@pytest.mark.parametrize("name", [name for name, (_, _, needs_key) in FILES.items() if needs_key])
def test_without_a_key_the_error_asks_for_it(name, tmp_path):
    path = written(tmp_path, FILES[name][0], FILES[name][1])
    with pytest.raises(FormatError, match=rf"{path.name}.*names no system; give the key .*`key=key.csv`"):
        aliquot.load_judgments(path)


def test_estimate_reads_an_export_with_its_key(tmp_path, key):
    data = aliquot.load(
        pl.DataFrame(
            {
                "item": list(exports.ITEMS) * 2,
                "system": ["A"] * 3 + ["B"] * 3,
                "metric": "m",
                "value": [1.0, 2.0, 3.5, 2.0, 1.5, 3.0],
            }
        )
    )
    path = written(tmp_path, "o.jsonl", exports.lines(exports.potato()))
    result = aliquot.estimate(data, "mean", judgments=aliquot.load_judgments(path, key=key))
    means = {row.system: row.estimate for row in result.systems}
    assert means == {"A": pytest.approx(76.5), "B": pytest.approx(51.5)}


def test_seconds_are_read_and_counted_once(tmp_path, key):
    for name in ("label studio", "label studio min", "potato 1", "appraise"):
        file, content, needs_key = FILES[name]
        table = aliquot.load_judgments(written(tmp_path, file, content), key=key if needs_key else None).usable().table
        assert table["seconds"].sum() == pytest.approx(12 * len(exports.CELLS)), name
    table = aliquot.load_judgments(written(tmp_path, "p.jsonl", FILES["pearmut"][1])).table
    assert table["seconds"].sum() == pytest.approx(12 * len(exports.PEOPLE))  # a document's time, shared out


def test_a_plain_table_of_opaque_ids_uses_the_same_key(tmp_path, key):
    path = written(tmp_path, "t.csv", "cell,annotator,score\n" + f"{exports.cell(1, 'B')},ann,7\n")
    assert aliquot.load_judgments(path, key=key).table.select("item", "system", "value").rows() == [(1, "B", 7.0)]


def test_texts_of_the_export_become_items_and_outputs(tmp_path):
    data = aliquot.load(written(tmp_path, "p.jsonl", FILES["pearmut"][1]))
    assert data.items["source"].to_list() == ["source 0", "source 1", "source 2"]
    assert data.outputs is not None
    assert data.outputs["A"][2] == exports.text(2, "A")


# -- Pearmut -------------------------------------------------------------------------------------------------------


def test_pearmut_the_last_submission_counts_and_a_reset_takes_away(tmp_path):
    first, second = exports.pearmut()
    again = json.loads(json.dumps(first))
    again["annotation"][0]["A"]["score"] = 99
    reset = {"user_id": "bob", "item_i": None, "annotation": "__RESET__"}
    path = written(tmp_path, "p.jsonl", exports.lines([first, second, again, reset]))
    table = aliquot.load_judgments(path).table
    assert table["annotator"].unique().to_list() == ["ann"]
    assert table.filter((pl.col("item") == 0) & (pl.col("system") == "A"))["value"].to_list() == [99.0]


def test_pearmut_without_scores_gives_errors_with_weights(tmp_path):
    path = written(tmp_path, "p.jsonl", exports.lines(exports.pearmut(scores=False)))
    judged = aliquot.load_judgments(path)
    assert judged.criteria == ["mqm"]
    assert judged.cell_means().sort("item", "system")["value"].to_list() == [0.0, -1.0] * 3


def test_pearmut_tutorials_and_checks_stay_out_of_the_scores(tmp_path):
    records = exports.pearmut()
    records[0] |= {"item_i": "random_0"}
    judged = aliquot.load_judgments(written(tmp_path, "p.jsonl", exports.lines(records)))
    assert set(judged.usable().annotators) == {"bob"}
    assert judged.table.filter(pl.col("annotator") == "ann")["control"].unique().to_list() == ["true"]


def test_pearmut_several_sliders_are_criteria(tmp_path):
    records = exports.pearmut()[:1]
    for by_model in records[0]["annotation"]:
        for one in by_model.values():
            one["score"] = {"Fluency": 3, "Adequacy": 80}
    judged = aliquot.load_judgments(written(tmp_path, "p.jsonl", exports.lines(records)))
    assert judged.criteria == ["Fluency", "Adequacy"]


# -- Appraise ------------------------------------------------------------------------------------------------------


def test_appraise_damaged_copies_are_controls_that_clean_uses(tmp_path):
    judged = aliquot.load_judgments(written(tmp_path, "a.csv", exports.appraise()))
    assert len(judged) - len(judged.usable()) == CONTROLS
    cleaned = aliquot.clean(judged, steps="controls")
    found = cleaned.annotators.filter(pl.col("annotator") == "ann")
    assert found["control_passed"].to_list() == [1.0]  # 3 is below the 65 of the undamaged output


def test_appraise_json_lines_and_sources(tmp_path):
    record = {
        "annotator": "ann",
        "source_id": "x",
        "source_text": "Quelle",
        "target_id": "A",
        "target_text": "source",
        "score": 70,
        "mqm_annotations": '[{"start_i": "missing", "end_i": "missing", "severity": "major"}]',
        "item_id": 4,
        "item_type": "TGT",
        "document_id": "d",
        "start_time": 1.0,
        "end_time": 4.0,
        "is_complete_document": False,
        "task_type": "Document",
    }
    data = aliquot.load(written(tmp_path, "a.jsonl", exports.lines([record])))
    assert data.items.row(0, named=True) == {"id": 4, "source": "Quelle", "document": "d"}
    assert data.judgments is not None
    ((one,),) = decode_column(data.judgments.table["spans"])
    assert (one["start"], one["category"], one["severity"]) == (None, "Omission", "major")


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "[1]*10**9",
        "(" * 100 + ")" * 100,
        "x",
        "(" * 50000,
        "-" * 50000 + "1",
        "",
        "'\\ud800'",
    ],
)
def test_literals_run_nothing(text):
    with pytest.raises(FormatError, match="row 1"):
        parse_literal(text, "row 1")


def test_a_long_literal_is_refused():
    with pytest.raises(FormatError, match="at most"):
        parse_literal("[" + "1," * 600_000 + "]", "row 1")


LITERALS = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=100)
@given(LITERALS)
def test_python_and_json_literals_mean_the_same(value):
    assert parse_literal(repr(value), "row 1") == value
    assert parse_literal(json.dumps(value), "row 1") == value


def test_a_row_that_is_not_of_appraise(tmp_path):
    path = written(tmp_path, "a.csv", exports.appraise() + "ann,A,2,TGT,eng\n")
    with pytest.raises(FormatError, match=r"a\.csv line 14: 5 fields; rows of Appraise have at least 7"):
        aliquot.load_judgments(path)
    path = written(tmp_path, "a.csv", exports.appraise().replace(",TGT,eng,deu,40,", ",TGT,eng,deu,many,", 1))
    with pytest.raises(FormatError, match=r"a\.csv line 2: the score is 'many'"):
        aliquot.load_judgments(path)


# -- others --------------------------------------------------------------------------------------------------------


def test_label_studio_categories_of_regions_and_cancelled_annotations(tmp_path, key):
    tasks = exports.label_studio()
    for task in tasks:
        for annotation in task["annotations"]:
            results = [r for r in annotation["result"] if r["type"] == "labels"]
            kind = {"start": 0, "end": 6, "taxonomy": [["Accuracy", "Mistranslation"]]}
            more = [{"id": "r", "from_name": "category", "type": "taxonomy", "value": kind}] if results else []
            annotation["result"] = results + more
    tasks[0]["annotations"][0]["was_cancelled"] = True
    judged = aliquot.load_judgments(written(tmp_path, "l.json", json.dumps(tasks)), key=key)
    assert len(judged) == len(exports.CELLS) - 1
    errors = judged.table.filter(pl.col("system") == "B")
    assert set(errors["category"]) == {"Accuracy/Mistranslation"}
    assert set(errors["value"]) == {-1.0}


def test_potato_scales_by_ticked_labels_and_words(tmp_path, key):
    record = {"instance_id": exports.cell(0, "A"), "user_id": "ann", "spans": {}}
    rows = [
        record | {"labels": {"quality": {"4": True}}},
        record | {"user_id": "bob", "labels": {"quality": {"5": "true"}}},
    ]
    judged = aliquot.load_judgments(written(tmp_path, "o.jsonl", exports.lines(rows)), key=key)
    assert judged.table["value"].to_list() == [4.0, 5.0]
    words = [record | {"labels": {"quality": {"good": True}}}]
    judged = aliquot.load_judgments(written(tmp_path, "o.jsonl", exports.lines(words)), key=key)
    assert judged.table["label"].to_list() == ["good"]


def test_potato_error_spans_are_mqm(tmp_path, key):
    errors = [{"start": 0, "end": 3, "text": "out", "type": "Accuracy", "subtype": "Addition", "severity": "Major"}]
    record = {
        "instance_id": exports.cell(0, "A"),
        "user_id": "ann",
        "spans": {},
        "labels": {"quality": {"errors": errors, "score": 95}},
    }
    table = aliquot.load_judgments(written(tmp_path, "o.jsonl", exports.lines([record])), key=key).table
    assert table.select("value", "category", "severity", "span").rows() == [(-5.0, "Accuracy/Addition", "Major", "out")]


def test_prodigy_accepted_rejected_ignored(tmp_path):
    base = {"text": "out", "meta": {"item": 1, "system": "A"}, "_task_hash": 3, "_session_id": "ann"}
    rows = [
        base | {"answer": "accept"},
        base | {"answer": "reject", "_session_id": "bob"},
        base | {"answer": "ignore", "_session_id": "cy"},
    ]
    table = aliquot.load_judgments(written(tmp_path, "d.jsonl", exports.lines(rows))).table
    assert table["value"].to_list() == [1.0, 0.0, None]


def test_argilla_drafts_are_left_out(tmp_path, key):
    records = exports.argilla(kind="old")
    records[0]["responses"][0]["status"] = "draft"
    judged = aliquot.load_judgments(written(tmp_path, "g.json", json.dumps(records)), key=key)
    assert len(judged) == len(exports.CELLS) - 1


# -- the key -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("cell,item\nx,1\n", "needs the columns cell, item and system; there is no 'system'"),
        ("cell,item,system\nx,1,A\nx,2,A\n", "the id 'x' occurs twice"),
        ("cell,item,system\nx,1,A\n", "the id 'c00x' is not in the key .*key.csv; give the key that was written"),
        ("cell,item,system\n,1,A\n", "row 1: the column 'cell' is empty"),
    ],
)
def test_wrong_keys(content, message, tmp_path):
    path = written(tmp_path, "o.jsonl", exports.lines(exports.potato()))
    with pytest.raises(FormatError, match=message):
        aliquot.load_judgments(path, key=written(tmp_path, "key.csv", content))


def test_a_key_for_data_that_name_their_systems_is_refused(tmp_path, key):
    aliquot.save(aliquot.synthetic(items=4, systems=2, seed=1), tmp_path / "d.jsonl")
    with pytest.raises(OptionError, match="names its items and systems"):
        aliquot.load_judgments(tmp_path / "d.jsonl", key=key)


def test_names_of_items_keep_their_kind(tmp_path):
    assert read_key(written(tmp_path, "k.csv", "cell,item,system\nx,007,A\n")).cells["x"] == ("007", "A")
    assert read_key(written(tmp_path, "k.csv", "cell,item,system\nx,7,A\n")).cells["x"] == (7, "A")


# -- values and spans ----------------------------------------------------------------------------------------------


@given(st.floats(allow_nan=True, allow_infinity=True) | st.text(max_size=6) | st.booleans() | st.none())
def test_numbers_are_finite_or_none(given_value):
    found = parse_number(given_value)
    assert found is None or abs(found) < float("inf")


@given(st.text(min_size=1, max_size=12), st.data())
def test_spans_quote_what_they_cover(text, data):
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start, len(text) - 1))
    inside = read_span({"start_i": start, "end_i": end, "severity": "minor"}, "row 1", text, inclusive=True)
    assert inside["text"] == text[start : end + 1] == text[inside["start"] : inside["end"]]


def test_unknown_severities_are_named(tmp_path):
    records = exports.pearmut(scores=False)
    records[0]["annotation"][1]["B"]["error_spans"][0] = {"start_i": 0, "end_i": 1, "severity": "grave"}
    with pytest.raises(
        AliquotError, match=r"line 1, segment 2, model 'B': the severity 'grave' of a span is not known"
    ):
        aliquot.load_judgments(written(tmp_path, "p.jsonl", exports.lines(records)))


@pytest.mark.parametrize(("name", "value"), [("item", True), ("system", None), ("annotator", 1.5)])
def test_an_answer_of_appraise_needs_names(name, value):
    fields = {"item": 1, "system": "A", "annotator": "x", "item_type": "TGT", "score": 50}
    assert appraise._build_answer(fields, "line 1").item == 1
    with pytest.raises(FormatError, match=f"line 1: the field '{name}' is {value!r}; expected a name"):
        appraise._build_answer(fields | {name: value}, "line 1")
