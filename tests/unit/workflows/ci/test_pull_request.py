"""Which pull request a job is about: from the event, and asked for; never from an artifact."""

import json

import pytest
from fake_github import REPOSITORY, TOKEN, pull_request_event, serving, workflow_run_event

from torchstone.core.errors import UsageError
from torchstone.workflows.ci.github import GitHub, GitHubError, find_pull_request, read_event

HEAD, OLDER = "f" * 40, "e" * 40
LABEL = "performance-accepted"


@pytest.fixture
def read(tmp_path):
    def reading(payload, name="pull_request"):
        path = tmp_path / "event.json"
        path.write_text(payload if isinstance(payload, str) else json.dumps(payload))
        return read_event(path, name)

    return reading


@pytest.fixture
def server(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with serving() as found:
        yield found


def asked(server, event):
    return find_pull_request(GitHub(REPOSITORY, TOKEN, server.address), event, LABEL)


def test_an_event_of_a_pull_request_has_its_number(server, read):
    event = read(pull_request_event(HEAD))
    assert (event.repository, event.head, event.number) == (REPOSITORY, HEAD, 7)
    server.pull(7, HEAD)
    assert asked(server, event).number == 7


def test_a_fork_s_is_found_by_its_branch_and_commit(server, read):
    event = read(workflow_run_event(HEAD), "workflow_run")
    assert (event.number, event.owner, event.branch) == (None, "stranger", "feature")
    server.pull(3, OLDER, of="stranger:feature")
    server.pull(4, HEAD, of="another:feature")
    server.pull(5, HEAD, of="stranger:feature", state="closed")
    assert asked(server, event) is None
    server.pull(6, HEAD, of="stranger:feature")
    assert asked(server, event).number == 6


def test_a_pull_request_that_has_moved_on_or_is_closed_is_not_commented(server, read):
    server.pull(7, OLDER)
    server.pull(8, HEAD, state="closed")
    assert asked(server, read(pull_request_event(HEAD))) is None
    assert asked(server, read(pull_request_event(HEAD, 8))) is None


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("Fixes it.\n\nSlower because: the result was wrong\n", "the result was wrong"),
        ("- slower because:   x  \r\nmore", "x"),
        ("It is slower because: of this", None),
        ("Slower because:\nnext line", None),
        (f"Slower because: {'y' * 900}", "y" * 500),
        (None, None),
        ("", None),
    ],
)
def test_a_label_counts_with_its_reason(server, read, body, reason):
    server.pull(7, HEAD, body=body, labels=[{"name": "bug"}, {"name": LABEL}])
    server.pull(8, HEAD, body=body, labels=[{"name": "bug"}])
    found = asked(server, read(pull_request_event(HEAD)))
    assert (found.acceptance.label, found.acceptance.reason) == (LABEL, reason)
    assert asked(server, read(pull_request_event(HEAD, 8))).acceptance is None


@pytest.mark.parametrize(
    ("payload", "name", "said"),
    [
        ({}, "pull_request", "not an event pull_request"),
        ({}, "push", "about no pull request"),
        ([], "pull_request", "not an event"),
        ("{", "pull_request", "not an event"),
        (pull_request_event(HEAD, "x"), "pull_request", "not an event pull_request"),
        (pull_request_event("main"), "pull_request", "has no commit"),
        (pull_request_event(f"{HEAD}\n"), "pull_request", "has no commit"),
    ],
)
def test_an_event_that_is_none_is_one_line(read, payload, name, said):
    with pytest.raises(UsageError, match=said):
        read(payload, name)


def test_a_run_of_a_push_has_no_pull_request(read, tmp_path):
    event = workflow_run_event(HEAD)
    event["workflow_run"]["event"] = "push"
    with pytest.raises(UsageError, match="not by a pull request"):
        read(event, "workflow_run")
    with pytest.raises(UsageError, match="cannot read the event"):
        read_event(tmp_path / "gone.json", "pull_request")


@pytest.mark.parametrize("number", ["seven", None, 7.5, [7]])
def test_a_pull_request_whose_number_is_none_is_githubs_fault(server, read, number):
    server.pull(7, HEAD, of="stranger:feature")
    server.pulls[0]["number"] = number
    with pytest.raises(GitHubError, match="without a number"):
        asked(server, read(workflow_run_event(HEAD), "workflow_run"))
