"""Several server processes for one campaign: they share the port, and one that dies is started again."""

from __future__ import annotations

import multiprocessing
import signal
import socket
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess

from aliquot.validation import between

MAX_WORKERS = 64
_PAUSE = 0.3  # seconds between two looks at the workers


def check_count(count: int) -> int:
    """Validate the number of server processes."""
    return between("workers", count, 1, MAX_WORKERS)


def run_workers(place: str, listening: socket.socket, count: int, say: Callable[[str], object]) -> None:
    """Serve until interrupted, with `count` processes on one socket."""
    context = multiprocessing.get_context("spawn")  # threads and connections of this process must not be copied
    stopping = False

    def stop(_signal: int, _frame: object) -> None:
        nonlocal stopping
        stopping = True

    before = signal.signal(signal.SIGTERM, stop)
    workers: list[BaseProcess] = []
    try:
        while not stopping:
            alive = [worker for worker in workers if worker.is_alive()]
            if len(alive) < len(workers):
                say(f"{len(workers) - len(alive)} server processes ended and are started again")
            workers = alive + [_start_process(context, place, listening) for _ in range(count - len(alive))]
            time.sleep(_PAUSE)
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, before)
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.join(10)


def _start_process(context: multiprocessing.context.SpawnContext, place: str, listening: socket.socket) -> BaseProcess:
    worker = context.Process(target=_serve_in_process, args=(place, listening), daemon=True)
    worker.start()
    return worker


def _serve_in_process(place: str, listening: socket.socket) -> None:
    from aliquot.collect.campaign import Campaign  # noqa: PLC0415  (in the new process only)
    from aliquot.collect.server import create_app, run_app  # noqa: PLC0415

    with Campaign.open(place) as campaign:
        run_app(create_app(campaign), listening)
