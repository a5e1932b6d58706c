"""The analysis finds in the files of a made run exactly what the simulation did: another road to every figure."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import netlab
from netlab.attribute import breakdown
from netlab.run import Run
from netlab.synth import Truth, write_run

_PARTS = (
    "step_ns",
    "compute_ns",
    "exposed_transfer_ns",
    "exposed_wait_ns",
    "exposed_memory_ns",
    "idle_ns",
    "hidden_transfer_ns",
    "exposed_transfer_inter_node_ns",
    "exposed_transfer_intra_node_ns",
)


def _opened(folder: Path) -> Run:
    """The run as netlab reads it, stored below the folder's parent."""
    return netlab.open(folder, store=folder.parent / "store")


def _truth_frame(truth: Truth) -> pl.DataFrame:
    return pl.DataFrame([{name: getattr(row, name) for name in ("rank", "step", *_PARTS)} for row in truth.breakdown])


@pytest.mark.parametrize("plant", ["none", "straggler", "slow-pair", "slow-fabric", "no-overlap"])
def test_breakdown_is_recovered_to_the_nanosecond(tmp_path: Path, plant: str) -> None:
    truth = write_run(tmp_path / "run", plant=plant, ranks=4, steps=3, seed=11, end_jitter_ns=0)
    run = _opened(tmp_path / "run")
    found = breakdown(run.frame("activities"), run.frame("steps")).select("rank", "step", *_PARTS).sort("rank", "step")
    expected = _truth_frame(truth).sort("rank", "step")
    assert found.cast(pl.Int64).to_dicts() == expected.cast(pl.Int64).to_dicts()


def test_clock_offsets_are_recovered(tmp_path: Path) -> None:
    truth = write_run(tmp_path / "run", ranks=4, steps=3, seed=12)
    run = _opened(tmp_path / "run")
    offsets = {row["host"]: row["offset_ns"] for row in run.frame("clocks").iter_rows(named=True)}
    for host, offset in truth.clock_offsets_ns.items():
        assert offsets[host] == pytest.approx(offset, abs=1_000)


def test_instances_have_the_planted_waits_and_transfers(tmp_path: Path) -> None:
    truth = write_run(tmp_path / "run", plant="straggler", ranks=4, steps=2, seed=13, end_jitter_ns=0)
    frame = _opened(tmp_path / "run").frame("collectives")
    found = {(row["group"], row["seq"], row["rank"]): (row["wait_ns"], row["transfer_ns"]) for row in frame.iter_rows(named=True)}
    for instance in truth.collectives:
        for rank, wait in zip(instance.group.split(","), instance.waits_ns, strict=True):
            assert found[instance.group, instance.seq, int(rank)] == (wait, instance.transfer_ns)
    assert len(found) == sum(len(instance.waits_ns) for instance in truth.collectives)
