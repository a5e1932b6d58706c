"""Post-mortem: a slow run against a good one."""

from netlab.postmortem.compare import Side, compare

__all__ = ["Side", "compare"]
