import pytest

from torchstone.report.pages.address import Query, address, compare_address
from torchstone.storage.catalogue import Key


def test_addresses_are_short_and_readable():
    assert address("/runs") == "/runs"
    assert address("/runs", ("model", "bert"), ("device", "NVIDIA H200")) == "/runs?model=bert&device=NVIDIA%20H200"
    assert address("/runs", ("before", "2026-11-23T08:30:00Z~a-b")) == "/runs?before=2026-11-23T08:30:00Z~a-b"
    assert compare_address(["20261123-0830-abcd", "x"]) == "/compare?a=20261123-0830-abcd&b=x"


@pytest.mark.parametrize("text", ["a&b=c", "a#b", 'a"><script>', "a?b", "ü", "a+b", "a\nb"])
def test_what_would_break_an_address_is_escaped(text):
    there = address("/runs", ("q", text))
    assert not set(there.removeprefix("/runs?q=")) & set('&#"<>?+ \n')


def test_what_is_wanted_is_bounded_and_what_is_no_day_is_left_out():
    asked = Query(
        [("q", " a  b "), ("model", "m" * 1000), ("since", "2026-11-31"), ("until", "2026-11-30"), ("x", "y")]
    )
    wanted = asked.wanted()
    assert (wanted.text, len(wanted.model), wanted.since, wanted.until) == ("a  b", 300, "", "2026-11-30")


def test_empty_fields_leave():
    asked = Query([("q", ""), ("model", "m"), ("run", "a"), ("run", "a"), ("run", "b")])
    assert asked.has_empty
    assert not Query(asked.without_empty()).has_empty
    assert asked.all("run") == ("a", "b")


def test_keys_come_back():
    assert Key.read(str(Key("2026-11-23T08:30:00Z", "ab"))) == Key("2026-11-23T08:30:00Z", "ab")
    assert Key.read("nothing") is None
