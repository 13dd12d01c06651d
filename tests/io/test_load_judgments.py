"""The one reader of judgments: every file that may hold some, with the same options; faults are named."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import aliquot
from aliquot import AliquotWarning, load_judgments
from aliquot.core.origin import OUTPUT_DIGEST, digest_text
from aliquot.errors import AliquotError, DataError, FormatError, MissingColumnError, NotNumericError
from aliquot.io.formats import campaign, campaign_database
from aliquot.io.formats.tables import Wide
from aliquot.io.load_judgments import load_with_judgments

LONG = "segment_id,rater,model,points\n1,ann,A,3\n1,bob,A,4\n2,ann,B,\n"
LABELS = "segment_id,rater,model,label,secs,domain,n\n1,ann,A,yes,3,web,7\n1,bob,A,no,,web,8\n2,ann,A,,5,news,9\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "labels.csv").write_text(LABELS)
    return tmp_path / "labels.csv"


def rows(judgments: aliquot.Judgments, *names: str) -> list[tuple[object, ...]]:
    return judgments.table.select(names or ("item", "system", "annotator", "value")).rows()


def written(folder: Path, text: str, name: str = "j.csv") -> Path:
    (folder / name).write_text(text)
    return folder / name


# -- containers and layouts ----------------------------------------------------------------------------------------


def test_the_same_judgments_from_every_container(tmp_path: Path) -> None:
    found = load_judgments(written(tmp_path, LONG))
    assert rows(found) == [(1, "A", "ann", 3.0), (1, "A", "bob", 4.0), (2, "B", "ann", None)]
    table = pl.read_csv(tmp_path / "j.csv")
    table.write_parquet(tmp_path / "j.parquet")
    table.write_ndjson(tmp_path / "j.jsonl")
    (tmp_path / "j.json").write_text("[" + ",".join((tmp_path / "j.jsonl").read_text().splitlines()) + "]")
    aliquot.save(aliquot.load(tmp_path / "j.csv"), tmp_path / "items.jsonl")
    for name in ("j.parquet", "j.jsonl", "j.json", "items.jsonl"):
        assert load_judgments(tmp_path / name) == found, name
    assert load_judgments(table) == found
    assert load_judgments(found) is found
    assert load_judgments(aliquot.load(tmp_path / "items.jsonl")) == found


def test_scores_count_as_judgments_without_an_annotator(tmp_path: Path) -> None:
    expected = [(1, "A", None, 3.0), (1, "B", None, 4.0), (2, "B", None, 5.0)]
    assert rows(load_judgments(written(tmp_path, "item,system,score\n1,A,3\n1,B,4\n2,B,5\n"))) == expected
    assert rows(load_judgments(written(tmp_path, "item,A,B\n1,3,4\n2,,5\n"), wide="systems")) == expected
    human = "item,system,metric,value\n1,A,human,3\n1,B,human,4\n2,B,human,5\n1,A,BLEU,9\n"
    assert rows(load_judgments(written(tmp_path, human))) == expected
    two = written(tmp_path, "item,system,BLEU,TER\n1,A,3,4\n")
    with pytest.raises(DataError, match="no judgments in it"):
        load_judgments(two)


def test_a_column_for_each_system_with_annotators(tmp_path: Path) -> None:
    found = load_judgments(written(tmp_path, "item,annotator,A,B\n1,ann,3,4\n1,bob,5,\n"), wide="systems")
    assert rows(found) == [(1, "A", "ann", 3.0), (1, "A", "bob", 5.0), (1, "B", "ann", 4.0), (1, "B", "bob", None)]


@pytest.mark.parametrize("wide", [None, "metrics"])
def test_a_column_for_each_criterion_with_annotators(tmp_path: Path, wide: Wide | None) -> None:
    text = "item,system,annotator,fluency,adequacy,seconds,comment\n1,A,ann,3,4,9,ok\n1,A,bob,,2,7,\n"
    with pytest.warns(AliquotWarning, match="'fluency', 'adequacy' are read as criteria"):
        found = load_judgments(written(tmp_path, text), wide=wide)
    assert rows(found, "annotator", "criterion", "value", "seconds", "comment") == [
        ("ann", "fluency", 3.0, 9.0, "ok"),
        ("ann", "adequacy", 4.0, None, "ok"),
        ("bob", "adequacy", 2.0, None, None),
    ]


# -- lower is better -----------------------------------------------------------------------------------------------


def test_flipping_all_judgments_or_one_criterion(tmp_path: Path) -> None:
    path = written(tmp_path, "item,system,annotator,criterion,value\n1,A,ann,errors,3\n1,A,ann,style,4\n")
    assert load_judgments(path, lower_is_better=["human"]).table["value"].to_list() == [-3.0, -4.0]
    assert load_judgments(path, lower_is_better=["errors"]).table["value"].to_list() == [-3.0, 4.0]
    data = aliquot.load(path, lower_is_better=["errors"])
    assert {name: float(values[0, 0]) for name, values in data.scores.items()} == {
        "human": 0.5,
        "human_errors": -3.0,
        "human_style": 4.0,
    }
    assert data.flipped == {"human_errors"}
    with pytest.raises(AliquotError, match="unknown score 'stile'; did you mean 'style'"):
        load_judgments(path, lower_is_better=["stile"])


# -- two files -----------------------------------------------------------------------------------------------------


def test_options_hold_for_data_and_judgments(tmp_path: Path) -> None:
    data = written(tmp_path, "seg,system,TER,COMET\n1,A,3,4\n1,B,5,6\n", "data.csv")
    judgments = written(tmp_path, "line,system,annotator,points\n1,A,ann,7\n")
    read: dict[str, Any] = {"columns": {"item": "seg"}, "lower_is_better": ["TER"]}
    with pytest.raises(FormatError, match="need a column 'item'"):
        load_with_judgments(data, judgments, **read)
    judgments.write_text("seg,system,annotator,points\n1,A,ann,7\n")
    evalset, judged = load_with_judgments(data, judgments, **read)
    assert evalset.scores["TER"].tolist() == [[-3.0, -5.0]]
    assert judged.table["value"].to_list() == [7.0]
    _, judged = load_with_judgments(data, judgments, lower_is_better=["human"], columns={"value": "points"})
    assert judged.table["value"].to_list() == [-7.0]
    with pytest.raises(AliquotError, match="unknown score 'chrF'"):
        load_with_judgments(data, judgments, lower_is_better=["chrF"])
    with pytest.raises(FormatError, match="unknown column 'mark'"):
        load_with_judgments(data, judgments, columns={"value": "mark"})


def test_wide_judgments_on_data_of_another_layout(tmp_path: Path) -> None:
    aliquot.save(aliquot.synthetic(items=2, systems=2, seed=1), tmp_path / "data.jsonl")
    judgments = written(tmp_path, "item,sys1,sys2\n0,3,4\n1,5,6\n")
    _, judged = load_with_judgments(tmp_path / "data.jsonl", judgments, wide="systems")
    assert judged.table["value"].to_list() == [3.0, 4.0, 5.0, 6.0]


# -- labels --------------------------------------------------------------------------------------------------------


def test_labels_are_kept_under_their_name(path: Path) -> None:
    table = load_judgments(path, answer="label").table
    assert table["item"].to_list() == [1, 1, 2]
    assert table["annotator"].to_list() == ["ann", "bob", "ann"]
    assert table["system"].to_list() == ["A"] * 3
    assert table["label"].to_list() == ["yes", "no", None]
    assert table["value"].to_list() == [None] * 3
    assert table["seconds"].to_list() == [3, None, 5]
    assert table["n"].to_list() == [7, 8, 9]
    data = aliquot.load(path, answer="label")
    assert data.items["domain"].to_list() == ["web", "news"]
    assert not data.scores


def test_labels_in_the_column_value(tmp_path: Path) -> None:
    path = written(tmp_path, "item,annotator,value\n1,ann,yes\n2,bob,no\n")
    assert load_judgments(path, answer="value").table["label"].to_list() == ["yes", "no"]


def test_systems_may_be_absent_and_columns_named(tmp_path: Path) -> None:
    path = written(tmp_path, "sentence\twho\tverdict\nx1\tann\t1\nx2\tbob\t2\n", "t.tsv")
    columns = {"item": "sentence", "annotator": "who", "value": "verdict"}
    table = load_judgments(path, answer="verdict", columns=columns).table
    assert table["system"].to_list() == ["-", "-"]
    assert table["verdict"].to_list() == table["value"].to_list() == [1, 2]


def test_labels_in_parquet(path: Path, tmp_path: Path) -> None:
    from_csv = load_judgments(path, answer="label").table
    pl.read_csv(path).write_parquet(tmp_path / "labels.parquet")
    again = load_judgments(tmp_path / "labels.parquet", answer="label").table
    assert again["label"].to_list() == from_csv["label"].to_list()


@pytest.mark.parametrize(
    ("content", "answer", "message"),
    [
        (LABELS, "lable", "unknown column 'lable'; did you mean 'label'?"),
        (LABELS.replace("rater", "hand"), "label", "judgments need a column 'annotator'"),
        (LABELS.replace("secs", "seconds"), "seconds", "not answers"),
        (LABELS, "rater", "not answers"),
        ("PAR1 broken", "label", "unreadable Parquet"),
        ("segment_id,rater,label\n,ann,yes\n", "label", "the column 'item' is empty"),
    ],
)
def test_faults_are_named(tmp_path: Path, content: str, answer: str, message: str) -> None:
    (tmp_path / "bad.csv").write_text(content)
    with pytest.raises(FormatError, match=r"bad\.csv") as caught:
        load_judgments(tmp_path / "bad.csv", answer=answer)
    assert message in str(caught.value)


def test_errors_have_types_that_say_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(NotNumericError, match="`answer=COLUMN` and `recode=") as labels:
        load_judgments(written(tmp_path, "item,system,annotator,value\n1,A,ann,good\n"))
    assert labels.value.column == "value"
    with pytest.raises(NotNumericError) as times:
        load_judgments(written(tmp_path, "item,system,annotator,value,seconds\n1,A,ann,1,soon\n"))
    assert times.value.column == "seconds"
    assert "`answer" not in str(times.value)
    with pytest.raises(MissingColumnError, match="`answer=COLUMN`") as absent:
        load_judgments(written(tmp_path, "item,annotator,value\n1,ann,2\n"))
    assert absent.value.role == "system"


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(AliquotError):
        load_judgments(tmp_path / "absent.csv", answer="label")


# -- campaigns -----------------------------------------------------------------------------------------------------

TABLES = {
    "meta": ("key", "value"),
    "events": ("id",),
    "units": ("id", "payload"),
    "judgments": ("assignment_id", "cell_id", "item", "system", "annotator", "value", "time", "control", "side"),
    "choices": ("item", "choice", "time"),
    "audit": ("id", "payload"),
}


def campaign_file(path: Path, left_out: str = "", **rows: list[tuple[Any, ...]]) -> Path:
    """An SQLite file with the tables of a campaign of version 2, which has no checksums, and in them these rows."""
    rows = {"meta": [("schema", "2")]} | rows
    with closing(sqlite3.connect(path)) as connection:
        for name in TABLES.keys() - {left_out}:
            connection.execute(f"CREATE TABLE {name} ({', '.join(TABLES[name])})")
            for row in rows.get(name, []):
                connection.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * len(row))})", row)  # noqa: S608
        connection.commit()
    return path


JUDGED = [("a1", "c1", "0", "A", "ann", 3, 0.5, None, None), ("a1", "c2", '"x"', "B", "ann", 4.5, 1.0, "damaged", None)]


def test_the_judgments_of_a_campaign_as_a_table(tmp_path: Path) -> None:
    path = campaign_file(tmp_path / "c.db", judgments=JUDGED)
    assert campaign_database.is_campaign(path)
    found = campaign.read_judgments(path)
    assert found.columns == ["item", "system", "annotator", "value", "time", "control"]  # no keys, nothing empty
    assert found.rows() == [
        ("0", "A", "ann", 3.0, "1970-01-01T00:00:00.500Z", None),
        ("x", "B", "ann", 4.5, "1970-01-01T00:00:01.000Z", "damaged"),
    ]
    assert campaign.read_choices(path) is None
    chosen = campaign_file(tmp_path / "d.db", choices=[("7", "a", 0.0)])
    choices = campaign.read_choices(chosen)
    assert choices is not None
    assert choices["item"].to_list() == [7]
    with pytest.raises(DataError, match="nobody has submitted a unit yet"):
        campaign.read_judgments(chosen)


def test_judgments_of_a_campaign_know_the_text_that_was_shown(tmp_path: Path) -> None:
    """Of an attention check no text is remembered, nor of an output without words."""
    shown = {
        "rows": [
            {"outputs": [{"cell": "c1", "text": "one"}, {"cell": "c2", "text": "two"}, {"text": "context"}]},
            {"outputs": [{"cell": "c3", "text": " "}]},
        ]
    }
    more = [*JUDGED, ("a1", "c3", "1", "A", "ann", 1.0, 2.0, None, None)]
    path = campaign_file(tmp_path / "c.db", judgments=more, units=[(1, json.dumps(shown))])
    found = campaign.read_judgments_of_texts(path)
    assert found[OUTPUT_DIGEST].to_list() == [digest_text("one"), None, None]
    assert not {"cell_id", "assignment_id"} & set(found.columns)
    broken = campaign_file(tmp_path / "d.db", judgments=JUDGED, units=[(1, "[]")])
    with pytest.raises(FormatError, match="cannot be read as a campaign"):
        campaign.read_judgments_of_texts(broken)
    with pytest.raises(DataError, match="nobody has submitted"):
        campaign.read_judgments_of_texts(campaign_file(tmp_path / "e.db"))


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"left_out": "events"}, "is a database, but no campaign"),
        ({"meta": []}, "the version of its tables is"),
        ({"meta": [("schema", "x")]}, "the version of its tables is"),
        ({"meta": [("schema", "4")]}, r"newer aliquot \(version 4 of the tables; this one knows 3\)"),
        ({"judgments": [("a", "c", "{", "A", "ann", 1, 0.0, None, None)]}, "cannot be read as a campaign"),
    ],
)
def test_files_that_are_no_readable_campaign(tmp_path: Path, tables: dict[str, Any], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        campaign.read_judgments(campaign_file(tmp_path / "c.db", **tables))
    (tmp_path / "text").write_text("SQLite")
    assert not campaign_database.is_campaign(tmp_path / "text")
    assert not campaign_database.is_campaign(tmp_path)


@pytest.mark.parametrize(
    "text", ["item,system,annotator,note\n1,A,x,good\n", "item,system,annotator,criterion,points2\n1,A,x,c,3\n"]
)
def test_judgments_without_any_number_or_with_a_criterion_need_a_value(tmp_path: Path, text: str) -> None:
    with pytest.raises(MissingColumnError, match="value"):
        load_judgments(written(tmp_path, text))
