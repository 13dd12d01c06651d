"""A datasheet as one HTML page that needs nothing else: no script, no font, no picture from elsewhere."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from aliquot.report.datasheet.view import TITLE, Entry, Part, View, one_line, split_links

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --faint: #777; --mark: #1a6fb4; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 48rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--line); } h3 { margin-top: 1.8rem; }
h4 { margin: 1.4rem 0 0; font-size: 1rem; } .ask { margin: 0; color: var(--faint); }
.answer { margin: .3rem 0 0; padding-left: .9rem; border-left: 3px solid var(--line); overflow-wrap: anywhere; }
.answer p, .answer ul { margin: .2rem 0; } .answer ul { list-style: none; padding: 0; }
.answer li { padding-left: 1.6em; text-indent: -1.6em; } .open { border-color: #c60; } .open em { color: #c60; }
.unchosen, .source, .status { color: var(--faint); } .source { font-size: .85rem; }
nav ul { columns: 2; padding-left: 1.2rem; } code { overflow-wrap: anywhere; font-size: .85rem; }
@media print { nav { display: none; } body { margin: 0; max-width: none; } h4 { break-after: avoid; } }
"""


def to_html(view: View, *, fragment: bool = False) -> str:
    """Return the sheet as an HTML page, or only what goes into a page's body."""
    title = f"{TITLE}: {escape(view.name)}"
    anchors = [f"part-{at}" for at in range(1, len(view.parts) + 1)]
    lines = [f"<h1>{title}</h1>", f'<p class="status">{escape(view.status)}</p>', "<nav><ul>"]
    for part, anchor in zip(view.parts, anchors, strict=True):
        lines.append(f'<li><a href="#{anchor}">{part.number} {escape(part.title)}</a></li>')
    lines.append("</ul></nav>")
    for part, anchor in zip(view.parts, anchors, strict=True):
        lines += _part(part, anchor)
    if view.signatures:
        lines += ["<h2>How this sheet was filled in</h2>", "<ul>"]
        lines += [f"<li><code>{escape(signature)}</code></li>" for signature in view.signatures]
        lines.append("</ul>")
    body = "\n".join(lines) + "\n"
    if fragment:
        return body
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
    )


def _part(part: Part, anchor: str) -> Iterator[str]:
    yield f'<section id="{anchor}">'
    yield f"<h2>{part.number} {escape(part.title)}</h2>"
    for group in part.groups:
        if group.title:
            yield f"<h3>{group.number} {escape(group.title)}</h3>"
        for entry in group.entries:
            yield from _entry(entry)
    yield "</section>"


def _entry(entry: Entry) -> Iterator[str]:
    yield f'<h4>{entry.number} {escape(entry.title)}</h4>\n<p class="ask">{escape(entry.ask)}</p>'
    yield f'<div class="answer{" open" * (entry.remark == "not answered")}">'
    if entry.remark:
        yield f"<p><em>{entry.remark}</em></p>"
    if entry.choices:
        yield "<ul>"
        for choice in entry.choices:
            mark, kind = ("☒", "chosen") if choice.chosen else ("☐", "unchosen")
            yield f'<li class="{kind}">{mark} {escape(choice.label)}</li>'
        yield "</ul>"
    for lines in entry.paragraphs:
        yield f'<p dir="auto">{"<br>".join(linked(line) for line in lines)}</p>'
    if entry.source:
        yield f'<p class="source">filled in from {escape(entry.source)}</p>'
    yield "</div>"


def linked(text: str) -> str:
    """Escape one line of text; web addresses become links.

    >>> linked("<b> at https://a.org/?x=1&y=2")
    '&lt;b&gt; at <a href="https://a.org/?x=1&amp;y=2">https://a.org/?x=1&amp;y=2</a>'
    """
    pieces = []
    for piece, link in split_links(one_line(text)):
        safe = escape(piece)
        pieces.append(f'<a href="{safe}">{safe}</a>' if link else safe)
    return "".join(pieces)


def escape(text: str) -> str:
    """Return a text such that HTML shows it as it is."""
    return html.escape(_CONTROL.sub("\ufffd", text))
