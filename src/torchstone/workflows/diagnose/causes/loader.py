"""The loader holds the step up: it waits for its source, or it computes."""

from __future__ import annotations

import math
from collections.abc import Iterator

from torchstone.analysis.advice.feeding import feeding
from torchstone.analysis.advice.usual import DATA_S, idle_words
from torchstone.core import units
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.phase import DATA
from torchstone.workflows.diagnose.causes.lines import places
from torchstone.workflows.diagnose.diagnosis import Cause, Kind, Remedy, WhatIf
from torchstone.workflows.diagnose.evidence import Evidence

_WORTH = 0.10  # of the step
_COMPUTES = 0.5  # of a loader's time on a core: above, it computes rather than waits
_MOST_WORKERS = 16
_AS_DATASET = "return the Dataset, or a DataLoader of torch's, of which others are made"


def loader(e: Evidence) -> Cause | None:
    """Return the cause, or None where batches are there when they are wanted (S2-27, S2-32, S2-45)."""
    if e.setting("feed") != "loader":
        return None
    share = _share(e)
    if share < _WORTH:
        return None
    busy = e.loader_look.main_busy if e.loader_look is not None else None
    computes = busy is not None and busy >= _COMPUTES
    which = "loader" if busy is None else "loader_computes" if computes else "loader_waits"
    title = {
        "loader": "the loader is too slow: the step waits for its batches",
        "loader_computes": "preprocessing is too slow: the step waits while the loader computes",
        "loader_waits": "the loader waits for its source: the step waits for the loader",
    }[which]
    usual = ("slow disk", "too few workers", "costly preprocessing")
    fixed = e.fixes("num_workers")
    more = "num_workers" if not fixed else None
    remedies = [Remedy(f"more processes that load: {_AS_DATASET if fixed else 'num_workers 4, 8, 12, 16'}", more)]
    if e.accelerator:
        remedies.append(Remedy("pin_memory=True of the DataLoader", "pin_memory", how=True))
    remedies += [
        Remedy("a faster disk (SSD), or the data in memory or in fewer, larger files"),
        Remedy("less preprocessing for each item: once, before the training, instead of in every epoch"),
        Remedy("a faster CPU"),
    ]
    return Cause(
        which, Kind.IO, title, share, tuple(_evidence(e, busy)), where=places(e.loader_look, share),
        usual=usual, remedies=tuple(remedies), what_ifs=tuple(_what_ifs(e, computes=computes)),
    )  # fmt: skip


def _share(e: Evidence) -> float:
    """Return what a loader that is never waited for would save: by the device alone where that was measured."""
    rate = e.figures.get("throughput")
    if e.device_rate and rate:
        return max(0.0, 1.0 - rate / e.device_rate)
    return e.share(DATA)


def _evidence(e: Evidence, busy: float | None) -> Iterator[str]:
    data_s = e.phase_s(DATA)
    if data_s is not None:
        long = f", more than the usual {units.quantity(DATA_S, 's', 2)}" if data_s > DATA_S else ""
        yield f"data is {100 * e.share(DATA):.0f} % of the step ({units.quantity(data_s, 's')}{long})"
    workers = e.workers
    if e.loader_rate and e.device_rate:
        share = e.figures.get("data_wait_share")
        yield feeding(e.loader_rate, e.device_rate, e.figures.get("throughput"), share, workers).sentence
    if busy is not None and e.loader_look is not None:
        batch_s = units.quantity(e.loader_look.step_s, "s")
        yield f"one process takes {batch_s} a batch, and has a core {100 * busy:.0f} % of it; the rest it waits"
    if (idle := idle_words(e.figures.get("device_utilization"))) is not None:
        yield idle


def _what_ifs(e: Evidence, *, computes: bool) -> Iterator[WhatIf]:
    yield WhatIf({"feed": "resident"}, "a loader that is never waited for", ceiling=True)
    now = e.workers
    needed = _MOST_WORKERS
    if e.device_rate and e.loader_alone_rate:
        needed = math.ceil(1.2 * e.device_rate / e.loader_alone_rate)
    most = max(1, e.cores or 2) if computes else _MOST_WORKERS
    best = max(1, min(needed, most))
    tries = dict.fromkeys(n for n in (best, max(1, best // 2), min(2 * best, most)) if n > now)
    # And one a core: where items are small, handing them over costs more than further processes gain.
    a_core = min(best, e.cores or best)
    for workers in dict.fromkeys([*list(tries)[:2], *([a_core] if a_core > now else [])]):
        settings: dict[str, Scalar] = {"num_workers": workers}
        if e.accelerator and e.setting("pin_memory") is False:
            settings["pin_memory"] = True
        yield WhatIf(settings, "batches made beside the step")
