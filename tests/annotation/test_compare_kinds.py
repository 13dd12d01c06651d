"""Verifying two systems at once, post-editing, criteria, error importance and groups of people."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import aliquot
from aliquot.annotation.compare import compare
from aliquot.annotation.survey import survey
from aliquot.annotation.verification import Verification
from aliquot.errors import DataError, MissingExtraError, NameUnknownError, OptionError

# -- verify --------------------------------------------------------------------------------------------------------

SENSES = {"1": 2425, "2": 480, "both": 1378, "0": 1101, "c": 57, "f": 393}


def senses() -> pl.DataFrame:
    labels = [label for label, count in SENSES.items() for _ in range(count)]
    return pl.DataFrame({"item": range(len(labels)), "choice": labels})


def test_word_senses_of_the_proceedings():
    """Notes, P10: both accuracies, their overlap and McNemar's test from one pass."""
    assert sum(SENSES.values()) == 5834
    result = compare(senses(), "verify", systems=["AW", "DB"], ignore=["c", "f"])
    pair = result.pairs[0]
    n = 5834 - 57 - 393
    assert (pair.n, pair.only_a, pair.only_b, pair.both, pair.none) == (n, 2425, 480, 1378, 1101)
    assert pair.chi2 == pytest.approx(1300.9, abs=0.05)
    assert pair.accuracy_a == pytest.approx((2425 + 1378) / n)
    assert pair.both_share == pytest.approx(1378 / n)
    assert pair.difference == pytest.approx((2425 - 480) / n)
    assert pair.low < pair.difference < pair.high
    assert pair.p == pytest.approx(pair.p_exact, rel=1e-6)  # one judgment per item
    assert any("left out: 450" in note for note in result.notes)


def test_verify_is_told_by_its_labels_and_sides_are_aligned():
    table = pl.DataFrame(
        {
            "item": [1, 2, 3, 4, 1],
            "annotator": ["p", "p", "p", "p", "q"],
            "system_a": ["X", "Y", "X", "X", "Y"],
            "system_b": ["Y", "X", "Y", "Y", "X"],
            "choice": ["only a", "only a", "both", "none", "only b"],
        }
    )
    result = compare(table)
    assert isinstance(result, Verification)
    (pair,) = result.pairs
    assert (pair.a, pair.b, pair.only_a, pair.only_b, pair.clusters) == ("X", "Y", 2, 1, 4)
    assert result.to_frame().height == 1
    assert result.to_dict()["kind"] == "verify"


def test_verify_leaves_contradictions_out():
    table = pl.DataFrame({"item": [1, 1, 2, 2, 3], "annotator": ["p"] * 5, "choice": ["1", "both", "2", "2", "0"]})
    result = compare(table, "verify", systems=["X", "Y"])
    assert result.answers == 2
    assert any("contradict each other" in note for note in result.notes)
    assert any("counted once: 1" in note for note in result.notes)
    with pytest.raises(DataError, match="row 2: p judged differently on item 1"):
        compare(table, "verify", systems=["X", "Y"], strict=True)
    with pytest.raises(DataError, match="row 1: a tie does not say"):
        compare(pl.DataFrame({"item": [1], "choice": ["tie"]}), "verify", systems=["X", "Y"])
    with pytest.raises(DataError, match="no judgment is left"):
        compare(table.head(2), "verify", systems=["X", "Y"])


def test_verify_without_differences_tests_nothing():
    pair = compare(pl.DataFrame({"item": [1, 2], "choice": ["both", "none"]}), "verify", systems=["X", "Y"]).pairs[0]
    assert np.isnan([pair.p, pair.p_exact, pair.chi2]).all()
    assert -1 < pair.low < pair.difference < pair.high < 1


# -- post-editing --------------------------------------------------------------------------------------------------


def edited() -> pl.DataFrame:
    return pl.DataFrame(
        {
            "item": [1, 2, 3, 1, 2],
            "annotator": ["nina", "nina", "nina", "pinta", "pinta"],
            "language": ["cs", "cs", "de", "cs", "cs"],
            "system_a": ["S1", "S2", "S1", "S1", "S1"],
            "system_b": ["S2", "S1", "S2", "S2", "S2"],
            "output_a": ["a cat", "two dogs", "house", "a cat", "dogs"],
            "output_b": ["a dog", "dogs", "house", "a dog", "two dogs"],
            "final": ["the cat", "two dogs", "house", "a dog", "two dogs"],
            "choice": ["a", "a", None, "b", "b"],
        }
    )


def test_post_editing_by_language_and_in_all():
    result = compare(edited(), "postedit", by="language")
    assert [row.group for row in result.rows] == ["cs", "de", "all"]
    czech, every = result["cs"], result["all"]
    assert (czech.segments, czech.chosen_a, czech.chosen_b, result["de"].identical) == (4, 1, 3, 1)
    assert czech.edits_a == pytest.approx((3 + 4 + 3 + 4) / 4)  # S1: a cat, dogs, a cat, dogs
    assert czech.edits_b == pytest.approx((6 + 0 + 0 + 0) / 4)
    assert every.edits_a == pytest.approx((czech.edits_a * 4 + result["de"].edits_a * 1) / 5)  # segment-weighted
    assert (every.fewer_a, every.equal, every.fewer_b) == (1, 1, 3)
    assert every.clusters == 3
    assert every.rate_a == pytest.approx(14 / (7 + 8 + 5 + 5 + 8))
    assert np.isfinite(every.p_chosen)
    assert result.to_frame().height == 3
    with pytest.raises(NameUnknownError, match="unknown group 'fr'"):
        result["fr"]


def test_outputs_may_come_from_data():
    data = aliquot.EvalSet(
        pl.DataFrame({"id": [1, 2, 3]}),
        ("S1", "S2"),
        outputs=pl.DataFrame({"S1": ["a cat", "dogs", "house"], "S2": ["a dog", "two dogs", "house"]}),
    )
    texts = compare(edited(), "postedit")["all"]
    looked_up = compare(edited().drop("output_a", "output_b"), "postedit", outputs=data)["all"]
    assert looked_up == texts
    with pytest.raises(OptionError, match="`outputs`"):
        compare(edited().drop("output_a"), "postedit")
    with pytest.raises(NameUnknownError, match="unknown item '9'"):
        compare(edited().drop("output_a").with_columns(pl.lit(9).alias("item")), "postedit", outputs=data)
    with pytest.raises(NameUnknownError, match="unknown system 'S2'"):
        compare(edited().drop("output_a"), "postedit", outputs=data.keep(systems=["S1"]))


def test_empty_and_missing_texts():
    table = edited().with_columns(
        pl.Series("final", ["the cat", "", None, "a dog", "two dogs"]),
        pl.Series("output_b", [None, "dogs", "house", "", "two dogs"], dtype=pl.String),
    )
    result = compare(table, "postedit")
    row = result["all"]
    assert row.segments == 3
    assert row.edits_b == pytest.approx((7 + 5 + 0) / 3)
    assert any("without a final text, left out: 2" in note for note in result.notes)
    assert any("empty output" in note for note in result.notes)
    with pytest.raises(DataError, match="no post-edited segment"):
        compare(table.with_columns(pl.lit("").alias("final")), "postedit")


def test_post_editing_without_systems_choices_or_people():
    result = compare(edited().select("item", "final", "output_a", "output_b"), "postedit")
    row = result["all"]
    assert (row.a, row.b) == ("A", "B")
    assert np.isnan(row.share_a)
    assert any("without an annotator id" in note for note in result.notes)
    with pytest.raises(NameUnknownError, match="unknown column 'job'"):
        compare(edited(), "postedit", by="job")


# -- criteria ------------------------------------------------------------------------------------------------------


def rated(items: int = 150, people: int = 2, seed: int = 0) -> pl.DataFrame:
    """Two factors, three criteria each, one column a criterion."""
    rng = np.random.default_rng(seed)
    rows = items * people
    factors = rng.multivariate_normal([0, 0], [[1, 0.4], [0.4, 1]], size=items).repeat(people, axis=0)
    loadings = np.array([[0.9, 0.8, 0.7, 0, 0, 0], [0, 0, 0, 0.9, 0.8, 0.7]])
    noise = rng.normal(size=(rows, 6)) * np.sqrt(1 - (loadings**2).sum(axis=0))
    names = ["clear", "precise", "complete", "fluent", "grammatical", "neat"]
    table = pl.DataFrame(factors @ loadings + noise, schema=names)
    return table.with_columns(
        pl.Series("item", np.arange(items).repeat(people)),
        pl.Series("annotator", ["p", "q"][:people] * items),
        pl.lit("sys").alias("system"),
    )


def test_criteria_in_columns_and_in_rows_agree():
    wide = rated()
    names = ["clear", "precise", "complete", "fluent", "grammatical", "neat"]
    long = wide.unpivot(names, index=["item", "annotator", "system"], variable_name="criterion", value_name="value")
    one, two = survey(wide, "criteria", draws=50), survey(aliquot.Judgments(long), "criteria", draws=50)
    assert one.names == two.names == tuple(names)
    assert one.factors is not None
    assert two.factors is not None
    np.testing.assert_allclose(one.factors.loadings, two.factors.loadings, atol=1e-6)
    assert one.factors.loadings.shape[1] == 2
    assert one.chosen == "by parallel analysis"
    strongest = np.abs(one.factors.loadings).argmax(axis=1)
    assert len(set(strongest[:3])) == 1
    assert set(strongest[:3]) != set(strongest[3:])
    assert one.kmo > 0.6
    frame = one.to_frame()
    assert frame.columns == ["criterion", "kmo", "communality", "factor1", "factor2"]
    assert one.pairs_frame().height == 15
    document = one.to_dict()
    assert document["factors"]["df"] == 4
    assert "2 factors" in repr(one)


def test_rows_may_be_outputs():
    wide = rated()
    result = survey(wide, "criteria", rows="output", draws=20)
    assert result.n == 150
    within = survey(wide, "criteria", draws=20)
    assert result.pairs[0].correlation > within.pairs[0].correlation  # averaging removes the annotators' noise


def test_options_of_criteria():
    wide = rated()
    assert survey(wide, "criteria", factors=0, draws=2).factors is None
    three = survey(wide, "criteria", only=["clear", "precise", "fluent"], factors=1, drop=False, draws=2)
    assert three.factors is not None
    assert three.factors.df == 0
    assert any("no degree of freedom" in note for note in three.notes)
    with pytest.raises(OptionError, match="allow 0 to 3"):
        survey(wide, "criteria", factors=4)
    with pytest.raises(NameUnknownError, match="unknown criterion 'clean'; did you mean 'clear'"):
        survey(wide, "criteria", only=["clean", "neat"])
    with pytest.raises(OptionError, match="at least two"):
        survey(wide, "criteria", only=["clear"])
    with pytest.raises(NameUnknownError, match="`rows` is"):
        survey(wide, "criteria", rows="item")
    with pytest.raises(NameUnknownError, match="correlation"):
        survey(wide, "criteria", correlation="kendall")
    spearman = survey(wide, "criteria", correlation="spearman", factors=0, draws=2)
    assert spearman.pairs[0].correlation == pytest.approx(
        survey(wide, "criteria", draws=2).pairs[0].correlation, abs=0.1
    )


def test_promax_of_r_or_of_spss():
    r, spss = (survey(rated(), "criteria", promax=promax, draws=2) for promax in ("r", "spss"))
    assert survey(rated(), "criteria", draws=2).to_dict() == r.to_dict()
    assert r.factors is not None
    assert spss.factors is not None
    assert np.abs(r.factors.loadings - spss.factors.loadings).max() > 1e-4
    assert (r.factors.chi2, r.to_dict()["factors"]["promax"]) == (spss.factors.chi2, "r")
    assert "promax:spss" in spss.signature
    with pytest.raises(NameUnknownError, match=r"`promax` is 'SPSS'; did you mean 'spss'\?"):
        survey(rated(), "criteria", promax="SPSS")


def test_criteria_that_cannot_be_compared():
    constant = rated().with_columns(pl.lit(3.0).alias("neat"))
    result = survey(constant, "criteria", draws=2)
    assert any("'neat' is constant" in note for note in result.notes)
    assert "neat" not in result.kept
    double = rated().with_columns((pl.col("clear") * 2).alias("clearer"))
    singular = survey(double, "criteria", draws=2)
    assert singular.factors is None
    assert any("no factors" in note for note in singular.notes)
    gappy = rated().with_columns(pl.when(pl.int_range(pl.len()) > 9).then("neat").alias("neat"))
    assert any("10 of 300 rows lack a criterion" in note for note in survey(gappy, "criteria", draws=2).notes)
    with pytest.raises(DataError, match="fewer than two columns"):
        survey(rated().select("item", "clear"), "criteria")
    with pytest.raises(DataError, match="fewer than two criteria"):
        survey(aliquot.synthetic(items=5, systems=2), "criteria")
    noise = pl.DataFrame(np.random.default_rng(1).normal(size=(300, 5)), schema=list("abcde"))
    unrelated = survey(noise.with_row_index("item"), "criteria", draws=2)
    assert any("no more in common than noise" in note for note in unrelated.notes)


def test_without_statsmodels_correlations_are_left(monkeypatch):
    monkeypatch.setattr("aliquot.errors.find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match="factors=0"):
        survey(rated(), "criteria", draws=2)
    assert survey(rated(), "criteria", factors=0, draws=2).pairs


# -- importance ----------------------------------------------------------------------------------------------------


def counted(seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    counts = rng.poisson([1.0, 0.6], (200, 2))
    who = rng.integers(0, 2, 200)
    human = 7 - counts @ np.array([0.3, 2.0]) - 2.0 * who + rng.normal(size=200) * 0.5
    return pl.DataFrame(
        {
            "item": np.arange(200) // 2,
            "annotator": np.array(["p", "q"])[who],
            "noise": counts[:, 0],
            "silence": counts[:, 1],
            "value": human,
            "metric": 1 - 0.2 * counts[:, 0] + rng.normal(size=200) * 0.1,
        }
    )


def test_importance_of_errors_for_people_and_metrics():
    result = survey(counted(), "importance", target=["value", "metric"], errors=["noise", "silence"])
    cost = {(row.target, row.error): row for row in result.rows}
    assert cost["value", "silence"].slope == pytest.approx(-2.0, abs=0.2)
    assert cost["value", "silence"].standardised < cost["value", "noise"].standardised < 0
    assert cost["metric", "noise"].standardised < -0.8
    assert cost["metric", "silence"].low < 0 < cost["metric", "silence"].high
    assert result.r2["value"] > 0.7  # within annotators: the severe one does not disturb
    assert result.to_frame().height == 4
    assert survey(counted().drop("metric"), "importance").to_dict()["answers"] == 200


def test_importance_from_lists_of_errors(tmp_path):
    rng = np.random.default_rng(3)
    lines = ["system\tdoc\tdoc_id\tseg_id\trater\tsource\ttarget\tcategory\tseverity"]
    for segment in range(1, 41):
        for system in ("A", "B"):
            errors = rng.poisson([0.8, 0.5])
            rows = [("Accuracy/Omission", "Major")] * errors[0] + [("Fluency/Grammar", "Minor")] * errors[1]
            for category, severity in rows or [("No-error", "no-error")]:
                lines.append(f"{system}\td1\t1\t{segment}\tr{segment % 2}\tsrc\ttgt\t{category}\t{severity}")
    path = tmp_path / "mqm.tsv"
    path.write_text("\n".join(lines) + "\n")
    result = survey(path, "importance")
    slopes = {row.error: row.slope for row in result.rows}
    assert slopes == pytest.approx({"Accuracy/Omission": -5.0, "Fluency/Grammar": -1.0})
    severities = {row.error for row in survey(path, "importance", types="severity").rows}
    assert severities == {"Major", "Minor"}
    with pytest.raises(NameUnknownError, match="type of error"):
        survey(path, "importance", errors=["Style"])
    with pytest.raises(NameUnknownError, match="unknown score 'COMET'"):
        survey(path, "importance", target=["COMET"])


def test_importance_of_nothing():
    with pytest.raises(DataError, match="do not list errors"):
        survey(aliquot.synthetic(items=5, systems=2), "importance")
    with pytest.raises(OptionError, match="`target`"):
        survey(counted().drop("value"), "importance")
    with pytest.raises(DataError, match="no column counts errors"):
        survey(counted().select("item", "value"), "importance")
    with pytest.raises(DataError, match="negative"):
        survey(counted().with_columns(-pl.col("noise")), "importance", errors=["noise"])
    with pytest.raises(DataError, match="which item"):
        survey(counted().drop("item"), "importance")
    with pytest.raises(NameUnknownError, match="unknown column 'silense'"):
        survey(counted(), "importance", errors=["silense"])
    useless = survey(counted().with_columns(pl.lit(0).alias("chain")), "importance", errors=["noise", "chain"])
    assert any("'chain' never occurs" in note for note in useless.notes)


# -- groups --------------------------------------------------------------------------------------------------------


def trial(seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    people = np.arange(60)
    group = np.where(people < 32, "report", "control")
    parts = [
        pl.DataFrame(
            {
                "participant": people,
                "group": group,
                "measure": [name] * 60,
                "before": before,
                "after": before + rng.normal(size=60) + np.where(people < 32, shift, 0.0),
            }
        )
        for name, shift in (("PA", 1.5), ("NA", -1.0), ("sleep", 0.0))
        for before in [rng.normal(25, 4, 60)]
    ]
    return pl.concat(parts)


@pytest.mark.parametrize("adjust", ["holm", "sidak", "none"])
def test_groups_before_and_after(adjust):
    result = survey(trial(), "groups", adjust=adjust, lower_is_better=["NA"], groups=["report", "control"])
    rows = {row.measure: row for row in result.rows}
    assert (rows["PA"].n_first, rows["PA"].n_second) == (32, 28)
    assert rows["PA"].difference > 0.8
    assert rows["PA"].p_adjusted < 0.01
    assert rows["NA"].difference < 0
    assert rows["NA"].improved_first > rows["NA"].improved_second
    assert rows["sleep"].p_adjusted > 0.05
    raw = np.array([row.p for row in result.rows])
    ours = np.array([row.p_adjusted for row in result.rows])
    if adjust == "sidak":
        np.testing.assert_allclose(ours, 1 - (1 - raw) ** 3)
    assert (ours >= raw).all()
    assert result.to_frame().height == 3
    assert adjust in result.signature


def test_groups_turn_signs_with_their_order():
    one = survey(trial(), "groups", groups=["report", "control"]).rows[0]
    two = survey(trial(), "groups", groups=["control", "report"]).rows[0]
    assert one.difference == pytest.approx(-two.difference)
    assert one.p == pytest.approx(two.p)


def test_broken_groups():
    with pytest.raises(OptionError, match="two groups are compared"):
        survey(trial().with_columns(pl.lit("all").alias("group")), "groups")
    with pytest.raises(NameUnknownError, match="unknown group 'placebo'"):
        survey(trial(), "groups", groups=["report", "placebo"])
    with pytest.raises(NameUnknownError, match="unknown measure 'BMI'"):
        survey(trial(), "groups", lower_is_better=["BMI"])
    with pytest.raises(NameUnknownError, match="`adjust`"):
        survey(trial(), "groups", adjust="bonferroni")
    twice = pl.concat([trial(), trial().head(1).with_columns(pl.lit(0.0).alias("after"))])
    with pytest.raises(DataError, match="participant '0' has several rows for 'PA'"):
        survey(twice, "groups")
    moved = trial().with_columns(
        pl.when((pl.col("participant") == 0) & (pl.col("measure") == "NA"))
        .then(pl.lit("control"))
        .otherwise("group")
        .alias("group")
    )
    with pytest.raises(DataError, match="is in several groups"):
        survey(moved, "groups")
    again = survey(pl.concat([trial(), trial().head(2)]), "groups")
    assert any("counted once: 2" in note for note in again.notes)
    few = trial().filter((pl.col("participant") < 33) & (pl.col("measure") == "PA"))
    result = survey(few, "groups")
    assert np.isnan(result.rows[0].p)
    assert any("fewer than two people" in note for note in result.notes)
    words = trial().with_columns(pl.lit("good").alias("after"))
    with pytest.raises(DataError, match="'good' in column 'after' is not a number"):
        survey(words, "groups")


# -- what a fuzzer found -------------------------------------------------------------------------------------------


def test_lists_in_cells_are_named_or_ignored():
    lists = pl.Series("comment", [["a", "b"]] * 5)
    assert compare(edited().with_columns(lists), "postedit")["all"].segments == 5
    with pytest.raises(DataError, match="the column 'final' holds List"):
        compare(edited().with_columns(lists.alias("final")), "postedit")
    with pytest.raises(DataError, match="the column 'choice' holds List"):
        compare(edited().with_columns(lists.alias("choice")), "pairwise")


def test_errors_of_which_none_varies():
    with pytest.raises(OptionError, match="no type of error varies"):
        survey(counted().with_columns(pl.lit(1).alias("noise")), "importance", errors=["noise"])


def test_changes_that_differ_by_rounding_are_the_same():
    table = pl.DataFrame(
        {
            "participant": range(6),
            "group": ["r", "r", "r", "c", "c", "c"],
            "before": [0.1, 0.2, 0.7] * 2,
            "after": [0.4, 0.5, 1.0] * 2,
        }
    )
    assert np.isnan(survey(table, "groups").rows[0].p)


def test_a_system_named_twice():
    with pytest.raises(OptionError, match="'S1' is named twice"):
        compare(edited(), "pairwise", systems=["S1", "S1"])


# -- reversed poles, slopes per annotator ------------------------------------------------------------------------------


def differential(reversed_rows: bool = True) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Judgments on four scales of 1 to 7, as given with random polarity, and as meant."""
    rng = np.random.default_rng(5)
    quality = rng.normal(size=(150, 1))
    meant = np.clip(np.round(4 + 1.2 * (quality + 0.7 * rng.normal(size=(150, 4)))), 1, 7)
    turned = rng.random((150, 4)) < 0.5 if reversed_rows else np.zeros((150, 4), dtype=bool)
    keys = {
        "item": np.repeat(np.arange(150), 4),
        "system": ["A"] * 600,
        "annotator": ["x"] * 600,
        "criterion": ["clear", "precise", "simple", "neat"] * 150,
    }
    polarity = np.where(turned, -1, 1).ravel()
    given = pl.DataFrame(keys | {"value": np.where(turned, 8 - meant, meant).ravel(), "polarity": polarity})
    return given, pl.DataFrame(keys | {"value": meant.ravel()})


def test_judgments_with_reversed_poles_are_turned():
    given, meant = differential()
    found, wanted = (survey(table, "criteria", seed=1) for table in (given, meant))
    assert [pair.correlation for pair in found.pairs] == pytest.approx([pair.correlation for pair in wanted.pairs])
    assert any("judgments with reversed poles are turned on the scale 1 to 7" in note for note in found.notes)
    with pytest.raises(DataError, match="outside the scale 1:5"):
        survey(given, "criteria", scale=(1, 5))


def test_a_criterion_with_reversed_poles_is_named_and_flipped():
    _, meant = differential()
    against = meant.with_columns(
        pl.when(pl.col("criterion") == "neat").then(8 - pl.col("value")).otherwise("value").alias("value")
    )
    found = survey(against, "criteria", seed=1, factors=1)
    assert any("'neat' are against the others of their factor" in note for note in found.notes)
    mended = survey(against, "criteria", seed=1, factors=1, flip=["neat"])
    assert "flip:neat" in mended.signature
    assert "flip" not in found.signature
    plain = survey(meant, "criteria", seed=1, factors=1)
    assert mended.factors is not None
    assert plain.factors is not None
    assert mended.factors.loadings == pytest.approx(plain.factors.loadings, abs=1e-6)
    with pytest.raises(NameUnknownError, match="unknown criterion 'tidy'"):
        survey(against, "criteria", flip=["tidy"])


def test_slopes_of_each_annotator_are_those_of_separate_fits():
    rng = np.random.default_rng(6)
    counts = rng.poisson(1.0, (300, 2))
    prices = np.repeat([[1.0, 3.0], [2.0, 0.5], [1.0, 1.0]], 100, axis=0)
    value = 7 - (counts * prices).sum(axis=1) + 0.1 * rng.normal(size=300)
    table = pl.DataFrame(
        {
            "item": list(range(100)) * 3,
            "annotator": ["x"] * 100 + ["y"] * 100 + ["z"] * 100,
            "noise": counts[:, 0],
            "silence": counts[:, 1],
            "value": value,
        }
    )
    found = survey(table, "importance", per_annotator=True)
    together = [row for row in found.rows if row.annotator is None]
    assert together == list(survey(table, "importance").rows)
    for at, name in enumerate("xyz"):
        alone = survey(table.filter(pl.col("annotator") == name), "importance").rows
        mine = [row for row in found.rows if row.annotator == name]
        assert [row.slope for row in mine] == pytest.approx([row.slope for row in alone])
        assert [row.low for row in mine] == pytest.approx([row.low for row in alone])
        assert [row.slope for row in mine] == pytest.approx((-prices[100 * at]).tolist(), abs=0.05)
    few = survey(pl.concat([table, table[:2].with_columns(annotator=pl.lit("w"))]), "importance", per_annotator=True)
    assert any("annotator 'w' has no slopes" in note for note in few.notes)
    with pytest.raises(DataError, match="no column says who judged"):
        survey(table.drop("annotator"), "importance", per_annotator=True)
