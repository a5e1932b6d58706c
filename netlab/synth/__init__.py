"""Training runs that never happened, with known truth, in the file formats of real ones."""

from __future__ import annotations

from netlab.synth.plants import PLANTS, Expectation, expectation, spec_for
from netlab.synth.simulate import Simulation, simulate
from netlab.synth.spec import Group, Spec
from netlab.synth.truth import Truth, clock_offsets_ns, iteration_ms, truth_of, what_if_truth
from netlab.synth.write import TRUTH_NAME, write_run

__all__ = [
    "PLANTS",
    "TRUTH_NAME",
    "Expectation",
    "Group",
    "Simulation",
    "Spec",
    "Truth",
    "clock_offsets_ns",
    "expectation",
    "iteration_ms",
    "simulate",
    "spec_for",
    "truth_of",
    "what_if_truth",
    "write_run",
]
