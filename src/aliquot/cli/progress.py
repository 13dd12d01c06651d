"""Progress bars: on standard error, for people only, and gone when the work is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

Counted = Callable[[int, int], None]
Shared = Callable[[str, float, int], None]


@contextmanager
def counting(what: str) -> Iterator[Counted | None]:
    """A bar to be told how many of how many are done; it shows once there is something to wait for."""
    bar = _bar(TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    if bar is None:
        yield None
        return
    task = bar.add_task(what, total=None)

    def told(done: int, total: int) -> None:
        bar.start()
        bar.update(task, completed=done, total=total)

    try:
        yield told
    finally:
        bar.stop()


@contextmanager
def rated(first: str) -> Iterator[Shared | None]:
    """A bar with a rate, to be told what is done, what share of it, and how many sources so far."""
    bar = _bar(
        TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )  # fmt: skip
    if bar is None:
        yield None
        return
    begun = monotonic()
    with bar:
        task = bar.add_task(first, total=1.0, rate="")

        def told(what: str, share: float, items: int) -> None:
            rate = f"{items:,} sources, {items / max(monotonic() - begun, 1e-3):,.0f}/s" if what == first else ""
            bar.update(task, description=what, completed=share, rate=rate)

        yield told


def _bar(*columns: ProgressColumn) -> Progress | None:
    stderr = Console(stderr=True)
    return Progress(*columns, console=stderr, transient=True) if stderr.is_terminal else None
