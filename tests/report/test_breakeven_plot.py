"""The picture of what metrics are worth: drawn for one or several human scores, the same each time."""

from __future__ import annotations

import numpy as np
import pytest

import aliquot
from aliquot.errors import DataError, OptionError
from aliquot.report.figures import draw_break_even

pytest.importorskip("matplotlib")


@pytest.mark.parametrize("ending", ["svg", "png", "pdf"])
def test_a_picture_of_every_kind(tmp_path, ending):
    data = aliquot.synthetic(items=60, systems=5, judgments_per_output=2, seed=1)
    report = aliquot.metrics(data, parts=["breakeven"], trials=200)
    for name in ("one", "two"):
        draw_break_even(report, tmp_path / f"{name}.{ending}")
    one, two = ((tmp_path / f"{name}.{ending}").read_bytes() for name in ("one", "two"))
    assert one == two
    assert len(one) > 2000


def test_people_the_perfect_annotator_and_metrics_are_named(tmp_path):
    data = aliquot.synthetic(items=60, systems=5, judgments_per_output=2, seed=1)
    worse = data.with_score("wrong", -data.scores["human"])
    draw_break_even(aliquot.metrics(worse, parts=["breakeven"], trials=200), tmp_path / "p.svg")
    text = (tmp_path / "p.svg").read_text()
    for words in ("people", "perfect annotator", "metricA", "judgments per system", "beyond the picture: 1.00  wrong"):
        assert words in text


def test_many_metrics_and_several_criteria(tmp_path):
    rng = np.random.default_rng(0)
    data = aliquot.synthetic(items=40, systems=9, metrics={f"m{k}": k / 60 for k in range(60)}, seed=1)
    data = data.with_score("human_style", rng.normal(size=(40, 9)))
    report = aliquot.metrics(data, ["human", "human_style"], parts=["breakeven"], trials=100)
    draw_break_even(report, tmp_path / "p.svg")
    text = (tmp_path / "p.svg").read_text()
    assert "human_style" in text
    assert "more" in text


def test_nothing_to_draw(tmp_path):
    data = aliquot.synthetic(items=40, systems=1, seed=1)
    with pytest.raises(DataError, match="no break-even to draw"):
        draw_break_even(aliquot.metrics(data, trials=50, permutations=5), tmp_path / "p.svg")
    with pytest.raises(OptionError, match="unknown ending of a picture"):
        draw_break_even(aliquot.metrics(data, trials=50, permutations=5), tmp_path / "p.doc")
