"""Builds a Run from another tool's results: its machine as far as known, its cases, a trial for each."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import re
import stat
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Case, Placement, Task, Workload
from torchstone.core.schema.facts import Facts, merged
from torchstone.core.schema.machine import DeviceInfo, Host, Machine
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.run import IMPORTED, SCHEMA, End, Head, Plan, RequestSource, Run, Slot
from torchstone.core.schema.trial import Measurement, Outcome, Stage, Status, Trial

MOST_BYTES = 64 * 2**20  # JSON of nothing but empty lists takes 20 times as much in memory
MOST_ROWS = 100_000
_LONGEST = 200  # characters of a name; what is longer is no name
# No measurement in any unit lies beyond, and what lies within can be squared and divided without an overflow.
_LARGEST, _SMALLEST, _LARGEST_WHOLE = 1e30, 1e-30, 2**63


def bytes_of(path: Path) -> bytes:
    """Return what a file holds. Raises UsageError if it cannot be read, is no plain file, or is too large."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise UsageError(f"{path} is not a file")
        if found.st_size > MOST_BYTES:
            raise UsageError(f"{path}: {found.st_size} bytes exceeds the limit for imported files ({MOST_BYTES})")
        return path.read_bytes()
    except OSError as fault:
        raise UsageError(f"cannot read {path}: {fault.strerror}") from None


def text_of(path: Path) -> str:
    """Return a text file's text. Raises UsageError if it is not UTF-8."""
    try:
        return bytes_of(path).decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        raise UsageError(f"{path}: byte {fault.start} is not UTF-8") from None


def parsed(text: str, where: str) -> Any:
    """Return the value that JSON spells, NaN and Infinity among its numbers. Raises UsageError naming the place."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as fault:
        raise UsageError(f"{where}: is not JSON: {fault.msg} in line {fault.lineno}, column {fault.colno}") from None
    except (ValueError, RecursionError):
        raise UsageError(f"{where}: is nested too deeply, or has a number with thousands of digits") from None


def documents(text: str, where: str) -> list[Any]:
    """Return the value of a JSON text, or those of JSON lines, objects each. Raises UsageError naming the place."""
    first, _, rest = text.strip().partition("\n")
    if not (rest and first.startswith("{") and first.rstrip().endswith("}")):
        return [parsed(text, where)]
    found: list[Any] = []
    for place, line in enumerate(io.StringIO(text), 1):  # a list of all lines may take 20 times as much
        if place > MOST_ROWS:
            raise UsageError(f"{where}: more than {MOST_ROWS} lines")
        if line.strip():
            found.append(parsed(line, f"{where}:{place}"))
    return found


def csv_rows(text: str, where: str) -> list[dict[str, str]]:
    """Return the rows of a CSV file with a header, names and values stripped. Raises UsageError naming the row.

    Empty lines are passed over, and count as rows against the bound.
    """
    try:
        # Line by line: a list of all lines may take 20 times as much.
        lines = csv.reader(io.StringIO(text, newline=""), strict=True)
        header = [name.strip() for name in next(lines, [])]
        rows: list[dict[str, str]] = []
        for number, cells in enumerate(lines, 2):
            if number > MOST_ROWS + 1:
                raise UsageError(f"{where}: more than {MOST_ROWS} rows")
            if not cells:
                continue
            if len(cells) > len(header):
                raise UsageError(f"{where}:{number}: {len(cells)} cells under {len(header)} names")
            rows.append(dict(zip(header, (cell.strip() for cell in cells), strict=False)))
    except csv.Error as fault:
        raise UsageError(f"{where}: not CSV: {fault}") from None
    return rows


def table_of(path: Path, text: str, columns: Collection[str]) -> list[dict[str, str]]:
    """Return the rows of a CSV file. Raises UsageError where there are none, or not these columns."""
    rows = csv_rows(text, str(path))
    if not rows or not rows[0].keys() >= set(columns):
        raise UsageError(f"{path}: no rows, or no known columns")
    return rows


def header_of(beginning: bytes) -> frozenset[str]:
    """Return the names in the first line of a CSV file; none for a table of torchstone's own: its record says more."""
    line = beginning.split(b"\n", 1)[0].decode("utf-8-sig", "replace")
    names = frozenset(name.strip() for name in line.split(","))
    return frozenset() if {"run_id", "case_id"} <= names else names


def number(value: object) -> float | None:
    """Return a number, or a text that spells one, as a float; None for all else.

    NaN for what is infinite, or too large to be a measurement in any unit; 0 for what is as small.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    if not abs(found) <= _LARGEST:
        return math.nan
    return found if abs(found) >= _SMALLEST else 0.0


def whole(value: object) -> int | None:
    """Return a number that is whole, as an int of 64 bits; None for all else."""
    found = number(value)
    known = found is not None and abs(found) < _LARGEST_WHOLE and found == int(found)
    return int(found) if found is not None and known else None


def word(value: object) -> str | None:
    """Return a name: text that is not empty, cut where it is too long to be one, as UTF-8 can spell it."""
    if not isinstance(value, str):
        return None
    return value.strip()[:_LONGEST].encode("utf-8", "backslashreplace").decode("utf-8") or None


def part(value: object, *keys: str) -> Mapping[str, Any]:
    """Return the object that lies under these keys, or an empty one."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def listed(value: object) -> list[Any]:
    """Return a list, or an empty one."""
    return value if isinstance(value, list) else []


def numbers(values: object) -> tuple[float, ...]:
    """Return a list of numbers; empty if it is none, or one of its values is not a number."""
    if not isinstance(values, list):
        return ()
    found = [number(value) for value in values]
    return tuple(v for v in found if v is not None) if None not in found else ()


def scaled(value: object, factor: float) -> float | None:
    """Return a number times a factor; None for what is no number."""
    found = number(value)
    return None if found is None else found * factor


def figures_of(record: Mapping[str, Any], table: Aliases) -> dict[str, float | None]:
    """Return each figure of a table of aliases, in its unit: the first name there that has a number."""
    return {
        figure: next((v for name in names if (v := scaled(record.get(name), factor)) is not None), None)
        for figure, (factor, *names) in table.items()
    }


def sha256_of(data: bytes | str) -> str:
    """Return the SHA-256 of what was read."""
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


Aliases = Mapping[str, tuple[float, *tuple[str, ...]]]  # figure → its unit there, and the names that tools have for it
UNKNOWN = "unknown"
# Where tools say which software it was.
_SOFTWARE = {"torch": ("torch_version", "pytorch_version"), "python": ("python_version",), "cuda": ("cuda_version",)}
_IN_A_NAME = re.compile(r"(20\d{6})[_-](\d{6})")
_VENDORS = {"cuda": "NVIDIA", "rocm": "AMD", "mps": "Apple", "xpu": "Intel"}
_PRECISIONS = {
    "fp32": ("float32", "fp32"),
    "tf32": ("tf32", "tfloat32"),
    "fp16": ("float16", "fp16", "half", "amp"),
    "bf16": ("bfloat16", "bf16", "amp_bf16", "amp_bfloat16"),
}


class Draft:
    """Collects the trials of one run. `tool`: who wrote it, with its version; `sha256`: of what was read."""

    def __init__(self, tool: str, path: Path, sha256: str, machine: Machine, started: object = None) -> None:
        self._tool, self._path, self._sha256, self._machine = tool, path, sha256, machine
        self._started = moment(started) or moment(path.name) or _written(path)
        self._cases: dict[str, Case] = {}
        self._trials: list[Trial] = []
        self._taken: Counter[str] = Counter()

    def add(
        self,
        case: Case,
        claimed: Mapping[str, float | None],
        measured: Sequence[Measurement] = (),
        facts: Facts | None = None,
        outcome: Outcome | None = None,
    ) -> None:
        """Add a trial of a Case. `claimed`: by figure, in its unit; None is what the file does not say.

        Raises UsageError if there are more than a file may have.
        """
        known = {name: float(value) for name, value in claimed.items() if value is not None}
        place, case_id = len(self._trials), case.case_id
        if place >= MOST_ROWS:
            raise UsageError(f"{self._path}: more than {MOST_ROWS} results")
        about = Facts(str(case.workload.task), case.placement.device, imported_from=self._tool, claimed=known)
        number = self._taken[case_id]
        self._taken[case_id] += 1
        self._cases.setdefault(case_id, case)
        self._trials.append(
            Trial(
                f"t{place}",
                case_id,
                number,
                place,
                self._started,
                0.0,
                outcome or Outcome(Status.OK),
                merged(about, facts or Facts()),
                tuple(m for m in measured if m.values),
            )
        )

    def run(self, name: str | None = None) -> Run:
        """Return the run. Its id is made of when it began and of what was read: the same file is the same run."""
        cases = tuple(self._cases.values())
        places = {case_id: place for place, case_id in enumerate(self._cases)}
        slots = tuple(Slot(places[trial.case_id], trial.number) for trial in self._trials)
        repeats = max(self._taken.values(), default=0)
        began = datetime.fromisoformat(self._started).strftime("%Y%m%d-%H%M%S")
        head = Head(
            SCHEMA,
            f"{began}-{self._sha256[:8]}",
            name or self._path.stem,
            self._started,
            ("import", self._path.name),
            self._machine,
            _procedure(repeats),
            Plan(cases, slots),
            RequestSource(self._path.name, self._sha256),
        )
        return Run(head, tuple(self._trials), (), End(self._started, "done"))


def _procedure(repeats: int) -> Procedure:
    """Return how it was measured, as far as that is known: by another tool, so often."""
    return Procedure(
        trials=repeats,
        warmup_budget_s=0.0,
        target=None,
        budget_s=0.0,
        min_steps=0,
        isolation=IMPORTED,
        heap=UNKNOWN,
        settings=None,
        telemetry_period_s=0.0,
        count_flops=False,
        phases=False,
    )


def a_case(
    task: Task,
    model: str,
    settings: Mapping[str, Scalar],
    placement: Placement,
    *,
    item: str = "sample",
    data: str = UNKNOWN,
    family: str | None = None,
) -> Case:
    """Return a Case; settings that the file does not say are left out of its Configuration."""
    known = {k: v for k, v in settings.items() if v is not None}
    return Case(Workload(task, model, data, item, family), known, placement)


def a_machine(
    about: Mapping[str, Any] = {},
    devices: Sequence[DeviceInfo] = (),
    memory_bytes: float | None = None,
    software: Mapping[str, str | None] | None = None,
) -> Machine:
    """Return a Machine with what is known of it: `about` by the names that most tools have."""
    memory = int(memory_bytes) if memory_bytes and 0 < memory_bytes < 2**60 else None
    host, platform, processor = (word(about.get(name)) for name in ("hostname", "platform", "processor"))
    told = {name: next(filter(None, (word(about.get(key)) for key in keys)), None) for name, keys in _SOFTWARE.items()}
    known = {name: version for name, version in {**told, **(software or {})}.items() if version is not None}
    where = Host(host or UNKNOWN, platform or UNKNOWN, processor, None, whole(about.get("cpu_count")), memory)
    return Machine(where, tuple(devices), known, {})


def a_device(
    kind: str, index: int, name: str | None, memory_bytes: float | None = None, capability: str | None = None
) -> DeviceInfo:
    """Return a device as the file names it; "unknown" where it does not."""
    memory = int(memory_bytes) if memory_bytes and 0 < memory_bytes < 2**62 else None
    torch_kind = "cuda" if kind == "rocm" else kind
    return DeviceInfo(kind, torch_kind, _VENDORS.get(kind, UNKNOWN), index, name or UNKNOWN, memory, capability)


def placement_from(device: object, *, amd: bool = False) -> Placement:
    """Return the Placement that `cuda`, `cuda:1`, `cpu`, … means; a GPU of AMD's is torch's cuda too."""
    kind, _, index = str(device or "cpu").lower().partition(":")
    kind = {"gpu": "cuda", "hip": "rocm"}.get(kind, kind)
    if kind not in (*_VENDORS, "cpu"):
        kind = "cpu"
    return Placement(
        "rocm" if kind == "cuda" and amd else kind, int(index) if index.isdigit() and len(index) < 4 else 0
    )


def precision_of(said: object) -> str | None:
    """Return our word for a number format of another tool's; None where it has none."""
    name = str(said).removeprefix("torch.").lower()
    return next((ours for ours, names in _PRECISIONS.items() if name in names), None)


def steady_values(metric: str, values: Sequence[float], window: str | None = None) -> Measurement:
    """Return raw steady values."""
    return Measurement(metric, Stage.STEADY, tuple(values), window)


def closed_loop(values: Sequence[float], items: float | None) -> list[Measurement]:
    """Return a latency window of these answers, each of so many items (None: the file does not say).

    Its time is theirs: more is not known.
    """
    return _window("latency_s", values, items, "latency")


def back_to_back(values: Sequence[float], items: float | None) -> list[Measurement]:
    """Return a throughput window of these steps, each of so many items (None: the file does not say)."""
    return _window("step_time_s", values, items, "throughput")


def _window(metric: str, values: Sequence[float], items: float | None, name: str) -> list[Measurement]:
    return [
        steady_values(metric, values, name),
        steady_values("items", [items] * len(values) if items is not None else (), name),
        steady_values("window_time_s", [sum(values)] if values else (), name),
    ]


def moment(said: object) -> str | None:
    """Return a moment as ISO 8601, from such a text or from a file name that holds 20250302_123456."""
    if not isinstance(said, str):
        return None
    if (found := _IN_A_NAME.search(said)) is not None:
        said = f"{found[1]}T{found[2]}"
    try:
        when = datetime.fromisoformat(said.strip())
        return (when.astimezone(UTC) if when.tzinfo else when.replace(tzinfo=UTC)).isoformat(timespec="seconds")
    except (ValueError, OverflowError):  # OverflowError: a moment of the year 1, before it was that in Greenwich
        return None


def _written(path: Path) -> str:
    return datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="seconds")
