"""Collective metadata from the host's record, bytes, and groups whose rank list is cut short."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from netlab.align.groups import group_layer, parallelism
from tests.align.support import Trace, align_traces, codes

BARE = "ncclKernel_AllReduce_RING_LL_Sum_float(x)"


def _call(trace: Trace, at: float, end: float, op: str = "allreduce", elements: int = 100, **args: Any) -> Trace:
    group = {"Process Group Name": "0", "Process Group Ranks": "[0, 1]", "Group size": 2, "dtype": "Float"}
    size = {"In msg nelems": elements, "Out msg nelems": elements}
    return trace.add("cpu_op", "record_param_comms", at, end, **group, **size, **({"Collective name": op} | args))


def _described(trace: Trace, tmp_path: Path) -> list[tuple[str, int | None, str]]:
    return align_traces(tmp_path, trace).frames["collectives"].select("op", "bytes", "group").rows()  # type: ignore[return-value]


def test_external_id_leads_to_the_call(tmp_path: Path) -> None:
    trace = _call(Trace(), 0, 0.1, elements=7, **{"External id": 9})
    assert _described(trace.kernel(BARE, 1, 2, stream=20, **{"External id": 9}), tmp_path) == [("all_reduce", 28, "0,1")]


def test_launch_inside_a_call_belongs_to_it(tmp_path: Path) -> None:
    trace = _call(_call(Trace(), 0, 1, elements=7), 2, 3, elements=8)
    trace.kernel(BARE, 5, 6, stream=20, launch=0.5).kernel(BARE, 7, 8, stream=20, launch=2.5)
    assert _described(trace, tmp_path) == [("all_reduce", 28, "0,1"), ("all_reduce", 32, "0,1")]


def test_as_many_calls_as_kernels_are_told_apart_by_order(tmp_path: Path) -> None:
    trace = _call(_call(Trace(), 0, 0.1, elements=7), 0.2, 0.3, elements=8)
    trace.kernel(BARE, 5, 6, stream=20, launch=1).kernel(BARE, 7, 8, stream=20, launch=2)
    assert _described(trace, tmp_path) == [("all_reduce", 28, "0,1"), ("all_reduce", 32, "0,1")]


def test_more_calls_than_kernels_are_not_guessed(tmp_path: Path) -> None:
    trace = _call(_call(Trace(), 0, 0.1, elements=7), 0.2, 0.3, elements=8)
    assert _described(trace.kernel(BARE, 5, 6, stream=20, launch=1), tmp_path) == [("all_reduce", None, "0,1")]


def test_calls_of_another_operation_are_not_taken(tmp_path: Path) -> None:
    trace = _call(Trace(), 0, 0.1, op="broadcast").kernel(BARE, 5, 6, stream=20, launch=1)
    assert _described(trace, tmp_path) == [("all_reduce", None, "0,1")]


@pytest.mark.parametrize(
    ("dtype", "inside", "out", "expected"),
    [("BFloat16", 10, 80, 160), ("Float8_e4m3fn", 10, 5, 10), ("Char", 3, 3, 3), ("Long", 2, 2, 16), ("Mystery", 2, 2, None)],
)
def test_bytes_are_the_larger_of_input_and_output(tmp_path: Path, dtype: str, inside: int, out: int, expected: int | None) -> None:
    trace = Trace().collective(1, 2, 1, op="_allgather_base", **{"In msg nelems": inside, "Out msg nelems": out, "dtype": dtype})
    assert _described(trace, tmp_path) == [("all_gather", expected, "0,1")]


def test_label_of_the_metadata_beats_the_name_of_a_generic_kernel(tmp_path: Path) -> None:
    trace = Trace().collective(1, 2, 1, op="_reduce_scatter_base", kernel="ncclDevKernel_Generic_4(x)")
    assert _described(trace, tmp_path)[0][0] == "reduce_scatter"
    trace = Trace().collective(1, 2, 1, op="coalesced", kernel="ncclDevKernel_AllGather_RING_LL(x)")
    assert _described(trace, tmp_path)[0][0] == "all_gather"


def _cut(rank: int, world: int, members: list[int], **options: Any) -> Trace:
    text = str(members[:30])[:-1] + ", ...]"
    return Trace(rank, world).collective(rank % 7, 9, 1, members, name="1", **{"Process Group Ranks": text}, **options)


def test_cut_rank_list_is_completed_from_the_configuration(tmp_path: Path) -> None:
    members = [*range(0, 60, 2), 61, 63]
    traces = [_cut(rank, 64, members).group("1", members) for rank in (0, 63)]
    result = align_traces(tmp_path, *traces)
    assert result.frames["groups"]["members"].to_list() == [members]
    assert "NO_GROUP_METADATA" not in codes(result)
    assert result.frames["collectives"].select("members", "seen", "split").unique().rows() == [(32, 2, "bounded")]


def test_cut_rank_list_of_the_world_is_the_world(tmp_path: Path) -> None:
    result = align_traces(tmp_path, *(_cut(rank, 40, list(range(40))) for rank in range(40)))
    assert result.frames["collectives"]["split"].unique().to_list() == ["measured"]


def test_configuration_of_another_file_completes_a_cut_list_it_fits(tmp_path: Path) -> None:
    members, others = list(range(0, 64, 2)), list(range(1, 64, 2))
    traces = [_cut(0, 64, members), _cut(2, 64, members).group("1", members), _cut(1, 64, others).group("1", others)]
    found = align_traces(tmp_path, *traces).frames["groups"]
    assert sorted(found["members"].to_list()) == [members, others]


def test_cut_list_that_nothing_completes_is_told_and_still_matched(tmp_path: Path) -> None:
    members = list(range(0, 70, 2))
    result = align_traces(tmp_path, _cut(0, 70, members), _cut(68, 70, members))
    assert "NO_GROUP_METADATA" in codes(result)
    assert result.frames["collectives"].select("instance", "rank", "members", "split").rows() == [
        (0, 0, 35, "bounded"),
        (0, 68, 35, "bounded"),
    ]


def test_group_without_a_rank_list_is_found_by_name(tmp_path: Path) -> None:
    trace = Trace(0, 4).group("5", [0, 2]).collective(1, 2, 1, [0, 2], name="5", **{"Process Group Ranks": ""})
    assert align_traces(tmp_path, trace).frames["collectives"]["group"].to_list() == ["0,2"]


def test_name_and_size_alone_do_not_make_a_group(tmp_path: Path) -> None:
    unnamed = {"Process Group Ranks": ""}
    result = align_traces(tmp_path, *(Trace(rank, 4).collective(1, 2, 1, [0, 1], name="5", **unnamed) for rank in range(4)))
    assert result.frames["collectives"]["split"].to_list() == ["unknown"] * 4
    assert "NO_GROUP_METADATA" in codes(result)


def test_layer_needs_the_hosts_of_all_members() -> None:
    hosts = {0: "a", 1: "a", 2: "b"}
    assert [group_layer(members, hosts) for members in ([0, 1], [0, 2], [0, 3], [0, 2, 3], [7])] == [
        "intra_node",
        "inter_node",
        "unplaced",
        "inter_node",
        "unplaced",
    ]


@pytest.mark.parametrize(
    ("members", "description", "ops", "kind"),
    [
        ([0, 1], "TENSOR_MODEL_PARALLEL_GROUP", ["all_reduce"], "TP"),
        ([0, 4], "mesh_dp_shard", ["all_gather"], "DP"),
        ([0, 8], "pipe", ["send"], "PP"),
        ([0, 1], "EXPERT_MODEL_PARALLEL_GROUP", ["all_to_all"], "EP"),
        ([0, 1], "CONTEXT_PARALLEL_GROUP", ["all_gather"], "CP"),
        ([0, 4], None, ["send", "recv"], "PP"),
        ([0, 1], "undefined", ["all_to_all"], "EP"),
        ([0, 1, 2, 3, 4, 5, 6, 7], "default_pg", ["all_reduce"], "DP"),
        ([0, 1], None, ["all_reduce"], "TP"),
        ([0, 2, 4], None, ["reduce_scatter"], "DP"),
        ([0, 1, 5], None, ["all_reduce"], None),
    ],
)
def test_kind_of_parallelism(members: list[int], description: str | None, ops: list[str], kind: str | None) -> None:
    found, reason = parallelism(members, description, ops, 8, "intra_node")
    assert found == kind
    assert (reason is None) == (kind is None)


def test_real_metadata_gives_the_published_sizes(shared_data: Path) -> None:
    from tests.align.support import aligned

    result = aligned([shared_data / "traces/hta/ddp_a100_w2_rank0_meta.json.gz"])
    found = result.frames["collectives"].group_by("op").agg(pl.col("bytes").unique().sort()).sort("op").rows()
    assert found == [("all_reduce", [8_196_000, 9_724_160, 26_255_360, 26_550_272, 31_502_336]), ("broadcast", [424, 212_480])]
    assert result.frames["collectives"].height == 21


def test_calls_that_launch_nothing_are_passed_over(tmp_path: Path) -> None:
    trace = _call(_call(Trace(), 0, 0.1, elements=7), 0.2, 0.3, op="wait").kernel(BARE, 5, 6, stream=20, launch=1)
    assert _described(trace, tmp_path) == [("all_reduce", 28, "0,1")]
