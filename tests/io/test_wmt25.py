"""WMT25's human evaluation: rounds, lists, spans and ids as its documentation describes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.io import exports

import aliquot
from aliquot.core.columns import decode_column
from aliquot.errors import FormatError, NameUnknownError, OptionError
from aliquot.io.formats import wmt25


def write(folder: Path, records: list[dict[str, Any]]) -> Path:
    path = folder / "humeval.jsonl"
    path.write_text(exports.lines(records))
    return path


@pytest.fixture
def czech(tmp_path: Path) -> aliquot.EvalSet:
    return aliquot.load(write(tmp_path, exports.wmt25()), pair="en-cs_CZ")


def test_items(czech: aliquot.EvalSet) -> None:
    assert czech.ids == [f"en-cs_CZ_#_news_#_paper.{i // 2}_#_{i % 2}" for i in range(4)]
    assert czech.items["document"].to_list() == ["paper.0", "paper.0", "paper.1", "paper.1"]
    assert czech.items["position"].to_list() == [0, 1, 0, 1]
    assert czech.items["domain"].unique().to_list() == ["news"]
    assert czech.items["reference"].to_list() == [f"reference {i}" for i in range(4)]
    assert czech.systems == ("A", "B")  # nobody judged the reference
    assert czech.outputs is not None
    assert czech.outputs["B"][3] == "text 3 of B"


def test_scores_of_people_and_metrics(czech: aliquot.EvalSet) -> None:
    human = czech.human_score()
    assert np.isnan(human[0]).all()  # not chosen for the evaluation
    assert human[1].tolist() == [85.0, 61.0]
    assert czech.metrics == ["chrF"]
    assert np.isnan(czech.scores["chrF"][:, 1]).all()


def test_judgments_and_spans(czech: aliquot.EvalSet) -> None:
    assert czech.judgments is not None
    table = czech.judgments.table
    assert table["annotator"].to_list() == ["ann", "bob", "ann"] * 3
    assert table["seconds"].to_list()[:2] == [30.5, None]
    ann, bob = decode_column(table["spans"])[:2]
    assert ann == [{"start": 0, "end": 4, "severity": "minor", "category": None, "text": "text"}]
    assert bob == [{"start": None, "end": None, "severity": "major", "category": "Omission", "text": None}]


def test_lines_of_a_document_are_numbered_and_a_judged_reference_is_a_system(tmp_path: Path) -> None:
    german = aliquot.load(write(tmp_path, exports.wmt25()), pair="cs-de")
    assert german.ids == [f"cs-de_DE_#_social_#_post_#_{i}" for i in range(3)]
    assert german.items["position"].to_list() == [0, 1, 2]
    assert german.systems == ("refA", "A")
    assert german.human_score().tolist() == [[95.0, 70.0], [95.0, 71.0], [95.0, 72.0]]
    assert german.judgments is not None
    assert german.judgments.annotators == ["cleo"]


def test_one_of_several_pairs_must_be_named(tmp_path: Path) -> None:
    path = write(tmp_path, exports.wmt25())
    with pytest.raises(OptionError, match=r"holds 2 language pairs .'cs-de_DE', 'en-cs_CZ'.; choose one with"):
        aliquot.load(path)
    with pytest.raises(NameUnknownError, match="unknown language pair 'en-de'"):
        aliquot.load(path, pair="en-de")
    assert aliquot.load(write(tmp_path, exports.wmt25()[:4])).n_items == 4


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"doc_id": "news"}, "line 2: the doc_id 'news' has no '_#_'"),
        ({"doc_id": 7}, "line 2, doc_id: expected a text, found 7"),
        ({"tgt_text": ["a"]}, "line 2, tgt_text: expected an object: system -> text"),
        ({"tgt_text": {"A": 3}}, "line 2, tgt_text of 'A': expected a text, found 3"),
        ({"scores": {"A": 3}}, "line 2, scores of 'A': expected an object with human and errors, found 3"),
        ({"scores": {"A": {"human": "good"}}}, "line 2, scores of 'A': human is 'good', which is not a number"),
        ({"scores": {"A": {"human": 1, "errors": {}}}}, "line 2, scores of 'A': expected a list of spans"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, change: dict[str, Any], match: str) -> None:
    records = exports.wmt25()[:4]
    records[1] |= change
    with pytest.raises(FormatError, match=match):
        aliquot.load(write(tmp_path, records))


def test_other_json_is_not_taken_for_it() -> None:
    assert wmt25.looks_like(exports.wmt25()[0])
    assert not wmt25.looks_like({"i": 0, "src": "", "tgt": {}, "doc": "", "scores": {}})


def test_an_annotator_without_an_answer_gave_no_judgment(tmp_path: Path) -> None:
    scores: dict[str, Any] = {}
    scores["A"] = [{"human": 80.0, "errors": [], "annotator": "ann"}, {"human": None, "errors": [], "annotator": "x"}]
    scores["B"] = [{"human1": 70.0, "human2": 75.0, "annotator": "ann"}]
    line = {"src_text": "s", "tgt_text": {"A": "a", "B": "b"}, "doc_id": "en-cs_CZ_#_news_#_d", "scores": scores}
    judged = aliquot.load(write(tmp_path, [line])).judgments
    assert judged is not None
    assert judged.table["value"].to_list() == [80.0, 70.0, 75.0]
