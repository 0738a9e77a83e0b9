"""The workspace of a thread that multiplies, as aten/src/ATen/cuda/CublasHandlePool.cpp has it."""

import pytest

from torchstone.core.stats.peak_memory import workspace_bytes

MIB = 2**20


@pytest.mark.parametrize(
    ("kind", "capability", "size"),
    [
        ("cuda", "7.5", 8 * MIB + 128 * 1024),
        ("cuda", "8.9", 8 * MIB + 128 * 1024),
        ("cuda", None, 8 * MIB + 128 * 1024),
        ("cuda", "9.0", 32 * MIB),
        ("cuda", "10.0", 32 * MIB),
        ("cuda", "12.0", 32 * MIB),
        ("rocm", "gfx90a", (32 + 76) * MIB),
        ("rocm", "gfx942", (128 + 76) * MIB),
        ("rocm", "gfx950", (128 + 76) * MIB),
        ("xpu", None, 0),
        ("mps", None, 0),
        ("cpu", "AVX512", 0),
    ],
)
def test_each_generation_has_its_own(kind, capability, size):
    assert workspace_bytes(kind, capability) == size
