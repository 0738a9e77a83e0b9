"""Builders of terms for tests: small, sound and overridable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from torchstone.core.messages import Words
from torchstone.core.schema.answer import AbResult, Course, TuneSpec
from torchstone.core.schema.case import Case, Placement, Task, Workload
from torchstone.core.schema.comparison import Comparison
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.machine import DeviceInfo, Host, Machine, Peaks, Rate
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.run import SCHEMA, End, Head, Plan, Run, Slot
from torchstone.core.schema.submission import Submission
from torchstone.core.schema.trial import Measurement, Outcome, Series, Stage, Status, Trial

STEPS_S = (0.010, 0.011, 0.010, 0.012, 0.010, 0.011, 0.010, 0.012, 0.010, 0.011)


def a_machine(**changes: Any) -> Machine:
    """A machine with 8 cores and no accelerator."""
    host = Host("host", "Linux-6.1", "a processor", 4, 8, 16 * 2**30)
    return Machine(**{"host": host, "devices": (), "software": {"torch": "2.9.0"}, "settings": {}, **changes})


def peaks_of(**changes: Any) -> Peaks:
    """What the CPU of `a_machine` does at best with two threads: 200 GFLOP/s in fp32, 400 in bf16, 30 GB/s, 2 µs.

    `changes`: fields of Peaks, or other values of rates by their names.
    """
    values = {
        "matmul_fp32": 2e11, "matmul_bf16": 4e11, "memory_copy": 2.8e10, "memory_triad": 3e10, "kernel_launch": 2e-6,
    }  # fmt: skip
    values = {name: changes.pop(name, value) for name, value in values.items()}
    units = {"kernel_launch": "s", "memory_copy": "bytes/s", "memory_triad": "bytes/s"}
    fields = {
        "hostname": "host", "processor": "a processor", "kind": "cpu", "index": 0, "device_name": "a processor",
        "uuid": None, "torch": "2.9.0", "threads": 2, "measured_utc": "2026-11-22T00:00:00+00:00", "elapsed_s": 20.0,
        "rates": tuple(Rate(name, value, units.get(name, "FLOP/s"), "as it is") for name, value in values.items()),
        "cache_bytes": 32 << 20,
    }  # fmt: skip
    return Peaks(**{**fields, **changes})


def a_case(configuration: Mapping[str, Any] | None = None, **changes: Any) -> Case:
    """Training a small network on the CPU; `changes` are fields of Workload, or a placement."""
    placement = changes.pop("placement", Placement("cpu"))
    fields = {"task": Task.TRAIN, "model": "net:cnn", "data": "synthetic", "item": "image", **changes}
    return Case(Workload(**fields), {"batch_size": 16, **(configuration or {})}, placement)


def a_tune_spec(**changes: Any) -> TuneSpec:
    """A tune of a small network over batch size, workers and precision: 8 points."""
    base = {
        "batch_size": 8, "precision": "fp32", "num_workers": 0, "pin_memory": False, "prefetch_factor": 2,
        "feed": "loader", "grad_accumulation": 1, "learning_rate": 1e-3, "image_size": 32,
    }  # fmt: skip
    axes = {"batch_size": (8, 32), "num_workers": (0, 2), "precision": ("fp32", "bf16")}
    return TuneSpec(**{"objective": "throughput", "searcher": "grid", "base": a_case(base), "axes": axes, **changes})


def facts_of(values: Mapping[str, Any] | Facts) -> Facts:
    """Facts by their names, claims as claimed_<figure>; what is none of ours is of another tool."""
    if isinstance(values, Facts):
        return values
    ours = {name: value for name, value in values.items() if name in Facts.__struct_fields__}
    claimed = {name.removeprefix("claimed_"): value for name, value in values.items() if name.startswith("claimed_")}
    other = {name: value for name, value in values.items() if name not in ours and not name.startswith("claimed_")}
    return Facts(**{"claimed": claimed, "other": other, **ours})


def a_trial(
    steps_s: Sequence[float] = STEPS_S,
    *,
    window: str = "throughput",
    items: float = 16,
    begin_s: float = 2.0,
    steady: Mapping[str, Sequence[float]] | None = None,
    setup: Mapping[str, Sequence[float]] | None = None,
    facts: Mapping[str, Any] | None = None,
    series: Sequence[Series] = (),
    more: Sequence[Measurement] = (),
    status: Status = Status.OK,
    **changes: Any,
) -> Trial:
    """A trial with one window of these steps, begun `begin_s` after it was asked for.

    `steady` replaces or adds values of that window, `setup` those of the setup; `more` are further measurements.
    """
    metric = "latency_s" if window == "latency" else "step_time_s"
    total_s = sum(steps_s)
    values = {
        metric: steps_s,
        "items": [items] * len(steps_s),
        "data_wait_s": [0.0] * len(steps_s),
        "window_time_s": [total_s],
        "window_span_s": [begin_s, begin_s + total_s],
        **(steady or {}),
    }
    measured = [Measurement(name, Stage.STEADY, tuple(v), window) for name, v in values.items()]
    measured += [Measurement(name, Stage.SETUP, tuple(v)) for name, v in (setup or {}).items()]
    fields = {
        "trial_id": "t0",
        "case_id": a_case().case_id,
        "number": 0,
        "order": 0,
        "started_utc": "2026-11-21T10:00:00Z",
        "duration_s": begin_s + total_s,
        "outcome": Outcome(status),
        "facts": facts_of({"task": "train", "logical_cores": 8, "warmup_settled": True, **(facts or {})}),
        "measurements": (*measured, *more),
        "series": tuple(series),
    }
    return Trial(**{**fields, **changes})


def a_finding(check: str, severity: Severity, message: str, advice: str, subject: str) -> Finding:
    """Return a finding with texts of its own, which may hold anything."""
    plain = Words(*(text.replace("{", "{{").replace("}", "}}") for text in (message, advice)))
    return Finding(check, severity, subject, words=plain)


def a_run(
    trials: Sequence[Trial] | None = None,
    *,
    cases: Sequence[Case] | None = None,
    procedure: Procedure | None = None,
    **changes: Any,
) -> Run:
    """A finished run of three sound trials of one case, or of the given trials."""
    cases = (a_case(),) if cases is None else tuple(cases)
    trials = [a_trial(trial_id=f"t{i}", number=i, order=i) for i in range(3)] if trials is None else trials
    slots = tuple(Slot(case, trial) for trial in range(3) for case in range(len(cases)))
    head = Head(
        schema=SCHEMA,
        run_id="20261121-100000-abcd",
        name="test",
        started_utc="2026-11-21T10:00:00Z",
        command=("torchstone", "run", "cnn"),
        machine=changes.pop("machine", a_machine()),
        procedure=procedure or Procedure(trials=3),
        plan=Plan(tuple(cases), slots),
    )
    end = End("2026-11-21T10:01:00Z", "done")
    return Run(**{"head": head, "trials": tuple(trials), "findings": (), "end": end, **changes})


def compared(run: Run, comparison: Comparison | None) -> Run:
    """The run with what a live comparison found. A pair took 3 s."""
    pairs = len(run.trials) // 2
    answer = None if comparison is None else AbResult(comparison, Course(pairs, 1, 3.0 * pairs, "settled"))
    return msgspec.structs.replace(run, answer=answer)


def a_sweep(
    cases: Sequence[tuple[Mapping[str, Any], float]],
    *,
    trials: int = 3,
    spread: float = 0.01,
    status: Mapping[int, Status] | None = None,
    phases: Mapping[str, float] | None = None,
    memory: bool = True,
    utilization: float | None = None,
    **changes: Any,
) -> Run:
    """A run of training cases on an 80 GB card: (configuration, step time in s), trials that differ by ±`spread`.

    `status`: how the trials of the n-th case ended, if not well; `phases`: shares of the step; `memory`: 10 MB an item;
    `utilization`: what the card's gauge said in every window.
    """
    device = DeviceInfo("cuda", "cuda", "nvidia", 0, "a card", 80 * 10**9)
    made: list[Case] = []
    taken: list[Trial] = []
    for n, (configuration, step_s) in enumerate(cases):
        case = Case(a_case().workload, configuration, Placement("cuda"))
        made.append(case)
        size = case.configuration["batch_size"]
        assert isinstance(size, int)
        for number in range(trials):
            time_s = step_s * (1.0 + spread * (number - (trials - 1) / 2))
            more = [
                Measurement("phase_time_s", Stage.STEADY, (share * time_s,), "throughput", name)
                for name, share in (phases or {}).items()
            ]
            held = {"peak_reserved_bytes": [1e7 * size]} if memory else {}
            at_s = tuple(2.0 + i * time_s for i in range(10))
            gauge = [Series("device_utilization", "nvml", at_s, (utilization,) * 10)] if utilization is not None else []
            how = (status or {}).get(n, Status.OK)
            ended: dict[str, Any] = {}
            if how != Status.OK:
                ended = {"outcome": Outcome(how, f"it took {size} GiB of 80"), "measurements": ()}
            taken.append(
                a_trial(
                    [time_s] * 10, items=size, case_id=case.case_id, more=more, steady=held, series=gauge,
                    trial_id=f"t{n}-{number}", number=number, order=len(taken), **ended,
                )
            )  # fmt: skip
    return a_run(taken, cases=made, machine=a_machine(devices=(device,)), **changes)


def a_submission(cases: int = 4, trials: int = 2, cases_per_job: int = 1, **changes: Any) -> Submission:
    """A run of so many cases, handed to SLURM in jobs of so many."""
    plan = Plan(
        tuple(a_case({"batch_size": 2**n}) for n in range(cases)),
        tuple(Slot(case, number) for number in range(trials) for case in range(cases)),
    )
    head = Head(
        SCHEMA, "20261123-190000-abcdef", "sweep", "2026-11-23T19:00:00+00:00", ("torchstone", "submit"),
        a_machine(), Procedure(trials=trials), plan,
    )  # fmt: skip
    shares = tuple(tuple(range(start, min(cases, start + cases_per_job))) for start in range(0, cases, cases_per_job))
    fields = {
        "schema": SCHEMA, "head": head, "shares": shares, "cluster": "slurm", "wanted": {}, "folder": "/work",
        "output": "/work/outputs", "python": "/usr/bin/python3",
    }  # fmt: skip
    return Submission(**{**fields, **changes})


def a_part(submission: Submission, share: int, *numbers: int, started: str = "19:01:00", **changes: Any) -> Run:
    """What a job recorded of a share: these trials of each of its cases."""
    cases = [submission.head.plan.cases[place] for place in submission.shares[share]]
    utc = f"2026-11-23T{started}+00:00"
    run_id = f"{submission.head.run_id}-{share}-{started.replace(':', '')}"
    machine = changes.pop("machine", a_machine())
    head = msgspec.structs.replace(
        submission.head, run_id=run_id, started_utc=utc, machine=machine, plan=Plan(tuple(cases), ())
    )
    trials = tuple(
        a_trial(case_id=case.case_id, number=number, trial_id=f"{run_id}-{case.case_id}-{number}", **changes)
        for number in numbers for case in cases
    )  # fmt: skip
    return Run(head, trials, (), End(utc, "done"))
