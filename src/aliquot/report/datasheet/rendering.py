"""`render`: a datasheet for readers, as Markdown, LaTeX or HTML."""

from __future__ import annotations

from aliquot.errors import unknown_name
from aliquot.report.datasheet.latex import to_latex
from aliquot.report.datasheet.markdown import to_markdown
from aliquot.report.datasheet.sheet import Datasheet
from aliquot.report.datasheet.view import view
from aliquot.report.datasheet.webpage import to_html

FORMATS = {"markdown": (".md", ".markdown"), "latex": (".tex", ".latex"), "html": (".html", ".htm")}
"""The formats, with the endings of their files."""


def render(sheet: Datasheet, format: str = "markdown", *, full: bool = False, fragment: bool = False) -> str:  # noqa: A002
    """Write a datasheet for readers.

    Args:
        sheet: the datasheet.
        format: "markdown", "latex" or "html" (one page that needs nothing else).
        full: show the options that were not chosen, too.
        fragment: LaTeX and HTML without the frame of a document, to be put into another one.

    >>> from aliquot.report.datasheet.sheet import blank
    >>> print(render(blank().with_answer("1.2", "N/A"))[:56])
    # Human Evaluation Datasheet (HEDS 2.0): datasheet
    <BLANKLINE>
    1 of
    """
    if format not in FORMATS:
        raise unknown_name("format", format, FORMATS)
    laid_out = view(sheet, full=full)
    if format == "markdown":
        return to_markdown(laid_out)
    return to_latex(laid_out, fragment=fragment) if format == "latex" else to_html(laid_out, fragment=fragment)
