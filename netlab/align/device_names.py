"""One name for each device: exporters say ``leaf1.example.com``, cabling sheets ``leaf1``, traces either."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import polars as pl

from netlab.issues import Issue
from netlab.schema import TABLES

__all__ = ["one_name_per_device", "short_names"]

#: Where devices are named, the first that names one giving its spelling: the traces' hosts cannot be renamed, a person's word comes next.
_PLACES = (
    ("ranks", "host"),
    ("rank_map", "host"),
    ("port_facts", "device"),
    ("port_facts", "host"),
    ("cables", "a_device"),
    ("cables", "b_device"),
    ("switch_members", "switch"),
    ("switch_members", "member"),
    ("fabric_nodes", "device"),
    ("counters", "device"),
)
_ADDRESS = re.compile(r"[\d.:]+|[\da-f:]*:[\da-f:]+", re.I)


def short_names(names: Iterable[str]) -> dict[str, str]:
    """Which names mean a device that was named before: they differ in case, or in a domain that only one of them has.

    Two hosts of one short name in different domains stay apart, and so do addresses.

    >>> short_names(["leaf1", "Leaf1.example.com", "a.x.org", "a.y.org", "10.0.0.1", "10.0.0.2"])
    {'Leaf1.example.com': 'leaf1'}
    """
    groups: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        plain = name.rstrip(".").casefold()
        groups.setdefault(plain if _ADDRESS.fullmatch(plain) else plain.partition(".")[0], []).append(name)
    result: dict[str, str] = {}
    for group in groups.values():
        full = {name.rstrip(".").casefold() for name in group if "." in name}
        if len(full) < 2:
            result |= dict.fromkeys(group[1:], group[0])
            continue
        spelled: dict[str, str] = {}
        for name in group:
            first = spelled.setdefault(name.rstrip(".").casefold(), name)
            if first != name:
                result[name] = first
    return result


def one_name_per_device(frames: Mapping[str, pl.DataFrame]) -> tuple[dict[str, pl.DataFrame], list[Issue]]:
    """Tables of counters, cables and ports with one name for each device, and the issue that says which names were joined.

    Parameters
    ----------
    frames
        Any tables of a run. ``ranks`` is only read: its hosts give the spelling.

    Returns
    -------
    The changed tables alone.
    """
    known = [(frames[table], table, column) for table, column in _PLACES if table in frames]
    names = [name for frame, _, column in known for name in frame[column].unique().cast(pl.String).drop_nulls().sort().to_list()]
    renamed = short_names(name for name in names if name)
    if not renamed:
        return {}, []
    changed: dict[str, pl.DataFrame] = {}
    for _, table, column in known:
        frame = changed.get(table, frames[table])
        if table != "ranks" and frame[column].is_in(list(renamed)).any():
            kept = pl.col(column).replace_strict(renamed, default=pl.col(column).cast(pl.String), return_dtype=pl.String)
            changed[table] = frame.with_columns(kept.cast(TABLES[table].schema[column]).alias(column))
    shown = [f"{name} is {kept}" for name, kept in sorted(renamed.items())]
    more = f" and {len(shown) - 4} more" if len(shown) > 4 else ""
    message = f"Names of one device were joined: {', '.join(shown[:4])}{more}."
    return changed, [Issue(code="DEVICE_ASSUMED", severity="info", message=message)] if changed else []
