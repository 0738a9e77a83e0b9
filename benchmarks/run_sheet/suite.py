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
_WHOLE = ("tests/unit", "tests/contract")
_ABSENT = re.compile(r"No module named '([\w.]+)'")


def run(here: Here) -> None:
    """Note how many tests passed and failed, and the names of those that failed."""
    if find_spec("pytest") is None:
        raise NotHere("pytest is not installed")
    if not (ROOT / "tests").is_dir():
        raise NotHere(f"there are no tests in {ROOT}: the tree was unpacked without them")
    report = here.folder / "tests.xml"
    folders = [str(ROOT / path) for path in (_QUICK if here.quick else _WHOLE)]
    done = here.python(*words(folders, report), limit_s=None, more={"PYTHONDONTWRITEBYTECODE": "1"})
    here.note("exit_code", done.code)
    if not report.is_file():
        raise RuntimeError(f"pytest wrote no report: {done.last_line}")
    told = counted(report)
    for name in ("passed", "failed", "skipped", "without_a_library"):
        here.note(name, told[name])
    here.note("failures", "; ".join(told["failures"]) or "none")
    here.note("libraries_absent", ", ".join(told["absent"]) or "none")


def words(folders: Sequence[str], report: Path) -> list[str]:
    """Return how pytest is called: in as many processes as there are cores, where xdist is there."""
    asked = [
        "-m", "pytest", *folders, "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), "-q", "-p",
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
