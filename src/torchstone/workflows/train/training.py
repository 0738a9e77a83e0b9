"""A training from request to folder: check, try the user's code, train, log metrics, record it as a run."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from torchstone.analysis.summary import summarize
from torchstone.core.errors import MissingError, UsageError
from torchstone.core.figures import figures
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Case, Workload
from torchstone.core.schema.codec import decode
from torchstone.core.schema.estimate import Estimate
from torchstone.core.schema.machine import Machine
from torchstone.core.schema.message import Event
from torchstone.core.schema.model import DataCard
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.request import effective, notes
from torchstone.core.schema.run import SCHEMA, Head, Plan, Run, Slot
from torchstone.core.schema.training import (
    Epoch,
    EpochEnded,
    EpochMetrics,
    Prediction,
    Training,
    TrainingMetrics,
    without_steps,
)
from torchstone.core.schema.trial import Status, Trial
from torchstone.execution import plan
from torchstone.execution.controller.active_run import finish, record_run
from torchstone.execution.controller.device_lock import SHARE, WhenBusy
from torchstone.execution.controller.observer import Watcher
from torchstone.execution.controller.session import Session
from torchstone.execution.timing.clock import system_clock
from torchstone.plugins.choices import card_of, has_end
from torchstone.storage.measured import stored_cases_by_id
from torchstone.storage.query import Entry, find, tune_answers
from torchstone.storage.training import CARD, METRICS, STATE, MetricsLog, TrainingCard, read_card, write_json
from torchstone.workflows.run.planned_run import Results, begin_run, published

if TYPE_CHECKING:
    from torchstone.config.run_file import RunRequest
    from torchstone.core.schema.request import WorkloadRequest

_LONGEST_S = 30 * 86400.0  # a training takes what it takes; a loader that hangs is ended some day
_JUDGED_ON = ("validation", "test")  # the split to judge epochs on: the first that there is


class TrainingRequest(msgspec.Struct, frozen=True):
    """A training that is checked as far as it can be without torch."""

    name: str
    device: str
    workload: Workload
    configuration: Mapping[str, Scalar]
    procedure: Procedure
    labels: tuple[str, ...]
    own: bool
    source: object = None
    code_sha256: str | None = None
    left_open: tuple[str, ...] = ()  # axes that the data of the user's own code decides


def training_request(request: RunRequest, epochs: int | None, steps: int | None, *, limited: bool) -> TrainingRequest:
    """Check what a recipe and flags ask for. Raises UsageError if it is no training, or more than one.

    `epochs` and `steps` as given on the command line; without them the recipe's. `limited`: the Procedure's timeout was
    given, and is meant.
    """
    if len(request.workloads) > 1:
        models = ", ".join(w.model for w in request.workloads)
        raise UsageError(f"train takes one model, {request.name} has {models}; choose one with --model")
    (asked,) = request.workloads
    if asked.task != "train":
        raise UsageError(f"train does task train, not {asked.task}")
    one = _with_weights(_fixed(asked))
    sketch = plan.sketch(one)
    # Whether a user's own function brings a data set is known when it has been called.
    if not has_end(sketch.workload.data) and sketch.workload.data != "example" and steps is None:
        raise UsageError(
            f"{one.model}: data {sketch.workload.data} is endless and has no epochs; give --data or --steps N"
        )
    fit = request.fit.fit
    split = sketch.workload.data_options.get("split")
    if sketch.data is not None and split == "train":
        found = next((other for other in _JUDGED_ON if other in sketch.data.splits), None)
        fit = msgspec.structs.replace(fit, validation_split=found)
    procedure = msgspec.structs.replace(
        request.procedure,
        trials=1,
        epochs=epochs or (1 if steps is not None else request.fit.epochs or 1),
        iterations=steps,
        timeout_s=request.procedure.timeout_s if limited else _LONGEST_S,
        phases=False,
        time_limit_s=None,
        count_flops=False,
        fit=fit,
    )
    return TrainingRequest(
        request.name or "train",
        request.device,
        absolute(sketch.workload),
        sketch.configurations[0],
        procedure,
        _labels(sketch.data),
        sketch.own,
        request.source,
        sketch.code_sha256,
        sketch.left_open,
    )


def _fixed(workload: WorkloadRequest) -> WorkloadRequest:
    for axis, values in workload.axes.items():
        if len(values) > 1:
            several = ", ".join(map(str, values))
            raise UsageError(
                f"train takes one value of {axis}, {workload.model} has {several}: `torchstone tune` finds the best, "
                f"or give --axis {axis}={values[0]}"
            )
    return msgspec.structs.replace(workload, axes={**workload.axes, "feed": ("loader",)})


def _with_weights(workload: WorkloadRequest) -> WorkloadRequest:
    """Return it with pretrained weights, where there are such and nobody said which.

    How fast a step is does not hang on the weights, so `run` takes random ones; what a training comes to does.
    """
    if "weights" in workload.options or not card_of(workload.model, workload.options).pretrained:
        return workload
    return msgspec.structs.replace(workload, options={**workload.options, "weights": "pretrained"})


def _labels(card: DataCard | None) -> tuple[str, ...]:
    if card is None:
        return ()
    return card.labels or tuple(str(n) for n in range(card.classes or 0))


def absolute(workload: Workload) -> Workload:
    """Return the workload with the path of its data made absolute: its folder may be used from anywhere."""
    scheme, colon, path = workload.data.partition(":")
    here = Path(path).expanduser()
    if not colon or not here.exists():
        return workload
    return msgspec.structs.replace(workload, data=f"{scheme}:{here.resolve()}")


def absolute_model(workload: Workload) -> str:
    """Return the model with the path of its folder or file made absolute: who judges it may stand elsewhere."""
    scheme, _, name = workload.model.partition(":")
    if workload.fixed.get("source") == "folder":
        return f"{scheme}:{Path(name).expanduser().resolve()}"
    bare, at, file = workload.model.partition("@")
    with_file = at and workload.fixed.get("weights") == "file"
    return f"{bare}@{Path(file).expanduser().resolve()}" if with_file else workload.model


Tell = Callable[[EpochMetrics], None]


class TrainCampaign:
    """One `torchstone train`. Everything that can be wrong with it is found before anything is written."""

    def __init__(
        self, request: TrainingRequest, output: Path, watcher: Watcher, tell: Tell, busy: WhenBusy = SHARE
    ) -> None:
        fit = request.procedure.fit
        self._resumes = fit is not None and fit.resume
        if not self._resumes and (output / CARD).exists():
            raise UsageError(f"--output {output} has a training already; `train --resume {output}` continues it")
        self._request, self._output, self._tell, self._busy = request, output.absolute(), tell, busy
        self._watcher = watcher

    def carry_out(self, folder: Path, command: Sequence[str]) -> Results:
        """Train into the output, with the record in `folder`."""
        request = self._request
        if request.procedure.fit is None:
            raise UsageError("this training has no fit")
        fit = msgspec.structs.replace(request.procedure.fit, folder=str(self._output))
        procedure = msgspec.structs.replace(request.procedure, fit=fit)
        observer = _Observer(self._watcher, request, self._output, self._tell, _before(self._output, self._resumes))
        with Session(procedure, [request.workload.model], observer) as session:
            machine, found = session.inspect()
            placements = [plan.place(word, found, machine) for word in request.device.split(",")]
            if len(placements) > 1:
                raise UsageError(f"train takes one device, got {request.device}")
            device = machine.device(placements[0].device, placements[0].index)
            (point,) = effective([request.configuration], placements[0])
            case = Case(request.workload, plan.on_device(point, device), placements[0])
            code = {request.workload.model: request.code_sha256} if request.code_sha256 is not None else {}
            with begin_run(
                session, machine, placements, request.name, command, self._busy, source=request.source, code=code
            ) as (draft, _):
                if request.own:
                    own = session.rehearsed(case, request.left_open)
                    case = own.filled(case, request.left_open)
                head = msgspec.structs.replace(draft, plan=Plan((case,), (Slot(0, 0),)))
                prediction = predicted(case, machine, folder)
                run = record_run(
                    session,
                    head,
                    folder,
                    lambda open_run, so_far: finish(
                        open_run, so_far, answering=lambda run: self._answer(run, observer, prediction)
                    ),
                    notes([[request.configuration]], placements),
                )
        return published(run, folder)

    def _answer(self, run: Run, observer: _Observer, prediction: Prediction | None) -> Training:
        """Return what the training came to."""
        metrics, epoch = observer.metrics, None
        if metrics is not None:
            epoch = epoch_of(run.trials, observer.epochs, prediction)
            metrics = without_steps(metrics)
        return Training(str(self._output), metrics, epoch)


class _Observer:
    """A Watcher that logs the metrics and passes every event on."""

    def __init__(
        self, watcher: Watcher, request: TrainingRequest, output: Path, tell: Tell, before: Sequence[EpochMetrics]
    ) -> None:
        self._watcher, self._request, self._output, self._tell = watcher, request, output, tell
        self._before = before
        self._diary: MetricsLog | None = None
        self.metrics: TrainingMetrics | None = None
        self.epochs = 0

    def begins(self, head: Head) -> None:
        """Make the folder, and say in it what this is."""
        case, request = head.plan.cases[0], self._request
        workload = msgspec.structs.replace(request.workload, model=absolute_model(request.workload))
        try:
            self._output.mkdir(parents=True, exist_ok=True)
            write_json(
                self._output / CARD,
                TrainingCard(
                    SCHEMA,
                    head.run_id,
                    head.name,
                    workload,
                    case.configuration,
                    case.placement,
                    head.procedure,
                    request.labels,
                ),
            )
        except OSError as fault:
            raise MissingError(f"--output {self._output}: cannot be written: {fault.strerror}") from fault
        self._diary = MetricsLog(self._output, head.run_id, request.workload, str(case.placement), self._before)
        self._watcher.begins(head)

    def waits(self, programs: Sequence[tuple[str, float]]) -> None:
        """Pass it on."""
        self._watcher.waits(programs)

    def starts(self, slot: Slot, order: int) -> None:
        """Count moments from here."""
        if self._diary is not None:
            self._diary.begins(system_clock())
        self._watcher.starts(slot, order)

    def heard(self, event: Event) -> None:
        """Write an epoch down."""
        if isinstance(event, EpochEnded) and self._diary is not None:
            self._tell(self._diary.add(event))
            self.epochs += 1
        self._watcher.heard(event)

    def finished(self, trial: Trial) -> None:
        """Write down how it ended."""
        if self._diary is not None:
            self.metrics = self._diary.close(trial)
        self._watcher.finished(trial)


def resumed(output: Path, epochs: int | None) -> TrainingRequest:
    """Return the training in a folder as it is asked for to go on, for as many epochs as before unless told otherwise.

    Raises UsageError if there is none, or nothing is left to do.
    """
    card = read_card(output)
    done = _before(output, resumes=True)
    if not (output / STATE).is_file() or not done:
        raise UsageError(f"{output}: interrupted before its first epoch ended; train again with another --output")
    wanted = epochs or card.procedure.epochs or 1
    if done[-1].epoch >= wanted:
        raise UsageError(f"{output}: its {done[-1].epoch} epochs are done; continue with a larger --epochs N")
    if card.procedure.fit is None:
        raise UsageError(f"{output / CARD}: has no fit")
    fit = msgspec.structs.replace(card.procedure.fit, resume=True)
    procedure = msgspec.structs.replace(card.procedure, epochs=wanted, fit=fit)
    return TrainingRequest(
        card.name, str(card.placement), card.workload, card.configuration, procedure, card.labels, own=True
    )


def default_output(folder: Path, name: str) -> Path:
    """Return where a training goes that was given no place: below the output folder, named by the moment."""
    safe = "".join(c if c.isalnum() or c in "-_." else "-" for c in name)
    return folder / "training" / f"{safe}_{datetime.datetime.now(datetime.UTC):%Y%m%d_%H%M%S}"


def _before(output: Path, resumes: bool) -> tuple[EpochMetrics, ...]:
    """Return the epochs that the part before a cut wrote down."""
    path = output / METRICS
    if not resumes or not path.is_file():
        return ()
    try:
        metrics: TrainingMetrics = decode(path.read_bytes(), TrainingMetrics)
    except UsageError as fault:
        raise UsageError(f"{path}: {fault}") from None
    return metrics.epochs


# ── one real epoch beside what a tune, or a run of the same settings, predicted ─────────────────────────────────

_FIGURE = "epoch_time_s"


def epoch_of(trials: Sequence[Trial], epochs: int, prediction: Prediction | None) -> Epoch | None:
    """Return what an epoch of a training took, of so many; None where its trial did not end well."""
    trial = next((t for t in trials if t.outcome.status == Status.OK), None)
    if trial is None:
        return None
    found = figures(trial).values
    first_s, total_s, steps = (found[name] for name in ("first_step_time_s", "total_time_s", "steps"))
    a_step = found["total_items"] / steps
    return Epoch(
        (first_s + total_s) / epochs,
        first_s / epochs,
        int(steps) + 1,
        round(a_step * (steps + 1)),
        total_s / found["total_items"],
        prediction,
    )


def predicted(this: Case, machine: Machine, folder: Path) -> Prediction | None:
    """Return the newest prediction that is stored of this machine.

    Of a tune that recommended these settings for this work, or of a run that measured this very Case.
    """
    found = [one for one in (_by_tune(this, machine, folder), _by_run(this, machine, folder)) if one is not None]
    return max(found, key=lambda one: one.started_utc, default=None)


def _by_tune(this: Case, machine: Machine, folder: Path) -> Prediction | None:
    for told in tune_answers(folder):
        spec, answer = told.head.tune, told.answer
        if spec is None or answer.epoch_time_s is None or told.head.machine.host.hostname != machine.host.hostname:
            continue
        same_work = _work(spec.base) == _work(this)
        same_place = spec.base.placement.canonical() == this.placement.canonical()
        says = all(this.configuration.get(axis) == value for axis, value in answer.settings.items())
        if answer.recommended.case_id == this.case_id or (same_work and same_place and says):
            entry = find(folder, told.head.run_id)
            return _prediction(entry, answer.recommended.case_id, answer.epoch_time_s)
    return None


def _work(case: Case) -> object:
    """Return what a Case works on. Which weights it begins with changes no speed: a tune's are mostly random."""
    fixed = {name: value for name, value in case.workload.fixed.items() if name != "weights"}
    return msgspec.structs.replace(case.workload, fixed=fixed).canonical()


def _by_run(this: Case, machine: Machine, folder: Path) -> Prediction | None:
    """Return that of the newest run that measured this Case; a training to an end predicts nothing."""
    found = [
        one
        for one in stored_cases_by_id(folder, this.case_id, (_FIGURE,)).measured
        if one.machine.host.hostname == machine.host.hostname
        and one.procedure.get("fit") is None
        and one.values(_FIGURE)
    ]
    if not found:
        return None
    entry = find(folder, found[-1].run_id)  # oldest first
    cases = {case.case_id: case for case in summarize(entry).cases}
    return _prediction(entry, this.case_id, cases[this.case_id].estimates[_FIGURE])


def _prediction(entry: Entry, case_id: str, epoch_s: Estimate) -> Prediction:
    counts = (t.facts.dataset_items for t in entry.trials if t.case_id == case_id)
    items = next((count for count in counts if isinstance(count, int)), None)
    by = "run" if entry.head.tune is None else "tune"
    return Prediction(epoch_s, by, entry.head.run_id, entry.head.started_utc, items)
