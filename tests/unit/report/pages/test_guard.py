import pytest

from torchstone.report.pages.guard import Guard, is_loopback

TOKEN = "a-token-of-some-length"


def judged(guard, host="127.0.0.1:8642", *, method="GET", path="/runs", query=(), cookies=""):
    return guard.refusal(method, path, host, list(query), cookies)


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1:8642", "127.0.0.1", "localhost:9999", "LocalHost", "[::1]:8642", "localhost.:8642", "127.0.0.1:"],
)
def test_this_machine_is_asked_by_address_or_as_localhost(host):
    assert judged(Guard((), None, 8642), host) is None


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8642", "localhost.evil.example", "", None, "[", "::", "1", "127.0.0.1:80@evil",
     "[::1", "[::1]x", "127.0.0.1:x", "127.0.0.1 evil"],
)  # fmt: skip
def test_a_name_that_resolves_to_it_is_refused(host):
    refused = judged(Guard((), None, 8642), host)
    assert refused is not None
    assert refused.status == 400


def test_names_of_the_machine_are_known_where_others_may_ask():
    guard = Guard({"Node-1"}, TOKEN, 8642)
    assert judged(guard, "node-1:8642").status == 401
    assert judged(guard, "node-2:8642").status == 400


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "get"])
def test_only_get(method):
    refused = judged(Guard((), None, 8642), method=method)
    assert (refused.status, refused.headers["allow"]) == (405, "GET, HEAD")


def test_a_token_becomes_a_cookie_and_leaves_the_address():
    guard = Guard((), TOKEN, 8642)
    assert judged(guard).status == 401
    went = judged(guard, path="/compare", query=[("a", "x y"), ("token", TOKEN), ("b", "z")])
    assert (went.status, went.headers["location"]) == (303, "/compare?a=x%20y&b=z")
    cookie = went.headers["set-cookie"]
    assert cookie.startswith("torchstone_8642=")
    assert cookie.endswith("; Path=/; HttpOnly; SameSite=Strict")
    assert TOKEN not in cookie
    assert judged(guard, cookies=f"other=1; {cookie.partition(';')[0]}") is None
    assert judged(Guard((), TOKEN + "2", 8642), cookies=cookie.partition(";")[0]).status == 401


@pytest.mark.parametrize("offered", ["", "x", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "\udc80", "ü" * 22])
def test_a_wrong_token_is_refused(offered):
    refused = judged(Guard((), TOKEN, 8642), query=[("token", offered)])
    assert (refused.status, refused.headers) == (401, {})
    assert judged(Guard((), TOKEN, 8642), cookies=f"torchstone_8642={offered}").status == 401


def test_a_token_leads_nowhere_else():
    went = judged(Guard((), TOKEN, 8642), path="//evil.example/x", query=[("token", TOKEN)])
    assert went.headers["location"] == "/evil.example/x"


def test_style_needs_no_token_so_that_a_refusal_is_readable():
    assert judged(Guard((), TOKEN, 8642), path="/static/style.css") is None
    assert judged(Guard((), TOKEN, 8642), path="/static").status == 401


@pytest.mark.parametrize(("host", "alone"), [
    ("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False),
    ("192.168.1.2", False), ("node-1", False), ("localhost.evil.example", False),
])  # fmt: skip
def test_what_only_this_machine_reaches(host, alone):
    assert is_loopback(host) is alone
