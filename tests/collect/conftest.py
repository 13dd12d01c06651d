"""Small campaigns and people who fill them; a PostgreSQL cluster of the tests' own, not as root, gone at the end."""

from __future__ import annotations

import gc
import os
import pwd
import random
import shutil
import socket
import subprocess
import tempfile
import uuid
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import require_debian

import aliquot
from aliquot.collect.annotator_pages import Annotator
from aliquot.collect.campaign import Campaign
from aliquot.collect.protocols import Choice, Protocol, Score, Spans, Text, Widget
from aliquot.core.columns import encode_column
from aliquot.core.evalset import EvalSet

MEMORY = Path("/dev/shm")  # noqa: S108  (where syncing costs nothing)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder in memory where there is one: campaigns sync after every change."""
    made = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(scope="session")
def data() -> EvalSet:
    found = aliquot.synthetic(items=12, systems=4, seed=1, document_length=4, annotators=0)
    spans = [{"sys1": [{"start": 0, "end": 2, "severity": "minor"}]}] * found.n_items
    return replace(found, items=found.items.with_columns(encode_column("spans", spans)))


Make = Callable[..., Campaign]


@pytest.fixture
def make(folder: Path, data: EvalSet) -> Iterator[Make]:
    """Make campaigns that are closed in the end."""
    made: list[Campaign] = []

    def build(protocol: str | Path | Protocol = "da", annotators: Any = 3, **options: Any) -> Campaign:
        given = options.pop("data", data)
        path = options.pop("path", folder / f"campaign{len(made)}.db")
        made.append(Campaign.create(given, options.pop("selection", None), protocol, annotators, path=path, **options))
        return made[-1]

    yield build
    for campaign in made:
        campaign.close()


def people(campaign: Campaign) -> dict[str, Annotator]:
    return {
        name: campaign.pages.annotator(link.rsplit("/", 1)[1]) for name, link in campaign.links().annotators.items()
    }


def some_value(widget: Widget, rng: random.Random, text: str, slots: list[str]) -> Any:
    """What somebody might answer."""
    if isinstance(widget, Score):
        steps = int((widget.high - widget.low) / widget.step)
        values = {name: widget.low + widget.step * rng.randint(0, steps) for name in widget.criteria or ("",)}
        return values if widget.criteria else values[""]
    if isinstance(widget, Spans):
        if rng.random() < 0.3:
            return []
        start = rng.randint(0, len(text) - 3)
        leaves = [f"{name}/{leaf}" for name, below in widget.categories.items() for leaf in below]
        return [
            {
                "start": start,
                "end": start + 2,
                "quote": text[start : start + 2],
                "side": "output",
                "severity": rng.choice(widget.severities).name,
                "category": rng.choice(leaves or [None]),
            }
        ]
    if isinstance(widget, Choice) and widget.style == "pairwise":
        chosen = rng.choice([*slots, "tie"])
        strong = {"choice": chosen} | ({} if chosen == "tie" else {"strength": rng.randint(1, widget.strength or 1)})
        return strong if widget.strength else chosen
    if isinstance(widget, Choice):
        order = rng.sample(slots, len(slots))
        return {"best": order[0], "worst": order[-1]} if widget.style == "best-worst" else [[slot] for slot in order]
    return text.replace(" ", " new ", 1) if isinstance(widget, Text) and widget.style == "postedit" else "well"


def answers_for(protocol: Protocol, unit: dict[str, Any], rng: random.Random) -> dict[str, dict[str, Any]]:
    """One complete answer for every cell of a unit."""
    found: dict[str, dict[str, Any]] = {}
    slots: list[str] = []

    def add(cell: str | None, scope: str, text: str = "") -> None:
        if cell is not None:
            found[cell] = {w.name: some_value(w, rng, text, slots) for w in protocol.of_scope(scope)}

    for row in unit["rows"]:
        slots = [output["slot"] for output in row["outputs"]]
        add(row["cell"], "item")
        for output in row["outputs"]:
            add(output["cell"], "output", output["text"])
    add(unit.get("document_cell"), "document")
    return found


def changes(answers: dict[str, dict[str, Any]], active_ms: int = 5000) -> list[dict[str, Any]]:
    return [
        {"id": str(uuid.uuid4()), "cell": cell, "answer": answer, "active_ms": active_ms, "idle_ms": 0}
        for cell, answer in answers.items()
    ]


def judge_all(campaign: Campaign, seed: int = 0, units: int | None = None) -> dict[tuple[str, str], Any]:
    """Let everybody judge until nothing is left; return what was answered: (assignment, cell) -> answer."""
    rng = random.Random(seed)
    waiting = list(people(campaign).values())
    given: dict[tuple[str, str], Any] = {}
    done = 0
    while waiting and (units is None or done < units):
        who = rng.choice(waiting)
        found = campaign.pages.next_unit(who)
        if "unit" not in found:
            waiting.remove(who)
            continue
        unit = found["unit"]
        answers = answers_for(campaign.protocol, unit, rng)
        campaign.pages.save(who, unit["assignment"], changes(answers))
        assert "missing" not in campaign.pages.submit(who, unit["assignment"])
        given |= {(unit["assignment"], cell): answer for cell, answer in answers.items()}
        done += 1
    return given


def as_version_2(run: Callable[[str], object]) -> None:
    """Give a campaign's tables the shape that they had before version 3; `run` executes SQL."""
    for fact in ("link", "work", "counts"):
        run(f"ALTER TABLE annotators DROP COLUMN {fact}")
    run("ALTER TABLE annotators ADD COLUMN state TEXT NOT NULL DEFAULT 'active'")
    run("ALTER TABLE events DROP COLUMN digest")
    run("DROP TABLE seals")
    run("UPDATE meta SET value = '2' WHERE key = 'schema'")


# -- PostgreSQL ---------------------------------------------------------------------------------------------------

_QUICK = "-c fsync=on -c max_connections=60 -c listen_addresses=127.0.0.1"


def _user() -> str | None:
    """Whom PostgreSQL runs as: it refuses root."""
    if os.geteuid() != 0:
        return None
    return next((name for name in ("postgres", "nobody") if any(name == u.pw_name for u in pwd.getpwall())), None)


@dataclass(frozen=True)
class Postgres:
    """A running server, `postgresql+psycopg://127.0.0.1:PORT`, that can be stopped and started again."""

    url: str
    stop: Callable[[], None]
    start: Callable[[], None]


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    initdb, control = require_debian("postgresql", "initdb"), require_debian("postgresql", "pg_ctl")
    folder = Path(tempfile.mkdtemp(prefix="aliquot-pg-"))
    user = _user()
    if user is not None:
        shutil.chown(folder, user)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def run(*command: str) -> None:
        subprocess.run(command, check=True, user=user, cwd="/", stdout=subprocess.DEVNULL, timeout=300)

    data = str(folder / "data")
    run(str(initdb), "-D", data, "-U", "aliquot", "--auth=trust", "-E", "UTF8", "--locale=C")
    options = f"{_QUICK} -c port={port} -c unix_socket_directories={folder}"
    start = partial(run, str(control), "-D", data, "-w", "-l", str(folder / "log"), "-o", options, "start")
    stop = partial(run, str(control), "-D", data, "-m", "immediate", "stop")
    start()
    try:
        yield Postgres(f"postgresql+psycopg://aliquot@127.0.0.1:{port}", stop, start)
    finally:
        stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def postgres_url(postgres: Postgres) -> Iterator[str]:
    """An empty database on it."""
    import psycopg

    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(postgres.url.replace("+psycopg", "") + "/postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    yield f"{postgres.url}/{name}"
    with warnings.catch_warnings():  # connections of campaigns that a test left open must not warn in a later test
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, folder: Path) -> str:
    """Where a campaign may live: the same tests run on both databases."""
    if request.param == "sqlite":
        return str(folder / "campaign.db")
    return str(request.getfixturevalue("postgres_url"))
