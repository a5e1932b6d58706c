"""The TUNING table: NCCL's predicted latency and bandwidth per operation, algorithm and protocol."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import polars as pl

from netlab.readers.nccl.messages import Message
from netlab.readers.nccl.names import op_name
from netlab.readers.nccl.state import Communicator, Process
from netlab.schema import TABLES

__all__ = ["TuningTable"]

_CELL = re.compile(r"(-?\d{1,15}(?:\.\d{1,15})?)/ *(-?\d{1,15}(?:\.\d{1,15})?)")
_NAME = re.compile(r"[A-Za-z]\w*")
_PROTOCOLS = ("LL", "LL128", "Simple")
#: Columns of tables that print no header row of their own (2.5 to 2.7), by the number of algorithms.
_DEFAULT_ALGORITHMS = ("Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT")


@dataclass
class _Block:
    algorithms: tuple[str, ...] = ()


@dataclass
class TuningTable:
    """Rows of the blocks, one block per header row. Predictions of bandwidth 0 mean that the combination is off."""

    _blocks: dict[int, _Block] = field(default_factory=dict)
    _rows: list[tuple[Communicator | None, Process, str, str, str, float, float, int]] = field(default_factory=list)

    def add(self, process: Process, owner: Communicator | None, message: Message, line: int) -> None:
        """One line of the table. ``Algorithm`` begins a block; the number of protocols per algorithm follows from the width of a row."""
        block = self._blocks.setdefault(id(process), _Block())
        cells = message.parts["cells"] or ""
        if message.kind == "table_algorithms":
            block.algorithms = tuple(_NAME.findall(cells))
        elif message.kind == "table_row":
            pairs = [(float(a), float(b)) for a, b in _CELL.findall(cells)]
            algorithms = block.algorithms or _DEFAULT_ALGORITHMS[: len(pairs) // len(_PROTOCOLS)]
            function = op_name(message.parts["function"] or "")
            if function == "unknown" or len(pairs) < len(algorithms) * len(_PROTOCOLS):
                return
            for number, (latency, bandwidth) in enumerate(pairs[: len(algorithms) * len(_PROTOCOLS)]):
                if bandwidth > 0:
                    algorithm, protocol = algorithms[number // len(_PROTOCOLS)], _PROTOCOLS[number % len(_PROTOCOLS)]
                    self._rows.append((owner, process, function, algorithm, protocol, latency, bandwidth, line))

    def frame(self, source: str) -> pl.DataFrame:
        """``tuning_predictions``."""
        rows = [(o.comm_id if o else None, p.host, p.pid, *rest, source, line) for o, p, *rest, line in self._rows]
        table = TABLES["tuning_predictions"]
        return table.conform(pl.DataFrame(rows, schema=dict(table.schema), orient="row"))
