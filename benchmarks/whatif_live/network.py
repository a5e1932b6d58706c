"""Racks of hosts: every host a network namespace with a name of its own, every rack a Linux bridge, all joined at a core bridge."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

__all__ = ["inside", "racks", "set_rate", "unavailable"]

_CORE = "nl-core"
_MTU = "9000"


def unavailable() -> str | None:
    """Why this machine cannot build the network; None where it can."""
    try:
        subprocess.run(["ip", "netns", "add", "nl-probe"], check=True, capture_output=True)
        subprocess.run(["ip", "netns", "del", "nl-probe"], check=True, capture_output=True)
    except FileNotFoundError:
        return "needs ip and tc (Debian package iproute2)"
    except subprocess.CalledProcessError as error:
        return f"needs root and network namespaces ({error.stderr.decode().strip()})"
    return None


@contextmanager
def racks(placement: Sequence[int]) -> Iterator[list[str]]:
    """Build a network in which host ``i`` (10.77.0.i+1) stands in rack ``placement[i]``; yields the hosts' namespaces."""
    hosts = [f"nl-host{number}" for number in range(len(placement))]
    names = [f"nl-rack{number}" for number in sorted(set(placement))]
    _remove([*hosts, *names, _CORE])
    try:
        for name in (*hosts, *names, _CORE):
            _ip("netns", "add", name)
            _ip("-n", name, "link", "set", "lo", "up")
        for name in (*names, _CORE):
            _ip("-n", name, "link", "add", "br0", "type", "bridge")
            _ip("-n", name, "link", "set", "br0", "mtu", _MTU, "up")
        for number, name in enumerate(names):
            _cable(name, "up0", _CORE, f"down{number}")
            _ip("-n", name, "link", "set", "up0", "master", "br0")
        for number, (host, rack) in enumerate(zip(hosts, placement, strict=True)):
            _cable(host, "eth0", f"nl-rack{rack}", f"swp{number}")
            _ip("-n", host, "addr", "add", f"10.77.0.{number + 1}/24", "dev", "eth0")
        yield hosts
    finally:
        _remove([*hosts, *names, _CORE])


def _cable(lower: str, port: str, upper: str, upper_port: str) -> None:
    _ip("link", "add", port, "netns", lower, "type", "veth", "peer", "name", upper_port, "netns", upper)
    for name, device in ((lower, port), (upper, upper_port)):
        _ip("-n", name, "link", "set", device, "mtu", _MTU, "up")
    _ip("-n", upper, "link", "set", upper_port, "master", "br0")


def set_rate(placement: Sequence[int], host_mbit: float, uplink_mbit: float | None) -> None:
    """Shape what every host sends, and what every rack sends up and gets down; None leaves the uplinks free."""
    for number in range(len(placement)):
        _shape(f"nl-host{number}", "eth0", host_mbit)
    for number, rack in enumerate(sorted(set(placement))):
        for name, device in ((f"nl-rack{rack}", "up0"), (_CORE, f"down{number}")):
            _shape(name, device, uplink_mbit)


def _shape(namespace: str, device: str, mbit: float | None) -> None:
    if mbit is None:
        subprocess.run(["tc", "-n", namespace, "qdisc", "del", "dev", device, "root"], check=False, capture_output=True)
        return
    bucket = ("root", "tbf", "rate", f"{mbit:g}mbit", "burst", "128kb", "latency", "20ms")
    subprocess.run(["tc", "-n", namespace, "qdisc", "replace", "dev", device, *bucket], check=True, capture_output=True)


def inside(namespace: str, *command: str) -> list[str]:
    """A command inside a namespace, with a host name of its own."""
    return ["ip", "netns", "exec", namespace, "unshare", "--uts", "sh", "-c", f'hostname {namespace}; exec "$@"', "sh", *command]


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def _remove(names: Sequence[str]) -> None:
    for name in names:
        subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
