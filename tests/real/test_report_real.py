"""Reports of four real campaigns of different kinds, opened in a browser: quiet, small, and nothing for axe to find."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.browser.offline_page import chromium, open_file, violations

import aliquot

pytest.importorskip("jinja2")
pytest.importorskip("playwright")
pytest.importorskip("axe_playwright_python")
DATA = Path(__file__).parents[2].parent / "shared" / "data"
pytestmark = pytest.mark.skipif(not DATA.exists(), reason=f"the real data are not at {DATA}")


def choices(data: aliquot.EvalSet) -> pl.DataFrame:
    """Pairwise choices of the annotators, from their scores of the same item."""
    assert data.judgments is not None
    scores = (
        data.judgments.answers()
        .group_by("item", "annotator", "system", maintain_order=True)
        .agg(pl.col("value").mean())
    )
    rng, rows = np.random.default_rng(0), []
    for (item, annotator), part in islice(scores.group_by("item", "annotator", maintain_order=True), 300):
        a, b = rng.choice(part.height, 2, replace=False)
        first, second = part.row(int(a), named=True), part.row(int(b), named=True)
        choice = "tie" if first["value"] == second["value"] else "a" if first["value"] > second["value"] else "b"
        rows.append((item, annotator, first["system"], second["system"], choice))
    return pl.DataFrame(rows, schema=["item", "annotator", "system_a", "system_b", "choice"], orient="row")


@pytest.fixture(scope="module")
def browser():
    with chromium() as made:
        yield made


@pytest.mark.parametrize(
    ("name", "sections"),
    [
        ("wmt23-en-de", "best pairs judged trust metrics examples method"),
        ("wmt22-da-de-en", "best pairs judged trust metrics examples method"),
        ("summeval", "best pairs judged trust metrics examples method"),
        ("dialsummeval", "best pairs judged trust examples method"),
    ],
)
def test_a_report_opens_quietly_and_axe_finds_nothing(browser, tmp_path, name, sections):
    data = aliquot.load(DATA / f"{name}.jsonl.gz")
    made = choices(data) if name == "dialsummeval" else None
    page = aliquot.make_report(
        data, judgments=made, without=["plan"], clean="da_wmt" if name.startswith("wmt22") else None
    )
    assert [section.id for section in page.sets[0].sections] == sections.split()
    assert len(page.html.encode()) < 2_000_000
    page.save(tmp_path / "report.html")
    opened, wrong = open_file(browser, tmp_path / "report.html")
    assert violations(opened) == ""
    assert wrong == []
    assert opened.evaluate("document.documentElement.scrollWidth") <= opened.evaluate("innerWidth")
    opened.context.close()
