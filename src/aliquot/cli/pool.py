"""`aliquot pool`: which of millions of sources should be translated and judged?"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from aliquot.cli import common, options, render
from aliquot.cli.render import rate_progress
from aliquot.io.formats import tables
from aliquot.io.formats.table_columns import parse_columns
from aliquot.sampling.pool import PoolSelection, select_pool
from aliquot.sampling.pool_methods import Dedup
from aliquot.sampling.summary import describe_effect

_choosing, _running = (partial(typer.Option, rich_help_panel=panel) for panel in (options.CHOOSING, "Running"))


def run(
    data: Annotated[list[str], typer.Argument(metavar="FILES...", help="Parquet or JSON lines, or 'pool/*.parquet'.")],
    output: options.Output,
    method: Annotated[
        str,
        typer.Option(
            "--method",
            "-m",
            metavar="SPEC",
            help="source:model=FILE, source_length, pps:size=COLUMN, segments, stratified:bins=COLUMN, kmeans, ...",
        ),
    ] = "auto",
    budget: Annotated[
        str | None,
        typer.Option("--budget", "-b", metavar="N", help="Items (1000), a share (1%), or an amount of cost."),
    ] = None,
    dedup: Annotated[
        Dedup | None,
        typer.Option("--dedup", metavar="HOW", help="Leave out repeated sources: exact, or near (almost the same)."),
    ] = None,
    cost: Annotated[str | None, _choosing("--cost", metavar="COLUMN", help="A column, or esa_time.")] = None,
    balance: Annotated[
        str | None,
        _choosing("--balance", metavar="COLUMN", help="Equal shares, e.g. domain."),
    ] = None,
    pair: Annotated[
        str | None,
        _choosing("--pair", metavar="en-de", help="Language pair, for a model."),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option("--columns", metavar="ROLE=NAME,...", help="Column names, e.g. id=key,source=text."),
    ] = None,
    plot: options.PlotOption = None,
    seed: options.SeedOption = 0,
    jobs: Annotated[int | None, _running("--jobs", min=1, help="Processes; all cores when not given.")] = None,
    engine: Annotated[
        str | None,
        _running("--engine", metavar="dask://HOST:PORT", help="Run on a Dask cluster."),
    ] = None,
) -> None:
    """Which of millions of sources should be translated and judged?

    Reads the files in parts, so that they may be larger than memory, and chooses as `aliquot select` would if they
    were loaded: same method, same seed, same items, on one machine or on a cluster. With -o a run that was killed
    resumes where it stopped: give the same command again.

    Example: aliquot pool 'sources/*.parquet' --method pps:size=length --budget 2000 --dedup near -o chosen.jsonl

    Example: aliquot pool sources.jsonl.gz --method source:model=utility.model --budget 1% -o chosen.jsonl
    """
    common.require_writable(output.file)
    common.require_picture(plot)
    mapping = parse_columns(columns) if columns else None
    with common.explain_interruption(output.file), rate_progress("measuring") as progress:
        chosen = select_pool(
            data,
            method,
            budget,
            columns=mapping,
            cost=cost,
            balance=balance,
            dedup=dedup,
            pair=pair,
            seed=seed,
            jobs=jobs,
            engine=engine,
            journal=output.file,
            progress=progress,
        )
    if output.file is not None:
        write(chosen, output.file)
    common.write_figure(plot, lambda: _make_figure(chosen))
    if output.json:
        common.print_json(document(chosen))
    else:
        render.print_result(chosen, render.make_console())
        text = f"wrote {output.file}" if output.file else "nothing written; give -o FILE to keep it"
        render.make_console().print(text, markup=False)


def _make_figure(chosen: PoolSelection) -> Any:
    from aliquot.report.figures.choosing import pool_figure

    return pool_figure(chosen)


def write(chosen: PoolSelection, path: Path) -> None:
    """Write item JSON lines, or a table by the path's ending."""
    if path.name.removesuffix(".gz").endswith((".csv", ".tsv", ".parquet")):
        tables.write(chosen.to_frame(), path)
    else:
        chosen.save(path)


def document(chosen: PoolSelection) -> dict[str, Any]:
    """Return the JSON document of `pool --json`."""
    fields = ("id", "rank", "utility", "probability", "cost", "source")
    items = chosen.to_frame().to_dicts()
    selection = chosen.selection
    return {
        "items": [{name: item.get(name) for name in fields} for item in items],
        "summary": {
            "items": len(chosen),
            "population": selection.population,
            "n_items": chosen.n_items,
            "duplicates": chosen.duplicates,
            "method": selection.method,
            "effect": describe_effect(selection),
        },
        "signature": selection.signature,
    }
