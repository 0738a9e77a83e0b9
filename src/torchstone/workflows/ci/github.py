"""GitHub's REST API, as far as comments and checks need it: bounded, retried with back-off, the token never shown.

https://docs.github.com/en/rest/using-the-rest-api/best-practices-for-using-the-rest-api (waiting, retrying)
"""

from __future__ import annotations

import http.client
import json
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from email.message import Message
from http import HTTPStatus
from typing import Any

from torchstone.core.errors import ExitCode, TorchstoneError, UsageError

PUBLIC = "https://api.github.com"
_PATIENCE_S, _LONGEST_WAIT_S = 30.0, 60.0
_ATTEMPTS = 5
_MOST_BYTES = 16 * 2**20
_PER_PAGE, _MOST_PAGES = 100, 30
_REPOSITORY = re.compile(r"[A-Za-z0-9._-]{1,100}/[A-Za-z0-9._-]{1,100}", re.ASCII)
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class GitHubError(TorchstoneError):
    """GitHub refuses, or cannot be reached: no fault of the code that was measured."""

    exit_code = ExitCode.FAILED


class Ambiguous(GitHubError):
    """A request that changes something had no answer: it may have been carried out."""


class GitHub:
    """One repository ("owner/name"). `token` is sent to `api` alone; redirects are refused."""

    def __init__(
        self, repository: str, token: str, api: str = PUBLIC, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        """Raises UsageError for a repository or an address that is none, or one that would show the token."""
        parts = urllib.parse.urlsplit(api)
        if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
            raise UsageError(f"GitHub's API at {api}: write https://…, or the token can be read on its way")
        if not _REPOSITORY.fullmatch(repository) or ".." in repository:
            raise UsageError(f"repository {repository[:80]!r}: write OWNER/NAME")
        self.repository, self._token, self._api, self._sleep = repository, token, api.rstrip("/"), sleep
        self._opener = urllib.request.build_opener(_NoRedirect)

    def get(self, path: str, **query: str | int) -> Any:
        """Return what is at `path` below the repository. Raises GitHubError."""
        return self._asked("GET", path, query, None)

    def pages(self, path: str, **query: str | int) -> Iterator[Any]:
        """Yield the items of a list, page after page, 3,000 at most. Raises GitHubError."""
        for page in range(1, _MOST_PAGES + 1):
            found = self._asked("GET", path, {**query, "per_page": _PER_PAGE, "page": page}, None)
            if not isinstance(found, list):
                raise GitHubError(f"GitHub: {path}: a list was expected")
            yield from found
            if len(found) < _PER_PAGE:
                return

    def send(self, method: str, path: str, body: Mapping[str, Any]) -> Any:
        """Change something. Raises Ambiguous where no answer came, so that the caller looks first; else GitHubError."""
        return self._asked(method, path, {}, json.dumps(body).encode())

    def _asked(self, method: str, path: str, query: Mapping[str, str | int], body: bytes | None) -> Any:
        where = f"{self._api}/repos/{self.repository}/{path}"
        if query:
            where += "?" + urllib.parse.urlencode(query)
        for attempt in range(_ATTEMPTS):
            wait_s = min(2.0**attempt, _LONGEST_WAIT_S)
            try:
                return self._once(method, where, body)
            except urllib.error.HTTPError as fault:
                with fault:
                    again_s = _wait_s(fault.code, fault.headers, wait_s)
                    if again_s is None or attempt == _ATTEMPTS - 1:
                        raise self._refused(method, path, fault) from None
                    if body is not None and fault.code >= HTTPStatus.INTERNAL_SERVER_ERROR:
                        raise Ambiguous(f"GitHub: {method} {path}: {fault.code}") from None
                    wait_s = again_s
            except (urllib.error.URLError, http.client.HTTPException, OSError) as fault:
                why = getattr(fault, "reason", fault)
                if body is not None:
                    raise Ambiguous(f"GitHub: {method} {path}: {why}") from None
                if attempt == _ATTEMPTS - 1:
                    raise GitHubError(f"GitHub cannot be reached: {why}") from None
            self._sleep(wait_s)
        raise GitHubError(f"GitHub: {method} {path}: no answer")

    def _once(self, method: str, where: str, body: bytes | None) -> Any:
        asked = urllib.request.Request(where, data=body, method=method)  # noqa: S310  # https, or the loopback
        asked.add_header("Accept", "application/vnd.github+json")
        asked.add_header("X-GitHub-Api-Version", "2022-11-28")
        asked.add_header("User-Agent", "torchstone")
        if body is not None:
            asked.add_header("Content-Type", "application/json")
        asked.add_unredirected_header("Authorization", f"Bearer {self._token}")
        with self._opener.open(asked, timeout=_PATIENCE_S) as answer:
            data = answer.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise GitHubError(f"GitHub: an answer of more than {_MOST_BYTES} bytes")
        try:
            return json.loads(data) if data else None
        except (ValueError, RecursionError):
            raise GitHubError("GitHub: an answer that is not JSON") from None

    def _refused(self, method: str, path: str, fault: urllib.error.HTTPError) -> GitHubError:
        said = f"GitHub: {method} {path}: {fault.code}"
        if fault.code == HTTPStatus.UNAUTHORIZED:
            return GitHubError(f"{said}: the token is not valid")
        if fault.code == HTTPStatus.FORBIDDEN:
            return GitHubError(f"{said}: the token may not do this; the job needs `permissions:` (docs/ci.md)")
        if fault.code == HTTPStatus.NOT_FOUND:
            return GitHubError(f"{said}: {self.repository} has no such thing, or the token may not read it")
        if 300 <= fault.code < 400:
            return GitHubError(f"{said}: {self.repository} has moved; write its new name")
        return GitHubError(said)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect could carry the token elsewhere."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Follow none."""


def _wait_s(code: int, headers: Message, usual_s: float) -> float | None:
    """Return how long to wait before the request is sent again; None where that would not help."""
    limited = code == HTTPStatus.FORBIDDEN and (headers.get("x-ratelimit-remaining") == "0" or "retry-after" in headers)
    if code == HTTPStatus.TOO_MANY_REQUESTS or limited:
        asked = headers.get("retry-after", "")
        if asked.isascii() and asked.isdigit():
            return min(float(asked), _LONGEST_WAIT_S)
        reset = headers.get("x-ratelimit-reset", "")
        left_s = float(reset) - time.time() if reset.isascii() and reset.isdigit() else usual_s
        return max(0.0, left_s) if left_s <= _LONGEST_WAIT_S else None
    return usual_s if code >= HTTPStatus.INTERNAL_SERVER_ERROR else None
