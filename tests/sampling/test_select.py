"""Select: names, odd data, reproduction, `auto`, and the notes; every edge has a defined behaviour."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sampling.conftest import DATA, EVERY, UNRATED, chosen_by, every_method, quietly, runnable, small

import aliquot
from aliquot import AliquotError, AliquotWarning, EvalSet, Selection
from aliquot.core.registry import Spec, SpecText, parse_chain, parse_spec
from aliquot.errors import DataError, NameUnknownError
from aliquot.sampling.methods import all_methods
from aliquot.sampling.select import _apply_past_scale, _warn_unknown_scale, select
from aliquot.sampling.summary import _write_notes, summarise_selection

# -- the public name -----------------------------------------------------------------------------------------------


FIRST = """
import importlib, sys
for first in ("aliquot.compat", "aliquot.sampling.methods", "aliquot.sampling.select", "aliquot.cli.select"):
    for name in [name for name in sys.modules if name.partition(".")[0] == "aliquot"]:
        del sys.modules[name]
    importlib.import_module(first)
    import aliquot
    print(len(aliquot.select(aliquot.synthetic(items=9, systems=2))))
"""


def test_the_function_is_not_hidden_by_a_module_of_the_same_name():
    """Whichever of them is imported first."""
    done = subprocess.run([sys.executable, "-c", FIRST], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["9"] * 4, done.stderr


# -- little or odd data --------------------------------------------------------------------------------------------

SOLITARY = [
    "random",
    "metric_avg",
    "metric_var",
    "segments",
    "documents",
    "snippets_fixed",
    "snippets_budgeted",
    "stratified",
    "pps",
    "balanced",
    "kmeans",
    "incremental",
    "auto",
]


@pytest.mark.parametrize("name", SOLITARY)
def test_one_system_is_enough_where_systems_are_not_compared(name):
    alone = UNRATED.keep(systems=["sys1"])
    given = {} if name == "auto" else runnable(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AliquotWarning)
        assert len(select(alone, name, 9, **given)) > 0


@EVERY
def test_a_single_item(name):
    one = UNRATED.keep(items=UNRATED.ids[:1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AliquotWarning)
        assert chosen_by(name, one, budget=1).ids == (0,)


def test_equal_utilities_are_chosen_from_at_random_and_it_is_said():
    data = small(scores=np.ones((30, 4)))
    with pytest.warns(AliquotWarning, match="'metric_avg' finds all items equally useful: the choice is random"):
        chosen = select(data, "metric_avg", 5)
    assert len(chosen) == 5
    counts = Counter(item for seed in range(300) for item in quietly(data, "metric_avg", 6, seed=seed).ids)
    assert len(counts) == 30
    assert max(counts.values()) < 60 + 5 * np.sqrt(300 * 0.2 * 0.8)


def test_ties_at_the_border_are_broken_at_random():
    values = np.repeat(np.r_[np.zeros(4), np.ones(26)][:, None], 4, axis=1)
    drawn = {frozenset(select(small(scores=values), "metric_avg", 6, seed=seed).ids) for seed in range(20)}
    assert all({100, 101, 102, 103} <= ids for ids in drawn)
    assert len(drawn) > 10


def test_a_metric_that_misses_cells_is_used_as_far_as_it_goes():
    values = np.random.default_rng(1).normal(size=(30, 4))
    values[::3, 1] = np.nan
    values[7] = np.nan
    data = small(scores=values)
    for name in ("bruteforce", "greedy"):
        with pytest.warns(AliquotWarning, match="items lack the metric for some system and are not considered"):
            chosen = select(data, name, 5, simulations=10)
        assert all(np.isfinite(values[int(item) - 100]).all() for item in chosen.ids)
    for name in ("pps", "balanced", "stratified:bins=metric", "guided", "metric_cons"):
        assert len(quietly(data, name, 5)) == 5


def test_a_search_that_cannot_find_enough_complete_items_says_so():
    values = np.random.default_rng(1).normal(size=(30, 4))
    values[:28, 0] = values[:25, 1] = values[:25, 2] = np.nan
    with pytest.raises(DataError, match=r"fewer than two systems|only \d+ items have the metric for all systems"):
        quietly(small(scores=values), "bruteforce", 6)


# -- names ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("metric_vra", r"unknown method 'metric_vra'; did you mean 'metric_var'\?.*aliquot methods"),
        ("pps:taw=0.5", r"pps: no parameter 'taw'; did you mean 'tau'\? it has 'size', 'tau'"),
        ("segments:tau=1", "segments: no parameter 'tau'; it has none"),
        ("pps:tau=high", "pps: tau='high' should be a number"),
        ("greedy:step=1.5", "greedy: step='1.5' should be a whole number"),
        ("kmeans:weighted=maybe", "kmeans: weighted='maybe' should be a yes or no"),
        ("diversity:similarity=cosine", "choose unigram or bleu or chrf or embedding"),
        ("pps:", None),
        ("pps:tau", "'tau' is not key=value"),
        ("pps:tau=", "'tau=' is not key=value"),
        ("pps:=1", "'=1' is not key=value"),
        ("pps:tau=1,tau=0", "'tau' is given twice"),
        ("pps:metrics=(metricA", "parentheses do not match"),
        ("pps:metrics=)metricA(", "parentheses do not match"),
        ("", "a name is missing"),
        (":tau=1", "a name is missing"),
        ("auto:goal=fame", "unknown goal 'fame'"),
        ("auto:gaol=ranking", "did you mean 'goal'"),
    ],
)
def test_specs(spec, message):
    if message is None:
        assert len(select(DATA, spec, 5)) == 5
        return
    with pytest.raises(AliquotError, match=message):
        select(DATA, spec, 5)


def test_parameters_may_be_given_apart_and_win():
    assert select(DATA, "pps:tau=0.2", 5, tau=0.7).method == "pps:tau=0.7"
    assert select(DATA, "metric_avg", 5, metric="metricA").method == "metric_avg:metric=metricA"


names = st.text("abcdefgh_0123", min_size=1, max_size=8)
plain = st.text("abc.XYZ -_|:=é9", min_size=1, max_size=8).map(str.strip).filter(bool)
nested = st.builds("({}:{}={},{}={})".format, names, names, plain, names, plain)
values = st.one_of(plain, nested, st.builds("{}|{}".format, nested, plain)).map(SpecText)


@given(names, st.dictionaries(names, values, max_size=4))
def test_what_a_spec_writes_it_reads(name, parameters):
    spec = Spec(name, parameters)
    assert parse_spec(str(spec)) == spec
    assert str(parse_spec(str(spec))) == str(spec)


@given(st.lists(st.builds(Spec, names, st.dictionaries(names, values, max_size=3)), min_size=1, max_size=3))
def test_chains_are_specs_joined_by_plus(specs):
    assert parse_chain("+".join(map(str, specs))) == specs


@pytest.mark.parametrize("metric", ["a,b", "chrF (2", "x|y", "x=y", "plain+plus", "in) verted ("])
@pytest.mark.parametrize("method", ["metric_avg", "guided", "pps", "auto:goal=ranking"])
def test_metrics_may_have_any_name(method, metric):
    data = small()
    data = data.rename(scores={"m": metric}).with_score("other", data.scores["m"] ** 2)
    given: dict[str, Any] = {"metrics": [metric]} if method == "pps" else {} if "auto" in method else {"metric": metric}
    chosen = select(data, method, 5, **given)
    assert len(chosen) == 5
    assert summarise_selection(chosen, data).items == 5


# -- the same again ------------------------------------------------------------------------------------------------


@EVERY
def test_same_seed_same_selection(name):
    first = chosen_by(name, seed=3)
    assert first == chosen_by(name, seed=3)
    assert first.signature == chosen_by(name, seed=3).signature


@pytest.mark.parametrize("name", ["random", *every_method(kinds=("design",)), "bruteforce", "incremental"])
def test_another_seed_another_selection(name):
    drawn = {tuple(chosen_by(name, seed=seed).ids) for seed in range(6)}
    assert len(drawn) > 1


@EVERY
def test_the_method_of_a_selection_reproduces_it(name):
    chosen = chosen_by(name, seed=5)
    again = select(UNRATED, chosen.method, 9, seed=5)
    assert again == chosen
    assert chosen.signature.startswith(f"aliquot:{aliquot.__version__}|select:{chosen.method}|budget:9|")
    assert chosen.signature.endswith(f"|seed:5|data:{UNRATED.fingerprint}")


@pytest.mark.parametrize(
    "options",
    [
        {"methods": ("metric_avg", "metric_var"), "metric": "metricA"},
        {"methods": ("(metric_avg:metric=metricA)", "(metric_cons:metric=metricB,rank=tau-b)"), "weights": (1, 2.5)},
        {"methods": ("metric_avg:metric=metricA", "metric_cons:metric=metricB,rank=tau-b")},
        {"methods": "(mixture:methods=(metric_avg:metric=metricA)|random)|(metric_var:metric=metricC)"},
    ],
)
def test_a_mixture_reproduces_itself(options):
    chosen = select(DATA, "mixture", 9, seed=1, **options)
    assert select(DATA, chosen.method, 9, seed=1) == chosen


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"include": [1]}, {"include": [2]}),
        ({"exclude_items": [1]}, {"exclude_items": [2]}),
        ({"crowd": ["sys1", "sys2"]}, {"crowd": ["sys1", "sys3"]}),
        ({"balance": "domain"}, {}),
        ({"unit": "document"}, {}),
        ({"seed": 1}, {"seed": 2}),
        ({"matching": False}, {}),
    ],
)
def test_different_ways_have_different_signatures(one, other):
    assert select(DATA, "segments", 9, **one).signature != select(DATA, "segments", 9, **other).signature


def test_different_texts_are_different_data():
    """What a method looks at must be in the fingerprint, or the signature does not say how to get it again."""
    assert DATA.outputs is not None
    changed = replace(DATA, outputs=DATA.outputs.with_columns(pl.col("sys1").str.reverse()))
    signatures = {chosen_by("diversity", data).signature for data in (DATA, changed)}
    assert len(signatures) == 2


@EVERY
def test_probabilities_are_in_range_and_only_designs_have_them(name):
    chosen = chosen_by(name)
    has_them = all_methods()[name].kind == "design" and name != "guided"
    assert (chosen.probability is not None) == has_them
    if chosen.probability is not None:
        assert ((chosen.probability > 0) & (chosen.probability <= 1)).all()
        assert chosen.weight is not None
        assert chosen.weight == pytest.approx(1 / chosen.probability)


@EVERY
def test_selections_survive_saving(name, tmp_path):
    chosen = chosen_by(name)
    chosen.save(tmp_path / "selection.jsonl", UNRATED)
    assert Selection.load(tmp_path / "selection.jsonl") == chosen


def test_the_data_are_not_changed():
    before = aliquot.synthetic(items=60, systems=5, seed=2)
    for name in every_method():
        quietly(DATA, name, 9, **runnable(name)) if name != "incremental" else chosen_by(name)
    assert before == DATA


# -- auto ----------------------------------------------------------------------------------------------------------


def bare(*, metrics: int = 0, systems: int = 5, keep: tuple[str, ...] = ()) -> EvalSet:
    """A part of the data: so many metrics and systems, and of documents, sources and outputs what is to be kept."""
    kept = UNRATED.keep(systems=UNRATED.systems[:systems])
    return replace(
        kept,
        items=kept.items.drop({"document", "source"} - set(keep)),
        scores={name: kept.scores[name] for name in kept.metrics[:metrics]},
        outputs=kept.outputs if "outputs" in keep else None,
    )


@pytest.mark.parametrize(
    ("has", "goal", "expected"),
    [
        ({"metrics": 3, "keep": ("document",)}, "means", "pps:"),
        ({"metrics": 1}, "means", "pps:"),
        ({"keep": ("document",)}, "means", "pps:"),
        ({"keep": ("source",)}, "means", "pps:"),
        ({"keep": ("outputs",)}, "means", "segments"),
        ({}, "means", "segments"),
        ({"metrics": 1}, "ranking", "pps:"),
        ({"metrics": 3}, "ranking", "pps:"),
        ({"keep": ("outputs",)}, "ranking", "segments"),
        ({"metrics": 3, "systems": 1}, "ranking", "pps:"),
        ({}, "ranking", "segments"),
    ],
)
def test_auto_chooses_by_what_there_is_and_says_why(has, goal, expected):
    data = bare(**has)
    chosen = select(data, f"auto:goal={goal}", 9)
    assert len(chosen) == 9
    assert chosen.method.startswith(expected)
    assert chosen.details["auto"].startswith(expected)
    assert any(note.startswith("auto chose") for note in summarise_selection(chosen, data).notes)


def test_auto_is_the_default():
    assert select(DATA, budget=9).method.startswith("pps:")


@pytest.mark.parametrize("has", [{"metrics": 3}, {"metrics": 1}, {}])
@pytest.mark.parametrize("options", [{"unit": "document"}, {"balance": "domain"}, {"crowd": ["sys1", "sys2"]}])
def test_auto_works_with_every_constraint(has, options):
    assert len(select(bare(keep=("document",), **has), "auto", 12, **options)) > 0


def test_auto_takes_a_metric_where_it_can_use_one():
    assert "metricB" in select(DATA, "auto", 9, metric="metricB").method
    assert "metricB" in select(DATA, "auto:goal=ranking", 9, metric="metricB").method
    with pytest.raises(NameUnknownError, match="did you mean 'metricB'"):
        select(DATA, "auto", 9, metric="metricb")


# -- what is said about it -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("metric_avg", "biased; use a design"),
        ("bruteforce", "biased; use a design"),
        ("guided", "biased; use a design"),
        ("segments", "known probability"),
        ("pps", "known probability"),
        ("random", "random order"),
        ("kmeans:weighted=yes", "stands for its cluster"),
        ("documents:max_length=6", "of the items had a probability above 0"),
    ],
)
def test_the_effect_is_said_in_words(method, words):
    name = parse_spec(method).name
    chosen = select(UNRATED, method, 9, **runnable(name))
    assert words in summarise_selection(chosen, UNRATED).effect


def test_draws_for_each_system_do_not_judge_everything_though_every_item_is_named():
    chosen = select(DATA, "segments", 50, matching=False)
    assert chosen.systems is not None
    assert len(chosen) == 60
    assert any(len(names) < 5 for names in chosen.systems)
    assert "all items are chosen" not in summarise_selection(chosen, DATA).effect


def test_shares_are_of_the_selection_and_of_the_set():
    data = small()
    summary = summarise_selection(select(data, "random", 9, balance="domain"), data)
    assert {share.name for share in summary.domains} == {"tiny", "middle", "large"}
    assert [share.selected for share in summary.domains] == pytest.approx([1 / 3] * 3)
    assert sorted(share.full for share in summary.domains) == pytest.approx([3 / 30, 8 / 30, 19 / 30])
    assert [(share.name, share.full) for share in summary.document_lengths] == [("0-9", 1.0)]


@pytest.mark.parametrize(
    ("details", "notes"),
    [
        ({}, ()),
        ({"matching": True}, ()),
        ({"matching": False}, ("each system has its own draw; the file names the systems to judge for each item",)),
        ({"gap": 0.0}, ()),
        ({"gap": 0.012}, ("the choice is within 1.2e-02 of the best possible total utility",)),
        ({"rounding": "nearest", "empty_bins": 0, "bins": 4}, ()),
        ({"rounding": "random", "empty_bins": 1, "bins": 4}, ()),
        (
            {"rounding": "nearest", "empty_bins": 1, "bins": 4},
            ("1 of 4 bins got no item: means are biased towards the others",),
        ),
        ({"within": "top", "first_stage": 10}, ("within a first selection of 10 by top, which has no probabilities",)),
        ({"within": "pps", "first_stage": 5}, ("within a first selection of 5 by pps: probabilities multiplied",)),
        (
            {"waves": [{"size": 1, "drawn": 1}, {"size": 3, "drawn": 2}]},
            ("wave 2 adds 2 items to 1, which come first",),
        ),
        (
            {"waves": [{"size": 2, "drawn": 2}, {"size": 3, "drawn": 2}]},
            ("wave 2 adds 2 items (1 expected) to 1, which come first",),
        ),
        ({"draws": 7}, ("best of 7 draws by a metric: known probabilities are given up",)),
    ],
)
def test_notes_of_a_summary_by_hand(details, notes):
    chosen = Selection((1, 2, 3), 10, "m", probability=np.full(3, 0.3), details=details)
    assert _write_notes(chosen) == notes
    unknown = Selection((1, 2, 3), 10, "m", details=details)
    assert _write_notes(unknown) == (() if "within" in details else notes)
    paid = Selection((1, 2, 3), 10, "m", probability=np.full(3, 0.3), cost=np.ones(3), details=details)
    assert _write_notes(paid) == (*notes, "the cost budget holds in expectation; this draw's cost is shown")
    assert _write_notes(Selection((1, 2, 3), 10, "m", cost=np.ones(3))) == ()


@pytest.mark.parametrize(
    ("method", "asks"),
    [
        ("pps", True),
        ("pps:size=error", True),
        ("pps:size=length", False),
        ("pps:scale=penalties", False),
        ("pps:scale=auto", True),
        ("pps:slopes=1|2", False),
        ("random", False),
    ],
)
def test_the_scale_is_asked_for_where_it_matters(method, asks):
    unrated = EvalSet(pl.DataFrame({"id": range(4)}), ("A", "B"))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        _warn_unknown_scale(parse_spec(method), unrated)
        _warn_unknown_scale(parse_spec(method), replace(unrated, scores={"human": np.ones((4, 2))}, human="human"))
    assert len(told) == asks


def test_the_scale_of_earlier_campaigns_is_used_where_nothing_else_says_it():
    """The data themselves, the method, or no campaign at all leave the method as it is."""
    past = EvalSet(
        pl.DataFrame({"id": range(4)}),
        ("A", "B"),
        human="human",
        scores={"human": np.array([[0.0, -5.0], [-1.0, 0.0], [0.0, -25.0], [0.0, 0.0]])},
    )
    unrated = EvalSet(past.items, past.systems)
    spec = parse_spec("pps")
    found = _apply_past_scale(spec, unrated, [past])
    assert found.parameters == {"scale": "penalties"}
    assert _apply_past_scale(spec, past, [past]) is spec
    assert _apply_past_scale(spec, unrated, []) is spec
    assert _apply_past_scale(parse_spec("random"), unrated, [past]).parameters == {}
    named = parse_spec("pps:scale=ratings")
    assert _apply_past_scale(named, unrated, [past]) is named
    ratings = replace(past, scores={"human": past.scores["human"] + 90.0}, name="other")
    with pytest.raises(AliquotError, match="judged on different scales"):
        _apply_past_scale(spec, unrated, [past, ratings])
