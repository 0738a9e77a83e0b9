"""Cases and trials of task loadgen for tests, as a real load would leave them."""

from __future__ import annotations

from typing import Any

from build import a_case, a_run, a_trial

from torchstone.core.schema.case import Case, Task
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Purpose, Trial


def a_load_case(rate: float = 0.0, **configuration: Any) -> Case:
    """A load of a small network with a bound of 50 ms: of scenario server where it has a rate."""
    scenario = "server" if rate else "single_stream"
    settings = {
        "batch_size": 4, "scenario": scenario, "target_qps": rate, "latency_bound_s": 0.05, "max_wait_s": 0.0,
        "samples_per_query": 8, **configuration,
    }  # fmt: skip
    return a_case(settings, task=Task.LOADGEN)


def a_load(case: Case, late: int = 0, queries: int = 1000, *, p99_s: float = 0.02, **changes: Any) -> Trial:
    """A load of that Case: LoadGen calls it VALID unless more than 1 % of its queries were late."""
    valid = late <= 0.01 * queries
    rate = float(case.configuration["target_qps"] or 100.0)
    facts = {
        "task": "loadgen", "loadgen_result": "VALID" if valid else "INVALID", "loadgen_queries": queries,
        "loadgen_reasons": ("Performance constraints satisfied : " + ("Yes" if valid else "NO"),),
        "loadgen_late": late if case.configuration["scenario"] == "server" else None,
        "loadgen_min_duration_s": 5.0, "loadgen_mlperf_min_duration_s": 600.0, **changes.pop("facts", {}),
    }  # fmt: skip
    steady = {"query_latency_s": [p99_s / 4] * 670 + [p99_s] * 30, "batch_time_s": [0.01] * 10,
              "items": [queries / 10] * 10, "window_time_s": [queries / rate], "step_time_s": []}  # fmt: skip
    return a_trial(window="load", steady=steady, case_id=case.case_id, facts=facts, **changes)


def a_search(**changes: Any) -> Run:
    """A search for goodput: a closed loop, probes at 80 and 160, three rounds at 92, 100 and 108; 1 % late at 100."""
    alone, wide = a_load_case(batch_size=1), [a_load_case(rate) for rate in (80.0, 160.0)]
    final = [a_load_case(rate) for rate in (92.0, 100.0, 108.0)]
    late = {92.0: (300, 340, 320), 100.0: (980, 1020, 1000), 108.0: (3100, 3200, 3000)}
    trials = [
        a_load(alone, p99_s=0.01, purpose=Purpose.PROBE),
        a_load(wide[0], 10, 100_000, purpose=Purpose.PROBE),
        a_load(wide[1], 60_000, 100_000, p99_s=0.5, purpose=Purpose.PROBE),
    ]
    for number in range(3):
        for case in final:
            rate = float(case.configuration["target_qps"] or 0.0)
            trials.append(a_load(case, late[rate][number], 100_000, p99_s=0.05 * rate / 100.0, number=number))
    numbered = [_numbered(trial, order) for order, trial in enumerate(trials)]
    run = a_run(changes.pop("trials", numbered), cases=[alone, *wide, *final])
    return _commanded(run, "goodput", **changes)


def _numbered(trial: Trial, order: int) -> Trial:
    import msgspec

    return msgspec.structs.replace(trial, trial_id=f"t{order}", order=order)


def _commanded(run: Run, command: str, **changes: Any) -> Run:
    import msgspec

    return msgspec.structs.replace(run, head=msgspec.structs.replace(run.head, command=(command,)), **changes)
