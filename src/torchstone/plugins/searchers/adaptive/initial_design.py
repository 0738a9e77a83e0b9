"""The first probes of a search: enough to place a model, each short."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from torchstone.core.schema.search import Part, Probe
from torchstone.plugins.searchers.adaptive.knowledge import Knowledge

Number = TypeVar("Number", int, float)
EFFORT = 0.2
MOST_COMBINATIONS = 4
CLOSE = 1  # one batch short of the middle will do
# Where in the list of batches, at most, and of workers. The loader: without workers and with some at a small batch,
# where handing it over counts; with few and with all at a larger one, where loading an item does, and crowding.
LOADERS = ((0.4, 0.0), (0.4, 0.5), (0.65, 0.2), (0.65, 1.0))
DEVICE_BATCHES = (0.2, 0.5)
WHOLES = ((0.65, 0.0), (0.65, 0.35))
WHOLE_EFFORT = 0.3
FEW = 8  # probes in all, at most: they go to whole steps first, as only what was run whole can be recommended
DEARER = 2.0  # than the smallest batch, at most: a slow loader is known from small batches


def opening(known: Knowledge) -> Iterator[Probe]:
    """Yield the first probes. Each is asked for when the one before has been heard."""
    few = known.brief.most_probes is not None and known.brief.most_probes <= FEW
    return _of_parts(known) if known.brief.separable and not few else _of_wholes(known)


def _of_parts(known: Knowledge) -> Iterator[Probe]:
    """The loader; the device at a small and a middle batch for each combination; both, without and with workers."""
    space = known.space
    for place in LOADERS:
        number = _within(known, Part.LOADER, *place)
        if number is not None:
            yield Probe(space.points[number], Part.LOADER, EFFORT, f"the loader alone{_workers(known, number)}")
    for nth, others in enumerate(space.combinations[:MOST_COMBINATIONS]):
        keys = [n for n, key in enumerate(space.device_keys) if key.others == others]
        yield from _device(known, sorted(keys, key=lambda n: space.device_keys[n].batch), first=nth == 0)
    for place in WHOLES:
        number = _within(known, Part.WHOLE, *place)
        if number is not None:
            yield Probe(space.points[number], Part.WHOLE, WHOLE_EFFORT, f"end to end{_workers(known, number)}")


def _workers(known: Knowledge, number: int) -> str:
    count = known.space.points[number].get("num_workers")
    return f", {count} workers" if count is not None else ""


def _within(known: Knowledge, part: Part, batch_at: float, workers_at: float) -> int | None:
    """Return a point that may be probed: the fastest of the largest batch that is not much dearer than a small one."""
    known.think()
    space = known.space
    most = _at(sorted({key.batch for key in space.loader_keys}), batch_at)
    count = _at(sorted({key.workers for key in space.loader_keys}), workers_at)
    fresh: dict[float, list[int]] = {}
    for number, of in enumerate(space.loader_of):
        key = space.loader_keys[of]
        if key.workers == count and known.may(number, part) and not known.asked[space.key(number, part)]:
            fresh.setdefault(key.batch, []).append(number)
    if not fresh:
        return None
    fastest = {batch: min(numbers, key=known.means.__getitem__) for batch, numbers in fresh.items()}

    def cost_s(batch: float) -> float:
        number = fastest[batch]
        return known.cost_s(number, part, known.mean(number, part), EFFORT)

    cheap = [batch for batch in fresh if batch <= most and cost_s(batch) <= DEARER * cost_s(min(fresh))]
    return fastest[max(cheap, default=min(fresh))]


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
