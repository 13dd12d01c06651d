"""combine: every method against the long way, joint scores within the paper's bounds, queues, experts, odd data."""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aliquot
from aliquot.annotation.combine_methods import LabelsCurve
from aliquot.annotation.judgment_noise import difference_noise
from aliquot.errors import DataError, NameUnknownError, OptionError
from aliquot.io.formats.mqm import MQMWeights

# Detoxification, HumEval 2022 paper 8, Tables 1 and 2: style, meaning, fluency and joint score of 15 systems.
TABLE_1 = """0.97 0.94 0.96 0.87|0.98 0.86 0.97 0.82|0.95 0.86 0.97 0.78|0.95 0.82 0.91 0.71|0.93 0.80 0.88 0.66
0.94 0.73 0.89 0.61|0.80 0.83 0.84 0.56|0.80 0.80 0.83 0.54|0.81 0.79 0.80 0.53|0.85 0.76 0.78 0.52|0.85 0.72 0.78 0.49
0.83 0.76 0.76 0.48|0.57 0.89 0.91 0.44|0.56 0.89 0.85 0.41|0.24 1.00 1.00 0.24"""
TABLE_2 = """0.89 0.82 0.89 0.65|0.79 0.87 0.90 0.63|0.79 0.82 0.92 0.61|0.73 0.87 0.92 0.60|0.82 0.79 0.85 0.58
0.78 0.81 0.90 0.57|0.80 0.78 0.87 0.56|0.79 0.72 0.78 0.51|0.81 0.70 0.90 0.50|0.80 0.70 0.87 0.49|0.77 0.72 0.83 0.45
0.43 0.62 0.79 0.17|0.39 0.71 0.73 0.16|0.11 1.00 1.00 0.11|0.25 0.13 0.24 0.02"""


pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # crowd-kit, old pandas


def rows_of(text: str) -> list[tuple[float, ...]]:
    return [tuple(map(float, row.split())) for line in text.splitlines() for row in line.split("|")]


def within(joint: float, parts: Any, slack: float = 0.0) -> bool:
    """max(0, sum - 2) <= J <= min for three criteria between 0 and 1 (P8.2)."""
    return bool(max(0.0, sum(parts) - 2) - slack <= joint <= min(parts) + slack)


@pytest.mark.parametrize("row", [*rows_of(TABLE_1), *rows_of(TABLE_2)])
def test_the_papers_joint_scores_keep_their_bounds(row):
    assert within(row[3], row[:3], slack=0.02)  # printed with two digits


def judgments(rows: Any, columns: Any = ("item", "system", "annotator", "value")) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=list(columns), orient="row")


@pytest.fixture
def likert():
    return aliquot.synthetic(items=40, systems=3, protocol="likert", annotators=6, judgments_per_output=5, seed=1)


# -- methods -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "by_hand"),
    [
        ("mean", np.mean),
        ("median", np.median),
        ("trimmed:share=0.2", lambda values: np.mean(np.sort(values)[1:-1])),
        ("majority", lambda values: statistics.mode(values) if _decided(values) else np.nan),
    ],
)
def test_methods_by_hand(likert, method, by_hand):
    combined = aliquot.combine(likert, method)
    cells = likert.judgments.table.group_by("item", "system", maintain_order=True).agg("value")
    rows, columns = likert.cell_index(cells["item"], cells["system"])
    expected = [by_hand(np.array(values)) for values in cells["value"].to_list()]
    assert combined.evalset.scores["human"][rows, columns] == pytest.approx(expected, nan_ok=True)


def _decided(values: Any) -> bool:
    counts = sorted(np.unique(values, return_counts=True)[1], reverse=True)
    return len(counts) == 1 or counts[0] > counts[1]


def test_dawid_skene_is_crowd_kits(likert):
    crowdkit = pytest.importorskip("crowdkit.aggregation")
    pandas = pytest.importorskip("pandas")
    table = likert.judgments.table.with_columns(pl.concat_str("item", "system", separator="/").alias("task"))
    frame = pandas.DataFrame(
        {"task": table["task"].to_list(), "worker": table["annotator"].to_list(), "label": table["value"].to_list()}
    )
    theirs = crowdkit.DawidSkene(n_iter=40, tol=-1.0).fit_predict_proba(frame)
    ours = aliquot.combine(likert, "dawid_skene:threshold=0.9,smoothing=0,iterations=40")
    for row in ours.cells.iter_rows(named=True):
        posterior = theirs.loc[f"{row['item']}/{row['system']}"]
        assert row["confidence"] == pytest.approx(posterior.max(), abs=1e-6)
        assert row["value"] is None or row["value"] == posterior.idxmax()


def test_an_annotators_repeats_count_once():
    table = judgments([(0, "A", "x", 1.0), (0, "A", "x", 1.0), (0, "A", "x", 4.0), (0, "A", "y", 8.0)])
    combined = aliquot.combine(table)
    assert combined.evalset.scores["human"].item() == pytest.approx((2.0 + 8.0) / 2)
    assert any("2 repeated judgments" in note for note in combined.notes)
    votes = judgments([(0, "A", "x", 1.0)] * 3 + [(0, "A", "y", 0.0), (0, "A", "z", 0.0)])
    assert aliquot.combine(votes, "majority").evalset.scores["human"].item() == 0.0
    unnamed = judgments([(0, "A", None, 1.0), (0, "A", None, 3.0)])
    assert (
        aliquot.combine(unnamed.with_columns(pl.col("annotator").cast(pl.String))).evalset.scores["human"].item() == 2.0
    )


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from("AB"), st.sampled_from("xyz"), st.integers(0, 3)),
        min_size=1,
        max_size=50,
    ),
    st.sampled_from(["mean", "median", "trimmed", "majority", "dawid_skene"]),
)
def test_a_score_lies_among_the_answers(rows, method):
    table = judgments([(item, system, person, float(value)) for item, system, person, value in rows])
    combined = aliquot.combine(table, method)
    for row in combined.cells.iter_rows(named=True):
        given = table.filter((pl.col("item") == row["item"]) & (pl.col("system") == row["system"]))["value"].to_list()
        if row["value"] is not None:
            assert min(given) - 1e-9 <= row["value"] <= max(given) + 1e-9 or method == "dawid_skene"
        assert row["answers"] == len(given)
    undecided = combined.cells["value"].null_count()
    assert combined.queue.height == undecided
    if method in ("mean", "median", "trimmed"):
        assert undecided == 0


# -- the queue and the experts -------------------------------------------------------------------------------------


def crowd_of(seed: int = 0, items: int = 60, people: int = 10, skill: float = 0.75) -> Any:
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 2, items)
    rows = [
        (item, "A", f"w{person}", float(truth[item] if rng.random() < skill else 1 - truth[item]))
        for item in range(items)
        for person in range(people)
    ]
    return truth, judgments(rows)


def test_unsure_labels_wait_for_experts_least_sure_first():
    _, table = crowd_of(skill=0.65, people=5)
    combined = aliquot.combine(table, "dawid_skene", threshold=0.9)
    waiting = combined.queue
    assert 0 < waiting.height < 60
    assert (waiting["confidence"] <= 0.9).all()
    assert waiting["confidence"].is_sorted()
    decided = combined.cells.filter(pl.col("value").is_not_null())
    assert (decided["confidence"] > 0.9).all()
    assert any("wait for experts" in note for note in combined.notes)
    assert np.isnan(combined.evalset.scores["human"]).sum() == waiting.height


def test_the_queue_carries_the_texts(likert):
    waiting = aliquot.combine(likert, "majority", threshold=0.8).queue
    row = waiting.row(0, named=True)
    assert row["output"] == likert.outputs[row["system"]][row["item"]]
    assert row["source"] == likert.items["source"][row["item"]]


def test_experts_decide_where_they_answered():
    truth, table = crowd_of(skill=0.65, people=5)
    queue = aliquot.combine(table, "dawid_skene").queue
    answers = judgments([(item, "A", "expert", float(truth[item])) for item in queue["item"]])
    combined = aliquot.combine(pl.concat([table, answers]), "dawid_skene", experts=["expert"])
    assert combined.queue.height == 0
    scores = combined.evalset.scores["human"].ravel()
    settled = queue["item"].to_numpy()
    assert scores[settled].tolist() == truth[settled].tolist()
    assert "expert" not in combined.annotators["annotator"].to_list()
    with pytest.raises(NameUnknownError, match="unknown annotator 'boss'"):
        aliquot.combine(table, "majority", experts=["boss"])


def test_two_experts_who_disagree_leave_it_to_the_crowd():
    table = judgments([(0, "A", "x", 1.0), (0, "A", "y", 1.0), (0, "A", "e1", 0.0), (0, "A", "e2", 1.0)])
    assert aliquot.combine(table, "majority", experts=["e1", "e2"]).evalset.scores["human"].item() == 1.0


# -- formulas ------------------------------------------------------------------------------------------------------


def detoxified(seed: int, items: int = 50, *, source: bool = True) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    rows = []
    for item in range(items):
        for system in ["A", "B", *(["SRC"] if source else [])]:
            for criterion, values in (("sta", [0, 1]), ("sim", [0, 1]), ("fl", [0, 0.5, 1])):
                rows += [(item, system, f"w{p}", criterion, float(rng.choice(values))) for p in range(3)]
    return judgments(rows, ("item", "system", "annotator", "criterion", "value"))


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6))
def test_joint_scores_are_of_outputs_and_keep_the_bounds(seed):
    table = detoxified(seed, items=20, source=False)
    combined = aliquot.combine(table, "median", formula="sta * sim * fl")
    scores = combined.evalset.scores
    assert combined.score == combined.evalset.human == "human_joint"
    joint = scores["human_joint"]
    assert joint == pytest.approx(scores["human_sta"] * scores["human_sim"] * scores["human_fl"])
    for column in range(2):
        parts = [scores[f"human_{name}"][:, column].mean() for name in ("sta", "sim", "fl")]
        assert within(joint[:, column].mean(), parts, slack=1e-9)


def test_the_mean_of_products_is_not_the_product_of_means():
    rows = [(0, "A", "x", "p", 1.0), (0, "A", "x", "q", 0.0), (1, "A", "x", "p", 0.0), (1, "A", "x", "q", 1.0)]
    table = judgments(rows, ("item", "system", "annotator", "criterion", "value"))
    combined = aliquot.combine(table, formula="p * q")
    assert combined.systems["human_joint"].to_list() == [0.0]


def test_fluency_against_the_source():
    """FL = 1 if fl(output) >= fl(source) else 0 (P8.2)."""
    table = detoxified(3)
    combined = aliquot.combine(table, "median", formula="sta * sim * (fl >= source.fl)", source="SRC", name="J")
    assert combined.evalset.systems == ("A", "B")
    assert combined.score == combined.evalset.human == "J"
    each = {c: aliquot.combine(table, "median", criterion=c).evalset.scores[f"human_{c}"] for c in ("sta", "sim", "fl")}
    at = {system: column for column, system in enumerate(("A", "B", "SRC"))}
    for column, system in enumerate(("A", "B")):
        fluent = each["fl"][:, at[system]] >= each["fl"][:, at["SRC"]]
        expected = each["sta"][:, at[system]] * each["sim"][:, at[system]] * fluent
        assert combined.evalset.scores["J"][:, column] == pytest.approx(expected)


def test_a_criterion_missing_for_some_leaves_no_joint_score():
    rows = [(0, "A", "x", "p", 1.0), (0, "A", "x", "q", 3.0), (1, "A", "x", "p", 5.0)]
    table = judgments(rows, ("item", "system", "annotator", "criterion", "value"))
    for formula in ("p * q", None):
        combined = aliquot.combine(table, formula=formula)
        values = combined.evalset.scores[combined.score].ravel()
        assert np.isfinite(values).tolist() == [True, False]
        assert any("1 outputs lack a criterion" in note for note in combined.notes)
    assert combined.evalset.scores["human"].ravel()[0] == 2.0
    assert combined.evalset.scores["human_p"].ravel().tolist() == [1.0, 5.0]


def test_formulas_of_automatic_scores_need_no_judgments():
    data = aliquot.synthetic(items=10, systems=2, annotators=0, seed=1)
    combined = aliquot.combine(data, formula="metricA * 2 + human", name="auto")
    assert combined.evalset.scores["auto"] == pytest.approx(data.scores["metricA"] * 2 + data.scores["human"])


# -- scales --------------------------------------------------------------------------------------------------------


def test_recoding_of_the_coreference_scale():
    """P2.2: gravity {0,1,2} significant, {3..6} insignificant, {7} none."""
    table = judgments([(value, "A", "x", float(value)) for value in range(8)])
    combined = aliquot.combine(table, recode="0|1|2=0,3..6=1,7=2")
    assert combined.evalset.scores["human"].ravel().tolist() == [0, 0, 0, 1, 1, 1, 1, 2]
    with pytest.raises(DataError, match="are in no group"):
        aliquot.combine(table, recode="0|1|2=0,3..6=1")
    with pytest.raises(OptionError, match="scores are numbers"):
        aliquot.combine(table, recode="0..6=low,7=high")


def test_labels_need_a_worth():
    table = judgments([(0, "A", "x", "yes"), (0, "A", "y", "partially"), (0, "A", "z", "yes"), (1, "A", "x", "no")])
    combined = aliquot.combine(table, "majority", recode="no=0,partially=0.5,yes=1")
    assert combined.evalset.scores["human"].ravel().tolist() == [1.0, 0.0]
    with pytest.raises(DataError, match="judgments are labels"):
        aliquot.combine(table, "majority")
    with pytest.raises(DataError, match="'partially'"):
        aliquot.combine(table, recode="no=0,yes=1")
    column = table.rename({"value": "label"}).with_columns(pl.lit(None, dtype=pl.Float64).alias("value"))
    again = aliquot.combine(column, answer="label", recode="no=0,partially=0.5,yes=1")
    assert again.evalset.scores["human"].ravel().tolist() == pytest.approx([2.5 / 3, 0.0])


def test_recodings_by_criterion():
    rows = [(0, "A", "x", "p", 2.0), (0, "A", "x", "q", 2.0)]
    table = judgments(rows, ("item", "system", "annotator", "criterion", "value"))
    combined = aliquot.combine(table, recode=["p:1..2=0,3=1"])
    assert [combined.evalset.scores[f"human_{c}"].item() for c in "pq"] == [0.0, 2.0]
    both = aliquot.combine(table, recode={"p": "2=5", "q": "2=7"})
    assert [both.evalset.scores[f"human_{c}"].item() for c in "pq"] == [5.0, 7.0]
    with pytest.raises(NameUnknownError, match="unknown criterion 'r'"):
        aliquot.combine(table, recode=["p:2=1", "r:2=1"])


def test_mqm_errors_at_other_prices():
    errors = pl.DataFrame(
        {
            "item": [0, 0, 0, 1],
            "system": ["A"] * 4,
            "annotator": ["x", "x", "y", "x"],
            "value": [-5.0, -1.0, -5.0, 0.0],
            "error": [0, 1, 0, 0],
            "category": ["Accuracy/Addition", "Fluency/Punctuation", "Non-translation!", "No-error"],
            "severity": ["Major", "Minor", "Major", "no-error"],
        }
    )
    usual = aliquot.combine(errors, mqm_weights=MQMWeights())
    assert usual.evalset.scores["human"].ravel() == pytest.approx([(-5.1 - 25) / 2, 0.0])
    dear = aliquot.combine(errors, mqm_weights="major=10,minor_punctuation=2")
    assert dear.evalset.scores["human"].ravel() == pytest.approx([(-12 - 25) / 2, 0.0])
    assert not np.signbit(dear.evalset.scores["human"].ravel()[1])
    with pytest.raises(DataError, match="unknown severity 'grave'"):
        aliquot.combine(errors.with_columns(pl.lit("grave").alias("severity")), mqm_weights="major=1")
    with pytest.raises(DataError, match="category and severity"):
        aliquot.combine(errors.drop("severity"), mqm_weights="major=1")


# -- normalising ---------------------------------------------------------------------------------------------------


def test_normalised_scores(likert):
    z = aliquot.combine(likert, normalise="z")
    table = likert.judgments.table.with_columns(
        (
            (pl.col("value") - pl.col("value").mean().over("annotator")) / pl.col("value").std(ddof=0).over("annotator")
        ).alias("z")
    )
    cells = table.group_by("item", "system").agg(pl.col("z").mean())
    rows, columns = likert.cell_index(cells["item"], cells["system"])
    assert z.evalset.scores["human"][rows, columns] == pytest.approx(cells["z"].to_numpy())
    level = aliquot.combine(likert, normalise="crossed")
    assert {"severity", "severity_se", "noise"} <= set(level.annotators.columns)
    assert level.systems["human"].mean() == pytest.approx(aliquot.combine(likert).systems["human"].mean(), abs=0.1)
    with pytest.raises(OptionError, match="combines labels"):
        aliquot.combine(likert, "majority", normalise="z")


def test_annotators_with_one_answer_are_left_out_of_z_and_named():
    table = judgments([(item, "A", "x", float(item)) for item in range(6)] + [(0, "A", "once", 99.0)])
    combined = aliquot.combine(table, normalise="z")
    assert combined.cells.filter(pl.col("item") == 0)["answers"].item() == 1
    assert any("fewer than 5" in note for note in combined.notes)


# -- the curve -----------------------------------------------------------------------------------------------------


def curve_of(table: pl.DataFrame, method: str, **options: Any) -> LabelsCurve:
    curve = aliquot.combine(table, method, curve=True, repeats=10, **options).curve
    assert curve is not None
    return curve


def test_the_curve_falls_to_nothing():
    _, table = crowd_of()
    curve = curve_of(table, "majority:threshold=0.0", seed=3)
    points = curve.table
    assert points["k"].to_list() == list(range(1, 11))
    assert points["wrong"][0] > points["wrong"][2] > points["wrong"][6]
    assert points["wrong"][9] == 0
    assert curve.outputs == {"all": 60}
    assert curve.against == "all answers"
    again = curve_of(table, "majority:threshold=0.0", seed=3)
    assert again.table.equals(points)


def test_the_curve_against_experts_does_not_end_at_nothing():
    truth, table = crowd_of(seed=2, skill=0.6)
    gold = judgments([(item, "A", "gold", float(truth[item])) for item in range(60)])
    curve = curve_of(pl.concat([table, gold]), "majority", experts=["gold"])
    assert curve.against == "experts"
    assert curve.table["wrong"][0] == pytest.approx(0.4, abs=0.06)
    assert curve.table["wrong"][-1] > 0


def test_no_curve_without_overlap():
    table = judgments([(item, "A", "x", 1.0) for item in range(30)])
    curve = curve_of(table, "mean")
    assert curve.table.height == 0
    assert any("there is no curve" in note for note in curve.notes)


# -- odd data ------------------------------------------------------------------------------------------------------


def test_what_does_not_count():
    table = judgments([(0, "A", "x", 1.0), (0, "A", "y", 5.0), (0, "A", "z", 9.0), (0, "A", "w", None)])
    table = table.with_columns(
        pl.Series("marked", [None, "speeders", None, None]), pl.Series("control", [False, False, True, False])
    )
    combined = aliquot.combine(table)
    assert combined.evalset.scores["human"].item() == 1.0
    assert "1 marked judgments left out" in combined.notes
    assert "1 pending judgments left out" in combined.notes
    assert "1 judgments on control items left out" in combined.notes
    with pytest.raises(DataError, match="no judgment is left"):
        aliquot.combine(table.with_columns(pl.lit("all").alias("marked")))


def test_one_annotator():
    table = judgments([(item, "A", "x", float(item % 2)) for item in range(10)])
    combined = aliquot.combine(table, "dawid_skene")
    assert any("one annotator" in note for note in combined.notes)
    assert aliquot.combine(table, "majority").queue.height == 0


def test_labels_of_nobody():
    table = judgments([(0, "A", None, 1.0), (0, "A", "x", 1.0)])
    assert any("1 judgments name no annotator" in note for note in aliquot.combine(table, "dawid_skene").notes)
    nobody = table.with_columns(pl.lit(None, dtype=pl.String).alias("annotator"))
    with pytest.raises(DataError, match="no judgment has an annotator id; use majority"):
        aliquot.combine(nobody, "dawid_skene")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"method": "average"}, NameUnknownError, "unknown way to combine 'average'"),
        ({"method": "trimmed:share=0.5"}, OptionError, "below 0.5"),
        ({"method": "dawid_skene:threshold=1"}, OptionError, "threshold=1"),
        ({"method": "dawid_skene:smoothing=-1"}, OptionError, "smoothing=-1"),
        ({"method": "mean", "threshold": 0.9}, NameUnknownError, "no parameter 'threshold'"),
        ({"criterion": "style"}, NameUnknownError, "unknown criterion 'style'"),
        ({"formula": "style * 2"}, NameUnknownError, "unknown criterion or score 'style'"),
        ({"formula": "likert", "criterion": "likert"}, OptionError, "exclude each other"),
        ({"formula": "likert >= source.likert"}, OptionError, "`source`"),
        ({"source": "input"}, NameUnknownError, "unknown system 'input'"),
        ({"answer": "label"}, NameUnknownError, "unknown judgment column 'label'"),
        ({"normalise": "zscore"}, NameUnknownError, "unknown way to normalise"),
    ],
)
def test_what_cannot_be_asked(likert, options, error, message):
    with pytest.raises(error, match=message):
        aliquot.combine(likert, **options)


def test_measurements_are_no_labels():
    data = aliquot.synthetic(items=60, systems=2, protocol="da", seed=1)
    with pytest.raises(OptionError, match="too many for labels"):
        aliquot.combine(data, "majority")


def test_no_judgments_at_all():
    with pytest.raises(DataError, match="there are no judgments"):
        aliquot.combine(aliquot.synthetic(items=5, systems=2, annotators=0))


def test_the_score_serves_estimate_and_survives_files(likert, tmp_path):
    combined = aliquot.combine(likert, "median", name="human_median")
    aliquot.save(combined.evalset, tmp_path / "scored.jsonl")
    back = aliquot.load(tmp_path / "scored.jsonl")
    assert back.human == "human_median"
    result = aliquot.estimate(back, "mean")
    means = dict(combined.systems.select("system", "human_median").iter_rows())
    assert {row.system: row.estimate for row in result.systems} == pytest.approx(means)


def test_the_signature_reproduces(likert):
    line = aliquot.combine(likert, "majority", threshold=0.6, recode="1|2=0,3..5=1").signature
    assert line == (
        f"aliquot:{aliquot.__version__}|combine|method:majority:threshold=0.6|recode:(1|2=0,3..5=1)"
        f"|data:{likert.fingerprint}"
    )


def test_a_formula_without_a_number_is_told():
    data = aliquot.synthetic(items=20, systems=2, protocol="da", seed=1)
    joined = aliquot.combine(data, formula="human / 0", name="joint")
    assert np.isnan(joined.evalset.scores["joint"]).all()
    assert any('"human / 0" gives no number on 40 of 40 outputs: it divides by 0' in note for note in joined.notes)
    assert not any("gives no number" in note for note in aliquot.combine(data, formula="human / 2", name="joint").notes)


# -- noise of judgments --------------------------------------------------------------------------------------------


def block(*rows: tuple[int, str, str, float]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=["item", "system", "annotator", "value"], orient="row").with_columns(turn=0)


CROSSED = ((1, "A", "x", 1.0), (1, "B", "x", 3.0), (1, "A", "y", 4.0), (1, "B", "y", 4.0))


def test_the_noise_of_a_difference_by_hand():
    """Item 1 leaves -1/2, 1/2, 1/2, -1/2 beside annotators and systems: 1 with one degree of freedom, and 2 of them."""
    once = ((2, "A", "x", 5.0), (2, "B", "x", 9.0))
    assert difference_noise(block(*CROSSED, *once), 7.0) == pytest.approx((2.0, True))
    later = block((1, "A", "x", 50.0)).with_columns(turn=1)
    assert difference_noise(pl.concat([block(*CROSSED), later]), 7.0) == pytest.approx((2.0, True))
    equal = tuple((3, system, who, 2.0) for system in "AB" for who in "xy")  # one more degree of freedom, and nothing
    assert difference_noise(block(*CROSSED, *equal), 7.0) == pytest.approx((1.0, True))
    three = tuple((4, system, who, 2.0) for system in "ABC" for who in "xy")  # two more
    assert difference_noise(block(*CROSSED, *three), 7.0) == pytest.approx((2 / 3, True))


def test_severity_does_not_cancel_where_annotators_judge_parts_of_an_item():
    parts = ((1, "A", "x", 1.0), (1, "A", "y", 4.0), (1, "B", "y", 4.0))
    assert difference_noise(block(*parts), 7.0) == (14.0, False)
    assert difference_noise(block(*CROSSED[:2]), 7.0) == (14.0, False)
    many = tuple((item, "A", who, 1.0) for item in (5, 6) for who in "xy")
    assert difference_noise(block(*CROSSED, *many), 7.0) == pytest.approx((2.0, True))  # half of those judged twice
    assert difference_noise(block(*CROSSED, *many, (7, "A", "x", 1.0), (7, "A", "y", 1.0)), 7.0) == (14.0, False)
