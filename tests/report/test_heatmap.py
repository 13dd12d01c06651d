"""The heat map: its order and numbers, the files it writes, and what it refuses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from aliquot import agreement, synthetic
from aliquot.annotation.agreement_result import Agreement, pair_matrix
from aliquot.core.synthetic import Protocol
from aliquot.errors import DataError, MissingExtraError, NameUnknownError, OptionError
from aliquot.report.figures import figure_of, heatmap


def result_of(people: int, **options: str) -> Agreement:
    rng = np.random.default_rng(0)
    noise = np.linspace(0.3, 3, people)
    answers = rng.normal(size=(60, 1)) + noise * rng.normal(size=(60, people))
    unit, annotator = np.divmod(np.arange(answers.size), people)
    names = [f"a{code}" for code in annotator]
    table = pl.DataFrame({"item": unit, "system": "s", "annotator": names, "value": answers.ravel().round(1)})
    return agreement(table, bootstrap=0, trust=False, **options)  # type: ignore[arg-type]


def test_best_agreeing_annotators_come_first() -> None:
    result = result_of(5)
    heat = pair_matrix(result)
    assert heat.measure == "pearson"
    assert heat.annotators[-1] == "a4"
    assert np.isnan(np.diag(heat.values)).all()
    assert np.array_equal(heat.values, heat.values.T, equal_nan=True)
    row = result.pairs.filter((pl.col("a") == "a0") & (pl.col("b") == "a3")).row(0, named=True)
    assert heat.values[heat.annotators.index("a0"), heat.annotators.index("a3")] == row["pearson"]


@pytest.mark.parametrize(("protocol", "measure"), [("likert", "kappa_quadratic"), ("da", "pearson")])
def test_the_measure_follows_the_level(protocol: Protocol, measure: str) -> None:
    data = synthetic(items=30, systems=2, protocol=protocol, annotators=3, judgments_per_output=2)
    assert pair_matrix(agreement(data, bootstrap=0)).measure == measure


@pytest.mark.parametrize("ending", ["svg", "png", "pdf"])
def test_files(tmp_path: Path, ending: str) -> None:
    starts = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}
    result = result_of(4)
    for name in ("one", "two"):
        heatmap(result, tmp_path / f"{name}.{ending}")
    one, two = ((tmp_path / f"{name}.{ending}").read_bytes() for name in ("one", "two"))
    assert one.startswith(starts[ending])
    assert one == two


def numbers_in(result: Agreement) -> list[str]:
    return [text.get_text() for text in figure_of(pair_matrix(result)).axes[0].texts]


def test_numbers_in_cells_up_to_fifteen_annotators() -> None:
    result = result_of(4)
    written = numbers_in(result)
    assert len(written) == 12
    assert set(written) == {f"{value:.2f}".replace("0.", ".") for value in result.pairs["pearson"]}
    assert len(numbers_in(result_of(15))) == 15 * 14
    assert numbers_in(result_of(16)) == []


def test_undefined_pairs_are_dashes() -> None:
    table = pl.DataFrame(
        {"item": [0, 0, 1, 1, 2, 2, 3, 3], "annotator": ["a", "b"] * 3 + ["b", "c"], "value": [1, 1, 2, 2, 2, 1, 1, 1]}
    )
    assert "–" in numbers_in(agreement(table, bootstrap=0))


def test_very_many_annotators(tmp_path: Path) -> None:
    heatmap(result_of(70), tmp_path / "many.png", title="many")
    assert (tmp_path / "many.png").stat().st_size > 1000


def test_what_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = result_of(3)
    with pytest.raises(OptionError, match=r"use \.svg, \.png or \.pdf"):
        heatmap(result, tmp_path / "map.jpeg")
    with pytest.raises(NameUnknownError, match="unknown measure of pairs 'alpha'"):
        heatmap(result, tmp_path / "map.svg", measure="alpha")
    with pytest.raises(DataError, match="no pair of annotators has a defined kappa"):
        heatmap(result, tmp_path / "map.svg", measure="kappa")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'aliquot\[report\]'"):
        heatmap(result, tmp_path / "map.svg")
    assert list(tmp_path.iterdir()) == []


def test_matplotlib_is_not_imported_unless_a_map_is_drawn() -> None:
    code = "import sys, aliquot.report.figures; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
