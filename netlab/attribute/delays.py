"""What delayed the last member of a collective, by difference to the other members, followed to the first cause.

Since their previous common collective each member computed, transferred, waited, copied or idled until it arrived. The class in which the
last member spent more than the others is what delayed it. Where that is waiting, it was itself held up by a member of another group, and
the same question is asked there.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from netlab.attribute.arrivals import group_list
from netlab.attribute.stretches import CLASSES, members_since, stretch_starts
from netlab.intervals import Int64s

__all__ = ["delayed_activities", "delays", "input_marks"]

#: A sender's compute before a message is normal (the pipeline's schedule) unless its compute of a step exceeds that of the other ranks of
#: its stage by the first factor, or its compute before the message the median before messages of this pair by the second.
NORMAL_FOR_STAGE, NORMAL_FOR_ITSELF, NORMAL_SAMPLES = 1.2, 1.5, 4

#: Marks of the host under which a training loop waits for its data; PyTorch writes the first by itself (torch/utils/data/dataloader.py).
INPUT_MARK = r"(?i)enumerate\(DataLoader\)|data[ _]?load|(load|get|next|fetch)_batch"


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
    exposed: pl.DataFrame,
    collectives: pl.DataFrame,
    activities: pl.DataFrame,
    steps: pl.DataFrame,
    p2p: pl.DataFrame,
    inputs: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """What delayed the last member of every measured instance whose members do not arrive together.

    Parameters
    ----------
    found
        Result of `netlab.attribute.instances`.
    exposed
        Result of `netlab.attribute.exposed_members`.
    collectives, activities, steps, p2p
        Aligned tables.
    inputs
        Result of `input_marks`; without it only exposed copies to the device count as input.

    Returns
    -------
    One row per instance, sorted by it:

    ``instance, late_rank, wait_ns``
        The instance, its last member (lowest of those that arrive within the clock error of each other), and the waits of the others
        beyond that error.
    ``delayed_by``
        compute, host, input, transfer, wait or communication (of instances with unseen members): the class in which the last member spent
        more than the median of the members that came early; null if in none.
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
    >>> from netlab.attribute.groups import exposed_members
    >>> from netlab.schema.timeline import ACTIVITIES, COLLECTIVES, P2P, STEPS
    >>> members = COLLECTIVES.conform(pl.DataFrame({
    ...     "instance": [0, 0], "group": ["0,1"] * 2, "op": ["all_reduce"] * 2, "rank": [0, 1], "activity": [2, 3], "window": [0, 0],
    ...     "start_ns": [8, 16], "end_ns": [18, 18], "wait_ns": [8, 0], "transfer_ns": [2, 2], "split": ["measured"] * 2,
    ...     "layer": ["intra_node"] * 2, "members": [2, 2], "seen": [2, 2]}))
    >>> kernels = ACTIVITIES.conform(pl.DataFrame({
    ...     "rank": [0, 1], "activity": [0, 1], "kind": ["compute"] * 2, "name": ["gemm"] * 2, "start_ns": [0, 0], "end_ns": [8, 16],
    ...     "window": [0, 0]}))
    >>> found = delays(instances(members), exposed_members(members, kernels), members, kernels, STEPS.empty(), P2P.empty())
    >>> found.select("late_rank", "wait_ns", "delayed_by", "cause").row(0)
    (1, 8, 'compute', 'straggler')
    """
    late = found.filter(pl.col("late_rank").is_not_null() & (pl.col("wait_ns") > 0)).sort("instance")
    if not late.height:
        return _empty()
    late = late.with_columns(stretch_ns=stretch_starts(late, found, exposed, collectives, activities, steps))
    error = pl.col("error_ns").fill_null(0)
    beyond = (
        collectives.join(late.select("instance"), on="instance", how="semi")
        .group_by("instance")
        .agg(beyond=(pl.col("wait_ns").fill_null(0) - error).clip(lower_bound=0).sum())
    )
    late = late.join(beyond, on="instance", how="left", maintain_order="left")
    late = late.hstack(_by_difference(late, members_since(late, collectives, activities, inputs)))
    late = late.with_columns(message=pl.col("instance").is_in(p2p["instance"].implode()))
    late = late.with_columns(normal=_normal(late, found["group"].unique().to_list(), activities))
    return _follow(late, collectives, exposed)


def delayed_activities(found: pl.DataFrame, collectives: pl.DataFrame) -> pl.Series:
    """Numbers of the activities that waited because of transfer elsewhere; ``found`` is the result of `delays`."""
    caused = found.filter(pl.col("cause") == "transfer").select("instance")
    waiting = collectives.filter(pl.col("wait_ns") > 0).join(caused, on="instance", how="semi")
    return waiting["activity"].sort()


def _empty() -> pl.DataFrame:
    schema = {"instance": pl.Int64, "late_rank": pl.Int32, "wait_ns": pl.Int64, "delayed_by": pl.String, "cause": pl.String}
    more = {"root_instance": pl.Int64, "root_rank": pl.Int32, "root_by": pl.String, "culprit": pl.Int64}
    return pl.DataFrame(schema=schema | more)


def _by_difference(late: pl.DataFrame, spent: pl.DataFrame) -> pl.DataFrame:
    """What the last member spent beyond the median of those that came early, per class; the largest names the delay."""
    lasts = pl.col("rank") == pl.col("late_rank")
    own = late.select("instance").join(spent.filter(lasts), on="instance", how="left", maintain_order="left")
    # Members that were held up together are not compared with each other: the early half of the arrivals is the measure.
    early = 2 * pl.col("since_ns") <= pl.col("since_ns").max().over("instance")
    others = spent.filter(early).group_by("instance").agg(pl.col(*CLASSES).median())
    others = late.select("instance").join(others, on="instance", how="left", maintain_order="left")
    more = np.stack([own[name].to_numpy() - others[name].to_numpy() for name in CLASSES], axis=1)
    most = more.argmax(axis=1)
    # A copy that is no input is the host's doing: it was asked for, and the device stood still for it.
    names = ["host" if name == "copy" else name for name in CLASSES]
    found = [names[place] if row[place] > 0 else None for place, row in zip(most, more, strict=True)]
    return pl.DataFrame({"delayed_by": pl.Series(found, dtype=pl.String), "own_compute": own["compute"]})


def _normal(late: pl.DataFrame, groups: list[str], activities: pl.DataFrame) -> pl.Series:
    """Whether the compute of a message's last member is normal: as that of its stage, and as it usually is before messages of its pair."""
    messages = late.filter("message")
    if not messages.height:
        return pl.repeat(True, late.height, eager=True)
    peers = _stage_peers(set(messages["group"].to_list()), groups)
    work = (
        activities.filter(pl.col("kind") == "compute")
        .group_by("rank", "window", "step")
        .agg(time=(pl.col("end_ns") - pl.col("start_ns")).sum())
    )
    usual: dict[int, float] = dict(work.group_by("rank").agg(pl.col("time").median()).iter_rows())
    slow = []
    for rank in peers.keys() & usual.keys():
        others = [usual[peer] for peer in peers[rank] if peer in usual]
        if others and usual[rank] > NORMAL_FOR_STAGE * float(np.median(others)):
            slow.append(rank)
    pair = ("group", "late_rank", "message")
    above = (pl.col("own_compute") > NORMAL_FOR_ITSELF * pl.col("own_compute").median().over(pair)) & (pl.len().over(pair) > NORMAL_SAMPLES)
    return late.select(~(above | pl.col("late_rank").is_in(slow))).to_series()


def _stage_peers(messages: set[str], groups: list[str]) -> dict[int, set[int]]:
    """Ranks of the same pipeline stage: those that share a group with a rank in which it has no partner of messages."""
    partners: dict[int, set[int]] = {}
    for group in messages:
        members = group_list(group)
        for rank in members:
            partners.setdefault(rank, set()).update(members)
    peers: dict[int, set[int]] = {rank: set() for rank in partners}
    for group in groups:
        if group not in messages:
            ranks = set(group_list(group))
            for rank in ranks & partners.keys():
                if not (partners[rank] - {rank}) & ranks:
                    peers[rank] |= ranks - {rank}
    return peers


def _follow(late: pl.DataFrame, collectives: pl.DataFrame, exposed: pl.DataFrame) -> pl.DataFrame:
    """Follow waits to their first cause: pointers are doubled until they stop, so a chain of any length takes few passes."""
    rows = collectives.select("instance", "rank", "start_ns", "end_ns", "op", "bytes", "members", "layer", "transfer_ns")
    usual = pl.col("transfer_ns").median().over("op", "bytes", "members", "layer")
    rows = rows.with_columns(over_ns=pl.col("transfer_ns") - usual).hstack(exposed.select("exposed_transfer_ns", "exposed_wait_ns"))
    rows = rows.sort("rank", "start_ns", "instance")
    waited = _most(late, rows, "wait", pl.col("exposed_wait_ns"))
    moved = _most(late, rows, "transfer", pl.min_horizontal("over_ns", "exposed_transfer_ns"))
    by = late["delayed_by"].to_list()
    asked = pl.DataFrame({"asked": pl.Series([waited.get(row) for row in range(len(by))], dtype=pl.Int64)})
    place = late.select(asked="instance", target=pl.int_range(pl.len(), dtype=pl.Int64), target_ns="last_start_ns")
    targets = asked.join(place, on="asked", how="left", maintain_order="left")
    # A cause comes before its effect; what does not cannot be followed, and chains stay free of circles.
    earlier = (targets["target_ns"] < late["last_start_ns"]).fill_null(False).to_numpy()
    follows = np.array([kind == "wait" for kind in by])
    own = np.arange(len(by))
    parent = np.where(follows & earlier, targets["target"].fill_null(0).to_numpy(), own)
    broken = follows & ~earlier
    while not np.array_equal(parent[parent], parent):
        parent = parent[parent]
    message, normal, last = late["message"].to_numpy(), late["normal"].to_numpy(), late["late_rank"].to_numpy()
    number = late["instance"].to_numpy()
    kinds = []
    for root in parent:
        kind = by[root]
        if kind is None or kind == "communication" or broken[root]:
            kinds.append("unknown")
        elif kind == "transfer":
            kinds.append("transfer")
        else:
            kinds.append("schedule" if message[root] and kind == "compute" and normal[root] else "straggler")
    return pl.DataFrame(
        {
            "instance": late["instance"],
            "late_rank": late["late_rank"],
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


def _most(late: pl.DataFrame, rows: pl.DataFrame, delayed_by: str, amount: pl.Expr) -> dict[int, int]:
    """For each row of ``late`` that was delayed so: the instance in its last member's stretch with the most of it."""
    asked = late.with_row_index("row").filter(pl.col("delayed_by") == delayed_by)
    if not asked.height:
        return {}
    low, high = _places(rows, asked)
    # One row per (asked instance, collective in its stretch); the best of each is its first after sorting.
    counts = np.maximum(high - low, 0)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    pairs = asked.select("row", "instance", "stretch_ns")[np.repeat(np.arange(asked.height), counts)]
    inside = rows.select(other="instance", end_ns="end_ns", moved_ns=pl.col("transfer_ns").fill_null(0), amount_ns=amount.fill_null(0))
    pairs = pairs.hstack(inside[np.repeat(low, counts) + within])
    pairs = pairs.filter((pl.col("other") != pl.col("instance")) & (pl.col("end_ns") > pl.col("stretch_ns")))
    best = pairs.sort("row", "amount_ns", "moved_ns", "other", descending=[False, True, True, False]).unique("row", keep="first")
    if delayed_by == "wait":
        best = best.filter(pl.col("amount_ns") > 0)
    return dict(best.select("row", "other").iter_rows())


def _places(rows: pl.DataFrame, asked: pl.DataFrame) -> tuple[Int64s, Int64s]:
    """Range of rows (sorted by rank and start) of each asked instance's last member within its stretch."""
    origin = min(int(rows["start_ns"].min()), int(asked["stretch_ns"].min()))  # type: ignore[arg-type]
    span = max(int(rows["start_ns"].max()), int(asked["last_start_ns"].max())) - origin + 2  # type: ignore[arg-type]
    key = rows["rank"].cast(pl.Int64).to_numpy() * span + rows["start_ns"].to_numpy() - origin
    lane = asked["late_rank"].cast(pl.Int64).to_numpy() * span - origin
    return np.searchsorted(key, lane + asked["stretch_ns"].to_numpy()), np.searchsorted(
        key, lane + asked["last_start_ns"].to_numpy(), "right"
    )
