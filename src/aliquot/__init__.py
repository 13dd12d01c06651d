"""aliquot: human evaluation of generated text on a budget.

The names below are the whole public interface; each is imported on first use, so that `import aliquot` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from aliquot._version import __version__

_PUBLIC = {
    "EvalSet": "aliquot.core.evalset",
    "Judgments": "aliquot.core.judgments",
    "Selection": "aliquot.core.selection",
    "load": "aliquot.io.load",
    "load_all": "aliquot.io.load",
    "load_judgments": "aliquot.io.load_judgments",
    "save": "aliquot.io.save",
    "synthetic": "aliquot.core.synthetic",
    "learn": "aliquot.sampling.learn",
    "select": "aliquot.sampling.select",
    "select_pool": "aliquot.sampling.pool",
    "Casf": "aliquot.sampling.active",
    "Incremental": "aliquot.sampling.active",
    "Allocator": "aliquot.sampling.allocator",
    "PairAllocator": "aliquot.sampling.pair_allocator",
    "estimate": "aliquot.estimation.estimate",
    "plan": "aliquot.planning.plan",
    "plan_power": "aliquot.planning.power",
    "plan_adaptive": "aliquot.planning.adaptive",
    "simulate": "aliquot.simulation.simulate",
    "replay_annotators": "aliquot.simulation.by_annotator",
    "replay_metrics": "aliquot.simulation.metric_quality",
    "replay_protocols": "aliquot.simulation.protocols",
    "examples": "aliquot.simulation.examples",
    "meta": "aliquot.meta",
    "metrics": "aliquot.metric_eval.metrics",
    "surface": "aliquot.metric_eval.surface",
    "Monitor": "aliquot.estimation.monitor",
    "sequential": "aliquot.estimation.sequential",
    "agreement": "aliquot.annotation.agreement",
    "clean": "aliquot.annotation.clean",
    "combine": "aliquot.annotation.combine",
    "combine_draws": "aliquot.core.draws",
    "compare": "aliquot.annotation.compare",
    "survey": "aliquot.annotation.survey",
    "survey_blocks": "aliquot.annotation.survey",
    "make_report": "aliquot.report.page",
    "datasheet": "aliquot.report.datasheet",
    "Campaign": "aliquot.collect.campaign",
    "AliquotError": "aliquot.errors",
    "AliquotWarning": "aliquot.errors",
}

if TYPE_CHECKING:
    from aliquot import meta
    from aliquot.annotation.agreement import agreement
    from aliquot.annotation.clean import clean
    from aliquot.annotation.combine import combine
    from aliquot.annotation.compare import compare
    from aliquot.annotation.survey import survey, survey_blocks
    from aliquot.collect.campaign import Campaign
    from aliquot.core.draws import combine_draws
    from aliquot.core.evalset import EvalSet
    from aliquot.core.judgments import Judgments
    from aliquot.core.selection import Selection
    from aliquot.core.synthetic import synthetic
    from aliquot.errors import AliquotError, AliquotWarning
    from aliquot.estimation.estimate import estimate
    from aliquot.estimation.monitor import Monitor
    from aliquot.estimation.sequential import sequential
    from aliquot.io.load import load, load_all
    from aliquot.io.load_judgments import load_judgments
    from aliquot.io.save import save
    from aliquot.metric_eval.metrics import metrics
    from aliquot.metric_eval.surface import surface
    from aliquot.planning.adaptive import plan_adaptive
    from aliquot.planning.plan import plan
    from aliquot.planning.power import plan_power
    from aliquot.report import datasheet
    from aliquot.report.page import make_report
    from aliquot.sampling.active import Casf, Incremental
    from aliquot.sampling.allocator import Allocator
    from aliquot.sampling.learn import learn
    from aliquot.sampling.pair_allocator import PairAllocator
    from aliquot.sampling.pool import select_pool
    from aliquot.sampling.select import select
    from aliquot.simulation.by_annotator import replay_annotators
    from aliquot.simulation.examples import examples
    from aliquot.simulation.metric_quality import replay_metrics
    from aliquot.simulation.protocols import replay_protocols
    from aliquot.simulation.simulate import simulate

__all__ = [
    "AliquotError",
    "AliquotWarning",
    "Allocator",
    "Campaign",
    "Casf",
    "EvalSet",
    "Incremental",
    "Judgments",
    "Monitor",
    "PairAllocator",
    "Selection",
    "__version__",
    "agreement",
    "clean",
    "combine",
    "combine_draws",
    "compare",
    "datasheet",
    "estimate",
    "examples",
    "learn",
    "load",
    "load_all",
    "load_judgments",
    "make_report",
    "meta",
    "metrics",
    "plan",
    "plan_adaptive",
    "plan_power",
    "replay_annotators",
    "replay_metrics",
    "replay_protocols",
    "save",
    "select",
    "select_pool",
    "sequential",
    "simulate",
    "surface",
    "survey",
    "survey_blocks",
    "synthetic",
]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'aliquot' has no attribute '{name}'; public names: {', '.join(__all__)}")
    home = import_module(_PUBLIC[name])
    value = getattr(home, name, home)  # `datasheet` and `meta` have nothing of their own name inside: modules
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
