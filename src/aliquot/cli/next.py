"""`aliquot next`: what should people judge next, given what they judged so far?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
import polars as pl
import typer
from rich.console import Console
from rich.table import Table

from aliquot.cli import common, next_pairs, options, render
from aliquot.core.evalset import EvalSet
from aliquot.errors import OptionError, unknown_name
from aliquot.io.formats import tables
from aliquot.io.writing import resolve_ending, write_bytes
from aliquot.sampling.allocator import UNITS, Advice, Allocator
from aliquot.sampling.allocator_inputs import Ask

_HOW = "How to decide"
_ENDINGS = (".csv", ".tsv", ".jsonl", ".parquet")


def run(
    data: options.DataArgument,
    judgments: Annotated[
        list[Path] | None,
        options.judgments_option(help="All answers so far; none before the first batch; may be repeated."),
    ] = None,
    asked: Annotated[
        list[Path] | None,
        typer.Option("--asked", metavar="FILE", help="An earlier result that people still work on; can be repeated."),
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
        typer.Option(
            "--policy",
            metavar="SPEC",
            rich_help_panel=_HOW,
            help="auto, uniform, rank:power=1, successive_rejects, successive_halving; pairs: also dueling, rucb.",
        ),
    ] = "auto",
    unit: Annotated[
        str, typer.Option("--unit", help="What is given together: cell, item, document, or pair.", rich_help_panel=_HOW)
    ] = "cell",
    cost: Annotated[
        str | None, typer.Option("--cost", metavar="COLUMN", help="Item column, or esa_time.", rich_help_panel=_HOW)
    ] = None,
    metrics: Annotated[
        str | None, typer.Option("--metrics", metavar="A,B", help="The metrics that may help.", rich_help_panel=_HOW)
    ] = None,
    scale: Annotated[
        str, typer.Option("--scale", help="How people judge: penalties, ratings or auto.", rich_help_panel=_HOW)
    ] = "auto",
    alpha: Annotated[
        float, typer.Option("--alpha", help="Error rate of all decisions together.", rich_help_panel=_HOW)
    ] = 0.05,
    margin: Annotated[
        float | None, typer.Option("--margin", help="Means: wanted half width.", rich_help_panel=_HOW)
    ] = None,
    target: Annotated[
        str,
        typer.Option(
            "--target", help="What decisions are about: testset (other annotators, too) or given.", rich_help_panel=_HOW
        ),
    ] = "testset",
    texts: Annotated[bool, typer.Option("--texts", help="Write the source and the output of every cell, too.")] = False,
    selection_out: Annotated[
        Path | None,
        typer.Option("--selection-out", metavar="FILE", help="Write all cells asked so far, for `estimate -s`."),
    ] = None,
    human: options.HumanOption = None,
    systems: options.SystemsOption = None,
    exclude: options.ExcludeOption = None,
    format: options.FormatOption = None,  # noqa: A002
    lower_is_better: options.LowerOption = None,
    columns: options.ColumnsOption = None,
    key: options.KeyOption = None,
    wide: options.WideOption = None,
    pair: options.PairOption = None,
    seed: options.SeedOption = 0,
    json: options.JsonOption = False,
    all_rows: options.AllRowsOption = False,  # noqa: ARG001
    output: options.OutputOption = None,
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
    _check(count, output, unit)
    for path in (output, selection_out):
        common.require_writable(path)
    if unit == "pair":
        next_pairs.refuse_cell_options(
            {
                "cost": cost,
                "metrics": metrics,
                "margin": margin,
                "wide": wide,
                "target": None if target == "testset" else target,
                "selection-out": selection_out,
            }
        )
        evalset = common.load_data(
            data,
            human=human,
            systems=systems,
            exclude=exclude,
            format=format,
            lower_is_better=lower_is_better,
            pair=pair,
        )
        options = {"question": question, "policy": policy, "budget": budget, "alpha": alpha, "seed": seed}
        found = next_pairs.decided(evalset, judgments, asked or [], columns, options, count)
        line = next_pairs.signature_of(evalset, options)
        if output is not None:
            write(next_pairs.pairs_table(found[2], evalset, texts=texts), output)
        if json:
            common.print_json(next_pairs.document(*found, line))
        else:
            next_pairs.show(*found, output, line, render.console())
        return
    evalset, answers = common.load_with_judgments(
        data,
        judgments,
        human=human,
        systems=systems,
        exclude=exclude,
        format=format,
        lower_is_better=lower_is_better,
        columns=columns,
        key=key,
        wide=wide,
        pair=pair,
    )
    evalset = evalset.with_human(_known_score(human, evalset)) if human is not None else evalset
    allocator = Allocator.from_judgments(
        evalset,
        answers,
        asked=asked or [],
        question=question,
        policy=policy,
        budget=budget,
        metrics=common.names(metrics) or None,
        unit=unit,
        protocol_scale=scale,
        cost=cost,
        margin=margin,
        target=target,
        alpha=alpha,
        seed=seed,
    )
    before = dict(allocator.counts)
    with render.busy("deciding"):
        advice = allocator.advice()
        cells = allocator.next(count)
        advice = advice if cells else allocator.advice()  # what is left of the budget may be less than a unit
    if output is not None:
        write(cells_table(cells, evalset, texts=texts), output)
    if selection_out is not None:
        allocator.selection().save(selection_out, evalset)
    if json:
        common.print_json(document(allocator, advice, cells))
    else:
        show(allocator, advice, before, cells, output, selection_out, render.console())


def _check(count: int, output: Path | None, unit: str) -> None:
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


def cells_table(cells: list[Ask], data: EvalSet, *, texts: bool = False) -> pl.DataFrame:
    """One row for each cell: item, system, probability, and on request the texts."""
    ids = pl.Series("item", [cell.item for cell in cells], dtype=data.items["id"].dtype)
    names = pl.Series("system", [cell.system for cell in cells], dtype=pl.String)
    table = pl.DataFrame([ids, names, pl.Series("probability", [cell.probability for cell in cells], dtype=pl.Float64)])
    if not texts:
        return table
    if data.outputs is None or "source" not in data.items.columns:
        raise OptionError(f"--texts: {data.name} has no {'outputs' if data.outputs is None else 'sources'}")
    row_of = {item: row for row, item in enumerate(data.ids)}
    rows = [row_of[cell.item] for cell in cells]
    outputs = [data.outputs[cell.system][row] for cell, row in zip(cells, rows, strict=True)]
    return table.with_columns(
        data.items["source"].gather(rows).alias("source"), pl.Series("output", outputs, dtype=pl.String)
    )


def write(table: pl.DataFrame, path: Path) -> None:
    """Write cells by the path's ending: .csv, .tsv, .parquet, or .jsonl; CSV to standard output."""
    if resolve_ending(path, ".csv").removesuffix(".gz").endswith(".jsonl"):
        lines = (msgspec.json.encode(row) + b"\n" for row in table.iter_rows(named=True))
        write_bytes(path, b"".join(lines))
    else:
        tables.write(table, path)


# -- showing -------------------------------------------------------------------------------------------------------


def document(allocator: Allocator, advice: Advice, cells: list[Ask]) -> dict[str, Any]:
    """Return the JSON document of `next --json`."""
    return {
        "advice": advice.text,
        "stop": advice.stop,
        "judged": advice.cells,
        "asked": advice.asked,
        "counts": allocator.counts,
        "unasked": [list(cell) for cell in allocator.unasked],
        "pairs": [vars(pair) for pair in advice.picture.pairs],
        "next": [{"item": cell.item, "system": cell.system, "probability": cell.probability} for cell in cells],
        "signature": allocator.signature,
    }


def show(
    allocator: Allocator,
    advice: Advice,
    before: dict[str, int],
    cells: list[Ask],
    output: Path | None,
    selection_out: Path | None,
    console: Console,
) -> None:
    """Print the advice, how many cells each system has and gets, and what was written."""
    console.print(advice.text, markup=False)
    console.print(
        f"{advice.cells} cells judged, {len(allocator.pending) - len(cells)} still with people, {len(cells)} new\n",
        markup=False,
    )
    console.print(_counts(allocator, before))
    console.print()
    if not cells:
        console.print("no cell is left to ask", markup=False)
    if output is None:
        shown = ", ".join(f"{cell.item} {cell.system}" for cell in cells[:8])
        console.print(f"next: {shown}{' ...' * (len(cells) > 8)}\nnothing written; give -o FILE to keep it")
    else:
        console.print(f"wrote {output}", markup=False)
    if selection_out is not None:
        console.print(f"wrote {selection_out}: all cells asked so far, for `aliquot estimate -s`", markup=False)
    render.signature(allocator.signature, console)


def _counts(allocator: Allocator, before: dict[str, int]) -> Table:
    table = render.columns(render.table(), left=["system"], right=["asked before", "new"])
    for name, count in allocator.counts.items():
        table.add_row(name, str(before[name]), str(count - before[name]))
    return table
