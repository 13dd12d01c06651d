"""Nothing public goes without documentation, and every documented example runs."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import re
import shlex
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import aliquot
from aliquot.cli.main import VERBS, run, subcommands

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
MODULES = [
    module.name
    for module in pkgutil.walk_packages(aliquot.__path__, "aliquot.")
    if not module.name.endswith("__main__")
]


@pytest.mark.parametrize("name", aliquot.__all__)
def test_public_names_have_documentation(name):
    public = getattr(aliquot, name)
    if inspect.ismodule(public) or inspect.isclass(public) or callable(public):
        assert inspect.getdoc(public), f"aliquot.{name} has no docstring"
    pages = "".join(page.read_text() for page in PAGES)
    assert re.search(rf"\b{name}\b", pages), f"aliquot.{name} is in no page of the docs"


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_an_example_and_a_place_in_the_docs(verb, capsys):
    assert run([verb, "--help"]) == 0
    text = capsys.readouterr().out
    assert f"Example: aliquot {verb}" in " ".join(text.split())
    assert f"## aliquot {verb}" in (ROOT / "docs" / "cli.md").read_text(), "run `make docs`"


@pytest.mark.parametrize("verb", VERBS)
def test_every_subcommand_has_an_example_and_a_place_in_the_docs(verb, capsys):
    for name in subcommands(verb):
        assert run([verb, name, "--help"]) == 0
        assert f"Example: aliquot {verb} {name}" in " ".join(capsys.readouterr().out.split())
        assert f"### aliquot {verb} {name}" in (ROOT / "docs" / "cli.md").read_text(), "run `make docs`"


def test_the_reference_is_current():
    check = subprocess.run(
        [sys.executable, ROOT / "docs" / "build_reference.py", "--check"], capture_output=True, text=True, check=False
    )
    assert check.returncode == 0, check.stdout + check.stderr


@pytest.mark.parametrize("name", MODULES)
def test_doctests(name):
    module = importlib.import_module(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", aliquot.AliquotWarning)
        results = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert results.failed == 0


@pytest.fixture
def forgotten_modules(tmp_path):
    """Two pages may write modules of the same name."""
    yield
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.mark.usefixtures("forgotten_modules")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_run(page, tmp_path, monkeypatch, capsys):
    """Run the python and console blocks of a page, in order, in one fresh folder."""
    monkeypatch.chdir(tmp_path)
    space: dict[str, object] = {}
    for language, code in BLOCK.findall(page.read_text()):
        if language == "python":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", aliquot.AliquotWarning)
                exec(compile(code, f"{page.name}", "exec"), space)  # noqa: S102
        elif language == "console":
            for line in code.splitlines():
                if line.startswith("$ aliquot "):
                    assert run(shlex.split(line, comments=True)[2:]) == 0, f"{line}\n{capsys.readouterr().err}"
