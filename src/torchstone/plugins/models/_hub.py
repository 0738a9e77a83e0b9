"""Pretrained weights without a network: an early error if they are not in the hub's cache, and what to type."""

from __future__ import annotations

import os
from pathlib import Path

from torchstone.core.errors import UsageError


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
