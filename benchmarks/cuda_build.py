"""torch's CUDA build on a machine without a driver: does anything that torchstone imports initialise one?

Makes an environment of its own with the index's plain wheel of torch (for Linux that is the CUDA build; several GB),
and in it, in processes of their own:

- the build: torch's version as constraints.txt pins it, built for CUDA
- forks: each model library is imported as the template imports it, with a libcuda.so.1 of our own in the driver's
  place, which counts who calls cuInit; then the process forks, and its child computes
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

from cuda_environment import ROOT, Environment, Failed, install

DATA = Path(__file__).parent / "data" / "cuda_build.json"
_STUB = ROOT / "tests" / "stubs" / "cuda.c"
_IMPORTS = ("", "builtin:cnn", "hf:bert-base-uncased", "hf:gpt2", "timm:resnet50", "torchvision:resnet50")
_NEEDED = ("builtin:cnn", "hf:bert-base-uncased", "hf:gpt2")
_BARE = ("torch", "torch._dynamo", "torch._inductor.config", "accelerate", "triton", "kernels", "torchaudio")

# What a fork's process does: import as the template does (nothing, or one model's library), then fork and compute.
_FORK = """
import json, sys
from run_sheet.forks import in_a_fork
from torchstone.execution.worker.template import _import_for
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
from torchstone.execution.inspection import inspect
found = inspect()
print(json.dumps({"devices": [d.kind for d in found.devices], "missing": dict(found.missing),
                  "software": {k: v for k, v in found.software.items()}}))
"""


# ── the checks ──────────────────────────────────────────────────────────────────────────────────────────────


def check_build(environment: Environment) -> dict[str, Any]:
    """Is this the CUDA build of the torch that is pinned, and does it see no device?"""
    told = environment.answer(_BUILD)
    wanted = pinned("torch")
    good = told["torch"].partition("+")[0] == wanted and bool(told["cuda"]) and not told["available"]
    return {**told, "wanted": wanted, "good": good}


def check_forks(environment: Environment) -> dict[str, Any]:
    """What initialises the driver while it is imported? Nothing may, and a fork of it computes."""
    stub = built_stub(environment.folder)
    found: dict[str, Any] = {}
    for word in (*(f"import {name}" for name in _BARE), *_IMPORTS):
        guarded = imported(environment, stub, _FORK, word, by_nvml=True)
        found[word or "the template alone"] = {
            **guarded, "cu_inits_plain": imported(environment, stub, _FORK, word, by_nvml=False)["cu_inits"]
        }  # fmt: skip
    wrong = [name for name, told in found.items() if told["cu_inits"] or told.get("child", "ok") != "ok"]
    lacking = [name for name in _NEEDED if "absent" in found[name]]
    return {"imports": found, "wrong": [*wrong, *lacking], "good": not wrong and not lacking}


def check_counting(environment: Environment) -> dict[str, Any]:
    """Is it counted where somebody does ask? torch.cuda.is_available() does: if it is not, nothing is proven."""
    code = "import json, torch; torch.cuda.is_available(); print(json.dumps({}))"
    told = imported(environment, built_stub(environment.folder), code, by_nvml=False)
    return {**told, "good": told["cu_inits"] > 0}


def imported(environment: Environment, stub: Path, code: str, *words: str, by_nvml: bool) -> dict[str, Any]:
    """Return what a piece of Python printed last, how often it called cuInit, and whether it looked for NVML (or None).

    A driver that counts is found in the real one's place: who looks for it alone has not asked, as cuBLAS does so
    whenever torch is imported. `by_nvml`: torch was told to ask NVML for devices, as the template tells it.
    """
    logs = environment.folder / "loader"
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir()
    counted = logs / "cuInit"
    path = os.pathsep.join(filter(None, (str(stub), os.environ.get("LD_LIBRARY_PATH"))))
    more = {
        "PYTORCH_NVML_BASED_CUDA_CHECK": str(int(by_nvml)), "LD_LIBRARY_PATH": path, "STUB_LOG": str(counted),
        "LD_DEBUG": "libs", "LD_DEBUG_OUTPUT": str(logs / "log"),
    }  # fmt: skip
    told = environment.answer(code, *words, more=more)
    text = "".join(log.read_text(encoding="utf-8", errors="replace") for log in logs.glob("log*"))
    inits = len(counted.read_text(encoding="ascii").splitlines()) if counted.exists() else 0
    shutil.rmtree(logs)
    if "absent" in told:  # nothing was imported, so nothing was counted
        return {**told, "cu_inits": None, "nvml": None}
    if f"calling init: {stub}/" not in text:
        raise Failed("the driver that counts was not loaded, or the loader wrote no log (LD_DEBUG: glibc only)")
    return {**told, "cu_inits": inits, "nvml": "libnvidia-ml.so" in text}


def built_stub(folder: Path) -> Path:
    """Build the driver that counts (tests/stubs/cuda.c) into a folder of the environment, and return that."""
    into = folder / "stub"
    into.mkdir(exist_ok=True)
    compiler = next((path for name in ("cc", "gcc", "clang") if (path := shutil.which(name))), None)
    if compiler is None:
        raise Failed("no C compiler (cc, gcc or clang): the driver that counts cannot be built")
    words = [compiler, "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", str(into / "libcuda.so.1"), str(_STUB)]
    subprocess.run(words, check=True)
    return into


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
        "-m", "pytest", "tests/unit", "tests/contract", "-q", "-n", str(environment.processes), "--dist", "loadgroup",
        "-p", "no:cacheprovider", "-m", "not alone and not long", "--junitxml", str(report), limit_s=3600,
    )  # fmt: skip
    if not report.is_file():
        raise Failed((done.stdout.strip().splitlines() or [f"pytest ended with {done.returncode}"])[-1])
    told = counted(report)
    return {**told, "took_s": round(time.monotonic() - began_s), "good": done.returncode == 0}


CHECKS: Mapping[str, Callable[[Environment], dict[str, Any]]] = {
    "build": check_build, "counting": check_counting, "forks": check_forks, "probe": check_probe,
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
    parser.add_argument("--processes", type=int, default=2, metavar="N", help="of the tests (default %(default)s)")
    parser.add_argument("--json", type=Path, default=DATA)
    options = parser.parse_args(words)
    if sys.platform != "linux":
        print("cuda_build.py: the index's plain wheel is the CUDA build for Linux only: run it there", file=sys.stderr)
        return 2
    environment = Environment(options.environment.absolute(), options.processes)
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
