"""`torchstone.benchmark`: what `torchstone run` does, from Python: fresh processes, a record, a table."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from torchstone.analysis.rows import case_rows
from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.api.former_words import called_elsewhere
from torchstone.api.recording import as_html, default_folder, document_with_pictures, frame_of, shown
from torchstone.config.run_file import RunRequest
from torchstone.core.errors import UsageError, unknown
from torchstone.core.schema.axis import AXES, Scalar, axis_values
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.ranks import AXES_OF_RANKS, STRATEGY, WORLD_SIZE
from torchstone.core.schema.request import WorkloadRequest
from torchstone.execution import plan
from torchstone.execution.controller.observer import Silent
from torchstone.plugins import registry
from torchstone.storage.record_reader import read_record
from torchstone.workflows.run.planned_run import Campaign


class RegisteredModel(msgspec.Struct, frozen=True):
    """A loader with a name. `spec`: how a trial finds it, py:path.py:function or py:package.module:function."""

    name: str
    spec: str
    family: str


_REGISTERED: dict[str, RegisteredModel] = {}


def register_model(name: str, loader: Callable[..., Any], family: str = "custom") -> RegisteredModel:
    """Give a loader a name that `torchstone.benchmark` knows, in this program.

    `loader` returns (model, tokenizer or data, optimizer_fn, loss_fn), or (module, example, loss, optimizer); all that
    it may return is at the top of torchstone/plugins/models/py/returned.py. It is called in the fresh process of every
    trial, with `options=` of the benchmark as its arguments; `device` among them is the CPU, and torchstone moves the
    model. So it must be a function at a file's top: a lambda, a function inside another and one typed into a notebook
    raise UsageError, with the reason. Registering a name again replaces it.
    """
    if not name or ":" in name or name != name.strip():
        raise UsageError(f"register_model: {name!r} is not a valid name: use letters, digits, - and _")
    registered = RegisteredModel(name, loader_spec(loader), family)
    _REGISTERED[name] = registered
    return registered


def loader_spec(loader: Callable[..., Any]) -> str:
    """Return what `--model` would say for a loader at hand. Raises UsageError with the reason if nothing would."""
    return f"py:{registry.load('models', 'py').spelled(loader)}"


def registered(name: str) -> RegisteredModel | None:
    """Return the model of that name, or None."""
    return _REGISTERED.get(name)


Values = Scalar | Sequence[Scalar]


class Benchmark(msgspec.Struct, frozen=True):
    """What a benchmark measured. `document`: the whole run as JSON; `table`: its cases as CSV."""

    summary: RunSummary
    document: Path
    table: Path

    @property
    def cases(self) -> tuple[CaseSummary, ...]:
        """The cases, each with estimates, findings, a verdict, and how its trials ended."""
        return self.summary.cases

    def rows(self) -> list[dict[str, Scalar]]:
        """Return one row a case: workload, settings, device, and each figure with its interval."""
        return case_rows(read_record(Path(self.summary.record)))

    def frame(self) -> Any:
        """Return the rows as a pandas DataFrame; as they are where pandas is not installed."""
        return frame_of(self.rows())

    def __str__(self) -> str:
        """Return a few lines to print."""
        return str(self.summary)

    __repr__ = __str__  # what a cell of a notebook shows that ends with a benchmark

    def _repr_html_(self) -> str | None:
        return as_html(lambda: document_with_pictures(self.summary))


@called_elsewhere(model_name="model", model_family="family", hardware_type="device")
def benchmark(
    model: str | Callable[..., Any],
    *,
    task: str = "train",
    family: str | None = None,
    device: str = "auto",
    batch_size: int | Sequence[int] | None = None,
    axes: Mapping[str, Values] | None = None,
    data: str | None = None,
    data_options: Mapping[str, Scalar] | None = None,
    options: Mapping[str, Scalar] | None = None,
    procedure: Procedure | None = None,
    distributed_config: Mapping[str, Any] | None = None,
    name: str | None = None,
    output_dir: str | Path | None = None,
) -> Benchmark:
    """Measure a model in fresh processes, as `torchstone run` does, and return what was measured.

    Parameters
    ----------
    model: a name given by `register_model`, a loader (a function at a file's top), or what --model takes: "distilbert",
        "hf:gpt2", "py:mine.py:load".
    task: "train", "infer" or "load".
    family: what the model must be, "custom" for a registered one; None asks for nothing.
    device: "auto", "cpu", "cuda", "cuda:1", "rocm", "mps", "xpu".
    batch_size, axes: one value or several of any axis (`torchstone list axes`); a case is made of every combination.
    data, data_options: what to read instead of the model's own or made data: "tsv:FILE", {"limit": 1000}.
    options: of the model; of a loader: its arguments.
    procedure: trials, warm-up, windows, limits; `torchstone.Procedure(trials=5, budget_s=10.0)`.
    distributed_config: {"world_size": 2, "backend": "gloo", "strategy": "ddp"}: so many processes train together.

    Raises:
    ------
    UsageError: the request is wrong; nothing is written then. A trial that fails is no exception: see its outcome.

    """
    py = registry.load("models", "py")
    if py.loading():
        raise UsageError(
            "torchstone.benchmark was called while a trial imports this file for its loader: put the call under "
            "if __name__ == '__main__':"
        )
    word, spec, options = _resolve_model(model, dict(options or {}))
    sizes: dict[str, Values] = {} if batch_size is None else {"batch_size": batch_size}
    spread = {**_ranks(distributed_config), **sizes, **(axes or {})}
    values = {axis: axis_values(axis, _several(those)) for axis, those in spread.items()}
    request = WorkloadRequest(task, spec, data, options, values, dict(data_options or {}))
    if family is not None and (found := plan.sketch(request).workload.family) != family:
        raise UsageError(f"benchmark: {word} is of family {found or 'none'}, not {family}")
    asked = RunRequest((request,), name=name or word, device=device, procedure=procedure or Procedure())
    folder = Path(output_dir) if output_dir is not None else default_folder()
    results = Campaign(asked, Silent()).carry_out(folder, sys.argv)
    return Benchmark(shown(results.summary), results.document, results.table)


def _resolve_model(model: str | Callable[..., Any], options: dict[str, Scalar]) -> tuple[str, str, dict[str, Scalar]]:
    """Return (name, what --model would say, its options)."""
    if not isinstance(model, str):
        return getattr(model, "__name__", "model"), loader_spec(model), options
    known = registered(model)
    if known is None:
        return model.rpartition(":")[2], model, options
    return known.name, known.spec, {**options, **({} if known.family == "custom" else {"family": known.family})}


def _several(values: Values) -> tuple[Scalar, ...]:
    return tuple(values) if isinstance(values, Sequence) and not isinstance(values, str) else (values,)


def _ranks(distributed_config: Mapping[str, Any] | None) -> dict[str, Values]:
    """Return the axes that a distributed_config means. Raises UsageError for what it may not say."""
    said = dict(distributed_config or {})
    rank = said.pop("rank", 0)
    if rank != 0:
        raise UsageError(f"benchmark: distributed_config has rank={rank}: torchstone starts every rank; leave out rank")
    if other := next((key for key in said if key not in AXES_OF_RANKS), None):
        raise unknown("key of distributed_config", other, (*AXES_OF_RANKS, "rank"))
    size = AXES[WORLD_SIZE].parse(said.get(WORLD_SIZE, 1), f"benchmark: distributed_config: {WORLD_SIZE}")
    return {} if size == 1 and STRATEGY not in said else {**said, WORLD_SIZE: size}
