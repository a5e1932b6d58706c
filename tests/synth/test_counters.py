"""Counters of a made run agree with its traffic and show the planted link, and no other."""

from __future__ import annotations

import io

import polars as pl
import pytest

from netlab.synth import expectation, simulate, spec_for
from netlab.synth.counters import counter_csv, device_clocks_ns
from netlab.synth.fabric import cables, ports, stalled_port
from netlab.synth.spec import Spec


def _growth(spec: Spec) -> pl.DataFrame:
    """Growth of every counter over the whole run: device, port, counter, delta."""
    frames = [pl.read_csv(io.StringIO(text)) for text in counter_csv(simulate(spec), 0).values()]
    parts = [frame.group_by("device", "port", "counter").agg(delta=pl.col("value").last() - pl.col("value").first()) for frame in frames]
    return pl.concat(parts)


def _delta(growth: pl.DataFrame, device: str, port: str, counter: str) -> int:
    return int(growth.filter(device=device, port=port, counter=counter)["delta"].item())


@pytest.fixture(scope="module")
def lossy() -> tuple[Spec, pl.DataFrame]:
    spec = spec_for("lossy-link", steps=12, seed=4)
    return spec, _growth(spec)


def test_nic_bytes_are_those_of_the_ring() -> None:
    spec = spec_for("none", steps=3)
    growth = _growth(spec)
    # Ring of two hosts: each NIC sends the gradients once; 4,158 bytes on the wire for 4,096.
    expected = spec.steps * spec.layers * spec.layer_gradient_bytes * 4_158 / 4_096
    assert _delta(growth, "node0", "mlx5_0", "tx_bytes_phy") == pytest.approx(expected, rel=1e-3)


def test_both_ends_of_a_cable_count_the_same_bytes() -> None:
    spec = spec_for("none", steps=3)
    growth = _growth(spec)
    for rank in range(spec.ranks):
        host, local = spec.hosts[spec.node_of(rank)], spec.local_rank(rank)
        sent = _delta(growth, host, f"mlx5_{local}", "tx_bytes_phy")
        assert _delta(growth, f"leaf{spec.node_of(rank)}", f"Ethernet{local}", "SAI_PORT_STAT_IF_IN_OCTETS") == pytest.approx(
            sent, rel=1e-3
        )


def test_uplinks_carry_what_host_ports_carry() -> None:
    growth = _growth(spec_for("oversubscribed", steps=3)).filter(
        pl.col("counter") == "SAI_PORT_STAT_IF_OUT_OCTETS", pl.col("device") == "leaf0"
    )
    number = pl.col("port").str.strip_prefix("Ethernet").cast(pl.Int64)
    hosts = int(growth.filter(number < 16)["delta"].sum())
    assert int(growth.filter(number >= 32)["delta"].sum()) == pytest.approx(hosts, rel=1e-3)


def test_only_the_stalled_port_counts_errors(lossy: tuple[Spec, pl.DataFrame]) -> None:
    spec, growth = lossy
    errors = growth.filter(pl.col("counter") == "SAI_PORT_STAT_IF_IN_ERRORS", pl.col("delta") > 0)
    assert [f"{row['device']}/{row['port']}" for row in errors.iter_rows(named=True)] == [stalled_port(spec)]


def test_healthy_run_counts_no_error_pause_or_mark() -> None:
    growth = _growth(spec_for("none", steps=3))
    silent = growth.filter(pl.col("counter").str.contains("ERRORS|DISCARDS|FEC|PFC|ECN|seq_err|discards|cnp|pause"))
    assert silent["delta"].sum() == 0


def test_saturated_uplinks_mark_packets() -> None:
    spec = spec_for("oversubscribed", steps=3)
    marked = _growth(spec).filter(pl.col("counter") == "SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS", pl.col("delta") > 0)
    assert {f"{row['device']}/{row['port']}" for row in marked.iter_rows(named=True)} == {
        port.key for port in ports(spec) if port.role == "up"
    }


def test_a_slow_receiver_pauses_its_switch_and_nobody_counts_errors() -> None:
    spec = spec_for("slow-receiver", steps=12, seed=4)
    growth = _growth(spec)
    paused = growth.filter(pl.col("counter") == "SAI_PORT_STAT_PFC_3_RX_PKTS", pl.col("delta") > 0)
    assert [f"{row['device']}/{row['port']}" for row in paused.iter_rows(named=True)] == [stalled_port(spec)]
    stopping = growth.filter(pl.col("counter") == "tx_prio3_pause", pl.col("delta") > 0)
    assert [f"{row['device']}/{row['port']}" for row in stopping.iter_rows(named=True)] == list(expectation(spec).ports)
    assert growth.filter(pl.col("counter").str.contains("ERRORS"))["delta"].sum() == 0


def test_a_noisy_port_is_on_no_path_of_the_job() -> None:
    spec = spec_for("straggler", steps=3, noisy_port=True)
    errors = _growth(spec).filter(pl.col("counter") == "SAI_PORT_STAT_IF_IN_ERRORS", pl.col("delta") > 0)
    keys = [f"{row['device']}/{row['port']}" for row in errors.iter_rows(named=True)]
    assert len(keys) == 1
    assert not {port.key for port in ports(spec) if port.ranks} & set(keys)


def test_counters_never_go_back(lossy: tuple[Spec, pl.DataFrame]) -> None:
    assert lossy[1]["delta"].min() == 0


def test_every_device_of_the_job_has_a_clock() -> None:
    spec = spec_for("lossy-link", ranks=16)
    assert {"leaf0", "leaf1", "spine0", "spine1", "node0", "node1"} == set(device_clocks_ns(spec))


def test_every_port_has_one_cable() -> None:
    keys = [port.key for cable in cables(spec_for("none", ranks=32)) for port in (cable.a, cable.b)]
    assert len(keys) == len(set(keys))
