"""Making a campaign: inputs are stored unchanged, units are cut, annotators get their links; whole or not at all."""

from __future__ import annotations

import gzip
import hashlib
import secrets
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError

from aliquot._version import __version__
from aliquot.collect import event_types as kinds
from aliquot.collect.events import Log
from aliquot.collect.lists import make_fixed_lists
from aliquot.collect.new_campaign import NewCampaign
from aliquot.collect.schema import create as create_tables
from aliquot.collect.schema import make_engine, remove_beside
from aliquot.collect.statements import NUMBERING, encode, one_at_a_time, sql, update_seal
from aliquot.collect.store import Clock
from aliquot.collect.tokens import CROWD, ORGANISER, make_token, new_secret, token_hash
from aliquot.collect.unit_texts import UnitTexts
from aliquot.collect.units import Unit
from aliquot.core.evalset import EvalSet
from aliquot.core.selection import Selection
from aliquot.errors import DataError, OptionError, OutputError
from aliquot.io.formats import items as item_lines
from aliquot.io.writing import atomic_file

OPEN = "open"


def create_file(path: Path, inputs: NewCampaign) -> None:
    """Make a campaign's file and its key, both or neither."""
    key = Path(f"{path}.key")
    for existing in (path, key):
        if existing.exists():
            raise OptionError(
                f"{existing}: exists already, and judgments are not overwritten; name another file, or delete it"
            )
    secret: bytes | None = None
    try:
        with atomic_file(path) as temporary:
            temporary.unlink()
            secret = new_secret(key)
            try:
                _fill_database(f"{temporary}", inputs, secret, path)
            finally:
                remove_beside(temporary)
    except BaseException:
        if secret is not None and not path.exists():
            key.unlink(missing_ok=True)
        raise


def create_at_url(url: str, inputs: NewCampaign) -> None:
    """Make a campaign in an empty PostgreSQL database; the key is in the working folder."""
    folder = Path.cwd()
    temporary = folder / f"aliquot-{secrets.token_hex(4)}.key"
    secret = new_secret(temporary)
    try:
        campaign = _fill_database(url, inputs, secret, "the database")
        temporary.replace(folder / f"aliquot-{campaign}.key")
    finally:
        temporary.unlink(missing_ok=True)


def _fill_database(place: str, inputs: NewCampaign, secret: bytes, named: str | Path) -> str:
    engine = make_engine(place)
    try:
        create_tables(engine)
        with engine.begin() as connection:
            return fill(connection, inputs, secret, Clock().now())
    except DBAPIError as error:
        raise OutputError(
            f"{named}: cannot be written ({error.orig}); free space or choose another -o; nothing was changed"
        ) from None
    finally:
        engine.dispose()


def fill(connection: Connection, inputs: NewCampaign, secret: bytes, now: float) -> str:
    """Write a new campaign into empty tables; return its id."""
    campaign = secrets.token_hex(8)
    settings, locale = inputs.settings, inputs.settings.locale or inputs.protocol.locale
    _store_inputs(connection, inputs)
    meta = {
        "campaign": campaign,
        "created": str(now),
        "aliquot": __version__,
        "state": OPEN,
        "title": settings.title or "",
        "seed": str(settings.seed),
        "assign": settings.assign,
        "per_output": str(settings.per_output),
        "locale": locale,
        "data": inputs.evalset.fingerprint,
        "data_name": inputs.evalset.name,
        "human": inputs.evalset.human or "",
        "settings": encode(inputs.unit_options),
        "organiser_number": "1",
        "crowd_hash": token_hash(make_token(secret, campaign, CROWD, 1)),
        "organiser_hash": token_hash(make_token(secret, campaign, ORGANISER, 1)),
    }
    rows = [{"key": key, "value": value} for key, value in meta.items()]
    connection.execute(sql("INSERT INTO meta (key, value) VALUES (:key, :value)"), rows)
    update_seal(connection, "meta", rows)
    texts = UnitTexts(inputs.evalset, inputs.protocol)
    log = Log(inputs.protocol, lambda: texts)
    facts = {name: meta[name] for name in ("campaign", "aliquot", "seed", "assign", "per_output", "data", "settings")}
    log.append(connection, now, "organiser", kinds.CampaignCreated(**facts, protocol=inputs.protocol.name))
    guidelines = kinds.GuidelinesWritten(version=1, locale=locale, text=settings.guidelines or "")
    log.append(connection, now, "organiser", guidelines)
    add_units(log, connection, inputs.units, settings.per_output, now)
    ids = add_annotators(log, connection, inputs.annotators, campaign, secret, now, locale, settings.seed)
    if settings.assign == "fixed":
        _plan_lists(log, connection, inputs, ids, now)
    return campaign


def _store_inputs(connection: Connection, inputs: NewCampaign) -> None:
    store_data(connection, inputs.evalset)
    _store_input(connection, "protocol", inputs.protocol_text.encode())
    if inputs.selection is not None:
        store_selection(connection, inputs.selection)


def store_selection(connection: Connection, selection: Selection) -> None:
    """Store a selection beside the earlier ones, which stay."""
    _store_input(connection, _next_name(connection, "selection"), _selection_bytes(selection))


def store_data(connection: Connection, evalset: EvalSet) -> None:
    """Store data beside the earlier ones, which stay."""
    _store_input(connection, _next_name(connection, "data"), _data_bytes(evalset))


def _next_name(connection: Connection, name: str) -> str:
    """The name of the next input of a kind: data, data.001, ... in order of their names."""
    query = sql("SELECT COUNT(*) FROM inputs WHERE name LIKE :like")
    count = int(connection.execute(query, {"like": f"{name}%"}).scalar() or 0)
    return f"{name}.{count:03}" if count else name


def _data_bytes(evalset: EvalSet) -> bytes:
    encode_line = msgspec.json.Encoder().encode
    data = b"".join(encode_line(record) + b"\n" for record in item_lines.iterate_records(evalset))
    return gzip.compress(data, compresslevel=6, mtime=0)


def _store_input(connection: Connection, name: str, content: bytes) -> None:
    row = {"name": name, "sha256": hashlib.sha256(content).hexdigest(), "content": content}
    connection.execute(sql("INSERT INTO inputs (name, sha256, content) VALUES (:name, :sha256, :content)"), row)
    update_seal(connection, "inputs", [row])


def _selection_bytes(selection: Selection) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "selection.jsonl"
        selection.save(path)
        return path.read_bytes()


def add_units(
    log: Log, connection: Connection, units: Sequence[Unit], wanted: int, now: float, kind: str = "work"
) -> None:
    """Append units, in their order, after those that are there."""
    one_at_a_time(connection, NUMBERING)
    first = int(connection.execute(sql("SELECT MAX(id) FROM units")).scalar() or 0)
    for number, unit in enumerate(units, start=first + 1):
        event = kinds.UnitAdded(
            id=number,
            rank=number,
            document=unit.document,
            systems=list(unit.systems),
            rows=[(row.item, row.context) for row in unit.rows],
            cells=[kinds.UnitCell(secrets.token_urlsafe(9), *cell) for cell in unit.cells(log.protocol)],
            wanted=wanted,
            kind=kind,
        )
        log.append(connection, now, "organiser", event)


def add_annotators(
    log: Log,
    connection: Connection,
    names: Sequence[str],
    campaign: str,
    secret: bytes,
    now: float,
    locale: str,
    seed: int,
    kind: str = "human",
) -> list[str]:
    """Add annotators (or automatic judges: kind `model`), each with a random place to begin at; return their ids."""
    one_at_a_time(connection, NUMBERING)
    names_in_use = {row.name for row in connection.execute(sql("SELECT name FROM annotators"))}
    twice = next((name for name in names if name in names_in_use), None)
    if twice is not None:
        raise DataError(f"there is an annotator '{twice}' already; choose another name")
    count = int(connection.execute(sql("SELECT COUNT(*) FROM units")).scalar() or 0)
    rng = np.random.default_rng([seed, len(names_in_use)])
    ids = []
    for number, name in enumerate(names, start=len(names_in_use) + 1):
        identity = f"a{number}"  # never leaves the server
        event = kinds.AnnotatorAdded(
            id=identity,
            name=name,
            kind=kind,
            locale=locale,
            token_number=1,
            token_hash=token_hash(make_token(secret, campaign, identity, 1)),
            offset_rank=int(rng.integers(1, max(count, 1) + 1)),
        )
        log.append(connection, now, "organiser", event)
        ids.append(identity)
    return ids


def _plan_lists(log: Log, connection: Connection, inputs: NewCampaign, ids: Sequence[str], now: float) -> None:
    settings = inputs.settings
    lists = make_fixed_lists([unit.systems for unit in inputs.units], ids, settings.per_output, settings.seed)
    for who, entries in lists.items():
        for position, (number, slots) in enumerate(entries, start=1):
            event = kinds.UnitPlanned(
                assignment=secrets.token_urlsafe(12),
                unit=number + 1,
                annotator=who,
                position=position,
                slots=slots,
                policy="fixed",
                seed=settings.seed,
                probability=1.0,
            )
            log.append(connection, now, "organiser", event)


def read_selection(content: bytes) -> Selection:
    """Read a selection as a campaign stores it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "selection.jsonl"
        path.write_bytes(content)
        return Selection.load(path)
