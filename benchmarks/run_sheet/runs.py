"""Steps that are runs of torchstone: fork and spawn, number formats, compilers, memory, page-locked batches, tune."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

from run_sheet import documents
from run_sheet.here import Here, Refused

_PRECISIONS = ("fp32", "tf32", "bf16", "fp16")
_GOOD = ("ok", "unsupported")  # what a device cannot do is said, and is no failure


def fork_and_spawn(here: Here) -> None:
    """A2. Measure one training with --device auto, its trials forked and in new interpreters."""
    model, batch = ("builtin:cnn", 64) if here.quick else ("hf:distilbert-base-uncased", 64)
    steps: dict[str, float] = {}
    not_forked: list[str] = []
    for how in ("fork", "spawn"):
        done = here.torchstone(
            "run", "--model", model, "--task", "train", "--data", "synthetic", "--axis", f"batch_size={batch}",
            "--trials", "1" if here.quick else "2", "--budget", "500ms" if here.quick else "3s", "--target", "0.2%",
            "--no-phases", "--device", "auto", "--isolation", how, limit_s=90,
        )  # fmt: skip
        (case,) = documents.cases(done.document())
        here.note(f"device_{how}", documents.device(case))
        here.note(f"status_{how}", documents.status(case))
        if why := documents.message(case):
            here.note(f"why_{how}", why)
        not_forked += [str(t["facts"]["not_forked"]) for t in case["trials"] if t.get("facts", {}).get("not_forked")]
        step_s = documents.figure(case, "step_time_p50")
        here.note(f"step_{how}_s", step_s)
        if step_s:
            steps[how] = step_s
    here.note("not_forked", not_forked[0][:200] if not_forked else "none")
    here.note("spawn_over_fork", steps["spawn"] / steps["fork"] if len(steps) == 2 else None)


def precisions(here: Here) -> None:
    """A4. Train and infer with two models in every number format: each ends well, and computes something of its own."""
    bert, resnet = ("hf:bert-tiny", "builtin:cnn") if here.quick else ("hf:bert-base-uncased", "hf:microsoft/resnet-50")
    formats = ("fp32", "bf16") if here.quick else _PRECISIONS
    sizes: Mapping[str, Mapping[str, Any]] = {
        bert: {"batch_size": 4 if here.quick else 32, "sequence_length": 32 if here.quick else 128},
        resnet: {"batch_size": 4 if here.quick else 64, "image_size": 32 if here.quick else 224},
    }
    axes = {"precision": list(formats)}
    workloads = [
        {"task": task, "model": model, "data": "synthetic", "axes": {**size, **axes, **more}}
        for model, size in sizes.items() for task, more in (("train", {}), ("infer", {"mode": "throughput"}))
    ]  # fmt: skip
    how = {"trials": 1, "budget": "300ms" if here.quick else "1s", "warmup_budget": "300ms" if here.quick else "1s"}
    file = here.write("precisions.json", {"workloads": workloads, "procedure": how})
    document = here.torchstone("run", str(file), "--no-phases", "--no-foresight", limit_s=None).document()
    found = documents.cases(document)
    ends = [documents.status(case) for case in found]
    here.note("cases", len(found))
    here.note("ok", ends.count("ok"))
    here.note("unsupported", ends.count("unsupported"))
    bad = [_name(case) for case, end in zip(found, ends, strict=True) if end not in _GOOD]
    here.note("not_ok", ", ".join(bad) or "none")
    prints = documents.raw(document, "fingerprint")
    here.note("fingerprints_apart", _all_apart(found, prints))
    here.note("most_off_fp32", _most_off(found, prints))
    for case in found:
        here.note(f"step_{_name(case)}_s", _step(case))


def _name(case: documents.Case) -> str:
    model = str(case["workload"]["model"]).rpartition(":")[2].rpartition("/")[2]
    return f"{model}_{case['workload']['task']}_{case['configuration']['precision']}"


def _step(case: documents.Case) -> float | None:
    return documents.figure(case, "step_time_p50") or documents.figure(case, "latency_per_batch_p50_s")


def _alike(found: Sequence[documents.Case], prints: Mapping[str, Sequence[float]]) -> list[dict[str, Sequence[float]]]:
    """Return, for each model and task, the fingerprint of each number format."""
    groups: dict[tuple[str, str], dict[str, Sequence[float]]] = {}
    for case in found:
        if (values := prints.get(case["case_id"])) is not None:
            key = (str(case["workload"]["model"]), str(case["workload"]["task"]))
            # Of a training its first losses; of an inference mean and spread of the output: a mean may be near 0.
            first = values if key[1] == "train" else values[::-1]
            groups.setdefault(key, {})[str(case["configuration"]["precision"])] = first
    return list(groups.values())


def _all_apart(found: Sequence[documents.Case], prints: Mapping[str, Sequence[float]]) -> bool | None:
    """Say whether no two formats computed the very same: equal fingerprints mean that a setting took no effect."""
    groups = _alike(found, prints)
    if not groups or any(len(group) < 2 for group in groups):
        return None
    return all(len({tuple(values) for values in group.values()}) == len(group) for group in groups)


def _most_off(found: Sequence[documents.Case], prints: Mapping[str, Sequence[float]]) -> float | None:
    """Return the largest relative difference of a fingerprint's first value to that in fp32."""
    shares = [
        abs(values[0] - group["fp32"][0]) / max(abs(group["fp32"][0]), 1e-3)
        for group in _alike(found, prints) if "fp32" in group for name, values in group.items() if name != "fp32"
    ]  # fmt: skip
    return max(shares) if shares and all(map(math.isfinite, shares)) else None


def compile_modes(here: Here) -> None:
    """A5. Train with each mode of torch.compile, then with CUDA graphs and accumulation; max-autotune last."""
    model = "hf:distilbert-tiny" if here.on_cpu else "hf:distilbert-base-uncased"
    axes: dict[str, Any] = {"batch_size": 8 if here.on_cpu else 64, "sequence_length": 128}
    # In fp32 max-autotune builds products without tensor cores, half a minute each: on an H200 100 s were too few.
    axes["precision"] = "fp32" if here.on_cpu else "bf16"
    how = {"trials": 1, "budget": "1s", "timeout": "100s"}
    rounds: Sequence[tuple[str, Sequence[str], int]] = (
        ("", ("off", "default", "reduce-overhead"), 1), ("_accumulating", ("reduce-overhead",), 2),
        ("", ("max-autotune",), 1),
    )  # fmt: skip
    losses: dict[str, float] = {}
    for suffix, modes, times in rounds:
        asked = {**axes, "compile": list(modes), "grad_accumulation": times}
        work = {"task": "train", "model": model, "data": "synthetic", "axes": asked}
        file = here.write(f"compile{suffix}_{modes[0]}.json", {"workloads": [work], "procedure": how})
        document = here.torchstone("run", str(file), "--no-phases").document()
        curves = documents.raw(document, "loss")
        for case in documents.cases(document):
            name = str(case["configuration"]["compile"]).replace("-", "_") + suffix
            here.note(f"status_{name}", documents.status(case))
            if why := documents.message(case):
                here.note(f"why_{name}", why)
            here.note(f"first_step_{name}_s", documents.figure(case, "first_step_time_s"))
            here.note(f"step_{name}_s", documents.figure(case, "step_time_p50"))
            if (values := curves.get(case["case_id"])) and not suffix:
                losses[name] = values[0]
    if "off" in losses and len(losses) > 1:
        here.note("most_loss_off", max(abs(value / losses["off"] - 1.0) for value in losses.values()))


def runtimes(here: Here) -> None:
    """A6. Answer batches of one in each runtime that computes on the device: their answers are those of eager mode."""
    model = "builtin:cnn" if here.on_cpu else "hf:microsoft/resnet-50"
    for name in ("eager", "aoti", "onnxruntime"):
        done = here.torchstone(
            "run", "--model", model, "--task", "infer", "--data", "synthetic", "--axis", "batch_size=1", "--axis",
            "mode=latency", "--axis", f"runtime={name}", "--trials", "1", "--budget", "1s", "--no-phases", limit_s=100,
        )  # fmt: skip
        try:
            (case,) = documents.cases(done.document())
        except Refused as refusal:  # the library is not here
            here.note(f"why_{name}", str(refusal))
            continue
        here.note(f"status_{name}", documents.status(case))
        if why := documents.message(case):
            here.note(f"why_{name}", why)
        here.note(f"latency_{name}_s", documents.figure(case, "latency_per_batch_p50_s"))
        here.note(f"error_{name}", documents.figure(case, "relative_output_error"))


def out_of_memory(here: Here) -> None:
    """B2. Train GPT-2 with ever larger batches until memory ends, one more that is foreseen, and then small ones.

    Of the small ones 64 is what the device does; a step of 8 is Python, and differs by a tenth between two processes.
    """
    batches = (8, 64, 512, 2048, 4096, 8192)
    common = ("run", "--model", "hf:gpt2", "--task", "train", "--data", "synthetic:full")
    how = ("--axis", "sequence_length=128", "--trials", "1", "--budget", "1s", "--warmup-budget", "1s", "--no-phases")
    first = [word for batch in batches[:-1] for word in ("--first", f"batch_size={batch}")]
    axis = ("--axis", "batch_size=" + ",".join(map(str, batches)))
    document = here.torchstone(*common, *axis, *how, *first).document()
    ends: dict[int, str] = {}
    for case in documents.cases(document):
        batch = int(case["configuration"]["batch_size"])
        ends[batch] = documents.status(case)
        here.note(f"status_{batch}", ends[batch])
        here.note(f"peak_{batch}_bytes", documents.figure(case, "peak_allocated_bytes"))
        if why := documents.message(case):
            here.note(f"why_{batch}", why[:200])
    bad = [end for end in ends.values() if end not in ("ok", "out_of_memory", "skipped")]
    here.note("other_ends", ", ".join(bad) or "none")
    here.note("memory_ended", "out_of_memory" in ends.values())
    here.note("foreseen", "skipped" in ends.values())
    again = here.torchstone(*common, "--axis", "batch_size=8,64", *how).document()
    for batch in (8, 64):
        here.note(f"status_{batch}_again", documents.status(documents.case_where(again, batch_size=batch)))
        before_s, after_s = _case_step(document, batch), _case_step(again, batch)
        here.note(f"again_over_before_{batch}", after_s / before_s if after_s and before_s else None)


def _case_step(document: Mapping[str, Any], batch: int) -> float | None:
    return documents.figure(documents.case_where(document, batch_size=batch), "step_time_p50")


def pinned_batches(here: Here) -> None:
    """B5. Train ResNet-50 through a loader, its batches page-locked or not."""
    workers = max(1, min(8, (os.cpu_count() or 2) - 1))
    here.note("workers", workers)
    document = here.torchstone(
        "run", "--model", "hf:microsoft/resnet-50", "--task", "train", "--data", "digits", "--axis", "batch_size=64",
        "--axis", "image_size=224", "--axis", "precision=bf16", "--axis", "feed=loader",
        "--axis", f"num_workers={workers}", "--axis", "pin_memory=false,true", "--trials", "1", "--budget", "5s",
    ).document()  # fmt: skip
    for name, value in (("pageable", False), ("pinned", True)):
        case = documents.case_where(document, pin_memory=value)
        here.note(f"status_{name}", documents.status(case))
        if why := documents.message(case):
            here.note(f"why_{name}", why)
        here.note(f"transfer_{name}_s", documents.figure(case, "phase_transfer_s"))
        here.note(f"throughput_{name}", documents.figure(case, "throughput"))
        here.note(f"data_wait_share_{name}", documents.figure(case, "data_wait_share"))


def tuned(here: Here) -> None:
    """C4. Find the fastest safe settings of GPT-2's training in a minute."""
    model, length = ("hf:gpt2-tiny", 64) if here.on_cpu else ("hf:gpt2", 128)
    done = here.torchstone(
        "tune", "--model", model, "--task", "train", "--data", "synthetic:full", "--axis", f"sequence_length={length}",
        "--quick", "--within", "70s", limit_s=130,
    )  # fmt: skip
    here.note("exit_code", done.code)
    here.note("took_s", done.took_s)
    try:
        document = done.document()
    except Refused as why:
        here.note("why", str(why))
        return
    answer = document.get("answer")
    here.note("has_answer", answer is not None)
    ends = [str(trial["outcome"]["status"]) for case in documents.cases(document) for trial in case["trials"]]
    here.note("trials", len(ends))
    here.note("out_of_memory", ends.count("out_of_memory"))
    here.note("crashed", ends.count("crashed"))
