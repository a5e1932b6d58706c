"""The exhibits about links: how they were counted, how far they are used and when, classes, bytes against collectives."""

from __future__ import annotations

import polars as pl

from netlab import figures
from netlab.pipeline.recorded import COMMANDS
from netlab.report.panels import Exhibit, Missing
from netlab.report.study import Study

__all__ = ["LINK_EXHIBITS"]

_RECORD_COUNTERS = f"{COMMANDS['nics']}\nswitches: {COMMANDS['switches']}\n{COMMANDS['speeds']}"


def _coverage(study: Study) -> Exhibit | Missing:
    coverage = study.run.frame("counter_coverage")
    if not coverage.height:
        return Missing("No counters", "How well switches and NICs were counted is no question here: no counter was read.", _RECORD_COUNTERS)
    labels = {
        "device": "device",
        "ports": "ports",
        "speed": "speed known",
        "cable": "cable known",
        "poll": "polled every",
        "gaps": "gaps",
        "doubts": "doubts",
        "clock": "clock ahead by",
        "absent": "nobody counts",
    }
    frame = figures.coverage_frame(coverage)
    # Columns that would say the same of every device stand in the title, or are no news.
    idle = {"clock": "not compared", "gaps": "–", "doubts": "none"}
    shown = {name: text for name, text in labels.items() if name not in idle or (frame[name] != idle[name]).any()}
    return Exhibit(None, frame, shown, "tables/counter_coverage.parquet", f"Counters: {figures.coverage_title(coverage)}")


def _fabric(study: Study) -> Exhibit | Missing:
    frame = figures.fabric_frame(study.run.frame("ports"), study.run.frame("links"))
    if not frame.height:
        return Missing("No picture of the fabric", "Which host hangs on which switch is not known.", COMMANDS["cables"])
    labels = {
        "lower": "from",
        "upper": "to",
        "cables": "cables",
        "use": "highest mean",
        "peak": "highest peak",
        "state": "against it",
        "words": "what",
    }
    return Exhibit(figures.fabric_picture(frame), frame, labels, "tables/ports.parquet")


def _accused_link(study: Study) -> Exhibit | Missing:
    tests = study.run.frame("link_tests")
    if not tests.height or not study.run.frame("links").height:
        return Missing("No link was tested", "It takes counters of links during the traced steps.", _RECORD_COUNTERS)
    frame = figures.accused_link_frame(study.run.frame("link_cells"), tests)
    if not frame.height:
        first = tests.row(0, named=True)
        return Missing(f"No link is accused: {first['state']}", f"{first['reason']}.", "netlab.capture(DIR, active=40, counters_ms=100)")
    labels = {"t0_ns": "from (ns)", "events": "events", "peer_events": "events, mean of peers", "exposed_ms": "exposed (ms)"}
    return Exhibit(figures.accused_link(frame, tests), frame, labels, "tables/link_cells.parquet")


def _links(study: Study) -> Exhibit | Missing:
    links = study.run.frame("links")
    if not links.height:
        return Missing("No rates of links", "Which link is used how far, and which one loses packets, is not known.", _RECORD_COUNTERS)
    frame = figures.link_use_frame(links)
    labels = {
        "link": "link",
        "role": "role",
        "utilization_mean": "mean",
        "utilization_peak": "peak",
        "resolution": "resolution",
        "coverage": "coverage",
        "loss_ratio": "lost",
        "pause_ratio": "paused",
        "ecn_ratio": "marked",
        "errors": "errors",
        "discards": "discards",
        "peer": "peer",
        "state": "against it",
    }
    limits = study.run.manifest.config.limits
    known = frame.filter(pl.col("utilization_mean").is_not_null() | pl.col("utilization_peak").is_not_null()).height
    chart = figures.link_use(frame, limits.link_mean, limits.link_peak) if known else None
    return Exhibit(chart, frame, labels, "tables/links.parquet", "Links, without how far they are used: give their speeds in ports.csv")


def _links_over_time(study: Study) -> Exhibit | Missing:
    intervals = study.run.frame("link_intervals")
    steps = study.run.frame("steps").filter("complete")
    band = figures.step_band_frame(steps, study.run.frame("breakdown"))
    links = study.run.frame("links")
    worst = figures.link_use_frame(links).filter(pl.col("state") != "none")["link"].to_list() if links.height else []
    frame, collectives = pl.DataFrame(), None
    if band.height:
        start, end = steps.select(pl.col("start_ns").min(), pl.col("end_ns").max()).row(0)
        frame = figures.link_use_over_time_frame(intervals, start, end, worst)
        collectives = figures.collective_band_frame(study.run.frame("collectives"), start, end)
    if not frame.height:
        # Counters of another time than the steps have an axis of their own.
        frame, band, collectives = figures.link_use_over_time_frame(intervals, first=worst), band.clear(), None
    if not frame.height:
        return Missing(
            "No use of links over time", "It takes byte counters sampled more than once and the speeds of the ports.", _RECORD_COUNTERS
        )
    rows = frame.group_by("link", maintain_order=True).agg(
        pl.col("utilization").max().alias("peak"), pl.col("mean").first(), pl.col("against").is_not_null().sum().alias("bad")
    )
    return Exhibit(
        figures.link_use_over_time(frame, band, collectives),
        rows,
        {"link": "link", "peak": "peak", "mean": "mean", "bad": "moments with errors, loss or pause"},
        "tables/link_intervals.parquet",
    )


def _course(study: Study) -> Exhibit | Missing:
    traffic = study.run.frame("link_traffic")
    if not traffic.height:
        return Missing("No course of traffic", "Periods and bursts take at least 32 polls of bytes of a link.", _RECORD_COUNTERS)
    labels = {
        "link": "link",
        "polls": "polls",
        "poll_ms": "poll (ms)",
        "period_ms": "period (ms)",
        "period_strength": "autocorrelation",
        "peak_to_mean": "peak / mean",
        "bursts": "bursts",
        "longest_burst_ms": "longest (ms)",
        "burst_bytes_share": "bytes in bursts",
        "anomalies": "anomalies",
    }
    frame = figures.course_frame(traffic)
    shown = {name: text for name, text in labels.items() if not frame[name].is_null().all()}
    return Exhibit(None, frame, shown, "tables/link_traffic.parquet", figures.course_title(frame))


def _classes(study: Study) -> Exhibit | Missing:
    frame = figures.class_shares_frame(study.run.frame("link_queues"))
    if not frame.height:
        return Missing("No traffic classes", "It takes byte counters of queues or priorities.", COMMANDS["queues"])
    labels = {
        "link": "link",
        "queue": "queue",
        "bytes": "bytes",
        "share": "share",
        "discards": "discards",
        "loss_ratio": "lost",
        "ecn_ratio": "marked",
        "pause_ratio": "paused",
        "watermark_us": "watermark (us)",
    }
    return Exhibit(figures.class_shares(frame), frame, labels, "tables/link_queues.parquet")


def _host_traffic(study: Study) -> Exhibit | Missing:
    frame = figures.traffic_frame(study.run.frame("host_traffic"))
    if not frame.height:
        return Missing(
            "Bytes were not compared with collectives",
            "It takes counters of the hosts' network ports and traces of the same time.",
            _RECORD_COUNTERS,
        )
    labels = {
        "host": "host",
        "counted_gb": "counted (GB)",
        "low_gb": "needed at least (GB)",
        "high_gb": "at most (GB)",
        "ratio": "counted / at most",
        "coverage": "coverage",
        "counted_by": "counted by",
        "retransmits": "sent again",
    }
    return Exhibit(None, frame, labels, "tables/host_traffic.parquet", figures.traffic_title(frame))


#: In the order of the report.
LINK_EXHIBITS = {
    "counter-coverage": _coverage,
    "fabric": _fabric,
    "accused-link": _accused_link,
    "links": _links,
    "links-over-time": _links_over_time,
    "traffic-course": _course,
    "traffic-classes": _classes,
    "host-traffic": _host_traffic,
}
