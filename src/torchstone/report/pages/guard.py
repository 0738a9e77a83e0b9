"""Who may ask: only by GET, only under names that are this machine's, and with a token where one is set.

The name is checked since any page on the web can have its own name resolve to 127.0.0.1 (DNS rebinding): its scripts
would then read what is stored here.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from torchstone.report.pages.address import address

_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\[\]:@/\s]+))(?::\d*)?")  # a Host header: a name or an address, a port
PUBLIC = "/static/"  # style and script: the same for everybody
SECURITY_HEADERS: Mapping[str, str] = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}


class Refusal(NamedTuple):
    """Why a request is not answered, or (303) where it goes on."""

    status: int
    message: str
    headers: Mapping[str, str] = {}


class Guard:
    """Judges requests. `names`: host names that are this machine's; `token`: None where none is needed.

    Addresses such as 127.0.0.1 are no names: nobody can have them resolve to another machine.
    """

    def __init__(self, names: Collection[str], token: str | None, port: int) -> None:
        self._names = {name.casefold() for name in names} | {"localhost"}
        self._token = token
        self._cookie = f"torchstone_{port}"  # a browser sends the cookies of one port to all others of the machine

    def refusal(
        self, method: str, path: str, host: str | None, query: Sequence[tuple[str, str]], cookies: str
    ) -> Refusal | None:
        """Return why a request is refused, or None. `cookies`: the header, "" where there is none."""
        if method not in ("GET", "HEAD"):
            return Refusal(405, "These pages only read: GET is the only method.", {"allow": "GET, HEAD"})
        if host is None or not self._is_ours(host):
            return Refusal(400, "This machine has no such name. Use the address that torchstone serve printed.")
        if self._token is None or path.startswith(PUBLIC):
            return None
        offered = [value for name, value in query if name == "token"]
        if offered:
            return self._with_token(path, offered[0], [pair for pair in query if pair[0] != "token"])
        if any(_same(value, self._pass()) for value in _values(cookies, self._cookie)):
            return None
        return Refusal(
            401, "Add the token to the address, /?token=…: torchstone serve printed it, or it is in its file."
        )

    def _with_token(self, path: str, offered: str, rest: Sequence[tuple[str, str]]) -> Refusal:
        assert self._token is not None
        if not _same(offered, self._token):
            return Refusal(401, "This token is wrong. torchstone serve printed the right one, or it is in its file.")
        there = address("/" + path.lstrip("/"), *rest)  # of //elsewhere a browser would make another machine
        cookie = f"{self._cookie}={self._pass()}; Path=/; HttpOnly; SameSite=Strict"
        return Refusal(303, "", {"location": there, "set-cookie": cookie, "cache-control": "no-store"})

    def _pass(self) -> str:
        """Return what the cookie holds: not the token itself, which is not to lie in a browser's files."""
        assert self._token is not None
        return hashlib.sha256(f"torchstone serve {self._token}".encode()).hexdigest()

    def _is_ours(self, host: str) -> bool:
        found = _HOST.fullmatch(host)
        name = (found[1] or found[2]).casefold().rstrip(".") if found is not None else ""
        return name in self._names or _is_address(name)


def _same(offered: str, right: str) -> bool:
    """Compare in a time that does not tell how much of it is right."""
    return hmac.compare_digest(offered.encode("utf-8", "replace"), right.encode("utf-8", "replace"))


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _values(cookies: str, name: str) -> Iterator[str]:
    for part in cookies.split(";"):
        key, _, value = part.strip().partition("=")
        if key == name:
            yield value


def is_loopback(host: str) -> bool:
    """Say whether only this machine can reach an address to listen on."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.casefold() == "localhost"
