"""`aliquot learn`, and `aliquot select` with what it wrote."""

from __future__ import annotations

import json

import pytest

import aliquot
from aliquot.cli.main import run

WIDTH = 100


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("learn")
    for seed in (1, 2):
        aliquot.save(aliquot.synthetic(items=100, systems=4, seed=seed), where / f"past{seed}.jsonl")
    lines = aliquot.synthetic(items=60, systems=3, seed=3).items["source"].to_list()
    text = "".join(json.dumps({"i": at, "src": line}) + "\n" for at, line in enumerate(lines))
    (where / "sources.jsonl").write_text(text)
    assert run(["learn", str(where / "past1.jsonl"), str(where / "past2.jsonl"), "-o", str(where / "model.alm")]) == 0
    return where


def test_the_table_shows_length_beside_the_models(folder, capsys):
    assert run(["learn", str(folder / "past1.jsonl"), str(folder / "past2.jsonl"), "--target", "metric_var"]) == 0
    printed = capsys.readouterr().out
    for word in ("ridge", "gbm", "source_length", "past1", "past2", "mean", "nothing written", "learn:metric_var"):
        assert word in printed
    lines = printed.splitlines()
    assert all(len(line) <= WIDTH for line in lines if not line.startswith("aliquot:"))


def test_json_is_one_document(folder, capsys):
    assert run(["learn", str(folder / "past1.jsonl"), str(folder / "past2.jsonl"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert set(document) == {"target", "chosen", "means", "left_out", "trained_on", "notes", "signature"}
    assert "source_length" in document["means"]


def test_sources_are_chosen_outputs_made_and_items_chosen_among_them(folder, capsys, tmp_path):
    """The two stages from the command line, up to an estimate for the whole pool."""
    spec = f"pps:size=(source:model={folder / 'model.alm'}),tau=0.3"
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    pool = str(folder / "sources.jsonl")
    assert run(["select", pool, "--method", spec, "--budget", "30", "--seed", "1", "-o", str(first)]) == 0
    made = aliquot.synthetic(items=60, systems=3, seed=3)
    kept = made.keep(items=list(aliquot.Selection.load(first).ids))
    aliquot.save(kept, tmp_path / "outputs.jsonl")
    arguments = ["select", str(tmp_path / "outputs.jsonl"), "--method", "pps", "--budget", "12", "--within", str(first)]
    capsys.readouterr()
    assert run([*arguments, "-o", str(second)]) == 0
    assert "probabilities multiplied" in " ".join(capsys.readouterr().out.split())  # notes are folded
    chosen = aliquot.Selection.load(second)
    assert (len(chosen), chosen.population) == (12, 60)
    assert run(["estimate", str(tmp_path / "outputs.jsonl"), "--selection", str(second), "--json"]) == 0


@pytest.mark.filterwarnings("ignore::aliquot.errors.AliquotWarning")
@pytest.mark.parametrize("method", ["source_length", "source:model={model}", "source:predictor=numpy.char:str_len"])
def test_select_from_a_file_of_sources(folder, method, capsys):
    spec = method.format(model=folder / "model.alm")
    assert run(["select", str(folder / "sources.jsonl"), "--method", spec, "--budget", "10%", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["items"]) == 6


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["learn", "{past}", "--target", "metric_vra"], "'metric_var'"),
        (["learn", "{sources}"], "no item has a system"),
        (["learn", "nowhere.jsonl"], "no such file"),
        (["learn", "{past}", "--metric", "COMET"], "unknown score 'COMET'"),
        (["select", "{sources}", "--method", "source:model={past}", "--budget", "5"], "is not a source model"),
        (["select", "{sources}", "--method", "metric_var", "--budget", "5"], "needs metric"),
        (["select", "{past}", "--within", "{sources}", "--budget", "5"], "no 'selection' object"),
        (["select", "{past}", "--within", "{other}", "--budget", "5"], "have another source in the data"),
        (["select", "{sources}", "-m", "segments", "--non-matching", "-b", "5"], "leave out --non-matching"),
        (["estimate", "{sources}"], "no item has a system"),
    ],
)
def test_mistakes_are_one_line_and_exit_2(folder, arguments, said, capsys):
    names = {"past": folder / "past1.jsonl", "sources": folder / "sources.jsonl", "other": folder / "other.jsonl"}
    if "{other}" in arguments:
        assert run(["select", str(names["sources"]), "-m", "segments", "-b", "9", "-o", str(names["other"])]) == 0
        capsys.readouterr()
    assert run([argument.format(**names) for argument in arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert said in printed.err.splitlines()[-1]


def test_a_failed_run_writes_nothing(folder, tmp_path):
    assert run(["learn", str(folder / "past1.jsonl"), "--target", "nothing", "-o", str(tmp_path / "m.alm")]) == 2
    assert not list(tmp_path.iterdir())
