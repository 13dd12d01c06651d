r"""Names and texts are data: how each medium shows them as they are, and never takes them for its own commands.

One function a medium. A system may be called `[/b]`, `$\frac`, `<script>` or `=cmd|' /C calc'!A0`, and an output may
hold an escape sequence that clears the reader's screen; whoever prints, draws or writes a text passes it through here.
"""

from __future__ import annotations

import html as _html
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

_CONTROL = r"\x00-\x08\x0b-\x1f\x7f-\x9f"
_LINE_ENDS = r"\u2028\u2029"
URL = re.compile(r"https?://[^\s<>\"'{}|\\^`\x00-\x20\x7f]+[^\s<>\"'{}|\\^`.,;:!?)\]\x00-\x20\x7f]")


def one_line(text: str) -> str:
    r"""Return a text on one line, with runs of white space as single spaces.

    >>> one_line("a\n  b")
    'a b'
    """
    return " ".join(text.split())


def split_links(text: str) -> list[tuple[str, bool]]:
    """Split a text into (piece, whether it is a web address).

    >>> split_links("see https://a.org/x_y.")
    [('see ', False), ('https://a.org/x_y', True), ('.', False)]
    """
    return [piece for piece in _split_at_links(text) if piece[0]]


def _split_at_links(text: str) -> Iterator[tuple[str, bool]]:
    start = 0
    for match in URL.finditer(text):
        yield text[start : match.start()], False
        yield match.group(), True
        start = match.end()
    yield text[start:], False


# -- Terminals -------------------------------------------------------------------------------------------------------


_INVISIBLE = re.compile(
    rf"[{_CONTROL}{_LINE_ENDS}\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)  # controls, marks that turn the direction of writing, halves of surrogate pairs
_BREAKS = re.compile(r"[\n\t]")


def terminal(text: str, *, lines: bool = False) -> str:
    r"""Escape a text for a terminal: control characters are shown; `lines` keeps line ends and tabs.

    >>> print(terminal("\x1b[2Jgone\nnext"))
    \x1b[2Jgone\nnext
    """
    escaped = _INVISIBLE.sub(_escape_character, text)
    return escaped if lines else _BREAKS.sub(_escape_character, escaped)


def _escape_character(match: re.Match[str]) -> str:
    return ascii(match.group())[1:-1]


# -- Figures ---------------------------------------------------------------------------------------------------------


def mathtext(text: str) -> str:
    r"""Escape a text for matplotlib, where a pair of dollars starts mathematics.

    >>> print(mathtext(r"$\frac$"))
    \$\frac\$
    """
    return _INVISIBLE.sub("\ufffd", text).replace("$", r"\$")


# -- Markdown --------------------------------------------------------------------------------------------------------


_MARKUP = re.compile(r"([\\`*\[\]<>&|~$]|(?<![^\W_])_|_(?![^\W_]))")  # an underscore within a word marks nothing
_LINE_START = re.compile(r"^([#+\-=:]|\d{1,9}(?=[.)]))")
_REPLACED = re.compile(rf"[{_CONTROL}{_LINE_ENDS}]")


def markdown(text: str) -> str:
    r"""Escape one line of text for Markdown; web addresses become links.

    >>> print(markdown("1. *not* a list, <b>not bold</b>, see https://a.org/x_y"))
    1\. \*not\* a list, \<b\>not bold\</b\>, see <https://a.org/x_y>
    """
    pieces = [f"<{piece}>" if link else _plain_markdown(piece) for piece, link in split_links(one_line(text))]
    return _LINE_START.sub(_escape_line_start, "".join(pieces))


def markdown_cell(text: str) -> str:
    r"""Escape a text for a cell of a Markdown table.

    >>> print(markdown_cell("-a|b\n<i>"))
    -a\|b \<i\>
    """
    return _plain_markdown(one_line(text))


def _plain_markdown(text: str) -> str:
    return _MARKUP.sub(r"\\\1", _REPLACED.sub("\ufffd", text))


def _escape_line_start(match: re.Match[str]) -> str:
    mark = match.group(1)
    return f"\\{mark}" if not mark.isdigit() else mark + "\\"


# -- YAML ------------------------------------------------------------------------------------------------------------


_NOT_YAML = re.compile("[^\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")


def yaml(text: str) -> str:
    r"""Return one line of text as a double-quoted YAML scalar.

    >>> print(yaml('say "no": # \x00'))
    "say \"no\": # \U00000000"
    """
    quoted = one_line(text).replace("\\", r"\\").replace('"', r"\"")
    return '"' + _NOT_YAML.sub(lambda match: f"\\U{ord(match.group()):08x}", quoted) + '"'


# -- LaTeX -----------------------------------------------------------------------------------------------------------


_CHARACTERS = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "_": r"\_",
    "%": r"\%",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "`": r"\textasciigrave{}",
    '"': r"\char34{}",
    "[": "{[}",
    "]": "{]}",  # an \item or a line break before it would take it for its argument
}
_TO_ESCAPE = re.compile("[" + re.escape("".join(_CHARACTERS)) + "]")
_LIGATURE = re.compile(r"([-,'!?])(?=[-,'`])")


def latex(text: str) -> str:
    r"""Escape one line of text for LaTeX.

    >>> print(latex("50% of $5 & {x_1}"))
    50\% of \$5 \& \{x\_1\}
    """
    return plain_latex(one_line(text))


def linked_latex(text: str) -> str:
    r"""Escape one line of text; web addresses become \url (which may not stand inside another command)."""
    pieces = (f"\\url{{{piece}}}" if link else plain_latex(piece) for piece, link in split_links(one_line(text)))
    return "".join(pieces)


def plain_latex(text: str) -> str:
    """Escape a text for LaTeX and keep its white space."""
    named = _REPLACED.sub(lambda match: f"[U+{ord(match.group()):04X}]", text)
    apart = _LIGATURE.sub("\\1\x00", named)  # -- and the like would be set as another sign
    return _TO_ESCAPE.sub(lambda match: _CHARACTERS[match.group()], apart).replace("\x00", "{}")


# -- HTML ------------------------------------------------------------------------------------------------------------


_HTML_CONTROL = re.compile(f"[{_CONTROL}]")


class Html(str):
    """HTML that is safe to show; Jinja and `report.html_tables` do not escape it again."""

    __slots__ = ()

    def __html__(self) -> str:
        """Return the HTML, as Jinja asks for it."""
        return str(self)


def html(text: str) -> Html:
    """Escape a text for HTML.

    >>> html("<b> & co")
    '&lt;b&gt; &amp; co'
    """
    return Html(_html.escape(_HTML_CONTROL.sub("\ufffd", text)))


def linked_html(text: str) -> str:
    """Escape one line of text; web addresses become links.

    >>> linked_html("<b> at https://a.org/?x=1&y=2")
    '&lt;b&gt; at <a href="https://a.org/?x=1&amp;y=2">https://a.org/?x=1&amp;y=2</a>'
    """
    pieces = []
    for piece, link in split_links(one_line(text)):
        safe = html(piece)
        pieces.append(f'<a href="{safe}">{safe}</a>' if link else safe)
    return "".join(pieces)


# -- CSV and TSV -----------------------------------------------------------------------------------------------------

# A spreadsheet computes a cell that begins with "=", "+", "-" or "@", also after white space. Such a cell gets an
# apostrophe, which spreadsheets take for "this is text"; so does one that begins with a tab or a carriage return, which
# some drop. Numbers stay numbers, and a dash before two words is prose: other programs read these files, too, and would
# see the apostrophe. Our reader takes away what our writer put there: a cell that begins with apostrophes before any
# of this gets one more, and loses one.
_FORMULA_START = r"^'*(?:[\t\r]|\s*[=+\-@])"
_NUMBER = r"^\s*[+-]?(?:\d[\d.,]*|[.,]\d+)(?:[eE][+-]?\d+)?%?\s*$"
_PROSE = r"^\s*-\s*[^\W\d_]+[^\w\s]{0,2}\s+[^\W\d_]"
_FUNCTION_CALL = r"(?s)\w\(|\|.*!"  # of a function, or of another program


def _is_formula(texts: pl.Expr) -> pl.Expr:
    prose = texts.str.contains(_PROSE) & ~texts.str.contains(_FUNCTION_CALL)
    return texts.str.contains(_FORMULA_START) & ~texts.str.contains(_NUMBER) & ~prose


def csv_cells(table: pl.DataFrame) -> pl.DataFrame:
    """Escape texts of a table that a spreadsheet would run as formulas; `csv_names` escapes its header.

    >>> import polars as pl
    >>> texts = pl.DataFrame({"x": ["=cmd|' /C calc'!A0", "+A1", "-1+1", "-1.5", "- Yes, why?", "'=1"]})
    >>> csv_cells(texts)["x"].to_list()
    ["'=cmd|' /C calc'!A0", "'+A1", "'-1+1", '-1.5', '- Yes, why?', "''=1"]
    """
    import polars as pl  # noqa: PLC0415  (`aliquot --help` needs this file and not Polars)

    texts = pl.selectors.string()
    return table.with_columns(pl.when(_is_formula(texts)).then(pl.lit("'") + texts).otherwise(texts).name.keep())


def unescape_csv_cells(table: pl.DataFrame) -> pl.DataFrame:
    """Undo `csv_cells`.

    >>> import polars as pl
    >>> unescape_csv_cells(pl.DataFrame({"system": ["'=1", "it's", "''=1"]}))["system"].to_list()
    ['=1', "it's", "'=1"]
    """
    import polars as pl  # noqa: PLC0415  (likewise)

    texts = pl.selectors.string()
    marked = texts.str.starts_with("'") & _is_formula(texts.str.slice(1))
    return table.with_columns(pl.when(marked).then(texts.str.slice(1)).otherwise(texts).name.keep())


def csv_names(names: list[str]) -> list[str]:
    """Escape the names in the header of a table."""
    return _convert_names(csv_cells, names)


def unescape_csv_names(names: list[str]) -> list[str]:
    """Undo `csv_names`."""
    return _convert_names(unescape_csv_cells, names)


def _convert_names(change: Callable[[pl.DataFrame], pl.DataFrame], names: list[str]) -> list[str]:
    import polars as pl  # noqa: PLC0415  (likewise)

    return change(pl.DataFrame({"name": names}, schema={"name": pl.String}))["name"].to_list()
