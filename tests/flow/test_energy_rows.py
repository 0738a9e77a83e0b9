"""export --rows energy through the real CLI."""

import csv
from pathlib import Path

from build import a_case, a_run, a_trial
from stored import machine, store

from torchstone.cli import main
from torchstone.core.schema.trial import Series


def test_rows_of_groups_of_steps_and_a_run_without_energy(outputs, capsys):
    case = a_case()
    at_s = tuple(0.25 * n for n in range(25))
    series = Series("device_energy_j", "amd_smi", at_s, tuple(100.0 * at for at in at_s))
    run = a_run([a_trial([0.1] * 20, series=[series], case_id=case.case_id)], cases=[case], machine=machine())
    store(outputs, [run])
    assert main(["export", "latest", "--rows", "energy"]) == 0
    path = Path(capsys.readouterr().out.strip())
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 4
    assert all(float(row["energy_low_j"]) <= float(row["energy_j"]) <= float(row["energy_high_j"]) for row in rows)


def test_a_run_without_energy_is_told_what_to_type(outputs, capsys):
    store(outputs, [a_run()])
    assert main(["export", "latest", "--rows", "energy"]) == 2
    assert "--rows energy: no energy or power was read in this run" in capsys.readouterr().err
