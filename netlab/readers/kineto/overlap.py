"""Writing one batch while the next one is scanned."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

from netlab.readers.kineto.document import Batch

__all__ = ["BatchThread"]


class BatchThread:
    """Hands batches to a function in a thread of its own, one at a time and in order. Compiled scanning lets that thread run.

    At most one batch is under way while the next is filled, so two sets of buffers are enough. An exception of the function is raised at
    the next call or at the end.
    """

    def __init__(self, consume: Callable[[Batch], None]) -> None:
        self._consume = consume
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="netlab-batches")
        self._under_way: Future[None] | None = None

    def __call__(self, batch: Batch) -> None:
        """Wait for the batch before, then start this one."""
        self._wait()
        self._under_way = self._pool.submit(self._consume, batch)

    def __enter__(self) -> BatchThread:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if kind is None:
                self._wait()
        finally:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def _wait(self) -> None:
        if self._under_way is not None:
            self._under_way.result()
            self._under_way = None
