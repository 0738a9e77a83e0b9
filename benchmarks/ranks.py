"""A trial of several ranks against a plain DDP script under torchrun: what launching ranks inside a trial costs.

The same network, optimizer, batch, threads, cores and heap settings on both sides; a pair is one trial of torchstone
and one run of the script below, in alternating order. A pair gives the ratio of their median steps, each that of the
slowest rank step by step; the summary is the geometric mean over pairs with Student's 95 % interval, and the median.

    python benchmarks/ranks.py [--pairs 20] [--ranks 2] [--steps 200] [--model cnn] [--batch 16] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

WARMUP = 30

PLAIN = """
import itertools, json, os, sys, time
name, batch, steps, warmup, cores = sys.argv[1], *map(int, sys.argv[2:5]), json.loads(sys.argv[5])
os.sched_setaffinity(0, cores[int(os.environ["LOCAL_RANK"])])
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torchstone.core.schema.case import Task, Workload
from torchstone.plugins import registry

torch.set_num_threads(len(cores[int(os.environ["LOCAL_RANK"])]))
torch.manual_seed(0)
dist.init_process_group("gloo")
source = registry.load("models", "builtin")
work = Workload(Task.TRAIN, "builtin:" + name, "synthetic", "image")
loaded = source.load(name, work, {"image_size": 32, "batch_size": batch})
model = DistributedDataParallel(loaded.module.train())
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5, fused=False)  # as settings="torch" leaves it
batches = itertools.cycle([
    {"pixel_values": torch.randn(batch, 3, 32, 32), "labels": torch.randint(0, 10, (batch,))} for _ in range(4)])
laps = []
for step in range(warmup + steps):
    begin = time.perf_counter()
    loss = loaded.loss(model, next(batches))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    laps.append(time.perf_counter() - begin)
laps = torch.tensor(laps[warmup:], dtype=torch.float64)
dist.all_reduce(laps, dist.ReduceOp.MAX)
if dist.get_rank() == 0:
    print(json.dumps(laps.tolist()))
dist.destroy_process_group()
"""


def ours(session: Any, case: Any, how: Any, number: int) -> float:
    """Return the median step (s) of one trial."""
    from torchstone.core.over_ranks import over_ranks
    from torchstone.core.schema.message import TrialRequest
    from torchstone.execution.controller.observer import Silent
    from torchstone.execution.controller.trial import TrialDrive

    trial = TrialDrive(TrialRequest(case, how, number), None, Silent()).run(session.launcher, number)
    steps = over_ranks(trial).values("step_time_s", window="throughput")
    if not steps:
        raise SystemExit(f"the trial failed: {trial.outcome}")
    return statistics.median(steps)


def plain(script: Path, options: argparse.Namespace, cores: list[tuple[int, ...]]) -> float:
    """Return the median step (s) of one run of the script under torchrun."""
    from torchstone.plugins.launchers._process import environment

    words = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        f"--nproc-per-node={options.ranks}",
        str(script),
    ]
    words += [options.model, str(options.batch), str(options.steps), str(WARMUP), json.dumps(cores)]
    said = {**environment("fixed"), "OMP_NUM_THREADS": str(len(cores[0])), "GLOO_SOCKET_IFNAME": "lo"}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=said, timeout=300)
    if done.returncode:
        raise SystemExit(done.stderr)
    return statistics.median(json.loads(done.stdout.splitlines()[-1]))


def summary(ratios: list[float]) -> dict[str, Any]:
    """Return the geometric mean with Student's 95 % interval, and the median."""
    from torchstone.core.stats.student import two_sided

    logs = [math.log(ratio) for ratio in ratios]
    mean = statistics.fmean(logs)
    half = two_sided(0.95, len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else math.inf
    return {"mean": math.exp(mean), "low": math.exp(mean - half), "high": math.exp(mean + half),
            "median": statistics.median(ratios), "ratios": ratios}  # fmt: skip


def main() -> None:
    """Take the pairs, print a line each, and the summary."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--model", default="cnn")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    from torchstone.core.schema import ranks
    from torchstone.core.schema.case import Placement, Task
    from torchstone.core.schema.procedure import Procedure
    from torchstone.core.schema.request import WorkloadRequest
    from torchstone.execution.controller.session import Session
    from torchstone.execution.plan import sketch
    from torchstone.execution.worker import pinning
    from torchstone.execution.worker.ranks.launching import by_place, share_of

    model = f"builtin:{options.model}"
    axes = {"batch_size": (options.batch,), "world_size": (options.ranks,), "strategy": ("ddp",), "image_size": (32,)}
    asked = sketch(WorkloadRequest(Task.TRAIN, model, axes=axes))
    case = ranks.with_ranks(asked.workload, asked.configurations[0], Placement("cpu"))
    how = Procedure(trials=1, warmup=WARMUP, iterations=options.steps, phases=False, count_flops=False,
                    telemetry_period_s=0.0, settings="torch")  # fmt: skip
    cores = [share_of(by_place(pinning.OURS), rank, options.ranks) for rank in range(options.ranks)]
    ratios = []
    with tempfile.TemporaryDirectory() as folder, Session(how, [model]) as session:
        script = Path(folder, "plain.py")
        script.write_text(PLAIN, encoding="utf-8")
        for pair in range(options.pairs):
            if pair % 2 == 0:
                taken = [ours(session, case, session.procedure, pair), plain(script, options, cores)]
            else:
                taken = [plain(script, options, cores), ours(session, case, session.procedure, pair)]
            own_s, plain_s = taken if pair % 2 == 0 else taken[::-1]
            ratios.append(own_s / plain_s)
            print(
                f"pair {pair + 1}: trial {1e3 * own_s:.3f} ms, script {1e3 * plain_s:.3f} ms, ratio {ratios[-1]:.4f}",
                flush=True,
            )
    found = summary(ratios)
    print(f"step of a trial / step of the script: {found['mean']:.4f} [{found['low']:.4f}, {found['high']:.4f}], "
          f"median {found['median']:.4f}, {len(ratios)} pairs")  # fmt: skip
    if options.json is not None:
        options.json.write_text(
            json.dumps({**vars(options), "json": str(options.json), **found}, indent=1), encoding="utf-8"
        )


if __name__ == "__main__":
    main()
