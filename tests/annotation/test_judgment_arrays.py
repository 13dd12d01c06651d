"""From judgments to arrays: units, repeats, labels, what is left out, and what is refused."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from aliquot import EvalSet, Judgments, agreement, synthetic
from aliquot.annotation.judgment_arrays import judgment_arrays, parse_groups, recode_arrays, split_groups
from aliquot.annotation.judgment_rows import parse_recoding
from aliquot.errors import DataError, NameUnknownError, OptionError


def table(*rows: tuple[Any, ...], **columns: list[Any]) -> pl.DataFrame:
    """Rows of item, system, annotator, value."""
    frame = pl.DataFrame(rows, schema=["item", "system", "annotator", "value"], orient="row")
    return frame.with_columns(pl.Series(name, values) for name, values in columns.items())


TWO = table((0, "A", "x", 1), (0, "A", "y", 2), (0, "B", "x", 3), (1, "A", "y", 4))


def test_a_unit_is_an_output_under_a_criterion() -> None:
    found = judgment_arrays(TWO)
    assert found.unit.tolist() == [0, 0, 1, 2]
    assert found.item.tolist() == [0, 0, 0, 1]
    assert (found.annotators, found.annotator.tolist()) == (("x", "y"), [0, 1, 0, 1])
    assert found.value.tolist() == [1, 2, 3, 4]
    by_criterion = judgment_arrays(TWO.with_columns(criterion=pl.Series(["f", "g", "f", "f"])))
    assert by_criterion.unit.tolist() == [0, 1, 2, 3]
    assert by_criterion.criteria == ["f", "g"]


def test_any_holder_of_judgments_will_do() -> None:
    for data in (TWO, Judgments(TWO), EvalSet(pl.DataFrame({"id": [0, 1]}), ("A", "B"), judgments=Judgments(TWO))):
        assert judgment_arrays(data).value.tolist() == [1, 2, 3, 4]
    assert judgment_arrays(TWO.drop("system")).unit.tolist() == [0, 0, 1]  # items themselves; x twice on the first


def test_the_first_answer_counts_and_later_ones_are_repeats() -> None:
    twice = table((0, "A", "x", 1), (0, "A", "y", 2), (0, "A", "x", 5), (0, "A", "x", 1))
    found = judgment_arrays(twice)
    assert found.value.tolist() == [1, 2]
    assert [part.tolist() for part in found.repeats] == [[0, 0], [1, 1], [5, 1]]
    assert found.notes == ("2 repeats by the same annotator, 1 of them with another judgment: the first counts",)


@pytest.mark.parametrize(
    "columns",
    [{"time": [9, 8, 7]}, {"order": [3, 2, 1]}, {"repeat": [True, False, False]}, {"repeat": ["yes", "", None]}],
)
def test_what_came_first_is_told_by_repeat_time_or_order(columns: dict[str, list[Any]]) -> None:
    twice = table((0, "A", "x", 1), (0, "A", "y", 2), (0, "A", "x", 5), **columns)
    found = judgment_arrays(twice)
    assert sorted(found.value.tolist()) == [2, 5]
    assert found.repeats[2].tolist() == [1]


def test_errors_of_one_answer_are_no_repeats() -> None:
    errors = table((0, "A", "x", -1), (0, "A", "x", -5), (0, "A", "y", 0), error=[0, 1, 0])
    found = judgment_arrays(errors)
    assert found.value.tolist() == [-6, 0]
    assert not len(found.repeats[0])


def test_labels_become_places_in_alphabetical_order() -> None:
    found = judgment_arrays(table((0, "A", "x", "yes"), (0, "A", "y", " no "), (1, "A", "x", "")))
    assert (found.labels, found.value.tolist(), found.ordered) == (("no", "yes"), [1, 0], False)
    assert found.format_value(1.0) == "yes"
    assert found.notes == ("1 judgments without a value left out",)
    written = judgment_arrays(table((0, "A", "x", "1"), (0, "A", "y", "2.5")))
    assert (written.labels, written.value.tolist()) == (None, [1, 2.5])
    truth = judgment_arrays(table((0, "A", "x", True), (0, "A", "y", False)))
    assert truth.labels == ("false", "true")


def test_another_column_may_hold_the_answers() -> None:
    found = judgment_arrays(TWO.with_columns(label=pl.Series(["a", "b", "a", "b"])), answer="label")
    assert (found.labels, found.value.tolist()) == (("a", "b"), [0, 1, 0, 1])
    assert judgment_arrays(TWO.with_columns(points=pl.col("value") * 10), answer="points").value.tolist() == [
        10,
        20,
        30,
        40,
    ]


def test_what_does_not_count_is_left_out_with_a_note() -> None:
    rows = [
        (0, "A", "x", 1),
        (0, "A", "y", 2),
        (0, "A", "z", None),
        (0, "A", None, 3),
        (0, "A", "v", 4),
        (0, "A", "w", 5),
    ]
    marked = table(*rows, marked=[None, None, None, None, "burn_in", None], control=[None] * 5 + ["yes"])
    found = judgment_arrays(marked)
    assert found.annotators == ("x", "y")
    assert found.notes == (
        "1 marked judgments left out",
        "1 judgments without a value left out",
        "1 judgments on control items left out",
        "1 judgments without an annotator left out",
    )


def test_one_criterion_some_annotators_and_columns() -> None:
    data = synthetic(items=20, systems=2, annotators=4, judgments_per_output=2, seed=1)
    found = judgment_arrays(data, criterion="mqm", annotators=["a02", "a01"], columns=["domain", "order"])
    assert found.annotators == ("a02", "a01")
    assert found.table.columns == ["item", "system", "criterion", "domain", "order"]
    assert len(found.of_annotators(["a01"])) == (found.annotator == 1).sum()


def test_re_coding_maps_repeats_too() -> None:
    twice = table((0, "A", "x", 1), (0, "A", "y", 2), (0, "A", "x", 5))
    found = recode_arrays(judgment_arrays(twice), parse_recoding("1|2=low,5=high"))
    assert (found.value.tolist(), found.labels, found.ordered) == ([0, 0], ("low", "high"), True)
    assert found.repeats[2].tolist() == [1]
    labels = judgment_arrays(table((0, "A", "x", "yes"), (0, "A", "y", "no")))
    assert recode_arrays(labels, parse_recoding("yes=1,no=0")).value.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"criterion": "flow"}, NameUnknownError, "unknown criterion 'flow'"),
        ({"annotators": ["x", "q"]}, NameUnknownError, "unknown annotator 'q'. Available: 'x', 'y'"),
        ({"answer": "lable"}, NameUnknownError, "unknown judgment column 'lable'"),
        ({"answer": "system"}, OptionError, "it holds no judgments"),
        ({"columns": ["domian"]}, NameUnknownError, "unknown item or judgment column 'domian'"),
        ({"scale": (1, 3)}, DataError, "the judgment 4 of y on item 1, system A lies outside the scale 1 to 3"),
        ({"scale": (3, 1)}, OptionError, "the lower end must be below"),
    ],
)
def test_what_is_refused(options: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as caught:
        judgment_arrays(TWO, **options)
    assert message in str(caught.value)


def test_judgments_of_nobody_and_of_nothing() -> None:
    with pytest.raises(DataError, match="no judgment has an annotator and a value"):
        judgment_arrays(TWO.with_columns(annotator=pl.lit(None, dtype=pl.String)))
    with pytest.raises(DataError, match="holds no judgment at all"):
        judgment_arrays(TWO.with_columns(value=pl.lit(None)))
    with pytest.raises(DataError, match="there are no judgments"):
        judgment_arrays(synthetic(items=3, systems=2, annotators=0))
    with pytest.raises(OptionError, match="lists of errors"):
        judgment_arrays(TWO.with_columns(error=pl.lit(0), severity=pl.lit("minor")), answer="severity")
    with pytest.raises(OptionError, match="labels, which have no scale"):
        judgment_arrays(table((0, "A", "x", "yes"), (0, "A", "y", "no")), scale=(0, 1))


def test_differences_mean_something_unless_labels_are_three_or_have_no_order() -> None:
    two, three = (judgment_arrays(table(*(((k, "A", "x", k)) for k in range(n)))) for n in (2, 3))
    assert [part.has_distances(level) for part in (two, three) for level in ("interval", "nominal")] == [
        True,
        True,
        True,
        False,
    ]
    assert not judgment_arrays(table((0, "A", "x", "yes"), (0, "A", "y", "no"))).has_distances("interval")


def test_groups_of_annotators() -> None:
    found = judgment_arrays(TWO)
    parts = split_groups(found, "one=x,two=y")
    assert {name: part.value.tolist() for name, part in parts.items()} == {"one": [1, 3], "two": [2, 4]}
    by_system = split_groups(found, "system")
    assert {name: len(part) for name, part in by_system.items()} == {"A": 3, "B": 1}
    assert split_groups(found, None) == {}
    with pytest.raises(NameUnknownError, match="unknown annotator 'z'"):
        split_groups(found, {"one": ["z"]})
    with pytest.raises(OptionError, match="the annotator 'x' is in 'one', 'two'"):
        split_groups(found, {"one": ["x"], "two": ["x", "y"]})
    with pytest.raises(OptionError, match="write e"):
        parse_groups("one")


def test_no_errors_are_shown_as_0_and_not_as_minus_0() -> None:
    rows = [(item, who, -0.0 if item % 2 else -5.0) for item in range(4) for who in "xy"]
    table = pl.DataFrame(rows, schema=["item", "annotator", "value"], orient="row")
    assert agreement(table, bootstrap=0).table("x", "y")["answer"].to_list() == ["-5", "0", "all"]
