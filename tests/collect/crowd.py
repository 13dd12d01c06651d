"""Bots that judge over HTTP against a server in a process of its own, which may be killed at any time.

Plain asyncio streams: a client library would take more processor time than the server it measures.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aliquot.collect import bots
from aliquot.collect.campaign import Campaign
from aliquot.collect.statements import sql

SERVER = """
import sys
from aliquot.collect.campaign import Campaign
from aliquot.collect.server import create_app, listen, run_app
app = create_app(Campaign.open(sys.argv[1]), calls_per_second=1e6, burst=10**6)
run_app(app, listen("127.0.0.1", int(sys.argv[2])))
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


class ServerProcess:
    """The server as a process: started, killed, started again on the same port."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        source = Path(bots.__file__).parents[2]
        environment = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}
        command = [sys.executable, "-c", SERVER, str(self.path), str(self.port)]
        self.process = subprocess.Popen(command, env=environment)

    async def ready(self, seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", self.port)
            except OSError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                return
        raise TimeoutError("the server did not start")

    def processor_seconds(self) -> float:
        """Processor time of the server so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split() if self.process else []
        return sum(int(ticks) for ticks in fields[11:13]) / os.sysconf("SC_CLK_TCK")

    def kill(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process = None


class Workers(ServerProcess):
    """`aliquot collect serve --workers N`, whose processes are killed one by one."""

    def __init__(self, place: str | Path, count: int) -> None:
        super().__init__(Path())
        self.place, self.count = str(place), count

    def start(self) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}
        command = [
            sys.executable,
            "-m",
            "aliquot",
            "collect",
            "serve",
            self.place,
            "--port",
            str(self.port),
            "--workers",
            str(self.count),
        ]
        self.process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def kill_one(self, rng: random.Random) -> int:
        """Kill -9 a process that serves; 0 where none runs at the moment."""
        assert self.process is not None
        task = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        serving = [
            pid for pid in task.read_text().split() if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
        ]
        if serving:
            os.kill(int(rng.choice(serving)), signal.SIGKILL)
        return bool(serving)

    def kill(self) -> None:
        """End all of them."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait(30)
            self.process = None


class CutError(Exception):
    """The connection broke before an answer came: nobody knows whether the request arrived."""


@dataclass
class Bot:
    """One annotator: asks for units, saves, submits; remembers what was acknowledged."""

    token: str
    port: int
    rng: random.Random
    acknowledged: set[str] = field(default_factory=set)
    latest: dict[tuple[str, str], list[Any]] = field(default_factory=dict)  # answers sent since the last acknowledged
    took: dict[str, list[float]] = field(default_factory=dict)
    streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def call(self, method: str, path: str, body: Any = None, cut: bool = False) -> tuple[int, Any]:
        began = time.perf_counter()
        try:
            status, content = await asyncio.wait_for(self._exchange(method, path, body, cut), 30)
        except (OSError, EOFError, ValueError, IndexError, TimeoutError) as error:
            self.hang_up()
            raise CutError(str(error)) from None
        self.took.setdefault(path, []).append(time.perf_counter() - began)
        return status, json.loads(content) if content[:1] in b"{[" and content else None

    async def _exchange(self, method: str, path: str, body: Any, cut: bool) -> tuple[int, bytes]:
        if self.streams is None:
            self.streams = await asyncio.open_connection("127.0.0.1", self.port)
        reader, writer = self.streams
        payload = b"" if body is None else json.dumps(body).encode()
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nX-Aliquot-Token: {self.token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(payload)}\r\n\r\n"
        )
        writer.write(head.encode() + payload)
        await writer.drain()
        if cut:
            raise ConnectionResetError("cut on purpose")
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        status = int(lines[0].split()[1])
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:]) if name}
        return status, await reader.readexactly(int(headers.get("content-length", 0)))

    def hang_up(self) -> None:
        if self.streams is not None:
            self.streams[1].close()
            self.streams = None

    async def patiently(self, method: str, path: str, body: Any = None, cuts: float = 0.0) -> Any:
        """Send until it is answered, as the page does; now and then the network is cut on the way."""
        while True:
            try:
                status, answer = await self.call(method, path, body, cut=self.rng.random() < cuts)
            except CutError:
                await asyncio.sleep(0.02 + 0.1 * self.rng.random())
                continue
            if status == 200:
                return answer
            if status < 500 and status != 429:
                raise AssertionError(f"{method} {path}: {status} {answer}")
            await asyncio.sleep(0.1)

    async def judge(self, protocol: dict[str, Any], stop: asyncio.Event, cuts: float = 0.0, pause: float = 0.0) -> None:
        """Judge units, one change a save, until told to stop or nothing is left."""
        reply = await self.patiently("POST", "/api/next", {})
        while "unit" in reply and not stop.is_set():
            unit = reply["unit"]
            for change in bots.changes(bots.answer_unit(unit, protocol, self.rng), self.rng):
                if stop.is_set():
                    return
                key = (unit["assignment"], change["cell"])
                self.latest.setdefault(key, []).append(change["answer"])
                body = {"assignment": unit["assignment"], "changes": [change]}
                saved = await self.patiently("POST", "/api/save", body, cuts)
                assert saved["saved"] == [change["id"]]
                self.acknowledged.add(f"{unit['assignment']}/{change['id']}")
                self.latest[key] = [change["answer"]]
                await asyncio.sleep(pause * self.rng.random())
            reply = await self.patiently("POST", "/api/submit", {"assignment": unit["assignment"]}, cuts)


async def killed_while_judging(server: ServerProcess, crowd: list[Bot], protocol: dict[str, Any], kills: int) -> None:
    """Let a crowd judge while the server is killed again and again and connections are cut.

    The server lives until one more answer to three for each bot are acknowledged, and dies at a random moment after.
    """
    server.start()
    await server.ready()
    stop = asyncio.Event()
    tasks = [asyncio.create_task(bot.judge(protocol, stop, cuts=0.05, pause=0.05)) for bot in crowd]
    rng = random.Random(5)
    for _ in range(kills):
        enough = sum(len(bot.acknowledged) for bot in crowd) + rng.randint(1, 3 * len(crowd))
        deadline = time.monotonic() + 30
        while sum(len(bot.acknowledged) for bot in crowd) < enough and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05 * rng.random())
        server.kill()
        server.start()
        await server.ready()
    stop.set()
    await asyncio.gather(*tasks)
    server.kill()


async def workers_killed_while_judging(
    server: Workers, crowd: list[Bot], protocol: dict[str, Any], seconds: float, pause: float
) -> int:
    """Let a crowd judge for so long while one of the server's processes is killed every few seconds; how many were."""
    server.start()
    await server.ready()
    stop, rng, kills = asyncio.Event(), random.Random(5), 0
    tasks = [asyncio.create_task(bot.judge(protocol, stop, cuts=0.02, pause=pause)) for bot in crowd]
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        await asyncio.sleep(2 + 2 * rng.random())
        kills += server.kill_one(rng)
    stop.set()
    await asyncio.gather(*tasks)
    return kills


def lost_or_doubled(place: str | Path, crowd: list[Bot]) -> tuple[int, int, int]:
    """After the storm: acknowledged answers, how many of them are missing or wrong, and how many stand twice.

    Also looks whether the log still explains every table, and whether any unit was given to too many people.
    """
    with Campaign.open(place) as campaign:
        assert campaign.check().sound
        with campaign.store.read() as connection:
            names = connection.execute(sql("SELECT client_id FROM events WHERE client_id IS NOT NULL")).all()
            rows = connection.execute(sql("SELECT assignment_id, cell_id, answer FROM answers")).all()
            done = connection.execute(
                sql(
                    "SELECT MAX(n - wanted) FROM (SELECT u.wanted, COUNT(*) AS n FROM assignments a JOIN units u "
                    "ON u.id = a.unit_id WHERE a.state IN ('done', 'leased') GROUP BY u.id, u.wanted) AS t"
                )
            ).scalar()
    assert done is None or done <= 0
    stored = Counter(row.client_id for row in names)
    answers = {(row.assignment_id, row.cell_id): json.loads(row.answer) for row in rows}
    acknowledged = {name for bot in crowd for name in bot.acknowledged}
    missing = sum(stored[name] == 0 for name in acknowledged)
    wrong = sum(
        not any(_same(answers.get(key), sent) for sent in sents) for bot in crowd for key, sents in bot.latest.items()
    )
    return len(acknowledged), missing + wrong, sum(count > 1 for count in stored.values())


def _same(stored: Any, sent: Any) -> bool:
    """The server adds a digest of the text to each span."""
    if isinstance(stored, dict) and isinstance(sent, dict):
        return all(_same(stored.get(name), value) for name, value in sent.items())
    if isinstance(stored, list) and isinstance(sent, list):
        return len(stored) == len(sent) and all(_same(*pair) for pair in zip(stored, sent, strict=True))
    return bool(stored == sent)


def make_crowd(campaign: Campaign, port: int, count: int, seed: int = 0) -> list[Bot]:
    links = list(campaign.links().annotators.values())[:count]
    return [Bot(link.rsplit("/", 1)[1], port, random.Random(seed * 1000 + at)) for at, link in enumerate(links)]
