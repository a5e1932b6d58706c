"""Why equal links carry unequal loads: passing collisions of few flows, or a hash that always chooses alike."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import polars as pl

from netlab.run import Run

__all__ = ["chance_of_spread", "spread_evidence"]

_FEWEST_LINKS, _FEWEST_POLLS = 4, 8
_SAME_ORDER = 0.8
_DRAWS = 2_000


def chance_of_spread(flows: int, links: int, max_over_mean: float, seed: int = 0) -> float:
    """Chance that equal flows, placed at random, load the fullest of some equal links at least so much above the mean.

    >>> chance_of_spread(8, 4, 1.5) > 0.5, chance_of_spread(800, 4, 1.5) < 0.01
    (True, True)
    """
    placed = np.random.default_rng(seed).multinomial(flows, [1 / links] * links, size=_DRAWS).max(axis=1)
    return float((1 + (placed >= max_over_mean * flows / links - 1e-9).sum()) / (1 + _DRAWS))


def spread_evidence(run: Run, rows: list[dict[str, Any]], max_over_mean: float) -> tuple[dict[str, Any], str]:
    """Evidence and a sentence about a group of equal links: the order of their loads in both halves of the time, and chance.

    An order that stays (rank correlation of at least 0.8) is a static hash or polarisation; one that changes are ordinary collisions. The
    number of flows is that of connections over the network in NCCL's log times the queue pairs of each.
    """
    evidence: dict[str, Any] = {}
    words = ""
    order = _order_between_halves(run, rows)
    if order is not None:
        evidence["rank_correlation_of_halves"] = round(order, 3)
        words = (
            " The same links were the fullest in both halves of the time: a static hash (polarisation), not passing collisions."
            if order >= _SAME_ORDER
            else " The order of the links changed over time: passing collisions of flows."
        )
    flows = _flows(run)
    if flows:
        evidence |= {"flows": flows, "chance": round(chance_of_spread(flows, len(rows), max_over_mean), 4)}
        words += f" {flows} flows placed at random on {len(rows)} links are so uneven with a chance of {evidence['chance']:.2g}."
    return evidence, words


def _order_between_halves(run: Run, rows: list[dict[str, Any]]) -> float | None:
    """Spearman's rank correlation of the links' bytes in the first and the second half of their polls."""
    if len(rows) < _FEWEST_LINKS:
        return None
    ports = [row["port"] for row in rows]
    wanted = (
        (pl.col("device") == rows[0]["device"])
        & pl.col("port").is_in(ports)
        & (pl.col("direction") == rows[0]["direction"])
        & (pl.col("metric") == "bytes")
        & pl.col("queue").is_null()
        & pl.col("delta").is_not_null()
    )
    polls = run.lazy("link_intervals").filter(wanted).select("port", "t0_ns", "delta").collect()
    times = polls["t0_ns"].unique().sort()
    if len(times) < _FEWEST_POLLS:
        return None
    late = pl.col("t0_ns") >= times[len(times) // 2]
    halves = polls.group_by("port").agg(pl.col("delta").filter(~late).sum().alias("a"), pl.col("delta").filter(late).sum().alias("b"))
    if halves.height < _FEWEST_LINKS or halves["a"].n_unique() == 1 or halves["b"].n_unique() == 1:
        return None
    value = halves.select(pl.corr("a", "b", method="spearman")).item()
    return None if value is None or np.isnan(value) else float(value)


def _flows(run: Run) -> int | None:
    """Connections over the network in NCCL's log, times queue pairs; None without a log."""
    connections = run.frame("connections")
    sending = connections.filter((pl.col("transport") == "NET") & (pl.col("side") == "send")) if connections.height else connections
    if not sending.height:
        return None
    events = run.frame("nccl_events")
    texts = [str(value) for key, value in events.select("key", "value").iter_rows() if key == "NCCL_IB_QPS_PER_CONNECTION"]
    pairs = {int(text) for text in texts if re.fullmatch(r"\d+", text)}
    return sending.height * (pairs.pop() if len(pairs) == 1 else 1)
