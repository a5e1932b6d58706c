"""The shipped samples are what data/README.md says they are."""

from __future__ import annotations

import gzip
import runpy
from pathlib import Path

import pytest

import netlab
from netlab.synth import write_run

DATA = Path(__file__).resolve().parents[2] / "data"


def test_made_sample_is_what_its_script_makes(tmp_path: Path) -> None:
    script = runpy.run_path(str(DATA / "make_gpu_16rank.py"))
    write_run(tmp_path, plant="slow-fabric", ranks=16, steps=4, seed=7, **script["SIZES"])
    made = {path.relative_to(tmp_path): path for path in tmp_path.rglob("*") if path.is_file()}
    shipped = {path.relative_to(DATA / "gpu-16rank"): path for path in (DATA / "gpu-16rank").rglob("*") if path.is_file()}
    assert made.keys() == shipped.keys()
    for name in (Path("truth.json"), Path("nccl") / "nccl.node1.4170.log"):
        assert made[name].read_bytes() == shipped[name].read_bytes()
    for rank in (0, 15):
        name = Path(f"rank{rank}.pt.trace.json.gz")
        # zlib builds pack differently; the content is the same.
        assert gzip.decompress(made[name].read_bytes()) == gzip.decompress(shipped[name].read_bytes())


@pytest.mark.parametrize("sample", ["ddp-gloo-4rank", "gpu-16rank"])
def test_samples_are_below_one_megabyte(sample: str) -> None:
    assert sum(path.stat().st_size for path in (DATA / sample).rglob("*") if path.is_file()) < 1_000_000


def test_real_sample_is_a_complete_gloo_run(tmp_path: Path) -> None:
    run = netlab.open(DATA / "ddp-gloo-4rank", store=tmp_path)
    assert run.facts.ranks == [0, 1, 2, 3]
    assert run.facts.hosts == {f"node{rank}": [rank] for rank in range(4)}
    assert run.facts.backend == "cpu"
    assert len(run.facts.steps) == 8
    # Three buckets a step, four members each.
    assert run.frame("collectives").height == 8 * 3 * 4


def test_real_sample_names_no_path_of_the_machine_that_recorded_it() -> None:
    for path in (DATA / "ddp-gloo-4rank").rglob("*.gz"):
        content = gzip.decompress(path.read_bytes())
        assert b"/home/" not in content
        assert b"/tmp/" not in content
