"""The page docs/evidence-adaptive.md from the runs of study_adaptive.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from study_page import table

PUBLISHED = ("1/rank, means", "1/rank², means", "successive rejects, means")
METHODS = ("uniform, means", *PUBLISHED, "uniform, ours", "auto")

INTRO = """# Evidence: adaptive campaigns

Made by `make study-adaptive` (benchmarks/study_adaptive.py) on {sets} of the {all} campaigns of [evidence](evidence.md), {runs} runs
each{part}. Do not edit by hand. Budgets are 5%, 10%, ..., 50% of all cells (a cell is an item of a system). The published
samplers (arXiv 2608.03437; Audibert and Bubeck 2010) are written anew from their definitions: items in plain random order, plain means, one cell
at a time; successive rejects is run anew for each budget. `uniform, ours` judges the same items for all systems, in our order and with our
estimator; `auto` is the default of [adaptive campaigns](adaptive.md), in batches of 1% of all cells. Averages over budgets; in brackets the standard
error over runs.

"""
DESIGN_NOTE = """
What was looked at on these campaigns, so that these figures are partly in-sample: share of equal probability 0.1, five items first, tau 0.5 of the item
order (five campaigns, eight variants, another program). Later, ten runs each and nothing of it kept, because no difference was beyond chance: means by `multilevel`
or by the policy's own model in the place of `greg` (all campaigns); each system's own variance and effects of items proportional to it (nine campaigns);
the average gain over all items left in the place of the next item's (three); weights of `best` mixed in (three); half of the cells by 1/rank² (three). For stopping, two
runs each: alpha over all pairs or M - 1, four lengths at which sequences are narrowest, first look at 20 or 30 items; M - 1 was kept, the others as they were.
"""


def page(found: Sequence[dict[str, Any]], null: Mapping[str, list[Any]], campaigns: int, size: tuple[int, int]) -> str:
    """The whole page."""
    runs = [len(one["runs"]["auto"]) for one in found]
    part = "" if min(runs) == max(runs) else f" (some campaigns up to {max(runs)})"
    parts = [INTRO.format(sets=len(found), all=campaigns, runs=min(runs), part=part)]
    for title, measure in (
        ("Weighted tau (weight 1/rank²)", "weighted_tau"),
        ("Share of runs that name the best system", "top1"),
        ("Error of the means", "mae"),
        ("Coverage of 95% intervals", "covered"),
        ("Coverage of systems with at least 20 judged items", "covered_many"),
    ):
        parts += [f"## {title}\n\n", _table(found, measure), "\n"]
    parts += [verdict(found), DESIGN_NOTE, "\n## Stopping\n\n", _stopping(found), "\n## Equal systems\n\n"]
    return "".join([*parts, _null(found, null, size)])


def _of_run(run: Mapping[str, list[float]], measure: str) -> float:
    if measure.startswith("covered"):
        inside, known = run[measure]
        return inside / known if known else float("nan")
    return float(np.mean(run[measure]))


def _mean(one: Mapping[str, Any], method: str, measure: str) -> tuple[float, float]:
    """Mean over runs and its standard error; coverage is of all intervals together."""
    runs = one["runs"].get(method, [])
    values = np.array([_of_run(run, measure) for run in runs])
    values = values[np.isfinite(values)]
    error = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")
    if measure.startswith("covered"):
        inside, known = np.sum([run[measure] for run in runs], axis=0) if runs else (0.0, 0.0)
        return (inside / known if known else float("nan")), error
    return (float(values.mean()) if len(values) else float("nan")), error


def _table(found: Sequence[dict[str, Any]], measure: str) -> str:
    rows = [[one["label"], *("{:.3f} ({:.3f})".format(*_mean(one, m, measure)) for m in METHODS)] for one in found]
    means = [np.nanmean([np.nan, *(_mean(one, m, measure)[0] for one in found)]) for m in METHODS]
    return table(["campaign", *METHODS], [*rows, ["**mean**", *(f"**{value:.3f}**" for value in means)]])


def verdict(found: Sequence[dict[str, Any]]) -> str:
    """The numbers that were promised, in words."""
    found = [one for one in found if set(METHODS) <= one["runs"].keys()]
    if not found:
        return ""
    lost = {m: np.array([1 - _mean(one, m, "weighted_tau")[0] for one in found]) for m in METHODS}
    best = min(PUBLISHED, key=lambda m: float(lost[m].mean()))
    top = {m: np.mean([_mean(one, m, "top1")[0] for one in found]) for m in METHODS}
    named = max(PUBLISHED, key=lambda m: float(top[m]))
    ratios = lost["auto"] / lost["uniform, ours"]
    worst = int(np.argmax(ratios))
    bounds = {}
    for measure in ("covered", "covered_many"):
        values = [_mean(one, "auto", measure)[0] for one in found]
        bounds[measure] = f"{np.nanmin(values):.3f} to {np.nanmax(values):.3f}, on average {np.nanmean(values):.3f}"
    return (
        f"\n1 - weighted tau of `auto`: {lost['auto'].mean() / lost[best].mean():.2f} of the best published sampler's on average ({best}), "
        f"{lost['auto'].mean() / lost['uniform, ours'].mean():.2f} of uniform allocation with our estimator, at most {ratios[worst]:.2f} on a "
        f"campaign ({found[worst]['label']}). It names the best system in {top['auto']:.1%} of looks; the best published sampler ({named}) in "
        f"{top[named]:.1%}. Coverage of `auto` by campaign: all systems {bounds['covered']}; systems with 20 items or more "
        f"{bounds['covered_many']}.\n"
    )


def _stopping(found: Sequence[dict[str, Any]]) -> str:
    rows, ratios, wrong = [], [], []
    for one in found:
        uniform, auto = (
            {key: float(np.mean([run[key] for run in one["stops"][policy]])) for key in ("decided", "cells", "wrong")}
            if one["stops"][policy]
            else {"decided": np.nan, "cells": np.nan, "wrong": np.nan}
            for policy in ("uniform", "auto")
        )
        ratio = auto["cells"] / uniform["cells"]
        ratios += [ratio] if uniform["decided"] > 0 and np.isfinite(ratio) else []
        wrong += [run["wrong"] for policy in ("uniform", "auto") for run in one["stops"][policy]]
        rows.append(
            [
                one["label"],
                str(len(one["stops"]["auto"])),
                f"{uniform['decided']:.0%}",
                f"{auto['decided']:.0%}",
                f"{uniform['cells']:.0%}",
                f"{auto['cells']:.0%}",
                f"{ratio:.2f}",
            ]
        )
    rows = [["-" if "nan" in cell else cell for cell in row] for row in rows]
    head = ["campaign", "runs", "uniform decides", "auto decides", "uniform: cells", "auto: cells", "ratio"]
    return (
        "The question `best`, looked at every 2% of cells with anytime-valid sequences at alpha = 0.05, until it is decided; cells as a share of "
        "all. The target is `given`: the truth of a replay are the scores themselves, and nothing is known of other annotators. "
        "Both have the same guarantee: each of the M - 1 pairs of the best system has alpha / (M - 1), and a system is out when any other has "
        "beaten it.\n\n"
        + table(head, rows)
        + f"\nMean ratio where uniform allocation decides: {np.mean(ratios):.2f}. Wrong answers: {int(sum(wrong))} of {len(wrong)} runs.\n"
    )


def _null(found: Sequence[dict[str, Any]], null: Mapping[str, list[Any]], size: tuple[int, int]) -> str:
    def told(runs: list[Any]) -> str:
        count = int(sum(run["wrong"] for run in runs))
        return f"{count} of {len(runs)} ({count / max(len(runs), 1):.1%})"

    def of(runs: Sequence[Any], question: str) -> list[Any]:
        return [{"wrong": run[question]} for run in runs]

    every, real = null.get("length", []), [run for one in found for run in one["null"]]
    lengths = [run for one in found for run in one["lengths"]]
    most = max((np.mean([run["ranking"] for run in one["lengths"]]) for one in found if one["lengths"]), default=0.0)
    return (
        "Each item's scores are shuffled over the systems and centred, so that all systems are equal and any decision is wrong; alpha = 0.05.\n\n"
        + table(
            ["data", "question", "runs with a wrong decision"],
            [
                [
                    f"synthetic, {size[0]} items x {size[1]} systems, all cells, 20 looks",
                    "ranking: any pair decided",
                    told(null["ranking"]),
                ],
                ["the same", "best: a best system named", told(null["best"])],
                [
                    "the same, no policy: after every item from the 30th on",
                    "ranking: any pair decided",
                    told(of(every, "ranking")),
                ],
                ["the same", "best: a best system named", told(of(every, "best"))],
                ["the campaigns, half of the cells, 10 looks", "ranking: any pair decided", told(real)],
                [
                    "the campaigns, no policy: after every third item from the 30th on",
                    "ranking: any pair decided",
                    f"{told(of(lengths, 'ranking'))}, at most {most:.0%} on a campaign",
                ],
                ["the same", "best: a best system named", told(of(lengths, "best"))],
            ],
        )
    )
