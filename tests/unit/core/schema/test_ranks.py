"""What world_size, strategy and backend mean on a device, and what is refused in one line."""

import msgspec
import pytest
from build import a_case, a_machine

from torchstone.core.errors import UsageError
from torchstone.core.schema import ranks
from torchstone.core.schema.case import Placement
from torchstone.core.schema.machine import DeviceInfo

CPU = Placement("cpu")


def test_nothing_named_stays_as_it_is():
    plain = {"batch_size": 4}
    assert ranks.decided(plain, "cpu") is plain
    assert not ranks.is_distributed(plain)
    assert ranks.items_together({**plain, "grad_accumulation": 2}) == 8


@pytest.mark.parametrize(
    ("given", "device", "strategy", "backend"),
    [
        ({"world_size": 1}, "cpu", "none", "auto"),
        ({"world_size": 2}, "cpu", "ddp", "gloo"),
        ({"world_size": 2, "strategy": "fsdp2"}, "cuda", "fsdp2", "nccl"),
        ({"world_size": 2, "backend": "rccl"}, "rocm", "ddp", "nccl"),
        ({"world_size": 2}, "xpu", "ddp", "xccl"),
        ({"strategy": "ddp"}, "cpu", "ddp", "gloo"),
        ({"world_size": 1, "backend": "nccl"}, "cpu", "none", "auto"),
    ],
)
def test_what_is_left_open_suits_the_device(given, device, strategy, backend):
    found = ranks.decided(given, device)
    assert (found["strategy"], found["backend"]) == (strategy, backend)


@pytest.mark.parametrize(
    ("given", "device", "says"),
    [
        ({"world_size": 2, "backend": "nccl"}, "cpu", "backend=nccl does not work on cpu: backend=gloo"),
        ({"world_size": 2}, "mps", "torch.distributed has no back end for mps"),
        ({"world_size": 2, "strategy": "none"}, "cpu", "strategy=none trains in one process, not in 2"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(given, device, says):
    with pytest.raises(UsageError, match=says) as caught:
        ranks.decided(given, device)
    assert "\n" not in str(caught.value)


def test_more_ranks_than_devices_are_refused():
    two = a_machine(devices=tuple(DeviceInfo("cuda", "cuda", "NVIDIA", n, "H200") for n in range(2)))
    ranks.check_devices(Placement("cuda", count=2), two)
    ranks.check_devices(Placement("cpu", count=64), two)
    with pytest.raises(
        UsageError, match="world_size=4 needs as many devices: there are 2 of kind cuda; --axis world_size=2"
    ):
        ranks.check_devices(Placement("cuda", count=4), two)
    with pytest.raises(UsageError, match="there is 1 of kind cuda from index 1 on"):
        ranks.check_devices(Placement("cuda", 1, count=2), two)


def test_one_process_without_a_strategy_is_the_case_of_nobody_who_asks_for_ranks():
    plain = a_case()
    said = ranks.with_ranks(plain.workload, {**plain.configuration, "world_size": 1}, CPU)
    assert said.case_id == plain.case_id
    several = ranks.with_ranks(plain.workload, {**plain.configuration, "world_size": 2}, CPU)
    assert several.placement == msgspec.structs.replace(CPU, count=2)
    assert several.case_id != plain.case_id


def test_ranks_are_spread_over_nodes():
    plain = a_case()
    base = {**plain.configuration, "world_size": 4, "strategy": "ddp"}
    two = ranks.with_ranks(plain.workload, {**base, "nodes": 2}, CPU)
    assert (two.placement.count, two.placement.nodes, two.placement.devices) == (2, 2, 4)
    one = ranks.with_ranks(plain.workload, {**base, "nodes": 1}, CPU)
    assert one.case_id == ranks.with_ranks(plain.workload, base, CPU).case_id
    assert two.case_id != one.case_id
    with pytest.raises(UsageError, match="world_size=4 does not divide among 3 nodes"):
        ranks.with_ranks(plain.workload, {**base, "nodes": 3}, CPU)
    card = a_machine(devices=(DeviceInfo("cuda", "cuda", "NVIDIA", 0, "H200"),))
    ranks.check_devices(Placement("cuda", count=1, nodes=4), card)
    with pytest.raises(UsageError, match=r"needs 2 devices on each of 2 nodes: there is 1 .*; --axis world_size=2"):
        ranks.check_devices(Placement("cuda", count=2, nodes=2), card)


def test_a_grid_keeps_what_is_possible_of_it():
    points = [{"world_size": size, "strategy": word} for size in (1, 2) for word in ("none", "ddp")]
    kept = ranks.possible(points)
    assert [(p["world_size"], p["strategy"]) for p in kept] == [(1, "none"), (1, "ddp"), (2, "ddp")]
    assert ranks.possible(points[2:3]) == points[2:3]  # the plan says why not
    spread = [{"world_size": size, "nodes": nodes} for size in (1, 2) for nodes in (1, 2)]
    assert [(p["world_size"], p["nodes"]) for p in ranks.possible(spread)] == [(1, 1), (2, 1), (2, 2)]


def test_a_search_tries_what_the_words_mean():
    axes = {"strategy": ("auto", "ddp", "fsdp2"), "backend": ("auto",), "world_size": (1, 2)}
    found = ranks.meant(axes, CPU, a_machine())
    assert found == {"strategy": ("ddp", "fsdp2"), "backend": ("gloo",), "world_size": (1, 2)}
    with pytest.raises(UsageError, match="world_size=2 needs as many devices"):
        ranks.meant(axes, Placement("cuda"), a_machine(devices=(DeviceInfo("cuda", "cuda", "NVIDIA", 0, "H200"),)))


def test_the_widest_of_several_configurations_is_what_a_run_takes_of_a_node():
    asked = [{"batch_size": 8}, {"world_size": 4}, {"world_size": 6, "nodes": 3}]
    assert ranks.widest(Placement("cuda", 1), asked) == Placement("cuda", 1, count=4)
    assert ranks.widest(CPU, []) == CPU
