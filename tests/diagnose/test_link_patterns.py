"""Loss and imbalance that keep to a rule, and those that do not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from netlab.diagnose.link_rhythm import DAY_NS, loss_rhythm, phase_lock
from netlab.diagnose.link_spread import chance_of_spread
from tests.diagnose.test_links import by_code, made

_HOUR = DAY_NS // 24


def polls(days: int, per_hour: int = 6) -> np.ndarray:
    return (np.arange(days * 24 * per_hour, dtype=np.int64) * 2 + 1) * (_HOUR // per_hour // 2) + 20_454 * DAY_NS


def test_loss_at_one_hour_of_every_day_is_systematic() -> None:
    at = polls(5)
    counts = np.where((at % DAY_NS) // _HOUR == 14, 10.0, 0.0)
    (row,) = loss_rhythm(at, counts, _HOUR / 6, None)
    assert (row["systematic"], row["hour_utc"], row["share"]) == ("one time of day", 14, 1.0)


@pytest.mark.parametrize("seed", range(5))
def test_bursts_at_random_hours_are_not(seed: int) -> None:
    at = polls(10)
    counts = np.zeros(len(at))
    starts = np.random.default_rng(seed).integers(0, len(at) - 6, 10)
    for start in starts:
        counts[start : start + 6] = 10.0
    assert loss_rhythm(at, counts, _HOUR / 6, None) == []


def test_one_burst_on_one_day_says_nothing_about_the_hour() -> None:
    at = polls(5)
    assert loss_rhythm(at, np.where((at >= at[50]) & (at < at[56]), 100.0, 0.0), _HOUR / 6, None) == []


def test_loss_in_one_phase_of_the_step_is_systematic() -> None:
    at = np.arange(600, dtype=np.int64) * 10**9 + 5 * 10**8
    (row,) = loss_rhythm(at, np.where(at // 10**9 % 10 == 7, 3.0, 0.0), 1e9, 10e9)
    assert (row["systematic"], row["phase"], row["share"]) == ("one phase of the step", 0.75, 1.0)
    # Polls of a third of the step or longer cannot tell.
    assert loss_rhythm(at, np.where(at // 10**9 % 10 == 7, 3.0, 0.0), 4e9, 10e9) == []


def test_random_loss_keeps_to_no_phase() -> None:
    chance = np.random.default_rng(3)
    at = np.arange(1_000, dtype=np.int64) * 10**9
    sure = sum((phase_lock(at, chance.poisson(0.5, 1_000).astype(float), 20e9, 10, seed) or (1,))[0] <= 0.05 for seed in range(20))
    assert sure <= 4


def test_few_flows_collide_and_many_do_not() -> None:
    assert chance_of_spread(8, 4, 1.5) > 0.5
    assert chance_of_spread(4_000, 4, 1.5) < 0.01


def uplinks(folder: Path, loads: list[tuple[int, int, int, int]]) -> dict[str, object]:
    growth = {("leaf1", f"e{port}", "ifHCOutOctets"): [load[port] * 10**9 for load in loads] for port in range(4)}
    (finding,) = by_code(made(folder, growth, [f"leaf1,e{port},400,up," for port in range(4)]), "ECMP_IMBALANCE")
    return finding.evidence[0] | {"detail": finding.detail}


def test_a_hash_that_always_chooses_alike_is_told_from_collisions(tmp_path: Path) -> None:
    static = uplinks(tmp_path, [(9, 4, 2, 1)] * 12)
    assert static["rank_correlation_of_halves"] == 1.0
    assert "static hash" in str(static["detail"])
    changing = uplinks(tmp_path, [(90, 40, 20, 1)] * 6 + [(1, 2, 4, 9)] * 6)
    assert changing["rank_correlation_of_halves"] == -1.0
    assert "passing collisions" in str(changing["detail"])


def test_one_lossy_link_among_like_ones_is_told_from_loss_of_all(tmp_path: Path) -> None:
    def run(lossy: tuple[int, ...]) -> str:
        growth = {}
        for port in range(5):
            growth["leaf1", f"e{port}", "ifHCOutUcastPkts"] = [10**6] * 3
            growth["leaf1", f"e{port}", "ifOutDiscards"] = [1_000 if port in lossy else 0] * 3
        found = by_code(made(tmp_path, growth, [f"leaf1,e{port},400,up," for port in range(5)]), "PACKET_LOSS")
        return found[0].detail

    assert "it is this link" in run((2,))
    assert "lose alike" in run((0, 1, 2, 3, 4))
