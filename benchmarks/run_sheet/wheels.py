"""Wheels put beside the program: those the environment lacks are unpacked into a folder of their own.

A wheel is a zip archive whose top is what goes into site-packages (PEP 427), so no installer is asked, and what the
environment has stays as it is.
"""

from __future__ import annotations

import platform
import re
import sys
import zipfile
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


class Unreadable(Exception):
    """A file among the wheels is none, or none for this interpreter."""


def unpack(wheels: Path, into: Path) -> Sequence[str]:
    """Unpack what is not installed here; return the names of what the folder holds for this interpreter.

    Raises Unreadable where a distribution that is lacking is there for other interpreters only, or is no archive.
    """
    needed: dict[str, list[Path]] = {}
    for path in sorted(wheels.glob("*.whl")):
        needed.setdefault(_name(path), []).append(path)
    taken: list[str] = []
    for name, paths in needed.items():
        if is_installed(name):
            continue
        fitting = [path for path in paths if fits(path.name)]
        if not fitting:
            here = f"Python {sys.version_info.major}.{sys.version_info.minor} on {platform.machine()}"
            raise Unreadable(f"{wheels}: {name} is not installed, and {paths[0].name} is not for {here}")
        _unpack(fitting[-1], into)
        taken.append(name)
    return taken


def is_installed(name: str) -> bool:
    """Say whether the environment has a distribution of that name, of whatever version."""
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True


def fits(file: str) -> bool:
    """Say whether a wheel of that file name is for this interpreter and machine, by its tags (PEP 425)."""
    pythons, abis, platforms = file.removesuffix(".whl").split("-")[-3:]
    major, minor = sys.version_info[:2]
    exact, stable = f"cp{major}{minor}", re.compile(rf"cp{major}(\d+)")
    found = [stable.fullmatch(tag) for tag in pythons.split(".")] if "abi3" in abis.split(".") else []
    by_python = (
        (exact in pythons.split(".") and {exact, "none"} & set(abis.split(".")))
        or "py3" in pythons.split(".")
        or any(match is not None and int(match[1]) <= minor for match in found)
    )
    system = {"linux": "linux", "darwin": "macosx", "win32": "win"}.get(sys.platform, sys.platform)
    machine = platform.machine().lower()
    by_platform = any(
        tag == "any" or (system in tag and (machine in tag.lower() or "universal2" in tag))
        for tag in platforms.split(".")
    )
    return bool(by_python) and by_platform


def _name(path: Path) -> str:
    return path.name.partition("-")[0].replace("_", "-").lower()


def _unpack(wheel: Path, into: Path) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(into)
    except (zipfile.BadZipFile, OSError) as error:
        raise Unreadable(f"{wheel} cannot be unpacked: {error}") from None
