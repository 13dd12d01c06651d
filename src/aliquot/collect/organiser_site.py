"""Routes of the organiser: the page, its news (server-sent events) and its actions, all behind the organiser's link."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import hmac
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any, Protocol
from urllib.parse import parse_qs, urlencode, urlsplit

from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from aliquot.collect import assets
from aliquot.collect.actions import act
from aliquot.collect.campaign import Campaign
from aliquot.collect.errors import CollectError, StorageError
from aliquot.collect.organiser import LiveView
from aliquot.collect.organiser_page import page_values
from aliquot.errors import AliquotError

LOG = logging.getLogger("aliquot.collect")
# The annotators' page has no form; this one has, and posts to itself.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
_LARGEST_FORM = 20_000
_BEAT = 20.0  # seconds between two signs of life, so that proxies keep the connection
_LOOK = 0.5  # seconds between two looks at the number of the snapshot
MAX_STREAMS = 8  # pages of the organiser that are told of news; the newest win


class InThread(Protocol):
    """Runs blocking work beside the event loop."""

    def __call__(self, work: Callable[[], Any]) -> Awaitable[Any]:
        """Run it and give its result."""


def organiser_routes(
    campaign: Campaign, in_thread: InThread, refuse: Callable[[Request, Exception], Response]
) -> list[Route]:
    """Return the routes; `refuse` answers a wrong link, and counts it."""
    site = _OrganiserSite(campaign, in_thread, refuse)
    return [
        Route("/o/{token}", site.page),
        Route("/o/{token}/live", site.live),
        Route("/o/{token}/overview.json", site.values),
        Route("/o/{token}/act", site.act, methods=["POST"]),
    ]


class _OrganiserSite:
    def __init__(
        self, campaign: Campaign, in_thread: InThread, refuse: Callable[[Request, Exception], Response]
    ) -> None:
        self.campaign, self.in_thread, self.refuse = campaign, in_thread, refuse
        self.view = LiveView(campaign)
        self.streams: deque[object] = deque(maxlen=MAX_STREAMS)

    async def _require_organiser(self, request: Request) -> None:
        token = str(request.path_params["token"])
        await self.in_thread(functools.partial(self.campaign.admission.require_organiser, token))

    async def page(self, request: Request) -> Response:
        token = str(request.path_params["token"])
        try:
            await self._require_organiser(request)
            now = await self.in_thread(self.view.overview)
        except CollectError as error:
            return self.refuse(request, error)
        text = assets.organiser_page(
            page_values(now),
            base=f"/o/{token}",
            csrf=self._csrf_of(token),
            outcome=request.query_params.get("done", "")[:500],
        )
        return Response(text, media_type="text/html", headers=_build_headers())

    async def values(self, request: Request) -> Response:
        """What the page shows, as JSON."""
        try:
            await self.in_thread(
                functools.partial(self.campaign.admission.require_organiser, str(request.path_params["token"]))
            )
            now = await self.in_thread(self.view.overview)
        except CollectError as error:
            return self.refuse(request, error)
        return Response(assets.as_json(now.to_dict()), media_type="application/json", headers=_build_headers())

    async def live(self, request: Request) -> Response:
        """Say `update` whenever there is a new snapshot."""
        try:
            await self.in_thread(
                functools.partial(self.campaign.admission.require_organiser, str(request.path_params["token"]))
            )
        except CollectError as error:
            return self.refuse(request, error)

        return StreamingResponse(self._stream_news(request), media_type="text/event-stream", headers=_build_headers())

    async def _stream_news(self, request: Request) -> AsyncIterator[bytes]:
        """Poll for new snapshots; holds no thread."""
        stream, version, quiet = object(), self.view.version(), 0.0
        self.streams.append(stream)
        try:
            yield b": here\n\n"
            while stream in self.streams and not await request.is_disconnected():
                await asyncio.sleep(_LOOK)
                now, quiet = self.view.version(), quiet + _LOOK
                if now != version or quiet >= _BEAT:
                    yield b": here\n\n" if now == version else b"event: update\ndata: 1\n\n"
                    version, quiet = now, 0.0
            yield b"event: enough\ndata: 1\n\n"
        finally:
            with suppress(ValueError):
                self.streams.remove(stream)

    async def act(self, request: Request) -> Response:
        """Run the action of a form, and redirect to the page with the outcome."""
        token = str(request.path_params["token"])
        try:
            await self._require_organiser(request)
            form = await _read_form(request)
            _check_csrf(request, form, self._csrf_of(token))
        except CollectError as error:
            return self.refuse(request, error)
        try:
            outcome = await self.in_thread(
                functools.partial(
                    act,
                    self.campaign,
                    form.get("action", ""),
                    form.get("target", ""),
                    form.get("value", ""),
                    form.get("reason", ""),
                )
            )
        except StorageError as error:
            log_fault(request, error)
            outcome = "not done: the database cannot be read or written now; the server's log says why"
        except AliquotError as error:
            outcome = f"not done: {error}"
        return RedirectResponse(f"/o/{token}?{urlencode({'done': outcome})}", 303, headers=_build_headers())

    def _csrf_of(self, token: str) -> str:
        return csrf_token(self.campaign.facts.id.encode(), token)


def _build_headers() -> dict[str, str]:
    return {"Cache-Control": "no-store", "Content-Security-Policy": POLICY}


async def _read_form(request: Request) -> dict[str, str]:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _LARGEST_FORM:
            raise CollectError("bad_request", "the form is too large")
    fields = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=20)
    return {name: values[-1] for name, values in fields.items()}


def log_fault(request: Request, error: Exception) -> None:
    """Log an internal or database error, whose details annotators do not see."""
    if isinstance(error, StorageError):
        LOG.error("%s %s: %s", request.method, request.url.path.split("/")[1], error)
    elif not isinstance(error, ClientDisconnect):
        LOG.error("%s %s failed", request.method, request.url.path.split("/")[1], exc_info=error)


def is_foreign(request: Request, allowed: str | None = None) -> bool:
    """Return whether the browser's headers say that a request comes from another site."""
    headers = request.headers
    if headers.get("sec-fetch-site", "same-origin") != "same-origin":
        return True
    origin = headers.get("origin", allowed)
    try:
        return origin != allowed and urlsplit(origin or "").netloc.lower() != headers.get("host", "").lower()
    except ValueError:  # a malformed address
        return True


def _check_csrf(request: Request, form: dict[str, str], expected: str) -> None:
    """Reject forms of other sites (CSRF)."""
    if is_foreign(request, allowed="null") or form.get("csrf") != expected:
        raise CollectError("other_site", "this action comes from another page and is refused; load the page again")


def csrf_token(secret: bytes, token: str) -> str:
    """Return the CSRF token of the organiser's forms."""
    return hmac.new(secret, f"csrf/{token}".encode(), hashlib.sha256).hexdigest()[:32]
