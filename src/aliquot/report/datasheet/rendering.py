"""Render a datasheet for readers, as Markdown, LaTeX or HTML.

Invariant: readers see answers exactly as they were written; nothing in an answer is taken for markup.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from aliquot.core import escape
from aliquot.errors import OptionError
from aliquot.report.datasheet.checking import check, is_answered, is_needed
from aliquot.report.datasheet.questions import SheetQuestion, load_sections
from aliquot.report.datasheet.sheet import Datasheet
from aliquot.validation import one_of

TITLE = "Human Evaluation Datasheet (HEDS 2.0)"
Format = Literal["markdown", "latex", "html"]
FORMATS: Mapping[Format, tuple[str, ...]] = {
    "markdown": (".md", ".markdown"),
    "latex": (".tex", ".latex"),
    "html": (".html", ".htm"),
}
"""The formats, with the endings of their files."""


def format_of_ending(path: str | Path) -> Format:
    """Return the format that the ending of a file names.

    >>> format_of_ending("sheet.tex")
    'latex'
    """
    ending = Path(path).suffix.lower()
    for name, endings in FORMATS.items():
        if ending in endings:
            return name
    all_endings = ", ".join(ending for endings in FORMATS.values() for ending in endings)
    raise OptionError(f"{path}: the ending names no format ({all_endings}); name one with `format`", "format")


def render(
    sheet: Datasheet,
    format: Format | str = "markdown",  # noqa: A002  (the public name)
    *,
    full: bool = False,
    fragment: bool = False,
    level: int = 1,
) -> str:
    """Write a datasheet for readers.

    Args:
        sheet: the datasheet.
        format: "markdown", "latex" or "html" (one page that needs nothing else).
        full: show the options that were not chosen, too.
        fragment: LaTeX and HTML without the frame of a document, to be put into another one.
        level: HTML: the level of the title; below 1 there are no table of contents and no anchors.

    >>> from aliquot.report.datasheet.sheet import make_blank_sheet
    >>> print(render(make_blank_sheet().with_answer("1.2", "N/A"))[:56])
    # Human Evaluation Datasheet (HEDS 2.0): datasheet
    <BLANKLINE>
    1 of
    """
    one_of("format", format, FORMATS)
    result = check(sheet)
    status = (
        f"{result.answered} of {result.questions} questions answered{'.' if result.complete else '; not complete.'}"
    )
    signatures = tuple(text for text in (sheet.signature, *sheet.results) if text)
    page = SheetPage(sheet.name, status, tuple(_list_blocks(sheet, full)), signatures)
    if format == "markdown":
        return to_markdown(page)
    return to_latex(page, fragment=fragment) if format == "latex" else to_html(page, fragment=fragment, level=level)


# -- The contents of a page, whatever the format: headings and entries in order --------------------------------------


@dataclass(frozen=True)
class Heading:
    """A section of the sheet (level 2), for a criterion where it is asked for each, or a part of one (level 3)."""

    level: int
    number: str
    title: str


@dataclass(frozen=True)
class Entry:
    """A question with its answer."""

    number: str
    title: str
    ask: str
    in_heds: str  # number and title in the official form
    choices: tuple[tuple[str, bool], ...]  # labels to show, and whether each is chosen
    paragraphs: tuple[tuple[str, ...], ...]  # the text: paragraphs of lines
    missing: str  # "not answered" or "not needed" where there is no answer
    source: str  # where aliquot took the answer from, if so


@dataclass(frozen=True)
class SheetPage:
    """The whole sheet, ready to be written down."""

    name: str
    status: str
    blocks: tuple[Heading | Entry, ...]
    signatures: tuple[str, ...]


def _list_blocks(sheet: Datasheet, full: bool) -> Iterator[Heading | Entry]:
    for section in load_sections():
        names: Sequence[str | None] = sheet.criterion_names if section.per_criterion else (None,)
        for name in names:
            suffix = "" if name is None else f": {escape.one_line(name)}"
            yield Heading(2, section.number, f"{section.title}{suffix}")
            for number, title in section.subsections.items() or (("", ""),):
                if title:
                    yield Heading(3, number, title)
                part = [question for question in section.questions if question.number.startswith(number)]
                yield from (_make_entry(sheet, question, name, full) for question in part)


def _make_entry(sheet: Datasheet, question: SheetQuestion, name: str | None, full: bool) -> Entry:
    answer = sheet.answer(question.number, name)
    choices = [(label, label in answer.chosen) for label in question.labels]
    choices += [(f"{label} (not an option of HEDS)", True) for label in answer.chosen if label not in question.labels]
    missing = ""
    if not is_answered(question, answer):
        missing = "not answered" if is_needed(sheet, question.number) else "not needed"
    return Entry(
        question.number,
        question.title,
        question.ask,
        question.in_heds,
        choices=tuple((label, chosen) for label, chosen in choices if full or chosen),
        paragraphs=split_paragraphs(answer.text),
        missing=missing,
        source=answer.source if answer.given else "",
    )


def split_paragraphs(text: str) -> tuple[tuple[str, ...], ...]:
    r"""Split on blank lines into paragraphs, each a tuple of its stripped lines.

    >>> split_paragraphs("one\n two\n\n\nthree")
    (('one', 'two'), ('three',))
    """
    lines = [line.strip() for line in re.sub(r"\r\n?", "\n", text).split("\n")]
    blocks = re.split(r"\n{2,}", "\n".join(lines).strip("\n"))
    return tuple(tuple(block.split("\n")) for block in blocks if block.strip())


# -- Markdown --------------------------------------------------------------------------------------------------------


def to_markdown(page: SheetPage) -> str:
    """Return the sheet as Markdown (CommonMark); answers are quoted blocks."""
    lines = [f"# {TITLE}: {escape.markdown(page.name)}", "", page.status]
    for block in page.blocks:
        if isinstance(block, Heading):
            lines += ["", f"{'#' * block.level} {block.number} {escape.markdown(block.title)}"]
        else:
            lines += ["", *_markdown_entry(block)]
    if page.signatures:
        lines += ["", "## How this sheet was filled in", ""]
        lines += [f"- {escape.markdown(signature)}" for signature in page.signatures]
    return "\n".join(lines) + "\n"


def _markdown_entry(entry: Entry) -> Iterator[str]:
    yield f"**{entry.number} {entry.title}.** {escape.markdown(entry.ask)} *({escape.markdown(entry.in_heds)})*"
    yield ""
    quoted = [[f"*{entry.missing}*"]] if entry.missing else []
    quoted += [[f"- [{' x'[chosen]}] {escape.markdown(label)}" for label, chosen in entry.choices]]
    quoted += [["\\\n".join(map(escape.markdown, lines))] for lines in entry.paragraphs]
    quoted += [[f"*(filled in from {escape.markdown(entry.source)})*"]] if entry.source else []
    text = "\n\n".join("\n".join(block) for block in quoted if block)
    yield from (f"> {line}" if line else ">" for line in text.split("\n") if text)


# -- LaTeX -----------------------------------------------------------------------------------------------------------


_FRAME = r"""% Compile with LuaLaTeX or XeLaTeX where there are letters beyond Latin ones, with any LaTeX otherwise.
\documentclass[11pt,a4paper]{article}
\usepackage{iftex}
\ifPDFTeX
  \usepackage[T1]{fontenc}
  \usepackage[utf8]{inputenc}
\else
  \usepackage{fontspec}
\fi
\usepackage{textcomp,amssymb}
\usepackage[margin=25mm]{geometry}
\usepackage[hidelinks]{hyperref}
\setlength{\parindent}{0pt}
\begin{document}
%(body)s\end{document}
"""
_NEEDS = "% Needs \\usepackage{textcomp,amssymb,hyperref}.\n"


def to_latex(page: SheetPage, *, fragment: bool = False) -> str:
    """Return the sheet as a LaTeX document, or only the body of one."""
    lines = [f"\\section*{{{TITLE}: {escape.latex(page.name)}}}", escape.latex(page.status), ""]
    for block in page.blocks:
        if isinstance(block, Heading):
            lines.append(f"\\{'sub' * (block.level - 1)}section*{{{block.number} {escape.latex(block.title)}}}")
        else:
            lines += [*_latex_entry(block), ""]
    if page.signatures:
        lines += ["\\subsection*{How this sheet was filled in}", "\\begin{itemize}"]
        lines += [f"\\item {{\\small {escape.latex(signature)}}}" for signature in page.signatures]
        lines += ["\\end{itemize}"]
    body = "\n".join(lines) + "\n"
    return _NEEDS + body if fragment else _FRAME.replace("%(body)s", body)


def _latex_entry(entry: Entry) -> Iterator[str]:
    yield f"\\paragraph{{{entry.number} {escape.latex(entry.title)}.}} {escape.latex(entry.ask)}"
    yield f"\\emph{{({escape.latex(entry.in_heds)})}}"
    yield "\\begin{quote}"
    if entry.missing:
        yield f"\\emph{{{entry.missing}}}\n"
    if entry.choices:
        yield "\\begin{itemize}"
        for label, chosen in entry.choices:
            yield f"\\item[$\\{'boxtimes' if chosen else 'square'}$] {escape.latex(label)}"
        yield "\\end{itemize}"
    for lines in entry.paragraphs:
        yield " \\newline\n".join(escape.linked_latex(line) for line in lines) + "\n"
    if entry.source:
        yield f"{{\\small\\emph{{(filled in from {escape.latex(entry.source)})}}}}"
    yield "\\end{quote}"


# -- HTML: one page that needs nothing else, no script, no font, no picture from elsewhere ---------------------------


_STYLE = """
:root { color-scheme: light dark; --line: #8884; --faint: #777; --mark: #1a6fb4; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 48rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--line); } h3 { margin-top: 1.8rem; }
h4 { margin: 1.4rem 0 0; font-size: 1rem; } .ask { margin: 0; color: var(--faint); } .heds { font-size: 0.85em; }
.answer { margin: .3rem 0 0; padding-left: .9rem; border-left: 3px solid var(--line); overflow-wrap: anywhere; }
.answer p, .answer ul { margin: .2rem 0; } .answer ul { list-style: none; padding: 0; }
.answer li { padding-left: 1.6em; text-indent: -1.6em; } .open { border-color: #c60; } .open em { color: #c60; }
.unchosen, .source, .status { color: var(--faint); } .source { font-size: .85rem; }
nav ul { columns: 2; padding-left: 1.2rem; } code { overflow-wrap: anywhere; font-size: .85rem; }
@media print { nav { display: none; } body { margin: 0; max-width: none; } h4 { break-after: avoid; } }
"""


def to_html(page: SheetPage, *, fragment: bool = False, level: int = 1) -> str:
    """Return the sheet as an HTML page, or only what goes into a page's body, its title a heading of this level."""
    headings = [f"h{min(6, level + depth)}" for depth in range(4)]
    title = f"{TITLE}: {escape.html(page.name)}"
    contents: list[str] = []
    lines: list[str] = []
    parts = 0
    for block in page.blocks:
        if isinstance(block, Entry):
            lines += _html_entry(block, headings[3])
            continue
        text, anchor = f"{block.number} {escape.html(block.title)}", ""
        if block.level == 2 and level == 1:
            parts += 1
            anchor = f' id="part-{parts}"'
            contents.append(f'<li><a href="#part-{parts}">{text}</a></li>')
        heading = headings[block.level - 1]
        lines.append(f"<{heading}{anchor}>{text}</{heading}>")
    if page.signatures:
        signatures = [f"<li><code>{escape.html(signature)}</code></li>" for signature in page.signatures]
        lines += [f"<{headings[1]}>How this sheet was filled in</{headings[1]}>", "<ul>", *signatures, "</ul>"]
    head = [f"<{headings[0]}>{title}</{headings[0]}>", f'<p class="status">{escape.html(page.status)}</p>']
    if contents:
        head += ["<nav><ul>", *contents, "</ul></nav>"]
    body = "\n".join([*head, *lines]) + "\n"
    if fragment:
        return body
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
    )


def _html_entry(entry: Entry, heading: str) -> Iterator[str]:
    yield f'<{heading}>{entry.number} {escape.html(entry.title)}</{heading}>\n<p class="ask">{escape.html(entry.ask)}'
    yield f'<span class="heds">({escape.html(entry.in_heds)})</span></p>'
    yield f'<div class="answer{" open" * (entry.missing == "not answered")}">'
    if entry.missing:
        yield f"<p><em>{entry.missing}</em></p>"
    if entry.choices:
        yield "<ul>"
        for label, chosen in entry.choices:
            mark, kind = ("☒", "chosen") if chosen else ("☐", "unchosen")
            yield f'<li class="{kind}">{mark} {escape.html(label)}</li>'
        yield "</ul>"
    for lines in entry.paragraphs:
        yield f'<p dir="auto">{"<br>".join(escape.linked_html(line) for line in lines)}</p>'
    if entry.source:
        yield f'<p class="source">filled in from {escape.html(entry.source)}</p>'
    yield "</div>"
