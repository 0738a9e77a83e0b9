"""Which pull request a job is about: by the event that GitHub gave the job, never by what an artifact says.

In a `workflow_run` job the event names the commit and branch that were measured; the number is asked for, since the
event leaves it out for forks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from torchstone.analysis.ci import Acceptance
from torchstone.core.errors import UsageError
from torchstone.workflows.ci.github import GitHub, GitHubError

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


def find(github: GitHub, event: Event, label: str) -> PullRequest | None:
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
