"""Lock files: one process at a time; others wait for the owner, whose death frees the lock.

The kernel keeps the lock (flock) and drops it when its owner dies, killed or not; the file holds its owner. Where a
file system has no such locks, a file whose owner is alive on this machine counts as held.
"""

from __future__ import annotations

import hashlib
import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import msgspec

from aliquot.errors import OutputError

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

_POLL_SECONDS = 0.2  # seconds between two looks at a lock


@dataclass(frozen=True)
class LockOwner:
    """A process, identified by host, number and start time.

    Attributes:
        host: the machine.
        pid: the process.
        started: clock ticks from the machine's start to the process's; 0 where unknown.
        since: when it took the lock, in local time.
    """

    host: str
    pid: int
    started: int
    since: str = ""

    @property
    def here(self) -> bool:
        """Whether the process is of this machine."""
        return self.host == socket.gethostname()

    @property
    def alive(self) -> bool:
        """Whether the process still runs; processes of other machines count as running."""
        if not self.here or sys.platform == "win32":  # there is no harmless signal there
            return True
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except OSError:  # another user's
            pass
        return self.started in (0, _get_start_time(self.pid))

    @property
    def token(self) -> str:
        """A short text for names of files: machine, process, start.

        >>> LockOwner("somewhere", 12, 345).token
        'd02227f2-12-345'
        """
        return f"{_digest_host(self.host)}-{self.pid}-{self.started}"


def get_current_process() -> LockOwner:
    """Return this process.

    >>> get_current_process().alive
    True
    """
    now = time.strftime("%Y-%m-%d %H:%M:%S")
    return LockOwner(socket.gethostname(), os.getpid(), _get_start_time(os.getpid()) or 0, now)


def is_abandoned(token: str) -> bool:
    """Return whether a token is of a process of this machine that has ended.

    >>> is_abandoned(get_current_process().token), is_abandoned("no token")
    (False, False)
    """
    parts = token.split("-")
    if len(parts) != 3 or parts[0] != _digest_host(socket.gethostname()) or not (parts[1] + parts[2]).isdigit():
        return False
    return not LockOwner(socket.gethostname(), int(parts[1]), int(parts[2])).alive


@cache
def _digest_host(host: str) -> str:
    return hashlib.blake2b(host.encode(), digest_size=4).hexdigest()


def _get_start_time(pid: int) -> int | None:
    """Return a process's start time from /proc: 0 without /proc, None if the process has ended or is a zombie."""
    if not sys.platform.startswith("linux"):
        return 0
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()  # names may hold blanks
    except (FileNotFoundError, ProcessLookupError):
        return None if Path("/proc/self/stat").exists() else 0
    except OSError:
        return 0
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


@contextmanager
def hold_lock(path: Path, work: str) -> Iterator[None]:
    """Hold the lock file `path` in the block; wait, with a note on its owner, while another process holds it.

    Args:
        path: the lock file, made here and removed at the end.
        work: what the holder does, for the message, such as "downloads the WMT archive".

    Raises:
        OutputError: This very process holds it, and waiting would never end.
        OSError: The file cannot be made.
    """
    handle = _acquire(path, work)
    try:
        os.ftruncate(handle, 0)
        os.lseek(handle, 0, os.SEEK_SET)
        os.write(handle, msgspec.json.encode(get_current_process()) + b"\n")
        yield
    finally:
        with suppress(OSError):  # the cache may have been deleted meanwhile
            path.unlink()
        os.close(handle)


def _acquire(path: Path, work: str) -> int:
    """Wait for the lock; return the handle of the locked file."""
    reported: LockOwner | None = None
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        holder = _read_owner(handle)
        if not _try_lock(handle, holder):
            os.close(handle)
            reported = _report_wait(path, holder, reported, work)
            time.sleep(_POLL_SECONDS)
        elif _is_same_file(path, handle):
            return handle
        else:  # its holder removed it in between: the lock is on a file without a name
            os.close(handle)


def _try_lock(handle: int, holder: LockOwner | None) -> bool:
    if fcntl is not None:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # a file system without locks
            pass
        else:
            return True
    return holder is None or not (holder.here and holder.alive)


def _is_same_file(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False


def _read_owner(handle: int) -> LockOwner | None:
    """Return the owner written in the lock file; None if there is none."""
    with suppress(msgspec.MsgspecError, UnicodeDecodeError):
        os.lseek(handle, 0, os.SEEK_SET)
        return msgspec.json.decode(os.read(handle, 4096), type=LockOwner)
    return None


def _report_wait(path: Path, holder: LockOwner | None, reported: LockOwner | None, work: str) -> LockOwner | None:
    """Print a note once for each owner that is waited for; return the owner reported."""
    if holder is None or holder == reported:
        return reported
    if holder.here and holder.pid == os.getpid():
        raise OutputError(f"{path}: another run is writing it, in this very process; wait for that one")
    sys.stderr.write(
        f"note: waiting for process {holder.pid} on {holder.host}, which {work} since {holder.since} "
        f"({path}); stop it, or interrupt this one\n"
    )
    sys.stderr.flush()
    return holder
