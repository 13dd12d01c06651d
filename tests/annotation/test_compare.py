"""Comparing systems: every kind of table, what is said twice, what is missing, what cannot be read."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aliquot
from aliquot.annotation.ballots import read_best_worst, read_rankings, table_preferences
from aliquot.annotation.choice_tables import choice_table, detect_table_kind
from aliquot.annotation.choices import cluster_codes, score_preferences
from aliquot.annotation.compare import COMPARE_KINDS, compare, list_options
from aliquot.annotation.preference_result import Comparison
from aliquot.errors import AliquotError, DataError, NameUnknownError, OptionError
from aliquot.stats.choices import sign_test


def pairs(*rows: tuple[object, ...]) -> pl.DataFrame:
    """Item, annotator, system_a, system_b, choice."""
    names = ["item", "annotator", "system_a", "system_b", "choice"]
    return pl.DataFrame({name: [row[at] for row in rows] for at, name in enumerate(names)}, strict=False)


SIMPLE = pairs(
    (1, "p", "X", "Y", "a"),
    (1, "q", "Y", "X", "b"),
    (2, "p", "X", "Y", "tie"),
    (3, "q", "Y", "X", "a"),
    (4, "p", "X", "Y", "a"),
)


def test_counts_and_win_rates():
    result = compare(SIMPLE, "pairwise")
    best = result["X"]
    assert (best.wins, best.ties, best.losses, best.n) == (3, 1, 1, 5)
    assert best.win_rate == pytest.approx(0.7)
    pair = result.pair("Y", "X")
    assert (pair.a, pair.b, pair.wins, pair.losses, pair.clusters) == ("X", "Y", 3, 1, 4)
    assert pair.p_sign == pytest.approx(float(sign_test(3, 1)))
    assert pair.share == pytest.approx(0.75)
    assert result.annotators == 2
    assert result.items == 4
    assert any("1 of 5 choices are ties" in note for note in result.notes)
    assert result.position is not None
    assert result.position.first_won == pytest.approx((1 + 0 + 0.5 + 1 + 1) / 5)


def test_labels_and_names_mean_the_same():
    said = pairs(
        (1, "p", "X", "Y", "A"), (2, "p", "Y", "X", "X"), (3, "p", "X", "Y", "model_b"), (4, "p", "X", "Y", " = ")
    )
    result = compare(said, "pairwise")
    assert (result["X"].wins, result["X"].losses, result["X"].ties) == (2, 1, 1)


@pytest.mark.parametrize("cluster", ["item", "annotator", "none"])
def test_clusters(cluster):
    rows = [(item, who, "X", "Y", "a" if (item + at) % 3 else "b") for item in range(8) for at, who in enumerate("pqr")]
    result = compare(pairs(*rows), "pairwise", cluster=cluster)
    assert result.pairs[0].clusters == {"item": 8, "annotator": 3, "none": 24}[cluster]
    assert result.clusters == cluster
    assert (cluster in result.signature) == (cluster != "item")


def test_choices_without_an_annotator_are_clusters_of_their_own():
    keys = pl.DataFrame({"item": ["1", "1", "1", "2"], "annotator": ["p", None, "p", None]})
    assert cluster_codes(keys, "annotator").tolist() == [0, 1, 0, 2]
    assert cluster_codes(keys, "item").tolist() == [0, 0, 0, 1]


def test_frames_documents_and_signatures():
    result = compare(SIMPLE)
    assert isinstance(result, Comparison)
    assert result.to_frame()["system"].to_list() == ["X", "Y"]
    assert result.pairs_frame()["p"].len() == 1
    document = result.to_dict()
    assert document["systems"][0]["best"] is None
    assert document["signature"].startswith(f"aliquot:{aliquot.__version__}|compare:pairwise|ties:half")
    assert compare(SIMPLE).signature == result.signature
    assert compare(SIMPLE.head(4)).signature != result.signature
    assert "5 choices on 4 items" in repr(result)
    with pytest.raises(NameUnknownError, match="unknown system 'Z'"):
        result["Z"]


def test_same_seed_same_bootstrap():
    one, two, other = (compare(SIMPLE, "pairwise", interval="bootstrap", draws=50, seed=seed) for seed in (1, 1, 2))
    assert one.to_dict() == two.to_dict()
    assert one["X"].score_low != other["X"].score_low


# -- said twice ----------------------------------------------------------------------------------------------------


def test_repeats_count_once_and_contradictions_as_ties():
    said = pairs(
        (1, "p", "X", "Y", "a"),
        (1, "p", "Y", "X", "b"),
        (2, "p", "X", "Y", "a"),
        (2, "p", "X", "Y", "b"),
        (3, "p", "X", "Y", "b"),
    )
    result = compare(said, "pairwise")
    assert (result["X"].wins, result["X"].ties, result["X"].losses) == (1, 1, 1)
    assert any("counted once: 1" in note for note in result.notes)
    assert any("contradict each other (e.g. p on item 2)" in note for note in result.notes)
    with pytest.raises(DataError, match="row 3: p chose differently on item 2"):
        compare(said, "pairwise", strict=True)


def test_without_annotators_every_row_is_an_answer():
    said = SIMPLE.drop("annotator").vstack(SIMPLE.drop("annotator"))
    result = compare(said, "pairwise")
    assert result.choices == 10
    assert result.annotators == 0
    assert any("judgments without an annotator id" in note for note in result.notes)


def test_one_annotator_is_said():
    result = compare(SIMPLE.with_columns(pl.lit("p").alias("annotator")), "pairwise")
    assert any("one annotator" in note for note in result.notes)


# -- what cannot be compared ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([(1, "p", "X", "X", "a")], "row 1: the system 'X' is compared with itself"),
        ([(1, "p", "X", "Y", "a"), (2, "p", "X", "Y", "perhaps")], "row 2: unknown choice 'perhaps'"),
        ([(1, "p", "X", "Y", None)], "no choice between two systems is left"),
        ([(1, "p", "X", "Y", "a"), (1, "p", "X", None, "a")], "row 2: the column 'system_b' is empty"),
        ([(None, "p", "X", "Y", "a")], "row 1: the column 'item' is empty"),
        ([(1, "p", "B", "A", "A")], "is the side 'a' and the system that stands on side 'b'"),
    ],
)
def test_broken_rows_are_named(rows, message):
    with pytest.raises(DataError, match=message.replace("(", r"\(")):
        compare(pairs(*rows), "pairwise")


def test_names_that_are_sides_are_fine_where_they_agree():
    result = compare(pairs((1, "p", "A", "B", "A"), (2, "p", "A", "B", "b"), (3, "p", "A", "B", "B")), "pairwise")
    assert (result["A"].wins, result["B"].wins) == (1, 2)


def test_tables_without_rows_or_columns():
    with pytest.raises(DataError, match="header but no rows"):
        compare(SIMPLE.head(0), "pairwise")
    with pytest.raises(DataError, match="needs a column 'choice'"):
        compare(SIMPLE.drop("choice"), "pairwise")
    with pytest.raises(OptionError, match="name the two in `systems`"):
        compare(SIMPLE.drop("system_a"), "pairwise")
    two = compare(SIMPLE.drop("system_a", "system_b"), "pairwise", systems=["new", "old"])
    assert two["new"].wins == 3
    with pytest.raises(NameUnknownError, match="unknown system 'Q'"):
        compare(SIMPLE, "pairwise", systems=["X", "Q"])


def test_all_ties_test_nothing():
    result = compare(pairs(*((item, "p", "X", "Y", "tie") for item in range(4)), (5, "p", "Y", "X", "tie")), "pairwise")
    pair = result.pairs[0]
    assert pair.win_rate == 0.5
    assert np.isnan([pair.p, pair.p_sign, pair.share, result["X"].score_low]).all()
    assert result["X"].score == pytest.approx(0.0)
    assert any("all 5 choices are ties" in note for note in result.notes)
    assert result.to_dict()["pairs"][0]["p"] is None


def test_disconnected_systems_are_ranked_apart():
    rows = [(item, "p", *pair, "a" if item % 3 else "b") for item in range(12) for pair in (("A", "B"), ("C", "D"))]
    result = compare(pairs(*rows), "pairwise")
    assert [row.component for row in result.systems] == [1, 1, 2, 2]
    assert result["A"].rank_high <= 2
    assert result["C"].rank_high <= 2
    assert any("2 groups of systems" in note for note in result.notes)


def test_one_sided_choices_say_that_a_prior_was_used():
    result = compare(pairs(*((item, "p", "X", "Y", "a") for item in range(6))), "pairwise")
    assert result.prior == 1.0
    assert any("too one-sided" in note for note in result.notes)
    assert np.isfinite(result["X"].score)


def test_pairs_always_shown_the_same_way_round():
    result = compare(pairs((1, "p", "X", "Y", "a"), (2, "p", "X", "Y", "b")), "pairwise")
    assert result.position is None
    assert any("position and system cannot be separated" in note for note in result.notes)


def test_ignored_labels_and_good_and_bad_ties():
    said = pairs(
        (1, "p", "X", "Y", "a"), (2, "p", "X", "Y", "c"), (3, "p", "X", "Y", "tie (bothbad)"), (4, "p", "X", "Y", "b")
    )
    result = compare(said, "pairwise", ignore=["C"])
    assert (result.choices, result["X"].ties) == (3, 1)


@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.sampled_from("pq"), st.sampled_from(["a", "b", "tie"]), st.booleans()),
        min_size=1,
        max_size=25,
    )
)
@settings(max_examples=40, deadline=None)
def test_sides_do_not_matter(rows):
    """Showing every pair the other way round, with the choice turned too, changes no number."""
    turn = {"a": "b", "b": "a", "tie": "tie"}
    one = pairs(*((item, who, "X", "Y", c) if flip else (item, who, "Y", "X", turn[c]) for item, who, c, flip in rows))
    two = pairs(*((item, who, "X", "Y", c) for item, who, c, _ in rows))
    first, second = compare(one, "pairwise"), compare(two, "pairwise")
    assert first.to_frame().equals(second.to_frame())
    assert first.pairs_frame().equals(second.pairs_frame())
    assert first["X"].wins + first["X"].ties + first["X"].losses == first.choices


# -- ballots -------------------------------------------------------------------------------------------------------


def test_best_worst_says_who_beats_whom():
    table = pl.DataFrame(
        {
            "item": [1, 2],
            "annotator": ["p", "q"],
            "shown": ["A;B;C;D", "A|B|C"],
            "best": ["A", "C"],
            "worst": ["D", "A"],
        }
    )
    result = compare(table, "best-worst")
    assert result.choices == 5 + 3
    assert (result["A"].wins, result["A"].losses) == (3, 2)
    assert (result["A"].best, result["A"].worst) == (0.5, 0.5)
    assert (result["D"].best, result["D"].worst) == (0.0, 1.0)


def test_best_worst_on_different_systems_of_an_item_stay_apart():
    """A person may fill in several ballots on an item; systems that were never shown together were never compared."""
    table = pl.DataFrame(
        {"item": [1, 1], "annotator": ["p", "p"], "shown": ["A;B", "C;D"], "best": ["A", "C"], "worst": ["B", "D"]}
    )
    assert {(row.a, row.b) for row in compare(table, "best-worst").pairs} == {("A", "B"), ("C", "D")}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("A;B;C", "A", "A"), "'A' is the best and the worst"),
        (("A;B;C", "D", "A"), "the best is 'D', and shown were 'A', 'B', 'C'"),
        (("A;B;C", "A", "Z"), "the worst is 'Z'"),
        (("A", "A", None), "only 'A' was shown"),
        (("A;A;B", "A", "B"), "shown twice"),
    ],
)
def test_broken_ballots_are_named(row, message):
    table = pl.DataFrame({"item": ["1"], "annotator": ["p"], "shown": [row[0]], "best": [row[1]], "worst": [row[2]]})
    with pytest.raises(DataError, match=message):
        compare(table, "best-worst")


def test_best_worst_without_shown_systems():
    table = pl.DataFrame({"item": [1, 2], "best": ["A", "B"], "worst": ["C", "A"]})
    with pytest.raises(OptionError, match="no column 'shown'"):
        compare(table, "best-worst")
    assert compare(table, "best-worst", systems=["A", "B", "C"]).choices == 6
    pending = table.vstack(pl.DataFrame({"item": [3], "best": [None], "worst": [None]}, schema=table.schema))
    result = compare(pending, "best-worst", systems=["A", "B", "C"])
    assert any("pending" in note for note in result.notes)
    with pytest.raises(DataError, match="no choice between two systems is left"):
        compare(pending.tail(1), "best-worst", systems=["A", "B", "C"])
    with pytest.raises(DataError, match="no choice between two systems is left"):
        compare(pending.tail(1).with_columns(pl.lit("A;B;C").alias("shown")), "best-worst")
    only_best = compare(
        table.drop("worst").with_columns(pl.lit(None, pl.String).alias("worst")), "best-worst", systems=["A", "B", "C"]
    )
    assert only_best.choices == 4


def test_rankings_in_rows_and_in_texts_agree():
    rows = pl.DataFrame(
        {"item": [1] * 3 + [2] * 3, "annotator": ["p"] * 6, "system": ["A", "B", "C"] * 2, "rank": [1, 2, 2, 3, 1, 2]}
    )
    texts = pl.DataFrame({"item": [1, 2], "annotator": ["p", "p"], "ranking": ["A > B = C", "B>C>A"]})
    one, two = compare(rows, "ranking"), compare(texts, "ranking")
    assert one.to_frame().equals(two.to_frame())
    assert one["B"].ties == 1


def test_broken_rankings():
    with pytest.raises(DataError, match="row 1: the ranking 'A > > B' cannot be read"):
        compare(pl.DataFrame({"item": [1], "ranking": ["A > > B"]}), "ranking")
    with pytest.raises(DataError, match="each system once"):
        compare(pl.DataFrame({"item": [1], "ranking": ["A > A"]}), "ranking")
    with pytest.raises(DataError, match="rankings need the columns 'system' and 'rank'"):
        compare(pl.DataFrame({"item": [1], "system": ["A"]}), "ranking")
    with pytest.raises(DataError, match="no ballot ranks two systems"):
        compare(
            pl.DataFrame({"item": [1, 2], "annotator": ["p", "p"], "system": ["A", "B"], "rank": [1, 1]}), "ranking"
        )
    with pytest.raises(DataError, match="'first' in column 'rank' is not a number"):
        compare(pl.DataFrame({"item": [1], "system": ["A"], "rank": ["first"]}), "ranking")
    torn = pl.DataFrame({"item": [1] * 3, "annotator": ["p"] * 3, "system": ["A", "A", "B"], "rank": [1, 3, 2]})
    with pytest.raises(DataError, match="has another rank on item 1"):
        compare(torn, "ranking", strict=True)
    averaged = compare(torn, "ranking")
    assert averaged["A"].ties == 1  # 1 and 3 average to B's 2
    assert any("several ranks on an item, which are averaged: 1" in note for note in averaged.notes)


def test_ballots_filled_in_twice_are_averaged():
    frame = pl.DataFrame({"item": ["1", "1"], "annotator": ["p", "p"], "ranking": ["A > B", "B > A"]})
    found = read_rankings(choice_table(frame, "ranking", None, "t.csv"))
    assert found.values.tolist() == [[-1.5, -1.5]]
    assert "averaged with the first: 1" in found.notes[0]
    with pytest.raises(DataError, match="two ballots"):
        read_rankings(choice_table(frame, "ranking", None, "t.csv"), strict=True)
    shown = pl.DataFrame({"item": ["1"], "best": ["A"], "worst": ["B"], "shown": ["A,B,C"]})
    assert read_best_worst(choice_table(shown, "best-worst", None, "t.csv"), systems=["A", "C"]).values.tolist() == [
        [1.0, 0.0]
    ]


def test_scores_of_one_annotator_that_differ_are_averaged_and_told():
    rows = [("1", "p", "A", 1.0), ("1", "p", "A", 5.0), ("1", "p", "B", 2.0), ("1", "p", "B", 2.0)]
    judgments = aliquot.Judgments(pl.DataFrame(rows, schema=["item", "annotator", "system", "value"], orient="row"))
    found = compare(judgments, "scores")
    assert found["A"].wins == 1
    assert [note for note in found.notes if note.endswith("differently, averaged: 1")]


# -- scores --------------------------------------------------------------------------------------------------------


def test_columns_of_a_table_of_scores_may_have_any_name():
    table = pl.DataFrame({"item": [1, 1], "annotator": ["p", "p"], "model": ["X", "Y"], "value": [2.0, 1.0]})
    assert compare(table, "scores", columns={"system": "model"})["X"].wins == 1


def test_choices_from_judgments_are_within_annotators():
    """A severe annotator's scores are compared with each other only."""
    table = pl.DataFrame(
        {
            "item": [1] * 4,
            "annotator": ["mild", "mild", "severe", "severe"],
            "system": ["X", "Y", "X", "Y"],
            "value": [90.0, 80, 20, 10],
        }
    )
    result = compare(aliquot.Judgments(table), "scores")
    assert (result["X"].wins, result["X"].losses) == (2, 0)
    assert compare(aliquot.Judgments(table), "scores", margin=10)["X"].ties == 2
    crossed = table.with_columns(pl.Series("system", ["X", "Z", "Y", "Z"]))
    assert len(compare(aliquot.Judgments(crossed), "scores").pairs) == 2
    assert len(compare(aliquot.Judgments(crossed), "scores", within="item").pairs) == 3


def test_criteria_controls_and_marks():
    table = pl.DataFrame(
        {
            "item": [1] * 6,
            "annotator": ["p"] * 6,
            "system": ["X", "Y"] * 3,
            "value": [5.0, 1, 2, 4, 9, 0],
            "criterion": ["fluency", "fluency", "adequacy", "adequacy", "fluency", "fluency"],
            "control": [False] * 4 + [True] * 2,
        }
    )
    judgments = aliquot.Judgments(table)
    assert compare(judgments, "scores", criterion="adequacy")["Y"].wins == 1
    both = compare(judgments, "scores")
    assert both["X"].wins == 1
    assert any("mean over 2 criteria" in note for note in both.notes)
    with pytest.raises(NameUnknownError, match="unknown criterion 'style'"):
        compare(judgments, "scores", criterion="style")
    marked = table.with_columns(pl.Series("marked", [None, "speeder", None, None, None, None]))
    with pytest.raises(DataError, match="no annotator scored two"):
        compare(aliquot.Judgments(marked), "scores", criterion="fluency")


def test_choices_from_a_score():
    data = aliquot.synthetic(items=80, systems=3, annotators=0, seed=4)
    result = compare(data)
    assert isinstance(result, Comparison)
    assert result.items == 80
    wins = (data.scores["human"][:, 0] > data.scores["human"][:, 1]).sum()
    assert result.pair("sys1", "sys2").wins in (wins, (data.scores["human"][:, 1] > data.scores["human"][:, 0]).sum())
    assert compare(data, "scores", human="metricA").items == 80
    with pytest.raises(NameUnknownError, match="unknown score 'nothing'"):
        compare(data, "scores", human="nothing")
    with pytest.raises(NameUnknownError, match="unknown system 'sys9'"):
        compare(data, "scores", systems=["sys1", "sys9"])
    with pytest.raises(OptionError, match="judgments alone have none"):
        score_preferences(aliquot.Judgments(pl.DataFrame({"item": [1], "system": ["X"], "value": [1.0]})), human="x")


def test_better_systems_win_on_simulated_data():
    data = aliquot.synthetic(items=300, systems=4, protocol="da", seed=2, judgments_per_output=2)
    result = compare(data, "scores", within="item")
    assert [row.system for row in result.systems] == ["sys1", "sys2", "sys3", "sys4"]
    scores = [row.score for row in result.systems]
    assert scores == sorted(scores, reverse=True)
    assert result.systems[0].cluster < result.systems[-1].cluster


# -- kinds and options ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "kind"),
    [
        (["item", "annotator", "system_a", "system_b", "choice"], "pairwise"),
        (["segment", "judge", "model_a", "model_b", "winner"], "pairwise"),
        (["item", "shown", "best", "worst"], "best-worst"),
        (["item", "annotator", "system", "rank"], "ranking"),
        (["item", "ranking"], "ranking"),
        (["item", "final", "output_a", "output_b"], "postedit"),
        (["participant", "group", "before", "after"], "groups"),
        (["item", "system", "annotator", "value"], None),
        (["item", "system", "annotator", "value", "label"], None),
        (["item", "system", "metric", "score"], None),
    ],
)
def test_kinds_are_told_by_columns(columns, kind):
    assert detect_table_kind(columns) == kind


def test_options_of_other_kinds_are_refused():
    with pytest.raises(OptionError, match="`margin` does not apply to kind 'pairwise'"):
        compare(SIMPLE, "pairwise", margin=3)
    with pytest.raises(NameUnknownError, match="`kind` is 'pairwize'; did you mean 'pairwise'"):
        compare(SIMPLE, "pairwize")
    assert all("level" in list_options(kind) for kind in COMPARE_KINDS)
    with pytest.raises(OptionError, match="reads a table"):
        compare(aliquot.synthetic(items=5, systems=2), "verify")
    for option, value in (("cluster", "document"), ("ties", "none"), ("interval", "t"), ("within", "x")):
        kind = "scores" if option == "within" else "pairwise"
        with pytest.raises(AliquotError, match=f"`{option}` is"):
            compare(aliquot.synthetic(items=5, systems=2) if kind == "scores" else SIMPLE, kind, **{option: value})
    with pytest.raises(OptionError, match="alpha"):
        compare(SIMPLE, "pairwise", alpha=0.9)


def test_columns_can_be_named(tmp_path):
    path = tmp_path / "mine.tsv"
    SIMPLE.rename({"choice": "verdict of the judge", "item": "nr"}).write_csv(path, separator="\t")
    result = compare(path, columns={"choice": "verdict of the judge", "item": "nr"})
    assert isinstance(result, Comparison)
    assert result["X"].wins == 3
    with pytest.raises(NameUnknownError, match="unknown column role 'sentence'"):
        compare(path, "pairwise", columns={"sentence": "nr"})
    with pytest.raises(NameUnknownError, match="unknown column 'nothing'"):
        compare(path, "pairwise", columns={"item": "nothing"})
    with pytest.raises(OptionError, match="two roles"):
        table_preferences(SIMPLE, columns={"item": "choice", "choice": "choice"})


def test_files_of_all_sorts(tmp_path):
    SIMPLE.write_parquet(tmp_path / "t.parquet")
    SIMPLE.write_csv(tmp_path / "t.csv")
    assert compare(tmp_path / "t.parquet").to_dict()["systems"] == compare(tmp_path / "t.csv").to_dict()["systems"]
    aliquot.save(aliquot.synthetic(items=10, systems=2, seed=1), tmp_path / "d.jsonl")
    assert isinstance(compare(tmp_path / "d.jsonl"), Comparison)
    with pytest.raises(DataError, match="is no table"):
        compare(tmp_path / "d.jsonl", "pairwise")
    with pytest.raises(DataError, match="no such file"):
        compare(tmp_path / "nothing.csv", "pairwise")


def test_systems_that_a_repeated_ballot_does_not_show_stay_missing():
    frame = pl.DataFrame(
        {"item": ["1", "1", "2"], "annotator": ["p", "p", "p"], "ranking": ["A > B", "A > B", "A > B > C"]}
    )
    found = read_rankings(choice_table(frame, "ranking", None, "t.csv"))
    np.testing.assert_array_equal(found.values, [[-1.0, -2.0, np.nan], [-1.0, -2.0, -3.0]])
    assert found.keys["item"].to_list() == ["1", "2"]
