"""What a campaign was made of, as its database keeps it."""

from __future__ import annotations

import gzip
import hashlib
from functools import cached_property
from pathlib import Path

import msgspec
from msgspec import UNSET
from sqlalchemy.engine import Connection

from aliquot.collect import creating
from aliquot.collect.allocation import Allocation
from aliquot.collect.new_campaign import UnitOptions
from aliquot.collect.protocols import Protocol, read_protocol
from aliquot.collect.rebuilding import read_rows, seals_of
from aliquot.collect.statements import sql
from aliquot.collect.store import Store
from aliquot.collect.tokens import secret_path
from aliquot.collect.unit_texts import UnitTexts
from aliquot.core.evalset import EvalSet
from aliquot.core.selection import Selection
from aliquot.io.formats import items as item_lines
from aliquot.io.formats.campaign import REDERIVE, SEALED, require_sealed
from aliquot.io.formats.campaign_database import build_damage_error, without_password


class CampaignFacts(msgspec.Struct, frozen=True):
    """What the table `meta` says of a campaign and never changes."""

    id: str = msgspec.field(name="campaign")
    title: str
    seed: int
    assign: str
    settings: str
    data_name: str
    human: str
    locale: str = "en"


class StoredInputs:
    """What a campaign was made of, read from its database: protocol, data, selections, settings.

    Each is read once. `forget_data` has the data read again, after others were stored.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self._data: EvalSet | None = None
        self._texts: UnitTexts | None = None

    @cached_property
    def must_rederive(self) -> bool:
        """Whether the campaign is of an older version whose tables are to be made again from the log."""
        return REDERIVE in self._meta

    @cached_property
    def _meta(self) -> dict[str, str]:
        with self.store.read() as connection:
            rows = read_rows(connection, "meta")
            meta: dict[str, str] = {row["key"]: row["value"] for row in rows.as_dicts()}
            if REDERIVE not in meta:  # from here on they are what was written, down to the last key
                seals = seals_of(connection)
                require_sealed(self.store.place, "meta", rows, seals)
                require_sealed(self.store.place, "inputs", read_rows(connection, "inputs", SEALED["inputs"]), seals)
        return meta

    @cached_property
    def facts(self) -> CampaignFacts:
        """The campaign's id, title, seed and settings."""
        try:
            return msgspec.convert(self._meta, CampaignFacts, strict=False)
        except msgspec.ValidationError as error:
            raise build_damage_error(self.store.place, f"the table meta is not complete ({error})") from None

    def _read_input(self, name: str) -> bytes | None:
        """Return the content of the newest input of this name."""
        query = sql("SELECT content, sha256 FROM inputs WHERE name LIKE :like ORDER BY name DESC LIMIT 1")
        with self.store.read() as connection:
            row = connection.execute(query, {"like": f"{name}%"}).one_or_none()
        if row is None:
            return None
        content = b"" if isinstance(row.content, str | None) else bytes(row.content)
        if hashlib.sha256(content).hexdigest() != row.sha256:
            raise build_damage_error(self.store.place, f"the checksum of the input '{name}' does not fit")
        return content

    @cached_property
    def protocol(self) -> Protocol:
        """The protocol, as it was when the campaign was made."""
        content = self._read_input("protocol")
        if content is None:
            raise build_damage_error(self.store.place, "the protocol is missing")
        return read_stored_protocol(content, self.store.place)

    @property
    def data(self) -> EvalSet:
        """The data that are judged."""
        if self._data is None:
            content = self._read_input("data")
            if content is None:
                raise build_damage_error(self.store.place, "the data are missing")
            evalset = item_lines.read(gzip.decompress(content), self.facts.data_name)
            self._data = evalset.with_human(self.facts.human) if self.facts.human else evalset
        return self._data

    def texts(self) -> UnitTexts:
        """Return the texts that units show."""
        if self._texts is None:
            self._texts = UnitTexts(self.data, self.protocol)
        return self._texts

    def forget_data(self) -> None:
        """Read the data again when they are needed next."""
        self._data = self._texts = None

    @cached_property
    def unit_options(self) -> UnitOptions:
        """How units were cut, for units that are added later."""
        return msgspec.json.decode(self.facts.settings, type=UnitOptions)

    @cached_property
    def allocation(self) -> Allocation | None:
        """The allocator that the queue follows, or None where units are given from the beginning."""
        options = self.unit_options.allocate
        return None if options is UNSET else Allocation(self.data, self.protocol, options, self.facts.seed)

    @property
    def selection(self) -> Selection | None:
        """The selection that is judged, or None where all items are."""
        if self.allocation is not None:
            with self.store.read() as connection:
                return self.allocation.selection(connection)
        content = self._read_input("selection")
        return None if content is None else creating.read_selection(content)

    @property
    def key_file(self) -> Path:
        """The file with the secret that links are made of."""
        return secret_path(self.store.place, self.facts.id)


def judgments_per_output(connection: Connection) -> int:
    """Return how many finished judgments every output gets."""
    return int(meta_value(connection, "per_output"))


def meta_value(connection: Connection, key: str, default: str | None = None) -> str:
    """Return one entry of the table `meta`; campaigns of older versions lack some."""
    value = connection.execute(sql("SELECT value FROM meta WHERE key = :key"), {"key": key}).scalar()
    return str(default if value is None else value)


def campaign_state(connection: Connection) -> str:
    """Return open, paused or closed."""
    return meta_value(connection, "state")


def read_stored_protocol(content: bytes, place: str | Path) -> Protocol:
    """Read the protocol as a campaign stores it: TOML, or JSON where it was made in Python."""
    text = content.decode()
    if text.startswith("{"):
        return msgspec.json.decode(content, type=Protocol)
    return read_protocol(text, f"{without_password(place)} (protocol)")
