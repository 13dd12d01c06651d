"""Verdicts of results made by hand: every sentence follows from the numbers, and none says more."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

import aliquot
from aliquot.annotation.agreement_result import Agreement
from aliquot.annotation.agreement_tables import make_table
from aliquot.annotation.preference_result import Comparison, Position, SystemPreference
from aliquot.core.selection import Selection
from aliquot.core.verdict_words import PairTest
from aliquot.estimation.estimate_result import Estimates, PairEstimate, SystemEstimate
from aliquot.estimation.notes import UNKNOWN_CHANCES
from aliquot.estimation.picture import Picture
from aliquot.estimation.sequential import Replay
from aliquot.report import verdicts
from aliquot.report.compare_verdicts import COMPARE_VERDICTS
from aliquot.report.verdicts import pairs_verdict
from aliquot.simulation.result import Simulation
from aliquot.simulation.summary import ALL_SETS, MethodSummary
from aliquot.simulation.units import ReplayCell

NAN = math.nan


def verdict(result: Any) -> str:
    """A verdict where there must be one."""
    words = verdicts.write_verdict(result)
    assert words is not None
    return words


def system(name, cluster, estimate=1.0, p_best=NAN):
    judged = cluster is not None
    low, high = (estimate - 0.2, estimate + 0.2) if judged else (NAN, NAN)
    best, worst = (1, 2) if judged else (None, None)
    n = 10 if judged else 0
    return SystemEstimate(name, estimate, 0.1, low, high, n, 10.0, NAN, best, worst, p_best, cluster)


def estimates(systems, p, *, interval="t", notes=()):
    """Estimates with p-values given as {(a, b): p}; other pairs are undefined."""
    systems = [replace(row, estimate=row.estimate - 0.01 * place) for place, row in enumerate(systems)]
    names = [row.system for row in systems]
    pairs = [
        PairEstimate(a, b, 0.5, 0.1, 0.9, p.get((a, b), NAN), p.get((a, b), NAN), p.get((a, b), NAN), 0.1)
        for at, a in enumerate(names)
        for b in names[at + 1 :]
    ]
    return Estimates(
        tuple(systems), tuple(pairs), np.eye(len(names)), "mean", interval, 0.95, 100, 10, True, notes=notes
    )


class TestEstimate:
    def test_two_lead(self):
        result = estimates(
            [system("HW-TSC", 1, p_best=0.6), system("IOL_Research", 1, p_best=0.4), system("X", 2), system("Y", 2)],
            {("HW-TSC", "IOL_Research"): 0.3, ("HW-TSC", "X"): 0.003, ("IOL_Research", "X"): 0.02, ("X", "Y"): 0.4},
        )
        assert verdict(result) == (
            "HW-TSC and IOL_Research lead and cannot be told apart; the next system, X, is worse than HW-TSC "
            "(p = 0.003). HW-TSC has the highest estimate and is the best with a probability of 60%."
        )
        assert (
            pairs_verdict(result)
            == "2 of 4 pairs of systems are told apart (adjusted p < 0.05); the closest is X and Y (p = 0.40)."
        )

    def test_the_likeliest_best_may_be_another(self):
        result = estimates([system("A", 1, p_best=0.1), system("B", 1, p_best=0.9)], {("A", "B"): 0.4})
        assert verdict(result) == (
            "The two systems cannot be told apart; A has the highest estimate, but B is the best with the highest "
            "probability (90%)."
        )

    def test_one_leads(self):
        result = estimates([system("A", 1), system("B", 2)], {("A", "B"): 1e-7})
        assert verdict(result) == "A is best: the next system, B, is worse (p < 0.001)."
        assert pairs_verdict(result) == "The two systems are told apart: A and B (p < 0.001)."

    def test_all_tied(self):
        systems = [system(name, 1, p_best=0.2) for name in "ABCDE"]
        result = estimates(systems, {(a, b): 0.4 for a in "ABCDE" for b in "ABCDE"})
        assert verdict(result) == (
            "The 5 systems cannot be told apart; A has the highest estimate and is the best with a probability of 20%."
        )
        assert pairs_verdict(result).startswith("None of 10 pairs of systems is told apart")

    def test_one_system(self):
        assert verdict(estimates([system("A", 1, 3.25)], {})) == (
            "A has an estimate of 3.25 (95% interval 3.05 to 3.45); there is no other system to compare with."
        )
        assert "without an interval" in verdict(estimates([replace(system("A", 1), low=NAN, high=NAN)], {}))
        assert "no pair" in pairs_verdict(estimates([system("A", 1)], {}))

    def test_systems_never_judged(self):
        text = verdict(estimates([system("A", 1), system("B", 2), system("C", None)], {("A", "B"): 0.01}))
        assert text == "A is best: the next system, B, is worse (p = 0.010). C was never judged."
        assert "A has an estimate" in verdict(estimates([system("A", 1), system("C", None)], {}))
        assert verdict(estimates([system("C", None)], {})).startswith("No system was judged")

    def test_nothing_can_be_tested(self):
        assert verdict(estimates([system("A", 1), system("B", 1)], {})).startswith("No difference between systems can")

    def test_an_undefined_p_is_not_written(self):
        text = verdict(estimates([system("A", 1), system("B", 2), system("C", 3)], {("B", "C"): 0.01}))
        assert text == "A leads, but B and C cannot be told apart from it."

    def test_cautions(self):
        p = {("A", "B"): 0.01}
        assert "not their means" in verdict(estimates([system("A", 1), system("B", 2)], p, notes=(UNKNOWN_CHANCES,)))
        assert "every look" in verdict(estimates([system("A", 1), system("B", 2)], p, interval="sequence"))

    def test_words_of_a_real_result(self):
        data = aliquot.synthetic(items=60, systems=4, seed=1)
        text = verdict(aliquot.estimate(data, selection=aliquot.select(data, budget=20)))
        assert text.endswith(".")
        assert "nan" not in text.lower().split()


def test_sequential():
    picture = Picture("best", 100, 200, (), {}, "A", True)
    assert verdict(Replay(picture, 40, ())) == (
        "One could have stopped after 40 of 100 items (60 fewer): A is the best system."
    )
    assert "with the last of 100" in verdict(Replay(picture, 100, ()))
    assert "is open: no system has beaten" not in verdict(Replay(picture, None, ()))
    assert verdict(Replay(replace(picture, stop=False, question="means", half_widths={"A": 0.5}), None, ())) == (
        "After all 100 items the question is open: the widest interval is +-0.5."
    )


def agreement(values, level="interval", annotators=()):
    rows = [
        {"kind": "all", "group": "all", "measure": name, "value": value, "low": low, "high": high}
        for name, (value, low, high) in values.items()
    ]
    schema = {"annotator": pl.String, "compared": pl.Int64, "pearson": pl.Float64}
    people = pl.DataFrame(annotators, schema=schema, orient="row")
    empty = make_table("pairs")
    coefficients = pl.DataFrame(rows, schema_overrides={"value": pl.Float64, "low": pl.Float64, "high": pl.Float64})
    return Agreement(coefficients, empty, people, empty, empty, empty, empty, level)


class TestAgreement:
    @pytest.mark.parametrize(
        ("value", "level", "grade"),
        [
            (0.1, "interval", "low"),
            (0.3, "ordinal", "usual"),
            (0.6, "interval", "good"),
            (0.6, "nominal", "low"),
            (0.7, "nominal", "fair"),
            (0.85, "nominal", "good"),
            (-0.1, "interval", "low"),
        ],
    )
    def test_grades_depend_on_the_kind_of_task(self, value, level, grade):
        text = verdict(agreement({"alpha": (value, None, None)}, level))
        assert text.startswith(f"Agreement is {grade} for {'labels' if level == 'nominal' else 'ratings'}")

    def test_spearman_brown(self):
        # 0.8 = k r / (1 + (k - 1) r) for r = 1/3: k = 8
        assert "the mean of 8 is reliable (0.8)" in verdict(agreement({"alpha": (1 / 3, 0.2, 0.4)}))

    def test_different_use_of_the_scale(self):
        text = verdict(agreement({"alpha": (0.05, None, None), "pearson": (0.5, None, None)}))
        assert "use the scale differently" in text

    def test_someone_stands_out(self):
        people = [("a", 50, 0.6), ("b", 50, 0.5), ("c", 50, 0.55), ("spam", 50, -0.02), ("rare", 3, -0.5)]
        assert "Look first at spam: it agrees least" in verdict(
            agreement({"alpha": (0.4, None, None)}, annotators=people)
        )
        nobody = [(name, 50, 0.0) for name in "abcd"]
        assert "Look first" not in verdict(agreement({"alpha": (0.0, None, None)}, annotators=nobody))

    def test_undefined(self):
        assert verdict(agreement({"alpha": (None, None, None)})).startswith("Agreement cannot be measured")
        assert verdict(agreement({"alpha": (NAN, None, None), "raw": (0.5, 0.4, 0.6)})).startswith("Annotators give")


def row(method, measure, parity, gain, data="d"):
    return MethodSummary(data, method, measure, 0.5, 0.01, 0.8, parity, 0.01, parity, 0, parity, gain)


def simulation(*rows, **options):
    cells = tuple(
        ReplayCell("d", "random", share, share, True, "mae", 0.5, 0.01, 200 * share, 100) for share in (0.1, 0.2, 0.4)
    )
    return Simulation(cells, rows, (), "", **options)


class TestSimulate:
    def test_items_and_money(self):
        rows = [
            row("random", "mae", 1.0, "unclear"),
            row("auto", "mae", 0.6, "better"),
            row("auto", "spa_full", 0.5, "better"),
        ]
        assert verdict(simulation(*rows, money_per_item=2.0)) == (
            "On these data, the default (auto) gives equally precise means with 60% and an equally good ranking with "
            "50% of a random sample's items. In the place of 40 random items, 24 are enough: 16 fewer (32 EUR)."
        )
        assert "EUR" not in verdict(simulation(*rows))
        assert verdict(simulation(*rows, cost="seconds")).endswith("of a random sample's cost.")

    def test_a_saving_is_claimed_only_beyond_the_error(self):
        assert "Monte Carlo" in verdict(simulation(row("auto", "mae", 0.6, "unclear")))
        assert "worse than a random sample" in verdict(simulation(row("auto", "mae", math.inf, "worse")))
        assert "saves nothing" in verdict(simulation(row("auto", "mae", math.inf, "better")))

    def test_other_methods_and_several_sets(self):
        assert "metric_var gives" in verdict(simulation(row("metric_var", "mae", 0.6, "better")))
        assert verdict(simulation(row("random", "mae", 1.0, "unclear"))).startswith("Only random samples")
        several = [row("auto", "mae", 0.6, "better", data=name) for name in ("d", "e", ALL_SETS)]
        assert verdict(simulation(*several)).startswith("On these 2 sets, on average, the default")
        assert "add mae" in verdict(simulation(row("auto", "coverage", NAN, "unclear")))


def test_selection_says_what_may_be_concluded():
    drawn = Selection(ids=(4, 1), population=10, method="segments", probability=np.array([0.2, 0.2]))
    assert "without bias" in verdict(drawn)
    assert "rank systems" in verdict(Selection(ids=(4, 1), population=10, method="metric_var"))


def preferred(name, cluster, component=1):
    return SystemPreference(name, 10, 6, 2, 2, 0.7, 0.6, 0.8, 0.5, 0.1, 0.3, 0.7, 1, 2, cluster, component, NAN, NAN)


class TestCompare:
    def comparison(self, *systems, position=None, p=0.004):
        tests = tuple(PairTest(a.system, b.system, p, p) for a, b in combinations(systems, 2))
        return Comparison(
            "pairwise", systems, (), 10, 10, 2, "item", "half", 0.0, "robust", 0.95, 0.0, position, tests=tests
        )

    def test_who_is_preferred(self):
        assert verdict(self.comparison(preferred("A", 1), preferred("B", 2))) == (
            "A is best: the next system, B, is worse (p = 0.004). A won 70% of its choices (95% interval 60% to 80%)."
        )
        assert "cannot be told apart" in verdict(self.comparison(preferred("A", 1), preferred("B", 1)))
        untested = self.comparison(preferred("A", 1), preferred("B", 1), p=NAN)
        assert "No difference between systems can be tested" in verdict(untested)
        assert "only system" in verdict(self.comparison(preferred("A", 1)))
        assert "no choices" in verdict(self.comparison())

    def test_separate_groups_and_position(self):
        text = verdict(self.comparison(preferred("A", 1), preferred("B", 2), preferred("C", 1, 2)))
        assert "2 groups of systems were never compared" in text
        biased = self.comparison(preferred("A", 1), preferred("B", 2), position=Position(100, 0.62, 0.55, 0.7))
        assert "the output shown first won 62%" in verdict(biased)
        fair = self.comparison(preferred("A", 1), preferred("B", 2), position=Position(100, 0.52, 0.45, 0.6))
        assert "shown first" not in verdict(fair)


def test_cleaning_and_combining():
    data = aliquot.synthetic(items=30, systems=2, protocol="da", annotators=4, judgments_per_output=2, seed=3)
    cleaned = aliquot.clean(data, "da_wmt")
    marked = sum(step.marked for step in cleaned.steps)
    assert verdict(cleaned).startswith(f"{marked} of ")
    assert "puts sys" in verdict(aliquot.combine(data, "mean"))


def test_cleaning_names_the_steps_that_did_not_apply():
    data = aliquot.synthetic(items=30, systems=2, annotators=4, seed=3)
    assert data.judgments is not None
    untimed = aliquot.Judgments(data.judgments.table.drop("seconds"))
    assert verdict(aliquot.clean(untimed, "crowd")) == (
        "No judgment was marked, but only 1 of 4 steps applied (skips). Not applied: exam and controls (no column "
        "'control' says which items are controls), fast_pages (no judgment has seconds)."
    )
    nothing = verdict(aliquot.clean(untimed, steps="exam+fast_pages"))
    assert nothing.startswith("Nothing was checked: no step applies to these data. Not applied: exam (")
    assert verdict(aliquot.clean(untimed, steps="skips")) == f"No judgment was marked: all {len(untimed)} count."
    some = verdict(aliquot.clean(untimed, steps="burn_in:first=2+exam"))
    assert some.startswith("4 of ")
    assert "Not applied: exam" in some
    everything = aliquot.clean(data, steps="fast_pages:seconds=9999")
    assert "none is left" in verdict(everything)
    again = aliquot.clean(aliquot.clean(untimed, steps="burn_in:first=2").judgments, steps="skips")
    assert verdict(again) == f"No judgment was marked: all {len(untimed) - 4} count."


def test_a_result_without_a_verdict_has_none():
    assert verdicts.write_verdict(object()) is None


# -- the other kinds of compare ------------------------------------------------------------------------------------


def compared(kind: str, **fields: Any) -> str:
    return COMPARE_VERDICTS[kind](SimpleNamespace(**fields))


def rows_of(*rows: dict[str, Any], **same: Any) -> list[SimpleNamespace]:
    return [SimpleNamespace(**(same | row)) for row in rows]


def verified(a: str, b: str, difference: float, p: float, p_adjusted: float) -> dict[str, Any]:
    return {
        "a": a,
        "b": b,
        "difference": difference,
        "p": p,
        "p_adjusted": p_adjusted,
        "accuracy_a": 0.5 + difference / 2,
        "accuracy_b": 0.5 - difference / 2,
    }


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        (
            [verified("A", "B", 0.2, NAN, NAN)],
            "No two systems were told apart by any judgment: there is no difference to test.",
        ),
        ([verified("A", "B", -0.2, 0.01, 0.01)], "B is right more often than A (60% against 40%, p = 0.010)."),
        (
            [verified("A", "B", 0.2, 0.04, 0.05)],
            "A and B cannot be told apart (60% against 40%, p = 0.040, adjusted 0.050).",
        ),
        (
            [verified("A", "B", 0.2, 0.03, 0.03), verified("A", "C", 0.4, 0.01, 0.03), verified("B", "C", 0, NAN, NAN)],
            (
                "A is right more often than C (70% against 30%, p = 0.010, adjusted 0.030). That is the clearest "
                "difference: 2 of 2 pairs of systems are told apart."
            ),
        ),
        (
            [verified("A", "B", 0.2, 0.5, 0.5), verified("A", "C", 0.4, 0.4, 0.5)],
            (
                "A and C cannot be told apart (70% against 30%, p = 0.40, adjusted 0.50). No difference is clearer: "
                "0 of 2 pairs of systems are told apart."
            ),
        ),
    ],
)
def test_who_is_right_more_often(pairs, words):
    assert compared("Verification", pairs=rows_of(*pairs)) == words


def test_whose_outputs_need_fewer_edits():
    same = {"group": "all", "a": "A", "b": "B", "segments": 9, "edits_a": 5.0, "edits_b": 2.5}
    more = {"fewer_a": 2, "fewer_b": 7, "p": 0.01, "p_adjusted": 0.01}
    assert compared("PostEditing", rows=rows_of(more | {"group": "other", "p": 1e-9}, more, **same)) == (
        "Outputs of B need fewer edits than those of A (7 of 9 segments against 2, p = 0.010; on average 5.0 "
        "characters from A and 2.5 from B)."
    )
    assert compared("PostEditing", rows=rows_of(more | {"p_adjusted": 0.05}, **same)).startswith(
        "A and B cannot be told apart by their edits (7 of 9 segments"
    )
    assert "do not differ" in compared("PostEditing", rows=rows_of(more | {"p": NAN}, **same))


def test_whether_criteria_measure_different_things():
    pairs = rows_of({"a": "x", "b": "y", "correlation": 0.3}, {"a": "x", "b": "z", "correlation": -0.8})
    near = " x and z are closest (r = -0.80)."
    for loadings, words in (
        (None, "The 4 criteria share no factor that random data would not show."),
        (np.ones((3, 1)), "The 3 criteria measure one thing."),
        (np.ones((3, 2)), "The 3 criteria measure 2 different things."),
    ):
        factors = None if loadings is None else SimpleNamespace(loadings=loadings)
        given = {"factors": factors, "names": "wxyz", "kept": "xyz"}
        assert compared("Criteria", pairs=pairs, **given) == words + near
        assert compared("Criteria", pairs=[], **given) == words


def test_which_error_costs_most():
    same = {"annotator": None, "target": "overall", "p": 0.01, "standardised": -0.5, "slope": -2.0, "error": "tone"}
    worst = {"error": "sense", "standardised": -0.9, "slope": -3.5}
    other = {"target": "fluency", "standardised": -0.1, "p": 0.05}
    one = {"error": "one", "annotator": "x", "standardised": -9.0}
    assert compared("ErrorImportance", rows=rows_of({}, worst, other, one, **same)) == (
        "Sense costs most: 3.5 points of overall per error, p = 0.010; no type of error is sure to lower fluency."
    )
    assert "sure" in compared("ErrorImportance", rows=rows_of({"slope": 0.0}, **same))
    assert "be weighed" in compared("ErrorImportance", rows=rows_of({"standardised": NAN}, one, **same))


def test_which_measures_changed_differently():
    same = {"first": "one", "second": "two", "p": 0.01, "p_adjusted": 0.02, "measure": "mood"}
    assert compared("GroupChanges", rows=rows_of({}, {"measure": "sleep", "p_adjusted": 0.05}, {"p": NAN}, **same)) == (
        "one and two changed differently in 1 of 2 measures: mood (p = 0.010, adjusted 0.020)."
    )
    far = rows_of({"p": 0.5, "p_adjusted": 0.5}, {"measure": "sleep", "p": 0.2, "p_adjusted": 0.4}, **same)
    assert compared("GroupChanges", rows=far) == (
        "The changes of one and two cannot be told apart in any measure, of 2 (the clearest: sleep, p = 0.20, adjusted "
        "0.40)."
    )
    assert "No measure can be tested" in compared("GroupChanges", rows=rows_of({"p": NAN}, **same))


def test_questions_and_affect():
    assert compared("PoolReduction", kept="ab", rows="abc") == "2 of 3 questions are suitable."
    scores = rows_of(
        {"positive": 30.0, "negative": 11.0}, {"positive": 21.0, "negative": 12.0}, {"positive": 50.0, "negative": NAN}
    )
    assert compared("AffectScores", rows=scores) == (
        "Mean affect of 2 questionnaires: positive 25.5, negative 11.5 (10 to 50)."
    )
    assert compared("AffectScores", rows=scores[2:]) == "No questionnaire is complete."
