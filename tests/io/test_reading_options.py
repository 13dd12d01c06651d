"""Parsing of the rare arguments of `load`, `key=value,...`."""

from __future__ import annotations

from pathlib import Path

import pytest

import aliquot
from aliquot.errors import NameUnknownError, OptionError
from aliquot.io.formats.mqm import MQMWeights
from aliquot.io.formats.table_columns import SYNONYMS
from aliquot.io.reading_options import ARGUMENTS, parse_reading


def test_arguments_and_column_roles_are_told_apart() -> None:
    assert parse_reading("wide=metrics, item = segment ,value=points") == {
        "wide": "metrics",
        "columns": {"item": "segment", "value": "points"},
    }
    assert parse_reading("") == parse_reading([]) == {}
    assert not set(ARGUMENTS) & set(SYNONYMS)


def test_hyphens_and_underscores_are_alike() -> None:
    assert parse_reading("score-name=DA,pair=en-de") == parse_reading("score_name=DA,pair=en-de")
    assert parse_reading("score-name=DA") == {"score_name": "DA"}


def test_a_part_without_equals_continues_the_value_before() -> None:
    assert parse_reading("key=a, b,c.csv,item=id") == {"key": Path("a, b,c.csv"), "columns": {"item": "id"}}
    assert parse_reading("item=id,") == {"columns": {"item": "id"}}


def test_weights_are_joined_by_bars() -> None:
    assert parse_reading("mqm-weights=major=10|minor=2") == {"mqm_weights": MQMWeights(major=10, minor=2)}


def test_repeated_uses_are_merged_and_conflicts_refused() -> None:
    assert parse_reading(["wide=systems", "item=id", "item=id"]) == {"wide": "systems", "columns": {"item": "id"}}
    with pytest.raises(OptionError, match="wide is both 'systems' and 'metrics'"):
        parse_reading(["wide=systems", "wide=metrics"])
    with pytest.raises(OptionError, match="item is both 'id' and 'seg'"):
        parse_reading("item=id,item=seg")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sytem=id", "did you mean 'system'"),
        ("wyde=metrics", "did you mean 'wide'"),
        ("score=DA", "unknown key of `read` 'score'"),
        ("mqm-weights=major=5,minor=1", r"joined by \|"),
    ],
)
def test_an_unknown_key_gets_the_nearest_name(text: str, message: str) -> None:
    with pytest.raises(NameUnknownError, match=message):
        parse_reading(text)


@pytest.mark.parametrize("text", ["segment", "item=", "=segment", "metrics,item=id"])
def test_missing_keys_and_values_are_refused(text: str) -> None:
    with pytest.raises(OptionError, match="key=value"):
        parse_reading(text)


def test_what_it_returns_are_arguments_of_load(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    path.write_text("segment,who,BLEU\n1,A,30\n1,B,35\n")
    evalset = aliquot.load(path, **parse_reading("wide=metrics,item=segment,system=who"))
    assert evalset.scores["BLEU"].tolist() == [[30.0, 35.0]]
