"""Few judged items: what texts and earlier campaigns bring, and how often intervals hold; writes docs/evidence-few.md.

Each campaign is judged with slopes learned on others only: never on its own test set, whatever the protocol there.
`python benchmarks/study_few.py --repeats=20 --only=biomqm` for a quick look, which is printed and not written.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import campaigns
import harness
import numpy as np
from campaigns import CAMPAIGNS, Campaign

from aliquot.core.evalset import EvalSet
from aliquot.core.registry import parse_spec
from aliquot.estimation.past import add_past_prediction
from aliquot.estimation.pipeline import infer_means
from aliquot.estimation.sample import Sample
from aliquot.sampling.designs import pps
from aliquot.stats.arrays import FloatArray

PAGE = Path(__file__).parent.parent / "docs" / "evidence-few.md"
SIZES = (10, 20, 40)
SHARES = (0.05, 0.1, 0.15)
BASE = "greg"
METHODS = {BASE: False, "greg:texts=yes": False, "greg, past": True, "informed": False, "informed, past": True}
COVERED = ("greg", "multilevel", "informed")
TRANSLATION = ("wmt", "biomqm", "newstest")
SAME_TESTS = "wmt23-en-de", "wmt23-mqm3raters-en-de"


@dataclass
class Found:
    """Ratios to the base with their Monte Carlo errors, and coverages, by campaign."""

    ratios: dict[tuple[str, int, str], tuple[float, float]] = field(default_factory=dict)
    coverage: dict[tuple[str, float, str], tuple[float, float]] = field(default_factory=dict)


def earlier(campaign: Campaign) -> list[Campaign]:
    """Campaigns of the same task on other test sets."""
    machine = campaign.label.startswith(TRANSLATION)
    if not machine and "summ" not in campaign.label:
        return []
    return [
        other
        for other in CAMPAIGNS
        if other.file != campaign.file
        and not {other.file, campaign.file} <= set(SAME_TESTS)
        and (other.label.startswith(TRANSLATION) if machine else "summ" in other.label)
    ]


def drawn(data: EvalSet, n: int, seed: int) -> Sample:
    """The default design's sample of n items."""
    draw = pps(data, n=n, rng=np.random.default_rng(seed))
    assert draw.probability is not None
    pi = draw.probability[draw.rows]
    return Sample(
        data,
        draw.rows,
        data.human_score(None)[draw.rows],
        pi,
        1.0 / pi,
        kind=draw.design.variance,
        remainder=draw.design.remainder,
    )


def errors(data: EvalSet, past: Sequence[EvalSet], n: int, repeats: int) -> dict[str, FloatArray]:
    """Mean absolute error of the systems' means, a row a replay."""
    truth = data.human_score(None).mean(axis=0)
    prior = add_past_prediction(drawn(data, n, 0), past).prior
    found: dict[str, list[float]] = {name: [] for name in METHODS}
    for repeat in range(repeats):
        sample = drawn(data, n, 1000 + repeat)
        told = Sample(**{**vars_of(sample), "prior": prior})
        for name, uses_past in METHODS.items():
            spec = parse_spec(name.removesuffix(", past"))
            values = infer_means(told if uses_past else sample, spec).values
            found[name].append(float(np.abs(values - truth).mean()))
    return {name: np.array(values) for name, values in found.items()}


def vars_of(sample: Sample) -> dict[str, Any]:
    return {name: getattr(sample, name) for name in Sample.__dataclass_fields__}


def ratio(values: FloatArray, base: FloatArray) -> tuple[float, float]:
    """Ratio of the means of paired replays, and its standard error."""
    found = values.mean() / base.mean()
    return float(found), float(np.std(values - found * base) / np.sqrt(len(base)) / base.mean())


def coverage(data: EvalSet, n: int, repeats: int) -> dict[str, tuple[float, float]]:
    """Share of systems inside their 95% intervals."""
    truth = data.human_score(None).mean(axis=0)
    inside: dict[str, list[float]] = {name: [] for name in COVERED}
    for repeat in range(repeats):
        sample = drawn(data, n, 5000 + repeat)
        for name in COVERED:
            made = infer_means(sample, parse_spec(name))
            inside[name].append(float((np.abs(made.values - truth) <= made.half_widths(0.95)).mean()))
    return {name: (float(np.mean(v)), float(np.std(v) / np.sqrt(len(v)))) for name, v in inside.items()}


def page(found: Found, repeats: int) -> str:
    lines = [
        "# Evidence: few judged items",
        "",
        f"Made by `python benchmarks/study_few.py`, {repeats} replays of each campaign. Do not edit by hand.",
        "",
        "## Texts and earlier campaigns",
        "",
        f"Mean absolute error of the systems' means, relative to `{BASE}` (the default) on the same",
        "draws of the default design, with Monte Carlo errors. Earlier campaigns are those of the same task on other",
        "test sets; the wmt23 en-de campaigns share theirs and never see each other. What was tried and did not help:",
        "[tried](evidence-tried.md).",
        "",
        "| campaign | n | " + " | ".join(list(METHODS)[1:]) + " |",
        "|---" * (len(METHODS) + 1) + "|",
    ]
    for label, n in dict.fromkeys((label, n) for label, n, _ in found.ratios):
        cells = [
            f"{found.ratios[label, n, name][0]:.2f} ± {found.ratios[label, n, name][1]:.2f}"
            for name in list(METHODS)[1:]
        ]
        lines.append(f"| {label} | {n} | " + " | ".join(cells) + " |")
    for n in SIZES:
        means = [
            np.mean([v[0] for (_, size, name), v in found.ratios.items() if size == n and name == wanted])
            for wanted in list(METHODS)[1:]
        ]
        lines.append(f"| **mean** | {n} | " + " | ".join(f"**{value:.3f}**" for value in means) + " |")
    lines += [
        "",
        "## Coverage of 95% intervals (t)",
        "",
        "| campaign | judged | " + " | ".join(COVERED) + " |",
        "|---" * (len(COVERED) + 2) + "|",
    ]
    for label, share in dict.fromkeys((label, share) for label, share, _ in found.coverage):
        cells = [
            f"{found.coverage[label, share, name][0]:.3f} ± {found.coverage[label, share, name][1]:.3f}"
            for name in COVERED
        ]
        lines.append(f"| {label} | {share:.0%} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    options = harness.study_options(__doc__, arguments)
    found, sets = Found(), {campaign.label: campaigns.population(campaign) for campaign in CAMPAIGNS}
    for campaign in CAMPAIGNS:
        if options.only is not None and options.only not in campaign.label:
            continue
        start, data = time.perf_counter(), sets[campaign.label]
        past = [sets[other.label] for other in earlier(campaign)]
        for n in (n for n in SIZES if n <= len(data) / 2):
            made = errors(data, past, n, options.repeats)
            for name in METHODS:
                found.ratios[campaign.label, n, name] = ratio(made[name], made[BASE])
        for share in SHARES:
            for name, value in coverage(data, max(5, round(share * len(data))), options.repeats).items():
                found.coverage[campaign.label, share, name] = value
        print(f"{campaign.label}: {time.perf_counter() - start:.0f} s", flush=True)
    text = page(found, options.repeats)
    print(text)
    if options.only is None:
        PAGE.write_text(text)


if __name__ == "__main__":
    main()
