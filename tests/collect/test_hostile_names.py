"""Names with separators, quotes, line ends: systems, items and annotators come back exactly, by every way out."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from tests.collect import test_exchange, test_sheets
from tests.collect.conftest import as_version_2, judge_all

import aliquot
from aliquot.annotation.preference_result import Comparison
from aliquot.collect.campaign import Campaign
from aliquot.collect.exchange import KEY, TOOLS
from aliquot.collect.exporting import write_table
from aliquot.collect.protocols import Choice, Protocol, list_protocols, load_protocol
from aliquot.collect.sheets import read_sheets
from aliquot.core.columns import encode_column
from aliquot.core.evalset import EvalSet
from aliquot.errors import DataError, FormatError


def compare_choices(source: Any) -> Comparison:
    result = aliquot.compare(source)
    assert isinstance(result, Comparison)
    return result


SYSTEMS = (
    "gpt t=0.2",
    "a>b",
    "x;y",
    "p,q",
    "r|s",
    'it\'s "best"',
    "two\nlines",
    "🦜 v2",
    "-o",
    "A/B",
    "n" * 300,
    "=1+1",
    '["a"]',
)
PEOPLE = ("ann, the 1st", "o'neil\"=;|>")
ITEMS = 6
RANKING = Protocol(
    name="ranks", title="Ranks", instructions="Rank.", unit="side-by-side", show=4, widgets=(Choice(style="ranking"),)
)
EVERY_PROTOCOL = {name: load_protocol(name) for name in list_protocols()} | {"ranks": RANKING}
COMPARISONS = {
    name for name, protocol in EVERY_PROTOCOL.items() if any(isinstance(w, Choice) for w in protocol.widgets)
}


def hostile_data(systems: tuple[str, ...] = SYSTEMS, item: str = 'i{};"=|, >\nx') -> EvalSet:
    rows = [(i, name) for i in range(ITEMS) for name in systems]
    frame = pl.DataFrame(
        {
            "item": [item.format(i) for i, _ in rows],
            "document": [f"doc{i // 3}" for i, _ in rows],
            "source": [f"source text {i}" for i, _ in rows],
            "system": [name for _, name in rows],
            "output": [f"output text {i} version {systems.index(name)}" for i, name in rows],
        }
    )
    found = aliquot.load(frame)
    spans = [{name: [{"start": 0, "end": 2, "severity": "minor"}] for name in systems}] * ITEMS
    return replace(found, items=found.items.with_columns(encode_column("spans", spans)))


DATA = hostile_data()


def estimated(protocol, judgments, **options):
    criterion = "adequacy" if protocol == "likert" else None
    return aliquot.estimate(DATA, "mean", judgments=judgments, criterion=criterion, **options).systems


@pytest.fixture(scope="module", params=EVERY_PROTOCOL)
def judged(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("hostile")
    with Campaign.create(DATA, None, EVERY_PROTOCOL[request.param], PEOPLE, path=folder / "c.db") as campaign:
        judge_all(campaign)
        yield request.param, campaign, folder


def test_a_campaign_names_what_was_judged(judged):
    name, campaign, _ = judged
    table = campaign.judgments().table
    assert set(table["system"]) == set(SYSTEMS)
    assert set(table["item"]) == set(DATA.ids) or (name == "document-comparison" and set(table["item"]) < set(DATA.ids))
    assert set(table["annotator"]) <= set(PEOPLE)
    assert {row.system for row in estimated(name, campaign.store.place)} == set(SYSTEMS)
    if name in COMPARISONS:
        assert {row.system for row in compare_choices(campaign.store.place).systems} == set(SYSTEMS)
    assert campaign.check().sound


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_an_export_names_what_was_judged(judged, ending):
    name, campaign, folder = judged
    campaign.export(folder / f"judgments{ending}")
    back, own = aliquot.load_judgments(folder / f"judgments{ending}").table, campaign.judgments().table
    columns = ["system", "item", "annotator", "value"]
    assert sorted(back.select(columns).rows()) == sorted(own.select(columns).rows())
    if name in COMPARISONS:
        campaign.export(folder / f"choices{ending}", what="choices")
        there = compare_choices(folder / f"choices{ending}")
        here = compare_choices(campaign.store.place)
        assert {row.system for row in there.systems} == set(SYSTEMS)
        assert there.to_frame().equals(here.to_frame())


@pytest.mark.parametrize("name", EVERY_PROTOCOL)
def test_sheets_name_what_was_judged(name, tmp_path):
    paths = test_sheets.sheets_for(DATA, EVERY_PROTOCOL[name], tmp_path / "sheets", PEOPLE)
    for path in paths[:-1]:
        if path.suffix == ".csv":
            rows = test_sheets.rows_of(path)
            test_sheets.fill(rows, EVERY_PROTOCOL[name])
            test_sheets.write_rows(path, rows)
    found = read_sheets([path for path in paths if path.suffix == ".csv"], paths[-1])
    assert set(found.judgments["system"]) == set(SYSTEMS)
    items = set(found.judgments["item"])
    assert items == set(DATA.ids) or (name == "document-comparison" and items < set(DATA.ids))
    assert set(found.judgments["annotator"]) == set(PEOPLE)
    if name in COMPARISONS:
        write_table(found.choices, tmp_path / "choices.csv")
        assert {row.system for row in compare_choices(tmp_path / "choices.csv").systems} == set(SYSTEMS)


@pytest.mark.parametrize("tool", TOOLS)
def test_other_tools_bring_the_names_back(tool, tmp_path, monkeypatch):
    monkeypatch.setattr(test_exchange, "truth", lambda _item, system, _: float(SYSTEMS.index(system)))
    files = test_exchange.made(tool, data=DATA)
    (tmp_path / "key.csv").write_bytes(files[KEY])
    (tmp_path / "export").write_text(test_exchange.ANSWERED[tool](files))
    back = aliquot.load_judgments(tmp_path / "export", key=tmp_path / "key.csv")
    means = {row.system: row.estimate for row in estimated("esa", back)}
    assert means == pytest.approx({name: float(place) for place, name in enumerate(SYSTEMS)})


def test_an_mqm_file_holds_the_names_or_is_refused(make, tmp_path):
    plain = tuple(name for name in SYSTEMS if "\n" not in name)
    campaign = make("mqm", PEOPLE, data=hostile_data(plain, 'i{};"=|, >x'))
    judge_all(campaign)
    campaign.export(tmp_path / "mqm.tsv", format="mqm")
    back = aliquot.load(tmp_path / "mqm.tsv")
    assert set(back.systems) == set(plain)
    assert set(back.ids) == set(campaign.data.ids)
    broken = make("mqm", PEOPLE, data=DATA)
    judge_all(broken)
    with pytest.raises(DataError, match="line end, which an MQM file cannot hold"):
        broken.export(tmp_path / "broken.tsv", format="mqm")
    assert not (tmp_path / "broken.tsv").exists()


@pytest.mark.parametrize("name", ["best-worst", "ranks"])
def test_a_campaign_of_the_first_version_is_brought_up_to_date(name, make):
    """Its lists of systems are texts; they are made again from the log."""
    campaign = make(EVERY_PROTOCOL[name], PEOPLE, data=DATA)
    judge_all(campaign)
    before = campaign.choices()
    campaign.close()
    with sqlite3.connect(campaign.store.place) as old:
        old.execute("UPDATE choices SET shown = 'a;b', ranking = 'a > b' WHERE TRUE")
        old.execute("ALTER TABLE answers DROP COLUMN writer")
        as_version_2(old.execute)
        old.execute("UPDATE meta SET value = '1' WHERE key = 'schema'")
    with pytest.raises(FormatError, match="aliquot collect check"):
        compare_choices(campaign.store.place)
    with Campaign.open(campaign.store.place) as opened:
        assert opened.check().sound
        after = opened.choices()
    assert after.sort(after.columns).equals(before.sort(before.columns))


def test_systems_may_be_called_like_the_sides_of_a_pair(make):
    campaign = make("pairwise", data=hostile_data(("a", "b", "left", "tie", "same")), pairs="all")
    judge_all(campaign)
    table = campaign.judgments().table
    result = compare_choices(campaign.store.place)
    for row in result.systems:
        own = table.filter(system=row.system)["value"]
        assert row.win_rate == pytest.approx(own.mean())
