import msgspec
import pytest
from build import a_case, a_machine, a_run, a_trial

from torchstone.core.schema.answer import Choice, TuneResult, TuneSpec
from torchstone.core.schema.estimate import Estimate
from torchstone.core.schema.machine import Host
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.run import Answered
from torchstone.core.schema.training import Fit
from torchstone.core.schema.trial import Outcome, Status
from torchstone.storage.record_writer import RecordWriter
from torchstone.workflows.train.training import epoch_of as whole_epoch_of
from torchstone.workflows.train.training import predicted

SETTINGS = {"batch_size": 64, "precision": "bf16"}
HERE = a_machine()
THERE = a_machine(host=Host("elsewhere", "Linux-6.1", "a processor", 4, 8, 16 * 2**30))


def tuned(folder, run_id, *, settings=SETTINGS, epoch_s=10.0, machine=HERE, day=1, **workload):
    """Store a tune that recommends these settings and expects an epoch to take so long."""
    case = a_case({"threads": 3, **settings}, **workload)
    choice = Choice(case.case_id, settings, 3)
    answer = TuneResult(
        recommended=choice, highest_throughput=choice, best_efficiency=None, pareto=(), present=None, gain=None,
        epoch_time_s=Estimate(epoch_s, 0.9 * epoch_s, 1.1 * epoch_s, 0.95, "s", "t", 3, 300), settings=settings,
        why=(), searched_s=1.0, everything_s=None, points=1, probes=1, tried=1,
    )  # fmt: skip
    spec = TuneSpec("throughput", "adaptive", case, {name: (value,) for name, value in settings.items()})
    run = a_run([a_trial(case_id=case.case_id)], cases=[case], machine=machine)
    head = msgspec.structs.replace(run.head, run_id=run_id, tune=spec, started_utc=f"2026-11-0{day}T10:00:00Z")
    with RecordWriter(folder / "records" / f"{run_id}.jsonl", head) as writer:
        for trial in run.trials:
            writer.append(trial)
        writer.append(Answered(answer))


def trained(status=Status.OK, **configuration):
    """The case and the trial of a training: a first step of 2 s, then nine of 1 s, 64 items each."""
    case = a_case({**SETTINGS, **configuration})
    trial = a_trial([1.0] * 9, items=64, setup={"first_step_time_s": [2.0]}, case_id=case.case_id, status=status)
    if status != Status.OK:
        trial = msgspec.structs.replace(trial, outcome=Outcome(status, "no"), measurements=())
    return case, trial


def epoch_of(trained, epochs, folder):
    case, trial = trained
    return whole_epoch_of([trial], epochs, predicted(case, HERE, folder))


def test_the_first_step_is_of_the_epoch_and_not_of_what_was_predicted(tmp_path):
    tuned(tmp_path, "t1", epoch_s=9.0)
    epoch = epoch_of(trained(), 1, tmp_path)
    assert epoch is not None
    assert (epoch.measured_s, epoch.first_s, epoch.steps, epoch.items) == (11.0, 2.0, 10, 640)
    assert epoch.ratio == pytest.approx(1.0)
    assert epoch.predicted is not None
    assert (epoch.predicted.by, epoch.predicted.run_id) == ("tune", "t1")


def test_several_epochs_are_told_as_one(tmp_path):
    epoch = epoch_of(trained(), 2, tmp_path)
    assert epoch is not None
    assert (epoch.measured_s, epoch.first_s, epoch.steps) == (5.5, 1.0, 10)
    assert (epoch.predicted, epoch.ratio) == (None, None)


def test_the_newest_tune_of_the_same_settings_on_this_machine_counts(tmp_path):
    tuned(tmp_path, "t1", day=1)
    tuned(tmp_path, "t2", day=2)
    tuned(tmp_path, "other-settings", day=3, settings={**SETTINGS, "batch_size": 32})
    tuned(tmp_path, "other-model", day=4, model="net:mlp")
    tuned(tmp_path, "other-data", day=5, data="digits")
    tuned(tmp_path, "other-machine", day=6, machine=THERE)
    told = predicted(trained()[0], HERE, tmp_path)
    assert told is not None
    assert told.run_id == "t2"


def measured(folder, run_id, *, day=1, machine=HERE, fit=None, items=640, step_s=1.0, **configuration):
    """Store a run that measured these settings: steps of 64 items from a data set of so many."""
    case = a_case({**SETTINGS, **configuration})
    steps = [[step_s * factor] * 9 for factor in (0.9, 1.0, 1.1)]
    trials = [
        a_trial(one, items=64, case_id=case.case_id, trial_id=f"t{n}", number=n, facts={"dataset_items": items})
        for n, one in enumerate(steps)
    ]
    run = a_run(trials, cases=[case], machine=machine, procedure=Procedure(trials=3, fit=fit))
    head = msgspec.structs.replace(run.head, run_id=run_id, started_utc=f"2026-11-0{day}T10:00:00Z")
    with RecordWriter(folder / "records" / f"{run_id}.jsonl", head) as writer:
        for trial in trials:
            writer.append(trial)


def test_s2_51_a_run_of_the_same_settings_predicts_item_for_item(tmp_path):
    measured(tmp_path, "r1", items=1280)
    epoch = epoch_of(trained(), 1, tmp_path)
    assert epoch is not None
    told = epoch.predicted
    assert told is not None
    assert (told.by, told.run_id, told.items) == ("run", "r1", 1280)
    assert told.epoch_s.value == pytest.approx(20.0, rel=0.01), "1,280 items at 64 a second"
    assert told.epoch_s.low is not None
    assert epoch.ratio == pytest.approx(1.0, rel=0.01), "half of the items were held out, and took as long each"


def test_the_newest_run_or_tune_counts_and_a_training_predicts_nothing(tmp_path):
    measured(tmp_path, "r1", day=1)
    tuned(tmp_path, "t2", day=2)
    measured(tmp_path, "to-an-end", day=3, fit=Fit())
    measured(tmp_path, "elsewhere", day=4, machine=THERE)
    measured(tmp_path, "other-settings", day=5, batch_size=32)
    measured(tmp_path, "without-an-end", day=6, items=0)
    told = predicted(trained()[0], HERE, tmp_path)
    assert told is not None
    assert (told.by, told.run_id) == ("tune", "t2")
    measured(tmp_path, "r7", day=7)
    told = predicted(trained()[0], HERE, tmp_path)
    assert told is not None
    assert (told.by, told.run_id) == ("run", "r7")


def test_without_such_a_tune_nothing_is_predicted_and_a_failed_training_has_no_epoch(tmp_path):
    assert predicted(trained()[0], HERE, tmp_path) is None
    assert epoch_of(trained(status=Status.CRASHED), 1, tmp_path) is None
