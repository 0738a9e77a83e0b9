"""A training from request to folder: check, try the user's code, train, log metrics, record it as a run."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from torchstone.core.errors import MissingError, UsageError
from torchstone.core.schema.case import Case
from torchstone.core.schema.codec import decode
from torchstone.core.schema.fit import EpochEnded
from torchstone.core.schema.message import Event
from torchstone.core.schema.page_locking import effective, notes
from torchstone.core.schema.run import SCHEMA, Head, Plan, Run, Slot
from torchstone.core.schema.training import EpochMetrics, Prediction, Training, TrainingMetrics, without_steps
from torchstone.core.schema.trial import Trial
from torchstone.execution import plan
from torchstone.execution.controller.active_run import finish, recorded
from torchstone.execution.controller.device_lock import SHARE, WhenBusy
from torchstone.execution.controller.observer import Watcher
from torchstone.execution.controller.session import Session
from torchstone.execution.timing.clock import system_clock
from torchstone.storage.training import CARD, METRICS, STATE, MetricsLog, TrainingCard, read_card, write_json
from torchstone.workflows.campaign import begun
from torchstone.workflows.run.results import Results, published
from torchstone.workflows.train.request import TrainingAsked, absolute_model
from torchstone.workflows.tune.verifying import epoch_of, predicted

Told = Callable[[EpochMetrics], None]


class TrainCampaign:
    """One `torchstone train`. Everything that can be wrong with it is found before anything is written."""

    def __init__(
        self, asked: TrainingAsked, output: Path, watcher: Watcher, told: Told, busy: WhenBusy = SHARE
    ) -> None:
        fit = asked.procedure.fit
        self._resumes = fit is not None and fit.resume
        if not self._resumes and (output / CARD).exists():
            raise UsageError(f"--output {output} has a training already; `train --resume {output}` continues it")
        self._asked, self._output, self._told, self._busy = asked, output.absolute(), told, busy
        self._watcher = watcher

    def carry_out(self, folder: Path, command: Sequence[str]) -> Results:
        """Train into the output, with the record in `folder`."""
        asked = self._asked
        if asked.procedure.fit is None:
            raise UsageError("this training has no fit")
        fit = msgspec.structs.replace(asked.procedure.fit, folder=str(self._output))
        procedure = msgspec.structs.replace(asked.procedure, fit=fit)
        observer = _Observer(self._watcher, asked, self._output, self._told, _before(self._output, self._resumes))
        with Session(procedure, [asked.workload.model], observer) as session:
            machine, found = session.inspect()
            placements = [plan.place(word, found, machine) for word in asked.device.split(",")]
            if len(placements) > 1:
                raise UsageError(f"train takes one device, got {asked.device}")
            device = machine.device(placements[0].device, placements[0].index)
            (point,) = effective([asked.configuration], placements[0])
            case = Case(asked.workload, plan.on_device(point, device), placements[0])
            code = {asked.workload.model: asked.code_sha256} if asked.code_sha256 is not None else {}
            with begun(
                session, machine, placements, asked.name, command, self._busy, source=asked.source, code=code
            ) as (draft, _):
                if asked.own:
                    own = session.rehearsed(case, asked.left_open)
                    case = own.filled(case, asked.left_open)
                head = msgspec.structs.replace(draft, plan=Plan((case,), (Slot(0, 0),)))
                prediction = predicted(case, machine, folder)
                run = recorded(
                    session, head, folder,
                    lambda open_run, so_far: finish(
                        open_run, so_far, answering=lambda run: self._answer(run, observer, prediction)
                    ),
                    notes([[asked.configuration]], placements),
                )  # fmt: skip
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
        self, watcher: Watcher, asked: TrainingAsked, output: Path, told: Told, before: Sequence[EpochMetrics]
    ) -> None:
        self._watcher, self._asked, self._output, self._told = watcher, asked, output, told
        self._before = before
        self._diary: MetricsLog | None = None
        self.metrics: TrainingMetrics | None = None
        self.epochs = 0

    def begins(self, head: Head) -> None:
        """Make the folder, and say in it what this is."""
        case, asked = head.plan.cases[0], self._asked
        workload = msgspec.structs.replace(asked.workload, model=absolute_model(asked.workload))
        try:
            self._output.mkdir(parents=True, exist_ok=True)
            write_json(
                self._output / CARD,
                TrainingCard(
                    SCHEMA, head.run_id, head.name, workload, case.configuration, case.placement, head.procedure,
                    asked.labels,
                ),
            )  # fmt: skip
        except OSError as fault:
            raise MissingError(f"--output {self._output}: cannot be written: {fault.strerror}") from fault
        self._diary = MetricsLog(self._output, head.run_id, asked.workload, str(case.placement), self._before)
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
            self._told(self._diary.add(event))
            self.epochs += 1
        self._watcher.heard(event)

    def finished(self, trial: Trial) -> None:
        """Write down how it ended."""
        if self._diary is not None:
            self.metrics = self._diary.close(trial)
        self._watcher.finished(trial)


def resumed(output: Path, epochs: int | None) -> TrainingAsked:
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
    return TrainingAsked(
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
