"""Rules about choices that cost speed without being errors: packet size, queues, algorithms, relays, plugins, set-up of hosts."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from netlab.diagnose.nccl_evidence import Evidence, Row, finding, joined
from netlab.findings import Finding

__all__ = ["collnet_off", "host_setup", "ofi_limited", "one_queue_pair", "pxn_always", "ring_at_scale", "small_mtu"]

#: ibv_mtu: number to bytes.
_MTU_BYTES = {1: 256, 2: 512, 3: 1024, 4: 2048, 5: 4096}
#: Above this many hosts the 2(n-1) steps of a ring cost more than a tree below this size (NCCL src/graph/tuning.cc: latency times steps).
_RING_HOSTS, _RING_BYTES = 16, 100_000_000
#: From this many hosts on equal-cost paths are shared by chance, and one flow per connection fills them unevenly.
_ECMP_HOSTS = 4


def small_mtu(evidence: Evidence) -> Iterator[Finding]:
    """Queue pairs with an MTU below 4096 bytes."""
    codes: dict[str, dict[int, Row]] = defaultdict(dict)
    for event in evidence.of_code("ib_queue"):
        number = int(event["value"]) if (event["value"] or "").isdigit() else 0
        if event["key"] == "mtu" and event["host"] and number in _MTU_BYTES:
            codes[event["host"]].setdefault(number, event)
    small = {host: found for host, found in codes.items() if min(found) < 5}
    if not small:
        return
    least = min(min(found) for found in small.values())
    # Where other hosts reach 4096, these deviate; where all are alike, the fabric may be set so.
    deviating = len(small) < len(codes) or any(max(found) == 5 for found in small.values())
    yield finding(
        "SMALL_MTU",
        f"InfiniBand queues of {joined(sorted(small))} use an MTU of {_MTU_BYTES[least]} bytes"
        + (", others in this run 4,096." if deviating else "; 4,096 is the largest."),
        detail="Small packets cost headers and packet rate, some percent of bandwidth; a connection takes the smaller MTU of its ends.",
        action="Set the MTU of ports and switches to 4096 (RoCE: an Ethernet MTU of 4200 or more on every hop), the same everywhere.",
        source="NET/IB queue lines (field mtu); ibv_mtu",
        evidence=[found[min(found)] for _, found in sorted(small.items())],
        hosts=small,
        severity="warning" if deviating else "info",
        cause="host",
    )


def one_queue_pair(evidence: Evidence) -> Iterator[Finding]:
    """RoCE between many hosts with one queue pair per connection."""
    edges = [c for c in evidence.connections if c["network"] == "RoCE" and evidence.between_hosts(c)]
    hosts = {c["host"] for c in edges if c["host"]}
    settings = evidence.env("NCCL_IB_QPS_PER_CONNECTION")
    more = [e for e in settings if (e["value"] or "").isdigit() and int(e["value"]) > 1]
    # A log without any variable may have been written without NCCL_DEBUG_SUBSYS=ENV: then nothing is known.
    if len(hosts) < _ECMP_HOSTS or more or not evidence.of_code("env"):
        return
    told = "NCCL_IB_QPS_PER_CONNECTION=1" if settings else "NCCL_IB_QPS_PER_CONNECTION is not set"
    yield finding(
        "ONE_QP",
        f"RoCE between {len(hosts)} hosts uses one queue pair per connection ({told}).",
        detail=(
            "Each queue pair is one flow: where the fabric spreads flows over equal-cost links by hash, few large flows load them "
            "unevenly (50 to 70 % of the line rate). With adaptive routing it does not matter; more queue pairs do not always help."
        ),
        action=(
            "Compare ports of one tier (netlab: ECMP_IMBALANCE); try NCCL_IB_QPS_PER_CONNECTION=4 or adaptive routing, and GID index 3 "
            "(RoCE v2)."
        ),
        source="NCCL user guide, performance; NVIDIA/nccl issue 2409",
        evidence=[*settings, *edges],
        hosts=hosts,
        severity="info",
        cause="fabric",
    )


def ring_at_scale(evidence: Evidence) -> Iterator[Finding]:
    """Ring chosen for small all_reduces over many hosts."""
    hosts_of: dict[tuple[str | None, int | None], int] = defaultdict(int)
    members: dict[str, set[str]] = defaultdict(set)
    for c in evidence.communicators:
        if c["comm_id"] and c["host"]:
            members[c["comm_id"]].add(c["host"])
    for c in evidence.communicators:
        count = max(c["nodes"] or 0, len(members[c["comm_id"]]) if c["comm_id"] else 0)
        hosts_of[c["host"], c["pid"]] = max(hosts_of[c["host"], c["pid"]], count)
    chosen: list[tuple[int, Row]] = []
    for event in evidence.of_code("tuning_choice"):
        size = re.search(r"(\d+) Bytes", event["message"] or "")
        is_ring = (event["value"] or "").lower().startswith("ring/") and event["key"] in ("all_reduce", "unknown")
        if is_ring and size and int(size[1]) < _RING_BYTES and hosts_of[event["host"], event["pid"]] > _RING_HOSTS:
            chosen.append((int(size[1]), event))
    if not chosen:
        return
    forced = [e for e in evidence.env("NCCL_ALGO") if e["value"]]
    smallest, _ = min(chosen, key=lambda pair: pair[0])
    most = max(hosts_of[event["host"], event["pid"]] for _, event in chosen)
    yield finding(
        "RING_AT_SCALE",
        f"NCCL takes a ring for all_reduces of {smallest:,} bytes over {most} hosts"
        + (f", because NCCL_ALGO={forced[0]['value']} is set." if forced else "."),
        detail=(
            "A ring needs 2(n-1) steps one after the other, a tree 2 log2(n): below some 100 MB and above 16 hosts the latency of the "
            "steps takes most of the time."
        ),
        action="Unset NCCL_ALGO and NCCL_MAX_NCHANNELS; see in the TUNING table whether Tree and NVLSTree are off (0.0), and why.",
        source="src/graph/tuning.cc",
        evidence=[*forced, *(event for _, event in chosen)],
        hosts=[event["host"] for _, event in chosen if event["host"]],
        cause="host",
    )


def collnet_off(evidence: Evidence) -> Iterator[Finding]:
    """In-network reduction was asked for and is not used."""
    wanted = [e for e in evidence.env("NCCL_COLLNET_ENABLE") if e["value"] not in ("0", "", None)]
    off = evidence.of_code("no_collnet")
    used = bool(evidence.of_code("collnet"))
    spread = {c["host"] for c in evidence.communicators if (c["nodes"] or 0) > 1}
    # Without any connection in the log nothing is known of them.
    if not wanted or used or not (off or (spread and evidence.connections)):
        return
    hosts = {e["host"] for e in (off or wanted) if e["host"]}
    yield finding(
        "COLLNET_OFF",
        f"NCCL_COLLNET_ENABLE is set, but no connection goes through the network's reduction (SHARP) on {joined(sorted(hosts))}.",
        detail="All data go to the hosts and back; with SHARP an all_reduce between hosts sends about half as much.",
        action=(
            "Load the SHARP plugin (HPC-X: NET name IBext), check the aggregation manager, and NCCL_COLLNET_NODE_THRESHOLD if fewer hosts "
            "than it take part."
        ),
        source="src/init.cc (disabling CollNet); NCCL user guide, NCCL_COLLNET_ENABLE",
        evidence=[*off, *wanted],
        hosts=hosts,
        cause="host",
    )


def pxn_always(evidence: Evidence) -> Iterator[Finding]:
    """GPUs that reach the network only through another GPU: no NIC of their own."""
    far: dict[str, list[Row]] = {}
    ranks: set[int] = set()
    for host, rows in evidence.by_host(c for c in evidence.connections if c["transport"] == "NET" and c["side"]):
        of_rank: dict[int | None, list[Row]] = defaultdict(list)
        for c in rows:
            of_rank[evidence.rank_of(c)].append(c)
        for rank, own in of_rank.items():
            sends = [c for c in own if c["side"] == "send"]
            direct = [c for c in own if c["side"] == "receive" and c["proxy_rank"] is None]
            if sends and not direct and all(c["proxy_rank"] not in (None, c["src_rank"]) for c in sends):
                far.setdefault(host, []).extend(sends)
                ranks |= {rank} if rank is not None else set()
    if far:
        yield finding(
            "PXN_ALWAYS",
            f"{len(ranks)} GPUs of {joined(sorted(far))} reach the network only through another GPU (PXN).",
            detail="The hop over NVLink is cheap, but it shows that these GPUs have no NIC near them, so that they share those of others.",
            action="Compare NICs and GPUs (nvidia-smi topo -m); check NCCL_IB_HCA, and ports that are down.",
            source="src/transport/net.cc (PXN)",
            evidence=[row for host in sorted(far) for row in far[host]],
            hosts=far,
            ranks=ranks,
            severity="info",
            cause="host",
        )


def ofi_limited(evidence: Evidence) -> Iterator[Finding]:
    """The libfabric plugin found one NIC, or sends without RDMA writes where others have them."""
    nics: dict[str, int] = {}
    protocol: dict[str, str] = {}
    lines: dict[str, list[Row]] = defaultdict(list)
    for event in evidence.of_code("ofi"):
        count = re.search(r"^efa.* nics=(\d+)", event["value"] or "")
        if event["host"] and event["key"] == "provider" and count:
            nics[event["host"]] = int(count[1])
            lines[event["host"]].append(event)
        elif event["host"] and event["key"] == "protocol" and event["value"]:
            protocol[event["host"]] = event["value"].upper()
            lines[event["host"]].append(event)
    single = sorted(host for host, count in nics.items() if count == 1)
    rdma = any(name == "RDMA" for name in protocol.values()) or max(nics.values(), default=0) >= 16  # p5 and later have 16 or more
    slow = sorted(host for host, name in protocol.items() if name == "SENDRECV" and rdma)
    if not single and not slow:
        return
    hosts = sorted({*single, *slow})
    what = [f"found one EFA device on {joined(single)}"] if single else []
    what += [f"uses SENDRECV instead of RDMA on {joined(slow)}"] if slow else []
    yield finding(
        "OFI_LIMITED",
        f"The libfabric plugin {' and '.join(what)}.",
        detail="Fewer rails, or no RDMA writes: a fraction of the bandwidth of the instance between hosts.",
        action="Install current EFA software and aws-ofi-nccl on all hosts, attach all EFA interfaces, check OFI_NCCL_PROTOCOL.",
        source="aws-ofi-nccl issue 889 and source",
        evidence=[row for host in hosts for row in lines[host]],
        hosts=hosts,
        cause="host",
    )


_HINTS = (
    (re.compile(r"iommu=pt"), "the IOMMU is not in pass-through mode (iommu=pt): GPU and NIC traffic goes through the root complex"),
    (
        re.compile(r"NUMA balancing|numa_balancing", re.IGNORECASE),
        "automatic NUMA balancing is on: the kernel moves pages under NCCL's threads",
    ),
    (re.compile(r"GDR Flush"), "flushing of GPUDirect writes is not supported on this CPU"),
)


def host_setup(evidence: Evidence) -> Iterator[Finding]:
    """NCCL's own hints about the set-up of hosts."""
    rows = evidence.of_code("host_hint")
    for pattern, meaning in _HINTS:
        told = [e for e in rows if pattern.search(e["message"] or "")]
        hosts = {e["host"] for e in told if e["host"]}
        if told:
            yield finding(
                "HOST_SETUP",
                f"On {joined(sorted(hosts)) or 'some hosts'} {meaning}.",
                detail="It costs bandwidth between GPU and NIC, or time of NCCL's threads on the CPU.",
                action="Boot with iommu=pt or disable PCIe ACS on bare metal (VMs: ATS); sysctl kernel.numa_balancing=0.",
                source="NCCL and RCCL start-up hints; NVIDIA/nccl issues 949, 2079; NCCL user guide, troubleshooting",
                evidence=told,
                hosts=hosts,
                cause="host",
            )
