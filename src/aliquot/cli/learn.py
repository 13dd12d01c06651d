"""`aliquot learn`: what do past campaigns teach about sources?"""

from __future__ import annotations

from typing import Annotated

import typer

from aliquot.cli import common, options, render
from aliquot.sampling.learn import Features, learn
from aliquot.sampling.text_vectors import DEFAULT_MODEL
from aliquot.sampling.training import Target


def run(
    data: Annotated[list[str], typer.Argument(metavar="DATA...", help="Past campaigns: files, folders or names.")],
    reading: options.Reading,
    output: options.Output,
    target: Annotated[
        Target,
        typer.Option(
            "--target",
            "-t",
            metavar="NAME",
            help="metric_avg, metric_var, metric_cons, diversity, irt_diffdisc or residual.",
        ),
    ] = "metric_avg",
    metric: Annotated[
        str | None, typer.Option("--metric", metavar="NAME", help="Target from this metric, not from human scores.")
    ] = None,
    features: Annotated[
        Features, options.rare_option("--features", metavar="KIND", help="light, or embed (needs the extra embed).")
    ] = "light",
    encoder: Annotated[
        str, options.rare_option("--encoder", metavar="NAME", help="For embed: a sentence-transformers model or path.")
    ] = DEFAULT_MODEL,
    seed: options.SeedOption = 0,
) -> None:
    """What do past campaigns teach about sources?

    Learns, from campaigns that were judged, how useful judging an item is from its source alone, and writes a model
    for `aliquot select --method source:model=FILE`. Shows how well it predicts each campaign when trained on the
    others, beside source_length, the baseline that needs no model.

    Example: aliquot learn past1.jsonl past2.jsonl --target metric_avg -o model.alm
    """
    common.require_writable(output.file)
    sets = common.load_sets(data, reading)
    with render.show_activity(f"learning {target}"):
        learned = learn(sets, target, metric=metric, human=reading.human, features=features, encoder=encoder, seed=seed)
    if output.file is not None:
        learned.model.save(output.file)
    if output.json:
        common.print_json(learned.to_dict())
    else:
        render.print_result(learned, render.make_console())
        text = f"wrote {output.file}" if output.file else "nothing written; give -o FILE to keep the model"
        render.make_console().print(text, markup=False)
