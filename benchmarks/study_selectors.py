"""`make study-selectors`: every selection method on every real campaign; writes docs/evidence-selectors.md.

Resumable: what is finished is kept in build/study, campaign by campaign and, inside one, replay by replay. Delete that
folder to begin anew; results of another version or other options are not used.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import campaigns
import harness
import numpy as np
from campaigns import CAMPAIGNS, Campaign
from study_page import table

import aliquot
from aliquot.core.evalset import EvalSet
from aliquot.errors import AliquotError, OutputError
from aliquot.io.journal import journal_path
from aliquot.io.writing import write_bytes
from aliquot.simulation.setup import resolve_method, validate_method

ROOT = Path(__file__).parent.parent
KEPT = ROOT / "build" / "study"
METHODS = (
    "metric_avg",
    "metric_var",
    "metric_cons",
    "metric_cons:rank=spearman",
    "metric_cons:rank=accuracy",
    "mixture",
    "irt_diffdisc",
    "irt_diff",
    "irt_disc",
    "irt_feas",
    "irt_info",
    "diversity",
    "diversity:similarity=bleu",
    "diversity:similarity=chrf",
    "diversity:similarity=embedding,model=ngrams",
    "source_length",
    "bruteforce",
    "greedy",
    "kmeans:model=ngrams",
    "kmeans:features=outputs,model=ngrams",
    "diffuse:model=ngrams",
    "segments",
    "documents",
    "snippets_fixed",
    "snippets_budgeted",
    "stratified",
    "pps",
    "balanced",
    "guided",
    "casf",
    "incremental",
)
MEASURES = ("spa", "mae")
BUDGETS = "5%:50%:10"

INTRO = """# Evidence: every selection method

Made by `make study-selectors` (benchmarks/study_selectors.py) on {sets} of the {all} campaigns of
[evidence](evidence.md). Every method of `aliquot methods` with its defaults, the campaign's metric where it takes one,
and the plain (for designs: weighted) mean as estimator: what the choice of items alone gives. Budgets 5%, 10%, ...,
50%; {repeats} replays of designs, {few} of methods that search for a subset, one of fixed orders. Do not edit by hand.

`segments` is a random sample under another name: it shows the Monte Carlo error. `kmeans`, `diffuse` and the embeddings
of `diversity` use light n-gram vectors (`model=ngrams`), not the paper's encoder. Not here: `source`, which must be
learned from other campaigns ([sources](evidence-sources.md)); `uncertainty`, because no campaign has a metric's own
uncertainty; `pretrained`, which needs weights to download. "-": the set lacks what the method needs. "inf": some
accuracy of random samples is never reached.

"""
PARITY = """\
`irt_disc` and `irt_feas` are worse than random with the signs of the paper, as they are there: appendix A gives
accuracies of 88.7% and 84.7%, random samples have 91.6%. Feasible items are those that all systems do well (rank
correlation 0.92 with the mean metric on wmt23 he-en) and on which people see few differences (-0.50 with the spread
of human scores; discrimination -0.35, difficulty +0.43). The code of subset2evaluate takes minus the discrimination
and minus the difficulty, of fits whose sign is not fixed.

## Ranking: parity of SPA

Share of a random sample's budget that gives the same soft pairwise accuracy by the sample's own p-values; below 1 is
better than random.

"""
ERROR = """
## Means: error of the systems' means

Mean absolute error relative to a random sample of the same size.

"""
DEFAULTS = """
## Where our defaults are not the paper's

"""


@dataclass(frozen=True)
class Found:
    """What a campaign's replays gave: parity of SPA and error ratio by method."""

    label: str
    parity: dict[str, float]
    error: dict[str, float]


def fitting(data: EvalSet, metric: str | None) -> list[str]:
    """The methods that the set has what they need for."""
    found = []
    for method in METHODS:
        try:
            validate_method(resolve_method(method, data, metric), data)
            if metric is None:
                aliquot.select(data, method, budget=10)  # some only see when they draw that there is no metric
        except AliquotError:
            continue
        if method in ("bruteforce", "greedy") and metric and not np.isfinite(data.scores[metric]).all():
            continue  # they choose among items with the metric for all systems, and a curve goes up to all items
        if method.startswith("kmeans:model") and not data.has_sources:
            continue
        if data.documents is None and method == "stratified":
            continue
        found.append(method)
    return found


def _file_and_key(campaign: Campaign, repeats: int) -> tuple[Path, str]:
    file = KEPT / f"selectors-{campaign.label.replace(' ', '-')}-{repeats}.json"
    return file, f"{aliquot.__version__}|{','.join(METHODS)}|{repeats}"


def finished(campaign: Campaign, repeats: int) -> Found | None:
    """What an earlier run of this version and these options found."""
    file, key = _file_and_key(campaign, repeats)
    if not file.exists() or (known := json.loads(file.read_text()))["key"] != key:
        return None
    return Found(campaign.label, known["parity"], known["error"])


def replayed(campaign: Campaign, repeats: int, jobs: int) -> Found:
    """Replay a campaign, or read what an earlier run found."""
    KEPT.mkdir(parents=True, exist_ok=True)
    if (known := finished(campaign, repeats)) is not None:
        return known
    file, key = _file_and_key(campaign, repeats)
    data = campaigns.population(campaign)
    methods = fitting(data, campaign.metric)
    options: dict[str, Any] = {"repeats": repeats, "measures": MEASURES, "metric": campaign.metric, "jobs": jobs}
    try:
        result = aliquot.simulate(data, methods, BUDGETS, journal=file, **options)
    except OutputError:  # the unfinished work of another version or other methods
        journal_path(file).unlink(missing_ok=True)
        result = aliquot.simulate(data, methods, BUDGETS, journal=file, **options)
    found = Found(
        campaign.label,
        {method: result.row(method, "spa").parity for method in methods},
        {method: result.row(method, "mae").ratio_to_random for method in methods},
    )
    write_bytes(file, json.dumps({"key": key, "parity": found.parity, "error": found.error}).encode())
    journal_path(file).unlink(missing_ok=True)
    return found


def page(found: Sequence[Found], repeats: int) -> str:
    few = max(2, repeats // 10)
    return (
        INTRO.format(repeats=repeats, few=few, sets=len(found), all=len(CAMPAIGNS))
        + PARITY
        + _table(found, "parity")
        + ERROR
        + _table(found, "error")
        + DEFAULTS
        + _defaults(found)
    )


def _table(found: Sequence[Found], field: str) -> str:
    learned = {campaign.label for campaign in CAMPAIGNS if campaign.learned}
    head = ["method", *(one.label for one in found), "mean, learned metrics", "mean, all"]
    rows = []
    for method in METHODS:
        values = {one.label: getattr(one, field).get(method, float("nan")) for one in found}
        means = [_mean([v for label, v in values.items() if label in learned]), _mean(list(values.values()))]
        rows.append([f"`{method}`", *(_cell(v) for v in values.values()), *(f"**{_cell(v)}**" for v in means)])
    return table(head, rows)


def _defaults(found: Sequence[Found]) -> str:
    """Mean parities of our defaults and of what the paper uses, on the sets that have both."""
    rows = []
    for ours, papers in (
        ("metric_cons", "metric_cons:rank=spearman"),
        ("diversity", "diversity:similarity=embedding,model=ngrams"),
    ):
        both = [one for one in found if ours in one.parity and papers in one.parity]
        better = sum(one.parity[ours] < one.parity[papers] for one in both)
        rows.append(
            [
                f"`{ours}`",
                f"`{papers}`",
                *(_cell(_mean([o.parity[m] for o in both])) for m in (ours, papers)),
                f"{better} of {len(both)}",
            ]
        )
    return table(
        ["our default", "the paper's", "parity of ours", "parity of theirs", "sets on which ours is better"], rows
    )


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if not np.isnan(value)]
    return float(np.mean(known)) if known else float("nan")


def _cell(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.2f}"


def main(arguments: Sequence[str] | None = None) -> None:
    options = harness.study_options(__doc__, arguments)
    warnings.simplefilter("ignore")
    start = time.perf_counter()
    found = []
    for campaign in CAMPAIGNS:
        if options.only is None or options.only in campaign.label:
            found.append(replayed(campaign, options.repeats, options.jobs))
            print(f"{campaign.label}: {time.perf_counter() - start:.0f} s", flush=True)
    text = page(found, options.repeats)
    print(text)
    if options.only is None:
        (ROOT / "docs" / "evidence-selectors.md").write_text(text)


if __name__ == "__main__":
    main()
