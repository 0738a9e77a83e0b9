"""What is certain is foreseen, and nothing else."""

import pytest
from build import a_case, a_machine, a_run, a_trial

from torchstone.core.schema.case import Placement
from torchstone.core.schema.machine import DeviceInfo
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.trial import Measurement, Outcome, Reason, Series, Stage, Status, ended
from torchstone.execution.controller.active_run import SkipPolicy, skipped

GB = 1e9
CARD = DeviceInfo("cuda", "cuda", "NVIDIA", 0, "a card", memory_bytes=int(80 * GB))
HOW = Procedure(timeout_s=60.0)


class Known:
    """A SkipPolicy that has been told of trials."""

    def __init__(self, host_bytes=1000 * GB):
        run = a_run([], machine=a_machine(devices=(CARD,)))
        self.foresight = SkipPolicy(run, lambda: host_bytes)

    def ended(self, case, status=Status.OK, **changes):
        trial = a_trial(case_id=case.case_id, status=status, **changes)
        self.foresight.learn(case, trial)
        return self

    def peaked(self, case, metric, peak_bytes):
        return self.ended(case, steady={metric: [peak_bytes]})

    def says(self, case, procedure=HOW):
        foreseen = self.foresight.objection(case, procedure)
        return None if foreseen is None else foreseen.message


def on_the_card(batch, **axes):
    return a_case({"batch_size": batch, **axes}, placement=Placement("cuda"))


@pytest.mark.parametrize("status", [Status.OUT_OF_MEMORY, Status.UNSUPPORTED, Status.TIMED_OUT])
def test_a_case_that_could_not_is_not_repeated(status):
    known = Known().ended(a_case(), status, trial_id="t7", duration_s=60.2, outcome=Outcome(status, "tf32 is not"))
    why = known.says(a_case())
    assert "t7" in why
    assert ("tf32 is not" in why) is (status == Status.UNSUPPORTED)
    assert known.says(a_case({"precision": "bf16"})) is None
    assert known.says(a_case(), Procedure(foresee=False)) is None


def test_with_more_time_it_is_tried_again():
    known = Known().ended(a_case(), Status.TIMED_OUT, duration_s=60.2)
    assert known.says(a_case(), Procedure(timeout_s=60.0)) is not None
    assert known.says(a_case(), Procedure(timeout_s=61.0)) is None


@pytest.mark.parametrize("status", [Status.CRASHED, Status.INTERRUPTED, Status.SKIPPED])
def test_another_end_says_nothing_of_the_next_time(status):
    assert Known().ended(a_case(), status).says(a_case()) is None


def test_a_case_that_ended_well_once_is_always_tried():
    known = Known().ended(a_case(), Status.OUT_OF_MEMORY).ended(a_case())
    assert known.says(a_case()) is None
    assert known.says(a_case({"batch_size": 32})) is None, "whether 16 lacks memory is in doubt"


def test_what_is_larger_than_what_ran_out_of_memory_is_not_tried():
    small = a_case({"batch_size": 16, "image_size": 224})
    known = Known().ended(small, Status.OUT_OF_MEMORY, trial_id="t7")
    assert known.says(a_case({"batch_size": 32, "image_size": 224})) == (
        "batch_size 16 ran out of memory before, in trial t7"
    )
    assert known.says(a_case({"batch_size": 32, "image_size": 320})) is not None
    assert known.says(a_case({"batch_size": 16, "image_size": 320})) is not None
    for other in ({"batch_size": 8}, {"batch_size": 32, "image_size": 160}, {"batch_size": 32, "precision": "bf16"}):
        assert known.says(a_case({"image_size": 224, **other})) is None, other
    assert known.says(a_case({"batch_size": 32, "image_size": 224}, model="net:other")) is None
    assert known.says(on_the_card(32, image_size=224)) is None


def test_where_a_larger_one_fitted_size_was_not_the_reason():
    known = Known().ended(a_case({"batch_size": 24})).ended(a_case({"batch_size": 12}), Status.OUT_OF_MEMORY)
    assert known.says(a_case({"batch_size": 32})) is None
    assert known.says(a_case({"batch_size": 12})) is not None


def test_memory_that_somebody_else_held_proves_nothing():
    others = Series("device_other_processes", "nvml", (0.1,), (1.0,), "cuda:0")
    known = Known().ended(on_the_card(16), Status.OUT_OF_MEMORY, series=[others])
    assert known.says(on_the_card(16)) is None
    assert known.says(on_the_card(32)) is None


def test_a_peak_surely_above_the_device_is_not_tried():
    known = Known()
    for batch in (8, 16, 32):
        known.peaked(on_the_card(batch), "peak_allocated_bytes", (2 + batch) * GB)  # 34 GB at 32, 1 GB an item
    assert known.says(on_the_card(64)) is None, "66 GB fit"
    assert known.says(on_the_card(79)) is None, "81 GB, and not surely above 80"
    why = known.says(on_the_card(128))
    low = (130 - 0.03 * 96) * GB / (1 << 30)  # the line, less 3 % of what was not measured
    assert why == f"needs at least {low:.0f} GiB of 74.5 GiB device memory, extrapolated from batch_size 8, 16, 32"
    assert known.says(on_the_card(128, precision="bf16")) is None
    assert known.says(a_case({"batch_size": 128})) is None, "another device"


def test_what_is_only_reserved_can_be_given_back():
    known = Known()
    for batch in (16, 32):
        steady = {"peak_allocated_bytes": [batch * GB], "peak_reserved_bytes": [1.5 * batch * GB]}
        known.ended(on_the_card(batch), steady=steady)
    assert known.says(on_the_card(70)) is None
    assert known.says(on_the_card(128)) is not None


def test_little_is_known_from_small_or_near_batches():
    small = Known().peaked(on_the_card(1), "peak_allocated_bytes", 1 * GB)
    assert small.says(on_the_card(1024)) is None, "one batch has no slope"
    small.peaked(on_the_card(2), "peak_allocated_bytes", 2 * GB)
    assert small.says(on_the_card(1024)) is None, "512 times as far"
    near = Known().peaked(on_the_card(30), "peak_allocated_bytes", 30 * GB)
    near.peaked(on_the_card(32), "peak_allocated_bytes", 36 * GB)
    assert near.says(on_the_card(128)) is None, "a slope from neighbours is noise"


def test_the_hosts_memory_is_what_is_available():
    def known(host_bytes):
        made = Known(host_bytes)
        for batch in (16, 32):
            made.peaked(a_case({"batch_size": batch}), "peak_rss_bytes", batch * GB)
        return made

    assert known(62.5 * GB).says(a_case({"batch_size": 64})) is None, "a margin for what it shares with its template"
    assert "host memory" in known(50 * GB).says(a_case({"batch_size": 64}))
    assert known(None).says(a_case({"batch_size": 64})) is None


def test_what_a_resumed_run_has_counts():
    case = a_case()
    run = a_run([a_trial(case_id=case.case_id, status=Status.OUT_OF_MEMORY)], cases=[case])
    assert SkipPolicy(run).objection(case, HOW) is not None


def test_a_skipped_trial_took_no_time_and_says_why():
    foreseen = ended(Status.SKIPPED, Reason.SMALLER_BEFORE, {"sizes": ("batch_size 8",), "trial": "t1"})
    trial = skipped(a_case(), 2, 7, foreseen)
    assert (trial.case_id, trial.number, trial.order, trial.duration_s) == (a_case().case_id, 2, 7, 0.0)
    assert trial.outcome == foreseen
    assert trial.outcome.message == "batch_size 8 ran out of memory before, in trial t1"


def test_what_only_the_warm_up_needed_is_not_certain():
    """Libraries that try kernels in the first steps pass over those whose workspace does not fit."""
    known = Known()
    for batch in (16, 32):
        more = [Measurement("peak_allocated_bytes", Stage.WARMUP, (70 * GB,))]
        known.ended(on_the_card(batch), steady={"peak_allocated_bytes": [batch * GB]}, more=more)
    assert known.foresight.objection(on_the_card(64), HOW) is None
    assert "needs at least" in str(known.foresight.objection(on_the_card(128), HOW))
