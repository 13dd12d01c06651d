"""Signatures: one line on every result that says how to get it again."""

from __future__ import annotations

from aliquot._version import __version__
from aliquot.core.evalset import EvalSet


def signature(verb: str, evalset: EvalSet | None = None, **parts: object) -> str:
    """Return e.g. `aliquot:0.2.0|select:metric_var|metric:COMET|budget:100|seed:7|data:3f9c21`.

    Parts that are None are left out; the data's fingerprint comes last.

    >>> signature("plan", delta=1.0, seed=None)
    'aliquot:0.2.0|plan|delta:1.0'
    """
    fields = [f"aliquot:{__version__}", verb]
    fields += [f"{name}:{value}" for name, value in parts.items() if value is not None]
    if evalset is not None:
        fields.append(f"data:{evalset.fingerprint}")
    return "|".join(fields)
