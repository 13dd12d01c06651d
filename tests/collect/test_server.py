"""The server: blind on the wire, refuses what is no call of the page, says what went wrong, loses nothing."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest

pytest.importorskip("starlette")
from starlette.testclient import TestClient
from tests.cli.conftest import caller
from tests.collect.conftest import judge_all

import aliquot
from aliquot.collect import assets, bots
from aliquot.collect.annotator_pages import AnnotatorPages
from aliquot.collect.campaign import Campaign
from aliquot.collect.errors import StorageError
from aliquot.collect.organiser_site import csrf_token
from aliquot.collect.server import HEADERS, create_app, serve
from aliquot.errors import OptionError

SYSTEMS = ("zebrafish-70B", "quokka_v2", "ärger/ß", "narwhal x")


def make_campaign(folder: Path, protocol: str = "esa", items: int = 8, **options: Any) -> Campaign:
    lines = []
    for number in range(items):
        texts = {name: f"Text {number} words and {at} more." for at, name in enumerate(SYSTEMS)}
        lines.append(
            {
                "i": f"itemkey-{number}",
                "src": f"Source {number}.",
                "tgt": texts,
                "doc": f"dockey-{number // 4}",
                "domain": "domainkey",
                "scores": {name: {"METRICKEY": 0.31337, "human": 98.7654} for name in SYSTEMS},
                "spans": {name: [{"start": 0, "end": 4, "severity": "minor"}] for name in SYSTEMS},
            }
        )
    data = folder / "items.jsonl"
    data.write_bytes(b"\n".join(map(msgspec.json.encode, lines)) + b"\n")
    options = {"annotators": ["ann1", "ann2"], "title": "A campaign", **options}
    return Campaign.create(data, protocol=protocol, path=folder / "c.db", **options)


class Web:
    """A client that keeps everything the server ever said."""

    def __init__(self, campaign: Campaign, **options: Any) -> None:
        options = {"calls_per_second": 10_000, "burst": 100_000, **options}
        self.client = TestClient(
            create_app(campaign, **options), base_url="http://localhost", raise_server_exceptions=False
        )
        self.heard: list[str] = []
        links = campaign.links("http://localhost")
        self.tokens = {name: link.rsplit("/", 1)[1] for name, link in links.annotators.items()}
        self.organiser = links.organiser.rsplit("/", 1)[1]

    def get(self, path: str, who: str | None = None, **headers: str) -> Any:
        return self._keep(self.client.get(path, headers=self._headers(who, headers)))

    def post(self, path: str, body: Any, who: str | None = None, **headers: str) -> Any:
        return self._keep(self.client.post(path, json=body, headers=self._headers(who, headers)))

    def _headers(self, who: str | None, headers: dict[str, str]) -> dict[str, str]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return named | ({"X-Aliquot-Token": self.tokens[who]} if who else {})

    def _keep(self, response: Any) -> Any:
        self.heard.append(f"{response.status_code} {dict(response.headers)} {response.text}")
        return response

    def judge(self, who: str, rng: random.Random, protocol: dict[str, Any], most: int = 1000) -> int:
        """Judge until nothing is left; the number of units."""
        reply = self.post("/api/next", {}, who).json()
        for done in range(most):
            if "unit" not in reply:
                return done
            unit = reply["unit"]
            answers = bots.answer_unit(unit, protocol, rng)
            saved = self.post(
                "/api/save", {"assignment": unit["assignment"], "changes": bots.changes(answers, rng)}, who
            )
            assert saved.status_code == 200, saved.text
            reply = self.post("/api/submit", {"assignment": unit["assignment"]}, who).json()
            assert "missing" not in reply
        return most


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Web]:
    with make_campaign(tmp_path) as campaign:
        yield Web(campaign)


# -- blindness


SECRETS = (
    *SYSTEMS,
    *(json.dumps(name)[1:-1] for name in SYSTEMS),
    "itemkey",
    "dockey",
    "domainkey",
    "METRICKEY",
    "0.31337",
    "98.7654",
    '"expected',
    "repeat_of",
    '"control"',
    "gold",
)


@pytest.mark.parametrize("protocol", ["esa-ai", "pairwise", "contrastive"])
def test_a_whole_campaign_of_bots_hears_nothing_secret(protocol: str, tmp_path: Path):
    names = [f"bot{number:02}" for number in range(20)]
    with make_campaign(tmp_path, protocol, items=24, annotators=names, per_output=2) as campaign:
        web = Web(campaign)
        rng = random.Random(1)
        states = {name: web.get("/api/state", name).json()["protocol"] for name in names}
        left = set(names)
        while left:  # in turns, as people come and go
            left = {name for name in left if web.judge(name, rng, states[name], most=1)}
        for name in names:
            for entry in web.get("/api/history", name).json():
                web.get(f"/api/unit/{entry['assignment']}", name)
            web.get(f"/a/{web.tokens[name]}")
        web.post("/api/save", {"assignment": "nonsense", "changes": []}, "bot00")
        web.get("/api/unit/nonsense", "bot00")
        everything = "\n".join(web.heard)
        assert len(web.heard) > 100
        assert [secret for secret in SECRETS if secret in everything] == []
        judged = campaign.judgments().table
        counts = Counter(judged.select("item", "system").rows())
        if protocol != "pairwise":  # rotating pairs show an output once
            assert set(counts.values()) == {2}
        assert len(counts) == 24 * len(SYSTEMS)
        pairs = judged.select("item", "system", "annotator").rows()
        assert len(pairs) == len(set(pairs)), "an annotator judged an output twice"


# -- links


def test_a_page_needs_a_link(web: Web):
    assert web.get("/a/nonsense").status_code == 404
    assert web.get("/api/state").json()["error"] == "link_unknown"
    assert web.get(f"/a/{web.organiser}").status_code == 404, "the organiser's token is no annotator's"
    assert web.get(f"/o/{web.tokens['ann1']}").status_code == 404
    page = web.get(f"/a/{web.tokens['ann1']}")
    assert page.status_code == 200
    assert "A campaign" in page.text


def test_organiser_sees_progress(web: Web):
    page = web.get(f"/o/{web.organiser}")
    assert page.status_code == 200
    assert "ann1" in page.text


def test_a_revoked_link_stops_at_once(tmp_path: Path):
    with make_campaign(tmp_path) as campaign:
        web = Web(campaign)
        unit = web.post("/api/next", {}, "ann1").json()["unit"]
        campaign.revoke("ann1")
        for response in (
            web.get("/api/state", "ann1"),
            web.post("/api/submit", {"assignment": unit["assignment"]}, "ann1"),
        ):
            assert response.status_code == 403
            assert response.json()["error"] == "link_revoked"
        assert "withdrawn" in web.get(f"/a/{web.tokens['ann1']}").text


def test_nobody_reads_or_writes_anothers_unit(web: Web):
    unit = web.post("/api/next", {}, "ann1").json()["unit"]
    assert web.get(f"/api/unit/{unit['assignment']}", "ann2").status_code == 404
    response = web.post("/api/save", {"assignment": unit["assignment"], "changes": []}, "ann2")
    assert response.status_code == 404
    assert web.post("/api/submit", {"assignment": unit["assignment"]}, "ann2").status_code == 404


# -- other sites


def test_calls_of_other_sites_are_refused(web: Web):
    assert web.post("/api/next", {}, "ann1", Origin="https://evil.example").status_code == 403
    assert web.post("/api/next", {}, "ann1", Sec_Fetch_Site="cross-site").status_code == 403
    assert web.post("/api/next", {}, "ann1", Sec_Fetch_Site="same-site").status_code == 403
    form = web.client.post("/api/next", data={"a": "1"}, headers={"X-Aliquot-Token": web.tokens["ann1"]})
    assert form.status_code == 415
    plain = web.client.post(
        "/api/next", content="{}", headers={"X-Aliquot-Token": web.tokens["ann1"], "Content-Type": "text/plain"}
    )
    assert plain.status_code == 415
    assert web.post("/api/next", {}, "ann1", Origin="http://localhost", Sec_Fetch_Site="same-origin").status_code == 200


def test_every_response_has_the_headers(web: Web):
    for path in (f"/a/{web.tokens['ann1']}", "/a/nonsense", "/api/state", "/nowhere", "/health"):
        response = web.get(path)
        for name, value in HEADERS.items():
            assert response.headers[name] == value
    policy = HEADERS["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "script-src 'self'" in policy
    assert "set-cookie" not in "".join(web.heard).lower()


@pytest.mark.parametrize("body", [b"{", b"[]", b"\xff\xfe", b"[" * 100_000, b'{"changes": 3}', b'{"changes": [1]}'])
def test_broken_bodies_are_one_clear_error(web: Web, body: bytes):
    headers = {"X-Aliquot-Token": web.tokens["ann1"], "Content-Type": "application/json"}
    response = web.client.post("/api/save", content=body, headers=headers)
    assert response.status_code in (400, 422)
    assert response.json()["message"]


def test_large_bodies_are_refused(web: Web):
    response = web.post("/api/save", {"assignment": "x" * 2_100_000, "changes": []}, "ann1")
    assert response.status_code == 413


# -- limits and trouble


def test_one_link_has_a_rate_limit(tmp_path: Path):
    with make_campaign(tmp_path) as campaign:
        web = Web(campaign, calls_per_second=1, burst=5)
        codes = [web.get("/api/state", "ann1").status_code for _ in range(7)]
        assert codes[:5] == [200] * 5
        assert codes[5:] == [429] * 2
        late = web.get("/api/state", "ann1")
        assert int(late.headers["Retry-After"]) >= 1
        assert web.get("/api/state", "ann2").status_code == 200, "one link's haste does not stop others"


def test_guessing_links_is_slowed(web: Web):
    codes = {web.get(f"/a/guess{number}").status_code for number in range(40)}
    assert codes == {404, 429}
    assert web.get("/api/state", "ann1").status_code == 200


def test_storage_errors_keep_the_page_trying(web: Web, monkeypatch: pytest.MonkeyPatch):
    unit = web.post("/api/next", {}, "ann1").json()["unit"]

    def full(*_: object) -> None:
        raise StorageError("database or disk is full")

    monkeypatch.setattr(AnnotatorPages, "saving", full)
    response = web.post("/api/save", {"assignment": unit["assignment"], "changes": []}, "ann1")
    assert (response.status_code, response.json()["error"]) == (503, "storage")

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(AnnotatorPages, "saving", broken)
    response = web.post("/api/save", {"assignment": unit["assignment"], "changes": []}, "ann1")
    assert (response.status_code, response.json()["error"]) == (503, "storage")
    assert response.headers["X-Content-Type-Options"] == "nosniff"


def test_during_an_outage_nobody_learns_about_the_database(
    postgres: Any, postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """Everybody reads neutral words; the log says which database, without its password."""
    monkeypatch.chdir(tmp_path)
    url = postgres_url.replace("aliquot@", "aliquot:geheim@")
    data = aliquot.synthetic(items=4, systems=2, seed=1)
    with Campaign.create(data, None, "da", ["ann1"], path=url) as campaign:
        web = Web(campaign)
        unit = web.post("/api/next", {}, "ann1").json()["unit"]["assignment"]
        token, link = web.tokens["ann1"], campaign.links("").crowd["link"].replace("WORKER_ID", "w")
        form = {"action": "close", "csrf": csrf_token(campaign.facts.id.encode(), web.organiser)}
        postgres.stop()
        try:
            answers = [
                web.get(path, "ann1")
                for path in (
                    "/api/state",
                    "/api/history",
                    f"/api/unit/{unit}",
                    f"/a/{token}",
                    f"/m/{token}",
                    link,
                    f"/o/{web.organiser}",
                )
            ]
            bodies = {
                "next": {},
                "save": {"assignment": unit, "changes": []},
                "submit": {"assignment": unit},
                "return": {"assignment": unit},
                "quiz": {"answers": []},
                "example": {"score": 1},
            }
            answers += [web.post(f"/api/{path}", body, "ann1") for path, body in bodies.items()]
            answers.append(web.post(link, {"secret": "kept by the browser"}))
            answers.append(web.client.post(f"/o/{web.organiser}/act", data=form, follow_redirects=False))
        finally:
            postgres.start()
    port = str(urlsplit(postgres_url).port)
    for answer in answers:
        assert answer.status_code == 503
        said = f"{answer.text} {answer.headers}"
        assert not [name for name in ("psycopg", port, postgres_url[-20:], "geheim", "aliquot@", "***") if name in said]
    assert postgres_url[-20:] in caplog.text
    assert "geheim" not in caplog.text
    logged = [
        record for record in caplog.records if record.funcName == "log_fault"
    ]  # pages of other tests may log, too
    assert len(logged) == len(answers)


def test_the_password_of_a_database_is_shown_nowhere(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """Neither in what is printed, in mistakes too, nor in any file."""
    monkeypatch.chdir(tmp_path)
    aliquot.save(aliquot.synthetic(items=8, systems=2, seed=1, annotators=0), "d.jsonl")
    url, call = postgres_url.replace("aliquot@", "aliquot:geheim%2B/@"), caller(capsys)
    said = [call("collect", "new", "d.jsonl", "--protocol", "da", "--annotators", "ann1,ann2", "-o", url)]
    assert f"next: aliquot collect serve {postgres_url.replace('aliquot@', 'aliquot:***@')}" in said[0].words
    said.append(call("estimate", "d.jsonl", "-j", url))
    with Campaign.open(url) as campaign:
        judge_all(campaign)
    for words in ("status", "status --json", "links", "check", "export -o j.csv", "backup -o b.db", "rehearse"):
        verb, *options = words.split()
        said.append(call("collect", verb, url, *options))
    for words in (
        "inspect",
        "estimate",
        "estimate --json",
        "estimate -o e.json",
        "agreement",
        "combine -o c.jsonl",
        "compare",
        "report -o r.html",
        "plan",
        "estimate --human x",
    ):
        verb, *options = words.split()
        said.append(call(verb, url, *options))
    option = f"{postgres_url.replace('aliquot@', '')}x?user=aliquot&password=geheim"
    for wrong in (f"{url}x", url.replace("127.0.0.1:", "127.0.0.1:no"), url.replace("+psycopg", "+nothing"), option):
        mistakes = [
            call("collect", "status", wrong),
            call("collect", "new", "d.jsonl", "-o", wrong),
            call("inspect", wrong),
        ]
        assert all(one.code for one in mistakes)
        said += mistakes
    assert not [one for one in said if "geheim" in one.out + one.err]
    assert not [file for file in tmp_path.rglob("*") if file.is_file() and b"geheim" in file.read_bytes()]


@pytest.mark.parametrize("path", ["/api/save", "/api/submit", "/c/wrong/link?worker=w"])
def test_large_bodies_are_read_for_known_links_only(web: Web, path: str):
    body = {"assignment": "x", "changes": [], "secret": "kept by the browser", "more": "x" * 100_000}
    parts = iter([json.dumps(body).encode()[:-10], b"never asked for"])
    headers = {"Content-Type": "application/json", "X-Aliquot-Token": "guessed"}
    response = web.client.post(path, content=parts, headers=headers)
    assert (response.status_code, response.json()["error"]) == (404, "link_unknown")
    if path.startswith("/api/"):
        assert web.post(path, body, "ann1").json()["error"] == "unit_unknown"


def test_a_save_sent_twice_is_stored_once(web: Web):
    unit = web.post("/api/next", {}, "ann1").json()["unit"]
    protocol = web.get("/api/state", "ann1").json()["protocol"]
    sent = {
        "assignment": unit["assignment"],
        "changes": bots.changes(bots.answer_unit(unit, protocol, random.Random(3)), random.Random(4)),
    }
    first, second = (web.post("/api/save", sent, "ann1").json() for _ in range(2))
    assert first["saved"] == second["saved"]
    assert first["revisions"] == second["revisions"]


# -- files and words


def test_static_files_are_known_by_digest(web: Web):
    version = assets.static_version()
    response = web.get(f"/static/{version}/main.js")
    assert response.status_code == 200
    assert "immutable" in response.headers["Cache-Control"]
    for path in (
        f"/static/{version}/../server.py",
        f"/static/{version}/%2e%2e%2fserver.py",
        "/static/old/main.js",
        f"/static/{version}/nothing.js",
    ):
        assert web.get(path).status_code == 404


def test_locales_have_the_same_keys_and_placeholders():
    english = assets._strings_file("en")
    for locale in assets.list_locales():
        words = assets._strings_file(locale)
        assert set(words) == set(english), locale
        for key, text in words.items():
            assert set(placeholders(text)) == set(placeholders(english[key])), f"{locale}: {key}"


def placeholders(text: str) -> list[str]:
    return [part.split("}")[0] for part in text.split("{")[1:]]


def test_every_word_the_page_asks_for_is_there():
    import re

    english = assets._strings_file("en")
    source = "\n".join(file.plain.decode() for name, file in assets.static_files().items() if name.endswith(".js"))
    asked = set(re.findall(r"\bt\('(\w+)'", source)) | set(re.findall(r"'(keys_\w+)'", source))
    assert len(asked) > 60
    assert asked - set(english) == set()
    assert "innerHTML" not in source
    assert "eval(" not in source


def test_a_taken_port_is_said(tmp_path: Path):
    import socket

    with (
        make_campaign(tmp_path) as campaign,
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(OptionError, match="choose another `port`"),
    ):
        serve(campaign, port=taken.getsockname()[1])


def test_a_locked_file_is_told_and_outlived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import sqlite3

    monkeypatch.setattr("aliquot.collect.schema.BUSY_SECONDS", 0.3)
    with make_campaign(tmp_path) as campaign:
        web = Web(campaign)
        unit = web.post("/api/next", {}, "ann1").json()["unit"]
        answers = bots.answer_unit(unit, campaign.protocol.for_page(), random.Random(1))
        sent = {"assignment": unit["assignment"], "changes": bots.changes(answers, random.Random(2))}
        other = sqlite3.connect(campaign.store.place, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        try:
            response = web.post("/api/save", sent, "ann1")
        finally:
            other.execute("ROLLBACK")
            other.close()
        assert (response.status_code, response.json()["error"]) == (503, "storage")
        assert web.post("/api/save", sent, "ann1").status_code == 200
