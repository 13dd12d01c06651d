"""Datasheets of human evaluations: the questions of HEDS 2.0, filled in, checked, rendered and compared.

`new` starts a sheet from what the data tell, `load` reads one that people edited, `check` lists what is missing,
`render` writes it for readers, `diff` compares two, `copy` carries answers from one criterion to others. The command
line has the same: `aliquot datasheet new|check|render|diff|copy`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aliquot.report.datasheet.checking import Check, Finding, check
from aliquot.report.datasheet.differences import Difference, SheetDiff, diff
from aliquot.report.datasheet.files import load
from aliquot.report.datasheet.rendering import render
from aliquot.report.datasheet.sheet import Answer, Criterion, Datasheet, copy

if TYPE_CHECKING:
    from aliquot.report.datasheet.prefilling import new

__all__ = [
    "Answer",
    "Check",
    "Criterion",
    "Datasheet",
    "Difference",
    "Finding",
    "SheetDiff",
    "check",
    "copy",
    "diff",
    "load",
    "new",
    "render",
]


def __getattr__(name: str) -> Any:
    """Import `new` on first use: only it needs the estimators, and the other verbs should start at once."""
    if name != "new":
        raise AttributeError(f"module 'aliquot.report.datasheet' has no attribute '{name}'")
    from aliquot.report.datasheet.prefilling import new  # noqa: PLC0415  (slow to import)

    return new
