"""What an LSTM layer of oneDNN keeps and works in, beside what oneDNN itself says and allocates."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from torchstone.plugins.tasks import _cpu_buffers
from torchstone.plugins.tasks._cpu_buffers import with_buffers

LSTM = torch.ops.aten.mkldnn_rnn_layer.default
SHAPES = [(50, 64, 75, 256), (50, 256, 256, 256), (7, 3, 100, 20), (20, 200, 30, 96)]  # steps, items, inputs, width

pytestmark = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this torch has no oneDNN")


def arguments(steps, items, inputs, width):
    weights = (torch.zeros(4 * width, inputs), torch.zeros(4 * width, width), *torch.zeros(2, 4 * width))
    state = torch.zeros(1, items, width)
    sequence = torch.zeros(steps, items, inputs)
    return (sequence, *weights, state, state.clone(), False, [], 2, width, 1, True, False, False, True)


def allocated(work):
    """Return the most bytes that were alive at once while `work` was done, and its result."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        result = work()
    alive = most = 0
    for event in sorted(profile.profiler.kineto_results.events(), key=lambda event: event.start_ns()):
        if event.name() == "[memory]":
            alive += event.nbytes()
            most = max(most, alive)
    return most, result


@pytest.mark.parametrize("shape", SHAPES)
def test_the_workspace_of_a_layer_is_as_large_as_onednn_makes_it(shape):
    args = arguments(*shape)
    true = LSTM(*args)
    (*_, kept), _ = with_buffers(LSTM, args, (*true[:3], torch.empty(0, dtype=torch.uint8)))
    assert kept.nbytes == pytest.approx(true[3].nbytes, abs=8 * 4096), "each part begins a page"


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, FakeTensorMode, lambda: torch.device("meta")])
def test_what_this_onednn_keeps_is_asked_whatever_mode_it_is_asked_in(mode):
    known = _cpu_buffers._more_copies.__wrapped__()
    with mode():
        assert _cpu_buffers._more_copies.__wrapped__() == known


def test_a_onednn_that_keeps_more_copies_of_the_states_has_them_counted(monkeypatch):
    """That of torch 2.8 (3.7.1) kept 65,675,264 bytes for this layer, and that of 2.13 (3.12.0) 51,470,336."""
    kept = []
    for copies in (0, 2):
        monkeypatch.setattr(_cpu_buffers, "_more_copies", lambda copies=copies: copies)
        kept.append(_cpu_buffers._Layer(50, 64, 75, 256, 4).kept_bytes)
    assert kept == [51470336, pytest.approx(65675264, abs=4096)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("learns", [True, False])
def test_what_lives_only_inside_of_a_layer(shape, learns):
    if "AVX512" in torch.backends.cpu.get_cpu_capability():
        pytest.skip("kernels with AVX-512 keep less")
    args = arguments(*shape)
    with torch.set_grad_enabled(learns):
        LSTM(*args)
        most, true = allocated(lambda: LSTM(*args))
        _, passing = with_buffers(LSTM, args, true)
    returned = sum(part.nbytes for part in true if part is not None)
    assert returned + passing == pytest.approx(most, rel=0.02, abs=64 * 1024)
