"""A callback for the Trainer of transformers.

    from torchstone.integrations.transformers import Callback

    speed = Callback()
    Trainer(…, callbacks=[speed]).train()
    print(speed)

What a step is, and what is left out: docs/programs.md.
"""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from torchstone.api.hooked import HookedTraining


class Callback(HookedTraining, TrainerCallback):  # type: ignore[misc]  # transformers has no types here
    """Measures the steps of a training; arguments and attributes are those of HookedTraining."""

    def on_train_begin(self, args: Any, state: Any, control: Any, **about: Any) -> None:
        """Hook the model."""
        self.start(about["model"])

    def on_train_end(self, args: Any, state: Any, control: Any, **about: Any) -> None:
        """Write the record."""
        self.stop()
