"""The report page: what it answers and leaves out, that no text of the data becomes markup, and that it is small."""

from __future__ import annotations

import html.parser
import re
import sys
from dataclasses import replace

import polars as pl
import pytest

import aliquot
from aliquot.core.view import View
from aliquot.errors import MissingExtraError, NameUnknownError, OptionError
from aliquot.report import page as report_page
from aliquot.report.findings import PARTS, gather_findings
from aliquot.report.method_text import (
    list_citations,
    load_references,
    to_bibtex,
    to_latex,
    to_markdown,
    write_paragraph,
)

pytest.importorskip("jinja2")

HOSTILE = (
    "<script>alert(1)</script>",
    r"$\frac{a_b}{#%&}$ ~^\\",
    "مترجم عربي ١",
    "x" * 150 + "_" + "y" * 149,
    "</title><img src=x onerror=alert(2)>",
    "=cmd|' /C calc'!A0\u202e\x07",
)


def campaign(items: int = 60, systems: int = 4) -> aliquot.EvalSet:
    return aliquot.synthetic(items=items, systems=systems, protocol="da", annotators=4, judgments_per_output=2, seed=3)


@pytest.fixture(scope="module")
def whole():
    data = campaign()
    return aliquot.make_report(data, selection=aliquot.select(data, "pps", budget=30, seed=1), clean="da_wmt")


class Tags(html.parser.HTMLParser):
    """All tags and attributes of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.ids: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)
        self.attributes += attrs
        self.ids += [value for name, value in attrs if name == "id"]


def choices() -> pl.DataFrame:
    rows = [(i, f"p{i % 3}", *(("A", "B") if i % 2 else ("B", "C")), "a" if i % 3 else "b") for i in range(60)]
    return pl.DataFrame(rows, schema=["item", "annotator", "system_a", "system_b", "choice"], orient="row")


def test_sections_come_in_the_order_of_the_questions(whole):
    ids = [section.id for section in whole.sets[0].sections]
    assert ids == ["best", "pairs", "judged", "trust", "metrics", "examples", "enough", "method"]
    assert all(section.verdict.endswith(".") for section in whole.sets[0].sections)
    places = [whole.html.index(f'id="s1-{name}"') for name in ids]
    assert places == sorted(places)


def test_the_verdict_stands_before_any_table(whole):
    for part in re.findall(r"<section .*?</section>", whole.html, re.DOTALL):
        assert 'class="verdict"' in part
        assert "<table" not in part[: part.index('class="verdict"')]


def test_the_page_is_one_file_that_forbids_requests(whole):
    tags = Tags(whole.html)
    assert not {"link", "img", "iframe", "object", "embed", "base"} & set(tags.names)
    assert not [value for name, value in tags.attributes if name in ("src", "style") or name.startswith("on")]
    assert all(value.startswith("#") for name, value in tags.attributes if name == "href" and value)
    assert any(name == "content" and "default-src 'none'" in str(value) for name, value in tags.attributes)
    assert len(tags.ids) == len(set(tags.ids))


def test_the_same_input_gives_the_same_page():
    one, two = (aliquot.make_report(campaign(), without=["plan"]) for _ in range(2))
    assert one.html == two.html


def test_names_and_texts_are_never_markup(tmp_path):
    data = campaign(systems=6)
    data = data.rename(systems=dict(zip(data.systems, HOSTILE, strict=True)))
    source = pl.Series("source", ["<b>bold</b> </textarea><script>alert(3)</script>"] * data.n_items)
    domain = pl.lit("<u>d</u>").alias("domain")
    assert data.judgments is not None
    people = data.judgments.table.with_columns(pl.col("annotator").str.replace("^", "<i>&"))
    data = replace(data, items=data.items.with_columns(source, domain), judgments=aliquot.Judgments(people), name="<i>")
    page = aliquot.make_report(data, title="<h1>&", without=["plan", "metrics"])
    tags = Tags(page.html)
    assert tags.names.count("script") == 1
    assert not {"b", "u", "i", "img", "textarea"} & set(tags.names)
    assert "\x07" not in page.html
    latex = page.sets[0].texts["systems.tex"]
    assert r"\$\textbackslash{}frac\{a\_b\}\{\#\%\&\}\$" in latex
    assert "'=cmd" in page.sets[0].texts["systems.csv"]
    assert HOSTILE[3] not in re.sub(
        r"<details class=\"paste\">.*?</details>|<pre.*?</pre>", "", page.html, flags=re.DOTALL
    )
    page.save(tmp_path / "r.html")
    assert (tmp_path / "r.html").read_text("utf-8").startswith("<!DOCTYPE html>")


def test_what_is_absent_is_left_out():
    data = replace(campaign(), judgments=None, outputs=None, scores={"human": campaign().scores["human"]})
    page = aliquot.make_report(data, without=["plan", "datasheet"])
    assert [section.id for section in page.sets[0].sections] == ["best", "pairs", "judged", "method"]
    assert "Datasheet of the experiment" not in page.html


def test_a_part_that_the_data_do_not_allow_is_named(whole):
    data = campaign()
    assert data.judgments is not None
    few = replace(data, judgments=data.judgments.keep(items=data.ids[:2]))
    assert all(line.partition(":")[0] in PARTS for line in gather_findings(few).left_out)
    assert whole.sets[0].findings.left_out == ()


def test_several_test_sets_on_one_page():
    page = aliquot.make_report([campaign(), choices()], title="Two", without=["plan", "metrics", "datasheet"])
    assert [one.name for one in page.sets] == ["synthetic (simulated)", "choices"]
    assert 'id="s2-pairs"' in page.html
    assert page.to_dict()["sets"][1]["results"]["compare"]["choices"] == 60


def test_choices_are_ranked_with_the_texts_beside_them():
    data = campaign(systems=3).rename(systems={"sys1": "A", "sys2": "B", "sys3": "C"})
    page = aliquot.make_report(data, judgments=choices())
    ids = [section.id for section in page.sets[0].sections]
    assert ids == ["best", "pairs", "judged", "examples", "method"]
    view = page.sets[0].sections[0].blocks[0]
    assert isinstance(view, View)
    assert view.list_values("system") == [row.system for row in aliquot.compare(choices(), "pairwise").systems]


def test_only_what_the_selection_asked_for_counts():
    data = campaign()
    chosen = aliquot.select(data, "segments", budget=20, seed=1)
    found = gather_findings(data, chosen)
    assert found.judgments is not None
    assert found.estimates is not None
    assert set(found.judgments.table["item"].to_list()) <= set(chosen.ids)
    assert found.estimates.judged == len(chosen)


def test_the_numbers_are_those_of_the_verbs(whole):
    data = campaign()
    chosen = aliquot.select(data, "pps", budget=30, seed=1)
    result = aliquot.estimate(aliquot.clean(data, "da_wmt").evalset, selection=chosen)
    assert [row.estimate for row in whole.sets[0].findings.estimates.systems] == [
        row.estimate for row in result.systems
    ]
    assert whole.sets[0].findings.signatures["estimate"] == result.signature


def test_the_matrix_has_the_p_values_of_estimate():
    from aliquot.report.sections import _list_pairs

    data = campaign(items=25, systems=5)
    result = aliquot.estimate(data)
    shown = {(row.a, row.b): (row.p, row.adjusted) for row in _list_pairs(gather_findings(data))}
    assert shown == {(row.a, row.b): (row.p, row.p_adjusted) for row in result.pairs}


def test_a_large_campaign_gives_a_small_page():
    page = aliquot.make_report(aliquot.synthetic(items=1000, systems=20, seed=1), without=["plan"])
    assert len(page.html.encode()) < 2_000_000


def test_blinded_letters_do_not_follow_the_ranking():
    names = [f"sys{k}" for k in range(12)]
    letters = report_page.assign_letters(names)
    assert sorted(letters.values()) == sorted(report_page.assign_letters(names[::-1]).values())
    assert [letters[name] for name in names] != sorted(letters.values())


def test_every_reference_that_is_cited_is_in_the_bibliography(whole):
    pieces = write_paragraph(whole.sets[0].findings)
    assert list_citations(pieces)
    for key in list_citations(pieces):
        assert f"{{{key}," in to_bibtex(list_citations(pieces))
        assert f"\\citep{{{key}}}" in to_latex(pieces)
        assert load_references()[key].words in to_markdown(pieces)
    assert whole.sets[0].findings.estimates.signature.split("|")[1] in to_markdown(pieces).replace("\\", "")


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"without": ["metric"]}, NameUnknownError, "did you mean 'metrics'"),
        ({"selection": [None, None]}, OptionError, "1 test set and 2 times `selection`"),
        ({"clean": "da_wtm"}, NameUnknownError, "da_wmt"),
    ],
)
def test_mistakes(options, kind, words):
    with pytest.raises(kind, match=re.escape(words)):
        aliquot.make_report(campaign(), **options)


def test_a_page_needs_jinja_and_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(MissingExtraError, match=r"aliquot\[report\]"):
        aliquot.make_report(campaign())
