"""A campaign that is open: its database, its log, and the inputs it was made of."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from sqlalchemy.engine import Connection

from aliquot.collect import creating
from aliquot.collect.allocation import Allocation
from aliquot.collect.events import Log
from aliquot.collect.people import erase_again
from aliquot.collect.protocols import Protocol, read_protocol
from aliquot.collect.rebuilding import read_rows, rebuilt, seal_all, seals_of
from aliquot.collect.schema import metadata
from aliquot.collect.statements import decode, sql
from aliquot.collect.store import Store
from aliquot.collect.tokens import key_path
from aliquot.collect.unit_texts import UnitTexts
from aliquot.core.evalset import EvalSet
from aliquot.core.selection import Selection
from aliquot.io.formats import items as item_lines
from aliquot.io.formats.campaign import REDERIVE, SEALED, build_damage_error, require_sealed, without_password


class OpenedCampaign:
    """The inputs and settings of a campaign; other classes add what people do with it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.log = Log(self.protocol, lambda: self._texts)
        if REDERIVE in self._meta:
            erased = self.store.write(self._rederive)
            if erased:
                self.store.vacuum()

    def _rederive(self, connection: Connection) -> int:
        """Make tables of a campaign of an older version again from the log, seal them; return how many were forgotten.

        In version 1 lists of systems were texts, and answers about documents were repeated for each item; until version
        2 an excluded annotator's judgments counted again after another action, and texts of forgotten people stayed.
        """
        done = connection.execute(sql("DELETE FROM meta WHERE key = :key"), {"key": REDERIVE})
        if not done.rowcount:  # by another process
            return 0
        erased = erase_again(connection)
        tables = rebuilt(read_rows(connection, "events"), self.protocol, lambda: self._texts, self.store.place)
        for name in ("annotators", "choices", "judgments", "messages", "audit"):
            connection.execute(sql(f"DELETE FROM {name}"))  # noqa: S608  (one of ours)
            rows = tables[name].as_dicts()
            if rows:
                connection.execute(metadata.tables[name].insert(), sorted(rows, key=_by_time))
        seal_all(connection)
        return erased

    @cached_property
    def _meta(self) -> dict[str, str]:
        with self.store.read() as connection:
            rows = read_rows(connection, "meta")
            found: dict[str, str] = {row["key"]: row["value"] for row in rows.as_dicts()}
            if REDERIVE not in found:  # from here on they are what was written, down to the last key
                seals = seals_of(connection)
                require_sealed(self.store.place, "meta", rows, seals)
                require_sealed(self.store.place, "inputs", read_rows(connection, "inputs", SEALED["inputs"]), seals)
        lacking = sorted({"campaign", "title", "seed", "assign", "settings", "data_name", "human"} - found.keys())
        if lacking:
            raise build_damage_error(self.store.place, f"the table meta lacks {lacking[0]}")
        return found

    def _input(self, name: str) -> bytes | None:
        query = sql("SELECT content, sha256 FROM inputs WHERE name = :name")
        with self.store.read() as connection:
            found = connection.execute(query, {"name": name}).one_or_none()
        if found is None:
            return None
        content = b"" if isinstance(found.content, str | None) else bytes(found.content)
        if hashlib.sha256(content).hexdigest() != found.sha256:
            raise build_damage_error(self.store.place, f"the checksum of the input '{name}' does not fit")
        return content

    @cached_property
    def protocol(self) -> Protocol:
        """The protocol, as it was when the campaign was made."""
        found = self._input("protocol")
        if found is None:
            raise build_damage_error(self.store.place, "the protocol is missing")
        return read_stored(found, self.store.place)

    @cached_property
    def data(self) -> EvalSet:
        """The data that are judged."""
        with self.store.read() as connection:
            name = connection.execute(sql("SELECT MAX(name) FROM inputs WHERE name LIKE 'data%'")).scalar()
        content = None if name is None else self._input(str(name))
        if content is None:
            raise build_damage_error(self.store.place, "the data are missing")
        evalset = item_lines.read(gzip.decompress(content), self._meta["data_name"])
        return evalset.with_human(self._meta["human"]) if self._meta["human"] else evalset

    @cached_property
    def allocation(self) -> Allocation | None:
        """The allocator that the queue follows, or None where units are given from the beginning."""
        options = self.unit_options.get("allocate")
        return None if options is None else Allocation(self.data, self.protocol, options, self.seed)

    @property
    def selection(self) -> Selection | None:
        """The selection that is judged, or None where all items are."""
        if self.allocation is not None:
            with self.store.read() as connection:
                return self.allocation.selection(connection)
        with self.store.read() as connection:
            name = connection.execute(sql("SELECT MAX(name) FROM inputs WHERE name LIKE 'selection%'")).scalar()
        content = None if name is None else self._input(str(name))
        return None if content is None else creating.read_selection(content)

    @cached_property
    def _texts(self) -> UnitTexts:
        return UnitTexts(self.data, self.protocol)

    @property
    def id(self) -> str:
        """The campaign's id."""
        return self._meta["campaign"]

    @property
    def title(self) -> str:
        """What annotators see above the page."""
        return self._meta["title"]

    @property
    def locale(self) -> str:
        """The language of the page."""
        return self._meta["locale"]

    @property
    def seed(self) -> int:
        """The seed of all random orders."""
        return int(self._meta["seed"])

    @property
    def assign(self) -> str:
        """How units are given out: shared or fixed."""
        return self._meta["assign"]

    @property
    def per_output(self) -> int:
        """Finished judgments that every output gets."""
        with self.store.read() as connection:
            return self.per_output_in(connection)

    def per_output_in(self, connection: Connection) -> int:
        """The same inside a transaction."""
        return int(meta_value(connection, "per_output"))

    @property
    def unit_options(self) -> dict[str, Any]:
        """How units were cut, for units that are added later."""
        found: dict[str, Any] = decode(self._meta["settings"])
        return found

    def replace_selection(self, connection: Connection, selection: Selection) -> None:
        """Store a selection that goes on from the present one; the earlier ones stay among the inputs."""
        creating.store_selection(connection, selection)

    @property
    def key_file(self) -> Path:
        """The file with the secret that links are made of."""
        return key_path(self.store.place, self.id)

    def state_of_campaign(self) -> str:
        """Return open, paused or closed."""
        with self.store.read() as connection:
            return campaign_state(connection)


def meta_value(connection: Connection, key: str, default: str | None = None) -> str:
    """Return one entry of the table `meta`; campaigns of older versions lack some."""
    found = connection.execute(sql("SELECT value FROM meta WHERE key = :key"), {"key": key}).scalar()
    return str(default if found is None else found)


def campaign_state(connection: Connection) -> str:
    """Return open, paused or closed."""
    return meta_value(connection, "state")


def _by_time(row: Mapping[str, Any]) -> float:
    return float(row["time"] if "time" in row else row["created"])


def read_stored(content: bytes, place: str | Path) -> Protocol:
    """Read the protocol as a campaign stores it: TOML, or JSON where it was made in Python."""
    text = content.decode()
    if text.startswith("{"):
        import msgspec  # noqa: PLC0415

        return msgspec.json.decode(content, type=Protocol)
    return read_protocol(text, f"{without_password(place)} (protocol)")
