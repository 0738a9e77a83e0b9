"""One archive for a machine with an accelerator and no network: this tree, and wheels of what its image may lack.

torch, transformers, timm, torchvision and triton are taken to be there: they belong to the driver and to one another.
Everything else that the run sheet needs goes along for one Python and one platform; what the machine has is left alone
(run_sheet/wheels.py). Ends with 1 where the archive is larger than 60 MiB.

    python benchmarks/accelerator_bundle.py [--python 3.12] [--platform x86_64] [--output build/accelerator.tar.gz]
    there: tar xzf accelerator.tar.gz && cd torchstone && python benchmarks/accelerator.py --device cuda
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MOST_BYTES = 60 << 20
# What goes along of the tree: the program, what it measures with, and the tests of step D3.
TREE = ("src", "benchmarks", "tests", "docs", "examples", "Makefile", "README.md", "CONTRIBUTING.md", "CHANGELOG.md",
        "LICENSE", "pyproject.toml", "constraints.txt")  # fmt: skip
_NOT = ("benchmarks/data/", "benchmarks/surfaces/", "benchmarks/peers/")
# With everything they need themselves: nothing is resolved, and so no torch of another build is pulled.
WHEELS = (
    "msgspec", "ruamel.yaml", "psutil", "nvidia-ml-py", "rich", "markdown-it-py", "mdurl", "pygments", "pillow",
    "safetensors", "pytest", "iniconfig", "pluggy", "packaging", "pytest-xdist", "execnet", "hypothesis",
    "sortedcontainers",
)  # fmt: skip
_LIBC = ("manylinux_2_28", "manylinux_2_27", "manylinux_2_17", "manylinux2014", "manylinux_2_5", "manylinux1")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default="3.12", help="of that machine (default %(default)s)")
    parser.add_argument("--platform", default="x86_64", help="its processor: x86_64 (default) or aarch64")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "accelerator.tar.gz")
    parser.add_argument("--wheels-only", type=Path, metavar="DIR", help="put the wheels there, and make no archive")
    options = parser.parse_args()
    if not re.fullmatch(r"3\.\d+", options.python):
        print(f"accelerator_bundle.py: --python {options.python}: write it as 3.12", file=sys.stderr)
        return 2
    if options.wheels_only is not None:
        return downloaded(options.wheels_only, options)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.output.parent) as folder:
        wheels = Path(folder)
        if (code := downloaded(wheels, options)) != 0:
            return code
        pack(options.output, tree(), sorted(wheels.glob("*.whl")))
    size = options.output.stat().st_size
    print(f"{options.output}: {size / 2**20:.1f} MiB")
    if size > MOST_BYTES:
        print(f"accelerator_bundle.py: more than {MOST_BYTES >> 20} MiB", file=sys.stderr)
        return 1
    return 0


def downloaded(into: Path, options: argparse.Namespace) -> int:
    """Download the wheels; return 0, or 1 where pip failed, whose own words are on stderr then."""
    into.mkdir(parents=True, exist_ok=True)
    code = subprocess.run(download(into, options.python, options.platform), check=False).returncode
    if code != 0:
        print(f"accelerator_bundle.py: the wheels could not be downloaded (pip ended with {code})", file=sys.stderr)
    return min(code, 1)


def download(into: Path, python: str, platform: str) -> list[str]:
    """Return the command that downloads the wheels, pinned as constraints.txt pins them, for that machine alone."""
    words = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps"]
    words += ["--only-binary", ":all:", "--implementation", "cp", "--python-version", python, "--dest", str(into)]
    for libc in _LIBC:
        words += ["--platform", f"{libc}_{platform}"]
    for abi in (f"cp{python.replace('.', '')}", "abi3", "none"):
        words += ["--abi", abi]
    return [*words, *requirements(WHEELS, (ROOT / "constraints.txt").read_text(encoding="utf-8"))]


def requirements(names: Iterable[str], constraints: str) -> list[str]:
    """Return each name with its pin, where there is one."""
    pins = dict(line.split("==") for line in constraints.splitlines() if "==" in line and not line.startswith("#"))
    return [f"{name}=={pins[name].strip()}" if name in pins else name for name in names]


def tree() -> list[Path]:
    """Return the files of the tree that go along: those that git has, below ROOT."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", *TREE], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    return [Path(name) for name in listed.split("\0") if name and not name.startswith(_NOT)]


def pack(archive: Path, files: Sequence[Path], wheels: Sequence[Path]) -> None:
    """Write the archive: everything below torchstone/, the wheels in torchstone/wheels, without owners."""

    def bare(info: tarfile.TarInfo) -> tarfile.TarInfo:
        info.uid = info.gid = 0
        info.uname = info.gname = ""
        return info

    with tarfile.open(archive, "w:gz") as tar:
        for path in files:
            tar.add(ROOT / path, f"torchstone/{path}", filter=bare)
        for wheel in wheels:
            tar.add(wheel, f"torchstone/wheels/{wheel.name}", filter=bare)


if __name__ == "__main__":
    sys.exit(main())
