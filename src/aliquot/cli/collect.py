"""`aliquot collect`: people judge, in a browser or on a sheet."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from aliquot.cli import collect_files, collect_live, common, options, render
from aliquot.cli.collect_options import (
    AnnotatorsOption,
    CampaignArgument,
    ItemsOption,
    PairsOption,
    PerOutputOption,
    ProtocolOption,
    SelectionOption,
    SkipOption,
    annotators_of,
    check_campaign,
    open_campaign,
)
from aliquot.errors import OptionError
from aliquot.io.overwrite import register_output

app = typer.Typer(
    help="""Let people judge, in a browser or on a sheet, blind, without losing an answer.

    Make a campaign of data, a selection and a protocol, serve its pages, follow the progress, and give the campaign to
    any verb that takes judgments.

    Example: aliquot collect new data.jsonl -s selection.jsonl --protocol esa --annotators ann1,ann2,ann3 -o campaign.db
    """
)

_adaptive = partial(typer.Option, rich_help_panel="Decide while people judge")
_page = partial(typer.Option, rich_help_panel="The page and its units")


@app.command()
def new(
    data: options.DataArgument,
    reading: options.Reading,
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="FILE", help="The new campaign: a file, or a PostgreSQL URL.")
    ],
    selection: SelectionOption = None,
    protocol: ProtocolOption = "esa",
    annotators: AnnotatorsOption = "3",
    per_output: PerOutputOption = 1,
    assign: Annotated[
        str, _page("--assign", metavar="HOW", help="shared (a common queue) or fixed (a list for each).")
    ] = "shared",
    guidelines: Annotated[
        Path | None, _page("--guidelines", metavar="FILE", help="A text (Markdown) that annotators can look up.")
    ] = None,
    locale: Annotated[
        str | None, _page("--locale", metavar="NAME", help="Language of the page: en, de, cs, zh or ar.")
    ] = None,
    title: Annotated[str | None, _page("--title", help="What annotators see above the page.")] = None,
    pairs: PairsOption = "balanced",
    unit_items: ItemsOption = 10,
    skip_missing: SkipOption = False,
    allocate: Annotated[
        str | None,
        _adaptive("--allocate", metavar="SPEC", help="Decide while people judge: auto, uniform, rank:power=1, ..."),
    ] = None,
    question: Annotated[str, _adaptive("--question", "-q", help="top, ranking, best, means, or A:B,C:D.")] = "top",
    budget: Annotated[
        str | None,
        _adaptive("--budget", "-b", metavar="N", help="Maximum number of cells, or a share (30%)."),
    ] = None,
    seed: options.SeedOption = 0,
    json: options.JsonOption = False,
) -> None:
    """Make a campaign of data, a selection and a protocol.

    Beside the campaign a file CAMPAIGN.key holds the secret of its links: keep it, and give it to nobody.

    Example: aliquot collect new data.jsonl -s selection.jsonl --protocol esa --annotators ann1,ann2,ann3 -o campaign.db

    Example: aliquot collect new data.jsonl --protocol pairwise --annotators 6 --per-output 2 -o campaign.db

    Example: aliquot collect new data.jsonl --protocol da --allocate auto --question best -o campaign.db
    """
    from aliquot.collect.campaign import Campaign
    from aliquot.collect.schema import is_url
    from aliquot.collect.status import format_duration
    from aliquot.io.formats.campaign_database import without_password

    if not is_url(output):
        register_output(Path(output))
    text = None if guidelines is None else _text(guidelines)
    evalset = common.load_data(data, reading)
    with render.show_activity("making the campaign"):
        campaign = Campaign.create(
            evalset,
            selection,
            protocol,
            annotators_of(annotators),
            per_output=per_output,
            path=output,
            assign=assign,
            seed=seed,
            guidelines=text,
            locale=locale,
            pairs=pairs,
            unit_items=unit_items,
            skip_missing=skip_missing,
            title=title,
            allocate=allocate,
            question=question,
            budget=budget,
        )
    with campaign:
        status, place = campaign.status(), without_password(output)
        if json:
            common.print_json(status.to_dict() | {"campaign": place})
            return
        console = render.make_console()
        units = campaign.counts()
        times = "once" if per_output == 1 else f"{per_output} times, by different annotators"
        if allocate is None:
            console.print(f"{units['units']:,} units with {units['cells']:,} cells, each judged {times}", markup=False)
        else:
            console.print(f"units are made while people judge, by {allocate} for the question {question}", markup=False)
        console.print(f"protocol {status.protocol}, {len(status.annotators)} annotators", markup=False)
        if allocate is None:
            console.print(f"about {format_duration(units['seconds'])} of work in all", markup=False)
        console.print(f"wrote {place} and {campaign.inputs.key_file} (keep the latter to yourself)", markup=False)
        console.print(f"next: aliquot collect serve {place}", markup=False)


def _text(path: Path) -> str:
    from aliquot.io.files import decode_text, read_bytes

    return decode_text(read_bytes(path), path)


@app.command()
def serve(
    campaign: CampaignArgument,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port; 0 takes a free one.")] = 8000,
    host: Annotated[
        str, options.rare_option("--host", help="Who can reach it: 127.0.0.1 is this computer only.")
    ] = "127.0.0.1",
    public_url: Annotated[
        str | None, typer.Option("--public-url", metavar="URL", help="The address people use, behind a proxy.")
    ] = None,
    open_browser: Annotated[bool, typer.Option("--open", help="Open the first annotator's page.")] = False,
    workers: Annotated[int, options.rare_option("--workers", min=1, max=64, help="Server processes.")] = 1,
) -> None:
    """Serve the campaign's pages until Ctrl-C; prints the organiser's link and one link per annotator.

    Example: aliquot collect serve campaign.db --open
    """
    from aliquot.collect.server import serve as run_server

    with open_campaign(campaign) as opened:
        run_server(opened, host, port, open_browser=open_browser, public_url=public_url, workers=workers)


@app.command()
def status(campaign: CampaignArgument, json: options.JsonOption = False, output: options.OutputOption = None) -> None:
    """Who did how much, how fast, and when will it be finished?

    Example: aliquot collect status campaign.db
    """
    common.require_writable(output)
    from aliquot.collect.organiser import overview

    with open_campaign(campaign) as opened:
        progress = opened.status()
        summary = overview(opened) if json or progress.answers else None
        now = None if summary is None else summary.to_dict()
        notice = [line for line in [opened.admission.crowd_notice()] if line is not None]
    if output is not None:
        common.write_result(progress.to_frame(), progress.to_dict(), output)
    if json:
        common.print_json(progress.to_dict() | {"overview": now})
        return
    console = render.make_console()
    for line in notice if now is None else now["words"]:
        console.print(line, markup=False)
    render.print_result(progress, console)
    if summary is not None:
        render.print_notes(summary.snapshot, console)


@app.command()
def export(
    campaign: CampaignArgument,
    output: Annotated[
        Path,
        typer.Option("-o", "--output", metavar="FILE", help="By its ending: .csv, .tsv, .jsonl, .parquet; '-' prints."),
    ],
    what: Annotated[str, typer.Option("--what", metavar="TABLE", help="judgments or choices.")] = "judgments",
    format: Annotated[  # noqa: A002
        str, typer.Option("--format", metavar="NAME", help="table, or mqm: errors as Google's TSV.")
    ] = "table",
) -> None:
    """Write the judgments so far, also while people are judging.

    Example: aliquot collect export campaign.db -o judgments.csv
    """
    common.require_writable(output)
    with open_campaign(campaign) as opened:
        rows = opened.export(output, what=what, format=format)
    render.make_console().print(f"wrote {output} ({rows:,} rows)", markup=False)


@app.command()
def links(
    campaign: CampaignArgument,
    base: Annotated[
        str, typer.Option("--base", metavar="URL", help="Address of the server, for the links.")
    ] = "http://127.0.0.1:8000",
    fresh: Annotated[bool, options.rare_option("--new", help="Withdraw all links, and make new ones.")] = False,
    revoke: Annotated[
        str | None, options.rare_option("--revoke", metavar="NAME", help="Withdraw this annotator's link.")
    ] = None,
    json: options.JsonOption = False,
) -> None:
    """Print the links, withdraw one, or make new ones.

    Work that an annotator has not submitted goes back to the others; judgments stay.

    Example: aliquot collect links campaign.db --base https://eval.example.org
    """
    with open_campaign(campaign) as opened:
        if revoke is not None:
            opened.revoke(revoke)
        all_links = opened.links(base, new=fresh)
    if json:
        common.print_json(
            {"organiser": all_links.organiser, "annotators": all_links.annotators, "crowd": all_links.crowd}
        )
        return
    console = render.make_console()
    console.print(f"organiser  {all_links.organiser}", markup=False, soft_wrap=True)
    for name, link in [
        *all_links.annotators.items(),
        *((f"crowd: {name}", link) for name, link in all_links.crowd.items()),
    ]:
        console.print(f"{name}  {link}", markup=False, soft_wrap=True)


@app.command()
def add(
    campaign: CampaignArgument,
    annotators: Annotated[str, typer.Option("--annotators", metavar="A,B", help="The names of new annotators.")] = "",
    data: Annotated[
        str, typer.Option("--data", metavar="FILE", help="The campaign's data with the outputs of more systems.")
    ] = "",
    kind: Annotated[
        str, typer.Option("--kind", metavar="WHO", help="human, or model: an automatic judge, used as a metric.")
    ] = "human",
) -> None:
    """Add annotators or systems to a campaign, also while it runs.

    An automatic judge (--kind model) answers by the calls that pages make, with the token at the end of its link. Its
    judgments are never part of human scores; `estimate` uses them as the metric judge:NAME.

    Example: aliquot collect add campaign.db --annotators ann4,ann5

    Example: aliquot collect add campaign.db --annotators gpt --kind model

    Example: aliquot collect add campaign.db --data more.jsonl
    """
    names = common.split_names(annotators)
    if not names and not data:
        raise OptionError("nothing is given to add; write e.g. --annotators ann4,ann5 or --data more.jsonl")
    wider = common.load_data(data) if data else None
    with open_campaign(campaign) as opened:
        console = render.make_console()
        if wider is not None:
            console.print(f"added the systems {', '.join(opened.add_systems(wider))}", markup=False)
        if names:
            opened.add_annotators(names, kind)
        added = opened.links().annotators
        for name in names:
            console.print(f"{name}  {added[name]}", markup=False, soft_wrap=True)


@app.command()
def check(campaign: CampaignArgument, output: options.ResultOutput) -> None:
    """Prove that the file is whole and the judgments are what the log of events says; exit code 1 where they are not.

    Example: aliquot collect check campaign.db
    """
    common.require_output(output)
    with render.show_activity("building everything again from the log"):
        result = check_campaign(campaign)
    common.write_and_print(result, output)
    if not result.sound:
        raise typer.Exit(1)


@app.command()
def protocols(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Print this preset, or check this file.")] = None,
    json: options.JsonOption = False,
    output: options.OutputOption = None,
) -> None:
    """List the presets, or print one as TOML to start your own from.

    A file of your own is checked and printed.

    Example: aliquot collect protocols esa -o mine.toml
    """
    from aliquot.collect.protocols import list_protocols, load_protocol, protocol_text

    common.require_writable(output)
    console = render.make_console()
    if name is not None:
        text, _ = protocol_text(name)
        protocol = load_protocol(name)
        if output is not None:
            from aliquot.io.writing import write_bytes

            write_bytes(output, text.encode())
            console.print(f"wrote {output}", markup=False)
        elif json:
            common.print_json(_plain(protocol))
        else:
            console.print(text, markup=False, highlight=False, soft_wrap=True)
        return
    presets = [load_protocol(preset) for preset in list_protocols()]
    if json:
        common.print_json({"protocols": [_plain(protocol) for protocol in presets]})
        return
    if output is not None:
        raise OptionError("-o writes one preset; name it, e.g. aliquot collect protocols esa -o mine.toml")
    from aliquot.core.view import Column, View

    columns = [
        Column("name", kind="name"),
        Column("title", kind="text"),
        Column("unit", kind="text"),
        Column("asks", lambda row: ", ".join(f"{w.name} ({_kind(w)})" for w in row.widgets), "text"),
    ]
    render.print_view(View("presets", presets, columns), console)


def _plain(protocol: Any) -> dict[str, Any]:
    import msgspec

    document: dict[str, Any] = msgspec.to_builtins(protocol)
    return document


def _kind(widget: Any) -> str:
    return str(getattr(widget, "style", type(widget).__name__.lower()))


collect_files.add_to(app)
collect_live.add_to(app)
