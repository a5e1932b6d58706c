"""Rules about what nccl-tests measured beside what the logs say the hardware is."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from netlab.diagnose.nccl_evidence import Evidence, Row, finding, joined
from netlab.findings import Finding

__all__ = ["half_rate", "slow_small_calls"]

#: Of the line rate with GPUDirect: a root complex in the way halves it, anything above is a matter of tuning.
_HALF = (0.35, 0.62)
_LARGE_BYTES = 64_000_000
#: A call on few bytes that takes this long, whatever their number, waits for something that is no transfer.
_STUCK_US, _SMALL_BYTES, _FEWEST_SIZES = 50_000.0, 1 << 20, 3
_SAME = 1.3


def half_rate(evidence: Evidence) -> Iterator[Finding]:
    """GPUDirect is on, and large messages between hosts move at half of what the NICs can."""
    direct = [c for c in evidence.connections if evidence.between_hosts(c) and c["gdr"]]
    speeds = [float(node["speed_gbps"]) for node in evidence.nodes if node["kind"] == "net" and node["speed_gbps"]]
    between = evidence.speed_tests.filter(
        (pl.col("hosts") >= 2) & (pl.col("bytes") >= _LARGE_BYTES) & pl.col("busbw_gb_per_s").is_not_null() & (pl.col("op") != "broadcast")
    )
    if not direct or not speeds or between.is_empty():
        return
    # One rank of a host drives one NIC; several share what all NICs of the host carry.
    best = between.sort("busbw_gb_per_s", descending=True).row(0, named=True)
    per_host = max(1, (best["ranks"] or best["hosts"]) // best["hosts"])
    nics = min(per_host, _nics_of_a_host(evidence))
    line_gb_per_s = max(speeds) / 8 * nics
    share = best["busbw_gb_per_s"] / line_gb_per_s
    if not _HALF[0] <= share <= _HALF[1]:
        return
    yield finding(
        "HALF_LINE_RATE",
        f"With GPUDirect on, {best['op']} between {best['hosts']} hosts reaches {best['busbw_gb_per_s']:.3g} GB/s, "
        f"{100 * share:.0f} % of the {line_gb_per_s:.3g} GB/s of {nics} NIC{'s' if nics > 1 else ''}.",
        detail="PCIe access control (ACS) or an IOMMU sends traffic between GPU and NIC up to the root complex and back, which halves it.",
        action=(
            "lspci -vvv on the switches between GPU and NIC: where ACSCtl shows SrcValid+, disable ACS; boot with iommu=pt; "
            "in virtual machines enable ATS."
        ),
        source="NVIDIA/nccl-tests issue 112; NVIDIA/nccl issues 949, 2079; NCCL user guide, GPU troubleshooting",
        evidence=[_told(best)],
        hosts=sorted({c["host"] for c in direct if c["host"]}),
        severity="warning",
        cause="host",
    )


def slow_small_calls(evidence: Evidence) -> Iterator[Finding]:
    """Calls on few bytes take as long whatever their size: a fixed wait of tens of milliseconds in each (seen with RCCL at 215 ms)."""
    small = evidence.speed_tests.filter((pl.col("bytes") <= _SMALL_BYTES) & pl.col("time_us").is_not_null())
    for op, rows in sorted((key[0], rows) for key, rows in small.partition_by("op", as_dict=True).items() if key[0]):
        times = rows.group_by("bytes").agg(pl.col("time_us").min())["time_us"]
        low, high = float(times.min()), float(times.max())  # type: ignore[arg-type]
        if len(times) < _FEWEST_SIZES or low < _STUCK_US or high > _SAME * low:
            continue
        yield finding(
            "FIXED_CALL_TIME",
            f"Every {op} of up to 1 MiB takes {low / 1e3:.0f} to {high / 1e3:.0f} ms, whatever its size.",
            detail=f"{joined(rows['bytes'].unique().sort().to_list(), 6)} bytes alike: the time is no transfer but a wait in each call.",
            action="Run once with NCCL_P2P_DISABLE=1: if that is fast, peer access (IPC) between GPUs of different root ports is at fault.",
            source="ROCm legacy-rocm-build issue 6576",
            evidence=[_told(row) for row in rows.sort("bytes").head(4).iter_rows(named=True)],
            hosts=(),
            severity="warning",
            cause="host",
        )


def _nics_of_a_host(evidence: Evidence) -> int:
    """Network devices that the connections of the busiest host use."""
    used: dict[str, set[str]] = {}
    for connection in evidence.connections:
        if connection["host"] and connection["nic"] and evidence.between_hosts(connection):
            used.setdefault(connection["host"], set()).add(connection["nic"])
    return max((len(names) for names in used.values()), default=1)


def _told(row: Row) -> Row:
    text = f"{row['op']} {row['bytes']} bytes: {row['time_us']} us, bus bandwidth {row['busbw_gb_per_s']} GB/s"
    return {"source": row["source"], "line": row["line"], "message": text, "host": None}
