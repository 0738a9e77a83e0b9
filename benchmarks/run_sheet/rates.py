"""B1: the best that the device does, by `torchstone machine peaks` and by a few lines written by hand."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from run_sheet.here import Here
from run_sheet.products import Bench

_COPIED_BYTES = 1 << 32  # 4.3 GB read and 4.3 GB written
_SIDE = 8192
_SUSTAINED_S = 5.0
_LAUNCHES = 10_000
_PROCESSES = 3


def compare(here: Here) -> None:
    """Note every rate of `machine peaks`, and the same few by hand."""
    try:  # first: what this process takes of the device later would be lacking there
        document = here.torchstone("machine", "peaks", "--again", limit_s=90).document()
        for rate in document["peaks"]["rates"]:
            here.note(f"peak_{rate['name']}", rate["value"])
        here.note("peaks_took_s", document["peaks"]["elapsed_s"])
    finally:
        by_hand(here)


def by_hand(here: Here) -> None:
    """Note the rates of the plainest loops there are."""
    bench = Bench(here)
    here.note("hand_copy_bytes_s", _copied(bench))
    bench.give_back()
    side = _SIDE if not here.on_cpu else 1024
    flops = 2.0 * side**3
    product = bench.product(side)
    bench.seconds(product, 3)
    time.sleep(1.0)  # idle: what follows is a burst, before the power limit takes hold
    here.note("hand_burst_flops", flops / bench.seconds(product, 20))
    whole, last = sustained(bench, product, _SUSTAINED_S)
    here.note("hand_sustained_flops", flops / whole)
    here.note("hand_sustained_last_second_flops", flops / last)
    if not here.on_cpu:
        _transfers(here, bench)
    here.note("hand_launch_s", _launch_s(bench))
    spent = [_launched_elsewhere(here) for _ in range(_PROCESSES)]
    here.note("hand_launch_fastest_s", min(spent))
    here.note("hand_launch_slowest_s", max(spent))


def _launch_s(bench: Bench) -> float:
    add = bench.torch.zeros(1, device=bench.device).add_
    return min(bench.seconds(lambda: add(1.0), _LAUNCHES) for _ in range(5))


def _launched_elsewhere(here: Here) -> float:
    """Return the same of a fresh process: what Python takes differs by tens of percent from one to the next."""
    done = here.python("-m", "run_sheet.rates", here.device, limit_s=60)
    return float(done.out.split()[-1])


def _copied(bench: Bench) -> float:
    """Return the bytes read and written a second of a copy within the device."""
    size = min(_COPIED_BYTES, (bench.free_bytes() or 1 << 30) // 8)
    source = bench.torch.empty(size, dtype=bench.torch.uint8, device=bench.device).fill_(1)
    into = bench.torch.empty_like(source)
    return 2.0 * size / bench.steady_seconds(lambda: into.copy_(source), for_s=0.5)


def sustained(bench: Bench, product: Callable[[], Any], for_s: float) -> tuple[float, float]:
    """Return the seconds a product over the whole time, and over its last second, in bursts of a tenth of a second."""
    each_s = bench.steady_seconds(product, for_s=0.1, rounds=1)
    count = max(1, round(0.1 / each_s))
    bursts: list[float] = []
    ends_s = time.perf_counter() + for_s
    while time.perf_counter() < ends_s:
        bursts.append(bench.seconds(product, count))
    last = bursts[-max(1, round(1.0 / max(count * bursts[-1], 1e-6))) :]
    return sum(bursts) / len(bursts), sum(last) / len(last)


def _transfers(here: Here, bench: Bench) -> None:
    """Note the way to the device and back, ten pieces of a quarter of a GiB to one wait, from either kind of memory."""
    torch, size = bench.torch, 1 << 28
    there = torch.empty(size, dtype=torch.uint8, device=bench.device)
    for kind in ("pinned", "pageable"):
        try:
            own = torch.empty(size, dtype=torch.uint8, pin_memory=kind == "pinned").random_()
        except RuntimeError as error:  # a limit on locked pages, or memory that is shared
            print(f"no {kind} memory: {error}", flush=True)
            continue
        for name, to, source in (("to_device", there, own), ("to_host", own, there)):
            one_s = bench.steady_seconds(partial(to.copy_, source, non_blocking=True), for_s=0.2)
            here.note(f"hand_{name}_{kind}_bytes_s", size / one_s)


if __name__ == "__main__":
    print(_launch_s(Bench(Here(sys.argv[1], quick=False, isolation=None, folder=Path(), tell=lambda *_: None))))
