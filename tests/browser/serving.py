"""A campaign's server in a thread, for tests: started at once, stopped at the end."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from aliquot.collect.campaign import Campaign
from aliquot.collect.server import create_app


class Served:
    """A campaign being served, and the links of its annotators."""

    def __init__(self, campaign: Campaign, url: str, server: uvicorn.Server) -> None:
        self.campaign = campaign
        self.url = url
        self.server = server
        links = campaign.links(url)
        self.organiser = links.organiser
        self.links = links.annotators

    def tokens(self) -> dict[str, str]:
        return {name: link.rsplit("/", 1)[1] for name, link in self.links.items()}


@contextmanager
def served(campaign: Campaign, **options: float) -> Iterator[Served]:
    listening = socket.create_server(("127.0.0.1", 0))
    app = create_app(campaign, **options)  # type: ignore[arg-type]
    config = uvicorn.Config(app, access_log=False, log_level="error", lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    deadline = time.monotonic() + 10
    while not server.started and time.monotonic() < deadline:
        time.sleep(0.01)
    try:
        yield Served(campaign, f"http://127.0.0.1:{listening.getsockname()[1]}", server)
    finally:
        server.should_exit = True
        server.force_exit = True
        thread.join(5)
        listening.close()
