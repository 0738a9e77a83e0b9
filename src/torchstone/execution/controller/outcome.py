"""Derives a trial's Outcome from its last event, its signal or exit code, and the OOM killer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from torchstone.core.messages import Values
from torchstone.core.schema.trial import Outcome, Reason, Status
from torchstone.execution.host_memory import oom_kills
from torchstone.execution.worker.outcome import frames_in, is_own, place
from torchstone.execution.worker.ranks.roll import ENDED, SILENT

_KILLED, _LEFT = "killed by SIGKILL", "exited with code 0"
_COLLECTIVES = "/torch/distributed/"  # in a file of torch: waits for other ranks
RANK = re.compile(r"rank \d+")  # before the stack of each rank that was asked where it is
_KERNEL = "by the kernel's out-of-memory killer"


class TrialEnd:
    """Created before a trial starts, to know the number of OOM kills by then."""

    def __init__(self) -> None:
        self._kills = oom_kills()
        self.stage = ""
        self.stack: list[str] = []

    def timed_out(self, timeout_s: float) -> Outcome:
        """Return the Outcome of a trial that had to be ended for its time."""
        said, values = f"timed out after {timeout_s:g} s{self._where()}", Values(timeout_s=timeout_s, during=self.stage)
        return Outcome(Status.TIMED_OUT, said, self._traceback(), Reason.TIMEOUT, values)

    def hung(self, silent_s: float) -> Outcome:
        """Return the Outcome of ranks that had to be ended since none did a step for so long."""
        said, values = f"no step for {silent_s:.0f} s{self._where()}", Values(silent_s=silent_s, during=self.stage)
        return Outcome(Status.TIMED_OUT, said, self._traceback(), Reason.HUNG, values)

    def died(self, wrong: str | None) -> Outcome:
        """Return the Outcome of a process that ended without its last event. `wrong`: its signal or exit code."""
        if wrong != _KILLED:
            said = f"{wrong or _LEFT}{self._where()}" + (", before it finished" if wrong in (None, _LEFT) else "")
            return Outcome(Status.CRASHED, said, self._traceback())
        struck = self._struck()
        if struck:
            return Outcome(Status.OUT_OF_MEMORY, f"killed {_KERNEL}{self._where()}")
        who = "not " if struck is False else "by kill -9 from outside, or "
        return Outcome(Status.CRASHED, f"{_KILLED}{self._where()}, {who}{_KERNEL}")

    def said(self, outcome: Outcome) -> Outcome:
        """Return the Outcome of a trial that said how it ended."""
        if outcome.status == Status.CRASHED and outcome.reason == Reason.LOADER_KILLED and self._struck():
            said = f"a DataLoader worker was killed {_KERNEL}"
            return msgspec.structs.replace(outcome, status=Status.OUT_OF_MEMORY, message=said)
        wrong = outcome.values.get("wrong", ENDED) if outcome.reason == Reason.RANK_DIED else ENDED
        if wrong != ENDED:
            died, rank = self.died(str(wrong)), outcome.values["rank"]
            told = {"rank": rank}  # without `wrong`: of another node, this one here has nothing to add
            return msgspec.structs.replace(
                died, message=f"rank {rank}: {died.message}", reason=outcome.reason, values=told
            )
        return outcome

    def _struck(self) -> bool | None:
        """Say whether the OOM killer has killed a process since; None where the kernel does not count."""
        now = oom_kills()
        if not now or len(now) != len(self._kills):
            return None
        return any(after > before for before, after in zip(self._kills, now, strict=True))

    def _where(self) -> str:
        during = f" during {self.stage}" if self.stage else ""
        if (rank := self._rank()) is not None:
            said = self._by_rank()[rank].strip()
            during += f" in {rank}" + (f": {said}" if said.startswith(SILENT) else "")
        return during + place(reversed(self._frames()))  # the interpreter writes its innermost frame first

    def _rank(self) -> str | None:
        """Return the rank that the others wait for, where ranks were asked.

        One that does not answer, else the only one whose stack has the user's own frames and ends in no collective.
        """
        parts = self._by_rank()
        silent = [rank for rank, part in parts.items() if part.lstrip().startswith(SILENT)]
        frames = {rank: frames_in(part) for rank, part in parts.items()}
        busy = [
            rank
            for rank, found in frames.items()
            if any(is_own(file) for file, *_ in found) and _COLLECTIVES not in found[0][0]
        ]
        at_fault = silent or busy
        return at_fault[0] if len(at_fault) == 1 else None

    def _by_rank(self) -> Mapping[str, str]:
        parts: dict[str, list[str]] = {}
        rank = None
        for line in self.stack:
            if RANK.fullmatch(line.strip()):
                rank = line.strip()
            elif rank is not None:
                parts.setdefault(rank, []).append(line)
        return {rank: "\n".join(lines) for rank, lines in parts.items()}

    def _traceback(self) -> str | None:
        shown = [frame for frame in self._frames() if is_own(frame[0])] or self._frames()[:3]
        lines = [f'  File "{file}", line {line}, in {function}' for file, line, function in reversed(shown)]
        return "\n".join(lines) or None

    def _frames(self) -> Sequence[tuple[str, int, str]]:
        """Return the frames of the thread it ended in; if none of these is the user's, those of all threads."""
        rank = self._rank()
        text = "\n".join(self.stack) if rank is None else self._by_rank()[rank]
        current = text.partition("Current thread")[2].partition("\n\n")[0]
        frames = frames_in(current)
        return frames if any(is_own(file) for file, _, _ in frames) else frames_in(text)
