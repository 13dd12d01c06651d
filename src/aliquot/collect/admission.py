"""Who gets in: the organiser and workers of crowds by their links, and how many workers at the most."""

from __future__ import annotations

import secrets

import msgspec
from msgspec import UNSET, UnsetType
from sqlalchemy.engine import Connection

from aliquot.collect import creating, crowd
from aliquot.collect.errors import CollectError
from aliquot.collect.event_types import WorkerArrived
from aliquot.collect.events import Log
from aliquot.collect.people import Extra
from aliquot.collect.statements import NUMBERING, one_at_a_time, sql
from aliquot.collect.store import Store
from aliquot.collect.stored_inputs import StoredInputs, campaign_state, judgments_per_output, meta_value
from aliquot.collect.tokens import make_token, read_secret, token_hash


class Admission:
    """Checks tokens of the organiser and of shared links; adds a worker as annotator at the first visit."""

    def __init__(self, store: Store, log: Log, inputs: StoredInputs) -> None:
        self.store, self.log, self.inputs, self.facts = store, log, inputs, inputs.facts

    def require_organiser(self, token: str) -> None:
        """Raise for any token but the organiser's."""
        self._require_token(token, "organiser_hash")

    def require_shared_link(self, token: str) -> None:
        """Raise for any token but that of the shared link."""
        self._require_token(token, "crowd_hash")

    def _require_token(self, token: str, key: str) -> None:
        with self.store.read() as connection:
            expected = meta_value(connection, key, "")
        if not secrets.compare_digest(expected, token_hash(token)):
            raise CollectError("link_unknown", "this link is not known; ask the organiser for yours")

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
        key, proof = read_secret(self.inputs.key_file), token_hash(secret)

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
                    self.log,
                    connection,
                    [visit.annotator],
                    self.facts.id,
                    key,
                    now,
                    self.facts.locale,
                    self.facts.seed,
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
            event = WorkerArrived(annotator=identity, visit=visit, secret=first_secret)
            self.log.append(connection, now, identity, event)
            return make_token(key, self.facts.id, identity, number)

        return self.store.write(change)

    def _require_room(self, connection: Connection) -> None:
        if campaign_state(connection) == "closed":
            raise CollectError("campaign_closed", "the campaign is closed; no work is left")
        if crowd.count_workers(connection) >= self._max_workers(connection):
            raise CollectError(
                "crowd_full",
                "no more people can join this campaign at the moment; tell the organiser, or come back later",
            )

    def _max_workers(self, connection: Connection) -> int:
        """Return the limit of workers for shared links: the organiser's, or the default for this amount of work."""
        chosen = meta_value(connection, "workers", "")
        if chosen:
            return int(chosen)
        units = connection.execute(sql("SELECT value FROM counters WHERE name = 'wanted'")).scalar() or 0
        if self.inputs.allocation is not None:  # units are made while people judge: at most one a cell
            units = self.inputs.data.n_items * self.inputs.data.n_systems * judgments_per_output(connection)
        return crowd.default_worker_limit(int(units))

    def crowd_notice(self) -> str | None:
        """Return a warning when the limit of workers is reached, with the remedy; else None."""
        with self.store.read() as connection:
            count = crowd.count_workers(connection)
            if not count or count < self._max_workers(connection):
                return None
        return (
            f"{count} workers came by the shared links; no more are let in. If they are real, allow more: aliquot "
            f"collect act CAMPAIGN workers --value {2 * count}. If not, exclude them, and make new shared links: "
            "aliquot collect act CAMPAIGN renew_shared"
        )
