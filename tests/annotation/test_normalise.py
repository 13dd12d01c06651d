"""Normalising judgments: z-scores of the papers, guards, crossed effects by criterion."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import aliquot
from aliquot.annotation.prepare import Unit, normalise_by_z, normalise_crossed, normalise_judgments
from aliquot.errors import DataError, NameUnknownError, OptionError

# Formality transfer, HumEval 2022 paper 9, Table A.1: average z of nine systems, for style, content and fluency.
TABLE_A1 = [
    [0.494, 0.469, 0.407, 0.297, 0.293, 0.085, -0.588, -0.726, -0.731],
    [0.542, 0.491, 0.370, 0.337, 0.328, 0.009, -0.659, -0.669, -0.749],
    [0.540, 0.491, 0.463, 0.420, 0.385, 0.247, -0.717, -0.903, -0.926],
]


@pytest.mark.parametrize("aspect", TABLE_A1)
def test_the_published_z_sum_to_zero(aspect):
    """All nine systems of a survey are rated by the same people: the population z-scores of systems sum to 0."""
    assert sum(aspect) == pytest.approx(0, abs=0.005)


def test_so_do_ours():
    """Four surveys x 20 sources x 9 systems x 2 annotators x 3 aspects, as in that paper (P9.1, P9.2)."""
    rng = np.random.default_rng(9)
    rows = [
        (survey * 20 + source, f"S{system}", f"p{survey}{annotator}", f"survey{survey}", aspect)
        for survey in range(4)
        for source in range(20)
        for system in range(9)
        for annotator in range(2)
        for aspect in ("style", "content", "fluency")
    ]
    table = pl.DataFrame(rows, schema=["item", "system", "annotator", "block", "criterion"], orient="row")
    table = table.with_columns(pl.Series("value", rng.integers(0, 101, table.height).astype(float)))
    found = normalise_by_z(table)
    assert found.annotators.height == 24
    assert found.annotators["answers"].unique().to_list() == [180]
    systems = table.with_columns(pl.Series("z", found.z)).group_by("criterion", "system").agg(pl.col("z").mean())
    for total in systems.group_by("criterion").agg(pl.col("z").sum())["z"]:
        assert total == pytest.approx(0, abs=1e-12)


def test_blocks_are_apart():
    table = pl.DataFrame(
        {
            "annotator": ["a"] * 6,
            "block": ["1"] * 3 + ["2"] * 3,
            "criterion": ["c"] * 6,
            "value": [1.0, 2.0, 3.0, 10.0, 20.0, 30.0],
        }
    )
    z = normalise_by_z(table, minimum=3).z
    assert z[:3] == pytest.approx(z[3:])


def test_guards_leave_out_or_pool():
    table = pl.DataFrame(
        {
            "annotator": ["a"] * 4 + ["b"] * 4 + ["c", None],
            "criterion": ["k"] * 10,
            "value": [1.0, 2, 3, 4, 5, 5, 5, 5, 9, 2],
        }
    )
    dropped = normalise_by_z(table, minimum=3)
    assert np.isfinite(dropped.z).tolist() == [True] * 4 + [False] * 6
    assert dropped.annotators["status"].to_list() == ["ok", "constant", "few"]
    assert len(dropped.notes) == 3
    pooled = normalise_by_z(table, minimum=3, guard="pooled")
    everybody = table["value"].to_numpy()
    assert pooled.z[8] == pytest.approx((9 - everybody.mean()) / everybody.std())
    assert pooled.z[:4] == pytest.approx(dropped.z[:4])


def test_an_unknown_way():
    with pytest.raises(NameUnknownError, match="did you mean 'crossed'"):
        normalise_judgments(pl.DataFrame(), "cross")
    with pytest.raises(NameUnknownError, match="did you mean 'minimum'"):
        normalise_judgments(pl.DataFrame(), "z:minmum=3")
    with pytest.raises(OptionError, match="choose drop or pooled"):
        normalise_judgments(pl.DataFrame(), "z:guard=keep")


def test_ways_with_parameters():
    table = pl.DataFrame({"annotator": ["a"] * 3 + ["b"], "criterion": ["k"] * 4, "value": [1.0, 2.0, 3.0, 9.0]})
    assert np.isfinite(normalise_judgments(table, "z:minimum=3").z).tolist() == [True, True, True, False]
    assert np.isfinite(normalise_judgments(table, "z:minimum=3,guard=pooled").z).all()


def test_crossed_takes_severity_off_criterion_by_criterion():
    data = aliquot.synthetic(items=80, systems=3, protocol="da", annotators=5, judgments_per_output=3, seed=6)
    assert data.judgments is not None
    table = data.judgments.table
    both = pl.concat(
        [table, table.with_columns(pl.lit("other").alias("criterion"), (100 - pl.col("value")).alias("value"))]
    )
    found = normalise_crossed(both)
    once = normalise_crossed(table)
    assert found.z[: table.height] == pytest.approx(once.z, abs=1e-6)
    severity = {c: found.annotators.filter(pl.col("criterion") == c)["severity"].to_numpy() for c in ("da", "other")}
    assert severity["other"] == pytest.approx(-severity["da"], abs=1e-3)
    shift = once.z - table["value"].to_numpy()
    by_person = once.annotators.select("annotator", "severity")
    expected = table.join(by_person, on="annotator", maintain_order="left")["severity"].to_numpy()
    assert shift == pytest.approx(expected)


def test_crossed_finds_who_is_strict_although_documents_differ():
    """Simulated campaigns: severity is told better by crossed effects than by annotators' means."""
    better = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        people, items = 8, 120
        severity = rng.normal(0, 5, people)
        quality = np.repeat(rng.normal(0, 12, items // 10), 10) + rng.normal(0, 5, items)  # documents of ten items
        first = np.repeat(rng.integers(0, people, items // 10), 10)
        second = (first + rng.integers(1, people, items // 10).repeat(10)) % people
        item, person = np.tile(np.arange(items), 2), np.concatenate([first, second])
        value = 60 + quality[item] - severity[person] + rng.normal(0, 4, 2 * items)
        table = pl.DataFrame(
            {
                "item": item,
                "system": ["A"] * len(item),
                "annotator": [f"p{p}" for p in person],
                "criterion": ["c"] * len(item),
                "value": value,
            }
        )
        found = normalise_crossed(table).annotators
        names = found["annotator"].to_list()
        truth = severity[[int(name[1:]) for name in names]]
        means = table.group_by("annotator").agg(-pl.col("value").mean())
        plain = np.array([dict(means.iter_rows())[name] for name in names])
        better += np.corrcoef(found["severity"], truth)[0, 1] > np.corrcoef(plain, truth)[0, 1]
    assert better >= 9


def test_equal_answers_have_no_noise():
    rows = [(item, "A", who, "c", 3.0) for item in range(30) for who in "xyz"]
    equal = pl.DataFrame(rows, schema=["item", "system", "annotator", "criterion", "value"], orient="row")
    assert normalise_crossed(equal).notes[0].endswith("of the rest 0")


def test_what_crossed_cannot_tell():
    alone = pl.DataFrame(
        {
            "item": [0, 1, 2],
            "system": ["A"] * 3,
            "annotator": ["x"] * 3,
            "criterion": ["c"] * 3,
            "value": [1.0, 2.0, 4.0],
        }
    )
    found = normalise_crossed(alone)
    assert found.z.tolist() == [1.0, 2.0, 4.0]
    assert any("one annotator" in note for note in found.notes)
    apart = alone.with_columns(pl.Series("annotator", ["x", "y", "y"]))
    assert any("no output was judged by two" in note for note in normalise_crossed(apart).notes)
    with pytest.raises(DataError, match="there are none"):
        normalise_crossed(alone.with_columns(pl.lit(None, dtype=pl.String).alias("annotator")))
    with pytest.raises(DataError, match="too few"):
        normalise_crossed(alone.with_columns(pl.Series("system", ["A", "B", "C"])))
    two = alone.with_columns(pl.Series("system", ["A", "B", "B"]))  # one judgment more than systems is enough
    assert normalise_crossed(two).z.tolist() == [1.0, 2.0, 4.0]


def test_crossed_takes_outputs_for_units_from_half_of_the_judgments_on():
    """Two annotators on A's outputs, one on B's: of 3 judgments of an item 2 lie on an output judged twice."""
    rows = [
        (item, system, who, "c", float(10 * item + 3 * (who == "x") + (item * 7 + (who == "y")) % 4))
        for item in range(6)
        for system, who in (("A", "x"), ("A", "y"), ("B", "y"))
    ]
    names = ["item", "system", "annotator", "criterion", "value"]
    table = pl.DataFrame(rows, schema=names, orient="row")
    half = pl.concat(
        [table, pl.DataFrame([(item, "C", "x", "c", 9.0 * item) for item in range(6)], names, orient="row")]
    )
    less = pl.concat([half, pl.DataFrame([(7, "C", "x", "c", 50.0)], names, orient="row")])
    cases: list[tuple[pl.DataFrame, Unit, Unit]] = [
        (table, "output", "item"),
        (half, "output", "item"),
        (less, "item", "output"),
    ]
    for part, unit, other in cases:
        assert normalise_crossed(part).z == pytest.approx(normalise_crossed(part, unit=unit).z)
        assert normalise_crossed(part).z != pytest.approx(normalise_crossed(part, unit=other).z, abs=1e-6)
        assert f"of {unit}s " in normalise_crossed(part).notes[0]
        assert f"of {other}s " in normalise_crossed(part, unit=other).notes[0]
        assert len(normalise_crossed(part).notes) == 1
