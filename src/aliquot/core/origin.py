"""What a selection remembers of the data it was made from, so that its use with other data is noticed.

What counts are the items' ids and sources, and the systems. Human scores and metrics are added after the selection and
say nothing.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from aliquot.core.evalset import EvalSet, ItemId
from aliquot.errors import DataError, quoted

_EDITED = 0.1
"""Share of sources up to which a difference may be a correction of the texts; beyond it the data are others."""

_REMEDY = "give the data that the selection was drawn from, or select again from these"


@dataclass(frozen=True)
class Origin:
    """The data of a selection: the systems, a digest of all ids (or ""), and of each chosen item's source (or "")."""

    systems: tuple[str, ...] = ()
    pool: str = ""
    sources: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """What the first line of a selection's file says of all its items."""
        return {"systems": list(self.systems), "pool": self.pool}

    @classmethod
    def read(cls, said: Mapping[str, Any], sources: Sequence[str]) -> Origin | None:
        """Read back what `to_dict` gave; None where a file tells nothing of its data."""
        systems, pool = said.get("systems"), said.get("pool")
        names = tuple(map(str, systems)) if isinstance(systems, list) else ()
        known = cls(names, pool if isinstance(pool, str) else "", tuple(sources) if any(sources) else ())
        return None if known == cls() else known


def source_digest(text: str | None) -> str:
    """Eight hexadecimal digits of a source; white space and the form of accents do not count.

    >>> source_digest("two  words") == source_digest(" two words") != source_digest("Two words")
    True
    """
    if not text or text.isspace():
        return ""
    plain = " ".join(unicodedata.normalize("NFC", text).split())
    return hashlib.blake2b(plain.encode("utf-8", "replace"), digest_size=4).hexdigest()


def _pool_digest(ids: Iterable[ItemId]) -> str:
    return hashlib.blake2b("\x1f".join(sorted(map(str, ids))).encode("utf-8", "replace"), digest_size=4).hexdigest()


def origin_of(evalset: EvalSet, ids: Sequence[ItemId], *, whole: bool = True) -> Origin:
    """What to remember of the data; `whole` says that the set is all that was chosen from."""
    sources = _source_of(evalset, ids)
    digests = tuple(source_digest(sources.get(str(item))) for item in ids)
    pool = _pool_digest(evalset.ids) if whole else ""
    return Origin(evalset.systems, pool, digests if any(digests) else ())


def _source_of(evalset: EvalSet, ids: Sequence[ItemId]) -> dict[str, str | None]:
    if "source" not in evalset.items.columns:
        return {}
    names = evalset.derived("ids as texts", lambda data: data.items["id"].cast(pl.String))
    named = names.is_in(pl.Series([str(item) for item in ids], dtype=pl.String).implode())
    return dict(zip(names.filter(named).to_list(), evalset.items["source"].filter(named).to_list(), strict=True))


def compare(
    origin: Origin | None, ids: Sequence[ItemId], population: int, evalset: EvalSet, *, strict: bool = False
) -> tuple[str, ...]:
    """Compare the data that a selection is used with and those it was made from; return what differs, as notes.

    Raises:
        DataError: items are missing or more than a tenth have another source, or, when strict, anything differs
            that is not just a system added or left out.
    """
    known = set(evalset.ids)
    missing = [item for item in ids if item not in known]
    if missing:
        raise DataError(
            f"{evalset.name}: the selection names the item {missing[0]!r}, which is not in the data "
            f"({len(missing)} of its {len(ids)} items are not); {_REMEDY}"
        )
    if origin is None:
        return ()
    faults, compared = _source_faults(origin, ids, evalset)
    if evalset.n_items == population and origin.pool and origin.pool != _pool_digest(known):
        faults.append("the items that were not selected have other ids than when the selection was drawn")
    gone = [name for name in origin.systems if name not in evalset.systems]
    new = [name for name in evalset.systems if name not in origin.systems]
    notes: list[str] = []
    if origin.systems and len(gone) == len(origin.systems) and evalset.systems:
        text = f"the selection was drawn with other systems ({quoted(origin.systems, 4)})"
        (notes if compared else faults).append(text)
    elif origin.systems and new:
        notes.append(f"added after the selection was drawn: {quoted(new, 4)}")
    if strict and faults:
        raise DataError(f"--strict: {evalset.name}: {'; '.join(faults)}; {_REMEDY}")
    return (*faults, *notes)


def _source_faults(origin: Origin, ids: Sequence[ItemId], evalset: EvalSet) -> tuple[list[str], int]:
    """What is wrong with the sources, and how many could be compared."""
    now = _source_of(evalset, ids) if origin.sources else {}
    pairs = [
        (item, before, digest)
        for item, before in zip(ids, origin.sources, strict=bool(origin.sources))
        if before and (digest := source_digest(now.get(str(item))))
    ]
    other = [item for item, before, digest in pairs if before != digest]
    if not other:
        return [], len(pairs)
    text = f"{len(other)} of the selection's {len(ids)} items have another source in the data, e.g. item {other[0]!r}"
    if len(other) > _EDITED * len(pairs):
        raise DataError(f"{evalset.name}: {text}; {_REMEDY}")
    return [text], len(pairs)
