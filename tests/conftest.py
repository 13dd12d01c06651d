"""What holds for every test: a name that two processes spell alike."""

import re

import pytest

_ADDRESS = re.compile(r"\bat 0x[0-9a-f]+", re.IGNORECASE)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """pytest -n stops before the first test where its processes collect different names, as an address in one makes."""
    moving = [item.nodeid for item in items if _ADDRESS.search(item.nodeid)]
    if moving:
        raise pytest.UsageError("a memory address in a test's name; give it an id: " + "; ".join(moving))
