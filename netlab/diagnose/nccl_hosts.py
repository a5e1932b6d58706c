"""Rules about the inside of a host: P2P, NVLink SHARP, channels, distance of GPU and NIC."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from netlab.diagnose.nccl_evidence import Evidence, Row, finding, joined
from netlab.findings import Finding

__all__ = ["few_channels", "mnnvl_off", "nvls_off", "p2p_disabled", "pcie_distance"]

_HOPPER = re.compile(r"\b(H100|H200|H800|H20|GH200|B100|B200|B300|GB200|GB300)\b")
_NVLINK_BANDWIDTH = 300.0
_FEW_CHANNELS = 4
_FAR = ("PHB", "SYS")
#: Path types by number, from the first version that counts so (NCCL src/graph/topo.h).
_PATH_TYPES: tuple[tuple[tuple[int, int], tuple[str, ...]], ...] = (
    ((2, 27), ("LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS", "NET", "DIS")),
    ((2, 26), ("LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "PXN", "PHB", "SYS", "NET", "DIS")),
    ((2, 12), ("LOC", "NVL", "NVB", "PIX", "PXB", "PXN", "PHB", "SYS", "NET", "DIS")),
    ((2, 8), ("LOC", "NVL", "NVB", "PIX", "PXB", "PHB", "SYS")),
)


def p2p_disabled(evidence: Evidence) -> Iterator[Finding]:
    """GPUs of a host talk through host memory."""
    told = evidence.of_code("p2p_disabled", "p2p_disabled_nvlink")
    inside: dict[str, list[Row]] = defaultdict(list)
    gpus = {(c["comm_id"], c["rank"]): (c["host"], c["bus_id"]) for c in evidence.communicators if c["bus_id"]}
    for c in evidence.connections:
        src, dst = evidence.ends(c)
        # Two ranks on one GPU of one host are on two hosts (containers) of one name.
        own, other = (gpus.get((c["comm_id"], c[f"{end}_rank"])) for end in ("src", "dst"))
        apart = own is not None and own == other
        if c["host"] and (c["transport"] in ("P2P", "SHM") or (c["transport"] == "NET" and src is not None and src == dst and not apart)):
            inside[c["host"]].append(c)
    slow = {host: [c for c in rows if c["transport"] != "P2P"] for host, rows in inside.items()}
    all_slow = {host for host, rows in inside.items() if rows and len(slow[host]) == len(rows)}
    env = [e for e in evidence.env("NCCL_P2P_DISABLE") if e["value"] not in ("0", "")] + [
        e for e in evidence.env("NCCL_P2P_LEVEL") if e["value"] in ("0", "LOC")
    ]
    hosts = all_slow | {e["host"] for e in told if e["host"]} | {e["host"] for e in env if e["host"]}
    if hosts:
        broken = [e for e in told if e["code"] == "p2p_disabled_nvlink"]
        reason = "an NVLink connection is broken" if broken else "NCCL_P2P_DISABLE is set" if env else "P2P is off"
        yield finding(
            "P2P_DISABLED",
            f"GPUs of {joined(sorted(hosts))} do not talk peer to peer: {reason}.",
            detail=(
                f"{sum(len(slow[h]) for h in all_slow)} connections inside hosts go through host memory: 10 to 20 GB/s instead of "
                "200 to 450 over NVLink; "
                "the whole job waits for such a host."
            ),
            action=(
                "Unset NCCL_P2P_DISABLE; check nvidia-smi nvlink -s, PCIe ACS and IOMMU, and that containers share /dev/shm and ipc. "
                "Drain a host with a broken NVLink. GPUs without P2P (consumer cards) stay as they are."
            ),
            source="NVIDIA/nccl issues 1086, 2079; src/graph/paths.cc",
            evidence=[*told, *env, *(c for h in sorted(all_slow) for c in slow[h])],
            hosts=hosts,
            cause="intra_node",
        )
    partly = {host: rows for host, rows in slow.items() if rows and host not in hosts}
    if partly:
        yield finding(
            "P2P_DISABLED",
            f"Some GPU pairs of {joined(sorted(partly))} talk through host memory.",
            detail="Pairs on different CPU sockets without NVLink do so by NCCL_P2P_LEVEL; on a machine with NVLink it is a fault.",
            action="Compare with nvidia-smi topo -m; raise NCCL_P2P_LEVEL only if the platform allows P2P across sockets.",
            source="NCCL user guide, NCCL_P2P_LEVEL",
            evidence=[c for rows in partly.values() for c in rows],
            hosts=partly,
            severity="info",
            cause="intra_node",
        )


def nvls_off(evidence: Evidence) -> Iterator[Finding]:
    """NVLink SHARP is not used although the hardware has it: the log alone cannot show that, so other evidence is needed."""
    lines = evidence.of_code("nvls")
    off = {e["host"] for e in lines if e["value"] == "not available" and e["host"]}
    on = {e["host"] for e in lines if e["value"] == "available" and e["host"]}
    env = [e for e in evidence.env("NCCL_NVLS_ENABLE") if e["value"] == "0"]
    fast = {n["host"] for n in evidence.nodes if n["kind"] in ("nvswitch", "gpu") and (n["link_gb_per_s"] or 0) >= _NVLINK_BANDWIDTH}
    hopper = any(_HOPPER.search(name) for name in evidence.gpu_names)
    alone = {c["comm_id"] for c in evidence.communicators} - _spread(evidence)
    zero = {c["host"] for c in evidence.communicators if c["nvls_channels"] == 0 and c["host"] in on and c["comm_id"] in alone}
    hosts, reason = set(), ""
    if env:
        hosts, reason = {e["host"] for e in env if e["host"]}, "NCCL_NVLS_ENABLE=0 is set"
    elif off and (on - off or hopper or off & fast):
        hosts = off if not (on - off) else off - on
        reason = "multicast is not available there" + (
            f", but it is on {joined(sorted(on - off))}" if on - off else " although the GPUs have it"
        )
    elif zero:
        hosts, reason = zero, "multicast is available, but no channel uses it"
    if hosts:
        yield finding(
            "NVLS_OFF",
            f"NVLink SHARP is off on {joined(sorted(hosts))}: {reason}.",
            detail="On 8 H100 a large all_reduce inside the host reaches 330 GB/s of bus bandwidth instead of 480.",
            action=(
                "Check the fabric manager (systemctl status nvidia-fabricmanager), the driver, NCCL_NVLS_ENABLE, and NVSwitch "
                "pass-through in VMs."
            ),
            source="NVIDIA/nccl issues 1221, 892; nccl-tests issue 228",
            evidence=[*env, *(e for e in lines if e["host"] in hosts and e["value"] == "not available")],
            hosts=hosts,
            cause="intra_node",
        )
    elif off:
        yield finding(
            "NVLS_OFF",
            f"NVLink SHARP is not available on {joined(sorted(off))}; that is a loss only if the GPUs are H100 or newer.",
            detail=(
                "A log does not name the GPU model. On H100 with NVSwitch a large all_reduce reaches 330 GB/s instead of 480; on "
                "A100 this line is normal."
            ),
            action="On H100 or newer check the fabric manager and the driver.",
            source="NVIDIA/nccl issue 1221",
            evidence=[e for e in lines if e["host"] in off],
            hosts=off,
            severity="info",
            cause="intra_node",
        )


def _spread(evidence: Evidence) -> set[str]:
    """Communicators with members on more than one host."""
    hosts: dict[str, set[str]] = defaultdict(set)
    for c in evidence.communicators:
        hosts[c["comm_id"]].add(c["host"])
    return {comm for comm, names in hosts.items() if len(names) > 1} | {
        c["comm_id"] for c in evidence.communicators if (c["nodes"] or 0) > 1
    }


def few_channels(evidence: Evidence) -> Iterator[Finding]:
    """Few channels where NVLink would carry more."""
    caps = [e for e in evidence.env("NCCL_MAX_NCHANNELS", "NCCL_MAX_CTAS", "NCCL_MAX_NRINGS") if (e["value"] or "").isdigit()]
    tight = [e for e in caps if int(e["value"]) <= _FEW_CHANNELS]
    nvlink = {e["host"] for e in evidence.of_code("pattern") if "type=NVL" in (e["value"] or "")}
    nvlink |= {e["host"] for e in evidence.of_code("nvls") if e["value"] == "available"}
    nvlink |= {c["host"] for c in evidence.connections if c["transport"] == "P2P" and "/read" in (c["path"] or "")}
    nvlink |= {n["host"] for n in evidence.nodes if n["kind"] == "nvswitch"}
    few = [
        c for c in evidence.communicators
        if c["coll_channels"] is not None and c["coll_channels"] <= _FEW_CHANNELS and c["host"] in nvlink and (c["nranks"] or 0) > 1
    ]  # fmt: skip
    sockets = {c["comm_id"] for c in evidence.connections if c["network"] == "Socket"}
    few = [c for c in few if c["comm_id"] not in sockets]
    narrow = [
        e for e in evidence.of_code("pattern")
        if (m := re.match(r"channels=(\d+) .*type=NVL/", e["value"] or "")) and int(m[1]) <= 2 and not sockets
    ]  # fmt: skip
    hosts = {row["host"] for row in (*tight, *few, *narrow) if row["host"]}
    if not hosts:
        return
    number = min([c["coll_channels"] for c in few] + [int(e["value"]) for e in tight] + ([2] if narrow else []))
    channel_lines = [e for e in evidence.of_code("channels") if e["host"] in hosts]
    yield finding(
        "FEW_CHANNELS",
        f"NCCL uses at most {number} channels on {joined(sorted(hosts))}"
        + (f", because {tight[0]['key']}={tight[0]['value']} is set." if tight else "."),
        detail=(
            "A channel is one block of the GPU and one path; with few of them NVLink and NICs cannot be filled (8 to 24 are "
            "usual on NVLink machines)."
        ),
        action="Unset NCCL_MAX_NCHANNELS and NCCL_MAX_CTAS; in virtual machines give the topology (NCCL_TOPO_FILE).",
        source="NCCL user guide, performance; NVIDIA/nccl issue 1453",
        evidence=[*tight, *channel_lines, *narrow],
        hosts=hosts,
        cause="intra_node",
    )


def _path_name(number: int, version: str | None) -> str | None:
    found = re.match(r"(\d+)\.(\d+)", version or "")
    if not found:
        return None
    at = int(found[1]), int(found[2])
    names = next((names for since, names in _PATH_TYPES if at >= since), ())
    return names[number] if number < len(names) else None


def pcie_distance(evidence: Evidence) -> Iterator[Finding]:
    """GPU and NIC are joined by the CPU or its socket link."""
    versions = {(c["host"], c["pid"]): c["nccl_version"] for c in evidence.communicators if c["nccl_version"]}
    far: dict[str, list[Row]] = defaultdict(list)
    kinds: set[str] = set()
    for event in evidence.of_code("pattern"):
        kind = (event["value"] or "").rpartition("/")[2]
        if kind in _FAR and event["host"]:
            far[event["host"]].append(event)
            kinds.add(kind)
    levels = {e["host"] for e in evidence.env("NCCL_NET_GDR_LEVEL")}
    best: dict[tuple[str, str], tuple[int, Row]] = {}
    for event in evidence.of_code("gdr_gpu"):
        found = re.search(r"distance=(\d+)", event["value"] or "")
        if found and event["host"]:
            key = event["host"], (event["key"] or "").split(" /")[0]
            if key not in best or int(found[1]) < best[key][0]:
                best[key] = int(found[1]), event
    for (host, _), (number, event) in best.items():
        name = _path_name(number, versions.get((host, event["pid"])))
        beyond = re.search(r"^Disabled distance=(\d+) limit=(\d+)", event["value"] or "")
        if name is None and beyond and int(beyond[1]) > int(beyond[2]) and host not in levels:
            # The numbers change with the version, but the default limit is PXB in all of them: what is beyond goes through the CPU.
            name = "PHB"
        if name in _FAR:
            far[host].append(event)
            kinds.add(name)
    nearest: dict[tuple[str, str], Row] = {}
    hosts = set(evidence.hosts())
    # Interfaces of the socket transport and other NICs that cannot reach GPUs have no place near one.
    plain = {(node["source"], node["node"]) for node in evidence.nodes if node["kind"] == "net" and node["gdr"] is False}
    sole = next(iter(hosts)) if len(hosts) == 1 else None
    order = ("LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PHB", "SYS", "PXN", "NET", "DIS")
    for path in evidence.paths:
        if path["to_kind"] == "net" and path["path"] in order and (path["source"], path["to_node"]) not in plain:
            # A topology dump does not name its host: it is that of a run of one host.
            key = path["host"] or sole or path["source"], path["from_node"]
            if key not in nearest or order.index(path["path"]) < order.index(nearest[key]["path"]):
                nearest[key] = path
    for (host, node), path in nearest.items():
        if path["path"] in _FAR:
            far[host].append(
                {
                    "host": host,
                    "source": path["source"],
                    "line": None,
                    "message": f"{node} reaches its nearest NIC {path['to_node']} over {path['path']}",
                }
            )
            kinds.add(path["path"])
    if far:
        yield finding(
            "PCIE_DISTANCE",
            f"GPUs of {joined(sorted(far))} reach their nearest NIC only over {joined(sorted(kinds))}.",
            detail=(
                "PHB is the way through the CPU, SYS that between CPU sockets: 6 to 40 GB/s shared by all, and GPUDirect RDMA is "
                "off at that distance."
            ),
            action=(
                "Use the NIC on the GPU's PCIe switch (nvidia-smi topo -m), give NCCL_TOPO_FILE in virtual machines, check slots "
                "and NUMA binding."
            ),
            source="src/graph/topo.h; NVIDIA/nccl issue 489",
            evidence=[row for host in sorted(far) for row in far[host][:2]],
            hosts=far.keys() & hosts,
            cause="host",
        )


def mnnvl_off(evidence: Evidence) -> Iterator[Finding]:
    """Multi-node NVLink is there and not used."""
    told = re.compile(r"MNNVL.*(?:is available but not|not working|not supported|failed)")
    lines = [e for e in evidence.events if told.search(e["message"] or "")]
    # Ranks of one clique share NVLink; a clique that is larger than a host and is not used is a fall-back to the NICs.
    spread: dict[str, set[str]] = defaultdict(set)
    for c in evidence.communicators:
        if c["host"] and c["comm_id"]:
            spread[c["comm_id"]].add(c["host"])
    per_host: dict[tuple[str, int], float] = {}
    for c in evidence.communicators:
        nodes = c["nodes"] or len(spread[c["comm_id"] or ""])
        if nodes > 1:
            per_host[c["host"], c["pid"]] = max(per_host.get((c["host"], c["pid"]), 0.0), (c["nranks"] or 0) / nodes)
    for event in evidence.of_code("mnnvl"):
        clique = re.match(r"MNNVL 0 cliqueId \S+ cliqueSize (\d+)", event["message"] or "")
        if clique and (event["host"], event["pid"]) in per_host and int(clique[1]) > per_host[event["host"], event["pid"]]:
            lines.append(event)
    hosts = {e["host"] for e in lines if e["host"]}
    if lines:
        yield finding(
            "MNNVL_OFF",
            f"Multi-node NVLink is not used on {joined(sorted(hosts))}; traffic falls back to the NICs.",
            detail="About 50 GB/s per GPU instead of some 900 GB/s.",
            action="Check the IMEX service (nvidia-imex-ctl -N) and the channel permissions of the container.",
            source="NCCL user guide, performance; src/mnnvl.cc",
            evidence=lines,
            hosts=hosts,
            cause="fabric",
        )
