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
HumanOption = Annotated[
    str | None,
    typer.Option("--human", metavar="NAME", help="The score that people gave.", rich_help_panel=_READING),
]
CriterionOption = Annotated[
    str | None,
    typer.Option(
        "--criterion",
        metavar="NAME",
        help="Which of several criteria that people judged.",
        rich_help_panel=_READING,
    ),
]
judgments_option = partial(typer.Option, "--judgments", "-j", metavar="FILE")
"""The option of judgment files: every verb that has it takes several."""
OtherJudgmentsOption = Annotated[
    list[Path] | None,
    judgments_option(help="People's judgments, where DATA has none or others; may be repeated."),
]
SystemsOption = Annotated[
    str | None, typer.Option("--systems", metavar="A,B", help="Keep only these systems.", rich_help_panel=_READING)
]
ExcludeOption = Annotated[str | None, old_option("--exclude", metavar="A,B", new="--read exclude=A|B")]
SeedOption = Annotated[
    int, typer.Option("--seed", callback=_refuse_negative, help="Same seed, same result.", rich_help_panel=MORE)
]
JsonOption = Annotated[
    bool,
    typer.Option(
        "--json", callback=_claim_output, help="Print one JSON document and nothing else.", rich_help_panel=MORE
    ),
]
AllRowsOption = Annotated[
    bool,
    typer.Option("--all-rows", callback=_show_all_rows, help="Show every row of long tables.", hidden=True),
]
OutputOption = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="FILE", help="Write the result here, whole or not at all; '-' prints it."),
]
ToOption = Annotated[
    str | None,
    rare_option(
        "--to",
        metavar="NAME",
        help="Format, where the ending does not say it: junit, github, mlflow, every-eval-ever, ...",
    ),
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
        "mqm-weights=major=5|...; exclude=A|B: leave these systems out.",
    ),
]
ColumnsOption = Annotated[str | None, old_option("--columns", metavar="ROLE=NAME,...", new="--read")]
WideOption = Annotated[str | None, old_option("--wide", metavar="WHAT", new="--read wide=WHAT")]
ScoreNameOption = Annotated[str | None, old_option("--score-name", metavar="NAME", new="--read score-name=NAME")]
ScoresOption = Annotated[
    list[str] | None,
    typer.Option(
        "--scores",
        metavar="FILE",
        rich_help_panel=_READING,
        help="Your own scores, joined by item and system: a column each, or one for each system; may be repeated.",
    ),
]
PairOption = Annotated[str | None, old_option("--pair", metavar="en-de", new="--read pair=en-de")]
WeightsOption = Annotated[
    str | None, old_option("--mqm-weights", metavar="major=5,...", new="--read mqm-weights=major=5|minor=1")
]
KeyOption = Annotated[Path | None, old_option("--key", metavar="FILE", new="--read key=FILE")]
_NUMBERS_OF_COST = ("seconds_per_item", "seconds_per_judgment", "seconds_per_new_item", "hourly")


def _old_cost(name: str, example: str) -> Any:
    flag = name.replace("_", "-")
    return old_option(f"--{flag}", new=f"--cost {flag}={example}")


SecondsPerItemOption = Annotated[float | None, _old_cost("seconds_per_item", "240")]
SecondsPerJudgmentOption = Annotated[float | None, _old_cost("seconds_per_judgment", "40")]
SecondsPerNewItemOption = Annotated[float | None, _old_cost("seconds_per_new_item", "60")]
HourlyOption = Annotated[float | None, _old_cost("hourly", "20")]
CurrencyOption = Annotated[str | None, _old_cost("currency", "USD")]


@dataclass(frozen=True)
class Reading:
    """How data are read: which score is human, which systems count, and what a file cannot say itself."""

    human: HumanOption = None
    scores: ScoresOption = None
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
        return {name: value for name, value in self._parsed.items() if name != "exclude"}

    @property
    def excluded(self) -> list[str] | None:
        """The systems to leave out."""
        return self._parsed.get("exclude")

    @property
    def reading_texts(self) -> list[str]:
        """The texts of `--read`, with what old spellings say."""
        weights, lower, exclude = (
            None if text is None else text.replace(",", "|")
            for text in (self.mqm_weights, self.lower_is_better, self.exclude)
        )
        old = {
            "format": self.format,
            "wide": self.wide,
            "score-name": self.score_name,
            "lower-is-better": lower,
            "pair": self.pair,
            "mqm-weights": weights,
            "key": self.key,
            "exclude": exclude,
        }
        texts = [f"{key}={value}" for key, value in old.items() if value is not None]
        return [*(self.read or ()), *texts, *([] if self.columns is None else [self.columns])]

    @property
    def _parsed(self) -> dict[str, Any]:
        from aliquot.io.reading_options import parse_reading

        return parse_reading(self.reading_texts)


def spell_reading(reading: Reading) -> list[str]:
    """Return the words that say again how data are read, in the present spelling.

    >>> spell_reading(Reading(human="mqm", wide="systems", read=["item=nr"]))
    ['--human', 'mqm', '--read', 'item=nr,wide=systems']
    """
    words = [] if reading.human is None else ["--human", reading.human]
    for path in reading.scores or ():
        words += ["--scores", path]
    words += [] if reading.systems is None else ["--systems", reading.systems]
    texts = reading.reading_texts
    return [*words, "--read", ",".join(texts)] if texts else words


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
class ResultOutput(Output):
    """Where a result goes, and in which format."""

    to: ToOption = None


@dataclass(frozen=True)
class Choosing:
    """What is chosen together, and how the budget is spread."""

    unit: Annotated[
        str,
        typer.Option(
            "--unit",
            help="item; document: whole documents, or prompts with all their draws; draw: one draw of each prompt.",
            rich_help_panel=CHOOSING,
        ),
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

    cost: Annotated[
        str | None,
        typer.Option(
            "--cost",
            metavar="COLUMN,KEY=VALUE,...",
            help="What judging takes: a column of the items' seconds, esa_time or fitted (to recorded times), or "
            "seconds-per-item=240 or seconds-per-judgment=40; seconds-per-new-item=60; hourly=20, currency=USD.",
            rich_help_panel=COSTS,
        ),
    ] = None
    seconds_per_item: SecondsPerItemOption = None
    seconds_per_judgment: SecondsPerJudgmentOption = None
    seconds_per_new_item: SecondsPerNewItemOption = None
    hourly: HourlyOption = None
    currency: CurrencyOption = None

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments that `--cost` and its old spellings stand for, those that are set."""
        old = {name: value for name, value in vars(self).items() if name != "cost" and value is not None}
        arguments = parse_cost(self.cost)
        for name in arguments.keys() & old.keys():
            raise typer.BadParameter(f"--cost {name.replace('_', '-')}=... and --{name.replace('_', '-')}: give one")
        return arguments | old

    def pick(self, *names: str) -> dict[str, Any]:
        """Return `arguments` for a command that knows only these."""
        arguments = self.arguments
        for name in arguments.keys() - set(names):
            keys = ", ".join(name.replace("_", "-") for name in names)
            raise typer.BadParameter(f"--cost: {name.replace('_', '-')} is not used here; the keys are {keys}")
        return arguments


def parse_cost(text: str | None) -> dict[str, Any]:
    """Parse `--cost`: a column, and what has a key.

    >>> parse_cost("esa_time,hourly=20,currency=USD")
    {'cost': 'esa_time', 'hourly': 20.0, 'currency': 'USD'}
    """
    arguments: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in (text or "").split(","))):
        key, equals, value = part.partition("=")
        name = key.strip().replace("-", "_") if equals else "cost"
        if name in arguments:
            raise typer.BadParameter(f"--cost {text}: {'two columns' if name == 'cost' else f'{key} stands twice'}")
        if name in _NUMBERS_OF_COST:
            try:
                arguments[name] = float(value)
            except ValueError:
                raise typer.BadParameter(f"--cost {part}: expected a number, as in {key}=40") from None
        elif name in ("cost", "currency"):
            arguments[name] = value.strip() if equals else part
        else:
            keys = ", ".join(name.replace("_", "-") for name in (*_NUMBERS_OF_COST, "currency"))
            raise typer.BadParameter(f"--cost {part}: unknown key '{key}'; the keys are {keys}")
    return arguments
