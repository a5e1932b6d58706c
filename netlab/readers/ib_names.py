"""Names in InfiniBand: what a node description says, and how fast a link of some width and rate is."""

from __future__ import annotations

import re

__all__ = ["VARIABLE_MAP", "host_port", "is_switch", "speed_gbps", "switch_name"]

#: Data rate of a 4x link in Gbit/s by its name; SDR to QDR carry 8b/10b, so 4x QDR moves 32.
VARIABLE_MAP: dict[str, float] = {
    "SDR": 8.0,
    "DDR": 16.0,
    "QDR": 32.0,
    "FDR10": 40.0,
    "FDR": 56.0,
    "EDR": 100.0,
    "HDR": 200.0,
    "NDR": 400.0,
    "XDR": 800.0,
}
_RATE = re.compile(rf"(\d+)\s*x[\s-]*({'|'.join(sorted(VARIABLE_MAP, key=len, reverse=True))})", re.I)


def switch_name(description: str, key: str) -> str:
    """``MF0;sw0001:MQM8700/U1`` is sw0001; leaves and spines of a director share the name and differ by the part behind the slash.

    >>> switch_name("MF0;sw2:MCS8500/L16/U1", "0x1"), switch_name("", "0x1")
    ('sw2/L16', '0x1')
    """
    match = re.fullmatch(r"MF0;([^:]+):([^/]*)(?:/(.*))?", description.strip())
    if match is None:
        return description.strip() or key
    part = (match[3] or "").removesuffix("/U1")
    return match[1] if part in ("", "U1") else f"{match[1]}/{part}"


def host_port(description: str, key: str, port: str) -> tuple[str, str]:
    """Host and port of a node description ``<host> <nic>``; a factory name names nobody, so the GUID stands for the host.

    >>> host_port("server01 mlx5_0", "0x2", "1"), host_port("h1 ibp11s0f0", "0x2", "1")
    (('server01', 'mlx5_0/1'), ('h1', 'ibp11s0f0'))
    """
    host, _, nic = description.strip().partition(" ")
    if not host or "Mellanox" in description or "ConnectX" in description:
        return key, f"HCA/{port}"
    named = nic.strip() or "HCA"
    return host, f"{named}/{port}" if named.startswith(("mlx", "HCA")) else named


def is_switch(description: str) -> bool | None:
    """Whether a description is a switch's; None where it does not show.

    >>> is_switch("MF0;leaf01:MQM9700/U1"), is_switch("server01 mlx5_0"), is_switch("ib-i1l1s01")
    (True, False, None)
    """
    if description.startswith("MF0;"):
        return True
    return False if re.match(r"\S+ (?:mlx\d|HCA|ib[ps]\w)", description.strip()) else None


def speed_gbps(text: str) -> float | None:
    """Gbit/s of a width and rate such as ``4xNDR``; None if it is none. Two lanes carry half of what four do.

    >>> speed_gbps("4xNDR"), speed_gbps("2X HDR"), speed_gbps("4x"), speed_gbps("400G")
    (400.0, 100.0, None, None)
    """
    match = _RATE.fullmatch(text.strip())
    return None if match is None else VARIABLE_MAP[match[2].upper()] * int(match[1]) / 4
