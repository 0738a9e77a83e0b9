"""Image classifiers of a library that knows them by name (timm, torchvision): one card and one way to load them all.

Only the library can tell what its models take, and it imports torch. So it is asked in a process of its own, once a
model and command: `python -m torchstone.plugins.models._classifiers LIBRARY NAME` prints one line of JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import msgspec

from torchstone.core.errors import MissingError, TorchstoneError, UsageError
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Workload
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.model import InputSpec, LoadedModel, ModelCard
from torchstone.plugins import registry
from torchstone.plugins.models import _weights_file
from torchstone.plugins.protocols import ModelSource

_LONGEST_S = 120.0  # to import torch and the library, from a cold disk
_ERRORS = {"UsageError": UsageError, "MissingError": MissingError}


class HeadFacts(msgspec.Struct, frozen=True):
    """What a library says of a model: classes of its head, channels and pixels a side of its images.

    `pretrained`: whether there are such weights; `hub`: their repository on the model hub, if that is where they are.
    """

    classes: int
    channels: int
    side: int
    pretrained: bool
    hub: str | None = None


class ClassifierLibrary(msgspec.Struct, frozen=True):
    """A library of image classifiers.

    module: what to import of it. needs: what to type where it is not there. listed: (name, one line) worth listing.
    tell: name → what it says of that model, or UsageError. build: name, pretrained, classes, pixels a side → module.
    """

    name: str
    module: str
    needs: str
    listed: tuple[tuple[str, str], ...]
    tell: Callable[[str], HeadFacts]
    build: Callable[[str, bool, int, int], Any]
    any_head: bool  # whether pretrained weights go with any number of classes


class Classifiers(ModelSource):
    """The model source of a library. Options: `weights` (random, pretrained) and `classes`; NAME@FILE for a file's."""

    def __init__(self, library: ClassifierLibrary) -> None:
        self.library = library
        self.describes = f"image models of {library.name} by name, or NAME@FILE of weights; needs {library.name}"

    def names(self) -> Iterable[tuple[str, str]]:
        """List some of them, where the library is there."""
        return self.library.listed if _there(self.library) else ()

    def card(self, name: str, options: Mapping[str, Scalar]) -> ModelCard:
        scheme, (bare, at, file) = self.library.name, name.partition("@")
        wish = _weights_file.weights_option(f"{scheme}:{bare}", options, at=at)
        if not _there(self.library):
            raise MissingError(f"{scheme}: needs {scheme}: {self.library.needs}")
        told = ask(scheme, bare)
        classes = _weights_file.classes_option(options, told.classes)
        if wish == "pretrained":
            self._check_pretrained(bare, told, classes)
        fixed: dict[str, Scalar] = {"weights": wish or "random", "source": bare, "classes": classes}
        if at:
            fixed["weights"] = "file"
            fixed["weights_sha256"] = _weights_file.checked(f"{scheme}:{bare}", file)[:16]
        return ModelCard(
            "image",
            InputSpec("image", classes, channels=told.channels),
            _weights_file.in_full(bare, file) if at else None,
            "vision",
            fixed,
            defaults={"image_size": told.side},
            own=bool(at) or wish == "pretrained",
            pretrained=told.pretrained and not at and (self.library.any_head or classes == told.classes),
        )

    def _check_pretrained(self, name: str, told: HeadFacts, classes: int) -> None:
        model = f"{self.library.name}:{name}"
        if not told.pretrained:
            raise UsageError(f"{model}: has no pretrained weights; type --option weights=random")
        if told.hub is not None:
            _weights_file.refuse_absent(model, told.hub)
        if classes != told.classes and not self.library.any_head:
            raise UsageError(
                f"{model}: its pretrained weights have {told.classes} classes, not {classes}; leave classes out, "
                "or type --option weights=random"
            )

    def preload(self, name: str) -> None:
        import_module(self.library.module)

    def load(self, name: str, workload: Workload, configuration: Mapping[str, Scalar]) -> LoadedModel:
        bare, at, file = name.partition("@")
        model, weights = f"{self.library.name}:{bare}", str(workload.fixed.get("weights", "random"))
        classes = int(workload.fixed["classes"] or 0)
        side = int(configuration.get("image_size") or 224)
        with download_errors(model, pretrained=weights == "pretrained"):
            module = self.library.build(bare, weights == "pretrained", classes, side)
        if at:
            _weights_file.fill(module, model, file)
        facts = Facts(parameters=sum(p.numel() for p in module.parameters()), weights=weights)
        spec = InputSpec("image", classes, channels=channels_of(module))
        return LoadedModel(module, forward, loss, spec, facts=facts)


def near(library: str, name: str, known: Sequence[str], listing: str) -> UsageError:
    """Return the error for a name that a library does not know: there are too many to print."""
    import difflib

    close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f" Did you mean {', '.join(close)}?" if close else ""
    return UsageError(f"unknown {library} model '{name}'.{hint} All {len(known)}: {listing}")


def _there(library: ClassifierLibrary) -> bool:
    return find_spec(library.name) is not None


@cache
def ask(library: str, name: str) -> HeadFacts:
    """Return what a library says of a model, asked in a process of its own. Raises what it answers with."""
    import subprocess

    command = [sys.executable, "-m", __name__, library, name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LONGEST_S, check=False)
    except subprocess.TimeoutExpired:
        raise MissingError(f"{library}:{name}: importing {library} took more than {_LONGEST_S:g} s") from None
    lines = done.stdout.splitlines()
    if done.returncode != 0 or not lines:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise MissingError(f"{library}: cannot be asked for {name}: {last[0][:300]}")
    answer = json.loads(lines[-1])
    if "error" in answer:
        raise _ERRORS[answer["error"]](answer["message"])
    return msgspec.convert(answer, HeadFacts)


def _answer(library: str, name: str) -> Mapping[str, Any]:
    source: Classifiers = registry.load("models", library)
    try:
        import_module(source.library.module)
    except Exception as error:
        # Not only ImportError: a torchvision that was built for another torch raises RuntimeError or OSError.
        said = (str(error).strip() or type(error).__name__).splitlines()[0]
        message = f"{library}: cannot be imported: {said[:200]}; {source.library.needs}"
        return {"error": "MissingError", "message": message}
    try:
        return msgspec.structs.asdict(source.library.tell(name))
    except TorchstoneError as error:
        return {"error": type(error).__name__, "message": str(error)}


def forward(module: Any, tensors: Mapping[str, Any]) -> Any:
    """Return logits, items × classes; those of the main head, where a network in training has more of them."""
    output = module(tensors["pixel_values"])
    return getattr(output, "logits", output)


def loss(module: Any, tensors: Mapping[str, Any]) -> Any:
    """Return the mean cross-entropy over the items. Raises UsageError if the data has no labels."""
    from torch.nn.functional import cross_entropy

    if "labels" not in tensors:
        raise UsageError("task train: the data has no labels")
    return cross_entropy(forward(module, tensors), tensors["labels"])


def channels_of(module: Any) -> int:
    """Return how many channels the first convolution takes; three where there is none."""
    first = next((p for p in module.parameters() if p.dim() == 4), None)
    return int(first.shape[1]) if first is not None else 3


@contextmanager
def download_errors(model: str, *, pretrained: bool) -> Iterator[None]:
    """Turn what downloading weights raises, by many libraries in many ways, into one line; let all else pass."""
    try:
        yield
    except (OSError, RuntimeError, ValueError, LookupError) as error:
        if not pretrained:
            raise
        said = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UsageError(f"{model}: weights=pretrained: {said[:200]}; {_weights_file.instead(model)}") from error


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_answer(*sys.argv[1:3])) + "\n")
