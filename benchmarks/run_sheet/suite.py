"""D3: the unit and contract tests on the machine with the device: those that take a machine without one for granted.

The suite's own pins (plug-ins, least versions, warnings as errors) are for its own environment: here they would say
nothing of the device, and are left out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from run_sheet.here import Here, NotHere

ROOT = Path(__file__).resolve().parents[2]
_QUICK = ("tests/unit/plugins/devices", "tests/unit/plugins/telemetry", "tests/contract/test_devices.py")
_FIRST = ("tests/unit/plugins", "tests/unit/execution", "tests/contract")  # what touches torch and devices most
_MOST_S = 160.0  # below the step's own limit: what was counted by then is told
# With xdist the word stands before the test, without it behind.
_TOLD = re.compile(r"^(?:\[gw\d+\] .*?(?P<word>PASSED|FAILED|ERROR|SKIPPED) (?P<name>\S+)"
                   r"|(?P<first>tests/\S+) (?P<last>PASSED|FAILED|ERROR|SKIPPED)\b)")  # fmt: skip
_ABSENT = re.compile(r"No module named '([\w.]+)'")


def run(here: Here) -> None:
    """Note how many tests passed and failed, and the names of those that failed."""
    if find_spec("pytest") is None:
        raise NotHere("pytest is not installed")
    if not (ROOT / "tests").is_dir():
        raise NotHere(f"there are no tests in {ROOT}: the tree was unpacked without them")
    report = here.folder / "tests.xml"
    folders = [str(ROOT / path) for path in (_QUICK if here.quick else whole(ROOT))]
    done = here.python(*words(folders, report), limit_s=_MOST_S, more={"PYTHONDONTWRITEBYTECODE": "1"})
    here.note("exit_code", done.code)
    if report.is_file():
        told = counted(report)
    elif any(map(_TOLD.match, done.out.splitlines())):  # its report is written at the end, which it did not reach
        told = so_far(done.out)
        here.note("cut", f"after {done.took_s:.0f} s")
    else:
        raise RuntimeError(f"pytest wrote no report: {done.last_line}")
    for name in ("passed", "failed", "skipped", "without_a_library"):
        here.note(name, told[name])
    here.note("failures", "; ".join(told["failures"]) or "none")
    here.note("libraries_absent", ", ".join(told["absent"]) or "none")


def whole(root: Path) -> list[str]:
    """Return the folders of the unit and contract tests, those first that a device concerns: a run may be cut."""
    others = (f"tests/unit/{path.name}" for path in sorted((root / "tests/unit").iterdir()) if path.is_dir())
    return [*_FIRST, *(folder for folder in others if folder not in _FIRST and not folder.endswith("__"))]


def so_far(out: str) -> Mapping[str, Any]:
    """Return what the lines of a run that was cut count, as `counted` does. A library that is lacking shows as failed.

    A name is told once: pytest names those that failed again at its end.
    """
    ends: dict[str, str] = {}
    for line in out.splitlines():
        if (told := _TOLD.match(line)) is not None:
            ends.setdefault(told["name"] or told["first"], told["word"] or told["last"])
    failures = [name for name, end in ends.items() if end in ("FAILED", "ERROR")]
    return {
        "passed": sum(end == "PASSED" for end in ends.values()), "failed": len(failures),
        "skipped": sum(end == "SKIPPED" for end in ends.values()), "without_a_library": 0,
        "failures": failures[:60], "absent": [],
    }  # fmt: skip


def words(folders: Sequence[str], report: Path) -> list[str]:
    """Return how pytest is called: in as many processes as there are cores, where xdist is there."""
    asked = [
        "-m", "pytest", *folders, "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), "-v", "-p",
        "no:cacheprovider", "-m", "not alone and not long", "--junitxml", str(report),
        "--continue-on-collection-errors", "-o", "minversion=6.0", "-o", "filterwarnings=", "-o", "junit_family=xunit2",
    ]  # fmt: skip
    if find_spec("xdist") is not None:
        asked += ["-n", str(max(1, (os.cpu_count() or 2) // 2)), "--dist", "loadgroup"]
    return asked


def counted(report: Path) -> Mapping[str, Any]:
    """Return what a JUnit report counts. A file that cannot be collected for want of a library is no failure."""
    tree = ElementTree.parse(report)
    passed, skipped = 0, 0
    failures: list[str] = []
    absent: dict[str, int] = {}
    for case in tree.iter("testcase"):
        wrong = [*case.findall("failure"), *case.findall("error")]
        if case.find("skipped") is not None:
            skipped += 1
        elif not wrong:
            passed += 1
        elif (lacking := _ABSENT.search(wrong[0].text or wrong[0].get("message") or "")) and _is_absent(lacking[1]):
            absent[lacking[1]] = absent.get(lacking[1], 0) + 1
        else:
            failures.append(f"{case.get('classname', '')}::{case.get('name', '')}".removeprefix("::"))
    return {
        "passed": passed, "failed": len(failures), "skipped": skipped, "without_a_library": sum(absent.values()),
        "failures": failures[:60], "absent": sorted(absent),
    }  # fmt: skip


def _is_absent(module: str) -> bool:
    try:
        return find_spec(module) is None
    except (ImportError, ValueError):  # its parent is absent
        return True
