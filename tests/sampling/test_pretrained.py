"""PreCOMET, Sentinel and COMET with confidences: the adapter against small local models of the same interface."""

from __future__ import annotations

import importlib
import json
import sys
import types
from typing import Any

import numpy as np
import pytest

import aliquot
from aliquot.compat import select_subset
from aliquot.errors import DataError, MissingExtraError, OptionError
from aliquot.io.formats import items as item_lines
from aliquot.sampling.methods import ALIASES, UNSUPPORTED, find_method
from aliquot.sampling.select import select

PACKAGES = ("precomet", "sentinel_metric", "comet_early_exit")
DATA = aliquot.synthetic(items=30, systems=4, seed=3, annotators=0)

MODULE = '''
"""A model that counts letters: the interface of COMET's packages and nothing else."""
import json
from pathlib import Path
from types import SimpleNamespace

class Model:
    def __init__(self, letters):
        self.letters = letters

    def predict(self, samples, progress_bar=True):
        assert progress_bar is False
        scores = [0.5 + sum(text.count(letter) for text in sample.values() for letter in self.letters)
                  for sample in samples]
        if self.letters == "short":
            scores = scores[1:]
        return {"confidences": scores} if set(samples[0]) == {"src", "mt"} else SimpleNamespace(scores=scores)

def download_model(name):
    path = Path(__file__).parent / (name.replace("/", "_") + ".json")
    if not path.exists():
        raise KeyError(f"Model {name} not found")
    return str(path)

def load_from_checkpoint(path):
    return Model(json.loads(Path(path).read_text())["letters"])
'''

UTILITY = "subset2evaluate_utility"


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """The three packages, with a "downloaded" model for every name that subset2evaluate knows."""
    for package in PACKAGES:
        (tmp_path / f"{package}.py").write_text(MODULE)
    names = {name for _, given in ALIASES.values() for name in given.get("model", "").split("|") if name}
    for at, name in enumerate(sorted(names)):
        (tmp_path / f"{name.replace('/', '_')}.json").write_text(json.dumps({"letters": "etaoinshrdlu"[at : at + 3]}))
    (tmp_path / "mine.ckpt").write_text(json.dumps({"letters": "ae"}))
    (tmp_path / "broken.ckpt").write_text(json.dumps({"letters": "short"}))
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    yield tmp_path
    for package in PACKAGES:
        sys.modules.pop(package, None)


def listed() -> list[dict[str, Any]]:
    return list(item_lines.iterate_records(DATA))


def by_id(items: list[dict[str, Any]]) -> dict[Any, float]:
    return {item["i"]: item[UTILITY] for item in items}


@pytest.fixture
def peer():
    """subset2evaluate's methods; its packages for statistics are not installed and not needed here."""
    pytest.importorskip("subset2evaluate")
    return pytest.importorskip("subset2evaluate.methods").METHODS


NAMES = [name for name, (ours, given) in ALIASES.items() if ours == "pretrained" and "model" in given]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.usefixtures("packages")
def test_names_give_subset2evaluates_numbers(name, peer):
    theirs = peer[name](listed())
    ours = select_subset.basic(listed(), name)
    assert by_id(ours) == pytest.approx(dict(zip(DATA.ids, theirs, strict=True)))
    assert len(set(theirs)) > 5
    assert select(DATA, name, 5).ids == select(DATA, name, 5, seed=0).ids


def test_a_checkpoint_of_ones_own(packages, peer):
    path = str(packages / "mine.ckpt")
    theirs = dict(zip(DATA.ids, peer["precomet"](listed(), model_path=path), strict=True))
    assert by_id(select_subset.basic(listed(), "precomet", model_path=path)) == pytest.approx(theirs)
    chosen = select(DATA, f"pretrained:model={path}", 6)
    sources = dict(zip(DATA.ids, DATA.items["source"].to_list(), strict=True))
    letters = {item: 0.5 + sum(text.count(letter) for letter in "ae") for item, text in sources.items()}
    assert min(letters[item] for item in chosen.ids) >= sorted(letters.values())[-6]
    turned = select(DATA, f"pretrained:model={path},reverse=yes", 6)
    assert max(letters[item] for item in turned.ids) <= sorted(letters.values())[5]


@pytest.mark.usefixtures("packages")
def test_a_model_that_the_caller_loaded(peer):
    class Model:
        def predict(self, samples, progress_bar):
            del progress_bar
            return types.SimpleNamespace(scores=[len(sample["src"]) for sample in samples])

    model = Model()
    for name, given in (("sentinel_src_da", model), ("precomet_diffdisc", (model, model))):
        theirs = dict(zip(DATA.ids, peer[name](listed(), load_model=given), strict=True))
        assert by_id(select_subset.basic(listed(), name, load_model=given)) == pytest.approx(theirs)
    with pytest.raises(OptionError, match="'metric_avg' takes no load_model"):
        select_subset.basic(listed(), "metric_avg", metric="metricA", load_model=model)


def test_what_goes_wrong_is_said(packages):
    with pytest.raises(OptionError, match=r"precomet cannot load 'no/model' \(KeyError"):
        select(DATA, "pretrained:model=no/model", 5)
    with pytest.raises(OptionError, match="no model is given"):
        select(DATA, "precomet", 5)
    with pytest.raises(DataError, match="gave scores of shape"):
        select(DATA, f"pretrained:model={packages / 'broken.ckpt'}", 5)


def test_without_the_package_the_way_to_it_is_named():
    for name in ("precomet_var", "sentinel_src_mqm", "comet_instant_confidence"):
        with pytest.raises(MissingExtraError, match=r"pip install .*or give its predictions: source:column"):
            select(DATA, name, 5)


def test_every_name_of_subset2evaluate_works_or_has_its_reason(peer):
    assert len(peer) == 28
    for name in peer:
        if name in UNSUPPORTED:
            with pytest.raises(OptionError, match="it has no utility in subset2evaluate either"):
                find_method(name)
        else:
            method, given = find_method(name)
            assert given.keys() <= method.parameters.keys()
    assert set(UNSUPPORTED) == {"pyirt_experiment"}


def test_a_product_of_models_is_that_of_their_scores(packages):
    paths = [packages / name for name in ("mine.ckpt", "zouharvi_PreCOMET-diff.json")]
    one, two, both = (
        select(DATA, "pretrained", 30, model=tuple(map(str, given))) for given in (paths[:1], paths[1:], paths)
    )
    values = [dict(zip(found.ids, np.asarray(found.utility), strict=True)) for found in (one, two, both)]
    for item in DATA.ids:
        np.testing.assert_allclose(values[2][item], values[0][item] * values[1][item])
