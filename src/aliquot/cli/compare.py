"""`aliquot compare`: which system do people prefer, and do the questions they answered make sense?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer

from aliquot.cli import common, render
from aliquot.cli.compare_tables import show
from aliquot.data.formats.table_columns import parse_mapping
from aliquot.data.io import load
from aliquot.errors import OptionError
from aliquot.judge.compare import compare
from aliquot.judge.comparison import Comparison, Result
from aliquot.judge.criteria_result import Criteria

_CHOICES = "Choices, ballots and scores"
_SCORES = "Choices derived from scores (--kind scores)"
_EDITS = "Post-editing (--kind postedit)"
_CRITERIA = "Criteria (--kind criteria)"
_ERRORS = "Errors (--kind importance)"
_GROUPS = "Two groups, before and after (--kind groups)"


def run(
    data: Annotated[
        str,
        typer.Argument(
            metavar="TABLE", help="A table of choices (CSV, TSV, Parquet), or data with scores; '-' is standard input."
        ),
    ],
    kind: Annotated[
        str | None,
        typer.Option(
            "--kind",
            "-k",
            metavar="KIND",
            help="pairwise, best-worst, ranking, scores, verify, postedit, criteria, "
            "importance or groups; told by the columns when not given.",
        ),
    ] = None,
    systems: Annotated[
        str | None,
        typer.Option("--systems", metavar="A,B", help="Keep only these; who a and b are, if the table does not say."),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            "--columns", metavar="ROLE=NAME,...", help="Which column is which, e.g. choice=winner,item=segment."
        ),
    ] = None,
    level: Annotated[float, typer.Option("--level", help="Coverage of the intervals.")] = 0.95,
    cluster: Annotated[
        str | None, typer.Option("--cluster", help="What belongs together: item (default), annotator or none.")
    ] = None,
    pairs: Annotated[bool, typer.Option("--pairs", help="Show (or write with -o) all pairs, too.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse contradictory duplicates.")] = False,
    ties: Annotated[
        str | None,
        typer.Option("--ties", help="In scores: half (default), davidson or drop.", rich_help_panel=_CHOICES),
    ] = None,
    interval: Annotated[
        str | None,
        typer.Option(
            "--interval", help="Of scores: robust (default), bootstrap, information.", rich_help_panel=_CHOICES
        ),
    ] = None,
    prior: Annotated[
        float | None,
        typer.Option(
            "--prior",
            help="Choices added to each pair, half won by either; 1 where needed.",
            rich_help_panel=_CHOICES,
        ),
    ] = None,
    alpha: Annotated[
        float | None,
        typer.Option("--alpha", help="Significance of ranks and clusters (0.05).", rich_help_panel=_CHOICES),
    ] = None,
    holm: Annotated[
        bool, typer.Option("--holm", help="Correct ranks for many pairs.", rich_help_panel=_CHOICES)
    ] = False,
    ignore: Annotated[
        str | None, typer.Option("--ignore", metavar="A,B", help="Choices to leave out.", rich_help_panel=_CHOICES)
    ] = None,
    criterion: Annotated[
        str | None, typer.Option("--criterion", metavar="NAME", help="Compare by this one.", rich_help_panel=_SCORES)
    ] = None,
    human: Annotated[
        str | None, typer.Option("--human", metavar="NAME", help="Compare by this score.", rich_help_panel=_SCORES)
    ] = None,
    within: Annotated[
        str | None,
        typer.Option(
            "--within", help="annotator (default: one's own scores) or item (means).", rich_help_panel=_SCORES
        ),
    ] = None,
    margin: Annotated[
        float | None, typer.Option("--margin", help="Differences up to it are ties (0).", rich_help_panel=_SCORES)
    ] = None,
    outputs: Annotated[
        Path | None,
        typer.Option(
            "--outputs", metavar="FILE", help="Data with the outputs, if the table has none.", rich_help_panel=_EDITS
        ),
    ] = None,
    by: Annotated[
        str | None, typer.Option("--by", metavar="COLUMN", help="Groups, e.g. job or language.", rich_help_panel=_EDITS)
    ] = None,
    only: Annotated[
        str | None, typer.Option("--only", metavar="A,B", help="These criteria.", rich_help_panel=_CRITERIA)
    ] = None,
    rows: Annotated[
        str | None, typer.Option("--rows", help="judgment (default) or output (means).", rich_help_panel=_CRITERIA)
    ] = None,
    correlation: Annotated[
        str | None, typer.Option("--correlation", help="pearson (default) or spearman.", rich_help_panel=_CRITERIA)
    ] = None,
    factors: Annotated[
        int | None,
        typer.Option("--factors", help="Their number; by parallel analysis if not given.", rich_help_panel=_CRITERIA),
    ] = None,
    gap: Annotated[
        float | None,
        typer.Option("--gap", help="Drop if two loadings differ by less (0.2).", rich_help_panel=_CRITERIA),
    ] = None,
    communality: Annotated[
        float | None, typer.Option("--communality", help="Drop if less is explained (0.2).", rich_help_panel=_CRITERIA)
    ] = None,
    keep_all: Annotated[bool, typer.Option("--keep-all", help="Drop nothing.", rich_help_panel=_CRITERIA)] = False,
    target: Annotated[
        str | None, typer.Option("--target", metavar="A,B", help="Scores to explain.", rich_help_panel=_ERRORS)
    ] = None,
    errors: Annotated[
        str | None, typer.Option("--errors", metavar="A,B", help="Error columns or types.", rich_help_panel=_ERRORS)
    ] = None,
    types: Annotated[
        str | None,
        typer.Option("--types", help="Of MQM errors: category (default) or severity.", rich_help_panel=_ERRORS),
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option("--groups", metavar="A,B", help="The two groups, in this order.", rich_help_panel=_GROUPS),
    ] = None,
    lower_is_better: Annotated[
        str | None,
        typer.Option("--lower-is-better", metavar="A,B", help="Measures that should fall.", rich_help_panel=_GROUPS),
    ] = None,
    adjust: Annotated[
        str | None, typer.Option("--adjust", help="holm (default), sidak or none.", rich_help_panel=_GROUPS)
    ] = None,
    equal_variances: Annotated[
        bool, typer.Option("--equal-variances", help="Student's t test, not Welch's.", rich_help_panel=_GROUPS)
    ] = False,
    draws: Annotated[int | None, typer.Option("--draws", help="Bootstrap draws (1000).")] = None,
    seed: common.SeedOption = 0,
    json: common.JsonOption = False,
    output: common.OutputOption = None,
) -> None:
    """Which system do people prefer, and do the questions they answered make sense?

    Reads choices between two systems (a, b, tie), best-worst ballots, rankings, or scores from which choices are
    derived, and gives win rates, sign tests and Bradley-Terry scores with intervals that know that several choices on
    one item belong together. Other kinds: `verify` (only a, only b, both, none are right), `postedit` (how far is the
    final text from two outputs?), `criteria` (do they measure different things?), `importance` (what do errors
    cost?), `groups` (whose measures changed more?). docs/compare.md shows the columns of each.

    Example: aliquot compare choices.csv --ties davidson --pairs

    Example: aliquot compare judgments.csv --kind criteria --factors 2
    """  # fmt: skip
    common.require_writable(output)
    given: dict[str, Any] = {
        "systems": common.names(systems) or None, "columns": parse_mapping(columns) if columns else None,
        "cluster": cluster, "strict": strict or None, "ties": ties, "interval": interval, "prior": prior,
        "alpha": alpha, "ignore": common.names(ignore) or None, "criterion": criterion, "human": human,
        "within": within,
        "margin": margin, "outputs": load(outputs) if outputs is not None else None, "by": by,
        "only": common.names(only) or None, "rows": rows, "correlation": correlation, "factors": factors, "gap": gap,
        "communality": communality, "drop": False if keep_all else None, "target": common.names(target) or None,
        "errors": common.names(errors) or None, "types": types, "groups": common.names(groups) or None,
        "lower_is_better": common.names(lower_is_better) or None, "equal_variances": equal_variances or None,
        "draws": draws, "level": level,
    }  # fmt: skip
    if holm and adjust is not None:
        raise OptionError("--holm corrects ranks of systems and --adjust is for --kind groups; give one of them")
    given["adjust"] = adjust if adjust is not None else (True if holm else None)
    with render.busy("comparing"):
        result = compare(data, kind, seed=seed, **given)
    if output is not None:
        common.write_result(_frame(result, pairs=pairs), result.to_dict(), output)
    if json:
        common.print_json(result.to_dict())
        return
    show(result, render.console(), pairs=pairs)
    if output is not None:
        render.console().print(f"wrote {output}", markup=False)


def _frame(result: Result, *, pairs: bool) -> pl.DataFrame:
    if pairs and isinstance(result, (Comparison, Criteria)):
        return result.pairs_frame()
    return result.to_frame()
