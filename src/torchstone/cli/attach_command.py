"""Find what slows a training that is running: the lines of its script, sampled from outside for half a minute.

torchstone attach 4242
torchstone attach 4242 --for 60s
"""

from __future__ import annotations

import argparse
import sys

from torchstone.cli._output import add_json
from torchstone.cli._place import add_folder, folder_of, writable
from torchstone.cli._run_options import positive_s
from torchstone.core.errors import ExitCode, UsageError

_USUAL_S, _MOST_S = 30.0, 60.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of attach."""
    parser.add_argument("pid", type=int, metavar="PID", help="process of the program, of torchrun or of its shell")
    parser.add_argument("--for", dest="for_", metavar="T", help="how long to look at it (default 30s, at most 60s)")
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    add_json(parser)
    add_folder(parser)


def run(options: argparse.Namespace) -> int:
    """Look at the process, print what slows it, and record that."""
    from torchstone.cli._measuring import interruptible
    from torchstone.core.schema.diagnosis import Diagnosis
    from torchstone.core.units import plain
    from torchstone.report.documents.diagnosis import FILE, diagnosis_document
    from torchstone.report.rendering import write_markdown
    from torchstone.workflows.diagnose.attached_diagnosis import diagnosed

    for_s, folder = positive_s("--for", options.for_) or _USUAL_S, writable(folder_of(options))
    if for_s > _MOST_S:
        raise UsageError(f"--for {options.for_}: at most {_MOST_S:g}s")

    def say(line: str) -> None:
        if not options.quiet:
            print(plain(f"torchstone: {line}"), file=sys.stderr, flush=True)

    try:
        with interruptible():
            results = diagnosed(options.pid, for_s, folder, sys.argv[1:], say)
    except (KeyboardInterrupt, SystemExit):
        print("torchstone: interrupted", file=sys.stderr)
        return ExitCode.INTERRUPTED
    answer = results.summary.answer
    assert isinstance(answer, Diagnosis)
    page = folder / "diagnostics" / answer.run_id / FILE
    write_markdown(page, diagnosis_document(answer), folder)
    if options.json:
        from torchstone.cli._output import print_json, run_json

        print_json({**run_json(results.summary), "report": str(page)})
    else:
        from torchstone.cli._output import show_document
        from torchstone.report.documents.run import measured_document

        show_document(measured_document(results, page))
    return ExitCode.DONE
