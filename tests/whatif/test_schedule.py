"""Buckets and prefetch on hand-made steps."""

from __future__ import annotations

import numpy as np
import pytest

from netlab.run import Run
from netlab.whatif import Answer, Compression, Overlap, Scenario, what_if
from netlab.whatif.changes.buckets import cut
from netlab.whatif.scenarios import Change
from tests.whatif.makers import Kernel, make_run

MIB = 2**20


def _both(*kernels: Kernel, end: float) -> Run:
    every = [Kernel(**{**vars(kernel), "rank": rank}) for rank in (0, 1) for kernel in kernels]
    return make_run(every, [(0, 1, 0.0, end), (1, 1, 0.0, end)])


def _ask(run: Run, *changes: Change) -> Answer:
    return what_if(run, [Scenario(name="x", changes=changes)]).scenarios[0]


def _one_bucket() -> Run:
    """Compute 0-30, of which backward 10-30; one all-reduce of 100 MiB 30-50; the optimizer 50-52."""
    return _both(
        Kernel(0, 0, 30, launch=0.1),
        Kernel(0, 30, 50, stream=20, instance=0, bytes=100 * MIB, launch=0.2),
        Kernel(0, 50, 52, launch=0.3),
        end=52,
    )


def test_two_buckets_leave_as_soon_as_they_are_full() -> None:
    # Half of the bytes are ready at 20 and travel until 30, the rest from 30 to 40.
    answer = _ask(_one_bucket(), Overlap(bucket_mb=50.0))
    assert answer.predicted_ms == pytest.approx(42)
    # Half of the transfer is hidden under compute.
    assert answer.network_share == pytest.approx(10 / 42)
    assert answer.confidence == "datasheet"


def test_one_bucket_as_large_as_before_changes_nothing() -> None:
    assert _ask(_one_bucket(), Overlap(bucket_mb=100.0)).predicted_ms == pytest.approx(52)


def test_buckets_and_compression_are_replayed_together() -> None:
    # Buckets of 50 MiB at half the bytes: 20-25 and 30-35.
    answer = _ask(_one_bucket(), Overlap(bucket_mb=50.0), Compression(ratio=2.0, codec_ms=0.0))
    assert answer.predicted_ms == pytest.approx(37)


def test_a_bucket_closes_after_passing_its_cap() -> None:
    # Layers of 4.2 MB under a cap of 5 MiB go two and two, as measured with DDP.
    layers = np.array([4096, 4_194_304] * 6)
    assert cut(layers, 5 * MIB).tolist() == [3, 7, 11]


def test_prefetch_hides_all_gathers_behind_the_layer_before() -> None:
    kernels = []
    for unit in range(3):
        at = 20.0 * unit
        kernels.append(Kernel(0, at, at + 10, stream=20, instance=unit, bytes=MIB, op="all_gather", launch=max(0.0, at - 0.02)))
        kernels.append(Kernel(0, at + 10, at + 20, launch=max(0.0, at - 0.01)))
    run = _both(*kernels, end=60)
    # Gather 0 0-10; then compute and the next gather side by side: 10-20, 20-30; the last compute 30-40.
    assert _ask(run, Overlap(prefetch=1)).predicted_ms == pytest.approx(40, abs=0.1)
    assert _ask(run, Overlap(prefetch=0)).predicted_ms == pytest.approx(60, abs=0.1)


def test_prefetch_without_all_gathers_is_refused() -> None:
    answer = _ask(_one_bucket(), Overlap(prefetch=1))
    assert answer.refused is not None
    assert "all-gather" in answer.refused
