"""Findings from what NCCL itself says: logs, flight-recorder dumps, Inspector records, host topology.

Each rule is a row of the table in docs/nccl.md, Findings. What a log cannot show is not claimed: no protocol from a kernel's name, no SHARP
from the "collnet channels" figure, no link use from the bus bandwidth of two nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
import polars as pl

from netlab.diagnose import (
    nccl_arrivals,
    nccl_calls,
    nccl_errors,
    nccl_hangs,
    nccl_hosts,
    nccl_late,
    nccl_measured,
    nccl_network,
    nccl_settings,
    nccl_tuning,
)
from netlab.diagnose.nccl_evidence import Evidence
from netlab.findings import Finding
from netlab.run import Run
from netlab.units import NS_PER_MS

__all__ = ["RULES", "nccl_findings"]

Rule = Callable[[Evidence], Iterator[Finding]]

RULES: tuple[Rule, ...] = (
    nccl_network.socket_fallback,
    nccl_network.gdr_disabled,
    nccl_network.nic_use,
    nccl_network.nic_sets,
    nccl_network.wrong_hca,
    nccl_network.hca_prefix,
    nccl_network.rail_mismatch,
    nccl_hosts.p2p_disabled,
    nccl_hosts.nvls_off,
    nccl_hosts.few_channels,
    nccl_hosts.pcie_distance,
    nccl_hosts.mnnvl_off,
    nccl_tuning.small_mtu,
    nccl_tuning.one_queue_pair,
    nccl_tuning.ring_at_scale,
    nccl_tuning.collnet_off,
    nccl_tuning.pxn_always,
    nccl_tuning.ofi_limited,
    nccl_tuning.host_setup,
    nccl_measured.half_rate,
    nccl_measured.slow_small_calls,
    nccl_settings.version_mix,
    nccl_settings.old_nccl,
    nccl_settings.env_differs,
    nccl_settings.env_leftover,
    nccl_settings.slow_init,
    nccl_errors.ib_errors,
    nccl_errors.asynchronous,
    nccl_errors.other_errors,
    nccl_calls.mismatches,
    nccl_calls.unmatched_messages,
    nccl_hangs.hang_findings,
    nccl_late.late_ranks,
    nccl_arrivals.call_skew,
    nccl_hangs.ras_findings,
)


#: What would go at most if the fault were gone: the layer whose exposed transfer it slows down, and the part of it. GPUDirect: 33 to
#: 93 GB/s (NVIDIA/nccl issue 1412); in-network reduction sends half as much; sockets, shared NICs and host memory have no useful bound
#: below all of it.
_AT_MOST = {
    "SOCKET_FALLBACK": ("inter_node", 1.0),
    "GDR_DISABLED": ("inter_node", 1 - 33 / 93),
    "SHARED_NIC": ("inter_node", 1.0),
    "WRONG_HCA": ("inter_node", 1.0),
    "PCIE_DISTANCE": ("inter_node", 1.0),
    "P2P_DISABLED": ("intra_node", 1.0),
    "NVLS_OFF": ("intra_node", 1 - 330 / 480),
    "NIC_SET_DIFFERS": ("inter_node", 1.0),
    "OFI_LIMITED": ("inter_node", 1.0),
    "MNNVL_OFF": ("inter_node", 1.0),
    "COLLNET_OFF": ("inter_node", 0.5),
}


def _with_time_lost(finding: Finding, breakdown: pl.DataFrame) -> Finding:
    """An upper bound from the timeline: mean exposed transfer per step on the layer that the fault concerns."""
    layer, part = _AT_MOST.get(finding.code, (None, 0.0))
    if layer is None or breakdown.is_empty() or finding.severity == "info":
        return finding
    exposed = breakdown[f"exposed_transfer_{layer}_ns"].mean()
    return finding if not isinstance(exposed, float) else msgspec.structs.replace(finding, time_lost_ms=exposed * part / NS_PER_MS)


def nccl_findings(run: Run, hangs: pl.DataFrame | None = None, breakdown: pl.DataFrame | None = None) -> list[Finding]:
    """All findings that the run's NCCL tables support, in the order of the rules.

    Parameters
    ----------
    run
        Reads communicators, connections, nccl_events, flight, profiler_events, topology and, where there are traces, ranks and collectives.
    hangs
        ``HANGS`` (see ``netlab.attribute.nccl.hangs``); the run's own table if not given.
    breakdown
        ``BREAKDOWN`` of the pooled steps, where there are traces: bounds the time that a fault costs. The run's own table if not given.

    Examples
    --------
    >>> from netlab.run import RunFacts
    >>> nccl_findings(Run.from_frames({}, RunFacts(name="empty")))
    []
    """
    evidence = Evidence.of(run, hangs)
    steps = run.frame("breakdown") if breakdown is None else breakdown
    return [_with_time_lost(found, steps) for rule in RULES for found in rule(evidence)]
