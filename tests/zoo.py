"""Documents of results of every kind, from the empty to the hostile: each has to come out of every renderer.

A further Document joins with one line in ZOO: a name, and a function that makes it. One whose text people should look
at joins PAGES, too: a golden file at 80 and at 120 columns (tests/contract/test_terminal_pages.py).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import charted
import ci_results
import compared_results
import msgspec
import reported
import results
from build import a_case, a_finding, a_run, a_sweep, a_trial, facts_of
from learning import falling, of_losses, rising
from stored import a_stored_run, case, machine, store

from torchstone.analysis.summary import RunSummary, summarize
from torchstone.core.schema.case import Case
from torchstone.core.schema.estimate import Severity
from torchstone.core.schema.facts import SettingFact, merged
from torchstone.core.schema.machine import DeviceInfo, Host, Machine
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Outcome, Status
from torchstone.report.document import Document
from torchstone.report.documents.run import measured_document, run_document
from torchstone.storage.query import entry_of, find
from torchstone.workflows.run.planned_run import Results

HOSTILE = "a|b\x1b[31m<script>alert(1)</script>`x`\n# h\r*_~\u202e\x9b"
WIDE = "模型🔥e\u0301"
LONG = "owner/" + "a-model-with-a-name-that-goes-on-" * 4
_PHASES = {"data": 0.3, "transfer": 0.02, "forward": 0.25, "backward": 0.35, "optimizer": 0.05, "rest": 0.03}
_LOADER = {"feed": "loader", "precision": "bf16", "pin_memory": False, "compile": "off"}
_POINTS = [
    ({"num_workers": w, "batch_size": b, **_LOADER}, 0.02 + 1e-3 * b / (w + 1)) for w in (2, 0) for b in (8, 64, 512)
]
_SETTINGS = {
    "settings": {
        "threads": SettingFact("4", "fewer", {"why": "the physical cores of 8 logical ones", "default": 8}),
        "sdpa": SettingFact("auto", "order", {"kernels": ("flash", "math")}),
    },
    "attention_kernel": "flash",
}  # fmt: skip


def _summary(run: Run) -> RunSummary:
    return summarize(entry_of(run, Path("outputs/records/20261121-100000-abcd.jsonl")))


def _with_facts(run: Run, facts: Mapping[str, Any]) -> Run:
    trials = tuple(msgspec.structs.replace(trial, facts=merged(trial.facts, facts_of(facts))) for trial in run.trials)
    return msgspec.structs.replace(run, trials=trials)


def swept() -> RunSummary:
    """Six cases on a card: one ran out of memory, two are doubtful; settings, phases and a gauge are told."""
    plain = a_sweep(_POINTS, phases=_PHASES, status={5: Status.OUT_OF_MEMORY}, utilization=0.62)
    ids = [one.case_id for one in plain.head.plan.cases]
    findings = [
        a_finding("drift", Severity.WARNING, f"the step became {n} % slower", "measure again", ids[n]) for n in (1, 2)
    ]
    told = [*findings, a_finding("few_steps", Severity.INFO, "10 steps in a window", "a longer --budget", ids[0])]
    told.append(a_finding("neighbours", Severity.WARNING, "others kept 1.5 cores busy", "stop them", "run"))
    return _summary(_with_facts(msgspec.structs.replace(plain, findings=tuple(told)), _SETTINGS))


def trainings_document() -> Document:
    """Return what is told of five trainings, one of which diverges: their record is read for the losses."""
    falls = {1e-3: -0.02, 1e-4: -0.002}
    trainings = [
        ({"learning_rate": rate, "precision": precision}, falling(slope=slope))
        for rate, slope in falls.items() for precision in ("fp32", "bf16")
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        store(Path(folder), [of_losses([*trainings, ({"learning_rate": 1.0, "precision": "fp32"}, rising())])])
        return run_document(summarize(find(Path(folder), "latest")))


def _on_both() -> RunSummary:
    """A training at two batch sizes on the CPU and on a card."""
    rates = {("cpu", 8): 100.0, ("cpu", 32): 150.0, ("cuda", 8): 300.0, ("cuda", 32): 900.0}
    cases = [(case(kind, batch_size=size), rate) for (kind, size), rate in rates.items()]
    return _summary(a_stored_run(0, cases, machine("cuda")))


def _many_models(count: int) -> RunSummary:
    return _summary(a_stored_run(1, [(case(model=f"hf:model-{n}"), 100.0 + n) for n in range(count)], machine()))


def _one(cases: Sequence[Case], status: Status = Status.OK, **changes: Any) -> RunSummary:
    """A run of one trial of each of these cases."""
    trials = [a_trial(case_id=one.case_id, trial_id=f"t{n}", order=n, **_ended(status)) for n, one in enumerate(cases)]
    return _summary(a_run(trials, cases=cases, **changes))


def _ended(status: Status, message: str = "it fell over") -> dict[str, Any]:
    return {} if status == Status.OK else {"outcome": Outcome(status, message), "measurements": ()}


def named(name: str) -> RunSummary:
    """A run in which everything that has a name has this one: what a stranger's record may bring."""
    places = Machine(
        Host(name, name, name, 4, 8, 16 * 2**30, name), (DeviceInfo("cpu", "cpu", name, 0, name, precisions=(name,)),),
        {"torch": name, name: name}, {name: name},
    )  # fmt: skip
    about = {"model": f"py:{name}", "data": name, "item": name, "family": name}
    values = (name, f"not {name}", "x")
    cases = [a_case({"batch_size": 8, "precision": "fp32", name: value}, **about) for value in values]
    facts = {
        "own_data": name,
        "settings": {name: SettingFact(name, name)},
        "precision_in_effect": name,
        "attention_kernel": name,
    }
    trials = [
        a_trial(case_id=one.case_id, trial_id=f"t{n}", order=n, facts=facts, **_ended(status, name))
        for n, (one, status) in enumerate(zip(cases, (Status.OK, Status.OK, Status.CRASHED), strict=True))
    ]
    findings = (
        a_finding(name, Severity.ERROR, name, name, cases[0].case_id),
        a_finding(name, Severity.INFO, name, name, "run"),
    )  # fmt: skip
    run = a_run(trials, cases=cases, machine=places, findings=findings)
    return _summary(msgspec.structs.replace(run, head=msgspec.structs.replace(run.head, run_id=name, name=name)))


def _ended_run(run: RunSummary) -> Document:
    folder = Path("outputs")
    results = Results(run, folder / "results" / f"{run.run_id}.json", folder / "data" / f"{run.run_id}_cases.csv", 0)
    return measured_document(results)


class Page(NamedTuple):
    """A Document that people should look at, by the name of its golden files. `every`: with what is folded."""

    name: str
    make: Callable[[], Document]
    every: bool = False


_OF_OTHERS = (
    *compared_results.DOCUMENTS, *results.DOCUMENTS, *charted.DOCUMENTS, *reported.DOCUMENTS,
)  # fmt: skip
# One of each command: what is hostile, empty or long is laid out like these.
_LOOKED_AT = (
    "ab", "compare", "check", "recommend: two devices", "history", "tune", "diagnosis", "machine", "machine check",
    "peaks", "memory", "training", "evaluation", "runs", "import", "export",
)  # fmt: skip
_ALL: list[tuple[str, Callable[[], Document]]] = [
    ("run: empty", lambda: run_document(_summary(a_run([], cases=())), every=True)),
    ("run: one trial", lambda: run_document(_one([a_case()]))),
    ("run: one trial, all of it", lambda: run_document(_one([a_case()]), every=True)),
    ("run: all failed", lambda: run_document(_one([a_case(), a_case({"batch_size": 32})], Status.CRASHED))),
    ("run: all failed, all of it", lambda: run_document(_one([a_case()], Status.TIMED_OUT), every=True)),
    ("run: nothing taken", lambda: run_document(_summary(a_run([])))),
    ("run: no such device", lambda: run_document(_one([case("cuda")], Status.UNSUPPORTED, machine=machine()))),
    ("run: a sweep", lambda: run_document(swept())),
    ("run: a sweep, all of it", lambda: run_document(swept(), every=True)),
    ("run: has just ended", lambda: _ended_run(swept())),
    ("run: trials that differ", lambda: run_document(_summary(a_sweep(_POINTS, spread=0.6)))),
    ("run: on two devices", lambda: run_document(_on_both(), every=True)),
    ("run: forty models", lambda: run_document(_many_models(40))),
    ("run: forty models, all of it", lambda: run_document(_many_models(40), every=True)),
    ("run: hostile names", lambda: run_document(named(HOSTILE))),
    ("run: hostile names, all of it", lambda: run_document(named(HOSTILE), every=True)),
    ("run: wide names", lambda: run_document(named(WIDE), every=True)),
    ("run: long names", lambda: run_document(named(LONG), every=True)),
    ("run: trainings", trainings_document),
    *_OF_OTHERS,
    *ci_results.DOCUMENTS,
]
# Made once: some take seconds, and dozens of tests want each.
ZOO: list[tuple[str, Callable[[], Document]]] = [(name, cache(make)) for name, make in _ALL]
PAGES = [
    Page("run", lambda: _ended_run(swept())),
    Page("show", lambda: run_document(swept())),
    Page("show_full", lambda: run_document(swept(), every=True), every=True),
    Page("show_one_trial", lambda: run_document(_one([a_case()]))),
    Page("show_two_devices", lambda: run_document(_on_both())),
    Page("show_trainings", trainings_document),
    *(Page(name.replace(": ", "_").replace(" ", "_"), make) for name, make in _OF_OTHERS if name in _LOOKED_AT),
]
