"""A dataset for the Hugging Face Hub: a folder of Parquet files and a dataset card (README.md)."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from aliquot._version import __version__
from aliquot.core import escape
from aliquot.core.evalset import EvalSet
from aliquot.errors import AliquotWarning, OptionError
from aliquot.io.formats import parquet, tables
from aliquot.io.writing import new_folder, write_parquet

_CODE = re.compile(r"[A-Za-z0-9][\w.\-]*", re.ASCII)  # of a licence, a language, a task
_SIZES = (("n<1K", 10**3), ("1K<n<10K", 10**4), ("10K<n<100K", 10**5), ("100K<n<1M", 10**6), ("1M<n<10M", 10**7))
_LARGEST = "10M<n<100M"
_CONTENT = {
    "items": "a row for each item: source (`src`), outputs by system (`tgt`), scores by system (`scores`), judgments",
    "scores": "a row for each score of an output: `item`, `system`, `metric`, `value`; higher is better",
    "judgments": "a row for each judgment: `item`, `system`, `annotator`, `criterion`, `value`, ...",
}


@dataclass(frozen=True)
class CardOptions:
    """Fields of a dataset card that the data do not hold.

    Attributes:
        license: Its identifier on the Hub, such as "cc-by-4.0".
        language: Codes such as "de", joined by "|".
        pretty_name: The title; by default the name of the data.
        task: The Hub's name of what the systems do, such as "translation".
    """

    license: str | None = None
    language: str | None = None
    pretty_name: str | None = None
    task: str = "text-generation"

    def __post_init__(self) -> None:
        for name in ("license", "language", "task"):
            for code in (getattr(self, name) or "").split("|"):
                if code and not _CODE.fullmatch(code):
                    raise OptionError(f"huggingface: {name} is '{code}'; write a code of the Hub, e.g. mit, de", "to")


def find_items(folder: Path) -> Path | None:
    """Return the file of items in a folder that `write` made; None in others."""
    path = folder / "data" / "items.parquet"
    return path if path.is_file() else None


def write(evalset: EvalSet, path: str | Path, **options: str) -> None:
    """Write a new folder: `data/items.parquet` has everything, `scores` and `judgments` are long tables for viewers."""
    card = CardOptions(**options)
    long_tables: dict[str, pl.DataFrame] = {}
    if evalset.scores and evalset.systems:
        long_tables["scores"] = tables.build_long_scores(evalset)
    if evalset.judgments is not None:
        long_tables["judgments"] = evalset.judgments.table
    with new_folder(path) as folder:
        (folder / "data").mkdir()
        parquet.write(evalset, folder / "data" / "items.parquet")
        for name, table in long_tables.items():
            write_parquet(table, folder / "data" / f"{name}.parquet")
        rows = {"items": evalset.n_items} | {name: table.height for name, table in long_tables.items()}
        (folder / "README.md").write_text(format_card(evalset, rows, card), encoding="utf-8")
    if evalset.judgments is not None and evalset.judgments.annotators:
        note = f"{path}: annotators' ids are written as they are; replace names of people before you publish them"
        warnings.warn(note, AliquotWarning, stacklevel=2)


def format_card(evalset: EvalSet, rows: Mapping[str, int], options: CardOptions) -> str:
    """Return the dataset card: what the Hub reads as YAML, and a description.

    Args:
        evalset: The data.
        rows: The number of rows of each Parquet file.
        options: What the data do not say.
    """
    title = options.pretty_name or evalset.name
    parts = [
        _format_metadata(title, rows, options),
        f"# {escape.markdown(title)}\n",
        f"{_count_content(evalset)}. Written by aliquot {__version__}; fingerprint `{evalset.fingerprint}`.\n",
        *(["The licence is not stated.\n"] if options.license is None else []),
        "| configuration | rows | content |\n|---|---|---|",
        *(f"| `{name}` | {count:,} | {_CONTENT[name]} |" for name, count in rows.items()),
        f"\nSystems: {_list_names(evalset.systems)}.\n",
        *(_describe_scores(evalset) if evalset.scores else []),
        *(_describe_annotators(evalset)),
        "## Use\n",
        "```bash\naliquot inspect hf://datasets/OWNER/NAME/data/items.parquet\n```\n",
        "```python\nimport polars as pl\n",
        *(f'{name} = pl.read_parquet("hf://datasets/OWNER/NAME/data/{name}.parquet")' for name in rows),
        "```",
    ]
    return "\n".join(parts) + "\n"


def _format_metadata(title: str, rows: Mapping[str, int], options: CardOptions) -> str:
    size = next((name for name, limit in _SIZES if rows["items"] < limit), _LARGEST)
    fields = {"license": options.license, "pretty_name": title}
    lists = {
        "language": [code for code in (options.language or "").split("|") if code],
        "task_categories": [options.task],
        "tags": ["human-evaluation", "aliquot"],
        "size_categories": [size],
    }
    lines = [f"{name}: {escape.yaml(value)}" for name, value in fields.items() if value is not None]
    for name, values in lists.items():
        lines += [f"{name}:", *(f"- {escape.yaml(value)}" for value in values)] if values else []
    lines.append("configs:")
    for number, name in enumerate(rows):
        lines += [f"- config_name: {name}", f"  data_files: data/{name}.parquet"]
        lines += ["  default: true"] if number == 0 else []
    return "\n".join(["---", *lines, "---\n"])


def _count_content(evalset: EvalSet) -> str:
    judgments = 0 if evalset.judgments is None else evalset.judgments.table.height
    counts = {"system": evalset.n_systems, "score": len(evalset.scores), "judgment": judgments}
    return ", ".join(
        f"{count:,} {noun}{'s' * (count != 1)}" for noun, count in ({"item": evalset.n_items} | counts).items() if count
    )


def _list_names(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(escape.markdown(name) for name in names) or "none"


def _describe_scores(evalset: EvalSet) -> list[str]:
    human = [name for name in evalset.scores if name not in evalset.metrics]
    flipped = sorted(evalset.flipped & evalset.scores.keys())
    return [
        f"Scores that people gave: {_list_names(human)}. Other scores: {_list_names(evalset.metrics)}.\n",
        *([f"Lower was better in these, whose sign is changed: {_list_names(flipped)}.\n"] if flipped else []),
    ]


def _describe_annotators(evalset: EvalSet) -> list[str]:
    annotators = [] if evalset.judgments is None else evalset.judgments.annotators
    if not annotators:
        return []
    return [f"Annotators: {len(annotators):,}. Their ids are written as they were given; they may identify people.\n"]
