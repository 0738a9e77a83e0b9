"""A0: what the machine is, by its driver's own tool and by torchstone."""

from __future__ import annotations

import re
import shutil
from importlib.metadata import PackageNotFoundError, version

from run_sheet.here import Here

_TOOLS = {
    "cuda": ("nvidia-smi", "-q"), "rocm": ("rocm-smi", "--showallinfo"), "xpu": ("xpu-smi", "discovery"),
    "mps": ("system_profiler", "SPDisplaysDataType"),
}  # fmt: skip
# figure → the line of `nvidia-smi -q` that tells it; of several cards the first
_NVIDIA = {
    "driver": "Driver Version", "compute_mode": "Compute Mode", "persistence_mode": "Persistence Mode",
    "ecc": "Current ECC|ECC Mode", "mig_mode": "MIG Mode", "power_limit_w": "Current Power Limit",
    "power_most_w": "Max Power Limit", "virtualization": "Virtualization Mode",
}  # fmt: skip
_PACKAGES = ("torch", "transformers", "triton", "timm", "torchvision", "nvidia-ml-py", "msgspec", "ruamel.yaml")


def facts(here: Here) -> None:
    """Note what the driver's tool says, what is installed, and what `torchstone machine` finds."""
    for name in _PACKAGES:
        here.note(name.replace("-", "_").replace(".", "_"), _installed(name))
    _driver(here)
    document = here.torchstone("machine", on_device=False, limit_s=120).document()
    machine = document["machine"]
    found = [one for one in machine["devices"] if one["kind"] == here.device]
    here.note("devices", len(found))
    here.note("missing", document["missing"].get(here.device))
    here.note("cores", machine["host"]["logical_cores"])
    here.note("host_memory_bytes", machine["host"]["memory_bytes"])
    for name in ("torch", "transformers"):
        here.note(name, machine["software"].get(name))
    if found:
        first = found[0]
        here.note("device_name", first["name"])
        here.note("device_memory_bytes", first["memory_bytes"])
        here.note("compute_capability", first.get("compute_capability"))
        here.note("runtime", first.get("runtime"))
        here.note("has_uuid", first.get("uuid") is not None)


def _driver(here: Here) -> None:
    words = _TOOLS.get(here.device)
    if words is None or shutil.which(words[0]) is None:
        here.note("driver_tool", f"no {words[0]}" if words else "none")
        return
    done = here.run(words, limit_s=60)
    (here.folder / "driver.txt").write_text(done.out, encoding="utf-8")
    here.note("driver_tool", f"{words[0]}, exit code {done.code}")
    if here.device == "cuda":
        for name, line in _NVIDIA.items():
            here.note(name, value_of(done.out, line))


def value_of(text: str, line: str) -> str | float | None:
    """Return what `nvidia-smi -q` says on the first line of that name: watts as a number, and no "N/A".

    A line that is only a heading (MIG Mode, ECC Mode) has its value on the `Current` line below.
    """
    for name in line.split("|"):
        match = re.search(
            rf"^ *{re.escape(name)} *(?::[ \t]*([^\n]*))?\n(?: *Current *: ([^\n]*))?", text, re.MULTILINE
        )
        value = (match[1] or match[2] or "").strip() if match is not None else ""
        if value:
            number = re.fullmatch(r"([\d.]+) (?:W|MHz)", value)
            return float(number[1]) if number is not None else None if value.strip("[]") == "N/A" else value
    return None


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
