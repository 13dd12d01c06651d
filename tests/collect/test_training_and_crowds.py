"""Quiz, tutorial, crowds and being forgotten: through the real application, on both databases where it matters."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from starlette.testclient import TestClient

import aliquot
from aliquot.collect.campaign import Campaign
from aliquot.collect.protocols import Crowd, Example, Question, Quiz, Tutorial, load_protocol
from aliquot.collect.server import create_app
from aliquot.collect.statements import sql
from aliquot.errors import AliquotError

DATA = aliquot.synthetic(items=12, systems=2, seed=3)
QUIZ = Quiz(questions=(Question("What is judged?", ("the source", "the output"), "the output", "Read the first line."),
                       Question("Highest score?", ("50", "100"), "100")), attempts=2)  # fmt: skip
TUTORIAL = Tutorial(
    examples=(Example(source="Guten Tag", output="Good day", feedback="That is perfect.", low=90, high=100),)
)
PROLIFIC = {"PROLIFIC_PID": "5f1", "STUDY_ID": "s1", "SESSION_ID": "x1"}
MTURK = {"workerId": "W1", "assignmentId": "A1", "hitId": "H1", "turkSubmitTo": "https://workersandbox.mturk.com"}


@pytest.fixture
def site(tmp_path):
    opened = []

    def make(**parts):
        protocol = msgspec.structs.replace(load_protocol("da"), **parts)
        campaign = Campaign.create(DATA, None, protocol, ["ann"], path=tmp_path / "c.db", seed=1, unit_items=4)
        opened.append(campaign)
        client = TestClient(create_app(campaign, burst=1000), base_url="http://testserver", follow_redirects=False)
        return campaign, client

    yield make
    for campaign in opened:
        campaign.close()


def as_worker(client: TestClient, token: str):
    def call(path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        headers = {"X-Aliquot-Token": token}
        answer = client.post(path, json=body or {}, headers=headers)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    return call


def own_token(campaign: Campaign) -> str:
    return campaign.links().annotators["ann"].rpartition("/")[2]


def shared(campaign: Campaign, provider: str) -> str:
    return re.sub(r"^http://[^/]+", "", campaign.links().crowd[provider]).partition("?")[0]


def finish(call, most=99) -> dict[str, Any]:
    answer: dict[str, Any] = call("/api/next")
    while "unit" in answer and (most := most - 1) >= 0:
        unit = answer["unit"]
        changes = [
            {"id": output["cell"], "cell": output["cell"], "answer": {"score": 70}, "active_ms": 900, "idle_ms": 0}
            for row in unit["rows"]
            for output in row["outputs"]
            if output["cell"]
        ]
        call("/api/save", {"assignment": unit["assignment"], "changes": changes})
        answer = call("/api/submit", {"assignment": unit["assignment"]})
    return answer


def test_the_quiz_has_two_attempts_and_keeps_its_answers(site):
    campaign, client = site(quiz=QUIZ)
    call = as_worker(client, own_token(campaign))
    asked = call("/api/next")["quiz"]
    assert [q["options"] for q in asked["questions"]] == [["the source", "the output"], ["50", "100"]]
    assert "answer" not in msgspec.json.encode(asked).decode()
    first = call("/api/quiz", {"answers": ["the source", "100"]})
    assert (first["passed"], first["wrong"], first["attempts_left"]) == (False, [0], 1)
    assert first["feedback"] == ["Read the first line."]
    assert call("/api/quiz", {"answers": ["the output", "100"]})["passed"]
    assert "unit" in call("/api/next")
    assert (
        client.post("/api/quiz", json={"answers": []}, headers={"X-Aliquot-Token": own_token(campaign)}).status_code
        == 422
    )
    assert campaign.check().sound


def test_who_fails_twice_is_screened_out(site):
    campaign, client = site(quiz=QUIZ, crowd=Crowd(screened_out="SCREEN1"))
    answer = client.get(shared(campaign, "prolific"), params=PROLIFIC)
    call = as_worker(client, answer.headers["location"].rpartition("/")[2])
    for _ in range(2):
        assert not call("/api/quiz", {"answers": ["the source", "50"]})["passed"]
    end = call("/api/next")
    assert end["finished"]
    assert end["code"] == "SCREEN1"
    assert (
        client.post(
            "/api/quiz",
            json={"answers": ["the output", "100"]},
            headers={"X-Aliquot-Token": answer.headers["location"].rpartition("/")[2]},
        ).status_code
        == 422
    )


def test_examples_give_feedback_and_no_range(site):
    campaign, client = site(tutorial=TUTORIAL)
    call = as_worker(client, own_token(campaign))
    shown = call("/api/next")["tutorial"]
    assert shown["output"] == "Good day"
    assert not {"low", "high", "feedback"} & set(shown)
    assert call("/api/example", {"score": 40}) == {"right": False, "feedback": "That is perfect."}
    assert "unit" in call("/api/next")
    assert campaign.check().sound


@pytest.mark.parametrize(
    ("low", "high", "score", "right"),
    [(90, 95, 89.9, False), (90, 95, 90, True), (90, 95, 95, True), (90, 95, 95.1, False), (90, 95, None, True),
     (None, 10, 0, True), (None, 10, -0.1, False), (90, None, 100, True), (90, None, 100.1, False)],
)  # fmt: skip
def test_the_ends_of_an_examples_range_are_right(site, low, high, score, right):
    """An end that is not given is the scale's: 0 to 100."""
    example = Example(source="Guten Tag", output="Good day", feedback="", low=low, high=high)
    campaign, client = site(tutorial=Tutorial(examples=(example,)))
    assert as_worker(client, own_token(campaign))("/api/example", {"score": score})["right"] is right


@pytest.mark.parametrize("attempts", [1, 3])
def test_the_last_attempt_counts(site, attempts):
    """All answers must be right; one is screened out after exactly so many attempts."""
    campaign, client = site(quiz=msgspec.structs.replace(QUIZ, attempts=attempts))
    call = as_worker(client, own_token(campaign))
    for left in range(attempts - 1, 0, -1):
        assert call("/api/quiz", {"answers": ["the output", "50"]})["attempts_left"] == left
        assert call("/api/next")["quiz"]["attempts_left"] == left
    assert call("/api/quiz", {"answers": ["the output", "100"]}) == {
        "passed": True, "wrong": [], "attempts_left": 0, "feedback": [],
    }  # fmt: skip
    assert "unit" in call("/api/next")


def test_a_worker_comes_twice_and_finds_the_same_work(site):
    campaign, client = site(crowd=Crowd(return_url="https://app.example/done?cc={code}", completed="DONE7"))
    places = {client.get(shared(campaign, "prolific"), params=PROLIFIC).headers["location"] for _ in range(3)}
    assert len(places) == 1
    call = as_worker(client, places.pop().rpartition("/")[2])
    end = finish(call)
    assert end["code"] == "DONE7"
    assert end["return_url"] == "https://app.example/done?cc=DONE7"
    assert set(campaign.judgments().table["annotator"]) == {"prolific:5f1"}
    assert campaign.check().sound


def test_mturk_previews_consume_nothing_and_frames_are_for_its_route_only(site):
    campaign, client = site()
    before = len(campaign.status().annotators)
    preview = client.get(shared(campaign, "mturk"), params={"assignmentId": "ASSIGNMENT_ID_NOT_AVAILABLE"})
    assert preview.status_code == 200
    assert len(campaign.status().annotators) == before
    arrived = client.get(shared(campaign, "mturk"), params=MTURK)
    framed = client.get(arrived.headers["location"])
    assert "frame-ancestors https://workersandbox.mturk.com" in framed.headers["content-security-policy"]
    plain = client.get(arrived.headers["location"].replace("/m/", "/a/"))
    assert "frame-ancestors 'none'" in plain.headers["content-security-policy"]
    end = finish(as_worker(client, arrived.headers["location"].rpartition("/")[2]))
    assert end["submit_to"] == "https://workersandbox.mturk.com/mturk/externalSubmit"
    assert end["session"] == "A1"


@pytest.mark.parametrize(
    ("path", "params"), [("/c/wrong/prolific", PROLIFIC), ("{}/prolifik", PROLIFIC), ("{}/prolific", {})]
)
def test_wrong_shared_links_are_refused_in_words(site, path, params):
    campaign, client = site()
    base = shared(campaign, "prolific").rpartition("/")[0]
    answer = client.get(path.format(base), params=params)
    assert answer.status_code in (400, 404)
    assert "Traceback" not in answer.text
    assert len(campaign.status().annotators) == 1


def test_being_forgotten_leaves_no_trace_in_tables_log_and_exports(site, tmp_path):
    campaign, client = site()
    place = client.get(shared(campaign, "prolific"), params=PROLIFIC).headers["location"]
    finish(as_worker(client, own_token(campaign)), most=1)
    finish(as_worker(client, place.rpartition("/")[2]))
    assert set(campaign.judgments().annotators) == {"ann", "prolific:5f1"}
    alias = campaign.forget("prolific:5f1", "asked for it")
    assert campaign.judgments().annotators == ["ann"]
    campaign.export(tmp_path / "out.csv")
    assert "5f1" not in (tmp_path / "out.csv").read_text()
    with campaign.store.read() as connection:
        for table in ("events", "annotators", "answers", "judgments", "audit", "messages"):
            rows = connection.execute(sql(f"SELECT * FROM {table}")).all()  # noqa: S608
            assert "5f1" not in str(rows), table
    assert alias in {row.annotator for row in campaign.status().annotators}
    assert campaign.check().sound
    with pytest.raises(AliquotError):
        campaign.forget("prolific:5f1")
    assert client.get(place).status_code in (403, 404)
