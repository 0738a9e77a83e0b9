"""The file in `builtin:NAME@FILE`, `hf:NAME@FILE`, …: looked at without torch, then read into that network."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path, PurePath
from typing import Any

from torchstone.core.errors import MissingError, UsageError, unknown
from torchstone.core.schema.axis import AXES, Scalar
from torchstone.plugins.choices import has_end, tokenizer_in

_GLOBAL = re.compile(r"GLOBAL ([\w.]+)")


def refuse_code(file: Path) -> None:
    """Raise UsageError if a `.bin` file holds more than tensors, naming the file and what it wanted to call.

    torch's weights-only unpickler reads it, storages left on the meta device: nothing in it is called or allocated.
    """
    load_pickle(file, "meta")


def load_pickle(file: Path, device: str) -> Any:
    """Return what torch.save wrote, mapped into memory where the file's form allows it; never call what is in it.

    Raises UsageError for code and for a torn file, which makes torch raise nearly any exception.
    """
    import zipfile

    import torch

    try:
        mapped = device == "cpu" and zipfile.is_zipfile(file)
        return torch.load(file, map_location=device, weights_only=True, mmap=mapped)
    except pickle.UnpicklingError as error:
        found = _GLOBAL.search(str(error))
        if found is not None:
            raise UsageError(
                f"{file}: refused: its pickle calls {found.group(1)}, but weights may contain only tensors. "
                "Save them as safetensors"
            ) from error
        raise UsageError(f"{file}: refused: not a file of weights only; save it again with torch.save") from error
    except Exception as error:
        raise UsageError(f"{file}: not a file of weights ({type(error).__name__}: {error_line(error)})") from error


@contextmanager
def one_line_errors(where: str, instead: str | None = None) -> Iterator[None]:
    """Turn what transformers raises for files that are absent, torn or do not fit into one line about `where`.

    `instead`: what to type, at the end of the line.
    """
    from safetensors import SafetensorError

    then = f"; {instead}" if instead is not None else ""
    try:
        yield
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ImportError, SafetensorError) as error:
        raise UsageError(f"{where}: {error_line(error)}{then}") from error
    except RuntimeError as error:
        if "mismatch" not in str(error):
            raise
        raise UsageError(f"{where}: the weights do not fit config.json ({error_line(error)}){then}") from error


def tokenizer_beside(word: str) -> Any:
    """Return the tokenizer.json beside a file of weights, where `torchstone train` writes it; None without one."""
    file = Path(word).expanduser().parent / "tokenizer.json"
    return tokenizer_in(file) if file.is_file() else None


def refuse_other_tokens(model: str, data: str) -> None:
    """Raise UsageError where weights that were learnt would read data with another tokenizer than their own."""
    if has_end(data):
        raise UsageError(
            f"{model}: no tokenizer lies beside its weights, and with another one its answers to {data} mean nothing: "
            "put their tokenizer.json there, or leave out --data"
        )


def load_tokenizer(source: str) -> Any:
    """Return the tokenizer that lies beside the weights, with a padding token; no code from the folder runs."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=False, local_files_only=True)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def error_line(error: BaseException) -> str:
    """Return what an exception says, cut to one line; its type if it says nothing."""
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__


def refuse_absent(model: str, hub: str) -> None:
    """Raise UsageError if the hub may not be asked and its repository `hub` has never been downloaded."""
    offline = os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")
    home = Path(os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface")
    cache = Path(os.environ.get("HF_HUB_CACHE") or home / "hub").expanduser()
    if offline and not (cache / ("models--" + hub.replace("/", "--"))).is_dir():
        raise UsageError(
            f"{model}: weights=pretrained: {hub} is not in {cache}, and HF_HUB_OFFLINE is set; {instead(model)}"
        )


def instead(model: str) -> str:
    """Return what to type where pretrained weights cannot be had: a copy of one's own, or random ones."""
    copy = "hf:FOLDER (config.json and weights)" if model.startswith("hf:") else f"{model}@FILE"
    return f"type --model {copy}, or --option weights=random"


ENDINGS = (".pth", ".pt", ".safetensors")
_INSIDE = ("state_dict", "model_state_dict", "model")  # where training scripts put the weights in what they save
_NAMED = 3
_LARGEST_HEADER_BYTES = 100_000_000  # the form's own limit
_LFS = b"version https://git-lfs"


def in_full(name: str, word: str) -> str:
    """Return `name@file`, the file written with a folder: terms.case.portable strips it, so that no folder is told."""
    return f"{name}@./{word}" if len(PurePath(word).parts) == 1 else f"{name}@{word}"


def checked(model: str, word: str) -> str:
    """Return the SHA-256 of the file after `@`; `model` is written with its source, as in builtin:cnn.

    Raises UsageError saying what is wrong with it and what to type.
    """
    where = f"{model}@{word}"
    if not word:
        raise UsageError(f"{where}: name the file after the @: {model}@/path/file.pth")
    with _readable(where):
        file = Path(word).expanduser()
        if file.is_dir():
            raise UsageError(f"{where}: a folder; name the file in it: {model}@{word.rstrip('/')}/file.pth")
        if file.suffix not in ENDINGS:
            raise UsageError(f"{where}: a file of weights ends in {', '.join(ENDINGS)}; save it as one of these")
        if not file.exists():
            raise UsageError(f"{where}: there is no file {file.absolute()}; write {model}@/path/file.pth")
        if not file.is_file():
            raise UsageError(f"{where}: not a plain file; copy it into one, and name that")
        if file.stat().st_size == 0:
            raise UsageError(f"{where}: the file is empty; save the weights again")
    if file.suffix == ".safetensors" and find_spec("safetensors") is None:
        raise MissingError(f"{where}: needs safetensors: pip install 'torchstone[models]', or save it as .pth")
    if file.suffix == ".safetensors":
        refuse_torn(file)
    with _readable(where), file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextmanager
def _readable(where: str) -> Iterator[None]:
    try:
        yield
    except (OSError, RuntimeError) as error:  # RuntimeError: the home of a user who is not there
        why = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"{where}: cannot be read: {why}; name a file that you may read") from error


def refuse_torn(file: Path) -> None:
    """Raise UsageError if a safetensors file is not as long as its header says. Nothing but the header is read."""
    with _readable(str(file)), file.open("rb") as stream:
        size, start = file.stat().st_size, stream.read(8)
        length = int.from_bytes(start, "little")
        if start == _LFS[:8]:
            raise UsageError(f"{file}: a pointer of Git LFS, not the weights; fetch them with: git lfs pull")
        if len(start) < 8 or length > _LARGEST_HEADER_BYTES:
            raise UsageError(f"{file}: not a safetensors file; save the weights again")
        header = stream.read(length)
    if len(header) < length:
        raise UsageError(f"{file}: truncated in its header: {size} bytes of at least {8 + length}; copy it again")
    try:
        tensors = {name: told for name, told in json.loads(header).items() if name != "__metadata__"}
        promised = 8 + length + max((int(told["data_offsets"][1]) for told in tensors.values()), default=0)
    except (ValueError, RecursionError, AttributeError, LookupError, TypeError) as error:
        raise UsageError(f"{file}: not a safetensors file (its header is broken); save the weights again") from error
    if size != promised:
        how = "truncated" if size < promised else "too long"
        raise UsageError(f"{file}: {how}: its header promises {promised} bytes, there are {size}; copy it again")


def weights_option(model: str, options: Mapping[str, Scalar], *, at: str) -> Scalar:
    """Return the option `weights` of a library's model, None without it. `at`: empty, or what divides NAME@FILE.

    Raises UsageError for any option but `weights` and `classes`, and for weights beside those of a file.
    """
    known, words = ("weights", "classes"), ("random", "pretrained")
    for option in options:
        if option not in known:
            raise unknown(f"option of {model}", option, known)
    wish = options.get("weights")
    if wish is not None and wish not in words:
        raise UsageError(f"{model}: {unknown('weights', str(wish), words)}")
    if wish is not None and at:
        raise UsageError(f"{model}: the weights are the file's; leave out the option weights")
    return wish


def classes_option(options: Mapping[str, Scalar], usual: int) -> int:
    """Return the option `classes`, a whole number from 2 up."""
    number = AXES["batch_size"].parse(options.get("classes", usual), "option classes")  # a whole number from 1 up
    if not isinstance(number, int) or number < 2:
        raise UsageError("option classes: at least 2")
    return number


def refuse_option(model: str, word: Scalar) -> None:
    """Raise UsageError for any weights but random ones, saying how to name a file of them."""
    if word != "random":
        file = word if Path(str(word)).suffix in ENDINGS else "/path/file.pth"
        raise UsageError(f"{model}: weights={word}: only random as an option; for a file write --model {model}@{file}")


def fill(module: Any, model: str, word: str) -> None:
    """Put the tensors of the file into the network. Raises UsageError if they are not all there, and only they.

    One that the network shares with another (an embedding with its output layer) need not be there twice.
    """
    file = Path(word).expanduser()
    state = _state(file)
    own: Mapping[str, Any] = module.state_dict()
    differing = [key for key in own if key in state and state[key].shape != own[key].shape]
    shared = {own[key].data_ptr() for key in own if key in state and own[key].numel()}
    wrong = {
        "missing": [f"{key!r}" for key in own if key not in state and own[key].data_ptr() not in shared],
        "unexpected": [f"{key[:80]!r}" for key in state if key not in own],
        "of another shape": [f"{key!r} ({_shape(state[key])}, not {_shape(own[key])})" for key in differing],
    }
    if any(wrong.values()):
        told = "; ".join(f"{how}: {_first(names)}" for how, names in wrong.items() if names)
        raise UsageError(f"{file}: its tensors are not those of {model}: {told}")
    try:
        module.load_state_dict(state, strict=False)  # which are missing is known: those that are shared
    except RuntimeError as error:  # sparse, quantized or meta tensors
        raise UsageError(f"{file}: cannot be copied into {model}: {error_line(error)}") from error


def _state(file: Path) -> Mapping[str, Any]:
    import torch

    if file.suffix == ".safetensors":
        from safetensors.torch import load_file

        with one_line_errors(str(file)):
            return load_file(file)
    found = load_pickle(file, "cpu")
    if isinstance(found, Mapping):
        found = next((found[key] for key in _INSIDE if isinstance(found.get(key), Mapping)), found)
    if not isinstance(found, Mapping) or not found:
        raise UsageError(f"{file}: contains no state dict; save it with torch.save(model.state_dict(), …)")
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
