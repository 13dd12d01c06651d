"""Open a file in Chromium and collect what goes wrong: messages, errors, dialogs, requests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.conftest import require_debian

_ARGUMENTS = ["--no-sandbox", "--headless", "--disable-gpu", "--disable-dev-shm-usage"]


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser; the test skips where there is none."""
    from playwright.sync_api import sync_playwright

    program = require_debian("chromium", "chromium")
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=str(program), args=_ARGUMENTS)
        try:
            yield made
        finally:
            made.close()


def open_file(browser: Any, path: Path, **options: Any) -> tuple[Any, list[str]]:
    """The page in a context of its own, and the list in which everything unwanted is noted."""
    wrong: list[str] = []
    page = browser.new_context(**options).new_page()
    page.set_default_timeout(90_000)  # a machine may be busy
    page.on("console", lambda message: wrong.append(message.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("dialog", lambda dialog: wrong.append(dialog.message))
    page.on("request", lambda request: wrong.extend([] if request.url.startswith("file:") else [request.url]))
    page.goto(path.as_uri())
    return page, wrong


def violations(page: Any) -> str:
    """What axe finds, in words; empty where it finds nothing."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page)
    return str(found.generate_report()) if found.violations_count else ""
