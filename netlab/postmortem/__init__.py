"""Post-mortem: a slow run against a good one."""

from netlab.postmortem.compare import Side, compare, comparison_tables

__all__ = ["Side", "compare", "comparison_tables"]
