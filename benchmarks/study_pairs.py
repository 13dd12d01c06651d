"""Adaptive campaigns of pairwise choices, replayed on scores: `python benchmarks/study_pairs.py`.

On each asked item the output with the higher human score wins; equal scores are a tie. The truth is the order of the
systems by their share of wins over all items and rivals. All policies rank by the same Bradley-Terry strengths.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

import numpy as np
from campaigns import CAMPAIGNS, population
from scipy.stats import weightedtau

import aliquot
from aliquot.sampling.pair_allocator import PAIR_QUESTIONS, PairAllocator, PairAsk, PairQuestion
from aliquot.stats.arrays import FloatArray

LABELS = (
    "wmt23 en-de MQM",
    "summeval",
    "wmt24 ESA en-cs",
    "wmt23 he-en MQM",
    "biomqm en-de",
    "wmt24 ESA en-ja",
    "dialsummeval",
    "webnlg2020",
)
POLICIES = ("uniform", "dueling", "auto")
TIMES = (1, 2, 5, 10)  # budgets in choices per pair


def win_values(scores: FloatArray) -> FloatArray:
    """N x M x M: 1 where the row's system has the higher score on the item, 1/2 where scores are equal."""
    return np.asarray((1.0 + np.sign(scores[:, :, None] - scores[:, None, :])) / 2.0)


def replay(
    data: aliquot.EvalSet,
    values: FloatArray,
    policy: str,
    question: PairQuestion,
    seed: int,
    times: tuple[int, ...] = TIMES,
) -> FloatArray:
    """Weighted tau, and whether the best system is right, at every budget: budgets x 2."""
    truth = values.mean(axis=0).sum(axis=1)
    pairs = data.n_systems * (data.n_systems - 1) // 2
    winner = _winner(data, values)
    allocator, found = PairAllocator(data, question, policy=policy, seed=seed), []
    for before, now in zip((0, *times), times, strict=False):
        for _ in range((now - before) * pairs):
            allocator.add([(ask.item, ask.a, ask.b, winner(ask)) for ask in allocator.next(1)])
        strength = {each.system: each.strength for each in allocator.ranking()}
        ranked = np.array([strength[name] for name in data.systems])
        tau = weightedtau(truth, ranked, weigher=lambda rank: 1.0 / (rank + 1.0) ** 2).statistic
        found.append((tau, float(np.argmax(ranked) == np.argmax(truth))))
    return np.array(found)


def _winner(data: aliquot.EvalSet, values: FloatArray) -> Callable[[PairAsk], str | None]:
    row = {item: at for at, item in enumerate(data.ids)}
    place = {name: at for at, name in enumerate(data.systems)}

    def winner(ask: PairAsk) -> str | None:
        value = values[row[ask.item], place[ask.a], place[ask.b]]
        return None if value == 0.5 else ask.a if value > 0.5 else ask.b

    return winner


def until_decided(data: aliquot.EvalSet, values: FloatArray, policy: str, seed: int, most: float) -> tuple[float, ...]:
    """Choices until it is decided who is best, as a share of all items of all pairs; if it was; if it was wrong.

    It is wrong where a system that no other is preferred to over all items was ruled out.
    """
    allocator = PairAllocator(data, "best", policy=policy, budget=f"{100 * most:g}%", seed=seed)
    winner, every = _winner(data, values), data.n_items * data.n_systems * (data.n_systems - 1) // 2
    advice = allocator.advice()
    while not advice.stop and (asks := allocator.next(max(10, every // 200))):
        allocator.add([(ask.item, ask.a, ask.b, winner(ask)) for ask in asks])
        advice = allocator.advice()
    unbeaten = (values.mean(axis=0) >= 0.5 - 1e-12).all(axis=1)
    wrong = any(advice.beaten[data.systems[s]] for s in np.flatnonzero(unbeaten))
    left = [name for name, by in advice.beaten.items() if not by]
    return sum(allocator.counts.values()) / every, float(len(left) <= 1), float(wrong)


def stopping(repeats: int, labels: Sequence[str], most: float) -> None:
    """Print how many choices each policy needs."""
    print(f"question best, at most {most:.0%} of all choices; choices (share of all) / decided / wrong, {repeats} runs")
    for campaign in (each for each in CAMPAIGNS if each.label in labels):
        data = population(campaign)
        values = win_values(data.human_score())
        found = [np.mean([until_decided(data, values, p, s, most) for s in range(repeats)], axis=0) for p in POLICIES]
        cells = " | ".join(f"{share:.3f} / {decided:.2f} / {wrong:.2f}" for share, decided, wrong in found)
        print(f"| {campaign.label} | {cells} |", flush=True)


def study(repeats: int, question: PairQuestion, labels: Sequence[str]) -> None:
    """Print the table."""
    total: dict[str, list[FloatArray]] = {policy: [] for policy in POLICIES}
    print(f"question {question}; weighted tau / share of right best systems; choices per pair: {TIMES}")
    for campaign in (each for each in CAMPAIGNS if each.label in labels):
        data = population(campaign)
        values = win_values(data.human_score())
        for policy in POLICIES:
            mean = np.mean([replay(data, values, policy, question, seed) for seed in range(repeats)], axis=0)
            total[policy].append(mean)
            print(f"| {campaign.label} | {policy} | {_cells(mean)} |", flush=True)
    for policy in POLICIES:
        print(f"| mean | {policy} | {_cells(np.mean(total[policy], axis=0))} |")


def _cells(mean: FloatArray) -> str:
    return " | ".join(f"{tau:.2f} / {right:.2f}" for tau, right in [*mean, mean.mean(axis=0)])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--question", choices=PAIR_QUESTIONS, default="top")
    parser.add_argument("--campaigns", nargs="*", default=LABELS)
    parser.add_argument(
        "--stop", type=float, metavar="SHARE", help="choices until the best is decided, at most a share"
    )
    options = parser.parse_args()
    if options.stop:
        stopping(options.repeats, options.campaigns, options.stop)
    else:
        study(options.repeats, options.question, options.campaigns)
