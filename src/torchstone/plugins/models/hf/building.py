"""Builds a transformers model on the CPU: random weights, the hub's, a file's, or a folder's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

import msgspec
import torch
import transformers
from torch import nn
from torch.nn.functional import cross_entropy, pad
from transformers.audio_utils import mel_filter_bank
from transformers.cache_utils import DynamicCache, StaticCache
from transformers.utils import logging

from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.model import Decoding, InputSpec
from torchstone.plugins.models import _weights_file
from torchstone.plugins.models.hf import families
from torchstone.plugins.models.hf.families import ARCHITECTURES, FRAMES_PER_S, Architecture, PublishedModel, open_folder

_INPUTS = ("input_ids", "attention_mask", "pixel_values")
_IGNORED = -100  # the label that torch's cross-entropy leaves out


class Classifying:
    """Encoders and vision models with a classification head. Tensors: input_ids (+ attention_mask) or pixel_values."""

    def forward(self, module: Any, tensors: Mapping[str, Any]) -> Any:
        """Return logits, items × classes."""
        return module(**_inputs(tensors)).logits

    def loss(self, module: Any, tensors: Mapping[str, Any]) -> Any:
        """Return the mean cross-entropy over the items. Raises UsageError if the data has no labels."""
        if "labels" not in tensors:
            raise UsageError("task train: the data has no labels")
        return module(**_inputs(tensors), labels=tensors["labels"]).loss


class Matching:
    """Models of images and texts. Tensors: pixel_values, input_ids, attention_mask."""

    def forward(self, module: Any, tensors: Mapping[str, Any]) -> Any:
        """Return how well they match, images × texts."""
        return module(**_inputs(tensors)).logits_per_image

    def loss(self, module: Any, tensors: Mapping[str, Any]) -> Any:
        """Return the contrastive loss: each image belongs to the text of its own pair, and to no other of the batch."""
        return module(**_inputs(tensors), return_loss=True).loss


class Continuing:
    """Language models. Tensors: input_ids, attention_mask."""

    def __init__(self, model_type: str) -> None:
        self._counts_positions_by_mask = model_type == "opt"

    def forward(self, module: Any, tensors: Mapping[str, Any]) -> Any:
        """Return logits, items × tokens × vocabulary; no cache is kept."""
        return module(**_inputs(tensors, square=not self._counts_positions_by_mask), use_cache=False).logits

    def loss(self, module: Any, tensors: Mapping[str, Any]) -> Any:
        """Return the mean cross-entropy over the next tokens, padding left out."""
        labels = tensors["input_ids"]
        if "attention_mask" in tensors:
            labels = labels.masked_fill(tensors["attention_mask"] == 0, _IGNORED)
        logits = self.forward(module, tensors)
        return cross_entropy(logits[:, :-1].flatten(0, 1).float(), labels[:, 1:].flatten(), ignore_index=_IGNORED)


def _inputs(tensors: Mapping[str, Any], *, square: bool = False) -> dict[str, Any]:
    inputs = {name: tensors[name] for name in _INPUTS if name in tensors}
    if "input_ids" in inputs and inputs["input_ids"].is_meta:
        # Operations are counted on meta tensors. transformers looks into the mask (is it all ones?), and into the
        # positions where there is none (are sequences packed?); neither can answer. A square mask is not looked into.
        items, length = inputs["input_ids"].shape
        inputs.pop("attention_mask", None)
        if square:
            inputs["attention_mask"] = inputs["input_ids"].new_ones((items, 1, length, length)).bool()
    return inputs


RATE_HZ = 16_000
_WINDOW, _HOP = 400, 160  # samples: 25 ms, every 10 ms
_LOUD_TO_QUIET = 8.0  # powers of ten below the loudest that are still told apart


class AudioClassification:
    """Audio models with a classification head. Tensors: waveform, items × samples at 16 kHz."""

    def forward(self, module: Any, tensors: Mapping[str, Any]) -> Any:
        """Return logits, items × classes."""
        return module(**_audio_inputs(module, tensors["waveform"])).logits

    def loss(self, module: Any, tensors: Mapping[str, Any]) -> Any:
        """Return the mean cross-entropy over the items. Raises UsageError if the data has no labels."""
        if "labels" not in tensors:
            raise UsageError("task train: the data has no labels")
        return module(**_audio_inputs(module, tensors["waveform"]), labels=tensors["labels"]).loss


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


def _audio_objection(config: Any, audio_s: float) -> str | None:
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


def _audio_inputs(module: Any, waveform: torch.Tensor) -> dict[str, Any]:
    if hasattr(module, "log_mel"):
        return {"input_features": module.log_mel(waveform)}
    if waveform.is_meta:
        # Where operations are counted no frame is hidden and no layer skipped at random: both are drawn and looked at.
        module.config.apply_spec_augment, module.config.layerdrop = False, 0.0
    variance, mean = torch.var_mean(waveform, dim=1, keepdim=True, correction=0)
    return {"input_values": (waveform - mean) / (variance + 1e-7).sqrt()}  # as its feature extractor does


class DecodingState(msgspec.Struct):
    """A generation under way. `seen`: the tokens in the cache.

    `mask` and `positions`: items × (prompt + generated tokens), where a prompt is padded; None where none is. Without
    them the model counts the tokens in its cache itself, and nothing looks into a mask, which waits for the device.
    """

    cache: Any
    mask: Any = None
    positions: Any = None
    seen: int = 0


class CachedDecoding:
    """Decoding with transformers' caches: one that grows with the tokens, or a static one, as compiled code needs."""

    def __init__(self, config: Any, *, static: bool) -> None:
        self._config = config
        self._static = static
        self._reused: tuple[tuple[int, int], Any] | None = None

    def start(self, module: Any, tensors: Mapping[str, Any], new_tokens: int) -> tuple[Any, DecodingState]:
        """Return the logits after each prompt, items × vocabulary, and the state in which it goes on.

        Only the last position of a prompt goes through the head, as in transformers' own generate().
        """
        ids, mask = tensors["input_ids"], tensors.get("attention_mask")
        # Operations are counted on meta tensors, in whose numbers a static cache could not look up its length.
        static = self._static and not ids.is_meta
        items, length = ids.shape
        room = length + new_tokens - 1  # the last token generated is not fed back
        state = DecodingState(self._static_cache(items, room) if static else DynamicCache(config=self._config))
        if mask is not None:
            state.mask = torch.cat([mask, mask.new_ones((items, new_tokens - 1))], dim=1)
            state.positions = (state.mask.cumsum(dim=1) - 1).clamp(min=0)
        return self._pass(module, ids, state), state

    def go_on(self, module: Any, tokens: Any, state: DecodingState) -> Any:
        """Return the logits after one more token of each item, items × vocabulary."""
        return self._pass(module, tokens[:, None], state)

    def cache_bytes(self, state: DecodingState) -> int:
        """Return the size of all keys and values in the cache."""
        return sum(int(layer.keys.nbytes) + int(layer.values.nbytes) for layer in state.cache.layers)

    def expected_bytes(self, items: int, tokens: int, number_bytes: int) -> int:
        """Return 2 (keys, values) × items × key heads × head size × tokens kept in each layer × bytes of a number."""
        config = self._config
        heads: int = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        width: int = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        layers = DynamicCache(config=config).layers  # a sliding layer keeps what its next query may still see
        windows = [getattr(layer, "sliding_window", None) for layer in layers]
        kept = sum(tokens if window is None else min(tokens, int(window) - 1) for window in windows)
        return 2 * items * heads * width * kept * number_bytes

    def _pass(self, module: Any, ids: Any, state: DecodingState) -> Any:
        end = state.seen + ids.shape[1]
        padded = {}
        if state.mask is not None:
            padded["attention_mask"] = state.mask if self._static else state.mask[:, :end]
            padded["position_ids"] = state.positions[:, state.seen : end]
        output = module(input_ids=ids, past_key_values=state.cache, use_cache=True, logits_to_keep=1, **padded)
        state.seen = end
        return output.logits[:, -1]

    def _static_cache(self, items: int, room: int) -> Any:
        """Return an empty cache: the same for every generation of a shape, for compiled code knows its addresses."""
        if self._reused is None or self._reused[0] != (items, room):
            self._reused = (items, room), StaticCache(config=self._config, max_cache_len=room)
        else:
            self._reused[1].reset()
        return self._reused[1]


def decoding(config: Any, configuration: Mapping[str, Scalar]) -> Decoding:
    """Return how a causal model of that config generates: with a static cache where its passes are compiled."""
    cached = CachedDecoding(config, static=configuration.get("compile", "off") != "off")
    return Decoding(cached.start, cached.go_on, cached.cache_bytes, cached.expected_bytes)


def input_of(config: Any, shape: Architecture) -> InputSpec:
    """Return the inputs of a model of that config."""
    words, eyes = getattr(config, "text_config", config), getattr(config, "vision_config", config)
    rows = getattr(words, "max_position_embeddings", None)
    reads = shape.kind in READING
    return InputSpec(
        shape.kind,
        None if shape.causal or shape.kind == "image_text" else int(config.num_labels),
        getattr(words, "vocab_size", None) if reads else None,
        rows - shape.reserved if isinstance(rows, int) and reads else None,
        getattr(eyes, "num_channels", 3),
        causal=shape.causal,
    )


def objection_of(module: Any, config: Any, spec: InputSpec, *, fixed_size: bool) -> Callable[[str, Scalar], str | None]:
    """Return what says, for a value of an axis, why this model cannot do it. `fixed_size`: the weights are there."""
    kind, eyes = config.model_type, getattr(config, "vision_config", config)
    patch, side = getattr(eyes, "patch_size", None), getattr(eyes, "image_size", None)

    def objection(axis: str, value: Scalar) -> str | None:
        if axis == "sequence_length" and spec.longest is not None and int(value or 0) > spec.longest:
            return f"{kind}: at most {spec.longest} positions"
        if axis == "image_size" and patch and (int(value or 0) < patch or int(value or 0) % patch):
            return f"{kind}: a multiple of its patch size, {patch}"
        if axis == "image_size" and fixed_size and side and value != side:
            return f"{kind}: these weights are for image_size={side}"
        if axis == "audio_s" and spec.kind == "audio":
            return _audio_objection(config, float(value or 0.0))
        if axis == "channels_last" and value and spec.kind not in ("image", "image_text"):
            return f"{kind}: {spec.kind} has no channels"
        if axis == "gradient_checkpointing" and value and not module.supports_gradient_checkpointing:
            return f"{kind}: transformers has no gradient checkpointing for it"
        return None

    return objection


_HEADS = {
    "text": "AutoModelForSequenceClassification",
    "image": "AutoModelForImageClassification",
    "audio": "AutoModelForAudioClassification",
    "image_text": "AutoModel",
}
_HEAD = "classifier."  # what transformers calls the layer, or layers, that answer with a class


READING = ("text", "image_text")  # kinds of input that a tokenizer makes


class BuiltModel(msgspec.Struct):
    """A module with its config, and its tokenizer where files for one lie beside the weights.

    `new`: tensors that the weights do not bring, and that are random: the head of a fine-tuning, mostly.
    """

    module: Any
    config: Any
    tokenizer: Any = None
    new: tuple[str, ...] = ()


def build_model(name: str, weights: str, classes: int | None, configuration: Mapping[str, Scalar]) -> BuiltModel:
    """Build the model. Raises UsageError in one line if its files are absent, torn, do not fit or hold code."""
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    found = families.find_model(name)
    if found is None:
        return _from_folder(name, weights, classes, configuration)
    full, known = found
    if weights == "pretrained" and known.hub is not None:
        return _from_hub(full, known.hub, known, classes)
    wished = _wished(ARCHITECTURES[known.model_type], classes or known.classes)
    config = transformers.AutoConfig.for_model(known.model_type, **{**known.settings, **wished})
    built = _random(config, configuration)
    if weights != "file":
        return built
    file = name.partition("@")[2]
    _weights_file.fill(built.module, f"hf:{full}", file)
    reads = ARCHITECTURES[known.model_type].kind in READING
    return BuiltModel(built.module, built.config, _weights_file.tokenizer_beside(file) if reads else None)


def _wished(shape: Architecture, classes: int | None) -> dict[str, Scalar]:
    return {"num_labels": classes} if classes and not shape.causal and shape.kind != "image_text" else {}


def _random(config: Any, configuration: Mapping[str, Scalar]) -> BuiltModel:
    eyes = getattr(config, "vision_config", config)
    if configuration.get("image_size") and hasattr(eyes, "image_size"):
        eyes.image_size = configuration["image_size"]
    kind = config.model_type
    module = _head(kind).from_config(config, **_kernels(ARCHITECTURES[kind]), trust_remote_code=False)
    return BuiltModel(module, module.config)


def _kernels(shape: Architecture) -> dict[str, str]:
    return {"attn_implementation": "sdpa"} if shape.attention else {}


def _from_hub(full: str, hub: str, known: PublishedModel, classes: int | None) -> BuiltModel:
    shape = ARCHITECTURES[known.model_type]
    with _weights_file.one_line_errors(f"hf:{full}: weights=pretrained ({hub})", _weights_file.instead(f"hf:{full}")):
        config = transformers.AutoConfig.from_pretrained(hub, trust_remote_code=False, **_wished(shape, classes))
        module, new = _with_weights(hub, config, new_head=classes not in (None, known.classes))
        tokenizer = _weights_file.load_tokenizer(hub) if shape.kind in READING else None
    return BuiltModel(module, module.config, tokenizer, new)


def _from_folder(name: str, weights: str, classes: int | None, configuration: Mapping[str, Scalar]) -> BuiltModel:
    folder = open_folder(name, weights_needed=weights != "random")
    source, shape = str(folder.path), folder.architecture
    with _weights_file.one_line_errors(f"hf:{name}"):
        config = transformers.AutoConfig.from_pretrained(
            source, trust_remote_code=False, local_files_only=True, **_wished(shape, classes)
        )
        reads = folder.has_tokenizer and shape.kind in READING
        tokenizer = _weights_file.load_tokenizer(source) if reads else None
        if weights == "random":
            built = _random(config, configuration)
            return BuiltModel(built.module, built.config, tokenizer)
        for file in folder.weights:
            if file.suffix != ".safetensors":
                _weights_file.refuse_code(file)
        module, new = _with_weights(
            source,
            config,
            new_head=classes not in (None, folder.classes),
            local_files_only=True,
            use_safetensors=folder.weights[0].suffix == ".safetensors",
            weights_only=True,
        )
    return BuiltModel(module, module.config, tokenizer, new)


def _with_weights(source: str, config: Any, *, new_head: bool, **how: Any) -> tuple[Any, tuple[str, ...]]:
    """Return the model with the weights of a folder or of the hub, and the names of the tensors they do not bring.

    `new_head`: another number of classes was asked for, so the head begins anew. Raises UsageError where any other
    tensor has another shape, or where the files bring less than half of the model: it would be a random one, untold.
    """
    module, told = _head(config.model_type).from_pretrained(
        source,
        config=config,
        **_kernels(ARCHITECTURES[config.model_type]),
        dtype="float32",
        trust_remote_code=False,
        ignore_mismatched_sizes=True,
        output_loading_info=True,
        **how,
    )
    others = sorted(one for one in told["mismatched_keys"] if not (new_head and one[0].startswith(_HEAD)))
    if others:
        name, theirs, ours = others[0]
        raise UsageError(
            f"hf:{source}: the weights do not fit config.json: {name} is {_shape(theirs)} there, {_shape(ours)} here"
        )
    new = {*told["missing_keys"], *(one[0] for one in told["mismatched_keys"])}
    sizes = {name: tensor.numel() for name, tensor in module.named_parameters()}
    if 2 * sum(sizes.get(name, 0) for name in new) > sum(sizes.values()):
        raise UsageError(
            f"hf:{source}: its weights are of another model: {len(new)} of {len(sizes)} tensors are missing, "
            f"such as {min(new)}"
        )
    return module, tuple(sorted(new))


def _shape(sizes: Any) -> str:
    return "×".join(map(str, sizes)) or "a scalar"


def _head(model_type: str) -> Any:
    shape = ARCHITECTURES[model_type]
    return getattr(transformers, "AutoModelForCausalLM" if shape.causal else _HEADS[shape.kind])
