"""Results of `ci measure` in every state, their records, and the Documents of them, from quiet to hostile."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from build import a_case, a_machine, a_run, a_trial, compared

from torchstone.analysis.ci import Acceptance, Assessment, assess, traces
from torchstone.core.schema.ci import CiBenchmark, CiResult, HistoryEntry, HistoryPoint, State
from torchstone.core.schema.codec import encode
from torchstone.core.schema.comparison import Comparison, Judgement, OtherThreads, Rules, Side, judge
from torchstone.core.schema.estimate import Estimate
from torchstone.core.schema.run import SCHEMA, Answered, Plan, Run
from torchstone.core.stats.student import normal_quantile
from torchstone.report.document import Document
from torchstone.report.documents.ci import RowLimits, ci_document, ci_history_document
from torchstone.storage.ci_folder import write_result

BASE, HEAD = "a1b2c3d4e5" * 4, "0f1e2d3c4b" * 4
HOSTILE = (
    "@octocat <script>alert(1)</script> a|b `x` ](http://evil.example) #12 GH-7 &#64;you www.evil.example $x$ "
    "🔥\u202e\x1b[31m"
)
_LEVEL = 0.995


def a_comparison(
    ratio: tuple[float, float, float] | None = (1.0, 0.995, 1.006), *, run_id: str = "run-1", base: str = BASE,
    head: str = HEAD, name: str = "net:cnn", pairs: int = 12, device: str = "a processor",
    results: tuple[float, float] = (2.5, 2.5), **found: Any,
) -> Run:  # fmt: skip
    """A live comparison of two revisions: (ratio of times, low, high), 12 pairs of processes in 40 s.

    `results`: what base and change compute, as fingerprints.
    """
    sides = [a_case(model=name, fixed={"revision": commit}) for commit in (base, head)]
    estimate = (
        Estimate(ratio[0], ratio[1], ratio[2], _LEVEL, "ratio", "pairs", pairs, 100) if ratio is not None else None
    )
    usual = Judgement.UNCLEAR if ratio is None else judge(ratio[1], ratio[2], 0.02, higher_is_better=False)
    trials = [
        a_trial(
            case_id=case.case_id, trial_id=f"t{pair}{side}", order=2 * pair, number=pair, duration_s=3.0,
            started_utc=f"2026-11-21T10:00:{3 * pair:02d}Z", facts={"side": side, "pair": pair, "template": 0},
            steady={"fingerprint": [computed]},
        )
        for pair in range(pairs) for side, case, computed in zip("AB", sides, results, strict=True)
    ]  # fmt: skip
    cases = tuple({case.case_id: case for case in sides}.values())
    run = a_run(trials, cases=cases, machine=_machine(device))
    told = [Side(commit[:9], run_id, case.case_id) for commit, case in zip((base, head), sides, strict=True)]
    comparison = Comparison(told[0], told[1], "step_time_mean", estimate, usual, 0.02)
    head_ = msgspec.structs.replace(run.head, run_id=run_id, plan=Plan(cases, ()), ab=Rules())
    return compared(msgspec.structs.replace(run, head=head_), msgspec.structs.replace(comparison, **found))


def _machine(device: str) -> Any:
    machine = a_machine()
    return msgspec.structs.replace(machine, host=msgspec.structs.replace(machine.host, processor=device))


def a_result(benchmarks: Sequence[CiBenchmark], **changes: Any) -> CiResult:
    """A result of these benchmarks, with a limit and margin of 2 %."""
    fields: dict[str, Any] = {
        "schema": SCHEMA, "base": BASE, "head": HEAD, "began_utc": "2026-11-21T10:00:00+00:00", "within_s": 900.0,
        "margin": 0.02, "limit": 0.02, "false_alarms": 0.05, "benchmarks": tuple(benchmarks), "elapsed_s": 610.0,
        "committed_utc": "2026-11-21T09:00:00+00:00",
    }  # fmt: skip
    return CiResult(**{**fields, **changes})


Ratio = tuple[float, float, float] | None
SAME: Ratio = (1.001, 0.992, 1.014)
SLOWER: Ratio = (1.041, 1.032, 1.05)
FASTER: Ratio = (0.9, 0.88, 0.92)
OPEN: Ratio = (1.01, 0.98, 1.045)


def measured(
    ratios: Mapping[str, Ratio], *, control: Ratio = (1.0, 0.994, 1.005), more: Mapping[str, Any] | None = None,
    others: Sequence[CiBenchmark] = (), **changes: Any,
) -> tuple[CiResult, dict[str, Run]]:  # fmt: skip
    """A result with these ratios, by the names of benchmarks, and its runs. `more`: fields of each comparison."""
    listed, runs = [], {}
    for place, (name, ratio) in enumerate(ratios.items()):
        run_id = f"run-{place}"
        words = ("--config", "bench.yaml", "--axis", f"batch_size={2**place if place < 10 else place}")
        listed.append(CiBenchmark(name, words, State.MEASURED, run_id))
        runs[run_id] = a_comparison(ratio, run_id=run_id, **(more or {}))
    result = a_result([*listed, *others], **changes)
    if control is not None and result.base is not None:
        runs["control"] = a_comparison(control, run_id="control", head=BASE)
        own = CiBenchmark("control", ("--config", "bench.yaml"), State.MEASURED, "control")
        result = msgspec.structs.replace(result, control=own)
    return result, runs


def written(result: CiResult, runs: Mapping[str, Run], folder: Path) -> Path:
    """Write a result and its records as `ci measure` does, and return the folder."""
    write_result(result, folder)
    (folder / "records").mkdir(exist_ok=True)
    for run_id, run in runs.items():
        lines = [run.head, *run.trials, *([Answered(run.answer)] if run.answer else []), run.end]
        path = folder / "records" / f"{run_id}.jsonl"
        path.write_bytes(b"".join(encode(line) + b"\n" for line in lines))
    return folder


def assessed(
    ratios: Mapping[str, Ratio], *, price: float | None = None, label: Acceptance | None = None, **changes: Any
) -> Assessment:
    """What follows of these ratios."""
    result, runs = measured(ratios, **changes)
    return assess(result, runs, per_hour=price, acceptance=label)


def unchanged(count: int) -> dict[str, Ratio]:
    """So many benchmarks of which nothing changed."""
    return {f"bench/batch_size={number}": SAME for number in range(count)}


def _of_each_kind(count: int) -> dict[str, Ratio]:
    return {f"case/{number}": (SLOWER, FASTER, SAME, OPEN)[number % 4] for number in range(count)}


def _failed() -> CiBenchmark:
    why = "0f1e2d3c4 (head): model net.py: ZeroDivisionError: division by zero"
    return CiBenchmark("new", ("--config", "new.yaml"), State.FAILED, why=why)


def _without_baseline() -> CiBenchmark:
    return CiBenchmark("new", ("--config", "new.yaml"), State.NO_BASELINE, why="model net.py: there is no such file")


def hostile() -> Assessment:
    """Everything that a stranger's artifact can name has this name."""
    words = ("--config", HOSTILE)
    others = [
        CiBenchmark(HOSTILE, words, State.FAILED, why=HOSTILE),
        CiBenchmark(f"{HOSTILE} 2", words, State.NO_BASELINE, why=HOSTILE),
        CiBenchmark("x" * 200, words, State.FAILED, why="y" * 2000),
    ]
    ratios = {f"{HOSTILE} 3": SLOWER, f"{HOSTILE} 4": SAME, f"{HOSTILE} 5": OPEN}
    label = Acceptance(HOSTILE, HOSTILE)
    more = {"name": f"py:{HOSTILE}", "device": HOSTILE, "trials_to_settle": 20}
    return assessed(ratios, others=others, label=label, more=more, why_no_base=HOSTILE)


_OTHER = OtherThreads(1, 3, 1.01, 14, 41.0)
_LABEL, _NO_REASON = (Acceptance("performance-accepted", why) for why in ("it is right now", None))
_NEW = CiBenchmark("new", ("--config", "new.yaml"))
STATES: Mapping[str, Callable[[], Assessment]] = {
    "slower": lambda: assessed({"sdpa/bf16": SLOWER, "open": OPEN, **unchanged(37)}, more={"trials_to_settle": 20}),
    "slower, several": lambda: assessed({f"a/{n}": (1.05 + n / 50, 1.03 + n / 50, 1.07 + n / 50) for n in range(12)}),
    "slower, within the limit": lambda: assessed({"sdpa/bf16": SLOWER, **unchanged(3)}, limit=0.10),
    "slower, the limit is undecided": lambda: assessed({"sdpa/bf16": SLOWER, **unchanged(3)}, limit=0.04),
    "faster": lambda: assessed({"sdpa/bf16": FASTER, **unchanged(3)}),
    "faster, other results": lambda: assessed({"a": FASTER, **unchanged(3)}, more={"results": (2.5, 2.1)}),
    "unchanged": lambda: assessed(unchanged(40)),
    "undecided": lambda: assessed({"a": OPEN, "b": OPEN, **unchanged(3)}, more={"trials_to_settle": 20}, price=2.5),
    "undecided, one": lambda: assessed({"a": OPEN, **unchanged(3)}, more={"with_other_threads": _OTHER}),
    "undecided, out of reach": lambda: assessed({"a": OPEN}),
    "undecided, nothing is known": lambda: assessed({"a": None, **unchanged(3)}, more={"why": "only 2 of 6 pairs"}),
    "no baseline": lambda: assessed(unchanged(3), others=[_without_baseline()]),
    "no base at all": lambda: assessed({}, others=[_NEW], base=None, why_no_base="origin/main: no commit in common"),
    "failed": lambda: assessed(unchanged(3), others=[_failed()]),
    "failed, cut off": lambda: assessed(unchanged(3), others=[_NEW]),
    "accepted": lambda: assessed({"sdpa/bf16": SLOWER, **unchanged(3)}, label=_LABEL),
    "accepted, without a reason": lambda: assessed({"a": SLOWER, **unchanged(3)}, label=_NO_REASON),
    "accepted, and one failed": lambda: assessed({"a": SLOWER, **unchanged(3)}, others=[_failed()], label=_LABEL),
    "not reliable": lambda: assessed({"a": SLOWER, **unchanged(3)}, control=SLOWER),
    "200 cases": lambda: assessed(_of_each_kind(200), more={"trials_to_settle": 20}),
    "hostile names": hostile,
}  # fmt: skip
ERROR, LEVEL = 0.004, 0.99  # of the logarithm of a ratio, and of its interval


def a_commit(number: int) -> str:
    """The name of a commit."""
    return f"{number:040x}"


def a_point(log: float, name: str = "a", error: float = ERROR, verdict: str = "unchanged") -> HistoryPoint:
    """A benchmark of a commit, by the logarithm of its ratio to the commit before."""
    half = normal_quantile(0.5 + LEVEL / 2.0) * error
    low, high = math.exp(log - half), math.exp(log + half)
    return HistoryPoint(name, verdict, math.exp(log), low, high, LEVEL, 0.0042, "a processor")


def an_entry(number: int, *points: HistoryPoint, base: int | None = None, at: str | None = None) -> HistoryEntry:
    """A commit, an hour after the one before."""
    when = at or f"2026-11-{1 + number // 24:02d}T{number % 24:02d}:00:00+00:00"
    return HistoryEntry(SCHEMA, a_commit(number), a_commit(number - 1 if base is None else base), when, 0.02, points)


def drifting() -> list[HistoryEntry]:
    """Forty commits of three benchmarks: one is slower by 0.4 % each, one has a step and a gap, one stays."""
    steps = {12: ("slower", 0.05), 20: ("faster", -0.03), 31: ("undecided", 0.01)}
    found = []
    for number in range(1, 41):
        verdict, step = steps.get(number, ("unchanged", 0.0))
        wobble = 0.003 * math.sin(7.0 * number)
        points = [a_point(0.004 + wobble / 3.0, "net/train"), a_point(wobble, "net/infer")]
        points.append(a_point(step + wobble, "sdpa/bf16", verdict=verdict))
        base = 2 if number == 25 else None  # those between were not measured
        found.append(an_entry(number, *points, base=base))
    return found


def _hostile_commit(number: int) -> HistoryEntry:
    return an_entry(number, a_point(0.0, HOSTILE), a_point(0.0, "x" * 200))


def history_of(entries: Sequence[HistoryEntry]) -> Document:
    """The page of a history."""
    return ci_history_document(traces(entries), len(entries))


DOCUMENTS = [
    *((f"ci: {name}", lambda make=make: ci_document(make())) for name, make in STATES.items()),
    ("ci: 200 cases, with every row", lambda: ci_document(STATES["200 cases"](), RowLimits(1000))),
    ("ci: history, empty", lambda: history_of([an_entry(1)])),
    ("ci: history, one commit", lambda: history_of([an_entry(1, a_point(0.01))])),
    ("ci: history, drift", lambda: history_of(drifting())),
    ("ci: history, hostile names", lambda: history_of([_hostile_commit(1), _hostile_commit(2)])),
]  # fmt: skip
