"""COLL lines in columns: millions of them fit in memory, and identities are put in once the file has been read."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from netlab.readers.nccl.names import buffer_bytes, dtype_name, dtype_size, op_name
from netlab.readers.nccl.state import Communicator
from netlab.schema import TABLES

__all__ = ["OPERATION_FIELDS", "Operations"]

#: Numbers kept per call: communicator, function, opCount, count, data type, root, stream, line. -1 stands for none.
OPERATION_FIELDS = 8
_PART_ROWS = 400_000


class Operations:
    """The calls of a file."""

    def __init__(self) -> None:
        self._blocks: list[np.ndarray[tuple[int, int], np.dtype[np.int64]]] = []
        self._rows: list[tuple[int, ...]] = []
        self._communicators: dict[int, tuple[int, Communicator]] = {}
        self._functions: dict[str, int] = {}

    def communicator(self, owner: Communicator) -> int:
        """The number that stands for a communicator."""
        return self._communicators.setdefault(id(owner), (len(self._communicators), owner))[0]

    def function(self, name: str) -> int:
        """The number that stands for a function's name."""
        return self._functions.setdefault(name, len(self._functions))

    def add(self, owner: Communicator, parts: dict[str, str | None], line: int) -> None:
        """One call."""
        stream = parts["stream"] or ""
        self._rows.append((
            self.communicator(owner), self.function(parts["function"] or ""), int(parts["seq"] or "0", 16), int(parts["count"] or 0),
            int(parts["dtype"] or 0), int(parts["root"] or 0), int(stream, 16) if stream.startswith("0x") else -1, line,
        ))  # fmt: skip
        if len(self._rows) >= _PART_ROWS:
            self._seal()

    def add_block(self, block: np.ndarray[tuple[int, int], np.dtype[np.int64]]) -> None:
        """Many calls as rows of numbers in the order of ``OPERATION_FIELDS``."""
        self._seal()
        self._blocks.append(block)

    def _seal(self) -> None:
        if self._rows:
            self._blocks.append(np.array(self._rows, dtype=np.int64))
            self._rows = []

    def frames(self, source: str) -> Iterator[pl.DataFrame]:
        """``logged_operations``, in parts."""
        self._seal()
        owners = [owner for _, owner in self._communicators.values()]
        names = [op_name(name) for name in self._functions]
        while self._blocks:
            block = self._blocks.pop(0)
            for start in range(0, len(block), _PART_ROWS):
                yield self._frame(block[start : start + _PART_ROWS], owners, names, source)

    def _frame(
        self, block: np.ndarray[tuple[int, int], np.dtype[np.int64]], owners: list[Communicator], names: list[str], source: str
    ) -> pl.DataFrame:
        owner, function, seq, count, dtype, root, stream, line = (block[:, i] for i in range(OPERATION_FIELDS))

        def of(values: list[object], index: np.ndarray[tuple[int], np.dtype[np.int64]], kind: type[pl.DataType] | pl.DataType) -> pl.Series:
            return pl.Series(values, dtype=kind)[index] if values else pl.Series([], dtype=kind)

        types = np.unique(dtype)
        place = np.searchsorted(types, dtype)
        shapes, inverse = np.unique(np.column_stack((owner, function, dtype, count)), axis=0, return_inverse=True)
        sizes: list[object] = [buffer_bytes(names[f], int(n), dtype_size(int(d)), owners[o].nranks) for o, f, d, n in shapes.tolist()]
        streams, stream_place = np.unique(stream, return_inverse=True)
        frame = pl.DataFrame({
            "comm_id": of([o.comm_id for o in owners], owner, pl.String),
            "host": of([o.process.host for o in owners], owner, pl.String),
            "pid": of([o.process.pid for o in owners], owner, pl.Int64),
            "rank": of([o.rank for o in owners], owner, pl.Int64),
            "op": of(list(names), function, pl.String),
            "seq": seq,
            "count": count,
            "dtype": of([dtype_name(int(t)) for t in types], place, pl.String),
            "bytes": of(sizes, inverse.reshape(-1), pl.Int64),
            "root": root,
            "stream": of([None if s < 0 else hex(s) for s in streams.tolist()], stream_place.reshape(-1), pl.String),
            "source": pl.Series([source]).new_from_index(0, len(block)),
            "line": line,
        })  # fmt: skip
        return TABLES["logged_operations"].conform(frame)
