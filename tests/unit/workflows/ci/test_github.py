"""The client against a server on the loopback: what is retried, what is refused, and where the token goes."""

import time

import pytest
from fake_github import REPOSITORY, TOKEN, Fault, serving

from torchstone.core.errors import ExitCode, UsageError
from torchstone.workflows.ci import github as module
from torchstone.workflows.ci.github import Ambiguous, GitHub, GitHubError


@pytest.fixture
def server(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with serving() as found:
        found.pull(7, "f" * 40)
        yield found


@pytest.fixture
def waits():
    return []


@pytest.fixture
def client(server, waits):
    return GitHub(REPOSITORY, TOKEN, server.address, waits.append)


def test_a_request_carries_the_token_and_is_decoded(server, client):
    assert client.get("pulls/7")["number"] == 7
    assert server.tokens == {f"Bearer {TOKEN}"}


@pytest.mark.parametrize("status", [500, 502, 503])
def test_a_server_s_error_is_tried_again_with_back_off(server, client, waits, status):
    server.faults.extend([Fault(status)] * 3)
    assert client.get("pulls/7")["number"] == 7
    assert waits == [1.0, 2.0, 4.0]


def test_a_connection_that_is_cut_is_tried_again_and_then_told(server, client, waits):
    server.faults.append(Fault(0))
    assert client.get("pulls/7")["number"] == 7
    server.faults.extend([Fault(0)] * 5)
    with pytest.raises(GitHubError, match="cannot be reached"):
        client.get("pulls/7")
    assert len(waits) == 5


@pytest.mark.parametrize(
    ("fault", "waited_s"),
    [
        (Fault(429, {"retry-after": "7"}), 7.0),
        (Fault(403, {"retry-after": "3"}), 3.0),
        (Fault(403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(time.time()) - 5)}), 0.0),
        (Fault(429, {"retry-after": "10000"}), 60.0),
        (Fault(429), 1.0),
    ],
)
def test_a_rate_limit_is_waited_for(server, client, waits, fault, waited_s):
    server.faults.append(fault)
    assert client.get("pulls/7")["number"] == 7
    assert waits == [waited_s]


def test_a_rate_limit_of_an_hour_is_not_waited_for(server, client, waits):
    reset = str(int(time.time()) + 3000)
    server.faults.append(Fault(403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": reset}))
    with pytest.raises(GitHubError, match="403"):
        client.get("pulls/7")
    assert waits == []


@pytest.mark.parametrize(
    ("status", "said"),
    [(401, "token is not valid"), (403, "permissions"), (404, "no such thing"), (422, "422"), (301, "has moved")],
)
def test_a_refusal_is_one_line_without_the_token_and_is_not_tried_again(server, client, waits, status, said):
    server.faults.append(Fault(status, {"Location": "http://127.0.0.1:1/elsewhere"} if status == 301 else {}))
    with pytest.raises(GitHubError, match=said) as fault:
        client.get("pulls/7")
    assert fault.value.exit_code == ExitCode.FAILED
    assert TOKEN not in str(fault.value)
    assert "\n" not in str(fault.value)
    assert waits == []
    assert len(server.asked) == 1


@pytest.mark.parametrize("status", [0, 500, 504])
def test_what_changes_something_is_not_sent_twice_unasked(server, client, waits, status):
    server.faults.append(Fault(status, done=status != 0))
    with pytest.raises(Ambiguous):
        client.send("POST", "issues/7/comments", {"body": "x"})
    assert len(server.asked) == 1
    server.faults.append(Fault(429, {"retry-after": "1"}))
    assert client.send("POST", "issues/7/comments", {"body": "y"})["body"] == "y"
    assert waits == [1.0], "a request that was refused was not carried out"


def test_pages_are_read_to_their_end_and_no_further(server, client, monkeypatch):
    for number in range(250):
        server.comment(7, str(number))
    assert [one["body"] for one in client.pages("issues/7/comments")] == [str(n) for n in range(250)]
    monkeypatch.setattr(module, "_MOST_PAGES", 2)
    assert len(list(client.pages("issues/7/comments"))) == 200
    with pytest.raises(GitHubError, match="a list was expected"):
        list(client.pages("pulls/7"))


def test_an_answer_that_is_too_long_or_no_json_is_refused(server, client, monkeypatch):
    monkeypatch.setattr(module, "_MOST_BYTES", 10)
    with pytest.raises(GitHubError, match="more than 10 bytes"):
        client.get("pulls/7")


@pytest.mark.parametrize("address", ["http://api.example", "ftp://127.0.0.1", "file:///etc/passwd", "127.0.0.1"])
def test_the_token_never_goes_over_an_open_line(address):
    with pytest.raises(UsageError, match="https://"):
        GitHub(REPOSITORY, TOKEN, address)


@pytest.mark.parametrize("repository", ["", "a", "a/b/c", "../x", "a/..", "a b/c", "a/b?x"])
def test_a_repository_that_is_none_is_refused(repository):
    with pytest.raises(UsageError, match="OWNER/NAME"):
        GitHub(repository, TOKEN)
