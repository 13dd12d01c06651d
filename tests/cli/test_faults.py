"""Faults that are nobody's spelling: endless files, bombs, deep nesting, caches, predictors, encodings, and our own.

`tests/cli/conftest.py` lets the boundary of the command line pass on what reaches it: no test of a user's mistake in
this folder can rely on it.
"""

from __future__ import annotations

import gzip
import json
import os
import sqlite3
import subprocess
import sys
import threading
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tests.cli.conftest import Call

import aliquot as library
from aliquot.cli import main
from aliquot.errors import AliquotWarning, FormatError, OptionError
from aliquot.io import files
from aliquot.sampling import text_vectors
from aliquot.sampling.sources import require_trusted_encoder

DEEP = 100_000


@pytest.fixture
def data(tmp_path: Path) -> Path:
    library.save(library.synthetic(items=20, systems=2, seed=1), tmp_path / "data.jsonl")
    return tmp_path / "data.jsonl"


# -- the boundary --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [RuntimeError("two\nlines \x1b[2J"), SystemExit(0), RecursionError(), KeyError("x")])
def test_a_fault_of_ours_is_one_line(capsys, monkeypatch, error, own_faults):
    def broken() -> None:
        raise error

    monkeypatch.setattr(main, "_own_fault", own_faults)
    monkeypatch.setattr(main, "_load_verb", lambda _: broken)
    code = main.run(["methods"])
    said = capsys.readouterr()
    assert (code, said.out) == (1, "")
    assert said.err.count("\n") == 1
    assert said.err.startswith(f"error: aliquot {library.__version__} failed ({type(error).__name__}")
    assert "\x1b" not in said.err
    assert "please report" in said.err
    with pytest.raises(type(error)):
        main.run(["--debug", "methods"])


def test_memory_that_is_not_there_is_no_fault_of_ours(capsys, monkeypatch):
    def broken() -> None:
        raise MemoryError

    monkeypatch.setattr(main, "_load_verb", lambda _: broken)
    assert main.run(["methods"]) == 1
    assert "not enough memory" in capsys.readouterr().err


@pytest.mark.parametrize("name", [None, "some.part"])
def test_an_error_of_the_system_names_the_file_or_what_was_done(capsys, monkeypatch, name):
    def broken() -> None:
        raise FileNotFoundError(2, "No such file or directory", name)

    monkeypatch.setattr(main, "_load_verb", lambda _: broken)
    assert main.run(["methods"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: some.part: No such" if name else "error: aliquot methods: No such file or directory")
    assert name is not None or "(in aliquot.cli.main.run)" in said


def test_a_working_folder_that_is_gone_is_told(aliquot, tmp_path, monkeypatch):
    """Once seen as `error: file: No such file or directory`."""
    (tmp_path / "pool.jsonl").write_text('{"i": 1, "src": "a"}\n{"i": 2, "src": "b"}\n')
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    said = aliquot("pool", "pool.jsonl", "-b", "1")
    assert (said.code, said.err.count("\n")) == (1, 1)
    assert said.err.startswith("error: the working folder was deleted")


# -- files without end, or with too much in them -------------------------------------------------------------------

ENTRIES = {
    "data": ("inspect", "{bad}"),
    "a selection": ("estimate", "{data}", "--selection", "{bad}"),
    "judgments": ("estimate", "{data}", "--judgments", "{bad}"),
    "a datasheet": ("datasheet", "check", "{bad}"),
    "a result": ("datasheet", "new", "{data}", "--results", "{bad}", "-o", "{data}.toml"),
    "a list of ids": ("select", "{data}", "--budget", "5", "--include", "@{bad}"),
}


def complaint(aliquot: Call, entry: str, data: Path, bad: Path) -> str:
    said = aliquot(*(word.format(data=data, bad=bad) for word in ENTRIES[entry]))
    assert said.code == 2, said.err
    assert said.err.count("\n") == 1
    return said.err


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_gzip_bomb_is_refused(aliquot, data, tmp_path, monkeypatch, entry):
    bad = tmp_path / ("bomb.toml" if entry == "a datasheet" else "bomb.jsonl.gz")
    bad.write_bytes(gzip.compress(bytes(50_000_000)))
    monkeypatch.setenv("ALIQUOT_MEMORY", "64M")
    assert "holds more than 32.0 MB (unpacked)" in complaint(aliquot, entry, data, bad)
    assert "ALIQUOT_MEMORY=64G" in complaint(aliquot, entry, data, bad)


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_device_is_refused(aliquot, data, entry):
    assert "is a device, which may never end" in complaint(aliquot, entry, data, Path("/dev/zero"))


@pytest.mark.parametrize("entry", ["data", "a selection", "judgments"])
def test_a_pipe_without_a_writer_is_told(aliquot, data, tmp_path, monkeypatch, entry):
    monkeypatch.setattr(files, "PIPE_TIMEOUT", 0.1)
    os.mkfifo(tmp_path / "pipe")
    assert "is a pipe that nobody writes to" in complaint(aliquot, entry, data, tmp_path / "pipe")


def test_a_pipe_is_read(aliquot, data, tmp_path):
    os.mkfifo(tmp_path / "pipe.jsonl")
    writer = threading.Thread(target=(tmp_path / "pipe.jsonl").write_bytes, args=(data.read_bytes(),))
    writer.start()
    said = aliquot("inspect", tmp_path / "pipe.jsonl", "--json")
    writer.join()
    assert said.json["items"] == 20


@pytest.mark.parametrize("entry", [entry for entry in ENTRIES if entry != "a list of ids"])
@pytest.mark.parametrize(
    "text", ["[" * DEEP, '{"a":' * DEEP, '{"i": 0, "x": ' + "[" * DEEP], ids=["lists", "objects", "field"]
)
def test_deep_nesting(aliquot, data, tmp_path, entry, text):
    bad = tmp_path / "deep.json"
    bad.write_text(text)
    complaint(aliquot, entry, data, bad)


def test_deep_toml(aliquot, tmp_path):
    (tmp_path / "deep.toml").write_text("a = " + "[" * DEEP)
    assert aliquot("datasheet", "check", tmp_path / "deep.toml").code == 2


@pytest.mark.parametrize(
    ("magic", "tool"), [(b"BZh91AY&SY", "bunzip2"), (b"\x28\xb5\x2f\xfd", "unzstd"), (b"\xfd7zXZ\0", "unxz")]
)
def test_packed_files_name_their_tool(aliquot, data, tmp_path, magic, tool):
    (tmp_path / "packed.jsonl").write_bytes(magic + b"\xff\xfe\xfd" * 20)
    for entry in ("data", "a selection", "judgments"):
        said = complaint(aliquot, entry, data, tmp_path / "packed.jsonl")
        assert tool in said
        assert "iconv" not in said


@pytest.mark.parametrize("entry", ["a selection", "a result", "a datasheet"])
def test_bad_utf8(aliquot, data, tmp_path, entry):
    bad = tmp_path / "bad.json"
    bad.write_bytes(b'{"i": 0, "selection": {"method": "\xff"}}\n')
    assert "UTF-8" in complaint(aliquot, entry, data, bad)


# -- numbers beyond measure ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("demo", "synth", "--items", "1000000000", "-o", "{data}.x"), "1000000000 items of 8 systems need about"),
        (("estimate", "{data}", "--level", "0.9999999999999999"), "level is"),
        (("simulate", "{data}", "--level", "0.9999999999999999"), "level is"),
        (("simulate", "{data}", "--repeats", "1000000000000"), "--repeats is 1000000000000; give 2 to"),
        (("simulate", "{data}", "--jobs", "100000", "--methods", "random"), "--jobs is 100000"),
        (("plan", "power", "--difference", "1e-200", "--sd", "1"), "are both on the same scale?"),
        (("plan", "power", "--difference", "1", "--sd", "1e200"), "are both on the same scale?"),
        (("plan", "power", "--difference", "1", "--sd", "9", "--systems", "1000000000"), "--systems is 1000000000"),
        (("plan", "power", "--difference", "1", "--sd", "9", "--alpha", "1e-300"), "--alpha is 1e-300"),
        (("metrics", "{data}", "--trials", "1000000000000"), "--trials"),
    ],
)
def test_numbers_beyond_measure(aliquot, data, arguments, says):
    said = aliquot(*(word.format(data=data) for word in arguments))
    assert said.code == 2, said.err
    assert says in said.err
    assert said.err.count("\n") == 1


@pytest.mark.parametrize("size", [1e150, 1e-150, 1e300, 1e-300])
def test_extreme_scales_are_rescaled(size):
    data = library.synthetic(items=40, systems=3, seed=2)
    assert data.judgments is not None
    scaled = library.EvalSet(
        items=data.items,
        systems=data.systems,
        scores={name: size * values for name, values in data.scores.items()},
        human="human",
    )
    plain = library.EvalSet(items=data.items, systems=data.systems, scores=dict(data.scores), human="human")
    chosen = library.select(plain, "pps", 20, seed=1)
    usual, found = library.estimate(plain, selection=chosen), library.estimate(scaled, selection=chosen)
    for name in ("estimate", "se", "low", "high"):
        expected = np.array([getattr(row, name) for row in usual.systems])
        assert np.array([getattr(row, name) for row in found.systems]) / size == pytest.approx(expected, rel=1e-9)
    assert [row.p_full for row in found.pairs] == pytest.approx([row.p_full for row in usual.pairs], rel=1e-9)


def test_fifty_thousand_systems(aliquot, tmp_path, monkeypatch):
    """Read in linear time; what compares all pairs is refused before it begins."""
    monkeypatch.setenv("ALIQUOT_MEMORY", "8G")
    with (tmp_path / "many.jsonl").open("w") as file:
        for i in range(3):
            scores = {f"s{k}": {"human": k % 7 + i, "m": k % 5} for k in range(50_000)}
            file.write(json.dumps({"i": i, "scores": scores}) + "\n")
    assert "all pairs of 50000 systems need about" in aliquot("estimate", tmp_path / "many.jsonl").err


# -- junk in a selection -------------------------------------------------------------------------------------------

JUNK = {
    "a probability of 1e-12": ({"probability": 1e-12, "weight": 1e12}, None),
    "a weight of 10^400": ({"weight": 10**400}, "selection.weight is a number of 401 digits"),
    "a population of 10^30": ({"population": 10**30}, "selection.population is a number of 31 digits"),
    "a population of 10^10": ({"population": 10**10}, "a population of 10000000000 items need about"),
    "a population of -1": ({"population": -1}, "the population is -1 and 8 items are selected"),
    "a rank of 10^30": ({"rank": 10**30}, "selection.rank is a number of 31 digits"),
    **{
        f"details: {name} {value!r}": ({"details": {name: value}}, f"selection.details.{name} should be")
        for name, value in (
            ("variance", ["x"]),
            ("variance", None),
            ("remainder", "abc"),
            ("remainder", -1e308),
            ("coverage", []),
            ("coverage", 7),
            ("within", 5),
            ("first_stage", 10**30),
        )
    },
}


@pytest.mark.parametrize("name", JUNK)
def test_junk_in_a_selection(aliquot, data, tmp_path, name):
    changes, says = JUNK[name]
    chosen = library.select(library.load(data), "pps", 8, seed=1)
    chosen.save(tmp_path / "s.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "s.jsonl").read_text().splitlines()]
    lines[0]["selection"] |= changes
    del lines[0]["selection"]["file"]  # as written by an earlier version: otherwise any change is refused
    (tmp_path / "s.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    said = aliquot("estimate", data, "--selection", tmp_path / "s.jsonl", "--json")
    if says is not None:
        assert said.code == 2, said.err
        assert says in said.err
        return
    assert any("inclusion probability below 1 in 20, the smallest 1e-12" in note for note in said.json["notes"])
    for row in said.json["systems"]:
        assert row["high"] - row["low"] > 0.1
        assert row["effective_n"] < 100


# -- caches, predictors, encoders, encodings -----------------------------------------------------------------------


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    """An encoder that gives the texts' lengths, and where its vectors are kept."""
    monkeypatch.setenv("ALIQUOT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(
        text_vectors, "_encode_texts", lambda texts, _: np.array([[len(t), 1] for t in texts], dtype=np.float32)
    )
    text_vectors.embed(["one", "three"], "a-model")
    return next(Path(tmp_path / "cache").rglob("*.sqlite*"))


@pytest.mark.parametrize("content", [b"", b"not a database" * 100, b"SQLite format 3\0" + bytes(200)])
def test_a_damaged_cache_costs_a_note(cache, content):
    cache.write_bytes(content)
    with pytest.warns(AliquotWarning) if content else nullcontext():
        found = text_vectors.embed(["one", "three"], "a-model")
    assert found.shape == (2, 2)


def test_a_locked_cache_costs_a_note(cache, monkeypatch):
    monkeypatch.setattr(text_vectors, "_PATIENCE", 0.1)
    holder = sqlite3.connect(cache, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.warns(AliquotWarning):
        assert text_vectors.embed(["one", "other"], "a-model").shape == (2, 2)
    holder.close()


@pytest.mark.parametrize("code", ["raise SystemExit(0)", "import sys; sys.exit()", "quit()"])
def test_a_predictor_that_exits_is_an_error(aliquot, data, tmp_path, monkeypatch, code):
    name = f"leaves{abs(hash(code))}"
    (tmp_path / f"{name}.py").write_text(f"def f(sources):\n    {code}\n")
    monkeypatch.syspath_prepend(tmp_path)
    said = aliquot("select", data, "--method", f"source:predictor={name}:f", "--budget", "5")
    assert said.code != 0
    assert name in said.err


def test_a_model_file_chooses_no_encoder(tmp_path):
    file = tmp_path / "models" / "m.aliquot"
    (tmp_path / "models" / "own").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    assert require_trusted_encoder("own", file, None) == str(tmp_path / "models" / "own")
    assert require_trusted_encoder("someone/else", file, "someone/else") == "someone/else"
    for wanted in ("someone/else", "../outside", str(tmp_path / "outside")):
        with pytest.raises(OptionError, match="if you trust it, name it"):
            require_trusted_encoder(wanted, file, None)


@pytest.mark.parametrize("encoding", ["cp1252", "utf-8"])
def test_any_encoding_of_the_terminal(tmp_path, encoding):
    data = library.synthetic(items=12, systems=2, seed=1).rename(systems={"sys1": "Шаг ±─"})
    library.save(data, tmp_path / "d.jsonl")
    code = "import sys\nfrom aliquot.cli.main import run\n" + "".join(
        f"assert run({arguments!r}) == 0\n"
        for arguments in (["inspect", "d.jsonl"], ["estimate", "d.jsonl", "--json"], ["estimate", "d.jsonl"])
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        check=False,
        timeout=300,
        env={**os.environ, "PYTHONIOENCODING": encoding, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    shown = done.stdout.decode(encoding)
    assert ("Шаг" if encoding == "utf-8" else "\\u0428") in shown


def test_standard_input_without_a_handle(monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=open("/dev/null", "rb")))  # noqa: PTH123, SIM115
    with pytest.raises(FormatError, match="empty"):
        library.load("-")


@pytest.mark.parametrize("verb", ["metrics", "plan"])
def test_a_reader_of_the_help_may_go_away(verb):
    """`aliquot plan --help | head -1`: nothing is said, as nothing went wrong."""
    process = subprocess.Popen(
        [sys.executable, "-m", "aliquot", verb, "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    said = process.stderr.read().decode()
    process.wait(timeout=300)
    assert "fault of aliquot" not in said
