"""What notebooks show of results: escaped, readable in any theme, with a table and a figure where there is one."""

from __future__ import annotations

import dataclasses
import html as html_parser
import math
import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest

import aliquot
from aliquot.core.result import Result
from aliquot.core.view import Column, View
from aliquot.errors import AliquotError
from aliquot.report.drawings import draw_interval, make_axis
from aliquot.report.html_tables import TableStyle, render_view
from aliquot.report.notebook import FIGURES, MAX_ROWS

EVIL = "<script>alert(1)</script>&\"'"
SOURCE = Path(aliquot.__file__).parent


def of_pandas(frame: pl.DataFrame) -> pd.DataFrame:
    return pd.DataFrame({name: frame[name].to_list() for name in frame.columns})


@pytest.fixture(scope="module")
def data() -> aliquot.EvalSet:
    made = aliquot.synthetic(items=40, systems=3, protocol="da", annotators=4, judgments_per_output=2, seed=1)
    return made.rename(systems={"sys1": EVIL})


@pytest.fixture(scope="module")
def choices() -> pl.DataFrame:
    return pl.DataFrame(
        {
            "item": list(range(8)) * 2,
            "system_a": [EVIL] * 16,
            "system_b": ["y"] * 16,
            "choice": ["a", "b", "a", "a", "tie", "a", "a", "b"] * 2,
        }
    )


@pytest.fixture(scope="module")
def results(data: aliquot.EvalSet, choices: pl.DataFrame) -> dict[str, Any]:
    chosen = aliquot.select(data, budget=12)
    return {
        type(result).__name__: result
        for result in (
            data,
            data.judgments,
            data.describe(),
            chosen,
            aliquot.estimate(data, selection=chosen),
            aliquot.agreement(data, bootstrap=5, trust=False),
            aliquot.metrics(data, parts=("decomposition", "breakeven"), trials=50),
            aliquot.simulate(data, budgets=["50%"], repeats=3),
            aliquot.plan(data, replays=5),
            aliquot.plan(difference=1, sd=10),
            aliquot.clean(data, "da_wmt"),
            aliquot.combine(data, "mean"),
            aliquot.compare(choices),
            aliquot.sequential(data, value_range=(0, 100)),
        )
    }


NAMES = (
    "EvalSet",
    "Judgments",
    "Description",
    "Selection",
    "Estimates",
    "Agreement",
    "MetricReport",
    "Simulation",
    "CampaignPlan",
    "PowerPlan",
    "Cleaned",
    "Combined",
    "Comparison",
    "Replay",
)


class Balanced(HTMLParser):
    """Checks that tags are closed, and keeps the text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""
        self.seen: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        assert not any(name.startswith("on") or "://" in (value or "") for name, value in attrs)
        self.open.append(tag)

    def handle_startendtag(self, tag, _attrs):
        self.seen.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


@pytest.mark.parametrize("name", NAMES)
def test_html_is_balanced_escaped_and_needs_nothing_from_outside(name, results):
    page = results[name]._repr_html_()
    read = Balanced()
    read.feed(page)
    assert not read.open
    assert "script" not in read.seen
    assert "table" in read.seen
    assert "nan" not in read.text.lower().split()
    verdict = results[name].verdict
    if verdict is not None:
        assert html_parser.escape(verdict).replace("&#x27;", "&#39;") in page.replace("&#x27;", "&#39;")


@pytest.mark.parametrize("name", NAMES)
def test_tables_of_polars_and_pandas_are_the_same(name, results):
    ours, theirs = results[name].to_frame(), results[name].to_pandas()
    assert isinstance(ours, pl.DataFrame)
    assert list(theirs.columns) == ours.columns
    assert theirs.shape == ours.shape
    first = ours.columns[0]
    assert theirs[first].tolist() == ours[first].to_list()


def test_intervals_are_drawn_for_each_system(results):
    page = results["Estimates"]._repr_html_()
    assert page.count("<circle") == 3
    assert "currentColor" in page  # readable on dark pages, too
    assert "color:#" not in page


def test_long_and_wide_tables_say_what_is_left_out():
    wide = View.of_frame("wide", pl.DataFrame({f"c{place}": range(50) for place in range(15)}))
    page = render_view(wide)
    assert page.count("<tr>") == MAX_ROWS + 1
    assert f"{MAX_ROWS} of 50 rows and 3 more columns: to_frame()" in page


def test_columns_of_the_highest_rank_and_empty_ones_are_left_out_first():
    rows = [{"system": "a", "x": 1.0, "y": 2.0, "z": math.nan}]
    columns = [Column("system", kind="name"), Column("x", rank=3), Column("y", rank=1), Column("z")]
    page = render_view(View("few", rows, columns), TableStyle(max_columns=2))
    assert re.findall(r">(\w+)</th>", page) == ["system", "y"]
    assert "1 more columns: to_frame()" in page


def test_other_rows_are_folded_away_where_a_page_can_hold_them():
    rows = [{"n": place, "weight": place % 7} for place in range(50)]
    view = View("long", rows, [Column("n", kind="count")], importance="weight")
    page = render_view(view, TableStyle(max_rows=7, folds=True))
    first, rest = page.split("<details>")
    assert re.findall(r"<td[^>]*>(\d+)", first) == ["6", "13", "20", "27", "34", "41", "48"]  # those that matter most
    assert "43 more rows" in rest
    assert rest.count("<td") == 43


def test_an_undefined_interval_is_not_drawn():
    axis = make_axis([0.0, 2.0])
    assert "whisker" not in draw_interval(axis, math.nan, 1.0, 2.0)
    inside = draw_interval(axis, -5.0, 1.0, 9.0)  # beyond the ends: stays in the picture
    assert 'x1="2%" x2="98%"' in inside


@pytest.mark.parametrize("name", FIGURES)
def test_every_picture_is_a_figure_that_notebooks_show(name, results):
    if name not in results:
        pytest.skip("drawn by tests of its own")
    options = {"data": results["EvalSet"]} if name == "Selection" else {}
    figure = results[name].plot(**options)
    assert type(figure).__name__ == "Figure"
    assert figure._repr_svg_().lstrip().startswith("<?xml")
    with pytest.raises(AliquotError, match="unknown picture"):
        results[name].plot("nothing like it")


def test_a_selection_is_drawn_among_its_data(results):
    with pytest.raises(AliquotError, match="give the data"):
        results["Selection"].plot()


def test_results_without_a_picture_say_so(data):
    with pytest.raises(AliquotError, match="no picture of an EvalSet"):
        data.plot()


def test_without_matplotlib_tables_work_and_the_message_says_what_to_install(results, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "<table" in results["Simulation"]._repr_html_()
    with pytest.raises(AliquotError, match=r"pip install 'aliquot\[report\]'"):
        results["Simulation"].plot()
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(AliquotError, match="pip install pandas"):
        results["Simulation"].to_pandas()


def test_every_result_of_the_library_is_shown():
    """A frozen dataclass that a public verb returns offers a verdict, HTML, a figure and tables."""
    for path in SOURCE.rglob("*.py"):
        import_module(".".join(["aliquot", *path.relative_to(SOURCE).with_suffix("").parts]).removesuffix(".__init__"))
    kinds = {kind for kind in subclasses(Result) if kind.__module__.startswith("aliquot.")}
    assert len(kinds) > 15
    pages = {kind for kind in kinds if kind.__module__.startswith("aliquot.report.")}  # made of results
    lacking = [kind.__name__ for kind in kinds - pages if not hasattr(kind, "to_frame")]
    assert not lacking
    assert all(dataclasses.is_dataclass(kind) for kind in kinds)


def subclasses(kind: type[Any]) -> set[type[Any]]:
    return {kind, *(below for child in kind.__subclasses__() for below in subclasses(child))} - {Result}


class TestPandas:
    """pandas is accepted wherever Polars is; numbers are the same."""

    def test_data_and_selections(self, data):
        chosen = aliquot.select(data, budget=12)
        table = of_pandas(chosen.to_frame().rename({"id": "item"}).with_columns(pl.lit(40).alias("population")))
        judged = of_pandas(data.judgments.to_frame())
        ours = aliquot.estimate(data, selection=chosen, judgments=data.judgments)
        theirs = aliquot.estimate(data, selection=table, judgments=judged)
        assert [row.system for row in theirs.systems] == [row.system for row in ours.systems]
        assert len(aliquot.select(data, budget=5, within=table)) == 5
        assert aliquot.Judgments(judged) == aliquot.load_judgments(judged)
        assert len(aliquot.Judgments(judged)) == len(data.judgments)

    def test_verbs(self, data, choices, tmp_path):
        judged = of_pandas(data.judgments.to_frame())
        scores = of_pandas(data.to_frame())
        assert aliquot.agreement(judged, bootstrap=0)["alpha"] == aliquot.agreement(data, bootstrap=0)["alpha"]
        assert aliquot.compare(of_pandas(choices)).to_frame().equals(aliquot.compare(choices).to_frame())
        assert aliquot.compare(scores, "scores", human="human").choices > 0
        assert aliquot.sequential(judged, value_range=(0, 100)).final.items == 40
        assert aliquot.clean(judged, "da_wmt").counts == aliquot.clean(data, "da_wmt").counts
        assert aliquot.combine(judged, "mean").systems.height == 3
        assert aliquot.Incremental(judged.assign(domain="news"), bins="domain").rated == 0
        aliquot.save(scores, tmp_path / "saved.jsonl")
        assert aliquot.load(tmp_path / "saved.jsonl").n_items == 40


def test_looking_at_a_result_does_not_import_other_rooms():
    """The verdict of an agreement must not load planning or simulation: verbs start quickly."""
    code = (
        "import sys, aliquot\n"
        "d = aliquot.synthetic(items=10, systems=2, protocol='da', judgments_per_output=2)\n"
        "aliquot.clean(d, 'da_wmt')._repr_html_()\n"
        "others = ('aliquot.planning.plan', 'aliquot.simulation.simulate', 'matplotlib')\n"
        "print(*(name for name in others if name in sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == ""
