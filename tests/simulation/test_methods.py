"""Methods as people write them, and what is said when they cannot be meant."""

from __future__ import annotations

import pytest

from aliquot.errors import AliquotError, DataError, NameUnknownError, OptionError
from aliquot.simulation.setup import parse_methods, resolve_method, validate_method


def test_commas_between_methods_and_inside_one():
    text = (
        "random, pps:size=error,tau=0.1+greg:metrics=metricA|metricB,ridge=2 ,metric_var,mixture:methods=(a:b=1,c=2)|d"
    )
    assert parse_methods(text)[:3] == [
        "random",
        "pps:size=error,tau=0.1+greg:metrics=metricA|metricB,ridge=2",
        "metric_var",
    ]
    assert parse_methods(text)[-1] == "mixture:methods=(a:b=1,c=2)|d"
    assert parse_methods(["auto", " random "]) == ["auto", "random"]


@pytest.mark.parametrize("nothing", ["", " ", ",", []])
def test_no_method(nothing):
    with pytest.raises(OptionError, match="`methods` is empty"):
        parse_methods(nothing)


@pytest.mark.parametrize("methods", ["auto,auto", ["auto", "auto "]])
def test_a_method_given_twice(methods):
    with pytest.raises(OptionError, match="'auto' is given twice"):
        parse_methods(methods)


@pytest.mark.parametrize(
    ("typed", "selector", "estimator"),
    [
        ("random", "segments", "mean"),
        ("random+greg", "segments", "greg"),
        ("metric_var:metric=metricA", "metric_var:metric=metricA", "mean"),
        ("pps:tau=0.5+cv:proxy=knn", "pps:tau=0.5", "cv:proxy=knn"),
        ("auto", "pps:size=error,tau=0.1", "greg"),
        ("auto:goal=ranking", "pps:size=error,tau=0.1", "multilevel"),
        ("auto:tau=0.4", "pps:size=error,tau=0.4", "greg"),
        ("auto+mean", "pps:size=error,tau=0.1", "mean"),
        ("documents+auto:goal=ranking", "documents", "multilevel"),
        ("combinator", "mixture", "mean"),
    ],
)
def test_what_is_typed_and_what_it_stands_for(past, typed, selector, estimator):
    plan = resolve_method(typed, past)
    assert (plan.typed, str(plan.selector), str(plan.estimator)) == (typed, selector, estimator)


def test_the_common_metric_serves_methods_that_name_none(past):
    assert resolve_method("metric_var", past, "metricB").selector.parameters["metric"] == "metricB"
    assert resolve_method("metric_var:metric=metricA", past, "metricB").selector.parameters["metric"] == "metricA"
    for other in ("auto", "documents", "diversity_bleu"):
        assert "metric" not in resolve_method(other, past, "metricB").selector.parameters


def test_kinds_of_method(past):
    kinds = {
        name: (plan.is_baseline, plan.is_fixed, plan.is_design, plan.is_slow)
        for name in ("random", "segments+greg", "metric_var", "greedy")
        for plan in [resolve_method(name, past)]
    }
    assert kinds == {
        "random": (True, False, True, False),
        "segments+greg": (False, False, True, False),
        "metric_var": (False, True, False, False),
        "greedy": (False, False, False, True),
    }


@pytest.mark.parametrize(
    ("typed", "error", "message"),
    [
        ("metric_vr", NameUnknownError, "unknown method 'metric_vr'; did you mean 'metric_var'"),
        ("random+gregg", NameUnknownError, "unknown estimator 'gregg'; did you mean 'greg'"),
        ("a+b+c", OptionError, r"method 'a\+b\+c': write a selector or design"),
        ("+greg", OptionError, r"method '\+greg': write a selector"),
        ("random+", OptionError, r"method 'random\+': write a selector"),
        ("greg", OptionError, r"'greg' is an estimator; .* random\+greg"),
        ("random+greg:rigde=2", NameUnknownError, "did you mean 'ridge'"),
        ("random+greg:ridge=big", OptionError, "ridge='big' should be a number"),
        ("auto:goal=fame", NameUnknownError, "unknown goal 'fame'"),
        ("pps:tau", OptionError, "is not key=value"),
        ("pps:(tau=1", OptionError, "parentheses do not match"),
    ],
)
def test_methods_that_nobody_can_mean(past, typed, error, message):
    with pytest.raises(error, match=message):
        resolve_method(typed, past)


@pytest.mark.parametrize(
    ("typed", "error", "message"),
    [
        ("metric_var", OptionError, "choose a metric with `metric`"),
        ("metric_var:metric=COMET", NameUnknownError, "unknown score 'COMET'"),
        ("pps:metrics=metricA|COMET", NameUnknownError, "unknown score 'COMET'"),
        ("pps:tua=1", NameUnknownError, "did you mean 'tau'"),
        ("random+greg:metrics=COMET", NameUnknownError, "unknown metric 'COMET'"),
        ("random+greg:metrics=human", OptionError, "not a proxy of it"),
        ("uncertainty", OptionError, "needs the parameter 'score'"),
        ("documents", DataError, "needs documents"),
    ],
)
def test_what_a_set_lacks_is_seen_before_any_work(campaign, typed, error, message):
    data = campaign(documents=False)
    with pytest.raises(error, match=message):
        validate_method(resolve_method(typed, data), data)


def test_what_is_there_is_not_refused(past):
    for typed in ("random", "auto", "metric_var:metric=human", "documents", "diversity", "mixture", "balanced+cv"):
        validate_method(resolve_method(typed, past), past)
    assert issubclass(NameUnknownError, AliquotError)
