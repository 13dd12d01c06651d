"""`aliquot demo`: the journey from data to defended scores, on simulated data; and simulated data to try things on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from rich.console import Console
from rich.text import Text

import aliquot
from aliquot.cli import common, options, render
from aliquot.core.evalset import EvalSet
from aliquot.core.synthetic import METRICS, Protocol
from aliquot.core.view import Column, View
from aliquot.errors import OptionError
from aliquot.io.writing import is_stream, require_parent_folder

if TYPE_CHECKING:  # `aliquot.estimate` and the other public names import their rooms when they are called
    from aliquot.estimation.estimate_result import Estimates
    from aliquot.simulation.examples import CampaignExample

app = typer.Typer()
_BUDGET = "20%"
_REPEATS = 40
_METRICS = ",".join(f"{name}={value}" for name, value in METRICS.items())


@app.command()
def run(
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FOLDER", help="Where the files go.")] = Path(
        "aliquot-demo"
    ),
    seed: options.SeedOption = 0,
) -> None:
    """See the whole journey on simulated data in a minute.

    Simulates a campaign, inspects it, chooses items, lets simulated judges judge only those, and shows the estimates
    with their intervals beside the truth and beside a plain random sample of the same size. `aliquot demo synth` writes
    simulated data, `aliquot demo examples` small campaigns in the shape of well-known tasks.

    Example: aliquot demo --seed 7
    """
    if is_stream(output):
        raise OptionError(f"{output}: the demonstration writes several files; name a folder")
    console = render.make_console()
    campaign = aliquot.synthetic(items=500, systems=6, seed=seed)
    if not output.exists():
        require_parent_folder(output)
        output.mkdir()
    data, chosen, judged = output / "campaign.jsonl", output / "selection.jsonl", output / "judgments.csv"

    _print_headline(console, "1. A campaign (simulated)", f"aliquot inspect {data}")
    aliquot.save(campaign, data)
    render.print_result(campaign.describe(), console)

    _print_headline(
        console, "2. Which items should people judge?", f"aliquot select {data} --budget {_BUDGET} -o {chosen}"
    )
    selection = aliquot.select(campaign, budget=_BUDGET, seed=seed)
    selection.save(chosen, campaign)
    _print_selection(selection, campaign, chosen)

    _print_headline(console, "3. People judge only those (simulated judges)")
    answers = selection.of(campaign)
    aliquot.save(answers, judged, what="judgments")
    console.print(f"{len(answers.judgments or ())} judgments written to {judged}", markup=False)

    _print_headline(console, "4. How good is each system?", f"aliquot estimate {data} -s {chosen} -j {judged}")
    unjudged = _without_human(campaign)
    result = aliquot.estimate(unjudged, selection=selection, judgments=answers.judgments, seed=seed)
    render.print_result(result, console)

    _print_headline(console, "5. And the truth, which only a simulation knows")
    plain = aliquot.select(campaign, "segments", budget=_BUDGET, seed=seed)
    by_mean = aliquot.estimate(unjudged, "mean", selection=plain, judgments=plain.of(campaign).judgments, seed=seed)
    render.print_view(_compare_with_truth(campaign, result, by_mean), console)
    _print_mean_errors(campaign, console)
    console.print(f"\nfiles are in {output}/; see aliquot --help for your own data", markup=False)


def _print_headline(console: Console, text: str, command: str | None = None) -> None:
    console.print()
    console.rule(Text(text, style="bold"), align="left")
    if command:
        console.print(f"$ {command}", style="dim", markup=False, soft_wrap=True)
    console.print()


def _print_selection(selection: aliquot.Selection, campaign: EvalSet, path: Path) -> None:
    from aliquot.cli.select import show
    from aliquot.sampling.summary import summarise_selection

    show(summarise_selection(selection, campaign), path)


def _without_human(campaign: EvalSet) -> EvalSet:
    """The campaign as it is before people judge: outputs and metrics only."""
    scores = {name: values for name, values in campaign.scores.items() if name != campaign.human}
    return EvalSet(
        items=campaign.items, systems=campaign.systems, scores=scores, outputs=campaign.outputs, name=campaign.name
    )


def _compare_with_truth(campaign: EvalSet, ours: Estimates, plain: Estimates) -> View:
    truth = dict(zip(campaign.systems, campaign.human_score().mean(axis=0).tolist(), strict=True))
    rows = [
        {
            "system": row.system,
            "truth": truth[row.system],
            "estimate": row.estimate,
            "interval": (row.low, row.high),
            "inside": "yes" if row.low <= truth[row.system] <= row.high else "no",
            "plain": plain[row.system].estimate,
            "plain_interval": (plain[row.system].low, plain[row.system].high),
        }
        for row in ours.systems
    ]
    columns = [
        Column("system", kind="name"),
        Column("truth", places=2),
        Column("estimate", places=2),
        Column("95% interval", "interval", "interval", places=2),
        Column("inside", kind="text"),
        Column("random sample's mean", "plain", places=2),
        Column("95% interval", "plain_interval", "interval", places=2),
    ]
    return View("truth", rows, columns)


def _print_mean_errors(campaign: EvalSet, console: Console) -> None:
    """One draw proves little: repeat both ways and compare their average errors."""
    truth = campaign.human_score().mean(axis=0)
    errors = {"auto": 0.0, "segments": 0.0}
    for seed in range(_REPEATS):
        for method, estimator in (("auto", "auto"), ("segments", "mean")):
            selection = aliquot.select(campaign, method, budget=_BUDGET, seed=seed)
            result = aliquot.estimate(campaign, estimator, selection=selection)
            values = np.array([result[system].estimate for system in campaign.systems])
            errors[method] += float(np.abs(values - truth).mean()) / _REPEATS
    more = (errors["segments"] / errors["auto"]) ** 2 - 1
    console.print(
        f"over {_REPEATS} such draws the mean error is {errors['auto']:.3f}, and {errors['segments']:.3f} for a "
        f"random sample's mean: about as good as a random sample with {more:.0%} more items"
    )


# -- Simulated data to try things on ---------------------------------------------------------------------------------


@app.command()
def synth(
    output: Annotated[
        Path,
        typer.Option("-o", "--output", metavar="FILE", help="Where to write, in the format of the ending; '-' prints."),
    ],
    items: Annotated[int, typer.Option("--items", help="Number of items.")] = 400,
    systems: Annotated[int, typer.Option("--systems", help="Number of systems.")] = 8,
    protocol: Annotated[Protocol, options.rare_option("--protocol", help="How people judge.")] = "mqm",
    metrics: Annotated[
        str, options.rare_option("--metrics", metavar="NAME=R,...", help="Metrics and their correlation with people.")
    ] = _METRICS,
    document_length: Annotated[
        float, options.rare_option("--document-length", help="Mean items per document; 0 for none.")
    ] = 6.0,
    domains: Annotated[int, options.rare_option("--domains", help="Number of domains, 0 to 4.")] = 3,
    annotators: Annotated[int, options.rare_option("--annotators", help="Number of annotators; 0 for none.")] = 6,
    judgments_per_output: Annotated[
        int, options.rare_option("--judgments-per-output", help="How many annotators judge each output.")
    ] = 1,
    texts: Annotated[
        bool, options.rare_option("--texts/--no-texts", help="Make sources, references and outputs.")
    ] = True,
    seed: options.SeedOption = 0,
    json: options.JsonOption = False,
) -> None:
    """Write a simulated campaign, to try things out.

    Items have difficulty, documents and domains; systems have ability; people have severity and noise; metrics have
    the correlation you give them. The data say that they are simulated.

    Example: aliquot demo synth --items 500 --systems 10 --protocol da -o campaign.jsonl
    """
    common.require_writable(output, or_folder=True)
    evalset = aliquot.synthetic(
        items,
        systems,
        protocol=protocol,
        metrics=_parse_metrics(metrics),
        document_length=document_length,
        domains=domains,
        annotators=annotators,
        judgments_per_output=judgments_per_output,
        texts=texts,
        seed=seed,
    )
    aliquot.save(evalset, output)
    if json:
        common.print_json({"written": [str(output)], "items": evalset.n_items, "systems": list(evalset.systems)})
    else:
        render.make_console().print(f"wrote {output}: {evalset!r}", markup=False)


def _parse_metrics(text: str) -> dict[str, float]:
    """Parse `COMET=0.6,BLEU=0.2`."""
    metrics = {}
    for part in common.split_names(text):
        name, _, value = (piece.strip() for piece in part.partition("="))
        try:
            metrics[name] = float(value)
        except ValueError:
            name = ""
        if not name:
            raise OptionError(f"--metrics '{part}': expected NAME=CORRELATION, e.g. COMET=0.6")
    return metrics


@app.command()
def examples(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="mqm, summarisation, chat or crowd; lists them when not given.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FOLDER", help="Write the files and the commands to try here."),
    ] = None,
    seed: options.SeedOption = 0,
    json: options.JsonOption = False,
) -> None:
    """Write a small simulated campaign in the shape of a well-known task, with the commands to try on it.

    Machine translation with MQM, summaries rated on four criteria, answers of chat assistants compared in pairs, and
    a crowd of which some are careless. Everything is simulated, so nothing is downloaded.

    Example: aliquot demo examples mqm -o mqm/
    """
    campaigns = aliquot.examples(name, output, seed=seed)
    if json:
        common.print_json({"examples": [_make_document(example, output) for example in campaigns]})
    elif name is None:
        console = render.make_console()
        columns = [
            Column("example", "name", "name"),
            Column("what", lambda example: f"{example.title}. {example.about}", "text"),
        ]
        render.print_view(View("examples", campaigns, columns), console)
        console.print("write one: aliquot demo examples mqm -o mqm/")
    else:
        _print_example(campaigns[0], output)


def _make_document(example: CampaignExample, output: Path | None) -> dict[str, object]:
    return {
        "name": example.name,
        "title": example.title,
        "about": example.about,
        "files": dict(example.files),
        "commands": list(example.commands),
        "written": [] if output is None else [str(output / name) for name in example.file_names],
    }


def _print_example(example: CampaignExample, output: Path | None) -> None:
    console = render.make_console()
    console.print(f"{example.title}. {example.about}\n", markup=False)
    for name, content in example.files.items():
        console.print(f"{name}: {content}", markup=False)
    console.print()
    for question, command in example.steps:
        console.print(f"# {question}", style="dim", markup=False)
        console.print(command, markup=False, soft_wrap=True)
    if output is None:
        console.print("\nnothing written; give -o FOLDER to try them")
    else:
        console.print(f"\nwrote {output}: go there and try them; they are in {example.file_names[-1]}", markup=False)
