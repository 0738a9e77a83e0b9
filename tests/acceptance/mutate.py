"""Take a feature of a seed document away and run the tests of its row: does one of them fail?

    python tests/acceptance/mutate.py [ID …] [--jobs 2]      `make mutations` does them all

mutations/ has one file a seed document: where the lines of a feature stand, and what is left without them. The
features were drawn by `random.Random(14).sample`, 60 of the 234 IDs that were "as the seed" or "differs by design" on
2026-11-22, and the lines chosen by reading src/ alone. IDs from A-01 on are what was wrong on accelerators
(findings.toml): lines of what mended it. Each is taken away in a copy of the tree. Exit 1 where the tests of a row pass
without its feature.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).parents[1]))
from acceptance.feature_rows import HERE, SEEDS, row_of
from acceptance.finding_rows import findings

ROOT = HERE.parents[1]
_COPIED = (
    "src", "tests", "docs", "examples", "benchmarks", "pyproject.toml", "README.md", "CHANGELOG.md", "CONTRIBUTING.md",
    "CITATION.cff", "LICENSE", "Makefile", ".pre-commit-config.yaml", ".github",
)  # fmt: skip
_LIMIT_S = 900.0
_TAIL = 30  # lines of pytest's output that tell why


class Mutation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A feature taken away: `find` stands once in `file`, `put` is there without the feature."""

    id: str
    file: str
    find: str
    put: str = ""


class _File(msgspec.Struct, forbid_unknown_fields=True):
    mutation: tuple[Mutation, ...]


class Tried(msgspec.Struct, frozen=True):
    """What the tests of a row said without its feature: which failed, None where all passed; `why`: pytest's words."""

    mutation: Mutation
    failed: str | None
    took_s: float
    why: str


def mutations() -> tuple[Mutation, ...]:
    """Return all of them: in the order of the seed documents, then of the findings."""
    files = [HERE / "mutations" / f"{seed}.toml" for seed in SEEDS]
    features = [one for file in files for one in msgspec.toml.decode(file.read_bytes(), type=_File).mutation]
    mended = [Mutation(row.id, one.file, one.find, one.put) for row in findings() for one in row.without]
    return (*features, *mended)


def caught_by(mutation_id: str) -> tuple[str, ...]:
    """Return the tests of the row or the finding. Raises KeyError where there is none."""
    return {one.id: one.tests for one in findings()}.get(mutation_id) or row_of(mutation_id).tests


def mutated(mutation: Mutation) -> str:
    """Return the text of the file without the feature. Raises ValueError where `find` does not stand in it once."""
    text = (ROOT / mutation.file).read_text(encoding="utf-8")
    if (count := text.count(mutation.find)) != 1:
        raise ValueError(f"{mutation.id}: {mutation.file} has these lines {count} times: {mutation.find!r}")
    return text.replace(mutation.find, mutation.put)


def tried(mutation: Mutation) -> Tried:
    """Run the tests of the row in a copy of the tree without the feature, until one fails."""
    began_s = time.monotonic()
    failed, why = ran(["-x", *caught_by(mutation.id)], {mutation.file: mutated(mutation)})
    return Tried(mutation, failed[0] if failed else None, time.monotonic() - began_s, why)


def ran(tests: Sequence[str], instead: Mapping[str, str]) -> tuple[list[str], str]:
    """Run tests in a copy of the tree with these files instead: return those that failed, and the end of the output."""
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        tree = Path(folder) / "tree"
        tree.mkdir()
        if (shared := ROOT.with_name("shared")).is_dir():
            tree.with_name("shared").symlink_to(shared.resolve())  # tests skip what needs data that are not there
        for name in _COPIED:
            whole = ROOT / name
            if whole.is_dir():
                shutil.copytree(whole, tree / name, ignore=shutil.ignore_patterns("__pycache__", ".pyperf"))
            else:
                shutil.copy(whole, tree / name)
        for name, text in instead.items():
            (tree / name).write_text(text, encoding="utf-8")
        words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--no-header"]
        environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
        try:
            done = subprocess.run(
                [*words, *tests], check=False, cwd=tree, env=environment, capture_output=True, text=True,
                timeout=_LIMIT_S,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return [f"none within {_LIMIT_S:.0f} s"], ""
    return _failed(done), "\n".join(done.stdout.splitlines()[-_TAIL:])


def _failed(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Return the tests that failed. Raises RuntimeError where pytest could not run them."""
    told = [line for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    named = [line.split(" ", 1)[1].partition(" - ")[0] for line in told]  # a test's name may have spaces
    if bool(done.returncode) != bool(named):
        raise RuntimeError(f"pytest ended with {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return named


def main(words: Sequence[str] | None = None) -> int:
    """Take the named features away, or all; print a line each. Returns the exit status.

    What failed is then run in one copy that has all features: a test that fails there too says nothing.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ids", nargs="*", metavar="ID")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(words)
    chosen = [one for one in mutations() if not options.ids or one.id in options.ids]
    caught: list[str] = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for one in pool.map(tried, chosen):
            print(f"{one.mutation.id}  {one.took_s:4.0f} s  {one.failed or 'ALL PASS WITHOUT IT'}", flush=True)
            if one.failed is None:
                print(one.why)
            else:
                caught.append(one.failed)
    tests = sorted({test for test in caught if "::" in test})
    failing, why = ran(tests, {}) if tests else ([], "")
    if failing:
        print(f"with all features these fail too: {' '.join(failing)}\n{why}")
    count = sum(test not in failing for test in caught)
    print(f"{count} of {len(chosen)} caught")
    return 0 if chosen and count == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
