"""What a section of the report page is made of, and how each piece becomes HTML."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aliquot.core import escape
from aliquot.core.escape import Html
from aliquot.core.view import View
from aliquot.report.html_tables import TableStyle, render_notes, render_view


@dataclass(frozen=True)
class Remark:
    """A paragraph in small print; `Html` is taken as it is."""

    text: str


@dataclass(frozen=True)
class FactGrid:
    """Names with their values, in a grid."""

    rows: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Notes:
    """A result's notes, folded away."""

    notes: Sequence[str]


@dataclass(frozen=True)
class Diagram:
    """A drawing with a caption."""

    caption: Html
    drawing: Html


@dataclass(frozen=True)
class Columns:
    """Tables beside each other."""

    views: Sequence[View]


@dataclass(frozen=True)
class Folded:
    """Pieces that open when the reader asks for them."""

    summary: str
    blocks: Sequence[Block]
    is_open: bool = False


@dataclass(frozen=True)
class Template:
    """A piece that a template of its own writes; it gets `values` as `s`."""

    name: str
    values: Mapping[str, Any]


Block = View | Remark | FactGrid | Notes | Diagram | Columns | Folded | Template


@dataclass(frozen=True)
class Section:
    """One section of the page: a question, the sentences that answer it, and what supports them."""

    id: str
    title: str
    verdict: str
    blocks: Sequence[Block] = field(default_factory=tuple)


def render_block(block: Block, style: TableStyle, render_template: Callable[[str, Mapping[str, Any]], str]) -> Html:
    """Return a piece of a section as HTML.

    >>> print(render_block(FactGrid([("items", "3 < 4")]), TableStyle(), lambda name, values: ""))
    <dl class="facts"><div><dt>items</dt><dd dir="auto">3 &lt; 4</dd></div></dl>
    """
    match block:
        case View():
            return render_view(block, style)
        case Remark():
            html = block.text if isinstance(block.text, Html) else style.write_text(block.text)
            return Html(f'<p class="soft">{html}</p>' if html else "")
        case FactGrid():
            rows = (f'<div><dt>{escape.html(n)}</dt><dd dir="auto">{escape.html(v)}</dd></div>' for n, v in block.rows)
            return Html(f'<dl class="facts">{"".join(rows)}</dl>')
        case Notes():
            return render_notes(block.notes, style)
        case Diagram():
            return Html(f"<figure><figcaption>{block.caption}</figcaption>{block.drawing}</figure>")
        case Columns():
            return Html(f'<div class="columns">{"".join(render_view(view, style) for view in block.views)}</div>')
        case Folded():
            inner = "".join(render_block(part, style, render_template) for part in block.blocks)
            state = " open" if block.is_open else ""
            return Html(f"<details{state}><summary>{escape.html(block.summary)}</summary>{inner}</details>")
        case Template():
            return Html(render_template(block.name, block.values))
