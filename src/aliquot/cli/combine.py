"""`aliquot combine`: what do all the judgments on an output come to?"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from aliquot.annotation.combine import combine
from aliquot.cli import common, options, render
from aliquot.io.formats import tables
from aliquot.io.save import save

_how = partial(typer.Option, rich_help_panel="How to combine")


def run(
    data: options.DataArgument,
    reading: options.Reading,
    output: options.Output,
    judgments: options.OtherJudgmentsOption = None,
    method: Annotated[
        str, typer.Option("--method", "-m", metavar="SPEC", help="mean, median, trimmed, majority or dawid_skene.")
    ] = "mean",
    criterion: Annotated[str | None, _how("--criterion", metavar="NAME", help="Use only this criterion.")] = None,
    formula: Annotated[
        str | None,
        _how(
            "--formula",
            metavar="TEXT",
            help="A joint score of each output, e.g. 'style * meaning * (fluency >= source.fluency)'.",
        ),
    ] = None,
    recode: Annotated[
        list[str] | None,
        _how(
            "--recode",
            metavar="OLD=NEW,...",
            help="What judgments are worth: no=0,yes=1 or fluency:1|2=0,3..5=1; may be given again.",
        ),
    ] = None,
    normalise: Annotated[
        str | None, _how("--normalise", metavar="HOW", help="z[:minimum=5,guard=drop], or crossed.")
    ] = None,
    threshold: Annotated[
        float | None, _how("--threshold", help="Posterior that decides a label; others wait for experts.")
    ] = None,
    experts: Annotated[str | None, _how("--experts", metavar="A,B", help="Annotators whose judgments decide.")] = None,
    source: Annotated[str | None, _how("--source", metavar="SYSTEM", help="System name of the source.")] = None,
    answer: Annotated[str | None, _how("--answer", metavar="COLUMN", help="Column of judgments or labels.")] = None,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="Name of the new score.")] = None,
    curve: Annotated[bool, options.rare_option("--curve", help="How wrong would fewer judgments have been?")] = False,
    repeats: Annotated[
        int, options.rare_option("--repeats", min=1, max=10**6, help="Draws for each point of the curve.")
    ] = 20,
    queue: Annotated[
        Path | None, typer.Option("--queue", metavar="FILE", help="Write the outputs that experts should decide.")
    ] = None,
    seed: options.SeedOption = 0,
) -> None:
    """What do all the judgments on an output come to?

    Makes one human score out of judgments, which becomes the data's human score for `estimate`, `metrics` and
    `simulate`. Labels that stay undecided wait in a queue for experts.

    Example: aliquot combine cleaned.jsonl --method dawid_skene --queue experts.csv -o scored.jsonl

    Example: aliquot combine data.jsonl --formula 'style * meaning * fluency' -o scored.jsonl

    Example: aliquot combine data.jsonl --normalise z --curve
    """
    for path in (output.file, queue):
        common.require_writable(path)
    judged = common.load_judged(data, judgments, reading, answer=answer)
    with render.show_activity(f"combining by {method}"):
        combined = combine(
            judged,
            method,
            criterion=criterion,
            formula=formula,
            recode=recode or None,
            normalise=normalise,
            name=name,
            threshold=threshold,
            experts=common.split_names(experts),
            source=source,
            answer=answer or "value",
            mqm_weights=reading.rare_arguments.get("mqm_weights"),
            curve=curve,
            repeats=repeats,
            seed=seed,
        )
    if output.file is not None:
        save(combined.evalset, output.file)
    if queue is not None:
        tables.write(combined.queue, queue)
    common.print_outcome(combined, output, [output.file, queue])
    if output.file is None and not output.json:
        render.make_console().print("nothing written; give -o FILE to keep the score", markup=False)
