"""A callback for the Trainer of Lightning.

    from torchstone.integrations.lightning import Callback

    speed = Callback()
    Trainer(…, callbacks=[speed]).fit(module, data)
    print(speed)

What a step is, and what is left out: docs/programs.md.
"""

from __future__ import annotations

from typing import Any

from torchstone.api.hooked import HookedTraining

try:
    from lightning.pytorch.callbacks import Callback as LightningCallback
except ImportError:  # the older package, whose Trainer takes only its own callbacks
    from pytorch_lightning.callbacks import Callback as LightningCallback


class Callback(HookedTraining, LightningCallback):  # type: ignore[misc]  # lightning may be absent
    """Measures the steps of a fit; arguments and attributes are those of HookedTraining."""

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Hook the module."""
        self.start(pl_module)

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        """Write the record."""
        self.stop()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Take the hooks out, and write what there is."""
        self.stop()
