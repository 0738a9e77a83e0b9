"""GitHub's REST API on the loopback, as far as a comment needs it: what was sent is kept, faults are played first."""

from __future__ import annotations

import json
import re
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

REPOSITORY, TOKEN = "octo/repo", "ghs_secretsecretsecret"
ROBOT = "github-actions[bot]"


class Fault(NamedTuple):
    """An answer in place of the right one. `status` 0: the connection is cut; `done`: after it was carried out."""

    status: int
    headers: Mapping[str, str] = {}
    method: str = ""
    done: bool = False


class FakeGitHub:
    """The state of one repository."""

    def __init__(self) -> None:
        self.pulls: list[dict[str, Any]] = []
        self.comments: dict[int, list[dict[str, Any]]] = {}
        self.checks: list[dict[str, Any]] = []
        self.faults: deque[Fault] = deque()
        self.asked: list[tuple[str, str]] = []
        self.tokens: set[str | None] = set()
        self.address = ""

    def pull(self, number: int, head: str, **changes: Any) -> None:
        """Open a pull request."""
        found = {"number": number, "state": "open", "head": {"sha": head}, "labels": [], "body": None, "of": ""}
        self.pulls.append({**found, **changes})
        self.comments.setdefault(number, [])

    def comment(self, number: int, body: str, login: str = ROBOT) -> dict[str, Any]:
        """Write a comment, as somebody."""
        made = {"id": 100 + sum(map(len, self.comments.values())), "body": body, "user": {"login": login}}
        made["html_url"] = f"https://github.com/octo/repo/pull/{number}#issuecomment-{made['id']}"
        self.comments.setdefault(number, []).append(made)
        return made

    def answer(self, method: str, path: str, query: Mapping[str, list[str]], body: Any) -> tuple[int, Any]:
        """Return (status, answer)."""
        where = path.removeprefix(f"/repos/{REPOSITORY}/")
        if where == path:
            return 404, {"message": "Not Found"}
        if method == "GET" and (found := re.fullmatch(r"pulls/(\d+)", where)):
            one = [pull for pull in self.pulls if pull["number"] == int(found[1])]
            return (200, one[0]) if one else (404, {})
        if method == "GET" and where == "pulls":
            of = query["head"][0]
            return 200, _page([pull for pull in self.pulls if pull["of"] == of and pull["state"] == "open"], query)
        if found := re.fullmatch(r"issues/(\d+)/comments", where):
            if method == "GET":
                return 200, _page(self.comments.get(int(found[1]), []), query)
            return self._too_long(body) or (201, self.comment(int(found[1]), body["body"]))
        if method == "PATCH" and (found := re.fullmatch(r"issues/comments/(\d+)", where)):
            for comment in (one for each in self.comments.values() for one in each):
                if comment["id"] == int(found[1]):
                    comment["body"] = body["body"]
                    return 200, comment
        if method == "POST" and where == "check-runs":
            self.checks.append(body)
            return 201, body
        return 404, {"message": "Not Found"}

    def _too_long(self, body: Any) -> tuple[int, Any] | None:
        return (422, {"message": "body is too long"}) if len(body["body"]) > 65_536 else None


def _page(items: list[Any], query: Mapping[str, list[str]]) -> list[Any]:
    size, page = int(query["per_page"][0]), int(query["page"][0])
    return items[(page - 1) * size : page * size]


@contextmanager
def serving() -> Iterator[FakeGitHub]:
    """Give a repository whose `address` answers as long as this is entered."""
    state = FakeGitHub()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            """Say nothing."""

        def _respond(self) -> None:
            parts = urlsplit(self.path)
            data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            body = json.loads(data) if data else None
            state.asked.append((self.command, parts.path.removeprefix(f"/repos/{REPOSITORY}/")))
            state.tokens.add(self.headers.get("Authorization"))
            fault = state.faults[0] if state.faults and state.faults[0].method in ("", self.command) else None
            if fault is not None:
                state.faults.popleft()
            status, answer = 0, None
            if fault is None or fault.done:
                status, answer = state.answer(self.command, parts.path, parse_qs(parts.query), body)
            if fault is not None:
                status, answer = fault.status, {"message": "it failed"}
            if status == 0:
                self.connection.close()
                return
            told = json.dumps(answer).encode()
            self.send_response(status)
            for name, value in (fault.headers if fault is not None else {}).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(told)))
            self.end_headers()
            self.wfile.write(told)

        do_GET = do_POST = do_PATCH = _respond  # noqa: N815  # http.server's names

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def pull_request_event(head: str, number: object = 7) -> dict[str, Any]:
    """The event of a pull request."""
    source = {"sha": head, "ref": "feature", "repo": {"full_name": REPOSITORY}}
    return {"repository": {"full_name": REPOSITORY}, "pull_request": {"number": number, "head": source}}


def workflow_run_event(head: str, fork: str = "stranger/repo", branch: str = "feature") -> dict[str, Any]:
    """The event of a job that has ended; of a fork's it does not say which pull request it was for."""
    run = {
        "event": "pull_request", "head_sha": head, "head_branch": branch, "pull_requests": [],
        "head_repository": {"full_name": fork, "owner": {"login": fork.partition("/")[0]}},
    }  # fmt: skip
    return {"repository": {"full_name": REPOSITORY}, "workflow_run": run}
