"""Second half of `make study`: what WMT23's 42 metrics are worth; writes docs/evidence-metrics.md and its pictures.

Everything comes from `aliquot.metrics`, as a user would call it. For a quick look run it by itself with
`--trials 500 --permutations 50 --dry`.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence
from pathlib import Path

import harness
from campaigns import REFERENCES

import aliquot
from aliquot.core.evalset import EvalSet
from aliquot.errors import DataError
from aliquot.metric_eval.metric_report import MetricReport
from aliquot.report.figures import draw_break_even

DOCS = Path(__file__).parent.parent / "docs"
SETS = ("wmt23-en-de", "wmt23-he-en")
PARTS = ("decomposition", "breakeven", "correlations", "value", "leave_one_out", "tests")
TESTS = ("accuracy", "spa", "acc_eq")
EXPECTED = ("MetricX-23", "XCOMET-Ensemble", "GEMBA-MQM", "eBLEU")
REPEATED = (
    ("wmt23-mqm3raters-en-de", "human"),
    ("biomqm-en-de", "human"),
    ("biomqm-de-en", "human"),
    ("wmt22-da-de-en", "human_z"),
    ("wmt22-calibration-en-cs", "human"),
    ("wmt22-calibration-zh-en", "human"),
    ("summeval", "human"),
    ("summeval", "turker"),
    ("summeval", "human_coherence"),
    ("summeval", "human_consistency"),
    ("summeval", "human_fluency"),
    ("summeval", "human_relevance"),
    ("dialsummeval", "human"),
    ("webnlg2020-en", "human"),
)


def load(name: str) -> EvalSet:
    """A shared campaign without human references among the systems."""
    data = aliquot.load(harness.SHARED / f"{name}.jsonl.gz")
    return data.drop(systems=[system for system in REFERENCES if system in data.systems])


# -- one row for each metric -------------------------------------------------------------------------------------------


def orderings(report: MetricReport) -> dict[str, dict[str, float]]:
    """The measures by which metrics are ordered, higher = better."""
    rows = {(row.metric, row.level, row.measure): row.value for row in reversed(report.correlations)}

    def of(level: str, measure: str) -> dict[str, float]:
        return {name: rows[name, level, measure] for name in report.metrics}

    return {
        "observed": {row.metric: -row.observed for row in report.decomposition if row.kind == "metric"},
        "accuracy": of("system", "accuracy"),
        "spa": of("system", "spa"),
        "r_system": of("system", "pearson"),
        "acc_eq": of("within_item", "acc_eq"),
        "r_pooled": of("pooled", "pearson"),
        "saves": {row.metric: row.efficiency for row in report.value},
    }


def ranks(values: dict[str, float]) -> dict[str, int]:
    """1 = best; metrics of the same value share the best rank."""
    return {name: 1 + sum(other > value for other in values.values()) for name, value in values.items()}


def table(report: MetricReport, by_systems: MetricReport) -> str:
    parts = {row.metric: row for row in report.decomposition}
    worth = {row.metric: row for row in report.breakeven}
    values = orderings(report)
    clusters = {(row.test, row.metric): row.cluster for row in report.clusters}
    head = (
        "metric",
        "observed",
        "noise",
        "bias",
        "variance",
        "worth",
        "interval",
        "accuracy",
        "SPA",
        "r, systems",
        "acc-eq",
        "r, pooled",
        "saves",
        "# accuracy",
        "# SPA",
        "# acc-eq",
        "# SPA, systems",
    )
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    for name in ["Optimal predictor", "Human", *sorted(report.metrics, key=lambda name: parts[name].observed)]:
        row = parts[name]
        cells = [f"{row.observed:.3f}", f"{row.noise:.3f}", f"{row.bias:.3f}", f"{row.variance:.3f}"]
        if row.kind == "metric":
            one = worth[name]
            cells += [size(one.judgments, one.limit), f"{size(one.low, one.limit)} to {size(one.high, one.limit)}"]
            cells += [f"{values[key][name]:.3f}" for key in ("accuracy", "spa", "r_system", "acc_eq", "r_pooled")]
            cells += [f"{values['saves'][name]:.2f}", *(str(clusters[test, name]) for test in TESTS)]
            cells.append(str(next(row.cluster for row in by_systems.clusters if row.metric == name)))
        else:
            cells += [""] * (len(head) - 5)
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def size(value: float, limit: int) -> str:
    return f">{limit}" if value > limit else "<=1" if value <= 1 else f"{value:.0f}"


def expected_table(reports: dict[str, MetricReport]) -> str:
    """Where the metrics stand that the issue expected at the top or at the bottom, by every measure."""
    keys = ("observed", "accuracy", "spa", "r_system", "acc_eq", "r_pooled", "saves")
    lines = ["| set | metric | " + " | ".join(_LABEL[key] for key in keys) + " |", "|---|---|" + "---:|" * len(keys)]
    for name, report in reports.items():
        places = {key: ranks(values) for key, values in orderings(report).items()}
        lines += [
            f"| {name} | {metric} | " + " | ".join(str(places[key][metric]) for key in keys) + " |"
            for metric in (*EXPECTED, "prismSrc")
        ]
    return "\n".join(lines)


_LABEL = {
    "observed": "observed error",
    "accuracy": "accuracy",
    "spa": "SPA",
    "r_system": "r, systems",
    "acc_eq": "acc-eq",
    "r_pooled": "r, pooled",
    "saves": "saves",
}


def best_and_worst(report: MetricReport) -> str:
    lines = ["| by | best five | worst three |", "|---|---|---|"]
    for key, values in orderings(report).items():
        order = sorted(values, key=lambda name: -values[name])
        lines.append(f"| {_LABEL[key]} | {', '.join(order[:5])} | {', '.join(order[-3:])} |")
    return "\n".join(lines)


def hanging_on_one_system(report: MetricReport) -> str:
    """The metrics whose system-level correlation changes most when one system is left out."""
    rows = [row for row in report.leave_one_out if row.measure == "system_pearson"]
    widest = sorted(rows, key=lambda row: row.low - row.high)[:3]
    return "; ".join(
        f"{row.metric} {row.value:.2f} ({row.low:.2f} without {row.low_without}, {row.high:.2f} without "
        f"{row.high_without})"
        for row in widest
    )


# -- repeated judgments and SummEval -----------------------------------------------------------------------------------


def annotator_table() -> str:
    head = (
        "campaign",
        "score",
        "judgments behind it",
        "people",
        "judged twice",
        "Var(H)",
        "noise",
        "ratio",
        "interval",
        "matched",
    )
    lines = ["| " + " | ".join(head) + " |", "|---|---|---|" + "---:|" * (len(head) - 3)]
    for name, human in REPEATED:
        data = load(name)
        try:
            (row,) = aliquot.metrics(data, human, metrics=[human], parts=["annotators"]).annotators
        except DataError as error:
            lines.append(f"| {name} | {human} | {error} | | | | | | | |")
            continue
        lines.append(
            f"| {name} | {human} | {row.source} | {row.annotators} | {row.repeated} | {row.total:.3g} | "
            f"{row.within:.3g} | {row.ratio:.2f} | {row.low:.2f} to {row.high:.2f} | {ratio(row.matched)} |"
        )
    return "\n".join(lines)


def ratio(value: float) -> str:
    return f"{value:.2f}" if math.isfinite(value) else "all noise"


def summeval_table(trials: int) -> str:
    """ROUGE and chrF on all 16 systems beside the paper's Table 1 (17 systems, ROUGE-4 and others)."""
    metrics = ["rouge1_here", "rouge2_here", "rougeL_here", "rougeL_multiref_here", "chrF_here"]
    report = aliquot.metrics(load("summeval"), metrics=metrics, parts=["decomposition"], trials=trials)
    lines = ["| row | observed | noise | bias | variance | pairs |", "|---|---:|---:|---:|---:|---:|"]
    lines += [
        f"| {row.metric} | {row.observed:.3f} | {row.noise:.3f} | {row.bias:.3f} | {row.variance:.3f} | {row.pairs} |"
        for row in report.decomposition
    ]
    return "\n".join(lines)


# -- the page ----------------------------------------------------------------------------------------------------------


def page(reports: dict[str, MetricReport], by_systems: dict[str, MetricReport], trials: int) -> str:
    written: list[str] = [_INTRO.format(trials=f"{trials:,}")]
    for name, report in reports.items():
        held = report.decomposition[2]
        written.append(
            f"## {name}\n\n{held.items} items, {held.systems} machine systems, {held.pairs} pairs; "
            f"`{report.signature}`\n\n{table(report, by_systems[name])}\n\n"
            f"![{name}](evidence-worth-{name}.svg)\n\n{best_and_worst(report)}\n\n"
            f"System-level correlations that depend most on one system: {hanging_on_one_system(report)}.\n\n"
            f"{suggestion(report)}\n"
        )
    written.append(
        "## What was expected, and what is found\n\nRanks among the 42 (ties share the best rank):\n\n"
        f"{expected_table(reports)}\n\n{verdict(reports)}\n\n{told_apart(reports, by_systems)}\n\n"
        f"{_PUBLISHED}\n"
    )
    written.append(f"## The perfect annotator\n\n{_ANNOTATORS}\n\n{annotator_table()}\n")
    written.append(f"## SummEval beside the paper\n\n{_SUMMEVAL}\n\n{summeval_table(trials)}\n")
    return "\n".join(written)


def told_apart(reports: dict[str, MetricReport], by_systems: dict[str, MetricReport]) -> str:
    """How many pairs of metrics are told apart, by what is swapped."""
    found = []
    for name, report in reports.items():
        both = [row.p < 0.05 for row in report.tests if row.test == "spa"]
        systems = [row.p < 0.05 for row in by_systems[name].tests]
        first = sum(row.cluster == 1 for row in by_systems[name].clusters)
        found.append(
            f"on {name} {sum(both)} of {len(both)} pairs of metrics with PERM-BOTH, {sum(systems)} with whole "
            f"systems swapped ({first} metrics then share the first cluster)"
        )
    return f"SPA tells apart {'; '.join(found)}. {_SWAPS}"


def suggestion(report: MetricReport) -> str:
    taken = [row for row in report.suggested if row.taken]
    return (
        f"Metrics to combine as control variates: {', '.join(row.metric for row in taken)}. Together they explain "
        f"{taken[-1].explained:.0%} of the human variance within systems on items they have not seen: n judgments "
        f"are worth {taken[-1].efficiency:.2f} n."
    )


def verdict(reports: dict[str, MetricReport]) -> str:
    """Sentences whose numbers come from the tables."""
    text = []
    for name, report in reports.items():
        values = orderings(report)
        places = {key: ranks(one) for key, one in values.items()}
        last = min(values["observed"], key=lambda metric: values["observed"][metric])
        people = report.decomposition[1]
        better = [row.metric for row in report.decomposition[2:] if row.observed < people.observed]
        better_than_people = (
            f" {', '.join(better)} disagree{'s' if len(better) == 1 else ''} with people no more "
            "than a second human evaluation would."
            if better
            else ""
        )
        text.append(
            f"**{name}.** By outputs (acc-eq) XCOMET-Ensemble is {ordinal(places['acc_eq']['XCOMET-Ensemble'])}, "
            f"MetricX-23 {ordinal(places['acc_eq']['MetricX-23'])} and GEMBA-MQM "
            f"{ordinal(places['acc_eq']['GEMBA-MQM'])} of 42; by systems (observed error) they are "
            f"{ordinal(places['observed']['XCOMET-Ensemble'])}, {ordinal(places['observed']['MetricX-23'])} and "
            f"{ordinal(places['observed']['GEMBA-MQM'])}. eBLEU is {ordinal(places['acc_eq']['eBLEU'])} by outputs and "
            f"{ordinal(places['observed']['eBLEU'])} by systems; the last one by systems is {last} "
            f"(bias {bias(report, last):.2f}).{better_than_people}"
        )
    return "\n\n".join([*text, _VERDICT])


def bias(report: MetricReport, metric: str) -> float:
    return next(row.bias for row in report.decomposition if row.metric == metric)


def ordinal(rank: int) -> str:
    """The rank as a word with its ending."""
    ending = "th" if 10 <= rank % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(rank % 10, "th")
    return f"{rank}{ending}"


_INTRO = """<!-- made by benchmarks/study_metrics.py (make study); do not edit -->

# What WMT23's metrics are worth

All 42 metrics of the shared WMT23 files against MQM, human references left out; {trials} bootstrap trials. How to
read the columns is in [metrics.md](metrics.md): *observed* is the disagreement with people on pairs of systems, the
sum of *noise*, *bias* and *variance*; *worth* the judged items per system at which people err as often as the metric's
bias, with a 95% interval over systems; *saves* what a metric is worth as a control variate (n judgments are worth so
many n); *#* the cluster of metrics that are not told apart (PERM-BOTH for accuracy and SPA, swapped items for acc-eq,
swapped systems in the last column; one-sided 0.05, no correction for the number of pairs).
"""

_VERDICT = """Orderings by systems rest on 66 pairs that share 12 systems: a metric that gets one pair more right
moves up by several ranks, and the intervals of *worth* are wide. Orderings by outputs rest on thousands of pairs. A
metric that agrees with people within items can still underrate one system everywhere, and then misplaces it."""

_SWAPS = """PERM-BOTH asks whether two metrics could be exchanged on these systems; whether one would be better on other
systems is what swapping whole systems asks, and it tells fewer metrics apart."""

_PUBLISHED = """No published ordering by systems is beside these columns: the papers that we reproduce print none."""

_ANNOTATORS = """Variance components of the judgments behind each human score (Wei and Jia, section 5.2). *ratio* is
Var(H) / Var(P): so many judgments of people are worth one of an annotator without noise, for systems judged on items of
their own; *matched* is the same for differences of systems on the same items, and for scores that are means of all
judgments of an output. SummEval's experts have 1.20 in the paper, which had 17 systems; the shared file has judgments
of 12."""

_SUMMEVAL = """The paper's Table 1 (17 systems, 136 pairs, ROUGE-4 with 11 references): optimal predictor 0.045 =
0.045 + 0 + 0, human 0.067 = 0.022 + 0 + 0.046, ROUGE 0.296 = -0.006 + 0.294 + 0.008. Other ROUGE variants on
the 16 systems of the shared file come out alike:"""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--permutations", type=int, default=1000)
    parser.add_argument("--dry", action="store_true", help="print the page, write nothing")
    options, others = parser.parse_known_args(arguments)  # STUDY_ARGS are meant for study.py
    if others:
        print(f"a quick look at the other study ({' '.join(others)}): metrics are left out")
        return
    harness.require_campaigns()
    reports, by_systems = {}, {}
    for name in SETS:
        start = time.perf_counter()
        data = load(name)
        reports[name] = aliquot.metrics(
            data, parts=PARTS, tests=TESTS, trials=options.trials, permutations=options.permutations, unit="item"
        )
        by_systems[name] = aliquot.metrics(
            data, parts=["tests"], tests=["spa"], swap="systems", permutations=options.permutations
        )
        print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)
    text = page(reports, by_systems, options.trials)
    if options.dry:
        print(text)
        return
    for name, report in reports.items():
        draw_break_even(report, DOCS / f"evidence-worth-{name}.svg")
    (DOCS / "evidence-metrics.md").write_text(text)


if __name__ == "__main__":
    main()
