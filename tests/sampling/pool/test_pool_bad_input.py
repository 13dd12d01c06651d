"""What is wrong with a pool is said with file and place, and nothing is chosen."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.sampling.pool.conftest import Item, write_lines, write_rows

from aliquot.errors import AliquotError, AliquotWarning, DataError, FormatError, NameUnknownError, OptionError
from aliquot.sampling.pool import select_pool

pytestmark = pytest.mark.filterwarnings("ignore::aliquot.AliquotWarning")


def refused(kind: type[Exception], match: str, *arguments: Any, **options: Any) -> None:
    with pytest.raises(kind, match=match):
        select_pool(*arguments, **options)


def test_an_id_that_occurs_twice_names_both_places(tmp_path: Path) -> None:
    write_lines(tmp_path / "a.jsonl", [{"i": k, "src": "a"} for k in range(40)])
    write_lines(tmp_path / "b.jsonl", [{"i": str(k), "src": "b"} for k in range(39, 60)])
    text = r"id '39' occurs twice: .*a.jsonl item number 40, and .*b.jsonl item number 1"
    refused(DataError, text, [tmp_path / "a.jsonl", tmp_path / "b.jsonl"], "segments", 5, partition_bytes=100)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b'{"i": 7, "src": 5}', r"line 32, item 7, field src: expected a text"),
        (b'{"i": 7, "src": "a"', r"line 32: not valid JSON"),
        (b'{"i": 7, "src": "a"} {"i": 8}', r"line 32: not valid JSON"),
        (b'{"i": 7, "src": "\xff"}', r"line 32: byte 0xff is not valid UTF-8"),
        (b"[1]", r"line 32: entry 1: expected a JSON object"),
        (b'{"i": true, "src": "a"}', r"line 32.*integer or a string"),
    ],
)
@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_a_bad_line_is_named(line: bytes, text: str, name: str, tmp_path: Path) -> None:
    good = b"".join(b'{"i": "x%d", "src": "some words"}\n' % k for k in range(30))
    raw = good + b"\n" + line + b"\n" + good.replace(b"x", b"y")
    (tmp_path / name).write_bytes(gzip.compress(raw) if name.endswith("gz") else raw)
    refused(FormatError, text, tmp_path / name, "source_length", 5, partition_bytes=200)


def test_damaged_files_are_refused(items: list[Item], tmp_path: Path) -> None:
    whole = write_rows(tmp_path / "a.parquet", items).read_bytes()
    (tmp_path / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    refused(FormatError, "cut.parquet: unreadable Parquet .*truncated", tmp_path / "cut.parquet", "segments", 5)
    holed = bytearray(whole)
    holed[200:6000] = bytes(5800)
    (tmp_path / "holed.parquet").write_bytes(bytes(holed))
    refused(AliquotError, "holed.parquet", tmp_path / "holed.parquet", "source_length", 5)
    raw = write_lines(tmp_path / "a.jsonl.gz", items).read_bytes()
    (tmp_path / "cut.jsonl.gz").write_bytes(raw[: len(raw) // 2])
    refused(FormatError, "gzip data end too early", tmp_path / "cut.jsonl.gz", "segments", 5)
    (tmp_path / "empty.jsonl").write_bytes(b"")
    refused(FormatError, "empty", tmp_path / "empty.jsonl", "segments", 5)
    (tmp_path / "blank.jsonl").write_bytes(b"\n\n")
    refused(FormatError, "no item at all", tmp_path / "blank.jsonl", "segments", 5)
    (tmp_path / "array.json").write_bytes(b'[{"i": 1}]')
    refused(FormatError, "JSON array", tmp_path / "array.json", "segments", 5)
    refused(FormatError, "no such file", tmp_path / "nowhere.jsonl", "segments", 5)
    refused(FormatError, "no file fits", str(tmp_path / "*.csv"), "segments", 5)
    refused(FormatError, "is a folder", tmp_path, "segments", 5)


def test_bad_options_are_refused(lines: Path, tmp_path: Path) -> None:
    refused(OptionError, "needs outputs or scores", lines, "metric_var", 5)
    refused(NameUnknownError, "unknown method 'ppz'", lines, "ppz", 5)
    refused(OptionError, "size=difficulty needs scores", lines, "pps:size=difficulty", 5)
    refused(DataError, "no item has a number in 'klicks'", lines, "pps:size=klicks", 5)
    refused(NameUnknownError, "exact", lines, "segments", 5, dedup="fuzzy")
    refused(OptionError, "named twice", [lines, str(lines)], "segments", 5)
    refused(NameUnknownError, "role", lines, "segments", 5, columns={"texts": "src"})
    refused(OptionError, "nothing is given", lines, "source", 5)
    refused(FormatError, "no such file", lines, "source:model=nowhere.model", 5)
    refused(NameUnknownError, "no parameter 'colour'", lines, "kmeans:colour=red", 5)
    refused(OptionError, "kmeans", lines, "kmeans", 5, cost="cost")
    refused(OptionError, "no file", [], "segments", 5)
    bad = write_lines(tmp_path / "cost.jsonl", [{"i": 1, "src": "a", "cost": 1.0}, {"i": 2, "src": "b", "cost": 0.0}])
    refused(DataError, "item 2 has the cost 0", bad, "segments", 1, cost="cost")
    refuse_texts = "'domain' holds texts; name a column of numbers"
    for method in ("pps:size=domain", "source:column=domain", "uncertainty:score=domain"):
        refused(OptionError, refuse_texts, lines, method, 5)
    refused(OptionError, refuse_texts, lines, "segments", 5, cost="domain")
    rows = write_rows(tmp_path / "a.parquet", [{"i": 1, "src": "a", "word": "x"}])
    refused(DataError, "holds String", rows, "pps:size=word", 1)
    refused(DataError, "no clicks", rows, "pps:size=clicks", 1)


def test_a_source_of_a_megabyte_crosses_partitions(tmp_path: Path) -> None:
    items = [{"i": k, "src": "word " * (200_000 if k == 5 else k + 1)} for k in range(12)]
    path = write_lines(tmp_path / "a.jsonl", items)
    chosen = select_pool(path, "source_length", 2, partition_bytes=100_000)
    assert chosen.selection.ids == (5, 11)
    assert chosen.selection.utility is not None
    assert chosen.selection.utility[0] == 200_000


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet"])
def test_a_misspelt_column_is_an_error_and_not_one_group(name: str, items: list[Item], tmp_path: Path) -> None:
    path = (write_lines if name.endswith("jsonl") else write_rows)(tmp_path / name, items)
    refused(DataError, "'domian'", path, "stratified:bins=domian", 5)
    refused(DataError, "'domian'", path, "segments", 5, balance="domian")
    for role, method in (("id", "segments"), ("source", "segments"), ("document", "documents")):
        text = f"`columns` {role}=kye: no item of .* has the field 'kye'"
        refused(DataError, text, path, method, 5, columns={role: "kye"})
    refused(OptionError, "'src' for two roles", path, "segments", 5, columns={"id": "src", "source": "src"})


def test_chosen_items_without_sources_are_told(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", [{"i": k, "text": "a b"} for k in range(9)])
    with pytest.warns(AliquotWarning, match="no chosen item has a source .* there are: 'text'; name it with `columns`"):
        select_pool(path, "segments", 3)


def test_numbers_beyond_64_bits_are_refused(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", [{"i": 1, "src": "a", "doc": "d", "position": 2**70}])
    refused(FormatError, "position 1180591620717411303424 is beyond 64 bits", path, "documents", 1)
    ids = pl.Series("id", [1, 2**63 + 5], dtype=pl.UInt64)
    pl.DataFrame([ids, pl.Series("source", ["a", "b"])]).write_parquet(tmp_path / "a.parquet")
    refused(DataError, "'id' holds ids beyond 64 bits", tmp_path / "a.parquet", "segments", 1)


def test_the_pool_itself_is_not_written_over(lines: Path) -> None:
    refused(OptionError, "is read by this run and would be overwritten", lines, "segments", 5, journal=lines)


def test_a_file_that_changes_while_it_is_read_is_refused(items: list[Item], tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", items)

    def change(what: str, share: float, count: int) -> None:
        del share, count
        if what == "choosing":
            write_lines(path, items[::-1])

    refused(FormatError, "a file changed while it was read", path, "segments", 5, progress=change)
