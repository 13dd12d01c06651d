"""EvalSet and Judgments: invariants, immutability, and new sets out of old ones."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import polars as pl
import pytest

import aliquot
from aliquot import AliquotError, EvalSet, Judgments, load, save, synthetic
from aliquot.errors import DataError, NameUnknownError, OptionError

NAN = float("nan")
HUMAN = [[1.0, 2.0], [3.0, NAN], [5.0, 6.0]]


def judgments(**changes: Any) -> Judgments:
    columns = {
        "item": ["a", "a", "a", "b", "c"],
        "system": ["X", "X", "Y", "X", "Y"],
        "annotator": ["r1", "r2", "r1", "r1", "r2"],
        "criterion": ["fluency", "fluency", "adequacy", "fluency", "adequacy"],
        "value": [1.0, 3.0, 5.0, None, 4.0],
    }
    return Judgments(pl.DataFrame({**columns, **changes}))


def small(**changes: Any) -> EvalSet:
    fields: dict[str, Any] = {
        "items": pl.DataFrame({"id": ["a", "b", "c"], "document": ["d1", "d1", None], "words": [3, 5, 7]}),
        "systems": ("X", "Y"),
        "scores": {"human": np.array(HUMAN), "BLEU": np.arange(6.0).reshape(3, 2)},
        "outputs": pl.DataFrame({"X": ["x1", "x2", "x3"], "Y": ["y1", None, "y3"]}),
        "judgments": judgments(),
        "human": "human",
        "name": "small",
    }
    return EvalSet(**{**fields, **changes})


@pytest.fixture
def data():
    return small()


def same(array: Any, expected: Any) -> bool:
    return np.array_equal(array, np.array(expected), equal_nan=True)


# -- invariants ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"items": pl.DataFrame({"name": ["a", "b", "c"]})}, "lacks the column 'id'"),
        ({"items": pl.DataFrame({"id": ["a", None, "c"]})}, "item number 1 has no id"),
        ({"items": pl.DataFrame({"id": ["a", "b", "a"]})}, "id 'a' occurs twice"),
        ({"systems": ("X", "X")}, "system 'X' occurs twice"),
        ({"scores": {"BLEU": np.zeros((2, 3))}, "human": None}, r"'BLEU' has shape \(2, 3\); 3 items x 2 systems"),
        ({"scores": {"BLEU": np.full((3, 2), np.inf)}, "human": None}, "'BLEU' of item.* infinite"),
        ({"outputs": pl.DataFrame({"X": ["x"] * 3})}, "one column for each"),
        ({"outputs": pl.DataFrame({"X": ["x"], "Y": ["y"]})}, "1 rows"),
        ({"human": "mqm"}, "unknown score 'mqm'.*'human', 'BLEU'"),
        ({"judgments": judgments(item=["a", "a", "a", "b", "z"])}, "unknown item 'z'.*'a', 'b', 'c'"),
        ({"judgments": judgments(system=["X", "X", "Y", "X", "Z"])}, "unknown system 'Z'.*'X', 'Y'"),
        ({"judgments": judgments(item=[1, 1, 1, 2, 3])}, "unknown item '1'"),
    ],
)
def test_what_does_not_fit_together_is_refused(changes, message):
    with pytest.raises(AliquotError, match=message):
        small(**changes)


@pytest.mark.parametrize("value", [float("inf"), float("-inf")])
def test_infinite_judgments_are_refused(value):
    with pytest.raises(DataError, match=r"r2 on item c, system Y.*not finite"):
        judgments(value=[1.0, 1.0, 1.0, 1.0, value])


def test_nothing_can_be_changed(data):
    with pytest.raises(dataclasses.FrozenInstanceError):
        data.systems = ("Z",)
    with pytest.raises(TypeError):
        data.scores["new"] = np.zeros((3, 2))
    for array in data.scores.values():
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0] = 9.0
    with pytest.raises(TypeError):
        hash(data)


@pytest.mark.parametrize("as_view", [False, True])
def test_what_the_user_passed_stays_theirs(as_view):
    """Neither is their array frozen, nor does a later change of it reach the set (not even below a read-only view)."""
    mine = np.zeros((3, 2))
    given = mine.view()
    given.setflags(write=not as_view)
    data = small(scores={"BLEU": given}, human=None)
    mine[0, 0] = 9.0
    assert data.scores["BLEU"][0, 0] == 0.0


def test_what_the_user_passed_is_not_altered():
    items = pl.DataFrame({"id": pl.Series([3, 1, 2], dtype=pl.Int32), "cost": [1, 2, 3]})
    table = judgments(item=[2, 2, 2, 3, 1]).table
    before = items.clone(), table.clone()
    data = small(items=items, judgments=Judgments(table))
    assert items.equals(before[0])
    assert items.schema == before[0].schema
    assert table.equals(before[1])
    assert data.items.schema == {"id": pl.Int64(), "cost": pl.Float64()}
    assert data.judgments is not None
    assert data.judgments.table["item"].to_list() == [3, 1, 2, 2, 2]  # in the order of the items


def test_a_shared_score_costs_no_copy(data):
    assert data.with_human("BLEU").scores["BLEU"] is data.scores["BLEU"]


# -- equality and looks --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"items": pl.DataFrame({"id": ["a", "b", "c"], "document": ["d1", "d1", None], "words": [3, 5, 8]})},
        {"systems": ("Y", "X")},
        {"scores": {"human": np.array(HUMAN)}},
        {"scores": {"human": np.array(HUMAN), "BLEU": np.zeros((3, 2))}},
        {"outputs": None},
        {"outputs": pl.DataFrame({"X": ["x1", "x2", "x3"], "Y": ["y1", "", "y3"]})},
        {"judgments": None},
        {"judgments": judgments(value=[1.0, 3.0, 5.0, 0.0, 4.0])},
    ],
)
def test_every_part_counts_for_equality(data, changes):
    assert data != small(**changes)


def test_equality_of_contents(data):
    assert data == small(name="other")
    assert data == small(items=data.items.select("words", "document", "id"))  # the order of columns means nothing
    assert data != "data"
    numbered = small(items=pl.DataFrame({"id": [0, 1, 2]}), judgments=None)
    named = small(items=pl.DataFrame({"id": ["0", "1", "2"]}), judgments=None)
    assert numbered != named


def test_repr_helps(data):
    assert repr(data) == (
        "EvalSet('small': 3 items x 2 systems, 2 scores (human: 'human'), 2 documents, outputs, 5 judgments)"
    )
    assert repr(data.judgments) == "Judgments(5 rows, 3 items, 2 systems, 2 annotators)"
    assert len(data) == 3


def test_to_frame_has_a_row_per_cell(data):
    frame = data.to_frame()
    assert frame.columns == ["item", "system", "output", "human", "BLEU"]
    assert frame.row(3) == ("b", "Y", None, None, 3.0)
    assert frame.height == 6


@pytest.mark.parametrize("name", ["item", "system", "output", "metric", "value"])
def test_a_score_may_have_any_name(data, name, tmp_path):
    save(data.rename(scores={"BLEU": name}), tmp_path / "long.csv")
    assert same(load(tmp_path / "long.csv").scores[name], data.scores["BLEU"])


def test_documents_are_codes_and_items_without_one_stand_alone(data):
    assert data.documents is not None
    assert data.documents.tolist() == [0, 0, 1]
    assert small(items=pl.DataFrame({"id": ["a", "b", "c"]})).documents is None


def test_the_fingerprint_follows_the_content(data):
    assert len(data.fingerprint) == 6
    assert data.fingerprint == small(name="other").fingerprint
    others = [data.drop(items=["a"]), data.drop(systems=["X"]), data.rename(scores={"BLEU": "B"}), data.complete()]
    assert len({data.fingerprint, *(other.fingerprint for other in others)}) == len(others) + 1


# -- keep, drop, complete ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "choice",
    [["c", "a"], np.array([True, False, True]), pl.col("words") != 5, pl.col("id").is_in(["a", "c"])],
)
def test_keep_and_drop_items(data, choice):
    kept, dropped = data.keep(items=choice), data.drop(items=choice)
    assert kept.ids == ["a", "c"]  # the order of the set, not of the question
    assert same(kept.scores["human"], [HUMAN[0], HUMAN[2]])
    assert kept.outputs["Y"].to_list() == ["y1", "y3"]
    assert kept.judgments.table["item"].to_list() == ["a", "a", "a", "c"]
    assert dropped.ids == ["b"]
    assert dropped.judgments.table["item"].to_list() == ["b"]
    assert data.n_items == 3


def test_keep_and_drop_systems(data):
    for kept in (data.keep(systems=["Y"]), data.drop(systems=["X"]), data.keep(systems=["Y", "Y"])):
        assert kept.systems == ("Y",)
        assert same(kept.scores["human"], [[2.0], [NAN], [6.0]])
        assert kept.outputs.columns == ["Y"]
        assert kept.judgments.table["system"].to_list() == ["Y", "Y"]
    assert data.keep(systems=["Y", "X"]).systems == ("X", "Y")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"items": ["a", "q"]}, "unknown item 'q'"),
        ({"items": np.array([True])}, "mask has shape"),
        ({"items": pl.col("words")}, "true or false"),
        ({"systems": ["x"]}, "unknown system 'x'; did you mean 'X'"),
    ],
)
def test_unknown_items_and_systems_are_refused(data, arguments, message):
    for method in (data.keep, data.drop):
        with pytest.raises(AliquotError, match=message):
            method(**arguments)


def test_nothing_left_is_still_a_set(data):
    empty = data.keep(items=[])
    assert (empty.n_items, empty.n_systems) == (0, 2)
    assert empty.scores["BLEU"].shape == (0, 2)
    assert empty.judgments is None
    assert empty.describe().items == 0


def test_complete_keeps_items_judged_for_all_systems(data):
    assert data.complete().ids == ["a", "c"]
    assert data.complete("BLEU").ids == ["a", "b", "c"]
    with pytest.raises(NameUnknownError, match="'human', 'BLEU'"):
        data.complete("mqm")
    with pytest.raises(NameUnknownError, match="`human`"):
        data.with_human(None).complete()


# -- names and scores ----------------------------------------------------------------------------------------------


def test_rename(data):
    renamed = data.rename(systems={"X": "Y", "Y": "X"}, scores={"human": "mqm"})
    assert renamed.systems == ("Y", "X")
    assert same(renamed.scores["mqm"], HUMAN)
    assert renamed.human == "mqm"
    assert renamed.outputs["Y"].to_list() == ["x1", "x2", "x3"]
    assert renamed.judgments.table["system"].to_list() == ["Y", "Y", "X", "Y", "X"]


@pytest.mark.parametrize(
    "arguments",
    [
        {"systems": {"X": "Y"}},
        {"systems": {"Z": "W"}},
        {"scores": {"BLEU": "human"}},
        {"scores": {"COMET": "C"}},
    ],
)
def test_renaming_to_nonsense_is_refused(data, arguments):
    with pytest.raises(AliquotError):
        data.rename(**arguments)


def test_scores_and_their_direction(data):
    ter = np.array([[0.1, 0.2], [0.3, NAN], [0.0, 1.0]])
    flipped = data.with_score("TER", ter, lower_is_better=True)
    assert same(flipped.scores["TER"], -ter)
    assert flipped.flipped == {"TER"}
    assert flipped.rename(scores={"TER": "T"}).flipped == {"T"}
    assert flipped.keep(systems=["X"]).flipped == {"TER"}
    assert flipped.with_score("TER", -ter).flipped == frozenset()
    assert data.flipped == frozenset()
    assert "TER" not in data.scores


def test_metrics_are_the_scores_that_are_not_peoples(data):
    more = data.with_score("human_z", data.scores["human"]).with_score("mqm", data.scores["human"])
    assert more.metrics == ["BLEU"]
    assert data.with_human("BLEU").metrics == []
    with pytest.raises(NameUnknownError, match=r"'bleu'; did you mean 'BLEU'"):
        data.score("bleu")
    with pytest.raises(NameUnknownError, match="unknown item column 'words2'"):
        data.column("words2")


# -- judgments -----------------------------------------------------------------------------------------------------


def test_aggregate_takes_the_mean_of_each_cell(data):
    assert same(data.aggregate(name="mean").scores["mean"], [[2.0, 5.0], [NAN, NAN], [NAN, 4.0]])
    by_criterion = data.aggregate(criterion="fluency")
    assert same(by_criterion.scores["human_fluency"], [[2.0, NAN], [NAN, NAN], [NAN, NAN]])
    assert by_criterion.human == "human"
    first = small(scores={}, human=None).aggregate()
    assert first.human == "human"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"how": "median"}, "'median'.*'mean'"), ({"criterion": "style"}, "'fluency', 'adequacy'")],
)
def test_aggregating_what_is_not_there(data, arguments, message):
    with pytest.raises(NameUnknownError, match=message):
        data.aggregate(**arguments)
    with pytest.raises(DataError, match="no judgments"):
        small(judgments=None).aggregate()


def errors(values: list[float | None]) -> Judgments:
    n = len(values)
    return Judgments(
        pl.DataFrame(
            {
                "item": ["a"] * n,
                "system": ["X"] * n,
                "annotator": ["r1", "r1", "r2"][:n],
                "value": pl.Series(values, dtype=pl.Float64),
                "error": list(range(n)),
            }
        )
    )


def test_errors_of_one_annotator_add_up():
    data = small(judgments=errors([-1.0, -5.0, 0.0]), scores={}, human=None).aggregate()
    assert data.scores["human"][0, 0] == -3.0  # (-6 + 0) / 2


def test_a_pending_answer_is_missing_and_not_perfect():
    """Nothing summed is 0, the best MQM score there is; an answer without any value must stay out of the mean."""
    data = small(judgments=errors([-1.0, -5.0, None]), scores={}, human=None).aggregate()
    assert data.scores["human"][0, 0] == -6.0
    assert errors([None]).cell_means().height == 0


def test_judgments_need_their_columns_and_get_the_others():
    with pytest.raises(DataError, match="lack the column 'value'"):
        Judgments(pl.DataFrame({"item": [1], "system": ["A"]}))
    table = Judgments(pl.DataFrame({"item": [1], "system": ["A"], "value": [NAN], "mood": ["good"]})).table
    assert table.columns == ["item", "system", "annotator", "criterion", "value", "seconds", "mood"]
    assert table["value"].to_list() == [None]


# -- describe ------------------------------------------------------------------------------------------------------


def test_describe_counts_and_correlates(data):
    described = data.describe()
    assert (described.items, described.systems, described.documents) == (3, ("X", "Y"), 2)
    assert described.document_lengths == (1, 1.5, 2)
    assert described.texts == {"outputs": pytest.approx(5 / 6)}
    human, bleu = described.scores
    assert (human.coverage, human.items, human.complete_items) == (pytest.approx(5 / 6), 3, 2)
    assert (bleu.minimum, bleu.maximum, bleu.mean) == (0.0, 5.0, 2.5)
    pooled = np.corrcoef([0, 1, 2, 4, 5], [1, 2, 3, 5, 6])[0, 1]  # the cell without human score left out
    assert bleu.item_pearson == pytest.approx(pooled)
    assert bleu.system_pearson == pytest.approx(1.0)
    counted = described.judgments
    assert counted is not None
    assert (counted.count, counted.cells, counted.annotators) == (5, 4, 2)
    assert counted.cells_with_several_annotators == 1
    assert described.signature == f"aliquot:{aliquot.__version__}|inspect|human:human|data:{data.fingerprint}"


def test_describe_says_which_steps_are_possible():
    ready = {step.verb: step.ready for step in synthetic(items=30, systems=3, seed=1).describe().steps}
    assert ready["select"]
    assert ready["simulate"]
    assert not ready["agreement"]  # one annotator an output
    bare = {step.verb: step for step in small(scores={}, human=None, judgments=None).describe().steps}
    assert not bare["estimate"].ready
    assert "`human`" in bare["estimate"].note


def test_describe_with_another_human_score(data):
    assert data.describe(human="BLEU").human == "BLEU"
    with pytest.raises((NameUnknownError, OptionError), match="`human`"):
        data.describe(human="mqm")


@pytest.mark.parametrize(
    "call", [aliquot.select, aliquot.estimate, aliquot.simulate, aliquot.plan, aliquot.learn, aliquot.metrics]
)
def test_what_is_no_data_is_refused(call):
    with pytest.raises(OptionError, match=r"data is a float; give an EvalSet, a path, a Polars or a pandas table"):
        call([0.5] if call in (aliquot.simulate, aliquot.learn) else 0.5)
    with pytest.raises(AliquotError, match=r"absent\.jsonl: no such file"):
        call("absent.jsonl")
