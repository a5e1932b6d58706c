"""Planted regressions are named first; noise is no regression."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from netlab.config import load_settings
from netlab.pipeline.analysis import analyse
from netlab.postmortem import Side, compare
from netlab.synth import write_run
from netlab.verdict.model import Verdict


def side(folder: Path, plant: str, seed: int, steps: int = 6) -> Side:
    write_run(folder, plant=plant, ranks=8, steps=steps, seed=seed)
    analysis = analyse([folder], load_settings())
    return Side(analysis.run, analysis.verdict)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Side:
    return side(tmp_path_factory.mktemp("base"), "none", 3)


@pytest.mark.parametrize(
    ("plant", "cause", "code"),
    [
        ("straggler", "straggler", "RANK_SLOWER"),
        ("slow-fabric", "fabric", "TRANSFER_SLOWER"),
        ("small-buckets", "schedule", "BUCKETS_CHANGED"),
        ("no-overlap", "schedule", "OVERLAP_LOST"),
        ("socket-fallback", "fabric", "TRANSPORT_CHANGED"),
        ("old-nccl", "fabric", "NCCL_VERSION_CHANGED"),
    ],
)
def test_a_planted_regression_is_named_first(base: Side, tmp_path: Path, plant: str, cause: str, code: str) -> None:
    verdict = compare(base, side(tmp_path, plant, 4))
    assert verdict.compare is not None
    assert verdict.compare.significant
    assert (verdict.compare.cause, verdict.findings[0].code) == (cause, code)


def test_a_lossy_link_is_named_with_its_port(tmp_path: Path) -> None:
    base = side(tmp_path / "base", "none", 3, 80)
    write_run(tmp_path / "slow", plant="lossy-link", ranks=8, seed=4)
    truth = json.loads((tmp_path / "slow" / "truth.json").read_text("utf-8"))
    analysis = analyse([tmp_path / "slow"], load_settings([tmp_path / "slow"]))
    verdict = compare(base, Side(analysis.run, analysis.verdict))
    assert verdict.compare is not None
    assert (verdict.compare.cause, verdict.findings[0].code) == ("fabric", "LINK_ERRORS")
    assert verdict.compare.subject["ports"] == truth["subject"]["ports"]
    # Only some steps are slow: there is no step since which all are.
    assert verdict.compare.since_step is None


def test_runs_that_differ_by_their_seed_alone_are_no_regression(base: Side, tmp_path: Path) -> None:
    verdicts: list[Verdict] = [compare(base, side(tmp_path / str(seed), "none", seed)) for seed in (11, 12, 13)]
    assert [v.compare.significant for v in verdicts if v.compare is not None] == [False, False, False]
    assert all(verdict.headline.startswith("No difference") for verdict in verdicts)


def test_slower_transfer_takes_over_what_the_slow_run_says_to_do(base: Side, tmp_path: Path) -> None:
    slow = side(tmp_path, "slow-fabric", 4)
    first = compare(base, slow).findings[0]
    own = next(row.action for row in slow.verdict.findings if row.code == "NETWORK_SHARE")
    assert first.action == f"Compare links, transport and placement with the base. {own}"
    assert first.subject.steps == [], "slow from its start: no step is the first slow one"
