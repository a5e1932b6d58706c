"""Rules about collectives: who did not join, who called something else, who comes last."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from math import comb

import polars as pl

from netlab.diagnose.nccl_evidence import Evidence, Row, finding, joined
from netlab.findings import Finding

__all__ = ["hang_findings", "late_ranks", "mismatches", "ras_findings", "unmatched_messages"]

_CALL = ["group", "group_name", "seq"]


def mismatches(evidence: Evidence) -> Iterator[Finding]:
    """Ranks that call different operations, sizes or types at the same place of a group: the first such place of each group."""
    if evidence.flight.is_empty():
        return
    calls = (
        evidence.flight.filter(~pl.col("is_p2p").fill_null(False) & (pl.col("op") != "unknown") & pl.col("rank").is_not_null())
        .select("group", "group_name", "seq", "rank", "op", "bytes", "dtype", "state", "source")
        .unique([*_CALL, "rank"], keep="first", maintain_order=True)
    )
    odd = (
        calls.group_by(_CALL)
        .agg(
            ops=pl.col("op").n_unique(),
            sizes=pl.col("bytes").drop_nulls().n_unique(),
            types=pl.col("dtype").drop_nulls().n_unique(),
            op=pl.col("op").first(),
        )
        .filter(
            (pl.col("ops") > 1)
            | (~pl.col("op").is_in(["all_to_all", "gather", "scatter"]) & ((pl.col("sizes") > 1) | (pl.col("types") > 1)))
        )
        .sort(_CALL)
        .unique(["group", "group_name"], keep="first", maintain_order=True)
    )
    for group, name, seq in odd.select(_CALL).iter_rows():
        rows = calls.filter(_is_call(group, name, seq)).sort("rank").to_dicts()
        forms = Counter((row["op"], row["bytes"], row["dtype"]) for row in rows)
        common, count = forms.most_common(1)[0]
        minority = [row for row in rows if (row["op"], row["bytes"], row["dtype"]) != common]
        deviating = minority if 2 * count > len(rows) else rows
        named = {row["dtype"] for row in rows if row["dtype"] is not None}
        # A type of another width makes the sizes differ as well.
        different = "operations" if len({form[0] for form in forms}) > 1 else "types" if len(named) > 1 else "sizes"
        ranks = [row["rank"] for row in deviating]
        said = "; ".join(f"rank {row['rank']}: {_call(row)}" for row in deviating[:4])
        yield finding(
            "COLLECTIVE_MISMATCH",
            f"Ranks of group {group} call different {different} at sequence number {seq}: {said}; "
            + (f"the others: {_call(_first_of(rows, common))}." if deviating is minority else ""),
            detail=(
                "NCCL does not check this: ranks wait for each other for ever, or data are wrong. Everything behind it in the "
                "group is shifted."
            ),
            action=(
                "Find the branch that only these ranks take (conditional loss, uneven batches, unused parameters); the frames of "
                "the dump name the line."
            ),
            source="PyTorch flight recorder; torchfrtrace COLLECTIVE_TYPE_MISMATCH",
            evidence=[*deviating, *[row for row in rows if row not in deviating][:1]],
            ranks=ranks,
            groups=[group],
            severity="critical",
            cause="host",
        )


def _is_call(group: str, name: str | None, seq: int) -> pl.Expr:
    """Entries of one call of a process group: several groups may have the same members."""
    return (pl.col("group") == group) & pl.col("group_name").eq_missing(pl.lit(name, pl.String)) & (pl.col("seq") == seq)


def _first_of(rows: list[Row], form: tuple[object, ...]) -> Row:
    """The first row of one form."""
    return next(row for row in rows if (row["op"], row["bytes"], row["dtype"]) == form)


def _call(row: Row) -> str:
    size = f" of {row['bytes']:,} bytes" if row["bytes"] is not None else ""
    return f"{row['op']}{size}" + (f" ({row['dtype']})" if row["dtype"] is not None else "")


def hang_findings(evidence: Evidence) -> Iterator[Finding]:
    """Collectives that hang: who did not join, or that all are inside."""
    created = _created(evidence.flight)
    mismatched = {(f.subject.groups[0], f.title) for f in mismatches(evidence)}
    odd = {(group, int(m[1])) for group, title in mismatched if (m := re.search(r"sequence number (\d+)", title))}
    unmatched = {group for found in unmatched_messages(evidence) for group in found.subject.groups}
    # A rank that waits in one collective cannot join another: it is not the cause if some rank is free, or calls something else.
    explained = bool(odd) or any(set(h["missing_ranks"]) - _held(h, evidence.hangs).keys() for h in evidence.hangs)
    for hang in evidence.hangs:
        key = (hang["group"], hang["seq"])
        if key in odd or (hang["op"] in ("send", "recv") and hang["group"] in unmatched) or _follows(hang, evidence.hangs, created):
            continue
        op = "collective" if hang["op"] == "unknown" else hang["op"]
        seq, waiting, missing = hang["seq"], hang["waiting_ranks"], hang["missing_ranks"]
        groups = [] if hang["group"] == "unknown" else [hang["group"]]
        lines = _timeouts(evidence, seq)
        rows = (
            evidence.flight.filter(_is_call(hang["group"], hang["group_name"], seq))
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
                f"group {h['group']}."
                for h in evidence.hangs
                if any(of is h for of in held.values())
            )
            missing = free or missing
            who = f"Rank {missing[0]}" if len(missing) == 1 else f"Ranks {joined(missing)}"
            yield finding(
                "COLLECTIVE_NOT_JOINED",
                f"{who} did not join {op} {seq} of group {hang['group']}, in which {_ranks(waiting)} {_verb(waiting, 'waits', 'wait')}.",
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
                hosts=_hosts(evidence, missing),
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
            title = f"{op} {seq} of group {hang['group']} did not complete: {_ranks(waiting)} {_verb(waiting, 'is', 'are')} inside"
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
            told.append(f" The last call of rank {rank} is {row['op']} {row['seq']} of group {row['group']}{where}.")
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
    rows = flight.select(*_CALL, "rank", "created_ns").drop_nulls(["group", "seq", "rank", "created_ns"])
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


def _hosts(evidence: Evidence, ranks: list[int]) -> set[str]:
    return {c["host"] for c in evidence.communicators if c["global_rank"] in ranks and c["host"]}


def _without_dump(hang: Row, flight: pl.DataFrame) -> list[int]:
    parts = hang["group"].split(",")
    if not all(part.isdigit() for part in parts):
        return []
    seen = set(flight["rank"].drop_nulls().to_list())
    return sorted(int(part) for part in parts if int(part) not in seen)


def late_ranks(evidence: Evidence) -> Iterator[Finding]:
    """A rank whose operations are short while those of the others are long: they wait for it. Only without a timeline, which tells more."""
    if evidence.has_timeline:
        return
    flight = evidence.flight.filter((pl.col("timing") == "device") & ~pl.col("is_p2p").fill_null(False))
    flight = flight.with_columns(size=pl.col("group").str.split(",").list.len().cast(pl.Int64))
    inspected = evidence.profiler.filter(
        (pl.col("kind") == pl.col("op"))
        & ~pl.col("op").is_in(["send", "recv", "unknown"])
        & pl.col("rank").is_not_null()
        & pl.col("seq").is_not_null()
    )
    inspected = inspected.with_columns(size=pl.col("nranks"), group_name=pl.lit(None, pl.String))
    for frame, name, tool in ((flight, "group", "flight recorder"), (inspected, "comm_id", "NCCL Inspector")):
        found = _late(frame, name)
        if found is None:
            continue
        rank, last, count, caused_ms, groups, rows = found
        yield finding(
            "STRAGGLER",
            f"Rank {rank} arrives last in {last} of {count} collectives; the others wait {caused_ms:.1f} ms for it in all.",
            detail=(
                f"By the {tool}'s durations: in a collective the last one to arrive has the shortest time, and the rest of the "
                "others' time is waiting. "
                "What held it up (its compute, host or input) these records do not tell."
            ),
            action="Record a trace of that rank and one other (netlab.capture) and compare; check its clocks, temperature and data loader.",
            source="definition of wait and transfer, docs/methods.md",
            evidence=rows,
            ranks=[rank],
            groups=groups,
            hosts=_hosts(evidence, [rank]),
            cause="straggler",
        )


def _plain(shared: pl.DataFrame, clear: pl.DataFrame, group: str, rank: int) -> bool:
    """With few collectives: one rank is late in all of them, by more than three times the spread of the others."""
    if set(clear["rank"]) != {rank}:
        return False
    rest = (
        shared.filter(pl.col("rank") != rank)
        .group_by(group, "group_name", "seq")
        .agg(least=pl.col("duration_ns").min(), most=pl.col("duration_ns").max())
    )
    both = clear.join(rest, on=[group, "group_name", "seq"], nulls_equal=True)
    return bool(both.select(((pl.col("least") - pl.col("low")) > 3 * (pl.col("most") - pl.col("least"))).all()).item())


def _late(frame: pl.DataFrame, group: str) -> tuple[int, int, int, float, list[str], list[Row]] | None:
    """The rank that is last clearly more often than chance explains, or None."""
    shared = frame.filter(pl.col("duration_ns").is_not_null()).unique([group, "group_name", "seq", "rank"], maintain_order=True)
    if shared.is_empty():
        return None
    per = shared.group_by(group, "group_name", "seq").agg(
        members=pl.len(),
        size=pl.col("size").max(),
        rank=pl.col("rank").sort_by("duration_ns").first(),
        low=pl.col("duration_ns").min(),
        rest=pl.col("duration_ns").sum(),
    )
    # Who came last is known only if every member was seen.
    per = per.filter((pl.col("members") > 1) & (pl.col("members") == pl.col("size")))
    per = per.with_columns(caused=pl.col("rest") - pl.col("members") * pl.col("low"))
    # Below a tenth of the operation (and 50 us) a difference is launch jitter, not waiting.
    clear = per.filter(
        (pl.col("caused") / (pl.col("members") - 1) > 0.1 * pl.col("low")) & (pl.col("caused") / (pl.col("members") - 1) > 50_000)
    )
    if clear.is_empty():
        return None
    blamed = (
        clear.group_by("rank")
        .agg(last=pl.len(), caused=pl.col("caused").sum(), groups=pl.col(group).unique())
        .sort("caused", descending=True)
    )
    top = blamed.row(0, named=True)
    trials, ranks = clear.height, shared["rank"].n_unique()
    chance = sum(comb(trials, k) * (1 / ranks) ** k * (1 - 1 / ranks) ** (trials - k) for k in range(top["last"], trials + 1)) * ranks
    if (chance > 1e-3) if trials >= 5 else not _plain(shared, clear, group, top["rank"]):
        return None
    groups = sorted(str(name) for name in top["groups"] if name is not None)
    worst = clear.filter(pl.col("rank") == top["rank"]).sort("caused", descending=True).head(1)
    shown = shared.join(worst.select(group, "group_name", "seq"), on=[group, "group_name", "seq"], how="semi", nulls_equal=True).sort(
        "rank"
    )
    rows = [
        {
            "host": None,
            "source": r["source"],
            "line": None,
            "message": f"rank {r['rank']}: {r['op']} {r['seq']} took {r['duration_ns'] / 1e6:.3f} ms",
        }
        for r in shown.iter_rows(named=True)
    ]
    return int(top["rank"]), int(top["last"]), per.height, top["caused"] / 1e6, groups, rows


def unmatched_messages(evidence: Evidence) -> Iterator[Finding]:
    """A send that waits for a receive which its peer never posted, or the reverse; only where both dumps reach back to the beginning."""
    calls = evidence.flight.filter(pl.col("op").is_in(["send", "recv"]) & pl.col("peer").is_not_null() & pl.col("rank").is_not_null())
    calls = calls.unique(["rank", "group", "seq", "op", "peer", "record"], maintain_order=True)
    whole = set(evidence.flight.group_by("rank").agg(pl.col("record").min()).filter(pl.col("record") <= 1)["rank"].to_list())
    counts = Counter((row["group"], row["op"], row["rank"], row["peer"]) for row in calls.iter_rows(named=True))
    other = {"send": "recv", "recv": "send"}
    for (group, op, rank, peer), count in sorted(counts.items()):
        answered = counts[group, other[op], peer, rank]
        mine = calls.filter((pl.col("group") == group) & (pl.col("op") == op) & (pl.col("rank") == rank) & (pl.col("peer") == peer))
        pending = mine.filter((pl.col("state") != "completed") & ~((pl.col("state") == "scheduled") & pl.col("retired").fill_null(False)))
        if answered >= count or pending.is_empty() or not {rank, peer} <= whole:
            continue
        yield finding(
            "P2P_UNMATCHED",
            f"Rank {peer} did not post the {other[op]} for {count - answered} {op} of rank {rank}.",
            detail=(
                f"Rank {rank} has called {count} {op} with rank {peer} in group {group}, which has called {answered} {other[op]}; "
                f"rank {rank} waits."
            ),
            action="Compare the schedules of the two pipeline stages; the frames of the dump name the lines.",
            source="PyTorch flight recorder",
            evidence=pending.to_dicts(),
            ranks=[peer],
            groups=[group],
            severity="critical",
            cause="host",
        )


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
