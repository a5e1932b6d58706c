"""The slow steps of the slow run: from which on, and until when."""

from __future__ import annotations

from dataclasses import dataclass

from netlab.attribute import change_points, pooled_rows
from netlab.postmortem.series import SMALLEST_CHANGE, compared_rows, step_times
from netlab.run import Run

__all__ = ["Phase", "slow_phase"]

#: A run without a slow phase inside it is slow as a whole if more than this share of its steps is.
_MOST = 0.5


@dataclass(frozen=True)
class Phase:
    """``last`` is None where the run is slow to its end, ``whole`` where it is so from the first compared step on."""

    first: int
    last: int | None = None
    whole: bool = False

    @property
    def words(self) -> str:
        """When, for a sentence; empty where all of the run is slow.

        >>> Phase(7).words, Phase(7, 9).words, Phase(1, whole=True).words
        ('since step 7', 'in steps 7 to 9', '')
        """
        if self.whole:
            return ""
        return f"since step {self.first}" if self.last is None else f"in steps {self.first} to {self.last}"


def slow_phase(base: Run, run: Run) -> Phase | None:
    """A slow phase inside the run, else all compared steps if most of them are longer than the longest of the base.

    Parameters
    ----------
    base, run
        The good run and the slow one, with their tables.
    """
    rows = compared_rows(run)
    if "step" not in rows.columns or rows.is_empty():
        return None
    start = int(rows.sort("window", "step")["step"][0])
    found = change_points(pooled_rows(run.frame("breakdown")))
    if found.height:
        first, last, still = found.select("first_step", "last_step", "open").row(0)
        return Phase(first, None if still else last, whole=bool(still) and first == start)
    slow = step_times(run) > (1 + SMALLEST_CHANGE) * max(step_times(base), default=0.0)
    return Phase(start, whole=True) if len(slow) and slow.mean() > _MOST else None
