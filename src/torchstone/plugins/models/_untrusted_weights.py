"""Reads weights that may come from anywhere, and never runs what is in them."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torchstone.core.errors import UsageError

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
        raise UsageError(f"{file}: not a file of weights ({type(error).__name__}: {first_line(error)})") from error


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
        raise UsageError(f"{where}: {first_line(error)}{then}") from error
    except RuntimeError as error:
        if "mismatch" not in str(error):
            raise
        raise UsageError(f"{where}: the weights do not fit config.json ({first_line(error)}){then}") from error


def load_tokenizer(source: str) -> Any:
    """Return the tokenizer that lies beside the weights, with a padding token; no code from the folder runs."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=False, local_files_only=True)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def first_line(error: BaseException) -> str:
    """Return what an exception says, cut to one line; its type if it says nothing."""
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__
