"""What is here: host, devices, software, settings."""

from __future__ import annotations

import argparse


def run(options: argparse.Namespace) -> int:
    """Print the Machine."""
    from torchstone.core.schema.procedure import Procedure
    from torchstone.execution.controller.session import Session

    with Session(Procedure(isolation="spawn"), ()) as session:
        machine, found = session.inspect()
    if options.json:
        from torchstone.cli._json import print_json

        print_json({"machine": machine, "missing": found.missing})
        return 0
    from torchstone.cli._render import show_document
    from torchstone.report.documents.machine import machine_document

    show_document(machine_document(machine, found.missing))
    return 0
