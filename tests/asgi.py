"""Asks an ASGI application without a socket."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote


class Reply(NamedTuple):
    """What came back. Names of headers are in small letters; of several by one name the last."""

    status: int
    headers: Mapping[str, str]
    text: str


def get(app: Callable[..., Any], address: str, *, method: str = "GET", **headers: str) -> Reply:
    """Ask for an address. `headers`: with _ for -; host is 127.0.0.1:8642 unless it is given."""
    path, _, query = address.partition("?")
    given = {"host": "127.0.0.1:8642", **{name.replace("_", "-"): value for name, value in headers.items()}}
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
        "path": unquote(path), "raw_path": path.encode(), "query_string": query.encode(), "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
        "client": ("127.0.0.1", 50000), "server": ("127.0.0.1", 8642),
    }  # fmt: skip
    messages: list[Mapping[str, Any]] = []

    async def ask() -> None:
        sent, answered = asyncio.Event(), asyncio.Event()

        async def receive() -> Mapping[str, Any]:
            if not sent.is_set():
                sent.set()
                return {"type": "http.request", "body": b"", "more_body": False}
            await answered.wait()
            return {"type": "http.disconnect"}

        async def send(message: Mapping[str, Any]) -> None:
            messages.append(message)
            if message["type"] == "http.response.body" and not message.get("more_body"):
                answered.set()

        await app(scope, receive, send)

    asyncio.run(ask())
    begin = next(m for m in messages if m["type"] == "http.response.start")
    body = b"".join(m.get("body", b"") for m in messages if m["type"] == "http.response.body")
    return Reply(
        begin["status"], {k.decode(): v.decode() for k, v in begin["headers"]}, body.decode("utf-8", "replace")
    )
