"""Ten planted bottlenecks as evidence, and steps that are sound: which cause is named first, by which figures."""

from typing import Any

import msgspec
import pytest
from evidences import CARD, CPU, PHASES, STEP_S, a_line, a_look, an_evidence

from torchstone.analysis.advice.causes import causes_of
from torchstone.core.schema.advice import Statement
from torchstone.core.schema.diagnosis import CauseKind
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.trial import Operators
from torchstone.report.diagnosis_messages import text

FED = {"data": 0.9, "transfer": 0.0, "forward": 0.03, "backward": 0.06, "optimizer": 0.005, "rest": 0.005}
COPIED = {"data": 0.02, "transfer": 0.4, "forward": 0.2, "backward": 0.33, "optimizer": 0.03, "rest": 0.02}
UPDATED = {"data": 0.0, "forward": 0.08, "backward": 0.12, "optimizer": 0.79, "rest": 0.01}
LOADER = {"feed": "loader"}
ALONE = 32 / (0.9 * STEP_S)
RATES: dict[str, Any] = {"device_rate": 32 / (0.1 * STEP_S), "loader_rate": ALONE, "loader_alone_rate": ALONE}

PLANTED = {
    "slow loader": ("loader_waits", an_evidence(LOADER, FED, **RATES, loader_look=a_look(main_busy=0.04))),
    "tiny batch": ("small_batch", an_evidence({"batch_size": 1}, larger=(4, 1.1 * STEP_S))),
    "item per item": (
        "waits",
        an_evidence(
            look=a_look(
                lines=(
                    a_line(0.45, runs=512, waits=1024, code="right += int(a.item() == b.item())"),
                    a_line(0.20, runs=513, line=9, code="for a, b in zip(found, target):"),
                )
            )
        ),
    ),
    "CPU-bound transform": (
        "loader_computes", an_evidence(LOADER, FED, **RATES, loader_look=a_look(main_busy=0.97)),
    ),
    "computing loader without a core of its own": (
        "loader_computes", an_evidence(LOADER, FED, **RATES, loader_look=a_look(main_busy=0.24, main_queued=0.66)),
    ),
    "fp32 on a bf16 device": ("precision", an_evidence(device=CARD)),
    "thrashing": ("thrashing", an_evidence(look=a_look(minor_faults=90_000.0, user_s=0.02, system_s=0.03))),
    "oversubscribed threads": ("threads", an_evidence(facts={"threads_in_effect": 16, "fused_optimizer": True})),
    "unpinned transfer": ("transfer", an_evidence(LOADER, COPIED, device=CARD)),
    "loop in forward": (
        "python_loop",
        an_evidence(
            look=a_look(
                lines=(a_line(0.2, runs=128),), phases={"forward": 0.24, "backward": 0.7, "optimizer": 0.06},
                operators=Operators(1_300, 1),
            ),
            larger=(128, 1.05 * STEP_S),
        ),
    ),
    "many small tensors": (
        "optimizer",
        an_evidence(
            {"fused": "off"}, UPDATED, facts={"threads_in_effect": 2, "fused_optimizer": False},
            look=a_look(tensors=2_000, elements=64.0), larger=(128, 1.1 * STEP_S),
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_each_planted_bottleneck_is_named_first(name):
    expected, evidence = PLANTED[name]
    causes = causes_of(evidence)
    assert causes[0].id == expected, [(c.id, c.share) for c in causes]
    assert causes[0].evidence, "a cause without figures is a guess"
    assert causes[0].share >= 0.1


def test_s2_34_a_device_that_computes_and_is_not_filled_has_a_small_batch_among_its_causes():
    for used, size, told in ((0.5, "batch_too_small", True), (0.9, "large_batch", False)):
        found = next(c for c in causes_of(an_evidence(figures={"device_utilization": used})) if c.id == "computing")
        usual = [one.id for one in found.usual]
        assert usual == ["complex_model", size, "inefficient_operations", "complex_backward"]
        idle = [one.values for one in found.evidence if one.id == "idle"]
        assert idle == ([{"share": 0.5, "usual": 0.7}] if told else [])


def test_a_step_that_is_sound_has_no_cause_but_its_computing():
    (only,) = causes_of(an_evidence())
    assert only.id == "computing"
    assert only.sound
    assert only.kind == CauseKind.COMPUTE


def test_the_loader_says_who_waits_for_whom_and_how_many_processes_it_takes():
    first = causes_of(PLANTED["slow loader"][1])[0]
    assert first.share == pytest.approx(0.9)
    assert first.kind == CauseKind.IO
    told = {one.id: one.values for one in first.evidence}
    assert told["data_share_long"]["usual_s"] == 0.03
    assert told["loader_process"]["busy"] == 0.04
    assert told["paced_by_turns"]["share"] == pytest.approx(0.9)
    assert [w.name for w in first.what_ifs] == ["feed=resident", "num_workers=11", "num_workers=5", "num_workers=2"]
    assert first.what_ifs[0].ceiling


def test_a_loader_that_computes_gets_no_more_processes_than_cores():
    first = causes_of(PLANTED["CPU-bound transform"][1])[0]
    assert [w.name for w in first.what_ifs] == ["feed=resident", "num_workers=2", "num_workers=1"]


def test_on_a_card_the_loader_s_batches_are_pinned_at_once():
    evidence = an_evidence(LOADER, FED, **RATES, device=CARD)
    first = next(c for c in causes_of(evidence) if c.id.startswith("loader"))
    assert first.what_ifs[1].settings["pin_memory"] is True


def test_waits_name_the_line_the_number_and_what_they_cost_at_most():
    first = causes_of(PLANTED["item per item"][1])[0]
    assert first.title.values == {"waits": 1024}
    assert first.share == pytest.approx(0.65)
    assert first.own_code
    assert not first.what_ifs, "no setting changes the user's code"
    assert [place.line for place in first.where] == [10, 9]
    assert first.bound.low == 1.0
    assert first.bound.value == pytest.approx(1 / 0.35)
    assert first.high is not None
    assert 0.66 < first.high < 0.70, "a share of 1,000 samples has its interval"


def test_a_loop_explains_its_part_of_the_backward_pass():
    first = causes_of(PLANTED["loop in forward"][1])[0]
    assert first.share == pytest.approx(0.2 + 0.7 * 0.2 / 0.24)
    assert Statement("operators", {"calls": 1300}) in first.evidence


def test_a_loop_that_calls_no_operators_has_no_backward_pass():
    look = a_look(lines=(a_line(0.5, runs=20_000),), phases={"forward": 0.6, "backward": 0.4})
    assert causes_of(an_evidence(look=look))[0].share == pytest.approx(0.5)


def test_the_blocks_of_a_network_are_no_loop():
    look = a_look(lines=(a_line(0.5, runs=24),))  # 1 ms each time: work worth a call
    assert [c.id for c in causes_of(an_evidence(look=look))] == ["computing"]


def test_an_update_of_few_large_tensors_that_is_fused_is_no_cause():
    assert "optimizer" not in [c.id for c in causes_of(an_evidence(phases=UPDATED))]


def test_fixed_costs_of_other_causes_are_not_the_batch_s():
    ids = [c.id for c in causes_of(PLANTED["many small tensors"][1])]
    assert "small_batch" not in ids


def test_a_batch_is_not_larger_than_the_data_set():
    _, tiny = PLANTED["tiny batch"]
    facts = Facts(threads_in_effect=2, fused_optimizer=True, dataset_items=10)
    first = causes_of(msgspec.structs.replace(tiny, facts=facts))[0]
    assert [w.settings["batch_size"] for w in first.what_ifs if "batch_size" in w.settings] == [8, 4]


@pytest.mark.parametrize(("busy", "named"), [(1.6, True), (0.3, False), (0.0, False)])
def test_other_processes_on_the_cores_are_a_cause(busy, named):
    causes = causes_of(an_evidence(figures={"other_cpu_cores": busy}))
    assert (causes[0].id == "neighbours") == named
    if named:
        assert causes[0].share == pytest.approx(0.8 * 0.99)
        assert causes[0].title.values == {"others": 1.6, "cores": 2}


def test_a_neighbour_beside_a_step_that_waits_for_data_takes_little():
    evidence = an_evidence(LOADER, FED, **RATES, figures={"other_cpu_cores": 1.9})
    assert [c.id for c in causes_of(evidence)][:2] == ["loader", "neighbours"]


def test_a_neighbour_beside_a_step_of_one_thread_is_none():
    facts = {"threads_in_effect": 1, "fused_optimizer": True}
    assert causes_of(an_evidence(figures={"other_cpu_cores": 1.0}, facts=facts))[0].id == "computing"


def test_swapping_is_named_for_what_it_is():
    evidence = an_evidence(look=a_look(major_faults=12.0, minor_faults=500.0, main_busy=0.3))
    first = causes_of(evidence)[0]
    assert first.id == "thrashing"
    assert first.title.id == "host_swaps"
    faults, kernel, waits = (one.values for one in first.evidence)
    assert faults == {"minor": 500.0, "major": 12.0}
    assert kernel == pytest.approx({"share": 0.02, "system_s": 0.001, "cpu_s": 0.05})
    assert waits == pytest.approx({"share": 0.7})
    assert {"batch_size": 16, "grad_accumulation": 2} in [dict(w.settings) for w in first.what_ifs]


def test_a_heap_that_gives_back_is_tried_with_one_that_keeps():
    evidence = an_evidence(look=a_look(minor_faults=90_000.0, user_s=0.02, system_s=0.03), heap="default")
    assert [w.name for w in causes_of(evidence)[0].what_ifs] == ["heap=fixed"]


def test_an_allocator_that_flushes_is_told_with_how_full_it_is():
    evidence = an_evidence(device=CARD, figures={"allocator_retries": 7.0, "peak_reserved_bytes": 78e9})
    found = next(c for c in causes_of(evidence) if c.id == "short_memory")
    (flushed,) = found.evidence
    assert text(flushed) == ("it did 7 times, the peak is 97.5 % of 74.5 GiB (usual: 60 to 80 %, safe: up to 90 %)")
    assert found.kind == CauseKind.MEMORY


@pytest.mark.parametrize("device", [CPU, CARD])
def test_pageable_copies_are_a_cause_of_accelerators_only(device):
    ids = [c.id for c in causes_of(an_evidence(LOADER, COPIED, device=device))]
    assert ("transfer" in ids) == (device is CARD)


def test_nothing_measured_is_no_cause():
    bare = an_evidence(phases=dict.fromkeys(PHASES, 0.0), look=None, larger=None, small_s=None, facts={}, cores=None)
    assert causes_of(bare) == ()


def test_words_where_a_stranger_s_record_should_have_counts_are_none():
    evidence = an_evidence(LOADER, FED, look=None, larger=None)
    odd = {"batch_size": "auto", "num_workers": "many", "grad_accumulation": -2}
    case = msgspec.structs.replace(evidence.case, configuration={**evidence.case.configuration, **odd})
    strange = msgspec.structs.replace(evidence, case=case)
    assert (strange.batch_size, strange.items, strange.workers) == (1, 1, 0)
    assert causes_of(strange)[0].id == "loader"


def test_without_a_look_at_the_host_the_rest_is_still_read():
    assert causes_of(an_evidence(LOADER, FED, look=None, larger=None))[0].id == "loader"


def test_what_the_users_own_batches_rule_out_is_not_tried():
    known, evidence = PLANTED["slow loader"]
    assert known.startswith("loader")
    fixed = msgspec.structs.replace(
        evidence,
        facts=Facts(own_fixed=("batch_size", "num_workers"), own_why=Statement("whole_batches")),
    )
    assert fixed.fixes("num_workers")
    assert not fixed.fixes("feed")
    first = causes_of(fixed)[0]
    assert [w.name for w in first.what_ifs] == ["feed=resident"]
    assert first.remedies[0].id == "own_workers"


def test_copies_of_a_program_are_named_with_their_line_and_pinned_by_hand():
    program = an_evidence(LOADER, COPIED, device=CARD)
    workload = msgspec.structs.replace(program.case.workload, model="program:python train.py")
    copying = a_line(0.35, phase="transfer", file="train.py", line=29, code="out = model(x.cuda())")
    program = msgspec.structs.replace(
        program, case=msgspec.structs.replace(program.case, workload=workload, configuration={"batch_size": 32}),
        facts=Facts(pageable_copies=1.0), look=a_look(lines=(copying, a_line(0.2))),
    )  # fmt: skip
    cause = next(one for one in causes_of(program) if one.id == "transfer")
    assert cause.title.id == "transfer_pageable"
    assert [(place.file, place.line) for place in cause.where] == [("train.py", 29)]
    assert cause.remedies[0].id == "pinned_copies"
    assert [one.axis for one in cause.remedies].count("pin_memory") == 1
    assert [one.values["copies"] for one in cause.evidence if one.id == "pageable_copies"] == [1.0]
    assert not cause.what_ifs, "there is no loader to set"


@pytest.mark.parametrize(
    ("read_bytes", "faults", "advised"),
    [(None, 0.0, True), (0.0, 0.0, False), (50_000.0, 0.0, True), (0.0, 3.0, True)],
    ids=["not known", "sleeps", "reads", "maps files"],
)
def test_a_faster_disk_is_advised_only_to_a_loader_that_reads(read_bytes, faults, advised):
    look = a_look(main_busy=0.1, read_bytes=read_bytes, major_faults=faults)
    cause = causes_of(an_evidence(LOADER, FED, loader_look=look))[0]
    assert cause.id == "loader_waits"
    assert ("faster_disk" in [one.id for one in cause.remedies]) == advised
    assert ("slow_disk" in [one.id for one in cause.usual]) == advised
