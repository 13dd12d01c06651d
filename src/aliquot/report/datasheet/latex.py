"""A datasheet as LaTeX: a document of its own, or without its frame for the appendix of another."""

from __future__ import annotations

import re
from collections.abc import Iterator

from aliquot.report.datasheet.view import TITLE, Entry, View, one_line, split_links

_CHARACTERS = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "_": r"\_", "%": r"\%",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", "`": r"\textasciigrave{}", '"': r"\char34{}",
    "[": "{[}", "]": "{]}",  # an \item or a line break before it would take it for its argument
}  # fmt: skip
_TO_ESCAPE = re.compile("[" + re.escape("".join(_CHARACTERS)) + "]")
_LIGATURE = re.compile(r"([-,'!?])(?=[-,'`])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")

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


def to_latex(view: View, *, fragment: bool = False) -> str:
    """Return the sheet as a LaTeX document, or only the body of one."""
    lines = [f"\\section*{{{TITLE}: {escape(view.name)}}}", escape(view.status), ""]
    for part in view.parts:
        lines += [f"\\subsection*{{{part.number} {escape(part.title)}}}"]
        for group in part.groups:
            if group.title:
                lines += [f"\\subsubsection*{{{group.number} {escape(group.title)}}}"]
            for entry in group.entries:
                lines += [*_entry(entry), ""]
    if view.signatures:
        lines += ["\\subsection*{How this sheet was filled in}", "\\begin{itemize}"]
        lines += [f"\\item {{\\small {escape(signature)}}}" for signature in view.signatures]
        lines += ["\\end{itemize}"]
    body = "\n".join(lines) + "\n"
    return _NEEDS + body if fragment else _FRAME.replace("%(body)s", body)


def _entry(entry: Entry) -> Iterator[str]:
    yield f"\\paragraph{{{entry.number} {escape(entry.title)}.}} {escape(entry.ask)}"
    yield "\\begin{quote}"
    if entry.remark:
        yield f"\\emph{{{entry.remark}}}"
        yield ""
    if entry.choices:
        yield "\\begin{itemize}"
        for choice in entry.choices:
            mark = "$\\boxtimes$" if choice.chosen else "$\\square$"
            yield f"\\item[{mark}] {escape(choice.label)}"
        yield "\\end{itemize}"
    for lines in entry.paragraphs:
        yield " \\newline\n".join(linked(line) for line in lines)
        yield ""
    if entry.source:
        yield f"{{\\small\\emph{{(filled in from {escape(entry.source)})}}}}"
    yield "\\end{quote}"


def linked(text: str) -> str:
    r"""Escape one line of text; web addresses become \url (which may not stand inside another command)."""
    pieces = (f"\\url{{{piece}}}" if link else _plain(piece) for piece, link in split_links(one_line(text)))
    return "".join(pieces)


def escape(text: str) -> str:
    r"""Return one line of text such that LaTeX prints it as it is.

    >>> print(escape("50% of $5 & {x_1}"))
    50\% of \$5 \& \{x\_1\}
    """
    return _plain(one_line(text))


def _plain(text: str) -> str:
    named = _CONTROL.sub(lambda found: f"[U+{ord(found.group()):04X}]", text)
    apart = _LIGATURE.sub("\\1\x00", named)  # -- and the like would be set as another sign
    return _TO_ESCAPE.sub(lambda found: _CHARACTERS[found.group()], apart).replace("\x00", "{}")
