"""A made run as a folder of files."""

from __future__ import annotations

import gzip
import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from netlab.synth.kineto import trace_json
from netlab.synth.nccl import log_name, nccl_log
from netlab.synth.plants import spec_for
from netlab.synth.simulate import Simulation, simulate
from netlab.synth.truth import Truth, truth_of

__all__ = ["TRUTH_NAME", "write_run"]

TRUTH_NAME = "truth.json"


def write_run(folder: str | Path, plant: str = "none", ranks: int = 8, steps: int | None = None, seed: int = 0, **overrides: Any) -> Truth:
    """Write a GPU training run with known truth in the file formats of real ones.

    Parameters
    ----------
    folder
        Where the files go; made if absent. Files of the same names are replaced, others stay.
    plant
        The fault, one of ``PLANTS``.
    ranks, steps, seed
        Size of the job and seed of everything random; the same arguments give the same bytes.
    overrides
        Further fields of ``Spec``, such as ``gpus_per_node``, ``tensor_parallel``, ``clock_skew_ns``.

    Returns
    -------
    The truth, which also stands in ``truth.json``.

    Raises
    ------
    ConfigError
        If there is no such plant or parameter, or the ranks cannot be laid out.

    Examples
    --------
    >>> import tempfile
    >>> truth = write_run(tempfile.mkdtemp(), plant="straggler", ranks=4, steps=2, seed=3)
    >>> truth.cause, truth.subject["ranks"]
    ('straggler', [2])
    """
    spec = spec_for(plant, ranks=ranks, steps=steps, seed=seed, **overrides)
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    simulation = simulate(spec)
    with ThreadPoolExecutor(max_workers=2) as pool:
        jobs = [pool.submit(_write_trace, target, simulation, rank) for rank in range(spec.ranks)]
        for job in jobs:
            job.result()
    logs = target / "nccl"
    logs.mkdir(exist_ok=True)
    for rank in range(spec.ranks):
        _write_whole(logs / log_name(spec, rank), nccl_log(spec, rank).encode())
    truth = truth_of(simulation)
    _write_whole(target / TRUTH_NAME, msgspec.json.encode(truth))
    return truth


def _write_trace(folder: Path, simulation: Simulation, rank: int) -> None:
    # No file name and no time in the gzip header: the same seed gives the same bytes.
    packed = gzip.compress(trace_json(simulation, rank).encode(), compresslevel=9, mtime=0)
    _write_whole(folder / f"rank{rank}.pt.trace.json.gz", packed)


def _write_whole(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    handle, draft = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        os.chmod(draft, 0o644)
        os.replace(draft, path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
