"""The whole road from files to verdict, on made runs whose truth is known and on real ones."""

from __future__ import annotations

from pathlib import Path

import pytest

import netlab
from netlab.synth import write_run


def verdict_of(folder: Path, plant: str, **options: int) -> netlab.Verdict:
    write_run(folder, plant=plant, **{"ranks": 8, "steps": 6, "seed": 7, **options})
    return netlab.check(netlab.open(folder))


def test_a_healthy_run_passes_without_a_finding_of_weight(tmp_path: Path) -> None:
    verdict = verdict_of(tmp_path, "none")
    assert (verdict.status, verdict.cause, verdict.split) == ("pass", "none", "measured")
    assert [finding for finding in verdict.findings if finding.severity != "info"] == []


@pytest.mark.parametrize(("plant", "status", "cause"), [("straggler", "warn", "straggler"), ("slow-fabric", "flagged", "fabric")])
def test_a_planted_fault_is_the_cause(tmp_path: Path, plant: str, status: str, cause: str) -> None:
    verdict = verdict_of(tmp_path, plant)
    assert (verdict.status, verdict.cause) == (status, cause)


def test_dlrm_waits_for_rank_seven_and_is_not_flagged(shared_data: Path) -> None:
    verdict = netlab.check(netlab.open(shared_data / "traces/param_dlrm_v100_8rank"))
    assert verdict.headline.startswith("Mostly waiting for rank 7")
    assert not verdict.flagged
    assert sum(row.transfer_ms or 0 for row in verdict.instances) == pytest.approx(0.225, abs=0.01)
    assert {row.rank: row.last_count for row in verdict.stragglers if row.last_count} == {7: 5, 5: 2, 4: 1}
    for row in verdict.span:
        assert 0.14 <= (row.comm_share or 0) <= 0.60


def test_every_verdict_reads_back_from_its_json(tmp_path: Path) -> None:
    verdict = verdict_of(tmp_path, "none", ranks=2, steps=2)
    assert netlab.Verdict.from_json(verdict.json()) == verdict
