"""What leaves a report for machines and chats: summary.md, netlab.prom, the step summary of GitHub Actions, JUnit XML."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from netlab.errors import ReportError
from netlab.export.files import write_text
from netlab.figures.outlook import best_scenario, scenario_frame
from netlab.units import format_ms, format_percent
from netlab.verdict.card import STATUS_WORDS
from netlab.verdict.model import Verdict

__all__ = ["append_step_summary", "junit_xml", "prometheus_text", "summary_markdown", "write_junit"]

_SUMMARY_LINES = 30

_MARKDOWN_SPECIAL = "\\`*_{}[]<>#|~"


def summary_markdown(verdict: Verdict, report: str = "report.html") -> str:
    """The verdict in at most 30 lines of Markdown; names from inputs are escaped."""
    totals = verdict.totals
    sign, word = STATUS_WORDS.get(verdict.status, ("?", verdict.status))
    low, high = totals.network_share_low, totals.network_share_high
    band = f" ({format_percent(low)} to {format_percent(high)})" if low is not None and high is not None and high - low > 1e-4 else ""
    run = verdict.run
    steps = f"{len(run.steps)} steps" if run.window == "step" else "whole capture"
    lines = [
        f"# {sign} {word}: {_md(run.label)}",
        "",
        f"**{_md(verdict.headline)}**",
        "",
        "| measure | value |",
        "|---|---:|",
        f"| network share (limit {format_percent(verdict.threshold)}) | {format_percent(totals.network_share)}{band} |",
        f"| wait share | {format_percent(totals.wait_share)} |",
        f"| communication share | {format_percent(totals.comm_share)} |",
        f"| step time | {format_ms(totals.iteration_ms)} |",
        f"| ranks | {len(run.ranks)} of {run.world_size if run.world_size is not None else '?'}, {steps} |",
        f"| cause | {_md(verdict.cause)} |",
        f"| split | {verdict.split or 'unknown'} |",
        "",
    ]
    for number, finding in enumerate(verdict.findings[:6], 1):
        lost = f" (up to {format_ms(finding.time_lost_ms)} a step)" if finding.time_lost_ms is not None else ""
        lines.append(f"{number}. **{finding.severity}** {_md(finding.title.removesuffix('.'))}{lost}. {_md(finding.action)}")
    if len(verdict.findings) > 6:
        lines.append(f"{len(verdict.findings) - 6} more findings in the report.")
    doubts = Counter(issue.code for issue in verdict.issues if issue.severity != "info")
    if doubts:
        named = ", ".join(f"`{code}`" + (f" ×{count}" if count > 1 else "") for code, count in doubts.most_common(8))
        lines += ["", f"Data quality: {named}."]
    if verdict.what_if and len(lines) < _SUMMARY_LINES - 3:
        best = best_scenario(scenario_frame(verdict.what_if))
        if best is not None:
            doubt = "" if best["sure"] else ", within its error not at all"
            lines += ["", f"Best what-if: {_md(best['name'])} would make training {best['speedup']:.2f} times as fast{doubt}."]
    lines = [*lines[: _SUMMARY_LINES - 2], "", f"[Report]({report})"]
    return "\n".join(lines) + "\n"


def _md(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    return "".join(f"\\{char}" if char in _MARKDOWN_SPECIAL else char for char in " ".join(text.split()))


def append_step_summary(markdown: str, environment: Mapping[str, str] | None = None) -> None:
    """Append to the file that GitHub Actions names in ``GITHUB_STEP_SUMMARY``; nothing happens elsewhere."""
    target = (os.environ if environment is None else environment).get("GITHUB_STEP_SUMMARY")
    if target:
        try:
            with Path(target).open("a", encoding="utf-8") as summary:
                summary.write(markdown)
        except OSError as error:
            raise ReportError(
                f"GITHUB_STEP_SUMMARY names {target}, which cannot be written: {error.strerror}; unset it or mend the path."
            ) from error


def prometheus_text(verdict: Verdict, finished: datetime, duration_s: float | None = None, *, success: bool = True) -> str:
    """The verdict for node_exporter's textfile collector: gauges in base units, no timestamps. Unknown values are left out, never 0.

    Parameters
    ----------
    verdict
        The verdict.
    finished
        When the report was finished.
    duration_s
        How long it took.
    success
        False if the report could not be made: then the time of the last run is left out, so that the alert on a dead schedule fires.
    """
    from prometheus_client import CollectorRegistry, Gauge, generate_latest

    registry = CollectorRegistry()
    totals = verdict.totals

    def gauge(name: str, text: str, value: float | None) -> None:
        if value is not None:
            Gauge(f"netlab_{name}", text, registry=registry).set(value)

    gauge("network_share_ratio", "Exposed transfer over step time.", totals.network_share)
    gauge("network_share_low_ratio", "Network share at least.", totals.network_share_low)
    gauge("network_share_high_ratio", "Network share at most.", totals.network_share_high)
    gauge("network_share_threshold_ratio", "Limit of the network share.", verdict.threshold)
    gauge("comm_share_ratio", "Exposed communication over step time.", totals.comm_share)
    gauge("wait_share_ratio", "Exposed waiting for late ranks over step time.", totals.wait_share)
    gauge("fabric_share_ratio", "Exposed transfer between hosts over step time.", totals.fabric_share)
    gauge("network_delay_share_ratio", "Network share and the waits that transfer elsewhere caused.", totals.network_delay_share)
    gauge("overlap_ratio", "Part of the transfer that compute hides.", totals.overlap_efficiency)
    gauge("exposed_comm_seconds", "Exposed communication of a mean step.", _seconds(totals.exposed_comm_ms))
    gauge("flagged", "1 if the network share is above its limit.", None if totals.network_share is None else float(totals.flagged))
    gauge("flag_certain", "1 if it is above its limit for sure.", float(totals.flag_certain))
    _step_times(registry, verdict)
    gauge("ranks", "Ranks with data.", float(len(verdict.run.ranks)))
    gauge("missing_ranks", "Ranks of the world without data.", float(len(verdict.run.missing_ranks)))
    late = [finding for finding in verdict.findings if finding.code == "STRAGGLER"]
    gauge("stragglers", "Ranks that make the others wait.", float(len({rank for finding in late for rank in finding.subject.ranks})))
    severities = Counter(finding.severity for finding in verdict.findings)
    found = Gauge("netlab_findings", "Findings by severity.", ["severity"], registry=registry)
    for severity in ("critical", "warning", "info"):
        found.labels(severity).set(severities[severity])
    state = Gauge("netlab_status", "1 for the status of the verdict.", ["status"], registry=registry)
    for status in STATUS_WORDS:
        state.labels(status).set(float(status == verdict.status))
    _busbw(registry, verdict)
    gauge("report_success", "1 if the report was made whole.", float(success))
    gauge("report_duration_seconds", "Time that the report took.", duration_s)
    gauge("report_last_run_timestamp_seconds", "When the report was finished, Unix time.", finished.timestamp() if success else None)
    text: str = generate_latest(registry).decode()
    return text


def _step_times(registry: object, verdict: Verdict) -> None:
    from prometheus_client import Gauge

    times = [row.iteration_ms for row in verdict.by_rank_step if row.iteration_ms is not None]
    if times:
        steps = Gauge("netlab_step_time_seconds", "Time of a step over ranks and steps.", ["quantile"], registry=registry)
        for quantile in (0.5, 0.95, 1.0):
            steps.labels(f"{quantile:g}").set(float(np.quantile(times, quantile)) / 1_000)


def _busbw(registry: object, verdict: Verdict) -> None:
    """The best bus bandwidth of each operation: one series an operation, so that their number stays bounded."""
    from prometheus_client import Gauge

    best: dict[str, float] = {}
    for row in verdict.collectives:
        if row.busbw_gb_per_s is not None:
            best[row.op] = max(best.get(row.op, 0.0), row.busbw_gb_per_s)
    if best:
        family = Gauge("netlab_busbw_bytes_per_second", "Best bus bandwidth of an operation.", ["collective"], registry=registry)
        for op, value in sorted(best.items()):
            family.labels(op).set(value * 1e9)


def _seconds(ms: float | None) -> float | None:
    return None if ms is None else ms / 1_000


def junit_xml(verdict: Verdict) -> str:
    """One test case per check, for any CI: the network share, the inputs, and every finding of warning or above."""
    totals = verdict.totals
    cases: list[tuple[str, str, str]] = []
    share = f"network share {format_percent(totals.network_share)}, limit {format_percent(verdict.threshold)}"
    kind = "failure" if verdict.flagged else "skipped" if totals.network_share is None else ""
    cases.append(("network_share", kind, f"{verdict.headline} ({share})"))
    broken = [f"{source.path}: {source.message or source.status}" for source in verdict.run.sources if source.status == "rejected"]
    cases.append(("inputs", "error" if broken else "", "\n".join(broken)))
    for finding in verdict.findings:
        if finding.severity != "info" and finding.code != "NETWORK_SHARE":
            cases.append((finding.id, "failure", f"{finding.title}\n{finding.detail}\nDo next: {finding.action}"))
    body = []
    for name, kind, text in cases:
        inside = ""
        if kind:
            first = text.splitlines()[0] if text else ""
            inside = (
                f"<{kind} message={quoteattr(_xml(first))}>{escape(_xml(text))}</{kind}>"
                if kind != "skipped"
                else f"<skipped message={quoteattr(_xml(first))}/>"
            )
        body.append(f'  <testcase classname="netlab" name={quoteattr(name)}>{inside}</testcase>')
    counts = Counter(kind for _, kind, _ in cases)
    numbers = f'failures="{counts["failure"]}" errors="{counts["error"]}" skipped="{counts["skipped"]}"'
    head = f'<testsuite name="netlab" tests="{len(cases)}" {numbers}>'
    return "\n".join(['<?xml version="1.0" encoding="utf-8"?>', head, *body, "</testsuite>", ""])


def _xml(text: str) -> str:
    """Without the control characters that XML 1.0 cannot hold."""
    return "".join(char for char in text if char in "\t\n\r" or char >= " ")


def write_junit(verdict: Verdict, path: Path) -> None:
    """Write ``junit_xml`` to a file, whole or not at all."""
    write_text(path, junit_xml(verdict))
