"""Crowds: who comes from which provider, the codes they leave with, and what they are paid.

One shared link serves everybody. The provider puts its worker into the link's query, the annotator is made on arrival,
and a second visit of the same worker finds the same work. A worker's id is no secret, so the first visit binds it to a
secret that the browser keeps (localStorage: it holds in MTurk's frame, too, where cookies may be blocked); without it
nobody gets at the work. A preview (MTurk) makes nobody and consumes nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal
from urllib.parse import urlsplit

from sqlalchemy.engine import Connection

from aliquot.collect.statements import sql
from aliquot.errors import OptionError, unknown_name

Outcome = Literal["completed", "screened_out", "failed"]
OUTCOMES: tuple[Outcome, ...] = ("completed", "screened_out", "failed")
_WORKER = re.compile(r"[A-Za-z0-9_.:@-]{1,128}")
_PREVIEW = "ASSIGNMENT_ID_NOT_AVAILABLE"  # MTurk's word for somebody who only looks
_MTURK_HOSTS = ("workersandbox.mturk.com", "www.mturk.com")
_MTURK_FRAMES = ("worker.mturk.com", *_MTURK_HOSTS)  # workers see the first, and finished work goes to the others
MIN_SECRET, MAX_SECRET = 16, 100  # characters
_SPARE = 20
_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"  # none that look alike


@dataclass(frozen=True)
class Provider:
    """Where workers come from: the names of its query parameters."""

    name: str
    worker: str
    session: str | None = None
    study: str | None = None
    submit: str | None = None  # where the finished work is posted to, if the provider wants that
    framed_by: tuple[str, ...] = ()  # who may show the page in a frame


PROVIDERS: Mapping[str, Provider] = MappingProxyType(
    {
        "prolific": Provider("prolific", "PROLIFIC_PID", "SESSION_ID", "STUDY_ID"),
        "mturk": Provider(
            "mturk",
            "workerId",
            "assignmentId",
            "hitId",
            "turkSubmitTo",
            tuple(f"https://{host}" for host in _MTURK_FRAMES),
        ),
        "link": Provider("link", "worker", "session", "study"),
    }
)
"""Providers by name; `link` is for any other that can put a worker's id into a link."""


@dataclass(frozen=True)
class Visit:
    """Somebody who came by a shared link."""

    provider: str
    worker: str
    session: str | None = None
    study: str | None = None
    submit_to: str | None = None

    @property
    def annotator(self) -> str:
        """The name under which the worker's judgments are kept."""
        return f"{self.provider}:{self.worker}"


def read_visit(provider: str, query: Mapping[str, str]) -> Visit | None:
    """Read a link's query; None for a preview, for which no annotator is added.

    >>> read_visit("prolific", {"PROLIFIC_PID": "5f1", "STUDY_ID": "s", "SESSION_ID": "x"}).annotator
    'prolific:5f1'
    >>> read_visit("mturk", {"assignmentId": "ASSIGNMENT_ID_NOT_AVAILABLE"}) is None
    True
    """
    if provider not in PROVIDERS:
        raise unknown_name("provider", provider, PROVIDERS)
    names = PROVIDERS[provider]
    if names.session is not None and query.get(names.session) == _PREVIEW:
        return None
    worker = query.get(names.worker, "")
    if not _WORKER.fullmatch(worker):
        raise OptionError(f"the link lacks {names.worker}, the worker's id; copy the study's link as it is")
    submit_to = query.get(names.submit) if names.submit else None
    return Visit(
        provider,
        worker,
        _require_plain_id(query.get(names.session or "")),
        _require_plain_id(query.get(names.study or "")),
        _submit_target(submit_to),
    )


def _require_plain_id(text: str | None) -> str | None:
    return text if text and _WORKER.fullmatch(text) else None


def _submit_target(url: str | None) -> str | None:
    """Return MTurk's address for submissions; other hosts are rejected, as a link can be forged."""
    if url is None:
        return None
    try:
        parts = urlsplit(url)
        scheme, host = parts.scheme, parts.hostname
    except ValueError:
        raise OptionError("the link's address to post to is malformed; copy the study's link as it is") from None
    if scheme != "https" or host not in _MTURK_HOSTS:
        raise OptionError(f"the link asks to post to {host or 'nowhere'}, which is not MTurk")
    return f"https://{host}/mturk/externalSubmit"


def default_worker_limit(units: int) -> int:
    """Return how many workers shared links let in by default: two for each unit that is wanted, and a few.

    A worker does at least one unit; every second one may be screened out or leave.

    >>> default_worker_limit(50)
    120
    """
    return 2 * units + _SPARE


def shared_links(base: str) -> dict[str, str]:
    """The link of each provider, as its form for studies wants it.

    >>> shared_links("http://x/c/t")["link"]
    'http://x/c/t/link?worker=WORKER_ID'
    """
    return {
        "prolific": f"{base}/prolific?PROLIFIC_PID={{{{%PROLIFIC_PID%}}}}&STUDY_ID={{{{%STUDY_ID%}}}}"
        "&SESSION_ID={{%SESSION_ID%}}",
        "mturk": f"{base}/mturk",
        "link": f"{base}/link?worker=WORKER_ID",
    }


def count_workers(connection: Connection) -> int:
    """Count active workers from shared links; excluded and forgotten ones are not counted."""
    named = " OR ".join(f"name LIKE '{provider}:%'" for provider in PROVIDERS)
    query = sql(f"SELECT COUNT(*) FROM annotators WHERE counts = 1 AND link = 'valid' AND ({named})")
    return int(connection.execute(query).scalar() or 0)


def page_route(name: str) -> str:
    """Return the route of the page for a provider's workers, or for an annotator by name: MTurk's may be framed.

    >>> page_route("mturk"), page_route("mturk:A1B2"), page_route("ann1")
    ('m', 'm', 'a')
    """
    return "m" if name.partition(":")[0] == "mturk" else "a"


def storage_key(campaign: str, annotator: str) -> str:
    """Return the name under which a worker's browser keeps the secret."""
    return f"aliquot:worker:{campaign}:{annotator}"


def code_for(secret: bytes, outcome: Outcome, annotator: str, study_codes: Mapping[str, str] | None = None) -> str:
    """Return a worker's completion code: the study's own if the protocol has one, else an unguessable one.

    >>> code_for(b"key", "completed", "link:7", {"completed": "C1234"})
    'C1234'
    """
    if study_codes and study_codes.get(outcome):
        return study_codes[outcome]
    digest = hmac.new(secret, f"{outcome}|{annotator}".encode(), hashlib.sha256).digest()
    return "".join(_LETTERS[byte % len(_LETTERS)] for byte in digest[:10])


@dataclass(frozen=True)
class WorkerPayment:
    """What one annotator is paid."""

    annotator: str
    worker: str
    units: int
    seconds: float
    base: float
    bonus: float
    currency: str
    outcome: Outcome
    hourly: float  # base and bonus by the hour of active work


def compute_payments(
    work: Iterable[tuple[str, str, int, float, Outcome, bool]], *, per_unit: float, bonus: float, currency: str
) -> list[WorkerPayment]:
    """Compute what each annotator is paid: finished units, and the bonus if the checks were passed.

    Args:
        work: annotator, worker's id, finished units, active seconds, outcome, whether the checks were passed.
        per_unit: paid for each finished unit, also of those who are screened out later: work is paid.
        bonus: paid once to those who completed and passed.
        currency: for example EUR.

    >>> work = [("link:a", "a", 4, 3600.0, "completed", True)]
    >>> compute_payments(work, per_unit=2.0, bonus=1.0, currency="EUR")[0].hourly
    9.0
    """
    rows = []
    for annotator, worker, units, seconds, outcome, passed in work:
        extra = bonus if outcome == "completed" and passed else 0.0
        base = round(units * per_unit, 2)
        hourly = (base + extra) / seconds * 3600 if seconds > 0 else float("nan")
        rows.append(WorkerPayment(annotator, worker, units, seconds, base, extra, currency, outcome, hourly))
    return rows
