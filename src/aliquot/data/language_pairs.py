"""Which language pair a set is about: what its items say, or else its name."""

from __future__ import annotations

import re

from aliquot.data.evalset import EvalSet

COLUMNS = ("pair", "langs", "language_pair", "lp")
# Looked for ahead, so that pairs may overlap: in wmt22-da-de-en the last is de-en, and da the protocol.
_IN_NAME = re.compile(r"(?<![a-z])(?=([a-z]{2})[-_]([a-z]{2})(?![a-z]))")


def pairs_of(evalset: EvalSet) -> list[str | None]:
    """Return every item's language pair ("en-de"), or None where neither a column nor the set's name tells it.

    >>> import aliquot
    >>> set(pairs_of(aliquot.synthetic(items=3, systems=2)))
    {None}
    """
    for column in COLUMNS:
        if column in evalset.items.columns:
            return [None if value is None else str(value) for value in evalset.items[column].to_list()]
    return [pair_in(evalset.name)] * evalset.n_items


def pair_in(name: str) -> str | None:
    """Return the last language pair in a name.

    >>> pair_in("wmt24-esa-en-cs-waves23"), pair_in("wmt22-da-de-en"), pair_in("summeval")
    ('en-cs', 'de-en', None)
    """
    found = _IN_NAME.findall(name.casefold())
    return "-".join(found[-1]) if found else None


def domains_of(evalset: EvalSet) -> list[str | None]:
    """Return every item's domain, or None."""
    if "domain" not in evalset.items.columns:
        return [None] * evalset.n_items
    return evalset.items["domain"].to_list()
