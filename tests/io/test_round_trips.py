"""Round trips through item JSON lines and Parquet lose nothing, whatever the names, texts and values are."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aliquot import AliquotError, EvalSet, Judgments, load, save, synthetic
from aliquot.core.columns import encode_column
from aliquot.io.formats.item_fields import column_name

FORMATS = pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz", "parquet"])
ODD_NAMES = (
    "a.b",
    "org/model-7b",
    "GPT 4, new",
    "日本語",
    "שלום",
    "é",
    "e\u0301",
    " ",
    "item",
    "value",
    "json",
    "A\tB",
    "\x00",
    "🙂",
    "*",  # this and the next are patterns to Polars
    "^a.*$",
)
FIELDS = ("time", "lang", "id", "source", "document", "field:x", "selection", "refs", "日本", "*", "^r.*$")

text = st.text(max_size=12) | st.sampled_from(["", "None", "NaN", "line\nbreak", "\u2028", "\r", '"', "<v>x</v>"])
finite = st.floats(allow_nan=False, allow_infinity=False)
json_value = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | finite | text,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(text, inner, max_size=2),
    max_leaves=3,
)


def column(values: st.SearchStrategy[Any], n: int) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.none() | values, min_size=n, max_size=n)


def names(at_most: int) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(ODD_NAMES) | st.text(min_size=1, max_size=5), max_size=at_most, unique=True)


@st.composite
def items_tables(draw):
    """Items with ids of one kind, any of the standard columns, and extra fields of any JSON.

    Columns without any value are left to `test_corners`.
    """
    ids = draw(
        st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=4, unique=True)
        | st.lists(st.text(max_size=5), min_size=1, max_size=4, unique=True)
    )
    kinds: dict[str, tuple[st.SearchStrategy[Any], pl.DataType]] = {
        "source": (text, pl.String()),
        "reference": (text, pl.String()),
        "document": (text, pl.String()),
        "domain": (text, pl.String()),
        "position": (st.integers(-(2**40), 2**40), pl.Int64()),
        "cost": (finite, pl.Float64()),
    }
    columns = [pl.Series("id", ids)]
    for name in draw(st.lists(st.sampled_from(sorted(kinds)), unique=True, max_size=3)):
        values, dtype = kinds[name]
        columns.append(pl.Series(name, draw(column(values, len(ids))), dtype=dtype))
    extra = draw(st.lists(st.sampled_from(FIELDS), unique=True, max_size=2))
    columns += [encode_column(column_name(field), draw(column(json_value, len(ids)))) for field in extra]
    return pl.DataFrame([column for column in columns if column.null_count() < len(ids)])


@st.composite
def judgment_tables(draw, ids, systems):
    n = draw(st.integers(1, 5))
    free = draw(st.lists(st.sampled_from(["label", "spans", "order", "protocol"]), unique=True, max_size=2))
    values = {name: draw(column(json_value, n)) for name in free}
    return pl.DataFrame(
        [
            pl.Series("item", draw(st.lists(st.sampled_from(ids), min_size=n, max_size=n))),
            pl.Series("system", draw(st.lists(st.sampled_from(systems), min_size=n, max_size=n))),
            pl.Series("annotator", draw(column(text, n)), dtype=pl.String),
            pl.Series("value", draw(column(finite, n)), dtype=pl.Float64),
            *(encode_column(name, column) for name, column in values.items() if any(v is not None for v in column)),
        ]
    )


@st.composite
def evalsets(draw):
    """Small sets with missing values anywhere, odd names and nested extras."""
    items = draw(items_tables())
    ids, n = items["id"].to_list(), items.height
    systems = draw(names(3).filter(bool))
    cell = st.floats(allow_infinity=False) | st.sampled_from([-0.0, 5e-324, 1.7976931348623157e308])
    row = st.lists(cell, min_size=len(systems), max_size=len(systems))
    scores = {name: np.array(draw(st.lists(row, min_size=n, max_size=n))) for name in draw(names(3).filter(bool))}
    texts = {system: draw(column(text, n)) for system in systems} if draw(st.booleans()) else {}
    some_text = any(value is not None for values in texts.values() for value in values)
    judged = draw(judgment_tables(ids, systems)) if draw(st.booleans()) else None
    return EvalSet(
        items=items,
        systems=tuple(systems),
        scores=scores,
        outputs=pl.DataFrame({s: pl.Series(v, dtype=pl.String) for s, v in texts.items()}) if some_text else None,
        judgments=None if judged is None else Judgments(judged),
    )


def round_trip(data: EvalSet, ending: str, **options: Any) -> EvalSet:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"x.{ending}"
        save(data, path)
        return load(path, **options)


@FORMATS
@settings(max_examples=60, deadline=None)
@given(data=evalsets())
def test_nothing_is_lost(ending, data):
    again = round_trip(data, ending)
    assert again == data
    assert again.items.columns[0] == "id"
    for name, values in data.scores.items():
        assert np.array_equal(np.signbit(again.scores[name]), np.signbit(values) & ~np.isnan(values))  # -0.0 stays


@FORMATS
def test_a_campaign_survives(ending):
    campaign = synthetic(items=40, systems=3, annotators=4, judgments_per_output=2, seed=5)
    again = round_trip(campaign, ending)
    assert again == campaign
    assert again.human == "human"
    assert again.fingerprint == campaign.fingerprint


def small(**changes: Any) -> EvalSet:
    fields: dict[str, Any] = {
        "items": pl.DataFrame({"id": [0, 1]}),
        "systems": ("A", "B"),
        "scores": {"m": np.array([[1.0, 2.0], [3.0, 4.0]])},
    }
    return EvalSet(**{**fields, **changes})


JUDGED = Judgments(pl.DataFrame({"item": [0, 1], "system": ["A", "B"], "value": [1.0, 2.0]}))
NO_TEXT = pl.DataFrame({"A": [None, None], "B": [None, None]}, schema={"A": pl.String, "B": pl.String})

CORNERS = {
    "judgments without scores": small(scores={}, judgments=JUDGED),
    "systems without anything": small(scores={}),
    "outputs without any text": small(outputs=NO_TEXT),
    "a score without any value": small(scores={"m": np.full((2, 2), np.nan)}),
    "a judgments column i": small(judgments=Judgments(JUDGED.table.with_columns(pl.lit(4).alias("i")))),
    "an item column aliquot": small(items=pl.DataFrame({"id": [0, 1], "aliquot": ["x", "y"]})),
    "an item column without values": small(items=pl.DataFrame({"id": [0, 1], "x": [None, None]})),
    "a document column without values": small(items=pl.DataFrame({"id": [0, 1], "document": [None, None]})),
    "a judgments column without values": small(judgments=Judgments(JUDGED.table.with_columns(pl.lit(None).alias("x")))),
    "a judged item between others": small(judgments=Judgments(JUDGED.table.tail(1))),
}


@FORMATS
@pytest.mark.parametrize("data", [pytest.param(data, id=name) for name, data in CORNERS.items()])
def test_corners(ending, data):
    again = round_trip(data, ending)
    assert again == data
    assert again.systems == data.systems


REFUSED_OR_KEPT = {
    "a system without name": {"systems": ("", "B")},
    "a score without name": {"scores": {"": np.ones((2, 2))}},
    "a column src beside source": {"items": pl.DataFrame({"id": [0, 1], "source": ["a", "b"], "src": ["c", "d"]})},
    "a column scores": {"items": pl.DataFrame({"id": [0, 1], "scores": ["a", "b"]})},
}


@FORMATS
@pytest.mark.parametrize("changes", [pytest.param(changes, id=name) for name, changes in REFUSED_OR_KEPT.items()])
def test_names_that_clash_are_refused_or_kept(ending, changes):
    """Never lost silently, and never a crash of a library below."""
    try:
        data = small(**changes)
        again = round_trip(data, ending)
    except AliquotError:
        return
    assert again == data


@FORMATS
def test_sources_without_systems(ending):
    data = small(systems=(), scores={}, items=pl.DataFrame({"id": [0, 1], "source": ["a", "b"]}))
    assert round_trip(data, ending, sources_only=True) == data


@FORMATS
def test_after_filtering(ending, tmp_path):
    """What is left of mixed columns may be of one kind, or nothing at all, and is still the same data."""
    (tmp_path / "mixed.jsonl").write_text(
        '{"i": 0, "tgt": {"A": "x"}, "note": [1], "judgments": [{"system": "A", "value": 1, "label": "ok"}]}\n'
        '{"i": 1, "tgt": {"A": "x"}, "note": "s", "judgments": [{"system": "A", "value": 2}]}\n'
    )
    kept = load(tmp_path / "mixed.jsonl").keep(items=[1])
    assert round_trip(kept, ending) == kept


def test_the_same_data_give_the_same_bytes(tmp_path):
    campaign = synthetic(items=20, systems=3, seed=2)
    for ending in ("jsonl", "jsonl.gz", "parquet"):
        paths = [tmp_path / f"{number}.{ending}" for number in (1, 2)]
        for path in paths:
            save(campaign, path)
        assert paths[0].read_bytes() == paths[1].read_bytes()


def test_from_lines_to_parquet_and_back_to_the_same_bytes(tmp_path):
    save(synthetic(items=20, systems=3, seed=2), tmp_path / "a.jsonl")
    save(load(tmp_path / "a.jsonl"), tmp_path / "b.parquet")
    save(load(tmp_path / "b.parquet"), tmp_path / "c.jsonl")
    assert (tmp_path / "c.jsonl").read_bytes() == (tmp_path / "a.jsonl").read_bytes()


def test_tables_take_names_that_are_patterns(tmp_path):
    """Polars takes "*" for all columns, and "^a$" for a regular expression, even of a column by itself."""
    path = tmp_path / "scores.csv"
    path.write_text("item,system,*,b\n1,A,1,3\n2,A,2,4\n")
    assert {name: values[:, 0].tolist() for name, values in load(path).scores.items()} == {"*": [1, 2], "b": [3, 4]}
    path.write_text("item,system,^a$,b\n1,A,1,3\n2,A,2,4\n")
    with pytest.raises(AliquotError, match=r"the column '\^a\$' cannot be read by that name; rename it"):
        load(path)
