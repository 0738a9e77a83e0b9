"""What `ab`, `compare`, `check`, `recommend` and `history` find, and the Documents of it, from empty to hostile."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from build import a_case, a_finding, a_run, a_sweep, a_trial
from comparable import a_gpu
from comparable import a_stored_run as a_measured_run
from priced import CARBON, ELECTRICITY, prices_of
from stored import a_stored_run, case, machine, store

from torchstone.analysis.compare.compare import ComparisonRequest, compare
from torchstone.analysis.compare.inputs import ComparedInput
from torchstone.analysis.cost import CostRequest as Costed
from torchstone.analysis.cost import costs
from torchstone.analysis.recommend.case_history import Changed, Histories, History, LevelChange, LevelPoint, Segment
from torchstone.analysis.recommend.recommend import RecommendRequest as Wanted
from torchstone.analysis.recommend.recommend import recommend
from torchstone.analysis.summary import RunSummary, summarize
from torchstone.core.schema.advice import Statement
from torchstone.core.schema.answer import AbResult, Course
from torchstone.core.schema.comparison import Comparison, Judgement, OtherThreads, Side
from torchstone.core.schema.estimate import Estimate, Severity
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Status
from torchstone.report.document import Document
from torchstone.report.documents.ab import ab_parts
from torchstone.report.documents.comparison import comparison_document, comparison_pictures
from torchstone.report.documents.cost import cost_document
from torchstone.report.documents.findings import check_document
from torchstone.report.documents.history import Requested, history_document
from torchstone.report.documents.recommendation import recommendation_document
from torchstone.storage.index import Problem
from torchstone.storage.query import entry_of

HOSTILE = "a|b\x1b[31m<script>`x`\n# c"
_STEPS_S = (0.0100, 0.0101, 0.0099, 0.0100)
_TORCH = Changed("torch", "2.12.0", "2.13.0", throughout=True)


# ── a live comparison ───────────────────────────────────────────────────────────────────────────────────────
_FELL_OVER = Statement("side_failed", {"side": "new", "status": "crashed", "message": "it fell over"})
_NEIGHBOURS = Statement("suspect_run", {"checks": ("neighbours",)})
_ODD = Statement(HOSTILE)


def an_ab(verdict: Judgement = Judgement.BETTER, labels: Sequence[str] = ("old", "new"), **found: Any) -> Document:
    """Return what is said of two sides whose pairs say that an item of B takes 0.6 times as long."""
    cases = (a_case({"precision": "fp32"}), a_case({"precision": "bf16", "batch_size": 32}))
    a, b = (Side(label, "", one.case_id) for label, one in zip(labels, cases, strict=True))
    trials = [
        a_trial(
            case_id=one.case_id, trial_id=f"t{side}", items=items, steady={"fingerprint": [1.5, print_]},
            facts={"side": side, "threads_pinned": 2},
        )
        for side, one, items, print_ in zip("AB", cases, (16, 32), (2.0, 2.1), strict=True)
    ]  # fmt: skip
    fields: dict[str, Any] = {"ratio": Estimate(0.6, 0.55, 0.65, 0.99, "ratio", "pairs", 10, 100), **found}
    summary = summarize(entry_of(a_run(trials, cases=cases), Path("x.jsonl")))
    course = Course(10, 2, 20.0, "settled", 0.75, 2)
    comparison = Comparison(a, b, "step_time_mean", fields.pop("ratio"), verdict, 0.02, **fields)
    return Document("new against old", tuple(ab_parts(AbResult(comparison, course), trials, summary.cases)))


def _unclear() -> Document:
    ratio = Estimate(1.01, 0.98, 1.04, 0.99, "ratio", "pairs", 10, 100)
    other = OtherThreads(1, 3, 1.01, 14, 41.0)
    return an_ab(Judgement.UNCLEAR, ratio=ratio, trials_to_settle=50, with_other_threads=other)


# ── a comparison of stored runs ─────────────────────────────────────────────────────────────────────────────


def a_side(letter: str, card: str, by: float = 1.0, sizes: Sequence[int] = (16,), **about: Any) -> ComparedInput:
    """Return a machine with a card on which each step takes `by` times 10 ms."""
    steps_s = [time_s * by for time_s in _STEPS_S]
    first, *others = (a_case({"batch_size": size}) for size in sizes)
    always = {"run_id": f"run-{letter.lower()}"}  # whatever ran before: golden files have it
    known: dict[str, Any] = {"head": always, "machine": a_gpu(card, host=card), **about}
    run = a_measured_run(steps_s, first, *((one, steps_s) for one in others), **known)
    return ComparedInput(letter, card, letter, (run,))


def a_comparison(*sides: ComparedInput, pictures: bool = False) -> Document:
    """Return what is said of these runs, the first of which is the baseline."""
    compared, prices = compare(sides, ComparisonRequest()), {side.letter: 1.5 for side in sides}
    shown = comparison_pictures(sides, prices) if pictures else ()
    return comparison_document(compared, ["outputs/benchmark_comparison.json"], shown)


def _forty() -> Document:
    names = [f"{a}{b}" for a in ("", "A") for b in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"][:40]
    sides = (a_side(name, f"card {name}", 1.0 + 0.1 * n, (8, 16)) for n, name in enumerate(names))
    return a_comparison(*sides, pictures=True)


def _refused() -> Document:
    failed = a_measured_run([None, None], machine=a_gpu("broken", host="broken"))
    return a_comparison(a_side("A", "good"), ComparedInput("B", "broken", "B", (failed,)))


# ── a check ─────────────────────────────────────────────────────────────────────────────────────────────────


def a_checked(findings: int = 2, sizes: Sequence[int] = (2, 4, 8), text: str = "lost") -> RunSummary:
    """Return a run with one warning each of its first cases, and one of which no successful trial."""
    run = a_sweep([({"batch_size": size}, 0.01) for size in sizes], status={2: Status.CRASHED})
    ids = [one.case_id for one in run.head.plan.cases]
    told = [a_finding("steal", Severity.WARNING, f"{n} s {text}", f"{text} again", ids[n]) for n in range(findings)]
    return summary_of(Run(run.head, run.trials, tuple(told), run.end))


def summary_of(run: Run) -> RunSummary:
    return summarize(entry_of(run, Path("outputs/records/x.jsonl")))


# ── a recommendation ────────────────────────────────────────────────────────────────────────────────────────


def a_recommendation(*runs: Run) -> Document:
    """Return what is recommended where these are stored."""
    with tempfile.TemporaryDirectory() as folder:
        store(Path(folder), runs)
        return recommendation_document(recommend(Path(folder), Wanted()))


def a_cost(*runs: Run, provider: str = "") -> Document:
    """Return what these runs cost, their epochs too."""
    prices = prices_of("EUR", {"Intel Xeon": 0.2, "NVIDIA H200": 3.5}, provider)
    prices = msgspec.structs.replace(prices, electricity=ELECTRICITY, carbon=CARBON)
    return cost_document(costs([summary_of(run) for run in runs], Costed(prices, epochs=3.0, items=1000.0)))


def _swept(number: int, kind: str = "cpu", by: float = 1.0, sizes: Sequence[int] = (8, 16, 32), **about: Any) -> Run:
    cases = [(case(kind, batch_size=size, **about), by * (100.0 + size)) for size in sizes]
    return a_stored_run(number, cases, machine(kind, host=f"host-{kind}"))


# ── a history ───────────────────────────────────────────────────────────────────────────────────────────────


def points(count: int, change_at: int = 99, left_out: Sequence[int] = ()) -> tuple[LevelPoint, ...]:
    """Return a run a day at 100 items/s, at 90 from one run on."""
    rates = [90.0 if number >= change_at else 100.0 for number in range(count)]
    return tuple(
        LevelPoint(
            f"run{number:02d}", f"2026-11-{1 + number:02d}T10:00:00Z", rate, rate - 1.0, rate + 1.0, 3,
            number not in left_out, _NEIGHBOURS if number in left_out else None,
        )
        for number, rate in enumerate(rates)
    )  # fmt: skip


def a_history(
    changed: Sequence[Changed] | None = (_TORCH,), *, count: int = 8, left_out: Sequence[int] = (), **about: Any
) -> History:
    """Return a case that is slower from its fifth run on, and what changed with that; None: no change."""
    levels: tuple[Segment, ...] = (Segment(0, count - 1, count, 100.0, 99.0, 101.0),)
    changes: tuple[LevelChange, ...] = ()
    if changed is not None:
        levels = (Segment(0, 3, 4, 100.0, 99.0, 101.0), Segment(4, count - 1, count - 4, 90.0, 89.0, 91.0))
        at = "2026-11-05T10:00:00Z"
        ratio = Estimate(0.9, 0.88, 0.92, 0.95, "ratio", "t on the log over runs", 4, 8)
        changes = (LevelChange(4, "run04", at, ratio, Judgement.WORSE, tuple(changed)),)
    fields: dict[str, Any] = {
        "case_id": "c0ffee123456", "task": "train", "model": "hf:bert", "data": "synthetic", "device": "Intel Xeon",
        "host": "desk", "configuration": {"batch_size": 8}, "metric": "throughput", "unit": "items/s",
        "points": points(count, 4 if changes else 99, left_out), "segments": levels, "changes": changes,
        "deviation": 0.01, **about,
    }  # fmt: skip
    return History(**fields)


def histories(*found: History, requested: Requested | None = None, runs: int = 8, **about: Any) -> Document:
    """Return what is said of these histories."""
    return history_document(Histories("throughput", found, runs, **about), requested)


def _quiet(count: int) -> list[History]:
    return [a_history(None, count=3, configuration={"batch_size": 2**n, "compile": "on"}) for n in range(count)]


_MANY = [Changed(f"library{n}", "1", "2", throughout=n < 20) for n in range(40)]
_REQUESTED = Requested(["outputs/analysis/history.svg"], 1, "SUSPECT: steal", 1, 0.05)
_SIZES = tuple(range(1, 41))

DOCUMENTS: tuple[tuple[str, Callable[[], Document]], ...] = (
    ("ab", an_ab),
    ("ab: unclear", _unclear),
    (
        "ab: a side failed",
        lambda: an_ab(
            Judgement.NOT_COMPARABLE,
            ratio=None,
            why=_FELL_OVER,
        ),
    ),
    ("ab: too few pairs", lambda: an_ab(Judgement.UNCLEAR, ratio=None)),
    (
        "ab: hostile",
        lambda: an_ab(Judgement.NOT_COMPARABLE, (HOSTILE, f"{HOSTILE}2"), ratio=None, why=_ODD),
    ),
    ("compare", lambda: a_comparison(a_side("A", "L4"), a_side("B", "RTX 4090", 0.5))),
    ("compare: five machines", lambda: a_comparison(*(a_side(c, f"card {c}", 1.0 + n) for n, c in enumerate("ABCDE")))),
    ("compare: forty machines, with pictures", _forty),
    ("compare: forty cases", lambda: a_comparison(a_side("A", "L4", sizes=_SIZES), a_side("B", "H1", 2.0, _SIZES))),
    ("compare: not comparable", _refused),
    ("compare: hostile", lambda: a_comparison(a_side("A", "L4"), a_side("B", HOSTILE, 0.5, name=HOSTILE))),
    ("check", lambda: check_document([a_checked()])),
    ("check: forty cases", lambda: check_document([a_checked(20, tuple(range(1, 41)))])),
    ("check: several runs", lambda: check_document([a_checked(), a_checked(0)])),
    ("check: no case", lambda: check_document([summary_of(a_run([], cases=()))])),
    ("check: hostile", lambda: check_document([a_checked(2, text=HOSTILE)])),
    ("recommend: nothing", a_recommendation),
    ("recommend: one device", lambda: a_recommendation(_swept(1))),
    ("recommend: two devices", lambda: a_recommendation(_swept(1), _swept(2, "cuda", 10.0))),
    ("recommend: ten models", lambda: a_recommendation(*(_swept(n, model=f"hf:m{n}") for n in range(10)))),
    ("recommend: hostile", lambda: a_recommendation(_swept(1, model=f"py:{HOSTILE}"))),
    ("cost", lambda: a_cost(_swept(1), _swept(2, "cuda", 10.0))),
    ("cost: hostile", lambda: a_cost(_swept(1, model=f"py:{HOSTILE}"), provider=HOSTILE)),
    ("history: nothing", lambda: histories(runs=0)),
    ("history: no such figure", lambda: histories(runs=3)),
    ("history", lambda: histories(a_history(left_out=(2,)), requested=_REQUESTED)),
    ("history: forty changes", lambda: histories(a_history(_MANY))),
    ("history: forty cases", lambda: histories(a_history(), *_quiet(39), problems=(Problem("x.jsonl", "torn"),))),
    ("history: hostile", lambda: histories(a_history(host=HOSTILE, device=HOSTILE, model=HOSTILE))),
)
