"""Align: raw trace tables become one run on one clock, with steps, matched collectives, and waiting told from transfer."""

from netlab.align.assemble import Aligned, align
from netlab.align.options import AlignOptions

__all__ = ["AlignOptions", "Aligned", "align"]
