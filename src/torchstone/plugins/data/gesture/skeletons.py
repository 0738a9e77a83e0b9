"""Sequences of skeletons, made comparable and changed at random. Imported in the process of a trial only.

All take and return frames × 25 joints × (x, y, z), float32, in a Kinect v2's order of joints; y points up.
"""

from __future__ import annotations

import math

import torch

_HIP, _NECK = 0, 20  # Kinect v2: SpineBase, SpineShoulder
_TURN = math.radians(15.0)  # people face the camera, about
_JITTER = 0.01  # in trunks: some 5 mm, as much as a joint that is held still wanders
_WARP = 0.5  # most by which a gesture is slower or faster, here and there


def normalised(frames: torch.Tensor) -> torch.Tensor | None:
    """Return them with the hip at the origin and the trunk 1 long, so that subjects compare; None if it has no length.

    As Shahroudy et al. (NTU RGB+D, CVPR 2016) do it, but for their turning of the body: here all face the camera. The
    trunk is one length for a whole sequence, its median: scaling each frame by its own would take out movement.
    """
    trunk = (frames[:, _NECK] - frames[:, _HIP]).norm(dim=-1).median()
    return None if float(trunk) < 1e-3 else (frames - frames[:, _HIP : _HIP + 1]) / trunk


def resampled(frames: torch.Tensor, length: int, *, warp: float = 0.0) -> torch.Tensor:
    """Return `length` frames at even times from the first to the last, linearly between those there are.

    A gesture lasts from one second to six and more. Cut to twenty frames it would end before it has begun; padded, the
    last frame, by which a recurrent network decides, would be empty. `warp`, from -1 to 1: by how much the middle
    comes later or sooner; time never runs backwards.
    """
    times = torch.linspace(0.0, 1.0, length) if length > 1 else torch.tensor([0.5])
    # The derivative, 1 + warp · cos, is nowhere negative.
    times = times + warp * torch.sin(2 * math.pi * times) / (2 * math.pi)
    places = (times * (len(frames) - 1)).clamp(0, len(frames) - 1)
    before = places.floor().long().clamp(max=max(0, len(frames) - 2))
    after = (before + 1).clamp(max=len(frames) - 1)
    share = (places - before)[:, None, None]
    return torch.lerp(frames[before], frames[after], share)


def random_warp() -> float:
    """Return a warp for `resampled`, from torch's generator."""
    return _between(-_WARP, _WARP)


def augmented(frames: torch.Tensor) -> torch.Tensor:
    """Return normalised frames turned a little about the vertical axis, with noise on every joint."""
    angle = _between(-_TURN, _TURN)
    sin, cos = math.sin(angle), math.cos(angle)
    turn = torch.tensor([[cos, 0.0, -sin], [0.0, 1.0, 0.0], [sin, 0.0, cos]])
    return frames @ turn + _JITTER * torch.randn_like(frames)


def _between(low: float, high: float) -> float:
    return low + (high - low) * float(torch.rand(()))
