"""Rules about collectives that do not complete: who did not join, and whom RAS cannot reach."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from netlab.diagnose.nccl_calls import CALL, group_words, is_call, mismatched_calls, unmatched_messages
from netlab.diagnose.nccl_evidence import Evidence, Row, finding, hosts_of, joined
from netlab.findings import Finding

__all__ = ["hang_findings", "ras_findings"]


def hang_findings(evidence: Evidence) -> Iterator[Finding]:
    """Collectives that hang: who did not join, or that all are inside."""
    created = _created(evidence.flight)
    odd = set(mismatched_calls(evidence.flight)) if not evidence.flight.is_empty() else set()
    unmatched = {group for found in unmatched_messages(evidence) for group in found.subject.groups}
    # A rank that waits in one collective cannot join another: it is not the cause if some rank is free, or calls something else.
    explained = bool(odd) or any(set(h["missing_ranks"]) - _held(h, evidence.hangs).keys() for h in evidence.hangs)
    for hang in evidence.hangs:
        if (
            (hang["group"], hang["group_name"], hang["seq"]) in odd
            or (hang["op"] in ("send", "recv") and hang["group"] in unmatched)
            or _follows(hang, evidence.hangs, created)
        ):
            continue
        group = group_words(evidence.flight, hang["group"], hang["group_name"])
        op = "collective" if hang["op"] == "unknown" else hang["op"]
        seq, waiting, missing = hang["seq"], hang["waiting_ranks"], hang["missing_ranks"]
        groups = [] if hang["group"] == "unknown" else [hang["group"]]
        lines = _timeouts(evidence, seq)
        rows = (
            evidence.flight.filter(is_call(hang["group"], hang["group_name"], seq))
            .unique("rank", maintain_order=True)
            .sort("rank")
            .to_dicts()
        )
        last = f" The last collective that all completed is {hang['last_completed_seq']}." if hang["last_completed_seq"] is not None else ""
        if missing:
            held = _held(hang, evidence.hangs)
            free = [rank for rank in missing if rank not in held]
            if not free and explained:
                continue
            inside = "".join(
                f" {_ranks(sorted(r for r in held if held[r] is h)).capitalize()} did not either, being inside {h['op']} {h['seq']} of "
                f"{group_words(evidence.flight, h['group'], h['group_name'])}."
                for h in evidence.hangs
                if any(of is h for of in held.values())
            )
            missing = free or missing
            who = f"Rank {missing[0]}" if len(missing) == 1 else f"Ranks {joined(missing)}"
            yield finding(
                "COLLECTIVE_NOT_JOINED",
                f"{who} did not join {op} {seq} of {group}, in which {_ranks(waiting)} {_verb(waiting, 'waits', 'wait')}.",
                detail=(
                    f"Those who wait print the timeout; the absent one is where to look.{last}{inside}{_last_calls(evidence, missing)} "
                    "It is late or stuck (data loader, out of memory, exception), or it died."
                ),
                action=(
                    "Take its Python stack (py-spy dump), read its log and dmesg at that time; the flight recorder's frames show the "
                    "last call that it made."
                ),
                source="PyTorch issue 118369; PyTorch flight recorder",
                evidence=[*rows, *lines],
                ranks=missing,
                groups=groups,
                hosts=hosts_of(evidence, missing),
                severity="critical",
                cause="host",
            )
            continue
        if hang["basis"] == "watchdog":
            title = f"The watchdog timed out {op} {seq}, reported by {_ranks(waiting)}."
            if lines and all("numel_in=1 " in f"{e['value']} " for e in lines if e["code"] == "watchdog_timeout"):
                last += " It moves one element: such a call is a barrier, so a slow or absent rank is likelier than the network."
            detail = f"A rank that does not report, or whose last enqueued number is lower, is the first suspect.{last}"
        else:
            scheduled = [row["rank"] for row in rows if row["state"] == "scheduled"]
            behind = f" The GPU of {_ranks(scheduled)} has not started it." if scheduled and len(scheduled) < len(rows) else ""
            absent = _without_dump(hang, evidence.flight)
            title = f"{op} {seq} of {group} did not complete: {_ranks(waiting)} {_verb(waiting, 'is', 'are')} inside"
            title += f"; {_ranks(absent)} left no dump." if absent else "."
            detail = (
                "Every rank with a dump has joined and none has finished: the network or NCCL itself, unless a rank without a "
                f"dump is missing.{behind}{last}"
            )
        yield finding(
            "COLLECTIVE_TIMEOUT",
            title,
            detail=detail,
            action=(
                "Look for InfiniBand errors and port events at that time, take dumps of all ranks (TORCH_NCCL_DUMP_ON_TIMEOUT=1), "
                "and ask ncclras."
            ),
            source="PyTorch ProcessGroupNCCL watchdog",
            evidence=[*lines, *rows],
            ranks=waiting,
            groups=groups,
            severity="critical",
        )


def _last_calls(evidence: Evidence, ranks: list[int]) -> str:
    """The last call that each of some ranks made, with the line of code where the dump has it."""
    told = []
    for rank in ranks[:3]:
        own = evidence.flight.filter((pl.col("rank") == rank) & pl.col("group").is_not_null()).sort("created_ns", "record", "seq")
        for row in own.tail(1).iter_rows(named=True):
            where = f", called from {row['frame']}" if row["frame"] else ""
            told.append(
                f" The last call of rank {rank} is {row['op']} {row['seq']} of {group_words(own, row['group'], row['group_name'])}{where}."
            )
    return "".join(told)


def _held(hang: Row, others: list[Row]) -> dict[int, Row]:
    """Ranks missing from a hang that wait in another one, and the first such."""
    return {
        rank: next(other for other in others if other is not hang and rank in other["waiting_ranks"])
        for rank in hang["missing_ranks"]
        if any(other is not hang and rank in other["waiting_ranks"] for other in others)
    }


def _verb(ranks: list[int], one: str, many: str) -> str:
    return one if len(ranks) == 1 else many


def _ranks(ranks: list[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {joined(ranks)}"


def _created(flight: pl.DataFrame) -> dict[tuple[str, str | None, int, int], int]:
    rows = flight.select(*CALL, "rank", "created_ns").drop_nulls(["group", "seq", "rank", "created_ns"])
    return {(group, name, seq, rank): created for group, name, seq, rank, created in rows.iter_rows()}


def _follows(hang: Row, others: list[Row], created: dict[tuple[str, str | None, int, int], int]) -> bool:
    """Whether every rank of a hang was stuck in another group before: then it is a consequence."""

    def earlier(rank: int) -> bool:
        own = created.get((hang["group"], hang["group_name"], hang["seq"], rank))
        return any(
            own is not None and (at := created.get((other["group"], other["group_name"], other["seq"], rank))) is not None and at < own
            for other in others
            if other is not hang and rank in other["waiting_ranks"]
        )

    return not hang["missing_ranks"] and bool(hang["waiting_ranks"]) and all(earlier(rank) for rank in hang["waiting_ranks"])


def _timeouts(evidence: Evidence, seq: int) -> list[Row]:
    return [e for e in evidence.of_code("watchdog_timeout", "watchdog_status") if e["key"] == str(seq)]


def _without_dump(hang: Row, flight: pl.DataFrame) -> list[int]:
    parts = hang["group"].split(",")
    if not all(part.isdigit() for part in parts):
        return []
    seen = set(flight["rank"].drop_nulls().to_list())
    return sorted(int(part) for part in parts if int(part) not in seen)


def ras_findings(evidence: Evidence) -> Iterator[Finding]:
    """What NCCL's RAS status says: ranks that do not answer, and ranks that have launched less than the rest."""
    gone = evidence.of_code("ras_missing", "ras_dead")
    if gone:
        ranks = sorted({e["rank"] for e in gone if e["rank"] is not None})
        hosts = sorted({e["host"] for e in gone if e["host"]})
        yield finding(
            "RANK_UNRESPONSIVE",
            f"RAS cannot reach {_ranks(ranks) if ranks else 'a process'}" + (f" on {joined(hosts)}." if hosts else "."),
            detail="The process died or its host hangs; every collective with it waits.",
            action="Read the log and dmesg of that host; the other ranks only wait.",
            source="NCCL RAS (ncclras)",
            evidence=gone,
            hosts=hosts,
            ranks=ranks,
            severity="critical",
            cause="host",
        )
    behind = evidence.of_code("ras_behind")
    if behind:
        ranks = sorted({e["rank"] for e in behind if e["rank"] is not None})
        yield finding(
            "COLLECTIVE_NOT_JOINED",
            f"{_ranks(ranks).capitalize()} did not join what the others have launched ({behind[0]['value']}).",
            detail="One status is a moment: if a second one shows the same counts, the job hangs and these ranks are where to look.",
            action="Ask ncclras again after a minute; take the Python stack of these ranks (py-spy dump).",
            source="NCCL RAS (ncclras)",
            evidence=behind,
            ranks=ranks,
            hosts={e["host"] for e in behind if e["host"]},
            groups={e["key"] for e in behind if e["key"]},
            cause="host",
        )
