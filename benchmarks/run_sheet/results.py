"""What came of each step, in one JSON file that is written anew after each, and the table that is read from it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from run_sheet.expecting import Figure, Judged, Verdict, judge
from run_sheet.step import Step

SCHEMA = 1
JSON, TABLE = "sheet.json", "sheet.md"
ENDS = "the step comes to its end"  # what is expected of each, said where it does not
MOST_ATTEMPTS = 2  # of a step that ends with the whole program each time: it may be what ends it


class State(StrEnum):
    """How a step ended, or that it has not."""

    BEGUN = "begun"  # it is being taken, or the program was killed while it was
    DONE = "done"
    NOT_HERE = "not here"
    CUT = "cut"  # by whoever stopped the program, or by the end of the part's time: it is taken again
    TOO_LONG = "too long"
    OUT_OF_MEMORY = "out of memory"
    CRASHED = "crashed"
    NO_ANSWER = "no answer"
    WRONG_ANSWER = "wrong answer"


_OPEN = (State.BEGUN, State.CUT)


@dataclass
class Taken:
    """One step as it was taken. `figures` are there however it ended; `before`: figures of attempts that were cut."""

    state: State
    began_utc: str
    attempts: int = 1
    took_s: float | None = None
    why: str | None = None
    figures: dict[str, Figure] = field(default_factory=dict)
    before: list[dict[str, Figure]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)  # the last lines it wrote


@dataclass
class Sheet:
    """The results of one device in one folder. Read with `opened`, changed through `begin`, `end` and `leave_out`."""

    folder: Path
    device: str
    quick: bool
    about: dict[str, Figure] = field(default_factory=dict)
    steps: dict[str, Taken] = field(default_factory=dict)

    def wants(self, step: Step) -> bool:
        """Say whether a step is still to be taken."""
        taken = self.steps.get(step.id)
        return taken is None or (taken.state in _OPEN and taken.attempts < MOST_ATTEMPTS)

    def begin(self, step: Step) -> None:
        """Write down that a step begins, so that a kill of this very program is known afterwards."""
        old = self.steps.get(step.id)
        taken = Taken(State.BEGUN, _now())
        if old is not None:
            taken.attempts = old.attempts + 1
            taken.before = [*old.before, old.figures] if old.figures else old.before
        self.steps[step.id] = taken
        self.write()

    def end(self, step: Step, state: State, took_s: float, figures: Mapping[str, Figure], why: str | None) -> None:
        """Write down how it ended and what it measured."""
        taken = self.steps[step.id]
        taken.state, taken.took_s, taken.why = state, round(took_s, 2), why
        taken.figures = dict(figures)
        for name in ("device_name", "torch", "driver", "transformers"):
            if isinstance(value := figures.get(name), str):
                self.about[name] = value
        self.write()

    def leave_out(self, step: Step, why: str) -> None:
        """Write down that a step makes no sense here."""
        self.steps[step.id] = Taken(State.NOT_HERE, _now(), attempts=0, why=why)
        self.write()

    def forget(self, step_id: str) -> None:
        """Have a step taken again, as if it had never been."""
        self.steps.pop(step_id, None)

    def failed(self, step: Step) -> bool:
        """Say whether a step was taken, and an expectation of it does not hold."""
        return step.id in self.steps and any(row.verdict in _BAD for row in self.rows(step))

    def is_fine(self, steps: Sequence[Step]) -> bool:
        """Say whether each step was taken or makes no sense here, and each of its expectations holds."""
        return all(row.verdict not in (*_BAD, Verdict.OPEN) for step in steps for row in self.rows(step))

    def rows(self, step: Step) -> list[Judged]:
        """Return what is said of a step: one row an expectation, and one for an end that was none of the good ones."""
        taken = self.steps.get(step.id)
        if taken is None:
            return [Judged(step.what, "–", Verdict.OPEN)]
        if taken.state == State.NOT_HERE:
            return [Judged(step.what, taken.why or "", Verdict.NOT_HERE)]
        told = judge(step.expects, taken.figures, self.device, str(self.about.get("device_name", "")))
        if taken.state == State.DONE:
            return told or [Judged(step.what, "–", Verdict.OK)]
        how = f"{taken.state}{f': {taken.why}' if taken.why else ''}"
        again = taken.state in _OPEN and taken.attempts < MOST_ATTEMPTS
        kept = [row for row in told if row.verdict != Verdict.NO_FIGURE]
        return [Judged(ENDS, how, Verdict.OPEN if again else Verdict.FAILED), *kept]

    def write(self) -> None:
        """Write the JSON whole or not at all: a kill at any moment leaves the old one or the new one."""
        told = {
            "schema": SCHEMA, "device": self.device, "quick": self.quick, "written_utc": _now(), "about": self.about,
            "steps": {name: asdict(taken) for name, taken in self.steps.items()},
        }  # fmt: skip
        _replace(self.folder / JSON, json.dumps(told, indent=1, ensure_ascii=False) + "\n")

    def write_table(self, steps: Sequence[Step]) -> Path:
        """Write the table, and return where it is."""
        path = self.folder / TABLE
        _replace(path, "\n".join(_table(self, steps)) + "\n")
        return path


_BAD = (Verdict.FAILED, Verdict.NO_FIGURE)


class Unfit(Exception):
    """What lies in the folder is of another device, or no results at all."""


def opened(folder: Path, device: str, *, quick: bool) -> Sheet:
    """Return what a folder holds, or an empty sheet. Raises Unfit where it is not of this device, or cannot be read."""
    path = folder / JSON
    if not path.exists():
        return Sheet(folder, device, quick)
    try:
        told: Any = json.loads(path.read_text(encoding="utf-8"))
        was = (told["schema"], told["device"], told["quick"])
        steps = {str(name): _taken(one) for name, one in told["steps"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Unfit(f"{path} is no result of this program ({type(error).__name__}: {error})") from None
    if was != (SCHEMA, device, quick):
        words = f"--device {was[1]}{' --quick' * bool(was[2])}"
        raise Unfit(f"{path} is of {words} (schema {was[0]})")
    return Sheet(folder, device, quick, dict(told.get("about", {})), steps)


def _taken(told: dict[str, Any]) -> Taken:
    return Taken(**{**told, "state": State(told["state"])})


def _replace(path: Path, text: str) -> None:
    beside = path.with_suffix(path.suffix + ".writing")
    with beside.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _table(sheet: Sheet, steps: Sequence[Step]) -> Iterator[str]:
    told = ", ".join(f"{name} {value}" for name, value in sheet.about.items() if name != "device_name")
    yield f"# {sheet.about.get('device_name', sheet.device)}, {_now()[:10]}"
    yield ""
    yield f"--device {sheet.device}{' --quick' * sheet.quick}{f'; {told}' if told else ''}"
    yield ""
    yield "| step | expectation | figure | verdict |"
    yield "|---|---|---|---|"
    for step in steps:
        taken = sheet.steps.get(step.id)
        name = step.id if taken is None or taken.took_s is None else f"{step.id} ({taken.took_s:.0f} s)"
        for row in sheet.rows(step):
            yield f"| {name} | {_cell(row.says)} | {_cell(row.figure)} | {row.verdict} |"
            name = ""


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
