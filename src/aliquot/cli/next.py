"""`aliquot next`: what should people judge next, given what they judged so far?"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import msgspec
import polars as pl
import typer

from aliquot.cli import common, options, render
from aliquot.core.evalset import EvalSet
from aliquot.core.registry import split_known_names
from aliquot.errors import OptionError, unknown_name
from aliquot.io.formats import tables
from aliquot.io.writing import resolve_ending, write_bytes
from aliquot.sampling.allocator import UNITS, Allocator
from aliquot.sampling.next_batch import Batch, add_texts, next_cells, next_pairs
from aliquot.sampling.pair_allocator import PairAllocator

_how = partial(typer.Option, rich_help_panel="How to decide")
_ENDINGS = (".csv", ".tsv", ".jsonl", ".parquet")


def run(
    data: options.DataArgument,
    reading: options.Reading,
    output: options.Output,
    judgments: Annotated[
        list[Path] | None,
        options.judgments_option(help="All answers so far; none before the first batch; may be repeated."),
    ] = None,
    asked: Annotated[
        list[Path] | None,
        typer.Option("--asked", metavar="FILE", help="Cells that people still work on; may be repeated."),
    ] = None,
    count: Annotated[int, typer.Option("--count", "-n", help="How many cells to give.")] = 20,
    question: Annotated[
        str, typer.Option("--question", "-q", help="top, ranking, best, means, or pairs of systems: A:B,C:D.")
    ] = "top",
    budget: Annotated[
        str | None, typer.Option("--budget", "-b", metavar="N", help="Cells in all (500), 40items, or a share (30%).")
    ] = None,
    policy: Annotated[
        str,
        _how(
            "--policy",
            metavar="SPEC",
            help="auto, uniform, rank:power=1, successive_rejects, successive_halving; pairs: also dueling, rucb.",
        ),
    ] = "auto",
    unit: Annotated[str, _how("--unit", help="What is given together: cell, item, document, or pair.")] = "cell",
    cost: Annotated[str | None, _how("--cost", metavar="COLUMN", help="Item column, or esa_time.")] = None,
    metrics: Annotated[str | None, _how("--metrics", metavar="A,B", help="Metrics to use; by default all.")] = None,
    scale: Annotated[str, _how("--scale", help="How people judge: penalties, ratings or auto.")] = "auto",
    alpha: Annotated[float, _how("--alpha", help="Error rate of all decisions together.")] = 0.05,
    margin: Annotated[float | None, _how("--margin", help="Target half width (--question means).")] = None,
    target: Annotated[
        str,
        _how("--target", help="What decisions are about: testset (other annotators, too) or given."),
    ] = "testset",
    texts: Annotated[
        bool, options.rare_option("--texts", help="Write the source and the output of every cell, too.")
    ] = False,
    selection_out: Annotated[
        Path | None,
        options.rare_option("--selection-out", metavar="FILE", help="Write all cells asked so far, for `estimate -s`."),
    ] = None,
    seed: options.SeedOption = 0,
) -> None:
    """What should people judge next, given what they judged so far?

    Reads all judgments so far and writes the next cells (item and system) to judge: more of the systems that the
    question is about, along one order of items that the seed gives. Nothing is kept between calls: give the same data,
    options and seed each time, new judgments at the end of the file, and with --asked the cells that people still have.

    It also says what is decided already, and when to stop; that may be looked at as often as you like.

    With --unit pair people choose between two outputs: the judgments are a table of choices (item, system_a, system_b,
    choice: a, b or tie, annotator), and the next pairs of outputs are written.

    Example: aliquot next data.jsonl -j judgments.csv --question top -n 40 -o next.csv --selection-out asked.jsonl
    """
    _validate_options(count, output.file, unit)
    for path in (output.file, selection_out):
        common.require_writable(path)
    if unit == "pair":
        _refuse_cell_options(
            {
                "cost": cost,
                "metrics": metrics,
                "margin": margin,
                "wide": reading.rare_arguments.get("wide"),
                "target": None if target == "testset" else target,
                "selection-out": selection_out,
            }
        )
        evalset = common.load_data(data, reading)
        pairs = PairAllocator.from_choices(
            evalset,
            judgments,
            asked=asked or [],
            columns=reading.rare_arguments.get("columns"),
            question=question,
            policy=policy,
            budget=budget,
            alpha=alpha,
            seed=seed,
        )
        with render.show_activity("deciding"):
            batch = next_pairs(pairs, count)
        _write_batch(batch, evalset, output.file, texts=texts, json=output.json)
        return
    evalset, answers = common.load_with_judgments(data, judgments, reading)
    evalset = evalset.with_human(_known_score(reading.human, evalset)) if reading.human is not None else evalset
    allocator = Allocator.from_judgments(
        evalset,
        answers,
        asked=asked or [],
        question=question,
        policy=policy,
        budget=budget,
        metrics=split_known_names(metrics or "", evalset.scores) or None,
        unit=unit,
        protocol_scale=scale,
        cost=cost,
        margin=margin,
        target=target,
        alpha=alpha,
        seed=seed,
    )
    with render.show_activity("deciding"):
        batch = next_cells(allocator, count)
    if selection_out is not None:
        allocator.selection().save(selection_out, evalset)
    _write_batch(batch, evalset, output.file, texts=texts, json=output.json)
    if selection_out is not None and not output.json:
        text = f"wrote {selection_out}: all cells asked so far, for `aliquot estimate -s`"
        render.make_console().print(text, markup=False)


def _write_batch(batch: Batch, evalset: EvalSet, output: Path | None, *, texts: bool, json: bool) -> None:
    """Write the batch, and print it."""
    if output is not None:
        write(add_texts(batch.table, evalset) if texts else batch.table, output)
    if json:
        common.print_json(batch.to_dict())
        return
    render.print_result(batch, render.make_console())
    render.make_console().print(
        f"wrote {output}" if output else "nothing written; give -o FILE to keep it", markup=False
    )


def _refuse_cell_options(options: dict[str, Any]) -> None:
    """Raise for options that only cells have."""
    for name, value in options.items():
        if value is not None:
            raise OptionError(f"--{name} is for cells; --unit pair does not take it")


def _validate_options(count: int, output: Path | None, unit: str) -> None:
    if unit not in (*UNITS, "pair"):
        raise unknown_name("unit", unit, (*UNITS, "pair"))
    if count < 1:
        raise OptionError(f"--count {count}: ask for at least 1 cell")
    if output is not None and not resolve_ending(output, ".csv").removesuffix(".gz").endswith(_ENDINGS):
        raise OptionError(f"{output}: unknown ending; use .csv, .tsv, .jsonl or .parquet")


def _known_score(human: str, evalset: EvalSet) -> str | None:
    """The named score where the data have it; judgments become it otherwise."""
    return human if human in evalset.scores else evalset.human


# -- writing -------------------------------------------------------------------------------------------------------


def write(table: pl.DataFrame, path: Path) -> None:
    """Write cells by the path's ending: .csv, .tsv, .parquet, or .jsonl; CSV to standard output."""
    if resolve_ending(path, ".csv").removesuffix(".gz").endswith(".jsonl"):
        lines = (msgspec.json.encode(row) + b"\n" for row in table.iter_rows(named=True))
        write_bytes(path, b"".join(lines))
    else:
        tables.write(table, path)
