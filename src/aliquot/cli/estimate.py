"""`aliquot estimate`: how good is each system, who is really better, how sure are we?"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from aliquot.cli import common, options, render
from aliquot.core.evalset import EvalSet
from aliquot.core.judgments import Judgments
from aliquot.core.selection import Selection
from aliquot.errors import LeftOutWarning, OptionError
from aliquot.estimation.estimate import Estimates, estimate
from aliquot.estimation.notes import UNKNOWN_CHANCES
from aliquot.estimation.sequential import sequential as replay_in_time
from aliquot.io.writing import resolve_ending

_HOW = "How to estimate"
PICTURES = ("systems", "pairs")
"""What --plot can draw."""


def run(
    data: options.DataArgument,
    selection: Annotated[
        Path | None, typer.Option("--selection", "-s", metavar="FILE", help="What `aliquot select` wrote.")
    ] = None,
    judgments: Annotated[
        list[Path] | None, options.judgments_option(help="People's answers: item, system, value, ...; may be repeated.")
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
    plot: options.PlotOption = None,
    picture: Annotated[
        str, typer.Option("--picture", metavar="NAME", help="What --plot draws: systems (intervals) or pairs (matrix).")
    ] = PICTURES[0],
    human: options.HumanOption = None,
    criterion: options.CriterionOption = None,
    systems: options.SystemsOption = None,
    exclude: options.ExcludeOption = None,
    format: options.FormatOption = None,  # noqa: A002
    lower_is_better: options.LowerOption = None,
    columns: options.ColumnsOption = None,
    key: options.KeyOption = None,
    wide: options.WideOption = None,
    pair: options.PairOption = None,
    seed: options.SeedOption = 0,
    json: options.JsonOption = False,
    all_rows: options.AllRowsOption = False,  # noqa: ARG001
    output: options.OutputOption = None,
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
        common.save_result(result, output, "pairs" if pairs else None)
    common.draw(plot, lambda: _figure(result, picture))
    if json:
        common.print_json(result.to_dict())
        return
    render.print_result(result, render.console(), ["pairs"] if pairs else ())
    for path in (output, plot):
        if path is not None:
            render.console().print(f"wrote {path}", markup=False)


def _figure(result: Estimates, picture: str) -> Any:
    from aliquot.report.figures.systems import forest_figure, pairs_figure  # noqa: PLC0415  (matplotlib is an extra)

    return pairs_figure(result) if picture == "pairs" else forest_figure(result)


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
        if not resolve_ending(output, ".json").endswith(".json"):
            raise OptionError(f"{output}: a replay is written as .json")
        outcome.save(output)
    if json:
        common.print_json(outcome.to_dict())
    else:
        render.print_result(outcome, render.console())
