from typing import Any

import pytest

from torchstone.plugins.telemetry._system import Rapl

RANGE_UJ = 262_143_328_850


def zone(root, folder, name, energy_uj, range_uj=RANGE_UJ):
    path = root / folder
    path.mkdir()
    for file, value in {"name": name, "energy_uj": energy_uj, "max_energy_range_uj": range_uj}.items():
        (path / file).write_text(f"{value}\n")
    return path / "energy_uj"


def test_packages_are_added_and_their_parts_are_not(tmp_path):
    zone(tmp_path, "intel-rapl:0", "package-0", 1_000_000)
    zone(tmp_path, "intel-rapl:0:0", "core", 900_000)
    zone(tmp_path, "intel-rapl:1", "package-1", 2_500_000)
    zone(tmp_path, "intel-rapl:2", "psys", 9_000_000)
    zone(tmp_path, "intel-rapl-mmio:0", "package-0", 1_000_000)
    (gauge,) = Rapl(tmp_path).open(None, None)
    assert (gauge.metric, gauge.cumulative) == ("package_energy_j", True)
    assert gauge.read() == pytest.approx(3.5)


def test_a_wrap_is_unwrapped_twice_over(tmp_path):
    energy = zone(tmp_path, "intel-rapl:0", "package-0", RANGE_UJ - 1_000_000)
    gauge: Any
    (gauge,) = Rapl(tmp_path).open(None, None)
    before_j = gauge.read()
    energy.write_text("2000000\n")
    assert gauge.read() - before_j == pytest.approx(3.0)
    energy.write_text("1000000\n")
    assert gauge.read() - before_j == pytest.approx(2.0 + RANGE_UJ * 1e-6)


def test_what_only_root_may_read_is_absent(tmp_path):
    zone(tmp_path, "intel-rapl:0", "package-0", 1).unlink()
    assert not Rapl(tmp_path).open(None, None)


def test_without_its_range_a_counter_cannot_be_unwrapped(tmp_path):
    zone(tmp_path, "intel-rapl:0", "package-0", 1, range_uj="")
    assert not Rapl(tmp_path).open(None, None)


def test_no_powercap_at_all(tmp_path):
    assert not Rapl(tmp_path / "none").open(None, None)


def test_one_package_that_stops_answering_silences_the_sum(tmp_path):
    zone(tmp_path, "intel-rapl:0", "package-0", 1)
    other = zone(tmp_path, "intel-rapl:1", "package-1", 1)
    (gauge,) = Rapl(tmp_path).open(None, None)
    other.write_text("")
    assert gauge.read() is None
