"""One step in its own process: `python -m run_sheet.one_step ID MODULE:FUNCTION --device D --folder DIR`.

What it tells goes line by line into answers.jsonl of its folder, flushed, so that whoever ends it keeps what was told:
{"figure": name, "value": …}, then {"end": true}, or {"not_here": why}, or {"failed": how, "why": …}.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import signal
import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from run_sheet.here import Here, NotHere, Refused


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("id")
    parser.add_argument("do", metavar="MODULE:FUNCTION")
    parser.add_argument("--device", required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--parent", type=int, required=True, help="process that is to be outlived by no second")
    parser.add_argument("--isolation")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    end_with(options.parent)
    with (options.folder / "answers.jsonl").open("a", encoding="utf-8") as answers:
        here = Here(
            options.device, options.quick, options.isolation, options.folder,
            lambda name, value: tell(answers, {"figure": name, "value": value}),
        )  # fmt: skip
        try:
            module, _, name = options.do.partition(":")
            getattr(import_module(module), name)(here)
        except NotHere as why:
            tell(answers, {"not_here": str(why)})
            return 0
        except BaseException as error:
            if not isinstance(error, Refused):  # what a command said is its own, and a traceback of ours tells no more
                traceback.print_exc()
            tell(answers, {"failed": ended_how(error), "why": _one_line(error)})
            return 1
        tell(answers, {"end": True})
    return 0


def tell(answers: IO[str], line: dict[str, Any]) -> None:
    """Write one line, and have it leave this process before anything else happens."""
    answers.write(json.dumps(line, allow_nan=True) + "\n")
    answers.flush()


def ended_how(error: BaseException) -> str:
    """Return `out of memory` for what torch, a driver and the interpreter raise then, `crashed` for all else."""
    words = str(error).lower()
    is_memory = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return "out of memory" if is_memory or "out of memory" in words else "crashed"


def end_with(parent: int) -> None:
    """Have the kernel end this process with the one that started it."""
    if sys.platform == "linux":
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


def _one_line(error: BaseException) -> str:
    first = (str(error).strip() or type(error).__name__).splitlines()[0]
    return f"{type(error).__name__}: {first}"[:300]


if __name__ == "__main__":
    sys.exit(main())
