"""`aliquot compare`: which system do people prefer?"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from aliquot.annotation.compare import MOVED_KIND, CompareResult, compare
from aliquot.annotation.criteria_result import Criteria
from aliquot.annotation.preference_result import Comparison
from aliquot.annotation.survey import SurveyResult
from aliquot.cli import common, options, render
from aliquot.cli.commands import hide_options, note_spelling, old_option
from aliquot.cli.survey import ColumnOptions, SurveyOptions
from aliquot.errors import OptionError
from aliquot.io.load import load

_choice = partial(typer.Option, rich_help_panel="Choices, ballots and scores")
_score = partial(typer.Option, rich_help_panel="Choices derived from scores (--kind scores)")
_edit = partial(typer.Option, rich_help_panel="Post-editing (--kind postedit)")

if TYPE_CHECKING:
    MovedOptions = SurveyOptions
else:
    MovedOptions = hide_options(SurveyOptions)  # `survey` was part of this verb


@dataclass(frozen=True)
class CompareOptions:
    """The options of single kinds of `compare`."""

    ties: Annotated[str | None, _choice("--ties", help="Ties in scores: half (default), davidson or drop.")] = None
    interval: Annotated[
        str | None, _choice("--interval", help="Intervals of scores: robust (default), bootstrap, information.")
    ] = None
    prior: Annotated[
        float | None, _choice("--prior", help="Choices added to each pair, half won by either; 1 where needed.")
    ] = None
    alpha: Annotated[float | None, _choice("--alpha", help="Significance of ranks and clusters (0.05).")] = None
    rule: Annotated[
        str | None, _choice("--rule", help="Rule for ranks: any (default) or published (one-sided p, each pair alone).")
    ] = None
    ignore: Annotated[str | None, _choice("--ignore", metavar="A,B", help="Choices to leave out.")] = None
    strict: Annotated[bool, _choice("--strict", help="Refuse contradictory duplicates.")] = False
    draws: Annotated[int | None, _choice("--draws", max=10**6, help="Bootstrap draws (1000).")] = None
    criterion: Annotated[str | None, _score("--criterion", metavar="NAME", help="Compare by this one.")] = None
    human: Annotated[str | None, _score("--human", metavar="NAME", help="Compare by this score.")] = None
    within: Annotated[str | None, _score("--within", help="Compare by annotator (default) or by item (means).")] = None
    margin: Annotated[float | None, _score("--margin", help="Score differences up to this are ties (0).")] = None
    outputs: Annotated[
        Path | None, _edit("--outputs", metavar="FILE", help="Data with the outputs, if the table has none.")
    ] = None
    by: Annotated[str | None, _edit("--by", metavar="COLUMN", help="Groups, e.g. job or language.")] = None

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `compare` that are set."""
        values = common.given_options(self, ["ignore"])
        return values if self.outputs is None else values | {"outputs": load(self.outputs)}


def run(
    data: Annotated[
        str,
        typer.Argument(
            metavar="TABLE", help="A table of choices (CSV, TSV, Parquet), or data with scores; '-' is standard input."
        ),
    ],
    judgments: Annotated[
        list[Path] | None, options.judgments_option(help="Further tables of choices; may be repeated.")
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            "--kind",
            "-k",
            metavar="KIND",
            help="pairwise, best-worst, ranking, scores, verify or postedit; detected from the columns by default.",
        ),
    ] = None,
    systems: Annotated[
        str | None,
        typer.Option("--systems", metavar="A,B", help="Keep only these; or names for a and b if the table has none."),
    ] = None,
    column: ColumnOptions = ColumnOptions(),  # noqa: B008  (frozen)
    level: Annotated[float, options.rare_option("--level", help="Coverage of the intervals.")] = 0.95,
    cluster: Annotated[
        str | None, options.rare_option("--cluster", help="What belongs together: item (default), annotator or none.")
    ] = None,
    adjust: Annotated[
        str | None,
        typer.Option("--adjust", help="For many tests: bh (default), holm, none; maxt of choices; sidak of others."),
    ] = None,
    holm: Annotated[bool, old_option("--holm", new="--adjust holm")] = False,
    pairs: Annotated[bool, typer.Option("--pairs", help="Show (or write with -o) all pairs, too.")] = False,
    own: CompareOptions = CompareOptions(),  # noqa: B008  (frozen)
    moved: MovedOptions = MovedOptions(),  # noqa: B008  (frozen)
    plot: options.PlotOption = None,
    seed: options.SeedOption = 0,
    output: options.ResultOutput = options.ResultOutput(),  # noqa: B008  (frozen)
) -> None:
    """Which system do people prefer?

    Reads choices between two systems (a, b, tie), best-worst ballots, rankings, or scores from which choices are
    derived, and gives win rates, sign tests and Bradley-Terry scores with intervals that allow for several choices on
    one item. Other kinds: `verify` (only a, only b, both, none are right), `postedit` (how far is the final text from
    two outputs?). docs/compare.md shows the columns of each.

    Example: aliquot compare choices.csv --ties davidson --pairs
    """
    common.require_output(output)
    common.require_picture(plot)
    with render.show_activity("comparing"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", MOVED_KIND)  # the note on the spelling says the same
        result = compare(
            [data, *judgments] if judgments else data,
            kind,
            systems=common.split_names(systems) or None,
            columns=column.roles,
            level=level,
            cluster=cluster,
            adjust=common.parse_adjustment(adjust, holm=holm),
            seed=seed,
            **own.arguments(),
            **moved.arguments(),
        )
    if not isinstance(result, CompareResult):
        note_spelling("compare of questionnaires", "aliquot survey")
    common.write_figure(plot, lambda: _make_figure(result))
    has_pairs = pairs and isinstance(result, (Comparison, Criteria))
    details = ["pairs"] if pairs else ()
    common.write_and_print(result, output, "pairs" if has_pairs else None, details=details, files=[plot])


def _make_figure(result: CompareResult | SurveyResult) -> Any:
    from aliquot.report.figures.systems import preference_figure

    if not isinstance(result, Comparison):
        raise OptionError("--plot draws preferences: the kinds pairwise, best-worst, ranking and scores")
    return preference_figure(result)
