"""Formats of others, written out by hand with what they mean: WMT folders, MQM, tables, SummEval."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from aliquot import AliquotError, AliquotWarning, EvalSet, load, load_all, save, synthetic
from aliquot.errors import FormatError, OutputError
from aliquot.io.format_detection import detect_format
from aliquot.io.formats.mqm import MQMWeights
from aliquot.io.formats.table_files import parse_csv

NAN = float("nan")


def same(array: Any, expected: Any) -> bool:
    return np.array_equal(array, np.array(expected, dtype=float), equal_nan=True)


def write_files(root: Path, files: Mapping[str, str]) -> Path:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    return root


# -- mt-metrics-eval -----------------------------------------------------------------------------------------------


def segment_scores(**systems: str) -> str:
    return "".join(f"{system}\t{score}\n" for system, scores in systems.items() for score in scores.split())


WMT = {
    "sources/en-de.txt": "eins\nzwei  \n\u2028drei\n",
    "sources/en-cs.txt": "jeden\n",
    "references/en-de.refB.txt": "B1\nB2\nB3\n",
    "references/en-de.refA.txt": "A1\nA2\nA3\n",
    "documents/en-de.docs": "news\td1\nnews\td1\nsocial\td2\n",
    "system-outputs/en-de/Online.A.txt": "o1\n\no3\n",
    "system-outputs/en-de/GPT-4.txt": "g1\ng2\ng3\n",
    "system-outputs/en-cs/GPT-4.txt": "c1\n",
    "human-scores/en-de.mqm.seg.score": segment_scores(**{"GPT-4": "0 -1.5 None", "Online.A": "None None -25"}),
    "human-scores/en-de.da-sqm.seg.score": segment_scores(**{"GPT-4": "90 80 70"}),
    "human-scores/en-de.mqm.sys.score": "GPT-4\t-1\n",
    "metric-scores/en-de/COMET-refA.seg.score": segment_scores(**{"GPT-4": "0.9 0.8 0.7", "Online.A": "0.1 0.2 0.3"}),
    "metric-scores/en-de/COMET-refB.seg.score": segment_scores(**{"GPT-4": "0.5 0.5 0.5", "Online.A": "0.4 0.4 0.4"}),
    "metric-scores/en-de/more/Kiwi-src.seg.score": segment_scores(**{"Online.A": "1 2 3", "refA": "9 9 9"}),
    "metric-scores/en-de/TER-refA.seg.score": segment_scores(**{"GPT-4": "0.2 0.4 None", "Online.A": "0.6 0.8 0"}),
}


@pytest.fixture
def wmt(tmp_path):
    return write_files(tmp_path / "wmt99", WMT)


@pytest.fixture
def en_de(wmt):
    with pytest.warns(AliquotWarning, match="'TER' count errors .*flipped"):
        return load(wmt, pair="en-de")


def test_wmt_texts_and_documents(en_de):
    assert en_de.name == "wmt99/en-de"
    assert en_de.systems == ("GPT-4", "Online.A")
    assert en_de.items["source"].to_list() == ["eins", "zwei  ", "\u2028drei"]
    assert en_de.items["reference"].to_list() == ["A1", "A2", "A3"]
    assert en_de.items["reference_refB"].to_list() == ["B1", "B2", "B3"]
    assert en_de.items["document"].to_list() == ["d1", "d1", "d2"]
    assert en_de.items["domain"].to_list() == ["news", "news", "social"]
    assert en_de.outputs["Online.A"].to_list() == ["o1", "", "o3"]


def test_wmt_scores(en_de):
    assert set(en_de.scores) == {"mqm", "da-sqm", "COMET", "COMET-refB", "Kiwi", "TER"}
    assert en_de.human == "mqm"
    assert same(en_de.scores["mqm"], [[0, NAN], [-1.5, NAN], [NAN, -25]])
    assert same(en_de.scores["da-sqm"], [[90, NAN], [80, NAN], [70, NAN]])
    assert same(en_de.scores["COMET"], [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3]])
    assert same(en_de.scores["COMET-refB"], [[0.5, 0.4]] * 3)
    assert same(en_de.scores["Kiwi"], [[NAN, 1], [NAN, 2], [NAN, 3]])


def test_wmt_error_rates_are_flipped_once(en_de, wmt):
    assert en_de.flipped == {"TER"}
    assert same(en_de.scores["TER"], [[-0.2, -0.6], [-0.4, -0.8], [NAN, -0.0]])
    negated = segment_scores(**{"GPT-4": "-0.2 -0.4 None", "Online.A": "-0.6 -0.8 0"})
    write_files(wmt, {"metric-scores/en-de/TER-refA.seg.score": negated})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = load(wmt, pair="en-de")
    assert again.flipped == frozenset()
    assert same(again.scores["TER"], en_de.scores["TER"])


def test_wmt_an_error_rate_without_values(wmt):
    write_files(wmt, {"metric-scores/en-de/TER-refA.seg.score": segment_scores(**{"GPT-4": "None None None"})})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(load(wmt, pair="en-de").scores["TER"]).all()


@pytest.mark.filterwarnings("ignore::aliquot.AliquotWarning")
def test_wmt_all_pairs(wmt):
    sets = load_all(wmt)
    assert list(sets) == ["en-cs", "en-de"]
    assert (sets["en-cs"].n_items, sets["en-cs"].n_systems, sets["en-cs"].human) == (1, 1, None)
    with pytest.raises(FormatError, match="mt-metrics-eval"):
        load_all(wmt / "sources" / "en-de.txt")


def test_wmt_names_may_hold_spaces(wmt):
    """SYSTEM and SCORE are separated by a tab; 'GPT 4<tab>0.5' is not a score of 4 for 'GPT'."""
    for name, content in WMT.items():
        if "GPT-4" in name + content:
            (wmt / name).unlink()
            write_files(wmt, {name.replace("GPT-4", "GPT 4"): content.replace("GPT-4", "GPT 4")})
    with pytest.warns(AliquotWarning):
        data = load(wmt, pair="en-de")
    assert data.systems == ("GPT 4", "Online.A")
    assert same(data.scores["mqm"], [[0, NAN], [-1.5, NAN], [NAN, -25]])


def test_wmt_written_and_read_back(tmp_path):
    campaign = synthetic(items=20, systems=3, annotators=0, seed=3)
    save(campaign, tmp_path / "wmt", pair="xx-yy")
    again = load(tmp_path / "wmt")
    assert again.name == "wmt/xx-yy"
    assert again.human == "human"
    assert again == campaign


@pytest.mark.parametrize(
    "rename",
    [
        {"systems": {"sys1": "org/model"}},
        {"systems": {"sys1": "../../../evil"}},
        {"systems": {"sys1": "GPT 4"}},
        {"systems": {"sys1": "a\tb"}},
        {"scores": {"metricA": "a/b"}},
        {"scores": {"metricA": "../../../evil"}},
    ],
)
def test_wmt_names_that_are_no_file_names_are_refused_or_kept(tmp_path, rename):
    """Never written outside the folder, and never lost on reading."""
    campaign = synthetic(items=3, systems=2, annotators=0, seed=3).rename(**rename)
    folder = tmp_path / "inside" / "wmt"
    try:
        save(campaign, folder, pair="xx-yy")
    except AliquotError:
        assert not folder.exists()
        return
    assert all(path.is_relative_to(folder) for path in tmp_path.rglob("*") if path.is_file())
    assert load(folder) == campaign


def test_wmt_metrics_keep_their_names_without_references(tmp_path):
    campaign = synthetic(items=3, systems=2, annotators=0, seed=3)
    bare = EvalSet(campaign.items.drop("reference"), campaign.systems, campaign.scores, campaign.outputs)
    save(bare, tmp_path / "wmt", pair="xx-yy")
    assert set(load(tmp_path / "wmt").scores) == set(bare.scores)


# -- MQM -----------------------------------------------------------------------------------------------------------

MQM_HEADER = "system\tdoc\tdoc_id\tseg_id\trater\tsource\ttarget\tcategory\tseverity\n"


def error(system: str, segment: int, rater: str, category: str, severity: str, target: str = "the text") -> str:
    return f"{system}\tdoc{segment}\t1\t{segment}\t{rater}\tder Text\t{target}\t{category}\t{severity}\n"


MQM = MQM_HEADER + "".join(
    [
        error("A", 1, "r1", "Accuracy/Mistranslation", "Major", "the <v>bad</v> text"),
        error("A", 1, "r1", "Fluency/Punctuation", "Minor", "the bad text<v>.</v>"),
        error("A", 1, "r2", "No-error", "No-error", "the bad text"),
        error("A", 2, "r1", "Non-translation!", "Major", "<v>blah</v>"),
        error("B", 1, "r1", "Fluency/Grammar", "minor", 'he said "<v>go'),
        error("B", 1, "r1", "Style/Awkward", "Neutral", 'he said "go'),
        error("B", 1, "r2", "Fluency/Punctuation", "Minor", 'he said "go'),
        error("B", 1, "r2", "Source error", "Major", 'he said "go'),
        error("B", 2, "r1", "Accuracy/Omission", "Critical"),
        error("B", 2, "r1", "Accuracy/Omission", "HOTW-test"),
    ]
)


@pytest.fixture
def mqm_path(tmp_path):
    return write_files(tmp_path, {"mqm.tsv": MQM}) / "mqm.tsv"


def test_mqm_scores_by_hand(mqm_path):
    data = load(mqm_path)
    assert (data.ids, data.systems, data.human) == ([1, 2], ("A", "B"), "human")
    # item 1: A (-5.1 + 0) / 2, B (-1 + -0.1) / 2; item 2: one annotator each, 25 points; controls are left out
    assert data.scores["human"] == pytest.approx(np.array([[-2.55, -0.55], [-25.0, -25.0]]))
    assert data.items["source"].to_list() == ["der Text", "der Text"]
    assert data.items["document"].to_list() == ["doc1", "doc2"]
    assert data.outputs is not None
    assert data.outputs.rows() == [("the bad text", 'he said "go'), ("blah", "the text")]


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ("major=10,minor=2", [[-5.05, -1.05], [-25, -25]]),
        ("minor_punctuation=1", [[-3.0, -1.0], [-25, -25]]),
        ("non_translation=7,critical=9", [[-2.55, -0.55], [-7, -9]]),
    ],
)
def test_mqm_weights_by_hand(mqm_path, weights, expected):
    data = load(mqm_path, mqm_weights=MQMWeights.parse(weights))
    assert data.scores["human"] == pytest.approx(np.array(expected))


def test_mqm_no_error_costs_nothing_whatever_neutral_errors_cost(mqm_path):
    """A: r1 -5.1, r2 found nothing."""
    data = load(mqm_path, mqm_weights=MQMWeights(neutral=4.0))
    assert data.scores["human"][0, 0] == pytest.approx(-2.55)


def test_mqm_errors_are_kept_as_judgments(mqm_path):
    judgments = load(mqm_path).judgments
    assert judgments is not None
    rows = judgments.table.select(
        "item", "system", "annotator", "value", "category", "severity", "span", "start", "end"
    )
    assert rows.height == 9
    assert rows.row(0) == (1, "A", "r1", -5.0, "Accuracy/Mistranslation", "Major", "bad", 4, 7)
    assert rows.row(1) == (1, "A", "r1", -0.1, "Fluency/Punctuation", "Minor", ".", 12, 13)
    assert rows.row(2) == (1, "A", "r2", 0.0, "No-error", "No-error", None, None, None)
    answers = judgments.answers()
    assert answers.filter(pl.col("system") == "A", pl.col("annotator") == "r1")["value"].to_list() == pytest.approx(
        [-5.1, -25]
    )


def test_mqm_marks_in_the_source(tmp_path):
    row = error("A", 1, "r1", "Accuracy/Omission", "Major").replace("der Text", "der <v>Text</v>")
    data = load(write_files(tmp_path, {"m.tsv": MQM_HEADER + row}) / "m.tsv")
    assert data.judgments is not None
    assert data.judgments.table.select("span", "start", "end", "span_in").row(0) == ("Text", 4, 8, "source")
    assert data.items["source"].to_list() == ["der Text"]


def test_mqm_segments_numbered_within_documents(tmp_path):
    rows = [f"A\t{doc}\t1\t1\tr1\ts\tt\tNo-error\tNo-error\n" for doc in ("x", "y")]
    assert load(write_files(tmp_path, {"m.tsv": MQM_HEADER + "".join(rows)}) / "m.tsv").ids == ["x:1", "y:1"]


def test_mqm_rows_without_segment_and_annotator(tmp_path):
    """The shape of newstest2020 zh-en's source errors: header of 9, rows of 8 (7 and a tab), two columns lacking."""
    rows = [
        'A.0\td.1\t16\t他说\tHe <v>said</v>"\tSource error\tMinor\t\n',
        "B.7\td.1\t16\t他说\tHe <v>says</v>\tSource error\tMajor\t\n",
        "A.0\td.2\t16\t走\tGo<v> </v>\tAccuracy/Omission\tMajor\t\n",
    ]
    with pytest.warns(AliquotWarning, match=r"every row has 8 fields .* without the columns 'seg_id', 'rater'"):
        data = load(write_files(tmp_path, {"m.tsv": MQM_HEADER + "".join(rows)}) / "m.tsv")
    assert data.ids == ["d.1:16", "d.2:16"]
    assert same(data.scores["human"], [[0, 0], [-5, NAN]])
    assert data.items["source"].to_list() == ["他说", "走"]
    assert data.outputs is not None
    assert data.outputs.row(0) == ('He said"', "He says")
    assert data.judgments is not None
    assert data.judgments.table["annotator"].null_count() == 3


def test_mqm_side_by_side_header_one_longer(tmp_path):
    """Eleven names over ten fields: the lacking column is the last one, or one before the texts."""
    names = ["system", "doc", "docSegId", "globalSegId", "rater", "source", "target", "category", "severity", "meta"]
    row = ["A", "d1", "1", "7", "rater1", "那", "<v>That</v>", "Style/Awkward", "Minor", "{}"]
    for extra, at in (("comment", 10), ("side", 0), ("pair", 5)):
        header = "\t".join([*names[:at], extra, *names[at:]])
        path = write_files(tmp_path, {f"{extra}.tsv": f"{header}\n" + "\t".join(row) + "\n"}) / f"{extra}.tsv"
        with pytest.warns(
            AliquotWarning, match=f"10 fields where the header has 11; read without the column '{extra}'"
        ):
            data = load(path)
        assert (data.ids, data.systems, data.scores["human"].tolist()) == ([7], ("A",), [[-1.0]])
        assert data.judgments is not None
        assert data.judgments.table.select("annotator", "span").row(0) == ("rater1", "That")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["A\td\t1\t1\tr\ts\tt\tStyle\tMinor\n", "A\td\t1\t1\tr\ts\tt\tStyle\n"], "line 3: 8 fields .*correct the row"),
        (["A\td\t1\t1\tr\ts\t<v>t</v>\tStyle\n"], "line 2: 8 fields .*so in every row; the missing columns"),
        (["A\td\t1\t1\tr\ts\t<v>t</v>\tStyle\tMinor\tx\n"], "line 2: 10 fields .* has 9; correct the row"),
    ],
)
def test_mqm_rows_that_cannot_be_aligned(tmp_path, rows, message):
    with pytest.raises(FormatError, match=message):
        load(write_files(tmp_path, {"m.tsv": MQM_HEADER + "".join(rows)}) / "m.tsv")


def test_mqm_with_csv_quoting(tmp_path):
    """The shape of newstest2020 en-de's source errors: every field with a quote is enclosed, quotes doubled."""
    rows = [
        'A.1\td\t1\t1\trater1\t"He said ""go""."\t"Er <v>sagte</v> ""geh""."\tSource error/-\tMinor\n',
        'B.1\td\t1\t1\trater1\t"He said ""go""."\tEr <v>sagt</v>: geh.\tAccuracy/Mistranslation\tMajor\n',
    ]
    data = load(write_files(tmp_path, {"m.tsv": MQM_HEADER + "".join(rows)}) / "m.tsv")
    assert data.items["source"].to_list() == ['He said "go".']
    assert data.outputs is not None
    assert data.outputs.row(0) == ('Er sagte "geh".', "Er sagt: geh.")
    assert data.scores["human"].tolist() == [[0, -5]]
    assert data.judgments is not None
    assert data.judgments.table["start"].to_list() == [3, 3]
    raw = [rows[0], rows[1].replace("Er <v>", 'Er "<v>')]  # one quote that is not enclosed: quotes are text
    assert load(write_files(tmp_path, {"r.tsv": MQM_HEADER + "".join(raw)}) / "r.tsv").items["source"].to_list() == [
        '"He said ""go""."'
    ]


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_mqm_survives_conversion(mqm_path, tmp_path, ending):
    data = load(mqm_path)
    save(data, tmp_path / f"x.{ending}")
    assert load(tmp_path / f"x.{ending}") == data


# -- tables --------------------------------------------------------------------------------------------------------


def table(tmp_path: Path, content: str, name: str = "t.csv", **options: Any) -> EvalSet:
    return load(write_files(tmp_path, {name: content}) / name, **options)


LONG_ROWS = "7,A,BLEU,1\n7,B,BLEU,2\n7,A,COMET,0.5\n3,B,COMET,\n"


@pytest.mark.parametrize(
    "header",
    [
        "item,system,metric,value",
        "segment_id,model,metric_name,score",
        "seg_id,sys,scorer,rating",
        "ID,System,Metric,Value",
        "Segment ID,system name,measure,points",
    ],
)
def test_long_scores(tmp_path, header):
    data = table(tmp_path, f"{header}\n{LONG_ROWS}")
    assert (data.ids, data.systems, data.name) == ([7, 3], ("A", "B"), "t")
    assert same(data.scores["BLEU"], [[1, 2], [NAN, NAN]])
    assert same(data.scores["COMET"], [[0.5, NAN], [NAN, NAN]])


def test_long_scores_with_own_column_names(tmp_path):
    content = "nr,who,what,item,result\n7,A,BLEU,x,1\n7,B,BLEU,y,2\n"
    data = table(tmp_path, content, columns={"item": "nr", "system": "who", "metric": "what", "value": "result"})
    assert data.ids == [7]
    assert same(data.scores["BLEU"], [[1, 2]])


def test_a_long_score_without_name(tmp_path):
    assert set(table(tmp_path, "item,system,rating\n1,A,5\n").scores) == {"rating"}
    assert set(table(tmp_path, "item,system,rating\n1,A,5\n", score_name="adequacy").scores) == {"adequacy"}


def test_long_scores_with_texts_and_documents(tmp_path):
    content = (
        "item\tsystem\tvalue\tsrc\tmt\tdoc\tgenre\tcost\n"
        "1\tA\t0.5\tHallo\tHello\td1\tnews\t2.5\n1\tB\t0.6\tHallo\tHi\td1\tnews\t2.5\n"
    )
    data = table(tmp_path, content, "t.tsv")
    assert data.items.row(0, named=True) == {
        "id": 1,
        "source": "Hallo",
        "document": "d1",
        "domain": "news",
        "cost": 2.5,
    }
    assert data.outputs is not None
    assert data.outputs.rows() == [("Hello", "Hi")]


def test_a_system_may_lack_the_first_item(tmp_path):
    data = table(tmp_path, "item,system,value,output\n1,A,1,a\n2,B,2,b\n")
    assert data.outputs is not None
    assert data.outputs.rows() == [("a", None), (None, "b")]


def test_a_text_need_not_be_on_every_row(tmp_path):
    data = table(tmp_path, "item,system,metric,value,output\n1,A,m,1,hello\n1,A,k,2,\n")
    assert data.outputs is not None
    assert data.outputs["A"].to_list() == ["hello"]


def test_a_text_is_not_a_missing_number(tmp_path):
    """A model may well answer 'None' or 'NA'; only in a column of numbers does that mean nothing."""
    data = table(tmp_path, "item,system,value,output\n1,A,NA,None\n1,B,2,N/A\n")
    assert data.outputs is not None
    assert data.outputs.rows() == [("None", "N/A")]
    assert same(data.scores["value"], [[NAN, 2]])


def test_quotes_inside_a_text_are_part_of_it(tmp_path):
    data = table(tmp_path, 'item\tsystem\tvalue\toutput\n1\tA\t1\ta 5" pipe\n1\tB\t2\the said "go"\n', "t.tsv")
    assert data.outputs is not None
    assert data.outputs.rows() == [('a 5" pipe', 'he said "go"')]


def test_ids_stay_what_they_are(tmp_path):
    assert table(tmp_path, "item,system,value\n007,A,1\n08,A,1\n").ids == ["007", "08"]
    assert table(tmp_path, "item,system,value\n7,A,1\nx,A,1\n").ids == ["7", "x"]


def test_wide_systems(tmp_path):
    data = table(tmp_path, "item,src,A,B\n1,x,0.5,0.6\n2,y,,0.8\n", wide="systems", score_name="BLEU")
    assert data.systems == ("A", "B")
    assert same(data.scores["BLEU"], [[0.5, 0.6], [NAN, 0.8]])
    assert data.items["source"].to_list() == ["x", "y"]


@pytest.mark.parametrize("wide", ["metrics", None])
def test_wide_metrics(tmp_path, wide):
    content = "item,system,BLEU,COMET,remark\n1,A,30,0.5,fine\n1,B,,0.6,bad\n"
    with pytest.warns(AliquotWarning, match="'remark'"):
        data = table(tmp_path, content, wide=wide)
    assert same(data.scores["BLEU"], [[30, NAN]])
    assert same(data.scores["COMET"], [[0.5, 0.6]])
    assert "remark" not in data.scores


@pytest.mark.parametrize("name", ["score", "rating", "value"])
def test_wide_metrics_of_any_name(tmp_path, name):
    """Asked for one column a metric, a column called `score` is a metric too."""
    data = table(tmp_path, f"item,system,{name},BLEU\n1,A,1,30\n", wide="metrics")
    assert {key: values.item() for key, values in data.scores.items()} == {name: 1.0, "BLEU": 30.0}


@pytest.mark.parametrize("name", ["reference", "mt"])
def test_wide_systems_of_any_name(tmp_path, name):
    """Asked for one column a system, a column of numbers called `reference` is a system too."""
    data = table(tmp_path, f"item,{name},A\n1,0.5,0.6\n", wide="systems")
    assert set(data.systems) == {name, "A"}


def test_a_column_that_is_left_out_is_named(tmp_path):
    with pytest.warns(AliquotWarning, match="'BLEU'"):
        table(tmp_path, "item,system,score,BLEU\n1,A,1,30\n")


def test_judgments(tmp_path):
    content = (
        "segment,system,rater,dimension,score,seconds,tired\n"
        "1,A,ann,fluency,4,10.5,true\n1,A,bob,fluency,2,,false\n1,A,ann,adequacy,5,3,\n1,B,bob,fluency,,1,true\n"
    )
    data = table(tmp_path, content)
    assert data.human == "human"
    assert data.scores["human"] == pytest.approx(np.array([[11 / 3, NAN]]), nan_ok=True)
    assert same(data.scores["human_fluency"], [[3, NAN]])
    assert same(data.scores["human_adequacy"], [[5, NAN]])
    assert data.judgments is not None
    columns = data.judgments.table
    assert columns["annotator"].to_list() == ["ann", "bob", "ann", "bob"]
    assert columns["seconds"].to_list() == [10.5, None, 3.0, 1.0]
    assert columns["tired"].to_list() == [True, False, None, True]


def test_annotators_keep_their_names(tmp_path):
    data = table(tmp_path, "item,system,worker,value\n1,A,007,1\n1,A,8,2\n")
    assert data.judgments is not None
    assert data.judgments.annotators == ["007", "8"]


def test_parquet_tables(tmp_path):
    frame = pl.DataFrame({"item": [1, 1], "system": ["A", "B"], "metric": ["m", "m"], "value": [1, None]})
    frame.write_parquet(tmp_path / "t.parquet")
    assert same(load(tmp_path / "t.parquet").scores["m"], [[1, NAN]])


@pytest.mark.parametrize("ending", ["csv", "tsv", "csv.gz"])
@pytest.mark.parametrize("what", ["scores", "judgments"])
def test_tables_written_and_read_back(tmp_path, ending, what):
    campaign = synthetic(items=15, systems=3, annotators=3, judgments_per_output=2, seed=6)
    save(campaign, tmp_path / f"t.{ending}", what=what)
    again = load(tmp_path / f"t.{ending}")
    if what == "scores":
        assert again.scores.keys() == campaign.scores.keys()
        assert all(np.array_equal(again.scores[name], campaign.scores[name]) for name in campaign.scores)
    else:
        assert again.judgments == campaign.judgments
        assert np.allclose(again.scores["human"], campaign.scores["human"])


# -- SummEval ------------------------------------------------------------------------------------------------------


def summary(item: str, model: str, experts: list[tuple[int, int]], crowd: list[tuple[int, int]] = ()) -> str:  # type: ignore[assignment]
    answers = {
        group: [dict(zip(("coherence", "fluency"), answer, strict=True)) for answer in given]
        for group, given in (("expert_annotations", experts), ("turker_annotations", crowd))
    }
    texts = {"decoded": f"{model} on {item}", "text": f"article {item}", "references": [f"ref {item}", "another"]}
    return json.dumps({"id": item, "model_id": model, "filepath": "x", **texts, **answers}) + "\n"


@pytest.fixture
def summeval(tmp_path):
    content = (
        summary("d1", "M1", [(4, 5), (2, 3)], [(1, 1)])
        + summary("d1", "M2", [(1, 1), (1, 2)], [(5, 4)])
        + summary("d2", "M2", [(5, 5)])
    )
    return load(write_files(tmp_path, {"s.jsonl": content}) / "s.jsonl")


def test_summeval_scores_by_hand(summeval):
    assert (summeval.ids, summeval.systems, summeval.human) == (["d1", "d2"], ("M1", "M2"), "human")
    assert same(summeval.scores["human"], [[3.5, 1.25], [NAN, 5]])
    assert same(summeval.scores["human_coherence"], [[3, 1], [NAN, 5]])
    assert same(summeval.scores["human_fluency"], [[4, 1.5], [NAN, 5]])
    assert same(summeval.scores["turker"], [[1, 4.5], [NAN, NAN]])
    assert summeval.metrics == []


def test_summeval_texts_and_judgments(summeval):
    assert summeval.items["source"].to_list() == ["article d1", "article d2"]
    assert summeval.items["reference"].to_list() == ["ref d1", "ref d2"]
    assert summeval.outputs.rows() == [("M1 on d1", "M2 on d1"), (None, "M2 on d2")]
    assert summeval.judgments.annotators == ["expert1", "expert2", "turker1"]
    assert len(summeval.judgments) == 14
    assert summeval.judgments.criteria == ["coherence", "fluency"]


def test_summeval_survives_conversion(summeval, tmp_path):
    for name in ("x.jsonl", "x.parquet"):
        save(summeval, tmp_path / name)
        assert load(tmp_path / name) == summeval


# -- telling them apart --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "format_name"),
    [
        (b'{"i": 0}\n', "items"),
        (b'\n  {"scores": {}}', "items"),
        (b'[{"i": 0}]', "items"),
        (b'{"id": 1, "expert_annotations": []}\n', "summeval"),
        (MQM_HEADER.encode(), "mqm"),
        (b"item,system,value\r\n", "table"),
        (b"item\tsystem\tvalue", "table"),
        (b"item;system;value\n", "table"),
        (b"{broken\n", "items"),
    ],
)
def test_the_content_tells_the_format(content, format_name):
    assert detect_format(content) == format_name


# -- writing into a folder that is there -----------------------------------------------------------------------------


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_another_campaign_in_the_folder_is_never_mixed_in(tmp_path):
    large, small = synthetic(items=8, systems=5, seed=1), synthetic(items=8, systems=2, seed=2)
    save(large, tmp_path / "wmt", pair="en-de")
    before = tree(tmp_path)
    with pytest.raises(OutputError, match="holds another campaign of en-de, with other sources"):
        save(small, tmp_path / "wmt", pair="en-de")
    with pytest.raises(OutputError, match=r"mixed with this one \('system-outputs/en-de/sys1.txt' would stay\)"):
        save(large.drop(systems=["sys1"]), tmp_path / "wmt", pair="en-de")
    with pytest.raises(OutputError, match=r"holds another campaign \('en-de'\).*`pair`"):
        save(small, tmp_path / "wmt")
    assert tree(tmp_path) == before


def test_a_pair_is_written_again_and_another_added(tmp_path):
    first, second = synthetic(items=8, systems=3, seed=1), synthetic(items=8, systems=2, seed=2)
    save(first, tmp_path / "wmt", pair="en-de")
    save(second, tmp_path / "wmt", pair="en-cs")
    changed = first.with_score("metricA", first.scores["metricA"] + 1)
    save(changed, tmp_path / "wmt", pair="en-de")
    both = load_all(tmp_path / "wmt")
    assert {pair: data.systems for pair, data in both.items()} == {"en-cs": second.systems, "en-de": first.systems}
    assert np.array_equal(both["en-de"].scores["metricA"], changed.scores["metricA"])
    for pair, data in both.items():  # as they were read, each with the name of its pair
        save(data, tmp_path / "copy")
        assert load(tmp_path / "copy", pair=pair).systems == data.systems
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "wmt"]


def test_folders_of_something_else_are_left_alone(tmp_path):
    data = synthetic(items=4, systems=2)
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.jpg").write_bytes(b"jpg")
    (tmp_path / "file").write_bytes(b"text")
    (tmp_path / "empty").mkdir()
    with pytest.raises(OutputError, match="a folder with other things in it"):
        save(data, tmp_path / "photos", pair="en-de")
    with pytest.raises(OutputError, match="is a file where an output folder is meant"):
        save(data, tmp_path / "file", pair="en-de")
    save(data, tmp_path / "empty", pair="en-de")
    assert load(tmp_path / "empty").systems == data.systems


# -- Splitting tables ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("item, system\n1, a b\n", [("1", "a b")]),  # a space after each separator, as in the header
        ("item; system\n1; a\n", [("1", "a")]),
        ("item,system\n1, a\n", [("1", " a")]),  # the header has none: it belongs to the cell
        ("item\t system\n1\t a\n", [("1", " a")]),  # tabs are never padded
        ('item, system\n1, "a, b"\n', [("1", "a, b")]),
        ("\r\n\nitem,system\r\n1,\r\n", [("1", None)]),
        ("item,system\n1,'=a\n", [("1", "=a")]),  # a formula, which save escapes for spreadsheets
    ],
)
def test_spaces_after_separators(text, rows):
    assert parse_csv(text, "t.csv").rows() == rows


def test_numbers_beside_items_may_be_systems_or_metrics(tmp_path):
    with pytest.raises(FormatError, match="could be systems or metrics"):
        table(tmp_path, "item,A,B\n1,2,3\n")
    with pytest.raises(FormatError, match="tables with one column a metric"):
        table(tmp_path, "item,A,B\n1,2,3\n", wide="metrics")
