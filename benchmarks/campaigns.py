"""The real campaigns of ../shared/data as finite populations: complete items, machine systems, known truth."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import harness

import aliquot
from aliquot.core.evalset import EvalSet
from aliquot.simulation.setup import keep_complete as complete_population

REFERENCES = ("refA", "refB", "ref-A", "ref-B", "ref-C", "ref-D", "synthetic_ref", "GOLD")


@dataclass(frozen=True)
class Campaign:
    """A file, its human score, the metric that published selectors are given, and what kind of campaign it is.

    `fresh` campaigns were never looked at while methods and defaults were chosen.
    """

    label: str
    file: str
    human: str = "human"
    metric: str | None = None
    learned: bool = False
    penalties: bool = False
    fresh: bool = False


CAMPAIGNS = (
    Campaign("wmt23 en-de MQM", "wmt23-en-de", metric="MetricX-23", learned=True, penalties=True),
    Campaign("wmt23 he-en MQM", "wmt23-he-en", metric="MetricX-23", learned=True, penalties=True),
    Campaign("wmt23 3 raters MQM", "wmt23-mqm3raters-en-de", metric="MetricX-23", learned=True, penalties=True),
    Campaign("wmt23 en-de DA", "wmt23-en-de", human="da-sqm", metric="MetricX-23", learned=True),
    Campaign("wmt23 en-de ESA", "wmt23-en-de", human="ESA-1", metric="MetricX-23", learned=True),
    Campaign("biomqm en-de", "biomqm-en-de", metric="chrF_here", penalties=True),
    Campaign("biomqm de-en", "biomqm-de-en", metric="chrF_here", penalties=True),
    Campaign("newstest2021 MQM", "newstest2021-mqm-en-de", metric="chrF_here", penalties=True),
    Campaign("wmt24 ESA en-cs", "wmt24-esa-en-cs-waves23", metric="chrF_here"),
    Campaign("wmt24 ESA en-ja", "wmt24-esa-en-ja-waves23", metric="chrF_here"),
    Campaign("wmt22 DA de-en", "wmt22-da-de-en", metric="chrF_here", fresh=True),
    Campaign("summeval", "summeval", metric="rougeL_here"),
    Campaign("dialsummeval", "dialsummeval", metric="bartscore_s_h"),
    Campaign("realsumm", "realsumm", metric="rouge_2_recall"),
    Campaign("webnlg2020", "webnlg2020-en"),
)


def population(campaign: Campaign) -> EvalSet:
    """Items judged for all machine systems that have at least half of the best coverage, under the campaign's label."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", aliquot.AliquotWarning)
        data = aliquot.load(harness.SHARED / f"{campaign.file}.jsonl.gz", human=campaign.human)
    data = data.drop(systems=[name for name in REFERENCES if name in data.systems])
    kept, _ = complete_population(data)
    return replace(kept, name=campaign.label)
