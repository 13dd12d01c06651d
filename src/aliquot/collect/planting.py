"""Which check an annotator gets next: a damaged copy or a second showing of own work, or an output of known score.

A planted unit looks like any other. It is made when it is served, for one annotator, by a draw that depends on the
campaign's seed, the annotator and the position only. Events keep what was planted; grading happens on the server.
"""

from __future__ import annotations

import secrets
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sqlalchemy.engine import Connection

from aliquot.collect import event_types as kinds
from aliquot.collect.checks import AnnotatorCard, annotator_cards, damage_text
from aliquot.collect.event_types import UnitCell
from aliquot.collect.events import Lease, Log, find_lease
from aliquot.collect.people import is_model
from aliquot.collect.protocols import Checks, Gold
from aliquot.collect.queue import lease_expiry
from aliquot.collect.statements import NUMBERING, encode, one_at_a_time, sql
from aliquot.collect.unit_texts import Cell, ShownUnit, UnitTexts
from aliquot.core.evalset import ItemId
from aliquot.core.judgments import Judgments

CHECK = "check"
CONTROL = "control"  # the word that `clean` knows for cells that test annotators
_GAP = 2  # work units from an output to its copy: one is between them
_GOLD_SHARE = 0.2
_TRIES = 20


@dataclass(frozen=True)
class _Planted:
    document: str | None
    systems: list[str]
    rows: list[tuple[ItemId, bool]]
    cells: list[UnitCell]
    texts: dict[str, str]
    origin: str  # what must not be planted again for this annotator
    kind: str


def plant_check(log: Log, connection: Connection, annotator: str, now: float, seed: int) -> Lease | None:
    """Serve a check if it is time for one; None otherwise."""
    checks = log.protocol.checks
    if not (checks.damaged or checks.repeats or checks.gold) or is_model(connection, annotator):
        return None
    position = int(
        connection.execute(sql("SELECT COUNT(*) FROM assignments WHERE annotator_id = :id"), {"id": annotator}).scalar()
        or 0
    )
    rng = np.random.default_rng([seed, zlib.crc32(annotator.encode()), position])
    made = _choose_check(log, connection, annotator, checks, rng)
    return None if made is None else _serve_check(log, connection, annotator, made, position, now, seed)


def _choose_check(
    log: Log, connection: Connection, annotator: str, checks: Checks, rng: np.random.Generator
) -> _Planted | None:
    drawn = float(rng.random())
    makers: list[tuple[float, Callable[[], _Planted | None]]] = [
        (checks.damaged, lambda: _copy_cell(log, connection, annotator, rng, damage=True)),
        (checks.repeats, lambda: _copy_cell(log, connection, annotator, rng, damage=False)),
        (_GOLD_SHARE if checks.gold else 0.0, lambda: _plant_gold(log, connection, annotator, checks.gold, rng)),
    ]
    for share, make in makers:
        if drawn < share:
            return make()
        drawn -= share
    return None


def _list_planted(connection: Connection, annotator: str) -> set[str]:
    """What was planted for this annotator already."""
    rows = connection.execute(
        sql(
            "SELECT c.repeat_of, c.item, c.system FROM cells c JOIN units u ON u.id = c.unit_id JOIN assignments a ON "
            "a.unit_id = u.id WHERE a.annotator_id = :id AND u.kind = 'check'"
        ),
        {"id": annotator},
    )
    return {key for row in rows for key in (row.repeat_of, f"{row.item}/{row.system}") if key is not None}


def _copy_cell(
    log: Log, connection: Connection, annotator: str, rng: np.random.Generator, *, damage: bool
) -> _Planted | None:
    """A cell of the annotator's own finished work, as it was or damaged, with its neighbours as context."""
    finished = (
        connection.execute(
            sql(
                "SELECT a.unit_id FROM assignments a JOIN units u ON u.id = a.unit_id WHERE a.annotator_id = :id AND "
                "a.state = 'done' AND u.kind = 'work' ORDER BY a.position DESC LIMIT 200"
            ),
            {"id": annotator},
        )
        .scalars()
        .all()[_GAP - 1 :]
    )
    if not finished:
        return None
    used = _list_planted(connection, annotator)
    for _ in range(_TRIES):
        shown_unit = log.show_unit(connection, int(finished[int(rng.integers(len(finished)))]))
        cells = [
            c for c in shown_unit.cells.values() if c.scope == ("output" if damage else c.scope) and c.row is not None
        ]
        if not cells or (damage and len(shown_unit.systems) > 1):
            return None  # comparisons have no score of one output that damage could lower
        cell = cells[int(rng.integers(len(cells)))]
        if cell.id in used:
            continue
        made = _plant_copy(shown_unit, cell, rng, log.texts() if damage else None)
        if made is not None:
            return made
    return None


def _plant_copy(
    shown_unit: ShownUnit, cell: Cell, rng: np.random.Generator, texts: UnitTexts | None
) -> _Planted | None:
    number, row = cell.row or 0, shown_unit.row(cell)
    rows = [(near.item, near.item != row.item) for near in shown_unit.rows[max(0, number - 2) : number + 3]]
    places = [(None, row.cell), *zip(shown_unit.systems, (output.cell for output in row.outputs), strict=True)]
    if texts is None:
        cells = [
            UnitCell(secrets.token_urlsafe(9), row.item, system, repeat_of=original)
            for system, original in places
            if original
        ]
        return _Planted(shown_unit.document, list(shown_unit.systems), rows, cells, {}, cell.id, "repeat")
    donor = _draw_donor_text(texts, shown_unit.systems[cell.output or 0], row.item, rng)
    damaged_text = damage_text(shown_unit.output(cell).text, donor, rng)
    if damaged_text is None:
        return None
    # The copy is compared with the annotator's own judgment of the same item and system, which `clean` looks up.
    cells = [
        UnitCell(secrets.token_urlsafe(9), row.item, system, control=CONTROL)
        for system, original in places
        if system and original
    ]
    return _Planted(
        shown_unit.document, list(shown_unit.systems), rows, cells, {cells[0].id: damaged_text}, cell.id, "damaged"
    )


def _draw_donor_text(texts: UnitTexts, system: str, item: ItemId, rng: np.random.Generator) -> str:
    column = texts.outputs[system]
    for _ in range(_TRIES):
        row = int(rng.integers(len(column)))
        if row != texts.row_of[item] and column[row]:
            return str(column[row])
    return ""


def _plant_gold(
    log: Log, connection: Connection, annotator: str, gold: tuple[Gold, ...], rng: np.random.Generator
) -> _Planted | None:
    """An output with a known range that this annotator has not seen."""
    used = _list_planted(connection, annotator)
    unused = [entry for entry in gold if f"{encode(entry.item)}/{entry.system}" not in used]
    if not unused:
        return None
    entry = unused[int(rng.integers(len(unused)))]
    if entry.item not in log.texts().row_of:
        return None
    cell = UnitCell(
        secrets.token_urlsafe(9), entry.item, entry.system, control=CONTROL, expected=(entry.low, entry.high)
    )
    return _Planted(None, [entry.system], [(entry.item, False)], [cell], {}, "", "gold")


def _serve_check(
    log: Log, connection: Connection, annotator: str, made: _Planted, position: int, now: float, seed: int
) -> Lease | None:
    one_at_a_time(connection, NUMBERING)
    number = int(connection.execute(sql("SELECT MAX(id) FROM units")).scalar() or 0) + 1
    unit = kinds.UnitAdded(
        id=number,
        rank=number,
        document=made.document,
        systems=made.systems,
        rows=made.rows,
        cells=made.cells,
        wanted=1,
        kind=CHECK,
        texts=made.texts,
    )
    log.append(connection, now, "system", unit)
    assignment = secrets.token_urlsafe(12)
    lease = kinds.UnitLeased(
        assignment=assignment,
        unit=number,
        annotator=annotator,
        position=position + 1,
        slots=list(range(len(made.systems))),
        policy=CHECK,
        seed=seed,
        probability=1.0,
        expires=lease_expiry(connection, number, now),
    )
    log.append(connection, now, annotator, lease)
    return find_lease(connection, assignment)


def grade_annotator(log: Log, connection: Connection, annotator: str) -> AnnotatorCard | None:
    """The card of one annotator from what is stored; None before the first judgment."""
    import polars as pl  # noqa: PLC0415  (only where an organiser's rule asks for it)

    rows = (
        connection.execute(
            sql(
                'SELECT item, system, annotator, criterion, value, seconds, control, expected, "repeat", page, spans, '
                "error, marked FROM judgments WHERE annotator = (SELECT name FROM annotators WHERE id = :id)"
            ),
            {"id": annotator},
        )
        .mappings()
        .all()
    )
    if not rows:
        return None
    table = pl.DataFrame([dict(row) for row in rows], infer_schema_length=None)
    floors = page_floors(log, connection, annotator)
    cards = annotator_cards(Judgments(table.with_columns(pl.col("error").cast(pl.String))), floor=floors)
    return cards[0] if cards else None


def page_floors(log: Log, connection: Connection, annotator: str | None = None) -> dict[str, float]:
    """The fewest seconds that reading each finished unit takes, by the protocol's floor; empty without one."""
    floor = log.protocol.checks.floor_seconds_per_char
    if not floor:
        return {}
    rows = connection.execute(
        sql(
            "SELECT a.id, u.n_chars FROM assignments a JOIN units u ON u.id = a.unit_id WHERE a.state = 'done' AND "
            "(:id IS NULL OR a.annotator_id = :id)"
        ),
        {"id": annotator},
    )
    return {row.id: floor * row.n_chars for row in rows}
