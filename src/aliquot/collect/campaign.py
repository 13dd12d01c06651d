"""Campaign: a selection being judged. How it is made, its links and people, and what comes out of it.

Every change is an event in the log and on the disk before a method returns. Methods may be called from many threads.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path

import polars as pl
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError

from aliquot.collect import creating, crowd, exporting
from aliquot.collect.errors import CollectError
from aliquot.collect.events import FORGOTTEN, VALID, WITHDRAWN, erase_person, locking, set_meta, sql
from aliquot.collect.gathering import Inputs, annotator_names, gather
from aliquot.collect.judges import add_unselected
from aliquot.collect.opened import campaign_state, meta_value
from aliquot.collect.protocols import Protocol
from aliquot.collect.rebuilding import CheckResult, check
from aliquot.collect.schema import create as create_tables
from aliquot.collect.schema import is_url, make_engine, remove_beside
from aliquot.collect.serving import ServedCampaign
from aliquot.collect.status import Status, status_of
from aliquot.collect.store import Clock, Store
from aliquot.collect.tokens import CROWD, ORGANISER, Links, make_token, new_secret, read_secret, token_hash
from aliquot.collect.units import UNIT_ITEMS, Texts, expected_seconds, make_units
from aliquot.core.judgments import Judgments
from aliquot.core.selection import Selection
from aliquot.errors import DataError, OptionError, OutputError, unknown_name
from aliquot.io.formats import campaign as campaign_file
from aliquot.io.inputs import DataLike, SelectionLike, as_evalset
from aliquot.io.writing import whole_file

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
            data, selection, protocol, annotators, per_output=per_output, assign=assign, seed=seed,
            guidelines=guidelines, locale=locale, pairs=pairs, unit_items=unit_items, skip_missing=skip_missing,
            title=title, allocate=allocate, question=question, budget=budget,
        )  # fmt: skip
        if is_url(path):
            _create_at_url(str(path), inputs)
        else:
            _create_file(Path(path), inputs)
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
                sql("SELECT id, name, token_number, token_hash FROM annotators WHERE link = 'valid' ORDER BY "
                    "created, name")
            ).all()  # fmt: skip
            meta = {row.key: row.value for row in connection.execute(sql("SELECT key, value FROM meta"))}
        organiser = make_token(secret, self.id, ORGANISER, int(meta["organiser_number"]))
        tokens = {row.name: make_token(secret, self.id, row.id, row.token_number) for row in rows}
        hashes = {row.name: row.token_hash for row in rows}
        fits = all(token_hash(token) == hashes[name] for name, token in tokens.items())
        if not fits or token_hash(organiser) != meta["organiser_hash"]:
            raise DataError(f"{self.key_file}: belongs to another campaign, or to older links; put the right file "
                            "back, or make new links: aliquot collect links CAMPAIGN --new")  # fmt: skip
        return Links(f"{base}/o/{organiser}", {name: f"{base}/a/{token}" for name, token in tokens.items()},
                     crowd.shared_links(f"{base}/c/{make_token(secret, self.id, CROWD, 1)}"))  # fmt: skip

    def _renew_links(self) -> None:
        secret = new_secret(self.key_file)

        def change(connection: Connection) -> None:
            now = self.store.clock.now()
            rows = connection.execute(sql("SELECT id, token_number FROM annotators WHERE link <> 'forgotten'")).all()
            for row in rows:
                number = row.token_number + 1
                self.log.append(connection, now, "organiser", "annotator_token", {
                    "id": row.id, "token_number": number,
                    "token_hash": token_hash(make_token(secret, self.id, row.id, number)),
                })  # fmt: skip
            number = int(meta_value(connection, "organiser_number")) + 1
            set_meta(connection, "organiser_number", str(number))
            set_meta(connection, "organiser_hash", token_hash(make_token(secret, self.id, ORGANISER, number)))
            self.log.append(connection, now, "organiser", "links_renewed", {"annotators": len(rows)})

        self.store.write(change)

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
            creating.add_annotators(
                self.log, connection, named, self.id, secret, now, self._meta["locale"], self.seed, kind
            )
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
            self.log.append(connection, now, "organiser", "systems_added", {"systems": list(fresh), "reason": reason})
            self.__dict__["_texts"] = Texts(wider, self.protocol)  # the new input is not committed yet
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
            self.log.append(connection, now, "organiser", "guidelines",
                            {"version": version, "locale": self._meta["locale"], "text": text})  # fmt: skip
            self.log.append(connection, now, "organiser", "guidelines_changed", {"version": version, "reason": reason})
            return version

        return self.store.write(change)

    def revoke(self, name: str, reason: str = "") -> None:
        """Withdraw an annotator's link; work that was not submitted goes back to the others, judgments stay."""

        def change(connection: Connection) -> None:
            now = self.store.clock.now()
            identity = self.identity(connection, name)
            self._free_all(connection, identity, now)
            self.log.append(connection, now, "organiser", "annotator_state",
                            {"id": identity, "link": WITHDRAWN, "reason": reason})  # fmt: skip

        self.store.write(change)

    def _free_all(self, connection: Connection, identity: str, now: float) -> None:
        """Give what an annotator has not submitted to the others, also of a fixed list."""
        rows = connection.execute(
            sql("SELECT id FROM assignments WHERE annotator_id = :id AND state IN ('leased', 'planned')"),
            {"id": identity},
        ).all()
        for row in rows:
            self.log.append(connection, now, "organiser", "revoke", {"assignment": row.id})

    def renew_link(self, name: str, reason: str = "") -> None:
        """Give an annotator a new link; older ones never work again. Also after the link was withdrawn."""
        secret = read_secret(self.key_file)

        def change(connection: Connection) -> None:
            identity = self.identity(connection, name)
            query = sql("SELECT token_number FROM annotators WHERE id = :id")
            number = int(connection.execute(query, {"id": identity}).scalar() or 0) + 1
            now = self.store.clock.now()
            self.log.append(connection, now, "organiser", "annotator_token", {
                "id": identity, "token_number": number, "link": VALID,
                "token_hash": token_hash(make_token(secret, self.id, identity, number)),
            })  # fmt: skip
            self.log.append(connection, now, "organiser", "links_renewed",
                            {"id": identity, "annotators": 1, "reason": reason})  # fmt: skip

        self.store.write(change)

    def identity(self, connection: Connection, name: str) -> str:
        """Return the id of an annotator by name; raise for one who was forgotten."""
        rows = connection.execute(sql("SELECT id, name, link FROM annotators")).all()
        person = next((row for row in rows if row.name == name), None)
        if person is None:
            raise unknown_name("annotator", name, [row.name for row in rows if row.link != FORGOTTEN])
        if person.link == FORGOTTEN:
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

    def join(self, visit: crowd.Visit) -> str:
        """Return the token of a worker who came by the shared link; the first visit makes the annotator."""
        secret = read_secret(self.key_file)

        def change(connection: Connection) -> str:
            now = self.store.clock.now()
            row = connection.execute(
                sql("SELECT id, token_number FROM annotators WHERE name = :name"), {"name": visit.annotator}
            ).one_or_none()
            if row is None:
                if campaign_state(connection) == "closed":
                    raise CollectError("campaign_closed", "the campaign is closed; no work is left")
                (identity,) = creating.add_annotators(
                    self.log, connection, [visit.annotator], self.id, secret, now, self._meta["locale"], self.seed
                )
                number = 1
            else:
                identity, number = row.id, row.token_number
            self.log.append(connection, now, identity, "came", {"annotator": identity, "visit": vars(visit)})
            return make_token(secret, self.id, identity, number)

        return self.store.write(change)

    def crowd_token(self, token: str) -> bool:
        """Return True for the token of the shared link, and raise for any other."""
        if not secrets.compare_digest(token_hash(token), self._meta.get("crowd_hash", "")):
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
            self._free_all(connection, identity, now)
            erase_person(connection, identity, alias)
            self.log.append(
                connection, now, "organiser", "forgotten", {"id": identity, "alias": alias, "reason": reason}
            )
            return alias

        alias = self.store.write(change)
        self.store.vacuum()
        return alias


# -- making the file ---------------------------------------------------------------------------------------------------


def _create_file(path: Path, inputs: Inputs) -> None:
    key = Path(f"{path}.key")
    for there in (path, key):
        if there.exists():
            raise OptionError(f"{there}: exists already, and judgments are not overwritten; name another file, or "
                              "delete it")  # fmt: skip
    try:
        with whole_file(path) as temporary:
            temporary.unlink()
            try:
                _fill(f"{temporary}", inputs, new_secret(key), path)
            finally:
                remove_beside(temporary)
    except BaseException:
        if not path.exists():
            key.unlink(missing_ok=True)
        raise


def _create_at_url(url: str, inputs: Inputs) -> None:
    folder = Path.cwd()
    temporary = folder / f"aliquot-{secrets.token_hex(4)}.key"
    secret = new_secret(temporary)
    try:
        campaign = _fill(url, inputs, secret, "the database")
        temporary.replace(folder / f"aliquot-{campaign}.key")
    finally:
        temporary.unlink(missing_ok=True)


def _fill(place: str, inputs: Inputs, secret: bytes, named: str | Path) -> str:
    engine = make_engine(place)
    try:
        create_tables(engine)
        with engine.begin() as connection:
            return creating.fill(connection, inputs, secret, Clock().now())
    except DBAPIError as error:
        raise OutputError(f"{named}: cannot be written ({error.orig}); free space or choose another -o; nothing was "
                          "changed") from None  # fmt: skip
    finally:
        engine.dispose()
