"""What the site has beside the pages of this folder: notebooks as pages with their outputs, and a gallery of reports.

mkdocs calls `on_files` (see mkdocs.yml). Everything is made anew at each build, from simulated data.
"""

from __future__ import annotations

import html
import os
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
GALLERY = {
    "mqm": {"data": "data.jsonl", "selection": "selection.jsonl", "judgments": "judgments.csv"},
    "summarisation": {"data": "data.jsonl"},
    "chat": {"data": "choices.csv"},
    "crowd": {"data": "data.jsonl"},
}
"""The files of each example that its report is made of."""


def on_files(files: Any, config: Any) -> Any:
    """Add generated files to the site."""
    from mkdocs.structure.files import File  # noqa: PLC0415

    for uri, content in {**notebook_pages(), **gallery()}.items():
        files.append(File.generated(config, uri, content=content))
    return files


def gallery() -> dict[str, str]:
    """The report of each example, by its place on the site."""
    import aliquot  # noqa: PLC0415

    pages = {}
    with tempfile.TemporaryDirectory() as place:
        for name, parts in GALLERY.items():
            (example,) = aliquot.examples(name, Path(place) / name)
            given = {role: str(Path(place) / name / file) for role, file in parts.items()}
            pages[f"gallery/{name}.html"] = aliquot.make_report(given.pop("data"), title=example.title, **given).html
    return pages


def notebook_pages() -> dict[str, str]:
    """The notebooks, run from top to bottom, as pages."""
    import nbformat  # noqa: PLC0415
    from nbclient import NotebookClient  # noqa: PLC0415

    pages = {}
    for path in sorted((HERE / "notebooks").glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        with tempfile.TemporaryDirectory() as place:
            folder = {"metadata": {"path": place}}
            NotebookClient(notebook, timeout=600, kernel_name="python3", resources=folder).execute(env=dict(os.environ))
        pages[f"notebooks/{path.stem}.md"] = page_of(notebook, path.name)
    return pages


def page_of(notebook: Any, name: str) -> str:
    """A notebook as Markdown: texts as they are, code as blocks, results below them."""
    parts = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        streamed = "".join(output["text"] for output in cell.outputs if output["output_type"] == "stream")
        rest = [output for output in cell.outputs if output["output_type"] != "stream"]
        parts += [shown for shown in (_text(streamed), *map(_shown, rest)) if shown]
    parts.insert(1, f"[Download the notebook]({name})")
    return "\n\n".join(parts) + "\n"


def _shown(output: Any) -> str:
    """What a reader sees of a cell's output: HTML or a picture where there is one, else text."""
    data = output.get("data", {})
    if "image/svg+xml" in data:
        svg = data["image/svg+xml"]
        return f'<div class="notebook-output">{svg[svg.index("<svg") :]}</div>'
    if "text/html" in data:
        return f'<div class="notebook-output">{_flat(data["text/html"])}</div>'
    return _text(data.get("text/plain", ""))


def _text(text: str) -> str:
    """Plain text; of a line that renews itself what stays."""
    last = [line.rsplit("\r", 1)[-1] for line in text.split("\n")]
    return f"<pre>{html.escape(chr(10).join(last).strip())}</pre>" if text.strip() else ""


def _flat(text: str) -> str:
    """HTML without empty lines, at which Markdown would begin a new block."""
    return "\n".join(line for line in text.splitlines() if line.strip())
