"""Imports, in the template, the well-known libraries that a user's file will ask for, so that its trials need not."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

# Known to open no device and to start no thread that would not survive a fork. The user's own modules are never
# imported here: what they do at import is theirs to decide, in the trial.
KNOWN = frozenset({"transformers", "tokenizers", "safetensors", "timm", "torchvision", "torchaudio", "numpy", "PIL"})


def import_known(source: Path) -> None:
    """Import what `source` names of KNOWN libraries; one that cannot be imported is the trial's to report."""
    for module, names in _named(source):
        try:
            loaded = import_module(module)
            for name in names:
                getattr(loaded, name, None)  # transformers imports a model's module when its class is asked for
        except (ImportError, RuntimeError, OSError):
            continue


def _named(source: Path) -> Iterator[tuple[str, list[str]]]:
    try:
        tree = ast.parse(source.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            if node.module.partition(".")[0] in KNOWN:
                yield node.module, [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            yield from ((a.name, []) for a in node.names if a.name.partition(".")[0] in KNOWN)
