"""What exporters of other libraries write is what those libraries read."""

import pytest
from build import a_run, a_trial

from torchstone.analysis.rows import case_rows, sample_rows
from torchstone.core.errors import UsageError
from torchstone.plugins import registry

pytestmark = pytest.mark.filterwarnings("ignore")  # of these libraries' own
RUN = a_run([a_trial(), a_trial(trial_id="t1", number=1)])
ROWS = case_rows(RUN)
THROUGHPUT = ROWS[0]["throughput"]
LOW = ROWS[0]["throughput_low"]


def written(name, folder, rows=ROWS):
    exporter = registry.load("exporters", name)
    path = folder / f"run{exporter.suffix}"
    exporter.write(RUN, rows, path)
    return path


def test_prometheus_reads_it(tmp_path):
    parser = pytest.importorskip("prometheus_client.parser")
    text = written("prometheus", tmp_path).read_text(encoding="utf-8")
    found = {one.name: one for one in parser.text_string_to_metric_families(text)}
    (sample,) = found["torchstone_throughput"].samples
    assert sample.value == THROUGHPUT
    assert sample.labels["case_id"] == ROWS[0]["case_id"]
    assert found["torchstone_throughput_low"].samples[0].value == LOW


def test_tensorboard_reads_it(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(written("tensorboard", tmp_path)))
    found.Reload()
    (scalar,) = found.Scalars("throughput/1")
    assert scalar.value == pytest.approx(THROUGHPUT)
    (settings,) = found.Tensors("settings/1")
    assert f"case_id: {ROWS[0]['case_id']}" in settings.tensor_proto.string_val[0].decode()


def test_mlflow_reads_it(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    pytest.importorskip("sqlalchemy", reason="mlflow-skinny alone has no databases")
    monkeypatch.chdir(tmp_path)
    client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{written('mlflow', tmp_path)}")
    (run,) = client.search_runs([client.get_experiment_by_name("torchstone").experiment_id])
    assert run.data.metrics["throughput"] == pytest.approx(THROUGHPUT)
    assert run.data.params["case_id"] == ROWS[0]["case_id"]
    assert run.info.status == "FINISHED"


def test_wandb_keeps_a_run_that_it_can_send(tmp_path):
    pytest.importorskip("wandb")
    (file,) = written("wandb", tmp_path).glob("wandb/offline-run-*/*.wandb")
    data = file.read_bytes()  # records of protocol buffers in blocks of 32 KiB; wandb has no public reader of them
    for name in ("throughput", "throughput_low", "case_id", ROWS[0]["case_id"], repr(THROUGHPUT)):
        assert str(name).encode() in data, name


@pytest.mark.parametrize("name", ["prometheus", "tensorboard", "mlflow", "wandb"])
def test_rows_without_figures_are_refused(tmp_path, name):
    pytest.importorskip({"prometheus": "prometheus_client"}.get(name, name))
    with pytest.raises(UsageError, match="--rows cases"):
        written(name, tmp_path, sample_rows(RUN))
