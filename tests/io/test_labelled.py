"""Tables of judgments whose answers are labels: columns found as elsewhere, labels kept, faults named."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from aliquot.errors import AliquotError, FormatError
from aliquot.io.formats import tables as labelled

CSV = "segment_id,rater,model,label,secs,domain,n\n1,ann,A,yes,3,web,7\n1,bob,A,no,,web,8\n2,ann,A,,5,news,9\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "labels.csv").write_text(CSV)
    return tmp_path / "labels.csv"


def test_columns_are_found_by_their_synonyms(path: Path) -> None:
    table = labelled.read(path, "label")
    assert table["item"].to_list() == [1, 1, 2]
    assert table["annotator"].to_list() == ["ann", "bob", "ann"]
    assert table["system"].to_list() == ["A"] * 3
    assert table["label"].to_list() == ["yes", "no", None]
    assert table["seconds"].to_list() == [3, None, 5]
    assert table["domain"].to_list() == ["web", "web", "news"]
    assert table["n"].to_list() == [7, 8, 9]


def test_systems_may_be_absent_and_columns_named(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("sentence\twho\tverdict\nx1\tann\t1\nx2\tbob\t2\n")
    table = labelled.read(tmp_path / "t.tsv", "verdict", {"item": "sentence", "annotator": "who", "value": "verdict"})
    assert table["system"].to_list() == ["-", "-"]
    assert table["verdict"].to_list() == [1, 2]


def test_parquet_and_gzip(path: Path, tmp_path: Path) -> None:
    from_csv = labelled.read(path, "label")
    pl.read_csv(path).write_parquet(tmp_path / "labels.parquet")
    assert labelled.read(tmp_path / "labels.parquet", "label")["label"].to_list() == from_csv["label"].to_list()


@pytest.mark.parametrize(
    ("content", "answer", "message"),
    [
        (CSV, "lable", "no column 'lable'; did you mean 'label'?"),
        (CSV.replace("rater", "hand"), "label", "judgments need a column 'annotator'"),
        (CSV.replace("secs", "seconds"), "seconds", "is no answer"),
        ("PAR1 broken", "label", "unreadable Parquet"),
        ("segment_id,rater,label\n,ann,yes\n", "label", "the column 'item' is empty"),
    ],
)
def test_faults_are_named(tmp_path: Path, content: str, answer: str, message: str) -> None:
    (tmp_path / "bad.csv").write_text(content)
    with pytest.raises(FormatError, match=r"bad\.csv") as caught:
        labelled.read(tmp_path / "bad.csv", answer)
    assert message in str(caught.value)


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(AliquotError):
        labelled.read(tmp_path / "absent.csv", "label")
