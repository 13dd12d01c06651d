"""What holds for every test: names that two processes spell alike, which tests are slow, and which need a program
outside Python.

`slow.txt` names the test functions that take, with all their cases, more than `SLOW` seconds (see `_count_seconds`);
`make test-fast` leaves them out. The list is measured (`make slow-list`): no test needs a mark of its own, and a new
one counts as fast until it is measured.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from time import monotonic
from typing import Any, NoReturn

import pytest
from hypothesis import settings

# Whatever terminal, colours and locale `make test` is started from, commands see these.
os.environ |= {"COLUMNS": "100", "LINES": "40"}
for _name in ("FORCE_COLOR", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "PYTHONWARNINGS"):
    os.environ.pop(_name, None)

SLOW = 0.2
LIST = Path(__file__).parent / "slow.txt"
_ADDRESS = re.compile(r"\bat 0x[0-9a-f]+", re.IGNORECASE)
# A busy machine must not fail a property, and the same commit passes or fails on every day; `make fuzz` explores.
settings.register_profile("aliquot", deadline=None, derandomize="ALIQUOT_FUZZ_SECONDS" not in os.environ)
settings.load_profile("aliquot")
_MEASURED = pytest.StashKey[defaultdict[tuple[Path, str], float]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-slow-list", action="store_true", help="measure all tests and write tests/slow.txt")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--write-slow-list"):
        config.stash[_MEASURED] = defaultdict(float)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse names that differ between processes, and mark slow tests.

    pytest -n stops before the first test where its processes collect different names, as an address in one makes.
    """
    moving = [item.nodeid for item in items if _ADDRESS.search(item.nodeid)]
    if moving:
        raise pytest.UsageError("a memory address in a test's name; give it an id: " + "; ".join(moving))
    slow = set(LIST.read_text().splitlines())
    for item in items:
        if _function(item) in slow or item.path.parent.name == "real":
            item.add_marker(pytest.mark.slow)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    before = _count_seconds()
    result = yield
    measured = item.config.stash.get(_MEASURED, None)
    if measured is not None:
        seconds = [after - start for after, start in zip(_count_seconds(), before, strict=True)]
        measured[item.path, _function(item)] += max(seconds)
    return result


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """A process of pytest -n has ended: add what it measured."""
    measured = node.config.stash.get(_MEASURED, None)
    if measured is not None:
        for path, name, seconds in getattr(node, "workeroutput", {}).get("measured", []):
            measured[Path(path), name] += seconds


def pytest_sessionfinish(session: pytest.Session) -> None:
    measured = session.config.stash.get(_MEASURED, None)
    if measured is None:
        return
    if hasattr(session.config, "workeroutput"):
        own = [(str(path), name, seconds) for (path, name), seconds in measured.items()]
        session.config.workeroutput["measured"] = own
        return
    names = {name for (path, name), seconds in measured.items() if seconds > SLOW and path.parent.name != "real"}
    LIST.write_text("".join(f"{name}\n" for name in sorted(names)))


def _function(item: pytest.Item) -> str:
    return getattr(item, "originalname", None) or item.name


def _count_seconds() -> tuple[float, float]:
    """Return processor seconds of this process and of its ended children, and half of the seconds that passed.

    A busy machine makes no test slow; one that waits, for a browser or a server, is.
    """
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in usage), monotonic() / 2


# -- programs outside Python ---------------------------------------------------------------------------------------


def require_debian(package: str, executable: str) -> Path:
    """The path of a program that `make test` installs from a package of Debian (debian.stamp in the Makefile).

    Where it is absent the test skips with the reason; with CI=true it fails. PostgreSQL's programs are also found
    outside the PATH, where Debian puts them.
    """
    found = shutil.which(executable) or max(
        map(str, Path("/usr/lib/postgresql").glob(f"*/bin/{executable}")), default=None
    )
    if found is None:
        lacking(f"{executable} is not installed; on Debian: apt-get install {package}")
    return Path(found)


def lacking(reason: str) -> NoReturn:
    """Skip for want of something that CI installs; on CI itself (CI=true), fail."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
