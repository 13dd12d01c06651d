"""`aliquot estimate`: how good is each system, who is really better, how sure are we?"""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from aliquot.cli import common, options, render
from aliquot.core.evalset import EvalSet
from aliquot.core.registry import split_known_names
from aliquot.core.selection import Selection
from aliquot.errors import LeftOutWarning, OptionError
from aliquot.estimation.estimate import estimate
from aliquot.estimation.estimate_result import Estimates
from aliquot.estimation.intervals import INTERVAL_KINDS
from aliquot.estimation.notes import UNKNOWN_CHANCES
from aliquot.estimation.picture import Question
from aliquot.estimation.ranking import RULES, TESTS
from aliquot.estimation.sequential import SEQUENCE_TARGETS
from aliquot.estimation.sequential import sequential as replay_in_time
from aliquot.estimation.targets import TARGETS
from aliquot.io.writing import resolve_ending
from aliquot.stats.multiple_testing import PAIR_ADJUSTMENTS
from aliquot.validation import one_of

_how = partial(typer.Option, rich_help_panel="How to estimate")
PICTURES = ("systems", "pairs")
"""What --plot can draw."""


def run(
    data: options.DataArgument,
    reading: options.Reading,
    output: options.ResultOutput,
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
    metrics: Annotated[str | None, _how("--metrics", metavar="A,B", help="Metrics to use; by default all.")] = None,
    interval: Annotated[str, _how("--interval", help="t, bootstrap, hoeffding, bernstein or sequence.")] = "t",
    level: Annotated[float, _how("--level", help="Coverage of the intervals.")] = 0.95,
    value_range: Annotated[str | None, _how("--range", metavar="LOW,HIGH", help="Ends of the scale.")] = None,
    test: Annotated[str, _how("--test", help="estimator, permutation, analytic or wilcoxon.")] = "estimator",
    rule: Annotated[str, _how("--rule", help="Clusters: any, neighbour or published.")] = "any",
    alpha: Annotated[float, _how("--alpha", help="Significance of clusters.")] = 0.05,
    adjust: Annotated[
        str | None,
        _how("--adjust", help="Adjustment for many pairs: bh (default), holm, maxt or none."),
    ] = None,
    holm: Annotated[bool, _how("--holm", help="The same as --adjust holm.")] = False,
    pairs: Annotated[bool, typer.Option("--pairs", help="Show (or write with -o) all pairs, too.")] = False,
    target: Annotated[
        str,
        _how("--target", help="What the numbers are about: testset, given or beyond."),
    ] = "testset",
    draws: Annotated[
        str, _how("--draws", metavar="HOW", help="Score of a prompt: mean, pass@K, pass^K or majority of its draws.")
    ] = "mean",
    past: Annotated[
        list[Path] | None,
        _how("--past", metavar="FILE", help="An earlier campaign; repeat for more."),
    ] = None,
    strict: Annotated[
        bool,
        _how("--strict", help="Refuse what does not fit: judgments, a selection from other data, missing cells."),
    ] = False,
    sequential: Annotated[
        bool,
        options.rare_option("--sequential", help="Replay the judgments in time order: when could one have stopped?"),
    ] = False,
    question: Annotated[str, _how("--question", help="What --sequential decides: best, ranking or means.")] = "best",
    margin: Annotated[float | None, _how("--margin", help="Target half width (--question means).")] = None,
    plot: options.PlotOption = None,
    picture: Annotated[
        str, _how("--picture", metavar="NAME", help="What --plot draws: systems (intervals) or pairs (matrix).")
    ] = PICTURES[0],
    criterion: options.CriterionOption = None,
    seed: options.SeedOption = 0,
) -> None:
    """How good is each system, who is really better, how sure are we?

    Reads data with human scores on some items, or data, a selection and a table of judgments; prints each system's mean
    over the whole test set with its interval, clusters of systems that cannot be told apart, and ranks.

    Example: aliquot estimate data.jsonl --selection selection.jsonl --judgments judgments.csv
    """
    common.require_output(output)
    common.require_picture(plot, picture, PICTURES)
    if plot is not None and sequential:
        raise OptionError("--sequential has no picture; leave --plot out")
    evalset, answers = common.load_with_judgments(data, judgments, reading)
    chosen = Selection.load(selection) if selection is not None else None
    scale, adjustment = common.parse_range(value_range), common.parse_adjustment(adjust, holm=holm) or None
    shared: dict[str, Any] = {
        "selection": chosen,
        "judgments": answers,
        "human": reading.human,
        "criterion": criterion,
        "value_range": scale,
        "alpha": alpha,
        "strict": strict,
        "seed": seed,
    }
    if sequential:
        decision = one_of("question", question, get_args(Question))
        _run_sequential(evalset, output, **shared, question=decision, margin=margin, target=target)
        return
    with render.show_activity("estimating"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", UNKNOWN_CHANCES)  # it stands among the notes of the result
        warnings.simplefilter("ignore", LeftOutWarning)  # the table of what does not fit shows it
        result = estimate(
            evalset,
            method,
            interval=one_of("interval", interval, INTERVAL_KINDS),
            level=level,
            test=one_of("test", test, TESTS),
            rule=one_of("rule", rule, RULES),
            adjust=adjustment and one_of("adjust", adjustment, PAIR_ADJUSTMENTS),
            target=one_of("target", target, TARGETS),
            draws=draws,
            past=past or (),
            metrics=split_known_names(metrics or "", evalset.scores) or None,
            **shared,
        )
    common.write_figure(plot, lambda: _make_figure(result, picture))
    details = ["pairs"] if pairs else []
    common.write_and_print(result, output, "pairs" if pairs else None, details=details, files=[plot])


def _make_figure(result: Estimates, picture: str) -> Any:
    from aliquot.report.figures.systems import forest_figure, pairs_figure

    return pairs_figure(result) if picture == "pairs" else forest_figure(result)


def _run_sequential(evalset: EvalSet, output: options.ResultOutput, *, target: str, **arguments: Any) -> None:
    if arguments["value_range"] is None:
        raise OptionError("--sequential needs the scale's ends: give --range LOW,HIGH, e.g. 0,100")
    outcome = replay_in_time(evalset, target=one_of("target", target, SEQUENCE_TARGETS), **arguments)
    if output.file is not None or output.to is not None:
        if output.to is None and not resolve_ending(str(output.file), ".json").endswith(".json"):
            raise OptionError(f"{output.file}: a replay is written as .json")
        outcome.save(output.file, to=output.to)
    common.print_outcome(outcome, output, [])
