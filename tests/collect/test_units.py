"""Units: every selected cell once, in reading order, context never judged, systems shown together equally often."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aliquot
from aliquot.collect.protocols import load_protocol
from aliquot.collect.unit_texts import UnitTexts
from aliquot.collect.units import make_units
from aliquot.core.evalset import EvalSet
from aliquot.core.selection import Selection
from aliquot.errors import DataError, NameUnknownError

SYSTEMS = ("A", "B", "C", "D")


def evalset(documents: list[str | None], systems: tuple[str, ...] = SYSTEMS) -> EvalSet:
    n = len(documents)
    items = pl.DataFrame(
        {"id": list(range(n)), "source": [f"s{i}" for i in range(n)], "document": pl.Series(documents, dtype=pl.String)}
    )
    return EvalSet(items, systems, outputs=pl.DataFrame({s: [f"{s}{i}" for i in range(n)] for s in systems}))


@st.composite
def selections(draw):
    documents = draw(st.lists(st.sampled_from(["d1", "d2", "d3", None]), min_size=1, max_size=25))
    data = evalset(documents)
    ids = draw(st.lists(st.integers(0, len(documents) - 1), min_size=1, unique=True))
    per_item = st.lists(st.sampled_from(SYSTEMS), min_size=2, unique=True).map(lambda names: tuple(sorted(names)))
    systems = draw(st.none() | st.tuples(*[per_item] * len(ids)))
    return data, Selection(tuple(ids), data.n_items, "given", systems=systems)


@settings(max_examples=60, deadline=None)
@given(selections(), st.sampled_from(["da", "contrastive", "pairwise", "document-comparison"]), st.integers(1, 5))
def test_every_selected_cell_is_in_a_unit(made, name, most):
    data, selection = made
    protocol = load_protocol(name)
    units = make_units(data, selection, protocol, seed=3, unit_items=most)
    systems = selection.systems or [SYSTEMS] * len(selection)
    wanted = {(item, system) for item, names in zip(selection.ids, systems, strict=True) for system in names}
    found = Counter((item, system) for unit in units for item in unit.judged for system in unit.systems)
    assert set(found) == wanted
    if name in ("da", "contrastive"):
        assert set(found.values()) == {1}
    order = {item: at for at, item in enumerate(data.ids)}  # no positions: the order of the data is that of reading
    for unit in units:
        places = [order[row.item] for row in unit.rows]
        assert places == sorted(places)
        assert 1 <= len(unit.judged) <= most
        assert len({data.items["document"][at] for at in places}) == 1
        context = [row.item for row in unit.rows if row.context]
        assert not set(context) & set(unit.judged)
        assert len(unit.systems) == (1 if name == "da" else 2 if name != "contrastive" else len(unit.systems))
        near = {order[item] for item in unit.judged}
        document = [order[i] for i in data.ids if data.items["document"][order[i]] == data.items["document"][places[0]]]
        place = {at: n for n, at in enumerate(document)}
        if unit.document is not None:
            assert all(min(abs(place[order[c]] - place[j]) for j in near) <= protocol.context for c in context)


def test_reading_order_follows_the_position():
    data = evalset(["d"] * 4)
    items = data.items.with_columns(position=pl.Series([3, 2, 1, 0]))
    data = EvalSet(items, data.systems, outputs=data.outputs)
    unit = make_units(data, None, load_protocol("da"))[0]
    assert unit.judged == (3, 2, 1, 0)


@pytest.mark.parametrize("systems", [4, 5, 6])
def test_pairs_of_systems_meet_equally_often(systems):
    names = tuple("ABCDEF"[:systems])
    rounds = 60 * (systems - 1)
    units = make_units(evalset([None] * rounds, names), None, load_protocol("pairwise"), seed=0)
    met = Counter(unit.systems for unit in units)
    assert set(met) == set(combinations(names, 2))
    assert max(met.values()) - min(met.values()) <= 0.05 * np.mean(list(met.values())) + 2
    if systems % 2 == 0:
        assert set(Counter(cell for u in units for cell in ((u.judged, s) for s in u.systems)).values()) == {1}


def test_all_pairs():
    units = make_units(evalset(["d", "d"]), None, load_protocol("pairwise"), pairs="all")
    assert sorted(unit.systems for unit in units) == list(combinations(SYSTEMS, 2))
    with pytest.raises(NameUnknownError, match="balanced"):
        make_units(evalset(["d"]), None, load_protocol("pairwise"), pairs="som")


def test_the_same_seed_gives_the_same_units():
    data = aliquot.synthetic(items=30, systems=3, seed=1)
    first, second, other = (make_units(data, None, load_protocol("da"), seed=seed) for seed in (1, 1, 2))
    assert first == second != other


def test_missing_outputs():
    data = evalset(["d", "d", "d"])
    holes = data.outputs.with_columns(B=pl.Series(["B0", None, "B2"]))  # type: ignore[union-attr]
    data = EvalSet(data.items, data.systems, outputs=holes)
    with pytest.raises(DataError, match="item 1 has no output of the system 'B'; add it, or leave"):
        make_units(data, None, load_protocol("da"))
    units = make_units(data, None, load_protocol("da"), skip_missing=True)
    assert Counter(s for u in units for s in u.systems for _ in u.judged) == {"A": 3, "B": 2, "C": 3, "D": 3}
    with pytest.raises(DataError, match="no outputs to judge"):
        make_units(EvalSet(data.items, data.systems), None, load_protocol("da"))


def test_one_system_cannot_be_compared():
    chosen = Selection((0,), 2, "given", systems=(("A",),))
    with pytest.raises(DataError, match="compares systems"):
        make_units(evalset(["d", "d"]), chosen, load_protocol("pairwise"))
    with pytest.raises(DataError, match="asks for the system 'Z' on item 0"):
        make_units(evalset(["d", "d"]), Selection((0,), 2, "given", systems=(("Z",),)), load_protocol("da"))


def test_suggested_spans_are_checked(data):
    texts = UnitTexts(data, load_protocol("esa-ai"))
    unit = next(u for u in make_units(data, None, load_protocol("esa-ai")) if u.systems == ("sys1",))
    row = next(row for row in texts.show_unit(unit) if not row.context)
    output = row.outputs[0]
    assert output.prefilled is not None
    assert output.prefilled[0].quote == output.text[:2]
    with pytest.raises(DataError, match="which the items lack"):
        UnitTexts(evalset(["d"]), load_protocol("esa-ai"))
