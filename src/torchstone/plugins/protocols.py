"""To extend torchstone, read this file: the base class of every plug-in family, five abstract methods at most each.

Those that stand between torchstone and a machine (devices, telemetry, launchers) are in machine_protocols.py. A method
that is not abstract may be left as it is: what it does then means "not supported".

A plug-in is one file in its family's folder, or a package of several; its name is the plug-in's name; the file, or the
package's `__init__.py`, ends with `PLUGIN: <Base> = <Class>()`. Small ones share the file of a topic, as the family's
`__init__.py` says, which has them by name in `PLUGINS`; checks are functions, of the name of the check. Third parties
use the entry-point group `torchstone.<family>`.

No plug-in imports torch or another heavy library at module top: the controller loads plug-ins to ask what they
are, and must never import torch. What starts a library is done inside `probe`, `open`, `load` or `prepare`, which
only the process of a trial calls.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from msgspec.structs import replace

from torchstone.core.errors import Unsupported
from torchstone.core.messages import Words
from torchstone.core.schema.advice import Statement
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Case, Workload
from torchstone.core.schema.estimate import Finding
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.machine import StepCounts
from torchstone.core.schema.metric import PeakMemory
from torchstone.core.schema.model import Batch, DataCard, LoadedModel, ModelCard, Unreadable, View
from torchstone.core.schema.procedure import LoadMeasured, LoadPlan, Tell
from torchstone.core.schema.quality import AnswerCounts
from torchstone.core.schema.ranks import Collective
from torchstone.core.schema.run import Run
from torchstone.core.schema.search import Point, Probe, ProbeResult, SearchProblem
from torchstone.plugins.machine_protocols import Device

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

# ── models/ ─────────────────────────────────────────────────────────────────────────────────────────────────


class ModelSource(ABC):
    """models/<scheme>.py: used as `<scheme>:<name>`."""

    describes: str

    @abstractmethod
    def names(self) -> Iterable[tuple[str, str]]:
        """Return (name, one line) of models worth listing."""

    @abstractmethod
    def card(self, name: str, options: Mapping[str, Scalar]) -> ModelCard:
        """Describe a model without torch. Raises UsageError if there is no such model or an option is wrong."""

    @abstractmethod
    def preload(self, name: str) -> None:
        """Import what `load` will need, running no parallel operation: called in the template before it forks."""

    @abstractmethod
    def load(self, name: str, workload: Workload, configuration: Mapping[str, Scalar]) -> LoadedModel:
        """Build the model on the CPU. Raises Unsupported, or UsageError where the user's own model is at fault."""


# ── data/ ───────────────────────────────────────────────────────────────────────────────────────────────────


class Samples(Protocol):
    """A data set in the process of a trial: what torch calls a map-style Dataset, of dictionaries of tensors.

    Text has a `tokenizer` too: what made token ids of it, and must make those of every other split. `augments` says
    whether items are changed at random. `label(index)` may tell the class of an item without reading the item.
    """

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Mapping[str, Any] | Unreadable:
        """Return one item: `input_ids`, `attention_mask`, `pixel_values`, `waveform` or `features`, and `labels`."""


class Streamable(ABC):
    """Data of a model's own that comes in batches only, in place of a data set.

    `fixed`: the axes that its batches have and that cannot be changed, and `why`.
    """

    fixed: Mapping[str, Scalar] = MappingProxyType({})
    why: Statement | None = None

    @abstractmethod
    def open_batches(self, configuration: Mapping[str, Scalar]) -> Batches:
        """Open a feed. Raises UsageError where the axes ask for batches that its loader does not give."""


def fixed_axes(samples: Any) -> Mapping[str, Scalar]:
    """Return the axes that a model's own data leaves no choice of; none for a data set, or without data."""
    return samples.fixed if isinstance(samples, Streamable) else {}


class DataSource(ABC):
    """data/<scheme>.py: used as `<scheme>` or `<scheme>:<path>`.

    `options`: what may be said beside the path (columns, keys, what to do with an item that cannot be read). `split`
    and `limit` are everybody's, and not the source's business: a View names the split, and others cut it.
    """

    describes: str
    options: tuple[str, ...]

    @abstractmethod
    def card(self, path: str, options: Mapping[str, Scalar]) -> DataCard:
        """Read enough to know that it is sound, without torch. Raises UsageError naming file and row if it is not."""

    @abstractmethod
    def samples(self, path: str, view: View) -> Samples:
        """Open the data, or one split of it, for a model with that input."""


# ── tasks/ ──────────────────────────────────────────────────────────────────────────────────────────────────


class Batches(Protocol):
    """An open feed. `queue`: batches that may lie ready in it, so that a slow loader is not felt at first.

    `turn`: after how many batches their coming repeats (1: they come evenly). The processes of a loader finish what
    they were asked for about together, so batches come in bursts of up to all that may lie ready.
    """

    queue: int
    turn: int
    next: Callable[[], Batch]

    @property
    def unreadable(self) -> Mapping[str, str]:
        """Return the items left out so far, and why."""

    def begin_epoch(self, number: int) -> None:
        """Leave what remains of this epoch and begin with that one (from 1).

        Its order, and the random changes of its items, depend on the seed and the number alone.
        """

    def close(self) -> None:
        """End the processes of a loader."""


Mark = Callable[[str], None]  # told the name of a phase where it ends


class Replicas(Protocol):
    """The replicas or shards of a model over ranks, as one of them has it. `call`: what is called in its place."""

    call: Any

    def synchronize(self, *, last: bool) -> None:
        """Say whether the next backward pass exchanges gradients: that of the `last` batch before an update."""

    def silent(self) -> AbstractContextManager[None]:
        """Have the steps within communicate nothing, and compute the same."""

    def recorded(self) -> AbstractContextManager[Sequence[Collective]]:
        """Return the collectives of the step within; they are there when it is left."""

    def facts(self) -> Facts:
        """Return what was settled without being asked for; known once a step is done."""


class Prepared(ABC):
    """A model, an optimizer and a device, ready to step. `facts`: what was set without being asked for.

    `is_driven`: a load generator decides when its steps begin (`drive`), and not the measuring loop. `replicas`: where
    its steps are shared among ranks.
    """

    facts: Facts
    is_driven: bool = False
    replicas: Replicas | None = None
    module: Any = None  # what has parameters that are trained
    optimizer: Any = None

    @abstractmethod
    def step(self, pull: Callable[[], Batch], mark: Mark) -> None:
        """Do one step; `pull` gives the next batch. Call `mark` with a phase (core/schema/metric.py) when it ends.

        What is marked after the last phase, or not at all, is the step's rest. Measured windows pass a mark that does
        nothing; the pass that tells where the time goes passes one that reads the stopwatch. Never wait for it.
        """

    @abstractmethod
    def results(self) -> Mapping[str, Sequence[float]]:
        """Return raw metrics known only to the engine (loss, fingerprint). Called after the last window."""

    @abstractmethod
    def count(self, batch: Batch) -> StepCounts:
        """Count operations, traffic and operators of one step outside timing, and say what could not be counted."""

    def build(self, pull: Callable[[], Batch], samples: Samples | None = None, seed: int = 0) -> Mapping[str, float]:
        """Build what needs batches for that, before the first step; return what it found, by raw metric of the setup.

        Threads that are started here may use every core that is the trial's. `facts` may be others when it is done.
        `samples`: real items, where there are any, drawn by the seed.
        """
        return {}

    def save(self, pull: Callable[[], Batch], samples: Samples | None, seed: int, file: SavedFile) -> Sequence[str]:
        """Write the model as it is measured; return the lines of Python that load it and run it without torchstone."""
        raise Unsupported("only a model of task infer can be saved")

    def compare(self, samples: Samples, seed: int) -> AnswerCounts | None:
        """Count how what was built answers real items beside its reference; None: nothing to compare.

        Called once a Case, after `build` or `compare_precision`.
        """
        return None

    def compare_precision(self, pull: Callable[[], Batch]) -> Mapping[str, float]:
        """Return how far answers in another precision than fp32 are from those in it, by raw metric of the setup.

        Called behind the last window. May raise anything: then nothing is known of them.
        """
        return {}

    def enter(self, window: str) -> None:  # noqa: B027  most steps are the same in all windows
        """Be told of which window (`Engine.windows`) the next steps are; steps before the first are warm-up."""

    def drive(self, batches: Batches, plan: LoadPlan, tell: Tell) -> LoadMeasured:
        """Answer what a load generator asks until the load is over; `tell` how far it is, at most once a second."""
        raise NotImplementedError


class Trainable(Prepared):
    """What the engine `train` prepares: a model that can be judged and saved between its steps.

    `losses`: the loss of each step is added to it, where it is a list: a number, or a tensor that is still computed.
    """

    scaler: Any  # of the loss, for fp16; None without
    losses: list[Any] | None

    @abstractmethod
    def answers(self, batch: Batch) -> Any:
        """Return the output for a batch, without gradients; the caller has called module.eval()."""

    @abstractmethod
    def loss_of(self, batch: Batch) -> float:
        """Return the mean loss of a batch, without gradients; the caller has called module.eval()."""

    @abstractmethod
    def open_whole(self, samples: Samples) -> Batches:
        """Open a feed of every item once, in order; the last batch may be short."""


class Engine(ABC):
    """tasks/<task>.py: one task, as a user would write it."""

    describes: str
    axes: tuple[str, ...]

    @abstractmethod
    def preload(self) -> None:
        """Import what `prepare` will need, running no parallel operation: called in the template before it forks."""

    @abstractmethod
    def windows(self, configuration: Mapping[str, Scalar]) -> Sequence[str]:
        """Return the windows to measure in turn: "latency" (closed loop) or "throughput" (back to back)."""

    @abstractmethod
    def open_batches(
        self, case: Case, model: LoadedModel, samples: Samples | None, device: Device, seed: int
    ) -> Batches:
        """Open the feed; without samples, of the model's example. Raises Unsupported if there is too little data."""

    @abstractmethod
    def prepare(self, case: Case, model: LoadedModel, device: Device) -> Prepared:
        """Move the model to the device and set it up. Raises Unsupported with the reason."""

    def missing(self) -> str | None:
        """Return which library is missing and what to type; None: none. Asked by the controller: import nothing."""
        return None

    def peak_memory(self, case: Case, model: LoadedModel, drawn: Mapping[str, Any], device: Device) -> PeakMemory:
        """Return the peak of the Case on a device that need not be here: only what it objects to and prefers is asked.

        `drawn`: a few items as one batch, of which only shapes and types count. Raises Unsupported with the reason.
        """
        raise Unsupported(f"task {case.workload.task}: its peak memory cannot be predicted without running it")


# ── runtimes/ ───────────────────────────────────────────────────────────────────────────────────────────────


class SavedFile(NamedTuple):
    """Where a model is written. `folder`: its files are named as that; `path`: what they will be, without suffix."""

    folder: Path
    path: str


Infer = Callable[[Mapping[str, Any]], Sequence[Any]]  # inputs by name, as tensors → every tensor of the output


class OpenRuntime(NamedTuple):
    """A model in a runtime. `answer`: its outputs in the order of those exported.

    `library`: its name and version; `threads`: that compute an answer, as it says; `options`: what it was given.
    """

    answer: Infer
    library: str
    threads: int
    options: dict[str, str]


class Runtime(ABC):
    """runtimes/<name>.py: computes a model that torch.export has exported, in fp32 or quantized.

    `devices`: kinds it computes on. `quantizations`: words of that axis which `quantize` has. `suffixes`: of its files,
    which are named as their folder; the first is the one that is loaded. `takes`: what its inputs are where it is used
    without torchstone.
    """

    describes: str
    devices: tuple[str, ...] = ("cpu",)
    quantizations: tuple[str, ...] = ()
    suffixes: tuple[str, ...] = ()
    takes: str = "numpy arrays"

    @abstractmethod
    def missing(self) -> str | None:
        """Return which library is missing and what to type; None: none. Asked by the controller: import nothing."""

    @abstractmethod
    def export(self, program: Any, folder: Path) -> None:
        """Write a torch.export.ExportedProgram as files of this runtime. Raises whatever its library raises."""

    def quantize(  # noqa: B027  only called for those it has
        self, folder: Path, quantization: str, calibration: Iterable[Mapping[str, Any]]
    ) -> None:
        """Put quantized files in place of those exported. Raises Unsupported where something for that is missing.

        `calibration`: batches of inputs, which are made when they are asked for.
        """

    @abstractmethod
    def open(self, folder: Path, threads: int, device: str) -> OpenRuntime:
        """Open the files, which are deleted then, to answer with that many threads: no others, which wait asleep.

        `device`: torch's name of it, where inputs lie and outputs belong. Raises Unsupported where the library that is
        here cannot use it.
        """

    def usage(self, file: str, threads: int, device: str) -> Sequence[str]:
        """Return lines of Python that open the file as `open` does, and compute `outputs` of `inputs`, by name."""
        raise Unsupported("this runtime does not tell how its files are loaded")


# ── searchers/ ──────────────────────────────────────────────────────────────────────────────────────────────


class Searcher(ABC):
    """searchers/<name>.py: says which Configuration to try next."""

    describes: str

    @abstractmethod
    def search(self, brief: SearchProblem) -> Generator[Probe, ProbeResult, Sequence[Point]]:
        """Yield a Probe, be sent its ProbeResult, and so on; return the points for the final round, best first.

        Equal readings lead to equal probes: `resume` sends those of the record again, and goes on where they end.
        """


# ── checks/ ─────────────────────────────────────────────────────────────────────────────────────────────────


class Check:
    """Looks at a finished run; what it finds advises by what the user already did.

    `words`: the texts of its findings by their reason, of a third party's check; those of ours are in core/messages.py.
    """

    def __init__(self, describes: str, finds: Callable[[Run], Iterator[Finding]], words: Mapping[str, Words]) -> None:
        self.describes, self._finds, self._words = describes, finds, words

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield what is wrong, with its texts where they are not ours, and with None for a value that is NaN."""
        for one in self._finds(run):
            values = {name: None if isinstance(v, float) and math.isnan(v) else v for name, v in one.values.items()}
            yield replace(one, values=values, words=one.words or self._words.get(one.reason))


def check(describes: str, words: Mapping[str, Words] = {}) -> Callable[[Callable[[Run], Iterator[Finding]]], Check]:
    """Make a check of a function."""
    return lambda finds: Check(describes, finds, words)


# ── exporters/ ──────────────────────────────────────────────────────────────────────────────────────────────


class Exporter(ABC):
    """exporters/<format>.py: writes a stored run for other programs. `folder`: where, below the output folder."""

    describes: str
    suffix: str
    folder: str

    @abstractmethod
    def write(self, run: Run, rows: Sequence[Mapping[str, Scalar]], path: Path) -> None:
        """Write the run (whole formats) or its rows (tables: one mapping a row, equal keys) to `path`."""


# ── importers/ ──────────────────────────────────────────────────────────────────────────────────────────────


class Importer(ABC):
    """importers/<tool>.py: reads what another tool wrote, so that it can be checked and compared.

    What the tool itself claims of a figure stands beside its raw values as a fact `claimed_<figure>` of a trial.
    """

    describes: str

    @abstractmethod
    def recognises(self, path: Path, beginning: bytes) -> bool:
        """Tell from a file's name and its first 64 KiB whether that tool wrote it. Never raises."""

    @abstractmethod
    def read(self, path: Path) -> Sequence[Run]:
        """Return its runs: what is missing in the file is missing in them. Raises UsageError naming the place."""


# ── commands ────────────────────────────────────────────────────────────────────────────────────────────────


class Command(ABC):
    """`torchstone <name>`, of another package; ours are files of cli/ with the same two functions.

    The docstring of the subclass is its help: what it answers, an empty line, up to three examples.
    """

    describes: str

    @abstractmethod
    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the options. `--lang` is there already; an option `--device MIG-…` is shown to the process."""

    @abstractmethod
    def run(self, options: Namespace) -> int:
        """Answer, print, and return the exit code (docs/exit-codes.md). A UsageError is printed as one line."""
