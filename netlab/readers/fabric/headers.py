"""Headers of tables that people write: which spelling means which column, and in which unit a speed is."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence

import polars as pl

from netlab.readers.ib_names import speed_gbps as ib_speed_gbps

__all__ = ["VARIABLE_MAP", "columns_of", "first_line", "speed_unit", "speeds"]

_DEVICE = ("device", "switch", "node", "hostname", "sysname", "system", "router")
_PORT = ("port", "interface", "ifname", "iface", "if_name", "intf", "port_name", "portname", "interface_name")
_SPEED = ("speed_gbps", "speed", "gbps", "link_speed", "port_speed", "bandwidth", "bandwidth_gbps", "rate", "rate_gbps", "capacity")
_A = ("a", "src", "source", "local", "from", "start", "near", "left")
_B = ("b", "dst", "dest", "destination", "target", "remote", "to", "end", "peer", "neighbor", "neighbour", "far", "right", "z")


def _end(words: Sequence[str], names: Sequence[str], number: str) -> tuple[str, ...]:
    """``a_device``, ``device_a``, ``a_switch``, ``device1`` and the like."""
    return tuple(f"{word}_{name}" for word in words for name in names) + tuple(
        spelling for name in names for spelling in (*(f"{name}_{word}" for word in words), f"{name}{number}", f"{name}_{number}")
    )


#: Spellings of each column, by table; the first that a header has is taken. ``host`` names a device only where nothing else does.
VARIABLE_MAP: dict[str, dict[str, tuple[str, ...]]] = {
    "port_facts": {
        "device": _DEVICE,
        "port": _PORT,
        "speed_gbps": (*_SPEED, "speed_mbps", "speed_bps", "ifhighspeed", "ifspeed", "speed_gb_s", "speed_gbit_s", "speed_gbit"),
        "role": ("role", "port_role"),
        "lag": ("lag", "bundle", "port_channel", "portchannel", "bond", "lag_name", "aggregate"),
        "rail": ("rail", "rail_id", "rail_index"),
        "plane": ("plane", "plane_id"),
        "host": ("host", "server", "peer_host", "attached_host"),
        "nic": ("nic", "hca", "rdma_device", "ib_device", "nic_name"),
    },
    "cables": {
        "a_device": (*_end(_A, (*_DEVICE, "host"), "1"), *_DEVICE, *_A[1:3]),
        "a_port": (*_end(_A, _PORT, "1"), *_PORT),
        "b_device": (*_end(_B, (*_DEVICE, "host"), "2"), "neighbor", "neighbour", "peer", "dst", "target"),
        "b_port": _end(_B, _PORT, "2"),
        "speed_gbps": (*_SPEED, "speed_mbps", "speed_bps"),
        "rail": ("rail", "rail_id", "rail_index"),
        "plane": ("plane", "plane_id"),
        "lag": ("lag", "bundle", "port_channel", "portchannel", "bond"),
        "role": ("role", "a_role", "port_role"),
    },
    "rank_map": {
        "rank": ("rank", "global_rank", "rank_id", "world_rank"),
        "host": ("host", "hostname", "node", "node_name", "nodename", "server", "machine"),
        "local_rank": ("local_rank", "localrank", "node_rank_local"),
        "gpu_index": ("gpu_index", "gpu", "gpu_id", "local_gpu", "cuda_device", "gpu_idx"),
        "nic": ("nic", "hca", "rdma_device", "ib_device", "nic_name", "net_device"),
        "nic_port": ("nic_port", "hca_port", "port"),
        "rail": ("rail", "rail_id", "rail_index"),
    },
}
_UNITS = {"bps": 1e-9, "bit/s": 1e-9, "kbps": 1e-6, "mbps": 1e-3, "ifhighspeed": 1e-3, "ifspeed": 1e-9, "gbps": 1.0, "gb": 1.0, "gbit": 1.0}
_TEXT_UNITS = {"t": 1e3, "g": 1.0, "m": 1e-3, "k": 1e-6, "": None}
#: 2,000 Gbit/s is more than a port does, 2,000,000 Mbit/s too: a speed without unit is read by its size, as that of its whole column.
_MOST_GBPS, _MOST_MBPS = 2_000, 2_000_000


def _plain(cell: str) -> str:
    """``Speed (Gb/s)`` as ``speed_gb_s``."""
    return re.sub(r"[^a-z0-9]+", "_", cell.strip().strip('"').lower()).strip("_")


def first_line(head: bytes) -> tuple[list[str], str, int]:
    """Header cells in plain spelling, separator and number (from 0) of the first line that is no comment; no cells if there is none."""
    for number, line in enumerate(head.decode("utf-8-sig", "replace").splitlines()):
        if line.strip() and not line.startswith("#"):
            separator = max(",;\t|", key=line.count)
            return [_plain(cell) for cell in next(csv.reader([line], delimiter=separator))], separator, number
    return [], ",", 0


def columns_of(table: str, cells: Sequence[str]) -> dict[str, str]:
    """Our column to the header that means it; no header stands for two.

    >>> columns_of("port_facts", ["switch", "interface", "speed"])
    {'device': 'switch', 'port': 'interface', 'speed_gbps': 'speed'}
    """
    known: Mapping[str, tuple[str, ...]] = VARIABLE_MAP[table]
    found: dict[str, str] = {}
    # Our own names first, so that a file in the documented form means what it says.
    for column in known:
        if column in cells:
            found[column] = column
    for column, spellings in known.items():
        if column not in found:
            taken = set(found.values())
            name = next((spelling for spelling in spellings if spelling in cells and spelling not in taken), None)
            if name is not None:
                found[column] = name
    if table == "port_facts" and "device" not in found and "host" in found:
        found["device"] = found.pop("host")
    return found


def speed_unit(header: str) -> float | None:
    """Gbit/s of one unit, if the header names the unit.

    >>> speed_unit("speed_mbps"), speed_unit("speed")
    (0.001, None)
    """
    return next((factor for word, factor in _UNITS.items() if header == word or header.endswith(f"_{word}")), None)


def speeds(texts: pl.Series, header: str) -> tuple[pl.Series, str | None]:
    """Speeds in Gbit/s from ``400``, ``400G``, ``100 Gb/s``, ``25000 Mbps``, ``400GBASE-DR4`` or ``4X NDR``, and the unit that had to be
    assumed, if one had.

    >>> speeds(pl.Series(["400G", "25000", "4X EDR"]), "speed_mbps")[0].to_list()
    [400.0, 25.0, 100.0]
    """
    lanes = {text: f"{rate}G" for text in texts.drop_nulls().unique() if (rate := ib_speed_gbps(text)) is not None}
    parts = (
        texts.replace(lanes)
        .str.replace_all(",", "", literal=True)
        .str.extract_groups(r"^\s*(?<number>[\d.]+(?:[eE]\+?\d+)?)\s*(?<unit>[TtGgMmKk]?)(?:[A-Za-z/]*(?:-\w+)?)\s*(?:\(.*\))?\s*$")
    )
    number = parts.struct.field("number").cast(pl.Float64, strict=False)
    written = parts.struct.field("unit").str.to_lowercase().replace_strict(_TEXT_UNITS, default=None, return_dtype=pl.Float64)
    factor, assumed = speed_unit(header), None
    if factor is None:
        bare = number.filter(written.is_null() & number.is_not_null())
        largest = float(bare.max() or 0.0)  # type: ignore[arg-type]
        factor, assumed = (1.0, None) if largest < _MOST_GBPS else (1e-3, "Mbit/s") if largest <= _MOST_MBPS else (1e-9, "bit/s")
    # A port that is down reports 0: no speed is known, not none at all.
    rates = (number * written.fill_null(factor)).to_frame("rate")
    return rates.select(pl.when(pl.col("rate") > 0).then("rate"))["rate"], assumed
