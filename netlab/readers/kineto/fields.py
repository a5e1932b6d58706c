"""What is read of a trace event: names of the source to slots of a row, and categories to kinds.

A row has one slot per integer (``INTEGERS``) and one per text (``TEXTS``). Spellings of one thing that occur side by side keep slots of
their own and are put together in ``frames``. Sources: libkineto ``ActivityType.cpp`` and ``output_json.cpp``, torch ``profiler/util.cpp``
(``saveNcclMeta``), and the samples named in tests.
"""

from __future__ import annotations

__all__ = [
    "ANNOTATION",
    "ARGUMENT_FIELDS",
    "CATEGORIES",
    "COMM_CALL",
    "EVENT_FIELDS",
    "FIELD_ARGS",
    "FIELD_CATEGORY",
    "FIELD_NAME",
    "FIELD_PHASE",
    "FLOW",
    "HOST_OP",
    "IGNORED",
    "INTEGERS",
    "INTEGER_FIELD",
    "KERNEL",
    "LAUNCH",
    "MARKS",
    "MARK_NAMES",
    "MEMCPY",
    "MEMSET",
    "QUERY_PREFIXES",
    "QUERY_STEMS",
    "SUFFIXES",
    "SYNC",
    "TEXTS",
    "TEXT_FIELD",
    "TIME_FIELD",
    "UNKNOWN",
    "WANTED_INTEGERS",
    "WANTED_TEXTS",
]

# Kinds of events. The three device kinds come first.
KERNEL, MEMCPY, MEMSET, LAUNCH, SYNC, ANNOTATION, HOST_OP, COMM_CALL, FLOW = range(1, 10)
IGNORED, UNKNOWN = 0, 10
#: Begin and end marks (phases B and E), which are paired afterwards whatever their category.
MARKS = (ord("B"), ord("E"))
#: Beginnings of names that are marks although their category is that of an operator (2021).
MARK_NAMES = (b"ProfilerStep", b"gloo:")

#: Category, in lower case, to kind. 2021 wrote ``Kernel``, ``Operator``, ``Runtime``; AMD reports HIP calls as ``cuda_runtime``.
CATEGORIES: dict[str, int] = {
    "kernel": KERNEL,
    "concurrent_kernel": KERNEL,
    "gpu_kernel": KERNEL,
    "mtia_ccp_events": KERNEL,
    "gpu_memcpy": MEMCPY,
    "memcpy": MEMCPY,
    "gpu_memset": MEMSET,
    "memset": MEMSET,
    "cuda_runtime": LAUNCH,
    "cuda_driver": LAUNCH,
    "runtime": LAUNCH,
    "driver": LAUNCH,
    "hip": LAUNCH,
    "cuda_sync": SYNC,
    "user_annotation": ANNOTATION,
    "cpu_op": HOST_OP,
    "operator": HOST_OP,
    "fwdbwd": FLOW,
    "forward_backward": FLOW,
    "async_fwdbwd": FLOW,
}
#: Endings that tell the kind of a category of another device (``xpu_runtime``, ``privateuse1_driver``, ``mtia_runtime``, ``npu_kernel``).
SUFFIXES: dict[str, int] = {"_kernel": KERNEL, "_memcpy": MEMCPY, "_memset": MEMSET, "_runtime": LAUNCH, "_driver": LAUNCH, "_sync": SYNC}

INTEGERS: tuple[str, ...] = (
    "ts",
    "dur",
    "pid",
    "tid",
    "id",
    "correlation",
    "stream",
    "external_id",
    "external_id_capital",
    "external_id_lower",
    "device",
    "in_elements",
    "out_elements",
    "group_size",
    "seq",
    "bytes",
    "src_rank",
    "dst_rank",
    "wait_on_stream",
    "wait_on_event",
    "wait_on_record_correlation",
)
TEXTS: tuple[str, ...] = (
    "name",
    "collective",
    "group_name",
    "group_description",
    "group_ranks",
    "dtype",
    "comms_id",
    "in_split",
    "out_split",
    "grid",
    "input_dims",
    "input_types",
)

#: Runtime calls behind ``cuda``, ``hip`` or ``cu`` that only ask or set something: they launch nothing and wait for nothing. In real traces
#: they are half of all calls (watchdogs that poll events, allocators that ask whether a graph is captured); tables do not keep them.
QUERY_STEMS: tuple[str, ...] = (
    "CtxGetCurrent",
    "CtxGetDevice",
    "CtxSetCurrent",
    "DeviceGetAttribute",
    "DeviceGetDefaultMemPool",
    "DeviceGetPCIBusId",
    "DeviceGetStreamPriorityRange",
    "DriverGetVersion",
    "EventCreate",
    "EventCreateWithFlags",
    "EventDestroy",
    "EventElapsedTime",
    "EventQuery",
    "FuncGetAttribute",
    "FuncGetAttributes",
    "FuncSetAttribute",
    "GetDevice",
    "GetDeviceCount",
    "GetDeviceProperties",
    "GetDevicePropertiesR0600",
    "GetDeviceProperties_v2",
    "GetFuncBySymbol",
    "GetLastError",
    "GetProcAddress",
    "OccupancyMaxActiveBlocksPerMultiprocessor",
    "OccupancyMaxActiveBlocksPerMultiprocessorWithFlags",
    "PeekAtLastError",
    "PointerGetAttribute",
    "PointerGetAttributes",
    "RuntimeGetVersion",
    "SetDevice",
    "StreamGetCaptureInfo",
    "StreamGetCaptureInfo_v2",
    "StreamGetCaptureInfo_v3",
    "StreamGetDevice",
    "StreamGetFlags",
    "StreamGetId",
    "StreamGetPriority",
    "StreamIsCapturing",
    "StreamQuery",
    "ThreadExchangeStreamCaptureMode",
)
#: Longer one first, as one begins like the other.
QUERY_PREFIXES: tuple[str, ...] = ("cuda", "hip", "cu")

# What to do with a value; a field is (what, slot).
INTEGER_FIELD, TIME_FIELD, TEXT_FIELD, FIELD_PHASE, FIELD_CATEGORY, FIELD_NAME, FIELD_ARGS = range(7)


def _integer(name: str) -> tuple[int, int]:
    return INTEGER_FIELD, INTEGERS.index(name)


def _text(name: str) -> tuple[int, int]:
    return TEXT_FIELD, TEXTS.index(name)


#: Keys of an event.
EVENT_FIELDS: dict[str, tuple[int, int]] = {
    "ph": (FIELD_PHASE, 0),
    "cat": (FIELD_CATEGORY, 0),
    "name": (FIELD_NAME, 0),
    "pid": _integer("pid"),
    "tid": _integer("tid"),
    "ts": (TIME_FIELD, INTEGERS.index("ts")),
    "dur": (TIME_FIELD, INTEGERS.index("dur")),
    "id": _integer("id"),
    "args": (FIELD_ARGS, 0),
}

#: Keys of an event's ``args``.
ARGUMENT_FIELDS: dict[str, tuple[int, int]] = {
    "correlation": _integer("correlation"),
    "stream": _integer("stream"),
    "External id": _integer("external_id"),
    "External Id": _integer("external_id_capital"),
    "external id": _integer("external_id_lower"),
    "device": _integer("device"),
    "In msg nelems": _integer("in_elements"),
    "Out msg nelems": _integer("out_elements"),
    "Group size": _integer("group_size"),
    "Seq": _integer("seq"),
    "bytes": _integer("bytes"),
    "Src Rank": _integer("src_rank"),
    "Dst Rank": _integer("dst_rank"),
    "wait_on_stream": _integer("wait_on_stream"),
    "wait_on_cuda_event_id": _integer("wait_on_event"),
    "wait_on_cuda_event_record_corr_id": _integer("wait_on_record_correlation"),
    "Collective name": _text("collective"),
    "Process Group Name": _text("group_name"),
    "Process Group Description": _text("group_description"),
    "Process Group Ranks": _text("group_ranks"),
    "dtype": _text("dtype"),
    "Comms Id": _text("comms_id"),
    "In split size": _text("in_split"),
    "Out split size": _text("out_split"),
    "grid": _text("grid"),
    "Input Dims": _text("input_dims"),
    "Input type": _text("input_types"),
}

_COLLECTIVE_INTEGERS = ("in_elements", "out_elements", "group_size", "seq", "src_rank", "dst_rank")
_COLLECTIVE_TEXTS = ("collective", "group_name", "group_description", "group_ranks", "dtype", "comms_id", "in_split", "out_split")
_EXTERNAL = ("external_id", "external_id_capital", "external_id_lower")
_DEVICE_INTEGERS = ("correlation", "stream", *_EXTERNAL, "device", "bytes", *_COLLECTIVE_INTEGERS)

#: Slots from ``args`` that each kind needs; everything else is stepped over.
WANTED_INTEGERS: dict[int, tuple[str, ...]] = {
    KERNEL: _DEVICE_INTEGERS,
    MEMCPY: _DEVICE_INTEGERS,
    MEMSET: _DEVICE_INTEGERS,
    LAUNCH: ("correlation", *_EXTERNAL),
    SYNC: ("correlation", "stream", "device", "wait_on_stream", "wait_on_event", "wait_on_record_correlation"),
    ANNOTATION: _EXTERNAL,
    HOST_OP: _EXTERNAL,
    COMM_CALL: (*_EXTERNAL, *_COLLECTIVE_INTEGERS),
    FLOW: (),
}
WANTED_TEXTS: dict[int, tuple[str, ...]] = {
    KERNEL: ("grid", *_COLLECTIVE_TEXTS),
    MEMCPY: _COLLECTIVE_TEXTS,
    MEMSET: _COLLECTIVE_TEXTS,
    ANNOTATION: ("input_dims", "input_types"),
    HOST_OP: ("input_dims", "input_types"),
    COMM_CALL: _COLLECTIVE_TEXTS,
}
