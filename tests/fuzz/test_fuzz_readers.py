"""Every reader on damaged files: an AliquotError or an OSError, or it reads; nothing else, and no hang.

Files that are whole are damaged at random: bytes flipped, cut, doubled, and tokens put in that break parsers (numbers
of 400 digits, NaN, deep nesting, halves of characters). `make test` damages each file by the same seeds on every day
and every machine. `make fuzz` explores: it begins at another seed each time (ALIQUOT_FUZZ_FIRST), which it prints, and
goes on for half a minute a reader (ALIQUOT_FUZZ_SECONDS). A failure names the reader and the seed; ALIQUOT_FUZZ_SEED
runs that seed alone.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import gzip
import hashlib
import io
import itertools
import json
import os
import random
import shutil
import signal
import sqlite3
import tarfile
import tempfile
import time
import traceback
import warnings
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.io import exports, inspect_files, observability, promptfoo_results, test_label_studio_pairs, test_lm_eval

import aliquot
from aliquot.core.selection import Selection
from aliquot.errors import AliquotError
from aliquot.io.download import unpack_archive
from aliquot.io.journal import journal_path, open_journal
from aliquot.report import datasheet
from aliquot.sampling.source_model import SourceModel

SECONDS = float(os.environ.get("ALIQUOT_FUZZ_SECONDS", "0"))  # 0: a fixed number of seeds instead
SEED = os.environ.get("ALIQUOT_FUZZ_SEED")
FIRST = int(os.environ.get("ALIQUOT_FUZZ_FIRST", "0"))
CASES = 200
HANG = 120  # seconds; a loaded machine takes a few for the largest file

TOKENS = [
    b"null",
    b"NaN",
    b"Infinity",
    b"-1",
    b"1e999",
    b"1" + b"0" * 400,
    b"1e-400",
    b"true",
    b"[]",
    b"{}",
    b'""',
    b'"',
    b"'",
    b",",
    b":",
    b"\t",
    b"\n",
    b"\r\n",
    b";",
    b"[" * 3000,
    b'{"a":' * 1500,
    b"\x00",
    b"\xff",
    b"\xed\xa0\x80",
    b"\xf0\x9f",
    b"\xef\xbb\xbf",
    b"\x1b[2J",
    b"9223372036854775808",
    b"-0.0",
    b"\xe2\x80\xa8",
    b'"i":',
    b'"i":1,',
    b'"value":',
    b"=1+1",
    b"None",
    b"--",
    b"../",
    b"\\u0000",
    b"\\ud800",
    b"PAR1",
    b"\x1f\x8b",
    b"PK\x03\x04",
    b"#",
    b"[[criterion]]",
    b" ",
]


def damaged(raw: bytes, seed: int) -> bytes:
    """One to six changes of a file, by the seed alone."""
    rng = random.Random(seed)
    data = bytearray(raw)
    for _ in range(rng.choice([1, 1, 2, 3, 6])):
        at, size = rng.randrange(len(data) + 1), rng.choice([1, 1, 2, 8, 40, 400])
        kind = rng.randrange(8)
        if kind == 0 and data:
            data[at % len(data)] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at : at + size] = rng.randbytes(min(size, 8))
        elif kind == 2:
            del data[at : at + size]
        elif kind == 3:
            data[at:at] = data[max(0, at - size) : at]
        elif kind == 4:
            data[at:at] = rng.choice(TOKENS)
        elif kind == 5:
            _swap_a_value(data, rng)
        elif kind == 6:
            lines = bytes(data).split(b"\n")
            rng.shuffle(lines)
            data = bytearray(b"\n".join(lines))
        else:
            del data[at:]
        if not data:
            break
    return bytes(data)


def _swap_a_value(data: bytearray, rng: random.Random) -> None:
    """Put a token in the place of what stands between two separators: the file stays well formed more often."""
    marks = [at for at, byte in enumerate(data) if byte in b",:\t;{}[]\n"]
    if len(marks) > 1:
        at = rng.randrange(len(marks) - 1)
        data[marks[at] + 1 : marks[at + 1]] = rng.choice(TOKENS)


# -- readers, each with whole files to begin with ------------------------------------------------------------------


@dataclass(frozen=True)
class Target:
    """A file's name, how whole ones look, and what reads it."""

    name: str
    whole: Callable[[Path], list[bytes]]
    read: Callable[[Path], object]


DATA = aliquot.synthetic(items=8, systems=3, annotators=3, seed=5)
LIKERT = aliquot.synthetic(items=8, systems=2, protocol="likert", annotators=2, judgments_per_output=2, seed=5)


def saved(name: str, *sets: aliquot.EvalSet, **options: Any) -> Callable[[Path], list[bytes]]:
    def whole(folder: Path) -> list[bytes]:
        found = []
        for data in sets:
            aliquot.save(data, folder / name, **options)
            found.append((folder / name).read_bytes())
        return found

    return whole


def summeval(_: Path) -> list[bytes]:
    answers = {"coherence": 4, "fluency": 5}
    whole = {
        "decoded": "a summary",
        "text": "an article",
        "references": ["a reference"],
        "expert_annotations": [answers, answers],
        "turker_annotations": [answers],
    }
    lines = [{"id": f"d{i}", "model_id": f"M{m}", **whole} for i in range(3) for m in range(2)]
    return ["".join(json.dumps(line) + "\n" for line in lines).encode()]


def mqm(_: Path) -> list[bytes]:
    header = "system\tdoc\tdoc_id\tseg_id\trater\tsource\ttarget\tcategory\tseverity\n"
    rows = [
        f"{s}\td1\t1\t{i}\tr{i % 2}\tein Satz\ta <v>bad</v> one\tAccuracy/Mistranslation\tMajor\n"
        for i in range(4)
        for s in "AB"
    ]
    return [(header + "".join(rows)).encode()]


def sheet(_: Path) -> list[bytes]:
    import openpyxl  # type: ignore[import-untyped]

    book = openpyxl.Workbook()
    for row in (("item", "system", "annotator", "score"), (1, "A", "x", 3.5), (1, "B", "x", 4), (2, "A", "y", None)):
        book.active.append(row)
    out, undated = io.BytesIO(), io.BytesIO()
    book.save(out)
    with zipfile.ZipFile(out) as made, zipfile.ZipFile(undated, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in made.namelist():
            if name != "docProps/core.xml":  # it says when the sheet was made
                archive.writestr(zipfile.ZipInfo(name), made.read(name))
    return [undated.getvalue()]


def campaigns(folder: Path) -> list[bytes]:
    path = folder / "c.db"
    path.unlink(missing_ok=True)
    with contextlib.closing(sqlite3.connect(path)) as made, made:
        made.execute("CREATE TABLE meta (key TEXT, value TEXT)")
        made.execute("INSERT INTO meta VALUES ('schema', '2')")  # later ones carry checksums, which end most reading
        made.execute("CREATE TABLE units (id INTEGER, payload TEXT)")
        made.execute("CREATE TABLE events (id INTEGER)")
        made.execute("CREATE TABLE audit (id INTEGER, payload TEXT)")
        made.execute("CREATE TABLE choices (item TEXT, time REAL)")
        made.execute(
            "CREATE TABLE judgments (cell_id TEXT, item TEXT, system TEXT, annotator TEXT, value REAL, time REAL)"
        )
        cells = [(i, s) for i in range(20) for s in "AB"]
        rows = [(f"{i}{s}", json.dumps(f"i{i}"), s, "x", i + 0.5, 1.7e9 + i) for i, s in cells]
        made.executemany("INSERT INTO judgments VALUES (?, ?, ?, ?, ?, ?)", rows)
        outputs = [
            (at, json.dumps({"rows": [{"outputs": [{"cell": f"{i}{s}", "text": "a text"}]}]}))
            for at, (i, s) in enumerate(cells)
        ]
        made.executemany("INSERT INTO units VALUES (?, ?)", outputs)
    return [path.read_bytes()]


def archives(_: Path) -> list[bytes]:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, text in MTME.items():
            entry = tarfile.TarInfo(f"wmt/{name}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return [gzip.compress(out.getvalue(), compresslevel=level, mtime=0) for level in (0, 6)]


def unpack_wmt(path: Path) -> object:
    target = path.parent / "wmt"
    shutil.rmtree(target, ignore_errors=True)
    return unpack_archive(path, target)


def records(_: Path) -> list[bytes]:
    rows = [{"item": i, "system": s, "annotator": "x", "score": i + 0.5} for i in range(4) for s in "AB"]
    return ["".join(json.dumps(row) + "\n" for row in rows).encode(), json.dumps(rows).encode()]


def foreign(folder: Path) -> list[bytes]:
    """Parquet without our checksum."""
    assert DATA.judgments is not None
    DATA.judgments.table.write_parquet(folder / "t.parquet")
    long = (folder / "t.parquet").read_bytes()
    nested = pl.DataFrame(
        {"i": [1, 2], "scores": [{"A": {"m": 1.0}}, {"A": {"m": 2.0}}], "tgt": [{"A": "x"}, {"A": "y"}]}
    )
    nested.write_parquet(folder / "t.parquet")
    return [long, (folder / "t.parquet").read_bytes()]


def selections(folder: Path) -> list[bytes]:
    found = []
    for method, texts in (("pps", None), ("metric_var:metric=metricA", DATA), ("segments", None)):
        aliquot.select(DATA, method, 4, seed=1).save(folder / "s.jsonl", texts)
        found.append((folder / "s.jsonl").read_bytes())
    return found


def estimate_with(path: Path) -> object:
    return aliquot.estimate(DATA, selection=Selection.load(path))


def journals(folder: Path) -> list[bytes]:
    output = folder / "out.csv"
    with open_journal(output, "the run") as journal:
        journal.add("a", [{"x": 1.0, "y": None}])
        journal.add("b", [{"x": 2.0}], b"payload")
    raw = journal_path(output).read_bytes()
    journal_path(output).unlink()
    return [raw]


def read_journal(path: Path) -> object:
    with open_journal(path.with_name(path.name.removesuffix(".part")), "the run") as journal:
        return [journal.payload(key, 0, 10) for key in journal.done]


def models(folder: Path) -> list[bytes]:
    past = aliquot.synthetic(items=60, systems=3, seed=8)
    aliquot.learn(past).model.save(folder / "m.aliquot")
    return [(folder / "m.aliquot").read_bytes()]


def read_model(path: Path) -> object:
    return SourceModel.load(path).predict(["a source", None])


def model_payloads(folder: Path) -> list[bytes]:
    return [raw.partition(b"\n")[2] for raw in models(folder)]


def read_payload(path: Path) -> object:
    """A model whose checksum fits its damaged content, as someone may make on purpose."""
    raw = path.read_bytes()
    header = {
        "magic": "aliquot source model",
        "format": 1,
        "aliquot": "1",
        "bytes": len(raw),
        "sha256": hashlib.sha256(raw).hexdigest(),
    }
    path.write_bytes(json.dumps(header).encode() + b"\n" + raw)
    return read_model(path)


def datasheets(ending: str) -> Callable[[Path], list[bytes]]:
    def whole(folder: Path) -> list[bytes]:
        path = folder / f"sheet.{ending}"
        datasheet.new(DATA).save(path, force=True)
        return [path.read_bytes()]

    return whole


def results(_: Path) -> list[bytes]:
    chosen = aliquot.select(DATA, "pps", 5, seed=1)
    documents = [
        aliquot.estimate(DATA, selection=chosen).to_dict(),
        aliquot.agreement(LIKERT, bootstrap=0).to_dict(),
        aliquot.clean(LIKERT, "crowd").to_dict(),
        aliquot.plan(difference=1, sd=20).to_dict(),
    ]
    return [json.dumps(document, default=str).encode() for document in documents]


def exported(*names: str) -> Callable[[Path], list[bytes]]:
    """What annotation tools export, as their documentation says, and the key beside it."""

    def whole(folder: Path) -> list[bytes]:
        (folder / "key.csv").write_text(exports.key())
        return [exports.files()[name][1].encode() for name in names]

    return whole


def inspect_samples() -> list[dict[str, Any]]:
    """Samples with everything that the reader looks at."""
    edits = [{"value": "I"}, {"value": "C", "provenance": {"author": "ann", "timestamp": "now", "reason": "right"}}]
    scores = {"match": {"value": "C", "history": edits}, "rubric": {"value": {"tone": 3, "clear": "P"}}}
    usage = {"org/small": {"total_tokens": 24, "total_cost": 0.5}}
    whole: dict[str, Any] = {
        "scores": scores,
        "model_usage": usage,
        "total_time": 1.5,
        "metadata": {"topic": "sums", "level": 2},
    }
    question = [{"role": "user", "content": [{"type": "text", "text": "one?"}]}]
    return [
        inspect_files.sample(1, 1, **whole),
        inspect_files.sample(1, 2, input=question, target=["a", "b"], choices=["a", "b"]),
        inspect_files.sample("x", 1, error={"message": "gone"}, limit={"type": "token"}),
    ]


def inspect_documents(_: Path) -> list[bytes]:
    return [inspect_files.encode(inspect_files.log(inspect_samples()))]


def inspect_archives(_: Path) -> list[bytes]:
    document = inspect_files.log(inspect_samples())
    return [inspect_files.archive(document, method) for method in (0, 8, inspect_files.ZSTANDARD)]


def export(outputs: list[dict[str, Any]], scores: list[dict[str, Any]]) -> Callable[[Path], list[bytes]]:
    """What observability tools export, in one file: JSON lines, an array, and tables of each kind."""
    both = [*outputs, *scores]
    whole = [observability.to_lines(both), json.dumps(both), *map(observability.to_csv, (outputs, scores))]
    return lambda _: [content.encode() for content in whole]


def read_with_key(path: Path) -> object:
    try:
        return aliquot.load_judgments(path)
    except AliquotError:
        return aliquot.load_judgments(path, key=path.parent / "key.csv")


def read_key_of(path: Path) -> object:
    (path.parent / "o.jsonl").write_text(exports.files()["potato"][1])
    return aliquot.load_judgments(path.parent / "o.jsonl", key=path)


def lm_eval_file(pattern: str) -> Callable[[Path], list[bytes]]:
    """A file of what lm-evaluation-harness leaves; the others are whole."""

    def whole(folder: Path) -> list[bytes]:
        row = test_lm_eval.choice(0, [-1.5, -2, -3, -2, -1, -1], {"acc": 1.0, "brier_score": [1, "0.5"]})
        rows = [*test_lm_eval.two_filters([1.0, 0.0]), row | {"doc_id": 5}]
        place = test_lm_eval.write_run(folder, "m", {"t": rows}, t={"miss": False, "acc": True})
        return [next(place.glob(pattern)).read_bytes()]

    return whole


def promptfoo(_: Path) -> list[bytes]:
    rated = [promptfoo_results.result(3, 0, **promptfoo_results.human(False)), *promptfoo_results.results()]
    writers = promptfoo_results.document, promptfoo_results.lines, promptfoo_results.table, promptfoo_results.old_table
    return [write(rated).encode() for write in writers]


def mtme_file(text: str) -> Callable[[Path], list[bytes]]:
    """One file of a folder of mt-metrics-eval; the others are whole."""
    return lambda _: [text.encode()]


def read_mtme(path: Path) -> object:
    return aliquot.load(next(parent for parent in path.parents if (parent / "sources").is_dir()))


MTME = {
    "sources/en-de.txt": "eins\nzwei\n",
    "references/en-de.refA.txt": "one\ntwo\n",
    "documents/en-de.docs": "news\td1\nnews\td1\n",
    "system-outputs/en-de/A.txt": "a1\na2\n",
    "system-outputs/en-de/B.txt": "b1\nb2\n",
    "human-scores/en-de.mqm.seg.score": "A\t0\nA\t-1\nB\t-5\nB\tNone\n",
    "metric-scores/en-de/COMET-refA.seg.score": "A\t0.9\nA\t0.8\nB\t0.7\nB\t0.6\n",
}


def battles(_: Path) -> list[bytes]:
    rows = exports.arena()
    table = pl.DataFrame(rows).with_columns(pl.Series(name, [str(row[name]) for row in rows]) for name in exports.SIDES)
    return [exports.lines(rows).encode(), json.dumps(rows).encode(), table.write_csv().encode()]


def side_by_side(folder):  # noqa: ARG001
    tasks = [test_label_studio_pairs.task(prompt, test_label_studio_pairs.pairwise) for prompt in ("p1", "p2")]
    flat = {"annotation_id": 3, "annotator": 7, "lead_time": 3.5, "id": 1, "answer1": "x", "answer2": "y", "pw": "left"}
    return [json.dumps(tasks).encode(), json.dumps([flat | {"model_a": "A", "model_b": "B"}]).encode()]


def awkward_tables(folder):  # noqa: ARG001
    texts = (
        "Title;;;;;\n;;;;;\nsource;A;A score;B;B score;\nx;y;0,5;y;1;\nz;w;n/a;v;2;\n",
        "id,question,answer,llm,label,category\n1,Who?,I,A,pass,x\n2,Who?,You,B,fail,x\n",
        "id,Prompt,LLM,score,who\n1,x,A,3,a\n2,x,B,5,b\n3,y,A,4,a\n4,y,B,2,b\n",
    )
    return [text.encode() for text in texts]


TARGETS = {
    "items": Target("d.jsonl", saved("d.jsonl", DATA, LIKERT), aliquot.load),
    "items to a description": Target("d.jsonl", saved("d.jsonl", DATA), lambda path: aliquot.load(path).describe()),
    "items packed": Target("d.jsonl.gz", saved("d.jsonl.gz", DATA), aliquot.load),
    "parquet": Target("d.parquet", saved("d.parquet", DATA, LIKERT), aliquot.load),
    "parquet of others": Target("t.parquet", foreign, aliquot.load),
    "scores": Target("t.csv", saved("t.csv", DATA), aliquot.load),
    "judgments": Target("t.tsv", saved("t.tsv", DATA, LIKERT, what="judgments"), aliquot.load_judgments),
    "records": Target("t.jsonl", records, aliquot.load_judgments),
    "excel": Target("t.xlsx", sheet, aliquot.load_judgments),
    "campaigns": Target("c.db", campaigns, aliquot.load_judgments),
    "archives": Target("a.tgz", archives, unpack_wmt),
    "mqm": Target("m.tsv", mqm, aliquot.load),
    "summeval": Target("s.jsonl", summeval, aliquot.load),
    "selections": Target("s.jsonl", selections, Selection.load),
    "selections in use": Target("s.jsonl", selections, estimate_with),
    "journals": Target("out.csv.part", journals, read_journal),
    "models": Target("m.aliquot", models, read_model),
    "models with a fitting checksum": Target("p.aliquot", model_payloads, read_payload),
    "datasheets": Target("sheet.toml", datasheets("toml"), datasheet.load),
    "datasheets in JSON": Target("sheet.json", datasheets("json"), datasheet.load),
    "results": Target("r.json", results, lambda path: datasheet.new(DATA, results=[path])),
    "tool pearmut": Target("p.json", exported("pearmut", "pearmut download"), read_with_key),
    "tool appraise": Target("a.csv", exported("appraise", "appraise json"), read_with_key),
    "tool label studio": Target(
        "l.json", exported("label studio", "label studio min", "label studio csv"), read_with_key
    ),
    "label studio, side by side": Target(
        "l.json", side_by_side, lambda path: (aliquot.load(path), aliquot.compare(path))
    ),
    "tables side by side": Target("t.csv", awkward_tables, lambda path: aliquot.load(path).describe()),
    "tool potato": Target("o.jsonl", exported("potato", "potato 1", "potato csv"), read_with_key),
    "tool others": Target("g.json", exported("prodigy", "argilla", "argilla flat", "argilla 1"), read_with_key),
    "arena": Target("b.jsonl", battles, lambda path: (aliquot.load(path), aliquot.compare(path))),
    "wmt25": Target(
        "w.jsonl", lambda _: [exports.lines(exports.wmt25()).encode()], lambda path: aliquot.load(path, pair="en-cs")
    ),
    "log lm-eval": Target(f"m/samples_t_{test_lm_eval.TIME}.jsonl", lm_eval_file("samples*"), aliquot.load),
    "log lm-eval results": Target(
        f"m/results_{test_lm_eval.TIME}.json", lm_eval_file("results*"), lambda path: aliquot.load(path.parent)
    ),
    "log inspect": Target("i.json", inspect_documents, aliquot.load),
    "log inspect eval": Target("i.eval", inspect_archives, aliquot.load),
    "tool langfuse": Target(
        "s.json", export(observability.langfuse_observations(), observability.langfuse_scores()), aliquot.load
    ),
    "tool langsmith": Target(
        "s.json", export(observability.langsmith_runs(), observability.langsmith_feedback()), aliquot.load
    ),
    "tool key": Target("key.csv", lambda _: [exports.key().encode()], read_key_of),
    "promptfoo": Target("p.json", promptfoo, aliquot.load),
    **{f"mtme {name.split('/')[0]}": Target(name, mtme_file(text), read_mtme) for name, text in MTME.items()},
}


# -- the tests -----------------------------------------------------------------------------------------------------


class HangError(Exception):
    """A reader that takes too long."""


@contextlib.contextmanager
def alarm() -> Iterator[None]:
    def ring(*_: object) -> None:
        raise HangError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, HANG)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def holds(target: Target, path: Path, content: bytes, about: str) -> None:
    path.write_bytes(content)
    message = "read"
    try:
        with alarm(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            target.read(path)
    except (AliquotError, OSError) as error:
        message = str(error)
    except BaseException as error:  # noqa: BLE001  (panics of Polars are no Exceptions)
        kept = Path(os.environ.get("ALIQUOT_FUZZ_KEEP", tempfile.gettempdir())) / f"fuzz-{path.name}"
        kept.write_bytes(content)
        pytest.fail(
            f"{about} ({kept}): {type(error).__name__}: {error}\n" + "".join(traceback.format_exception(error)[-6:])
        )
    assert message, about


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_files(name, tmp_path):
    target = TARGETS[name]
    for other, text in MTME.items() if name.startswith("mtme") else ():
        (tmp_path / other).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / other).write_text(text)
    whole = target.whole(tmp_path)
    path = tmp_path / target.name
    for raw in whole:
        path.write_bytes(raw)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            target.read(path)  # whole files are read, or this test proves nothing
    for seed in seeds(SECONDS / (4 if name.startswith(("mtme", "tool")) else 1)):
        holds(target, path, damaged(whole[seed % len(whole)], seed), f"{name}: ALIQUOT_FUZZ_SEED={seed}")


def seeds(seconds: float) -> Iterator[int]:
    """The one that was asked for, or the fixed ones, or as many as the time allows."""
    if SEED is not None or not seconds:
        yield from range(CASES) if SEED is None else [int(SEED)]
        return
    until = time.monotonic() + seconds
    yield from itertools.takewhile(lambda _: time.monotonic() < until, itertools.count(FIRST))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
FIELDS = [
    "i",
    "src",
    "tgt",
    "scores",
    "judgments",
    "doc",
    "cost",
    "aliquot",
    "selection",
    "id",
    "model_id",
    "expert_annotations",
    "item",
    "system",
    "value",
    "annotator",
    "A",
    "human",
    "data",
    "annotations",
    "result",
    "labels",
    "spans",
    "instance_id",
    "user_id",
    "responses",
    "fields",
    "answer",
    "_task_hash",
    "annotation",
    "item_i",
    "accept",
]
OBJECTS = st.dictionaries(
    st.sampled_from(FIELDS), VALUES | st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=3)
)


@settings(max_examples=int(60 * max(3.0, SECONDS)))
@given(st.lists(OBJECTS, min_size=1, max_size=3))
def test_any_json(tmp_path_factory, objects):
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    content = "".join(json.dumps(one) + "\n" for one in objects).encode()
    for reader in (aliquot.load, aliquot.load_judgments, Selection.load):
        holds(Target("any.jsonl", lambda _: [], reader), path, content, f"{reader} of {content!r}")


@settings(max_examples=int(40 * max(3.0, SECONDS)))
@given(st.lists(st.lists(st.text(max_size=4), min_size=4, max_size=4), min_size=1, max_size=4))
def test_any_table(tmp_path_factory, rows):
    path = tmp_path_factory.getbasetemp() / "any.csv"
    text = "item,system,annotator,score\n" + "".join(",".join(row) + "\n" for row in rows)
    holds(
        Target("any.csv", lambda _: [], aliquot.load_judgments), path, text.encode("utf-8", "surrogatepass"), repr(text)
    )


def test_the_damage_is_the_same_for_a_seed():
    raw = bytes(np.arange(256, dtype=np.uint8)) * 4
    assert [damaged(raw, seed) for seed in range(20)] == [damaged(raw, seed) for seed in range(20)]
    assert sum(damaged(raw, seed) != raw for seed in range(50)) > 40


# -- what exploring found ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [83, 255])
def test_an_excel_file_of_a_future_zip_version_is_one_line(tmp_path, version):
    content = bytearray(sheet(tmp_path)[0])
    content[content.index(b"PK\x01\x02") + 6] = version  # what the first entry of the directory needs to be unpacked
    (tmp_path / "t.xlsx").write_bytes(content)
    with pytest.raises(AliquotError, match="damaged Excel or zip file"):
        aliquot.load_judgments(tmp_path / "t.xlsx")


@pytest.mark.parametrize(
    ("field", "value"), [("item", b"\xff"), ("item", "{"), ("time", 1e300), ("time", "now"), ("value", "high")]
)
def test_a_campaign_with_a_damaged_cell_is_one_line(tmp_path, field, value):
    campaigns(tmp_path)
    with contextlib.closing(sqlite3.connect(tmp_path / "c.db")) as made, made:
        made.execute(f"UPDATE judgments SET {field} = ? WHERE rowid = 3", [value])  # noqa: S608
    with pytest.raises(AliquotError, match="cannot be read as a campaign"):
        aliquot.load_judgments(tmp_path / "c.db")


def test_whole_files_are_the_same_on_every_day(tmp_path):
    """Otherwise the same seed does other damage tomorrow."""
    today = dt.datetime.now(dt.UTC).date()
    dates = [(today + dt.timedelta(days)).isoformat().encode() for days in (-1, 0, 1)]
    for name, target in TARGETS.items():
        for raw in target.whole(tmp_path):
            plain = gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw
            assert not any(date in plain for date in dates), name
            if raw.startswith(b"PK"):
                with zipfile.ZipFile(io.BytesIO(raw)) as archive:
                    assert {entry.date_time[0] for entry in archive.infolist()} == {1980}, name
