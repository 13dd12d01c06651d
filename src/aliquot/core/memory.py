"""Available memory, and checks that refuse work that cannot fit or end before it begins.

Invariant: the kernel kills a process that asks for too much without a message; so whatever grows with a number that the
user gives is checked here first, and the message says how much is needed, how much there is, and how to allow more.
"""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from pathlib import Path

from aliquot.errors import OptionError
from aliquot.validation import invalid

VARIABLE = "ALIQUOT_MEMORY"
MAX_DRAWS = 1_000_000
"""Of repeats, bootstrap draws, trials and permutations: a thousand give two digits, a million never needed."""
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_DEFAULT_MEMORY = 4 << 30  # where the system has no figure
_CGROUP = Path("/sys/fs/cgroup")


def available_memory() -> int:
    """Return the bytes that aliquot may use: $ALIQUOT_MEMORY (e.g. 16G), or the free memory of the machine.

    >>> available_memory() > 0
    True
    """
    setting = os.environ.get(VARIABLE)
    if setting:
        return _parse_size(setting)
    return min([_read_free_memory(), *_read_container_limits(), *_read_process_limit()])


def require_memory(needed: float, what: str, remedy: str) -> None:
    """Raise OptionError if work needs more bytes than are available.

    >>> require_memory(1e18, "10^12 items", "ask for fewer")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    aliquot.errors.OptionError: 10^12 items need about 888.2 PB of memory, and ...
    """
    free = available_memory()
    if not needed <= free:  # NaN does not fit either
        raise OptionError(
            f"{what} need about {format_size(needed)} of memory, and {format_size(free)} are free; {remedy}, use a "
            f"bigger machine, or allow more by the environment variable {VARIABLE}, e.g. {VARIABLE}=64G"
        )


def require_pair_memory(systems: int) -> None:
    """Raise OptionError for more systems than memory allows to compare in pairs.

    >>> require_pair_memory(50)
    """
    needed = 12 * 8.0 * systems**2 + 400.0 * systems * (systems - 1) / 2
    require_memory(needed, f"all pairs of {systems} systems", "name fewer systems with `systems`")


def limit_draws(**counts: int) -> None:
    """Raise OptionError for counts of draws above MAX_DRAWS.

    >>> limit_draws(trials=1000, permutations=10**7)
    Traceback (most recent call last):
        ...
    aliquot.errors.OptionError: `permutations` is 10000000; give at most 1000000
    """
    for name, count in counts.items():
        if count > MAX_DRAWS:
            raise invalid(name, count, f"give at most {MAX_DRAWS}")


def format_size(count: float) -> str:
    """Format a number of bytes, e.g. "8.0 GB".

    >>> format_size(512), format_size(8 * 2**30)
    ('512 bytes', '8.0 GB')
    """
    if count < 1 << 10:
        return f"{count:.0f} bytes"
    for unit in ("KB", "MB", "GB", "TB", "PB"):
        count /= 1 << 10
        if count < 1 << 10:
            return f"{count:.1f} {unit}"
    return f"{count:.3g} PB"


def _parse_size(text: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)I?B?", text.strip().upper())
    if match is None or float(match.group(1)) == 0:
        raise OptionError(f"{VARIABLE}='{text}': write a number of bytes, or with K, M, G or T, e.g. {VARIABLE}=16G")
    return int(float(match.group(1)) * _UNITS[match.group(2)])


def _read_free_memory() -> int:
    with suppress(OSError, ValueError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    with suppress(OSError, ValueError, AttributeError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return _DEFAULT_MEMORY


def _read_container_limits() -> list[int]:
    """Return what a container (cgroup version 2 or 1) may still use, in bytes."""
    limits = []
    names = (("memory.max", "memory.current"), ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"))
    for limit, used in names:
        with suppress(OSError, ValueError):
            limit_bytes = int((_CGROUP / limit).read_text())  # "max" where there is no limit
            limits.append(
                max(
                    limit_bytes - int((_CGROUP / used).read_text()) + _read_file_cache((_CGROUP / used).parent), 1 << 20
                )
            )
    return limits


def _read_file_cache(folder: Path) -> int:
    """Return the page cache in bytes, which the kernel frees on demand."""
    with suppress(OSError, ValueError):
        rows = (line.split() for line in (folder / "memory.stat").read_text().splitlines())
        return sum(int(value) for name, value in rows if name in ("active_file", "inactive_file"))
    return 0


def _read_process_limit() -> list[int]:
    """Return the limit of `ulimit -v` in bytes; empty if there is none."""
    if sys.platform == "win32":
        return []
    import resource  # noqa: PLC0415  (not on Windows)

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return [] if limit == resource.RLIM_INFINITY else [limit]
