"""`aliquot estimate`: how good is each system, who is really better, how sure are we?"""

from __future__ import annotations

import math
import warnings
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from aliquot.cli import common, render
from aliquot.cli.render import latex, markdown
from aliquot.core.evalset import EvalSet
from aliquot.core.judgments import Judgments
from aliquot.core.selection import Selection
from aliquot.errors import LeftOutWarning, OptionError
from aliquot.estimation.estimate import Estimates, estimate
from aliquot.estimation.inputs import Mismatch
from aliquot.estimation.notes import UNKNOWN_CHANCES
from aliquot.estimation.sequential import Replay
from aliquot.estimation.sequential import sequential as replay_in_time
from aliquot.io.formats import tables
from aliquot.io.writing import format_name, write_bytes

_HOW = "How to estimate"
PICTURES = ("systems", "pairs")
"""What --plot can draw."""


def run(
    data: common.DataArgument,
    selection: Annotated[
        Path | None, typer.Option("--selection", "-s", metavar="FILE", help="What `aliquot select` wrote.")
    ] = None,
    judgments: Annotated[
        list[Path] | None, common.judgments_option(help="People's answers: item, system, value, ...; may be repeated.")
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            "--method",
            "-m",
            metavar="SPEC",
            help="mean, stratified, cv, greg, multilevel, informed, paper_best or auto.",
        ),
    ] = "auto",
    metrics: Annotated[
        str | None, typer.Option("--metrics", metavar="A,B", help="The metrics that may help.", rich_help_panel=_HOW)
    ] = None,
    interval: Annotated[
        str, typer.Option("--interval", help="t, bootstrap, hoeffding, bernstein or sequence.", rich_help_panel=_HOW)
    ] = "t",
    level: Annotated[float, typer.Option("--level", help="Coverage of the intervals.", rich_help_panel=_HOW)] = 0.95,
    value_range: Annotated[
        str | None, typer.Option("--range", metavar="LOW,HIGH", help="Ends of the scale.", rich_help_panel=_HOW)
    ] = None,
    test: Annotated[
        str, typer.Option("--test", help="estimator, permutation, analytic or wilcoxon.", rich_help_panel=_HOW)
    ] = "estimator",
    rule: Annotated[
        str, typer.Option("--rule", help="Clusters: any, neighbour or published.", rich_help_panel=_HOW)
    ] = "any",
    alpha: Annotated[float, typer.Option("--alpha", help="Significance of clusters.", rich_help_panel=_HOW)] = 0.05,
    adjust: Annotated[
        str | None,
        typer.Option("--adjust", help="For many pairs: bh (default), holm, maxt or none.", rich_help_panel=_HOW),
    ] = None,
    holm: Annotated[bool, typer.Option("--holm", help="The same as --adjust holm.", rich_help_panel=_HOW)] = False,
    pairs: Annotated[bool, typer.Option("--pairs", help="Show (or write with -o) all pairs, too.")] = False,
    target: Annotated[
        str,
        typer.Option("--target", help="What the numbers are about: testset, given or beyond.", rich_help_panel=_HOW),
    ] = "testset",
    past: Annotated[
        list[Path] | None,
        typer.Option("--past", metavar="FILE", help="An earlier campaign; repeat for more.", rich_help_panel=_HOW),
    ] = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="Refuse what does not fit: judgments, a selection from other data, missing cells."
        ),
    ] = False,
    sequential: Annotated[
        bool, typer.Option("--sequential", help="Replay the judgments in time order: when could one have stopped?")
    ] = False,
    question: Annotated[str, typer.Option("--question", help="Sequential: best, ranking or means.")] = "best",
    margin: Annotated[float | None, typer.Option("--margin", help="Sequential, means: wanted half width.")] = None,
    plot: common.PlotOption = None,
    picture: Annotated[
        str, typer.Option("--picture", metavar="NAME", help="What --plot draws: systems (intervals) or pairs (matrix).")
    ] = PICTURES[0],
    human: common.HumanOption = None,
    criterion: common.CriterionOption = None,
    systems: common.SystemsOption = None,
    exclude: common.ExcludeOption = None,
    format: common.FormatOption = None,  # noqa: A002
    lower_is_better: common.LowerOption = None,
    columns: common.ColumnsOption = None,
    key: common.KeyOption = None,
    wide: common.WideOption = None,
    pair: common.PairOption = None,
    seed: common.SeedOption = 0,
    json: common.JsonOption = False,
    all_rows: common.AllRowsOption = False,  # noqa: ARG001
    output: common.OutputOption = None,
) -> None:
    """How good is each system, who is really better, how sure are we?

    Reads data with human scores on some items, or data, a selection and a table of judgments; prints each system's mean
    over the whole test set with its interval, clusters of systems that cannot be told apart, and ranks.

    Example: aliquot estimate data.jsonl --selection selection.jsonl --judgments judgments.csv
    """
    common.require_writable(output)
    common.require_picture(plot, picture, PICTURES)
    if plot is not None and sequential:
        raise OptionError("--sequential has no picture; leave --plot out")
    evalset, answers = common.load_with_judgments(
        data,
        judgments,
        human=human,
        systems=systems,
        exclude=exclude,
        format=format,
        lower_is_better=lower_is_better,
        columns=columns,
        key=key,
        wide=wide,
        pair=pair,
    )
    chosen = Selection.load(selection) if selection is not None else None
    scale = common.value_range(value_range)
    if sequential:
        _sequential(
            evalset,
            chosen,
            answers,
            human,
            scale,
            question,
            margin,
            alpha,
            seed,
            target,
            criterion=criterion,
            strict=strict,
            json=json,
            output=output,
        )
        return
    with render.busy("estimating"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", UNKNOWN_CHANCES)  # it stands among the notes of the result
        warnings.simplefilter("ignore", LeftOutWarning)  # the table of what does not fit shows it
        result = estimate(
            evalset,
            method,
            selection=chosen,
            judgments=answers,
            human=human,
            criterion=criterion,
            interval=interval,
            level=level,
            value_range=scale,
            test=test,
            rule=rule,
            alpha=alpha,
            adjust=common.adjustment(adjust, holm=holm),
            strict=strict,
            target=target,
            past=past or (),
            seed=seed,
            metrics=common.names(metrics) or None,
        )
    if output is not None:
        write(result, output, pairs=pairs)
    common.draw(plot, lambda: _figure(result, picture))
    if json:
        common.print_json(result.to_dict())
        return
    show(result, render.console(), pairs=pairs)
    for path in (output, plot):
        if path is not None:
            render.console().print(f"wrote {path}", markup=False)


def _figure(result: Estimates, picture: str) -> Any:
    from aliquot.report.figures.systems import forest_figure, pairs_figure  # noqa: PLC0415  (matplotlib is an extra)

    return pairs_figure(result) if picture == "pairs" else forest_figure(result)


# -- showing -------------------------------------------------------------------------------------------------------


def show(result: Estimates, console: Console, *, pairs: bool = False) -> None:
    """Print the verdict, then the table of systems, clusters apart, with interval bars."""
    render.verdict(result.verdict, console)
    mismatches: tuple[Mismatch, ...] = result.details.get("mismatches", ())
    if mismatches:
        console.print(_mismatch_table(mismatches))
        console.print()
    share = render.percent(result.judged / result.population)
    console.print(
        f"{result.judged} of {result.population} items judged ({share}); {result.method}; "
        f"{result.level:.0%} intervals by {result.interval}",
        markup=False,
    )
    console.print(f"{_about(result)}\n", markup=False)
    console.print(_system_table(result))
    if pairs:
        console.print()
        console.print(_pair_table(result))
    console.print()
    for note in result.notes:
        console.print(f"note: {note}", markup=False)
    render.signature(result.signature, console)


_TARGETS = {
    "testset": "this test set, judged by other annotators of the same kind",
    "given": "the mean of these judgments over this test set",
    "beyond": "items of this kind, judged by annotators of this kind",
}


_BY_FEW = {"testset": "this test set, judged by {people}", "beyond": "items of this kind, judged by {people}"}


def _about(result: Estimates) -> str:
    """What the numbers are about, and where the uncertainty of a mean comes from."""
    parts = [f"{render.percent(share)} {name}" for name, share in result.variance.items() if share > 0]
    sources = f"; variance of a mean: {', '.join(parts)}" if len(parts) > 1 else ""
    target = _TARGETS.get(result.target, result.target)
    if result.annotators in (1, 2):
        people = "this annotator" if result.annotators == 1 else "these two annotators"
        target = _BY_FEW.get(result.target, target).format(people=people)
    return f"about {target}{sources}"


def _system_table(result: Estimates) -> Table:
    table = render.table()
    table.box, table.show_edge, table.padding = box.HORIZONTALS, False, (0, 0, 0, 0)  # rules between clusters
    table.add_column("system", overflow="fold", min_width=12)
    for name in ("estimate", "se", "interval"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    lacking, changed = any(row.missing for row in result.systems), bool(result.changes)
    optional = (["plain"] if changed else [], ["missing"] if lacking else [])
    for name in (*optional[0], "n", *optional[1], "worth", "rank", "P(best)", "cluster"):
        table.add_column(name, justify="right", no_wrap=True)
    known = [row for row in result.systems if row.low == row.low]
    scale = (min(row.low for row in known), max(row.high for row in known)) if known else (0.0, 1.0)
    places = _places(scale)
    written = partial(render.fixed, places=places) if _plain(scale) else render.scientific
    for at, row in enumerate(result.systems):
        last = at + 1 < len(result.systems) and result.systems[at + 1].cluster != row.cluster
        ranks = str(row.rank_low) if row.rank_low == row.rank_high else f"{row.rank_low}-{row.rank_high}"
        table.add_row(
            row.system,
            written(row.estimate),
            written(row.se),
            f"{written(row.low)} to {written(row.high)}",
            render.bar(
                row.low, row.estimate, row.high, scale, width=14 - 7 * (lacking or changed) - 4 * (lacking and changed)
            ),
            *([written(row.plain_mean)] if changed else []),
            str(row.n),
            *([str(row.missing)] if lacking else []),
            "-" if row.effective_n != row.effective_n else f"{row.effective_n:.0f}",
            "not judged" if not row.n else "-" if row.rank_low is None else ranks,
            render.fixed(row.p_best, 2),
            "-" if row.cluster is None else str(row.cluster),
            end_section=last,
        )
    return table


def _plain(scale: tuple[float, float]) -> bool:
    """Whether four decimals show the numbers, and a line holds them."""
    return max(map(abs, scale)) < 1e9 and (scale[1] - scale[0] >= 1e-3 or scale[1] == scale[0])


def _places(scale: tuple[float, float]) -> int:
    """Enough decimals to tell apart a hundredth of the range shown."""
    width = scale[1] - scale[0]
    return 2 if width >= 2 else 3 if width >= 0.2 else 4


_ADJUSTED = {
    "bh": "adjusted: at most 5% of the differences named are expected to be wrong",
    "holm": "adjusted by Holm: no wrong difference in 95% of cases",
    "maxt": "adjusted by max-t: no wrong difference in 95% of cases",
    "none": "not adjusted for the number of pairs",
}


def _pair_table(result: Estimates) -> Table:
    table = render.table(
        f"pairs (p two-sided; {_ADJUSTED[result.adjust]}; p full: one-sided, predicted for the full set)"
        if result.rule != "published"
        else "pairs (published convention: one-sided p of each pair alone, and predicted for the full set)"
    )
    published = result.rule == "published"
    columns = ["p sample"] if published else ["p", "adjusted"]
    render.columns(table, left=["better", "worse"], right=["difference", "interval", *columns, "p full"])
    table.priority = [row.p for row in result.pairs]  # the close pairs are the ones to look at
    for row in result.pairs:
        interval = f"{render.number(row.low)} to {render.number(row.high)}"
        values = [row.p_sample] if published else [row.p, row.p_adjusted]
        table.add_row(
            row.a, row.b, render.number(row.difference), interval, *map(render.fixed, values), render.fixed(row.p_full)
        )
    return table


def _mismatch_table(mismatches: tuple[Mismatch, ...]) -> Table:
    table = render.columns(render.table("what does not fit"), left=["what", "example", "done"], right=["count"])
    for row in mismatches:
        table.add_row(row.what, row.example, row.action, str(row.count))
    return table


# -- writing -------------------------------------------------------------------------------------------------------


def write(result: Estimates, path: Path, *, pairs: bool = False) -> None:
    """Write systems (or pairs) by the path's ending: .csv, .tsv, .parquet, .json, .md or .tex; "-" is JSON."""
    frame = result.pairs_frame() if pairs else result.to_frame()
    name = format_name(path, ".json")
    if name.endswith(".json"):
        write_bytes(path, common.to_json(common.with_notes(result.to_dict())) + b"\n")
    elif name.endswith(".md"):
        write_bytes(path, markdown(frame).encode())
    elif name.endswith(".tex"):
        write_bytes(path, latex(frame).encode())
    elif name.removesuffix(".gz").endswith((".csv", ".tsv", ".parquet")):
        tables.write(frame, path)
    else:
        raise OptionError(f"{path}: unknown ending for estimates; use .csv, .tsv, .parquet, .json, .md or .tex")


# -- in time order -------------------------------------------------------------------------------------------------


def _sequential(
    evalset: EvalSet,
    selection: Selection | None,
    answers: Judgments | None,
    human: str | None,
    scale: tuple[float, float] | None,
    question: str,
    margin: float | None,
    alpha: float,
    seed: int,
    target: str,
    *,
    criterion: str | None,
    strict: bool,
    json: bool,
    output: Path | None,
) -> None:
    if scale is None:
        raise OptionError("--sequential needs the scale's ends: give --range LOW,HIGH, e.g. 0,100")
    outcome = replay_in_time(
        evalset,
        value_range=scale,
        selection=selection,
        judgments=answers,
        human=human,
        criterion=criterion,
        question=question,  # type: ignore[arg-type]
        margin=margin,
        alpha=alpha,
        strict=strict,
        seed=seed,
        target=target,
    )
    if output is not None:
        if not format_name(output, ".json").endswith(".json"):
            raise OptionError(f"{output}: a replay is written as .json")
        write_bytes(output, common.to_json(outcome.to_dict()) + b"\n")
    if json:
        common.print_json(outcome.to_dict())
    else:
        _show_replay(outcome, render.console())


def _show_replay(outcome: Replay, console: Console) -> None:
    picture = outcome.final
    render.verdict(outcome.verdict, console)
    table = render.columns(render.table("pairs"), left=["better", "worse"], right=["difference", "interval", "state"])
    for pair in picture.pairs:
        state = "decided" if pair.decided else f"about {pair.more_items} more" if pair.more_items else "open"
        known = math.isfinite(pair.low)
        interval = f"{render.number(pair.low)} to {render.number(pair.high)}" if known else "-"
        table.add_row(pair.a, pair.b, render.number(pair.difference), interval, state)
    console.print(table)
    if picture.question == "best" and picture.decided:
        console.print("decided: the worse one is not the best; --question ranking guarantees every order", markup=False)
    for note in outcome.notes:
        console.print(f"note: {note}", markup=False)
