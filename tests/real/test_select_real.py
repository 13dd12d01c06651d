"""Select on real campaigns: snippets keep document lengths, and every method runs from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.real.conftest import load_real

import aliquot
from aliquot import AliquotWarning
from aliquot.cli.main import run
from aliquot.sampling.methods import all_methods
from aliquot.sampling.select import select
from aliquot.sampling.summary import summarise_selection

SHARED = Path(__file__).parents[3] / "shared" / "data"
if not (SHARED / "wmt23-he-en.jsonl.gz").exists():
    pytest.skip(f"no real data in {SHARED}", allow_module_level=True)


def length_shares(name: str, method: str, budget: str, seeds: int) -> np.ndarray:
    """Percentage points by which each class of document length is off, averaged over seeds."""
    data = load_real(name)
    off = []
    for seed in range(seeds):
        shares = summarise_selection(select(data, method, budget, seed=seed), data).document_lengths
        off.append([100 * (share.selected - share.full) for share in shares])
    return np.array(off)


@pytest.mark.parametrize("budget", ["15%", "30%"])
def test_budgeted_snippets_keep_the_shares_of_document_lengths(budget):
    off = length_shares("wmt23-he-en", "snippets_budgeted", budget, seeds=8)
    assert np.abs(off.mean(axis=0)).max() <= 1.5
    assert np.abs(off).max() <= 3.0


@pytest.mark.parametrize("budget", ["15%", "30%"])
def test_fixed_snippets_do_not(budget):
    off = length_shares("wmt23-he-en", "snippets_fixed", budget, seeds=8)
    assert np.abs(off.mean(axis=0)).max() > 1.5


# -- from the command line -----------------------------------------------------------------------------------------

TOLD = {
    "metric": {"wmt23-en-de": "MetricX-23", "newstest2021-mqm-en-de": "chrF_here"},
    "score": {"wmt23-en-de": "eBLEU", "newstest2021-mqm-en-de": "BLEU_here"},
    "methods": {"wmt23-en-de": "metric_var|diversity", "newstest2021-mqm-en-de": "metric_var|diversity"},
}
LIGHT = {"model": "ngrams", "simulations": "20", "draws": "5"}
EXCLUDED = {"wmt23-en-de": ["--exclude", "refA,synthetic_ref"], "newstest2021-mqm-en-de": []}


def arguments(name: str, data: str) -> list[str]:
    known = all_methods()[name].parameters
    given = {key: value for key, value in LIGHT.items() if key in known and name != "source"}
    given |= {"predictor": "numpy.char:str_len"} if name == "source" else {}
    given |= {key: of[data] for key, of in TOLD.items() if key in known}
    spec = ",".join(f"{key}={value}" for key, value in given.items())
    return ["--method", f"{name}:{spec}", "--budget", "60", *EXCLUDED[data]]


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """200 judged items of each campaign and 80 others, which are read once for each method."""
    folder = tmp_path_factory.mktemp("parts")
    for name in EXCLUDED:
        data = load_real(name)
        judged = np.isfinite(data.human_score()).any(axis=1)
        rows = [*np.flatnonzero(judged)[:200], *np.flatnonzero(~judged)[:80]]
        aliquot.save(data.keep(items=[data.ids[row] for row in rows]), folder / f"{name}.jsonl.gz")
    return folder


@pytest.mark.parametrize("data", EXCLUDED)
@pytest.mark.parametrize("name", [name for name in all_methods() if name != "pretrained"])
def test_every_method_runs_from_the_command_line(name, data, capsys, parts):
    code = run(["select", str(parts / f"{data}.jsonl.gz"), *arguments(name, data), "--json"])
    printed = capsys.readouterr()
    if data.startswith("newstest") and ("documents" in all_methods()[name].needs or name == "stratified"):
        assert code == 2
        assert printed.err.splitlines()[-1].startswith("error: ")
        assert "documents" in printed.err
        return
    assert code == 0, printed.err
    document = json.loads(printed.out)
    if name in {"documents", "snippets_fixed"}:
        assert 40 < len(document["items"]) < 80
    else:
        assert len(document["items"]) == 60
    assert document["signature"].startswith(f"aliquot:{aliquot.__version__}|select:{name}")


@pytest.mark.parametrize("data", ["wmt24-esa-en-ja-waves23", "summeval", "webnlg2020-en", "wmt22-calibration-en-cs"])
@pytest.mark.filterwarnings(f"ignore::{AliquotWarning.__module__}.AliquotWarning")
def test_auto_works_on_whatever_there_is(data):
    evalset = load_real(data)
    for goal in ("means", "ranking"):
        chosen = select(evalset, f"auto:goal={goal}", "20%")
        assert len(chosen) == round(0.2 * len(evalset))
        assert summarise_selection(chosen, evalset).effect


@pytest.mark.parametrize("data", ["wmt24-esa-en-ja-waves23", "wmt23-he-en"])
def test_time_as_a_budget(data):
    """Japanese targets, Hebrew sources: two hours of ESA work buy what the model says."""
    evalset = load_real(data)
    chosen = select(evalset, "metric_var", "7200cost", cost="esa_time", metric=evalset.metrics[0])
    assert chosen.cost is not None
    assert 7100 < chosen.cost.sum() <= 7200 * (1 + 1e-9)
