"""Shared by the checks: a run's cases with their valid trials, and the steady windows of a trial."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from statistics import median

from torchstone.core.datasheet import DatasheetPeak, dense_peak_flops
from torchstone.core.messages import Values
from torchstone.core.schema.axis import Scalar, scalar_word
from torchstone.core.schema.case import Case, Task
from torchstone.core.schema.estimate import Finding
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.run import Run, is_imported
from torchstone.core.schema.trial import Stage, Trial, ended_well, estimation_trials, replicates
from torchstone.core.stats.disturbance import TOLERATED_CORES, undisturbed_part
from torchstone.core.stats.readings import other_cpu_cores

_STEP_METRICS = ("step_time_s", "latency_s")
_FEW = 0.1  # of the trials
INLINE = "inline"  # the isolation of what was measured in the user's own process, through Python
_MORE = 1.02
_PRECISIONS = ("fp32", "tf32", "bf16", "fp16")
ASYNCHRONOUS = ("cuda", "rocm", "mps", "xpu")  # devices that run behind the host


def trials_by_case(run: Run) -> Iterator[tuple[str, Case, tuple[Trial, ...]]]:
    """Yield (case_id, Case, all its trials) for each Case of the plan. One pass: an imported run may have 100,000."""
    found: dict[str, list[Trial]] = {}
    for trial in run.trials:
        found.setdefault(trial.case_id, []).append(trial)
    for case_id, case in {case.case_id: case for case in run.head.plan.cases}.items():
        yield case_id, case, tuple(found.get(case_id, ()))


def sound(run: Run) -> Iterator[tuple[str, Case, tuple[Trial, ...]]]:
    """Yield (case_id, Case, the trials behind its estimates, without their disturbed parts) for each Case that has one.

    Probes are no replicates.
    """
    for case_id, case, trials in trials_by_case(run):
        if good := replicates(ended_well(trials)):
            yield case_id, case, tuple(undisturbed_part(trial) for trial in estimation_trials(good))


def windows(trial: Trial) -> Iterator[tuple[str, tuple[float, ...]]]:
    """Yield (name, times of its steps or answers in seconds) of each steady window."""
    for m in trial.measurements:
        if m.metric in _STEP_METRICS and m.stage == Stage.STEADY and m.phase is None and m.rank == 0:
            yield m.window or "steady", m.values


def busy(trial: Trial) -> Iterator[tuple[str, tuple[float, ...]]]:
    """Yield the windows with the wait for data taken out of their steps: a loader's bursts are no kinds of steps."""
    for name, times in windows(trial):
        waits = trial.values("data_wait_s", window=name)
        if name != "latency" and len(waits) == len(times):  # a latency leaves the wait out already
            yield name, tuple(max(0.0, t - w) for t, w in zip(times, waits, strict=True))
        else:
            yield name, times


def of_their_work(trial: Trial, window: str, slow: Sequence[bool]) -> bool:
    """Say whether the slower steps of a window have more items or tokens to work on. Some are slow, and some are not.

    Trials have one seed, and so the same batches: that most of them agree does not tell.
    """
    for metric in ("items", "tokens"):
        work = trial.values(metric, window=window)
        if len(work) == len(slow):
            more = median(w for w, high in zip(work, slow, strict=True) if high)
            if more > _MORE * median(w for w, high in zip(work, slow, strict=True) if not high):
                return True
    return False


def alone(trials: tuple[Trial, ...]) -> tuple[Trial, ...]:
    """Return the trials beside which nothing else was busy: what others do to steps is said once, by `neighbours`."""
    return tuple(t for t in trials if not t.disturbed and (other_cpu_cores(t) or 0.0) <= TOLERATED_CORES)


def many(disturbed: int, trials: int) -> bool:
    """Say whether so many trials were disturbed that it may have decided what is said of all: more than a tenth.

    Of many short trials some meet a busy moment, whatever the machine. Their spread is in the interval.
    """
    return disturbed > _FEW * trials


def longer(procedure: Procedure) -> str:
    """Return what to type for four times as long a measurement, in the words in which its length was asked for."""
    if procedure.epochs is not None:
        steps = procedure.iterations
        return f"--epochs {4 * procedure.epochs}" if steps is None else f"--steps {4 * steps}"
    if procedure.iterations is not None:
        return option(procedure, "iterations", 4 * procedure.iterations)
    return budget(procedure, 4 * procedure.budget_s)


def option(procedure: Procedure, name: str, value: int) -> str:
    """Return an option of `torchstone run` as it is typed; from Python it is an argument of the same name."""
    return f"{name}={value}" if procedure.isolation == INLINE else f"--{name} {value}"


def budget(procedure: Procedure, seconds: float) -> str:
    """Return what to type for windows of at most so many seconds."""
    return f"budget_s={seconds:g}" if procedure.isolation == INLINE else f"--budget {seconds:g}s"


def own_loop(procedure: Procedure) -> tuple[str, ...]:
    """Return the remedy beside a longer budget where a loop of the user's own ends where it ends."""
    open_ended = procedure.epochs is None and procedure.iterations is None
    return ("own_loop",) if open_ended and procedure.isolation == INLINE else ()


def setting(run: Run, axis: str, value: Scalar) -> str:
    """Return a setting as it is typed; where Python or another tool measured, its name and its value."""
    elsewhere = is_imported(run) or run.head.procedure.isolation == INLINE
    return f"{axis}={value}" if elsewhere else f"--axis {axis}={scalar_word(value)}"


def here_or_there(run: Run, remedy: str) -> str:
    """Return the remedy for a run of ours, or the one for another tool's."""
    return f"{remedy}_there" if is_imported(run) else remedy


def less_memory(case: Case, run: Run, smaller: int | None = None) -> tuple[str, Values]:
    """Return the remedy for less memory with its values: what reduces it, cheapest first, without what is used already.

    A smaller batch (half of this, or `smaller`), bf16, accumulation, checkpointing, then a smaller model.
    """
    configuration = case.configuration
    size, pulls = configuration.get("batch_size"), configuration.get("grad_accumulation")
    if smaller is None:
        smaller = size // 2 if isinstance(size, int) else 0
    rungs = [setting(run, "batch_size", smaller)] if smaller else []
    if configuration.get("precision") in ("fp32", "tf32"):
        rungs.append(setting(run, "precision", "bf16"))
    if case.workload.task == Task.TRAIN:
        if smaller and isinstance(size, int):
            as_many = size // smaller * (pulls if isinstance(pulls, int) and pulls > 0 else 1)
            rungs.append(f"batch_size={smaller} grad_accumulation={as_many}")
        if not configuration.get("gradient_checkpointing"):
            rungs.append(setting(run, "gradient_checkpointing", "true"))
    return ("less_memory", {"settings": tuple(rungs)}) if rungs else ("smaller_model", {})


def once(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield the first of the findings of a kind: those of other trials differ in their numbers."""
    seen = set()
    for finding in findings:
        kind = (finding.severity, finding.reason, finding.values.get("figure"), finding.values.get("window"))
        if kind not in seen:
            seen.add(kind)
            yield finding


def peak_of(run: Run, case: Case) -> DatasheetPeak | None:
    """Return the peak of one device, in FLOP/s, at the Case's precision; None where it is not known."""
    device = run.head.machine.device(case.placement.device, case.placement.index)
    if device is None:
        return None
    precision = str(case.configuration.get("precision"))
    # Others may leave TF32 on for what they call fp32, and do not always say what autocast does.
    asked = _PRECISIONS if is_imported(run) or precision not in _PRECISIONS else (precision,)
    found = [dense_peak_flops(device.name, each, device.memory_bytes) for each in asked]
    return max((peak for peak in found if peak is not None), key=lambda peak: peak.value, default=None)
