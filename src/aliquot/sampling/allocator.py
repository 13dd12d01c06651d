"""`Allocator`: decide while people judge which system is judged next on which item, and stay valid.

All systems go along one order of items (sampling/item_order.py), each as far as the policy takes it. So every system's
judged items are the beginning of an order with known probabilities, whatever the policy looked at, and estimates and
sequences hold. Everything is derived from the log of asked cells and judgments: the same log gives the same next cells.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any, Literal, get_args

import numpy as np
import polars as pl

from aliquot.core.evalset import ItemId
from aliquot.core.judgments import Judgments
from aliquot.core.origin import record_origin
from aliquot.core.registry import parse_spec
from aliquot.core.result import make_signature
from aliquot.core.selection import Design, Selection
from aliquot.errors import AliquotError, AliquotWarning, DataError, unknown_name
from aliquot.estimation.estimate import estimate
from aliquot.estimation.estimate_result import Estimates
from aliquot.estimation.inputs import attach_judgments
from aliquot.estimation.monitor import Monitor
from aliquot.estimation.picture import Picture
from aliquot.estimation.proxies import select_proxies, standardise_metric
from aliquot.estimation.running_sequences import Features
from aliquot.estimation.sequential import SequenceTarget, check_sequence_target, noise_of_systems
from aliquot.estimation.targets import JudgingNoise
from aliquot.io.inputs import DataLike, JudgmentsLike, as_evalset
from aliquot.sampling.allocation_log import (
    AllocationLog,
    LoggedAnswer,
    find_asked_places,
    read_options,
    require_same_data,
    warn_unasked,
)
from aliquot.sampling.allocator_inputs import (
    RATER_COLUMNS,
    Ask,
    CellsLike,
    Rater,
    budget_in_cells,
    read_answers,
    read_cells,
    read_question,
)
from aliquot.sampling.budgets import item_costs
from aliquot.sampling.item_order import draw_item_order
from aliquot.sampling.item_scores import Scale
from aliquot.sampling.policies import PolicyState, check_policy, standard_draws
from aliquot.stats.arrays import BoolArray, FloatArray
from aliquot.stats.cell_model import CellFit, CellModel
from aliquot.validation import one_of

CellUnit = Literal["cell", "item", "document"]
MeansModel = Literal["mixed", "means"]
Repeats = Literal["never", "auto"]
UNITS: tuple[CellUnit, ...] = get_args(CellUnit)
_MONITORED = {"top": "best", "best": "best", "ranking": "ranking", "pairs": "ranking", "means": "means"}


@dataclass(frozen=True)
class Advice:
    """Decisions so far, and whether to stop."""

    picture: Picture  # what is decided, at every look with the same guarantee
    cells: int  # judged
    asked: int  # asked for, answered or not
    stop: bool
    text: str  # in words


class Allocator(AllocationLog[Ask]):
    """Decides which cells people should judge next.

    Args:
        data: the test set with outputs' metrics; human scores in it are not looked at.
        question: "top" (weighted to the best), "ranking", "best", "means", or pairs of systems, a list or "A:B,C:D".
        policy: a policy's spec: auto, uniform, rank:power=1, successive_rejects, successive_halving.
        budget: cells in all, or None; a share as text ("30%") is of all cells.
        metrics: the metrics to use; all that vary and cover half of the outputs by default.
        model: what the policy looks at: "mixed" (metrics and item effects) or "means" (plain means, as published).
        unit: "cell", "item" (all systems of an item together, for side-by-side protocols) or "document" (a system's
            items of a document together).
        equal: take items in plain random order instead of by expected error.
        protocol_scale: "penalties" (MQM), "ratings", or "auto" to tell it from human scores in the data.
        cost: an item column or "esa_time": gains are compared per cost.
        repeats: "auto" judges cells again where a system has no item left; "never" stops there.
        margin: for means, the half width at which it stops.
        target: "testset", the test set judged by other annotators: decisions count the noise of judging; or "given",
            the mean of these very judgments.
        alpha: error rate of all decisions of a run together.
        seed: same seed and same log, same cells.

    >>> import aliquot
    >>> data = aliquot.synthetic(items=60, systems=4, seed=2)
    >>> allocator = Allocator(data, "top", seed=1)
    >>> score = {(i, s): v for i, row in zip(data.ids, data.human_score()) for s, v in zip(data.systems, row)}
    >>> for _ in range(20):
    ...     cells = allocator.next(5)
    ...     allocator.add([(ask.item, ask.system, score[ask.item, ask.system]) for ask in cells])
    >>> allocator.estimate().judged, sum(allocator.counts.values())
    (31, 100)
    """

    UNIT, ANSWER = "cell", "judgment"

    def __init__(
        self,
        data: DataLike,
        question: str | Sequence[tuple[str, str]] = "top",
        *,
        policy: str = "auto",
        budget: int | str | None = None,
        metrics: Sequence[str] | None = None,
        model: MeansModel = "mixed",
        unit: CellUnit = "cell",
        equal: bool = False,
        protocol_scale: Scale = "auto",
        cost: str | None = None,
        repeats: Repeats = "never",
        margin: float | None = None,
        target: SequenceTarget = "testset",
        alpha: float = 0.05,
        seed: int = 0,
    ) -> None:
        check_sequence_target(target)
        given = {name: value for name, value in locals().items() if name not in ("self", "data", "__class__")}
        self.data = as_evalset(data)
        super().__init__(given, self.data.fingerprint, budget_in_cells(budget, self.data))
        one_of("unit", unit, UNITS)
        one_of("repeats", repeats, get_args(Repeats))
        if protocol_scale not in get_args(Scale):  # the command line calls it --scale
            raise unknown_name("scale", protocol_scale, get_args(Scale))
        one_of("model", model, get_args(MeansModel))
        self._question, self._pairs = read_question(question, self.data)
        self._spec, self._seed, self._unit, self._repeats = parse_spec(policy), seed, unit, repeats
        self._policy = check_policy(self._spec, self._budget)
        order_unit = "document" if unit == "document" else "item"
        self.order = draw_item_order(self.data, seed=seed, equal=equal, scale=protocol_scale, unit=order_unit)
        self._costs = item_costs(self.data, cost)
        names = select_proxies(self.data, None if metrics is None else tuple(metrics)) if model == "mixed" else []
        cells = (self.data.n_items, self.data.n_systems)
        stack = np.stack([standardise_metric(self.data, name) for name in names], 2) if names else np.zeros((*cells, 0))
        self._model = CellModel(stack, self.order.weight, item_effects=model == "mixed")
        self._target = target
        self.noise: JudgingNoise | None = None  # set it where the noise of judging is known from elsewhere
        self._start_monitor = partial(self._new_monitor, stack, margin, alpha)
        self._monitor = self._start_monitor()
        self._ids = self.data.ids  # a list that is made anew at each access
        self.rows = {str(item): row for row, item in enumerate(self._ids)}  # files may write 7 as "7"
        self.columns = {name: column for column, name in enumerate(self.data.systems)}
        self._asked = np.zeros(self.data.n_systems, dtype=np.int64)  # how far each system went along the order
        self._unasked: set[tuple[int, int]] = set()  # cells judged before the order has reached them
        self._cell_order: list[tuple[int, int]] = []  # judged cells, in the order in which the monitor takes them
        self._cells_fed, self._monitor_stale = 0, False  # how many of these it took; whether a score has changed since
        self._noise_at = (0, JudgingNoise(np.nan))  # length of the log at which the noise was measured, and the noise
        self._place = np.empty(self.data.n_items, dtype=np.int64)
        self._place[self.order.rows] = np.arange(self.data.n_items)

    def _new_monitor(self, stack: FloatArray, margin: float | None, alpha: float) -> Monitor:
        features = Features(tuple(self.data.ids), stack) if stack.shape[2] else None
        monitored = "ranking" if self._question == "means" and margin is None else _MONITORED[self._question]
        return Monitor(
            self.data.systems,
            self.data.n_items,
            question=monitored,  # type: ignore[arg-type]
            margin=margin,
            alpha=alpha,
            kind="asymptotic",
            features=features,
        )

    # -- asking --------------------------------------------------------------------------------------------------------

    @property
    def counts(self) -> dict[str, int]:
        """Cells asked of each system."""
        return dict(zip(self.data.systems, self._asked.tolist(), strict=True))

    @property
    def asked(self) -> int:
        """Cells asked so far, repeats included."""
        return self._spent

    def _start_batch(self) -> Callable[[], list[Ask]]:
        fit = self._model.fit() if self._model.counts.any() else None
        draws = standard_draws([self._seed, 1, len(self._log)], self.data.n_systems)
        batch: dict[str, FloatArray] = {"beaten": self._beaten_systems().astype(np.float64)}
        rng = np.random.default_rng([self._seed, 2, len(self._log)])
        return lambda: self._next_unit(fit, draws, batch, rng.random())

    def _record_ask(self, ask: Ask) -> None:
        row, system = self.rows[str(ask.item)], self.columns[ask.system]
        self._log_ask((row, system), ask)
        if not ask.repeat:
            self._advance_to(system, int(self._place[row]) + 1)

    def _advance_to(self, system: int, place: int) -> None:
        """Advance a system along the order to `place`, and past cells that were judged before they were asked.

        Such answers count from now on. Early judgments do not depend on the policy, so the system's items are still the
        beginning of the order.
        """
        rows, position = self.order.rows, int(self._asked[system])
        while position < place or (position < len(rows) and (int(rows[position]), system) in self._unasked):
            cell = (int(rows[position]), system)
            if cell in self._unasked:
                self._unasked.remove(cell)
                self._update_model(cell)
            position += 1
        self._asked[system] = position

    def _next_unit(
        self, fit: CellFit | None, draws: FloatArray, batch: dict[str, FloatArray], uniform: float
    ) -> list[Ask]:
        """Return the policy's next unit: a cell, an item's cells, or a document's cells of a system."""
        if (self._asked >= self.data.n_items).all():
            return self._repeat_unit(fit) if self._repeats == "auto" else []
        probability = self._policy.probabilities(self._policy_state(fit, draws, batch), self._spec.parameters)
        if self._unit == "item":
            return self._whole_item()
        likely = np.flatnonzero(probability)  # rounding must not choose a system without a probability
        place = int(np.searchsorted(np.cumsum(probability[likely]), uniform, "right"))
        chosen = int(likely[min(place, len(likely) - 1)])
        name, p = self.data.systems[chosen], float(probability[chosen])
        return [Ask(self._ids[row], name, p) for row in self._next_rows(chosen)]

    def _whole_item(self) -> list[Ask]:
        row = self.order.rows[int(self._asked.min())]
        lacking = [s for s in range(self.data.n_systems) if self._asked[s] == self._asked.min()]
        return [Ask(self._ids[row], self.data.systems[s], 1.0) for s in lacking]

    def _next_rows(self, system: int) -> list[int]:
        """Return the unjudged rows of a system's next unit; its first row is always unjudged."""
        start = int(self._asked[system])
        rows = self.order.rows
        if self._unit != "document":
            return [int(rows[start])]
        codes = self.data.documents
        assert codes is not None  # noqa: S101  (item_order has refused data without documents)
        stop = start
        while stop < len(rows) and codes[rows[stop]] == codes[rows[start]]:
            stop += 1
        return [int(row) for row in rows[start:stop] if (int(row), system) not in self._unasked]

    def _policy_state(self, fit: CellFit | None, draws: FloatArray, batch: dict[str, FloatArray]) -> PolicyState:
        m, population = self.data.n_systems, self.data.n_items
        upcoming = self.order.rows[np.minimum(self._asked, population - 1)]
        cost = np.ones(m) if self._costs is None else self._costs[upcoming]
        values = np.full(m, np.nan) if fit is None else fit.values
        noise = 1.0 if fit is None or not fit.noise > 0 else fit.noise
        return PolicyState(
            self._asked, population, values, noise, self._question, self._pairs, self._budget, cost, draws, batch
        )

    def _repeat_unit(self, fit: CellFit | None) -> list[Ask]:
        """Return a repeated cell: one with the fewest judgments, of the system with the best estimate."""
        if not self._answers:
            return []
        counts = {cell: len(answers) for cell, answers in self._answers.items()}
        repeats = {(self.rows[str(e["item"])], self.columns[e["system"]]) for e in self._ask_events(repeat=True)}
        min_count = min(counts[cell] + (cell in repeats) for cell in counts)
        row, system = min(
            (cell for cell in counts if counts[cell] + (cell in repeats) == min_count),
            key=lambda cell: (-_value_or_zero(fit, cell[1]), self._place[cell[0]]),
        )
        return [Ask(self._ids[row], self.data.systems[system], 1.0, repeat=True)]

    def _ask_events(self, *, repeat: bool) -> list[dict[str, Any]]:
        return [event for event in self._log if event["event"] == "ask" and event["repeat"] == repeat]

    # -- answers -------------------------------------------------------------------------------------------------------

    def add(self, judgments: JudgmentsLike | Iterable[tuple[Any, ...]]) -> None:
        """Record answers, in any order, late or in part; if one is invalid, none of the call is recorded.

        Answers to cells that were not asked are marked, and count from when the system's order reaches them: a policy
        could otherwise stop a system just before a bad answer. The same answer twice counts once; an annotator's
        second, different answer to a cell raises DataError.
        """
        self._add_answers([self._build_answer(*answer) for answer in read_answers(judgments)])

    def _known_cell(self, item: ItemId, system: str, value: float) -> tuple[int, int]:
        if system not in self.columns:
            raise unknown_name("system", system, self.data.systems)
        if str(item) not in self.rows:
            raise DataError(f"the item {item!r} is not in the data ({self.data.name}); is this the log of other data?")
        if not np.isfinite(value):
            raise DataError(f"item {item!r}, system '{system}': the score {value} is not a number")
        return self.rows[str(item)], self.columns[system]

    def _build_answer(self, item: ItemId, system: str, value: float, who: Rater) -> LoggedAnswer:
        row, column = self._known_cell(item, system, value)
        rater = {name: part for name, part in zip(RATER_COLUMNS, who, strict=True) if part is not None}
        event = {"item": self._ids[row], "system": self.data.systems[column], "value": value, **rater}
        return LoggedAnswer((row, column), who, value, event, f"item {item!r}, system '{system}'")

    def _record_answer(self, answer: LoggedAnswer) -> None:
        row, system = answer.key
        is_asked = bool(self._place[row] < self._asked[system])
        before = self._log_answer(answer, is_asked=is_asked)
        if is_asked:
            self._update_model(answer.key, first=not before)
        else:
            self._unasked.add(answer.key)
            self._advance_to(system, int(self._asked[system]))

    def _read_answer(self, event: Mapping[str, Any]) -> LoggedAnswer:
        who = (event.get("annotator"), event.get("criterion"))
        return self._build_answer(event["item"], event["system"], event["value"], who)

    def _read_ask(self, event: Mapping[str, Any]) -> Ask:
        row, _ = self._known_cell(event["item"], event["system"], 0.0)
        return Ask(self._ids[row], event["system"], event["probability"], bool(event.get("repeat", False)))

    def _update_model(self, cell: tuple[int, int], *, first: bool = True) -> None:
        """Update policy and monitor with a cell; the monitor restarts if a score has changed."""
        self._model.set_score(*cell, self._mean_answer(cell))
        if first:
            self._cell_order.append(cell)
        else:
            self._monitor_stale = True

    # -- results -------------------------------------------------------------------------------------------------------

    @property
    def judgments(self) -> Judgments:
        """All answers to cells that were asked, as a table."""
        rows = [
            {
                "item": self._ids[row],
                "system": self.data.systems[system],
                "value": value,
                **dict(zip(RATER_COLUMNS, who, strict=True)),
            }
            for (row, system), answers in self._answers.items()
            if (row, system) not in self._unasked
            for who, value in answers.items()
        ]
        if not rows:
            raise DataError("nothing is judged yet")
        table = pl.DataFrame(rows, infer_schema_length=None)
        return Judgments(table.drop(name for name in RATER_COLUMNS if table[name].null_count() == len(table)))

    @property
    def unasked(self) -> list[tuple[ItemId, str]]:
        """Judged cells that the order has not reached; they do not count yet."""
        return [(self._ids[row], self.data.systems[system]) for row, system in sorted(self._unasked)]

    @property
    def signature(self) -> str:
        """The line that reproduces the cells, given the same judgments."""
        return make_signature(
            f"allocate:{self._spec}", self.data, question=self._question, unit=self._unit, seed=self._seed
        )

    def selection(self) -> Selection:
        """Return the cells asked so far, with probabilities, for `aliquot.estimate`."""
        reached = int(self._asked.max())
        if not reached:
            raise DataError("nothing is asked yet")
        rows = self.order.rows[:reached]
        systems = tuple(
            tuple(name for name, n in zip(self.data.systems, self._asked, strict=True) if place < n)
            for place in range(reached)
        )
        rates = {name: self.order.rate(int(n)) for name, n in self.counts.items() if n}
        plain = {name: None if np.isinf(rate) else rate for name, rate in rates.items()}
        ids = tuple(self._ids[row] for row in rows)
        return Selection(
            ids=ids,
            population=self.data.n_items,
            method=f"allocate:{self._spec.name}",
            utility=self.order.size[rows],
            probability=self.order.probability(reached)[rows],
            systems=systems,
            design=Design("clustered" if self._unit == "document" else "unordered", rates=plain),
            origin=record_origin(self.data, ids),
            signature=self.signature,
        )

    def estimate(self, method: str = "auto", **options: Any) -> Estimates:
        """Estimate all systems from the judgments so far; options are those of `aliquot.estimate`."""
        options.setdefault("human", self.data.human)  # otherwise scores of the data that people gave would be a metric
        return estimate(self.data, method, selection=self.selection(), judgments=self.judgments, **options)

    def advice(self) -> Advice:
        """Return what is decided, with error rate alpha over all looks, and whether to stop."""
        picture = self._confirm_stop(self._keep_listed_pairs(self._update_picture()))
        out = self._budget is not None and (self._budget_ended or self._spent >= self._budget)
        text = picture.reason
        if out and not picture.stop:
            text = f"stop: the budget of {self._budget} cells is spent; {picture.reason.removeprefix('go on: ')}"
        return Advice(picture, len(self._answers), self._spent, picture.stop or out, text)

    def _update_picture(self) -> Picture:
        """Feed new judgments to the monitor and return its picture."""
        if self._monitor_stale:
            self._monitor, self._cells_fed, self._monitor_stale = self._start_monitor(), 0, False
        waiting = self._cell_order[self._cells_fed :]
        for row, cells in groupby(waiting, key=lambda cell: cell[0]):  # an item's answers that came together
            scores = {self.data.systems[cell[1]]: self._mean_answer(cell) for cell in cells}
            self._monitor.add(self._ids[row], scores, float(self.order.weight[row]))
        self._cells_fed = len(self._cell_order)
        self._monitor.noise = self._judging_noise()
        return self._monitor.picture()

    def _judging_noise(self) -> JudgingNoise:
        """Return `noise` if it is set, else the noise of judging estimated from the answers so far."""
        if self.noise is not None:
            return self.noise
        people = {who[0] for answers in self._answers.values() for who in answers} if self._target == "testset" else ()
        if len(people) < 2:  # nobody has judged what somebody else did
            return JudgingNoise(np.nan if self._target == "testset" else 0.0)
        if self._noise_at[0] != len(self._log) and self._cell_order:
            evalset, _ = attach_judgments(self.data, self.judgments, human=self.data.human)
            self._noise_at = len(self._log), noise_of_systems(evalset, self.data.systems)
        return self._noise_at[1]

    def _confirm_stop(self, picture: Picture) -> Picture:
        """Stop only if `estimate` finds the same system alone in front."""
        if not picture.stop or picture.question == "means":
            return picture
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", AliquotWarning)
                contenders = self.estimate(target=self._target).contenders
        except AliquotError:  # nothing that could speak against it
            return picture
        return picture.confirm_leaders(contenders)

    def _beaten_systems(self) -> BoolArray:
        """Return which systems cannot be the best (M); none for other questions."""
        beaten = np.zeros(self.data.n_systems, dtype=np.bool_)
        if self._question == "best":
            beaten[[self.columns[pair.b] for pair in self._update_picture().decided]] = True
        return beaten

    def _keep_listed_pairs(self, picture: Picture) -> Picture:
        """Keep only the pairs that the question lists."""
        if self._pairs is None:
            return picture
        is_listed = self._pairs > 0
        pairs = tuple(pair for pair in picture.pairs if is_listed[self.columns[pair.a], self.columns[pair.b]])
        return replace(picture, pairs=pairs, stop=all(pair.decided for pair in pairs))

    # -- the log -------------------------------------------------------------------------------------------------------

    @classmethod
    def restore(cls, data: DataLike, state: Mapping[str, Any]) -> Allocator:
        """Return an allocator from the result of `state`, with the same data."""
        evalset = as_evalset(data)
        options = read_options(state, "an Allocator")
        require_same_data(state, evalset.fingerprint, f"{evalset.name}: ")
        pairs = options.get("question")
        options["question"] = [tuple(pair) for pair in pairs] if isinstance(pairs, list) else pairs
        allocator = cls(evalset, **options)
        for event in state["log"]:
            allocator.replay(event)
        return allocator

    @classmethod
    def from_judgments(
        cls,
        data: DataLike,
        judgments: JudgmentsLike | Iterable[tuple[Any, ...]] | None = None,
        *,
        asked: CellsLike = (),
        **options: Any,
    ) -> Allocator:
        """Return an allocator from judgments alone, without a state; the options must be those of the first call.

        Cells that are judged, or in `asked` (handed out, not answered yet), were asked. A system's place is one past
        the furthest of them below which at least half of the cells are among them; judgments further on count when
        the order reaches them.

        Args:
            data: the test set, as it was.
            judgments: all judgments so far, in the order in which they came, or None.
            asked: cells that people still have: what `next` returned, tables of them, or files of `aliquot next`.
            options: those of `Allocator`.

        >>> import aliquot
        >>> data = aliquot.synthetic(items=60, systems=4, seed=2)
        >>> first = [(ask.item, ask.system, 1.0) for ask in Allocator.from_judgments(data, seed=1).next(8)]
        >>> Allocator.from_judgments(data, first, seed=1).counts
        {'sys1': 2, 'sys2': 2, 'sys3': 2, 'sys4': 2}
        """
        allocator = cls(data, **options)
        rows = [] if judgments is None else read_answers(judgments)
        judged = {allocator._known_cell(item, system, value) for item, system, value, _ in rows}
        allocator._replay_asked(
            judged | {allocator._known_cell(item, system, 0.0) for item, system in read_cells(asked)}
        )
        allocator.add([(item, system, value, *who) for item, system, value, who in rows])
        consequence = (
            "until the order of items reaches them; is the seed, the unit or the data another one than before?"
        )
        warn_unasked(len(allocator._unasked), f"{len(judged)} judged cells", consequence)
        return allocator

    def _replay_asked(self, cells: set[tuple[int, int]]) -> None:
        """Record the cells that were asked, in the order of items."""
        places_asked: list[tuple[int, int]] = []
        for system in range(self.data.n_systems):
            places = find_asked_places(self._place[row] for row, column in cells if column == system)
            places_asked += [(int(place), system) for place in places]
        for place, system in sorted(places_asked):
            # what the policy's probability was is not known, and nothing needs it
            self._record_ask(Ask(self._ids[self.order.rows[place]], self.data.systems[system], float("nan")))


def _value_or_zero(fit: CellFit | None, system: int) -> float:
    return 0.0 if fit is None or not np.isfinite(fit.values[system]) else float(fit.values[system])
