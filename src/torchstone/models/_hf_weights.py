"""Reads weights that may come from anywhere, and never runs what is in them."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torchstone.errors import UsageError

_GLOBAL = re.compile(r"GLOBAL ([\w.]+)")


def refuse_code(file: Path) -> None:
    """Raise UsageError if a `.bin` file holds more than tensors, naming the file and what it wanted to call.

    torch's weights-only unpickler reads it, storages left on the meta device: nothing in it is called or allocated.
    """
    import torch

    try:
        torch.load(file, map_location="meta", weights_only=True)
    except pickle.UnpicklingError as error:
        found = _GLOBAL.search(str(error))
        if found is not None:
            raise UsageError(
                f"{file}: refused: its pickle wants to call {found.group(1)}, and weights hold only tensors. "
                "Save them as safetensors"
            ) from error
        raise UsageError(f"{file}: refused: not a file of weights only ({_first_line(error)})") from error
    except (RuntimeError, EOFError, ValueError, OSError, KeyError) as error:
        raise UsageError(f"{file}: not a file of weights ({type(error).__name__}: {_first_line(error)})") from error


@contextmanager
def one_line_errors(where: str) -> Iterator[None]:
    """Turn what transformers raises for files that are absent, torn or do not fit into one line about `where`."""
    from safetensors import SafetensorError

    try:
        yield
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ImportError, SafetensorError) as error:
        raise UsageError(f"{where}: {_first_line(error)}") from error
    except RuntimeError as error:
        if "mismatch" not in str(error):
            raise
        raise UsageError(f"{where}: the weights do not fit config.json ({_first_line(error)})") from error


def load_tokenizer(source: str) -> Any:
    """Return the tokenizer that lies beside the weights, with a padding token; no code from the folder runs."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=False, local_files_only=True)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__
