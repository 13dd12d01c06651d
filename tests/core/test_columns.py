"""Columns out of JSON values and back: nothing may be lost, whatever JSON can hold."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aliquot.core.columns import JSON_DTYPE, decode_column, encode_column, frame_from_records, ordered_union

PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
JSON = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3), max_leaves=6
)


def exactly(value: Any) -> Any:
    """The value with its types, so that 1, 1.0 and True differ, and 0.0 and -0.0."""
    if isinstance(value, list):
        return [exactly(entry) for entry in value]
    if isinstance(value, dict):
        return {key: exactly(entry) for key, entry in value.items()}
    return type(value).__name__, repr(value)


@given(st.lists(JSON, max_size=8))
def test_values_come_back(values):
    assert decode_column(encode_column("x", values)) == values


@given(
    st.sampled_from([st.booleans(), st.integers(), st.floats(allow_nan=False), st.text()]).flatmap(
        lambda kind: st.lists(st.none() | kind, max_size=8)
    )
)
def test_values_of_one_kind_come_back_with_their_type(values):
    assert exactly(decode_column(encode_column("x", values))) == exactly(values)


@pytest.mark.parametrize(
    "values",
    [
        [2**53 + 1, 0.5],  # a float column would round the integer
        [2**63, 1],
        [-(2**70), None],
        [True, 1, "1"],
        [[], {}, None],
        [{"a": [1, {"b": None}]}, 5],
        ["null", None],
        [-0.0, 0.0],
    ],
)
def test_values_that_are_easily_lost(values):
    assert decode_column(encode_column("x", values)) == values


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([None, None], pl.Null()),
        (["a", None], pl.String()),
        ([True, None], pl.Boolean()),
        ([1, None], pl.Int64()),
        ([1, 2.5], pl.Float64()),
        ([1, "a"], JSON_DTYPE),
        ([["a"], None], JSON_DTYPE),
        ([True, 1], JSON_DTYPE),
    ],
)
def test_the_column_says_by_its_type_what_it_is(values, dtype):
    column = encode_column("x", values)
    assert column.name == "x"
    assert column.dtype == dtype


def test_frame_of_fills_absent_fields_and_keeps_the_order():
    frame = frame_from_records([{"b": 1}, {"a": "x", "b": 2}])
    assert frame.columns == ["b", "a"]
    assert frame.rows() == [(1, None), (2, "x")]


def test_ordered_union():
    assert ordered_union([["b", "a"], ["a", "c"], []]) == ["b", "a", "c"]
