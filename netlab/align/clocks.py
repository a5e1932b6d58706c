"""Clock domains and their offsets, from the common ends of synchronising collectives."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import astuple, dataclass

import numpy as np
import polars as pl

from netlab.align.classify import SYNCHRONISING
from netlab.issues import Issue
from netlab.units import NS_PER_MS, NS_PER_S, NS_PER_US

__all__ = ["SKEW_NS", "Clocks", "correct", "measure_clocks"]

#: Above this a rank leaves its host's domain, and an offset between domains is an issue.
SKEW_NS = 100 * NS_PER_US
#: A residual needs this many instances.
_LEAST_SAMPLES = 3
#: Drift over less than this is noise (thousands of ppm on 1 to 4 s of trace, -61 ppm on 123 s: measured on Gloo runs).
_LEAST_DRIFT_SPAN_NS = 60 * NS_PER_S
_DRIFT_POINTS = 200
#: A deviation inside a host must be this many times the scatter of ends.
_NOISE_FACTOR = 3


@dataclass(frozen=True)
class Clocks:
    """What is known about the clocks of a run."""

    #: rank, domain, host, offset_ns, drift_ppm, error_ns, samples; one row per rank.
    table: pl.DataFrame
    #: Instant at which ``offset_ns`` holds; drift counts from here.
    origin_ns: int
    #: Offsets of all domains against the first are known.
    aligned: bool


def measure_clocks(matched: pl.DataFrame, ranks: list[int], hosts: Mapping[int, str], issues: list[Issue]) -> Clocks:
    """Measure the offset of every clock domain.

    A domain is a host where the data names it, else a rank; a rank that deviates from its host by more than 100 us becomes its own. Offsets
    are relative to the domain of the lowest rank, positive = ahead.

    Parameters
    ----------
    matched
        One row per member of an instance: instance, gid, rank, op, end_ns (file's own clock).
    ranks, hosts
        Ranks with a trace, and the hosts of those for which it is known.
    """
    ends = _usable_ends(matched)
    origin = int(ends["end_ns"].min()) if ends.height else 0  # type: ignore[arg-type]
    domains = {rank: hosts.get(rank, f"rank {rank}") for rank in ranks}
    domains = _split_deviating(domains, ends, ranks, hosts)
    found = _solve(ends, domains, origin)
    table = pl.DataFrame(
        [
            (
                rank,
                domains[rank],
                hosts.get(rank),
                *(astuple(found[domains[rank]])[:4] if domains[rank] in found else (None, None, None, 0)),
            )
            for rank in ranks
        ],
        schema={
            "rank": pl.Int32,
            "domain": pl.String,
            "host": pl.String,
            "offset_ns": pl.Int64,
            "drift_ppm": pl.Float64,
            "error_ns": pl.Int64,
            "samples": pl.Int64,
        },
        orient="row",
    )
    _tell(table, issues)
    return Clocks(table, origin, aligned=all(name in found and found[name].connected for name in domains.values()))


def correct(frame: pl.DataFrame, clocks: Clocks, columns: tuple[str, ...]) -> pl.DataFrame:
    """Subtract each rank's clock offset (and drift) from instants of a frame that has a ``rank`` column."""
    moved = clocks.table.filter((pl.col("offset_ns") != 0) | (pl.col("drift_ppm") != 0))
    if moved.is_empty():
        return frame
    terms = moved.select("rank", shift_ns="offset_ns", drift=pl.col("drift_ppm").fill_null(0.0))
    frame = frame.join(terms, on="rank", how="left", maintain_order="left")
    shift, drift = pl.col("shift_ns").fill_null(0), pl.col("drift").fill_null(0.0)
    return frame.with_columns(
        (pl.col(name) - shift - ((pl.col(name) - clocks.origin_ns - shift) * drift * 1e-6).round().cast(pl.Int64)).alias(name)
        for name in columns
    ).drop("shift_ns", "drift")


def _usable_ends(matched: pl.DataFrame) -> pl.DataFrame:
    """Ends of synchronising instances seen on two ranks or more; all-to-all only where a group has nothing else."""
    shared = matched.filter(pl.len().over("instance") > 1)
    synchronising = pl.col("op").is_in(SYNCHRONISING)
    only = ~synchronising.any().over("gid") & (pl.col("op") == "all_to_all")
    ends = shared.filter(synchronising | only).select("instance", "gid", "rank", "end_ns")
    return (
        ends.with_columns(center_ns=pl.col("end_ns").min().over("instance"))
        .with_columns(residual_ns=(pl.col("end_ns") - pl.col("center_ns")).cast(pl.Float64))
        .with_columns(residual_ns=pl.col("residual_ns") - pl.col("residual_ns").median().over("instance"))
    )


def _split_deviating(domains: dict[int, str], ends: pl.DataFrame, ranks: list[int], hosts: Mapping[int, str]) -> dict[int, str]:
    if len(set(domains.values())) == len(ranks) or ends.is_empty():
        return domains
    alone = {rank: f"rank {rank}" for rank in ranks}
    offsets = _solve(ends, alone, 0)
    result = dict(domains)
    for host in sorted(set(domains.values())):
        inside = [rank for rank in ranks if domains[rank] == host and alone[rank] in offsets]
        if len(inside) < 2:
            continue
        values = [offsets[alone[rank]].offset_ns for rank in inside]
        center = values[0] if len(inside) == 2 else float(np.median(np.array(values, np.float64)))
        for rank, value in zip(inside, values, strict=True):
            # Where ends scatter by milliseconds (Gloo), a median of some hundred microseconds is no clock.
            noise = offsets[alone[rank]].error_ns or 0
            if abs(value - center) > max(SKEW_NS, _NOISE_FACTOR * noise):
                result[rank] = alone[rank]
    return result


@dataclass(frozen=True)
class _Offset:
    offset_ns: int
    drift_ppm: float | None
    error_ns: int | None
    samples: int
    #: Shared groups lead to the lowest rank's domain; otherwise the offset is against the lowest domain that they lead to.
    connected: bool


def _solve(ends: pl.DataFrame, domains: Mapping[int, str], origin_ns: int) -> dict[str, _Offset]:
    """Offset, drift, error and sample count per domain, walked from the lowest rank's domain through shared groups."""
    names = list(dict.fromkeys(domains[rank] for rank in sorted(domains)))
    if not names:
        return {}
    number = {name: place for place, name in enumerate(names)}
    places = pl.DataFrame(
        {"rank": list(domains), "domain": [number[name] for name in domains.values()]}, schema={"rank": pl.Int32, "domain": pl.Int32}
    )
    ends = ends.join(places, on="rank")
    if len(names) > 1:
        ends = ends.filter(pl.col("domain").n_unique().over("instance") > 1)
    lanes = (
        ends.group_by("gid", "domain")
        .agg(
            offset=pl.col("residual_ns").median(),
            samples=pl.col("instance").n_unique(),
            span=pl.col("end_ns").max() - pl.col("end_ns").min(),
        )
        .sort("gid", "domain")
    )
    long = ends.height > 0 and int(lanes["span"].max() or 0) > _LEAST_DRIFT_SPAN_NS  # type: ignore[arg-type]
    drifts = _drifts(ends, lanes, origin_ns) if long else None
    if drifts is not None:
        lanes = lanes.with_columns(pl.Series("offset", drifts[0]), pl.Series("drift", drifts[1]))
    offset, roots = _walk(lanes, "offset", len(names))
    drift = _walk(lanes, "drift", len(names))[0] if drifts is not None else None
    errors = _errors(ends, offset, drift, origin_ns)
    found: dict[str, _Offset] = {}
    for place, name in enumerate(names):
        error, samples = errors.get(place, (None, 0))
        if samples or place == 0:
            ppm = None if drift is None else drift[place] * 1e6
            found[name] = _Offset(round(offset[place]), ppm, error, samples, connected=roots[place] == 0)
    return found


def _drifts(ends: pl.DataFrame, lanes: pl.DataFrame, origin_ns: int) -> tuple[list[float], list[float]]:
    """Intercept at the origin and slope of every (lane, domain), by the median of pairwise slopes (Theil 1950, Sen 1968)."""
    parts = {
        (lane, domain): (at.to_numpy().astype(np.float64), residual.to_numpy())
        for lane, domain, at, residual in ends.with_columns(at=pl.col("end_ns") - origin_ns)
        .sort("at")
        .group_by("gid", "domain")
        .agg("at", "residual_ns")
        .iter_rows()
        for at, residual in [(pl.Series(at), pl.Series(residual))]
    }
    offsets, slopes = [], []
    for lane, domain, offset, span in lanes.select("gid", "domain", "offset", "span").iter_rows():
        at, residual = parts[lane, domain]
        if span <= _LEAST_DRIFT_SPAN_NS or len(at) < _LEAST_SAMPLES:
            offsets.append(offset)
            slopes.append(0.0)
            continue
        chosen = np.unique(np.linspace(0, len(at) - 1, min(len(at), _DRIFT_POINTS)).astype(np.int64))
        x, y = at[chosen], residual[chosen]
        later, earlier = np.triu_indices(len(x), 1)[1], np.triu_indices(len(x), 1)[0]
        far = x[later] - x[earlier] > span / 10
        slope = float(np.median((y[later] - y[earlier])[far] / (x[later] - x[earlier])[far]))
        offsets.append(float(np.median(residual - slope * at)))
        slopes.append(slope)
    return offsets, slopes


def _walk(lanes: pl.DataFrame, column: str, domains: int) -> tuple[list[float], list[int]]:
    """Value of every domain against the lowest one that shared groups connect it to, and that one's number.

    Groups and domains form a graph; it is walked along the group with most samples first.
    """
    of_domain: dict[int, list[tuple[int, int, float]]] = defaultdict(list)
    of_lane: dict[int, list[tuple[int, float]]] = defaultdict(list)
    for lane, domain, value, samples in lanes.select("gid", "domain", column, "samples").iter_rows():
        of_domain[domain].append((-samples, lane, value))
        of_lane[lane].append((domain, value))
    values, roots = [0.0] * domains, [-1] * domains
    done: set[int] = set()
    for root in range(domains):
        if roots[root] >= 0:
            continue
        roots[root] = root
        ahead = [(weight, lane, value) for weight, lane, value in of_domain[root]]
        heapq.heapify(ahead)
        while ahead:
            _, lane, shift = heapq.heappop(ahead)
            if lane in done:
                continue
            done.add(lane)
            for domain, value in of_lane[lane]:
                if roots[domain] >= 0:
                    continue
                roots[domain], values[domain] = root, value - shift
                for weight, further, there in of_domain[domain]:
                    heapq.heappush(ahead, (weight, further, there - values[domain]))
    return values, roots


def _errors(ends: pl.DataFrame, offset: list[float], drift: list[float] | None, origin_ns: int) -> dict[int, tuple[int | None, int]]:
    """Median absolute residual of each domain after correction, against the median of the instance; null below three instances."""
    solved = pl.DataFrame(
        {
            "domain": list(range(len(offset))),
            "offset": offset,
            "drift": drift or [0.0] * len(offset),
        },
        schema={"domain": pl.Int32, "offset": pl.Float64, "drift": pl.Float64},
    )
    left = ends.join(solved, on="domain").with_columns(
        left_ns=pl.col("residual_ns") - pl.col("offset") - pl.col("drift") * (pl.col("end_ns") - origin_ns).cast(pl.Float64)
    )
    left = left.with_columns(left_ns=(pl.col("left_ns") - pl.col("left_ns").median().over("instance")).abs())
    found = left.group_by("domain").agg(error=pl.col("left_ns").median(), samples=pl.col("instance").n_unique())
    return {
        domain: (round(error) if samples >= _LEAST_SAMPLES else None, samples)
        for domain, error, samples in found.sort("domain").iter_rows()
    }


def _tell(table: pl.DataFrame, issues: list[Issue]) -> None:
    # An offset is against the lowest rank, whose clock is known no better than to its own error.
    error = pl.col("error_ns").fill_null(0) + pl.lit(table["error_ns"].fill_null(0).first(), pl.Int64)
    skewed = table.filter(pl.col("offset_ns").abs() > pl.max_horizontal(pl.lit(SKEW_NS), error))
    for domain, offset in skewed.select("domain", "offset_ns").unique().sort("domain").iter_rows():
        side = "ahead of" if offset > 0 else "behind"
        text = (
            f"The clock of {domain} is {abs(offset) / NS_PER_MS:.3f} ms {side} that of the lowest rank, by the common ends of collectives; "
            "it was corrected."
        )
        issues.append(Issue(code="CLOCK_SKEW", message=text))
    unchecked = table.filter(pl.col("error_ns").is_null())["domain"].unique(maintain_order=True)
    if table["domain"].n_unique() > 1 and len(unchecked):
        text = (
            f"How well the clocks of {len(unchecked)} domain(s) agree is not known (first: {unchecked[0]}): fewer than {_LEAST_SAMPLES} "
            "synchronising collectives are shared with others. Waits carry no allowance for it; record more steps."
        )
        issues.append(Issue(code="CLOCK_UNCHECKED", message=text, severity="info"))
