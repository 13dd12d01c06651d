"""How the results of `aliquot compare` look in a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from aliquot.cli import render
from aliquot.judge.comparison import Comparison, Result
from aliquot.judge.criteria_result import Criteria
from aliquot.judge.error_importance import ErrorImportance
from aliquot.judge.groups import GroupChanges
from aliquot.judge.postedit import PostEditing
from aliquot.judge.verify import Verification

_FEW = 6
"""Pairs that are shown without asking."""


def show(result: Result, console: Console, *, pairs: bool = False) -> None:
    """Print whatever `compare` gave: tables, notes, signature."""
    tables: Sequence[Table | str] = ()
    if isinstance(result, Comparison):
        tables = _comparison(result, pairs=pairs)
    elif isinstance(result, Verification):
        tables = _verification(result)
    elif isinstance(result, PostEditing):
        tables = _postediting(result)
    elif isinstance(result, Criteria):
        tables = _criteria(result, pairs=pairs)
    elif isinstance(result, ErrorImportance):
        tables = _importance(result)
    elif isinstance(result, GroupChanges):
        tables = _groups(result)
    for table in tables:
        if isinstance(table, str):
            console.print(table, markup=False)
        else:
            console.print(table)
        console.print()
    for note in result.notes:
        console.print(f"note: {note}", markup=False)
    render.signature(result.signature, console)


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
    people = f" by {result.annotators} annotators" if result.annotators else ""
    shown: list[Table | str] = [
        f"{result.choices} choices{people} on {result.items} items ({result.kind}); {result.level:.0%} intervals"
    ]
    shown.append(_system_table(result))
    if result.position is not None:
        side = result.position
        shown.append(
            f"what was shown first won {render.percent(side.first_won)} of {side.n} choices, "
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
    title = "pairs (p: sign test, ties left out; alone, over clusters, and corrected for the number of pairs)"
    names = ["won/tied/lost", "win rate", "interval", "p alone", f"p by {result.clusters}", "p Holm"]
    table = render.columns(render.table(title), left=["preferred", "over"], right=names)
    for row in result.pairs:
        table.add_row(
            row.a, row.b, _counts(row.wins, row.ties, row.losses), render.fixed(row.win_rate, 2),
            _span(row.low, row.high), _p(row.p_sign), _p(row.p), _p(row.p_holm),
        )  # fmt: skip
    return table


def _verification(result: Verification) -> list[Table | str]:
    counts = render.columns(
        render.table(f"{result.answers} answers on {result.items} items; {result.level:.0%} intervals"),
        left=["a", "b"],
        right=["only a", "only b", "both", "none", "a right", "interval", "b right", "interval"],
    )
    tests = render.columns(
        render.table("difference of the shares that are right (p: McNemar, exact, chi-square, and over clusters)"),
        left=["a", "b"],
        right=["difference", "interval", "p exact", "chi2", "p chi2", f"p by {result.clusters}"],
    )
    for row in result.pairs:
        counts.add_row(
            row.a, row.b, *map(str, (row.only_a, row.only_b, row.both, row.none)), render.fixed(row.accuracy_a),
            _span(row.a_low, row.a_high), render.fixed(row.accuracy_b), _span(row.b_low, row.b_high),
        )  # fmt: skip
        tests.add_row(
            row.a, row.b, render.fixed(row.difference), _span(row.low, row.high, 3), _p(row.p_exact),
            render.fixed(row.chi2, 1), _p(row.p_chi2), _p(row.p),
        )  # fmt: skip
    return [counts, tests]


def _postediting(result: PostEditing) -> list[Table | str]:
    edits = render.columns(
        render.table("mean character edits from each output to the final text (p: who needs fewer, sign test)"),
        left=[result.by or "segments", "a", "b"],
        right=[
            "n",
            "edits a",
            "edits b",
            "difference",
            "interval",
            "fewer a/=/b",
            "p",
            f"p by {result.clusters}",
        ],
    )
    choice = render.columns(
        render.table("which output was chosen (identical outputs left out)"),
        left=[result.by or "segments", "a", "b"],
        right=["chosen a", "chosen b", "identical", "share a", "interval", "p", f"p by {result.clusters}"],
    )
    for row in result.rows:
        edits.add_row(
            row.group, row.a, row.b, str(row.segments), render.fixed(row.edits_a, 2), render.fixed(row.edits_b, 2),
            render.fixed(row.difference, 2), _span(row.low, row.high, 1), _counts(row.fewer_a, row.equal, row.fewer_b),
            _p(row.p_fewer), _p(row.p),
        )  # fmt: skip
        choice.add_row(
            row.group, row.a, row.b, *map(str, (row.chosen_a, row.chosen_b, row.identical)),
            render.fixed(row.share_a), _span(row.share_low, row.share_high), _p(row.p_chosen),
            _p(row.p_chosen_clustered),
        )  # fmt: skip
    chosen = any(row.chosen_a + row.chosen_b for row in result.rows)
    return [edits, choice] if chosen else [edits]


# -- criteria, errors, groups --------------------------------------------------------------------------------------


def _criteria(result: Criteria, *, pairs: bool) -> list[Table | str]:
    shown: list[Table | str] = [
        f"{len(result.names)} criteria on {result.n} rows (one per {result.rows}); KMO {render.fixed(result.kmo, 2)}"
    ]
    if result.factors is not None:
        shown.append(_loadings(result))
    if pairs or len(result.pairs) <= 2 * _FEW:
        table = render.columns(
            render.table(f"correlations ({result.level:.0%} intervals over items)"),
            left=["criterion", "criterion"],
            right=["rows", "r", "interval"],
        )
        for row in result.pairs:
            table.add_row(row.a, row.b, str(row.n), render.fixed(row.correlation, 2), _span(row.low, row.high))
        shown.append(table)
    else:
        shown.append(f"{len(result.pairs)} pairs of criteria: see them with --pairs")
    return shown


def _loadings(result: Criteria) -> Table:
    fit = result.factors
    if fit is None:
        return render.table()
    number = fit.loadings.shape[1]
    test = f"chi2 {fit.chi2:.2f} on {fit.df} df, p {_p(fit.p_value)}" if fit.df else "no degree of freedom to test them"
    title = f"{number} factor{'s' if number > 1 else ''} ({result.chosen}); {test}"
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
    shown: list[Table | str] = []
    for target, r2 in result.r2.items():
        table = render.columns(
            render.table(f"{target}: errors explain {render.percent(max(0.0, r2))} of its variance"),
            left=["error"],
            right=["answers with it", "points each", "standardised", "interval", "p"],
        )
        for row in result.rows:
            if row.target == target:
                table.add_row(
                    row.error, str(row.n), render.number(row.slope), render.fixed(row.standardised, 2),
                    _span(row.low, row.high), _p(row.p),
                )  # fmt: skip
        shown.append(table)
    return shown


def _groups(result: GroupChanges) -> list[Table | str]:
    first, second = result.rows[0].first, result.rows[0].second
    means = render.columns(
        render.table(f"mean change, {first} against {second} (p adjusted by {result.adjust})"),
        left=["measure"],
        right=["n", first, second, "difference", "interval", "p", "adjusted", "p at start"],
    )
    shares = render.columns(
        render.table("people who improved"), left=["measure"], right=[first, second, "p", "adjusted"]
    )  # fmt: skip
    for row in result.rows:
        means.add_row(
            row.measure, _counts(row.n_first, row.n_second), render.number(row.change_first),
            render.number(row.change_second), render.number(row.difference), _span(row.low, row.high), _p(row.p),
            _p(row.p_adjusted), _p(row.p_baseline),
        )  # fmt: skip
        shares.add_row(
            row.measure, _percent(row.improved_first), _percent(row.improved_second), _p(row.p_improved),
            _p(row.p_improved_adjusted),
        )  # fmt: skip
    return [means, shares]


def _percent(share: float) -> str:
    return "-" if share != share else render.percent(share)  # noqa: PLR0124
