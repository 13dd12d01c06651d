"""Pictures: each kind is drawn, the same each time, with text as text and names that are never mathematics."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import aliquot
from aliquot.annotation.preference_result import Comparison
from aliquot.errors import DataError
from aliquot.metric_eval.metric_report import MetricReport
from aliquot.report import figures

pytest.importorskip("matplotlib")

NAMES = (r"$\frac{1}$", "<b>&", "مترجم", "x" * 300)


def data() -> aliquot.EvalSet:
    made = aliquot.synthetic(items=50, systems=4, protocol="da", annotators=3, judgments_per_output=2, seed=2)
    return made.rename(systems=dict(zip(made.systems, NAMES, strict=True)))


def choices() -> Comparison:
    rows = [(i, *((NAMES[0], NAMES[1]) if i % 2 else (NAMES[1], NAMES[2])), "a" if i % 3 else "b") for i in range(40)]
    return aliquot.compare(
        pl.DataFrame(rows, schema=["item", "system_a", "system_b", "choice"], orient="row"), "pairwise"
    )


def metrics(part: str) -> MetricReport:
    return aliquot.metrics(data(), parts=[part], trials=100, metrics=["metricA", "metricB"])


DRAWN = {
    "forest": lambda: figures.forest_figure(aliquot.estimate(data())),
    "pairs": lambda: figures.pairs_figure(aliquot.estimate(data())),
    "preferences": lambda: figures.preference_figure(choices()),
    "selection": lambda: figures.selection_figure(aliquot.select(data(), "pps", budget=10, seed=1), data()),
    "severity": lambda: figures.severity_figure(aliquot.agreement(data(), bootstrap=0)),
    "cleaning": lambda: figures.cleaning_figure(aliquot.clean(data(), "da_wmt")),
    "errors": lambda: figures.errors_figure(metrics("decomposition")),
    "correlations": lambda: figures.correlations_figure(metrics("correlations")),
}


@pytest.mark.parametrize("name", DRAWN)
def test_a_picture_is_the_same_each_time_and_text_stays_text(tmp_path, name):
    for copy in ("one", "two"):
        figures.save_figure(DRAWN[name](), tmp_path / f"{copy}.svg")
    one, two = ((tmp_path / f"{copy}.svg").read_bytes() for copy in ("one", "two"))
    assert one == two
    assert b"<text" in one
    assert b"<b>" not in one
    assert b"x" * 100 not in one


@pytest.mark.parametrize("ending", ["png", "pdf"])
def test_other_formats_are_the_same_each_time(tmp_path, ending):
    for copy in ("one", "two"):
        figures.save_figure(DRAWN["forest"](), tmp_path / f"{copy}.{ending}")
    one, two = ((tmp_path / f"{copy}.{ending}").read_bytes() for copy in ("one", "two"))
    assert one == two
    assert ending != "pdf" or b"/FontFile2" in one  # embedded


def test_a_pool_is_drawn(tmp_path):
    import json

    path = tmp_path / "pool.jsonl"
    path.write_text("".join(json.dumps({"i": k, "src": "word " * (k % 9 + 1)}) + "\n" for k in range(200)))
    chosen = aliquot.select_pool(path, "pps:size=length", 20, seed=3)
    figures.save_figure(figures.pool_figure(chosen), tmp_path / "pool.svg")
    assert "inclusion probability" in (tmp_path / "pool.svg").read_text()


def test_the_matrix_shows_who_is_better():
    result = aliquot.estimate(data())
    axis = figures.pairs_figure(result).axes[0]
    shown = np.ma.getdata(axis.images[0].get_array())
    first = result.pairs[0]
    order = [row.system for row in result.systems]
    assert shown[order.index(first.a), order.index(first.b)] == pytest.approx(first.p_adjusted)


def test_nothing_to_draw_is_said():
    single = aliquot.synthetic(items=30, systems=1, seed=1)
    with pytest.raises(DataError, match="two judged systems"):
        figures.pairs_figure(aliquot.estimate(single))
