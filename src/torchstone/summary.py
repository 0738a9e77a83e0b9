"""A run as it is read: its Cases, each with estimates, findings and a verdict, and its trials without raw values."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from torchstone.estimates import estimates
from torchstone.store.query import Entry, TrialRow
from torchstone.terms.axis import Scalar
from torchstone.terms.case import Case, Placement, Workload
from torchstone.terms.estimate import Estimate, Finding, Verdict, verdict
from torchstone.terms.machine import Machine
from torchstone.terms.procedure import Procedure
from torchstone.terms.run import SCHEMA
from torchstone.terms.trial import Status


class CaseSummary(msgspec.Struct, frozen=True):
    """One Case: what is believed of it."""

    case_id: str
    workload: Workload
    configuration: Mapping[str, Scalar]
    placement: Placement
    verdict: Verdict
    findings: tuple[Finding, ...]
    estimates: Mapping[str, Estimate]
    trials: tuple[TrialRow, ...]


class RunSummary(msgspec.Struct, frozen=True):
    """The document that `--json` prints. `findings` are those of the run as a whole."""

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


def summarize(entry: Entry) -> RunSummary:
    """Return the summary of a run as the index holds it: no raw values are read."""
    head = entry.head
    by_case: dict[str, list[TrialRow]] = {}
    for trial in entry.trials:
        by_case.setdefault(trial.case_id, []).append(trial)
    cases = tuple(_case(case, entry.findings, tuple(by_case.get(case.case_id, ()))) for case in head.plan.cases)
    known = {case.case_id for case in cases}
    return RunSummary(
        SCHEMA, head.run_id, head.name, head.started_utc, entry.row.status, head.command, head.machine, head.procedure,
        cases, tuple(f for f in entry.findings if f.subject not in known), str(entry.path),
    )  # fmt: skip


def _case(case: Case, findings: tuple[Finding, ...], taken: tuple[TrialRow, ...]) -> CaseSummary:
    case_id = case.case_id
    own = tuple(f for f in findings if f.subject == case_id)
    good = [trial.figures for trial in taken if trial.outcome.status == Status.OK]
    # A Case of which no trial ended well has no number that could be believed.
    judged = Verdict.INVALID if taken and not good else verdict(own)
    return CaseSummary(case_id, case.workload, case.configuration, case.placement, judged, own, estimates(good), taken)
