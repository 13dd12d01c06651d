"""Rehearsing a campaign: simulated people judge a copy of it through the real server, and what it would give is told.

The campaign itself is never touched: its file is copied to a temporary folder, and the server listens on 127.0.0.1.
"""

from __future__ import annotations

import heapq
import http.client
import json
import math
import shutil
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import uvicorn

from aliquot.annotation.clean import clean
from aliquot.collect.bots import changes
from aliquot.collect.campaign import Campaign
from aliquot.collect.protocols import Score
from aliquot.collect.server import create_app
from aliquot.collect.simulated_people import Behaviour, Person, draw_people, learn_behaviour, output_qualities
from aliquot.collect.statements import decode, sql
from aliquot.collect.unit_texts import expected_seconds
from aliquot.core.evalset import EvalSet
from aliquot.core.judgments import Judgments
from aliquot.core.result import Result, frame_of
from aliquot.core.view import Column, View
from aliquot.core.written import format_number, format_percent
from aliquot.errors import AliquotError, OptionError
from aliquot.estimation.estimate import estimate
from aliquot.estimation.estimate_result import Estimates
from aliquot.io.formats.campaign_database import as_url, without_password
from aliquot.io.inputs import JudgmentsLike, as_judgments
from aliquot.stats.arrays import FloatArray
from aliquot.validation import between

STEPS = ("controls", "repeats", "speeders", "straight_liners", "outliers")
"""Checks of `aliquot clean` that a rehearsal tries."""
_COUNTS = ("careless", "caught", "wrongly")
_ALPHA = 0.05
_UNLIMITED = 1e6
MAX_STEPS = 200  # of a quiz and a tutorial together


@dataclass(frozen=True)
class Caught:
    """What one check would find: careless annotators it marks, and others it marks wrongly."""

    check: str
    careless: int
    caught: int
    wrongly: int


@dataclass(frozen=True)
class Rehearsal(Result):
    """What a campaign would take and give.

    `half_width`, `coverage` and `power` are means over the replays; power is the share of pairs of systems told apart
    rightly (adjusted p below 0.05), `wrong` the share told apart the wrong way round.
    """

    annotators: int
    careless: int
    left: int
    units_done: int
    units_wanted: int
    judgments: int
    hours: float
    longest_hours: float
    money: float | None
    currency: str
    qualities: str
    replays: int
    half_width: float | None
    coverage: float | None
    power: float | None
    wrong: float | None
    checks: tuple[Caught, ...]
    calls: int
    p50_ms: float
    p95_ms: float
    notes: tuple[str, ...] = ()

    def to_frame(self) -> pl.DataFrame:
        """One row per check."""
        return frame_of(self.checks, Caught)

    def views(self) -> Sequence[View]:
        """Return what the campaign would take and give, and what the checks would catch."""
        money = "-" if self.money is None else f"{self.money:,.2f} {self.currency}"
        rows = {
            "people": f"{self.annotators}, {self.careless} careless, {self.left} left before the end",
            "work": f"{self.units_done:,} of {self.units_wanted:,} units, {self.judgments:,} judgments",
            "hours": f"{self.hours:.1f} in all, {self.longest_hours:.1f} of the longest",
            "money": money,
        }
        if self.half_width is not None:
            rows |= {
                "intervals": f"± {format_number(self.half_width)}, right in {format_percent(self.coverage or 0)}",
                "power": f"{format_percent(self.power or 0)} of pairs told apart rightly, "
                f"{format_percent(self.wrong or 0)} wrongly",
            }
        rows["server"] = f"{self.calls:,} calls, half within {self.p50_ms:.0f} ms, 95% within {self.p95_ms:.0f} ms"
        source = f"Qualities of outputs come from {self.qualities}."
        source += f" Intervals and power are means over {self.replays} replays."
        table = [{"what": name, "result": text} for name, text in rows.items()]
        return [
            View("rehearsal", table, [Column("what", kind="name"), Column("result", kind="text")], caption=source),
            View(
                "checks",
                self.checks,
                [Column("check", kind="name"), *(Column(name, kind="count") for name in _COUNTS)],
                title="what checks would catch",
            ),
        ]


def rehearse(
    campaign: str | Path,
    annotators: int = 12,
    *,
    behaviour: Behaviour | None = None,
    like: JudgmentsLike | None = None,
    hourly: float | None = None,
    currency: str | None = None,
    replays: int = 10,
    at_once: bool = False,
    seed: int = 0,
) -> Rehearsal:
    """Let simulated people judge a copy of a campaign through the real server, and say what would come of it.

    Args:
        campaign: the campaign's file.
        annotators: how many people take part; more than the campaign has are added to the copy.
        behaviour: how they judge: noise, severity, careless ones, drop-outs, pace.
        like: past judgments, whose noise, severity and pace are taken.
        hourly: what an annotator's hour costs; else what the protocol pays for a unit.
        currency: of that money; by default the protocol's.
        replays: how often the same work is judged again, by other people, for intervals and power.
        at_once: all people call the server at the same time, as a load test; else in the order of simulated time, which
            gives the same result for the same seed.
        seed: same seed, same people.
    """
    if as_url(campaign) is not None:
        raise OptionError(
            f"{without_password(campaign)}: a rehearsal copies a campaign's file; make one: aliquot collect new -o FILE"
        )
    between("annotators", annotators, 1, 2000)
    between("replays", replays, 0, 1000)
    manner = behaviour or Behaviour()
    if like is not None:
        manner = learn_behaviour(as_judgments(like), manner)
    with tempfile.TemporaryDirectory() as folder, _open_copy(Path(campaign), Path(folder)) as copy:
        names = _add_people(copy, annotators)
        crowd = draw_people(names, manner, seed)
        worth, origin = output_qualities(copy.data, seed)
        with _run_server(copy) as port:
            run = _Run(copy, port, crowd, worth)
            run.all_at_once() if at_once else run.in_turn()
        return _build_result(run, manner, origin, hourly, currency, replays, seed)


# -- the copy and its server ---------------------------------------------------------------------------------------


@contextmanager
def _open_copy(path: Path, folder: Path) -> Iterator[Campaign]:
    with Campaign.open(path) as original:  # says what is wrong with a file that is none
        key = original.inputs.key_file
        target = folder / "rehearsal.db"
        original.store.copy_file(target)
    if not key.exists():
        raise OptionError(
            f"{key}: the key of the campaign is missing, so that nobody can have a link; put it back, or "
            "make new links: aliquot collect links CAMPAIGN --new"
        )
    shutil.copy(key, f"{target}.key")
    with Campaign.open(target) as campaign:
        yield campaign


def _add_people(campaign: Campaign, annotators: int) -> list[str]:
    names = [row.annotator for row in campaign.status().annotators if row.state == "active" and row.kind == "human"]
    if len(names) < annotators:
        more = [f"rehearsal{number}" for number in range(1, annotators - len(names) + 1)]
        campaign.add_annotators(more)
        names += more
    return names[:annotators]


@contextmanager
def _run_server(campaign: Campaign) -> Iterator[int]:
    app = create_app(campaign, calls_per_second=_UNLIMITED, burst=int(_UNLIMITED))
    config = uvicorn.Config(app, host="127.0.0.1", port=0, access_log=False, log_level="error", lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        until = time.monotonic() + 30
        while not server.started:
            if time.monotonic() > until or not thread.is_alive():
                raise OptionError("the server did not start on 127.0.0.1; try again")
            time.sleep(0.01)
        yield int(server.servers[0].sockets[0].getsockname()[1])
    finally:
        server.should_exit = True
        thread.join(timeout=10)


class _Client:
    """The calls of one page."""

    def __init__(self, port: int, token: str) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.token = token
        self.milliseconds: list[float] = []

    def call(self, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        headers = {"X-Aliquot-Token": self.token, "Content-Type": "application/json"}
        begun = time.perf_counter()
        content = None if body is None else json.dumps(body).encode()
        self.connection.request("GET" if body is None else "POST", path, content, headers)
        response = self.connection.getresponse()
        answer: dict[str, Any] = json.loads(response.read())
        self.milliseconds.append(1000 * (time.perf_counter() - begun))
        if response.status >= 400:
            raise OptionError(f"the server refused {path}: {answer.get('message', response.status)}")
        return answer


# -- people at work ------------------------------------------------------------------------------------------------


class _Run:
    """All people judging until nothing is left, or they leave."""

    def __init__(self, campaign: Campaign, port: int, crowd: list[Person], worth: FloatArray) -> None:
        self.campaign, self.crowd, self.worth = campaign, crowd, worth
        self.row = {item: index for index, item in enumerate(campaign.data.ids)}
        self.column = {system: index for index, system in enumerate(campaign.data.systems)}
        links = campaign.links(f"http://127.0.0.1:{port}").annotators
        self.clients = {person.name: _Client(port, links[person.name].rsplit("/", 1)[1]) for person in crowd}
        self.protocol = campaign.protocol.for_page()
        self.seconds = dict.fromkeys((person.name for person in crowd), 0.0)
        self.done = dict.fromkeys(self.seconds, 0)
        self.left: set[str] = set()
        self.screened: set[str] = set()
        with campaign.store.read() as connection:
            self.cells = {
                r.id: (None if r.item is None else decode(r.item), r.system)
                for r in connection.execute(sql("SELECT id, item, system FROM cells"))
            }
            self.share = (campaign.status().units_wanted or 1) / len(crowd)

    def in_turn(self) -> None:
        """Whoever is free first, in simulated time, judges next."""
        queue = [(0.0, time_of) for time_of in range(len(self.crowd))]
        heapq.heapify(queue)
        units: dict[int, dict[str, Any] | None] = {}
        while queue:
            now, time_of = heapq.heappop(queue)
            unit, took = self._judge_one(self.crowd[time_of], units.get(time_of))
            if took is not None:
                units[time_of] = unit
                heapq.heappush(queue, (now + took, time_of))

    def all_at_once(self) -> None:
        """Each in a thread of its own."""

        def work(person: Person) -> None:
            unit: dict[str, Any] | None = None
            took: float | None = 0.0
            while took is not None:
                unit, took = self._judge_one(person, unit)

        with ThreadPoolExecutor(max_workers=len(self.crowd)) as pool:
            for finished in [pool.submit(work, person) for person in self.crowd]:
                finished.result()

    def _judge_one(self, person: Person, unit: dict[str, Any] | None) -> tuple[dict[str, Any] | None, float | None]:
        """Judge one unit; return the next one and the seconds it took, or None where the person is finished."""
        client = self.clients[person.name]
        if unit is None:
            unit = self._pass_quiz(person, client)
            if unit is None:
                return None, None
        if person.leaves_after is not None and self.done[person.name] >= person.leaves_after * self.share:
            self.campaign.revoke(person.name, "left")  # as if the lease had expired
            self.left.add(person.name)
            return None, None
        answers = person.answers(unit, self.protocol, self._quality_of_unit(unit["assignment"]))
        took = self._draw_seconds(person, unit, len(answers))
        sent = changes(answers, person.rng)
        for change in sent:
            change |= {"active_ms": int(1000 * took / len(sent)), "idle_ms": 0}
        client.call("/api/save", {"assignment": unit["assignment"], "changes": sent})
        reply = client.call("/api/submit", {"assignment": unit["assignment"]})
        if reply.get("missing"):
            raise OptionError(
                f"a simulated annotator could not answer {reply['missing'][0]}; rehearse another protocol"
            )
        self.seconds[person.name] += took
        self.done[person.name] += 1
        return reply.get("unit"), took if reply.get("unit") is not None else None

    def _pass_quiz(self, person: Person, client: _Client) -> dict[str, Any] | None:
        """Return the first unit, after the quiz and the examples of the tutorial; None for whoever does not pass."""
        for _ in range(MAX_STEPS):
            reply = client.call("/api/next", {})
            if "quiz" in reply:
                questions = self.campaign.protocol.quiz.questions
                chosen = [person.rng.choice(q.options) if person.careless else q.answer for q in questions]
                graded = client.call("/api/quiz", {"answers": chosen})
                if not graded["passed"] and graded["attempts_left"] <= 0:
                    self.screened.add(person.name)
                    return None
            elif "tutorial" in reply:
                client.call("/api/example", {"score": None})
            else:
                return reply.get("unit")
        return None

    def _draw_seconds(self, person: Person, unit: Mapping[str, Any], count: int) -> float:
        if person.behaviour.pace is not None:
            return person.seconds(person.behaviour.pace * count)
        judged = [row for row in unit["rows"] if not row["context"]]
        texts = [row.get("source", {}).get("text", "") for row in judged]
        texts += [output["text"] for row in judged for output in row["outputs"]]
        return person.seconds(expected_seconds(count, sum(map(len, texts))))

    def _quality_of_unit(self, assignment: str) -> Any:
        """Return what cells of a unit are worth; the organiser, unlike the page, knows systems."""
        with self.campaign.store.read() as connection:
            row = connection.execute(
                sql("SELECT a.slots, u.systems FROM assignments a JOIN units u ON u.id = a.unit_id WHERE a.id = :id"),
                {"id": assignment},
            ).one()
        systems = [decode(row.systems)[index] for index in decode(row.slots)]

        def quality(cell: str, slot: str | None) -> float:
            item, system = self.cells.get(cell, (None, None))
            name = system or (systems[ord(slot) - ord("A")] if slot and len(slot) == 1 else None)
            if name is None:
                return 0.5
            column = self.worth[:, self.column[name]]
            return float(column.mean() if item is None else column[self.row[item]])

        return quality


# -- what came of it -----------------------------------------------------------------------------------------------


def _build_result(
    run: _Run, manner: Behaviour, origin: str, hourly: float | None, currency: str | None, replays: int, seed: int
) -> Rehearsal:
    status = run.campaign.status()
    judged = run.campaign.judgments()
    hours = sum(run.seconds.values()) / 3600
    pay = run.campaign.protocol.payment
    money = hours * hourly if hourly is not None else status.units_done * pay.per_unit if pay.per_unit else None
    notes = (
        []
        if status.units_done == status.units_wanted
        else [f"{status.units_wanted - status.units_done} units were left over: ask for more annotators"]
    )
    numbers, more = _replay_judging(run, judged, manner, replays, seed)
    timings = np.array([ms for client in run.clients.values() for ms in client.milliseconds])
    careless = {person.name for person in run.crowd if person.careless}
    return Rehearsal(
        annotators=len(run.crowd),
        careless=len(careless),
        left=len(run.left),
        units_done=status.units_done,
        units_wanted=status.units_wanted,
        judgments=len(judged.answers()),
        hours=hours,
        longest_hours=max(run.seconds.values()) / 3600,
        money=money,
        currency=currency or pay.currency,
        qualities=origin,
        replays=replays,
        half_width=numbers[0],
        coverage=numbers[1],
        power=numbers[2],
        wrong=numbers[3],
        checks=(*_count_screened(run, careless), *_try_checks(judged, careless)),
        calls=len(timings),
        p50_ms=float(np.percentile(timings, 50)),
        p95_ms=float(np.percentile(timings, 95)),
        notes=(*notes, *more),
    )


def _replay_judging(
    run: _Run, judged: Judgments, manner: Behaviour, replays: int, seed: int
) -> tuple[tuple[float | None, float | None, float | None, float | None], list[str]]:
    """Return half width, coverage, power and share of wrong decisions over replays of the same work."""
    score = next((w for w in run.campaign.protocol.widgets if isinstance(w, Score) and w.scope == "output"), None)
    if score is None or not replays:
        why = "intervals and power are rehearsed for protocols with scores" if score is None else "no replays asked for"
        return (None, None, None, None), [why]
    data, selection = run.campaign.data, run.campaign.selection
    bare = EvalSet(
        data.items,
        data.systems,
        {n: v for n, v in data.scores.items() if n != data.human},
        data.outputs,
        name=data.name,
    )
    truth = {
        s: score.low + (score.high - score.low) * float(run.worth[:, replay].mean()) for s, replay in run.column.items()
    }
    table = judged.answers().filter(
        pl.col("criterion").is_null() | (pl.col("criterion") == pl.col("criterion").first())
    )
    widths, covered, decided, wrong = [], [], [], []
    for replay in range(replays):
        drawn = draw_people(sorted(judged.annotators), manner, seed * 1000 + replay + 1)
        values = _redraw_values(table, {person.name: person for person in drawn}, run, score)
        again = Judgments(
            table.with_columns(pl.Series("value", values), pl.lit(None).cast(pl.String).alias("criterion"))
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = estimate(bare, selection=selection, judgments=again, seed=seed)
        widths += [(row.high - row.low) / 2 for row in result.systems]
        covered += [row.low <= truth[row.system] <= row.high for row in result.systems]
        right, false = _count_decided_pairs(result, truth)
        decided.append(right)
        wrong.append(false)
    return (_mean_or_none(widths), _mean_or_none(covered), _mean_or_none(decided), _mean_or_none(wrong)), []


def _redraw_values(table: pl.DataFrame, by_name: Mapping[str, Person], run: _Run, score: Score) -> list[float]:
    steps = round((score.high - score.low) / score.step)
    values = []
    for item, system, who in table.select("item", "system", "annotator").iter_rows():
        perceived = by_name[who].perceived(float(run.worth[run.row[item], run.column[system]]))
        values.append(score.low + round(perceived * steps) * score.step)
    return values


def _count_decided_pairs(estimates: Estimates, truth: Mapping[str, float]) -> tuple[float, float]:
    """Return the shares of pairs told apart rightly, and wrongly."""
    sure = [pair for pair in estimates.pairs if pair.p_adjusted < _ALPHA]
    right = sum(truth[pair.a] > truth[pair.b] for pair in sure)
    return (right / len(estimates.pairs), (len(sure) - right) / len(estimates.pairs)) if estimates.pairs else (0.0, 0.0)


def _mean_or_none(values: list[Any]) -> float | None:
    finite = [float(value) for value in values if not math.isnan(value)]
    return sum(finite) / len(finite) if finite else None


def _count_screened(run: _Run, careless: set[str]) -> list[Caught]:
    """Return whom the quiz kept out, where the protocol has one."""
    if not run.campaign.protocol.quiz.questions:
        return []
    return [Caught("quiz", len(careless), len(run.screened & careless), len(run.screened - careless))]


def _try_checks(judged: Judgments, careless: set[str]) -> Iterator[Caught]:
    """Try each check of `clean`; one that marks most of an annotator's judgments has caught that annotator."""
    needs = {"controls": "control", "repeats": "repeat", "speeders": "seconds"}
    for step in STEPS:
        column = needs.get(step)
        if column is not None and (column not in judged.table.columns or not judged.table[column].count()):
            continue  # nothing was planted, or no time was measured
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                table = clean(judged, steps=step).judgments.table
        except AliquotError:
            continue
        marked = pl.col("marked").is_not_null() if "marked" in table.columns else pl.lit(value=False)
        shares = table.filter(pl.col("annotator").is_not_null()).group_by("annotator").agg(marked.mean().alias("share"))
        caught = set(shares.filter(pl.col("share") > 0.5)["annotator"].to_list())
        yield Caught(step, len(careless), len(caught & careless), len(caught - careless))
