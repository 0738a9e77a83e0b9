"""The first probes of a search: enough to place a model, each short."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from torchstone.searchers._knowledge import Knowledge
from torchstone.terms.search import Part, Probe

Number = TypeVar("Number", int, float)
EFFORT = 0.2
MOST_COMBINATIONS = 4
CLOSE = 1  # one batch short of the middle will do
LOADER_BATCH, DEVICE_BATCHES = 0.4, (0.2, 0.5)  # where in the list of batches


def opening(known: Knowledge) -> Iterator[Probe]:
    """Yield the first probes. Each is asked for when the one before has been heard."""
    return _of_parts(known) if known.brief.separable else _of_wholes(known)


def _of_parts(known: Knowledge) -> Iterator[Probe]:
    """The loader without and with workers; the device at a small and a middle batch for each combination."""
    space = known.space
    workers = sorted({key.workers for key in space.loader_keys})
    batch = _at(sorted({key.batch for key in space.loader_keys}), LOADER_BATCH)
    for count in dict.fromkeys((workers[0], _at(workers, 0.5))):
        keys = sorted(range(len(space.loader_keys)), key=lambda n: abs(space.loader_keys[n].batch - batch))
        number = space.loader_of.index(next(n for n in keys if space.loader_keys[n].workers == count))
        if known.may(number, Part.LOADER):
            yield Probe(space.points[number], Part.LOADER, EFFORT, f"the loader alone, {count} workers")
    for nth, others in enumerate(space.combinations[:MOST_COMBINATIONS]):
        keys = [n for n, key in enumerate(space.device_keys) if key.others == others]
        yield from _device(known, sorted(keys, key=lambda n: space.device_keys[n].batch), first=nth == 0)


def _device(known: Knowledge, keys: Sequence[int], *, first: bool) -> Iterator[Probe]:
    """Probe the device at a small and at a middle batch, in steps where memory is not yet known to allow it.

    The small one tells what a launch takes, which is about the same whatever the values of the other axes.
    """
    space = known.space
    small, middle = (int(place * (len(keys) - 1)) for place in DEVICE_BATCHES)
    reached = -1
    for top in (small, middle, middle) if first else (middle, middle):
        open_keys = [n for n in range(top + 1) if known.may(space.device_of.index(keys[n]), Part.DEVICE)]
        fresh = [n for n in open_keys if not known.asked[Part.DEVICE, keys[n]]]
        if not fresh or reached >= middle - CLOSE:
            return
        reached = max(fresh)
        key = space.device_keys[keys[reached]]
        words = ", ".join(str(value) for value in key.others)
        why = f"the device alone, batch {key.batch:g}{', ' + words if words else ''}"
        yield Probe(space.points[space.device_of.index(keys[reached])], Part.DEVICE, EFFORT, why)


def _of_wholes(known: Knowledge) -> Iterator[Probe]:
    """What the user has now; then a small and a middle batch of each combination."""
    space, present = known.space, known.brief.present
    first = [n for n, point in enumerate(space.points) if point == present]
    for place in (0.1, 0.6):
        for others in space.combinations[:MOST_COMBINATIONS]:
            keys = [n for n, d in enumerate(space.device_of) if space.device_keys[d].others == others]
            first.append(_at(sorted(keys, key=lambda n: space.loader_keys[space.loader_of[n]].batch), place))
    for number in dict.fromkeys(first):
        if known.may(number, Part.WHOLE):
            yield Probe(space.points[number], Part.WHOLE, EFFORT, "a first look")


def _at(values: Sequence[Number], place: float) -> Number:
    return values[min(len(values) - 1, int(place * len(values)))]
