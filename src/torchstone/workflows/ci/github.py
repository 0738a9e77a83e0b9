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
from enum import StrEnum
from http import HTTPStatus
from pathlib import Path
from typing import Any

import msgspec

from torchstone.analysis.ci import Acceptance, Conclusion
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
        return self._request_json("GET", path, query, None)

    def pages(self, path: str, **query: str | int) -> Iterator[Any]:
        """Yield the items of a list, page after page, 3,000 at most. Raises GitHubError."""
        for page in range(1, _MOST_PAGES + 1):
            found = self._request_json("GET", path, {**query, "per_page": _PER_PAGE, "page": page}, None)
            if not isinstance(found, list):
                raise GitHubError(f"GitHub: {path}: a list was expected")
            yield from found
            if len(found) < _PER_PAGE:
                return

    def send(self, method: str, path: str, body: Mapping[str, Any]) -> Any:
        """Change something. Raises Ambiguous where no answer came, so that the caller looks first; else GitHubError."""
        return self._request_json(method, path, {}, json.dumps(body).encode())

    def _request_json(self, method: str, path: str, query: Mapping[str, str | int], body: bytes | None) -> Any:
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


_MOST_EVENT_BYTES = 25 * 2**20
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_REASON = re.compile(r"^[ \t>*-]*slower because:[ \t]*(\S.{0,499})", re.IGNORECASE | re.MULTILINE)


class Event(msgspec.Struct, frozen=True):
    """What the job is about. `number`: None where the event does not say; then `owner` and `branch` find it."""

    repository: str
    head: str
    number: int | None
    owner: str = ""
    branch: str = ""


class PullRequest(msgspec.Struct, frozen=True):
    """An open pull request. `head`: its newest commit; `acceptance`: whether its slowdown is accepted."""

    number: int
    head: str
    acceptance: Acceptance | None


def read_event(path: Path, name: str) -> Event:
    """Return what the file of an event says ($GITHUB_EVENT_PATH, $GITHUB_EVENT_NAME).

    Raises UsageError for a file that is none, and for events that are about no pull request.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_EVENT_BYTES + 1)
        payload = json.loads(data) if len(data) <= _MOST_EVENT_BYTES else None
    except OSError as fault:
        raise UsageError(f"cannot read the event {path}: {fault.strerror}") from None
    except (ValueError, RecursionError):
        payload = None
    if not isinstance(payload, dict):
        raise UsageError(f"{path} is not an event of GitHub")
    try:
        if name in ("pull_request", "pull_request_target"):
            return _of_pull_request(payload)
        if name == "workflow_run":
            return _of_workflow_run(payload)
    except (KeyError, TypeError, ValueError):
        raise UsageError(f"{path}: not an event {name} of GitHub") from None
    raise UsageError(f"event {name[:40]!r} is about no pull request; run this on pull_request or workflow_run")


def find_pull_request(github: GitHub, event: Event, label: str) -> PullRequest | None:
    """Return the pull request whose newest commit was measured; None where it is closed or has moved on.

    `label`: what accepts a slower change; only who may triage the repository can set it. Its reason is a line
    `Slower because: …` in the description. Both are asked for now: an event says what was when the job was first
    started, and says so again when it is run again. Raises GitHubError.
    """
    if event.number is not None:
        candidates = [github.get(f"pulls/{event.number}")]
    else:
        candidates = list(github.pages("pulls", state="open", head=f"{event.owner}:{event.branch}"))
    for one in candidates:
        if isinstance(one, Mapping) and one.get("state") == "open" and _head(one) == event.head:
            if not isinstance(number := one.get("number"), int):
                raise GitHubError("GitHub named a pull request without a number")
            return PullRequest(number, event.head, _accepted(one, label))
    return None


def _accepted(found: Mapping[str, Any], label: str) -> Acceptance | None:
    labels = [one.get("name") for one in found.get("labels") or () if isinstance(one, Mapping)]
    if label not in labels:
        return None
    body = found.get("body")
    match = _REASON.search(body) if isinstance(body, str) else None
    return Acceptance(label, match[1].strip() if match is not None else None)


def _of_pull_request(payload: Mapping[str, Any]) -> Event:
    found = payload["pull_request"]
    head, repository = found["head"], str(payload["repository"]["full_name"])
    return Event(repository, _commit(head["sha"]), int(found["number"]))


def _of_workflow_run(payload: Mapping[str, Any]) -> Event:
    run, repository = payload["workflow_run"], str(payload["repository"]["full_name"])
    if run["event"] != "pull_request":
        raise UsageError(f"the run was started by {str(run['event'])[:40]}, not by a pull request: nothing to comment")
    owner = str(run["head_repository"]["owner"]["login"])
    return Event(repository, _commit(run["head_sha"]), None, owner, str(run["head_branch"]))


def _commit(value: object) -> str:
    if not isinstance(value, str) or not _COMMIT.fullmatch(value):
        raise UsageError("the event has no commit")
    return value


def _head(found: Mapping[str, Any]) -> str | None:
    head = found.get("head")
    return head.get("sha") if isinstance(head, Mapping) else None


_POST_ATTEMPTS = 3
_CONCLUSIONS = {
    Conclusion.PASSED: "success",
    Conclusion.ACCEPTED: "success",
    Conclusion.SLOWER: "failure",
    Conclusion.FAILED: "failure",
    Conclusion.NO_BASELINE: "neutral",
    Conclusion.UNDECIDED: "neutral",
}


class Posted(StrEnum):
    """What was done."""

    CREATED = "created"
    EDITED = "edited"
    SAME = "unchanged"
    NOTHING = "no comment"


def post(github: GitHub, number: int, text: str, author: str, *, create: bool) -> tuple[Posted, str | None]:
    """Make the comment whose first line is that of `text`, or edit the one that is there; return its address, too.

    `author`: whose comments are looked at: anybody can write the marker. `create`: False edits only. Where no answer
    comes, it is looked for again before it is sent again. Raises GitHubError.
    """
    for attempt in range(_POST_ATTEMPTS):
        found = _own_comment(github, number, text.partition("\n")[0], author)
        try:
            if found is None:
                if not create:
                    return Posted.NOTHING, None
                made = github.send("POST", f"issues/{number}/comments", {"body": text})
                return Posted.CREATED, _address(made)
            if str(found.get("body", "")).replace("\r\n", "\n").rstrip("\n") == text.rstrip("\n"):
                return Posted.SAME, _address(found)
            made = github.send("PATCH", f"issues/comments/{found['id']}", {"body": text})
            return Posted.EDITED, _address(made)
        except Ambiguous:
            if attempt == _POST_ATTEMPTS - 1:
                raise
    raise GitHubError("GitHub: no answer")


def set_check(github: GitHub, commit: str, name: str, conclusion: Conclusion, title: str, summary: str) -> None:
    """Set a check of the commit: success, failure, or neutral where nothing is known. Raises GitHubError."""
    output = {"title": title[:200], "summary": summary}
    body = {
        "name": name,
        "head_sha": commit,
        "status": "completed",
        "conclusion": _CONCLUSIONS[conclusion],
        "output": output,
    }
    for attempt in range(_POST_ATTEMPTS):
        try:
            github.send("POST", "check-runs", body)
            return
        except Ambiguous:  # a second one of the same name takes the place of the first
            if attempt == _POST_ATTEMPTS - 1:
                raise


def _own_comment(github: GitHub, number: int, first_line: str, author: str) -> dict[str, object] | None:
    """Return the oldest comment of the author that begins with that line."""
    for one in github.pages(f"issues/{number}/comments"):
        if not isinstance(one, dict) or not isinstance(one.get("user"), dict):
            continue
        body = one.get("body")
        begins = isinstance(body, str) and body.partition("\n")[0].rstrip("\r") == first_line
        if begins and one["user"].get("login") == author and isinstance(one.get("id"), int):
            return one
    return None


def _address(made: object) -> str | None:
    found = made.get("html_url") if isinstance(made, dict) else None
    return found if isinstance(found, str) else None
