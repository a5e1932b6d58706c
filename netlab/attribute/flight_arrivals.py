"""Arrival skew from flight-recorder dumps: which rank called a collective how long after the first."""

from __future__ import annotations

import polars as pl

from netlab.schema.nccl_structure import FLIGHT_ARRIVALS

__all__ = ["flight_arrivals"]

_CALL = ["group", "group_name", "seq"]


def flight_arrivals(flight: pl.DataFrame) -> pl.DataFrame:
    """Lag of every member's call behind the first one, of collectives that all members called.

    Dumps hold the instant of the call on the CPU, by the clock of each host. The least lag of a rank in a group is taken for its clock (or
    for a delay that never changes); what goes beyond it in a single collective is lateness.

    Parameters
    ----------
    flight
        ``FLIGHT``. Groups whose members the dump does not list are left out, since nobody knows who is absent.

    Returns
    -------
    ``FLIGHT_ARRIVALS``.

    Examples
    --------
    >>> from netlab.schema.nccl import FLIGHT
    >>> rows = [(rank, seq, 10 * seq + lag) for rank, lags in ((0, (0, 0)), (1, (2, 9))) for seq, lag in enumerate(lags)]
    >>> frame = FLIGHT.conform(pl.DataFrame([
    ...     {"rank": rank, "group": "0,1", "seq": seq, "op": "all_reduce", "state": "completed", "created_ns": at, "source": "x"}
    ...     for rank, seq, at in rows]))
    >>> flight_arrivals(frame).filter(pl.col("rank") == 1).select("lag_ns", "excess_ns").rows()
    [(2, 0), (9, 7)]
    """
    calls = flight.filter(
        pl.col("rank").is_not_null()
        & pl.col("seq").is_not_null()
        & (pl.col("created_ns") > 0)
        & ~pl.col("is_p2p").fill_null(value=False)
        & ~pl.col("op").is_in(["send", "recv", "unknown"])
        & pl.col("group").str.contains(r"^\d+(?:,\d+)+$")
    ).unique([*_CALL, "rank"], keep="first", maintain_order=True)
    size = pl.col("group").str.count_matches(",") + 1
    same = pl.col("op").n_unique().over(_CALL) == 1
    whole = calls.filter((pl.len().over(_CALL) == size) & same)
    lag = whole.with_columns(lag_ns=pl.col("created_ns") - pl.col("created_ns").min().over(_CALL))
    several = pl.len().over("group", "group_name", "rank") > 1
    excess = pl.when(several).then(pl.col("lag_ns") - pl.col("lag_ns").min().over("group", "group_name", "rank"))
    return FLIGHT_ARRIVALS.validate(FLIGHT_ARRIVALS.conform(lag.with_columns(excess_ns=excess)))
