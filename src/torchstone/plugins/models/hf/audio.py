"""How sound goes into a transformers model: into wav2vec2 as it is, into Whisper as a log-mel spectrogram."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import torch
from torch import nn
from torch.nn.functional import pad
from transformers.audio_utils import mel_filter_bank

from torchstone.core.errors import UsageError
from torchstone.plugins.models.hf.families import FRAMES_PER_S

RATE_HZ = 16_000
_WINDOW, _HOP = 400, 160  # samples: 25 ms, every 10 ms
_LOUD_TO_QUIET = 8.0  # powers of ten below the loudest that are still told apart


class Listening:
    """Audio models with a classification head. Tensors: waveform, items × samples at 16 kHz."""

    def forward(self, module: Any, tensors: Mapping[str, Any]) -> Any:
        """Return logits, items × classes."""
        return module(**_inputs(module, tensors["waveform"])).logits

    def loss(self, module: Any, tensors: Mapping[str, Any]) -> Any:
        """Return the mean cross-entropy over the items. Raises UsageError if the data has no labels."""
        if "labels" not in tensors:
            raise UsageError("task train: the data has no labels")
        return module(**_inputs(module, tensors["waveform"]), labels=tensors["labels"]).loss


class LogMel(nn.Module):
    """The log-mel spectrogram that Whisper was trained on (Radford et al., 2022, §2.2), as its own code makes it.

    Users compute it for every clip, so it is part of the step: on the device, in fp32, from clips padded or cut to the
    length that the encoder takes.
    """

    filters: torch.Tensor
    window: torch.Tensor

    def __init__(self, bins: int, frames: int) -> None:
        super().__init__()
        filters = mel_filter_bank(
            1 + _WINDOW // 2, bins, 0.0, RATE_HZ / 2, RATE_HZ, norm="slaney", mel_scale="slaney", dtype="float32"
        )
        self.register_buffer("filters", torch.from_numpy(filters.T.copy()), persistent=False)
        self.register_buffer("window", torch.hann_window(_WINDOW), persistent=False)
        self._frames = frames

    def forward(self, waveform: torch.Tensor) -> torch.Tensor:
        """Items × samples → items × bins × frames."""
        padded = pad(waveform, (0, self._frames * _HOP - waveform.shape[1]))
        if padded.is_meta:  # where operations are counted; a Fourier transform is none of those that are
            power = padded.new_empty((len(padded), 1 + _WINDOW // 2, self._frames))
        else:
            spectrum = torch.stft(padded, _WINDOW, _HOP, window=self.window, return_complex=True)
            power = spectrum[..., :-1].abs().square()
        exact = nullcontext() if padded.is_meta else torch.autocast(padded.device.type, enabled=False)
        with exact:
            logarithm = (self.filters @ power).clamp(min=1e-10).log10()
        floor = logarithm.amax(dim=(1, 2), keepdim=True) - _LOUD_TO_QUIET
        return (torch.maximum(logarithm, floor) + 4.0) / 4.0


def fit_ears(module: Any) -> None:
    """Give a model of spectrograms what makes them of samples: `module.log_mel`. Others stay as they are."""
    config = module.config
    if config.model_type == "whisper":
        module.log_mel = LogMel(config.num_mel_bins, 2 * config.max_source_positions)


def objection(config: Any, audio_s: float) -> str | None:
    """Say why a model does not take clips of that length, or None."""
    if config.model_type == "whisper":
        longest_s = config.max_source_positions / FRAMES_PER_S
        return f"whisper: its window is {longest_s:g} s" if audio_s > longest_s else None
    samples = config.mask_time_length
    for kernel, stride in zip(reversed(config.conv_kernel), reversed(config.conv_stride), strict=True):
        samples = (samples - 1) * stride + kernel
    least_s = samples / RATE_HZ
    told = f"{config.model_type}: at least {least_s:.3g} s, for training hides {config.mask_time_length} frames at once"
    return told if audio_s < least_s else None


def _inputs(module: Any, waveform: torch.Tensor) -> dict[str, Any]:
    if hasattr(module, "log_mel"):
        return {"input_features": module.log_mel(waveform)}
    if waveform.is_meta:
        # Where operations are counted no frame is hidden and no layer skipped at random: both are drawn and looked at.
        module.config.apply_spec_augment, module.config.layerdrop = False, 0.0
    variance, mean = torch.var_mean(waveform, dim=1, keepdim=True, correction=0)
    return {"input_values": (waveform - mean) / (variance + 1e-7).sqrt()}  # as its feature extractor does
