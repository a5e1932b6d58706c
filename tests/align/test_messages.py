"""Point-to-point: pairs by order, peers by rank or place, batches, and sends that end early."""

from __future__ import annotations

from pathlib import Path

from netlab.align import Aligned
from tests.align.support import SEND_RECV, Trace, align_traces, codes


def p2p(result: Aligned) -> list[tuple[int, int, float, float, float]]:
    """src, dst, transfer, wait of source and of destination in ms."""
    rows = result.frames["p2p"].sort("start_ns", "src").select("src", "dst", "transfer_ns", "wait_src_ns", "wait_dst_ns").rows()
    return [(src, dst, *(value / 1e6 for value in times)) for src, dst, *times in rows]  # type: ignore[misc]


def test_receive_waits_for_its_sender(tmp_path: Path) -> None:
    result = align_traces(tmp_path, Trace(0).message("send", 1, 30, 31), Trace(1).message("recv", 0, 0, 31))
    assert p2p(result) == [(0, 1, 1, 0, 30)]
    collectives = result.frames["collectives"]
    assert collectives.select("rank", "op", "group", "wait_ns").rows() == [(0, "send", "0,1", 0), (1, "recv", "0,1", 30_000_000)]


def test_send_may_end_before_its_receive_starts(tmp_path: Path) -> None:
    result = align_traces(tmp_path, Trace(0).message("send", 1, 0, 2), Trace(1).message("recv", 0, 5, 6))
    assert p2p(result) == [(0, 1, 1, 2, 0)]
    send = result.frames["activities"].row(0, named=True)
    # By the formula it only waited; at most all of it moved bytes into buffers.
    assert send["transfer_start_ns"] == send["end_ns"]
    assert send["transfer_start_high_ns"] == send["start_ns"]


def test_peer_may_be_a_place_in_the_group(tmp_path: Path) -> None:
    group = [4, 6]
    first = Trace(4, 8).collective(0, 3, 1, group, op="send", kernel=SEND_RECV, **{"Dst Rank": 1})
    second = Trace(6, 8).collective(1, 3, 1, group, op="recv", kernel=SEND_RECV, **{"Src Rank": 0})
    assert p2p(align_traces(tmp_path, first, second)) == [(4, 6, 2, 1, 0)]


def test_messages_of_several_pairs_and_directions_do_not_mix(tmp_path: Path) -> None:
    members = [0, 1, 2]
    first = Trace(0, 3).message("send", 1, 0, 2, members=members).message("send", 2, 2, 4, members=members)
    first.message("recv", 1, 6, 8, members=members)
    second = Trace(1, 3).message("recv", 0, 0, 2, members=members).message("send", 0, 6, 8, members=members)
    third = Trace(2, 3).message("recv", 0, 1, 4, members=members)
    assert [row[:2] for row in p2p(align_traces(tmp_path, first, second, third))] == [(0, 1), (0, 2), (1, 0)]


def test_numbers_of_both_sides_need_not_agree(tmp_path: Path) -> None:
    first = Trace(0).message("send", 1, 0, 2, seq=7).message("send", 1, 4, 6, seq=8)
    second = Trace(1).message("recv", 0, 0, 2, seq=3).message("recv", 0, 4, 6, seq=4)
    assert p2p(align_traces(tmp_path, first, second)) == [(0, 1, 2, 0, 0)] * 2


def test_lost_receive_leaves_the_other_messages_in_place(tmp_path: Path) -> None:
    first, second = Trace(0), Trace(1)
    for number, start in enumerate((0, 11, 25, 31, 48)):
        first.message("send", 1, start, start + 2, seq=number)
        if number != 2:
            second.message("recv", 0, start + 1, start + 2, seq=number)
    result = align_traces(tmp_path, first, second)
    assert p2p(result) == [(0, 1, 1, 1, 0)] * 4
    assert "SEQ_GAP" in codes(result)


def test_exchanges_that_carry_the_label_of_their_first_operation_meet(tmp_path: Path) -> None:
    result = align_traces(tmp_path, Trace(0).message("send", 1, 0, 5), Trace(1).message("send", 0, 2, 5))
    assert p2p(result) == [(0, 1, 3, 2, 0), (1, 0, 3, 0, 2)]
    assert result.frames["collectives"]["split"].to_list() == ["measured", "measured"]


def test_a_shift_labelled_by_its_sends_alone_meets_the_batch_of_the_same_number(tmp_path: Path) -> None:
    starts = {0: 0, 1: 2, 2: 6}
    ring = [Trace(rank, 3).message("send", (rank + 1) % 3, start, 10) for rank, start in starts.items()]
    result = align_traces(tmp_path, *ring)
    assert p2p(result) == [(0, 1, 8, 2, 0), (1, 2, 4, 4, 0), (2, 0, 4, 0, 6)]
    assert result.frames["collectives"]["split"].unique().to_list() == ["measured"]
    # Stages of a pipeline: the first only sends, the last only receives.
    ends = [ring[0], ring[1], Trace(2, 3).message("recv", 1, 6, 10)]
    assert p2p(align_traces(tmp_path, *ends)) == [(0, 1, 8, 2, 0), (1, 2, 4, 4, 0)]


def test_a_shift_of_another_number_or_without_one_is_not_guessed(tmp_path: Path) -> None:
    later = [Trace(rank, 3).message("send", (rank + 1) % 3, rank, 10, seq=1 + rank) for rank in range(3)]
    assert align_traces(tmp_path, *later).frames["p2p"].is_empty()
    bare = [Trace(rank, 3).message("send", (rank + 1) % 3, rank, 10, seq=None) for rank in range(3)]
    assert align_traces(tmp_path, *bare).frames["p2p"].is_empty()


def _ring(rank: int, start: float, end: float, ranks: int = 3) -> Trace:
    """One SendRecv kernel that sends to the next rank and receives from the one before, recorded call by call."""
    trace = Trace(rank, ranks)
    group = {"Process Group Name": "0", "Process Group Ranks": str(list(range(ranks))), "Group size": ranks, "dtype": "Float"}
    size = {"In msg nelems": 250, "Out msg nelems": 250}
    after, before = (rank + 1) % ranks, (rank - 1) % ranks
    trace.add("cpu_op", "record_param_comms", start, start + 0.01, **group, **size, **{"Collective name": "send", "Dst Rank": after})
    trace.add(
        "cpu_op", "record_param_comms", start + 0.02, start + 0.03, **group, **size, **{"Collective name": "recv", "Src Rank": before}
    )
    return trace.kernel(SEND_RECV, start + 0.1, end, stream=20, launch=start + 0.05, **group)


def test_batched_kernel_has_a_message_per_peer(tmp_path: Path) -> None:
    result = align_traces(tmp_path, _ring(0, 0, 10), _ring(1, 2, 10), _ring(2, 6, 10))
    assert [(row[0], row[1], round(row[2], 1)) for row in p2p(result)] == [(0, 1, 7.9), (1, 2, 3.9), (2, 0, 3.9)]
    assert result.frames["p2p"]["bytes"].to_list() == [1000, 1000, 1000]
    activities = result.frames["activities"]
    # By the formula data moves once the last peer has come; at the earliest once the first has.
    offset = (activities["transfer_start_ns"] - activities["start_ns"]).to_list()
    early = (activities["transfer_start_high_ns"] - activities["start_ns"]).to_list()
    assert offset == [6_000_000, 4_000_000, 0]
    assert early == [2_000_000, 0, 0]


def test_batched_kernel_is_told_by_the_external_id_of_its_calls(tmp_path: Path) -> None:
    traces = []
    for rank in range(2):
        trace = Trace(rank)
        group = {"Process Group Name": "0", "Process Group Ranks": "[0, 1]", "Group size": 2, "dtype": "Float", "External id": 7}
        for op, key in (("send", "Dst Rank"), ("recv", "Src Rank")):
            trace.add("cpu_op", "record_param_comms", 0, 0.1, **group, **{"Collective name": op, key: 1 - rank, "In msg nelems": 10})
        traces.append(trace.kernel(SEND_RECV, 1 + rank, 5, stream=20, **group))
    assert p2p(align_traces(tmp_path, *traces)) == [(0, 1, 3, 1, 0), (1, 0, 3, 0, 1)]


def test_message_without_its_other_end_is_unknown(tmp_path: Path) -> None:
    result = align_traces(tmp_path, Trace(0, 4).message("send", 2, 0, 2, members=[0, 1, 2, 3]), Trace(1, 4).compute(0, 1))
    assert result.frames["collectives"].select("group", "split", "wait_ns").rows() == [("0,2", "unknown", None)]
    assert result.frames["p2p"].is_empty()
