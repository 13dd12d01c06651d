"""Broken files, options and disks: one line that says what, where, the value and the remedy; never a traceback.

Each case is a file (or a folder), the arguments, the exit code and what the message must say. In the arguments {dir} is
the test's folder, {in} the broken file and {out} where the result would go; nothing may be written.
"""

from __future__ import annotations

import gzip
import io
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from aliquot import EvalSet, load
from aliquot.cli.main import run

Content = str | bytes | Mapping[str, str] | None
CONVERT = ("convert", "{in}", "{out}")

# -- making broken files -------------------------------------------------------------------------------------------

ITEM: dict[str, Any] = {
    "i": 0,
    "tgt": {"A": "x", "B": "y"},
    "scores": {"A": {"human": 1.0, "COMET": 0.5}, "B": {"human": 2.0, "COMET": 0.75}},
}
SUMMARY: dict[str, Any] = {
    "id": "d1",
    "model_id": "M1",
    "decoded": "a summary",
    "text": "an article",
    "references": ["a reference"],
    "expert_annotations": [{"coherence": 4, "fluency": 5}],
}
MQM_HEADER = "system\tdoc\tdoc_id\tseg_id\trater\tsource\ttarget\tcategory\tseverity\n"
MQM_ROW = "A\td1\t1\t1\tr1\tein Satz\ta <v>bad</v> sentence\tAccuracy/Mistranslation\tMajor\n"
OUTPUTS, MQM_SCORES = "system-outputs/en-de", "human-scores/en-de.mqm.seg.score"
LONG = "item,system,metric,value\n"


def lines(*items: Mapping[str, Any]) -> str:
    """Write objects as JSON lines; NaN and Infinity come out as Python writes them."""
    return "".join(json.dumps(item) + "\n" for item in items)


def item(**changes: Any) -> str:
    """A whole item and one with changes after it, on line 2 and with the id 1 unless told otherwise."""
    return lines(ITEM, {**ITEM, "i": 1, **changes})


def scored(value: Any) -> str:
    """An item whose COMET of system A is `value`."""
    return item(scores={**ITEM["scores"], "A": {"COMET": value}})


def judged(**judgment: Any) -> str:
    """An item with one judgment."""
    return item(judgments=[{"system": "A", "annotator": "r1", "value": 1.0, **judgment}])


def summary(**changes: Any) -> str:
    """A whole SummEval line and one with changes; None takes the field away."""
    changed = {name: value for name, value in {**SUMMARY, "id": "d2", **changes}.items() if value is not None}
    return lines(SUMMARY, changed)


def parquet(table: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    table.write_parquet(buffer)
    return buffer.getvalue()


def folder(changes: Mapping[str, str | None] | None = None) -> dict[str, str]:
    """An mt-metrics-eval folder of two segments and two systems; `changes` replace a file's text, None removes it."""
    files: dict[str, str | None] = {
        "sources/en-de.txt": "eins\nzwei\n",
        "references/en-de.refA.txt": "one\ntwo\n",
        "documents/en-de.docs": "news\td1\nnews\td1\n",
        f"{OUTPUTS}/A.txt": "a1\na2\n",
        f"{OUTPUTS}/B.txt": "b1\nb2\n",
        MQM_SCORES: "A\t0\nA\t-1\nB\t-5\nB\tNone\n",
        "metric-scores/en-de/COMET-refA.seg.score": "A\t0.9\nA\t0.8\nB\t0.7\nB\t0.6\n",
        **(changes or {}),
    }
    return {name: text for name, text in files.items() if text is not None}


@dataclass(frozen=True)
class Case:
    """One broken input and what must be said about it."""

    content: Content
    says: tuple[str, ...]
    file: str = "data.jsonl"
    arguments: Sequence[str] = CONVERT
    out: str = "out.jsonl"
    code: int = 2

    def place(self, root: Path) -> list[str]:
        """Write the input under `root` and return the arguments."""
        path = root / self.file
        files = self.content if isinstance(self.content, Mapping) else {"": self.content}
        for name, content in files.items():
            if content is None:
                continue
            target = path / name if name else path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content if isinstance(content, bytes) else content.encode())
        marks = {"dir": str(root), "in": str(path), "out": str(root / self.out)}
        return [argument.format(**marks) for argument in self.arguments]


def snapshot(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() if path.is_file() else b"" for path in root.rglob("*")}


def complaint(arguments: Sequence[str], code: int, capsys: pytest.CaptureFixture[str]) -> str:
    """Run, check that it fails as it should, and return the one line it says."""
    assert run(arguments) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("error: ")
    assert said.err.count("\n") == 1, said.err
    assert "Traceback" not in said.err
    return said.err


def check(cases: Mapping[str, Case]) -> Callable[..., Any]:
    return pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in cases.items()])


def says_what_is_wrong(case: Case, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = case.place(root)
    before = snapshot(root)
    message = complaint(arguments, case.code, capsys)
    missing = [fragment for fragment in case.says if fragment not in message]
    assert not missing, f"{missing} not in: {message}"
    assert snapshot(root) == before


# -- files that cannot be read at all ------------------------------------------------------------------------------

GZIPPED = gzip.compress(item().encode() * 50, mtime=0)
NOT_JSON_AT_734 = "".join(json.dumps({**ITEM, "i": i}) + "\n" for i in range(733)) + '{"i": 733, "tgt": {"A": \n'

UNREADABLE = {
    "empty file": Case("", ("data.jsonl", "empty")),
    "only white space": Case(" \n\n\t\n", ("data.jsonl", "empty")),
    "gzip of nothing": Case(gzip.compress(b""), ("data.jsonl.gz", "empty"), file="data.jsonl.gz"),
    "truncated gzip": Case(
        GZIPPED[: len(GZIPPED) // 2], ("data.jsonl.gz", "truncated", "download it again"), "data.jsonl.gz"
    ),
    "gzip of three bytes": Case(GZIPPED[:3], ("data.jsonl.gz", "truncated"), file="data.jsonl.gz"),
    "damaged gzip": Case(
        GZIPPED[:40] + b"\xff\xff\xff\xff" + GZIPPED[44:], ("data.jsonl.gz", "damaged gzip", "again"), "data.jsonl.gz"
    ),
    "wrong gzip checksum": Case(
        GZIPPED[:-8] + b"\0\0\0\0" + GZIPPED[-4:], ("data.jsonl.gz", "damaged gzip", "again"), "data.jsonl.gz"
    ),
    "invalid UTF-8": Case(
        item(src="GR\xdcN").replace("\\u00dc", "\xdc").encode("latin-1"),
        ("data.jsonl line 2", "0xdc", "UTF-8", "iconv"),
    ),
    "UTF-16": Case(item().encode("utf-16le"), ("data.jsonl", "UTF-16", "byte-order mark", "iconv -f utf-16le")),
    "a table in latin-1": Case(
        (LONG + "1,B\xe4r,BLEU,1\n").encode("latin-1"), ("data.csv line 2", "0xe4", "UTF-8", "iconv"), file="data.csv"
    ),
    "a web page": Case("<!DOCTYPE html>\n<html>\n", ("data.jsonl line 1", "<!DOCTYPE html>", "--read format")),
    "prose": Case("Dear colleagues\n", ("data.txt line 1", "Dear colleagues", "--read format"), file="data.txt"),
    "an Excel file": Case(
        b"PK\x03\x04\x14\x00\x06\x00\x08\x00\x00\x00!\x00\xdf\xa4\xd2l\n\n", ("data.xlsx", "CSV"), file="data.xlsx"
    ),
    "truncated Parquet": Case(
        parquet(pl.DataFrame({"item": range(99), "system": "A", "value": 1.0}))[:300],
        ("data.parquet", "Parquet", "again"),
        file="data.parquet",
    ),
    "eight bytes of Parquet": Case(b"PAR1\x15\0\x15\0", ("data.parquet", "Parquet", "again"), file="data.parquet"),
    "file not found": Case(None, ("data.jsonl", "no such file", "check the path")),
    "file not found, a near one": Case(
        "x", ("nope/data.jsonl", "no such file"), arguments=("inspect", "{dir}/nope/data.jsonl")
    ),
    "a misspelt ending": Case(
        item(), ("data.json:", "no such file", "data.jsonl"), arguments=("inspect", "{dir}/data.json")
    ),
    "a name too long for a file": Case(None, ("too long",), arguments=("inspect", "x" * 300)),
    "a folder where a file is meant": Case(
        {"one.jsonl": item(), "two.jsonl": item()},
        ("data:", "is a folder where a file is meant", "'one.jsonl'"),
        "data",
    ),
    "a folder as item lines": Case(
        folder(), ("data:", "is a folder where a file is meant"), "data", (*CONVERT, "--format", "items")
    ),
    "an empty folder": Case(
        {}, ("nothing:", "is a folder", "empty"), arguments=("inspect", "{dir}/nothing"), file="nothing"
    ),
}


@check(UNREADABLE)
def test_unreadable_file(case, tmp_path, capsys):
    if case.file == "nothing":
        (tmp_path / "nothing").mkdir()
    says_what_is_wrong(case, tmp_path, capsys)


def test_no_permission(tmp_path, capsys, monkeypatch):
    case = Case(item(), ("data.jsonl", "no permission", "chmod"))
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: not str(path).endswith("data.jsonl") and allowed(path, mode))
    says_what_is_wrong(case, tmp_path, capsys)


# -- item JSON lines -----------------------------------------------------------------------------------------------

SCORE = ("data.jsonl line 2", "item 1", "scores.A.COMET", "null")
JUDGMENT = ("data.jsonl line 2", "item 1", "judgments[0].")

ITEMS = {
    "not JSON at line 734": Case(NOT_JSON_AT_734, ("data.jsonl line 734", "not valid JSON", "one JSON object")),
    "cut off in the middle": Case(item()[:-20], ("data.jsonl line 2", "not valid JSON")),
    "an object over several lines": Case(
        json.dumps(ITEM, indent=1), ("data.jsonl line 1", "not valid JSON", "each line")
    ),
    "a number on a line": Case(lines(ITEM) + "5\n", ("data.jsonl line 2", "expected a JSON object", "the number 5")),
    "a JSON array of strings": Case('["one", "two"]', ("data.jsonl", "entry 1", "expected a JSON object", '"one"')),
    "a JSON array with one string": Case(
        json.dumps([ITEM, "two"]), ("data.jsonl", "entry 2", "expected a JSON object", '"two"')
    ),
    "an empty JSON array": Case("[]", ("data.jsonl", "array is empty", "one object per item")),
    "a JSON array cut off": Case(json.dumps([ITEM, ITEM])[:-9], ("data.jsonl", "not valid JSON")),
    "a JSON array, bad score": Case(
        json.dumps([ITEM, {**ITEM, "i": 1, "scores": {"A": {"COMET": "high"}}}]),
        ("data.jsonl entry 2", "scores.A.COMET", '"high"'),
    ),
    "a key twice in a cell": Case(
        lines(ITEM) + '{"i": 1, "scores": {"A": {"COMET": 1, "COMET": 99}}}\n',
        ("data.jsonl line 2", 'the key "COMET"', "twice", "remove one"),
    ),
    "a key twice, spaced": Case('{"i" : 0, "i" :1, "tgt": {"A": "x"}}\n', ("line 1", 'the key "i"', "twice")),
    "a key twice in an array": Case(
        '[{"i": 0, "tgt": {"A": "x"}}, {"i": 1, "tgt": {"A": "x", "A": "y"}}]', ("entry 2", 'the key "A"', "twice")
    ),
    "a key twice in a judgment": Case(
        lines(ITEM) + '{"i": 1, "tgt": {"A": "x"}, "judgments": [{"system": "A", "value": 1, "value": 2}]}\n',
        ("data.jsonl line 2", 'the key "value"', "twice"),
    ),
    "a key twice in a table of JSON lines": Case(
        '{"item": 0, "system": "A", "value": 1}\n{"item": 0, "system": "B", "value": 1, "value": 2}\n',
        ("data.jsonl line 2", 'the key "value"', "twice"),
    ),
    "a key twice in a field of one's own": Case(
        '{"i": 0, "tgt": {"A": "x"}, "meta": {"a": [{"b": 1, "b": 2}]}}\n', ("line 1", 'the key "b"', "twice")
    ),
    "duplicate ids": Case(
        lines(ITEM, {**ITEM, "i": 1}, ITEM), ("data.jsonl line 3", "id 0", "field i", "twice", "own id")
    ),
    "ids alike as text": Case(item(i="0"), ("data.jsonl", "line 2", "'0'", "twice")),
    "an item without systems": Case(
        item(tgt={}, scores={}), ("data.jsonl", "line 2", "item 1", "no systems", "'tgt'", "'scores'", "remove")
    ),
    "no systems anywhere": Case(lines({"i": 0, "src": "x"}), ("data.jsonl", "no item has a system", '"tgt": {"sysA"')),
    "a score that is a string": Case(scored("0.5"), (*SCORE, 'the string "0.5"', "plain number")),
    "a score that is NaN": Case(scored(float("nan")), (*SCORE, "nan", "plain number")),
    "a score that is infinite": Case(scored(float("inf")), (*SCORE, "inf", "plain number")),
    "a score that is -infinite": Case(scored(float("-inf")), (*SCORE, "-inf")),
    "a score beyond any float": Case(scored(1).replace('"COMET": 1}', '"COMET": 1e999}'), (*SCORE, "inf")),
    "an integer score beyond any float": Case(scored(10**400), (*SCORE, "1000")),
    "a score that is a boolean": Case(scored(True), (*SCORE, "the boolean true", "plain number")),
    "a nested score": Case(scored({"mean": 0.5}), (*SCORE, 'an object {"mean": 0.5}', "plain number")),
    "a list of scores": Case(scored([0.5, 0.6]), (*SCORE, "a list [0.5, 0.6]", "plain number")),
    "a score without its metric": Case(
        item(scores={"A": 0.5}), ("data.jsonl line 2", "field scores.A:", "the number 0.5", '{"metric": number')
    ),
    "scores as a list": Case(item(scores=[0.5]), ("data.jsonl line 2", "field scores:", "a list [0.5]", '{"system"')),
    "outputs as a list": Case(item(tgt=["x"]), ("data.jsonl line 2", "field tgt:", 'a list ["x"]', '{"system"')),
    "an output that is a number": Case(
        item(tgt={"A": 5}), ("data.jsonl line 2", "field tgt.A:", "the number 5", "text")
    ),
    "a source that is a list": Case(item(src=["x"]), ("data.jsonl line 2", "field src:", 'a list ["x"]', "text")),
    "a document that is a float": Case(item(doc=1.5), ("data.jsonl line 2", "field doc:", "the number 1.5", "name")),
    "a domain that is a boolean": Case(item(domain=True), ("data.jsonl line 2", "field domain:", "the boolean true")),
    "a cost that is a string": Case(
        item(cost="1 EUR"), ("data.jsonl line 2", "item 1", "field cost:", '"1 EUR"', "plain number")
    ),
    "a cost that is NaN": Case(
        item(cost=float("nan")), ("data.jsonl line 2", "field cost:", "nan", "leave 'cost' out")
    ),
    "a position between lines": Case(
        item(position=1.5), ("data.jsonl line 2", "field position:", "1.5", "whole number")
    ),
    "an id that is a float": Case(
        item(i=1.5), ("data.jsonl line 2", "field i:", "the number 1.5", "integer or a string")
    ),
    "an id that is a boolean": Case(item(i=True), ("data.jsonl line 2", "field i:", "the boolean true")),
    "an id that is null": Case(item(i=None), ("data.jsonl line 2", "field i:", "null", "integer or a string")),
    "an id beyond 64 bits": Case(item(i=2**70), ("data.jsonl", "line 2", str(2**70), "string")),
    "a lone surrogate": Case(item(src="\ud800"), ("data.jsonl line 2", "surrogate")),
    "nested beyond reason": Case(
        item(extra=0).replace('"extra": 0', '"extra": ' + "[" * 9999 + "]" * 9999), ("data.jsonl line 2", "nested")
    ),
    "our own field as a number": Case(lines({**ITEM, "aliquot": 5}), ("data.jsonl line 1", "'aliquot'", "5")),
    "judgments as an object": Case(
        item(judgments={"A": 1}), ("data.jsonl line 2", "field judgments:", '{"A": 1}', "list")
    ),
    "judgments as strings": Case(
        item(judgments=["good"]), ("data.jsonl line 2", "field judgments:", '["good"]', "list of")
    ),
    "a judgment that is a boolean": Case(judged(value=True), (*JUDGMENT, ".value", "the boolean true", "plain number")),
    "a judgment that is a word": Case(judged(value="good"), (*JUDGMENT, ".value", '"good"', "'label'")),
    "a judgment that is NaN": Case(judged(value=float("nan")), (*JUDGMENT, ".value", "nan", "null")),
    "a judgment beyond 64 bits": Case(judged(value=2**70), (*JUDGMENT, ".value", str(2**70))),
    "seconds that are a string": Case(judged(seconds="12s"), (*JUDGMENT, ".seconds", '"12s"', "plain number")),
    "a judgment on system 7": Case(judged(system=7), (*JUDGMENT, ".system", "the number 7", "name")),
    "a judgment on nothing": Case(judged(system=None), (*JUDGMENT, ".system", "null", "name")),
    "a list of annotators": Case(judged(annotator=["r1", "r2"]), (*JUDGMENT, ".annotator", '["r1", "r2"]')),
    "a judgment that names another item": Case(judged(item="seg9"), ("data.jsonl line 2", "judgments[0].item", "seg9")),
}


@check(ITEMS)
def test_broken_items(case, tmp_path, capsys):
    says_what_is_wrong(case, tmp_path, capsys)


# -- tables --------------------------------------------------------------------------------------------------------


def table(content: str | bytes, *says: str, file: str = "t.csv", options: Sequence[str] = ()) -> Case:
    """A broken table; what is wrong with the options alone need not name the file."""
    return Case(content, says if options else (file, *says), file, (*CONVERT, *options))


TABLES = {
    "a header only": table(LONG, "header", "no rows"),
    "no column item": table("system,metric,value\nA,BLEU,1\n", "column 'item'", "'segment_id'", "--read=item=NAME"),
    "no column system": table("item,metric,value\n1,BLEU,1\n", "column 'system'", "'metric'", "--read=system=NAME"),
    "judgments without value": table("item,system,rater\n1,A,r\n", "column 'value'", "'rating'", "--read=value=NAME"),
    "a row too long": table(LONG + "1,A,BLEU,1\n1,B,BLEU,2,3\n", "line 3", "5 fields", "has 4", "'1', 'B'"),
    "a row too short": table(LONG + "1,A,BLEU,1\n1,B,BLEU\n", "line 3", "3 fields", "has 4", "'1', 'B'"),
    "a ragged TSV": table(
        (LONG + "1,A,BLEU,1\n2,A\n").replace(",", "\t"), "line 3", "2 fields", "has 4", "'2', 'A'", file="t.tsv"
    ),
    "a text that begins with a quote": table(
        'item\tsystem\tvalue\toutput\n1\tA\t1\tx\n1\tB\t2\t"Go," he said\n2\tA\t3\ty\n', "line 3", "quote", file="t.tsv"
    ),
    "an open quote": table(LONG + '1,"A,BLEU,1\n1,B,BLEU,2\n', "line", "enclose the whole cell"),
    "the same column twice": table("item,system,value,value\n1,A,1,2\n", "'value'", "twice"),
    "two rows that disagree": table(
        LONG + "1,A,BLEU,1\n1,B,BLEU,2\n1,A,BLEU,3\n", "row 3", "item 1", "system A", "BLEU", "3", "row 1", "keep one"
    ),
    "wide rows that disagree": table(
        "item,system,BLEU,COMET\n1,A,1,2\n1,A,1,3\n", "row 2", "item 1", "system A", "COMET", "row 1", "keep one"
    ),
    "an item with two wide rows": table(
        "item,A,B\n1,1,2\n2,1,2\n1,3,4\n", "t.csv row 3", "item 1", "two rows", options=("--read", "wide=systems")
    ),
    "a value that is a word": table(
        LONG + "1,A,BLEU,1\n1,B,BLEU,high\n", "row 2", "'high'", "column 'value'", "not a number", "leave it empty"
    ),
    "a value that is infinite": table(LONG + "1,A,BLEU,inf\n", "row 1", "column 'value'", "inf", "leave it empty"),
    "a value with a separator of thousands": table(
        LONG.replace(",", ";") + "1;A;BLEU;1,500\n", "row 1", "'1,500'", "column 'value'", "thousands separators"
    ),
    "an empty item": table(LONG + "1,A,BLEU,1\n,A,BLEU,1\n", "row 2", "column 'item' is empty"),
    "an empty system": table(LONG + "1,,BLEU,1\n", "row 1", "column 'system' is empty"),
    "a cost that is a word": table(
        "item,system,metric,value,cost\n1,A,BLEU,1,dear\n", "row 1", "'dear'", "column 'cost'", "not a number"
    ),
    "a position that is a word": table(
        "item,system,metric,value,position\n1,A,BLEU,1,top\n", "row 1", "'top'", "column 'position'", "number"
    ),
    "a judgment that is a word": table("item,system,rater,score\n1,A,r,good\n", "row 1", "'good'", "not a number"),
    "seconds with a unit": table(
        "item,system,rater,score,seconds\n1,A,r,1,9s\n", "row 1", "'9s'", "column 'seconds'", "not a number"
    ),
    "systems or metrics?": table("item,A,B\n1,1,2\n", "'A', 'B'", "--read wide=systems", "wide=metrics"),
    "no numbers at all": table("item,system,remark\n1,A,nice\n", "'remark'", "numbers"),
    "no score columns": table("item,system\n1,A\n", "no column holds scores", "'item', 'system'"),
    "bad wide": table("item,A\n1,1\n", "wide", "'system'", "did you mean 'systems'", options=("--read", "wide=system")),
    "bad --read": table(LONG + "1,A,m,1\n", "--read item", "'item' has no key", options=("--read", "item")),
    "--columns with an unknown role": table(
        LONG + "1,A,m,1\n", "'itm'", "did you mean 'item'", "--read", options=("--read", "itm=item")
    ),
    "--columns with an unknown column": table(
        LONG + "1,A,m,1\n",
        "t.csv",
        "unknown column 'points'",
        "'metric', 'value'",
        options=("--read", "value=points"),
    ),
    "--columns with one column twice": table(
        LONG + "1,A,m,1\n", "'value'", options=("--read", "item=value,value=value")
    ),
    "a Parquet table of lists": table(
        parquet(pl.DataFrame({"item": [1], "system": ["A"], "value": [[1.0]]})),
        "column 'value'",
        "not a number",
        file="t.parquet",
    ),
    "a Parquet table without rows": table(
        parquet(pl.DataFrame(schema={"item": pl.Int64, "system": pl.String, "value": pl.Float64})),
        "no rows",
        file="t.parquet",
    ),
    "Parquet items with a score that is a word": table(
        parquet(pl.DataFrame({"i": [1], "scores": [{"A": {"COMET": "high"}}]})),
        "scores.A.COMET",
        "high",
        "number",
        file="t.parquet",
    ),
    "Parquet items with one id twice": table(
        parquet(pl.DataFrame({"i": [1, 1], "tgt": [{"A": "x"}] * 2})), "'1'", "twice", "unique", file="t.parquet"
    ),
}


@check(TABLES)
def test_broken_table(case, tmp_path, capsys):
    says_what_is_wrong(case, tmp_path, capsys)


# -- MQM, SummEval, mt-metrics-eval --------------------------------------------------------------------------------


def mqm(content: str, *says: str, weights: str | None = None) -> Case:
    options = () if weights is None else ("--read", f"mqm-weights={weights}")
    return Case(content, says, "mqm.tsv", (*CONVERT, *options))


def mtme(files: Mapping[str, str], *says: str, options: Sequence[str] = ()) -> Case:
    return Case(files, says, "wmt", (*CONVERT, *options))


SEVERAL_PAIRS = {**folder(), "sources/en-cs.txt": "jedna\n", "system-outputs/en-cs/A.txt": "a\n"}

PUBLISHED = {
    "MQM, unknown severity": mqm(
        MQM_HEADER + MQM_ROW + MQM_ROW.replace("Major", "Huge"), "mqm.tsv line 3", "'Huge'", "minor, major"
    ),
    "MQM, ragged row": mqm(
        MQM_HEADER + MQM_ROW + "A\td1\t1\n", "mqm.tsv line 3", "3 fields", "has 9", "correct the row"
    ),
    "MQM without targets": mqm(
        (MQM_HEADER + MQM_ROW).replace("target", "translated"), "mqm.tsv", "lacks a column 'target'", "'translated'"
    ),
    "MQM, a header only": mqm(MQM_HEADER, "mqm.tsv", "header", "no rows"),
    "MQM, only controls": mqm(MQM_HEADER + MQM_ROW.replace("Major", "HOTW-test"), "mqm.tsv", "HOTW"),
    "MQM weight misspelt": mqm(MQM_HEADER + MQM_ROW, "mqm-weights", "'mayor'", "'major'", weights="mayor=5"),
    "MQM weight without number": mqm(MQM_HEADER + MQM_ROW, "'major'", "major=5", weights="major"),
    "MQM weight NaN": mqm(MQM_HEADER + MQM_ROW, "mqm-weights is", "major=nan", weights="major=nan"),
    "MQM weight infinite": mqm(MQM_HEADER + MQM_ROW, "mqm-weights is", "major=inf", weights="major=inf"),
    "SummEval without model_id": Case(summary(model_id=None), ("data.jsonl line 2", "'model_id'", "missing")),
    "SummEval without id": Case(summary(id=None), ("data.jsonl line 2", "'id'", "missing")),
    "SummEval, a score that is a string": Case(
        summary(expert_annotations=[{"coherence": "4"}]),
        ("data.jsonl line 2", "expert_annotations", "coherence", "'4'", "number"),
    ),
    "SummEval, a score that is a boolean": Case(
        summary(turker_annotations=[{"coherence": True}]), ("data.jsonl line 2", "turker_annotations", "True", "number")
    ),
    "SummEval, annotations as a string": Case(
        summary(expert_annotations="4"), ("data.jsonl line 2", "expert_annotations", "list")
    ),
    "SummEval, annotations as numbers": Case(
        summary(expert_annotations=[4]), ("data.jsonl line 2", "expert_annotations", "4")
    ),
    "SummEval, references as a number": Case(summary(references=5), ("data.jsonl line 2", "references", "5", "list")),
    "SummEval, a text that is a number": Case(summary(text=5), ("data.jsonl line 2", "text", "5")),
    "SummEval, an output that is a number": Case(summary(decoded=5), ("data.jsonl line 2", "decoded", "5")),
    "SummEval, nobody annotated": Case(
        lines({**SUMMARY, "expert_annotations": []}), ("data.jsonl", "expert_annotations")
    ),
    "SummEval, one summary twice": Case(lines(SUMMARY, SUMMARY), ("data.jsonl line 2", "d1", "M1", "twice")),
    "SummEval, not JSON": Case(summary() + "{\n", ("data.jsonl line 3", "not valid JSON")),
    "WMT, outputs too short": mtme(
        folder({f"{OUTPUTS}/A.txt": "a1\n"}), "system-outputs/en-de/A.txt", "1 lines", "sources have 2", "line by line"
    ),
    "WMT, a reference too long": mtme(
        folder({"references/en-de.refA.txt": "1\n2\n3\n"}), "references/en-de.refA.txt", "3 lines", "sources have 2"
    ),
    "WMT, scores too short": mtme(
        folder({MQM_SCORES: "A\t0\nB\t1\nB\t2\n"}),
        "en-de.mqm.seg.score",
        "1 scores",
        "'A'",
        "2",
    ),
    "WMT, a score that is a word": mtme(
        folder({MQM_SCORES: "A\t0\nA\tgood\n"}), "mqm.seg.score line 2", "'good'", "None"
    ),
    "WMT, a score that is infinite": mtme(
        folder({MQM_SCORES: "A\t0\nA\tinf\n"}), "mqm.seg.score line 2", "infinite", "None"
    ),
    "WMT, a score without system": mtme(
        folder({MQM_SCORES: "A\t0\n0.5\n"}),
        "mqm.seg.score line 2",
        "SYSTEM<tab>SCORE",
        "'0.5'",
    ),
    "WMT, documents without domain": mtme(
        folder({"documents/en-de.docs": "news\td1\nd2\n"}), "en-de.docs line 2", "DOMAIN<tab>DOCUMENT", "d2"
    ),
    "WMT without outputs": mtme(
        folder({f"{OUTPUTS}/A.txt": None, f"{OUTPUTS}/B.txt": None, f"{OUTPUTS}/readme": ""}),
        "wmt",
        "system-outputs/en-de",
    ),
    "WMT without sources": mtme(
        {"sources/readme": "", "system-outputs/en-de/A.txt": "a\n"}, "wmt", "sources/", "mt-metrics-eval"
    ),
    "WMT, unknown pair": mtme(
        folder(), "unknown language pair 'en-dd'", "did you mean 'en-de'", options=("--read", "pair=en-dd")
    ),
    "WMT, several pairs": mtme(SEVERAL_PAIRS, "wmt", "2 language pairs", "'en-cs', 'en-de'", "pair"),
}


@check(PUBLISHED)
def test_broken_published_format(case, tmp_path, capsys):
    says_what_is_wrong(case, tmp_path, capsys)


# -- options and usage ---------------------------------------------------------------------------------------------

WHOLE_FILE = item()
TWO_HUMANS = lines({**ITEM, "scores": {"A": {"mqm": -1, "da": 70}, "B": {"mqm": -2, "da": 60}}})


def option(*options: str, says: Sequence[str], content: str = WHOLE_FILE, out: str = "out.jsonl") -> Case:
    return Case(content, tuple(says), arguments=(*CONVERT, *options), out=out)


def synth(*options: str, says: Sequence[str]) -> Case:
    items = () if "--items" in options else ("--items", "20")
    return Case(None, tuple(says), arguments=("demo", "synth", "-o", "{out}", *items, *options))


OPTIONS = {
    "human score named differently": option(
        "--human", "human", content=TWO_HUMANS, says=("data.jsonl", "unknown score 'human'", "'mqm', 'da'", "--human")
    ),
    "human score misspelt": option(
        "--human", "Human", says=("unknown score 'Human'", "did you mean 'human'", "--human")
    ),
    "unknown system in --exclude": option(
        "--exclude", "a", says=("unknown system 'a'", "did you mean 'A'", "'A', 'B'", "--read exclude")
    ),
    "unknown system in --systems": option(
        "--systems", "A,sysC", says=("unknown system 'sysC'", "'A', 'B'", "--systems")
    ),
    "no system left": option("--exclude", "A,B", says=("no system is left", "--systems", "--read exclude")),
    "--systems with nothing": option("--systems", " , ", says=("no system is left", "--systems")),
    "--lower-is-better unknown": option(
        "--lower-is-better", "TER", says=("unknown score 'TER'", "'human', 'COMET'", "--read lower-is-better")
    ),
    "flipped twice": option(
        "--lower-is-better",
        "COMET",
        says=("'COMET'", "already flipped"),
        content=lines({**ITEM, "aliquot": {"flipped": ["COMET"]}}),
    ),
    "bad --format": option("--format", "jsonl", says=("--read format is 'jsonl'", "'items', 'mtme', 'mqm'")),
    "--format mtme on a file": option("--format", "mtme", says=("data.jsonl", "is a file", "folder")),
    "--format summeval on items": option("--format", "summeval", says=("data.jsonl line 1", "'id'", "SummEval")),
    "unknown ending of OUT": option(says=("out.xlsx", "unknown ending", ".jsonl", ".parquet", ".csv"), out="out.xlsx"),
    "a WMT folder without sources": option(says=("sources", ".jsonl"), out="out"),
    "bad --what": option("--what", "texts", says=("'texts'", "'scores', 'judgments'", "--what"), out="out.csv"),
    "no judgments to write": option("--what", "judgments", says=("no judgments",), out="out.csv"),
    "no scores to write": option(content=lines({"i": 0, "tgt": {"A": "x"}}), says=("no scores",), out="out.csv"),
    "unknown ending of -o": Case(
        item(), ("out.txt", "ending", ".csv", ".json"), arguments=("inspect", "{in}", "-o", "{out}"), out="out.txt"
    ),
    "unknown verb": Case(None, ("inspct", "inspect", "--help"), arguments=("inspct", "data.jsonl")),
    "unknown option": Case(
        item(), ("--humn", "--human", "aliquot inspect --help"), arguments=("inspect", "{in}", "--humn", "x")
    ),
    "missing argument": Case(None, ("DATA", "aliquot inspect --help"), arguments=("inspect",)),
    "missing OUT": Case(item(), ("name a path to write to", "--to"), arguments=("convert", "{in}")),
    "one argument too many": Case(item(), ("more.jsonl",), arguments=(*CONVERT, "more.jsonl")),
    "a seed that is a word": Case(item(), ("--seed", "integer"), arguments=("inspect", "{in}", "--seed", "lucky")),
    "an option without its value": Case(item(), ("--human",), arguments=("inspect", "{in}", "--human")),
    "synth without -o": Case(
        None,
        ("--output", "aliquot demo synth --help"),
        arguments=(
            "demo",
            "synth",
        ),
    ),
    "synth, correlation beyond 1": synth("--metrics", "COMET=1.5", says=("COMET=1.5", "-1 to 1")),
    "synth, correlation NaN": synth("--metrics", "COMET=nan", says=("COMET=nan", "-1 to 1")),
    "synth, correlation as a word": synth("--metrics", "COMET=good", says=("--metrics", "'COMET=good'", "COMET=0.6")),
    "synth, a metric without name": synth("--metrics", "=0.5", says=("--metrics", "'=0.5'")),
    "synth, a metric called human": synth("--metrics", "human=0.5", says=("--metrics", "'human'")),
    "synth, unknown protocol": synth("--protocol", "mqn", says=("--protocol", "'mqn'", "'mqm'", "'likert'")),
    "synth, zero items": synth("--items", "0", says=("--items is 0", "at least 1")),
    "synth, zero systems": synth("--systems", "0", says=("--systems is 0", "at least 1")),
    "synth, nine domains": synth("--domains", "9", says=("domains", "9", "0 to 4")),
    "synth, fewer annotators than judgments": synth(
        "--annotators", "2", "--judgments-per-output", "3", says=("judgments", "3", "1 to 2")
    ),
    "synth, negative annotators": synth("--annotators", "-1", says=("annotators", "-1", "0")),
    "synth, negative seed": synth("--seed", "-1", says=("seed", "-1")),
    "synth, document length NaN": synth("--document-length", "nan", says=("document", "nan")),
    "synth, document length infinite": synth("--document-length", "inf", says=("document", "inf")),
    "demo, negative seed": Case(None, ("seed", "-1"), arguments=("demo", "-o", "{out}", "--seed", "-1"), out="demo"),
}


@check(OPTIONS)
def test_bad_options(case, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    says_what_is_wrong(case, tmp_path, capsys)


# -- output that cannot be written ---------------------------------------------------------------------------------

UNWRITABLE = {
    "a folder as OUT": Case(item(), ("out.jsonl", "is a folder", "name a file"), code=1),
    "a folder as -o": Case(
        item(), ("out.jsonl", "is a folder", "name a file"), arguments=("inspect", "{in}", "-o", "{out}"), code=1
    ),
    "a folder with other things in it": Case(
        item(), ("out:", "other things", "new folder"), arguments=CONVERT, out="out", code=1
    ),
    "below a file": Case(
        item(), ("data.jsonl/out.jsonl", "cannot be written", "-o"), out="data.jsonl/out.jsonl", code=1
    ),
    "where nobody may write": Case(
        item(), ("/proc/out.jsonl", "cannot be written"), arguments=("convert", "{in}", "/proc/out.jsonl"), code=1
    ),
    "synth where nobody may write": Case(
        None, ("/proc/out.jsonl", "cannot be written"), arguments=("demo", "synth", "-o", "/proc/out.jsonl"), code=1
    ),
}


@check(UNWRITABLE)
def test_unwritable_output(case, tmp_path, capsys):
    if "folder" in " ".join(case.says):
        (tmp_path / case.out).mkdir()
        (tmp_path / case.out / "holiday.jpg").write_bytes(b"jpg")
    says_what_is_wrong(case, tmp_path, capsys)


# -- odd, and accepted ---------------------------------------------------------------------------------------------


def scores_are(name: str, values: Sequence[Sequence[float]]) -> Callable[[EvalSet], bool]:
    return lambda data: np.array_equal(data.scores[name], np.array(values), equal_nan=True)


NAN = float("nan")
WHOLE = scores_are("COMET", [[0.5, 0.75], [0.5, 0.75]])

ODD: dict[str, tuple[Case, Callable[[EvalSet], bool]]] = {
    "a byte-order mark": (Case(b"\xef\xbb\xbf" + item().encode(), ()), WHOLE),
    "CRLF": (Case(item().replace("\n", "\r\n"), ()), WHOLE),
    "byte-order mark and CRLF in a table": (
        Case(b"\xef\xbb\xbf" + (LONG + "1,A,BLEU,1\n1,B,BLEU,2\n").replace("\n", "\r\n").encode(), (), "t.csv"),
        scores_are("BLEU", [[1, 2]]),
    ),
    "CRLF in MQM": (
        Case((MQM_HEADER + MQM_ROW).replace("\n", "\r\n"), (), "mqm.tsv"),
        lambda data: data.scores["human"].item() == -5.0 and data.systems == ("A",),
    ),
    "CRLF in a WMT folder": (
        Case({name: text.replace("\n", "\r\n") for name, text in folder().items()}, (), "wmt"),
        lambda data: data.items["source"].to_list() == ["eins", "zwei"] and data.scores["COMET"][1, 1] == 0.6,
    ),
    "empty lines": (Case("\n" + item().replace("\n", "\n\n  \n"), ()), WHOLE),
    "no line feed at the end": (Case(item().rstrip(), ()), WHOLE),
    "gzip without the ending": (Case(gzip.compress(item().encode()), ()), WHOLE),
    "a JSON array": (Case(json.dumps([ITEM, {**ITEM, "i": 1}], indent=1), ()), WHOLE),
    "a metric only on some systems": (
        Case(item(scores={"A": {"COMET": 0.5}, "B": {"human": 1}}), ()),
        scores_are("COMET", [[0.5, 0.75], [0.5, NAN]]),
    ),
    "null scores": (Case(scored(None), ()), scores_are("COMET", [[0.5, 0.75], [NAN, 0.75]])),
    "a system that is null": (
        Case(item(scores={"A": None, "B": {"COMET": 1}}), ()),
        scores_are("COMET", [[0.5, 0.75], [NAN, 1]]),
    ),
    "an item lacks one system": (
        Case(item(tgt={"A": "x"}, scores={"A": {"COMET": 0.5}}), ()),
        scores_are("COMET", [[0.5, 0.75], [0.5, NAN]]),
    ),
    "systems named by judgments only": (
        Case(lines({"i": 0, "judgments": [{"system": "A", "value": 1}]}), ()),
        lambda data: data.systems == ("A",) and data.judgments is not None and len(data.judgments) == 1,
    ),
    "ids of both kinds, judged": (
        Case(
            lines(
                {**ITEM, "judgments": [{"system": "A", "value": 1}]}, {**ITEM, "i": "x", "judgments": [{"system": "A"}]}
            ),
            (),
        ),
        lambda data: data.judgments is not None and data.judgments.table["item"].to_list() == data.ids == ["0", "x"],
    ),
    "annotators of both kinds": (
        Case(item(judgments=[{"system": "A", "annotator": 1, "value": 1}, {"system": "A", "annotator": "b"}]), ()),
        lambda data: data.judgments is not None and data.judgments.annotators == ["1", "b"],
    ),
    "a system named twice in --systems": (
        Case(item(), (), arguments=(*CONVERT, "--systems", "A,A")),
        scores_are("COMET", [[0.5], [0.5]]),
    ),
    "semicolons": (
        Case(LONG.replace(",", ";") + "1;A;BLEU;1\n1;B;BLEU;2\n", (), "t.csv"),
        scores_are("BLEU", [[1, 2]]),
    ),
    "two rows that agree": (Case(LONG + "1,A,BLEU,1\n1,A,BLEU,1\n", (), "t.csv"), scores_are("BLEU", [[1]])),
    "a value and an empty one": (Case(LONG + "1,A,BLEU,1\n1,A,BLEU,\n", (), "t.csv"), scores_are("BLEU", [[1]])),
    "an empty value and one": (Case(LONG + "1,A,BLEU,\n1,A,BLEU,1\n", (), "t.csv"), scores_are("BLEU", [[1]])),
    "missing values of all kinds": (
        Case(LONG + "1,A,m,NA\n2,A,m,nan\n3,A,m,None\n4,A,m,\n5,A,m,null\n6,A,m,2\n", (), "t.csv"),
        scores_are("m", [[NAN], [NAN], [NAN], [NAN], [NAN], [2]]),
    ),
    "spaces after the commas": (
        Case("item, system, metric, value\n1, A, BLEU, 0.5\n", (), "t.csv"),
        lambda data: data.systems == ("A",) and data.scores["BLEU"].item() == 0.5,
    ),
    "MQM where a system lacks the first segment": (
        Case(MQM_HEADER + MQM_ROW + MQM_ROW.replace("A\td1\t1\t1", "B\td1\t1\t2"), (), "mqm.tsv"),
        scores_are("human", [[-5, NAN], [NAN, -5]]),
    ),
    "SummEval, nothing answered at first": (
        Case(
            lines(
                *(
                    {**SUMMARY, "id": f"d{i}", "expert_annotations": [{"fluency": None if i < 150 else 2}]}
                    for i in range(160)
                )
            ),
            (),
        ),
        lambda data: int(np.isfinite(data.scores["human"]).sum()) == 10,
    ),
}


@pytest.mark.parametrize(("case", "holds"), [pytest.param(*odd, id=name) for name, odd in ODD.items()])
def test_odd_but_accepted(case, holds, tmp_path, capsys):
    arguments = case.place(tmp_path)
    assert run(arguments) == 0, capsys.readouterr().err
    assert holds(load(tmp_path / case.out))


def test_names_with_markup_are_shown_as_they_are(tmp_path, capsys):
    """Square brackets mean something to the library that prints tables, and nothing in a name."""
    names = {"[/b]A": "x", "B [beta]": "y", ":smile:": "z"}
    content = lines({"i": 0, "tgt": names, "scores": {name: {"BLEU[1]": 1} for name in names}})
    (tmp_path / "d[red].jsonl").write_text(content)
    assert run(["inspect", str(tmp_path / "d[red].jsonl")]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in [*names, "BLEU[1]", "d[red]"])


@pytest.mark.skipif(not Path("/dev/fd").is_dir(), reason="needs /dev/fd")
def test_a_pipe_is_read_whole(tmp_path, capsys):
    """`aliquot convert <(zcat data.jsonl.gz) out.jsonl`: what is read to tell the format must not be lost."""
    reading, writing = os.pipe()
    os.write(writing, item().encode())
    os.close(writing)
    assert run(["convert", f"/dev/fd/{reading}", str(tmp_path / "out.jsonl")]) == 0, capsys.readouterr().err
    os.close(reading)
    assert load(tmp_path / "out.jsonl").ids == [0, 1]


def test_at_least_fifty_broken_inputs():
    assert sum(map(len, (UNREADABLE, ITEMS, TABLES, PUBLISHED, OPTIONS, UNWRITABLE))) >= 150
