"""Is there enough to judge by: trials, steps, machines of one kind, raw values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from torchstone.core.figures import PERCENTILES, figures
from torchstone.core.messages import Values
from torchstone.core.schema.case import Task
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.machine import Machine
from torchstone.core.schema.procedure import SERVER, Procedure
from torchstone.core.schema.run import Run, is_imported
from torchstone.core.schema.trial import Stage, Status, Trial
from torchstone.core.stats.quantile import needed
from torchstone.plugins.checks._cases import (
    INLINE,
    budget,
    here_or_there,
    longer,
    option,
    own_loop,
    sound,
    trials_by_case,
    windows,
)
from torchstone.plugins.protocols import check

_NAMED = 8  # machines
ENOUGH_TRIALS = 3
ENOUGH_STEPS = 5
_ENOUGH_STEPS_IN_ALL = 2 * ENOUGH_TRIALS  # of short trials: the interval is over trials, and says how little they tell
# An interrupted trial says that somebody pressed a key, and nothing of the Case.
_NO_FAILURE = (Status.OK, Status.INTERRUPTED)
_VALID = "VALID"  # LoadGen's word
_FEW_FAILED = 0.01  # of all requests: so many of the slowest decide the 99th percentile


@check("cases measured on several machines, by jobs of a cluster")
def several_machines(run: Run) -> Iterator[Finding]:
    """Fire on a run that was merged from jobs on machines of different kinds and, milder, of one kind.

    So it does on trials whose ranks were on nodes of different kinds.
    """
    unlike = next((trial.facts.unlike_nodes for trial in run.trials if trial.facts.unlike_nodes), None)
    if unlike is not None:
        yield Finding("several_machines", Severity.WARNING, "run", {"kinds": unlike}, "nodes")
    machines = run.head.machines
    hosts = list(dict.fromkeys(machine.host.hostname for machine in machines))
    kinds = list(dict.fromkeys(map(_kind, machines)))
    if len(kinds) > 1:
        values: Values = {"count": len(kinds), "kinds": tuple(kinds[:_NAMED])}
        yield Finding("several_machines", Severity.WARNING, "run", values, "kinds")
    elif len(hosts) > 1:
        values = {"count": len(hosts), "hosts": tuple(hosts[:_NAMED])}
        yield Finding("several_machines", Severity.INFO, "run", values)


def _kind(machine: Machine) -> str:
    """Return processor and accelerators of a machine in words."""
    names = [device.name for device in machine.devices if device.kind != "cpu"]
    return " + ".join(dict.fromkeys([machine.host.processor or machine.host.hostname, *names]))


@check("a case with fewer than 3 successful trials")
def few_trials(run: Run) -> Iterator[Finding]:
    """Fire on one trial of a Case (no interval at all) and, milder, on two (an interval too wide to use)."""
    for case_id, _, trials in sound(run):
        if len(trials) < ENOUGH_TRIALS:
            severity, reason = (Severity.WARNING, "one") if len(trials) == 1 else (Severity.INFO, "two")
            values: Values = {
                "enough": ENOUGH_TRIALS,
                "asked": run.head.procedure.trials,
                "setting": f"--trials {ENOUGH_TRIALS}",
            }
            yield Finding("few_trials", severity, case_id, values, reason, (_more_trials(run),))


def _more_trials(run: Run) -> str:
    procedure = run.head.procedure
    if is_imported(run):
        return "fresh_processes"
    if procedure.epochs is not None:
        return "run_it_too"
    if procedure.trials is None:
        return "more_time"
    if procedure.trials >= ENOUGH_TRIALS:
        return "others_ended"
    if run.head.plan.cases[0].workload.is_loop:
        return "script_again"
    return "trials_inline" if procedure.isolation == INLINE else "again"


@check("a window with fewer than 5 steady steps")
def few_samples(run: Run) -> Iterator[Finding]:
    """Fire where the shortest window of a Case has fewer than 5 steps; in rounds, where all have fewer than 6."""
    for case_id, case, trials in sound(run):
        sizes = [(len(times), name) for trial in trials for name, times in windows(trial)]
        if sizes and min(sizes)[0] < ENOUGH_STEPS:
            steps, name = min(sizes)
            if run.head.procedure.in_rounds and sum(n for n, of in sizes if of == name) >= _ENOUGH_STEPS_IN_ALL:
                continue  # many short trials were meant: their medians say more than one long window
            elsewhere = case.workload.is_loop or is_imported(run)
            remedies, values = _more_steps(run.head.procedure)
            values |= {"steps": steps, "window": name}
            remedies = ("steps_after_warmup",) if elsewhere else remedies
            yield Finding("few_samples", Severity.WARNING, case_id, values, remedies=remedies)


def _more_steps(procedure: Procedure) -> tuple[tuple[str, ...], Values]:
    if procedure.epochs is not None:
        return ("more_epochs",), {"epochs": procedure.epochs}
    if procedure.iterations is not None:
        return ("again",), {"setting": option(procedure, "iterations", 20)}
    if procedure.in_rounds and procedure.isolation != INLINE:
        return ("again",), {"setting": "--within 10m"}
    more = budget(procedure, 4 * procedure.budget_s)
    return ("again_before", *own_loop(procedure)), {"setting": more, "before": procedure.budget_s}


@check("a case with failed trials")
def failed_trials(run: Run) -> Iterator[Finding]:
    """Fire where a Case has trials that ended well and trials that failed. All failed is plain to see."""
    well = {case_id: len(trials) for case_id, _, trials in sound(run)}
    for case_id, _, trials in trials_by_case(run):
        failed = Counter(t.outcome.status for t in trials if t.outcome.status not in _NO_FAILURE)
        if failed and case_id in well:
            timeout_s = run.head.procedure.timeout_s
            values: Values = {
                "well": well[case_id],
                "failed": failed.total(),
                "endings": tuple(f"{count} {status}" for status, count in failed.items()),
                "run": run.head.run_id,
                "timeout": f"{timeout_s:g}",
                "double": f"{2 * timeout_s:g}",
            }
            remedies = tuple(dict.fromkeys(_on_failure(status, run) for status in failed))
            yield Finding("failed_trials", Severity.WARNING, case_id, values, remedies=remedies)


def _on_failure(status: Status, run: Run) -> str:
    if status == Status.TIMED_OUT:
        return "more_timeout"
    # What another tool wrote may not be stored, and its file is at hand.
    return here_or_there(run, "smaller_batch" if status == Status.OUT_OF_MEMORY else "see_message")


@check("a load on a server of which requests failed, or were cut off")
def failed_requests(run: Run) -> Iterator[Finding]:
    """Fire where another tool counts requests without an answer: they are in no latency and no rate, and are no sample.

    Those cut off at the end of a load are the long ones (GuideLLM's incomplete; vLLM's calculate_metrics and AIPerf's
    metrics leave out what is no success).
    """
    for case_id, _, trials in sound(run):
        counts = [trial.facts.other.get("failed_requests") for trial in trials]
        failed = sum(count for count in counts if isinstance(count, int))
        if failed > 0:
            answered = sum(figures(trial).values.get("total_items", 0.0) for trial in trials)
            values: Values = {"failed": failed, "answered": round(answered)}
            few = failed <= _FEW_FAILED * (failed + answered)
            yield Finding("failed_requests", Severity.INFO if few else Severity.WARNING, case_id, values)


@check("percentiles reported from too few samples")
def unsupported_percentile(run: Run) -> Iterator[Finding]:
    """Fire on percentiles claimed from fewer steps than MLPerf LoadGen's rule asks for (64, 130, 662).

    torchstone marks its own where it shows them, so that there is nothing to find.
    """
    for case_id, _, trials in sound(run):
        found = max((lack for trial in trials for lack in _lacking(trial)), default=None)
        if found is not None:
            share, steps, name = found
            values: Values = {"figure": name, "steps": steps, "needed": needed(share)}
            remedies = ("as_maximum" if is_imported(run) else "longer",)
            yield Finding("unsupported_percentile", Severity.WARNING, case_id, values, remedies=remedies)


def _lacking(trial: Trial) -> Iterator[tuple[float, int, str]]:
    claimed = trial.facts.claimed
    steps = sum(len(times) for _, times in windows(trial)) or claimed.get("steps", 0.0)
    for name, share in PERCENTILES.items():
        if name in claimed and 0 < steps < needed(share):
            yield share, int(steps), name.removesuffix("_s")


@check("a load that MLPerf LoadGen calls INVALID")
def loadgen_invalid(run: Run) -> Iterator[Finding]:
    """Fire where LoadGen does not call every load of a Case VALID: an error where it calls none so."""
    for case_id, case, trials in sound(run):
        if case.workload.task != Task.LOADGEN:
            continue
        bad = [t for t in trials if t.facts.loadgen_result != _VALID]
        if bad:
            severity = Severity.ERROR if len(bad) == len(trials) else Severity.WARNING
            why, errors = bad[0].facts.loadgen_reasons, bad[0].facts.loadgen_errors
            values: Values = {"loads": len(bad), "of": len(trials), "longer": longer(run.head.procedure)}
            first = why or errors
            values |= {"why": (*first[:-1], first[-1].rstrip(".")), "errors": errors} if first else {}
            reason = "errors" if why and errors else "" if why or errors else "no_result"
            remedy = "server_load" if case.configuration.get("scenario") == SERVER else "longer_with"
            remedies = (remedy, *own_loop(run.head.procedure))
            yield Finding("loadgen_invalid", severity, case_id, values, reason, remedies)


@check("imported results without raw values")
def only_summaries(run: Run) -> Iterator[Finding]:
    """Fire on imported trials that have claims and no steps: neither drift nor spread can be told."""
    if not is_imported(run):
        return
    for case_id, _, trials in sound(run):
        kept = any(m.stage == Stage.STEADY and m.values for trial in trials for m in trial.measurements)
        if not kept and any(trial.facts.claimed for trial in trials):
            yield Finding("only_summaries", Severity.INFO, case_id)
