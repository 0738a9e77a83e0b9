"""What torch allocates for the libraries that multiply matrices: a workspace for each thread that does.

aten/src/ATen/cuda/CublasHandlePool.cpp, parseChosenWorkspaceSize and parseCUDABlasLtWorkspaceSize, with their default
settings. It comes from torch's own allocator, and counts in `max_memory_allocated`. cuBLAS and cuBLASLt share theirs;
hipBLAS and hipBLASLt have one each, and which of them is called for a product differs between releases: both count.
"""

from __future__ import annotations

_MIB = 1 << 20
_CUBLAS = 2 * 4 * _MIB + 8 * 16 * 1024
_CUBLAS_LARGE = 32 * _MIB
_LARGE = ("9", "10", "12")  # major versions: Hopper, and Blackwell of torch 2.12 and newer
_HIPBLAS, _HIPBLAS_LARGE, _HIPBLAS_LT = 32 * _MIB, 128 * _MIB, 76 * _MIB


def workspace_bytes(kind: str, capability: str | None) -> int:
    """Return the bytes for one thread on a device. `capability`: as torch calls it (9.0; gfx942); None: not known."""
    known = capability or ""
    if kind == "cuda":
        return _CUBLAS_LARGE if known.partition(".")[0] in _LARGE else _CUBLAS
    if kind == "rocm":
        return _HIPBLAS_LT + (_HIPBLAS_LARGE if known.startswith(("gfx94", "gfx95")) else _HIPBLAS)
    return 0
