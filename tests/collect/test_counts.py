"""One count for one thing: `collect status`, the organiser's page and `compare` count choices alike."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.cli.conftest import caller
from tests.collect.conftest import judge_all

import aliquot
from aliquot.annotation.preference_result import Comparison
from aliquot.collect.actions import act
from aliquot.collect.organiser import overview
from aliquot.collect.protocols import Choice, Protocol
from aliquot.errors import DataError


def compare_choices(source: Any) -> Comparison:
    result = aliquot.compare(source)
    assert isinstance(result, Comparison)
    return result


RANKING = Protocol(
    name="ranks", title="Ranks", instructions="Rank.", unit="side-by-side", show=4, widgets=(Choice(style="ranking"),)
)


@pytest.mark.parametrize(
    "protocol",
    ["pairwise", "best-worst", "document-comparison", RANKING],
    ids=["pairwise", "best-worst", "documents", "ranking"],
)
def test_status_and_compare_count_choices_alike(make, protocol, capsys):
    campaign = make(protocol, per_output=2)
    judge_all(campaign)
    call, where = caller(capsys), campaign.store.place
    compared = int(re.findall(r"(\d+) choices by", call("compare", where).words)[0])
    status = call("collect", "status", where).words
    assert f"after {compared} choices ({len(campaign.judgments())} outputs seen)" in status
    assert not re.search(r"\d judgments", status)
    if protocol == "document-comparison":  # an answer about a document is one judgment, not one for each item
        assert len(campaign.judgments()) == 2 * compared
    told = call("collect", "status", where, "--json").json
    assert told["overview"]["snapshot"]["choices"] == call("compare", where, "--json").json["choices"] == compared
    assert told["answers"] == campaign.choices().height  # what annotators answered: one a comparison


def test_scores_are_counted_as_judgments(make, capsys):
    campaign = make("da")
    judge_all(campaign)
    status = caller(capsys, "collect", "status")(campaign.store.place).words
    assert f"after {len(campaign.judgments())} judgments." in status


def test_choices_of_excluded_annotators_count_nowhere(make, tmp_path):
    """As `estimate` leaves out marked judgments, `compare` leaves out marked choices, and says so."""
    campaign = make("pairwise", per_output=2)
    judge_all(campaign)
    act(campaign, "exclude", "ann1")
    campaign.export(tmp_path / "choices.csv", what="choices")
    left = campaign.choices().filter(annotator="ann1", marked="excluded").height
    for source in (campaign.store.place, tmp_path / "choices.csv"):
        result = compare_choices(source)
        assert result.annotators == 2
        assert result.choices == campaign.choices().height - left == overview(campaign).snapshot.choices
        assert f"choices that are marked, left out: {left}" in result.notes
    for name in ("ann2", "ann3"):
        act(campaign, "exclude", name)
    assert overview(campaign).snapshot.choices == 0
    with pytest.raises(DataError, match=r"all choices are marked \(excluded\)"):
        compare_choices(campaign.store.place)
