"""Answers to hand-made runs: the numbers on paper, the words that must stand beside them, and refusals."""

from __future__ import annotations

import json
from fractions import Fraction

import polars as pl
import pytest

from netlab.run import Run, RunFacts
from netlab.whatif import (
    Accumulation,
    Answer,
    Compression,
    Compute,
    Overlap,
    Rates,
    Scenario,
    Straggler,
    Topology,
    default_scenarios,
    what_if,
)
from netlab.whatif.scenarios import Change
from tests.whatif.makers import Kernel, late_rank, make_run, overlapped


def _ask(run: Run, *changes: Change, **options: object) -> Answer:
    return what_if(run, [Scenario(name="x", changes=changes)], **options).scenarios[0]  # type: ignore[arg-type]


def test_overlap_bounds_and_the_floor_of_compute() -> None:
    run = overlapped()
    nothing, perfect = _ask(run, Overlap(bound="none")), _ask(run, Overlap(bound="perfect"))
    assert nothing.predicted_ms == pytest.approx(130, abs=0.1)
    assert nothing.flagged is True
    assert perfect.predicted_ms == pytest.approx(70)
    assert perfect.flagged is False
    assert perfect.confidence == nothing.confidence == "bound-only"
    for ratio in (2.0, 4.0, 1000.0):
        answer = _ask(run, Compression(ratio=ratio, codec_ms=0.0))
        assert answer.predicted_ms == pytest.approx(70)
        assert answer.bound_best_ms == pytest.approx(70)


def test_compression_shortens_transfer_and_never_waiting() -> None:
    answer = _ask(late_rank(), Compression(ratio=10.0, codec_ms=0.0))
    assert answer.predicted_ms == pytest.approx(18.2)
    assert answer.network_share == pytest.approx(0.2 / 18.2)
    # Rank 0 waits 8 ms of each step whatever the codec: the mean over both ranks.
    assert answer.comm_share == pytest.approx((0.2 + 4.0) / 18.2)


def test_without_the_straggler_its_compute_is_that_of_the_others() -> None:
    answer = _ask(late_rank(), Straggler(rank=1))
    assert answer.predicted_ms == pytest.approx(12)
    assert answer.speedup == pytest.approx(20 / 12)
    assert answer.bound_best_ms == pytest.approx(10)


def test_changes_are_replayed_together_not_multiplied() -> None:
    both = _ask(late_rank(), Straggler(rank=1), Compression(ratio=2.0, codec_ms=0.0))
    assert both.predicted_ms == pytest.approx(11)
    product = 20 * (12 / 20) * (19 / 20)
    assert both.predicted_ms != pytest.approx(product, abs=0.1)


def test_encoding_delays_the_collective_and_decoding_what_follows() -> None:
    assert _ask(late_rank(), Compression(ratio=2.0, codec_ms=3.0)).predicted_ms == pytest.approx(16 + 1.5 + 1 + 1.5 + 2)


def test_accumulation_repeats_forward_and_backward_and_synchronises_once() -> None:
    answer = _ask(overlapped(), Accumulation(micro_batches=8))
    assert answer.predicted_ms == pytest.approx(7 * 70 + 100)
    assert answer.speedup == pytest.approx(8 * 100 / 590)
    assert answer.network_share == pytest.approx(30 / 590)


def test_a_micro_batch_begins_with_its_copy_and_its_gathered_parameters() -> None:
    # A copy of 3 ms or an all-gather of 5 comes before 20 ms of compute, then 10 ms of reduction and 2 of optimizer; both come each time.
    for before, head in ((3.0, {"kind": "memory"}), (5.0, {"op": "all_gather", "stream": 20, "bytes": 2**20})):
        kernels, marks = [], []
        for step in range(2):
            at = step * (before + 32)
            for rank in (0, 1):
                own = dict(head, instance=2 * step) if "op" in head else head
                kernels += [
                    Kernel(rank, at, at + before, launch=at, **own),  # type: ignore[arg-type]
                    Kernel(rank, at + before, at + before + 20, launch=at + 0.1),
                    Kernel(rank, at + before + 20, at + before + 30, stream=20, instance=2 * step + 1, bytes=2**20, launch=at + 0.2),
                    Kernel(rank, at + before + 30, at + before + 32, launch=at + 0.3),
                ]
                marks.append((rank, step, at, at + before + 32))
        answer = _ask(make_run(kernels, marks), Accumulation(micro_batches=4))
        assert answer.predicted_ms == pytest.approx(3 * (before + 20) + before + 32)


def test_a_faster_link_divides_transfer_where_the_link_was_the_limit() -> None:
    # 2^30 bytes in 60 ms are 143 Gbit/s of bus bandwidth.
    answer = _ask(overlapped(), Topology(inter_node_gbps=300.0), links=Rates(inter_node_gbps=150.0))
    assert answer.predicted_ms == pytest.approx(70)
    slower = _ask(overlapped(), Topology(inter_node_gbps=75.0), links=Rates(inter_node_gbps=150.0))
    assert slower.predicted_ms == pytest.approx(160)


def test_an_upgrade_of_a_link_that_was_not_the_limit_does_not_help() -> None:
    answer = _ask(overlapped(), Topology(inter_node_gbps=800.0), links=Rates(inter_node_gbps=400.0))
    assert answer.predicted_ms == pytest.approx(100)
    assert any("will not help" in sentence for sentence in answer.assumptions)


def test_an_unknown_present_rate_is_a_refusal_that_says_what_to_declare() -> None:
    answer = _ask(overlapped(), Topology(inter_node_gbps=800.0))
    assert answer.refused is not None
    assert any("links.inter_node_gbps" in missing for missing in answer.inputs_missing)


def test_faster_compute_keeps_host_time() -> None:
    # The all-reduce is launched by the host at 39.98 ms whatever the compute does.
    assert _ask(overlapped(), Compute(speedup=2.0)).predicted_ms == pytest.approx(100)
    assert _ask(late_rank(), Compute(speedup=2.0)).predicted_ms == pytest.approx(8 + 2 + 1)


def test_time_behind_the_last_activity_of_a_step_stays() -> None:
    kernels = [k for rank in (0, 1) for k in (Kernel(rank, 0, 10), Kernel(rank, 10, 20, stream=20, instance=0, bytes=2**20))]
    run = make_run(kernels, [(0, 3, 0, 25), (1, 3, 0, 25)])
    assert _ask(run, Compression(ratio=2.0, codec_ms=0.0)).predicted_ms == pytest.approx(20)


def test_one_rank_of_two_is_refused_because_waiting_may_be_everything() -> None:
    kernels = [Kernel(0, 0, 8), Kernel(0, 8, 18, stream=20, instance=0, bytes=2**22), Kernel(0, 18, 20)]
    run = make_run(kernels, [(0, 7, 0, 20)], world=2, split="unknown")
    answer = _ask(run, Compression(ratio=10.0, codec_ms=0.0))
    assert answer.refused is not None
    assert "waiting" in answer.refused
    assert answer.predicted_ms is None
    assert answer.bound_best_ms == pytest.approx(10)
    assert answer.inputs_missing == ["traces of rank 1"]
    assert _ask(run, Straggler(rank=0)).refused is not None


def test_a_rank_that_was_not_captured_is_a_refusal() -> None:
    answer = _ask(late_rank(), Straggler(rank=5))
    assert answer.refused is not None
    assert "Rank 5" in answer.refused


def test_fewer_than_five_steps_say_that_variation_is_unknown() -> None:
    answer = _ask(overlapped(), Compression(ratio=2.0, codec_ms=0.0))
    assert "one step: variation unknown" in answer.assumptions
    assert answer.confidence == "datasheet"


def test_the_unchanged_run_is_replayed_exactly() -> None:
    for run in (overlapped(), late_rank()):
        document = what_if(run, [Scenario(name="as it is")])
        assert document.baseline.replay_error == 0.0
        assert document.scenarios[0].predicted_ms == document.baseline.measured_ms
        assert document.scenarios[0].network_share == document.baseline.network_share


def test_order_of_rows_does_not_matter() -> None:
    kernels = [k for rank in (0, 1) for k in (Kernel(rank, 0, 70), Kernel(rank, 40, 100, stream=20, instance=0, bytes=2**30))]
    steps = [(0, 10, 0.0, 100.0), (1, 10, 0.0, 100.0)]
    one = what_if(make_run(kernels, steps), threshold=Fraction(1, 4))
    other = what_if(make_run(kernels[::-1], steps[::-1]), threshold=Fraction(1, 4))
    assert one.json() == other.json()


def test_no_answer_beats_its_bound_and_every_one_has_words() -> None:
    for run in (overlapped(), late_rank()):
        for answer in what_if(run, price_per_gpu_hour=2.5).scenarios:
            assert answer.assumptions
            if answer.refused is None:
                assert answer.predicted_ms is not None
                assert answer.bound_best_ms is not None
                assert answer.bound_best_ms <= answer.predicted_ms + 1e-9
                assert answer.interval95_ms is not None
                assert answer.interval80_ms is not None
                assert answer.interval95_ms[0] <= answer.interval80_ms[0] <= answer.predicted_ms
                assert answer.predicted_ms <= answer.interval80_ms[1] <= answer.interval95_ms[1]


def test_savings_follow_from_the_speedup() -> None:
    answer = _ask(late_rank(), Straggler(rank=1), price_per_gpu_hour=2.0)
    assert answer.saved_gpu_hours_per_day == pytest.approx(2 * 24 * (1 - 12 / 20))
    assert answer.saved_cost_per_day == pytest.approx(2 * 2 * 24 * (1 - 12 / 20))
    assert answer.break_even_price_per_gpu_hour == pytest.approx(2.0 * (20 / 12 - 1))


def test_the_document_is_json_and_the_table_has_a_row_per_answer() -> None:
    document = what_if(overlapped())
    read = json.loads(document.json())
    assert read["schema"] == "netlab.whatif/1"
    assert [row["name"] for row in read["scenarios"]] == [s.name for s in default_scenarios()]
    assert document.frame()["name"].to_list() == [s.name for s in default_scenarios()]


def test_a_run_without_activities_refuses_every_question() -> None:
    document = what_if(Run.from_frames({}, RunFacts(name="logs only")))
    assert document.baseline.measured_ms is None
    assert all(answer.refused for answer in document.scenarios)


def test_ring_order_is_a_question_of_hosts() -> None:
    kernels = []
    for rank in range(4):
        kernels += [Kernel(rank, 0, 10), Kernel(rank, 10, 30, stream=20, instance=0, bytes=2**24)]
    run = make_run(kernels, [(rank, 1, 0, 30) for rank in range(4)])
    unknown = _ask(run, Topology(rank_order=[0, 2, 1, 3]))
    assert unknown.refused is not None
    placed = run.with_frames({"ranks": _hosts(["a", "a", "b", "b"])})
    answer = _ask(placed, Topology(rank_order=[0, 2, 1, 3]))
    assert answer.predicted_ms == pytest.approx(10 + 40)


def _hosts(names: list[str]) -> pl.DataFrame:
    from netlab.schema.timeline import RANKS

    return RANKS.conform(pl.DataFrame({"rank": list(range(len(names))), "host": names}))


def test_where_members_are_missing_the_interval_reaches_to_no_gain_at_all() -> None:
    # 2 of 10 ms are transfer at most; rank 2, who was not recorded, may have been last, and then nothing gets shorter.
    kernels = [kernel for rank in (0, 1) for kernel in (Kernel(rank, 0, 8), Kernel(rank, 8, 10, stream=20, instance=0, bytes=2**20))]
    answer = _ask(make_run(kernels, [(0, 1, 0, 10), (1, 1, 0, 10)], world=3, split="bounded"), Compression(ratio=2.0, codec_ms=0.0))
    assert answer.predicted_ms == pytest.approx(9)
    assert answer.confidence == "bound-only"
    for interval in (answer.interval80_ms, answer.interval95_ms):
        assert (interval or (0, 0))[1] >= 10


def test_a_late_rank_that_launches_its_collectives_elsewhere_is_measured_by_the_others() -> None:
    # Rank 0 computes 8 and 12 ms, rank 1 20 and 20; rank 0 launches the first reduction behind both, rank 1 between them.
    kernels = [
        Kernel(0, 0, 8, launch=0.0),
        Kernel(0, 8, 20, launch=0.01),
        Kernel(0, 8, 30, stream=20, instance=0, bytes=2**20, launch=0.02),
        Kernel(0, 30, 42, stream=20, instance=1, bytes=2**20, launch=0.03),
        Kernel(1, 0, 20, launch=0.0),
        Kernel(1, 20, 30, stream=20, instance=0, bytes=2**20, launch=0.01),
        Kernel(1, 20, 40, launch=0.02),
        Kernel(1, 40, 42, stream=20, instance=1, bytes=2**20, launch=0.03),
    ]
    answer = _ask(make_run(kernels, [(0, 1, 0, 42), (1, 1, 0, 42)]), Straggler(rank=1))
    assert answer.predicted_ms == pytest.approx(22, abs=0.05)
