"""The server among hostile connections: answers leave at once, half requests are cut off, annotators are served."""

from __future__ import annotations

import asyncio
import random
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn")
import uvicorn
from tests.collect.crowd import Bot

import aliquot
from aliquot.collect import bots, connections, organiser_site, server, workers
from aliquot.collect.campaign import Campaign

DATA = aliquot.synthetic(items=6, systems=2, seed=1)


@pytest.fixture
def campaign(folder: Path) -> Iterator[Campaign]:
    with Campaign.create(DATA, None, "da", ["ann"], path=folder / "c.db", unit_items=3) as made:
        yield made


@contextmanager
def served(campaign: Campaign, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Run the application as `serve` does, in a thread; the port."""
    started = threading.Event()
    running: list[uvicorn.Server] = []

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            running.append(self)
            await super().startup(sockets)
            started.set()

    monkeypatch.setattr(uvicorn, "Server", Server)
    interval = sys.getswitchinterval()
    with server.listen("127.0.0.1", 0) as listening:
        app = server.create_app(campaign, calls_per_second=1e6, burst=10**6)
        thread = threading.Thread(target=server.run_app, args=(app, listening), daemon=True)
        thread.start()
        assert started.wait(60)
        yield listening.getsockname()[1]
        running[0].should_exit = True
        thread.join(60)
    sys.setswitchinterval(interval)
    assert not thread.is_alive(), "open connections keep the server from stopping"


def client(port: int, request: bytes = b"") -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port), timeout=60)
    made.sendall(request)
    return made


def answer(connection: socket.socket) -> bytes:
    """What comes until the server hangs up."""
    parts = []
    with suppress(ConnectionResetError):
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts)


HALF_HEAD = b"GET /health HTTP/1.1\r\nHost: x\r\nX-"
HALF_BODY = b"POST /api/save HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 999\r\n\r\n{"
BUSY = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"


async def save(port: int, campaign: Campaign) -> None:
    """One annotator takes a unit and saves an answer."""
    bot = Bot(campaign.links().annotators["ann"].rpartition("/")[2], port, random.Random(1))
    status, reply = await bot.call("POST", "/api/next", {})
    assert status == 200
    unit = reply["unit"]
    change = bots.changes(bots.answer_unit(unit, campaign.protocol.for_page(), bot.rng), bot.rng)[:1]
    status, reply = await bot.call("POST", "/api/save", {"assignment": unit["assignment"], "changes": change})
    assert (status, reply["saved"]) == (200, [change[0]["id"]])
    bot.hang_up()


def stream(campaign: Campaign) -> bytes:
    link = campaign.links("").organiser
    return f"GET {link}/live HTTP/1.1\r\nHost: x\r\n\r\n".encode()


def test_answers_leave_at_once(campaign: Campaign, monkeypatch: pytest.MonkeyPatch):
    """With several processes, too: they get the socket by number, and read its protocol from it."""
    delays: list[int] = []
    made = connections.GuardedConnection.connection_made

    def connection_made(self: Any, transport: asyncio.Transport) -> None:
        accepted = transport.get_extra_info("socket")
        delays.append(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        made(self, transport)

    monkeypatch.setattr(connections.GuardedConnection, "connection_made", connection_made)
    with served(campaign, monkeypatch) as port, closing(client(port, BUSY)) as kept:
        assert kept.recv(9) == b"HTTP/1.1 "
    assert delays == [1]


def report_protocol(_place: str, listening: socket.socket) -> None:
    """Stand in for a server process: answer with what asyncio would see of the socket, and of an accepted one."""

    async def first() -> int:
        told: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        class Told(asyncio.Protocol):
            def connection_made(self, transport: Any) -> None:
                delay = transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
                transport.write(b"%d" % delay)
                transport.close()
                told.set_result(delay)

        await asyncio.get_running_loop().create_server(Told, sock=listening)
        return await told

    asyncio.run(first())


def test_answers_of_several_processes_leave_at_once(monkeypatch: pytest.MonkeyPatch):
    import multiprocessing

    monkeypatch.setattr(workers, "_serve_in_process", report_protocol)
    with server.listen("127.0.0.1", 0) as listening:
        listening.listen()
        worker = workers._start_process(multiprocessing.get_context("spawn"), "", listening)
        with closing(client(listening.getsockname()[1])) as asking:
            assert answer(asking) == b"1"
        worker.join(60)


@pytest.mark.parametrize("sent", [b"", HALF_HEAD, HALF_BODY, BUSY + HALF_HEAD], ids=["idle", "head", "body", "second"])
def test_who_does_not_finish_a_request_is_cut_off(campaign: Campaign, monkeypatch: pytest.MonkeyPatch, sent: bytes):
    monkeypatch.setattr(connections, "MAX_REQUEST_SECONDS", 0.05)
    monkeypatch.setattr(connections, "MAX_IDLE_SECONDS", 0.05)
    with served(campaign, monkeypatch) as port, closing(client(port, sent)) as slow:
        assert answer(slow).count(b"200 OK") == (sent.startswith(BUSY))
        asyncio.run(save(port, campaign))


def test_dribbling_does_not_help(campaign: Campaign, monkeypatch: pytest.MonkeyPatch):
    """The time runs from the beginning of a request, not from its last byte."""
    monkeypatch.setattr(connections, "MAX_REQUEST_SECONDS", 0.3)
    with served(campaign, monkeypatch) as port, closing(client(port, HALF_HEAD)) as slow:
        slow.settimeout(0.02)
        for _ in range(3000):  # at most a minute
            try:
                slow.sendall(b"a")
                if not slow.recv(1):
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        else:
            pytest.fail("still open")


def test_large_heads_are_refused(campaign: Campaign, monkeypatch: pytest.MonkeyPatch):
    with served(campaign, monkeypatch) as port:
        head = b"GET /health HTTP/1.1\r\nHost: x\r\nX-Long: " + b"a" * 100_000
        with closing(client(port)) as large:
            with suppress(OSError):  # hung up on while it still sends
                large.sendall(head)
            assert b"200 OK" not in answer(large)


@pytest.mark.parametrize("field", [b"Transfer-Encoding: chunked\r\n", b"A: b\r\n" * 101], ids=["chunks", "fields"])
def test_bodies_in_chunks_and_many_fields_are_refused(
    campaign: Campaign, monkeypatch: pytest.MonkeyPatch, field: bytes
):
    """Chunks of one byte took all of the processor; pages send the length."""
    with served(campaign, monkeypatch) as port:
        head = b"POST /api/save HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" + field + b"\r\n"
        with closing(client(port, head + b"1\r\nx\r\n")) as hostile:
            assert answer(hostile).startswith(b"HTTP/1.1 400 ")
        asyncio.run(save(port, campaign))


def test_annotators_are_served_among_idle_connections_half_requests_and_streams(
    campaign: Campaign, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 150)
    with served(campaign, monkeypatch) as port:
        hostile = [client(port, stream(campaign)) for _ in range(80)]
        for listening in hostile[-organiser_site.MAX_STREAMS :]:
            assert listening.recv(9) == b"HTTP/1.1 "
        hostile += [client(port, sent) for _ in range(60) for sent in (b"", HALF_HEAD, HALF_BODY)]
        asyncio.run(save(port, campaign))
        for connection in hostile:
            connection.close()


def test_the_newest_streams_win(campaign: Campaign, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(organiser_site, "MAX_STREAMS", 2)
    monkeypatch.setattr(organiser_site, "_LOOK", 0.01)
    with served(campaign, monkeypatch) as port:
        pages = []
        for _ in range(3):
            pages.append(client(port, stream(campaign)))
            assert b"200 OK" in pages[-1].recv(15)
        text = b""
        while b"event: enough" not in text:
            part = pages[0].recv(65536)
            assert part, text
            text += part
        for page in pages:
            page.close()


def test_a_full_server_says_so(campaign: Campaign, monkeypatch: pytest.MonkeyPatch):
    """Where all connections are at work, nobody is cut off for a new one."""
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 2)
    with served(campaign, monkeypatch) as port:
        pages = [client(port, stream(campaign)) for _ in range(2)]
        for page in pages:
            assert b"200 OK" in page.recv(15)
        with closing(client(port)) as late:
            assert answer(late).startswith(b"HTTP/1.1 503 ")
        for page in pages:
            page.close()
