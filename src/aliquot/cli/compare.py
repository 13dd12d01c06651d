"""`aliquot compare`: which system do people prefer, and do the questions they answered make sense?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer
from rich.console import Console
from rich.table import Table

from aliquot.annotation.compare import CompareResult, compare
from aliquot.annotation.criteria import Criteria
from aliquot.annotation.error_importance import ErrorImportance
from aliquot.annotation.group_changes import GroupChanges
from aliquot.annotation.preferences import Comparison
from aliquot.annotation.side_by_side import PostEditing, Verification
from aliquot.annotation.surveys import AffectScores, PoolReduction
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
    show(result, render.console(), pairs=pairs)
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


# -- in a terminal -------------------------------------------------------------------------------------------------

_FEW = 6
"""Pairs that are shown by default."""


def show(result: CompareResult, console: Console, *, pairs: bool = False) -> None:
    """Print a result of `compare`: verdict, tables, notes, signature."""
    render.verdict(result.verdict, console)
    tables: Sequence[Table | str]
    match result:
        case Comparison():
            tables = _comparison(result, pairs=pairs)
        case Criteria():
            tables = _criteria(result, pairs=pairs)
        case Verification():
            tables = _verification(result)
        case PostEditing():
            tables = _postediting(result)
        case ErrorImportance():
            tables = _importance(result)
        case GroupChanges():
            tables = _groups(result)
        case PoolReduction():
            tables = _pool_table(result)
        case AffectScores():
            tables = _affect(result)
    for table in tables:
        if isinstance(table, str):
            console.print(table, markup=False)
        else:
            console.print(table)
        console.print()
    for note in result.notes:
        console.print(f"note: {note}", markup=False)
    render.signature(result.signature, console)


def _table(title: str, left: Sequence[str], right: Sequence[str], rows: Iterable[Sequence[str]]) -> render.PlainTable:
    table = render.table(title)
    render.columns(table, left=left, right=right)
    for row in rows:
        table.add_row(*row)
    return table


def _span(low: float, high: float, places: int = 2) -> str:
    return "-" if low != low or high != high else f"{low:.{places}f} to {high:.{places}f}"  # noqa: PLR0124


def _p(value: float) -> str:
    if value != value:  # noqa: PLR0124
        return "-"
    return f"{value:.3f}" if value >= 0.001 else f"{value:.0e}"


def _counts(*numbers: int) -> str:
    return "/".join(map(str, numbers))


# -- preferences ---------------------------------------------------------------------------------------------------


def _comparison(result: Comparison, *, pairs: bool) -> list[Table | str]:
    annotators = f" by {result.annotators} annotators" if result.annotators else ""
    shown: list[Table | str] = [
        f"{result.choices} choices{annotators} on {result.items} items ({result.kind}); {result.level:.0%} intervals",
        _system_table(result),
    ]
    if result.position is not None:
        side = result.position
        shown.append(
            f"the system shown first won {render.percent(side.first_won)} of {side.n} choices, "
            f"{_span(side.low, side.high)}"
        )
    if pairs or len(result.pairs) <= _FEW:
        shown.append(_pair_table(result))
    else:
        shown.append(f"{len(result.pairs)} pairs: see them with --pairs")
    return shown


def _system_table(result: Comparison) -> Table:
    ballots = any(row.best == row.best for row in result.systems)
    parts = len({row.component for row in result.systems}) > 1
    table = render.columns(
        render.table("systems (win rate: ties half; score: Bradley-Terry, log-odds)"),
        left=["system"],
        right=["won/tied/lost", "win rate", "interval", "score", "interval", "rank", "cluster"],
    )
    for name in [*(["best", "worst"] if ballots else []), *(["component"] if parts else [])]:
        table.add_column(name, justify="right", no_wrap=True)
    for row in result.systems:
        ranks = str(row.rank_low) if row.rank_low == row.rank_high else f"{row.rank_low}-{row.rank_high}"
        extra = [render.fixed(row.best, 2), render.fixed(row.worst, 2)] if ballots else []
        extra += [str(row.component)] if parts else []
        table.add_row(
            row.system,
            _counts(row.wins, row.ties, row.losses),
            render.fixed(row.win_rate, 2),
            _span(row.low, row.high),
            render.fixed(row.score, 2),
            _span(row.score_low, row.score_high),
            ranks,
            str(row.cluster),
            *extra,
        )
    return table


def _pair_table(result: Comparison) -> Table:
    how = "one-sided, each pair alone: the published convention" if result.rule == "published" else "two-sided"
    title = f"pairs, the higher score first (p: {how}{_adjusted_by(result.adjust)})"
    names = ["won/tied/lost", "win rate", "interval", f"p by {result.clusters}", "adjusted"]
    rows = [
        (
            row.a,
            row.b,
            _counts(row.wins, row.ties, row.losses),
            render.fixed(row.win_rate, 2),
            _span(row.low, row.high),
            _p(row.p),
            _p(row.p_adjusted),
        )
        for row in result.pairs
    ]
    table = _table(title, ["system", "against"], names, rows)
    table.priority = [row.p for row in result.pairs]  # the close pairs are the ones to look at
    return table


_ADJUSTED = {"bh": "Benjamini-Hochberg", "holm": "Holm", "maxt": "step-down max-t", "sidak": "Sidak"}


def _adjusted_by(adjust: str) -> str:
    return "" if adjust == "none" else f"; adjusted by {_ADJUSTED[adjust]}"


def _verification(result: Verification) -> list[Table | str]:
    counts = [
        (
            row.a,
            row.b,
            *map(str, (row.only_a, row.only_b, row.both, row.none)),
            render.fixed(row.accuracy_a),
            _span(row.a_low, row.a_high),
            render.fixed(row.accuracy_b),
            _span(row.b_low, row.b_high),
        )
        for row in result.pairs
    ]
    tests = [
        (
            row.a,
            row.b,
            render.fixed(row.difference),
            _span(row.low, row.high, 3),
            _p(row.p_exact),
            render.fixed(row.chi2, 1),
            _p(row.p_chi2),
            _p(row.p),
            _p(row.p_adjusted),
        )
        for row in result.pairs
    ]
    return [
        _table(
            f"{result.answers} judgments on {result.items} items; {result.level:.0%} intervals",
            ["a", "b"],
            ["only a", "only b", "both", "none", "a right", "interval", "b right", "interval"],
            counts,
        ),
        _table(
            "difference of the shares that are right (p: McNemar, exact, chi-square, and over clusters"
            f"{_adjusted_by(result.adjust)})",
            ["a", "b"],
            ["difference", "interval", "p exact", "chi2", "p chi2", f"p by {result.clusters}", "adjusted"],
            tests,
        ),
    ]


def _postediting(result: PostEditing) -> list[Table | str]:
    left = [result.by or "segments", "a", "b"]
    edits = [
        (
            row.group,
            row.a,
            row.b,
            str(row.segments),
            render.fixed(row.edits_a, 2),
            render.fixed(row.edits_b, 2),
            render.fixed(row.difference, 2),
            _span(row.low, row.high, 1),
            _counts(row.fewer_a, row.equal, row.fewer_b),
            _p(row.p),
            _p(row.p_adjusted),
        )
        for row in result.rows
    ]
    choice = [
        (
            row.group,
            row.a,
            row.b,
            *map(str, (row.chosen_a, row.chosen_b, row.identical)),
            render.fixed(row.share_a),
            _span(row.share_low, row.share_high),
            _p(row.p_chosen),
            _p(row.p_chosen_clustered),
        )
        for row in result.rows
    ]
    shown: list[Table | str] = [
        _table(
            "mean character edits from each output to the final text (p: which needs fewer, sign test"
            f"{_adjusted_by(result.adjust)})",
            left,
            ["n", "edits a", "edits b", "difference", "interval", "fewer a/=/b", f"p by {result.clusters}", "adjusted"],
            edits,
        )
    ]
    if any(row.chosen_a + row.chosen_b for row in result.rows):
        right = ["chosen a", "chosen b", "identical", "share a", "interval", "p", f"p by {result.clusters}"]
        shown.append(_table("which output was chosen (identical outputs left out)", left, right, choice))
    return shown


# -- criteria, errors, groups --------------------------------------------------------------------------------------


def _criteria(result: Criteria, *, pairs: bool) -> list[Table | str]:
    shown: list[Table | str] = [
        f"{len(result.names)} criteria on {result.n} rows (one per {result.rows}); KMO {render.fixed(result.kmo, 2)}"
    ]
    if result.factors is not None:
        shown.append(_loadings(result))
    if pairs or len(result.pairs) <= 2 * _FEW:
        rows = [
            (row.a, row.b, str(row.n), render.fixed(row.correlation, 2), _span(row.low, row.high))
            for row in result.pairs
        ]
        title = f"correlations ({result.level:.0%} intervals over items)"
        shown.append(_table(title, ["criterion", "criterion"], ["rows", "r", "interval"], rows))
    else:
        shown.append(f"{len(result.pairs)} pairs of criteria: see them with --pairs")
    return shown


def _loadings(result: Criteria) -> Table:
    fit = result.factors
    if fit is None:
        return render.table()
    number = fit.loadings.shape[1]
    test = f"chi2 {fit.chi2:.2f} on {fit.df} df, p {_p(fit.p_value)}" if fit.df else "no degree of freedom to test them"
    title = f"{number} factors ({result.chosen}; promax of {fit.promax.upper()}); {test}"
    title = title if number > 1 else f"1 factor ({result.chosen}); {test}"
    names = ["KMO", "communality", *(f"factor {k + 1}" for k in range(number))]
    table = render.columns(render.table(title), left=["criterion"], right=names)
    gone = {row.criterion: row.reason for row in result.dropped}
    for row in result.to_frame().to_dicts():
        loadings = [render.fixed(row[f"factor{k + 1}"], 2) for k in range(number)]
        cells = [render.fixed(row["kmo"], 2), render.fixed(row["communality"], 2), *loadings]
        table.add_row(row["criterion"] + (" (dropped)" if row["criterion"] in gone else ""), *cells)
    table.add_row("share of variance", "", "", *(render.fixed(float(share), 2) for share in fit.variance))
    for k in range(number if number > 1 else 0):
        table.add_row(f"correlation with factor {k + 1}", "", "", *(f"{r:.2f}" for r in fit.correlation[k]))
    table.caption = "; ".join(f"dropped '{name}': {why}" for name, why in gone.items()) or None
    return table


def _importance(result: ErrorImportance) -> list[Table | str]:
    right = ["judgments with it", "points each", "standardised", "interval", "p"]
    tables: list[Table | str] = [
        _table(
            f"{target}: errors explain {render.percent(max(0.0, r2))} of its variance",
            ["error"],
            right,
            [
                (
                    row.error,
                    str(row.n),
                    render.number(row.slope),
                    render.fixed(row.standardised, 2),
                    _span(row.low, row.high),
                    _p(row.p),
                )
                for row in result.rows
                if row.target == target and row.annotator is None
            ],
        )
        for target, r2 in result.r2.items()
    ]
    tables += [
        _table(
            f"{target}: points per error by annotator",
            ["annotator", "error"],
            right[:-1],
            [
                (
                    row.annotator or "",
                    row.error,
                    str(row.n),
                    render.number(row.slope),
                    render.fixed(row.standardised, 2),
                    _span(row.low, row.high),
                )
                for row in result.rows
                if row.target == target and row.annotator is not None
            ],
        )
        for target in result.r2
        if any(row.annotator is not None and row.target == target for row in result.rows)
    ]
    return tables


def _pool_table(result: PoolReduction) -> list[Table | str]:
    rows = [
        (
            row.question,
            str(row.n),
            render.fixed(row.mean, 2),
            render.fixed(row.sd, 2),
            "" if row.kept else "goes",
            row.reason,
        )
        for row in result.rows
    ]
    table = render.columns(
        render.table(f"{len(result.kept)} of {len(result.rows)} questions stay"),
        left=["question"],
        right=["ratings", "mean", "sd"],
    )
    table.add_column("")
    table.add_column("why", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return [table]


def _affect(result: AffectScores) -> list[Table | str]:
    rows = [
        (row.participant, row.time or "", render.number(row.positive), render.number(row.negative))
        for row in result.rows
    ]
    return [_table("PANAS: sums of ten adjectives, 10 to 50", ["participant", "time"], ["positive", "negative"], rows)]


def _groups(result: GroupChanges) -> list[Table | str]:
    first, second = result.rows[0].first, result.rows[0].second
    means = [
        (
            row.measure,
            _counts(row.n_first, row.n_second),
            render.number(row.change_first),
            render.number(row.change_second),
            render.number(row.difference),
            _span(row.low, row.high),
            _p(row.p),
            _p(row.p_adjusted),
            _p(row.p_baseline),
        )
        for row in result.rows
    ]
    shares = [
        (
            row.measure,
            _percent(row.improved_first),
            _percent(row.improved_second),
            _p(row.p_improved),
            _p(row.p_improved_adjusted),
        )
        for row in result.rows
    ]
    return [
        _table(
            f"mean change, {first} against {second} (p adjusted by {result.adjust})",
            ["measure"],
            ["n", first, second, "difference", "interval", "p", "adjusted", "p at start"],
            means,
        ),
        _table("people who improved", ["measure"], [first, second, "p", "adjusted"], shares),
    ]


def _percent(share: float) -> str:
    return "-" if share != share else render.percent(share)  # noqa: PLR0124
