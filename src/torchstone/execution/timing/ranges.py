"""Named ranges around a step and its phases, for a profiler's timeline (NVTX, record_function)."""

from __future__ import annotations

from collections.abc import Callable

from torchstone.core.schema.phase import REST
from torchstone.execution.timing.loop import Source, Step
from torchstone.plugins.protocols import Mark

STEP = "step"


class Ranges:
    """Opens and closes a range for each step, and within it one for each of its phases.

    A mark tells where a phase ends, and a range needs its name where it begins: names are those of the step before,
    whose phases came in the same order. The very first step has only "rest".

    Parameters
    ----------
    push: opens a range of that name inside the present one.
    pop: closes the innermost.

    """

    def __init__(self, push: Callable[[str], object], pop: Callable[[], object]) -> None:
        self._push, self._pop = push, pop
        self._before: list[str] = []

    def around(self, step: Step) -> Step:
        """Return the step with its ranges. They cost a microsecond a phase and more: only where they were asked for."""

        def ranged(pull: Source, mark: Mark) -> None:
            names = [*self._before, REST]
            seen: list[str] = []

            def ended(phase: str) -> None:
                self._pop()
                mark(phase)
                seen.append(phase)
                self._push(names[len(seen)] if len(seen) < len(names) else REST)

            self._push(STEP)
            self._push(names[0])
            try:
                step(pull, ended)
            finally:
                self._pop()
                self._pop()
            self._before = seen

        return ranged
