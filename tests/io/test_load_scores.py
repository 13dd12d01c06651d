"""Own scores joined to data: long and wide, from any container, by ids as they are written; misfits are named."""

from __future__ import annotations

import copy
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aliquot
from aliquot import AliquotWarning, EvalSet
from aliquot.core.columns import unify_ids
from aliquot.errors import AliquotError, DataError, FormatError, NameUnknownError, OptionError

ROWS = "item,system,mine\n2,B,0.5\n1,A,0.25\n1,B,0.75\n"
WIDE = "item,A,B\n2,,0.5\n1,0.25,0.75\n"
CELLS = ((2, "B", 0.5), (1, "A", 0.25), (1, "B", 0.75))
ITEMS = """{"i": "2", "scores": {"B": {"mine": 0.5}}}
{"i": "1", "scores": {"A": {"mine": 0.25}, "B": {"mine": 0.75}}}
"""
EXPECTED = [[0.25, 0.75], [np.nan, 0.5], [np.nan, np.nan]]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    lines = [{"i": item, "scores": {"A": {"human": item}, "B": {"human": 1.5}}} for item in (1, 2, 3)]
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return tmp_path / "data.jsonl"


def written(data: Path, text: str, name: str = "mine.csv") -> Path:
    (data.parent / name).write_text(text)
    return data.parent / name


def joined(data: Path, text: str, name: str = "mine.csv", **options: Any) -> EvalSet:
    return aliquot.load(data, scores=written(data, text, name), **options)


# -- what is read ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("any.csv", ROWS),
        ("any.tsv", ROWS.replace(",", "\t")),
        ("any.csv", "segment_id,model,metric,score\n2,B,mine,0.5\n1,A,mine,0.25\n1,B,mine,0.75\n"),
        ("mine.csv", ROWS.replace("mine", "score")),  # a score without a name is called like the file
        ("mine.2.csv", WIDE),
        (
            "any.jsonl",
            "".join(json.dumps(dict(zip(("item", "system", "mine"), row, strict=True))) + "\n" for row in CELLS),
        ),
        ("mine.jsonl", '{"item": "2", "B": 0.5}\n{"item": "1", "A": 0.25, "B": 0.75}\n'),
        ("mine.json", '[{"item": 2, "A": null, "B": 0.5}, {"item": 1, "A": 0.25, "B": 0.75}]'),
        ("any.jsonl", ITEMS),
    ],
)
def test_the_same_scores_from_every_layout(data: Path, name: str, text: str) -> None:
    evalset = joined(data, text, name)
    assert np.array_equal(evalset.scores["mine"], EXPECTED, equal_nan=True)
    assert list(evalset.scores) == ["human", "mine"]
    assert evalset.joined == ("mine",)
    assert evalset.human == "human"


def test_options_name_score_and_columns(data: Path) -> None:
    assert joined(data, WIDE, score_name="COMET").metrics == ["COMET"]
    other = ROWS.replace("item,system", "segment,who")
    assert joined(data, other, columns={"system": "who"}).metrics == ["mine"]
    with pytest.raises(FormatError, match="no columns 'system'"):
        joined(data, other, columns={"system": "whom"})
    assert joined(data, ROWS, lower_is_better=["mine"]).scores["mine"][0].tolist() == [-0.25, -0.75]


def test_data_that_are_a_table_use_the_options_first(data: Path) -> None:
    table = written(data, "segment,system,value\n1,A,3\n1,B,4\n2,B,5\n", "people.csv")
    options: dict[str, Any] = {"columns": {"item": "segment"}, "score_name": "human"}
    evalset = aliquot.load(table, scores=[written(data, WIDE)], **options)
    assert evalset.metrics == ["mine"]
    assert evalset.human == "human"


def test_several_files_and_tables(data: Path) -> None:
    half = written(data, "item,system,mine\n1,A,0.25\n1,B,0.75\n", "first.csv")
    rest = pl.DataFrame({"item": ["2"], "system": ["B"], "mine": [0.5], "other": [7]})
    pandas = pl.DataFrame({"item": [3], "A": [1], "B": [2]}).to_pandas()
    evalset = aliquot.load(data, scores=[half, rest, pandas])
    assert np.array_equal(evalset.scores["mine"], EXPECTED, equal_nan=True)  # halves make a whole
    assert evalset.joined == ("mine", "other", "score")
    assert copy.deepcopy(evalset).joined == evalset.joined  # through __reduce__, as pickle does
    assert evalset.rename(scores={"other": "ours"}).keep(items=[1]).joined == ("mine", "ours", "score")


def test_people_s_scores_may_come_from_a_file(data: Path) -> None:
    bare = written(data, '{"i": 1, "tgt": {"A": "x"}}\n', "bare.jsonl")
    assert aliquot.load(bare, scores=written(data, "item,system,human\n1,A,3\n")).human == "human"
    people = aliquot.load(bare, human="adequacy", scores=written(data, "item,system,adequacy\n1,A,3\n"))
    assert people.human == "adequacy"


def test_with_score_takes_a_table(data: Path) -> None:
    evalset = aliquot.load(data)
    long = pl.DataFrame({"item": ["2", "1", "1"], "system": ["B", "A", "B"], "x": [0.5, 0.25, 0.75]})
    for table in (
        long,
        long.to_pandas(),
        long.rename({"x": "mine"}).with_columns(other=1),
        pl.DataFrame({"id": [1, 2], "A": [0.25, None], "B": [0.75, 0.5]}),
    ):
        added = evalset.with_score("mine", table)
        assert np.array_equal(added.scores["mine"], EXPECTED, equal_nan=True)
        assert added.joined == ("mine",)
    assert evalset.with_score("human", long).scores["human"][0].tolist() == [0.25, 0.75]  # replaces, as an array does
    assert evalset.with_score("mine", long, lower_is_better=True).flipped == {"mine"}
    with pytest.raises(NameUnknownError, match="the table has several"):
        evalset.with_score("mine", long.with_columns(y=1))


# -- what does not fit ---------------------------------------------------------------------------------------------


def test_what_does_not_fit_is_counted_and_named(data: Path) -> None:
    with pytest.warns(AliquotWarning) as notes:
        evalset = joined(data, ROWS + "x17,A,1\nx18,B,1\n3,b,1\n3,C,\n")
    (note,) = [str(note.message).removeprefix(str(data.parent)) for note in notes]
    assert note == (
        "/mine.csv: 2 of 6 scores are on items that are not in the data ('x17', 'x18'); 1 of 6 scores are on systems "
        "that are not in the data ('b', 'C'): left out"
    )
    assert np.array_equal(evalset.scores["mine"], EXPECTED, equal_nan=True)
    with pytest.warns(AliquotWarning, match=r"1 of 2 scores are on systems .* \('b'; is 'b' 'B'\?\): left out"):
        joined(data, "item,system,mine\n1,A,1\n1,b,1\n")


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("item,system,mine\nx1,A,1\n", r"items here are 'x1', in the data '1', '2', '3'; systems fit; .*`columns="),
        ("item,C,D\n1,1,2\n", "items fit; systems here are 'C', 'D', in the data 'A', 'B'"),
        ("item,system,mine\n1,A,\n", "none of 0 scores"),
        ("item,system,annotator,value\n1,A,ann,3\n", "holds judgments; give it as `judgments`"),
        ("item,system,mine\n1,A,good\n", "none of the columns 'mine' holds numbers"),
        ("item,A,B\n1,2,3\n1,2,4\n", "item 1 has two rows"),
        ("item,system,human\n1,A,7\n", r"have a score 'human', too, and 1 of 1 values differ \(item 1, A: 1 there, 7"),
        ("", "the file is empty"),
        ('{"item": 1, "system": "A", "mine": {}}', "no item has a system|expected"),
    ],
)
def test_errors_say_what_to_do(data: Path, text: str, pattern: str) -> None:
    with pytest.raises(AliquotError, match=pattern) as error:
        joined(data, text)
    assert str(error.value).startswith(str(data.parent / "mine.csv"))


def test_a_name_that_the_data_have(data: Path) -> None:
    first = written(data, ROWS)
    again = written(data, ROWS + "3,A,9\n", "again.csv")
    evalset = aliquot.load(data, scores=[first, again])
    assert evalset.scores["mine"][2, 0] == 9  # values that agree are completed
    changed = written(data, ROWS.replace("0.25", "0.2500001"), "changed.csv")
    with pytest.raises(OptionError, match=r"changed.csv: the data have a score 'mine'.* give it another name"):
        aliquot.load(data, scores=[first, changed])
    with pytest.warns(AliquotWarning, match="what people gave stays"):
        beside = aliquot.load(data, scores=written(data, "item,system,human,mine\n1,A,7,0.25\n"))
    assert beside.scores["human"][0, 0] == 1


def test_a_campaign_brings_its_metrics_not_its_judgments(data: Path) -> None:
    other = aliquot.load(data).with_score("mine", np.arange(6.0).reshape(3, 2))
    judged = EvalSet(
        other.items,
        other.systems,
        {"mine": other.scores["mine"]},
        judgments=aliquot.Judgments(
            pl.DataFrame({"item": [1], "system": ["A"], "annotator": ["ann"], "value": [50.0]})
        ),
    ).aggregate()
    evalset = aliquot.load(data, scores=judged)
    assert evalset.scores["human"][0, 0] == 1
    assert evalset.joined == ("mine",)
    with pytest.raises(DataError, match="none of 12 scores"):
        aliquot.load(data, scores=[other.rename(systems={"A": "a", "B": "b"})])


# -- round trips ---------------------------------------------------------------------------------------------------

NAMES = st.lists(
    st.text("abcAB12 _-é", min_size=1, max_size=5).filter(lambda text: text == text.strip()),
    min_size=1,
    max_size=4,
    unique=True,
)


@settings(max_examples=60, deadline=None)
@given(
    ids=st.lists(
        st.one_of(st.integers(0, 99), st.text("ab0", min_size=1, max_size=3)), min_size=1, max_size=6, unique_by=str
    ),
    systems=NAMES.map(lambda names: [f"s{name}" for name in names]),
    seed=st.integers(0, 9),
    wide=st.booleans(),
    shuffled=st.booleans(),
)
def test_scores_taken_out_come_back(
    ids: list[int | str], systems: list[str], seed: int, wide: bool, shuffled: bool
) -> None:
    rng = np.random.default_rng(seed)
    values = np.where(rng.random((len(ids), len(systems))) < 0.2, np.nan, rng.normal(size=(len(ids), len(systems))))
    values[0, 0] = 1.5
    items = pl.DataFrame({"id": unify_ids(ids)})
    data = EvalSet(items, tuple(systems), {"mine": values})
    bare = EvalSet(items, tuple(systems))
    if wide:
        columns = [pl.Series(system, values[:, column]) for column, system in enumerate(systems)]
        table = pl.DataFrame([data.items["id"].alias("item"), *columns])
    else:
        table = data.to_frame()
    table = table.sample(fraction=1.0, shuffle=True, seed=seed) if shuffled else table
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        back = bare.with_score("mine", table)
    assert np.array_equal(back.scores["mine"], values, equal_nan=True)
