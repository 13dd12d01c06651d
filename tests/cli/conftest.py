"""What a command did, for all tests of verbs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from rich.cells import cell_len

from aliquot.cli import main
from aliquot.cli.main import run

WIDTH = 100


@dataclass(frozen=True)
class Said:
    """Exit code, standard output and standard error."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def words(self) -> str:
        return " ".join(self.out.split())

    @property
    def fits(self) -> bool:
        """Whether all lines fit; the signature, which is to be copied, may be longer."""
        return all(cell_len(line) <= WIDTH for line in self.out.splitlines() if not line.startswith("aliquot:"))


Call = Callable[..., Said]


def caller(capsys: pytest.CaptureFixture[str], *first: str) -> Call:
    """Run commands that begin with these words, and return what they did."""

    def call(*arguments: object) -> Said:
        code = run([*first, *(str(argument) for argument in arguments)])
        printed = capsys.readouterr()
        return Said(code, printed.out, printed.err)

    return call


@pytest.fixture
def aliquot(capsys: pytest.CaptureFixture[str]) -> Call:
    return caller(capsys)


@pytest.fixture
def own_faults() -> Callable[[BaseException], int]:
    """What the command line does with a fault of its own, for the tests of just that."""
    return _OWN_FAULT


_OWN_FAULT = main._own_fault


@pytest.fixture(autouse=True)
def no_fault_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the last boundary pass on what reaches it: a user's mistake must be told before."""

    def passed_on(error: BaseException) -> int:
        raise error

    monkeypatch.setattr(main, "_own_fault", passed_on)
