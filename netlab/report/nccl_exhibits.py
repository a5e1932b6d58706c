"""Exhibits of what NCCL says: the communicator map, use of NICs, and errors over time."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from netlab import figures
from netlab.figures.frames import members_text
from netlab.pipeline.recorded import COMMANDS
from netlab.report.panels import Exhibit, Missing
from netlab.report.study import Study

__all__ = ["NCCL_EXHIBITS", "with_pair_links"]

_RECORD_LOGS = COMMANDS["nccl"]


def _communicators(study: Study) -> Exhibit | Missing:
    run = study.run
    frame = figures.communicator_map_frame(
        run.frame("pair_links"), run.frame("ranks"), run.frame("communicator_edges"), run.frame("communicators")
    )
    if not frame.height or not run.frame("communicators").height:
        sentence = "No NCCL log shows connections, so transport and NIC of each pair of ranks are not known."
        return Missing("No map of communicators", sentence, _RECORD_LOGS)
    links = run.frame("group_links").sort("nranks", "group", descending=[True, False])
    named = pl.Series("ranks", [members_text(group) for group in links["group"]], dtype=pl.String)
    groups = links.with_columns(named, pl.col("nics").list.join(", "))
    labels = {
        "ranks": "ranks",
        "comm_id": "communicator",
        "name": "process group",
        "layer": "layer",
        "transport": "slowest transport",
        "network": "network",
        "nics": "NICs",
        "channels": "channels",
        "gdr_share": "with GPUDirect",
        "predicted_gb_per_s": "NCCL predicts (GB/s)",
    }
    shown = {name: text for name, text in labels.items() if name == "ranks" or not groups[name].is_null().all()}
    return Exhibit(figures.communicator_map(frame), groups, shown, "tables/group_links.parquet")


def _nic_use(study: Study) -> Exhibit | Missing:
    frame = figures.nic_use_frame(study.run.frame("connections"), study.run.frame("nccl_events"))
    if not frame.height:
        return Missing("No use of NICs", "No NCCL log shows a connection over a NIC.", _RECORD_LOGS)
    labels = {
        "host": "host",
        "nic": "NIC",
        "network": "network",
        "sends": "sends",
        "receives": "receives",
        "either": "side not printed",
        "gdr_share": "with GPUDirect",
    }
    shown = {name: text for name, text in labels.items() if name != "either" or frame["either"].sum()}
    return Exhibit(figures.nic_use(frame), frame, shown, "tables/connections.parquet")


def _errors(study: Study) -> Exhibit | Missing | None:
    events = study.run.frame("nccl_events")
    if not events.height:
        return Missing("No timeline of NCCL errors", "No NCCL log was read.", _RECORD_LOGS)
    frame = figures.error_timeline_frame(events)
    if not frame.height:
        return None
    labels = {"at_s": "after (s)", "lane": "from", "kind": "kind", "level": "level", "message": "message", "source": "file", "line": "line"}
    shown = {name: text for name, text in labels.items() if name != "at_s" or not frame["at_s"].is_null().all()}
    return Exhibit(figures.error_timeline(frame), frame, shown, "tables/nccl_events.parquet")


def with_pair_links(pairs: pl.DataFrame, links: pl.DataFrame) -> pl.DataFrame:
    """Pairs of ranks with layer, transport and network from ``PAIR_LINKS``."""
    known = links.select(pl.col("src", "dst").cast(pl.Int32), "layer", "transport", "network")
    return pairs.join(known, on=["src", "dst"], how="left", maintain_order="left")


NCCL_EXHIBITS: dict[str, Callable[[Study], Exhibit | Missing | None]] = {
    "communicators": _communicators,
    "nic-use": _nic_use,
    "nccl-errors": _errors,
}
