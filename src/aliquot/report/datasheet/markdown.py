"""A datasheet as Markdown (CommonMark): answers are quoted blocks, and nothing in them is taken for markup."""

from __future__ import annotations

import re
from collections.abc import Iterator

from aliquot.report.datasheet.view import TITLE, Entry, View, one_line, split_links

_MARKUP = re.compile(r"([\\`*_\[\]<>&|~$])")
_AT_START = re.compile(r"^([#+\-=:]|\d{1,9}(?=[.)]))")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x80-\x9f\u2028\u2029]")


def to_markdown(view: View) -> str:
    """Return the sheet as Markdown."""
    lines = [f"# {TITLE}: {escape(view.name)}", "", view.status]
    for part in view.parts:
        lines += ["", f"## {part.number} {escape(part.title)}"]
        for group in part.groups:
            if group.title:
                lines += ["", f"### {group.number} {group.title}"]
            for entry in group.entries:
                lines += ["", *_entry(entry)]
    if view.signatures:
        lines += ["", "## How this sheet was filled in", ""]
        lines += [f"- {escape(signature)}" for signature in view.signatures]
    return "\n".join(lines) + "\n"


def _entry(entry: Entry) -> Iterator[str]:
    yield f"**{entry.number} {entry.title}.** {escape(entry.ask)}"
    yield ""
    blocks: list[list[str]] = []
    if entry.remark:
        blocks.append([f"*{entry.remark}*"])
    if entry.choices:
        blocks.append([f"- [{'x' if choice.chosen else ' '}] {escape(choice.label)}" for choice in entry.choices])
    blocks += [[f"{escape(line)}\\" for line in lines[:-1]] + [escape(lines[-1])] for lines in entry.paragraphs]
    if entry.source:
        blocks.append([f"*(filled in from {escape(entry.source)})*"])
    for at, block in enumerate(blocks):
        if at:
            yield ">"
        yield from (f"> {line}" for line in block)


def escape(text: str) -> str:
    r"""Return one line of text such that Markdown shows it as it is; web addresses become links.

    >>> print(escape("1. *not* a list, see https://a.org/x_y"))
    1\. \*not\* a list, see <https://a.org/x_y>
    """
    pieces = [f"<{piece}>" if link else _plain(piece) for piece, link in split_links(one_line(text))]
    return _AT_START.sub(_at_start, "".join(pieces))


def _plain(text: str) -> str:
    return _MARKUP.sub(r"\\\1", _CONTROL.sub("\ufffd", text))


def _at_start(found: re.Match[str]) -> str:
    mark = found.group(1)
    return f"\\{mark}" if not mark.isdigit() else mark + "\\"
