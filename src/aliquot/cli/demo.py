"""`aliquot demo`: the journey from data to defended scores, on simulated data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console

from aliquot.cli import common, render
from aliquot.cli.inspect import show
from aliquot.data.evalset import EvalSet
from aliquot.data.io import save
from aliquot.data.selection import Selection
from aliquot.data.signature import signature
from aliquot.data.synthetic import synthetic
from aliquot.stats.arrays import FloatArray
from aliquot.stats.means import MeanEstimate, sample_means

_BUDGET = 100


def run(
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FOLDER", help="Where the files go.")] = Path(
        "aliquot-demo"
    ),
    seed: common.SeedOption = 0,
) -> None:
    """See the whole journey on simulated data in a minute.

    Simulates a campaign, inspects it, draws items at random, lets simulated judges judge only those, and shows the
    estimates with their intervals beside the truth.

    Example: aliquot demo --seed 7
    """
    console = render.console()
    campaign = synthetic(items=400, systems=6, seed=seed)
    _headline(
        console, "1. A campaign (simulated)", "aliquot synth --items 400 --systems 6 -o aliquot-demo/campaign.jsonl"
    )
    save(campaign, output / "campaign.jsonl")
    show(campaign.describe(), console)

    _headline(console, f"2. Choose {_BUDGET} of {campaign.n_items} items at random")
    selection = _random_selection(campaign, seed)
    selection.save(output / "selection.jsonl", campaign)
    console.print(f"{selection!r}; every item had the chance {_BUDGET / campaign.n_items:.0%}", markup=False)

    _headline(console, "3. People judge only those (simulated judges)")
    judged = selection.of(campaign)
    save(judged, output / "judgments.csv", what="judgments")
    console.print(f"{len(judged.judgments or ())} judgments written to {output / 'judgments.csv'}", markup=False)

    _headline(console, "4. What they say about all items, beside the truth")
    truth = campaign.human_score().mean(axis=0)
    estimate = sample_means(judged.human_score(), campaign.n_items)
    show_estimates(campaign, estimate, truth, console)
    console.print(f"\nfiles are in {output}/; next: aliquot inspect {output / 'campaign.jsonl'}", markup=False)


def _headline(console: Console, text: str, command: str | None = None) -> None:
    console.print()
    console.rule(f"[bold]{text}[/]", align="left")
    if command:
        console.print(f"$ {command}", style="dim", markup=False)
    console.print()


def _random_selection(campaign: EvalSet, seed: int) -> Selection:
    rng = np.random.default_rng(seed)
    rows = rng.choice(campaign.n_items, _BUDGET, replace=False)
    ids = campaign.ids
    return Selection(
        ids=tuple(ids[row] for row in rows),
        population=campaign.n_items,
        method="segments",
        probability=np.full(_BUDGET, _BUDGET / campaign.n_items),
        signature=signature("select:segments", campaign, budget=_BUDGET, seed=seed),
    )


def show_estimates(campaign: EvalSet, estimate: MeanEstimate, truth: FloatArray, console: Console) -> None:
    """Print estimates with interval bars and whether each interval holds the truth."""
    table = render.columns(
        render.table(), left=["system"], right=["estimate", "se", "95% interval", "", "truth", "inside"]
    )
    scale = (float(np.nanmin(estimate.low)), float(np.nanmax(estimate.high)))
    for at in np.argsort(-estimate.mean):
        low, high = float(estimate.low[at]), float(estimate.high[at])
        table.add_row(
            campaign.systems[at],
            render.fixed(float(estimate.mean[at]), 2),
            render.fixed(float(estimate.se[at]), 2),
            f"{low:.2f} to {high:.2f}",
            render.bar(low, float(estimate.mean[at]), high, scale),
            render.fixed(float(truth[at]), 2),
            "yes" if low <= truth[at] <= high else "no",
        )
    console.print(table)
