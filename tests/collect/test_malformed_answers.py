"""Whatever a page sends, the answer is a clear refusal: 503 would make it try again for ever."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.collect.conftest import answers_for, changes
from tests.collect.test_hostile_names import EVERY_PROTOCOL

import aliquot
from aliquot.collect.campaign import Campaign
from aliquot.collect.protocols import Example, Field, Form, Protocol, Question, Quiz, Score, Text, Tutorial
from aliquot.collect.server import create_app

FORM = Protocol(
    name="form",
    title="T",
    instructions="I",
    widgets=(
        Score(),
        Text(name="comment", required=False),
        Form(
            name="about",
            scope="annotator",
            fields=(
                Field("language", "text"),
                Field("age", "number"),
                Field("ok", "consent"),
                Field("level", "select", options=("a", "b")),
            ),
        ),
    ),
)
TRAINED = Protocol(
    name="trained",
    title="T",
    instructions="I",
    widgets=(Score(),),
    quiz=Quiz(questions=(Question("q", ("a", "b"), "a"),), attempts=10),
    tutorial=Tutorial(examples=(Example("o", "f"),) * 3),
)
PROTOCOLS = EVERY_PROTOCOL | {"form": FORM}
BAD: tuple[Any, ...] = (
    10**400,
    -(10**400),
    2**63,
    2**64,
    1e308,
    -0.0,
    True,
    None,
    "",
    "x" * 200_000,
    "\0",
    "a\0b",
    "A\0",
    [],
    {},
    [[]],
    [None],
    [["A", []]],
    {"choice": []},
    {"a": {"b": []}},
    {"best": [], "worst": {}},
    [{"start": 0}],
    "NaN",
    "\uffff",
)
DEEP = "[" * 500 + "]" * 500
NESTED = json.loads(DEEP)
FINE = {200, 400, 404, 409, 413, 422}


def mutants(value: Any) -> Iterator[Any]:
    """Every way to put something else in one place of a value."""
    yield from (*BAD, NESTED)
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from (value | {name: other} for other in mutants(inner))
        yield value | {"more\0": 1}
        yield {}
    if isinstance(value, list) and value:
        yield from ([other, *value[1:]] for other in mutants(value[0]))
        yield value * 2000


def client_of(campaign: Campaign) -> tuple[TestClient, str]:
    app = create_app(campaign, calls_per_second=1e6, burst=1_000_000)
    client = TestClient(app, base_url="http://localhost", raise_server_exceptions=False)
    return client, next(iter(campaign.links().annotators.values())).rpartition("/")[2]


def post(client: TestClient, token: str, path: str, body: Any) -> Any:
    # 10**400 is a number of JSON; deep values are written by json itself
    headers = {"X-Aliquot-Token": token, "Content-Type": "application/json"}
    return client.post(path, content=json.dumps(body), headers=headers)


def attack(campaign: Campaign, most: int) -> set[int]:
    client, token = client_of(campaign)
    unit = post(client, token, "/api/next", {}).json()["unit"]
    rng = random.Random(0)
    drawn = [change for _ in range(9) for change in changes(answers_for(campaign.protocol, unit, rng))]
    if campaign.protocol.of_scope("annotator"):
        drawn += changes({"form": {"about": {"language": "de", "age": 30, "ok": True, "level": "a"}}})
    drawn.sort(key=lambda change: len(str(change["answer"])))
    sent = list(
        {tuple(change["answer"]): change for change in drawn if change["answer"]}.values()
    )  # each scope's widgets
    bad = [change for good in sent for change in mutants(good) if isinstance(change, dict)]
    bodies: list[Any] = [{"assignment": unit["assignment"], "changes": [change]} for change in bad]
    bodies += [{"assignment": other, "changes": sent} for other in (*BAD, NESTED)]
    bodies += [{"assignment": unit["assignment"], "changes": other} for other in (*BAD, NESTED)]
    bodies += [{"assignment": unit["assignment"], "changes": [{**sent[0], "id": other}]} for other in (*BAD, NESTED)]
    seen = set()
    for body in bodies if len(bodies) <= most else rng.sample(bodies, most):
        answer = post(client, token, "/api/save", body)
        assert answer.status_code in FINE, (answer.text, str(body)[:300])
        if answer.status_code != 200:
            assert answer.json()["message"]
        seen.add(answer.status_code)
    for path in ("/api/return", "/api/submit"):
        for other in (*BAD, NESTED):
            for body in ({"assignment": unit["assignment"], "reason": other}, {"assignment": other}):
                assert post(client, token, path, body).status_code in FINE, (path, str(body)[:300])
    assert client.get("/api/unit/%00", headers={"X-Aliquot-Token": token}).status_code in FINE
    raw = client.post(
        "/api/save",
        content='{"changes": ' + "[" * 100_000,
        headers={"X-Aliquot-Token": token, "Content-Type": "application/json"},
    )
    assert raw.status_code == 400
    return seen


@pytest.mark.parametrize("name", PROTOCOLS)
def test_no_answer_makes_the_page_try_for_ever(make, name):
    campaign = make(PROTOCOLS[name], 1)
    assert attack(campaign, 1500) >= {200, 422}
    assert campaign.check().sound


@pytest.mark.parametrize("name", ["mqm", "form", "ranks", "postedit"])
def test_no_answer_makes_the_page_try_for_ever_on_postgresql(postgres_url, tmp_path, monkeypatch, name, data):
    monkeypatch.chdir(tmp_path)
    with Campaign.create(data, None, PROTOCOLS[name], 1, path=postgres_url) as campaign:
        assert attack(campaign, 400) >= {200, 422}
        assert campaign.check().sound


def test_quiz_and_examples_refuse_what_is_no_answer(database, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = aliquot.synthetic(items=4, systems=2, seed=1, annotators=0)
    with Campaign.create(data, None, TRAINED, 1, path=database) as campaign:
        client, token = client_of(campaign)
        for other in (*BAD, NESTED):
            for answers in (other, [other]):
                assert post(client, token, "/api/quiz", {"answers": answers}).status_code in FINE, str(answers)[:200]
        for other in ("b", "a"):  # two texts of BAD were wrong attempts; the quiz is passed in the end
            post(client, token, "/api/quiz", {"answers": [other]})
        for other in (*BAD, NESTED):
            assert post(client, token, "/api/example", {"score": other}).status_code in FINE, str(other)[:200]
        assert campaign.check().sound


@pytest.mark.parametrize("text", ["a\0b", "\0"])
def test_a_text_with_nul_is_refused_on_both_databases(database, tmp_path, monkeypatch, data, text):
    monkeypatch.chdir(tmp_path)
    with Campaign.create(data, None, "postedit", 1, path=database) as campaign:
        client, token = client_of(campaign)
        unit = post(client, token, "/api/next", {}).json()["unit"]
        cell = next(output["cell"] for row in unit["rows"] for output in row["outputs"] if output["cell"])
        (widget,) = campaign.protocol.of_scope("output")
        body = {"assignment": unit["assignment"], "changes": [{"id": "1", "cell": cell, "answer": {widget.name: text}}]}
        answer = post(client, token, "/api/save", body)
        assert answer.status_code == 422
        assert "cannot be stored" in answer.json()["message"]
