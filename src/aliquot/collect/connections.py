"""Connection limits of the server: slow requests time out, and idle connections are closed when all are taken.

Annotators behind one address (a university, a proxy) are no attack, so there is no limit by address. Only when the
server holds all the connections it can, the address with the most loses the one that has waited the longest.
"""

from __future__ import annotations

import asyncio
from collections import Counter

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

MAX_CONNECTIONS = 800  # of a process; systems allow 1,024 open files by default
MAX_ACCEPTED_AT_ONCE = 128
MAX_REQUEST_SECONDS = 30.0  # to send a request, or to take an answer; 2 MB in this time are 67 kB/s
MAX_HEAD, MAX_HEADERS = 65_536, 100  # bytes, and fields; browsers and proxies send about 20
MAX_IDLE_SECONDS = 75  # between two requests
_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nConnection: close\r\nContent-Type: text/plain\r\n"
    b"Content-Length: 53\r\n\r\nThe server is busy. Please try again in a few seconds"
)


class _Reader(h11.Connection):
    """HTTP parser that rejects requests with too many headers or a chunked body."""

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """Return the next event; a chunked body is rejected because one-byte chunks would use all of the CPU."""
        event = super().next_event()
        if isinstance(event, h11.Request) and (
            len(event.headers) > MAX_HEADERS or any(name == b"transfer-encoding" for name, _ in event.headers)
        ):
            raise h11.RemoteProtocolError("too many headers, or a body without Content-Length")
        return event


class GuardedConnection(H11Protocol):
    """A connection with a time limit for requests; it may be closed while it is idle."""

    deadline: asyncio.TimerHandle | None = None
    since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept the connection; if there are too many, close an idle one first."""
        super().connection_made(transport)
        self.conn = _Reader(h11.SERVER, MAX_HEAD)
        self.since = self.loop.time()
        self._update_deadline()
        if len(self.connections) > MAX_CONNECTIONS and not self._make_room():
            self.connections.discard(self)
            transport.write(_FULL)
            transport.close()

    def data_received(self, data: bytes) -> None:
        """Read a part of a request."""
        super().data_received(data)
        self.since = self.loop.time()
        self._update_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the time limit."""
        super().connection_lost(exc)
        self._set_deadline(False)

    def pause_writing(self) -> None:
        """Start the time limit for a client that does not read."""
        super().pause_writing()
        self._set_deadline(True)

    def resume_writing(self) -> None:
        """Continue writing."""
        super().resume_writing()
        self._update_deadline()

    def shutdown(self) -> None:
        """Close open streams and incomplete requests."""
        super().shutdown()
        cycle = self.current_cycle
        if cycle is not None and (cycle.response_started or cycle.more_body):
            self.transport.close()

    @property
    def current_cycle(self) -> RequestResponseCycle | None:
        """The request that is being answered, or the last one; uvicorn types it as always there."""
        return self.cycle

    @property
    def is_waiting(self) -> bool:
        """Whether the server waits for the client."""
        cycle = self.current_cycle
        return cycle is None or cycle.response_complete or cycle.more_body

    def _update_deadline(self) -> None:
        self._set_deadline(self.conn.their_state in (h11.IDLE, h11.SEND_BODY))

    def _set_deadline(self, is_limited: bool) -> None:
        """Start the time limit unless it runs already, or end it."""
        if not is_limited and self.deadline is not None:
            self.deadline.cancel()
            self.deadline = None
        elif is_limited and self.deadline is None:
            self.deadline = self.loop.call_later(MAX_REQUEST_SECONDS, self.transport.abort)

    def _make_room(self) -> bool:
        """Close the oldest waiting connection of the address with the most connections; never answered ones first."""
        connections = [connection for connection in self.connections if isinstance(connection, GuardedConnection)]
        by_client = Counter(connection.client and connection.client[0] for connection in connections)
        idle = [connection for connection in connections if connection.is_waiting and connection is not self]
        if idle:
            first = min(
                idle, key=lambda it: (-by_client[it.client and it.client[0]], it.current_cycle is not None, it.since)
            )
            self.connections.discard(first)
            first.transport.abort()
        return bool(idle)
