"""History: the verdicts of many reports as one table, and whether the newest of a run is worse than its own past."""

from netlab.history.collect import collect
from netlab.history.trend import History, RunTrend, history

__all__ = ["History", "RunTrend", "collect", "history"]
