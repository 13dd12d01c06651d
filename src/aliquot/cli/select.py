"""`aliquot select`: which items should people judge?"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer

from aliquot.cli import common, options, render
from aliquot.core.evalset import EvalSet, ItemId
from aliquot.core.selection import Selection
from aliquot.errors import OptionError, unknown_name
from aliquot.io.files import decode_text, read_bytes
from aliquot.io.formats import tables
from aliquot.io.selection_files import format_ids
from aliquot.io.writers import WRITERS, choose_writer
from aliquot.io.writing import is_stream
from aliquot.sampling.budgets import item_costs, parse_amount
from aliquot.sampling.select import select
from aliquot.sampling.summary import SelectionSummary, summarise_selection
from aliquot.sampling.waves import WAVES

FORMATS = ("items", "csv", "ids")
_NAMES = [writer.name for writer in WRITERS if writer.kind == "selection"]
_choosing = partial(typer.Option, rich_help_panel=options.CHOOSING)


def run(
    data: options.DataArgument,
    reading: options.SelectReading,
    output: options.Output,
    choosing: options.Choosing,
    costs: options.Costs,
    method: Annotated[
        str, typer.Option("--method", "-m", metavar="SPEC", help="A method as `aliquot methods` lists them.")
    ] = "auto",
    budget: Annotated[
        str | None,
        typer.Option(
            "--budget",
            "-b",
            metavar="N",
            help="Items (200), a share (30%), 3000judgments, 20h, 500EUR, 900cost (of --cost), or more (+50).",
        ),
    ] = None,
    metric: Annotated[
        str | None, typer.Option("--metric", metavar="NAME", help="Metric for methods that need one.")
    ] = None,
    protocol: Annotated[
        str | None,
        typer.Option("--protocol", help="How people will judge: mqm, da, esa, sqm, likert or pairwise."),
    ] = None,
    past: Annotated[
        list[Path] | None,
        options.rare_option("--past", metavar="FILE", help="An earlier campaign, judged likewise; repeat for more."),
    ] = None,
    scale: Annotated[
        str | None,
        _choosing("--scale", help="Overrides --protocol: penalties or ratings."),
    ] = None,
    include: Annotated[
        str | None,
        _choosing("--include", metavar="IDS", help="Items to judge in any case."),
    ] = None,
    exclude_items: Annotated[
        str | None,
        _choosing("--exclude-items", metavar="IDS", help="Items not to judge."),
    ] = None,
    crowd: Annotated[
        str | None,
        _choosing("--crowd", metavar="A,B", help="Choose by the outputs and scores of these systems only."),
    ] = None,
    within: Annotated[
        Path | None,
        _choosing("--within", metavar="FILE", help="Choose among the items of an earlier selection."),
    ] = None,
    add_to: Annotated[
        Path | None,
        _choosing("--add-to", metavar="FILE", help="Add items to this selection."),
    ] = None,
    non_matching: Annotated[
        bool, _choosing("--non-matching", help="Draw items for each system separately (designs only).")
    ] = False,
    to: Annotated[
        str | None,
        options.rare_option(
            "--to", metavar="NAME", help=f"Format, where the ending does not say it: {', '.join(_NAMES)}."
        ),
    ] = None,
    form: Annotated[
        str, options.rare_option("--format", metavar="FORM", help="Form of the output: items, csv or ids.")
    ] = "items",
    plot: options.PlotOption = None,
    seed: options.SeedOption = 0,
) -> None:
    """Which items should people judge?

    Chooses items by a method (see `aliquot methods`) within a budget, shows how the choice compares with the full
    set and which conclusions it allows, and writes it with -o for annotators and for `aliquot estimate`.

    -o writes item JSON lines or a table (.csv, .tsv, .parquet); --to inspect writes a dataset that Inspect runs.

    With --add-to the items of an earlier selection stay, and more are drawn up to the new total.

    Example: aliquot select data.jsonl --method pps:tau=0.5 --budget 20% -o selection.jsonl

    Example: aliquot select data.jsonl --add-to selection.jsonl --budget +100 -o larger.jsonl
    """
    if form not in FORMATS:
        raise unknown_name("output format", form, FORMATS, "the input's is --input-format")
    if output.file is not None or to is not None:
        to = to or _name_format(form, output.file)
        common.require_place(output.file, choose_writer("selection", output.file, to, default=".jsonl").place)
    common.require_picture(plot)
    evalset = common.load_data(data, reading, sources_only=True)
    first = None if within is None else Selection.load(within)
    before = None if add_to is None else Selection.load(add_to)
    with render.show_activity(f"choosing by {method}"):
        selection = select(
            evalset,
            method,
            budget,
            **costs.arguments,
            protocol=protocol,
            past=past or (),
            scale=scale,
            balance=choosing.balance,
            unit=choosing.unit,
            include=_parse_ids(include, evalset),
            exclude_items=_parse_ids(exclude_items, evalset),
            crowd=None if crowd is None else common.split_names(crowd),
            matching=not non_matching,
            within=first,
            add_to=before,
            seed=seed,
            metric=metric,
        )
    timed = budget is not None and parse_amount(budget.removeprefix("+"), costs.arguments.get("currency", "EUR")).timed
    summary = summarise_selection(
        selection, evalset, None if timed else _total_cost(evalset, costs.arguments.get("cost"))
    )
    if output.file is not None:
        selection.save(output.file, evalset, to=to)
    common.write_figure(plot, lambda: _make_figure(selection, evalset))
    if output.json:
        common.print_json(document(selection, summary))
    elif output.file is None and form != "items":
        typer.echo(_format_text(selection, form), nl=False)
    else:
        show(summary, output.file)


def _make_figure(selection: Selection, evalset: EvalSet) -> Any:
    from aliquot.report.figures.choosing import selection_figure

    return selection_figure(selection, evalset)


def _parse_ids(text: str | None, evalset: EvalSet) -> list[ItemId]:
    """Parse ids, from a comma-separated list or from a file with one id a line (@FILE)."""
    if text is None:
        return []
    if text.startswith("@"):
        lines = decode_text(read_bytes(Path(text[1:])), text[1:]).splitlines()
        written = [line.strip() for line in lines if line.strip()]
    else:
        written = common.split_names(text)
    if evalset.items["id"].dtype != pl.Int64:
        return list(written)
    try:
        return [int(item) for item in written]
    except ValueError:
        raise OptionError(f"items '{text}': the ids of these data are whole numbers") from None


def _total_cost(evalset: EvalSet, cost: str | None) -> float | None:
    costs = item_costs(evalset, cost)
    return None if costs is None else float(costs.sum())


def document(selection: Selection, summary: SelectionSummary) -> dict[str, Any]:
    """Return the JSON document of `select --json`."""
    fields = ("id", "rank", "utility", "probability", "cost")
    items = selection.to_frame().to_dicts()
    return {
        "items": [{name: item.get(name) for name in fields} for item in items],
        "summary": summary.to_dict(),
        "signature": selection.signature,
    } | ({WAVES: selection.details[WAVES]} if WAVES in selection.details else {})


def _name_format(form: str, path: Path | None) -> str | None:
    """Return the name of a writer for --format; None where the path's ending decides."""
    if path is None:
        return None
    is_table = path.name.removesuffix(".gz").endswith((".csv", ".tsv", ".parquet"))
    if form == "csv" and not is_table and not is_stream(path):
        raise OptionError(f"{path}: unknown ending for a table; use .csv, .tsv or .parquet", "output")
    return {"ids": "ids", "csv": None if is_table else "csv"}.get(form)


def _format_text(selection: Selection, form: str) -> str:
    if form == "csv":
        return tables.format_csv(selection.to_frame())
    return format_ids(selection)


def show(summary: SelectionSummary, output: Path | None) -> None:
    """Print what was chosen, how it compares with the full set, and where it was written."""
    render.print_result(summary, render.make_console())
    render.make_console().print(
        f"wrote {output}" if output else "nothing written; give -o FILE to keep it", markup=False
    )
