"""One comment a pull request, found again by its hidden marker and edited in place; and a check beside it."""

from __future__ import annotations

from enum import StrEnum

from torchstone.analysis.ci import Conclusion
from torchstone.workflows.ci.github import Ambiguous, GitHub, GitHubError

_ATTEMPTS = 3
_CONCLUSIONS = {
    Conclusion.PASSED: "success", Conclusion.ACCEPTED: "success", Conclusion.SLOWER: "failure",
    Conclusion.FAILED: "failure", Conclusion.NO_BASELINE: "neutral", Conclusion.UNDECIDED: "neutral",
}  # fmt: skip


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
    for attempt in range(_ATTEMPTS):
        found = _found(github, number, text.partition("\n")[0], author)
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
            if attempt == _ATTEMPTS - 1:
                raise
    raise GitHubError("GitHub: no answer")


def check(github: GitHub, commit: str, name: str, conclusion: Conclusion, title: str, summary: str) -> None:
    """Set a check of the commit: success, failure, or neutral where nothing is known. Raises GitHubError."""
    output = {"title": title[:200], "summary": summary}
    body = {
        "name": name, "head_sha": commit, "status": "completed", "conclusion": _CONCLUSIONS[conclusion],
        "output": output,
    }  # fmt: skip
    for attempt in range(_ATTEMPTS):
        try:
            github.send("POST", "check-runs", body)
            return
        except Ambiguous:  # a second one of the same name takes the place of the first
            if attempt == _ATTEMPTS - 1:
                raise


def _found(github: GitHub, number: int, first_line: str, author: str) -> dict[str, object] | None:
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
