"""The network interface through which this node reaches another: what gloo connects through."""

from __future__ import annotations

import socket

import psutil

from torchstone.core.errors import Unsupported

_DISCARD_PORT = 9  # of RFC 863: nothing is sent to it


def interface_towards(address: str) -> str:
    """Return the name of the interface on the route to an address, be it this node's own. Raises Unsupported."""
    try:
        family, kind, *_, place = socket.getaddrinfo(address, _DISCARD_PORT, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(place)  # sends nothing: the kernel chooses the route and the address it leaves from
            own = str(probe.getsockname()[0])
    except OSError as fault:
        raise Unsupported(f"the first node, {address}, cannot be reached from this one: {fault}") from fault
    for name, addresses in psutil.net_if_addrs().items():
        if any(one.address.partition("%")[0] == own for one in addresses):
            return str(name)
    raise Unsupported(f"no network interface here has the address {own}, from which {address} is reached")
