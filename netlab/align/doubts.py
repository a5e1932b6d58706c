"""Doubts about a run's traces as a whole: what is missing, what may be misread."""

from __future__ import annotations

import polars as pl

from netlab.issues import Issue
from netlab.shelf import Shelf
from netlab.units import NS_PER_MS, NS_PER_US

__all__ = ["tell_doubts"]

#: A kernel this long on a stream of its own is more likely communication than compute.
_LONG_KERNEL_NS = 500 * NS_PER_US
#: Names that say computing; nobody wants to be asked about a matrix product on a second stream.
_SAYS_COMPUTE = (
    r"(?i)gemm|gemv|cutlass|cublas|cudnn|conv|attention|attn|flash|fmha|softmax|norm|elementwise|triton_|dropout|embedding|adam|optimizer"
)


def tell_doubts(events: Shelf, files: pl.DataFrame, steps: pl.DataFrame, issues: list[Issue], *, gloo: bool) -> None:
    """Record absent device events, absent steps, absent communication, several devices in a file, suspicious kernels and streams."""
    lanes = _lanes(events)
    if not gloo:
        _tell_no_device_events(lanes, files, issues)
        _tell_devices(lanes, files, issues)
        _tell_unclassified(lanes, files, issues)
        _tell_shared_streams(lanes, issues)
    marked = set(steps["file"].to_list())
    without = [path for file, path in files.select("file", "path").iter_rows() if file not in marked]
    for path in without:
        text = (
            "There is no ProfilerStep mark; figures are over the whole capture."
            if not marked
            else "There is no ProfilerStep mark; its rank has no steps."
        )
        issues.append(Issue(code="NO_STEPS", message=text, source=path))
    if events.height and lanes.filter(pl.col("kind") == "communication").is_empty():
        text = "No communication kernel was seen: one rank, or a library that no rule knows (add it under [[classify]])."
        issues.append(Issue(code="NO_COMMUNICATION", message=text, severity="info"))


_LANE = ("file", "rank", "device", "stream", "category", "name", "kind")


def _lanes(events: Shelf) -> pl.DataFrame:
    """How many activities of each name and kind ran on each stream, and the longest of them."""
    parts = [
        part.group_by(*_LANE).agg(count=pl.len(), longest=(pl.col("end_ns") - pl.col("start_ns")).max())
        for part in events.stretches(*_LANE, "start_ns", "end_ns")
    ]
    return pl.concat(parts).group_by(*_LANE).agg(pl.col("count").sum(), pl.col("longest").max())


def _tell_no_device_events(lanes: pl.DataFrame, files: pl.DataFrame, issues: list[Issue]) -> None:
    seen = set(lanes["file"].unique().to_list())
    for file, path in files.select("file", "path").iter_rows():
        if file not in seen:
            text = "There is no device activity (kernels, copies) in this trace, so it gives no shares; record with ProfilerActivity.CUDA."
            issues.append(Issue(code="NO_DEVICE_EVENTS", message=text, source=path))


def _tell_devices(lanes: pl.DataFrame, files: pl.DataFrame, issues: list[Issue]) -> None:
    kernels = lanes.filter((pl.col("category") == "kernel") & pl.col("device").is_not_null())
    several = kernels.group_by("file").agg(pl.col("device").unique().sort()).filter(pl.col("device").list.len() > 1)
    for path, devices in several.join(files, on="file").sort("path").select("path", "device").iter_rows():
        text = f"One file has kernels of devices {', '.join(map(str, devices))}; each device has a timeline of its own."
        issues.append(Issue(code="MULTI_DEVICE", message=text, source=path))


def _tell_unclassified(lanes: pl.DataFrame, files: pl.DataFrame, issues: list[Issue]) -> None:
    """Streams that run one kind of kernel only, for long, beside a stream that does the computing."""
    kernels = lanes.filter(pl.col("category") == "kernel")
    streams = kernels.group_by("file", "device", "stream").agg(
        name=pl.col("name").first().cast(pl.String),
        names=pl.col("name").n_unique(),
        longest=pl.col("longest").max(),
        count=pl.col("count").sum(),
        compute=(pl.col("kind") == "compute").all(),
    )
    lane = ["file", "device"]
    order = [pl.col("names"), pl.col("count"), -pl.col("stream")]
    main = pl.col("stream") == pl.col("stream").sort_by(*order, descending=True).first().over(lane)
    found = streams.filter((pl.col("names") == 1) & pl.col("compute") & (pl.col("longest") >= _LONG_KERNEL_NS) & ~main)
    found = found.filter(~pl.col("name").str.contains(_SAYS_COMPUTE))
    for path, stream, name, longest in (
        found.join(files, on="file").sort("path", "stream").select("path", "stream", "name", "longest").iter_rows()
    ):
        text = (
            f"Kernel {name!r} runs alone on stream {stream} for up to {longest / NS_PER_MS:.3g} ms; it counts as compute, but may be "
            "communication: add it under [[classify]] if so."
        )
        issues.append(Issue(code="UNCLASSIFIED_KERNEL", message=text, source=path))


def _tell_shared_streams(lanes: pl.DataFrame, issues: list[Issue]) -> None:
    kernels = lanes.filter((pl.col("category") == "kernel") & pl.col("stream").is_not_null())
    streams = kernels.group_by("rank", "device", "stream").agg(
        communication=pl.col("count").filter(pl.col("kind") == "communication").sum(),
        compute=pl.col("count").filter(pl.col("kind") == "compute").sum(),
    )
    shared = streams.filter((pl.col("communication") > 0) & (pl.col("compute") > 0))
    if shared.is_empty():
        return
    ranks = shared["rank"].unique().sort().to_list()
    text = (
        f"{shared['communication'].sum()} communication kernels of {len(ranks)} rank(s) (first: rank {ranks[0]}) run on a stream that also "
        "computes; on one stream they cannot overlap."
    )
    issues.append(Issue(code="COMM_ON_COMPUTE_STREAM", message=text, severity="info"))
