"""Options that several sub-commands of `aliquot collect` share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer.exceptions import TyperException

from aliquot.errors import AliquotError, DamagedError

if TYPE_CHECKING:
    from aliquot.collect.campaign import Campaign
    from aliquot.collect.rebuilding import CheckResult

_page = partial(typer.Option, rich_help_panel="The page and its units")
CampaignArgument = Annotated[
    str, typer.Argument(metavar="CAMPAIGN", help="A file that `collect new` made, or the URL of a database.")
]
SelectionOption = Annotated[
    Path | None, typer.Option("--selection", "-s", metavar="FILE", help="What `aliquot select` wrote; else all items.")
]
ProtocolOption = Annotated[
    str, typer.Option("--protocol", metavar="NAME", help="A preset (`collect protocols` lists them) or a .toml file.")
]
AnnotatorsOption = Annotated[
    str, typer.Option("--annotators", metavar="N|A,B", help="How many annotators, or their names.")
]
PerOutputOption = Annotated[
    int, typer.Option("--per-output", min=1, help="Judgments of each output, all by different annotators.")
]
PairsOption = Annotated[
    str, _page("--pairs", metavar="HOW", help="Comparisons: balanced (each output once) or all pairs.")
]
ItemsOption = Annotated[int, _page("--unit-items", min=1, help="Largest number of items in a unit.")]
SkipOption = Annotated[bool, _page("--skip-missing", help="Leave out outputs that are missing.")]


def annotators_of(text: str) -> int | list[str]:
    """Return a number, or names separated by commas."""
    return int(text) if text.strip().isdigit() else [name.strip() for name in text.split(",")]


def note_campaign(campaign: str) -> None:
    """Keep a verb from writing over the campaign that it reads."""
    from aliquot.io.overwrite import register_input

    if "://" not in campaign:
        register_input(Path(campaign))


@contextmanager
def open_campaign(campaign: str) -> Iterator[Campaign]:
    """Open a campaign for a verb, which will not write over it."""
    from aliquot.collect.campaign import Campaign

    note_campaign(campaign)
    with naming_damage(campaign), Campaign.open(campaign) as opened:
        yield opened


@contextmanager
def naming_damage(campaign: str) -> Iterator[None]:
    """Where a verb fails at what no sound campaign holds, say so; any other failure stays what it is."""
    try:
        yield
    except (AliquotError, OSError, MemoryError, typer.Exit, typer.Abort, TyperException):
        raise
    except Exception:
        from aliquot.io.formats.campaign_database import build_damage_error

        faults = check_campaign(campaign).faults
        if faults:
            raise build_damage_error(campaign, faults[0]) from None
        raise


def check_campaign(campaign: str) -> CheckResult:
    """Check a campaign, also one that is too damaged to be opened."""
    from aliquot.collect.campaign import Campaign
    from aliquot.collect.rebuilding import CheckResult

    note_campaign(campaign)
    try:
        with Campaign.open(campaign) as opened:
            return opened.check()
    except DamagedError as error:
        return CheckResult(0, 0, (str(error),))
