"""Verify reports and releases: make them again from the record that they carry, and name what does not follow from it.

torchstone verify report.html --output mine.html
torchstone verify release-folder release.zip
"""

from __future__ import annotations

import argparse
from pathlib import Path

from torchstone.cli._output import add_json, document_of, print_json, show_document
from torchstone.core.errors import ExitCode, UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of verify."""
    parser.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help="an HTML report, a folder or zip of `torchstone release`"
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="PATH",
        help="where to write what the record gives: the page, or the folder or zip of a release. Look at this one",
    )
    parser.add_argument("--open", action="store_true", help="open the page that is written, in your browser")
    parser.add_argument("--full", action="store_true", help="print everything that does not follow")
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Verify each, say what does not follow; return 1 if there is anything, 4 if something could not be compared."""
    from torchstone.report.bundle import read_bundle
    from torchstone.report.release import check_output, write_verified
    from torchstone.report.several import document_again
    from torchstone.report.verification import verify

    if options.output is not None:
        if len(options.files) > 1:
            raise UsageError("--output takes one file: verify one at a time")
        check_output(options.output)
    elif options.open:
        raise UsageError("--open opens what --output writes: add --output PATH")
    verified, written = [], None
    for path in options.files:
        found, made = verify(
            read_bundle(path), lambda summary: document_of(summary, every=True, pictures=True), document_again
        )
        verified.append(found)
        if options.output is not None and made:
            written = write_verified(made, options.output)
            if options.open:
                import webbrowser

                webbrowser.open(written.absolute().as_uri())
    if options.json:
        print_json({"files": verified})
    else:
        from torchstone.report.verification import verification_document

        for one in verified:
            show_document(verification_document(one, written), every=options.full)
    if any(one.faults for one in verified):
        return ExitCode.NO
    return ExitCode.FAILED if any(one.uncompared for one in verified) else ExitCode.DONE
