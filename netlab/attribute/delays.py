"""What delayed the last member of a collective, by difference to the other members, followed to the first cause.

All members of an instance left their previous common collective together. Over the stretch from there to their arrival each of them
computed, transferred, waited, copied or idled; the class in which the last member spent more than the others is what delayed it. Where
that is waiting, it was itself held up by a member of another group, and the same question is asked there.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from netlab.attribute.stretches import stretch_starts
from netlab.intervals import Int64s, cover

__all__ = ["CLASSES", "delayed_activities", "delays", "input_marks"]

#: What a member may have done in the stretch; each instant counts for the first of them that was going on.
CLASSES = ("compute", "transfer", "wait", "input", "copy", "host")

#: A sender's compute before a message is normal (the pipeline's schedule) up to this multiple of its median before such messages.
NORMAL_COMPUTE, NORMAL_SAMPLES = 1.5, 4

#: Marks of the host under which a training loop waits for its data; PyTorch writes the first by itself (torch/utils/data/dataloader.py).
INPUT_MARK = r"(?i)enumerate\(DataLoader\)|data[ _]?load|(load|get|next|fetch)_batch"

_HOST_TO_DEVICE = r"(?i)HtoD|host.?to.?device|\bM2D\b"


def input_marks(annotations: pl.DataFrame, trace_files: pl.DataFrame, clocks: pl.DataFrame) -> pl.DataFrame:
    """Stretches in which the host of a rank waited for its data, on the aligned clock: ``rank, start_ns, end_ns``.

    Parameters
    ----------
    annotations, trace_files
        Raw ``ANNOTATIONS`` and ``TRACE_FILES``; ``trace_files.rank`` as it was settled.
    clocks
        ``CLOCKS``; offsets are subtracted.
    """
    offsets = clocks.group_by("rank").agg(pl.col("offset_ns").first())
    marks = annotations.filter(pl.col("name").str.contains(INPUT_MARK) & (pl.col("end_ns") > pl.col("start_ns")))
    marks = marks.join(trace_files.select("file", "rank").drop_nulls(), on="file").join(offsets, on="rank", how="left")
    offset = pl.col("offset_ns").fill_null(0)
    return marks.select("rank", pl.col("start_ns") - offset, pl.col("end_ns") - offset).sort("rank", "start_ns", "end_ns")


def delays(
    found: pl.DataFrame,
    collectives: pl.DataFrame,
    activities: pl.DataFrame,
    steps: pl.DataFrame,
    p2p: pl.DataFrame,
    inputs: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """What delayed the last member of every measured instance that has one.

    Parameters
    ----------
    found
        Result of `netlab.attribute.instances`.
    collectives, activities, steps, p2p
        Aligned tables.
    inputs
        Result of `input_marks`; without it only exposed copies to the device count as input.

    Returns
    -------
    One row per instance, sorted by it:

    ``instance, last_rank, wait_ns``
        The instance, its last member, and the waits of the others beyond the clock error.
    ``delayed_by``
        compute, host, input, transfer or wait: the class in which the last member spent more than the median of the others; null if in
        none.
    ``cause``
        After following waits: ``straggler`` (compute, host or input of one rank), ``schedule`` (a message that waited for its sender's
        normal compute), ``transfer`` or ``unknown``.
    ``root_instance, root_rank, root_by``
        Where the chain ends: the instance, the member that was last there, and what delayed it.
    ``culprit``
        Where that is transfer: the instance whose transfer held it up.

    Examples
    --------
    Rank 1 computes 8 longer than rank 0 before their all-reduce.

    >>> from netlab.attribute.arrivals import instances
    >>> from netlab.schema.timeline import ACTIVITIES, COLLECTIVES, P2P, STEPS
    >>> members = COLLECTIVES.conform(pl.DataFrame({
    ...     "instance": [0, 0], "group": ["0,1"] * 2, "op": ["all_reduce"] * 2, "rank": [0, 1], "activity": [2, 3], "window": [0, 0],
    ...     "start_ns": [8, 16], "end_ns": [18, 18], "wait_ns": [8, 0], "transfer_ns": [2, 2], "split": ["measured"] * 2,
    ...     "layer": ["intra_node"] * 2, "members": [2, 2], "seen": [2, 2]}))
    >>> kernels = ACTIVITIES.conform(pl.DataFrame({
    ...     "rank": [0, 1], "activity": [0, 1], "kind": ["compute"] * 2, "name": ["gemm"] * 2, "start_ns": [0, 0], "end_ns": [8, 16],
    ...     "window": [0, 0]}))
    >>> found = delays(instances(members), members, kernels, STEPS.empty(), P2P.empty())
    >>> found.select("last_rank", "wait_ns", "delayed_by", "cause").row(0)
    (1, 8, 'compute', 'straggler')
    """
    late = found.filter(pl.col("last_rank").is_not_null() & (pl.col("wait_ns") > 0)).sort("instance")
    if not late.height:
        return _empty()
    late = late.with_columns(stretch_ns=stretch_starts(late, found, collectives, activities, steps))
    error = pl.col("error_ns").fill_null(0)
    beyond = (
        collectives.join(late.select("instance"), on="instance", how="semi")
        .group_by("instance")
        .agg(beyond=(pl.col("wait_ns").fill_null(0) - error).clip(lower_bound=0).sum())
    )
    late = late.join(beyond, on="instance", how="left", maintain_order="left")
    spent = _spent(late, collectives, activities, inputs)
    late = late.hstack(_by_difference(late, spent))
    late = late.with_columns(message=pl.col("instance").is_in(p2p["instance"].implode()))
    late = late.with_columns(normal=_normal(late))
    return _follow(late, collectives)


def delayed_activities(found: pl.DataFrame, collectives: pl.DataFrame) -> pl.Series:
    """Numbers of the activities that waited because of transfer elsewhere; ``found`` is the result of `delays`."""
    caused = found.filter(pl.col("cause") == "transfer").select("instance")
    waiting = collectives.filter(pl.col("wait_ns") > 0).join(caused, on="instance", how="semi")
    return waiting["activity"].sort()


def _empty() -> pl.DataFrame:
    schema = {"instance": pl.Int64, "last_rank": pl.Int32, "wait_ns": pl.Int64, "delayed_by": pl.String, "cause": pl.String}
    more = {"root_instance": pl.Int64, "root_rank": pl.Int32, "root_by": pl.String, "culprit": pl.Int64}
    return pl.DataFrame(schema=schema | more)


def _spent(late: pl.DataFrame, collectives: pl.DataFrame, activities: pl.DataFrame, inputs: pl.DataFrame | None) -> pl.DataFrame:
    """Time of every member in every class between the start of the stretch and its arrival."""
    stretches = collectives.join(late.select("instance", "last_rank", "stretch_ns"), on="instance")
    stretches = stretches.with_columns(until=pl.max_horizontal("start_ns", "stretch_ns")).sort("instance", "rank")
    rank, begin, until = (stretches[name].to_numpy().astype(np.int64) for name in ("rank", "stretch_ns", "until"))
    ranks = activities.join(stretches.select("rank").unique(), on="rank", how="semi")
    kind, copy = pl.col("kind"), pl.col("name").str.contains(_HOST_TO_DEVICE)
    moving = pl.col("transfer_start_ns").fill_null(pl.col("start_ns")).clip(pl.col("start_ns"), pl.col("end_ns"))
    communication = ranks.filter(kind == "communication")
    layers = {
        "compute": ranks.filter(kind == "compute"),
        "transfer": communication.with_columns(start_ns=moving),
        "wait": communication.with_columns(end_ns=moving),
        "input": ranks.filter((kind == "memory") & copy),
        "copy": ranks.filter((kind == "memory") & ~copy),
    }
    if inputs is not None:
        layers["input"] = pl.concat([layers["input"].select("rank", "start_ns", "end_ns"), inputs.select("rank", "start_ns", "end_ns")])
    # Every class takes what the classes before it left: the union grows, and the growth is the class's own time.
    below, so_far, columns = np.zeros(len(rank), np.int64), [], {}
    for name, frame in layers.items():
        so_far.append(frame.select("rank", "start_ns", "end_ns").with_columns(pl.col("rank").cast(pl.Int64)))
        covered = _cover(pl.concat(so_far), rank, begin, until)
        columns[name], below = covered - below, covered
    columns["host"] = until - begin - below
    return stretches.select("instance", "rank", "last_rank").hstack(pl.DataFrame(columns))


def _cover(frame: pl.DataFrame, rank: Int64s, begin: Int64s, until: Int64s) -> Int64s:
    lane, start, end = (frame[name].to_numpy() for name in ("rank", "start_ns", "end_ns"))
    return cover(lane, start, end, rank, begin, until)


def _by_difference(late: pl.DataFrame, spent: pl.DataFrame) -> pl.DataFrame:
    own = late.select("instance").join(
        spent.filter(pl.col("rank") == pl.col("last_rank")), on="instance", how="left", maintain_order="left"
    )
    others = spent.filter(pl.col("rank") != pl.col("last_rank")).group_by("instance").agg(pl.col(*CLASSES).median())
    others = late.select("instance").join(others, on="instance", how="left", maintain_order="left")
    more = np.stack([own[name].to_numpy() - others[name].to_numpy() for name in CLASSES], axis=1)
    most = more.argmax(axis=1)
    # A copy that is no input is the host's doing: it was asked for, and the device stood still for it.
    names = ["host" if name == "copy" else name for name in CLASSES]
    found = [names[place] if row[place] > 0 else None for place, row in zip(most, more, strict=True)]
    return pl.DataFrame({"delayed_by": pl.Series(found, dtype=pl.String), "own_compute": own["compute"]})


def _normal(late: pl.DataFrame) -> pl.Series:
    """Whether the compute of a message's last member is what it usually is before messages of this pair."""
    usual = late.select(
        median=pl.col("own_compute").median().over("group", "last_rank", "message"),
        samples=pl.len().over("group", "last_rank", "message"),
    )
    return (late["own_compute"] <= NORMAL_COMPUTE * usual["median"]) | (usual["samples"] <= NORMAL_SAMPLES)


def _follow(late: pl.DataFrame, collectives: pl.DataFrame) -> pl.DataFrame:
    """Follow waits to their first cause: pointers are doubled until they stop, so a chain of any length takes few passes."""
    waited = _most(late, collectives, "wait", "wait_ns")
    moved = _most(late, collectives, "transfer", "over_ns")
    place = {instance: index for index, instance in enumerate(late["instance"].to_list())}
    by = late["delayed_by"].to_list()
    parent = np.arange(len(by))
    broken = np.zeros(len(by), bool)
    for index, instance in waited.items():
        target = place.get(instance) if instance is not None else None
        parent[index] = index if target is None else target
        broken[index] = target is None
    while True:
        further = parent[parent]
        if np.array_equal(further, parent):
            break
        parent = further
    message, normal, last = late["message"].to_numpy(), late["normal"].to_numpy(), late["last_rank"].to_numpy()
    number = late["instance"].to_numpy()
    kinds = []
    for root in parent:
        kind = by[root]
        if kind is None or kind == "wait" or broken[root]:
            kinds.append("unknown")
        elif kind == "transfer":
            kinds.append("transfer")
        else:
            kinds.append("schedule" if message[root] and kind == "compute" and normal[root] else "straggler")
    return pl.DataFrame(
        {
            "instance": late["instance"],
            "last_rank": late["last_rank"],
            "wait_ns": late["beyond"],
            "delayed_by": late["delayed_by"],
            "cause": kinds,
            "root_instance": number[parent],
            "root_rank": pl.Series(last[parent], dtype=pl.Int32),
            "root_by": pl.Series([by[root] for root in parent], dtype=pl.String),
            "culprit": pl.Series([moved.get(int(root)) if by[root] == "transfer" else None for root in parent], dtype=pl.Int64),
        },
        schema_overrides={"cause": pl.String, "root_instance": pl.Int64},
    )


def _most(late: pl.DataFrame, collectives: pl.DataFrame, delayed_by: str, by: str) -> dict[int, int | None]:
    """For each row of ``late`` that was delayed so: the instance in its last member's stretch with the most of it."""
    asked = late.with_row_index("row").filter(pl.col("delayed_by") == delayed_by)
    if not asked.height:
        return {}
    usual = pl.col("transfer_ns").median().over("op", "bytes", "members", "layer")
    rows = collectives.with_columns(over_ns=pl.col("transfer_ns") - usual, wait_ns=pl.col("wait_ns").fill_null(0))
    rows = rows.sort("rank", "start_ns", "instance").select("rank", "instance", "start_ns", "end_ns", "wait_ns", "over_ns", "transfer_ns")
    rank, start = rows["rank"].to_numpy(), rows["start_ns"].to_numpy()
    first_of_rank = {int(name): place for name, place in zip(*np.unique(rank, return_index=True), strict=True)}
    amount = rows[by].fill_null(0).to_numpy()
    moved, end, instance = rows["transfer_ns"].fill_null(0).to_numpy(), rows["end_ns"].to_numpy(), rows["instance"].to_numpy()
    result: dict[int, int | None] = {}
    for row, own, last, begin, until in asked.select("row", "instance", "last_rank", "stretch_ns", "last_start_ns").iter_rows():
        low = first_of_rank[last]
        high = int(np.searchsorted(rank, last, "right"))
        low, high = low + int(np.searchsorted(start[low:high], begin)), low + int(np.searchsorted(start[low:high], until, "right"))
        inside = np.flatnonzero((instance[low:high] != own) & (end[low:high] > begin)) + low
        if not len(inside):
            result[row] = None
            continue
        best = inside[np.lexsort((-moved[inside], -amount[inside]))[0]]
        result[row] = int(instance[best]) if by != "wait_ns" or amount[best] > 0 else None
    return result
