"""Rules about the path to the network: sockets, GPUDirect, which NIC carries what."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from netlab.diagnose.nccl_evidence import Evidence, Row, finding, joined, majority
from netlab.findings import Finding

__all__ = ["gdr_disabled", "hca_prefix", "nic_sets", "nic_use", "rail_mismatch", "socket_fallback", "wrong_hca"]

_NOTE = "NCCL user guide, networking"
_NIC = re.compile(r"\[(\d+)\]=?(?:\{[^}]*\}|([A-Za-z][\w.-]*):(\d+)/(\w+))")


def host_nics(evidence: Evidence) -> dict[str, dict[str, str]]:
    """Host to its RDMA NICs and their link layer, from the ``NET/IB : Using`` lines of its processes; merged ones stand for their parts."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for event in evidence.of_code("nics"):
        if event["key"] == "IB" and event["host"]:
            for _, name, _, link in _NIC.findall(event["value"] or ""):
                if name:
                    found[event["host"]][name] = link
    merged = {(e["host"], e["value"]) for e in evidence.of_code("virtual_nic") if e["host"] and "+" in (e["value"] or "")}
    for host, name in sorted(merged):
        links = [found[host].pop(part, "IB") for part in name.split("+")]
        found[host][name] = links[0]
    return dict(found)


def socket_fallback(evidence: Evidence) -> Iterator[Finding]:
    """NCCL talks TCP between hosts."""
    edges = [c for c in evidence.connections if c["network"] == "Socket" and evidence.between_hosts(c)]
    multi = {c["host"] for c in evidence.communicators if (c["nodes"] or 0) > 1} | _spread(evidence)
    chosen = [e for e in evidence.of_code("network") if e["value"] == "Socket" and e["host"] in multi]
    providers = [e for e in evidence.of_code("ofi") if e["key"] == "provider" and re.match(r"(tcp|sockets|udp)\b", e["value"] or "")]
    if not edges and not chosen and not providers:
        return
    hosts = {row["host"] for row in (*chosen, *providers, *edges) if row["host"]}
    own = [e for e in evidence.events if e["host"] in hosts]
    why = [e for e in own if e["code"] == "no_ib_device"]
    settings = [
        e for e in own
        if e["code"] == "env" and e["key"] in ("NCCL_IB_HCA", "NCCL_NET", "NCCL_NET_PLUGIN", "NCCL_IB_DISABLE") and e["value"] != "0"
    ]  # fmt: skip
    told = joined(sorted({f"{e['key']}={e['value']}" for e in settings}))
    provider = sorted({(e["value"] or "").split()[0] for e in providers})
    reason = "no RDMA device was found" if why else f"{told} is set" if told else "NCCL chose the socket transport"
    reason = f"libfabric found no provider but {joined(provider)}" if provider else reason
    reason += f" ({told} is set)" if why and told else ""
    yield finding(
        "SOCKET_FALLBACK",
        f"{joined(sorted(hosts))} {'uses' if len(hosts) == 1 else 'use'} TCP sockets between hosts: {reason}.",
        detail=(
            f"{len(edges)} connections between hosts go through NET/Socket: kernel TCP, bound by the CPU, 5 to 50 times slower than RDMA. "
            "This is the configuration of the hosts, not a fault of the fabric. On hosts without RDMA NICs it is all there is."
        ),
        action=(
            "Look for the NICs in the container (ibv_devinfo, /dev/infiniband, rdma-core), unset NCCL_IB_DISABLE and "
            "NCCL_NET, check NCCL_IB_HCA "
            "for a typo, the network plugin, and the memlock limit (ulimit -l unlimited)."
        ),
        source=f"{_NOTE}; NVIDIA/nccl issue 952",
        evidence=[*why, *settings, *chosen, *providers, *edges],
        hosts=hosts,
        cause="host",
    )


def _spread(evidence: Evidence) -> set[str]:
    """Hosts of communicators that are seen on more than one."""
    members: dict[str, set[str]] = defaultdict(set)
    for c in evidence.communicators:
        if c["comm_id"] and c["host"]:
            members[c["comm_id"]].add(c["host"])
    return {host for hosts in members.values() if len(hosts) > 1 for host in hosts}


def gdr_disabled(evidence: Evidence) -> Iterator[Finding]:
    """NICs do not reach GPU memory directly."""
    edges = [c for c in evidence.connections if c["network"] not in (None, "Socket") and evidence.between_hosts(c)]
    bad: dict[str, list[Row]] = {}
    for host, rows in evidence.by_host(edges):
        receives = [c for c in rows if c["side"] == "receive"]
        # Reads by the NIC (the sending side) are off by design on some platforms; receives are what counts, where they are shown.
        judged = receives or rows
        without = [c for c in judged if c["gdr"] is False]
        if without and 2 * len(without) >= len(judged):
            bad[host] = without
    used = {c["host"] for c in edges}
    off = [e for e in evidence.of_code("gdr_hca") if e["value"] == "Disabled" and e["host"]]
    for host, rows in evidence.by_host(off):
        if host not in used:
            bad[host] = rows
    if not bad:
        return
    pairs = [e for e in evidence.of_code("gdr_gpu") if (e["value"] or "").startswith("Disabled") and e["host"] in bad]
    level = [
        e for e in evidence.env("NCCL_NET_GDR_LEVEL", "NCCL_IB_CUDA_SUPPORT", "NCCL_NET_GDR_READ", "NCCL_DMABUF_ENABLE") if e["host"] in bad
    ]
    count = sum(len(rows) for rows in bad.values())
    yield finding(
        "GDR_DISABLED",
        f"GPUDirect RDMA is off on {joined(sorted(bad))}: traffic between hosts bounces through host memory.",
        detail=(
            f"{count} network connections have no /GDRDMA. That costs about half of the bandwidth (33 against 93 GB/s on 16 "
            "ranks), or more."
        ),
        action=(
            "Load nvidia-peermem or use a kernel and open driver with DMA-BUF; check NCCL_NET_GDR_LEVEL, and that GPU and NIC "
            "hang on one PCIe "
            "switch; across CPU sockets it stays off by design."
        ),
        source="NVIDIA/nccl issues 1412, 465, 489",
        evidence=[*(e for e in off if e["host"] in bad), *level, *pairs, *(row for rows in bad.values() for row in rows)],
        hosts=bad,
        cause="host",
    )


def _edges_by_host(evidence: Evidence) -> dict[str, list[Row]]:
    """Network connections between hosts of each host, with their NIC; one per (communicator, channel, set, rank, direction)."""
    rows = [c for c in evidence.connections if evidence.between_hosts(c) and c["nic_index"] is not None and c["network"] != "Socket"]
    return dict(evidence.by_host(rows))


def nic_use(evidence: Evidence) -> Iterator[Finding]:
    """Several GPUs on one NIC while others are idle, or NICs with unequal numbers of connections."""
    sharing = _shared_by_host(evidence)
    for host, rows in sorted(_edges_by_host(evidence).items()):
        load = Counter(c["nic"] for c in rows)
        if host in sharing:
            yield _shared_nic(evidence, host, rows, *sharing[host])
        elif len(load) >= 2 and max(load.values()) >= 2 * min(load.values()) + 1:
            heavy = max(load, key=lambda nic: (load[nic], nic))
            yield finding(
                "NIC_IMBALANCE",
                f"On {host} the NICs carry unequal numbers of connections: {heavy} {load[heavy]}, the least used one {min(load.values())}.",
                detail=(
                    f"Connections per NIC: {', '.join(f'{nic} {n}' for nic, n in sorted(load.items()))}. The busiest one bounds the host."
                ),
                action="Check which NIC is near which GPU (nvidia-smi topo -m), NCCL_IB_HCA, and whether a port of the host is down.",
                source="NVIDIA/nccl-tests issue 112",
                evidence=[c for c in rows if c["nic"] == heavy],
                hosts=[host],
                ports=[f"{host}/{heavy}"],
                cause="host",
            )


class _Shared(NamedTuple):
    """A NIC, the direction, GPUs on it in that direction, NICs in use in it."""

    nic: str
    side: str | None
    gpus: int
    used: int


def _shared_by_host(evidence: Evidence) -> dict[str, tuple[_Shared, int, int]]:
    """Hosts whose GPUs share a NIC while others are idle or another host has more: NIC, NICs of the host, most NICs of any host."""
    listed, by_host = host_nics(evidence), _edges_by_host(evidence)
    available = {host: max(len(listed.get(host, {})), len({c["nic"] for c in rows})) for host, rows in by_host.items()}
    most = max(available.values(), default=0)
    found = {host: _most_shared(evidence, rows, most) for host, rows in by_host.items()}
    return {host: (shared, available[host], most) for host, shared in found.items() if shared is not None}


def _most_shared(evidence: Evidence, rows: list[Row], available: int) -> _Shared | None:
    """The NIC that most GPUs use in one direction while there would be one for each of them.

    Directions count apart: in a ring one GPU of a host sends over a NIC and another one receives over it.
    """
    found: _Shared | None = None
    for side in ("send", "receive", None):
        gpus: dict[str, set[object]] = defaultdict(set)
        for c in rows:
            if c["side"] == side:
                gpus[c["nic"]].add(evidence.rank_of(c))
        users = {gpu for ranks in gpus.values() for gpu in ranks}
        busiest = max(gpus, key=lambda nic: (len(gpus[nic]), nic), default=None)
        if busiest is not None and len(gpus[busiest]) >= 2 and len(gpus) < min(available, len(users)):
            told = _Shared(busiest, side, len(gpus[busiest]), len(gpus))
            found = told if found is None or told.gpus > found.gpus else found
    return found


def _shared_nic(evidence: Evidence, host: str, rows: list[Row], shared: _Shared, available: int, elsewhere: int) -> Finding:
    nic, side, gpus, used = shared
    verb = {"send": "send over", "receive": "receive over", None: "share"}[side]
    told = f"{used} of {available} NICs {'carries' if used == 1 else 'carry'} that traffic"
    if elsewhere > available:
        told = f"it has {available} NIC{'s' if available > 1 else ''}, another host {elsewhere}"
    env = [e for e in evidence.env("NCCL_IB_HCA", "NCCL_CROSS_NIC") if e["host"] == host]
    listing = [e for e in evidence.of_code("nics") if e["host"] == host and e["key"] == "IB"][:1]
    return finding(
        "SHARED_NIC",
        f"On {host} {gpus} GPUs {verb} {nic}; {told}.",
        detail=f"The host gets {used}/{elsewhere} of the bandwidth that it could have (one 400G NIC is 48 GB/s, eight are 384 GB/s).",
        action="Check NCCL_IB_HCA, the ports of the unused NICs (ibstat), the PCIe placement, and NCCL_TOPO_FILE in virtual machines.",
        source="NVIDIA/nccl-tests issue 112 (9.84 GB/s on one of four NICs)",
        evidence=[*listing, *env, *(c for c in rows if c["nic"] == nic)],
        hosts=[host],
        ports=[f"{host}/{nic}"],
        cause="host",
    )


def nic_sets(evidence: Evidence) -> Iterator[Finding]:
    """Hosts that use other NICs than the rest."""
    sets = {host: frozenset(f"{name}/{link}" for name, link in nics.items()) for host, nics in host_nics(evidence).items()}
    found = majority(sets)
    if found is None:
        return
    usual, deviating = found
    if usual is None and len(sets) == 2:
        (a, first), (b, second) = sorted(sets.items())
        deviating = [a] if first < second else [b] if second < first else [a, b]
        usual = second if first < second else first if second < first else None
    lines = [e for e in evidence.of_code("nics") if e["key"] == "IB"]
    shown = {e["host"]: e for e in reversed(lines)}
    told = "; ".join(f"{host}: {joined(sorted(sets[host])) or 'none'}" for host in deviating[:4])
    expected = f" The others use {joined(sorted(usual))}." if usual else ""
    yield finding(
        "NIC_SET_DIFFERS",
        f"{joined(deviating)} {'uses' if len(deviating) == 1 else 'use'} other NICs than the rest: {told}.",
        detail=f"Every ring goes through every host, so the host with the fewest NICs sets the speed of all.{expected}",
        action="Check that every port is up (ibstat, link layer), and that NCCL_IB_HCA is the same everywhere.",
        source=_NOTE,
        evidence=[shown[h] for h in deviating if h in shown] + [shown[h] for h in sorted(shown) if h not in deviating][:1],
        hosts=deviating,
        cause="host",
    )


_SIDE_NIC = re.compile(r"bond|eth|mgmt|stor", re.IGNORECASE)


def wrong_hca(evidence: Evidence) -> Iterator[Finding]:
    """A NIC that training traffic should not use: another link layer, a name nobody else has, or a filter that matches nothing."""
    nics = host_nics(evidence)
    used: dict[str, set[str]] = {host: {c["nic"] for c in rows} for host, rows in _edges_by_host(evidence).items()}
    for host, links in sorted(nics.items()):
        layers = Counter(links.values())
        if len(layers) < 2:
            continue
        # InfiniBand is there on purpose; an Ethernet port beside it is a storage or management NIC unless it is the only one in use.
        odd = sorted(name for name, link in links.items() if link != "IB" and "IB" in layers)
        taken = [name for name in odd if name in used.get(host, set())] or ([] if used.get(host) else odd)
        if taken:
            yield _wrong(
                evidence,
                host,
                taken,
                f"{joined(taken)} are RoCE beside InfiniBand NICs"
                if len(taken) > 1
                else f"{taken[0]} is a RoCE port beside InfiniBand NICs",
            )
    for host in sorted({e["host"] for e in evidence.of_code("no_ib_device") if e["host"]}):
        filters = [e for e in evidence.env("NCCL_IB_HCA") if e["host"] == host and e["value"]]
        if filters and host not in nics:
            yield _wrong(evidence, host, [], f"NCCL_IB_HCA={filters[0]['value']} matches no device", filters)
    yield from _strange_names(evidence, nics)


def _strange_names(evidence: Evidence, nics: dict[str, dict[str, str]]) -> Iterator[Finding]:
    """A host that uses a NIC which no other host uses, although it uses as many of them."""
    found = majority({host: frozenset(names) for host, names in nics.items()})
    if found is None:
        return
    usual, deviating = found
    if usual is None:
        # Two hosts that differ: a bond or an Ethernet port is the one for storage or management, InfiniBand the one for training.
        doubtful = [h for h, links in nics.items() if all(link != "IB" or _SIDE_NIC.search(name) for name, link in links.items())]
        if len(nics) != 2 or len(doubtful) != 1 or set(nics[doubtful[0]]) <= set().union(*(nics[h] for h in nics if h != doubtful[0])):
            return
        deviating, usual = doubtful, frozenset(next(nics[h] for h in nics if h != doubtful[0]))
    for host in deviating:
        extra = sorted(set(nics[host]) - set(usual))
        if extra:
            yield _wrong(evidence, host, extra, f"{joined(extra)} is used on no other host (the others use {joined(sorted(usual))})")


def _wrong(evidence: Evidence, host: str, names: list[str], why: str, extra: list[Row] | None = None) -> Finding:
    lines = [e for e in evidence.of_code("nics", "no_ib_device") if e["host"] == host]
    edges = [c for c in evidence.connections if c["host"] == host and c["nic"] in names]
    return finding(
        "WRONG_HCA",
        f"{host} uses the wrong NIC: {why}.",
        detail="Storage or management NICs are slower, are on another network, or are not on the GPUs' PCIe switches.",
        action="Name the NICs of the training network in NCCL_IB_HCA, exactly (=mlx5_0:1,mlx5_1:1), the same on every host.",
        source=_NOTE,
        evidence=[*(extra or []), *[e for e in evidence.env("NCCL_IB_HCA") if e["host"] == host], *lines[:2], *edges],
        hosts=[host],
        ports=[f"{host}/{name}" for name in names],
        cause="host",
    )


def hca_prefix(evidence: Evidence) -> Iterator[Finding]:
    """``NCCL_IB_HCA=mlx5_1`` also takes mlx5_10, mlx5_11, ...: without ``=`` a name is a prefix."""
    nics = host_nics(evidence)
    caught: dict[tuple[str, str], set[str]] = defaultdict(set)
    lines: dict[str, list[Row]] = defaultdict(list)
    for event in evidence.env("NCCL_IB_HCA"):
        value, host = event["value"] or "", event["host"]
        if host is None or value.startswith(("=", "^=")):
            continue
        for name in (part.split(":")[0].strip() for part in value.lstrip("^").split(",")):
            more = sorted(
                nic
                for nic in nics.get(host, {})
                if nic != name and nic.startswith(name) and nic[len(name)].isdigit() and name[-1:].isdigit()
            )
            wanted = {part.split(":")[0].strip() for part in value.split(",")}
            unmeant = [nic for nic in more if nic not in wanted]
            if unmeant and not value.startswith("^"):
                caught[host, name] |= set(unmeant)
                lines[host].append(event)
    hosts = sorted({host for host, _ in caught})
    if not hosts:
        return
    names = sorted({name for _, name in caught})
    unmeant_all = sorted({nic for found in caught.values() for nic in found})
    yield finding(
        "HCA_PREFIX",
        f"NCCL_IB_HCA={names[0]} also takes {joined(unmeant_all)} on {joined(hosts)}, because a name without = is a prefix.",
        detail="NCCL spreads connections over every NIC that matches, also those of another network.",
        action=f"Write NCCL_IB_HCA={'=' + ','.join(names)} (an exact list begins with =).",
        source="NCCL user guide, NCCL_IB_HCA",
        evidence=[row for host in hosts for row in lines[host][:1]]
        + [e for e in evidence.of_code("nics") if e["host"] in hosts and e["key"] == "IB"],
        hosts=hosts,
        ports=[f"{host}/{nic}" for (host, _), found in sorted(caught.items()) for nic in sorted(found)],
        cause="host",
    )


def _other_rail(send: Row, receive: Row) -> bool:
    """NICs of different names; where a name is not known (no listing in the log), of different numbers."""
    if "/" in send["nic"] or "/" in receive["nic"]:
        return bool(send["nic_index"] != receive["nic_index"])
    return bool(send["nic"] != receive["nic"])


def rail_mismatch(evidence: Evidence) -> Iterator[Finding]:
    """Connections that join NICs of different rails."""
    told = evidence.of_code("rail_mismatch")
    ends: dict[tuple[object, ...], dict[str, Row]] = defaultdict(dict)
    for c in evidence.connections:
        if evidence.between_hosts(c) and c["side"] and c["network"] in ("IB", "RoCE") and c["comm_id"]:
            ends[c["comm_id"], c["channel"], c["connection"], c["src_rank"], c["dst_rank"]][c["side"]] = c
    # A host that lacks NICs, or uses one for all of its GPUs, leaves the rails for that reason, which has a finding of its own.
    shared = {(host, of.nic) for host, (of, available, most) in _shared_by_host(evidence).items() if of.used == 1 or most > available}
    crossed = [
        pair
        for pair in ends.values()
        if len(pair) == 2
        and _other_rail(pair["send"], pair["receive"])
        and shared.isdisjoint((row["host"], row["nic"]) for row in pair.values())
    ]
    if not told and not crossed:
        return
    partners: dict[str, set[str]] = defaultdict(set)
    for pair in crossed:
        a, b = pair["send"]["host"], pair["receive"]["host"]
        partners[a].add(b)
        partners[b].add(a)
    hub = max(partners, key=lambda host: len(partners[host]), default=None)
    alone = hub is not None and len(partners[hub]) > 1 and all(hub in (p["send"]["host"], p["receive"]["host"]) for p in crossed)
    hosts = ({hub} if alone and hub is not None else set(partners)) | {e["host"] for e in told if e["host"]}
    examples = [f"{p['send']['nic']} to {p['receive']['nic']}" for p in crossed[:1]] or [f"{told[0]['key']} to {told[0]['value']}"]
    yield finding(
        "RAIL_MISMATCH",
        f"Connections of {joined(sorted(hosts))} leave their rail ({examples[0]}).",
        detail=(
            f"{len(crossed) or len(told)} connections join NICs of different rails: extra hops over the spine, and congestion "
            "where the fabric is rail-optimised."
        ),
        action="Give NICs the same order and names on every host; on rail-optimised fabrics set NCCL_CROSS_NIC=0 and leave PXN on.",
        source="NCCL user guide, NCCL_CROSS_NIC; src/transport/net_ib connect",
        evidence=[*told, *(row for pair in crossed for row in pair.values())],
        hosts=hosts,
        cause="host",
    )
