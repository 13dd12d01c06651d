"""Scale re-coding maps: the coreference paper's, ranges, labels, and maps that do not work."""

from __future__ import annotations

import polars as pl
import pytest

from aliquot.annotation.judgment_rows import parse_recoding
from aliquot.errors import DataError, OptionError

SCALE = pl.Series([float(value) for value in range(8)])


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("reduced:0=0,1|2=1,3|4=2,5|6=3,7=4", [0, 1, 1, 2, 2, 3, 3, 4]),
        ("gravity:0|1|2=significant,3|4|5|6=insignificant,7=none", [0, 0, 0, 1, 1, 1, 1, 2]),
        ("importance:0|3|4=key,1|2|5|6=peripheral,7=none", [0, 1, 1, 0, 0, 1, 1, 2]),
        ("0..2=low, 3..7 = high", [0, 0, 0, 1, 1, 1, 1, 1]),
    ],
)
def test_the_papers_scales(written: str, expected: list[int]) -> None:
    assert parse_recoding(written).apply(SCALE).to_list() == expected


def test_numbers_stay_numbers_and_labels_keep_their_order() -> None:
    assert parse_recoding("1|2=10,3=20").labels is None
    assert parse_recoding("1|2=10,3=20").apply(pl.Series([3.0, 1.0])).to_list() == [20, 10]
    assert parse_recoding("3=good,1|2=bad").labels == ("good", "bad")


def test_names_and_how_it_is_written() -> None:
    recoding = parse_recoding("gravity:0|1=x,2=y")
    assert (recoding.name, str(recoding)) == ("gravity", "0|1=x,2=y")
    assert parse_recoding("0=x,1=y", "scale 2").name == "scale 2"
    assert parse_recoding({"low": [1, 2], "high": [3.5]}) == parse_recoding("1|2=low,3.5=high")


def test_labels_are_mapped_by_name() -> None:
    answers = pl.Series(["L", "V", None, "A,B"])
    recoding = parse_recoding("L|(A,B)=bad,V=valid")
    assert recoding.apply(answers).to_list() == [0, 1, None, 0]


def test_the_first_range_that_fits_counts() -> None:
    assert parse_recoding("0..50=poor,50..100=good").apply(pl.Series([50.0, 50.5])).to_list() == [0, 1]


def test_answers_in_no_group() -> None:
    with pytest.raises(DataError, match=r"re-coding 'gravity': the values '3', '4\.5' are in no group of '0..2=low'"):
        parse_recoding("gravity:0..2=low").apply(pl.Series([1.0, 3.0, 4.5]))
    with pytest.raises(DataError, match="'maybe'"):
        parse_recoding("yes=1,no=0").apply(pl.Series(["yes", "maybe"]))


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("1|2", "'1|2' is not OLD|OLD=NEW"),
        ("1=", "is not OLD|OLD=NEW"),
        ("1||2=low", "is not OLD|OLD=NEW"),
        ("1=low,2=high,3=low", "the new value is named twice"),
        ("1|2=low,2|3=high", "the value '2' is in two groups"),
        ("(1=low", "parentheses do not match"),
    ],
)
def test_maps_that_do_not_work(written: str, message: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_recoding(written)
    assert message in str(caught.value)
