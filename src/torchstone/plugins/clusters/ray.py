"""Ray: each share is a task that runs `torchstone run --plan` as a process of its own and returns its record.

Nodes need torchstone and what the plan names (models, data) at the same paths, but no file system in common: plan and
records travel with the tasks.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from torchstone.core.errors import MissingError, UsageError
from torchstone.core.schema.submission import Job, Phase, ShareState, Submission
from torchstone.plugins.machine_protocols import Cluster, Node

_THREADS = "OMP_NUM_THREADS"  # Ray sets it to the task's CPUs where nobody has
_CARDS = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")  # empty in a task without GPUs
_MOST_LOG = 4096
_ANSWERS_S = 5.0
# The kernel ends it with Ray's worker: Ray does not, and it would go on measuring. In a process of its own, since
# Python code between fork and exec (preexec_fn) hangs beside the worker's threads.
_ENDED_WITH_PARENT = """
import ctypes, os, signal, sys
if sys.platform == "linux":
    set_parent_death_signal = 1
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGTERM)
    if os.getppid() != int(sys.argv[1]):  # it was killed just before
        raise SystemExit(1)
os.execv(sys.executable, [sys.executable, "-m", "torchstone", *sys.argv[2:]])
"""


class RayResult(msgspec.Struct, frozen=True):
    """What a task sends back: exit status, the record's bytes (empty: it did not begin), the end of stderr."""

    status: int
    record: bytes
    log: str


class Ray(Cluster):
    """Drives a Ray cluster that is up; it stays until all its tasks have ended."""

    describes = "Ray: a task a share, placed by accelerator type; waits until all have ended"
    takes: tuple[str, ...] = ("address", "accelerator_type", "cpus")
    spreads = False

    def allocation(self) -> Sequence[Node]:
        return ()

    def scripts(self, submission: Submission, folder: Path) -> Mapping[str, str]:
        asked = ", ".join(f"{name}={value}" for name, value in _resources(submission).items())
        line = f"{submission.python} -m torchstone run --plan plan.json --share"
        rows = [f"task {n}: {asked}: {line} {n}" for n in range(len(submission.shares))]
        return {"tasks.txt": "\n".join([f"Ray at {submission.wanted.get('address', 'auto')}", *rows, ""])}

    def submit(self, submission: Submission, folder: Path, shares: Sequence[int]) -> str:
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        try:
            import ray
        except ImportError:
            raise MissingError("Ray is not installed; type: pip install 'torchstone[ray]'") from None
        job_id = f"ray{os.getpid()}-{os.urandom(3).hex()}"
        with _aside(folder / "log" / "ray.txt"):
            self._carry_out(ray, submission, folder, shares, job_id)
        return job_id

    def _carry_out(self, ray: Any, submission: Submission, folder: Path, shares: Sequence[int], job_id: str) -> None:
        _connect(ray, submission.wanted.get("address", "auto"))
        try:
            _placeable(ray, submission)
            task = ray.remote(**_resources(submission), max_retries=0)(run_share)
            plan, threads = (folder / "plan.json").read_bytes(), os.environ.get(_THREADS)
            waiting = {task.remote(plan, share, job_id, _earlier(folder, share), threads): share for share in shares}
            while waiting:
                (done,), _ = ray.wait(list(waiting), num_returns=1)
                share = waiting.pop(done)
                try:
                    returned = ray.get(done)
                except ray.exceptions.RayError as fault:  # its node or worker is gone
                    returned = RayResult(1, b"", f"torchstone: {type(fault).__name__}: the task was lost")
                _keep(folder, share, job_id, returned)
        finally:
            ray.shutdown()

    def states(self, job: Job, folder: Path) -> Mapping[int, ShareState]:
        found = {}
        for share in job.shares:
            file = folder / "ended" / f"{share}.{job.job_id}"
            word = "LOST" if not file.exists() else "COMPLETED" if file.read_text().strip() == "0" else "FAILED"
            found[share] = ShareState(Phase.OVER, word, job.job_id)
        return found


@contextlib.contextmanager
def _aside(path: Path) -> Iterator[None]:
    """Have what Ray's own code writes to stderr (dumps of its state, where a node is lost) go to a file."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with path.open("ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)


def _connect(ray: Any, address: str) -> None:
    where = os.environ.get("RAY_ADDRESS", "auto") if address == "auto" else address
    host, colon, port = where.rpartition(":")
    try:
        if colon and port.isdigit() and "/" not in host:
            socket.create_connection((host, int(port)), _ANSWERS_S).close()  # Ray itself waits for minutes, in silence
        ray.init(address=where, log_to_driver=False, logging_level="ERROR")
    except OSError:  # a ConnectionError is one
        raise MissingError(
            f"no Ray cluster at {where}: `ray start --head` starts one, --address HOST:PORT names another"
        ) from None


def _resources(submission: Submission) -> dict[str, Any]:
    """Return what each task asks Ray for. Without num_gpus a task sees no GPU: CUDA_VISIBLE_DEVICES is empty then."""
    placement = submission.head.plan.cases[0].placement
    found: dict[str, Any] = {"num_cpus": int(submission.wanted.get("cpus", "1"))}
    if placement.device not in ("cpu", "mps"):
        found["num_gpus"] = 1
    if (kind := submission.wanted.get("accelerator_type")) is not None:
        found["accelerator_type"] = kind
    return found


def _placeable(ray: Any, submission: Submission) -> None:
    """Raise UsageError where no node could ever take a task, or where it is open which kind of device is measured."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    prefix = "accelerator_type:"
    kinds = sorted({name.removeprefix(prefix) for node in nodes for name in node if name.startswith(prefix)})
    asked, wanted = _resources(submission), submission.wanted.get("accelerator_type")
    if wanted is not None and wanted not in kinds:
        raise UsageError(f"--accelerator-type {wanted}: no node has one. Here: {', '.join(kinds) or 'none'}")
    if wanted is None and "num_gpus" in asked and len(kinds) > 1:
        raise UsageError(f"the cluster has {', '.join(kinds)}: name the one to measure with --accelerator-type")
    fits = [
        node
        for node in nodes
        if node.get("CPU", 0) >= asked["num_cpus"]
        and node.get("GPU", 0) >= asked.get("num_gpus", 0)
        and (wanted is None or prefix + wanted in node)
    ]
    if not fits:
        raise UsageError(f"no node of the Ray cluster has {', '.join(f'{k}={v}' for k, v in asked.items())}")


def _earlier(folder: Path, share: int) -> dict[str, bytes]:
    """Return what attempts at a share have recorded, by file name: a task goes on where they stopped."""
    return {path.name: path.read_bytes() for path in sorted((folder / "parts").glob(f"{share}.*.part"))}


def _keep(folder: Path, share: int, job_id: str, returned: RayResult) -> None:
    if returned.record:
        temporary = folder / "parts" / f".{share}.{job_id}"
        temporary.write_bytes(returned.record)
        temporary.replace(folder / "parts" / f"{share}.{job_id}.part")
    (folder / "log" / f"{job_id}_{share}.txt").write_text(returned.log, encoding="utf-8")
    (folder / "ended" / f"{share}.{job_id}").write_text(f"{returned.status}\n", encoding="utf-8")


def run_share(plan: bytes, share: int, attempt: str, earlier: Mapping[str, bytes], threads: str | None) -> RayResult:
    """Carry out a share on this node. `threads`: OMP_NUM_THREADS where the run was submitted."""
    with tempfile.TemporaryDirectory(prefix="torchstone_ray_") as name:
        folder = Path(name)
        (folder / "parts").mkdir()
        (folder / "plan.json").write_bytes(plan)
        for file, data in earlier.items():
            (folder / "parts" / Path(file).name).write_bytes(data)
        told = msgspec.json.decode(plan)
        where, busy = told["folder"], told.get("when_busy", "wait")
        words = ["run", "--plan", str(folder / "plan.json"), "--share", str(share), "--attempt", attempt, "--quiet"]
        words += ["--when-busy", busy]
        done = subprocess.run(
            [sys.executable, "-c", _ENDED_WITH_PARENT, str(os.getpid()), *words],
            env=share_environment(os.environ, threads),
            cwd=where if Path(where).is_dir() else None,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            check=False,
        )
        record = folder / "parts" / f"{share}.{attempt}.part"
        data = record.read_bytes() if record.exists() else b""
        return RayResult(done.returncode, data, done.stderr.decode("utf-8", "replace")[-_MOST_LOG:])


def share_environment(found: Mapping[str, str], threads: str | None) -> dict[str, str]:
    """Return the environment of what is measured: without what Ray sets, with what the user set."""
    kept = {
        name: value
        for name, value in found.items()
        if not re.match(r"_?RAY_", name) and name != _THREADS and not (name in _CARDS and not value)
    }
    return {**kept, _THREADS: threads} if threads is not None else kept


PLUGIN: Cluster = Ray()
