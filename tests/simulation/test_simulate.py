"""`simulate` from end to end: reproducible on any number of processes, honest, and clear about slips."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

import aliquot
from aliquot.errors import AliquotError, DataError, FormatError, NameUnknownError, OptionError
from aliquot.metric_eval.measures import select_measures
from aliquot.simulation.summary import ALL_SETS

FIXED = "metric_var:metric=metricA"
METHODS = ["random", "auto", FIXED]
BUDGETS = ["20%", "40%"]


@pytest.fixture(scope="module")
def result(past):
    return aliquot.simulate(past, METHODS, BUDGETS, repeats=8, seed=3)


def test_a_cell_for_each_method_budget_and_measure(result):
    frame = result.to_frame()
    assert frame.height == 3 * 2 * len(select_measures(None))
    assert frame.columns == [
        "data",
        "method",
        "budget",
        "share",
        "measure",
        "value",
        "error",
        "items",
        "repeats",
        "low",
        "high",
    ]
    assert frame["method"].unique(maintain_order=True).to_list() == METHODS
    assert sorted(frame["budget"].unique()) == [0.2, 0.4]
    assert frame.filter(pl.col("budget") == 0.2)["items"].unique().to_list() == [12.0]
    assert result.summary_frame().height == 3 * len(select_measures(None))


def test_random_has_t_intervals_of_the_mean(result):
    for cell in result.cells:
        if cell.method == "random" and cell.measure == "mae" and cell.asked:
            interval = stats.t.interval(0.95, 99, loc=cell.value, scale=cell.error)
            row = result.to_frame().filter(
                (pl.col("method") == "random") & (pl.col("measure") == "mae") & (pl.col("budget") == cell.budget)
            )
            assert (row["low"].item(), row["high"].item()) == pytest.approx(interval)


def test_the_baseline_is_replayed_a_hundred_times_at_least(result):
    spa = [cell for cell in result.cells if cell.asked and (cell.method, cell.measure) == ("random", "spa")]
    assert spa
    assert all(cell.repeats >= 500 for cell in spa)  # the target of all parities
    assert {(cell.method, cell.repeats) for cell in result.cells if cell.asked and cell not in spa} == {
        ("random", 100),
        ("auto", 8),
        (FIXED, 1),
    }


def test_values_and_errors_are_those_of_the_replays(past):
    """The mean of 110 replays and its error, from replays made by hand; the baseline has 100 at least."""
    from aliquot.simulation.replay import ReplaySet, draw_items, estimate_outcome
    from aliquot.simulation.setup import BudgetPoint, resolve_method
    from aliquot.simulation.units import ReplayUnit, _make_generator

    simulated = aliquot.simulate(past, "random", "20%", repeats=110, measures="mae", parity=False, seed=9)
    cell = simulated.cells[0]
    stage, plan, point = ReplaySet(past), resolve_method("random", past), BudgetPoint(0.2, 0.2)
    unit = ReplayUnit(0, past.name, plan, (point,), 110, 9)
    errors = []
    for repeat in range(110):
        rng = _make_generator(unit, stage, point, repeat)
        found = estimate_outcome(stage, plan, draw_items(stage, plan, point, rng), rng)
        assert found is not None
        errors.append(np.abs(found.means - past.human_score().mean(axis=0)).mean())
    assert cell.value == pytest.approx(np.mean(errors))
    assert cell.error == pytest.approx(np.std(errors, ddof=1) / np.sqrt(110))
    assert cell.repeats == 110


def test_a_fixed_choice_is_replayed_once_and_has_no_error(result):
    fixed = [cell for cell in result.cells if cell.method == FIXED and cell.measure != "kendall"]
    assert {cell.repeats for cell in fixed} == {1}
    assert {cell.error for cell in fixed} == {0.0}
    frame = result.to_frame().filter(pl.col("method") == FIXED)
    assert frame["low"].equals(frame["value"].alias("low"))
    order = aliquot.select(
        result_data := aliquot.synthetic(60, 4, seed=1, annotators=0, document_length=5), FIXED, budget=24
    ).ids
    by_hand = aliquot.meta.mae(result_data.keep(items=list(order)), result_data)
    cell = next(c for c in fixed if c.asked and c.measure == "mae" and c.budget == 0.4)
    assert cell.value == pytest.approx(by_hand)


def test_the_same_seed_gives_the_same_table_and_another_one_another(past, result):
    again = aliquot.simulate(past, METHODS, BUDGETS, repeats=8, seed=3)
    assert again.to_frame().equals(result.to_frame())
    assert again.summary_frame().equals(result.summary_frame())
    assert again.signature == result.signature
    other = aliquot.simulate(past, METHODS, BUDGETS, repeats=8, seed=4)
    assert not other.to_frame().equals(result.to_frame())


def test_any_number_of_processes_gives_the_same_table(past, result):
    parallel = aliquot.simulate(past, METHODS, BUDGETS, repeats=8, seed=3, jobs=2)
    assert parallel.cells == result.cells or parallel.to_frame().equals(result.to_frame())
    assert parallel.summary_frame().equals(result.summary_frame())


@pytest.mark.parametrize("test", ["analytic", "permutation"])
def test_other_methods_budgets_and_sets_beside_change_nothing(past, campaign, test):
    small = aliquot.simulate(past, ["auto", FIXED], ["20%"], repeats=4, test=test, parity=False)
    sets = [campaign(name="other", seed=9), past]
    large = aliquot.simulate(sets, ["documents", FIXED, "auto"], ["10%", "20%", "30%"], repeats=4, test=test)
    common = ["method", "budget", "measure", "value", "error"]
    mine = large.to_frame().filter((pl.col("data") == "past") & (pl.col("budget") == 0.2))
    for method in ("random", "auto", FIXED):
        ours, theirs = (frame.filter(pl.col("method") == method).select(common) for frame in (small.to_frame(), mine))
        assert ours.equals(theirs), method


def test_random_is_always_there(past):
    simulated = aliquot.simulate(past, "auto", "30%", repeats=3, measures=["mae"], parity=False)
    assert {cell.method for cell in simulated.cells} == {"random", "auto"}
    assert simulated.row("auto", "mae").ratio_to_random > 0


def test_only_the_measures_asked_for(past):
    simulated = aliquot.simulate(past, "auto", "30%", repeats=3, measures="spa_full,mae")
    assert {cell.measure for cell in simulated.cells} == {"spa_full", "mae"}
    assert {row.measure for row in simulated.rows} == {"spa_full", "mae"}
    assert np.isfinite(simulated.row("auto", "spa_full").ratio_to_random)
    assert np.isfinite(simulated.row("auto", "mae").cost_parity)


def test_the_json_document(result):
    document = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert {"cells", "summary", "signature"} <= document.keys()
    assert {"data", "method", "budget", "measure", "value", "error"} <= document["cells"][0].keys()
    assert {"data", "method", "measure", "value", "error", "ratio_to_random", "parity"} <= document["summary"][0].keys()
    assert len(document["cells"]) == result.to_frame().height


def test_parity_that_is_never_reached_is_null_and_counted(past):
    """Hard items first make means far too low; without budgets beyond those asked for, nothing is reached."""
    simulated = aliquot.simulate(past, "metric_avg:metric=metricA", BUDGETS, repeats=30, measures="mae", parity=False)
    row = simulated.row("metric_avg:metric=metricA", "mae")
    assert row.missed == 2
    assert row.parity == np.inf
    document = simulated.to_dict()["summary"]
    mine = next(r for r in document if r["method"] != "random")
    assert mine["parity"] is None
    assert mine["missed"] == 2
    with_more = aliquot.simulate(past, "metric_avg:metric=metricA", BUDGETS, repeats=30, measures="mae")
    assert 1 < with_more.row("metric_avg:metric=metricA", "mae").parity < np.inf


def test_looking_up_a_verdict(past, campaign):
    two = aliquot.simulate([past, campaign(name="other", seed=2)], "auto", "30%", repeats=3, measures="mae")
    assert two.row("auto", "mae").data == ALL_SETS
    assert two.row("auto", "mae", "other").data == "other"
    assert repr(two) == "Simulation(2 methods on 2 sets)"
    for arguments, message in (
        (("atuo", "mae"), "unknown method 'atuo'; did you mean 'auto'"),
        (("auto", "spa"), "unknown measure 'spa'"),
        (("auto", "mae", "othr"), "unknown set 'othr'; did you mean 'other'"),
    ):
        with pytest.raises(NameUnknownError, match=message):
            two.row(*arguments)


def test_two_files_of_the_same_name(campaign, tmp_path):
    for folder, seed in (("a", 1), ("b", 2)):
        (tmp_path / folder).mkdir()
        aliquot.save(campaign(seed=seed), tmp_path / folder / "past.jsonl")
    sets = [aliquot.load(tmp_path / folder / "past.jsonl") for folder in ("a", "b")]
    both = aliquot.simulate(sets, "random", "30%", repeats=3, measures="mae", parity=False)
    values = {cell.data: cell.value for cell in both.cells}
    assert list(values) == ["past", "past #2"]
    assert len(set(values.values())) == 2


def test_the_same_name_and_content_but_other_costs(campaign):
    """Fingerprints know nothing of costs: the second call must not be answered with the first one's prices."""
    prices = [np.ones(60), np.linspace(0.2, 9, 60)]
    spent = []
    for price in prices:
        data = campaign(columns={"price": price})
        simulated = aliquot.simulate(data, FIXED, "30%", repeats=2, cost="price", measures="cost", parity=False)
        spent.append(simulated.row(FIXED, "cost").value)
    assert spent[0] == pytest.approx(0.3)
    assert spent[1] != spent[0]


def test_the_signature_says_what_matters(past):
    def line(**options: Any) -> str:
        return aliquot.simulate(past, "random", "30%", repeats=2, measures="mae", parity=False, **options).signature

    plain = line()
    assert plain.startswith(f"aliquot:{aliquot.__version__}|simulate|methods:random|budgets:30%|repeats:2|")
    assert past.fingerprint in plain
    lines = [
        plain,
        line(level=0.9),
        line(test="permutation"),
        line(unit="document"),
        line(balance="domain"),
        line(cost="esa_time"),
        line(human="metricB"),
        line(seed=1),
        line(metric="metricA"),
    ]
    assert len(set(lines)) == len(lines)
    named = aliquot.simulate(past.with_human("metricB"), "random", "30%", repeats=2, measures="mae", parity=False)
    assert named.signature == line(human="metricB")


# -- constraints ---------------------------------------------------------------------------------------------------


def test_whole_documents(past):
    simulated = aliquot.simulate(past, ["random", "auto", FIXED], ["30%", "60%"], repeats=6, unit="document")
    assert np.isfinite(simulated.row("auto", "mae").value)
    for cell in simulated.cells:
        if cell.measure == "cost" and cell.method == FIXED:
            assert cell.value <= cell.share + 0.5 / 60 + 1e-9  # a share of the items, rounded


def test_balanced_over_domains(past):
    simulated = aliquot.simulate(
        past, ["random", "auto", FIXED], ["20%"], repeats=6, balance="domain", measures="mae,cost"
    )
    assert simulated.row("random", "cost").value == pytest.approx(0.2)


def test_costs(campaign):
    data = campaign(columns={"price": np.linspace(1, 5, 60)})
    simulated = aliquot.simulate(data, ["random", "auto", FIXED], ["20%", "40%"], repeats=20, cost="price")
    assert simulated.row("random", "cost").value == pytest.approx(0.3, abs=0.03)
    assert simulated.row(FIXED, "cost").value <= 0.3 + 1e-9
    assert simulated.row(FIXED, "mae").cost_parity > 0


# -- data that are hard to replay ----------------------------------------------------------------------------------


def test_constant_scores_say_nothing_and_nothing_breaks(campaign):
    constant = campaign(human=lambda human: np.full_like(human, 2.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        simulated = aliquot.simulate(constant, [*METHODS, "auto:goal=ranking", "documents"], BUDGETS, repeats=4)
    for method in METHODS:
        assert simulated.row(method, "mae").value == 0.0
        assert simulated.row(method, "spa_full").value == 1.0
        assert np.isnan(simulated.row(method, "pearson").value)
        assert np.isnan(simulated.row(method, "coverage").value)
        assert simulated.row(method, "pearson").missed == 0
    json.dumps(simulated.to_dict(), allow_nan=False)


def test_identical_systems(campaign):
    same = campaign(human=lambda human: np.repeat(human[:, :1], 4, axis=1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        simulated = aliquot.simulate(same, [*METHODS, "auto:goal=ranking"], BUDGETS, repeats=4)
    assert simulated.row("random", "accuracy").value == 1.0
    assert simulated.row("auto", "spa_full").value == 1.0
    assert simulated.row("auto:goal=ranking", "spa_full").value == 1.0
    assert simulated.row("random", "swaps").value == 0.0


def test_all_items_judged(past):
    """A budget of everything is the truth: no error, full coverage, whatever the method."""
    simulated = aliquot.simulate(past, [*METHODS, "random+multilevel"], "100%", repeats=3)
    for method in [*METHODS, "random+multilevel"]:
        values = {name: simulated.row(method, name).value for name in ("mae", "coverage", "accuracy", "spa", "width")}
        assert values == {"mae": 0.0, "coverage": 1.0, "accuracy": 1.0, "spa": 1.0, "width": pytest.approx(0, abs=1e-6)}
        assert simulated.row(method, "mae").missed == 0


def test_cells_without_scores_and_notes(campaign):
    def holes(human):
        human[::4, 0] = np.nan
        return human

    simulated = aliquot.simulate(campaign(human=holes), METHODS, "30%", repeats=3, measures="mae")
    assert simulated.notes == ("past: 45 of 60 items are judged for all systems; they are the set",)
    assert np.isfinite(simulated.row("auto", "mae").value)


def test_eight_items_and_two_systems(campaign):
    tiny = campaign(items=8, systems=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        simulated = aliquot.simulate(tiny, [*METHODS, "auto:goal=ranking"], repeats=3)
    assert simulated.row("auto", "mae").value > 0
    assert {cell.items for cell in simulated.cells if cell.budget == 0.05} == {2.0}


# -- slips ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"repeats": 1}, OptionError, "`repeats` is 1; give 2 to"),
        ({"repeats": 0}, OptionError, "`repeats` is 0"),
        ({"unit": "docs"}, NameUnknownError, "`unit` is 'docs'"),
        ({"test": "t"}, NameUnknownError, "`test` is 't'"),
        ({"level": 95}, OptionError, "`level` is 95"),
        ({"seed": -1}, OptionError, "`seed` is -1"),
        pytest.param(
            {"seed": np.random.default_rng(1)}, OptionError, "`seed` is Generator.*give a whole number", id="generator"
        ),
        ({"repeats": 2.5}, OptionError, "`repeats` is 2.5; give a whole number"),
        ({"measures": "spq"}, NameUnknownError, "did you mean 'spa'"),
        ({"measures": []}, OptionError, "no measure is named"),
        ({"jobs": 0}, OptionError, "`jobs` is 0"),
        ({"balance": "topic"}, NameUnknownError, "unknown item column 'topic'"),
        ({"cost": "price"}, NameUnknownError, "unknown cost 'price'"),
        ({"human": "DA"}, NameUnknownError, "unknown human score of past 'DA'"),
        ({"budgets": "70"}, OptionError, "all 60 items of past"),
        ({"budgets": 0.2}, OptionError, "for a share write 20%"),
        ({"engine": "dask://"}, OptionError, "give dask://host:port"),
        ({"methods": "random+greg+mean"}, OptionError, "write a selector or design"),
        ({"methods": "metric_var"}, OptionError, "method 'metric_var' on past: choose a metric with `metric`"),
        ({"methods": "pps:tau=3"}, OptionError, r"method 'pps:tau=3' on past: `tau` is 3.0"),
        (
            {"methods": "stratified:bins=topic"},
            AliquotError,
            "method 'stratified:bins=topic' on past: unknown item column",
        ),
        ({"methods": "greedy:metric=metricA", "cost": "esa_time"}, OptionError, "on past: chooses a number of items"),
        (
            {"methods": "documents", "unit": "document"},
            OptionError,
            "'documents' on past: .*chooses inside",
        ),
        ({"methods": "incremental", "balance": "domain"}, OptionError, "on past: allocates the budget itself"),
        ({"metric": "COMET", "methods": "metric_var"}, NameUnknownError, "on past: unknown score 'COMET'"),
    ],
    ids=str,
)
def test_slips_are_told_before_any_work(past, options, error, message):
    worked = []
    with pytest.raises(error, match=message):
        aliquot.simulate(
            past,
            **{
                "methods": "random",
                "budgets": "30%",
                "repeats": 2,
                "progress": lambda done, _: worked.append(done),
                **options,
            },
        )
    assert [done for done in worked if done] == []


def test_the_set_that_lacks_something_is_named(past, campaign):
    bare = replace(campaign(name="bare", documents=False, seed=2), outputs=None)
    none = campaign(name="nothing", metrics={})
    for methods, other, message in (
        ("documents", bare, "method 'documents' on bare: .*needs documents"),
        ("diversity", bare, "method 'diversity' on bare: .*needs outputs"),
        (FIXED, none, "on nothing: unknown score 'metricA'"),
        ("random+stratified", bare, None),
        ("random", campaign(name="lonely", systems=1), "lonely: only one system"),
    ):
        if message is None:
            aliquot.simulate([past, other], methods, "30%", repeats=2, measures="mae", parity=False)
            continue
        with pytest.raises(AliquotError, match=message):
            aliquot.simulate([past, other], methods, "30%", repeats=2)
    with pytest.raises(DataError, match="bare: there are no documents"):
        aliquot.simulate([past, bare], "random", "30%", repeats=2, unit="document")


def test_a_slip_that_shows_while_working_names_method_and_set(past):
    """Utilities are not tried beforehand; the error still says where."""
    with pytest.raises(AliquotError, match="method 'uncertainty:score=metricZ' on past: "):
        aliquot.simulate(past, "uncertainty:score=metricZ", "30%", repeats=2)


def test_no_data_and_no_sets(past):
    with pytest.raises(OptionError, match="no data to replay"):
        aliquot.simulate([])
    with pytest.raises(FormatError, match="no such file"):
        aliquot.simulate("absent.jsonl")
    with pytest.raises(OptionError, match="data is a dict; give an EvalSet, a path"):
        aliquot.simulate([past, {"a": 1}])  # type: ignore[list-item]


def test_progress_is_told(past):
    seen = []
    aliquot.simulate(
        past,
        "auto",
        BUDGETS,
        repeats=2,
        measures="mae",
        parity=False,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert seen == [(done, 4) for done in range(5)]


@pytest.mark.parametrize(
    "method",
    [
        "irt_diffdisc:metric=metricA",
        "diversity",
        "greedy:metric=metricA,simulations=20",
        "incremental",
        "guided:metric=metricA,draws=5",
        "balanced",
        "snippets_fixed",
        "mixture:methods=random|diversity",
        "documents+stratified",
        "pps+paper_best",
    ],
)
def test_every_kind_of_method_can_be_replayed(past, method):
    simulated = aliquot.simulate(past, method, "30%", repeats=2, measures="mae,spa,spa_full", parity=False)
    assert np.isfinite(simulated.row(method, "mae").value)
    assert 0 <= simulated.row(method, "spa_full").value <= 1
