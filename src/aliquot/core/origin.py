"""The data that a selection was made from, as digests, so that its use with other data is detected.

What counts are the items' ids and sources, the systems and their outputs. Human scores and metrics are added after the
selection and are ignored.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from aliquot.core.evalset import EvalSet, ItemId
from aliquot.errors import DataError, quoted
from aliquot.stats.arrays import BoolArray

_MAX_EDITED_SHARE = 0.1
"""Share of sources up to which a difference may be a correction of the texts; beyond it the data are others."""

OUTPUT_DIGEST = "output_digest"
"""Column of judgments with the digest of the text that was judged; null where the judgment is of no output as such."""

_DIGEST_LENGTH = 8
_BLANK_DIGEST = "-" * _DIGEST_LENGTH  # no text

_REMEDY = "give the data that the selection was drawn from, or select again from these"


@dataclass(frozen=True)
class Origin:
    """The data of a selection: the systems, a digest of all ids (or ""), and of each chosen item's source (or "").

    `outputs` has the digests of each chosen item's outputs, joined in the order of the systems.
    """

    systems: tuple[str, ...] = ()
    pool: str = ""
    sources: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()

    def for_items(self, count: int) -> Origin:
        """Drop digests if their number is not `count`: the ids were replaced."""
        sources, outputs = (digests if len(digests) == count else () for digests in (self.sources, self.outputs))
        return replace(self, sources=sources, outputs=outputs)

    def to_dict(self) -> dict[str, Any]:
        """Return the part of the origin that is about all items."""
        return {"systems": list(self.systems), "pool": self.pool}

    @classmethod
    def read(cls, fields: Mapping[str, Any], sources: Sequence[str], outputs: Sequence[str]) -> Origin | None:
        """Build an origin from a selection's file; None if the file has no origin."""
        systems, pool = fields.get("systems"), fields.get("pool")
        names = tuple(map(str, systems)) if isinstance(systems, list) else ()
        is_complete = any(outputs) and all(len(digests) == _DIGEST_LENGTH * len(names) for digests in outputs)
        origin = cls(
            names,
            pool if isinstance(pool, str) else "",
            tuple(sources) if any(sources) else (),
            tuple(outputs) if is_complete else (),
        )
        return None if origin == cls() else origin


def digest_text(text: str | None) -> str:
    """Return a digest of a text, 8 hexadecimal digits; white space and Unicode composition are normalised.

    >>> digest_text("two  words") == digest_text(" two words") != digest_text("Two words")
    True
    """
    if not text or text.isspace():
        return ""
    plain = " ".join((text if text.isascii() else unicodedata.normalize("NFC", text)).split())
    return hashlib.blake2b(plain.encode("utf-8", "replace"), digest_size=4).hexdigest()


def _digest_ids(ids: Iterable[ItemId]) -> str:
    return hashlib.blake2b("\x1f".join(sorted(map(str, ids))).encode("utf-8", "replace"), digest_size=4).hexdigest()


def record_origin(evalset: EvalSet, ids: Sequence[ItemId], *, is_pool: bool = True) -> Origin:
    """Return the origin of a selection of `ids`; `is_pool` if the set is the whole pool."""
    sources = _map_sources(evalset, ids)
    digests = tuple(digest_text(sources.get(str(item))) for item in ids)
    pool = _digest_ids(evalset.ids) if is_pool else ""
    return Origin(evalset.systems, pool, digests if any(digests) else (), _digest_outputs(evalset, ids))


def _index_rows(evalset: EvalSet) -> dict[str, int]:
    return {str(item): row for row, item in enumerate(evalset.ids)}


def _digest_outputs(evalset: EvalSet, ids: Sequence[ItemId]) -> tuple[str, ...]:
    if evalset.outputs is None or not evalset.systems:
        return ()
    row_of = evalset.derived("rows by id", _index_rows)
    rows = [row_of[str(item)] for item in ids]
    columns = [[digest_text(text) or _BLANK_DIGEST for text in evalset.outputs[name][rows]] for name in evalset.systems]
    return tuple(map("".join, zip(*columns, strict=True)))


def extend_origin(earlier: Origin | None, later: Origin) -> Origin:
    """Return the later origin with the earlier digests of outputs for items that both have."""
    if earlier is None or not earlier.outputs or not later.outputs:
        return later
    places = [
        earlier.systems.index(name) * _DIGEST_LENGTH if name in earlier.systems else None for name in later.systems
    ]
    digests = [
        "".join(
            now[column * _DIGEST_LENGTH :][:_DIGEST_LENGTH] if place is None else before[place:][:_DIGEST_LENGTH]
            for column, place in enumerate(places)
        )
        for before, now in zip(earlier.outputs, later.outputs, strict=False)
    ]
    return replace(later, outputs=(*digests, *later.outputs[len(digests) :]))


def match_outputs(evalset: EvalSet, cells: Iterable[tuple[ItemId, str, str]]) -> Iterator[bool]:
    """Yield for each (item, system, digest) whether the output still has that digest; missing outputs match."""
    texts = {} if evalset.outputs is None else {name: evalset.outputs[name].to_list() for name in evalset.systems}
    row_of = evalset.derived("rows by id", _index_rows)
    for item, system, digest in cells:
        now = digest_text(texts[system][row_of[str(item)]]) if system in texts else ""
        yield not now or digest in (now, _BLANK_DIGEST, "")


def find_changed_outputs(origin: Origin | None, ids: Sequence[ItemId], evalset: EvalSet) -> list[tuple[ItemId, str]]:
    """Return the outputs (item, system) that have another text than when the selection was drawn."""
    if origin is None or not origin.outputs or evalset.outputs is None:
        return []
    cells = [
        (item, name, digests[column * _DIGEST_LENGTH :][:_DIGEST_LENGTH])
        for item, digests in zip(ids, origin.outputs, strict=True)
        for column, name in enumerate(origin.systems)
    ]
    return [cell[:2] for cell, same in zip(cells, match_outputs(evalset, cells), strict=True) if not same]


def describe_outputs(cells: Sequence[tuple[ItemId, str]]) -> str:
    """Return a count of outputs with up to three examples.

    >>> describe_outputs([(3, "A"), (4, "A")])
    "2 outputs (of 'A' on item 3, of 'A' on item 4)"
    """
    first = ", ".join(f"of '{system}' on item {item!r}" for item, system in cells[:3])
    more = f" and {len(cells) - 3} more" if len(cells) > 3 else ""
    return f"{len(cells)} output{'s' * (len(cells) != 1)} ({first}{more})"


def require_unchanged_outputs(
    origin: Origin | None, ids: Sequence[ItemId], evalset: EvalSet, judged: BoolArray
) -> None:
    """Raise DataError for judged outputs that changed since the selection was drawn."""
    row_of = evalset.derived("rows by id", _index_rows)
    changed = find_changed_outputs(origin, ids, evalset)
    wrong = [(item, name) for item, name in changed if judged[row_of[str(item)], evalset.systems.index(name)]]
    if wrong:
        raise DataError(
            f"{evalset.name}: {describe_outputs(wrong)} changed since the selection was drawn; the judgments are of "
            "the earlier text; give the outputs that were judged, or leave these judgments out and judge anew"
        )


def _map_sources(evalset: EvalSet, ids: Sequence[ItemId]) -> dict[str, str | None]:
    if "source" not in evalset.items.columns:
        return {}
    names = evalset.derived("ids as texts", lambda data: data.items["id"].cast(pl.String))
    named = names.is_in(pl.Series([str(item) for item in ids], dtype=pl.String).implode())
    return dict(zip(names.filter(named).to_list(), evalset.items["source"].filter(named).to_list(), strict=True))


def compare_origin(
    origin: Origin | None, ids: Sequence[ItemId], population: int, evalset: EvalSet, *, strict: bool = False
) -> tuple[str, ...]:
    """Compare data with those that a selection was made from; return the differences as notes.

    Raises:
        DataError: items are missing or more than a tenth have another source, or, when strict, anything differs
            that is not just a system added or left out.
    """
    ids_present = set(evalset.ids)
    missing = [item for item in ids if item not in ids_present]
    if missing:
        raise DataError(
            f"{evalset.name}: the selection names the item {missing[0]!r}, which is not in the data "
            f"({len(missing)} of its {len(ids)} items are not); {_REMEDY}"
        )
    if origin is None:
        return ()
    faults, compared = _find_source_faults(origin, ids, evalset)
    if evalset.n_items == population and origin.pool and origin.pool != _digest_ids(ids_present):
        faults.append("the items that were not selected have other ids than when the selection was drawn")
    changed = find_changed_outputs(origin, ids, evalset)
    if changed:
        faults.append(f"{describe_outputs(changed)} changed since the selection was drawn")
    gone = [name for name in origin.systems if name not in evalset.systems]
    new = [name for name in evalset.systems if name not in origin.systems]
    notes: list[str] = []
    if origin.systems and len(gone) == len(origin.systems) and evalset.systems:
        text = f"the selection was drawn with other systems ({quoted(origin.systems, 4)})"
        (notes if compared else faults).append(text)
    elif origin.systems and new:
        notes.append(f"added after the selection was drawn: {quoted(new, 4)}")
    if strict and faults:
        raise DataError(f"`strict`: {evalset.name}: {'; '.join(faults)}; {_REMEDY}")
    return (*faults, *notes)


def _find_source_faults(origin: Origin, ids: Sequence[ItemId], evalset: EvalSet) -> tuple[list[str], int]:
    """Return notes on changed sources, and the number of sources compared."""
    now = _map_sources(evalset, ids) if origin.sources else {}
    pairs = [
        (item, before, digest)
        for item, before in zip(ids, origin.sources, strict=bool(origin.sources))
        if before and (digest := digest_text(now.get(str(item))))
    ]
    changed = [item for item, before, digest in pairs if before != digest]
    if not changed:
        return [], len(pairs)
    text = (
        f"{len(changed)} of the selection's {len(ids)} items have another source in the data, e.g. item {changed[0]!r}"
    )
    if len(changed) > _MAX_EDITED_SHARE * len(pairs):
        raise DataError(f"{evalset.name}: {text}; {_REMEDY}")
    return [text], len(pairs)
