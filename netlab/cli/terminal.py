"""What people see on the terminal: results on stdout, progress and errors on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from netlab.history import History
    from netlab.pipeline.ingest import Progress
    from netlab.verdict.model import Verdict
    from netlab.whatif import WhatIf
    from netlab.whatif.plan import Plan
    from netlab.whatif.sensitivity import Sensitivity

__all__ = ["print_history", "print_plan", "print_sensitivity", "print_verdict", "print_what_if", "progress_bar", "say", "stdout_console"]

_MARKS = {"pass": ("PASS", "green"), "warn": ("WARN", "yellow"), "flagged": ("FLAGGED", "red"), "inconclusive": ("INCONCLUSIVE", "cyan")}
_MOST_ROWS = 16
#: Columns of output that goes into a file or pipe.
_PLAIN_WIDTH = 180


def say(text: str) -> None:
    """One line on stderr."""
    print(text, file=sys.stderr)


def stdout_console() -> Console:
    """A console for results; colour only on a terminal and without NO_COLOR."""
    from rich.console import Console

    terminal = sys.stdout.isatty()
    return Console(soft_wrap=not terminal, width=None if terminal else _PLAIN_WIDTH, highlight=False, markup=False)


@contextmanager
def progress_bar(quiet: bool, label: str) -> Iterator[Progress | None]:
    """A progress bar on stderr, only where a person looks."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=None)

        def tell(done: int, total: int, name: str) -> None:
            bar.update(task, completed=done, total=total, description=f"{label} {name[-40:]}")

        yield tell


def print_verdict(verdict: Verdict) -> None:
    """The verdict, where the time went per rank, and the findings."""
    from rich.table import Table
    from rich.text import Text

    from netlab.units import format_ms, format_percent

    console = stdout_console()
    mark, colour = _MARKS[verdict.status]
    console.print(Text(f" {mark} ", style=f"bold reverse {colour}"), Text(f" {verdict.headline}", style="bold"), sep="")
    totals = verdict.totals
    known = totals.network_share is not None or totals.comm_share is not None
    console.print(
        f"network share not known, cause {verdict.cause}"
        if not known
        else f"network share {format_percent(totals.network_share)} (limit {format_percent(verdict.threshold)}, "
        f"{format_percent(totals.network_share_low)} to {format_percent(totals.network_share_high)}), "
        f"communication {format_percent(totals.comm_share)}, waiting {format_percent(totals.wait_share)}; "
        f"split {verdict.split or 'unknown'}, cause {verdict.cause}"
    )
    rows = verdict.by_rank
    if rows:
        table = Table(box=None, pad_edge=False, header_style="bold")
        heads = ("rank", "step", "compute", "transfer", "wait", "memory", "idle", "hidden", "network share")
        for head in heads:
            table.add_column(head, justify="right")
        worst = sorted(rows, key=lambda row: (-(row.network_share or 0.0), row.rank))[:_MOST_ROWS]
        for row in sorted(worst, key=lambda row: row.rank):
            parts = (
                row.iteration_ms,
                row.compute_ms,
                row.exposed_transfer_ms,
                row.exposed_wait_ms,
                row.exposed_memory_ms,
                row.idle_ms,
                row.hidden_comm_ms,
            )
            table.add_row(str(row.rank), *map(format_ms, parts), format_percent(row.network_share))
        console.print(table)
        if len(rows) > _MOST_ROWS:
            console.print(f"({_MOST_ROWS} of {len(rows)} ranks, those with the highest network share)")
    for finding in verdict.findings:
        lost = "" if finding.time_lost_ms is None else f" (up to {format_ms(finding.time_lost_ms)} a step)"
        console.print(
            Text(f"{finding.severity:<8}", style={"critical": "red", "warning": "yellow"}.get(finding.severity, "dim")),
            f"{finding.title}{lost}",
            sep=" ",
        )
        console.print(f"         {finding.action}", style="dim")
    _print_issues(console, verdict)


def _print_issues(console: Console, verdict: Verdict) -> None:
    """The first issue of each kind, and how many more there are: a thousand files with the same defect are one line."""
    kinds: dict[tuple[str, str], list[str]] = {}
    for issue in verdict.issues:
        if issue.severity != "info":
            kinds.setdefault((issue.severity, issue.code), []).append(issue.message)
    for (severity, code), messages in kinds.items():
        more = f" (and {len(messages) - 1:,} more; --json has them all)" if len(messages) > 1 else ""
        console.print(f"{severity:<8} {code}: {messages[0]}{more}", style="dim")


def print_what_if(answers: WhatIf) -> None:
    """The baseline's own error first, then every scenario, the most gain first."""
    from rich.table import Table

    from netlab.units import format_ms, format_percent

    console = stdout_console()
    document = answers.to_dict()
    baseline = document["baseline"]
    error = "unknown" if baseline["replay_error"] is None else format_percent(abs(baseline["replay_error"]))
    console.print(
        f"measured step {format_ms(baseline['measured_ms'])}, replayed {format_ms(baseline['replayed_ms'])} (error {error}), "
        f"dependencies {baseline['dependencies']}"
    )
    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in ("scenario", "step", "95 % interval", "speed-up", "network share", "confidence"):
        table.add_column(head, justify="left" if head in ("scenario", "confidence") else "right")
    for row in sorted(document["scenarios"], key=lambda row: (row["predicted_ms"] is None, row["predicted_ms"] or 0.0)):
        if row["refused"] is not None:
            table.add_row(row["name"], "-", "-", "-", "-", f"refused: {row['refused']}")
            continue
        low, high = row["interval95_ms"] or (None, None)
        speedup = "-" if row["speedup"] is None else f"{row['speedup']:.2f}x"
        interval = f"{format_ms(low)} to {format_ms(high)}"
        table.add_row(
            row["name"], format_ms(row["predicted_ms"]), interval, speedup, format_percent(row["network_share"]), row["confidence"]
        )
    console.print(table)


def print_sensitivity(found: Sensitivity) -> None:
    """What an answer hangs on, the widest swing first, and when the change pays."""
    from rich.table import Table

    from netlab.units import format_ms

    console = stdout_console()
    console.print(f"\n“{found.name}” hangs on")
    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in ("assumption", "if", "step", "if", "step"):
        table.add_column(head, justify="left" if head == "assumption" else "right")
    for swing in found.swings:
        table.add_row(swing.assumption, swing.low, format_ms(swing.low_ms), swing.high, format_ms(swing.high_ms))
    console.print(table)
    for condition in found.pays_if:
        console.print(condition)


def print_plan(planned: Plan) -> None:
    """Gradient traffic, rows per parallelism, and the all-reduce by algorithm."""
    from rich.table import Table

    from netlab.units import format_bytes, format_ms, format_percent

    console = stdout_console()
    console.print(
        f"gradients {format_bytes(round(planned.gradient_bytes))}, {format_bytes(round(planned.gradient_bytes_per_rank))} on each rank"
    )
    if planned.gradient_gb_per_s is not None and planned.gradient_tbit_per_s is not None:
        console.print(f"rate {planned.gradient_gb_per_s:.4g} GB/s = {planned.gradient_tbit_per_s:.4g} Tbit/s of gradients")
    if planned.job.accumulation > 1:
        console.print(f"accumulation cuts gradient traffic by {format_percent(planned.accumulation_saving_ratio)}")
    if planned.required_gbps_per_gpu is not None:
        limit = format_percent(planned.job.network_share)
        hidden = planned.required_gbps_per_gpu_hidden or 0.0
        console.print(
            f"needs {planned.required_gbps_per_gpu:.4g} Gbit/s per GPU for a network share of {limit}, {hidden:.4g} if all of it is hidden"
        )
    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in ("parallelism", "operation", "group", "sent per rank and step", "GB/s", "formula"):
        table.add_column(head, justify="right" if head in ("group", "GB/s") else "left")
    for row in planned.traffic:
        rate = "-" if row.gb_per_s_per_rank is None else f"{row.gb_per_s_per_rank:.4g}"
        table.add_row(row.parallelism, row.op, str(row.group_size), format_bytes(round(row.sent_bytes_per_rank)), rate, row.formula)
    console.print(table)
    for time in planned.collectives:
        low, high = time.time_ms
        span = format_ms(low) if low == high else f"{format_ms(low)} to {format_ms(high)}"
        share = "" if time.share_of_step is None else f", {format_percent(time.share_of_step[0])} of the step"
        console.print(f"all-reduce by {time.algorithm}: {span}{share}")
    for layout in planned.layouts:
        (ring, hashed), (even, worst) = layout.all_reduce_ms, layout.all_to_all_slowdown
        console.print(
            f"on {layout.layout}: ring {format_ms(ring)}, hashed up to {format_ms(hashed)}; "
            f"all-to-all {even:.2f} to {worst:.2f} times as long as its NICs need"
        )
    if planned.cost_per_1000_steps is not None:
        console.print(f"1000 steps cost {planned.cost_per_1000_steps:.4g}")
    for text in planned.assumptions:
        console.print(f"assumed: {text}", style="dim")


def print_history(document: History) -> None:
    """One row per run: its newest report against its past."""
    from rich.table import Table

    from netlab.units import format_ms, format_percent

    console = stdout_console()
    console.print(document.headline)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in ("run", "reports", "newest", "status", "network share", "usually", "step", "usually", "judgement"):
        table.add_column(head, justify="left" if head in ("run", "newest", "status", "judgement") else "right")
    for run in document.runs:
        since = "" if run.slower_since is None else f"; slower since {run.slower_since}"
        table.add_row(
            run.label, str(run.reports), run.newest, run.status, format_percent(run.network_share), format_percent(run.usual_network_share),
            format_ms(run.iteration_ms), format_ms(run.usual_iteration_ms), run.note + since,
        )  # fmt: skip
    console.print(table)
    for issue in document.issues:
        console.print(f"{issue.severity:<8} {issue.code}: {issue.message}", style="dim")
