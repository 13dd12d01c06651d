"""Crowds: links of providers, codes, and payments, by hand; links are untrusted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aliquot.collect.crowd import OUTCOMES, code_for, compute_payments, read_visit
from aliquot.errors import AliquotError

MTURK = {"workerId": "A1B2", "assignmentId": "3XY", "hitId": "H9", "turkSubmitTo": "https://workersandbox.mturk.com"}


def test_mturk_posts_to_mturk_only():
    came = read_visit("mturk", MTURK)
    assert came is not None
    assert came.submit_to == "https://workersandbox.mturk.com/mturk/externalSubmit"
    assert (came.worker, came.session, came.study) == ("A1B2", "3XY", "H9")
    for target in (
        "https://evil.example",
        "http://www.mturk.com",
        "javascript:alert(1)",
        "https://www.mturk.com@evil.example",
        "",
    ):
        with pytest.raises(AliquotError, match="not MTurk"):
            read_visit("mturk", {**MTURK, "turkSubmitTo": target})
    for target in ("https://[::1", "https://[www.mturk.com]", "https://a\u2100b/"):
        with pytest.raises(AliquotError, match="malformed"):
            read_visit("mturk", {**MTURK, "turkSubmitTo": target})


def test_a_preview_makes_nobody():
    assert read_visit("mturk", {"assignmentId": "ASSIGNMENT_ID_NOT_AVAILABLE", "hitId": "H9"}) is None


@pytest.mark.parametrize("query", [{}, {"PROLIFIC_PID": ""}, {"PROLIFIC_PID": "a b"}, {"PROLIFIC_PID": "x" * 129}])
def test_a_link_without_a_worker_is_refused(query):
    with pytest.raises(AliquotError, match="PROLIFIC_PID"):
        read_visit("prolific", query)


def test_unknown_providers_are_named():
    with pytest.raises(AliquotError, match="prolific"):
        read_visit("prolifik", {})


@given(st.text(max_size=40))
def test_any_worker_id_is_plain_or_refused(worker):
    try:
        came = read_visit("link", {"worker": worker})
    except AliquotError:
        return
    assert came is not None
    assert came.annotator == f"link:{worker}"
    assert worker.isascii()
    assert "<" not in worker


def test_codes_differ_by_outcome_and_annotator_and_stay_the_same():
    codes = {(outcome, who): code_for(b"secret", outcome, who) for outcome in OUTCOMES for who in ("link:a", "link:b")}
    assert len(set(codes.values())) == 6
    assert code_for(b"secret", "completed", "link:a") == codes["completed", "link:a"]
    assert code_for(b"other", "completed", "link:a") != codes["completed", "link:a"]


def test_payments_by_hand():
    found = compute_payments(
        [
            ("p:a", "a", 10, 1800.0, "completed", True),
            ("p:b", "b", 3, 600.0, "screened_out", False),
            ("p:c", "c", 10, 0.0, "completed", False),
        ],
        per_unit=0.5,
        bonus=2.0,
        currency="EUR",
    )
    assert [(row.base, row.bonus) for row in found] == [(5.0, 2.0), (1.5, 0.0), (5.0, 0.0)]
    assert found[0].hourly == 14.0
