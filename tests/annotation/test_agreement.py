"""`agreement`: its coefficients against reference libraries, its tables, and what it says of too little."""

from __future__ import annotations

import itertools
from typing import Any

import krippendorff
import numpy as np
import polars as pl
import pytest
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats.inter_rater import aggregate_raters, fleiss_kappa

import aliquot
from aliquot import EvalSet, Judgments, agreement, synthetic
from aliquot.annotation.agreement_result import TABLES, pair_matrix
from aliquot.errors import DataError, NameUnknownError, OptionError
from aliquot.stats.alpha import MeasurementLevel
from aliquot.stats.arrays import FloatArray


def table_of(answers: FloatArray, **constant: Any) -> pl.DataFrame:
    """A judgments table of units x annotators; three units an item."""
    unit, annotator = np.nonzero(np.isfinite(answers))
    return pl.DataFrame(
        {
            "item": unit // 3,
            "system": [f"s{u % 3}" for u in unit],
            "annotator": [f"a{code}" for code in annotator],
            "value": answers[unit, annotator],
        }
    ).with_columns(pl.lit(value).alias(name) for name, value in constant.items())


def likert(seed: int = 0, units: int = 60, people: int = 4, gaps: float = 0.0) -> FloatArray:
    rng = np.random.default_rng(seed)
    answers: FloatArray = np.clip(rng.integers(1, 6, (units, 1)) + rng.integers(-1, 2, (units, people)), 1, 5).astype(
        float
    )
    answers[rng.random(answers.shape) < gaps] = np.nan
    return answers


LIKERT = likert(gaps=0.3)


# -- coefficients --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["nominal", "ordinal", "interval", "ratio"])
def test_alpha_is_the_librarys(level: MeasurementLevel) -> None:
    result = agreement(table_of(LIKERT), level=level, bootstrap=0)
    expected = krippendorff.alpha(reliability_data=LIKERT.T, level_of_measurement=level)
    assert result["alpha"] == pytest.approx(float(expected), abs=1e-9)
    assert result.level == level


def test_two_annotators_have_cohens_kappa() -> None:
    answers = likert(people=2)
    result = agreement(table_of(answers), measures=["kappa", "kappa_linear", "kappa_quadratic", "raw"], bootstrap=0)
    a, b = answers.T
    assert result["kappa"] == pytest.approx(cohen_kappa_score(a, b))
    assert result["kappa_linear"] == pytest.approx(cohen_kappa_score(a, b, weights="linear"))
    assert result["kappa_quadratic"] == pytest.approx(cohen_kappa_score(a, b, weights="quadratic"))
    assert result["raw"] == pytest.approx(np.mean(a == b))


def test_fleiss_and_means_over_pairs() -> None:
    answers = likert()
    result = agreement(table_of(answers), measures=["fleiss", "pearson", "spearman", "kappa"], bootstrap=0)
    pairs = list(itertools.combinations(range(4), 2))
    assert result["fleiss"] == pytest.approx(fleiss_kappa(aggregate_raters(answers.astype(int))[0]))
    for name, function in (("pearson", pearsonr), ("spearman", spearmanr)):
        assert result[name] == pytest.approx(np.mean([function(answers[:, a], answers[:, b])[0] for a, b in pairs]))
    assert result["kappa"] == pytest.approx(
        np.mean([cohen_kappa_score(answers[:, a], answers[:, b]) for a, b in pairs])
    )


def test_published_intraclass_correlations() -> None:
    scores = np.array([[9.0, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]])
    names = ["icc1", "icc2", "icc3", "icc1k", "icc2k", "icc3k"]
    result = agreement(table_of(scores), measures=names, bootstrap=0)
    assert [round(result[name], 2) for name in names] == [0.17, 0.29, 0.71, 0.44, 0.62, 0.91]


def test_intervals_hold_their_values_and_follow_the_seed() -> None:
    result = agreement(table_of(LIKERT), bootstrap=200, seed=3)
    frame = result.coefficients
    assert (frame["low"] < frame["value"]).all()
    assert (frame["value"] < frame["high"]).all()
    assert agreement(table_of(LIKERT), bootstrap=200, seed=3).coefficients.equals(frame)
    assert not agreement(table_of(LIKERT), bootstrap=200, seed=4).coefficients.equals(frame)
    narrow = agreement(table_of(LIKERT), bootstrap=200, seed=3, confidence=0.5).coefficients
    assert (narrow["high"] - narrow["low"] < frame["high"] - frame["low"]).all()


@pytest.mark.parametrize(
    ("values", "level"),
    [
        (["yes", "no"], "nominal"),
        ([0, 1], "nominal"),
        ([0, 0.5, 1], "ordinal"),
        (range(11), "ordinal"),
        (range(12), "interval"),
    ],
)
def test_the_level_is_told_by_the_answers(values: Any, level: str) -> None:
    answers = list(values)
    rows = [
        (u, "s", who, answers[(u + shift) % len(answers)]) for u in range(24) for who, shift in (("x", 0), ("y", u % 2))
    ]
    table = pl.DataFrame(rows, schema=["item", "system", "annotator", "value"], orient="row")
    assert agreement(table, bootstrap=0).level == level


# -- groups of judgments ---------------------------------------------------------------------------------------------


def test_criteria_domains_and_any_column() -> None:
    data = synthetic(items=60, systems=3, protocol="da", annotators=4, judgments_per_output=2, seed=1)
    assert data.judgments is not None
    other = data.judgments.table.with_columns(criterion=pl.lit("flow"), value=pl.col("value").reverse())
    both = EvalSet(data.items, data.systems, judgments=Judgments(pl.concat([data.judgments.table, other])))
    result = agreement(both, bootstrap=0, measures=["alpha"])
    groups = result.coefficients.select("kind", "group").rows()
    domains = data.items["domain"].unique(maintain_order=True).to_list()
    assert groups[:3] == [("all", "all"), ("criterion", "da"), ("criterion", "flow")]
    assert sorted(groups[3:]) == sorted(("domain", domain) for domain in domains)
    alone = agreement(data, bootstrap=0, measures=["alpha"])
    values = dict(result.coefficients.select("group", "value").rows())
    assert values["da"] == pytest.approx(alone["alpha"])
    assert any("2 criteria are pooled" in note for note in result.notes)
    by_document = agreement(data, by="document", bootstrap=0, measures=["raw"]).coefficients
    assert by_document.filter(pl.col("kind") == "document").height == data.items["document"].n_unique()
    assert agreement(data, by="none", bootstrap=0).coefficients["kind"].unique().to_list() == ["all"]


def test_a_criterion_that_some_did_not_judge() -> None:
    table = pl.concat([table_of(likert(1), criterion="fluency"), table_of(likert(2, people=2), criterion="adequacy")])
    result = agreement(table, bootstrap=0)
    assert "2 of 4 annotators did not judge 'adequacy'" in result.notes
    rows = result.coefficients.filter(pl.col("measure") == "alpha").select("group", "annotators").rows()
    assert rows == [("all", 4), ("fluency", 4), ("adequacy", 2)]


def test_one_map_changes_the_scale_and_several_are_compared() -> None:
    table = table_of(likert())
    one = agreement(table, recode="1|2=low,3|4|5=high", bootstrap=0)
    assert (one.labels, one.level) == (("low", "high"), "nominal")
    assert one.answers["answer"].unique(maintain_order=True).to_list() == ["low", "high"]
    several = agreement(table, recode=["two:1|2=low,3|4|5=high", "three:1|2=1,3=2,4|5=3"], bootstrap=0)
    assert several.labels is None
    scales = several.coefficients.filter(pl.col("kind") == "scale", pl.col("measure") == "alpha")
    assert scales["group"].to_list() == ["two", "three"]
    assert scales["value"][0] == pytest.approx(one["alpha"])
    ordered = agreement(table, recode="1|2=bad,3=fair,4|5=good", level="ordinal", bootstrap=0)
    same = agreement(table, recode="1|2=1,3=2,4|5=3", level="ordinal", bootstrap=0)
    assert ordered["alpha"] == pytest.approx(same["alpha"])
    assert ordered["kappa_quadratic"] == pytest.approx(same["kappa_quadratic"])


def test_choosing_outputs_by_agreement_raises_it() -> None:
    answers = likert(people=6)
    result = agreement(table_of(answers), max_distinct=2, measures=["alpha"], bootstrap=0)
    whole, chosen = result.coefficients.rows(named=True)
    assert chosen["group"] == "at most 2 different answers"
    assert chosen["value"] > whole["value"]
    assert chosen["outputs"] == sum(len(set(row[np.isfinite(row)])) <= 2 for row in answers) < whole["outputs"]


def test_groups_of_annotators_are_compared_by_their_means() -> None:
    answers = likert()
    answers[:, 2:] = answers[np.random.default_rng(0).permutation(60), 2:]
    result = agreement(table_of(answers), groups="experts=a0|a1,crowd=a2|a3", bootstrap=0)
    row = result.groups.row(0, named=True)
    experts, crowd = answers[:, :2].mean(axis=1), answers[:, 2:].mean(axis=1)
    assert row["pearson"] == pytest.approx(pearsonr(experts, crowd)[0])
    assert row["spearman"] == pytest.approx(spearmanr(experts, crowd)[0])
    assert row["difference"] == pytest.approx((experts - crowd).mean())
    kinds = result.coefficients.filter(pl.col("kind") == "group")["group"].unique(maintain_order=True)
    assert kinds.to_list() == ["experts", "crowd"]
    assert "|groups:experts=a0|a1,crowd=a2|a3|" in result.signature  # who is in them, or it could not be repeated


def test_a_column_may_make_the_groups() -> None:
    """The same people judge the same outputs under two protocols: no repeats, but two sets of judgments."""
    one, two = likert(1), likert(2)
    table = pl.concat([table_of(one, protocol="DA"), table_of(two, protocol="ESA")])
    result = agreement(table, groups="protocol", bootstrap=0)
    row = result.groups.row(0, named=True)
    assert (row["a"], row["b"], row["shared"]) == ("DA", "ESA", 60)
    assert row["pearson"] == pytest.approx(pearsonr(one.mean(axis=1), two.mean(axis=1))[0])
    values = dict(result.coefficients.filter(pl.col("measure") == "alpha").select("group", "value").rows())
    assert values["ESA"] == pytest.approx(agreement(table_of(two), bootstrap=0)["alpha"])
    with pytest.raises(NameUnknownError, match="unknown item or judgment column 'experts'"):
        agreement(table, groups="experts", bootstrap=0)


# -- tables --------------------------------------------------------------------------------------------------------


def test_pairs() -> None:
    result = agreement(table_of(LIKERT), bootstrap=0)
    assert result.pairs.height == 6
    for row in result.pairs.iter_rows(named=True):
        a, b = (LIKERT[:, int(row[side][1])] for side in ("a", "b"))
        both = np.isfinite(a) & np.isfinite(b)
        assert row["shared"] == both.sum()
        assert row["raw"] == pytest.approx((a == b)[both].mean())
        assert row["kappa"] == pytest.approx(cohen_kappa_score(a[both], b[both]))
        assert row["kappa"] <= row["kappa_max"] <= 1
        assert row["difference"] == pytest.approx((a - b)[both].mean())
        assert 0 <= row["p_margins"] <= 1


def test_pairs_of_a_continuous_scale_have_correlations_only() -> None:
    data = synthetic(items=40, systems=3, protocol="da", annotators=3, judgments_per_output=2, seed=2)
    row = agreement(data, bootstrap=0).pairs.row(0, named=True)
    assert row["kappa"] is None
    assert row["pearson"] is not None
    assert row["spearman"] is not None


def test_the_square_table_has_margins() -> None:
    rows = [("x", "yes"), ("y", "yes"), ("x", "yes"), ("y", "no"), ("x", "no"), ("y", "no")]
    table = pl.DataFrame(
        {"item": [0, 0, 1, 1, 2, 2], "annotator": [who for who, _ in rows], "value": [said for _, said in rows]}
    )
    result = agreement(table, bootstrap=0)
    assert result.table("x", "y").rows() == [("no", 1, 0, 1), ("yes", 1, 1, 2), ("all", 2, 1, 3)]
    assert result.table("y", "x").rows() == [("no", 1, 1, 2), ("yes", 0, 1, 1), ("all", 1, 2, 3)]
    assert result.answers.filter(pl.col("annotator") == "x")["count"].to_list() == [1, 2]
    with pytest.raises(OptionError, match="no table of 'x' and 'z'"):
        result.table("x", "z")


def test_annotators() -> None:
    rng = np.random.default_rng(3)
    truth = rng.normal(50, 15, (200, 1))
    answers = truth + rng.normal(0, [[3, 6, 12, 40]], (200, 4)) - [[0, 0, 10, 0]]
    frame = agreement(table_of(answers.round()), bootstrap=0).annotators
    assert frame["reliability"].arg_sort(descending=True).to_list() == [0, 1, 2, 3]
    assert frame["pearson"].arg_min() == 3
    assert frame["severity"].arg_max() == 2
    assert frame["alpha_without"].arg_max() == 3
    assert frame["trust"].max() == 1.0
    assert frame["trust"].arg_min() == 3


def test_trust_is_that_of_the_notes() -> None:
    worked = np.array(
        [[1, 2, 3, 1, 2, 3, 1, 2], [1, 2, 3, 1, 2, 3, 1, 3], [1, 2, 3, 1, 2, 2, 1, 2], [3, 1, 1, 2, 3, 1, 2, 2]],
        dtype=float,
    ).T
    printed = agreement(table_of(worked), level="nominal", bootstrap=0)
    assert [round(value, 4) for value in printed.annotators["trust"]] == [1.0, 0.8364, 0.8002, 0.0048]
    assert printed.annotators["outlier"].to_list() == [False, False, False, True]
    released = agreement(table_of(worked), level="nominal", trust_variant="released", bootstrap=0)
    assert [round(value, 4) for value in released.annotators["trust"]] == [1.0, 0.8729, 0.8385, 0.0039]
    assert agreement(table_of(worked), trust=False, bootstrap=0).annotators["trust"].null_count() == 4


def test_many_annotators_have_trust_only_when_asked() -> None:
    answers = likert(units=30, people=17)
    quiet = agreement(table_of(answers), bootstrap=0)
    assert quiet.annotators["trust"].null_count() == 17
    assert any("set `trust=True`" in note for note in quiet.notes)
    asked = agreement(table_of(answers), trust=True, bootstrap=0)
    assert asked.annotators["trust"].null_count() == 0
    assert any("random combinations of 17 annotators" in note for note in asked.notes)


def test_repeats() -> None:
    table = pl.concat([table_of(likert(1)), table_of(likert(1)).head(8).with_columns(pl.col("value") + 1)])
    result = agreement(table, bootstrap=0)
    everybody = result.repeats.row(0, named=True)
    assert (everybody["annotator"], everybody["repeats"], everybody["same"]) == ("all", 8, 0.0)
    assert everybody["mean_difference"] == 1
    assert result["alpha"] == pytest.approx(agreement(table_of(likert(1)), bootstrap=0)["alpha"])
    assert any("8 repeats by the same annotator, 8 of them with another judgment" in note for note in result.notes)


def test_camps_are_told() -> None:
    rng = np.random.default_rng(5)
    answers = np.repeat(rng.normal(size=(90, 2)), [4, 3], axis=1) + 0.4 * rng.normal(size=(90, 7))
    assert any("there may be camps" in note for note in agreement(table_of(answers), bootstrap=0).notes)
    assert not any("camps" in note for note in agreement(table_of(likert()), bootstrap=0).notes)


SPANS = pl.DataFrame(
    {
        "item": [0, 0, 0, 1, 1, 1, 1],
        "system": ["A"] * 7,
        "annotator": ["x", "x", "y", "x", "y", "y", "x"],
        "value": [-1.0, -5.0, -1.0, 0.0, -1.0, -5.0, -1.0],
        "error": [0, 1, 0, 0, 0, 1, 1],
        "severity": ["minor", "major", "minor", None, "minor", "major", "Minor"],
        "start": [0, 10, 2, None, 5, 20, 6],
        "end": [4, 14, 6, None, 9, 20, 8],
    }
)


def test_spans() -> None:
    result = agreement(SPANS, bootstrap=50)
    assert result.spans.row(1, named=True) == {
        "a": "x",
        "b": "y",
        "outputs": 2,
        "f1": pytest.approx(2 * 4 / 18),
        "f1_severity": pytest.approx(2 * 4 / 18),
        "severity_match": 1.0,
    }
    assert result["span_f1"] == pytest.approx(8 / 18)
    written = SPANS.with_columns(pl.col("start", "end").cast(pl.String), repeat=pl.lit("no"))
    assert agreement(written, bootstrap=0).spans.equals(agreement(SPANS, bootstrap=0).spans)
    assert agreement(SPANS.with_columns(pl.col("start").cast(pl.Float64)), bootstrap=0).spans.height == 2


@pytest.mark.parametrize(("column", "value"), [("end", "-1"), ("end", None), ("start", "two"), ("start", "-2")])
def test_spans_that_are_none(column: str, value: str | None) -> None:
    wrong = SPANS.with_columns(pl.col("start", "end").cast(pl.String)).with_row_index()
    wrong = wrong.with_columns(pl.when(pl.col("index") == 0).then(pl.lit(value)).otherwise(column).alias(column))
    with pytest.raises(DataError, match=r"judgment of x on item 0, system A: the span from .* is not one"):
        agreement(wrong, bootstrap=0)


def test_spans_in_the_source_are_in_another_text() -> None:
    sides = SPANS.with_columns(span_in=pl.Series(["source", *["output"] * 6]))
    assert agreement(sides, bootstrap=0).spans["f1"][0] == pytest.approx(2 * 2 / 18)


# -- little to say -------------------------------------------------------------------------------------------------


def test_one_annotator() -> None:
    answers = likert(people=1)
    result = agreement(pl.concat([table_of(answers), table_of(answers).head(5)]), bootstrap=50)
    assert np.isnan(result["alpha"])
    assert "one annotator (a0): agreement is undefined, it needs at least two" in result.notes
    assert result.repeats["same"].to_list() == [1.0, 1.0]
    assert result.pairs.height == 0


def test_no_overlap() -> None:
    answers = np.array([[1.0, np.nan], [np.nan, 2.0], [3.0, np.nan]])
    result = agreement(table_of(answers), bootstrap=50)
    assert result.coefficients["value"].null_count() == result.coefficients.height
    assert any("no output was judged by two annotators" in note for note in result.notes)
    assert result.annotators["compared"].to_list() == [0, 0]


def test_equal_answers() -> None:
    result = agreement(table_of(np.full((6, 3), 4.0)), bootstrap=50)
    assert result["raw"] == 1
    assert np.isnan(result["alpha"])
    assert any("all compared judgments are equal" in note for note in result.notes)


def test_an_annotator_with_one_answer() -> None:
    answers = likert(people=3)
    answers[1:, 2] = np.nan
    result = agreement(table_of(answers), bootstrap=0)
    last = result.annotators.row(2, named=True)
    assert any(note.startswith("1 of 3 annotators were compared on fewer than 10 judgments") for note in result.notes)
    assert (last["answers"], last["compared"]) == (1, 1)
    assert last["reliability"] is None
    assert last["pearson"] is None
    assert last["severity"] is not None


def test_annotators_who_share_nothing_are_told() -> None:
    answers = np.vstack([likert(people=2), np.full((3, 2), np.nan)])
    answers = np.column_stack([answers, [*[np.nan] * 60, 1, 2, 3]])
    result = agreement(table_of(answers), bootstrap=0)
    assert "1 of 3 annotators share no output with any other annotator" in result.notes
    assert result.annotators["trust"][2] is None


def test_several_protocols_are_told() -> None:
    table = pl.concat([table_of(likert(), protocol="DA"), table_of(likert(3), protocol="ESA")])
    pooled = agreement(table, bootstrap=0)
    assert any("judgments of 2 protocols are pooled in 'all'" in note for note in pooled.notes)
    assert pooled.repeats["repeats"][0] == 240
    by = agreement(table, by="protocol", measures=["alpha"], bootstrap=0)
    assert by.repeats.height == 0  # the same output again, but under another protocol
    values = dict(by.coefficients.filter(pl.col("kind") == "protocol").select("group", "value").rows())
    for protocol, seed in (("DA", 0), ("ESA", 3)):
        assert values[protocol] == pytest.approx(agreement(table_of(likert(seed)), bootstrap=0)["alpha"])


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"level": "metric"}, NameUnknownError, "unknown level 'metric'"),
        ({"measures": ["span_f1"]}, OptionError, "'span_f1' is not asked for; it is shown by itself"),
        ({"measures": ["alfa"]}, NameUnknownError, "unknown measure 'alfa'; did you mean 'alpha'?"),
        ({"measures": []}, OptionError, "name at least one"),
        ({"by": "genre"}, NameUnknownError, "unknown item or judgment column 'genre'"),
        ({"recode": "1|2=low"}, DataError, "are in no group"),
        ({"recode": ["1..5=a", "1..3=a,4..5=b", "scale 1:1..5=x"]}, OptionError, "the same name"),
        ({"max_distinct": 0}, OptionError, "`max_distinct` is 0"),
        ({"bootstrap": -1}, OptionError, "-1"),
        ({"confidence": 2.0}, OptionError, "2.0"),
        ({"trust_variant": "mine"}, NameUnknownError, "'mine'"),
        ({"scale": (0, 4)}, DataError, "outside the scale 0 to 4"),
        ({"recode": "1..2=low,3..5=high", "level": "interval"}, OptionError, "the judgments are labels"),
    ],
)
def test_what_is_refused(options: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as caught:
        agreement(table_of(likert()), **options)
    assert message in str(caught.value)


def test_labels_have_no_order() -> None:
    table = table_of(likert()).with_columns(pl.col("value").replace_strict([1, 2, 3, 4, 5], list("edcba")))
    with pytest.raises(OptionError, match="the labels have no order"):
        agreement(table, level="ordinal")
    pairs = agreement(table, bootstrap=0).pairs
    assert pairs["kappa"].null_count() == 0
    assert pairs["pearson"].null_count() == pairs.height
    numbers = agreement(table_of(likert()), level="nominal", bootstrap=0)
    assert numbers["alpha"] == pytest.approx(agreement(table, bootstrap=0)["alpha"])
    assert numbers.annotators["severity"].null_count() == 4  # numbers that stand for labels


# -- the result ----------------------------------------------------------------------------------------------------


def test_result() -> None:
    data = synthetic(items=30, systems=2, protocol="likert", annotators=3, judgments_per_output=2, seed=1)
    result = aliquot.agreement(data, bootstrap=20, seed=4)
    assert result.signature.startswith(f"aliquot:{aliquot.__version__}|agreement|level:ordinal|by:domain")
    assert result.signature.endswith(f"seed:4|data:{data.fingerprint}")
    assert "3 annotators, ordinal: raw" in repr(result)
    document = result.to_dict()
    assert set(TABLES) <= document.keys()
    assert all(result.to_frame(name).height == len(document[name]) for name in TABLES)
    with pytest.raises(NameUnknownError, match="unknown table 'pair'"):
        result.to_frame("pair")
    with pytest.raises(NameUnknownError, match="unknown measure 'fleiss'"):
        result["fleiss"]


def test_signatures_tell_judgments_apart() -> None:
    one, other = table_of(likert(1)), table_of(likert(2))
    signs = {agreement(table, bootstrap=0).signature for table in (one, other, one)}
    assert len(signs) == 2


def test_nothing_of_the_callers_changes() -> None:
    table = table_of(LIKERT)
    before = table.clone()
    agreement(table, bootstrap=10, recode="1..2=a,3..5=b")
    assert table.equals(before)


def test_a_pair_of_systems_is_one_question() -> None:
    """Two annotators choose between X and Y and between X and Z of the same items: four judgments, no repeats."""
    rows = [
        (item, who, "X", other, choice)
        for item, choices in enumerate(["ab", "bb", "aa", "ba"])
        for who, flip in (("p", False), ("q", item == 3))
        for other, choice in zip("YZ", choices[::-1] if flip else choices, strict=True)
    ]
    table = pl.DataFrame(rows, schema=["item", "annotator", "system_a", "system_b", "choice"], orient="row")
    result = agreement(table, answer="choice", bootstrap=0)
    assert result.coefficients["outputs"][0] == 8
    assert result["raw"] == 6 / 8
    assert not result.repeats.height
    joined = table.with_columns(item=pl.format("{} {}", "item", "system_b")).drop("system_a", "system_b")
    assert agreement(joined, answer="choice", bootstrap=0)["alpha"] == pytest.approx(result["alpha"])


def test_pairs_of_annotators_as_a_square_by_hand():
    """x and y agree fully, z with neither; w judged nothing that another one did."""
    columns = {"x": [1, 2, 3, 4], "y": [1, 2, 3, 4], "z": [4, 1, 3, 2]}
    rows = [(item, "A", who, float(value)) for who, values in columns.items() for item, value in enumerate(values)]
    frame = pl.DataFrame([*rows, (9, "A", "w", 1.0)], schema=["item", "system", "annotator", "value"], orient="row")
    result = agreement(frame, bootstrap=0, level="interval")
    square = pair_matrix(result)
    z = float(np.corrcoef(columns["x"], columns["z"])[0, 1])
    nan = float("nan")
    assert square.measure == "pearson"
    assert square.annotators == ("x", "y", "z", "w")
    np.testing.assert_allclose(square.values, [[nan, 1, z, nan], [1, nan, z, nan], [z, z, nan, nan], [nan] * 4])
    assert pair_matrix(result, "spearman").values[0, 1] == pytest.approx(1.0)
    measures = [pair_matrix(agreement(frame, bootstrap=0, level=level)).measure for level in ("nominal", "ordinal")]
    assert measures == ["kappa", "kappa_quadratic"]
    with pytest.raises(NameUnknownError, match="unknown measure of pairs 'r'"):
        pair_matrix(result, "r")
