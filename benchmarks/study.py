"""`make study`: our evidence on all real campaigns; writes docs/evidence.md and its pictures.

Everything is replayed with `aliquot.simulate`, as a user would. `STUDY_ARGS=--repeats=20` for a quick look.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import campaigns
import harness
import study_page
from campaigns import CAMPAIGNS, Campaign
from oracle import Oracle, oracle

import aliquot
from aliquot.core.evalset import EvalSet
from aliquot.report.figures import draw_curves
from aliquot.sampling.methods import DEFAULT_DESIGN
from aliquot.simulation.result import Simulation

DOCS = Path(__file__).parent.parent / "docs"
SELECTORS = ("metric_avg", "metric_var", "metric_cons", "irt_diffdisc", "diversity:similarity=unigram")
UNBIASED = ("auto", f"{DEFAULT_DESIGN}+mean", "segments+greg", "pps:size=difficulty,tau=0.5+greg")
PUBLISHED_ESTIMATOR = "stratified:bins=document,rounding=nearest+paper_best"
RANKING = ("auto:goal=ranking",)
MEASURES = ("spa", "spa_full", "accuracy", "mae", "coverage")
CANDIDATES = tuple(
    f"pps:size=error,tau={tau},slopes={slopes}+greg"
    for tau in (0.1, 0.4)
    for slopes in ("0|0", "0.1|0", "0.1|0.15", "0.25|0.15", "0.25|0.3", "0.4|0.3")
)
COVERAGE_DESIGNS = (
    DEFAULT_DESIGN,
    "segments",
    "stratified",
    "balanced",
    "snippets_budgeted",
    "snippets_fixed",
    "documents",
)
COVERAGE_ESTIMATORS = ("mean", "greg", "cv", "stratified")
COVERAGE_SETS = ("wmt23 en-de MQM", "wmt23 en-de DA", "wmt23 he-en MQM", "realsumm", "wmt24 ESA en-ja")
COVERAGE_SIZES = (20, 50, 100, 200)
DOCUMENT_SETS = (
    "wmt23 en-de MQM",
    "wmt23 he-en MQM",
    "wmt23 en-de DA",
    "biomqm en-de",
    "wmt24 ESA en-cs",
    "wmt24 ESA en-ja",
)


@dataclass
class Study:
    """What was found: results by campaign, for each part of the page."""

    repeats: int
    methods: dict[str, Simulation] = field(default_factory=dict)
    candidates: dict[str, Simulation] = field(default_factory=dict)
    documents: dict[str, Simulation] = field(default_factory=dict)
    costs: dict[str, Simulation] = field(default_factory=dict)
    coverage: dict[str, Simulation] = field(default_factory=dict)
    permutation: dict[str, Simulation] = field(default_factory=dict)
    oracles: dict[str, Oracle] = field(default_factory=dict)


def methods_for(campaign: Campaign, data: EvalSet) -> list[str]:
    """All methods that the campaign has what they need for."""
    selectors: tuple[str, ...] = SELECTORS if campaign.metric else SELECTORS[4:]
    if data.outputs is None:
        selectors = selectors[:4]
    unbiased = UNBIASED if campaign.metric else UNBIASED[:3]
    papers = (PUBLISHED_ESTIMATOR,) if campaign.metric and data.documents is not None else ()
    texts = (study_page.TEXTS,) if data.outputs is not None else ()
    return ["random", *selectors, *unbiased, *texts, *papers, *RANKING]


def fitting(data: EvalSet, parts: Sequence[str]) -> list[str]:
    """Designs joined with estimators, as far as the set allows them."""
    no_documents = data.documents is None
    return [part for part in parts if not (no_documents and part.startswith(("stratified", "snippets", "documents")))]


def run(study: Study, chosen: Sequence[Campaign], jobs: int) -> None:
    for campaign in chosen:
        start = time.perf_counter()
        data = campaigns.population(campaign)
        common: dict[str, Any] = {"metric": campaign.metric, "jobs": jobs}
        study.methods[campaign.label] = aliquot.simulate(
            data, methods_for(campaign, data), repeats=study.repeats, measures=MEASURES, **common
        )
        study.candidates[campaign.label] = aliquot.simulate(
            data,
            CANDIDATES,
            "5%:50%:5",
            repeats=max(4, study.repeats // 2),
            measures=["mae", "spa_full"],
            parity=False,
            **common,
        )
        if campaign.label in DOCUMENT_SETS:
            levels = ["random", "metric_avg", "metric_var", "auto", "auto:goal=ranking"]
            few = max(4, study.repeats // 2)
            study.documents[campaign.label] = aliquot.simulate(
                data, levels, repeats=few, measures=MEASURES, unit="document", **common
            )
            study.costs[campaign.label] = aliquot.simulate(
                data, levels, repeats=few, measures=MEASURES, cost="esa_time", **common
            )
        if campaign.label in COVERAGE_SETS:
            pairs = [f"{design}+{name}" for design in COVERAGE_DESIGNS for name in COVERAGE_ESTIMATORS]
            sizes = [n for n in COVERAGE_SIZES if n <= len(data) / 2]
            study.coverage[campaign.label] = aliquot.simulate(
                data,
                fitting(data, pairs),
                sizes,
                repeats=max(4, study.repeats // 2),
                measures=["coverage"],
                parity=False,
                **common,
            )
        if campaign.label in ("wmt23 en-de DA", "wmt23 he-en MQM"):
            study.permutation[campaign.label] = aliquot.simulate(
                data, ["random"], repeats=study.repeats, measures=["spa"], test="permutation", **common
            )
        study.oracles[campaign.label] = oracle(data)
        print(f"{campaign.label}: {time.perf_counter() - start:.0f} s", flush=True)


def draw(study: Study) -> None:
    """One panel a campaign: the published selectors, random, and ours."""
    shown = {"random", "metric_avg", "metric_var", "auto"}
    cells = tuple(c for result in study.methods.values() for c in result.cells if c.method in shown)
    draw_curves(Simulation(cells, (), (), ""), "spa_full", DOCS / "evidence-ranking.svg")
    draw_curves(
        Simulation(tuple(c for c in cells if c.method in ("random", "auto")), (), (), ""),
        "mae",
        DOCS / "evidence-means.svg",
    )


def main(arguments: Sequence[str] | None = None) -> None:
    options = harness.study_options(__doc__, arguments)
    start = time.perf_counter()
    study = Study(options.repeats)
    run(study, [c for c in CAMPAIGNS if options.only is None or options.only in c.label], options.jobs)
    text = study_page.page(study)
    print(text)
    if options.only is None:
        draw(study)
        (DOCS / "evidence.md").write_text(text)
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
