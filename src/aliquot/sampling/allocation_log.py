"""What allocators of cells and of pairs share: the log of units asked and answers, from which everything follows."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from aliquot._version import __version__
from aliquot.errors import AliquotWarning, DataError, OptionError
from aliquot.stats.arrays import IntArray

AskT = TypeVar("AskT")


@dataclass(frozen=True)
class LoggedAnswer:
    """An answer to a unit."""

    key: tuple[int, int]  # row and system, or pair and row
    rater: Any  # who answered, and which criterion where there are several
    value: float  # the score, or the share of wins of the pair's first system
    event: Mapping[str, Any]  # the answer's fields in the log
    label: str  # the unit in messages


class AllocationLog(ABC, Generic[AskT]):
    """Base class of allocators; the same log gives the same next units."""

    UNIT: ClassVar[str]  # what `next` counts
    ANSWER: ClassVar[str]  # what an answer is called, in the log and in messages

    def __init__(self, options: Mapping[str, Any], fingerprint: str, budget: int | None) -> None:
        self._options, self._fingerprint, self._budget = dict(options), fingerprint, budget
        self._log: list[dict[str, Any]] = []
        self._open: dict[tuple[int, int], AskT] = {}
        self._answers: dict[tuple[int, int], dict[Any, float]] = {}
        self._spent, self._budget_ended = 0, False  # units asked; whether the next unit exceeds the budget

    @abstractmethod
    def _start_batch(self) -> Callable[[], list[AskT]]:
        """Return a function that chooses the next unit, a list of asks; empty where none is left."""

    @abstractmethod
    def _record_ask(self, ask: AskT) -> None: ...
    @abstractmethod
    def _record_answer(self, answer: LoggedAnswer) -> None: ...
    @abstractmethod
    def _read_ask(self, event: Mapping[str, Any]) -> AskT: ...
    @abstractmethod
    def _read_answer(self, event: Mapping[str, Any]) -> LoggedAnswer: ...

    def _format_value(self, key: tuple[int, int], value: float) -> str:
        del key
        return f"{value:g}"

    @property
    def pending(self) -> list[AskT]:
        """Units asked and not answered yet."""
        return list(self._open.values())

    def next(self, k: int = 1) -> list[AskT]:
        """Return the next k cells or pairs to judge, fewer where the budget or the items end; units are not divided."""
        if k < 1:
            raise OptionError(f"next({k}): ask for at least 1 {self.UNIT}")
        asks: list[AskT] = []
        choose_unit = self._start_batch()
        while len(asks) < k and (self._budget is None or self._spent < self._budget):
            unit = choose_unit()
            self._budget_ended = self._budget is not None and self._spent + len(unit) > self._budget
            if not unit or self._budget_ended:
                break
            for ask in unit:
                self._record_ask(ask)
            asks += unit
        return asks

    def state(self) -> dict[str, Any]:
        """Return options, data fingerprint and log as plain values, for `restore`."""
        options, log = dict(self._options), self._log[:]
        return {"aliquot": __version__, "data": self._fingerprint, "options": options, "log": log}

    def replay(self, event: Mapping[str, Any]) -> None:
        """Apply one event of a log."""
        if event.get("event") == self.ANSWER:
            self._record_answer(self._read_answer(event))
        elif event.get("event") == "ask":
            self._record_ask(self._read_ask(event))
        else:
            raise DataError(f"the log holds an unknown event: {event!r}")

    def _log_ask(self, key: tuple[int, int], ask: AskT) -> None:
        self._log.append({"event": "ask", **vars(ask)})
        self._spent += 1
        self._open[key] = ask

    def _log_answer(self, answer: LoggedAnswer, *, is_asked: bool) -> dict[Any, float]:
        """Log an answer; return the unit's earlier answers, by rater."""
        answers = self._answers.setdefault(answer.key, {})
        before = answers.copy()
        answers[answer.rater] = answer.value
        self._log.append({"event": self.ANSWER, **answer.event, **({} if is_asked else {"unasked": True})})
        self._open.pop(answer.key, None)
        return before

    def _mean_answer(self, key: tuple[int, int]) -> float:
        return float(np.mean(list(self._answers[key].values())))

    def _add_answers(self, answers: Iterable[LoggedAnswer]) -> None:
        """Record all answers or, if a rater contradicts an earlier answer, none; repeated answers count once."""
        fresh: dict[tuple[tuple[int, int], Any], LoggedAnswer] = {}
        for answer in answers:
            earlier = fresh.get((answer.key, answer.rater))
            before = self._answers.get(answer.key, {}).get(answer.rater) if earlier is None else earlier.value
            if before is None:
                fresh[answer.key, answer.rater] = answer
            elif before != answer.value:
                annotator = answer.event.get("annotator")
                who = "without an annotator" if annotator is None else f"by '{annotator}'"
                raise DataError(
                    f"{answer.label}: two {self.ANSWER}s {who}, {self._format_value(answer.key, before)} and "
                    f"{self._format_value(answer.key, answer.value)}; name the annotators, or keep one"
                )
        for answer in fresh.values():
            self._record_answer(answer)


def read_options(state: Mapping[str, Any], allocator: str) -> dict[str, Any]:
    """Return the options of an allocator's state."""
    if not isinstance(state.get("log"), list) or not isinstance(state.get("options"), Mapping):
        raise DataError(f"this is no state of {allocator}: 'options' and 'log' are missing")
    return dict(state["options"])


def require_same_data(state: Mapping[str, Any], fingerprint: str, where: str = "") -> None:
    """Raise DataError if a state was made with other data."""
    if state.get("data") != fingerprint:
        raise DataError(
            f"{where}the log is of other data (fingerprint {state.get('data')}, these have {fingerprint}); "
            "give the data it was made with"
        )


def find_asked_places(places: Iterable[int]) -> IntArray:
    """Return the places, ascending, up to the furthest below which at least half of the order is among them.

    Answers further on were not asked: they came for another reason.

    >>> find_asked_places([0, 1, 3, 9]).tolist()
    [0, 1, 3]
    """
    ascending = np.sort(np.array(list(places), dtype=np.int64))
    dense = np.flatnonzero(2 * np.arange(1, len(ascending) + 1) > ascending)
    return ascending[: dense[-1] + 1 if len(dense) else 0]


def warn_unasked(count: int, total: str, consequence: str) -> None:
    """Warn about answers to units that were not asked."""
    if count:
        warnings.warn(
            f"{count} of {total} are not among those asked: they do not count {consequence}", AliquotWarning, 3
        )
