"""torch's CUDA build on a machine without a driver: does anything that torchstone imports go looking for one?

Makes an environment of its own with the index's plain wheel of torch (for Linux that is the CUDA build; several GB),
and in it, in processes of their own:

- the build: torch's version as constraints.txt pins it, built for CUDA
- forks: each model library is imported as the template imports it, under the loader's own log (LD_DEBUG=libs):
  what asks for a driver opens libcuda.so.1, and the log has its name; then the process forks, and its child computes
- the probe: `inspect()` finds the CPU alone, and says of CUDA what was looked for
- `torchstone machine`, and a short run with --device auto: it takes the CPU, as there is nothing else
- the unit and contract tests

Each result is written at once into benchmarks/data/cuda_build.json. Ends with 1 where a check fails.

    python benchmarks/cuda_build.py [--environment DIR] [--only CHECK …] [--no-install]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(__file__).parent / "data" / "cuda_build.json"
_NEEDED_BYTES = 14 << 30  # the wheels as they come, and unpacked
_EXTRAS = ".[models,data,quality,charts,frames,dev]"
_LIBRARIES: Mapping[str, str] = {"cuda": "libcuda.so", "nvml": "libnvidia-ml.so"}
_IMPORTS = ("", "builtin:cnn", "hf:bert-base-uncased", "hf:gpt2", "timm:resnet50", "torchvision:resnet50")
_NEEDED = ("builtin:cnn", "hf:bert-base-uncased", "hf:gpt2")
_BARE = ("torch", "torch._dynamo", "torch._inductor.config", "accelerate", "triton", "kernels", "torchaudio")

# What a fork's process does: import as the template does (nothing, or one model's library), then fork and compute.
_FORK = """
import json, sys
from run_sheet.forks import in_a_fork
from torchstone.worker.template import _import_for
try:
    if sys.argv[1].startswith("import "):
        __import__(sys.argv[1].removeprefix("import "))
    else:
        _import_for([sys.argv[1]] if sys.argv[1] else [])
except Exception as error:  # not installed, or built for another torch
    print(json.dumps({"absent": f"{type(error).__name__}: {error}"[:200]}))
    raise SystemExit
import torch
print(json.dumps({"initialised": torch.cuda.is_initialized(), "child": in_a_fork("cpu")}))
"""
_BUILD = """
import json, torch
print(json.dumps({"torch": torch.__version__, "cuda": torch.version.cuda, "available": torch.cuda.is_available()}))
"""
_PROBE = """
import json
from torchstone.inspection import inspect
found = inspect()
print(json.dumps({"devices": [d.kind for d in found.devices], "missing": dict(found.missing),
                  "software": {k: v for k, v in found.software.items()}}))
"""


class Failed(Exception):
    """A check could not be done: the message is the last line of what it ran."""


class Environment:
    """An environment's interpreter, and how programs are run in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.python = folder / "bin" / "python"

    def run(
        self, *words: str, limit_s: float, more: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run its interpreter on this tree. A program that hangs is ended."""
        own = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT / "benchmarks")))}
        own |= {"HF_HUB_OFFLINE": "1", "TORCHSTONE_WHEN_BUSY": "share", **(more or {})}
        try:
            return subprocess.run(
                [str(self.python), *words], cwd=ROOT, env=own, capture_output=True, text=True, errors="replace",
                timeout=limit_s, check=False, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise Failed(f"no end within {limit_s:.0f} s: {' '.join(words)[:100]}") from None

    def answer(self, code: str, *words: str, limit_s: float = 180.0, more: Mapping[str, str] | None = None) -> Any:
        """Run a piece of Python and return what it printed last."""
        done = self.run("-c", code, *words, limit_s=limit_s, more=more)
        try:
            return json.loads(done.stdout.strip().splitlines()[-1])
        except (IndexError, ValueError):
            raise Failed((done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]) from None


# ── the environment ─────────────────────────────────────────────────────────────────────────────────────────


def install(environment: Environment) -> dict[str, Any]:
    """Make the environment and install torch from the index, then torchstone with what its tests need."""
    free = shutil.disk_usage(environment.folder.parent).free
    if not environment.python.exists() and free < _NEEDED_BYTES:
        raise Failed(f"{environment.folder.parent} has {free / 2**30:.0f} GiB free; this needs {_NEEDED_BYTES >> 30}")
    began_s = time.monotonic()
    if not environment.python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(environment.folder)], check=True)
    # A folder of wheels may hold a build for the CPU, which pip would take. Emptying PIP_FIND_LINKS would not keep that
    # out: pip takes an empty variable for none, and reads its files of settings.
    nothing = environment.folder / "no-wheels"
    nothing.mkdir(exist_ok=True)
    own = {**os.environ, "PIP_FIND_LINKS": str(nothing)}
    pip = [str(environment.python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    pip += ["--constraint", str(ROOT / "constraints.txt")]
    for what in (["torch"], ["--editable", _EXTRAS]):  # torch first and alone, as in the Makefile
        subprocess.run([*pip, *what], cwd=ROOT, env=own, check=True)
    # Not every torch has its torchvision, and without it timm cannot be imported: noted, and no failure.
    vision = subprocess.run([*pip, "timm", "torchvision"], cwd=ROOT, env=own, check=False).returncode == 0
    size = sum(
        path.stat().st_size for path in environment.folder.rglob("*") if path.is_file() and not path.is_symlink()
    )
    return {"good": True, "took_s": round(time.monotonic() - began_s), "size_bytes": size, "vision": vision}


# ── the checks ──────────────────────────────────────────────────────────────────────────────────────────────


def check_build(environment: Environment) -> dict[str, Any]:
    """Is this the CUDA build of the torch that is pinned, and does it see no device?"""
    told = environment.answer(_BUILD)
    wanted = pinned("torch")
    good = told["torch"].partition("+")[0] == wanted and bool(told["cuda"]) and not told["available"]
    return {**told, "wanted": wanted, "good": good}


def check_forks(environment: Environment) -> dict[str, Any]:
    """What opens libcuda or NVML while it is imported? Nothing may open libcuda; who asks NVML is noted."""
    found: dict[str, Any] = {}
    for word in (*(f"import {name}" for name in _BARE), *_IMPORTS):
        name = word or "the template alone"
        plain = looked_for(environment, word, by_nvml=False)
        found[name] = {**looked_for(environment, word, by_nvml=True), "cuda_plain": plain["cuda"]}
    wrong = [name for name, told in found.items() if told["cuda"] or told.get("child", "ok") != "ok"]
    lacking = [name for name in _NEEDED if "absent" in found[name]]
    return {"imports": found, "wrong": [*wrong, *lacking], "good": not wrong and not lacking}


def looked_for(environment: Environment, word: str, *, by_nvml: bool) -> dict[str, Any]:
    """Return which driver libraries an import opened, by the loader's log, and whether a fork of it computed.

    `by_nvml`: torch was told to ask NVML whether there is a device, as the template tells it.
    """
    more = {"PYTORCH_NVML_BASED_CUDA_CHECK": str(int(by_nvml))}
    told, text = logged(environment, _FORK, word, more=more)
    return {**told, **{name: file in text for name, file in _LIBRARIES.items()}}


def logged(environment: Environment, code: str, *words: str, more: Mapping[str, str]) -> tuple[Any, str]:
    """Return what a piece of Python printed last, and what the loader logged of it. Raises Failed without a log."""
    log = environment.folder / "loader"
    shutil.rmtree(log, ignore_errors=True)
    log.mkdir()
    more = {**more, "LD_DEBUG": "libs", "LD_DEBUG_OUTPUT": str(log / "log")}
    told = environment.answer(code, *words, more=more)
    text = "".join(path.read_text(encoding="utf-8", errors="replace") for path in log.iterdir())
    shutil.rmtree(log)
    if not re.search(r"find library=", text):
        raise Failed("the loader wrote no log: LD_DEBUG works with glibc only")
    return told, text


def check_plain_torch(environment: Environment) -> dict[str, Any]:
    """Does the log show it where somebody does ask? torch.cuda.is_available() opens libcuda: else nothing is proven."""
    code = "import json, torch; print(json.dumps(torch.cuda.is_available()))"
    _, text = logged(environment, code, more={"PYTORCH_NVML_BASED_CUDA_CHECK": "0"})
    seen = _LIBRARIES["cuda"] in text
    return {"seen": seen, "good": seen}


def check_probe(environment: Environment) -> dict[str, Any]:
    """Does the probe find the CPU alone, and say of CUDA what is not there?"""
    told = environment.answer(_PROBE)
    says = told["missing"].get("cuda", "")
    good = told["devices"] == ["cpu"] and "built for CUDA" in says
    return {"devices": told["devices"], "cuda": says, "software": told["software"], "good": good}


def check_machine(environment: Environment) -> dict[str, Any]:
    """Do `torchstone machine` and a short run end well, and does --device cuda end with a line and a code?"""
    machine = environment.run("-m", "torchstone", "machine", "--json", limit_s=180)
    folder = str(environment.folder / "outputs")
    short = ("run", "smoke", "--trials", "1", "--output-dir", folder, "--quiet", "--json")
    auto = environment.run("-m", "torchstone", *short, limit_s=300)
    asked = environment.run("-m", "torchstone", *short, "--device", "cuda", limit_s=300)
    lines = asked.stderr.strip().splitlines()
    placed = _placed(auto.stdout)
    good = machine.returncode == 0 and auto.returncode == 0 and placed == ["cpu"] and asked.returncode in (2, 3)
    return {
        "machine": machine.returncode, "run_auto": auto.returncode, "placed": placed, "run_cuda": asked.returncode,
        "says": lines[-1] if lines else "", "lines": len(lines), "good": good and len(lines) == 1,
    }  # fmt: skip


def _placed(document: str) -> list[str]:
    try:
        return sorted({case["placement"]["device"] for case in json.loads(document)["cases"]})
    except (ValueError, KeyError):
        return []


def check_tests(environment: Environment) -> dict[str, Any]:
    """Do the unit and contract tests pass on this build?"""
    from run_sheet.suite import counted

    report = environment.folder / "tests.xml"
    report.unlink(missing_ok=True)
    began_s = time.monotonic()
    done = environment.run(
        "-m", "pytest", "tests/unit", "tests/contract", "-q", "-n", "2", "--dist", "loadgroup", "-p",
        "no:cacheprovider", "-m", "not alone and not long", "--junitxml", str(report), limit_s=3600,
    )  # fmt: skip
    if not report.is_file():
        raise Failed((done.stdout.strip().splitlines() or [f"pytest ended with {done.returncode}"])[-1])
    told = counted(report)
    return {**told, "took_s": round(time.monotonic() - began_s), "good": done.returncode == 0}


CHECKS: Mapping[str, Callable[[Environment], dict[str, Any]]] = {
    "build": check_build, "log": check_plain_torch, "forks": check_forks, "probe": check_probe,
    "machine": check_machine, "tests": check_tests,
}  # fmt: skip


def pinned(name: str) -> str | None:
    """Return the version that constraints.txt pins."""
    found = re.search(
        rf"^{re.escape(name)}==(\S+)", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE
    )
    return found[1] if found is not None else None


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environment", type=Path, default=Path(__file__).parent / ".cuda")
    parser.add_argument("--only", nargs="+", choices=list(CHECKS), help="these checks (default: all)")
    parser.add_argument("--no-install", action="store_true", help="take the environment as it is")
    parser.add_argument("--json", type=Path, default=DATA)
    options = parser.parse_args(words)
    if sys.platform != "linux":
        print("cuda_build.py: the index's plain wheel is the CUDA build for Linux only: run it there", file=sys.stderr)
        return 2
    environment = Environment(options.environment.absolute())
    known: dict[str, Any] = json.loads(options.json.read_text(encoding="utf-8")) if options.json.exists() else {}
    asked: dict[str, Callable[[Environment], dict[str, Any]]] = {} if options.no_install else {"install": install}
    asked |= {name: check for name, check in CHECKS.items() if options.only is None or name in options.only}
    good = True
    for name, check in asked.items():
        print(f"{name} …", flush=True)
        result = carried_out(check, environment)
        good &= bool(result["good"])
        known[name] = {"date": time.strftime("%Y-%m-%d"), **result}
        options.json.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"  {'ok' if result['good'] else 'FAILED'}  {_in_words(result)}", flush=True)
        if name == "install" and not result["good"]:
            break
    return 0 if good else 1


def carried_out(check: Callable[[Environment], dict[str, Any]], environment: Environment) -> dict[str, Any]:
    """Return what a check found. One that cannot be done has failed, and says why; the others go on."""
    try:
        return check(environment)
    except (Failed, subprocess.CalledProcessError, OSError) as error:
        return {"good": False, "why": str(error)[:500]}


def _in_words(result: Mapping[str, Any]) -> str:
    told = {name: value for name, value in result.items() if isinstance(value, str | int | float) and name != "good"}
    told |= {name: result[name] for name in ("wrong", "failures", "devices") if result.get(name)}
    return ", ".join(f"{name} {value}" for name, value in told.items())[:400]


if __name__ == "__main__":
    sys.exit(main())
