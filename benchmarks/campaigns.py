"""The real campaigns of ../shared/data as finite populations: complete items, machine systems, known truth."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import harness
import numpy as np

import aliquot
from aliquot.data.evalset import EvalSet

REFERENCES = ("refA", "refB", "ref-A", "ref-B", "ref-C", "ref-D", "synthetic_ref", "GOLD")


@dataclass(frozen=True)
class Campaign:
    """A file, its human score, and whether it has learned metrics and penalties."""

    label: str
    file: str
    human: str = "human"
    learned: bool = False
    penalties: bool = False


CAMPAIGNS = (
    Campaign("wmt23 en-de MQM", "wmt23-en-de", learned=True, penalties=True),
    Campaign("wmt23 he-en MQM", "wmt23-he-en", learned=True, penalties=True),
    Campaign("wmt23 3 raters MQM", "wmt23-mqm3raters-en-de", learned=True, penalties=True),
    Campaign("wmt23 en-de DA", "wmt23-en-de", human="da-sqm", learned=True),
    Campaign("wmt23 en-de ESA", "wmt23-en-de", human="ESA-1", learned=True),
    Campaign("biomqm en-de", "biomqm-en-de", penalties=True),
    Campaign("biomqm de-en", "biomqm-de-en", penalties=True),
    Campaign("newstest2021 MQM", "newstest2021-mqm-en-de", penalties=True),
    Campaign("wmt24 ESA en-cs", "wmt24-esa-en-cs-waves23"),
    Campaign("wmt24 ESA en-ja", "wmt24-esa-en-ja-waves23"),
    Campaign("summeval", "summeval"),
    Campaign("dialsummeval", "dialsummeval"),
    Campaign("realsumm", "realsumm"),
    Campaign("webnlg2020", "webnlg2020-en"),
)


def population(campaign: Campaign) -> EvalSet:
    """Items judged for all machine systems that have at least half of the best coverage."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", aliquot.AliquotWarning)
        data = aliquot.load(harness.SHARED / f"{campaign.file}.jsonl.gz", human=campaign.human)
    data = data.drop(systems=[name for name in REFERENCES if name in data.systems])
    covered = np.isfinite(data.human_score()).mean(axis=0)
    thick = [s for s, share in zip(data.systems, covered, strict=True) if share > 0.5 * covered.max()]
    return data.keep(systems=thick).complete()
