"""A made run is in the real format, its truth adds up, and the same seed gives the same bytes."""

from __future__ import annotations

import gzip
import hashlib
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from netlab.errors import ConfigError
from netlab.synth import PLANTS, simulate, spec_for, truth_of, write_run


def _digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.rglob("*")) if path.is_file()}


def _trace(folder: Path, rank: int) -> dict[str, Any]:
    with gzip.open(folder / f"rank{rank}.pt.trace.json.gz") as stream:
        loaded: dict[str, Any] = json.load(stream)
    return loaded


@pytest.fixture(scope="module")
def straggler(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("straggler")
    write_run(folder, plant="straggler", ranks=4, steps=2, seed=5)
    return folder


def test_same_seed_gives_same_bytes(straggler: Path, tmp_path: Path) -> None:
    write_run(tmp_path, plant="straggler", ranks=4, steps=2, seed=5)
    assert _digests(tmp_path) == _digests(straggler)


def test_another_seed_gives_other_bytes(straggler: Path, tmp_path: Path) -> None:
    write_run(tmp_path, plant="straggler", ranks=4, steps=2, seed=6)
    assert _digests(tmp_path)["rank0.pt.trace.json.gz"] != _digests(straggler)["rank0.pt.trace.json.gz"]


def test_default_run_is_below_one_megabyte(tmp_path: Path) -> None:
    write_run(tmp_path)
    assert sum(path.stat().st_size for path in tmp_path.glob("*.gz")) < 1_000_000


@pytest.mark.parametrize("plant", PLANTS)
def test_truth_adds_up(plant: str) -> None:
    truth = truth_of(simulate(spec_for(plant, ranks=4, steps=2)), what_if=False)
    for row in truth.breakdown:
        assert row.step_ns == row.compute_ns + row.exposed_transfer_ns + row.exposed_wait_ns + row.exposed_memory_ns + row.idle_ns
        assert row.exposed_transfer_ns == row.exposed_transfer_inter_node_ns + row.exposed_transfer_intra_node_ns
    assert truth.comm_share == pytest.approx(truth.network_share + truth.wait_share)


def test_every_launch_has_its_kernel_and_flow(straggler: Path) -> None:
    events = _trace(straggler, 1)["traceEvents"]
    kernels = {event["args"]["correlation"]: event for event in events if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")}
    launches = {
        event["args"]["correlation"]: event
        for event in events
        if event.get("cat") == "cuda_runtime" and event["name"].startswith(("cudaLaunch", "cudaMem"))
    }
    assert kernels.keys() == launches.keys()
    assert all(kernel["ts"] >= launches[number]["ts"] + launches[number]["dur"] for number, kernel in kernels.items())
    assert {event["id"] for event in events if event.get("cat") == "ac2g" and event["ph"] == "s"} == kernels.keys()


def test_streams_run_in_order(straggler: Path) -> None:
    events = _trace(straggler, 0)["traceEvents"]
    device = [event for event in events if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    for stream in {event["tid"] for event in device}:
        ordered = [event for event in device if event["tid"] == stream]
        assert all(before["ts"] + before["dur"] <= after["ts"] for before, after in pairwise(ordered))


def test_waits_name_the_record_they_wait_for(straggler: Path) -> None:
    events = _trace(straggler, 0)["traceEvents"]
    records = {event["args"]["correlation"] for event in events if event["name"] == "cudaEventRecord"}
    waits = [event for event in events if event["name"] == "Stream Wait Event"]
    assert waits
    assert {event["args"]["wait_on_cuda_event_record_corr_id"] for event in waits} <= records


def test_sequence_numbers_are_equal_on_all_members(straggler: Path) -> None:
    seen: dict[tuple[str, int], set[int]] = {}
    for rank in range(4):
        for event in _trace(straggler, rank)["traceEvents"]:
            if event.get("cat") == "kernel" and "Seq" in event["args"]:
                args = event["args"]
                key = (args["Process Group Name"], args["Seq"])
                seen.setdefault(key, set()).add(args["In msg nelems"])
    assert all(len(sizes) == 1 for sizes in seen.values())


def test_a_smaller_run_leaves_nothing_of_a_larger_one(tmp_path: Path) -> None:
    write_run(tmp_path, plant="none", ranks=6, steps=1, layers=1, counters=True)
    (tmp_path / "mine.txt").write_text("kept")
    write_run(tmp_path, plant="none", ranks=2, steps=1, layers=1)
    assert len(list(tmp_path.glob("rank*.gz"))) == len(list(tmp_path.glob("nccl/*.log"))) == 2
    assert not list(tmp_path.glob("counters/*"))
    assert (tmp_path / "mine.txt").read_text() == "kept"


def test_somebodys_recording_is_never_written_over(tmp_path: Path) -> None:
    trace = tmp_path / "rank0.pt.trace.json.gz"
    trace.write_bytes(b"mine")
    with pytest.raises(ConfigError, match=r"rank0\.pt\.trace\.json\.gz, which synth did not make"):
        write_run(tmp_path, ranks=2, steps=1)
    assert trace.read_bytes() == b"mine"


def test_a_second_run_removes_what_the_first_listed_and_nothing_else(tmp_path: Path) -> None:
    truth = write_run(tmp_path, plant="lossy-link", ranks=4, steps=1)
    assert sorted([*truth.files, "truth.json"]) == sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.*"))
    (tmp_path / "rank9.pt.trace.json.gz").write_bytes(b"mine")
    (tmp_path / "counters" / "mine.csv.gz").write_bytes(b"mine")
    second = write_run(tmp_path, ranks=2, steps=1)
    assert (tmp_path / "rank9.pt.trace.json.gz").read_bytes() == (tmp_path / "counters" / "mine.csv.gz").read_bytes() == b"mine"
    names = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.*")}
    assert names == {*second.files, "truth.json", "rank9.pt.trace.json.gz", "counters/mine.csv.gz"}


@pytest.mark.parametrize("name", ["rank2.pt.trace.json.gz", "nccl/nccl.node0.1.log"])
def test_a_recording_beside_a_made_run_is_never_written_over(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("netlab.synth.write.log_name", lambda *_: "nccl.node0.1.log" if name.startswith("nccl") else "nccl.node0.2.log")
    write_run(tmp_path, ranks=2, steps=1)
    (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / name).symlink_to(tmp_path / "elsewhere")
    before = {path.name for path in tmp_path.rglob("*")}
    with pytest.raises(ConfigError, match=f"{name}, which synth did not make"):
        write_run(tmp_path, ranks=4, steps=1)
    assert {path.name for path in tmp_path.rglob("*")} == before


def test_a_truth_cannot_list_files_outside_its_folder(tmp_path: Path) -> None:
    write_run(tmp_path / "a", ranks=2, steps=1)
    other = tmp_path / "rank0.pt.trace.json.gz"
    other.write_bytes(b"mine")
    truth = json.loads((tmp_path / "a" / "truth.json").read_text("utf-8"))
    truth["files"] += ["../rank0.pt.trace.json.gz", str(other)]
    (tmp_path / "a" / "truth.json").write_text(json.dumps(truth), "utf-8")
    write_run(tmp_path / "a", ranks=2, steps=1)
    assert other.read_bytes() == b"mine"


def test_unknown_plant_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'straggler'"):
        write_run(tmp_path, plant="stragler")


def test_one_rank_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="at least 2"):
        write_run(tmp_path, ranks=1)


@pytest.mark.parametrize("ranks", [2, 3, 4, 6, 12, 16, 64])
def test_any_number_of_ranks_makes_two_hosts_or_more(ranks: int) -> None:
    spec = spec_for("none", ranks=ranks, steps=1)
    assert spec.nodes >= 2
    assert sorted(rank for group in spec.groups_of("dp") for rank in group.ranks) == list(range(ranks))
