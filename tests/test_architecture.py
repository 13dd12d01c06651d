"""The house stays as DESIGN.md draws it: imports go one way."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "src" / "aliquot"

# stats <- data <- select, estimate, judge <- metaeval <- simulate <- plan <- collect, report <- cli
LEVEL = {
    "errors": 0, "stats": 1, "data": 2, "select": 3, "estimate": 3, "judge": 3, "metaeval": 4, "meta": 4, "compat": 4,
    "learn": 4, "simulate": 5, "pool": 5, "plan": 6, "collect": 7, "report": 7, "cli": 8,
}  # fmt: skip
SIBLINGS_APART = [(a, b) for a in ("select", "estimate", "judge") for b in ("select", "estimate", "judge") if a != b]
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
    assert here in LEVEL, f"{here} is not a room of the house; see DESIGN.md"
    for there in imported_rooms(path):
        assert LEVEL[there] <= LEVEL[here], f"{here} must not import {there}"
        assert (here, there) not in SIBLINGS_APART, f"{here} and {there} are side by side"


def test_stats_knows_no_tables():
    for path in (PACKAGE / "stats").glob("*.py"):
        assert "polars" not in path.read_text(), f"{path.name}: stats is arrays in, arrays out"


def test_the_rule_can_fail(tmp_path):
    bad = tmp_path / "bad.py"
    bad.write_text("from aliquot.cli.main import run\n")
    assert imported_rooms(bad) == {"cli"}
