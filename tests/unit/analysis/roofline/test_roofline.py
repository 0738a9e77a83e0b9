"""MFU against two peaks, the roofline, and what is said where a peak is not known."""

import pytest
from build import a_case, a_machine, a_run, a_trial, peaks_of

from torchstone.analysis.roofline import Ceilings, bound, bound_of, ceilings
from torchstone.analysis.summary import summarize
from torchstone.core.schema.advice import Statement
from torchstone.core.schema.case import Placement
from torchstone.core.schema.machine import DeviceInfo, Rate
from torchstone.core.schema.trial import Measurement, Stage
from torchstone.report.diagnosis_messages import text
from torchstone.storage.query import entry_of

CPU = DeviceInfo("cpu", "cpu", "AMD", 0, "a processor")
H200 = DeviceInfo("cuda", "cuda", "NVIDIA", 0, "NVIDIA H200", memory_bytes=141 << 30, uuid="GPU-1")
GIB = 2.0**30
ON_H200 = {"kind": "cuda", "device_name": "NVIDIA H200", "uuid": "GPU-1"}


def a_measured_run(tmp_path, *, machine, flops=1e9, traffic=GIB, case=None, **trial):
    setup = {"flops": [flops], "traffic_bytes": [traffic], "operators": [100.0]}
    case = case or a_case({"precision": "fp32"})
    facts = {"threads_in_effect": 2}
    about = {"setup": setup, "facts": facts, "case_id": case.case_id, **trial}
    trials = [a_trial([0.1 * (1 + 0.01 * n)] * 10, trial_id=f"t{n}", number=n, **about) for n in range(3)]
    run = a_run(trials, cases=[case], machine=machine)
    return run, summarize(entry_of(run, tmp_path)).cases[0]


def test_achieved_over_the_measured_peak_with_its_interval(tmp_path):
    _, case = a_measured_run(tmp_path, machine=a_machine(devices=(CPU,), peaks=(peaks_of(),)))
    mfu, achieved = case.estimates["mfu_measured"], case.estimates["achieved_flops"]
    assert mfu.value == pytest.approx(1e9 / 0.101 / 2e11, rel=1e-3)
    assert mfu.low / mfu.value == pytest.approx(achieved.low / achieved.value)
    assert (mfu.unit, mfu.trials, mfu.level) == ("ratio", 3, 0.95)
    assert "mfu_datasheet" not in case.estimates
    assert case.ceilings.missing == (Statement("no_datasheet", {"device": "a processor", "precision": "fp32"}),)


def test_the_roofline_is_the_lower_of_peak_and_bandwidth(tmp_path):
    """1 GFLOP a GiB is 0.93 FLOP a byte: 30 GB/s allow 28 GFLOP/s, where products alone would allow 200."""
    _, case = a_measured_run(tmp_path, machine=a_machine(devices=(CPU,), peaks=(peaks_of(),)))
    intensity = case.estimates["arithmetic_intensity"].value
    assert intensity == pytest.approx(1e9 / GIB)
    share = case.estimates["roofline_share"].value
    assert share == pytest.approx(case.estimates["achieved_flops"].value / (intensity * 3e10))


def test_what_stays_in_the_cache_is_not_bounded_by_memory(tmp_path):
    machine = a_machine(devices=(CPU,), peaks=(peaks_of(),))
    _, case = a_measured_run(tmp_path, machine=machine, traffic=float(50 << 20))
    assert case.estimates["roofline_share"].value == pytest.approx(case.estimates["mfu_measured"].value)
    assert "memory" not in case.bound.shares


def test_against_the_datasheet_by_precision_and_never_the_sparse_rate(tmp_path):
    case = a_case({"precision": "bf16"}, placement=Placement("cuda"))
    _, seen = a_measured_run(tmp_path, machine=a_machine(devices=(CPU, H200)), flops=40e12, case=case)
    assert seen.estimates["mfu_datasheet"].value == pytest.approx(40e12 / 0.101 / 989.4e12, rel=1e-3)
    assert "mfu_measured" not in seen.estimates
    assert "H200" in seen.ceilings.datasheet_source
    assert any("torchstone machine peaks" in text(one) for one in seen.ceilings.missing)


@pytest.mark.parametrize(("busy", "told"), [(1.5, True), (0.1, False), (None, False)])
def test_peaks_that_others_disturbed_are_used_and_doubted(busy, told):
    machine = a_machine(devices=(CPU,), peaks=(peaks_of(busy_cores=busy),))
    top = ceilings(machine, Placement("cpu"), {"precision": "fp32"}, 2)
    assert top.measured_flops == 2e11
    assert any("other processes kept 1.5 cores busy" in text(one) for one in top.missing) is told


def test_a_peak_of_0_in_a_record_is_none(tmp_path):
    peaks = peaks_of(matmul_fp32=0.0, memory_copy=0.0, memory_triad=0.0, kernel_launch=-1.0)
    _, case = a_measured_run(tmp_path, machine=a_machine(devices=(CPU,), peaks=(peaks,)))
    assert "mfu_measured" not in case.estimates
    assert any("no fp32 matrix product" in text(one) for one in case.ceilings.missing)


def test_a_peak_that_is_beaten_is_not_hidden(tmp_path):
    peaks = peaks_of(matmul_fp32=1e9)
    _, case = a_measured_run(tmp_path, machine=a_machine(devices=(CPU,), peaks=(peaks,)))
    assert case.estimates["mfu_measured"].value > 9.0
    assert "roofline_share" not in case.estimates


@pytest.mark.parametrize(
    ("machine", "threads", "said"),
    [
        (a_machine(devices=(CPU,)), 2, "no peaks were measured of cpu of host"),
        (a_machine(devices=(CPU,), peaks=(peaks_of(torch="2.8"),)), 2, "no peaks were measured"),
        (a_machine(devices=(CPU,), peaks=(peaks_of(),)), 1, "measured with 2 threads, but this ran with 1"),
        (a_machine(devices=(CPU,), peaks=(peaks_of(matmul_bf16=None),)), 2, "no bf16 matrix product"),
        (a_machine(), 2, "cpu is not among the devices"),
    ],
)
def test_why_a_peak_is_missing(machine, threads, said):
    top = ceilings(machine, Placement("cpu"), {"precision": "bf16"}, threads)
    assert top.measured_flops is None
    assert any(said in text(one) for one in top.missing)


def test_threads_do_not_matter_to_an_accelerator_and_of_two_of_them_one_is_looked_at():
    machine = a_machine(devices=(CPU, H200), peaks=(peaks_of(**ON_H200, threads=16),))
    top = ceilings(machine, Placement("cuda", count=2), {"precision": "bf16"}, 4)
    found = (top.measured_flops, top.measured_bandwidth, top.datasheet_flops)
    assert found == (4e11, 3e10, 989.4e12), "what a step does is counted on one device, too"


def test_peaks_given_stand_before_those_of_the_record(tmp_path):
    run, _ = a_measured_run(tmp_path, machine=a_machine(devices=(CPU,)))
    found = bound_of(run.head.plan.cases[0], run)
    assert found is not None
    assert found.what == "unknown"
    assert "no_peaks" in [one.id for one in found.evidence]
    given = bound_of(run.head.plan.cases[0], run, peaks_of())
    assert given is not None
    assert given.what == "memory"
    assert given.near == pytest.approx(GIB / 3e10 / 0.101, rel=1e-3)


TOP = Ceilings("fp32", measured_flops=2e11, measured_bandwidth=3e10, launch_s=2e-6, cache_bytes=32 << 20)
STEP = {"step_time_mean": 0.1, "flops_per_step": 1e9, "traffic_per_step_bytes": 1e8, "operators_per_step": 100.0}


@pytest.mark.parametrize(
    ("figures", "what", "share"),
    [
        ({"flops_per_step": 16e9}, "compute", 1.0),
        ({"traffic_per_step_bytes": 2.5e9}, "memory", 1.0),
        ({"operators_per_step": 45_000.0}, "launch", 1.0),
        ({"flops_per_step": 8e9, "data_wait_share": 0.6}, "loader", 0.6),
        ({"flops_per_step": 8e9, "data_wait_share": 0.3}, "compute", 0.7),
        ({"phase_transfer_s": 0.07, "anatomy_step_s": 0.1}, "transfer", 0.7),
        ({"phase_communication_s": 0.08, "anatomy_step_s": 0.1}, "communication", 0.8),
    ],
)
def test_what_bounds_a_step(figures, what, share):
    found = bound({**STEP, **figures}, TOP)
    assert found is not None
    assert found.what == what
    assert found.share == pytest.approx(share)
    assert found.evidence[0].id == f"bound_{what}"
    assert text(found.evidence[0]).startswith(f"{what}: ")


def test_where_no_limit_is_near_the_evidence_says_so():
    found = bound({**STEP, "flops_per_step": 1e9}, TOP)
    assert found is not None
    assert found.near < 0.1
    assert "no_limit_near" in [one.id for one in found.evidence]


def test_without_the_time_of_a_step_nothing_is_said():
    assert bound({"flops_per_step": 1e9}, TOP) is None
    closed = bound({"latency_per_batch_mean_s": 0.1, "flops_per_step": 16e9}, TOP)
    assert closed is not None
    assert closed.what == "compute"


def test_a_phase_of_another_window_leaves_the_loader_as_it_was_measured(tmp_path):
    more = [Measurement("phase_time_s", Stage.STEADY, (0.09,), "anatomy", "data")]
    run, case = a_measured_run(tmp_path, machine=a_machine(devices=(CPU,), peaks=(peaks_of(),)), more=more)
    assert case.bound.shares["loader"] == 0.0
    again = bound_of(run.head.plan.cases[0], run)
    assert again is not None
    assert again.shares == case.bound.shares


def test_mfu_says_whether_it_is_over_a_burst_or_what_is_kept_up(tmp_path):
    burst = peaks_of(**ON_H200)
    both = peaks_of(**ON_H200, rates=(*burst.rates, Rate("sustained_matmul_bf16", 3e11, "FLOP/s", "for 3 s")))
    case = a_case({"precision": "bf16"}, placement=Placement("cuda"))
    _, seen = a_measured_run(tmp_path, machine=a_machine(devices=(CPU, H200), peaks=(both,)), case=case)
    measured, sustained = seen.estimates["mfu_measured"], seen.estimates["mfu_sustained"]
    assert sustained.value / measured.value == pytest.approx(4 / 3)
    assert measured.method.endswith("of the best measured matrix product (burst)")
    assert sustained.method.endswith("of the sustained matrix product")
    assert not any("sustained" in text(one) for one in seen.ceilings.missing)
    _, older = a_measured_run(tmp_path, machine=a_machine(devices=(CPU, H200), peaks=(burst,)), case=case)
    assert "mfu_sustained" not in older.estimates
    assert any("the sustained bf16 rate of NVIDIA H200 was not measured" in text(one) for one in older.ceilings.missing)
