"""Labels of a choice between two outputs: the names of the sides, ties, both and none."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_LABELS: Mapping[str, str] = MappingProxyType(
    {
        "a": "a, 1, a only, only a, only_a, a>b, system_a, system a, model_a, model a, left, first, a wins, a better, "
        "output_a",
        "b": "b, 2, b only, only b, only_b, b>a, a<b, system_b, system b, model_b, model b, right, second, b wins, "
        "b better, output_b",
        "tie": "tie, ties, tied, draw, equal, same, =, a=b, no preference",
        "both": "both, both right, both good, tie (bothgood), ab",
        "none": "none, 0, neither, both wrong, both bad, both_bad, bothbad, tie (bothbad)",
    }
)
SIDE_OF_LABEL: Mapping[str, str] = MappingProxyType(
    {label: side for side, labels in _LABELS.items() for label in labels.split(", ")}
)
"""Label in lower case -> a, b, tie, both or none."""
