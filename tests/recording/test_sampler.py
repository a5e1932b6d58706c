"""The counter sampler reads sysfs, survives ports that vanish, and writes the long CSV."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from netlab.recording.facts import write_ports
from netlab.recording.sampler import CounterSampler, find_counters, find_speeds


@pytest.fixture
def sysfs(tmp_path: Path) -> Path:
    """A host with a loopback, an Ethernet interface and a two-port InfiniBand device."""
    root = tmp_path / "class"
    files = {
        "net/lo/statistics/rx_bytes": "1",
        "net/eth0/statistics/rx_bytes": "100",
        "net/eth0/statistics/tx_bytes": "200",
        "infiniband/mlx5_0/ports/1/counters/port_xmit_data": "300",
        "infiniband/mlx5_0/ports/2/counters/port_xmit_data": "N/A (no PMA)",
        "infiniband/mlx5_0/ports/1/hw_counters/packet_seq_err": "4",
        "infiniband/mlx5_0/ports/1/rate": "400 Gb/sec (4X NDR)",
        "net/eth0/operstate": "up",
        "net/eth0/speed": "100000",
        "net/eth0/device/vendor": "0x15b3",
        "net/ifb0/statistics/rx_bytes": "0",
        "net/ifb0/operstate": "down",
        "net/veth1/speed": "10000",
    }
    for name, value in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(value + "\n")
    return root


def test_loopback_and_what_is_down_are_left_out_and_second_ports_are_numbered(sysfs: Path) -> None:
    found = [(counter.port, counter.counter) for counter in find_counters(sysfs)]
    assert found == [
        ("eth0", "rx_bytes"),
        ("eth0", "tx_bytes"),
        ("mlx5_0", "port_xmit_data"),
        ("mlx5_0", "packet_seq_err"),
        ("mlx5_0/2", "port_xmit_data"),
    ]


def test_speeds_are_those_of_hardware_only(sysfs: Path, tmp_path: Path) -> None:
    assert find_speeds(sysfs) == {"eth0": 100.0, "mlx5_0": 400.0}
    write_ports(tmp_path / "ports.csv", "h", find_speeds(sysfs))
    assert (tmp_path / "ports.csv").read_text().split() == [
        "device,port,speed_gbps,role,host,nic",
        "h,eth0,100,hca,h,eth0",
        "h,mlx5_0,400,hca,h,mlx5_0",
    ]


def test_first_and_last_sample_are_written_however_short_the_recording(sysfs: Path, tmp_path: Path) -> None:
    sampler = CounterSampler(tmp_path / "counters" / "h.csv", "h", 60.0, find_counters(sysfs))
    sampler.start()
    sampler.stop()
    frame = pl.read_csv(tmp_path / "counters" / "h.csv")
    assert frame.columns == ["timestamp", "device", "port", "counter", "value"]
    assert 1 <= frame["timestamp"].n_unique() <= 2
    assert sampler.rounds == frame["timestamp"].n_unique()
    assert frame.filter(counter="port_xmit_data")["value"].to_list() == [300] * sampler.rounds


def test_unreadable_value_is_left_out_not_written_as_zero(sysfs: Path, tmp_path: Path) -> None:
    sampler = CounterSampler(tmp_path / "h.csv", "h", 60.0, find_counters(sysfs))
    sampler.start()
    sampler.stop()
    assert "mlx5_0/2" not in pl.read_csv(tmp_path / "h.csv")["port"].to_list()
