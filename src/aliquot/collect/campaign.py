"""Campaign: a selection being judged. How it is made, its links and people, and what comes out of it.

Every change is an event in the log and on the disk before a method returns. Methods may be called from many threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
from sqlalchemy.engine import Connection

from aliquot.collect import creating, crowd, exporting
from aliquot.collect import event_types as kinds
from aliquot.collect.admission import Admission
from aliquot.collect.annotator_pages import AnnotatorPages
from aliquot.collect.events import Log
from aliquot.collect.judges import add_unselected
from aliquot.collect.new_campaign import CampaignSettings, annotator_names, gather_inputs
from aliquot.collect.people import FORGOTTEN, VALID, WITHDRAWN, erase_person
from aliquot.collect.protocols import Protocol
from aliquot.collect.rebuilding import CheckResult, check_tables, rederive_tables
from aliquot.collect.schema import is_url
from aliquot.collect.statements import lock_statement, set_meta, sql
from aliquot.collect.status import Status, status_of
from aliquot.collect.store import Store
from aliquot.collect.stored_inputs import StoredInputs, campaign_state, judgments_per_output, meta_value
from aliquot.collect.tokens import CROWD, ORGANISER, Links, make_token, new_secret, read_secret, token_hash
from aliquot.collect.unit_texts import UnitTexts, expected_seconds
from aliquot.core.evalset import EvalSet
from aliquot.core.judgments import Judgments
from aliquot.core.selection import Selection
from aliquot.errors import DataError, OptionError, unknown_name
from aliquot.io.formats import campaign as campaign_file
from aliquot.io.inputs import DataLike, SelectionLike, as_evalset
from aliquot.validation import one_of

KINDS = ("human", "model")


class Campaign:
    """A campaign in its database: created once, opened by the server, by verbs, and in Python.

    Attributes:
        inputs: what the campaign was made of.
        facts: its id, title, seed and settings.
        log: its events.
        pages: what annotators do.
        admission: who gets in by which link.
    """

    # -- making and opening ----------------------------------------------------------------------------------------

    def __init__(self, store: Store) -> None:
        self.store = store
        self.inputs = StoredInputs(store)
        self.facts = self.inputs.facts
        self.log = Log(self.inputs.protocol, self.inputs.texts)
        if self.inputs.must_rederive:
            rederive_tables(store, self.inputs.protocol, self.inputs.texts)
        self.pages = AnnotatorPages(store, self.log, self.inputs)
        self.admission = Admission(store, self.log, self.inputs)

    @classmethod
    def create(
        cls,
        data: DataLike,
        selection: SelectionLike | None = None,
        protocol: str | Path | Protocol = "esa",
        annotators: int | Sequence[str] = 3,
        *,
        path: str | Path = "campaign.db",
        **settings: Any,
    ) -> Campaign:
        """Make a campaign of data, a selection of them and a protocol; the file is written whole or not at all.

        Args:
            data: what is judged, with outputs.
            selection: the items to judge; all of them when not given.
            protocol: the name of a preset, a TOML file, or a Protocol.
            annotators: how many, or their names.
            path: the new file, or the URL of an empty PostgreSQL database.
            settings: the fields of `CampaignSettings`: per_output, assign, seed, guidelines, locale, title, pairs,
                unit_items, skip_missing; and allocate, question, budget, by which the campaign decides while people
                judge.
        """
        inputs = gather_inputs(data, selection, protocol, annotators, CampaignSettings(**settings))
        if is_url(path):
            creating.create_at_url(str(path), inputs)
        else:
            creating.create_file(Path(path), inputs)
        return cls.open(path)

    @classmethod
    def open(cls, path: str | Path) -> Campaign:
        """Open a campaign's file or URL."""
        store = Store(path)
        try:
            return cls(store)
        except BaseException:
            store.close()
            raise

    def close(self) -> None:
        """Finish what is being written and close the database."""
        self.store.close()

    def __enter__(self) -> Campaign:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def data(self) -> EvalSet:
        """The data that are judged."""
        return self.inputs.data

    @property
    def protocol(self) -> Protocol:
        """The protocol, as it was when the campaign was made."""
        return self.inputs.protocol

    @property
    def selection(self) -> Selection | None:
        """The selection that is judged, or None where all items are."""
        return self.inputs.selection

    # -- links -----------------------------------------------------------------------------------------------------

    def links(self, base_url: str = "http://127.0.0.1:8000", *, new: bool = False) -> Links:
        """Return the organiser's link and each annotator's; `new` withdraws all links and makes others."""
        if new:
            self._renew_links()
        secret = read_secret(self.inputs.key_file)
        base = base_url.rstrip("/")
        with self.store.read() as connection:
            rows = connection.execute(
                sql(
                    "SELECT id, name, token_number, token_hash FROM annotators WHERE link = 'valid' ORDER BY "
                    "created, name"
                )
            ).all()
            meta = {row.key: row.value for row in connection.execute(sql("SELECT key, value FROM meta"))}
        organiser = make_token(secret, self.facts.id, ORGANISER, int(meta["organiser_number"]))
        tokens = {row.name: make_token(secret, self.facts.id, row.id, row.token_number) for row in rows}
        hashes = {row.name: row.token_hash for row in rows}
        fits = all(token_hash(token) == hashes[name] for name, token in tokens.items())
        if not fits or token_hash(organiser) != meta["organiser_hash"]:
            raise DataError(
                f"{self.inputs.key_file}: belongs to another campaign, or to older links; put the right file "
                "back, or make new links: aliquot collect links CAMPAIGN --new"
            )
        shared = make_token(secret, self.facts.id, CROWD, int(meta.get("crowd_number", "1")))
        urls = {name: f"{base}/{crowd.page_route(name)}/{token}" for name, token in tokens.items()}
        return Links(f"{base}/o/{organiser}", urls, crowd.shared_links(f"{base}/c/{shared}"))

    def _renew_links(self) -> None:
        secret = new_secret(self.inputs.key_file)

        def change(connection: Connection) -> None:
            now = self.store.clock.now()
            rows = connection.execute(sql("SELECT id, token_number FROM annotators WHERE link <> 'forgotten'")).all()
            for row in rows:
                number = row.token_number + 1
                token = token_hash(make_token(secret, self.facts.id, row.id, number))
                event = kinds.LinkRenewed(id=row.id, token_number=number, token_hash=token)
                self.log.append(connection, now, "organiser", event)
            number = int(meta_value(connection, "organiser_number")) + 1
            set_meta(connection, "organiser_number", str(number))
            set_meta(
                connection,
                "organiser_hash",
                token_hash(make_token(secret, self.facts.id, ORGANISER, number)),
            )
            self._renew_shared(connection, secret)
            self.log.append(connection, now, "organiser", kinds.LinksRenewed(annotators=len(rows)))

        self.store.write(change)

    def _renew_shared(self, connection: Connection, secret: bytes) -> None:
        number = int(meta_value(connection, "crowd_number", "1")) + 1
        set_meta(connection, "crowd_number", str(number))
        set_meta(connection, "crowd_hash", token_hash(make_token(secret, self.facts.id, CROWD, number)))

    # -- annotators ------------------------------------------------------------------------------------------------

    def add_annotators(self, names: Sequence[str], kind: str = "human") -> None:
        """Add annotators; their links are among `links()`.

        With the kind "model" they are automatic judges, which answer by the same calls as pages. Their judgments are a
        metric (`judge:NAME`), never part of a human score; so that the metric covers the whole set, they also judge
        what was not selected.
        """
        one_of("kind", kind, KINDS)
        named = annotator_names(list(names))
        secret = read_secret(self.inputs.key_file)

        def change(connection: Connection) -> None:
            now = self.store.clock.now()
            creating.add_annotators(
                self.log,
                connection,
                named,
                self.facts.id,
                secret,
                now,
                self.facts.locale,
                self.facts.seed,
                kind,
            )
            if kind == "model":
                add_unselected(self.log, connection, self.data, self.protocol, self.facts.seed, now)

        self.store.write(change)

    def add_systems(self, data: DataLike, reason: str = "") -> tuple[str, ...]:
        """Let new systems be judged on the items of the campaign; return their names.

        Args:
            data: the campaign's data with the outputs of more systems.
            reason: why; it stands in the audit log.
        """
        if self.inputs.allocation is not None or self.facts.assign == "fixed":
            raise OptionError(
                "systems can join a campaign with a shared queue that follows no allocator only; make a new one"
            )
        wider = as_evalset(data)
        before = self.data
        fresh = tuple(name for name in wider.systems if name not in before.systems)
        gone = [name for name in before.systems if name not in wider.systems]
        if gone or wider.ids != before.ids:
            what = f"lack the system '{gone[0]}'" if gone else "have other items, or in another order"
            raise DataError(f"{wider.name}: these data {what}; give the campaign's data with more outputs")
        if not fresh:
            raise DataError(f"{wider.name}: there is no system that the campaign does not have already")
        selection = self.selection
        ids = tuple(before.ids) if selection is None else selection.ids
        cells = Selection(ids, before.n_items, "added", systems=(fresh,) * len(ids))
        seed = self.facts.seed + len(before.systems)
        units = self.inputs.unit_options.cut(wider, cells, self.protocol, seed)
        texts = UnitTexts(wider, self.protocol)
        log = Log(self.protocol, lambda: texts)  # the new data are not committed yet

        def change(connection: Connection) -> None:
            now = self.store.clock.now()
            creating.store_data(connection, wider)
            log.append(connection, now, "organiser", kinds.SystemsAdded(systems=list(fresh), reason=reason))
            creating.add_units(log, connection, units, judgments_per_output(connection), now)

        self.store.write(change)
        self.inputs.forget_data()
        return fresh

    def change_guidelines(self, text: str, reason: str = "") -> int:
        """Show annotators another text from now on; return its version, which later judgments carry."""

        def change(connection: Connection) -> int:
            version = int(connection.execute(sql("SELECT MAX(version) FROM guidelines")).scalar() or 0) + 1
            now = self.store.clock.now()
            written = kinds.GuidelinesWritten(version=version, locale=self.facts.locale, text=text)
            self.log.append(connection, now, "organiser", written)
            self.log.append(connection, now, "organiser", kinds.GuidelinesChanged(version=version, reason=reason))
            return version

        return self.store.write(change)

    def revoke(self, name: str, reason: str = "") -> None:
        """Withdraw an annotator's link; work that was not submitted goes back to the others, judgments stay."""

        def change(connection: Connection) -> None:
            now = self.store.clock.now()
            identity = self.identity(connection, name)
            self.free_units(connection, identity, for_good=True)
            event = kinds.AnnotatorChanged(id=identity, link=WITHDRAWN, reason=reason)
            self.log.append(connection, now, "organiser", event)

        self.store.write(change)

    def free_units(self, connection: Connection, identity: str, *, for_good: bool = False) -> int:
        """Give an annotator's open units to the others and return how many; for good, also the rest of a fixed list."""
        states = "('leased', 'planned')" if for_good else "('leased')"
        query = sql(f"SELECT id, policy FROM assignments WHERE annotator_id = :id AND state IN {states}")
        rows = connection.execute(query, {"id": identity}).all()
        now = self.store.clock.now()
        for row in rows:
            event: kinds.Event = (
                kinds.AssignmentRevoked(assignment=row.id)
                if for_good
                else kinds.LeaseExpired(assignment=row.id, keep=row.policy == "fixed")
            )
            self.log.append(connection, now, "organiser", event)
        return len(rows)

    def renew_shared_links(self, reason: str = "") -> None:
        """Make new shared links for crowds; older ones let nobody in any more. Links of annotators stay."""
        secret = read_secret(self.inputs.key_file)

        def change(connection: Connection) -> None:
            self._renew_shared(connection, secret)
            event = kinds.LinksRenewed(annotators=0, link="shared", reason=reason)
            self.log.append(connection, self.store.clock.now(), "organiser", event)

        self.store.write(change)

    def renew_link(self, name: str, reason: str = "") -> None:
        """Give an annotator a new link; older ones never work again. Also after the link was withdrawn."""
        secret = read_secret(self.inputs.key_file)

        def change(connection: Connection) -> None:
            identity = self.identity(connection, name)
            query = sql("SELECT token_number FROM annotators WHERE id = :id")
            number = int(connection.execute(query, {"id": identity}).scalar() or 0) + 1
            now = self.store.clock.now()
            token = token_hash(make_token(secret, self.facts.id, identity, number))
            link = kinds.LinkRenewed(id=identity, token_number=number, link=VALID, token_hash=token)
            self.log.append(connection, now, "organiser", link)
            self.log.append(connection, now, "organiser", kinds.LinksRenewed(id=identity, annotators=1, reason=reason))

        self.store.write(change)

    def identity(self, connection: Connection, name: str, *, also_forgotten: bool = False) -> str:
        """Return the id of an annotator by name; raise for forgotten people unless they are meant, too."""
        rows = connection.execute(sql("SELECT id, name, link FROM annotators")).all()
        person = next((row for row in rows if row.name == name), None)
        if person is None:
            raise unknown_name("annotator", name, [row.name for row in rows if row.link != FORGOTTEN])
        if person.link == FORGOTTEN and not also_forgotten:
            raise OptionError(f"'{name}' was forgotten, and stays so; add the person under a new name instead")
        return str(person.id)

    # -- results ---------------------------------------------------------------------------------------------------

    def status(self) -> Status:
        """Return who did how much, how fast, and when the campaign will be finished."""
        with self.store.read() as connection:
            return status_of(connection, self.facts.title, self.protocol.name, self.store.clock.now())

    def state(self) -> str:
        """Return open, paused or closed."""
        with self.store.read() as connection:
            return campaign_state(connection)

    def counts(self) -> dict[str, float]:
        """Return how many units and cells there are, and how many seconds of work are expected in all."""
        with self.store.read() as connection:
            rows = connection.execute(sql("SELECT n_cells, n_chars, wanted FROM units")).all()
        seconds = sum(expected_seconds(row.n_cells, row.n_chars) * row.wanted for row in rows)
        return {"units": len(rows), "cells": sum(row.n_cells for row in rows), "seconds": seconds}

    def judgments(self) -> Judgments:
        """Return the judgments of all submitted units, as `estimate` and the other verbs read them."""
        return Judgments(campaign_file.read_judgments(self.store.place))

    def choices(self) -> pl.DataFrame:
        """Return the comparisons, as `compare` reads them; empty where the protocol asks for none."""
        return campaign_file.read_table(self.store.place, "choices")

    def export(self, path: str | Path, *, what: str = "judgments", format: str = "table") -> int:  # noqa: A002
        """Write judgments (or choices) by the path's ending, or as MQM TSV; return the number of rows."""
        exporting.check_what(what, format)
        frame = self.choices() if what == "choices" else campaign_file.read_judgments(self.store.place)
        if format == "mqm":
            exporting.write_mqm(frame, self.data, path)
        else:
            exporting.write_table(frame, path)
        return frame.height

    def check(self) -> CheckResult:
        """Build all tables again from the log and compare them with those that are there."""
        with self.store.read() as connection:
            return check_tables(connection, self.protocol, self.inputs.texts, self.store.place)

    def forget(self, name: str, reason: str = "") -> str:
        """Delete what an annotator answered and said, from the tables and from the log; return the new name."""

        def change(connection: Connection) -> str:
            identity = self.identity(connection, name)
            names = set(connection.execute(sql("SELECT name FROM annotators")).scalars())
            connection.execute(lock_statement(connection, "SELECT id FROM annotators WHERE id = :id"), {"id": identity})
            alias = f"forgotten-{identity}"
            while alias in names:
                alias += "-"
            now = self.store.clock.now()
            self.free_units(connection, identity, for_good=True)
            erase_person(connection, identity, alias)
            event = kinds.AnnotatorForgotten(id=identity, alias=alias, reason=reason)
            self.log.append(connection, now, "organiser", event)
            return alias

        alias = self.store.write(change)
        if self.inputs.allocation is not None:
            self.inputs.allocation.forget()
        self.store.vacuum()
        return alias
