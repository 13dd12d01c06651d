"""One browser a file of tests (Debian's chromium), one server a campaign, a fresh context a test."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.browser.serving import Served, served
from tests.conftest import lacking, require_debian

from aliquot.collect.campaign import Campaign

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-extensions",
    "--mute-audio",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--disable-features=LocalNetworkAccessChecks",
]
SYSTEMS = ("systemNorth", "systemSouth")
# Text that a page can get wrong: markup, emoji of several code points, right-to-left, no spaces, one long word.
TEXTS = (
    "The <script>alert('x')</script> cat & the 👩‍👩‍👧 sat on the mat.",
    "Ein sehr langes Wort: Donaudampfschifffahrtsgesellschaftskapitänsmützenabzeichenverleihungsordnung.",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser for one file of tests: while it is open, Playwright's event loop lets no other run in the process."""
    program = require_debian("chromium", "chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        lacking("playwright is not installed: pip install --group browser")
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=str(program), args=ARGUMENTS)
        yield made
        made.close()


def item_lines(texts: tuple[str, ...] = TEXTS, systems: tuple[str, ...] = SYSTEMS, languages: str = "en-de") -> bytes:
    lines = []
    for number, text in enumerate(texts):
        outputs = {name: f"{text} {'Good.' if at == 0 else 'Bad.'}" for at, name in enumerate(systems)}
        spans = {name: [{"start": 0, "end": 3, "severity": "minor"}] for name in systems}
        lines.append(
            {
                "i": f"secretItem{number}",
                "src": text,
                "tgt": outputs,
                "doc": "secretDoc",
                "langs": languages,
                "scores": {name: {"secretMetric": 0.123456 + at} for at, name in enumerate(systems)},
                "spans": spans,
            }
        )
    return b"\n".join(msgspec.json.encode(line) for line in lines) + b"\n"


Serve = Callable[..., Served]


@pytest.fixture(scope="session")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serve]:
    """serve(protocol, data=..., **options of Campaign.create): a campaign behind a server; same call, same server."""
    with ExitStack() as stack:

        def start(protocol: str | Path, data: bytes | None = None, **options: Any) -> Served:
            folder = tmp_path_factory.mktemp("campaign")
            (folder / "items.jsonl").write_bytes(data or item_lines())
            options = {"annotators": ["kim", "lee"], "title": "Test", **options}
            campaign = Campaign.create(folder / "items.jsonl", protocol=protocol, path=folder / "c.db", **options)
            stack.callback(campaign.close)
            return stack.enter_context(served(campaign, calls_per_second=1000, burst=10_000))

        yield start


class Tab:
    """A page of an annotator, with what its console said."""

    def __init__(self, context: Any, link: str) -> None:
        self.context = context
        self.page = context.new_page()
        self.page.set_default_timeout(60_000)  # a guard against hanging, not a limit
        self.said: list[str] = []
        self.page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        self.page.goto(link)
        self.page.wait_for_selector(".unit, .words h2")

    def keys(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def saved(self) -> None:
        self.page.wait_for_selector(".save-state.saved")

    def submit_by_key(self) -> None:
        self.left_by(lambda: self.keys("Control+Enter"))

    def left_by(self, action: Callable[[], object]) -> None:
        """Do what submits, and wait until the unit on the screen is gone."""
        self.page.evaluate("document.querySelector('.unit').dataset.old = '1'")
        action()
        self.page.wait_for_selector(".unit[data-old]", state="detached")


@pytest.fixture
def open_tab(browser: Any) -> Iterator[Callable[..., Tab]]:
    """open_tab(link, **options of a browser context); what the console complains about fails the test."""
    tabs: list[Tab] = []

    def start(link: str, **options: Any) -> Tab:
        options.setdefault("viewport", {"width": 1280, "height": 900})
        options.setdefault("reduced_motion", "reduce")
        tabs.append(Tab(browser.new_context(**options), link))
        return tabs[-1]

    yield start
    complaints = [
        line for tab in tabs for line in tab.said if not re.search(r"ERR_INTERNET_DISCONNECTED|status of 5", line)
    ]
    for tab in tabs:
        tab.context.close()
    assert complaints == []
