"""The real campaigns, each read once for all tests of a process."""

from __future__ import annotations

import warnings
from functools import cache
from pathlib import Path

import aliquot
from aliquot import AliquotWarning, EvalSet

SHARED = Path(__file__).parents[3] / "shared" / "data"


@cache
def load_real(name: str, human: str | None = None) -> EvalSet:
    """A campaign by the name of its file; what is read is immutable, so tests may share it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AliquotWarning)
        return aliquot.load(SHARED / f"{name.removesuffix('.jsonl.gz')}.jsonl.gz", human=human)
