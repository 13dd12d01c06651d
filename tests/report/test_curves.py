"""Curves of a replay as pictures: whole or not at all, labelled, the same for the same numbers."""

from __future__ import annotations

import builtins
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import stdtrit

import aliquot
from aliquot.errors import MissingExtraError, NameUnknownError, OptionError, OutputError
from aliquot.report.figures import COLOURS, ENDINGS, draw_curves, make_lines, separate_labels
from aliquot.simulation.result import Simulation
from aliquot.simulation.units import ReplayCell

pytest.importorskip("matplotlib", reason="pictures are an extra: pip install 'aliquot[report]'")

METHODS = ("random", "metric_var:metric=metricA", "auto")
MAGIC = {".svg": b"<?xml", ".png": b"\x89PNG", ".pdf": b"%PDF"}


@pytest.fixture(scope="module")
def result() -> Simulation:
    data = aliquot.synthetic(items=50, systems=4, seed=1, annotators=0)
    return aliquot.simulate(data, METHODS, ["10%", "30%", "50%"], repeats=4, measures="spa,spa_full,mae")


def made(methods: list[str], sets: list[str], value: float = 0.5, repeats: int = 5) -> Simulation:
    cells = [
        ReplayCell(data, method, share, share, True, "mae", value + 0.01 * at, 0.01, 10, repeats)
        for data in sets
        for at, method in enumerate(methods)
        for share in (0.1, 0.5)
    ]
    return Simulation(tuple(cells), (), (), "")


@pytest.mark.parametrize("ending", ENDINGS)
def test_every_ending_gives_its_kind_of_picture(result, tmp_path, ending):
    path = tmp_path / f"curves{ending.upper()}"
    draw_curves(result, "mae", path)
    assert path.read_bytes().startswith(MAGIC[ending])
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_lines_are_named_and_the_same_numbers_give_the_same_file(result, tmp_path):
    for name in ("one.svg", "two.svg"):
        draw_curves(result, "spa_full", str(tmp_path / name))
    first = (tmp_path / "one.svg").read_text()
    assert first == (tmp_path / "two.svg").read_text()
    words = re.sub(r"<[^>]+>", " ", first)
    for text in (
        "random (spa)",
        "metric_var:metric=metricA",
        "auto",
        "budget, % of judging everything",
        "soft pairwise accuracy of full-set significance",
        "synthetic (simulated)",
    ):
        assert text in words


def test_random_is_what_the_others_are_compared_with(result):
    cells = [cell for cell in result.cells if cell.asked]
    first, *others = make_lines(cells, "spa_full")
    assert first.name == "random (spa)"
    assert [line.name for line in others] == list(METHODS[1:])
    spa = [c for c in cells if (c.method, c.measure) == ("random", "spa")]
    np.testing.assert_allclose(first.y, [c.value for c in spa])
    np.testing.assert_allclose(first.half, [stdtrit(c.repeats - 1, 0.975) * c.error for c in spa], rtol=1e-9)
    own = make_lines([c for c in cells if c.measure == "spa_full"], "spa_full")[0]
    assert own.name == "random"


def test_no_two_lines_look_the_same():
    cells = list(made(["random", *(f"method{k}" for k in range(20))], ["past"]).cells)
    looks = [(line.colour, line.dash) for line in make_lines(cells, "mae")]
    assert len(set(looks)) == len(looks) == 21
    assert len(set(COLOURS)) == len(COLOURS)


def test_names_of_any_length_and_kind(tmp_path, recwarn):
    names = [
        "random",
        "pps:size=difficulty,tau=0.5+greg:metrics=a|b|c,ridge=2",
        "price$5$",
        "x" * 90,
        "\\frac{",
        "日本",
    ]
    draw_curves(made(names, ["a $set$ of " + "very " * 30 + "long name", "b", "c", "d_e^f"]), "mae", tmp_path / "n.svg")
    assert (tmp_path / "n.svg").stat().st_size > 10_000
    assert not [w for w in recwarn if "layout" in str(w.message)]


def test_values_that_are_not_known_leave_gaps(tmp_path, recwarn):
    nothing = made(["random", "auto"], ["past"], value=float("nan"))
    draw_curves(nothing, "mae", tmp_path / "nothing.svg")
    some = list(made(["random", "auto"], ["past"]).cells)
    some[-1] = ReplayCell(**{**vars(some[-1]), "value": float("nan"), "error": float("nan"), "repeats": 0})
    draw_curves(Simulation(tuple(some), (), (), ""), "mae", tmp_path / "some.svg")
    assert "auto" in (tmp_path / "some.svg").read_text()
    assert not [w for w in recwarn if issubclass(w.category, RuntimeWarning)]


def test_one_budget_and_fixed_methods(tmp_path):
    one = tuple(cell for cell in made(["random", "auto"], ["past"], repeats=1).cells if cell.share == 0.1)
    draw_curves(Simulation(one, (), (), ""), "mae", tmp_path / "one.png")
    assert (tmp_path / "one.png").exists()


def test_whole_or_not_at_all(result, tmp_path, monkeypatch):
    path = tmp_path / "curves.svg"
    path.write_text("what was there before")
    from matplotlib.figure import Figure

    def broken(_figure, buffer, **_options):
        buffer.write(b"half a picture")
        raise OSError("disk full")

    monkeypatch.setattr(Figure, "savefig", broken)
    with pytest.raises(OSError, match="disk full"):
        draw_curves(result, "mae", path)
    assert path.read_text() == "what was there before"
    monkeypatch.undo()
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError):
        draw_curves(result, "mae", tmp_path / "file" / "curves.svg")


def test_slips(result, tmp_path):
    with pytest.raises(OptionError, match="unknown ending of a picture"):
        draw_curves(result, "mae", tmp_path / "curves.gif")
    with pytest.raises(NameUnknownError, match="unknown measure 'mea'; did you mean 'mae'"):
        draw_curves(result, "mea", tmp_path / "curves.svg")
    assert list(tmp_path.iterdir()) == []


def test_without_matplotlib(result, tmp_path, monkeypatch):
    real = builtins.__import__

    def without(name, *rest):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r"pip install 'aliquot\[report\]'"):
        draw_curves(result, "mae", tmp_path / "curves.svg")
    assert not Path(tmp_path / "curves.svg").exists()


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0.01, 0.09)), min_size=1, max_size=10))
def test_labels_do_not_cover_each_other(labels):
    wanted = np.sort([place for place, _ in labels])
    sizes = np.array([size for _, size in labels])
    places = separate_labels(wanted, sizes)
    assert (np.diff(places) >= (sizes[1:] + sizes[:-1]) / 2 - 1e-9).all()
    assert places[0] >= sizes[0] / 2 - 1e-9
    assert places[-1] <= 1 - sizes[-1] / 2 + 1e-9
    if (np.diff(wanted) >= 0.1).all() and wanted[0] >= 0.1 and wanted[-1] <= 0.9:
        np.testing.assert_allclose(places, wanted)
