"""The little language of joint scores: what it computes, and that nothing else gets through."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aliquot.annotation import formula
from aliquot.annotation.formula import parse_formula
from aliquot.errors import OptionError

A, B = np.array([1.0, 2.0, 3.0]), np.array([4.0, 0.0, np.nan])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a + b", [5.0, 2.0, np.nan]),
        ("a - b * 2", [-7.0, 2.0, np.nan]),
        ("(a - b) * 2", [-6.0, 4.0, np.nan]),
        ("a / b", [0.25, np.nan, np.nan]),
        ("-a", [-1.0, -2.0, -3.0]),
        ("+a", [1.0, 2.0, 3.0]),
        ("a >= 2", [0.0, 1.0, 1.0]),
        ("a < b", [1.0, 0.0, np.nan]),
        ("a != b", [1.0, 1.0, np.nan]),
        ("min(a, b, 2)", [1.0, 0.0, np.nan]),
        ("max(a, 2.5)", [2.5, 2.5, 3.0]),
        ("'a' * 3", [3.0, 6.0, 9.0]),
        ("a * 1e200 * 1e200", [np.nan] * 3),
    ],
)
def test_values(text, expected):
    assert parse_formula(text).evaluate({"a": A, "b": B}) == pytest.approx(expected, nan_ok=True)


def test_the_source_is_another_column():
    formula = parse_formula("sta * (fl >= source.fl) * (fl >= source['fl'])")
    assert formula.names == ("sta", "fl")
    assert formula.source_names == ("fl",)
    fl, sta = np.array([[1.0, 0.5], [0.5, 1.0]]), np.ones((2, 2))
    assert formula.evaluate({"sta": sta, "fl": fl}, {"fl": fl[:, [0]]}).tolist() == [[1.0, 0.0], [1.0, 1.0]]


def test_names_that_are_no_words():
    formula = parse_formula("'data coverage' * \"C-1\"")
    assert formula.names == ("data coverage", "C-1")


@settings(max_examples=100, deadline=None)
@given(
    st.recursive(
        st.sampled_from(["a", "b", "2", "0.5"]),
        lambda inner: st.tuples(inner, st.sampled_from("+-*/"), inner).map(lambda parts: f"({''.join(parts)})"),
        max_leaves=8,
    )
)
def test_arithmetic_is_pythons(text):
    try:
        expected = eval(text, {"__builtins__": {}}, {"a": 1.5, "b": -2.0})  # noqa: S307
    except ZeroDivisionError:
        expected = float("nan")
    if "a" not in text and "b" not in text:
        with pytest.raises(OptionError, match="names no criterion"):
            parse_formula(text)
        return
    found = parse_formula(text).evaluate({"a": np.array([1.5]), "b": np.array([-2.0])})
    assert found[0] == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "a.__class__",
        "a // b",
        "a % b",
        "[a]",
        "{a}",
        "lambda: a",
        "a if a else b",
        "a and b",
        "not a",
        "a < b < 3",
        "f'{a}'",
        "a[0]",
        "source[0]",
        "print(a)",
        "min(a)",
        "min(a, key=b)",
        "a := 2",
        "True * a",
        "None + a",
        "b'x' + a",
        "1j * a",
        "a; b",
        "import os",
        "",
        "a +",
        "((a)",
        "~a",
        "a @ b",
        "*a",
        "a is b",
        "a in b",
        "source.a.b",
        "(a, b)",
        "1" * 400 + " + a",
        "(" * 300 + "a" + ")" * 300,
        "a" + " + a" * 2000,
    ],
)
def test_nothing_else_gets_through(text):
    with pytest.raises(OptionError):
        parse_formula(text)


def test_messages_name_the_part():
    with pytest.raises(OptionError, match=r"'a % 2' is not allowed"):
        parse_formula("b + a % 2")
    with pytest.raises(OptionError, match="'log' is no function here"):
        parse_formula("log(a)")


def test_geometric_means_by_hand():
    """Style and content, with or without fluency (HumEval 2022, papers 8 and 9)."""
    values = {"sta": np.array([0.9, 0.0, 0.4]), "sim": np.array([0.4, 0.7, np.nan]), "fl": np.array([0.6, 1.0, 1.0])}
    np.testing.assert_allclose(parse_formula("sqrt(sta * sim)").evaluate(values), [0.6, 0.0, np.nan])
    three = parse_formula("(sta * sim * fl) ** (1/3)").evaluate(values)
    np.testing.assert_allclose(three, [0.6, 0.0, np.nan], atol=1e-12)


def test_roots_of_negatives_and_powers_of_missing_values_are_missing():
    values = {"a": np.array([-4.0, 4.0, np.nan])}
    for text, expected in {
        "sqrt(a)": [np.nan, 2.0, np.nan],
        "a ** 0.5": [np.nan, 2.0, np.nan],
        "a ** 2": [16.0, 16.0, np.nan],
        "a ** 0": [1.0, 1.0, np.nan],
        "a ** 9 ** 9 ** 9": [np.nan] * 3,
    }.items():
        np.testing.assert_allclose(parse_formula(text).evaluate(values), expected, err_msg=text)
    with pytest.raises(OptionError, match="sqrt takes one part"):
        parse_formula("sqrt(a, b)")


def test_the_longest_formula_is_read():
    longest = formula._MAX_FORMULA_LENGTH
    assert parse_formula("a" + " " * (longest - 1)) is not None
    with pytest.raises(OptionError):
        parse_formula("a" + " " * longest)
