"""Who waits for whom: the loader alone and the device alone, measured on their own, explain what both do together.

While processes of their own load, loading and computing overlap, and the slower sets the pace: min(loader, device).
With 0 workers they alternate, and the times of a batch add: 1 / (1/loader + 1/device). A device that runs behind the
host computes meanwhile all the same, so 0 workers may do better than that.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from operator import attrgetter

import msgspec

from torchstone.analysis.summary import CaseSummary
from torchstone.core.schema.advice import Statement
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Task, Workload
from torchstone.core.schema.facts import Facts
from torchstone.plugins.data_choice import has_end

_OF_OWN_DATA = tuple(name for name in Facts.__struct_fields__ if name.startswith("own_") or name == "example_tokens")
_own_facts = attrgetter(*_OF_OWN_DATA)
_EVEN = 0.05  # rates this close set the pace together
_SHORT = 0.9  # of what both allow: below it something else is in the way


class FeedPace(StrEnum):
    """What sets the pace."""

    LOADER = "loader"
    DEVICE = "device"
    BOTH = "both"  # equally fast
    TURNS = "turns"  # one after the other: loading with 0 workers
    UNKNOWN = "unknown"


class Feeding(msgspec.Struct, frozen=True):
    """Who waits for whom.

    `possible`: items/s of both together if nothing else is in the way. `wait_share`: share of a step in which the
    device waits for data.
    """

    pace: FeedPace
    seen: tuple[Statement, ...]
    possible: float | None = None
    wait_share: float | None = None


def feeding(
    loader: float | None,
    device: float | None,
    whole: float | None = None,
    wait_share: float | None = None,
    workers: int | None = None,
) -> Feeding:
    """Return who waits, and by how much.

    loader, device: items/s of the loader alone (task load) and of the device alone (resident batches). whole: of both
    together; None takes what they make possible. wait_share: of a window, as measured; None takes what the rates say,
    which is also the most that is believed: a host that waits need not mean that its device does. workers: of the
    loader; None takes it that there are some.
    """
    if not loader or not device:
        return Feeding(FeedPace.UNKNOWN, (Statement("loader_unmeasured" if not loader else "device_unmeasured"),))
    possible = min(loader, device) if workers != 0 else 1.0 / (1.0 / loader + 1.0 / device)
    rate = whole or possible
    idle = max(0.0, 1.0 - rate / device)
    waits = idle if wait_share is None else min(idle, wait_share)
    pace = _pace(loader, device, rate, workers)
    rates: dict[str, Scalar] = {
        "loader": loader,
        "device": device,
        "share": waits,
        "ahead": loader / device,
    }
    seen: tuple[Statement, ...] = (Statement(f"paced_by_{pace}", rates),)
    if whole is not None and whole < _SHORT * possible:
        seen = (*seen, Statement("together_only", {"rate": whole, "possible": possible}))
    return Feeding(pace, seen, possible, waits)


def _pace(loader: float, device: float, rate: float, workers: int | None) -> FeedPace:
    if workers == 0 and rate < (1.0 - _EVEN) * min(loader, device):
        return FeedPace.TURNS
    if abs(loader - device) <= _EVEN * max(loader, device):
        return FeedPace.BOTH
    return FeedPace.LOADER if loader < device else FeedPace.DEVICE


EXAMPLE = "the example batch"
_GIVEN = "loader:"  # how the data of `torchstone.measure` begins


def fed_words(cases: Sequence[CaseSummary], varying: Collection[str] = ()) -> list[str]:
    """Return a line on what fed these Cases of one workload, or one for each way of feeding; none if it is not known.

    `varying`: the columns of their table, which tell what the line then does not.
    """
    told: dict[str, None] = {}
    shared = facts_of(*cases)  # a Case that failed tells nothing of data that all have
    for case in cases:
        facts = shared if (own := facts_of(case)) == Facts() else own
        if (line := fed_by(case.workload, case.configuration, facts, varying)) is not None:
            told[line] = None
    return list(told)


def facts_of(*cases: CaseSummary) -> Facts:
    """Return the facts of the first trial that tells of the user's own data; none where no trial does."""
    none = _own_facts(Facts())
    trials = (trial.facts for case in cases for trial in case.trials)
    return next((facts for facts in trials if _own_facts(facts) != none), Facts())


def fed_by(
    workload: Workload, configuration: Mapping[str, Scalar], facts: Facts, varying: Collection[str] = ()
) -> str | None:
    """Return what fed a Case; None where its record does not tell, as those of other tools do not.

    What `facts` of a trial tell of a user's own data is used where they are there.
    """
    feed = "loader" if workload.task == Task.LOAD else configuration.get("feed")
    source = data_words(workload, facts)
    if source.partition(":")[0] == "synthetic":
        source = "synthetic data"
    if feed == "resident":
        aside = "; loading is left out (feed=loader measures it, too)" if is_real(workload, facts) else ""
        what = source if source == EXAMPLE else f"a few batches of {source}"
        return f"fed from memory: {what}, kept on the device (feed=resident){aside}"
    if feed != "loader":
        return None
    came_as_loader = facts.own_batch_size is not None or bool(facts.own_fixed)
    what = source if came_as_loader else f"a DataLoader over {source}"
    workers = "" if "num_workers" in varying else f", {_workers(configuration, facts)}"
    return f"fed by {what}{workers}"


def own_data(facts: Facts) -> Facts:
    """Return the facts of a trial that tell of the user's own data."""
    return Facts(**{name: getattr(facts, name) for name in _OF_OWN_DATA})


def data_words(workload: Workload, facts: Facts) -> str:
    """Return what the batches are made of: "digits", "the SlowSet of load()", "synthetic"."""
    data = workload.data
    if data.startswith(_GIVEN):
        return f"the {data.removeprefix(_GIVEN)} that was given"
    if facts.own_data is not None:
        return f"the {facts.own_data} of {workload.model.rpartition(':')[2]}()"
    if data == "example" and facts.example_tokens is not None:
        return f"synthetic sentences of {facts.example_tokens} tokens"
    if data == "example":
        return EXAMPLE
    return data


def is_real(workload: Workload, facts: Facts) -> bool:
    """Say whether data are real: named, or of the user's own, and so with a loader that training would wait for."""
    return has_end(workload.data) or facts.own_data is not None


def _workers(configuration: Mapping[str, Scalar], facts: Facts) -> str:
    now, own = configuration.get("num_workers"), facts.own_num_workers
    aside = f" (its own: {own})" if own is not None and own != now else ""
    if not now:
        return f"no workers{aside}: the step itself makes each batch"
    return f"{now} worker{'s' * (now != 1)}{aside}"
