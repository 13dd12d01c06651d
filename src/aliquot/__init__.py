"""aliquot: human evaluation of generated text on a budget.

The names below are the whole public interface; each is imported on first use, so that `import aliquot` costs nothing.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_PUBLIC = {
    "EvalSet": "aliquot.data.evalset",
    "Judgments": "aliquot.data.judgments",
    "Selection": "aliquot.data.selection",
    "load": "aliquot.data.io",
    "load_all": "aliquot.data.io",
    "save": "aliquot.data.io",
    "synthetic": "aliquot.data.synthetic",
    "learn": "aliquot.learn.run",
    "select": "aliquot.select.choose",
    "select_pool": "aliquot.pool.run",
    "Incremental": "aliquot.select.incremental",
    "estimate": "aliquot.estimate.run",
    "plan": "aliquot.plan.run",
    "simulate": "aliquot.simulate.run",
    "meta": "aliquot.meta",
    "metrics": "aliquot.metaeval.metrics",
    "surface": "aliquot.metaeval.surface",
    "Monitor": "aliquot.estimate.monitor",
    "agreement": "aliquot.judge.agreement",
    "clean": "aliquot.judge.clean",
    "combine": "aliquot.judge.combine",
    "compare": "aliquot.judge.compare",
    "datasheet": "aliquot.report.datasheet",
    "AliquotError": "aliquot.errors",
    "AliquotWarning": "aliquot.errors",
}

if TYPE_CHECKING:
    from aliquot import meta
    from aliquot.data.evalset import EvalSet
    from aliquot.data.io import load, load_all, save
    from aliquot.data.judgments import Judgments
    from aliquot.data.selection import Selection
    from aliquot.data.synthetic import synthetic
    from aliquot.errors import AliquotError, AliquotWarning
    from aliquot.estimate.monitor import Monitor
    from aliquot.estimate.run import estimate
    from aliquot.judge.agreement import agreement
    from aliquot.judge.clean import clean
    from aliquot.judge.combine import combine
    from aliquot.judge.compare import compare
    from aliquot.learn.run import learn
    from aliquot.metaeval.metrics import metrics
    from aliquot.metaeval.surface import surface
    from aliquot.plan.run import plan
    from aliquot.pool.run import select_pool
    from aliquot.report import datasheet
    from aliquot.select.choose import select
    from aliquot.select.incremental import Incremental
    from aliquot.simulate.run import simulate

__all__ = [
    "AliquotError",
    "AliquotWarning",
    "EvalSet",
    "Incremental",
    "Judgments",
    "Monitor",
    "Selection",
    "agreement",
    "clean",
    "combine",
    "compare",
    "datasheet",
    "estimate",
    "learn",
    "load",
    "load_all",
    "meta",
    "metrics",
    "plan",
    "save",
    "select",
    "select_pool",
    "simulate",
    "surface",
    "synthetic",
]


class _Public(ModuleType):
    """This module's type: `aliquot.select` is the function, and importing the room of that name does not hide it."""

    def __setattr__(self, name: str, value: object) -> None:
        if name not in _PUBLIC or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Public


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'aliquot' has no attribute '{name}'; public names: {', '.join(__all__)}")
    home = import_module(_PUBLIC[name])
    value = getattr(home, name, home)  # `datasheet` and `meta` have nothing of their own name inside: modules
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
