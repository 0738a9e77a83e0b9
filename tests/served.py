"""Runs `torchstone serve` in a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple


class Served(NamedTuple):
    """Where it answers, with its token where it printed one, and its process."""

    address: str
    process: subprocess.Popen[str]


@contextmanager
def served(folder: Path, *options: str) -> Iterator[Served]:
    """Serve a store on a free port until the block ends; then it has to end by itself at Ctrl-C, with 0."""
    command = [sys.executable, "-m", "torchstone", "serve", "--port", "0", "--output-dir", str(folder), *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line.startswith("http://"), line + (process.stderr.read() if process.stderr else "")
        yield Served(line.split()[0], process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
        assert (process.returncode, err) == (0, ""), out + err
    finally:
        process.kill()
        process.communicate()
