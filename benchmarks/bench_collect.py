"""A campaign under load: 200 active bots save answers; 50 bots judge while the server is killed again and again.

The measure of saving is what it cannot do without, taken in the same seconds: a route that does nothing, and one
durable commit to the same disk. One annotator saves in turn, alone and beside 200 hostile connections: idle ones, half
requests, streams. `KILLS=100` is the number of kill -9. Last, 500 bots and four processes, one of which is killed every
few seconds for `MINUTES=5`, in an empty PostgreSQL database where `DATABASE` is its URL.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import sqlite3
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

import harness

import aliquot
from aliquot.collect.campaign import Campaign

sys.path.insert(0, str(Path(__file__).parent.parent))
from tests.collect import crowd

IN_TURN, HOSTILE = 1000, 200
BOTS, SECONDS, PAUSE = 200, 20.0, 8.0  # an active annotator changes an answer every four seconds
KILLS = int(os.environ.get("KILLS", "100"))
MINUTES = float(os.environ.get("MINUTES", "5"))


def percentile_95(times: list[float]) -> float:
    return statistics.quantiles(times, n=20)[-1]


class Commits(threading.Thread):
    """One durable commit after another, with pauses, to a file beside the campaign."""

    def __init__(self, path: Path) -> None:
        super().__init__(daemon=True)
        self.path = path
        self.took: list[float] = []
        self.stop = threading.Event()

    def run(self) -> None:
        connection = sqlite3.connect(self.path, isolation_level=None)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("CREATE TABLE t (x TEXT)")
        while not self.stop.wait(0.05):
            began = time.perf_counter()
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("INSERT INTO t VALUES (?)", ("x" * 300,))
            connection.execute("COMMIT")
            self.took.append(time.perf_counter() - began)
        connection.close()


async def load(
    server: crowd.ServerProcess, people: list[crowd.Bot], protocol: dict[str, object]
) -> tuple[list[float], list[float]]:
    """Everybody saves and, in between, asks the bare route; the times of both."""
    server.start()
    await server.ready()
    stop = asyncio.Event()

    async def bare(bot: crowd.Bot) -> None:
        rng = random.Random(bot.token)
        while not stop.is_set():
            await asyncio.sleep(PAUSE * rng.random())
            await bot.patiently("GET", "/health")

    others = [crowd.Bot(bot.token, bot.port, random.Random(at)) for at, bot in enumerate(people)]
    saving = [asyncio.create_task(bot.judge(protocol, stop, pause=PAUSE)) for bot in people]
    asking = [asyncio.create_task(bare(bot)) for bot in others]
    while not all(bot.acknowledged for bot in people):  # everybody has a unit and is at work
        await asyncio.sleep(0.1)
    await asyncio.sleep(2)
    for bot in people + others:
        bot.took.clear()
    before = server.processor_seconds()
    await asyncio.sleep(SECONDS)
    busy = (server.processor_seconds() - before) / SECONDS
    saves = [time for bot in people for time in bot.took.get("/api/save", [])]
    nothing = [time for bot in others for time in bot.took.get("/health", [])]
    print(f"the server took {busy:.0%} of one core", file=sys.stderr)
    stop.set()
    await asyncio.gather(*saving, *asking)
    return saves, nothing


def saving_row() -> harness.Row:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "c.db"
        data = aliquot.synthetic(items=1000, systems=10, seed=1)
        with Campaign.create(data, protocol="da", annotators=BOTS, path=path, unit_items=10) as campaign:
            server = crowd.ServerProcess(path)
            people = crowd.make_crowd(campaign, server.port, BOTS)
            protocol = campaign.protocol.for_page()
        commits = Commits(Path(folder) / "commits.db")
        commits.start()
        try:
            saves, nothing = asyncio.run(load(server, people, protocol))
        finally:
            commits.stop.set()
            commits.join()
            server.kill()
    bar = percentile_95(nothing) + percentile_95(commits.took)
    ours = percentile_95(saves)
    spent = f"median {statistics.median(saves) * 1000:.1f} ms, p95 {ours * 1000:.1f} ms"
    against = (
        f"bare route p95 {percentile_95(nothing) * 1000:.1f} ms, commit p95 {percentile_95(commits.took) * 1000:.1f} ms"
    )
    print(f"{len(saves)} saves: {spent}; {against}", file=sys.stderr)
    return harness.Row(f"p95 of a save, {BOTS} bots", ours, bar, "at most 5 times bare route + commit", ours <= 5 * bar)


async def saves_in_turn(bot: crowd.Bot, protocol: dict[str, object]) -> list[float]:
    """Save one answer after another on one kept connection; the time of each."""
    stop = asyncio.Event()
    judging = asyncio.create_task(bot.judge(protocol, stop))
    while len(bot.took.get("/api/save", [])) < IN_TURN:
        await asyncio.sleep(0.05)
    stop.set()
    await judging
    return bot.took.pop("/api/save")


async def hostile_load(
    server: crowd.ServerProcess, bot: crowd.Bot, protocol: dict[str, object], stream: str
) -> tuple[list[float], list[float]]:
    """Save alone, and beside hostile connections that are opened again as soon as the server closes them."""
    server.start()
    await server.ready()
    alone = await saves_in_turn(bot, protocol)
    host = f"HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
    body = "Content-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
    sent = ["", f"GET / {host}X-", f"POST /api/save {host}{body}", f"GET {stream} {host}\r\n"]

    async def attack(text: str) -> None:
        while True:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(text.encode())
            with contextlib.suppress(OSError):
                while await reader.read(65536):
                    pass
            writer.close()

    attacks = [asyncio.create_task(attack(sent[number % len(sent)])) for number in range(HOSTILE)]
    await asyncio.sleep(2)
    beside = await saves_in_turn(bot, protocol)
    for task in attacks:
        task.cancel()
    await asyncio.gather(*attacks, return_exceptions=True)
    return alone, beside


def hostile_rows() -> list[harness.Row]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "c.db"
        data = aliquot.synthetic(items=2000, systems=10, seed=1)
        with Campaign.create(data, protocol="da", annotators=1, path=path, unit_items=10) as campaign:
            server = crowd.ServerProcess(path)
            (bot,) = crowd.make_crowd(campaign, server.port, 1)
            protocol, stream = campaign.protocol.for_page(), f"{campaign.links('').organiser}/live"
        try:
            alone, beside = asyncio.run(hostile_load(server, bot, protocol, stream))
        finally:
            server.kill()
    median, bar, ours = statistics.median(alone), percentile_95(alone), percentile_95(beside)
    print(
        f"saves in turn: median {median * 1000:.1f} ms, p95 {bar * 1000:.1f} ms; beside {HOSTILE} hostile ones "
        f"median {statistics.median(beside) * 1000:.1f} ms, p95 {ours * 1000:.1f} ms",
        file=sys.stderr,
    )
    kept = ours <= 2 * bar
    return [
        harness.Row(
            "median of saves in turn, one connection", median, None, "no delayed sending (40 ms)", median < 0.02
        ),
        harness.Row(f"p95 of a save, {HOSTILE} hostile connections", ours, bar, "at most 2 times without", kept),
    ]


def killed_row() -> harness.Row:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "c.db"
        data = aliquot.synthetic(items=2000, systems=10, seed=1)
        with Campaign.create(data, protocol="esa", annotators=50, path=path, per_output=5, unit_items=10) as campaign:
            server = crowd.ServerProcess(path)
            people = crowd.make_crowd(campaign, server.port, 50)
            protocol = campaign.protocol.for_page()
        began = time.perf_counter()
        try:
            asyncio.run(crowd.killed_while_judging(server, people, protocol, KILLS))
        finally:
            server.kill()
        took = time.perf_counter() - began
        acknowledged, lost, doubled = crowd.lost_or_doubled(path, people)
    print(
        f"{KILLS} times kill -9, 50 bots: {acknowledged} acknowledged, {lost} lost, {doubled} doubled", file=sys.stderr
    )
    return harness.Row(
        f"{KILLS} x kill -9, 50 bots", took, None, "no acknowledged answer lost or doubled", lost == doubled == 0
    )


def workers_row() -> harness.Row:
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # where the key of a campaign in PostgreSQL is kept
        place = os.environ.get("DATABASE", str(Path(folder) / "c.db"))
        data = aliquot.synthetic(items=1000, systems=10, seed=1)
        with Campaign.create(data, protocol="da", annotators=500, path=place, per_output=2, unit_items=10) as campaign:
            server = crowd.Workers(place, 4)
            people = crowd.make_crowd(campaign, server.port, 500)
            protocol = campaign.protocol.for_page()
        try:
            kills = asyncio.run(crowd.workers_killed_while_judging(server, people, protocol, MINUTES * 60, PAUSE))
        finally:
            server.kill()
        acknowledged, lost, doubled = crowd.lost_or_doubled(place, people)
    print(f"{kills} workers killed: {acknowledged} acknowledged, {lost} lost, {doubled} doubled", file=sys.stderr)
    name = f"4 workers, 500 bots, {kills} x kill -9"
    return harness.Row(name, 60 * MINUTES, None, "k exact, nothing lost or doubled", lost == doubled == 0)


def measure() -> list[harness.Row]:
    return [*hostile_rows(), saving_row(), killed_row(), workers_row()]


if __name__ == "__main__":
    for row in measure():
        print(row)
