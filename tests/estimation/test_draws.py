"""Estimates about prompts from judged draws: nested simulations, and the same numbers where nothing is repeated."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import aliquot
from aliquot.core.selection import Design, Selection
from aliquot.errors import DataError, OptionError
from aliquot.estimation.draws import select_prompts
from aliquot.stats.arrays import FloatArray

SYSTEMS = ("A", "B", "C")


def simulate_draws(seed: int, prompts: int = 60, draws: int = 4, *, binary: bool) -> tuple[aliquot.EvalSet, FloatArray]:
    """Return judged draws with a metric, and each system's mean over the prompts and all draws that there could be."""
    rng = np.random.default_rng(seed)
    prompt = np.repeat(np.arange(prompts), draws)
    level = rng.normal(0, 1, (prompts, 1)) + rng.normal(0, 0.5, (prompts, 3)) + 0.2 * np.arange(3)
    if binary:
        level = 1 / (1 + np.exp(-level))
        scores = (rng.random((len(prompt), 3)) < level[prompt]).astype(np.float64)
        metric = level[prompt] + rng.normal(0, 0.2, scores.shape)
    else:
        scores = level[prompt] + rng.normal(0, 1.5, (len(prompt), 3))
        metric = scores + rng.normal(0, 1, scores.shape)
    items = pl.DataFrame(
        {
            "id": np.arange(len(prompt)),
            "document": [f"p{row}" for row in prompt],
            "draw": np.tile(np.arange(1, draws + 1), prompts),
        }
    )
    data = aliquot.EvalSet(items, SYSTEMS, {"human": scores, "metric": metric}, human="human")
    return data, np.asarray(level.mean(axis=0))


def select_draws(data: aliquot.EvalSet, how: str, seed: int) -> Selection | None:
    if how == "all":
        return None
    method, options = {
        "whole prompts": ("documents", {"budget": "50%"}),
        "one of each by snippets": ("snippets_fixed", {"budget": 30, "length": 1}),
        "one of each": ("segments", {"budget": 30, "unit": "draw"}),
        "along prompts": ("pps", {"budget": 40}),
        "at random": ("segments", {"budget": 80}),
    }[how]
    return aliquot.select(data, method, seed=seed, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize(
    "how", ["all", "whole prompts", "one of each by snippets", "one of each", "along prompts", "at random"]
)
def test_intervals_cover_the_mean_over_prompts_and_draws(how: str, *, binary: bool) -> None:
    hits, errors, spread = [], [], []
    for seed in range(70):
        data, truth = simulate_draws(seed, binary=binary)
        result = aliquot.estimate(data, selection=select_draws(data, how, seed))
        rows = [result[name] for name in SYSTEMS]
        hits += [row.low <= mean <= row.high for row, mean in zip(rows, truth, strict=True)]
        errors += [row.estimate - mean for row, mean in zip(rows, truth, strict=True)]
        spread += [row.se for row in rows]
    error = np.std(errors)
    assert np.mean(hits) > 0.9  # 0.95 less three standard errors of 210 intervals
    assert abs(np.mean(errors)) < 3 * error / np.sqrt(70)
    assert 0.8 < np.mean(spread) / error < 1.25


def test_parts_of_the_variance_are_those_of_the_simulation() -> None:
    """Half of 400 prompts with 2 draws: prompts (1/n - 1/N) S, draws W / (2 n); plain means."""
    parts = []
    for seed in range(40):
        data, _ = simulate_draws(seed, prompts=400, draws=2, binary=False)
        chosen = aliquot.select(data, "documents", budget="50%", seed=seed)
        result = aliquot.estimate(data, "mean", selection=chosen)
        parts.append(result.variance["draws"])
    prompts, draws = 1.25 * (1 / 200 - 1 / 400), 1.5**2 / 2 / 200
    assert np.mean(parts) == pytest.approx(draws / (prompts + draws), abs=0.02)


def test_judging_has_its_part_of_the_noise_within_prompts() -> None:
    data, _ = simulate_draws(4, prompts=100, binary=False)
    rng = np.random.default_rng(1)
    noise = rng.normal(0, 1.5, (data.n_items, 3, 2))
    rows = [
        {
            "item": item,
            "system": system,
            "annotator": f"ann{turn}",
            "value": data.score("human")[i, s] + noise[i, s, turn],
        }
        for i, item in enumerate(data.ids)
        for s, system in enumerate(SYSTEMS)
        for turn in (0, 1)
    ]
    bare = replace(data, scores={}, human=None)
    result = aliquot.estimate(bare, "mean", judgments=aliquot.Judgments(pl.DataFrame(rows)))
    assert result.variance["prompts"] == pytest.approx(0, abs=1e-9)
    # A draw varies by 2.25, its two judgments' mean by 2.25 / 2.
    assert result.variance["judging"] / (result.variance["draws"] + result.variance["judging"]) == pytest.approx(
        1 / 3, abs=0.05
    )
    assert result["A"].se == pytest.approx(np.sqrt(3.375 / 400), rel=0.1)


@pytest.mark.parametrize("target", ["testset", "given", "beyond"])
def test_single_draws_give_the_numbers_of_items(target: str) -> None:
    data = aliquot.synthetic(items=80, systems=4, seed=3, judgments_per_output=2, annotators=5, document_length=0)
    single = replace(
        data, items=data.items.with_columns(pl.lit(1).alias("draw"), pl.col("id").cast(pl.String).alias("document"))
    )
    plain, drawn = (aliquot.estimate(part, target=target) for part in (data, single))  # type: ignore[arg-type]
    for row in plain.systems:
        assert drawn[row.system].estimate == pytest.approx(row.estimate, abs=1e-12)
        assert drawn[row.system].se == pytest.approx(row.se, abs=1e-12)


def test_given_is_known_where_all_draws_are_judged_and_not_otherwise() -> None:
    data, _ = simulate_draws(1, binary=False)
    assert aliquot.estimate(data, target="given")["A"].se == pytest.approx(0, abs=1e-12)
    half = data.score("human").copy()
    half[data.items["draw"].to_numpy() > 2] = np.nan
    known = aliquot.estimate(data.with_score("human", half), "mean", target="given")
    within = np.array([half[:, s][np.isfinite(half[:, s])].reshape(60, 2).var(axis=1, ddof=1).mean() for s in range(3)])
    assert known["A"].se == pytest.approx(np.sqrt(within[0] / 2 * 0.5 / 60))


def test_passes_of_draws_have_intervals() -> None:
    """pass@2, pass^2 and majority of 5 draws against their expectations."""
    hits: dict[str, list[bool]] = {"pass@2": [], "pass^2": [], "majority": []}
    for seed in range(50):
        rng = np.random.default_rng(seed)
        level = rng.beta(1.5, 1.5, (40, 1)) * np.ones((40, 3))
        data, _ = simulate_draws(seed, prompts=40, draws=5, binary=True)
        scores = (rng.random((200, 3)) < np.repeat(level, 5, axis=0)).astype(np.float64)
        data = replace(data, scores={"human": scores})
        p = level[:, 0]
        wins = sum(np.array([1, 5, 10, 10, 5, 1])[c] * p**c * (1 - p) ** (5 - c) for c in (3, 4, 5))
        truth = {"pass@2": 1 - (1 - p) ** 2, "pass^2": p**2, "majority": wins}
        for how, values in truth.items():
            row = aliquot.estimate(data, draws=how)["A"]
            hits[how].append(row.low <= values.mean() <= row.high)
    assert all(np.mean(row) > 0.9 for row in hits.values())


def test_what_cannot_be_scored_is_named() -> None:
    data, _ = simulate_draws(1, binary=True)
    with pytest.raises(DataError, match=r"needs 5 draws with a score, and prompt p0 has 4"):
        aliquot.estimate(data, draws="pass@5")
    with pytest.raises(OptionError, match="has one draw of each prompt"):
        aliquot.estimate(aliquot.synthetic(items=20, systems=2, seed=1), draws="pass@2")
    with pytest.raises(OptionError, match="has one draw of each prompt"):
        aliquot.select(aliquot.synthetic(items=20, systems=2, seed=1), "random", budget=5, unit="draw")


def test_few_draws_that_agree_prove_little() -> None:
    data, _ = simulate_draws(2, prompts=12, draws=2, binary=True)
    agreeing = np.repeat(np.tile([[1.0], [0.0]], (6, 3)), 2, axis=0)
    result = aliquot.estimate(replace(data, scores={"human": agreeing}))
    assert result["A"].se > 0.02


def test_one_draw_of_each_prompt_is_drawn_with_its_share_of_the_probability() -> None:
    data, _ = simulate_draws(5, prompts=30, draws=3, binary=False)
    counts = np.zeros(data.n_items)
    for seed in range(600):
        chosen = aliquot.select(data, "segments", budget=10, unit="draw", seed=seed)
        rows = [int(item) for item in chosen.ids]
        assert len({data.items["document"][row] for row in rows}) == len(rows) == 10
        assert chosen.probability == pytest.approx(np.full(10, 1 / 9))
        counts[rows] += 1
    assert counts.mean() == pytest.approx(600 / 9)
    assert counts.std() < 1.5 * np.sqrt(600 / 9 * 8 / 9)


@pytest.mark.parametrize(
    ("variance", "ids", "expected"),
    [
        ("clustered", (0, 1, 2, 3), [0.2]),  # the whole prompt
        ("clustered", (0,), [0.8]),  # one of its four draws
        ("spread", (0, 4), [0.8, 0.8]),
        ("unordered", (0, 1), [1 - 0.8**4]),
    ],
)
def test_probabilities_of_prompts(variance: str, ids: tuple[int, ...], expected: list[float]) -> None:
    data, _ = simulate_draws(5, prompts=30, draws=4, binary=False)
    chosen = Selection(ids, 120, "x", probability=np.full(len(ids), 0.2), design=Design(variance))  # type: ignore[arg-type]
    prompts = select_prompts(chosen, data)
    assert prompts.probability == pytest.approx(expected)
    assert prompts.population == 30
    assert prompts.ids == tuple(f"p{row}" for row in range(len(expected)))


def keep_first_draws(data: aliquot.EvalSet) -> aliquot.EvalSet:
    """Return the set in which only the first draw of each prompt has a score."""
    first = data.items["draw"].to_numpy()[:, None] == 1
    return data.with_score("human", np.where(first, data.score("human"), np.nan))


def test_single_draws_that_all_pass_do_not_prove_that_others_would() -> None:
    """A has one draw of each of 30 prompts, all pass; the others have four draws, of which some fail."""
    data, _ = simulate_draws(3, prompts=30, binary=True)
    scores = data.score("human").copy()
    scores[:, 0] = np.where(data.items["draw"] == 1, 1.0, np.nan)
    result = aliquot.estimate(data.with_score("human", scores), "mean")
    assert result.covariance[0, 0] >= 32 / 34 * 2 / 34 / 30
    pair = next(row for row in result.pairs if {row.a, row.b} == {"A", "C"})
    assert (pair.high - pair.low) / 2 > 2 * np.sqrt(result.covariance[0, 0])


def test_metrics_do_not_explain_away_the_noise_of_draws() -> None:
    """One judged draw of every prompt, and a metric that follows the scores of draws: the noise of draws is unknown."""
    squares, errors = [], []
    for seed in range(60):
        data, truth = simulate_draws(seed, prompts=40, binary=False)
        data = data.with_score("metric", data.score("human") + 0.1 * data.score("metric"))
        result = aliquot.estimate(keep_first_draws(data))
        errors += [result[name].estimate - mean for name, mean in zip(SYSTEMS, truth, strict=True)]
        squares += [result[name].se ** 2 for name in SYSTEMS]
    assert np.mean(squares) > 0.9 * np.mean(np.square(errors))
    assert any("fewer than 10 prompts have a second judged draw" in note for note in result.notes)


def test_noise_of_judging_is_not_that_of_draws() -> None:
    """Two annotators agree on one draw of each prompt, which says nothing of other draws."""
    data, _ = simulate_draws(2, prompts=50, binary=False)
    first = keep_first_draws(data)
    rows = [
        {"item": item, "system": system, "annotator": annotator, "value": score}
        for item, scores in zip(first.ids, first.score("human"), strict=True)
        for system, score in zip(SYSTEMS, scores, strict=True)
        for annotator in ("x", "y")
        if np.isfinite(score)
    ]
    bare = replace(data, scores={}, human=None)
    result = aliquot.estimate(bare, "mean", judgments=aliquot.Judgments(pl.DataFrame(rows)))
    assert result["A"].se > 1.5 / np.sqrt(50)


def test_given_is_not_known_from_one_draw_of_every_prompt() -> None:
    hits = []
    for seed in range(60):
        data, _ = simulate_draws(seed, prompts=40, binary=False)
        result = aliquot.estimate(keep_first_draws(data), "mean", target="given")
        means = data.score("human").mean(axis=0)
        hits += [result[name].low <= mean <= result[name].high for name, mean in zip(SYSTEMS, means, strict=True)]
    assert np.mean(hits) > 0.92


def test_included_draws_are_in_a_selection_of_one_draw_of_each_prompt() -> None:
    """Both included draws of p0 and one of p4 are judged for certain; p0 and p4 stand for themselves."""
    data, _ = simulate_draws(5, prompts=30, draws=4, binary=False)
    for seed in range(5):
        chosen = aliquot.select(data, "segments", budget=13, unit="draw", include=[1, 2, 17], seed=seed)
        assert chosen.ids[:3] == (1, 2, 17)
        prompts = select_prompts(chosen, data)
        assert len(prompts) == 12
        assert prompts.probability is not None
        assert prompts.probability[:2] == pytest.approx([1, 1])
        assert prompts.probability[2:] == pytest.approx(np.full(10, 10 / 28))


def test_prompts_with_excluded_draws_keep_their_probability() -> None:
    """Of half of the prompts, three of four draws are excluded, as those that were judged before."""
    data, _ = simulate_draws(5, prompts=30, draws=4, binary=False)
    before = [item for item in range(60) if item % 4]
    chosen = aliquot.select(data, "segments", budget=10, unit="draw", exclude_items=before, seed=1)
    assert select_prompts(chosen, data).probability == pytest.approx(np.full(10, 1 / 3))


def test_segments_with_one_draw_each_are_no_draws_of_their_document() -> None:
    data, _ = simulate_draws(3, prompts=20, binary=False)
    plain = aliquot.estimate(replace(data, items=data.items.drop("draw")))
    for number in (1, None):
        numbered = replace(data, items=data.items.with_columns(pl.lit(number, dtype=pl.Int64).alias("draw")))
        result = aliquot.estimate(numbered)
        assert result.population == 80
        assert result["A"].se == pytest.approx(plain["A"].se, abs=1e-12)


def test_equal_numbers_of_draws_are_told() -> None:
    """Documents of two segments with two draws each are not prompts."""
    data, _ = simulate_draws(3, prompts=20, binary=False)
    items = data.items.with_columns((pl.col("draw") + 1) // 2)
    notes = aliquot.estimate(replace(data, items=items)).notes
    assert any("40 items have the number of another draw of their prompt" in note for note in notes)


@pytest.mark.parametrize("unit", ["cell", "document"])
def test_adaptive_orders_reach_prompts_with_their_probability(unit: str) -> None:
    """A draw is reached with 1 - exp(-r z); of three draws one, with 1 - exp(-3 r z), of a whole prompt all at once."""
    data, _ = simulate_draws(1, prompts=40, draws=3, binary=False)
    values = {
        (item, name): float(v)
        for item, row in zip(data.ids, data.human_score(), strict=True)
        for name, v in zip(SYSTEMS, row, strict=True)
    }
    allocator = aliquot.Allocator(data, "means", policy="uniform", unit=unit, equal=True, seed=1)  # type: ignore[arg-type]
    for _ in range(4):
        allocator.add([(ask.item, ask.system, values[ask.item, ask.system]) for ask in allocator.next(12)])
    chosen = allocator.selection()
    assert chosen.probability is not None
    p = chosen.probability[0]
    cells = select_prompts(chosen, data).cell_probability(SYSTEMS)
    assert cells is not None
    assert cells.max() == pytest.approx(p if unit == "document" else 1 - (1 - p) ** 3)
