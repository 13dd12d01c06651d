"""Write docs/cli.md and docs/api.md from --help and the docstrings; `--check` only says whether they are current."""

from __future__ import annotations

import contextlib
import inspect
import io
import os
import sys
from pathlib import Path
from typing import Any

os.environ.update({"COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1", "TERMINAL_WIDTH": "100"})

import aliquot
from aliquot.cli.main import VERBS, run, subcommands

HERE = Path(__file__).parent
NOTE = "<!-- made by docs/build_reference.py (make docs); do not edit -->\n"


def help_of(arguments: list[str]) -> str:
    """Return what --help-all prints, without colours and trailing blanks."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        run([*arguments, "--help-all"])
    return "\n".join(line.rstrip() for line in out.getvalue().strip().splitlines())


def cli_page() -> str:
    """Return the page of all commands."""
    parts = [NOTE, "# Command line\n", f"```text\n{help_of([])}\n```\n"]
    for verb in VERBS:
        parts.append(f"## aliquot {verb}\n\n```text\n{help_of([verb])}\n```\n")
        parts += [f"### aliquot {verb} {name}\n\n```text\n{help_of([verb, name])}\n```\n" for name in subcommands(verb)]
    return "\n".join(parts)


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
        call = str(inspect.signature(public)).replace("'", "")
    parts = [f"{heading} aliquot.{name}\n\n`{name}{call}` ({kind})\n\n```text\n{text}\n```\n"]
    if inspect.isclass(public):
        parts += [_method(name, *member) for member in inspect.getmembers(public) if _own(public, *member)]
    return parts


def _own(public: type, name: str, member: object) -> bool:
    return not name.startswith("_") and name in vars(public) and (callable(member) or isinstance(member, property))


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
