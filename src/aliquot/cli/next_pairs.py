"""`aliquot next --unit pair`: which two outputs should people choose between next?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
from rich.console import Console
from rich.table import Table

from aliquot.cli import render
from aliquot.core.evalset import EvalSet
from aliquot.core.result import signature
from aliquot.errors import OptionError
from aliquot.io.formats.table_columns import parse_columns
from aliquot.sampling.dueling import PairAllocator, PairAsk
from aliquot.sampling.pair_decisions import PairAdvice


def decided(
    evalset: EvalSet,
    choices: Sequence[Path] | None,
    asked: Sequence[Path],
    columns: str | None,
    options: dict[str, Any],
    k: int,
) -> tuple[PairAllocator, PairAdvice, list[PairAsk]]:
    """The allocator after all choices so far, what it says, and the next pairs."""
    allocator = PairAllocator.from_choices(
        evalset, choices, asked=asked, columns=parse_columns(columns) if columns else None, **options
    )
    with render.busy("deciding"):
        advice = allocator.advice()
        pairs = allocator.next(k)
    return allocator, advice if pairs else allocator.advice(), pairs


def refuse_cell_options(given: dict[str, Any]) -> None:
    """Options that only cells have."""
    for name, value in given.items():
        if value is not None:
            raise OptionError(f"--{name} is for cells; --unit pair does not take it")


def pairs_table(pairs: list[PairAsk], data: EvalSet, *, texts: bool = False) -> pl.DataFrame:
    """One row for each pair: item, system_a and system_b in the order to show them, probability, perhaps texts."""
    table = pl.DataFrame(
        {
            "item": pl.Series([ask.item for ask in pairs], dtype=data.items["id"].dtype),
            "system_a": pl.Series([ask.a for ask in pairs], dtype=pl.String),
            "system_b": pl.Series([ask.b for ask in pairs], dtype=pl.String),
            "probability": pl.Series([ask.probability for ask in pairs], dtype=pl.Float64),
        }
    )
    if not texts:
        return table
    if data.outputs is None or "source" not in data.items.columns:
        raise OptionError(f"--texts: {data.name} has no {'outputs' if data.outputs is None else 'sources'}")
    row_of = {item: row for row, item in enumerate(data.ids)}
    shown = {
        f"output_{side}": pl.Series(
            [data.outputs[getattr(ask, side)][row_of[ask.item]] for ask in pairs], dtype=pl.String
        )
        for side in ("a", "b")
    }
    return table.with_columns(data.items["source"].gather([row_of[ask.item] for ask in pairs]).alias("source"), **shown)


def signature_of(data: EvalSet, options: dict[str, Any]) -> str:
    """How to get the same pairs again, given the same choices."""
    return signature(
        f"allocate:{options['policy']}", data, question=options["question"], unit="pair", seed=options["seed"]
    )


def document(allocator: PairAllocator, advice: PairAdvice, pairs: list[PairAsk], line: str) -> dict[str, Any]:
    """Return the JSON document of `next --unit pair --json`."""
    return {
        "advice": advice.text,
        "stop": advice.stop,
        "ranking": [vars(each) for each in allocator.ranking()],
        "pending": len(allocator.pending) - len(pairs),
        "next": [vars(ask) for ask in pairs],
        "signature": line,
    }


def show(
    allocator: PairAllocator, advice: PairAdvice, pairs: list[PairAsk], output: Path | None, line: str, console: Console
) -> None:
    """Print the advice, the systems by strength, and what was written."""
    chosen = int(sum(each.n for each in allocator.ranking()) / 2)
    console.print(advice.text, markup=False)
    console.print(
        f"{chosen} choices, {len(allocator.pending) - len(pairs)} still with people, {len(pairs)} new\n", markup=False
    )
    console.print(_ranking(allocator, pairs))
    console.print()
    if not pairs:
        console.print("no pair is left to ask", markup=False)
    if output is None:
        first = ", ".join(f"{ask.item} {ask.a} / {ask.b}" for ask in pairs[:6])
        console.print(
            f"next: {first}{' ...' * (len(pairs) > 6)}\nnothing written; give -o FILE to keep it", markup=False
        )
    else:
        console.print(f"wrote {output}", markup=False)
    render.signature(line, console)


def _ranking(allocator: PairAllocator, pairs: list[PairAsk]) -> Table:
    table = render.columns(render.table(), left=["system"], right=["strength", "error", "choices", "new"])
    for each in allocator.ranking():
        new = sum(each.system in (ask.a, ask.b) for ask in pairs)
        table.add_row(each.system, f"{each.strength:.2f}", f"{each.se:.2f}", str(each.n), str(new))
    return table
