"""Answers put together: repeats of one annotator, copies, seconds; and what data say of themselves, by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from aliquot import EvalSet, Judgments
from aliquot.core.columns import ScoreCells
from aliquot.core.conventions import (
    find_language_pair,
    is_error_rate,
    list_domains,
    list_language_pairs,
    source_lengths,
)
from aliquot.core.describe import describe
from aliquot.core.judgments import MergedRepeats, merge_repeats
from aliquot.errors import DataError

NAN = float("nan")


def merged(*rows: tuple[Any, ...], **columns: list[Any]) -> MergedRepeats:
    """Rows of annotator, value and seconds, all about one output."""
    frame = pl.DataFrame(rows, schema=["annotator", "value", "seconds"], orient="row", infer_schema_length=None)
    about = [pl.lit(0).alias("item"), pl.lit("A").alias("system")]
    more = [pl.Series(name, values) for name, values in columns.items()]
    return merge_repeats(Judgments(frame.with_columns(*about, *more)).table)


def test_an_annotator_who_answers_twice_counts_once():
    found = merged(("x", 1.0, 4.0), ("y", 5.0, 1.0), ("x", 3.0, None), ("x", 1.0, 4.0))
    assert found.table.select("annotator", "value", "seconds").rows() == [("x", 2.0, 4.0), ("y", 5.0, 1.0)]
    assert (found.copies, found.repeats, found.disagreeing) == (1, 1, 1)
    assert found.example == "item 0, A, x"
    same = merged(("x", 3.0, 4.0), ("x", 3.0, 5.0))
    assert (same.table["value"].to_list(), same.table["seconds"].to_list()) == ([3.0], [9.0])
    assert (same.copies, same.repeats, same.disagreeing) == (0, 1, 0)
    assert merged(("x", 3.0, None), ("x", 5.0, None)).table["seconds"].to_list() == [None]


def test_answers_without_an_annotator_are_copies_only_where_a_time_says_so():
    assert merged((None, 1.0, None), (None, 1.0, None)).table.height == 2
    timed = merged((None, 1.0, None), (None, 1.0, None), (None, 1.0, None), order=[1, 1, 2])
    assert (timed.table.height, timed.copies, timed.repeats) == (2, 1, 0)
    assert merged(("x", 1.0, None), ("y", 1.0, None)).example == ""


# -- conventions ---------------------------------------------------------------------------------------------------


def of(name: str = "set", **columns: list[Any]) -> EvalSet:
    length = len(next(iter(columns.values())))
    return EvalSet(pl.DataFrame({"id": range(length), **columns}), ("A",), name=name)


def test_lengths_are_words_or_characters_of_scripts_without_spaces():
    """Of three characters one Chinese one is a third, and not more."""
    texts = ["two words", "看书", "看ab", "看书ab cd", "", None]
    assert source_lengths(of(source=texts)).tolist() == pytest.approx([2, 2, 1, 2, 0, NAN], nan_ok=True)
    with pytest.raises(DataError, match="there are no sources"):
        source_lengths(of(domain=["x"]))


def test_pairs_domains_and_error_rates():
    assert list_language_pairs(of(langs=["en-de", None])) == ["en-de", None]
    assert list_language_pairs(of("wmt22-da-de-en", domain=["x", "y"])) == ["de-en"] * 2
    assert [find_language_pair(name) for name in ("wmt24-esa-en-cs-waves23", "EN_DE", "summeval", "abc-de")] == [
        "en-cs",
        "en-de",
        None,
        None,
    ]
    assert list_domains(of(domain=["x", None])) == ["x", None]
    assert list_domains(of(source=["x"])) == [None]
    assert [is_error_rate(name) for name in ("TER", "EED", "COMET", "TERp-A")] == [True, True, False, False]


def test_gathered_scores_are_read_only_with_gaps():
    cells = ScoreCells()
    cells.add(0, {"A": {"m": 1.0, "n": None}, "B": {"m": 2.0}})
    cells.add(2, {"B": {"n": 3.0}, "C": {}})
    arrays = cells.to_arrays(3, ["B", "A", "C"])
    np.testing.assert_array_equal(arrays["m"], [[2, 1, NAN], [NAN] * 3, [NAN] * 3])
    np.testing.assert_array_equal(arrays["n"], [[NAN] * 3, [NAN] * 3, [3, NAN, NAN]])
    with pytest.raises(ValueError, match="read-only"):
        arrays["m"][0, 0] = 5.0


# -- what data say of themselves -----------------------------------------------------------------------------------


def test_a_description_by_hand():
    items = pl.DataFrame(
        {
            "id": range(4),
            "document": ["d", "d", "d", "e"],
            "domain": ["x", "x", None, "y"],
            "source": ["s", None, "s", "s"],
        }
    )
    human = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, NAN], [NAN, NAN]])
    metric = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 9.0], [0.0, NAN]])
    rows = [(0, "A", "p", 1.0, 4.0), (0, "A", "q", 1.0, None), (0, "A", "q", 3.0, 6.0), (1, "B", "p", 4.0, None)]
    judgments = Judgments(pl.DataFrame(rows, schema=["item", "system", "annotator", "value", "seconds"], orient="row"))
    outputs = pl.DataFrame({"A": ["a"] * 4, "B": ["b", None, None, "b"]})
    found = describe(
        EvalSet(
            items, ("A", "B"), scores={"human": human, "m": metric}, human="human", outputs=outputs, judgments=judgments
        )
    )
    assert (found.items, found.documents, found.document_lengths) == (4, 2, (1, 2.0, 3))
    assert found.domains == {"x": 2, "(none)": 1, "y": 1}
    assert found.texts == {"source": 0.75, "outputs": 0.75}
    of_human, of_metric = found.scores
    assert (of_human.coverage, of_human.items, of_human.complete_items, of_human.systems) == (5 / 8, 3, 2, 2)
    assert (of_human.minimum, of_human.maximum, of_human.mean) == (1.0, 5.0, 3.0)
    assert (of_metric.coverage, of_metric.human, of_human.human) == (7 / 8, False, True)
    assert of_metric.item_pearson == pytest.approx(1.0)
    summary = found.judgments
    assert summary is not None
    assert (summary.count, summary.cells, summary.annotators) == (4, 2, 2)
    assert (summary.cells_with_several_annotators, summary.repeated_by_same_annotator) == (1, 1)
    assert (summary.timed, summary.median_seconds) == (0.5, 5.0)
    assert found.missing == ("1 items have no 'human'", "outputs are missing for B (2)")
    assert {step.verb: step.ready for step in found.steps} == {
        "select": True,
        "estimate": True,
        "simulate": False,
        "plan": False,
        "metrics": True,
        "agreement": True,
    }
    document = found.document()
    assert document["document_lengths"] == {"min": 1, "mean": 2.0, "max": 3}
    assert document["scores"]["m"]["max"] == 9.0
    assert document["items"] == 4


def test_a_description_of_data_without_people():
    found = describe(EvalSet(pl.DataFrame({"id": range(2)}), ("A",), scores={"m": np.array([[1.0], [NAN]])}))
    assert (found.documents, found.document_lengths, found.domains, found.judgments) == (0, None, {}, None)
    assert found.document()["judgments"] == {}
    assert {step.verb: step.ready for step in found.steps} == {
        "select": True,
        "estimate": False,
        "simulate": False,
        "plan": False,
        "metrics": False,
        "agreement": False,
    }
    assert np.isnan(found.scores[0].item_pearson)
