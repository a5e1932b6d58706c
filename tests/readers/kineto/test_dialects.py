"""Every dialect of traces that people have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from netlab.readers.kineto import read_frames
from tests.readers.kineto.support import Read, codes, kernel, trace


def host(category: str, name: str, number: int = 1, **arguments: Any) -> dict[str, Any]:
    return {
        "ph": "X",
        "cat": category,
        "name": name,
        "pid": 100,
        "tid": 101,
        "ts": number,
        "dur": 1,
        "args": {"External id": number, **arguments},
    }


@pytest.mark.parametrize(
    ("category", "expected"),
    [
        ("kernel", "kernel"),
        ("Kernel", "kernel"),
        ("concurrent_kernel", "kernel"),
        ("xpu_kernel", "kernel"),
        ("privateuse1_kernel", "kernel"),
        ("mtia_ccp_events", "kernel"),
        ("gpu_memcpy", "memcpy"),
        ("Memcpy", "memcpy"),
        ("xpu_memcpy", "memcpy"),
        ("gpu_memset", "memset"),
        ("Memset", "memset"),
    ],
)
def test_device_categories_of_all_vendors_and_years(read: Read, category: str, expected: str) -> None:
    frames, parsed = read(trace(kernel(cat=category)))
    assert frames["device_events"]["category"].to_list() == [expected]
    assert parsed.facts["device_event_count"] == 1


@pytest.mark.parametrize(
    "category",
    ["cuda_runtime", "cuda_driver", "Runtime", "hip", "hip_runtime", "xpu_runtime", "xpu_driver", "mtia_runtime", "privateuse1_driver"],
)
def test_runtime_calls_of_all_vendors_are_launches(read: Read, category: str) -> None:
    frames, _ = read(trace(kernel(), host(category, "launch", correlation=5)))
    assert frames["launches"].row(0, named=True) == {
        "process": 100,
        "thread": 101,
        "name": "launch",
        "start_ns": 1000,
        "end_ns": 2000,
        "correlation": 5,
        "external_id": 1,
    }


def test_calls_that_only_ask_are_not_kept(read: Read) -> None:
    asking = ("cudaEventQuery", "hipStreamIsCapturing", "cuStreamIsCapturing", "cudaGetLastError", "cudaFuncSetAttribute")
    doing = (
        "cudaLaunchKernel",
        "cuLaunchKernelEx",
        "cudaEventRecord",
        "cudaStreamWaitEvent",
        "hipMemcpyAsync",
        "cudaMalloc",
        "EventQuery",
        "cu",
    )
    calls = [host("cuda_runtime", name, number, correlation=number) for number, name in enumerate((*asking, *doing))]
    frames, parsed = read(trace(kernel(), *calls, *[dict(reversed(call.items())) for call in calls]))
    assert frames["launches"]["name"].to_list() == [*doing, *doing]
    assert parsed.lines_unparsed == 0


@pytest.mark.parametrize("category", ["gpu_user_annotation", "python_function", "overhead", "cpu_instant_event", "ac2g", "Trace"])
def test_these_are_never_device_time(read: Read, category: str) -> None:
    frames, _ = read(trace(kernel(), kernel(1, cat=category)))
    assert frames["device_events"]["name"].to_list() == ["k0"]
    assert "annotations" not in frames


def test_the_2021_schema(read: Read) -> None:
    operator = {"ph": "X", "cat": "Operator", "name": "ProfilerStep#5", "pid": 9, "tid": "9", "ts": 1623142623460111, "dur": 25, "args": {}}
    device = kernel(cat="Kernel", tid="stream 7", ts=1623142623531625, dur=2, **{"external id": 544})
    frames, _ = read(trace(operator, device))
    assert frames["annotations"].select("name", "thread", "start_ns").row(0) == ("ProfilerStep#5", 9, 1623142623460111000)
    assert frames["device_events"].select("stream", "start_ns", "external_id").row(0) == (7, 1623142623531625000, 544)


def test_a_list_of_events_is_a_trace(read: Read) -> None:
    events = json.dumps([kernel(0), kernel(1)])
    for text in (events, "\ufeff" + events, events.replace("[", "[ \n", 1)):
        frames, parsed = read(text.encode())
        assert frames["device_events"].height == 2
        assert parsed.status == "ok"
    frames, parsed = read(events[:-1].encode())
    assert frames["device_events"].height == 2
    assert codes(parsed) == ["TRUNCATED_JSON"]


def test_events_may_stand_anywhere_and_a_decoy_is_none(read: Read) -> None:
    decoy = {"a": {"traceEvents": [1, 2]}, "s": '"traceEvents": [', "list": [{"x": {}}]}
    text = json.dumps({**decoy, "traceEvents": [kernel()], "z": 1, "distributedInfo": {"rank": 2, "world_size": 4}})
    frames, parsed = read(text.encode())
    assert frames["device_events"].height == 1
    assert (parsed.facts["rank"], parsed.facts["world_size"]) == (2, 4)


def test_times_are_microseconds_whatever_the_display_unit(read: Read) -> None:
    frames, _ = read(trace(kernel(ts=1000.25), displayTimeUnit="ns"))
    assert frames["device_events"]["start_ns"].to_list() == [1_000_250]


@pytest.mark.parametrize("last", [False, True])
def test_the_base_time_is_added_wherever_it_stands(read: Read, last: bool) -> None:
    base = {"baseTimeNanoseconds": 1711964646000000000}
    start = {} if last else base
    text = json.dumps({**start, "traceEvents": [kernel(), host("user_annotation", "ProfilerStep#1")], **base}).encode()
    frames, parsed = read(text)
    assert frames["device_events"]["start_ns"][0] == 1711964646000000000 + 1_000_000
    assert frames["annotations"].select("start_ns", "end_ns").row(0) == (1711964646000001000, 1711964646000002000)
    assert parsed.facts["base_time_ns"] == 1711964646000000000


def test_a_cut_file_with_relative_times_says_that_its_base_is_lost(read: Read) -> None:
    _, parsed = read(trace(kernel(), kernel(1))[:-10])
    assert codes(parsed, with_base=True) == ["TRUNCATED_JSON", "BASE_TIME_LOST"]
    _, parsed = read(trace(kernel(ts=1711964646000000), kernel(1))[:-10])
    assert codes(parsed, with_base=True) == ["TRUNCATED_JSON"]


def test_collective_metadata_are_kept_as_the_trace_has_them(read: Read) -> None:
    metadata = {
        "Collective name": "allreduce",
        "In msg nelems": 2049000,
        "Out msg nelems": 2049001,
        "Group size": 16,
        "dtype": "BFloat16",
        "In split size": "[1, 2]",
        "Out split size": [3, 4],
        "Process Group Name": "0",
        "Process Group Description": 'default "pg"',
        "Process Group Ranks": "[0, 1, 2, ..., 14, 15]",
        "Seq": 42,
        "Src Rank": 3,
        "Dst Rank": 4,
        "Comms Id": 140123,
    }
    frames, _ = read(trace(kernel(**metadata), host("cpu_op", "record_param_comms", **metadata)))
    expected = {
        "collective": "allreduce",
        "in_elements": 2049000,
        "out_elements": 2049001,
        "dtype": "BFloat16",
        "group_size": 16,
        "group_name": "0",
        "group_description": 'default "pg"',
        "group_ranks": "[0, 1, 2, ..., 14, 15]",
        "seq": 42,
        "comms_id": "140123",
        "src_rank": 3,
        "dst_rank": 4,
        "in_split": "[1, 2]",
        "out_split": "[3, 4]",
    }
    for table in ("device_events", "comm_calls"):
        row = frames[table].row(0, named=True)
        assert {name: row[name] for name in expected} == expected


def test_many_kernels_of_one_graph_launch_are_all_kept(read: Read) -> None:
    frames, _ = read(trace(*[kernel(number, correlation=77) for number in range(20)]))
    assert frames["device_events"]["correlation"].to_list() == [77] * 20
    assert frames["device_events"]["event"].to_list() == list(range(20))


def test_several_devices_in_one_file(read: Read) -> None:
    frames, _ = read(trace(kernel(0), kernel(1, device=3), kernel(2, pid=5, device=None)))
    assert sorted(frames["device_events"]["device"]) == [0, 3, 5]


def test_sync_events_tell_who_waits_for_what(read: Read) -> None:
    wait = {
        "wait_on_stream": 20,
        "wait_on_cuda_event_record_corr_id": 1385,
        "wait_on_cuda_event_id": 19,
        "stream": 24,
        "correlation": 9,
        "device": 0,
    }
    none = {
        "wait_on_stream": -1,
        "wait_on_cuda_event_record_corr_id": -1,
        "wait_on_cuda_event_id": 9,
        "stream": -1,
        "correlation": 24,
        "device": 0,
    }
    frames, _ = read(trace(host("cuda_sync", "Stream Wait Event", 1, **wait), host("cuda_sync", "Event Sync", 2, **none)))
    columns = ("name", "stream", "wait_on_stream", "wait_on_event", "wait_on_record_correlation", "correlation")
    assert frames["sync_events"].select(columns).rows() == [
        ("Stream Wait Event", 24, 20, 19, 1385, 9),
        ("Event Sync", None, None, 9, None, 24),
    ]


def test_operators_stand_in_only_where_there_is_no_device_event(read: Read) -> None:
    operators = [host("cpu_op", "aten::mm", 1), host("cpu_op", "c10d::allreduce_", 2, **{"Input Dims": [[8]], "Input type": ["float"]})]
    frames, _ = read(trace(*operators))
    assert frames["host_ops"].select("name", "input_dims").rows() == [("aten::mm", None), ("c10d::allreduce_", "[[8]]")]
    frames, _ = read(trace(*operators, kernel()))
    assert "host_ops" not in frames


def test_gloo_spans_are_annotations_with_their_sizes(read: Read) -> None:
    frames, _ = read(trace(host("user_annotation", "gloo:all_reduce", **{"Input Dims": [[6297600]], "Input type": ["float"]})))
    assert frames["annotations"].select("name", "input_dims", "input_types").row(0) == ("gloo:all_reduce", "[[6297600]]", '["float"]')


def test_begin_and_end_marks_become_spans_and_a_mark_may_lack_its_end(read: Read) -> None:
    def mark(phase: str, ts: int, name: str | None = None, category: str = "user_annotation") -> dict[str, Any]:
        event = {"ph": phase, "pid": 1, "tid": 2, "ts": ts, "cat": category, "name": name}
        return {key: value for key, value in event.items() if value is not None}

    events = [mark("B", 10, "outer"), mark("B", 11, "x", "cpu_op"), mark("B", 12, "inner"), mark("E", 13), mark("E", 14), mark("E", 20)]
    frames, parsed = read(trace(kernel(), *events, mark("B", 30, "ProfilerStep#9"), mark("E", 40, category="ac2g") | {"tid": 3}))
    rows = frames["annotations"].sort("start_ns").select("name", "start_ns", "end_ns").rows()
    assert rows == [("outer", 10_000, 20_000), ("inner", 12_000, 13_000), ("ProfilerStep#9", 30_000, None)]
    assert codes(parsed) == ["MISSING_DURATION"]


def test_forward_backward_flows_are_kept_and_launch_flows_are_not(read: Read) -> None:
    flows = [{"ph": phase, "id": 4, "pid": 1, "tid": 2, "ts": 5, "cat": cat, "name": cat} for phase in "sf" for cat in ("fwdbwd", "ac2g")]
    frames, _ = read(trace(kernel(), *flows))
    assert frames["flows"].select("flow", "phase", "at_ns").rows() == [(4, "s", 5000), (4, "f", 5000)]


def test_order_of_keys_does_not_matter(read: Read) -> None:
    events = [kernel(0, Seq=3), host("cuda_runtime", "launch", correlation=2, Seq=2**70), host("cpu_op", "record_param_comms", Seq=4)]
    turned = [dict(reversed(event.items())) for event in events]
    frames, parsed = read(trace(*events))
    other, other_parsed = read(trace(*turned))
    assert all(frames[table].equals(other[table]) for table in frames)
    assert parsed == other_parsed


def test_names_of_users_and_jobs_are_not_kept(read: Read, tmp_path: Path) -> None:
    secret = {"username": "alice", "tw_user": "alice", "mast_job_name": "secret-job", "trace_id": "F00D"}
    frames, parsed = read(trace(kernel(), **secret, host_name="node1"))
    assert "alice" not in repr(parsed) + repr(frames)
    assert "secret-job" not in repr(parsed) + repr(frames)
    assert parsed.facts["host"] == "node1"


def test_the_header_is_read_in_all_its_forms(read: Read) -> None:
    groups: list[dict[str, Any]] = [
        {"pg_name": "0", "pg_desc": "default_pg", "backend_config": "cuda:nccl", "pg_size": 2, "ranks": [0, 1]},
        {"pg_name": "1", "uid": 7, "group_size": 2, "ranks": {"4": 0, "5": 1}},
        {"pg_name": 2, "ranks": "[6, 7]"},
        {"nonsense": 1},
    ]
    expected = [("0", "default_pg", 2, [0, 1]), ("1", None, 2, [4, 5]), ("2", None, None, [6, 7])]
    for config in (groups, json.dumps(groups), {str(group.get("pg_name", "x")): group for group in groups[:3]}):
        frames, parsed = read(trace(kernel(), distributedInfo={"backend": "nccl", "rank": "3", "world_size": 8, "pg_config": config}))
        assert frames["process_groups"].select("name", "description", "size", "ranks").rows() == expected
        assert (parsed.facts["rank"], parsed.facts["backend"]) == (3, "nccl")
    _, parsed = read(trace(kernel(), distributedInfo={"rank": -1, "world_size": "many"}, deviceProperties=[{"name": "X"}]))
    assert (parsed.facts["rank"], parsed.facts["world_size"], parsed.facts["gpu_name"]) == (None, None, "X")


def test_the_2021_sample(shared_data: Path) -> None:
    frames, parsed = read_frames(shared_data / "traces/kineto_tb/resnet50_2021_single_gpu.json.gz")
    assert {table: frame.height for table, frame in frames.items()} == {"device_events": 9096, "launches": 10705, "annotations": 6}
    assert parsed.issues == ()
