"""From classified messages and watchdog lines to rows of ``nccl_events``: a code, the name of a value, and the value."""

from __future__ import annotations

import re
from collections.abc import Callable

from netlab.readers.nccl.messages import Message
from netlab.readers.nccl.names import ALGORITHMS, PROTOCOLS, op_name
from netlab.readers.nccl.secrets import mask_value

__all__ = ["EVENT_CODES", "event_of", "watchdog_event"]

Parts = dict[str, str | None]
Event = tuple[str, str | None, str | None]

#: ``nccl_events.code`` to its meaning.
EVENT_CODES: dict[str, str] = {
    "async_event": "The verbs layer reported an asynchronous event of a port or queue.",
    "bootstrap": "Interface of the bootstrap network.",
    "channels": "Numbers of channels: collective/NVLS/point-to-point.",
    "collnet": "A connection to the reduction in the network (SHARP); key = side, value = plugin/device and GPUDirect.",
    "connect_failed": "A TCP connection could not be made.",
    "cuda_failure": "A CUDA call failed.",
    "driver": "Version of the driver or the runtime.",
    "duplicate_gpu": "Two ranks use one GPU.",
    "env": "A variable that NCCL read from the environment.",
    "error_trail": "A result that was passed up after an error.",
    "gdr_gpu": "GPUDirect RDMA between one GPU and one NIC.",
    "gdr_hca": "GPUDirect RDMA of one NIC.",
    "host_hint": "A hint about the set-up of the host.",
    "ib_completion": "A work request of the InfiniBand transport failed; key = status number.",
    "ib_queue": "A queue pair of the InfiniBand transport was set up; key = mtu, value = its code (5 is 4096 bytes).",
    "ib_device_failed": "A NIC was marked as failed; the run goes on without it.",
    "mnnvl": "Multi-node NVLink.",
    "modify_qp": "A queue pair could not be brought up.",
    "network": "The network that NCCL chose.",
    "nics": "NICs of the transport; key = IB or Socket.",
    "no_collnet": "In-network reduction was switched off.",
    "no_ib_device": "No RDMA device was found.",
    "nvls": "NVLink SHARP available or not; key = device.",
    "ofi": "A line of the libfabric plugin.",
    "p2p_disabled": "P2P between two connected GPUs is off; key = the GPUs.",
    "p2p_disabled_nvlink": "P2P between two NVLink-connected GPUs is off; key = the GPUs.",
    "pattern": "A communication pattern that the topology search found.",
    "peer_closed": "A peer closed its connection: it died first.",
    "rail_mismatch": "A connection joins NICs of different names; key = local, value = remote.",
    "ras": "A line of the RAS status.",
    "ras_group": "A group of communicators of the RAS status; value = status and errors.",
    "timings": "Time of an initialisation.",
    "truncated_message": "A message had another length than the receiver asked for.",
    "tuning_choice": "Algorithm and protocol that NCCL chose; key = operation.",
    "verbs_call": "A verbs call failed.",
    "version": "Version of the library.",
    "version_mismatch": "Ranks run different versions.",
    "virtual_nic": "NICs merged into one device.",
    "warning": "Any other warning.",
    "watchdog_status": "What a rank had enqueued and completed when the watchdog fired.",
    "watchdog_timeout": "The watchdog of PyTorch timed a collective out.",
}


def _channels(p: Parts) -> Event:
    return "channels", "coll/nvls/p2p", f"{p['coll']}/{p['nvls'] or '-'}/{p['p2p']}"


def _choice(p: Parts) -> Event:
    algorithm, protocol = p["algorithm"], p["protocol"]
    if algorithm is not None:
        named = ALGORITHMS.get(algorithm, algorithm), PROTOCOLS.get(protocol or "", protocol or "")
        return "tuning_choice", op_name(p["function"] or ""), "/".join(named)
    return "tuning_choice", op_name(p["function"] or ""), f"{p['mode'] or ''}/{p['kernel'] or p['copy']}"


def _completion(p: Parts) -> Event:
    hca = re.search(r"\bhca (\S+)", p["rest"] or "")
    name = p["name"] or ""
    return (
        "ib_completion",
        p["error"] or p["named"] or p["status"],
        " ".join(filter(None, (name, f"peer={p['peer']}" if p["peer"] else "", f"hca={hca[1]}" if hca else ""))),
    )


_EVENTS: dict[str, Callable[[Parts], Event]] = {
    "bootstrap": lambda p: ("bootstrap", "interface", p["interface"]),
    "channels": _channels,
    "choice": _choice,
    "collnet_via": lambda p: ("collnet", p["side"], f"{p['name']}/{p['device']}{p['gdr'] or ''}"),
    "connect_failed": lambda p: ("connect_failed", "peer", p["peer"]),
    "cuda_failure": lambda p: ("cuda_failure", p["number"], p["text"]),
    "driver": lambda p: ("driver", "cuda", p["version"] or p["runtime"]),
    "duplicate_gpu": lambda p: ("duplicate_gpu", p["bus"], f"{p['a']},{p['b']}"),
    "env": lambda p: ("env", p["name"], mask_value(p["name"] or "", (p["value"] or "").removesuffix("."))),
    "error_trail": lambda p: ("error_trail", "result", p["result"]),
    "gdr_gpu": lambda p: ("gdr_gpu", f"GPU {p['gpu']} / HCA {p['device']}", f"{p['state']} distance={p['distance']} limit={p['limit']}"),
    "gdr_hca": lambda p: ("gdr_hca", p["name"], p["state"]),
    "gdr_pair": lambda p: ("gdr_gpu", None, p["state"]),
    "host_hint": lambda p: ("host_hint", None, None),
    "ib_async": lambda p: ("async_event", p["where"], p["event"] or p["fatal"]),
    "ib_completion": _completion,
    "ib_queue": lambda p: ("ib_queue", "mtu", p["mtu"]),
    "ib_device_failed": lambda p: ("ib_device_failed", "device", p["device"]),
    "mnnvl": lambda p: ("mnnvl", None, None),
    "modify_qp": lambda p: ("modify_qp", p["where"], p["error"]),
    "network": lambda p: ("network", "network", p["name"]),
    "nics": lambda p: ("nics", "IB", p["list"]),
    "nics_socket": lambda p: ("nics", "Socket", p["list"]),
    "no_collnet": lambda p: ("no_collnet", None, None),
    "no_ib_device": lambda p: ("no_ib_device", None, None),
    "nvls_support": lambda p: ("nvls", p["device"], p["state"]),
    "ofi": lambda p: ("ofi", *_ofi(p["text"] or "")),
    "p2p_disabled": lambda p: ("p2p_disabled", f"{p['a']},{p['b']}", None),
    "p2p_disabled_nvlink": lambda p: ("p2p_disabled_nvlink", f"{p['a']},{p['b']}", None),
    "pattern": lambda p: (
        "pattern",
        p["pattern"],
        f"channels={p['channels']} intra={p['intra']} inter={p['inter']} type={p['type_intra']}/{p['type_inter']}",
    ),
    "rail_mismatch": lambda p: ("rail_mismatch", p["local"], p["remote"]),
    "socket_closed": lambda p: ("peer_closed", "peer", p["peer"]),
    "timings": lambda p: ("timings", "total_s", p["total"]),
    "truncated_message": lambda p: ("truncated_message", p["want"], p["got"]),
    "verbs_call": lambda p: ("verbs_call", p["call"], None),
    "version": lambda p: ("version", (p["library"] or "").lower(), p["version"]),
    "version_mismatch": lambda p: ("version_mismatch", f"{p['a']},{p['b']}", f"{p['va']},{p['vb']}"),
    "virtual_nic": lambda p: ("virtual_nic", p["device"], p["name"]),
}

_OFI = (
    ("provider", re.compile(r"Selected [Pp]rovider is (\S+?),? .*|Selected [Pp]rovider is (\S+)")),
    ("plugin", re.compile(r"Initializing aws-ofi-nccl (\S+)")),
    ("protocol", re.compile(r"Using transport protocol (\S+).*")),
    ("platform", re.compile(r"Plugin selected platform: (\S+)")),
    ("dmabuf", re.compile(r"Support for DMA-BUF registrations: (\S+)")),
)


def _ofi(text: str) -> tuple[str, str | None]:
    for key, pattern in _OFI:
        found = pattern.match(text)
        if found:
            nics = re.search(r"found (\d+) nics", text)
            value = next(filter(None, found.groups()), None)
            return key, f"{value} nics={nics[1]}" if nics and key == "provider" else value
    return "line", text


def event_of(message: Message | None, level: str) -> Event | None:
    """The event that a message is, or None if it tells nothing beyond the other tables. Every warning is one."""
    made = _EVENTS[message.kind](message.parts) if message is not None and message.kind in _EVENTS else None
    if made is None and level in ("WARN", "ERROR", "ABORT"):
        return "warning", None, None
    return made


_TIMEOUT = re.compile(
    r"Watchdog caught collective operation timeout: WorkNCCL\((?P<work>[^)]*(?:\([^)]*\)[^)]*)*)\) ran for (?P<ran>\d{1,18}) milliseconds"
)
_STATUS = re.compile(
    r"(?:detected by watchdog at work(?: sequence id)?: ?(?P<at>\d{1,18})|Timeout at NCCL work: (?P<at2>\d{1,18})|Received a dump signal)"
    r".*?[Ll]ast enqueued (?:NCCL )?work: (?P<enqueued>-?\d{1,18}), last completed (?:NCCL )?work: (?P<completed>-?\d{1,18})"
)
_GROUP = re.compile(r"\[PG (?:ID )?(?P<id>\d{1,18})(?: PG GUID (?P<guid>\S+?)(?:\((?P<description>[^)]*)\))?)? Rank (?P<rank>\d{1,7})\]")
_BRACKET_RANK = re.compile(r"(?<!PG )\[Rank (?P<rank>\d{1,7})\]")
_UNKNOWN_COUNT = str(2**64 - 1)


def watchdog_event(text: str) -> Event | None:
    """The event of a line of PyTorch's NCCL watchdog; the value holds ``name=value`` pairs.

    >>> work = "WorkNCCL(SeqNum=7, OpType=ALLREDUCE, Timeout(ms)=1000) ran for 1002 milliseconds before timing out."
    >>> watchdog_event(f"[E ProcessGroupNCCL.cpp:737] [Rank 1] Watchdog caught collective operation timeout: {work}")
    ('watchdog_timeout', '7', 'seq=7 op=all_reduce ran_ms=1002 rank=1')
    """
    group, bracket = _GROUP.search(text), _BRACKET_RANK.search(text)
    where = [f"pg={group['id']}"] if group else []
    if group and group["guid"]:
        where.append(f"guid={group['guid']}")
    if group and group["description"]:
        where.append(f"description={group['description'].replace(' ', '_')}")
    if group or bracket:
        where.append(f"rank={(group or bracket)['rank']}")  # type: ignore[index]
    found = _TIMEOUT.search(text)
    if found:
        work = dict(pair.split("=", 1) for pair in found["work"].split(", ") if "=" in pair)
        values = [f"seq={work.get('SeqNum', '')}", f"op={op_name(work.get('OpType', ''))}", f"ran_ms={found['ran']}"]
        for name, key in (("numel_in", "NumelIn"), ("numel_out", "NumelOut")):
            if work.get(key, _UNKNOWN_COUNT) != _UNKNOWN_COUNT:
                values.append(f"{name}={work[key]}")
        return "watchdog_timeout", work.get("SeqNum"), " ".join(values + where)
    found = _STATUS.search(text)
    if found:
        at = found["at"] or found["at2"]
        values = [f"seq={at}"] if at else []
        values += [f"enqueued={found['enqueued']}", f"completed={found['completed']}"]
        return "watchdog_status", at, " ".join(values + where)
    return None
