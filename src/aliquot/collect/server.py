"""The server of a campaign: the annotators' page and the few calls it makes (Starlette, uvicorn).

A link's token is the only key: it stands in the page's path and comes as a header with every call. There are no
cookies, so another site cannot act for an annotator. Work on the database runs in threads; every error is JSON with a
code for the page and words for the person.
"""

from __future__ import annotations

import asyncio
import functools
import socket
import sys
import threading
import webbrowser
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from aliquot.collect.errors import CollectError, StorageError
from aliquot.collect.limits import RateLimit
from aliquot.collect.schema import is_url
from aliquot.errors import AliquotError, MissingExtraError, OptionError

try:
    import anyio
    import uvicorn
    from anyio import to_thread
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    from aliquot.collect import assets, connections, crowd
    from aliquot.collect.organiser_site import is_foreign, log_fault, organiser_routes
    from aliquot.collect.workers import check_count, run_workers
except ImportError as error:
    raise MissingExtraError(f"serving a campaign needs {error.name}: pip install 'aliquot[serve]'") from None

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from aliquot.collect.campaign import Campaign

LARGEST_BODY = 2_000_000  # bytes of one request; a page sends at most forty cells at once
LARGEST_BODY_OF_STRANGERS = 50_000  # 800 connections of 2 MB each would fill the memory
LOCAL = ("127.0.0.1", "localhost", "::1")
THREADS = 64  # writers wait for one commit together, so waiting threads cost little
ARRIVALS_PER_SECOND, ARRIVALS_AT_ONCE = 2.0, 60  # of one address: a lecture hall of 200 is in within a minute or two
ORGANISER_THREADS = 4  # of their own: a snapshot that takes long keeps no annotator waiting
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' https:; media-src 'self' https:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=(), payment=(), usb=()",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Robots-Tag": "noindex, nofollow",
}
_RAW_HEADERS = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
_ENCODER = msgspec.json.Encoder()
_NO_STORAGE = "The server cannot save at the moment. The page keeps trying."  # all that annotators are told


class RequestRefusedError(CollectError):
    """A rejected request: wrong type, too large, or from another site."""

    def __init__(self, code: str, message: str, status: int, wait: int = 0) -> None:
        super().__init__(code, message)
        self._status = status
        self.wait = wait

    @property
    def status(self) -> int:
        """The HTTP status that goes with the refusal."""
        return self._status


def create_app(campaign: Campaign, *, calls_per_second: float = 10, burst: int = 60) -> Starlette:
    """Make the ASGI application of a campaign.

    Args:
        campaign: The campaign to serve.
        calls_per_second: Calls that one link may make in the long run.
        burst: Calls that one link may make at once.
    """
    site = _Site(campaign, RateLimit(calls_per_second, burst))
    api: list[tuple[str, str, Handler]] = [
        ("GET", "/api/state", site.state),
        ("POST", "/api/next", site.next_unit),
        ("GET", "/api/unit/{assignment}", site.unit),
        ("GET", "/api/history", site.history),
        ("POST", "/api/submit", site.submit),
        ("POST", "/api/return", site.give_back),
        ("POST", "/api/quiz", site.quiz),
        ("POST", "/api/example", site.example),
    ]
    routes = [Route(path, site.call(handler), methods=[method]) for method, path, handler in api]
    routes.append(Route("/api/save", site.save, methods=["POST"]))
    routes += [
        Route("/a/{token}", site.page),
        Route("/m/{token}", site.framed_page),
        Route("/c/{token}/{provider}", site.arrive, methods=["GET"]),
        Route("/c/{token}/{provider}", site.join, methods=["POST"]),
        *organiser_routes(campaign, Threads(ORGANISER_THREADS), site.refuse),
        Route("/static/{version}/{name}", site.static),
        Route("/health", site.health),
    ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _answer_http})
    app.add_middleware(_SecurityHeaders)
    return app


Handler = Callable[[Any, "Call"], Any]


class Call(msgspec.Struct):
    """What a handler gets besides the annotator: the path's assignment and the body."""

    assignment: str
    body: dict[str, Any]


class Threads:
    """Runs blocking work in at most `count` threads beside the event loop."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._limiter: anyio.CapacityLimiter | None = None

    async def __call__(self, work: Callable[[], Any]) -> Any:
        """Run it and give its result."""
        if self._limiter is None:  # it belongs to the event loop that first uses it
            self._limiter = anyio.CapacityLimiter(self._count)
        return await to_thread.run_sync(work, limiter=self._limiter)


class _Site:
    """The routes of one campaign."""

    def __init__(self, campaign: Campaign, limit: RateLimit) -> None:
        self.campaign = campaign
        self.limit = limit
        self.strangers = RateLimit(0.5, 30)
        self.arrivals = RateLimit(ARRIVALS_PER_SECOND, ARRIVALS_AT_ONCE)
        self.in_thread = Threads(THREADS)

    # -- calls of the page

    def call(self, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        """Wrap a handler: token, limits, body, thread, JSON."""

        async def answered(request: Request, token: str) -> bytes:
            body = await _read_body(request, self._annotator_check(request, token)) if request.method == "POST" else {}
            call = Call(request.path_params.get("assignment") or _read_text(body, "assignment"), body)
            work = functools.partial(self._answer_call, handler, token, call, _client_address(request))
            answer: bytes = await self.in_thread(work)
            return answer

        async def endpoint(request: Request) -> Response:
            return await self._answer_with_limit(request, answered)

        return endpoint

    async def _answer_with_limit(
        self, request: Request, answered: Callable[[Request, str], Awaitable[bytes]]
    ) -> Response:
        """Check the rate of a link, and answer its call."""
        return await _respond_with_errors(request, self._check_and_answer(request, answered))

    async def _check_and_answer(self, request: Request, answered: Callable[[Request, str], Awaitable[bytes]]) -> bytes:
        token = request.headers.get("x-aliquot-token", "")
        self._check_rate(token)
        return await answered(request, token)

    async def save(self, request: Request) -> Response:
        """Save changes. The writer's thread does all of it: this call is frequent, and hand-overs cost."""
        return await self._answer_with_limit(request, self._save_body)

    async def _save_body(self, request: Request, token: str) -> bytes:
        body = await _read_body(request, self._annotator_check(request, token))
        changes = body.get("changes")
        if not isinstance(changes, list) or not all(isinstance(change, dict) for change in changes):
            raise RequestRefusedError("bad_answer", "`changes` should be a list of changes.", 422)
        save = functools.partial(self.campaign.pages.saving, token, _read_text(body, "assignment"), changes)
        # A database by URL has no writer's thread; there the call itself blocks.
        future = await self.in_thread(save) if is_url(self.campaign.store.place) else save()
        try:
            return _ENCODER.encode(await asyncio.wrap_future(future))
        except CollectError as error:
            if error.code == "link_unknown":
                self._check_stranger(_client_address(request))
            raise

    def _answer_call(self, handler: Handler, token: str, call: Call, client: str) -> bytes:
        return _ENCODER.encode(handler(self._find_annotator(token, client), call))

    def _annotator_check(self, request: Request, token: str) -> Callable[[], Awaitable[Any]]:
        return functools.partial(
            self.in_thread, functools.partial(self._find_annotator, token, _client_address(request))
        )

    def _find_annotator(self, token: str, client: str) -> Any:
        try:
            return self.campaign.pages.annotator(token)
        except CollectError as error:
            if error.code == "link_unknown":
                self._check_stranger(client)
            raise

    def _check_rate(self, token: str) -> None:
        wait = self.limit.take(token)
        if wait:
            raise RequestRefusedError("too_fast", "Too many requests at once; the page tries again.", 429, wait)

    def _check_stranger(self, client: str) -> None:
        wait = self.strangers.take(client)
        if wait:
            message = "Too many unknown links from this address; try again in a minute."
            raise RequestRefusedError("too_fast", message, 429, wait)

    def state(self, annotator: Any, _call: Call) -> Any:
        return self.campaign.pages.state(annotator)

    def next_unit(self, annotator: Any, _call: Call) -> Any:
        return self.campaign.pages.next_unit(annotator)

    def unit(self, annotator: Any, call: Call) -> Any:
        return self.campaign.pages.unit(annotator, call.assignment)

    def history(self, annotator: Any, _call: Call) -> Any:
        return self.campaign.pages.history(annotator)

    def submit(self, annotator: Any, call: Call) -> Any:
        return self.campaign.pages.submit(annotator, call.assignment)

    def give_back(self, annotator: Any, call: Call) -> Any:
        return self.campaign.pages.give_back(annotator, call.assignment, _read_text(call.body, "reason"))

    def quiz(self, annotator: Any, call: Call) -> Any:
        return self.campaign.pages.quiz(annotator, call.body.get("answers"))

    def example(self, annotator: Any, call: Call) -> Any:
        return self.campaign.pages.example(annotator, call.body.get("score"))

    # -- pages

    async def page(self, request: Request) -> Response:
        """The annotator's page; its data come by calls."""
        token = str(request.path_params["token"])
        client = _client_address(request)
        try:
            self._check_rate(token)
            annotator, state = await self.in_thread(lambda: self._page_data(token, client))
        except Exception as error:  # noqa: BLE001
            return _words_page(request, error)
        locale = getattr(annotator, "locale", None) or state.get("protocol", {}).get("locale") or "en"
        title = state.get("campaign", {}).get("title") or "aliquot"
        return _html_response(assets.annotator_page(title=title, locale=locale))

    async def framed_page(self, request: Request) -> Response:
        """The same page for MTurk, which shows it in a frame."""
        return _allow_framing(await self.page(request))

    # -- crowds

    async def arrive(self, request: Request) -> Response:
        """Show the page on which a crowd worker joins; a preview shows the instructions."""
        try:
            came = await self.in_thread(functools.partial(self._read_visit, request))
        except Exception as error:  # noqa: BLE001
            answer = self.refuse(request, error)
        else:
            answer = self._arrival_page(came)
        return _allow_framing(answer) if request.path_params["provider"] == "mturk" else answer

    def _read_visit(self, request: Request) -> crowd.Visit | None:
        self.campaign.admission.require_shared_link(str(request.path_params["token"]))
        try:
            return crowd.read_visit(str(request.path_params["provider"]), request.query_params)
        except AliquotError as error:
            raise CollectError("bad_request", str(error)) from None

    def _arrival_page(self, came: crowd.Visit | None) -> Response:
        words = self.campaign.protocol
        if came is None:
            return _html_response(assets.words_page(words.title, words.instructions, words.locale))
        key = crowd.storage_key(self.campaign.facts.id, came.annotator)
        return _html_response(
            assets.arrival_page(title=self.campaign.facts.title, locale=self.campaign.facts.locale, key=key)
        )

    async def join(self, request: Request) -> Response:
        """Let a crowd worker in who has the browser's secret; the first visit adds the annotator."""
        return await _respond_with_errors(request, self._join_body(request))

    async def _join_body(self, request: Request) -> bytes:
        wait = self.arrivals.take(_client_address(request))
        if wait:
            raise RequestRefusedError("too_fast", "Many people join at once; the page tries again.", 429, wait)
        check = functools.partial(self.in_thread, functools.partial(self._read_visit, request))
        secret = _read_text(await _read_body(request, check), "secret")

        def join() -> str | None:
            came = self._read_visit(request)
            return None if came is None else self.campaign.admission.join(came, secret)

        try:
            token = await self.in_thread(join)
        except CollectError as error:
            if error.code == "link_unknown":
                self._check_stranger(_client_address(request))
            raise
        if token is None:
            raise RequestRefusedError("bad_request", "A preview joins nothing.", 400)
        return _ENCODER.encode({"page": f"/{crowd.page_route(request.path_params['provider'])}/{token}"})

    def _page_data(self, token: str, client: str) -> tuple[Any, dict[str, Any]]:
        annotator = self._find_annotator(token, client)
        return annotator, self.campaign.pages.state(annotator)

    def refuse(self, request: Request, error: Exception) -> Response:
        """Return an error page for an invalid link; repeated attempts are rate limited."""
        try:
            if isinstance(error, CollectError) and error.code == "link_unknown":
                self._check_stranger(_client_address(request))
        except CollectError as refused:
            return _words_page(request, refused)
        return _words_page(request, error)

    async def static(self, request: Request) -> Response:
        """A file of the page; its folder is named by a digest of all files, so it may be kept for ever."""
        file = assets.static_files().get(str(request.path_params["name"]))
        if file is None or request.path_params["version"] != assets.static_version():
            raise HTTPException(404)
        headers = {"Cache-Control": "public, max-age=31536000, immutable", "Vary": "Accept-Encoding"}
        body = file.plain
        if "gzip" in request.headers.get("accept-encoding", ""):
            headers["Content-Encoding"] = "gzip"
            body = file.gzipped
        return Response(body, media_type=file.media_type, headers=headers)

    async def health(self, _request: Request) -> Response:
        """Health check."""
        return Response(b"ok", media_type="text/plain")


# -- requests --------------------------------------------------------------------------------------------------------


def _client_address(request: Request) -> str:
    return request.client.host if request.client else "unknown"


async def _read_body(request: Request, check: Callable[[], Awaitable[Any]]) -> dict[str, Any]:
    """Read a call's JSON, refusing what a form or a script of another site could send.

    `check` is awaited before a large body is held: it raises where the link is not known.
    """
    _check_same_site(request)
    if request.headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
        raise RequestRefusedError("bad_request", "Calls need Content-Type: application/json.", 415)
    parts, size = [], 0
    async for part in request.stream():
        if size <= LARGEST_BODY_OF_STRANGERS < size + len(part):
            await check()
        size += len(part)
        if size > LARGEST_BODY:
            raise RequestRefusedError("too_large", f"A request may have {LARGEST_BODY} bytes at most.", 413)
        parts.append(part)
    try:
        body = msgspec.json.decode(b"".join(parts) or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise RequestRefusedError("bad_request", "The request is not valid JSON.", 400) from None
    if not isinstance(body, dict):
        raise RequestRefusedError("bad_request", "The request should be a JSON object.", 400)
    return body


def _read_text(body: dict[str, Any], name: str) -> str:
    value = body.get(name) or ""
    if not isinstance(value, str):
        raise RequestRefusedError("bad_answer", f"`{name}` should be a text.", 422)
    return value


def _check_same_site(request: Request) -> None:
    if is_foreign(request):
        raise RequestRefusedError("other_site", "This call comes from another site and is refused.", 403)


# -- responses -------------------------------------------------------------------------------------------------------


class _SecurityHeaders:
    """Adds the headers to every response, errors included."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                present = {name for name, _ in message["headers"]}  # a page may have a policy of its own
                message["headers"] = [*message["headers"], *(pair for pair in _RAW_HEADERS if pair[0] not in present)]
            await send(message)

        await self.app(scope, receive, sending)


async def _respond_with_errors(request: Request, answer: Awaitable[bytes]) -> Response:
    """Await the answer, and convert errors to JSON responses."""
    try:
        body = await answer
    except StorageError as error:
        return _fault_response(request, error)
    except CollectError as error:
        return _error_response(error)
    except Exception as error:  # noqa: BLE001  # whatever it is, the page keeps the answers and tries again
        return _fault_response(request, error)
    return Response(body, media_type="application/json", headers={"Cache-Control": "no-store"})


def _json_error(code: str, message: str, status: int, wait: int = 0) -> Response:
    headers = {"Cache-Control": "no-store"}
    if wait:
        headers["Retry-After"] = str(wait)
    body = _ENCODER.encode({"error": code, "message": message})
    return Response(body, status, media_type="application/json", headers=headers)


def _error_response(error: CollectError) -> Response:
    return _json_error(error.code, str(error), error.status, getattr(error, "wait", 0))


async def _answer_http(_request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    return _json_error("not_found" if status == 404 else "bad_request", "No such page.", status)


def _fault_response(request: Request, error: Exception) -> Response:
    """Return 503 after an internal or storage error: the page keeps the answers and retries; details are logged."""
    log_fault(request, error)
    return _json_error("storage", _NO_STORAGE, 503)


def _allow_framing(answer: Response) -> Response:
    """Let MTurk show a page in a frame, and the page post to MTurk."""
    hosts = " ".join(crowd.PROVIDERS["mturk"].framed_by)
    policy = HEADERS["Content-Security-Policy"].replace("frame-ancestors 'none'", f"frame-ancestors {hosts}")
    answer.headers["Content-Security-Policy"] = policy.replace("form-action 'none'", f"form-action {hosts}")
    answer.headers["X-Frame-Options"] = "ALLOWALL"  # old browsers know no list; the policy above decides
    return answer


def _html_response(text: str, status: int = 200) -> Response:
    return Response(text, status, media_type="text/html", headers={"Cache-Control": "no-store"})


def _words_page(request: Request, error: Exception) -> Response:
    """Return an error page in the browser's language; it reloads if the error is temporary."""
    if isinstance(error, StorageError) or not isinstance(error, CollectError):
        log_fault(request, error)
        error = CollectError("storage", _NO_STORAGE)
    languages = [part.split(";")[0].strip() for part in request.headers.get("accept-language", "en").split(",")]
    locale = next((name for name in languages if name.split("-")[0] in assets.list_locales()), "en")
    words = assets.load_strings(locale)
    message = words.get(f"error_{error.code}", str(error))
    passing = error.status in (429, 503)
    title = words["not_possible" if passing else "link_does_not_work"]
    answer = _html_response(assets.words_page(title, message, locale), error.status)
    if passing:
        answer.headers["Refresh"] = str(max(10, getattr(error, "wait", 0)))
    return answer


# -- running ---------------------------------------------------------------------------------------------------------


def serve(
    campaign: Campaign,
    host: str = "127.0.0.1",
    port: int = 8000,
    *,
    open_browser: bool = False,
    public_url: str | None = None,
    workers: int = 1,
    echo: Callable[[str], object] | None = None,
) -> None:
    """Serve a campaign until it is stopped (Ctrl-C).

    Args:
        campaign: The campaign.
        host: The address to listen on; 127.0.0.1 is this computer only.
        port: The port; 0 takes a free one.
        open_browser: Open the first annotator's page.
        public_url: The address that people use, where a proxy stands in front.
        workers: Server processes; one that dies is started again.
        echo: What prints a line; standard output by default.
    """
    say = echo or _print_line
    listening = listen(host, port)
    port = listening.getsockname()[1]
    name = "127.0.0.1" if host in ("0.0.0.0", "::", "") else host  # noqa: S104
    links = campaign.links(public_url or f"http://{f'[{name}]' if ':' in name else name}:{port}")
    say(f"Organiser: {links.organiser}")
    for annotator, link in links.annotators.items():
        say(f"{annotator}: {link}")
    if host not in LOCAL:
        say(
            f"Listening on {host}: everybody who can reach this computer can reach the campaign, and links and answers "
            "travel unencrypted. Put a proxy with TLS in front (see docs/collect.md)."
        )
    say("Stop with Ctrl-C; everything is saved.")
    first = next(iter(links.annotators.values()), None)
    if open_browser and first:
        threading.Timer(0.5, webbrowser.open, [first]).start()
    with listening, suppress(KeyboardInterrupt):
        if check_count(workers) > 1:
            run_workers(str(campaign.store.place), listening, workers, say)
        else:
            run_app(create_app(campaign), listening)


def run_app(app: Starlette, listening: socket.socket) -> None:
    """Run the application on a listening socket until the process is stopped."""
    # A save passes from the event loop to a thread and to the writer and back. Python lets a busy thread keep the
    # interpreter for 5 ms by default, which would count four times.
    sys.setswitchinterval(0.0005)
    config = uvicorn.Config(
        app,
        http=connections.GuardedConnection,
        ws="none",
        backlog=connections.MAX_ACCEPTED_AT_ONCE,
        timeout_keep_alive=connections.MAX_IDLE_SECONDS,
        access_log=False,
        log_level="warning",
        server_header=False,
        lifespan="off",
    )
    uvicorn.Server(config).run(sockets=[listening])


def listen(host: str, port: int) -> socket.socket:
    """Listen on an address, or say why that is not possible."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio switches delayed sending off (TCP_NODELAY) only where the protocol is named; else each answer takes 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except (OSError, OverflowError) as error:
        listening.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise OptionError(f"cannot listen on {host}:{port} ({reason}); choose another `port` or `host`") from None
    return listening


def _print_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
