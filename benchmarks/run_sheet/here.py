"""What a step is given: the device, a folder, a place for figures, and the commands of torchstone."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from run_sheet.expecting import Figure


class NotHere(Exception):
    """A step makes no sense on this machine: the message says what it lacks."""


class Refused(Exception):
    """A command did not do what it was asked: the message is its last line on stderr."""


@dataclass(frozen=True)
class Done:
    """A command that has ended: its exit code, what it printed, and how long it took."""

    words: tuple[str, ...]
    code: int
    out: str
    err: str
    took_s: float

    @property
    def command(self) -> str:
        """What was called, in a few words: without the interpreter, and without what it was asked in detail."""
        module = self.words.index("-m") + 1 if "-m" in self.words else 0
        said = self.words[module : module + 4]
        return " ".join(said) + " …" * (len(self.words) > module + 4)

    @property
    def last_line(self) -> str:
        """The last line it wrote on stderr, or on stdout where that is empty."""
        lines = [line for line in (self.err.strip() or self.out.strip()).splitlines() if line.strip()]
        return lines[-1].strip() if lines else f"exit code {self.code}"

    def document(self) -> dict[str, Any]:
        """Return the JSON document it printed. Raises Refused where there is none."""
        try:
            told: Any = json.loads(self.out)
        except ValueError:
            told = None
        if not isinstance(told, dict):
            raise Refused(f"{self.command} printed no document and ended with {self.code}: {self.last_line}")
        return told


@dataclass(frozen=True)
class Here:
    """One step's surroundings. `tell` writes a figure down at once; `isolation`: how trials start; None: as they do."""

    device: str
    quick: bool
    isolation: str | None
    folder: Path
    tell: Callable[[str, Figure], None]

    @property
    def torch_kind(self) -> str:
        """What torch calls that kind of device: AMD's are cuda to it."""
        return "cuda" if self.device == "rocm" else self.device

    @property
    def on_cpu(self) -> bool:
        """Whether the sheet runs on the host alone."""
        return self.device == "cpu"

    def note(self, name: str, value: Any) -> None:
        """Write a figure down. A number that is none (not finite) is told as missing."""
        if isinstance(value, float) and not math.isfinite(value):
            value = None
        self.tell(name, value)

    def run(self, words: Sequence[str], limit_s: float | None = None, more: Mapping[str, str] | None = None) -> Done:
        """Run any command to its end; one that takes longer is killed, and its exit code is -9."""
        began_s = time.monotonic()
        print("$", " ".join(words), flush=True)
        try:
            ended = subprocess.run(
                list(words), cwd=self.folder, env={**os.environ, **(more or {})}, capture_output=True, text=True,
                errors="replace", timeout=limit_s, check=False, stdin=subprocess.DEVNULL,
            )  # fmt: skip
            code, out, err = ended.returncode, ended.stdout, ended.stderr
        except subprocess.TimeoutExpired as late:
            code, out, err = -9, _text(late.stdout), _text(late.stderr) + f"\nno end within {limit_s:.0f} s"
        done = Done(tuple(words), code, out, err, time.monotonic() - began_s)
        print(f"= {code} after {done.took_s:.1f} s", done.err[-2000:], flush=True)
        return done

    def python(self, *words: str, limit_s: float | None = None, more: Mapping[str, str] | None = None) -> Done:
        """Run this interpreter."""
        return self.run([sys.executable, *words], limit_s, more)

    def torchstone(self, *words: str, limit_s: float | None = None, on_device: bool = True) -> Done:
        """Run a command of torchstone that prints JSON, with its records in this step's folder."""
        added = ["--output-dir", str(self.folder / "outputs")] if words[0] != "machine" or "peaks" in words else []
        if on_device and "--device" not in words:
            added += ["--device", self.device]
        if self.isolation and words[0] in ("run", "ab", "tune", "diagnose", "train") and "--isolation" not in words:
            added += ["--isolation", self.isolation]
        if words[0] in ("run", "ab", "tune", "diagnose", "train"):
            added += ["--quiet"]
        return self.python("-m", "torchstone", *words, *added, "--json", limit_s=limit_s)

    def write(self, name: str, content: Mapping[str, Any]) -> Path:
        """Write a run file, and return where it is."""
        path = self.folder / name
        path.write_text(json.dumps(content, indent=1), encoding="utf-8")
        return path


def _text(told: bytes | str | None) -> str:
    return told.decode(errors="replace") if isinstance(told, bytes) else told or ""
