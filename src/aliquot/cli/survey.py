"""`aliquot survey`: do the questions that people answered make sense?"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import typer

from aliquot.annotation.criteria_result import Criteria
from aliquot.annotation.survey import survey
from aliquot.cli import common, options, render
from aliquot.cli.commands import old_option
from aliquot.io.formats.table_columns import parse_columns

_criteria = partial(typer.Option, rich_help_panel="Criteria (--kind criteria)")
_errors = partial(typer.Option, rich_help_panel="Errors (--kind importance)")
_pool = partial(typer.Option, rich_help_panel="A pool of questions (--kind pool)")
_groups = partial(typer.Option, rich_help_panel="Two groups, before and after (--kind groups)")
_LISTS = ("only", "flip", "target", "errors", "groups", "lower_is_better")


@dataclass(frozen=True)
class ColumnOptions:
    """Which column of a table is which."""

    read: Annotated[
        str | None,
        typer.Option("--read", metavar="ROLE=NAME,...", help="Which column is which, e.g. item=segment,choice=winner."),
    ] = None
    columns: Annotated[str | None, old_option("--columns", metavar="ROLE=NAME,...", new="--read")] = None

    @property
    def roles(self) -> dict[str, str] | None:
        """Our column role -> the table's column."""
        text = self.read or self.columns
        return parse_columns(text) if text else None


@dataclass(frozen=True)
class SurveyOptions:
    """The options of single kinds of `survey`."""

    only: Annotated[str | None, _criteria("--only", metavar="A,B", help="Use only these criteria.")] = None
    rows: Annotated[str | None, _criteria("--rows", help="One row per judgment (default) or output (means).")] = None
    correlation: Annotated[str | None, _criteria("--correlation", help="pearson (default) or spearman.")] = None
    factors: Annotated[
        int | None, _criteria("--factors", help="Number of factors; by parallel analysis if not given.")
    ] = None
    gap: Annotated[float | None, _criteria("--gap", help="Drop criteria whose two loadings differ by less (0.2).")] = (
        None
    )
    communality: Annotated[
        float | None, _criteria("--communality", help="Drop criteria of which less is explained (0.2).")
    ] = None
    promax: Annotated[
        str | None, _criteria("--promax", metavar="r|spss", help="Rotation as in R (default) or in SPSS.")
    ] = None
    flip: Annotated[str | None, _criteria("--flip", metavar="A,B", help="Criteria with reversed poles.")] = None
    scale: Annotated[
        str | None, _criteria("--scale", metavar="LOW:HIGH", help="Scale of judgments with a column polarity.")
    ] = None
    keep_all: Annotated[bool, _criteria("--keep-all", help="Drop no criterion.")] = False
    target: Annotated[str | None, _errors("--target", metavar="A,B", help="Scores to explain.")] = None
    errors: Annotated[str | None, _errors("--errors", metavar="A,B", help="Error columns or types.")] = None
    types: Annotated[str | None, _errors("--types", help="Group MQM errors by category (default) or severity.")] = None
    per_annotator: Annotated[bool, _errors("--per-annotator", help="Slopes of each annotator, too.")] = False
    minimum: Annotated[float | None, _pool("--minimum", help="Drop questions whose mean is below (3.2).")] = None
    spread: Annotated[float | None, _pool("--spread", help="Drop questions whose SD is above (1.2).")] = None
    groups: Annotated[str | None, _groups("--groups", metavar="A,B", help="The two groups, in this order.")] = None
    lower_is_better: Annotated[
        str | None, _groups("--lower-is-better", metavar="A,B", help="Measures where lower is better.")
    ] = None
    equal_variances: Annotated[bool, _groups("--equal-variances", help="Student's t test, not Welch's.")] = False

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `survey` that are set."""
        values = common.given_options(self, _LISTS) | {"scale": common.parse_range(self.scale, "--scale", ":")}
        return values | {"drop": False} if values.pop("keep_all", False) else values


def run(
    data: Annotated[
        str,
        typer.Argument(
            metavar="TABLE", help="A table (CSV, TSV, Parquet), or data with judgments; '-' is standard input."
        ),
    ],
    kind: Annotated[
        str | None,
        typer.Option(
            "--kind",
            "-k",
            metavar="KIND",
            help="criteria, importance, groups, pool or panas; detected from the columns, else criteria.",
        ),
    ] = None,
    column: ColumnOptions = ColumnOptions(),  # noqa: B008  (frozen)
    level: Annotated[float, options.rare_option("--level", help="Coverage of the intervals.")] = 0.95,
    adjust: Annotated[
        str | None,
        options.rare_option("--adjust", help="Adjustment for many measures: holm (default), bh, sidak or none."),
    ] = None,
    rule: Annotated[
        str | None, _pool("--rule", help="Drop a question if both fail: and (default), or either: or.")
    ] = None,
    pairs: Annotated[bool, typer.Option("--pairs", help="Show (or write with -o) all pairs of criteria, too.")] = False,
    draws: Annotated[int | None, _criteria("--draws", max=10**6, help="Bootstrap draws (1000).")] = None,
    own: SurveyOptions = SurveyOptions(),  # noqa: B008  (frozen)
    seed: options.SeedOption = 0,
    output: options.ResultOutput = options.ResultOutput(),  # noqa: B008  (frozen)
) -> None:
    """Do the questions that people answered make sense?

    Kinds: `criteria` (do they measure different things?), `importance` (what do errors cost?), `groups` (which group
    changed more?), `pool` (which questions are suitable?), `panas` (affect scores). docs/survey.md shows the columns of
    each.

    Example: aliquot survey judgments.csv --kind criteria --factors 2

    Example: aliquot survey trial.csv --groups report,control
    """
    common.require_output(output)
    with render.show_activity("analysing"):
        result = survey(
            data,
            kind,
            columns=column.roles,
            level=level,
            adjust=adjust,
            rule=rule,
            draws=draws,
            seed=seed,
            **own.arguments(),
        )
    has_pairs = pairs and isinstance(result, Criteria)
    common.write_and_print(result, output, "pairs" if has_pairs else None, details=["pairs"] if pairs else ())
