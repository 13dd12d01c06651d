"""subset2evaluate.evaluate in our words: the same numbers, side by side where it is installed, and pinned where not."""

from __future__ import annotations

import copy
import json
import random
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau

from aliquot import meta
from aliquot.compat import __main__ as command_line
from aliquot.compat import evaluate as ours
from aliquot.compat.evaluate import random_orders
from aliquot.compat.significance import SoftAccuracy
from aliquot.errors import AliquotError, AliquotWarning, DataError, NameUnknownError, OptionError
from aliquot.stats.arrays import FloatArray

Items = list[dict[str, Any]]
KINDS = ("real", "whole", "decimal", "penalty")
METRICS = pytest.mark.parametrize("metric", ["human", ("m", "human")], ids=["one score", "two scores"])
EVERY_KIND = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
def peer() -> ModuleType:
    pytest.importorskip("subset2evaluate", reason="pip install --no-deps subset2evaluate==1.0.27")
    return import_module("subset2evaluate.evaluate")


@cache
def made(kind: str = "real", items: int = 60, systems: int = 5) -> Items:
    """Scores that never tie, that tie often, that tie but for rounding, and penalties that do both."""
    rng = np.random.default_rng(items + systems)
    base = rng.normal(size=(items, 1)) + rng.normal(size=(items, systems)) + np.linspace(0, 0.8, systems)
    human = {
        "real": base,
        "whole": np.rint(1.5 * base),
        "decimal": base.round(1),
        "penalty": -0.1 * np.abs(np.rint(2 * base)) - np.abs(np.rint(base)),
    }[kind]
    metric = base + rng.normal(size=base.shape)
    return [
        {"i": i, "scores": {f"s{a}": {"human": human[i, a].item(), "m": metric[i, a].item()} for a in range(systems)}}
        for i in range(items)
    ]


def shuffled(data: Items, seed: int = 1) -> Items:
    return [data[row] for row in np.random.default_rng(seed).permutation(len(data))]


def scored(*columns: list[float], name: str = "human") -> Items:
    """Items of one score, given system by system."""
    return [
        {"scores": {"ABCDEF"[a]: {name: value} for a, value in enumerate(row)}} for row in zip(*columns, strict=True)
    ]


def same(a: object, b: object) -> bool:
    return np.array_equal(np.asarray(a), np.asarray(b), equal_nan=True)


# -- side by side: one subset --------------------------------------------------------------------------------------


@METRICS
@EVERY_KIND
@pytest.mark.parametrize("size", [1, 2, 7, 60])
@pytest.mark.parametrize(
    "name",
    [
        "eval_subset_spa",
        "eval_subset_pairwise_accuracy",
        "eval_subset_top",
        "eval_subset_correlation",
        "eval_subset_error",
    ],
)
def test_measures_are_equal(peer, name, size, kind, metric):
    """Bit by bit, because parity compares values that may be equal."""
    old, new = made(kind), shuffled(made(kind))[:size]
    assert same(getattr(ours, name)(new, old, metric=metric), getattr(peer, name)(new, old, metric=metric))


@EVERY_KIND
@pytest.mark.parametrize(
    ("name", "option", "values"),
    [
        ("eval_subset_correlation", "correlation", ["kendall", "spearman", "pearson"]),
        ("eval_subset_error", "error", ["absolute", "squared", "root_squared"]),
    ],
)
def test_options_are_equal(peer, name, option, values, kind):
    old, new = made(kind), shuffled(made(kind))[:9]
    for value in values:
        theirs = getattr(peer, name)(new, old, **{option: value})
        assert getattr(ours, name)(new, old, **{option: value}) == pytest.approx(theirs, abs=1e-12, rel=0)


@pytest.mark.parametrize("correlation", ["kendall", "spearman", "pearson"])
def test_constant_means_are_equal(peer, correlation):
    old = scored([1, 2, 3], [3, 2, 1], [0, 0, 6])
    new = scored([1, 2, 3], [3, 2, 2], [0, 0, 6])
    assert same(
        ours.eval_subset_correlation(new, old, correlation=correlation),
        peer.eval_subset_correlation(new, old, correlation=correlation),
    )


@EVERY_KIND
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("permutations", [1, 250, 1000])
def test_p_values_are_equal(peer, kind, order, permutations):
    table = np.array([[s["human"] for s in item["scores"].values()] for item in made(kind)], order=order).T
    assert same(
        ours.compute_pairwise_p_values(table, permutations), peer.compute_pairwise_p_values(table, permutations)
    )


def test_distances_of_p_values_are_equal(peer):
    a, b = np.random.default_rng(0).random((2, 6, 6))
    assert ours.compute_one_minus_pce(a, b) == peer.compute_one_minus_pce(a, b)


def test_single_precision_and_whole_numbers_are_equal(peer):
    rng = np.random.default_rng(2)
    for draw in (rng.normal(size=(30, 4)).astype(np.float32), rng.integers(-5, 5, (30, 4))):
        data = [{"scores": {f"s{a}": {"human": value} for a, value in enumerate(row)}} for row in draw]
        assert ours.get_model_absolute(data) == peer.get_model_absolute(data)
        assert ours.eval_subset_spa(data[:9], data) == peer.eval_subset_spa(data[:9], data)


# -- side by side: clusters ----------------------------------------------------------------------------------------


@EVERY_KIND
@pytest.mark.parametrize("size", [1, 2, 3, 8, 14, 50, 51, 60])
def test_clusters_are_equal(peer, size, kind):
    data = shuffled(made(kind, systems=6))[:size]
    assert ours.compute_clusters(data) == peer.compute_clusters(data)
    assert ours.eval_subset_clusters(data) == peer.eval_subset_clusters(data)
    assert ours.compute_clusters_pvalues(data) == pytest.approx(peer.compute_clusters_pvalues(data), abs=1e-12, rel=0)
    if size < 3:
        assert ours.compute_clusters_soft(data) == peer.compute_clusters_soft(data)
    else:
        assert ours.compute_clusters_soft(data) == ours.compute_clusters_pvalues(data)


@pytest.mark.parametrize("size", [10, 60])
def test_the_same_system_twice_is_two_clusters_there(peer, size):
    data = [{"scores": item["scores"] | {"twin": item["scores"]["s2"]}} for item in made()[:size]]
    assert ours.compute_clusters(data) == peer.compute_clusters(data)
    theirs = peer.compute_clusters_pvalues(data)
    assert 1 in theirs
    assert ours.compute_clusters_pvalues(data) == pytest.approx(theirs, abs=1e-12, rel=0)
    twins = [[{"human": 1.0}] * 2 for _ in range(size)]
    alike = [{"scores": dict(zip("AB", pair, strict=True))} for pair in twins]
    assert ours.compute_clusters(alike) == peer.compute_clusters(alike) == [["A"], ["B"]]


@METRICS
def test_top_clusters_are_equal(peer, metric):
    old, new = made(), shuffled(made())[:30]
    assert ours.eval_subset_clusters_top(new, old, metric=metric) == peer.eval_subset_clusters_top(
        new, old, metric=metric
    )
    known = [["s1", "s3"], ["s2"]]
    assert ours.eval_subset_clusters_top(new, old, known) == peer.eval_subset_clusters_top(new, old, known)


# -- side by side: helpers -----------------------------------------------------------------------------------------


@EVERY_KIND
def test_means_and_ranks_are_equal(peer, kind):
    data = made(kind, systems=8)[:5]
    assert ours.get_model_absolute(data) == peer.get_model_absolute(data)
    assert list(ours.get_model_ordering(data).items()) == list(peer.get_model_ordering(data).items())
    new, old = ours.get_model_absolute(data[:3]), ours.get_model_absolute(data)
    assert ours.eval_order_accuracy(new, old) == peer.eval_order_accuracy(new, old)


def test_correlations_of_metrics_are_equal(peer, capsys):
    data = [
        {"scores": {a: {**of, "n": -of["m"], "square": of["m"] ** 2} for a, of in item["scores"].items()}}
        for item in made()
    ]
    theirs = peer.eval_metrics_correlations(data, display=True)
    shown = capsys.readouterr().out
    found = ours.eval_metrics_correlations(data, display=True)
    assert capsys.readouterr().out == shown
    assert list(found) == list(theirs)
    assert found == pytest.approx(theirs, abs=1e-12, rel=0)


# -- side by side: curves and parity -------------------------------------------------------------------------------


@METRICS
@EVERY_KIND
def test_curves_are_equal(peer, kind, metric):
    old, new = made(kind), shuffled(made(kind))
    assert same(ours.eval_spa(new, old, metric=metric), peer.eval_spa(new, old, metric=metric))
    large = ours.PROPS[5:]  # below 14 items scipy takes seconds for each pair with ties
    assert same(ours.eval_clucor(new, old, metric, large), peer.eval_clucor(new, old, metric=metric, props=large))


def test_budgets_are_theirs():
    utils = pytest.importorskip("subset2evaluate.utils", reason="pip install --no-deps subset2evaluate==1.0.27")
    assert list(ours.PROPS) == utils.PROPS.tolist()


@METRICS
@EVERY_KIND
@pytest.mark.filterwarnings("ignore::aliquot.errors.AliquotWarning")
def test_parity_of_spa_is_equal(peer, kind, metric):
    old, new = made(kind), shuffled(made(kind))
    targets, props = [0.7, 0.8, 0.9, 0.93], [0.1, 0.2, 0.3, 0.4]
    assert ours.eval_spa_par(new, old, targets, metric, props) == peer.eval_spa_par(new, old, targets, metric, props)


@EVERY_KIND
def test_a_target_that_is_just_met_is_met(peer, kind):
    """Targets out of the curve itself: one lost bit would send the search on."""
    old, new = made(kind), shuffled(made(kind))
    props = [0.2, 0.35, 0.5]
    for targets in (ours.eval_spa(new, old, props=props), np.mean([ours.eval_spa(new, old, props=props)] * 3, axis=0)):
        assert ours.eval_spa_par(new, old, targets, props=props) == peer.eval_spa_par(new, old, targets, props=props)


def test_parity_of_clusters_and_correlation_is_equal(peer):
    old, new = made(systems=4), shuffled(made(systems=4))
    targets, props = ([1.2, 2, 1.9], [0.5, 0.9, 1.0]), [0.1, 0.3, 0.5]
    mine = ours.eval_clucor_par(new, old, *targets, props=props)
    assert same(mine, peer.eval_clucor_par(new, old, *targets, props=props))
    curve = ours.eval_clucor(new, old, props=props)
    assert same(
        ours.eval_clucor_par(new, old, *curve, props=props), peer.eval_clucor_par(new, old, *curve, props=props)
    )


def test_what_is_never_reached_counts_as_everything_and_warns(peer):
    old, new = made(), shuffled(made())[:20]
    targets = [0.7, 1.1, float("nan")]
    with pytest.warns(AliquotWarning, match="2 of 3 targets were never reached and count as all 20 new items"):
        mine = ours.eval_spa_par(new, old, targets, props=[0.1, 0.2, 0.5])
    assert mine == peer.eval_spa_par(new, old, targets, props=[0.1, 0.2, 0.5])


def test_fewer_targets_than_budgets_are_equal(peer):
    old, new = made(), shuffled(made())
    for targets in ([0.8], [0.8] * 12):
        assert ours.eval_spa_par(new, old, targets) == peer.eval_spa_par(new, old, targets)


@METRICS
def test_random_parity_is_equal(peer, metric):
    old = made(items=40, systems=4)
    new, props = shuffled(old), [0.2, 0.5]
    mine = ours.precompute_spa_randnorm(old, 2, metric, props=props)
    theirs = peer.precompute_spa_randnorm(copy.deepcopy(old), 2, metric, props=props)
    assert same(mine[0], theirs[0])
    assert mine[1] == theirs[1]
    given = {"random_seeds": 2, "metric": metric, "props": props}
    expected = peer.eval_spa_par_randnorm(copy.deepcopy(new), copy.deepcopy(old), **given)
    assert ours.eval_spa_par_randnorm(new, old, **given) == expected
    assert ours.eval_spa_par_randnorm(new, old, metric=metric, spa_precomputed=mine, props=props) == expected


@pytest.mark.filterwarnings("ignore::aliquot.errors.AliquotWarning")
def test_random_parity_of_clusters_is_equal(peer):
    old = made(items=40, systems=4)
    new, props = shuffled(old), [0.3, 0.5]
    mine = ours.precompute_clucor_randnorm(old, 2, props=props)
    theirs = peer.precompute_clucor_randnorm(copy.deepcopy(old), 2, props=props)
    assert same(mine[0], theirs[0])
    assert same(mine[1], theirs[1])
    expected = peer.eval_clucor_par_randnorm(copy.deepcopy(new), copy.deepcopy(old), random_seeds=2, props=props)
    assert same(ours.eval_clucor_par_randnorm(new, old, 2, props=props), expected)
    assert same(ours.eval_clucor_par_randnorm(new, old, clucor_precomputed=mine, props=props), expected)


# -- the command line ----------------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path):
    old = made(items=140, systems=4)
    for name, data in (("old", old), ("new", shuffled(old))):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(item) + "\n" for item in data))
    return str(tmp_path / "old.jsonl"), str(tmp_path / "new.jsonl")


@pytest.mark.parametrize("more", [[], ["--metric", "m"]])
def test_the_command_prints_the_same(peer, files, more, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["subset2evaluate-eval", *files, *more])
    peer.main_cli()
    theirs = capsys.readouterr().out
    assert command_line.main([*files, *more]) == 0
    assert capsys.readouterr().out == theirs


def test_the_command_can_be_put_right(files, capsys):
    old, new = files
    assert command_line.main([old, new, "--as-meant"]) == 0
    counts, correlations = ours.eval_clucor(new, old)
    assert capsys.readouterr().out == f"Correlation: {np.mean(correlations):.1%}\nClusters: {np.mean(counts):.2f}\n"
    assert ours.eval_command_line(old, new) != ours.eval_command_line(old, new, swapped=False)


def test_the_command_complains_on_one_line(files, capsys):
    assert command_line.main([*files, "--metric", "hunam"]) == 2
    assert capsys.readouterr().err == "error: unknown score 'hunam'; did you mean 'human'? Available: 'human', 'm'\n"


# -- alone ---------------------------------------------------------------------------------------------------------


def test_numbers_of_subset2evaluate_are_pinned():
    """Taken from subset2evaluate 1.0.27; whole numbers, so that no rounding of a machine's own comes in."""
    old = made("whole")
    new = shuffled(old)
    assert ours.eval_spa(new, old) == pytest.approx(
        [0.8482, 0.9022, 0.8813, 0.8616, 0.8659, 0.9006, 0.9071, 0.9317, 0.9352, 0.935], abs=1e-12
    )
    assert ours.eval_spa_par(new, old, [0.8, 0.9], props=[0.2, 0.4]) == pytest.approx(0.3125)
    assert ours.precompute_spa_randnorm(old, 2)[1] == pytest.approx(1.8803769841269844)


def test_p_values_by_hand():
    """Permutation by permutation, as the definition has it."""
    scores = np.array([[3.0, 1.0, 2.0, 5.0], [2.0, 2.0, 2.0, 1.0]])
    signs = 2 * np.rint(np.random.default_rng(0).random((50, 4), dtype=np.float32)) - 1
    flips = signs @ (scores[0] - scores[1])
    table = ours.compute_pairwise_p_values(scores, 50)
    assert table[0, 1] == np.mean(flips >= 4.0)
    assert np.isnan(table[[0, 1, 1], [0, 0, 1]]).all()


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 6), st.integers(5, 30), st.integers(0, 10**6), st.booleans())
def test_parity_is_the_first_prefix_that_reaches_the_target(systems, items, seed, ties):
    rng = np.random.default_rng(seed)
    draw = rng.normal(size=(items, systems))
    data = scored(*(np.rint(draw) if ties else draw).T.tolist())
    target = float(rng.uniform(0.6, 0.95))
    reached = [k for k in range(5, items + 1) if ours.eval_subset_spa(data[:k], data) >= target]
    # All items are their own prefix, so that every target below 1 is reached.
    assert ours.eval_spa_par(data, data, [target], props=[0.5]) == pytest.approx(reached[0] / (0.5 * items))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(*[st.integers(-2, 2)] * 4), min_size=1, max_size=6), st.integers(1, 6))
def test_kendall_is_scipys(rows, size):
    data = scored(*np.array(rows, dtype=float).T.tolist())
    new = data[:size]
    means = [list(ours.get_model_absolute(part).values()) for part in (data, new)]
    assert same(ours.eval_subset_correlation(new, data), kendalltau(*means).statistic)


def test_random_orders_are_pythons():
    draw = random.Random(7)
    utility = [draw.random() for _ in range(9)]
    (order,) = random_orders(9, 7, 8)
    assert [utility[row] for row in order] == sorted(utility, reverse=True)


def test_top_by_hand():
    old = scored([3, 3], [2, 2], [1, 1], [0, 0], [-1, -1])
    new = scored([0, 0], [5, 5], [1, 1], [0, 0], [0, 0])
    assert ours.eval_subset_top(new, old) == 0.75
    # A, D and E tie at 0 and keep their order, so that A is third.
    assert ours.eval_subset_top(old, new) == 0.5


CALLS: list[tuple[str, tuple[Any, ...]]] = [
    ("eval_spa", ()),
    ("eval_clucor", ()),
    ("eval_spa_par", ([0.8, 0.9],)),
    ("eval_clucor_par", ([1, 1], [0.1, 0.5])),
    ("eval_spa_par_randnorm", (1,)),
    ("eval_clucor_par_randnorm", (1,)),
    ("eval_subset_spa", ()),
    ("eval_subset_pairwise_accuracy", ()),
    ("eval_subset_top", ()),
    ("eval_subset_correlation", ()),
    ("eval_subset_error", ()),
    ("eval_subset_clusters_top", ()),
    ("eval_command_line", ()),
]


@pytest.mark.filterwarnings("ignore::aliquot.errors.AliquotWarning")
@pytest.mark.parametrize(("name", "more"), CALLS)
def test_nothing_that_goes_in_is_changed(name, more):
    old = copy.deepcopy(made("whole", items=40))
    new = shuffled(old)
    before = copy.deepcopy((new, old, more))
    getattr(ours, name)(new, old, *more)
    assert (new, old, more) == before


@pytest.mark.parametrize("name", ["precompute_spa_randnorm", "precompute_clucor_randnorm"])
def test_random_selection_changes_nothing_either(name):
    old = copy.deepcopy(made(items=40))
    getattr(ours, name)(old, 1)
    assert old == made(items=40)


def test_a_path_is_loaded_first(files):
    data = made(items=140, systems=4)
    assert ours.eval_spa(files[1], files[0]) == ours.eval_spa(shuffled(data), data)
    assert ours.eval_subset_clusters(files[0]) == ours.eval_subset_clusters(data)
    assert ours.precompute_spa_randnorm(files[0], 1)[1] == ours.precompute_spa_randnorm(data, 1)[1]


# -- bad input -----------------------------------------------------------------------------------------------------


def broken(change: Any, row: int = 3) -> Items:
    data = copy.deepcopy(made(items=20, systems=3))
    change(data[row]["scores"])
    return data


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda scores: scores.pop("s1"), "data_old: item number 3 lacks the system 's1'"),
        (lambda scores: scores["s1"].pop("human"), "item number 3, system 's1' has no score for 'human'"),
        (lambda scores: scores["s1"].update(human=None), "item number 3, system 's1' has the score None"),
        (lambda scores: scores["s1"].update(human=float("nan")), "has the score nan for 'human'"),
        (lambda scores: scores["s1"].update(human=float("-inf")), "has the score -inf for 'human'"),
        (lambda scores: scores["s1"].update(human="0.5"), "has the score '0.5' for 'human'"),
        (lambda scores: scores["s1"].update(human=[0.5]), r"has the score \[0.5\] for 'human'"),
        (lambda scores: scores.update(s1=0.5), "item number 3, system 's1' has no score for 'human'"),
        (lambda scores: scores.clear(), "item number 3 lacks the system 's0'"),
    ],
)
@pytest.mark.parametrize("name", ["eval_spa", "eval_subset_top", "eval_subset_correlation", "eval_clucor"])
def test_a_missing_score_is_named(name, change, message):
    if name == "eval_subset_top":
        message = message.replace("data_old: ", "")
    with pytest.raises(DataError, match=message):
        getattr(ours, name)(made(items=20, systems=3), broken(change))


def test_unknown_names_are_suggested():
    data = made(items=20, systems=3)
    with pytest.raises(NameUnknownError, match="unknown score 'humann'; did you mean 'human'"):
        ours.eval_spa(data, data, metric="humann")
    with pytest.raises(NameUnknownError, match="unknown score 'M'; did you mean 'm'"):
        ours.eval_spa(data, data, metric=("human", "M"))
    with pytest.raises(NameUnknownError, match=r"unknown system 'B'.*scores_new lacks it"):
        ours.eval_order_accuracy({"A": 1}, {"A": 1, "B": 2})
    with pytest.raises(NameUnknownError, match=r"unknown system 'B'.*the best on data_new"):
        ours.eval_subset_top(scored([1], [2]), [{"scores": {"A": {"human": 1}, "C": {"human": 2}}}])


call_spa, call_correlation, call_error = (
    cast("Callable[..., float]", call) for call in (ours.eval_spa, ours.eval_subset_correlation, ours.eval_subset_error)
)
BAD: list[tuple[str, type[AliquotError], str, Any]] = [
    ("no old items", DataError, "data_old is empty", lambda data: ours.eval_spa(data, [])),
    ("no new items", DataError, "data_new is empty", lambda data: ours.eval_subset_spa([], data)),
    ("no scores", DataError, "item number 0 has no scores", lambda data: ours.eval_spa(data, [{"i": 1}])),
    ("one system", DataError, "one system, 'A'", lambda _: ours.eval_spa(scored([1]), scored([1]))),
    ("one system", DataError, "one system, 'A'", lambda _: ours.eval_subset_top(scored([1]), scored([1]))),
    ("one system", DataError, "at least two", lambda _: ours.eval_order_accuracy({"A": 1}, {"A": 1})),
    ("small budget", OptionError, "0.01 of 20 items is below", lambda data: ours.eval_spa(data, data, props=[0.01])),
    ("four items", DataError, "has 4 items; parity", lambda data: ours.eval_spa_par(data[:4], data, [0.5])),
    ("four items", DataError, "has 4 items", lambda data: ours.eval_clucor_par(data[:4], data, [1], [0.5])),
    ("no targets", OptionError, "no targets", lambda data: ours.eval_spa_par(data, data, [])),
    ("no seeds", OptionError, "random_seeds is 0", lambda data: ours.precompute_spa_randnorm(data, 0)),
    ("three scores", OptionError, "a tuple of two", lambda data: call_spa(data, data, metric=("a", "b", "c"))),
    ("no score", OptionError, "metric is None", lambda data: call_spa(data, data, metric=None)),
    (
        "correlation",
        OptionError,
        "'tau'; give one of 'kendall'",
        lambda data: call_correlation(data, data, correlation="tau"),
    ),
    ("error", OptionError, "'mae'; give one of 'absolute'", lambda data: call_error(data, data, error="mae")),
    ("no table", DataError, r"the shape \(3,\)", lambda _: ours.compute_pairwise_p_values(np.ones(3))),
    ("missing", DataError, "missing or infinite", lambda _: ours.compute_pairwise_p_values(np.full((2, 2), np.nan))),
    (
        "permutations",
        OptionError,
        "num_permutations is 0",
        lambda _: ours.compute_pairwise_p_values(np.ones((2, 2)), 0),
    ),
    ("shapes", DataError, "the shapes", lambda _: ours.compute_one_minus_pce(np.ones((2, 2)), np.ones((3, 3)))),
]


@pytest.mark.parametrize(("kind", "message", "call"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_what_cannot_be_done_is_said(kind, message, call):
    with pytest.raises(kind, match=message):
        call(made(items=20, systems=3))


def test_what_sets_this_parity_apart_from_ours():
    """One formula, three habits: from five items on, permutations instead of the analytic test, ten random orders.

    With the same targets, the same curve and the same start, `compat` and `aliquot.meta` are equal exactly.
    """
    rng = np.random.default_rng(3)
    scores = rng.normal(size=(120, 5)) + np.linspace(0.6, 0.0, 5)
    items = [{"scores": {f"s{m}": {"human": float(v)} for m, v in enumerate(row)}} for row in scores]
    shares = [0.1, 0.2, 0.3, 0.4, 0.5]
    order = np.argsort(-scores.var(axis=1))
    targets = meta.random_spa(scores, shares, seed=1)
    theirs = ours.eval_spa_par([items[k] for k in order], items, targets, props=shares)

    accuracy = SoftAccuracy.against(scores, len(scores))
    permuted = np.array([np.nan] * 4 + list(accuracy.of_prefixes(scores[order], 5)))
    analytic = meta.spa_curve(scores[order], scores)

    def formula(curve: FloatArray, first: int) -> float:
        reached = [1 + next(k for k in range(first - 1, 120) if curve[k] >= target) for target in targets]
        return float(np.mean(np.array(reached) / (120 * np.array(shares))))

    assert formula(permuted, 5) == pytest.approx(theirs, abs=1e-12)
    assert formula(analytic, 1) == pytest.approx(meta.parity(scores[order], scores, targets, shares), abs=1e-12)
    # a share of 1,000 permutations has a standard error of at most 0.016, a mean over pairs less
    assert np.abs(permuted - analytic)[4:].max() < 0.03
