"""The house stays as docs/architecture.md draws it: imports go one way."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "src" / "aliquot"

# stats <- core <- io <- annotation <- estimation <- sampling <- metric_eval <- simulation <- planning <- collect,
# report <- cli. Estimation needs the noise of judgments; a learned utility may predict an estimator's residuals.
LEVEL = {
    "_version": 0,
    "errors": 0,
    "validation": 0,
    "stats": 1,
    "core": 2,
    "io": 3,
    "annotation": 4,
    "estimation": 5,
    "sampling": 6,
    "metric_eval": 7,
    "meta": 7,
    "compat": 7,
    "simulation": 8,
    "planning": 9,
    "collect": 10,
    "report": 10,
    "cli": 11,
    "__main__": 12,
}
# Selection.load, Selection.save, Result.save, EvalSet.from_frame and Judgments of a pandas table are shortcuts into io.
EXCEPTIONS = {(f"core/{name}.py", "io") for name in ("selection", "result", "evalset", "judgments")}
MODULES = sorted(PACKAGE.rglob("*.py"))


def room(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "aliquot" and len(parts) > 1 and parts[1] in LEVEL:
                found.add(parts[1])
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_one_way(path):
    here = room(path)
    if here == "__init__":
        return  # the public names, resolved lazily
    assert here in LEVEL, f"{here} is not a room of the house; see docs/architecture.md"
    for there in imported_rooms(path):
        if (path.relative_to(PACKAGE).as_posix(), there) in EXCEPTIONS:
            continue
        assert LEVEL[there] <= LEVEL[here], f"{here} must not import {there}"


def test_stats_knows_no_tables():
    for path in (PACKAGE / "stats").glob("*.py"):
        assert "polars" not in path.read_text(), f"{path.name}: stats is arrays in, arrays out"


def test_spreads_are_compared_with_0_by_a_scale():
    """Whether a computed spread is exactly 0 depends on the processor: see `is_negligible` in stats/arrays.py."""
    exact = re.compile(r"(std|var|ptp)\([^()]*(\([^()]*\))?[^()]*\) *(==|!=|>|<=) *0|max\(.*\) == .*min\(")
    for path in MODULES:
        assert not exact.search(path.read_text()), f"{path.name}: use is_constant or is_negligible"
    assert exact.search("if not np.nanstd(values) > 0:")


def test_only_what_is_shown_names_a_room_above_as_text():
    """Results reach `report` by a name in core/shown.py; no other import is hidden from the rule above."""
    named = {
        (path.relative_to(PACKAGE).as_posix(), f"aliquot.{rest}")
        for path in MODULES
        if room(path) in LEVEL and "import_module(" in path.read_text()
        for rest, there in re.findall(r'"aliquot\.((\w+)[\w.]*)"', path.read_text())
        if LEVEL.get(there, 0) > LEVEL[room(path)]
    }
    assert named == {("core/shown.py", "aliquot.report.verdicts"), ("core/shown.py", "aliquot.report.notebook")}


def test_the_rule_can_fail(tmp_path):
    bad = tmp_path / "bad.py"
    bad.write_text("from aliquot.cli.main import run\n")
    assert imported_rooms(bad) == {"cli"}


def test_a_class_name_has_one_meaning():
    """No two modules define a class of the same name."""
    places: dict[str, list[str]] = {}
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(str(path.relative_to(PACKAGE)))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_the_library_speaks_python():
    """Messages outside cli name parameters in backticks; the command line spells them as options."""
    flag = re.compile(r"(?<![\w`-])--[a-z][a-z-]+")
    lines = []
    for path in MODULES:
        if room(path) in ("cli", "compat") or path.name in ("demo.py", "examples.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Raise):
                text = ast.unparse(node)
                if flag.search(text) and "aliquot " not in text:
                    lines.append(f"{path.relative_to(PACKAGE)}:{node.lineno} {flag.findall(text)}")
    assert lines == []
