"""The file in `builtin:NAME@FILE`: looked at without torch, then read into the network of that name."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from torchstone.errors import MissingError, UsageError
from torchstone.models import _hf_weights
from torchstone.terms.axis import Scalar

ENDINGS = (".pth", ".pt", ".safetensors")
_INSIDE = ("state_dict", "model_state_dict", "model")  # where training scripts put the weights in what they save
_NAMED = 3


def checked(name: str, word: str) -> str:
    """Return the SHA-256 of the file after `@`. Raises UsageError saying what is wrong with it and what to type."""
    where = f"builtin:{name}@{word}"
    if not word:
        raise UsageError(f"{where}: name the file after the @: builtin:{name}@/path/file.pth")
    try:
        file = Path(word).expanduser()
        if file.is_dir():
            raise UsageError(f"{where}: a folder; name the file in it: builtin:{name}@{word.rstrip('/')}/file.pth")
        if file.suffix not in ENDINGS:
            raise UsageError(f"{where}: a file of weights ends in {', '.join(ENDINGS)}; save it as one of these")
        if not file.exists():
            raise UsageError(f"{where}: there is no file {file.absolute()}; write builtin:{name}@/path/file.pth")
        if not file.is_file():
            raise UsageError(f"{where}: not a plain file; copy it into one, and name that")
        if file.stat().st_size == 0:
            raise UsageError(f"{where}: the file is empty; save the weights again")
        with file.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
    except (OSError, RuntimeError) as error:  # RuntimeError: the home of a user who is not there
        why = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"{where}: cannot be read: {why}; name a file that you may read") from error
    if file.suffix == ".safetensors" and find_spec("safetensors") is None:
        raise MissingError(f"{where}: needs safetensors: pip install 'torchstone[models]', or save it as .pth")
    return digest


def refuse_option(name: str, word: Scalar) -> None:
    """Raise UsageError for any weights but random ones, saying how to name a file of them."""
    if word != "random":
        file = word if Path(str(word)).suffix in ENDINGS else "/path/file.pth"
        raise UsageError(
            f"builtin:{name}: weights={word}: only random as an option; for a file write --model builtin:{name}@{file}"
        )


def fill(module: Any, name: str, word: str) -> None:
    """Put the tensors of the file into the network. Raises UsageError if they are not all there, and only they."""
    file = Path(word).expanduser()
    state = _state(file)
    own: Mapping[str, Any] = module.state_dict()
    differing = [key for key in own if key in state and state[key].shape != own[key].shape]
    wrong = {
        "missing": [f"{key!r}" for key in own if key not in state],
        "unexpected": [f"{key[:80]!r}" for key in state if key not in own],
        "of another shape": [f"{key!r} ({_shape(state[key])}, not {_shape(own[key])})" for key in differing],
    }
    if any(wrong.values()):
        told = "; ".join(f"{how}: {_first(names)}" for how, names in wrong.items() if names)
        raise UsageError(f"{file}: its tensors are not those of builtin:{name}: {told}")
    try:
        module.load_state_dict(state)
    except RuntimeError as error:  # sparse, quantized or meta tensors
        raise UsageError(f"{file}: cannot be copied into builtin:{name}: {_hf_weights.first_line(error)}") from error


def _state(file: Path) -> Mapping[str, Any]:
    import torch

    if file.suffix == ".safetensors":
        from safetensors.torch import load_file

        with _hf_weights.one_line_errors(str(file)):
            return load_file(file)
    found = _hf_weights.load_pickle(file, "cpu")
    if isinstance(found, Mapping):
        found = next((found[key] for key in _INSIDE if isinstance(found.get(key), Mapping)), found)
    if not isinstance(found, Mapping) or not found:
        raise UsageError(f"{file}: holds no state dict; save it with torch.save(model.state_dict(), …)")
    for key, value in found.items():
        if not isinstance(key, str) or not isinstance(value, torch.Tensor):
            raise UsageError(
                f"{file}: not a state dict: {str(key)[:80]!r} is of type {type(value).__name__}; "
                f"save model.state_dict() alone, or under one of {', '.join(_INSIDE)}"
            )
    return found


def _shape(tensor: Any) -> str:
    return "×".join(map(str, tensor.shape)) or "a scalar"


def _first(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
