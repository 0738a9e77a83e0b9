"""DDP and FSDP2 over real processes and gloo: the gradients of their joint batch are those of one process with it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from torchstone.core.errors import Unsupported
from torchstone.plugins.tasks.train import strategies

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="ranks are forked"),
    pytest.mark.xdist_group("strategies"),  # one training serves its tests
]

SIZES, EACH = (1, 2, 4), 4
MODEL = "builtin:mlp"


def case_of(batch_size, strategy=None, size=1, accumulation=1):
    from torchstone.core.schema.case import Case, Placement, Task
    from torchstone.core.schema.request import WorkloadRequest
    from torchstone.execution.plan import sketch

    axes = {"batch_size": (batch_size,), "grad_accumulation": (accumulation,), "threads": (1,)}
    if strategy is not None:
        axes |= {"world_size": (size,), "strategy": (strategy,)}
    asked = sketch(WorkloadRequest(Task.TRAIN, MODEL, axes=axes))
    return Case(asked.workload, {**asked.configurations[0], "channels_last": False}, Placement("cpu"))


def gradients(case):
    """The gradients of the first step, as one vector, and its loss; the weights stay."""
    import torch

    from torchstone.execution.timing.loop import unmarked
    from torchstone.execution.worker.setup import load_model, open_device, open_samples
    from torchstone.plugins import registry

    torch.manual_seed(0)
    device, model = open_device(case), load_model(case)
    engine = registry.load("engines", "train")
    prepared = engine.prepare(case, model, device)
    batches = engine.open_batches(case, model, open_samples(case, model, 0), device, 0)
    prepared._update = lambda: None
    prepared.step(batches.next, unmarked)
    found = [p.grad.full_tensor() if hasattr(p.grad, "full_tensor") else p.grad for p in prepared.module.parameters()]
    return torch.cat([grad.reshape(-1).double() for grad in found]), float(prepared._last_loss)


def as_rank(rank, size, strategy, folder):
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    joint, loss = gradients(case_of(size * EACH if rank == 0 else EACH))
    dist.init_process_group("gloo", init_method=f"file://{folder}/{strategy}{size}", rank=rank, world_size=size)
    own, own_loss = gradients(case_of(EACH, strategy, size))
    halves, _ = gradients(case_of(EACH // 2, strategy, size, accumulation=2))
    losses = torch.tensor(own_loss)
    dist.all_reduce(losses)
    if rank == 0:
        apart = [float((g - joint).norm() / joint.norm()) for g in (own, halves)]
        apart.append(abs(float(losses) / size - loss) / loss)
        Path(folder, f"{strategy}{size}.json").write_text(json.dumps(apart))
    dist.barrier()
    dist.destroy_process_group()


def scatters_that_sum():
    """What gloo of torch 2.8 does: a mean is asked for, and a sum is returned."""
    import torch.distributed as dist

    for name in ("reduce_scatter_tensor", "reduce_scatter_single"):
        if (real := getattr(dist, name, None)) is not None:

            def call(*given, _real=real, **named):
                if named.get("op") == dist.ReduceOp.AVG:
                    named["op"] = dist.ReduceOp.SUM
                return _real(*given, **named)

            setattr(dist, name, call)


def as_summing_rank(rank, size, folder):
    scatters_that_sum()
    Path(folder, "summing").mkdir(exist_ok=True)
    as_rank(rank, size, "fsdp2", f"{folder}/summing")


def main(folder):
    from torch.multiprocessing.spawn import start_processes

    start_processes(as_summing_rank, (2, folder), nprocs=2, start_method="fork")

    for strategy in ("ddp", "fsdp2"):
        for size in SIZES:
            start_processes(as_rank, (size, strategy, folder), nprocs=size, start_method="fork")


@pytest.fixture(scope="module")
def apart(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gradients")
    environment = os.environ | {"GLOO_SOCKET_IFNAME": "lo"}
    subprocess.run([sys.executable, __file__, str(folder)], check=True, timeout=300, env=environment)
    found = {path.stem: json.loads(path.read_text()) for path in folder.glob("*.json")}
    return found | {"summing": json.loads((folder / "summing/fsdp22.json").read_text())}


@pytest.mark.parametrize("strategy", ["ddp", "fsdp2"])
@pytest.mark.parametrize("size", SIZES)
def test_gradients_are_those_of_one_process_on_the_joint_batch(apart, strategy, size):
    whole, accumulated, loss = apart[f"{strategy}{size}"]
    assert whole <= 1e-6
    assert loss <= 1e-6
    assert accumulated <= 1e-6


def test_gradients_are_the_same_where_a_backend_returns_sums_for_means(apart):
    assert max(apart["summing"]) <= 1e-6


@pytest.mark.parametrize(
    ("size", "answer", "has"),
    [(2, 1.0, True), (2, 2.0, False), (4, 4.0, False), (8, RuntimeError("average is not supported"), False),
     (1, RuntimeError("nobody asks of one rank"), True)],
)  # fmt: skip
def test_a_backend_is_asked_for_a_mean(monkeypatch, size, answer, has):
    import torch

    from torchstone.plugins.tasks.train import strategies

    def scatter(output, _given, op):
        assert op == torch.distributed.ReduceOp.AVG
        if isinstance(answer, RuntimeError):
            raise answer
        output.fill_(answer)

    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: size)
    monkeypatch.setattr(torch.distributed, "reduce_scatter_single", scatter, raising=False)
    assert strategies.has_mean(torch.device("cpu")) is has


def test_a_torch_that_cannot_divide_sums_says_so():
    from torchstone.core.errors import Unsupported
    from torchstone.plugins.tasks.train.strategies import _divide_sums

    with pytest.raises(Unsupported, match="has no mean of gradients; strategy=ddp"):
        _divide_sums(object())


if __name__ == "__main__":
    main(sys.argv[1])


def scaler_on(place, *, fused, fp64=True, monkeypatch=None, **configuration):
    if monkeypatch is not None:
        properties = SimpleNamespace(has_fp64=fp64)
        monkeypatch.setattr(torch.xpu, "get_device_properties", lambda _: properties)
    device: Any = SimpleNamespace(torch_device=place)
    return strategies.scaler({"precision": "fp16", **configuration}, device, fused=fused)


def test_other_formats_need_none():
    assert scaler_on("cpu", fused=False, precision="bf16") is None
    assert scaler_on("cpu", fused=False)._device == "cpu"
    assert scaler_on("mps:0", fused=False)._device == "mps"


@pytest.mark.parametrize(("fused", "clip", "fits"), [(True, 0.0, True), (True, 1.0, False), (False, 0.0, False)])
def test_a_device_without_fp64_takes_fp16_where_the_update_undoes_the_scale(monkeypatch, fused, clip, fits):
    how = {"fused": fused, "grad_clip": clip, "monkeypatch": monkeypatch}
    assert scaler_on("xpu:0", fp64=True, **how)._device == "xpu"
    if fits:
        assert scaler_on("xpu:0", fp64=False, **how)._device == "xpu"
        return
    with pytest.raises(Unsupported, match=r"^precision=fp16: .*fp64, which this device lacks; use precision=bf16"):
        scaler_on("xpu:0", fp64=False, **how)
