"""Verbs start quickly: the slow libraries are imported only by the verbs that compute with them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import aliquot

SLOW = ("sklearn", "scipy.stats", "matplotlib", "sacrebleu", "joblib", "statsmodels", "pandas", "openpyxl")
LIGHT = {
    "inspect": ["inspect", "data.jsonl"],
    "convert": ["convert", "data.jsonl", "out.csv"],
    "demo synth": ["demo", "synth", "--items", "5", "-o", "new.jsonl"],
    "clean": ["clean", "data.jsonl", "--preset", "crowd"],
    "combine": ["combine", "data.jsonl"],
    "datasheet check": ["datasheet", "check", "sheet.toml"],
    "datasheet render": ["datasheet", "render", "sheet.toml"],
}
"""Verbs that import none of the slow libraries."""
STATISTICAL = {
    "estimate": ["estimate", "data.jsonl"],
    "select": ["select", "data.jsonl", "--budget", "5", "-m", "segments"],
    "plan": ["plan", "power", "--difference", "1", "--sd", "25"],
    "agreement": ["agreement", "data.jsonl", "--bootstrap", "10"],
}
"""Verbs that need scipy's distributions and tests, and nothing slower."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("startup")
    data = aliquot.synthetic(items=10, systems=3, seed=1)
    aliquot.save(data, folder / "data.jsonl")
    aliquot.datasheet.new(data).save(folder / "sheet.toml")
    return folder


def imported(arguments: list[str], folder: Path) -> list[str]:
    code = (
        "import sys; from aliquot.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit as done:\n    assert done.code in (0, 1, None), done.code\n"
        f"print('IMPORTED', *(name for name in {SLOW!r} if name in sys.modules))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()[-1].split()[1:]


@pytest.mark.parametrize("verb", LIGHT)
def test_light_verbs_import_nothing_slow(folder: Path, verb: str) -> None:
    assert imported(LIGHT[verb], folder) == []


@pytest.mark.parametrize("verb", STATISTICAL)
def test_statistical_verbs_import_scipy_only(folder: Path, verb: str) -> None:
    assert set(imported(STATISTICAL[verb], folder)) <= {"scipy.stats"}


def test_help_imports_no_numbers(folder: Path) -> None:
    code = "import sys; sys.argv = ['aliquot', '--help']\nfrom aliquot.cli.main import main\n"
    code += "try:\n    main()\nexcept SystemExit:\n    print('IMPORTED', {'numpy', 'polars'} & sys.modules.keys())"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=folder)
    assert ran.stdout.splitlines()[-1] == "IMPORTED set()"
