"""One stored result of each kind that torchstone has: golden records of runs, and typed values of what is no run."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from compared_results import a_history, summary_of
from priced import prices_of
from results import H200, ON_H200, a_memory_row, a_quality, all_devices, an_evaluation, an_examination
from stored import a_stored_run, case, machine, store

from torchstone.analysis.cost import CostRequest, costs
from torchstone.analysis.memory_fit import MemoryAnswer
from torchstone.analysis.recommend.case_history import Histories
from torchstone.analysis.recommend.recommend import RecommendRequest as Wanted
from torchstone.analysis.recommend.recommend import recommend
from torchstone.core.schema.run import Run
from torchstone.report.documents.machine import MeasuredPeaks
from torchstone.storage.query import read_run

GOLDEN = Path(__file__).parent / "golden"
_RUN = a_stored_run(1, [(case(batch_size=size), 100.0 + size) for size in (8, 16)], machine("cpu"))
_RECORDS = (
    "infer", "feed", "load", "generate", "tune", "ab", "diagnose", "train", "goodput", "failed", "imported", "python",
)  # fmt: skip


def _a_program() -> Run:
    """A program as it is, at two values of one of its arguments."""
    words = "program:python train.py --size {size}"
    cases = [(case(model=words, size=size), 100.0 + size) for size in (8, 16)]
    return a_stored_run(2, cases, machine("cpu"))


def _a_recommendation() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        store(Path(folder), [_RUN, a_stored_run(3, [(case("cuda"), 900.0)], machine("cuda"))])
        return recommend(Path(folder), Wanted())


def _golden(name: str, folder: str = "schema_1") -> Callable[[], Run]:
    return cache(lambda: read_run(GOLDEN / folder / f"{name}.jsonl"))


# Runs by what they are of: records, as commands wrote them.
RUNS: dict[str, Callable[[], Run]] = {**{name: _golden(name) for name in _RECORDS}, "program": _a_program}
# The two sides of `compare`.
COMPARED: tuple[Callable[[], Run], Callable[[], Run]] = (_golden("same_1", "compare"), _golden("different", "compare"))
# Values of the kinds of report/results.py, which --save keeps.
VALUES: dict[str, Callable[[], Any]] = {
    "memory": lambda: MemoryAnswer((a_memory_row(),), (), {}),
    "machine_check": an_examination,
    "machine_check_all": lambda: all_devices(("cuda:0", 1.0), ("cuda:1", 0.8)),
    "peaks": lambda: MeasuredPeaks(ON_H200, H200, new=True),
    "cost": lambda: costs([summary_of(_RUN)], CostRequest(prices_of("EUR", {"Intel Xeon": 0.2}), 3.0, 1000.0)),
    "recommendation": _a_recommendation,
    "history": lambda: Histories("throughput", (a_history(),), 8),
    "evaluation": lambda: an_evaluation(a_quality()),
}
