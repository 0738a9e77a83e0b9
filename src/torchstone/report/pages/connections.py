"""Connections of the pages: one that does not ask for anything is closed, so that nobody can take up all there are."""

from __future__ import annotations

import asyncio
from typing import Any

MOST_AT_ONCE = 512  # under the usual limit of 1,024 open files; what is asked for waits for one of Starlette's threads
REQUEST_S = 10.0  # for a whole request line with its headers


def protocol() -> Any:
    """Return uvicorn's own protocol, closing connections without a request that is answered, each `REQUEST_S`."""
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

    class Impatient(AutoHTTPProtocol):  # type: ignore[misc, valid-type]  # which of two it is, is seen when it runs
        """uvicorn's protocol with a time limit for requests."""

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._wait()

        def _wait(self) -> None:
            asyncio.get_running_loop().call_later(REQUEST_S, self._look)

        def _look(self) -> None:
            if self.transport.is_closing():
                return
            if self.cycle is None or self.cycle.response_complete:
                self.transport.close()
            else:
                self._wait()

    return Impatient
