"""`aliquot compare`: which system do people prefer, and do the questions they answered make sense?"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer

from aliquot.annotation.compare import CompareResult, compare
from aliquot.annotation.criteria import Criteria
from aliquot.annotation.preferences import Comparison
from aliquot.cli import common, options, render
from aliquot.errors import OptionError
from aliquot.io.formats.table_columns import parse_columns
from aliquot.io.load import load

_choice = partial(typer.Option, rich_help_panel="Choices, ballots and scores")
_score = partial(typer.Option, rich_help_panel="Choices derived from scores (--kind scores)")
_edit = partial(typer.Option, rich_help_panel="Post-editing (--kind postedit)")
_criterion = partial(typer.Option, rich_help_panel="Criteria (--kind criteria)")
_error = partial(typer.Option, rich_help_panel="Errors (--kind importance)")
_pool = partial(typer.Option, rich_help_panel="A pool of questions (--kind pool)")
_group = partial(typer.Option, rich_help_panel="Two groups, before and after (--kind groups)")


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
            help="pairwise, best-worst, ranking, scores, verify, postedit, criteria, importance, groups, pool or "
            "panas; found from the columns when not given.",
        ),
    ] = None,
    systems: Annotated[
        str | None,
        typer.Option("--systems", metavar="A,B", help="Keep only these; also names of a and b that the table lacks."),
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
    ties: Annotated[str | None, _choice("--ties", help="In scores: half (default), davidson or drop.")] = None,
    interval: Annotated[
        str | None, _choice("--interval", help="Of scores: robust (default), bootstrap, information.")
    ] = None,
    prior: Annotated[
        float | None, _choice("--prior", help="Choices added to each pair, half won by either; 1 where needed.")
    ] = None,
    alpha: Annotated[float | None, _choice("--alpha", help="Significance of ranks and clusters (0.05).")] = None,
    adjust: Annotated[
        str | None,
        typer.Option(
            "--adjust",
            help="For many tests: bh (default; groups: holm), holm, none; maxt of choices; sidak of other kinds.",
        ),
    ] = None,
    holm: Annotated[bool, typer.Option("--holm", help="The same as --adjust holm.")] = False,
    rule: Annotated[
        str | None,
        typer.Option(
            "--rule",
            help="Of ranks: any (default) or published (one-sided p, each pair alone). Of --kind pool: drop if both "
            "fail: and (default), or either: or.",
        ),
    ] = None,
    ignore: Annotated[str | None, _choice("--ignore", metavar="A,B", help="Choices to leave out.")] = None,
    criterion: Annotated[str | None, _score("--criterion", metavar="NAME", help="Compare by this one.")] = None,
    human: Annotated[str | None, _score("--human", metavar="NAME", help="Compare by this score.")] = None,
    within: Annotated[
        str | None, _score("--within", help="annotator (default: one's own scores) or item (means).")
    ] = None,
    margin: Annotated[float | None, _score("--margin", help="Differences up to it are ties (0).")] = None,
    outputs: Annotated[
        Path | None, _edit("--outputs", metavar="FILE", help="Data with the outputs, if the table has none.")
    ] = None,
    by: Annotated[str | None, _edit("--by", metavar="COLUMN", help="Groups, e.g. job or language.")] = None,
    only: Annotated[str | None, _criterion("--only", metavar="A,B", help="These criteria.")] = None,
    rows: Annotated[str | None, _criterion("--rows", help="judgment (default) or output (means).")] = None,
    correlation: Annotated[str | None, _criterion("--correlation", help="pearson (default) or spearman.")] = None,
    factors: Annotated[
        int | None, _criterion("--factors", help="Their number; by parallel analysis if not given.")
    ] = None,
    gap: Annotated[float | None, _criterion("--gap", help="Drop if two loadings differ by less (0.2).")] = None,
    communality: Annotated[float | None, _criterion("--communality", help="Drop if less is explained (0.2).")] = None,
    promax: Annotated[
        str | None, _criterion("--promax", metavar="r|spss", help="Rotation as in R (default) or in SPSS.")
    ] = None,
    flip: Annotated[str | None, _criterion("--flip", metavar="A,B", help="Criteria with reversed poles.")] = None,
    scale: Annotated[
        str | None, _criterion("--scale", metavar="LOW:HIGH", help="For judgments with a column polarity.")
    ] = None,
    keep_all: Annotated[bool, _criterion("--keep-all", help="Drop nothing.")] = False,
    target: Annotated[str | None, _error("--target", metavar="A,B", help="Scores to explain.")] = None,
    errors: Annotated[str | None, _error("--errors", metavar="A,B", help="Error columns or types.")] = None,
    types: Annotated[str | None, _error("--types", help="Of MQM errors: category (default) or severity.")] = None,
    per_annotator: Annotated[bool, _error("--per-annotator", help="Slopes of each annotator, too.")] = False,
    minimum: Annotated[float | None, _pool("--minimum", help="Of a question's mean (3.2).")] = None,
    spread: Annotated[float | None, _pool("--spread", help="Most of its standard deviation (1.2).")] = None,
    groups: Annotated[str | None, _group("--groups", metavar="A,B", help="The two groups, in this order.")] = None,
    lower_is_better: Annotated[
        str | None, _group("--lower-is-better", metavar="A,B", help="Measures that should fall.")
    ] = None,
    equal_variances: Annotated[bool, _group("--equal-variances", help="Student's t test, not Welch's.")] = False,
    draws: Annotated[int | None, typer.Option("--draws", max=10**6, help="Bootstrap draws (1000).")] = None,
    plot: options.PlotOption = None,
    seed: options.SeedOption = 0,
    json: options.JsonOption = False,
    all_rows: options.AllRowsOption = False,  # noqa: ARG001
    output: options.OutputOption = None,
) -> None:
    """Which system do people prefer, and do the questions they answered make sense?

    Reads choices between two systems (a, b, tie), best-worst ballots, rankings, or scores from which choices are
    derived, and gives win rates, sign tests and Bradley-Terry scores with intervals that allow for several choices on
    one item. Other kinds: `verify` (only a, only b, both, none are right), `postedit` (how far is the final text from
    two outputs?), `criteria` (do they measure different things?), `importance` (what do errors cost?), `groups` (which
    group changed more?), `pool` (which questions are suitable?), `panas` (affect scores). docs/compare.md
    shows the columns of each.

    Example: aliquot compare choices.csv --ties davidson --pairs

    Example: aliquot compare judgments.csv --kind criteria --factors 2
    """
    common.require_writable(output)
    common.require_picture(plot)
    given: dict[str, Any] = {
        "systems": common.names(systems) or None,
        "columns": parse_columns(columns) if columns else None,
        "cluster": cluster,
        "strict": strict or None,
        "ties": ties,
        "interval": interval,
        "prior": prior,
        "alpha": alpha,
        "ignore": common.names(ignore) or None,
        "criterion": criterion,
        "human": human,
        "within": within,
        "margin": margin,
        "outputs": load(outputs) if outputs is not None else None,
        "by": by,
        "only": common.names(only) or None,
        "rows": rows,
        "correlation": correlation,
        "factors": factors,
        "gap": gap,
        "communality": communality,
        "promax": promax,
        "drop": False if keep_all else None,
        "target": common.names(target) or None,
        "errors": common.names(errors) or None,
        "types": types,
        "groups": common.names(groups) or None,
        "lower_is_better": common.names(lower_is_better) or None,
        "equal_variances": equal_variances or None,
        "draws": draws,
        "level": level,
        "flip": common.names(flip) or None,
        "scale": common.value_range(scale, "--scale", ":"),
        "per_annotator": per_annotator or None,
        "minimum": minimum,
        "spread": spread,
        "rule": rule,
    }
    given["adjust"] = common.adjustment(adjust, holm=holm)
    with render.busy("comparing"):
        result = compare(data, kind, seed=seed, **given)
    common.draw(plot, lambda: _figure(result))
    if output is not None:
        common.write_result(_frame(result, pairs=pairs), result.to_dict(), output)
    if json:
        common.print_json(result.to_dict())
        return
    render.print_result(result, render.console(), ["pairs"] if pairs else ())
    for path in (output, plot):
        if path is not None:
            render.console().print(f"wrote {path}", markup=False)


def _figure(result: CompareResult) -> Any:
    from aliquot.report.figures.systems import preference_figure  # noqa: PLC0415  (matplotlib is an extra)

    if not isinstance(result, Comparison):
        raise OptionError("--plot draws preferences: the kinds pairwise, best-worst, ranking and scores")
    return preference_figure(result)


def _frame(result: CompareResult, *, pairs: bool) -> pl.DataFrame:
    if pairs and isinstance(result, (Comparison, Criteria)):
        return result.pairs_frame()
    return result.to_frame()
