"""Figures as runs of Weights & Biases, offline: `wandb sync` sends them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from torchstone.core.errors import MissingError
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.run import Run
from torchstone.plugins.exporters._points import points
from torchstone.plugins.protocols import Exporter


class WandB(Exporter):
    """Writes a run of W&B a row, its settings as its configuration. Nothing is sent: `wandb sync FOLDER/wandb/*`."""

    describes = "Weights & Biases, a folder with an offline run a row (needs wandb)"
    suffix = ".wandb"
    folder = "data"

    def write(self, run: Run, rows: Sequence[Mapping[str, Scalar]], path: Path) -> None:
        try:
            import wandb
        except ImportError as fault:
            raise MissingError("wandb needs its library: pip install wandb") from fault
        path.mkdir()
        quiet = wandb.Settings(silent=True, console="off", x_disable_stats=True, disable_git=True, save_code=False)
        for number, (labels, figures) in enumerate(points(rows), 1):
            name = f"{run.head.name} {number}"
            made = wandb.init(
                mode="offline",
                project="torchstone",
                dir=path,
                name=name,
                config=labels,
                reinit="create_new",
                settings=quiet,
            )
            made.log(figures)
            made.finish()


PLUGIN: Exporter = WandB()
