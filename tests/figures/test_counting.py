"""How links were counted, what runs in which class, bytes against collectives: the sentences and frames people read."""

from __future__ import annotations

import polars as pl

from netlab import figures
from netlab.report.exhibits import EXHIBITS
from netlab.report.panels import Exhibit
from netlab.report.study import Study
from netlab.run import Run, RunFacts
from netlab.schema.counters import LINKS
from netlab.schema.traffic import COUNTER_COVERAGE, HOST_TRAFFIC, LINK_QUEUES, LINK_TRAFFIC
from tests.made_run import made_run

COVERAGE = COUNTER_COVERAGE.conform(
    pl.DataFrame(
        [
            {
                "device": "leaf1",
                "ports": 4,
                "ports_with_speed": 4,
                "ports_cabled": 3,
                "poll_ms": 9_986.0,
                "poll_p95_ms": 30_000.0,
                "gaps": 2,
            },
            {
                "device": "leaf2",
                "ports": 4,
                "ports_with_speed": 2,
                "ports_cabled": 4,
                "poll_ms": 10_012.0,
                "poll_p95_ms": 10_013.0,
                "gaps": 0,
            },
        ]
    ).with_columns(gap_share=pl.Series([0.08, 0.0]), clock_offset_ms=pl.Series([2.0, None]), clock_low_ms=1.0, clock_high_ms=3.0),
    resets=0,
    stale_polls=0,
    single_readings=0,
    absent="ECN marks, link downs",
)


def test_coverage_is_said_in_one_sentence() -> None:
    title = figures.coverage_title(COVERAGE)
    assert title == (
        "8 ports of 2 devices, polled every 10 s; 2 gaps; 2 without a known speed; 1 without a known cable; nobody "
        "counts ECN marks, link downs"
    )


def test_coverage_names_gaps_late_polls_and_clocks_by_device() -> None:
    first, second = figures.coverage_frame(COVERAGE).to_dicts()
    assert first["poll"] == "10 s (one in 20 above 30 s)"
    assert (first["gaps"], first["clock"]) == ("2 (8 % of the time)", "+2 ms (1 to 3)")
    assert (second["gaps"], second["clock"]) == ("none", "not compared")


def _traffic(**values: object) -> pl.DataFrame:
    fill = {"polls": 100, "poll_ms": 100.0, "bursts": 0, "anomalies": 0}
    return LINK_TRAFFIC.conform(pl.DataFrame([{"device": "leaf1", "port": "e0", "direction": "tx", **fill, **values}]))


def test_a_period_stands_beside_the_step_and_its_absence_is_explained() -> None:
    assert (
        figures.course_title(_traffic(period_ms=1_190.0, step_ms=1_200.0))
        == "The traffic of 1 of 1 link repeats every 1.2 s; a step takes 1.2 s"
    )
    assert "too far apart to see steps" in figures.course_title(_traffic(step_ms=118.0))


def test_worst_links_stand_first_with_what_speaks_against_them() -> None:
    fill = {"direction": "tx", "window": "samples", "window_start_ns": 0, "window_end_ns": 1, "localised": "no", "resolution_ms": 100.0}
    rows = [
        {"device": "leaf1", "port": "busy", "utilization_mean": 0.7, "utilization_peak": 0.9, "loss_ratio": 5e-5},
        {"device": "leaf1", "port": "lossy", "utilization_mean": 0.1, "utilization_peak": 0.2, "loss_ratio": 0.004},
        {"device": "leaf1", "port": "down", "utilization_mean": 0.1, "utilization_peak": 0.2, "link_downed": 2},
    ]
    frame = figures.link_use_frame(LINKS.conform(pl.DataFrame([{**fill, **row} for row in rows], infer_schema_length=None)))
    assert frame.select("port", "words").rows() == [("down", "went down 2 times"), ("lossy", "loses 0.4 %"), ("busy", "")]
    title = figures.link_use(frame).to_dict()["title"]["text"]
    assert "leaf1/down tx went down 2 times, 1 more link" in " ".join(title if isinstance(title, list) else [title])


def test_the_exhibits_of_links_are_drawn_from_the_tables_of_a_run() -> None:
    made = made_run(ranks=2, steps=2, slow_rank=0)
    hosts = HOST_TRAFFIC.conform(
        pl.DataFrame([{"host": "nodea", "counted_bytes": 102, "expected_low_bytes": 50, "expected_high_bytes": 100}]),
        counted_by="nic",
        ports=1,
        coverage=1.0,
        complete=True,
    )
    queues = LINK_QUEUES.conform(
        pl.DataFrame(
            [
                {"device": "leaf1", "port": "e0", "direction": "tx", "queue": name, "bytes": size}
                for name, size in (("UC0", 10), ("UC3", 90))
            ]
        )
    ).with_columns(share=pl.col("bytes") / 100)
    frames = {"counter_coverage": COVERAGE, "host_traffic": hosts, "link_queues": queues, "link_traffic": _traffic(period_ms=1_000.0)}
    study = Study(Run.from_frames(frames, RunFacts(name="made")), made.verdict)
    shown = {name: EXHIBITS[name](study) for name in ("counter-coverage", "host-traffic", "traffic-classes", "traffic-course")}
    assert all(isinstance(exhibit, Exhibit) for exhibit in shown.values())
    told = {name: exhibit.without for name, exhibit in shown.items() if isinstance(exhibit, Exhibit)}
    assert told["counter-coverage"].startswith("Counters: 8 ports of 2 devices")
    assert "sent 1.02 times the bytes" in told["host-traffic"]
    chart = shown["traffic-classes"]
    assert isinstance(chart, Exhibit)
    assert chart.chart is not None
    title = chart.chart.to_dict()["title"]["text"]
    assert "Queue UC3 carries 90 % of the bytes" in " ".join(title if isinstance(title, list) else [title])
