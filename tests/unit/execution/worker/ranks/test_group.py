"""What the ranks measured, together in rank 0."""

from torchstone.core.schema.message import Measured
from torchstone.core.schema.trial import Measurement, Stage
from torchstone.execution.worker.ranks.group import ALONE, merged


def part(threads, cores, step_s):
    values = {"step_time_s": step_s, "items": 4.0, "window_time_s": step_s}
    taken = tuple(Measurement(name, Stage.STEADY, (value,), "throughput") for name, value in values.items())
    return Measured(taken, {"threads_in_effect": threads, "cores": cores, "task": "train"}, {"throughput": (1.0, 2.0)})


def test_each_value_has_its_rank_and_what_differs_is_a_fact_of_all():
    found = merged([part(2, "0-1", 0.01), part(1, "2", 0.02)])
    assert [(m.rank, m.values[0]) for m in found.measurements if m.metric == "step_time_s"] == [(0, 0.01), (1, 0.02)]
    assert found.facts == {
        "threads_in_effect": 2, "task": "train", "threads_by_rank": "0: 2; 1: 1", "cores_by_rank": "0: 0-1; 1: 2",
        "items_per_s_by_rank": "0: 400; 1: 200",
    }  # fmt: skip
    assert found.windows_s == {"throughput": (1.0, 2.0)}


def test_one_process_agrees_with_itself():
    measured = part(1, "0", 0.01)
    assert ALONE.joined(measured) is measured
    assert ALONE.agreed(3.0) == 3.0
