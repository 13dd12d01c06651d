"""The options that verbs share: single ones, and groups that a verb takes as one parameter (see `expand_options`)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from aliquot.cli import ALL_ROWS
from aliquot.cli.commands import old_option
from aliquot.io.overwrite import claim_stdout

_READING = "Reading the data"
COSTS = "Time and money"
CHOOSING = "What is chosen"
MORE = "More"


def _refuse_negative(seed: int) -> int:
    if seed < 0:
        raise typer.BadParameter(f"{seed} is negative; choose 0 or more")
    return seed


def _claim_output(json: bool) -> bool:
    if json:
        claim_stdout("--json")
    return json


def _show_all_rows(all_rows: bool) -> bool:
    if all_rows:
        ALL_ROWS.append(True)
    return all_rows


rare_option = partial(typer.Option, rich_help_panel=MORE)
"""An option that `--help-all` shows."""
DataArgument = Annotated[
    str, typer.Argument(metavar="DATA", help="A file, a folder, '-' for standard input, or a name like wmt23/en-de.")
]
HumanOption = Annotated[str | None, typer.Option("--human", metavar="NAME", help="The score that people gave.")]
CriterionOption = Annotated[
    str | None, typer.Option("--criterion", metavar="NAME", help="Which of several criteria that people judged.")
]
judgments_option = partial(typer.Option, "--judgments", "-j", metavar="FILE")
"""The option of judgment files: every verb that has it takes several."""
SystemsOption = Annotated[
    str | None, typer.Option("--systems", metavar="A,B", help="Keep only these systems.", rich_help_panel=_READING)
]
ExcludeOption = Annotated[
    str | None, typer.Option("--exclude", metavar="A,B", help="Leave these systems out.", rich_help_panel=_READING)
]
SeedOption = Annotated[
    int, typer.Option("--seed", callback=_refuse_negative, help="Same seed, same result.", rich_help_panel=MORE)
]
JsonOption = Annotated[
    bool, typer.Option("--json", callback=_claim_output, help="Print one JSON document and nothing else.")
]
AllRowsOption = Annotated[
    bool,
    typer.Option("--all-rows", callback=_show_all_rows, help="Show every row of long tables.", rich_help_panel=MORE),
]
OutputOption = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="FILE", help="Write the result here, whole or not at all; '-' prints it."),
]
PlotOption = Annotated[
    Path | None, typer.Option("--plot", metavar="FILE", help="Draw it, too: .svg, .png or .pdf.", rich_help_panel=MORE)
]
FormatOption = Annotated[str | None, old_option("--format", metavar="NAME", new="--read format=NAME")]
InputFormatOption = Annotated[str | None, old_option("--input-format", metavar="NAME", new="--read format=NAME")]
LowerOption = Annotated[str | None, old_option("--lower-is-better", metavar="A,B", new="--read lower-is-better=A|B")]
ReadOption = Annotated[
    list[str] | None,
    typer.Option(
        "--read",
        metavar="KEY=VALUE,...",
        rich_help_panel=_READING,
        help="What a file does not say: format=mqm; columns of a table: item=segment, value=points, ...; wide=systems "
        "or wide=metrics; score-name=NAME; lower-is-better=A|B; key=FILE of opaque ids; pair=en-de; "
        "mqm-weights=major=5|...",
    ),
]
ColumnsOption = Annotated[str | None, old_option("--columns", metavar="ROLE=NAME,...", new="--read")]
WideOption = Annotated[str | None, old_option("--wide", metavar="WHAT", new="--read wide=WHAT")]
ScoreNameOption = Annotated[str | None, old_option("--score-name", metavar="NAME", new="--read score-name=NAME")]
PairOption = Annotated[str | None, old_option("--pair", metavar="en-de", new="--read pair=en-de")]
WeightsOption = Annotated[
    str | None, old_option("--mqm-weights", metavar="major=5,...", new="--read mqm-weights=major=5|minor=1")
]
KeyOption = Annotated[Path | None, old_option("--key", metavar="FILE", new="--read key=FILE")]
SecondsPerItemOption = Annotated[
    float | None,
    typer.Option("--seconds-per-item", help="All outputs of an item, once.", rich_help_panel=COSTS),
]
SecondsPerJudgmentOption = Annotated[
    float | None, typer.Option("--seconds-per-judgment", help="One output, once.", rich_help_panel=COSTS)
]
HourlyOption = Annotated[
    float | None, typer.Option("--hourly", help="What an annotator's hour costs.", rich_help_panel=COSTS)
]
CurrencyOption = Annotated[str, typer.Option("--currency", help="Currency of --hourly.", rich_help_panel=COSTS)]


@dataclass(frozen=True)
class Reading:
    """How data are read: which score is human, which systems count, and what a file cannot say itself."""

    human: HumanOption = None
    systems: SystemsOption = None
    exclude: ExcludeOption = None
    format: FormatOption = None
    lower_is_better: LowerOption = None
    read: ReadOption = None
    columns: ColumnsOption = None
    wide: WideOption = None
    score_name: ScoreNameOption = None
    pair: PairOption = None
    mqm_weights: WeightsOption = None
    key: KeyOption = None

    @property
    def rare_arguments(self) -> dict[str, Any]:
        """The rare arguments of `load`, from `--read` and its old spellings."""
        from aliquot.io.reading_options import parse_reading  # noqa: PLC0415  (help must not import numpy)

        weights, lower = (
            None if text is None else text.replace(",", "|") for text in (self.mqm_weights, self.lower_is_better)
        )
        old = {
            "format": self.format,
            "wide": self.wide,
            "score-name": self.score_name,
            "lower-is-better": lower,
            "pair": self.pair,
            "mqm-weights": weights,
            "key": self.key,
        }
        texts = [f"{key}={value}" for key, value in old.items() if value is not None]
        return parse_reading([*(self.read or ()), *texts, *([] if self.columns is None else [self.columns])])


@dataclass(frozen=True)
class SelectReading(Reading):
    """As `Reading`; `--format` of the verb is the form of its output."""

    format: InputFormatOption = None


@dataclass(frozen=True)
class Output:
    """Where a result goes."""

    json: JsonOption = False
    file: OutputOption = None
    all_rows: AllRowsOption = False


@dataclass(frozen=True)
class Choosing:
    """What the budget counts and how it is spread."""

    cost: Annotated[
        str | None,
        typer.Option(
            "--cost",
            metavar="COLUMN",
            help="Item column, esa_time, or fitted (to recorded times).",
            rich_help_panel=CHOOSING,
        ),
    ] = None
    unit: Annotated[
        str, typer.Option("--unit", help="item, or document: whole documents are chosen.", rich_help_panel=CHOOSING)
    ] = "item"
    balance: Annotated[
        str | None,
        typer.Option(
            "--balance",
            metavar="COLUMN",
            help="Equal shares of the budget for its values, e.g. domain.",
            rich_help_panel=CHOOSING,
        ),
    ] = None


@dataclass(frozen=True)
class Costs:
    """What judging takes in time and money."""

    seconds_per_item: SecondsPerItemOption = None
    seconds_per_judgment: SecondsPerJudgmentOption = None
    hourly: HourlyOption = None
    currency: CurrencyOption = "EUR"
