"""Rules about what ranks call: other operations at the same place of a group, sends without receives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import polars as pl

from netlab.diagnose.nccl_evidence import Evidence, Row, finding
from netlab.findings import Finding

__all__ = ["CALL", "group_words", "is_call", "mismatched_calls", "mismatches", "unmatched_messages"]

#: What names a call of a process group in a flight recorder's dump.
CALL = ["group", "group_name", "seq"]


def _operations(flight: pl.DataFrame) -> pl.DataFrame:
    """Collectives of which operation and rank are known, one row per call and rank."""
    known = ~pl.col("is_p2p").fill_null(False) & (pl.col("op") != "unknown") & pl.col("rank").is_not_null()
    columns = ("rank", "op", "bytes", "dtype", "state", "source")
    return flight.filter(known).select(*CALL, *columns).unique([*CALL, "rank"], keep="first", maintain_order=True)


def mismatched_calls(flight: pl.DataFrame) -> list[tuple[str, str | None, int]]:
    """(group, its name, sequence number) of the first call of each group in which ranks differ."""
    calls = _operations(flight)
    forms = calls.group_by(CALL).agg(
        ops=pl.col("op").n_unique(),
        sizes=pl.col("bytes").drop_nulls().n_unique(),
        types=pl.col("dtype").drop_nulls().n_unique(),
        op=pl.col("op").first(),
    )
    even = ~pl.col("op").is_in(["all_to_all", "gather", "scatter"])
    odd = forms.filter((pl.col("ops") > 1) | (even & ((pl.col("sizes") > 1) | (pl.col("types") > 1))))
    return odd.sort(CALL).unique(["group", "group_name"], keep="first", maintain_order=True).select(CALL).rows()


def mismatches(evidence: Evidence) -> Iterator[Finding]:
    """Ranks that call different operations, sizes or types at the same place of a group: the first such place of each group."""
    if evidence.flight.is_empty():
        return
    calls = _operations(evidence.flight)
    for group, name, seq in mismatched_calls(evidence.flight):
        rows = calls.filter(is_call(group, name, seq)).sort("rank").to_dicts()
        forms = Counter((row["op"], row["bytes"], row["dtype"]) for row in rows)
        common, count = forms.most_common(1)[0]
        minority = [row for row in rows if (row["op"], row["bytes"], row["dtype"]) != common]
        deviating = minority if 2 * count > len(rows) else rows
        named = {row["dtype"] for row in rows if row["dtype"] is not None}
        # A type of another width makes the sizes differ as well.
        different = "operations" if len({form[0] for form in forms}) > 1 else "types" if len(named) > 1 else "sizes"
        ranks = [row["rank"] for row in deviating]
        said = "; ".join(f"rank {row['rank']}: {_call(row)}" for row in deviating[:4])
        others = f"; the others: {_call(_first_of(rows, common))}" if deviating is minority else ""
        yield finding(
            "COLLECTIVE_MISMATCH",
            f"Ranks of {group_words(evidence.flight, group, name)} call different {different} at sequence number {seq}: {said}{others}.",
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


def is_call(group: str, name: str | None, seq: int) -> pl.Expr:
    """Entries of one call of a process group: several groups may have the same members."""
    return (pl.col("group") == group) & pl.col("group_name").eq_missing(pl.lit(name, pl.String)) & (pl.col("seq") == seq)


def group_words(flight: pl.DataFrame, group: str, name: str | None) -> str:
    """A group by its members, and by its name where another group has the same members."""
    alike = flight.filter(pl.col("group") == group)["group_name"].n_unique() if not flight.is_empty() else 1
    return f"group {group} ({name})" if name is not None and alike > 1 else f"group {group}"


def _first_of(rows: list[Row], form: tuple[object, ...]) -> Row:
    """The first row of one form."""
    return next(row for row in rows if (row["op"], row["bytes"], row["dtype"]) == form)


def _call(row: Row) -> str:
    size = f" of {row['bytes']:,} bytes" if row["bytes"] is not None else ""
    return f"{row['op']}{size}" + (f" ({row['dtype']})" if row["dtype"] is not None else "")


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
