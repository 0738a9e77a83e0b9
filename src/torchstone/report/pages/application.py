"""The pages as an ASGI application: which address is which page, who may ask, and what every answer carries."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from functools import partial
from typing import TYPE_CHECKING, Any

from torchstone.core.errors import TorchstoneError, UsageError
from torchstone.report.pages.address import Query, address
from torchstone.report.pages.compare_page import compare_page, compare_picture
from torchstone.report.pages.guard import PUBLIC, SECURITY_HEADERS, Guard
from torchstone.report.pages.history_page import history_page, history_picture, series_page
from torchstone.report.pages.lists import findings_page, result_page, results_page, runs_page
from torchstone.report.pages.run_page import live_part, pictures_page, run_page, run_picture
from torchstone.report.pages.site import STATIC, Answer, Site, redirect
from torchstone.report.pages.store import GoneError
from torchstone.report.translation.language import in_language

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
Receive = Callable[[], Awaitable[Message]]
Asgi = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]
View = Callable[..., Answer]

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


def _home(_site: Site, query: Query) -> Answer:
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
            answer = Answer(b"", 304, headers=answer.headers)
        return _response(answer)
    except GoneError as fault:
        return _response(site.message("The store is gone", str(fault), 503))
    except UsageError as fault:
        return _response(site.message("This cannot be shown", str(fault), 404))
    except TorchstoneError as fault:
        return _response(site.message("This cannot be shown", str(fault), 500))


def _response(answer: Answer) -> Response:
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
            return _response(Answer(b"", 303, headers=found.headers))
        return _response(self._site.message("Not allowed", found.message, found.status, found.headers))


async def _with_headers(send: Send, message: Message) -> None:
    if message["type"] == "http.response.start":
        added = [(name.encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]
        message = {**message, "headers": [*message.get("headers", ()), *added]}
    await send(message)
