"""The picture of the fabric: its cables, what is drawn as one, and what it says first."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from netlab.figures import fabric_frame, fabric_picture
from netlab.schema.counters import LINKS, PORTS


def ports(cables: list[tuple[str, str, str, str]], hosts: set[str]) -> pl.DataFrame:
    rows = []
    for a, port, b, other in cables:
        for device, own, peer, theirs in ((a, port, b, other), (b, other, a, port)):
            role = "hca" if device in hosts else None
            rows.append({"device": device, "port": own, "peer_device": peer, "peer_port": theirs, "role": role})
    return PORTS.conform(pl.DataFrame(rows))


def links(*rows: dict[str, Any]) -> pl.DataFrame:
    whole = {"direction": "tx", "window": "samples", "window_start_ns": 0, "window_end_ns": 1, "localised": "no"}
    return LINKS.conform(pl.DataFrame([{**whole, **row} for row in rows], infer_schema_length=None)) if rows else LINKS.empty()


TWO_LEAVES = [("h0", "n", "leaf0", "1"), ("h1", "n", "leaf1", "1"), ("leaf0", "u", "spine", "1"), ("leaf1", "u", "spine", "2")]
HOSTS = {"h0", "h1"}


def test_every_cable_once_with_the_highest_use_of_its_ends() -> None:
    known = links(
        {"device": "h0", "port": "n", "utilization_mean": 0.2},
        {"device": "leaf0", "port": "1", "utilization_mean": 0.5, "utilization_peak": 0.9},
    )
    frame = fabric_frame(ports(TWO_LEAVES, HOSTS), known)
    assert sorted(frame.select("lower", "upper").rows()) == [("h0", "leaf0"), ("h1", "leaf1"), ("leaf0", "spine"), ("leaf1", "spine")]
    assert frame.filter(pl.col("lower") == "h0").select("use", "peak", "cables").row(0) == (0.5, 0.9, 1)
    assert frame.filter(pl.col("lower") == "h1")["use"].to_list() == [None]


def test_what_speaks_against_a_port_comes_first_and_into_the_title() -> None:
    bad = links({"device": "leaf1", "port": "u", "utilization_mean": 0.1, "loss_ratio": 0.02, "localised": "localised"})
    frame = fabric_frame(ports(TWO_LEAVES, HOSTS), bad)
    assert frame.row(0, named=True)["state"] == "localised"
    title = fabric_picture(frame).to_dict()["title"]["text"]
    assert title == "leaf1 – spine is the link that slow steps follow: leaf1/u loses 2 %"


def test_a_healthy_fabric_names_its_fullest_link() -> None:
    frame = fabric_frame(ports(TWO_LEAVES, HOSTS), links({"device": "h1", "port": "n", "utilization_mean": 0.75}))
    assert "fullest is h1 – leaf1, 75.0 %" in fabric_picture(frame).to_dict()["title"]["text"]


def test_without_counters_the_cables_are_drawn_all_the_same() -> None:
    frame = fabric_frame(ports(TWO_LEAVES, HOSTS), links())
    assert frame["use"].null_count() == frame.height == 4
    assert "not known" in fabric_picture(frame).to_dict()["title"]["text"]


def test_no_cable_gives_no_row() -> None:
    assert fabric_frame(PORTS.empty(), links()).height == 0


def test_a_thousand_nics_on_rails_become_one_block_for_each_pod() -> None:
    hosts = [f"h{number:03d}" for number in range(128)]
    cables = [(host, f"mlx5_{rail}", f"pod{place // 64}-rail{rail}", host) for place, host in enumerate(hosts) for rail in range(8)]
    frame = fabric_frame(ports(cables, set(hosts)), links())
    assert frame.height == 2 * 8
    assert set(frame["lower"]) == {"h000 to h063 (64)", "h064 to h127 (64)"}
    assert frame["cables"].sum() == 128 * 8


@pytest.mark.parametrize("cables", [TWO_LEAVES, [("h0", "n", "h1", "n")]])
def test_the_picture_is_a_valid_chart_with_a_text_for_screen_readers(cables: list[tuple[str, str, str, str]]) -> None:
    frame = fabric_frame(ports(cables, HOSTS), links())
    if frame.height:
        assert "connection" in fabric_picture(frame).to_dict()["description"]


def _pods(*, count: int, hosts: int, leaves: int, spines: int) -> tuple[list[tuple[str, str, str, str]], set[str]]:
    """Pods whose hosts reach all leaves of their pod, and leaves that reach all spines."""
    names = [(pod, f"n{pod * hosts + number:03d}") for pod in range(count) for number in range(hosts)]
    cables = [(host, f"mlx5_{leaf}", f"p{pod}l{leaf}", host) for pod, host in names for leaf in range(leaves)]
    cables += [(f"p{p}l{n}", f"u{s}", f"spine{s}", f"p{p}l{n}") for p in range(count) for n in range(leaves) for s in range(spines)]
    return cables, {host for _, host in names}


def test_large_fabrics_are_drawn_as_pods_whose_leaves_stay_apart() -> None:
    frame = fabric_frame(ports(*_pods(count=8, hosts=16, leaves=4, spines=8)), links())
    assert set(frame.filter(pl.col("lower_tier") == 0)["lower"]) == {f"n{16 * p:03d} to n{16 * p + 15:03d} (16)" for p in range(8)}
    assert set(frame.filter(pl.col("lower_tier") == 1)["upper"]) == {"spine0 to spine7 (8)"}
    assert frame.height == 16


def test_no_block_hides_the_ends_of_an_accused_link() -> None:
    cables, hosts = _pods(count=8, hosts=16, leaves=4, spines=8)
    bad = links({"device": "p2l1", "port": "n037", "localised": "localised", "loss_ratio": 0.02})
    frame = fabric_frame(ports(cables, hosts), bad)
    assert frame.select("lower", "upper", "cables", "state").row(0) == ("n037", "p2l1", 1, "localised")
