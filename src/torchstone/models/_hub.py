"""Pretrained weights of the model hub, where there is no network: what is not in its cache is told at once."""

from __future__ import annotations

import os
from pathlib import Path

from torchstone.errors import UsageError


def refuse_absent(model: str, hub: str) -> None:
    """Raise UsageError if the hub may not be asked and its repository `hub` has never been downloaded."""
    offline = os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")
    home = Path(os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface")
    cache = Path(os.environ.get("HF_HUB_CACHE") or home / "hub").expanduser()
    if offline and not (cache / ("models--" + hub.replace("/", "--"))).is_dir():
        raise UsageError(
            f"{model}: weights=pretrained: {hub} is not in {cache}, and HF_HUB_OFFLINE is set; use weights=random"
        )
