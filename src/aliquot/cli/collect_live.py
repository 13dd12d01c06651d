"""Sub-commands of `aliquot collect` for campaigns that run: act, rehearse, payments, forget, backup."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aliquot.cli import common, options, render
from aliquot.cli.collect_options import CampaignArgument, naming_damage, open_campaign

_REASON = "Why; it stands in the audit log."


def add_to(app: typer.Typer) -> None:
    """Add the sub-commands."""
    for command in (act, rehearse, payments, forget, backup):
        app.command()(command)


def act(
    campaign: CampaignArgument,
    action: Annotated[
        str,
        typer.Argument(
            metavar="ACTION",
            help="pause, resume, exclude, include, revoke, renew (the link), rejudge, "
            "reassign (an annotator); message; add; wanted; top_up; workers (by shared links, at most); "
            "renew_shared (new shared links); stop, open, close (the campaign).",
        ),
    ],
    target: Annotated[str, typer.Option("--annotator", metavar="NAME", help="Annotator concerned.")] = "",
    value: Annotated[str, typer.Option("--value", metavar="TEXT", help="A number, names, or a message.")] = "",
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help=_REASON)] = "",
) -> None:
    """Do what the organiser's page can do: pause or exclude somebody, judge more items, close the campaign.

    Nothing is deleted: judgments of excluded annotators are marked, and count again after `include`, and only then.

    Example: aliquot collect act campaign.db exclude --annotator ann3 --reason "does not see damaged copies"

    Example: aliquot collect act campaign.db top_up --value 40
    """
    from aliquot.collect.actions import act as run

    with open_campaign(campaign) as opened:
        render.make_console().print(run(opened, action, target, value, reason), markup=False)


def payments(
    campaign: CampaignArgument,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="A .csv file, or '-'.")],
) -> None:
    """Write what everybody is paid: units, active time, base, bonus, wage by the hour.

    Everybody is paid for finished units; the bonus of the protocol's [payment] goes to those who passed the checks.

    Example: aliquot collect payments campaign.db -o payments.csv
    """
    from aliquot.collect.organiser import payments_of
    from aliquot.io.formats import tables

    common.require_writable(output)
    with open_campaign(campaign) as opened:
        result = payments_of(opened)
        tables.write(result.to_frame(), output)
    console = render.make_console()
    if str(output) != "-":
        render.print_result(result, console)
    summary = f"{len(result.people)} people, {result.total:.2f} {result.currency}"
    console.print(f"wrote {output}: {summary}", markup=False)


def forget(
    campaign: CampaignArgument,
    annotator: Annotated[str, typer.Option("--annotator", metavar="NAME", help="Who wants to be forgotten.")],
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help=_REASON)] = "",
) -> None:
    """Delete the data of one annotator from the campaign, its log and so from later exports.

    What was exported before, backups and sheets are not changed: delete them yourself. --reason is kept: name nobody.

    Example: aliquot collect forget campaign.db --annotator prolific:5f1
    """
    with open_campaign(campaign) as opened:
        alias = opened.forget(annotator, reason)
    console = render.make_console()
    console.print(f"forgotten; what is left is called {alias}", markup=False)
    console.print(
        "their judgments are deleted; to have the work judged again: aliquot collect act CAMPAIGN rejudge "
        f"--annotator {alias}",
        markup=False,
        soft_wrap=True,
    )


def backup(
    campaign: CampaignArgument,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The new file.")],
) -> None:
    """Copy a campaign while it runs; the copy is one SQLite file, also of a campaign in PostgreSQL.

    The secret of the links (CAMPAIGN.key) is not in it: keep it apart.

    Example: aliquot collect backup campaign.db -o backup.db
    """
    from aliquot.collect.backup import backup as run

    with open_campaign(campaign) as opened, render.show_activity("copying"):
        events = run(opened, output)
    render.make_console().print(f"wrote {output} ({events:,} events)", markup=False)


def rehearse(
    campaign: CampaignArgument,
    output: options.ResultOutput,
    annotators: Annotated[int, typer.Option("--annotators", min=1, help="How many simulated people judge.")] = 12,
    noise: Annotated[
        float, options.rare_option("--noise", help="Spread of a judgment, as a share of the scale.")
    ] = 0.15,
    severity: Annotated[
        float, options.rare_option("--severity", help="Spread between annotators, as a share of the scale.")
    ] = 0.06,
    careless: Annotated[float, options.rare_option("--careless", help="Share who answer at random.")] = 0.1,
    dropouts: Annotated[float, options.rare_option("--dropouts", help="Share who leave before the end.")] = 0.1,
    like: Annotated[
        Path | None,
        options.rare_option("--like", metavar="FILE", help="Past judgments: noise, severity and pace as there."),
    ] = None,
    costs: options.Costs = options.Costs(),  # noqa: B008  (frozen)
    replays: Annotated[int, typer.Option("--replays", help="Simulated repetitions of the work, for power.")] = 10,
    at_once: Annotated[
        bool, options.rare_option("--at-once", help="All call the server at the same time: a load test.")
    ] = False,
    seed: options.SeedOption = 0,
) -> None:
    """Let simulated people judge a copy of the campaign, and see what it would take and give.

    They work through the real server, on 127.0.0.1. The campaign itself is not changed.

    Example: aliquot collect rehearse campaign.db --annotators 12 --cost hourly=20

    Example: aliquot collect rehearse campaign.db --like past.csv --careless 0.2
    """
    from aliquot.collect.rehearse import rehearse as run_rehearsal
    from aliquot.collect.simulated_people import Behaviour

    common.require_output(output)
    prices = costs.pick("seconds_per_judgment", "hourly", "currency")
    behaviour = Behaviour(noise, severity, careless, dropouts, prices.pop("seconds_per_judgment", None))
    with naming_damage(campaign), render.show_activity("rehearsing"):
        result = run_rehearsal(
            campaign,
            annotators,
            behaviour=behaviour,
            like=like,
            **prices,
            replays=replays,
            at_once=at_once,
            seed=seed,
        )
    common.write_and_print(result, output)
