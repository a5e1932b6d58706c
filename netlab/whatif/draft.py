"""A scenario while its changes are applied: the costs of every node, and what has to be said about them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from netlab.run import Run
from netlab.whatif.build import Model
from netlab.whatif.codec_costs import CodecCosts
from netlab.whatif.costs import Transfers
from netlab.whatif.graph import Graph

__all__ = ["CONFIDENCE", "Draft", "Refusal", "Setting", "worse"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: From surest to least sure.
CONFIDENCE = ("measured", "calibrated", "datasheet", "bound-only")


def worse(one: str, other: str) -> str:
    """The less sure of two confidence classes.

    >>> worse("measured", "datasheet")
    'datasheet'
    """
    return max(one, other, key=CONFIDENCE.index)


class Refusal(Exception):  # noqa: N818 -- an answer, not a failure
    """The inputs cannot carry an answer. ``missing`` names what would."""

    def __init__(self, reason: str, missing: tuple[str, ...] = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.missing = missing


@dataclass(frozen=True)
class Setting:
    """What every change may look at."""

    run: Run
    model: Model
    transfers: Transfers
    #: Declared one-direction rates per GPU.
    intra_node_gbps: float | None = None
    inter_node_gbps: float | None = None
    #: Codec costs of the user's device, where they were measured.
    codecs: CodecCosts | None = None
    #: Gradients of unknown instants are there only when their measured bucket was full, instead of evenly before.
    late_gradients: bool = False

    @property
    def unknown_share(self) -> float:
        """Share of communication time whose split into wait and transfer is not known."""
        total = self.model.graph.duration_ns[self.transfers.node]
        return float(total[self.transfers.of("unknown")].sum() / total.sum()) if total.sum() else 0.0

    @property
    def bounded_share(self) -> float:
        """Share of communication time that is only bounded, because members are missing."""
        total = self.model.graph.duration_ns[self.transfers.node]
        return float(total[self.transfers.of("bounded")].sum() / total.sum()) if total.sum() else 0.0


@dataclass
class Draft:
    """Costs of one scenario. Changes edit it in place, in the order of `netlab.whatif.changes.apply`."""

    graph: Graph
    lag_ns: Floats
    duration_ns: Floats
    #: The run's transfers, and those that the scenario adds; the two parts below are what changes divide.
    transfers: Transfers
    latency_ns: Floats
    byte_ns: Floats
    #: Time before and behind a node that is compute of its own (encoding, decoding, repeated micro-batches).
    lead_ns: Floats
    tail_ns: Floats
    #: Time before a node that belongs to its step but delays it through other nodes; for the tables only.
    before_ns: Floats
    bound: str | None = None
    micro_batches: int = 1
    confidence: str = "measured"
    kinds: list[str] = field(default_factory=list)
    assumptions: list[str] = field(default_factory=list)
    inputs_used: list[str] = field(default_factory=list)
    inputs_missing: list[str] = field(default_factory=list)
    #: Least and most that the byte part of each transfer may be, relative to its point value; None where nothing was said.
    byte_range: tuple[Floats, Floats] | None = None
    #: Transfers that a change is about but leaves alone, because they may be waiting.
    unsplit: NDArray[np.bool_] | None = None
    #: By how much a step may get longer because ranks on the cores of one host no longer leave them to each other.
    crowded_ms: float = 0.0
    #: What the run's own steps say about the work that the scenario repeats, per row of the steps (NaN: nothing); its median was taken.
    repeated_ns: Floats | None = None
    #: Gradients were taken to appear evenly, because no instants of theirs are known.
    even_gradients: bool = False
    #: Edges between nodes that the scenario adds and takes away (places among the graph's predecessors).
    more: list[tuple[Ints, Ints]] = field(default_factory=list)
    dropped: list[Ints] = field(default_factory=list)
    #: Rows of the activities that kernels of the scenario replace.
    replaced: list[Ints] = field(default_factory=list)

    @classmethod
    def of(cls, setting: Setting) -> Draft:
        """The unchanged run."""
        graph = setting.model.graph
        return cls(
            graph=graph,
            lag_ns=graph.lag_ns.copy(),
            duration_ns=graph.duration_ns.copy(),
            transfers=setting.transfers,
            latency_ns=setting.transfers.latency_ns.copy(),
            byte_ns=setting.transfers.byte_ns.copy(),
            lead_ns=np.zeros(graph.size),
            tail_ns=np.zeros(graph.size),
            before_ns=np.zeros(graph.size),
        )

    @property
    def size(self) -> int:
        """Number of nodes, those that the scenario adds included."""
        return len(self.lag_ns)

    def add_nodes(self, lag_ns: Floats) -> Ints:
        """Append nodes without a length of their own; returns their numbers."""
        first = self.size
        nothing = np.zeros(len(lag_ns))
        self.lag_ns = np.concatenate((self.lag_ns, lag_ns))
        self.duration_ns = np.concatenate((self.duration_ns, nothing))
        self.lead_ns = np.concatenate((self.lead_ns, nothing))
        self.tail_ns = np.concatenate((self.tail_ns, nothing))
        self.before_ns = np.concatenate((self.before_ns, nothing))
        return np.arange(first, self.size)

    def widen(self, chosen: NDArray[np.bool_] | Ints, low: float, high: float) -> None:
        """The byte part of the chosen transfers may be ``low`` to ``high`` times its point value. Call it once all transfers are there."""
        if low == high == 1.0:
            return
        if self.byte_range is None:
            self.byte_range = np.ones(self.transfers.size), np.ones(self.transfers.size)
        self.byte_range[0][chosen] *= low
        self.byte_range[1][chosen] *= high

    def durations(self, byte_scale: float | Floats = 1.0) -> Floats:
        """Length of every node; transfers are latency plus bytes."""
        result = self.duration_ns.copy()
        result[self.transfers.node] = self.latency_ns + self.byte_ns * byte_scale
        return result

    def costs(self, byte_scale: float | Floats = 1.0) -> Floats:
        """Cost of every node."""
        return self.lag_ns + self.durations(byte_scale) + self.lead_ns + self.tail_ns

    def say(self, sentence: str) -> None:
        """Add an assumption once."""
        if sentence not in self.assumptions:
            self.assumptions.append(sentence)

    def lower(self, confidence: str) -> None:
        """Be at most this sure."""
        self.confidence = worse(self.confidence, confidence)
