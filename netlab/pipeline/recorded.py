"""What a run was recorded with, what it lacks, and how to record that the next time."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from netlab.run import Run
from netlab.units import format_numbers, plural

__all__ = ["COMMANDS", "Recorded", "recorded"]

#: What records each kind of evidence; charts that lack it say the same as doctor.
COMMANDS = {
    "activity": "with netlab.capture(DIR) as recording: ... recording.step()    # on every rank, around the loop; docs/recording.md",
    "steps": "recording.step()    # or prof.step(), once per iteration, last line of the loop's body",
    "more steps": "netlab.capture(DIR, active=8)",
    "sizes": "profile(..., record_shapes=True), as netlab.capture does; an old torch writes no sizes of NCCL calls",
    "sync": "netlab.capture(DIR), or profile(..., experimental_config=_ExperimentalConfig(enable_cuda_sync_events=True))",
    "nccl": "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,NET,GRAPH,TUNING NCCL_DEBUG_FILE=DIR/nccl.%h.%p.log    # netlab.capture sets it",
    "flight": "TORCH_NCCL_DUMP_ON_TIMEOUT=1 TORCH_FR_BUFFER_SIZE=2000    # old torch: TORCH_NCCL_TRACE_BUFFER_SIZE; netlab.capture sets it",
    "nics": "netlab.capture(DIR, counters_ms=100)    # or a CSV of timestamp,device,port,counter,value beside the traces",
    "switches": "a CSV of timestamp,device,port,counter,value, or a Prometheus query_range answer, of the run's time; docs/counters.md",
    "queues": "ethtool -S IFACE > DIR/ethtool.HOST.txt    # on a switch its queue counters (show queue counters); docs/counters.md",
    "cables": "ibnetdiscover > DIR/ib.txt, or show lldp neighbors of the switches, or links.csv (a_device,a_port,b_device,b_port); "
    "ranks.csv (rank,host,nic)",
    "speeds": "ports.csv (device,port,speed_gbps) beside the traces, or [links] inter_node_gbps in netlab.toml",
    "speed tests": "all_reduce_perf -b 8 -e 8G -f 2 of nccl-tests on the same hosts; put its output beside the traces",
    "pairs": "sendrecv_perf -b 8 -e 1G -f 2 of nccl-tests, two hosts at a time    # collectives do not tell which pair is slow",
}

_NCCL_ADDS = "transport, NICs and NCCL settings"
#: Below this many steps nothing is said about the variation between them (`netlab compare`).
_FEW_STEPS = 3


@dataclass(frozen=True)
class Recorded:
    """One kind of evidence: ``state`` is has, partly, lacks or needless; ``adds`` what it tells; ``note`` how much; ``how`` records it."""

    state: str
    adds: str
    note: str = ""
    how: str = ""


def recorded(run: Run) -> list[Recorded]:
    """Everything that a run may be recorded with, most useful first.

    Parameters
    ----------
    run
        An opened run; nothing is read anew.
    """
    facts = run.facts
    found = [_activity(run), _ranks(run), _steps(run), _sizes(run)]
    if facts.backend == "cpu":
        needless = "collectives run on the CPU"
        found += [Recorded("needless", "recorded dependencies for what-if", needless), Recorded("needless", _NCCL_ADDS, needless)]
    else:
        state = "has" if run.frame("sync_events").height else "lacks"
        found += [Recorded(state, "recorded dependencies for what-if", how=COMMANDS["sync"]), _logs(run), _flight(run)]
    return [
        *found,
        *_counters(run),
        _speeds(run),
        _known(run, "link_speed_tests", "the measured roofline of collectives", COMMANDS["speed tests"]),
    ]


def _known(run: Run, table: str, adds: str, how: str) -> Recorded:
    return Recorded("has" if run.manifest.tables.get(table, 0) else "lacks", adds, how=how)


def _activity(run: Run) -> Recorded:
    adds = "device activity: where the step's time went"
    active = run.lazy("activities").select(pl.col("rank").n_unique()).collect().item()
    if not active:
        return Recorded("lacks", adds, how=COMMANDS["activity"])
    traced = len(run.facts.ranks)
    if active < traced:
        return Recorded("partly", adds, f"of {active} of {traced} ranks", COMMANDS["activity"])
    return Recorded("has", adds)


def _ranks(run: Run) -> Recorded:
    adds = "every rank: waiting told from transferring"
    facts = run.facts
    if facts.missing_ranks:
        return Recorded(
            "partly",
            adds,
            f"no trace of {plural(len(facts.missing_ranks), 'rank')}: {format_numbers(facts.missing_ranks)}",
            COMMANDS["activity"],
        )
    if not facts.ranks or facts.world_size is None:
        return Recorded("lacks", adds, "the number of ranks is not known" if facts.ranks else "", COMMANDS["activity"])
    return Recorded("has", adds)


def _steps(run: Run) -> Recorded:
    adds = "step marks: figures per step"
    steps = len(run.facts.steps)
    if not steps:
        return Recorded("lacks", adds, how=COMMANDS["steps"])
    if steps < _FEW_STEPS:
        return Recorded("partly", adds, f"only {plural(steps, 'step')}: variation is not known", COMMANDS["more steps"])
    return Recorded("has", adds)


def _sizes(run: Run) -> Recorded:
    adds = "sizes and groups of collectives: bandwidth, what-if"
    how = COMMANDS["sizes"]
    sizes = run.lazy("collectives").select(pl.len().alias("all"), pl.col("bytes").is_not_null().sum().alias("known")).collect()
    everything, known = sizes.row(0)
    if not known:
        return Recorded("lacks", adds, how=how)
    return Recorded("has", adds) if known == everything else Recorded("partly", adds, f"{known / everything:.0%} of the calls", how)


def _logs(run: Run) -> Recorded:
    hosts = set(run.frame("communicators")["host"].drop_nulls()) | set(run.frame("connections")["host"].drop_nulls())
    silent = sorted(set(run.facts.hosts) - hosts)
    if not run.manifest.tables.get("communicators", 0):
        return Recorded("lacks", _NCCL_ADDS, how=COMMANDS["nccl"])
    if hosts & set(run.facts.hosts) and silent:
        return Recorded("partly", _NCCL_ADDS, f"no log of {_names(silent)}", COMMANDS["nccl"])
    return Recorded("has", _NCCL_ADDS)


def _flight(run: Run) -> Recorded:
    adds = "flight recorder: hanging and mismatched collectives (written when one times out)"
    return _known(run, "flight", adds, COMMANDS["flight"])


def _counters(run: Run) -> list[Recorded]:
    """Counters of hosts and of switches are two things to record: one alone shows one end of the path."""
    ports = run.frame("ports")
    hosts = set(run.facts.hosts) | set(ports["host"].drop_nulls())
    counted = set(run.frame("counter_coverage")["device"])
    silent = sorted(set(run.facts.hosts) - counted)
    nics = "counters of the hosts' NICs: congestion and loss at the ends"
    if not counted & hosts:
        at_hosts = Recorded("lacks", nics, how=COMMANDS["nics"])
    elif silent:
        at_hosts = Recorded("partly", nics, f"not of {_names(silent)}", COMMANDS["nics"])
    else:
        at_hosts = Recorded("has", nics)
    switches = counted - hosts
    fabric = Recorded("has" if switches else "lacks", "counters of switches: which link", how=COMMANDS["switches"])
    cables = Recorded("has" if _has(run, "cables") else "lacks", "cables: the path from a rank to a port", how=COMMANDS["cables"])
    return [at_hosts, fabric, cables]


def _speeds(run: Run) -> Recorded:
    declared = run.manifest.config.links.inter_node_gbps is not None
    known = declared or run.frame("ports")["speed_gbps"].is_not_null().any()
    return Recorded(
        "has" if known else "lacks", "speeds of the links: how full they are, what another fabric brings", how=COMMANDS["speeds"]
    )


def _has(run: Run, table: str) -> bool:
    return bool(run.manifest.tables.get(table, 0))


def _names(names: list[str], most: int = 4) -> str:
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
