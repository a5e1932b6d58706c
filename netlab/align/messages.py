"""Point-to-point matching: the k-th send from a rank to another belongs to the k-th receive there."""

from __future__ import annotations

import numpy as np
import polars as pl

from netlab.align.classify import SEND_RECV
from netlab.align.lanes import number_rows
from netlab.align.sequences import match_by_time
from netlab.issues import Issue

__all__ = ["match_messages"]

_COLUMNS = ("row", "instance", "gid", "op", "src", "dst", "loose", "message_bytes")


def match_messages(
    events: pl.DataFrame,
    parts: pl.DataFrame,
    members_of: dict[int, tuple[tuple[int, ...], int]],
    world_size: int | None,
    issues: list[Issue],
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Match sends and receives whose peers are known.

    Parameters
    ----------
    events
        As :func:`netlab.align.matching.match_collectives` prepares them, sorted by rank and launch order.
    parts
        Messages of kernels that run several, see :func:`netlab.align.metadata.batched_messages`.
    members_of
        Members and size by gid; the pairs that exchange messages are added as groups of two.

    Returns
    -------
    The events that are no message with a known peer, and for the others what matching says: one row per message and end, so that a kernel
    with several messages has several.
    """
    ends = _ends(events, parts, members_of, world_size)
    if ends.is_empty():
        return events, ends
    rest = events.join(ends.select("row"), on="row", how="anti", maintain_order="left")
    found = _pair(ends, ["name_id", "window", "src", "dst"], issues)
    # Batched exchanges carry the label of their first operation only: where no send of two ranks finds its receive, their sends meet.
    found = found.with_columns(
        low=pl.min_horizontal("src", "dst"), high=pl.max_horizontal("src", "dst"), paired=pl.len().over("instance") == 2
    )
    lane = ["name_id", "window", "low", "high"]
    labelled = pl.col("paired").any().over(lane)
    crossed = _pair(found.filter(~labelled).drop("instance").with_columns(side=pl.col("rank") > pl.col("low")), lane, issues)
    crossed = _with_unsaid_ends(crossed.with_columns(pl.col("instance") + found.height), ends)
    both = pl.concat(
        [
            found.filter(labelled).with_columns(loose=pl.len().over("row") > 1).select(*_COLUMNS),
            crossed.with_columns(loose=pl.lit(value=True)).select(*_COLUMNS),
        ]
    )
    pairs = _pair_groups(both, members_of)
    both = both.drop("gid").join(pairs, on=["src", "dst"], maintain_order="left").rename({"instance": "pair"})
    return rest, number_rows(both, ["pair"]).select(*_COLUMNS)


def _with_unsaid_ends(crossed: pl.DataFrame, ends: pl.DataFrame) -> pl.DataFrame:
    """Give a message of which only one end is labelled its other end: the peer's batch of the same number.

    A ring shift runs as one kernel per rank that sends to the next rank and receives from the one before; all carry the label of the send.
    A number is needed, and every message of the pair must find its batch: otherwise the other ends were lost, not unsaid.
    """
    lane = ["name_id", "window", "src", "dst"]
    lone = crossed.filter(pl.len().over("instance") == 1)
    lone = lone.with_columns(rank=pl.when(pl.col("rank") == pl.col("src")).then("dst").otherwise("src"))
    key = ["gid", "name_id", "window", "rank", "seq"]
    batches = ends.filter(pl.col("labelled") & pl.col("seq").is_not_null()).select(*key, batch="row")
    batches = batches.filter(pl.len().over(key) == 1)
    unsaid = lone.filter(pl.col("labelled")).join(batches, on=key, how="left", maintain_order="left")
    unsaid = unsaid.filter(pl.col("batch").is_not_null().all().over(lane))
    return pl.concat([crossed, unsaid.with_columns(row="batch").select(crossed.columns)])


def _pair_groups(ends: pl.DataFrame, members_of: dict[int, tuple[tuple[int, ...], int]]) -> pl.DataFrame:
    known = {members: gid for gid, (members, size) in members_of.items() if size == len(members)}
    distinct = ends.select("src", "dst").unique().sort("src", "dst")
    gids = []
    for src, dst in distinct.iter_rows():
        members = (min(src, dst), max(src, dst))
        gid = known.setdefault(members, max(members_of) + 1)
        members_of.setdefault(gid, (members, 2))
        gids.append(gid)
    return distinct.with_columns(pl.Series("gid", gids, dtype=pl.Int32))


def _ends(
    events: pl.DataFrame, parts: pl.DataFrame, members_of: dict[int, tuple[tuple[int, ...], int]], world_size: int | None
) -> pl.DataFrame:
    """Sends and receives with global ranks of both ends; the peer may be stated as a global rank or as a place in the group."""
    batched = events.join(parts, on=["file", "event"], suffix="_part", maintain_order="left_right")
    stated = [name for name in parts.columns if name not in ("file", "event")]
    batched = batched.with_columns(pl.col(f"{name}_part").alias(name) for name in stated).select(events.columns)
    single = events.join(parts, on=["file", "event"], how="anti", maintain_order="left").filter(pl.col("op").is_in(["send", "recv"]))
    # A kernel that only its label speaks for may have run more than the label says.
    single = single.with_columns(labelled=pl.col("kernel_op").is_in([SEND_RECV, "unknown"]))
    sends = pl.concat([single, batched.with_columns(labelled=pl.lit(value=False))])
    sends = sends.sort("rank", "window", "order_ns", "start_ns", "row", maintain_order=True)
    gids = sends["gid"].unique().to_list()
    members = pl.DataFrame(
        {"gid": gids, "members": [list(members_of[gid][0]) for gid in gids]}, schema={"gid": pl.Int32, "members": pl.List(pl.Int32)}
    )
    sends = sends.join(members, on="gid", maintain_order="left")
    own, peer_stated = pl.col("rank"), pl.when(pl.col("op") == "send").then("dst_rank").otherwise("src_rank")
    # Without a group the world stands for it, and only where it is known to have two ranks is the peer certain.
    two = (pl.col("members").list.len() == 2) & (~pl.col("assumed") | (pl.lit(world_size) == 2).fill_null(value=False))
    other_of_two = pl.when(two).then(pl.col("members").list.sum() - own)
    placed = pl.col("members").list.get(peer_stated, null_on_oob=True)
    peer = (
        pl.when(peer_stated.is_null() | (peer_stated == own) | (peer_stated < 0))
        .then(other_of_two)
        .when(pl.col("assumed") | pl.col("members").list.contains(peer_stated))
        .then(peer_stated)
        .otherwise(placed)
    )
    sends = sends.with_columns(peer=peer.cast(pl.Int32)).filter(pl.col("peer").is_not_null() & (pl.col("peer") != own))
    sending = pl.col("op") == "send"
    return sends.with_columns(
        src=pl.when(sending).then(own).otherwise("peer"),
        dst=pl.when(sending).then("peer").otherwise(own),
        side=~sending,
        message_bytes=pl.col("bytes"),
    )


def _pair(ends: pl.DataFrame, lane: list[str], issues: list[Issue]) -> pl.DataFrame:
    """Number pairs as ``instance``: by order where both sides have equally many, else by time, with a gap reported."""
    if ends.is_empty():
        return ends.with_columns(instance=pl.lit(0, pl.Int64))
    ends = ends.with_columns(place=pl.int_range(pl.len(), dtype=pl.Int64).over([*lane, "side"]))
    counts = ends.group_by(lane).agg(sends=(~pl.col("side")).sum(), receives=pl.col("side").sum())
    ends = ends.join(counts, on=lane, maintain_order="left")
    even = (pl.col("sends") == pl.col("receives")) | (pl.col("sends") == 0) | (pl.col("receives") == 0)
    parts = [ends.filter(even)]
    for part in ends.filter(~even).partition_by(lane, maintain_order=True):
        parts.append(_replaced(part))
        src, dst, sends, receives = part.select(lane[-2], lane[-1], "sends", "receives").row(0)
        text = (
            f"Of the messages from rank {src} to rank {dst}, {sends} sends and {receives} receives were seen; the surplus was lost on the "
            "other side, the rest was matched by common ends."
        )
        issues.append(Issue(code="SEQ_GAP", message=text))
    return number_rows(pl.concat(parts), [*lane, "place"]).drop("place", "sends", "receives")


def _replaced(part: pl.DataFrame) -> pl.DataFrame:
    """Give the shorter side the places of its partners on the longer one."""
    longer_is_receiving = part["receives"][0] > part["sends"][0]
    longer = part.filter(pl.col("side") == longer_is_receiving)
    shorter = part.filter(pl.col("side") != longer_is_receiving)
    keys = number_rows(pl.concat([longer, shorter]), ["dtype", "bytes"], "key")["key"].to_numpy()
    place = match_by_time(keys[: longer.height], longer["end_ns"].to_numpy(), keys[longer.height :], shorter["end_ns"].to_numpy())
    alone = longer.height + np.arange(shorter.height)
    return pl.concat([longer, shorter.with_columns(pl.Series("place", np.where(place >= 0, place, alone)))])
