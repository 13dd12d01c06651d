"""`make study`: accuracy and coverage of designs and estimators on all real campaigns; writes docs/evidence.md.

Pretend that only a part of a finished campaign had been judged, many times; compare with the truth on all items.
`STUDY_ARGS=--repeats=20` for a quick look.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

import campaigns
import harness
import numpy as np
from scipy import stats

import aliquot
from aliquot.data.evalset import EvalSet
from aliquot.data.spec import parse_spec
from aliquot.estimate.estimators import run_estimator
from aliquot.estimate.sample import Sample
from aliquot.select.auto import DEFAULT_DESIGN
from aliquot.select.methods import lookup
from aliquot.stats.design_variance import degrees_of_freedom

PAGE = Path(__file__).parent.parent / "docs" / "evidence.md"
SHARES = np.arange(5, 55, 5)
ACCURACY = (
    (DEFAULT_DESIGN, "greg"),
    (DEFAULT_DESIGN, "mean"),
    ("segments", "greg"),
    ("pps:size=difficulty,tau=0.5", "greg"),
    ("stratified:bins=document,rounding=nearest", "paper_best"),
)
DESIGNS = (DEFAULT_DESIGN, "segments", "stratified", "balanced", "snippets_budgeted", "snippets_fixed", "documents")
ESTIMATORS = ("mean", "greg", "cv", "stratified")
COVERAGE_SETS = ("wmt23 en-de MQM", "wmt23 en-de DA", "wmt23 he-en MQM", "realsumm", "wmt24 ESA en-ja")


def drawn_sample(data: EvalSet, design: str, n: int, rng: np.random.Generator) -> Sample | None:
    """Draw by a design and look at the human scores of what was drawn; None where the data lack what it needs."""
    spec = parse_spec(design)
    try:
        drawn = lookup(spec.name)[0].run(data, spec.parameters, n=n, rng=rng)
    except aliquot.AliquotError:
        return None
    rows, stratum = drawn.rows, None
    pi = drawn.probability[rows]
    if drawn.stratum is not None:
        stratum = np.unique(drawn.stratum[rows], return_inverse=True)[1]
    return Sample(
        data, rows, data.human_score()[rows], pi, 1.0 / pi, kind=str(drawn.details.get("variance", "unordered")),
        stratum=stratum, remainder=float(drawn.details.get("remainder", 1.0)),
    )  # fmt: skip


def accuracy(label: str, repeats: int) -> tuple[str, list[float]]:
    """Mean absolute error of the systems' means, relative to a random sample's mean, averaged over 5% to 50%."""
    warnings.simplefilter("ignore")
    data = campaigns.population(next(c for c in campaigns.CAMPAIGNS if c.label == label))
    truth = data.human_score().mean(axis=0)
    ratios = np.full((len(ACCURACY), len(SHARES)), np.nan)
    for column, share in enumerate(SHARES):
        n = max(2, round(data.n_items * share / 100))
        rng = np.random.default_rng([7, int(share)])
        plain = [data.human_score()[rng.choice(data.n_items, n, replace=False)] for _ in range(8 * repeats)]
        base = np.mean([np.abs(sample.mean(axis=0) - truth).mean() for sample in plain])
        for row, (design, estimator) in enumerate(ACCURACY):
            errors = []
            for _ in range(repeats):
                sample = drawn_sample(data, design, n, rng)
                if sample is None:
                    break
                errors.append(np.abs(run_estimator(sample, parse_spec(estimator)).values - truth).mean())
            ratios[row, column] = np.mean(errors) / base if errors else np.nan
    return label, ratios.mean(axis=1).tolist()


def coverage(label: str, repeats: int) -> list[tuple[str, str, str, int, float]]:
    """Share of 95% t intervals that hold the truth, over systems and repeats."""
    warnings.simplefilter("ignore")
    data = campaigns.population(next(c for c in campaigns.CAMPAIGNS if c.label == label))
    truth = data.human_score().mean(axis=0)
    rows = []
    for design in DESIGNS:
        for n in (20, 50, 100, 200):
            if n > data.n_items / 2:
                continue
            rng = np.random.default_rng([3, n])
            hits: dict[str, list[float]] = {name: [] for name in ESTIMATORS}
            for _ in range(repeats):
                sample = drawn_sample(data, design, n, rng)
                if sample is None:
                    break
                for name in ESTIMATORS:
                    hits[name].append(_covered(sample, name, truth))
            rows += [(label, design, name, n, float(np.mean(found))) for name, found in hits.items() if found]
    return rows


def _covered(sample: Sample, estimator: str, truth: np.ndarray) -> float:
    try:
        fitted = run_estimator(sample, parse_spec(estimator))
    except aliquot.AliquotError:
        return float("nan")
    errors = sample.errors(fitted.z)
    half = stats.t.ppf(0.975, degrees_of_freedom(errors, sample.units - 1)) * np.sqrt((errors**2).sum(axis=0))
    return float((np.abs(fitted.values - truth) <= half).mean())


# -- the page ------------------------------------------------------------------------------------------------------


INTRO = """# Evidence

Made by `make study` (benchmarks/study.py) on the campaigns of `../shared/data`, each as a finite population: the items
that are judged for all machine systems. {repeats} repeats of every cell. Do not edit by hand.

## Error of system means

Mean absolute error of the systems' means, relative to the plain mean of a simple random sample of the same size,
averaged over budgets of 5%, 10%, ..., 50%. Below 1 is better than random sampling. The first column is the default
(`auto`); the last is the best published estimator (Saldias et al. 2022: documents proportionally, k-nearest-neighbour
control variate with the covariance of their footnote 1; they report reductions of 7 to 23% on longer documents).

The slopes behind `size=error`, the ridge, and the constants of the document-spread variance were chosen by looking at
these same campaigns, and which scale applies (penalties or ratings) is read off the human scores: the figures are
in-sample for those choices, not a leave-one-campaign-out result.

"""
COVERAGE = """
## Coverage of 95% intervals (t)

Averaged over {sets}; n at most half of the items. Where documents are single items, document designs are designs of
items.

"""


def page(accuracies: dict[str, list[float]], covered: list[tuple[str, str, str, int, float]], repeats: int) -> str:
    rows = [[label, *("-" if np.isnan(v) else f"{v:.2f}" for v in values)] for label, values in accuracies.items()]
    for title, chosen in _groups(accuracies):
        rows.append([f"**mean, {title}**", *(f"**{v:.2f}**" for v in np.nanmean(np.array(chosen), axis=0))])
    text = INTRO.format(repeats=repeats) + _table(["campaign", *(f"{d} + {e}" for d, e in ACCURACY)], rows)
    sizes = (20, 50, 100, 200)
    rows = []
    for design in DESIGNS:
        for name in ESTIMATORS:
            cells = [[c for _, d, e, m, c in covered if (d, e, m) == (design, name, n)] for n in sizes]
            rows.append([design, name, *("-" if not cell else f"{np.nanmean(cell):.3f}" for cell in cells)])
    head = ["design", "estimator", *(f"n = {n}" for n in sizes)]
    return text + COVERAGE.format(sets=", ".join(COVERAGE_SETS)) + _table(head, rows)


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def _groups(accuracies: dict[str, list[float]]) -> list[tuple[str, list[list[float]]]]:
    by_label = {c.label: c for c in campaigns.CAMPAIGNS}
    learned = {label: values for label, values in accuracies.items() if by_label[label].learned}
    return [
        ("MQM with learned metrics", [v for label, v in learned.items() if by_label[label].penalties]),
        ("DA and ESA with learned metrics", [v for label, v in learned.items() if not by_label[label].penalties]),
        ("all", list(accuracies.values())),
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=100)
    options = parser.parse_args(arguments)
    if not harness.SHARED.exists():
        print(f"{harness.SHARED} is absent: the study needs the real campaigns")
        return
    start = time.perf_counter()
    labels = [c.label for c in campaigns.CAMPAIGNS]
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        accuracies = dict(pool.starmap(accuracy, [(label, options.repeats) for label in labels], chunksize=1))
        parts = pool.starmap(coverage, [(label, options.repeats) for label in COVERAGE_SETS], chunksize=1)
    text = page(accuracies, [row for part in parts for row in part], options.repeats)
    PAGE.write_text(text)
    print(text)
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
