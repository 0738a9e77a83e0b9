"""Verify reports and releases: compute every figure, verdict and text again from the record that they carry.

torchstone verify report.html
torchstone verify release-folder release.zip
"""

from __future__ import annotations

import argparse
from pathlib import Path

from torchstone.cli._parsing import add_json
from torchstone.core.errors import ExitCode


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of verify."""
    parser.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help="an HTML report, a folder or zip of `torchstone release`"
    )
    parser.add_argument("--full", action="store_true", help="print everything that does not follow")
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Verify each, say what does not follow; return 1 if there is anything, 4 if something could not be compared."""
    from torchstone.cli._stored import document_of
    from torchstone.report.bundle import read_bundle
    from torchstone.report.several import document_again
    from torchstone.report.verification import verify

    verified = [
        verify(read_bundle(path), lambda summary: document_of(summary, every=True, pictures=True), document_again)
        for path in options.files
    ]
    if options.json:
        from torchstone.cli._json import print_json

        print_json({"files": verified})
    else:
        from torchstone.cli._render import show_document
        from torchstone.report.documents.verification import verification_document

        for one in verified:
            show_document(verification_document(one), every=options.full)
    if any(one.faults for one in verified):
        return ExitCode.NO
    return ExitCode.FAILED if any(one.uncompared for one in verified) else ExitCode.DONE
