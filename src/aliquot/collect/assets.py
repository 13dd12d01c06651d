"""What the server sends besides data: files of the page, its words in each language, the pages around them."""

from __future__ import annotations

import functools
import gzip
import hashlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

import jinja2
import msgspec

MEDIA_TYPES = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}


@dataclass(frozen=True)
class StaticFile:
    """A file of the page, also compressed."""

    plain: bytes
    gzipped: bytes
    media_type: str


@functools.cache
def static_files() -> Mapping[str, StaticFile]:
    """Return all files of the page by name, in memory."""
    files = {}
    for entry in sorted((resources.files("aliquot.collect") / "static").iterdir(), key=lambda entry: entry.name):
        ending = entry.name.rpartition(".")[2]
        if ending in MEDIA_TYPES:
            plain = entry.read_bytes()
            files[entry.name] = StaticFile(plain, gzip.compress(plain, 9, mtime=0), MEDIA_TYPES[ending])
    return files


@functools.cache
def static_version() -> str:
    """Return a digest of all files of the page."""
    digest = hashlib.sha256()
    for name, file in static_files().items():
        digest.update(name.encode() + b"\0" + file.plain)
    return digest.hexdigest()[:12]


@functools.cache
def list_locales() -> tuple[str, ...]:
    """Return the languages that the page speaks.

    >>> "en" in list_locales()
    True
    """
    folder = resources.files("aliquot.collect") / "locales"
    return tuple(sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml")))


@functools.cache
def load_strings(locale: str) -> Mapping[str, str]:
    """Return the page's words in a language; English where there is no file, and for keys that a file lacks.

    >>> load_strings("de-AT")["submit"]
    'Abgeben'
    """
    english = _strings_file("en")
    name = locale if locale in list_locales() else locale.replace("_", "-").split("-")[0].lower()
    return {**english, **_strings_file(name)} if name in list_locales() else english


def _strings_file(name: str) -> dict[str, str]:
    text = (resources.files("aliquot.collect") / "locales" / f"{name}.toml").read_text("utf-8")
    return {key: str(value) for key, value in tomllib.loads(text).items()}


@functools.cache
def _load_templates() -> jinja2.Environment:
    loader = jinja2.PackageLoader("aliquot.collect", "templates")
    return jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined)


def _render_template(template: str, locale: str, **values: Any) -> str:
    static = f"/static/{static_version()}"
    return (
        _load_templates()
        .get_template(template)
        .render(strings=load_strings(locale), locale=locale, static=static, **values)
    )


def annotator_page(*, title: str, locale: str) -> str:
    """Return the shell of the annotator's page."""
    settings = {"locale": locale, "strings": dict(load_strings(locale))}
    return _render_template("annotator.html", locale, title=title, settings=settings, script="main.js")


def arrival_page(*, title: str, locale: str, key: str) -> str:
    """Return the page by which a worker of a crowd joins; `key` is where the browser keeps the worker's secret."""
    settings = {"locale": locale, "strings": dict(load_strings(locale)), "key": key}
    return _render_template("annotator.html", locale, title=title, settings=settings, script="arrive.js")


def words_page(title: str, message: str, locale: str = "en") -> str:
    """Return a page that only says something."""
    return _render_template("words.html", locale, title=title, message=message)


def organiser_page(view: Mapping[str, Any], *, base: str, csrf: str, outcome: str = "") -> str:
    """Return the organiser's page; `done` says what the last action did."""
    return _render_template("organiser.html", "en", view=view, base=base, csrf=csrf, done=outcome)


def as_json(value: Any) -> bytes:
    """Return plain values as JSON."""
    return msgspec.json.encode(value)
