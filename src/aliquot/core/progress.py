"""Progress of long work: `progress=True` writes one line that is updated, in a terminal and in a notebook alike.

Widgets of notebooks need packages and a front end that fit together; a line of text that returns to its beginning
works everywhere, and a finished one stays as a plain line.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import monotonic

Progress = Callable[[int, int], None]
ProgressLike = Progress | bool | None
"""What verbs take: a function called with finished and total counts, True for a line of text, or None."""
_INTERVAL = 0.2  # seconds between two lines


def resolve_progress(progress: ProgressLike, what: str) -> Progress | None:
    """Return the progress callback; for True, one that writes a line to standard error.

    >>> resolve_progress(None, "replaying") is None, resolve_progress(False, "replaying") is None
    (True, True)
    """
    if progress is None or progress is False:
        return None
    return _build_line_progress(what) if progress is True else progress


def _build_line_progress(what: str) -> Progress:
    last = [-_INTERVAL]

    def write_line(finished: int, total: int) -> None:
        now = monotonic()
        if finished < total and now - last[0] < _INTERVAL:
            return
        last[0] = now
        sys.stderr.write(f"\r{what}: {finished} of {total}" + ("\n" if finished >= total else ""))
        sys.stderr.flush()

    return write_line
