"""List the SHA-256 of all files of a folder in its SHA256SUMS, or check the folder against it.

torchstone manifest results             (then anywhere: cd results && sha256sum -c SHA256SUMS)
torchstone manifest results --verify
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from torchstone.core.errors import ExitCode
from torchstone.core.units import plain

_MOST = 20  # faults that are named


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of manifest."""
    parser.add_argument("folder", type=Path, metavar="DIR", help="the folder, with all folders in it")
    parser.add_argument(
        "--verify", action="store_true", help="write nothing; exit 1 if a file is changed, missing or not listed"
    )


def run(options: argparse.Namespace) -> int:
    """Write the manifest, or say on stderr what does not agree with it."""
    from torchstone.storage.manifest import MANIFEST, check_folder, write_manifest

    if not options.verify:
        path, count = write_manifest(options.folder)
        print(f"{path}: {count} file{'s' * (count != 1)}")
        return ExitCode.DONE
    faults, count = check_folder(options.folder)
    for fault in faults[:_MOST]:
        print(plain(f"torchstone: {fault}"), file=sys.stderr)
    if len(faults) > _MOST:
        print(f"torchstone: {len(faults) - _MOST} more", file=sys.stderr)
    if not faults:
        print(plain(f"{options.folder / MANIFEST}: {count} file{'s' * (count != 1)} unchanged"))
    return ExitCode.NO if faults else ExitCode.DONE
