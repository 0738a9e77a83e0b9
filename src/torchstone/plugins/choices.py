"""Which model, data and runtime are meant: their sources, options checked, the split a task takes, what goes together.

torch is not imported for that.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from torchstone.core.errors import UsageError, unknown
from torchstone.core.schema.axis import AXES, EAGER, UNQUANTIZED, VARIANT_AXES, Scalar
from torchstone.core.schema.model import SPLITS, DataCard, ModelCard
from torchstone.plugins import registry
from torchstone.plugins.protocols import DataSource, Engine, Runtime

# Axes that shape the input; a model that brings its own example batch, or takes another kind, does not have them.
SHAPES = {
    "sequence_length": ("text", "features", "image_text"),
    "image_size": ("image", "image_text"),
    "audio_s": ("audio",),
}
_WEIGHTS = (".pth", ".pt", ".safetensors", ".ckpt", ".bin")  # what a file of weights ends in, wherever it is from


def model_source_of(model: str) -> tuple[str, str]:
    """Return (source, name) of a model in the user's words. Raises UsageError naming what there is."""
    scheme, colon, rest = model.partition(":")
    if not colon:
        listed = {scheme: dict(source.names()) for scheme, source in registry.usable("models")}
        schemes = [scheme for scheme, found in listed.items() if model in found]
        if schemes:
            return schemes[0], model
        if PurePath(model).suffix in _WEIGHTS:
            told = f"builtin:NAME@{model} (torchstone list models), or py:FILE.py:FUNCTION that loads it"
            raise UsageError(f"model {model}: weights do not name their network; write {told}")
        every = [name for found in listed.values() for name in found]
        raise unknown("model", model, every)
    if scheme not in registry.names("models"):
        raise unknown("model source", scheme, registry.names("models"))
    return scheme, rest


def card_of(model: str, options: Mapping[str, Scalar]) -> ModelCard:
    """Return the card of a model in the user's words. Raises UsageError if there is none of that name."""
    scheme, name = model_source_of(model)
    card: ModelCard = registry.load("models", scheme).card(name, options)
    return card


def takes(task: str, model: str, options: Mapping[str, Scalar], axis: str) -> bool:
    """Say whether an axis goes with a task and a model; the model is looked at only if the axis shapes its input."""
    engine: Engine = registry.load("engines", task)
    return axis in engine.axes and (axis not in SHAPES or card_of(model, options).input.kind in SHAPES[axis])


EVERYBODYS = ("split", "limit")  # options of all data, which no source needs to know
_FIRST = {"train": SPLITS, "load": SPLITS}  # what a task would rather take
_OTHERS = ("validation", "test", "train")

_READS = {".h5": "hdf5", ".hdf5": "hdf5", ".csv": "csv", ".tsv": "tsv", ".parquet": "parquet"}


def with_source(data: str) -> str:
    """Return data with its source where the name of a bare file tells it: `hdf5:signals.h5` of `signals.h5`."""
    source = _READS.get(PurePath(data).suffix.lower())
    return data if source is None or data.partition(":")[0] in registry.names("data") else f"{source}:{data}"


def data_source_of(data: str) -> tuple[str, str]:
    """Return (source, what it is given) of data in the user's words. Raises UsageError naming the sources."""
    scheme, _, rest = data.partition(":")
    if scheme not in registry.names("data"):
        raise unknown("data source", scheme, registry.names("data"))
    return scheme, rest


def checked_options(data: str, source: DataSource, options: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Return the options with `limit` as a number. Raises UsageError naming those that there are."""
    known = (*source.options, *EVERYBODYS)
    for name in options:
        if name not in known:
            raise unknown(f"option of data {data}", name, known)
    checked = dict(options)
    if "limit" in checked:
        checked["limit"] = AXES["batch_size"].parse(checked["limit"], "option limit")  # a whole number from 1 up
    return checked


def with_split(task: str, data: str, card: DataCard, options: dict[str, Scalar]) -> dict[str, Scalar]:
    """Return the options with the split that the task takes: training that for training, all else the held-out one.

    Data in one piece has no split, and a word for one is refused.
    """
    asked = options.get("split")
    if not card.splits:
        if asked is not None:
            raise UsageError(f"data {data}: has no splits; leave out split={asked}")
        return options
    if asked is not None and asked not in card.splits:
        raise UsageError(f"data {data}: {unknown('split', str(asked), card.splits)}")
    chosen = asked or next(split for split in _FIRST.get(task, _OTHERS) if split in card.splits)
    return {**options, "split": chosen}


def tokenizer_in(file: Path) -> Any:
    """Return the tokenizer of a tokenizer.json. Raises UsageError for a file that is none."""
    from tokenizers import Tokenizer

    try:
        return Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises its own bare Exception
        raise UsageError(f"{file}: not a tokenizer: {str(error)[:200]}") from error


def has_end(data: str) -> bool:
    """Say whether data is a data set, of which there are epochs; what is made to measure, and examples, are none."""
    return data.partition(":")[0] not in ("synthetic", "example")


_OF_EAGER: tuple[str, ...] = ("int8-dynamic", "int8-weights", "fp8-dynamic", "fp8-weights")


class RuntimeVariant(NamedTuple):
    """What computes in place of eager mode in fp32."""

    runtime: str
    quantization: str = UNQUANTIZED

    def __str__(self) -> str:
        """Return its settings as they are typed."""
        axes = ("runtime", self.runtime, EAGER), ("quantization", self.quantization, UNQUANTIZED)
        return ", ".join(f"{axis}={value}" for axis, value, default in axes if value != default)


def variant_in(configuration: Mapping[str, Scalar]) -> RuntimeVariant | None:
    """Return what a Configuration asks for; None: eager mode, in no quantized format."""
    variant = RuntimeVariant(*(str(configuration.get(axis, AXES[axis].default)) for axis in VARIANT_AXES))
    return None if variant == RuntimeVariant(EAGER) else variant


def axis_conflict(configuration: Mapping[str, Scalar]) -> str | None:
    """Return why the axes of a Configuration cannot go together; None where nothing is known against it."""
    variant = variant_in(configuration)
    if variant is None:
        return None
    torchs_own = {"compile": "off", "sdpa": "auto", "channels_last": False} if variant.runtime != EAGER else {}
    for axis, only in ({"precision": "fp32"} | torchs_own).items():
        if configuration.get(axis, only) not in (only, AXES[axis].default):
            return f"{variant}, {axis}={configuration[axis]}: not possible together"
    known = _OF_EAGER
    if variant.runtime != EAGER:
        if variant.runtime not in registry.names("runtimes"):
            return None  # of a package that another machine has
        runtime: Runtime = registry.load("runtimes", variant.runtime)
        known = runtime.quantizations
    if variant.quantization in (UNQUANTIZED, *known):
        return None
    return f"{variant}: runtime={variant.runtime} has only quantization={', '.join((UNQUANTIZED, *known))}"
