"""HostProfile: what the process of a trial does in a step, seen from the host: lines, waits, operators, kernel time."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class HostLine(msgspec.Struct, frozen=True):
    """A line of the user's own code, the deepest of them on the stack. `share`: of the samples, so of the step.

    `runs_per_step`, `waits_per_step`: how often it runs, and how often it calls for a value of a tensor (item, tolist,
    …), counted in one step; None where that step was not traced. `asks`: its samples are such calls.
    """

    file: str
    line: int
    function: str
    code: str
    phase: str
    share: float
    runs_per_step: float | None = None
    waits_per_step: float | None = None
    asks: bool = False


class Operators(msgspec.Struct, frozen=True):
    """What a step asks of torch. `waits`: values of tensors that the host asked for, the library's own among them.

    Of an accelerator: kernels launched, and copies to it from the host.
    """

    calls: int
    waits: int
    kernels: int | None = None
    kernel_s: float | None = None
    pageable_copies: int | None = None
    copy_s: float | None = None


class HostProfile(msgspec.Struct, frozen=True, tag="host_profile", tag_field="event"):
    """A pass of its own over some steps. `step_s`: its mean step, by the host's clock.

    `main_busy`: the share of the time in which the thread that does the steps had a core; the rest it waited, of it
    `main_queued` for a core (None where the system does not tell). CPU times are of the whole process, a step.
    `tensors`: how many the optimizer updates; `elements`: their median size. `read_bytes`: from files or pipes, a step.
    """

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
    threads: int
    operators: Operators | None = None
    tensors: int | None = None
    elements: float | None = None
    main_queued: float | None = None
    read_bytes: float | None = None

    @property
    def at_work(self) -> float:
        """The share of the time with a core, of that without waiting for one: what it would be with a free core."""
        return self.main_busy / max(self.main_busy, 1.0 - (self.main_queued or 0.0), 1e-9)
