"""Inputs of a plan from data: a pilot or a past campaign, the test set planned for, and what judging costs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from aliquot.core.evalset import EvalSet
from aliquot.core.selection import Selection
from aliquot.errors import DataError, OptionError
from aliquot.planning.costs import Prices, Times, data_prices
from aliquot.planning.forecast import PastCampaign
from aliquot.planning.pilot import Pilot, pilot_sample
from aliquot.planning.repeats import judgments_per_output
from aliquot.simulation.replay import Stage
from aliquot.simulation.setup import population as past_population
from aliquot.stats.arrays import FloatArray
from aliquot.stats.shrinkage import pairs_in

Basis = Pilot | PastCampaign
_FEW_PAIRS = 12  # ordered pairs of items, as the shrinkage of within_correlation counts them
_ROUGH = 20  # items below which a pilot is called small


@dataclass(frozen=True, eq=False)
class PlanInputs:
    """The judged items, the test set planned for, and what judging costs."""

    basis: Basis  # the pilot or the past campaign
    population: float  # items of the planned test set; infinite for conclusions beyond any
    limit: int  # the most items that may be planned
    prices: Prices  # of the items of the present set
    per_output: float  # judgments behind a human score
    power: float  # asked for each pair

    @property
    def evalset(self) -> EvalSet:
        """The present set."""
        return self.basis.evalset

    @property
    def pairs(self) -> int:
        """The number of pairs of systems."""
        m = self.evalset.n_systems
        return m * (m - 1) // 2

    def hours(self, expected: FloatArray) -> float:
        """Hours for items that are expected so often."""
        return self.prices.hours(expected, self.per_output)


def find_basis(
    data: EvalSet,
    human: str | None,
    selection: Selection | None,
    *,
    past: bool,
    items: int | None,
    beyond: bool,
    level: float,
    replays: int,
    draws: int,
    seed: int,
    jobs: int | None,
) -> tuple[Basis, list[str]]:
    """Replay where everything is judged and the plan is for the same set; otherwise foresee from what is judged."""
    if data.human is None and human is None:
        raise DataError(f"{data.name}: there are no human scores to plan from; name the score with --human, or plan "
                        "without data: --difference and --sd")  # fmt: skip
    other = beyond or items is not None
    if past and (other or selection is not None):
        raise OptionError("--past replays a finished campaign as it was; leave out --items, --beyond and --selection")
    if past:
        kept, said = past_population(data, human)
        return PastCampaign(Stage(kept, level=level), replays, seed, jobs), list(said)
    sample, notes = pilot_sample(data, human, selection)
    if sample.n == sample.population and not other:
        kept, _ = past_population(sample.evalset, None)
        return PastCampaign(Stage(kept, level=level), replays, seed, jobs), list(notes)
    present = sample.population
    copies = np.inf if beyond else 1.0 if items is None or items == present else items / present
    pilot = Pilot(sample, copies, level, draws, seed)
    return pilot, [*notes, *_pilot_notes(pilot, given=selection is not None)]


def _pilot_notes(pilot: Pilot, *, given: bool) -> list[str]:
    sample = pilot.sample
    notes = []
    if not given and sample.n < sample.population:
        notes.append("no selection given: the judged items are taken for a simple random sample")
    if pilot.copies == 1:
        notes.append("items that are judged already count among those planned")
    else:
        notes.append("the planned items are taken to be like those of the data")
    if sample.n < _ROUGH:
        notes.append(f"a pilot of {sample.n} items is small; {_ROUGH} or more are better")
    systems = sample.evalset.systems
    alike = [f"'{systems[first]}' and '{systems[at]}'" for at, first in enumerate(pilot.same_as) if first != at]
    if alike:
        notes.append(f"no difference is seen, and none can be planned for: {', '.join(alike)} have the same scores on "
                     "all judged items")  # fmt: skip
    if _documents_unknown(pilot):
        notes.append("hardly two judged items share a document, so what spreading over documents saves is not counted: "
                     "the plan is careful")  # fmt: skip
    notes.append(f"foreseen from {sample.n} judged items: widths are good to about ±{pilot.uncertainty:.0%}, and what "
                 "is unknown of the true differences is averaged over")  # fmt: skip
    return notes


def _documents_unknown(pilot: Pilot) -> bool:
    """Whether documents of several items are there, but too few pairs of the judged items are of the same one."""
    codes, rows = pilot.evalset.documents, pilot.sample.rows
    if codes is None or codes.max() + 1 == len(codes):
        return False
    return pairs_in(np.ones(len(rows)), codes[rows]) < _FEW_PAIRS


def gather(data: EvalSet, basis: Basis, items: int | None, *, beyond: bool, times: Times, power: float) -> PlanInputs:
    """Costs come from all judgments of the data; a replayed set has lost them."""
    evalset = basis.evalset
    timed = evalset if evalset.judgments is not None else _with_judgments_of(evalset, data)
    present = evalset.n_items
    limit = items if items is not None else present
    per_output = judgments_per_output(data.with_human(evalset.human))
    return PlanInputs(basis, np.inf if beyond else float(limit), limit, data_prices(times, timed), per_output, power)


def _with_judgments_of(evalset: EvalSet, data: EvalSet) -> EvalSet:
    if data.judgments is None:
        return evalset
    return replace(evalset, judgments=data.judgments.keep(items=evalset.ids, systems=list(evalset.systems)))
