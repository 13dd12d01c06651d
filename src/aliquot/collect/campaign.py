"""Campaign: a selection being judged. How it is made, its links and people, and what comes out of it.

Every change is an event in the log and on the disk before a method returns. Methods may be called from many threads.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import polars as pl
from msgspec import UNSET, UnsetType
from sqlalchemy.engine import Connection

from aliquot.collect import creating, crowd, exporting
from aliquot.collect import event_types as kinds
from aliquot.collect.errors import CollectError
from aliquot.collect.gathering import annotator_names, gather
from aliquot.collect.judges import add_unselected
from aliquot.collect.opened import campaign_state, meta_value
from aliquot.collect.people import FORGOTTEN, VALID, WITHDRAWN, Extra, erase_person
from aliquot.collect.protocols import Protocol
from aliquot.collect.rebuilding import CheckResult, check
from aliquot.collect.schema import is_url
from aliquot.collect.serving import ServedCampaign
from aliquot.collect.statements import NUMBERING, locking, one_at_a_time, set_meta, sql
from aliquot.collect.status import Status, status_of
from aliquot.collect.store import Store
from aliquot.collect.tokens import CROWD, ORGANISER, Links, make_token, new_secret, read_secret, token_hash
from aliquot.collect.unit_texts import UnitTexts, expected_seconds
from aliquot.collect.units import UNIT_ITEMS, make_units
from aliquot.core.judgments import Judgments
from aliquot.core.selection import Selection
from aliquot.errors import DataError, OptionError, unknown_name
from aliquot.io.formats import campaign as campaign_file
from aliquot.io.inputs import DataLike, SelectionLike, as_evalset

KINDS = ("human", "model")


class Campaign(ServedCampaign):
    """A campaign in its database: created once, opened by the server, by verbs, and in Python."""

    # -- making and opening ----------------------------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        data: DataLike,
        selection: SelectionLike | None = None,
        protocol: str | Path | Protocol = "esa",
        annotators: int | Sequence[str] = 3,
        *,
        per_output: int = 1,
        path: str | Path = "campaign.db",
        assign: str = "shared",
        seed: int = 0,
        guidelines: str | None = None,
        locale: str | None = None,
        pairs: str = "balanced",
        unit_items: int = UNIT_ITEMS,
        skip_missing: bool = False,
        title: str | None = None,
        allocate: str | None = None,
        question: str = "top",
        budget: int | str | None = None,
    ) -> Campaign:
        """Make a campaign of data, a selection of them and a protocol; the file is written whole or not at all.

        Args:
            data: what is judged, with outputs.
            selection: the items to judge; all of them when not given.
            protocol: the name of a preset, a TOML file, or a Protocol.
            annotators: how many, or their names.
            per_output: finished judgments of each output, all by different annotators.
            path: the new file, or the URL of an empty PostgreSQL database.
            assign: "shared" (whoever comes first takes the next unit) or "fixed" (a list for each annotator).
            seed: same seed, same units in the same order.
            guidelines: a text (Markdown) that annotators can look up.
            locale: the language of the page: en, de, cs, zh or ar; by default the protocol's.
            pairs: for comparisons, "balanced" or "all".
            unit_items: at most so many items in a unit.
            skip_missing: leave out outputs that are missing, instead of refusing the data.
            title: what annotators see above the page.
            allocate: a policy (auto, uniform, rank:power=1, ...) that decides while people judge which system is judged
                next on which item; without a selection.
            question: what the policy should find out: top, ranking, best, means, or pairs "A:B,C:D".
            budget: cells at the most that the policy may ask for, or a share of all ("30%").
        """
        inputs = gather(
            data,
            selection,
            protocol,
            annotators,
            per_output=per_output,
            assign=assign,
            seed=seed,
            guidelines=guidelines,
            locale=locale,
            pairs=pairs,
            unit_items=unit_items,
            skip_missing=skip_missing,
            title=title,
            allocate=allocate,
            question=question,
            budget=budget,
        )
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

    # -- links -----------------------------------------------------------------------------------------------------

    def links(self, base_url: str = "http://127.0.0.1:8000", *, new: bool = False) -> Links:
        """Return the organiser's link and each annotator's; `new` withdraws all links and makes others."""
        if new:
            self._renew_links()
        secret = read_secret(self.key_file)
        base = base_url.rstrip("/")
        with self.store.read() as connection:
            rows = connection.execute(
                sql(
                    "SELECT id, name, token_number, token_hash FROM annotators WHERE link = 'valid' ORDER BY "
                    "created, name"
                )
            ).all()
            meta = {row.key: row.value for row in connection.execute(sql("SELECT key, value FROM meta"))}
        organiser = make_token(secret, self.id, ORGANISER, int(meta["organiser_number"]))
        tokens = {row.name: make_token(secret, self.id, row.id, row.token_number) for row in rows}
        hashes = {row.name: row.token_hash for row in rows}
        fits = all(token_hash(token) == hashes[name] for name, token in tokens.items())
        if not fits or token_hash(organiser) != meta["organiser_hash"]:
            raise DataError(
                f"{self.key_file}: belongs to another campaign, or to older links; put the right file "
                "back, or make new links: aliquot collect links CAMPAIGN --new"
            )
        own = {name: f"{base}/{crowd.route(name)}/{token}" for name, token in tokens.items()}
        return Links(f"{base}/o/{organiser}", own, crowd.shared_links(f"{base}/c/{self._shared_token(secret, meta)}"))

    def _shared_token(self, secret: bytes, meta: Mapping[str, str]) -> str:
        return make_token(secret, self.id, CROWD, int(meta.get("crowd_number", "1")))

    def _renew_links(self) -> None:
        secret = new_secret(self.key_file)

        def change(connection: Connection) -> None:
            now = self.store.clock.now()
            rows = connection.execute(sql("SELECT id, token_number FROM annotators WHERE link <> 'forgotten'")).all()
            for row in rows:
                number = row.token_number + 1
                token = token_hash(make_token(secret, self.id, row.id, number))
                event = kinds.LinkRenewed(id=row.id, token_number=number, token_hash=token)
                self.log.append(connection, now, "organiser", event)
            number = int(meta_value(connection, "organiser_number")) + 1
            set_meta(connection, "organiser_number", str(number))
            set_meta(connection, "organiser_hash", token_hash(make_token(secret, self.id, ORGANISER, number)))
            self._renew_shared(connection, secret)
            self.log.append(connection, now, "organiser", kinds.LinksRenewed(annotators=len(rows)))

        self.store.write(change)

    def _renew_shared(self, connection: Connection, secret: bytes) -> None:
        number = int(meta_value(connection, "crowd_number", "1")) + 1
        set_meta(connection, "crowd_number", str(number))
        set_meta(connection, "crowd_hash", token_hash(make_token(secret, self.id, CROWD, number)))

    def organiser(self, token: str) -> bool:
        """Return True for the organiser's token, and raise for any other."""
        with self.store.read() as connection:
            known = meta_value(connection, "organiser_hash")
        if not secrets.compare_digest(known, token_hash(token)):
            raise CollectError("link_unknown", "this link is not known; ask the organiser for yours")
        return True

    # -- annotators ------------------------------------------------------------------------------------------------

    def add_annotators(self, names: Sequence[str], kind: str = "human") -> None:
        """Add annotators; their links are among `links()`.

        With the kind "model" they are automatic judges, which answer by the same calls as pages. Their judgments are a
        metric (`judge:NAME`), never part of a human score; so that the metric covers the whole set, they also judge
        what was not selected.
        """
        if kind not in KINDS:
            raise unknown_name("--kind", kind, KINDS)
        named = annotator_names(list(names))
        secret = read_secret(self.key_file)

        def change(connection: Connection) -> None:
            now = self.store.clock.now()
            creating.add_annotators(self.log, connection, named, self.id, secret, now, self.locale, self.seed, kind)
            if kind == "model":
                add_unselected(self.log, connection, self.data, self.protocol, self.seed, now)

        self.store.write(change)

    def add_systems(self, data: DataLike, reason: str = "") -> tuple[str, ...]:
        """Let new systems be judged on the items of the campaign; return their names.

        Args:
            data: the campaign's data with the outputs of more systems.
            reason: why; it stands in the audit log.
        """
        if self.allocation is not None or self.assign == "fixed":
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
        chosen = self.selection
        ids = tuple(before.ids) if chosen is None else chosen.ids
        asked = Selection(ids, before.n_items, "added", systems=(fresh,) * len(ids))
        options = {name: value for name, value in self.unit_options.items() if name != "allocate"}
        units = make_units(wider, asked, self.protocol, seed=self.seed + len(before.systems), **options)

        def change(connection: Connection) -> None:
            now = self.store.clock.now()
            creating.store_data(connection, wider)
            for name in ("data", "_texts"):
                self.__dict__.pop(name, None)
            self.log.append(connection, now, "organiser", kinds.SystemsAdded(systems=list(fresh), reason=reason))
            self.__dict__["_texts"] = UnitTexts(wider, self.protocol)  # the new input is not committed yet
            creating.add_units(self.log, connection, units, self.per_output_in(connection), now)

        try:
            self.store.write(change)
        finally:
            self.__dict__.pop("_texts", None)
        return fresh

    def change_guidelines(self, text: str, reason: str = "") -> int:
        """Show annotators another text from now on; return its version, which later judgments carry."""

        def change(connection: Connection) -> int:
            version = int(connection.execute(sql("SELECT MAX(version) FROM guidelines")).scalar() or 0) + 1
            now = self.store.clock.now()
            written = kinds.GuidelinesWritten(version=version, locale=self.locale, text=text)
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
        query = sql(f"SELECT id, policy FROM assignments WHERE annotator_id = :id AND state IN {states}")  # noqa: S608
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
        secret = read_secret(self.key_file)

        def change(connection: Connection) -> None:
            self._renew_shared(connection, secret)
            event = kinds.LinksRenewed(annotators=0, link="shared", reason=reason)
            self.log.append(connection, self.store.clock.now(), "organiser", event)

        self.store.write(change)

    def renew_link(self, name: str, reason: str = "") -> None:
        """Give an annotator a new link; older ones never work again. Also after the link was withdrawn."""
        secret = read_secret(self.key_file)

        def change(connection: Connection) -> None:
            identity = self.identity(connection, name)
            query = sql("SELECT token_number FROM annotators WHERE id = :id")
            number = int(connection.execute(query, {"id": identity}).scalar() or 0) + 1
            now = self.store.clock.now()
            token = token_hash(make_token(secret, self.id, identity, number))
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
            return status_of(connection, self.title, self.protocol.name, self.store.clock.now())

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
            return check(connection, self.protocol, lambda: self._texts, self.store.place)

    # -- crowds, and being forgotten -----------------------------------------------------------------------------------

    def join(self, visit: crowd.Visit, secret: str) -> str:
        """Return the token of a worker who came by a shared link; the first visit makes the annotator.

        Args:
            visit: what the link says.
            secret: what the worker's browser keeps: a random text since the first visit, or the token of the worker's
                own link. The worker's id alone lets nobody in a second time.
        """
        if not crowd.MIN_SECRET <= len(secret) <= crowd.MAX_SECRET:
            raise CollectError(
                "bad_answer", f"`secret` should be a text of {crowd.MIN_SECRET} to {crowd.MAX_SECRET} characters"
            )
        key, proof = read_secret(self.key_file), token_hash(secret)

        def change(connection: Connection) -> str:
            one_at_a_time(connection, NUMBERING)
            now = self.store.clock.now()
            row = connection.execute(
                sql("SELECT id, token_number, token_hash, extra FROM annotators WHERE name = :name"),
                {"name": visit.annotator},
            ).one_or_none()
            first_secret: str | UnsetType = UNSET
            if row is None:
                self._require_room(connection)
                (identity,) = creating.add_annotators(
                    self.log, connection, [visit.annotator], self.id, key, now, self.locale, self.seed
                )
                number, first_secret = 1, proof
            elif proof in (row.token_hash, msgspec.json.decode(row.extra, type=Extra).secret):
                identity, number = row.id, row.token_number
            else:
                raise CollectError(
                    "worker_known",
                    "this worker id has begun already, in another browser; go on there, "
                    "or ask the organiser for a new link",
                )
            event = kinds.WorkerArrived(annotator=identity, visit=visit, secret=first_secret)
            self.log.append(connection, now, identity, event)
            return make_token(key, self.id, identity, number)

        return self.store.write(change)

    def _require_room(self, connection: Connection) -> None:
        if campaign_state(connection) == "closed":
            raise CollectError("campaign_closed", "the campaign is closed; no work is left")
        if crowd.count_workers(connection) >= self._most_workers(connection):
            raise CollectError(
                "crowd_full",
                "no more people can join this campaign at the moment; tell the organiser, or come back later",
            )

    def _most_workers(self, connection: Connection) -> int:
        """Return how many workers shared links let in: the organiser's number, or one that follows from the work."""
        chosen = meta_value(connection, "workers", "")
        if chosen:
            return int(chosen)
        units = connection.execute(sql("SELECT value FROM counters WHERE name = 'wanted'")).scalar() or 0
        if self.allocation is not None:  # units are made while people judge: at most one a cell
            units = self.data.n_items * self.data.n_systems * self.per_output_in(connection)
        return crowd.most_workers(int(units))

    def crowd_notice(self) -> str | None:
        """Tell the organiser that shared links let nobody in any more, and what to do; None where there is room."""
        with self.store.read() as connection:
            count = crowd.count_workers(connection)
            if not count or count < self._most_workers(connection):
                return None
        return (
            f"{count} workers came by the shared links; no more are let in. If they are real, allow more: aliquot "
            f"collect act CAMPAIGN workers --value {2 * count}. If not, exclude them, and make new shared links: "
            "aliquot collect act CAMPAIGN renew_shared"
        )

    def crowd_token(self, token: str) -> bool:
        """Return True for the token of the shared link, and raise for any other."""
        with self.store.read() as connection:
            known = meta_value(connection, "crowd_hash", "")
        if not secrets.compare_digest(known, token_hash(token)):
            raise CollectError("link_unknown", "this link is not known; ask the organiser for yours")
        return True

    def forget(self, name: str, reason: str = "") -> str:
        """Delete what an annotator answered and said, from the tables and from the log; return the new name."""

        def change(connection: Connection) -> str:
            identity = self.identity(connection, name)
            names = set(connection.execute(sql("SELECT name FROM annotators")).scalars())
            connection.execute(locking(connection, "SELECT id FROM annotators WHERE id = :id"), {"id": identity})
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
        if self.allocation is not None:
            self.allocation.forget()
        self.store.vacuum()
        return alias
