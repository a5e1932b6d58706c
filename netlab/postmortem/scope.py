"""What two runs allow to compare, what they do not, and what to record for it."""

from __future__ import annotations

import polars as pl

from netlab.postmortem.aligned import numbered_alike
from netlab.postmortem.series import step_times
from netlab.run import Run
from netlab.schema.comparison import COMPARED_SCOPE
from netlab.units import format_numbers, plural
from netlab.verdict.model import Verdict

__all__ = ["comparable"]

_NCCL = "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,NET,GRAPH,TUNING NCCL_DEBUG_FILE=DIR/nccl.%h.%p.log"
_STEPS = "prof.step()    # once per iteration, or netlab.capture(DIR)"
_TRACES = "Profile every rank of both runs."
_COUNTERS = "Put counters.csv (timestamp,device,port,counter,value) and ports.csv (device,port,speed_gbps,role) beside the traces."

_Row = tuple[str, bool, str, str | None]


def comparable(base: Run, base_verdict: Verdict, run: Run, verdict: Verdict) -> pl.DataFrame:
    """``COMPARED_SCOPE``: one row per aspect."""
    rows = [
        _steps(base, run),
        _ranks(base, run),
        _hardware(base, run),
        _split(base_verdict, verdict),
        _both("message sizes", base, run, "collectives", _TRACES, pl.col("bytes").is_not_null()),
        _both("transport and NICs", base, run, "connections", _NCCL),
        _both("NCCL settings", base, run, "communicators", _NCCL),
        _both("switch and NIC counters", base, run, "links", _COUNTERS),
        _placement(base, run),
    ]
    return COMPARED_SCOPE.conform(pl.DataFrame(rows, schema=list(COMPARED_SCOPE.schema), orient="row", infer_schema_length=None))


def _steps(base: Run, run: Run) -> _Row:
    old, new = len(step_times(base)), len(step_times(run))
    if base.facts.window != run.facts.window:
        return "steps", False, "One run has step marks, the other is a capture without them.", _STEPS
    if not old or not new:
        return "steps", False, "No step marks: only the captured spans are compared, so nothing is said about noise.", _STEPS
    how = "by number" if numbered_alike(base, run) else "first beside first, because their numbers differ"
    few = " With fewer than 3 on a side the variation is not known." if min(old, new) < 3 else ""
    return "steps", True, f"{old} of the base and {new} of the run, warm-up left out, {how}.{few}", None


def _ranks(base: Run, run: Run) -> _Row:
    old, new = set(base.facts.ranks), set(run.facts.ranks)
    if not old or not new:
        return "ranks", False, "One side has no traced rank.", _TRACES
    sizes = ""
    if base.facts.world_size != run.facts.world_size:
        sizes = (
            f" The jobs have {base.facts.world_size or '?'} and {run.facts.world_size or '?'} ranks: "
            "times of a step compare only if each rank does the same work."
        )
    if old == new:
        return "ranks", True, f"{plural(len(new), 'rank')}, each beside itself.{sizes}", None
    alone = sorted(new - old)
    own = f" {plural(len(alone), 'rank')} of the run ({format_numbers(alone)}) beside the base's mean." if alone else ""
    return "ranks", True, f"{plural(len(old & new), 'rank')} of both beside themselves.{own}{sizes}", None


def _hardware(base: Run, run: Run) -> _Row:
    old, new = (sorted(side.frame("ranks")["gpu_name"].drop_nulls().unique().to_list()) for side in (base, run))
    if not old or not new:
        return "GPUs", False, "Their model is not known on both sides.", "Profile with CUDA activities; the trace then names the device."
    if old == new:
        return "GPUs", True, f"{', '.join(new)} on both sides.", None
    return "GPUs", False, f"{', '.join(old)} in the base, {', '.join(new)} in the run: compute times are not of the same machine.", None


def _split(base: Verdict, verdict: Verdict) -> _Row:
    aspect = "waiting against transfer"
    if base.split == verdict.split == "measured":
        return aspect, True, "Measured on both sides.", None
    sides = [name for name, side in (("the base", base), ("the run", verdict)) if side.split != "measured"]
    return aspect, False, f"Not measured in {' and '.join(sides)}: waiting there may count as transfer.", _TRACES


def _both(aspect: str, base: Run, run: Run, table: str, action: str, rows: pl.Expr | None = None) -> _Row:
    lacking = []
    for name, side in (("the base", base), ("the run", run)):
        frame = side.frame(table)
        if not (frame if rows is None else frame.filter(rows)).height:
            lacking.append(name)
    if not lacking:
        return aspect, True, "Known on both sides.", None
    return aspect, False, f"Not recorded in {' and '.join(lacking)}.", action


def _placement(base: Run, run: Run) -> _Row:
    if base.facts.hosts and run.facts.hosts:
        return "placement", True, f"{plural(len(base.facts.hosts), 'host')} in the base, {len(run.facts.hosts)} in the run.", None
    action = "Put ranks.csv (rank,host) beside the traces; traces of PyTorch 2.2 and later name their host."
    return "placement", False, "Hosts are not known on both sides.", action
