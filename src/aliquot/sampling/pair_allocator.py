"""`PairAllocator`: decide while people choose between two outputs which systems are compared next, and on which item.

Every pair goes along one random order of the items, from a place of its own, as far as the policy takes it. The items
of a pair are so the beginning of a random order that was fixed before anybody chose, whatever the policy looked at, and
confidence sequences of the pair's share of wins hold at every look. Everything is derived from the log of asked pairs
and choices: the same log gives the same next pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import polars as pl

from aliquot.core.evalset import ItemId
from aliquot.core.registry import parse_spec
from aliquot.core.result import make_signature
from aliquot.errors import DataError, OptionError, unknown_name
from aliquot.io.inputs import DataLike
from aliquot.sampling.allocation_log import (
    AllocationLog,
    LoggedAnswer,
    find_asked_places,
    read_options,
    require_same_data,
    warn_unasked,
)
from aliquot.sampling.pair_decisions import PairAdvice, PairDecisions
from aliquot.sampling.pair_inputs import (
    Choice,
    ChoicesLike,
    budget_in_choices,
    read_choices,
    read_pairs,
    read_systems_and_items,
)
from aliquot.sampling.pair_policies import PAIR_POLICIES, PairPolicyState, fit_strengths, pair_index
from aliquot.sampling.policies import check_policy, standard_draws
from aliquot.stats.arrays import FloatArray, IntArray
from aliquot.validation import one_of

PairQuestion = Literal["top", "best", "ranking"]
PAIR_QUESTIONS: tuple[PairQuestion, ...] = get_args(PairQuestion)


@dataclass(frozen=True)
class PairAsk:
    """Two outputs to compare, in display order, and the probability with which the pair was drawn."""

    item: ItemId
    a: str
    b: str
    probability: float


@dataclass(frozen=True)
class RankedSystem:
    """A system's strength by the choices so far."""

    system: str
    strength: float  # log-odds against an average system, drawn towards 0 by a normal prior
    se: float  # as if choices were independent; `aliquot.compare(allocator.choices)` takes items into account
    win_rate: float  # of its own choices, ties half; NaN without any
    n: int


class PairAllocator(AllocationLog[PairAsk]):
    """Decides which two systems people should choose between next, and on which item.

    Args:
        data: the test set, of which human scores are not looked at; or the names of the systems, with `items`.
        question: "top" (weighted to the best), "best" or "ranking".
        policy: a policy's spec: auto, dueling, rucb, uniform (sampling/pair_policies.py); "auto:floor=0.2" sets what
            all pairs get alike.
        budget: choices in all, or None; a share as text ("30%") is of all items of all pairs.
        items: ids of the items, where `data` are names of systems.
        alpha: error rate of all decisions of a run together.
        seed: same seed and same log, same pairs.

    >>> allocator = PairAllocator(["A", "B", "C"], "best", items=range(200), seed=1)
    >>> for _ in range(20):
    ...     asks = allocator.next(5)
    ...     allocator.add([(ask.item, ask.a, ask.b, min(ask.a, ask.b)) for ask in asks])  # A before B before C
    >>> allocator.advice().text
    'stop: A is preferred to every other system'
    >>> [each.system for each in allocator.ranking()]
    ['A', 'B', 'C']
    """

    UNIT, ANSWER = "choice", "choice"

    def __init__(
        self,
        data: DataLike | Sequence[str],
        question: PairQuestion = "top",
        *,
        policy: str = "auto",
        budget: int | str | None = None,
        items: Iterable[ItemId] | None = None,
        alpha: float = 0.05,
        seed: int = 0,
    ) -> None:
        one_of("question", question, PAIR_QUESTIONS)
        if not 0.0 < alpha < 1.0:
            raise OptionError(f"alpha is {alpha:g}; choose between 0 and 1, for instance 0.05")
        given = {"question": question, "policy": policy, "budget": budget, "alpha": alpha, "seed": seed}
        self.systems, self.items, present, fingerprint = read_systems_and_items(data, items)
        self._question, self._seed = question, seed
        self._spec = parse_spec(policy)
        self._policy = check_policy(self._spec, None, PAIR_POLICIES, "policy for pairs")
        self._row = {item: row for row, item in enumerate(self.items)}
        self._system = {name: column for column, name in enumerate(self.systems)}
        m, n = len(self.systems), len(self.items)
        self._first, self._second = np.triu_indices(m, 1)
        count = len(self._first)
        self._present = present
        comparable = np.full((m, m), n) if present is None else present.T.astype(np.int64) @ present.astype(np.int64)
        self._population: IntArray = comparable[self._first, self._second].astype(np.int64)
        super().__init__(given, fingerprint, budget_in_choices(budget, int(self._population.sum())))
        rng = np.random.default_rng([seed, 0xD0E1])
        self._order = rng.permutation(n)
        self._turn = rng.permutation(count)
        self._place = np.empty(n, dtype=np.int64)
        self._place[self._order] = np.arange(n)
        self._start = self._turn * n // count  # pairs begin at places far apart: choices spread over the items
        self._reached = np.zeros(count, dtype=np.int64)  # places of the order a pair has gone
        self._asked = np.zeros(count, dtype=np.int64)  # its items on the way, asked or answered without being asked
        self._value, self._number, self._ties = np.zeros((m, m)), np.zeros((m, m)), 0.0
        self._memory: dict[str, Any] = {}
        self._sequence_place: dict[tuple[int, int], int] = {}  # place of an item's value in the sequence of a pair
        self._decisions = PairDecisions(self.systems, self._population, question, alpha)
        if present is not None:
            for pair in range(count):
                self._pass_unavailable(pair)

    # -- asking --------------------------------------------------------------------------------------------------------

    @property
    def counts(self) -> dict[tuple[str, str], int]:
        """Choices asked of each pair."""
        names = [(self.systems[a], self.systems[b]) for a, b in zip(self._first, self._second, strict=True)]
        return dict(zip(names, self._asked.tolist(), strict=True))

    def _start_batch(self) -> Callable[[], list[PairAsk]]:
        draws = standard_draws([self._seed, 1, len(self._log)], len(self.systems))
        batch: dict[str, FloatArray] = {}
        return lambda: self._next_unit(draws, batch)

    def _next_unit(self, draws: FloatArray, batch: dict[str, FloatArray]) -> list[PairAsk]:
        if not (self._asked < self._population).any():
            return []
        probability = self._probabilities(draws, batch)
        rng = np.random.default_rng([self._seed, 2, len(self._log)])
        pair = int(rng.choice(len(probability), p=probability))
        swapped = bool(rng.integers(2))
        names = (self.systems[self._first[pair]], self.systems[self._second[pair]])
        a, b = names[::-1] if swapped else names
        return [PairAsk(self.items[self._row_at(pair)], a, b, float(probability[pair]))]

    def _probabilities(self, draws: FloatArray, batch: dict[str, FloatArray]) -> FloatArray:
        state = PairPolicyState(
            self._asked,
            self._population,
            self._value,
            self._number,
            self._ties,
            self._question,
            self._decisions,
            self._turn,
            draws,
            batch,
            self._memory,
        )
        return self._policy.probabilities(state, self._spec.parameters)

    def _next_row(self, pair: int) -> int:
        """Advance a pair and return the row of its next item."""
        row = self._row_at(pair)
        self._reached[pair] += 1
        self._asked[pair] += 1
        self._pass_unavailable(pair)
        return row

    def _row_at(self, pair: int) -> int:
        """Return the row at a pair's place in its order."""
        return int(self._order[(self._start[pair] + self._reached[pair]) % len(self.items)])

    def _pass_unavailable(self, pair: int) -> None:
        """Advance past items without outputs, and past answered items, whose choices count from now on."""
        while self._reached[pair] < len(self.items):
            row = self._row_at(pair)
            if self._has_outputs(pair, row):
                if (pair, row) not in self._answers:
                    return
                self._asked[pair] += 1
                self._update_sequence(pair, row)
            self._reached[pair] += 1

    def _has_outputs(self, pair: int, row: int) -> bool:
        """Return whether both systems of a pair have an output for the item."""
        present = self._present
        return present is None or bool(present[row, self._first[pair]] and present[row, self._second[pair]])

    def _record_ask(self, ask: PairAsk) -> None:
        pair, row, _ = self._resolve_choice((ask.item, ask.a, ask.b, None))
        if self._asked[pair] >= self._population[pair] or self._next_row(pair) != row:
            raise DataError(
                f"the log asks '{ask.a}' and '{ask.b}' on item {ask.item!r}, which is not their next one; was the log "
                "cut, or made by another version?"
            )
        self._log_ask((pair, row), ask)

    def _read_ask(self, event: Mapping[str, Any]) -> PairAsk:
        ask = PairAsk(event["item"], event["a"], event["b"], event["probability"])
        self._resolve_choice((ask.item, ask.a, ask.b, None))
        if self._policy.remembers:
            self._probabilities(np.zeros((0, len(self.systems))), {})
        return ask

    # -- answers -------------------------------------------------------------------------------------------------------

    def add(self, choices: Iterable[Choice]) -> None:
        """Record choices (item, a, b, winner) or (item, a, b, winner, annotator); the winner is None for a tie.

        Choices may come in any order, late or in part; all of a call are taken or, where one is wrong, none. Those that
        were never asked are kept and marked: they inform the policy and the ranking at once, decisions when the pair
        comes to their item. The same choice twice counts once; an annotator's second, different one is refused.
        """
        self._add_answers([self._build_answer(choice) for choice in choices])

    def _build_answer(self, choice: Choice) -> LoggedAnswer:
        pair, row, value = self._resolve_choice(choice)
        item, a, b, winner = choice[:4]
        annotator = choice[4] if len(choice) > 4 else None
        event = {"item": item, "a": a, "b": b, "winner": winner, "annotator": annotator}
        return LoggedAnswer((pair, row), annotator, value, event, f"item {item!r}, '{a}' and '{b}'")

    def _format_value(self, key: tuple[int, int], value: float) -> str:
        return "a tie" if value == 0.5 else f"'{self.systems[(self._second, self._first)[int(value)][key[0]]]}'"

    def _read_answer(self, event: Mapping[str, Any]) -> LoggedAnswer:
        return self._build_answer((event["item"], event["a"], event["b"], event["winner"], event.get("annotator")))

    def _resolve_choice(self, choice: Choice) -> tuple[int, int, float]:
        """Return pair, row and value (1 if the pair's first system won); raise for an invalid choice."""
        if len(choice) not in (4, 5):
            raise DataError(f"{choice!r} is no choice; give (item, a, b, winner) or (item, a, b, winner, annotator)")
        item, a, b, winner = choice[:4]
        for name in (a, b):
            if name not in self._system:
                raise unknown_name("system", name, self.systems)
        if item not in self._row:
            raise DataError(f"the item {item!r} is not in the data; is this the log of other data?")
        if a == b:
            raise DataError(f"item {item!r}: '{a}' is compared with itself; leave such choices out")
        if winner is not None and winner not in (a, b):
            raise DataError(
                f"item {item!r}: the winner {winner!r} is neither '{a}' nor '{b}'; give one of them, or None for a tie"
            )
        pair = pair_index(self._system[a], self._system[b], len(self.systems))
        row = self._row[item]
        if not self._has_outputs(pair, row):
            raise DataError(f"item {item!r}: '{a}' or '{b}' has no output for it, so that there is nothing to choose")
        value = 0.5 if winner is None else float(self._system[winner] == self._first[pair])
        return pair, row, value

    def _record_answer(self, answer: LoggedAnswer) -> None:
        pair, row = answer.key
        is_asked = bool((self._place[row] - self._start[pair]) % len(self.items) < self._reached[pair])
        before = self._log_answer(answer, is_asked=is_asked)
        self._update_counts(pair, before, -1.0)
        self._update_counts(pair, self._answers[answer.key], 1.0)
        if not is_asked:
            self._pass_unavailable(pair)
        else:
            self._update_sequence(pair, row)

    def _update_counts(self, pair: int, values: Mapping[str | None, float], sign: float) -> None:
        """Add (sign 1) or remove (-1) an item's choice, the mean over annotators."""
        if not values:
            return
        a, b, value = self._first[pair], self._second[pair], float(np.mean(list(values.values())))
        self._value[a, b] += sign * value
        self._value[b, a] += sign * (1.0 - value)
        self._number[a, b] += sign
        self._number[b, a] += sign
        self._ties += sign * (1.0 - abs(2.0 * value - 1.0))

    def _update_sequence(self, pair: int, row: int) -> None:
        """Add an item's value, the mean over annotators, to the pair's sequence, or revise it."""
        mean = self._mean_answer((pair, row))
        if (pair, row) in self._sequence_place:
            self._decisions.revise_value(pair, self._sequence_place[pair, row], mean)
        else:
            self._sequence_place[pair, row] = self._decisions.add_value(pair, mean)

    # -- results -------------------------------------------------------------------------------------------------------

    @property
    def choices(self) -> pl.DataFrame:
        """Table of all choices for `aliquot.compare`: item, annotator, system_a, system_b, choice."""
        rows = [
            {
                "item": e["item"],
                "annotator": e["annotator"],
                "system_a": e["a"],
                "system_b": e["b"],
                "choice": "tie" if e["winner"] is None else "a" if e["winner"] == e["a"] else "b",
            }
            for e in self._log
            if e["event"] == "choice"
        ]
        if not rows:
            raise DataError("nothing is chosen yet")
        return pl.DataFrame(rows, infer_schema_length=None)

    @property
    def signature(self) -> str:
        """The line that reproduces the pairs, given the same choices."""
        options = self._options
        return make_signature(
            f"allocate:{options['policy']}",
            question=options["question"],
            unit="pair",
            seed=options["seed"],
            data=self._fingerprint,
        )

    def ranking(self) -> list[RankedSystem]:
        """Return systems by Bradley-Terry strength, best first; a tie is half a win."""
        posterior = fit_strengths(self._value, self._number, self._ties)
        won, n = self._value.sum(axis=1), self._number.sum(axis=1)
        rate = np.divide(won, n, out=np.full(len(n), np.nan), where=n > 0)
        se = np.sqrt(np.diag(posterior.covariance))
        return [
            RankedSystem(self.systems[s], float(posterior.mean[s]), float(se[s]), float(rate[s]), int(n[s]))
            for s in np.argsort(-posterior.mean, kind="stable")
        ]

    def advice(self) -> PairAdvice:
        """Return what is decided, with error rate alpha over all looks, and whether to stop."""
        posterior = fit_strengths(self._value, self._number, self._ties)
        spread = 0.25 * max(1.0 - self._ties / max(self._number.sum() / 2, 1.0), 0.1)
        ended = None
        if self._budget is not None and self._spent >= self._budget:
            ended = f"the budget of {self._budget} choices is spent"
        elif not (self._asked < self._population).any() and not self._open:
            ended = "all items are judged, so that only choices of other annotators on them can tell more"
        return self._decisions.advice(posterior.mean, spread, self._number, self._spent, ended)

    # -- the log -------------------------------------------------------------------------------------------------------

    @classmethod
    def restore(
        cls, data: DataLike | Sequence[str], state: Mapping[str, Any], *, items: Iterable[ItemId] | None = None
    ) -> PairAllocator:
        """Return an allocator from the result of `state`, with the same data."""
        allocator = cls(data, items=items, **read_options(state, "a PairAllocator"))
        require_same_data(state, allocator._fingerprint)
        for event in state["log"]:
            allocator.replay(event)
        return allocator

    @classmethod
    def from_choices(
        cls,
        data: DataLike | Sequence[str],
        choices: ChoicesLike | None = None,
        *,
        asked: Sequence[str | Path | pl.DataFrame] = (),
        columns: Mapping[str, str] | None = None,
        **options: Any,
    ) -> PairAllocator:
        """Return an allocator from choices alone, without a state; the options must be those of the first call.

        A pair's place is one past the furthest item that was chosen on or is in `asked`, as long as at least half of
        the items up to there are known; choices beyond it count for decisions when the pair's order reaches them.

        Args:
            data: the test set, or the names of the systems with `items`, as they were.
            choices: all choices so far, tuples or a table (item, system_a, system_b, choice, annotator), or None.
            asked: tables of pairs that people still have.
            columns: which column of the table is which, by role.
            options: those of `PairAllocator`.

        >>> first = PairAllocator.from_choices(["A", "B", "C"], items=range(40), seed=1).next(6)
        >>> chosen = [(ask.item, ask.a, ask.b, ask.a) for ask in first]
        >>> PairAllocator.from_choices(["A", "B", "C"], chosen, items=range(40), seed=1).counts
        {('A', 'B'): 2, ('A', 'C'): 2, ('B', 'C'): 2}
        """
        allocator = cls(data, **options)
        by_text = {str(item): item for item in allocator.items}  # files may write 7 as "7"
        table_rows = [] if choices is None else read_choices(choices, columns)
        rows: list[Choice] = [(by_text.get(str(row[0]), row[0]), *row[1:]) for row in table_rows]
        still = [(by_text.get(item, item), a, b, None) for item, a, b in read_pairs(asked)]
        allocator._replay_asked({allocator._resolve_choice(choice)[:2] for choice in (*rows, *still)})
        allocator.add(rows)
        n_unasked = sum("unasked" in event for event in allocator._log)
        reached = "until the pair's order of items reaches them"
        consequence = f"for decisions {reached}; is the seed or the data another one than before?"
        warn_unasked(n_unasked, f"{len(rows)} choices", consequence)
        return allocator

    def _replay_asked(self, pairs_and_rows: set[tuple[int, int]]) -> None:
        """Record the choices that were asked, pair by pair in the order of items."""
        n = len(self.items)
        for pair in range(len(self._first)):
            on_pair = (row for other, row in pairs_and_rows if other == pair)
            places = find_asked_places((self._place[row] - self._start[pair]) % n for row in on_pair)
            last = int(places[-1]) if len(places) else -1
            while self._reached[pair] <= last and self._asked[pair] < self._population[pair]:
                row = self._next_row(pair)
                if (pair, row) in pairs_and_rows:  # others were asked, too, and nobody has answered
                    a, b = self.systems[self._first[pair]], self.systems[self._second[pair]]
                    self._log_ask((pair, row), PairAsk(self.items[row], a, b, float("nan")))
