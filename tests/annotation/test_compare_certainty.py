"""`compare` claims no more than its p-values: equal systems stay together, words follow p, intervals their scale."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aliquot.annotation.choices import Preferences
from aliquot.annotation.compare import compare
from aliquot.annotation.preference_result import Comparison
from aliquot.annotation.preferences import compare_preferences
from aliquot.annotation.survey import survey
from aliquot.cli.main import run
from aliquot.errors import AliquotError
from aliquot.stats.choices import Choices, choices_from_rows, choices_from_scores, sign_test
from aliquot.stats.multiple_testing import adjust_p_values

ALPHA = 0.05


def of_choices(choices: Choices, **options: Any) -> Comparison:
    names = tuple(f"s{at}" for at in range(choices.systems))
    return compare_preferences(Preferences(names, choices, "scores", choices.clusters, 0, "item"), **options)


def of_scores(scores: np.ndarray, **options: Any) -> Comparison:
    return of_choices(choices_from_scores(scores, np.arange(len(scores))), **options)


def test_three_of_twenty_are_no_proof():
    """Issue 26: A right on 20 items, B on 17, was "B is worse" above p = 0.250."""
    result = of_scores(np.column_stack([np.ones(20), np.arange(20) >= 3]))
    pair = result.pair("s0", "s1")
    assert pair.p == pair.p_adjusted == pytest.approx(0.25)
    assert [row.cluster for row in result.systems] == [1, 1]
    assert [(row.rank_low, row.rank_high) for row in result.systems] == [(1, 2), (1, 2)]
    assert result.verdict is not None
    assert result.verdict.startswith("The two systems cannot be told apart.")
    assert pair.low < 0.5 < pair.high
    sure = of_scores(np.column_stack([np.ones(20), np.arange(20) >= 9]))
    assert sure.verdict is not None
    assert sure.verdict.startswith("s0 is best: the next system, s1, is worse (p = 0.004).")


@pytest.mark.parametrize(("systems", "runs"), [(2, 200), (5, 100), (15, 30)])
@pytest.mark.parametrize("design", ["complete", "ragged", "pass/fail", "sparse"])
def test_equal_systems_are_not_told_apart(systems, runs, design):
    """More than one cluster in at most 5% of campaigns, plus three Monte Carlo errors."""
    rng, apart = np.random.default_rng(26), 0
    for _ in range(runs):
        result = of_choices(_equal(rng, systems, design))
        apart += max(row.cluster for row in result.systems) > 1
        assert result.verdict is not None
        assert ("worse" in result.verdict) == (max(row.cluster for row in result.systems) > 1)
    assert apart / runs <= ALPHA + 3 * np.sqrt(ALPHA * (1 - ALPHA) / runs)


def _equal(rng: np.random.Generator, systems: int, design: str) -> Choices:
    if design == "sparse":  # single choices between two systems, about four for each pair
        number = 4 * systems * (systems - 1) // 2
        first = rng.integers(0, systems, number)
        second = (first + rng.integers(1, systems, number)) % systems
        return choices_from_rows(first, second, 2 * rng.integers(0, 2, number) - 1, np.arange(number), systems)
    scores = rng.normal(size=(24, systems))
    if design == "pass/fail":
        scores = (scores < 1.3).astype(float)
        scores[0] = np.arange(systems) % 2  # somebody wins somewhere
    elif design == "ragged":
        scores[rng.random(scores.shape) < 0.4] = np.nan
        scores[0] = rng.normal(size=systems)
    return choices_from_scores(scores, np.arange(24))


def test_sparse_choices_are_used_together():
    """Four choices for each of 105 pairs decide no pair alone; all of them together tell systems apart."""
    rng, strength = np.random.default_rng(2), -0.25 * np.arange(15)
    first = rng.integers(0, 15, 420)
    second = (first + rng.integers(1, 15, 420)) % 15
    won = rng.random(420) < 1 / (1 + np.exp(strength[second] - strength[first]))
    result = of_choices(choices_from_rows(first, second, 2 * won.astype(int) - 1, np.arange(420), 15))
    assert len(result.tests) == 105
    assert max(row.cluster for row in result.systems) > 1
    direct = adjust_p_values(np.array([row.p_direct for row in result.pairs]), "bh")
    assert min(row.p_adjusted for row in result.pairs) < ALPHA < direct.min()


def test_few_choices_are_tested_exactly():
    """A pair that differs on few items has the exact sign test, also among other systems."""
    rng = np.random.default_rng(4)
    others = rng.normal(size=(30, 2))
    twins = np.column_stack([np.full(30, 3.0), np.where(np.arange(30) < 4, 2.0, 3.0)])
    result = of_scores(np.column_stack([twins, others]))
    pair = result.pair("s0", "s1")
    assert pair.p == pair.p_direct == pytest.approx(0.125)
    assert result["s0"].cluster == result["s1"].cluster < result["s2"].cluster
    assert result.pair("s0", "s2").p_adjusted < ALPHA


def _cycle(b_over_a: int, c_over_b: int, a_over_c: int) -> Comparison:
    counts = [b_over_a, c_over_b, a_over_c]
    first, second = np.repeat([1, 2, 0], counts), np.repeat([0, 1, 2], counts)
    return of_choices(choices_from_rows(first, second, np.ones(sum(counts), dtype=int), np.arange(sum(counts)), 3))


def test_choices_against_the_scores_prove_nothing():
    """The scores put the first before the second, which won all five choices between them."""
    result = _cycle(5, 4, 40)
    pair = result.pair("s0", "s1")
    assert (pair.a, pair.b, pair.wins, pair.losses) == ("s0", "s1", 0, 5)
    assert (pair.p, pair.p_direct) == pytest.approx((1.0, 0.0625))


def test_a_worse_system_is_not_said_to_be_level():
    """Over all pairs p = 0.031 is adjusted to 0.047, over the leader's two to 0.062; the sentence said both."""
    result = _cycle(6, 3, 30)
    assert result.pair("s0", "s1").p_adjusted == pytest.approx(0.03125 * 1.5)
    assert result.verdict is not None
    assert result.verdict.startswith(
        "s1 leads and s0 is worse (p = 0.031, adjusted 0.047), but s2 cannot be told apart from it."
    )


# -- adjustments and the published convention ------------------------------------------------------------------------


def _five(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(40, 5)) - 0.3 * np.arange(5)


def test_adjustments_of_pairs():
    scores = _five()
    by_name = {name: of_scores(scores, adjust=name, seed=1) for name in ("none", "bh", "holm", "maxt")}
    p = np.array([row.p for row in by_name["none"].pairs])
    for name in ("none", "bh", "holm"):
        values = [row.p_adjusted for row in by_name[name].pairs]
        np.testing.assert_allclose(values, adjust_p_values(p, name))
        assert [row.p for row in by_name[name].pairs] == pytest.approx(p)
    maxt = np.array([row.p_adjusted for row in by_name["maxt"].pairs])
    assert (maxt >= p).all()
    assert maxt.sum() <= adjust_p_values(p, "holm").sum() + 0.05  # it knows how the pairs depend on each other
    assert of_scores(scores).pairs == by_name["bh"].pairs
    assert "adjust" not in by_name["bh"].signature
    assert "|adjust:maxt|seed:1|" in by_name["maxt"].signature
    told = {name: sum(row.p_adjusted < ALPHA for row in result.pairs) for name, result in by_name.items()}
    assert told["none"] >= told["bh"] >= told["holm"]
    assert told["none"] > told["holm"]


def test_the_published_convention_is_named():
    scores = _five()
    published, usual = of_scores(scores, rule="published"), of_scores(scores, adjust="none")
    np.testing.assert_allclose([2 * row.p for row in published.pairs], [row.p for row in usual.pairs], rtol=1e-9)
    assert published.verdict is not None
    assert "published convention" in published.verdict
    assert any("published convention" in note for note in published.notes)
    assert "|rule:published|" in published.signature
    for options in ({"rule": "published", "adjust": "bh"}, {"rule": "neighbor"}, {"adjust": "sidak"}):
        with pytest.raises(AliquotError, match=r"published|`rule` is|`adjust` is"):
            of_scores(scores, **options)


def test_options_of_the_command_line(tmp_path, capsys):
    path = tmp_path / "choices.csv"
    rows = [f"{item},p,X,Y,{'a' if item % 4 else 'b'}\n{item},p,Y,Z,a" for item in range(24)]
    path.write_text("item,annotator,system_a,system_b,choice\n" + "\n".join(rows) + "\n")

    def document(*options: str) -> dict[str, Any]:
        assert run(["compare", str(path), "--json", *options]) == 0
        result: dict[str, Any] = json.loads(capsys.readouterr().out)
        return result

    assert document("--holm") == document("--adjust", "holm")
    assert document("--adjust", "none")["adjust"] == "none"
    assert document()["adjust"] == "bh"
    assert "published convention" in str(document("--rule", "published")["verdict"])
    assert run(["compare", str(path), "--rule", "published"]) == 0
    assert "one-sided, each pair alone" in " ".join(capsys.readouterr().out.split())
    assert run(["compare", str(path), "--adjust", "sidak"]) == 2
    assert "--adjust is 'sidak'" in capsys.readouterr().err


def test_systems_that_were_never_compared_are_tested_by_their_scores():
    rng = np.random.default_rng(3)
    first, second = np.repeat([0, 1], 60), np.repeat([1, 2], 60)
    result = of_choices(choices_from_rows(first, second, np.where(rng.random(120) < 0.8, 1, -1), np.arange(120), 3))
    assert {(row.a, row.b) for row in result.pairs} == {("s0", "s1"), ("s1", "s2")}
    assert {(test.a, test.b) for test in result.tests} == {("s0", "s1"), ("s1", "s2"), ("s0", "s2")}
    assert result.verdict is not None
    assert result.verdict.startswith("s0 is best")
    assert "tests" not in result.to_dict()


# -- words and numbers -----------------------------------------------------------------------------------------------


@given(
    st.lists(
        st.tuples(st.integers(0, 7), st.sampled_from(["AB", "BC", "AC"]), st.sampled_from(["a", "b", "tie"])),
        min_size=1,
        max_size=40,
    )
)
@settings(max_examples=60, deadline=None)
def test_numbers_and_words_of_any_choices(rows):
    """Ranks, clusters, verdict and pairs say the same; no interval leaves its scale or has width 0."""
    table = pl.DataFrame(
        [(item, *pair, choice) for item, pair, choice in rows],
        schema=["item", "system_a", "system_b", "choice"],
        orient="row",
    )
    result = compare(table, "pairwise")
    for row in result.systems:
        assert np.isnan(row.low) or 0 <= row.low <= row.win_rate <= row.high <= 1
        assert not row.high - row.low < 0.01
    for pair in result.pairs:
        assert np.isnan(pair.low) or 0 <= pair.low <= pair.win_rate <= pair.high <= 1
        assert np.isnan(pair.share_low) or 0 <= pair.share_low <= pair.share <= pair.share_high <= 1
        assert not pair.p > pair.p_adjusted
        if pair.p_adjusted < ALPHA:
            assert result[pair.a].rank_low < result[pair.b].rank_high
            assert result[pair.a].cluster <= result[pair.b].cluster
    assert result.verdict is not None
    here = [row for row in result.systems if row.component == 1]
    named = {row.system for row in here}
    sure = [test for test in result.tests if test.a in named and test.p_adjusted < ALPHA]
    assert (len({row.cluster for row in here}) > 1) == bool(sure)
    assert ("is worse" in result.verdict) == bool(sure)


def _verified(only_a: int, only_b: int, pair: str = "AB") -> list[tuple[object, ...]]:
    rows = [*["only a"] * only_a, *["only b"] * only_b, *["both"] * 10, *["none"] * 3]
    return [(f"{pair}{at}", pair[0], pair[1], choice) for at, choice in enumerate(rows)]


def _checked(*rows: tuple[object, ...]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=["item", "system_a", "system_b", "choice"], orient="row")


@pytest.mark.parametrize("only_a", range(3, 10))
def test_verification_says_what_its_p_says(only_a):
    result = compare(_checked(*_verified(only_a, 0)), "verify")
    pair = result.pairs[0]
    assert pair.p == pair.p_adjusted == pytest.approx(float(sign_test(only_a, 0)))
    assert -1 < pair.low <= pair.difference <= pair.high < 1
    assert result.verdict is not None
    assert ("right more often" in result.verdict) == (pair.p < ALPHA)
    assert ("cannot be told apart" in result.verdict) == (pair.p >= ALPHA)


def test_verification_of_several_pairs_is_adjusted():
    """One of three pairs has p = 0.031: adjusted, nothing is told apart."""
    table = _checked(*_verified(6, 0), *_verified(2, 2, "AC"), *_verified(3, 2, "BC"))
    result = compare(table, "verify")
    assert result.verdict is not None
    assert "cannot be told apart" in result.verdict
    assert "p = 0.031, adjusted 0.094" in result.verdict
    assert "0 of 3 pairs of systems are told apart" in result.verdict
    alone = compare(table, "verify", adjust="none")
    assert alone.verdict is not None
    assert "A is right more often than B" in alone.verdict
    assert "adjust:none" in alone.signature


def test_all_right_is_no_certainty():
    pair = compare(_checked(*((at, "A", "B", "both") for at in range(5))), "verify").pairs[0]
    assert (pair.a_low, pair.a_high) == pytest.approx((0.025 ** (1 / 5), 1.0))
    assert -1 < pair.low < 0 < pair.high < 1


@pytest.mark.parametrize("better", [5, 10])
def test_post_editing_says_what_its_p_says(better):
    """B needs one edit less on most segments and forty more on one: segments are tested, and segments are named."""
    rows = [*((at, "text text", "text texx", "text text") for at in range(better)), (99, "word", "word", "x" * 60)]
    result = compare(pl.DataFrame(rows, schema=["item", "final", "output_a", "output_b"], orient="row"), "postedit")
    row = result["all"]
    assert row.edits_a < row.edits_b
    assert row.p == row.p_adjusted == pytest.approx(float(sign_test(better, 1)))
    assert result.verdict is not None
    assert result.verdict.startswith("Outputs of B need fewer edits" if row.p < ALPHA else "A and B cannot be told")


def test_groups_of_post_editing_are_adjusted_apart_from_all_segments():
    rows = [(f"{job}{at}", job, "text text", "text text", "text texx") for job in "jk" for at in range(6)]
    schema = ["item", "job", "final", "output_a", "output_b"]
    result = compare(pl.DataFrame(rows, schema=schema, orient="row"), "postedit", by="job", adjust="holm")
    assert [row.p_adjusted for row in result.rows] == pytest.approx([0.0625, 0.0625, 2 / 2**12])
    assert result.verdict is not None
    assert result.verdict.startswith("Outputs of A need fewer edits than those of B (12 of 12 segments against 0")


@pytest.mark.parametrize("gap", [0.0, 0.8, 1.5, 3.0])
def test_groups_say_what_their_p_says(gap):
    rng = np.random.default_rng(7)
    rows = [
        (
            person,
            "new" if person % 2 else "old",
            measure,
            0.0,
            float(rng.normal() + gap * (person % 2) * (measure == "m0")),
        )
        for measure in ("m0", "m1", "m2")
        for person in range(16)
    ]
    table = pl.DataFrame(rows, schema=["participant", "group", "measure", "before", "after"], orient="row")
    for adjust in ("holm", "bh", "none"):
        result = survey(table, "groups", adjust=adjust)
        sure = [row.measure for row in result.rows if row.p_adjusted < ALPHA]
        assert result.verdict is not None
        assert ("changed differently" in result.verdict) == bool(sure)
        assert ("cannot be told apart" in result.verdict) == (not sure)
        assert all(name in result.verdict for name in sure)
