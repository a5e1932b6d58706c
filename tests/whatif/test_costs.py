"""Latency and bytes of transfers, and what a change of the network does to them, on paper."""

from __future__ import annotations

import polars as pl
import pytest

from netlab.run import Run
from netlab.schema.nccl_structure import TUNING_PREDICTIONS
from netlab.schema.timeline import RANKS
from netlab.whatif import Answer, Compression, Rates, Scenario, Topology, what_if
from netlab.whatif.build import build_model
from netlab.whatif.costs import transfers
from netlab.whatif.draft import Draft, Setting
from netlab.whatif.posterior import at_latency_ends
from netlab.whatif.scenarios import Change
from tests.whatif.makers import Kernel, make_run

MIB = 2**20


def _series(sizes: list[int], milliseconds: list[float], ranks: int = 2, op: str = "all_reduce") -> Run:
    """Collectives one after the other, nothing else; one step."""
    kernels, at = [], 0.0
    for number, (size, length) in enumerate(zip(sizes, milliseconds, strict=True)):
        kernels += [Kernel(rank, at, at + length, stream=20, instance=number, bytes=size, launch=0.0, op=op) for rank in range(ranks)]
        at += length
    return make_run(kernels, [(rank, 1, 0.0, at) for rank in range(ranks)])


def _ask(run: Run, *changes: Change, links: Rates | None = None) -> Answer:
    return what_if(run, [Scenario(name="x", changes=changes)], links=links).scenarios[0]


def test_eight_sizes_tell_latency_from_bytes() -> None:
    sizes = [MIB * k for k in (1, 2, 3, 4, 5, 6, 7, 8)]
    run = _series(sizes, [1 + 0.5 * size / MIB for size in sizes])
    assert _ask(run, Compression(ratio=10.0, codec_ms=0.0)).predicted_ms == pytest.approx(8 * 1 + 36 * 0.5 / 10)


def test_scatter_about_the_line_becomes_a_range_of_the_latency_and_widens_the_interval() -> None:
    sizes = [MIB * k for k in (1, 2, 3, 4, 5, 6, 7, 8) * 3]
    exact = [1 + 0.5 * size / MIB for size in sizes]
    scattered = [time * (1.1 if number % 2 else 0.9) for number, time in enumerate(exact)]
    ranges, widths = [], []
    for times in (exact, scattered):
        run = _series(sizes, times)
        fit = next(iter(transfers(run, build_model(run)).fits.values()))
        low, high = fit.latency_range_ns
        assert low <= fit.latency_ns <= high
        ranges.append(high - low)
        answer = _ask(run, Compression(ratio=10.0, codec_ms=0.0))
        interval = answer.interval95_ms or (0.0, 0.0)
        widths.append((interval[1] - interval[0]) / (answer.predicted_ms or 1.0))
    assert ranges[0] < 1e3 < ranges[1]
    assert widths[1] > 1.1 * widths[0]


def test_the_unchanged_run_replays_the_same_whatever_its_latency_may_be() -> None:
    run = _series([MIB * k for k in (1, 2, 3, 4, 5, 6, 7, 8)], [2.0, 1.4, 3.0, 2.8, 4.0, 3.6, 5.0, 4.7])
    setting = Setting(run=run, model=build_model(run), transfers=transfers(run, build_model(run)))
    assert at_latency_ends(Draft.of(setting), setting) is None


def test_a_few_smaller_messages_among_many_of_one_size_tell_latency_from_bytes() -> None:
    # 3 MiB buckets and the 1 MiB rest of every layer: sizes three times apart, but many, and the line is sure.
    sizes = [3 * MIB, 3 * MIB, 3 * MIB, 3 * MIB, 3 * MIB, 1 * MIB] * 100
    run = _series(sizes, [(0.2 + 0.02 * size / MIB) * (1 + 0.01 * ((7 * n) % 5 - 2)) for n, size in enumerate(sizes)])
    fit = next(iter(transfers(run, build_model(run)).fits.values()))
    assert fit.source == "fit"
    assert fit.latency_ns == pytest.approx(200_000, rel=0.03)
    few = _series(sizes[:18], [0.2 + 0.02 * size / MIB for size in sizes[:18]])
    assert next(iter(transfers(few, build_model(few)).fits.values())).source == "none"


def test_what_bytes_need_on_the_declared_links_is_no_latency() -> None:
    # 64 MiB at 400 Gbit/s take 1.34 ms of each 1.5 ms, so at most 0.16 ms are latency, whatever small messages of another kind took.
    run = _series([1024] * 5 + [64 * MIB] * 2, [0.5] * 5 + [1.5] * 2)
    fit = next(iter(transfers(run, build_model(run), {"inter_node": 400.0}).fits.values()))
    least = 64 * MIB * 8 / 400
    assert fit.latency_ns <= 1.5e6 - least + 1
    assert fit.latency_range_ns[1] <= 1.5e6 - least + 1
    free = next(iter(transfers(run, build_model(run)).fits.values()))
    assert free.latency_ns == pytest.approx(500_000)


def test_one_slow_transfer_does_not_move_the_line() -> None:
    sizes = [MIB * k for k in (1, 2, 3, 4, 5, 6, 7, 8, 8)]
    run = _series(sizes, [1 + 0.5 * size / MIB for size in sizes[:8]] + [50.0])
    fit = next(iter(transfers(run, build_model(run)).fits.values()))
    assert fit.source == "fit"
    assert fit.latency_ns == pytest.approx(1e6)
    assert fit.ns_per_byte == pytest.approx(0.5e6 / MIB)


def test_without_a_fit_the_whole_transfer_is_bytes() -> None:
    run = _series([MIB] * 8, [2.0] * 8)
    assert _ask(run, Compression(ratio=4.0, codec_ms=0.0)).predicted_ms == pytest.approx(16 / 4)


def test_small_messages_of_the_same_layer_give_the_latency() -> None:
    # Seven instances are too few for a line. The small ones are all latency; the large ones 0.5 + 4.
    run = _series([1024] * 5 + [64 * MIB] * 2, [0.5] * 5 + [4.5] * 2)
    assert _ask(run, Compression(ratio=4.0, codec_ms=0.0)).predicted_ms == pytest.approx(5 * 0.5 + 2 * 1.5, rel=1e-3)


def test_the_printed_tuning_table_is_the_prior() -> None:
    run = _series([64 * MIB] * 4, [5.0] * 4)
    table = pl.DataFrame(
        {
            "comm_id": ["0x1"] * 2,
            "op": ["all_reduce"] * 2,
            "algorithm": ["Ring", "Tree"],
            "protocol": ["Simple", "LL"],
            "latency_us": [1_000.0, 100.0],
            "bandwidth_gb_per_s": [20.0, 0.1],
            "source": ["log"] * 2,
            "line": [1, 1],
        }
    )
    run = run.with_frames({"tuning_predictions": TUNING_PREDICTIONS.conform(table)})
    # NCCL's fastest at 64 MiB is the ring with 1 ms of latency: 4 of 5 ms are bytes.
    answer = _ask(run, Compression(ratio=2.0, codec_ms=0.0))
    assert answer.predicted_ms == pytest.approx(4 * (1 + 2))
    assert any("latency table" in used for used in answer.inputs_used)


def test_lossy_methods_say_what_error_feedback_keeps_and_when_they_pay() -> None:
    run = _series([64 * MIB, 32 * MIB], [10.0, 5.0])
    lossy, cast = (_ask(run, Compression(method=method, codec_ms=0.0)) for method in ("onebit", "fp16"))
    # Both all-reduces of the step: 96 MiB of fp32.
    assert any("keeps 101 MB more" in text for text in lossy.assumptions)
    assert not any("feedback" in text for text in cast.assumptions)
    (pays,) = [text for text in cast.assumptions if "more steps" in text]
    assert "100 % more steps" in pays


def _two_hosts(run: Run, hosts: list[str]) -> Run:
    return run.with_frames({"ranks": RANKS.conform(pl.DataFrame({"rank": list(range(len(hosts))), "host": hosts}))})


def test_sharp_halves_a_large_ring_at_most() -> None:
    run = _two_hosts(_series([64 * MIB], [10.0], ranks=4), ["a", "b", "c", "d"])
    # A ring of four moves 1.5 times the message, SHARP once.
    assert _ask(run, Topology(algorithm="sharp")).predicted_ms == pytest.approx(10 / 1.5)


def test_a_tree_is_no_better_than_its_efficiency() -> None:
    run = _two_hosts(_series([64 * MIB], [10.0], ranks=4), ["a", "b", "c", "d"])
    assert _ask(run, Topology(algorithm="tree")).predicted_ms == pytest.approx(10 * 2 / 0.92 / 1.5)


def test_nvls_between_hosts_is_refused() -> None:
    run = _two_hosts(_series([64 * MIB], [10.0], ranks=4), ["a", "b", "c", "d"])
    answer = _ask(run, Topology(algorithm="nvls"))
    assert answer.refused is not None
    assert "one host" in answer.refused


def test_roce_is_an_interval_and_never_a_point() -> None:
    answer = _ask(_series([64 * MIB], [10.0]), Topology(fabric="roce"))
    low, high = answer.interval80_ms or (0.0, 0.0)
    assert low <= 10 / 0.95
    assert high >= 10 / 0.85
    assert answer.confidence == "datasheet"


def test_oversubscription_without_leaves_is_a_bound() -> None:
    answer = _ask(_series([64 * MIB], [10.0], ranks=4), Topology(oversubscription=4.0))
    low, high = answer.interval80_ms or (0.0, 0.0)
    assert answer.confidence == "bound-only"
    assert low <= 10 + 1e-6
    assert high >= 40 - 1e-6


def test_oversubscribed_uplinks_slow_a_ring_by_its_crossing_edges() -> None:
    run = _two_hosts(_series([64 * MIB], [10.0], ranks=4), ["a", "b", "c", "d"])
    # Two hosts per leaf at 4:1 share half a host's rate; one ring edge leaves each leaf.
    answer = _ask(run, Topology(oversubscription=4.0, hosts_per_leaf=2))
    assert answer.predicted_ms == pytest.approx(20)


def test_an_nvlink_domain_moves_the_groups_that_fit() -> None:
    run = _two_hosts(_series([64 * MIB], [10.0], ranks=4), ["a", "b", "c", "d"])
    answer = _ask(run, Topology(nvlink_domain=4), links=Rates(intra_node_gbps=3600.0, inter_node_gbps=400.0))
    assert answer.predicted_ms == pytest.approx(10 / 9)


def test_a_slower_link_that_was_half_used_becomes_the_limit_below_that() -> None:
    # 64 MiB in 10 ms: 53.7 Gbit/s of bus bandwidth, 27 % of 200.
    run = _series([64 * MIB], [10.0])
    used = 64 * MIB * 8 / 10e6
    same = _ask(run, Topology(inter_node_gbps=100.0), links=Rates(inter_node_gbps=200.0))
    assert same.predicted_ms == pytest.approx(10)
    slower = _ask(run, Topology(inter_node_gbps=used / 2), links=Rates(inter_node_gbps=200.0))
    assert slower.predicted_ms == pytest.approx(20)


def test_the_interval_of_a_link_that_was_never_full_holds_a_limit_that_moves_with_it() -> None:
    # 64 MiB in 10 ms are 27 % of 200 Gbit/s. A protocol that reaches 27 % of any link would take 20 ms at 100 and 5 ms at 400.
    run = _series([64 * MIB], [10.0])
    slower, faster = (_ask(run, Topology(inter_node_gbps=gbps), links=Rates(inter_node_gbps=200.0)) for gbps in (100.0, 400.0))
    assert slower.predicted_ms == pytest.approx(10)
    assert faster.predicted_ms == pytest.approx(10)
    assert (slower.interval80_ms or (0, 0))[1] >= 20
    assert (faster.interval80_ms or (0, 0))[0] <= 5
    assert any("will not help" in text for text in faster.assumptions)
    assert all(answer.confidence == "datasheet" and answer.inputs_missing for answer in (slower, faster))


def test_a_declared_range_of_one_network_leaves_the_other_alone() -> None:
    kernels = [
        Kernel(rank, at, at + 10, stream=20, instance=number, bytes=64 * MIB, group=group, layer=layer)
        for at, number, group, layer, ranks in (
            (0.0, 0, "0,1", "intra_node", (0, 1)),
            (0.0, 1, "2,3", "intra_node", (2, 3)),
            (10.0, 2, "0,1,2,3", "inter_node", (0, 1, 2, 3)),
        )
        for rank in ranks
    ]
    answer = _ask(make_run(kernels, [(rank, 1, 0.0, 20.0) for rank in range(4)]), Topology(efficiency=(0.5, 1.0)))
    low, high = answer.interval80_ms or (0.0, 0.0)
    # Only the 10 ms between hosts become 10 to 20; with the links in the hosts it would be 40.
    assert low < 20.1
    assert 30 <= high < 35


def test_a_group_selector_leaves_other_groups_alone() -> None:
    run = _series([64 * MIB], [10.0])
    assert _ask(run, Compression(ratio=2.0, codec_ms=0.0, groups=[0, 1])).predicted_ms == pytest.approx(5)
    refused = _ask(run, Compression(ratio=2.0, codec_ms=0.0, groups="2,3")).refused
    assert refused is not None
    assert "0,1" in refused
