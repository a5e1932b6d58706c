"""Rules about versions and variables."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator

from netlab.diagnose.nccl_evidence import Evidence, Row, finding, joined, majority
from netlab.findings import Finding

__all__ = ["env_differs", "env_leftover", "old_nccl", "slow_init", "version_mix"]

#: NCCL 2.18 came with PyTorch 2.1 in 2023; older ones lack NVLink SHARP tuning and many fixes of the network transports.
OLDEST_GOOD = (2, 18)
#: Initialisation above this is felt at every restart (seconds).
SLOW_INIT_S = 30.0

#: Variables that say where to write, or that differ by host on purpose.
_OWN_PER_HOST = re.compile(r"NCCL_DEBUG|NCCL_.*(?:FILE|DUMP|HOSTID|CONF)|NCCL_COMM_ID|NCCL_SOCKET_IFNAME_|CUDA_VISIBLE_DEVICES|.*_RANK$")
_BINDING = frozenset({"NCCL_IB_HCA", "NCCL_SOCKET_IFNAME", "NCCL_NETDEVS_POLICY"})

#: Switches that belong to a bug hunt, with the values at which they are harmless, and their effect.
_LEFTOVERS: dict[str, tuple[tuple[str, ...], str]] = {
    "NCCL_ALGO": ((), "forces an algorithm at every size"),
    "NCCL_PROTO": ((), "forces a protocol at every size; Simple costs small operations, LL costs large ones"),
    "NCCL_P2P_DISABLE": (("0",), "sends traffic inside hosts through host memory"),
    "NCCL_SHM_DISABLE": (("0",), "sends traffic inside hosts over the network"),
    "NCCL_IB_DISABLE": (("0",), "sends traffic between hosts over TCP"),
    "NCCL_NET_GDR_LEVEL": (("PIX", "PXB", "PHB", "SYS", "PXN", "1", "2", "3", "4", "5", "6", "7", "8", "9"), "switches GPUDirect RDMA off"),
    "NCCL_NVLS_ENABLE": (("1", "2"), "switches NVLink SHARP off"),
    "NCCL_PXN_DISABLE": (("0",), "switches relaying over NVLink off"),
    "NCCL_MAX_NCHANNELS": ((), "limits the channels"),
    "NCCL_MAX_CTAS": ((), "limits the channels"),
    "NCCL_MAX_NRINGS": ((), "limits the channels"),
    "NCCL_NTHREADS": ((), "fixes the threads of a channel"),
    "NCCL_CHECKS_DISABLE": (("0",), "skips checks of arguments"),
    "NCCL_CHECK_POINTERS": (("0",), "checks every pointer"),
    "NCCL_LAUNCH_MODE": ((), "fixes how kernels are launched"),
    "NCCL_P2P_LEVEL": (("NVL", "PIX", "PXB", "PHB", "SYS", "1", "2", "3", "4", "5"), "switches P2P off"),
    "NCCL_IGNORE_DISABLED_P2P": (("0",), "hides that an NVLink connection is broken"),
    "NCCL_MIN_NCHANNELS": ((), "takes more of the GPU than NCCL would"),
    "NCCL_DEBUG": (("VERSION", "WARN", "INFO", "ABORT"), "writes a line for every step of every transfer"),
    "CUDA_LAUNCH_BLOCKING": (("0",), "makes every launch wait"),
}
_MILD = frozenset({"NCCL_NTHREADS", "NCCL_CHECK_POINTERS", "NCCL_CHECKS_DISABLE", "NCCL_LAUNCH_MODE", "NCCL_MIN_NCHANNELS"})


def _number(text: str | None) -> tuple[int, ...] | None:
    found = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", text or "")
    return tuple(int(part or 0) for part in found.groups()) if found else None


def _decode(code: str) -> str:
    """``22403`` is 2.24.3; ``2804`` is 2.8.4 (before 2.9 the number has one digit less).

    >>> _decode("22403"), _decode("2804")
    ('2.24.3', '2.8.4')
    """
    number = int(code)
    if number < 10_000:
        return f"{number // 1000}.{number % 1000 // 100}.{number % 100}"
    return f"{number // 10_000}.{number % 10_000 // 100}.{number % 100}"


def version_mix(evidence: Evidence) -> Iterator[Finding]:
    """Ranks with different library versions in one job."""
    told = evidence.of_code("version_mismatch")
    by_host: dict[str, set[str]] = defaultdict(set)
    for c in evidence.communicators:
        if c["host"] and c["nccl_version"]:
            by_host[c["host"]].add(c["nccl_version"])
    for event in evidence.of_code("version"):
        version = re.match(r"\d+\.\d+\.\d+", event["value"] or "")
        if event["host"] and version:
            by_host[event["host"]].add(version[0])
    flight = evidence.flight.select("rank", "nccl_version").drop_nulls().unique()
    by_rank = {int(rank): version for rank, version in flight.iter_rows()}
    printed = {m[0] for e in evidence.of_code("version") if (m := re.match(r"\d+\.\d+\.\d+", e["value"] or ""))}
    found = majority({host: "+".join(sorted(versions)) for host, versions in by_host.items()})
    mixed_host = sorted(host for host, versions in by_host.items() if len(versions) > 1)
    by_dump = majority({str(rank): version for rank, version in by_rank.items()})
    if not told and found is None and not mixed_host and by_dump is None and len(printed) < 2:
        return
    ranks, seen = set(), set(printed) | set(by_rank.values()) | {v for versions in by_host.values() for v in versions}
    for event in told:
        pair = [int(r) for r in (event["key"] or "").split(",")]
        codes = (event["value"] or "").split(",")
        seen |= {_decode(code) for code in codes}
        ranks |= set(pair)
    if by_dump is not None:
        ranks |= {int(rank) for rank in by_dump[1]}
    hosts = set(found[1]) if found else set(mixed_host)
    hosts |= {c["host"] for c in evidence.communicators if c["global_rank"] in ranks and c["host"]} if not hosts else set()
    where = joined(sorted(hosts)) or (f"ranks {joined(sorted(ranks))}" if ranks else "some ranks")
    lines = [e for e in evidence.of_code("version") if not hosts or e["host"] in hosts or e["host"] is None]
    yield finding(
        "VERSION_MIX",
        f"Ranks run different NCCL versions ({joined(sorted(seen))}): {where}.",
        detail="Different versions choose algorithms, protocols and channels differently: hangs, or the slowest default for all.",
        action="Use one image on all hosts; check LD_LIBRARY_PATH and the library that PyTorch brings (torch.cuda.nccl.version()).",
        source="src/init.cc (2.23 and later warn)",
        evidence=[*told, *lines, *(c for c in evidence.communicators if c["host"] in hosts)],
        hosts=hosts,
        ranks=ranks,
        cause="host",
    )


def old_nccl(evidence: Evidence) -> Iterator[Finding]:
    """A library so old that newer ones are known to be faster."""
    old: dict[str, list[Row]] = defaultdict(list)
    seen: set[str] = set()
    for c in evidence.communicators:
        number = _number(c["nccl_version"])
        if number is not None and number[:2] < OLDEST_GOOD:
            seen.add(c["nccl_version"])
            old[c["host"] or ""].append(c)
    lines = [e for e in evidence.of_code("version") if e["key"] in ("nccl", "rccl") and (n := _number(e["value"])) and n[:2] < OLDEST_GOOD]
    seen |= {re.match(r"[\d.]+\d", e["value"])[0] for e in lines}  # type: ignore[index]
    if not seen:
        return
    hosts = {host for host in old if host} | {e["host"] for e in lines if e["host"]}
    yield finding(
        "OLD_NCCL",
        f"NCCL {joined(sorted(seen))} is old" + (f" ({joined(sorted(hosts))})." if hosts else "."),
        detail=(
            "Before 2.12 there is no relaying over NVLink to the right NIC (PXN), before 2.17 no NVLink SHARP, before 2.18 "
            "many fixes are missing."
        ),
        action=f"Use NCCL {OLDEST_GOOD[0]}.{OLDEST_GOOD[1]} or newer (the one that a current PyTorch brings), the same on all hosts.",
        source="NCCL release notes 2.12, 2.17, 2.18",
        evidence=lines or [c for rows in old.values() for c in rows],
        hosts=hosts,
        cause="host",
    )


def env_differs(evidence: Evidence) -> Iterator[Finding]:
    """Variables with different values on different hosts, or set on some of them only."""
    lines: dict[str, dict[str, dict[str, Row]]] = defaultdict(lambda: defaultdict(dict))
    for event in evidence.of_code("env"):
        if event["host"] and event["key"] and not _OWN_PER_HOST.match(event["key"]):
            if event["key"].endswith("_DISABLE") and event["value"] == "0":
                continue  # that is the default
            lines[event["key"]][event["host"]].setdefault(event["value"] or "", event)
    # A host takes part if its log shows the choice of the network, which is when variables are printed: a log of one warning says nothing.
    hosts = {e["host"] for e in evidence.of_code("network", "nics") if e["host"]}
    for name, of_host in sorted(lines.items()):
        values = {host: ", ".join(sorted(of_host.get(host, {}))) or "not set" for host in hosts | set(of_host)}
        found = majority(values)
        if found is None:
            yield from _inside(evidence, name, of_host)
            continue
        usual, deviating = found
        yield finding(
            "ENV_DIFFERS",
            f"{name} is not the same everywhere: {'; '.join(f'{host}: {values[host]}' for host in deviating[:6])}"
            + (f"; elsewhere {usual}." if usual else "."),
            detail=(
                "Ranks with different settings choose different transports or algorithms; the slowest decides, and some combinations hang."
            ),
            action=f"Set {name} the same on every host (in the job script, not in a profile of one host).",
            source="src/transport/net_socket.cc (message truncated); NCCL user guide, environment variables",
            evidence=[row for host in deviating for row in of_host.get(host, {}).values()]
            + [r for h, v in of_host.items() if h not in deviating for r in v.values()][:1],
            hosts=deviating,
            cause="host",
        )


def _inside(evidence: Evidence, name: str, of_host: dict[str, dict[str, Row]]) -> Iterator[Finding]:
    """Different values inside hosts. NIC bindings differ per process on purpose."""
    mixed = {host: values for host, values in of_host.items() if len(values) > 1}
    if mixed and name not in _BINDING:
        texts = "; ".join(f"{host}: {', '.join(sorted(values))}" for host, values in sorted(mixed.items())[:6])
        yield finding(
            "ENV_DIFFERS",
            f"{name} differs between processes of one host ({texts}).",
            detail="Ranks with different settings choose different transports or algorithms.",
            action=f"Set {name} the same for every rank.",
            source="NCCL user guide, environment variables",
            evidence=[row for values in mixed.values() for row in values.values()],
            hosts=mixed,
            cause="host",
        )


def env_leftover(evidence: Evidence) -> Iterator[Finding]:
    """Switches of a bug hunt that were left set."""
    found: dict[str, list[Row]] = defaultdict(list)
    for event in evidence.of_code("env"):
        name, value = event["key"], (event["value"] or "").strip()
        # The libfabric plugin itself asks for Simple on EFA, where the other protocols are not safe.
        if name == "NCCL_PROTO" and value.lower() == "simple" and any(e["host"] == event["host"] for e in evidence.of_code("ofi")):
            continue
        if name in _LEFTOVERS and value and value.upper() not in _LEFTOVERS[name][0]:
            found[name].append(event)
    strong = {name: rows for name, rows in found.items() if name not in _MILD}
    for group, severity in ((strong, "warning"), ({n: r for n, r in found.items() if n in _MILD}, "info")):
        if not group:
            continue
        settings = [f"{name}={rows[0]['value']} ({_LEFTOVERS[name][1]})" for name, rows in sorted(group.items())]
        rows = [row for _, rows in sorted(group.items()) for row in rows]
        hosts = {row["host"] for row in rows if row["host"]}
        yield finding(
            "ENV_LEFTOVER",
            f"{joined(settings)} {'is' if len(settings) == 1 else 'are'} set on {joined(sorted(hosts)) or 'some hosts'}.",
            detail="Such settings help to find a bug and cost speed afterwards; NCCL's own choice knows sizes and topology.",
            action=f"Unset {joined(sorted(group))} and compare; keep one only with a measurement that justifies it.",
            source="NCCL user guide, environment variables (discourages them in production)",
            evidence=rows,
            hosts=hosts,
            severity=severity,
            cause="host",
        )


def slow_init(evidence: Evidence) -> Iterator[Finding]:
    """Initialisation takes long: felt at every start and restart."""
    total: Counter[tuple[str | None, int | None, str]] = Counter()
    for c in evidence.communicators:
        if c["init_ms"] is not None:
            total[c["host"], c["pid"], c["source"]] += c["init_ms"] / 1e3
    slow = {key: seconds for key, seconds in total.items() if seconds > SLOW_INIT_S}
    if not slow:
        return
    lines = [e for e in evidence.of_code("timings") if (e["host"], e["pid"], e["source"]) in slow]
    own: dict[str, float] = defaultdict(float)
    for event in lines:
        parts = {name: float(value) for name, value in re.findall(r"(\w+) (\d+\.\d+)", (event["message"] or "").partition("(")[2])}
        if event["host"] and parts:
            waiting = parts.get("bootstrap", 0.0) + parts.get("allgathers", 0.0)
            own[event["host"]] = max(own[event["host"]], float(event["value"] or 0) - waiting)
    hosts = {host for host, _, _ in slow if host}
    # Everyone waits for the slowest in bootstrap and all-gathers: a host whose own part is the long one is the cause.
    guilty = {host for host, seconds in own.items() if seconds > SLOW_INIT_S / 2 and seconds > 2 * min(own.values())}
    affected = guilty if guilty and len(guilty) < len(hosts) else hosts
    longest = max(slow.values())
    yield finding(
        "SLOW_INIT",
        f"Initialisation of NCCL takes up to {longest:.0f} s ({joined(sorted(affected))}).",
        detail=(
            f"{len(slow)} processes need more than {SLOW_INIT_S:.0f} s in all. "
            + (
                "The others wait for these hosts in the bootstrap."
                if affected != hosts
                else "A large bootstrap part points to the out-of-band network."
            )
        ),
        action=(
            "Check NCCL_SOCKET_IFNAME (a fast out-of-band interface), the number of communicators, and "
            "ncclCommInitRankScalable for large jobs."
        ),
        source="src/init.cc, Init timings (2.22 and later)",
        evidence=lines or [c for c in evidence.communicators if (c["host"], c["pid"], c["source"]) in slow],
        hosts=affected,
        cause="host",
    )
