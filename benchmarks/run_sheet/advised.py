"""B6: what diagnose finds of one training in plain fp32, and whether what it advises makes it as fast as it says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from run_sheet import documents
from run_sheet.here import Here, Refused
from run_sheet.profiles import kernels


def diagnosed(here: Here) -> None:
    """Note the kernel time of a step against the step, what diagnose names first, and the step by its advice."""
    model, batch = ("hf:distilbert-tiny", 8) if here.on_cpu else ("hf:distilbert-base-uncased", 64)
    axes: dict[str, Any] = {"batch_size": batch, "sequence_length": 128, "precision": "fp32"}
    kernels(here, model, {name: [value] for name, value in axes.items()})
    file = here.write("naive.json", {"workloads": [_training(model, axes)]})
    done = here.torchstone("diagnose", str(file), "--budget", "40s", "--within", "80s", limit_s=110)
    here.note("exit_code", done.code)
    try:
        diagnosis = done.document()["answer"]
    except (Refused, KeyError) as why:
        here.note("why", str(why))
        return
    causes = diagnosis["causes"]
    here.note("causes", len(causes))
    here.note("first_cause", causes[0]["id"] if causes else None)
    here.note("first_share", causes[0]["share"] if causes else None)
    gains = [one["gain"]["value"] for one in diagnosis["tried"] if one.get("gain")]
    here.note("tried", len(diagnosis["tried"]))
    here.note("largest_gain", max(gains) if gains else None)
    applied = diagnosis.get("applied") or {}
    settings = applied.get("what_if", {}).get("settings") or {}
    here.note("advised", ", ".join(f"{name}={value}" for name, value in settings.items()) or "nothing")
    if settings:
        here.note("stated_gain", (applied.get("gain") or {}).get("value"))
        _taken(here, model, axes, settings)


def _taken(here: Here, model: str, axes: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Measure the training as it was and as advised, each in a run of its own; by items, as the batch may differ."""
    rates: dict[str, float] = {}
    losses: dict[str, float] = {}
    for name, asked in (("naive", dict(axes)), ("advised", {**axes, **settings})):
        how = {"trials": 1, "budget": "300ms" if here.on_cpu else "2s"}
        file = here.write(f"{name}_run.json", {"workloads": [_training(model, asked)], "procedure": how})
        document = here.torchstone("run", str(file), "--no-phases", limit_s=60).document()
        (case,) = documents.cases(document)
        here.note(f"status_{name}", documents.status(case))
        if (rate := documents.figure(case, "throughput")) is not None:
            rates[name] = rate
            here.note(f"throughput_{name}", rate)
        if values := documents.raw(document, "loss").get(case["case_id"]):
            losses[name] = values[0]
    if len(rates) == 2:
        here.note("advised_over_naive", rates["advised"] / rates["naive"])
    if len(losses) == 2:
        here.note("first_losses_apart", abs(losses["advised"] / losses["naive"] - 1.0))


def _training(model: str, axes: Mapping[str, Any]) -> dict[str, Any]:
    return {"task": "train", "model": model, "data": "synthetic", "axes": dict(axes)}
