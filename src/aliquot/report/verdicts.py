"""Verdicts: what a result says, in one or two plain sentences, before any table.

Pure functions from results to text. `write_verdict` finds the one for a result; the terminal, JSON documents,
notebooks and the report page all show the same words. A verdict never says more than the numbers do: where nothing was
tested, or a number is undefined, it says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from aliquot.core.verdict_words import find_lead, format_p, format_probability, join_names
from aliquot.report.agreement_verdict import agreement_verdict
from aliquot.report.compare_verdicts import COMPARE_VERDICTS

if TYPE_CHECKING:  # a result's own room is loaded already; the others would only cost time
    from aliquot.annotation.clean import Cleaned
    from aliquot.annotation.combine_result import Combined
    from aliquot.annotation.preference_result import Comparison, SystemPreference
    from aliquot.core.selection import Selection
    from aliquot.estimation.estimate_result import Estimates, SystemEstimate
    from aliquot.estimation.sequential import Replay
    from aliquot.planning.adaptive import AdaptivePlan
    from aliquot.planning.power import PowerPlan
    from aliquot.planning.result import CampaignPlan
    from aliquot.simulation.result import Simulation
    from aliquot.simulation.summary import MethodSummary

DEFAULT_METHOD = "auto"
_ROUNDING = 1e-9  # relative difference of two estimates that is rounding


def write_verdict(result: Any) -> str | None:
    """Say what a result means in one or two sentences; None for a result without a verdict.

    >>> import aliquot
    >>> data = aliquot.synthetic(items=200, systems=3, seed=5)
    >>> print(write_verdict(aliquot.estimate(data)))
    sys1 is best: the next system, sys2, is worse (p < 0.001).
    """
    for kind in type(result).__mro__:
        if kind.__name__ in _VERDICTS and kind.__module__.startswith("aliquot."):
            return _VERDICTS[kind.__name__](result)
    return None


# -- Estimates: who leads, and is it certain? ------------------------------------------------------------------------


def estimate_verdict(result: Estimates) -> str:
    """Return who is best, who cannot be told apart from the best, and how sure the next one is worse."""
    judged = [row for row in result.systems if row.cluster is not None]
    never = [row.system for row in result.systems if row.cluster is None]
    first, *more = _describe_leaders(result, judged)
    return " ".join([first, *result.changes, *more, *_list_cautions(result, never)])


def _describe_leaders(result: Estimates, judged: Sequence[SystemEstimate]) -> list[str]:
    if not judged:
        return ["No system was judged, so nothing can be said."]
    if len(judged) == 1:
        return [_describe_single(result, judged[0])]
    lead = result.lead
    if lead.best is not None or lead.rivals:
        return [f"{lead.sentence}."]
    if lead.following is None or not lead.testable:
        return [f"{lead.sentence}; {_describe_highest(judged)}."]
    return [f"{lead.sentence}.", f"{_describe_highest([row for row in judged if row.system in lead.leaders])}."]


def _describe_single(result: Estimates, row: SystemEstimate) -> str:
    if math.isnan(row.low):
        return f"{row.system} has an estimate of {row.estimate:.4g}, without an interval; there is no other to compare."
    return (
        f"{row.system} has an estimate of {row.estimate:.4g} ({result.level:.0%} interval {row.low:.4g} to "
        f"{row.high:.4g}); there is no other system to compare with."
    )


def _describe_highest(top: Sequence[SystemEstimate]) -> str:
    """Return who has the highest estimate, and the probability of being the best, where known.

    They may differ: a system that was judged on few items can have the highest estimate and a wide interval.
    """
    equal = [row for row in top if top[0].estimate - row.estimate <= _ROUNDING * abs(top[0].estimate)]
    if len(equal) == len(top):
        return "all have the same estimate"
    if len(equal) > 1:
        return f"{join_names([row.system for row in equal])} have the highest estimate"
    first = f"{top[0].system} has the highest estimate"
    with_probability = [row for row in top if not math.isnan(row.p_best)]
    if not with_probability:
        return first
    likeliest = max(with_probability, key=lambda row: row.p_best)
    if likeliest is top[0]:
        return f"{first} and is the best with a probability of {format_probability(likeliest.p_best)}"
    return (
        f"{first}, but {likeliest.system} is the best with the highest probability "
        f"({format_probability(likeliest.p_best)})"
    )


def _list_cautions(result: Estimates, never: Sequence[str]) -> list[str]:
    from aliquot.estimation.notes import UNKNOWN_CHANCES  # noqa: PLC0415  (slow to import)

    cautions = []
    if never:
        cautions.append(f"{join_names(never)} {'was' if len(never) == 1 else 'were'} never judged.")
    if any(note.startswith(UNKNOWN_CHANCES) for note in result.notes):
        cautions.append("The items were not drawn at random: trust the order of the systems, not their means.")
    if result.rule == "published":
        cautions.append(
            "Each pair was tested alone and one-sided, as is common: some of the differences may be chance."
        )
    if result.interval == "sequence":
        cautions.append("The intervals hold at every look; the p-values hold for one look only.")
    return cautions


def pairs_verdict(result: Estimates | Comparison) -> str:
    """Return how many pairs of systems differ significantly, and which one is closest.

    >>> import aliquot
    >>> print(pairs_verdict(aliquot.estimate(aliquot.synthetic(items=200, systems=3, seed=5))))
    All 3 pairs of systems are told apart (adjusted p < 0.05); the closest is sys1 and sys2 (p < 0.001).
    """
    tested = [pair for pair in result.pairs if not math.isnan(pair.p_adjusted)]
    if not tested:
        return "There is no pair of systems whose difference can be tested."
    apart = sum(pair.p_adjusted < result.alpha for pair in tested)
    closest = max(tested, key=lambda pair: (pair.p_adjusted, pair.p))
    published = result.rule == "published"
    p = getattr(closest, "p_sample", closest.p) if published else closest.p
    near = f"{closest.a} and {closest.b} ({format_p(p, closest.p_adjusted)})"
    if len(tested) == 1:
        return f"{'The two systems are told apart' if apart else 'The two systems cannot be told apart'}: {near}."
    are = f"{apart or 'None'} of {len(tested)} pairs of systems {'is' if apart <= 1 else 'are'}"
    are = f"All {apart} pairs of systems are" if apart == len(tested) else are
    word = "one-sided p" if published else "p" if result.adjust == "none" else "adjusted p"
    return f"{are} told apart ({word} < {result.alpha:g}); the closest is {near}."


def sequential_verdict(result: Replay) -> str:
    """Return when judging could have stopped, or what is still open."""
    final, after = result.final, result.stopped_after
    answer = final.reason.partition(": ")[2]
    if after is None:
        return f"After all {final.items} items the question is open: {answer}."
    if after == final.items:
        return f"The question was decided with the last of {final.items} items: {answer}."
    return f"One could have stopped after {after} of {final.items} items ({final.items - after} fewer): {answer}."


# -- Replays: what the default would have saved ----------------------------------------------------------------------


_GOALS = {
    "mae": "equally precise means",
    "spa_full": "an equally good ranking",
    "spa": "an equally good ranking",
    "accuracy": "equally many pairs in the right order",
}


def simulate_verdict(result: Simulation) -> str:
    """Return what the default (or the first method) would have saved against a random sample, in items and money."""
    from aliquot.simulation.summary import ALL_SETS  # noqa: PLC0415  (slow to import)

    sets = list(dict.fromkeys(row.data for row in result.rows))
    where = ALL_SETS if ALL_SETS in sets else sets[0]
    method = _choose_method([row.method for row in result.rows])
    if method is None:
        return "Only random samples were replayed: name a method to compare with them, for instance auto."
    rows = [row for row in result.rows if (row.data, row.method) == (where, method)]
    rows = _select_goals(sorted((row for row in rows if row.measure in _GOALS), key=_goal_order))[:2]
    name = "the default (auto)" if method == DEFAULT_METHOD else method
    if not rows:
        return f"The measures chosen do not say what {name} saves; add mae or spa_full."
    return _describe_savings(result, name, rows, 1 if where != ALL_SETS else len(sets) - 1)


def _goal_order(row: MethodSummary) -> int:
    return list(_GOALS).index(row.measure)


def _select_goals(rows: Sequence[MethodSummary]) -> list[MethodSummary]:
    return list({_GOALS[row.measure]: row for row in reversed(rows)}.values())[::-1]


def _choose_method(methods: Sequence[str]) -> str | None:
    named = [name for name in dict.fromkeys(methods) if name != "random"]
    return DEFAULT_METHOD if DEFAULT_METHOD in named else named[0] if named else None


def _describe_savings(result: Simulation, name: str, rows: Sequence[MethodSummary], sets: int) -> str:
    on = "these data" if sets == 1 else f"these {sets} sets, on average"
    helped = [row for row in rows if row.gain == "better" and row.parity < 1]
    if not helped:
        if any(row.gain == "worse" for row in rows):
            return f"On {on}, {name} is worse than a random sample: it would have saved nothing."
        if any(row.gain == "better" for row in rows):
            return f"On {on}, {name} is better than a random sample, but saves nothing at every budget replayed."
        return f"On {on}, no saving by {name} is seen beyond the Monte Carlo error; more `repeats` would tell."
    unit = "items" if result.cost is None else "cost"
    ways = [f"{_GOALS[row.measure]} with {row.parity:.0%}" for row in helped]
    first = f"On {on}, {name} gives {join_names(ways)} of a random sample's {unit}."
    return f"{first}{_describe_saved_items(result, helped[0])}"


def _describe_saved_items(result: Simulation, row: MethodSummary) -> str:
    """Return the saving at the middle budget, in items and, where an item has a price, in money."""
    cells = [cell for cell in result.cells if cell.asked and cell.method == "random" and cell.measure == row.measure]
    if not cells or result.cost is not None:
        return ""
    shares = sorted({cell.share for cell in cells})
    middle = [cell.items for cell in cells if cell.share == shares[len(shares) // 2]]
    items = sum(middle) / len(middle)
    saved = items * (1 - row.parity)
    money = saved * result.money_per_item
    price = "" if math.isnan(money) else f" ({money:.0f} {result.currency})"
    return f" In the place of {items:.0f} random items, {items - saved:.0f} are enough: {saved:.0f} fewer{price}."


# -- Plans, selections, cleaning, combining --------------------------------------------------------------------------


def plan_verdict(result: CampaignPlan | PowerPlan | AdaptivePlan) -> str:
    """Return the first two sentences of the recommendation."""
    advice: Any = getattr(result, "recommendation", result)
    return advice.text if isinstance(advice.text, str) else " ".join(advice.text[:2])


def selection_verdict(result: Selection) -> str:
    """Return how many items are to be judged, and what may be concluded from them."""
    chosen = len(result.ids)
    head = f"{chosen} of {result.population} items to judge, chosen by {result.method}."
    if result.probability is not None:
        about = "the whole test set" if result.design.coverage >= 1 else "the items that could be drawn"
        return f"{head} Their probabilities are known: means of {about} can be estimated without bias."
    return f"{head} The choice is not random: use it to rank systems, not to estimate means."


def clean_verdict(result: Cleaned) -> str:
    """Return how many judgments were marked, by which step most, and whether systems change order."""
    total = result.counts.get("answered", 0) - result.counts.get("marked_before", 0)
    marked, unchecked = sum(step.marked for step in result.steps), _describe_unapplied(result)
    if not marked:
        ran = [step.step.partition(":")[0] for step in result.steps if step.applied]
        if not ran:
            return f"Nothing was checked: no step applies to these data. {unchecked}"
        if not unchecked:
            return f"No judgment was marked: all {total} count."
        only = f"only {len(ran)} of {len(result.steps)} steps applied ({join_names(ran)})"
        return f"No judgment was marked, but {only}. {unchecked}"
    strictest = max(result.steps, key=lambda step: step.marked)
    share = f"{marked} of {total} judgments ({marked / max(1, total):.0%})"
    head = f"{share} are marked, most of them ({strictest.marked}) by "
    swaps = sum(step.swaps for step in result.steps)
    pairs = "pair" if swaps == 1 else "pairs"
    order = "the order of the systems stays" if not swaps else f"{swaps} {pairs} of systems changed order"
    order = "none is left" if marked >= total else order
    return f"{head}{strictest.step}; {order}. {unchecked}".rstrip()


def _describe_unapplied(result: Cleaned) -> str:
    """Return the steps that did not apply, grouped by reason."""
    reasons: dict[str, list[str]] = {}
    for step in result.steps:
        if not step.applied:
            reasons.setdefault(step.note.removeprefix("not applied: "), []).append(step.step.partition(":")[0])
    parts = [f"{join_names(names)} ({reason})" for reason, names in reasons.items()]
    return f"Not applied: {', '.join(parts)}." if parts else ""


def combine_verdict(result: Combined) -> str:
    """Return which system the new score puts first, and how many outputs wait for experts."""
    rows = result.systems.drop_nulls(result.score)
    head = (
        f"The new score '{result.score}' puts {rows['system'][0]} first of {rows.height} systems."
        if rows.height
        else f"No system has a score '{result.score}'."
    )
    waiting = result.queue.height
    return f"{head} {waiting} output{'s'[: waiting != 1]} wait for experts." if waiting else head


# -- Preferences -----------------------------------------------------------------------------------------------------


def preference_verdict(result: Comparison) -> str:
    """Return which system people prefer, how sure that is, and whether the side it was shown on matters."""
    if not result.systems:
        return "There are no choices to compare systems by."
    parts = len({row.component for row in result.systems})
    rows = [row for row in result.systems if row.component == result.systems[0].component]
    sentences = [_describe_preference(result, rows)]
    if parts > 1:
        sentences.append(f"{parts} groups of systems were never compared with each other; nothing is said across them.")
    if result.rule == "published":
        sentences.append("By the published convention p is one-sided and each pair stands alone.")
    side = result.position
    if side is not None and (side.low > 0.5 or side.high < 0.5):
        sentences.append(f"The side matters: the output shown first won {side.first_won:.0%} of choices.")
    return " ".join(sentences)


def _describe_preference(result: Comparison, rows: Sequence[SystemPreference]) -> str:
    first = rows[0]
    has_interval = not math.isnan(first.low)
    interval = f" ({result.level:.0%} interval {first.low:.0%} to {first.high:.0%})" if has_interval else ""
    won = f"won {first.win_rate:.0%} of its choices{interval}."
    if len(rows) == 1:
        return f"{first.system} is the only system: it {won}"
    lead = find_lead(
        [row.system for row in rows],
        [row.cluster for row in rows],
        result.tests,
        alpha=result.alpha,
        method=result.adjust,
    )
    return f"{lead.sentence}. {first.system} {won}"


_VERDICTS: Mapping[str, Callable[[Any], str]] = {
    "Estimates": estimate_verdict,
    "Replay": sequential_verdict,
    "Agreement": agreement_verdict,
    "MetricReport": lambda result: result.verdict,
    "Simulation": simulate_verdict,
    "CampaignPlan": plan_verdict,
    "PowerPlan": plan_verdict,
    "AdaptivePlan": plan_verdict,
    "Selection": selection_verdict,
    "Cleaned": clean_verdict,
    "Combined": combine_verdict,
    "Comparison": preference_verdict,
    **COMPARE_VERDICTS,
}
"""By the name of the result's class: importing the classes would import everything."""
