"""D2: a training to an end, cut in two and resumed, and judged: its state is the device's on every way."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from run_sheet.here import Done, Here

_EPOCHS, _CUT = 3, 2


def resumed(here: Here) -> None:
    """Train three epochs at once (but with --quick), and two and then one; note both ends, and what evaluate says."""
    # The images are in the tree: 1,797 digits.
    common = (
        "train", "--model", "builtin:cnn", "--data", "digits", "--axis", "image_size=32", "--axis", "batch_size=32",
    )  # fmt: skip
    whole: Mapping[str, Any] = {}
    if not here.quick:
        whole = _trained(here, "whole", here.torchstone(*common, "--epochs", str(_EPOCHS), "--output", "whole"))
    _trained(here, "begun", here.torchstone(*common, "--epochs", str(_CUT), "--output", "parts"))
    resume = here.torchstone("train", "--resume", "parts", "--epochs", str(_EPOCHS), on_device=False)
    parts = _trained(here, "resumed", resume)
    here.note("epochs_after_resume", len(parts.get("epochs", ())))
    if whole.get("epochs") and parts.get("epochs"):
        last, other = (run["epochs"][-1] for run in (whole, parts))
        here.note("loss_whole", last["train_loss"])
        here.note("loss_resumed", other["train_loss"])
        here.note("losses_apart", abs(other["train_loss"] / last["train_loss"] - 1.0))
    if find_spec("sklearn") is None:  # evaluate needs it; how good the last epoch was, the training itself tells
        here.note("evaluated", "no: scikit-learn is not installed")
        here.note("accuracy", parts.get("final_val_accuracy"))
        return
    done = here.torchstone("evaluate", "parts", limit_s=90)
    here.note("exit_evaluate", done.code)
    judged = done.document()
    here.note("evaluated", f"{judged.get('items')} items")
    here.note("accuracy", judged.get("accuracy"))


def _trained(here: Here, name: str, done: Done) -> Mapping[str, Any]:
    here.note(f"exit_{name}", done.code)
    document = done.document()
    placement = document["cases"][0]["placement"]
    here.note(f"device_{name}", f"{placement['device']}:{placement.get('index', 0)}")
    training: Mapping[str, Any] = document["answer"]["metrics"] or {}
    here.note(f"outcome_{name}", training.get("outcome"))
    return training
