"""What-if: replay a measured run with changed costs, and say how wrong the answer may be."""

from netlab.whatif.answers import Answer, Baseline, WhatIf
from netlab.whatif.predict import Rates, what_if
from netlab.whatif.scenario_files import load_scenarios, parse_scenarios
from netlab.whatif.scenarios import Accumulation, Compression, Compute, Overlap, Scenario, Straggler, Topology, default_scenarios

__all__ = [
    "Accumulation",
    "Answer",
    "Baseline",
    "Compression",
    "Compute",
    "Overlap",
    "Rates",
    "Scenario",
    "Straggler",
    "Topology",
    "WhatIf",
    "default_scenarios",
    "load_scenarios",
    "parse_scenarios",
    "what_if",
]
