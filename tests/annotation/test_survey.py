"""Surveys: a pool cut down by a pilot, PANAS by hand, blocks in which strata are balanced."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import aliquot
from aliquot import EvalSet
from aliquot.annotation.questionnaires import PANAS, AffectScores, PoolReduction, reduce_pool, score_panas
from aliquot.annotation.survey import Blocks, survey, survey_blocks
from aliquot.cli.main import run
from aliquot.errors import DataError, NameUnknownError, OptionError

PILOT = {"good": [5, 4, 4, 5], "low": [3, 3, 3, 3], "wide": [5, 2, 5, 2], "both": [5, 1, 1, 4]}
TABLE = pl.DataFrame(
    [(pair, float(value)) for pair, values in PILOT.items() for value in values],
    schema=["question", "value"],
    orient="row",
)


@pytest.mark.parametrize(("rule", "kept"), [("and", ("good", "low", "wide")), ("or", ("good",))])
def test_the_pool_by_hand(rule, kept):
    """Means 4.5, 3, 3.5, 2.75; standard deviations 0.58, 0, 1.73, 2.06; limits 3.2 and 1.2."""
    found = survey(TABLE, "pool", rule=rule)
    assert found.kept == kept
    assert [row.sd for row in found.rows] == pytest.approx([0.57735, 0, 1.73205, 2.06155], abs=1e-5)
    assert [row.mean for row in found.rows] == [4.5, 3.0, 3.5, 2.75]
    assert found.rows[3].reason == "mean 2.75 below 3.2; sd 2.06 above 1.2"
    assert found.to_dict()["kept"] == list(kept)


@pytest.mark.parametrize(
    ("minimum", "spread", "kept"), [(3.0, 2.0, True), (3.01, 2.0, False), (3.0, 1.99, False), (2.99, 2.01, True)]
)
def test_a_question_at_the_limits_stays(minimum, spread, kept):
    """1, 3, 5 have the mean 3 and the standard deviation sqrt((4 + 0 + 4) / 2) = 2."""
    table = pl.DataFrame({"question": ["q"] * 3, "value": [1.0, 3.0, 5.0]})
    assert bool(reduce_pool(table, minimum=minimum, spread=spread, rule="or").kept) is kept


def test_what_a_pool_refuses():
    with pytest.raises(NameUnknownError, match="`rule` is 'xor'"):
        reduce_pool(TABLE, rule="xor")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="no column holds the question"):
        reduce_pool(TABLE.rename({"question": "pair_of_words"}))


def answers(**changed: float | None) -> pl.DataFrame:
    """Two people: all 1, and all 5, with some answers of the second changed."""
    words = [*PANAS["positive"], *PANAS["negative"]]
    return pl.DataFrame(
        {"participant": ["p", "q"], "time": ["before", "before"], **{w: [1.0, changed.get(w, 5.0)] for w in words}}
    )


def test_panas_by_hand():
    found = survey(answers(proud=2, afraid=3, active=4), "panas")
    assert [(row.participant, row.time, row.positive, row.negative) for row in found.rows] == [
        ("p", "before", 10, 10),
        ("q", "before", 46, 48),
    ]
    unnamed = score_panas(answers(proud=2).drop("participant", "time"))
    assert [(row.participant, row.time, row.positive) for row in unnamed.rows] == [("1", None, 10), ("2", None, 47)]
    assert sum(map(len, PANAS.values())) == len({word for words in PANAS.values() for word in words}) == 20


def test_panas_with_gaps_and_mistakes():
    found = score_panas(answers(proud=None))
    assert np.isnan(found.rows[1].positive)
    assert found.rows[1].negative == 50
    assert "1 of 2 rows lack an adjective" in found.notes[0]
    with pytest.raises(DataError, match="row 2, 'upset' is 6; PANAS is rated 1 to 5"):
        score_panas(answers(upset=6))
    with pytest.raises(DataError, match="there is no column 'afraid'"):
        score_panas(answers().drop("afraid"))


def test_in_a_terminal(tmp_path, capsys):
    TABLE.write_csv(tmp_path / "pilot.csv")
    answers().write_csv(tmp_path / "panas.csv")
    assert run(["compare", str(tmp_path / "pilot.csv"), "--kind", "pool", "--rule", "or"]) == 0
    assert "1 of 4 questions stay" in capsys.readouterr().out
    assert run(["compare", str(tmp_path / "panas.csv"), "--kind", "panas"]) == 0
    assert "positive" in capsys.readouterr().out


def sizes_of(found: Blocks, of: np.ndarray) -> np.ndarray:
    return np.array([[int(((found.block == b) & (of == s)).sum()) for b in range(len(found.order))] for s in set(of)])


@given(st.integers(4, 60), st.integers(1, 4), st.integers(0, 1000))
def test_blocks_and_strata_differ_by_at_most_one(items, blocks, seed):
    domain = np.random.default_rng(seed).choice(["news", "speech", "chat"], size=items)
    data = EvalSet(items=pl.DataFrame({"id": range(items), "domain": domain}), systems=("A",), scores={})
    found = survey_blocks(data, blocks, by="domain", seed=seed)
    assert sorted(item for ids in found.order for item in ids) == sorted(data.ids)
    assert np.ptp(np.bincount(found.block, minlength=blocks)) <= 1
    assert (np.ptp(sizes_of(found, data.items["domain"].to_numpy()), axis=1) <= 1).all()
    assert found.to_frame().equals(survey_blocks(data, blocks, by="domain", seed=seed).to_frame())


def test_every_item_may_come_anywhere_and_poles_are_exchanged_in_half():
    data = aliquot.synthetic(items=8, systems=2, seed=1)
    places = np.zeros((8, 4))
    for seed in range(400):
        found = survey_blocks(data, 4, by="domain", questions=6, seed=seed)
        places[np.arange(8), found.block] += 1
        assert all(sum(block) == 3 for block in found.polarity)
    assert (np.abs(places / 400 - 0.25) < 0.09).all()
    with pytest.raises(OptionError, match="choose between 1 and the number of items, 8"):
        survey_blocks(data, 9)


def directions(*sizes: int) -> EvalSet:
    """Items of several directions, in turn and not one after the other."""
    names = [name for row in range(max(sizes)) for name, size in zip("abc", sizes, strict=False) if row < size]
    return EvalSet(items=pl.DataFrame({"id": range(len(names)), "direction": names}), systems=("A",), scores={})


@pytest.mark.parametrize("seed", range(5))
def test_blocks_by_hand(seed):
    """P9.1: 40 sources in each of two directions make 4 surveys of 10 and 10.

    Five and four over three blocks: five are dealt 2 2 1; the four go on where that stopped, 1 1 2. All blocks have 3.
    """
    data = directions(40, 40)
    found = survey_blocks(data, 4, by="direction", seed=seed)
    assert [len(ids) for ids in found.order] == [20] * 4
    assert sizes_of(found, data.items["direction"].to_numpy()).tolist() == [[10] * 4] * 2
    data = directions(5, 4)
    found = survey_blocks(data, 3, by="direction", seed=seed)
    a, b = (
        sum((data.items["direction"][i] == name) * 10**block for i, block in enumerate(found.block)) for name in "ab"
    )
    assert sorted(zip(*(map(int, f"{n:03d}") for n in (a, b)), strict=True)) == [(1, 2), (2, 1), (2, 1)]


@pytest.mark.parametrize("seed", range(5))
def test_strata_are_the_combinations_of_columns_by_hand(seed):
    """Two columns of two values, 3 items each combination: one of each in every block, and not only of each column."""
    items = pl.DataFrame({"id": range(12), "x": list("aabb") * 3, "y": list("cdcd") * 3})
    found = survey_blocks(EvalSet(items=items, systems=("A",), scores={}), 3, by=["x", "y"], seed=seed)
    cells = [tuple(sorted(f"{items['x'][i]}{items['y'][i]}" for i in ids)) for ids in found.order]
    assert cells == [("ac", "ad", "bc", "bd")] * 3


@pytest.mark.parametrize(("questions", "exchanged"), [(1, 0), (2, 1), (5, 2), (6, 3)])
def test_half_of_the_poles_rounded_down_are_exchanged(questions, exchanged):
    found = survey_blocks(directions(4), 2, questions=questions)
    assert [len(block) for block in found.polarity] == [questions] * 2
    assert [sum(block) for block in found.polarity] == [exchanged] * 2


def test_places_count_from_one_and_blocks_from_zero():
    found = survey_blocks(directions(4), 4)
    assert found.to_frame().select("block", "place").rows() == [(0, 1), (1, 1), (2, 1), (3, 1)]
    assert [len(ids) for ids in survey_blocks(directions(4), 1).order] == [4]
    for blocks in (0, 5):
        with pytest.raises(OptionError, match="between 1 and the number of items, 4"):
            survey_blocks(directions(4), blocks)


def test_compare_still_takes_the_kinds_of_survey():
    pilot = pl.DataFrame({"question": ["clear", "clear"], "value": [5, 4]})
    with pytest.warns(aliquot.AliquotWarning, match=r"aliquot\.survey\(data, 'pool'\)"):
        assert aliquot.compare(pilot, "pool").to_dict() == survey(pilot, "pool").to_dict()
    trial = pl.DataFrame({"participant": range(4), "group": ["r", "c"] * 2, "before": [1.0] * 4, "after": [2.0] * 4})
    with pytest.warns(aliquot.AliquotWarning, match="groups"):
        assert aliquot.compare(trial).to_dict() == survey(trial).to_dict()


def test_kinds_of_survey_are_detected_by_columns():
    assert isinstance(survey(answers()), AffectScores)
    assert isinstance(survey(pl.DataFrame({"question": ["clear"], "value": [5]})), PoolReduction)
    with pytest.raises(OptionError, match="reads a table"):
        survey(aliquot.synthetic(items=5, systems=2), "groups")
    with pytest.raises(OptionError, match="`minimum` does not apply to kind 'panas'"):
        survey(answers(), "panas", minimum=3)
