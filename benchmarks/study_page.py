"""The page that `make study` writes: tables of what the replays found, and how to read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from campaigns import CAMPAIGNS, Campaign

from aliquot.sampling.methods import DEFAULT_DESIGN
from aliquot.simulation.result import Simulation
from aliquot.simulation.summary import MethodSummary

if TYPE_CHECKING:
    from study import Study

_DEFAULTS = {True: "pps:size=error,tau=0.1,slopes=0.25|0.3+greg", False: "pps:size=error,tau=0.1,slopes=0.1|0+greg"}
"""What `auto` draws by, for penalties and for ratings, as candidates are written."""
ENOUGH = 20  # judged items from which on coverage is promised
BY_LABEL = {campaign.label: campaign for campaign in CAMPAIGNS}
TEXTS = f"{DEFAULT_DESIGN}+greg:texts=yes"
PAPER = "stratified:bins=document,rounding=nearest+paper_best"
_SHORT = {
    PAPER: "paper_best",
    f"{DEFAULT_DESIGN}+mean": "auto's design + mean",
    TEXTS: "auto + texts",
    "pps:size=difficulty,tau=0.5+greg": "pps difficulty 0.5 + greg",
    "diversity:similarity=unigram": "diversity",
}

INTRO = """# Evidence

Made by `make study` (benchmarks/study.py), which replays the campaigns of `../shared/data` with `aliquot.simulate`: each
campaign is a finite population, the items that are judged for all machine systems. {repeats} replays of whatever is drawn
at random, one of what is not. Budgets 5%, 10%, ..., 50%. Do not edit by hand.

`auto` is the design `{design}` with the estimator `greg`: an unbiased design, the same for everybody. `auto:goal=ranking`
is the same design with `multilevel`, which gives up unbiased means. `wmt22 DA de-en` was not looked at while methods and
defaults were chosen. "-": the set lacks what the method needs. Monte Carlo errors are about 0.01 on error ratios and
0.01 to 0.04 on parities.

Here are the published selectors and our defaults; [every selection method](evidence-selectors.md) has a page of its own.

![SPA against the budget, a panel a campaign](evidence-ranking.svg)

![Error of means against the budget](evidence-means.svg)

"""

PARITY = """## Ranking: parity

Share of a random sample's budget that gives the same soft pairwise accuracy, averaged over the budgets: below 1 is better
than random. Published practice and selectors are judged by their sample's own p-values (`spa`); aliquot's methods by
full-set significance (`spa_full`), which is part of them; the second column shows what that alone gives a random sample.
"inf": some random accuracy is never reached.

"""

ERROR = """
## Means: error of the systems' means

Mean absolute error relative to the plain mean of a random sample of the same size. `paper_best` is the best published
estimator (Saldias et al. 2022; documents proportionally, k-nearest-neighbour control variate; they report reductions of
7 to 23% on longer documents). With short documents its deterministic rounding leaves documents out.

"""

REACH = """
## How much is left

How far `auto` is from what an unbiased design could reach with these metrics and texts (benchmarks/oracle.py): what the better of a ridge and of gradient
boosting leaves that has learned from four fifths of *all* human scores; the same when the other items of each document are known, too; and when items are
drawn with probability proportional to the true size of what is left. No campaign knows any of it beforehand. It is not a bound: a sample spread along the documents gains from what neighbours share, and
`goal=ranking` gives up unbiased means. A parity is about the square of the error.

"""

COVERED = """
## Coverage of 95% intervals, campaign by campaign

Share of systems inside their interval, for the budgets of 5% to 50% with at least 20 judged items: mean, lowest and highest. A single budget has a Monte
Carlo error of about 0.01 to 0.02.

"""

LEFT_OUT = """
## Leave one campaign out

What `size=error` may depend on (slopes on difficulty and log length, tau) is chosen here for each campaign on the *other*
campaigns of its scale (penalties or ratings) alone, from twelve candidates by their mean error, and judged on the one
left out; beside it what `auto` does in the same replays (5 budgets, half as many replays), whose slopes were chosen earlier
by looking at all of them but wmt22. Which scale people use is known before they judge. Ridge, features and the shrinkage have no constant that was tuned to a campaign's result here.

"""

DOCUMENTS = """
## Whole documents, and costs

As in the paper's Tables 2 and 3. Left: whole documents are chosen, judged against whole random documents. Right: budgets
are shares of the estimated judging time (`esa_time`), random items against items chosen with their costs in view.
Parity of SPA (published selectors: own p-values; ours: full-set significance) and ratio of the error of means.
"+": better than random beyond the Monte Carlo error.

"""

COVERAGE = """
## Coverage of 95% intervals (t)

Averaged over {sets}; n at most half of the items. Where documents are single items, document designs are designs of items.

"""

PUBLISHED = """
## Published numbers beside ours

| what | published | here |
|---|---|---|
| SPA of random, wmt23 en-de DA, 1,000 permutations | 0.921 | {da} |
| SPA of random, wmt23 he-en MQM, 1,000 permutations | 0.929 | {mqm} |
| parity of the best published selector (average of their table) | 0.71 | {best} ({best_name}, mean of the 5 sets with learned metrics) |
| reduction of the error of means by the best published estimator | 7 to 23% | {reduction} |

The random baselines agree within their errors; what differs is the set of items (we keep those judged for *all* machine
systems) and, for the selectors, the metric (MetricX-23 for WMT23; chrF, ROUGE and the like elsewhere, where no learned
metric is at hand). Their parity is from WMT23 sets with learned metrics; on campaigns with surface metrics the same
selectors range from {low} to {high}. The published estimator gains on sets with documents of ten and more segments and
loses where documents are short, because bins without a sample are dropped.
"""


def page(study: Study) -> str:
    parts = [
        INTRO.format(repeats=study.repeats, design=DEFAULT_DESIGN),
        PARITY,
        _parity_table(study),
        ERROR,
        _error_table(study),
        _targets(study),
        REACH,
        _reach_table(study),
        COVERED,
        _covered_table(study),
        LEFT_OUT,
        _left_out_table(study),
        DOCUMENTS,
        _document_table(study),
        COVERAGE.format(sets=", ".join(study.coverage)),
        _coverage_table(study),
        _published(study),
    ]
    return "".join(parts)


# -- tables --------------------------------------------------------------------------------------------------------


def _found(result: Simulation, method: str, measure: str) -> MethodSummary | None:
    return next((row for row in result.rows if (row.method, row.measure) == (method, measure)), None)


def parity(result: Simulation, method: str) -> float:
    """Own p-values for what is published, full-set significance for what is ours."""
    ours = method.startswith(("auto", "pps", "segments"))
    row = _found(result, method, "spa_full" if ours else "spa")
    return row.parity if row is not None else float("nan")


def error(result: Simulation, method: str) -> float:
    row = _found(result, method, "mae")
    return row.ratio_to_random if row is not None else float("nan")


def _random_full(result: Simulation, method: str) -> float:
    del method
    row = _found(result, "random", "spa_full")
    return row.parity if row is not None else float("nan")


def _groups(labels: Sequence[str]) -> list[tuple[str, list[str]]]:
    def those(keep: Callable[[Campaign], bool]) -> list[str]:
        return [label for label in labels if keep(BY_LABEL[label])]

    return [
        ("MQM with learned metrics", those(lambda c: c.learned and c.penalties)),
        ("learned metrics", those(lambda c: c.learned)),
        ("no learned metrics", those(lambda c: not c.learned)),
        ("all", list(labels)),
    ]


def _methods(study: Study) -> list[str]:
    seen = dict.fromkeys(row.method for result in study.methods.values() for row in result.rows)
    return [method for method in seen if method != "random"]


def _campaign_table(study: Study, columns: list[tuple[str, Callable[[Simulation], float]]], digits: int = 2) -> str:
    labels = list(study.methods)
    values = {label: [column(study.methods[label]) for _, column in columns] for label in labels}
    rows = [[label, *(_cell(v, digits) for v in values[label])] for label in labels]
    for title, group in _groups(labels):
        if group:
            means = [_mean([values[label][at] for label in group]) for at in range(len(columns))]
            rows.append([f"**mean, {title}**", *(f"**{_cell(v, digits)}**" for v in means)])
    return table(["campaign", *(name for name, _ in columns)], rows)


def _parity_table(study: Study) -> str:
    methods = [m for m in _methods(study) if not m.endswith("+mean") and m != PAPER]
    columns: list[tuple[str, Callable[[Simulation], float]]] = [
        ("random, full-set p", lambda result: _random_full(result, ""))
    ]
    columns += [(_SHORT.get(m, m), lambda result, m=m: parity(result, m)) for m in methods]  # type: ignore[misc]
    return _campaign_table(study, columns)


def _error_table(study: Study) -> str:
    return _campaign_table(
        study,
        [(_SHORT.get(m, m), lambda result, m=m: error(result, m)) for m in _methods(study)],  # type: ignore[misc]
    )


def _targets(study: Study) -> str:
    labels = list(study.methods)
    groups = dict(_groups(labels))

    def over(group: list[str], measure: Callable[[Simulation, str], float], method: str) -> tuple[float, float]:
        values = [measure(study.methods[label], method) for label in group]
        return _mean(values), float(np.nanmax(values)) if values else float("nan")

    others = groups["no learned metrics"]
    learned, everything, mqm = groups["learned metrics"], groups["all"], groups["MQM with learned metrics"]
    goals = [
        ("`auto`: parity, learned metrics", over(learned, parity, "auto")[0], 0.30),
        ("`auto`: error of means, learned metrics", over(learned, error, "auto")[0], 0.50),
        ("`auto`: parity, all", over(everything, parity, "auto")[0], 0.50),
        ("`auto`: error of means, all", over(everything, error, "auto")[0], 0.70),
        ("`auto` + `greg:texts=yes`: error of means, no learned metrics", over(others, error, TEXTS)[0], 0.78),
        ("`auto` + `greg:texts=yes`: worst error of means there", over(others, error, TEXTS)[1], 1.0),
        ("`auto`: worst parity of any set", over(everything, parity, "auto")[1], 1.0),
        ("`auto`: worst error of means of any set", over(everything, error, "auto")[1], 1.0),
        ("`auto:goal=ranking`: parity, MQM with learned metrics", over(mqm, parity, "auto:goal=ranking")[0], 0.30),
        ("`auto:goal=ranking`: parity, all", over(everything, parity, "auto:goal=ranking")[0], 0.60),
        ("`auto:goal=ranking`: worst parity of any set", over(everything, parity, "auto:goal=ranking")[1], 1.0),
    ]
    rows = [
        [name, _cell(value, 3), f"{limit:g}", "yes" if value <= limit else "**no**"] for name, value, limit in goals
    ]
    return "\n## What was asked\n\n" + table(["target", "measured", "at most", "met"], rows)


def _reach_table(study: Study) -> str:
    labels = list(study.oracles)
    values = {}
    for label, found in study.oracles.items():
        result = study.methods[label]
        values[label] = [
            error(result, "auto"),
            error(result, "auto:goal=ranking"),
            found.predicted,
            found.documents,
            found.sizes,
        ]
    rows = [[label, *map(_cell, values[label])] for label in labels]
    for title, group in _groups(labels):
        means = [_mean([values[label][at] for label in group]) for at in range(5)]
        rows += [[f"**mean, {title}**", *(f"**{_cell(v)}**" for v in means)]] if group else []
    head = ["campaign", "auto", "auto:goal=ranking", "known: metrics, texts", "and documents", "and sizes"]
    return table(head, rows)


def _covered_table(study: Study) -> str:
    rows = []
    for label, result in study.methods.items():
        cells = []
        for method in ("auto", "auto:goal=ranking"):
            found = [
                cell.value
                for cell in result.cells
                if (cell.method, cell.measure) == (method, "coverage") and cell.asked and cell.items >= ENOUGH
            ]
            cells.append(f"{np.mean(found):.3f} ({min(found):.3f} to {max(found):.3f})" if found else "-")
        rows.append([label, *cells])
    return table(["campaign", "auto", "auto:goal=ranking"], rows)


def _left_out_table(study: Study) -> str:
    candidates = list(dict.fromkeys(row.method for r in study.candidates.values() for row in r.rows))
    candidates = [name for name in candidates if name != "random"]
    labels = list(study.candidates)
    errors = {label: np.array([error(study.candidates[label], name) for name in candidates]) for label in labels}
    rows, chosen_errors, default_errors = [], [], []
    for label in labels:
        others = [other for other in labels if _other(label, other)]
        if not others:
            continue
        best = int(np.argmin(np.mean([errors[other] for other in others], axis=0)))
        default = error(study.candidates[label], _DEFAULTS[BY_LABEL[label].penalties])
        rows.append([label, candidates[best].removesuffix("+greg"), _cell(errors[label][best]), _cell(default)])
        chosen_errors.append(errors[label][best])
        default_errors.append(default)
    learned = [at for at, row in enumerate(rows) if BY_LABEL[row[0]].learned]
    for title, those in (("learned metrics", learned), ("all", list(range(len(chosen_errors))))):
        means = (_mean([errors_[at] for at in those]) for errors_ in (chosen_errors, default_errors))
        rows.append([f"**mean, {title}**", "", *(f"**{_cell(mean)}**" for mean in means)])
    return table(
        ["campaign left out", "chosen on the others", "error of means there", "auto's slopes and tau there"], rows
    )


def _other(label: str, other: str) -> bool:
    """Another campaign of the same scale, and not the same items judged again."""
    one, two = BY_LABEL[label], BY_LABEL[other]
    return label != other and one.penalties == two.penalties and one.file != two.file


def _document_table(study: Study) -> str:
    rows = []
    methods = ("metric_avg", "metric_var", "auto", "auto:goal=ranking")
    for label in study.documents:
        for method in methods:
            cells = []
            for result in (study.documents[label], study.costs[label]):
                spa = _found(result, method, "spa_full" if method.startswith("auto") else "spa")
                mae = _found(result, method, "mae")
                cells += [
                    _cell(spa.parity if spa else float("nan")) + _plus(spa),
                    _cell(mae.ratio_to_random if mae else float("nan")) + _plus(mae),
                ]
            rows.append([label, method, *cells])
    head = ["campaign", "method", "documents: parity", "documents: error", "cost: parity", "cost: error"]
    return table(head, rows)


def _plus(row: MethodSummary | None) -> str:
    return "+" if row is not None and row.gain == "better" else ""


def _coverage_table(study: Study) -> str:
    cells: dict[tuple[str, float], list[float]] = {}
    for result in study.coverage.values():
        for cell in result.cells:
            if cell.method != "random":
                cells.setdefault((cell.method, cell.budget), []).append(cell.value)
    sizes = sorted({size for _, size in cells})
    methods = dict.fromkeys(method for method, _ in cells)
    rows = [[m.replace("+", " + "), *(_cell(_mean(cells.get((m, n), [])), 3) for n in sizes)] for m in methods]
    return table(["method", *(f"n = {size:g}" for size in sizes)], rows)


def _published(study: Study) -> str:
    spa = {label: _found(result, "random", "spa") for label, result in study.permutation.items()}
    learned = [label for label in study.methods if BY_LABEL[label].learned]
    others = [label for label in study.methods if not BY_LABEL[label].learned]
    selectors = ["metric_avg", "metric_var", "metric_cons", "irt_diffdisc", "diversity:similarity=unigram"]
    means = {m: _mean([parity(study.methods[label], m) for label in learned]) for m in selectors}
    best = min(means, key=lambda m: means[m]) if means else ""
    spread = [parity(study.methods[label], m) for label in others for m in selectors]
    spread = [value for value in spread if np.isfinite(value)]
    papers = [error(r, PAPER) for r in study.methods.values()]
    papers = [value for value in papers if np.isfinite(value)]
    show = {
        label: f"{row.value:.3f} (error {row.error:.3f})" if row is not None else "-"
        for label, row in ((name, spa.get(name)) for name in ("wmt23 en-de DA", "wmt23 he-en MQM"))
    }
    reduction = f"{100 - 100 * max(papers):.0f} to {100 - 100 * min(papers):.0f}%" if papers else "-"
    return PUBLISHED.format(
        da=show["wmt23 en-de DA"],
        mqm=show["wmt23 he-en MQM"],
        best=_cell(means.get(best, float("nan"))),
        best_name=_SHORT.get(best, best),
        reduction=reduction,
        low=_cell(min(spread, default=float("nan"))),
        high=_cell(max(spread, default=float("nan"))),
    )


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if not np.isnan(value)]
    return float(np.mean(known)) if known else float("nan")


def _cell(value: float, digits: int = 2) -> str:
    return "-" if np.isnan(value) else f"{value:.{digits}f}"


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    escaped = ([cell.replace("|", "\\|") for cell in row] for row in rows)
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in escaped]) + "\n"
