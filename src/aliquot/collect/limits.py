"""Rate limits: a bucket for each key that refills steadily, in memory."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

MAX_KEYS = 20_000


class RateLimit:
    """At most `burst` calls at once and `per_second` in the long run, for each key.

    >>> limit = RateLimit(per_second=1, burst=2, clock=lambda: 0.0)
    >>> [limit.take("a") for _ in range(3)]
    [0, 0, 1]
    """

    def __init__(self, per_second: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._burst = float(burst)
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, key: str) -> int:
        """Take one call; 0 when it may go ahead, else the whole seconds to wait."""
        now = self._clock()
        tokens, since = self._buckets.get(key, (self._burst, now))
        tokens = min(self._burst, tokens + (now - since) * self._per_second)
        if tokens < 1:
            self._buckets[key] = (tokens, now)
            return max(1, math.ceil((1 - tokens) / self._per_second))
        if len(self._buckets) >= MAX_KEYS:
            self._forget_idle(now)
        self._buckets[key] = (tokens - 1, now)
        return 0

    def _forget_idle(self, now: float) -> None:
        """Drop buckets that are full again; all of them when that does not help."""
        refill = self._burst / self._per_second
        self._buckets = {key: bucket for key, bucket in self._buckets.items() if now - bucket[1] < refill}
        if len(self._buckets) >= MAX_KEYS:
            self._buckets.clear()
