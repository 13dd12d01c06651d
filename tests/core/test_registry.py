"""The grammar of methods and their parameters, by hand and there and back."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aliquot.core.registry import (
    Parameter,
    RegistryEntry,
    Spec,
    SpecText,
    format_value,
    parse_chain,
    parse_spec,
    parse_value,
    split_specs,
    split_top_level,
)
from aliquot.errors import OptionError


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("random, pps:size=error,tau=0.1+greg,metric_var", ["random", "pps:size=error,tau=0.1+greg", "metric_var"]),
        ("a:x=1,y=2,b:z=3", ["a:x=1,y=2", "b:z=3"]),
        ("a,b+c:x=1", ["a", "b+c:x=1"]),
        ("a:x=(b,c),,d", ["a:x=(b,c)", "d"]),
        ("a:x=1,y=(p:q=1)+b", ["a:x=1,y=(p:q=1)+b"]),
        ("", []),
    ],
)
def test_methods_are_split_at_the_commas_between_them(text, parts):
    assert split_specs(text) == parts


def test_separators_in_parentheses_split_nothing():
    assert split_top_level("a,(b,(c,d)),e", ",") == ["a", "(b,(c,d))", "e"]
    assert split_top_level("", ",") == [""]
    for text in ("(a", "a)", ")a("):
        with pytest.raises(OptionError, match="parentheses do not match"):
            split_top_level(text, ",")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("COMET", "COMET"),
        (["a,b", "c"], "(a,b)|c"),
        ("chrF (2", "chrF%20%282"),
        ("a)(b", "a%29%28b"),
        (" a", "( a)"),
        ("50%", "50%25"),
        ("50%,", "50%25%2C"),
        (0.5, "0.5"),
        (("x", 2), "x|2"),
    ],
)
def test_values_are_written_by_hand(value, text):
    assert format_value(value) == text


@given(st.text(max_size=12))
def test_values_come_back_from_a_spec(value):
    if value.strip() and value == value.strip():
        spec = parse_spec(f"m:k={format_value(value)}")
        assert parse_value(spec.parameters["k"]) == value
        assert [parse_value(part) for part in split_top_level(format_value([value, "x"]), "|")] == [value, "x"]
    chain = parse_chain(f"a:k={format_value(value or 'x')}+b") if value.strip() else []
    assert [spec.name for spec in chain] == (["a", "b"] if chain else [])


def method(
    data: object,
    *,
    size: Literal["error", "length"] = "error",
    tau: float = 0.5,
    bins: int | None = None,
    exact: bool = False,
    metrics: tuple[str, ...] = (),
    weights: tuple[float, ...] | None = None,
    seed: int = 0,
) -> None:
    """Do something.

    And more.

    Args:
        data: what.
        tau: how much
            is drawn.
    """


class _Seeded(RegistryEntry):
    INJECTED = ("seed",)


def test_parameters_are_read_off_the_signature():
    registered = _Seeded("m", method)
    assert registered.summary == "Do something."
    assert list(registered.parameters) == ["size", "tau", "bins", "exact", "metrics", "weights"]
    assert registered.parameters["tau"].about == "how much is drawn."
    assert {name: one.kind for name, one in registered.parameters.items()} == {
        "size": "error|length",
        "tau": "number",
        "bins": "whole number",
        "exact": "yes or no",
        "metrics": "names joined by |",
        "weights": "names joined by |",
    }
    assert [one.is_list for one in registered.parameters.values()] == [False] * 4 + [True] * 2


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("size", "length", "length"),
        ("tau", "0.25", 0.25),
        ("bins", "4", 4),
        ("exact", "Yes", True),
        ("exact", "0", False),
        ("metrics", "A|(B,C)", ("A", "B,C")),
        ("weights", "1|2.5", (1.0, 2.5)),
    ],
)
def test_texts_are_parsed_by_their_type(name: str, text: str, value: Any):
    assert RegistryEntry("m", method).bind({name: SpecText(text)}) == {name: value}


@pytest.mark.parametrize(
    ("name", "value", "converted"),
    [
        ("metrics", ["A", "B"], ("A", "B")),
        ("metrics", "A|B", ("A|B",)),
        ("weights", [1, 2], (1.0, 2.0)),
        ("tau", 3, 3.0),
        ("tau", "0.5", 0.5),
        ("bins", 4, 4),
        ("bins", None, None),
        ("exact", True, True),
        ("exact", "no", False),
        ("size", "length", "length"),
    ],
)
def test_python_values_keep_their_meaning(name: str, value: Any, converted: Any):
    bound = RegistryEntry("m", method).bind({name: value})
    assert bound == {name: converted}
    assert type(bound[name]) is type(converted)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("tau", True, "tau='True' should be a number"),
        ("tau", [1], r"tau='\[1\]' should be a number"),
        ("bins", 2.5, "bins='2.5' should be a whole number"),
        ("size", 3, "size='3' is not known"),
        ("weights", ["a"], "weights='a' should be numbers"),
    ],
)
def test_python_values_that_do_not_fit_are_named(name: str, value: Any, message: str):
    with pytest.raises(OptionError, match=f"m: {message}"):
        RegistryEntry("m", method).bind({name: value})


def test_specs_of_values_and_of_text_print_alike():
    assert str(parse_spec("m:tau=0.5,metrics=A|(B,C)")) == str(Spec("m", {"tau": 0.5, "metrics": ["A", "B,C"]}))
    assert str(parse_spec("m:tau=0.5").with_parameters({"tau": 1, "bins": None})) == "m:tau=1"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("size", "width", "size='width' is not known; choose error or length"),
        ("tau", "much", "tau='much' should be a number"),
        ("bins", "1.5", "bins='1.5' should be a whole number"),
        ("exact", "maybe", "exact='maybe' should be a yes or no"),
        ("weights", "1|x", r"weights='1\|x' should be numbers"),
        ("weights", "1|inf", "weights holds .* give finite numbers"),
    ],
)
def test_values_that_do_not_fit_are_named(name: str, text: str, message: str):
    with pytest.raises(OptionError, match=f"m: {message}"):
        RegistryEntry("m", method).parameters[name].parse_text(text, "m")


def test_a_text_parameter_keeps_its_text():
    assert Parameter("n", str, "", "").parse_text("(a,b)", "m") == "a,b"
