"""The step waits for the loader: it waits for its source, or it computes."""

from __future__ import annotations

import math
from collections.abc import Iterator

from torchstone.analysis.advice import rules, usual
from torchstone.analysis.advice.feeding import feeding
from torchstone.core import units
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.diagnosis import Cause, Kind, WhatIf
from torchstone.core.schema.phase import DATA
from torchstone.workflows.diagnose.causes.lines import places
from torchstone.workflows.diagnose.evidence import Evidence

_MOST_WORKERS = 16
_QUEUED = 0.05  # of the time, waiting for a core: from here on it is said
# By whether the loader computes, as far as that is known: the cause's id and title.
_TITLES = {
    None: ("loader", "the loader is too slow: the step waits for its batches"),
    True: ("loader_computes", "preprocessing is too slow: the step waits while the loader computes"),
    False: ("loader_waits", "the step waits for the loader, and the loader for its source"),
}


def loader(e: Evidence) -> Cause | None:
    """Return the cause, or None where batches are there when they are wanted."""
    if e.setting("feed") != "loader":
        return None
    rule, known, share = rules.LOADER, e.known, _share(e)
    if share < rule.least:
        return None
    which, title = _TITLES[known.loader_computes]
    return Cause(
        which, Kind.IO, title, share, tuple(_evidence(e)), where=places(e.loader_look, share),
        usual=tuple(rule.usual(known)), remedies=tuple(rule.remedies(known)), what_ifs=tuple(_what_ifs(e)),
    )  # fmt: skip


def _share(e: Evidence) -> float:
    """Return what a loader that is never waited for would save: by the device alone where that was measured."""
    rate = e.figures.get("throughput")
    if e.device_rate and rate:
        return max(0.0, 1.0 - rate / e.device_rate)
    return e.share(DATA)


def _evidence(e: Evidence) -> Iterator[str]:
    data_s = e.phase_s(DATA)
    if data_s is not None:
        long = f", more than the usual {units.quantity(usual.DATA_S, 's', 2)}" if data_s > usual.DATA_S else ""
        yield f"data is {100 * e.share(DATA):.0f} % of the step ({units.quantity(data_s, 's')}{long})"
    workers = e.workers
    if e.loader_rate and e.device_rate:
        share = e.figures.get("data_wait_share")
        yield feeding(e.loader_rate, e.device_rate, e.figures.get("throughput"), share, workers).sentence
    if (look := e.loader_look) is not None:
        busy = f"has a core {100 * look.main_busy:.0f} % of it; the rest it waits"
        if look.main_queued is not None and look.main_queued >= _QUEUED:
            source = max(0.0, 1.0 - look.main_busy - look.main_queued)
            waits = f"waits {100 * look.main_queued:.0f} % for a core, {100 * source:.0f} % for its source"
            busy = f"has a core {100 * look.main_busy:.0f} % of it, {waits}"
        yield f"one process takes {units.quantity(look.step_s, 's')} a batch, and {busy}"
    if (idle := e.known.idle) is not None:
        yield idle


def _what_ifs(e: Evidence) -> Iterator[WhatIf]:
    yield WhatIf({"feed": "resident"}, "a loader that is never waited for", ceiling=True)
    now = e.workers
    needed = _MOST_WORKERS
    if e.device_rate and e.loader_alone_rate:
        needed = math.ceil(1.2 * e.device_rate / e.loader_alone_rate)
    most = max(1, e.cores or 2) if e.known.loader_computes else _MOST_WORKERS
    best = max(1, min(needed, most))
    tries = dict.fromkeys(n for n in (best, max(1, best // 2), min(2 * best, most)) if n > now)
    # And one a core: where items are small, handing them over costs more than further processes gain.
    a_core = min(best, e.cores or best)
    for workers in dict.fromkeys([*list(tries)[:2], *([a_core] if a_core > now else [])]):
        settings: dict[str, Scalar] = {"num_workers": workers}
        if e.accelerator and e.setting("pin_memory") is False:
            settings["pin_memory"] = True
        yield WhatIf(settings, "batches made beside the step")
