"""Quiz, tutorial, crowds and being forgotten: through the real application, on both databases where it matters."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest
from starlette.testclient import TestClient

import aliquot
from aliquot.collect import server
from aliquot.collect.actions import act
from aliquot.collect.campaign import Campaign
from aliquot.collect.crowd import read_visit
from aliquot.collect.errors import CollectError
from aliquot.collect.organiser import overview
from aliquot.collect.protocols import Crowd, Example, Question, Quiz, Tutorial, load_protocol
from aliquot.collect.server import create_app
from aliquot.collect.statements import sql
from aliquot.errors import AliquotError

DATA = aliquot.synthetic(items=12, systems=2, seed=3)
QUIZ = Quiz(
    questions=(
        Question("What is judged?", ("the source", "the output"), "the output", "Read the first line."),
        Question("Highest score?", ("50", "100"), "100"),
    ),
    attempts=2,
)
TUTORIAL = Tutorial(
    examples=(Example(source="Guten Tag", output="Good day", feedback="That is perfect.", low=90, high=100),)
)
PROLIFIC = {"PROLIFIC_PID": "pid-5f1", "STUDY_ID": "s1", "SESSION_ID": "x1"}
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


def join(client: TestClient, link: str, params: dict[str, str], kept: Any = "kept by the first browser") -> Any:
    """Come by a shared link as the page does: it shows a secret of the browser."""
    return client.post(link, params=params, json={"secret": kept})


def own_page(client: TestClient, link: str, params: dict[str, str], **browser: Any) -> str:
    answer = join(client, link, params, **browser)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["page"])


def token_of(page: str) -> str:
    return page.rpartition("/")[2]


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
    token = token_of(own_page(client, shared(campaign, "prolific"), PROLIFIC))
    call = as_worker(client, token)
    for _ in range(2):
        assert not call("/api/quiz", {"answers": ["the source", "50"]})["passed"]
    end = call("/api/next")
    assert end["finished"]
    assert end["code"] == "SCREEN1"
    assert (
        client.post(
            "/api/quiz",
            json={"answers": ["the output", "100"]},
            headers={"X-Aliquot-Token": token},
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
    [
        (90, 95, 89.9, False),
        (90, 95, 90, True),
        (90, 95, 95, True),
        (90, 95, 95.1, False),
        (90, 95, None, True),
        (None, 10, 0, True),
        (None, 10, -0.1, False),
        (90, None, 100, True),
        (90, None, 100.1, False),
    ],
)
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
        "passed": True,
        "wrong": [],
        "attempts_left": 0,
        "feedback": [],
    }
    assert "unit" in call("/api/next")


def test_a_worker_comes_twice_and_finds_the_same_work(site):
    campaign, client = site(crowd=Crowd(return_url="https://app.example/done?cc={code}", completed="DONE7"))
    pages = {own_page(client, shared(campaign, "prolific"), PROLIFIC) for _ in range(3)}
    assert len(pages) == 1
    call = as_worker(client, token_of(pages.pop()))
    end = finish(call)
    assert end["code"] == "DONE7"
    assert end["return_url"] == "https://app.example/done?cc=DONE7"
    assert set(campaign.judgments().table["annotator"]) == {"prolific:pid-5f1"}
    assert campaign.check().sound


def test_mturk_previews_consume_nothing_and_frames_are_for_its_route_only(site):
    campaign, client = site()
    before = len(campaign.status().annotators)
    preview = client.get(shared(campaign, "mturk"), params={"assignmentId": "ASSIGNMENT_ID_NOT_AVAILABLE"})
    assert preview.status_code == 200
    assert len(campaign.status().annotators) == before
    page = own_page(client, shared(campaign, "mturk"), MTURK)
    frames = "frame-ancestors https://worker.mturk.com https://workersandbox.mturk.com https://www.mturk.com;"
    for answer in (preview, client.get(shared(campaign, "mturk"), params=MTURK), client.get(page)):
        assert frames in answer.headers["content-security-policy"]
    for link in (page.replace("/m/", "/a/"), shared(campaign, "link")):
        assert "frame-ancestors 'none'" in client.get(link).headers["content-security-policy"]
    assert campaign.links("").annotators["mturk:W1"] == page
    end = finish(as_worker(client, token_of(page)))
    assert end["submit_to"] == "https://workersandbox.mturk.com/mturk/externalSubmit"
    assert end["session"] == "A1"


@pytest.mark.parametrize(
    ("path", "params"),
    [
        ("/c/wrong/prolific", PROLIFIC),
        ("{}/prolifik", PROLIFIC),
        ("{}/prolific", {}),
        ("{}/mturk", MTURK | {"turkSubmitTo": "https://[::1"}),
        ("{}/mturk", MTURK | {"turkSubmitTo": "https://x@[y]"}),
    ],
)
def test_wrong_shared_links_are_refused_in_words(site, path, params):
    campaign, client = site()
    base = shared(campaign, "prolific").rpartition("/")[0]
    for answer in (client.get(path.format(base), params=params), join(client, path.format(base), params)):
        assert answer.status_code in (400, 404)
        assert "Traceback" not in answer.text
    assert len(campaign.status().annotators) == 1


def test_being_forgotten_leaves_no_trace_in_tables_log_and_exports(site, tmp_path):
    campaign, client = site()
    place = own_page(client, shared(campaign, "prolific"), PROLIFIC)
    finish(as_worker(client, own_token(campaign)), most=1)
    finish(as_worker(client, place.rpartition("/")[2]))
    assert set(campaign.judgments().annotators) == {"ann", "prolific:pid-5f1"}
    alias = campaign.forget("prolific:pid-5f1", "asked for it")
    assert campaign.judgments().annotators == ["ann"]
    campaign.export(tmp_path / "out.csv")
    assert "pid-5f1" not in (tmp_path / "out.csv").read_text()
    with campaign.store.read() as connection:
        for table in ("events", "annotators", "answers", "judgments", "audit", "messages"):
            rows = connection.execute(sql(f"SELECT * FROM {table}")).all()  # noqa: S608
            assert "pid-5f1" not in str(rows), table
    assert alias in {row.annotator for row in campaign.status().annotators}
    assert campaign.check().sound
    with pytest.raises(AliquotError):
        campaign.forget("prolific:pid-5f1")
    assert client.get(place).status_code in (403, 404)


@pytest.mark.parametrize(
    "kept", ["kept by another browser", "", "short", "x" * 101, None, 7, ["kept by the first browser"]]
)
def test_a_workers_id_alone_lets_nobody_in(site, kept):
    campaign, client = site()
    for provider, params in (("prolific", PROLIFIC), ("mturk", MTURK), ("link", {"worker": "w1"})):
        link = shared(campaign, provider)
        page = own_page(client, link, params)
        impostor = join(client, link, params, kept)
        assert impostor.status_code in (403, 422)
        assert token_of(page) not in client.get(link, params=params).text + impostor.text
        assert own_page(client, link, params) == page
    assert len(campaign.status().annotators) == 4
    assert campaign.check().sound


def test_who_was_bound_by_somebody_else_gets_a_new_link(site):
    """The organiser makes it; the first browser is out, and the worker's own may come again by the shared link."""
    campaign, client = site()
    link = shared(campaign, "prolific")
    first = own_page(client, link, PROLIFIC, kept="kept by an impostor")
    assert join(client, link, PROLIFIC).json()["error"] == "worker_known"
    act(campaign, "renew", "prolific:pid-5f1", reason="wrote to us on Prolific")
    assert join(client, link, PROLIFIC, kept="kept by an impostor").status_code == 403
    assert client.get(first).status_code == 404
    own = campaign.links("").annotators["prolific:pid-5f1"]
    state = client.get("/api/state", headers={"X-Aliquot-Token": token_of(own)}).json()
    assert state["annotator"]["kept_as"] == f"aliquot:worker:{campaign.facts.id}:prolific:pid-5f1"
    assert own_page(client, link, PROLIFIC, kept=token_of(own)) == own
    assert campaign.check().sound


def test_a_link_that_is_only_looked_at_makes_nobody(site):
    campaign, client = site()
    for _ in range(3):
        assert client.get(shared(campaign, "prolific"), params=PROLIFIC).status_code == 200
    assert len(campaign.status().annotators) == 1


@pytest.mark.parametrize(
    "headers", [{"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}, {"Origin": "https://[::1"}]
)
def test_another_site_cannot_join(site, headers):
    campaign, client = site()
    body = {"secret": "kept by the first browser"}
    answer = client.post(shared(campaign, "prolific"), params=PROLIFIC, json=body, headers=headers)
    assert answer.json()["error"] == "other_site"
    organiser = client.post(f"{campaign.links('').organiser}/act", data={"action": "close"}, headers=headers)
    assert organiser.status_code == 400


def test_workers_are_limited_by_address(site, monkeypatch):
    monkeypatch.setattr(server, "ARRIVALS_PER_SECOND", 1e-9)
    monkeypatch.setattr(server, "ARRIVALS_AT_ONCE", 3)
    campaign, client = site()
    answers = [join(client, shared(campaign, "link"), {"worker": f"w{at}"}) for at in range(5)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429, 429]
    assert int(answers[-1].headers["retry-after"]) > 0
    finish(as_worker(client, own_token(campaign)), most=1)


def test_workers_are_limited_by_the_work(site):
    """2 workers for each of 6 units, and 20; who is excluded leaves room, and the organiser may allow more."""
    campaign, client = site()
    link = shared(campaign, "link")
    for at in range(32):
        assert campaign.admission.crowd_notice() is None
        own_page(client, link, {"worker": f"w{at}"})
    refused = join(client, link, {"worker": "late"})
    assert (refused.status_code, refused.json()["error"]) == (403, "crowd_full")
    assert overview(campaign).words[0].startswith("32 workers came by the shared links; no more are let in.")
    own_page(client, link, {"worker": "w0"})
    act(campaign, "exclude", "link:w1")
    own_page(client, link, {"worker": "late"})
    assert join(client, link, {"worker": "later"}).status_code == 403
    act(campaign, "workers", value="33")
    assert campaign.admission.crowd_notice() is None
    own_page(client, link, {"worker": "later"})
    assert campaign.check().sound


@pytest.mark.parametrize("new", [False, True], ids=["shared links", "all links"])
def test_new_shared_links_end_the_old_ones(site, new):
    """Workers come again by the new ones, unless their own links were withdrawn, too."""
    campaign, client = site()
    before = shared(campaign, "link")
    page = own_page(client, before, {"worker": "w"})
    if new:
        campaign.links(new=True)
    else:
        act(campaign, "renew_shared")
    assert client.get(before, params={"worker": "w"}).status_code == 404
    assert join(client, before, {"worker": "w2"}).status_code == 404
    assert shared(campaign, "link") != before
    if new:
        assert join(client, shared(campaign, "link"), {"worker": "w"}).status_code == 403
    else:
        assert own_page(client, shared(campaign, "link"), {"worker": "w"}) == page
    own_page(client, shared(campaign, "link"), {"worker": "w2"})
    assert campaign.check().sound


def test_a_crowd_on_both_databases(database, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with Campaign.create(DATA, None, "da", ["ann"], path=database, unit_items=4) as campaign:
        came = read_visit("link", {"worker": "w"})
        assert came is not None
        with ThreadPoolExecutor(8) as pool:  # the page sends again what was not answered
            tokens = set(pool.map(lambda _: campaign.admission.join(came, "kept by the first browser"), range(8)))
        assert len(tokens) == 1
        with pytest.raises(CollectError, match="another browser"):
            campaign.admission.join(came, "kept by another browser")
        act(campaign, "workers", value="1")
        other = read_visit("link", {"worker": "w2"})
        assert other is not None
        with pytest.raises(CollectError, match="no more people"):
            campaign.admission.join(other, "kept by another browser")
        assert campaign.check().sound
