"""Serves the pages until Ctrl-C: the socket, the token, and the machine's own names.

As an ASGI application: which address is which page, who may ask, and what every answer carries.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import secrets
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from torchstone.core.errors import MissingError, TorchstoneError, UsageError
from torchstone.report.pages.address import Query, address
from torchstone.report.pages.compare_page import compare_page, compare_picture
from torchstone.report.pages.guard import PUBLIC, SECURITY_HEADERS, Guard, is_loopback
from torchstone.report.pages.history_page import history_page, history_picture, series_page
from torchstone.report.pages.lists import findings_page, result_page, results_page, runs_page
from torchstone.report.pages.run_page import live_part, pictures_page, run_page, run_picture
from torchstone.report.pages.site import STATIC, DocumentOf, Reply, Site, redirect
from torchstone.report.pages.store import GoneError, Store, TeamPages
from torchstone.report.translation.language import in_language
from torchstone.storage.place import Place

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

PORT = 8642
_SHORTEST_TOKEN = 16
_LONGEST_FILE = 4096  # bytes of the file of a token
_MOST_AT_ONCE = 512  # under the usual limit of 1,024 open files; what is asked for waits for one of Starlette's threads
_REQUEST_S = 10.0  # for a whole request line with its headers


class Listening(msgspec.Struct, frozen=True):
    """Where to listen. `token_file`: the file of a token; without one a token is made, unless this machine is alone."""

    host: str = "127.0.0.1"
    port: int = PORT
    token_file: Path | None = None


def serve_pages(place: Place, where: Listening, document_of: DocumentOf, say: Callable[[str], None]) -> None:
    """Serve what is stored in a folder, or a team's store, until Ctrl-C or SIGTERM. `say` gets the address, a line.

    Raises MissingError without the libraries, UsageError for a port in use, a wrong host or a token that is too short.
    """
    uvicorn = _libraries()
    token = _token(where)
    bound = _bound(where)
    with bound, Store(place) if isinstance(place, Path) else TeamPages(place) as store:
        port = bound.getsockname()[1]
        guard = Guard(_names(where.host), token, port)
        config = uvicorn.Config(
            application(Site(store, document_of), guard),
            log_level="warning",
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            proxy_headers=False,
            limit_concurrency=_MOST_AT_ONCE,
            http=_protocol(),
            timeout_graceful_shutdown=1,
        )
        server = uvicorn.Server(config)
        with _ending(server):
            say(address_of(where.host, port, token if where.token_file is None else None))
            server.run(sockets=[bound])


def _libraries() -> Any:
    try:
        import jinja2  # noqa: F401 -- asked for here, so that one line names all of them
        import starlette  # noqa: F401
        import uvicorn
    except ImportError as fault:
        raise MissingError("serve needs starlette, jinja2 and uvicorn: pip install 'torchstone[serve]'") from fault
    return uvicorn


def _token(where: Listening) -> str | None:
    if where.token_file is None:
        return None if is_loopback(where.host) else secrets.token_urlsafe(24)
    try:
        with where.token_file.open("rb") as file:
            found = file.read(_LONGEST_FILE + 1)
        if len(found) > _LONGEST_FILE:
            raise UsageError(f"--token-file {where.token_file}: more than {_LONGEST_FILE} bytes, not a token")
        token = found.decode("utf-8").strip()
    except (OSError, UnicodeDecodeError) as fault:
        why = fault.strerror if isinstance(fault, OSError) else "it is not text"
        raise UsageError(f"--token-file {where.token_file} cannot be read: {why}") from None
    if len(token) < _SHORTEST_TOKEN:
        raise UsageError(
            f"--token-file {where.token_file}: the token has {len(token)} characters, {_SHORTEST_TOKEN} or more are "
            f"needed: openssl rand -hex 24 > {where.token_file}"
        )
    return token


def _bound(where: Listening) -> socket.socket:
    if not 0 <= where.port <= 65535:
        raise UsageError(f"--port {where.port}: 0 (any free one) to 65535")
    if not where.host:
        raise UsageError(f"--host is empty: name an address, such as {Listening().host}, or 0.0.0.0 for every one")
    family = socket.AF_INET6 if ":" in where.host else socket.AF_INET
    try:
        return socket.create_server((where.host, where.port), family=family)
    except OSError as fault:
        if fault.errno == errno.EADDRINUSE:
            raise UsageError(f"port {where.port} is in use: choose another, such as --port {where.port + 1}") from None
        if fault.errno == errno.EACCES:
            raise UsageError(f"port {where.port} needs more rights: choose another, such as --port {PORT}") from None
        raise UsageError(f"--host {where.host} is no address of this machine: {fault.strerror}") from None


def _names(host: str) -> set[str]:
    """Return the host names under which this machine may be asked: on a loopback address localhost alone."""
    if is_loopback(host):
        return set()
    own = socket.gethostname()
    return {host, own, own.partition(".")[0], socket.getfqdn()}


def address_of(host: str, port: int, token: str | None) -> str:
    """Return what to open. Of 0.0.0.0, which is every address of the machine, by the machine's name."""
    name = socket.gethostname() if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host  # noqa: S104
    return f"http://{name}:{port}/" + (f"?token={token}" if token is not None else "")


@contextlib.contextmanager
def _ending(server: Any) -> Iterator[None]:
    """Have Ctrl-C and SIGTERM end the server from now on: it listens to them itself only while it runs.

    What ended it, it sends itself once more when it is done.
    """

    def end(_number: int, _frame: Any) -> None:
        server.should_exit = True

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _protocol() -> Any:
    """Return uvicorn's own protocol, closing connections that ask for nothing: else one stranger takes up all."""
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

    class Impatient(AutoHTTPProtocol):  # type: ignore[misc, valid-type]  # which of two it is, is seen when it runs
        """uvicorn's protocol with a time limit for requests."""

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._wait()

        def _wait(self) -> None:
            asyncio.get_running_loop().call_later(_REQUEST_S, self._look)

        def _look(self) -> None:
            if self.transport.is_closing():
                return
            if self.cycle is None or self.cycle.response_complete:
                self.transport.close()
            else:
                self._wait()

    return Impatient


# ── the application ───────────────────────────────────────────────────────────────────────────────────────────


Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
Receive = Callable[[], Awaitable[Message]]
Asgi = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]
View = Callable[..., Reply]

_PAGES: Mapping[str, View] = {
    "/runs": runs_page,
    "/runs/{run_id}": run_page,
    "/runs/{run_id}/live": live_part,
    "/runs/{run_id}/pictures": pictures_page,
    "/runs/{run_id}/pictures/{name}.svg": run_picture,
    "/compare": compare_page,
    "/compare/pictures/{name}.svg": compare_picture,
    "/history": series_page,
    "/history/{case_id}": history_page,
    "/history/{case_id}/pictures/{name}.svg": history_picture,
    "/findings": findings_page,
    "/results": results_page,
    "/results/{kind}": result_page,
}


def application(site: Site, guard: Guard) -> Asgi:
    """Return the application."""
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.routing import Mount, Route
    from starlette.staticfiles import StaticFiles

    routes = [Route(path, partial(_respond, site, view)) for path, view in _PAGES.items()]
    routes.append(Route("/", partial(_respond, site, _home)))
    handlers: dict[Any, Any] = {HTTPException: partial(_not_there, site), Exception: partial(_failed, site)}
    served = Starlette(
        routes=[*routes, Mount(PUBLIC.rstrip("/"), StaticFiles(directory=STATIC))], exception_handlers=handlers
    )
    return _Guarded(served, site, guard)


def _home(_site: Site, query: Query) -> Reply:
    return redirect(address("/runs", *query.without_empty()))


def _respond(site: Site, view: View, request: Request) -> Response:
    """Answer in a thread of Starlette's: views read files."""
    query = Query(request.query_params.multi_items())
    with in_language(site.language):
        return _answered(site, view, query, request)


def _answered(site: Site, view: View, query: Query, request: Request) -> Response:
    try:
        answer = view(site, query, **request.path_params)
        same = answer.headers.get("etag")
        if same is not None and same in request.headers.get("if-none-match", ""):
            answer = Reply(b"", 304, headers=answer.headers)
        return _response(answer)
    except GoneError as fault:
        return _response(site.message("The store is gone", str(fault), 503))
    except UsageError as fault:
        return _response(site.message("This cannot be shown", str(fault), 404))
    except TorchstoneError as fault:
        return _response(site.message("This cannot be shown", str(fault), 500))


def _response(answer: Reply) -> Response:
    from starlette.responses import Response as Whole

    headers = {"cache-control": "no-store", **answer.headers}
    return Whole(answer.body, answer.status, headers, answer.media_type)


async def _not_there(site: Site, _request: Request, fault: Any) -> Response:
    if fault.status_code == 404:
        return _response(site.message("Nothing here", "There is no such page.", 404))
    return _response(site.message("Nothing here", str(fault.detail), fault.status_code))


async def _failed(site: Site, _request: Request, fault: Exception) -> Response:
    answer = site.message(
        "This page failed",
        f"{type(fault).__name__}: the terminal of torchstone serve shows where. The other pages are as they were.",
        500,
    )
    return _response(answer)


class _Guarded:
    """Asks the guard first, and puts the headers on every answer."""

    def __init__(self, inner: Any, site: Site, guard: Guard) -> None:
        self._inner, self._site, self._guard = inner, site, guard

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        send = partial(_with_headers, send)
        refused = self._refusal(scope)
        await (self._inner if refused is None else refused)(scope, receive, send)

    def _refusal(self, scope: MutableMapping[str, Any]) -> Response | None:
        from starlette.requests import Request as Asked

        asked = Asked(scope)
        found = self._guard.refusal(
            asked.method,
            scope["path"],
            asked.headers.get("host"),
            asked.query_params.multi_items(),
            asked.headers.get("cookie", ""),
        )
        if found is None:
            return None
        if found.status == 303:
            return _response(Reply(b"", 303, headers=found.headers))
        return _response(self._site.message("Not allowed", found.message, found.status, found.headers))


async def _with_headers(send: Send, message: Message) -> None:
    if message["type"] == "http.response.start":
        added = [(name.encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]
        message = {**message, "headers": [*message.get("headers", ()), *added]}
    await send(message)
