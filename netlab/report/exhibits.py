"""The exhibits of a report, by name: which frame goes into which chart, and what to say where the run lacks it."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import polars as pl

from netlab import figures
from netlab.config import nearest
from netlab.errors import ConfigError
from netlab.pipeline.recorded import COMMANDS
from netlab.report.comparison_exhibits import COMPARISON_EXHIBITS
from netlab.report.link_exhibits import LINK_EXHIBITS
from netlab.report.nccl_exhibits import NCCL_EXHIBITS, with_pair_links
from netlab.report.panels import Exhibit, Missing
from netlab.report.study import Study
from netlab.verdict.rows import CollectiveRow, GroupRow, RankRow, StepRow

__all__ = ["EXHIBITS", "exhibit"]

_RECORD_TRACE = """with netlab.capture(DIR) as recording:    # or torch.profiler with CPU and CUDA activities, on every rank
    for batch in loader:
        train(batch)
        recording.step()"""

_PARTS = {
    "iteration_ms": "step (ms)",
    "compute_ms": "compute (ms)",
    "hidden_comm_ms": "hidden comm. (ms)",
    "exposed_transfer_ms": "exposed transfer (ms)",
    "exposed_wait_ms": "exposed wait (ms)",
    "exposed_memory_ms": "memory (ms)",
    "idle_ms": "idle (ms)",
    "network_share": "network share",
    "comm_share": "comm. share",
}


def _attribution(study: Study) -> Exhibit | Missing:
    frame = figures.rows_frame(study.verdict.by_rank, RankRow)
    if not frame.height or frame["compute_ms"].is_null().all():
        return Missing(
            "No attribution of time", "There is no device activity, so it is not known where the step's time went.", _RECORD_TRACE
        )
    chart = figures.attribution(frame, msgspec.to_builtins(study.verdict.totals))
    return Exhibit(chart, frame, {"rank": "rank", **_PARTS}, "tables/breakdown.parquet")


def _compute_by_rank(study: Study) -> Exhibit | Missing | None:
    operations = study.run.frame("job_operations")
    if operations.is_empty():
        return None
    if operations["source"].n_unique() > 1:
        return Missing("No map of compute", "There are operations of several jobs; a map is of one.", "netlab report trace-JOB.parquet")
    frame = figures.compute_frame(operations)
    labels = {
        "rank": "rank",
        "stage": "pipeline stage",
        "dp_rank": "data-parallel rank",
        "compute_ms": "compute in a step (ms)",
        "spread_ms": "standard deviation over steps (ms)",
        "excess": "above the mean",
    }
    return Exhibit(figures.compute_map(frame) if frame.height else None, frame, labels, "tables/job_operations.parquet")


def _share_per_step(study: Study) -> Exhibit | Missing:
    frame = figures.rows_frame(study.verdict.by_step, StepRow)
    if not frame.height or frame["comm_share"].is_null().all():
        return Missing("No shares per step", "The inputs mark no steps with device activity.", _RECORD_TRACE)
    labels = {"step": "step", **_PARTS, "network_share_low": "at least", "network_share_high": "at most"}
    return Exhibit(figures.share_per_step(frame, study.verdict.threshold), frame, labels, "tables/breakdown.parquet")


def _heat_strip(study: Study) -> Exhibit | Missing:
    run = study.run
    activities, steps = run.frame("activities"), run.frame("steps")
    if not activities.height:
        return Missing("No heat strip", "There is no device activity to draw over time.", _RECORD_TRACE)
    strip = figures.strip_frame(activities, steps, run.frame("breakdown"))
    bin_ms = pl.col("t1_ms") - pl.col("t0_ms")
    sums = strip.group_by("rank").agg(
        (pl.col("transfer_share") * bin_ms).sum().alias("transfer_ms"),
        (pl.col("wait_share") * bin_ms).sum().alias("wait_ms"),
        bin_ms.sum().alias("span_ms"),
    )
    labels = {"rank": "rank", "transfer_ms": "exposed transfer (ms)", "wait_ms": "exposed wait (ms)", "span_ms": "of (ms)"}
    return Exhibit(
        figures.heat_strip(strip, steps, split_known=study.verdict.split != "unknown"),
        sums.sort("rank"),
        labels,
        "tables/activities.parquet",
    )


def _worst_step(study: Study) -> Exhibit | Missing:
    run = study.run
    breakdown = run.frame("breakdown")
    worst = figures.worst_step(breakdown)
    if worst is None:
        return Missing("No timeline of the worst step", "The inputs mark no steps with device activity.", _RECORD_TRACE)
    bars = figures.gantt_frame(run.frame("activities"), run.frame("collectives"), breakdown, run.frame("steps"))
    if not bars.height:
        return Missing("No timeline of the worst step", f"Step {worst[0]} has no device activity.", _RECORD_TRACE)
    lane = "thread" if run.facts.backend == "cpu" else "stream"
    labels = {
        "rank": "rank",
        "stream": lane,
        "kind": "what",
        "name": "name",
        "t0_ms": "from (ms)",
        "t1_ms": "to (ms)",
        "count": "activities",
    }
    return Exhibit(figures.worst_step_gantt(bars, worst[0], lane), bars, labels, "tables/activities.parquet")


def _bus_bandwidth(study: Study) -> Exhibit | Missing:
    verdict = study.verdict
    frame = figures.bus_bandwidth_frame(
        figures.rows_frame(verdict.collectives, CollectiveRow), figures.rows_frame(verdict.by_group, GroupRow)
    )
    labels = {
        "op": "operation",
        "members": "ranks",
        "dtype": "type",
        "bytes": "size",
        "count": "count",
        "transfer_ms_median": "transfer, median (ms)",
        "transfer_ms_p95": "p95 (ms)",
        "wait_ms_mean": "wait, mean (ms)",
        "busbw_gb_per_s": "busbw (GB/s)",
        "roofline_gb_per_s": "roofline (GB/s)",
        "efficiency": "efficiency",
        "split": "split",
    }
    if not frame.height:
        return Missing("No collectives", "No collective with known members was seen.", _RECORD_TRACE)
    drawable = frame.filter(pl.col("busbw_gb_per_s").is_not_null() & (pl.col("bytes") > 0)).height
    chart = figures.bus_bandwidth(frame) if drawable else None
    return Exhibit(
        chart,
        frame,
        labels,
        "tables/collectives.parquet",
        "Collectives, without a bandwidth: sizes are unknown, or waiting cannot be taken off",
    )


def _transfer_tails(study: Study) -> Exhibit | Missing:
    tails = figures.tails_frame(study.run.frame("collectives"))
    if not tails.height:
        return Missing(
            "No transfer times",
            "Transfer could not be told from waiting for any collective: other members' traces are missing.",
            _RECORD_TRACE,
        )
    labels = {
        "op": "operation",
        "members": "ranks",
        "bytes": "size",
        "count": "count",
        "median_ms": "median (ms)",
        "p95_ms": "p95 (ms)",
        "max_ms": "longest (ms)",
        "tail": "p95 / median",
    }
    return Exhibit(figures.transfer_tails(tails), tails, labels, "tables/collectives.parquet")


def _who_waits(study: Study) -> Exhibit | Missing:
    run = study.run
    collectives = run.frame("collectives")
    if len(run.facts.ranks) < 2 or not collectives.filter(pl.col("split") == "measured").height:
        sentence = "Waiting is known only where all members of a collective were traced."
        return Missing("Who waits for whom is not known", sentence, _RECORD_TRACE)
    steps = run.frame("breakdown").select("window", "step").n_unique()
    waits = figures.waiting_frame(collectives, steps)
    per = "step" if steps else "capture"
    labels = {"rank": "waits", "last_rank": "for rank", "wait_ms": f"ms per {per}", "count": "collectives"}
    return Exhibit(figures.waiting_matrix(waits, run.facts.ranks, per), waits, labels, "tables/collectives.parquet")


def _rank_pairs(study: Study) -> Exhibit | Missing:
    pairs = figures.pairs_frame(study.run.frame("p2p"))
    if not pairs.height:
        sentence = "No point-to-point message with both ends was seen; collectives do not tell which pair was slow."
        return Missing("No pairs of ranks", sentence, COMMANDS["pairs"])
    pairs = with_pair_links(pairs, study.run.frame("pair_links"))
    labels = {
        "src": "from",
        "dst": "to",
        "layer": "layer",
        "transport": "transport",
        "network": "network",
        "count": "messages",
        "bytes": "mean size",
        "transfer_ms": "transfer, median (ms)",
        "gb_per_s": "GB/s",
        "wait_src_ms": "sender waits (ms)",
        "wait_dst_ms": "receiver waits (ms)",
    }
    shown = {name: text for name, text in labels.items() if name in ("src", "dst") or not pairs[name].is_null().all()}
    return Exhibit(figures.rank_pairs(pairs), pairs, shown, "tables/p2p.parquet")


def _clocks(study: Study) -> Exhibit | Missing:
    frame = figures.clock_frame(study.run.frame("clocks"))
    if not frame.filter(pl.col("offset_ms").is_not_null()).height or len(study.run.facts.ranks) < 2:
        return Missing(
            "Clocks were not compared", "It takes traces of two ranks and at least three collectives that they share.", _RECORD_TRACE
        )
    labels = {"domain": "clock of", "ranks": "ranks", "offset_ms": "ahead by (ms)", "error_ms": "error (ms)", "samples": "collectives used"}
    return Exhibit(figures.clock_quality(frame), frame, labels, "tables/clocks.parquet")


def _what_if(study: Study) -> Exhibit | Missing:
    frame = figures.scenario_frame(study.verdict.what_if)
    if not frame.height:
        reasons = [f"{answer['name']}: {answer['refused']}" for answer in study.verdict.what_if if answer.get("refused")]
        sentence = (
            "; ".join(reasons[:4])
            if reasons
            else "No scenario was computed for this report, so nothing is said about what a change would bring."
        )
        command = "" if reasons else f"netlab whatif {study.parameters.get('run', 'PATH')}"
        return Missing("No what-if answers", sentence, command)
    labels = {
        "name": "scenario",
        "predicted_ms": "predicted (ms)",
        "low95_ms": "95 % from",
        "high95_ms": "to",
        "speedup": "speed-up",
        "network_share": "network share",
        "confidence": "confidence",
    }
    chart = figures.scenario_chart(frame, study.verdict.totals.iteration_ms, study.verdict.threshold)
    return Exhibit(chart, frame, labels, "verdict.json")


#: In the order of the report.
EXHIBITS: dict[str, Callable[[Study], Exhibit | Missing | None]] = {
    **COMPARISON_EXHIBITS,
    "compute-by-rank": _compute_by_rank,
    "attribution": _attribution,
    "share-per-step": _share_per_step,
    "heat-strip": _heat_strip,
    "worst-step": _worst_step,
    "who-waits-for-whom": _who_waits,
    "bus-bandwidth": _bus_bandwidth,
    "transfer-tails": _transfer_tails,
    "rank-pairs": _rank_pairs,
    **NCCL_EXHIBITS,
    **LINK_EXHIBITS,
    "clocks": _clocks,
    "what-if": _what_if,
}


def exhibit(study: Study, name: str) -> Exhibit | Missing | None:
    """The exhibit of that name, what is missing for it, or nothing where the question was not asked (no comparison).

    Raises
    ------
    ConfigError
        If there is no such exhibit; names the nearest one.
    """
    if name not in EXHIBITS:
        raise ConfigError(f"There is no exhibit {name!r}; {nearest(name, EXHIBITS)}")
    return EXHIBITS[name](study)
