"""All methods: importing this module registers every family."""

from __future__ import annotations

from aliquot.select import casf, designs, guided, incremental, search, sources, texts, utilities
from aliquot.select.registry import ALIASES, Method, lookup, registered

FAMILIES = (utilities, texts, sources, search, designs, casf, guided, incremental)

__all__ = ["ALIASES", "FAMILIES", "Method", "all_methods", "lookup"]


def all_methods() -> dict[str, Method]:
    """Return every method by name, family after family, utilities first."""
    places = {family.__name__: place for place, family in enumerate(FAMILIES)}
    methods = registered().values()
    return {m.name: m for m in sorted(methods, key=lambda method: places[method.function.__module__])}
