"""D1: what torchstone says of a workload, over what a loop written by hand takes for the same (by_hand.py)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import log, sqrt
from typing import Any

from run_sheet import documents
from run_sheet.here import Done, Here, Refused

# name → what `torchstone run` is asked for; batch sizes and lengths are those of by_hand.WORKS
_ASKED: Mapping[str, tuple[str, ...]] = {
    "resnet": (
        "--task", "train", "--model", "hf:microsoft/resnet-50", "--data", "synthetic", "--axis", "batch_size=256",
        "--axis", "image_size=224", "--axis", "channels_last=on",
    ),
    "bert": (
        "--task", "train", "--model", "hf:bert-base-uncased", "--data", "synthetic:full", "--axis", "batch_size=256",
        "--axis", "sequence_length=128",
    ),
    "gpt2": (
        "--task", "train", "--model", "hf:gpt2", "--data", "synthetic:full", "--axis", "batch_size=16",
        "--axis", "sequence_length=1024",
    ),
    "generate": (
        "--task", "generate", "--model", "hf:gpt2", "--data", "synthetic:full", "--axis", "batch_size=16",
        "--axis", "sequence_length=128", "--axis", "new_tokens=64", "--axis", "mode=throughput",
    ),
    "bert-tiny": (
        "--task", "train", "--model", "hf:bert-tiny", "--data", "synthetic:full", "--axis", "batch_size=8",
        "--axis", "sequence_length=64",
    ),
    "generate-tiny": (
        "--task", "generate", "--model", "hf:gpt2-tiny", "--data", "synthetic:full", "--axis", "batch_size=4",
        "--axis", "sequence_length=32", "--axis", "new_tokens=16", "--axis", "mode=throughput",
    ),
}  # fmt: skip
_WHOLE, _TINY, _QUICK = ("bert", "gpt2", "generate", "resnet"), ("bert-tiny", "generate-tiny"), ("bert-tiny",)


def compare(here: Here) -> None:
    """Note for each workload seconds a step by hand, before and after, by torchstone between them, and the ratio.

    What drifts linearly, clocks and heat, cancels. Raises Refused at the end where a workload failed; the others are
    measured all the same.
    """
    precision = "fp32" if here.on_cpu else "bf16"
    names = _QUICK if here.quick else _TINY if here.on_cpu else _WHOLE
    failed: list[str] = []
    for name in names:
        try:
            _one(here, name, precision)
        except Refused as why:
            failed.append(str(why))
    here.note("compared", len(names) - len(failed))
    if failed:
        raise Refused("; ".join(failed))


def _one(here: Here, name: str, precision: str) -> None:
    before = _by_hand(here, name, precision)
    ours_s, peak_bytes = _by_torchstone(here, name, precision)
    after = _by_hand(here, name, precision)
    hand_s = sqrt(before["step_s"] * after["step_s"])
    short = name.replace("-", "_")
    here.note(f"hand_{short}_s", hand_s)
    here.note(f"hands_apart_{short}", after["step_s"] / before["step_s"])
    here.note(f"ours_{short}_s", ours_s)
    here.note(f"ours_over_hand_{short}", ours_s / hand_s)
    # Generation waits for Python, whose speed differs between two processes of the same loop.
    here.note(f"off_{short}", abs(log(ours_s / hand_s)))
    here.note(f"allowed_{short}", max(0.01, abs(log(after["step_s"] / before["step_s"]))))
    if before.get("peak_bytes") and peak_bytes:
        here.note(f"peak_over_hand_{short}", peak_bytes / before["peak_bytes"])


def _by_hand(here: Here, name: str, precision: str) -> dict[str, Any]:
    words = ["-m", "run_sheet.by_hand", name, "--device", here.torch_kind, "--precision", precision]
    if here.quick or here.on_cpu:
        words += ["--warm", "0.5", "--window", "0.5", "--windows", "3"]
    done: Done = here.python(*words, limit_s=120)
    if done.code != 0:
        raise Refused(f"{name} by hand: {done.last_line}")
    told: dict[str, Any] = json.loads(done.out.strip().splitlines()[-1])
    return told


def _by_torchstone(here: Here, name: str, precision: str) -> tuple[float, float | None]:
    """Return the seconds a step by its rate, and the most memory that tensors held, in bytes."""
    how = ("--budget", "600ms", "--warmup-budget", "300ms") if here.quick else ("--budget", "5s")
    document = here.torchstone(
        "run", *_ASKED[name], "--axis", f"precision={precision}", "--trials", "1", "--no-phases", "--target", "0.1%",
        "--telemetry", "0", *how, limit_s=150,
    ).document()  # fmt: skip
    (case,) = documents.cases(document)
    batch, rate = int(case["configuration"]["batch_size"]), documents.figure(case, "throughput")
    if rate is None:
        raise Refused(f"{name} by torchstone: {documents.status(case)}: {documents.message(case)}")
    return batch / rate, documents.figure(case, "peak_allocated_bytes")
