"""Clocks, owners and names of counter samples."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from netlab.align.counters import align_counters
from netlab.align.port_names import logical_role, port_key
from netlab.config import FileOptions
from netlab.errors import ConfigError
from netlab.readers.base import Sink
from netlab.readers.counters.csv_files import PlainCsv

H = 3_600_000_000_000


def read(folder: Path, *rows: str, name: str = "c.csv", header: str = "timestamp,device,port,counter,value") -> pl.DataFrame:
    path = folder / name
    path.write_text("\n".join((header, *rows)) + "\n")
    sink = Sink()
    PlainCsv().read(path, sink, name)
    return sink.collect("counters")


def hours(frame: pl.DataFrame) -> list[float]:
    """Hours of the day of 2026-10-25 UTC."""
    return ((frame["ts_ns"] - 1_792_886_400_000_000_000) / H).to_list()


def test_naive_times_are_utc_with_an_issue(tmp_path: Path) -> None:
    frame, issues = align_counters(read(tmp_path, "2026-10-25 12:00:00,a,e0,ifHCInOctets,1"))
    assert hours(frame) == [12.0]
    assert [issue.code for issue in issues] == ["TIMEZONE_REQUIRED"]


def test_a_zone_of_netlab_toml_moves_naive_times_only(tmp_path: Path) -> None:
    counters = read(tmp_path, "2026-10-25 12:00:00,a,e0,ifHCInOctets,1", "2026-10-25T12:00:00Z,a,e1,ifHCInOctets,1")
    frame, issues = align_counters(counters, {"c.csv": FileOptions(timezone="Europe/Berlin")})
    assert hours(frame) == [11.0, 12.0]
    assert not issues
    assert frame["flags"].to_list() == ["", ""]


def test_the_hour_that_a_clock_change_repeats_is_told_apart_by_order(tmp_path: Path) -> None:
    rows = [
        f"2026-10-25 {clock},a,e0,ifHCInOctets,{value}"
        for value, clock in enumerate(("01:30:00", "02:30:00", "02:00:00", "02:30:00", "03:00:00"))
    ]
    frame, issues = align_counters(read(tmp_path, *rows), {"c.csv": FileOptions(timezone="Europe/Berlin")})
    assert hours(frame) == [-0.5, 0.5, 1.0, 1.5, 2.0]
    assert frame["value_int"].to_list() == [0, 1, 2, 3, 4]
    assert [issue.code for issue in issues] == ["TIMEZONE_REQUIRED"]


def test_times_that_a_clock_change_skips_are_left_out(tmp_path: Path) -> None:
    counters = read(tmp_path, "2026-03-29 02:30:00,a,e0,ifHCInOctets,1", "2026-03-29 04:00:00,a,e0,ifHCInOctets,2")
    frame, issues = align_counters(counters, {"c.csv": FileOptions(timezone="Europe/Berlin")})
    assert frame["value_int"].to_list() == [2]
    assert [issue.code for issue in issues] == ["TIMEZONE_REQUIRED"]


def test_an_unknown_zone_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Mars"):
        align_counters(read(tmp_path, "2026-10-25 12:00:00,a,e0,ifHCInOctets,1"), {"c.csv": FileOptions(timezone="Mars/Olympus")})


def test_the_clock_offset_is_added(tmp_path: Path) -> None:
    frame, _ = align_counters(read(tmp_path, "2026-10-25T12:00:00Z,a,e0,ifHCInOctets,1"), {"c.csv": FileOptions(clock_offset_s=-1.5)})
    assert hours(frame) == [12.0 - 1.5 / 3600]


def test_a_device_of_netlab_toml_replaces_the_file_name(tmp_path: Path) -> None:
    counters = read(tmp_path, "2026-10-25T12:00:00Z,e0,ifHCInOctets,1", header="timestamp,port,counter,value")
    frame, issues = align_counters(counters)
    assert frame["device"].to_list() == ["c"]
    assert [issue.code for issue in issues] == ["DEVICE_ASSUMED"]
    frame, issues = align_counters(counters, {"c.csv": FileOptions(device="leaf9")})
    assert frame["device"].to_list() == ["leaf9"]
    assert not issues


def test_two_spellings_of_a_port_are_one_port(tmp_path: Path) -> None:
    counters = read(tmp_path, "2026-10-25T12:00:00Z,a,Eth1/1,ifHCInOctets,1", "2026-10-25T12:00:10Z,a,Ethernet1/1,ifHCInOctets,2")
    frame, issues = align_counters(counters)
    assert frame["port"].to_list() == ["Ethernet1/1", "Ethernet1/1"]
    assert [issue.code for issue in issues] == ["PORT_RENAMED"]


def test_a_port_that_counts_on_under_another_name_is_told_but_not_joined(tmp_path: Path) -> None:
    rows = [
        f"2026-10-25T12:00:{at:02d}Z,a,{port},ifHCInOctets,{value}"
        for at, port, value in ((0, "p1", 1000), (10, "p1", 1100), (20, "p9", 1200), (30, "p9", 1300))
    ]
    frame, issues = align_counters(read(tmp_path, *rows))
    assert sorted(set(frame["port"].to_list())) == ["p1", "p9"]
    assert [issue.code for issue in issues] == ["PORT_RENAMED"]


def test_a_snapshot_without_time_is_told() -> None:
    from netlab.schema.counters import COUNTERS

    row = {
        "device": ["a"],
        "port": ["1"],
        "direction": ["rx"],
        "metric": ["bytes"],
        "kind": ["counter"],
        "flags": [""],
        "raw_name": ["x"],
        "source": ["s"],
    }
    frame, issues = align_counters(COUNTERS.conform(pl.DataFrame(row)))
    assert frame.height == 1
    assert [issue.code for issue in issues] == ["SNAPSHOT_ONLY"]


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ("Eth1/1", "Ethernet1/1", True),
        ("et1/1", "ethernet1/1", True),
        ("mlx5_0", "mlx5_0/1", True),
        ("mlx5_0/1", "mlx5_0/2", False),
        ("eth0", "Ethernet0", False),
        ("Po1", "port-channel1", True),
    ],
)
def test_port_keys(a: str, b: str, same: bool) -> None:
    assert (port_key(a) == port_key(b)) is same


@pytest.mark.parametrize(
    ("port", "role"),
    [
        ("PortChannel1", "lag"),
        ("bond0", "lag"),
        ("Vlan100", "vlan"),
        ("Ethernet1/1.100", "vlan"),
        ("Ethernet-BP4", "vlan"),
        ("Management1", "mgmt"),
        ("Ethernet0", None),
        ("swp1", None),
        ("mlx5_bond_0/1", None),
        ("P1", None),
    ],
)
def test_names_of_ports_that_carry_what_others_count(port: str, role: str | None) -> None:
    assert logical_role(port) == role


def test_many_files_without_a_device_are_one_note(tmp_path: Path) -> None:
    def notes(files: int) -> list[str]:
        parts = [
            read(tmp_path, f"{at},e0,ifHCInOctets,{at}", name=f"f{at}.csv", header="time,port,counter,value")
            for at in range(10**9, 10**9 + files)
        ]
        return [issue.message for issue in align_counters(pl.concat(parts))[1] if issue.code == "DEVICE_ASSUMED"]

    assert len(notes(5)) == 5
    (note,) = notes(9)
    assert note.endswith("The same holds for 8 more files.")
