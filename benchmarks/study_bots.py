"""`make study-bots`: whole adaptive campaigns of bots through the queue of `collect`, beside `simulate`'s replays.

Every bot answers what people answered in the past campaign, so that the truth is known. Two promises: 95% intervals of
`estimate` from the campaign's own judgments and logged probabilities cover 93 to 97%, and a policy in the queue does
what `simulate` says of it. Writes its table into docs/evidence-people.md between two marks; resumable (build/study).
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import campaigns
import harness
import numpy as np
from campaigns import CAMPAIGNS
from study_adaptive import Kept, Measured, measured

import aliquot
from aliquot.collect.annotator_pages import Annotator
from aliquot.collect.campaign import Campaign
from aliquot.collect.statements import decode, sql
from aliquot.core.evalset import EvalSet
from aliquot.estimation.estimate_result import Estimates
from aliquot.simulation.adaptive import run_allocator

PAGE = Path(__file__).parent.parent / "docs" / "evidence-people.md"
BEGIN, END = "<!-- bots -->", "<!-- end of bots -->"
LABELS = ("wmt24 ESA en-cs", "wmt23 en-de DA")
HEAD = """
Whole campaigns of three bots through the queue of `aliquot collect` (`make study-bots`), beside replays of the same
policy as in `simulate`: 60 items, the 8 best systems, 30% of the cells, question `top`. Bots / replays, in brackets the
difference in standard errors; coverage of 95% intervals with its standard error.

| campaign | runs | weighted tau | best named | error of means | coverage, bots | coverage, replays |
|---|---|---|---|---|---|---|"""
ITEMS, SYSTEMS, SHARE, PEOPLE, RUNS = 60, 8, 0.3, 3, 250
MEMORY = Path("/dev/shm")  # where syncing costs nothing


def small(data: EvalSet) -> EvalSet:
    """Some items and the best systems of a campaign; whole scores from 0 to 100, as the page gives; no documents."""
    chosen = np.random.default_rng(0).choice(data.n_items, ITEMS, replace=False)
    best = np.argsort(-data.human_score().mean(axis=0))[:SYSTEMS]
    part = data.keep([data.ids[row] for row in sorted(chosen)], [data.systems[at] for at in sorted(best)])
    scores = {**part.scores, str(part.human): np.clip(np.round(part.human_score()), 0, 100)}
    items = part.items.drop([name for name in ("document", "position") if name in part.items.columns])
    return replace(part, items=items, scores=scores, judgments=None)


def of_estimates(found: Estimates, data: EvalSet) -> Measured:
    """One look at the end of a campaign."""
    rows = {row.system: row for row in found.systems}
    table = [(rows[s].estimate, (rows[s].high - rows[s].low) / 2, rows[s].n) for s in data.systems]
    values, half, counts = np.array(table, dtype=np.float64).T[:, None]
    return measured(values, half, counts, data.human_score().mean(axis=0))


def bot_run(data: EvalSet, seed: int) -> Measured:
    """One campaign: bots take units in turn until the budget is spent; then what `estimate` makes of it."""
    truth = {
        (item, s): value
        for item, row in zip(data.ids, data.human_score().tolist(), strict=True)
        for s, value in zip(data.systems, row, strict=True)
    }
    unjudged = replace(data, scores={name: data.scores[name] for name in data.metrics}, human=None)
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        place, budget = Path(folder) / "c.db", round(SHARE * len(truth))
        with Campaign.create(
            unjudged, None, "da", PEOPLE, path=place, seed=seed, allocate="auto", question="top", budget=budget
        ) as campaign:
            bots = [campaign.pages.annotator(link.rpartition("/")[2]) for link in campaign.links().annotators.values()]
            while sum([work(campaign, bot, truth) for bot in bots]):
                pass
            found = aliquot.estimate(data, selection=campaign.selection, judgments=campaign.judgments(), target="given")
    return of_estimates(found, data)


def work(campaign: Campaign, who: Annotator, truth: dict[tuple[Any, str], float]) -> bool:
    """One unit of one bot, answered as in the past; whether there was one."""
    found = campaign.pages.next_unit(who)
    if "unit" not in found:
        return False
    unit = found["unit"]
    changes = []
    with campaign.store.read() as connection:
        for cell in (output["cell"] for row in unit["rows"] for output in row["outputs"] if output["cell"]):
            row = connection.execute(sql("SELECT item, system FROM cells WHERE id = :id"), {"id": cell}).one()
            changes.append(
                {
                    "id": f"{unit['assignment']}-{cell}",
                    "cell": cell,
                    "active_ms": 5000,
                    "idle_ms": 0,
                    "answer": {"score": truth[decode(row.item), row.system]},
                }
            )
    campaign.pages.save(who, unit["assignment"], changes)
    campaign.pages.submit(who, unit["assignment"])
    return True


def replayed_run(data: EvalSet, seed: int) -> Measured:
    """The same policy as `simulate` replays it."""
    options = {"policy": "auto", "question": "top", "budget": round(SHARE * data.human_score().size)}
    (allocator,) = run_allocator(data, data.human_score(), (SHARE,), seed, options)
    return of_estimates(aliquot.estimate(data, selection=allocator.selection(), target="given"), data)


def line(label: str, bots: list[Measured], replays: list[Measured]) -> str:
    """A campaign's row: each measure of bots and replays, and their difference in standard errors."""
    cells = [label, f"{len(bots)} / {len(replays)}"]
    for name in ("weighted_tau", "top1", "mae"):
        ours, theirs = (np.array([run[name][0] for run in runs]) for runs in (bots, replays))
        error = np.sqrt(ours.var(ddof=1) / len(ours) + theirs.var(ddof=1) / len(theirs))
        cells.append(f"{ours.mean():.3f} / {theirs.mean():.3f} ({(ours.mean() - theirs.mean()) / error:+.1f})")
    for runs in (bots, replays):
        inside, known = (np.array([run["covered"][at] for run in runs]) for at in (0, 1))
        cells.append(f"{inside.sum() / known.sum():.3f} ({(inside / known).std(ddof=1) / np.sqrt(len(runs)):.3f})")
    return f"| {' | '.join(cells)} |"


def main(arguments: Sequence[str] | None = None) -> None:
    options = harness.study_options(__doc__, arguments, minutes=True)
    kept, rows = Kept(options.minutes), []
    for campaign in CAMPAIGNS:
        if campaign.label in LABELS and (options.only or "") in campaign.label:
            data = small(campaigns.population(campaign))
            bots = kept.more(f"{campaign.label}-bots", RUNS, partial(bot_run, data))
            rows.append(
                line(campaign.label, bots, kept.more(f"{campaign.label}-replays", RUNS, partial(replayed_run, data)))
            )
            print(rows[-1], flush=True)
    if options.only is None:
        before, rest = PAGE.read_text().split(BEGIN)
        PAGE.write_text("\n".join([before + BEGIN, HEAD, *rows, "", END + rest.split(END)[1]]))


if __name__ == "__main__":
    main()
