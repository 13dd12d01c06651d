"""Rendered sheets show what was written: whatever the texts hold, in Markdown, HTML and LaTeX."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from aliquot.core import escape
from aliquot.core.escape import split_links
from aliquot.errors import NameUnknownError
from aliquot.report.datasheet import render
from aliquot.report.datasheet.questions import load_questions
from aliquot.report.datasheet.rendering import split_paragraphs
from aliquot.report.datasheet.sheet import make_blank_sheet

FORMATS = ("markdown", "latex", "html")
NASTY = (
    "".join(chr(code) for code in range(32, 127)) + "\n\n1. x\n# y\n- z\n> w\n=== \n--- ,, '' ?` <b>&amp;</b> é日שלום😀"
)
LINES = st.text(max_size=60) | st.text(st.sampled_from("\\`*_{}[]()<>#+-.!|~$&%^\"'=:1. ab\t"), max_size=30)
VOID = {"meta", "br"}


def visible(text: str) -> str:
    """What any reader sees of a line: blanks are one, control characters are gone or replaced."""
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]", "\ufffd", " ".join(text.split()))


class Reader(HTMLParser):
    """Collects the text of a page and sees to it that every tag is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.text, self.open, self.tags, self.links = "", [], set[str](), list[str]()  # type: ignore[var-annotated]

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.links += [value for name, value in attrs if name in ("href", "src")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def read_page(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    return reader


def markdown_text(source: str) -> str:
    """The text that a CommonMark reader sees; anything but paragraphs of text and links is a failure."""
    seen = []
    tokens: list[Token] = MarkdownIt("commonmark").parse(source)
    for token in tokens:
        assert token.type in ("paragraph_open", "inline", "paragraph_close"), token.type
        for child in token.children or []:
            assert child.type in ("text", "text_special", "link_open", "link_close"), child.type
            seen.append(child.content)
    return "".join(seen)


@settings(max_examples=300, deadline=None)
@given(LINES)
@example(NASTY)
@example("https://a.org/x_y*z*")
@example("12) a")
@example("\\")
def test_markdown_shows_what_was_written(text):
    assert markdown_text(escape.markdown(text)) == visible(text)


@settings(max_examples=300, deadline=None)
@given(LINES)
@example(NASTY)
def test_html_shows_what_was_written(text):
    assert read_page(escape.linked_html(text)).text == visible(text)


UNESCAPED = {written: plain for plain, written in escape._CHARACTERS.items()}


def latex_text(source: str) -> str:
    """Read escaped LaTeX back; a character that LaTeX would act on is a failure."""
    pattern = "|".join(re.escape(written) for written in sorted(UNESCAPED, key=len, reverse=True))
    out, at = "", 0
    for found in re.finditer(rf"{pattern}|\{{\}}|\\url\{{([^{{}}]*)\}}", source):
        between = source[at : found.start()]
        assert not re.search(r"[\\{}$&#_%~^]", between), between
        out += between + (found.group(1) if found.group(1) is not None else UNESCAPED.get(found.group(), ""))
        at = found.end()
    assert not re.search(r"[\\{}$&#_%~^]", source[at:])
    return out + source[at:]


@settings(max_examples=300, deadline=None)
@given(LINES)
@example(NASTY)
@example("see https://a.org/x_y%20z#a & more")
def test_latex_prints_what_was_written(text):
    source = escape.linked_latex(text)
    named = re.sub(
        r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]", lambda c: f"[U+{ord(c.group()):04X}]", " ".join(text.split())
    )
    assert latex_text(source) == named
    assert not re.search(r"--|,,|''|\?`|!`|<<|>>", re.sub(r"\\url\{[^{}]*\}", "", source))


def test_latex_characters_are_all_escaped():
    assert escape.latex("\\{}$&#_%~^") == (r"\textbackslash{}\{\}\$\&\#\_\%\textasciitilde{}\textasciicircum{}")
    assert escape.latex("a -- b") == "a -{}- b"


def braces_match(source: str) -> bool:
    depth = 0
    for mark in re.findall(r"\\.|[{}]", source):
        depth += {"{": 1, "}": -1}.get(mark, 0)
        if depth < 0:
            return False
    return depth == 0


@pytest.fixture
def nasty(complete):
    sheet = complete.with_answer("3.2.3", NASTY).with_answer("3.3.3", complete.answer("3.3.3").chosen, details=NASTY)
    return sheet.with_answer("4.3.7", NASTY, criterion="fluency").with_answer("3.2.4", "x", source="<i>&_%")


@pytest.mark.parametrize("full", [False, True])
def test_whole_pages_of_nasty_answers(nasty, full):
    page = read_page(render(nasty, "html", full=full))
    assert {"b", "i", "script", "img", "link"}.isdisjoint(page.tags)
    assert all(link.startswith(("#part-", "https://")) for link in page.links)
    assert "<b>&amp;</b>" in page.text
    source = render(nasty, "latex", full=full)
    assert braces_match(source)
    for environment in ("document", "quote", "itemize"):
        assert source.count(f"\\begin{{{environment}}}") == source.count(f"\\end{{{environment}}}")
    tokens = MarkdownIt("commonmark").parse(render(nasty, "markdown", full=full))
    headings = [token for token in tokens if token.type == "heading_open"]
    assert len(headings) == 1 + 5 + 6
    assert not any(token.type in ("html_block", "code_block", "fence", "hr") for token in tokens)


@pytest.mark.parametrize("form", FORMATS)
def test_every_question_is_there_once_for_each_criterion(complete, form):
    text = render(complete, form)
    for question in load_questions().values():
        assert len(re.findall(rf"(?<![\d.]){re.escape(question.number)} {re.escape(question.title)}", text)) == 1
    for answer in ("a@example.org", "Translators.", "How fluent?", "not needed"):
        assert answer in text


@pytest.mark.parametrize("form", FORMATS)
def test_options(complete, form):
    brief, full = render(complete, form), render(complete, form, full=True)
    assert "Goodness" in brief
    assert "Correctness" not in brief
    assert "Correctness" in full
    wrong = complete.with_answer("4.1.1", "Niceness", criterion="fluency")
    assert "Niceness (not an option of HEDS)" in render(wrong, form)


@pytest.mark.parametrize("form", FORMATS)
def test_open_questions_are_said_to_be_open(form):
    text = render(make_blank_sheet(["a"]), form)
    assert text.count("not answered") >= 45
    assert "0 of 45 questions answered; not complete." in text


def test_fragments_have_no_frame(complete):
    for form, frame in (("latex", "\\documentclass"), ("html", "<html")):
        assert frame in render(complete, form)
        assert frame not in render(complete, form, fragment=True)


def test_an_html_page_needs_nothing_else(complete):
    page = render(complete, "html")
    assert not re.search(r"<script|<link|@import|url\(|src=", page)
    assert page.startswith("<!DOCTYPE html>")
    assert '<meta charset="utf-8">' in page


def test_unknown_format(complete):
    with pytest.raises(NameUnknownError, match="did you mean 'markdown'"):
        render(complete, "markdwn")


def test_pieces():
    assert split_paragraphs("a\r\nb\n \n\n c ") == (("a", "b"), ("c",))
    assert split_paragraphs(" \n ") == ()
    assert split_links("(https://a.org/b), c") == [("(", False), ("https://a.org/b", True), ("), c", False)]
    assert split_links("http://") == [("http://", False)]
    assert split_links("javascript:alert(1)") == [("javascript:alert(1)", False)]


def test_every_question_shows_where_it_is_in_the_official_form(tmp_path):
    """Number and title, in the file to fill in and in every rendering."""
    sheet = make_blank_sheet(("fluency",))
    path = tmp_path / "sheet.toml"
    sheet.save(path)
    wanted = "HEDS 2.0, question 3.1.1: Number of items per system"
    assert wanted in path.read_text()
    for form in FORMATS:
        page = render(sheet, form)
        assert wanted in page.replace("\\", "")
        assert all(f"question {question.number}: " in page.replace("\\", "") for question in load_questions().values())
