"""Findings from what NCCL itself says: logs, flight-recorder dumps, Inspector records, host topology.

Each rule is a row of the diagnosis table in ../shared/notes/nccl_formats.md section 6. What a log cannot show is not claimed: no protocol
from a kernel's name, no SHARP from the "collnet channels" figure, no link use from the bus bandwidth of two nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import polars as pl

from netlab.diagnose import nccl_errors, nccl_hosts, nccl_network, nccl_progress, nccl_settings
from netlab.diagnose.nccl_evidence import Evidence
from netlab.findings import Finding
from netlab.run import Run

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
    nccl_settings.version_mix,
    nccl_settings.old_nccl,
    nccl_settings.env_differs,
    nccl_settings.env_leftover,
    nccl_settings.slow_init,
    nccl_errors.ib_errors,
    nccl_errors.asynchronous,
    nccl_errors.other_errors,
    nccl_progress.mismatches,
    nccl_progress.hang_findings,
    nccl_progress.late_ranks,
    nccl_progress.ras_findings,
)


def nccl_findings(run: Run, hangs: pl.DataFrame | None = None) -> list[Finding]:
    """All findings that the run's NCCL tables support, in the order of the rules.

    Parameters
    ----------
    run
        Reads communicators, connections, nccl_events, flight, profiler_events, topology and, where there are traces, ranks and collectives.
    hangs
        ``HANGS`` (see ``netlab.attribute.nccl.hangs``); the run's own table if not given.

    Examples
    --------
    >>> from netlab.run import RunFacts
    >>> nccl_findings(Run.from_frames({}, RunFacts(name="empty")))
    []
    """
    evidence = Evidence.of(run, hangs)
    return [found for rule in RULES for found in rule(evidence)]
