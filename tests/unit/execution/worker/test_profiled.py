"""torch's profiler around a step."""

import warnings

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from torchstone.execution.worker.profiled import profiled


def test_what_is_done_within_is_seen_with_its_shapes():
    with profiled([ProfilerActivity.CPU], record_shapes=True) as profiler:
        torch.ones(2, 3) @ torch.ones(3, 4)
    (product,) = [event for event in profiler.events() if event.name == "aten::mm"]
    assert product.input_shapes[:2] == [[2, 3], [3, 4]]


def test_the_warning_that_torch_begins_with_is_not_shown_and_others_are(monkeypatch):
    begin = profile.__enter__

    def warning(self):
        warnings.warn("Warning: Profiler clears events at the end of each cycle.Only", stacklevel=2)  # as torch 2.12
        return begin(self)

    monkeypatch.setattr(profile, "__enter__", warning)
    with profiled([ProfilerActivity.CPU]), pytest.warns(UserWarning, match="of a step"):
        warnings.warn("Warning: of a step", stacklevel=1)
