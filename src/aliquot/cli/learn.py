"""`aliquot learn`: what do past campaigns teach about sources?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from aliquot.cli import common, options, render
from aliquot.sampling.learn import Learned, learn
from aliquot.sampling.text_vectors import DEFAULT_MODEL
from aliquot.sampling.training import BASELINE


def run(
    data: Annotated[list[str], typer.Argument(metavar="DATA...", help="Past campaigns: files, folders or names.")],
    target: Annotated[
        str,
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
        str, typer.Option("--features", metavar="KIND", help="light, or embed (needs the extra embed).")
    ] = "light",
    encoder: Annotated[
        str, typer.Option("--encoder", metavar="NAME", help="For embed: a sentence-transformers model or path.")
    ] = DEFAULT_MODEL,
    human: options.HumanOption = None,
    exclude: options.ExcludeOption = None,
    seed: options.SeedOption = 0,
    json: options.JsonOption = False,
    output: options.OutputOption = None,
) -> None:
    """What do past campaigns teach about sources?

    Learns, from campaigns that were judged, how useful judging an item is from its source alone, and writes a model
    for `aliquot select --method source:model=FILE`. Shows how well it predicts each campaign when trained on the
    others, beside source_length, the baseline that needs no model.

    Example: aliquot learn past1.jsonl past2.jsonl --target metric_avg -o model.alm
    """
    common.require_writable(output)
    sets = [common.load_data(name, human=human, exclude=exclude) for name in data]
    with render.busy(f"learning {target}"):
        learned = learn(sets, target, metric=metric, human=human, features=features, encoder=encoder, seed=seed)
    if output is not None:
        learned.model.save(output)
    if json:
        common.print_json(learned.to_dict())
    else:
        show(learned, render.console(), output)


def show(learned: Learned, console: Console, output: Path | None) -> None:
    """Print how well each part left out is predicted."""
    sources = sum(count for _, _, count in learned.model.trained_on)
    campaigns = len(learned.model.trained_on)
    plural = "campaign" if campaigns == 1 else "campaigns"
    console.print(f"{learned.model.target} from {sources} sources of {campaigns} {plural} (taken: {learned.chosen})\n")
    shown = {kind: _best(learned, kind) for kind in ("ridge", "gbm")}
    table = render.columns(render.table(), left=["left out"], right=[*shown, BASELINE])
    for part in learned.scores[BASELINE]:
        found = [learned.scores[name][part] for name in (*shown.values(), BASELINE)]
        table.add_row(part, *(render.fixed(value, 2) for value in found))
    table.add_row("mean", *(render.fixed(learned.mean(name), 3) for name in (*shown.values(), BASELINE)), style="bold")
    console.print(table)
    console.print("\nSpearman correlation of prediction and target on the part that was left out of training.")
    for note in learned.notes:
        console.print(f"note: {note}", markup=False)
    console.print(f"wrote {output}" if output else "nothing written; give -o FILE to keep the model", markup=False)
    render.signature(learned.signature, console)


def _best(learned: Learned, kind: str) -> str:
    """The candidate that was taken, or the best one of the other kind."""
    if learned.model.kind == kind:
        return learned.chosen
    return max((name for name in learned.scores if name.startswith(kind)), key=learned.mean)
