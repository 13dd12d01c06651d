"""Options that several sub-commands of `aliquot collect` share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
    str, typer.Option("--pairs", metavar="HOW", help="Comparisons: balanced (each output once) or all pairs.")
]
ItemsOption = Annotated[int, typer.Option("--unit-items", min=1, help="At most so many items at once.")]
SkipOption = Annotated[bool, typer.Option("--skip-missing", help="Leave out outputs that are missing.")]


def annotators_of(text: str) -> int | list[str]:
    """Return a number, or names separated by commas."""
    return int(text) if text.strip().isdigit() else [name.strip() for name in text.split(",")]


def note_campaign(campaign: str) -> None:
    """Keep a verb from writing over the campaign that it reads."""
    from aliquot.io.overwrite import note_input  # noqa: PLC0415

    if "://" not in campaign:
        note_input(Path(campaign))
