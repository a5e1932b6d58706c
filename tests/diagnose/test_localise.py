"""Which link slowed the job: the planted one is named, and nobody where nothing or too little is planted."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from netlab.diagnose.link_statistics import effective_size, max_null_test, outcome_residual, peer_residuals, ranked
from netlab.diagnose.links import link_findings
from netlab.diagnose.localise import Localisation, localise, mark_links
from netlab.run import Run, RunFacts
from netlab.schema.counters import LINK_INTERVALS, LINKS, PORTS
from netlab.schema.timeline import ACTIVITIES, COLLECTIVES, RANKS, STEPS

MS = 1_000_000
STEP, CELLS = 100 * MS, 120
Ints = np.ndarray


def job(slow: Ints, errors: dict[int, Ints], *, metric: str = "errors", cabled: bool = True, clock_ms: int = 0, ports: int = 8) -> Run:
    """Steps of 100 ms on as many ranks as ports; a slow one communicates 40 ms instead of 10. ``errors``: per port, events of each step."""
    starts = np.arange(len(slow)) * STEP
    exposed = np.where(slow, 40, 10) * MS
    parts = []
    for rank in range(ports):
        base = {"rank": rank, "window": 0, "device": 0, "stream": 1, "name": "k"}
        compute = pl.DataFrame({"start_ns": starts, "end_ns": starts + STEP - exposed}).with_columns(pl.lit("compute").alias("kind"))
        comm = pl.DataFrame({"start_ns": starts + STEP - exposed, "end_ns": starts + STEP}).with_columns(
            pl.lit("communication").alias("kind"),
            pl.lit("inter_node").alias("layer"),
            pl.lit(10**8).alias("bytes"),
            pl.lit("measured").alias("split"),
        )
        for frame in (compute, comm):
            parts.append(ACTIVITIES.conform(frame.with_columns(pl.lit(value).alias(name) for name, value in base.items()), activity=0))
    activities = pl.concat(parts).sort(ACTIVITIES.key).with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias("activity"))
    steps = pl.concat(
        [
            STEPS.conform(
                pl.DataFrame(
                    {
                        "step": np.arange(len(slow)),
                        "start_ns": starts,
                        "end_ns": starts + STEP,
                        "mark_start_ns": starts,
                        "mark_end_ns": starts + STEP,
                    }
                ),
                rank=rank,
                window=0,
                complete=True,
            )
            for rank in range(ports)
        ]
    )
    rows = []
    polls = np.arange(len(slow) * 2) * (STEP // 2)
    for port in range(ports):
        sent = np.repeat(10**8 // 2, len(polls)) + np.where(np.arange(len(polls)) % 2 == 1, 10**8 // 2, -(10**8) // 2)
        per_step = errors.get(port, np.zeros(len(slow), np.int64))
        halves = np.stack([np.zeros_like(per_step), per_step], axis=1).ravel()
        for name, direction, growth in (("bytes", "tx", sent), (metric, "rx", halves)):
            frame = pl.DataFrame({"t0_ns": polls + clock_ms * MS, "t1_ns": polls + STEP // 2 + clock_ms * MS, "delta": growth})
            rows.append(LINK_INTERVALS.conform(frame, device="leaf", port=f"e{port}", direction=direction, metric=name, flags=""))
    intervals = pl.concat(rows).sort(LINK_INTERVALS.key)
    peer = (
        {"peer_device": [f"h{n}" for n in range(ports)], "peer_port": ["mlx5_0"] * ports, "host": [f"h{n}" for n in range(ports)]}
        if cabled
        else {}
    )
    own = pl.DataFrame({"device": ["leaf"] * ports, "port": [f"e{n}" for n in range(ports)], "ranks": [[n] for n in range(ports)], **peer})
    table = PORTS.conform(own, role="host", speed_gbps=100.0)
    links = LINKS.conform(
        own.select("device", "port"),
        direction="rx",
        window="run",
        window_start_ns=0,
        window_end_ns=len(slow) * STEP,
        localised="no",
        role="host",
    )
    ranks = RANKS.conform(pl.DataFrame({"rank": range(ports), "host": [f"h{n}" for n in range(ports)]}))
    frames = {"activities": activities, "steps": steps, "link_intervals": intervals, "ports": table, "links": links, "ranks": ranks}
    return Run.from_frames({**frames, "collectives": COLLECTIVES.empty()}, RunFacts(name="made"))


def slow_steps(seed: int = 1) -> Ints:
    return np.random.default_rng(seed).random(CELLS) < 0.25


def test_the_link_whose_errors_come_with_the_slow_steps_is_localised() -> None:
    slow = slow_steps()
    run = job(slow, {3: slow * 50})
    result = localise(run)
    assert (result.state, [v.port for v in result.verdicts]) == ("localised", ["e3"])
    verdict = result.verdicts[0]
    assert verdict.p_value <= 0.01
    assert verdict.excess_ms == pytest.approx(30 * slow.mean(), rel=0.05)
    assert verdict.excess_low_ms <= verdict.excess_ms <= verdict.excess_high_ms
    assert set(verdict.steps) == set(np.flatnonzero(slow).tolist())


def test_its_finding_names_port_steps_time_and_cause() -> None:
    slow = slow_steps()
    (found,) = [finding for finding in link_findings(job(slow, {3: slow * 50})) if finding.code == "LINK_ERRORS"]
    assert (found.subject.ports, found.cause) == (["leaf/e3"], "fabric")
    assert found.subject.steps == np.flatnonzero(slow).tolist()
    assert found.time_lost_ms == pytest.approx(30 * slow.mean(), rel=0.05)


def test_only_the_accused_port_is_marked() -> None:
    slow = slow_steps()
    run = job(slow, {3: slow * 50})
    marked = mark_links(run.frame("links"), localise(run))
    assert dict(marked.select("port", "localised").iter_rows()) == {f"e{n}": "localised" if n == 3 else "no" for n in range(8)}


def test_a_counter_that_rises_all_the_time_accuses_nobody() -> None:
    result = localise(job(slow_steps(), {3: np.full(CELLS, 50)}))
    assert result.state == "no evidence"
    assert result.verdicts == ()


@pytest.mark.parametrize("seed", range(5))
def test_unrelated_errors_accuse_nobody(seed: int) -> None:
    noise = np.random.default_rng([seed, 9]).poisson(1.0, (8, CELLS))
    assert localise(job(slow_steps(seed), dict(enumerate(noise)))).state in ("no evidence", "associated")


def test_what_moves_all_links_accuses_none_of_them() -> None:
    slow = slow_steps()
    chance = np.random.default_rng(4)
    everywhere = {port: chance.poisson(np.where(slow, 20, 2)) for port in range(8)}
    assert localise(job(slow, everywhere)).state != "localised"


def test_signs_of_congestion_are_associated_at_most() -> None:
    slow = slow_steps()
    result = localise(job(slow, {3: slow * 50}, metric="discards"))
    assert result.state == "associated"
    assert any("congestion" in reason for reason in result.verdicts[0].reasons)


def test_without_cabling_a_link_is_associated_at_most() -> None:
    slow = slow_steps()
    result = localise(job(slow, {3: slow * 50}, cabled=False))
    assert result.state == "associated"
    assert any("cabling" in reason for reason in result.verdicts[0].reasons)


def test_too_few_peers_are_associated_at_most() -> None:
    slow = slow_steps()
    assert localise(job(slow, {1: slow * 50}, ports=4)).state == "associated"


def test_a_clock_that_is_ahead_is_found_by_the_bytes() -> None:
    slow = slow_steps()
    result = localise(job(slow, {3: slow * 50}, clock_ms=20))
    clock = dict(result.clocks)["leaf"]
    assert clock.low_ns <= 20 * MS + 5 * MS
    assert clock.high_ns >= 20 * MS - 5 * MS
    assert result.state == "localised"


def _waiting(run: Run, late: dict[int, Ints]) -> Run:
    """The run with one all-reduce a step in which all ranks wait 20 ms for the late ones; these wait as given (ns by step)."""
    parts = []
    for rank in range(8):
        wait = late.get(rank, np.full(CELLS, 20 * MS))
        start = np.arange(CELLS) * STEP + 20 * MS - wait
        frame = pl.DataFrame({"instance": np.arange(CELLS), "start_ns": start, "end_ns": start + wait + 10 * MS, "wait_ns": wait})
        fill = {"rank": rank, "activity": 0, "window": 0, "transfer_ns": 10 * MS, "split": "measured", "layer": "inter_node"}
        fill |= {"group": "0,1,2,3,4,5,6,7", "op": "all_reduce", "members": 8, "seen": 8}
        parts.append(COLLECTIVES.conform(frame, **fill))
    frames = {name: run.frame(name) for name in ("activities", "steps", "link_intervals", "ports", "links", "ranks")}
    return Run.from_frames({**frames, "collectives": pl.concat(parts).sort(COLLECTIVES.key)}, RunFacts(name="made"))


def test_both_ends_of_a_stalled_transfer_are_late_whichever_comes_last() -> None:
    # Rank 5 comes last four times in five, by a millisecond.
    often = np.arange(CELLS) % 5 > 0
    slow = slow_steps()
    run = _waiting(job(slow, {3: slow * 50}), {3: np.where(often, MS, 0), 5: np.where(often, 0, MS)})
    assert [(verdict.port, verdict.state) for verdict in localise(run).verdicts] == [("e3", "localised")]


def test_a_link_is_not_localised_where_all_waited_for_a_rank_elsewhere() -> None:
    slow = slow_steps()
    result = localise(_waiting(job(slow, {3: slow * 50}), {6: np.zeros(CELLS, np.int64)}))
    assert [(verdict.port, verdict.state) for verdict in result.verdicts] == [("e3", "associated")]
    assert any("waited for rank 6" in reason for reason in result.verdicts[0].reasons)


def test_few_cells_cannot_tell() -> None:
    slow = slow_steps()[:30]
    result = localise(job(slow, {3: slow * 50}))
    assert (result.state, result.verdicts) == ("cannot tell", ())
    assert "30 cells" in result.reason


def test_without_slow_steps_there_is_nothing_to_explain() -> None:
    result = localise(job(np.zeros(CELLS, bool), {3: np.full(CELLS, 5)}))
    assert result.state == "cannot tell"


def test_errors_that_begin_when_steps_become_slow_for_good_are_associated() -> None:
    slow = np.arange(CELLS) >= 70
    result = localise(job(slow, {3: slow * 50}))
    assert (result.state, [verdict.port for verdict in result.verdicts]) == ("associated", ["e3"])
    assert any("one change" in reason for reason in result.verdicts[0].reasons)


def test_errors_that_begin_elsewhere_are_not() -> None:
    slow = np.arange(CELLS) >= 70
    assert localise(job(slow, {3: (np.arange(CELLS) >= 30) * 50})).state in ("cannot tell", "no evidence")


def test_slow_steps_in_one_stretch_are_too_few_independent_ones() -> None:
    slow = np.arange(CELLS) % 60 < 20
    assert localise(job(slow, {3: slow * 50})).state == "cannot tell"


def test_without_counters_or_steps_nobody_can_tell() -> None:
    assert localise(Run.from_frames({}, RunFacts(name="none"))).state == "cannot tell"
    assert mark_links(LINKS.empty(), Localisation("cannot tell", "")).is_empty()


def test_the_same_run_gives_the_same_answer() -> None:
    slow = slow_steps()
    run = job(slow, {3: slow * 50})
    assert localise(run) == localise(run)


def _ar(chance: np.random.Generator, rows: int, cells: int, phi: float) -> np.ndarray:
    series = chance.standard_normal((rows, cells))
    for cell in range(1, cells):
        series[:, cell] = phi * series[:, cell - 1] + np.sqrt(1 - phi**2) * series[:, cell]
    return series


def test_a_common_cause_is_removed_by_the_peers() -> None:
    accused = 0
    for seed in range(10):
        chance = np.random.default_rng(seed)
        common = _ar(chance, 1, 200, 0.5)[0]
        series = ranked(chance.poisson(np.exp(-1.5 + chance.uniform(0.3, 0.9, (24, 1)) * common + _ar(chance, 24, 200, 0.5) / 2)))
        accused += _smallest_p(ranked((common + chance.standard_normal(200))[None, :])[0], series, seed) <= 0.01
    assert accused <= 1


def test_an_outcome_of_two_values_keeps_the_level() -> None:
    accused = 0
    for seed in range(25):
        chance = np.random.default_rng([seed, 5])
        outcome = ranked(np.where(chance.random(120) < 0.25, 40.0, 10.0)[None, :])[0]
        accused += _smallest_p(outcome, ranked(chance.poisson(1.0, (8, 120)).astype(float)), seed) <= 0.01
    assert accused <= 2


def _smallest_p(outcome: np.ndarray, series: np.ndarray, seed: int) -> float:
    peers = np.zeros(len(series), np.int64)
    return float(max_null_test(outcome_residual(outcome, series, peers), peer_residuals(series, peers), seed).p_value.min())


def test_effective_size_shrinks_with_memory() -> None:
    chance = np.random.default_rng(2)
    assert effective_size(chance.standard_normal(400)) > 300
    assert effective_size(_ar(chance, 1, 400, 0.9)[0]) < 60
