"""COLL lines in columns: millions of them fit in memory, and identities are put in once they are known."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from netlab.readers.nccl.names import DTYPES, dtype_name, op_name
from netlab.readers.nccl.state import Communicator
from netlab.schema import TABLES

__all__ = ["Operations"]

_PART_ROWS = 100_000
#: Operations whose message is the buffer of all ranks together, while the call counts one rank's part.
_WHOLE = frozenset({"all_gather", "reduce_scatter", "all_to_all", "gather", "scatter"})

Ints = NDArray[np.int64]


class _Block(NamedTuple):
    """Numbers of calls; ``stream`` -1 stands for none."""

    owner: NDArray[np.int32]
    function: NDArray[np.int16]
    seq: Ints
    elements: Ints
    dtype: NDArray[np.int16]
    root: NDArray[np.int32]
    stream: Ints
    line: Ints


class Operations:
    """The calls of a file."""

    def __init__(self) -> None:
        self._blocks: list[_Block] = []
        self._rows: list[tuple[int, ...]] = []
        self._owners: list[Communicator] = []
        self._number: dict[int, int] = {}
        self._functions: dict[str, int] = {}

    def communicator(self, owner: Communicator) -> int:
        """The number that stands for a communicator."""
        number = self._number.get(id(owner))
        if number is None:
            number = self._number[id(owner)] = len(self._owners)
            self._owners.append(owner)
        return number

    def function(self, name: str) -> int:
        """The number that stands for a function's name."""
        return self._functions.setdefault(name, len(self._functions))

    def add(self, owner: Communicator, parts: dict[str, str | None], line: int) -> None:
        """One call."""
        stream = parts["stream"] or ""
        numbers = (parts["seq"] or "0", parts["count"] or "0", parts["dtype"] or "0", parts["root"] or "0")
        seq, count, dtype, root = int(numbers[0], 16), int(numbers[1]), int(numbers[2]), int(numbers[3])
        where = int(stream, 16) if stream.startswith("0x") else -1
        self._rows.append((self.communicator(owner), self.function(parts["function"] or ""), seq, count, dtype, root, where, line))
        if len(self._rows) >= _PART_ROWS:
            self._seal()

    def add_columns(self, owner: Ints, function: Ints, seq: Ints, count: Ints, dtype: Ints, root: Ints, stream: Ints, line: Ints) -> None:
        """Many calls, in order."""
        self._seal()
        narrow = (owner.astype(np.int32), function.astype(np.int16), dtype.astype(np.int16), root.astype(np.int32))
        self._blocks.append(_Block(narrow[0], narrow[1], seq.copy(), count.copy(), narrow[2], narrow[3], stream.copy(), line))

    def _seal(self) -> None:
        if self._rows:
            rows, self._rows = np.array(self._rows, dtype=np.int64), []
            self.add_columns(*(rows[:, i] for i in range(rows.shape[1])))

    def ready(self, source: str) -> Iterator[pl.DataFrame]:
        """Full parts, once every communicator in sight has printed its id; then nothing that comes later can change a row.

        An address that was never announced (a torn number, a log that begins late) stands for itself and holds nothing up.
        """
        if sum(len(block.line) for block in self._blocks) >= _PART_ROWS and all(o.unique_id or o.rank is None for o in self._owners):
            yield from self.frames(source)

    def frames(self, source: str) -> Iterator[pl.DataFrame]:
        """``logged_operations``, in parts; what was handed out is forgotten."""
        self._seal()
        while self._blocks:
            taken: list[_Block] = []
            while self._blocks and sum(len(block.line) for block in taken) < _PART_ROWS:
                taken.append(self._blocks.pop(0))
            yield self._frame(_Block(*(np.concatenate(column) for column in zip(*taken, strict=True))), source)

    def _frame(self, block: _Block, source: str) -> pl.DataFrame:
        names = [op_name(name) for name in self._functions]
        ids = [owner.unique_id or owner.comm_id or owner.pointer for owner in self._owners]
        sizes = np.array([DTYPES[code][1] if code in DTYPES else 0 for code in range(256)])
        size = np.where((block.dtype >= 0) & (block.dtype < 256), sizes[block.dtype.clip(0, 255)], 0)
        nranks = np.array([owner.nranks or 0 for owner in self._owners])[block.owner]
        factor = np.where(np.array([name in _WHOLE for name in names])[block.function], nranks, 1)
        # A torn number may be larger than any buffer: then the size is not known.
        too_large = block.elements.astype(np.float64) * size * factor > 2**62
        sent = np.where(too_large, 0, block.elements) * size * factor
        types = [dtype_name(code) for code in range(256)]
        streams, place = np.unique(block.stream, return_inverse=True)
        frame = pl.DataFrame({
            "comm_id": pl.Series(ids, dtype=pl.String)[block.owner],
            "host": pl.Series([owner.process.host for owner in self._owners], dtype=pl.String)[block.owner],
            "pid": np.array([owner.process.pid for owner in self._owners])[block.owner],
            "rank": pl.Series([owner.rank for owner in self._owners], dtype=pl.Int64)[block.owner],
            "op": pl.Series(names, dtype=pl.String)[block.function],
            "seq": block.seq,
            "count": block.elements,
            "dtype": pl.Series(types, dtype=pl.String)[block.dtype.clip(0, 255)],
            "bytes": pl.Series(sent).set(pl.Series((size == 0) | (factor == 0) | too_large), None),
            "root": block.root,
            "stream": pl.Series([None if s < 0 else hex(s) for s in streams.tolist()], dtype=pl.String)[place.reshape(-1)],
            "source": pl.Series([source]).new_from_index(0, len(block.line)),
            "line": block.line,
        })  # fmt: skip
        # Already in the order of lines: no sorting of millions of rows.
        return frame.select(pl.col(name).cast(dtype) for name, dtype in TABLES["logged_operations"].schema.items())
