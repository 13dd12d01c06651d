"""The notebooks of the documentation run from top to bottom, on simulated data, and are kept without outputs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def test_there_are_three():
    assert [path.stem for path in NOTEBOOKS] == ["campaign", "crowd", "metric"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_stripped(path):
    cells = json.loads(path.read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert code
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in code)


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[nbformat.NotebookNode]]:
    """The code cells of each notebook with their outputs.

    One kernel runs them all, its variables forgotten in between: importing aliquot and matplotlib three times would
    take longer than all the rest.
    """
    parts = {path.stem: nbformat.read(path, as_version=4).cells for path in NOTEBOOKS}
    cells = [cell for part in parts.values() for cell in (*part, nbformat.v4.new_code_cell("%reset -f"))]
    whole = nbformat.v4.new_notebook(cells=cells)
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS"), "1")
    path = os.pathsep.join([str(FOLDER.parents[1] / "src"), os.environ.get("PYTHONPATH", "")])
    folder = {"metadata": {"path": tmp_path_factory.mktemp("notebooks")}}
    client = NotebookClient(whole, timeout=300, kernel_name="python3", resources=folder, allow_errors=True)
    client.execute(env={**os.environ, **threads, "PYTHONPATH": path})
    return {name: [cell for cell in part if cell.cell_type == "code"] for name, part in parts.items()}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_runs(path, executed):
    outputs = [output for cell in executed[path.stem] for output in cell.outputs]
    errors = ["\n".join(output["traceback"]) for output in outputs if output["output_type"] == "error"]
    assert not errors, errors[0]
    shown = [kind for output in outputs for kind in output.get("data", {})]
    assert shown.count("text/html") >= 4  # results are tables
    assert shown.count("image/svg+xml") >= 2  # figures are drawn
    written = "".join(output["text"] for output in outputs if output["output_type"] == "stream")
    assert "Warning" not in written
    assert "widget" not in written
