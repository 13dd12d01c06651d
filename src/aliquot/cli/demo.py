"""`aliquot demo`: the journey from data to defended scores, on simulated data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.text import Text

from aliquot.cli import options, render
from aliquot.cli.select import show as show_selection
from aliquot.core.evalset import EvalSet
from aliquot.core.synthetic import synthetic
from aliquot.errors import OptionError
from aliquot.estimation.estimate import Estimates, estimate
from aliquot.io.load import save
from aliquot.io.writing import is_stream, require_parent_folder
from aliquot.sampling.select import select
from aliquot.sampling.summary import summarise

_BUDGET = "20%"
_REPEATS = 40


def run(
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FOLDER", help="Where the files go.")] = Path(
        "aliquot-demo"
    ),
    seed: options.SeedOption = 0,
) -> None:
    """See the whole journey on simulated data in a minute.

    Simulates a campaign, inspects it, chooses items, lets simulated judges judge only those, and shows the estimates
    with their intervals beside the truth and beside a plain random sample of the same size.

    Example: aliquot demo --seed 7
    """
    if is_stream(output):
        raise OptionError(f"{output}: the demonstration writes several files; name a folder")
    console = render.console()
    campaign = synthetic(items=500, systems=6, seed=seed)
    if not output.exists():
        require_parent_folder(output)
        output.mkdir()
    data, chosen, judged = output / "campaign.jsonl", output / "selection.jsonl", output / "judgments.csv"

    _headline(console, "1. A campaign (simulated)", f"aliquot inspect {data}")
    save(campaign, data)
    render.print_result(campaign.describe(), console)

    _headline(console, "2. Which items should people judge?", f"aliquot select {data} --budget {_BUDGET} -o {chosen}")
    selection = select(campaign, budget=_BUDGET, seed=seed)
    selection.save(chosen, campaign)
    show_selection(summarise(selection, campaign), chosen)

    _headline(console, "3. People judge only those (simulated judges)")
    answers = selection.of(campaign)
    save(answers, judged, what="judgments")
    console.print(f"{len(answers.judgments or ())} judgments written to {judged}", markup=False)

    _headline(console, "4. How good is each system?", f"aliquot estimate {data} -s {chosen} -j {judged}")
    unjudged = _without_human(campaign)
    result = estimate(unjudged, selection=selection, judgments=answers.judgments, seed=seed)
    render.print_result(result, console)

    _headline(console, "5. And the truth, which only a simulation knows")
    plain = select(campaign, "segments", budget=_BUDGET, seed=seed)
    by_mean = estimate(unjudged, "mean", selection=plain, judgments=plain.of(campaign).judgments, seed=seed)
    _show_truth(campaign, result, by_mean, console)
    _show_average(campaign, console)
    console.print(f"\nfiles are in {output}/; see aliquot --help for your own data", markup=False)


def _headline(console: Console, text: str, command: str | None = None) -> None:
    console.print()
    console.rule(Text(text, style="bold"), align="left")
    if command:
        console.print(f"$ {command}", style="dim", markup=False, soft_wrap=True)
    console.print()


def _without_human(campaign: EvalSet) -> EvalSet:
    """The campaign as it is before people judge: outputs and metrics only."""
    scores = {name: values for name, values in campaign.scores.items() if name != campaign.human}
    return EvalSet(
        items=campaign.items, systems=campaign.systems, scores=scores, outputs=campaign.outputs, name=campaign.name
    )


def _show_truth(campaign: EvalSet, ours: Estimates, plain: Estimates, console: Console) -> None:
    truth = dict(zip(campaign.systems, campaign.human_score().mean(axis=0).tolist(), strict=True))
    table = render.columns(
        render.table(),
        left=["system"],
        right=["truth", "estimate", "95% interval", "inside", "random sample's mean", "95% interval"],
    )
    for row in ours.systems:
        other, value = plain[row.system], truth[row.system]
        table.add_row(
            row.system,
            f"{value:.2f}",
            f"{row.estimate:.2f}",
            f"{row.low:.2f} to {row.high:.2f}",
            "yes" if row.low <= value <= row.high else "no",
            f"{other.estimate:.2f}",
            f"{other.low:.2f} to {other.high:.2f}",
        )
    console.print(table)


def _show_average(campaign: EvalSet, console: Console) -> None:
    """One draw proves little: repeat both ways and compare their average errors."""
    truth = campaign.human_score().mean(axis=0)
    errors = {"auto": 0.0, "segments": 0.0}
    for seed in range(_REPEATS):
        for method, estimator in (("auto", "auto"), ("segments", "mean")):
            selection = select(campaign, method, budget=_BUDGET, seed=seed)
            result = estimate(campaign, estimator, selection=selection)
            values = np.array([result[system].estimate for system in campaign.systems])
            errors[method] += float(np.abs(values - truth).mean()) / _REPEATS
    more = (errors["segments"] / errors["auto"]) ** 2 - 1
    console.print(
        f"\nover {_REPEATS} such draws the mean error is {errors['auto']:.3f}, and {errors['segments']:.3f} for a "
        f"random sample's mean: about as good as a random sample with {more:.0%} more items"
    )
