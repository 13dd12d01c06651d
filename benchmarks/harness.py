"""Timing two things side by side. Machines are noisy: only ratios count, each the median of alternating runs."""

from __future__ import annotations

import argparse
import gc
import resource
import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

SHARED = Path(__file__).parent.parent.parent / "shared" / "data"


def study_options(about: str | None, arguments: Sequence[str] | None, *, minutes: bool = False) -> argparse.Namespace:
    """What a study of replays may be told; it ends here where the real campaigns are absent."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", help="campaigns whose label holds this; the page is printed, not written")
    if minutes:
        parser.add_argument("--minutes", type=float, help="begin nothing new after so many minutes")
    options = parser.parse_args(arguments)
    require_campaigns()
    return options


def require_campaigns() -> None:
    """End here where the real campaigns are absent; otherwise be quiet about what is assumed of them."""
    if not SHARED.exists():
        print(f"{SHARED} is absent: the study needs the real campaigns")
        raise SystemExit(0)
    warnings.simplefilter("ignore")


def peer_module(name: str) -> Any:
    """Import a peer's module to compare with; None, with the reason printed, where it is not installed."""
    try:
        return import_module(name)
    except ImportError as error:
        print(f"{name} cannot be imported ({error}); nothing to compare with: pip install --no-deps it")
        return None


@dataclass(frozen=True)
class Row:
    """One line of the report: what, our time, the peer's time, and the promise."""

    name: str
    ours: float
    peer: float | None
    promise: str
    kept: bool | None

    @property
    def ratio(self) -> float | None:
        return None if self.peer is None else self.peer / self.ours


def seconds(work: Callable[[], object]) -> float:
    gc.collect()
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def side_by_side(ours: Callable[[], object], peer: Callable[[], object], repeats: int = 3) -> tuple[float, float]:
    """Median seconds of both, run in turns so that a slow moment hits both."""
    mine, theirs = [], []
    for _ in range(repeats):
        mine.append(seconds(ours))
        theirs.append(seconds(peer))
    return statistics.median(mine), statistics.median(theirs)


def faster(name: str, ours: float, peer: float, at_least: float) -> Row:
    return Row(name, ours, peer, f"at least {at_least:g} times faster", peer / ours >= at_least)


def slower_at_most(name: str, ours: float, peer: float, at_most: float) -> Row:
    return Row(name, ours, peer, f"at most {at_most:g} times the time of the bare work", ours / peer <= at_most)


def within(name: str, ours: float, limit: float) -> Row:
    return Row(name, ours, None, f"under {limit:g} s", ours <= limit)


def peak_gigabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
