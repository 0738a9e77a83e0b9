"""Which kernel a step's attention ran: PyTorch's choice among those allowed depends on shapes and formats.

The operators of one more step tell, as torch's profiler hears of them: a mode that watched them would itself turn some
fast paths off. Compiled code that replays a graph of the device calls no operator, and there the names of kernels tell.
It is a pass of its own, after everything was measured.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from torchstone.core.schema.facts import Facts
from torchstone.execution.timing.loop import Source, Step, unmarked
from torchstone.execution.worker.profiled import profiled
from torchstone.plugins.machine_protocols import Device

# Parts of names of operators, and of kernels: cuDNN, FlashAttention and AOTriton, the CUTLASS kernels of xFormers. What
# torch calls `overrideable` is the vendor's own; `native` is the fast path of nn.TransformerEncoder, one operator.
_KERNELS = (
    ("cudnn", re.compile(r"_cudnn_attention|cudnn_generated_\w*sdpa|cudnn\w*_sdpa_")),
    ("flash", re.compile(r"_flash_attention|flash_fwd|flash_bwd|flash::|\battn_fwd|\bfmha_(fwd|bwd)_d|FmhaFwdKernel")),
    ("efficient", re.compile(r"_efficient_attention|fmha_cutlass")),
    ("overrideable", re.compile(r"_fused_attention_overrideable")),
    ("native", re.compile(r"_native_multi_head_attention")),
    ("math", re.compile(r"_scaled_dot_product_attention_math")),
)


def kernels_in(names: Iterable[str]) -> str | None:
    """Return the attention kernels that names of operators or device kernels are of, joined by +; None: of none."""
    every = "\n".join(dict.fromkeys(names))
    return "+".join(kernel for kernel, pattern in _KERNELS if pattern.search(every)) or None


def attention_facts(step: Step, source: Source, device: Device, *, compiled: bool) -> Facts:
    """Do one more step and return what kernels its attention ran, or why that was not seen; nothing where it has none.

    `compiled`: the step runs code of torch.compile.
    """
    try:
        found = kernels_in(_names(step, source, device, kernels=compiled))
    except StopIteration:  # the source has ended
        return Facts()
    except (RuntimeError, NotImplementedError, TypeError, ValueError, AttributeError) as error:
        # It was measured all the same: a user's own profiler may be at work, or the memory may suffice for no profiler.
        said = str(error).strip().partition("\n")[0][:120]
        return Facts(attention_not_seen=f"{type(error).__name__}: {said}")
    return Facts(attention_kernel=found)


def _names(step: Step, source: Source, device: Device, *, kernels: bool) -> Iterator[str]:
    """Return the names of the operators of one step, and of the device's kernels if that is asked for."""
    from torch.profiler import ProfilerActivity, supported_activities

    devices = [a for a in supported_activities() if a in (ProfilerActivity.CUDA, ProfilerActivity.XPU)]
    device.synchronize()
    with profiled([ProfilerActivity.CPU, *(devices if kernels else ())]) as profiler:
        step(source, unmarked)
        device.synchronize()
    raw = getattr(profiler.profiler, "kineto_results", None)
    if raw is not None:  # torch's own list of them takes a millisecond an operator to make
        return (str(event.name()) for event in raw.events())
    return (str(event.name) for event in profiler.events() or ())
