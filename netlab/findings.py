"""Findings: what an analysis concludes, with measure, threshold, evidence, those affected and the next action."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import polars as pl

from netlab.schema.analysis import FINDINGS

__all__ = ["FINDING_CODES", "Finding", "Subject", "findings_frame", "localised_port", "ranked"]

#: Code to meaning; the source of docs/codes.md.
FINDING_CODES: dict[str, str] = {
    "NETWORK_SHARE": "Exposed transfer is above the threshold.",
    "MOSTLY_WAITING": "Communication is above the threshold, but most of it is waiting.",
    "STRAGGLER": "One rank makes the others wait, by its own compute, host or input.",
    "SLOW_TRANSFER_ELSEWHERE": "Ranks wait because a member was held up by transfer in another group or pair.",
    "UNEVEN_OPERATIONS": "A job waits for ranks, a stage or micro-batches whose operations take longer than is usual for their kind.",
    "PIPELINE_BUBBLE": "A receive waits for its sender's normal compute.",
    "HOST_BOUND": "The GPU is idle and waits for launches.",
    "HOST_COPIES": "Copies between host and device take more than a tenth of the step.",
    "NO_OVERLAP": "Communication could have been hidden behind compute, but is not.",
    "LOW_BUS_BANDWIDTH": "Collectives reach much less than the link can do.",
    "SOCKET_FALLBACK": "NCCL uses TCP sockets between hosts although faster networks are there.",
    "GDR_DISABLED": "GPUDirect RDMA is off.",
    "SHARED_NIC": "Several GPUs share one NIC.",
    "WRONG_HCA": "NCCL uses a NIC that it should not.",
    "HCA_PREFIX": "NCCL_IB_HCA matches more NICs than meant, because it is a prefix.",
    "NIC_SET_DIFFERS": "Hosts use different sets of NICs.",
    "NIC_IMBALANCE": "NICs of a host carry unequal numbers of connections.",
    "VERSION_MIX": "Ranks run different NCCL versions.",
    "OLD_NCCL": "The NCCL version is old.",
    "ENV_DIFFERS": "Ranks have different NCCL settings.",
    "BUSBW_ABOVE_LINE_RATE": "A bandwidth is above what the link can carry: check the declared rate.",
    "IB_ERROR": "The InfiniBand transport reported an error.",
    "COLLECTIVE_TIMEOUT": "The watchdog timed out a collective.",
    "COLLECTIVE_NOT_JOINED": "A rank did not join a collective.",
    "COLLECTIVE_MISMATCH": "Ranks called different collectives.",
    "P2P_UNMATCHED": "A send has no receive, or the reverse.",
    "LINK_ERRORS": "A link has errors above its threshold.",
    "LINK_FLAP": "A link went down and up.",
    "LINK_UTILIZATION": "A link is used above its band.",
    "PACKET_LOSS": "Packets are lost above 1e-4.",
    "PFC_PAUSE": "A port is paused for too much of the time.",
    "XMIT_WAIT": "An InfiniBand port waits for credits for much of the time.",
    "PFC_STORM_OPEN": "A pause storm began and has not ended.",
    "ECN_MARKING": "Packets are marked for congestion above the threshold.",
    "ECMP_IMBALANCE": "Equal-cost links carry unequal loads.",
    "RAIL_IMBALANCE": "Rails carry unequal loads.",
    "OVERSUBSCRIBED": "Uplinks saturate while host ports do not.",
    "QUEUE_WATERMARK": "A queue held more than 100 to 200 us of its link's bandwidth.",
    "QOS_CLASS": "Traffic runs in another class than that of its peers, or outside the lossless one.",
    "MODULE_TEMPERATURE": "A transceiver is hot.",
    "TRAFFIC_MISMATCH": "A host's ports moved more or less than its collectives ask for.",
    "TRAFFIC_ANOMALY": "The traffic of a link left its course.",
    "INCAST": "Many senders hit one port at once.",
    "HEADROOM": "The link is not the limit; a faster one would not help.",
    "CHANGE_POINT": "Steps became slower from one step on.",
    "PCIE_DISTANCE": "GPU and NIC are far apart in the host.",
    "P2P_DISABLED": "Peer-to-peer between GPUs is off.",
    "NVLS_OFF": "NVLink SHARP is off although the hardware has it.",
    "FEW_CHANNELS": "NCCL uses few channels.",
    "RAIL_MISMATCH": "A GPU talks over another rail's NIC.",
    "ENV_LEFTOVER": "A debugging or tuning variable was left set.",
    "IB_DOWN_ASYNC": "An asynchronous InfiniBand event reported a port down.",
    "SLOW_INIT": "Communicator initialisation is slow.",
    "RANK_SLOWER": "Compared with the base, one rank holds the others up.",
    "TRANSFER_SLOWER": "Compared with the base, transfer takes longer.",
    "OVERLAP_LOST": "Compared with the base, less communication is hidden.",
    "COMPUTE_SLOWER": "Compared with the base, compute takes longer on all ranks.",
    "HOST_SLOWER": "Compared with the base, GPUs wait longer for their hosts.",
    "TRANSPORT_CHANGED": "Hosts talk over another network than in the base.",
    "NCCL_VERSION_CHANGED": "NCCL has another version than in the base.",
    "NCCL_SETTINGS_CHANGED": "NCCL settings differ from the base.",
    "BUCKETS_CHANGED": "A step has more and smaller collectives than in the base.",
    "TRAFFIC_CHANGED": "A step moves more bytes than in the base.",
    "PLACEMENT_CHANGED": "Ranks lie on other hosts than in the base.",
    "SMALL_MESSAGES": "Collectives are too small to fill their link: latency takes most of their time.",
    "CALL_SKEW": "A rank calls a collective long after the others, by the instants of flight-recorder dumps.",
    "SMALL_MTU": "InfiniBand queues use packets smaller than 4096 bytes.",
    "ONE_QP": "RoCE between many hosts uses one queue pair per connection.",
    "RING_AT_SCALE": "NCCL takes a ring for small messages over many hosts.",
    "HALF_LINE_RATE": "With GPUDirect on, a speed test reaches half of what the NICs can (PCIe ACS, IOMMU).",
    "FIXED_CALL_TIME": "Small collectives take tens of milliseconds whatever their size.",
    "COLLNET_OFF": "In-network reduction was asked for and is not used.",
    "PXN_ALWAYS": "GPUs reach the network only through another GPU.",
    "OFI_LIMITED": "The libfabric plugin found too few NICs or sends without RDMA.",
    "HOST_SETUP": "NCCL hints at a set-up of the host that costs speed.",
    "MNNVL_OFF": "Multi-node NVLink is there, but not used.",
    "PEER_CLOSED": "A host closed its connections: it died first.",
    "CUDA_FAILURE": "A CUDA call failed.",
    "DUPLICATE_GPU": "Two ranks use one GPU.",
    "CONNECT_FAILED": "A bootstrap connection failed.",
    "MESSAGE_TRUNCATED": "A message had another length than its receiver expected.",
    "RANK_UNRESPONSIVE": "NCCL's RAS network cannot reach a process.",
    "NCCL_WARNING": "NCCL printed warnings for which there is no rule.",
}

_SEVERITIES = ("critical", "warning", "info")
#: Where no time tells: what explains the others or costs most stands first, what only follows or may be meant stands last; findings without
#: a place here are between the two.
_FIRST = (
    "DUPLICATE_GPU", "COLLECTIVE_MISMATCH", "RANK_UNRESPONSIVE", "CUDA_FAILURE", "IB_DOWN_ASYNC", "COLLECTIVE_NOT_JOINED", "IB_ERROR",
    "P2P_UNMATCHED", "PEER_CLOSED", "MESSAGE_TRUNCATED", "SOCKET_FALLBACK", "OFI_LIMITED", "WRONG_HCA", "SHARED_NIC", "NIC_SET_DIFFERS",
    "P2P_DISABLED", "GDR_DISABLED", "MNNVL_OFF", "HALF_LINE_RATE", "PCIE_DISTANCE", "FEW_CHANNELS", "NVLS_OFF", "RAIL_MISMATCH",
    "VERSION_MIX", "PFC_STORM_OPEN", "LINK_FLAP", "LINK_ERRORS", "OVERSUBSCRIBED", "INCAST", "ECMP_IMBALANCE", "RAIL_IMBALANCE",
    "PFC_PAUSE",
)  # fmt: skip
_LAST = ("ENV_DIFFERS", "ENV_LEFTOVER", "HOST_SETUP", "OLD_NCCL", "SLOW_INIT", "COLLECTIVE_TIMEOUT", "CONNECT_FAILED", "NCCL_WARNING")
_PLACES = {code: place for place, code in enumerate((*_FIRST, "", *_LAST))}


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """Those affected by a finding, and nobody else. ``ports`` are ``device/port``."""

    hosts: list[str] = []
    ranks: list[int] = []
    ports: list[str] = []
    groups: list[str] = []
    steps: list[int] = []


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One conclusion.

    ``time_lost_ms`` is the mean time by which the pooled step would shrink if the finding's own excess vanished: an upper bound without
    replay, null when unknown. ``cause`` is the verdict's word for it (fabric, intra_node, straggler, schedule, host), or none.
    """

    code: str
    title: str
    detail: str
    action: str
    source: str
    severity: str = "warning"
    subject: Subject = Subject()
    evidence: list[dict[str, Any]] = []
    time_lost_ms: float | None = None
    cause: str = "none"
    #: Symptoms stand below the cause that explains them.
    symptom: bool = False
    id: str = ""


def localised_port(evidence: Iterable[Mapping[str, Any]]) -> str | None:
    """The port that the evidence of a finding shows to have slowed the job; None where it shows none.

    >>> localised_port([{"port": "leaf1/swp2", "localisation": "localised"}]), localised_port([{"port": "leaf1/swp2"}])
    ('leaf1/swp2', None)
    """
    return next((str(row["port"]) for row in evidence if row.get("localisation") == "localised"), None)


def ranked(findings: Iterable[Finding]) -> list[Finding]:
    """Findings by time lost, most first; unknown last, then by severity, what explains or costs more, and code. Gives each a unique ``id``.

    A cause stands above the symptoms (NETWORK_SHARE, MOSTLY_WAITING, LOW_BUS_BANDWIDTH) or directly below one.
    """

    def order(finding: Finding) -> tuple[bool, float, int, bool, int, str, str]:
        lost = finding.time_lost_ms
        return (
            lost is None,
            -(lost or 0.0),
            _SEVERITIES.index(finding.severity),
            finding.symptom,
            _PLACES.get(finding.code, len(_FIRST)),
            finding.code,
            finding.title,
        )

    seen: dict[str, int] = {}
    result = []
    for finding in sorted(findings, key=order):
        seen[finding.code] = seen.get(finding.code, 0) + 1
        result.append(msgspec.structs.replace(finding, id=f"{finding.code}-{seen[finding.code]}"))
    return result


def findings_frame(findings: Iterable[Finding]) -> pl.DataFrame:
    """The ``findings`` table, in the given order."""
    rows = [
        {
            "id": f.id,
            "code": f.code,
            "severity": f.severity,
            "title": f.title,
            "detail": f.detail,
            "subject": json.dumps(msgspec.to_builtins(f.subject)),
            "evidence": json.dumps(f.evidence),
            "action": f.action,
            "source": f.source,
            "time_lost_ms": f.time_lost_ms,
        }
        for f in findings
    ]
    return FINDINGS.validate(FINDINGS.conform(pl.DataFrame(rows, schema=dict(FINDINGS.schema))))
