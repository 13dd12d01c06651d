"""`make study-cells`: do intervals hold where systems are judged on different items? Writes docs/evidence-cells.md."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import aliquot
from aliquot.core.registry import parse_spec
from aliquot.estimation.pipeline import infer_means
from aliquot.estimation.ranking import p_best
from aliquot.estimation.sample import Sample
from aliquot.simulation.setup import keep_complete
from aliquot.stats.arrays import FloatArray

ROOT = Path(__file__).parent.parent
DATA = ROOT.parent / "shared" / "data"
SETS = {
    "wmt23 en-de MQM": ("wmt23-en-de", "human", ["refA", "synthetic_ref"]),
    "wmt23 en-de DA": ("wmt23-en-de", "da-sqm", ["refA", "synthetic_ref"]),
    "wmt23 he-en MQM": ("wmt23-he-en", "human", ["refA", "refB"]),
    "wmt23 3 raters": ("wmt23-mqm3raters-en-de", "human", ["refA"]),
    "wmt24 ESA en-cs": ("wmt24-esa-en-cs-waves23", None, []),
    "summeval": ("summeval", None, []),
}
HEAD = """# Evidence: systems judged on different items

Made by `make study-cells` ({repeats} repeats of each setting). On each campaign 10, 30 or 100% of the items are drawn, and 2, 3 or half of the
systems are judged on each of them, either balanced or with one system judged ten times less than the others. The truth is the mean
over all items (`--target given`); the estimator is the default. Coverage is that of 95% intervals, as a range over the settings and as
their mean. Error: root mean squared error of the means, relative to plain means of the same cells.

| campaign | coverage of means | mean | of differences | mean | error against plain means |
|---|---|---|---|---|---|
"""


def cells(scores: FloatArray, share: float, each: int, rng: np.random.Generator, *, rare: bool) -> FloatArray:
    """Human scores of the drawn cells, NaN elsewhere."""
    n, m = scores.shape
    keys = rng.random((n, m))
    if rare:
        keys[:, 0] += 2.0 * (rng.random(n) > 0.1)
    asked = (np.argsort(np.argsort(keys, axis=1), axis=1) < each) & (keys < 1.5)
    asked &= np.isin(np.arange(n), rng.choice(n, max(10, round(share * n)), replace=False))[:, None]
    return np.where(asked, scores, np.nan)


def settings(systems: int) -> Iterator[tuple[float, int, bool]]:
    for share in (0.1, 0.3, 1.0):
        for each in (2, 3, systems // 2):
            for rare in (False, True):
                yield share, each, rare


def replay(data: aliquot.EvalSet, repeats: int, best: list[tuple[float, bool]]) -> FloatArray:
    """For each setting: coverage of means, of differences, error, and error of plain means."""
    scores, rows = data.human_score(), []
    truth, (first, second) = scores.mean(axis=0), np.triu_indices(data.n_systems, 1)
    rng = np.random.default_rng(1)
    for share, each, rare in settings(data.n_systems):
        found = []
        for repeat in range(repeats):
            drawn = cells(scores, share, each, rng, rare=rare)
            kept = np.flatnonzero(np.isfinite(drawn).any(axis=1))
            sample = Sample(data, kept, drawn[kept], np.full(len(kept), len(kept) / len(scores)), np.ones(len(kept)))
            result = infer_means(sample, parse_spec("greg"))
            off, half = result.values - truth, result.half_widths(0.95)
            gap, wide = off[first] - off[second], result.pair_half_widths(0.95)[first, second]
            plain = np.nanmean(drawn, axis=0) - truth
            found.append(
                [
                    np.mean(np.abs(off[half > 0]) <= half[half > 0]),
                    np.mean(np.abs(gap[wide > 0]) <= wide[wide > 0]),
                    np.nanmean(off**2),
                    np.nanmean(plain**2),
                ]
            )
            if not np.isnan(result.covariance).any():
                chances = p_best(result, repeat)
                best.append((float(np.nanmax(chances)), int(np.nanargmax(chances)) == int(truth.argmax())))
        rows.append(np.mean(found, axis=0))
    return np.array(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=40)
    options = parser.parse_args()
    if not DATA.exists():
        sys.exit(f"{DATA} is absent: the study needs the shared campaigns")
    warnings.simplefilter("ignore")
    lines = [HEAD.format(repeats=options.repeats)]
    best: list[tuple[float, bool]] = []
    for label, (name, human, references) in SETS.items():
        data = aliquot.load(DATA / f"{name}.jsonl.gz")
        data = data.with_human(human) if human else data
        data, _ = keep_complete(data.drop(systems=references) if references else data)
        rows = replay(data, options.repeats, best)
        error = np.sqrt(rows[:, 2] / rows[:, 3])
        lines.append(
            f"| {label} | {rows[:, 0].min():.2f} to {rows[:, 0].max():.2f} | {rows[:, 0].mean():.3f} "
            f"| {rows[:, 1].min():.2f} to {rows[:, 1].max():.2f} | {rows[:, 1].mean():.3f} "
            f"| {error.mean():.2f} ({error.min():.2f} to {error.max():.2f}) |\n"
        )
        print(lines[-1], end="", flush=True)
    found = np.array(best)
    lines.append("\n| P(best) of the leading system | cases | right |\n|---|---|---|\n")
    for low, high in ((0.5, 0.7), (0.7, 0.9), (0.9, 1.01)):
        part = found[(found[:, 0] >= low) & (found[:, 0] < high)]
        lines.append(
            f"| {low} to {min(high, 1.0)} | {len(part)} | {part[:, 1].mean() if len(part) else np.nan:.2f} |\n"
        )
    lines.append(
        "\nThe best two systems of all six campaigns differ by less than half a standard error of what judging every item for half of the\n"
        "systems gives, so that hardly any case reaches 0.9, and those that do are partly luck.\n"
    )
    (ROOT / "docs" / "evidence-cells.md").write_text("".join(lines))


if __name__ == "__main__":
    main()
