"""`torchstone.Diagnostics` and `run_kaggle_analysis`: why a training is as fast as it is, from a notebook.

diagnostics = torchstone.Diagnostics(model, loss_fn, optimizer)
diagnostics.run(loader, batch_sizes=[8, 32, 128], devices=["cpu", "cuda"])
print(diagnostics.frame())
diagnostics.plot_time_breakdown()
print(diagnostics.report())
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from torchstone.analysis.summary import RunSummary
from torchstone.analysis.sweep_table import Row, Swept, rows_of
from torchstone.api.diagnostics.sweep import sweep
from torchstone.api.former_words import called_elsewhere
from torchstone.api.frame import frame_of
from torchstone.api.keeping.keeping import Keeping
from torchstone.api.notebook import as_html
from torchstone.api.recording import default_folder
from torchstone.core.charts.drawing import draw, library
from torchstone.core.charts.vega_lite import Picture
from torchstone.core.errors import UsageError
from torchstone.core.schema.procedure import Procedure
from torchstone.report.charts import sweep as charts
from torchstone.report.document import Chart, Document
from torchstone.report.documents.diagnosis import FILE
from torchstone.report.documents.sweep import sweep_document
from torchstone.report.rendering import write_markdown
from torchstone.workflows.diagnose.measured_diagnosis import diagnosed_from_record
from torchstone.workflows.diagnose.target import of_own_program

PICTURES: dict[str, Callable[[Sequence[Row], str], Picture]] = {
    "throughput_vs_batch_size.png": charts.throughput,
    "time_breakdown.png": charts.time_breakdown,
    "memory_usage.png": charts.memory,
}

_CALLED_ELSEWHERE = {
    "run_diagnostics": "run(loader, batch_sizes, iterations, devices)", "get_results": "frame()",
    "generate_bottleneck_report": "report()",
}  # fmt: skip


class Diagnostics:
    """Measures training steps of a model at hand over batch sizes and devices, in this process.

    Nothing is imported anew, so models and data sets of a notebook will do. Everything is left as it was, as
    `torchstone.measure` leaves it and at the same cost, and every trial begins with the same weights. Trials share the
    process: for intervals that hold between processes, `torchstone run` has fresh ones.
    """

    def __init__(
        self, model: Any, loss_fn: Callable[..., Any] | None = None, optimizer: Any = None, *,
        name: str | None = None, output_dir: str | Path | None = None,
    ) -> None:  # fmt: skip
        """Keep what to measure.

        loss_fn: loss(output, targets) → scalar tensor; None where the model returns an object with a `.loss` for
            batches that are mappings with labels, or for cross-entropy where targets are class numbers. optimizer: an
            optimizer, or what makes one of the parameters; None: AdamW. output_dir: where the record, pictures and
            report go ($TORCHSTONE_OUTPUT, or outputs).
        """
        self._model, self._loss, self._optimizer = model, loss_fn, optimizer
        self._title = name or type(model).__name__
        self._folder = Path(output_dir) if output_dir is not None else default_folder()
        self._swept: Swept | None = None

    @called_elsewhere(dataloader="loader", num_iterations="iterations")
    def run(
        self,
        loader: Any,
        batch_sizes: Sequence[int] | None = None,
        iterations: int = 50,
        devices: Sequence[Any] | None = None,
        *,
        trials: int = 1,
        warmup: int | None = None,
    ) -> Self:
        """Measure, write a record, and return this object.

        loader: a DataLoader (made anew for each batch size, with its own workers and collate_fn), a Dataset, batches,
            or one example batch. batch_sizes: None is 8 to 128. iterations: steps a trial. devices: "cpu", "cuda",
            torch.device("cuda", 1), …; None is the CPU and the accelerator if there is one. One that is not here is
            skipped, with the reason among the results. warmup: least steps before measuring; None is detected.

        A batch size that runs out of memory is a row that says so; the others go on. Raises UsageError where nothing
        can be measured, and what the model itself raises.
        """
        for word, count in (("iterations", iterations), ("trials", trials)):
            if count < 1:
                raise UsageError(f"Diagnostics.run: {word}={count} is too small: 1 or more")
        procedure = Procedure(
            trials=trials, warmup=warmup, warmup_budget_s=1.0, iterations=iterations, isolation="inline",
            heap="default", count_flops=False,
        )  # fmt: skip
        parts = {"model": self._model, "example": loader, "loss": self._loss, "optimizer": self._optimizer}
        with Keeping(parts) as kept:
            self._swept = sweep(parts, self._title, batch_sizes, devices, procedure, self._folder, kept)
        return self

    if not TYPE_CHECKING:  # a type checker would take every name for one of it

        def __getattr__(self, name: str) -> Any:
            """Raise AttributeError, with the present name for one that documents give which people come from."""
            now = f"; it is {_CALLED_ELSEWHERE[name]} now" if name in _CALLED_ELSEWHERE else ""
            raise AttributeError(f"'Diagnostics' object has no attribute {name!r}{now}")

    def __repr__(self) -> str:
        """Return what was measured and where it lies: what a cell of a notebook shows that ends with it."""
        if self._swept is None:
            return f"Diagnostics({self._title}): nothing was measured yet"
        skipped = [f"skipped {device}: {why}" for device, why in self._swept.skipped.items()]
        return "\n".join([str(self.summary), *skipped, f"pictures and report: {self.folder}"])

    def _repr_html_(self) -> str | None:
        return as_html(self._document) if self._swept is not None else None

    def _document(self) -> Document:
        diagnosis = diagnosed_from_record(of_own_program(self.summary))
        return sweep_document(self._done(), diagnosis, [self._chart(Path(name)) for name in PICTURES])

    @property
    def summary(self) -> RunSummary:
        """The run as the command line would show it: `torchstone show latest`."""
        return self._done().summary

    @property
    def folder(self) -> Path:
        """Where pictures and the report of this run go unless told otherwise."""
        return self._folder / "diagnostics" / self.summary.run_id

    def results(self) -> list[Row]:
        """Return one row a device and batch size: how it ended, throughput, phases of the step, memory, verdict."""
        return rows_of(self._done())

    def frame(self) -> Any:
        """Return the results as a pandas DataFrame; as a list of rows where pandas is not installed."""
        return frame_of(self.results())

    def plot_throughput_vs_batch_size(self, path: str | Path | None = None) -> Path:
        """Draw samples/s over batch size; return the PNG file. Raises MissingError without vl-convert-python."""
        return self._draw("throughput_vs_batch_size.png", path)

    def plot_time_breakdown(self, path: str | Path | None = None) -> Path:
        """Draw data, transfer, forward, backward, optimizer and rest of a step; return the PNG file."""
        return self._draw("time_breakdown.png", path)

    def plot_memory_usage(self, path: str | Path | None = None) -> Path:
        """Draw the peaks of host and device memory over batch size; return the PNG file."""
        return self._draw("memory_usage.png", path)

    def report(self, path: str | Path | None = None) -> str:
        """Write performance_report.md, and return its text: what limits, what to change, what was measured, and doubts.

        It has the causes of the recommended batch size's time, the largest first, as far as what was recorded tells
        them, and shows the pictures that lie beside it. `torchstone diagnose` measures remedies as well, for models
        that it can import. Raises MissingError where it cannot be written.
        """
        return write_markdown(Path(path) if path is not None else self.folder / FILE, self._document())

    def _draw(self, name: str, path: str | Path | None) -> Path:
        return draw(self._picture(name), Path(path) if path is not None else self.folder / name)

    def _chart(self, file: Path) -> Chart:
        picture = self._picture(file.name)
        return Chart(file.stem, picture.title, picture, file.suffix)

    def _picture(self, name: str) -> Picture:
        summary = self.summary
        subtitle = f"{summary.name}, run {summary.run_id}, {summary.machine.host.processor}"
        return PICTURES[name](self.results(), subtitle)

    def _done(self) -> Swept:
        if self._swept is None:
            raise UsageError("Diagnostics: nothing was measured yet; call .run(loader) first")
        return self._swept


@called_elsewhere(dataloader="train_loader", num_iterations="iterations")
def run_kaggle_analysis(
    model: Any,
    train_loader: Any,
    batch_sizes: Sequence[int] | None = None,
    *,
    loss_fn: Callable[..., Any] | None = None,
    optimizer: Any = None,
    iterations: int = 50,
    devices: Sequence[Any] | None = None,
    output_dir: str | Path | None = None,
) -> Diagnostics:
    """Measure a model over batch sizes, leave record, three pictures and the report, and return the Diagnostics.

    As `Diagnostics` and its `run`. Raises MissingError, before anything is measured, where no picture could be drawn.
    """
    library()
    diagnostics = Diagnostics(model, loss_fn, optimizer, output_dir=output_dir)
    diagnostics.run(train_loader, batch_sizes, iterations, devices)
    diagnostics.plot_throughput_vs_batch_size()
    diagnostics.plot_time_breakdown()
    diagnostics.plot_memory_usage()
    diagnostics.report()
    return diagnostics
