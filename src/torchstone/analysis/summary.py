"""A run as it is read: its Cases, each with estimates, findings and a verdict, and its trials without raw values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from torchstone.analysis.roofline import Bound, Ceilings, bound, ceilings, shares, trial_threads
from torchstone.core import units
from torchstone.core.estimates import behind_estimates, estimates, pair_prior, priors_of
from torchstone.core.figures import Figures
from torchstone.core.messages import too_wide
from torchstone.core.quality import quality_of
from torchstone.core.schema.answer import Answer
from torchstone.core.schema.axis import EAGER, Scalar, variant_name
from torchstone.core.schema.case import Case, Placement, Task, Workload
from torchstone.core.schema.estimate import Estimate, Finding, Severity, Verdict, verdict
from torchstone.core.schema.machine import Machine, Peaks
from torchstone.core.schema.metric import FIGURES, peak_memory
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.quality import Margin, QualityLoss
from torchstone.core.schema.run import SCHEMA, total_runtime_s
from torchstone.core.schema.trial import Status, ended_well, estimation_trials, replicates
from torchstone.core.stats.moderated import Prior
from torchstone.storage.query import Entry, TrialRow
from torchstone.storage.stored_peaks import with_kept

# What `print(summary)` shows of a Case; `torchstone show` shows all.
_SHOWN = (
    "throughput",
    "step_time_mean",
    "latency_per_batch_p50_s",
    "latency_per_batch_p95_s",
    "data_wait_share",
    "peak_reserved_bytes",
    "energy_per_item_j",
    "achieved_flops",
    "loss_last",
)

RATES = ("throughput", "token_throughput", "output_token_throughput")  # by which Cases of a run are compared


class CaseSummary(msgspec.Struct, frozen=True):
    """One Case with its estimates, findings and verdict.

    `pair_priors`: what all Cases of the run say of the spread of a ratio of two of them, by figure.
    """

    case_id: str
    workload: Workload
    configuration: Mapping[str, Scalar]
    placement: Placement
    verdict: Verdict
    findings: tuple[Finding, ...]
    estimates: Mapping[str, Estimate]
    trials: tuple[TrialRow, ...]
    ceilings: Ceilings | None = None
    bound: Bound | None = None
    pair_priors: Mapping[str, Prior] = {}
    quality: QualityLoss | None = None  # None: it computes what eager mode in fp32 does

    @property
    def peak_memory_bytes(self) -> float | None:
        """The peak memory on its kind of device; None where it was not measured."""
        found = peak_memory(self.estimates, self.placement.device)
        return None if found is None else found.value


class RunSummary(msgspec.Struct, frozen=True):
    """The document that `--json` prints. `findings` are those of the run as a whole.

    `total_runtime_s`: of all its trials; of another tool's, as that tells it, or None.
    """

    schema: int
    run_id: str
    name: str
    started_utc: str
    status: str
    command: tuple[str, ...]
    machine: Machine
    procedure: Procedure
    cases: tuple[CaseSummary, ...]
    findings: tuple[Finding, ...]
    record: str
    total_runtime_s: float | None
    answer: Answer | None = None

    def __str__(self) -> str:
        """Return a few lines to print: each Case with its verdict and main figures, what to doubt, and the record."""
        lines = [f"{self.name}: run {self.run_id}, {self.status}"]
        for case in self.cases:
            lines += _lines(case, self.procedure)
        lines += [f"{f.severity}: {f.message}. {f.advice}" for f in self.findings if f.severity != Severity.INFO]
        lines.append(f"record {self.record}")
        return "\n".join("".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line) for line in lines)

    def __repr__(self) -> str:
        """Return the same: it is what a cell of a notebook shows that ends with a run."""
        return str(self)


def all_in_doubt(cases: Sequence[CaseSummary]) -> Sequence[CaseSummary]:
    """Return the Cases that were more than probed where none of them is VALID: nothing may be chosen; else ()."""
    final = [case for case in cases if replicates(case.trials)]
    return () if any(case.verdict == Verdict.VALID for case in final) else final


def _lines(case: CaseSummary, procedure: Procedure) -> Iterator[str]:
    good = sum(trial.outcome.status == Status.OK for trial in case.trials)
    size = case.configuration.get("batch_size")
    items = "" if case.workload.task == Task.CALL else f", batch {size}" if size is not None else ", items unknown"
    title = f"{case.workload.task} {case.workload.model}{items}, on {case.placement}"
    where = "in this process" if procedure.isolation == "inline" else "each a process"
    yield f"{title}: {case.verdict}, {good} of {len(case.trials)} trials, {where}"
    for name in _SHOWN:
        found = case.estimates.get(name)
        if found is not None:
            doubt, title = "" if found.supported else f"  ({found.note})", FIGURES[name].title
            yield f"  {title:<19}{units.quantity(found.value, found.unit):>14}  {_around(found)}{doubt}".rstrip()
    for finding in case.findings:
        if finding.severity != Severity.INFO:
            yield f"  {finding.severity}: {finding.message}. {finding.advice}"


def _around(found: Estimate) -> str:
    if found.low is None or found.high is None or found.low == found.high:
        return ""
    if found.is_wide and found.lowest is not None and found.highest is not None:
        ends = f"{units.quantity(found.lowest, found.unit)} to {units.quantity(found.highest, found.unit)}"
        return f"{ends} ({too_wide(found.trials)})"
    return f"[{units.quantity(found.low, found.unit)}, {units.quantity(found.high, found.unit)}]"


def summarize(entry: Entry, peaks: tuple[Peaks, ...] | None = None) -> RunSummary:
    """Return the summary of a run as the index holds it: no raw values are read.

    `peaks`: of its machine, where its record has none; None: those that were measured since on this very machine.
    """
    head = entry.head
    machine = head.machine
    if not machine.peaks:
        machine = with_kept(machine) if peaks is None else msgspec.structs.replace(machine, peaks=peaks)
    by_case: dict[str, list[TrialRow]] = {}
    for trial in entry.trials:
        by_case.setdefault(trial.case_id, []).append(trial)
    taken = [tuple(by_case.get(case.case_id, ())) for case in head.plan.cases]
    margin = head.procedure.quality_margin
    good = [behind_estimates([(trial, trial.figures) for trial in trials]) for trials in taken]
    priors = priors_of(good, head.usual.deviation if head.usual is not None else None)
    rounds = [[(t.number, t.figures) for t in estimation_trials(ended_well(trials))] for trials in taken]
    pairs = {name: prior for name in RATES if (prior := pair_prior(name, rounds)) is not None}
    cases = tuple(
        _case(case, entry.findings, trials, machine, replicates, prior, pairs, margin)
        for case, trials, replicates, prior in zip(head.plan.cases, taken, good, priors, strict=True)
    )
    known = {case.case_id for case in cases}
    return RunSummary(
        SCHEMA,
        head.run_id,
        head.name,
        head.started_utc,
        entry.row.status,
        head.command,
        machine,
        head.procedure,
        cases,
        tuple(f for f in entry.findings if f.subject not in known),
        str(entry.path),
        total_runtime_s((trial.facts, trial.duration_s) for trial in entry.trials),
        entry.answer,
    )


def _case(
    case: Case,
    findings: tuple[Finding, ...],
    taken: tuple[TrialRow, ...],
    machine: Machine,
    good: Sequence[Figures],
    priors: Mapping[str, Prior],
    pairs: Mapping[str, Prior],
    margin: Margin,
) -> CaseSummary:
    case_id = case.case_id
    own = tuple(f for f in findings if f.subject == case_id)
    # A Case without a successful trial has no number that could be believed.
    judged = verdict(own) if good else Verdict.INVALID
    found = estimates(good, priors=priors)
    threads = trial_threads([trial.facts for trial in ended_well(taken)])
    top = ceilings(machine, case.placement, case.configuration, threads) if "achieved_flops" in found else None
    if top is not None:
        found.update(shares(found, top))
    computed = [(t.figures.values.get("relative_output_error"), t.facts.answers) for t in ended_well(taken)]
    # Training has no other runtime; a record of another tool, or an older one, may have compared nothing.
    varied = case.workload.task != Task.TRAIN and variant_name({**case.configuration, "precision": "fp32"}) != EAGER
    grade = quality_of(computed, margin, varied=varied and bool(computed))
    limit = bound({name: one.value for name, one in found.items()}, top) if top is not None else None
    return CaseSummary(
        case_id, case.workload, case.configuration, case.placement, judged, own, found, taken, top, limit, pairs, grade
    )
