"""Nothing public goes without documentation, and every documented example runs."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import inspect
import json
import re
import shlex
import subprocess
import sys
import tomllib
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import aliquot
from aliquot.cli.main import VERBS, build_app, run, subcommands
from aliquot.simulation.examples import EXAMPLES

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", *DOCS.rglob("*.md")])
GENERATED = {DOCS / "api.md", DOCS / "cli.md"}
BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
WITH_EXAMPLES = sorted(
    ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")
    for path in (ROOT / "src").rglob("*.py")
    if ">>> " in path.read_text()
)


@pytest.mark.parametrize("name", aliquot.__all__)
def test_public_names_have_documentation(name):
    public = getattr(aliquot, name)
    if inspect.ismodule(public) or inspect.isclass(public) or callable(public):
        assert inspect.getdoc(public), f"aliquot.{name} has no docstring"


def test_every_public_name_is_explained_on_a_page_written_by_hand():
    text = "".join(page.read_text() for page in PAGES if page not in GENERATED)
    missing = [name for name in aliquot.__all__ if not re.search(rf"\baliquot\.{name}\b", text)]
    assert not missing, f"in no page but the generated reference: {missing}"


def test_the_version_is_the_same_everywhere():
    assert f"\nversion: {aliquot.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    newest = re.search(r"^## (\S+) \(\d{4}-\d\d-\d\d\)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None
    assert newest[1] == aliquot.__version__


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_an_example_and_a_place_in_the_docs(verb, capsys):
    assert run([verb, "--help"]) == 0
    text = capsys.readouterr().out
    assert f"Example: aliquot {verb}" in " ".join(text.split())
    assert f"## aliquot {verb}" in (ROOT / "docs" / "cli.md").read_text(), "run `make docs`"


@pytest.mark.parametrize("verb", VERBS)
def test_every_subcommand_has_an_example_and_a_place_in_the_docs(verb, capsys):
    for name in subcommands(verb):
        assert run([verb, *name.split(), "--help"]) == 0
        assert f"Example: aliquot {verb} {name}" in " ".join(capsys.readouterr().out.split())
        assert f"### aliquot {verb} {name}" in (ROOT / "docs" / "cli.md").read_text(), "run `make docs`"


def test_the_reference_is_current():
    check = subprocess.run(
        [sys.executable, ROOT / "docs" / "build_reference.py", "--check"], capture_output=True, text=True, check=False
    )
    assert check.returncode == 0, check.stdout + check.stderr


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_doctests(name):
    module = importlib.import_module(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", aliquot.AliquotWarning)
        results = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert results.attempted, f"{name} shows examples that doctest does not find"
    assert not results.failed


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"], ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in LINK.findall(text):
        path, _, anchor = target.partition("#")
        if "://" in target:
            continue
        found = page if not path else page.parent / path
        if page == DOCS / "gallery.md" and path.startswith("gallery/"):
            assert Path(path).stem in EXAMPLES, f"no example for {path}"  # made when the site is built
            continue
        assert found.exists(), f"{page.name}: no {target}"
        assert page.parent != DOCS or DOCS in found.parents, f"{page.name}: {target} is not part of the site"
        assert not anchor or anchor in anchors(found), f"{page.name}: no heading for {target}"


def anchors(page: Path) -> set[str]:
    """The ids that a page's headings get on the site."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\s-]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def test_files_named_in_the_text_exist():
    for page in PAGES:
        for name in re.findall(r"`([a-z_]+(?:/[a-z_]+)+\.(?:py|toml))`", page.read_text()):
            assert (ROOT / name).exists() or (ROOT / "src" / "aliquot" / name).exists(), f"{page.name} names {name}"


def test_every_page_has_its_place_in_the_navigation():
    listed = re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2])
    notebooks = [f"notebooks/{path.stem}.md" for path in (DOCS / "notebooks").glob("*.ipynb")]  # made for the site
    assert sorted(listed) == sorted([*{page.name for page in PAGES if page.parent == DOCS}, *notebooks])


def test_the_gallery_has_every_example():
    spec = importlib.util.spec_from_file_location("site_hooks", DOCS / "site_hooks.py")
    assert spec is not None
    assert spec.loader is not None
    hooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hooks)
    assert list(hooks.GALLERY) == list(EXAMPLES)
    for name, parts in hooks.GALLERY.items():
        assert set(parts.values()) <= set(EXAMPLES[name][0].files)


# -- What is not run is checked as far as it can be ------------------------------------------------------------------

LANGUAGES = {"python", "console", "bash", "text", "json", "toml"}
"""Of code blocks: python and console are run; commands of bash must exist, json and toml must be readable."""
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
INLINE = re.compile(r"`(aliquot [a-z][^`]*)`")


@cache
def options_of(verb: str) -> tuple[set[str], dict[str, set[str]]]:
    """The options of a verb, and those of its subcommands."""
    group: Any = get_command(build_app(verb))
    below = {
        name: {option for parameter in inner.params for option in (*parameter.opts, *parameter.secondary_opts)}
        for name, inner in _commands_of(group.commands[verb]).items()
    }
    return below.pop("", set()) | below.pop("run", set()), below


def _commands_of(command: Any, name: str = "") -> dict[str, Any]:
    """The commands of a verb by the words behind it; one without subcommands is ''."""
    commands = {name: command}
    for inner_name, inner in getattr(command, "commands", {}).items():
        commands |= _commands_of(inner, f"{name} {inner_name}".strip())
    return commands


def require_known(command: str, page: str) -> None:
    """Refuse a command with a verb, a subcommand or an option that does not exist."""
    words = shlex.split(command.replace("...", ""), comments=True)[1:]
    if not words or words[0].startswith("-"):
        return
    assert words[0] in VERBS, f"{page}: `{command}`: there is no verb {words[0]}"
    own, below = options_of(words[0])
    own = below.get(" ".join(words[1:3]), below.get(" ".join(words[1:2]), own))
    for word in words[1:]:
        name = word.partition("=")[0]
        if name.startswith("-") and not re.fullmatch(r"-|-?\d.*", name):
            assert name in own | {"--help", "-h", "--debug"}, f"{page}: `{command}`: no option {name}"


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_commands_in_the_text_exist(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for command in INLINE.findall(text):
        require_known(" ".join(command.split()), page.name)


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_blocks_that_are_not_run_can_be_read(page):
    text = page.read_text()
    fences = re.findall(r"^```(.*)$", text, re.MULTILINE)
    assert set(fences[::2]) <= LANGUAGES, f"{page.name}: give every block one of {sorted(LANGUAGES)}"
    assert not any(fences[1::2]), f"{page.name}: a block is not closed"
    for language, code in BLOCK.findall(text):
        if language == "json":
            json.loads(code)
        elif language == "toml":
            tomllib.loads(code)
        elif language == "bash":
            for line in code.splitlines():
                require_runnable(line, page.name)


def require_runnable(line: str, page: str) -> None:
    """Refuse a shell line whose program, make target or extra does not exist."""
    for command in line.partition(" #")[0].split("&&"):
        words = shlex.split(command, comments=True)
        if not words:
            continue
        assert words[0] in {"aliquot", "make", "pip", "git", "cd", "sh"}, f"{page}: what is {words[0]}?"
        if words[0] == "aliquot":
            require_known(command.strip(), page)
        elif words[0] == "make":
            assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE), (
                f"{page}: make {words[1]}"
            )
        for extras in re.findall(r"\[([\w,]+)\]", command):
            assert set(extras.split(",")) <= set(EXTRAS), f"{page}: {command}"


def test_an_unknown_command_is_found():
    with pytest.raises(AssertionError, match="no option --budgte"):
        require_known("aliquot select data.jsonl --budgte 10", "page")
    with pytest.raises(AssertionError, match="no verb"):
        require_known("aliquot chose data.jsonl", "page")


@pytest.fixture
def forgotten_modules(tmp_path):
    """Two pages may write modules of the same name."""
    yield
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.mark.usefixtures("forgotten_modules")
@cache
def visible_options() -> frozenset[str]:
    """Every option of every verb that is not an old spelling."""
    groups: dict[str, Any] = {verb: get_command(build_app(verb)) for verb in VERBS}
    commands = [each for verb, group in groups.items() for each in _commands_of(group.commands[verb]).values()]
    parameters = [
        parameter for command in commands for parameter in command.params if not getattr(parameter, "hidden", False)
    ]
    return frozenset(option for parameter in parameters for option in (*parameter.opts, *parameter.secondary_opts))


@pytest.mark.parametrize("page", [page for page in PAGES if page not in GENERATED], ids=lambda page: page.name)
def test_options_named_in_the_text_exist(page):
    """Options in backticks are those of a verb, in their present spelling."""
    text = BLOCK.sub("", page.read_text())
    named = set(re.findall(r"`(--[a-z][a-z-]*)", text))
    others = {
        "--help",
        "--help-all",
        "--all-rows",
        "--stop",
        "--as-meant",
        "--debug",
        "--version",
    }  # of aliquot itself, of benchmarks
    unknown = named - visible_options() - others
    assert not unknown, f"{page.name} names {sorted(unknown)}, which no verb shows"


def test_counts_in_the_text_are_those_of_the_code():
    """'31 methods', '14 verbs': a number before a word that the code can count."""
    counts = {"verbs": len(VERBS), "presets": len(list((ROOT / "src/aliquot/collect/presets").glob("*.toml")))}
    for page in PAGES:
        for number, word in re.findall(r"\b(\d+) (verbs|presets)\b", page.read_text()):
            assert int(number) == counts[word], f"{page.name}: {number} {word}; there are {counts[word]}"


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
            run_console(code, page.name, capsys)


def run_console(code: str, page: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Run the commands of a block; each must succeed and print what is shown below it.

    `...` at the end of a line stands for anything.
    """
    for part in re.split(r"^\$ ", code, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        arguments = shlex.split(command, comments=True)
        assert arguments[0] == "aliquot", f"{page}: only aliquot is run in a console block, not {arguments[0]}"
        capsys.readouterr()
        status = run(arguments[1:])
        printed = capsys.readouterr()
        assert status == 0, f"{page}: {command}\n{printed.err}"
        flat = " ".join(printed.out.split())
        for passage in re.split(r"(?:^| )\.\.\.$", shown, flags=re.MULTILINE):
            found = " ".join(passage.split()) in flat
            assert found, f"{page}: `{command}` no longer prints\n{passage}\nIt prints\n{printed.out}"
