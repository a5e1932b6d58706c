"""Rules about errors that NCCL and the verbs layer print."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator

from netlab.diagnose.nccl_evidence import Evidence, Row, finding, joined
from netlab.findings import Finding

__all__ = ["asynchronous", "ib_errors", "other_errors"]

#: ibv_wc_status: number to its meaning.
_STATUS = {
    "1": "local length error", "2": "local QP operation error", "4": "local protection error", "5": "work request flushed",
    "9": "remote invalid request", "10": "remote access error", "11": "remote operation error", "12": "transport retry counter exceeded",
    "13": "receiver-not-ready retry counter exceeded",
}  # fmt: skip
_FLUSH = "5"
#: Findings that only quote a line: code, what happened, what it means, what to do, severity.
_PLAIN_ERRORS = (
    (
        "CUDA_FAILURE",
        "A CUDA call failed",
        "NCCL cannot go on after it.",
        "Read the text: out of memory, or a fault of the GPU (dmesg, Xid).",
        "critical",
    ),
    (
        "DUPLICATE_GPU",
        "Two ranks use one GPU",
        "Initialisation fails.",
        "Set the device from the local rank before the first NCCL call.",
        "critical",
    ),
    (
        "CONNECT_FAILED",
        "A bootstrap connection failed",
        "A peer is not up, or a firewall drops the port.",
        "Check NCCL_SOCKET_IFNAME and the peer.",
        "warning",
    ),
    (
        "MESSAGE_TRUNCATED",
        "A message had another length than its receiver expected",
        "Ranks disagree about sizes or settings.",
        "Compare variables and shapes of the ranks.",
        "critical",
    ),
)
_QUIET_EVENTS = re.compile(r"client reregistration|port active|GID table change|P_Key change|SM change|LID change", re.IGNORECASE)
_FATAL_EVENTS = re.compile(r"fatal|catastrophic|port error|port down|link down|device removal", re.IGNORECASE)


def ib_errors(evidence: Evidence) -> Iterator[Finding]:
    """Failed work requests and queue pairs, per host."""
    for host, rows in evidence.by_host(evidence.of_code("ib_completion")):
        # A flush follows from the first real error of the queue pair, which may have been on the other end.
        first = [e for e in rows if e["key"] != _FLUSH] or rows
        codes = Counter(e["key"] for e in first)
        worst = codes.most_common(1)[0][0]
        nics = sorted({m[1] for e in first if (m := re.search(r"hca=(\S+)", e["value"] or ""))})
        peers = sorted({evidence.address_host(m[1]) for e in first if (m := re.search(r"peer=([^\s<]+)", e["value"] or ""))})
        only_flush = worst == _FLUSH
        follows = only_flush and any(e["key"] != _FLUSH for e in evidence.of_code("ib_completion"))
        yield finding(
            "IB_ERROR",
            f"The InfiniBand transport of {host} failed with status {worst} ({_STATUS.get(str(worst), 'see ibv_wc_status')})"
            + (f" talking to {joined(peers)}." if peers else "."),
            detail=(
                "Flushed requests are a consequence: the first other status, on this host or its peer, is the cause."
                if only_flush
                else "Retries were used up: a link that flaps, loses packets (PFC, ECN), or a wrong GID. The job dies; before that, "
                "retransmits make steps slow."
                if worst in ("12", "13")
                else "The request was refused, by memory registration or by the peer; the job dies."
            ),
            action=(
                "Look at link_downed, symbol and local_ack_timeout counters of the NIC and its switch port, at NCCL_IB_GID_INDEX "
                "(RoCE v2) and the "
                "peer's log. NCCL_IB_TIMEOUT and NCCL_IB_RETRY_CNT only hide it."
            ),
            source="IB verbs ibv_wc_status; NVIDIA/nccl issues 1405, 1814, 1664",
            evidence=[*first, *(e for e in rows if e not in first)],
            hosts=[host],
            ranks=[e["rank"] for e in first if e["rank"] is not None],
            ports=[f"{host}/{nic}" for nic in nics],
            severity="warning" if follows else "critical",
            cause="fabric",
        )
    for host, rows in evidence.by_host(evidence.of_code("modify_qp", "verbs_call")):
        yield finding(
            "IB_ERROR",
            f"A queue pair of {host} could not be brought up: {rows[0]['value'] or rows[0]['key']}.",
            detail="The peer cannot be reached by the GID in use: wrong GID index, VLAN, partition, or a firewall.",
            action="Compare local and remote GID of the line, check NCCL_IB_GID_INDEX, and ping the peer with ib_write_bw.",
            source="NVIDIA/nccl src/transport/net_ib",
            evidence=rows,
            hosts=[host],
            ports=[f"{host}/{e['key'].split(':')[0]}" for e in rows if e["code"] == "modify_qp" and e["key"]],
            ranks=[e["rank"] for e in rows if e["rank"] is not None],
            cause="fabric",
        )
    for host, rows in evidence.by_host(evidence.of_code("ib_device_failed")):
        yield finding(
            "IB_ERROR",
            f"{host} lost NIC {joined(sorted(nic_name(evidence, host, e['value']) for e in rows))} during the run and goes on with fewer.",
            detail="Since 2.30 NCCL moves the traffic to the NICs that are left: the rest of the run has less bandwidth.",
            action="Replace the NIC or its cable and restart from a checkpoint.",
            source="src/transport/net_ib/p2p_resiliency.cc",
            evidence=rows,
            hosts=[host],
            ports=[f"{host}/{nic_name(evidence, host, e['value'])}" for e in rows],
            ranks=[e["rank"] for e in rows if e["rank"] is not None],
            cause="fabric",
        )


def nic_name(evidence: Evidence, host: str, index: str | None) -> str:
    """Name of a NIC by its number, from the host's listing; the number where there is none."""
    for event in evidence.of_code("nics"):
        found = re.search(rf"\[{index}\]([A-Za-z][\w.-]*):", event["value"] or "") if event["host"] == host else None
        if found:
            return found[1]
    return str(index)


def asynchronous(evidence: Evidence) -> Iterator[Finding]:
    """Asynchronous events: a port went down, a queue died."""
    for host, rows in evidence.by_host(evidence.of_code("async_event")):
        loud = [e for e in rows if not _QUIET_EVENTS.search(e["value"] or "")]
        shown = loud or rows
        fatal = any(_FATAL_EVENTS.search(e["value"] or "") for e in loud)
        texts = sorted({(e["value"] or "").strip() for e in shown})
        ports = sorted({f"{host}/{e['key'].split(':')[0]}" for e in shown if e["key"]})
        yield finding(
            "IB_DOWN_ASYNC",
            f"{host} reported an asynchronous InfiniBand event: {joined(texts, 3)}.",
            detail="A port that goes down takes every connection over it along; if it comes back, retransmits have cost time meanwhile."
            if loud
            else "The fabric manager or the network configured the port anew; without errors around it, it is harmless.",
            action="Check the cable and the switch port (link_downed counter, dmesg, switch log at that time).",
            source="ibv_get_async_event; NVIDIA/nccl src/transport/net_ib",
            evidence=shown,
            hosts=[host],
            ranks=[e["rank"] for e in shown if e["rank"] is not None],
            ports=ports,
            severity="critical" if fatal else "warning" if loud else "info",
            cause="fabric",
        )


def other_errors(evidence: Evidence) -> Iterator[Finding]:
    """Errors that end a job or point to the one who did."""
    closed: dict[str, list[Row]] = defaultdict(list)
    for event in evidence.of_code("peer_closed"):
        closed[evidence.address_host((event["value"] or "").partition("<")[0])].append(event)
    for peer, rows in sorted((peer, rows) for peer, rows in closed.items() if peer):
        yield finding(
            "PEER_CLOSED",
            f"{peer} closed its connections: it, or a neighbour of it, died first.",
            detail=f"{joined(sorted({e['host'] for e in rows if e['host']}))} lost the connection; they are not the cause.",
            action=f"Read the log of {peer} and its dmesg (Xid, out of memory) at that time.",
            source="src/misc/socket.cc",
            evidence=rows,
            hosts=[peer],
            severity="critical",
            cause="host",
        )
    for code, title, detail, action, severity in _PLAIN_ERRORS:
        for host, rows in evidence.by_host(evidence.of_code(code.lower() if code != "MESSAGE_TRUNCATED" else "truncated_message")):
            text = next((e["value"] for e in rows if e["value"]), None)
            ranks = {e["rank"] for e in rows if e["rank"] is not None}
            if code == "MESSAGE_TRUNCATED" and text is not None:
                text = f"{rows[0]['value']} bytes instead of {rows[0]['key']}"
            if code == "DUPLICATE_GPU":
                ranks = {int(rank) for e in rows for rank in (e["value"] or "").split(",") if rank.isdigit()}
                text = f"ranks {joined(sorted(ranks))}"
            yield finding(
                code,
                f"{title} on {host}" + (f": {text}." if text else "."),
                detail=detail,
                action=action,
                source="NVIDIA/nccl warnings",
                evidence=rows,
                hosts=[host],
                ranks=ranks,
                severity=severity,
                cause="host",
            )
    known = {"warning"}
    rows = [e for e in evidence.of_code(*known) if not re.search(r"MNNVL", e["message"] or "")]
    if rows:
        hosts = sorted({e["host"] for e in rows if e["host"]})
        yield finding(
            "NCCL_WARNING",
            f"NCCL printed {len(rows)} other warnings on {joined(hosts) or 'some hosts'}.",
            detail="netlab has no rule for them; the first are quoted.",
            action="Read them in order of time; the first one is usually the cause of the rest.",
            source="NCCL WARN level",
            evidence=rows,
            hosts=hosts,
            severity="info",
        )
