"""Is the predicted peak memory of a step true? Predicted without data, then counted by the allocator itself.

python benchmarks/memory_model.py [--device cpu|cuda] [--only WORD] [--json FILE]

Predicted: what `torchstone memory` does, for this device, in a process that takes no step. True: a process that takes
two steps of the same case while the allocator counts. On a CPU: torch's own allocator reports every allocation and
every end of one to the profiler (`profile_memory=True`: c10/core/CPUAllocator.cpp, ProfiledCPUMemoryReporter), those
inside of kernels, too, which no operator shows; the peak is the most that was alive from the first step on. On a
device: `max_memory_allocated`. Neither knows anything of the prediction. Each in a process of its own, forked from
this one.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import statistics
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from torchstone.core.schema.case import Case, Placement
from torchstone.core.schema.machine import DeviceInfo
from torchstone.core.schema.message import MemoryRequest
from torchstone.core.schema.request import WorkloadRequest
from torchstone.execution import plan
from torchstone.execution.inspection import inspect
from torchstone.execution.timing.loop import unmarked
from torchstone.execution.worker.auto_settings import settle
from torchstone.execution.worker.execution import foretell
from torchstone.execution.worker.setup import load_model, open_device, open_samples
from torchstone.plugins import registry

os.environ.setdefault("KINETO_LOG_LEVEL", "5")  # the profiler says when it starts and stops
_STEPS = 2  # the second has the state of the optimizer
_MOST_S = 300.0
# What varies is said; all else is as the command has it.
CASES: tuple[tuple[str, str, Mapping[str, Any]], ...] = (
    ("train", "builtin:mlp", {"batch_size": 64}),
    ("train", "builtin:mlp", {"batch_size": 4096}),
    ("train", "builtin:mlp", {"batch_size": 4096, "optimizer": "sgd", "precision": "bf16"}),
    ("infer", "builtin:mlp", {"batch_size": 8192}),
    ("train", "builtin:cnn", {"batch_size": 16}),
    ("train", "builtin:cnn", {"batch_size": 256}),
    ("train", "builtin:cnn", {"batch_size": 64, "precision": "bf16"}),
    ("train", "builtin:cnn", {"batch_size": 128, "channels_last": "on", "optimizer": "sgd"}),
    ("train", "builtin:cnn", {"batch_size": 64, "grad_accumulation": 4, "grad_clip": 1.0}),
    ("infer", "builtin:cnn", {"batch_size": 256}),
    ("train", "builtin:gesture-small", {"batch_size": 64}),
    ("train", "builtin:gesture-small", {"batch_size": 256, "optimizer": "sgd"}),
    ("infer", "builtin:gesture-small", {"batch_size": 256}),
    ("train", "builtin:text-small", {"batch_size": 64}),
    ("train", "builtin:text-small", {"batch_size": 64, "precision": "bf16"}),
    ("train", "builtin:denoiser-small", {"batch_size": 8, "sequence_length": 1024}),
    ("train", "builtin:denoiser-medium", {"batch_size": 4, "sequence_length": 512, "precision": "bf16"}),
    ("train", "hf:distilbert", {"batch_size": 4}),
    ("train", "hf:distilbert", {"batch_size": 8, "optimizer": "sgd"}),
    ("train", "hf:distilbert", {"batch_size": 2, "sequence_length": 32, "precision": "bf16"}),
    ("train", "hf:distilbert", {"batch_size": 8, "gradient_checkpointing": True}),
    ("train", "hf:distilbert", {"batch_size": 4, "fused": "off", "grad_clip": 1.0}),
    ("train", "hf:distilbert", {"batch_size": 4, "lora": 8}),
    ("train", "hf:distilbert", {"batch_size": 4, "optimizer": "adamw8bit"}),
    ("infer", "hf:distilbert", {"batch_size": 8}),
    ("train", "hf:bert", {"batch_size": 2}),
    ("train", "hf:bert", {"batch_size": 8}),
    ("train", "hf:bert", {"batch_size": 8, "gradient_checkpointing": True, "optimizer": "sgd"}),
    ("train", "hf:bert", {"batch_size": 2, "grad_accumulation": 2, "sequence_length": 64}),
    ("infer", "hf:bert", {"batch_size": 2, "sequence_length": 32, "precision": "bf16"}),
    ("train", "hf:gpt2", {"batch_size": 2}),
    ("train", "hf:gpt2-tiny", {"batch_size": 16, "precision": "bf16"}),
    ("train", "hf:gpt2", {"batch_size": 8, "gradient_checkpointing": True}),
    ("train", "hf:gpt2", {"batch_size": 2, "lora": 16, "precision": "bf16"}),
    ("train", "hf:gpt2-tiny", {"batch_size": 2, "lora": 8, "optimizer": "adamw8bit"}),
    ("infer", "hf:gpt2", {"batch_size": 4}),
    ("train", "hf:opt-125m", {"batch_size": 2}),
    ("train", "hf:vit-base", {"batch_size": 4}),
    ("train", "hf:vit-tiny", {"batch_size": 16, "precision": "bf16", "optimizer": "sgd"}),
    ("infer", "hf:vit-base", {"batch_size": 8}),
    ("train", "hf:resnet-50", {"batch_size": 8}),
    ("train", "hf:resnet-tiny", {"batch_size": 8, "optimizer": "sgd", "precision": "bf16"}),
    ("train", "hf:resnet-50", {"batch_size": 8, "channels_last": "on"}),
    ("infer", "hf:resnet-50", {"batch_size": 16}),
    ("train", "hf:whisper-tiny", {"batch_size": 1, "audio_s": 30.0}),
    ("infer", "hf:clip-vit-base", {"batch_size": 8}),
)


def cases(kind: str) -> Iterator[Case]:
    """Yield the Cases for a kind of device."""
    for task, model, axes in CASES:
        # One thread: peaks are the same but for buffers of threads, and others at work do not make it minutes.
        asked = {axis: (value,) for axis, value in {**axes, "threads": 1}.items()}
        sketch = plan.sketch(WorkloadRequest(task, model, "synthetic", axes=asked))
        yield Case(sketch.workload, sketch.configurations[0], Placement(kind))


def present(kind: str) -> Mapping[str, DeviceInfo]:
    """Return the first device of that kind. Raises LookupError where there is none."""
    found = [device for device in inspect().devices if device.kind == kind]
    if not found:
        raise LookupError(f"no device {kind}")
    return {"device": found[0]}


def predicted(case: Case, device: DeviceInfo | None) -> Mapping[str, Any]:
    """Return what is told of a Case without taking it."""
    began_s = time.perf_counter()
    size = int(case.configuration["batch_size"] or 1)
    (peak,) = foretell(MemoryRequest(case, device, (size,), settings="device")).peaks
    return {
        "bytes": peak.allocated_bytes, "kinds": dict(peak.kinds), "phase": peak.phase,
        "reserved_bytes": peak.reserved_bytes, "elapsed_s": round(time.perf_counter() - began_s, 2),
    }  # fmt: skip


def counted(case: Case) -> Mapping[str, Any]:
    """Return what the allocator counts while the Case is taken."""
    import torch

    if case.placement.device != "cpu":
        _steps(case, torch.cuda.reset_peak_memory_stats)
        stats = torch.cuda.memory_stats()
        return {"bytes": stats["allocated_bytes.all.peak"], "reserved_bytes": stats["reserved_bytes.all.peak"]}
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        begun: list[int] = []
        with torch.profiler.record_function("before"):
            pass

        def begin() -> None:
            with torch.profiler.record_function("first step"):
                begun.append(1)

        _steps(case, begin)
    events = sorted(profile.profiler.kineto_results.events(), key=lambda event: event.start_ns())
    first_ns = next(event.start_ns() for event in events if event.name() == "first step")
    alive = most = 0
    for event in events:
        if event.name() == "[memory]":
            alive += event.nbytes()
            if event.start_ns() >= first_ns:
                most = max(most, alive)
    return {"bytes": most}


def _steps(case: Case, begin: Callable[[], None]) -> None:
    """Build and take the steps, as a trial does; `begin` is called before the first."""
    import torch

    torch.manual_seed(0)
    device, engine = open_device(case), registry.load("engines", str(case.workload.task))
    model = load_model(case)
    case, _ = settle(case, model, device, "device")
    prepared = engine.prepare(case, model, device)
    batches = engine.open_batches(case, model, open_samples(case, model, 0), device, 0)
    begin()
    for _ in range(_STEPS):
        prepared.step(batches.next, unmarked)
    device.synchronize()


def apart(work: Callable[..., Mapping[str, Any]], *words: Any) -> Mapping[str, Any]:
    """Do it in a process of its own; an error is told as one."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(theirs, work, words))
    process.start()
    theirs.close()
    try:
        return ours.recv() if ours.poll(_MOST_S) else {"error": f"no answer in {_MOST_S:g} s"}
    except EOFError:
        return {"error": "the process died"}
    finally:
        process.kill()
        process.join()


def _answer(line: Connection, work: Callable[..., Mapping[str, Any]], words: Sequence[Any]) -> None:
    try:
        line.send(work(*words))
    except Exception as error:  # whatever it is, the others go on
        line.send({"error": f"{type(error).__name__}: {error}"[:300], "traceback": traceback.format_exc()[-2000:]})


def judged(rows: Sequence[Mapping[str, Any]]) -> Mapping[str, float]:
    """Return the errors of all cases: median, nine tenths, the worst, and how many there are."""
    errors = sorted(abs(row["error"]) for row in rows if row["error"] is not None)
    return {
        "cases": len(errors), "median": statistics.median(errors), "nine_tenths": errors[int(0.9 * (len(errors) - 1))],
        "worst": errors[-1],
    }  # fmt: skip


def main() -> None:
    """Predict, count, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", default="", help="cases with that word in their line")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    kind = options.device
    registry.load("models", "hf").preload("bert")  # what processes share is imported once
    for _, engine in registry.usable("engines"):
        engine.preload()
    device = apart(present, kind)["device"] if kind != "cpu" else None  # a driver once asked is no good after a fork
    rows: list[dict[str, Any]] = []
    print(f"{'case':<78}{'predicted':>12}{'counted':>12}{'error':>9}  told in")
    for (task, model, axes), case in zip(CASES, cases(kind), strict=True):
        name = f"{task} {model} " + " ".join(f"{axis}={value}" for axis, value in axes.items())
        if options.only not in name:
            continue
        told, truth = apart(predicted, case, device), apart(counted, case)
        known = "bytes" in told and "bytes" in truth
        error = told["bytes"] / truth["bytes"] - 1.0 if known else None
        rows.append({"case": name, "predicted": told, "counted": truth, "error": error})
        if error is None:
            print(f"{name:<78}  {told.get('error', '')} {truth.get('error', '')}", flush=True)
            continue
        mib = [value / 2**20 for value in (told["bytes"], truth["bytes"])]
        print(
            f"{name:<78}{mib[0]:>8.1f} MiB{mib[1]:>8.1f} MiB{100 * error:>+8.2f} %  {told['elapsed_s']} s", flush=True
        )
    found = judged(rows)
    print(" ".join(itertools.chain(f"{k} {v:.4g}" for k, v in found.items())))
    if options.json is None and not options.only:
        options.json = (
            Path(__file__).parent / "data" / ("memory_model.json" if kind == "cpu" else f"memory_{kind}.json")
        )
    if options.json is not None:
        options.json.write_text(json.dumps({"device": kind, "errors": found, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
