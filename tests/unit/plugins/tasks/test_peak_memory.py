"""The peak of a step that is followed without data, against sums worked out by hand."""

import gc
from typing import Any

import pytest
import torch
from torch import nn

from torchstone.core.errors import Unsupported
from torchstone.core.schema.case import Case, Placement, Task, Workload
from torchstone.core.schema.model import InputSpec, LoadedModel
from torchstone.plugins import registry
from torchstone.plugins.tasks._peak_memory import LiveStorages, pretending, step_peak_memory
from torchstone.plugins.tasks.train import PLUGIN as TRAIN

INFER = registry.load("engines", "infer")
WIDE = 256


class Device:
    """A device that objects to nothing."""

    def __init__(self, capability=None):
        self.torch_device = torch.device("cpu")
        self.capability = capability

    def objection(self, axis, value):
        return None

    def preference(self, axis, configuration):
        return None


def a_case(kind="cpu", task=Task.TRAIN, **configuration):
    settings = {
        "batch_size": 8, "precision": "fp32", "optimizer": "sgd", "learning_rate": 0.1, "fused": "off",
        "feed": "loader", "grad_accumulation": 1, "grad_clip": 0.0, **configuration,
    }  # fmt: skip
    return Case(Workload(task, "py:made", "example", "item"), settings, Placement(kind))


def a_model(module):
    loss = lambda network, tensors: network(tensors["x"]).float().sum()
    return LoadedModel(module, lambda network, tensors: network(tensors["x"]), loss, InputSpec("own"))


def peak(module, case, shape=(WIDE,), device: Any = None, engine=None):
    engine = engine or (TRAIN if case.workload.task == Task.TRAIN else INFER)
    a_device: Any = Device()
    drawn = {"x": torch.zeros(2, *shape)}
    return step_peak_memory(engine, case, a_model(module), drawn, device or a_device)


def layers(count, **how):
    return nn.Sequential(*(nn.Linear(WIDE, WIDE, bias=False, **how) for _ in range(count)))


LAYER = WIDE * WIDE * 4


def test_weights_gradients_and_state_are_what_they_are():
    found = peak(layers(4), a_case(optimizer="adamw"))
    assert found.kinds["weights"] == 4 * LAYER
    assert found.kinds["optimizer"] == pytest.approx(8 * LAYER, abs=64)  # two moments, and counts of steps
    assert found.kinds["gradients"] == 4 * LAYER
    assert found.phase == "optimizer"
    assert sum(found.kinds.values()) == found.allocated_bytes
    assert found.reserved_bytes is None


@pytest.mark.parametrize(("optimizer", "states"), [("sgd", 1), ("adam", 2), ("adamw", 2)])
def test_each_optimizer_has_its_state(optimizer, states):
    assert peak(layers(2), a_case(optimizer=optimizer)).kinds["optimizer"] == pytest.approx(2 * states * LAYER, abs=64)


def test_state_in_eight_bits_is_a_quarter_of_it():
    pytest.importorskip("torchao")
    found = peak(layers(2), a_case(optimizer="adamw8bit", fused="auto"))
    scales, tables, counts = LAYER // 256, 2 * 256 * 4, 4  # a scale for 256 numbers
    assert found.kinds["optimizer"] == pytest.approx(2 * (2 * LAYER // 4 + 2 * scales + tables + counts), abs=64)
    assert found.phase == "optimizer"
    assert found.kinds["temporaries"] == pytest.approx(2 * (LAYER + scales), abs=64), "moments of one layer in fp32"


def test_with_adapters_the_weights_have_no_gradients_and_no_state(monkeypatch):
    pytest.importorskip("peft")
    monkeypatch.setattr(torch.backends.mha, "_is_fastpath_enabled", True)  # adapters turn it off for the process
    found = peak(layers(4), a_case(optimizer="adamw", lora=8))
    adapters = 4 * 2 * 8 * WIDE * 4
    assert found.kinds["weights"] == 4 * LAYER + adapters
    assert found.kinds["optimizer"] == pytest.approx(2 * adapters, abs=64)


def test_what_the_forward_pass_keeps_grows_with_the_batch():
    batch = 4096
    module = nn.Sequential(*(part for _ in range(3) for part in (nn.Linear(WIDE, WIDE, bias=False), nn.ReLU())))
    small, large = (peak(module, a_case(batch_size=n)) for n in (batch, 2 * batch))
    assert large.phase in ("forward", "backward")
    # A product keeps what goes in, a ReLU what comes out: between the layers one tensor of each serves both.
    assert large.kinds["activations"] - small.kinds["activations"] == 2 * batch * WIDE * 4
    assert large.kinds["inputs"] == 2 * batch * WIDE * 4
    slope = (large.allocated_bytes - small.allocated_bytes) / batch
    assert slope == pytest.approx((small.allocated_bytes - small.kinds["weights"]) / batch, rel=0.6)


def test_checkpointing_keeps_less_and_computes_it_again():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.ModuleList(
                nn.Sequential(nn.Linear(WIDE, WIDE), nn.GELU(), nn.Linear(WIDE, WIDE)) for _ in range(6)
            )
            self.again = False

        def gradient_checkpointing_enable(self):
            self.again = True

        def forward(self, x):
            for part in self.parts:
                x = torch.utils.checkpoint.checkpoint(part, x, use_reentrant=False) if self.again else part(x)
            return x

    kept = peak(Net(), a_case(batch_size=4096))
    again = peak(Net(), a_case(batch_size=4096, gradient_checkpointing=True))
    assert again.kinds["activations"] < 0.6 * kept.kinds["activations"]
    assert again.allocated_bytes < 0.75 * kept.allocated_bytes


def test_half_precision_halves_what_is_kept_and_adds_copies_of_the_weights():
    whole = peak(layers(6), a_case(batch_size=4096))
    half = peak(layers(6), a_case(batch_size=4096, precision="bf16"))
    assert half.kinds["weights"] == whole.kinds["weights"]
    assert 0.4 * whole.kinds["activations"] < half.kinds["activations"] < 0.85 * whole.kinds["activations"]


def test_accumulation_holds_gradients_while_the_next_batch_is_computed():
    once = peak(layers(4), a_case(batch_size=4096))
    twice = peak(layers(4), a_case(batch_size=4096, grad_accumulation=2))
    assert twice.allocated_bytes > once.allocated_bytes
    assert twice.kinds["gradients"] == 4 * LAYER


def test_inference_keeps_two_layers_at_a_time():
    found = peak(layers(6), a_case(task=Task.INFER, batch_size=4096))
    each = 4096 * WIDE * 4
    assert found.kinds["weights"] == 6 * LAYER
    assert found.kinds["activations"] + found.kinds["inputs"] <= 3 * each + 64  # and what the fingerprint is made of
    assert "gradients" not in found.kinds


def test_resident_batches_stay():
    loaded, resident = (
        peak(layers(1), a_case(task=Task.INFER, batch_size=1024, feed=f)) for f in ("loader", "resident")
    )
    assert resident.kinds["inputs"] == 4 * loaded.kinds["inputs"]


def test_tied_weights_count_once():
    module = layers(2)
    module[1].weight = module[0].weight
    assert peak(module, a_case()).kinds["weights"] == LAYER


class Attends(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.dropout = dropout
        self.q = nn.Linear(WIDE, 3 * WIDE)

    def forward(self, x):
        q, k, v = self.q(x).unflatten(-1, (3, 4, WIDE // 4)).permute(2, 0, 3, 1, 4)
        return nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout)


@pytest.mark.parametrize("task", [Task.TRAIN, Task.INFER])
def test_on_cuda_fused_attention_never_keeps_its_scores(task):
    case = lambda **how: a_case("cuda", task, batch_size=2, precision="bf16", **how)
    device = Device("8.0")
    scores = 2 * 4 * 2048 * 2048 * 2
    fused = peak(Attends(), case(), (2048, WIDE), device)
    plain = peak(Attends(), case(sdpa="math"), (2048, WIDE), device)
    assert fused.allocated_bytes < scores < plain.allocated_bytes


def test_on_cuda_a_workspace_counts_and_sizes_are_rounded():
    ampere, hopper = (peak(layers(2), a_case("cuda"), device=Device(c)) for c in ("8.0", "9.0"))
    assert (ampere.kinds["workspace"], hopper.kinds["workspace"]) == (2 * 8_519_680, 2 * 33_554_432)
    assert ampere.allocated_bytes % 512 == 0
    assert ampere.reserved_bytes >= ampere.allocated_bytes
    inferring = peak(layers(2), a_case("cuda", Task.INFER), device=Device("8.0"))
    assert inferring.kinds["workspace"] == 8_519_680, "there is no thread of backward passes"
    intel = peak(layers(2), a_case("xpu"), device=Device())
    assert "workspace" not in intel.kinds


def test_on_cuda_an_update_in_loops_makes_temporaries_and_a_fused_one_does_not():
    looped = peak(layers(8), a_case("cuda", optimizer="adamw"), device=Device("8.0"))
    fused = peak(layers(8), a_case("cuda", optimizer="adamw", fused="on"), device=Device("8.0"))
    assert looped.phase == "optimizer"
    assert looped.kinds["temporaries"] >= 8 * LAYER
    assert fused.kinds.get("temporaries", 0) < LAYER


def test_on_cuda_a_mask_of_dropout_is_a_byte_a_number():
    kept, dropped = (
        peak(nn.Sequential(nn.Linear(WIDE, WIDE), nn.Dropout(p), nn.Linear(WIDE, WIDE)),
             a_case("cuda", batch_size=4096), device=Device("8.0"))
        for p in (0.0, 0.1)
    )  # fmt: skip
    masks = dropped.kinds["activations"] - kept.kinds["activations"]
    assert masks == 4096 * WIDE


@pytest.mark.parametrize(("kernels", "wide"), [(("flash",), torch.float32), (None, torch.bfloat16)])
def test_autocast_goes_the_ways_of_cuda_on_a_card_only(kernels, wide):
    with pretending("auto", kernels), torch.autocast("cpu", torch.bfloat16):
        x = torch.empty(8, WIDE)
        half = nn.functional.linear(x, torch.empty(WIDE, WIDE))
        assert half.dtype == torch.bfloat16
        assert nn.functional.layer_norm(half, (WIDE,)).dtype == wide
        assert half.softmax(1).dtype == wide
        assert half.sum().dtype == wide
        assert half.sum(1, dtype=torch.bfloat16).dtype == torch.bfloat16, "as asked for"
        assert half.exp().dtype == wide
        assert nn.functional.gelu(half).dtype == torch.bfloat16
        assert nn.functional.cross_entropy(half, torch.zeros(8, dtype=torch.int64)).dtype == torch.float32
    real = torch.ones(2, 4, dtype=torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16):
        assert nn.functional.layer_norm(real, (4,)).dtype == torch.bfloat16, "afterwards a CPU is one again"


def test_fp16_has_its_scaler():
    assert peak(layers(2), a_case("cuda", precision="fp16"), device=Device("8.0")).allocated_bytes > 6 * LAYER


class Chooses(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(WIDE, WIDE)

    def forward(self, x):
        return self.layer(x[x.sum(1) > 0])


def test_a_shape_that_hangs_on_data_is_told_as_such():
    with pytest.raises(Unsupported, match="data-dependent"):
        peak(Chooses(), a_case())


def test_an_operator_without_a_shape_function_is_told_as_such():
    with torch.library._scoped_library("torchstone_test", "DEF") as library:
        library.define("odd(Tensor x) -> Tensor")
        library.impl("odd", lambda x: x.clone(), "CPU")

        class Odd(nn.Module):
            def forward(self, x):
                return torch.ops.torchstone_test.odd(x)

        with pytest.raises(Unsupported, match="no shape function"):
            peak(Odd(), a_case(task=Task.INFER))


def test_torch_is_as_it_was_afterwards():
    before = (
        torch.backends.mkldnn.enabled,
        torch.backends.mha.get_fastpath_enabled(),
        torch.is_inference_mode_enabled(),
    )
    peak(Attends(), a_case("cuda", batch_size=2), (16, WIDE), Device("8.0"))
    gc.collect()
    after = (
        torch.backends.mkldnn.enabled,
        torch.backends.mha.get_fastpath_enabled(),
        torch.is_inference_mode_enabled(),
    )
    assert after == before
    assert torch.ones(2).sum().item() == 2.0
    real = torch.randn(1, 2, 4, 8)
    assert torch.nn.functional.scaled_dot_product_attention(real, real, real).shape == real.shape


def test_a_storage_lives_from_its_allocation_to_its_death():
    with pretending("auto", None), LiveStorages() as live:
        first = torch.empty(10)
        view = first[2:]
        second = first + 1
        assert [birth.size for birth in live.births] == [40, 40]
        del first
        assert live.alive == {0, 1}, "a view keeps it"
        del view
        assert live.alive == {1}
        second.add_(1)
        del second
    assert not live.alive
    assert live.course == [(0, 40), (1, 40), (0, -40), (1, -40)]
    assert [alive for _, alive in live.since(0)] == [40, 80, 40, 0]
    assert live.alive_at(1) == {0, 1}


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this torch has no oneDNN")
def test_what_onednns_lstm_allocates_inside_of_itself_is_not_guessed():
    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(WIDE, WIDE, batch_first=True)

        def forward(self, x):
            return self.lstm(x)[0]

    lstm = Recurrent()
    with pytest.raises(Unsupported, match="LSTM"):
        peak(lstm, a_case(), (4, WIDE))
    assert peak(lstm, a_case("cuda"), (4, WIDE), Device("8.0")).kinds["weights"] >= 8 * LAYER
