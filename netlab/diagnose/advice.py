"""What to do about exposed transfer: it depends on how far its heaviest groups are from what their links can do."""

from __future__ import annotations

import polars as pl

from netlab.diagnose.limits import EFFICIENCY_LOW, LARGE_MESSAGE_NS
from netlab.diagnose.reached import AGAINST, KIND, name_groups, reached
from netlab.diagnose.timeline import Timeline, pooled_exposed
from netlab.units import format_bytes, format_percent

__all__ = ["transfer_action"]


def transfer_action(timeline: Timeline) -> str:
    """The next step against exposed transfer, named by the kind of groups that holds most of it."""
    table = reached(timeline, pl.lit(True), shared=True)
    if not int(table["exposed_ns"].sum()):
        return "Record sizes and groups of the collectives (netlab.capture does), so that their bandwidth is known."
    rows = max(table.partition_by(KIND, maintain_order=True), key=_exposed_ns)
    first = rows.sort("exposed_ns", "group", descending=[True, False]).row(0, named=True)
    # Of all that is exposed, also where no size is known.
    share = _exposed_ns(rows) / int(pooled_exposed(timeline)["exposed_transfer_ns"].sum())
    rate = float((rows["busbw"] * rows["exposed_ns"]).sum()) / _exposed_ns(rows)
    what = (
        f"{first['op']} {name_groups(timeline, rows)} holds {format_percent(share, 0)} of the exposed transfer and reaches {rate:.3g} GB/s"
    )
    if first["roofline_gb_per_s"] is None:
        return (
            f"{what}. Whether that is slow, only its link can tell: give {_rate_key(first['layer'])} under [links] in netlab.toml, "
            "or add the NCCL log or nccl-tests of these ranks."
        )
    ratio = rate / first["roofline_gb_per_s"]
    what += f", {format_percent(ratio, 0 if ratio >= 0.095 else 1)} of {AGAINST[first['origin']]}"
    if ratio >= EFFICIENCY_LOW:
        return (
            f"{what}: the link does its part. Send fewer bytes, hide more behind compute, or see what a faster link brings (netlab whatif)."
        )
    if first["ideal_ns"] < LARGE_MESSAGE_NS:
        return (
            f"{what}: messages of {format_bytes(first['bytes'])} cannot fill it. Send fewer and larger ones, or hide them behind compute."
        )
    return f"{what}. Find out what holds it back: transport and NICs in the NCCL log, nccl-tests on the same ranks, counters of its links."


def _exposed_ns(rows: pl.DataFrame) -> int:
    return int(rows["exposed_ns"].sum())


def _rate_key(layer: str | None) -> str:
    return f"{layer}_gbps" if layer in ("inter_node", "intra_node") else "the hosts of the ranks (ranks.csv) and inter_node_gbps"
