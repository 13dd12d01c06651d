"""`aliquot synth`: write a simulated campaign."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aliquot.cli import common, options, render
from aliquot.core.synthetic import METRICS, synthetic
from aliquot.errors import OptionError
from aliquot.io.load import save

_DEFAULT_METRICS = ",".join(f"{name}={value}" for name, value in METRICS.items())


def run(
    output: Annotated[
        Path,
        typer.Option("-o", "--output", metavar="FILE", help="Where to write, in the format of the ending; '-' prints."),
    ],
    items: Annotated[int, typer.Option("--items", help="Number of items.")] = 400,
    systems: Annotated[int, typer.Option("--systems", help="Number of systems.")] = 8,
    protocol: Annotated[str, typer.Option("--protocol", help="How people judge: mqm, da or likert.")] = "mqm",
    metrics: Annotated[
        str, typer.Option("--metrics", metavar="NAME=R,...", help="Metrics and their correlation with people.")
    ] = _DEFAULT_METRICS,
    document_length: Annotated[
        float, typer.Option("--document-length", help="Mean items per document; 0 for none.")
    ] = 6.0,
    domains: Annotated[int, typer.Option("--domains", help="Number of domains, 0 to 4.")] = 3,
    annotators: Annotated[int, typer.Option("--annotators", help="Number of annotators; 0 for none.")] = 6,
    judgments_per_output: Annotated[
        int, typer.Option("--judgments-per-output", help="How many annotators judge each output.")
    ] = 1,
    texts: Annotated[bool, typer.Option("--texts/--no-texts", help="Make sources, references and outputs.")] = True,
    seed: options.SeedOption = 0,
    json: options.JsonOption = False,
) -> None:
    """Write a simulated campaign, to try things out.

    Items have difficulty, documents and domains; systems have ability; people have severity and noise; metrics have
    the correlation you give them. The data say that they are simulated.

    Example: aliquot synth --items 500 --systems 10 --protocol da -o campaign.jsonl
    """
    common.require_writable(output, or_folder=True)
    evalset = synthetic(
        items,
        systems,
        protocol=protocol,  # type: ignore[arg-type]  # `one_of` checks it
        metrics=_parse(metrics),
        document_length=document_length,
        domains=domains,
        annotators=annotators,
        judgments_per_output=judgments_per_output,
        texts=texts,
        seed=seed,
    )
    save(evalset, output)
    if json:
        common.print_json({"written": [str(output)], "items": evalset.n_items, "systems": list(evalset.systems)})
    else:
        render.console().print(f"wrote {output}: {evalset!r}", markup=False)


def _parse(text: str) -> dict[str, float]:
    """Parse `COMET=0.6,BLEU=0.2`."""
    metrics = {}
    for part in common.names(text):
        name, _, value = (piece.strip() for piece in part.partition("="))
        try:
            metrics[name] = float(value)
        except ValueError:
            name = ""
        if not name:
            raise OptionError(f"--metrics '{part}': expected NAME=CORRELATION, e.g. COMET=0.6")
    return metrics
