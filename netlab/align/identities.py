"""GUIDs and LIDs in counters replaced by the names that the fabric's own tools give for them."""

from __future__ import annotations

import polars as pl

from netlab.issues import Issue
from netlab.topology import guid_key

__all__ = ["named_devices"]


def named_devices(counters: pl.DataFrame, nodes: pl.DataFrame) -> tuple[pl.DataFrame, list[Issue]]:
    """Counters whose device is a GUID or LID, under the device and port that ``fabric_nodes`` knows for it.

    Parameters
    ----------
    counters
        ``COUNTERS``.
    nodes
        ``FABRIC_NODES``: switches keep the number of the port; a host's port gets the name of its NIC.

    Returns
    -------
    The counters, and an UNMAPPED issue for identities that nobody names.
    """
    pairs = counters.select(pl.col("device", "port").cast(pl.String)).unique().sort("device", "port")
    known = {(key, number): (device, port) for key, number, device, port in nodes.select("key", "number", "device", "port").iter_rows()}
    renamed, unnamed = [], set()
    for device, port in pairs.iter_rows():
        key = guid_key(device)
        if key is None:
            continue
        found = known.get((key, port)) or known.get((key, ""))
        if found is None:
            unnamed.add(device)
        else:
            renamed.append((device, port, found[0], found[1] or port))
    issues = []
    if unnamed:
        shown = ", ".join(sorted(unnamed)[:4]) + (f" and {len(unnamed) - 4} more" if len(unnamed) > 4 else "")
        message = (
            f"{len(unnamed)} devices are known by GUID or LID only ({shown}); add the output of "
            "ibnetdiscover to name them and their cables."
        )
        issues.append(Issue(code="UNMAPPED", severity="info", message=message))
    if not renamed:
        return counters, issues
    names = ("device", "port", "device_named", "port_named")
    table = pl.DataFrame(renamed, schema=dict.fromkeys(names, pl.Categorical), orient="row")
    joined = counters.join(table, on=["device", "port"], how="left", maintain_order="left")
    return joined.with_columns(pl.coalesce("device_named", "device").alias("device"), pl.coalesce("port_named", "port").alias("port")).drop(
        "device_named", "port_named"
    ), issues
