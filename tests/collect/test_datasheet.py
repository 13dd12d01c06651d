"""Each preset fills in what it knows of the datasheet, and what it fills in breaks no rule."""

from __future__ import annotations

import pytest
from tests.collect.conftest import judge_all

from aliquot.collect.protocols import list_protocols, load_protocol
from aliquot.report import datasheet

ASKED = ("4.3.3", "4.3.4", "4.3.5", "4.3.6", "4.3.7", "4.3.8")


@pytest.mark.parametrize("name", list_protocols())
def test_a_preset_fills_in_the_instrument(name, make, data):
    campaign = make(name, 2)
    judge_all(campaign)
    sheet = datasheet.new(data, judgments=campaign.judgments())
    criteria = campaign.judgments().criteria or [name]
    for criterion in criteria:
        answers = {number: sheet.answer(number, criterion) for number in ASKED}
        assert all(answer.given for answer in answers.values()), answers
        assert answers["4.3.7"].text == load_protocol(name).instructions
    assert "aliquot collect" in sheet.answer("3.3.2").text
    assert sheet.answer("3.3.4").given
    faults = [
        fault
        for fault in datasheet.check(sheet).to_frame().to_dicts()
        if fault["kind"] != "advice" and fault["question"] in (*ASKED, "3.3.2", "3.3.4")
    ]
    assert not faults
