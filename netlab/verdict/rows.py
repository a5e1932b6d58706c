"""Rows of the ``netlab.check/1`` document. Times in milliseconds, shares from 0 to 1; unknown is null."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = [
    "Breakdown",
    "CollectiveRow",
    "Compare",
    "Delta",
    "GroupRow",
    "HangRow",
    "InstanceRow",
    "LinkRow",
    "P2PRow",
    "RankRow",
    "RankStepRow",
    "SourceRow",
    "StepRow",
    "StragglerRow",
]


class Breakdown(msgspec.Struct, frozen=True, kw_only=True):
    """Where time went: means per (rank, step); shares are sums over sums."""

    iterations: int | None = None
    iteration_ms: float | None = None
    compute_ms: float | None = None
    comm_ms: float | None = None
    hidden_comm_ms: float | None = None
    hidden_transfer_ms: float | None = None
    hidden_wait_ms: float | None = None
    exposed_comm_ms: float | None = None
    exposed_transfer_ms: float | None = None
    exposed_wait_ms: float | None = None
    exposed_memory_ms: float | None = None
    idle_ms: float | None = None
    exposed_transfer_inter_node_ms: float | None = None
    exposed_transfer_intra_node_ms: float | None = None
    exposed_transfer_unplaced_ms: float | None = None
    network_share: float | None = None
    network_share_low: float | None = None
    network_share_high: float | None = None
    comm_share: float | None = None
    wait_share: float | None = None
    fabric_share: float | None = None
    network_delay_share: float | None = None
    overlap_efficiency: float | None = None
    split: str | None = None
    basis: str | None = None
    flagged: bool = False
    flag_certain: bool = False


class RankRow(Breakdown, frozen=True, kw_only=True):
    """One rank, pooled over its steps."""

    rank: int
    device: int | None = None


class StepRow(Breakdown, frozen=True, kw_only=True):
    """One step, pooled over ranks."""

    step: int
    window: int = 0


class RankStepRow(Breakdown, frozen=True, kw_only=True):
    """One rank in one step."""

    rank: int
    step: int
    device: int | None = None
    window: int = 0


class GroupRow(msgspec.Struct, frozen=True, kw_only=True):
    """One group of ranks."""

    group: list[int]
    name: str | None = None
    description: str | None = None
    parallelism: str | None = None
    layer: str | None = None
    transfer_ms: float | None = None
    wait_ms: float | None = None
    exposed_transfer_ms: float | None = None
    bytes: int | None = None
    busbw_gb_per_s: float | None = None
    roofline_gb_per_s: float | None = None
    roofline_origin: str | None = None
    efficiency: float | None = None
    #: From NCCL logs: slowest transport, network, NICs, and the communicators with these members.
    transport: str | None = None
    network: str | None = None
    nics: list[str] = []
    comm_ids: list[str] = []


class CollectiveRow(msgspec.Struct, frozen=True, kw_only=True):
    """Instances of one group, operation, type and size together."""

    group: list[int]
    op: str
    dtype: str | None = None
    bytes: int | None = None
    count: int
    transfer_ms_median: float | None = None
    transfer_ms_p95: float | None = None
    wait_ms_mean: float | None = None
    algbw_gb_per_s: float | None = None
    busbw_gb_per_s: float | None = None
    split: str


class InstanceRow(msgspec.Struct, frozen=True, kw_only=True):
    """One matched collective."""

    group: list[int]
    name: str | None = None
    seq: int | None = None
    op: str
    bytes: int | None = None
    step: int | None = None
    first_rank: int | None = None
    last_rank: int | None = None
    start_ms: float | None = None
    transfer_ms: float | None = None
    waits_ms: dict[str, float | None] = {}
    split: str


class P2PRow(msgspec.Struct, frozen=True, kw_only=True):
    """One message."""

    src: int
    dst: int
    bytes: int | None = None
    step: int | None = None
    transfer_ms: float | None = None
    wait_src_ms: float | None = None
    wait_dst_ms: float | None = None
    split: str | None = None
    #: Layer from the ranks' hosts; transport and network from NCCL logs.
    layer: str | None = None
    transport: str | None = None
    network: str | None = None


class StragglerRow(msgspec.Struct, frozen=True, kw_only=True):
    """How often a rank came last and what that cost the others."""

    rank: int
    last_count: int
    caused_wait_ms: float | None = None
    share_of_wait: float | None = None
    z_score: float | None = None
    delayed_by: str | None = None


class HangRow(msgspec.Struct, frozen=True, kw_only=True):
    """A collective that some ranks wait in and others never joined."""

    group: list[int] | str
    seq: int | None = None
    op: str | None = None
    waiting_ranks: list[int] = []
    missing_ranks: list[int] = []
    last_completed_seq: int | None = None
    group_name: str | None = None


class LinkRow(msgspec.Struct, frozen=True, kw_only=True):
    """One direction of a port over the run."""

    device: str
    port: str
    direction: str
    role: str | None = None
    coverage: float | None = None
    window: str | None = None
    utilization_mean: float | None = None
    utilization_peak: float | None = None
    resolution_ms: float | None = None
    loss_ratio: float | None = None
    pause_ratio: float | None = None
    ecn_ratio: float | None = None
    rail: str | None = None
    peer: str | None = None
    ranks: list[int] | None = None
    localised: str = "no"


class SourceRow(msgspec.Struct, frozen=True, kw_only=True):
    """One input file."""

    path: str
    reader: str | None = None
    sha256: str | None = None
    rows: int | None = None
    lines_unparsed: int | None = None
    status: str
    message: str | None = None


class Delta(msgspec.Struct, frozen=True, kw_only=True):
    """Change of the pooled step, run minus base."""

    compute: float | None = None
    exposed_transfer: float | None = None
    exposed_wait: float | None = None
    exposed_memory: float | None = None
    idle: float | None = None


class Compare(msgspec.Struct, frozen=True, kw_only=True):
    """Result of ``netlab compare``."""

    base: str
    cause: str
    subject: dict[str, Any]
    significant: bool
    delta_ms: Delta
    since_step: int | None = None
    ranks: list[int] = []
    share_of_delta: float | None = None
