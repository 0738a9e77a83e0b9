"""What the marks of a program mean: its steps, their items, and where their time went."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum

import msgspec

from torchstone.core.schema.metric import BACKWARD, DATA, FORWARD, OPTIMIZER, REST, TRANSFER
from torchstone.core.schema.trial import HostLine

_MOSTLY = 0.25  # of steps with a forward pass without gradients: from here on it is part of a step, as a teacher's is


class Mark(IntEnum):
    """What begins or ends, as execution/program/hooks writes it."""

    DATA_BEGIN = 0
    DATA_END = 1
    TRAIN_FORWARD = 2
    FORWARD = 3  # without gradients
    FORWARD_END = 4
    BACKWARD = 5
    BACKWARD_END = 6
    OPTIMIZER = 7
    OPTIMIZER_END = 8
    TRANSFER = 9  # of a tensor of the host, to a device
    TRANSFER_END = 10


_PHASES = {
    Mark.DATA_BEGIN: DATA,
    Mark.TRAIN_FORWARD: FORWARD,
    Mark.FORWARD: FORWARD,
    Mark.BACKWARD: BACKWARD,
    Mark.OPTIMIZER: OPTIMIZER,
    Mark.TRANSFER: TRANSFER,
}


class Marks(msgspec.Struct, frozen=True):
    """What a program sent: `kinds` of marks in hexadecimal, and their moments in seconds.

    `items`: of each DATA_END, `inputs`: of each outermost forward pass, None where not known; `ended_by`: the number of
    the optimizer of each OPTIMIZER_END. `window_mark`: the place of the first mark of the steady window; None: the
    program ended before it. `complete`: its window ended before the program did. `loader`: batch size (None: of no
    fixed size), workers and pinned memory of the loader that gave most batches. `weights`: numbers in each tensor of
    the optimizer. `losses`: of the first backward passes. `seed`: of torch's generator, when the first module was made.
    `turns`: when each began, and how long it took. `compiler`: torch's was imported. `copies`: of tensors to the
    device, `pageable` of them from pageable memory.
    """

    kinds: str
    times: tuple[float, ...]
    items: tuple[int | None, ...]
    inputs: tuple[int | None, ...]
    ended_by: tuple[int, ...]
    steps: int
    device: str
    torch: str
    threads: int
    workers: int
    memory: Mapping[str, float]
    ended_s: float
    has_optimizer: bool
    world: int = 1  # ranks: each has as many items as this one
    window_mark: int | None = None
    window_s: float | None = None
    complete: bool = False
    loader: tuple[int | None, int, bool] | None = None
    weights: tuple[int, ...] = ()
    fused: bool | None = None
    losses: tuple[float, ...] = ()
    seed: int | None = None
    turns: tuple[tuple[float, float], ...] = ()
    compiler: bool = False
    copies: int = 0
    pageable: int = 0

    @property
    def trains(self) -> bool:
        """Whether it computes gradients: some programs change their weights without an optimizer."""
        return self.has_optimizer or Mark.BACKWARD in bytes.fromhex(self.kinds)


class Sampled(msgspec.Struct, frozen=True):
    """What samples of a program's stack and one traced step told (execution/program/hooks/_torchstone_sampler.py)."""

    steps: int
    step_s: float
    samples: int
    lines: tuple[HostLine, ...]
    phases: Mapping[str, float]
    main_busy: float
    user_s: float
    system_s: float
    minor_faults: float
    major_faults: float
    involuntary_switches: float
    batches: int
    loading_s: float
    loading_cpu_s: float
    main_queued: float | None = None
    read_bytes: float | None = None


class Step(msgspec.Struct, frozen=True):
    """One step: when it began and ended, its items (None: not known), and its seconds by phase, which sum to it."""

    begin_s: float
    end_s: float
    items: int | None
    phases_s: Mapping[str, float]
    passes: int  # backward passes
    steady: bool

    @property
    def elapsed_s(self) -> float:
        """Its time in seconds."""
        return self.end_s - self.begin_s


def steps_of(marks: Marks, by: str = "auto") -> list[Step]:
    """Return the steps that the marks show, from the end of the first one on.

    A step ends with an optimizer's: of several optimizers with the rarest one's, among equals with the one that came
    last first (a generator's after its discriminator's). Without one it ends with a backward pass, and where there is
    none with a forward pass without gradients. In a training a step in which few others have such a pass is one with an
    evaluation, and left out.
    """
    kinds = [Mark(kind) for kind in bytes.fromhex(marks.kinds)]
    ends = _ends(marks, kinds, by)
    found = list(_cut(marks, kinds, ends))
    if not marks.trains or by == "forward":
        return [step for step, _ in found]
    evaluated = sum(passes > 0 for _, passes in found)
    if evaluated < _MOSTLY * len(found):
        found = [(step, passes) for step, passes in found if passes == 0]
    return [step for step, _ in found]


def _ends(marks: Marks, kinds: Sequence[Mark], by: str) -> list[int]:
    """Return the places of the marks with which steps end."""
    if by == "backward" or (by == "auto" and marks.trains and not marks.has_optimizer):
        return [place for place, kind in enumerate(kinds) if kind == Mark.BACKWARD_END]
    if by == "forward" or not marks.has_optimizer:
        return [place for place, kind in enumerate(kinds) if kind == Mark.FORWARD_END]
    counts = Counter(marks.ended_by)
    first = {number: place for place, number in reversed(list(enumerate(marks.ended_by)))}
    closing = min(counts, key=lambda number: (counts[number], -first[number]))
    numbers = iter(marks.ended_by)
    return [place for place, kind in enumerate(kinds) if kind == Mark.OPTIMIZER_END and next(numbers) == closing]


def _cut(marks: Marks, kinds: Sequence[Mark], ends: Sequence[int]) -> Iterator[tuple[Step, int]]:
    """Yield each step between two ends, and how many forward passes without gradients it has."""
    items, inputs = iter(marks.items), iter(marks.inputs)
    last = set(ends)
    stack: list[str] = []
    spent: defaultdict[str, float] = defaultdict(float)
    loaded: list[int | None] = []
    fed: list[int | None] = []
    passes = backward = 0
    begin: int | None = None
    for place, kind in enumerate(kinds):
        if place:
            spent[stack[-1] if stack else REST] += marks.times[place] - marks.times[place - 1]
        if kind == Mark.DATA_END:
            loaded.append(next(items, None))
        if kind in (Mark.TRAIN_FORWARD, Mark.FORWARD):
            fed.append(next(inputs, None))
            passes += kind == Mark.FORWARD
        backward += kind == Mark.BACKWARD
        if kind in _PHASES:
            stack.append(_PHASES[kind])
        elif stack:
            stack.pop()
        if place in last:
            if begin is not None:
                steady = marks.window_mark is not None and begin >= marks.window_mark - 1
                found = loaded or fed
                count = (
                    None if None in found or not found else marks.world * sum(one for one in found if one is not None)
                )
                yield Step(marks.times[begin], marks.times[place], count, dict(spent), backward, steady), passes
            begin, spent, loaded, fed, passes, backward = place, defaultdict(float), [], [], 0, 0
