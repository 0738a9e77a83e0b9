"""One comment: made, edited in place, never a stranger's, never twice."""

import pytest
from fake_github import REPOSITORY, ROBOT, TOKEN, Fault, serving

from torchstone.analysis.ci import Conclusion
from torchstone.workflows.ci.github import Ambiguous, GitHub, GitHubError, Posted, post, set_check

MARK = "<!-- torchstone comment: default -->"


@pytest.fixture
def server(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with serving() as found:
        found.pull(7, "f" * 40)
        yield found


@pytest.fixture
def client(server):
    return GitHub(REPOSITORY, TOKEN, server.address, lambda _: None)


def bodies(server) -> list[str]:
    return [one["body"] for one in server.comments[7]]


def test_the_first_is_made_the_next_edits_it_and_an_equal_one_sends_nothing(server, client):
    done, address = post(client, 7, f"{MARK}\none", ROBOT, create=True)
    assert done is Posted.CREATED
    assert address == server.comments[7][0]["html_url"]
    assert post(client, 7, f"{MARK}\ntwo", ROBOT, create=True)[0] is Posted.EDITED
    sent = len(server.asked)
    assert post(client, 7, f"{MARK}\ntwo\n", ROBOT, create=False)[0] is Posted.SAME
    assert bodies(server) == [f"{MARK}\ntwo"]
    assert [method for method, _ in server.asked[sent:]] == ["GET"]


def test_github_s_line_ends_make_no_difference(server, client):
    server.comment(7, f"{MARK}\r\none\r\n")
    assert post(client, 7, f"{MARK}\none\n", ROBOT, create=True)[0] is Posted.SAME


def test_where_nothing_was_decided_a_comment_is_edited_but_not_made(server, client):
    assert post(client, 7, f"{MARK}\nquiet", ROBOT, create=False) == (Posted.NOTHING, None)
    assert bodies(server) == []
    server.comment(7, f"{MARK}\nit was slower")
    assert post(client, 7, f"{MARK}\nquiet", ROBOT, create=False)[0] is Posted.EDITED
    assert bodies(server) == [f"{MARK}\nquiet"]


def test_a_stranger_s_comment_with_the_marker_is_left_alone(server, client):
    server.comment(7, f"{MARK}\nmine", "stranger")
    server.comment(7, f"> {MARK}\nquoted")
    server.comment(7, f"{MARK[:-4]}2 -->\nof another job")
    assert post(client, 7, f"{MARK}\nours", ROBOT, create=True)[0] is Posted.CREATED
    assert bodies(server)[0] == f"{MARK}\nmine"
    assert len(bodies(server)) == 4


def test_it_is_found_behind_many_others(server, client):
    for number in range(230):
        server.comment(7, str(number), "somebody")
    server.comment(7, f"{MARK}\none")
    assert post(client, 7, f"{MARK}\ntwo", ROBOT, create=True)[0] is Posted.EDITED


@pytest.mark.parametrize("status", [0, 500])
def test_a_comment_that_was_made_without_an_answer_is_not_made_twice(server, client, status):
    server.faults.append(Fault(status, method="POST", done=True))
    assert post(client, 7, f"{MARK}\none", ROBOT, create=True)[0] is Posted.SAME
    assert bodies(server) == [f"{MARK}\none"]


def test_a_comment_that_was_not_made_is_tried_again_and_at_last_told(server, client):
    server.faults.append(Fault(502, method="POST"))
    assert post(client, 7, f"{MARK}\none", ROBOT, create=True)[0] is Posted.CREATED
    server.faults.extend([Fault(502, method="PATCH")] * 3)
    with pytest.raises(Ambiguous):
        post(client, 7, f"{MARK}\ntwo", ROBOT, create=True)


def test_what_is_refused_is_told(server, client):
    server.faults.append(Fault(403, method="POST"))
    with pytest.raises(GitHubError, match="permissions"):
        post(client, 7, f"{MARK}\none", ROBOT, create=True)
    with pytest.raises(GitHubError, match="422"):
        post(client, 7, f"{MARK}\n{'x' * 66_000}", ROBOT, create=True)


@pytest.mark.parametrize("conclusion", Conclusion)
def test_a_check_is_green_only_where_something_was_shown(server, client, conclusion):
    server.faults.append(Fault(500, method="POST"))
    set_check(client, "f" * 40, "speed", conclusion, "t" * 300, "text")
    (sent,) = server.checks
    green = conclusion in (Conclusion.PASSED, Conclusion.ACCEPTED)
    red = conclusion in (Conclusion.SLOWER, Conclusion.FAILED)
    assert sent["conclusion"] == ("success" if green else "failure" if red else "neutral")
    assert (sent["head_sha"], sent["name"], len(sent["output"]["title"])) == ("f" * 40, "speed", 200)
