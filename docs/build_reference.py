"""Write docs/cli.md and docs/api.md from --help and the docstrings; `--check` only says whether they are current."""

from __future__ import annotations

import contextlib
import inspect
import io
import os
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

os.environ.update({"COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1", "TERMINAL_WIDTH": "100"})

import aliquot
from aliquot.cli.main import VERBS, run, subcommands

HERE = Path(__file__).parent
NOTE = "<!-- made by docs/build_reference.py (make docs); do not edit -->\n"
SHARED = 5
"""An option that so many commands have is described once."""
WRAPPED = 8
"""Columns in front of a line that goes on with the row before."""


def help_of(arguments: list[str]) -> tuple[str, dict[str, list[str]]]:
    """Return the text above the options of --help-all, and the rows of each panel without its frame."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        run([*arguments, "--help-all"])
    text: list[str] = []
    panels: dict[str, list[str]] = {}
    for line in out.getvalue().strip().splitlines():
        if line.startswith("╭"):
            rows = panels.setdefault(line.strip("╭─╮ "), [])
        elif not line.startswith(("│", "╰")):
            text.append(line.strip())
        elif line.startswith("│"):
            row = line.strip("│").rstrip()
            if len(row) - len(row.lstrip()) < WRAPPED:
                rows.append(row.strip())
            else:  # of the row before
                rows[-1] += "\n" + row[1:]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(text)).strip(), panels


def cli_page() -> str:
    """Return the page of all commands; options that most of them have are described once."""
    commands = [[verb, *name] for verb in VERBS for name in [[], *([name] for name in subcommands(verb))]]
    helps = [help_of(" ".join(command).split()) for command in commands]
    counts = Counter(
        _words(row) for _, panels in helps for rows in panels.values() for row in rows if row.startswith("-")
    )
    text, panels = help_of([])
    rows = {_words(row): row for _, panels in helps for rows in panels.values() for row in rows if row.startswith("-")}
    shared = [
        re.sub(r" {2,}", "  ", re.sub(r"\s*\n\s*", " ", row)) for words, row in rows.items() if counts[words] >= SHARED
    ]
    parts = [NOTE, "# Command line\n", _block(text, panels, counts)]
    parts.append("## Options of many commands\n\n```text\n" + "\n".join(shared) + "\n```\n")
    for command, (text, panels) in zip(commands, helps, strict=True):
        parts += [f"{'#' * (len(command) + 1)} aliquot {' '.join(command)}\n", _block(text, panels, counts)]
    return "\n".join(parts)


def _words(row: str) -> str:
    return " ".join(row.split())


def _block(text: str, panels: dict[str, list[str]], counts: Counter[str]) -> str:
    parts = [text]
    parts += [
        f"{name}\n" + "\n".join("  " + row.replace("\n", "\n  ") for row in own)
        for name, rows in panels.items()
        if (own := [row for row in rows if counts[_words(row)] < SHARED])
    ]
    also = [row.split()[0] for rows in panels.values() for row in rows if counts[_words(row)] >= SHARED]
    parts += ["Also: " + " ".join(also)] if also else []
    return "```text\n" + "\n\n".join(parts) + "\n```\n"


def api_page() -> str:
    """Return the page of all public names."""
    parts = [NOTE, "# Python\n"]
    for name in aliquot.__all__:
        public = getattr(aliquot, name)
        if isinstance(public, str):
            continue  # the version
        parts += _described(name, public, "##")
        if inspect.ismodule(public):
            for inner in public.__all__:
                parts += _described(f"{name}.{inner}", getattr(public, inner), "###")
    return "\n".join(parts)


def _described(name: str, public: Any, heading: str) -> list[str]:
    text = (inspect.getdoc(public) or "").strip()
    kind = "class" if inspect.isclass(public) else "module" if inspect.ismodule(public) else "function"
    call = ""
    if kind == "function" or (kind == "class" and not issubclass(public, BaseException)):
        signature = inspect.signature(public)
        parameters = [parameter.replace(annotation=parameter.empty) for parameter in signature.parameters.values()]
        call = str(signature.replace(parameters=parameters, return_annotation=signature.empty))
    parts = [f"{heading} aliquot.{name}\n\n`{name}{call}` ({kind})\n\n```text\n{text}\n```\n"]
    if inspect.isclass(public):
        parts += [_method(name, *member) for member in inspect.getmembers(public) if _own(public, *member)]
    return parts


def _own(public: type, name: str, member: object) -> bool:
    owner = next((base for base in public.__mro__ if name in vars(base)), object)
    in_room = owner.__module__.startswith(public.__module__.rpartition(".")[0])  # not Result's
    return not name.startswith("_") and in_room and (callable(member) or isinstance(member, property))


def _method(owner: str, name: str, member: object) -> str:
    text = (inspect.getdoc(member) or "").strip().split("\n\n")[0].replace("\n", " ")
    return f"- `{owner}.{name}`: {text}"


def main() -> int:
    """Write the pages, or check them."""
    status = 0
    for path, content in ((HERE / "cli.md", cli_page()), (HERE / "api.md", api_page())):
        if "--check" not in sys.argv:
            path.write_text(content)
        elif not path.exists() or path.read_text() != content:
            print(f"{path.name} is out of date: run `make docs`")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
