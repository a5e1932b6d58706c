"""Counters that name a device by GUID or LID meet its name and its cable."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from netlab.align.ports import align_counters, build_ports
from netlab.readers.base import Sink
from netlab.readers.registry import claim
from netlab.readers.streams import read_head

_FULL = """vendid=0x2c9
devid=0xd2f0
switchguid=0xc42a10300a9b026(c42a10300a9b026)
Switch\t41 "S-0c42a10300a9b026"\t\t# "MF0;leaf1:MQM8700/U1" enhanced port 0 lid 3894 lmc 0
[9]\t"H-0c42a10300fb53dc"[1](c42a10300fb53dd) \t\t# "nodea mlx5_0" lid 4049 4xHDR
[10]\t"H-0c42a10300fb53e0"[1](c42a10300fb53e1) \t\t# "nodea mlx5_1" lid 4050 4xHDR
"""


def aligned(folder: Path, *paths: Path, **texts: str) -> tuple[pl.DataFrame, pl.DataFrame, list[str]]:
    """Counters, ports and codes of issues of some files."""
    sink = Sink()
    written = []
    for name, text in texts.items():
        written.append(folder / f"{name}.txt")
        written[-1].write_text(text)
    for path in (*paths, *written):
        reader = claim(read_head(path), path)
        assert reader is not None, path
        reader.read(path, sink, path.name)
    raw = {name: sink.collect(name) for name in sink.frames}
    raw["counters"], issues = align_counters(raw["counters"], {}, raw.get("port_facts"), raw.get("fabric_nodes"))
    ports, more = build_ports(raw)
    return raw["counters"].with_columns(pl.col("device", "port").cast(pl.String)), ports, [issue.code for issue in (*issues, *more)]


def test_the_lids_of_perfquery_get_the_names_of_ibnetdiscover(tmp_path: Path, shared_data: Path) -> None:
    folder = shared_data / "counters" / "infiniband"
    files = ("ibnetdiscover_test.out", "perfquery_0x506b4b03005c2740.out", "perfquery_0x7cfe9003003b4bde.out")
    counters, ports, _ = aligned(tmp_path, *(folder / name for name in files))
    assert set(counters.select("device", "port").rows()) == {("ib-i4l1s01", "1"), ("o0001", "HCA-1/1")}
    host = ports.filter(pl.col("device") == "o0001").row(0, named=True)
    assert (host["role"], host["peer_device"], host["peer_port"], host["speed_gbps"]) == ("hca", "ib-i1l1s01", "10", 100.0)


@pytest.mark.parametrize("guid", ["0x0c42a10300fb53dc", "0xc42a10300fb53dc", "0xc42a10300fb53dd", "0x0C42A10300FB53DD"])
def test_a_hosts_guid_is_its_node_or_its_port_with_or_without_zeros(tmp_path: Path, guid: str) -> None:
    counters, ports, codes = aligned(tmp_path, net=_FULL, errors=f"   GUID {guid} port 1: [SymbolErrorCounter == 3] [PortXmitWait == 12]\n")
    assert set(counters.select("device", "port").rows()) == {("nodea", "mlx5_0/1")}
    assert ports.filter(pl.col("device") == "nodea")["peer_port"].to_list() == ["9", "10"]
    assert "UNMAPPED" not in [code for code in codes if "GUID" in code]


def test_two_cards_of_one_host_stay_two(tmp_path: Path) -> None:
    text = "".join(
        f'Errors for 0x0c42a10300fb53{end} "nodea mlx5_{card}"\n   GUID 0x0c42a10300fb53{end} port 1: [LinkDownedCounter == {card + 1}]\n'
        for card, end in ((0, "dc"), (1, "e0"))
    )
    counters, _, _ = aligned(tmp_path, net=_FULL, errors=text)
    assert counters.select("port", "value").rows() == [("mlx5_0/1", 1.0), ("mlx5_1/1", 2.0)]


def test_a_switch_keeps_its_port_numbers(tmp_path: Path) -> None:
    text = 'Errors for 0xc42a10300a9b026 "MF0;leaf1:MQM8700/U1"\n   GUID 0xc42a10300a9b026 port 9: [SymbolErrorCounter == 3]\n'
    counters, _, _ = aligned(
        tmp_path, net=_FULL, errors=text, ufm="timestamp,node_guid,port_num,SymbolErrorCounter\n1709652347161873,0x0c42a10300a9b026,10,5\n"
    )
    assert set(counters.select("device", "port").rows()) == {("leaf1", "9"), ("leaf1", "10")}


def test_identities_that_nobody_names_are_told(tmp_path: Path) -> None:
    counters, _, codes = aligned(tmp_path, errors="   GUID 0xc42a10300dcf8e2 port 1: [SymbolErrorCounter == 3]\n")
    assert counters["device"].to_list() == ["0xc42a10300dcf8e2"]
    assert "UNMAPPED" in codes
