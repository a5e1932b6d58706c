"""Point-to-point matching: the k-th send from a rank to another belongs to the k-th receive there."""

from __future__ import annotations

import numpy as np
import polars as pl

from netlab.align.sequences import match_by_time
from netlab.issues import Issue

__all__ = ["match_messages"]

_SCHEMA = {
    "row": pl.UInt32,
    "instance": pl.Int64,
    "group": pl.String,
    "members": pl.Int32,
    "certain": pl.Boolean,
    "op": pl.String,
    "src": pl.Int32,
    "dst": pl.Int32,
    "loose": pl.Boolean,
    "group_name": pl.String,
    "seq": pl.Int64,
}


def match_messages(
    events: pl.DataFrame, ranks: list[int], world_size: int | None, issues: list[Issue]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Match sends and receives whose peers are known.

    Parameters
    ----------
    events
        As :func:`netlab.align.matching.match_collectives` takes them, sorted by rank and launch order.

    Returns
    -------
    The events that are no message with a known peer, and the messages in the shape of that function's result.
    """
    ends = _ends(events, world_size or len(ranks))
    if ends.is_empty():
        return events, pl.DataFrame(schema=_SCHEMA)
    rest = events.join(ends.select("row"), on="row", how="anti", maintain_order="left")
    lane = ["lane_name", "window", "src", "dst"]
    found = _pair(ends, lane, issues)
    # Batched exchanges carry the label of their first operation only: a "send" there may meet a "send" here.
    single = found.filter(pl.len().over("instance") == 1).drop("instance")
    paired = found.filter(pl.len().over("instance") == 2)
    crossed = _pair(
        single.with_columns(
            low=pl.min_horizontal("src", "dst"), high=pl.max_horizontal("src", "dst"), side=pl.col("rank") > pl.min_horizontal("src", "dst")
        ),
        ["lane_name", "window", "low", "high"],
        issues,
    )
    grouped = pl.len().over("instance") == 2
    shift = int(paired["instance"].max() or 0) + 1 if paired.height else 0  # type: ignore[arg-type]
    both = pl.concat(
        [paired.with_columns(loose=pl.lit(value=False)), crossed.with_columns(pl.col("instance") + shift, loose=grouped)],
        how="diagonal_relaxed",
    )
    pair = pl.concat_str(pl.min_horizontal("src", "dst"), pl.lit(","), pl.max_horizontal("src", "dst"))
    messages = both.select(
        "row",
        "instance",
        group=pair,
        members=pl.lit(2, pl.Int32),
        certain=pl.lit(value=True),
        op=pl.col("op"),
        src=pl.col("src"),
        dst=pl.col("dst"),
        loose=pl.col("loose"),
        group_name=pl.col("group_name"),
        seq=pl.col("seq"),
    )
    return rest, messages.cast(_SCHEMA)  # type: ignore[arg-type]


def _ends(events: pl.DataFrame, world: int) -> pl.DataFrame:
    """Sends and receives with global ranks of both ends; the peer may be stated as a global rank or as a place in the group."""
    sends = events.filter(pl.col("op").is_in(["send", "recv"]))
    stated = pl.when(pl.col("op") == "send").then("dst_rank").otherwise("src_rank")
    is_member = pl.col("members").is_null() | pl.col("members").list.contains(stated)
    placed = pl.col("members").list.get(stated, null_on_oob=True)
    own = pl.col("rank")
    other_of_two = (
        pl.when(pl.col("members").list.len() == 2)
        .then(pl.col("members").list.sum() - own)
        .when(pl.col("members").is_null() & (world == 2))
        .then(1 - own)
    )
    peer = pl.when(stated.is_null() | (stated == own) | (stated < 0)).then(other_of_two).when(is_member).then(stated).otherwise(placed)
    sends = sends.with_columns(peer=peer.cast(pl.Int32)).filter(pl.col("peer").is_not_null() & (pl.col("peer") != own))
    sending = pl.col("op") == "send"
    return sends.with_columns(
        src=pl.when(sending).then(own).otherwise("peer"),
        dst=pl.when(sending).then("peer").otherwise(own),
        side=~sending,
        lane_name=pl.col("group_name").fill_null(""),
    )


def _pair(ends: pl.DataFrame, lane: list[str], issues: list[Issue]) -> pl.DataFrame:
    """Number pairs as ``instance``: by order where both sides have equally many, else by time, with a gap reported."""
    if ends.is_empty():
        return ends.with_columns(instance=pl.lit(0, pl.Int64))
    ends = ends.with_columns(place=pl.int_range(pl.len(), dtype=pl.Int64).over([*lane, "side"]))
    counts = ends.group_by(lane).agg(sends=(~pl.col("side")).sum(), receives=pl.col("side").sum())
    ends = ends.join(counts, on=lane, maintain_order="left")
    even = (pl.col("sends") == pl.col("receives")) | (pl.col("sends") == 0) | (pl.col("receives") == 0)
    uneven = ends.filter(~even)
    parts = [ends.filter(even)]
    for part in uneven.partition_by(lane, maintain_order=True):
        parts.append(_replaced(part))
        src, dst, sends, receives = part.select(lane[-2], lane[-1], "sends", "receives").row(0)
        text = (
            f"Ranks {src} and {dst} have {sends} and {receives} point-to-point kernels towards each other; those "
            f"without a partner were left "
            "unmatched, the others were matched by their ends."
        )
        issues.append(Issue(code="SEQ_GAP", message=text))
    ends = pl.concat(parts)
    # A side alone has no partner: its own number must not meet another lane's.
    key = [*lane, "place"]
    distinct = ends.select(key).unique(maintain_order=True).with_row_index("instance").with_columns(pl.col("instance").cast(pl.Int64))
    return ends.join(distinct, on=key, maintain_order="left").drop("place", "sends", "receives")


def _replaced(part: pl.DataFrame) -> pl.DataFrame:
    """Give the shorter side the places of its partners on the longer one."""
    longer_is_receiving = part["receives"][0] > part["sends"][0]
    longer = part.filter(pl.col("side") == longer_is_receiving)
    shorter = part.filter(pl.col("side") != longer_is_receiving)
    keys = pl.concat([longer, shorter]).select(key=pl.struct("dtype", "bytes").rank("dense"))["key"].to_numpy().astype(np.int64)
    place = match_by_time(keys[: longer.height], longer["end_ns"].to_numpy(), keys[longer.height :], shorter["end_ns"].to_numpy())
    alone = longer.height + np.arange(shorter.height)
    return pl.concat([longer, shorter.with_columns(pl.Series("place", np.where(place >= 0, place, alone)))])
